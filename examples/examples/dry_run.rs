//! A dry run shows what a cut would do, and writes nothing anywhere but its own folder.

use cutter_core::driver::Outcome;
use cutter_core::record::sidecar::Mode;
use cutter_examples::{Result, Setup};

pub fn main() -> Result<()> {
    let setup = Setup::new()?;
    let before = setup.world.snapshot();

    let driven = setup.cut(&setup.ports(), Mode::Dryrun)?;

    assert_eq!(driven.outcome, Outcome::DryRunDone);
    assert_eq!(setup.world.snapshot(), before, "no row, no document, no claim");
    println!("{} rests at {}", driven.sidecar.run_id, driven.sidecar.state);
    for pin in ["candidate_count", "manifest_digest", "region_sha", "writer_digest"] {
        println!("  {pin}: {}", driven.sidecar.context_pins[pin]);
    }
    let plan = setup.world.mirrored(&driven.sidecar.run_id, "phase-03.md").ok_or("no report of the plan")?;
    println!("\n{}", String::from_utf8(plan)?);
    Ok(())
}
