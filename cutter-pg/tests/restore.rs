//! The way back: everything or nothing, into a new database only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archive_fixture;

use archive_fixture::{
    Dropped, FOREIGN, RUN, archive, cut, database, eventful, exists, request, scratch_name, source,
};
use cutter_core::base::digest::Digest;
use cutter_core::record::backup::BackupScope;
use cutter_pg::backup::PgBackupSource;
use cutter_pg::login::Login;
use cutter_pg::restore::{RestoreError, inspect, restore_archive};
use cutter_pg::testing::TestDatabase;

fn restore(
    database: &TestDatabase,
    bytes: &[u8],
    name: &str,
) -> Result<cutter_pg::restore::RestoreReport, RestoreError> {
    restore_archive(&mut &*bytes, &database.admin_dsn(), name, &["configured_one"])
}

fn document_archive(database: &TestDatabase) -> Vec<u8> {
    archive(&source(database), &request("LAW-1", BackupScope::Document)).unwrap().0
}

/// What follows the header, which names the server.
fn body(bytes: &[u8]) -> &[u8] {
    bytes.splitn(3, |byte| *byte == b'\n').nth(2).unwrap()
}

/// The same archive with another header, digest made right.
fn with_header(bytes: &[u8], change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    let header = bytes.splitn(3, |byte| *byte == b'\n').nth(1).unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(header).unwrap();
    change(&mut value);
    let line = format!("{value}\n");
    let mut changed = format!("cutter-backup 1 {}\n{line}", Digest::of(line.as_bytes())).into_bytes();
    changed.extend_from_slice(body(bytes));
    changed
}

#[test]
fn everything_comes_back_and_saves_as_the_same_bytes() {
    let database = database();
    let mut client = database.client(Login::Admin);
    eventful(&mut client, "LAW-1");
    eventful(&mut client, FOREIGN);
    let (bytes, summary) = archive(&source(&database), &request("LAW-1", BackupScope::Document)).unwrap();
    let scratch = Dropped(&database, scratch_name(&database));
    let report = restore(&database, &bytes, &scratch.1).unwrap();
    assert_eq!(report.database, scratch.1);
    assert_eq!((&report.tables, report.base_state_sha), (&summary.tables, summary.base_state_sha));
    assert_eq!(report.content_rows, 21);
    assert!(report.fingerprints.iter().all(|check| check.is_equal), "{:?}", report.fingerprints);
    assert!(serde_json::to_string(&report).unwrap().contains(RUN));

    let again = PgBackupSource::new(database.dsn(Login::Ro).with_database(&scratch.1));
    let error = archive(&again, &request("LAW-1", BackupScope::Document)).unwrap_err();
    assert!(error.message.contains("permission denied"), "nobody but the administrator gets in: {error}");
    let again = PgBackupSource::new(database.admin_dsn().with_database(&scratch.1));
    let (second, _) = archive(&again, &request("LAW-1", BackupScope::Document)).unwrap();
    assert!(body(&second) == body(&bytes), "a backup of the restored state is the same backup");

    // The schema's guards are on in the scratch database.
    let mut inside =
        database.admin_dsn().with_database(&scratch.1).config().unwrap().connect(postgres::NoTls).unwrap();
    assert!(inside.execute("DELETE FROM iu_core.unit_anchor", &[]).is_err());
    assert!(inside.execute("UPDATE iu_core.information_unit SET ordinal = 99", &[]).is_err());
    let off: i64 =
        inside.query_one("SELECT count(*) FROM pg_trigger WHERE tgenabled <> 'O'", &[]).unwrap().get(0);
    assert_eq!(off, 0);
    let foreign: i64 = inside.query_one("SELECT count(*) FROM iu_core.source_document", &[]).unwrap().get(0);
    assert_eq!(foreign, 1);
}

#[test]
fn a_whole_database_comes_back_through_its_dump() {
    let database = database();
    let mut client = database.client(Login::Admin);
    eventful(&mut client, "LAW-1");
    eventful(&mut client, FOREIGN);
    let (bytes, summary) = archive(&source(&database), &request("LAW-1", BackupScope::Database)).unwrap();
    let info = inspect(&mut bytes.as_slice()).unwrap();
    assert!(info.complete, "{:?}", info.problem);
    assert!(info.dump.unwrap().bytes > 10_000);
    // The document's tables are counted in the dump's snapshot.
    let (_, document) = archive(&source(&database), &request("LAW-1", BackupScope::Document)).unwrap();
    assert_eq!((&summary.tables, summary.base_state_sha), (&document.tables, document.base_state_sha));

    let scratch = Dropped(&database, scratch_name(&database));
    let report = restore(&database, &bytes, &scratch.1).unwrap();
    assert_eq!(report.tables, summary.tables);
    let mut inside =
        database.admin_dsn().with_database(&scratch.1).config().unwrap().connect(postgres::NoTls).unwrap();
    let documents: i64 =
        inside.query_one("SELECT count(*) FROM iu_core.source_document", &[]).unwrap().get(0);
    assert_eq!(documents, 2);

    for cut_at in [bytes.len() / 2, bytes.len() - 10] {
        let name = scratch_name(&database);
        let error = restore(&database, &bytes[..cut_at], &name).unwrap_err();
        assert!(matches!(error, RestoreError::Truncated { .. }), "{error}");
        assert!(!exists(&database, &name) && !exists(&database, &format!("{name}__half")));
    }
    let mut changed = bytes.clone();
    let middle = bytes.len() / 2;
    changed[middle] ^= 1;
    let name = scratch_name(&database);
    restore(&database, &changed, &name).unwrap_err();
    assert!(!exists(&database, &name) && !exists(&database, &format!("{name}__half")));
    assert!(!inspect(&mut changed.as_slice()).unwrap().complete);
}

