//! A connection on its own thread: settings, deadlines, loss, COMMIT's traps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use cutter_core::port::PortErrorKind;
use cutter_pg::connection::{Connection, SessionSettings, commit, commit_session};
use cutter_pg::error::PgError;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use futures_executor::block_on;
use postgres::Client;

fn empty() -> TestDatabase {
    TestServer::shared().empty_database()
}

fn open(database: &TestDatabase, settings: SessionSettings) -> Connection {
    block_on(Connection::open(database.dsn(Login::Admin), settings)).unwrap()
}

fn show(client: &mut Client, name: &str) -> Result<String, PgError> {
    Ok(client.query_one("SELECT current_setting($1)", &[&name])?.get(0))
}

fn setting(connection: &Connection, name: &'static str) -> String {
    block_on(connection.run(move |client| show(client, name))).unwrap()
}

fn is_alive(database: &TestDatabase, pid: i32) -> bool {
    !database
        .client(Login::Admin)
        .query("SELECT 1 FROM pg_stat_activity WHERE pid = $1", &[&pid])
        .unwrap()
        .is_empty()
}

fn kill_session(database: &TestDatabase, pid: i32) {
    database.client(Login::Admin).execute("SELECT pg_terminate_backend($1, 5000)", &[&pid]).unwrap();
}

#[test]
fn every_session_has_the_protocols_settings() {
    let database = empty();
    let writer = open(&database, SessionSettings::writer());
    for (name, value) in [
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "15s"),
        ("statement_timeout", "0"),
        ("synchronous_commit", "on"),
        ("TimeZone", "UTC"),
        ("search_path", "pg_catalog, pg_temp"),
        ("default_transaction_read_only", "off"),
        ("default_transaction_isolation", "read committed"),
        #[cfg(target_os = "linux")]
        ("client_connection_check_interval", "5s"),
    ] {
        assert_eq!(setting(&writer, name), value, "{name}");
    }
    let reader = open(&database, SessionSettings::reader());
    assert_eq!(setting(&reader, "statement_timeout"), "30s");
    let error = block_on(reader.run(|client| Ok(client.batch_execute("CREATE TABLE public.t (a int)")?)))
        .unwrap_err();
    assert_eq!(error.sqlstate(), Some("25006"));
    assert_eq!(error.kind(), PortErrorKind::Denied);
}

#[test]
fn the_session_carries_the_runs_name_across_a_reconnect() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    block_on(connection.set_application_name("run-1", 7)).unwrap();
    assert_eq!(setting(&connection, "application_name"), "cutter/run-1/7");
    let pid = connection.backend_pid();
    block_on(connection.reconnect()).unwrap();
    assert_ne!(connection.backend_pid(), pid);
    assert_eq!(setting(&connection, "application_name"), "cutter/run-1/7");
}

#[test]
fn a_lost_session_stays_lost_until_reconnect() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    kill_session(&database, connection.backend_pid());
    for _ in 0..2 {
        let error = block_on(connection.run(|client| show(client, "port"))).unwrap_err();
        assert_eq!(error.kind(), PortErrorKind::Unavailable, "{error}");
        assert!(connection.is_lost());
    }
    block_on(connection.reconnect()).unwrap();
    assert!(!connection.is_lost());
    assert_eq!(setting(&connection, "port"), "5432");
}

#[test]
fn a_statement_over_its_deadline_is_cancelled_and_the_session_goes_on() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    let began = Instant::now();
    let error = block_on(connection.run_with_deadline(Duration::from_millis(200), |client| {
        Ok(client.batch_execute("SELECT pg_sleep(30)")?)
    }))
    .unwrap_err();
    assert_eq!(error.kind(), PortErrorKind::Deadline, "{error}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(!connection.is_lost());
    assert_eq!(setting(&connection, "port"), "5432");
}

#[test]
fn a_job_that_returns_in_time_is_not_touched_by_its_timer() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    for _ in 0..20 {
        let limit = Duration::from_millis(200);
        block_on(connection.run_with_deadline(limit, |client| Ok(client.batch_execute("SELECT 1")?)))
            .unwrap();
    }
    // Past every one of those limits, a statement of its own: no late cancel hits it.
    block_on(connection.run(|client| Ok(client.batch_execute("SELECT pg_sleep(0.4)")?))).unwrap();
}

#[test]
fn a_job_that_ignores_its_cancel_is_abandoned_and_its_session_ended() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    let pid = connection.backend_pid();
    let began = Instant::now();
    let error = block_on(connection.run_with_deadline(Duration::from_millis(100), |client| {
        let mut transaction = client.transaction()?;
        transaction.batch_execute("CREATE TABLE public.t (a int)")?;
        // Not waiting for the server at all, as a COPY to a stopped reader looks from here.
        std::thread::sleep(Duration::from_secs(8));
        commit(transaction)
    }))
    .unwrap_err();
    assert_eq!(error.kind(), PortErrorKind::Deadline, "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(connection.is_lost());
    let until = Instant::now() + Duration::from_secs(5);
    while is_alive(&database, pid) {
        assert!(Instant::now() < until, "the abandoned session still holds its locks");
        std::thread::sleep(Duration::from_millis(20));
    }
    block_on(connection.reconnect()).unwrap();
    let exists: bool = block_on(
        connection
            .run(|client| Ok(client.query_one("SELECT to_regclass('public.t') IS NOT NULL", &[])?.get(0))),
    )
    .unwrap();
    assert!(!exists, "what was reported as ended before COMMIT was not committed");
}

