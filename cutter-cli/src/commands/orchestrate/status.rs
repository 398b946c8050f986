//! `cutter orchestrate status`.

use clap::Args;
use cutter_core::base::id::RunId;
use cutter_core::operate::inspect::Summary;
use cutter_core::record::sidecar::Sidecar;
use futures_executor::block_on;

use super::outcome::{Presented, people};
use crate::commands::RunArg;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::wire::{self, Stores};

/// Show where a run stands. Reads its record alone: no database, no lock.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate status --run-id RUN
  cutter orchestrate status --run-id RUN --json | jq -r .paused_at.request_kb_id")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    run: RunArg,
}

/// The newest revision of a run's record.
pub(crate) fn load(stores: &Stores, run_id: &RunId) -> Result<Sidecar, Failure> {
    let stored = block_on(stores.runs.load(run_id))?.ok_or_else(|| Failure::no_run(run_id.as_str()))?;
    let broken =
        |error| Failure::from(cutter_core::driver::DriveError::Sidecar { run_id: run_id.clone(), error });
    Sidecar::from_bytes(&stored.bytes).map_err(broken)
}

pub(crate) fn run(cx: &Context, args: &StatusArgs) -> Outcome {
    let config = cx.config()?;
    let stores = wire::stores(&config)?;
    let run_id = &args.run.run_id;
    let sidecar = load(&stores, run_id)?;
    let summary = Summary::of(&sidecar, &stores.runs.sidecar_location(run_id));
    let presented = Presented::still(summary);
    cx.out.result(|| people(&presented), &presented)
}
