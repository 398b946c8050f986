//! A decision as it is stored by the reviewer's own login, judged inside its transaction (SG_1,
//! SG_2, SG_3). Whether the decision is genuine was judged before (`gate::authorization`).

use alloc::vec;

use super::effect::{no_drift_after, surveyed};
use crate::machine::backlog::BacklogState as S;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{ABSENT, Check, GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

/// The login that stores decisions, and no other (PROTOCOL §6).
pub const REVIEWER_PRINCIPAL: &str = "cutter_review";

const G: GateId = GateId::CutAuthz;

/// The invariants of a stored decision, the same at all three sovereign gates.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "stored_approval.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
    ),
    invariant(
        "stored_approval.reviewer_principal",
        G,
        "the decision is stored by the reviewer's own login, not by the one that relies on it",
        "PROTOCOL §6",
    ),
    invariant(
        "stored_approval.entry_reviewed",
        G,
        "at SG_1 the backlog entry stands at S2, S3 or S4",
        "DESIGN §2, D32",
    ),
    invariant(
        "stored_approval.no_drift_after",
        G,
        "after the write, only the decision has been added",
        "PROTOCOL §4",
    ),
];

/// Judges a stored decision. `gate` is the gate that asked; `moves` says whether the decision moves
/// the backlog entry (SG_1).
#[must_use]
pub fn judge(gate: GateId, moves: bool, facts: &EffectFacts) -> GateReport {
    let effect = match gate {
        GateId::CutAuthz => EffectName::Sg1Review,
        GateId::LifecycleAuthz => EffectName::Sg2Review,
        _ => EffectName::Sg3Review,
    };
    let status = facts.values.get(fact::ENTRY_STATUS).map_or(ABSENT, alloc::string::String::as_str);
    let reviewed = [S::ReviewedApproved, S::ReviewedDeferred, S::ReviewedRejected];
    let reviewed = reviewed.iter().any(|state| state.as_str() == status);
    let entry = "stored_approval.entry_reviewed";
    GateReport::new(
        gate,
        vec![
            surveyed("stored_approval.surveyed", facts),
            Check::new(
                "stored_approval.reviewer_principal",
                REVIEWER_PRINCIPAL,
                &facts.principal,
                facts.principal == REVIEWER_PRINCIPAL,
            ),
            if moves {
                Check::new(
                    entry,
                    "reviewed_approved, reviewed_deferred or reviewed_rejected",
                    status,
                    reviewed,
                )
            } else {
                Check::new(entry, "not moved by this decision", status, true)
            },
            no_drift_after("stored_approval.no_drift_after", effect, 0, facts),
        ],
    )
}

/// Clean facts of an approval at SG_1.
#[cfg(any(test, feature = "memory"))]
#[must_use]
pub fn example() -> EffectFacts {
    let before = super::effect::example::survey("review_pending");
    let values = [(fact::ENTRY_STATUS, "reviewed_approved")];
    let mut facts =
        super::effect::example::facts(EffectName::Sg1Review, 0, &before, REVIEWER_PRINCIPAL, &values);
    facts.survey_after.0.insert(crate::gate::drift::BACKLOG_STATUS.into(), "reviewed_approved".into());
    facts
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    struct Stored;
    impl Stored {
        fn example() -> EffectFacts {
            example()
        }
    }

    fn at_sg1(facts: &EffectFacts) -> GateReport {
        judge(GateId::CutAuthz, true, facts)
    }

    spoilers! { Stored, at_sg1;
        "stored_approval.surveyed" => |f| {
            f.survey_before.0.remove(drift::MIGRATIONS);
            f.survey_after.0.remove(drift::MIGRATIONS);
        };
        "stored_approval.reviewer_principal" => |f| f.principal = "cutter_exec".into();
        "stored_approval.entry_reviewed" => |f| { f.values.insert(fact::ENTRY_STATUS.into(), "review_pending".into()); };
        "stored_approval.entry_reviewed" => |f| { f.values.clear(); };
        "stored_approval.no_drift_after" => |f| {
            f.survey_after.0.insert(drift::UNIT_ROWS.into(), "7".into());
        };
    }

    #[test]
    fn other_gates_leave_the_entry_alone() {
        let mut facts = example();
        facts.values.clear();
        facts.survey_after.0.insert(drift::BACKLOG_STATUS.into(), "review_pending".into());
        for gate in [GateId::LifecycleAuthz, GateId::FailureEscalation] {
            let report = judge(gate, false, &facts);
            assert!(report.ok(), "{report}");
            assert_eq!(report.gate, gate);
        }
    }
}
