//! What a driver's command came to, for people, machines, hooks and the exit code.

use cutter_core::driver::{Driven, Outcome as Driver, TooFew};
use cutter_core::gate::plain::PLAIN;
use cutter_core::operate::inspect::{Summary, exit_code_of};
use cutter_core::port::run_store::RunStore;
use cutter_core::record::sidecar::Considered;
use serde::Serialize;

use crate::config::Config;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::Outcome;
use crate::render::{self, BAD, DIM, GOOD, HEAD, WARN, paint};
use crate::wire;

/// A result, ready to be shown.
#[derive(Debug, Serialize)]
pub(crate) struct Presented {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// Approvals that were looked at now and not accepted.
    pub(crate) approvals_not_accepted: Vec<Considered>,
    /// The answer that stands, where another host has to store its decision first.
    #[serde(skip_serializing_if = "Option::is_none")]
    awaits_decision: Option<String>,
    /// Who has approved, where several people must and some have not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    too_few: Option<TooFew>,
    #[serde(skip)]
    pub(crate) exit: Exit,
    #[serde(skip)]
    event: Event,
    /// The one command to type next, where the command knows better than the run's state.
    #[serde(skip)]
    pub(crate) next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Gate,
    Stop,
    Other,
}

/// Sorts a driver's outcome. `waited` is the request at which the run was parked before: if
/// it still is, an approval is what is missing.
pub(crate) fn present(driven: &Driven, runs: &dyn RunStore, waited: Option<&str>) -> Presented {
    let mut summary = Summary::of(&driven.sidecar, &runs.sidecar_location(&driven.sidecar.run_id));
    let mut not_accepted = Vec::new();
    let (mut next, mut awaits, mut still) = (None, None, None);
    let (exit, event) = match &driven.outcome {
        Driver::Completed | Driver::DryRunDone | Driver::Voided => (Exit::DONE, Event::Other),
        Driver::ReplayedFrom(run_id) => {
            summary.replayed_from = Some(run_id.to_string());
            (Exit::DONE, Event::Other)
        }
        Driver::Paused { ask, invalid, too_few } => {
            not_accepted.clone_from(invalid);
            still.clone_from(too_few);
            if invalid.iter().any(|one| one.invariant == PLAIN) {
                next = Some(format!("cutter orchestrate resume --run-id {}", driven.sidecar.run_id));
            }
            let moved = waited != Some(ask.request_path.as_str());
            let exit = if moved { Exit::DONE } else { Exit::APPROVAL };
            (exit, if moved { Event::Gate } else { Event::Other })
        }
        Driver::AwaitsDecision { ask, answer } => {
            next = Some(format!("cutter orchestrate resume --run-id {}", driven.sidecar.run_id));
            awaits = Some(answer.clone());
            let moved = waited != Some(ask.request_path.as_str());
            (if moved { Exit::DONE } else { Exit::APPROVAL }, Event::Other)
        }
        Driver::Stopped(stop) | Driver::Failed(stop) => (Exit::of(exit_code_of(&stop.code)), Event::Stop),
    };
    Presented {
        summary,
        approvals_not_accepted: not_accepted,
        awaits_decision: awaits,
        too_few: still,
        exit,
        event,
        next,
    }
}

impl Presented {
    /// A run that was only looked at.
    pub(crate) const fn still(summary: Summary) -> Self {
        Self {
            summary,
            approvals_not_accepted: Vec::new(),
            awaits_decision: None,
            too_few: None,
            exit: Exit::DONE,
            event: Event::Other,
            next: None,
        }
    }

    /// Tells the hooks.
    pub(crate) fn tell(&self, cx: &Context, config: &Config) {
        let document = serde_json::to_value(self).unwrap_or_default();
        match self.event {
            Event::Gate => wire::tell(&cx.out, "on_gate", &config.hooks.on_gate, &document),
            Event::Stop => wire::tell(&cx.out, "on_stop", &config.hooks.on_stop, &document),
            Event::Other => {}
        }
    }

    /// Shows it, tells the hooks, and gives the exit code.
    pub(crate) fn show(&self, cx: &Context, config: &Config) -> Outcome {
        self.tell(cx, config);
        if self.exit == Exit::APPROVAL
            && self.approvals_not_accepted.is_empty()
            && self.awaits_decision.is_none()
            && self.too_few.is_none()
            && self.summary.stop.is_none()
        {
            cx.out.warn("no approval that answers this request was found; the run waits as before");
        }
        cx.out.result_as(self.exit, || people(self), self)
    }
}

/// A run in a few lines.
pub(crate) fn people(presented: &Presented) -> String {
    let s = &presented.summary;
    let mut text = format!("{}  {}\n", paint(HEAD, &s.run_id), paint(DIM, &s.document_id));
    let mut rows = vec![("state", paint(state_style(s), &s.state))];
    if let Some(from) = &s.replayed_from {
        rows.push(("replayed", format!("nothing was needed: {from} has cut this version")));
    }
    if let Some(phase) = &s.phase {
        rows.push(("phase", phase.clone()));
    }
    if let Some(units) = s.units {
        rows.push(("units", units.to_string()));
    }
    if let Some(folder) = &s.kb_folder {
        rows.push(("documents", folder.clone()));
    }
    rows.push(("sidecar", s.sidecar_path.clone()));
    if let Some(paused) = &s.paused_at {
        rows.push(("request", paused.request_kb_id.clone()));
        rows.push(("approval", paused.approval_path.clone()));
    }
    if let Some(stop) = &s.stop {
        rows.push(("stop", stop.code.clone()));
        rows.push(("reason", stop.reason.clone()));
    }
    if let Some(answer) = &presented.awaits_decision {
        rows.push(("answered", answer.clone()));
        let waits = "a host with the reviewer's login stores the decision: cutter worker --duty review";
        rows.push(("waits for", waits.to_owned()));
    }
    if let Some(too_few) = &presented.too_few {
        rows.push(("waits for", too_few.to_string()));
    }
    if presented.approvals_not_accepted.iter().any(|one| one.invariant == PLAIN) {
        let waits = "a plain yes or no of whoever signed what is not plain, or that it is taken away";
        rows.push(("waits for", waits.to_owned()));
    }
    text.push_str(&render::fields(&rows));
    for considered in &presented.approvals_not_accepted {
        text.push_str(&format!(
            "{} {}\n  {}: {}\n",
            paint(BAD, "approval not accepted:"),
            considered.approval_kb_id,
            considered.invariant,
            considered.detail
        ));
    }
    let commands = presented.next.clone().map_or_else(|| next_commands(s), |only| vec![only]);
    for (i, next) in commands.iter().enumerate() {
        let label = if i == 0 { "next:" } else { "then:" };
        text.push_str(&format!("{} {next}\n", paint(HEAD, label)));
    }
    text
}

fn state_style(s: &Summary) -> anstyle::Style {
    if s.stop.is_some() {
        BAD
    } else if s.paused_at.is_some() {
        WARN
    } else {
        GOOD
    }
}

fn next_commands(s: &Summary) -> Vec<String> {
    let run = &s.run_id;
    if s.paused_at.is_some() {
        return vec![
            format!("cutter sovereign show --run-id {run}"),
            format!("cutter sovereign approve --run-id {run}"),
            format!("cutter orchestrate resume --run-id {run}"),
        ];
    }
    match &s.stop {
        Some(stop) => vec![stop.next.clone()],
        None if s.phase.is_none() => Vec::new(),
        None => vec![format!("cutter why --run-id {run}")],
    }
}
