//! IG_lifecycle_enact_execute, judged inside the open transaction: all N units enacted, none
//! partly, each with its log row, by the actor that SG_2 expected, with the triggers on.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::effect::{ApprovedRows, digest, no_drift_after, number, rows, surveyed, text};
use super::lifecycle_request::DECISION_TYPE;
use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{Check, GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

const G: GateId = GateId::LifecycleEnact;
const SPEC: &str = "spec 1 §4 IG_lifecycle_enact_execute";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "lifecycle_enact.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
    ),
    invariant(
        "lifecycle_enact.review_decision_matches",
        G,
        "the approval names the run's own review_decision_id",
        SPEC,
    ),
    invariant(
        "lifecycle_enact.decision_type",
        G,
        "the request row is of type lifecycle_enactment",
        "spec 1 §3 SG_2_lifecycle_authz",
    ),
    invariant(
        "lifecycle_enact.request_actor",
        G,
        "the request row expects the configured actor",
        "spec 1 §3 SG_2_lifecycle_authz",
    ),
    invariant(
        "lifecycle_enact.approval_actor",
        G,
        "the stored approval is by the expected actor",
        "spec 1 §3 SG_2_lifecycle_authz",
    ),
    invariant("lifecycle_enact.approval_decision", G, "the stored decision is approve", "D14"),
    invariant(
        "lifecycle_enact.approval_used_once",
        G,
        "the approval is used by this effect and no other",
        "D14",
    ),
    invariant(
        "lifecycle_enact.grants",
        G,
        "the grant probe inside the transaction is the pinned one",
        "PROTOCOL §2 grant_probe",
    ),
    invariant(
        "lifecycle_enact.unit_set",
        G,
        "the units that stand there are those that were approved",
        "PROTOCOL §2 SG2",
    ),
    invariant(
        "lifecycle_enact.rows_digest",
        G,
        "everything stored of the units, hashed again in the database, is what was approved",
        "DESIGN D39",
    ),
    invariant(
        "lifecycle_enact.signatures",
        G,
        "executor and verifier signed, and both signatures are good",
        "DESIGN §6",
    ),
    invariant(
        "lifecycle_enact.enacted",
        G,
        "fn_iu_enact returned enacted exactly N times, N at least 1",
        SPEC,
    ),
    invariant("lifecycle_enact.none_partial", G, "no unit of the change set is anything but enacted", SPEC),
    invariant("lifecycle_enact.log_rows", G, "iu_lifecycle_log has exactly N rows for it", SPEC),
    invariant("lifecycle_enact.trigger_iu", G, "trg_iu_enacted_immut is enabled (O)", SPEC),
    invariant("lifecycle_enact.trigger_uv", G, "trg_uv_enacted_immut is enabled (O)", SPEC),
    invariant(
        "lifecycle_enact.triggers_fire",
        G,
        "session_replication_role is origin, so that triggers fire",
        "PROTOCOL §2 enact",
    ),
    invariant(
        "lifecycle_enact.no_drift_after",
        G,
        "after the write, only what enactment writes has moved",
        "PROTOCOL §4",
    ),
];

/// What enactment observed, beside the pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnactFacts {
    /// Observed inside the transaction.
    pub effect: EffectFacts,
    /// Units of the change set: the spec's N.
    pub units: u64,
    /// Digest of the unit set, as approved.
    pub unit_set_digest: Digest,
    /// The approved rows.
    pub rows: ApprovedRows,
    /// What is wrong with the stored signatures ([`crate::record::attestation::faults`]).
    pub signature_faults: Vec<String>,
    /// The run's own lifecycle review decision.
    pub review_decision_id: Uuid,
    /// The review decision that the verified approval names; `None` if it names none.
    pub approved_review_decision_id: Option<Uuid>,
    /// Who had to sign.
    pub expected_actor: String,
    /// The pinned digest of the grant probe.
    pub grants_pin: Digest,
}

