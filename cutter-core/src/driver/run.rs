//! A run being driven: the sidecar in hand, and the few things that every step does with it.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::listen::Heard;
use super::{Caller, DriveError, Ports};
use crate::base::canonical;
use crate::base::cas::CasOutcome;
use crate::base::digest::Digest;
use crate::base::limits::{SIDECAR_CLOSING_BYTES, SIDECAR_MAX_BYTES};
use crate::gate::drift::{self, Difference};
use crate::machine::run::{GateId, Phase, RunState, Stage, Trigger};
use crate::machine::stop::{Cap, Slug, StopReason};
use crate::port::run_store::RunLock;
use crate::port::{Port, PortError, PortErrorKind};
use crate::record::check::{Check, GateReport};
use crate::record::intent::{IdName, Intent};
use crate::record::observed::{Fence, Survey, SurveyScope};
use crate::record::pin::{self, Pin, PinError, PinValue};
use crate::record::sidecar::{Mode, Outbox, PhaseRecord, PhaseResult, Sidecar, SidecarError};
use crate::text::plan::CutPlan;

/// Version of the report renderer, recorded with every owed document.
pub(super) const RENDERER: u32 = 1;

/// Why a step did not go through.
#[derive(Debug)]
pub(super) enum Halt {
    /// Stop the run and say why.
    Stop(Box<Stopping>),
    /// A gate refused: the run fails.
    Fail(Box<GateReport>),
    /// End without recording anything: fenced, or the record itself cannot be written.
    Abort(Box<DriveError>),
}

/// A stop in the making.
#[derive(Debug)]
pub(super) struct Stopping {
    pub(super) reason: StopReason,
    pub(super) detail: Vec<String>,
    pub(super) observed: BTreeMap<String, String>,
    pub(super) request_id: Option<Uuid>,
}

impl Halt {
    pub(super) fn stop(reason: StopReason, detail: impl Into<String>) -> Self {
        Self::Stop(Box::new(Stopping {
            reason,
            detail: vec![detail.into()],
            observed: BTreeMap::new(),
            request_id: None,
        }))
    }

    /// The record lacks what it must have by now, or holds something else in its place.
    pub(super) fn corrupt(detail: impl Into<String>) -> Self {
        Self::stop(StopReason::StateCorrupt, detail)
    }

    /// The first differing dimension names the stop; the payload shows all of them.
    pub(super) fn drift(differences: &[Difference]) -> Self {
        let dimension = differences.first().map_or("unknown", |d| d.dimension.as_str());
        let is_much = differences.iter().filter_map(|d| Some(d.observed.as_ref()?.len())).sum::<usize>()
            > drift::SHOWN_MAX_BYTES;
        let shown = |value: &Option<String>| match value {
            None => "absent".to_owned(),
            Some(value) if is_much => drift::in_short(value),
            Some(value) => value.clone(),
        };
        let line = |d: &Difference| {
            format!("{}: expected {}, observed {}", d.dimension, shown(&d.expected), shown(&d.observed))
        };
        Self::Stop(Box::new(Stopping {
            reason: drift_reason(dimension),
            detail: differences.iter().map(line).collect(),
            observed: differences.iter().map(|d| (d.dimension.clone(), shown(&d.observed))).collect(),
            request_id: None,
        }))
    }
}

impl From<SidecarError> for Halt {
    fn from(error: SidecarError) -> Self {
        Self::stop(StopReason::Internal, error.to_string())
    }
}

impl From<PinError> for Halt {
    fn from(error: PinError) -> Self {
        Self::corrupt(error.to_string())
    }
}

impl From<crate::record::intent::MissingId> for Halt {
    fn from(error: crate::record::intent::MissingId) -> Self {
        Self::corrupt(error.to_string())
    }
}

impl From<canonical::CanonicalError> for Halt {
    fn from(error: canonical::CanonicalError) -> Self {
        Self::stop(StopReason::Internal, error.to_string())
    }
}

impl From<crate::report::ReportError> for Halt {
    fn from(error: crate::report::ReportError) -> Self {
        Self::stop(StopReason::Internal, error.to_string())
    }
}

impl From<crate::machine::IllegalTransition> for Halt {
    fn from(error: crate::machine::IllegalTransition) -> Self {
        Self::stop(StopReason::Internal, error.to_string())
    }
}

