//! What may be asked of an entry, and the answer.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use uuid::Uuid;

use super::{ChangeSet, Duty, Entry, Rule};
use crate::base::digest::Digest;
use crate::machine::IllegalTransition;
use crate::machine::backlog::{BACKLOG, BacklogGuard as G, BacklogState as S, BacklogTrigger as T};
use crate::record::check::{ABSENT, Check};
use crate::record::effect::ReviewVerdict;

const fn rule(id: &'static str, what: &'static str, clause: &'static str) -> Rule {
    Rule { id, what, clause }
}

/// Every rule that [`judge`] and [`judge_mark`] may refuse by.
pub static RULES: &[Rule] = &[
    rule(
        G::CutApproved.as_str(),
        "the cut relies on the entry's current decision, which approves it with stored consent",
        "spec 3 §2",
    ),
    rule(
        G::CutDeps.as_str(),
        "every entry of the manifest's depends_on is verified_complete",
        "spec 3 §2, D30",
    ),
    rule(
        G::CutOnce.as_str(),
        "no change set was ever made for this entry and this decision",
        "spec 3 §3 F-5",
    ),
    rule(
        G::VerifyCut.as_str(),
        "the change set is a live cut of this entry, signed by the executor, with its envelope",
        "spec 3 §2",
    ),
    rule(G::VerifySod.as_str(), "the verifier is another principal than the executor", "spec 3 §2"),
    rule(G::VerifyOnce.as_str(), "no other verdict on the change set stands", "spec 3 §5"),
    rule(G::LegBOnce.as_str(), "no other envelope of the change set stands", "spec 1 IG_leg_b_record"),
    rule("mark.same_content", "the key IK-MARK stands for one content", "spec 3 §5"),
    rule("mark.depends_on", "what the manifest depends on is there and is not the entry itself", "D30"),
    rule("sweep.no_escalation", "an escalation entry is promoted by its requeue alone", "spec 3 §2 S9, D11"),
    rule("requeue.escalation", "what is requeued is an escalation entry", "spec 3 §2 S9, D11"),
    rule("review.manifest", "the manifest decided on is the one that was marked", "spec 3 §5"),
    rule("review.consent", "an approval comes with the human's own signed answer", "spec 3 §1 S2"),
    rule("review.decision_new", "a different decision is a new row", "spec 3 §5"),
    rule(
        "verify.failure_complete",
        "a failure names its compensating set and its escalation entry, a pass names neither",
        "spec 3 §1 S9",
    ),
    rule("abandon.reason", "an abandonment says why", "spec 3 §2"),
];

/// What MARK asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The new entry.
    pub entry_id: Uuid,
    /// IK-MARK.
    pub idempotency_key: Digest,
    /// The marked manifest.
    pub manifest_digest: Digest,
    /// What the manifest depends on, and whether each exists.
    pub depends_on: Vec<super::Dependency>,
}

/// What is asked of an entry that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A sweep pass reaches the entry.
    Sweep,
    /// The reviewer puts an escalation entry back into the queue.
    Requeue,
    /// The reviewer decides; after an approval, `Defer` is the re-defer.
    Review {
        /// The new decision row.
        decision_id: Uuid,
        /// What was decided.
        verdict: ReviewVerdict,
        /// Content hash of the manifest that the reviewer looked at.
        manifest_digest: Digest,
        /// The signed answer is stored in the same transaction.
        has_consent: bool,
    },
    /// TXN-CUT.
    Cut {
        /// The new change set.
        change_set_id: Uuid,
        /// The decision that it relies on.
        review_decision_id: Uuid,
    },
    /// The envelope of a cut.
    RecordLegB {
        /// The new envelope.
        envelope_id: Uuid,
        /// Of which cut.
        change_set_id: Uuid,
    },
    /// TXN-VERIFY.
    Verify {
        /// The new verdict row.
        verify_result_id: Uuid,
        /// On which cut.
        change_set_id: Uuid,
        /// Who verifies.
        principal: String,
        /// Every check passed.
        has_passed: bool,
        /// The compensating set of a failure.
        compensating_id: Option<Uuid>,
        /// The escalation entry of a failure.
        escalation_entry_id: Option<Uuid>,
    },
    /// Sovereign or reviewer gives the entry up.
    Abandon {
        /// Why.
        reason: String,
    },
}

