//! The same run resumed by two processes at once: one drives, the other is busy, nothing doubles.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_tests::cli::{Deployment, UNITS, is_full, law};

#[test]
fn of_two_processes_that_resume_a_run_one_drives_and_the_other_is_busy() {
    let races = if is_full() { 100 } else { 10 };
    let d = Deployment::new();
    let text = law(12, "the race");
    d.register("LAW-0000", &text);
    let before = d.counts();
    let _ = d.whole_run("LAW-0000");
    let (added, units) = (d.added_since(&before), d.texts(UNITS, &[&"LAW-0000"]));
    let (mut raced, mut n) = (0, 0);
    while raced < races {
        n += 1;
        let document_id = format!("LAW-{n:04}");
        d.register(&document_id, &text);
        let before = d.counts();
        let run_id = d.cut(&document_id);
        for (what, then) in [("cut", "awaiting_lifecycle_authorization"), ("lifecycle", "closeout_reported")]
        {
            d.approve(&run_id, what);
            let resume = ["orchestrate", "resume", "--run-id", &run_id];
            let both = [d.start(&resume), d.start(&resume)].map(cutter_tests::cli::Running::wait);
            let mut codes = both.each_ref().map(|ran| ran.code);
            codes.sort_unstable();
            assert_eq!(codes, [Some(0), Some(75)], "{both:#?}");
            let winner = both.iter().find(|ran| ran.code == Some(0)).unwrap();
            assert_eq!(winner.state(), then);
            let loser = both.iter().find(|ran| ran.code == Some(75)).unwrap();
            assert_eq!(loser.stop_code(), "STOP_RUN_BUSY");
            assert!(loser.stdout.contains(&run_id) && loser.text("/error/next/0").contains("cutter "));
            raced += 1;
        }
        assert_eq!(d.added_since(&before), added, "rows are missing or doubled");
        assert_eq!(d.texts(UNITS, &[&document_id]), units);
        d.verify(&run_id);
    }
}
