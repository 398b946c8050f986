//! `cutter orchestrate resume`.

use std::time::Duration;

use clap::Args;
use cutter_core::base::id::RunId;
use cutter_core::driver::{self, Caller, Driven, ResumeOptions};
use cutter_core::port::run_store::LockHolder;
use futures_executor::block_on;

use super::{load, present};
use crate::commands::RunArg;
use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::wire::{self, Driving, Opened};

/// How long a process that holds the run may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(3);

/// Drive a run on, as far as it gets.
///
/// Does what is next from wherever the run was left: parked at a gate, stopped, killed in
/// the middle of anything. At a gate it looks for a valid approval in the run's folder, or
/// takes the one named. On a finished run it does nothing and succeeds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate resume --run-id RUN
  cutter orchestrate resume --run-id RUN --approval-kb-id knowledge/dev/laws/…/SG1-cut-authz-approval-2026-05-20.md
  cutter orchestrate resume --run-id RUN --take-over")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    run: RunArg,
    /// Path of the approval in the knowledge base; else the run's folder is searched.
    #[arg(long, value_name = "PATH")]
    approval_kb_id: Option<String>,
    /// End the process on this host that holds the run, then go on. Nothing is lost: the
    /// lock itself is never broken, and the fence refuses whatever the old one still sends.
    /// Where the state of runs is in the database, the holder may be anywhere: its lease is
    /// ended, and its next save is refused.
    #[arg(long)]
    take_over: bool,
}

pub(crate) fn run(cx: &Context, args: &ResumeArgs) -> Outcome {
    let config = cx.config()?;
    let stores = wire::stores(&config)?;
    let run_id = &args.run.run_id;
    let before = load(&stores, run_id)?;
    let waited = cutter_core::operate::inspect::Summary::of(&before, "").paused_at.map(|p| p.request_kb_id);
    let caller = wire::caller(&config, "orchestrate resume");
    if args.take_over {
        take_over(cx, &stores, &caller, run_id)?;
    }
    let opened = wire::open(&config, &cx.out)?;
    let driven = resume(&config, &opened, run_id, args.approval_kb_id.clone())?;
    present(&driven, stores.runs.as_ref(), waited.as_deref()).show(cx, &config)
}

/// Resumes a run.
pub(crate) fn resume(
    config: &Config,
    opened: &Opened,
    run_id: &RunId,
    approval_kb_id: Option<String>,
) -> Result<Driven, Failure> {
    let caller = wire::caller(config, "orchestrate resume");
    let driving = Driving { ports: &opened.ports, caller: &caller, run_id: Some(run_id), document_id: None };
    let options = ResumeOptions { approval_kb_id };
    let driven = wire::drive(driving, driver::resume(&opened.ports, &caller, run_id, &options))?;
    settle(opened, &caller, &driven)?;
    Ok(driven)
}

/// Lets the request that names the run follow it to its end. Leg A and the verdict move a request
/// in their own transactions; that a run failed or was voided, the database does not know.
pub(super) fn settle(opened: &Opened, caller: &Caller, driven: &Driven) -> Result<(), Failure> {
    if matches!(driven.outcome, driver::Outcome::Failed(_) | driver::Outcome::Voided) {
        let run_id = &driven.sidecar.run_id;
        block_on(driver::settle_request(&opened.ports, opened.requests.as_ref(), caller, run_id))?;
    }
    Ok(())
}

fn take_over(cx: &Context, stores: &wire::Stores, caller: &Caller, run_id: &RunId) -> Result<(), Failure> {
    if let Some(shared) = &stores.shared {
        if let Some(holder) = block_on(shared.end_lease(run_id))? {
            let LockHolder { pid, host, command, .. } = holder;
            cx.out.warn(format!("ended the lease on {run_id} of process {pid} on {host}: {command}"));
        }
        return Ok(());
    }
    let holder = stores.files.holder(run_id.as_str()).map_err(wire::file_failure)?;
    let Some(holder) = holder else { return Ok(()) };
    cx.out.warn(format!("ending process {} that holds {run_id}", holder.process.pid));
    let json = serde_json::to_string(&caller.holder).map_err(|e| Failure::internal(e.to_string()))?;
    let lock = stores.files.break_lock(run_id.as_str(), &json, GRACE).map_err(wire::file_failure)?;
    drop(lock);
    Ok(())
}