/// Records in a sidecar that a phase begins with this intent.
pub(super) fn begin(sidecar: &mut Sidecar, phase: Phase, intent: Intent) {
    let record = PhaseRecord {
        phase: phase.as_str().to_owned(),
        started_utc: intent.at,
        finished_utc: None,
        result: PhaseResult::Running,
        gate_invariants: BTreeMap::new(),
        kb_doc_id: None,
        artifacts: Vec::new(),
        active_ms: 0,
    };
    sidecar.phases.insert(phase.as_str().to_owned(), record);
    sidecar.intent = Some(intent);
}

/// A run under its lock.
pub(super) struct Run<'p> {
    pub(super) ports: &'p Ports,
    pub(super) caller: &'p Caller,
    pub(super) sidecar: Sidecar,
    /// The highest revision that is known to be durable.
    pub(super) revision: u64,
    pub(super) fence: Option<Fence>,
    pub(super) plan: Option<CutPlan>,
    /// The text that `plan` was built from.
    pub(super) text: Vec<u8>,
    /// The approval that the operator named; used for the first gate that looks for one.
    pub(super) explicit_approval: Option<String>,
    /// The phase at hand was `running` when this process came to it: look for its effect.
    pub(super) adopting: bool,
    /// The stopped sidecar that a resume left, until the next write makes that durable.
    pub(super) left: Option<Box<Sidecar>>,
    /// What was heard while the transaction at hand was open.
    pub(super) heard: Heard,
    /// The body of the statement that the final report names.
    pub(super) statement: Option<String>,
    last_tick: Timestamp,
    _lock: Box<dyn RunLock>,
}

impl<'p> Run<'p> {
    pub(super) fn new(
        ports: &'p Ports,
        caller: &'p Caller,
        sidecar: Sidecar,
        revision: u64,
        lock: Box<dyn RunLock>,
    ) -> Self {
        let last_tick = ports.clock.now();
        Self {
            ports,
            caller,
            sidecar,
            revision,
            fence: None,
            plan: None,
            text: Vec::new(),
            explicit_approval: None,
            adopting: true,
            left: None,
            heard: Heard::default(),
            statement: None,
            last_tick,
            _lock: lock,
        }
    }

    pub(super) fn live(&self) -> bool {
        self.sidecar.mode == Mode::Live
    }

    pub(super) fn stage(&self) -> Result<Stage, Halt> {
        match self.sidecar.run_state()? {
            RunState::At(stage) => Ok(stage),
            other => Err(Halt::corrupt(format!("expected a stage, observed {other}"))),
        }
    }

    pub(super) fn intent(&self) -> Result<&Intent, Halt> {
        let missing = || Halt::corrupt("the sidecar holds no intent for what comes next");
        self.sidecar.intent.as_ref().ok_or_else(missing)
    }

    pub(super) fn choose(&self, name: &str, occurrence: u32, ids: &[IdName], with_nonce: bool) -> Intent {
        let (clock, source) = (self.ports.clock.as_ref(), self.ports.ids.as_ref());
        Intent::choose(&self.sidecar.run_id, name, occurrence, ids, with_nonce, clock, source)
    }

    /// Adds the time since the last tick to the run's and the running phase's account (D34).
    pub(super) fn tick(&mut self) {
        let now = self.ports.clock.now();
        let passed = u64::try_from(now.duration_since(self.last_tick).as_millis()).unwrap_or(0);
        self.last_tick = now;
        self.sidecar.active_ms = self.sidecar.active_ms.saturating_add(passed);
        if let Some(running) = self.sidecar.phases.values_mut().find(|p| p.result == PhaseResult::Running) {
            running.active_ms = running.active_ms.saturating_add(passed);
        }
    }

    /// What is left of the phase's and the run's caps, in milliseconds.
    ///
    /// # Errors
    /// STOP_AND_ESCALATE once nothing is left.
    pub(super) fn cap_left(&mut self, phase: Phase) -> Result<u64, Halt> {
        self.tick();
        let settings = &self.sidecar.settings;
        let granted = u64::from(self.sidecar.granted_minutes) * 60_000;
        let used = self.sidecar.phases.get(phase.as_str()).map_or(0, |p| p.active_ms);
        let soft = (settings.phase_cap_ms(phase) + granted).saturating_sub(used);
        let hard = (settings.run_cap_ms() + granted).saturating_sub(self.sidecar.active_ms);
        let over = |cap: Cap, limit: u64, used: u64| {
            Halt::stop(
                StopReason::AndEscalate(cap),
                format!(
                    "cap {cap}: expected at most {} ms of active time, observed {used} ms",
                    limit + granted
                ),
            )
        };
        if soft == 0 {
            return Err(over(Cap::Soft(phase), settings.phase_cap_ms(phase), used));
        }
        if hard == 0 {
            return Err(over(Cap::Hard, settings.run_cap_ms(), self.sidecar.active_ms));
        }
        Ok(soft.min(hard))
    }

