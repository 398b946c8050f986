//! What may be asked of an item, and the answer.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::{
    Attempt, CANCELLED, Ending, Failure, FailureKind, HANDBACK, ItemId, LEASE_MAX, LEASE_MIN, NewItem,
    Reason, Token, WorkItem, after, rule, standing, text,
};
use crate::machine::IllegalTransition;
use crate::machine::retry::{RetryDecision, RetryReasonCode, decide};
use crate::machine::work_item::{WORK_ITEM, WorkItemState as S, WorkItemTrigger as T};
use crate::record::backlog::Rule;
use crate::record::check::{ABSENT, Check};

/// Every rule that [`judge`] and [`judge_enqueue`] may refuse by.
pub static RULES: &[Rule] = &[
    rule("item.known", "the item is stored", "spec 4 AG-ORCH-02"),
    rule("enqueue.same_payload", "a key stands for one kind and payload", "spec 4 AG-EXE-01 5"),
    rule("claim.ready", "an item is claimed once its wait is over", "spec 4 AG-ORCH-03 3"),
    rule("lease.token", "a holder writes under the item's last epoch and its own id", "DESIGN §3"),
    rule("lease.expired", "a lease is taken over once it ran out, by the queue's clock", "PROTOCOL §8"),
    rule("lease.length", "a lease is as long as the limits allow", "PROTOCOL §8"),
    rule("fail.code", "a failure has a reason code", "spec 4 AG-ORCH-03 4"),
    rule("await.gate", "a pause for a human names its gate", "spec 4 §2"),
    rule("ready.gate", "the word that came is for the gate that is waited for", "PROTOCOL §8"),
    rule("cancel.reason", "a cancellation says why", "spec 4 AG-ORCH-02 4"),
];

/// What is asked of an item that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A worker takes it.
    Claim {
        /// The worker.
        holder: Uuid,
        /// How long its lease is.
        lease: Duration,
    },
    /// A worker takes it from another, whose lease ran out.
    TakeOver {
        /// The new worker.
        holder: Uuid,
        /// How long its lease is.
        lease: Duration,
    },
    /// The holder lives: the lease begins anew.
    Heartbeat {
        /// The holder.
        token: Token,
        /// How long it is from now.
        lease: Duration,
    },
    /// The work is done.
    Complete {
        /// The holder.
        token: Token,
    },
    /// The attempt failed.
    Fail {
        /// The holder.
        token: Token,
        /// How.
        failure: Failure,
    },
    /// The item pauses for a human and frees its worker.
    AwaitUser {
        /// The holder.
        token: Token,
        /// What it waits for.
        gate: String,
    },
    /// The worker stops and leaves the item to others.
    HandBack {
        /// The holder.
        token: Token,
    },
    /// The human's word came.
    Ready {
        /// For which gate.
        gate: String,
    },
    /// Somebody gives the item up.
    Cancel {
        /// Why.
        reason: String,
        /// Who.
        actor: String,
    },
}

/// What to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened; [`T::Reaffirm`] for a heartbeat and for the word that came.
    pub trigger: T,
    /// Compare with this,
    pub from: S,
    /// and store this.
    pub after: WorkItem,
    /// The attempt that ended by it, if one did without finishing the item.
    pub attempt: Option<Attempt>,
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Write this.
    Apply(Box<Change>),
    /// It stands so already: write nothing.
    Already,
    /// No.
    Refused(Refusal),
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The table has no such move.
    Illegal(IllegalTransition),
    /// A rule that does not hold, with what was expected and observed.
    Rule(Check),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Illegal(illegal) => illegal.fmt(f),
            Self::Rule(c) => write!(f, "{}: expected {}, observed {}", c.invariant, c.expected, c.observed),
        }
    }
}

impl core::error::Error for Refusal {}

impl From<IllegalTransition> for Refusal {
    fn from(illegal: IllegalTransition) -> Self {
        Self::Illegal(illegal)
    }
}

fn broken(id: &str, expected: impl fmt::Display, observed: impl fmt::Display) -> Refusal {
    Refusal::Rule(Check::new(id, expected, observed, false))
}

