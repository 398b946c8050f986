//! Stops and failures: recorded in one write, reported when the knowledge base allows.
//!
//! The stop-route report is a function of the sidecar's bytes at the revision that records
//! the stop. Its upload is owed: every later command tries it again, and it never blocks
//! (SG_3, PROTOCOL §2).

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::create::state_of;
use super::resume::open;
use super::run::{Halt, Run, Stopping, bounded, failures};
use super::{Caller, DriveError, Driven, Outcome, Ports};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::limits::SIDECAR_STOPS_MAX_BYTES;
use crate::gate::{self, drift};
use crate::machine::run::{GateId, RunState, Stage, Trigger};
use crate::machine::stop::{Slug, StopClass, StopReason};
use crate::port::environment::Progress;
use crate::port::knowledge_base::CreateOutcome;
use crate::port::run_store::StopRequest;
use crate::port::{Port, PortErrorKind};
use crate::record::approval::{Ask, field, observed_sha256};
use crate::record::check::{Check, GateReport};
use crate::record::effect::{EffectName, ReviewVerdict};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::record::sidecar::{ErrorRecord, Outbox, PhaseResult, Sidecar, StopRecord};
use crate::report::naming::{DocumentName, EscalationKind, utc_date};
use crate::report::{PhaseReport, StopReport, THIS, render_phase, render_stop};

/// The identifiers that are chosen with a stop: for the decision on it, and for a void.
const STOP_IDS: [IdName; 10] = [
    IdName::Effect(EffectName::Sg3Review),
    IdName::Approval,
    IdName::ReviewDecision,
    IdName::ReviewHistory,
    IdName::Effect(EffectName::Sweep),
    IdName::Sweep,
    IdName::SweepHistory,
    IdName::Effect(EffectName::Void),
    IdName::Void,
    IdName::VoidHistory,
];

/// Stops a run in a person's name. If another process drives it, the request is left for
/// that process, which honours it at its next step.
///
/// # Errors
/// Not found; a run that has ended; a reason that is no word.
pub async fn stop(
    ports: &Ports,
    caller: &Caller,
    run_id: &RunId,
    reason: &str,
) -> Result<Driven, DriveError> {
    let word = Slug::from_words(reason).and_then(StopReason::sovereign);
    let reason = word.map_err(|e| DriveError::NotNow(e.to_string()))?;
    let now = ports.clock.now();
    let request = StopRequest {
        id: ports.ids.uuid_v7(now, &format!("{run_id}/stop_request")),
        reason: reason.state_suffix().to_string(),
        actor: caller.actor.clone(),
        at: now.to_string(),
    };
    let mut run = match open(ports, caller, run_id).await {
        Err(DriveError::Busy { run_id, holder }) => {
            ports.runs.request_stop(&run_id, &request).await?;
            return Err(DriveError::NotNow(format!(
                "run {run_id} is driven by {holder}; the stop is requested and will be honoured at its next step"
            )));
        }
        other => other?,
    };
    let state = state_of(&run.sidecar)?;
    if state.stop(&reason).is_err() {
        return Err(DriveError::NotNow(format!("run {run_id} is {state}: there is nothing to stop")));
    }
    ports.runs.request_stop(run_id, &request).await?;
    run.raise_fence().await?;
    let halt = Halt::Stop(Box::new(Stopping {
        detail: vec![format!("{} asked: {}", caller.actor, reason.state_suffix())],
        reason,
        observed: BTreeMap::new(),
        request_id: Some(request.id),
    }));
    let outcome = run.record(halt).await?;
    Ok(run.driven(outcome))
}

/// Records that a bug was caught at the driver's edge (D36).
///
/// # Errors
/// If the run cannot be opened or written.
pub async fn record_internal_error(
    ports: &Ports,
    caller: &Caller,
    run_id: &RunId,
    message: &str,
) -> Result<Driven, DriveError> {
    let mut run = open(ports, caller, run_id).await?;
    let outcome = run.record(Halt::stop(StopReason::Internal, message)).await?;
    Ok(run.driven(outcome))
}

