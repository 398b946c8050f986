//! Approvals that change or expire after they were validated: before, between and after the
//! writes that rely on them.

use cutter_core::port::Port;
use std::collections::BTreeMap;

use cutter_core::record::approval::render_approval;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan};
use cutter_tests::refusal::{Gate, asked};
use cutter_tests::{SOVEREIGN, Scenario};

#[test]
fn an_answer_that_expires_between_validation_and_the_write_stops_the_run() {
    for gate in Gate::ALL {
        let s = Scenario::new(23);
        let (run_id, ask) = s.parked(gate);
        let end = s.world.now().checked_add(jiff::SignedDuration::from_secs(60)).unwrap();
        let text = render_approval(
            &ask,
            ReviewVerdict::Approve,
            SOVEREIGN,
            s.world.now(),
            Some(end),
            &BTreeMap::new(),
        );
        s.world.file(&ask.approval_path, s.seal(&text).as_bytes());
        // dies once the approval is validated and recorded, before its effect
        let op = if gate == Gate::Cut { "begin sg1_review" } else { "begin sg2_review" };
        let plan = FaultPlan::one(Fault::on(Port::Database, op, FaultKind::DieBefore));
        let _ = s.resume(&s.process(plan).1, &run_id);
        s.world.advance(61_000);
        let before = s.rows();
        let driven = s.resumed(&run_id);
        let says = ["expired at", ask.approval_path.as_str()];
        s.assert_stopped(
            &driven,
            "STOP_APPROVAL_CHANGED",
            "stopped_approval_changed",
            gate.awaiting(),
            &says,
        );
        assert_eq!(s.rows(), before);
        assert_eq!(driven.outcome, s.resumed(&run_id).outcome, "a plain resume does not go on");
        s.answer_stop(&run_id, cutter_core::report::naming::EscalationKind::Resume, &[]);
        let again = asked(&s.resumed(&run_id));
        assert_eq!(again.occurrence, 2);
        s.sign(&again, ReviewVerdict::Approve);
        s.finish(&run_id);
    }
}

/// Dies at a call, then the approval is edited: the run stops instead of relying on it.
fn edited_after(gate: Gate, op: &str) {
    let s = Scenario::new(24);
    let (run_id, ask) = s.parked(gate);
    s.sign(&ask, ReviewVerdict::Approve);
    let plan = FaultPlan::one(Fault::on(Port::Database, op, FaultKind::DieBefore));
    let _ = s.resume(&s.process(plan).1, &run_id);
    let edited = s.seal(&(s.answer(&ask, ReviewVerdict::Approve) + "\nAnd more.\n"));
    s.world.file(&ask.approval_path, edited.as_bytes());
    let before = s.rows();
    let driven = s.resumed(&run_id);
    let says = [ask.approval_path.as_str(), "expected sha256", "observed"];
    s.assert_stopped(&driven, "STOP_APPROVAL_CHANGED", "stopped_approval_changed", gate.awaiting(), &says);
    assert_eq!(s.rows(), before, "nothing is written on an edited approval");
    s.answer_stop(&run_id, cutter_core::report::naming::EscalationKind::Resume, &[]);
    let again = asked(&s.resumed(&run_id));
    assert_eq!(again.occurrence, 2, "it asks again, under the next occurrence");
    assert!(again.request_path.contains("request-2-") && again.approval_path.contains("approval-2-"));
    s.sign(&again, ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn edited_after_validation_before_it_is_stored() {
    edited_after(Gate::Cut, "begin sg1_review");
    edited_after(Gate::Lifecycle, "begin sg2_review");
}

#[test]
fn edited_after_it_was_stored_before_leg_a() {
    edited_after(Gate::Cut, "begin leg_a");
}

#[test]
fn edited_after_it_was_stored_before_the_enactment() {
    edited_after(Gate::Lifecycle, "begin enact");
}

#[test]
fn edited_after_the_write_committed_it_is_put_back_before_the_run_goes_further() {
    for (gate, op) in [(Gate::Cut, "finish leg_a"), (Gate::Lifecycle, "finish enact")] {
        let s = Scenario::new(25);
        let (run_id, ask) = s.parked(gate);
        s.sign(&ask, ReviewVerdict::Approve);
        let plan = FaultPlan::one(Fault::on(Port::Database, op, FaultKind::DieAfter));
        let _ = s.resume(&s.process(plan).1, &run_id);
        let whole = s.world.document(&ask.approval_path).unwrap().bytes;
        s.world.file(&ask.approval_path, b"edited\n");
        // the effect stands: it is adopted, not judged by a document that changed later
        let mut driven = s.resumed(&run_id);
        if s.sign_if_asked(&driven.outcome) {
            driven = s.resumed(&run_id);
        }
        let stage = if gate == Gate::Cut { Gate::Lifecycle.awaiting() } else { "lifecycle_enacted" };
        s.assert_stopped(&driven, "STOP_KB_CONFLICT", "stopped_kb_conflict", stage, &["kb restore --run-id"]);
        let enacted = s.count("information_unit", "lifecycle_status", "enacted");
        assert_eq!(enacted > 0, gate == Gate::Lifecycle, "no further approval is spent");
        s.world.file(&ask.approval_path, &whole);
        s.finish(&run_id);
    }
}

#[test]
fn a_filed_document_that_was_changed_stops_the_run_before_an_approval_is_spent() {
    for gate in Gate::ALL {
        let s = Scenario::new(26);
        let (run_id, ask) = s.parked(gate);
        s.sign(&ask, ReviewVerdict::Approve);
        let filed = s.stored(&run_id).documents[1].path.clone();
        let whole = s.world.document(&filed).unwrap().bytes;
        s.world.file(&filed, b"edited\n");
        let driven = s.resumed(&run_id);
        let says = [filed.as_str(), "kb restore --run-id"];
        s.assert_stopped(&driven, "STOP_KB_CONFLICT", "stopped_kb_conflict", gate.awaiting(), &says);
        assert_eq!(s.rows_of("approval_use").len(), usize::from(gate == Gate::Lifecycle), "nothing is spent");
        s.world.file(&filed, &whole);
        s.finish(&run_id);
    }
}
