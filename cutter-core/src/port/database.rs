//! The database port, split by principal: a caller gets only the one it may use.
//!
//! | trait | login | may |
//! | --- | --- | --- |
//! | [`Reader`] | `cutter_ro` | observe |
//! | [`Executor`] | `cutter_exec` | register sources, fence, mark, sweep, cut, record, enact, void |
//! | [`Reviewer`] | `cutter_review` | store a human's decision, and nothing else |
//! | [`Verifier`] | `cutter_verify` | store the verdict on what was written |
//!
//! To ensure correctness, an implementation holds to these rules:
//!
//! 1. Every effect runs in one transaction whose first statement asserts the fence
//!    ([`Fence`]); a driver that lost it gets [`PortErrorKind::Fenced`] and writes nothing.
//! 2. `begin` performs the writes and returns what was observed *inside* the open
//!    transaction; nothing is visible to anyone before [`PendingEffect::finish`].
//! 3. The effect's own row (`run_effect`) is part of the same transaction. The same key
//!    with the same payload returns [`Begun::Recorded`]; with another payload it is
//!    [`PortErrorKind::Conflict`].
//! 4. An error after COMMIT was sent is [`PortErrorKind::OutcomeUnknown`]; the caller
//!    takes the fence again (a barrier) and asks [`Reader::effect`].
//!
//! [`PortErrorKind::Fenced`]: super::PortErrorKind::Fenced
//! [`PortErrorKind::Conflict`]: super::PortErrorKind::Conflict
//! [`PortErrorKind::OutcomeUnknown`]: super::PortErrorKind::OutcomeUnknown

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;
use uuid::Uuid;

use super::PortResult;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::vocabulary::Vocabulary;
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

/// The observing principal. It never writes (F-6).
#[async_trait]
pub trait Reader: Send + Sync {
    /// Is the schema the one that this program knows? Fails with `Invalid` (naming both
    /// versions and the command) if it is older or newer.
    async fn check_schema(&self) -> PortResult<()>;
    /// The database's own clock, by which approvals run out: nobody who asks sets it.
    async fn now(&self) -> PortResult<jiff::Timestamp>;
    /// The stored source of a document; `None` if it was never registered.
    async fn source(&self, document_id: &str) -> PortResult<Option<SourceFacts>>;
    /// The bytes of one source version. `NotFound` if there is no such row.
    async fn source_text(&self, source_version_id: Uuid) -> PortResult<Vec<u8>>;
    /// The vocabularies stored in `dot_config` (`vocab.*`).
    async fn vocabulary(&self) -> PortResult<Vocabulary>;
    /// Live values for drift (PROTOCOL §4), read in one snapshot.
    async fn survey(&self, scope: &SurveyScope) -> PortResult<Survey>;
    /// What migrations of the schema moved of the surveyed dimensions, oldest first, so that a run
    /// which pinned the value of before goes on. A database that is never changed under its runs
    /// has none.
    async fn migration_moves(&self) -> PortResult<Vec<PinMove>> {
        Ok(Vec::new())
    }
    /// The policy's events and keys, oldest first, as they are stored: nothing of it is checked.
    async fn policy(&self) -> PortResult<PolicyRecord>;
    /// The grant probe (IG_grant_probe).
    async fn grants(&self) -> PortResult<GrantSnapshot>;
    /// One effect, if it was committed.
    async fn effect(&self, key: &EffectKey) -> PortResult<Option<EffectRecord>>;
    /// Structural counts over a change set (IG_structural_verify).
    async fn structural(
        &self,
        change_set_id: Uuid,
        document_id: &str,
        forbidden_prefixes: &[String],
    ) -> PortResult<StructuralFacts>;
    /// The registered versions of a document with their cuts, oldest first; empty for a document
    /// that was never registered.
    async fn versions(&self, document_id: &str) -> PortResult<Vec<VersionCut>>;
    /// The runs of a document that recorded an enactment, by what they recorded: whatever became of the
    /// rows since. In order of their ids.
    async fn enacted_runs(&self, document_id: &str) -> PortResult<Vec<RunId>>;
    /// Stored units, in document order.
    async fn units(&self, query: &UnitQuery) -> PortResult<Vec<UnitRow>>;
    /// The asks of a run with the answers to each, in order of gate and occurrence; the answers in the
    /// order in which they were stored.
    async fn asks(&self, run_id: &RunId) -> PortResult<Vec<StoredAsk>>;
    /// The asks that a decision may still be stored on, or was and nothing relied on it yet, of those that
    /// were stored since a time of this store's clock; oldest first.
    async fn open_asks(&self, since: Option<jiff::Timestamp>) -> PortResult<Vec<OpenAsk>>;
    /// The rows that a run left, all columns. `None` of a database that does not give them: then
    /// nobody can compare them.
    async fn rows(&self, _run_id: &RunId) -> PortResult<Option<RunRows>> {
        Ok(None)
    }
    /// The statements that are stored under a run, each with all its signatures, oldest first: the one that
    /// it made when it was closed, and what a login stored beside it ([`StoredStatement::that_counts`]).
    async fn statements(&self, run_id: &RunId) -> PortResult<Vec<StoredStatement>>;
    /// The digest of a change set's rows as they are stored ([`crate::record::rows`]); `None` if there is no
    /// such change set.
    async fn rows_digest(&self, change_set_id: Uuid) -> PortResult<Option<Digest>>;
    /// Everything stored about a run.
    async fn evidence(&self, run_id: &RunId) -> PortResult<RunEvidence>;
}

