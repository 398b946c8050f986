//! Counting and timing of what a run asks of its ports.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::driver::Ports;
use cutter_core::port::PortResult;
use cutter_core::port::backup::{BackupSink, BackupTarget};
use cutter_core::port::database::{Begun, Executor, PendingEffect, Reader, Reviewer, Verifier};
use cutter_core::port::environment::{Observer, Progress};
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};
use cutter_core::port::run_store::{Claim, LockHolder, RunLock, RunStore, StopRequest, StoredRevision};
use cutter_core::record::ask::{AnswerWrite, AskWrite, DecisionWrite, OpenAsk, StoredAsk};
use cutter_core::record::backup::{BackupBlob, TargetFacts};
use cutter_core::record::effect::{
    EffectContext, EffectFacts, EffectKey, EffectRecord, ExecutorEffect, LegAWrite, ReviewWrite, Verdict,
    WriteVerifyWrite,
};
use cutter_core::record::evidence::{RunEvidence, RunRows};
use cutter_core::record::observed::{
    Fence, GrantSnapshot, PinMove, Registered, SourceFacts, SourceRegistration, StructuralFacts, Survey,
    SurveyScope, UnitQuery, UnitRow, VersionCut,
};
use cutter_core::record::policy::PolicyRecord;
use cutter_core::record::stored_statement::{StatementSignature, StoredStatement};
use uuid::Uuid;

/// What a run made durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of every file that was published under a name of its own.
    pub published: Vec<u64>,
    /// Lines appended to the runs index.
    pub index_lines: u64,
    /// Transactions committed with writes in them.
    pub commits: u64,
    /// Plaintext bytes of the backup.
    pub backup_bytes: u64,
    /// How often the stored backup was read and hashed again.
    pub rehashes: u64,
}

/// A phase, from the first word of it to its document's being filed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseTime {
    /// Its name.
    pub phase: &'static str,
    /// How long.
    pub took: Duration,
}

/// One port call, by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpTime {
    /// How often.
    pub calls: u32,
    /// All calls together.
    pub took: Duration,
}

/// Counts and times the port calls of a run.
#[derive(Debug, Default)]
pub struct Meter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    phases: Vec<PhaseTime>,
    since: Option<Instant>,
    ops: BTreeMap<String, OpTime>,
    leg_a: Option<LegAWrite>,
}

impl Meter {
    /// The same ports, metered.
    #[must_use]
    pub fn over(self: &Arc<Self>, ports: Ports) -> Ports {
        Ports {
            reader: self.wrap(ports.reader),
            executor: self.wrap(ports.executor),
            reviewer: ports.reviewer.map(|reviewer| self.wrap(reviewer) as _),
            verifier: self.wrap(ports.verifier),
            kb: self.wrap(ports.kb),
            runs: self.wrap(ports.runs),
            backup_target: self.wrap(ports.backup_target),
            observer: self.clone(),
            ..ports
        }
    }

    fn wrap<T: ?Sized>(self: &Arc<Self>, inner: Arc<T>) -> Arc<Metered<T>> {
        Arc::new(Metered { inner, meter: self.clone() })
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.0.lock().unwrap())
    }

    async fn timed<R>(&self, op: &str, work: impl Future<Output = R>) -> R {
        let started = Instant::now();
        let result = work.await;
        let took = started.elapsed();
        self.with(|state| {
            let entry = state.ops.entry(op.to_owned()).or_default();
            entry.calls += 1;
            entry.took += took;
        });
        result
    }

    fn publishes(&self, bytes: usize) {
        self.with(|state| state.counts.published.push(bytes as u64));
    }

    fn commits(&self) {
        self.with(|state| state.counts.commits += 1);
    }

    /// What was made durable so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.with(|state| state.counts.clone())
    }

    /// The last request of leg A.
    #[must_use]
    pub fn leg_a(&self) -> Option<LegAWrite> {
        self.with(|state| state.leg_a.clone())
    }

    /// Phases so far.
    #[must_use]
    pub fn phases(&self) -> Vec<PhaseTime> {
        self.with(|state| state.phases.clone())
    }

    /// Port calls so far, by name, the costliest first.
    #[must_use]
    pub fn ops(&self) -> Vec<(String, OpTime)> {
        let mut ops: Vec<_> = self.with(|state| state.ops.clone().into_iter().collect());
        ops.sort_by_key(|(_, op): &(String, OpTime)| std::cmp::Reverse(op.took));
        ops
    }
}

