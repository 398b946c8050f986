//! One item, worked on once.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

use crate::driver::{
    self, Caller, DriveError, Driven, NewRun, Outcome, Ports, ResumeOptions, ServeError, serve,
    settle_request,
};
use crate::machine::run::{GateId, RunState, Stage};
use crate::machine::stop::StopClass;
use crate::machine::work_item::WorkItemState;
use crate::operate::fleet::behind::{Known, run_behind, run_of_cut};
use crate::operate::fleet::job::{CutJob, Job};
use crate::port::cut_request::CutRequests;
use crate::port::work_queue::{Answer, WorkQueue};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::queue::{Failure, Token, WorkItem};
use crate::record::settings::RunSettings;
use crate::record::sidecar::{Sidecar, StopRecord};

/// What an item waits for while another run holds its document: this, and the document's id.
pub const DOCUMENT_GATE: &str = "document:";

/// What becomes of an item that was worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// Its work is done.
    Complete,
    /// It waits, for a person's word at this gate or for its document, and costs no worker.
    Await(String),
    /// This attempt failed; the budget or the failure's kind says whether another one follows.
    Fail(Failure),
    /// It was left between two steps: anyone may go on at once.
    HandBack,
}

/// What working on an item came to.
#[derive(Debug)]
pub struct Worked {
    /// What becomes of the item.
    pub disposition: Disposition,
    /// How its run rests, where there is one.
    pub driven: Option<Driven>,
}

/// Does what an item asks for, as far as it gets. `settings` are the deployment's. Safe to
/// repeat at any time by anyone, also while another worker is still at it.
pub async fn work_on(
    ports: &Ports,
    requests: &dyn CutRequests,
    caller: &Caller,
    settings: &RunSettings,
    item: &WorkItem,
) -> Worked {
    let job = match Job::of(item) {
        Some(Ok(job)) => job,
        Some(Err(why)) => return Worked::refused("payload", why),
        None => {
            let why = format!("kind: expected cut, run or request, observed {:?}", item.kind);
            return Worked::refused("kind", why);
        }
    };
    let result = match job {
        Job::Run(run_id) => {
            let driven = driver::resume(ports, caller, &run_id, &ResumeOptions::default()).await;
            followed(ports, requests, caller, driven.map_err(ServeError::from)).await
        }
        Job::Request { cut_request_id, .. } => {
            serve(ports, requests, caller, cut_request_id, settings).await.map(|served| served.driven)
        }
        Job::Cut(cut) => cut_document(ports, caller, settings, &cut, item).await,
    };
    Worked { disposition: disposition(&result), driven: result.ok() }
}

impl Worked {
    fn refused(code: &str, why: String) -> Self {
        Self { disposition: Disposition::Fail(Failure::permanent(format!("item_{code}"), why)), driven: None }
    }
}

/// A run that ended otherwise than at its end is unknown to the request that it belongs to.
async fn followed(
    ports: &Ports,
    requests: &dyn CutRequests,
    caller: &Caller,
    result: Result<Driven, ServeError>,
) -> Result<Driven, ServeError> {
    let driven = result?;
    if matches!(driven.outcome, Outcome::Failed(_) | Outcome::Voided) {
        settle_request(ports, requests, caller, &driven.sidecar.run_id).await?;
    }
    Ok(driven)
}

async fn cut_document(
    ports: &Ports,
    caller: &Caller,
    settings: &RunSettings,
    job: &CutJob,
    item: &WorkItem,
) -> Result<Driven, ServeError> {
    let document_id = job.plan.document_id.clone();
    let (run_id, record) = run_of_cut(ports, item, &Known::new()).await?;
    if record.is_none() {
        let source = ports.reader.source(&document_id).await?;
        let newest = source.and_then(|source| source.latest).map(|version| version.sha256);
        if newest != Some(job.source_sha256) {
            let observed = newest.map_or_else(|| "none".to_owned(), |digest| digest.to_string());
            return Err(ServeError::NotNow(format!(
                "{document_id}: expected {} to be its newest version, observed {observed}",
                job.source_sha256
            )));
        }
    }
    let mut settings = settings.clone();
    job.plan.apply(&mut settings);
    let order = NewRun { document_id, mode: job.mode, settings, run_id: Some(run_id) };
    Ok(driver::cut(ports, caller, order).await?)
}

