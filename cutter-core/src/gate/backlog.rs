//! The two backlog effects of the mark phase, each judged inside its own transaction: the entry
//! stands where MARK (S0) or the sweep (S1) leaves it, and nothing else moved.

use alloc::vec;

use super::effect::{no_drift_after, surveyed, text};
use crate::machine::backlog::BacklogState;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

const G: GateId = GateId::Mark;

/// The invariants of a backlog effect.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "backlog.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
    ),
    invariant(
        "backlog.entry_status",
        G,
        "the entry is marked (S0) after MARK, review_pending (S1) after the sweep",
        "DESIGN §2, spec 3",
    ),
    invariant("backlog.no_drift_after", G, "after the write, only the entry has moved", "PROTOCOL §4"),
];

/// Judges one backlog effect: MARK if the entry must be `marked`, the sweep otherwise.
#[must_use]
pub fn judge(expected: BacklogState, facts: &EffectFacts) -> GateReport {
    let effect = if expected == BacklogState::Marked { EffectName::Mark } else { EffectName::Sweep };
    GateReport::new(
        G,
        vec![
            surveyed("backlog.surveyed", facts),
            text("backlog.entry_status", facts, fact::ENTRY_STATUS, expected.as_str()),
            no_drift_after("backlog.no_drift_after", effect, 0, facts),
        ],
    )
}

/// Clean facts of MARK.
#[cfg(any(test, feature = "memory"))]
#[must_use]
pub fn example() -> EffectFacts {
    let before = super::effect::example::survey("");
    let values = [(fact::ENTRY_STATUS, "marked")];
    super::effect::example::facts(EffectName::Mark, 0, &before, "cutter_exec", &values)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    struct Marked;
    impl Marked {
        fn example() -> EffectFacts {
            example()
        }
    }

    fn after_mark(facts: &EffectFacts) -> GateReport {
        judge(BacklogState::Marked, facts)
    }

    spoilers! { Marked, after_mark;
        "backlog.surveyed" => |f| {
            f.survey_before.0.remove(drift::MIGRATIONS);
            f.survey_after.0.remove(drift::MIGRATIONS);
        };
        "backlog.entry_status" => |f| { f.values.clear(); };
        "backlog.no_drift_after" => |f| { f.survey_after.0.insert(drift::UNIT_ROWS.into(), "1".into()); };
    }

    #[test]
    fn the_sweep_is_judged_by_its_own_status() {
        let before = crate::gate::effect::example::survey("marked");
        let values = [(fact::ENTRY_STATUS, "review_pending")];
        let facts =
            crate::gate::effect::example::facts(EffectName::Sweep, 0, &before, "cutter_exec", &values);
        assert!(judge(BacklogState::ReviewPending, &facts).ok());
        assert!(!judge(BacklogState::Marked, &facts).ok());
    }
}
