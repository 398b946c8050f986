//! Clock, identifiers and progress: what the driver may know of its surroundings.

use alloc::boxed::Box;
use alloc::string::String;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

/// Time. Only the driver asks; the core's rules take time as a value.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now, UTC. Order and leases never depend on it.
    fn now(&self) -> Timestamp;
    /// Waits (between attempts of an upload).
    async fn sleep(&self, millis: u64);
}

/// Identifiers and nonces.
pub trait IdSource: Send + Sync {
    /// A new version 7 UUID. `purpose` says what for (run, phase, name): a deterministic
    /// source may derive the id from it, a real one ignores it.
    fn uuid_v7(&self, now: Timestamp, purpose: &str) -> Uuid;
    /// 32 random bytes as 64 hex digits; `purpose` as above.
    fn nonce(&self, purpose: &str) -> String;
}

/// Something happened that a person may want to see. Never an input to a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A phase starts.
    PhaseStarted {
        /// Phase name.
        phase: &'static str,
        /// 1 to 11.
        number: u32,
    },
    /// A phase passed and its document is filed.
    PhasePassed {
        /// Phase name.
        phase: &'static str,
        /// Path in the knowledge base.
        kb_doc_id: String,
    },
    /// Bytes of the backup so far.
    BackupBytes(u64),
    /// Units about to be written.
    Units(u64),
    /// An upload failed and is tried again.
    UploadRetry {
        /// Which attempt failed.
        attempt: u32,
        /// Until the next.
        delay_ms: u64,
    },
    /// A document that might answer was looked at and not accepted.
    NotAccepted {
        /// Path in the knowledge base.
        kb_doc_id: String,
        /// The invariant that it broke first, with what was expected and observed.
        why: String,
    },
    /// The run waits at a gate.
    Paused {
        /// `SG_cut_authz` or `SG_lifecycle_authz`.
        gate: &'static str,
        /// The request's path.
        request_kb_id: String,
    },
    /// The run stopped or failed.
    Stopped {
        /// `STOP_…` code or `failed_…`.
        code: String,
    },
}

/// Receives progress.
pub trait Observer: Send + Sync {
    /// Called from the driver, between its steps.
    fn progress(&self, progress: &Progress);
}

/// An observer that shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&self, _: &Progress) {}
}
