//! Whether what parked items wait for has come.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::behind::{Known, read_ahead, record_behind};
use super::step::{DOCUMENT_GATE, waits_at};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::driver::{Caller, Ports, approval_prefix, is_called};
use crate::machine::run::GateId;
use crate::machine::work_item::WorkItemState;
use crate::operate::fleet::job::Job;
use crate::operate::review::next_since;
use crate::port::cut_request::{Asked, CutRequests, TakeSignals};
use crate::port::work_queue::{Answer, ItemQuery, WorkQueue};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::cut_request::SignalName;
use crate::record::effect::ReviewVerdict;
use crate::record::queue::{ItemId, WorkItem};
use crate::record::sidecar::Sidecar;

/// Items looked at in one page, under one lease of the turn. The records that a page needs are read at
/// once: on a busy machine it is the questions that take long, not the reading.
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
    /// The last item of the pages that an unfinished pass has done.
    left_at: Option<ItemId>,
    seen: BTreeMap<ItemId, Seen>,
    /// What is decided, where another host decides: it wakes a run as an answer does.
    decided: Decided,
    since: Option<Timestamp>,
}

/// By run, the decisions that stand on its open asks.
type Decided = BTreeMap<RunId, Vec<(GateId, u32, ReviewVerdict)>>;

/// What the last look at an item found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    gate: String,
    folder: Option<String>,
    /// Of the names of the documents that may answer.
    candidates: Digest,
    run_id: RunId,
    /// The decisions on its asks.
    decisions: Vec<(GateId, u32, ReviewVerdict)>,
}

impl Watch {
    /// Nothing seen yet. The lease is how long others wait for this worker if it dies while it has
    /// the turn.
    #[must_use]
    pub const fn new(holder: Uuid, lease: Duration) -> Self {
        Self {
            holder,
            lease,
            passes: 0,
            left_at: None,
            seen: BTreeMap::new(),
            decided: BTreeMap::new(),
            since: None,
        }
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
    /// A pass that ends early is gone on with by the next one.
    ///
    /// # Errors
    /// The queue could not be read; or, after the pass, what kept this worker from seeing: another may
    /// see what it cannot, so leave the turn. An item whose own run or folder does not read is looked
    /// at again in the next pass, and is no error.
    pub async fn pass(
        &mut self,
        ports: &Ports,
        requests: &dyn CutRequests,
        queue: &dyn WorkQueue,
    ) -> PortResult<Vec<ItemId>> {
        self.passes = self.passes.wrapping_add(1);
        self.look_for_decisions(ports).await?;
        let mut ready = Vec::new();
        let mut standing = BTreeSet::new();
        let mut sight = Sight::default();
        let mut after = self.left_at;
        let began = after;
        while self.take_turn(queue).await? {
            let state = Some(WorkItemState::AwaitingUserConfirmation);
            let query = ItemQuery { state, kind: None, after, limit: PAGE };
            let items = queue.list(&query).await?;
            standing.extend(items.iter().map(|item| item.item));
            let parked: Vec<(&WorkItem, &str)> =
                items.iter().filter_map(|item| Some((item, item.gate.as_deref()?))).collect();
            let (unsettled, known) = self.unsettled(ports, &parked).await?;
            sight.has_seen |= unsettled.len() < parked.len();
            for (item, gate) in unsettled {
                let has_come = match self.has_come(ports, requests, item, gate, &known).await {
                    Ok(has_come) => has_come,
                    Err(error) => {
                        sight.missed(error);
                        continue;
                    }
                };
                sight.has_seen = true;
                if !has_come {
                    continue;
                }
                match queue.ready(item.item, gate).await {
                    Ok(Answer::Applied(_)) => ready.push(item.item),
                    Ok(_) => {}
                    Err(error) => {
                        // What came was seen, and nobody was told: it must be seen again.
                        self.seen.remove(&item.item);
                        return Err(error);
                    }
                }
            }
            after = items.last().map(|item| item.item);
            self.left_at = after;
            if items.len() < usize::try_from(PAGE).unwrap_or(usize::MAX) {
                self.left_at = None;
                self.seen.retain(|item, _| began.is_some_and(|at| *item <= at) || standing.contains(item));
                break;
            }
        }
        sight.trouble().map_or(Ok(ready), Err)
    }

    fn before(&self, item: &WorkItem, gate: &str) -> Option<&Seen> {
        self.seen.get(&item.item).filter(|seen| seen.gate == gate)
    }

    /// Those of a page of which more must be known than that nothing changed in their folders, with
    /// the records that tell it.
    async fn unsettled<'i>(
        &self,
        ports: &Ports,
        page: &[(&'i WorkItem, &'i str)],
    ) -> PortResult<(Vec<(&'i WorkItem, &'i str)>, Known)> {
        let mut unsettled = Vec::new();
        for &(item, gate) in page {
            let is_settled = match self.before(item, gate) {
                Some(before)
                    if !self.passes.wrapping_add(low(item.item)).is_multiple_of(REREAD)
                        && before.decisions == self.decisions(&before.run_id) =>
                {
                    // What cannot be listed now is asked for again below, and its error judged there.
                    let found = candidates(ports, before.folder.as_deref(), gate).await;
                    found.is_ok_and(|found| found == before.candidates)
                }
                _ => false,
            };
            if !is_settled {
                unsettled.push((item, gate));
            }
        }
        let of_runs =
            |(item, gate): &(&'i WorkItem, &str)| (!gate.starts_with(DOCUMENT_GATE)).then_some(*item);
        let of_runs: Vec<&WorkItem> = unsettled.iter().filter_map(of_runs).collect();
        let known = read_ahead(ports, &of_runs).await?;
        Ok((unsettled, known))
    }

    async fn has_come(
        &mut self,
        ports: &Ports,
        requests: &dyn CutRequests,
        item: &WorkItem,
        gate: &str,
        known: &Known,
    ) -> PortResult<bool> {
        if let Some(document_id) = gate.strip_prefix(DOCUMENT_GATE) {
            let Some(holder) = holder_of(ports, document_id).await? else { return Ok(true) };
            // Its own run has it: there is a run to go on with.
            let own = record_behind(ports, requests, item, known).await?;
            return Ok(own.is_some_and(|(own, _)| own == holder));
        }
        let before = self.before(item, gate).cloned();
        let behind = record_behind(ports, requests, item, known).await?;
        let Some((run_id, record)) = behind else { return Ok(false) };
        let Some(sidecar) = record else { return Ok(true) };
        if waits_at(&sidecar).is_none_or(|at| at.as_str() != gate) {
            return Ok(true);
        }
        let folder = sidecar.kb_folder.clone();
        let found = candidates(ports, folder.as_deref(), gate).await?;
        let decisions = self.decisions(&run_id);
        let is_decided =
            before.as_ref().map_or(!decisions.is_empty(), |before| before.decisions != decisions);
        let is_new = before.as_ref().is_none_or(|before| before.candidates != found)
            && is_unconsidered(ports, &sidecar, gate).await?;
        let gate = gate.to_owned();
        self.seen.insert(item.item, Seen { gate, folder, candidates: found, run_id, decisions });
        Ok(is_new || is_decided)
    }

    /// The decisions on open asks. A worker that stores decisions itself need not look for them.
    async fn look_for_decisions(&mut self, ports: &Ports) -> PortResult<()> {
        if ports.reviewer.is_some() {
            return Ok(());
        }
        let now = ports.reader.now().await?;
        let open = ports.reader.open_asks(self.since).await?;
        self.since = next_since(&open, now);
        self.decided.clear();
        for ask in open {
            if let Some(verdict) = ask.decided {
                self.decided.entry(ask.run_id).or_default().push((ask.gate, ask.occurrence, verdict));
            }
        }
        Ok(())
    }

    fn decisions(&self, run_id: &RunId) -> Vec<(GateId, u32, ReviewVerdict)> {
        self.decided.get(run_id).cloned().unwrap_or_default()
    }
}

/// Whether it is the worker's way to its ports that is broken, and not one run.
#[derive(Default)]
struct Sight {
    has_seen: bool,
    away: Option<PortError>,
    other: Option<PortError>,
}

impl Sight {
    fn missed(&mut self, error: PortError) {
        let place = if is_away(error.kind) { &mut self.away } else { &mut self.other };
        place.get_or_insert(error);
    }

