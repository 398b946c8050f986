//! How the run store keeps revisions (each beside the one before), sets saves and takings of a lease in
//! order, and waits on the thread that asks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod run_store_support;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cutter_core::base::cas::CasOutcome;
use cutter_core::port::PortErrorKind as K;
use cutter_core::port::run_store::RunStore;
use cutter_pg::PgRunStore;
use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use futures_executor::block_on;

use self::run_store_support::{holder, id, run_id, store};

/// A record as a run writes it: most of it stays, some grows, some is new, some goes.
fn record(revision: u64) -> String {
    let phases: Vec<String> = (0..revision.min(40))
        .map(|n| {
            let result = if n + 1 == revision { "running" } else { "passed" };
            format!("\"phase {n:02} đ\":{{\"n\":{n},\"result\":\"{result}\",\"why\":\"{}\"}}", "x".repeat(40))
        })
        .collect();
    let intent = if revision.is_multiple_of(3) { String::new() } else { format!("\"intent\":{revision},") };
    let settings = "settings \\\" ".repeat(400);
    format!(
        "{{{intent}\"phases\":{{{}}},\"revision\":{revision},\"settings\":\"{settings}\",\"state\":\"s{}\"}}",
        phases.join(","),
        revision % 7
    )
}

#[test]
fn every_revision_is_read_as_it_was_published_and_most_of_it_is_stored_once() {
    let database = TestServer::shared().fresh_database();
    let (run, driver, reader) = (run_id(), store(&database), PgRunStore::connect(database.dsn(Login::Ro)));
    block_on(driver.create(&run, record(1).as_bytes())).unwrap();
    let mut driver = driver;
    let mut lock = block_on(driver.lock_and_load(&run, &holder("driver"))).unwrap().0;
    for revision in 2..=80_u64 {
        if revision == 50 {
            // Another process goes on from what it read.
            drop(lock);
            driver = store(&database).waiting();
            let (taken, newest) = block_on(driver.lock_and_load(&run, &holder("other"))).unwrap();
            assert_eq!(newest.unwrap().bytes, record(49).into_bytes());
            lock = taken;
        }
        // What is no object, and what is no canonical one, is kept byte for byte, too.
        let text = match revision {
            20 => "[1, 2]".to_owned(),
            21 => format!(" {}", record(21)),
            22 => record(22).replace(",\"", " ,\n\""),
            _ => record(revision),
        };
        let outcome = block_on(driver.publish(&run, revision - 1, text.as_bytes())).unwrap();
        assert_eq!(outcome, CasOutcome::Applied, "{revision}");
        let newest = block_on(reader.load(&run)).unwrap().unwrap();
        assert_eq!((newest.revision, newest.bytes), (revision, text.into_bytes()));
    }
    for revision in (1..=80).filter(|n| !(20..=22).contains(n)) {
        let stored = block_on(reader.load_revision(&run, revision)).unwrap().unwrap();
        assert_eq!((stored.revision, stored.bytes), (revision, record(revision).into_bytes()));
    }
    assert_eq!(block_on(reader.load_revision(&run, 81)).unwrap(), None);
    let mut sql = database.client(Login::Ro);
    let whole = "SELECT array_agg(revision ORDER BY revision) FROM cutter_run.revision WHERE places IS NULL";
    let whole: Vec<i64> = sql.query_one(whole, &[]).unwrap().get(0);
    assert_eq!(whole, [1, 20, 21, 22, 23, 32, 64], "what has nothing like it before it, and every 32nd");
    let share = "SELECT 100 * sum(octet_length(body) + 4 * cardinality(places)) / sum(length)
        FROM cutter_run.revision WHERE places IS NOT NULL";
    let share: i64 = sql.query_one(share, &[]).unwrap().get(0);
    assert!(share < 10, "{share} % of the bytes");
    let out_of_line = "SELECT pg_relation_size(reltoastrelid) FROM pg_class
        WHERE oid = 'cutter_run.revision'::regclass";
    let out_of_line: i64 = sql.query_one(out_of_line, &[]).unwrap().get(0);
    assert_eq!(out_of_line, 0, "a save is one row");
    drop(lock);
}