/// One move to write, with its history row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// What happened.
    pub trigger: T,
    /// Compare with this,
    pub from: S,
    /// set this.
    pub to: S,
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Write these moves in one transaction, with the operation's own rows. No moves: only those.
    Apply(Vec<Move>),
    /// It stands already: write nothing. The row that stands, where the operation has one.
    Replay(Option<Uuid>),
    /// No.
    Refused(Refusal),
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The table has no such move.
    Illegal(IllegalTransition),
    /// Rules that do not hold, each with what was expected and observed.
    Rules(Vec<Check>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Illegal(illegal) => illegal.fmt(f),
            Self::Rules(checks) => {
                for (i, c) in checks.iter().enumerate() {
                    let gap = if i > 0 { "; " } else { "" };
                    write!(f, "{gap}{}: expected {}, observed {}", c.invariant, c.expected, c.observed)?;
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for Refusal {}

/// MARK: a live entry with the key is the answer already, if its content is the same.
#[must_use]
pub fn judge_mark(standing: Option<&Entry>, mark: &Mark) -> Judgement {
    if let Some(entry) = standing.filter(|entry| entry.status != S::Abandoned) {
        let ids = |list: &[super::Dependency]| {
            let mut ids: Vec<Uuid> = list.iter().map(|d| d.entry_id).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let is_same =
            entry.manifest_digest == mark.manifest_digest && ids(&entry.depends_on) == ids(&mark.depends_on);
        if is_same {
            return Judgement::Replay(Some(entry.entry_id));
        }
        return refused(vec![Check::new(
            "mark.same_content",
            entry.manifest_digest,
            mark.manifest_digest,
            false,
        )]);
    }
    let wrong: Vec<Uuid> = mark
        .depends_on
        .iter()
        .filter(|d| d.status.is_none() || d.entry_id == mark.entry_id)
        .map(|d| d.entry_id)
        .collect();
    if !wrong.is_empty() {
        return refused(vec![Check::empty("mark.depends_on", &wrong)]);
    }
    Judgement::Apply(Vec::new())
}

/// Whether an operation may be performed on an entry as it stands.
///
/// What stands already is no error: each operation may be asked for again at any time. A move
/// that the table does not have is refused before any rule is looked at, with the same message
/// as the database gives.
#[must_use]
pub fn judge(entry: &Entry, operation: &Operation) -> Judgement {
    match operation {
        Operation::Sweep => {
            promote(entry, "sweep.no_escalation", entry.escalates.is_none() || entry.status != S::Marked)
        }
        Operation::Requeue => promote(entry, "requeue.escalation", entry.escalates.is_some()),
        Operation::Review { decision_id, verdict, manifest_digest, has_consent } => {
            review(entry, *decision_id, *verdict, manifest_digest, *has_consent)
        }
        Operation::Cut { change_set_id, review_decision_id } => {
            cut(entry, *change_set_id, *review_decision_id)
        }
        Operation::RecordLegB { envelope_id, change_set_id } => leg_b(entry, *envelope_id, *change_set_id),
        Operation::Verify {
            verify_result_id: _,
            change_set_id,
            principal,
            has_passed,
            compensating_id,
            escalation_entry_id,
        } => verify(entry, *change_set_id, principal, *has_passed, (*compensating_id, *escalation_entry_id)),
        Operation::Abandon { reason } => abandon(entry, reason),
    }
}

fn refused(checks: Vec<Check>) -> Judgement {
    Judgement::Refused(Refusal::Rules(checks))
}

/// The refusal by target instead of trigger, as the database words it: every trigger of this table
/// leads to one state.
fn named(illegal: IllegalTransition, from: S, trigger: T) -> IllegalTransition {
    let target = BACKLOG.rows().iter().find(|row| row.trigger == trigger).map(|row| row.to);
    target.and_then(|to| BACKLOG.check(from, to).err()).unwrap_or(illegal)
}

/// The moves of these triggers one after the other, unless a rule or the table says no.
fn moves(entry: &Entry, triggers: &[T], rules: impl FnOnce() -> Vec<Check>) -> Judgement {
    let (mut from, mut out) = (entry.status, Vec::new());
    for &trigger in triggers {
        match BACKLOG.step(from, trigger) {
            Ok(to) => {
                out.push(Move { trigger, from, to });
                from = to;
            }
            Err(illegal) => return Judgement::Refused(Refusal::Illegal(named(illegal, from, trigger))),
        }
    }
    let failed: Vec<Check> = rules().into_iter().filter(|check| !check.ok).collect();
    if failed.is_empty() { Judgement::Apply(out) } else { refused(failed) }
}

fn promote(entry: &Entry, id: &str, is_allowed: bool) -> Judgement {
    let check = || Check::truth(id, is_allowed);
    if entry.status == S::ReviewPending {
        return if is_allowed { Judgement::Replay(None) } else { refused(vec![check()]) };
    }
    moves(entry, &[T::Sweep], || vec![check()])
}

const fn target(verdict: ReviewVerdict) -> (T, S) {
    match verdict {
        ReviewVerdict::Approve => (T::Approve, S::ReviewedApproved),
        ReviewVerdict::Defer => (T::Defer, S::ReviewedDeferred),
        ReviewVerdict::Reject => (T::Reject, S::ReviewedRejected),
    }
}

fn review(
    entry: &Entry,
    decision_id: Uuid,
    verdict: ReviewVerdict,
    manifest_digest: &Digest,
    has_consent: bool,
) -> Judgement {
    let (trigger, to) = target(verdict);
    let manifest = Check::equal("review.manifest", &entry.manifest_digest, manifest_digest);
    if !manifest.ok {
        return refused(vec![manifest]);
    }
    if let Some(known) = entry.decisions.iter().find(|d| d.id == decision_id) {
        if known.verdict == verdict {
            return Judgement::Replay(Some(known.id));
        }
        let check = Check::new("review.decision_new", known.verdict.as_str(), verdict.as_str(), false);
        return refused(vec![check]);
    }
    // What an approval led to stands by it; a deferred entry that was promoted is asked anew.
    let stands = entry.status == to
        || (verdict == ReviewVerdict::Approve
            && matches!(entry.status, S::CutApplied | S::VerifiedComplete | S::VerifyFailedEscalated));
    if let Some(current) = entry.current_decision().filter(|d| stands && d.verdict == verdict) {
        return Judgement::Replay(Some(current.id));
    }
    let is_backed = has_consent || verdict != ReviewVerdict::Approve;
    moves(entry, &[trigger], || vec![Check::truth("review.consent", is_backed)])
}

fn cut(entry: &Entry, change_set_id: Uuid, review_decision_id: Uuid) -> Judgement {
    let made: Vec<&ChangeSet> =
        entry.change_sets.iter().filter(|set| set.review_decision_id == review_decision_id).collect();
    if let Some(set) = made.iter().find(|set| set.is_live) {
        return Judgement::Replay(Some(set.change_set_id));
    }
    moves(entry, &[T::CutStart, T::CutCommit], || {
        let current = entry.current_decision();
        let is_approved = current.is_some_and(|d| {
            d.id == review_decision_id && d.verdict == ReviewVerdict::Approve && d.has_consent
        });
        let observed = current.map_or_else(
            || ABSENT.to_string(),
            |d| format!("{} {}{}", d.verdict.as_str(), d.id, if d.has_consent { "" } else { ", no consent" }),
        );
        let open: Vec<String> = entry
            .depends_on
            .iter()
            .filter(|d| d.status != Some(S::VerifiedComplete))
            .map(|d| format!("{} is {}", d.entry_id, d.status.map_or(ABSENT, S::as_str)))
            .collect();
        let twice: Vec<Uuid> = entry
            .change_sets
            .iter()
            .filter(|set| set.review_decision_id == review_decision_id || set.change_set_id == change_set_id)
            .map(|set| set.change_set_id)
            .collect();
        vec![
            Check::new(
                G::CutApproved.as_str(),
                format!("approve {review_decision_id}"),
                observed,
                is_approved,
            ),
            Check::empty(G::CutDeps.as_str(), &open),
            Check::empty(G::CutOnce.as_str(), &twice),
        ]
    })
}

/// What a cut that may be verified or enveloped looks like, or what is wrong with it.
fn committed_cut(entry: &Entry, change_set_id: Uuid, wants_envelope: bool) -> Check {
    let observed = match entry.change_set(change_set_id) {
        None => ABSENT,
        Some(set) if !set.is_live => "voided",
        Some(_) if entry.signature(change_set_id, Duty::Executor).is_none() => "not signed by the executor",
        Some(set) if wants_envelope && set.envelope_id.is_none() => "without envelope",
        Some(_) => "committed cut",
    };
    Check::new(G::VerifyCut.as_str(), "committed cut", observed, observed == "committed cut")
}

fn leg_b(entry: &Entry, envelope_id: Uuid, change_set_id: Uuid) -> Judgement {
    match entry.change_set(change_set_id).and_then(|set| set.envelope_id) {
        Some(standing) if standing == envelope_id => return Judgement::Replay(Some(standing)),
        Some(standing) => {
            return refused(vec![Check::new(G::LegBOnce.as_str(), envelope_id, standing, false)]);
        }
        None => {}
    }
    // No move of its own; but the entry must stand where a verification could start.
    if let Err(illegal) = BACKLOG.step(entry.status, T::VerifyStart) {
        return Judgement::Refused(Refusal::Illegal(named(illegal, entry.status, T::VerifyStart)));
    }
    let cut = committed_cut(entry, change_set_id, false);
    if cut.ok { Judgement::Apply(Vec::new()) } else { refused(vec![cut]) }
}

fn verify(
    entry: &Entry,
    change_set_id: Uuid,
    principal: &str,
    has_passed: bool,
    (compensating, escalation): (Option<Uuid>, Option<Uuid>),
) -> Judgement {
    if let Some(standing) = entry.change_set(change_set_id).and_then(|set| set.verdict) {
        if standing.has_passed == has_passed {
            return Judgement::Replay(Some(standing.id));
        }
        let word = |passed: bool| if passed { "pass" } else { "fail" };
        let check = Check::new(G::VerifyOnce.as_str(), word(standing.has_passed), word(has_passed), false);
        return refused(vec![check]);
    }
    let end = if has_passed { T::VerifyPass } else { T::VerifyFail };
    moves(entry, &[T::VerifyStart, end], || {
        let executor = entry.signature(change_set_id, Duty::Executor).map(|s| s.principal.as_str());
        let is_complete = if has_passed {
            compensating.is_none() && escalation.is_none()
        } else {
            compensating.is_some() && escalation.is_some_and(|id| id != entry.entry_id)
        };
        let is_other = executor.is_some_and(|executor| executor != principal);
        let mut checks = vec![committed_cut(entry, change_set_id, true)];
        if checks.iter().all(|check| check.ok) {
            let not = format!("not {}", executor.unwrap_or(ABSENT));
            checks.push(Check::new(G::VerifySod.as_str(), not, principal, is_other));
        }
        checks.push(Check::truth("verify.failure_complete", is_complete));
        checks
    })
}

fn abandon(entry: &Entry, reason: &str) -> Judgement {
    if entry.status == S::Abandoned {
        return Judgement::Replay(None);
    }
    moves(entry, &[T::Abandon], || vec![Check::truth("abandon.reason", !reason.trim().is_empty())])
}
