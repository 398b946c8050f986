//! The database ports of a life that can be struck.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use async_trait::async_trait;
use uuid::Uuid;

use super::life::Life;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::vocabulary::Vocabulary;
use crate::port::database::{Begun, Executor, PendingEffect, Reader, Reviewer, Verifier};
use crate::port::{Port, PortResult};
use crate::record::ask::{AnswerWrite, AskWrite, DecisionWrite, OpenAsk, StoredAsk};
use crate::record::effect::{
    EffectContext, EffectFacts, EffectKey, EffectRecord, ExecutorEffect, ReviewWrite, Verdict,
    WriteVerifyWrite,
};
use crate::record::evidence::{RunEvidence, RunRows};
use crate::record::observed::{
    Fence, GrantSnapshot, PinMove, Registered, SourceFacts, SourceRegistration, StructuralFacts, Survey,
    SurveyScope, UnitQuery, UnitRow, VersionCut,
};
use crate::record::policy::PolicyRecord;
use crate::record::stored_statement::{StatementSignature, StoredStatement};

const PORT: Port = Port::Database;

pub(super) struct Struck<T: ?Sized> {
    pub(super) life: Life,
    pub(super) inner: Arc<T>,
}

#[async_trait]
impl Reader for Struck<dyn Reader> {
    async fn check_schema(&self) -> PortResult<()> {
        self.life.call(PORT, "check_schema", self.inner.check_schema()).await
    }

    async fn now(&self) -> PortResult<jiff::Timestamp> {
        self.life.call(PORT, "now", self.inner.now()).await
    }

    async fn source(&self, document_id: &str) -> PortResult<Option<SourceFacts>> {
        self.life.call(PORT, "source", self.inner.source(document_id)).await
    }

    async fn source_text(&self, source_version_id: Uuid) -> PortResult<Vec<u8>> {
        self.life.call(PORT, "source_text", self.inner.source_text(source_version_id)).await
    }

    async fn vocabulary(&self) -> PortResult<Vocabulary> {
        self.life.call(PORT, "vocabulary", self.inner.vocabulary()).await
    }

    async fn survey(&self, scope: &SurveyScope) -> PortResult<Survey> {
        self.life.call(PORT, "survey", self.inner.survey(scope)).await
    }

    async fn migration_moves(&self) -> PortResult<Vec<PinMove>> {
        self.life.call(PORT, "migration_moves", self.inner.migration_moves()).await
    }

    async fn policy(&self) -> PortResult<PolicyRecord> {
        self.life.call(PORT, "policy", self.inner.policy()).await
    }

    async fn grants(&self) -> PortResult<GrantSnapshot> {
        self.life.call(PORT, "grants", self.inner.grants()).await
    }

    async fn effect(&self, key: &EffectKey) -> PortResult<Option<EffectRecord>> {
        self.life.call(PORT, format!("effect {}", key.effect), self.inner.effect(key)).await
    }

    async fn structural(
        &self,
        change_set_id: Uuid,
        document_id: &str,
        forbidden_prefixes: &[String],
    ) -> PortResult<StructuralFacts> {
        let work = self.inner.structural(change_set_id, document_id, forbidden_prefixes);
        self.life.call(PORT, "structural", work).await
    }

    async fn versions(&self, document_id: &str) -> PortResult<Vec<VersionCut>> {
        self.life.call(PORT, "versions", self.inner.versions(document_id)).await
    }

    async fn units(&self, query: &UnitQuery) -> PortResult<Vec<UnitRow>> {
        self.life.call(PORT, "units", self.inner.units(query)).await
    }

    async fn asks(&self, run_id: &RunId) -> PortResult<Vec<StoredAsk>> {
        self.life.call(PORT, "asks", self.inner.asks(run_id)).await
    }

    async fn open_asks(&self, since: Option<jiff::Timestamp>) -> PortResult<Vec<OpenAsk>> {
        self.life.call(PORT, "open_asks", self.inner.open_asks(since)).await
    }

