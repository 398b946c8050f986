//! A backup's way back: into a new scratch database, and nowhere else.
//!
//! The archive's plaintext is read once, as a stream. Rows go into one transaction with all
//! triggers and foreign keys on; then the queries of the backup run again, and each table's count
//! and sha256, and `fn_base_state`, must be those of the trailer. Only then does the database get
//! its name. A cut or changed archive, a refused row, a difference: the database is dropped.
//!
//! Everything here blocks, and uses a blocking client: call it from a thread that no async
//! runtime owns.

mod error;
mod load;
mod reader;
mod scratch;

use std::io::{Read, Write as _};
use std::process::Stdio;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::record::backup::{BackupScope, TableSummary};
use postgres::Client;
use serde::Serialize;

pub use self::error::RestoreError;
use self::reader::{ArchiveReader, Part};
use self::scratch::Scratch;
use crate::backup::format::{ArchiveHeader, ArchiveTrailer};
use crate::backup::tables::{self, FINGERPRINTS, SETTINGS, TABLES};
use crate::backup::{
    ArchivedMigration, DumpSummary, ServerIdentity, ToolRun, base_state, copy_failed, document_row,
    hash_section, tool,
};
use crate::connection::commit;
use crate::dsn::Dsn;
use crate::error::PgError;
use crate::login::LoginPasswords;
use crate::migrate::{Migration, Migrator, ensure_logins};

/// What was restored. Every table of it was compared with the archive and is equal.
#[derive(Debug, Clone, Serialize)]
pub struct RestoreReport {
    /// The scratch database.
    pub database: String,
    /// How much was in the archive.
    pub scope: BackupScope,
    /// The run that had taken it.
    pub run_id: RunId,
    /// Its document.
    pub document_id: String,
    /// When it was taken, as the archive says.
    pub at: String,
    /// The tables, counted and digested in the scratch database.
    pub tables: Vec<TableSummary>,
    /// The base state, computed in the scratch database.
    pub base_state_sha: Digest,
    /// Units.
    pub content_rows: u64,
    /// Fingerprints beside those of the shipped schema. A difference is no failure: it shows
    /// that the server where the backup was taken had another function, trigger or access list.
    pub fingerprints: Vec<FingerprintCheck>,
}

/// One kind of fingerprints, archive beside scratch database.
#[derive(Debug, Clone, Serialize)]
pub struct FingerprintCheck {
    /// Which kind.
    pub name: String,
    /// All equal.
    pub is_equal: bool,
    /// What differs by name; empty with scope `database`, which archives their digest only.
    pub differing: Vec<String>,
}

/// What an archive says of itself, and whether all of it is there.
#[derive(Debug, Clone, Serialize)]
pub struct ArchiveInfo {
    /// The form's version.
    pub format: u32,
    /// How much is in it.
    pub scope: BackupScope,
    /// The run that took it.
    pub run_id: RunId,
    /// The document.
    pub document_id: String,
    /// When, as the caller of the backup said.
    pub at: String,
    /// Where from.
    pub server: ServerIdentity,
    /// The schema.
    pub migrations: Vec<ArchivedMigration>,
    /// The tables that were read, zero counts included.
    pub tables: Vec<TableSummary>,
    /// The base state, if the trailer is there.
    pub base_state_sha: Option<Digest>,
    /// Units, if the trailer is there.
    pub content_rows: Option<u64>,
    /// The dump, with scope `database`.
    pub dump: Option<DumpSummary>,
    /// Everything is there, and every digest agrees.
    pub complete: bool,
    /// What is wrong, if it is not complete.
    pub problem: Option<String>,
}

/// Reads an archive to its end without restoring it. Damage is in the answer, not an error.
///
/// # Errors
/// [`RestoreError::NotAnArchive`], a header that cannot be read, or [`RestoreError::Read`].
pub fn inspect(plaintext: &mut dyn Read) -> Result<ArchiveInfo, RestoreError> {
    let (mut archive, header) = ArchiveReader::open(plaintext)?;
    let outcome = walk(&mut archive);
    let mut info = ArchiveInfo {
        format: header.format,
        scope: header.scope,
        run_id: header.run_id,
        document_id: header.document_id,
        at: header.at,
        server: header.server,
        migrations: header.migrations,
        tables: archive.seen().iter().take(TABLES.len()).cloned().collect(),
        base_state_sha: None,
        content_rows: None,
        dump: None,
        complete: false,
        problem: None,
    };
    match outcome {
        Ok(trailer) => {
            info.tables = trailer.tables;
            info.base_state_sha = Some(trailer.base_state_sha);
            info.content_rows = Some(trailer.content_rows);
            info.dump = trailer.dump;
            info.complete = true;
        }
        Err(RestoreError::Read(error)) => return Err(error.into()),
        Err(error) => info.problem = Some(error.to_string()),
    }
    Ok(info)
}

