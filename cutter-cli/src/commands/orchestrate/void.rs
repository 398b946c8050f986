//! `cutter orchestrate void`.

use clap::Args;
use cutter_core::driver::{self, Outcome as Driver};

use super::present;
use super::resume::settle;
use crate::commands::RunArg;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::Outcome;
use crate::wire::{self, Driving};

/// Void a run with the sovereign's signed word.
///
/// Draft units are marked voided, nothing is deleted, and the document is free for a new
/// run. A run that is on its way is stopped first. Without a valid void approval this says
/// where one is expected and exits with 5. Enacted units cannot be voided.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate void --run-id RUN                    # stops it, says where the approval goes
  cutter sovereign approve --run-id RUN --for void
  cutter orchestrate void --run-id RUN")]
pub(crate) struct VoidArgs {
    #[command(flatten)]
    run: RunArg,
    /// Path of the approval in the knowledge base; else the run's folder is searched.
    #[arg(long, value_name = "PATH")]
    approval_kb_id: Option<String>,
}

pub(crate) fn run(cx: &Context, args: &VoidArgs) -> Outcome {
    let config = cx.config()?;
    let opened = wire::open(&config, &cx.out)?;
    let caller = wire::caller(&config, "orchestrate void");
    let run_id = &args.run.run_id;
    let driving = Driving { ports: &opened.ports, caller: &caller, run_id: Some(run_id), document_id: None };
    let approval = args.approval_kb_id.clone();
    let driven = wire::drive(driving, driver::void(&opened.ports, &caller, run_id, approval))?;
    settle(&opened, &caller, &driven)?;
    let mut presented = present(&driven, opened.stores.runs.as_ref(), None);
    if let Driver::Paused { ask, .. } = &driven.outcome {
        presented.exit = Exit::APPROVAL;
        cx.out.warn(format!("a signed void approval is needed at {}", ask.approval_path));
        presented.next = Some(format!("cutter sovereign approve --run-id {run_id} --for void"));
    }
    presented.show(cx, &config)
}
