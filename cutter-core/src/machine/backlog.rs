//! The backlog machine (spec 3): one marked manifest under governance review.
//!
//! The status is a text column of `decision_backlog_entry`; every move writes one
//! `decision_backlog_history` row in the same transaction. S5 and S7 exist only
//! inside a transaction and are never committed on their own (OD-SM-2), so a reader never
//! sees them. S9 is frozen: a failed verification spawns an escalation entry of its own,
//! which starts at S0 (D11).

use super::{Row, TransitionTable, deterministic, spelled};

/// S0–S10. The stored text is the name, `code()` gives the number of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BacklogState {
    /// S0. MARK committed it; the sweep moves it on.
    Marked,
    /// S1. Promoted; the reviewer decides.
    ReviewPending,
    /// S2. Approved with a bound manifest; may be cut.
    ReviewedApproved,
    /// S3. Deferred; a later sweep may promote it again.
    ReviewedDeferred,
    /// S4. Rejected: an end.
    ReviewedRejected,
    /// S5. The cut's transaction is open; never committed.
    CutInProgress,
    /// S6. Cut committed and signed by the executor; may be verified.
    CutApplied,
    /// S7. The verification's transaction is open; never committed.
    VerifyInProgress,
    /// S8. Verified: the good end.
    VerifiedComplete,
    /// S9. Verification failed: this entry is the record, its escalation entry goes on.
    VerifyFailedEscalated,
    /// S10. Given up by an explicit human decision: an end.
    Abandoned,
}

spelled!(BacklogState, "backlog status", {
    Marked => "marked",
    ReviewPending => "review_pending",
    ReviewedApproved => "reviewed_approved",
    ReviewedDeferred => "reviewed_deferred",
    ReviewedRejected => "reviewed_rejected",
    CutInProgress => "cut_in_progress",
    CutApplied => "cut_applied",
    VerifyInProgress => "verify_in_progress",
    VerifiedComplete => "verified_complete",
    VerifyFailedEscalated => "verify_failed_escalated",
    Abandoned => "abandoned",
});

impl BacklogState {
    /// `S0` … `S10`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Marked => "S0",
            Self::ReviewPending => "S1",
            Self::ReviewedApproved => "S2",
            Self::ReviewedDeferred => "S3",
            Self::ReviewedRejected => "S4",
            Self::CutInProgress => "S5",
            Self::CutApplied => "S6",
            Self::VerifyInProgress => "S7",
            Self::VerifiedComplete => "S8",
            Self::VerifyFailedEscalated => "S9",
            Self::Abandoned => "S10",
        }
    }

    /// Whether the state may be committed: S5 and S7 live only inside a transaction.
    #[must_use]
    pub const fn is_committable(self) -> bool {
        !matches!(self, Self::CutInProgress | Self::VerifyInProgress)
    }
}

/// What moves an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BacklogTrigger {
    /// A sweep promotes a marked or deferred entry, with its own log row.
    Sweep,
    /// The reviewer approves.
    Approve,
    /// The reviewer defers, before or after an approval.
    Defer,
    /// The reviewer rejects.
    Reject,
    /// The cut's transaction begins.
    CutStart,
    /// The cut commits, signed by the executor.
    CutCommit,
    /// The verification's transaction begins.
    VerifyStart,
    /// Every check passed.
    VerifyPass,
    /// A check failed.
    VerifyFail,
    /// Sovereign or reviewer gives the entry up, with a reason in the history.
    Abandon,
}

spelled!(BacklogTrigger, "backlog trigger", {
    Sweep => "sweep",
    Approve => "approve",
    Defer => "defer",
    Reject => "reject",
    CutStart => "cut_start",
    CutCommit => "cut_commit",
    VerifyStart => "verify_start",
    VerifyPass => "verify_pass",
    VerifyFail => "verify_fail",
    Abandon => "abandon",
});

/// The guards of spec 3 §2 and those of the records, by name; `backlog` judges them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BacklogGuard {
    /// The entry has an approving `review_decision` that is still the current one.
    CutApproved,
    /// Every entry in the manifest's `depends_on` is S8 (D30).
    CutDeps,
    /// No live change set exists for this entry and decision (F-5).
    CutOnce,
    /// A committed cut exists.
    VerifyCut,
    /// The verifier is another principal than the executor.
    VerifySod,
    /// No verdict on the change set stands (§5).
    VerifyOnce,
    /// No envelope of the change set stands.
    LegBOnce,
}

