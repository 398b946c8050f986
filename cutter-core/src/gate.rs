//! Gates: facts in, a named verdict out.
//!
//! A gate never reads or writes anything. An adapter observes and fills a facts struct, the
//! gate's `judge` turns it into a [`GateReport`](crate::record::check::GateReport), the driver acts on the report. Three rules
//! hold for every gate, and tests hold them to it:
//!
//! - every invariant is judged and listed, passed ones too; nothing is short-circuited;
//! - a fact that is absent or unreadable fails the check that needs it;
//! - every invariant is data ([`INVARIANTS`]), and for each of them a test spoils a clean
//!   example so that exactly that check fails.
//!
//! An embedder adds rules of its own with [`GateReport::push`](crate::record::check::GateReport::push); they count as ours do.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::clip::clip;
use crate::record::check::Invariant;

pub mod authorization;
pub mod backlog;
pub mod backup;
pub mod closeout;
pub mod command;
pub mod cut_leg_a;
pub mod cutplan;
pub mod drift;
mod effect;
pub mod plan_of;
pub mod staged;
pub mod verified;
pub use effect::ApprovedRows;
pub mod grant_probe;
pub mod leg_b_record;
pub mod lifecycle_enact;
pub mod lifecycle_request;
pub mod mark;
pub mod plain;
pub mod source_pin;
pub mod stored_approval;
pub mod structural_verify;
pub mod void;
pub mod write_verify;

const PARTS: &[&[Invariant]] = &[
    source_pin::INVARIANTS,
    mark::INVARIANTS,
    backlog::INVARIANTS,
    cutplan::INVARIANTS,
    backup::INVARIANTS,
    grant_probe::INVARIANTS,
    authorization::INVARIANTS,
    stored_approval::INVARIANTS,
    cut_leg_a::INVARIANTS,
    structural_verify::INVARIANTS,
    leg_b_record::INVARIANTS,
    write_verify::INVARIANTS,
    lifecycle_request::INVARIANTS,
    lifecycle_enact::INVARIANTS,
    void::INVARIANTS,
    closeout::INVARIANTS,
];

const TOTAL: usize = {
    let (mut n, mut i) = (0, 0);
    while i < PARTS.len() {
        n += PARTS[i].len();
        i += 1;
    }
    n
};

const ALL: [Invariant; TOTAL] = {
    let mut out = [source_pin::INVARIANTS[0]; TOTAL];
    let (mut n, mut i) = (0, 0);
    while i < PARTS.len() {
        let mut j = 0;
        while j < PARTS[i].len() {
            out[n] = PARTS[i][j];
            n += 1;
            j += 1;
        }
        i += 1;
    }
    out
};

/// Every invariant of every gate, in the order of a run.
pub static INVARIANTS: &[Invariant] = &ALL;

/// The page `docs/invariants.md`: all invariants by gate, from the same data that judges.
#[must_use]
pub fn invariants_markdown() -> String {
    let mut out = String::from(
        "# Invariants\n\n\
         Generated from the gates; do not edit. Every invariant is judged every time, and listed with\n\
         expected and observed value whether it held or not. A fact that is absent fails its invariant.\n",
    );
    for part in PARTS {
        let Some(first) = part.first() else { continue };
        let prefix = first.id.split('.').next().unwrap_or(first.id);
        out.push_str(&format!("\n## {prefix}\n\n"));
        let mut gates: Vec<&str> = part.iter().map(|i| i.gate.as_str()).collect();
        gates.dedup();
        let role = if matches!(prefix, "approval" | "stored_approval") {
            "judged at `SG_cut_authz`, `SG_lifecycle_authz` and `SG_failure_escalation`".to_owned()
        } else {
            format!("judged at `{}`", gates.join("`, `"))
        };
        out.push_str(&format!("{} invariants, {role}.\n\n", part.len()));
        out.push_str("| invariant | holds if | from |\n| --- | --- | --- |\n");
        for i in *part {
            out.push_str(&format!("| `{}` | {} | {} |\n", i.id, i.what, i.clause));
        }
        if prefix == "approval" {
            out.push_str(&format!(
                "\nBeside the one answer stands `{}`, over all documents at a gate: somebody who may refuse has signed\n\
                 nothing about what is asked that is neither a whole refusal nor plainly an approval.\n",
                plain::PLAIN
            ));
        }
    }
    out
}

