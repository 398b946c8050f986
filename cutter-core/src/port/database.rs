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
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::PortResult;
use super::statement::{StatementSignature, StoredStatement};
use crate::digest::Digest;
use crate::id::RunId;
use crate::policy::PolicyRecord;
use crate::vocabulary::Vocabulary;

pub use super::ask::*;
pub use super::effect::*;
pub use super::evidence::*;

/// Who drives a run now. Taken once per driver process, and after every reconnect and unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The run.
    pub run_id: RunId,
    /// The document that the run cuts.
    pub document_id: String,
    /// Rises by one with every take.
    pub epoch: i64,
    /// Random per driver process.
    pub holder: Uuid,
}

/// The stored source of a document and its newest version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFacts {
    /// Row id of the document.
    pub source_document_id: Uuid,
    /// The document's own id, which is also its address prefix.
    pub document_id: String,
    /// The newest version, if any was registered.
    pub latest: Option<SourceVersionFacts>,
}

/// One registered version of a source document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceVersionFacts {
    /// Row id of the version.
    pub source_version_id: Uuid,
    /// 1, 2, … per document.
    pub version_no: i32,
    /// sha256 of the text's bytes.
    pub sha256: Digest,
    /// Length of the text in bytes.
    pub bytes: u64,
    /// A manifest digest pinned when the version was registered, if one was.
    pub manifest_digest: Option<Digest>,
}

/// A source text to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRegistration {
    /// The document's id.
    pub document_id: String,
    /// A title for people.
    pub title: String,
    /// Row id to use if the document is new.
    pub source_document_id: Uuid,
    /// Row id to use if the version is new.
    pub source_version_id: Uuid,
    /// The text, byte for byte.
    pub content: Vec<u8>,
    /// sha256 of `content`; an implementation refuses a mismatch.
    pub sha256: Digest,
    /// Pin the manifest digest, if the caller knows it.
    pub manifest_digest: Option<Digest>,
    /// Who registers it.
    pub actor: String,
}

/// What [`Executor::register_source`] did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// The stored source as it stands now.
    pub source: SourceFacts,
    /// The newest version had these bytes already: nothing was written.
    pub already: bool,
}

/// What a drift survey looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyScope {
    /// The run that asks.
    pub run_id: RunId,
    /// Its document.
    pub document_id: String,
    /// Its backlog entry, once MARK made one.
    pub entry_id: Option<Uuid>,
    /// Its lifecycle review decision, once SG_2 asked for one.
    pub review_decision_id: Option<Uuid>,
}

/// Live values by dimension (the names are the constants in [`crate::drift`]), each as
/// canonical text. Two surveys are equal exactly if nothing that matters moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Survey(pub BTreeMap<String, String>);

/// One privilege or setting that the grant probe looked at, with what it saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantFact {
    /// Stable name, say `cutter_exec:EXECUTE:iu_core.fn_iu_create`.
    pub name: String,
    /// Must it hold, or must it not?
    pub wanted: bool,
    /// Does it hold?
    pub holds: bool,
}

/// Everything that the grant probe observed (IG_grant_probe), ordered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantSnapshot {
    /// Single privileges, wanted and unwanted.
    pub facts: Vec<GrantFact>,
    /// Functions of our schemas that PUBLIC may execute (must be empty).
    pub public_execute: Vec<String>,
    /// Other findings that must be empty: role attributes, memberships, ownership.
    pub violations: Vec<String>,
}

/// What IG_structural_verify counts over the rows of one change set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructuralFacts {
    /// Rows in `information_unit`.
    pub units: u64,
    /// Rows in `unit_version`.
    pub versions: u64,
    /// Rows in `unit_anchor`.
    pub anchors: u64,
    /// Distinct canonical addresses.
    pub distinct_addresses: u64,
    /// sha256 over the addresses in byte order, each followed by `\n`.
    pub addresses_sha: Option<Digest>,
    /// Stored content whose sha256 is not the stored content_hash.
    pub hash_mismatches: u64,
    /// Units by section_type.
    pub section_types: BTreeMap<String, u64>,
    /// Units by unit_kind.
    pub unit_kinds: BTreeMap<String, u64>,
    /// Units whose lifecycle_status is not `draft`.
    pub non_draft: u64,
    /// Units whose parent address is neither the document nor a unit of the change set.
    pub orphans: u64,
    /// sha256 over the stored contents in anchor order.
    pub region_sha: Option<Digest>,
    /// Units whose address is outside the document or under a forbidden prefix.
    pub forbidden: u64,
}

