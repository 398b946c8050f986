//! The cut request port (spec 5): a request's life below the command line.
//!
//! To ensure correctness, an implementation holds to these rules:
//!
//! 1. Every operation is one transaction: the columns, the staging rows, the transition row and
//!    the signal of a move are there together or not at all.
//! 2. Every operation may be asked for again, with the same ids and the same content, at any time
//!    and in any later status: it then writes nothing and gives what stands. That is what to do
//!    after [`PortErrorKind::OutcomeUnknown`].
//! 3. What [`judge`](crate::record::cut_request::judge) refuses is [`PortErrorKind::Conflict`], with the
//!    judgement's own text: a move that the table does not have, or a rule's name. A request that
//!    is not there is [`PortErrorKind::NotFound`].
//! 4. Leg A, write-verify and void of [`crate::port::database`] move the request that names their
//!    run inside their own transactions. [`CutRequests::catch_up`] is for what a run cannot say
//!    there: that it ended.
//! 5. Times are the caller's, kept in whole microseconds; what is due is judged by the store's own
//!    clock, from when the store was told.
//! 6. A run that a request names marks and cuts what was approved for the request: text, manifest
//!    digest and document. Another one is `Conflict`, in [`CutRequests::start_cut`] if the run has
//!    marked already, else in the run's own transaction (`cut.source_hash`, `cut.manifest_digest`,
//!    `cut.document_id`).
//!
//! [`PortErrorKind::OutcomeUnknown`]: super::PortErrorKind::OutcomeUnknown
//! [`PortErrorKind::Conflict`]: super::PortErrorKind::Conflict
//! [`PortErrorKind::NotFound`]: super::PortErrorKind::NotFound

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::PortResult;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::cut_request::CutRequestStatus;
use crate::record::cut_request::{CutRequest, CutVerdict, SignalName, Transition};
use crate::record::staging::StagingRecord;

/// Who asks, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The person or program, as the timeline shows it.
    pub actor: String,
    /// The clock of whoever asks.
    pub at: Timestamp,
}

/// REQUEST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddRequest {
    /// The new row's id: the key of this operation.
    pub cut_request_id: Uuid,
    /// What is to be cut.
    pub source_ref: String,
    /// What `source_ref` names; see [`crate::record::cut_request::DEFAULT_SOURCE_KIND`].
    pub source_kind: String,
    /// The customer is the actor.
    pub asked: Asked,
}

/// COPY: the bytes, sent by the client (PROTOCOL §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// Which request.
    pub cut_request_id: Uuid,
    /// Id of the staging record, if it is new.
    pub staging_record_id: Uuid,
    /// The source, byte for byte.
    pub content: Vec<u8>,
    /// sha256 of `content`; a mismatch is refused.
    pub sha256: Digest,
    /// Where the client read it.
    pub source_path: Option<String>,
    /// Who and when.
    pub asked: Asked,
}

/// MARK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageMark {
    /// Which request.
    pub cut_request_id: Uuid,
    /// Id of the staging record, if it is new.
    pub staging_record_id: Uuid,
    /// What `cutter plan FILE --document-id ID --json` prints, byte for byte.
    pub manifest: Vec<u8>,
    /// The manifest digest in it.
    pub manifest_digest: Digest,
    /// Who and when.
    pub asked: Asked,
}

/// VERIFY_MARK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyMark {
    /// Which request.
    pub cut_request_id: Uuid,
    /// Approve, or send back.
    pub approve: bool,
    /// The document of the approval; an approval needs one.
    pub approval_doc_id: Option<String>,
    /// Why; a rejection needs one.
    pub reason: Option<String>,
    /// Who and when.
    pub asked: Asked,
}

/// CUT: a governed run begins for the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCut {
    /// Which request.
    pub cut_request_id: Uuid,
    /// The run. Its UUID part becomes `cut_run_id`, the whole of it stands in `metadata` (D33).
    pub run_id: RunId,
    /// Who and when.
    pub asked: Asked,
}

/// What became of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatchUp {
    /// Which request.
    pub cut_request_id: Uuid,
    /// Why the run ended for good: a failed gate, a refusal, a void. `None` while it may go on.
    /// The request moves by what the database itself has of the run; only where that shows no end,
    /// this is recorded, and the run commits nothing more but its void. Never say that a run ended
    /// which can be resumed.
    pub ended: Option<String>,
    /// Who and when.
    pub asked: Asked,
}

/// Any operation that needs the request's id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnRequest {
    /// Which request.
    pub cut_request_id: Uuid,
    /// Who and when.
    pub asked: Asked,
}

/// The answer of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOutcome {
    /// The request as it stands now.
    pub request: CutRequest,
    /// It stood so already: nothing was written.
    pub already: bool,
}

/// The answer of [`CutRequests::apply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyOutcome {
    /// The request as it stands.
    pub request: CutRequest,
    /// Units in the staged manifest.
    pub units: u64,
    /// The signal that is enqueued (in a dry run: would be); `None` where a run has begun already.
    pub signal: Option<SignalName>,
    /// Nothing was written.
    pub is_dry_run: bool,
}

/// The answer of [`CutRequests::verify_cut`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyCutOutcome {
    /// The request as it stands.
    pub request: CutRequest,
    /// The verdict, if the run has one; otherwise the signal is enqueued.
    pub verdict: Option<CutVerdict>,
}

