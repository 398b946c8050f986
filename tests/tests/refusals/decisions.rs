//! Refusals by the sovereign, voids, replays, claims and dry runs: what ends a run, and what may
//! follow it.

use cutter_core::base::id::RunId;
use cutter_core::driver::{DriveError, Outcome, stop_kinds};
use cutter_core::machine::run::GateId;
use cutter_core::port::Port;
use cutter_core::record::approval::Ask;
use cutter_core::record::effect::{EffectKey, EffectName, ReviewVerdict};
use cutter_core::record::sidecar::Mode;
use cutter_core::report::naming::EscalationKind::{self, Resume, Void};
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan};
use cutter_tests::attack::edited;
use cutter_tests::refusal::{Gate, asked, failed, stopped};
use cutter_tests::{Scenario, TEXT};

fn status(s: &Scenario) -> String {
    s.rows_of("decision_backlog_entry")[0]["status"].as_str().unwrap().to_owned()
}

/// Whether a request has these words.
fn tells(s: &Scenario, ask: &Ask, words: &str) -> bool {
    let request = s.world.document(&ask.request_path).unwrap();
    String::from_utf8(request.bytes).unwrap().contains(words)
}

#[test]
fn a_rejection_at_sg1_is_final_and_leaves_only_the_void() {
    let s = Scenario::new(500);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Reject);
    let driven = s.resumed(&run_id);
    s.assert_stopped(&driven, "STOP_REFUSED", "stopped_refused", Gate::Cut.awaiting(), &["reject by ada"]);
    assert_eq!(status(&s), "reviewed_rejected", "S4");
    assert_eq!(s.rows_of("approval").len(), 1, "the decision is stored");
    assert_eq!(s.rows_of("information_unit").len(), 0);
    let sidecar = s.stored(&run_id);
    assert_eq!(stop_kinds(&sidecar, &sidecar.stops[0]), [Void]);
    // neither a plain resume nor a word to resume opens it again
    let before = s.rows();
    s.answer_stop(&run_id, Resume, &[]);
    assert_eq!(stopped(&s.resumed(&run_id)).n, 1);
    assert_eq!(s.rows(), before);
    s.assert_void_frees(&run_id);
}

#[test]
fn a_deferral_at_sg1_is_swept_and_asked_again() {
    let s = Scenario::new(501);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Defer);
    let driven = s.resumed(&run_id);
    s.assert_stopped(&driven, "STOP_REFUSED", "stopped_refused", Gate::Cut.awaiting(), &["defer by ada"]);
    assert_eq!(status(&s), "reviewed_deferred", "S3");
    assert_eq!(stopped(&s.resumed(&run_id)).n, 1, "no plain resume");
    s.answer_stop(&run_id, Resume, &[]);
    let again = asked(&s.resumed(&run_id));
    assert_eq!(again.occurrence, 2);
    assert!(tells(&s, &again, "changed before this request (stop 1): defer by ada"));
    assert_eq!(status(&s), "review_pending", "S3 -> S1, by a sweep");
    assert_eq!(s.rows_of("decision_backlog_sweep_log").len(), 2);
    // deferred once more, then approved: the third occurrence
    s.sign(&again, ReviewVerdict::Defer);
    assert_eq!(stopped(&s.resumed(&run_id)).n, 2);
    s.answer_stop(&run_id, Resume, &[]);
    let third = asked(&s.resumed(&run_id));
    assert_eq!(third.occurrence, 3);
    assert!(third.request_path.contains("request-3-"));
    s.sign(&third, ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn a_deferral_can_be_voided() {
    let s = Scenario::new(502);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Defer);
    s.resumed(&run_id);
    s.assert_void_frees(&run_id);
}

