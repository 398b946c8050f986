//! How a verification ends: each item holds, fails, or was not checked.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use crate::record::check::Check;

/// How a verification ends as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Everything that must be checked was, and holds.
    Holds,
    /// Something does not hold.
    Fails,
    /// Nothing fails, but something that must be checked could not be.
    Incomplete,
}

/// An item that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotChecked {
    /// What.
    pub item: String,
    /// Why not.
    pub why: String,
    /// What would let it be checked; empty where nothing would.
    pub to_check: String,
}

impl NotChecked {
    /// An item that something would let be checked.
    #[must_use]
    pub fn new(item: impl Into<String>, why: impl Into<String>, to_check: impl Into<String>) -> Self {
        Self { item: item.into(), why: why.into(), to_check: to_check.into() }
    }
}

/// A check, and the failure from which its own follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// The check.
    #[serde(flatten)]
    pub check: Check,
    /// Another failure that explains this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows_from: Option<String>,
}

/// Everything that was judged of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The whole.
    pub answer: Answer,
    /// What holds and what fails.
    pub checks: Vec<Judged>,
    /// What was not checked.
    pub not_checked: Vec<NotChecked>,
}

/// Failures (by the beginning of their names) that follow from others, wherever both are.
const FOLLOWS: [(&str, &[&str]); 12] = [
    (
        "verify.units.rows_digest",
        &[
            "verify.units.readable",
            "verify.units.content_hash",
            "verify.units.count",
            "verify.units.set_digest",
            "verify.units.writer_digest",
        ],
    ),
    (
        "verify.units.rejoin_to_region",
        &[
            "verify.units.readable",
            "verify.units.content_hash",
            "verify.units.count",
            "verify.units.tile_the_region",
        ],
    ),
    ("verify.units.set_digest", &["verify.units.count"]),
    ("verify.units.writer_digest", &["verify.units.count", "verify.units.set_digest"]),
    ("verify.units.enacted_log_rows", &["verify.units.count"]),
    ("verify.source.region_sha", &["verify.source.sha256"]),
    ("verify.rows.run_effect", &["verify.rows.", "verify.signature.", "verify.approval."]),
    ("verify.signature.verifier_covers_executor", &["verify.signature.executor"]),
    ("verify.statement.says", &["verify.approval.", "verify.source.", "verify.units."]),
    ("verify.statement.tables", &["verify.rows."]),
    ("verify.statement.documents", &["verify.documents."]),
    ("verify.answers.filed", &["verify.approval."]),
];

impl Verification {
    /// Of what was judged. Where nothing was, nothing holds.
    #[must_use]
    pub fn of(checks: Vec<Check>, not_checked: Vec<NotChecked>) -> Self {
        let failed: Vec<String> = checks.iter().filter(|c| !c.ok).map(|c| c.invariant.clone()).collect();
        let answer = if !failed.is_empty() {
            Answer::Fails
        } else if checks.is_empty() || not_checked.iter().any(|item| !item.to_check.is_empty()) {
            Answer::Incomplete
        } else {
            Answer::Holds
        };
        let judged = |check: Check| {
            let follows_from = if check.ok { None } else { cause(&check.invariant, &failed) };
            Judged { check, follows_from }
        };
        Self { answer, checks: checks.into_iter().map(judged).collect(), not_checked }
    }
}

fn cause(name: &str, failed: &[String]) -> Option<String> {
    let (_, causes) = FOLLOWS.iter().find(|(begins, _)| name.starts_with(begins))?;
    let explains = |other: &&String| *other != name && causes.iter().any(|begins| other.starts_with(begins));
    failed.iter().find(explains).map(|cause| cause.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchecked_item_is_never_a_whole_answer_and_a_failure_beats_it() {
        let good = Check::truth("verify.a", true);
        let bad = Check::truth("verify.b", false);
        let open = NotChecked::new("the database", "left out as asked", "cutter verify --run-id R");
        let never = NotChecked::new("the rows", "never signed", "");
        let of = |checks: &[&Check], items: &[&NotChecked]| {
            Verification::of(
                checks.iter().map(|c| (*c).clone()).collect(),
                items.iter().map(|i| (*i).clone()).collect(),
            )
            .answer
        };
        assert_eq!(of(&[], &[]), Answer::Incomplete);
        assert_eq!(of(&[&good], &[]), Answer::Holds);
        assert_eq!(of(&[&good], &[&never]), Answer::Holds);
        assert_eq!(of(&[&good], &[&open]), Answer::Incomplete);
        assert_eq!(of(&[&good, &bad], &[&open]), Answer::Fails);
    }

    #[test]
    fn a_failure_that_follows_names_its_cause_and_a_lone_one_none() {
        let bad = |name: &str| Check::truth(name, false);
        let verdict = Verification::of(
            alloc::vec![
                bad("verify.units.content_hash"),
                bad("verify.units.rows_digest.SG_cut_authz"),
                bad("verify.source.region_sha")
            ],
            Vec::new(),
        );
        let follows: Vec<_> = verdict.checks.iter().map(|j| j.follows_from.as_deref()).collect();
        assert_eq!(follows, [None, Some("verify.units.content_hash"), None]);
    }
}
