//! Backup source and backup target: two ports, so that adapters never meet.
//!
//! The driver pumps chunks from a [`BackupStream`] into a [`BackupSink`], which
//! encrypts to the pinned recipient while it stores (IG_backup).

use alloc::boxed::Box;
use alloc::vec::Vec;

use async_trait::async_trait;

use super::PortResult;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::record::backup::{BackupBlob, BackupRequest, BackupSummary, TargetFacts};

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

/// Receives plaintext, stores ciphertext.
#[async_trait]
pub trait BackupSink: Send {
    /// Takes one chunk.
    async fn write(&mut self, chunk: &[u8]) -> PortResult<()>;
    /// Ends the message and publishes it, never replacing. Durable on return. Dropping the
    /// sink before leaves nothing.
    async fn finish(self: Box<Self>) -> PortResult<BackupBlob>;
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
