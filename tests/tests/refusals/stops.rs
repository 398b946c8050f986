//! Stops: infrastructure trouble that a plain resume gets over, stops in a person's name, caps,
//! panics; and commands that a run refuses because of where it stands.

use cutter_core::port::Port;
use std::time::Duration;

use cutter_core::base::id::RunId;
use cutter_core::driver::{self, DriveError, Outcome};
use cutter_core::port::PortErrorKind as Kind;
use cutter_core::port::run_store::LockHolder;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::report::naming::EscalationKind::Resume;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, When, block_on};
use cutter_tests::refusal::{Gate, asked, stopped};
use cutter_tests::{Scenario, caller};

fn failing(port: Port, op: &str, kind: Kind, nth: u64, times: u64) -> FaultPlan {
    let when = When::Operation { port, op: op.into(), nth };
    FaultPlan::one(Fault { when, kind: FaultKind::Fail { kind, times } })
}

#[test]
fn the_knowledge_base_down_three_retries_then_stop_and_a_plain_resume() {
    let s = Scenario::new(400);
    let (process, ports) = s.process(failing(Port::KnowledgeBase, "create", Kind::Unavailable, 3, 4));
    let started = s.world.now();
    let driven = s.cut(&ports).unwrap();
    let says = ["03-cutplan-", "after 4 attempts", "max_attempts_exhausted"];
    s.assert_stopped(&driven, "STOP_KB_UPLOAD", "stopped_kb_upload", "marked", &says);
    let retries: Vec<u64> = process
        .progress()
        .iter()
        .filter_map(|p| match p {
            cutter_core::port::environment::Progress::UploadRetry { delay_ms, .. } => Some(*delay_ms),
            _ => None,
        })
        .collect();
    assert_eq!(retries.len(), 3, "three retries");
    assert!(retries.iter().all(|d| *d <= 30_000) && retries.windows(2).all(|w| w[0] < w[1]), "{retries:?}");
    let waited = s.world.now().duration_since(started).as_millis();
    assert_eq!(waited, i128::from(retries.iter().sum::<u64>()));
    s.finish(&driven.sidecar.run_id);
}

#[test]
fn the_knowledge_base_down_for_good_is_one_stop_however_often_resumed() {
    let s = Scenario::new(401);
    let driven =
        s.cut(&s.process(failing(Port::KnowledgeBase, "create", Kind::Unavailable, 2, 99)).1).unwrap();
    let run_id = driven.sidecar.run_id.clone();
    let stop = stopped(&driven);
    assert_eq!((stop.code.as_str(), stop.uploaded), ("STOP_KB_UPLOAD", None), "the report is owed too");
    let revision = s.stored(&run_id).revision;
    for _ in 0..30 {
        let plan = failing(Port::KnowledgeBase, "create", Kind::Unavailable, 1, 99);
        let again = s.resume(&s.process(plan).1, &run_id).unwrap();
        assert_eq!(stopped(&again), stop);
        assert_eq!(*again.sidecar, s.stored(&run_id), "what is returned is what is stored");
    }
    assert_eq!(s.stored(&run_id).revision, revision, "a loop of resumes does not grow the sidecar");
    // the store is back: the owed report is filed before anything else
    let driven = s.resumed(&run_id);
    asked(&driven);
    let sidecar = s.stored(&run_id);
    s.assert_report_filed_at_stop(&sidecar, 0);
    s.finish(&run_id);
}

#[test]
fn an_upload_that_was_lost_after_its_work_is_done_once() {
    let s = Scenario::new(402);
    let when = When::Operation { port: Port::KnowledgeBase, op: "create".into(), nth: 2 };
    let plan = FaultPlan::one(Fault { when, kind: FaultKind::UnknownDone });
    let driven = s.cut(&s.process(plan).1).unwrap();
    asked(&driven);
    assert!(
        s.stored(&driven.sidecar.run_id).stops.is_empty(),
        "already there with the same digest is success"
    );
    s.finish_from(&driven);
}

