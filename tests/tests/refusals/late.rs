//! What happens late: time that passed unseen, and a rehearsal that goes on after its process died.

use cutter_core::port::Port;
use std::sync::Arc;

use cutter_core::driver::Outcome;
use cutter_core::port::environment::{Observer, Progress};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::Mode;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, When, World};
use cutter_tests::Scenario;
use cutter_tests::refusal::Gate;

/// A clock that jumps while leg A is prepared, after the record was last written.
struct Slow(World);

impl Observer for Slow {
    fn progress(&self, progress: &Progress) {
        if matches!(progress, Progress::Units(_)) {
            self.0.advance(24 * 3_600_000);
        }
    }
}

#[test]
fn time_that_passed_since_the_record_was_written_counts_before_an_effect_begins() {
    let s = Scenario::new(91);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let mut ports = s.ports();
    ports.observer = Arc::new(Slow(s.world.clone()));
    let driven = s.resume(&ports, &run_id).unwrap();
    s.assert_stopped(
        &driven,
        "STOP_AND_ESCALATE",
        "stopped_and_escalate",
        Gate::Cut.awaiting(),
        &["cap soft"],
    );
    assert_eq!(s.rows_of("cut_change_set").len(), 0, "nothing is begun that has no time left");
}

#[test]
fn a_rehearsal_that_died_anywhere_goes_on_and_writes_nothing() {
    for nth in 2.. {
        let s = Scenario::new(92);
        let when = When::Operation { port: Port::RunStore, op: "publish".into(), nth };
        let plan = FaultPlan::one(Fault { when, kind: FaultKind::DieBefore });
        if s.cut_mode(&s.process(plan).1, Mode::Dryrun).is_ok() {
            assert!(nth > 8, "{nth}: it was struck at each of its steps before");
            break;
        }
        let run_id = s.world.runs()[0].clone();
        let driven = s.resume(&s.ports(), &run_id).unwrap();
        assert_eq!(driven.outcome, Outcome::DryRunDone, "{nth}");
        assert_eq!(s.rows_of("run_effect").len(), 0);
    }
}
