//! The backup's source: whole, consistent, bounded, the same bytes for the same state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archive_fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use archive_fixture::{FOREIGN, RUN, archive, cut, database, eventful, request, source};
use cutter_core::base::digest::Digest;
use cutter_core::port::PortErrorKind;
use cutter_core::port::backup::BackupSource as _;
use cutter_core::record::backup::BackupScope;
use cutter_pg::login::Login;
use cutter_pg::restore::inspect;
use cutter_pg::testing::TestDatabase;
use futures_executor::block_on;

/// The measurement of memory wants the process for itself.
static ALONE: RwLock<()> = RwLock::new(());

fn shared() -> RwLockReadGuard<'static, ()> {
    ALONE.read().unwrap_or_else(PoisonError::into_inner)
}

fn base_state(database: &TestDatabase, document: &str, run: &str) -> Digest {
    let row = database
        .client(Login::Admin)
        .query_one("SELECT cutter_governance.fn_base_state($1, $2)", &[&document, &run])
        .unwrap();
    row.get::<_, String>(0).parse().unwrap()
}

#[test]
fn the_summary_counts_what_the_tables_hold_and_signs_what_the_function_says() {
    let _shared = shared();
    let database = database();
    let mut client = database.client(Login::Admin);
    eventful(&mut client, "LAW-1");
    eventful(&mut client, FOREIGN);
    let (bytes, summary) = archive(&source(&database), &request("LAW-1", BackupScope::Document)).unwrap();

    assert_eq!(summary.base_state_sha, base_state(&database, "LAW-1", RUN));
    assert_ne!(
        summary.base_state_sha,
        base_state(&database, "LAW-1", "no such run"),
        "own rows do not count"
    );
    assert_eq!(summary.content_rows, 5 + 5 + 7 + 4);
    let rows: BTreeMap<&str, u64> = summary.tables.iter().map(|t| (t.table.as_str(), t.rows)).collect();
    // The base state's own counts, with nobody's rows left out, are those of the archive.
    let counted = client
        .query("SELECT table_name, row_count FROM cutter_governance.fn_base_state_tables('LAW-1', '')", &[])
        .unwrap();
    assert_eq!(counted.len(), 19);
    for row in counted {
        let (table, expected): (&str, i64) = (row.get(0), row.get(1));
        // A payload of 200,000 bytes and one of 400,000 take more than a piece.
        let pieces = if table == "iu_core.iu_staging_payload" { 1 + 2 + 4 } else { expected };
        assert_eq!(rows.get(table), Some(&u64::try_from(pieces).unwrap()), "{table}");
    }
    assert_eq!(rows["iu_core.unit_version"], 5 + 5 + 7 + 4 + 2);
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains(FOREIGN), "another document's rows");
    assert!(text.contains("fingerprint.trigger") && text.contains("trg_iu_enacted_immut"));

    let info = inspect(&mut text.as_bytes()).unwrap();
    assert!(info.complete, "{:?}", info.problem);
    assert_eq!(info.tables, summary.tables);
    assert_eq!(info.base_state_sha, Some(summary.base_state_sha));
    assert_eq!((info.run_id.as_str(), info.document_id.as_str()), (RUN, "LAW-1"));
    assert_eq!(info.migrations.len(), cutter_pg::migrations::migrations().len());
}

#[test]
fn a_first_cut_has_every_table_with_zero_rows() {
    let _shared = shared();
    let database = database();
    cut(&mut database.client(Login::Admin), "LAW-1", RUN, b"text", 1, "marked");
    let (_, summary) = archive(&source(&database), &request("LAW-1", BackupScope::Document)).unwrap();
    assert_eq!(summary.content_rows, 0);
    let zero: BTreeSet<&str> =
        summary.tables.iter().filter(|t| t.rows == 0).map(|t| t.table.as_str()).collect();
    assert!(
        zero.contains("iu_core.information_unit") && zero.contains("iu_core.unit_version.content"),
        "{zero:?}"
    );
    assert!(summary.tables.iter().filter(|t| t.rows == 0).all(|t| t.sha256 == Digest::of(b"")));
}

