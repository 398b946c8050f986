//! Why a run stands where it stands: who holds it, since when, which condition is missing,
//! and the exact next command.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::Serialize;

use super::summary::next_after_stop;
use crate::driver::{approval_prefix, is_for_the_next_gate, is_rejected};
use crate::gate::plain::PLAIN;
use crate::machine::run::{GateId, Phase, RunState, Stage};
use crate::machine::stop::StopClass;
use crate::port::run_store::{LockHolder, StopRequest};
use crate::record::sidecar::{Considered, Mode, PhaseResult, Sidecar};

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The run.
    pub run_id: String,
    /// Its state.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// Who drives it now.
    pub holder: Option<LockHolder>,
    /// What is missing, in one sentence.
    pub condition: String,
    /// More of it: expected and observed values, approvals that were not accepted.
    pub details: Vec<String>,
    /// What to type, in order.
    pub next: Vec<String>,
}

impl Why {
    /// The record that was asked is older than what happened since: that is the answer. Nothing if
    /// nothing did.
    pub fn is_older_than(&mut self, happened: Vec<String>) {
        if happened.is_empty() {
            return;
        }
        "its record is older than what happened since: an older copy was put back"
            .clone_into(&mut self.condition);
        self.details = happened;
        self.next = vec![
            format!("cutter orchestrate recover --run-id {}", self.run_id),
            format!("cutter verify --run-id {}", self.run_id),
        ];
    }
}

/// Says why. `requested` is the last stop request, honoured or not.
#[must_use]
pub fn why(sidecar: &Sidecar, holder: Option<&LockHolder>, requested: Option<&StopRequest>) -> Why {
    let mut answer = Why {
        run_id: sidecar.run_id.to_string(),
        state: sidecar.state.clone(),
        since: sidecar.transitions.last().map_or(sidecar.created_utc, |t| t.at),
        holder: holder.cloned(),
        condition: String::new(),
        details: Vec::new(),
        next: Vec::new(),
    };
    let run = &sidecar.run_id;
    let resume = format!("cutter orchestrate resume --run-id {run}");
    let honoured = |r: &&StopRequest| sidecar.stops.iter().any(|s| s.request_id == Some(r.id));
    if let Some(open) = requested.filter(|r| !honoured(r)) {
        answer.details.push(format!("{} asked to stop it at {}: {}", open.actor, open.at, open.reason));
    }
    if let Some(holder) = holder {
        answer.condition = format!(
            "it is being driven by process {} on {} (`{}`) since {}",
            holder.pid, holder.host, holder.command, holder.since
        );
        answer.next = vec![
            format!("cutter orchestrate wait --run-id {run}"),
            format!("cutter orchestrate resume --run-id {run} --take-over"),
        ];
        return answer;
    }
    match sidecar.run_state() {
        Err(error) => {
            answer.condition = format!("its record cannot be read: {error}");
            answer.next = vec![format!("cutter orchestrate recover --run-id {run}")];
        }
        Ok(state) => settle(sidecar, &state, &resume, &mut answer),
    }
    answer
}

