//! The work item machine (spec 4, AG-ORCH-01): one queued piece of work.
//!
//! Terminal states are immutable. The matrix of the specification also lists every state as
//! a target of itself: these moves are accepted and write nothing ([`is_noop`], D17). A lease
//! takeover is another matter: executing stays executing, under a new epoch and with an
//! attempt record. Nothing ever returns to `queued`.

use super::{Row, TransitionTable, deterministic, spelled};
use crate::machine::run::GateId;

/// The eight states of spec 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkItemState {
    /// Known, not yet in the queue.
    Received,
    /// Waits for a worker.
    Queued,
    /// A worker holds its lease.
    Executing,
    /// Waits for a retry's delay, or was handed back by its worker.
    AwaitingTool,
    /// Waits for a human's word.
    AwaitingUserConfirmation,
    /// Done: an end.
    Completed,
    /// Failed: an end.
    Failed,
    /// Cancelled with a reason: an end.
    Cancelled,
}

spelled!(WorkItemState, "work item state", {
    Received => "received",
    Queued => "queued",
    Executing => "executing",
    AwaitingTool => "awaiting_tool",
    AwaitingUserConfirmation => "awaiting_user_confirmation",
    Completed => "completed",
    Failed => "failed",
    Cancelled => "cancelled",
});

/// What moves a work item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkItemTrigger {
    /// Put into the queue.
    Enqueue,
    /// Claimed by a worker, from the queue or when its wait is over.
    Claim,
    /// Pauses for a retry's delay, or is handed back.
    AwaitTool,
    /// Pauses for a human.
    AwaitUser,
    /// The work is done.
    Complete,
    /// The work failed for good.
    Fail,
    /// Somebody cancelled it.
    Cancel,
    /// Another worker takes over an expired lease.
    TakeOver,
    /// The state it has already: accepted, writes nothing.
    Reaffirm,
}

spelled!(WorkItemTrigger, "work item trigger", {
    Enqueue => "enqueue",
    Claim => "claim",
    AwaitTool => "await_tool",
    AwaitUser => "await_user",
    Complete => "complete",
    Fail => "fail",
    Cancel => "cancel",
    TakeOver => "take_over",
    Reaffirm => "reaffirm",
});

use WorkItemState as S;
use WorkItemTrigger as T;

const fn row(from: S, trigger: T, to: S) -> Row<S, T> {
    Row::keyed((from as u8, trigger as u8), from, trigger, NONE, to)
}
const NONE: &[GateId] = &[];

const ROWS: &[Row<S, T>] = &[
    row(S::Received, T::Reaffirm, S::Received),
    row(S::Received, T::Enqueue, S::Queued),
    row(S::Received, T::Fail, S::Failed),
    row(S::Received, T::Cancel, S::Cancelled),
    row(S::Queued, T::Reaffirm, S::Queued),
    row(S::Queued, T::Claim, S::Executing),
    row(S::Queued, T::Fail, S::Failed),
    row(S::Queued, T::Cancel, S::Cancelled),
    row(S::Executing, T::Reaffirm, S::Executing),
    row(S::Executing, T::TakeOver, S::Executing),
    row(S::Executing, T::AwaitTool, S::AwaitingTool),
    row(S::Executing, T::AwaitUser, S::AwaitingUserConfirmation),
    row(S::Executing, T::Complete, S::Completed),
    row(S::Executing, T::Fail, S::Failed),
    row(S::Executing, T::Cancel, S::Cancelled),
    row(S::AwaitingTool, T::Reaffirm, S::AwaitingTool),
    row(S::AwaitingTool, T::Claim, S::Executing),
    row(S::AwaitingTool, T::Fail, S::Failed),
    row(S::AwaitingTool, T::Cancel, S::Cancelled),
    row(S::AwaitingUserConfirmation, T::Reaffirm, S::AwaitingUserConfirmation),
    row(S::AwaitingUserConfirmation, T::Claim, S::Executing),
    row(S::AwaitingUserConfirmation, T::Fail, S::Failed),
    row(S::AwaitingUserConfirmation, T::Cancel, S::Cancelled),
    row(S::Completed, T::Reaffirm, S::Completed),
    row(S::Failed, T::Reaffirm, S::Failed),
    row(S::Cancelled, T::Reaffirm, S::Cancelled),
];
const _: () = assert!(deterministic(ROWS), "two work item rows share (from, trigger)");

