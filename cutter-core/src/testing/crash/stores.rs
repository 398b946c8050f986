//! Knowledge base, run store, backups, keys and clock of a life that can be struck.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::Timestamp;

use super::database::Struck;
use super::life::Life;
use crate::base::cas::CasOutcome;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::port::backup::{BackupSink, BackupSource, BackupStream, BackupTarget};
use crate::port::environment::Clock;
use crate::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};
use crate::port::run_store::{Claim, LockHolder, RunLock, RunStore, StopRequest, StoredRevision};
use crate::port::signer::{SignatureVerifier, Signer};
use crate::port::{Port, PortResult};
use crate::record::backup::{BackupBlob, BackupRequest, BackupSummary, TargetFacts};
use crate::record::signature::{Duty, SignatureFacts, SignedText};

const KB: Port = Port::KnowledgeBase;
const RUNS: Port = Port::RunStore;
const SOURCE: Port = Port::BackupSource;
const TARGET: Port = Port::BackupTarget;
const SIGNER: Port = Port::Signer;

#[async_trait]
impl KnowledgeBase for Struck<dyn KnowledgeBase> {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        self.life.call(KB, "create", self.inner.create(path, bytes)).await
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        self.life.call(KB, "read", self.inner.read(path)).await
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        self.life.call(KB, "list", self.inner.list(folder)).await
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        self.life.call(KB, "append_index", self.inner.append_index(path, run_id, line)).await
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        self.life.call(KB, "index_line", self.inner.index_line(path, run_id)).await
    }
}

/// The run store, with the choice of a lock that excludes nobody.
pub(super) struct StruckRuns {
    pub(super) life: Life,
    pub(super) inner: Arc<dyn RunStore>,
    pub(super) locks: bool,
}

struct StruckLock {
    inner: Box<dyn RunLock>,
}

impl RunLock for StruckLock {
    fn run_id(&self) -> &RunId {
        self.inner.run_id()
    }
}

/// A lock whose store does not reach the other holder, as between two machines.
struct LooseLock {
    run_id: RunId,
}

impl RunLock for LooseLock {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }
}

#[async_trait]
impl RunStore for StruckRuns {
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.life.call(RUNS, "create", self.inner.create(run_id, bytes)).await
    }

    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>> {
        self.life.call(RUNS, "load", self.inner.load(run_id)).await
    }

    async fn load_many(&self, run_ids: &[RunId]) -> PortResult<Vec<Option<StoredRevision>>> {
        self.life.call(RUNS, "load_many", self.inner.load_many(run_ids)).await
    }

    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>> {
        self.life.call(RUNS, "load_revision", self.inner.load_revision(run_id, revision)).await
    }

    async fn history(&self, run_id: &RunId, last: u64) -> PortResult<Vec<StoredRevision>> {
        self.life.call(RUNS, "history", self.inner.history(run_id, last)).await
    }

    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.life.call(RUNS, "publish", self.inner.publish(run_id, expected, bytes)).await
    }

    async fn publish_last(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.life.call(RUNS, "publish_last", self.inner.publish_last(run_id, expected, bytes)).await
    }

    async fn mirror(&self, run_id: &RunId, name: &str, bytes: &[u8]) -> PortResult<()> {
        self.life.call(RUNS, "mirror", self.inner.mirror(run_id, name, bytes)).await
    }

    async fn lock(&self, run_id: &RunId, holder: &LockHolder) -> PortResult<Box<dyn RunLock>> {
        let work = async {
            let lock: Box<dyn RunLock> = if self.locks {
                Box::new(StruckLock { inner: self.inner.lock(run_id, holder).await? })
            } else {
                Box::new(LooseLock { run_id: run_id.clone() })
            };
            Ok(lock)
        };
        self.life.call(RUNS, "lock", work).await
    }

    async fn lock_holder(&self, run_id: &RunId) -> PortResult<Option<LockHolder>> {
        self.life.call(RUNS, "lock_holder", self.inner.lock_holder(run_id)).await
    }

    async fn request_stop(&self, run_id: &RunId, request: &StopRequest) -> PortResult<()> {
        self.life.call(RUNS, "request_stop", self.inner.request_stop(run_id, request)).await
    }

    async fn stop_request(&self, run_id: &RunId) -> PortResult<Option<StopRequest>> {
        self.life.call(RUNS, "stop_request", self.inner.stop_request(run_id)).await
    }

    async fn latest_claim(&self, document_id: &str) -> PortResult<Option<Claim>> {
        self.life.call(RUNS, "latest_claim", self.inner.latest_claim(document_id)).await
    }

    async fn put_claim(&self, claim: &Claim) -> PortResult<CasOutcome<Claim>> {
        self.life.call(RUNS, "put_claim", self.inner.put_claim(claim)).await
    }

    async fn list(&self) -> PortResult<Vec<RunId>> {
        self.life.call(RUNS, "list", self.inner.list()).await
    }

    fn sidecar_location(&self, run_id: &RunId) -> String {
        self.inner.sidecar_location(run_id)
    }
}

