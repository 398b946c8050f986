//! IG_cut_leg_a_execute, judged on what was observed inside the open transaction: exactly N
//! drafts of the approved plan, on the approved base, under an approval used here and once.
//! The transaction is committed only if this holds; the effect's record is the proof of COMMIT.

use alloc::vec;

use serde::{Deserialize, Serialize};

use super::effect::{ApprovedRows, digest, no_drift_after, number, rows, surveyed, text};
use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{Check, GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

const G: GateId = GateId::CutLegA;
const SPEC: &str = "spec 1 §4 IG_cut_leg_a_execute";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "cut_leg_a.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
    ),
    invariant("cut_leg_a.approval_decision", G, "the stored decision is approve", "D14"),
    invariant("cut_leg_a.approval_used_once", G, "the approval is used by this effect and no other", "D14"),
    invariant(
        "cut_leg_a.base_state",
        G,
        "the base state under the lock is the one that was approved",
        "PROTOCOL §7",
    ),
    invariant(
        "cut_leg_a.grants",
        G,
        "the grant probe inside the transaction is the pinned one",
        "PROTOCOL §2 grant_probe",
    ),
    invariant("cut_leg_a.created", G, "fn_iu_create returned a unit exactly N times, N at least 1", SPEC),
    invariant(
        "cut_leg_a.writer_digest",
        G,
        "the writer digest computed from the stored rows is the approved one",
        "spec 2 §6 writer_digest",
    ),
    invariant(
        "cut_leg_a.rows_digest",
        G,
        "everything stored of the units, hashed again in the database, is what was approved",
        "DESIGN D39",
    ),
    invariant("cut_leg_a.all_draft", G, "no unit of the change set is anything but draft", SPEC),
    invariant(
        "cut_leg_a.entry_cut_applied",
        G,
        "the backlog entry stands at S6 (cut_applied)",
        "DESIGN §2, OD-SM-2",
    ),
    invariant(
        "cut_leg_a.no_drift_after",
        G,
        "after the write, only what leg A writes has moved",
        "PROTOCOL §4",
    ),
];

/// What leg A observed, beside the pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegAFacts {
    /// Observed inside the transaction.
    pub effect: EffectFacts,
    /// Units of the plan: the spec's N.
    pub units: u64,
    /// The approved writer digest.
    pub writer_digest: Digest,
    /// The approved rows.
    pub rows: ApprovedRows,
    /// The approved base state.
    pub base_state: Digest,
    /// The pinned digest of the grant probe.
    pub grants_pin: Digest,
}

