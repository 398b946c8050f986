//! The audit of one entry: rebuilt and compared.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;

use super::replay::{replay, trail};
use super::{Duty, Entry, HistoryRow, Rule};
use crate::machine::backlog::BacklogState as S;
use crate::record::check::{ABSENT, Check};
use crate::record::effect::ReviewVerdict;

const fn rule(id: &'static str, what: &'static str, clause: &'static str) -> Rule {
    Rule { id, what, clause }
}

/// What the audit looks at, in its order.
pub static AUDIT_RULES: &[Rule] = &[
    rule(
        "audit.trail",
        "history is one trail of legal moves from nothing, without gap or fork",
        "spec 3 A-1, A-4",
    ),
    rule("audit.state", "the state rebuilt from history and signatures is the stored one", "spec 3 A-5, A-6"),
    rule("audit.sweeps", "every promotion is in the log of a sweep pass", "spec 3 A-3"),
    rule(
        "audit.decisions",
        "every approval, rejection and deferral has its decision, every approval its consent",
        "spec 3 §5",
    ),
    rule(
        "audit.cut",
        "every cut has its change set, made for this entry by a decision of its own",
        "spec 3 A-2",
    ),
    rule(
        "audit.verdict",
        "every verdict stands, says what the move says, and is complete",
        "spec 3 §1 S8, S9",
    ),
    rule("audit.principals", "executor and verifier are two principals", "spec 3 G-VERIFY-SOD"),
    rule("audit.reason", "every abandonment says why", "spec 3 §2"),
];

/// What the audit of one entry found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditReport {
    /// Which entry.
    pub entry_id: Uuid,
    /// What its row says.
    pub stored: S,
    /// What history and signatures say; `None` if they are no life of an entry.
    pub rebuilt: Option<S>,
    /// One check per [`AUDIT_RULES`], in its order.
    pub checks: Vec<Check>,
}

impl AuditReport {
    /// Everything holds.
    #[must_use]
    pub fn ok(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.ok)
    }
}

/// Rebuilds an entry's state and compares it and its artefacts with what is stored.
#[must_use]
pub fn audit(entry: &Entry) -> AuditReport {
    let ordered = trail(&entry.history);
    let rebuilt = replay(&entry.history, &entry.signatures);
    let to = |state: S| entry.history.iter().filter(move |row| row.to_state == state);
    let trail_check = match &ordered {
        Ok(rows) => Check::new("audit.trail", "one trail", rows.len().to_string() + " moves", true),
        Err(error) => Check::new("audit.trail", "one trail", error, false),
    };
    let state_check = match &rebuilt {
        Ok(state) => Check::equal("audit.state", &entry.status, state),
        Err(error) => Check::new("audit.state", entry.status, error, false),
    };
    let promoted = to(S::ReviewPending).count();
    let checks = vec![
        trail_check,
        state_check,
        Check::new("audit.sweeps", promoted, entry.promotions, promoted <= entry.promotions),
        Check::empty("audit.decisions", &undecided(entry)),
        Check::empty("audit.cut", &odd_cuts(entry, to(S::CutApplied))),
        Check::empty("audit.verdict", &odd_verdicts(entry)),
        Check::empty("audit.principals", &same_principals(entry)),
        Check::empty(
            "audit.reason",
            &to(S::Abandoned)
                .filter(|r| r.reason.trim().is_empty())
                .map(|r| r.history_id)
                .collect::<Vec<_>>(),
        ),
    ];
    AuditReport { entry_id: entry.entry_id, stored: entry.status, rebuilt: rebuilt.ok(), checks }
}

/// Approvals, rejections and deferrals for which there are not enough decisions. A deferral may also
/// come from the answer to a stop, and a refusal of what was approved once defers it.
fn undecided(entry: &Entry) -> Vec<String> {
    let moves = |state: S| entry.history.iter().filter(|row| row.to_state == state).count();
    let said = |verdict: ReviewVerdict| entry.decisions.iter().filter(move |d| d.verdict == verdict);
    let mut out = Vec::new();
    let approved = said(ReviewVerdict::Approve).filter(|d| d.has_consent).count();
    let mut lacks = |what: &str, moved: usize, decided: usize| {
        if moved > decided {
            out.push(alloc::format!("{moved} {what} by {decided} decisions"));
        }
    };
    lacks("approvals", moves(S::ReviewedApproved), approved);
    let rejected = said(ReviewVerdict::Reject).count();
    lacks("rejections", moves(S::ReviewedRejected), rejected);
    let spare = rejected.saturating_sub(moves(S::ReviewedRejected));
    let deferred = said(ReviewVerdict::Defer).count() + spare + entry.stop_answers;
    lacks("deferrals", moves(S::ReviewedDeferred), deferred);
    out
}

fn odd_cuts<'a>(entry: &Entry, cuts: impl Iterator<Item = &'a HistoryRow>) -> Vec<String> {
    let mut out = Vec::new();
    for row in cuts {
        let set = row.change_set_id.and_then(|id| entry.change_set(id));
        let decision = set.and_then(|set| entry.decisions.iter().find(|d| d.id == set.review_decision_id));
        let is_approved = decision.is_some_and(|d| d.verdict == ReviewVerdict::Approve && d.has_consent);
        match set {
            None => out.push(alloc::format!("{}: no change set", row.history_id)),
            Some(set) if !is_approved => out.push(alloc::format!("{}: no approval", set.change_set_id)),
            Some(_) => {}
        }
    }
    for (i, set) in entry.change_sets.iter().enumerate() {
        if entry.change_sets.iter().skip(i + 1).any(|s| s.review_decision_id == set.review_decision_id) {
            out.push(alloc::format!("decision {} was cut twice", set.review_decision_id));
        }
        if !entry
            .history
            .iter()
            .any(|r| r.change_set_id == Some(set.change_set_id) && r.to_state == S::CutApplied)
        {
            out.push(alloc::format!("change set {} has no move", set.change_set_id));
        }
    }
    out
}

fn odd_verdicts(entry: &Entry) -> Vec<String> {
    let mut out = Vec::new();
    for row in &entry.history {
        let passes = match row.to_state {
            S::VerifiedComplete => true,
            S::VerifyFailedEscalated => false,
            _ => continue,
        };
        let verdict = row.change_set_id.and_then(|id| entry.change_set(id)).and_then(|set| set.verdict);
        let is_right = verdict.is_some_and(|v| {
            v.has_passed == passes
                && v.compensating_id.is_none() == passes
                && v.escalation_entry_id.is_none() == passes
        });
        if !is_right {
            let seen = verdict.map_or(ABSENT, |v| if v.has_passed { "passed" } else { "failed" });
            out.push(alloc::format!("{} to {}: verdict {seen}", row.history_id, row.to_state));
        }
    }
    out
}

fn same_principals(entry: &Entry) -> Vec<String> {
    let verifiers = entry.signatures.iter().filter(|s| s.duty == Duty::Verifier);
    verifiers
        .filter(|v| {
            entry.signature(v.change_set_id, Duty::Executor).is_none_or(|e| e.principal == v.principal)
        })
        .map(|v| alloc::format!("{} by {}", v.change_set_id, v.principal))
        .collect()
}
