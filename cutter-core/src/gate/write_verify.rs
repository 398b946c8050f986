//! IG_write_verify: another principal counted everything again and recorded its verdict once
//! (G-VERIFY-SOD, G-VERIFY-ONCE). A refusal here is itself committed (`CommitFailure`).

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::effect::{ApprovedRows, no_drift_after, number, rows, surveyed};
use super::structural_verify::{self, StructuralExpected};
#[cfg(any(test, feature = "memory"))]
use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{ABSENT, Check, GateReport, Invariant};
use crate::record::effect::{EffectFacts, EffectName, fact};

const G: GateId = GateId::WriteVerify;
const SPEC: &str = "spec 1 §4 IG_write_verify";

/// The login that verifies, and no other.
pub const VERIFIER_PRINCIPAL: &str = "cutter_verify";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "write_verify.surveyed",
        G,
        "every drift dimension was looked at after the locks, before the write",
        "spec 1 §8, PROTOCOL §4",
    ),
    invariant(
        "write_verify.verifier_principal",
        G,
        "the verdict is written by the verifier's own login",
        SPEC,
    ),
    invariant(
        "write_verify.separate_principals",
        G,
        "the login that cut is known and is not the one that verifies",
        "spec 3 G-VERIFY-SOD",
    ),
    invariant(
        "write_verify.executor_signature",
        G,
        "the executor's signature over leg A is good: the verifier signs over no other",
        "DESIGN §6",
    ),
    invariant(
        "write_verify.recount",
        G,
        "counted again by the verifier, every structural invariant holds",
        "PROTOCOL §2 write_verify",
    ),
    invariant(
        "write_verify.rows_digest",
        G,
        "everything stored of the units, hashed again in the database, is what was approved",
        "DESIGN D39",
    ),
    invariant(
        "write_verify.verified_once",
        G,
        "the change set has exactly one verify_result",
        "spec 1 §4 G-VERIFY-ONCE",
    ),
    invariant(
        "write_verify.no_drift_after",
        G,
        "after the write, only what the verifier writes has moved",
        "PROTOCOL §4",
    ),
];

/// What the verifier observed, beside the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteVerifyFacts {
    /// Observed inside the transaction, with the structural recount.
    pub effect: EffectFacts,
    /// What the plan says must be there.
    pub expected: StructuralExpected,
    /// The approved rows.
    pub rows: ApprovedRows,
    /// What is wrong with the executor's stored signature ([`crate::record::attestation::faults`]).
    pub signature_faults: Vec<String>,
}

/// Judges the verification.
#[must_use]
pub fn judge(facts: &WriteVerifyFacts) -> GateReport {
    let e = &facts.effect;
    let executor = e.values.get(fact::EXECUTOR_PRINCIPAL).map_or("", String::as_str);
    let wanted = VERIFIER_PRINCIPAL;
    let verifier = "write_verify.verifier_principal";
    GateReport::new(
        G,
        vec![
            surveyed("write_verify.surveyed", e),
            Check::new(verifier, wanted, &e.principal, wanted == e.principal),
            Check::new(
                "write_verify.separate_principals",
                format!("an executor other than {wanted}"),
                if executor.is_empty() { ABSENT } else { executor },
                !executor.is_empty() && executor != wanted,
            ),
            Check::empty("write_verify.executor_signature", &facts.signature_faults),
            recount(facts),
            rows("write_verify.rows_digest", e, &facts.rows),
            number("write_verify.verified_once", e, fact::VERIFY_RESULTS, 1),
            no_drift_after("write_verify.no_drift_after", EffectName::WriteVerify, facts.expected.units, e),
        ],
    )
}

fn recount(facts: &WriteVerifyFacts) -> Check {
    let id = "write_verify.recount";
    let total = structural_verify::INVARIANTS.len();
    let expected = format!("{total} of {total} structural invariants");
    let Some(counted) = &facts.effect.structural else {
        return Check::new(id, expected, ABSENT, false);
    };
    let report = structural_verify::judge(&facts.expected, counted);
    let failed = report.failures();
    if failed.is_empty() {
        return Check::new(id, &expected, &expected, true);
    }
    let named: Vec<String> = failed
        .iter()
        .map(|c| {
            let name = c.invariant.rsplit('.').next().unwrap_or(&c.invariant);
            format!("{name}: expected {}, observed {}", c.expected, c.observed)
        })
        .collect();
    Check::new(id, expected, crate::record::check::listed(&named), false)
}

#[cfg(any(test, feature = "memory"))]
impl WriteVerifyFacts {
    /// Clean facts of a cut of seven units.
    #[must_use]
    pub fn example() -> Self {
        let before = super::effect::example::survey("cut_applied");
        let expected = StructuralExpected::example();
        let rows = ApprovedRows { digest: Digest::of(b"rows"), is_named: true };
        let values = [
            (fact::VERIFY_RESULTS, "1"),
            (fact::EXECUTOR_PRINCIPAL, "cutter_exec"),
            (fact::ROWS_DIGEST, &rows.digest.to_hex()),
        ];
        let mut effect =
            super::effect::example::facts(EffectName::WriteVerify, 7, &before, "cutter_verify", &values);
        effect.structural = Some(expected.agreeing_facts());
        Self { effect, expected, rows, signature_faults: Vec::new() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::drift;
    use crate::gate::spoilers;

    fn set(f: &mut WriteVerifyFacts, name: &str, value: &str) {
        f.effect.values.insert(name.into(), value.into());
    }

    spoilers! { WriteVerifyFacts, judge;
        "write_verify.surveyed" => |f| { f.effect.survey_before.0.remove(drift::MIGRATIONS); f.effect.survey_after.0.remove(drift::MIGRATIONS); };
        "write_verify.verifier_principal" => |f| f.effect.principal = "postgres".into();
        "write_verify.separate_principals" => |f| set(&mut f, fact::EXECUTOR_PRINCIPAL, "cutter_verify");
        "write_verify.separate_principals" => |f| { f.effect.values.remove(fact::EXECUTOR_PRINCIPAL); };
        "write_verify.executor_signature" => |f| f.signature_faults.push("executor: not good".into());
        "write_verify.recount" => |f| f.effect.structural.as_mut().unwrap().anchors = 6;
        "write_verify.recount" => |f| f.effect.structural = None;
        "write_verify.rows_digest" => |f| set(&mut f, fact::ROWS_DIGEST, "other");
        "write_verify.verified_once" => |f| set(&mut f, fact::VERIFY_RESULTS, "2");
        "write_verify.no_drift_after" => |f| {
            f.effect.survey_after.0.insert(drift::BACKLOG_STATUS.into(), "abandoned".into());
        };
    }

    #[test]
    fn the_recount_names_what_differs() {
        let mut facts = WriteVerifyFacts::example();
        facts.effect.structural.as_mut().unwrap().orphans = 2;
        assert_eq!(judge(&facts).failures()[0].observed, "no_orphans: expected 0, observed 2");
    }
}
