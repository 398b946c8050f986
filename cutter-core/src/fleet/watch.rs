//! Whether what parked items wait for has come.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::step::{DOCUMENT_GATE, run_behind, waits_at};
use crate::cut_request::SignalName;
use crate::digest::Digest;
use crate::driver::{Caller, Ports, approval_prefix};
use crate::fleet::job::Job;
use crate::machine::run::GateId;
use crate::machine::work_item::WorkItemState;
use crate::port::cut_request::{Asked, CutRequests, TakeSignals};
use crate::port::work_queue::{Answer, ItemQuery, WorkQueue};
use crate::port::{PortError, PortErrorKind, PortResult};
use crate::queue::{ItemId, WorkItem};
use crate::sidecar::Sidecar;

/// Items looked at in one page, and under one lease of the turn: a page of runs that nobody read yet
/// must be done within it.
const PAGE: u32 = 50;
/// A run in whose folder nothing changed is read again only so often: a person may have driven
/// it on by hand.
const REREAD: u32 = 10;

/// Watches over parked items: each pass looks at all of them, and makes ready whose word came.
///
/// Every worker has one, and the one that has the turn ([`WorkQueue::take_watch`]) looks. Should two
/// look at once, because one lost its turn and does not know yet, nothing is lost: a second word for
/// an item is refused by the queue. What a watch remembers only saves work.
#[derive(Debug)]
pub struct Watch {
    holder: Uuid,
    lease: Duration,
    passes: u32,
    seen: BTreeMap<ItemId, Seen>,
}

/// What the last look at an item found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    gate: String,
    folder: Option<String>,
    /// Of the names of the documents that may answer.
    candidates: Digest,
}

impl Watch {
    /// Nothing seen yet. The lease is how long others wait for this worker if it dies while it has
    /// the turn.
    #[must_use]
    pub const fn new(holder: Uuid, lease: Duration) -> Self {
        Self { holder, lease, passes: 0, seen: BTreeMap::new() }
    }

    /// Takes the turn, or keeps it, where no other worker has it. A watch that rests between its
    /// passes asks at least twice in a lease.
    ///
    /// # Errors
    /// The queue's.
    pub async fn take_turn(&self, queue: &dyn WorkQueue) -> PortResult<bool> {
        queue.take_watch(self.holder, self.lease).await
    }

    /// Leaves the turn to others, for a worker that stops.
    ///
    /// # Errors
    /// The queue's. The turn then lasts until its lease runs out.
    pub async fn leave(&self, queue: &dyn WorkQueue) -> PortResult<()> {
        queue.leave_watch(self.holder).await
    }

    /// One pass over everything that waits for a person or a document. Gives back the items made
    /// ready. Before each page it takes the turn anew; where that is another's by now, it ends.
    ///
    /// # Errors
    /// The queue could not be read; or, after the pass, the first trouble of the surroundings that
    /// kept an item from being looked at: another worker may see what this one cannot, so leave the
    /// turn. An item whose own run or folder does not read is looked at again in the next pass.
    pub async fn pass(
        &mut self,
        ports: &Ports,
        requests: &dyn CutRequests,
        queue: &dyn WorkQueue,
    ) -> PortResult<Vec<ItemId>> {
        self.passes = self.passes.wrapping_add(1);
        let mut ready = Vec::new();
        let mut standing = BTreeSet::new();
        let (mut after, mut trouble) = (None, None);
        while self.take_turn(queue).await? {
            let state = Some(WorkItemState::AwaitingUserConfirmation);
            let query = ItemQuery { state, kind: None, after, limit: PAGE };
            let items = queue.list(&query).await?;
            for item in &items {
                standing.insert(item.item);
                let Some(gate) = item.gate.clone() else { continue };
                match self.has_come(ports, requests, item, &gate).await {
                    Ok(true) => {
                        if let Answer::Applied(_) = queue.ready(item.item, &gate).await? {
                            ready.push(item.item);
                        }
                    }
                    Ok(false) => {}
                    Err(error) if is_of_surroundings(error.kind) => {
                        trouble.get_or_insert(error);
                    }
                    Err(_) => {}
                }
            }
            after = items.last().map(|item| item.item);
            if items.len() < usize::try_from(PAGE).unwrap_or(usize::MAX) {
                self.seen.retain(|item, _| standing.contains(item));
                break;
            }
        }
        trouble.map_or(Ok(ready), Err)
    }