#[test]
fn two_backups_of_one_state_differ_in_their_time_alone() {
    let _shared = shared();
    let database = database();
    eventful(&mut database.client(Login::Admin), "LAW-1");
    let mut request = request("LAW-1", BackupScope::Document);
    let (first, _) = archive(&source(&database), &request).unwrap();
    request.at = "2027-01-01T00:00:00Z".to_owned();
    let (second, _) = archive(&source(&database), &request).unwrap();
    let parts = |bytes: &[u8]| {
        let mut lines = bytes.splitn(3, |byte| *byte == b'\n').map(<[u8]>::to_vec);
        let (_, header, rest) = (lines.next().unwrap(), lines.next().unwrap(), lines.next().unwrap());
        (String::from_utf8(header).unwrap(), rest)
    };
    let ((header, rest), (later, same)) = (parts(&first), parts(&second));
    assert_ne!(header, later);
    assert_eq!(header.replace("2026-05-20T10:11:12Z", "2027-01-01T00:00:00Z"), later);
    assert!(rest == same);
}

#[test]
fn rows_of_a_later_commit_are_not_in_an_open_stream() {
    let _shared = shared();
    let database = database();
    let mut client = database.client(Login::Admin);
    cut(&mut client, "LAW-1", "run-a", &vec![b'x'; 3_000_000], 3, "enacted");
    let before = base_state(&database, "LAW-1", RUN);
    let request = request("LAW-1", BackupScope::Document);
    let source = source(&database);
    block_on(async {
        let mut stream = source.open(&request).await.unwrap();
        cut(&mut client, "LAW-1", "run-b", b"later", 1, "enacted");
        while stream.next().await.unwrap().is_some() {}
        let summary = stream.finish().await.unwrap();
        assert_eq!((summary.base_state_sha, summary.content_rows), (before, 3));
    });
}

#[test]
fn every_table_is_either_saved_or_left_out_on_purpose() {
    let _shared = shared();
    let database = database();
    let mut client = database.client(Login::Admin);
    cut(&mut client, "LAW-1", RUN, b"text", 1, "marked");
    let (bytes, _) = archive(&source(&database), &request("LAW-1", BackupScope::Document)).unwrap();
    let mut saved: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8(bytes).unwrap().lines().filter_map(|line| line.strip_prefix("section ")) {
        let head: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = head["name"].as_str().unwrap();
        let columns = head["columns"].as_array().unwrap().iter().map(|c| c.as_str().unwrap().to_owned());
        saved.entry(name.trim_end_matches(".content").to_owned()).or_default().extend(columns);
    }
    // Who drives or began before, what was asked and answered on the way, what is expected of grants, what a customer asked for, commands to others: none is a document's state.
    let left_out = [
        "cutter_governance.run_fence",
        "cutter_governance.before_trust",
        "cutter_governance.approval_ask",
        "cutter_governance.approval_answer",
        "cutter_governance.run_begun",
        "cutter_governance.run_statement",
        "cutter_governance.statement_signature",
        "cutter_governance.policy_event",
        "cutter_governance.policy_key",
        "cutter_governance.backlog_promotion_check",
        "cutter_governance.run_effect",
        "cutter_governance.run_ended",
        "cutter_governance.grant_expectation",
        "cutter_governance.catalogue_reading",
        "cutter_governance.copy_folder",
        "cutter_governance.command",
        "cutter_governance.command_attempt",
        "cutter_governance.command_settlement",
        "cutter_governance.command_open",
        "public.cut_request",
        "public.cut_request_transition",
    ];
    let columns = client
        .query(
            "SELECT n.nspname || '.' || c.relname, a.attname::text
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
             WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                AND (n.nspname IN ('iu_core', 'cutter_governance')
                    OR n.nspname = 'public' AND pg_get_userbyid(c.relowner) = 'cutter_owner')",
            &[],
        )
        .unwrap();
    assert!(columns.len() > 150);
    for row in columns {
        let (table, column): (String, String) = (row.get(0), row.get(1));
        if left_out.contains(&table.as_str()) || column == "created_xid" || column == "recorded_at" {
            continue;
        }
        let is_saved = saved.get(&table).is_some_and(|columns| columns.contains(&column));
        assert!(is_saved, "{table}.{column} is in no backup: add it to backup/tables.rs, or to this list");
    }
}

#[test]
fn what_is_wrong_from_the_start_is_an_error_of_open() {
    let _shared = shared();
    let database = database();
    let kind = |request| archive(&source(&database), &request).unwrap_err();
    let error = kind(request("NOT-THERE", BackupScope::Document));
    assert_eq!(error.kind, PortErrorKind::NotFound);
    assert!(error.message.contains("cutter source add"), "{error}");
    let error = kind(request("X' OR 'a'='a", BackupScope::Document));
    assert_eq!(error.kind, PortErrorKind::NotFound);
    let mut late = request("LAW-1", BackupScope::Document);
    late.deadline_ms = 0;
    assert_eq!(kind(late).kind, PortErrorKind::Deadline);
    database
        .client(Login::Admin)
        .execute("DELETE FROM cutter_meta.migration WHERE version = (SELECT max(version) FROM cutter_meta.migration)", &[])
        .unwrap();
    let error = kind(request("LAW-1", BackupScope::Document));
    assert!(error.message.contains("cutter db migrate"), "{error}");
}

