//! IG_leg_b_record: the governance record of the cut exists once, is bound to leg A's
//! signature, and no other live change set covers the same spans.

use alloc::vec;

use serde::{Deserialize, Serialize};

use super::effect::{no_drift_after, number, surveyed, text};
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

const G: GateId = GateId::LegBRecord;
const SPEC: &str = "spec 1 §4 IG_leg_b_record";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "leg_b_record.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
    ),
    invariant("leg_b_record.change_set_unique", G, "the change set is there, once", SPEC),
    invariant(
        "leg_b_record.executor_signature",
        G,
        "leg A's executor signature is there and belongs to the change set",
        "spec 1 §4 IG_leg_b_record, D26",
    ),
    invariant(
        "leg_b_record.recorded_once",
        G,
        "the change set has exactly one envelope",
        "spec 1 §4 G-LEG-B-ONCE",
    ),
    invariant(
        "leg_b_record.lane_overlap",
        G,
        "no other live change set has an anchor over these spans",
        "spec 1 §4 lane_overlap, D30",
    ),
    invariant(
        "leg_b_record.no_drift_after",
        G,
        "after the write, only what leg B writes has moved",
        "PROTOCOL §4",
    ),
];

/// What leg B observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegBFacts {
    /// Observed inside the transaction.
    pub effect: EffectFacts,
    /// Units of the change set.
    pub units: u64,
}

/// Judges leg B.
#[must_use]
pub fn judge(facts: &LegBFacts) -> GateReport {
    let e = &facts.effect;
    GateReport::new(
        G,
        vec![
            surveyed("leg_b_record.surveyed", e),
            number("leg_b_record.change_set_unique", e, fact::CHANGE_SETS, 1),
            text("leg_b_record.executor_signature", e, fact::EXECUTOR_SIGNATURE, "true"),
            number("leg_b_record.recorded_once", e, fact::ENVELOPES, 1),
            number("leg_b_record.lane_overlap", e, fact::LANE_OVERLAPS, 0),
            no_drift_after("leg_b_record.no_drift_after", EffectName::LegB, facts.units, e),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl LegBFacts {
    /// Clean facts.
    #[must_use]
    pub fn example() -> Self {
        let before = super::effect::example::survey("cut_applied");
        let values = [
            (fact::CHANGE_SETS, "1"),
            (fact::EXECUTOR_SIGNATURE, "true"),
            (fact::ENVELOPES, "1"),
            (fact::LANE_OVERLAPS, "0"),
        ];
        Self {
            effect: super::effect::example::facts(EffectName::LegB, 7, &before, "cutter_exec", &values),
            units: 7,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    fn set(f: &mut LegBFacts, name: &str, value: &str) {
        f.effect.values.insert(name.into(), value.into());
    }

    spoilers! { LegBFacts, judge;
        "leg_b_record.surveyed" => |f| { f.effect.survey_before.0.remove(drift::MIGRATIONS); f.effect.survey_after.0.remove(drift::MIGRATIONS); };
        "leg_b_record.change_set_unique" => |f| set(&mut f, fact::CHANGE_SETS, "2");
        "leg_b_record.executor_signature" => |f| { f.effect.values.remove(fact::EXECUTOR_SIGNATURE); };
        "leg_b_record.recorded_once" => |f| set(&mut f, fact::ENVELOPES, "2");
        "leg_b_record.lane_overlap" => |f| set(&mut f, fact::LANE_OVERLAPS, "1");
        "leg_b_record.no_drift_after" => |f| {
            f.effect.survey_after.0.insert(drift::UNIT_ROWS.into(), "1".into());
        };
    }
}
