//! A sweep of many backlog entries, beside one bare set-based UPDATE and INSERT of the same rows.
//!
//! Ours is the port's sweep, batch by batch, over entries of `--documents N` documents: document
//! lock, compare-and-set, sweep log, history, and at every COMMIT the checks that status, history
//! and log agree. Theirs is one transaction with one UPDATE and one INSERT over copies of the two
//! tables with the same columns and indexes, and with no trigger or foreign key. Same server, same rows, in
//! alternating pairs; the bound says that ours has at least half of the rows a second.
//! `--entries N` (100,000 unless told), `--batch N`, `--rounds N`; with `--check` a missed bound
//! is a failure.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a benchmark")]

use std::time::Duration;

use cutter_benches::measured::{Pairs, timed};
use cutter_benches::pg::{argument, has};
use cutter_core::port::backlog::sweep_all;
use cutter_pg::PgDatabase;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use cutter_tests::pg::{Ids, SystemClock};
use futures_executor::block_on;
use postgres::Client;

/// Ours may take this many times as long.
const BOUND: f64 = 2.0;

fn main() {
    let entries = argument("--entries", 100_000);
    let documents = argument("--documents", 10);
    let rounds = argument("--rounds", 5);
    let batch = u32::try_from(argument("--batch", 10_000)).unwrap();
    let server = TestServer::durable();
    let database = server.fresh_database();
    let mut admin = database.client(Login::Admin);
    admin.batch_execute("SET synchronous_commit = on").unwrap();
    let (time, ()) = timed(|| fill(&mut admin, entries, documents));
    println!("stored {entries} entries of {documents} documents in {:.0} s", time.as_secs_f64());
    let mut bare = database.client(Login::Admin);
    bare.batch_execute("SET synchronous_commit = on").unwrap();
    let mut passes = 0;
    let pairs = Pairs::measure(
        rounds,
        || {
            reset(&mut admin, entries);
            let port = port_of(&database);
            let (time, totals) = timed(|| {
                block_on(sweep_all(&port, (&SystemClock, &Ids), None, batch, "bench", &mut |_, _| {}))
                    .unwrap()
            });
            assert_eq!(totals.promoted, entries as u64);
            passes = totals.passes;
            time
        },
        || {
            copy(&mut bare);
            set_based(&mut bare, entries)
        },
    );
    let line = pairs.line("sweep", "bare UPDATE + INSERT", BOUND);
    println!("{entries} entries in {passes} passes of {batch}: {line}");
    let rate = |time: Duration| entries as f64 / time.as_secs_f64();
    println!("  rows a second: sweep {:.0}, bare {:.0}", rate(pairs.ours()), rate(pairs.theirs()));
    if has("--check") && pairs.ratio() > BOUND {
        std::process::exit(1);
    }
}

fn port_of(database: &TestDatabase) -> PgDatabase {
    PgDatabase::connect([Login::Exec, Login::Review, Login::Ro].map(|login| (login, database.dsn(login))))
}

