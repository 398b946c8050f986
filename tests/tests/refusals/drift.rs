//! Drift in every pin of PROTOCOL §4: before a phase, inside a writing transaction, at both gates,
//! between leg A and leg B; mended, acknowledged and voided.

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{Outcome, stop_kinds};
use cutter_core::machine::run::GateId;
use cutter_core::port::Port;
use cutter_core::record::effect::{EffectKey, EffectName, ReviewVerdict};
use cutter_core::report::naming::EscalationKind::{DriftAck, Resume, Void};
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan};
use cutter_tests::Scenario;
use cutter_tests::refusal::{Gate, asked, stopped};

type Damage = fn(&Scenario, &RunId);

const CREATE: &str = "iu_core.fn_iu_create";

/// Every pinned dimension, with something that moves it while a run is parked at SG1.
const DAMAGES: &[(&str, Damage)] = &[
    ("database_identity", |s, _| s.world.set_database_identity("memory/2")),
    ("migrations", |s, _| s.world.set_migrations(&Digest::of(b"more").to_hex())),
    ("function_iu_core_fn_iu_create", |s, _| s.world.alter_function(CREATE, "swapped")),
    ("function_iu_core_fn_iu_enact", |s, _| s.world.alter_function("iu_core.fn_iu_enact", "swapped")),
    ("function_iu_core_fn_iu_apply_edit_draft", |s, _| {
        s.world.drop_function("iu_core.fn_iu_apply_edit_draft")
    }),
    ("function_iu_core_fn_more", |s, _| s.world.alter_function("iu_core.fn_more", "added")),
    ("triggers", |s, _| s.world.alter_trigger("trg_iu_enacted_immut", "D")),
    ("latest_version", |s, _| s.register("# Charter\n\nAnother.\n")),
    ("vocabulary", |s, _| {
        s.world.alter_vocabulary(|v| {
            v.unit_kind.insert("invented".into());
        })
    }),
    ("grants", |s, _| s.world.alter_grants(|g| g.public_execute.push("iu_core.fn_iu_create".into()))),
];

/// The same, plus what can only move once there are units.
const DAMAGES_WITH_UNITS: &[(&str, Damage)] = &[
    ("unit_digest", |s, _| {
        let like = s.rows_of("information_unit")[0]["canonical_address"].as_str().unwrap().to_owned();
        assert!(s.world.intrude_unit(&like, "ICX-CHARTER/intruder"));
    }),
    ("unit_digest", |s, _| {
        let like = s.rows_of("information_unit")[0]["canonical_address"].as_str().unwrap().to_owned();
        assert!(s.world.drop_unit(&like));
    }),
];

fn code(dimension: &str) -> String {
    format!("STOP_DRIFT_{dimension}")
}

/// Parked at SG1, approved, then the world moves: leg A does not begin.
#[test]
fn at_sg1_in_every_dimension_stops_before_any_write() {
    for (i, (dimension, damage)) in DAMAGES.iter().enumerate() {
        let s = Scenario::new(100 + i as u64);
        let (run_id, ask) = s.parked(Gate::Cut);
        s.sign(&ask, ReviewVerdict::Approve);
        damage(&s, &run_id);
        let before = s.rows();
        let driven = s.resumed(&run_id);
        s.assert_stopped(
            &driven,
            &code(dimension),
            "stopped_drift",
            Gate::Cut.awaiting(),
            &["expected", "observed"],
        );
        assert_eq!(s.rows(), before, "{dimension}: nothing is written");
    }
}