/// The refusal for an item that is not stored.
#[must_use]
pub fn unknown(item: ItemId) -> Refusal {
    broken("item.known", format!("item {item}"), ABSENT)
}

/// Enqueueing under a key that stands already: nothing is written if the payload is the same.
///
/// # Errors
/// `enqueue.same_payload`, with both digests.
pub fn judge_enqueue(recorded: &WorkItem, new: &NewItem) -> Result<(), Refusal> {
    if recorded.digest == new.digest {
        return Ok(());
    }
    let expected = format!("{} for key {}", recorded.digest, recorded.key);
    Err(broken("enqueue.same_payload", expected, new.digest))
}

/// Whether an operation may be performed on an item as it stands, and what it makes of it.
///
/// What stands already is no error where the caller can tell that it was its own: each write of a
/// holder may be asked for again under the same token. A move that the table does not have is
/// refused before any rule is looked at. Terminal items never change.
#[must_use]
pub fn judge(item: &WorkItem, operation: &Operation, now: Timestamp) -> Judgement {
    let answer = match operation {
        Operation::Claim { holder, lease } => claim(item, *holder, *lease, now),
        Operation::TakeOver { holder, lease } => take_over(item, *holder, *lease, now),
        Operation::Heartbeat { token, lease } => heartbeat(item, token, *lease, now),
        Operation::Complete { token } => complete(item, token, now),
        Operation::Fail { token, failure } => fail(item, token, failure, now),
        Operation::AwaitUser { token, gate } => await_user(item, token, gate, now),
        Operation::HandBack { token } => hand_back(item, token, now),
        Operation::Ready { gate } => ready(item, gate, now),
        Operation::Cancel { reason, actor } => cancel(item, reason, actor, now),
    };
    answer.unwrap_or_else(Judgement::Refused)
}

type Answer = Result<Judgement, Refusal>;

fn apply(trigger: T, from: S, after: WorkItem, attempt: Option<Attempt>) -> Answer {
    Ok(Judgement::Apply(Box::new(Change { trigger, from, after, attempt })))
}

fn is_lease(lease: Duration) -> Result<(), Refusal> {
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    let expected = format!("{} to {} ms", LEASE_MIN.as_millis(), LEASE_MAX.as_millis());
    Err(broken("lease.length", expected, format!("{} ms", lease.as_millis())))
}

fn is_token(item: &WorkItem, token: &Token) -> Result<(), Refusal> {
    if item.is_held_by(token) {
        return Ok(());
    }
    Err(broken("lease.token", format!("executing under {token}"), standing(item)))
}

/// The item under a lease of `holder` from now.
fn leased(item: &WorkItem, holder: Uuid, lease: Duration, now: Timestamp) -> WorkItem {
    WorkItem {
        state: S::Executing,
        attempts: item.attempts.saturating_add(1),
        epoch: item.epoch.saturating_add(1),
        holder: Some(holder),
        claimed_at: Some(now),
        lease_until: Some(after(now, lease)),
        ready_at: None,
        gate: None,
        reason: None,
        ..item.clone()
    }
}

/// The item as it waits from now on.
fn waiting(item: &WorkItem, state: S, ready_at: Option<Timestamp>) -> WorkItem {
    WorkItem { state, lease_until: None, ready_at, ..item.clone() }
}

/// The item at its end.
fn ended(item: &WorkItem, state: S, reason: Option<Reason>, now: Timestamp) -> WorkItem {
    WorkItem {
        state,
        lease_until: None,
        ready_at: None,
        gate: None,
        reason,
        finished_at: Some(now),
        ..item.clone()
    }
}

fn attempt(item: &WorkItem, ending: Ending, code: &str, detail: &str, now: Timestamp) -> Option<Attempt> {
    Some(Attempt {
        item: item.item,
        epoch: item.epoch,
        holder: item.holder?,
        claimed_at: item.claimed_at?,
        ended_at: now,
        ending,
        code: code.to_owned(),
        detail: detail.to_owned(),
    })
}

