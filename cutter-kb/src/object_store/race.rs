//! Does a store keep its word? Many create one key at once: exactly one may succeed.
//!
//! A store that does not know the condition lets all of them win, and each believes that its
//! claim, its document or its approval stands. There is no way to see that from its answers
//! to a single request, so it is asked with a race.

use bytes::Bytes;
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};

use super::error::Fault;
use super::place::Place;

const PROBE: &str = ".probe";

/// What a race showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceReport {
    /// How many created the key at once.
    pub creators: usize,
    /// How many were told that they had created it.
    pub winners: usize,
    /// Whether a creator that came later was refused.
    pub is_late_refused: bool,
    /// Whether what stands there is the winner's.
    pub is_winners: bool,
}

impl RaceReport {
    /// Whether the store may hold a knowledge base.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.winners == 1 && self.is_late_refused && self.is_winners
    }
}

/// Races `creators` (at least 2) for one new key below `.probe/` and removes it again.
///
/// # Errors
/// As every write; `Invalid` if the store says that it cannot create conditionally.
pub async fn create_race(place: &Place, creators: usize) -> PortResult<RaceReport> {
    let failed = |fault: Fault| fault.of(Port::KnowledgeBase, "create race", place.shown());
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(|e| {
        PortError::new(Port::KnowledgeBase, "create race", PortErrorKind::Unavailable, e.to_string())
    })?;
    let path = format!("{PROBE}/{:016x}", u64::from_be_bytes(random));
    let report = race(place, &path, creators.max(2)).await;
    // a store that forbids removing keeps the probe: it is hidden and a few bytes
    let _ = place.remove(&path).await;
    report.map_err(failed)
}

async fn race(place: &Place, path: &str, creators: usize) -> Result<RaceReport, Fault> {
    let body = |i: usize| Bytes::from(format!("creator {i}"));
    let creating = (0..creators).map(|i| place.create(path, body(i)));
    let outcomes = futures_util::future::join_all(creating).await;
    let mut winners = Vec::new();
    for (i, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(()) => winners.push(i),
            Err(Fault::Exists) => {}
            Err(fault) => return Err(fault),
        }
    }
    let found = place.read(path, 64).await?.map(|read| read.bytes);
    let is_winners = winners.first().is_some_and(|i| found == Some(body(*i)));
    let is_late_refused = matches!(place.create(path, body(creators)).await, Err(Fault::Exists));
    Ok(RaceReport { creators, winners: winners.len(), is_late_refused, is_winners })
}