/// The matrix of spec 4.
pub static WORK_ITEM: TransitionTable<S, T> = TransitionTable::new(
    "work_item",
    WorkItemState::ALL,
    S::Received,
    &[S::Completed, S::Failed, S::Cancelled],
    ROWS,
);

/// Whether a legal move by `trigger` writes nothing (D17).
#[must_use]
pub const fn is_noop(trigger: WorkItemTrigger) -> bool {
    matches!(trigger, T::Reaffirm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{laws, step};
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn the_shared_laws_hold() {
        laws::hold(&WORK_ITEM, WorkItemTrigger::ALL);
    }

    #[test]
    fn the_matrix_is_that_of_the_specification() {
        let matrix: [(&str, &[&str]); 8] = [
            ("received", &["received", "queued", "failed", "cancelled"]),
            ("queued", &["queued", "executing", "failed", "cancelled"]),
            (
                "executing",
                &[
                    "executing",
                    "awaiting_tool",
                    "awaiting_user_confirmation",
                    "completed",
                    "failed",
                    "cancelled",
                ],
            ),
            ("awaiting_tool", &["awaiting_tool", "executing", "failed", "cancelled"]),
            (
                "awaiting_user_confirmation",
                &["awaiting_user_confirmation", "executing", "failed", "cancelled"],
            ),
            ("completed", &["completed"]),
            ("failed", &["failed"]),
            ("cancelled", &["cancelled"]),
        ];
        assert_eq!(matrix.len(), S::ALL.len());
        for (from, targets) in matrix {
            let from: S = from.parse().unwrap();
            let found: std::vec::Vec<_> = WORK_ITEM.targets(from).into_iter().map(S::as_str).collect();
            assert_eq!(found, targets, "{from}");
        }
    }

    #[test]
    fn every_self_move_is_accepted_and_only_a_takeover_writes() {
        for &state in S::ALL {
            assert_eq!(WORK_ITEM.check(state, state), Ok(()));
            assert_eq!(step(&WORK_ITEM, state, T::Reaffirm), Ok(state));
        }
        let writing_loops = WORK_ITEM.rows().iter().filter(|r| r.from == r.to && !is_noop(r.trigger));
        assert_eq!(
            writing_loops.map(|r| (r.from, r.trigger)).collect::<std::vec::Vec<_>>(),
            [(S::Executing, T::TakeOver)]
        );
        assert!(WORK_ITEM.rows().iter().all(|r| !is_noop(r.trigger) || r.from == r.to));
    }

    #[test]
    fn only_receipt_leads_to_the_queue() {
        let into: std::vec::Vec<_> =
            WORK_ITEM.rows().iter().filter(|r| r.to == S::Queued && r.from != r.to).map(|r| r.from).collect();
        assert_eq!(into, [S::Received]);
        assert_eq!(
            WORK_ITEM.check(S::Executing, S::Queued).unwrap_err().to_string(),
            "illegal work_item transition executing->queued (legal=executing,awaiting_tool,\
             awaiting_user_confirmation,completed,failed,cancelled)"
        );
    }

    proptest! {
        #[test]
        fn ends_are_immutable(picks in prop::collection::vec(0..9_usize, 0..60)) {
            let mut state = S::Received;
            let mut end = None;
            for pick in picks {
                if let Ok(next) = step(&WORK_ITEM, state, T::ALL[pick]) {
                    state = next;
                }
                if let Some(end) = end {
                    prop_assert_eq!(state, end);
                }
                if WORK_ITEM.is_terminal(state) {
                    end = Some(state);
                }
            }
        }
    }
}
