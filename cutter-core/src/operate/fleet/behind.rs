//! Which run an item stands for, and what that run's record says.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::id::RunId;
use crate::driver::Ports;
use crate::machine::run::RunState;
use crate::operate::fleet::job::{Job, run_of};
use crate::port::cut_request::CutRequests;
use crate::port::run_store::StoredRevision;
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::queue::WorkItem;
use crate::record::sidecar::Sidecar;

use super::watch::is_away;

/// How often an item's run may begin while another run has its document.
const RUNS_MAX: u32 = 1_000;
/// Why such a run is voided.
const UNCLAIMED: &str = "unclaimed";

/// Records that were read already, by run.
pub(super) type Known = BTreeMap<RunId, Option<StoredRevision>>;

/// Reads at once what [`record_behind`] will look at for these items, as far as their runs can be
/// told without asking. Nothing where one of them does not read: each is then asked for alone.
pub(super) async fn read_ahead(ports: &Ports, items: &[&WorkItem]) -> PortResult<Known> {
    let run = |item: &&WorkItem| match Job::of(item) {
        Some(Ok(Job::Run(run_id))) => Some(run_id),
        Some(Ok(Job::Cut(_))) => run_of(item, 0).ok(),
        _ => None,
    };
    let run_ids: Vec<RunId> = items.iter().filter_map(run).collect();
    if run_ids.is_empty() {
        return Ok(Known::new());
    }
    match ports.runs.load_many(&run_ids).await {
        Ok(found) => Ok(run_ids.into_iter().zip(found).collect()),
        Err(error) if is_away(error.kind) => Err(error),
        Err(_) => Ok(Known::new()),
    }
}

/// A run's record, or `None` where there is no such run yet.
async fn record(ports: &Ports, run_id: &RunId, known: &Known) -> PortResult<Option<Sidecar>> {
    let read = |stored: &StoredRevision| {
        Sidecar::from_bytes(&stored.bytes).map_err(|error| {
            PortError::new(Port::RunStore, "load", PortErrorKind::Corrupt, format!("{run_id}: {error}"))
        })
    };
    match known.get(run_id) {
        Some(stored) => stored.as_ref().map(read).transpose(),
        None => ports.runs.load(run_id).await?.as_ref().map(read).transpose(),
    }
}

/// The run that an item stands for, if it can be told, with its record, if it exists.
pub(super) async fn record_behind(
    ports: &Ports,
    requests: &dyn CutRequests,
    item: &WorkItem,
    known: &Known,
) -> PortResult<Option<(RunId, Option<Sidecar>)>> {
    if let Some(Ok(Job::Cut(_))) = Job::of(item) {
        return run_of_cut(ports, item, known).await.map(Some);
    }
    let Some(run_id) = run_behind(ports, requests, item).await? else { return Ok(None) };
    let record = record(ports, &run_id, known).await?;
    Ok(Some((run_id, record)))
}

/// The run of a `cut` item: the first of its runs that was not swept because another run had
/// the document when it began. It need not exist yet.
pub(super) async fn run_of_cut(
    ports: &Ports,
    item: &WorkItem,
    known: &Known,
) -> PortResult<(RunId, Option<Sidecar>)> {
    let invalid = |kind, text: String| PortError::new(Port::WorkQueue, "run of an item", kind, text);
    for nth in 0..RUNS_MAX {
        let run_id = run_of(item, nth).map_err(|e| invalid(PortErrorKind::Invalid, e))?;
        let Some(sidecar) = record(ports, &run_id, known).await? else { return Ok((run_id, None)) };
        match sidecar.run_state() {
            Ok(RunState::Voided { reason }) if reason.as_str() == UNCLAIMED => {}
            _ => return Ok((run_id, Some(sidecar))),
        }
    }
    Err(invalid(
        PortErrorKind::Conflict,
        format!("{RUNS_MAX} runs of item {} never got their document", item.item),
    ))
}

/// The run that an item stands for, if it can be told: it need not exist yet.
///
/// # Errors
/// The ports'.
pub async fn run_behind(
    ports: &Ports,
    requests: &dyn CutRequests,
    item: &WorkItem,
) -> PortResult<Option<RunId>> {
    Ok(match Job::of(item) {
        Some(Ok(Job::Run(run_id))) => Some(run_id),
        Some(Ok(Job::Cut(_))) => Some(run_of_cut(ports, item, &Known::new()).await?.0),
        Some(Ok(Job::Request { cut_request_id, .. })) => {
            requests.get(cut_request_id).await?.and_then(|request| request.run_id())
        }
        _ => None,
    })
}
