//! A run store over a database of its own, and whoever asks it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its part")]

use cutter_core::base::id::RunId;
use cutter_core::port::run_store::LockHolder;
use cutter_pg::PgRunStore;
use cutter_pg::login::Login;
use cutter_pg::testing::TestDatabase;
use uuid::Uuid;

pub fn id() -> Uuid {
    let mut random = [0; 10];
    getrandom::fill(&mut random).unwrap();
    uuid::Builder::from_unix_timestamp_millis(1_747_735_872_000, &random).into_uuid()
}

pub fn run_id() -> RunId {
    RunId::new("2026-05-20T10:11:12Z".parse().unwrap(), id()).unwrap()
}

pub fn holder(command: &str) -> LockHolder {
    LockHolder {
        holder: id(),
        host: "host".into(),
        pid: 4711,
        since: "2026-05-20T10:11:12Z".into(),
        command: command.into(),
    }
}

pub fn store(database: &TestDatabase) -> PgRunStore {
    PgRunStore::connect(database.dsn(Login::Exec))
}
