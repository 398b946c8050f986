//! The work queue port (spec 4, AG-ORCH-02): many workers on many hosts, one queue.
//!
//! To ensure correctness, an implementation holds to these rules:
//!
//! 1. Every operation is atomic and durable on return; of a batch, each item on its own, but for
//!    [`WorkQueue::enqueue`], which writes the whole batch or nothing. A batch names an item under
//!    one token only.
//! 2. What [`judge`](crate::record::queue::judge) says of an item is what happens to it, and nothing else
//!    happens. A refusal is an [`Answer`], with the judgement's own text; it is no error.
//! 3. Of two operations on one item at the same time one comes first, and the other is judged by
//!    what the first left behind: a cancellation and a completion never both apply.
//! 4. Leases and waits are measured by the queue's own clock. No operation takes a time from the
//!    caller, so a worker's clock decides nothing.
//! 5. A claim takes items in [`claim_order`](crate::record::queue::claim_order) of those that nobody else
//!    is taking at the moment, and never waits for another claim.
//! 6. Every write of a holder may be asked for again under the same token: it then writes nothing
//!    and answers [`Answer::Already`]. That is what to do after
//!    [`PortErrorKind::OutcomeUnknown`](super::PortErrorKind::OutcomeUnknown). A claim whose answer
//!    was lost leaves leases that nobody renews; they are taken over when they run out.
//! 7. What ended stays, its key with it, until [`WorkQueue::retain`] drops its day.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::PortResult;
use crate::machine::work_item::WorkItemState;
use crate::record::queue::{Attempt, Failure, ItemId, NewItem, Token, WorkItem};

/// The answer to a write on one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Written now; where the item stands.
    Applied(WorkItemState),
    /// It stood so already: nothing was written.
    Already,
    /// No; the text of the [`Refusal`](crate::record::queue::Refusal), which begins with its rule or with
    /// `illegal work_item transition`. A holder that is refused by `lease.token` stops at once.
    Refused(String),
}

impl Answer {
    /// Whether it stands as asked.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// What became of one item of an enqueued batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The item under this key.
    pub item: ItemId,
    /// It was written now. Otherwise the item with this key and payload is recorded already,
    /// wherever it stands.
    pub is_new: bool,
}

/// What a takeover found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TakenOver {
    /// Items that the caller holds now, in claim order.
    pub items: Vec<WorkItem>,
    /// Items whose budget the lost lease used up: `failed`, with the reason code.
    pub exhausted: Vec<ItemId>,
}

/// Which items to list, in order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemQuery {
    /// Only in this state.
    pub state: Option<WorkItemState>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Start after this item (paging by key).
    pub after: Option<ItemId>,
    /// At most so many.
    pub limit: u32,
}

/// The queue in numbers, at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatistics {
    /// The queue's own clock.
    pub now: Timestamp,
    /// Items by state; every state but `received`, zeros included.
    pub by_state: Vec<(WorkItemState, u64)>,
    /// Items that a claim would find now.
    pub ready: u64,
    /// Since when the one that waits longest could be claimed.
    pub oldest_ready: Option<Timestamp>,
    /// When the present lease that is oldest was claimed.
    pub oldest_lease: Option<Timestamp>,
    /// Leases that ran out and nobody took over yet.
    pub expired_leases: u64,
    /// Which worker has the turn to watch over parked items; `None`: nobody has, so no word is seen.
    pub watched_by: Option<Uuid>,
    /// Since when the oldest snapshot is held open, by whomever: it keeps the store from removing
    /// what claims must then step over. `None`: there is none, or it cannot be told.
    pub oldest_snapshot: Option<Timestamp>,
}

impl QueueStatistics {
    /// How many are in a state.
    #[must_use]
    pub fn count(&self, state: WorkItemState) -> u64 {
        self.by_state.iter().find(|(s, _)| *s == state).map_or(0, |(_, n)| *n)
    }
}

/// What a pass of the retention did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retained {
    /// Days (UTC) whose finished items are gone.
    pub days: Vec<Date>,
    /// How many items went with them.
    pub items: u64,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Somebody enqueued, handed back or made ready.
    Notified,
    /// The time is over: look all the same, waits and leases end without a notice.
    Elapsed,
    /// The wait could not hear anything for a while: look now.
    Reconnected,
}