/// One cause, one signature: the request that follows shows what moved and the state that is, with a
/// backup of that state, and its approval accepts it.
#[test]
fn at_sg1_it_takes_a_new_backup_and_one_signature() {
    for (i, (dimension, damage)) in DAMAGES.iter().enumerate() {
        let s = Scenario::new(120 + i as u64);
        let (run_id, first) = s.parked(Gate::Cut);
        s.sign(&first, ReviewVerdict::Approve);
        damage(&s, &run_id);
        let first_backup = s.stored(&run_id).backup.unwrap();
        s.resumed(&run_id);
        let stop = s.stored(&run_id).stops[0].clone();
        assert_eq!(stop_kinds(&s.stored(&run_id), &stop), [Void], "nothing but the gate is signed");
        let driven = s.resumed(&run_id);
        let ask = asked(&driven);
        assert_eq!((ask.occurrence, ask.gate.as_str()), (2, "SG_cut_authz"), "{dimension}");
        let backup = s.stored(&run_id).backup.unwrap();
        assert_ne!(backup.blob.name, first_backup.blob.name, "{dimension}");
        assert_eq!(ask.required["base_state_sha"], backup.base_state_sha.to_hex());
        assert_ne!(ask.required["nonce"], first.required["nonce"]);
        let request = s.world.document(&ask.request_path).unwrap();
        let request = String::from_utf8(request.bytes).unwrap();
        assert!(request.contains("changed before this request (stop 1)"), "the approver reads what changed");
        let Outcome::Paused { invalid, .. } = &driven.outcome else { unreachable!() };
        assert!(invalid.iter().any(|c| c.approval_kb_id == first.approval_path), "the first one is void");
        assert_eq!(s.rows_of("information_unit").len(), 0);
        assert_eq!(s.stored(&run_id).stops[0].resolved_by.as_deref(), Some("the next request"));
        if matches!(*dimension, "triggers" | "latest_version" | "function_iu_core_fn_more" | "grants") {
            continue; // see the tests of their own
        }
        s.sign(&ask, ReviewVerdict::Approve);
        let parked = asked(&s.resumed(&run_id));
        assert_eq!(parked.gate, GateId::LifecycleAuthz, "{dimension}: one signature was enough");
        s.finish(&run_id);
    }
}

