//! `cutter queue list` and `cutter queue show`: read-only.

use clap::Args;
use cutter_core::machine::work_item::WorkItemState;
use cutter_core::operate::fleet::Job;
use cutter_core::port::work_queue::{ItemQuery, WorkQueue as _};
use cutter_core::record::queue::{Attempt, ItemId, WorkItem};
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde_json::json;

use super::{item, machine, open};
use crate::context::Context;
use crate::failure::Outcome;
use crate::render::{BAD, DIM, GOOD, HEAD, WARN, fields, paint, table};

/// List items by number, oldest first.
///
/// A page ends after `--limit` items and names the command for the next one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter queue list
  cutter queue list --state awaiting_user_confirmation
  cutter queue list --kind cut --limit 20 --json")]
pub(super) struct ListArgs {
    /// Only items in this state.
    #[arg(long, value_name = "STATE")]
    state: Option<WorkItemState>,
    /// Only items of this kind: cut, run, request, or an embedder's own.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Start after this item: the last one of the page before.
    #[arg(long, value_name = "ITEM")]
    after: Option<ItemId>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Show one item: where it stands, why, its attempts, and the command to type next.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter queue show 42
  cutter queue show 42 --json | jq .attempts")]
pub(super) struct ShowArgs {
    /// The item, as `cutter queue list` shows it.
    item: ItemId,
}

pub(super) fn list(cx: &Context, args: &ListArgs) -> Outcome {
    let queue = open(&cx.config()?, Login::Ro)?;
    let query =
        ItemQuery { state: args.state, kind: args.kind.clone(), after: args.after, limit: args.limit };
    let items = block_on(queue.list(&query))?;
    let is_full = u32::try_from(items.len()).is_ok_and(|n| n >= args.limit);
    let next = items.last().filter(|_| is_full).map(|last| next_page(args, last.item));
    let value = json!({ "items": items.iter().map(machine).collect::<Vec<_>>(), "next": next });
    cx.out.result(|| people(&items, next.as_deref()), &value)
}

fn next_page(args: &ListArgs, last: ItemId) -> String {
    let mut command = "cutter queue list".to_owned();
    if let Some(state) = args.state {
        command.push_str(&format!(" --state {state}"));
    }
    if let Some(kind) = &args.kind {
        command.push_str(&format!(" --kind {kind}"));
    }
    command.push_str(&format!(" --limit {} --after {last}", args.limit));
    command
}

fn state_style(state: WorkItemState) -> anstyle::Style {
    match state {
        WorkItemState::Completed => GOOD,
        WorkItemState::Failed | WorkItemState::Cancelled => BAD,
        WorkItemState::AwaitingTool | WorkItemState::AwaitingUserConfirmation => WARN,
        _ => HEAD,
    }
}

fn why(item: &WorkItem) -> String {
    match (&item.gate, &item.reason) {
        (Some(gate), _) => gate.clone(),
        (None, Some(reason)) => reason.code.clone(),
        (None, None) => "-".to_owned(),
    }
}

fn people(items: &[WorkItem], next: Option<&str>) -> String {
    if items.is_empty() {
        return format!("no items\n{}\n", paint(DIM, "cutter queue add --help"));
    }
    let row = |item: &WorkItem| {
        vec![
            item.item.to_string(),
            item.priority.to_string(),
            item.state.to_string(),
            item.key.clone(),
            item.failures.to_string(),
            why(item),
        ]
    };
    let header = ["item", "priority", "state", "key", "failures", "why"];
    let mut text = table(&header, items.iter().map(row).collect());
    if let Some(next) = next {
        text.push_str(&format!("next: {next}\n"));
    }
    text
}

pub(super) fn show(cx: &Context, args: &ShowArgs) -> Outcome {
    let queue = open(&cx.config()?, Login::Ro)?;
    let found = item(&queue, args.item)?;
    let attempts = block_on(queue.attempts(args.item))?;
    let next = next_command(&found);
    let mut value = machine(&found);
    value["attempts_ended"] = json!(attempts);
    value["next"] = json!(next);
    cx.out.result(|| whole(&found, &attempts, next.as_deref()), &value)
}

fn next_command(item: &WorkItem) -> Option<String> {
    let run = match Job::of(item) {
        Some(Ok(Job::Run(run_id))) => Some(format!("cutter why --run-id {run_id}")),
        Some(Ok(Job::Request { cut_request_id, .. })) => {
            Some(format!("cutter request show --request-id {cut_request_id}"))
        }
        Some(Ok(Job::Cut(_))) => Some("cutter orchestrate list".to_owned()),
        _ => None,
    };
    match item.state {
        WorkItemState::Queued | WorkItemState::AwaitingTool => Some("cutter worker --drain".to_owned()),
        WorkItemState::AwaitingUserConfirmation | WorkItemState::Failed | WorkItemState::Executing => run,
        _ => None,
    }
}

fn whole(item: &WorkItem, attempts: &[Attempt], next: Option<&str>) -> String {
    let mut text = format!(
        "{}  {}\n",
        paint(HEAD, format!("item {}", item.item)),
        paint(state_style(item.state), item.state)
    );
    let mut rows = vec![
        ("key", item.key.clone()),
        ("kind", item.kind.clone()),
        ("priority", item.priority.to_string()),
        ("enqueued", format!("{:.0} by {}", item.enqueued_at, item.enqueued_by)),
        (
            "budget",
            format!(
                "{} of {} attempts, {} of {} failures",
                item.attempts, item.policy.max_attempts, item.failures, item.policy.max_failures
            ),
        ),
    ];
    let mut row = |label, value: Option<String>| rows.extend(value.map(|value| (label, value)));
    row("waits for", item.gate.clone());
    row("ready", item.ready_at.map(|t| format!("{t:.0}")));
    row("held by", item.lease_until.and(item.holder).map(|h| h.to_string()));
    row("lease until", item.lease_until.map(|t| format!("{t:.0}")));
    row("ended", item.finished_at.map(|t| format!("{t:.0}")));
    if let Some(reason) = &item.reason {
        row("reason", Some(format!("{}: {}", reason.code, reason.detail)));
        row("said by", reason.actor.clone());
    }
    text.push_str(&fields(&rows));
    if !attempts.is_empty() {
        let row = |a: &Attempt| {
            vec![
                a.epoch.to_string(),
                format!("{:.0}", a.claimed_at),
                format!("{:.0}", a.ended_at),
                a.ending.to_string(),
                a.code.clone(),
                a.detail.chars().take(80).collect(),
            ]
        };
        let header = ["claim", "from", "until", "ended", "code", "detail"];
        text.push_str(&table(&header, attempts.iter().map(row).collect()));
    }
    if let Some(next) = next {
        text.push_str(&format!("next: {next}\n"));
    }
    text
}
