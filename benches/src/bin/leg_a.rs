//! Leg A of 1,000 units, beside a binary COPY of the same rows into the same tables.
//!
//! Both end with COMMIT, on a durable server with synchronous_commit on, on tables with the
//! same indexes and triggers, over connections that are warm. Leg A is the port's `begin` and
//! `finish` in a run that the driver drives: fence, lock, both surveys, the base state, one
//! `fn_iu_create` per unit, the signature, the moves of the entry, the digest of what was
//! written. COPY is BEGIN, three COPYs of the same units under another document's change set,
//! COMMIT; that change set stands before the clock starts. `--units N`, `--rounds N`.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a benchmark")]

use std::time::{Duration, SystemTime};

use cutter_benches::measured::{Pairs, ROUNDS, median, milliseconds, timed};
use cutter_benches::pg::{argument, fresh_id};
use cutter_core::base::key::{RowLabel, unit_id};
use cutter_core::record::effect::LegAWrite;
use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use cutter_tests::pg::{Ids, PgWorld, RunTimes, document_of};
use postgres::Client;
use postgres::binary_copy::BinaryCopyInWriter;
use postgres::types::{ToSql, Type};

fn main() {
    let units = argument("--units", 1_000);
    let rounds = argument("--rounds", ROUNDS);
    let server = TestServer::durable();
    let world = PgWorld::new(&server);
    let ports = world.ports();
    let mut admin = world.database.client(Login::Admin);
    admin.batch_execute("SET synchronous_commit = on").unwrap();
    let text = |id: &str| document_of(units, id);
    let cut = || {
        let id = fresh_id("LAW");
        world.register(&ports, &id, &text(&id));
        world.cut(&id, || ports.clone())
    };
    let last = std::cell::RefCell::new(cut());
    let mut runs: Vec<RunTimes> = Vec::new();
    let pairs = Pairs::measure(
        rounds,
        || {
            let run = cut();
            runs.push(run.clone());
            *last.borrow_mut() = run;
            runs.last().map_or(Duration::ZERO, leg_a)
        },
        || {
            let write = last.borrow().leg_a.clone();
            let id = fresh_id("LAW");
            let source = world.register(&ports, &id, &text(&id)).source;
            let version = source.latest.unwrap().source_version_id;
            copy(&mut admin, &write, &id, version)
        },
    );
    println!("{units} units: {}", pairs.line("leg A", "COPY", 3.0));
    let part = |name: &str| median(runs.iter().map(|run| milliseconds(run.op(name))).collect());
    println!("  begin {:.1} ms, finish {:.1} ms", part("begin leg_a"), part("finish leg_a"));
    println!("  fn_iu_create ran {} times for {units} units", calls(&world, &mut admin, units));
}

fn leg_a(run: &RunTimes) -> Duration {
    run.op("begin leg_a") + run.op("finish leg_a")
}