    /// Publishes the sidecar as the next revision. Durable on return.
    pub(super) async fn persist(&mut self) -> Result<(), Halt> {
        self.publish(false).await
    }

    /// As [`Self::persist`], and the lock of the run goes with it: nothing is done under it any more.
    pub(super) async fn persist_last(&mut self) -> Result<(), Halt> {
        self.publish(true).await
    }

    /// How long the record is, without what it can do without; `None` if it is too long.
    pub(super) fn size(&self) -> Option<usize> {
        let mut record = self.sidecar.clone();
        record.compact();
        record.to_bytes().ok().map(|bytes| bytes.len())
    }

    /// Before anything is enacted: a run whose record has no room to close would be in force and never closed.
    pub(super) fn has_room_to_close(&self) -> Result<(), Halt> {
        let most = SIDECAR_MAX_BYTES - SIDECAR_CLOSING_BYTES;
        if self.size().is_some_and(|bytes| bytes <= most) {
            return Ok(());
        }
        let run_id = &self.sidecar.run_id;
        let observed = self.size().map_or_else(|| "more".to_owned(), |bytes| bytes.to_string());
        Err(Halt::Abort(Box::new(DriveError::NotNow(format!(
            "run {run_id}: its record has no room to close, so nothing is enacted: expected at most {most} bytes, \
             observed {observed}; next: cutter orchestrate void --run-id {run_id}"
        )))))
    }

    async fn publish(&mut self, is_last: bool) -> Result<(), Halt> {
        self.tick();
        self.sidecar.revision = self.revision + 1;
        let mut bytes = self.sidecar.to_bytes();
        if bytes.as_ref().map_or(true, |b| b.len() > SIDECAR_MAX_BYTES / 4 * 3) {
            self.sidecar.compact();
            bytes = self.sidecar.to_bytes();
        }
        let bytes = bytes?;
        let run_id = self.sidecar.run_id.clone();
        let runs = &self.ports.runs;
        let publish = || match is_last {
            true => runs.publish_last(&run_id, self.revision, &bytes),
            false => runs.publish(&run_id, self.revision, &bytes),
        };
        let mut published = publish().await;
        if published.as_ref().is_err_and(|e| e.kind == PortErrorKind::OutcomeUnknown) {
            // The same bytes again: written now, or found written. Either answer is final.
            published = publish().await;
        }
        match published {
            Ok(CasOutcome::Applied | CasOutcome::AlreadyApplied) => {
                self.revision += 1;
                self.left = None;
                Ok(())
            }
            Ok(CasOutcome::Conflict { .. }) => Err(Halt::Abort(Box::new(DriveError::Fenced { run_id }))),
            Err(error) => Err(self.halt(error)),
        }
    }

    /// Sorts a port's failure by who must act (PROTOCOL §5). Infrastructure trouble is a
    /// stop that a plain resume gets over, never the end of a run.
    pub(super) fn halt(&self, error: PortError) -> Halt {
        use PortErrorKind as K;
        let text = error.to_string();
        let reason = match (error.kind, error.port) {
            (K::Fenced, _) => {
                return Halt::Abort(Box::new(DriveError::Fenced { run_id: self.sidecar.run_id.clone() }));
            }
            (K::Full, _) => StopReason::DiskFull,
            (K::Deadline, _) => StopReason::AndEscalate(self.running().map_or(Cap::Hard, Cap::Soft)),
            (K::Waits, Port::Database) => StopReason::DependsOn,
            (K::Conflict, Port::Database) => return Halt::Fail(Box::new(self.conflict(text))),
            (K::Conflict, Port::KnowledgeBase) => StopReason::KbConflict,
            (_, Port::KnowledgeBase) => StopReason::KbUpload,
            (
                K::Unavailable | K::OutcomeUnknown | K::Busy | K::Denied,
                Port::Database | Port::BackupSource,
            ) => StopReason::DatabaseUnavailable,
            (K::Unavailable, Port::BackupTarget) => StopReason::BackupUnavailable,
            _ => StopReason::Internal,
        };
        Halt::stop(reason, text)
    }

