//! `cutter orchestrate stop`.

use clap::Args;
use cutter_core::driver::{self, Outcome as Driver};

use futures_executor::block_on;

use super::present;
use crate::commands::RunArg;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::Outcome;
use crate::wire::{self, Driving};

/// Stop a run in a person's name.
///
/// The run becomes `stopped_<reason>`; a stop-route report is filed, and only the
/// sovereign's signed word lets it go on. If another process drives the run, the request is
/// left for it and honoured at its next step.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate stop --run-id RUN --reason text_under_review")]
pub(crate) struct StopArgs {
    #[command(flatten)]
    run: RunArg,
    /// Why: one or a few words, kept in the state.
    #[arg(long, value_name = "WORDS")]
    reason: String,
}

pub(crate) fn run(cx: &Context, args: &StopArgs) -> Outcome {
    let config = cx.config()?;
    let opened = wire::open(&config, &cx.out)?;
    let caller = wire::caller(&config, "orchestrate stop");
    let run_id = &args.run.run_id;
    let driving = Driving { ports: &opened.ports, caller: &caller, run_id: Some(run_id), document_id: None };
    let holder = block_on(opened.stores.runs.lock_holder(run_id))?;
    let driven = match wire::drive(driving, driver::stop(&opened.ports, &caller, run_id, &args.reason)) {
        Ok(driven) => driven,
        Err(failure) => {
            // another process drives it: the request is left for that one
            let requested = block_on(opened.stores.runs.stop_request(run_id))?;
            let own = requested.is_some_and(|r| holder.is_some() && r.at >= caller.holder.since);
            if !own {
                return Err(failure);
            }
            let machine = serde_json::json!({ "run_id": run_id, "requested": true, "holder": holder });
            let next = format!("cutter orchestrate wait --run-id {run_id}");
            return cx.out.result(|| format!("{}\nnext: {next}\n", failure.what), &machine);
        }
    };
    let mut presented = present(&driven, opened.stores.runs.as_ref(), None);
    if matches!(driven.outcome, Driver::Stopped(_)) {
        // it was asked to stop, and it did
        presented.exit = Exit::DONE;
    }
    presented.show(cx, &config)
}
