//! Request, backlog entry and run agree (DESIGN §2), as named checks.
//!
//! What a run commits and how its request moves are one transaction, so the agreement holds at
//! every instant at which anybody can look, crashes included. The run's own state lags behind the
//! database by at most the step that was interrupted: it may be earlier than what is committed,
//! never later.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{MarkVerdict, Rule};
use crate::machine::backlog::BacklogState as B;
use crate::machine::cut_request::CutRequestStatus as S;
use crate::machine::run::Stage;
use crate::record::check::{ABSENT, Check};

/// Every check of [`consistency`].
pub static CONSISTENCY_RULES: &[Rule] = &[
    Rule {
        id: "consistency.run_named",
        what: "from cut_in_progress on a request names its run, before that it names none",
        clause: "DESIGN §2",
    },
    Rule { id: "consistency.approved", what: "what is cut has an approved mark", clause: "spec 5" },
    Rule {
        id: "consistency.cut_done",
        what: "cut_done ⇒ leg A is committed, no verdict is, and the entry is at S6 or given up",
        clause: "DESIGN §2",
    },
    Rule {
        id: "consistency.cut_verified",
        what: "cut_verified and later ⇒ the verdict passed, and the entry is at S8 or given up",
        clause: "DESIGN §2",
    },
    Rule { id: "consistency.cut_failed", what: "cut_failed ⇒ no verdict passed", clause: "DESIGN §2" },
    Rule {
        id: "consistency.followed",
        what: "a committed leg A ⇒ the request is past cut_in_progress",
        clause: "DESIGN §2",
    },
    Rule {
        id: "consistency.completed",
        what: "completed and later ⇒ the enactment is committed",
        clause: "D35",
    },
    Rule {
        id: "consistency.run_stage",
        what: "the run's state is not ahead of what it committed",
        clause: "DESIGN §2",
    },
];

/// What stands of the three machines about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Status of the request.
    pub status: S,
    /// The reviewer's word on its mark.
    pub mark_verdict: Option<MarkVerdict>,
    /// It names a run.
    pub names_run: bool,
    /// Status of the run's backlog entry.
    pub entry: Option<B>,
    /// The run committed leg A.
    pub has_cut: bool,
    /// The verdict that the run's verifier committed.
    pub has_passed: Option<bool>,
    /// The run committed its enactment.
    pub is_enacted: bool,
    /// The run's own state, if its record can be read: the stage that it is in, or stopped in.
    pub stage: Option<Stage>,
}

/// Whether the machines agree: every check, those that hold too.
#[must_use]
pub fn consistency(standing: &Standing) -> Vec<Check> {
    let Standing { status, mark_verdict, names_run, entry, has_cut, has_passed, is_enacted, stage } =
        standing;
    let is_of_run = matches!(
        status,
        S::CutInProgress
            | S::CutDone
            | S::CutVerified
            | S::CutFailed
            | S::Completed
            | S::CleanupScheduled
            | S::Cleaned
    );
    let is_verified = matches!(status, S::CutVerified | S::Completed | S::CleanupScheduled | S::Cleaned);
    let is_handed_over = matches!(status, S::Completed | S::CleanupScheduled | S::Cleaned);
    let entry_text = entry.map_or(ABSENT, B::as_str);
    let verdict_text = |passed: Option<bool>| match passed {
        None => "no verdict",
        Some(true) => "a pass",
        Some(false) => "a failure",
    };
    let shown = || -> String {
        let cut = if *has_cut { "leg A" } else { "no leg A" };
        format!("{status}: {cut}, {}, entry {entry_text}", verdict_text(*has_passed))
    };
    let if_then = |id: &str, expected: &str, premise: bool, conclusion: bool| {
        Check::new(id, expected, shown(), !premise || conclusion)
    };
    let ahead = stage.is_some_and(|stage| {
        (stage >= Stage::CutLegACommitted && !has_cut)
            || (stage >= Stage::WriteVerified && *has_passed != Some(true))
            || (stage >= Stage::LifecycleEnacted && !is_enacted)
    });
    vec![
        Check::new(
            "consistency.run_named",
            if is_of_run { "a run" } else { "no run" },
            if *names_run { "a run" } else { "no run" },
            is_of_run == *names_run,
        ),
        Check::new(
            "consistency.approved",
            "approved",
            mark_verdict.map_or(ABSENT, MarkVerdict::as_str),
            !is_of_run || *mark_verdict == Some(MarkVerdict::Approved),
        ),
        if_then(
            "consistency.cut_done",
            "leg A, no verdict, entry cut_applied or abandoned",
            *status == S::CutDone,
            *has_cut && has_passed.is_none() && matches!(entry, Some(B::CutApplied | B::Abandoned)),
        ),
        if_then(
            "consistency.cut_verified",
            "leg A, a pass, entry verified_complete or abandoned",
            is_verified,
            *has_cut
                && *has_passed == Some(true)
                && matches!(entry, Some(B::VerifiedComplete | B::Abandoned)),
        ),
        if_then("consistency.cut_failed", "no pass", *status == S::CutFailed, *has_passed != Some(true)),
        if_then(
            "consistency.followed",
            "past cut_in_progress",
            *has_cut,
            is_of_run && *status != S::CutInProgress,
        ),
        Check::new("consistency.completed", is_handed_over, is_enacted, !is_handed_over || *is_enacted),
        Check::new(
            "consistency.run_stage",
            "what the run committed",
            stage.map_or_else(|| ABSENT.to_string(), |stage| format!("{stage}, {}", shown())),
            !ahead,
        ),
    ]
}