fn settle(sidecar: &Sidecar, state: &RunState, resume: &str, answer: &mut Why) {
    let run = &sidecar.run_id;
    match state {
        RunState::At(Stage::CloseoutReported) => {
            "it is finished: every unit is enacted and every document filed"
                .clone_into(&mut answer.condition);
            answer.next = vec![format!("cutter verify --run-id {run}")];
        }
        RunState::At(Stage::GrantsProbed) if sidecar.mode == Mode::Dryrun => {
            "it was a dry run and is finished: nothing was written outside its folder"
                .clone_into(&mut answer.condition);
            answer.next = vec![format!("cutter orchestrate cut --document-id {}", sidecar.document_id)];
        }
        RunState::At(_) if sidecar.awaits_word().is_some() => waiting(sidecar, resume, answer),
        RunState::At(_) => {
            let running =
                |p: &&Phase| sidecar.phases.get(p.as_str()).is_some_and(|r| r.result == PhaseResult::Running);
            let phase = Phase::ALL.iter().find(running).map_or("between two phases", |p| p.as_str());
            answer.condition = format!(
                "the process that drove it is gone ({phase}); resuming asks the database what was done and goes on"
            );
            answer.next = vec![resume.to_owned()];
        }
        RunState::Stopped { reason, .. } => {
            answer.condition = match StopClass::of_suffix(reason) {
                StopClass::Operational => {
                    "it stopped for trouble around it; once that is gone, it goes on".to_owned()
                }
                _ if sidecar.open_stop().is_some_and(|stop| is_for_the_next_gate(sidecar, stop)) => {
                    "what it stands on has changed; resuming takes that up, and the next request says what \
                     changed: its approval accepts it"
                        .to_owned()
                }
                _ if sidecar.open_stop().is_some_and(|stop| is_rejected(sidecar, stop)) => {
                    "its cut was rejected, for good; a rejected run is voided, then a new one begins"
                        .to_owned()
                }
                _ => "it stopped and needs the sovereign's signed word to go on".to_owned(),
            };
            stop_details(sidecar, answer);
        }
        RunState::Failed { gate, at } => {
            answer.condition = if at.is_enacted() {
                format!(
                    "{} refused after the units were enacted; enacted units cannot be voided",
                    gate.as_str()
                )
            } else {
                format!("{} refused; a failed run is voided, then a new one begins", gate.as_str())
            };
            stop_details(sidecar, answer);
        }
        RunState::Voided { .. } => {
            "it is voided; its document is free for a new run".clone_into(&mut answer.condition);
            answer.next = vec![format!("cutter orchestrate cut --document-id {}", sidecar.document_id)];
        }
    }
}

fn waiting(sidecar: &Sidecar, resume: &str, answer: &mut Why) {
    let run = &sidecar.run_id;
    let Some(ask) = &sidecar.ask else {
        "it waits at a gate whose request is not filed yet".clone_into(&mut answer.condition);
        answer.next = vec![resume.to_owned()];
        return;
    };
    answer.condition = format!("{} waits for a signed approval ({})", ask.gate, ask.approval_type);
    answer.details.push(format!("request: {}", ask.request_path));
    answer.details.push(format!("approval expected at: {}", ask.approval_path));
    answer.details.push(format!("voice code: {}", ask.voice_code()));
    if let Some(actor) = &ask.expected_actor {
        answer.details.push(format!("only {actor} may answer"));
    }
    answer.details.extend(sidecar.considered.iter().map(not_accepted));
    if sidecar.considered.iter().any(|one| one.invariant == PLAIN) {
        answer.details.push(
            "a signed word that is not plain holds the gate, whoever approves beside it, until the same person signs a \
             plain yes or no after it, with their own key, or its document is taken away"
                .to_owned(),
        );
    }
    answer.next = vec![
        format!("cutter sovereign show --run-id {run}"),
        format!("cutter sovereign approve --run-id {run}"),
        resume.to_owned(),
    ];
}

fn not_accepted(looked_at: &Considered) -> String {
    format!("not accepted: {} ({}: {})", looked_at.approval_kb_id, looked_at.invariant, looked_at.detail)
}

fn stop_details(sidecar: &Sidecar, answer: &mut Why) {
    let Some(stop) = sidecar.open_stop() else { return };
    answer.details.push(format!("{} at {} in {}", stop.code, stop.at, stop.stage));
    answer.details.extend(stop.detail.iter().cloned());
    if stop.uploaded.is_none() {
        answer.details.push(format!(
            "its report {} is still owed to the knowledge base; where another document stands under that name, it gives \
             way to: cutter kb restore --run-id {}",
            stop.name, sidecar.run_id
        ));
    } else if let Some(folder) = &sidecar.kb_folder {
        answer.details.push(format!("report: {folder}/{}", stop.name));
    }
    let prefix = approval_prefix(GateId::FailureEscalation);
    let answers_a_stop =
        |c: &&Considered| c.approval_kb_id.rsplit('/').next().is_some_and(|name| name.starts_with(prefix));
    answer.details.extend(sidecar.considered.iter().filter(answers_a_stop).map(not_accepted));
    answer.next = next_after_stop(sidecar, stop);
}