fn walk<R: Read>(archive: &mut ArchiveReader<R>) -> Result<ArchiveTrailer, RestoreError> {
    loop {
        match archive.next()? {
            Part::Section(head) => archive.rows(&head, |_| Ok(()))?,
            Part::Frame(length) => {
                archive.frame(length)?;
            }
            Part::Trailer(trailer) => return Ok(*trailer),
        }
    }
}

/// Restores an archive into the new database `target` on `admin`'s server. `admin` may create
/// databases; `protected` are the names of all configured databases.
///
/// The scratch database holds plaintext: drop it when it has served.
///
/// # Errors
/// [`RestoreError`]; then there is no database `target`.
pub fn restore_archive(
    plaintext: &mut dyn Read,
    admin: &Dsn,
    target: &str,
    protected: &[&str],
) -> Result<RestoreReport, RestoreError> {
    let (mut archive, header) = ArchiveReader::open(plaintext)?;
    let migrations = shipped_prefix(&header.migrations)?;
    let scratch = Scratch::create(admin, target, protected)?;
    let mut client = scratch.client()?;
    // Roles belong to the server; on another one than the backup's they may not be there.
    ensure_logins(&mut client, &LoginPasswords::new())?;
    let (trailer, rows) = match header.scope {
        BackupScope::Document => restore_document(&mut client, migrations, &mut archive, &header)?,
        BackupScope::Database => {
            let trailer = restore_dump(admin, &scratch, &mut archive, &header)?;
            let mut transaction = client.transaction()?;
            compare(&mut transaction, &header, &trailer)?;
            transaction.rollback()?;
            (trailer, Vec::new())
        }
    };
    let fingerprints = compare_fingerprints(&mut client, &trailer, &rows)?;
    drop(client);
    let database = scratch.finish()?;
    Ok(RestoreReport {
        database,
        scope: header.scope,
        run_id: header.run_id,
        document_id: header.document_id,
        at: header.at,
        tables: trailer.tables,
        base_state_sha: trailer.base_state_sha,
        content_rows: trailer.content_rows,
        fingerprints,
    })
}

/// The shipped migrations up to the recorded ones, which must be the same.
fn shipped_prefix(recorded: &[ArchivedMigration]) -> Result<&'static [Migration], RestoreError> {
    let shipped = crate::migrations::migrations();
    let Some(prefix) = shipped.get(..recorded.len()) else {
        return Err(RestoreError::Schema(format!(
            "it records {} migrations, this binary has {}",
            recorded.len(),
            shipped.len()
        )));
    };
    for (recorded, shipped) in recorded.iter().zip(prefix) {
        let checksum = shipped.checksum();
        if (recorded.version, recorded.name.as_str(), recorded.sha256.to_hex())
            != (shipped.version, shipped.name, checksum.clone())
        {
            return Err(RestoreError::Schema(format!(
                "migration {} ({}) with sha256 {}, this binary has {} ({}) with {checksum}",
                recorded.version, recorded.name, recorded.sha256, shipped.version, shipped.name
            )));
        }
    }
    Ok(prefix)
}

fn restore_document<R: Read>(
    client: &mut Client,
    migrations: &[Migration],
    archive: &mut ArchiveReader<R>,
    header: &ArchiveHeader,
) -> Result<(ArchiveTrailer, Vec<Vec<u8>>), RestoreError> {
    Migrator::new(migrations)?.run(client)?;
    let mut transaction = client.transaction()?;
    transaction.batch_execute(SETTINGS)?;
    let checked = consent_checks(&mut transaction)?;
    for (table, trigger) in &checked {
        transaction.batch_execute(&format!("ALTER TABLE {table} DISABLE TRIGGER {trigger}"))?;
    }
    let (trailer, fingerprints) = load::load(&mut transaction, archive)?;
    // Whatever was to be checked at COMMIT is checked now.
    transaction.batch_execute("SET CONSTRAINTS ALL IMMEDIATE")?;
    for (table, trigger) in &checked {
        transaction.batch_execute(&format!("ALTER TABLE {table} ENABLE TRIGGER {trigger}"))?;
    }
    compare(&mut transaction, header, &trailer)?;
    commit(transaction)?;
    Ok((trailer, fingerprints))
}

