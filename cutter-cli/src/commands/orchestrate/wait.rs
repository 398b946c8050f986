//! `cutter orchestrate wait`.

use std::time::{Duration, Instant};

use clap::Args;
use cutter_core::operate::inspect::{Summary, exit_code_of};
use futures_executor::block_on;

use super::load;
use super::outcome::{Presented, people};
use crate::commands::RunArg;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::wire;

/// Block until a run pauses at a gate, stops, or ends.
///
/// Looks at the run's record again and again; needs no database. If nobody drives the run
/// and it is neither parked nor stopped nor finished, it will not move by itself: that ends
/// the wait too.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate wait --run-id RUN
  cutter orchestrate wait --run-id RUN --timeout 600 --json")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    run: RunArg,
    /// Give up after so many seconds (exit code 75).
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// How often to look, in milliseconds.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..))]
    interval: u64,
}

pub(crate) fn run(cx: &Context, args: &WaitArgs) -> Outcome {
    let config = cx.config()?;
    let stores = wire::stores(&config)?;
    let run_id = &args.run.run_id;
    let until = args.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut unheld = 0;
    loop {
        let sidecar = load(&stores, run_id)?;
        let mut presented = Presented::still(Summary::of(&sidecar, &stores.runs.sidecar_location(run_id)));
        let s = &presented.summary;
        let has_rest = s.paused_at.is_some() || s.stop.is_some() || s.phase.is_none();
        let holder = block_on(stores.runs.lock_holder(run_id))?;
        // between two looks a driver may come and go; only a steady absence counts
        unheld = if holder.is_none() { unheld + 1 } else { 0 };
        // whoever still holds a run at rest is about to move it, or to let go
        if has_rest && holder.is_none() {
            presented.exit = s.stop.as_ref().map_or(Exit::DONE, |stop| Exit::of(exit_code_of(&stop.code)));
            return cx.out.result_as(presented.exit, || people(&presented), &presented);
        }
        if unheld >= 3 {
            return Err(Failure::stopped("STOP_NO_DRIVER", format!("nobody drives {run_id} ({})", s.state))
                .next(format!("cutter orchestrate resume --run-id {run_id}")));
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            let mut failure =
                Failure::stopped("timeout", format!("{run_id} is still on its way ({})", s.state))
                    .next(format!("cutter why --run-id {run_id}"));
            failure.exit = Exit::BUSY;
            return Err(failure);
        }
        std::thread::sleep(Duration::from_millis(args.interval));
    }
}
