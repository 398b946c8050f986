//! What stands between a command and its provider: one handler per kind, over an adapter.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;

use crate::port::PortResult;
use crate::port::command_ledger::Lease;
use crate::record::command::{Command, CommandKind, Receipt};

/// What an adapter knows of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inquiry {
    /// The effect happened; this is what the call gave, or would have given.
    Happened(Receipt),
    /// The provider refused it for good, and will again.
    Refused(String),
    /// It did not happen, **and no call of an earlier epoch can make it happen any more**.
    NotHappened,
    /// The adapter cannot say. Nothing is called and nothing is recorded; a person finds out.
    Unknown(String),
}

/// Performs the commands of its kinds through its adapter, which alone knows the provider.
///
/// To ensure correctness, an implementation holds to these rules:
///
/// 1. [`Self::perform`] hands the command's key to the provider, and [`Self::inquire`] finds the
///    effect by that key.
/// 2. The lease's epoch is the fence. An inquiry is a barrier: once `NotHappened` was answered
///    under an epoch, a call under a lower one takes no effect (the provider keeps the highest
///    epoch per key, or refuses a key twice). Where neither can be had, the answer is `Unknown`.
/// 3. A call ends before its lease does.
/// 4. Errors say what is known. `Unavailable`, `Busy`, `Full`: it did not happen, and may be tried
///    again. `Denied`, `Conflict`, `NotFound`, `Invalid`: it did not happen, and trying again
///    would not help. `OutcomeUnknown`, `Deadline`, `Corrupt`: it may have happened. `Fenced`: a
///    newer attempt is under way.
#[async_trait]
pub trait CommandHandler: Send + Sync {
    /// The kinds that it performs.
    fn kinds(&self) -> Vec<CommandKind>;

    /// Pure: whether the payload is one of this kind. What it refuses is never recorded.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, command: &Command) -> Result<(), String>;

    /// Makes it happen.
    ///
    /// # Errors
    /// By rule 4.
    async fn perform(&self, command: &Command, lease: &Lease) -> PortResult<Receipt>;

    /// Asks whether it happened.
    ///
    /// # Errors
    /// The adapter could not be asked: the command stays unresolved.
    async fn inquire(&self, command: &Command, lease: &Lease) -> PortResult<Inquiry>;
}

/// Asked before each further attempt at a side effect (AG-RISK).
#[async_trait]
pub trait RiskGate: Send + Sync {
    /// Whether the command may be tried again after so many failures; `Err` text says why not.
    ///
    /// # Errors
    /// The outer one: the gate could not be asked. Nothing is tried then.
    async fn allows(&self, command: &Command, failures: u32) -> PortResult<Result<(), String>>;
}
