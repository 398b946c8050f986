//! What an undisturbed run costs: at most two durable writes, and one upload, for each phase.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use cutter_core::base::id::RunId;
use cutter_core::driver::{NewRun, Outcome, rehearsal};
use cutter_core::machine::run::Phase;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::{Mode, PhaseResult, Sidecar};
use cutter_core::testing::crash::{self, Call};
use cutter_core::testing::memory::block_on;
use cutter_tests::story::{Plot, Story};
use cutter_tests::{Scenario, caller};

/// Phases that only look: the write before each is its own first.
const LOOKING: [Phase; 2] = [Phase::Cutplan, Phase::GrantProbe];

#[test]
fn each_phase_costs_two_durable_writes_at_most() {
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
        let begun = all.iter().find(|s| of(s).is_some()).unwrap();
        assert_eq!(
            passed(begun),
            LOOKING.contains(phase),
            "{phase}: its intent is durable before its result"
        );
    }
    // creation, two for each phase, and for each gate: parked, and approval with the next intent
    assert_eq!(all.len(), 1 + 2 * Phase::ALL.len() - LOOKING.len() + 2 * 2);
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
        ("run_store.publish", 2 * phases - LOOKING.len() as u64 + 2 * 2 - 1),
        ("run_store.publish_last", 1),
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

/// Eleven phases that do nothing have the record of eleven phases, and one write each.
#[test]
fn a_rehearsal_is_the_protocol_alone() {
    let scenario = Scenario::new(2);
    let ports = scenario.ports();
    let request = NewRun {
        document_id: cutter_tests::DOCUMENT.into(),
        mode: Mode::Live,
        settings: scenario.settings.clone(),
        run_id: None,
    };
    let writes =
        |run_id: &RunId| (1..).map_while(|n| block_on(ports.runs.load_revision(run_id, n)).unwrap()).count();
    let parked = block_on(rehearsal::run(&ports, &caller(), &request, true)).unwrap();
    let run_id = parked.sidecar.run_id.clone();
    let Outcome::Paused { ask, .. } = &parked.outcome else { panic!("{:?}", parked.outcome) };
    // creation, a result for each of nine phases, the request, and the pause
    assert_eq!(writes(&run_id), 1 + 9 + 1 + 1);
    let unanswered = block_on(rehearsal::resume(&ports, &caller(), &run_id)).unwrap();
    assert!(matches!(unanswered.outcome, Outcome::Paused { .. }), "{:?}", unanswered.outcome);
    assert_eq!(writes(&run_id), 12, "nothing is written without a word");
    scenario.sign(ask, ReviewVerdict::Approve);
    let done = block_on(rehearsal::resume(&ports, &caller(), &run_id)).unwrap();
    assert_eq!(done.outcome, Outcome::Completed);
    // the word, two results, the end
    assert_eq!(writes(&run_id), 12 + 1 + 2 + 1);
    let sidecar = &done.sidecar;
    assert_eq!((sidecar.state.as_str(), sidecar.status.as_deref()), ("closeout_reported", Some("success")));
    assert_eq!(sidecar.documents.len(), Phase::ALL.len() + 1);
    for document in &sidecar.documents {
        let filed = block_on(ports.kb.read(&document.path)).unwrap().unwrap();
        assert_eq!(filed.sha256, document.sha256, "{}", document.path);
    }
    // No unit, no effect: the database was not asked.
    let evidence = block_on(ports.reader.evidence(&run_id)).unwrap();
    assert!(evidence.effects.is_empty(), "{:?}", evidence.effects);
}
