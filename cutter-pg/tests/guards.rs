//! Guards that stand behind other guards, each asked alone: one clean state, in which the call is
//! let through, and then one thing spoilt at a time, by a superuser with triggers off, which must be
//! refused. Nothing is kept: every line is rolled back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "guards/cuts.rs"]
mod cuts;
#[path = "guards/effects.rs"]
mod effects;
#[path = "guards/entries.rs"]
mod entries;
#[path = "guards/locks.rs"]
mod locks;
#[path = "guards/queue.rs"]
mod queue;
#[path = "guards/requests.rs"]
mod requests;
#[path = "guards/rows.rs"]
mod rows;
#[path = "guards/runs.rs"]
mod runs;
#[path = "guards/surveys.rs"]
mod surveys;

use cutter_pg::login::Login;
use cutter_pg::testing::DEFERRED_CHECKS;
use postgres::{Client, SimpleQueryMessage};
use support::World;

/// Changes columns of all rows of a table.
fn set(table: &str, what: &str) -> String {
    format!("UPDATE {table} SET {what}")
}

/// A copy of the rows beside them, which differs in this.
fn beside(table: &str, differs: &str) -> String {
    format!(
        "INSERT INTO {table} SELECT (jsonb_populate_record(t, jsonb_build_object({differs}))).* FROM {table} t"
    )
}

/// The rows of a table taken away, and the statement that inserts them again.
fn again(world: &World, table: &str, which: &str) -> (String, String) {
    let rows: String = world
        .database
        .client(Login::Admin)
        .query_one(&format!("SELECT quote_literal(jsonb_agg(to_jsonb(t))) FROM {table} t WHERE {which}"), &[])
        .unwrap()
        .get(0);
    (
        format!("DELETE FROM {table} WHERE {which}"),
        format!("INSERT INTO {table} SELECT * FROM jsonb_populate_recordset(NULL::{table}, {rows})"),
    )
}

/// A state in which a call is let through.
struct Scene {
    admin: Client,
    /// Who calls.
    login: &'static str,
    /// What is done before, as it should be.
    before: String,
}

impl Scene {
    fn of(world: &World, login: &'static str) -> Self {
        Self { admin: world.database.client(Login::Admin), login, before: String::new() }
    }

    fn before(mut self, sql: &str) -> Self {
        self.before.push_str(sql);
        self.before.push_str(";\n");
        self
    }

    /// Spoils, calls, and lets everything that waits for the end be asked.
    fn outcome(&mut self, spoil: &str, call: &str) -> String {
        self.said(spoil, call).0
    }

    /// What comes of it, a SQLSTATE or the values, and what is said to it.
    fn said(&mut self, spoil: &str, call: &str) -> (String, String) {
        let before = format!(
            "BEGIN; SET LOCAL SESSION AUTHORIZATION {}; {}
             SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL session_replication_role = replica; {spoil};
             SET LOCAL session_replication_role = origin; SET LOCAL SESSION AUTHORIZATION {};",
            self.login, self.before, self.login
        );
        self.admin.batch_execute(&before).unwrap_or_else(|error| panic!("{spoil}: {error:?}"));
        let outcome = self
            .admin
            .simple_query(call)
            .and_then(|messages| self.admin.batch_execute(DEFERRED_CHECKS).map(|()| messages));
        self.admin.batch_execute("ROLLBACK").unwrap();
        match outcome {
            Ok(messages) => {
                let rows = messages.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
                    _ => None,
                });
                (rows.collect::<Vec<_>>().join(","), String::new())
            }
            Err(error) => match error.as_db_error() {
                Some(error) => (error.code().code().to_owned(), error.message().to_owned()),
                None => panic!("{call}: {error:?}"),
            },
        }
    }

    /// All lines, and every one that comes out otherwise: what is spoilt, what is called, and what
    /// comes of it, a SQLSTATE or the values. Words behind a SQLSTATE and a colon are said with it.
    fn holds<S: AsRef<str>, C: AsRef<str>>(&mut self, lines: &[(S, C, &str)]) {
        let mut wrong = Vec::new();
        for (spoil, call, expected) in lines {
            let (spoil, call) = (spoil.as_ref(), call.as_ref());
            let (observed, said) = self.said(spoil, call);
            let is_so = match expected.split_once(": ") {
                Some((code, words)) => observed == code && said.contains(words),
                None => observed == *expected,
            };
            if !is_so {
                wrong.push(format!("{spoil}; {call}: expected {expected}, observed {observed} {said}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
