//! The backlog port: whoever lists, shows, sweeps, reviews and audits outside of a run.
//!
//! To ensure correctness, an implementation holds to these rules:
//!
//! 1. What is asked for is judged as [`crate::record::backlog::judge`] judges it. A move that the table
//!    does not have, or a rule that does not hold, is `Conflict`; its message has the rule's id
//!    or the table's own sentence in it.
//! 2. Every write is one transaction, durable on return, and idempotent: the same call again
//!    gives the same answer and writes nothing. After `OutcomeUnknown`, ask again.
//! 3. Identifiers and times come from the caller; the implementation has no clock of its own.
//! 4. Each operation runs under its principal: the executor sweeps, the reviewer reviews,
//!    requeues and abandons, the observer reads (F-6).
//! 5. Pages are by key: what comes after an id, in order of ids. A page costs what it holds,
//!    however much is stored, but where said otherwise.

use crate::port::Port;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::environment::{Clock, IdSource};
use super::{PortError, PortErrorKind, PortResult};
use crate::base::digest::Digest;
use crate::machine::backlog::BacklogState;
use crate::record::backlog::{Entry, HistoryRow};
use crate::record::effect::ReviewVerdict;

/// The longest page and the longest sweep batch.
pub const MAX_PAGE: u32 = 10_000;

/// Which entries to list, in order of their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BacklogQuery {
    /// Only entries with this status.
    pub status: Option<BacklogState>,
    /// Only entries of this document.
    pub document_id: Option<String>,
    /// Start after this entry.
    pub after: Option<Uuid>,
    /// At most so many, 1 to [`MAX_PAGE`].
    pub limit: u32,
}

/// An entry without its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BacklogRow {
    /// The entry.
    pub entry_id: Uuid,
    /// Its status.
    pub status: BacklogState,
    /// Its document.
    pub document_id: String,
    /// The run that marked it, as stored.
    pub run_id: String,
    /// The manifest that is under review.
    pub manifest_digest: Digest,
    /// How many units the manifest has.
    pub candidate_count: u64,
    /// The failed entry whose escalation this one is.
    pub escalates: Option<Uuid>,
    /// Who marked it.
    pub actor: String,
    /// When it was marked.
    pub at: Timestamp,
}

/// An entry with everything that is stored about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its row.
    pub row: BacklogRow,
    /// Its records; history oldest first.
    pub entry: Entry,
}

/// One sweep pass over one document: one transaction, one row in the sweep log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepBatch {
    /// Id of the pass: the same id again gives what it promoted.
    pub sweep_id: Uuid,
    /// Which document.
    pub document_id: String,
    /// Only entries after this one. A pass that starts at the beginning misses nothing.
    pub after: Option<Uuid>,
    /// At most so many, 1 to [`MAX_PAGE`].
    pub limit: u32,
    /// Who asks.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

/// A decision on an entry, outside of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewRequest {
    /// Which entry.
    pub entry_id: Uuid,
    /// Id of the decision row, if a new one is needed.
    pub decision_id: Uuid,
    /// Id of the history row.
    pub history_id: Uuid,
    /// What was decided. `Approve` needs the signed answer that only a run's gate stores; here it
    /// is refused (`review.consent`) unless an approval stands already.
    pub verdict: ReviewVerdict,
    /// The manifest that the reviewer looked at.
    pub manifest_digest: Digest,
    /// Why.
    pub reason: String,
    /// Who decided.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

impl ReviewRequest {
    /// Digest of what was asked, stored with the decision (`request_sha256`).
    #[must_use]
    pub fn digest(&self) -> Digest {
        let (entry, verdict) = (self.entry_id, self.verdict.as_str());
        let text =
            alloc::format!("{entry}\n{verdict}\n{}\n{}\n{}", self.manifest_digest, self.actor, self.reason);
        Digest::of(text.as_bytes())
    }
}

/// An escalation entry goes back into the queue (D11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequeueRequest {
    /// Which entry.
    pub entry_id: Uuid,
    /// Id of the sweep log's row: a requeue is a pass of one.
    pub sweep_id: Uuid,
    /// Id of the history row.
    pub history_id: Uuid,
    /// Why.
    pub reason: String,
    /// Who asks.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

/// An entry is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonRequest {
    /// Which entry.
    pub entry_id: Uuid,
    /// Id of the history row.
    pub history_id: Uuid,
    /// Why; must say something (`abandon.reason`).
    pub reason: String,
    /// Who asks.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