#[test]
fn a_deadline_covers_the_wait_behind_another_job() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            block_on(connection.run(|client| Ok(client.batch_execute("SELECT pg_sleep(1)")?))).unwrap();
        });
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let error = block_on(connection.run_with_deadline(Duration::from_millis(100), |client| {
            Ok(client.batch_execute("CREATE TABLE public.never (a int)")?)
        }))
        .unwrap_err();
        assert_eq!(error.kind(), PortErrorKind::Deadline);
        assert!(began.elapsed() < Duration::from_millis(600), "{:?}", began.elapsed());
    });
    let exists: bool =
        block_on(connection.run(|client| {
            Ok(client.query_one("SELECT to_regclass('public.never') IS NOT NULL", &[])?.get(0))
        }))
        .unwrap();
    assert!(!exists, "a job whose deadline passed in the queue never runs");
}

#[test]
fn a_deadline_during_commit_is_an_unknown_outcome() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    // A deferred trigger makes COMMIT itself take long.
    database
        .client(Login::Admin)
        .batch_execute(
            "CREATE TABLE public.t (a int);
             CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_sleep(30); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON public.t DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION public.slow();",
        )
        .unwrap();
    let error = block_on(connection.run_with_deadline(Duration::from_millis(200), |client| {
        let mut transaction = client.transaction()?;
        transaction.batch_execute("INSERT INTO public.t VALUES (1)")?;
        commit(transaction)
    }))
    .unwrap_err();
    assert_eq!(error.kind(), PortErrorKind::OutcomeUnknown, "{error}");
    assert!(!error.is_retriable());
}

#[test]
fn an_error_at_commit_is_unknown_whatever_its_code() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    let error = block_on(connection.run(|client| {
        client.batch_execute("CREATE TABLE public.t (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")?;
        let mut transaction = client.transaction()?;
        transaction.batch_execute("INSERT INTO public.t VALUES (1), (1)")?;
        commit(transaction)
    }))
    .unwrap_err();
    assert_eq!(error.kind(), PortErrorKind::OutcomeUnknown, "{error}");
    assert!(error.to_string().contains("23505"), "{error}");
}

#[test]
fn committing_an_aborted_transaction_is_an_error_not_a_silent_rollback() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    let error = block_on(connection.run(|client| {
        let mut transaction = client.transaction()?;
        transaction.batch_execute("CREATE TABLE public.t (a int)")?;
        // An error that the job swallows.
        assert!(transaction.batch_execute("SELECT 1/0").is_err());
        commit(transaction)
    }))
    .unwrap_err();
    assert_eq!(error.sqlstate(), Some("25P02"), "{error}");
}

#[test]
fn a_transaction_may_span_jobs() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    block_on(connection.run(|client| Ok(client.batch_execute("BEGIN; CREATE TABLE public.t (a int)")?)))
        .unwrap();
    block_on(connection.run(commit_session)).unwrap();
    assert!(database.client(Login::Admin).query("SELECT * FROM public.t", &[]).unwrap().is_empty());
}

#[test]
fn a_panic_in_a_job_is_an_error_and_the_session_is_given_up() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    let pid = connection.backend_pid();
    let error = block_on(connection.run(|client| -> Result<(), PgError> {
        client.batch_execute("BEGIN; CREATE TABLE public.t (a int)")?;
        panic!("a bug in a job")
    }))
    .unwrap_err();
    assert!(matches!(&error, PgError::Internal(text) if text.contains("a bug in a job")), "{error}");
    assert!(connection.is_lost());
    // At once, with its locks, not when the handle goes.
    let until = Instant::now() + Duration::from_secs(5);
    while is_alive(&database, pid) {
        assert!(Instant::now() < until, "the session of the job that panicked is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    block_on(connection.reconnect()).unwrap();
}

#[test]
fn dropping_the_handle_ends_the_session() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    let pid = connection.backend_pid();
    drop(connection);
    let until = Instant::now() + Duration::from_secs(5);
    while is_alive(&database, pid) {
        assert!(Instant::now() < until, "the session outlived its handle");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn codes_raised_by_our_functions_reach_the_caller() {
    let database = empty();
    let connection = open(&database, SessionSettings::writer());
    for (code, kind) in [("CUF01", PortErrorKind::Fenced), ("CUC01", PortErrorKind::Conflict)] {
        let error = block_on(connection.run(move |client| {
            Ok(client.batch_execute(&format!(
                "DO $$ BEGIN RAISE EXCEPTION 'why' USING ERRCODE = '{code}', DETAIL = 'more'; END $$"
            ))?)
        }))
        .unwrap_err();
        let port = error.to_port("probe");
        assert_eq!(port.kind, kind, "{error}");
        assert!(port.message.contains("why: more"), "{}", port.message);
    }
}

#[test]
fn a_refused_login_says_why_and_shows_no_password() {
    let database = empty();
    let mut text = String::from("host=");
    let config = database.admin_dsn().config().unwrap();
    let postgres::config::Host::Unix(socket) = &config.get_hosts()[0] else { panic!("a socket") };
    text.push_str(&format!(
        "'{}' user=cutter_ro password=hunter2-swordfish dbname=postgres",
        socket.display()
    ));
    let dsn = cutter_pg::dsn::Dsn::parse(&text).unwrap();
    let error = block_on(Connection::open(dsn, SessionSettings::reader())).unwrap_err();
    assert_eq!(error.kind(), PortErrorKind::Denied, "{error}");
    assert!(!format!("{error} {error:?}").contains("swordfish"), "{error}");
}
