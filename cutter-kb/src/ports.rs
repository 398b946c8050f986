//! The core's ports over the folder: thin, so that every rule stays in the modules below.
//!
//! The methods are async by signature only. They do short blocking file operations on the
//! caller's thread; a caller with a runtime that must not block hands them to its own
//! blocking pool.

use std::io::Write as _;

use async_trait::async_trait;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::port::backup::{BackupSink, BackupTarget};
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};
use cutter_core::port::run_store::{Claim, LockHolder, RunLock, RunStore, StopRequest, StoredRevision};
use cutter_core::port::signer::SignatureVerifier;
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use cutter_core::record::backup::{BackupBlob, TargetFacts};
use cutter_core::record::signature::SignatureFacts;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::backup_target::{BackupWriter, FolderBackupTarget};
use crate::file_error::FileError;
use crate::folder::{Append, Creation, FolderKb};
use crate::openpgp::{PublicKey, Verdict, signers, verify_clearsigned};
use crate::run_store::{FileRunStore, Holder, LockOutcome, Put};

const KB: Port = Port::KnowledgeBase;
const RUNS: Port = Port::RunStore;
const BACKUP: Port = Port::BackupTarget;

fn port(port: Port, op: &'static str) -> impl Fn(FileError) -> PortError {
    // the port's error shows the kind itself
    move |e| PortError::new(port, op, e.kind, format!("{} {}: {}", e.op, e.path.display(), e.detail))
}

#[async_trait]
impl KnowledgeBase for FolderKb {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        Ok(match Self::create(self, path, bytes).map_err(port(KB, "create"))? {
            Creation::Created => CreateOutcome::Created,
            Creation::Identical => CreateOutcome::Identical,
            Creation::Different { found } => CreateOutcome::Different { found },
        })
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        let found = Self::read(self, path).map_err(port(KB, "read"))?;
        Ok(found.map(|document| Document {
            bytes: document.bytes,
            revision: u32::try_from(document.revision).unwrap_or(u32::MAX),
            sha256: document.sha256,
        }))
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        let folder = folder.trim_end_matches('/');
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        Self::list(self, &prefix).map_err(port(KB, "list"))
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        Ok(match Self::append_index(self, path, run_id, line).map_err(port(KB, "append_index"))? {
            Append::Appended => AppendOutcome::Appended,
            Append::AlreadyThere => AppendOutcome::AlreadyThere,
            Append::Conflict { found } => AppendOutcome::Conflict { found },
        })
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        Self::index_line(self, path, run_id).map_err(port(KB, "index_line"))
    }
}

struct HeldRun {
    run_id: RunId,
    _lock: crate::run_store::RunLock,
}

impl RunLock for HeldRun {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }
}

fn json<T: serde::Serialize>(op: &'static str, value: &T) -> PortResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| PortError::new(RUNS, op, PortErrorKind::Invalid, e.to_string()))
}

fn parsed<T: DeserializeOwned>(op: &'static str, what: &str, bytes: &[u8]) -> PortResult<T> {
    serde_json::from_slice(bytes).map_err(|e| {
        PortError::new(RUNS, op, PortErrorKind::Corrupt, format!("{what} does not read back: {e}"))
    })
}

/// What the lock file says; a record that another program wrote still names its process.
fn lock_holder(holder: Holder) -> LockHolder {
    let pid = holder.process.pid;
    serde_json::from_value(holder.info).unwrap_or_else(|_| LockHolder {
        holder: Uuid::nil(),
        host: "unknown".to_owned(),
        pid,
        since: "unknown".to_owned(),
        command: "unknown".to_owned(),
    })
}

