//! Of the run store, the ledger of commands and the queue.

use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;

use super::Calls;

const HOLDER: &str = r#"'{"holder":"h","host":"h","pid":1,"since":"s","command":"c"}'"#;
const ME: &str = "'00000000-0000-4000-8000-00000000000a'";

#[test]
fn of_the_run_store() {
    let database = TestServer::shared().fresh_database();
    let mut exec = database.client(Login::Exec);
    exec.batch_execute(
        "SELECT cutter_run.fn_run_create('r', convert_to('{\"state\":\"pending\",\"a\":1}', 'UTF8'))",
    )
    .unwrap();
    let take = format!("SELECT FROM cutter_run.fn_lease_take('r', {ME}, {HOLDER}, 60000)");
    exec.batch_execute(&take).unwrap();
    let mut calls = Calls::of(&database, "run_store.tsv");
    let body = r#"convert_to('{"state":"source_pinned","a":1}', 'UTF8')"#;
    let publish = ["'r'", "1", body, "NULL", "NULL", "1", "60000", "false"];
    calls.call("cutter_run.fn_run_publish", &publish);
    calls.call("cutter_run.fn_run_publish_told_apart", &publish);
    // a second revision that is kept as what changed, and a third in full
    calls.bench.now(
        "INSERT INTO cutter_run.revision (run_id, revision, body, places, length)
         VALUES ('r', 2, '2', '{22,23}', 23), ('r', 3, convert_to('{\"state\":\"marked\"}', 'UTF8'), NULL, NULL);
         INSERT INTO cutter_run.run SELECT (jsonb_populate_record(r, '{\"run_id\":\"s\"}')).* FROM cutter_run.run r;
         INSERT INTO cutter_run.revision SELECT (jsonb_populate_record(v, '{\"run_id\":\"s\",\"places\":null}')).*
         FROM cutter_run.revision v",
    );
    for all in ["true", "false"] {
        calls.call("cutter_run.fn_run_texts", &["'r'", "3", all]);
        calls.call("cutter_run.fn_run_texts", &["'r'", "2", all]);
    }
    calls.call("cutter_run.fn_run_text", &["'r'", "1"]);
    calls.call(
        "cutter_run.fn_lease_take",
        &["'r'", "'00000000-0000-4000-8000-00000000000b'", HOLDER, "60000"],
    );
    calls.call("cutter_run.fn_lease_take", &["'r'", ME, HOLDER, "60000"]);
    calls.call("cutter_run.fn_lease_renew", &["ARRAY['r']", "ARRAY[1]", "60000"]);
    calls.call("cutter_run.fn_lease_release", &["'r'", "1"]);
    calls.call("cutter_run.fn_claim_put", &["'D'", "1", "'r'"]);
    calls.call("cutter_run.fn_stop_request", &["'r'", ME, "'why'", "'me'", "'now'"]);
    calls.views();
    calls.list.end();
}

#[test]
fn of_commands_and_the_queue() {
    let database = TestServer::shared().fresh_database();
    let mut exec = database.client(Login::Exec);
    let claim = [
        "'k'",
        r#"'{"kind":"x"}'"#,
        r#"encode(sha256('{"kind":"x"}'), 'hex')"#,
        "'me'",
        ME,
        "60000",
        "now()",
    ];
    exec.batch_execute(&format!("SELECT FROM cutter_governance.fn_command_claim({})", claim.join(", ")))
        .unwrap();
    let enqueue = [
        "ARRAY['00000000-0000-4000-8000-000000000021', '00000000-0000-4000-8000-000000000022']",
        "ARRAY['k', 'k']",
        "ARRAY['x', 'y']::bytea[]",
        "ARRAY[sha256(convert_to(E'k\\nx', 'UTF8')), sha256(convert_to(E'k\\ny', 'UTF8'))]",
        "ARRAY[1, 1]",
        "ARRAY[3, 3]",
        "ARRAY[3, 3]",
        "ARRAY[1000, 1000]",
        "ARRAY[2000, 2000]",
        "ARRAY[0, 0]::smallint[]",
        "ARRAY[false, true]",
        "ARRAY['me', 'me']",
    ];
    exec.batch_execute(&format!(
        "SELECT FROM cutter_queue.fn_work_enqueue({});
         SELECT FROM cutter_queue.fn_work_claim({ME}, 1, 60000)",
        enqueue.join(", ")
    ))
    .unwrap();
    let mut calls = Calls::of(&database, "queue.tsv");
    calls.call("cutter_governance.fn_command_claim", &claim);
    for state in ["done", "failed", "unresolved"] {
        let settlement =
            format!("'{{\"state\":\"{state}\",\"code\":\"c\",\"detail\":\"d\",\"answer\":\"x\"}}'");
        calls.call("cutter_governance.fn_command_settle", &["'k'", "1", ME, &settlement, "now()"]);
    }
    calls.again("cutter_governance.command_attempt");
    calls.call("cutter_queue.fn_work_enqueue", &enqueue);
    calls.call("cutter_queue.fn_work_claim", &[ME, "10", "60000"]);
    let item = calls.literal("SELECT min(item_id) FROM cutter_queue.work_lease");
    let epoch = calls.literal("SELECT min(epoch) FROM cutter_queue.work_lease");
    let (items, epochs) = (format!("ARRAY[{item}::bigint]"), format!("ARRAY[{epoch}::bigint]"));
    let holders = format!("ARRAY[{ME}::uuid]");
    for done in ["complete", "hand_back", "release"] {
        calls.call(&format!("cutter_queue.fn_work_{done}"), &[&items, &epochs, &holders]);
    }
    calls.call("cutter_queue.fn_work_heartbeat", &[&items, &epochs, &holders, "60000"]);
    calls.call("cutter_queue.fn_work_fail", &[&item, &epoch, ME, "1000", "'c'", "'d'", "NULL", "NULL"]);
    calls.call("cutter_queue.fn_work_await_user", &[&item, &epoch, ME, "'g'"]);
    calls.call("cutter_queue.fn_work_cancel", &[&item, "'why'", "'me'"]);
    calls.call("cutter_queue.fn_work_statistics", &[]);
    let done = format!("SELECT cutter_queue.fn_work_complete({items}, {epochs}, {holders})");
    exec.batch_execute(&done).unwrap();
    calls.call("cutter_queue.fn_work_retain", &["0", "0", "10"]);
    calls.call("cutter_queue.fn_work_take_watch", &[ME, "60000"]);
    let lapsed = "UPDATE cutter_queue.work_lease SET expires_at = '2026-01-01Z'";
    calls.call_after(lapsed, "cutter_queue.fn_work_take_over", &[ME, "10", "60000"]);
    calls.call("cutter_queue.fn_job_enqueue", &["'mark'", "'{}'", "'me'", "now()"]);
    calls.views();
    calls.list.end();
}
