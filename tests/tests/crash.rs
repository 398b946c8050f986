//! A run may die at any port call and still leaves what an undisturbed run leaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_core::crash::{self, Strike};
use cutter_tests::story::{Plot, Story};

fn full() -> bool {
    std::env::var_os("CUTTER_FULL").is_some()
}

#[test]
fn every_single_point_of_every_story() {
    for plot in Plot::ALL {
        let story = Story::small(plot);
        let reference = crash::undisturbed(&story).unwrap_or_else(|e| panic!("{plot:?}: {e}"));
        let start = std::time::Instant::now();
        let report = crash::every_point(&story, &reference, &[Strike::DieBefore, Strike::DieAfter]);
        println!("{plot:?}: {report} in {:?}", start.elapsed());
        assert_eq!(report.schedules, 2 * report.calls);
        assert!(report.strikes >= report.schedules, "{plot:?}: a planned death did not happen");
        assert!(report.is_clean(), "{plot:?}: {report}");
    }
}
