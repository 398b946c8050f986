//! A cut request and its governed run (spec 5, D35): from an approved mark to the run, and back.
//!
//! Nothing of a request's text or plan is believed because it is staged: the plan is made again
//! from the staged bytes and compared, and the run walks every gate as any other does. The
//! request's row names the run before the run exists, so a retry finds it, whoever died where:
//!
//! ```text
//!  mark_verified ── plan again, compare ── register the source ── start_cut(run id) ── cut(run id)
//!  cut_in_progress … cut_verified ─────────────────────────────────────────────────── resume
//! ```

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use jiff::Timestamp;
use uuid::Uuid;

use super::create::{NewRun, cut, load, state_of};
use super::resume::{ResumeOptions, resume};
use super::{Caller, DriveError, Driven, Outcome, Ports};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::gate::staged::StagedPlan;
use crate::machine::cut_request::{CUT_REQUEST, CutRequestStatus as S};
use crate::machine::run::{RunState, Stage};
use crate::port::cut_request::{
    Asked, CatchUp, CutRequests, OnRequest, RequestOutcome, Signal, StartCut, TakeSignals,
};
use crate::port::{PortError, PortErrorKind};
use crate::record::check::Check;
use crate::record::cut_request::{CutRequest, RunText, SignalName, same_text};
use crate::record::effect::{EffectKey, EffectName};
use crate::record::observed::SourceRegistration;
use crate::record::pin;
use crate::record::settings::RunSettings;
use crate::record::sidecar::{Mode, Sidecar};

/// What serving a request came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// The request as it stands now.
    pub request: CutRequest,
    /// Its run.
    pub driven: Driven,
}