    /// The phase that is running.
    pub(super) fn running(&self) -> Option<Phase> {
        let running =
            |p: &Phase| self.sidecar.phases.get(p.as_str()).is_some_and(|r| r.result == PhaseResult::Running);
        Phase::ALL.iter().copied().find(running)
    }

    /// The database holds somebody else's value where this run's must go.
    fn conflict(&self, observed: String) -> GateReport {
        let gate = self.running().map_or(GateId::FailureEscalation, Phase::gate);
        let invariant = format!("{}.no_conflicting_row", gate.failed_suffix());
        let check = Check { invariant, expected: "no other value".to_owned(), observed, ok: false };
        GateReport { gate, checks: vec![check] }
    }

    /// What drift surveys of this run look at.
    pub(super) fn scope(&self) -> SurveyScope {
        SurveyScope {
            run_id: self.sidecar.run_id.clone(),
            document_id: self.sidecar.document_id.clone(),
            entry_id: self.sidecar.pinned(pin::ENTRY_ID).ok(),
            review_decision_id: self.sidecar.pinned(pin::REVIEW_DECISION_ID).ok(),
        }
    }

    pub(super) async fn survey(&self) -> Result<Survey, Halt> {
        self.ports.reader.survey(&self.scope()).await.map_err(|e| self.halt(e))
    }

    /// What an embedder's own gates say at a gate.
    pub(super) fn own_checks(&self, gate: GateId) -> Vec<Check> {
        self.ports.own_gates.iter().flat_map(|own| own.checks(gate, &self.sidecar)).collect()
    }

    pub(super) fn pin<T: PinValue>(&mut self, pin: Pin<T>, value: T) {
        self.sidecar.context_pins.insert(pin.name().to_owned(), value.to_string());
    }

    /// Records that a phase begins with this intent.
    pub(super) fn set_running(&mut self, phase: Phase, intent: Intent) {
        begin(&mut self.sidecar, phase, intent);
    }

    /// Puts a document into the outbox: it is owed from the next write on.
    pub(super) fn owe(&mut self, name: String, text: String) -> Digest {
        let sha256 = Digest::of(text.as_bytes());
        self.sidecar.outbox = Some(Outbox { name, sha256, text, renderer: RENDERER });
        sha256
    }

    /// Steps the run machine.
    pub(super) fn step(&mut self, trigger: Trigger, at: Timestamp) -> Result<(), Halt> {
        let to = self.sidecar.run_state()?.step(trigger)?;
        self.sidecar.transition(&to, trigger.as_str(), &self.caller.actor, at);
        Ok(())
    }
}

/// The digest of an effect's request: what makes the same key "the same payload".
pub(super) fn payload_digest<T: Serialize>(payload: &T) -> Result<Digest, Halt> {
    Ok(canonical::digest_of(payload)?)
}

/// `STOP_DRIFT_<dim>` for a dimension of the survey.
pub(super) fn drift_reason(dimension: &str) -> StopReason {
    Slug::from_words(dimension).map_or(StopReason::Internal, StopReason::Drift)
}

/// What did not hold, a line each.
pub(super) fn failures(report: &GateReport) -> Vec<String> {
    report
        .failures()
        .into_iter()
        .map(|c| format!("{}: expected {}, observed {}", c.invariant, c.expected, c.observed))
        .collect()
}

/// A record stays small: twenty lines of at most 500 characters each.
pub(super) fn bounded(detail: Vec<String>) -> Vec<String> {
    let more = detail.len().saturating_sub(20);
    let mut out: Vec<String> = detail.into_iter().take(20).map(|l| l.chars().take(500).collect()).collect();
    if more > 0 {
        out.push(format!("and {more} more"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was observed is kept as it stands, and by its digest only where it is much.
    #[test]
    fn drift_is_kept_whole_or_in_short() {
        let observed = |n: usize, long: &str| {
            let difference = |i: usize| Difference {
                dimension: format!("function.f{i}"),
                expected: None,
                observed: Some(long.to_owned()),
            };
            let differences: Vec<Difference> = (0..n).map(difference).collect();
            let Halt::Stop(stop) = Halt::drift(&differences) else { panic!("drift stops") };
            stop.observed["function.f0"].clone()
        };
        let rights = "a=X/b,".repeat(50);
        assert_eq!(observed(1, &rights), rights);
        assert_eq!(observed(20, &rights), rights);
        assert_eq!(observed(21, &rights), drift::in_short(&rights));
        assert!(drift::in_short(&rights).starts_with("sha256:") && drift::in_short(&rights).len() == 71);
        assert_eq!(observed(200, "short"), "short");
    }
}