#[test]
fn a_changed_function_at_the_source_is_named() {
    let database = database();
    let mut client = database.client(Login::Admin);
    cut(&mut client, "LAW-1", "run-a", b"text", 1, "enacted");
    client.batch_execute("GRANT EXECUTE ON FUNCTION iu_core.fn_document_lock TO cutter_ro").unwrap();
    let bytes = document_archive(&database);
    let scratch = Dropped(&database, scratch_name(&database));
    let report = restore(&database, &bytes, &scratch.1).unwrap();
    let functions = &report.fingerprints[0];
    assert!(!functions.is_equal);
    assert_eq!(functions.differing, ["iu_core.fn_document_lock"]);
    assert!(report.fingerprints[1].is_equal);
}

#[test]
fn no_cut_and_no_changed_byte_goes_unnoticed() {
    let database = database();
    cut(&mut database.client(Login::Admin), "LAW-1", "run-a", b"a text of some length", 2, "enacted");
    let bytes = document_archive(&database);
    assert!(inspect(&mut bytes.as_slice()).unwrap().complete);
    // Everywhere near the ends, and now and then between.
    for length in (0..bytes.len()).filter(|at| *at < 900 || bytes.len() - at < 900 || at % 97 == 0) {
        match inspect(&mut &bytes[..length]) {
            Ok(info) => assert!(!info.complete && info.problem.is_some(), "cut at {length}"),
            Err(RestoreError::NotAnArchive(_) | RestoreError::Truncated { .. }) => {}
            Err(error) => panic!("cut at {length}: {error}"),
        }
    }
    let mut changed = bytes.clone();
    for at in (0..bytes.len()).filter(|at| *at < 300 || bytes.len() - at < 300 || at % 61 == 0) {
        for bit in [1, 0x20] {
            changed[at] ^= bit;
            if let Ok(info) = inspect(&mut changed.as_slice()) {
                assert!(!info.complete, "byte {at} of {}", bytes.len());
            }
            changed[at] ^= bit;
        }
    }
    let mut longer = bytes.clone();
    longer.push(b'\n');
    assert!(!inspect(&mut longer.as_slice()).unwrap().complete);
}

#[test]
fn what_is_damaged_restores_nothing() {
    let database = database();
    cut(&mut database.client(Login::Admin), "LAW-1", "run-a", b"a text of some length", 2, "enacted");
    let bytes = document_archive(&database);
    let find = |what: &[u8]| bytes.windows(what.len()).position(|window| window == what).unwrap();
    let mut changed = bytes.clone();
    // One letter of the document's title: every constraint is content with it.
    changed[find(b"\tTitle\t") + 1] = b'B';
    let mut wrong = bytes.clone();
    // One digit of a stored digest: a constraint is not.
    let sha = Digest::of(b"a text of some length").to_hex();
    let at = find(sha.as_bytes());
    wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
    let cut_in_rows = &bytes[..find(b"section {\"name\":\"iu_core.unit_anchor\"")];
    for (what, archive) in [
        ("truncated in its rows", cut_in_rows),
        ("without its last line", &bytes[..bytes.len() - 3]),
        ("another title", changed.as_slice()),
        ("another digest", wrong.as_slice()),
    ] {
        let name = scratch_name(&database);
        let error = restore(&database, archive, &name).unwrap_err();
        assert!(!exists(&database, &name), "{what}: {error}");
        assert!(!exists(&database, &format!("{name}__half")), "{what}: {error}");
    }
}

#[test]
fn another_schema_is_refused_before_a_database_is_made() {
    let database = database();
    cut(&mut database.client(Login::Admin), "LAW-1", "run-a", b"text", 1, "draft");
    let bytes = document_archive(&database);
    let edited = with_header(&bytes, |header| header["migrations"][2]["sha256"] = "0".repeat(64).into());
    let newer = with_header(&bytes, |header| {
        let next = serde_json::json!({"version": 999, "name": "later", "sha256": "0".repeat(64)});
        header["migrations"].as_array_mut().unwrap().push(next);
    });
    for archive in [edited, newer] {
        let name = scratch_name(&database);
        let error = restore(&database, &archive, &name).unwrap_err();
        assert!(matches!(error, RestoreError::Schema(_)), "{error}");
        assert!(!exists(&database, &name));
    }
    let form = String::from_utf8(bytes).unwrap().replacen("cutter-backup 1 ", "cutter-backup 2 ", 1);
    for other in [form.as_bytes(), b"-----BEGIN PGP MESSAGE-----\n", b"", b"PGDMP\x01\x0e"] {
        let error = inspect(&mut &*other).unwrap_err();
        assert!(matches!(error, RestoreError::NotAnArchive(_)), "{error}");
    }
}

#[test]
fn only_a_new_database_is_restored_into() {
    let database = database();
    cut(&mut database.client(Login::Admin), "LAW-1", "run-a", b"text", 1, "draft");
    let bytes = document_archive(&database);
    let taken = Dropped(&database, scratch_name(&database));
    restore(&database, &bytes, &taken.1).unwrap();
    for name in [&taken.1, database.name(), "configured_one", "postgres", "template1", "x; DROP", ""] {
        let error = restore(&database, &bytes, name).unwrap_err();
        assert!(matches!(error, RestoreError::Target { .. }), "{name}: {error}");
    }
    assert!(exists(&database, &taken.1) && exists(&database, database.name()));
    let half = Dropped(&database, format!("{}__half", scratch_name(&database)));
    database.client(Login::Admin).batch_execute(&format!("CREATE DATABASE {}", half.1)).unwrap();
    let error = restore(&database, &bytes, half.1.trim_end_matches("__half")).unwrap_err();
    assert!(error.to_string().contains(&format!("DROP DATABASE {}", half.1)), "{error}");
}
