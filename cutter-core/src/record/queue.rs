//! The work queue (spec 4, AG-ORCH-01 to 03) as facts and verdicts: what stands of an item, what
//! is asked of it, whether that may be, and what follows.
//!
//! - [`WorkItem`] is everything that is stored about one item.
//! - [`Operation`] is what somebody asks for; [`judge`] answers with the item as it must stand
//!   after it, with "it stands so already", or with a refusal that names its rule.
//! - [`claim_order`] is the one order rule: lower priority number first, then first in, first out,
//!   over queued items and over those whose wait is over, wherever they waited.
//!
//! **Fencing.** Every claim raises the item's `epoch`; the holder's [`Token`] is (item, epoch,
//! holder). Every write of a holder is judged by its token, never by a clock: a worker whose lease
//! ran out may still finish as long as nobody took the item over, and can write nothing
//! afterwards.
//!
//! **Time** is always the queue's own, handed in as `now`; no operation carries a time of a worker.
//!
//! Nothing here reads or writes. The in-memory queue is these functions over a map, and the model
//! that the one in PostgreSQL is compared with.

mod judge;
#[cfg(test)]
mod tests;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::judge::{Change, Judgement, Operation, RULES, Refusal, judge, judge_enqueue, unknown};
use crate::base::digest::Digest;
use crate::machine::retry::RetryPolicy;
use crate::machine::spelled;
use crate::machine::work_item::{WORK_ITEM, WorkItemState};
use crate::record::backlog::Rule;

/// Longest key, in bytes.
pub const KEY_MAX_BYTES: usize = 200;
/// Longest kind, in bytes.
pub const KIND_MAX_BYTES: usize = 64;
/// Longest payload, in bytes: a reference to the work, not the work itself.
pub const PAYLOAD_MAX_BYTES: usize = 65_536;
/// Longest reason, detail, gate or actor kept, in bytes; a longer one is cut.
pub const TEXT_MAX_BYTES: usize = 1_000;
/// Most items in one batch.
pub const BATCH_MAX: usize = 10_000;
/// Shortest lease.
pub const LEASE_MIN: Duration = Duration::from_millis(1);
/// Longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(86_400);

/// Reason code of an item that its worker handed back.
pub const HANDBACK: &str = "handback";
/// Reason code of a cancelled item.
pub const CANCELLED: &str = "cancelled";

/// An item's number: its place in the enqueue sequence, which orders items of one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub u64);

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for ItemId {
    type Err = core::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// What a holder shows with every write: the fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Which item.
    pub item: ItemId,
    /// The claim's number: raised by every claim and every takeover.
    pub epoch: u64,
    /// The worker, random for every process start.
    pub holder: Uuid,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} of {}", self.epoch, self.holder)
    }
}

/// A new item: received, not yet in the queue. Its parts are checked when it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    key: String,
    kind: String,
    payload: Vec<u8>,
    digest: Digest,
    priority: i32,
    policy: RetryPolicy,
    has_side_effects: bool,
    actor: String,
}

/// A part of a new item that the queue does not take. Shown to whoever enqueues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a work item: {part} expected {expected}, observed {observed}")]
pub struct InvalidItem {
    /// `key`, `kind`, `payload` or `policy`.
    pub part: &'static str,
    /// What would be right.
    pub expected: String,
    /// What was given, cut.
    pub observed: String,
}

impl NewItem {
    /// An item of priority 0 with the [default policy](RetryPolicy::work_item), free of side
    /// effects. `key` makes enqueueing idempotent; `kind` says what work it is; `payload` is the
    /// worker's own affair.
    ///
    /// # Errors
    /// [`InvalidItem`]: an empty, too long or unprintable key or kind, or a payload over the limit.
    pub fn new(
        key: impl Into<String>,
        kind: impl Into<String>,
        payload: impl Into<Vec<u8>>,
    ) -> Result<Self, InvalidItem> {
        let (key, kind, payload) = (key.into(), kind.into(), payload.into());
        is_word("key", &key, KEY_MAX_BYTES)?;
        is_word("kind", &kind, KIND_MAX_BYTES)?;
        if payload.len() > PAYLOAD_MAX_BYTES {
            return Err(InvalidItem {
                part: "payload",
                expected: format!("at most {PAYLOAD_MAX_BYTES} bytes"),
                observed: format!("{} bytes", payload.len()),
            });
        }
        let digest = payload_digest(&kind, &payload);
        let policy = RetryPolicy::work_item();
        let actor = String::new();
        Ok(Self { key, kind, payload, digest, priority: 0, policy, has_side_effects: false, actor })
    }