    /// One port that does not answer is trouble; any other error is, if nothing else was seen.
    fn trouble(self) -> Option<PortError> {
        self.away.or(self.other.filter(|_| !self.has_seen))
    }
}

/// Whether a port could not be asked at all.
pub(super) const fn is_away(kind: PortErrorKind) -> bool {
    matches!(kind, PortErrorKind::Unavailable | PortErrorKind::Deadline)
}

fn low(item: ItemId) -> u32 {
    u32::try_from(item.0 % u64::from(REREAD)).unwrap_or(0)
}

async fn names(ports: &Ports, folder: Option<&str>, gate: &str) -> PortResult<Vec<String>> {
    let (Some(folder), Ok(gate)) = (folder, gate.parse::<GateId>()) else { return Ok(Vec::new()) };
    let prefix = approval_prefix(gate);
    let mut paths = ports.kb.list(folder).await?;
    if paths.is_empty() {
        // Its first document made the folder: a base that is not mounted looks like this.
        let message = format!("{folder}: expected the run's documents, observed none");
        return Err(PortError::new(Port::KnowledgeBase, "list", PortErrorKind::Unavailable, message));
    }
    paths.retain(|path| is_called(path, prefix));
    Ok(paths)
}

async fn candidates(ports: &Ports, folder: Option<&str>, gate: &str) -> PortResult<Digest> {
    Ok(Digest::of(names(ports, folder, gate).await?.join("\n").as_bytes()))
}

/// Whether a document may answer that the run has not looked at yet, or not with these bytes.
async fn is_unconsidered(ports: &Ports, sidecar: &Sidecar, gate: &str) -> PortResult<bool> {
    for path in names(ports, sidecar.kb_folder.as_deref(), gate).await? {
        let Some(document) = ports.kb.read(&path).await? else { continue };
        let was = |considered: &crate::record::sidecar::Considered| {
            considered.approval_kb_id == path && considered.sha256 == document.sha256
        };
        let is_used = sidecar.sovereign_approvals.iter().any(|a| a.sha256 == Some(document.sha256));
        if !is_used && !sidecar.considered.iter().any(was) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The run that has the document, if it has not come to an end that lets it go.
async fn holder_of(ports: &Ports, document_id: &str) -> PortResult<Option<RunId>> {
    let Some(claim) = ports.runs.latest_claim(document_id).await? else { return Ok(None) };
    let Some(stored) = ports.runs.load(&claim.run_id).await? else { return Ok(None) };
    let state = Sidecar::from_bytes(&stored.bytes).map(|sidecar| sidecar.run_state());
    let is_free = matches!(state, Ok(Ok(state)) if state.releases_claim());
    Ok((!is_free).then_some(claim.run_id))
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
                Port::WorkQueue,
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
