//! The cut request machine (spec 5): one customer request, from before the copy to after the
//! cleanup.
//!
//! The status is a text column of `public.cut_request` with a CHECK over the same 13 values;
//! every move adds one `cut_request_transition` row. A rejected mark may be redone; a failed
//! cut stays until a human opens a new request.

use super::{Row, TransitionTable, deterministic, spelled};
use crate::machine::run::GateId;

/// The thirteen statuses of spec 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CutRequestStatus {
    /// Asked for; nothing was read yet.
    Requested,
    /// The source's bytes are staged, with their hash.
    Copied,
    /// A mark is being made, for the first time or again.
    MarkInProgress,
    /// The manifest is staged, with its digest.
    Marked,
    /// A reviewer approved the mark.
    MarkVerified,
    /// The mark was refused; it may be redone.
    MarkRejected,
    /// The cut runs.
    CutInProgress,
    /// The cut is committed.
    CutDone,
    /// The cut was verified by another principal.
    CutVerified,
    /// The cut or its verification failed: an end, until a human acts.
    CutFailed,
    /// Handed over.
    Completed,
    /// The staging rows have a date on which they go.
    CleanupScheduled,
    /// The staging rows are gone; this row stays as the audit: an end.
    Cleaned,
}

spelled!(CutRequestStatus, "cut_request status", {
    Requested => "requested",
    Copied => "copied",
    MarkInProgress => "mark_in_progress",
    Marked => "marked",
    MarkVerified => "mark_verified",
    MarkRejected => "mark_rejected",
    CutInProgress => "cut_in_progress",
    CutDone => "cut_done",
    CutVerified => "cut_verified",
    CutFailed => "cut_failed",
    Completed => "completed",
    CleanupScheduled => "cleanup_scheduled",
    Cleaned => "cleaned",
});

/// What moves a cut request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CutRequestTrigger {
    /// The source was copied to staging.
    Copy,
    /// A mark begins (also the redo of a rejected one).
    MarkStart,
    /// The mark is made.
    MarkDone,
    /// The reviewer approves the mark.
    MarkApprove,
    /// The mark is refused, by its own checks or by the reviewer.
    MarkReject,
    /// The cut begins.
    CutStart,
    /// The cut committed.
    CutCommit,
    /// The cut was verified.
    CutVerify,
    /// The cut or its verification failed.
    CutFail,
    /// The result is handed over.
    Complete,
    /// The cleanup gets its date.
    ScheduleCleanup,
    /// The staging rows were removed.
    Clean,
}

spelled!(CutRequestTrigger, "cut_request trigger", {
    Copy => "copy",
    MarkStart => "mark_start",
    MarkDone => "mark_done",
    MarkApprove => "mark_approve",
    MarkReject => "mark_reject",
    CutStart => "cut_start",
    CutCommit => "cut_commit",
    CutVerify => "cut_verify",
    CutFail => "cut_fail",
    Complete => "complete",
    ScheduleCleanup => "schedule_cleanup",
    Clean => "clean",
});

use CutRequestStatus as S;
use CutRequestTrigger as T;

const fn row(from: S, trigger: T, to: S) -> Row<S, T> {
    Row::keyed((from as u8, trigger as u8), from, trigger, NONE, to)
}
const NONE: &[GateId] = &[];

const ROWS: &[Row<S, T>] = &[
    row(S::Requested, T::Copy, S::Copied),
    row(S::Copied, T::MarkStart, S::MarkInProgress),
    row(S::MarkInProgress, T::MarkDone, S::Marked),
    row(S::MarkInProgress, T::MarkReject, S::MarkRejected),
    row(S::MarkRejected, T::MarkStart, S::MarkInProgress),
    row(S::Marked, T::MarkApprove, S::MarkVerified),
    row(S::Marked, T::MarkReject, S::MarkRejected),
    row(S::MarkVerified, T::CutStart, S::CutInProgress),
    row(S::CutInProgress, T::CutCommit, S::CutDone),
    row(S::CutInProgress, T::CutFail, S::CutFailed),
    row(S::CutDone, T::CutVerify, S::CutVerified),
    row(S::CutDone, T::CutFail, S::CutFailed),
    row(S::CutVerified, T::Complete, S::Completed),
    row(S::Completed, T::ScheduleCleanup, S::CleanupScheduled),
    row(S::CleanupScheduled, T::Clean, S::Cleaned),
];
const _: () = assert!(deterministic(ROWS), "two cut_request rows share (from, trigger)");

/// The table of spec 5.
pub static CUT_REQUEST: TransitionTable<S, T> = TransitionTable::new(
    "cut_request",
    CutRequestStatus::ALL,
    S::Requested,
    &[S::CutFailed, S::Cleaned],
    ROWS,
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::laws;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn the_shared_laws_hold() {
        laws::hold(&CUT_REQUEST, CutRequestTrigger::ALL);
        assert_eq!(S::ALL.len(), 13);
    }

    #[test]
    fn the_edges_are_those_of_the_specification() {
        let lines = "requested>copied copied>mark_in_progress mark_in_progress>marked \
            mark_in_progress>mark_rejected marked>mark_verified marked>mark_rejected \
            mark_verified>cut_in_progress mark_rejected>mark_in_progress cut_in_progress>cut_done \
            cut_in_progress>cut_failed cut_done>cut_verified cut_done>cut_failed \
            cut_verified>completed completed>cleanup_scheduled cleanup_scheduled>cleaned";
        let expected: Vec<(S, S)> = lines
            .split_whitespace()
            .map(|l| l.split_once('>').unwrap())
            .map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()))
            .collect();
        assert_eq!(CUT_REQUEST.edges(), expected);
    }

    #[test]
    fn both_ends_are_final_and_nothing_else_is() {
        for &state in S::ALL {
            assert_eq!(CUT_REQUEST.targets(state).is_empty(), CUT_REQUEST.is_terminal(state), "{state}");
        }
    }

    #[test]
    fn a_rejected_mark_can_be_redone_and_nothing_is_cut_unverified() {
        assert_eq!(CUT_REQUEST.step(S::MarkRejected, T::MarkStart), Ok(S::MarkInProgress));
        let into: Vec<_> =
            CUT_REQUEST.rows().iter().filter(|r| r.to == S::CutInProgress).map(|r| r.from).collect();
        assert_eq!(into, [S::MarkVerified]);
    }

    #[test]
    fn the_refusal_reads_as_the_specification_words_it() {
        assert_eq!(
            CUT_REQUEST.check(S::CutDone, S::Marked).unwrap_err().to_string(),
            "illegal cut_request transition cut_done->marked (legal=cut_verified,cut_failed)"
        );
        assert_eq!(
            CUT_REQUEST.step(S::Cleaned, T::Copy).unwrap_err().to_string(),
            "illegal cut_request transition cleaned->copy (legal=)"
        );
    }
}
