//! The suites find what they are for: each test breaks one contract of a good port and
//! expects that contract's name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use async_trait::async_trait;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::port::database::{Begun, Executor, PendingEffect};
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};
use cutter_core::port::run_store::{Claim, LockHolder, RunLock, RunStore, StopRequest, StoredRevision};
use cutter_core::port::{PortErrorKind, PortResult};
use cutter_core::record::ask::AskWrite;
use cutter_core::record::effect::{EffectContext, EffectFacts, EffectRecord, ExecutorEffect, Verdict};
use cutter_core::record::observed::{Fence, Registered, SourceRegistration};
use cutter_core::record::stored_statement::StatementSignature;
use cutter_core::testing::conformance::database::DatabaseUnderTest;
use cutter_core::testing::conformance::{Fresh, database, knowledge_base, run_store};
use cutter_core::testing::memory::{World, block_on};
use uuid::Uuid;

#[derive(Clone, Copy, PartialEq)]
enum KbFault {
    Replaces,
    ListsByPrefix,
    AppendsTwice,
    LetsPathsOut,
    LiesAboutTheDigest,
}

struct BrokenKb {
    world: World,
    inner: Arc<dyn KnowledgeBase>,
    fault: KbFault,
}

#[async_trait]
impl KnowledgeBase for BrokenKb {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        match (self.fault, self.inner.create(path, bytes).await) {
            (KbFault::Replaces, Ok(CreateOutcome::Different { .. })) => {
                self.world.corrupt_document(path, bytes);
                Ok(CreateOutcome::Created)
            }
            (KbFault::LetsPathsOut, Err(error)) if error.kind == PortErrorKind::Invalid => {
                Ok(CreateOutcome::Created)
            }
            (_, other) => other,
        }
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        let mut found = self.inner.read(path).await?;
        if let (KbFault::LiesAboutTheDigest, Some(document)) = (self.fault, &mut found) {
            document.sha256 = Digest::of(b"");
        }
        Ok(found)
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        if self.fault == KbFault::ListsByPrefix {
            return Ok(self.world.paths().into_iter().filter(|path| path.starts_with(folder)).collect());
        }
        self.inner.list(folder).await
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        let outcome = self.inner.append_index(path, run_id, line).await?;
        if self.fault == KbFault::AppendsTwice && outcome == AppendOutcome::AlreadyThere {
            let mut text = self.world.document(path).unwrap().bytes;
            text.extend_from_slice(format!("{line}\n").as_bytes());
            self.world.corrupt_document(path, &text);
        }
        Ok(outcome)
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        self.inner.index_line(path, run_id).await
    }
}

#[test]
fn a_broken_knowledge_base_is_found() {
    for (fault, contract) in [
        (KbFault::Replaces, "a_document_is_created_once_and_never_replaced"),
        (KbFault::LiesAboutTheDigest, "a_new_document_has_revision_1_and_its_digest"),
        (KbFault::ListsByPrefix, "listing_is_by_folder_and_in_byte_order"),
        (KbFault::LetsPathsOut, "a_path_that_leaves_the_base_is_refused"),
        (KbFault::AppendsTwice, "an_index_line_is_appended_once"),
    ] {
        let build = || async {
            let world = World::new(1);
            let inner = world.process().ports().kb;
            let kb: Arc<dyn KnowledgeBase> = Arc::new(BrokenKb { world, inner, fault });
            Ok(Fresh::new(kb))
        };
        let failure = block_on(knowledge_base::run_all(build)).unwrap_err();
        assert_eq!(failure.contract, contract, "{failure}");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum StoreFault {
    ChecksThenWrites,
    LocksTwice,
    ForgetsRelease,
    SortsClaimsAsText,
    LoadsInItsOwnOrder,
}

struct BrokenStore {
    inner: Arc<dyn RunStore>,
    fault: StoreFault,
}

#[async_trait]
impl RunStore for BrokenStore {
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.inner.create(run_id, bytes).await
    }

    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>> {
        self.inner.load(run_id).await
    }

    async fn load_many(&self, run_ids: &[RunId]) -> PortResult<Vec<Option<StoredRevision>>> {
        let mut run_ids = run_ids.to_vec();
        if self.fault == StoreFault::LoadsInItsOwnOrder {
            run_ids.sort();
        }
        self.inner.load_many(&run_ids).await
    }

    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>> {
        self.inner.load_revision(run_id, revision).await
    }

    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        if self.fault == StoreFault::ChecksThenWrites {
            // a rename after a look: the last writer wins
            let highest = self.inner.load(run_id).await?.map_or(0, |r| r.revision);
            return self.inner.publish(run_id, highest.max(expected), bytes).await;
        }
        self.inner.publish(run_id, expected, bytes).await
    }

    async fn mirror(&self, run_id: &RunId, name: &str, bytes: &[u8]) -> PortResult<()> {
        self.inner.mirror(run_id, name, bytes).await
    }

    async fn lock(&self, run_id: &RunId, holder: &LockHolder) -> PortResult<Box<dyn RunLock>> {
        struct Nothing(RunId);
        impl RunLock for Nothing {
            fn run_id(&self) -> &RunId {
                &self.0
            }
        }
        match (self.fault, self.inner.lock(run_id, holder).await) {
            (StoreFault::LocksTwice, Err(_)) => Ok(Box::new(Nothing(run_id.clone()))),
            (StoreFault::ForgetsRelease, Ok(lock)) => {
                std::mem::forget(lock);
                Ok(Box::new(Nothing(run_id.clone())))
            }
            (_, other) => other,
        }
    }

    async fn lock_holder(&self, run_id: &RunId) -> PortResult<Option<LockHolder>> {
        self.inner.lock_holder(run_id).await
    }

    async fn request_stop(&self, run_id: &RunId, request: &StopRequest) -> PortResult<()> {
        self.inner.request_stop(run_id, request).await
    }

    async fn stop_request(&self, run_id: &RunId) -> PortResult<Option<StopRequest>> {
        self.inner.stop_request(run_id).await
    }

    async fn latest_claim(&self, document_id: &str) -> PortResult<Option<Claim>> {
        let found = self.inner.latest_claim(document_id).await?;
        if let (StoreFault::SortsClaimsAsText, Some(claim)) = (self.fault, &found)
            && claim.generation > 9
        {
            return Ok(Some(Claim { generation: 9, ..claim.clone() }));
        }
        Ok(found)
    }

    async fn put_claim(&self, claim: &Claim) -> PortResult<CasOutcome<Claim>> {
        self.inner.put_claim(claim).await
    }

    async fn list(&self) -> PortResult<Vec<RunId>> {
        self.inner.list().await
    }

    fn sidecar_location(&self, run_id: &RunId) -> String {
        self.inner.sidecar_location(run_id)
    }
}