/// Why a request was not served. It stands where it stood, and may be served again.
#[derive(Debug, Clone, PartialEq)]
pub enum ServeError {
    /// There is no such request.
    NotFound(Uuid),
    /// Its status has no way to a cut, in the words of the table.
    NotNow(String),
    /// What is staged is gone or cannot be read.
    Staged(String),
    /// What is staged does not give the plan that was approved: the checks that do not hold.
    Refused(Vec<Check>),
    /// The run: busy, conflicting, fenced, not to be reached.
    Drive(Box<DriveError>),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(id) => write!(f, "no such cut request: {id}"),
            Self::NotNow(text) | Self::Staged(text) => f.write_str(text),
            Self::Refused(checks) => {
                f.write_str("what is staged is not what was approved")?;
                for c in checks {
                    write!(f, "; {}: expected {}, observed {}", c.invariant, c.expected, c.observed)?;
                }
                Ok(())
            }
            Self::Drive(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ServeError {}

impl From<DriveError> for ServeError {
    fn from(error: DriveError) -> Self {
        Self::Drive(Box::new(error))
    }
}

impl From<PortError> for ServeError {
    fn from(error: PortError) -> Self {
        DriveError::Port(error).into()
    }
}

/// Starts the governed run of a request, or drives the one that it names as far as it gets, and
/// moves the request after it. `settings` are the deployment's; what the mark fixed (profile,
/// dependencies) comes from what is staged. Safe to repeat at any time, by anyone.
///
/// # Errors
/// [`ServeError`]. Stops and failures of the run are outcomes.
pub async fn serve(
    ports: &Ports,
    requests: &dyn CutRequests,
    caller: &Caller,
    cut_request_id: Uuid,
    settings: &RunSettings,
) -> Result<Served, ServeError> {
    let request = requests.get(cut_request_id).await?.ok_or(ServeError::NotFound(cut_request_id))?;
    let served = Serving { ports, requests, caller, settings };
    let run_id = match request.status {
        S::MarkVerified => served.begin(&request).await?,
        S::CutInProgress | S::CutDone | S::CutVerified => request.run_id().ok_or_else(|| {
            let text = format!("request {cut_request_id} is {} but names no run", request.status);
            ServeError::Drive(Box::new(DriveError::Internal(text)))
        })?,
        other => {
            let text = CUT_REQUEST.check(other, S::CutInProgress).err().map(|e| e.to_string());
            return Err(ServeError::NotNow(text.unwrap_or_default()));
        }
    };
    let driven = if ports.runs.load(&run_id).await?.is_some() {
        resume(ports, caller, &run_id, &ResumeOptions::default()).await?
    } else {
        let staged = served.staged(&request).await?;
        let order = NewRun {
            document_id: staged.plan.settings.document_id,
            mode: Mode::Live,
            settings: staged.settings,
            run_id: Some(run_id.clone()),
        };
        cut(ports, caller, order).await?
    };
    let request = served.settle(cut_request_id, &run_id, &driven).await?;
    Ok(Served { request, driven })
}

/// Hands a request's result over (`cut_verified` → `completed`): its run files its last papers
/// first, if whoever drove it died before it had. Without that nobody would take the run up again,
/// for a completed request asks for nothing.
///
/// # Errors
/// [`ServeError`]; a refusal of the port as it words it. The request stands where it stood.
pub async fn hand_over(
    ports: &Ports,
    requests: &dyn CutRequests,
    caller: &Caller,
    cut_request_id: Uuid,
    settings: &RunSettings,
) -> Result<RequestOutcome, ServeError> {
    let request = requests.get(cut_request_id).await?.ok_or(ServeError::NotFound(cut_request_id))?;
    if request.status == S::CutVerified
        && let Some(run_id) = request.run_id()
        && ports.runs.load(&run_id).await?.is_some()
        && let RunState::At(stage) = state_of(&load(ports, &run_id).await?.0)?
        && stage != Stage::CloseoutReported
        && is_enacted(ports, &run_id, stage).await?
    {
        let served = serve(ports, requests, caller, cut_request_id, settings).await?;
        if served.driven.outcome != Outcome::Completed {
            return Err(ServeError::NotNow(format!(
                "run {run_id} is {}: its last papers are not filed yet",
                served.driven.sidecar.state
            )));
        }
    }
    let asked = Asked { actor: caller.actor.clone(), at: ports.clock.now() };
    Ok(requests.complete(&OnRequest { cut_request_id, asked }).await?)
}

/// Whether a run's units are in force: its record says so, or the database, if the run died since.
async fn is_enacted(ports: &Ports, run_id: &RunId, stage: Stage) -> Result<bool, ServeError> {
    let key = EffectKey { run_id: run_id.clone(), effect: EffectName::Enact, occurrence: 1 };
    Ok(stage.is_enacted() || ports.reader.effect(&key).await?.is_some())
}

/// Moves the request that names this run, if one does, to where the run stands. For whoever
/// drove the run by itself.
///
/// # Errors
/// The ports', and [`ServeError::Drive`] where the run's record cannot be read.
pub async fn settle_request(
    ports: &Ports,
    requests: &dyn CutRequests,
    caller: &Caller,
    run_id: &RunId,
) -> Result<Option<CutRequest>, ServeError> {
    let Some(request) = requests.of_run(run_id).await? else { return Ok(None) };
    let (sidecar, _) = load(ports, run_id).await?;
    let ended = ended(&sidecar)?;
    catch_up(requests, caller, request.cut_request_id, ended, ports.clock.now()).await.map(Some)
}

/// One signal that a pass saw to.
#[derive(Debug)]
pub struct Worked {
    /// What was asked.
    pub signal: Signal,
    /// What it came to.
    pub served: Result<Served, ServeError>,
}

/// One pass over the signals that ask for a cut or its verification (D35): each request is
/// served once. A signal ends with its run; until then every pass takes it again, which is how a
/// run goes on after its approval, and after the death of whoever drove it.
///
/// # Errors
/// The signals could not be read. What a single request comes to is in its [`Worked`].
pub async fn work(
    ports: &Ports,
    requests: &dyn CutRequests,
    caller: &Caller,
    settings: &RunSettings,
    limit: u32,
) -> Result<Vec<Worked>, PortError> {
    let now = ports.clock.now();
    let take = TakeSignals {
        names: [SignalName::Cut, SignalName::VerifyCut].to_vec(),
        stale_before: now,
        limit,
        asked: Asked { actor: caller.actor.clone(), at: now },
    };
    let mut worked = Vec::new();
    for signal in requests.take_signals(&take).await? {
        let served = serve(ports, requests, caller, signal.cut_request_id, settings).await;
        let is_over = match &served {
            Ok(served) => matches!(
                served.driven.outcome,
                Outcome::Completed | Outcome::Failed(_) | Outcome::Voided | Outcome::ReplayedFrom(_)
            ),
            Err(ServeError::NotFound(_) | ServeError::NotNow(_)) => true,
            Err(_) => false,
        };
        if is_over {
            requests.finish_signal(signal.signal_id, ports.clock.now()).await?;
        }
        worked.push(Worked { signal, served });
    }
    Ok(worked)
}

struct Serving<'a> {
    ports: &'a Ports,
    requests: &'a dyn CutRequests,
    caller: &'a Caller,
    settings: &'a RunSettings,
}

/// What is staged for a request.
struct Staged {
    copy: Vec<u8>,
    plan: StagedPlan,
    /// The deployment's settings with the plan's own among them.
    settings: RunSettings,
}

impl Serving<'_> {
    async fn staged(&self, request: &CutRequest) -> Result<Staged, ServeError> {
        let copy = self.bytes(request.copy_staging_record_id, "copy").await?;
        let manifest = self.bytes(request.manifest_staging_record_id, "manifest").await?;
        let plan = StagedPlan::from_json(&manifest)
            .map_err(|e| ServeError::Staged(format!("the staged manifest: {e}")))?;
        let mut settings = self.settings.clone();
        plan.settings.apply(&mut settings);
        Ok(Staged { copy, plan, settings })
    }

    async fn bytes(&self, record: Option<Uuid>, what: &str) -> Result<Vec<u8>, ServeError> {
        let missing = || ServeError::Staged(format!("the staged {what} is not there any more"));
        let bytes = self.requests.staged_bytes(record.ok_or_else(missing)?).await?;
        bytes.ok_or_else(missing)
    }