    async fn rows(&self, run_id: &RunId) -> PortResult<Option<RunRows>> {
        self.life.call(PORT, "rows", self.inner.rows(run_id)).await
    }

    async fn enacted_runs(&self, document_id: &str) -> PortResult<Vec<RunId>> {
        self.life.call(PORT, "enacted_runs", self.inner.enacted_runs(document_id)).await
    }

    async fn statements(&self, run_id: &RunId) -> PortResult<Vec<StoredStatement>> {
        self.life.call(PORT, "statements", self.inner.statements(run_id)).await
    }

    async fn rows_digest(&self, change_set_id: Uuid) -> PortResult<Option<Digest>> {
        self.life.call(PORT, "rows_digest", self.inner.rows_digest(change_set_id)).await
    }

    async fn evidence(&self, run_id: &RunId) -> PortResult<RunEvidence> {
        self.life.call(PORT, "evidence", self.inner.evidence(run_id)).await
    }
}

#[async_trait]
impl Executor for Struck<dyn Executor> {
    async fn store_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.life.call(PORT, "store_statement", self.inner.store_statement(fence, body, signature)).await
    }

    async fn register_source(&self, registration: &SourceRegistration) -> PortResult<Registered> {
        self.life.call(PORT, "register_source", self.inner.register_source(registration)).await
    }

    async fn take_fence(&self, run_id: &RunId, document_id: &str, holder: Uuid) -> PortResult<Fence> {
        self.life.call(PORT, "take_fence", self.inner.take_fence(run_id, document_id, holder)).await
    }

    async fn open_ask(&self, fence: &Fence, ask: &AskWrite) -> PortResult<()> {
        self.life.call(PORT, "open_ask", self.inner.open_ask(fence, ask)).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &ExecutorEffect) -> PortResult<Begun> {
        begun(&self.life, cx, self.inner.begin(cx, effect)).await
    }
}

#[async_trait]
impl Reviewer for Struck<dyn Reviewer> {
    async fn record_answers(&self, run_id: &RunId, answers: &[AnswerWrite]) -> PortResult<()> {
        self.life.call(PORT, "record_answers", self.inner.record_answers(run_id, answers)).await
    }

    async fn record_decision(&self, run_id: &RunId, decision: &DecisionWrite) -> PortResult<()> {
        self.life.call(PORT, "record_decision", self.inner.record_decision(run_id, decision)).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &ReviewWrite) -> PortResult<Begun> {
        begun(&self.life, cx, self.inner.begin(cx, effect)).await
    }
}

#[async_trait]
impl Verifier for Struck<dyn Verifier> {
    async fn sign_statement(
        &self,
        fence: &Fence,
        statement: &Digest,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.life.call(PORT, "sign_statement", self.inner.sign_statement(fence, statement, signature)).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &WriteVerifyWrite) -> PortResult<Begun> {
        begun(&self.life, cx, self.inner.begin(cx, effect)).await
    }
}

/// Opens a transaction through the gate; its end passes through the gate as well.
async fn begun(
    life: &Life,
    cx: &EffectContext,
    work: impl Future<Output = PortResult<Begun>> + Send,
) -> PortResult<Begun> {
    let begun = life.call(PORT, format!("begin {}", cx.key.effect), work).await?;
    Ok(match begun {
        Begun::Recorded(record) => Begun::Recorded(record),
        Begun::Pending(inner) => {
            let op = format!("finish {}", cx.key.effect);
            Begun::Pending(Box::new(StruckPending { life: life.clone(), op, inner }))
        }
    })
}

/// Dropping it rolls back, as it does without a gate: that is how a dead process's
/// transaction ends.
struct StruckPending {
    life: Life,
    op: String,
    inner: Box<dyn PendingEffect>,
}

#[async_trait]
impl PendingEffect for StruckPending {
    fn facts(&self) -> &EffectFacts {
        self.inner.facts()
    }

    async fn finish(self: Box<Self>, verdict: Verdict) -> PortResult<Option<EffectRecord>> {
        let Self { life, op, inner } = *self;
        life.call(PORT, op, inner.finish(verdict)).await
    }
}
