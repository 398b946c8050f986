//! The run store of the model: revisions, locks, claims, mirrors.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;

use super::world::{Process, World};
use crate::base::cas::CasOutcome;
use crate::base::id::RunId;
use crate::port::run_store::{Claim, LockHolder, RunLock, RunStore, StopRequest, StoredRevision};
use crate::port::{Port, PortError, PortErrorKind, PortResult};

const PORT: Port = Port::RunStore;

#[derive(Default)]
pub(super) struct Runs {
    pub(super) revisions: BTreeMap<RunId, Vec<Vec<u8>>>,
    pub(super) mirrors: BTreeMap<(RunId, String), Vec<u8>>,
    locks: BTreeMap<RunId, Held>,
    pub(super) claims: BTreeMap<String, Vec<Claim>>,
    stop_requests: BTreeMap<RunId, StopRequest>,
    tokens: u64,
}

struct Held {
    life: usize,
    token: u64,
    holder: LockHolder,
}

impl Runs {
    /// What stands in a copy of the store: everything but the locks of living processes.
    pub(super) fn copied(other: &Self) -> Self {
        Self {
            revisions: other.revisions.clone(),
            mirrors: other.mirrors.clone(),
            locks: BTreeMap::new(),
            claims: other.claims.clone(),
            stop_requests: other.stop_requests.clone(),
            tokens: other.tokens,
        }
    }

    /// What an operating system does with the locks of a process that ended.
    pub(super) fn release_all(&mut self, life: usize) {
        self.locks.retain(|_, held| held.life != life);
    }
}

/// The run store port of one process.
pub struct MemoryRunStore(pub(super) Process);

struct MemoryLock {
    world: World,
    run_id: RunId,
    token: u64,
}

impl RunLock for MemoryLock {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let locks = &mut self.world.lock().data.runs.locks;
        if locks.get(&self.run_id).is_some_and(|held| held.token == self.token) {
            locks.remove(&self.run_id);
        }
    }
}

fn error(op: &str, kind: PortErrorKind, message: String) -> PortError {
    PortError::new(PORT, op, kind, message)
}