#[test]
fn another_document_under_the_name_is_a_conflict_until_it_gives_way() {
    let s = Scenario::new(403);
    let (run_id, ask) = s.parked(Gate::Cut);
    let folder = s.stored(&run_id).kb_folder.unwrap();
    let path = format!("{folder}/07-structural-verify-2026-01-02.md");
    s.world.file(&path, b"# Not ours\n");
    s.sign(&ask, ReviewVerdict::Approve);
    let driven = s.resumed(&run_id);
    let says = [path.as_str(), "expected sha256", "observed", "cutter kb restore"];
    s.assert_stopped(&driven, "STOP_KB_CONFLICT", "stopped_kb_conflict", "cut_leg_a_committed", &says);
    assert_eq!(stopped(&s.resumed(&run_id)).n, 1);
    s.put_back(&run_id);
    s.finish(&run_id);
}

#[test]
fn the_database_away_at_each_kind_of_call() {
    for (i, op) in [
        "take_fence",
        "survey",
        "source",
        "source_text",
        "begin mark",
        "finish sweep",
        "vocabulary",
        "grants",
    ]
    .into_iter()
    .enumerate()
    {
        let s = Scenario::new(410 + i as u64);
        let driven = s.cut(&s.process(failing(Port::Database, op, Kind::Unavailable, 1, 1)).1).unwrap();
        let stop = stopped(&driven);
        assert_eq!(stop.code, "STOP_DATABASE_UNAVAILABLE", "{op}: {stop:?}");
        assert_eq!(s.stored(&driven.sidecar.run_id).state, "stopped_database_unavailable");
        assert!(stop.detail[0].contains(op), "{stop:?}");
        s.assert_report_filed(&s.stored(&driven.sidecar.run_id), &stop);
        s.finish(&driven.sidecar.run_id);
    }
}

#[test]
fn a_deadlock_is_tried_again_under_the_same_ids() {
    let s = Scenario::new(420);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let driven =
        s.resume(&s.process(failing(Port::Database, "begin leg_a", Kind::Busy, 1, 3)).1, &run_id).unwrap();
    asked(&driven);
    assert!(s.stored(&run_id).stops.is_empty());
    assert_eq!(s.rows_of("cut_change_set").len(), 1);
    // and given up after four
    let s = Scenario::new(421);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let driven =
        s.resume(&s.process(failing(Port::Database, "begin leg_a", Kind::Busy, 1, 9)).1, &run_id).unwrap();
    s.assert_stopped(
        &driven,
        "STOP_DATABASE_UNAVAILABLE",
        "stopped_database_unavailable",
        Gate::Cut.awaiting(),
        &["begin leg_a"],
    );
    s.finish(&run_id);
}

#[test]
fn the_backup_target_away() {
    let s = Scenario::new(422);
    s.world.set_backup_reachable(false);
    let driven = s.cut(&s.ports()).unwrap();
    s.assert_stopped(
        &driven,
        "STOP_BACKUP_UNAVAILABLE",
        "stopped_backup_unavailable",
        "cutplan_ok",
        &["backup target"],
    );
    assert_eq!(stopped(&s.resumed(&driven.sidecar.run_id)).n, 1);
    s.world.set_backup_reachable(true);
    s.finish(&driven.sidecar.run_id);
}

#[test]
fn a_full_disk_under_the_backup() {
    let s = Scenario::new(423);
    let driven = s.cut(&s.process(failing(Port::BackupTarget, "finish", Kind::Full, 1, 1)).1).unwrap();
    s.assert_stopped(&driven, "STOP_DISK_FULL", "stopped_disk_full", "cutplan_ok", &["backup_target"]);
    s.finish(&driven.sidecar.run_id);
}

/// Every publication of a run up to SG1 meets a full disk, once.
#[test]
fn a_full_disk_at_each_write_of_the_sidecar_once() {
    let mut nth = 1;
    loop {
        let s = Scenario::new(424);
        let outcome = s.cut(&s.process(failing(Port::RunStore, "publish", Kind::Full, nth, 1)).1).unwrap();
        if let Outcome::Paused { .. } = outcome.outcome {
            assert!(nth > 8, "every write was struck: {nth}");
            break;
        }
        let stop = stopped(&outcome);
        assert_eq!(stop.code, "STOP_DISK_FULL", "write {nth}: {stop:?}");
        s.assert_report_filed(&s.stored(&outcome.sidecar.run_id), &stop);
        s.finish(&outcome.sidecar.run_id);
        nth += 1;
    }
}