#[test]
fn a_refusal_at_sg2_enacts_nothing() {
    for (seed, verdict) in [(503, ReviewVerdict::Reject), (504, ReviewVerdict::Defer)] {
        let s = Scenario::new(seed);
        let (run_id, ask) = s.parked(Gate::Lifecycle);
        s.sign(&ask, verdict);
        let driven = s.resumed(&run_id);
        let says = format!("{} by ada", verdict.as_str());
        s.assert_stopped(&driven, "STOP_REFUSED", "stopped_refused", Gate::Lifecycle.awaiting(), &[&says]);
        assert_eq!(s.count("information_unit", "lifecycle_status", "draft"), 7);
        assert_eq!(status(&s), "verified_complete", "the entry was verified, and stays so");
        if verdict == ReviewVerdict::Defer {
            s.answer_stop(&run_id, Resume, &[]);
            let again = asked(&s.resumed(&run_id));
            assert_eq!((again.gate.as_str(), again.occurrence), ("SG_lifecycle_authz", 2));
            assert!(tells(&s, &again, "changed before this request (stop 1): defer by ada"));
            assert_ne!(again.required["review_decision_id"], ask.required["review_decision_id"]);
            s.sign(&again, ReviewVerdict::Approve);
            s.finish(&run_id);
        } else {
            s.assert_void_frees(&run_id);
        }
    }
}

#[test]
fn a_refusal_that_died_before_its_stop_is_carried_out_by_resume() {
    for (seed, kind) in [(505, FaultKind::DieBefore), (506, FaultKind::DieAfter)] {
        let s = Scenario::new(seed);
        let (run_id, ask) = s.parked(Gate::Cut);
        s.sign(&ask, ReviewVerdict::Defer);
        let plan = FaultPlan::one(Fault::on(Port::Database, "finish sg1_review", kind));
        let _ = s.resume(&s.process(plan).1, &run_id);
        if kind == FaultKind::DieAfter {
            s.world.file(&ask.approval_path, b"edited later\n");
        }
        let driven = s.resumed(&run_id);
        assert_eq!(stopped(&driven).code, "STOP_REFUSED");
        assert_eq!(s.rows_of("approval").len(), 1);
        s.answer_stop(&run_id, Resume, &[]);
        s.finish(&run_id);
    }
}

#[test]
fn a_run_is_voided_from_every_stage_before_enactment() {
    type Reach = fn(&Scenario) -> cutter_core::base::id::RunId;
    fn dying(s: &Scenario, port: Port, op: &str) -> cutter_core::base::id::RunId {
        let _ = s.cut(&s.process(FaultPlan::one(Fault::on(port, op, FaultKind::DieBefore))).1);
        s.world.runs()[0].clone()
    }
    fn later(s: &Scenario, op: &str) -> cutter_core::base::id::RunId {
        let (run_id, ask) = s.parked(Gate::Cut);
        s.sign(&ask, ReviewVerdict::Approve);
        let plan = FaultPlan::one(Fault::on(Port::Database, op, FaultKind::DieAfter));
        let _ = s.resume(&s.process(plan).1, &run_id);
        run_id
    }
    let reaches: [Reach; 12] = [
        |s| dying(s, Port::Database, "source"),
        |s| dying(s, Port::Database, "begin mark"),
        |s| dying(s, Port::Database, "finish sweep"),
        |s| dying(s, Port::BackupSource, "open"),
        |s| dying(s, Port::Database, "grants"),
        |s| s.parked(Gate::Cut).0,
        |s| later(s, "finish sg1_review"),
        |s| later(s, "finish leg_a"),
        |s| later(s, "structural"),
        |s| later(s, "finish leg_b"),
        |s| later(s, "finish write_verify"),
        |s| s.parked(Gate::Lifecycle).0,
    ];
    for (i, reach) in reaches.into_iter().enumerate() {
        let s = Scenario::new(510 + i as u64);
        let run_id = reach(&s);
        let units = s.rows_of("information_unit").len();
        s.assert_void_frees(&run_id);
        assert_eq!(s.count("information_unit", "run_id", run_id.as_str()), units, "nothing is deleted");
        assert_eq!(s.rows_of("change_set_void").len(), usize::from(units > 0));
    }
}

