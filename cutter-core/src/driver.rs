//! The run driver: the only place where order matters (PROTOCOL §1).
//!
//! ```text
//!  enter ─ lock, fence, adopt what a lost attempt did, survey drift
//!    act ─ perform the phase's effect up to COMMIT; a pure gate judges; commit or roll back
//!      5 ─ persist the result together with the rendered report (the outbox)
//!      6 ─ upload exactly those bytes
//!      7 ─ persist the document's id, the new state and the next phase's intent
//! ```
//!
//! An undisturbed internal phase costs two durable writes (5 and 7) and one upload; before a phase
//! that only looks, 7 and its 5 are one write. The
//! driver judges nothing itself and knows no adapter: it reads the table for what comes
//! next, gates for whether it may, ports for what is. What a step does stands in its own file below `step`;
//! the driver orders them and knows none. It refuses to guess: an unknown
//! outcome is asked for by the identifier that the intent chose before.

mod asks;
mod attest;
mod authorize;
mod choose;
mod create;
mod decisions;
mod enter;
mod listen;
mod parts;
mod perform;
mod planning;
mod policy;
mod record;
#[cfg(feature = "conformance")]
pub mod rehearsal;
mod requests;
pub mod restore;
mod resume;
mod run;
mod serve;
mod statement;
mod step;
mod stopping;
mod void;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::base::id::RunId;
use crate::machine::run::GateId;
use crate::port::PortError;
use crate::port::backup::{BackupSource, BackupTarget};
use crate::port::database::{Executor, Reader, Reviewer, Verifier};
use crate::port::environment::{Clock, IdSource, Observer};
use crate::port::knowledge_base::KnowledgeBase;
use crate::port::run_store::{LockHolder, RunStore};
use crate::port::signer::{SignatureVerifier, Signer};
use crate::record::approval::Ask;
use crate::record::check::GateReport;
use crate::record::sidecar::{Considered, Sidecar, SidecarError, StopRecord};

pub use create::{NewRun, cut};
pub use listen::{TooFew, approval_prefix};
pub(crate) use listen::{expected_first, is_called, may_answer, rank};
pub use parts::signed_parts;
pub(crate) use parts::verdict_on_document;
pub(crate) use policy::{allowed, observe};
pub use policy::{founded_policy, policy_of};
pub use record::check_history;
pub(crate) use record::{creation_fault, creation_names, said_once};
pub(crate) use requests::report_of;
pub use resume::{ResumeOptions, resume};
pub use serve::{ServeError, Served, Worked, hand_over, serve, settle_request, work};
pub use stopping::{
    ask_for_stop, is_for_the_next_gate, is_rejected, record_internal_error, report_of_stop, stop, stop_kinds,
};
pub use void::void;

/// Everything that the driver needs of the world.
#[derive(Clone)]
pub struct Ports {
    /// Observes the database.
    pub reader: Arc<dyn Reader>,
    /// Cuts and enacts.
    pub executor: Arc<dyn Executor>,
    /// Stores decisions; `None` where another host does ([`crate::operate::review`]), and this one waits for it.
    pub reviewer: Option<Arc<dyn Reviewer>>,
    /// Verifies.
    pub verifier: Arc<dyn Verifier>,
    /// Files documents.
    pub kb: Arc<dyn KnowledgeBase>,
    /// Keeps sidecars, locks and claims.
    pub runs: Arc<dyn RunStore>,
    /// Where a backup comes from.
    pub backup_source: Arc<dyn BackupSource>,
    /// Where it goes.
    pub backup_target: Arc<dyn BackupTarget>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn IdSource>,
    /// The run's own signatures.
    pub signer: Arc<dyn Signer>,
    /// People's signatures.
    pub signatures: Arc<dyn SignatureVerifier>,
    /// Shows progress.
    pub observer: Arc<dyn Observer>,
    /// An embedder's own checks, appended to the phases' gates.
    pub own_gates: Vec<Arc<dyn OwnGate>>,
    /// Whether to leave the run between two steps; [`Never`] for a command that a person typed.
    pub interrupt: Arc<dyn Interrupt>,
}

/// Asked before each step of a run: a worker that must stop, or has lost its item, leaves the run
/// whole between two steps, with [`DriveError::Interrupted`]. Nothing is recorded: any resume goes on.
pub trait Interrupt: Send + Sync {
    /// Whether to leave now.
    fn is_asked(&self) -> bool;
}

