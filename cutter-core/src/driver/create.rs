//! A new run: replay check, claim, first sidecar.
//!
//! Order matters. The document's claim is looked at before the database is (spec 2 §5,
//! layer 1). The pending sidecar is durable before the claim names it, so a claim never
//! points at nothing; a pending run whose claim went to another is voided, never deleted.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::run::{Run, begin};
use super::{Caller, DriveError, Driven, Outcome, Ports};
use crate::base::canonical::{Appended, Settled};
use crate::base::cas::CasOutcome;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::backlog::BacklogState;
use crate::machine::run::{GateId, Phase, RunState, Stage};
use crate::machine::stop::Slug;
use crate::port::run_store::{Beginning, Claim, StoredRevision};
use crate::port::{Port, PortError, PortErrorKind};
use crate::record::effect::{EffectKey, EffectName, Verdict, fact};
use crate::record::intent::Intent;
use crate::record::observed::{Lifecycle, UnitQuery, UnitScope};
use crate::record::pin;
use crate::record::settings::RunSettings;
use crate::record::sidecar::{Mode, RECORD_VERSION, SCHEMA_VERSION, Sidecar};
use crate::text::plan::set_digest;

/// What to cut.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The document, as registered.
    pub document_id: String,
    /// Dry run or live.
    pub mode: Mode,
    /// Settings of the run, fixed from here on.
    pub settings: RunSettings,
    /// The id of the run, where a record elsewhere names it already (a cut request does, spec
    /// 5): the run is found under it, or begins under it. `None` mints one.
    pub run_id: Option<RunId>,
}

/// Starts a run and drives it to the first gate, or says that a finished run has done it
/// already.
///
/// # Errors
/// [`DriveError::ReplayConflict`] if another run holds the document; otherwise what kept
/// the run from starting. Once it exists, stops and failures are outcomes.
pub async fn cut(ports: &Ports, caller: &Caller, request: NewRun) -> Result<Driven, DriveError> {
    if let Some(run_id) = &request.run_id
        && ports.runs.load(run_id).await?.is_some()
    {
        return super::resume::resume(ports, caller, run_id, &super::ResumeOptions::default()).await;
    }
    let begun = begin_run(ports, caller, &request).await;
    match (begun, &request.run_id) {
        (Ok(Begin::Run(run)), _) => run.drive().await,
        (Ok(Begin::Done(driven)), _) => Ok(*driven),
        // Another driver began this very run since it was looked for: there is a run to go on with.
        (Err(error), Some(run_id)) if was_begun_meanwhile(&error, run_id) => {
            super::resume::resume(ports, caller, run_id, &super::ResumeOptions::default()).await
        }
        (Err(error), _) => Err(error),
    }
}

/// Whether what kept a run from beginning is the run itself.
fn was_begun_meanwhile(error: &DriveError, run_id: &RunId) -> bool {
    match error {
        // A finished one whose database says otherwise is a finding, and not gone on with.
        DriveError::ReplayConflict { run_id: holder, state, .. } => {
            holder == run_id && !state.starts_with(Stage::CloseoutReported.as_str())
        }
        DriveError::Port(error) => error.port == Port::RunStore && error.kind == PortErrorKind::Conflict,
        _ => false,
    }
}

/// What beginning a run gave.
pub(super) enum Begin<'p> {
    /// It has its document.
    Run(Box<Run<'p>>),
    /// A finished run has done it already.
    Done(Box<Driven>),
}

