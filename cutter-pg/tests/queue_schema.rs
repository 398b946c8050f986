//! The queue's schema: the table of moves, the cost of a claim, days, and a frozen worker.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod queue_support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use cutter_core::machine::work_item::{WORK_ITEM, WorkItemState as S};
use cutter_core::port::PortErrorKind;
use cutter_core::port::work_queue::{Answer, Wake, WorkQueue};
use cutter_core::record::queue::{NewItem, Token};
use cutter_pg::PgQueue;
use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use futures_executor::block_on;
use postgres::Client;
use queue_support::{LEASE, Stand, worker};

fn new(key: &str) -> NewItem {
    NewItem::new(key, "test", "{}").unwrap()
}

/// What the server says to a statement: nothing, or its error's message.
fn said(client: &mut Client, sql: &str) -> Option<String> {
    client
        .batch_execute(sql)
        .err()
        .map(|error| error.as_db_error().map_or_else(|| error.to_string(), |e| e.message().to_owned()))
}

#[test]
fn every_pair_of_states_is_judged_as_by_the_core() {
    let stand = Stand::new();
    let mut admin = stand.admin();
    for &from in S::ALL {
        let targets: Vec<String> = admin
            .query_one("SELECT cutter_queue.fn_work_item_targets($1)", &[&from.as_str()])
            .unwrap()
            .get(0);
        assert_eq!(targets, WORK_ITEM.targets(from).into_iter().map(S::as_str).collect::<Vec<_>>(), "{from}");
        for &to in S::ALL {
            let observed =
                said(&mut admin, &format!("SELECT cutter_queue.fn_work_item_check('{from}', '{to}')"));
            let expected = WORK_ITEM.check(from, to).err().map(|illegal| illegal.to_string());
            assert_eq!(observed, expected, "{from}->{to}");
        }
    }
    let nothing = said(&mut admin, "SELECT cutter_queue.fn_work_item_check('lost', 'queued')");
    assert_eq!(nothing.as_deref(), Some("illegal work_item transition lost->queued (legal=<NULL>)"));
}

/// A row of the place where a state stands, that came from another.
fn row(place: &str, from: S, to: S) -> String {
    let (columns, values) = match place {
        "work_ready" => ("priority, ready_at, epoch", "0, now(), 1"),
        "work_wait" if to == S::AwaitingTool => {
            ("priority, ready_at, epoch, holder, claimed_at", "0, now(), 1, gen_random_uuid(), now()")
        }
        "work_wait" => ("priority, gate, epoch, holder, claimed_at", "0, 'SG1', 1, gen_random_uuid(), now()"),
        "work_lease" => {
            ("priority, epoch, holder, claimed_at, expires_at", "0, 1, gen_random_uuid(), now(), now()")
        }
        _ => (
            "finished_on, key, kind, payload, payload_sha256, priority, max_attempts, max_failures, base_ms, cap_ms,
             jitter, side_effects, enqueued_by, enqueued_at, epoch, finished_at, reason_code",
            if to == S::Completed {
                "(now() AT TIME ZONE 'UTC')::date, 'k', 't', '', '', 0, 1, 1, 1, 1, 0, false, '', now(), 1, now(), NULL"
            } else {
                "(now() AT TIME ZONE 'UTC')::date, 'k', 't', '', '', 0, 1, 1, 1, 1, 0, false, '', now(), 1, now(), 'x'"
            },
        ),
    };
    format!(
        "BEGIN; SELECT cutter_queue.fn_work_day((now() AT TIME ZONE 'UTC')::date);
         INSERT INTO cutter_queue.{place} (item_id, came_from, state, attempts, failures, {columns})
         VALUES (1, '{from}', '{to}', 1, 0, {values}); ROLLBACK"
    )
}

