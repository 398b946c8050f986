//! Random interleavings of what operators, sovereigns and the world do to a document: after every
//! command the invariants hold, and at the end whatever is open can be brought to an end.
//!
//! `CUTTER_SEQUENCES` sets how many sequences are tried (default 60).

use cutter_core::base::id::RunId;
use cutter_core::driver::{DriveError, Outcome, is_for_the_next_gate, stop_kinds};
use cutter_core::machine::backlog::{BACKLOG, BacklogState};
use cutter_core::machine::run::{RunState, Stage};
use cutter_core::machine::stop::StopClass;
use cutter_core::port::{Port, PortErrorKind};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::Sidecar;
use cutter_core::report::naming::EscalationKind::{self, DriftAck, Resume, Void};
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, When};
use cutter_tests::Scenario;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[derive(Debug, Clone, Copy)]
enum Op {
    Cut,
    Resume,
    /// Resume in a process whose call number so-and-so goes wrong.
    ResumeFaulty(u64, u8),
    Stop,
    VoidCommand,
    Answer(ReviewVerdict),
    AnswerStop(u8),
    BadApproval,
    Drift(u8),
    Mend,
    KbDown(u8),
    Pass(u32),
    NewVersion(u8),
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Cut),
        5 => Just(Op::Resume),
        2 => (1..60u64, 0..4u8).prop_map(|(n, k)| Op::ResumeFaulty(n, k)),
        1 => Just(Op::Stop),
        2 => Just(Op::VoidCommand),
        6 => Just(Op::Answer(ReviewVerdict::Approve)),
        1 => Just(Op::Answer(ReviewVerdict::Defer)),
        1 => Just(Op::Answer(ReviewVerdict::Reject)),
        4 => (0..3u8).prop_map(Op::AnswerStop),
        1 => Just(Op::BadApproval),
        1 => (0..4u8).prop_map(Op::Drift),
        1 => Just(Op::Mend),
        1 => (1..8u8).prop_map(Op::KbDown),
        1 => (1..400_000u32).prop_map(Op::Pass),
        1 => (0..3u8).prop_map(Op::NewVersion),
    ]
}

fn newest(s: &Scenario) -> Option<RunId> {
    s.world.runs().last().cloned()
}

fn apply(s: &Scenario, step: usize, op: Op) {
    // time passes between commands, and ids of a new run are its own
    s.world.advance(1_000);
    let run = newest(s);
    let tolerate = |result: Result<cutter_core::driver::Driven, DriveError>, faulty: bool| match result {
        Ok(driven) if !faulty => {
            let stored = s.stored(&driven.sidecar.run_id);
            assert_eq!(*driven.sidecar, stored, "{op:?}: what is returned is what is stored");
        }
        Err(DriveError::Internal(text)) if !faulty => panic!("{op:?}: {text}"),
        _ => {}
    };
    match (op, run) {
        (Op::Cut, _) => {
            s.world.reseed(10_000 + step as u64);
            tolerate(s.cut(&s.ports()), false);
        }
        (Op::NewVersion(n), _) => {
            s.register(&format!("# Charter\n\nVersion {n}.\n\n## Chapter 1\n\nText.\n"))
        }
        (Op::Pass(millis), _) => s.world.advance(u64::from(millis)),
        (Op::Drift(0), _) => s.world.alter_function("iu_core.fn_iu_create", &format!("body {step}")),
        (Op::Drift(1), _) => s.world.alter_trigger("trg_iu_enacted_immut", "D"),
        (Op::Drift(2), _) => s.world.alter_grants(|g| g.public_execute.push(format!("f{step}"))),
        (Op::Drift(_), _) => s.world.set_migrations(&format!("migrations {step}")),
        (Op::Mend, _) => {
            s.world.alter_function("iu_core.fn_iu_create", "iu_core.fn_iu_create");
            s.world.alter_trigger("trg_iu_enacted_immut", "O");
            s.world.alter_grants(|g| g.public_execute.clear());
        }
        (_, None) => {}
        (Op::Resume, Some(run)) => tolerate(s.resume(&s.ports(), &run), false),
        (Op::ResumeFaulty(call, kind), Some(run)) => {
            let kind = match kind {
                0 => FaultKind::DieBefore,
                1 => FaultKind::DieAfter,
                2 => FaultKind::UnknownDone,
                _ => FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 1 },
            };
            let plan = FaultPlan::one(Fault { when: When::Call(call), kind });
            let (process, ports) = s.process(plan);
            tolerate(s.resume(&ports, &run), true);
            process.kill(); // whatever it still held
        }
        (Op::KbDown(nth), Some(run)) => {
            let when =
                When::Operation { port: Port::KnowledgeBase, op: "create".into(), nth: u64::from(nth) };
            let kind = FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 4 };
            tolerate(s.resume(&s.process(FaultPlan::one(Fault { when, kind })).1, &run), false);
        }
        (Op::Stop, Some(run)) => tolerate(s.stop(&run, "hold"), false),
        (Op::VoidCommand, Some(run)) => tolerate(s.void(&run), false),
        (Op::Answer(verdict), Some(run)) => {
            if let Some(ask) = s.stored(&run).ask {
                s.sign(&ask, verdict);
            }
        }
        (Op::BadApproval, Some(run)) => {
            if let Some(ask) = s.stored(&run).ask {
                let path = ask.approval_path.replace(".md", &format!("-{step}.md"));
                s.world.file(&path, s.answer(&ask, ReviewVerdict::Approve).as_bytes());
            }
        }
        (Op::AnswerStop(kind), Some(run)) => {
            let sidecar = s.stored(&run);
            if sidecar.open_stop().is_some() && sidecar.kb_folder.is_some() {
                let kind = [Resume, DriftAck, Void][usize::from(kind)];
                s.answer_stop(&run, kind, &[("reason", "tried"), ("minutes_granted", "10")]);
            }
        }
    }
}