/// Judges enactment.
#[must_use]
pub fn judge(facts: &EnactFacts) -> GateReport {
    let e = &facts.effect;
    let named = |check: Check| Check { ok: check.ok && !facts.expected_actor.is_empty(), ..check };
    let enacted = number("lifecycle_enact.enacted", e, fact::ENACTED, facts.units);
    GateReport::new(
        G,
        vec![
            surveyed("lifecycle_enact.surveyed", e),
            Check::equal_some(
                "lifecycle_enact.review_decision_matches",
                &facts.review_decision_id,
                facts.approved_review_decision_id.as_ref(),
            ),
            text("lifecycle_enact.decision_type", e, fact::DECISION_TYPE, DECISION_TYPE),
            named(text("lifecycle_enact.request_actor", e, fact::EXPECTED_ACTOR, &facts.expected_actor)),
            named(text("lifecycle_enact.approval_actor", e, fact::APPROVAL_ACTOR, &facts.expected_actor)),
            text("lifecycle_enact.approval_decision", e, fact::APPROVAL_DECISION, "approve"),
            text("lifecycle_enact.approval_used_once", e, fact::APPROVAL_USED_HERE, "true"),
            digest("lifecycle_enact.grants", e, fact::GRANTS, &facts.grants_pin),
            digest("lifecycle_enact.unit_set", e, fact::UNIT_SET, &facts.unit_set_digest),
            rows("lifecycle_enact.rows_digest", e, &facts.rows),
            Check::empty("lifecycle_enact.signatures", &facts.signature_faults),
            Check { ok: enacted.ok && facts.units > 0, ..enacted },
            number("lifecycle_enact.none_partial", e, fact::NOT_ENACTED, 0),
            number("lifecycle_enact.log_rows", e, fact::LOG_ROWS, facts.units),
            text("lifecycle_enact.trigger_iu", e, fact::TRIGGER_IU, "O"),
            text("lifecycle_enact.trigger_uv", e, fact::TRIGGER_UV, "O"),
            text("lifecycle_enact.triggers_fire", e, fact::REPLICATION_ROLE, "origin"),
            no_drift_after("lifecycle_enact.no_drift_after", EffectName::Enact, facts.units, e),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl EnactFacts {
    /// Clean facts of seven units.
    #[must_use]
    pub fn example() -> Self {
        let (units, grants) = (Digest::of(b"units"), Digest::of(b"grants"));
        let rows = ApprovedRows { digest: Digest::of(b"rows"), is_named: true };
        let before = super::effect::example::survey("verified_complete");
        let values = [
            (fact::DECISION_TYPE, DECISION_TYPE),
            (fact::EXPECTED_ACTOR, "sovereign"),
            (fact::APPROVAL_ACTOR, "sovereign"),
            (fact::APPROVAL_DECISION, "approve"),
            (fact::APPROVAL_USED_HERE, "true"),
            (fact::GRANTS, &grants.to_hex()),
            (fact::UNIT_SET, &units.to_hex()),
            (fact::ROWS_DIGEST, &rows.digest.to_hex()),
            (fact::ENACTED, "7"),
            (fact::NOT_ENACTED, "0"),
            (fact::LOG_ROWS, "7"),
            (fact::TRIGGER_IU, "O"),
            (fact::TRIGGER_UV, "O"),
            (fact::REPLICATION_ROLE, "origin"),
        ];
        Self {
            effect: super::effect::example::facts(EffectName::Enact, 7, &before, "cutter_exec", &values),
            units: 7,
            unit_set_digest: units,
            rows,
            signature_faults: Vec::new(),
            review_decision_id: Uuid::from_u128(9),
            approved_review_decision_id: Some(Uuid::from_u128(9)),
            expected_actor: "sovereign".into(),
            grants_pin: grants,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    fn set(f: &mut EnactFacts, name: &str, value: &str) {
        f.effect.values.insert(name.into(), value.into());
    }

    spoilers! { EnactFacts, judge;
        "lifecycle_enact.surveyed" => |f| { f.effect.survey_before.0.remove(drift::MIGRATIONS); f.effect.survey_after.0.remove(drift::MIGRATIONS); };
        "lifecycle_enact.review_decision_matches" => |f| f.approved_review_decision_id = Some(Uuid::from_u128(8));
        "lifecycle_enact.review_decision_matches" => |f| f.approved_review_decision_id = None;
        "lifecycle_enact.decision_type" => |f| set(&mut f, fact::DECISION_TYPE, "void");
        "lifecycle_enact.request_actor" => |f| set(&mut f, fact::EXPECTED_ACTOR, "operator");
        "lifecycle_enact.approval_actor" => |f| set(&mut f, fact::APPROVAL_ACTOR, "operator");
        "lifecycle_enact.approval_decision" => |f| set(&mut f, fact::APPROVAL_DECISION, "reject");
        "lifecycle_enact.approval_used_once" => |f| set(&mut f, fact::APPROVAL_USED_HERE, "false");
        "lifecycle_enact.grants" => |f| set(&mut f, fact::GRANTS, "0");
        "lifecycle_enact.unit_set" => |f| { f.effect.values.remove(fact::UNIT_SET); };
        "lifecycle_enact.rows_digest" => |f| set(&mut f, fact::ROWS_DIGEST, &Digest::of(b"other").to_hex());
        "lifecycle_enact.rows_digest" => |f| { f.effect.values.remove(fact::ROWS_DIGEST); };
        "lifecycle_enact.signatures" => |f| f.signature_faults.push("verifier: not good".into());
        "lifecycle_enact.enacted" => |f| set(&mut f, fact::ENACTED, "6");
        "lifecycle_enact.none_partial" => |f| set(&mut f, fact::NOT_ENACTED, "1");
        "lifecycle_enact.log_rows" => |f| set(&mut f, fact::LOG_ROWS, "8");
        "lifecycle_enact.trigger_iu" => |f| set(&mut f, fact::TRIGGER_IU, "D");
        "lifecycle_enact.trigger_uv" => |f| set(&mut f, fact::TRIGGER_UV, "R");
        "lifecycle_enact.triggers_fire" => |f| set(&mut f, fact::REPLICATION_ROLE, "replica");
        "lifecycle_enact.no_drift_after" => |f| {
            f.effect.survey_after.0.insert(drift::UNIT_ROWS.into(), "1".into());
        };
    }
}