impl Observer for Meter {
    fn progress(&self, progress: &Progress) {
        self.with(|state| match progress {
            Progress::PhaseStarted { .. } => state.since = Some(Instant::now()),
            Progress::PhasePassed { phase, .. } => {
                let took = state.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                state.phases.push(PhaseTime { phase, took });
            }
            _ => {}
        });
    }
}

struct Metered<T: ?Sized> {
    inner: Arc<T>,
    meter: Arc<Meter>,
}

#[async_trait]
impl Reader for Metered<dyn Reader> {
    async fn check_schema(&self) -> PortResult<()> {
        self.meter.timed("reader.check_schema", self.inner.check_schema()).await
    }

    async fn now(&self) -> PortResult<jiff::Timestamp> {
        self.meter.timed("reader.now", self.inner.now()).await
    }

    async fn source(&self, document_id: &str) -> PortResult<Option<SourceFacts>> {
        self.meter.timed("reader.source", self.inner.source(document_id)).await
    }

    async fn source_text(&self, version: Uuid) -> PortResult<Vec<u8>> {
        self.meter.timed("reader.source_text", self.inner.source_text(version)).await
    }

    async fn vocabulary(&self) -> PortResult<Vocabulary> {
        self.meter.timed("reader.vocabulary", self.inner.vocabulary()).await
    }

    async fn survey(&self, scope: &SurveyScope) -> PortResult<Survey> {
        self.meter.timed("reader.survey", self.inner.survey(scope)).await
    }

    async fn migration_moves(&self) -> PortResult<Vec<PinMove>> {
        self.meter.timed("reader.migration_moves", self.inner.migration_moves()).await
    }

    async fn policy(&self) -> PortResult<PolicyRecord> {
        self.meter.timed("reader.policy", self.inner.policy()).await
    }

    async fn grants(&self) -> PortResult<GrantSnapshot> {
        self.meter.timed("reader.grants", self.inner.grants()).await
    }

    async fn effect(&self, key: &EffectKey) -> PortResult<Option<EffectRecord>> {
        self.meter.timed("reader.effect", self.inner.effect(key)).await
    }

    async fn structural(
        &self,
        set: Uuid,
        document: &str,
        forbidden: &[String],
    ) -> PortResult<StructuralFacts> {
        self.meter.timed("reader.structural", self.inner.structural(set, document, forbidden)).await
    }

    async fn versions(&self, document: &str) -> PortResult<Vec<VersionCut>> {
        self.meter.timed("reader.versions", self.inner.versions(document)).await
    }

    async fn units(&self, query: &UnitQuery) -> PortResult<Vec<UnitRow>> {
        self.meter.timed("reader.units", self.inner.units(query)).await
    }

    async fn asks(&self, run_id: &RunId) -> PortResult<Vec<StoredAsk>> {
        self.meter.timed("reader.asks", self.inner.asks(run_id)).await
    }

    async fn open_asks(&self, since: Option<jiff::Timestamp>) -> PortResult<Vec<OpenAsk>> {
        self.meter.timed("reader.open_asks", self.inner.open_asks(since)).await
    }

    async fn rows(&self, run_id: &RunId) -> PortResult<Option<RunRows>> {
        self.meter.timed("reader.rows", self.inner.rows(run_id)).await
    }

    async fn enacted_runs(&self, document: &str) -> PortResult<Vec<RunId>> {
        self.meter.timed("reader.enacted_runs", self.inner.enacted_runs(document)).await
    }

    async fn statements(&self, run_id: &RunId) -> PortResult<Vec<StoredStatement>> {
        self.meter.timed("reader.statements", self.inner.statements(run_id)).await
    }

    async fn rows_digest(&self, set: Uuid) -> PortResult<Option<Digest>> {
        self.meter.timed("reader.rows_digest", self.inner.rows_digest(set)).await
    }

    async fn evidence(&self, run_id: &RunId) -> PortResult<RunEvidence> {
        self.meter.timed("reader.evidence", self.inner.evidence(run_id)).await
    }
}

struct MeteredEffect {
    inner: Box<dyn PendingEffect>,
    meter: Arc<Meter>,
    name: String,
}

