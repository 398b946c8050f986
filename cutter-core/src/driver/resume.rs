//! Resume: from whatever a run was left in, to its next resting place.
//!
//! Idempotent: on a finished run it does nothing, on a parked one without a valid approval
//! it says what is missing, and on anything in between it goes on from the record (spec 1
//! §7). It never re-derives an identifier and never skips a gate.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::create::{claim, load, state_of, validated, void_unclaimed};
use super::record::check_kept;
use super::run::{Halt, Run};
use super::{Caller, DriveError, Driven, Outcome, Ports};
use crate::base::id::RunId;
use crate::gate::drift::{self, Difference};
use crate::machine::run::{Phase, RunState, Stage, Trigger};
use crate::machine::stop::{StopClass, StopReason};
use crate::port::{Port, PortError, PortErrorKind};
use crate::record::effect::EffectName;
use crate::record::sidecar::{PhaseResult, Sidecar};

/// How to resume.
#[derive(Debug, Clone, Default)]
pub struct ResumeOptions {
    /// The approval to use; without it, the run's folder is searched.
    pub approval_kb_id: Option<String>,
}

/// Drives a run on, as far as it gets.
///
/// # Errors
/// Not found, busy, fenced, a sidecar that may not be acted on, a named approval that is
/// not valid. Stops and failures are outcomes.
pub async fn resume(
    ports: &Ports,
    caller: &Caller,
    run_id: &RunId,
    options: &ResumeOptions,
) -> Result<Driven, DriveError> {
    let mut run = open(ports, caller, run_id).await?;
    if let Some(outcome) = at_rest(&run.sidecar)? {
        run.settle_debts().await;
        return Ok(Driven { outcome, sidecar: Box::new(run.sidecar) });
    }
    if !own_claim(&mut run).await? {
        return Ok(Driven { outcome: Outcome::Voided, sidecar: Box::new(run.sidecar) });
    }
    run.explicit_approval = options.approval_kb_id.clone();
    run.drive().await
}

/// Takes the lock, then reads: never the other way round. Where there is no run, a store says so at
/// either.
pub(super) async fn open<'p>(
    ports: &'p Ports,
    caller: &'p Caller,
    run_id: &RunId,
) -> Result<Run<'p>, DriveError> {
    let opened = ports.runs.lock_and_load(run_id, &caller.holder).await;
    let (lock, stored) = opened.map_err(|e| busy(run_id, e))?;
    let stored = stored.ok_or_else(|| DriveError::NotFound { run_id: run_id.clone() })?;
    let (sidecar, revision) = validated(run_id, &stored)?;
    check_kept(ports, &sidecar).await?;
    Ok(Run::new(ports, caller, sidecar, revision, lock))
}

fn busy(run_id: &RunId, error: PortError) -> DriveError {
    match error.kind {
        PortErrorKind::Busy => DriveError::Busy { run_id: run_id.clone(), holder: error.message },
        PortErrorKind::NotFound => DriveError::NotFound { run_id: run_id.clone() },
        _ => DriveError::Port(error),
    }
}

/// The outcome of a run that no resume moves.
fn at_rest(sidecar: &Sidecar) -> Result<Option<Outcome>, DriveError> {
    Ok(match state_of(sidecar)? {
        RunState::At(Stage::CloseoutReported) => Some(Outcome::Completed),
        RunState::Voided { .. } => Some(Outcome::Voided),
        RunState::Failed { .. } => Some(match sidecar.stops.last() {
            Some(stop) => Outcome::Failed(stop.clone()),
            None => return Err(DriveError::Internal("a failed run holds no record of why".into())),
        }),
        RunState::At(Stage::GrantsProbed) if sidecar.mode == crate::record::sidecar::Mode::Dryrun => {
            Some(Outcome::DryRunDone)
        }
        _ => None,
    })
}

