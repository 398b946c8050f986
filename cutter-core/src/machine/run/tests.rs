//! The run machine's laws, and one test per trap.
use super::*;
use crate::machine::laws;
use proptest::prelude::*;
use std::vec::Vec;

fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

#[test]
fn the_shared_laws_hold() {
    laws::hold(&RUN, Trigger::ALL);
    assert_eq!(Stage::ALL.len(), 14);
    assert_eq!(RUN.rows().len(), 13);
}

#[test]
fn every_stage_but_the_last_has_one_way_forward() {
    for (i, &stage) in Stage::ALL.iter().enumerate() {
        let next = Stage::ALL.get(i + 1).copied();
        assert_eq!(stage.next(), next);
        assert_eq!(RUN.targets(stage), next.into_iter().collect::<Vec<_>>());
        assert_eq!(stage.awaits().is_none(), next.is_none());
        assert_eq!(RUN.rows().iter().filter(|r| r.from == stage).count(), usize::from(next.is_some()));
    }
}

#[test]
fn each_internal_gate_guards_one_row_and_the_sovereign_ones_two() {
    for &gate in GateId::ALL {
        let rows = RUN.rows().iter().filter(|r| r.gates.contains(&gate)).count();
        let expected = match gate {
            GateId::CutAuthz | GateId::LifecycleAuthz => 2,
            GateId::FailureEscalation => 0,
            _ => 1,
        };
        assert_eq!(rows, expected, "{gate}");
    }
    assert_eq!(GateId::ALL.iter().filter(|g| g.as_str().starts_with("IG_")).count(), 11);
    assert_eq!(GateId::ALL.iter().filter(|g| g.is_sovereign()).count(), 3);
    assert_eq!(GateId::WriteVerify.failed_suffix(), "write_verify");
    for &gate in GateId::ALL {
        assert_eq!(GateId::from_failed_suffix(gate.failed_suffix()), Ok(gate));
    }
}

#[test]
fn nothing_is_cut_or_enacted_without_an_approval() {
    for (target, gate) in
        [(Stage::CutLegACommitted, GateId::CutAuthz), (Stage::LifecycleEnacted, GateId::LifecycleAuthz)]
    {
        for row in RUN.rows().iter().filter(|r| r.to == target) {
            assert_eq!((row.trigger, row.gates[0]), (Trigger::ApprovalReceived, gate));
        }
    }
}

#[test]
fn text_forms_round_trip_and_need_the_kept_stage() {
    let states = [
        RunState::NEW,
        RunState::At(Stage::CloseoutReported),
        RunState::Failed { gate: GateId::WriteVerify, at: Stage::LegBRecorded },
        RunState::Stopped { at: Stage::Marked, reason: slug("drift") },
        RunState::Voided { reason: slug("wrong_version") },
    ];
    let texts = states.iter().map(RunState::as_text).collect::<Vec<_>>();
    assert_eq!(
        texts,
        ["pending", "closeout_reported", "failed_write_verify", "stopped_drift", "voided_wrong_version"]
    );
    for state in &states {
        assert_eq!(RunState::parse(&state.as_text(), state.kept()).as_ref(), Ok(state));
    }
    for text in ["failed_write_verify", "stopped_drift"] {
        assert!(RunState::parse(text, None).is_err());
        assert!(RunState::parse(text, Some(Stage::CloseoutReported)).is_err());
    }
    for text in
        ["", "Pending", "failed_", "failed_nothing", "stopped_", "stopped_A b", "voided_", "voided_../x"]
    {
        assert!(RunState::parse(text, Some(Stage::Marked)).is_err(), "{text}");
    }
}

#[test]
fn a_stopped_run_resumes_where_it_stood() {
    for &stage in &Stage::ALL[..13] {
        let stopped = RunState::At(stage).stop(&StopReason::KbUpload).unwrap();
        assert_eq!(stopped.as_text(), "stopped_kb_upload");
        assert!(!stopped.is_terminal() && !stopped.releases_claim());
        assert_eq!(stopped.resume(), Ok(RunState::At(stage)));
        assert_eq!(RunState::At(stage).resume(), Ok(RunState::At(stage)), "resume is idempotent");
        assert!(stopped.step(Trigger::Advance).is_err(), "a stopped run does not move by the table");
    }
    let end = RunState::At(Stage::CloseoutReported);
    assert!(end.stop(&StopReason::KbUpload).is_err());
    assert_eq!(end.resume(), Ok(end.clone()));
}

