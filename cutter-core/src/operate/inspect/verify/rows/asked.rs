//! What was asked and what was answered, as rows of their own, and what relied on them.

use super::*;
use crate::gate::authorization::OF_A_REFUSAL;
use crate::record::approval::{Ask, Purpose, field, parse_field};

const ASK: &str = "approval_ask";
const ANSWER: &str = "approval_answer";

fn text_of(row: Row<'_>) -> String {
    row.bytes("document").and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

impl<'a> World<'a> {
    fn ask_with(&self, nonce: &str) -> Option<Row<'a>> {
        self.of(ASK).find(|row| row.text("nonce") == nonce)
    }

    /// Asks say in their columns what they ask; what answered one repeats it.
    pub(super) fn asked(&mut self) {
        for row in self.of(ASK) {
            self.one_ask(row);
        }
        for row in self.of(ANSWER) {
            self.one_answer(row);
        }
        for approval in self.of("review_approval") {
            let text = text_of(approval);
            // answers from before asks were rows name no policy
            let has_ask = parse_field(&text, field::POLICY_HEAD).is_some();
            if has_ask && self.ask_with(&approval.text("nonce")).is_none() {
                self.fault(ASK, format!("{}: what it answers is not there", approval.text("approval_id")));
            }
        }
        self.refused_before();
    }

    fn one_ask(&mut self, row: Row<'a>) {
        let (document, run) = (self.document_id.clone(), self.run_id);
        self.same(ASK, row, "inserted_by", "cutter_exec");
        self.same(ASK, row, "document_id", &document);
        self.same(ASK, row, "run_id", run);
        let ask = row.0.get("ask").cloned().and_then(|ask| serde_json::from_value::<Ask>(ask).ok());
        let Some(ask) = ask else {
            self.fault(ASK, format!("{} {}: ask: does not read", row.text("gate"), row.text("occurrence")));
            return;
        };
        self.same(ASK, row, "gate", ask.gate.as_str());
        self.same(ASK, row, "occurrence", &ask.occurrence.to_string());
        self.same(ASK, row, "approval_type", &ask.approval_type);
        for name in [
            field::RUN_ID,
            field::DOCUMENT_ID,
            field::NONCE,
            field::REQUEST_SHA256,
            field::ROWS_DIGEST,
            field::POLICY_HEAD,
        ] {
            let required = ask.required.get(name).cloned().unwrap_or_default();
            self.same(ASK, row, name, &required);
        }
        let nonce = row.text("nonce");
        for approval in self.of("review_approval").filter(|a| a.text("nonce") == nonce) {
            self.same("review_approval", approval, "type", &ask.approval_type);
            self.same("review_approval", approval, "request_sha256", &row.text("request_sha256"));
            let text = text_of(approval);
            // a refusal counts whatever the request looked like to who refused it
            let allows = approval.text("decision") == ReviewVerdict::Approve.as_str();
            for (name, expected) in &ask.required {
                let observed = parse_field(&text, name).unwrap_or_default();
                if observed != expected && (allows || OF_A_REFUSAL.contains(&name.as_str())) {
                    self.fault(
                        ASK,
                        format!(
                            "{} {}: {name}: asked for {expected:?}, answered {observed:?}",
                            ask.gate, ask.occurrence
                        ),
                    );
                }
            }
            let sha256 = approval.text("sha256");
            match self.of(ANSWER).find(|w| w.text("sha256") == sha256) {
                None => self.fault(ANSWER, format!("{sha256}: the answer that was stored is not there")),
                Some(answer) => {
                    for column in ["decision", "document", "fingerprint", "actor"] {
                        self.same(ANSWER, answer, column, &approval.text(column));
                    }
                    self.same(ANSWER, answer, "late", "false");
                }
            }
        }
        for decision in self.of("review_decision").filter(|d| d.text("nonce") == nonce) {
            self.same("review_decision", decision, "request_sha256", &row.text("request_sha256"));
            if ask.is_for(Purpose::Lifecycle) {
                let asked = ask.required.get(field::REVIEW_DECISION_ID).cloned().unwrap_or_default();
                self.same("review_decision", decision, "id", &asked);
            }
        }
    }

    fn one_answer(&mut self, row: Row<'a>) {
        let (gate, n) = (row.text("gate"), row.text("occurrence"));
        self.same(ANSWER, row, "inserted_by", "cutter_review");
        let text = text_of(row);
        self.same(ANSWER, row, "sha256", &Digest::of(text.as_bytes()).to_hex());
        for column in ["decision", "actor"] {
            self.same(ANSWER, row, column, parse_field(&text, column).unwrap_or_default());
        }
        let of = self.of(ASK).find(|ask| ask.text("gate") == gate && ask.text("occurrence") == n);
        match of {
            None => self.fault(ANSWER, format!("{gate} {n}: it answers nothing that was asked")),
            Some(ask) if parse_field(&text, field::NONCE) != Some(ask.text("nonce").as_str()) => {
                self.fault(ANSWER, format!("{gate} {n}: its document answers something else"));
            }
            Some(_) => {}
        }
    }

    /// Where a refusal was heard while an ask was open, nothing may have relied on an approval of it.
    /// What is called late was heard after something had closed the ask.
    fn refused_before(&mut self) {
        let mut found = Vec::new();
        for ask in self.of(ASK) {
            let (gate, n, nonce) = (ask.text("gate"), ask.text("occurrence"), ask.text("nonce"));
            let approvals: Vec<Row<'_>> =
                self.of("review_approval").filter(|a| a.text("nonce") == nonce).collect();
            let used = approvals.iter().find(|a| {
                let id = a.text("approval_id");
                self.of("approval_use").any(|u| {
                    u.text("approval_id") == id
                        && [E::LegA, E::Enact].iter().any(|effect| u.text("effect") == effect.as_str())
                })
            });
            let answers = || self.of(ANSWER).filter(|w| w.text("gate") == gate && w.text("occurrence") == n);
            let refusals = || {
                answers().filter(|w| {
                    w.text("decision") != ReviewVerdict::Approve.as_str() && w.text("late") != "true"
                })
            };
            if let (Some(_), Some(refusal)) = (used, refusals().next()) {
                let (decision, actor) = (refusal.text("decision"), refusal.text("actor"));
                found.push(format!("{gate} {n}: relied on over a {decision} by {actor}"));
            }
            let later = self
                .of(ASK)
                .filter(|k| k.text("gate") == gate && k.number("occurrence") > ask.number("occurrence"));
            let stored = approvals.into_iter().chain(later).chain(refusals());
            let closed_after: Vec<Timestamp> =
                stored.filter_map(|row| row.text("recorded_at").parse().ok()).collect();
            let early = answers().filter(|w| w.text("late") == "true").filter(|w| {
                let at: Option<Timestamp> = w.text("recorded_at").parse().ok();
                !closed_after.iter().any(|closed| Some(*closed) < at)
            });
            found.extend(early.map(|w| format!("{gate} {n}: called late while open: {}", w.text("sha256"))));
        }
        for what in found {
            self.fault(ANSWER, what);
        }
    }
}
