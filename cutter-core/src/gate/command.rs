//! What a command means beside what stands under its key: a pure function.

use core::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::machine::command::CommandState;
use crate::record::command::{Command, CommandKey, CommandKind, Outcome};
use crate::record::command_entry::CommandEntry;

/// The one comparison of every ledger: what is recorded under a key answers an offer only if the
/// payloads' digests are equal.
#[must_use]
pub fn same_payload(recorded: &Digest, offered: &Digest) -> bool {
    recorded == offered
}

/// An entry with what the ledger's clock says of it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What is recorded.
    pub entry: CommandEntry,
    /// How long the holder of an open attempt holds it still, in milliseconds; 0: no longer.
    pub lease_left_ms: u64,
    /// How long until another attempt is due, in milliseconds; 0: now.
    pub delay_left_ms: u64,
}

/// One key, two payloads. Deterministic: nothing was written, and nothing was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "command {key}: payload conflict: expected {recorded_kind} {recorded_sha256} as recorded, \
     observed {offered_kind} {offered_sha256}; another effect needs another key"
)]
pub struct PayloadConflict {
    /// The key.
    pub key: CommandKey,
    /// What stands there.
    pub recorded_kind: CommandKind,
    /// Its digest.
    pub recorded_sha256: Digest,
    /// What was asked for.
    pub offered_kind: CommandKind,
    /// Its digest.
    pub offered_sha256: Digest,
}

/// What to do about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing stands there: record the intent, then call the adapter.
    Fresh,
    /// It ended: this is what became of it. No call.
    Replay(Outcome),
    /// Another payload stands there. No call.
    Conflict(PayloadConflict),
    /// An intent without outcome whose holder is gone, or is the caller: take it over and ask the
    /// adapter before anything else.
    Unresolved,
    /// The last attempt did not take effect and another is due.
    Retry,
    /// Somebody is at it.
    Busy {
        /// For how long at most, in milliseconds.
        left_ms: u64,
    },
    /// Another attempt is not due yet.
    Waiting {
        /// Until then, in milliseconds.
        left_ms: u64,
    },
}

impl Judgement {
    /// Whether the caller gets the next attempt.
    #[must_use]
    pub const fn claims(&self) -> bool {
        matches!(self, Self::Fresh | Self::Unresolved | Self::Retry)
    }

    /// Stored spelling, as the ledger's functions give it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Replay(_) => "replay",
            Self::Conflict(_) => "conflict",
            Self::Unresolved => "unresolved",
            Self::Retry => "retry",
            Self::Busy { .. } => "busy",
            Self::Waiting { .. } => "waiting",
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Judges `command`, offered by `holder`, beside what stands under its key.
///
/// The payload is compared first, whatever the state, so a conflict does not depend on when it is
/// found. An open attempt is its holder's: that one may take itself over at once (its answer was
/// lost), others when its time is up. An end without an outcome is no end: it counts as open.
#[must_use]
pub fn judge(standing: Option<&Standing>, command: &Command, holder: Uuid) -> Judgement {
    let Some(Standing { entry, lease_left_ms, delay_left_ms }) = standing else { return Judgement::Fresh };
    if !same_payload(&entry.payload_sha256, &command.payload_sha256()) {
        return Judgement::Conflict(PayloadConflict {
            key: entry.key.clone(),
            recorded_kind: entry.kind.clone(),
            recorded_sha256: entry.payload_sha256,
            offered_kind: command.kind().clone(),
            offered_sha256: command.payload_sha256(),
        });
    }
    match (entry.state(), entry.outcome()) {
        (CommandState::Done | CommandState::Failed, Some(outcome)) => Judgement::Replay(outcome),
        (CommandState::Waiting, _) if *delay_left_ms == 0 => Judgement::Retry,
        (CommandState::Waiting, _) => Judgement::Waiting { left_ms: *delay_left_ms },
        _ if *lease_left_ms == 0 || entry.holder == holder => Judgement::Unresolved,
        _ => Judgement::Busy { left_ms: *lease_left_ms },
    }
}