/// Whether a stop is for drift that the next gate decides on: a plain resume takes a new backup and
/// asks there, the request says what changed, and its approval accepts it. Between leg A and leg B, and
/// once the units are in force, no gate follows.
#[must_use]
pub fn is_for_the_next_gate(sidecar: &Sidecar, stop: &StopRecord) -> bool {
    let Ok(RunState::Stopped { at, reason }) = sidecar.run_state() else { return false };
    let drifted = StopReason::Drift(reason.clone()).state_suffix() == reason
        && !stop.observed.is_empty()
        && stop.observed.keys().all(|d| drift::may_be_acknowledged(d));
    drifted && !at.is_enacted()
}

/// What may answer a stop: PROTOCOL §5.
#[must_use]
pub fn stop_kinds(sidecar: &Sidecar, stop: &StopRecord) -> Vec<EscalationKind> {
    let Ok(state) = sidecar.run_state() else { return Vec::new() };
    let mut kinds = Vec::new();
    if let RunState::Stopped { reason, .. } = &state
        && StopClass::of_suffix(reason) == StopClass::Authority
    {
        // What no word can make right (rows or a backup that are gone) is mended, then looked at
        // again; a rejection at SG_1 is final (S4).
        let drifted = !stop.observed.is_empty();
        if is_for_the_next_gate(sidecar, stop) {
            // nothing is signed here: the gate asks
        } else if drifted && stop.observed.keys().all(|d| drift::may_be_acknowledged(d)) {
            kinds.push(EscalationKind::DriftAck);
        } else if !is_rejected(sidecar, stop) {
            kinds.push(EscalationKind::Resume);
        }
    }
    if state.stage().is_some_and(|s| !s.is_enacted()) {
        kinds.push(EscalationKind::Void);
    }
    kinds
}

/// Whether the stop carries out a rejection at SG_1, which is final: the run can only be voided.
#[must_use]
pub fn is_rejected(sidecar: &Sidecar, stop: &StopRecord) -> bool {
    let last = sidecar.sovereign_approvals.iter().rev().find(|a| a.gate == GateId::CutAuthz);
    stop.stage == Stage::AwaitingCutAuthorization.as_str()
        && stop.code == StopReason::Refused.code()
        && last.is_some_and(|a| a.decision == ReviewVerdict::Reject)
}

/// What an SG3 approval of `stop` must say to be one of `kind`.
#[must_use]
pub fn ask_for_stop(sidecar: &Sidecar, stop: &StopRecord, kind: EscalationKind) -> Ask {
    let mut required = BTreeMap::new();
    let mut put = |name: &str, value: String| required.insert(name.to_owned(), value);
    put(field::RUN_ID, sidecar.run_id.to_string());
    put(field::DOCUMENT_ID, sidecar.document_id.clone());
    put(field::STOP, stop.n.to_string());
    put(field::STOP_CODE, stop.code.clone());
    put(field::NONCE, stop.nonce.clone());
    if stop.names_report {
        put(field::REQUEST_SHA256, stop.uploaded.map_or_else(|| THIS.to_owned(), |d| d.to_hex()));
    }
    if kind == EscalationKind::DriftAck {
        put(field::OBSERVED_SHA256, observed_sha256(&stop.observed).to_hex());
    }
    if let Some(change_set) = sidecar.pin_text(pin::CHANGE_SET_ID) {
        put(field::CHANGE_SET_ID, change_set.to_owned());
    }
    let folder = sidecar.kb_folder.clone().unwrap_or_default();
    let date = utc_date(stop.at);
    let name = DocumentName::EscalationApproval { kind, number: stop.n }.file_name(date);
    Ask {
        gate: GateId::FailureEscalation,
        occurrence: stop.n,
        approval_type: kind.purpose().to_string(),
        required,
        expected_actor: None,
        approval_path: format!("{folder}/{name}"),
        request_path: format!("{folder}/{}", stop.name),
    }
}