    /// Lower numbers go first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// How often the item is tried, and how far apart.
    ///
    /// # Errors
    /// [`InvalidItem`]: a budget of nothing, or a number above 2^31 − 1.
    pub fn policy(mut self, policy: RetryPolicy) -> Result<Self, InvalidItem> {
        const MOST: u64 = i32::MAX as u64;
        let counts = [u64::from(policy.max_attempts), u64::from(policy.max_failures)];
        let is_taken = counts.iter().all(|n| (1..=MOST).contains(n))
            && policy.base_ms <= MOST
            && policy.cap_ms <= MOST
            && policy.jitter <= 100;
        if !is_taken {
            return Err(InvalidItem {
                part: "policy",
                expected: format!(
                    "counts from 1, delays in milliseconds, all up to {MOST}; jitter up to 100"
                ),
                observed: format!("{policy:?}"),
            });
        }
        self.policy = policy;
        Ok(self)
    }

    /// A retry is asked of the risk gate first (AG-RISK).
    #[must_use]
    pub fn side_effects(mut self, has_side_effects: bool) -> Self {
        self.has_side_effects = has_side_effects;
        self
    }

    /// Who enqueues, for people; cut to [`TEXT_MAX_BYTES`].
    #[must_use]
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = text(&actor.into());
        self
    }

    /// The unique key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The digest that the same key must come with again.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The item as it stands once it is in the queue (`received` → `queued`).
    #[must_use]
    pub fn queued(&self, item: ItemId, now: Timestamp) -> WorkItem {
        WorkItem {
            item,
            key: self.key.clone(),
            kind: self.kind.clone(),
            payload: self.payload.clone(),
            digest: self.digest,
            priority: self.priority,
            policy: self.policy,
            has_side_effects: self.has_side_effects,
            enqueued_by: self.actor.clone(),
            enqueued_at: now,
            state: WorkItemState::Queued,
            attempts: 0,
            failures: 0,
            epoch: 0,
            holder: None,
            claimed_at: None,
            lease_until: None,
            ready_at: Some(now),
            gate: None,
            reason: None,
            finished_at: None,
        }
    }
}

/// What a key stands for: sha256 of the kind, a line feed, and the payload's bytes.
#[must_use]
pub fn payload_digest(kind: &str, payload: &[u8]) -> Digest {
    let mut bytes = Vec::with_capacity(kind.len() + 1 + payload.len());
    bytes.extend_from_slice(kind.as_bytes());
    bytes.push(b'\n');
    bytes.extend_from_slice(payload);
    Digest::of(&bytes)
}

fn is_word(part: &'static str, word: &str, most: usize) -> Result<(), InvalidItem> {
    if !word.is_empty() && word.len() <= most && !word.chars().any(char::is_control) {
        return Ok(());
    }
    Err(InvalidItem {
        part,
        expected: format!("1 to {most} bytes without control characters"),
        observed: format!("{} bytes: {:?}", word.len(), word.chars().take(80).collect::<String>()),
    })
}

/// A text as it is kept: without NUL, cut between characters to [`TEXT_MAX_BYTES`].
pub(crate) fn text(given: &str) -> String {
    crate::base::clip::clip(&given.replace('\0', " "), TEXT_MAX_BYTES)
}

/// Why an item stands where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Stable code: a [`crate::machine::retry::RetryReasonCode`], [`HANDBACK`], [`CANCELLED`], or the
    /// worker's own.
    pub code: String,
    /// For people.
    pub detail: String,
    /// Who said so, if it was not the holder.
    pub actor: Option<String>,
}