#[test]
fn enacted_units_are_never_voided() {
    let s = Scenario::new(530);
    let done = s.whole_run().unwrap();
    let run_id = done.sidecar.run_id.clone();
    let before = s.world.snapshot();
    let error = s.void(&run_id).unwrap_err();
    assert!(error.to_string().contains("illegal run transition closeout_reported->voided_"), "{error}");
    assert_eq!(s.world.snapshot(), before);

    // enacted in the database, not yet in the sidecar: the transaction itself refuses
    let s = Scenario::new(531);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    s.sign(&ask, ReviewVerdict::Approve);
    let plan = FaultPlan::one(Fault::on(Port::Database, "finish enact", FaultKind::DieAfter));
    let _ = s.resume(&s.process(plan).1, &run_id);
    let before = s.world.snapshot();
    let error = s.void(&run_id).unwrap_err();
    assert!(error.to_string().contains("void.nothing_enacted: expected no enacted unit"), "{error}");
    assert_eq!(s.world.snapshot(), before);
    // stopped first, by name: the word to void is never stored, the word to resume is
    s.stop(&run_id, "hold").unwrap();
    s.answer_stop(&run_id, Void, &[("reason", "too late")]);
    let before = s.world.snapshot();
    assert!(matches!(s.void(&run_id).unwrap_err(), DriveError::NotNow(_)));
    assert_eq!(s.world.snapshot(), before);
    s.answer_stop(&run_id, Resume, &[]);
    s.finish(&run_id);
}

