//! The crash test that you run on ports of your own: implement [`CrashWorld`] over them, and
//! `crash_everywhere` dies before and after every port call of your story, loses the answer
//! of every COMMIT, dies twice, dies at random, and compares what is left behind.
//!
//! Here the ports are those in memory. With others, `fresh` makes an empty database and an
//! empty folder, and clock and identifiers come from [`cutter_core::testing::memory`]: they must be
//! equal in equal stories.

use cutter_core::driver::{DriveError, Outcome, Ports};
use cutter_core::testing::crash::{CrashWorld, Effort, Pairs, Step, crash_everywhere};
use cutter_examples::{Result, Setup};

/// One run through both gates.
struct Story;

impl CrashWorld for Story {
    type World = Setup;

    fn fresh(&self) -> Setup {
        Setup::new().expect("the set-up works")
    }

    fn ports(&self, world: &Setup) -> Ports {
        world.ports()
    }

    fn drive(&self, world: &Setup, ports: &Ports) -> std::result::Result<Step, DriveError> {
        match world.command(ports)?.outcome {
            Outcome::Completed => Ok(Step::Done),
            Outcome::Paused { ask, .. } => {
                world.approve(&ask);
                Ok(Step::More)
            }
            _ => Ok(Step::More),
        }
    }

    fn snapshot(&self, world: &Setup) -> String {
        world.world.snapshot()
    }
}

pub fn main() -> Result<()> {
    let effort = Effort { pairs: Pairs::None, seeds: 0..10, ..Effort::default() };
    let report = crash_everywhere(&Story, &effort)?;
    print!("{report}");
    for (strike, n) in &report.struck {
        println!("  {n} × {strike}");
    }
    if report.is_clean() { Ok(()) } else { Err("a crash made a difference".into()) }
}