#[test]
fn a_stream_is_not_finished_before_its_end() {
    let _shared = shared();
    let database = database();
    cut(&mut database.client(Login::Admin), "LAW-1", RUN, b"text", 1, "marked");
    block_on(async {
        let stream = source(&database).open(&request("LAW-1", BackupScope::Document)).await.unwrap();
        assert_eq!(stream.finish().await.unwrap_err().kind, PortErrorKind::Invalid);
    });
}

/// Sessions of backups that still hold a snapshot or run something.
fn busy(database: &TestDatabase) -> i64 {
    database
        .client(Login::Admin)
        .query_one(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE 'cutter/ictr%'
                AND (state <> 'idle' OR backend_xmin IS NOT NULL)",
            &[&database.name()],
        )
        .unwrap()
        .get(0)
}

fn wait_until_quiet(database: &TestDatabase, limit: Duration) {
    let until = Instant::now() + limit;
    while busy(database) > 0 {
        assert!(Instant::now() < until, "the backup's session still holds its snapshot");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_reader_that_stops_or_goes_away_holds_no_snapshot() {
    let _shared = shared();
    let database = database();
    cut(&mut database.client(Login::Admin), "LAW-1", "run-a", &vec![b'x'; 8_000_000], 4, "draft");
    let source = source(&database).stall_limit(Duration::from_millis(300));
    let request = request("LAW-1", BackupScope::Document);
    let mut stream = block_on(source.open(&request)).unwrap();
    block_on(stream.next()).unwrap().unwrap();
    assert_eq!(busy(&database), 1, "it streams");
    // The stream is kept and nobody polls it.
    wait_until_quiet(&database, Duration::from_secs(10));
    let error = block_on(async {
        loop {
            match stream.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a cut stream must not look whole"),
                Err(error) => break error,
            }
        }
    });
    assert_eq!(error.kind, PortErrorKind::Deadline, "{error}");
    assert!(block_on(stream.finish()).is_err());

    let stream = block_on(archive_fixture::source(&database).open(&request)).unwrap();
    assert_eq!(busy(&database), 1);
    drop(stream);
    wait_until_quiet(&database, Duration::from_secs(10));
}

#[test]
fn the_deadline_ends_a_backup() {
    let _shared = shared();
    let database = database();
    let mut client = database.client(Login::Admin);
    cut(&mut client, "LAW-1", "run-a", b"text", 1, "draft");
    // Something that the backup must wait for.
    let mut lock = client.transaction().unwrap();
    lock.batch_execute("LOCK TABLE iu_core.unit_anchor IN ACCESS EXCLUSIVE MODE").unwrap();
    let mut request = request("LAW-1", BackupScope::Document);
    request.deadline_ms = 700;
    let started = Instant::now();
    let error = archive(&source(&database), &request).unwrap_err();
    assert!(matches!(error.kind, PortErrorKind::Deadline), "{error}");
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    // A dump waits for the same lock, and is ended as well.
    request.scope = BackupScope::Database;
    let started = Instant::now();
    archive(&source(&database), &request).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    lock.rollback().unwrap();
    wait_until_quiet(&database, Duration::from_secs(5));
}

#[test]
fn a_dump_that_may_not_read_everything_fails_and_says_why() {
    let _shared = shared();
    let database = database();
    let mut client = database.client(Login::Admin);
    cut(&mut client, "LAW-1", "run-a", b"text", 1, "draft");
    client.batch_execute("CREATE TABLE public.of_somebody_else (a int)").unwrap();
    let request = request("LAW-1", BackupScope::Database);
    let error = archive(&source(&database), &request).unwrap_err();
    assert!(error.message.contains("pg_dump") && error.message.contains("of_somebody_else"), "{error}");
    assert!(!error.message.contains("PASSWORD"), "{error}");
    let source = source(&database).dump_login(database.admin_dsn());
    assert!(archive(&source, &request).is_ok());
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_follow_the_document() {
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    let database = database();
    let mut client = database.client(Login::Admin);
    // Two units: the text is in three rows, none of which may come whole.
    client
        .execute(
            "SELECT public.cut('LAW-1', 'run-a', (SELECT string_agg(sha256(n::text::bytea), ''::bytea)
             FROM generate_series(1, 950000) n), 2, 'draft')",
            &[],
        )
        .unwrap();
    let request = request("LAW-1", BackupScope::Document);
    let source = source(&database);
    // Once to have what is allocated once, and then for the measurement.
    let (mut bytes, mut before, mut most) = (0_u64, 0, 0);
    for round in 0..2 {
        before = resident_bytes();
        (bytes, most) = (0, before);
        block_on(async {
            let mut stream = source.open(&request).await.unwrap();
            while let Some(chunk) = stream.next().await.unwrap() {
                bytes += u64::try_from(chunk.len()).unwrap();
                // A slow target: what is read ahead piles up now or never.
                if round == 1 && bytes < 4_000_000 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                most = most.max(resident_bytes());
            }
            stream.finish().await.unwrap();
        });
    }
    assert!(bytes > 4 * 30_000_000, "{bytes} bytes of archive");
    assert!(most - before < 8 * 1024 * 1024, "{} bytes more for {bytes} bytes of archive", most - before);
}