#[async_trait]
impl PendingEffect for MeteredEffect {
    fn facts(&self) -> &EffectFacts {
        self.inner.facts()
    }

    async fn finish(self: Box<Self>, verdict: Verdict) -> PortResult<Option<EffectRecord>> {
        let record = self.meter.timed(&format!("finish {}", self.name), self.inner.finish(verdict)).await?;
        if record.is_some() {
            self.meter.commits();
        }
        Ok(record)
    }
}

impl Meter {
    async fn begun(
        self: &Arc<Self>,
        cx: &EffectContext,
        work: impl Future<Output = PortResult<Begun>>,
    ) -> PortResult<Begun> {
        let name = cx.key.effect.to_string();
        Ok(match self.timed(&format!("begin {name}"), work).await? {
            Begun::Pending(inner) => {
                Begun::Pending(Box::new(MeteredEffect { inner, meter: self.clone(), name }))
            }
            recorded @ Begun::Recorded(_) => recorded,
        })
    }
}

#[async_trait]
impl Executor for Metered<dyn Executor> {
    async fn store_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        let stored = self.inner.store_statement(fence, body, signature);
        self.meter.timed("executor.store_statement", stored).await?;
        self.meter.commits();
        Ok(())
    }

    async fn register_source(&self, registration: &SourceRegistration) -> PortResult<Registered> {
        self.meter.timed("executor.register_source", self.inner.register_source(registration)).await
    }

    async fn take_fence(&self, run_id: &RunId, document_id: &str, holder: Uuid) -> PortResult<Fence> {
        let fence = self.inner.take_fence(run_id, document_id, holder);
        let fence = self.meter.timed("executor.take_fence", fence).await?;
        self.meter.commits();
        Ok(fence)
    }

    async fn open_ask(&self, fence: &Fence, ask: &AskWrite) -> PortResult<()> {
        self.meter.timed("executor.open_ask", self.inner.open_ask(fence, ask)).await?;
        self.meter.commits();
        Ok(())
    }

    async fn begin(&self, cx: &EffectContext, effect: &ExecutorEffect) -> PortResult<Begun> {
        if let ExecutorEffect::LegA(write) = effect {
            self.meter.with(|state| state.leg_a = Some(write.clone()));
        }
        self.meter.begun(cx, self.inner.begin(cx, effect)).await
    }
}

#[async_trait]
impl Reviewer for Metered<dyn Reviewer> {
    async fn record_answers(&self, run_id: &RunId, answers: &[AnswerWrite]) -> PortResult<()> {
        self.meter.timed("reviewer.record_answers", self.inner.record_answers(run_id, answers)).await?;
        self.meter.commits();
        Ok(())
    }

    async fn record_decision(&self, run_id: &RunId, decision: &DecisionWrite) -> PortResult<()> {
        self.meter.timed("reviewer.record_decision", self.inner.record_decision(run_id, decision)).await?;
        self.meter.commits();
        Ok(())
    }

    async fn begin(&self, cx: &EffectContext, effect: &ReviewWrite) -> PortResult<Begun> {
        self.meter.begun(cx, self.inner.begin(cx, effect)).await
    }
}

#[async_trait]
impl Verifier for Metered<dyn Verifier> {
    async fn sign_statement(&self, fence: &Fence, of: &Digest, by: &StatementSignature) -> PortResult<()> {
        self.meter.timed("verifier.sign_statement", self.inner.sign_statement(fence, of, by)).await?;
        self.meter.commits();
        Ok(())
    }

    async fn begin(&self, cx: &EffectContext, effect: &WriteVerifyWrite) -> PortResult<Begun> {
        self.meter.begun(cx, self.inner.begin(cx, effect)).await
    }
}

#[async_trait]
impl KnowledgeBase for Metered<dyn KnowledgeBase> {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        self.meter.publishes(bytes.len());
        self.meter.timed("kb.create", self.inner.create(path, bytes)).await
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        self.meter.timed("kb.read", self.inner.read(path)).await
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        self.meter.timed("kb.list", self.inner.list(folder)).await
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        self.meter.with(|state| state.counts.index_lines += 1);
        self.meter.timed("kb.append_index", self.inner.append_index(path, run_id, line)).await
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        self.meter.timed("kb.index_line", self.inner.index_line(path, run_id)).await
    }
}