#[test]
fn the_request_covers_exactly_the_values_observed() {
    let s = Scenario::new(140);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    s.world.alter_function(CREATE, "swapped");
    s.resumed(&run_id);
    s.world.alter_function(CREATE, "swapped once more");
    let driven = s.resumed(&run_id);
    let stop = stopped(&driven);
    assert_eq!((stop.n, stop.code.as_str()), (2, "STOP_DRIFT_function_iu_core_fn_iu_create"));
    assert_eq!(s.rows_of("information_unit").len(), 0);
    let ask = asked(&s.resumed(&run_id));
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn mended_before_it_is_taken_up_keeps_the_pins_and_the_answer() {
    let s = Scenario::new(141);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let pins = s.stored(&run_id).drift_pins;
    s.world.alter_function(CREATE, "swapped");
    s.resumed(&run_id);
    s.world.alter_function(CREATE, CREATE);
    let next = asked(&s.resumed(&run_id));
    assert_eq!((next.gate.as_str(), next.occurrence), ("SG_lifecycle_authz", 1), "nothing is asked again");
    let function = "function.iu_core.fn_iu_create";
    assert_eq!(s.stored(&run_id).drift_pins.0[function], pins.0[function]);
    s.sign(&next, ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn an_acknowledgement_for_another_drift_is_not_accepted() {
    let s = Scenario::new(142);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    // between leg A and leg B no gate follows: the word on the stop itself is asked for
    let plan = FaultPlan::one(Fault::on(Port::Database, "structural", FaultKind::DieBefore));
    let _ = s.resume(&s.process(plan).1, &run_id);
    s.world.alter_function(CREATE, "swapped");
    s.resumed(&run_id);
    let sidecar = s.stored(&run_id);
    let mut ask = cutter_core::driver::ask_for_stop(&sidecar, &sidecar.stops[0], DriftAck);
    ask.required.insert("observed_sha256".into(), Digest::of(b"other").to_hex());
    s.sign(&ask, ReviewVerdict::Approve);
    let before = s.rows();
    match s.resume_with(&run_id, &ask.approval_path) {
        Err(cutter_core::driver::DriveError::ApprovalInvalid { report, .. }) => {
            assert!(report.to_string().contains("approval.observed_sha256"), "{report}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(s.rows(), before);
    assert_eq!(s.stored(&run_id).state, "stopped_between_leg_a_and_leg_b");
    // nor does a plain word to resume do for drift
    let mut resume = ask.clone();
    resume.approval_type = "stop_resume".into();
    resume.approval_path = ask.approval_path.replace("drift-ack", "resume");
    s.sign(&resume, ReviewVerdict::Approve);
    assert_eq!(stopped(&s.resumed(&run_id)).n, 1);
}

#[test]
fn drift_that_is_refused_ends_the_run() {
    let s = Scenario::new(143);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.world.alter_function(CREATE, "swapped");
    s.sign(&ask, ReviewVerdict::Approve);
    s.resumed(&run_id);
    let again = asked(&s.resumed(&run_id));
    s.sign(&again, ReviewVerdict::Reject);
    assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_REFUSED");
    assert_eq!(s.rows_of("information_unit").len(), 0);
    s.assert_void_frees(&run_id);
}

#[test]
fn a_function_swapped_inside_each_writing_transaction_rolls_it_back() {
    use EffectName as E;
    for (i, effect) in [
        E::Mark,
        E::Sweep,
        E::Sg1Review,
        E::LegA,
        E::LegB,
        E::WriteVerify,
        E::Sg2Request,
        E::Sg2Review,
        E::Enact,
    ]
    .into_iter()
    .enumerate()
    {
        let s = Scenario::new(150 + i as u64);
        s.world.alter_function_inside(effect, CREATE, "swapped inside");
        let mut driven = s.cut(&s.ports()).unwrap();
        let mut before = s.rows();
        while s.sign_if_asked(&driven.outcome) {
            before = s.rows();
            driven = s.resumed(&driven.sidecar.run_id.clone());
        }
        let stop = stopped(&driven);
        let run_id = driven.sidecar.run_id.clone();
        let between = effect == E::LegB;
        let expected =
            if between { "STOP_BETWEEN_LEG_A_AND_LEG_B" } else { "STOP_DRIFT_function_iu_core_fn_iu_create" };
        assert_eq!(stop.code, expected, "{effect}: {stop:?}");
        assert!(
            stop.detail.iter().any(|d| d.starts_with("function.iu_core.fn_iu_create: expected")),
            "{stop:?}"
        );
        let committed =
            s.rows_of("run_effect").iter().filter(|r| r["key"]["effect"] == effect.as_str()).count();
        assert_eq!(committed, 0, "{effect}: rolled back");
        if effect == E::Sg1Review {
            assert_eq!(s.rows(), before, "{effect}: nothing is left of it");
        }
        s.assert_report_filed(&s.stored(&run_id), &stop);
        if between {
            s.answer_stop(&run_id, DriftAck, &[]);
        }
        s.finish(&run_id);
    }
}

#[test]
fn units_that_move_after_the_cut_are_found_before_the_enactment() {
    for (i, (dimension, damage)) in DAMAGES_WITH_UNITS.iter().enumerate() {
        let s = Scenario::new(170 + i as u64);
        let (run_id, ask) = s.parked(Gate::Lifecycle);
        s.sign(&ask, ReviewVerdict::Approve);
        damage(&s, &run_id);
        let before = s.rows();
        let driven = s.resumed(&run_id);
        s.assert_stopped(
            &driven,
            &code(dimension),
            "stopped_drift",
            Gate::Lifecycle.awaiting(),
            &["unit_rows: expected"],
        );
        assert_eq!(s.rows(), before);
        // asking again does not make it right: the approved set of units is not there
        let again = asked(&s.resumed(&run_id));
        assert_eq!((again.occurrence, again.gate.as_str()), (2, "SG_lifecycle_authz"));
        s.sign(&again, ReviewVerdict::Approve);
        let driven = s.resumed(&run_id);
        s.assert_failed(&driven, "lifecycle_enact_execute", Gate::Lifecycle.awaiting(), &["lifecycle_enact"]);
        assert_eq!(s.count("information_unit", "lifecycle_status", "enacted"), 0);
    }
}

#[test]
fn the_trigger_disabled_before_the_enactment() {
    for trigger in ["trg_iu_enacted_immut", "trg_uv_enacted_immut"] {
        let s = Scenario::new(180);
        let (run_id, ask) = s.parked(Gate::Lifecycle);
        s.sign(&ask, ReviewVerdict::Approve);
        s.world.alter_trigger(trigger, "D");
        let driven = s.resumed(&run_id);
        s.assert_stopped(
            &driven,
            "STOP_DRIFT_triggers",
            "stopped_drift",
            Gate::Lifecycle.awaiting(),
            &["triggers: expected"],
        );
        let again = asked(&s.resumed(&run_id));
        s.sign(&again, ReviewVerdict::Approve);
        // even so, the gate itself wants both enabled
        let driven = s.resumed(&run_id);
        s.assert_failed(
            &driven,
            "lifecycle_enact_execute",
            Gate::Lifecycle.awaiting(),
            &["expected O, observed D"],
        );
        assert_eq!(s.count("information_unit", "lifecycle_status", "enacted"), 0);
        s.world.alter_trigger(trigger, "O");
        s.assert_void_frees(&run_id);
    }
}

#[test]
fn the_replication_role_that_switches_triggers_off() {
    let s = Scenario::new(181);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    s.sign(&ask, ReviewVerdict::Approve);
    s.world.set_replication_role("replica");
    let driven = s.resumed(&run_id);
    s.assert_failed(
        &driven,
        "lifecycle_enact_execute",
        Gate::Lifecycle.awaiting(),
        &["expected origin, observed replica"],
    );
    assert_eq!(s.count("information_unit", "lifecycle_status", "enacted"), 0);
}

#[test]
fn the_backup_edited_or_gone_before_sg1_and_before_leg_a() {
    let damages: [fn(&Scenario, &RunId, &str); 2] = [
        |s, run, name| assert!(s.world.corrupt_backup(run, name)),
        |s, run, name| assert!(s.world.drop_backup(run, name)),
    ];
    for (i, damage) in damages.into_iter().enumerate() {
        // before the request: the run dies once the backup is recorded
        let s = Scenario::new(190 + i as u64);
        let plan = FaultPlan::one(Fault::on(Port::Database, "grants", FaultKind::DieBefore));
        let _ = s.cut(&s.process(plan).1);
        let run_id = s.world.runs()[0].clone();
        let name = s.stored(&run_id).backup.unwrap().blob.name;
        damage(&s, &run_id, &name);
        let before = s.rows();
        let driven = s.resumed(&run_id);
        s.assert_stopped(
            &driven,
            "STOP_DRIFT_backup",
            "stopped_drift",
            "grants_probed",
            &["backup: expected"],
        );
        assert_eq!(s.rows(), before);
        // no word makes it right: it is looked at again
        s.answer_stop(&run_id, Resume, &[]);
        let again = stopped(&s.resumed(&run_id));
        assert_eq!((again.n, again.code.as_str()), (2, "STOP_DRIFT_backup"));
        s.assert_void_frees(&run_id);

        // before leg A: approved on a backup that is another one now
        let s = Scenario::new(195 + i as u64);
        let (run_id, ask) = s.parked(Gate::Cut);
        s.sign(&ask, ReviewVerdict::Approve);
        let name = s.stored(&run_id).backup.unwrap().blob.name;
        damage(&s, &run_id, &name);
        let before = s.rows();
        let driven = s.resumed(&run_id);
        s.assert_stopped(
            &driven,
            "STOP_DRIFT_backup",
            "stopped_drift",
            Gate::Cut.awaiting(),
            &["backup: expected"],
        );
        assert_eq!(s.rows(), before);
        if i == 0 {
            s.world.corrupt_backup(&run_id, &name); // the same bit again: mended
            s.answer_stop(&run_id, Resume, &[]);
            s.finish(&run_id);
        } else {
            s.assert_void_frees(&run_id);
        }
    }
}

#[test]
fn a_base_state_that_moved_since_the_backup() {
    // a row of the document's closure that no survey looks at
    let s = Scenario::new(200);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    assert!(s.world.retitle("ICX-CHARTER", "Another title"));
    let before = s.rows();
    let driven = s.resumed(&run_id);
    let says = ["base_state: expected", ask.required["base_state_sha"].as_str()];
    s.assert_stopped(&driven, "STOP_DRIFT_base_state", "stopped_drift", Gate::Cut.awaiting(), &says);
    assert_eq!(s.rows_of("information_unit").len(), 0);
    assert_eq!(s.rows_of("cut_change_set").len(), 0);
    assert_ne!(s.rows(), before, "the decision is stored (S2), the cut is not");
    let again = asked(&s.resumed(&run_id));
    assert_eq!(again.occurrence, 2);
    assert_ne!(again.required["base_state_sha"], ask.required["base_state_sha"]);
    s.sign(&again, ReviewVerdict::Approve);
    s.finish(&run_id);
    let history = s.rows_of("decision_backlog_history");
    let states: Vec<&str> = history.iter().map(|h| h["to_state"].as_str().unwrap()).collect();
    let cut = ["review_pending", "reviewed_approved", "cut_in_progress", "cut_applied"];
    assert!(states.windows(4).any(|w| w == cut), "approved once, and asked again: {states:?}");
}

#[test]
fn an_effect_that_a_restored_database_lacks() {
    use EffectName as E;
    for (i, effect) in [E::Mark, E::LegA, E::WriteVerify, E::Sg1Review].into_iter().enumerate() {
        let s = Scenario::new(210 + i as u64);
        let (run_id, ask) = s.parked(Gate::Lifecycle);
        s.sign(&ask, ReviewVerdict::Approve);
        assert!(s.world.drop_effect(&EffectKey { run_id: run_id.clone(), effect, occurrence: 1 }));
        let before = s.rows();
        let driven = s.resumed(&run_id);
        let says = [format!("effect: expected {effect} committed, observed absent")];
        let says: Vec<&str> = says.iter().map(String::as_str).collect();
        s.assert_stopped(&driven, "STOP_DRIFT_effect", "stopped_drift", Gate::Lifecycle.awaiting(), &says);
        assert_eq!(s.rows(), before, "nothing is redone over it");
        s.answer_stop(&run_id, Resume, &[]);
        let again = s.resumed(&run_id);
        assert_eq!((stopped(&again).n, stopped(&again).code.as_str()), (2, "STOP_DRIFT_effect"));
        assert_eq!(s.count("information_unit", "lifecycle_status", "enacted"), 0);
    }
}

#[test]
fn between_leg_a_and_leg_b_drift_leaves_both_ways_open() {
    for (seed, complete) in [(220, true), (221, false)] {
        let s = Scenario::new(seed);
        let (run_id, ask) = s.parked(Gate::Cut);
        s.sign(&ask, ReviewVerdict::Approve);
        let plan = FaultPlan::one(Fault::on(Port::Database, "structural", FaultKind::DieBefore));
        let _ = s.resume(&s.process(plan).1, &run_id);
        assert_eq!(s.stored(&run_id).state, "cut_leg_a_committed");
        s.world.alter_function(CREATE, "swapped");
        let before = s.rows();
        let driven = s.resumed(&run_id);
        let change_set = s.stored(&run_id).context_pins["change_set_id"].clone();
        let says = ["STOP_DRIFT_function_iu_core_fn_iu_create", "change_set_id", change_set.as_str()];
        let state = "stopped_between_leg_a_and_leg_b";
        s.assert_stopped(&driven, "STOP_BETWEEN_LEG_A_AND_LEG_B", state, "cut_leg_a_committed", &says);
        assert_eq!(s.rows(), before);
        assert_eq!(stopped(&s.resumed(&run_id)).n, 1, "no plain resume");
        if complete {
            s.answer_stop(&run_id, DriftAck, &[]);
            let ask = asked(&s.resumed(&run_id));
            assert_eq!((ask.gate.as_str(), ask.occurrence), ("SG_lifecycle_authz", 1), "leg B is completed");
            s.sign(&ask, ReviewVerdict::Approve);
            s.finish(&run_id);
        } else {
            s.assert_void_frees(&run_id);
        }
    }
}

#[test]
fn drift_beside_a_leg_a_that_committed_unrecorded_does_not_ask_again() {
    // leg A commits, the process dies, the world moves: acknowledged, the run goes on to leg B
    let s = Scenario::new(230);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let plan = FaultPlan::one(Fault::on(Port::Database, "finish leg_a", FaultKind::DieAfter));
    let _ = s.resume(&s.process(plan).1, &run_id);
    s.world.alter_function(CREATE, "swapped");
    let driven = s.resumed(&run_id);
    assert_eq!(stopped(&driven).code, "STOP_DRIFT_function_iu_core_fn_iu_create");
    let ask = asked(&s.resumed(&run_id));
    assert_eq!((ask.gate.as_str(), ask.occurrence), ("SG_lifecycle_authz", 1));
    assert_eq!(s.rows_of("cut_change_set").len(), 1);
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn drift_beside_a_leg_a_that_committed_unrecorded_can_be_voided() {
    let s = Scenario::new(231);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let plan = FaultPlan::one(Fault::on(Port::Database, "finish leg_a", FaultKind::DieAfter));
    let _ = s.resume(&s.process(plan).1, &run_id);
    s.world.alter_function(CREATE, "swapped");
    s.resumed(&run_id);
    s.assert_void_frees(&run_id);
    assert_eq!(s.rows_of("change_set_void").len(), 1);
}