#[test]
fn the_same_bytes_are_the_same_save_however_they_are_kept() {
    let database = TestServer::shared().fresh_database();
    let (run, driver, other) = (run_id(), store(&database), store(&database));
    block_on(driver.create(&run, record(1).as_bytes())).unwrap();
    let lock = block_on(driver.lock(&run, &holder("driver"))).unwrap();
    for revision in 2..=4 {
        block_on(driver.publish(&run, revision - 1, record(revision).as_bytes())).unwrap();
    }
    // Its last one again, and another one under its number: it knows the one before no more.
    assert_eq!(block_on(driver.publish(&run, 3, record(4).as_bytes())).unwrap(), CasOutcome::AlreadyApplied);
    assert_eq!(block_on(driver.publish(&run, 4, record(5).as_bytes())).unwrap(), CasOutcome::Applied);
    let found = CasOutcome::Conflict { found: 5 };
    assert_eq!(block_on(driver.publish(&run, 4, record(6).as_bytes())).unwrap(), found);
    drop(lock);
    // Whole, from somebody who never saw the run.
    assert_eq!(block_on(other.publish(&run, 4, record(5).as_bytes())).unwrap(), CasOutcome::AlreadyApplied);
    assert_eq!(block_on(other.publish(&run, 4, record(4).as_bytes())).unwrap(), found);
    // As places, beside the same that stands whole.
    assert_eq!(block_on(other.publish(&run, 5, record(6).as_bytes())).unwrap(), CasOutcome::Applied);
    let again =
        "SELECT cutter_run.fn_run_publish($1, 5, '', '{0,10,0}', 10, NULL, 1000, false) ->> 'outcome'";
    let mut sql = database.client(Login::Exec);
    let outcome: String = sql.query_one(again, &[&run.as_str()]).unwrap().get(0);
    assert_eq!(outcome, "conflict");
    let body = record(6).into_bytes();
    let length = i32::try_from(body.len()).unwrap();
    let again = "SELECT cutter_run.fn_run_publish($1, 5, $2, $3, $4, NULL, 1000, false) ->> 'outcome'";
    let outcome: String =
        sql.query_one(again, &[&run.as_str(), &body, &vec![0, 0, length], &length]).unwrap().get(0);
    assert_eq!(outcome, "already_applied");
}

#[test]
fn a_revision_that_cannot_be_put_together_is_corrupt() {
    let database = TestServer::shared().fresh_database();
    let (run, driver) = (run_id(), store(&database));
    block_on(driver.create(&run, record(1).as_bytes())).unwrap();
    let lock = block_on(driver.lock_and_load(&run, &holder("driver"))).unwrap().0;
    for revision in 2..=5 {
        block_on(driver.publish(&run, revision - 1, record(revision).as_bytes())).unwrap();
    }
    drop(lock);
    // No trigger of ours lets anybody do this, so they are off.
    let mut admin = database.client(Login::Admin);
    admin
        .batch_execute(
            "SET session_replication_role = replica; DELETE FROM cutter_run.revision WHERE revision = 3;
             UPDATE cutter_run.revision SET body = body || 'x' WHERE revision = 1",
        )
        .unwrap();
    let gap = block_on(driver.load(&run)).unwrap_err();
    assert!(gap.kind == K::Corrupt && gap.message.contains("revision 4 of run"), "{gap}");
    let longer = block_on(driver.load_revision(&run, 1)).unwrap().unwrap();
    assert_eq!(longer.bytes.len(), record(1).len() + 1, "a first revision has no length of its own");
    admin.batch_execute("UPDATE cutter_run.revision SET places = '{0,10,1}' WHERE revision = 2").unwrap();
    let short = block_on(driver.load_revision(&run, 2)).unwrap_err();
    assert!(short.kind == K::Corrupt && short.message.contains("revision 2 of run"), "{short}");
    assert!(short.message.contains(&record(2).len().to_string()), "{short}");
}

#[test]
fn a_taking_waits_for_a_save_that_is_under_way() {
    let database = TestServer::shared().fresh_database();
    let (run, driver, successor) = (run_id(), store(&database), store(&database));
    block_on(driver.create(&run, b"[1]")).unwrap();
    let mut slow = database.client(Login::Exec);
    let text = serde_json::to_string(&holder("slow")).unwrap();
    slow.execute("SELECT cutter_run.fn_lease_take($1, $2, $3, 400)", &[&run.as_str(), &id(), &text]).unwrap();
    let mut saving = slow.transaction().unwrap();
    let save = "SELECT cutter_run.fn_run_publish($1, 1, '[2]', NULL, 3, 1, 400, false)";
    saving.execute(save, &[&run.as_str()]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| block_on(successor.lock_and_load(&run, &holder("successor"))));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!taking.is_finished(), "the lease is over, but a save of its holder is not");
        saving.commit().unwrap();
        let (lock, newest) = taking.join().unwrap().unwrap();
        assert_eq!(newest.unwrap().bytes, b"[2]", "what was saved while it waited");
        drop(lock);
    });
}

