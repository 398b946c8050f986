//! The archive's form, line by line; written by the backup, read by the restore.
//!
//! ```text
//! cutter-backup 1 <sha256 of the next line>
//! {"format":1,"scope":"document","run_id":…,"document_id":…,"at":…,"server":…,"migrations":…}
//! section {"name":"iu_core.source_document","columns":[…]}
//! rows of COPY in text form, ordered by key
//! \.
//! … one section for each table, empty ones too, then the fingerprints …
//! trailer {"tables":[…],"fingerprints":[…],"base_state_sha":…,"content_rows":…,"dump":null}
//! end <sha256 of the trailer's line>
//! ```
//!
//! With scope `database` the sections are replaced by frames of a custom-format dump,
//! `dump <bytes>` and then the bytes, ended by `dump 0`; the tables of the trailer were counted
//! in the dump's own snapshot. Each byte is covered by a digest, or must be what is expected, so
//! a change anywhere is found; a cut is found because `end` is missing. Digests find damage, not
//! forgery: whose archive it is says the sha256 of the ciphertext, which the run recorded.

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::record::backup::{BackupScope, TableSummary};
use serde::{Deserialize, Serialize};

/// The version of the form.
pub const FORMAT: u32 = 1;

/// What an archive begins with.
pub(crate) const MAGIC: &str = "cutter-backup ";
/// What a section begins with.
pub(crate) const SECTION: &str = "section ";
/// What a frame of a dump begins with.
pub(crate) const DUMP: &str = "dump ";
/// What the trailer begins with.
pub(crate) const TRAILER: &str = "trailer ";
/// What the last line begins with.
pub(crate) const END: &str = "end ";
/// What ends the rows of a section. No row of COPY's text form is this.
pub(crate) const ROWS_END: &[u8] = b"\\.\n";

/// Which server a backup came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerIdentity {
    /// The cluster's system identifier.
    pub system_identifier: String,
    /// The database's oid.
    pub database_oid: u32,
    /// The database's name.
    pub database: String,
    /// The server's version as a number, say 150018.
    pub version: u32,
}

/// A migration that the database had recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedMigration {
    /// Its position.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// sha256 of its statements.
    pub sha256: Digest,
}

/// The header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveHeader {
    /// [`FORMAT`].
    pub format: u32,
    /// How much is in it.
    pub scope: BackupScope,
    /// The run that took it.
    pub run_id: RunId,
    /// The document.
    pub document_id: String,
    /// When, as the caller said. The only value that differs between two backups of one state.
    pub at: String,
    /// Where from.
    pub server: ServerIdentity,
    /// The schema, oldest first.
    pub migrations: Vec<ArchivedMigration>,
}

/// What a section says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SectionHead {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
}

impl SectionHead {
    pub(crate) fn new(name: &str, columns: &[&str]) -> Self {
        Self { name: name.to_owned(), columns: columns.iter().map(|c| (*c).to_owned()).collect() }
    }
}

/// A dump inside an archive of scope `database`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpSummary {
    /// Its length.
    pub bytes: u64,
    /// sha256 of its bytes.
    pub sha256: Digest,
}

/// The trailer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveTrailer {
    /// Per table, zero counts included.
    pub tables: Vec<TableSummary>,
    /// Fingerprints of functions, triggers and access lists.
    pub fingerprints: Vec<TableSummary>,
    /// `fn_base_state` of the document less the run's own rows, in the same snapshot.
    pub base_state_sha: Digest,
    /// Units.
    pub content_rows: u64,
    /// The dump, with scope `database`.
    pub dump: Option<DumpSummary>,
}

/// One line of JSON after a word.
pub(crate) fn tagged<T: Serialize>(tag: &str, value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = tag.as_bytes().to_vec();
    serde_json::to_writer(&mut line, value)?;
    line.push(b'\n');
    Ok(line)
}
