//! The request at SG_2: a new, immutable `review_decision` row that no run used before, of
//! type `lifecycle_enactment`, expecting one actor (spec 1 §3 SG_2).

use alloc::string::String;
use alloc::vec;

use serde::{Deserialize, Serialize};

use super::effect::{no_drift_after, number, surveyed, text};
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{Check, GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

const G: GateId = GateId::LifecycleAuthz;
const SPEC: &str = "spec 1 §3 SG_2_lifecycle_authz";

/// The type of the decision that SG_2 asks for.
pub const DECISION_TYPE: &str = "lifecycle_enactment";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "lifecycle_request.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
    ),
    invariant(
        "lifecycle_request.decision_new",
        G,
        "no other row and no other run has this review_decision_id",
        SPEC,
    ),
    invariant("lifecycle_request.decision_type", G, "the request row is of type lifecycle_enactment", SPEC),
    invariant("lifecycle_request.expected_actor", G, "the request row expects the configured actor", SPEC),
    invariant(
        "lifecycle_request.no_drift_after",
        G,
        "after the write, only the request row has been added",
        "PROTOCOL §4",
    ),
];

/// What the request observed, beside the pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleRequestFacts {
    /// Observed inside the transaction.
    pub effect: EffectFacts,
    /// Units of the change set.
    pub units: u64,
    /// Who is expected to sign.
    pub expected_actor: String,
}

/// Judges the request row.
#[must_use]
pub fn judge(facts: &LifecycleRequestFacts) -> GateReport {
    let e = &facts.effect;
    let actor = text("lifecycle_request.expected_actor", e, fact::EXPECTED_ACTOR, &facts.expected_actor);
    GateReport::new(
        G,
        vec![
            surveyed("lifecycle_request.surveyed", e),
            number("lifecycle_request.decision_new", e, fact::DECISION_REUSED, 0),
            text("lifecycle_request.decision_type", e, fact::DECISION_TYPE, DECISION_TYPE),
            Check { ok: actor.ok && !facts.expected_actor.is_empty(), ..actor },
            no_drift_after("lifecycle_request.no_drift_after", EffectName::Sg2Request, facts.units, e),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl LifecycleRequestFacts {
    /// Clean facts.
    #[must_use]
    pub fn example() -> Self {
        let before = super::effect::example::survey("verified_complete");
        let values = [
            (fact::DECISION_REUSED, "0"),
            (fact::DECISION_TYPE, DECISION_TYPE),
            (fact::EXPECTED_ACTOR, "sovereign"),
        ];
        Self {
            effect: super::effect::example::facts(EffectName::Sg2Request, 7, &before, "cutter_exec", &values),
            units: 7,
            expected_actor: "sovereign".into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    fn set(f: &mut LifecycleRequestFacts, name: &str, value: &str) {
        f.effect.values.insert(name.into(), value.into());
    }

    spoilers! { LifecycleRequestFacts, judge;
        "lifecycle_request.surveyed" => |f| { f.effect.survey_before.0.remove(drift::MIGRATIONS); f.effect.survey_after.0.remove(drift::MIGRATIONS); };
        "lifecycle_request.decision_new" => |f| set(&mut f, fact::DECISION_REUSED, "1");
        "lifecycle_request.decision_type" => |f| set(&mut f, fact::DECISION_TYPE, "cut_authorization");
        "lifecycle_request.expected_actor" => |f| set(&mut f, fact::EXPECTED_ACTOR, "operator");
        "lifecycle_request.expected_actor" => |f| { f.expected_actor.clear(); set(&mut f, fact::EXPECTED_ACTOR, ""); };
        "lifecycle_request.no_drift_after" => |f| {
            f.effect.survey_after.0.insert(drift::REVIEW_DECISIONS.into(), "2".into());
        };
    }
}
