//! What a question to the queue may ask for.

use std::time::Duration;

use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::queue::{BATCH_MAX, LEASE_MAX, LEASE_MIN};

use super::PORT;

/// The count within a batch, and the lease in milliseconds.
pub(super) fn bounds(op: &str, count: usize, lease: Option<Duration>) -> PortResult<i32> {
    let invalid = |message| Err(PortError::new(PORT, op, PortErrorKind::Invalid, message));
    if count > BATCH_MAX {
        return invalid(format!("expected at most {BATCH_MAX} items at once, observed {count}"));
    }
    let Some(lease) = lease else { return Ok(0) };
    if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
        let (low, high) = (LEASE_MIN.as_millis(), LEASE_MAX.as_millis());
        let observed = lease.as_millis();
        return invalid(format!("expected a lease of {low} to {high} ms, observed {observed} ms"));
    }
    // The longest lease is far below the bound.
    Ok(i32::try_from(lease.as_millis()).unwrap_or(i32::MAX))
}

pub(super) fn limit(op: &str, limit: u32, lease: Duration) -> PortResult<(i32, i32)> {
    let lease = bounds(op, usize::try_from(limit).unwrap_or(usize::MAX), Some(lease))?;
    Ok((i32::try_from(limit).unwrap_or(i32::MAX), lease))
}