#[test]
fn no_query_reads_what_other_documents_fill() {
    let _shared = shared();
    let database = database();
    let mut client = database.client(Login::Admin);
    cut(&mut client, FOREIGN, "run-f", b"x", 1, "draft");
    // 200,000 units without as many calls.
    client
        .batch_execute(
            "SET session_replication_role = replica;
             INSERT INTO iu_core.information_unit SELECT gen_random_uuid(), change_set_id, document_id,
                source_document_id, source_version_id, n, document_id || '/n' || n, NULL, unit_kind, section_type,
                content_hash, body_hash, public.hex(n::text), 'draft', created_at
             FROM iu_core.information_unit, generate_series(1, 200000) n;
             INSERT INTO iu_core.unit_version SELECT gen_random_uuid(), unit_id, 1, 'x', content_hash, body_hash, 'a', now()
             FROM iu_core.information_unit WHERE ordinal > 0;
             INSERT INTO iu_core.unit_anchor SELECT gen_random_uuid(), u.unit_id, change_set_id, a.source_version_id,
                a.source_bytes, 0, 1 FROM iu_core.information_unit u JOIN iu_core.unit_anchor a USING (change_set_id)
             WHERE u.ordinal > 0;
             INSERT INTO iu_core.iu_lifecycle_log SELECT unit_id, change_set_id, 'run-f', 'draft', 'enacted',
                unit_id, 'r', 'a', now() FROM iu_core.information_unit;
             RESET session_replication_role;",
        )
        .unwrap();
    cut(&mut client, "LAW-1", "run-a", &vec![b'y'; 100_000], 1000, "enacted");
    client.batch_execute("ANALYZE").unwrap();
    let big: BTreeSet<&str> = ["information_unit", "unit_version", "unit_anchor", "iu_lifecycle_log"].into();
    let mut ro = database.client(Login::Ro);
    let mut seen = 0;
    for (table, query) in cutter_pg::backup::explain_queries(&mut ro, "LAW-1").unwrap() {
        let mut transaction = ro.transaction().unwrap();
        transaction.batch_execute(cutter_pg::backup::explain_settings()).unwrap();
        let plan: serde_json::Value = transaction
            .query_one(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"), &[])
            .unwrap()
            .get(0);
        let root = &plan[0]["Plan"];
        let mut nodes = vec![root];
        while let Some(node) = nodes.pop() {
            if let Some(relation) = node["Relation Name"].as_str()
                && big.contains(relation)
            {
                seen += 1;
                assert_ne!(node["Node Type"], "Seq Scan", "{table}: {root:#}");
                let loops = node["Actual Loops"].as_f64().unwrap();
                let rows = loops * node["Actual Rows"].as_f64().unwrap()
                    + node["Rows Removed by Filter"].as_f64().unwrap_or(0.0);
                assert!(rows <= 2000.0, "{table} read {rows} rows of {relation}: {root:#}");
            }
            nodes.extend(node["Plans"].as_array().into_iter().flatten());
        }
        let buffers =
            root["Shared Hit Blocks"].as_u64().unwrap() + root["Shared Read Blocks"].as_u64().unwrap();
        assert!(buffers < 15_000, "{table} touched {buffers} buffers");
    }
    assert!(seen >= 6, "{seen} scans of big tables were looked at");
}
