//! A run in a few fields, the same for `cut`, `resume`, `status` and `list`.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::Serialize;

use crate::base::digest::Digest;
use crate::driver::{is_rejected, stop_kinds};
use crate::machine::run::GateId;
use crate::machine::run::{Phase, RunState, Stage};
use crate::machine::stop::StopReason;
use crate::record::pin;
use crate::record::sidecar::{Mode, PhaseResult, Sidecar, StopRecord};
use crate::report::naming::EscalationKind;

/// The gate at which a run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PausedAt {
    /// `SG_cut_authz` or `SG_lifecycle_authz`.
    pub gate: GateId,
    /// Path of the request in the knowledge base.
    pub request_kb_id: String,
    /// Where the answer is expected.
    pub approval_path: String,
}

/// A stop or a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StopSummary {
    /// `STOP_…`, or `failed_<gate>`.
    pub code: String,
    /// What happened, expected and observed.
    pub reason: String,
    /// The command to type next.
    pub next: String,
}

/// A run in a few fields. Names are stable; fields are only added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The run.
    pub run_id: String,
    /// Its document.
    pub document_id: String,
    /// `live` or `dryrun`.
    pub mode: String,
    /// Stage or ending.
    pub state: String,
    /// The phase that runs or comes next; `None` once nothing does.
    pub phase: Option<String>,
    /// The gate at which it waits.
    pub paused_at: Option<PausedAt>,
    /// The open stop, or the failure.
    pub stop: Option<StopSummary>,
    /// The finished run that made this one needless.
    pub replayed_from: Option<String>,
    /// How many units, once marked.
    pub units: Option<u64>,
    /// Its folder in the knowledge base.
    pub kb_folder: Option<String>,
    /// Where a person finds the sidecar.
    pub sidecar_path: String,
    /// Every digest that the run pinned, by name.
    pub digests: BTreeMap<String, String>,
    /// When the run was created.
    pub created_utc: Timestamp,
    /// Since when it is in this state.
    pub since: Timestamp,
}

impl Summary {
    /// Reads a sidecar. `sidecar_path` is where a person finds it.
    #[must_use]
    pub fn of(sidecar: &Sidecar, sidecar_path: &str) -> Self {
        let state = sidecar.run_state().ok();
        let digests = sidecar.context_pins.iter().filter(|(_, value)| value.parse::<Digest>().is_ok());
        Self {
            run_id: sidecar.run_id.to_string(),
            document_id: sidecar.document_id.clone(),
            mode: match sidecar.mode {
                Mode::Dryrun => "dryrun".to_owned(),
                Mode::Live => "live".to_owned(),
            },
            state: sidecar.state.clone(),
            phase: phase(sidecar, state.as_ref()).map(|p| p.as_str().to_owned()),
            paused_at: paused_at(sidecar),
            stop: sidecar.open_stop().map(|stop| stop_summary(sidecar, stop)),
            replayed_from: None,
            units: sidecar.pinned(pin::CANDIDATE_COUNT).ok(),
            kb_folder: sidecar.kb_folder.clone(),
            sidecar_path: sidecar_path.to_owned(),
            digests: digests.map(|(k, v)| (k.clone(), v.clone())).collect(),
            created_utc: sidecar.created_utc,
            since: sidecar.transitions.last().map_or(sidecar.created_utc, |t| t.at),
        }
    }
}

fn phase(sidecar: &Sidecar, state: Option<&RunState>) -> Option<Phase> {
    let state = state?;
    if state.is_terminal() || (sidecar.mode == Mode::Dryrun && *state == RunState::At(Stage::GrantsProbed)) {
        return None;
    }
    let running = |p: &Phase| {
        sidecar.phases.get(p.as_str()).is_some_and(|record| record.result == PhaseResult::Running)
    };
    let stage = state.stage()?;
    Phase::ALL.iter().copied().find(running).or_else(|| Phase::ALL.iter().copied().find(|p| p.to() > stage))
}

fn paused_at(sidecar: &Sidecar) -> Option<PausedAt> {
    let ask = sidecar.ask.as_ref().filter(|_| sidecar.awaits_word().is_some())?;
    Some(PausedAt {
        gate: ask.gate,
        request_kb_id: ask.request_path.clone(),
        approval_path: ask.approval_path.clone(),
    })
}

fn stop_summary(sidecar: &Sidecar, stop: &StopRecord) -> StopSummary {
    let next = next_after_stop(sidecar, stop);
    StopSummary {
        code: stop.code.clone(),
        reason: stop.detail.join("; "),
        next: next.into_iter().next().unwrap_or_else(|| format!("cutter why --run-id {}", sidecar.run_id)),
    }
}

/// The commands that lead on from a stop, in order.
pub(super) fn next_after_stop(sidecar: &Sidecar, stop: &StopRecord) -> Vec<String> {
    let run = &sidecar.run_id;
    let mut next = Vec::new();
    let approve = |word: &str| format!("cutter sovereign approve --run-id {run} --for {word}");
    let ended = |next: &mut Vec<String>| {
        next.push(approve("void"));
        next.push(format!("cutter orchestrate void --run-id {run}"));
        next.push(format!("cutter orchestrate cut --document-id {}", sidecar.document_id));
    };
    match sidecar.run_state() {
        Ok(RunState::Failed { at, .. }) if !at.is_enacted() => ended(&mut next),
        Ok(RunState::Stopped { .. }) if is_rejected(sidecar, stop) => ended(&mut next),
        Ok(RunState::Stopped { .. }) => {
            let kinds = stop_kinds(sidecar, stop);
            if stop.uploaded.is_none() && kinds.iter().any(|kind| *kind != EscalationKind::Void) {
                // files its report first: who answers reads it
                next.push(format!("cutter orchestrate resume --run-id {run}"));
            }
            for kind in kinds {
                match kind {
                    EscalationKind::Resume => next.push(approve("resume")),
                    EscalationKind::DriftAck => next.push(approve("drift")),
                    EscalationKind::Void => {}
                }
            }
            // what a person mends first
            let mended = [StopReason::KbConflict, StopReason::DutyKey];
            let mended = mended.iter().filter(|reason| stop.code == reason.code());
            next.extend(mended.map(|reason| reason.next_command(run.as_str())));
            next.push(format!("cutter orchestrate resume --run-id {run}"));
        }
        _ => {}
    }
    next
}
