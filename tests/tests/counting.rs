//! What an undisturbed run costs: two durable writes and one upload for each phase.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use cutter_core::crash::{self, Call};
use cutter_core::machine::run::Phase;
use cutter_core::memory::block_on;
use cutter_core::sidecar::{PhaseResult, Sidecar};
use cutter_tests::Scenario;
use cutter_tests::story::{Plot, Story};

#[test]
fn each_phase_costs_two_durable_writes() {
    let scenario = Scenario::new(1);
    let run_id = scenario.whole_run().unwrap().sidecar.run_id.clone();
    let runs = scenario.ports().runs;
    let revision = |n| block_on(runs.load_revision(&run_id, n)).unwrap();
    let all: Vec<Sidecar> =
        (1..).map_while(|n| Some(Sidecar::from_bytes(&revision(n)?.bytes).unwrap())).collect();
    for phase in Phase::ALL {
        let of = |s: &Sidecar| s.phases.get(phase.as_str()).cloned();
        let passed = |s: &Sidecar| of(s).is_some_and(|p| p.result == PhaseResult::Passed);
        let filed = |s: &Sidecar| of(s).is_some_and(|p| p.kb_doc_id.is_some());
        let owed: Vec<u64> = all.iter().filter(|s| passed(s) && !filed(s)).map(|s| s.revision).collect();
        assert_eq!(owed.len(), 1, "{phase}: the result is one write, and the next one files it: {owed:?}");
        let result = &all[usize::try_from(owed[0]).unwrap() - 1];
        assert!(result.outbox.is_some(), "{phase}: the report is owed with the result");
        let next = &all[usize::try_from(owed[0]).unwrap()];
        assert!(
            filed(next) && next.outbox.as_ref().map(|o| &o.name) != result.outbox.as_ref().map(|o| &o.name)
        );
        assert_ne!(next.state, result.state, "{phase}: the second write moves the run on");
    }
    // creation, two for each phase, and for each gate: parked, and approval with the next intent
    assert_eq!(all.len(), 1 + 2 * Phase::ALL.len() + 2 * 2);
}

#[test]
fn the_calls_of_a_whole_run_are_counted() {
    let reference = crash::undisturbed(&Story::small(Plot::Whole)).unwrap();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for call in &reference.trace {
        *counts.entry(call.to_string()).or_default() += 1;
    }
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let phases = Phase::ALL.len() as u64;
    let writes = [
        ("run_store.create", 1),
        ("run_store.put_claim", 1),
        ("run_store.publish", 2 * phases + 2 * 2),
        ("run_store.mirror", phases),
        ("knowledge_base.create", phases + 2),
        ("knowledge_base.append_index", 1),
        ("backup_target.begin", 1),
        ("backup_target.finish", 1),
        ("database.finish mark", 1),
        ("database.finish sweep", 1),
        ("database.finish sg1_review", 1),
        ("database.finish leg_a", 1),
        ("database.finish leg_b", 1),
        ("database.finish write_verify", 1),
        ("database.finish sg2_request", 1),
        ("database.finish sg2_review", 1),
        ("database.finish enact", 1),
        // one for each process: cut, resume, resume
        ("database.take_fence", 3),
    ];
    for (name, expected) in writes {
        assert_eq!(count(name), expected, "{name}: {counts:#?}");
    }
    let commits = reference.trace.iter().filter(|c| Call::is_commit(c)).count();
    assert_eq!(commits, 9);
}