/// What a run's rest means for its item. A stop that a plain resume gets over is tried again
/// within the budget; one that needs a person's word waits for it.
#[must_use]
pub fn disposition(result: &Result<Driven, ServeError>) -> Disposition {
    match result {
        Ok(driven) => of_outcome(&driven.outcome, &driven.sidecar),
        Err(ServeError::Drive(error)) => of_error(error),
        Err(error @ ServeError::NotFound(_)) => permanent("request_not_found", error),
        Err(error @ ServeError::NotNow(_)) => permanent("not_now", error),
        Err(error @ ServeError::Staged(_)) => permanent("staged", error),
        Err(error @ ServeError::Refused(_)) => permanent("plan_changed", error),
    }
}

fn of_outcome(outcome: &Outcome, sidecar: &Sidecar) -> Disposition {
    match outcome {
        Outcome::Completed | Outcome::DryRunDone | Outcome::ReplayedFrom(_) => Disposition::Complete,
        Outcome::Paused { .. } | Outcome::AwaitsDecision { .. } => match waits_at(sidecar) {
            Some(gate) => Disposition::Await(gate.as_str().to_owned()),
            None => permanent("internal", &format!("paused, but the run is {}", sidecar.state)),
        },
        Outcome::Stopped(stop) => match waits_at(sidecar) {
            Some(gate) => Disposition::Await(gate.as_str().to_owned()),
            None => Disposition::Fail(Failure::transient(code_of(stop), shown(stop))),
        },
        Outcome::Failed(stop) => Disposition::Fail(Failure::permanent("run_failed", shown(stop))),
        Outcome::Voided => {
            let why = format!("run {} is {}", sidecar.run_id, sidecar.state);
            Disposition::Fail(Failure::permanent("run_voided", why))
        }
    }
}

fn of_error(error: &DriveError) -> Disposition {
    match error {
        DriveError::Interrupted { .. } => Disposition::HandBack,
        // What a finished run holds it holds for good.
        DriveError::ReplayConflict { state, .. } if state.starts_with(Stage::CloseoutReported.as_str()) => {
            permanent("replay_conflict", error)
        }
        DriveError::ReplayConflict { document_id, .. } => {
            Disposition::Await(format!("{DOCUMENT_GATE}{document_id}"))
        }
        DriveError::Busy { .. } => transient("run_busy", error),
        DriveError::Fenced { .. } => transient("run_fenced", error),
        DriveError::Port(port) => of_port(port),
        DriveError::NotFound { .. } => permanent("run_not_found", error),
        DriveError::Sidecar { .. } => permanent("run_unreadable", error),
        DriveError::ApprovalInvalid { .. } => permanent("approval_invalid", error),
        DriveError::NotNow(_) => permanent("not_now", error),
        DriveError::Internal(_) => permanent("internal", error),
    }
}

/// Trouble of the surroundings passes; what would be the same the next time does not.
fn of_port(error: &PortError) -> Disposition {
    use PortErrorKind as K;
    if error.port == Port::Policy {
        // No item is at fault where the administrator has founded none yet, or must look.
        return transient(&format!("{}_{}", error.port, word(error.kind)), error);
    }
    match error.kind {
        K::Unavailable | K::OutcomeUnknown | K::Busy | K::Deadline | K::Full | K::Fenced => {
            transient(&format!("{}_{}", error.port, word(error.kind)), error)
        }
        K::Denied | K::Conflict | K::Waits | K::Corrupt | K::NotFound | K::Invalid => {
            permanent(&format!("{}_{}", error.port, word(error.kind)), error)
        }
    }
}

