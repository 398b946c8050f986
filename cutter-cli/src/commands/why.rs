//! `cutter why`.

use clap::Args;
use cutter_core::inspect::{Why, why};
use futures_executor::block_on;

use crate::app::Context;
use crate::commands::RunArg;
use crate::commands::orchestrate::load;
use crate::failure::Outcome;
use crate::render::{self, HEAD, paint};
use crate::wire;

/// Say why a run stands where it stands.
///
/// Who holds it and since when, which condition is missing, and the exact next command.
/// Needs no database.
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
    let answer = why(&sidecar, holder.as_ref(), requested.as_ref());
    cx.out.result(|| people(&answer), &answer)
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
