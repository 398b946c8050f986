//! `cutter queue stats` and `cutter queue retain`.

use std::time::Duration;

use clap::Args;
use cutter_core::machine::work_item::WorkItemState;
use cutter_core::port::work_queue::{QueueStatistics, WorkQueue as _};
use cutter_pg::PgQueue;
use cutter_pg::login::Login;
use futures_executor::block_on;
use jiff::Timestamp;
use serde_json::json;

use super::open;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::{BAD, DIM, GOOD, WARN, count, fields, paint};

/// The queue in numbers: items by state, what waits longest, leases that ran out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter queue stats
  cutter queue stats --watch
  cutter queue stats --json | jq .ready")]
pub(super) struct StatsArgs {
    /// Show them again and again, until interrupted.
    #[arg(long)]
    watch: bool,
    /// How often, in milliseconds.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000, requires = "watch", value_parser = clap::value_parser!(u64).range(100..))]
    interval: u64,
}

/// Drop what ended more than so many days ago, with keys and attempts, day by day.
///
/// Afterwards the keys are free: the same may be asked for again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter queue retain --days 90")]
pub(super) struct RetainArgs {
    /// Whole days (UTC) to keep.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
}

pub(super) fn stats(cx: &Context, args: &StatsArgs) -> Outcome {
    let queue = open(&cx.config()?, Login::Ro)?;
    if !args.watch {
        return show(cx, &block_on(queue.statistics())?);
    }
    if cx.out.is_json() {
        return Err(
            Failure::usage("--watch is for people; with --json ask again").next("cutter queue stats --json")
        );
    }
    watch(cx, &queue, Duration::from_millis(args.interval))
}

fn show(cx: &Context, s: &QueueStatistics) -> Outcome {
    let states: serde_json::Map<_, _> =
        s.by_state.iter().map(|(state, n)| (state.as_str().to_owned(), json!(n))).collect();
    let value = json!({
        "now": s.now.to_string(),
        "by_state": states,
        "ready": s.ready,
        "oldest_ready": s.oldest_ready.map(|t| t.to_string()),
        "oldest_lease": s.oldest_lease.map(|t| t.to_string()),
        "expired_leases": s.expired_leases,
        "watched_by": s.watched_by.map(|holder| holder.to_string()),
        "oldest_snapshot": s.oldest_snapshot.map(|t| t.to_string()),
    });
    cx.out.result(|| people(s), &value)
}

/// Until the reader goes away or the process is interrupted.
fn watch(cx: &Context, queue: &PgQueue, interval: Duration) -> Outcome {
    loop {
        if !cx.out.redraw(&people(&block_on(queue.statistics())?)) {
            return Ok(Exit::DONE);
        }
        if cx.out.is_verbose(3) {
            return Ok(Exit::DONE);
        }
        std::thread::sleep(interval);
    }
}

fn age(now: Timestamp, at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| format!("{} s", now.duration_since(at).as_secs().max(0)))
}

fn people(s: &QueueStatistics) -> String {
    let most = s.by_state.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
    let bar = |n: u64| {
        // At most thirty; something that is there shows.
        let cells = usize::try_from(n.saturating_mul(30).div_ceil(most)).unwrap_or(30);
        paint(DIM, "▪".repeat(cells))
    };
    let rows: Vec<(String, String)> =
        s.by_state.iter().map(|(state, n)| (state.to_string(), format!("{n:>9}  {}", bar(*n)))).collect();
    let mut text = fields(&rows);
    let expired = if s.expired_leases == 0 { GOOD } else { BAD };
    let old = s.oldest_snapshot.is_some_and(|at| s.now.duration_since(at).as_secs() > 300);
    text.push_str(&fields(&[
        ("ready to claim", s.ready.to_string()),
        ("longest wait for a claim", age(s.now, s.oldest_ready)),
        ("oldest lease", age(s.now, s.oldest_lease)),
        ("leases that ran out", paint(expired, s.expired_leases)),
        ("watched by", watcher(s)),
        ("oldest snapshot held open", paint(if old { WARN } else { GOOD }, age(s.now, s.oldest_snapshot))),
    ]));
    text
}

/// Who looks for the words that parked items wait for; nobody is no trouble while none is parked.
fn watcher(s: &QueueStatistics) -> String {
    let is_missed = s.count(WorkItemState::AwaitingUserConfirmation) > 0;
    match s.watched_by {
        Some(holder) => holder.to_string(),
        None if is_missed => paint(WARN, "nobody: parked items stay where they are until a worker looks"),
        None => "-".to_owned(),
    }
}

pub(super) fn retain(cx: &Context, args: &RetainArgs) -> Outcome {
    let queue = open(&cx.config()?, Login::Exec)?;
    let kept = block_on(queue.retain(args.days))?;
    let days: Vec<String> = kept.days.iter().map(ToString::to_string).collect();
    let value = json!({ "days": days, "items": kept.items });
    let people = || {
        let n = u64::try_from(days.len()).unwrap_or(u64::MAX);
        format!("{} of {} dropped {}\n", count(kept.items, "item"), count(n, "day"), days.join(" "))
    };
    cx.out.result(people, &value)
}