#[test]
fn a_void_without_a_word_or_with_a_bad_one_voids_nothing() {
    let s = Scenario::new(532);
    let (run_id, _) = s.parked(Gate::Lifecycle);
    let rows = s.rows();
    let driven = s.void(&run_id).unwrap();
    let ask = asked(&driven);
    assert_eq!(ask.approval_type, "void");
    assert!(ask.approval_path.contains("SG3-void-approval-1-"));
    assert_eq!(s.stored(&run_id).state, "stopped_void_requested");
    // an answer to resume is no answer to void; a refusal of the void neither
    s.answer_stop(&run_id, Resume, &[]);
    assert!(matches!(s.void(&run_id).unwrap().outcome, Outcome::Paused { .. }));
    s.answer_stop_with(&run_id, Void, ReviewVerdict::Reject, &[]);
    assert_eq!(stopped(&s.void(&run_id).unwrap()).n, 1);
    assert_eq!(s.rows(), rows, "nothing is voided");
    // and the word to resume still counts
    let driven = s.resumed(&run_id);
    assert_eq!(asked(&driven).gate, GateId::LifecycleAuthz);
    s.sign(&asked(&driven), ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn a_void_word_of_an_earlier_stop_does_not_void_a_later_one() {
    let s = Scenario::new(533);
    let (run_id, _) = s.parked(Gate::Cut);
    s.stop(&run_id, "hold").unwrap();
    let old = s.answer_stop(&run_id, Void, &[]);
    s.answer_stop(&run_id, Resume, &[]);
    s.resumed(&run_id);
    s.stop(&run_id, "hold").unwrap();
    let rows = s.rows();
    let driven = s.void(&run_id).unwrap();
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert!(invalid.iter().any(|c| c.approval_kb_id == old.approval_path), "{invalid:?}");
    assert_eq!(s.rows(), rows);
    s.assert_void_frees(&run_id);
}

#[test]
fn a_stop_that_was_answered_and_stored_but_not_recorded_cannot_be_voided_behind_it() {
    let s = Scenario::new(534);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.stop(&run_id, "hold").unwrap();
    s.answer_stop(&run_id, Resume, &[]);
    let plan = FaultPlan::one(Fault::on(Port::Database, "finish sg3_review", FaultKind::DieAfter));
    let _ = s.resume(&s.process(plan).1, &run_id);
    s.answer_stop(&run_id, Void, &[]);
    let error = s.void(&run_id).unwrap_err();
    assert!(
        matches!(&error, DriveError::NotNow(text) if text.contains("another stored answer")),
        "{error:?}"
    );
    let driven = s.resumed(&run_id);
    assert_eq!(asked(&driven), ask);
    s.assert_void_frees(&run_id);
}

#[test]
fn a_second_run_for_the_document_is_a_replay_conflict_whatever_the_first_does() {
    let s = Scenario::new(540);
    let (first, ask) = s.parked(Gate::Cut);
    let conflict = |s: &Scenario, state: &str| {
        s.world.reseed(s.world.paths().len() as u64 + 5_000);
        let (before, runs) = (s.world.snapshot(), s.world.runs().len());
        match s.cut(&s.ports()) {
            Err(DriveError::ReplayConflict { document_id, run_id, state: held }) => {
                assert_eq!((document_id.as_str(), &run_id, held.as_str()), ("ICX-CHARTER", &first, state));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(s.world.snapshot(), before);
        assert_eq!(s.world.runs().len(), runs, "no run is created");
    };
    conflict(&s, "awaiting_cut_authorization");
    s.stop(&first, "hold").unwrap();
    conflict(&s, "stopped_hold");
    s.answer_stop(&first, Resume, &[]);
    s.sign(&ask, ReviewVerdict::Approve);
    s.resumed(&first);
    conflict(&s, "awaiting_lifecycle_authorization");
}

#[test]
fn a_replay_of_a_finished_run_does_nothing_and_says_so() {
    let s = Scenario::new(541);
    let done = s.whole_run().unwrap();
    s.world.reseed(542);
    s.world.advance(61_000);
    let before = s.world.snapshot();
    for _ in 0..2 {
        let driven = s.cut(&s.ports()).unwrap();
        assert_eq!(driven.outcome, Outcome::ReplayedFrom(done.sidecar.run_id.clone()));
        assert_eq!(driven.sidecar.run_id, done.sidecar.run_id);
    }
    assert_eq!(s.world.snapshot(), before);
    assert_eq!(s.world.runs().len(), 1);
    // resume of it is a no-op too
    let revision = s.stored(&done.sidecar.run_id).revision;
    assert_eq!(s.resumed(&done.sidecar.run_id).outcome, Outcome::Completed);
    assert_eq!(s.stored(&done.sidecar.run_id).revision, revision);
    assert_eq!(s.world.snapshot(), before);
}

#[test]
fn a_finished_run_whose_layers_disagree_is_a_conflict() {
    let effect = |s: &Scenario, run_id: &RunId| {
        let key = EffectKey { run_id: run_id.clone(), effect: EffectName::Enact, occurrence: 1 };
        s.world.drop_effect(&key);
    };
    let decision = |s: &Scenario, run_id: &RunId| {
        let record = edited(&s.world.sidecar(run_id).unwrap().bytes, |record| {
            let approvals = record["sovereign_approvals"].as_array_mut().unwrap();
            approvals.retain(|a| a["gate"] != "SG_lifecycle_authz");
        });
        assert!(s.world.corrupt_sidecar(run_id, &record));
    };
    for damage in [&effect as &dyn Fn(&Scenario, &RunId), &decision] {
        let s = Scenario::new(543);
        let run_id = s.whole_run().unwrap().sidecar.run_id.clone();
        damage(&s, &run_id);
        let before = s.world.snapshot();
        match s.cut(&s.ports()) {
            Err(DriveError::ReplayConflict { run_id: held, state, .. }) => {
                assert_eq!(held, run_id);
                assert!(state.contains("the database does not hold"), "{state}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(s.world.snapshot(), before);
    }
}

#[test]
fn a_new_version_of_a_finished_document_is_cut_beside_the_old_one() {
    let s = Scenario::new(544);
    let first = s.whole_run().unwrap().sidecar.run_id.clone();
    s.world.reseed(545);
    s.world.advance(61_000);
    s.register(&TEXT.replace("Everyone may speak.", "Everyone may speak and write."));
    let driven = s.cut(&s.ports()).unwrap();
    let second = driven.sidecar.run_id.clone();
    let request = s.world.document(&asked(&driven).request_path).unwrap();
    let request = String::from_utf8(request.bytes).unwrap();
    assert!(request.contains("art-1"), "the diff against the version before is shown:\n{request}");
    s.finish_from(&driven);
    s.assert_complete(&first);
    s.assert_complete(&second);
    let enacted = |run: &str| {
        let rows = s.rows_of("information_unit");
        rows.iter().filter(|r| r["run_id"] == run && r["lifecycle_status"] == "enacted").count()
    };
    assert_eq!((enacted(first.as_str()), enacted(second.as_str())), (7, 7), "both versions are stored");
    assert_ne!(s.stored(&first).kb_folder, s.stored(&second).kb_folder);
}

#[test]
fn a_re_cut_after_a_void_has_the_same_digests_and_a_folder_of_its_own() {
    let s = Scenario::new(546);
    let (first, _) = s.parked(Gate::Lifecycle);
    s.assert_void_frees(&first);
    let second = s.world.runs().into_iter().find(|r| *r != first).unwrap();
    let (a, b) = (s.stored(&first), s.stored(&second));
    for pin in ["manifest_digest", "region_sha", "writer_digest", "unit_set_digest", "profile_digest"] {
        assert_eq!(a.context_pins[pin], b.context_pins[pin], "{pin}");
    }
    assert_ne!(a.context_pins["base_state_sha"], b.context_pins["base_state_sha"], "voided rows are history");
    assert_eq!(s.rows_of("information_unit").len(), 14);
}

#[test]
fn the_folder_takes_a_suffix_when_the_days_is_taken() {
    let s = Scenario::new(547);
    let mut folders = Vec::new();
    for round in 0..3u64 {
        s.world.reseed(600 + round);
        let (run_id, _) = s.parked(Gate::Cut);
        folders.push(s.stored(&run_id).kb_folder.unwrap());
        s.void_signed(&run_id);
        s.world.advance(if round == 0 { 120_000 } else { 10_000 });
    }
    let base = &folders[0];
    assert!(base.ends_with("automation-cut-20260102"), "{base}");
    assert_eq!(folders[1], format!("{base}-0306"), "the second takes the minute");
    assert_eq!(folders[2], format!("{base}-030615"), "the third takes the second");
    for run_id in s.world.runs() {
        s.assert_documents_are_their_own(&run_id);
    }
}

#[test]
fn a_pending_run_without_a_claim_claims_or_is_swept() {
    // died between the pending sidecar and the claim: resume claims
    let s = Scenario::new(550);
    let plan = FaultPlan::one(Fault::on(Port::RunStore, "put_claim", FaultKind::DieBefore));
    assert!(s.cut(&s.process(plan).1).is_err());
    let first = s.world.runs()[0].clone();
    assert_eq!(s.stored(&first).state, "pending");
    s.finish(&first);

    // another run claimed meanwhile: swept, with its record kept
    let s = Scenario::new(551);
    let plan = FaultPlan::one(Fault::on(Port::RunStore, "put_claim", FaultKind::DieBefore));
    assert!(s.cut(&s.process(plan).1).is_err());
    let first = s.world.runs()[0].clone();
    s.world.reseed(552);
    s.world.advance(61_000);
    let (second, ask) = s.parked(Gate::Cut);
    let rows = s.rows();
    assert_eq!(s.resumed(&first).outcome, Outcome::Voided);
    assert_eq!(s.stored(&first).state, "voided_unclaimed");
    assert_eq!(s.rows(), rows);
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&second);
}

#[test]
fn a_dry_run_writes_nothing_outside_its_folder() {
    let s = Scenario::new(560);
    let before = s.world.snapshot();
    let driven = s.cut_mode(&s.ports(), Mode::Dryrun).unwrap();
    assert_eq!(driven.outcome, Outcome::DryRunDone);
    let run_id = driven.sidecar.run_id.clone();
    assert_eq!(s.stored(&run_id).state, "grants_probed", "it ends before the first gate");
    assert_eq!(s.world.snapshot(), before, "no claim, no row, no document");
    for phase in 1..=5 {
        let mirrored =
            s.world.mirrored(&run_id, &format!("phase-{phase:02}.md")).expect("its report is in its folder");
        assert!(String::from_utf8(mirrored).unwrap().contains("PASS"));
    }
    let stored = s.stored(&run_id);
    assert!(stored.ask.is_none() && stored.outbox.is_none(), "nothing is asked, nothing is owed");
    assert_eq!(stored.documents.len(), 0, "nothing is filed");
    let revision = stored.revision;
    assert_eq!(s.resumed(&run_id).outcome, Outcome::DryRunDone);
    assert_eq!(s.stored(&run_id).revision, revision, "resume is a no-op");
    let error = s.void(&run_id).unwrap_err();
    assert!(error.to_string().contains("nothing to void"), "{error}");
    assert_eq!(s.world.snapshot(), before);
    // it holds nothing: a live run goes through
    s.world.reseed(561);
    s.world.advance(61_000);
    let live = s.whole_run().unwrap();
    assert_eq!(live.outcome, Outcome::Completed);
    for pin in ["manifest_digest", "writer_digest"] {
        assert_eq!(s.stored(&run_id).context_pins[pin], live.sidecar.context_pins[pin], "{pin}");
    }
}

#[test]
fn a_dry_run_that_fails_files_nothing() {
    let mut s = Scenario::new(562);
    s.settings.max_candidates = 1;
    let before = s.world.snapshot();
    let driven = s.cut_mode(&s.ports(), Mode::Dryrun).unwrap();
    assert_eq!(failed(&driven).code, "failed_mark");
    assert_eq!(s.world.snapshot(), before);
    assert_eq!(failed(&s.resumed(&driven.sidecar.run_id)).n, 1);
}

#[test]
fn an_escalation_answer_by_the_runs_creator_or_unsigned_does_nothing() {
    let s = Scenario::new(563);
    s.change_policy(vec![s.world.approver_with("op", &s.world.operator())]);
    let (run_id, _) = s.parked(Gate::Cut);
    s.stop(&run_id, "hold").unwrap();
    let sidecar = s.stored(&run_id);
    for kind in [EscalationKind::Resume, EscalationKind::Void] {
        let ask = cutter_core::driver::ask_for_stop(&sidecar, &sidecar.stops[0], kind);
        let text = cutter_core::record::approval::render_approval(
            &ask,
            ReviewVerdict::Approve,
            "op",
            s.world.now(),
            None,
            &std::collections::BTreeMap::new(),
        );
        s.world.file(&ask.approval_path, s.world.sign(&s.world.operator(), &text).as_bytes());
        let unsigned = ask.approval_path.replace(".md", "-unsigned.md");
        s.world.file(&unsigned, s.answer(&ask, ReviewVerdict::Approve).as_bytes());
    }
    let rows = s.rows();
    assert_eq!(stopped(&s.resumed(&run_id)).n, 1);
    let driven = s.void(&run_id).unwrap();
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    let broken: Vec<&str> = invalid.iter().map(|c| c.invariant.as_str()).collect();
    assert!(broken.contains(&"approval.not_creator") && broken.contains(&"approval.signature"), "{broken:?}");
    assert_eq!(s.rows(), rows);
    assert_eq!(s.stored(&run_id).state, "stopped_hold");
    s.assert_void_frees(&run_id);
}
