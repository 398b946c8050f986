//! Events as they are stored.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;

use crate::base::cas::CasOutcome;
use crate::base::digest::Digest;
use crate::base::limits::{POLICY_EVENT_MAX_BYTES, POLICY_KEY_MAX_BYTES};

/// An event as the database holds it. Nothing of it is believed before it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// 1, 2, …
    pub seq: u64,
    /// The event's text, clear-signed or bare.
    pub document: String,
    /// When the database took it, by its own clock.
    pub recorded_at: Timestamp,
}

/// Everything that the database holds of its policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyRecord {
    /// The events, oldest first.
    pub events: Vec<StoredEvent>,
    /// The public keys that they name, by their sha256.
    pub keys: BTreeMap<Digest, String>,
}

/// An event to append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Its number: one more than the last.
    pub seq: u64,
    /// sha256 of the last event's document; `None` for the first.
    pub previous: Option<Digest>,
    /// Its text, clear-signed or bare.
    pub document: String,
    /// The public keys that it names and that are not stored yet.
    pub keys: Vec<String>,
}

/// Why an event can't be appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy event {seq}: expected {expected}, observed {observed}")]
pub struct Unfit {
    /// Which event.
    pub seq: u64,
    /// What it should be.
    pub expected: &'static str,
    /// What it is.
    pub observed: String,
}

impl NewEvent {
    /// Whether the event says of itself what number it has and what it follows, and is within
    /// bounds: what a store that can't check signatures can see.
    ///
    /// # Errors
    /// [`Unfit`], what is not so.
    pub fn check(&self) -> Result<(), Unfit> {
        let unfit = |expected, observed: String| Unfit { seq: self.seq, expected, observed };
        let bytes = self.document.len();
        if bytes > POLICY_EVENT_MAX_BYTES {
            return Err(unfit("a document of at most 65536 bytes", format!("{bytes} bytes")));
        }
        if let Some(key) = self.keys.iter().find(|k| k.len() > POLICY_KEY_MAX_BYTES) {
            return Err(unfit("keys of at most 262144 bytes", format!("{} bytes", key.len())));
        }
        let previous = self.previous.map_or_else(|| "none".to_owned(), |d| d.to_hex());
        for (expected, line) in [
            ("one line that names its number", format!("seq: {}", self.seq)),
            ("one line that names what it follows", format!("previous: {previous}")),
        ] {
            let found = self.document.lines().filter(|l| l.trim_end() == line).count();
            if found != 1 {
                return Err(unfit(expected, format!("{found} of `{line}`")));
            }
        }
        Ok(())
    }

    /// Appends to a record, as a store does.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn append_to(
        &self,
        record: &mut PolicyRecord,
        recorded_at: Timestamp,
    ) -> Result<CasOutcome<u64>, Unfit> {
        self.check()?;
        let highest = record.events.len() as u64;
        let standing = record.events.iter().find(|e| e.seq == self.seq);
        if standing.is_some_and(|e| e.document == self.document) {
            return Ok(CasOutcome::AlreadyApplied);
        }
        let last = record.events.last().map(|e| Digest::of(e.document.as_bytes()));
        if standing.is_some() || self.seq != highest + 1 || self.previous != last {
            return Ok(CasOutcome::Conflict { found: highest });
        }
        record.events.push(StoredEvent { seq: self.seq, document: self.document.clone(), recorded_at });
        record.keys.extend(self.keys.iter().map(|k| (Digest::of(k.as_bytes()), k.clone())));
        Ok(CasOutcome::Applied)
    }
}