/// What `begin` found.
#[allow(clippy::large_enum_variant)] // one per transaction: boxing the record would buy nothing
pub enum Begun {
    /// This key with this payload was committed before: its record.
    Recorded(EffectRecord),
    /// The writes are done in an open transaction: judge the facts, then finish.
    Pending(Box<dyn PendingEffect>),
}

/// An open transaction with its writes done. Dropping it rolls back.
#[async_trait]
pub trait PendingEffect: Send {
    /// What was observed inside the transaction.
    fn facts(&self) -> &EffectFacts;
    /// Ends the transaction. `Commit` and `CommitFailure` store the effect's row with that
    /// verdict and commit; the record is durable on return. `Rollback` leaves nothing.
    async fn finish(self: Box<Self>, verdict: Verdict) -> PortResult<Option<EffectRecord>>;
}

/// The principal that cuts and enacts.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Registers a source text, or a new version of one. Idempotent by digest: if the
    /// newest version has these bytes, nothing is written. Durable on return.
    async fn register_source(&self, registration: &SourceRegistration) -> PortResult<Registered>;
    /// Takes the fence: inserts the run's row or raises its epoch by one. Waits for, or
    /// ends, the transactions of the former holder, so that whatever is read afterwards is
    /// final (PROTOCOL §3).
    async fn take_fence(&self, run_id: &RunId, document_id: &str, holder: Uuid) -> PortResult<Fence>;
    /// Stores an ask under the fence. The same ask again is fine; another one at the same gate and
    /// occurrence is `Conflict`. Durable on return.
    async fn open_ask(&self, fence: &Fence, ask: &AskWrite) -> PortResult<()>;
    /// Stores the statement of a run whose units are in force, under the fence, with the executor's
    /// signature. The same again is no write; another one stands beside it; one about another text or
    /// other units, or of a run that has nothing in force, is `Denied`. Durable on return.
    async fn store_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()>;
    /// Performs an effect up to, not including, COMMIT. Leg A and enactment are refused (`Denied` or
    /// `Conflict`) where the approval answers no stored ask, or a refusal of that ask is stored that
    /// is not late.
    async fn begin(&self, cx: &EffectContext, effect: &ExecutorEffect) -> PortResult<Begun>;
}

/// The principal that stores a human's decision.
#[async_trait]
pub trait Reviewer: Send + Sync {
    /// Stores valid answers to asks that are on record, each once; durable on return. One that is
    /// stored when its ask has closed is kept as late. Refused (`Denied`) where a document does not
    /// name the ask's nonce and its own decision.
    async fn record_answers(&self, run_id: &RunId, answers: &[AnswerWrite]) -> PortResult<()>;
    /// Carries out a stored answer under the lock of its ask, without a fence: the rows that
    /// [`Self::begin`] writes, its effect's row among them, and the move of the entry. An approval gets
    /// the ask's own ids, a refusal those of [`crate::base::key::refusal_id`]. Durable on return; the same again
    /// writes nothing. Refused (`Denied` or `Conflict`) where the ask is closed, was asked anew or is
    /// decided otherwise, a refusal stands in the way of an approval, the answer is late or names
    /// something else than was asked, or the run is over; `NotFound` where no such answer is stored.
    async fn record_decision(&self, run_id: &RunId, decision: &DecisionWrite) -> PortResult<()>;
    /// As [`Executor::begin`].
    async fn begin(&self, cx: &EffectContext, effect: &ReviewWrite) -> PortResult<Begun>;
}

/// The principal that stores the verdict on what was written (G-VERIFY-SOD).
#[async_trait]
pub trait Verifier: Send + Sync {
    /// Adds the verifier's signature to the stored statement of this digest, under the fence; the same
    /// again is no write, another one stands beside it. Refused (`Denied`) where there is no such statement,
    /// or no other key signed it. Durable on return.
    async fn sign_statement(
        &self,
        fence: &Fence,
        statement: &Digest,
        signature: &StatementSignature,
    ) -> PortResult<()>;
    /// As [`Executor::begin`].
    async fn begin(&self, cx: &EffectContext, effect: &WriteVerifyWrite) -> PortResult<Begun>;
}