/// The queue. See the rules at the top of the module.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Puts items into the queue, in the order given, in one write: their numbers follow it. A key
    /// that stands already with the same kind and payload gives the recorded item, whatever its
    /// state; its priority and policy stay as they were. Numbers may have gaps.
    ///
    /// # Errors
    /// `Conflict` if a key stands for another payload: `enqueue.same_payload` with both digests,
    /// and nothing of the batch is written. `Invalid` above
    /// [`BATCH_MAX`](crate::record::queue::BATCH_MAX).
    async fn enqueue(&self, items: &[NewItem]) -> PortResult<Vec<Enqueued>>;

    /// Takes up to `limit` items under leases of this length, in claim order.
    ///
    /// # Errors
    /// `Invalid` for a lease or a limit out of bounds.
    async fn claim(&self, holder: Uuid, limit: u32, lease: Duration) -> PortResult<Vec<WorkItem>>;

    /// Takes up to `limit` items whose leases ran out, in claim order. A lost lease counts as a
    /// failed attempt; where that uses the budget up, the item is failed instead. Its own expired
    /// leases a holder takes over as any other's, under a new epoch.
    ///
    /// # Errors
    /// As [`Self::claim`].
    async fn take_over(&self, holder: Uuid, limit: u32, lease: Duration) -> PortResult<TakenOver>;

    /// Renews leases from now. A lease that ran out is renewed, too, if nobody took it over.
    ///
    /// # Errors
    /// `Invalid` for a lease out of bounds or too many tokens.
    async fn heartbeat(&self, tokens: &[Token], lease: Duration) -> PortResult<Vec<Answer>>;

    /// The work of these items is done.
    ///
    /// # Errors
    /// `Invalid` for too many tokens.
    async fn complete(&self, tokens: &[Token]) -> PortResult<Vec<Answer>>;

    /// The attempt failed: within the budget the item waits as `awaiting_tool` for the delay that
    /// [`retry::decide`](crate::machine::retry::decide) gives with the key as seed, else it is `failed`.
    ///
    /// # Errors
    /// None of its own.
    async fn fail(&self, token: &Token, failure: &Failure) -> PortResult<Answer>;

    /// The item waits for a human at this gate, and costs no worker and no attempt meanwhile.
    ///
    /// # Errors
    /// None of its own.
    async fn await_user(&self, token: &Token, gate: &str) -> PortResult<Answer>;

    /// The worker stops: the items can be claimed by others at once, in their old place, and the
    /// attempts do not count. They become `awaiting_tool` with reason `handback`, never `queued`.
    ///
    /// # Errors
    /// `Invalid` for too many tokens.
    async fn hand_back(&self, tokens: &[Token]) -> PortResult<Vec<Answer>>;

    /// The human's word for this gate came: the item can be claimed. Whoever watches for such
    /// words looks at what waits again and again: a word that came before its pause is refused
    /// here (`ready.gate`), and found afterwards.
    ///
    /// # Errors
    /// None of its own.
    async fn ready(&self, item: ItemId, gate: &str) -> PortResult<Answer>;

    /// Whether it is this worker's turn to watch over parked items. It is if nobody has the turn, or
    /// its lease ran out, or the worker has it already; then its lease begins anew. One worker
    /// watches for all: what a look costs depends on what is parked, not on how many workers there
    /// are. The turn saves work and guards nothing: who lost it may end its look.
    ///
    /// # Errors
    /// `Invalid` for a lease out of bounds.
    async fn take_watch(&self, holder: Uuid, lease: Duration) -> PortResult<bool>;

    /// Gives the turn to watch to whoever asks next; nothing happens if another has it.
    ///
    /// # Errors
    /// None of its own.
    async fn leave_watch(&self, holder: Uuid) -> PortResult<()>;

    /// Gives an item up, wherever it stands; the reason is recorded. Its holder, if it has one,
    /// finds out at its next heartbeat.
    ///
    /// # Errors
    /// `Busy` if the item moves on again and again meanwhile.
    async fn cancel(&self, item: ItemId, reason: &str, actor: &str) -> PortResult<Answer>;

    /// One item, wherever it stands; `None` if it is not stored, or not any more.
    ///
    /// # Errors
    /// None of its own.
    async fn item(&self, item: ItemId) -> PortResult<Option<WorkItem>>;

    /// The item under a key.
    ///
    /// # Errors
    /// None of its own.
    async fn item_by_key(&self, key: &str) -> PortResult<Option<WorkItem>>;

    /// Items by number.
    ///
    /// # Errors
    /// None of its own.
    async fn list(&self, query: &ItemQuery) -> PortResult<Vec<WorkItem>>;

    /// The attempts of an item that ended without finishing it, oldest first.
    ///
    /// # Errors
    /// None of its own.
    async fn attempts(&self, item: ItemId) -> PortResult<Vec<Attempt>>;

    /// The queue in numbers.
    ///
    /// # Errors
    /// None of its own.
    async fn statistics(&self) -> PortResult<QueueStatistics>;

    /// Drops what ended more than `days` whole days (UTC) ago, with keys and attempts, day by day.
    /// Asking again goes on where a pass was interrupted.
    ///
    /// # Errors
    /// `Invalid` for 0 days: today's keys must stand.
    async fn retain(&self, days: u16) -> PortResult<Retained>;

    /// Waits until there may be something to claim, at most this long. It may end early without
    /// cause, never late: what was enqueued after the wait began ends it.
    ///
    /// # Errors
    /// `Unavailable` if the queue cannot be reached; wait a little before asking again.
    async fn wait(&self, limit: Duration) -> PortResult<Wake>;
}

/// Asked before each retry of an item with side effects (AG-RISK): what an earlier attempt did
/// may have taken effect.
#[async_trait]
pub trait RiskGate: Send + Sync {
    /// Whether the item, as it is claimed now, may be tried again; `Err` text says why not.
    ///
    /// # Errors
    /// The outer one: the gate could not be asked. Nothing is retried then.
    async fn allows(&self, item: &WorkItem) -> PortResult<Result<(), String>>;
}

/// What a worker calls on every item that it claimed or took over, before it does anything: asks
/// the risk gate where that is due, and fails the item with `risk_denied` on a no. `true`: go on.
///
/// # Errors
/// The gate's or the queue's. The item is still the caller's then: hand it back.
pub async fn admit(queue: &dyn WorkQueue, gate: &dyn RiskGate, item: &WorkItem) -> PortResult<bool> {
    let is_retry = item.failures > 0;
    let (Some(token), true) = (item.token(), item.has_side_effects && is_retry) else {
        return Ok(true);
    };
    match gate.allows(item).await? {
        Ok(()) => Ok(true),
        Err(why) => {
            queue.fail(&token, &Failure::risk_denied(why)).await?;
            Ok(false)
        }
    }
}