fn claim(item: &WorkItem, holder: Uuid, lease: Duration, now: Timestamp) -> Answer {
    WORK_ITEM.check(item.state, S::Executing)?;
    is_lease(lease)?;
    if !item.is_ready(now) {
        let observed = item.ready_at.map_or_else(|| standing(item), |at| format!("ready at {at}"));
        return Err(broken("claim.ready", format!("ready by {now}"), observed));
    }
    apply(T::Claim, item.state, leased(item, holder, lease, now), None)
}

fn take_over(item: &WorkItem, holder: Uuid, lease: Duration, now: Timestamp) -> Answer {
    WORK_ITEM.step(item.state, T::TakeOver)?;
    is_lease(lease)?;
    if let Some(until) = item.lease_until.filter(|until| *until > now) {
        return Err(broken(
            "lease.expired",
            format!("a lease that ended by {now}"),
            format!("until {until}"),
        ));
    }
    // A worker that dies uses its attempt up, and a failure with it.
    let failed = WorkItem { failures: item.failures.saturating_add(1), ..item.clone() };
    let lost = |item| attempt(item, Ending::LeaseLost, "lease_lost", "", now);
    match decide(&item.policy, failed.attempts, failed.failures, false, item.seed()) {
        RetryDecision::Retry { .. } => {
            apply(T::TakeOver, item.state, leased(&failed, holder, lease, now), lost(item))
        }
        RetryDecision::Exhausted { reason_code } => {
            let reason = Reason {
                code: reason_code.as_str().to_owned(),
                detail: "lease_lost".to_owned(),
                actor: None,
            };
            apply(T::Fail, item.state, ended(&failed, S::Failed, Some(reason), now), lost(item))
        }
    }
}

fn heartbeat(item: &WorkItem, token: &Token, lease: Duration, now: Timestamp) -> Answer {
    is_lease(lease)?;
    is_token(item, token)?;
    let after = WorkItem { lease_until: Some(after(now, lease)), ..item.clone() };
    apply(T::Reaffirm, item.state, after, None)
}

fn complete(item: &WorkItem, token: &Token, now: Timestamp) -> Answer {
    if item.state == S::Completed && item.was_held_by(token) {
        return Ok(Judgement::Already);
    }
    WORK_ITEM.check(item.state, S::Completed)?;
    is_token(item, token)?;
    apply(T::Complete, item.state, ended(item, S::Completed, None, now), None)
}

/// The decision on a failure: the matrix, unless the worker or the risk gate says never again.
fn decision(item: &WorkItem, failure: &Failure) -> RetryDecision {
    let failures = item.failures.saturating_add(1);
    let within = decide(&item.policy, item.attempts, failures, item.is_terminal(), item.seed());
    within.after_risk_gate(failure.kind != FailureKind::RiskDenied)
}

fn fail(item: &WorkItem, token: &Token, failure: &Failure, now: Timestamp) -> Answer {
    let decided = decision(item, failure);
    let retry = match (failure.kind, decided) {
        (FailureKind::Transient, RetryDecision::Retry { delay_ms, .. }) => Some(delay_ms),
        _ => None,
    };
    let target = if retry.is_some() { S::AwaitingTool } else { S::Failed };
    let is_own = item.was_held_by(token) && item.state != S::Executing;
    if is_own && (item.state == S::Failed || is_retry_wait(item, failure)) {
        return Ok(Judgement::Already);
    }
    WORK_ITEM.check(item.state, target)?;
    is_token(item, token)?;
    if !is_code(&failure.code) {
        return Err(broken("fail.code", "1 to 64 of a-z, 0-9 and _", format!("{:?}", failure.code)));
    }
    let detail = text(&failure.detail);
    let record = attempt(item, Ending::Failed, &failure.code, &detail, now);
    let failed = WorkItem { failures: item.failures.saturating_add(1), ..item.clone() };
    if let Some(delay_ms) = retry {
        let ready_at = after(now, Duration::from_millis(delay_ms));
        let mut after = waiting(&failed, S::AwaitingTool, Some(ready_at));
        after.reason = Some(Reason { code: failure.code.clone(), detail, actor: None });
        return apply(T::AwaitTool, item.state, after, record);
    }
    let reason = match (failure.kind, decided) {
        // The budget ended it: its code, and the last failure as the detail.
        (FailureKind::Transient, RetryDecision::Exhausted { reason_code }) => Reason {
            code: reason_code.as_str().to_owned(),
            detail: text(&format!("{}: {detail}", failure.code)),
            actor: None,
        },
        (FailureKind::RiskDenied, _) => {
            Reason { code: RetryReasonCode::RiskDenied.as_str().to_owned(), detail, actor: None }
        }
        _ => Reason { code: failure.code.clone(), detail, actor: None },
    };
    apply(T::Fail, item.state, ended(&failed, S::Failed, Some(reason), now), record)
}