/// Marked entries, each with its first history row, as MARK leaves them.
fn fill(admin: &mut Client, entries: usize, documents: usize) {
    admin
        .batch_execute(&format!(
            "BEGIN; SET LOCAL session_replication_role = replica;
             INSERT INTO iu_core.source_document (source_document_id, document_id, title, registered_by)
             SELECT md5('d' || i)::uuid, 'SWEEP-' || i, 't', 'me' FROM generate_series(1, {documents}) i;
             INSERT INTO iu_core.source_version (source_version_id, source_document_id, version_no, sha256, byte_length,
                 content, registered_by)
             SELECT md5('v' || i)::uuid, md5('d' || i)::uuid, 1, encode(sha256('x'), 'hex'), 1, 'x', 'me'
             FROM generate_series(1, {documents}) i;
             INSERT INTO cutter_governance.decision_backlog_entry (entry_id, run_id, document_id, source_document_id,
                 source_version_id, status, idempotency_key, region_sha, manifest_digest, candidate_count, actor, at)
             SELECT ('0190' || lpad(to_hex(i), 8, '0') || '7000' || left(md5('e' || i), 16))::uuid, 'r' || i,
                 'SWEEP-' || (i % {documents} + 1), md5('d' || (i % {documents} + 1))::uuid,
                 md5('v' || (i % {documents} + 1))::uuid, 'marked', encode(sha256(i::text::bytea), 'hex'),
                 encode(sha256('r'), 'hex'), encode(sha256('m'), 'hex'), 40, 'me', now()
             FROM generate_series(1, {entries}) i;
             INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, to_state, actor, reason, at)
             SELECT gen_random_uuid(), e.entry_id, 'marked', 'me', 'marked', e.at
             FROM cutter_governance.decision_backlog_entry e;
             COMMIT;
             CREATE SCHEMA kept;
             CREATE TABLE kept.entry AS SELECT * FROM cutter_governance.decision_backlog_entry;
             CREATE TABLE kept.history AS SELECT * FROM cutter_governance.decision_backlog_history;
             CREATE SCHEMA bare;
             CREATE TABLE bare.entry (LIKE cutter_governance.decision_backlog_entry INCLUDING ALL);
             CREATE TABLE bare.history (LIKE cutter_governance.decision_backlog_history INCLUDING ALL)"
        ))
        .unwrap();
}

/// Everything as it was before the sweep, freshly written.
fn reset(admin: &mut Client, entries: usize) {
    one_by_one(
        admin,
        "SET session_replication_role = replica;
         TRUNCATE cutter_governance.decision_backlog_sweep_log, cutter_governance.decision_backlog_history;
         DELETE FROM cutter_governance.decision_backlog_entry;
         VACUUM cutter_governance.decision_backlog_entry;
         INSERT INTO cutter_governance.decision_backlog_entry SELECT * FROM kept.entry;
         INSERT INTO cutter_governance.decision_backlog_history SELECT * FROM kept.history;
         SET session_replication_role = origin;
         VACUUM ANALYZE cutter_governance.decision_backlog_entry;
         VACUUM ANALYZE cutter_governance.decision_backlog_history;
         CHECKPOINT",
    );
    let marked: i64 = admin
        .query_one(
            "SELECT count(*) FROM cutter_governance.decision_backlog_entry WHERE status = 'marked'",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(marked, entries as i64);
}

fn copy(bare: &mut Client) {
    one_by_one(
        bare,
        "TRUNCATE bare.entry, bare.history;
         INSERT INTO bare.entry SELECT * FROM kept.entry;
         INSERT INTO bare.history SELECT * FROM kept.history;
         VACUUM ANALYZE bare.entry;
         VACUUM ANALYZE bare.history;
         CHECKPOINT",
    );
}

/// VACUUM must be a statement of its own.
fn one_by_one(client: &mut Client, statements: &str) {
    for statement in statements.split(';') {
        client.batch_execute(statement).unwrap();
    }
}

fn set_based(bare: &mut Client, entries: usize) -> Duration {
    let (time, moved) = timed(|| {
        let mut transaction = bare.transaction().unwrap();
        let moved = transaction
            .execute("UPDATE bare.entry SET status = 'review_pending' WHERE status = 'marked'", &[])
            .unwrap();
        let written = transaction
            .execute(
                "INSERT INTO bare.history (history_id, entry_id, from_state, to_state, actor, reason, at, detail)
                 SELECT gen_random_uuid(), e.entry_id, 'marked', 'review_pending', 'bench', 'sweep', now(),
                     '{\"sweep_id\": \"01900000-0000-7000-8000-000000000000\"}'
                 FROM bare.entry e WHERE e.status = 'review_pending'",
                &[],
            )
            .unwrap();
        transaction.commit().unwrap();
        assert_eq!(moved, written);
        moved
    });
    assert_eq!(moved, entries as u64);
    time
}
