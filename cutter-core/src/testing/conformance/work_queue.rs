//! The contract of [`WorkQueue`].

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::future::Future;
use core::time::Duration;

use uuid::Uuid;

use super::{Broken, ConformanceFailure, Held, at_once, contracts, equal, holds, refused};
use crate::machine::retry::{RetryDecision, RetryPolicy, decide};
use crate::machine::work_item::WorkItemState as S;
use crate::port::work_queue::{Answer, Enqueued, ItemQuery, Wake, WorkQueue};
use crate::port::{PortErrorKind, PortResult};
use crate::record::queue::{
    CANCELLED, Ending, Failure, HANDBACK, InvalidItem, ItemId, LEASE_MAX, NewItem, PAYLOAD_MAX_BYTES, Token,
    WorkItem,
};
use crate::testing::memory::block_on;

mod claims;
mod endings;
mod retries;

/// Lets at least this much of the queue's own time pass, and not a second more.
pub type Advance = Box<dyn Fn(Duration) + Send + Sync>;

/// A fresh, empty queue.
pub struct QueueUnderTest {
    /// The queue, as several workers see it: one handle each.
    pub workers: Vec<Arc<dyn WorkQueue>>,
    /// Its clock.
    pub advance: Advance,
    /// What must outlive it.
    pub keep: Option<Box<dyn Any + Send + Sync>>,
}

impl core::fmt::Debug for QueueUnderTest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("QueueUnderTest").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

/// Checks every contract; gives the names of those that held. Some contracts use several workers:
/// give at least four.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<QueueUnderTest>>,
{
    use claims::*;
    use endings::*;
    use retries::*;
    contracts!(
        "work_queue",
        build,
        [
            the_same_key_and_payload_give_the_recorded_item,
            the_same_key_with_another_payload_is_a_conflict_and_writes_nothing,
            a_key_stands_after_its_item_ended,
            of_fifty_enqueuers_of_one_key_one_is_new,
            bounds_are_kept,
            lower_priority_numbers_go_first_and_equal_ones_in_sequence,
            of_many_claimants_each_item_has_one_holder,
            a_late_urgent_item_overtakes_and_an_early_one_is_not_starved_by_its_equals,
            a_heartbeat_keeps_the_lease,
            leases_run_out_by_the_queues_own_clock,
            of_many_that_take_over_one_holds,
            a_worker_that_lost_its_lease_writes_nothing,
            an_expired_lease_that_nobody_took_still_completes,
            a_completion_is_recorded_once,
            an_item_that_is_not_there_is_refused,
            a_failure_waits_as_the_matrix_says_and_then_is_claimed,
            the_budget_ends_it_with_its_reason_code,
            a_poison_item_ends_after_exactly_its_budget,
            a_permanent_failure_is_not_retried,
            a_denied_risk_ends_the_item,
            a_pause_for_a_human_costs_no_attempt_and_ends_by_the_word_for_its_gate,
            a_handback_keeps_the_place_and_the_budget,
            one_worker_at_a_time_has_the_turn_to_watch,
            a_cancellation_reaches_every_open_state_and_no_other,
            a_cancellation_races_a_completion_to_one_outcome,
            what_ended_never_changes,
            items_are_listed_by_number,
            statistics_count_every_state,
            retention_drops_whole_days_with_their_keys,
            a_wait_ends_by_a_notice_or_by_its_limit,
        ]
    )
}

const LEASE: Duration = Duration::from_secs(60);

impl QueueUnderTest {
    fn queue(&self) -> &dyn WorkQueue {
        &*self.workers[0]
    }

    fn pass(&self, seconds: u64) {
        (self.advance)(Duration::from_secs(seconds));
    }

    async fn add(&self, key: &str) -> Result<ItemId, Broken> {
        self.put(new(key)).await
    }

    async fn put(&self, item: NewItem) -> Result<ItemId, Broken> {
        one(self.queue().enqueue(&[item]).await?).map(|enqueued| enqueued.item)
    }

    async fn claim_one(&self, holder: Uuid) -> Result<WorkItem, Broken> {
        one(self.queue().claim(holder, 1, LEASE).await?)
    }

    async fn claimed(&self, holder: Uuid) -> Result<Token, Broken> {
        token(&self.claim_one(holder).await?)
    }

    async fn stands(&self, item: ItemId) -> Result<WorkItem, Broken> {
        self.queue().item(item).await?.ok_or_else(|| Broken::new(format!("item {item}"), "none"))
    }

    async fn complete(&self, token: &Token) -> Result<Answer, Broken> {
        one(self.queue().complete(&[*token]).await?)
    }
}

/// A worker.
fn id(n: u64) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 | u128::from(n))
}

fn invalid(error: InvalidItem) -> Broken {
    Broken::new("an item that is taken", error.to_string())
}

fn new(key: &str) -> NewItem {
    payload(key, "{}")
}

fn payload(key: &str, payload: &str) -> NewItem {
    // Keys and payloads of the contracts are within the limits.
    NewItem::new(key, "test", payload).unwrap_or_else(|error| unreachable(&error))
}

#[allow(clippy::panic, reason = "a mistake in the suite itself")]
fn unreachable(error: &InvalidItem) -> ! {
    panic!("{error}")
}

fn budget(max_attempts: u32, max_failures: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, max_failures, base_ms: 4_000, cap_ms: 60_000, jitter: 50 }
}

fn one<T: core::fmt::Debug>(mut list: Vec<T>) -> Result<T, Broken> {
    match (list.len(), list.pop()) {
        (1, Some(only)) => Ok(only),
        (n, last) => Err(Broken::new("one answer", format!("{n}, the last {last:?}"))),
    }
}

fn token(item: &WorkItem) -> Result<Token, Broken> {
    item.token().ok_or_else(|| Broken::new("an item that its caller holds", format!("{item:?}")))
}

fn says(what: &str, begins: &str, answer: &Answer) -> Held {
    let is_so = matches!(answer, Answer::Refused(text) if text.starts_with(begins));
    if is_so {
        return Ok(());
    }
    Err(Broken::new(format!("{what}: refused with {begins:?}"), format!("{answer:?}")))
}

fn code(item: &WorkItem) -> Option<&str> {
    item.reason.as_ref().map(|reason| reason.code.as_str())
}
