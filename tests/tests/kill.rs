//! `kill -9` and SIGSTOP at random moments of real processes over a real database: resumed, a
//! run comes to the same result, with no row twice and no lock left behind; and a frozen driver
//! that wakes up after its successor is refused everywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::time::{Duration, Instant};

use cutter_tests::cli::{Counts, Deployment, Dice, Ran, Running, Signal, UNITS, is_full, law};
use serde_json::Value;

/// An undisturbed run to compare with.
struct Reference {
    units: Vec<String>,
    added: Counts,
    documents: Vec<String>,
    /// What a whole command took lately: the machine may be busier now and then.
    took: Cell<Duration>,
}

fn documents(d: &Deployment, run_id: &str) -> Vec<String> {
    let folder = d.status(run_id).exits(0).text("/kb_folder").to_owned();
    let name = |(path, _): (std::path::PathBuf, _)| path.file_name().unwrap().to_str().unwrap().to_owned();
    d.files("kb").into_iter().filter(|(path, _)| path.to_str().unwrap().contains(&folder)).map(name).collect()
}

impl Reference {
    fn of(d: &Deployment, document_id: &str, text: &str) -> Self {
        d.register(document_id, text);
        let before = d.counts();
        let started = Instant::now();
        let run_id = d.cut(document_id);
        let mut took = started.elapsed();
        d.approve(&run_id, "cut");
        let started = Instant::now();
        let _ = d.resume(&run_id).exits(0);
        took = took.max(started.elapsed());
        d.finish_run(&run_id);
        let units = d.texts(UNITS, &[&document_id]);
        assert!(!units.is_empty());
        Self { units, added: d.added_since(&before), documents: documents(d, &run_id), took: Cell::new(took) }
    }

    /// What every disturbed run must have come to, after that many stops.
    fn assert_same(&self, d: &Deployment, document_id: &str, run_id: &str, before: &Counts, stopped: usize) {
        assert_eq!(d.texts(UNITS, &[&document_id]), self.units, "{document_id}");
        assert_eq!(d.added_since(before), self.added, "{document_id}: rows are missing or doubled");
        let (stops, filed): (Vec<String>, Vec<String>) =
            documents(d, run_id).into_iter().partition(|name| name.starts_with("stop-route-report-"));
        assert_eq!(filed, self.documents, "{document_id}");
        assert_eq!(stops.len(), stopped, "{document_id}: a paper for each stop and no more: {stops:?}");
        let index = d.files("kb").into_iter().filter_map(|(_, bytes)| String::from_utf8(bytes).ok());
        let lines = index.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let lines: Vec<String> = lines.filter(|l| l.starts_with("- `") && l.contains(run_id)).collect();
        assert_eq!(lines.len(), 1, "one index line: {lines:?}");
        d.verify(run_id);
    }
}

/// The document's run that is not voided, if there is one.
fn open_run(d: &Deployment, document_id: &str) -> Option<String> {
    let list = d.run(&["orchestrate", "list"]).exits(0).json;
    let runs = list.pointer("/runs").and_then(Value::as_array).unwrap();
    let of = |run: &&Value| {
        let state = run["state"].as_str().unwrap();
        run["document_id"] == document_id && !state.starts_with("voided")
    };
    runs.iter().find(of).map(|run| run["run_id"].as_str().unwrap().to_owned())
}

/// Starts the command that is next and may kill it. Gives what it said if it was not killed.
fn step(d: &Deployment, dice: &mut Dice, reference: &Reference, arguments: &[&str]) -> Option<Ran> {
    let started = Instant::now();
    let running = d.start(arguments);
    let limit = u64::try_from(reference.took.get().as_micros()).unwrap() * 9 / 8;
    let ran = match dice.below(4) {
        0 => Some(running.wait()),
        _ => running.kill_after(Duration::from_micros(dice.below(limit))),
    };
    if ran.as_ref().is_some_and(|ran| ran.state().starts_with("awaiting_")) {
        reference.took.set(started.elapsed());
    }
    ran
}

/// Drives a document to its end, killing at random; gives the run and the number of kills.
fn torture(d: &Deployment, dice: &mut Dice, reference: &Reference, document_id: &str) -> (String, u32) {
    let mut kills = 0;
    for _ in 0..60 {
        let Some(run_id) = open_run(d, document_id) else {
            let ran = step(d, dice, reference, &["orchestrate", "cut", "--document-id", document_id]);
            kills += u32::from(ran.is_none());
            continue;
        };
        let Some(ran) = step(d, dice, reference, &["orchestrate", "resume", "--run-id", &run_id]) else {
            kills += 1;
            continue;
        };
        match ran.state() {
            "closeout_reported" => return (run_id, kills),
            // a run that died before it had its document
            state if state.starts_with("voided") => {}
            "awaiting_cut_authorization" => d.approve(&run_id, "cut"),
            "awaiting_lifecycle_authorization" => d.approve(&run_id, "lifecycle"),
            other => panic!("{run_id} stands at {other:?}: {:?}\n{}\n{}", ran.code, ran.stdout, ran.stderr),
        }
    }
    panic!("{document_id} does not come to its end");
}

