//! A whole run on memory ports.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_core::driver::Outcome;
use cutter_tests::Scenario;

#[test]
fn a_run_goes_through_both_gates_to_closeout() {
    let scenario = Scenario::new(1);
    let driven = scenario.whole_run().unwrap();
    assert_eq!(driven.outcome, Outcome::Completed, "{:?}", driven.sidecar.last_error);
    assert_eq!(driven.sidecar.state, "closeout_reported");
    assert_eq!(driven.sidecar.documents.len(), 13);
}