/// Judges leg A.
#[must_use]
pub fn judge(facts: &LegAFacts) -> GateReport {
    let e = &facts.effect;
    let created = number("cut_leg_a.created", e, fact::CREATED, facts.units);
    GateReport::new(
        G,
        vec![
            surveyed("cut_leg_a.surveyed", e),
            text("cut_leg_a.approval_decision", e, fact::APPROVAL_DECISION, "approve"),
            text("cut_leg_a.approval_used_once", e, fact::APPROVAL_USED_HERE, "true"),
            digest("cut_leg_a.base_state", e, fact::BASE_STATE, &facts.base_state),
            digest("cut_leg_a.grants", e, fact::GRANTS, &facts.grants_pin),
            Check { ok: created.ok && facts.units > 0, ..created },
            digest("cut_leg_a.writer_digest", e, fact::WRITER_DIGEST, &facts.writer_digest),
            rows("cut_leg_a.rows_digest", e, &facts.rows),
            number("cut_leg_a.all_draft", e, fact::NON_DRAFT, 0),
            text("cut_leg_a.entry_cut_applied", e, fact::ENTRY_STATUS, "cut_applied"),
            no_drift_after("cut_leg_a.no_drift_after", EffectName::LegA, facts.units, e),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl LegAFacts {
    /// Clean facts of a cut of seven units.
    #[must_use]
    pub fn example() -> Self {
        let (writer, base, grants) = (Digest::of(b"plan"), Digest::of(b"base"), Digest::of(b"grants"));
        let rows = ApprovedRows { digest: Digest::of(b"rows"), is_named: true };
        let before = super::effect::example::survey("reviewed_approved");
        let values = [
            (fact::CREATED, "7"),
            (fact::NON_DRAFT, "0"),
            (fact::WRITER_DIGEST, &writer.to_hex()),
            (fact::ROWS_DIGEST, &rows.digest.to_hex()),
            (fact::BASE_STATE, &base.to_hex()),
            (fact::GRANTS, &grants.to_hex()),
            (fact::APPROVAL_USED_HERE, "true"),
            (fact::APPROVAL_DECISION, "approve"),
            (fact::ENTRY_STATUS, "cut_applied"),
        ];
        Self {
            effect: super::effect::example::facts(EffectName::LegA, 7, &before, "cutter_exec", &values),
            units: 7,
            writer_digest: writer,
            rows,
            base_state: base,
            grants_pin: grants,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    fn set(f: &mut LegAFacts, name: &str, value: &str) {
        f.effect.values.insert(name.into(), value.into());
    }

    spoilers! { LegAFacts, judge;
        "cut_leg_a.surveyed" => |f| { f.effect.survey_before.0.remove(drift::MIGRATIONS); f.effect.survey_after.0.remove(drift::MIGRATIONS); };
        "cut_leg_a.approval_decision" => |f| set(&mut f, fact::APPROVAL_DECISION, "defer");
        "cut_leg_a.approval_used_once" => |f| set(&mut f, fact::APPROVAL_USED_HERE, "false");
        "cut_leg_a.base_state" => |f| set(&mut f, fact::BASE_STATE, &Digest::of(b"other").to_hex());
        "cut_leg_a.grants" => |f| { f.effect.values.remove(fact::GRANTS); };
        "cut_leg_a.created" => |f| set(&mut f, fact::CREATED, "6");
        "cut_leg_a.created" => |f| set(&mut f, fact::CREATED, "seven");
        "cut_leg_a.writer_digest" => |f| set(&mut f, fact::WRITER_DIGEST, &Digest::of(b"other").to_hex());
        "cut_leg_a.rows_digest" => |f| set(&mut f, fact::ROWS_DIGEST, &Digest::of(b"other").to_hex());
        "cut_leg_a.rows_digest" => |f| { f.effect.values.remove(fact::ROWS_DIGEST); };
        "cut_leg_a.rows_digest" => |f| { f.rows.is_named = false; set(&mut f, fact::ROWS_DIGEST, "other"); };
        "cut_leg_a.all_draft" => |f| set(&mut f, fact::NON_DRAFT, "1");
        "cut_leg_a.entry_cut_applied" => |f| set(&mut f, fact::ENTRY_STATUS, "reviewed_approved");
        "cut_leg_a.no_drift_after" => |f| {
            f.effect.survey_after.0.insert(drift::UNIT_ROWS.into(), "8".into());
        };
        "cut_leg_a.no_drift_after" => |f| { f.effect.survey_after.0.remove(drift::TRIGGERS); };
    }

    #[test]
    fn a_dimension_looked_at_only_once_has_moved() {
        let mut facts = LegAFacts::example();
        facts.effect.survey_after.0.remove(drift::TRIGGERS);
        assert_eq!(judge(&facts).failures()[0].observed, "triggers: 0 -> absent");
        facts.effect.survey_before.0.clear();
        assert!(judge(&facts).failures().len() == 2);
    }

    #[test]
    fn a_function_swapped_during_the_transaction_is_found() {
        let mut facts = LegAFacts::example();
        facts.effect.survey_after.0.insert("function.iu_core.fn_iu_create".into(), "swapped".into());
        assert_eq!(judge(&facts).failures()[0].invariant, "cut_leg_a.no_drift_after");
    }

    #[test]
    fn no_facts_fail_every_check_that_needs_one() {
        let mut facts = LegAFacts::example();
        facts.effect.values.clear();
        assert_eq!(judge(&facts).failures().len(), 9);
    }

    #[test]
    fn rows_may_be_unknown_only_where_the_consent_named_none() {
        let mut facts = LegAFacts::example();
        facts.effect.values.remove(fact::ROWS_DIGEST);
        facts.rows.is_named = false;
        assert!(judge(&facts).ok());
    }
}
