//! A fleet of workers as real processes, killed, frozen and cut off from their database at random,
//! with approvals that arrive in random order: every run ends, once, as an undisturbed one does.
//!
//! Small by default. `tests/fleet` runs it in any size on the release build; the seed is printed
//! and taken from `CUTTER_SEED`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "fleet/chaos.rs"]
mod chaos;
#[path = "fleet/people.rs"]
mod people;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cutter_pg::testing::TestServer;
use cutter_tests::cli::{Counts, Deployment, Dice, UNITS, is_full, law};

use chaos::Chaos;

/// How a fleet is made.
struct Size {
    runs: usize,
    workers: usize,
    /// Seconds.
    lease: u64,
    restarts: usize,
    limit: Duration,
}

impl Size {
    fn asked() -> Self {
        let of = |name: &str, small: usize, full: usize| {
            let asked = std::env::var(name).ok().map(|text| text.parse().expect("a number"));
            asked.unwrap_or(if is_full() { full } else { small })
        };
        let runs = of("CUTTER_FLEET_RUNS", 24, 300);
        let workers = of("CUTTER_FLEET_WORKERS", 4, 8);
        let limit = Duration::from_secs(600 + 12 * runs as u64);
        Self { runs, workers, lease: 4, restarts: 2, limit }
    }
}

const UNITS_OF_A_LAW: usize = 5;

fn document(n: usize) -> String {
    format!("LAW-{n:05}")
}

#[test]
fn a_fleet_that_is_killed_frozen_and_cut_off_ends_every_run_once() {
    let size = Size::asked();
    let mut dice = Dice::new("fleet");
    let server = TestServer::durable();
    let d = Deployment::over(server.fresh_database());
    make_room(&d, &server, size.workers);
    put_first(&d, "runs = \"pg\"\n");

    // What one run leaves, undisturbed.
    let text = law(UNITS_OF_A_LAW - 1, "the fleet");
    d.register("LAW-REFERENCE", &text);
    let before = d.counts();
    let _ = d.whole_run("LAW-REFERENCE");
    let (of_one, units) = (d.added_since(&before), d.texts(UNITS, &[&"LAW-REFERENCE"]));
    assert_eq!(units.len(), UNITS_OF_A_LAW);

    let before = d.counts();
    for n in 0..size.runs {
        d.register(&document(n), &text);
        let priority = dice.below(3).to_string();
        let added = d.run(&["queue", "add", "--document-id", &document(n), "--priority", &priority]).exits(0);
        assert_eq!(added.json["already"], false);
    }
    let registered = d.added_since(&before);

    let started = Instant::now();
    let (is_over, board) = (AtomicBool::new(false), people::Board::default());
    let figures = std::thread::scope(|scope| {
        let helpers = (size.workers as u64 / 4).max(2);
        for helper in 0..helpers {
            let (d, board, is_over, seed) = (&d, &board, &is_over, dice.below(u64::MAX));
            scope.spawn(move || people::approve(d, board, is_over, seed, (helper, helpers)));
        }
        let mut chaos =
            Chaos::begin(&d, &server, &mut dice, size.workers, size.lease, size.restarts, size.runs);
        // Whatever fails, the people go home.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while !is_done(&d, size.runs) {
                assert!(started.elapsed() < size.limit, "not done in {:?}: {}", size.limit, chaos.shown());
                chaos.second();
            }
        }));
        is_over.store(true, Ordering::SeqCst);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
        chaos.end()
    });
    let took = started.elapsed();

    // Every item and every run ended in its right state, and there is no other run.
    let states = d.texts("SELECT state || ' ' || count(*) FROM cutter_queue.v_work_item GROUP BY state", &[]);
    assert_eq!(states, [format!("completed {}", size.runs)], "{}", figures.shown());
    let listed = d.run(&["orchestrate", "list", "--limit", "1000000"]).exits(0);
    let runs = listed.json["runs"].as_array().unwrap();
    let ended: BTreeMap<&str, usize> = runs.iter().fold(BTreeMap::new(), |mut count, run| {
        *count.entry(run["state"].as_str().unwrap()).or_default() += 1;
        count
    });
    assert_eq!(ended, BTreeMap::from([("closeout_reported", size.runs + 1)]));

    // Nothing doubled, nothing lost: the rows of one run, so many times.
    let times = |counts: &Counts| -> Counts {
        counts.iter().map(|(table, n)| (table.clone(), n * i64::try_from(size.runs).unwrap())).collect()
    };
    let mut expected = times(&of_one);
    for (table, n) in registered {
        *expected.entry(table).or_default() += n;
    }
    assert_eq!(d.added_since(&before), expected, "rows are missing or doubled");
    for n in 0..size.runs {
        assert_eq!(d.texts(UNITS, &[&document(n)]), units, "{}", document(n));
    }
    let step = (size.runs / 20).max(1);
    for run in runs.iter().step_by(step) {
        d.verify(run["run_id"].as_str().unwrap());
    }
    let report = format!(
        "fleet: {} runs by {} workers in {:.0} s ({:.2} runs/s); {}",
        size.runs,
        size.workers,
        took.as_secs_f64(),
        size.runs as f64 / took.as_secs_f64(),
        figures.shown()
    );
    let _ = writeln!(std::io::stderr(), "{report}");
    assert!(figures.kills + figures.freezes > 0, "nobody was disturbed: {report}");
    assert_eq!(figures.restarts, size.restarts, "{report}");
    // A lease that ran out is seen within a poll, by the first hand that is free. How soon that is
    // on a busy machine is the report's to say; what nobody sees is waited for without end.
    assert!(figures.longest_overdue < Duration::from_secs(10 * size.lease), "stuck: {report}");
}

/// Connections enough for every worker with two hands (docs/workers.md counts them), and for those who look on.
fn make_room(d: &Deployment, server: &TestServer, workers: usize) {
    let connections = 60 + workers * 20;
    d.tamper(&format!("ALTER SYSTEM SET max_connections = {connections}"));
    server.cluster().stop().unwrap();
    server.cluster().start().unwrap();
}

/// Settings before the first section.
fn put_first(d: &Deployment, settings: &str) {
    let path = d.path("cutter.toml");
    let old = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, format!("{settings}{old}")).unwrap();
}

fn is_done(d: &Deployment, runs: usize) -> bool {
    let stats = d.run(&["queue", "stats"]);
    // The server may be down for the moment.
    let by_state = |state: &str| stats.json["by_state"][state].as_u64().unwrap_or(0);
    let failed = by_state("failed") + by_state("cancelled");
    if failed > 0 {
        // Asked of the server itself: what failed them may fail the command, too.
        let sql = "SELECT jsonb_pretty(to_jsonb(i)) FROM cutter_queue.v_work_item i
                   WHERE i.state IN ('failed', 'cancelled') LIMIT 3";
        panic!("{failed} items failed: {:#?}", d.texts(sql, &[]));
    }
    by_state("completed") == runs as u64
}
