//! Do a run's rows agree with each other, and with what was digested and signed of them?
//!
//! An effect's row keeps the digest of its request, and a request is made of what the effect
//! wrote: so the digest is computed again from the rows and compared. What no request holds
//! (times, logins, labels) is compared between the rows that one effect wrote. The list of what
//! is compared with nothing stands in `docs/audit.md`.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::base::canonical;
use crate::base::digest::Digest;
use crate::base::key::{self, RowLabel};
use crate::record::approval::{Purpose, parse_verdict};
use crate::record::check::Check;
use crate::record::effect::{
    EffectName as E, EffectRecord, EnactWrite, LegBWrite, MarkWrite, ReviewVerdict, ReviewWrite,
    Sg2RequestWrite, SignatureWrite, SweepWrite, Verdict, VoidWrite,
};
use crate::record::evidence::{RunEvidence, RunRows};

/// One row, by column.
#[derive(Clone, Copy)]
struct Row<'a>(&'a BTreeMap<String, Value>);

impl<'a> Row<'a> {
    /// A column as text; empty where it is NULL or no column.
    fn text(self, column: &str) -> String {
        match self.0.get(column) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    fn is_null(self, column: &str) -> bool {
        matches!(self.0.get(column), None | Some(Value::Null))
    }

    fn uuid(self, column: &str) -> Option<Uuid> {
        self.text(column).parse().ok()
    }

    fn digest(self, column: &str) -> Option<Digest> {
        self.text(column).parse().ok()
    }

    fn number(self, column: &str) -> Option<u64> {
        self.text(column).parse().ok()
    }

    fn at(self) -> Option<Timestamp> {
        self.text("at").parse().ok()
    }

    /// Bytes as the database spells them: `\x` and hexadecimal digits.
    fn bytes(self, column: &str) -> Option<Vec<u8>> {
        let text = self.text(column);
        let digits = text.strip_prefix("\\x")?.as_bytes();
        let nibble = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        digits.chunks(2).map(|pair| Some(nibble(*pair.first()?)? << 4 | nibble(*pair.get(1)?)?)).collect()
    }
}

/// What is looked at, and what was found to be wrong, by table.
struct World<'a> {
    run_id: &'a str,
    document_id: String,
    evidence: &'a RunEvidence,
    rows: &'a RunRows,
    faults: BTreeMap<&'static str, Vec<String>>,
}

/// The tables in the order of their checks.
const TABLES: [&str; 15] = [
    "run_effect",
    "decision_backlog_entry",
    "decision_backlog_history",
    "decision_backlog_sweep_log",
    "review_decision",
    "review_approval",
    "approval_use",
    "approval_ask",
    "approval_answer",
    "cut_change_set",
    "dot_pair_signature",
    "manifest_envelope",
    "verify_result",
    "change_set_void",
    "unit",
];

/// One check for each table of a run.
#[must_use]
pub fn rows(run_id: &str, evidence: &RunEvidence, rows: &RunRows) -> Vec<Check> {
    let mut world = World { run_id, document_id: String::new(), evidence, rows, faults: BTreeMap::new() };
    world.document_id = world.of("run_fence").next().map(|r| r.text("document_id")).unwrap_or_default();
    world.effects();
    world.entry_and_history();
    world.consent();
    world.asked();
    world.cut();
    world.units();
    let of = |table: &&'static str| {
        let found = world.faults.get(table).cloned().unwrap_or_default();
        Check::empty(&format!("verify.rows.{table}"), &found)
    };
    TABLES.iter().map(of).collect()
}

impl<'a> World<'a> {
    fn of(&self, table: &str) -> impl Iterator<Item = Row<'a>> + use<'a> {
        self.rows.0.get(table).into_iter().flatten().map(Row)
    }

    fn fault(&mut self, table: &'static str, what: impl Into<String>) {
        self.faults.entry(table).or_default().push(what.into());
    }

    /// A column of a row must be this.
    fn same(&mut self, table: &'static str, row: Row<'_>, column: &str, expected: &str) {
        let observed = row.text(column);
        if observed != expected {
            self.fault(table, format!("{column}: expected {expected:?}, observed {observed:?}"));
        }
    }

    /// A row must be of the time of its effect.
    fn timed(&mut self, table: &'static str, row: Row<'_>, effect: &EffectRecord) {
        if row.at() != Some(effect.at) {
            self.fault(
                table,
                format!("at: expected {} as {}, observed {}", effect.at, effect.key.effect, row.text("at")),
            );
        }
    }

    fn effects_of(&self, name: E) -> impl Iterator<Item = &'a EffectRecord> + use<'a> {
        self.evidence.effects.iter().filter(move |e| e.key.effect == name)
    }