    async fn has_come(
        &mut self,
        ports: &Ports,
        requests: &dyn CutRequests,
        item: &WorkItem,
        gate: &str,
    ) -> PortResult<bool> {
        if let Some(document_id) = gate.strip_prefix(DOCUMENT_GATE) {
            return is_document_free(ports, document_id).await;
        }
        let before = self.seen.get(&item.item).filter(|seen| seen.gate == gate).cloned();
        if let Some(before) = &before
            && !self.passes.wrapping_add(low(item.item)).is_multiple_of(REREAD)
            && candidates(ports, before.folder.as_deref(), gate).await? == before.candidates
        {
            return Ok(false);
        }
        let Some(run_id) = run_behind(ports, requests, item).await? else { return Ok(false) };
        let Some(stored) = ports.runs.load(&run_id).await? else { return Ok(true) };
        let sidecar = Sidecar::from_bytes(&stored.bytes).map_err(|error| {
            PortError::new("run_store", "load", PortErrorKind::Corrupt, format!("{run_id}: {error}"))
        })?;
        if waits_at(&sidecar).is_none_or(|at| at.as_str() != gate) {
            return Ok(true);
        }
        let folder = sidecar.kb_folder.clone();
        let found = candidates(ports, folder.as_deref(), gate).await?;
        let is_new = before.as_ref().is_none_or(|before| before.candidates != found)
            && is_unconsidered(ports, &sidecar, gate).await?;
        self.seen.insert(item.item, Seen { gate: gate.to_owned(), folder, candidates: found });
        Ok(is_new)
    }
}

/// Whether it is the worker's way to its ports that is broken, and not one run.
const fn is_of_surroundings(kind: PortErrorKind) -> bool {
    matches!(kind, PortErrorKind::Unavailable | PortErrorKind::Denied | PortErrorKind::Deadline)
}

fn low(item: ItemId) -> u32 {
    u32::try_from(item.0 % u64::from(REREAD)).unwrap_or(0)
}

async fn names(ports: &Ports, folder: Option<&str>, gate: &str) -> PortResult<Vec<String>> {
    let (Some(folder), Ok(gate)) = (folder, gate.parse::<GateId>()) else { return Ok(Vec::new()) };
    let prefix = approval_prefix(gate);
    let mut paths = ports.kb.list(folder).await?;
    paths.retain(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with(prefix)));
    Ok(paths)
}

async fn candidates(ports: &Ports, folder: Option<&str>, gate: &str) -> PortResult<Digest> {
    Ok(Digest::of(names(ports, folder, gate).await?.join("\n").as_bytes()))
}

/// Whether a document may answer that the run has not looked at yet, or not with these bytes.
async fn is_unconsidered(ports: &Ports, sidecar: &Sidecar, gate: &str) -> PortResult<bool> {
    for path in names(ports, sidecar.kb_folder.as_deref(), gate).await? {
        let Some(document) = ports.kb.read(&path).await? else { continue };
        let was = |considered: &crate::sidecar::Considered| {
            considered.approval_kb_id == path && considered.sha256 == document.sha256
        };
        let is_used = sidecar.sovereign_approvals.iter().any(|a| a.sha256 == Some(document.sha256));
        if !is_used && !sidecar.considered.iter().any(was) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the run that held the document has come to an end that lets it go.
async fn is_document_free(ports: &Ports, document_id: &str) -> PortResult<bool> {
    let Some(claim) = ports.runs.latest_claim(document_id).await? else { return Ok(true) };
    let Some(stored) = ports.runs.load(&claim.run_id).await? else { return Ok(true) };
    let Ok(sidecar) = Sidecar::from_bytes(&stored.bytes) else { return Ok(false) };
    Ok(sidecar.run_state().is_ok_and(|state| state.releases_claim()))
}

/// Turns the signals that ask for a cut or its verification (D35) into items, one each. A signal
/// whose taker died between the two is taken again, and finds its item under the same key.
///
/// # Errors
/// The ports'; what was enqueued stays.
pub async fn enqueue_signals(
    requests: &dyn CutRequests,
    queue: &dyn WorkQueue,
    caller: &Caller,
    now: Timestamp,
    limit: u32,
) -> PortResult<u32> {
    let asked = Asked { actor: caller.actor.clone(), at: now };
    let names = [SignalName::Cut, SignalName::VerifyCut].to_vec();
    let take = TakeSignals { names, stale_before: now, limit, asked };
    let mut count = 0;
    for signal in requests.take_signals(&take).await? {
        let job = Job::Request { cut_request_id: signal.cut_request_id, signal_id: Some(signal.signal_id) };
        let item = job.to_item(None).map_err(|error| {
            PortError::new(
                "work_queue",
                "enqueue",
                PortErrorKind::Invalid,
                alloc::string::ToString::to_string(&error),
            )
        })?;
        queue.enqueue(&[item.actor(signal.enqueued_by.clone())]).await?;
        requests.finish_signal(signal.signal_id, now).await?;
        count += 1;
    }
    Ok(count)
}
