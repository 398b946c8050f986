//! Backup source and backup target: two ports, so that adapters never meet.
//!
//! The driver pumps chunks from a [`BackupStream`] into a [`BackupSink`], which
//! encrypts to the pinned recipient while it stores (IG_backup).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::PortResult;
use crate::digest::Digest;
use crate::id::RunId;

/// How much is saved (D13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupScope {
    /// The document's closure: cost follows the document.
    #[default]
    Document,
    /// The whole database, by `pg_dump`.
    Database,
}

impl BackupScope {
    /// Stored spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Database => "database",
        }
    }
}

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

/// A consistent stream of the plaintext backup.
#[async_trait]
pub trait BackupStream: Send {
    /// The next chunk (at most 1 MiB), or `None` at the end.
    async fn next(&mut self) -> PortResult<Option<Vec<u8>>>;
    /// The summary. Only after `next` gave `None`; `Invalid` before.
    async fn finish(self: Box<Self>) -> PortResult<BackupSummary>;
}

/// Where backups come from.
#[async_trait]
pub trait BackupSource: Send + Sync {
    /// Opens a snapshot and starts to stream.
    async fn open(&self, request: &BackupRequest) -> PortResult<Box<dyn BackupStream>>;
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

/// Receives plaintext, stores ciphertext.
#[async_trait]
pub trait BackupSink: Send {
    /// Takes one chunk.
    async fn write(&mut self, chunk: &[u8]) -> PortResult<()>;
    /// Ends the message and publishes it, never replacing. Durable on return. Dropping the
    /// sink before leaves nothing.
    async fn finish(self: Box<Self>) -> PortResult<BackupBlob>;
}

/// What IG_backup asks of the target before anything is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Can it be written?
    pub reachable: bool,
    /// Fingerprint of the recipient key that it would encrypt to.
    pub fingerprint: String,
}

/// Where backups go.
#[async_trait]
pub trait BackupTarget: Send + Sync {
    /// Observes the target. Not reachable is a fact, not an error.
    async fn probe(&self, run_id: &RunId) -> PortResult<TargetFacts>;
    /// Starts a backup named after the fence epoch.
    async fn begin(&self, run_id: &RunId, epoch: i64) -> PortResult<Box<dyn BackupSink>>;
    /// sha256 and length of the stored ciphertext, read again; `None` if it is not there.
    async fn rehash(&self, run_id: &RunId, name: &str) -> PortResult<Option<(Digest, u64)>>;
    /// Removes blobs of this run other than the recorded one: leftovers of lost attempts.
    /// Call it under the run lock only.
    async fn discard_unrecorded(&self, run_id: &RunId, recorded: Option<&str>) -> PortResult<()>;
}
