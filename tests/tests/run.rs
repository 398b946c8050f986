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
    // nine effects, three fences, two asks, two answers, the statement and its second signature
    assert_eq!(times.counts.commits, 18, "{:?}", times.ops);
}

#[test]
fn a_run_whose_id_is_fixed_elsewhere_is_found_under_it() {
    use cutter_core::base::id::RunId;
    use cutter_core::driver::{self, NewRun};
    use cutter_core::record::sidecar::Mode;
    use futures_executor::block_on;

    let scenario = Scenario::new(1);
    let run_id: RunId = "ictr-20260520T101112Z-01970000-0000-7000-8000-000000000001".parse().unwrap();
    let start = || {
        let order = NewRun {
            document_id: cutter_tests::DOCUMENT.into(),
            mode: Mode::Live,
            settings: scenario.settings.clone(),
            run_id: Some(run_id.clone()),
        };
        block_on(driver::cut(&scenario.ports(), &cutter_tests::caller(), order)).unwrap()
    };
    let mut driven = start();
    assert_eq!(driven.sidecar.run_id, run_id);
    assert!(scenario.sign_if_asked(&driven.outcome));
    // The same order again goes on with the run that stands, and never makes a second one.
    driven = start();
    assert!(scenario.sign_if_asked(&driven.outcome));
    assert_eq!(start().outcome, Outcome::Completed);
    assert_eq!(start().sidecar.run_id, run_id);
    assert_eq!(block_on(scenario.ports().runs.list()).unwrap().len(), 1);
}

#[test]
fn a_run_cuts_by_an_explicit_manifest() {
    let mut scenario = Scenario::new(1);
    let end = scenario.text.len();
    let unit = |address: &str, start: usize, end: usize| {
        serde_json::json!({"address": address, "unit_kind": "article", "section_type": "general",
            "start": start, "end": end})
    };
    let document = cutter_tests::DOCUMENT;
    let units = [unit(&format!("{document}/art-1"), 0, 7), unit(&format!("{document}/art-2"), 7, end)];
    scenario.settings.manifest = Some(serde_json::json!({"schema": 1, "units": units}));
    let driven = scenario.whole_run().unwrap();
    assert_eq!(driven.outcome, Outcome::Completed, "{:?}", driven.sidecar.last_error);
    assert_eq!(driven.sidecar.context_pins["candidate_count"], "2");
    // One that does not tile the region is refused by the first gate.
    let mut hole = Scenario::new(2);
    let units = [unit(&format!("{document}/art-1"), 0, 7), unit(&format!("{document}/art-2"), 8, end)];
    hole.settings.manifest = Some(serde_json::json!({"schema": 1, "units": units}));
    assert_eq!(hole.whole_run().unwrap().sidecar.state, "failed_source_pin");
    // One that the run's record cannot hold is refused before there is a run.
    let mut long = Scenario::new(3);
    let units: Vec<_> = (0..300).map(|n| unit(&format!("{document}/art-{n}"), n, n + 1)).collect();
    long.settings.manifest = Some(serde_json::json!({"schema": 1, "units": units}));
    let refused = long.cut(&long.ports()).unwrap_err().to_string();
    assert!(refused.contains("expected at most 16384 bytes"), "{refused}");
}
