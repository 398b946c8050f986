//! The run store port: sidecar revisions, the run lock, claims, and mirrors.
//!
//! A rename is no compare-and-set; a revision is therefore published under its own
//! number, which fails if that number exists. The highest revision is the truth. The
//! lock saves work; correctness rests on compare-and-set here and on the fence in the
//! database.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::PortResult;
use crate::base::cas::CasOutcome;
use crate::base::id::RunId;

/// A stored revision of a sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRevision {
    /// 1, 2, …
    pub revision: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Who holds a run lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Random per driver process.
    pub holder: Uuid,
    /// Host name.
    pub host: String,
    /// Process id on that host.
    pub pid: u32,
    /// Since when (UTC, RFC 3339).
    pub since: String,
    /// What it does, say `orchestrate resume`.
    pub command: String,
}

/// A claim on a document: which run may cut it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The document.
    pub document_id: String,
    /// 1, 2, …; a successor takes the next, only if the one before released it.
    pub generation: u64,
    /// The run that holds it.
    pub run_id: RunId,
}

/// What a run begins with: see [`RunStore::begin`].
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// Its first revision.
    pub bytes: &'a [u8],
    /// Who drives it from now on.
    pub holder: &'a LockHolder,
    /// The claim on its document; `None` for a run that takes none (a dry run).
    pub claim: Option<&'a Claim>,
}

/// What became of the steps, in their order; `None`: the one before was refused.
pub struct Begun {
    /// Of the first revision.
    pub created: CasOutcome<u64>,
    /// The lock.
    pub lock: Option<Box<dyn RunLock>>,
    /// Of the claim; `None` for a run that takes none, too.
    pub claimed: Option<CasOutcome<Claim>>,
}

/// A person asks a run to stop. Request and effect are two recorded facts: the driver
/// honours it at its next step, and records which request it honoured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// Tells one request from another.
    pub id: Uuid,
    /// A word for the state `stopped_<reason>`: lower-case letters, digits and `_`.
    pub reason: String,
    /// Who asks.
    pub actor: String,
    /// When (UTC, RFC 3339).
    pub at: String,
}

/// A held run lock. Dropping it releases the lock; so does the death of the process.
pub trait RunLock: Send + Sync {
    /// The run that it locks.
    fn run_id(&self) -> &RunId;
}

/// The run store.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Creates a run with revision 1. Durable on return. `Conflict` if the run exists with
    /// other bytes; the same bytes again is `AlreadyApplied`.
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>>;
    /// The highest revision, or `None` if there is no such run.
    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>>;
    /// The highest revisions of several runs, in the order asked for. For whoever looks at many: a
    /// store that is far away reads them at once. One that does not read back fails the whole.
    async fn load_many(&self, run_ids: &[RunId]) -> PortResult<Vec<Option<StoredRevision>>> {
        let mut found = Vec::with_capacity(run_ids.len());
        for run_id in run_ids {
            found.push(self.load(run_id).await?);
        }
        Ok(found)
    }
    /// One older revision, or `None`.
    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>>;
    /// Every revision up to `last`, oldest first. One that is gone is left out.
    async fn history(&self, run_id: &RunId, last: u64) -> PortResult<Vec<StoredRevision>> {
        let mut history = Vec::new();
        for revision in 1..=last {
            history.extend(self.load_revision(run_id, revision).await?);
        }
        Ok(history)
    }
    /// Publishes revision `expected + 1`. `Conflict { found: n }` if the highest is not
    /// `expected` (a newer driver wrote: stop). Durable on return.
    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>>;
    /// As [`Self::publish`], and gives the run lock back: the last save of its holder, who drops the lock
    /// next and saves no more. A store that cannot do both at once only saves; the drop gives it back.
    async fn publish_last(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.publish(run_id, expected, bytes).await
    }
    /// Keeps a copy of a document in the run's folder. Derived, need not be durable.
    async fn mirror(&self, run_id: &RunId, name: &str, bytes: &[u8]) -> PortResult<()>;
    /// Takes the run lock without waiting. `Busy` (its message names the holder) if it is held.
    async fn lock(&self, run_id: &RunId, holder: &LockHolder) -> PortResult<Box<dyn RunLock>>;
    /// Takes the run lock, then reads the highest revision: never the other way round. As [`Self::lock`]
    /// and [`Self::load`], which is what it does unless a store can answer both at once.
    async fn lock_and_load(
        &self,
        run_id: &RunId,
        holder: &LockHolder,
    ) -> PortResult<(Box<dyn RunLock>, Option<StoredRevision>)> {
        let lock = self.lock(run_id, holder).await?;
        let newest = self.load(run_id).await?;
        Ok((lock, newest))
    }
    /// Creates a run, takes its lock and claims its document: [`Self::create`], [`Self::lock`] and
    /// [`Self::put_claim`] in this order, up to the first refusal. They are what it does unless a store
    /// can do all at once.
    async fn begin(&self, beginning: &Beginning<'_>) -> PortResult<Begun> {
        let created = self.create(beginning.run_id, beginning.bytes).await?;
        if matches!(created, CasOutcome::Conflict { .. }) {
            return Ok(Begun { created, lock: None, claimed: None });
        }
        let lock = Some(self.lock(beginning.run_id, beginning.holder).await?);
        let claimed = match beginning.claim {
            Some(claim) => Some(self.put_claim(claim).await?),
            None => None,
        };
        Ok(Begun { created, lock, claimed })
    }
    /// Who holds the lock now, if anyone.
    async fn lock_holder(&self, run_id: &RunId) -> PortResult<Option<LockHolder>>;
    /// Leaves a stop request for whoever drives the run. Needs no lock; durable on return; a
    /// later request replaces an earlier one.
    async fn request_stop(&self, run_id: &RunId, request: &StopRequest) -> PortResult<()>;
    /// The last stop request, honoured or not.
    async fn stop_request(&self, run_id: &RunId) -> PortResult<Option<StopRequest>>;
    /// The newest claim on a document, in time that does not depend on the number of runs.
    async fn latest_claim(&self, document_id: &str) -> PortResult<Option<Claim>>;
    /// Publishes a claim under its generation, whole and durable, for a run that was created: a store
    /// that sees all its runs refuses a stranger's as `NotFound`. `Conflict` shows the claim
    /// that stands there.
    async fn put_claim(&self, claim: &Claim) -> PortResult<CasOutcome<Claim>>;
    /// All runs, in byte order of their ids.
    async fn list(&self) -> PortResult<Vec<RunId>>;
    /// Where a person finds the run's sidecar, say a path.
    fn sidecar_location(&self, run_id: &RunId) -> String;
}