/// Everything stored about one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItem {
    /// Its number, and its place in the sequence.
    pub item: ItemId,
    /// Unique among all items stored.
    pub key: String,
    /// What work it is.
    pub kind: String,
    /// The worker's own affair.
    pub payload: Vec<u8>,
    /// [`payload_digest`] of kind and payload.
    pub digest: Digest,
    /// Lower goes first.
    pub priority: i32,
    /// The budget.
    pub policy: RetryPolicy,
    /// Retries are asked of the risk gate.
    pub has_side_effects: bool,
    /// Who enqueued it.
    pub enqueued_by: String,
    /// When.
    pub enqueued_at: Timestamp,
    /// Where it stands.
    pub state: WorkItemState,
    /// Attempts that count: those that failed or lost their lease, and the one that runs or
    /// finished. A pause for a human and a handback give theirs back.
    pub attempts: u32,
    /// Attempts that failed or lost their lease.
    pub failures: u32,
    /// Claims and takeovers so far.
    pub epoch: u64,
    /// The last holder; the present one while it executes.
    pub holder: Option<Uuid>,
    /// When the last claim was.
    pub claimed_at: Option<Timestamp>,
    /// While it executes: when its lease runs out.
    pub lease_until: Option<Timestamp>,
    /// From when it may be claimed; `None` while it executes, waits for a human, or has ended.
    pub ready_at: Option<Timestamp>,
    /// While it waits for a human: what for.
    pub gate: Option<String>,
    /// Why it waits or ended so.
    pub reason: Option<Reason>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl WorkItem {
    /// Whether a claim may take it now.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        self.ready_at.is_some_and(|at| at <= now)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        WORK_ITEM.is_terminal(self.state)
    }

    /// Whether this token is the present holder's.
    #[must_use]
    pub fn is_held_by(&self, token: &Token) -> bool {
        self.state == WorkItemState::Executing && self.was_held_by(token)
    }

    /// Whether this token is the last one that was given out.
    #[must_use]
    pub fn was_held_by(&self, token: &Token) -> bool {
        self.epoch == token.epoch && self.holder == Some(token.holder)
    }

    /// The present holder's token.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.holder.filter(|_| self.state == WorkItemState::Executing).map(|holder| Token {
            item: self.item,
            epoch: self.epoch,
            holder,
        })
    }

    /// The seed of its delays: the same key waits the same on every machine.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let digest = Digest::of(self.key.as_bytes());
        digest.as_bytes()[..8].iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte))
    }
}

/// The one order in which items are claimed and taken over.
#[must_use]
pub fn claim_order(a: &WorkItem, b: &WorkItem) -> Ordering {
    (a.priority, a.item).cmp(&(b.priority, b.item))
}

/// What a worker says of an attempt that did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Once more within the budget, or never again.
    pub kind: FailureKind,
    /// Stable code of the worker's own: lowercase letters, digits and `_`, at most 64.
    pub code: String,
    /// For people; cut to [`TEXT_MAX_BYTES`].
    pub detail: String,
}

/// Whether a failure leaves room for another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The budget decides.
    Transient,
    /// No further attempt, whatever the budget.
    Permanent,
    /// The risk gate refused the retry: failed with `risk_denied`.
    RiskDenied,
}

impl Failure {
    /// The budget decides.
    pub fn transient(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: FailureKind::Transient, code: code.into(), detail: detail.into() }
    }

    /// No further attempt.
    pub fn permanent(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: FailureKind::Permanent, code: code.into(), detail: detail.into() }
    }

    /// The risk gate said no.
    pub fn risk_denied(detail: impl Into<String>) -> Self {
        let code = crate::machine::retry::RetryReasonCode::RiskDenied.as_str().to_owned();
        Self { kind: FailureKind::RiskDenied, code, detail: detail.into() }
    }
}

/// How an attempt ended. Completed and cancelled attempts are told by the item itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// It failed.
    Failed,
    /// It paused for a human.
    AwaitUser,
    /// Its worker handed it back.
    HandedBack,
    /// Its lease ran out and another worker took over, or nobody could any more.
    LeaseLost,
}

spelled!(Ending, "attempt ending", {
    Failed => "failed",
    AwaitUser => "await_user",
    HandedBack => "handed_back",
    LeaseLost => "lease_lost",
});

/// The record of an attempt that ended without finishing its item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which item.
    pub item: ItemId,
    /// Which claim.
    pub epoch: u64,
    /// Whose.
    pub holder: Uuid,
    /// From when.
    pub claimed_at: Timestamp,
    /// Until when.
    pub ended_at: Timestamp,
    /// How it ended.
    pub ending: Ending,
    /// The failure's code, the gate, or what else explains it.
    pub code: String,
    /// For people.
    pub detail: String,
}

/// A later time, at most the last one that there is.
pub(crate) fn after(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// As the refusals show an item to a holder.
pub(crate) fn standing(item: &WorkItem) -> String {
    match item.holder {
        Some(holder) => format!("{} under epoch {} of {holder}", item.state, item.epoch),
        None => item.state.to_string(),
    }
}

const fn rule(id: &'static str, what: &'static str, clause: &'static str) -> Rule {
    Rule { id, what, clause }
}