/// Drives to the next rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Never;

impl Interrupt for Never {
    fn is_asked(&self) -> bool {
        false
    }
}

impl Interrupt for AtomicBool {
    fn is_asked(&self) -> bool {
        self.load(Ordering::SeqCst)
    }
}

/// An embedder's own rule: named checks that join a gate, an internal one or a sovereign's. A
/// failing check fails the gate as any other does. Where the gate guards a transaction the rule is
/// asked inside it, before COMMIT, and its refusal leaves no row; at a sovereign gate it judges
/// approvals, never refusals: one that does not pass is not accepted, and the run waits on. At
/// closeout, where nothing can be undone any more, its refusal stops the run, which goes on once
/// the rule agrees. It sees the sidecar before the gate's result is persisted; what it returns must
/// depend on nothing else, or a resumed run may judge differently. What was committed was judged
/// then, and is not refused later.
pub trait OwnGate: Send + Sync {
    /// The checks to append to the report of `gate`; none leaves the gate alone.
    fn checks(&self, gate: GateId, sidecar: &Sidecar) -> Vec<crate::record::check::Check>;
}

/// Who drives: recorded with transitions, and in the lock while it is held.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Name of the actor.
    pub actor: String,
    /// What the lock shows.
    pub holder: LockHolder,
}

/// Where a run stands when the driver returns.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// `closeout_reported`.
    Completed,
    /// A dry run came to its end, before the first gate.
    DryRunDone,
    /// Parked at a gate.
    Paused {
        /// What is asked.
        ask: Ask,
        /// Approvals that were looked at now and not accepted.
        invalid: Vec<Considered>,
        /// Who has approved, where several people must and some have not yet.
        too_few: Option<TooFew>,
    },
    /// Parked at a gate where a valid answer stands, whose decision another host stores.
    AwaitsDecision {
        /// What is asked.
        ask: Ask,
        /// Where the answer stands.
        answer: String,
    },
    /// Stopped: may go on.
    Stopped(StopRecord),
    /// Failed at a gate: void it, then start anew.
    Failed(StopRecord),
    /// Voided.
    Voided,
    /// Nothing was needed: a finished run has cut this version already (spec 2 §5).
    ReplayedFrom(RunId),
}

/// What a command returns: the outcome, and the sidecar as it was persisted.
#[derive(Debug, Clone, PartialEq)]
pub struct Driven {
    /// How it ended.
    pub outcome: Outcome,
    /// The sidecar.
    pub sidecar: Box<Sidecar>,
}

/// Why a command ended without moving the run, or without being able to record that it
/// stopped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DriveError {
    /// STOP_RUN_NOT_FOUND.
    #[error("no such run: {run_id}")]
    NotFound {
        /// The run.
        run_id: RunId,
    },
    /// STOP_RUN_BUSY: another process holds the run.
    #[error("run {run_id} is held by another process: {holder}")]
    Busy {
        /// The run.
        run_id: RunId,
        /// Who, since when.
        holder: String,
    },
    /// STOP_FENCED: a newer driver has the run; this one wrote nothing more.
    #[error("run {run_id} was taken over by a newer driver; this process stopped writing")]
    Fenced {
        /// The run.
        run_id: RunId,
    },
    /// The driver was asked to leave, and did between two steps. Nothing is wrong with the run.
    #[error("run {run_id} was left between two steps, as asked")]
    Interrupted {
        /// The run.
        run_id: RunId,
    },
    /// STOP_REPLAY_CONFLICT.
    #[error("document {document_id} is held by run {run_id} ({state})")]
    ReplayConflict {
        /// The document.
        document_id: String,
        /// The run that holds it.
        run_id: RunId,
        /// Its state.
        state: String,
    },
    /// The sidecar may not be acted on.
    #[error("run {run_id}: {error}")]
    Sidecar {
        /// The run.
        run_id: RunId,
        /// What is wrong with it.
        error: SidecarError,
    },
    /// An approval named by the operator is not valid.
    #[error("approval {path} is not valid")]
    ApprovalInvalid {
        /// Its path.
        path: String,
        /// Which invariants hold and which do not.
        report: Box<GateReport>,
    },
    /// The command does not fit the run's state.
    #[error("{0}")]
    NotNow(String),
    /// A port failed before the run could record it.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Something that cannot be: a bug. The run may have recorded `stopped_internal_error`.
    #[error("internal error: {0}")]
    Internal(String),
}
