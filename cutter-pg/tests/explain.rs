//! A run's cost follows its own document: no table of units is ever read from end to end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cutter_core::port::database::Reader;
use cutter_core::record::observed::{UnitQuery, UnitScope};
use cutter_pg::login::Login;
use futures_executor::block_on;
use support::{DOCUMENT, World, port_of, texts};

const BIG: [&str; 4] = ["information_unit", "unit_version", "unit_anchor", "iu_lifecycle_log"];

/// Sequential scans so far, once every other session has left (and so reported its counts).
fn sequential_scans(world: &World) -> BTreeMap<String, i64> {
    let mut admin = world.database.client(Login::Admin);
    let until = Instant::now() + Duration::from_secs(10);
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    while admin.query_one(others, &[]).unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < until, "sessions stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    let rows = admin.query("SELECT relname::text, seq_scan FROM pg_stat_user_tables", &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Other documents with so many units each, as their runs would have left them.
fn filler(documents: usize, units: usize) -> String {
    let last = units - 1;
    FILLER.replace("{documents}", &documents.to_string()).replace("{last}", &last.to_string())
}

const FILLER: &str = "
BEGIN;
-- its consents name no rows
ALTER TABLE cutter_governance.cut_change_set DISABLE TRIGGER trg_rows_approved;
CREATE FUNCTION pg_temp.id(p_kind text, p_n int) RETURNS uuid LANGUAGE sql AS $$ SELECT md5(p_kind || p_n)::uuid $$;
CREATE FUNCTION pg_temp.hex(p_text text) RETURNS text LANGUAGE sql
    AS $$ SELECT encode(sha256(convert_to(p_text, 'UTF8')), 'hex') $$;
INSERT INTO iu_core.source_document (source_document_id, document_id, title, registered_by)
SELECT pg_temp.id('d', i), 'FILL-' || i, 't', 'me' FROM generate_series(1, {documents}) i;
INSERT INTO iu_core.source_version (source_version_id, source_document_id, version_no, sha256, byte_length, content,
    registered_by)
SELECT pg_temp.id('v', i), pg_temp.id('d', i), 1, pg_temp.hex(repeat('x', 10000)), 10000,
    convert_to(repeat('x', 10000), 'UTF8'), 'me'
FROM generate_series(1, {documents}) i;
INSERT INTO cutter_governance.decision_backlog_entry (entry_id, run_id, document_id, source_document_id,
    source_version_id, status, idempotency_key, region_sha, manifest_digest, candidate_count, actor, at)
SELECT pg_temp.id('e', i), 'r' || i, 'FILL-' || i, pg_temp.id('d', i), pg_temp.id('v', i), 'marked',
    pg_temp.hex('e' || i), pg_temp.hex('r'), pg_temp.hex('m'), {last} + 1, 'me', now()
FROM generate_series(1, {documents}) i;
INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, to_state, actor, reason, at)
SELECT pg_temp.id('h', i), pg_temp.id('e', i), 'marked', 'me', 'x', now() FROM generate_series(1, {documents}) i;
INSERT INTO cutter_governance.review_decision (id, run_id, document_id, type, decision, nonce, request_sha256, actor, at)
SELECT pg_temp.id('r', i), 'r' || i, 'FILL-' || i, 'cut_authorization', 'approve', 'n' || i, pg_temp.hex('q'), 'me', now()
FROM generate_series(1, {documents}) i;
INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type, decision,
    approval_kb_id, document, sha256, nonce, fingerprint, actor, request_sha256, inserted_by, at)
SELECT pg_temp.id('a', i), pg_temp.id('r', i), 'r' || i, 'FILL-' || i, 'cut_authorization', 'approve', 'k',
    convert_to('a' || i, 'UTF8'), pg_temp.hex('a' || i), 'n' || i, 'F', 'me', pg_temp.hex('q'), 'cutter_review', now()
FROM generate_series(1, {documents}) i;
INSERT INTO cutter_governance.cut_change_set (change_set_id, run_id, document_id, source_document_id, source_version_id,
    source_bytes, entry_id, approval_id, review_decision_id, idempotency_key, writer_digest, manifest_digest, region_sha,
    publication_type, unit_count, actor, at)
SELECT pg_temp.id('c', i), 'r' || i, 'FILL-' || i, pg_temp.id('d', i), pg_temp.id('v', i), 10000, pg_temp.id('e', i),
    pg_temp.id('a', i), pg_temp.id('r', i), pg_temp.hex('c' || i), pg_temp.hex('w'), pg_temp.hex('m'), pg_temp.hex('r'),
    'act', {last} + 1, 'me', now()
FROM generate_series(1, {documents}) i;
INSERT INTO iu_core.information_unit (unit_id, change_set_id, document_id, source_document_id, source_version_id,
    ordinal, canonical_address, unit_kind, section_type, content_hash, body_hash, idempotency_key, created_at)