/// The backlog outside of a run.
#[async_trait]
pub trait Backlog: Send + Sync {
    /// A page of entries. `Invalid` if the limit is out of range.
    async fn list(&self, query: &BacklogQuery) -> PortResult<Vec<BacklogRow>>;
    /// A page of entries with their records, read in one snapshot: what [`crate::record::backlog::audit()`]
    /// takes. The page bounds the memory. `Invalid` as [`Self::list`].
    async fn entries(&self, query: &BacklogQuery) -> PortResult<Vec<Entry>>;
    /// One entry with its records; `None` if there is none.
    async fn show(&self, entry_id: Uuid) -> PortResult<Option<Standing>>;
    /// The moves of one entry, oldest first; `NotFound` if there is no such entry.
    async fn history(&self, entry_id: Uuid) -> PortResult<Vec<HistoryRow>>;
    /// The first document after this one, in byte order, that has something to promote. All calls
    /// of a walk over all documents together read the backlog once.
    async fn promotable(&self, after: Option<&str>) -> PortResult<Option<String>>;
    /// One pass: S0 and S3 go to S1, escalation entries at S0 excepted, in order of their ids.
    /// Gives what was promoted. `NotFound` if the document was never registered, `Conflict` if
    /// the pass is known as one over another document, `Invalid` if the limit is out of range.
    async fn sweep(&self, batch: &SweepBatch) -> PortResult<Vec<Uuid>>;
    /// Stores a decision and moves the entry. Gives the decision that stands: the new one, or the
    /// one that said so before (§5). `NotFound` if there is no such entry.
    async fn review(&self, request: &ReviewRequest) -> PortResult<Uuid>;
    /// Puts an escalation entry into the queue. True if it moved now, false if it waits already.
    async fn requeue(&self, request: &RequeueRequest) -> PortResult<bool>;
    /// Gives an entry up. True if it moved now, false if it was given up before.
    async fn abandon(&self, request: &AbandonRequest) -> PortResult<bool>;
}

/// The name of this port in errors.
pub const PORT: Port = Port::Database;

/// Refuses a page or a batch that is out of range.
///
/// # Errors
/// `Invalid`, naming the range.
pub fn check_limit(op: &str, limit: u32) -> PortResult<()> {
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(());
    }
    let message = alloc::format!("limit: expected 1 to {MAX_PAGE}, observed {limit}");
    Err(PortError::new(PORT, op, PortErrorKind::Invalid, message))
}

/// What a whole sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepTotals {
    /// Documents that were looked at.
    pub documents: u64,
    /// Passes, each one transaction and one row of the log.
    pub passes: u64,
    /// Entries that were promoted.
    pub promoted: u64,
}

/// Sweeps one document or all, batch by batch. Interrupted anywhere, it has promoted whole batches;
/// run again, it promotes what is left. `on_pass` is told of every pass.
///
/// # Errors
/// The port's; what was promoted before stands.
pub async fn sweep_all(
    backlog: &dyn Backlog,
    (clock, ids): (&dyn Clock, &dyn IdSource),
    document_id: Option<&str>,
    limit: u32,
    actor: &str,
    on_pass: &mut (dyn FnMut(&SweepBatch, &[Uuid]) + Send),
) -> PortResult<SweepTotals> {
    check_limit("sweep", limit)?;
    let mut totals = SweepTotals::default();
    let mut next = match document_id {
        Some(id) => Some(String::from(id)),
        None => backlog.promotable(None).await?,
    };
    while let Some(document) = next {
        totals.documents += 1;
        let mut after = None;
        loop {
            let at = clock.now();
            let purpose = alloc::format!("sweep {document} {}", totals.passes);
            let batch = SweepBatch {
                sweep_id: ids.uuid_v7(at, &purpose),
                document_id: document.clone(),
                after,
                limit,
                actor: String::from(actor),
                at,
            };
            let promoted = backlog.sweep(&batch).await?;
            totals.passes += 1;
            totals.promoted += promoted.len() as u64;
            on_pass(&batch, &promoted);
            after = promoted.last().copied();
            if promoted.len() < limit as usize {
                break;
            }
        }
        next = match document_id {
            Some(_) => None,
            None => backlog.promotable(Some(&document)).await?,
        };
    }
    Ok(totals)
}
