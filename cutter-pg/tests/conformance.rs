//! The core's contract of the database port, kept by PostgreSQL: every principal over its own
//! login, answers lost by cutting a real connection around a real COMMIT.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use cutter_core::testing::conformance::backlog::{self, BacklogUnderTest};
use cutter_core::testing::conformance::command_ledger::{self, LedgerUnderTest};
use cutter_core::testing::conformance::cut_request::{self, RequestsUnderTest};
use cutter_core::testing::conformance::database::{self, DatabaseUnderTest};
use cutter_pg::backup::PgBackupSource;
use cutter_pg::login::Login;
use cutter_pg::testing::{CommitProxy, Cut, TestServer};
use cutter_pg::{PgDatabase, PgLedger};
use futures_executor::block_on;

#[test]
fn postgresql_keeps_every_contract_of_the_database() {
    let build = || async {
        let stand = TestServer::shared().fresh_database();
        let proxy = Arc::new(CommitProxy::before(&stand.dsn(Login::Exec)));
        let logins = [Login::Ro, Login::Exec, Login::Verify, Login::Review];
        let port = Arc::new(PgDatabase::connect(logins.map(|login| (login, proxy.dsn(&stand.dsn(login))))));
        let backup_source = Arc::new(PgBackupSource::new(stand.dsn(Login::Ro)));
        let cutter = proxy.clone();
        Ok(DatabaseUnderTest {
            reader: port.clone(),
            executor: port.clone(),
            reviewer: port.clone(),
            verifier: port,
            backup_source,
            lose_answer: Some(Box::new(move |committed| {
                cutter.cut_next(if committed { Cut::AfterAnswer } else { Cut::BeforeCommit });
            })),
            keep: Some(Box::new((proxy, stand))),
        })
    };
    let held = block_on(database::run_all(build)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= 38, "only {held:?}");
}

/// Every time that the server looks at, so that it shows a year less.
const A_YEAR_PASSES: &str = "
    SET session_replication_role = replica;
    UPDATE public.cut_request SET cleanup_scheduled_at = least(cleanup_scheduled_at, now()) - interval '1 year';
    UPDATE public.cut_request_transition SET recorded_at = recorded_at - interval '1 year';
    UPDATE iu_core.iu_staging_record SET expires_at = least(expires_at, now()) - interval '1 year'";

#[test]
fn postgresql_keeps_every_contract_of_cut_requests() {
    let build = || async {
        let stand = TestServer::shared().fresh_database();
        let logins = [Login::Ro, Login::Exec, Login::Verify, Login::Review];
        let port = Arc::new(PgDatabase::connect(logins.map(|login| (login, stand.dsn(login)))));
        let database = DatabaseUnderTest {
            reader: port.clone(),
            executor: port.clone(),
            reviewer: port.clone(),
            verifier: port.clone(),
            backup_source: Arc::new(PgBackupSource::new(stand.dsn(Login::Ro))),
            lose_answer: None,
            keep: None,
        };
        let a_year_passes =
            Box::new(move || stand.client(Login::Admin).batch_execute(A_YEAR_PASSES).unwrap());
        Ok(RequestsUnderTest { requests: port, database, a_year_passes })
    };
    let held = block_on(cut_request::run_all(build)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= 22, "only {held:?}");
}

#[test]
fn postgresql_keeps_every_contract_of_the_backlog() {
    let build = || async {
        let stand = TestServer::shared().fresh_database();
        let logins = [Login::Ro, Login::Exec, Login::Verify, Login::Review];
        let port = Arc::new(PgDatabase::connect(logins.map(|login| (login, stand.dsn(login)))));
        let database = DatabaseUnderTest {
            reader: port.clone(),
            executor: port.clone(),
            reviewer: port.clone(),
            verifier: port.clone(),
            backup_source: Arc::new(PgBackupSource::new(stand.dsn(Login::Ro))),
            lose_answer: None,
            keep: Some(Box::new(stand)),
        };
        Ok(BacklogUnderTest { backlog: port, database })
    };
    let held = block_on(backlog::run_all(build)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= 13, "only {held:?}");
}

#[test]
fn postgresql_keeps_every_contract_of_the_command_ledger() {
    let build = || async {
        let stand = TestServer::shared().fresh_database();
        let ledger = Arc::new(PgLedger::connect(stand.dsn(Login::Exec), stand.dsn(Login::Ro)));
        let pass = Box::new(|millis| std::thread::sleep(std::time::Duration::from_millis(millis)));
        Ok(LedgerUnderTest { ledger, pass, keep: Some(Box::new(stand)) })
    };
    let held = block_on(command_ledger::run_all(build)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= 18, "only {held:?}");
}
