//! Deployments and orders through the command boundary (AG-EXE-01): one call per key, replay,
//! conflict, a crash between effect and record that is resolved by asking, refusals by state
//! machines, and reads that are no commands.

use cutter_core::port::Port;
use std::sync::Arc;

use cutter_core::base::limits::COMMAND_LEASE_MS;
use cutter_core::operate::command::{Executed, How};
use cutter_core::record::command::Outcome;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, World, block_on};
use cutter_examples::Result;
use cutter_examples::commands::{
    CancelOrder, CreateDeployment, ExecutionAdapter, PlaceOrder, Provider, StopDeployment, boundary, worker,
};

fn show(what: &str, executed: &Executed) {
    match executed {
        Executed::Ended { outcome: Outcome::Done { receipt }, how } => {
            println!("{what}: {how:?} {}", receipt.value());
        }
        Executed::Ended { outcome: Outcome::Failed { code, message }, how } => {
            println!("{what}: {how:?} {code}: {message}");
        }
        Executed::Waiting { delay_ms } => println!("{what}: again in {delay_ms} ms"),
    }
}

pub fn main() -> Result<()> {
    // what outlives a process: the ledger, which is in this world, and the provider
    let world = World::new(1);
    let provider = Arc::new(Provider::default());
    let adapter: Arc<dyn ExecutionAdapter> = provider.clone();

    let process = world.process();
    let commands = boundary(&process, &adapter)?;
    let create = CreateDeployment { strategy: "momentum".into(), capital_cents: 250_000 };
    let command = create.command("alpha/create")?;
    show("create", &block_on(commands.execute(&command, &worker(1)))?);
    show("again", &block_on(commands.execute(&command, &worker(2)))?);
    let richer = CreateDeployment { capital_cents: 999_999, ..create }.command("alpha/create")?;
    let conflict = block_on(commands.execute(&richer, &worker(1))).err().ok_or("expected a conflict")?;
    println!("other payload: {conflict}");
    assert_eq!(provider.calls().len(), 1);

    // the process dies when the order is placed and not yet recorded
    let dying = FaultPlan::one(Fault::on(Port::CommandLedger, "settle", FaultKind::DieBefore));
    let commands = boundary(&world.process_with(dying), &adapter)?;
    let order = PlaceOrder { deployment_id: "d-1".into(), symbol: "XYZ".into(), quantity: 3 };
    let command = order.command("alpha/order/1")?;
    let died = block_on(commands.execute(&command, &worker(3))).err().ok_or("expected to die")?;
    println!("life 1: {died}");
    // another one finds the intent, asks, and records what happened
    world.advance(COMMAND_LEASE_MS);
    let commands = boundary(&world.process(), &adapter)?;
    for (key, executed) in block_on(commands.recover(&worker(4), None, 100))? {
        show(&format!("life 2: {key}"), &executed?);
    }
    assert_eq!(provider.count(), (1, 1), "one deployment, one order");

    // the state machines speak through the same door
    let cancel = CancelOrder { order_id: "o-1".into() };
    show("cancel", &block_on(commands.execute(&cancel.command("alpha/cancel/1")?, &worker(4)))?);
    let again = block_on(commands.execute(&cancel.command("alpha/cancel/2")?, &worker(4)))?;
    show("cancel under another key", &again);
    let stop = StopDeployment { deployment_id: "d-1".into() }.command("alpha/stop")?;
    let stopped = block_on(commands.execute(&stop, &worker(4)))?;
    show("stop", &stopped);
    assert!(matches!(stopped, Executed::Ended { outcome: Outcome::Done { .. }, how: How::Performed }));

    // reads go to the adapter: nothing of them is in the ledger
    let before = world.trace().len();
    println!("deployment d-1: {}", block_on(adapter.get_deployment("d-1"))?.ok_or("expected it")?);
    println!("orders: {:?}", block_on(adapter.list_orders())?);
    assert_eq!(world.trace().len(), before, "no call of the ledger");
    Ok(())
}
