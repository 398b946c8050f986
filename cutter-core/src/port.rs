//! Ports: what the driver needs of the world, as object-safe async traits.
//!
//! Every method can fail, and its documentation is its contract: what is durable on
//! return, what the same key does again, which error means what. Adapters return
//! [`PortError`]; a failed invariant is never an error, it is a fact that a gate judges.

use alloc::string::String;
use core::fmt;

pub mod backlog;
pub mod backup;
pub mod command_ledger;
pub mod cut_request;
pub mod database;
pub mod environment;
pub mod knowledge_base;
pub mod policy;
pub mod run_store;
pub mod signer;
pub mod work_queue;

/// Which port an error comes from, and a test's fault goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// [`database`], and what stands in the same one: [`backlog`], [`cut_request`].
    Database,
    /// [`run_store`].
    RunStore,
    /// [`knowledge_base`].
    KnowledgeBase,
    /// [`backup::BackupSource`].
    BackupSource,
    /// [`backup::BackupTarget`].
    BackupTarget,
    /// [`signer::Signer`].
    Signer,
    /// [`signer::SignatureVerifier`].
    Signatures,
    /// [`policy`]: the chain of the policy's events, as the database holds it.
    Policy,
    /// [`work_queue`].
    WorkQueue,
    /// [`command_ledger`].
    CommandLedger,
    /// An embedder's own, by its name.
    Of(&'static str),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Database => "database",
            Self::RunStore => "run_store",
            Self::KnowledgeBase => "knowledge_base",
            Self::BackupSource => "backup_source",
            Self::BackupTarget => "backup_target",
            Self::Signer => "signer",
            Self::Signatures => "signatures",
            Self::Policy => "policy",
            Self::WorkQueue => "work_queue",
            Self::CommandLedger => "command_ledger",
            Self::Of(name) => name,
        })
    }
}

/// What kind of failure a port met: it decides who must act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortErrorKind {
    /// Not reachable now; nothing was written. Trying again later may work.
    Unavailable,
    /// The principal may not do this.
    Denied,
    /// The same key with another payload, or somebody else's value stands there.
    Conflict,
    /// Something else must come first, which the message names: whoever does that lets this go on.
    Waits,
    /// Stored bytes do not read back as what was written.
    Corrupt,
    /// The write may or may not have happened: ask for the identifier, never guess.
    OutcomeUnknown,
    /// A newer driver holds the run: stop at once.
    Fenced,
    /// Another process holds the lock now.
    Busy,
    /// The deadline handed down passed and the call was ended.
    Deadline,
    /// No space left, or a size limit: nothing was half-written.
    Full,
    /// What was named is not there.
    NotFound,
    /// The caller's value breaks the port's contract.
    Invalid,
}

impl PortErrorKind {
    /// Whether it is the one thing that was asked for that cannot be read, and not the store: what
    /// anybody can put there says nothing, and keeps nobody from reading the rest.
    #[must_use]
    pub const fn is_junk(self) -> bool {
        matches!(self, Self::Invalid | Self::Denied | Self::Corrupt | Self::NotFound)
    }
}

/// A port's failure. `Display` says port, operation and message, never a secret; the
/// message of an adapter is already free of credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{port}.{op}: {message} ({kind})")]
pub struct PortError {
    /// Which port.
    pub port: Port,
    /// Which operation, say `begin leg_a`.
    pub op: String,
    /// Who must act.
    pub kind: PortErrorKind,
    /// What happened, for people.
    pub message: String,
}

impl PortError {
    /// Builds an error.
    pub fn new(port: Port, op: impl Into<String>, kind: PortErrorKind, message: impl Into<String>) -> Self {
        Self { port, op: op.into(), kind, message: message.into() }
    }
}

impl fmt::Display for PortErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Conflict => "conflict",
            Self::Waits => "waits",
            Self::Corrupt => "corrupt",
            Self::OutcomeUnknown => "outcome unknown",
            Self::Fenced => "fenced",
            Self::Busy => "busy",
            Self::Deadline => "deadline passed",
            Self::Full => "full",
            Self::NotFound => "not found",
            Self::Invalid => "invalid",
        })
    }
}

/// The result of every port method.
pub type PortResult<T> = Result<T, PortError>;
