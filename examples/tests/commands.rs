//! The contract of the command boundary, on the example: replay, conflict, crashes at every step,
//! lost calls and answers, retries, state machines, and reads that are no commands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use async_trait::async_trait;
use cutter_core::base::limits::COMMAND_LEASE_MS;
use cutter_core::machine::retry::RetryPolicy;
use cutter_core::operate::command::{Boundary, CommandError, Executed, How, RiskGate};
use cutter_core::port::command_ledger::CommandLedger;
use cutter_core::port::{Port, PortErrorKind, PortResult};
use cutter_core::record::command::{Command, FailureCode, Outcome};
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, Process, World, block_on};
use cutter_examples::commands::machine::{DEPLOYMENT, DeploymentState, ORDER, OrderState};
use cutter_examples::commands::{
    CancelOrder, CreateDeployment, ExecutionAdapter, Mishap, PlaceOrder, Provider, StopDeployment, boundary,
    worker,
};

struct Stage {
    world: World,
    provider: Arc<Provider>,
    adapter: Arc<dyn ExecutionAdapter>,
}

impl Stage {
    fn new() -> Self {
        let provider = Arc::new(Provider::default());
        Self { world: World::new(3), adapter: provider.clone(), provider }
    }

    fn boundary(&self, process: &Process) -> Boundary {
        boundary(process, &self.adapter).unwrap()
    }

    fn run(&self, command: &Command) -> Result<Executed, CommandError> {
        block_on(self.boundary(&self.world.process()).execute(command, &worker(1)))
    }

    fn done(&self, command: &Command) -> String {
        id_of(&self.run(command).unwrap())
    }

    /// The four commands in order, each with what the one before made.
    fn four(&self) -> [Command; 4] {
        let deployment_id = "d-1".to_owned();
        [
            create().command("create").unwrap(),
            PlaceOrder { deployment_id: deployment_id.clone(), symbol: "XYZ".into(), quantity: 1 }
                .command("place")
                .unwrap(),
            CancelOrder { order_id: "o-1".into() }.command("cancel").unwrap(),
            StopDeployment { deployment_id }.command("stop").unwrap(),
        ]
    }
}

fn create() -> CreateDeployment {
    CreateDeployment { strategy: "momentum".into(), capital_cents: 100 }
}

fn id_of(executed: &Executed) -> String {
    match executed {
        Executed::Ended { outcome: Outcome::Done { receipt }, .. } => {
            receipt.value()["id"].as_str().unwrap().into()
        }
        other => panic!("{other:?}"),
    }
}

