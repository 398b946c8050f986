//! Rows of the queue to core types.

use std::time::SystemTime;

use cutter_core::base::digest::Digest;
use cutter_core::machine::retry::RetryPolicy;
use cutter_core::machine::work_item::WorkItemState as S;
use cutter_core::port::work_queue::QueueStatistics;
use cutter_core::record::queue::{Attempt, ItemId, Reason, WorkItem};
use jiff::Timestamp;
use jiff::civil::Date;
use postgres::Row;
use uuid::Uuid;

use crate::error::PgError;
use crate::row::{get, parsed, timestamp, unsigned};

pub(super) fn item_id(number: i64) -> Result<ItemId, PgError> {
    let negative = |_| PgError::Shape(format!("column item_id: {number} is negative"));
    u64::try_from(number).map(ItemId).map_err(negative)
}

fn small<T: TryFrom<i32>>(row: &Row, column: &str) -> Result<T, PgError> {
    let number: i32 = get(row, column)?;
    T::try_from(number).map_err(|_| PgError::Shape(format!("column {column}: {number} is out of range")))
}

fn timestamp_opt(row: &Row, column: &str) -> Result<Option<Timestamp>, PgError> {
    match get::<_, Option<SystemTime>>(row, column)? {
        None => Ok(None),
        Some(_) => timestamp(row, column).map(Some),
    }
}

fn policy(row: &Row) -> Result<RetryPolicy, PgError> {
    let jitter: i16 = get(row, "jitter")?;
    Ok(RetryPolicy {
        max_attempts: small(row, "max_attempts")?,
        max_failures: small(row, "max_failures")?,
        base_ms: small::<u32>(row, "base_ms")?.into(),
        cap_ms: small::<u32>(row, "cap_ms")?.into(),
        jitter: u8::try_from(jitter)
            .map_err(|_| PgError::Shape(format!("column jitter: {jitter} is out of range")))?,
    })
}

/// What never changes, as an item that a claim gave to `holder`.
pub(super) fn claimed(row: &Row, holder: Uuid) -> Result<WorkItem, PgError> {
    let mut item = facts(row, S::Executing)?;
    item.holder = Some(holder);
    item.claimed_at = Some(timestamp(row, "claimed_at")?);
    item.lease_until = Some(timestamp(row, "lease_until")?);
    Ok(item)
}

fn facts(row: &Row, state: S) -> Result<WorkItem, PgError> {
    let sha256: &[u8] = get(row, "payload_sha256")?;
    let digest: [u8; 32] = sha256
        .try_into()
        .map_err(|_| PgError::Shape(format!("column payload_sha256: {} bytes", sha256.len())))?;
    Ok(WorkItem {
        item: item_id(get(row, "item_id")?)?,
        key: get(row, "key")?,
        kind: get(row, "kind")?,
        payload: get(row, "payload")?,
        digest: Digest::from_bytes(digest),
        priority: get(row, "priority")?,
        policy: policy(row)?,
        has_side_effects: get(row, "side_effects")?,
        enqueued_by: get(row, "enqueued_by")?,
        enqueued_at: timestamp(row, "enqueued_at")?,
        state,
        attempts: small(row, "attempts")?,
        failures: small(row, "failures")?,
        epoch: unsigned(row, "epoch")?,
        holder: None,
        claimed_at: None,
        lease_until: None,
        ready_at: None,
        gate: None,
        reason: None,
        finished_at: None,
    })
}

/// A row of `v_work_item`.
pub(super) fn item(row: &Row) -> Result<WorkItem, PgError> {
    let reason = match get::<_, Option<String>>(row, "reason_code")? {
        None => None,
        Some(code) => Some(Reason {
            code,
            detail: get::<_, Option<String>>(row, "reason_detail")?.unwrap_or_default(),
            actor: get(row, "reason_actor")?,
        }),
    };
    Ok(WorkItem {
        holder: get(row, "holder")?,
        claimed_at: timestamp_opt(row, "claimed_at")?,
        lease_until: timestamp_opt(row, "lease_until")?,
        ready_at: timestamp_opt(row, "ready_at")?,
        gate: get(row, "gate")?,
        reason,
        finished_at: timestamp_opt(row, "finished_at")?,
        ..facts(row, parsed(row, "state")?)?
    })
}

pub(super) fn attempt(row: &Row) -> Result<Attempt, PgError> {
    Ok(Attempt {
        item: item_id(get(row, "item_id")?)?,
        epoch: unsigned(row, "epoch")?,
        holder: get(row, "holder")?,
        claimed_at: timestamp(row, "claimed_at")?,
        ended_at: timestamp(row, "ended_at")?,
        ending: parsed(row, "ending")?,
        code: get(row, "code")?,
        detail: get(row, "detail")?,
    })
}

pub(super) fn statistics(row: &Row) -> Result<QueueStatistics, PgError> {
    let states = S::ALL.iter().filter(|state| **state != S::Received);
    Ok(QueueStatistics {
        now: timestamp(row, "now")?,
        by_state: states.map(|&s| Ok((s, unsigned(row, s.as_str())?))).collect::<Result<_, PgError>>()?,
        ready: unsigned(row, "ready")?,
        oldest_ready: timestamp_opt(row, "oldest_ready")?,
        oldest_lease: timestamp_opt(row, "oldest_lease")?,
        expired_leases: unsigned(row, "expired_leases")?,
        watched_by: get(row, "watched_by")?,
        oldest_snapshot: timestamp_opt(row, "oldest_snapshot")?,
    })
}

/// One step of the retention.
pub(super) struct RetainStep {
    pub(super) day: Date,
    pub(super) items: u64,
    /// Where the next step begins; `None`: the day is gone.
    pub(super) next_after: Option<i64>,
}

pub(super) fn retained(row: &Row) -> Result<RetainStep, PgError> {
    Ok(RetainStep {
        day: parsed(row, "day")?,
        items: unsigned(row, "items")?,
        next_after: get(row, "next_after")?,
    })
}