#[test]
fn the_checks_of_the_rows_allow_exactly_the_edges_of_the_table() {
    let stand = Stand::new();
    let mut admin = stand.admin();
    for &from in S::ALL {
        for &to in S::ALL {
            let places: &[&str] = match to {
                S::Received => continue,
                S::Queued => &["work_ready"],
                S::AwaitingTool | S::AwaitingUserConfirmation => &["work_ready", "work_wait"],
                S::Executing => &["work_lease"],
                _ => &["work_done"],
            };
            // A self-move writes no row, but for a takeover.
            let is_written = WORK_ITEM.check(from, to).is_ok() && (from != to || to == S::Executing);
            for place in places {
                let observed = said(&mut admin, &row(place, from, to));
                said(&mut admin, "ROLLBACK");
                let is_move = observed.as_ref().is_none_or(|text| !text.contains("_move"));
                assert_eq!(is_move, is_written, "{place} {from}->{to}: {observed:?}");
                assert_eq!(observed.is_none(), is_written, "{place} {from}->{to}: {observed:?}");
            }
        }
    }
}

#[test]
fn a_cancellation_races_a_completion_a_thousand_times() {
    let stand = Stand::new();
    let (one, other) = (stand.queue(), stand.queue());
    let mut won = [0_u32; 2];
    for chunk in 0..10 {
        let batch: Vec<NewItem> = (0..100).map(|i| new(&format!("k{chunk}-{i}"))).collect();
        block_on(one.enqueue(&batch)).unwrap();
        for item in block_on(one.claim(worker(1), 100, LEASE)).unwrap() {
            let token = item.token().unwrap();
            let barrier = std::sync::Barrier::new(2);
            let (cancelled, completed) = std::thread::scope(|scope| {
                let cancel = scope.spawn(|| {
                    barrier.wait();
                    block_on(one.cancel(item.item, "race", "me")).unwrap()
                });
                barrier.wait();
                let completed = block_on(other.complete(&[token])).unwrap().remove(0);
                (cancel.join().unwrap(), completed)
            });
            let state = block_on(one.item(item.item)).unwrap().unwrap().state;
            let outcomes = [(S::Cancelled, &cancelled), (S::Completed, &completed)];
            for (i, (mine, answer)) in outcomes.into_iter().enumerate() {
                if state == mine {
                    assert_eq!(*answer, Answer::Applied(mine));
                    won[i] += 1;
                } else {
                    let text = format!("illegal work_item transition {state}->{mine} (legal={state})");
                    assert_eq!(*answer, Answer::Refused(text));
                }
            }
        }
    }
    assert_eq!(won[0] + won[1], 1_000, "one outcome each");
    let statistics = block_on(one.statistics()).unwrap();
    assert_eq!([statistics.count(S::Cancelled), statistics.count(S::Completed)], won.map(u64::from));
    let mut admin = stand.admin();
    let twice =
        "SELECT count(*) FROM (SELECT item_id FROM cutter_queue.work_done GROUP BY 1 HAVING count(*) > 1) d";
    assert_eq!(admin.query_one(twice, &[]).unwrap().get::<_, i64>(0), 0, "recorded once");
}

/// Buffers that one claim of 10 items touches, in a transaction that is rolled back.
fn claim_buffers(admin: &mut Client) -> i64 {
    let explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
        SELECT * FROM cutter_queue.fn_work_claim(gen_random_uuid(), 10, 60000)";
    admin.batch_execute("BEGIN").unwrap();
    let plan: serde_json::Value = admin.query_one(explain, &[]).unwrap().get(0);
    admin.batch_execute("ROLLBACK").unwrap();
    let node = &plan[0]["Plan"];
    node["Shared Hit Blocks"].as_i64().unwrap() + node["Shared Read Blocks"].as_i64().unwrap()
}

