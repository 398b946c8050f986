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

#[test]
fn a_run_on_postgresql_and_folders_goes_through_both_gates_to_closeout() {
    let world = cutter_tests::pg::PgWorld::new(cutter_pg::testing::TestServer::shared());
    let times = world.run_document("X-LAW-1", &cutter_tests::pg::document_of(50, "one"));
    assert_eq!(times.driven.sidecar.state, "closeout_reported");
    assert_eq!(times.driven.sidecar.documents.len(), 13);
    assert_eq!(times.phases.len(), 11);
    // What the database holds, seen by its administrator.
    let mut client = world.database.client(cutter_pg::login::Login::Admin);
    let sql = "SELECT count(*) FROM iu_core.information_unit WHERE lifecycle_status = 'enacted'";
    assert_eq!(client.query_one(sql, &[]).unwrap().get::<_, i64>(0), 50);
    assert_eq!(times.counts.commits, 12, "{:?}", times.ops);
}
