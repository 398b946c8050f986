//! The command ledger port (spec 4, AG-EXE-01): what was asked for, by whom it is attempted, and
//! what became of it.
//!
//! To ensure correctness, an implementation holds to these rules:
//!
//! 1. One key is one entry. What it asks for never changes; nothing is ever removed.
//! 2. [`CommandLedger::claim`] is one transaction: it judges by
//!    [`judge`](crate::gate::command::judge) and, where the judgement claims, opens the next attempt
//!    (epoch 1, 2, …). Of many claims at once, one gets the attempt; the others see it.
//! 3. [`CommandLedger::settle`] writes under the newest epoch and its holder alone: any other is
//!    [`PortErrorKind::Fenced`]. The same settlement again gives what stands; another one under a
//!    settled epoch is [`PortErrorKind::Conflict`].
//! 4. `done` and `failed` are immutable: after them there is no attempt and no settlement.
//! 5. Leases and delays run by the ledger's own clock. The caller's times are kept with the rows,
//!    in whole microseconds, and decide nothing.
//! 6. After [`PortErrorKind::OutcomeUnknown`] the same call is made again: a claim of the same
//!    holder then takes itself over, and a settlement finds itself.
//!
//! [`PortErrorKind::Fenced`]: super::PortErrorKind::Fenced
//! [`PortErrorKind::Conflict`]: super::PortErrorKind::Conflict
//! [`PortErrorKind::OutcomeUnknown`]: super::PortErrorKind::OutcomeUnknown

use crate::port::Port;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::PortResult;
use crate::gate::command::Judgement;
use crate::gate::command::PayloadConflict;
use crate::record::command::{Command, CommandKey, Settlement};
use crate::record::command_entry::CommandEntry;

/// Asks for the next attempt at a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The command.
    pub command: Command,
    /// Who asks, by name.
    pub actor: String,
    /// The executor: one at a time. Two calls at once must not share it.
    pub holder: Uuid,
    /// How long the attempt is the holder's, in milliseconds.
    pub lease_ms: u64,
    /// The caller's time, kept with the rows.
    pub at: Timestamp,
}

/// The right to one attempt. The epoch is a fencing token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The command's key.
    pub key: CommandKey,
    /// 1, 2, …: rises with every attempt.
    pub epoch: u32,
    /// Whose it is.
    pub holder: Uuid,
}

/// The answer of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What the ledger found.
    pub judgement: Judgement,
    /// The attempt, if the judgement claims.
    pub lease: Option<Lease>,
    /// Attempts so far that ended in `waiting`.
    pub failures: u32,
}

/// One attempt, with how it ended, if it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// 1, 2, ….
    pub epoch: u32,
    /// `fresh`, `unresolved` or `retry`: why it was opened.
    pub cause: String,
    /// Whose it was.
    pub holder: Uuid,
    /// By name.
    pub actor: String,
    /// The caller's time.
    pub at: Timestamp,
    /// How it ended. None: open, or taken over by the next.
    pub settlement: Option<Settlement>,
}

/// The ledger. Object-safe; every implementation passes
/// `cutter_core::testing::conformance::command_ledger`.
#[async_trait]
pub trait CommandLedger: Send + Sync {
    /// Judges a command and opens the next attempt where the judgement says so (rule 2).
    ///
    /// # Errors
    /// `Invalid` for an empty or overlong actor; `OutcomeUnknown`: claim again (rule 6).
    async fn claim(&self, claim: &Claim) -> PortResult<Claimed>;

    /// Records how an attempt ended (rule 3). Gives the entry as it stands.
    ///
    /// # Errors
    /// `Fenced`, `Conflict`, `NotFound` for an unknown key; `OutcomeUnknown`: settle again.
    async fn settle(&self, lease: &Lease, settlement: &Settlement, at: Timestamp)
    -> PortResult<CommandEntry>;

    /// The entry of a key, if there is one. A read: it records nothing.
    ///
    /// # Errors
    /// `Corrupt` if what stands there does not read back.
    async fn get(&self, key: &CommandKey) -> PortResult<Option<CommandEntry>>;

    /// The attempts of a key, by epoch; empty if there is no such key.
    ///
    /// # Errors
    /// As [`Self::get`].
    async fn attempts(&self, key: &CommandKey) -> PortResult<Vec<Attempt>>;

    /// Entries that have not ended, ordered by key, after `after`, at most `limit`: what a
    /// recovery looks through.
    ///
    /// # Errors
    /// As [`Self::get`].
    async fn unsettled(&self, after: Option<&CommandKey>, limit: u32) -> PortResult<Vec<CommandEntry>>;
}

impl PayloadConflict {
    /// The conflict as the port's own kind of error, for callers below the boundary.
    #[must_use]
    pub fn to_port(&self, port: Port, op: &str) -> super::PortError {
        super::PortError::new(port, op, super::PortErrorKind::Conflict, self.to_string())
    }
}