SELECT pg_temp.id('u', i * 10000 + n), pg_temp.id('c', i), 'FILL-' || i, pg_temp.id('d', i), pg_temp.id('v', i), n,
    'FILL-' || i || '/art-' || n, 'article', 'general', pg_temp.hex('xxxxxxxxxx'), pg_temp.hex('xxxxxxxxxx'),
    pg_temp.hex('u' || i || ' ' || n), now()
FROM generate_series(1, {documents}) i, generate_series(0, {last}) n;
INSERT INTO iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash, actor, created_at)
SELECT pg_temp.id('w', i * 10000 + n), pg_temp.id('u', i * 10000 + n), 1, 'xxxxxxxxxx', pg_temp.hex('xxxxxxxxxx'),
    pg_temp.hex('xxxxxxxxxx'), 'me', now()
FROM generate_series(1, {documents}) i, generate_series(0, {last}) n;
INSERT INTO iu_core.unit_anchor (anchor_id, unit_id, change_set_id, source_version_id, source_bytes, start_byte, end_byte)
SELECT pg_temp.id('n', i * 10000 + n), pg_temp.id('u', i * 10000 + n), pg_temp.id('c', i), pg_temp.id('v', i), 10000,
    n * 10, n * 10 + 10
FROM generate_series(1, {documents}) i, generate_series(0, {last}) n;
INSERT INTO iu_core.iu_lifecycle_log (unit_id, change_set_id, run_id, from_status, to_status, reason_id, reason, actor, at)
SELECT pg_temp.id('u', i * 10000 + n), pg_temp.id('c', i), 'r' || i, 'draft', 'enacted', pg_temp.id('a', i), 'x', 'me', now()
FROM generate_series(1, {documents}) i, generate_series(0, {last}) n;
UPDATE iu_core.information_unit SET lifecycle_status = 'enacted' WHERE starts_with(document_id, 'FILL-');
COMMIT;
ALTER TABLE cutter_governance.cut_change_set ENABLE TRIGGER trg_rows_approved";

/// However small a document is beside the others, and however large: where all are large, reading a
/// whole table looks cheap to a planner.
#[test]
fn a_run_among_other_documents_scans_no_table_of_units() {
    scans_no_table_of_units(600, 40, 20);
    scans_no_table_of_units(24, 1_000, 1_000);
}

fn scans_no_table_of_units(documents: usize, of_units: usize, units: usize) {
    let mut world = World::new();
    world.database.client(Login::Admin).batch_execute(&filler(documents, of_units)).unwrap();
    world.database.client(Login::Admin).batch_execute("VACUUM ANALYZE").unwrap();
    world.port = port_of(&world.database);
    let before = sequential_scans(&world);

    let source = world.register(units);
    let mut run = world.run(&source);
    run.up_to_verified();
    run.do_sg2();
    let query = UnitQuery {
        document_id: DOCUMENT.to_owned(),
        scope: UnitScope::Live,
        limit: 5,
        after_ordinal: Some(3),
        ..Default::default()
    };
    assert_eq!(block_on(world.port.units(&query)).unwrap().len(), 5);
    let facts = block_on(world.port.structural(run.change_set, DOCUMENT, &[])).unwrap();
    assert_eq!(facts.units, units as u64);
    run.do_enact();
    block_on(world.port.evidence(&run.run_id)).unwrap();
    block_on(world.port.survey(&run.survey)).unwrap();
    let second = world.register_as("Y-LAW", &texts(20));
    let mut run = world.run(&second);
    run.up_to_sg1();
    run.do_leg_a();
    let void = run.void_write();
    run.commit(run.exec(
        cutter_core::record::effect::EffectName::Void,
        cutter_core::record::effect::ExecutorEffect::Void(void),
    ));
    let mut ro = world.database.client(Login::Ro);
    ro.query_one("SELECT cutter_governance.fn_base_state($1, 'none')", &[&DOCUMENT]).unwrap();
    drop(ro);
    world.port = port_of(&world.database);

    let after = sequential_scans(&world);
    for table in BIG {
        assert_eq!(
            after[table] - before[table],
            0,
            "sequential scans of {table} beside {documents} documents"
        );
    }
}