#[test]
fn killed_at_random_moments_and_resumed_a_run_comes_to_the_same_result() {
    let wanted = if is_full() { 100 } else { 12 };
    let mut dice = Dice::new("kill");
    let d = Deployment::new();
    let text = law(12, "the kill");
    let reference = Reference::of(&d, "LAW-0000", &text);
    let mut kills = 0;
    let mut n = 0;
    while kills < wanted {
        n += 1;
        assert!(n <= wanted, "{kills} kills in {n} runs: the moments are badly chosen");
        let document_id = format!("LAW-{n:04}");
        d.register(&document_id, &text);
        let before = d.counts();
        let (run_id, killed) = torture(&d, &mut dice, &reference, &document_id);
        kills += killed;
        reference.assert_same(&d, &document_id, &run_id, &before, 0);
        // no stale lock: nobody holds the run, and it can be taken at once
        let held = d.status(&run_id).exits(0).json.pointer("/holder").cloned();
        assert!(held.is_none_or(|holder| holder.is_null()), "a lock is left");
        let again = d.resume(&run_id).exits(0);
        assert_eq!(again.state(), "closeout_reported");
        let replay = d.run(&["orchestrate", "cut", "--document-id", &document_id]).exits(0);
        assert_eq!(replay.text("/replayed_from"), run_id);
    }
    let locks: Vec<String> = d.texts(
        "SELECT application_name FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'cutter/%'",
        &[],
    );
    assert!(locks.is_empty(), "sessions are left: {locks:?}");
}

fn highest_revision(d: &Deployment, run_id: &str) -> usize {
    std::fs::read_dir(d.run_folder(run_id).join("rev")).map_or(0, Iterator::count)
}

/// Waits until the run has `revision`, then freezes its driver; false if it ended before.
fn freeze_at(d: &Deployment, running: &mut Running, run_id: &str, revision: usize) -> bool {
    while highest_revision(d, run_id) < revision {
        if !running.is_alive() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    running.signal(Signal::STOP)
}

/// Drives a run to its end; false if the knowledge base is held by another process for good.
fn finishes(d: &Deployment, run_id: &str) -> bool {
    for _ in 0..4 {
        let ran = d.resume(run_id);
        match ran.state() {
            "closeout_reported" => return true,
            "awaiting_cut_authorization" => d.approve(run_id, "cut"),
            "awaiting_lifecycle_authorization" => d.approve(run_id, "lifecycle"),
            _ => {
                let held = ran.stop_code() == "STOP_KB_UPLOAD" && ran.stdout.contains("has held it for");
                assert!(held, "{}\n{}", ran.stdout, ran.stderr);
                return false;
            }
        }
    }
    panic!("{run_id} does not come to its end");
}

/// The lock file is taken away, as on a file system whose locks another host does not see:
/// only the fence and the revisions are left to tell the drivers apart.
#[test]
fn a_frozen_driver_that_wakes_after_its_successor_is_refused_everywhere() {
    let rounds = if is_full() { 24 } else { 4 };
    let mut dice = Dice::new("freeze");
    let d = Deployment::new();
    let text = law(12, "the freeze");
    let reference = Reference::of(&d, "LAW-0000", &text);
    let mut refused = 0;
    for n in 1..=rounds * 4 {
        let document_id = format!("LAW-{n:04}");
        d.register(&document_id, &text);
        let before = d.counts();
        let run_id = d.cut(&document_id);
        d.approve(&run_id, "cut");
        let from = highest_revision(&d, &run_id);
        // SG_1's approval to SG_2's request is some nine revisions
        let at = from + 1 + usize::try_from(dice.below(8)).unwrap();
        let mut frozen = d.start(&["orchestrate", "resume", "--run-id", &run_id]);
        if !freeze_at(&d, &mut frozen, &run_id, at) {
            let _ = frozen.wait();
            continue;
        }
        // with its lock, nobody gets by
        let busy = d.resume(&run_id).exits(75);
        assert_eq!(busy.stop_code(), "STOP_RUN_BUSY");
        std::fs::remove_file(d.run_folder(&run_id).join("state.lock")).unwrap();
        if !finishes(&d, &run_id) {
            // frozen in the middle of filing a document, it holds the knowledge base: its
            // successor stopped and said so, and goes on when it is gone
            frozen.signal(Signal::CONT);
            let woken = frozen.wait().exits(3);
            assert_eq!(woken.stop_code(), "STOP_FENCED", "{}", woken.stdout);
            d.finish_run(&run_id);
            // the stop may have found no way into the knowledge base, then or later
            let papers = documents(&d, &run_id).iter().filter(|name| name.starts_with("stop-")).count();
            assert!(papers <= 1, "{document_id}: one stop, {papers} papers");
            reference.assert_same(&d, &document_id, &run_id, &before, papers);
            continue;
        }
        let (rows, kb, runs) = (d.counts(), d.files("kb"), d.files(&format!("runs/{run_id}/rev")));
        frozen.signal(Signal::CONT);
        let woken = frozen.wait();
        assert_eq!(woken.code, Some(3), "{}\n{}", woken.stdout, woken.stderr);
        assert_eq!(woken.stop_code(), "STOP_FENCED", "{}", woken.stdout);
        assert_eq!(d.counts(), rows, "it wrote rows");
        assert_eq!(d.files("kb"), kb, "it wrote documents");
        assert_eq!(d.files(&format!("runs/{run_id}/rev")), runs, "it wrote revisions");
        reference.assert_same(&d, &document_id, &run_id, &before, 0);
        refused += 1;
        if refused == rounds {
            return;
        }
    }
    panic!("only {refused} drivers could be frozen");
}
