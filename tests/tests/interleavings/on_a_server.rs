//! Stories on a real server: four, or sixty with `CUTTER_FULL`, told by four tests side by side.

use cutter_tests::pg::PgWorld;
use proptest::strategy::{Strategy as _, ValueTree as _};

use super::{Server, acts, tell};

/// Every fourth story, from this one on.
fn every_fourth_from(first: u64) {
    let land = Server(PgWorld::new(cutter_pg::testing::TestServer::shared()));
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let stories = if std::env::var_os("CUTTER_FULL").is_some() { 60 } else { 4 };
    for story in 0..stories {
        // every test makes them all, so that a story is the same in whichever it is told
        let told = acts().new_tree(&mut runner).unwrap().current();
        if story % 4 == first {
            tell(&land, story, &told);
        }
    }
}

#[test]
fn the_machines_agree_whatever_happens_first() {
    every_fourth_from(0);
}

#[test]
fn the_machines_agree_whatever_happens_second() {
    every_fourth_from(1);
}

#[test]
fn the_machines_agree_whatever_happens_third() {
    every_fourth_from(2);
}

#[test]
fn the_machines_agree_whatever_happens_fourth() {
    every_fourth_from(3);
}