/// The triggers (table, name) that allow a decision only for the rows that its consent names, and
/// only as an answer to an ask. A restore decides nothing: it brings back what was decided, also
/// before there were such rules, and compares it with what was backed up.
fn consent_checks(
    transaction: &mut postgres::Transaction<'_>,
) -> Result<Vec<(String, String)>, RestoreError> {
    let rows = transaction.query(
        "SELECT t.tgrelid::regclass::text, t.tgname::text FROM pg_catalog.pg_trigger t
         WHERE t.tgname IN ('trg_rows_approved', 'trg_ask_heard') ORDER BY 1, 2",
        &[],
    )?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Feeds the dump to `pg_restore`, which works in one transaction.
fn restore_dump<R: Read>(
    admin: &Dsn,
    scratch: &Scratch,
    archive: &mut ArchiveReader<R>,
    header: &ArchiveHeader,
) -> Result<ArchiveTrailer, RestoreError> {
    let login = admin.with_database(scratch.half());
    let mut command = tool("pg_restore", header.server.version / 10_000, &login)?;
    command.args(["--exit-on-error", "--single-transaction", "--no-password", "--dbname", scratch.half()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut run = ToolRun::start("pg_restore", command, None)?;
    let mut stdin = run.take_stdin()?;
    let trailer = loop {
        match archive.next()? {
            Part::Frame(length) => {
                if stdin.write_all(archive.frame(length)?).is_err() {
                    // It went away; its exit status and complaints say why.
                    drop(stdin);
                    run.finish(&login)?;
                    return Err(PgError::Configuration(
                        "pg_restore stopped before the dump's end".to_owned(),
                    )
                    .into());
                }
            }
            Part::Section(head) => return Err(RestoreError::NotAnArchive(format!("{head:?} in a dump"))),
            Part::Trailer(trailer) => break *trailer,
        }
    };
    drop(stdin);
    run.finish(&login)?;
    Ok(trailer)
}

/// The backup's queries again: counts, digests, base state.
fn compare(
    transaction: &mut postgres::Transaction<'_>,
    header: &ArchiveHeader,
    trailer: &ArchiveTrailer,
) -> Result<(), RestoreError> {
    transaction.batch_execute(SETTINGS)?;
    let Some(row) = document_row(transaction, &header.document_id)? else {
        return Err(error::damaged("in iu_core.source_document", &header.document_id, "no such document"));
    };
    for (table, expected) in TABLES.iter().zip(&trailer.tables) {
        let observed = hash_section(transaction, table.name, &table.query(&header.document_id, row))?;
        if observed != *expected {
            return Err(RestoreError::Differs {
                table: table.name.to_owned(),
                expected_rows: expected.rows,
                expected: expected.sha256,
                observed_rows: observed.rows,
                observed: observed.sha256,
            });
        }
    }
    let observed = base_state(transaction, &header.document_id, header.run_id.as_str())?;
    if observed != trailer.base_state_sha {
        return Err(error::damaged("in its base state", trailer.base_state_sha, observed));
    }
    Ok(())
}

fn compare_fingerprints(
    client: &mut Client,
    trailer: &ArchiveTrailer,
    archived: &[Vec<u8>],
) -> Result<Vec<FingerprintCheck>, RestoreError> {
    let mut transaction = client.build_transaction().read_only(true).start()?;
    transaction.batch_execute(SETTINGS)?;
    let mut checks = Vec::new();
    let mut rest = archived;
    for ((name, kind), expected) in FINGERPRINTS.iter().zip(&trailer.fingerprints) {
        let query = tables::fingerprint_query(kind);
        let observed = hash_section(&mut transaction, name, &query)?;
        let (mine, others) =
            rest.split_at(rest.len().min(usize::try_from(expected.rows).unwrap_or(usize::MAX)));
        rest = others;
        let mut differing = Vec::new();
        if observed != *expected && !archived.is_empty() {
            let mut text = Vec::new();
            transaction.copy_out(&tables::copy_out(&query))?.read_to_end(&mut text).map_err(copy_failed)?;
            let here: std::collections::BTreeSet<&[u8]> =
                text.split_inclusive(|byte| *byte == b'\n').collect();
            let there: std::collections::BTreeSet<&[u8]> = mine.iter().map(Vec::as_slice).collect();
            differing = here.symmetric_difference(&there).map(|row| name_of(row)).collect();
            differing.sort_unstable();
            differing.dedup();
        }
        checks.push(FingerprintCheck {
            name: (*name).to_owned(),
            is_equal: observed == *expected,
            differing,
        });
    }
    transaction.rollback()?;
    Ok(checks)
}

/// The first column of a row in COPY's text form.
fn name_of(row: &[u8]) -> String {
    String::from_utf8_lossy(row.split(|byte| *byte == b'\t').next().unwrap_or_default()).into_owned()
}