fn text<'a>(row: &'a serde_json::Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

/// What holds always.
fn invariants(s: &Scenario) {
    let units = s.rows_of("information_unit");
    let approvals = s.rows_of("approval");
    let consents = |run: &str, gate: &str| {
        approvals
            .iter()
            .any(|a| text(a, "run_id") == run && text(a, "gate") == gate && text(a, "decision") == "approve")
    };
    for unit in &units {
        let run = text(unit, "run_id");
        assert!(consents(run, "cut_authorization"), "a unit without an approval to cut: {unit}");
        if text(unit, "lifecycle_status") == "enacted" {
            assert!(consents(run, "lifecycle_enactment"), "an enacted unit without an approval: {unit}");
        }
    }
    // never two live change sets of a version, nor two live units of an address in one
    let voided: Vec<String> =
        s.rows_of("change_set_void").iter().map(|v| text(v, "change_set_id").to_owned()).collect();
    let mut live: Vec<String> = s
        .rows_of("cut_change_set")
        .iter()
        .filter(|c| c["kind"] == "cut" && !voided.contains(&text(c, "change_set_id").to_owned()))
        .map(|c| text(c, "source_version_id").to_owned())
        .collect();
    let all = live.len();
    live.sort();
    live.dedup();
    assert_eq!(live.len(), all, "two live change sets of one version");
    // history leads to each entry's status, by legal edges, and never rests in S5 or S7
    let history = s.rows_of("decision_backlog_history");
    for entry in s.rows_of("decision_backlog_entry") {
        let mut at: Option<BacklogState> = None;
        for row in history.iter().filter(|h| h["entry_id"] == entry["entry_id"]) {
            let read = |field: &str| text(row, field).parse::<BacklogState>().ok();
            assert_eq!(read("from_state"), at, "{row}");
            let to = read("to_state").unwrap();
            if let Some(from) = at {
                assert!(BACKLOG.check(from, to).is_ok(), "{from} -> {to}");
            }
            at = Some(to);
        }
        assert_eq!(at, text(&entry, "status").parse().ok(), "history and status agree");
        assert!(at.unwrap().is_committable());
    }
    for run in s.world.runs() {
        sidecar_invariants(&s.stored(&run), &consents);
    }
}

