//! Guards that stand behind other guards, each asked alone: one clean state, in which the call is
//! let through, and then one thing spoilt at a time, by a superuser with triggers off, which must be
//! refused. Nothing is kept: every line is rolled back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "guards/cuts.rs"]
mod cuts;
#[path = "guards/effects.rs"]
mod effects;
#[path = "guards/runs.rs"]
mod runs;

use cutter_pg::login::Login;
use postgres::{Client, SimpleQueryMessage};
use support::World;

/// A state in which a call is let through.
struct Scene {
    admin: Client,
    /// Who calls.
    login: &'static str,
    /// What is done before, as it should be.
    before: String,
}

/// What is spoilt, what is called, and what comes of it: a SQLSTATE, or the value.
type Line<'a> = (&'a str, &'a str, &'a str);

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
        let before = format!(
            "BEGIN; SET LOCAL SESSION AUTHORIZATION {}; {}
             SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL session_replication_role = replica; {spoil};
             SET LOCAL session_replication_role = origin; SET LOCAL SESSION AUTHORIZATION {};",
            self.login, self.before, self.login
        );
        self.admin.batch_execute(&before).unwrap_or_else(|error| panic!("{spoil}: {error:?}"));
        let outcome = self.admin.simple_query(call).and_then(|messages| {
            self.admin.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").map(|()| messages)
        });
        self.admin.batch_execute("ROLLBACK").unwrap();
        match outcome {
            Ok(messages) => {
                let rows = messages.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
                    _ => None,
                });
                rows.collect::<Vec<_>>().join(",")
            }
            Err(error) => match error.as_db_error() {
                Some(error) => error.code().code().to_owned(),
                None => panic!("{call}: {error:?}"),
            },
        }
    }

    /// All lines, and every one that comes out otherwise.
    fn holds(&mut self, lines: &[Line<'_>]) {
        let wrong: Vec<String> = lines
            .iter()
            .filter_map(|(spoil, call, expected)| {
                let observed = self.outcome(spoil, call);
                (observed != *expected)
                    .then(|| format!("{spoil}; {call}: expected {expected}, observed {observed}"))
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
