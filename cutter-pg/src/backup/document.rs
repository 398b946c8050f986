//! Scope `document`: the COPYs, and what both scopes have in common.

use std::io::BufRead as _;

use cutter_core::base::digest::{Digest, Hasher};
use cutter_core::record::backup::{BackupRequest, BackupSummary, TableSummary};
use postgres::{Client, GenericClient, IsolationLevel, NoTls, Transaction};
use uuid::Uuid;

use super::format::{
    ArchiveHeader, ArchiveTrailer, ArchivedMigration, DumpSummary, END, FORMAT, MAGIC, ROWS_END, SECTION,
    SectionHead, ServerIdentity, TRAILER, tagged,
};
use super::stream::Outlet;
use super::tables::{self, FINGERPRINT_COLUMNS, FINGERPRINTS, SETTINGS, TABLES, UNITS};
use crate::error::PgError;
use crate::migrate::{MigrateError, Migrator};

/// Writes the archive of a document.
pub(super) fn back_up(
    client: &mut Client,
    request: &BackupRequest,
    mut outlet: Outlet,
) -> Result<BackupSummary, PgError> {
    in_snapshot(client, |transaction| {
        let row = begin(transaction, request, &mut outlet)?;
        let (mut rows, mut fingerprints) = (Vec::new(), Vec::new());
        for table in TABLES {
            let query = table.query(&request.document_id, row);
            rows.push(write_section(transaction, table.name, table.columns, &query, &mut outlet)?);
        }
        for (name, kind) in FINGERPRINTS {
            let query = tables::fingerprint_query(kind);
            fingerprints.push(write_section(transaction, name, &FINGERPRINT_COLUMNS, &query, &mut outlet)?);
        }
        end(transaction, request, Counted { tables: rows, fingerprints }, None, &mut outlet)
    })
}

/// What was counted in the snapshot.
pub(super) struct Counted {
    pub(super) tables: Vec<TableSummary>,
    pub(super) fingerprints: Vec<TableSummary>,
}

/// Runs `work` in one read-only snapshot. If it fails, what the server still sends is cancelled
/// first: rolling back would read it all.
pub(super) fn in_snapshot<T>(
    client: &mut Client,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<T, PgError>,
) -> Result<T, PgError> {
    let cancel = client.cancel_token();
    let mut transaction =
        client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start()?;
    transaction.batch_execute(SETTINGS)?;
    match work(&mut transaction) {
        Ok(value) => {
            transaction.rollback()?;
            Ok(value)
        }
        Err(error) => {
            // Best effort: the deadline's timer ends the session if this does not help.
            let _ = cancel.cancel_query(NoTls);
            Err(error)
        }
    }
}

/// Writes the header; gives the document's row id.
pub(super) fn begin(
    transaction: &mut Transaction<'_>,
    request: &BackupRequest,
    outlet: &mut Outlet,
) -> Result<Uuid, PgError> {
    let migrations = migrations(transaction)?;
    let row = document_row(transaction, &request.document_id)?.ok_or_else(|| PgError::Database {
        sqlstate: "CUN01".to_owned(),
        message: format!(
            "document {} is not registered, so there is nothing to back up; register it with cutter source add",
            request.document_id
        ),
        detail: None,
        position: None,
    })?;
    let header = ArchiveHeader {
        format: FORMAT,
        scope: request.scope,
        run_id: request.run_id.clone(),
        document_id: request.document_id.clone(),
        at: request.at.clone(),
        server: server(transaction)?,
        migrations,
    };
    let line = tagged("", &header).map_err(internal)?;
    outlet.put(format!("{MAGIC}{FORMAT} {}\n", Digest::of(&line)).as_bytes())?;
    outlet.put(&line)?;
    outlet.flush()?;
    Ok(row)
}

/// Writes the trailer; gives the summary.
pub(super) fn end(
    transaction: &mut Transaction<'_>,
    request: &BackupRequest,
    counted: Counted,
    dump: Option<DumpSummary>,
    outlet: &mut Outlet,
) -> Result<BackupSummary, PgError> {
    let Counted { tables, fingerprints } = counted;
    let base_state_sha = base_state(transaction, &request.document_id, request.run_id.as_str())?;
    let content_rows = tables.iter().find(|table| table.table == UNITS).map_or(0, |table| table.rows);
    let trailer = ArchiveTrailer { tables, fingerprints, base_state_sha, content_rows, dump };
    let line = tagged(TRAILER, &trailer).map_err(internal)?;
    outlet.put(&line)?;
    outlet.put(format!("{END}{}\n", Digest::of(&line)).as_bytes())?;
    outlet.flush()?;
    Ok(BackupSummary { tables: trailer.tables, base_state_sha, content_rows })
}