/// How often `fn_iu_create` runs in one more run, as the server counts.
fn calls(world: &PgWorld, admin: &mut Client, units: usize) -> i64 {
    let database = world.database.name();
    admin.batch_execute(&format!("ALTER DATABASE {database} SET track_functions = 'pl'")).unwrap();
    let id = fresh_id("LAW");
    world.run_document(&id, &document_of(units, &id));
    let sql =
        "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE funcname = 'fn_iu_create'";
    // The statistics of a session are there at its end at the latest.
    for _ in 0..100 {
        let count: i64 = admin.query_one(sql, &[]).unwrap().get(0);
        if count >= units as i64 {
            return count;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    0
}

/// Writes the values of one row.
type Put<'p> = &'p mut dyn FnMut(&[&(dyn ToSql + Sync)]);

/// The rows of `write` once more, for another document of a text of the same length.
fn copy(admin: &mut Client, write: &LegAWrite, document: &str, version: uuid::Uuid) -> Duration {
    let set = Ids.mint();
    admin
        .execute(
            "INSERT INTO cutter_governance.cut_change_set (change_set_id, run_id, document_id, source_document_id,
                 source_version_id, source_bytes, entry_id, approval_id, review_decision_id, idempotency_key,
                 writer_digest, manifest_digest, region_sha, publication_type, unit_count, actor, at)
             SELECT $1, 'copy', $2, v.source_document_id, v.source_version_id, v.byte_length, $3, $4, $5, $6, $7, $7, $7,
                 'act', $8, 'op', now() FROM iu_core.source_version v WHERE v.source_version_id = $9",
            &[
                &set,
                &document,
                &write.entry_id,
                &write.approval_id,
                &write.review_decision_id,
                &cutter_core::base::digest::Digest::of(set.as_bytes()).to_hex(),
                &"a".repeat(64),
                &(write.units.len() as i64),
                &version,
            ],
        )
        .unwrap();
    let row = admin
        .query_one(
            "SELECT source_document_id, source_bytes FROM cutter_governance.cut_change_set WHERE change_set_id = $1",
            &[&set],
        )
        .unwrap();
    let (source, bytes): (uuid::Uuid, i64) = (row.get(0), row.get(1));
    // New identifiers and the other document's addresses, before the clock starts.
    let mut units = write.units.clone();
    for unit in &mut units {
        let id = |label| unit_id(set, label, unit.ordinal);
        (unit.unit_id, unit.version_id, unit.anchor_id) =
            (id(RowLabel::Unit), id(RowLabel::Version), id(RowLabel::Anchor));
        let rest = &unit.canonical_address[document.len()..];
        unit.canonical_address = format!("{document}{rest}");
    }
    let at = SystemTime::now();
    let (time, ()) = timed(|| {
        let mut transaction = admin.transaction().unwrap();
        let mut put = |table: &str, types: &[Type], row: &dyn Fn(usize, Put<'_>)| {
            let sink = transaction.copy_in(&format!("COPY {table} FROM STDIN BINARY")).unwrap();
            let mut writer = BinaryCopyInWriter::new(sink, types);
            for i in 0..units.len() {
                row(i, &mut |values| writer.write(values).unwrap());
            }
            assert_eq!(writer.finish().unwrap(), units.len() as u64);
        };
        let (u, t, n, b, ts) = (Type::UUID, Type::TEXT, Type::INT8, Type::BYTEA, Type::TIMESTAMPTZ);
        let [u1, u2, u3, u4] = [(); 4].map(|()| u.clone());
        let [t1, t2, t3, t4, t5, t6, t7, t8] = [(); 8].map(|()| t.clone());
        put(
            "iu_core.information_unit (unit_id, change_set_id, document_id, source_document_id, source_version_id,
                 ordinal, canonical_address, citation_address, unit_kind, section_type, content_hash, body_hash,
                 idempotency_key, created_at)",
            &[u1, u2, t1, u3, u4, n.clone(), t2, t3, t4, t5, t6, t7, t8, ts.clone()],
            &|i, write_row| {
                let unit = &units[i];
                write_row(&[
                    &unit.unit_id,
                    &set,
                    &document,
                    &source,
                    &version,
                    &(unit.ordinal as i64),
                    &unit.canonical_address,
                    &unit.citation_address,
                    &unit.unit_kind,
                    &unit.section_type,
                    &unit.content_hash.to_hex(),
                    &unit.body_hash.to_hex(),
                    &unit.idempotency_key.to_hex(),
                    &at,
                ]);
            },
        );
        put(
            "iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash, actor, created_at)",
            &[u.clone(), u.clone(), Type::INT4, b, t.clone(), t.clone(), t.clone(), ts],
            &|i, write_row| {
                let unit = &units[i];
                write_row(&[
                    &unit.version_id,
                    &unit.unit_id,
                    &1_i32,
                    &unit.content,
                    &unit.content_hash.to_hex(),
                    &unit.body_hash.to_hex(),
                    &"op",
                    &at,
                ]);
            },
        );
        put(
            "iu_core.unit_anchor (anchor_id, unit_id, change_set_id, source_version_id, source_bytes, start_byte, end_byte)",
            &[u.clone(), u.clone(), u.clone(), u.clone(), n.clone(), n.clone(), n.clone()],
            &|i, write_row| {
                let unit = &units[i];
                let (start, end) = (unit.start as i64, unit.end as i64);
                write_row(&[&unit.anchor_id, &unit.unit_id, &set, &version, &bytes, &start, &end]);
            },
        );
        transaction.commit().unwrap();
    });
    time
}