fn sidecar_invariants(sidecar: &Sidecar, consents: &dyn Fn(&str, &str) -> bool) {
    // `stored` has checked the rules of the newest revision
    let state = sidecar.run_state().unwrap();
    let run = sidecar.run_id.as_str();
    if let Some(stage) = state.stage() {
        if stage >= Stage::CutLegACommitted {
            assert!(consents(run, "cut_authorization"), "{state}");
        }
        if stage.is_enacted() {
            assert!(consents(run, "lifecycle_enactment"), "{state}");
        }
    }
    for (i, stop) in sidecar.stops.iter().enumerate() {
        assert_eq!(stop.n as usize, i + 1);
    }
    let Some(stop) = sidecar.stops.last() else { return };
    let kinds = stop_kinds(sidecar, stop);
    match &state {
        RunState::Stopped { reason, at } => match StopClass::of_suffix(reason) {
            StopClass::Operational => assert!(!kinds.contains(&Resume) && !kinds.contains(&DriftAck)),
            _ => assert!(!kinds.is_empty(), "{state} at {at} has no way on"),
        },
        RunState::Failed { at, .. } => {
            let void: &[EscalationKind] = if at.is_enacted() { &[] } else { &[Void] };
            assert_eq!(kinds, void, "{state}");
        }
        _ => {}
    }
}

/// Whatever a sequence left: a run that is open is brought to an end by its own exits.
fn comes_to_an_end(s: &Scenario, voids: bool) {
    apply(s, 99_999, Op::Mend);
    for run in s.world.runs() {
        for turn in 0.. {
            assert!(turn < 24, "{run} does not come to an end: {:?}", s.stored(&run).last_error);
            s.world.advance(1_000);
            let driven = match s.resume(&s.ports(), &run) {
                Ok(driven) => driven,
                // one stop, one stored answer: the other one is carried out, or a new stop is asked
                Err(DriveError::NotNow(_)) => {
                    let _ = s.stop(&run, "hold again");
                    continue;
                }
                Err(error) => panic!("{run}: {error:?}"),
            };
            invariants(s);
            match &driven.outcome {
                Outcome::Completed | Outcome::Voided | Outcome::ReplayedFrom(_) | Outcome::DryRunDone => {
                    break;
                }
                Outcome::Paused { ask, .. } if !voids => s.sign(ask, ReviewVerdict::Approve),
                Outcome::Stopped(stop) if is_for_the_next_gate(&s.stored(&run), stop) => {}
                Outcome::Stopped(stop) if stop.code == "STOP_KB_CONFLICT" => s.put_back(&run),
                Outcome::Stopped(stop) if !voids => {
                    let sidecar = s.stored(&run);
                    let kind = stop_kinds(&sidecar, stop).first().copied();
                    match kind {
                        Some(Void)
                            if StopClass::of_suffix(&stop.reason.parse().unwrap())
                                != StopClass::Operational =>
                        {
                            end_by_void(s, &run);
                            break;
                        }
                        Some(kind) if kind != Void => {
                            drop(s.answer_stop(&run, kind, &[("minutes_granted", "60")]))
                        }
                        _ => {}
                    }
                }
                _ => {
                    end_by_void(s, &run);
                    break;
                }
            }
        }
    }
    invariants(s);
}

fn end_by_void(s: &Scenario, run: &RunId) {
    for _ in 0..4 {
        let driven = match s.void(run) {
            Ok(driven) => driven,
            Err(DriveError::NotNow(text)) if text.contains("another stored answer") => {
                s.stop(run, "hold again").unwrap();
                continue;
            }
            Err(DriveError::NotNow(text)) => {
                // only what is enacted cannot be voided; it goes on to its end instead
                assert!(text.contains("cannot be voided"), "{text}");
                return;
            }
            Err(error) => panic!("{run}: {error:?}"),
        };
        match driven.outcome {
            Outcome::Voided => return,
            _ => drop(s.answer_stop(run, Void, &[("reason", "the end")])),
        }
    }
    panic!("{run} cannot be voided: {:?}", s.stored(run).last_error);
}

#[test]
fn of_commands_answers_damage_and_time_keep_every_invariant() {
    let cases = std::env::var("CUTTER_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let sequences = (any::<bool>(), 0..1_000u64, prop::collection::vec(any_op(), 1..14));
    let result = runner.run(&sequences, |(voids, seed, ops)| {
        let s = Scenario::with_text(seed, "# Charter\n\nWe agree.\n\n## Chapter 1 Rights\n\nOf rights.\n");
        apply(&s, 0, Op::Cut);
        invariants(&s);
        for (step, op) in ops.iter().enumerate() {
            apply(&s, step + 1, *op);
            invariants(&s);
        }
        comes_to_an_end(&s, voids);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
