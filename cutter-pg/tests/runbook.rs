//! The emergency runbook, rehearsed as an administrator would run it: with psql.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archive_fixture;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use archive_fixture::{
    Dropped, FOREIGN, RUN, archive, cut, database, eventful, request, scratch_name, source,
};
use cutter_core::record::backup::{BackupScope, BackupSummary};
use cutter_pg::login::Login;
use cutter_pg::restore::restore_archive;
use cutter_pg::testing::TestDatabase;
use secrecy::ExposeSecret as _;

const CONTENT: [&str; 5] = [
    "iu_core.information_unit",
    "iu_core.unit_version",
    "iu_core.unit_version.content",
    "iu_core.unit_anchor",
    "iu_core.iu_lifecycle_log",
];

fn runbook() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql/lifecycle/rollback_runbook.sql")
}

fn psql(database: &TestDatabase, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("psql");
    command.args(["-X", "-f"]).arg(runbook());
    for (name, value) in variables {
        command.arg("-v").arg(format!("{name}={value}"));
    }
    for (name, value) in database.admin_dsn().libpq_environment().unwrap() {
        command.env(name, value.expose_secret());
    }
    command.output().expect("psql, of the package postgresql-client")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn summary(database: &TestDatabase, document: &str) -> (Vec<u8>, BackupSummary) {
    archive(&source(database), &request(document, BackupScope::Document)).unwrap()
}

fn statement(base_state: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nRevert LAW-1 to {base_state}.\n\
         -----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n"
    )
    .unwrap();
    file
}

