//! `cutter queue cancel`.

use clap::Args;
use cutter_core::machine::work_item::WorkItemState;
use cutter_core::operate::fleet;
use cutter_core::port::work_queue::{Answer, WorkQueue as _};
use cutter_core::record::queue::ItemId;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::json;

use super::{item, machine, open};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{GOOD, WARN, paint};
use crate::wire;

/// Give an item up, wherever it stands: queued, executing or waiting. The reason is recorded.
///
/// Its run, if one has begun, is stopped in your name: at once where nobody drives it, at its next
/// step where a worker does. Nothing that is enacted is undone. What has ended stays as it ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter queue cancel 42 --reason 'superseded by the second edition'
  cutter queue cancel 42 --reason withdrawn --json")]
pub(super) struct CancelArgs {
    /// The item, as `cutter queue list` shows it.
    item: ItemId,
    /// Why; recorded with the item.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(cx: &Context, args: &CancelArgs) -> Outcome {
    let config = cx.config()?;
    let queue = open(&config, Login::Exec)?;
    let before = item(&queue, args.item)?;
    let answer = block_on(queue.cancel(args.item, &args.reason, &config.actor))?;
    if let Answer::Refused(why) = &answer {
        return Err(Failure::gate(why.clone()).next(format!("cutter queue show {}", args.item)));
    }
    let now = item(&queue, args.item)?;
    // A worker that holds it finds out at its next heartbeat and stops the run itself.
    let stopped = if before.state == WorkItemState::Queued {
        None
    } else {
        let opened = wire::open(&config, &cx.out)?;
        let caller = wire::caller(&config, "queue cancel");
        match block_on(fleet::stop_cancelled(&opened.ports, opened.requests.as_ref(), &caller, &now)) {
            Ok(driven) => driven.map(|driven| driven.sidecar.run_id.to_string()),
            Err(error) => {
                cx.out.warn(error);
                None
            }
        }
    };
    let mut value = machine(&now);
    value["already"] = json!(answer == Answer::Already);
    value["stopped_run"] = json!(stopped);
    let people = || {
        let word = if answer == Answer::Already { paint(WARN, "already") } else { paint(GOOD, "cancelled") };
        let mut text = format!("{word}  item {}  {}\n", now.item, now.key);
        if let Some(run) = &stopped {
            text.push_str(&format!("its run {run} is stopped\nnext: cutter why --run-id {run}\n"));
        }
        text
    };
    cx.out.result(people, &value)
}