/// Which staged bytes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleanup {
    /// Who asks. What is due is judged by the store's own clock, not by theirs.
    pub asked: Asked,
    /// Only say what would go by this time; nothing goes.
    pub as_of: Option<Timestamp>,
    /// At most so many requests, and so many records of rejected marks, in this pass.
    pub limit: u32,
}

/// What one pass of the cleanup did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanupReport {
    /// The requests whose bytes go, by their due date.
    pub requests: Vec<Uuid>,
    /// Staging records whose bytes go.
    pub records: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// Which requests to list, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestQuery {
    /// Only these.
    pub status: Option<CutRequestStatus>,
    /// Only of this source.
    pub source_ref: Option<String>,
    /// Start after this request (paging by key): its `requested_at` and id.
    pub after: Option<(Timestamp, Uuid)>,
    /// At most so many.
    pub limit: u32,
}

/// Which signals a worker takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeSignals {
    /// Of these names.
    pub names: Vec<SignalName>,
    /// Signals that were taken before this time and not finished are taken again: their taker is
    /// given up.
    pub stale_before: Timestamp,
    /// At most so many: first those that waited longest since they were enqueued or last taken, so
    /// that one whose run rests at a gate starves no other.
    pub limit: u32,
    /// Who takes them, and when.
    pub asked: Asked,
}

/// A signal: ids, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Row id.
    pub signal_id: Uuid,
    /// What is to be done.
    pub name: SignalName,
    /// For which request.
    pub cut_request_id: Uuid,
    /// Who asked for it.
    pub enqueued_by: String,
    /// When.
    pub enqueued_at: Timestamp,
}

/// Requests, their staged bytes, their timeline and their signals.
#[async_trait]
pub trait CutRequests: Send + Sync {
    /// REQUEST. The same id with the same content again is `already`; with another it is
    /// `Conflict` (`add.same_request`).
    async fn add(&self, request: &AddRequest) -> PortResult<RequestOutcome>;
    /// COPY, `requested` → `copied`. The same bytes again are `already`.
    async fn copy(&self, copy: &CopySource) -> PortResult<RequestOutcome>;
    /// MARK, `copied` or `mark_rejected` → `mark_in_progress` → `marked`, in one transaction. The
    /// same manifest digest again is `already`. A manifest that is none is `Invalid`.
    async fn mark(&self, mark: &StageMark) -> PortResult<RequestOutcome>;
    /// VERIFY_MARK, `marked` → `mark_verified` or `mark_rejected`. By the reviewer's login.
    async fn verify_mark(&self, verdict: &VerifyMark) -> PortResult<RequestOutcome>;
    /// Asks for the cut: enqueues the signal `cut` of a request at `mark_verified`, once, and moves
    /// nothing (D35). A dry run says what would be done and writes nothing.
    async fn apply(&self, ask: &OnRequest, is_dry_run: bool) -> PortResult<ApplyOutcome>;
    /// CUT, `mark_verified` → `cut_in_progress`. The same run again is `already`; a run that
    /// another request names is `Conflict` (`cut.run_free`).
    async fn start_cut(&self, start: &StartCut) -> PortResult<RequestOutcome>;
    /// Moves the request to where its run is by what the database has of the run, one legal edge
    /// after the other; then, if the run ended without a verdict, to `cut_failed`.
    async fn catch_up(&self, catch_up: &CatchUp) -> PortResult<RequestOutcome>;
    /// VERIFY_CUT: the verdict that stands, or the signal `verify_cut` is enqueued, once. Moves
    /// nothing. By the verifier's login.
    async fn verify_cut(&self, ask: &OnRequest) -> PortResult<VerifyCutOutcome>;
    /// COMPLETE, `cut_verified` → `completed` → `cleanup_scheduled`, once the run is enacted; the
    /// staged bytes may go fifteen days later.
    async fn complete(&self, ask: &OnRequest) -> PortResult<RequestOutcome>;
    /// One pass: `cleanup_scheduled` → `cleaned` for what is due, and the bytes of rejected marks
    /// whose time is over; or what a pass at another time would take. Records, requests and
    /// transitions stay. Nothing due is no error.
    async fn cleanup(&self, cleanup: &Cleanup) -> PortResult<CleanupReport>;

    /// One request; `None` if there is none.
    async fn get(&self, cut_request_id: Uuid) -> PortResult<Option<CutRequest>>;
    /// The request that names this run (UUID part), if one does.
    async fn of_run(&self, run_id: &RunId) -> PortResult<Option<CutRequest>>;
    /// Requests, newest first: by `requested_at`, then id, both falling.
    async fn list(&self, query: &RequestQuery) -> PortResult<Vec<CutRequest>>;
    /// Every move of a request, oldest first; empty if there is no such request.
    async fn timeline(&self, cut_request_id: Uuid) -> PortResult<Vec<Transition>>;
    /// The staging records of a request, those of rejected marks too, oldest first.
    async fn staging(&self, cut_request_id: Uuid) -> PortResult<Vec<StagingRecord>>;
    /// The bytes of a staging record; `None` if there are none, or not any more.
    async fn staged_bytes(&self, staging_record_id: Uuid) -> PortResult<Option<Vec<u8>>>;

    /// Takes signals: they are the caller's until they are finished, or stale. At least once:
    /// what a signal asks for must bear being asked for twice.
    async fn take_signals(&self, take: &TakeSignals) -> PortResult<Vec<Signal>>;
    /// The signal was seen to. Again, or for one that is over, it does nothing.
    async fn finish_signal(&self, signal_id: Uuid, at: Timestamp) -> PortResult<()>;
}