    /// Every row belongs to the document and to one effect; `only` says how many rows an effect has.
    fn effects(&mut self) {
        let epoch = self.of("run_fence").next().and_then(|r| r.number("epoch")).unwrap_or_default();
        for row in self.of("run_effect") {
            let document = self.document_id.clone();
            self.same("run_effect", row, "document_id", &document);
            let login = match E::parse(&row.text("effect")) {
                Some(E::Sg1Review | E::Sg2Review | E::Sg3Review) => "cutter_review",
                Some(E::WriteVerify) => "cutter_verify",
                _ => "cutter_exec",
            };
            self.same("run_effect", row, "inserted_by", login);
            if row.number("fence_epoch").is_none_or(|e| e == 0 || e > epoch) {
                self.fault(
                    "run_effect",
                    format!("fence_epoch: expected at most {epoch}, observed {}", row.text("fence_epoch")),
                );
            }
        }
        let effects: Vec<&EffectRecord> = self.evidence.effects.iter().collect();
        for effect in effects {
            let failed = self.of("verify_result").any(|r| r.text("passed") == "false");
            let verdict = match effect.key.effect {
                E::WriteVerify if failed => Verdict::CommitFailure,
                _ => Verdict::Commit,
            };
            if effect.verdict != verdict {
                self.fault(
                    "run_effect",
                    format!("{}: expected {verdict:?}, observed {:?}", effect.key.effect, effect.verdict),
                );
            }
            if let Some(expected) =
                self.occurrence(effect).filter(|n| *n != effect.key.occurrence.to_string())
            {
                self.fault(
                    "run_effect",
                    format!(
                        "{}: expected occurrence {expected}, observed {}",
                        effect.key.effect, effect.key.occurrence
                    ),
                );
            }
            match self.request_of(effect) {
                Request::Not => {}
                Request::Missing(what) => {
                    self.fault(
                        "run_effect",
                        format!("{} {}: {what}", effect.key.effect, effect.key.occurrence),
                    );
                }
                Request::Digest(digest) if digest == effect.payload_sha256 => {}
                Request::Digest(digest) => self.fault(
                    "run_effect",
                    format!(
                        "{} {}: its rows give the request {digest}, it was recorded with {}",
                        effect.key.effect, effect.key.occurrence, effect.payload_sha256
                    ),
                ),
            }
        }
    }

