//! Guards of the driver that stand behind others, each asked alone.

use cutter_core::driver::Outcome;
use cutter_core::port::Port;
use cutter_core::record::effect::{EffectKey, EffectName, ReviewVerdict};
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan};
use cutter_tests::refusal::{Gate, stopped};
use cutter_tests::{DOCUMENT, Scenario};

#[test]
fn an_enactment_that_a_restored_database_lacks_is_drift() {
    use EffectName as E;
    for (seed, effect) in (600..).zip([E::Sg2Request, E::Sg2Review, E::Enact]) {
        let s = Scenario::new(seed);
        let (run_id, ask) = s.parked(Gate::Lifecycle);
        s.sign(&ask, ReviewVerdict::Approve);
        let plan = FaultPlan::one(Fault::on(Port::KnowledgeBase, "append_index", FaultKind::DieBefore));
        let _ = s.resume(&s.process(plan).1, &run_id);
        assert_eq!(s.stored(&run_id).state, "lifecycle_enacted");
        assert!(s.world.drop_effect(&EffectKey { run_id: run_id.clone(), effect, occurrence: 1 }));
        let driven = s.resume(&s.ports(), &run_id).unwrap();
        let stop = stopped(&driven);
        assert_eq!(stop.code, "STOP_DRIFT_effect", "{effect}");
        let says = format!("effect: expected {effect} committed, observed absent");
        assert!(stop.detail.iter().any(|line| line.contains(&says)), "{says}: {stop:?}");
    }
}

#[test]
fn every_report_of_a_phase_names_document_run_and_pins_at_its_head() {
    let s = Scenario::new(610);
    let driven = s.whole_run().unwrap();
    assert_eq!(driven.outcome, Outcome::Completed);
    let record = &driven.sidecar;
    let source = record.context_pins["source_sha256"].clone();
    let mut seen = 0;
    for phase in record.phases.values() {
        let Some(path) = &phase.kb_doc_id else { continue };
        let text = String::from_utf8(s.world.document(path).unwrap().bytes).unwrap();
        let inputs = text.split("## 1.").nth(1).unwrap().split("```").nth(1).unwrap();
        let value = |key: &str| {
            let mut lines = inputs.lines().filter_map(|line| line.split_once(':'));
            let (_, value) =
                lines.find(|(name, _)| name.trim() == key).unwrap_or_else(|| panic!("{path}: no {key}"));
            value.trim().trim_matches('"').to_owned()
        };
        assert_eq!(value("document_id"), DOCUMENT, "{path}");
        assert_eq!(value("run_id"), record.run_id.as_str(), "{path}");
        assert_eq!(value("source_sha256"), source, "{path}");
        seen += 1;
    }
    assert_eq!(seen, 11, "every phase has a report");
}

/// The stop's report names where its answers go, so the folder is chosen with the stop: an empty
/// one, or one with nothing but what this run owes.
#[test]
fn a_run_that_stops_before_its_first_document_chooses_a_free_folder() {
    for (seed, taken) in [(620, false), (621, true)] {
        let s = Scenario::new(seed);
        let probe = Scenario::new(seed).whole_run().unwrap();
        let folder = probe.sidecar.kb_folder.clone().unwrap();
        if taken {
            s.world.file(&format!("{folder}/01-source-pin-2026-01-01.md"), b"another's\n");
        }
        let plan = FaultPlan::one(Fault::on(Port::KnowledgeBase, "create", FaultKind::DieBefore));
        let _ = s.cut(&s.process(plan).1);
        let run_id = s.world.runs()[0].clone();
        assert_eq!(s.stored(&run_id).kb_folder, None, "nothing is filed yet");
        let stop = stopped(&s.stop(&run_id, "wait").unwrap());
        let chosen = s.stored(&run_id).kb_folder.expect("chosen with the stop");
        assert_eq!(chosen == folder, !taken, "{chosen}");
        assert!(chosen.starts_with(&folder), "the same day and text: {chosen}");
        assert!(s.world.document(&format!("{chosen}/{}", stop.name)).is_some(), "the report is filed there");
    }
}
