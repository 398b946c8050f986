//! Leg A beside a binary COPY of the same rows into the same tables, triggers and all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use cutter_core::record::effect::{EffectName as N, ExecutorEffect as E, Verdict};
use cutter_pg::login::Login;
use futures_executor::block_on;
use postgres::binary_copy::BinaryCopyInWriter;
use postgres::types::{ToSql, Type};
use support::{World, pending};

const UNITS: usize = 1000;
/// The best of several, as the machine is shared. The bound of the design is 3.
const ROUNDS: usize = 5;

#[test]
#[ignore = "a timing: run alone on a quiet machine, with --ignored"]
fn creating_units_costs_at_most_three_copies() {
    let world = World::new();
    let source = world.register(UNITS);
    let mut run = world.run(&source);
    run.up_to_sg1();
    let mut calls = Duration::MAX;
    let mut admin = world.database.client(Login::Admin);
    let mut copies = Duration::MAX;
    for _ in 0..ROUNDS {
        let write = run.leg_a_write();
        let started = Instant::now();
        let open = pending(run.exec(N::LegA, E::LegA(write.clone())));
        calls = calls.min(started.elapsed());
        block_on(open.finish(Verdict::Rollback)).unwrap();

        let mut copy = admin.transaction().unwrap();
        copy.execute(
            "INSERT INTO cutter_governance.cut_change_set (change_set_id, run_id, document_id, source_document_id,
                 source_version_id, source_bytes, entry_id, approval_id, review_decision_id, idempotency_key, writer_digest,
                 manifest_digest, region_sha, publication_type, unit_count, actor, at)
             SELECT $1, 'r', 'X-LAW-1', v.source_document_id, v.source_version_id, v.byte_length, $2, $3, $4, $5, $5, $5, $5,
                 'act', 1, 'me', now() FROM iu_core.source_version v",
            &[&write.change_set_id, &write.entry_id, &write.approval_id, &write.review_decision_id, &"a".repeat(64)],
        )
        .unwrap();
        let at = std::time::SystemTime::now();
        let bytes = source.units.concat().len() as i64;
        let started = Instant::now();
        let rows: Vec<[String; 3]> = write
            .units
            .iter()
            .map(|u| [u.content_hash.to_hex(), u.body_hash.to_hex(), u.idempotency_key.to_hex()])
            .collect();
        let mut put = |table: &str, types: &[Type], row: &dyn Fn(usize) -> Vec<Box<dyn ToSql + Sync>>| {
            let sink = copy.copy_in(&format!("COPY {table} FROM STDIN BINARY")).unwrap();
            let mut writer = BinaryCopyInWriter::new(sink, types);
            for i in 0..UNITS {
                let values = row(i);
                let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(AsRef::as_ref).collect();
                writer.write(&values).unwrap();
            }
            assert_eq!(writer.finish().unwrap(), UNITS as u64);
        };
        let (u, t, n, b, ts) = (Type::UUID, Type::TEXT, Type::INT8, Type::BYTEA, Type::TIMESTAMPTZ);
        let units = &write.units;
        put(
            "iu_core.information_unit (unit_id, change_set_id, document_id, source_document_id, source_version_id,
                 ordinal, canonical_address, citation_address, unit_kind, section_type, content_hash, body_hash,
                 idempotency_key, created_at)",
            &[
                u.clone(), u.clone(), t.clone(), u.clone(), u.clone(), n.clone(), t.clone(), t.clone(), t.clone(),
                t.clone(), t.clone(), t.clone(), t.clone(), ts.clone(),
            ],
            &|i| {
                let unit = &units[i];
                vec![
                    Box::new(unit.unit_id),
                    Box::new(write.change_set_id),
                    Box::new("X-LAW-1"),
                    Box::new(write.source_document_id),
                    Box::new(write.source_version_id),
                    Box::new(unit.ordinal as i64),
                    Box::new(unit.canonical_address.clone()),
                    Box::new(unit.citation_address.clone()),
                    Box::new(unit.unit_kind.clone()),
                    Box::new(unit.section_type.clone()),
                    Box::new(rows[i][0].clone()),
                    Box::new(rows[i][1].clone()),
                    Box::new(rows[i][2].clone()),
                    Box::new(at),
                ]
            },
        );
        put(
            "iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash, actor, created_at)",
            &[u.clone(), u.clone(), Type::INT4, b, t.clone(), t.clone(), t, ts],
            &|i| {
                vec![
                    Box::new(units[i].version_id),
                    Box::new(units[i].unit_id),
                    Box::new(1_i32),
                    Box::new(units[i].content.clone()),
                    Box::new(rows[i][0].clone()),
                    Box::new(rows[i][1].clone()),
                    Box::new("me"),
                    Box::new(at),
                ]
            },
        );
        put(
            "iu_core.unit_anchor (anchor_id, unit_id, change_set_id, source_version_id, source_bytes, start_byte, end_byte)",
            &[u.clone(), u.clone(), u.clone(), u, n.clone(), n.clone(), n],
            &|i| {
                vec![
                    Box::new(units[i].anchor_id),
                    Box::new(units[i].unit_id),
                    Box::new(write.change_set_id),
                    Box::new(write.source_version_id),
                    Box::new(bytes),
                    Box::new(units[i].start as i64),
                    Box::new(units[i].end as i64),
                ]
            },
        );
        copies = copies.min(started.elapsed());
        copy.rollback().unwrap();
    }
    let ratio = calls.as_secs_f64() / copies.as_secs_f64();
    println!("{UNITS} units: leg A with surveys and digests {calls:?}, COPY {copies:?}, ratio {ratio:.2}");
    assert!(ratio <= 3.0, "leg A {calls:?}, COPY {copies:?}, ratio {ratio:.2}, expected at most 3");
}
