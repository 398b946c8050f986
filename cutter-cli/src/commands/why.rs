//! `cutter why`.

use clap::Args;
use cutter_core::inspect::recover::unknown_to;
use cutter_core::inspect::{Why, why};
use cutter_core::port::database::RunEvidence;
use futures_executor::block_on;

use crate::app::Context;
use crate::commands::RunArg;
use crate::commands::orchestrate::load;
use crate::exit_code::Exit;
use crate::failure::Outcome;
use crate::render::{self, HEAD, paint};
use crate::wire;

/// Say why a run stands where it stands.
///
/// Who holds it and since when, which condition is missing, and the exact next command.
/// Needs no database. A record that is older than the run's documents is the answer, and exit
/// code 6.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter why --run-id RUN
  cutter why --run-id RUN --json | jq -r '.next[0]'")]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    run: RunArg,
}

pub(crate) fn run(cx: &Context, args: &WhyArgs) -> Outcome {
    let config = cx.config()?;
    let stores = wire::stores(&config)?;
    let run_id = &args.run.run_id;
    let sidecar = load(&stores, run_id)?;
    let holder = block_on(stores.runs.lock_holder(run_id))?;
    let requested = block_on(stores.runs.stop_request(run_id))?;
    let mut answer = why(&sidecar, holder.as_ref(), requested.as_ref());
    // A driver at work files documents before its record says so.
    let unknown = match (&sidecar.kb_folder, &holder) {
        (Some(folder), None) => {
            let paths = block_on(stores.kb.list(folder))?;
            unknown_to(&sidecar, &RunEvidence::default(), &paths)
        }
        _ => Vec::new(),
    };
    let exit = if unknown.is_empty() { Exit::DONE } else { Exit::EVIDENCE };
    answer.is_older_than(unknown);
    cx.out.result_as(exit, || people(&answer), &answer)
}

fn people(answer: &Why) -> String {
    let mut text = format!("{}\n", paint(HEAD, &answer.run_id));
    let mut rows = vec![("state", answer.state.clone()), ("since", answer.since.to_string())];
    let holder = answer.holder.as_ref().map_or_else(
        || "nobody".to_owned(),
        |h| format!("process {} on {}, `{}`, since {}", h.pid, h.host, h.command, h.since),
    );
    rows.push(("holder", holder));
    rows.push(("why", answer.condition.clone()));
    text.push_str(&render::fields(&rows));
    for detail in &answer.details {
        text.push_str(&format!("  {detail}\n"));
    }
    for (i, next) in answer.next.iter().enumerate() {
        text.push_str(&format!("{} {next}\n", paint(HEAD, if i == 0 { "next:" } else { "then:" })));
    }
    text
}