/// The disk stays full: even the stop cannot be written. The run stays as it was.
#[test]
fn a_disk_that_stays_full_leaves_the_last_good_sidecar() {
    for nth in 1..=9 {
        let s = Scenario::new(425);
        let error = s.cut(&s.process(failing(Port::RunStore, "publish", Kind::Full, nth, 99)).1).unwrap_err();
        let DriveError::Port(port) = &error else { panic!("{error:?}") };
        assert_eq!(port.kind, Kind::Full, "{error}");
        assert!(error.to_string().contains("STOP_DISK_FULL"), "{error}");
        let run_id = s.world.runs()[0].clone();
        let sidecar = s.stored(&run_id);
        assert_eq!(sidecar.revision, nth, "the last good revision stands");
        assert!(sidecar.stops.is_empty());
        s.finish(&run_id);
    }
}

#[test]
fn a_disk_that_is_full_at_the_very_last_write_is_said_and_resumed() {
    let s = Scenario::new(426);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    s.sign(&ask, ReviewVerdict::Approve);
    let twin = s.stored(&run_id).revision;
    let mut nth = 1;
    loop {
        let s = Scenario::new(426);
        let (run_id, ask) = s.parked(Gate::Lifecycle);
        s.sign(&ask, ReviewVerdict::Approve);
        match s.resume(&s.process(failing(Port::RunStore, "publish", Kind::Full, nth, 99)).1, &run_id) {
            Ok(driven) => {
                assert_eq!(driven.outcome, Outcome::Completed);
                break;
            }
            Err(DriveError::Port(port)) => assert_eq!(port.kind, Kind::Full),
            Err(other) => panic!("write {nth}: {other:?}"),
        }
        assert_eq!(s.stored(&run_id).revision, twin + nth - 1);
        s.finish(&run_id);
        nth += 1;
    }
    assert!(nth > 4);
}

#[test]
fn a_second_process_on_the_same_run_is_busy() {
    let s = Scenario::new(430);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let holder = LockHolder {
        holder: uuid::Uuid::from_u128(42),
        host: "elsewhere".into(),
        pid: 4242,
        since: "2026-01-02T03:04:05Z".into(),
        command: "orchestrate resume".into(),
    };
    let (_alive, other) = s.process(FaultPlan::default());
    let lock = block_on(other.runs.lock(&run_id, &holder)).unwrap();
    let before = s.world.snapshot();
    let revision = s.stored(&run_id).revision;
    let commands: [(&str, Result<driver::Driven, DriveError>); 3] = [
        ("resume", s.resume(&s.ports(), &run_id)),
        ("void", s.void(&run_id)),
        ("record", block_on(driver::record_internal_error(&s.ports(), &caller(), &run_id, "bug"))),
    ];
    for (command, result) in commands {
        match result {
            Err(DriveError::Busy { run_id: held, holder }) => {
                assert_eq!(held, run_id);
                assert!(holder.contains("4242") && holder.contains("elsewhere"), "{command}: {holder}");
            }
            other => panic!("{command}: {other:?}"),
        }
    }
    assert_eq!(s.world.snapshot(), before);
    assert_eq!(s.stored(&run_id).revision, revision);
    drop(lock);
    s.finish(&run_id);
}

#[test]
fn a_stop_asked_while_another_process_drives_is_honoured_at_its_next_step() {
    let s = Scenario::new(431);
    let (run_id, ask) = s.parked(Gate::Cut);
    let (_alive, other) = s.process(FaultPlan::default());
    let lock = block_on(other.runs.lock(&run_id, &caller().holder)).unwrap();
    let error = s.stop(&run_id, "text under review").unwrap_err();
    assert!(error.to_string().contains("will be honoured"), "{error}");
    assert_eq!(s.stored(&run_id).state, Gate::Cut.awaiting(), "request and effect are two facts");
    drop(lock);
    s.sign(&ask, ReviewVerdict::Approve);
    let before = s.rows();
    let driven = s.resumed(&run_id);
    let says = ["op asked: text_under_review"];
    s.assert_stopped(&driven, "STOP_SOVEREIGN", "stopped_text_under_review", Gate::Cut.awaiting(), &says);
    assert_eq!(s.rows(), before, "although it was approved");
    assert_eq!(stopped(&s.resumed(&run_id)).n, 1, "a plain resume does not do");
    s.answer_stop(&run_id, Resume, &[]);
    s.finish(&run_id);
}