#[test]
fn a_claim_costs_the_same_however_many_items_have_ended() {
    let big = if std::env::var_os("CUTTER_FULL").is_some() { 5_000_000 } else { 200_000 };
    let mut costs = Vec::new();
    for finished in [1_000, big] {
        let stand = Stand::new();
        let mut admin = stand.admin();
        // As their lives would have left them, over four days.
        admin
            .batch_execute(&format!(
                "SELECT cutter_queue.fn_work_day(date '2026-01-01' - i) FROM generate_series(0, 3) i;
                 INSERT INTO cutter_queue.work_done (finished_on, item_id, key, kind, payload, payload_sha256, priority,
                     max_attempts, max_failures, base_ms, cap_ms, jitter, side_effects, enqueued_by, enqueued_at,
                     came_from, state, attempts, failures, epoch, finished_at)
                 SELECT date '2026-01-01' - (i % 4)::int, i, 'old-' || i, 'test', 'x', sha256('x'), 0, 5, 5, 1, 1, 0, false, '',
                     now(), 'executing', 'completed', 1, 0, 1,
                     (date '2026-01-01' - (i % 4)::int)::timestamp AT TIME ZONE 'UTC'
                 FROM generate_series(1, {finished}) i;
                 INSERT INTO cutter_queue.work_key SELECT key, item_id, payload_sha256 FROM cutter_queue.work_done;
                 SELECT setval('cutter_queue.work_item_seq', {finished});
                 ANALYZE cutter_queue.work_done, cutter_queue.work_key"
            ))
            .unwrap();
        let queue = stand.queue();
        let batch: Vec<NewItem> = (0..1_000).map(|i| new(&format!("k{i}"))).collect();
        block_on(queue.enqueue(&batch)).unwrap();
        claim_buffers(&mut admin);
        let claim = claim_buffers(&mut admin);
        costs.push(claim);
    }
    println!("buffers of a claim of 10 items: {} with 1,000 ended, {} with {big}", costs[0], costs[1]);
    assert!(costs[1] <= costs[0] + 5, "{costs:?}");
    // Ten items: what one needs, ten times, and the way down the indexes.
    assert!(costs[0] < 300, "{costs:?}");
}

#[test]
fn sessions_in_other_time_zones_agree_on_leases_and_days() {
    let stand = Stand::new();
    for (zone, key) in [("Pacific/Kiritimati", "east"), ("Pacific/Pago_Pago", "west")] {
        let mut client = stand.database.client(Login::Exec);
        client.batch_execute(&format!("SET TimeZone = '{zone}'; SET DateStyle = 'German'")).unwrap();
        block_on(stand.queue().enqueue(&[new(key)])).unwrap();
        let claim = "SELECT item_id, epoch, extract(epoch FROM lease_until - claimed_at)::int
            FROM cutter_queue.fn_work_claim($1, 1, 60000)";
        let row = client.query_one(claim, &[&worker(1)]).unwrap();
        assert_eq!(row.get::<_, i32>(2), 60);
        let (item, epoch): (i64, i64) = (row.get(0), row.get(1));
        let complete =
            "SELECT cutter_queue.fn_work_complete(ARRAY[$1::bigint], ARRAY[$2::bigint], ARRAY[$3::uuid])";
        let moved: Vec<i64> = client.query_one(complete, &[&item, &epoch, &worker(1)]).unwrap().get(0);
        assert_eq!(moved, [item]);
    }
    let days = "SELECT array_agg(DISTINCT finished_on::text) FROM cutter_queue.work_done";
    let days: Vec<String> = stand.admin().query_one(days, &[]).unwrap().get(0);
    assert_eq!(days, ["2026-01-02"]);
}

#[test]
fn a_lost_connection_is_opened_again_and_the_listener_looks_at_once() {
    let stand = Stand::new();
    let queue = stand.queue();
    assert_eq!(block_on(queue.wait(LEASE)).unwrap(), Wake::Reconnected, "nothing was heard before");
    assert_eq!(block_on(queue.wait(Duration::from_millis(50))).unwrap(), Wake::Elapsed);
    block_on(queue.enqueue(&[new("a"), new("b")])).unwrap();
    assert_eq!(block_on(queue.wait(LEASE)).unwrap(), Wake::Notified);
    let token = block_on(queue.claim(worker(1), 1, LEASE)).unwrap()[0].token().unwrap();
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'cutter/queue%'";
    assert_eq!(stand.admin().query_one(cut, &[]).unwrap().get::<_, i64>(0), 2);
    // What was under way is unknown, and asked again under the same token it is done.
    let lost = block_on(queue.complete(&[token])).unwrap_err();
    assert_eq!(lost.kind, PortErrorKind::OutcomeUnknown, "{lost}");
    assert_eq!(block_on(queue.complete(&[token])).unwrap(), [Answer::Applied(S::Completed)]);
    let wake = block_on(queue.wait(LEASE)).unwrap();
    assert_eq!(wake, Wake::Reconnected, "look now: a notice may have been missed");
}

