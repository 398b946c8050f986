//! `cutter why`.

use clap::Args;
use cutter_core::base::id::RunId;
use cutter_core::operate::inspect::recover::unknown_to;
use cutter_core::operate::inspect::{Why, why};
use cutter_core::port::database::Reader as _;
use cutter_core::record::evidence::RunEvidence;
use futures_executor::block_on;

use crate::commands::RunArg;
use crate::commands::orchestrate::load;
use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{self, HEAD, paint};
use crate::wire;

/// Say why a run stands where it stands.
///
/// Who holds it and since when, which condition is missing, and the exact next command.
/// A record that is older than the run's documents, or than what the database holds of it, is the
/// answer, and exit code 6. A database that is not reached is said, and asked nothing.
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
    let unknown = match &holder {
        None => {
            let folder = sidecar.kb_folder.as_ref();
            let paths = folder.map(|folder| block_on(stores.kb.list(folder))).transpose()?;
            unknown_to(&sidecar, &evidence(cx, &config, run_id), &paths.unwrap_or_default())
        }
        Some(_) => Vec::new(),
    };
    let exit = if unknown.is_empty() { Exit::DONE } else { Exit::EVIDENCE };
    answer.is_older_than(unknown);
    cx.out.result_as(exit, || people(&answer), &answer)
}

/// What the database holds of the run. Whoever only wants to know why needs none.
fn evidence(cx: &Context, config: &Config, run_id: &RunId) -> RunEvidence {
    let read = || -> Result<RunEvidence, Failure> {
        let database = wire::reader(config)?;
        block_on(database.check_schema())?;
        Ok(block_on(database.evidence(run_id))?)
    };
    read().unwrap_or_else(|failure| {
        cx.out.note(format!("the database was not asked: {}", failure.what));
        RunEvidence::default()
    })
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