fn is_retry_wait(item: &WorkItem, failure: &Failure) -> bool {
    item.state == S::AwaitingTool && item.reason.as_ref().is_some_and(|reason| reason.code == failure.code)
}

fn is_code(code: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=64).contains(&code.len()) && code.bytes().all(is_letter) && code != HANDBACK
}

fn await_user(item: &WorkItem, token: &Token, gate: &str, now: Timestamp) -> Answer {
    let gate = text(gate);
    let is_here = item.state == S::AwaitingUserConfirmation && item.gate.as_deref() == Some(&*gate);
    if is_here && item.was_held_by(token) {
        return Ok(Judgement::Already);
    }
    WORK_ITEM.check(item.state, S::AwaitingUserConfirmation)?;
    is_token(item, token)?;
    if gate.trim().is_empty() {
        return Err(broken("await.gate", "a gate's name", "none"));
    }
    let record = attempt(item, Ending::AwaitUser, "await_user", &gate, now);
    let mut after = waiting(item, S::AwaitingUserConfirmation, None);
    after.attempts = item.attempts.saturating_sub(1);
    after.gate = Some(gate);
    apply(T::AwaitUser, item.state, after, record)
}

fn hand_back(item: &WorkItem, token: &Token, now: Timestamp) -> Answer {
    let is_handed = item.reason.as_ref().is_some_and(|reason| reason.code == HANDBACK);
    if item.state == S::AwaitingTool && is_handed && item.was_held_by(token) {
        return Ok(Judgement::Already);
    }
    WORK_ITEM.check(item.state, S::AwaitingTool)?;
    is_token(item, token)?;
    let record = attempt(item, Ending::HandedBack, HANDBACK, "", now);
    let mut after = waiting(item, S::AwaitingTool, Some(now));
    after.attempts = item.attempts.saturating_sub(1);
    after.reason = Some(Reason { code: HANDBACK.to_owned(), detail: String::new(), actor: None });
    apply(T::AwaitTool, item.state, after, record)
}

fn ready(item: &WorkItem, gate: &str, now: Timestamp) -> Answer {
    let gate = text(gate);
    let awaited = item.gate.as_deref().filter(|_| item.state == S::AwaitingUserConfirmation);
    if awaited != Some(&*gate) {
        let observed = awaited.map_or_else(|| standing(item), |gate| format!("waits for {gate}"));
        return Err(broken("ready.gate", format!("waits for {gate}"), observed));
    }
    if item.ready_at.is_some() {
        return Ok(Judgement::Already);
    }
    apply(T::Reaffirm, item.state, WorkItem { ready_at: Some(now), ..item.clone() }, None)
}

fn cancel(item: &WorkItem, reason: &str, actor: &str, now: Timestamp) -> Answer {
    if item.state == S::Cancelled {
        return Ok(Judgement::Already);
    }
    WORK_ITEM.check(item.state, S::Cancelled)?;
    let detail = text(reason);
    if detail.trim().is_empty() {
        return Err(broken("cancel.reason", "a reason", "none"));
    }
    let reason = Reason { code: CANCELLED.to_owned(), detail, actor: Some(text(actor)) };
    apply(T::Cancel, item.state, ended(item, S::Cancelled, Some(reason), now), None)
}