#[async_trait]
impl RunStore for FileRunStore {
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        let failed = port(RUNS, "create");
        Ok(match Self::create(self, run_id.as_str(), bytes).map_err(&failed)? {
            Put::Created => CasOutcome::Applied,
            Put::Identical => CasOutcome::AlreadyApplied,
            Put::Exists { .. } => {
                let newest = Self::load(self, run_id.as_str()).map_err(&failed)?;
                CasOutcome::Conflict { found: newest.map_or(1, |(revision, _)| revision) }
            }
        })
    }

    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>> {
        let found = Self::load(self, run_id.as_str()).map_err(port(RUNS, "load"))?;
        Ok(found.map(|(revision, bytes)| StoredRevision { revision, bytes }))
    }

    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>> {
        let found =
            Self::load_revision(self, run_id.as_str(), revision).map_err(port(RUNS, "load_revision"))?;
        Ok(found.map(|bytes| StoredRevision { revision, bytes }))
    }

    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        Self::publish(self, run_id.as_str(), expected, bytes).map_err(port(RUNS, "publish"))
    }

    async fn mirror(&self, run_id: &RunId, name: &str, bytes: &[u8]) -> PortResult<()> {
        Self::mirror(self, run_id.as_str(), name, bytes).map_err(port(RUNS, "mirror"))
    }

    async fn lock(&self, run_id: &RunId, holder: &LockHolder) -> PortResult<Box<dyn RunLock>> {
        let info = serde_json::to_string(holder)
            .map_err(|e| PortError::new(RUNS, "lock", PortErrorKind::Invalid, e.to_string()))?;
        match Self::lock(self, run_id.as_str(), &info).map_err(port(RUNS, "lock"))? {
            LockOutcome::Acquired(lock) => Ok(Box::new(HeldRun { run_id: run_id.clone(), _lock: lock })),
            LockOutcome::Busy { holder } => {
                let who = holder.map(lock_holder).map_or_else(
                    || "a process that has not said who it is yet".to_owned(),
                    |h| {
                        format!(
                            "{}, process {} on {} since {}: {}",
                            h.holder, h.pid, h.host, h.since, h.command
                        )
                    },
                );
                let message = format!("{run_id} is locked by {who}");
                Err(PortError::new(RUNS, "lock", PortErrorKind::Busy, message))
            }
        }
    }

    async fn lock_holder(&self, run_id: &RunId) -> PortResult<Option<LockHolder>> {
        Ok(self.holder(run_id.as_str()).map_err(port(RUNS, "lock_holder"))?.map(lock_holder))
    }

    async fn request_stop(&self, run_id: &RunId, request: &StopRequest) -> PortResult<()> {
        let bytes = json("request_stop", request)?;
        self.put_stop_request(run_id.as_str(), &bytes).map_err(port(RUNS, "request_stop"))
    }

    async fn stop_request(&self, run_id: &RunId) -> PortResult<Option<StopRequest>> {
        let found = self.last_stop_request(run_id.as_str()).map_err(port(RUNS, "stop_request"))?;
        found
            .map(|bytes| parsed("stop_request", &format!("the stop request of {run_id}"), &bytes))
            .transpose()
    }

    async fn latest_claim(&self, document_id: &str) -> PortResult<Option<Claim>> {
        let found = Self::latest_claim(self, document_id).map_err(port(RUNS, "latest_claim"))?;
        let Some((generation, bytes)) = found else { return Ok(None) };
        let what = format!("claim {generation} on {document_id:?}");
        let claim: Claim = parsed("latest_claim", &what, &bytes)?;
        if claim.generation == generation && claim.document_id == document_id {
            return Ok(Some(claim));
        }
        let message = format!("{what} says that it is claim {} on {:?}", claim.generation, claim.document_id);
        Err(PortError::new(RUNS, "latest_claim", PortErrorKind::Corrupt, message))
    }

    async fn put_claim(&self, claim: &Claim) -> PortResult<CasOutcome<Claim>> {
        let bytes = json("put_claim", claim)?;
        let put = Self::put_claim(self, &claim.document_id, claim.generation, &bytes)
            .map_err(port(RUNS, "put_claim"))?;
        match put {
            Put::Created => Ok(CasOutcome::Applied),
            Put::Identical => Ok(CasOutcome::AlreadyApplied),
            Put::Exists { found } => {
                let what = format!("claim {} on {:?}", claim.generation, claim.document_id);
                let found: Claim = parsed("put_claim", &what, &found)?;
                Ok(if found == *claim { CasOutcome::AlreadyApplied } else { CasOutcome::Conflict { found } })
            }
        }
    }

    async fn list(&self) -> PortResult<Vec<RunId>> {
        // a folder under another name is not a run of ours
        let names = Self::list(self).map_err(port(RUNS, "list"))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn sidecar_location(&self, run_id: &RunId) -> String {
        self.run_path(run_id.as_str()).join("state.json").display().to_string()
    }
}