struct StruckStream {
    life: Life,
    inner: Box<dyn BackupStream>,
}

#[async_trait]
impl BackupStream for StruckStream {
    async fn next(&mut self) -> PortResult<Option<Vec<u8>>> {
        self.life.call(SOURCE, "next", self.inner.next()).await
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupSummary> {
        let Self { life, inner } = *self;
        life.call(SOURCE, "finish", inner.finish()).await
    }
}

#[async_trait]
impl BackupSource for Struck<dyn BackupSource> {
    async fn open(&self, request: &BackupRequest) -> PortResult<Box<dyn BackupStream>> {
        let inner = self.life.call(SOURCE, "open", self.inner.open(request)).await?;
        Ok(Box::new(StruckStream { life: self.life.clone(), inner }))
    }
}

struct StruckSink {
    life: Life,
    inner: Box<dyn BackupSink>,
}

#[async_trait]
impl BackupSink for StruckSink {
    async fn write(&mut self, chunk: &[u8]) -> PortResult<()> {
        self.life.call(TARGET, "write", self.inner.write(chunk)).await
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupBlob> {
        let Self { life, inner } = *self;
        life.call(TARGET, "finish", inner.finish()).await
    }
}

#[async_trait]
impl BackupTarget for Struck<dyn BackupTarget> {
    async fn probe(&self, run_id: &RunId) -> PortResult<TargetFacts> {
        self.life.call(TARGET, "probe", self.inner.probe(run_id)).await
    }

    async fn begin(&self, run_id: &RunId, epoch: i64) -> PortResult<Box<dyn BackupSink>> {
        let inner = self.life.call(TARGET, "begin", self.inner.begin(run_id, epoch)).await?;
        Ok(Box::new(StruckSink { life: self.life.clone(), inner }))
    }

    async fn rehash(&self, run_id: &RunId, name: &str) -> PortResult<Option<(Digest, u64)>> {
        self.life.call(TARGET, "rehash", self.inner.rehash(run_id, name)).await
    }

    async fn discard_unrecorded(&self, run_id: &RunId, recorded: Option<&str>) -> PortResult<()> {
        self.life.call(TARGET, "discard_unrecorded", self.inner.discard_unrecorded(run_id, recorded)).await
    }
}

#[async_trait]
impl Signer for Struck<dyn Signer> {
    async fn public_key(&self, duty: Duty) -> PortResult<[u8; 32]> {
        self.life.call(SIGNER, "public_key", self.inner.public_key(duty)).await
    }

    async fn sign(&self, duty: Duty, payload: &[u8]) -> PortResult<[u8; 64]> {
        self.life.call(SIGNER, "sign", self.inner.sign(duty, payload)).await
    }

    async fn sign_creation(&self, text: &str) -> PortResult<SignedText> {
        self.life.call(SIGNER, "sign_creation", self.inner.sign_creation(text)).await
    }
}

#[async_trait]
impl SignatureVerifier for Struck<dyn SignatureVerifier> {
    async fn observe(&self, document: &[u8], now: Timestamp) -> PortResult<SignatureFacts> {
        self.life.call(Port::Signatures, "observe", self.inner.observe(document, now)).await
    }

    async fn observe_with(
        &self,
        document: &[u8],
        keys: &[&str],
        now: Timestamp,
    ) -> PortResult<SignatureFacts> {
        let work = self.inner.observe_with(document, keys, now);
        self.life.call(Port::Signatures, "observe_with", work).await
    }

    async fn signers(&self, block: &[u8], keys: &[&str]) -> PortResult<Vec<SignatureFacts>> {
        self.life.call(Port::Signatures, "signers", self.inner.signers(block, keys)).await
    }
}

/// A clock that never waits: a struck run and an undisturbed one must not differ in time.
pub(super) struct ImpatientClock(pub(super) Arc<dyn Clock>);

#[async_trait]
impl Clock for ImpatientClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn sleep(&self, _millis: u64) {}
}
