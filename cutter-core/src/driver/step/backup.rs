//! backup: what could be lost is saved before anything is written.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::base::key;
use crate::driver::run::{Halt, Run};
use crate::gate::{backup, drift};
use crate::machine::run::Phase;
use crate::machine::stop::StopReason;
use crate::port::environment::Progress;
use crate::record::backup::{BackupBlob, BackupRequest, BackupSummary};
use crate::record::pin;
use crate::record::sidecar::{Artifact, BackupRecord};

/// The name that documents use: the recorded blob stands under it too.
const BLOB_NAME: &str = "pre_write.gpg";

/// IG_backup: encrypted to the pinned recipient while it streams, stored, hashed again.
pub(super) struct Backup;

#[async_trait]
impl Step for Backup {
    // A blob, which its attempt's epoch names.
    fn leaves_something(&self) -> bool {
        true
    }

    /// Blobs of lost attempts go once this one's is recorded and told.
    async fn filed(&self, run: &mut Run<'_>) -> Result<(), Halt> {
        run.discard_leftovers().await
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let facts = run.take_backup().await?;
        let gate = backup::judge(&facts);
        let previous = run.derived_key(Phase::Cutplan)?;
        let key = facts.blob.as_ref().map(|b| key::backup(&previous, &b.sha256).to_string());
        let artifacts = facts.blob.iter().map(|b| Artifact {
            path: BLOB_NAME.to_owned(),
            sha256: b.sha256,
            bytes: b.bytes,
        });
        let tables = facts.summary.iter().flat_map(|s| &s.tables);
        Ok(Acted {
            key: key.unwrap_or_default(),
            work: vec![
                format!("scope {}", run.sidecar.settings.backup_scope.as_str()),
                format!("encrypted to {}", facts.pinned_fingerprint),
                "hashed the stored ciphertext again".to_owned(),
            ],
            diff: tables.map(|t| (t.table.clone(), format!("{} rows", t.rows), t.sha256.short(16))).collect(),
            artifacts: artifacts.collect(),
            ..Acted::of(gate, "pre_write_backup_taken")
        })
    }
}

impl Run<'_> {
    /// The backup of the state that is now, in the place of the one before, which is named in the
    /// phase's report. What was filed, and the keys, stay those of the first.
    pub(in crate::driver) async fn backup_again(&mut self) -> Result<(), Halt> {
        let gate = backup::judge(&self.take_backup().await?);
        match gate.ok() {
            true => Ok(()),
            false => Err(Halt::stop(StopReason::BackupUnavailable, gate.to_string())),
        }
    }

    async fn take_backup(&mut self) -> Result<backup::BackupFacts, Halt> {
        let run_id = self.sidecar.run_id.clone();
        let target = self.ports.backup_target.probe(&run_id).await.map_err(|e| self.halt(e))?;
        if !target.reachable {
            return Err(Halt::stop(StopReason::BackupUnavailable, "the backup target cannot be written"));
        }
        let pinned = self.sidecar.settings.backup_fingerprint.clone();
        let mut facts = backup::BackupFacts {
            target,
            pinned_fingerprint: pinned,
            blob: None,
            rehash: None,
            summary: None,
            recorded: false,
        };
        if facts.target.fingerprint.eq_ignore_ascii_case(&facts.pinned_fingerprint) {
            let (blob, summary) = self.pump().await?;
            let rehash = self.ports.backup_target.rehash(&run_id, &blob.name).await;
            facts.rehash = rehash.map_err(|e| self.halt(e))?;
            self.sidecar.backup = Some(BackupRecord {
                blob: blob.clone(),
                base_state_sha: summary.base_state_sha,
                content_rows: summary.content_rows,
                at: self.intent()?.at,
            });
            self.pin(pin::BACKUP_SHA, blob.sha256);
            self.pin(pin::BACKUP_BYTES, blob.bytes);
            self.pin(pin::BASE_STATE_SHA, summary.base_state_sha);
            facts.recorded = self.sidecar.backup.is_some();
            facts.blob = Some(blob);
            facts.summary = Some(summary);
        }
        Ok(facts)
    }

    async fn pump(&mut self) -> Result<(BackupBlob, BackupSummary), Halt> {
        let request = BackupRequest {
            run_id: self.sidecar.run_id.clone(),
            document_id: self.sidecar.document_id.clone(),
            scope: self.sidecar.settings.backup_scope,
            at: self.intent()?.at.to_string(),
            deadline_ms: self.cap_left(Phase::Backup)?,
        };
        let epoch = self.fence.as_ref().map_or(0, |f| f.epoch);
        if self.fence.is_none() {
            // no epoch tells a rehearsal's attempts apart: what a lost one left goes first
            let discarded = self.ports.backup_target.discard_unrecorded(&request.run_id, None).await;
            discarded.map_err(|e| self.halt(e))?;
        }
        let mut stream = self.ports.backup_source.open(&request).await.map_err(|e| self.halt(e))?;
        let begun = self.ports.backup_target.begin(&request.run_id, epoch).await;
        let mut sink = begun.map_err(|e| self.halt(e))?;
        let mut bytes = 0u64;
        while let Some(chunk) = stream.next().await.map_err(|e| self.halt(e))? {
            sink.write(&chunk).await.map_err(|e| self.halt(e))?;
            bytes += chunk.len() as u64;
            self.ports.observer.progress(&Progress::BackupBytes(bytes));
            self.cap_left(Phase::Backup)?;
        }
        let summary = stream.finish().await.map_err(|e| self.halt(e))?;
        let blob = sink.finish().await.map_err(|e| self.halt(e))?;
        Ok((blob, summary))
    }

    /// Discards blobs of lost attempts, once this one's is recorded: a driver that lost the
    /// run cannot have recorded its own, and so never discards its successor's.
    pub(in crate::driver) async fn discard_leftovers(&self) -> Result<(), Halt> {
        let Some(recorded) = self.sidecar.backup.as_ref().map(|b| b.blob.name.as_str()) else {
            return Ok(());
        };
        let run_id = &self.sidecar.run_id;
        let discarded = self.ports.backup_target.discard_unrecorded(run_id, Some(recorded)).await;
        discarded.map_err(|e| self.halt(e))
    }

    /// The recorded blob must still be what was recorded: before SG1's request and before
    /// leg A (PROTOCOL §2).
    pub(in crate::driver) async fn backup_stands(&self) -> Result<(), Halt> {
        let missing = || Halt::corrupt("no backup is recorded");
        let recorded = &self.sidecar.backup.as_ref().ok_or_else(missing)?.blob;
        let found = self.ports.backup_target.rehash(&self.sidecar.run_id, &recorded.name).await;
        let observed = found.map_err(|e| self.halt(e))?;
        if observed == Some((recorded.sha256, recorded.bytes)) {
            return Ok(());
        }
        let observed = observed.map(|(sha, bytes)| format!("{sha}/{bytes}"));
        Err(Halt::drift(&[drift::Difference {
            dimension: drift::BACKUP.to_owned(),
            expected: Some(format!("{}/{}", recorded.sha256, recorded.bytes)),
            observed,
        }]))
    }
}
