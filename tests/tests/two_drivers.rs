//! Two drivers and one run: one drives; a driver that slept while another finished is
//! refused everywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Barrier};
use std::thread;

use cutter_core::driver::{DriveError, Outcome};
use cutter_core::machine::run::Stage;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::testing::crash::{self, CrashWorld, FaultyPorts, Plan, Strike};
use cutter_tests::story::{Plot, Story, newest, snapshot};

/// The call after the lock: load, lock, load.
const AFTER_LOCK: u64 = 3;

#[test]
fn of_two_resumes_at_once_one_drives_and_the_other_is_busy_a_hundred_times() {
    let story = Story { from: Some(Stage::AwaitingCutAuthorization), ..Story::small(Plot::Whole) };
    let alone = story.fresh();
    let run_id = alone.world.runs()[0].clone();
    let sign = |scenario: &cutter_tests::Scenario| {
        let ask = newest(&scenario.world).unwrap().ask.unwrap();
        scenario.sign(&ask, ReviewVerdict::Approve);
    };
    sign(&alone);
    alone.resume(&alone.ports(), &run_id).unwrap();
    let expected = snapshot(&alone.world, true);

    for round in 0..100 {
        let scenario = Arc::new(story.fresh());
        sign(&scenario);
        let start = Arc::new(Barrier::new(2));
        let lives: Vec<_> = (0..2)
            .map(|_| {
                let (ports, life) =
                    FaultyPorts::wrap(scenario.ports(), Plan::at(AFTER_LOCK, Strike::FreezeBefore));
                let (scenario, start, run_id, at) =
                    (scenario.clone(), start.clone(), run_id.clone(), life.clone());
                let thread = thread::spawn(move || {
                    start.wait();
                    let result = scenario.resume(&ports, &run_id);
                    at.end();
                    result
                });
                (life, thread)
            })
            .collect();
        // Whoever has the lock stands still behind it until the other has come and gone.
        let drives: Vec<bool> = lives.iter().map(|(life, _)| life.wait_frozen()).collect();
        assert_eq!(drives.iter().filter(|d| **d).count(), 1, "round {round}: {drives:?}");
        for ((life, thread), drives) in lives.into_iter().zip(drives) {
            life.thaw();
            match thread.join().unwrap() {
                Ok(driven) if drives => assert!(matches!(driven.outcome, Outcome::Paused { .. })),
                Err(DriveError::Busy { .. }) if !drives => {}
                other => panic!("round {round}, drives {drives}: {other:?}"),
            }
        }
        assert_eq!(snapshot(&scenario.world, true), expected, "round {round}");
    }
}

/// Freezes at every call, with locks that exclude nobody.
fn refused_everywhere(plot: Plot) {
    let story = Story { leftovers: false, ..Story::small(plot) };
    let reference = crash::undisturbed(&story).unwrap();
    let report = crash::freeze_everywhere(&story, &reference);
    println!("{plot:?}: {report}");
    assert!(report.is_clean(), "{plot:?}: {report}");
    assert_eq!(report.strikes, 2 * reference.trace.len() as u64);
    let fenced = report.thawed.get("fenced").copied().unwrap_or(0);
    assert!(fenced * 4 > report.strikes, "{plot:?}: thawed drivers must find themselves fenced: {report}");
}

#[test]
fn a_driver_that_slept_through_a_whole_run_changes_nothing() {
    refused_everywhere(Plot::Whole);
}

#[test]
fn a_driver_that_slept_through_a_stop_changes_nothing() {
    refused_everywhere(Plot::StopAndResume);
}

#[test]
fn a_driver_that_slept_through_acknowledged_drift_changes_nothing() {
    refused_everywhere(Plot::DriftAck);
}

#[test]
fn a_driver_that_slept_through_a_void_changes_nothing() {
    refused_everywhere(Plot::VoidDrafts);
}
