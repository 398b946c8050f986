//! IG_mark: the region, extracted again independently, is the pinned one; the candidates
//! partition it; their number is bounded; the entry stands where the sweep leaves it.

use alloc::string::String;
use alloc::vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{Check, GateReport, Invariant};

const G: GateId = GateId::Mark;
const SPEC: &str = "spec 1 §4 IG_mark";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "mark.region_sha_matches",
        G,
        "the region extracted again hashes to the pinned region_sha",
        "spec 1 §4 IG_mark, D27",
    ),
    invariant("mark.region_span_matches", G, "the region extracted again has the pinned span", "D27"),
    invariant(
        "mark.candidate_count_within",
        G,
        "there is at least one candidate and no more than the run's cap",
        SPEC,
    ),
    invariant(
        "mark.region_partitioned",
        G,
        "every byte of the region belongs to exactly one candidate",
        "DESIGN §5",
    ),
    invariant("mark.entry_marked", G, "MARK left the backlog entry at S0 (marked)", "DESIGN §2, spec 3"),
    invariant(
        "mark.entry_promoted",
        G,
        "the sweep left the backlog entry at S1 (review_pending)",
        "DESIGN §2, D20",
    ),
    invariant(
        "mark.duplicates_reported",
        G,
        "every duplicate address got a number and a warning",
        "ADDRESSING 3",
    ),
];

/// What marking produced, beside the pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkFacts {
    /// Pinned at source_pin.
    pub region_sha_pin: Digest,
    /// sha256 of the region extracted again.
    pub region_sha: Digest,
    /// Pinned span: byte offsets into the source version, end exclusive.
    pub region_pin: (usize, usize),
    /// Span of the region extracted again.
    pub region: (usize, usize),
    /// How many candidates.
    pub candidate_count: u64,
    /// The run's cap (MAX_CANDIDATES_PER_DOC).
    pub max_candidates: u64,
    /// Do the candidates partition the region?
    pub partition_ok: bool,
    /// Status of the backlog entry inside the transaction of MARK.
    pub entry_status_after_mark: Option<String>,
    /// Status of the backlog entry inside the transaction of the sweep.
    pub entry_status_after_sweep: Option<String>,
    /// Duplicate addresses without a warning.
    pub unreported_duplicates: u64,
    /// A dry run (`false`) makes no backlog entry and is not asked for one.
    pub live: bool,
}

/// Judges the marking.
#[must_use]
pub fn judge(facts: &MarkFacts) -> GateReport {
    let span = |(start, end): (usize, usize)| alloc::format!("{start}..{end}");
    GateReport::new(
        G,
        vec![
            Check::equal("mark.region_sha_matches", &facts.region_sha_pin, &facts.region_sha),
            Check::equal("mark.region_span_matches", &span(facts.region_pin), &span(facts.region)),
            Check::within("mark.candidate_count_within", 1, facts.max_candidates, facts.candidate_count),
            Check::truth("mark.region_partitioned", facts.partition_ok),
            entry("mark.entry_marked", "marked", facts.entry_status_after_mark.as_ref(), facts.live),
            entry(
                "mark.entry_promoted",
                "review_pending",
                facts.entry_status_after_sweep.as_ref(),
                facts.live,
            ),
            Check::equal("mark.duplicates_reported", &0, &facts.unreported_duplicates),
        ],
    )
}

fn entry(id: &str, expected: &str, observed: Option<&String>, live: bool) -> Check {
    if !live && observed.is_none() {
        return Check::new(id, "no entry in a dry run", "no entry", true);
    }
    Check::equal_some(id, &expected.into(), observed)
}

/// Is this an invariant about the backlog entry, which can only be judged once the rest held and
/// the entry was written?
#[must_use]
pub fn needs_database(invariant: &str) -> bool {
    matches!(invariant, "mark.entry_marked" | "mark.entry_promoted")
}

/// Judges one backlog effect inside its transaction; see [`super::backlog`].
pub use super::backlog::judge as judge_status;

#[cfg(any(test, feature = "memory"))]
impl MarkFacts {
    /// Clean facts.
    #[must_use]
    pub fn example() -> Self {
        Self {
            region_sha_pin: Digest::of(b"region"),
            region_sha: Digest::of(b"region"),
            region_pin: (10, 90),
            region: (10, 90),
            candidate_count: 7,
            max_candidates: 7,
            partition_ok: true,
            entry_status_after_mark: Some("marked".into()),
            entry_status_after_sweep: Some("review_pending".into()),
            unreported_duplicates: 0,
            live: true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::spoilers;

    spoilers! { MarkFacts, judge;
        "mark.region_sha_matches" => |f| f.region_sha = Digest::of(b"other");
        "mark.region_span_matches" => |f| f.region = (10, 91);
        "mark.candidate_count_within" => |f| f.candidate_count = 0;
        "mark.candidate_count_within" => |f| f.candidate_count = 8;
        "mark.region_partitioned" => |f| f.partition_ok = false;
        "mark.entry_marked" => |f| f.entry_status_after_mark = None;
        "mark.entry_promoted" => |f| f.entry_status_after_sweep = Some("marked".into());
        "mark.duplicates_reported" => |f| f.unreported_duplicates = 1;
    }

    #[test]
    fn a_dry_run_is_asked_for_no_entry_but_may_not_have_a_wrong_one() {
        let dry = MarkFacts {
            live: false,
            entry_status_after_mark: None,
            entry_status_after_sweep: None,
            ..MarkFacts::example()
        };
        assert!(judge(&dry).ok());
        let wrong = MarkFacts { entry_status_after_mark: Some("abandoned".into()), ..dry };
        assert!(!judge(&wrong).ok());
    }
}
