//! A run may die at any port call and still leaves what an undisturbed run leaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Instant;

use cutter_core::testing::crash::{self, CrashReport, Plan, Reference, Schedule, Strike};
use cutter_tests::story::{Plot, Story};

/// Every pair of calls, ten thousand random series: an hour of work.
fn full() -> bool {
    std::env::var_os("CUTTER_FULL").is_some()
}

fn undisturbed(story: &Story) -> Reference {
    crash::undisturbed(story).unwrap_or_else(|error| panic!("{:?}: {error}", story.plot))
}

fn expect_clean(plot: Plot, what: &str, since: Instant, report: &CrashReport) {
    println!("{plot:?}, {what}: {report}in {:?}", since.elapsed());
    assert!(report.strikes > 0, "{plot:?}, {what}: nothing was struck");
    assert!(report.is_clean(), "{plot:?}, {what}: {report}");
}

fn every_point(plot: Plot) {
    let story = Story::small(plot);
    let (since, reference) = (Instant::now(), undisturbed(&story));
    let report = crash::every_point(&story, &reference, &[Strike::DieBefore, Strike::DieAfter]);
    assert_eq!(report.schedules, 2 * reference.trace.len() as u64);
    assert_eq!(report.strikes, report.schedules, "{plot:?}: a planned death did not happen");
    expect_clean(plot, "every point", since, &report);

    let since = Instant::now();
    let lost = [Strike::UnknownDone, Strike::UnknownNotDone];
    let report = crash::every_commit(&story, &reference, &lost);
    assert_eq!(report.strikes, 2 * reference.commits());
    expect_clean(plot, "every lost COMMIT", since, &report);
}

#[test]
fn a_whole_run_survives_death_at_every_call() {
    every_point(Plot::Whole);
}

#[test]
fn a_stop_and_its_resumption_survive_death_at_every_call() {
    every_point(Plot::StopAndResume);
}

#[test]
fn a_refusal_and_its_void_survive_death_at_every_call() {
    every_point(Plot::Refuse);
}

#[test]
fn a_deferral_that_is_asked_again_survives_death_at_every_call() {
    every_point(Plot::Defer);
}

#[test]
fn acknowledged_drift_survives_death_at_every_call() {
    every_point(Plot::DriftAck);
}

#[test]
fn a_void_of_drafts_survives_death_at_every_call() {
    every_point(Plot::VoidDrafts);
}

#[test]
fn a_failed_write_verify_survives_death_at_every_call() {
    every_point(Plot::VerifyFails);
}

/// A record, a document or a claim whose answer was lost is written again under the same key,
/// which says what became of it; no stop, and no paper about one.
#[test]
fn a_lost_answer_of_any_store_is_found_out() {
    let story = Story::small(Plot::Whole);
    let (since, reference) = (Instant::now(), undisturbed(&story));
    let stores = ["run_store.create", "run_store.put_claim", "run_store.publish", "run_store.publish_last"];
    let papers = ["knowledge_base.create", "knowledge_base.append_index"];
    let numbered = (1..).zip(&reference.trace);
    let writes = numbered.filter(|(_, call)| {
        let name = call.to_string();
        stores.contains(&name.as_str()) || papers.contains(&name.as_str())
    });
    let lost = [Strike::UnknownDone, Strike::UnknownNotDone];
    let schedules: Vec<Schedule> = writes
        .flat_map(|(n, _)| lost.map(|strike| Schedule { lives: vec![Plan::at(n, strike)], seed: None }))
        .collect();
    let planned = schedules.len() as u64;
    let report = crash::these(&story, &reference, schedules);
    assert_eq!(report.strikes, planned);
    expect_clean(story.plot, "every lost answer of a store", since, &report);
}

#[test]
fn pairs_of_deaths() {
    let story = Story::small(Plot::Whole);
    let (since, reference) = (Instant::now(), undisturbed(&story));
    let thin = if full() { 1 } else { 229 };
    let report = crash::every_pair(&story, &reference, thin);
    expect_clean(story.plot, "pairs", since, &report);
}

#[test]
fn random_series_of_deaths() {
    let seeds = if full() { 10_000 } else { 300 };
    for (i, plot) in Plot::ALL.into_iter().enumerate() {
        let story = Story::small(plot);
        let (since, reference) = (Instant::now(), undisturbed(&story));
        // half of the series strike the whole run, the others the other plots
        let share = if plot == Plot::Whole { seeds / 2 } else { seeds / 12 + 1 };
        let first = 1_000_000 * i as u64;
        println!("seeds {first}..{}", first + share);
        let report = crash::random(&story, &reference, first..first + share, 6);
        expect_clean(plot, "random series", since, &report);
    }
}