#[async_trait]
impl RunStore for Metered<dyn RunStore> {
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.meter.publishes(bytes.len());
        self.meter.timed("runs.create", self.inner.create(run_id, bytes)).await
    }

    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>> {
        self.meter.timed("runs.load", self.inner.load(run_id)).await
    }

    async fn load_many(&self, run_ids: &[RunId]) -> PortResult<Vec<Option<StoredRevision>>> {
        self.meter.timed("runs.load_many", self.inner.load_many(run_ids)).await
    }

    async fn history(&self, run_id: &RunId, last: u64) -> PortResult<Vec<StoredRevision>> {
        self.meter.timed("runs.history", self.inner.history(run_id, last)).await
    }

    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>> {
        self.meter.timed("runs.load_revision", self.inner.load_revision(run_id, revision)).await
    }

    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.meter.publishes(bytes.len());
        self.meter.timed("runs.publish", self.inner.publish(run_id, expected, bytes)).await
    }

    async fn publish_last(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.meter.publishes(bytes.len());
        self.meter.timed("runs.publish_last", self.inner.publish_last(run_id, expected, bytes)).await
    }

    async fn mirror(&self, run_id: &RunId, name: &str, bytes: &[u8]) -> PortResult<()> {
        self.meter.timed("runs.mirror", self.inner.mirror(run_id, name, bytes)).await
    }

    async fn lock(&self, run_id: &RunId, holder: &LockHolder) -> PortResult<Box<dyn RunLock>> {
        self.meter.timed("runs.lock", self.inner.lock(run_id, holder)).await
    }

    async fn lock_holder(&self, run_id: &RunId) -> PortResult<Option<LockHolder>> {
        self.inner.lock_holder(run_id).await
    }

    async fn request_stop(&self, run_id: &RunId, request: &StopRequest) -> PortResult<()> {
        self.inner.request_stop(run_id, request).await
    }

    async fn stop_request(&self, run_id: &RunId) -> PortResult<Option<StopRequest>> {
        self.meter.timed("runs.stop_request", self.inner.stop_request(run_id)).await
    }

    async fn latest_claim(&self, document_id: &str) -> PortResult<Option<Claim>> {
        self.meter.timed("runs.latest_claim", self.inner.latest_claim(document_id)).await
    }

    async fn put_claim(&self, claim: &Claim) -> PortResult<CasOutcome<Claim>> {
        self.meter.publishes(256);
        self.meter.timed("runs.put_claim", self.inner.put_claim(claim)).await
    }

    async fn list(&self) -> PortResult<Vec<RunId>> {
        self.inner.list().await
    }

    fn sidecar_location(&self, run_id: &RunId) -> String {
        self.inner.sidecar_location(run_id)
    }
}

struct MeteredSink {
    inner: Box<dyn BackupSink>,
    meter: Arc<Meter>,
}

#[async_trait]
impl BackupSink for MeteredSink {
    async fn write(&mut self, chunk: &[u8]) -> PortResult<()> {
        self.meter.with(|state| state.counts.backup_bytes += chunk.len() as u64);
        self.meter.timed("backup.write", self.inner.write(chunk)).await
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupBlob> {
        self.meter.timed("backup.finish", self.inner.finish()).await
    }
}

#[async_trait]
impl BackupTarget for Metered<dyn BackupTarget> {
    async fn probe(&self, run_id: &RunId) -> PortResult<TargetFacts> {
        self.meter.timed("backup.probe", self.inner.probe(run_id)).await
    }

    async fn begin(&self, run_id: &RunId, epoch: i64) -> PortResult<Box<dyn BackupSink>> {
        let inner = self.meter.timed("backup.begin", self.inner.begin(run_id, epoch)).await?;
        Ok(Box::new(MeteredSink { inner, meter: self.meter.clone() }))
    }

    async fn rehash(&self, run_id: &RunId, name: &str) -> PortResult<Option<(Digest, u64)>> {
        self.meter.with(|state| state.counts.rehashes += 1);
        self.meter.timed("backup.rehash", self.inner.rehash(run_id, name)).await
    }

    async fn discard_unrecorded(&self, run_id: &RunId, recorded: Option<&str>) -> PortResult<()> {
        self.inner.discard_unrecorded(run_id, recorded).await
    }
}
