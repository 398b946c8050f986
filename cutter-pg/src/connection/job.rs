//! Where one job is, seen from three sides: the thread that runs it, the timer that may end
//! it, and the caller that waits.
//!
//! ```text
//! Queued ──> Running ──> CommitSent ──> Done
//!    │          │             │
//!    └> Revoked └─────────────┴──> Abandoned   (the timer, after cancel and grace)
//! ```

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Queued,
    Running,
    CommitSent,
    Done,
    Revoked,
    Abandoned,
}

/// One job's stage, and the gate of cancellation: whoever sends a cancel holds the gate, and
/// the job passes it before it is `Done`, so a cancel never hits the next job. The stage has a
/// lock of its own, so that a cancel that hangs does not hold up the timer's answer.
#[derive(Debug)]
pub(super) struct JobState {
    stage: Mutex<Stage>,
    gate: Mutex<()>,
}

impl JobState {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { stage: Mutex::new(Stage::Queued), gate: Mutex::new(()) })
    }

    /// The gate: held while a cancel is on its way, passed at the end of the job.
    pub(super) fn gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves on if the job stands where it is expected; says whether it did.
    pub(super) fn advance(&self, from: Stage, to: Stage) -> bool {
        let mut stage = self.lock();
        let is_there = *stage == from;
        if is_there {
            *stage = to;
        }
        is_there
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<JobState>>> = const { RefCell::new(None) };
}

/// Names the job that this thread runs from now on.
pub(super) fn set_current(state: Option<Arc<JobState>>) {
    CURRENT.with(|current| *current.borrow_mut() = state);
}

/// Records that COMMIT goes out now. `false`: the timer gave the job up before, and nothing
/// may be sent any more. Outside a connection's thread there is no timer, so always `true`.
pub(super) fn mark_commit_sent() -> bool {
    CURRENT.with(|current| match current.borrow().as_ref() {
        Some(state) => {
            let mut stage = state.lock();
            match *stage {
                Stage::Running | Stage::CommitSent => {
                    *stage = Stage::CommitSent;
                    true
                }
                _ => false,
            }
        }
        None => true,
    })
}