/// Where a unit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Written, but not enacted: it waits, or was refused.
    Draft,
    /// Enacted.
    Enacted,
    /// Voided before it was enacted.
    Voided,
}

impl Lifecycle {
    /// As it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Enacted => "enacted",
            Self::Voided => "voided",
        }
    }
}

impl core::fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::str::FromStr for Lifecycle {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Draft, Self::Enacted, Self::Voided]
            .into_iter()
            .find(|l| l.as_str() == text)
            .ok_or_else(|| alloc::format!("lifecycle status {text:?}: expected draft, enacted or voided"))
    }
}

/// Which cut of a document is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnitScope {
    /// What is in force: the enacted units of the newest version that has any.
    #[default]
    InForce,
    /// The newest version that has units which are not voided, be they drafts.
    Live,
    /// One change set with all of its units, wherever they stand.
    ChangeSet(Uuid),
}

/// Which units to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitQuery {
    /// The document.
    pub document_id: String,
    /// Which cut of it.
    pub scope: UnitScope,
    /// One version (1, 2, …) instead of the newest.
    pub version_no: Option<i32>,
    /// Only this address and what is below it.
    pub under: Option<String>,
    /// Start after this ordinal (paging by key).
    pub after_ordinal: Option<u64>,
    /// At most so many.
    pub limit: u64,
    /// Read the texts too.
    pub with_content: bool,
}

/// One stored unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRow {
    /// Row id.
    pub unit_id: Uuid,
    /// The change set that wrote it.
    pub change_set_id: Uuid,
    /// The source version that it was cut from.
    pub version_no: i32,
    /// Place in document order, from 0.
    pub ordinal: u64,
    /// The full address.
    pub canonical_address: String,
    /// The short address that people quote, where unique.
    pub citation_address: Option<String>,
    /// From the vocabulary `unit_kind`.
    pub unit_kind: String,
    /// From the vocabulary `section_type`.
    pub section_type: String,
    /// `draft`, `enacted` or `voided`.
    pub lifecycle_status: String,
    /// Byte offsets into the source version.
    pub start: u64,
    /// End of the span, exclusive.
    pub end: u64,
    /// sha256 of the unit's bytes.
    pub content_hash: Digest,
    /// sha256 of the bytes after its designator.
    pub body_hash: Digest,
    /// The unit's key (spec 2 §4).
    pub idempotency_key: Digest,
    /// The bytes, if asked for.
    pub content: Option<Vec<u8>>,
}

/// A registered version of a document, with one cut of it. A version that was cut again after a
/// void has a row for each cut, one that was never cut has one row without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionCut {
    /// 1, 2, … per document.
    pub version_no: i32,
    /// Row id of the version.
    pub source_version_id: Uuid,
    /// The cut.
    pub cut: Option<CutState>,
}

/// One cut of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutState {
    /// The change set.
    pub change_set_id: Uuid,
    /// The run that made it.
    pub run_id: RunId,
    /// How many units it announced.
    pub unit_count: u64,
    /// Where its units stand; enacted as soon as one is.
    pub status: Lifecycle,
}

/// What a migration moved of one dimension; `None` where there was, or is, no such dimension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinMove {
    /// The dimension.
    pub dimension: String,
    /// Its value before.
    pub before: Option<String>,
    /// Its value after.
    pub after: Option<String>,
}

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
    /// The statement that a run made when it was closed, with its signatures; `None` if it made none.
    async fn statement(&self, run_id: &RunId) -> PortResult<Option<StoredStatement>>;
    /// The digest of a change set's rows as they are stored ([`crate::rows`]); `None` if there is no
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
    /// signature. The same one again is fine; another one is `Conflict`; one about another text or
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
    /// the ask's own ids, a refusal those of [`crate::key::refusal_id`]. Durable on return; the same again
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
    /// Adds the verifier's signature to the stored statement, under the fence; where one stands, no
    /// write. Refused (`Denied`) where there is no statement, or its own key signed that already.
    /// Durable on return.
    async fn sign_statement(&self, fence: &Fence, signature: &StatementSignature) -> PortResult<()>;
    /// As [`Executor::begin`].
    async fn begin(&self, cx: &EffectContext, effect: &WriteVerifyWrite) -> PortResult<Begun>;
}
