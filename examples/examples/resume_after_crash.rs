//! A process dies right after the database committed the cut, before it hears of it. The
//! next one finds what was committed by the identifiers that the record chose beforehand,
//! adopts it, and goes on: the units exist once, the papers are those of one run.

use cutter_core::driver::Outcome;
use cutter_core::testing::crash::{FaultyPorts, Plan, Strike};
use cutter_examples::{Result, Setup};

pub fn main() -> Result<()> {
    // how it looks when nothing goes wrong
    let undisturbed = Setup::new()?;
    undisturbed.to_the_end()?;

    // the same story, up to the first gate, which is approved
    let setup = Setup::new()?;
    let driven = setup.command(&setup.ports())?;
    let Outcome::Paused { ask, .. } = driven.outcome else { return Err("expected a pause".into()) };
    setup.approve(&ask);

    // the first transaction stores the approval, the second is the cut
    let (ports, life) = FaultyPorts::wrap(setup.ports(), Plan::at_commit(2, Strike::DieAfter));
    let error = setup.command(&ports).err().ok_or("the process should have died")?;
    println!("life 1: {error}");
    for (number, strike, call) in life.struck() {
        println!("        {strike} call {number}, {call}");
    }

    // a new process
    let driven = setup.to_the_end()?;
    println!("life 2: {} is {}", driven.sidecar.run_id, driven.sidecar.state);
    assert_eq!(driven.outcome, Outcome::Completed);
    assert_eq!(setup.world.snapshot(), undisturbed.world.snapshot(), "rows and documents, byte for byte");
    println!("rows and documents are those of the undisturbed run");
    Ok(())
}
