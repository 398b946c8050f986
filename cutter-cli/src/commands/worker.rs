//! `cutter worker`: drives runs from the queue.

mod crew;
mod hand;
mod metrics;
mod review;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;

use self::crew::Crew;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::render::count;

/// Drive runs from the queue, until told to stop.
///
/// Takes items, most urgent first, and drives their runs. At a gate a run is parked and the worker
/// is free again; when the signed approval stands in the knowledge base, whichever worker sees it
/// goes on, without anyone typing. Start as many as you like, on as many hosts: what two of them
/// must not do at once, the queue's leases and the runs' own locks and fences keep apart.
///
/// Ctrl-C or SIGTERM: each run is left between two steps and its item handed back, so that another
/// worker can go on at once. A second signal ends the process on the spot; that too loses nothing,
/// but others take over only when the lease has run out.
///
/// `--duty review` drives nothing: it stores people's answers and decisions, with no other login than
/// the reviewer's, for hosts that cut and have not that one. It judges each answer by the ask, by the
/// database's policy and by the rows that it computes itself from the stored text.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter worker
  cutter worker --concurrency 4 --lease 60
  cutter worker --duty review                # on the host that stores decisions
  cutter worker --drain                      # until nothing is left to do, then end
  cutter worker --metrics 127.0.0.1:9187     # Prometheus text, on loopback only")]
pub(crate) struct WorkerArgs {
    /// What to do.
    #[arg(long, value_enum, value_name = "DUTY", default_value_t = Duty::Drive)]
    duty: Duty,
    /// How many runs at once; with `--duty drive`, as is the lease.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// How long an item is ours without a sign of life, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    lease: u64,
    /// How often to look where nothing wakes us, in milliseconds.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    poll: u64,
    /// End when nothing is left that could be done now; what waits for people stays.
    #[arg(long)]
    drain: bool,
    /// Serve numbers for Prometheus at this address; it must be a loopback one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Duty {
    /// Drive runs from the queue.
    Drive,
    /// Store answers and decisions.
    Review,
}

/// Raised by the first signal to end; the second one ends the process.
fn told_to_stop() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        // The order of the two lines matters.
        let watched = flag::register_conditional_shutdown(*signal, 130, stop.clone())
            .and_then(|_| flag::register(*signal, stop.clone()));
        watched.map_err(|e| Failure::internal(format!("signals cannot be heard: {e}")))?;
    }
    Ok(stop)
}

pub(crate) fn run(cx: &Context, args: &WorkerArgs) -> Outcome {
    if let Some(address) = args.metrics
        && !address.ip().is_loopback()
    {
        return Err(Failure::usage("metrics are served on loopback only; put a proxy before them")
            .broken("metrics.loopback", "127.0.0.1:PORT or [::1]:PORT", address.to_string())
            .next("cutter worker --metrics 127.0.0.1:9187"));
    }
    let (lease, poll) = (Duration::from_secs(args.lease), Duration::from_millis(args.poll));
    if args.duty == Duty::Review {
        if args.metrics.is_some() {
            return Err(Failure::usage("the review duty serves no numbers")
                .broken("metrics.duty", "--duty drive", "--duty review with --metrics")
                .next("cutter worker --duty review"));
        }
        return review::run(cx, poll, args.drain);
    }
    let crew = Crew::gather(cx, lease, poll, args.drain)?;
    let server = args.metrics.map(|address| metrics::Server::bind(&crew, address)).transpose()?;
    cx.out.note(format!(
        "worker {} with {} (lease {} s)",
        crew.holder,
        count(u64::from(args.concurrency), "hand"),
        args.lease
    ));
    crew.work(args.concurrency, server.as_ref());
    let tally = crew.tally();
    let machine = json!({ "holder": crew.holder, "items": tally });
    let people = || {
        let parts: Vec<String> = tally.iter().map(|(what, n)| format!("{n} {what}")).collect();
        format!("{}\n", if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") })
    };
    cx.out.result_as(Exit::DONE, people, &machine)
}