#[async_trait]
impl RunStore for MemoryRunStore {
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.0.call(PORT, "create", |data| {
            let Some(revisions) = data.runs.revisions.get(run_id) else {
                data.runs.revisions.insert(run_id.clone(), alloc::vec![bytes.to_vec()]);
                return Ok(CasOutcome::Applied);
            };
            if revisions.first().is_some_and(|first| first == bytes) {
                return Ok(CasOutcome::AlreadyApplied);
            }
            Ok(CasOutcome::Conflict { found: revisions.len() as u64 })
        })
    }

    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>> {
        self.0.call(PORT, "load", |data| {
            Ok(data.runs.revisions.get(run_id).and_then(|revisions| {
                let bytes = revisions.last()?.clone();
                Some(StoredRevision { revision: revisions.len() as u64, bytes })
            }))
        })
    }

    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>> {
        self.0.call(PORT, "load_revision", |data| {
            let index = revision.checked_sub(1).and_then(|n| usize::try_from(n).ok());
            let stored = data.runs.revisions.get(run_id).zip(index).and_then(|(all, n)| all.get(n));
            Ok(stored.map(|bytes| StoredRevision { revision, bytes: bytes.clone() }))
        })
    }

    async fn history(&self, run_id: &RunId, last: u64) -> PortResult<Vec<StoredRevision>> {
        self.0.call(PORT, "history", |data| {
            let all = data.runs.revisions.get(run_id).map(Vec::as_slice).unwrap_or_default();
            let upto = all.iter().take(usize::try_from(last).unwrap_or(usize::MAX));
            let of = |(bytes, revision): (&Vec<u8>, u64)| StoredRevision { revision, bytes: bytes.clone() };
            Ok(upto.zip(1..).map(of).collect())
        })
    }

    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.0.call(PORT, "publish", |data| {
            let Some(revisions) = data.runs.revisions.get_mut(run_id) else {
                return Err(error("publish", PortErrorKind::NotFound, format!("there is no run {run_id}")));
            };
            let highest = revisions.len() as u64;
            if highest == expected {
                revisions.push(bytes.to_vec());
                return Ok(CasOutcome::Applied);
            }
            if highest == expected.saturating_add(1) && revisions.last().is_some_and(|last| last == bytes) {
                return Ok(CasOutcome::AlreadyApplied);
            }
            Ok(CasOutcome::Conflict { found: highest })
        })
    }

    async fn mirror(&self, run_id: &RunId, name: &str, bytes: &[u8]) -> PortResult<()> {
        self.0.call(PORT, "mirror", |data| {
            if name.is_empty() || name.contains(['/', '\\', '\0']) || name.starts_with('.') {
                let message = format!("{name:?} is no plain file name");
                return Err(error("mirror", PortErrorKind::Invalid, message));
            }
            data.runs.mirrors.insert((run_id.clone(), name.to_string()), bytes.to_vec());
            Ok(())
        })
    }

    async fn lock(&self, run_id: &RunId, holder: &LockHolder) -> PortResult<Box<dyn RunLock>> {
        let token = self.0.call(PORT, "lock", |data| {
            if let Some(held) = data.runs.locks.get(run_id) {
                let LockHolder { holder, host, pid, since, command } = &held.holder;
                let message = format!(
                    "{run_id} is locked by {holder}, process {pid} on {host} since {since}: {command}"
                );
                return Err(error("lock", PortErrorKind::Busy, message));
            }
            data.runs.tokens += 1;
            let held = Held { life: self.0.life(), token: data.runs.tokens, holder: holder.clone() };
            data.runs.locks.insert(run_id.clone(), held);
            Ok(data.runs.tokens)
        })?;
        Ok(Box::new(MemoryLock { world: self.0.world.clone(), run_id: run_id.clone(), token }))
    }

    async fn lock_holder(&self, run_id: &RunId) -> PortResult<Option<LockHolder>> {
        self.0
            .call(PORT, "lock_holder", |data| Ok(data.runs.locks.get(run_id).map(|held| held.holder.clone())))
    }

    async fn request_stop(&self, run_id: &RunId, request: &StopRequest) -> PortResult<()> {
        self.0.call(PORT, "request_stop", |data| {
            if !data.runs.revisions.contains_key(run_id) {
                return Err(error(
                    "request_stop",
                    PortErrorKind::NotFound,
                    format!("there is no run {run_id}"),
                ));
            }
            data.runs.stop_requests.insert(run_id.clone(), request.clone());
            Ok(())
        })
    }

    async fn stop_request(&self, run_id: &RunId) -> PortResult<Option<StopRequest>> {
        self.0.call(PORT, "stop_request", |data| Ok(data.runs.stop_requests.get(run_id).cloned()))
    }

    async fn latest_claim(&self, document_id: &str) -> PortResult<Option<Claim>> {
        self.0.call(PORT, "latest_claim", |data| {
            Ok(data.runs.claims.get(document_id).and_then(|claims| claims.last()).cloned())
        })
    }

    async fn put_claim(&self, claim: &Claim) -> PortResult<CasOutcome<Claim>> {
        self.0.call(PORT, "put_claim", |data| {
            let claims = data.runs.claims.entry(claim.document_id.clone()).or_default();
            if let Some(found) = claims.iter().find(|c| c.generation == claim.generation) {
                if found == claim {
                    return Ok(CasOutcome::AlreadyApplied);
                }
                return Ok(CasOutcome::Conflict { found: found.clone() });
            }
            let next = claims.len() as u64 + 1;
            if claim.generation != next {
                let message = format!("expected generation {next}, observed {}", claim.generation);
                return Err(error("put_claim", PortErrorKind::Invalid, message));
            }
            claims.push(claim.clone());
            Ok(CasOutcome::Applied)
        })
    }

    async fn list(&self) -> PortResult<Vec<RunId>> {
        self.0.call(PORT, "list", |data| Ok(data.runs.revisions.keys().cloned().collect()))
    }

    fn sidecar_location(&self, run_id: &RunId) -> String {
        format!("memory:runs/{run_id}/state.json")
    }
}

impl World {
    /// The newest revision of a run's sidecar, past the ports and their faults.
    #[must_use]
    pub fn sidecar(&self, run_id: &RunId) -> Option<StoredRevision> {
        let inner = self.lock();
        let revisions = inner.data.runs.revisions.get(run_id)?;
        let bytes = revisions.last()?.clone();
        Some(StoredRevision { revision: revisions.len() as u64, bytes })
    }

    /// A mirrored document of a run's folder.
    #[must_use]
    pub fn mirrored(&self, run_id: &RunId, name: &str) -> Option<Vec<u8>> {
        self.lock().data.runs.mirrors.get(&(run_id.clone(), name.to_string())).cloned()
    }

    /// All runs.
    #[must_use]
    pub fn runs(&self) -> Vec<RunId> {
        self.lock().data.runs.revisions.keys().cloned().collect()
    }
}