#[test]
fn a_failed_run_is_final_but_for_a_void() {
    let failed = RunState::At(Stage::Marked).fail(GateId::Cutplan).unwrap();
    assert!(failed.is_terminal() && !failed.releases_claim());
    assert_eq!(
        failed.resume().unwrap_err().to_string(),
        "illegal run transition failed_cutplan->resume (legal=voided_<reason>)"
    );
    assert!(failed.fail(GateId::Cutplan).is_err());
    assert!(failed.stop(&StopReason::DiskFull).is_err());
    for &trigger in Trigger::ALL {
        assert!(failed.step(trigger).is_err());
    }
    let voided = failed.void(slug("bad_plan")).unwrap();
    assert!(voided.is_terminal() && voided.releases_claim() && !voided.is_success());
}

#[test]
fn nothing_enacted_is_voided() {
    for &stage in Stage::ALL {
        let legal = !stage.is_enacted();
        let mut states = Vec::from([RunState::At(stage)]);
        if stage != Stage::CloseoutReported {
            states.push(RunState::Stopped { at: stage, reason: slug("drift") });
            states.push(RunState::Failed { gate: GateId::Closeout, at: stage });
        }
        for state in states {
            assert_eq!(state.void(slug("x")).is_ok(), legal, "{state} at {stage}");
            assert_eq!(state.legal().contains(&"voided_<reason>".to_owned()), legal);
        }
    }
    assert_eq!(
        RunState::At(Stage::LifecycleEnacted).void(slug("late")).unwrap_err().to_string(),
        "illegal run transition lifecycle_enacted->voided_late \
         (legal=closeout_reported,failed_<gate>,stopped_<reason>)"
    );
    let voided = RunState::Voided { reason: slug("x") };
    assert!(voided.void(slug("y")).is_err() && voided.resume().is_err() && voided.legal().is_empty());
}

#[test]
fn an_authority_stop_is_never_downgraded() {
    let refused = RunState::At(Stage::AwaitingCutAuthorization).stop(&StopReason::Refused).unwrap();
    assert!(refused.stop(&StopReason::KbUpload).is_err());
    let own = RunState::At(Stage::Marked).stop(&StopReason::sovereign(slug("hold")).unwrap()).unwrap();
    assert_eq!(own.as_text(), "stopped_hold");
    assert!(own.stop(&StopReason::Internal).is_err());
    let operational = RunState::At(Stage::Marked).stop(&StopReason::KbUpload).unwrap();
    let raised = operational.stop(&StopReason::Refused).unwrap();
    assert_eq!(raised, RunState::Stopped { at: Stage::Marked, reason: slug("refused") });
    assert!(operational.stop(&StopReason::DatabaseUnavailable).is_ok());
    let posing = StopReason::Sovereign(slug("kb_upload"));
    assert!(RunState::NEW.stop(&posing).is_err(), "a sovereign stop would read back as operational");
}

#[test]
fn what_no_state_records_is_refused() {
    for reason in StopReason::examples() {
        let stopped = RunState::At(Stage::Marked).stop(&reason);
        assert_eq!(stopped.is_ok(), reason.is_recorded(), "{reason}");
    }
}

fn any_event() -> impl Strategy<Value = (usize, usize)> {
    (0..Trigger::ALL.len(), 0..64_usize)
}

proptest! {
    #[test]
    fn any_history_keeps_the_laws(events in prop::collection::vec(any_event(), 0..80)) {
        let mut state = RunState::NEW;
        let mut furthest = Stage::Pending;
        let mut approvals = 0;
        let reasons = StopReason::examples();
        for (event, pick) in events {
            let before = state.clone();
            let trigger = Trigger::ALL[event];
            let next = match trigger {
                Trigger::GateFailed => state.fail(GateId::ALL[pick % GateId::ALL.len()]),
                Trigger::Stop => state.stop(&reasons[pick % reasons.len()]),
                Trigger::Resume => state.resume(),
                Trigger::Void => state.void(slug("v")),
                _ => state.step(trigger),
            };
            if let Ok(next) = next {
                approvals += usize::from(trigger == Trigger::ApprovalReceived);
                state = next;
            }
            prop_assert_eq!(RunState::parse(&state.as_text(), state.kept()), Ok(state.clone()));
            if let Some(stage) = state.stage() {
                prop_assert!(stage >= furthest, "a stage was lost");
                furthest = stage;
                prop_assert_eq!(approvals, usize::from(stage >= Stage::CutLegACommitted)
                    + usize::from(stage >= Stage::LifecycleEnacted));
            } else {
                prop_assert!(!furthest.is_enacted());
            }
            if before.is_terminal() && !matches!(before, RunState::Failed { .. }) {
                prop_assert_eq!(&before, &state);
            }
            if matches!(before, RunState::Failed { .. }) {
                let voided = matches!(state, RunState::Voided { .. });
                prop_assert!(before == state || voided);
            }
        }
    }
}