    /// Which occurrence an effect must be, where that is known.
    fn occurrence(&self, effect: &EffectRecord) -> Option<String> {
        match effect.key.effect {
            E::Mark | E::LegA | E::LegB | E::WriteVerify | E::Enact => Some("1".to_owned()),
            E::Sg1Review | E::Sg2Review => {
                let approval = self.approval_at(effect)?;
                let text = String::from_utf8(approval.bytes("document")?).ok()?;
                let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let said: u32 = field("occurrence: ")?.parse().ok()?;
                let numbers = self.effects_of(effect.key.effect).map(|e| e.key.occurrence);
                let least =
                    numbers.filter(|n| *n < effect.key.occurrence).max().map_or(1, |n| n + 1).max(said);
                // that of its ask; a refusal's may be more, by each approval of it that was taken before
                let overruled = |w: &Row<'_>| {
                    Some(w.text("gate").as_str()) == field("gate: ")
                        && w.number("occurrence") == Some(u64::from(said))
                        && w.text("decision") == ReviewVerdict::Approve.as_str()
                };
                let is_refusal = approval.text("decision") != ReviewVerdict::Approve.as_str();
                let overruled =
                    if is_refusal { self.of("approval_answer").filter(overruled).count() } else { 0 };
                let most = least.saturating_add(u32::try_from(overruled).unwrap_or(u32::MAX));
                Some(effect.key.occurrence.clamp(least, most).to_string())
            }
            // asked anew after the nth stop; stops that asked nothing anew leave numbers out
            E::Sweep => {
                let earlier = self.effects_of(E::Sweep).filter(|e| e.at < effect.at);
                let last = earlier.map(|e| (e.at, e.key.occurrence)).max();
                let Some((at, last)) = last else { return Some("1".to_owned()) };
                // the word on a stop and the sweep after it are of one time
                let words = self.effects_of(E::Sg3Review).filter(|e| e.at > at && e.at <= effect.at);
                let word = words.map(|e| (e.at, e.key.occurrence)).max();
                match word {
                    Some((_, stop)) => Some((stop + 1).to_string()),
                    None if effect.key.occurrence > last => None,
                    None => Some(format!("more than {last}")),
                }
            }
            // that of its ask; a request that was never filed leaves a number out
            E::Sg2Request => {
                let of = |ask: &Row<'_>| {
                    ask.text("approval_type") == Purpose::Lifecycle.as_str() && ask.at() == Some(effect.at)
                };
                let ask = self.of("approval_ask").find(of);
                let before = || self.effects_of(E::Sg2Request).filter(|e| e.at < effect.at).count() + 1;
                Some(ask.map_or_else(|| before().to_string(), |ask| ask.text("occurrence")))
            }
            E::Sg3Review | E::Void => None,
        }
    }

    /// The digest of what an effect was asked to write, from what stands.
    fn request_of(&self, effect: &EffectRecord) -> Request {
        let found = match effect.key.effect {
            E::Mark => self.mark(effect),
            E::Sweep => self.sweep(effect),
            E::Sg1Review | E::Sg2Review | E::Sg3Review => self.review(effect),
            E::LegA => self.leg_a(),
            E::LegB => self.leg_b(),
            E::Sg2Request => self.sg2_request(effect),
            E::Enact => self.enact(effect),
            E::Void => self.void(effect),
            // its request holds a signature that is stored only where it fails
            E::WriteVerify => return Request::Not,
        };
        found.map_or_else(
            || Request::Missing("its rows are not there, or do not read".to_owned()),
            Request::Digest,
        )
    }

    fn entry(&self) -> Option<Row<'a>> {
        self.of("decision_backlog_entry").find(|r| r.is_null("escalates_entry_id"))
    }

    fn history(&self, to: &'a str, at: Timestamp) -> impl Iterator<Item = Row<'a>> + use<'a> {
        self.of("decision_backlog_history").filter(move |r| r.text("to_state") == to && r.at() == Some(at))
    }

    fn mark(&self, effect: &EffectRecord) -> Option<Digest> {
        let (entry, first) = (self.entry()?, self.history("marked", effect.at).next()?);
        let detail: Value = first.0.get("detail").cloned().unwrap_or_default();
        let depends_on = detail.get("depends_on").and_then(Value::as_array).cloned().unwrap_or_default();
        digest(&MarkWrite {
            entry_id: entry.uuid("entry_id")?,
            history_id: first.uuid("history_id")?,
            source_document_id: entry.uuid("source_document_id")?,
            source_version_id: entry.uuid("source_version_id")?,
            idempotency_key: entry.digest("idempotency_key")?,
            region_sha: entry.digest("region_sha")?,
            manifest_digest: entry.digest("manifest_digest")?,
            candidate_count: entry.number("candidate_count")?,
            depends_on: depends_on.iter().map(|id| id.as_str()?.parse().ok()).collect::<Option<_>>()?,
        })
    }

    fn sweep(&self, effect: &EffectRecord) -> Option<Digest> {
        let log = self.of("decision_backlog_sweep_log").find(|r| r.at() == Some(effect.at))?;
        let entry_id = self.entry()?.uuid("entry_id")?;
        let moved = self.history("review_pending", effect.at).next();
        // a later sweep of an entry that waits already moves nothing and leaves no move
        let Some(moved) = moved else { return Some(effect.payload_sha256) };
        digest(&SweepWrite {
            entry_id,
            sweep_id: log.uuid("sweep_id")?,
            history_id: moved.uuid("history_id")?,
        })
    }

    fn approval_at(&self, effect: &EffectRecord) -> Option<Row<'a>> {
        let at = effect.at;
        let is_lifecycle = effect.key.effect == E::Sg2Review;
        let is_cut = effect.key.effect == E::Sg1Review;
        self.of("review_approval").find(|r| {
            let purpose = r.text("type").parse().ok();
            r.at() == Some(at)
                && (purpose == Some(Purpose::Lifecycle)) == is_lifecycle
                && (purpose == Some(Purpose::Cut)) == is_cut
        })
    }

    fn review(&self, effect: &EffectRecord) -> Option<Digest> {
        let approval = self.approval_at(effect)?;
        let decision_id = approval.uuid("review_decision_id")?;
        let decision = self.of("review_decision").find(|r| r.uuid("id") == Some(decision_id))?;
        let moved = self.of("decision_backlog_history").find(|r| {
            let to = r.text("to_state");
            r.at() == Some(effect.at) && to.starts_with("reviewed_") && effect.key.effect != E::Sg2Review
        });
        let decided = parse_verdict(&approval.text("decision"))?;
        let expires = approval.text("expires_at");
        digest(&ReviewWrite {
            approval_id: approval.uuid("approval_id")?,
            review_decision_id: decision_id,
            decision_type: approval.text("type"),
            decision: decided,
            entry_id: decision.uuid("entry_id"),
            history_id: moved.and_then(|r| r.uuid("history_id")),
            change_set_id: decision.uuid("change_set_id"),
            approval_kb_id: approval.text("approval_kb_id"),
            document: String::from_utf8(approval.bytes("document")?).ok()?,
            sha256: approval.digest("sha256")?,
            nonce: approval.text("nonce"),
            fingerprint: approval.text("fingerprint"),
            actor: approval.text("actor"),
            expires: if expires.is_empty() { None } else { Some(expires.parse().ok()?) },
            request_sha256: approval.digest("request_sha256")?,
        })
    }

    fn set(&self) -> Option<Row<'a>> {
        self.of("cut_change_set").find(|r| r.text("kind") == "cut")
    }

    fn signature(&self, duty: &str) -> Option<Row<'a>> {
        let duty = duty.to_owned();
        self.of("dot_pair_signature").find(move |r| r.text("duty") == duty)
    }

    fn leg_a(&self) -> Option<Digest> {
        let (set, signed) = (self.set()?, self.signature("executor")?);
        let moved = |to| {
            let mut rows = self.of("decision_backlog_history").filter(|r| r.text("to_state") == to);
            rows.find(|r| r.uuid("change_set_id") == set.uuid("change_set_id"))?.uuid("history_id")
        };
        let signature = SignatureWrite {
            signature_id: signed.uuid("signature_id")?,
            duty: signed.text("duty"),
            payload: signed.text("payload"),
            public_key: signed.text("public_key"),
            signature: signed.text("signature"),
        };
        digest(&json!({
            "change_set_id": set.uuid("change_set_id")?, "entry_id": set.uuid("entry_id")?,
            "history_ids": [moved("cut_in_progress")?, moved("cut_applied")?],
            "approval_id": set.uuid("approval_id")?, "review_decision_id": set.uuid("review_decision_id")?,
            "writer_digest": set.digest("writer_digest")?, "region_sha": set.digest("region_sha")?,
            "manifest_digest": set.digest("manifest_digest")?, "signature": signature,
            "units": set.number("unit_count")?,
        }))
    }

    fn leg_b(&self) -> Option<Digest> {
        let envelope = self.of("manifest_envelope").next()?;
        digest(&LegBWrite {
            manifest_envelope_id: envelope.uuid("id")?,
            change_set_id: envelope.uuid("change_set_id")?,
            entry_id: envelope.uuid("entry_id")?,
            executor_signature_id: envelope.uuid("executor_signature_id")?,
            envelope: envelope.text("envelope"),
            unit_count: envelope.number("unit_count")?,
        })
    }

    fn sg2_request(&self, effect: &EffectRecord) -> Option<Digest> {
        let at = effect.at;
        let mut requests =
            self.of("review_decision").filter(|r| r.text("type") == Purpose::Lifecycle.as_str());
        let request = requests.find(|r| r.at() == Some(at))?;
        digest(&Sg2RequestWrite {
            review_decision_id: request.uuid("id")?,
            entry_id: request.uuid("entry_id")?,
            change_set_id: request.uuid("change_set_id")?,
            expected_actor: request.text("expected_actor"),
            unit_count: request.number("unit_count")?,
            unit_set_digest: request.digest("unit_set_digest")?,
            nonce: request.text("nonce"),
            request_sha256: request.digest("request_sha256")?,
        })
    }

    /// The approval that an effect used.
    fn used(&self, effect: &EffectRecord) -> Option<Row<'a>> {
        let id = effect.effect_id;
        let used = self.of("approval_use").find(|r| r.uuid("effect_id") == Some(id))?.uuid("approval_id")?;
        self.of("review_approval").find(|r| r.uuid("approval_id") == Some(used))
    }

    fn enact(&self, effect: &EffectRecord) -> Option<Digest> {
        let (set, approval) = (self.set()?, self.used(effect)?);
        digest(&EnactWrite {
            change_set_id: set.uuid("change_set_id")?,
            review_decision_id: approval.uuid("review_decision_id")?,
            approval_id: approval.uuid("approval_id")?,
            unit_count: set.number("unit_count")?,
        })
    }

    fn void(&self, effect: &EffectRecord) -> Option<Digest> {
        let approval = self.used(effect)?.uuid("approval_id")?;
        let Some(void) = self.of("change_set_void").next() else {
            // voided before leg A: nothing but the move of the entry holds the request's words
            return Some(effect.payload_sha256);
        };
        let moved = self.history("abandoned", effect.at).next();
        let entry = match moved {
            Some(moved) => Some([moved.uuid("entry_id")?, moved.uuid("history_id")?]),
            None => None,
        };
        digest(&VoidWrite {
            void_id: void.uuid("void_id")?,
            change_set_id: void.uuid("change_set_id"),
            entry,
            approval_id: approval,
            reason: void.text("reason"),
        })
    }
}

/// An effect's request, computed again.
enum Request {
    Digest(Digest),
    Missing(String),
    /// It can't be.
    Not,
}

fn digest<T: serde::Serialize>(request: &T) -> Option<Digest> {
    canonical::digest_of(request).ok()
}

mod asked;
mod between;