/// Checks for a replay, writes the first revision and claims the document.
///
/// # Errors
/// As [`cut`].
pub(super) async fn begin_run<'p>(
    ports: &'p Ports,
    caller: &'p Caller,
    request: &NewRun,
) -> Result<Begin<'p>, DriveError> {
    request.settings.check().map_err(DriveError::NotNow)?;
    let generation = match request.mode {
        Mode::Dryrun => 0,
        Mode::Live => match replay_check(ports, &request.document_id).await? {
            Replay::Free(generation) => generation,
            Replay::Done(driven) => return Ok(Begin::Done(driven)),
        },
    };
    let generation = (request.mode == Mode::Live).then_some(generation);
    let mut request = request.clone();
    let head = match request.mode {
        Mode::Live => {
            let chain = super::founded_policy(ports.reader.as_ref(), ports.signatures.as_ref()).await?;
            let policy = chain.now();
            let first = policy.approvers().first().map(|name| (*name).to_owned());
            let first = first.ok_or_else(|| {
                let message =
                    "nobody may approve by the database's policy, so no run would pass its first gate";
                PortError::new(Port::Policy, "approvers", PortErrorKind::Denied, message)
            })?;
            if request.settings.lifecycle_actor.is_empty() {
                request.settings.lifecycle_actor = first;
            }
            chain.head()
        }
        Mode::Dryrun => None,
    };
    let (mut run, has_document) = create(ports, caller, &request, generation, head).await?;
    if !has_document {
        void_unclaimed(&mut run).await?;
        let other = ports.runs.latest_claim(&request.document_id).await?;
        return Err(conflict(ports, &request.document_id, other).await?);
    }
    run.adopting = false;
    Ok(Begin::Run(Box::new(run)))
}

enum Replay {
    /// Nobody holds the document: claim this generation.
    Free(u64),
    /// A finished run has cut this version.
    Done(Box<Driven>),
}

/// Layer 1, then (D6, D7) whether a finished run cut exactly the newest version.
async fn replay_check(ports: &Ports, document_id: &str) -> Result<Replay, DriveError> {
    let Some(claim) = ports.runs.latest_claim(document_id).await? else {
        return Ok(Replay::Free(1));
    };
    let next = claim.generation + 1;
    let sidecar = load(ports, &claim.run_id).await?.0;
    let state = state_of(&sidecar)?;
    match state {
        RunState::Voided { .. } => Ok(Replay::Free(next)),
        RunState::At(Stage::CloseoutReported) => {
            let source = ports.reader.source(document_id).await?;
            let latest = source.and_then(|s| s.latest).map(|v| v.source_version_id);
            if latest.is_none() || latest != sidecar.source_version_id {
                return Ok(Replay::Free(next));
            }
            if layers_agree(ports, &sidecar).await? {
                let outcome = Outcome::ReplayedFrom(claim.run_id);
                return Ok(Replay::Done(Box::new(Driven { outcome, sidecar: Box::new(sidecar) })));
            }
            Err(DriveError::ReplayConflict {
                document_id: document_id.to_owned(),
                run_id: claim.run_id,
                state: format!("{state}, but the database does not hold what its sidecar says"),
            })
        }
        _ => Err(conflict(ports, document_id, Some(claim)).await?),
    }
}

/// Layers 2 and 3: the database holds this run's leg A and enactment, under its decision, and the
/// very rows that were enacted.
async fn layers_agree(ports: &Ports, sidecar: &Sidecar) -> Result<bool, DriveError> {
    let mut digested = None;
    for effect in [EffectName::LegA, EffectName::LegB, EffectName::WriteVerify, EffectName::Enact] {
        let key = EffectKey { run_id: sidecar.run_id.clone(), effect, occurrence: 1 };
        match ports.reader.effect(&key).await? {
            Some(record) if record.verdict == Verdict::Commit => {
                digested = record.facts.values.get(fact::ROWS_DIGEST).cloned().or(digested);
            }
            _ => return Ok(false),
        }
    }
    if !rows_stand(ports, sidecar, digested.as_deref()).await? {
        return Ok(false);
    }
    let evidence = ports.reader.evidence(&sidecar.run_id).await?;
    let decision = sidecar.pin_text(pin::REVIEW_DECISION_ID);
    let recorded = sidecar.sovereign_approvals.iter().any(|a| {
        a.gate == GateId::LifecycleAuthz
            && a.review_decision_id.map(|id| id.to_string()).as_deref() == decision
    });
    Ok(recorded
        && !evidence.voided
        && evidence.entry_status.as_deref() == Some(BacklogState::VerifiedComplete.as_str()))
}