/// A pending run may have died before its claim: claim now, or be swept.
async fn own_claim(run: &mut Run<'_>) -> Result<bool, DriveError> {
    if !run.live() || state_of(&run.sidecar)?.stage() != Some(Stage::Pending) {
        return Ok(true);
    }
    let latest = run.ports.runs.latest_claim(&run.sidecar.document_id).await?;
    let generation = match latest {
        Some(claim) if claim.run_id == run.sidecar.run_id => return Ok(true),
        Some(other) => {
            let holder = load(run.ports, &other.run_id).await?.0;
            if !state_of(&holder)?.releases_claim() {
                void_unclaimed(run).await?;
                return Ok(false);
            }
            other.generation + 1
        }
        None => 1,
    };
    claim(run, generation).await
}

impl Run<'_> {
    /// Drives until the run rests, and records how it came to rest.
    pub(super) async fn drive(mut self) -> Result<Driven, DriveError> {
        let halted = match self.go().await {
            // leaving a stop shows, even if nothing but a pause follows
            Ok(outcome) if self.left.is_some() => match self.persist().await {
                Ok(()) => return Ok(self.driven(outcome)),
                Err(halt) => halt,
            },
            Ok(outcome) => return Ok(self.driven(outcome)),
            Err(halt) => halt,
        };
        let outcome = self.record(halted).await?;
        Ok(self.driven(outcome))
    }

    pub(super) fn driven(self, outcome: Outcome) -> Driven {
        Driven { outcome, sidecar: Box::new(self.sidecar) }
    }

    /// A halt that could not be recorded, as an error: trouble of the infrastructure keeps its
    /// kind, a refusal says what was refused.
    pub(super) fn unrecorded(&self, halt: Halt) -> DriveError {
        let run_id = &self.sidecar.run_id;
        match halt {
            Halt::Abort(error) => *error,
            Halt::Stop(stop) => {
                let text = format!("{}: {}", stop.reason.code(), stop.detail.join("; "));
                let port = |port, op, kind| DriveError::Port(PortError::new(port, op, kind, text.clone()));
                match stop.reason {
                    StopReason::DiskFull => port(Port::RunStore, "publish", PortErrorKind::Full),
                    StopReason::KbUpload => port(Port::KnowledgeBase, "call", PortErrorKind::Unavailable),
                    StopReason::DatabaseUnavailable => {
                        port(Port::Database, "call", PortErrorKind::Unavailable)
                    }
                    StopReason::BackupUnavailable => {
                        port(Port::BackupTarget, "call", PortErrorKind::Unavailable)
                    }
                    StopReason::Internal => DriveError::Internal(text),
                    _ => DriveError::NotNow(format!("run {run_id}: {text}")),
                }
            }
            Halt::Fail(report) => DriveError::NotNow(format!("run {run_id}: {report}")),
        }
    }

    async fn go(&mut self) -> Result<Outcome, Halt> {
        if self.live() {
            self.ports.reader.check_schema().await.map_err(|e| self.schema(e))?;
            self.take_fence().await?;
        }
        let adopting = self.live() && self.adopting;
        let committed = if adopting { self.committed_effects().await? } else { BTreeSet::new() };
        self.settle_debts().await;
        if adopting {
            self.creation_stands().await?;
        }
        if let Some(outcome) = self.leave_stop().await? {
            return Ok(outcome);
        }
        if adopting {
            self.effects_stand(&committed)?;
        }
        loop {
            if self.ports.interrupt.is_asked() {
                let run_id = self.sidecar.run_id.clone();
                return Err(Halt::Abort(Box::new(DriveError::Interrupted { run_id })));
            }
            let stage = self.stage()?;
            if stage != Stage::CloseoutReported {
                self.honour_stop_request().await?;
            }
            let outcome = match stage {
                Stage::CloseoutReported => return Ok(Outcome::Completed),
                Stage::GrantsProbed if !self.live() => return Ok(Outcome::DryRunDone),
                Stage::GrantsProbed | Stage::WriteVerified => self.request(stage).await?,
                Stage::AwaitingCutAuthorization | Stage::AwaitingLifecycleAuthorization => {
                    self.authorize(stage).await?
                }
                _ => self.internal_phase(stage).await?,
            };
            self.adopting = false;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }

    async fn internal_phase(&mut self, stage: Stage) -> Result<Option<Outcome>, Halt> {
        let missing = || Halt::corrupt(format!("no phase begins at {stage}"));
        let phase = Phase::at_stage(stage).ok_or_else(missing)?;
        self.phase(phase).await?;
        Ok(None)
    }

    fn schema(&self, error: PortError) -> Halt {
        if error.kind == PortErrorKind::Invalid {
            Halt::Abort(Box::new(DriveError::Port(error)))
        } else {
            self.halt(error)
        }
    }

    /// What the database holds of the run.
    ///
    /// # Errors
    /// A record that never began what is committed: it is older than what happened, and nothing is written
    /// on its word.
    async fn committed_effects(&self) -> Result<BTreeSet<EffectName>, Halt> {
        let evidence = self.ports.reader.evidence(&self.sidecar.run_id).await.map_err(|e| self.halt(e))?;
        let committed: BTreeSet<EffectName> = evidence.effects.iter().map(|e| e.key.effect).collect();
        let began = |phase: &Phase| self.sidecar.phases.contains_key(phase.as_str());
        let unknown = Phase::ALL.iter().copied().filter(|phase| !began(phase)).filter_map(own_effects);
        match unknown.filter(|effect| committed.contains(effect)).max() {
            None => Ok(committed),
            Some(effect) => Err(self.corrupt(format!(
                "it is older than what happened since, an older copy was put back: the database holds {effect}, \
                 which this record never began"
            ))),
        }
    }

    /// A `passed` phase whose effect is missing means that the database went back in time:
    /// nothing may be redone over it (PROTOCOL §1).
    fn effects_stand(&self, committed: &BTreeSet<EffectName>) -> Result<(), Halt> {
        match self.expected_effects().into_iter().find(|effect| !committed.contains(effect)) {
            None => Ok(()),
            Some(effect) => Err(Halt::drift(&[Difference {
                dimension: String::from(drift::EFFECT),
                expected: Some(format!("{effect} committed")),
                observed: None,
            }])),
        }
    }

    fn expected_effects(&self) -> Vec<EffectName> {
        let passed =
            |p: &Phase| self.sidecar.phases.get(p.as_str()).is_some_and(|r| r.result == PhaseResult::Passed);
        let before = |p: Phase| match p {
            Phase::Mark => &[EffectName::Sweep][..],
            Phase::CutLegA => &[EffectName::Sg1Review],
            Phase::LifecycleEnact => &[EffectName::Sg2Request, EffectName::Sg2Review],
            _ => &[],
        };
        Phase::ALL
            .iter()
            .copied()
            .filter(passed)
            .flat_map(|p| before(p).iter().copied().chain(own_effects(p)))
            .collect()
    }

    /// From `stopped_*` back to the stage that was kept, if that is allowed (PROTOCOL §5).
    async fn leave_stop(&mut self) -> Result<Option<Outcome>, Halt> {
        let state = self.sidecar.run_state()?;
        let RunState::Stopped { reason, .. } = &state else { return Ok(None) };
        if StopClass::of_suffix(reason) != StopClass::Operational
            && let Some(outcome) = self.answer_stop().await?
        {
            return Ok(Some(outcome));
        }
        let to = state.resume()?;
        self.left = Some(Box::new(self.sidecar.clone()));
        let (now, actor) = (self.ports.clock.now(), self.caller.actor.clone());
        self.sidecar.transition(&to, Trigger::Resume.as_str(), &actor, now);
        self.sidecar.last_error = None;
        Ok(None)
    }
}

/// What a phase commits once its beginning is on record; others may store decisions and requests before.
fn own_effects(phase: Phase) -> Option<EffectName> {
    match phase {
        Phase::Mark => Some(EffectName::Mark),
        Phase::CutLegA => Some(EffectName::LegA),
        Phase::LegBRecord => Some(EffectName::LegB),
        Phase::WriteVerify => Some(EffectName::WriteVerify),
        Phase::LifecycleEnact => Some(EffectName::Enact),
        _ => None,
    }
}
