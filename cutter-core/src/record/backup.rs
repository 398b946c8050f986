//! What a backup holds, and where it stands.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::spelled;

/// How much is saved (D13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackupScope {
    /// The document's closure: cost follows the document.
    #[default]
    Document,
    /// The whole database, by `pg_dump`.
    Database,
}

spelled!(BackupScope, "backup scope", {
    Document => "document",
    Database => "database",
});

/// What to save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRequest {
    /// The run, whose own governance rows do not count into the base state.
    pub run_id: RunId,
    /// The document.
    pub document_id: String,
    /// How much.
    pub scope: BackupScope,
    /// Written into the header (UTC, RFC 3339).
    pub at: String,
    /// What is left of the cap.
    pub deadline_ms: u64,
}

/// One table in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSummary {
    /// Qualified name.
    pub table: String,
    /// Rows, zero included.
    pub rows: u64,
    /// sha256 over the rows as they stand in the archive.
    pub sha256: Digest,
}

/// What a stream held, known at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSummary {
    /// Per table.
    pub tables: Vec<TableSummary>,
    /// Digest of the base state: the tables' digests less this run's own rows.
    pub base_state_sha: Digest,
    /// Content rows (units) of the document that the backup holds.
    pub content_rows: u64,
}

/// A stored backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupBlob {
    /// Name within the run's own place, say `pre_write.3.gpg`.
    pub name: String,
    /// Ciphertext length in bytes.
    pub bytes: u64,
    /// sha256 of the ciphertext: the `backup_sha` of the spec.
    pub sha256: Digest,
    /// sha256 of the plaintext.
    pub plaintext_sha256: Digest,
    /// Fingerprint of the recipient's primary key.
    pub fingerprint: String,
}

/// What IG_backup asks of the target before anything is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Can it be written?
    pub reachable: bool,
    /// Fingerprint of the recipient key that it would encrypt to.
    pub fingerprint: String,
}