#[test]
fn every_look_up_in_the_governance_tables_has_its_index() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    admin.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").unwrap();
    let g = "FROM cutter_governance.";
    for query in [
        format!("{g}run_effect WHERE run_id = 'r' AND effect = 'mark' AND occurrence = 1"),
        format!("{g}run_effect WHERE run_id = 'r'"),
        format!("{g}run_effect WHERE document_id = 'D'"),
        format!("{g}run_fence WHERE run_id = 'r'"),
        format!("{g}review_approval WHERE run_id = 'r'"),
        format!("{g}review_approval WHERE document_id = 'D'"),
        format!("{g}review_approval WHERE nonce = 'n'"),
        format!("{g}review_approval WHERE sha256 = 's'"),
        format!("{g}review_decision WHERE document_id = 'D'"),
        format!("{g}approval_use WHERE effect_id = gen_random_uuid()"),
        format!("{g}decision_backlog_entry WHERE run_id = 'r'"),
        format!("{g}decision_backlog_entry WHERE document_id = 'D'"),
        format!(
            "{g}decision_backlog_entry WHERE status = 'marked' AND status IN ('marked', 'reviewed_deferred')"
        ),
        format!("{g}decision_backlog_history WHERE entry_id = '00000000-0000-0000-0000-000000000001'"),
        format!("{g}decision_backlog_sweep_log WHERE document_id = 'D'"),
        format!("{g}cut_change_set WHERE document_id = 'D'"),
        format!("{g}cut_change_set WHERE run_id = 'r'"),
        format!(
            "{g}cut_change_set WHERE live AND source_version_id = '00000000-0000-0000-0000-000000000001'"
        ),
        format!("{g}cut_change_set WHERE live AND idempotency_key = 'k'"),
        format!("{g}change_set_void WHERE change_set_id = '00000000-0000-0000-0000-000000000001'"),
        format!("{g}manifest_envelope WHERE change_set_id = '00000000-0000-0000-0000-000000000001'"),
        format!("{g}dot_pair_signature WHERE change_set_id = '00000000-0000-0000-0000-000000000001'"),
        format!("{g}dot_pair_signature WHERE run_id = 'r'"),
        format!("{g}verify_result WHERE change_set_id = '00000000-0000-0000-0000-000000000001'"),
        "FROM iu_core.source_version WHERE source_document_id = '00000000-0000-0000-0000-000000000001'
             ORDER BY version_no DESC LIMIT 1"
            .to_owned(),
        "FROM iu_core.information_unit WHERE source_document_id = '00000000-0000-0000-0000-000000000001'
             ORDER BY canonical_address, unit_id"
            .to_owned(),
        "FROM iu_core.unit_anchor WHERE source_version_id = '00000000-0000-0000-0000-000000000001'
             AND start_byte < 9"
            .to_owned(),
        "FROM iu_core.iu_staging_record WHERE document_id = 'D'".to_owned(),
    ] {
        // gen_random_uuid() is volatile; look up a constant instead.
        let query = query.replace("gen_random_uuid()", "'00000000-0000-0000-0000-000000000001'");
        let plan: Vec<String> = admin
            .query(&format!("EXPLAIN SELECT * {query}"), &[])
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan") && plan.contains("Index"), "{query}\n{plan}");
        let is_whole_index = plan.contains("Index") && !plan.contains("Index Cond");
        assert!(!is_whole_index, "the whole index is read: {query}\n{plan}");
        assert!(!plan.contains("Sort"), "{query}\n{plan}");
    }
}

/// Pages that a query touches on a session that has run it before.
fn pages(world: &World, query: &str) -> u64 {
    let mut admin = world.database.client(Login::Admin);
    admin.batch_execute("SET plan_cache_mode = force_generic_plan").unwrap();
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {query}");
    let mut touched = 0;
    for _ in 0..3 {
        let plan: serde_json::Value = admin.query_one(&explain, &[]).unwrap().get(0);
        let count = |name: &str| plan[0]["Plan"][name].as_u64().unwrap();
        touched = count("Shared Hit Blocks") + count("Shared Read Blocks");
    }
    touched
}

#[test]
fn what_is_asked_of_a_document_touches_as_many_pages_however_many_others_there_are() {
    let world = World::new();
    let source = world.register(20);
    let mut run = world.run(&source);
    run.up_to_verified();
    let asked = [
        format!(
            "SELECT * FROM cutter_governance.fn_survey('{DOCUMENT}', '{}', '{}', NULL, NULL)",
            run.run_id, run.entry
        ),
        format!("SELECT * FROM cutter_governance.fn_base_state_tables('{DOCUMENT}', '{}')", run.run_id),
        format!("SELECT * FROM iu_core.v_current_unit WHERE document_id = '{DOCUMENT}'"),
    ];
    // Both times after the same care, so that only the number of rows differs.
    let care = || {
        let mut admin = world.database.client(Login::Admin);
        admin.batch_execute("VACUUM ANALYZE").unwrap();
        admin.batch_execute("SELECT cutter_governance.fn_catalogue_keep()").unwrap();
    };
    care();
    let alone: Vec<u64> = asked.iter().map(|query| pages(&world, query)).collect();
    world.database.client(Login::Admin).batch_execute(&filler(600, 40)).unwrap();
    care();
    for (query, alone) in asked.iter().zip(alone) {
        let among = pages(&world, query);
        // An index is a level or two deeper: a few pages a look-up, no more.
        assert!(
            alone > 0 && among <= alone * 3 / 2 + 150,
            "{alone} pages alone, {among} among others: {query}"
        );
    }
}