spelled!(BacklogGuard, "backlog guard", {
    CutApproved => "G-CUT-APPROVED",
    CutDeps => "G-CUT-DEPS",
    CutOnce => "G-CUT-ONCE",
    VerifyCut => "G-VERIFY-CUT",
    VerifySod => "G-VERIFY-SOD",
    VerifyOnce => "G-VERIFY-ONCE",
    LegBOnce => "G-LEG-B-ONCE",
});

use BacklogGuard as G;
use BacklogState as S;
use BacklogTrigger as T;

const fn row(from: S, trigger: T, gates: &'static [G], to: S) -> Row<S, T, G> {
    Row::keyed((from as u8, trigger as u8), from, trigger, gates, to)
}

const ROWS: &[Row<S, T, G>] = &[
    row(S::Marked, T::Sweep, &[], S::ReviewPending),
    row(S::ReviewPending, T::Approve, &[], S::ReviewedApproved),
    row(S::ReviewPending, T::Defer, &[], S::ReviewedDeferred),
    row(S::ReviewPending, T::Reject, &[], S::ReviewedRejected),
    row(S::ReviewedDeferred, T::Sweep, &[], S::ReviewPending),
    row(S::ReviewedApproved, T::CutStart, &[G::CutApproved, G::CutDeps, G::CutOnce], S::CutInProgress),
    row(S::CutInProgress, T::CutCommit, &[], S::CutApplied),
    row(S::CutApplied, T::VerifyStart, &[G::VerifyCut, G::VerifySod], S::VerifyInProgress),
    row(S::VerifyInProgress, T::VerifyPass, &[], S::VerifiedComplete),
    row(S::VerifyInProgress, T::VerifyFail, &[], S::VerifyFailedEscalated),
    row(S::ReviewedApproved, T::Defer, &[], S::ReviewedDeferred),
    row(S::Marked, T::Abandon, &[], S::Abandoned),
    row(S::ReviewPending, T::Abandon, &[], S::Abandoned),
    row(S::ReviewedApproved, T::Abandon, &[], S::Abandoned),
    row(S::ReviewedDeferred, T::Abandon, &[], S::Abandoned),
    row(S::ReviewedRejected, T::Abandon, &[], S::Abandoned),
    row(S::CutInProgress, T::Abandon, &[], S::Abandoned),
    row(S::CutApplied, T::Abandon, &[], S::Abandoned),
    row(S::VerifyInProgress, T::Abandon, &[], S::Abandoned),
    row(S::VerifiedComplete, T::Abandon, &[], S::Abandoned),
    row(S::VerifyFailedEscalated, T::Abandon, &[], S::Abandoned),
];
const _: () = assert!(deterministic(ROWS), "two backlog rows share (from, trigger)");

const TERMINALS: &[S] = &[S::ReviewedRejected, S::VerifiedComplete, S::VerifyFailedEscalated, S::Abandoned];