/// Spoiled examples of a gate: which invariant was spoiled, and the report that came out.
#[cfg(test)]
pub(crate) type Spoiled = Vec<(&'static str, crate::record::check::GateReport)>;

#[cfg(test)]
macro_rules! spoilers {
    ($facts:ty, $judge:expr; $($id:literal => |$f:ident| $spoil:expr;)+) => {
        pub(crate) fn spoilers() -> $crate::gate::Spoiled {
            std::vec![$({
                let mut $f = <$facts>::example();
                $spoil;
                ($id, $judge(&$f))
            }),+]
        }
    };
}
#[cfg(test)]
pub(crate) use spoilers;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::run::GateId;
    use crate::record::check::{Check, GateReport, VALUE_MAX_BYTES};
    use alloc::string::ToString as _;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn the_page_has_a_table_for_each_part_and_a_row_for_each_invariant() {
        let text = invariants_markdown();
        let parts = PARTS.iter().filter(|part| !part.is_empty());
        assert_eq!(
            text.matches("| invariant | holds if | from |\n| --- | --- | --- |\n").count(),
            parts.count()
        );
        for invariant in PARTS.iter().copied().flatten() {
            assert_eq!(text.matches(&format!("\n| `{}` | ", invariant.id)).count(), 1, "{}", invariant.id);
        }
    }

    fn all_spoiled() -> Spoiled {
        let mut all = Vec::new();
        all.extend(source_pin::tests::spoilers());
        all.extend(mark::tests::spoilers());
        all.extend(backlog::tests::spoilers());
        all.extend(cutplan::tests::spoilers());
        all.extend(backup::tests::spoilers());
        all.extend(grant_probe::tests::spoilers());
        all.extend(authorization::tests::spoilers());
        all.extend(stored_approval::tests::spoilers());
        all.extend(cut_leg_a::tests::spoilers());
        all.extend(structural_verify::tests::spoilers());
        all.extend(leg_b_record::tests::spoilers());
        all.extend(write_verify::tests::spoilers());
        all.extend(lifecycle_request::tests::spoilers());
        all.extend(lifecycle_enact::tests::spoilers());
        all.extend(void::tests::spoilers());
        all.extend(closeout::tests::spoilers());
        all
    }

    #[test]
    fn every_invariant_has_a_spoiler_that_fails_it_and_nothing_else() {
        let mut by_id: BTreeMap<&str, Vec<GateReport>> = BTreeMap::new();
        for (id, report) in all_spoiled() {
            by_id.entry(id).or_default().push(report);
        }
        for invariant in INVARIANTS {
            let Some(reports) = by_id.remove(invariant.id) else {
                panic!("{} has no spoiler", invariant.id);
            };
            for report in reports {
                let failed: Vec<&str> = report.failures().iter().map(|c| c.invariant.as_str()).collect();
                assert_eq!(failed, [invariant.id], "{report}");
                assert!(!report.ok());
            }
        }
        assert!(by_id.is_empty(), "spoilers of no invariant: {:?}", by_id.keys());
    }

    #[test]
    fn each_judge_lists_exactly_its_invariants_and_its_example_is_clean() {
        for (part, report) in PARTS.iter().zip([
            source_pin::judge(&source_pin::SourcePinFacts::example()),
            mark::judge(&mark::MarkFacts::example()),
            backlog::judge(crate::machine::backlog::BacklogState::Marked, &backlog::example()),
            cutplan::judge(&cutplan::CutplanFacts::example()),
            backup::judge(&backup::BackupFacts::example()),
            grant_probe::judge(&grant_probe::example()),
            authorization::judge(&authorization::AuthorizationFacts::example()),
            stored_approval::judge(GateId::CutAuthz, true, &stored_approval::example()),
            cut_leg_a::judge(&cut_leg_a::LegAFacts::example()),
            structural_verify::tests::judge_example(),
            leg_b_record::judge(&leg_b_record::LegBFacts::example()),
            write_verify::judge(&write_verify::WriteVerifyFacts::example()),
            lifecycle_request::judge(&lifecycle_request::LifecycleRequestFacts::example()),
            lifecycle_enact::judge(&lifecycle_enact::EnactFacts::example()),
            void::judge(&void::VoidFacts::example()),
            closeout::judge(&closeout::CloseoutFacts::example()),
        ]) {
            assert!(report.ok(), "{report}");
            let listed: BTreeSet<&str> = report.checks.iter().map(|c| c.invariant.as_str()).collect();
            let declared: BTreeSet<&str> = part.iter().map(|i| i.id).collect();
            if part[0].id.starts_with("approval.") {
                // which fields are named depends on what is asked
                assert!(listed.is_subset(&declared), "{:?}", listed.difference(&declared));
            } else {
                assert_eq!(listed, declared);
            }
            assert_eq!(listed.len(), report.checks.len(), "an invariant is listed twice");
        }
    }

    #[test]
    fn ids_are_unique_and_written_alike() {
        let ids: BTreeSet<&str> = INVARIANTS.iter().map(|i| i.id).collect();
        assert_eq!(ids.len(), INVARIANTS.len());
        for i in INVARIANTS {
            let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let (gate, name) = i.id.split_once('.').unwrap();
            assert!(gate.chars().all(ok) && name.chars().all(ok), "{}", i.id);
            assert!(!i.what.is_empty() && !i.clause.is_empty() && !i.what.contains('|'), "{}", i.id);
        }
    }

    #[test]
    fn the_page_lists_every_invariant_once() {
        let page = invariants_markdown();
        for i in INVARIANTS {
            assert_eq!(page.matches(&format!("| `{}` |", i.id)).count(), 1, "{}", i.id);
        }
    }

    #[test]
    fn a_report_without_checks_passes_nothing() {
        let report = GateReport::new(GateId::Mark, Vec::new());
        assert!(!report.ok());
        assert!(report.to_string().contains("nothing was checked"));
    }

    #[test]
    fn a_check_of_an_embedder_counts() {
        let mut report = source_pin::judge(&source_pin::SourcePinFacts::example());
        report.push(Check::truth("own.seal_present", false));
        assert!(!report.ok());
        assert_eq!(report.as_map().get("own.seal_present"), Some(&false));
        assert!(report.to_string().contains("own.seal_present: expected true, observed false"));
    }

    #[test]
    fn an_invariant_judged_twice_held_only_if_it_held_both_times() {
        let checks = alloc::vec![Check::truth("a.b", false), Check::truth("a.b", true)];
        assert_eq!(GateReport::new(GateId::Mark, checks).as_map().get("a.b"), Some(&false));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let check = Check::new("a.b", "é".repeat(900), "x", false);
        assert!(check.expected.len() <= VALUE_MAX_BYTES && check.expected.ends_with('…'));
    }

    #[test]
    fn a_report_survives_json() {
        let report = mark::judge(&mark::MarkFacts::example());
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<GateReport>(&text).unwrap(), report);
        assert!(text.contains("\"gate\":\"IG_mark\""));
    }
}