impl Run<'_> {
    /// Records how the run came to rest. One write; the report follows.
    pub(super) async fn record(&mut self, halt: Halt) -> Result<Outcome, DriveError> {
        let (mut stopping, report) = match halt {
            Halt::Abort(error) => return Err(*error),
            Halt::Fail(report) => {
                let detail = failures(&report);
                let reason = StopReason::GateFailed(report.gate);
                (Stopping { reason, detail, observed: BTreeMap::new(), request_id: None }, Some(report))
            }
            Halt::Stop(stopping) => (*stopping, None),
        };
        let state = state_of(&self.sidecar)?;
        if self.between_legs(&state, &stopping.reason) {
            let change_set = self.sidecar.pin_text(pin::CHANGE_SET_ID).unwrap_or_default().to_owned();
            stopping
                .detail
                .insert(0, format!("{} at {state}, change_set_id {change_set}", stopping.reason.code()));
            stopping.reason = StopReason::BetweenLegAAndLegB;
        }
        if let (StopReason::GateFailed(GateId::Closeout), Some(report)) = (&stopping.reason, &report) {
            // Documents are missing or changed: trouble of the store, which a person mends (D23). Or
            // an own gate refuses: the units are in force, so nothing fails any more (D47).
            let is_ours = |c: &&Check| gate::closeout::INVARIANTS.iter().any(|i| i.id == c.invariant);
            let ours = report.failures().into_iter().any(|c| is_ours(&c));
            stopping.reason = if ours { StopReason::KbConflict } else { StopReason::OwnGate };
        }
        if let Some(stop) = self.same_as_before(&stopping) {
            return Ok(Outcome::Stopped(stop));
        }
        let is_passing = stopping.reason.class() == StopClass::Operational && stopping.request_id.is_none();
        if is_passing && self.size().is_none_or(|bytes| bytes > SIDECAR_STOPS_MAX_BYTES) {
            return Err(self.unrecorded(Halt::Stop(Box::new(stopping))));
        }
        let to = match &stopping.reason {
            StopReason::GateFailed(gate) => state.fail(*gate),
            reason => state.stop(reason),
        };
        // A stop that must not be replaced, or a final state that could not be written.
        let Ok(to) = to else { return Err(self.unrecorded(Halt::Stop(Box::new(stopping)))) };
        self.write_stop(to, stopping, report).await
    }

    /// The open stop, if a resume met the same infrastructure trouble at the same place and
    /// nothing was written since: a loop of resumes leaves one stop, not one each.
    fn same_as_before(&mut self, stopping: &Stopping) -> Option<StopRecord> {
        let stop = self.left.as_ref()?.stops.last()?.clone();
        let here = self.sidecar.run_state().ok()?.stage()?;
        let same = stop.code == stopping.reason.code() && stop.stage == here.as_str();
        if !same || stopping.reason.class() != StopClass::Operational || stopping.request_id.is_some() {
            return None;
        }
        self.sidecar = *self.left.take()?;
        Some(stop)
    }

    /// Before a stop that a person asked for is recorded: a driver that lost the run's lock
    /// but lives on must not commit after it. A database that does not answer does not keep
    /// anyone from stopping.
    pub(super) async fn raise_fence(&mut self) -> Result<(), DriveError> {
        match self.take_fence().await {
            Err(Halt::Abort(error)) => Err(*error),
            _ => Ok(()),
        }
    }

    /// Between leg A and leg B nothing may fail for good (PROTOCOL §2).
    fn between_legs(&self, state: &RunState, reason: &StopReason) -> bool {
        let stage = matches!(state, RunState::At(Stage::CutLegACommitted | Stage::StructuralVerified));
        let kind =
            matches!(reason, StopReason::GateFailed(_) | StopReason::Drift(_) | StopReason::AndEscalate(_));
        stage && kind
    }

    async fn write_stop(
        &mut self,
        to: RunState,
        stopping: Stopping,
        report: Option<Box<GateReport>>,
    ) -> Result<Outcome, DriveError> {
        let failed = matches!(to, RunState::Failed { .. });
        if self.live() && self.sidecar.kb_folder.is_none() {
            // The report names where its answers go, so its folder is chosen with the stop.
            self.sidecar.kb_folder = self.free_folder().await;
        }
        let code = if failed { to.as_text() } else { stopping.reason.code().into_owned() };
        let n = u32::try_from(self.sidecar.stops.len() + 1).unwrap_or(u32::MAX);
        let intent = self.choose("stop", n, &STOP_IDS, true);
        let stop = StopRecord {
            n,
            code: code.clone(),
            reason: stopping.reason.state_suffix().to_string(),
            stage: to.stage().map_or_else(String::new, |s| s.as_str().to_owned()),
            detail: bounded(stopping.detail),
            at: intent.at,
            name: DocumentName::StopReport { number: n }.file_name(utc_date(intent.at)),
            nonce: intent.nonce.unwrap_or_default(),
            revision: self.revision + 1,
            uploaded: None,
            names_report: true,
            ids: intent.ids,
            request_id: stopping.request_id,
            observed: stopping.observed,
            resolved_by: None,
        };
        self.sidecar.last_error =
            Some(ErrorRecord { code: code.clone(), message: stop.detail.join("; "), at: stop.at });
        if let Some(report) = report.filter(|_| failed) {
            self.record_failure(&report);
        }
        let trigger = if failed { Trigger::GateFailed } else { Trigger::Stop };
        let actor = self.caller.actor.clone();
        self.sidecar.transition(&to, trigger.as_str(), &actor, stop.at);
        self.sidecar.stops.push(stop.clone());
        self.persist().await.map_err(|halt| self.unwritten(halt, &stop))?;
        self.ports.observer.progress(&Progress::Stopped { code });
        self.settle_debts().await;
        let stop = self.sidecar.stops.last().cloned().unwrap_or(stop);
        Ok(if failed { Outcome::Failed(stop) } else { Outcome::Stopped(stop) })
    }

    /// The stop could not be recorded: the run stays as it was, and the operator hears both.
    fn unwritten(&self, halt: Halt, stop: &StopRecord) -> DriveError {
        match halt {
            Halt::Abort(error) => *error,
            other => {
                let error = self.unrecorded(other);
                let message =
                    format!("{} ({}) could not be recorded: {error}", stop.code, stop.detail.join("; "));
                DriveError::Port(crate::port::PortError::new(
                    Port::RunStore,
                    "publish",
                    if stop.code == StopReason::DiskFull.code() {
                        PortErrorKind::Full
                    } else {
                        PortErrorKind::Unavailable
                    },
                    message,
                ))
            }
        }
    }

    /// The failed phase's own document, with outcome FAIL, is owed too.
    fn record_failure(&mut self, report: &GateReport) {
        let Some(phase) = self.running() else { return };
        let rendered = render_phase(&PhaseReport {
            phase,
            run_id: self.sidecar.run_id.to_string(),
            pass: false,
            production_mutation: "NONE".to_owned(),
            inputs: self.inputs(),
            work: vec![match report.gate {
                GateId::WriteVerify if self.sidecar.pin_text(pin::VERIFY_RESULT_ID).is_some() => format!(
                    "{} refused: the failed result is recorded with its signature and an escalation entry",
                    report.gate
                ),
                gate => format!("{gate} refused: nothing of this phase is in force"),
            }],
            diff: Vec::new(),
            gate: report.clone(),
            artifacts: Vec::new(),
            verdict: vec![
                ("outcome".to_owned(), "FAIL".to_owned()),
                ("gate".to_owned(), report.gate.to_string()),
            ],
            final_sections: None,
        });
        self.tick();
        if let Some(record) = self.sidecar.phases.get_mut(phase.as_str()) {
            record.result = PhaseResult::Failed;
            record.gate_invariants = report.as_map();
        }
        if let (Ok(text), Ok(name)) = (rendered, self.document_name(phase)) {
            self.owe(name, text);
        }
    }

    /// Uploads what stops and failures owe. One attempt each; what fails stays owed.
    pub(super) async fn settle_debts(&mut self) {
        if !self.live() {
            return;
        }
        let mut changed = false;
        let failed = matches!(self.sidecar.run_state(), Ok(RunState::Failed { .. }));
        if let Some(outbox) = self.sidecar.outbox.clone().filter(|_| failed)
            && let Some(path) = self.file_once(&outbox).await
        {
            let bytes = outbox.text.len() as u64;
            self.sidecar.documents.push(crate::record::sidecar::Artifact {
                path,
                sha256: outbox.sha256,
                bytes,
            });
            self.sidecar.outbox = None;
            changed = true;
        }
        for i in 0..self.sidecar.stops.len() {
            if self.sidecar.stops[i].uploaded.is_none()
                && let Some(digest) = self.upload_stop(i).await
            {
                self.sidecar.stops[i].uploaded = Some(digest);
                changed = true;
            }
        }
        if changed {
            // Not persisting it only means that the upload is found "already there" next time.
            let _ = self.persist().await;
        }
    }

    pub(super) async fn file_once(&mut self, outbox: &Outbox) -> Option<String> {
        if self.sidecar.kb_folder.is_none() {
            return self.file(outbox).await.ok();
        }
        let folder = self.sidecar.kb_folder.clone()?;
        let path = format!("{folder}/{}", outbox.name);
        match self.ports.kb.create(&path, outbox.text.as_bytes()).await {
            Ok(CreateOutcome::Created | CreateOutcome::Identical) => Some(path),
            _ => None,
        }
    }

    async fn text_of_stop(&self, stop: &StopRecord) -> Option<String> {
        let stored = self.ports.runs.load_revision(&self.sidecar.run_id, stop.revision).await.ok()??;
        let at_stop = Sidecar::from_bytes(&stored.bytes).ok()?;
        let at_stop_itself = at_stop.stops.iter().find(|s| s.n == stop.n)?.clone();
        report_of_stop(&at_stop, &at_stop_itself).ok()
    }

    /// The last stop, with the digest of its report as it is rendered: also while that is owed to the
    /// knowledge base, and whatever the newest record says was filed.
    pub(super) async fn open_stop(&self) -> Result<StopRecord, Halt> {
        let missing = || Halt::corrupt("a stopped run holds no record of why");
        let mut stop = self.sidecar.stops.last().cloned().ok_or_else(missing)?;
        if stop.names_report {
            stop.uploaded = self.text_of_stop(&stop).await.map(|text| Digest::of(text.as_bytes()));
        }
        Ok(stop)
    }

    async fn upload_stop(&mut self, i: usize) -> Option<Digest> {
        let stop = self.sidecar.stops.get(i)?.clone();
        let text = self.text_of_stop(&stop).await?;
        let outbox = Outbox {
            name: stop.name,
            sha256: Digest::of(text.as_bytes()),
            text,
            renderer: super::run::RENDERER,
        };
        self.file_once(&outbox).await.map(|_| outbox.sha256)
    }

    /// Honours a stop request that no stop has honoured yet.
    pub(super) async fn honour_stop_request(&mut self) -> Result<(), Halt> {
        if !self.live() {
            return Ok(());
        }
        let request = self.ports.runs.stop_request(&self.sidecar.run_id).await.map_err(|e| self.halt(e))?;
        let Some(request) = request else { return Ok(()) };
        if self.sidecar.stops.iter().any(|s| s.request_id == Some(request.id)) {
            return Ok(());
        }
        let word = request.reason.parse::<Slug>().and_then(StopReason::sovereign);
        let reason = word.map_err(|e| Halt::stop(StopReason::Internal, e.to_string()))?;
        Err(Halt::Stop(Box::new(Stopping {
            detail: vec![format!("{} asked: {} ({})", request.actor, request.reason, request.at)],
            reason,
            observed: BTreeMap::new(),
            request_id: Some(request.id),
        })))
    }
}

/// The stop-route report: a function of the sidecar as it stood when the stop was written.
///
/// # Errors
/// If a value cannot be shown on the line that it needs.
pub fn report_of_stop(sidecar: &Sidecar, stop: &StopRecord) -> Result<String, crate::report::ReportError> {
    let dump = serde_json::to_string_pretty(sidecar).unwrap_or_default();
    let asks = stop_kinds(sidecar, stop).into_iter().map(|kind| ask_for_stop(sidecar, stop, kind)).collect();
    render_stop(&StopReport {
        run_id: sidecar.run_id.to_string(),
        document_id: sidecar.document_id.clone(),
        n: stop.n,
        code: stop.code.clone(),
        stage: stop.stage.clone(),
        at: stop.at,
        nonce: stop.nonce.clone(),
        detail: stop.detail.clone(),
        observed: stop.observed.clone(),
        asks,
        sidecar_json: dump,
    })
}
