//! Of leases, and of moves that the run store shows.

use cutter_pg::login::Login;

use super::Scene;
use super::support::{World, id};

#[test]
fn a_lease_that_was_given_back_is_not_renewed_and_not_given_back_again() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    exec.batch_execute("SELECT cutter_run.fn_run_create('r', convert_to('{}', 'UTF8'))").unwrap();
    let holder = r#"{"holder":"h","host":"h","pid":1,"since":"s","command":"c"}"#;
    let take = format!("SELECT token FROM cutter_run.fn_lease_take('r', '{}', '{holder}', 60000)", id());
    let mut scene = Scene::of(&world, "cutter_exec").before(&take);
    let renew = "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 60000)";
    let release = "SELECT cutter_run.fn_lease_release('r', 1)";
    let released = "UPDATE cutter_run.lease SET released_at = clock_timestamp()";
    scene.holds(&[
        ("", renew, "r"),
        ("", release, "t"),
        (released, renew, ""),
        (released, release, "f"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[2], 60000)", ""),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['s'], ARRAY[1], 60000)", ""),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 0)", "CU001"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 1)", "r"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 86400000)", "r"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], 86400001)", "CU001"),
        ("", "SELECT cutter_run.fn_lease_renew(ARRAY['r'], ARRAY[1], NULL)", "CU001"),
        ("", "SELECT cutter_run.fn_lease_release('r', 2)", "f"),
        ("", "SELECT cutter_run.fn_lease_release('s', 1)", "f"),
    ]);
}

#[test]
fn no_move_out_of_an_end_is_legal() {
    let world = World::new();
    let moves = |states: &[&str]| {
        let mut client = world.database.client(Login::Admin);
        client.batch_execute("BEGIN; SET LOCAL session_replication_role = replica").unwrap();
        client
            .batch_execute(
                "SELECT cutter_run.fn_run_create('r', convert_to('{\"state\":\"pending\"}', 'UTF8'))",
            )
            .unwrap();
        for (n, state) in (2_i64..).zip(states) {
            let body = match state.split_once('/') {
                Some((state, kept)) => serde_json::json!({ "state": state, "kept_stage": kept }),
                None => serde_json::json!({ "state": state }),
            };
            let body = body.to_string().into_bytes();
            let insert = "INSERT INTO cutter_run.revision (run_id, revision, body) VALUES ('r', $1, $2)";
            client.execute(insert, &[&n, &body]).unwrap();
        }
        let legal =
            client.query("SELECT is_legal FROM cutter_run.v_run_move ORDER BY revision", &[]).unwrap();
        client.batch_execute("ROLLBACK").unwrap();
        legal.iter().map(|row| row.get(0)).collect::<Vec<bool>>()
    };
    assert_eq!(moves(&["source_pinned", "marked"]), [true, true, true]);
    assert_eq!(moves(&["marked"]), [true, false], "a step is left out");
    let cases: [(&[&str], &[bool]); 9] = [
        (&["voided_by_sovereign/pending"], &[true, true]),
        (&["voided_by_sovereign/pending", "source_pinned"], &[true, true, false]),
        (&["voided_by_sovereign/pending", "stopped_x/pending"], &[true, true, false]),
        (&["voided_by_sovereign/pending", "voided_again/pending"], &[true, true, false]),
        (&["failed_x/pending"], &[true, true]),
        (&["failed_x/pending", "source_pinned"], &[true, true, false]),
        (&["failed_x/pending", "voided_by_sovereign/pending"], &[true, true, true]),
        (&["stopped_x/pending", "source_pinned"], &[true, true, true]),
        (&["stopped_x/pending", "marked"], &[true, true, false]),
    ];
    for (states, legal) in cases {
        assert_eq!(moves(states), legal, "{states:?}");
    }
}