#[test]
fn a_stop_in_a_persons_name_in_every_open_state() {
    let reach: [fn(&Scenario) -> RunId; 4] = [
        |s| {
            let _ = s.cut(&s.process(failing(Port::Database, "source", Kind::Unavailable, 1, 1)).1);
            s.world.runs()[0].clone()
        },
        |s| s.parked(Gate::Cut).0,
        |s| s.parked(Gate::Lifecycle).0,
        |s| {
            let (run_id, ask) = s.parked(Gate::Lifecycle);
            s.sign(&ask, ReviewVerdict::Approve);
            let _ = s.resume(
                &s.process(failing(Port::KnowledgeBase, "append_index", Kind::Unavailable, 1, 9)).1,
                &run_id,
            );
            run_id
        },
    ];
    for (i, reach) in reach.into_iter().enumerate() {
        let s = Scenario::new(440 + i as u64);
        let run_id = reach(&s);
        let before = s.stored(&run_id);
        let rows = s.rows();
        let driven = s.stop(&run_id, "hold").unwrap();
        let stage = before.kept_stage.map_or(before.state.clone(), |k| k.as_str().into());
        s.assert_stopped(&driven, "STOP_SOVEREIGN", "stopped_hold", &stage, &["op asked: hold"]);
        assert_eq!(s.rows(), rows);
        s.answer_stop(&run_id, Resume, &[]);
        s.finish(&run_id);
    }
}

#[test]
fn a_stop_that_makes_no_sense_is_refused() {
    let s = Scenario::new(450);
    let (run_id, _) = s.parked(Gate::Cut);
    for reason in ["", "kb upload", "refused", "drift", "!!"] {
        let error = s.stop(&run_id, reason).unwrap_err();
        assert!(matches!(error, DriveError::NotNow(_)), "{reason:?}: {error:?}");
        assert_eq!(s.stored(&run_id).state, Gate::Cut.awaiting());
    }
    s.void_signed(&run_id);
    let error = s.stop(&run_id, "hold").unwrap_err();
    assert!(error.to_string().contains("nothing to stop"), "{error}");
    let nobody: RunId = "ictr-20260102T030405Z-019b7d3f-0000-7000-8000-000000000001".parse().unwrap();
    for error in [
        s.stop(&nobody, "hold").unwrap_err(),
        s.resume(&s.ports(), &nobody).unwrap_err(),
        s.void(&nobody).unwrap_err(),
    ] {
        assert_eq!(error, DriveError::NotFound { run_id: nobody.clone() });
    }
}