/// Every unit stands enacted as it was: by its status, the digest of the set, and the digest of the
/// rows that enactment recorded, if it did.
async fn rows_stand(ports: &Ports, sidecar: &Sidecar, digested: Option<&str>) -> Result<bool, DriveError> {
    let Ok(change_set_id) = sidecar.pinned(pin::CHANGE_SET_ID) else { return Ok(false) };
    let query = UnitQuery {
        document_id: sidecar.document_id.clone(),
        scope: UnitScope::ChangeSet(change_set_id),
        limit: u64::from(u32::MAX),
        ..UnitQuery::default()
    };
    let units = ports.reader.units(&query).await?;
    let set = set_digest(units.iter().map(|u| (u.canonical_address.as_str(), &u.content_hash)));
    let pinned = sidecar.pin_text(pin::UNIT_SET_DIGEST);
    let is_enacted = units.iter().all(|u| u.lifecycle_status == Lifecycle::Enacted.as_str());
    if !is_enacted || pinned != Some(set.to_hex().as_str()) {
        return Ok(false);
    }
    let stored = ports.reader.rows_digest(change_set_id).await?.map(|digest| digest.to_hex());
    Ok(digested.is_none_or(|digested| stored.as_deref() == Some(digested)))
}

async fn conflict(ports: &Ports, document_id: &str, claim: Option<Claim>) -> Result<DriveError, DriveError> {
    let Some(claim) = claim else {
        return Ok(DriveError::Internal("a claim was refused, but there is none".to_owned()));
    };
    let state = load(ports, &claim.run_id).await?.0.state;
    Ok(DriveError::ReplayConflict { document_id: document_id.to_owned(), run_id: claim.run_id, state })
}

/// Loads and validates a sidecar with its revision.
pub(super) async fn load(ports: &Ports, run_id: &RunId) -> Result<(Sidecar, u64), DriveError> {
    let Some(stored) = ports.runs.load(run_id).await? else {
        return Err(DriveError::NotFound { run_id: run_id.clone() });
    };
    validated(run_id, &stored)
}

/// A sidecar from its stored bytes, and its revision.
pub(super) fn validated(run_id: &RunId, stored: &StoredRevision) -> Result<(Sidecar, u64), DriveError> {
    let broken = |error| DriveError::Sidecar { run_id: run_id.clone(), error };
    let sidecar = Sidecar::from_bytes(&stored.bytes).map_err(broken)?;
    if sidecar.run_id != *run_id || sidecar.revision != stored.revision {
        let text = format!(
            "run_id and revision: expected {run_id} revision {}, observed {} revision {}",
            stored.revision, sidecar.run_id, sidecar.revision
        );
        return Err(broken(crate::record::sidecar::SidecarError::Invalid(text)));
    }
    Ok((sidecar, stored.revision))
}

pub(super) fn state_of(sidecar: &Sidecar) -> Result<RunState, DriveError> {
    let error = |error| DriveError::Sidecar { run_id: sidecar.run_id.clone(), error };
    sidecar.run_state().map_err(error)
}

