//! Voiding (D10): the change set and its draft units are marked, nothing is deleted, and
//! nothing that was enacted is touched. Judged at SG_failure_escalation.

use alloc::vec;

use serde::{Deserialize, Serialize};

use super::effect::{no_drift_after, no_drift_before, number, text};
use super::{Check, GateReport, Invariant, invariant};
use crate::machine::run::GateId;
use crate::port::database::{EffectFacts, EffectName, Survey, fact};

const G: GateId = GateId::FailureEscalation;

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "void.no_drift_before",
        G,
        "after the locks and before the write, everything stands as pinned or acknowledged",
        "PROTOCOL §4",
    ),
    invariant("void.approval_used_once", G, "the approval is used by this effect and no other", "D14"),
    invariant("void.nothing_enacted", G, "no unit of the change set is enacted", "D10"),
    invariant("void.all_voided", G, "every unit of the change set became voided", "D10"),
    invariant("void.log_rows", G, "iu_lifecycle_log has one row per voided unit", "D29"),
    invariant(
        "void.entry_abandoned",
        G,
        "the backlog entry, where the run has one, is abandoned (S10)",
        "spec 3",
    ),
    invariant("void.no_drift_after", G, "after the write, only what voiding writes has moved", "PROTOCOL §4"),
];

/// What voiding observed, beside the pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoidFacts {
    /// Observed inside the transaction.
    pub effect: EffectFacts,
    /// Units of the change set; 0 if leg A never committed.
    pub units: u64,
    /// Does this void abandon a backlog entry?
    pub has_entry: bool,
    /// Drift pins; a void after drift takes the values observed at its beginning.
    pub pins: Survey,
}

/// Judges voiding.
#[must_use]
pub fn judge(facts: &VoidFacts) -> GateReport {
    let e = &facts.effect;
    GateReport::new(
        G,
        vec![
            no_drift_before("void.no_drift_before", e, &facts.pins),
            text("void.approval_used_once", e, fact::APPROVAL_USED_HERE, "true"),
            number("void.nothing_enacted", e, fact::ENACTED_UNITS, 0),
            number("void.all_voided", e, fact::VOIDED, facts.units),
            number("void.log_rows", e, fact::LOG_ROWS, facts.units),
            if facts.has_entry {
                text("void.entry_abandoned", e, fact::ENTRY_STATUS, "abandoned")
            } else {
                Check::new("void.entry_abandoned", "no entry to abandon", "no entry to abandon", true)
            },
            no_drift_after("void.no_drift_after", EffectName::Void, facts.units, e, &facts.pins),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl VoidFacts {
    /// Clean facts of seven drafts.
    #[must_use]
    pub fn example() -> Self {
        let pins = super::effect::example::pins("cut_applied");
        let values = [
            (fact::APPROVAL_USED_HERE, "true"),
            (fact::ENACTED_UNITS, "0"),
            (fact::VOIDED, "7"),
            (fact::LOG_ROWS, "7"),
            (fact::ENTRY_STATUS, "abandoned"),
        ];
        Self {
            effect: super::effect::example::facts(EffectName::Void, 7, &pins, "cutter_exec", &values),
            units: 7,
            has_entry: true,
            pins,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::drift;
    use crate::gate::spoilers;

    fn set(f: &mut VoidFacts, name: &str, value: &str) {
        f.effect.values.insert(name.into(), value.into());
    }

    spoilers! { VoidFacts, judge;
        "void.no_drift_before" => |f| {
            f.effect.survey_before.0.insert(drift::TRIGGERS.into(), "off".into());
        };
        "void.approval_used_once" => |f| { f.effect.values.remove(fact::APPROVAL_USED_HERE); };
        "void.nothing_enacted" => |f| set(&mut f, fact::ENACTED_UNITS, "1");
        "void.all_voided" => |f| set(&mut f, fact::VOIDED, "6");
        "void.log_rows" => |f| set(&mut f, fact::LOG_ROWS, "6");
        "void.entry_abandoned" => |f| set(&mut f, fact::ENTRY_STATUS, "cut_applied");
        "void.no_drift_after" => |f| {
            f.effect.survey_after.0.insert(drift::UNIT_ROWS.into(), "-7".into());
        };
    }

    #[test]
    fn a_run_without_change_set_or_entry_can_be_voided() {
        let mut facts = VoidFacts { units: 0, has_entry: false, ..VoidFacts::example() };
        for name in [fact::VOIDED, fact::LOG_ROWS] {
            set(&mut facts, name, "0");
        }
        facts.effect.values.remove(fact::ENTRY_STATUS);
        assert!(judge(&facts).ok());
    }
}
