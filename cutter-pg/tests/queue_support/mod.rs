//! A database with a queue whose clock the test moves.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::Mutex;
use std::time::Duration;

use cutter_pg::PgQueue;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use jiff::Timestamp;
use postgres::Client;
use uuid::Uuid;

pub const LEASE: Duration = Duration::from_secs(60);

pub struct Stand {
    pub database: TestDatabase,
    clock: Mutex<(Client, Timestamp)>,
}

pub fn start() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

pub fn worker(n: u128) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 | n)
}

impl Stand {
    /// The queue's clock stands still at [`start`].
    pub fn new() -> Self {
        let database = TestServer::shared().fresh_database();
        let mut admin = database.client(Login::Admin);
        set(&mut admin, start());
        Self { clock: Mutex::new((admin, start())), database }
    }

    pub fn queue(&self) -> PgQueue {
        PgQueue::connect(self.database.dsn(Login::Exec))
    }

    pub fn advance(&self, time: Duration) {
        let mut clock = self.clock.lock().unwrap();
        clock.1 = clock.1.checked_add(time).unwrap();
        let (admin, now) = &mut *clock;
        set(admin, *now);
    }

    pub fn now(&self) -> Timestamp {
        self.clock.lock().unwrap().1
    }

    pub fn admin(&self) -> Client {
        self.database.client(Login::Admin)
    }
}

fn set(admin: &mut Client, now: Timestamp) {
    admin
        .batch_execute(&format!(
            "CREATE OR REPLACE FUNCTION cutter_queue.fn_work_now() RETURNS timestamptz LANGUAGE sql VOLATILE
             SET search_path = pg_catalog, pg_temp AS $$ SELECT timestamptz '{now}' $$"
        ))
        .unwrap();
}
