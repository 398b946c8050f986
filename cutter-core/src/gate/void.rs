//! Voiding (D10): the change set and its draft units are marked, nothing is deleted, and
//! nothing that was enacted is touched. Judged at SG_failure_escalation.

use alloc::vec;

use serde::{Deserialize, Serialize};

use super::effect::{no_drift_after, number, surveyed, text};
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{Check, GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

const G: GateId = GateId::FailureEscalation;

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "void.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
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

/// What voiding observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoidFacts {
    /// Observed inside the transaction.
    pub effect: EffectFacts,
    /// Units of the change set; 0 if leg A never committed.
    pub units: u64,
    /// Does this void abandon a backlog entry?
    pub has_entry: bool,
}

/// A count of units; where leg A committed none there may be nothing to count.
fn counted(id: &str, facts: &EffectFacts, name: &str, units: u64) -> Check {
    if units == 0 && !facts.values.contains_key(name) {
        return Check::new(id, "no units to void", "no units to void", true);
    }
    number(id, facts, name, units)
}

/// Judges voiding.
#[must_use]
pub fn judge(facts: &VoidFacts) -> GateReport {
    let e = &facts.effect;
    GateReport::new(
        G,
        vec![
            surveyed("void.surveyed", e),
            text("void.approval_used_once", e, fact::APPROVAL_USED_HERE, "true"),
            number("void.nothing_enacted", e, fact::ENACTED_UNITS, 0),
            counted("void.all_voided", e, fact::VOIDED, facts.units),
            counted("void.log_rows", e, fact::LOG_ROWS, facts.units),
            if facts.has_entry {
                text("void.entry_abandoned", e, fact::ENTRY_STATUS, "abandoned")
            } else {
                Check::new("void.entry_abandoned", "no entry to abandon", "no entry to abandon", true)
            },
            no_drift_after("void.no_drift_after", EffectName::Void, facts.units, e),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl VoidFacts {
    /// Clean facts of seven drafts.
    #[must_use]
    pub fn example() -> Self {
        let before = super::effect::example::survey("cut_applied");
        let values = [
            (fact::APPROVAL_USED_HERE, "true"),
            (fact::ENACTED_UNITS, "0"),
            (fact::VOIDED, "7"),
            (fact::LOG_ROWS, "7"),
            (fact::ENTRY_STATUS, "abandoned"),
        ];
        Self {
            effect: super::effect::example::facts(EffectName::Void, 7, &before, "cutter_exec", &values),
            units: 7,
            has_entry: true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    fn set(f: &mut VoidFacts, name: &str, value: &str) {
        f.effect.values.insert(name.into(), value.into());
    }

    spoilers! { VoidFacts, judge;
        "void.surveyed" => |f| { f.effect.survey_before.0.remove(drift::MIGRATIONS); f.effect.survey_after.0.remove(drift::MIGRATIONS); };
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
        set(&mut facts, fact::VOIDED, "0");
        facts.effect.values.remove(fact::LOG_ROWS);
        facts.effect.values.remove(fact::ENTRY_STATUS);
        assert!(judge(&facts).ok());
    }
}