#[test]
fn a_save_renews_a_lease_of_which_half_is_over() {
    let database = TestServer::shared().fresh_database();
    let (run, driver) = (run_id(), store(&database).lease(Duration::from_secs(1000)));
    block_on(driver.create(&run, b"[1]")).unwrap();
    let lock = block_on(driver.lock(&run, &holder("driver"))).unwrap();
    let mut admin = database.client(Login::Admin);
    let mut left = |set: &str| -> f64 {
        admin.batch_execute(set).unwrap();
        let left = "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM cutter_run.lease";
        admin.query_one(left, &[]).unwrap().get(0)
    };
    let expire = "UPDATE cutter_run.lease SET expires_at = clock_timestamp() + interval '600 s'";
    assert!(left(expire) <= 600.0);
    block_on(driver.publish(&run, 1, b"[2]")).unwrap();
    assert!(left("SELECT 1") <= 600.0, "it is young enough");
    for over in ["300 s", "-5 s"] {
        left(&expire.replace("600 s", over));
        let revision = block_on(driver.load(&run)).unwrap().unwrap().revision;
        assert_eq!(block_on(driver.publish(&run, revision, b"[3]")).unwrap(), CasOutcome::Applied);
        assert!(left("SELECT 1") > 900.0, "{over}: nobody took it, and it is renewed");
    }
    drop(lock);
}

#[test]
fn a_store_that_waits_is_refused_where_nobody_may_wait() {
    let database = TestServer::shared().fresh_database();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = store(&database).waiting();
    let refused = runtime.block_on(store.list()).unwrap_err();
    assert!(refused.kind == K::Invalid && refused.message.contains("async runtime"), "{refused}");
    assert_eq!(block_on(store.list()).unwrap(), []);
    let refused = runtime.block_on(store.list()).unwrap_err();
    assert_eq!(refused.kind, K::Invalid, "not with a session that stands, either");
    // Nor does its end wait there.
    runtime.block_on(async { drop(store) });
}

/// A server that falls silent: the client's own timer ends the wait, for whoever waits behind it, too.
#[test]
fn a_store_that_waits_gives_a_silent_server_up() {
    let server = TestServer::own();
    let database = server.fresh_database();
    let limit = Duration::from_secs(3);
    let store = Arc::new(store(&database).waiting().limit(limit));
    let run = run_id();
    block_on(store.create(&run, b"[1]")).unwrap();
    let backend = "SELECT pid FROM pg_stat_activity WHERE application_name = 'cutter-runs'";
    let pid: i32 = database.client(Login::Admin).query_one(backend, &[]).unwrap().get(0);
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
    };
    signal("-STOP");
    let began = Instant::now();
    std::thread::scope(|scope| {
        let save = scope.spawn(|| block_on(store.publish(&run, 1, b"[2]")).unwrap_err());
        std::thread::sleep(Duration::from_millis(200));
        // It hears that the session is given up, and opens another.
        let read = scope.spawn(|| block_on(store.load(&run)).unwrap().unwrap());
        assert_eq!(save.join().unwrap().kind, K::OutcomeUnknown);
        assert_eq!(read.join().unwrap().bytes, b"[1]");
    });
    assert!(began.elapsed() < 3 * limit, "{:?}", began.elapsed());
    signal("-CONT");
    assert_eq!(block_on(store.lock_holder(&run)).unwrap(), None);
    let saved = block_on(store.publish(&run, 1, b"[2]")).unwrap();
    assert!(matches!(saved, CasOutcome::Applied | CasOutcome::AlreadyApplied), "{saved:?}");
}