#[test]
fn a_panic_at_the_edge_is_recorded_and_resumed_plainly() {
    let s = Scenario::new(451);
    let (run_id, ask) = s.parked(Gate::Cut);
    let rows = s.rows();
    let driven =
        block_on(driver::record_internal_error(&s.ports(), &caller(), &run_id, "index out of bounds"))
            .unwrap();
    s.assert_stopped(
        &driven,
        "STOP_INTERNAL",
        "stopped_internal_error",
        Gate::Cut.awaiting(),
        &["index out of bounds"],
    );
    assert_eq!(s.rows(), rows);
    let driven = s.resumed(&run_id);
    assert_eq!(asked(&driven), ask, "the same request is open");
    assert_eq!(s.stored(&run_id).state, Gate::Cut.awaiting(), "leaving the stop is recorded");
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn a_panic_never_replaces_a_stop_that_needs_a_word() {
    let s = Scenario::new(452);
    let (run_id, _) = s.parked(Gate::Cut);
    s.stop(&run_id, "hold").unwrap();
    let result = block_on(driver::record_internal_error(&s.ports(), &caller(), &run_id, "bug"));
    assert!(matches!(&result, Err(DriveError::Internal(text)) if text.contains("bug")), "{result:?}");
    assert_eq!(s.stored(&run_id).state, "stopped_hold");
}

/// A clock that jumps whenever a call is made: machine time passes.
fn slow(s: &Scenario, op: &str, millis: u64) -> cutter_core::driver::Ports {
    let mut ports = s.ports();
    ports.kb = std::sync::Arc::new(cutter_tests::refusal::SlowKnowledgeBase {
        inner: ports.kb.clone(),
        world: s.world.clone(),
        name: op.into(),
        millis,
    });
    ports
}

#[test]
fn a_soft_cap_stops_and_the_granted_minutes_let_it_go_on() {
    let s = Scenario::new(460);
    let driven = s.cut(&slow(&s, "02-mark", 6 * 60_000)).unwrap();
    // the upload itself passed; the next look at the account is the hard cap's or the phase's
    let asked_at = driven.sidecar.active_ms;
    assert!(asked_at >= 6 * 60_000);
    let s = Scenario::new(461);
    let plan = failing(Port::Database, "begin mark", Kind::Deadline, 1, 1);
    let driven = s.cut(&s.process(plan).1).unwrap();
    s.assert_stopped(&driven, "STOP_AND_ESCALATE", "stopped_and_escalate", "source_pinned", &["begin mark"]);
    let run_id = driven.sidecar.run_id.clone();
    assert_eq!(stopped(&s.resumed(&run_id)).n, 1, "no plain resume");
    s.answer_stop(&run_id, Resume, &[("minutes_granted", "7")]);
    asked(&s.resumed(&run_id));
    assert_eq!(s.stored(&run_id).granted_minutes, 7);
    s.finish(&run_id);
}

#[test]
fn the_hard_cap_counts_machine_time_over_restarts_and_no_waiting() {
    let s = Scenario::new(462);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.world.advance(Duration::from_secs(3 * 24 * 3600).as_millis() as u64);
    assert!(s.stored(&run_id).active_ms < 1_000, "waiting for a person is no machine time");
    s.sign(&ask, ReviewVerdict::Approve);
    let driven = s.resume(&slow(&s, "06-cut-leg-a", 61 * 60_000), &run_id).unwrap();
    let says = ["cap hard: expected at most 3600000 ms of active time", "observed 3660000 ms"];
    let state = "stopped_between_leg_a_and_leg_b";
    s.assert_stopped(&driven, "STOP_BETWEEN_LEG_A_AND_LEG_B", state, "cut_leg_a_committed", &says);
    // too little is not enough, and each grant is used once
    s.answer_stop(&run_id, Resume, &[("minutes_granted", "1")]);
    let again = stopped(&s.resumed(&run_id));
    assert_eq!((again.n, again.code.as_str()), (2, "STOP_BETWEEN_LEG_A_AND_LEG_B"));
    assert_eq!(stopped(&s.resumed(&run_id)).n, 2);
    assert_eq!(s.stored(&run_id).granted_minutes, 1);
    s.answer_stop(&run_id, Resume, &[("minutes_granted", "30")]);
    s.finish(&run_id);
}

#[test]
fn a_cap_without_granted_minutes_stops_again_and_can_be_voided() {
    let s = Scenario::new(463);
    let driven = s.cut(&slow(&s, "03-cutplan", 61 * 60_000)).unwrap();
    s.assert_stopped(&driven, "STOP_AND_ESCALATE", "stopped_and_escalate", "cutplan_ok", &["cap hard"]);
    let run_id = driven.sidecar.run_id.clone();
    s.answer_stop(&run_id, Resume, &[]);
    assert_eq!(stopped(&s.resumed(&run_id)).n, 2);
    s.answer_stop(&run_id, Resume, &[("minutes_granted", "many")]);
    assert_eq!(stopped(&s.resumed(&run_id)).n, 3);
    s.assert_void_frees(&run_id);
}

#[test]
fn a_fence_taken_by_a_newer_driver_ends_this_one_without_a_word() {
    let s = Scenario::new(470);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let revision = s.stored(&run_id).revision;
    let driven =
        s.resume(&s.process(failing(Port::Database, "begin sg1_review", Kind::Fenced, 1, 1)).1, &run_id);
    assert_eq!(driven, Err(DriveError::Fenced { run_id: run_id.clone() }));
    assert!(s.stored(&run_id).stops.is_empty() && s.stored(&run_id).revision <= revision + 1);
    s.finish(&run_id);
}

#[test]
fn a_schema_that_this_program_does_not_know_is_not_touched() {
    let s = Scenario::new(471);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    s.world.set_schema_matches(false);
    let before = s.world.snapshot();
    let error = s.resume(&s.ports(), &run_id).unwrap_err();
    assert!(matches!(&error, DriveError::Port(e) if e.kind == Kind::Invalid), "{error:?}");
    assert_eq!(s.world.snapshot(), before);
    assert_eq!(s.stored(&run_id).state, Gate::Cut.awaiting());
    s.world.set_schema_matches(true);
    s.finish(&run_id);
}
