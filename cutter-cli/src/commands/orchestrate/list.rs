//! `cutter orchestrate list`.

use clap::Args;
use cutter_core::operate::inspect::{Summary, why};
use cutter_core::port::run_store::LockHolder;
use futures_executor::block_on;
use serde::Serialize;

use super::load;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{DIM, paint, table};
use crate::wire;

/// List runs, newest first: state, who holds them, the open stop, the next command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter orchestrate list
  cutter orchestrate list --open
  cutter orchestrate list --document-id CITY-CHARTER --json")]
pub(crate) struct ListArgs {
    /// Only runs of this document.
    #[arg(long, value_name = "ID")]
    document_id: Option<String>,
    /// Only runs that may still go on.
    #[arg(long)]
    open: bool,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    summary: Summary,
    holder: Option<LockHolder>,
    next: Vec<String>,
}

/// A run whose record cannot be read.
#[derive(Debug, Serialize)]
struct Unreadable {
    run_id: String,
    error: String,
    next: Vec<String>,
}

pub(crate) fn run(cx: &Context, args: &ListArgs) -> Outcome {
    let config = cx.config()?;
    let stores = wire::stores(&config)?;
    let mut runs = Vec::new();
    let mut unreadable = Vec::new();
    for run_id in block_on(stores.runs.list())?.into_iter().rev() {
        if runs.len() >= args.limit {
            break;
        }
        let sidecar = match load(&stores, &run_id) {
            Ok(sidecar) => sidecar,
            Err(Failure { what, next, .. }) => {
                unreadable.push(Unreadable { run_id: run_id.to_string(), error: what, next });
                continue;
            }
        };
        if args.document_id.as_ref().is_some_and(|id| *id != sidecar.document_id) {
            continue;
        }
        if args.open && sidecar.run_state().is_ok_and(|state| state.is_terminal()) {
            continue;
        }
        let holder = block_on(stores.runs.lock_holder(&run_id))?;
        let summary = Summary::of(&sidecar, &stores.runs.sidecar_location(&run_id));
        let next = why(&sidecar, holder.as_ref(), None).next;
        runs.push(Listed { summary, holder, next });
    }
    let exit = if unreadable.is_empty() { Exit::DONE } else { Exit::EVIDENCE };
    let machine = serde_json::json!({ "runs": runs, "unreadable": unreadable });
    cx.out.result_as(exit, || people(&runs, &unreadable), &machine)
}

fn people(runs: &[Listed], unreadable: &[Unreadable]) -> String {
    if runs.is_empty() && unreadable.is_empty() {
        return format!("no runs yet\n{}\n", paint(DIM, "cutter orchestrate cut --help"));
    }
    let row = |listed: &Listed| {
        let s = &listed.summary;
        let holder = listed.holder.as_ref().map(|h| format!("{}@{}", h.pid, h.host));
        vec![
            s.run_id.clone(),
            s.document_id.clone(),
            s.state.clone(),
            holder.unwrap_or_else(|| "-".to_owned()),
            s.stop.as_ref().map_or_else(|| "-".to_owned(), |stop| stop.code.clone()),
        ]
    };
    let mut text = String::new();
    if !runs.is_empty() {
        text = table(&["run", "document", "state", "holder", "stop"], runs.iter().map(row).collect());
    }
    for listed in runs {
        if let Some(next) = listed.next.first() {
            text.push_str(&format!("{}  {next}\n", paint(DIM, &listed.summary.run_id)));
        }
    }
    for run in unreadable {
        text.push_str(&format!("{}  {}\n", run.run_id, run.error));
        for next in &run.next {
            text.push_str(&format!("  {next}\n"));
        }
    }
    text
}