#[test]
fn the_oldest_snapshot_is_seen_whoever_holds_it() {
    let stand = Stand::new();
    let queue = stand.queue();
    let mut reader = stand.database.client(Login::Review);
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1").unwrap();
    assert!(block_on(queue.statistics()).unwrap().oldest_snapshot.is_some());
}

#[test]
fn nobody_writes_but_through_the_functions() {
    let stand = Stand::new();
    block_on(stand.queue().enqueue(&[new("a")])).unwrap();
    for login in Login::RUN_ROLES {
        let mut client = stand.database.client(login);
        for table in
            ["work_key", "work_item", "work_ready", "work_wait", "work_lease", "work_done", "work_tally"]
        {
            for write in
                [format!("DELETE FROM cutter_queue.{table}"), format!("TRUNCATE cutter_queue.{table}")]
            {
                let text = said(&mut client, &write).unwrap_or_default();
                assert!(text.starts_with("permission denied"), "{login}: {write}: {text}");
            }
        }
        for call in [
            "fn_work_finish(now(), 'completed', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '')",
            "fn_work_day(date '2026-01-01')",
            "fn_work_release('{}', '{}', '{}')",
            "fn_work_due()",
        ] {
            let text = said(&mut client, &format!("SELECT cutter_queue.{call}")).unwrap_or_default();
            assert!(text.starts_with("permission denied"), "{login}: {call}: {text}");
        }
    }
    let mut reader = stand.database.client(Login::Ro);
    assert_eq!(
        said(&mut reader, "SELECT * FROM cutter_queue.v_work_item; SELECT cutter_queue.fn_work_statistics()"),
        None
    );
}

const CHILD: &str = "CUTTER_TEST_FROZEN_WORKER";

/// Not a test: the worker that the test below freezes.
#[test]
#[ignore = "the worker that a test freezes"]
fn child_of_the_frozen_worker() {
    let Ok(dsn) = std::env::var(CHILD) else { return };
    let queue = PgQueue::connect(cutter_pg::dsn::Dsn::parse(&dsn).unwrap());
    let item = block_on(queue.claim(worker(1), 1, Duration::from_millis(600))).unwrap().remove(0);
    println!("\nclaimed {}", item.epoch);
    let token = item.token().unwrap();
    // Alive, it keeps its lease; told to finish, it does.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        tell.send(()).unwrap();
    });
    while told.recv_timeout(Duration::from_millis(100)).is_err() {
        let beat = block_on(queue.heartbeat(&[token], Duration::from_millis(600))).unwrap().remove(0);
        println!("beat {beat:?}");
    }
    println!("completed {:?}", block_on(queue.complete(&[token])).unwrap());
}