    /// From an approved mark to a run id that the request holds.
    async fn begin(&self, request: &CutRequest) -> Result<RunId, ServeError> {
        let Staged { copy, plan: staged, settings } = self.staged(request).await?;
        settings.check().map_err(ServeError::Staged)?;
        let vocabulary = self.ports.reader.vocabulary().await?;
        let (plan, mut checks) = staged.judge(&copy, &vocabulary, &settings).map_err(ServeError::Staged)?;
        let text = RunText {
            document_id: plan.document_id.as_str().to_owned(),
            source: plan.document.sha256,
            manifest_digest: plan.manifest_digest,
        };
        checks.extend(same_text(request, Some(&staged.settings.document_id), &text));
        checks.retain(|check| !check.ok);
        if !checks.is_empty() {
            return Err(ServeError::Refused(checks));
        }
        let document_id = plan.document_id.as_str().to_owned();
        let now = self.ports.clock.now();
        let run_id = match self.standing(&document_id, &plan.document.sha256, &plan.manifest_digest).await? {
            Some(run_id) => run_id,
            None => {
                let id = request.cut_request_id;
                let ids = |what: &str| self.ports.ids.uuid_v7(now, &format!("{id}/{what}"));
                let registration = SourceRegistration {
                    document_id: document_id.clone(),
                    title: request.source_ref.clone(),
                    source_document_id: ids("document"),
                    source_version_id: ids("version"),
                    content: copy,
                    sha256: plan.document.sha256,
                    manifest_digest: Some(plan.manifest_digest),
                    actor: self.caller.actor.clone(),
                };
                self.ports.executor.register_source(&registration).await?;
                RunId::new(now, ids("run")).map_err(|e| DriveError::Internal(e.to_string()))?
            }
        };
        let start = StartCut {
            cut_request_id: request.cut_request_id,
            run_id,
            asked: Asked { actor: self.caller.actor.clone(), at: now },
        };
        // Whoever lost the race to begin goes on with the run that won it.
        let begun = match self.requests.start_cut(&start).await {
            Err(error) if error.kind == PortErrorKind::Conflict => {
                let now = self.requests.get(request.cut_request_id).await?;
                now.filter(|r| r.status != S::MarkVerified).ok_or(error)?
            }
            begun => begun?.request,
        };
        let lost = || ServeError::NotNow(format!("request {} names no run", request.cut_request_id));
        begun.run_id().ok_or_else(lost)
    }

    /// The finished run that has cut exactly this text by exactly this manifest, if there is one.
    /// A run that holds the document otherwise is a conflict, before anything is written.
    async fn standing(
        &self,
        document_id: &str,
        source: &Digest,
        manifest: &Digest,
    ) -> Result<Option<RunId>, ServeError> {
        let Some(claim) = self.ports.runs.latest_claim(document_id).await? else { return Ok(None) };
        let (sidecar, _) = load(self.ports, &claim.run_id).await?;
        let state = state_of(&sidecar)?;
        let held = |state: String, run_id: RunId| {
            let document_id = document_id.to_owned();
            Err(DriveError::ReplayConflict { document_id, run_id, state }.into())
        };
        match state {
            RunState::Voided { .. } => Ok(None),
            RunState::At(Stage::CloseoutReported) => {
                let pinned = |pin, digest: &Digest| sidecar.pinned(pin).is_ok_and(|pin| pin == *digest);
                match (pinned(pin::SOURCE_SHA256, source), pinned(pin::MANIFEST_DIGEST, manifest)) {
                    (true, true) => Ok(Some(claim.run_id)),
                    (true, false) => held(format!("{state}, of this text by another manifest"), claim.run_id),
                    (false, _) => Ok(None),
                }
            }
            _ => held(state.to_string(), claim.run_id),
        }
    }

    async fn settle(&self, id: Uuid, run_id: &RunId, driven: &Driven) -> Result<CutRequest, ServeError> {
        let ended = match &driven.outcome {
            Outcome::ReplayedFrom(other) if other != run_id => {
                Some(format!("run {other} has cut this version meanwhile; ask for it by a new request"))
            }
            _ => ended(&driven.sidecar)?,
        };
        catch_up(self.requests, self.caller, id, ended, self.ports.clock.now()).await
    }
}

/// Why a run ended for good without going its whole way. A stopped run may go on.
fn ended(sidecar: &Sidecar) -> Result<Option<String>, DriveError> {
    Ok(match state_of(sidecar)? {
        state @ (RunState::Failed { .. } | RunState::Voided { .. }) => Some(state.to_string()),
        RunState::At(_) | RunState::Stopped { .. } => None,
    })
}

async fn catch_up(
    requests: &dyn CutRequests,
    caller: &Caller,
    cut_request_id: Uuid,
    ended: Option<String>,
    at: Timestamp,
) -> Result<CutRequest, ServeError> {
    let asked = Asked { actor: caller.actor.clone(), at };
    let outcome = requests.catch_up(&CatchUp { cut_request_id, ended, asked }).await?;
    Ok(outcome.request)
}