#[test]
fn the_revert_brings_the_backups_content_back_and_keeps_the_history() {
    let database = database();
    let mut client = database.client(Login::Admin);
    eventful(&mut client, "LAW-1");
    eventful(&mut client, FOREIGN);
    let (bytes, saved) = summary(&database, "LAW-1");
    let scratch = Dropped(&database, scratch_name(&database));
    restore_archive(&mut bytes.as_slice(), &database.admin_dsn(), &scratch.1, &[]).unwrap();

    // Later: another version is cut and enacted.
    let later = cut(&mut client, "LAW-1", "run-later", b"what should not have been enacted", 6, "enacted");
    client
        .execute(
            "INSERT INTO cutter_governance.run_fence (run_id, document_id, epoch, holder)
             VALUES ('run-later', 'LAW-1', 3, gen_random_uuid())",
            &[],
        )
        .unwrap();
    let (_, before) = summary(&database, "LAW-1");
    let (_, foreign) = summary(&database, FOREIGN);
    assert_eq!(before.content_rows, saved.content_rows + 6);

    let base_state = saved.base_state_sha.to_hex();
    let file = statement(&base_state);
    let good = [
        ("document_id", "LAW-1"),
        ("confirm", "REVERT LAW-1"),
        ("scratch", scratch.1.as_str()),
        ("base_state", base_state.as_str()),
        ("run_id", RUN),
        ("statement", file.path().to_str().unwrap()),
        ("fingerprint", "0123456789ABCDEF0123456789ABCDEF01234567"),
        ("sovereign", "The Sovereign's Hand"),
    ];

    // Not by accident: each value missing or wrong changes nothing and says which.
    assert!(!psql(&database, &[]).status.success());
    let other = "0".repeat(64);
    let unsigned = tempfile::NamedTempFile::new().unwrap();
    for (name, wrong, says) in [
        ("document_id", "LAW-2", "REVERT LAW-2"),
        ("document_id", "LAW'; DROP", "document_id"),
        ("confirm", "yes", "REVERT LAW-1"),
        ("scratch", database.name(), "scratch"),
        ("scratch", "no_such_database", "no_such_database"),
        ("base_state", other.as_str(), "statement"),
        ("run_id", "", "run_id"),
        ("statement", "/nonexistent", "statement"),
        ("statement", unsigned.path().to_str().unwrap(), "statement"),
        ("fingerprint", "", "fingerprint"),
        ("mode", "force", "mode"),
    ] {
        let mut variables: Vec<(&str, &str)> =
            good.iter().copied().filter(|(known, _)| *known != name).collect();
        variables.extend([(name, wrong), ("mode", "commit")].into_iter().take(if name == "mode" {
            1
        } else {
            2
        }));
        let output = psql(&database, &variables);
        assert!(!output.status.success(), "{name}={wrong}: {}", text(&output));
        assert!(text(&output).contains(says), "{name}={wrong}: {}", text(&output));
    }
    // A statement about another backup than the scratch database's.
    let misled = statement(&other);
    let variables = good.map(|(name, value)| match name {
        "base_state" => (name, other.as_str()),
        "statement" => (name, misled.path().to_str().unwrap()),
        _ => (name, value),
    });
    let output = psql(&database, &variables);
    assert!(!output.status.success() && text(&output).contains("is not this backup"), "{}", text(&output));
    // The rehearsal does everything and keeps nothing.
    let output = psql(&database, &good);
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("rehearsed") && text(&output).contains("before: 27, after: 21"),
        "{}",
        text(&output)
    );
    assert_eq!(summary(&database, "LAW-1").1, before);

    let mut commit = good.to_vec();
    commit.push(("mode", "commit"));
    let output = psql(&database, &commit);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("reverted"), "{}", text(&output));

    let (_, after) = summary(&database, "LAW-1");
    for table in saved.tables.iter().filter(|table| CONTENT.contains(&table.table.as_str())) {
        let now = after.tables.iter().find(|now| now.table == table.table).unwrap();
        assert_eq!(now, table, "the content is the archive's");
    }
    assert_eq!(after.content_rows, saved.content_rows);
    for (was, is) in before.tables.iter().zip(&after.tables) {
        assert!(CONTENT.contains(&was.table.as_str()) || is.rows >= was.rows, "{} lost rows", was.table);
    }
    assert_eq!(summary(&database, FOREIGN).1, foreign, "no other document was touched");

    let row = client
        .query_one(
            "SELECT c.live, e.status, v.reason, a.inserted_by::text, a.document, f.epoch,
                (SELECT count(*) FROM pg_trigger WHERE tgenabled <> 'O')
             FROM cutter_governance.cut_change_set c
             JOIN cutter_governance.decision_backlog_entry e USING (entry_id)
             JOIN cutter_governance.change_set_void v USING (change_set_id)
             JOIN cutter_governance.review_approval a ON a.approval_id = v.approval_id
             JOIN cutter_governance.run_fence f ON f.run_id = c.run_id
             WHERE c.change_set_id = $1",
            &[&later],
        )
        .unwrap();
    assert!(!row.get::<_, bool>(0));
    assert_eq!(row.get::<_, &str>(1), "abandoned");
    assert!(row.get::<_, &str>(2).contains(&base_state));
    assert_eq!(row.get::<_, &str>(3), "cutter_review");
    assert_eq!(row.get::<_, &[u8]>(4), std::fs::read(file.path()).unwrap());
    assert_eq!(row.get::<_, i64>(5), 4, "a driver of the run is fenced out");
    assert_eq!(row.get::<_, i64>(6), 0, "every trigger is on");
    assert!(client.execute("DELETE FROM iu_core.unit_anchor", &[]).is_err());

    // The same statement does not serve twice.
    let output = psql(&database, &commit);
    assert!(!output.status.success(), "{}", text(&output));
    // And the document can be cut again.
    cut(&mut client, "LAW-1", "run-again", b"what should not have been enacted", 2, "enacted");
}

#[test]
fn nothing_of_the_program_calls_the_runbook() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = ["cutter-core/src", "cutter-pg/src", "cutter-kb/src", "cutter-cli/src"]
        .map(|name| root.join(name))
        .into();
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
                let text = std::fs::read(entry.path()).unwrap();
                assert!(
                    !String::from_utf8_lossy(&text).contains("rollback_runbook.sql\")"),
                    "{}",
                    entry.path().display()
                );
            }
        }
    }
    assert!(files > 50);
}