#[test]
fn a_worker_that_was_stopped_and_goes_on_later_writes_nothing() {
    // A real process, a real clock.
    let database = TestServer::shared().fresh_database();
    let queue = PgQueue::connect(database.dsn(Login::Exec));
    let item = block_on(queue.enqueue(&[new("a")])).unwrap()[0].item;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_of_the_frozen_worker", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, database.connection_string(Login::Exec))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "claimed 1"));
    // It lives for longer than its lease, and nobody can take the item over.
    for _ in 0..10 {
        assert!(lines.any(|line| line.starts_with("beat Applied")));
        assert!(block_on(queue.take_over(worker(2), 1, LEASE)).unwrap().items.is_empty());
    }
    let pid = child.id().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let taken = loop {
        if let Some(item) = block_on(queue.take_over(worker(2), 1, LEASE)).unwrap().items.pop() {
            break item;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((taken.epoch, taken.attempts, taken.failures), (2, 2, 1));
    signal("-CONT");
    child.stdin.take().unwrap().write_all(b"finish\n").unwrap();
    let said = lines.find(|line| line.starts_with("completed ")).unwrap();
    assert!(said.contains("Refused(\"lease.token: expected executing under epoch 1"), "{said}");
    assert!(child.wait().unwrap().success());
    let stands = block_on(queue.item(item)).unwrap().unwrap();
    assert_eq!((stands.state, stands.holder), (S::Executing, Some(worker(2))), "nothing was written");
    let token = Token { item, epoch: 2, holder: worker(2) };
    assert_eq!(block_on(queue.complete(&[token])).unwrap(), [Answer::Applied(S::Completed)]);
}

#[test]
fn the_matrix_of_the_queue_is_exactly_the_documented_one() {
    let stand = Stand::new();
    let day = "SET ROLE cutter_owner; SELECT cutter_queue.fn_work_day(date '2026-01-02')";
    assert_eq!(said(&mut stand.admin(), day), None);
    let rows = stand
        .admin()
        .query(
            "WITH ours AS (
                 SELECT c.oid, c.relname::text AS name FROM pg_class c
                 WHERE c.relnamespace IN ('cutter_queue'::regnamespace, 'cutter_queue_day'::regnamespace)
                     AND c.relkind IN ('r', 'v', 'p'))
             SELECT r.role || ' ' || p.privilege || ' ' || o.name
             FROM unnest($1::text[]) AS r(role), ours o,
                 unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p(privilege)
             WHERE o.name ~ '^(v_)?work_|^d2' AND has_table_privilege(r.role, o.oid, p.privilege)
             UNION ALL
             SELECT r.role || ' EXECUTE ' || f.proname FROM unnest($1::text[]) AS r(role), pg_proc f
             WHERE f.pronamespace = 'cutter_queue'::regnamespace AND f.proname LIKE 'fn_work_%'
                 AND has_function_privilege(r.role, f.oid, 'EXECUTE')
             UNION ALL
             SELECT r.role || ' ' || p.privilege || ' cutter_queue_day' FROM unnest($1::text[]) AS r(role),
                 unnest(ARRAY['USAGE', 'CREATE']) AS p(privilege)
             WHERE has_schema_privilege(r.role, 'cutter_queue_day', p.privilege)",
            &[&Login::RUN_ROLES.map(Login::as_str).to_vec()],
        )
        .unwrap();
    let mut held: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let mut expected = Vec::new();
    for role in ["cutter_exec", "cutter_verify", "cutter_ro"] {
        expected.extend(["work_key", "work_attempt", "v_work_item"].map(|t| format!("{role} SELECT {t}")));
        expected.extend(
            ["statistics", "item_targets", "item_check"].map(|f| format!("{role} EXECUTE fn_work_{f}")),
        );
    }
    // Whoever takes backups reads everything, the days too.
    let read = [
        "work_item",
        "work_ready",
        "work_wait",
        "work_lease",
        "work_done",
        "work_tally",
        "work_watch",
        "d20260102",
    ];
    expected.extend(read.map(|t| format!("cutter_ro SELECT {t}")));
    expected.push("cutter_ro USAGE cutter_queue_day".to_owned());
    expected.extend(
        [
            "enqueue",
            "claim",
            "complete",
            "fail",
            "await_user",
            "ready",
            "hand_back",
            "heartbeat",
            "take_over",
            "cancel",
            "retain",
            "take_watch",
            "leave_watch",
        ]
        .map(|f| format!("cutter_exec EXECUTE fn_work_{f}")),
    );
    held.sort();
    expected.sort();
    assert_eq!(held, expected);
}