const fn word(kind: PortErrorKind) -> &'static str {
    use PortErrorKind as K;
    match kind {
        K::Unavailable => "unavailable",
        K::Denied => "denied",
        K::Conflict => "conflict",
        K::Waits => "waits",
        K::Corrupt => "corrupt",
        K::OutcomeUnknown => "outcome_unknown",
        K::Fenced => "fenced",
        K::Busy => "busy",
        K::Deadline => "deadline",
        K::Full => "full",
        K::NotFound => "not_found",
        K::Invalid => "invalid",
    }
}

fn transient(code: &str, error: &dyn core::fmt::Display) -> Disposition {
    Disposition::Fail(Failure::transient(code, error.to_string()))
}

fn permanent(code: &str, error: &dyn core::fmt::Display) -> Disposition {
    Disposition::Fail(Failure::permanent(code, error.to_string()))
}

/// A stop's code as a reason code: `STOP_KB_UPLOAD` is `stop_kb_upload`; what follows a colon
/// stands in the detail.
fn code_of(stop: &StopRecord) -> String {
    stop.code.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

fn shown(stop: &StopRecord) -> String {
    format!("{}: {}", stop.code, stop.detail.join("; "))
}

/// Which person's word the run waits for, if it waits for one.
pub(super) fn waits_at(sidecar: &Sidecar) -> Option<GateId> {
    match sidecar.run_state().ok()? {
        RunState::At(_) => sidecar.awaits_word(),
        // drift that a gate decides on: the next attempt asks there
        RunState::Stopped { .. }
            if sidecar.open_stop().is_some_and(|stop| driver::is_for_the_next_gate(sidecar, stop)) =>
        {
            None
        }
        RunState::Stopped { reason, .. } if StopClass::of_suffix(&reason) != StopClass::Operational => {
            Some(GateId::FailureEscalation)
        }
        _ => None,
    }
}

/// Writes what becomes of the item.
///
/// # Errors
/// The queue's. After `OutcomeUnknown` the same call again is right.
pub async fn settle(queue: &dyn WorkQueue, token: &Token, what: &Disposition) -> PortResult<Answer> {
    let one = core::slice::from_ref(token);
    let answers = match what {
        Disposition::Await(gate) => return queue.await_user(token, gate).await,
        Disposition::Fail(failure) => return queue.fail(token, failure).await,
        Disposition::Complete => queue.complete(one).await?,
        Disposition::HandBack => queue.hand_back(one).await?,
    };
    answers.into_iter().next().ok_or_else(|| {
        PortError::new(
            Port::WorkQueue,
            "settle",
            PortErrorKind::Invalid,
            "a queue answered nothing about an item",
        )
    })
}

/// Stops the run of an item that was cancelled, in the name of whoever cancelled it. Nothing
/// to do where no run has begun, or where it rests for good. Safe to repeat.
///
/// # Errors
/// The driver's; a run that another process drives honours the stop at its next step.
pub async fn stop_cancelled(
    ports: &Ports,
    requests: &dyn CutRequests,
    caller: &Caller,
    item: &WorkItem,
) -> Result<Option<Driven>, DriveError> {
    if item.state != WorkItemState::Cancelled {
        return Ok(None);
    }
    let Some(run_id) = run_behind(ports, requests, item).await? else { return Ok(None) };
    let Some(stored) = ports.runs.load(&run_id).await? else { return Ok(None) };
    let unreadable = |error| DriveError::Sidecar { run_id: run_id.clone(), error };
    let sidecar = Sidecar::from_bytes(&stored.bytes).map_err(unreadable)?;
    match sidecar.run_state().map_err(unreadable)? {
        RunState::At(Stage::CloseoutReported)
        | RunState::Stopped { .. }
        | RunState::Failed { .. }
        | RunState::Voided { .. } => return Ok(None),
        RunState::At(_) => {}
    }
    let actor = item.reason.as_ref().and_then(|reason| reason.actor.clone());
    let caller = Caller { actor: actor.unwrap_or_else(|| caller.actor.clone()), ..caller.clone() };
    driver::stop(ports, &caller, &run_id, "cancelled").await.map(Some)
}
