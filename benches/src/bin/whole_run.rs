//! A whole run of 1,000 units beside the floor of what it makes durable, in alternating pairs.
//!
//! The floor does, on the same disk and the same server, what the run cannot avoid: it
//! publishes as many files of the same sizes (fsync of file and folder), appends the index
//! line, commits as many transactions of one trivial row, encrypts and stores as many bytes of
//! backup, and hashes the stored backup as often. `--units N`, `--rounds N`, `--profile`.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a benchmark")]

use std::time::Duration;

use cutter_benches::measured::{Pairs, ROUNDS, median, milliseconds};
use cutter_benches::pg::{Floor, argument, fresh_id, has};
use cutter_pg::testing::TestServer;
use cutter_tests::pg::{PgWorld, RunTimes, document_of};

fn main() {
    let units = argument("--units", 1_000);
    let rounds = argument("--rounds", ROUNDS);
    let server = TestServer::durable();
    let world = PgWorld::new(&server);
    let ports = world.ports();
    let mut runs: Vec<RunTimes> = Vec::new();
    let register = || {
        let id = fresh_id("LAW");
        world.register(&ports, &id, &document_of(units, &id));
        id
    };
    let first = world.cut(&register(), || ports.clone());
    let counts = first.counts.clone();
    println!(
        "a run publishes {} files ({} bytes), commits {} transactions, backs up {} bytes, hashes the backup {} times",
        counts.published.len(),
        counts.published.iter().sum::<u64>(),
        counts.commits,
        counts.backup_bytes,
        counts.rehashes
    );
    let mut floor = Floor::new(&world, counts);
    for (name, fresh) in [("connections kept", false), ("new connections for each command", true)] {
        let pairs = Pairs::measure(
            rounds,
            || {
                let id = register();
                let run = world.cut(&id, || if fresh { world.ports() } else { ports.clone() });
                let total = run.total;
                runs.push(run);
                total
            },
            || floor.run(),
        );
        println!("{name}: {}", pairs.line("run", "floor", 3.0));
        if has("--profile") {
            profile(&runs);
        }
        runs.clear();
    }
    for (part, time) in floor.parts() {
        println!("floor {part:<20} {:>8.2} ms", milliseconds(time));
    }
}

/// Medians by phase and by port call.
fn profile(runs: &[RunTimes]) {
    let medians =
        |of: &dyn Fn(&RunTimes) -> Duration| median(runs.iter().map(|run| milliseconds(of(run))).collect());
    for (i, phase) in runs[0].phases.iter().enumerate() {
        println!("  phase {:<24} {:>8.2} ms", phase.phase, medians(&|run| run.phases[i].took));
    }
    let mut ops: Vec<_> = runs[0]
        .ops
        .iter()
        .map(|(name, op)| {
            let time = medians(&|run| {
                run.ops.iter().find(|(n, _)| n == name).map_or(Duration::ZERO, |(_, op)| op.took)
            });
            (name, op.calls, time)
        })
        .collect();
    ops.sort_by(|a, b| b.2.total_cmp(&a.2));
    let in_ports = ops.iter().map(|op| op.2).sum::<f64>();
    for (name, calls, time) in ops {
        println!("  call  {name:<24} {time:>8.2} ms  {calls} calls");
    }
    println!("  in ports {in_ports:.1} ms of {:.1} ms", medians(&|run| run.total));
}