/// The table of spec 3 §2. MARK creates an entry in `initial()`; S4 and S8 are ends that only
/// the bookkeeping of an abandonment leaves, and S9 is the end of its own entry (§4).
pub static BACKLOG: TransitionTable<S, T, G> =
    TransitionTable::new("backlog", BacklogState::ALL, S::Marked, TERMINALS, ROWS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{laws, step};
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn the_shared_laws_hold() {
        laws::hold(&BACKLOG, BacklogTrigger::ALL);
        assert_eq!(BACKLOG.states().len(), 11);
        for (i, state) in S::ALL.iter().enumerate() {
            assert_eq!(state.code(), std::format!("S{i}"));
        }
    }

    #[test]
    fn the_edges_are_those_of_the_specification() {
        let pairs = "0>1 1>2 1>3 1>4 3>1 2>5 5>6 6>7 7>8 7>9 2>3 \
                     0>10 1>10 2>10 3>10 4>10 5>10 6>10 7>10 8>10 9>10";
        let mut expected: Vec<(S, S)> = pairs
            .split_whitespace()
            .map(|pair| pair.split_once('>').unwrap())
            .map(|(a, b)| (S::ALL[a.parse::<usize>().unwrap()], S::ALL[b.parse::<usize>().unwrap()]))
            .collect();
        let mut edges = BACKLOG.edges();
        expected.sort();
        edges.sort();
        assert_eq!(edges, expected);
    }

    fn only_abandon(from: S) {
        for &trigger in T::ALL {
            assert_eq!(step(&BACKLOG, from, trigger).is_ok(), trigger == T::Abandon, "{from} {trigger}");
        }
        assert_eq!(BACKLOG.targets(from), [S::Abandoned]);
    }

    #[test]
    fn f1_reject_is_terminal_but_for_abandonment() {
        only_abandon(S::ReviewedRejected);
    }

    #[test]
    fn f2_success_is_terminal_but_for_abandonment() {
        only_abandon(S::VerifiedComplete);
    }

    #[test]
    fn f3_no_cut_without_approval() {
        for from in [S::Marked, S::ReviewPending, S::ReviewedDeferred] {
            for to in [S::CutInProgress, S::CutApplied] {
                assert!(BACKLOG.check(from, to).is_err(), "{from}->{to}");
            }
            assert!(BACKLOG.step(from, T::CutStart).is_err());
        }
        let into_cut: Vec<_> = BACKLOG.rows().iter().filter(|r| r.to == S::CutInProgress).collect();
        assert_eq!(into_cut.len(), 1);
        assert_eq!(into_cut[0].from, S::ReviewedApproved);
        assert_eq!(into_cut[0].gates, [G::CutApproved, G::CutDeps, G::CutOnce]);
    }

    #[test]
    fn f4_no_verify_without_cut() {
        for to in [S::VerifyInProgress, S::VerifiedComplete] {
            assert!(BACKLOG.check(S::ReviewedApproved, to).is_err());
        }
        let verify = BACKLOG.row(S::CutApplied, T::VerifyStart).unwrap();
        assert_eq!(verify.gates, [G::VerifyCut, G::VerifySod]);
    }

    #[test]
    fn f5_no_second_cut_of_the_same_entry() {
        assert!(BACKLOG.check(S::CutApplied, S::CutApplied).is_err());
        assert!(BACKLOG.step(S::CutApplied, T::CutStart).is_err());
        assert!(BACKLOG.step(S::CutApplied, T::CutCommit).is_err());
    }

    #[test]
    fn f6_nothing_moves_back_to_marked() {
        assert!(BACKLOG.rows().iter().all(|row| row.to != S::Marked));
    }

    #[test]
    fn f7_a_failed_verify_cannot_be_promoted() {
        assert!(BACKLOG.check(S::VerifyFailedEscalated, S::VerifiedComplete).is_err());
        only_abandon(S::VerifyFailedEscalated);
    }

    #[test]
    fn f8_no_phase_is_skipped() {
        for (from, to) in [
            (S::Marked, S::CutApplied),
            (S::ReviewedApproved, S::VerifiedComplete),
            (S::ReviewedApproved, S::CutApplied),
            (S::CutApplied, S::VerifiedComplete),
            (S::Marked, S::ReviewedApproved),
        ] {
            assert!(BACKLOG.check(from, to).is_err(), "{from}->{to}");
        }
        // every way from S0 to S8 passes all of S1, S2, S5, S6, S7
        for skipped in [1, 2, 5, 6, 7].map(|i: usize| S::ALL[i]) {
            let mut reached = Vec::from([S::Marked]);
            for _ in S::ALL {
                for row in BACKLOG.rows() {
                    if row.to != skipped && reached.contains(&row.from) && !reached.contains(&row.to) {
                        reached.push(row.to);
                    }
                }
            }
            assert!(!reached.contains(&S::VerifiedComplete), "success without {skipped}");
        }
    }

    #[test]
    fn abandoned_is_final() {
        assert!(BACKLOG.targets(S::Abandoned).is_empty());
        assert_eq!(
            BACKLOG.step(S::Abandoned, T::Sweep).unwrap_err().to_string(),
            "illegal backlog transition abandoned->sweep (legal=)"
        );
    }

    proptest! {
        #[test]
        fn success_implies_an_approval_and_one_cut(picks in prop::collection::vec(0..10_usize, 0..40)) {
            let (mut state, mut approvals, mut cuts) = (S::Marked, 0, 0);
            for pick in picks {
                let trigger = T::ALL[pick];
                if let Ok(next) = step(&BACKLOG, state, trigger) {
                    approvals += usize::from(trigger == T::Approve);
                    cuts += usize::from(trigger == T::CutCommit);
                    state = next;
                }
            }
            prop_assert!(cuts <= 1);
            if state == S::VerifiedComplete {
                prop_assert!(approvals >= 1 && cuts == 1);
            }
        }
    }
}
