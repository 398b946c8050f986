//! IG_grant_probe: each principal has what it needs and nothing else. The probe only looks;
//! it never grants.

use alloc::format;
use alloc::vec::Vec;

use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{ABSENT, Check, GateReport, Invariant};
use crate::record::observed::{GrantFact, GrantSnapshot};

const G: GateId = GateId::GrantProbe;
const SPEC: &str = "spec 1 §4 IG_grant_probe";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant("grant_probe.exec_fn_iu_create", G, "cutter_exec may execute fn_iu_create", SPEC),
    invariant(
        "grant_probe.exec_fn_iu_apply_edit_draft",
        G,
        "cutter_exec may execute fn_iu_apply_edit_draft",
        SPEC,
    ),
    invariant("grant_probe.exec_fn_iu_enact", G, "cutter_exec may execute fn_iu_enact", SPEC),
    invariant("grant_probe.verify_select", G, "cutter_verify may SELECT verify_result", SPEC),
    invariant("grant_probe.verify_insert", G, "cutter_verify may INSERT verify_result", SPEC),
    invariant("grant_probe.directus_select", G, "directus may SELECT review_decision", SPEC),
    invariant(
        "grant_probe.no_public_execute",
        G,
        "PUBLIC may execute none of our functions",
        "spec 1 §4 IG_grant_probe, PROTOCOL §6",
    ),
    invariant(
        "grant_probe.no_violations",
        G,
        "no run role is owner, superuser or member of the owner, and the like",
        "PROTOCOL §6",
    ),
    invariant("grant_probe.other_needed", G, "every other privilege that is needed is held", "PROTOCOL §6"),
    invariant("grant_probe.none_excess", G, "no privilege that must not be held is held", "PROTOCOL §6"),
];

/// The six privileges that the spec names: invariant and name of the fact.
const NAMED: [(&str, &str); 6] = [
    ("grant_probe.exec_fn_iu_create", "cutter_exec:EXECUTE:iu_core.fn_iu_create"),
    ("grant_probe.exec_fn_iu_apply_edit_draft", "cutter_exec:EXECUTE:iu_core.fn_iu_apply_edit_draft"),
    ("grant_probe.exec_fn_iu_enact", "cutter_exec:EXECUTE:iu_core.fn_iu_enact"),
    ("grant_probe.verify_select", "cutter_verify:SELECT:cutter_governance.verify_result"),
    ("grant_probe.verify_insert", "cutter_verify:INSERT:cutter_governance.verify_result"),
    ("grant_probe.directus_select", "directus:SELECT:cutter_governance.review_decision"),
];

/// Is this the fact of that name? A function's argument list does not count.
fn is(fact: &GrantFact, name: &str) -> bool {
    fact.name.split('(').next() == Some(name)
}

/// Judges the probe.
#[must_use]
pub fn judge(snapshot: &GrantSnapshot) -> GateReport {
    let facts = &snapshot.facts;
    let mut checks: Vec<Check> = NAMED
        .iter()
        .map(|(id, name)| {
            let found: Vec<&GrantFact> = facts.iter().filter(|f| is(f, name)).collect();
            let ok = !found.is_empty() && found.iter().all(|f| f.holds && f.wanted);
            let observed = match (found.is_empty(), ok) {
                (true, _) => ABSENT,
                (_, true) => "held",
                (_, false) => "not held",
            };
            Check::new(id, format!("{name} held"), observed, ok)
        })
        .collect();
    let named = |f: &GrantFact| NAMED.iter().any(|(_, name)| is(f, name));
    let missing: Vec<&str> =
        facts.iter().filter(|f| f.wanted && !f.holds && !named(f)).map(|f| f.name.as_str()).collect();
    let excess: Vec<&str> =
        facts.iter().filter(|f| !f.wanted && f.holds && !named(f)).map(|f| f.name.as_str()).collect();
    checks.push(Check::empty("grant_probe.no_public_execute", &snapshot.public_execute));
    checks.push(Check::empty("grant_probe.no_violations", &snapshot.violations));
    checks.push(Check {
        expected: "none missing".into(),
        ..Check::empty("grant_probe.other_needed", &missing)
    });
    checks.push(Check::empty("grant_probe.none_excess", &excess));
    GateReport::new(G, checks)
}

/// A clean snapshot.
#[cfg(any(test, feature = "memory"))]
#[must_use]
pub fn example() -> GrantSnapshot {
    let fact = |name: &str, wanted: bool| GrantFact { name: name.into(), wanted, holds: wanted };
    let mut facts: Vec<GrantFact> = NAMED.iter().map(|(_, name)| fact(name, true)).collect();
    facts.push(fact("cutter_ro:SELECT:iu_core.information_unit", true));
    facts.push(fact("cutter_exec:TRUNCATE:iu_core.information_unit", false));
    facts.sort_by(|a, b| a.name.cmp(&b.name));
    GrantSnapshot { facts, public_execute: Vec::new(), violations: Vec::new() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::Spoiled;

    pub(crate) fn spoilers() -> Spoiled {
        let mut all = Spoiled::new();
        for (id, name) in NAMED {
            let mut revoked = example();
            revoked.facts.iter_mut().filter(|f| is(f, name)).for_each(|f| f.holds = false);
            all.push((id, judge(&revoked)));
            let mut unseen = example();
            unseen.facts.retain(|f| !is(f, name));
            all.push((id, judge(&unseen)));
        }
        let mut s = example();
        s.public_execute.push("iu_core.fn_iu_create".into());
        all.push(("grant_probe.no_public_execute", judge(&s)));
        let mut s = example();
        s.violations.push("cutter_exec is superuser".into());
        all.push(("grant_probe.no_violations", judge(&s)));
        let mut s = example();
        s.facts.iter_mut().filter(|f| f.name.starts_with("cutter_ro")).for_each(|f| f.holds = false);
        all.push(("grant_probe.other_needed", judge(&s)));
        let mut s = example();
        s.facts.iter_mut().filter(|f| f.name.contains("TRUNCATE")).for_each(|f| f.holds = true);
        all.push(("grant_probe.none_excess", judge(&s)));
        all
    }

    #[test]
    fn an_argument_list_does_not_hide_a_function() {
        let mut s = example();
        for f in s.facts.iter_mut().filter(|f| f.name.contains("EXECUTE")) {
            f.name.push_str("(uuid, text)");
        }
        assert!(judge(&s).ok());
    }

    #[test]
    fn an_empty_probe_passes_nothing_that_is_needed() {
        assert_eq!(judge(&GrantSnapshot::default()).failures().len(), NAMED.len());
    }
}