fn write_section(
    transaction: &mut Transaction<'_>,
    name: &str,
    columns: &[&str],
    query: &str,
    outlet: &mut Outlet,
) -> Result<TableSummary, PgError> {
    outlet.put(&tagged(SECTION, &SectionHead::new(name, columns)).map_err(internal)?)?;
    let summary = read_section(transaction, name, query, |bytes| outlet.put(bytes))?;
    outlet.put(ROWS_END)?;
    Ok(summary)
}

/// Counts and digests a section without keeping it.
pub(crate) fn hash_section(
    transaction: &mut Transaction<'_>,
    name: &str,
    query: &str,
) -> Result<TableSummary, PgError> {
    read_section(transaction, name, query, |_| Ok(()))
}

fn read_section(
    transaction: &mut Transaction<'_>,
    name: &str,
    query: &str,
    mut each: impl FnMut(&[u8]) -> Result<(), PgError>,
) -> Result<TableSummary, PgError> {
    let mut reader = transaction.copy_out(&tables::copy_out(query))?;
    let (mut hasher, mut rows) = (Hasher::new(), 0_u64);
    loop {
        let bytes = reader.fill_buf().map_err(copy_failed)?;
        if bytes.is_empty() {
            break;
        }
        hasher.update(bytes);
        // A newline inside a value is written as two characters.
        rows += bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        each(bytes)?;
        let length = bytes.len();
        reader.consume(length);
    }
    Ok(TableSummary { table: name.to_owned(), rows, sha256: hasher.finish() })
}

/// A COPY's failure comes wrapped.
pub(crate) fn copy_failed(error: std::io::Error) -> PgError {
    match error.get_ref().and_then(|source| source.downcast_ref::<postgres::Error>()) {
        Some(source) => match source.as_db_error() {
            Some(database) => PgError::from(database),
            None => PgError::Connection(source.to_string()),
        },
        None => PgError::Connection(error.to_string()),
    }
}

/// The document's row id, if it is registered.
pub(crate) fn document_row(
    client: &mut impl GenericClient,
    document_id: &str,
) -> Result<Option<Uuid>, PgError> {
    let row = client.query_opt(
        "SELECT source_document_id FROM iu_core.source_document WHERE document_id = $1",
        &[&document_id],
    )?;
    row.map(|row| row.try_get(0)).transpose().map_err(PgError::from)
}

/// The base state of a document less one run's rows.
pub(crate) fn base_state(
    client: &mut impl GenericClient,
    document_id: &str,
    exclude_run: &str,
) -> Result<Digest, PgError> {
    let text: String = client
        .query_one("SELECT cutter_governance.fn_base_state($1, $2)", &[&document_id, &exclude_run])?
        .try_get(0)?;
    text.parse().map_err(|error| PgError::Shape(format!("fn_base_state: {error}")))
}

fn server(transaction: &mut Transaction<'_>) -> Result<ServerIdentity, PgError> {
    let row = transaction.query_one(
        "SELECT s.system_identifier::text, d.oid, d.datname::text,
                pg_catalog.current_setting('server_version_num')::int
         FROM pg_catalog.pg_control_system() s, pg_catalog.pg_database d
         WHERE d.datname = pg_catalog.current_database()",
        &[],
    )?;
    let version: i32 = row.try_get(3)?;
    Ok(ServerIdentity {
        system_identifier: row.try_get(0)?,
        database_oid: row.try_get(1)?,
        database: row.try_get(2)?,
        version: u32::try_from(version).map_err(|_| PgError::Shape(format!("server version {version}")))?,
    })
}

/// The recorded migrations, which must be exactly those of this binary: an older schema lacks
/// tables of the list, and a newer one has tables that the list would leave out.
fn migrations(transaction: &mut Transaction<'_>) -> Result<Vec<ArchivedMigration>, PgError> {
    let status = Migrator::shipped().and_then(|migrator| migrator.status_in(transaction)).map_err(
        |error| match error {
            MigrateError::Database(error) => error,
            other => PgError::Configuration(other.to_string()),
        },
    )?;
    if !status.is_current() {
        return Err(PgError::Configuration(format!(
            "the schema lacks the migrations {:?}, so a backup by this binary would not be whole; run cutter db migrate",
            status.pending
        )));
    }
    status
        .applied
        .into_iter()
        .map(|migration| {
            let sha256 = migration.sha256.parse().map_err(|error| PgError::Shape(format!("{error}")))?;
            Ok(ArchivedMigration { version: migration.version, name: migration.name, sha256 })
        })
        .collect()
}

/// A value of ours that does not serialise is a bug.
pub(super) fn internal(error: serde_json::Error) -> PgError {
    PgError::Internal(error.to_string())
}
