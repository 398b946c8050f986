//! `cutter queue`: work for workers.

mod add;
mod cancel;
mod look;
mod stats;

use clap::{Args, Subcommand};
use cutter_core::port::work_queue::WorkQueue as _;
use cutter_core::record::queue::{ItemId, WorkItem};
use cutter_pg::PgQueue;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::{Value, json};

use crate::config::Config;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::wire;

/// The work queue: what workers drive, in which order, and what became of it.
///
/// An item asks for one thing: cut a document, drive a run on, serve a cut request. Asking twice
/// for the same gives the same item. Lower priority numbers go first, then first in, first out.
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(Box<add::AddArgs>),
    List(look::ListArgs),
    Show(look::ShowArgs),
    Cancel(cancel::CancelArgs),
    Stats(stats::StatsArgs),
    Retain(stats::RetainArgs),
}

pub(crate) fn run(cx: &Context, args: &QueueArgs) -> Outcome {
    match &args.command {
        Command::Add(args) => add::run(cx, args),
        Command::List(args) => look::list(cx, args),
        Command::Show(args) => look::show(cx, args),
        Command::Cancel(args) => cancel::run(cx, args),
        Command::Stats(args) => stats::stats(cx, args),
        Command::Retain(args) => stats::retain(cx, args),
    }
}

/// The queue by this login.
fn open(config: &Config, login: Login) -> Result<PgQueue, Failure> {
    let dsns = wire::connections(config, &[login])?;
    let dsn = dsns.into_iter().map(|(_, dsn)| dsn).next();
    let missing = || Failure::usage(format!("no connection is configured for the login {login}"));
    Ok(PgQueue::connect(dsn.ok_or_else(missing)?))
}

/// An item that must be stored.
fn item(queue: &PgQueue, id: ItemId) -> Result<WorkItem, Failure> {
    let absent =
        || Failure::usage(format!("no item {id} is stored, or not any more")).next("cutter queue list");
    block_on(queue.item(id))?.ok_or_else(absent)
}

/// An item for machines; the payload is shown as JSON where it is.
fn machine(item: &WorkItem) -> Value {
    json!({
        "item": item.item,
        "key": item.key,
        "kind": item.kind,
        "state": item.state.as_str(),
        "priority": item.priority,
        "gate": item.gate,
        "reason": item.reason,
        "attempts": item.attempts,
        "failures": item.failures,
        "max_attempts": item.policy.max_attempts,
        "max_failures": item.policy.max_failures,
        "epoch": item.epoch,
        "holder": item.holder,
        "enqueued_by": item.enqueued_by,
        "enqueued_at": item.enqueued_at.to_string(),
        "claimed_at": item.claimed_at.map(|t| t.to_string()),
        "lease_until": item.lease_until.map(|t| t.to_string()),
        "ready_at": item.ready_at.map(|t| t.to_string()),
        "finished_at": item.finished_at.map(|t| t.to_string()),
        "payload": serde_json::from_slice::<Value>(&item.payload).ok(),
    })
}
