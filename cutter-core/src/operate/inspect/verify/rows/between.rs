//! What the rows of one effect have in common, and what follows from one table for another.

use super::*;
use crate::machine::backlog::BacklogState as S;
use crate::record::approval::{Purpose, field, parse_field};

/// Moves that an effect makes: the state, the effect, and the reason that stands with it.
const MOVES: [(&str, E, &str); 4] = [
    ("cut_in_progress", E::LegA, "cut started"),
    ("cut_applied", E::LegA, "cut committed"),
    ("verify_in_progress", E::WriteVerify, "verify started"),
    ("verified_complete", E::WriteVerify, "verified"),
];

/// A text in a move's detail; empty if it is not there.
fn detail_of(row: Row<'_>, name: &str) -> String {
    let detail = row.0.get("detail").and_then(|detail| detail.get(name));
    detail.and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl World<'_> {
    pub(super) fn entry_and_history(&mut self) {
        const ENTRY: &str = "decision_backlog_entry";
        const HISTORY: &str = "decision_backlog_history";
        const SWEEP: &str = "decision_backlog_sweep_log";
        let document = self.document_id.clone();
        let marked = self.effects_of(E::Mark).next();
        if let (None, Some(_)) = (self.entry(), marked) {
            self.fault(ENTRY, "expected the entry that was marked, observed none");
        }
        let Some(entry) = self.entry() else { return };
        self.same(ENTRY, entry, "document_id", &document);
        let entry_id = entry.text("entry_id");
        if let Some(effect) = marked {
            self.timed(ENTRY, entry, effect);
        } else {
            self.fault(ENTRY, "an entry that no effect marked");
        }
        if let Some(set) = self.set() {
            for column in ["source_document_id", "source_version_id", "region_sha", "manifest_digest"] {
                self.same("cut_change_set", set, column, &entry.text(column));
            }
            self.same("cut_change_set", set, "entry_id", &entry_id);
            self.same("cut_change_set", set, "unit_count", &entry.text("candidate_count"));
        }
        let set_id = self.set().map(|r| r.text("change_set_id")).unwrap_or_default();
        for row in self.of(HISTORY).filter(|r| r.text("entry_id") == entry_id) {
            let to = row.text("to_state");
            if to == S::Marked.as_str() {
                if let Some(effect) = marked {
                    self.timed(HISTORY, row, effect);
                }
                self.same(HISTORY, row, "actor", &entry.text("actor"));
                self.same(HISTORY, row, "reason", "marked");
                let detail = row.0.get("detail").and_then(Value::as_object);
                if detail.is_some_and(|detail| detail.keys().any(|key| key != "depends_on")) {
                    self.fault(
                        HISTORY,
                        format!("detail: expected what it depends on, observed {}", row.text("detail")),
                    );
                }
            } else {
                self.detail(HISTORY, row, &to);
            }
            let of = row.text("change_set_id");
            if !of.is_empty() && of != set_id {
                self.fault(HISTORY, format!("{to}: change_set_id: observed {of}, which is not the run's"));
            }
            let cut = MOVES.iter().find(|(state, ..)| *state == to);
            if let Some((_, effect, reason)) = cut {
                match self.effects_of(*effect).next() {
                    Some(effect) => self.timed(HISTORY, row, effect),
                    None => self.fault(HISTORY, format!("{to}: no effect did that")),
                }
                self.same(HISTORY, row, "reason", reason);
                self.same(HISTORY, row, "change_set_id", &set_id);
                let of = if *effect == E::LegA { self.set() } else { self.of("verify_result").next() };
                if let Some(of) = of {
                    self.same(HISTORY, row, "actor", &of.text("actor"));
                }
            } else if [S::Marked, S::ReviewPending].iter().any(|state| state.as_str() == to) {
                self.same(HISTORY, row, "change_set_id", "");
            }
            if to == S::ReviewPending.as_str() {
                let log = self.of(SWEEP).find(|log| log.at() == row.at());
                match log {
                    Some(log) => {
                        self.same(HISTORY, row, "actor", &log.text("actor"));
                        let said = detail_of(row, "sweep_id");
                        if said != log.text("sweep_id") {
                            self.fault(
                                HISTORY,
                                format!(
                                    "detail: expected sweep_id {}, observed {said:?}",
                                    log.text("sweep_id")
                                ),
                            );
                        }
                        if self.effects_of(E::Sweep).any(|e| row.at() == Some(e.at)) {
                            self.same(HISTORY, row, "reason", "sweep");
                            let detail = row.0.get("detail").and_then(Value::as_object);
                            if detail.is_some_and(|detail| detail.len() != 1) {
                                self.fault(
                                    HISTORY,
                                    format!("detail: expected its pass, observed {}", row.text("detail")),
                                );
                            }
                        }
                    }
                    None => self.fault(HISTORY, format!("at: no pass of a sweep is of {}", row.text("at"))),
                }
            }
            if to == S::ReviewedApproved.as_str() {
                let decided = self.of("review_decision").any(|d| d.at() == row.at());
                if !decided {
                    self.fault(HISTORY, format!("at: no decision is of {}", row.text("at")));
                }
                self.same(HISTORY, row, "reason", "approve");
            }
        }
        for effect in self.effects_of(E::Sweep) {
            let log = self.of(SWEEP).find(|r| r.at() == Some(effect.at));
            if self.of(SWEEP).filter(|r| r.at() == Some(effect.at) && r.text("run_id") == self.run_id).count()
                > 1
            {
                self.fault(
                    SWEEP,
                    format!("sweep {}: expected one log row, observed more", effect.key.occurrence),
                );
            }
            match log {
                None => {
                    self.fault(SWEEP, format!("sweep {}: its log row is not there", effect.key.occurrence))
                }
                Some(log) => {
                    self.same(SWEEP, log, "document_id", &document);
                    let run = self.run_id.to_owned();
                    self.same(SWEEP, log, "run_id", &run);
                    let promoted = log.text("promoted");
                    let moved = self
                        .of(HISTORY)
                        .any(|r| r.at() == log.at() && r.text("to_state") == S::ReviewPending.as_str());
                    if moved != promoted.contains(&entry_id) {
                        self.fault(
                            SWEEP,
                            format!("promoted: expected {entry_id} as its move says, observed {promoted}"),
                        );
                    }
                }
            }
        }
        let run = self.run_id;
        for log in self.of(SWEEP).filter(|r| r.text("run_id") == run) {
            if !self.effects_of(E::Sweep).any(|e| log.at() == Some(e.at)) {
                self.fault(SWEEP, format!("a pass of {} that no effect made", log.text("at")));
            }
        }
    }

    /// What a move says of itself: the pass or the decision that made it, and nothing where an effect did.
    fn detail(&mut self, table: &'static str, row: Row<'_>, to: &str) {
        let says_nothing = matches!(row.text("detail").as_str(), "" | "{}");
        let decided = detail_of(row, "review_decision_id");
        let is_known = match to {
            _ if says_nothing || to == S::ReviewPending.as_str() => true,
            _ => self.of("review_decision").any(|d| d.text("id") == decided),
        };
        if !is_known {
            self.fault(table, format!("{to}: detail: expected none, observed {}", row.text("detail")));
        }
    }

    /// Decisions, approvals and what used them.
    pub(super) fn consent(&mut self) {
        let document = self.document_id.clone();
        let reviews = [E::Sg1Review, E::Sg2Review, E::Sg3Review];
        let answered: Vec<Timestamp> =
            reviews.iter().flat_map(|e| self.effects_of(*e)).map(|e| e.at).collect();
        for row in self.of("review_approval") {
            const TABLE: &str = "review_approval";
            self.same(TABLE, row, "document_id", &document);
            self.same(TABLE, row, "inserted_by", "cutter_review");
            if row.at().is_none_or(|at| !answered.contains(&at)) {
                self.fault(
                    TABLE,
                    format!("{}: no effect stored it at {}", row.text("approval_id"), row.text("at")),
                );
            }
            let text = row.bytes("document").and_then(|b| String::from_utf8(b).ok()).unwrap_or_default();
            if row.digest("sha256") != Some(Digest::of(text.as_bytes())) {
                self.fault(TABLE, "sha256: not that of the document");
            }
            let said = |name: &str| parse_field(&text, name).map(ToOwned::to_owned);
            for (column, name) in [
                ("decision", "decision"),
                ("type", "approval_type"),
                ("nonce", field::NONCE),
                ("actor", "actor"),
            ] {
                match said(name) {
                    Some(said) => self.same(TABLE, row, column, &said),
                    None => self.fault(TABLE, format!("{column}: the document does not say {name}")),
                }
            }
            let decided = self.of("review_decision").find(|d| d.uuid("id") == row.uuid("review_decision_id"));
            let Some(decided) = decided else {
                self.fault("review_decision", format!("{}: not there", row.text("review_decision_id")));
                continue;
            };
            for column in ["type", "nonce", "request_sha256"] {
                self.same("review_decision", decided, column, &row.text(column));
            }
            if row.text("type") != Purpose::Lifecycle.as_str() {
                for column in ["decision", "actor"] {
                    self.same("review_decision", decided, column, &row.text(column));
                }
                if decided.at() != row.at() {
                    self.fault(
                        "review_decision",
                        format!("at: expected {}, observed {}", row.text("at"), decided.text("at")),
                    );
                }
            }
        }
        for row in self.of("review_decision") {
            const TABLE: &str = "review_decision";
            self.same(TABLE, row, "document_id", &document);
            let is_request = row.text("type") == Purpose::Lifecycle.as_str();
            if is_request {
                self.same(TABLE, row, "inserted_by", "cutter_exec");
                if !self.effects_of(E::Sg2Request).any(|e| row.at() == Some(e.at)) {
                    self.fault(TABLE, format!("{}: no effect asked at {}", row.text("id"), row.text("at")));
                }
            } else {
                self.same(TABLE, row, "inserted_by", "cutter_review");
                for column in ["expected_actor", "unit_count", "unit_set_digest"] {
                    self.same(TABLE, row, column, "");
                }
                let has_consent =
                    self.of("review_approval").any(|a| a.uuid("review_decision_id") == row.uuid("id"));
                if !has_consent && row.text("decision") == ReviewVerdict::Approve.as_str() {
                    self.fault(TABLE, format!("{}: an approval without its document", row.text("id")));
                }
            }
        }
        let run = self.run_id;
        let users = [E::LegA, E::Enact, E::Void];
        let used_by: Vec<&EffectRecord> = users.iter().flat_map(|e| self.effects_of(*e)).collect();
        for effect in used_by.iter().copied() {
            let used = self.of("approval_use").find(|r| r.uuid("effect_id") == Some(effect.effect_id));
            match used {
                None => self
                    .fault("approval_use", format!("{}: what it relied on is not there", effect.key.effect)),
                Some(row) => {
                    self.same("approval_use", row, "run_id", run);
                    self.same("approval_use", row, "effect", effect.key.effect.as_str());
                    self.timed("approval_use", row, effect);
                    if self.used(effect).is_none() {
                        self.fault("approval_use", format!("{}: no such approval", row.text("approval_id")));
                    }
                }
            }
        }
        for row in self.of("approval_use") {
            let known = users
                .iter()
                .flat_map(|e| self.effects_of(*e))
                .any(|e| row.uuid("effect_id") == Some(e.effect_id));
            if !known {
                self.fault("approval_use", format!("{}: used by no effect", row.text("approval_id")));
            }
        }
    }

    /// The change set, its signatures, envelope, verdict and void.
    pub(super) fn cut(&mut self) {
        let document = self.document_id.clone();
        let Some(leg_a) = self.effects_of(E::LegA).next() else {
            if self.set().is_some() {
                self.fault("cut_change_set", "a change set that no effect made");
            }
            return;
        };
        let Some(set) = self.set() else {
            self.fault("cut_change_set", "expected what leg A wrote, observed none");
            return;
        };
        const SET: &str = "cut_change_set";
        let run = self.run_id;
        let failed = usize::from(self.of("verify_result").any(|r| r.text("passed") == "false"));
        for (kind, expected) in [("cut", 1), ("compensating", failed)] {
            let observed = self.of(SET).filter(|r| r.text("kind") == kind).count();
            if observed != expected {
                self.fault(SET, format!("{kind}: expected {expected}, observed {observed}"));
            }
        }
        for table in ["manifest_envelope", "verify_result", "change_set_void"] {
            let observed = self.of(table).count();
            if observed > 1 {
                self.fault(table, format!("expected one row, observed {observed}"));
            }
        }
        self.same(SET, set, "document_id", &document);
        self.timed(SET, set, leg_a);
        self.same(SET, set, "inserted_by", "cutter_exec");
        self.same(SET, set, "compensates_id", "");
        let voided = self.of("change_set_void").next().is_some();
        self.same(SET, set, "live", if voided { "false" } else { "true" });
        if let Some(used) = self.used(leg_a) {
            self.same(SET, set, "approval_id", &used.text("approval_id"));
            self.same(SET, set, "review_decision_id", &used.text("review_decision_id"));
        }
        if let Some(source) = self.of("source_version").next() {
            self.same(SET, set, "source_bytes", &source.text("byte_length"));
        }
        let set_id = set.text("change_set_id");
        let verify = self.effects_of(E::WriteVerify).next();
        let mut previous = None;
        for (duty, effect) in [("executor", Some(leg_a)), ("verifier", verify)] {
            const TABLE: &str = "dot_pair_signature";
            let Some(effect) = effect else { continue };
            let Some(row) = self.signature(duty) else {
                self.fault(TABLE, format!("{duty}: not there"));
                continue;
            };
            self.same(TABLE, row, "change_set_id", &set_id);
            self.timed(TABLE, row, effect);
            let payload: Value = serde_json::from_str(&row.text("payload")).unwrap_or_default();
            let subject = payload.get("subject").cloned().unwrap_or_default();
            for column in
                ["run_id", "document_id", "change_set_id", "writer_digest", "manifest_digest", "region_sha"]
            {
                let said = subject.get(column).and_then(Value::as_str).unwrap_or_default().to_owned();
                self.same(SET, set, column, &said);
            }
            let units = subject.get("units").map(ToString::to_string).unwrap_or_default();
            self.same(SET, set, "unit_count", &units);
            let said = |key: &str| payload.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
            if said("duty").as_deref() != Some(duty) || said("previous_signature") != previous {
                self.fault(TABLE, format!("{duty}: its payload is of another place in the chain"));
            }
            if let Err(wrong) = crate::record::attestation::verify(
                &row.text("public_key"),
                &row.text("payload"),
                &row.text("signature"),
            ) {
                self.fault(TABLE, format!("{duty}: {wrong}"));
            }
            previous = Some(row.text("signature"));
        }
        if let Some(effect) = self.effects_of(E::LegB).next() {
            const TABLE: &str = "manifest_envelope";
            match self.of(TABLE).next() {
                None => self.fault(TABLE, "expected what leg B wrote, observed none"),
                Some(row) => {
                    self.timed(TABLE, row, effect);
                    self.same(TABLE, row, "run_id", run);
                    self.same(TABLE, row, "change_set_id", &set_id);
                }
            }
        }
        if let Some(effect) = verify {
            const TABLE: &str = "verify_result";
            match self.of(TABLE).next() {
                None => self.fault(TABLE, "expected the verdict, observed none"),
                Some(row) => {
                    self.timed(TABLE, row, effect);
                    self.same(TABLE, row, "run_id", run);
                    self.same(TABLE, row, "change_set_id", &set_id);
                    self.same(TABLE, row, "entry_id", &set.text("entry_id"));
                    let envelope =
                        self.of("manifest_envelope").next().map(|r| r.text("id")).unwrap_or_default();
                    self.same(TABLE, row, "manifest_envelope_id", &envelope);
                    self.same(TABLE, row, "prior_verify_result_id", "");
                    let passed = effect.verdict == Verdict::Commit;
                    self.same(TABLE, row, "passed", if passed { "true" } else { "false" });
                }
            }
        }
        let void = self.effects_of(E::Void).next();
        match (self.of("change_set_void").next(), void) {
            (Some(row), Some(effect)) => {
                self.timed("change_set_void", row, effect);
                self.same("change_set_void", row, "run_id", run);
                self.same("change_set_void", row, "change_set_id", &set_id);
                if let Some(used) = self.used(effect) {
                    self.same("change_set_void", row, "approval_id", &used.text("approval_id"));
                }
            }
            (Some(_), None) => self.fault("change_set_void", "a void that no effect made"),
            (None, Some(_)) => self.fault("change_set_void", "expected what the void wrote, observed none"),
            (None, None) => {}
        }
    }

    /// Ids of units follow from the change set; the database says what else of a unit is odd.
    pub(super) fn units(&mut self) {
        let Some(set) = self.set().and_then(|r| r.uuid("change_set_id")) else { return };
        let mut seen = BTreeSet::new();
        for row in self.of("unit") {
            let Some(ordinal) = row.number("ordinal") else {
                self.fault("unit", format!("{}: no ordinal", row.text("unit_id")));
                continue;
            };
            if !seen.insert(ordinal) {
                self.fault("unit", format!("{ordinal}: twice"));
            }
            for (column, label) in [
                ("unit_id", RowLabel::Unit),
                ("version_id", RowLabel::Version),
                ("anchor_id", RowLabel::Anchor),
            ] {
                let expected = key::unit_id(set, label, ordinal).to_string();
                if row.text(column) != expected {
                    self.fault(
                        "unit",
                        format!("{ordinal}: {column}: expected {expected}, observed {}", row.text(column)),
                    );
                }
            }
            if !row.text("odd").is_empty() {
                self.fault("unit", format!("{ordinal}: odd {}", row.text("odd")));
            }
        }
        let count = self.set().and_then(|r| r.number("unit_count"));
        if count.is_none_or(|count| usize::try_from(count) != Ok(seen.len())) {
            let expected = count.map_or_else(|| "a number".to_owned(), |count| count.to_string());
            self.fault("unit", format!("units: expected {expected}, observed {}", seen.len()));
        }
    }
}
