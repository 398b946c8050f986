//! A database that has rows in it, migrated as far as an older program knew, goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archive_fixture;

use archive_fixture::{FOREIGN, FUNCTIONS, eventful};
use cutter_pg::definitions::Definitions;
use cutter_pg::login::{Login, LoginPasswords};
use cutter_pg::migrate::{MigrateError, Migrator, ensure_logins};
use cutter_pg::migrations::migrations;
use cutter_pg::testing::TestServer;

/// A request at each status that an older program could leave, its timeline without the server's clock.
const REQUESTS: &str = "
    DO $do$
    DECLARE v_id uuid; v_path text[]; v_step text;
    BEGIN
        FOREACH v_step IN ARRAY ARRAY['', 'copied', 'copied mark_in_progress marked mark_rejected',
            'copied mark_in_progress marked mark_verified cut_in_progress cut_failed',
            'copied mark_in_progress marked mark_verified cut_in_progress cut_done cut_verified completed cleanup_scheduled']
        LOOP
            v_id := public.fn_cut_request_add('a.md', NULL, 'customer');
            FOREACH v_step IN ARRAY string_to_array(v_step, ' ') LOOP
                PERFORM public.fn_cut_request_transition(v_id, v_step, 'me', NULL);
            END LOOP;
        END LOOP;
        UPDATE cutter_queue.job_signal SET finished_at = now() WHERE finished_at IS NULL;
    END $do$;
    SELECT cutter_run.fn_run_create('run-1', '\\x01');
    SELECT cutter_run.fn_lease_take('run-1', gen_random_uuid(), 'not JSON', 60000);
    SELECT cutter_run.fn_claim_put('A', 1, 'a run that is not there');
    INSERT INTO cutter_governance.run_fence (run_id, document_id, epoch, holder)
    VALUES ('ictr-20260520T101112Z-01970000-0000-7000-8000-00000000aaaa', 'A', 1, gen_random_uuid());
    INSERT INTO cutter_governance.run_effect (run_id, effect, occurrence, effect_id, fence_epoch, payload_sha256, verdict,
        facts, at, document_id)
    VALUES ('ictr-20260520T101112Z-01970000-0000-7000-8000-00000000aaaa', 'mark', 1, gen_random_uuid(), 1,
        repeat('0', 64), 'commit', '{}', now(), 'A')";

#[test]
fn a_database_with_rows_goes_on_as_it_stood() {
    let database = TestServer::shared().empty_database();
    let mut admin = database.client(Login::Admin);
    let _ = ensure_logins(&mut admin, &LoginPasswords::new());
    let old = Migrator::new(&migrations()[..19]).unwrap();
    old.run(&mut admin).unwrap();
    admin.batch_execute(FUNCTIONS).unwrap();
    eventful(&mut admin, FOREIGN);
    admin.batch_execute(REQUESTS).unwrap();
    let state = "SELECT d.document_id || ' ' || cutter_governance.fn_base_state(d.document_id, '')
        FROM iu_core.source_document d ORDER BY 1";
    let rows = |client: &mut postgres::Client| -> Vec<String> {
        client.query(state, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    };
    let before = rows(&mut admin);
    assert!(before.iter().any(|line| line.starts_with(FOREIGN)), "{before:?}");
    let at_work = Migrator::shipped().unwrap().run(&mut admin).unwrap_err();
    assert!(
        matches!(&at_work, MigrateError::AtWork { count: 1, what, holder, .. } if what == "run run-1" && holder == "not JSON"),
        "{at_work}"
    );
    admin.batch_execute("UPDATE cutter_run.lease SET expires_at = clock_timestamp()").unwrap();
    let applied = Migrator::shipped().unwrap().run(&mut admin).unwrap();
    let newer: Vec<u32> = migrations().iter().map(|m| m.version).filter(|version| *version > 19).collect();
    assert_eq!(applied, newer);
    assert_eq!(rows(&mut admin), before, "the base states print as before");
    let faults = Definitions::shipped().faults(&Definitions::observed(&mut admin).unwrap());
    assert_eq!(faults, Vec::<String>::new(), "as one that is new");
    let moved = "SELECT count(*) FROM cutter_meta.migration_move WHERE version = 20";
    assert!(admin.query_one(moved, &[]).unwrap().get::<_, i64>(0) > 0, "pins follow");
    // What was due by the row alone is due still: nobody recorded the server's clock then.
    let due = "SELECT count(*) FROM public.fn_cut_cleanup_due(now() + interval '16 days', 10)";
    assert_eq!(admin.query_one(due, &[]).unwrap().get::<_, i64>(0), 1);
    // A lease of before is written again by whoever takes it, who says who they are.
    let take = "SELECT cutter_run.fn_lease_take('run-1', gen_random_uuid(), 'not JSON', 1000)";
    assert!(admin.batch_execute(take).is_err());
    let holder = r#"{"holder":"h","host":"h","pid":1,"since":"s","command":"c"}"#;
    admin.batch_execute(&take.replace("not JSON", holder)).unwrap();
}