#[test]
fn a_broken_run_store_is_found() {
    for (fault, contract) in [
        (StoreFault::ChecksThenWrites, "the_same_revision_again_is_already_applied"),
        (StoreFault::LocksTwice, "the_lock_has_one_holder_until_it_is_dropped"),
        (StoreFault::ForgetsRelease, "the_lock_has_one_holder_until_it_is_dropped"),
        (StoreFault::SortsClaimsAsText, "a_successor_takes_the_next_generation"),
        (StoreFault::LoadsInItsOwnOrder, "several_runs_are_loaded_in_the_order_asked_for"),
    ] {
        let build = || async {
            let store: Arc<dyn RunStore> =
                Arc::new(BrokenStore { inner: World::new(1).process().ports().runs, fault });
            Ok(Fresh::new(store))
        };
        let failure = block_on(run_store::run_all(build)).unwrap_err();
        assert_eq!(failure.contract, contract, "{failure}");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum DbFault {
    IgnoresTheFence,
    CommitsEarly,
    ForgetsTheEpoch,
    HidesTheSecondSurvey,
}

struct BrokenExecutor {
    inner: Arc<dyn Executor>,
    fault: DbFault,
}

struct BrokenPending {
    inner: Option<Box<dyn PendingEffect>>,
    committed: Option<EffectRecord>,
    facts: EffectFacts,
}

#[async_trait]
impl PendingEffect for BrokenPending {
    fn facts(&self) -> &EffectFacts {
        &self.facts
    }

    async fn finish(mut self: Box<Self>, verdict: Verdict) -> PortResult<Option<EffectRecord>> {
        match self.inner.take() {
            Some(inner) => inner.finish(verdict).await,
            None => Ok(self.committed.take()),
        }
    }
}

#[async_trait]
impl Executor for BrokenExecutor {
    async fn register_source(&self, registration: &SourceRegistration) -> PortResult<Registered> {
        self.inner.register_source(registration).await
    }

    async fn take_fence(&self, run_id: &RunId, document_id: &str, holder: Uuid) -> PortResult<Fence> {
        let mut fence = self.inner.take_fence(run_id, document_id, holder).await?;
        if self.fault == DbFault::ForgetsTheEpoch {
            fence.epoch = 1;
        }
        Ok(fence)
    }

    async fn open_ask(&self, fence: &Fence, ask: &AskWrite) -> PortResult<()> {
        self.inner.open_ask(fence, ask).await
    }

    async fn store_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.inner.store_statement(fence, body, signature).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &ExecutorEffect) -> PortResult<Begun> {
        let begun = match (self.fault, self.inner.begin(cx, effect).await) {
            (DbFault::IgnoresTheFence, Err(error)) if error.kind == PortErrorKind::Fenced => {
                let mut newest = cx.clone();
                newest.fence =
                    self.inner.take_fence(&cx.key.run_id, &cx.fence.document_id, cx.fence.holder).await?;
                self.inner.begin(&newest, effect).await?
            }
            (_, other) => other?,
        };
        let Begun::Pending(pending) = begun else { return Ok(begun) };
        let mut facts = pending.facts().clone();
        if self.fault == DbFault::HidesTheSecondSurvey {
            facts.survey_after = facts.survey_before.clone();
        }
        if self.fault == DbFault::CommitsEarly {
            let committed = pending.finish(Verdict::Commit).await?;
            return Ok(Begun::Pending(Box::new(BrokenPending { inner: None, committed, facts })));
        }
        Ok(Begun::Pending(Box::new(BrokenPending { inner: Some(pending), committed: None, facts })))
    }
}

#[test]
fn a_broken_database_is_found() {
    for (fault, contract) in [
        (DbFault::ForgetsTheEpoch, "every_take_raises_the_epoch"),
        (DbFault::IgnoresTheFence, "a_stale_fence_is_refused"),
        (DbFault::CommitsEarly, "nothing_is_visible_before_finish"),
        (DbFault::HidesTheSecondSurvey, "nothing_is_visible_before_finish"),
    ] {
        let build = || async {
            let ports = World::new(1).process().ports();
            Ok(DatabaseUnderTest {
                reader: ports.reader,
                executor: Arc::new(BrokenExecutor { inner: ports.executor, fault }),
                reviewer: ports.reviewer,
                verifier: ports.verifier,
                backup_source: ports.backup_source,
                lose_answer: None,
                keep: None,
            })
        };
        let failure = block_on(database::run_all(build)).unwrap_err();
        assert_eq!(failure.contract, contract, "{failure}");
    }
}