fn failure(executed: Executed) -> (FailureCode, String) {
    match executed {
        Executed::Ended { outcome: Outcome::Failed { code, message }, .. } => (code, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn same_key_same_payload_gives_the_recorded_outcome_after_one_call() {
    let stage = Stage::new();
    for command in stage.four() {
        let before = stage.provider.calls().len();
        let first = stage.run(&command).unwrap();
        assert!(matches!(first, Executed::Ended { how: How::Performed, .. }), "{first:?}");
        for _ in 0..3 {
            stage.world.advance(10 * COMMAND_LEASE_MS);
            let again = stage.run(&command).unwrap();
            assert!(matches!(again, Executed::Ended { how: How::Replayed, .. }), "{again:?}");
            assert_eq!(id_of(&again), id_of(&first));
        }
        assert_eq!(stage.provider.calls().len(), before + 1, "{command:?}");
    }
    assert_eq!(stage.provider.count(), (1, 1));
}

#[test]
fn same_key_other_payload_is_a_conflict_without_a_call() {
    let stage = Stage::new();
    let command = create().command("k").unwrap();
    stage.done(&command);
    let other = CreateDeployment { capital_cents: 101, ..create() }.command("k").unwrap();
    let kind = StopDeployment { deployment_id: "d-1".into() }.command("k").unwrap();
    for offered in [other, kind] {
        let texts: Vec<String> = (0..2).map(|_| stage.run(&offered).unwrap_err().to_string()).collect();
        assert_eq!(texts[0], texts[1], "deterministic");
        assert!(
            texts[0].contains("payload conflict") && texts[0].contains(offered.kind().as_str()),
            "{texts:?}"
        );
    }
    assert_eq!(stage.provider.calls().len(), 1);
    assert_eq!(stage.done(&command), "d-1", "what is recorded stands");
}

/// Dies before and after every call of the ledger, counted and not listed, for every command; the
/// next life gets the outcome, and the provider was called once.
#[test]
fn a_crash_at_any_call_of_the_ledger_makes_one_effect() {
    for which in 0..4 {
        let mut deaths = 0;
        for number in 1.. {
            let mut is_over = true;
            for kind in [FaultKind::DieBefore, FaultKind::DieAfter] {
                let stage = Stage::new();
                let commands = stage.four();
                commands[..which].iter().for_each(|command| drop(stage.done(command)));
                let before = stage.provider.calls().len();
                let process = stage.world.process_with(FaultPlan::one(Fault::at(number, kind)));
                let first = block_on(stage.boundary(&process).execute(&commands[which], &worker(1)));
                assert_eq!(first.is_err(), process.is_dead(), "{first:?}");
                is_over &= !process.is_dead();
                deaths += u32::from(process.is_dead());
                // another worker, while the lost one's time runs, and then after it
                let next = stage.boundary(&stage.world.process());
                let patience = 2 * COMMAND_LEASE_MS;
                let end = block_on(next.execute_within(&commands[which], &worker(2), patience)).unwrap();
                assert!(!id_of(&end).is_empty());
                assert_eq!(
                    stage.provider.calls().len(),
                    before + 1,
                    "{:?} {number} {kind:?}",
                    commands[which]
                );
                assert!(block_on(stage.world.process().ledger().unsettled(None, 9)).unwrap().is_empty());
            }
            if is_over {
                break;
            }
        }
        assert!(deaths >= 4, "claim and settle, before and after: {deaths}");
    }
}

#[test]
fn a_crash_between_effect_and_record_is_resolved_by_asking() {
    let stage = Stage::new();
    let command = create().command("k").unwrap();
    let plan = FaultPlan::one(Fault::on(Port::CommandLedger, "settle", FaultKind::DieBefore));
    let process = stage.world.process_with(plan);
    let lost = block_on(stage.boundary(&process).execute(&command, &worker(1))).unwrap_err();
    assert!(matches!(lost, CommandError::Unrecorded { epoch: 1, .. }), "{lost}");
    assert_eq!(stage.provider.count(), (1, 0), "it happened");
    // while the lease runs, nobody else asks and nobody calls
    let next = stage.boundary(&stage.world.process());
    let busy = block_on(next.execute(&command, &worker(2))).unwrap_err();
    assert!(matches!(busy, CommandError::Busy { .. }), "{busy}");
    stage.world.advance(COMMAND_LEASE_MS);
    let end = block_on(next.execute(&command, &worker(2))).unwrap();
    assert!(matches!(end, Executed::Ended { how: How::Resolved, .. }), "{end:?}");
    assert_eq!((id_of(&end), stage.provider.calls().len()), ("d-1".into(), 1));
}

#[test]
fn lost_calls_and_lost_answers_make_one_effect() {
    for (mishap, calls) in [(Mishap::LoseAnswer, 1), (Mishap::LoseCall, 2)] {
        let stage = Stage::new();
        stage.provider.misbehave([mishap]);
        let end = stage.run(&create().command("k").unwrap()).unwrap();
        assert_eq!(id_of(&end), "d-1");
        assert_eq!((stage.provider.calls().len(), stage.provider.count().0), (calls, 1), "{mishap:?}");
    }
}

/// A worker that slept between claim and call is refused by the provider: the inquiry of the one
/// that took over is a barrier.
#[test]
fn a_call_that_comes_after_the_takeover_takes_no_effect() {
    let stage = Stage::new();
    assert_eq!(
        block_on(stage.adapter.find("k", 2)).unwrap(),
        cutter_examples::commands::provider::Found::Nothing
    );
    let late = block_on(stage.adapter.create_deployment("k", 1, &create())).unwrap_err();
    assert_eq!(late.kind, PortErrorKind::Fenced);
    assert_eq!(stage.provider.count(), (0, 0));
}

#[test]
fn a_provider_that_is_down_is_tried_again_after_a_delay_and_then_given_up() {
    let policy = RetryPolicy { max_attempts: 3, max_failures: 3, base_ms: 100, cap_ms: 1_000, jitter: 0 };
    let stage = Stage::new();
    let command = create().command("k").unwrap();
    let process = stage.world.process();
    let commands = stage.boundary(&process).retry_policy(policy);
    stage.provider.misbehave([Mishap::Down]);
    let waiting = block_on(commands.execute(&command, &worker(1))).unwrap();
    assert_eq!(waiting, Executed::Waiting { delay_ms: 100 });
    assert!(matches!(block_on(commands.execute(&command, &worker(2))).unwrap(), Executed::Waiting { .. }));
    assert_eq!(stage.provider.calls().len(), 1, "not before its time");
    assert_eq!(id_of(&block_on(commands.execute_within(&command, &worker(2), 1_000)).unwrap()), "d-1");

    stage.provider.misbehave([Mishap::Down; 9]);
    let command = create().command("k2").unwrap();
    let end = block_on(commands.execute_within(&command, &worker(1), 60_000)).unwrap();
    assert_eq!(failure(end).0, FailureCode::MaxAttempts);
    assert_eq!(stage.provider.calls().len(), 2 + 3);
    assert_eq!(failure(stage.run(&command).unwrap()).0, FailureCode::MaxAttempts, "an end is an end");
}

#[test]
fn a_retry_is_asked_of_the_risk_gate_and_a_first_attempt_is_not() {
    struct Never;
    #[async_trait]
    impl RiskGate for Never {
        async fn allows(&self, _: &Command, failures: u32) -> PortResult<Result<(), String>> {
            Ok(Err(format!("no retry after {failures}")))
        }
    }
    let stage = Stage::new();
    let commands = stage.boundary(&stage.world.process()).risk_gate(Arc::new(Never));
    assert_eq!(
        id_of(&block_on(commands.execute(&create().command("a").unwrap(), &worker(1))).unwrap()),
        "d-1"
    );
    stage.provider.misbehave([Mishap::Down]);
    let command = create().command("b").unwrap();
    let end = block_on(commands.execute_within(&command, &worker(1), 60_000)).unwrap();
    assert_eq!(failure(end), (FailureCode::RiskDenied, "no retry after 1".into()));
    assert_eq!(stage.provider.count(), (1, 0));
}

#[test]
fn what_a_state_machine_refuses_is_an_outcome_and_is_replayed() {
    let stage = Stage::new();
    let [make, place, cancel, stop] = stage.four();
    stage.done(&make);
    stage.done(&place);
    stage.provider.fill("o-1");
    let (code, message) = failure(stage.run(&cancel).unwrap());
    assert_eq!(code, FailureCode::Refused);
    assert!(message.contains("illegal order transition filled->cancel"), "{message}");
    let calls = stage.provider.calls().len();
    assert_eq!(failure(stage.run(&cancel).unwrap()), (code, message), "replayed");
    assert_eq!(stage.provider.calls().len(), calls);
    stage.done(&stop);
    let again = StopDeployment { deployment_id: "d-1".into() }.command("stop-2").unwrap();
    assert!(failure(stage.run(&again).unwrap()).1.contains("illegal deployment transition stopped->stop"));
    let late = PlaceOrder { deployment_id: "d-1".into(), symbol: "XYZ".into(), quantity: 1 };
    assert!(failure(stage.run(&late.command("late").unwrap()).unwrap()).1.contains("d-1 is stopped"));
    for &end in ORDER.terminals() {
        assert!(ORDER.targets(end).is_empty() && end != OrderState::Open);
    }
    assert!(DEPLOYMENT.targets(DeploymentState::Stopped).is_empty());
}

#[test]
fn a_payload_that_is_none_is_refused_before_anything_is_recorded() {
    let stage = Stage::new();
    let none = PlaceOrder { deployment_id: "d-1".into(), symbol: "XYZ".into(), quantity: 0 };
    let bad = [
        none.command("bad").unwrap(),
        Command::new("order.place", "bad", &serde_json::json!({ "symbol": 1 })).unwrap(),
        Command::new("deployment.create", "bad", &serde_json::json!({ "strategy": "", "capital_cents": 1 }))
            .unwrap(),
    ];
    for command in bad {
        let error = stage.run(&command).unwrap_err();
        assert!(matches!(error, CommandError::Payload { .. }), "{error}");
    }
    let unknown = Command::new("order.amend", "bad", &1).unwrap();
    assert!(
        stage.run(&unknown).unwrap_err().to_string().contains("known: deployment.create, deployment.stop, ")
    );
    assert!(block_on(stage.world.process().ledger().unsettled(None, 9)).unwrap().is_empty());
    assert!(stage.provider.calls().is_empty());
    // and the key is free
    assert_eq!(stage.done(&create().command("bad").unwrap()), "d-1");
}

#[test]
fn reads_are_not_commands() {
    let stage = Stage::new();
    stage.done(&create().command("k").unwrap());
    let (calls, process) = (stage.provider.calls().len(), stage.world.process());
    assert_eq!(block_on(stage.adapter.get_deployment("d-1")).unwrap(), Some(DeploymentState::Running));
    assert_eq!(block_on(stage.adapter.list_orders()).unwrap(), []);
    assert_eq!(stage.provider.calls().len(), calls, "no write");
    assert!(process.trace().is_empty(), "no call of the ledger");
    for kind in ["deployment.get", "deployment.list", "order.get", "order.list"] {
        let command = Command::new(kind, "read", &1).unwrap();
        let error = stage.run(&command).unwrap_err();
        assert!(matches!(error, CommandError::UnknownKind { .. }), "{error}");
    }
}

#[test]
fn two_handlers_for_one_kind_are_refused() {
    let stage = Stage::new();
    let again = Arc::new(cutter_examples::commands::OrderCommands(stage.adapter.clone()));
    let error = stage.boundary(&stage.world.process()).handler(again).err().unwrap();
    assert!(error.to_string().contains("order.place"), "{error}");
}