#[test]
fn the_last_save_gives_the_lease_back_in_one_statement() {
    let database = TestServer::shared().fresh_database();
    let (run, driver, other) = (run_id(), store(&database).waiting(), store(&database));
    block_on(driver.create(&run, record(1).as_bytes())).unwrap();
    let lock = block_on(driver.lock_and_load(&run, &holder("driver"))).unwrap().0;
    let before = driver.statements();
    let saved = block_on(driver.publish_last(&run, 1, record(2).as_bytes())).unwrap();
    assert_eq!(saved, CasOutcome::Applied);
    assert_eq!(block_on(other.lock_holder(&run)).unwrap(), None, "free before the lock is dropped");
    let next = block_on(other.lock_and_load(&run, &holder("next"))).unwrap().0;
    drop(lock);
    assert_eq!(driver.statements() - before, 1);
    assert_eq!(
        block_on(other.lock_holder(&run)).unwrap().unwrap().command,
        "next",
        "and not given back twice"
    );
    drop(next);
    // A lost answer: the same under the lease that it gave back.
    let again = "SELECT cutter_run.fn_run_publish($1, $2, $3, NULL, $4, $5, 1000, true)";
    let mut sql = database.client(Login::Exec);
    let mut ask = |expected: i64, text: &str, token: i64| -> Result<serde_json::Value, String> {
        let length = i32::try_from(text.len()).unwrap();
        let params: &[&(dyn postgres::types::ToSql + Sync)] =
            &[&run.as_str(), &expected, &text.as_bytes(), &length, &token];
        let row = sql.query_one(again, params);
        row.map(|row| row.get(0)).map_err(|e| e.as_db_error().unwrap().message().to_owned())
    };
    // Another lease was taken since; the row says under which it was saved.
    assert_eq!(ask(1, &record(2), 1).unwrap()["outcome"], "already_applied");
    assert_eq!(ask(1, &record(3), 1).unwrap()["outcome"], "conflict");
    assert!(ask(1, &record(2), 2).unwrap_err().contains("lease 2 was lost"), "that was another's save");
    assert!(ask(2, &record(3), 2).unwrap_err().contains("lease 2 was lost"), "it is given back: no new save");
    assert_eq!(block_on(other.load(&run)).unwrap().unwrap().revision, 2);
}

#[test]
fn a_last_save_that_stands_already_leaves_the_lease_to_the_lock() {
    let database = TestServer::shared().fresh_database();
    let (run, driver, other) = (run_id(), store(&database).waiting(), store(&database));
    block_on(driver.create(&run, b"[1]")).unwrap();
    let lock = block_on(driver.lock(&run, &holder("driver"))).unwrap();
    assert_eq!(block_on(driver.publish(&run, 1, b"[2]")).unwrap(), CasOutcome::Applied);
    assert_eq!(block_on(driver.publish_last(&run, 1, b"[2]")).unwrap(), CasOutcome::AlreadyApplied);
    drop(lock);
    assert_eq!(block_on(other.lock_holder(&run)).unwrap(), None);
}

#[test]
fn what_would_not_fit_into_a_row_is_stored_whole() {
    let database = TestServer::shared().fresh_database();
    let (run, driver) = (run_id(), store(&database).limit(Duration::MAX).waiting());
    let text = |word: &str| {
        let entries: Vec<String> =
            (0..800).map(|n| format!("\"k{n:03}\":\"{}{word}{}\"", "a".repeat(30), "b".repeat(30))).collect();
        format!("{{{}}}", entries.join(","))
    };
    block_on(driver.create(&run, text("1").as_bytes())).unwrap();
    let lock = block_on(driver.lock_and_load(&run, &holder("driver"))).unwrap().0;
    for (revision, word) in (1..).zip(["2", "3"]) {
        let saved = block_on(driver.publish(&run, revision, text(word).as_bytes())).unwrap();
        assert_eq!(saved, CasOutcome::Applied);
    }
    assert_eq!(block_on(driver.load(&run)).unwrap().unwrap().bytes, text("3").into_bytes());
    let broken = block_on(driver.publish(&run, 3, b"{\"k\":\"\xff\"}")).unwrap_err();
    assert_eq!(broken.kind, K::Invalid, "{broken}");
    drop(lock);
    let mut sql = database.client(Login::Exec);
    for arguments in
        ["'12', NULL, 3", "'12', NULL, NULL", "'', NULL, 0", "'12', '{0,1}', 3", "'12', '{0,1,2}', 1"]
    {
        let save = format!("SELECT cutter_run.fn_run_publish('{run}', 3, {arguments}, NULL, 1000, false)");
        let refused = sql.execute(&save, &[]).unwrap_err();
        assert_eq!(refused.as_db_error().unwrap().code().code(), "CU001", "{arguments}");
    }
}