/// Writes revision 1 (state pending, creation record signed, first intent chosen), locks it and
/// claims the document; `false` if another run has that.
async fn create<'p>(
    ports: &'p Ports,
    caller: &'p Caller,
    request: &NewRun,
    generation: Option<u64>,
    policy_head: Option<Digest>,
) -> Result<(Run<'p>, bool), DriveError> {
    let now = ports.clock.now();
    let run_id = match &request.run_id {
        Some(run_id) => run_id.clone(),
        None => {
            let uuid = ports.ids.uuid_v7(now, &format!("{}/run", request.document_id));
            RunId::new(now, uuid).map_err(|e| DriveError::Internal(e.to_string()))?
        }
    };
    let settings = Settled::new(request.settings.clone()).map_err(|e| DriveError::Internal(e.to_string()))?;
    let settings_sha = Digest::of(settings.text().as_bytes());
    let text = creation_text(&run_id, request, caller, now, &settings_sha, policy_head);
    let creation = Settled::new(ports.signer.sign_creation(&text).await?);
    let creation = creation.map_err(|e| DriveError::Internal(e.to_string()))?;
    let mut sidecar = Sidecar {
        schema_version: SCHEMA_VERSION,
        record_version: RECORD_VERSION,
        run_id: run_id.clone(),
        created_utc: now,
        created_by: caller.actor.clone(),
        document_id: request.document_id.clone(),
        source_document_id: None,
        source_version_id: None,
        mode: request.mode,
        state: String::new(),
        kept_stage: None,
        phases: BTreeMap::new(),
        sovereign_approvals: Vec::new(),
        idempotency_keys: BTreeMap::new(),
        context_pins: BTreeMap::new(),
        last_error: None,
        revision: 1,
        status: None,
        creation,
        settings,
        drift_pins: crate::record::observed::Survey::default(),
        intent: None,
        outbox: None,
        ask: None,
        backup: None,
        kb_folder: None,
        documents: Appended::new(),
        considered: Vec::new(),
        stops: Vec::new(),
        transitions: Appended::new(),
        active_ms: 0,
        granted_minutes: 0,
        digest: Digest::from_bytes([0; 32]),
    };
    if let Some(head) = policy_head {
        sidecar.drift_pins.0.insert(crate::gate::drift::POLICY.to_owned(), head.to_hex());
    }
    sidecar.transition(&RunState::NEW, "create", &caller.actor, now);
    let first = Intent::choose(
        &run_id,
        Phase::SourcePin.as_str(),
        1,
        &[],
        false,
        ports.clock.as_ref(),
        ports.ids.as_ref(),
    );
    begin(&mut sidecar, Phase::SourcePin, first);
    let bytes = sidecar.to_bytes().map_err(|error| DriveError::Sidecar { run_id: run_id.clone(), error })?;
    // What is not there cannot be locked. Until it is, nobody knows of the run but by looking
    // for it, and whoever then takes the lock first only sweeps it: it holds no claim.
    let claim = generation.map(|generation| Claim {
        document_id: request.document_id.clone(),
        generation,
        run_id: run_id.clone(),
    });
    let beginning =
        Beginning { run_id: &run_id, bytes: &bytes, holder: &caller.holder, claim: claim.as_ref() };
    let begun = ports.runs.begin(&beginning).await?;
    match (begun.created, begun.lock) {
        (CasOutcome::Applied | CasOutcome::AlreadyApplied, Some(lock)) => {
            let has_document = !matches!(begun.claimed, Some(CasOutcome::Conflict { .. }));
            Ok((Run::new(ports, caller, sidecar, 1, lock), has_document))
        }
        _ => Err(DriveError::Port(PortError::new(
            Port::RunStore,
            "create",
            PortErrorKind::Conflict,
            format!("run {run_id} exists already with another first revision"),
        ))),
    }
}

/// What the operator signs: one `key: value` line each, nothing else.
fn creation_text(
    run_id: &RunId,
    request: &NewRun,
    caller: &Caller,
    now: jiff::Timestamp,
    settings: &Digest,
    policy_head: Option<Digest>,
) -> String {
    let mode = match request.mode {
        Mode::Dryrun => "dryrun",
        Mode::Live => "live",
    };
    let head = policy_head.map(|head| format!("policy_head: {head}\n")).unwrap_or_default();
    format!(
        "record: run creation\nrun_id: {run_id}\ndocument_id: {}\nmode: {mode}\ncreated_by: {}\n\
         created_utc: {now}\nsettings_sha256: {settings}\n{head}",
        request.document_id, caller.actor
    )
}

/// Claims the document for this run. `false` if another run has it: this one is voided.
pub(super) async fn claim(run: &mut Run<'_>, generation: u64) -> Result<bool, DriveError> {
    let claim = Claim {
        document_id: run.sidecar.document_id.clone(),
        generation,
        run_id: run.sidecar.run_id.clone(),
    };
    match run.ports.runs.put_claim(&claim).await? {
        CasOutcome::Applied | CasOutcome::AlreadyApplied => Ok(true),
        CasOutcome::Conflict { .. } => {
            void_unclaimed(run).await?;
            Ok(false)
        }
    }
}

/// A pending run that never got its document: swept, with its record kept.
pub(super) async fn void_unclaimed(run: &mut Run<'_>) -> Result<(), DriveError> {
    let bug = |text: String| DriveError::Internal(text);
    let reason = Slug::from_words("unclaimed").map_err(|e| bug(e.to_string()))?;
    let to = state_of(&run.sidecar)?.void(reason).map_err(|e| bug(e.to_string()))?;
    let now = run.ports.clock.now();
    let actor = run.caller.actor.clone();
    run.sidecar.transition(&to, "void", &actor, now);
    run.sidecar.intent = None;
    run.persist().await.map_err(|halt| run.unrecorded(halt))
}
