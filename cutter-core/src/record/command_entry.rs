//! An entry of the command ledger.

use alloc::string::String;

use jiff::Timestamp;
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::machine::command::CommandState;
use crate::record::command::Settlement;
use crate::record::command::{CommandKey, CommandKind, Outcome};

/// A command and its newest attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEntry {
    /// The key.
    pub key: CommandKey,
    /// What is asked for.
    pub kind: CommandKind,
    /// Canonical JSON of `{"kind", "payload"}`.
    pub body: String,
    /// sha256 of `body`.
    pub payload_sha256: Digest,
    /// Who asked first.
    pub actor: String,
    /// When, by that caller's clock.
    pub at: Timestamp,
    /// The newest attempt.
    pub epoch: u32,
    /// Whose it is.
    pub holder: Uuid,
    /// How it ended, if it did.
    pub settlement: Option<Settlement>,
    /// Attempts that ended in `waiting`.
    pub failures: u32,
}

impl CommandEntry {
    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> CommandState {
        self.settlement.as_ref().map_or(CommandState::Intended, Settlement::state)
    }

    /// Its end, if it has ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.settlement.clone().and_then(|settlement| settlement.try_into().ok())
    }
}
