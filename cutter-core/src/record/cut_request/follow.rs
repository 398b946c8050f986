//! How a request follows its run.

use alloc::string::String;

use crate::machine::cut_request::{CutRequestStatus as S, CutRequestTrigger as T};

/// What the run of a request has committed, and whether it is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunCommitted {
    /// Leg A: the cut stands.
    pub has_cut: bool,
    /// The verdict on it.
    pub has_passed: Option<bool>,
    /// The run was voided.
    pub is_voided: bool,
    /// Why the run ended for good without a verdict: a failed gate, a refusal. `None` while it
    /// may still go on.
    pub ended: Option<String>,
}

/// The next move of a request towards what its run committed, one edge at a time. `None` if it
/// is there, or stands where no run moves it.
#[must_use]
pub fn follow(status: S, run: &RunCommitted) -> Option<T> {
    let is_over = run.is_voided || run.ended.is_some();
    match status {
        S::CutInProgress if run.has_cut => Some(T::CutCommit),
        S::CutInProgress if is_over => Some(T::CutFail),
        S::CutDone => match run.has_passed {
            Some(true) => Some(T::CutVerify),
            Some(false) => Some(T::CutFail),
            None if is_over => Some(T::CutFail),
            None => None,
        },
        S::Requested
        | S::Copied
        | S::MarkInProgress
        | S::Marked
        | S::MarkVerified
        | S::MarkRejected
        | S::CutInProgress
        | S::CutVerified
        | S::CutFailed
        | S::Completed
        | S::CleanupScheduled
        | S::Cleaned => None,
    }
}