#[async_trait]
impl BackupSink for BackupWriter {
    async fn write(&mut self, chunk: &[u8]) -> PortResult<()> {
        self.write_all(chunk).map_err(|e| {
            let error = FileError::io("write backup", self.path(), &e);
            PortError::new(BACKUP, "write", error.kind, error.to_string())
        })
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupBlob> {
        let receipt = Self::finish(*self).map_err(port(BACKUP, "finish"))?;
        Ok(BackupBlob {
            name: receipt.name,
            bytes: receipt.bytes,
            sha256: receipt.ciphertext_sha256,
            plaintext_sha256: receipt.plaintext_sha256,
            fingerprint: receipt.recipient.to_string(),
        })
    }
}

#[async_trait]
impl BackupTarget for FolderBackupTarget {
    async fn probe(&self, run_id: &RunId) -> PortResult<TargetFacts> {
        let fingerprint = self.recipient().fingerprint().to_string();
        Ok(TargetFacts { reachable: self.writable(run_id.as_str()), fingerprint })
    }

    async fn begin(&self, run_id: &RunId, epoch: i64) -> PortResult<Box<dyn BackupSink>> {
        let epoch = u64::try_from(epoch).map_err(|_| {
            let message = format!("expected an epoch from 0, observed {epoch}");
            PortError::new(BACKUP, "begin", PortErrorKind::Invalid, message)
        })?;
        Ok(Box::new(Self::begin(self, run_id.as_str(), epoch).map_err(port(BACKUP, "begin"))?))
    }

    async fn rehash(&self, run_id: &RunId, name: &str) -> PortResult<Option<(Digest, u64)>> {
        match Self::rehash(self, run_id.as_str(), name) {
            Ok(hash) => Ok(Some((hash.ciphertext_sha256, hash.bytes))),
            Err(e) if e.kind == PortErrorKind::NotFound => Ok(None),
            Err(e) => Err(port(BACKUP, "rehash")(e)),
        }
    }

    /// Also keeps `pre_write.gpg` another name of the recorded blob.
    async fn discard_unrecorded(&self, run_id: &RunId, recorded: Option<&str>) -> PortResult<()> {
        let failed = port(BACKUP, "discard_unrecorded");
        Self::discard_unrecorded(self, run_id.as_str(), recorded).map_err(&failed)?;
        match recorded.map(|name| self.record(run_id.as_str(), name)) {
            Some(Err(e)) if e.kind != PortErrorKind::NotFound => Err(failed(e)),
            // whether the recorded blob is there is for `rehash` to say
            _ => Ok(()),
        }
    }
}

/// The configured public keys, as the port that observes people's signatures.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Vec<PublicKey>,
}

impl KeyRing {
    /// A ring of these keys. Several versions of one key are fine: a revocation in any counts.
    #[must_use]
    pub fn new(keys: Vec<PublicKey>) -> Self {
        Self { keys }
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }
}

#[async_trait]
impl SignatureVerifier for KeyRing {
    async fn observe(&self, document: &[u8], now: Timestamp) -> PortResult<SignatureFacts> {
        Ok(observed(document, &self.keys, now))
    }

    async fn observe_with(
        &self,
        document: &[u8],
        keys: &[&str],
        now: Timestamp,
    ) -> PortResult<SignatureFacts> {
        let keys: Vec<PublicKey> =
            keys.iter().filter_map(|key| PublicKey::parse(key.as_bytes()).ok()).collect();
        Ok(observed(document, &keys, now))
    }

    async fn signers(&self, block: &[u8], keys: &[&str]) -> PortResult<Vec<SignatureFacts>> {
        let given = keys.iter().filter_map(|key| PublicKey::parse(key.as_bytes()).ok());
        let keys: Vec<PublicKey> = given.chain(self.keys.iter().cloned()).collect();
        Ok(signers(block, &keys)
            .into_iter()
            .map(|signer| SignatureFacts::Good {
                fingerprint: signer.primary_fingerprint.to_string(),
                signed_at: signer.created,
                text: signer.text,
            })
            .collect())
    }
}

fn observed(document: &[u8], keys: &[PublicKey], now: Timestamp) -> SignatureFacts {
    let facts = verify_clearsigned(document, keys, now);
    match (facts.verdict, facts.covered_text) {
        (Verdict::Good { primary_fingerprint, created, .. }, Some(text)) => {
            SignatureFacts::Good { fingerprint: primary_fingerprint.to_string(), signed_at: created, text }
        }
        (Verdict::Good { .. }, None) => SignatureFacts::Bad {
            code: "malformed".to_owned(),
            detail: "the signature covers no text".to_owned(),
        },
        (Verdict::Bad { code: "not_clearsigned", .. }, _) => {
            SignatureFacts::Unsigned { text: String::from_utf8_lossy(document).into_owned() }
        }
        (Verdict::Bad { code, detail }, _) => SignatureFacts::Bad { code: code.to_owned(), detail },
    }
}
