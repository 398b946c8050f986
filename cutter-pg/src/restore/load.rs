//! Loads the sections with every trigger and foreign key on.
//!
//! Plain inserts are what append-only tables take. What has a life of its own is brought back by
//! living it again: an entry is inserted as `marked` and walked along legal edges to its status,
//! which the schema holds against the history loaded after it; units are inserted as drafts,
//! one change set after the other with the live one last, get their versions and log rows, and
//! then leave draft. So a restored state is one that the schema would have let happen.

use std::io::{Read, Write as _};

use postgres::Transaction;

use super::error::{RestoreError, damaged};
use super::reader::{ArchiveReader, Part};
use crate::backup::copy_failed;
use crate::backup::format::{ArchiveTrailer, SectionHead};
use crate::backup::tables::{TABLES, Table};
use crate::error::PgError;

/// Most bytes of fingerprints: they are kept in memory to name what differs.
const MAX_FINGERPRINT_BYTES: usize = 16 * 1024 * 1024;

/// What is done to a section before its rows go into their table.
#[derive(Debug, Clone, Copy)]
struct Step {
    section: &'static str,
    /// Into a temporary table, not into its own.
    is_staged: bool,
    before: &'static str,
    after: &'static str,
}

/// The sections that are not simply copied into their table.
const STEPS: [Step; 9] = [
    // The migrations put the vocabularies of a new deployment there.
    Step {
        section: "public.dot_config",
        is_staged: false,
        before: "DELETE FROM public.dot_config WHERE starts_with(config_key, 'vocab.')",
        after: "",
    },
    Step { section: "iu_core.source_version", is_staged: true, before: "", after: "" },
    Step {
        section: "iu_core.source_version.content",
        is_staged: true,
        before: "",
        after:
            "INSERT INTO iu_core.source_version (source_version_id, source_document_id, version_no, sha256,
                    byte_length, manifest_digest, registered_by, registered_at, content)
                SELECT v.source_version_id, v.source_document_id, v.version_no, v.sha256, v.byte_length,
                    v.manifest_digest, v.registered_by, v.registered_at,
                    (SELECT string_agg(p.content, ''::bytea ORDER BY p.piece)
                     FROM pg_temp.iu_core_source_version_content p
                     WHERE p.source_version_id = v.source_version_id)
                FROM pg_temp.iu_core_source_version v",
    },
    Step {
        section: "iu_core.iu_staging_payload",
        is_staged: true,
        before: "",
        after: "INSERT INTO iu_core.iu_staging_payload (staging_record_id, content)
                SELECT p.staging_record_id, string_agg(p.content, ''::bytea ORDER BY p.piece)
                FROM pg_temp.iu_core_iu_staging_payload p GROUP BY p.staging_record_id",
    },
    Step {
        section: "cutter_governance.decision_backlog_entry",
        is_staged: true,
        before: "",
        after: include_str!("replay_backlog.sql"),
    },
    Step { section: "iu_core.information_unit", is_staged: true, before: "", after: "" },
    Step { section: "iu_core.unit_version", is_staged: true, before: "", after: "" },
    Step { section: "iu_core.unit_version.content", is_staged: true, before: "", after: "" },
    Step {
        section: "iu_core.iu_lifecycle_log",
        is_staged: true,
        before: "",
        after: include_str!("replay_units.sql"),
    },
];

/// Where a staged section waits.
fn staging_name(section: &str) -> String {
    format!("pg_temp.{}", section.replace('.', "_"))
}

/// Loads every section into the transaction, to the trailer. The fingerprints' rows come back:
/// they are compared, not loaded.
pub(super) fn load<R: Read>(
    transaction: &mut Transaction<'_>,
    archive: &mut ArchiveReader<R>,
) -> Result<(ArchiveTrailer, Vec<Vec<u8>>), RestoreError> {
    let (mut fingerprints, mut bytes) = (Vec::new(), 0);
    loop {
        match archive.next()? {
            Part::Section(head) => match TABLES.iter().find(|table| table.name == head.name) {
                Some(table) => load_section(transaction, archive, &head, table)?,
                None => archive.rows(&head, |row| {
                    bytes += row.len();
                    if bytes > MAX_FINGERPRINT_BYTES {
                        return Err(damaged("in its fingerprints", MAX_FINGERPRINT_BYTES, "more bytes"));
                    }
                    fingerprints.push(row.to_vec());
                    Ok(())
                })?,
            },
            Part::Frame(_) => {
                return Err(RestoreError::NotAnArchive("a dump where rows were expected".to_owned()));
            }
            Part::Trailer(trailer) => return Ok((*trailer, fingerprints)),
        }
    }
}

fn load_section<R: Read>(
    transaction: &mut Transaction<'_>,
    archive: &mut ArchiveReader<R>,
    head: &SectionHead,
    table: &Table,
) -> Result<(), RestoreError> {
    let failed = |source: PgError| RestoreError::Load { table: table.name.to_owned(), source };
    let step = STEPS.iter().find(|step| step.section == table.name);
    let columns = table.columns.join(", ");
    let mut target = table.name.to_owned();
    if let Some(step) = step {
        transaction.batch_execute(step.before).map_err(|error| failed(error.into()))?;
        if step.is_staged {
            target = staging_name(table.name);
            let create = if table.is_pieces() {
                let key = table.columns[0];
                format!(
                    "CREATE TEMPORARY TABLE {target} ({key} uuid, piece int, content bytea) ON COMMIT DROP"
                )
            } else {
                format!(
                    "CREATE TEMPORARY TABLE {target} ON COMMIT DROP AS SELECT {columns} FROM {} WITH NO DATA",
                    table.name
                )
            };
            transaction.batch_execute(&create).map_err(|error| failed(error.into()))?;
        }
    }
    let copy = format!("COPY {target} ({columns}) FROM STDIN (FORMAT text, ENCODING 'UTF8')");
    let mut writer = transaction.copy_in(&copy).map_err(|error| failed(error.into()))?;
    archive.rows(head, |row| writer.write_all(row).map_err(|error| failed(copy_failed(error))))?;
    writer.finish().map_err(|error| failed(error.into()))?;
    if let Some(step) = step {
        if step.is_staged {
            let index = if table.is_pieces() {
                format!("CREATE INDEX ON {target} ({}, piece);", table.columns[0])
            } else {
                String::new()
            };
            transaction
                .batch_execute(&format!("{index} ANALYZE {target};"))
                .map_err(|error| failed(error.into()))?;
        }
        transaction.batch_execute(step.after).map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_of_a_section() {
        for step in STEPS {
            assert!(TABLES.iter().any(|table| table.name == step.section), "{}", step.section);
        }
    }
}
