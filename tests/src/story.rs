//! Stories for the crash tests: a run with its people, told as a function of the world.

use cutter_core::driver::{self, DriveError, Driven, Ports, ask_for_stop};
use cutter_core::machine::run::{GateId, RunState, Stage};
use cutter_core::port::environment::{Observer, Progress};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::{Sidecar, StopRecord};
use cutter_core::report::naming::EscalationKind;
use cutter_core::testing::crash::{CrashWorld, Step};
use cutter_core::testing::memory::{World, block_on};
use serde_json::Value;

use crate::{SMALL, Scenario, caller};

/// What happens in a story besides what the driver does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plot {
    /// Both gates are approved.
    Whole,
    /// A stop at the first gate, a signed word to go on, then both gates.
    StopAndResume,
    /// The first gate is refused for good; the run is voided.
    Refuse,
    /// The first gate is deferred; later asked again and approved.
    Defer,
    /// A pinned function is replaced at the first gate; acknowledged; asked again.
    DriftAck,
    /// The run is voided at the second gate, when its units are drafts.
    VoidDrafts,
    /// A unit is damaged before write-verify: the failure is recorded, the run voided.
    VerifyFails,
}

impl Plot {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Whole,
        Self::StopAndResume,
        Self::Refuse,
        Self::Defer,
        Self::DriftAck,
        Self::VoidDrafts,
        Self::VerifyFails,
    ];
}

/// A story of one run.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    /// What happens.
    pub plot: Plot,
    /// The document's text.
    pub text: &'static str,
    /// Told undisturbed up to this stage: crashes come later. A stop-route report shows the
    /// record as it stood, the name of the backup in it, which a crash before the backup may
    /// change; stories with stops begin after it.
    pub from: Option<Stage>,
    /// Whether leftovers of lost backups count as a difference. A driver that slept may still
    /// store a blob that no record names; it is discarded, but not by the one that lost.
    pub leftovers: bool,
}

impl Story {
    /// A plot over the small document.
    pub fn small(plot: Plot) -> Self {
        let from = match plot {
            Plot::Whole => None,
            Plot::VoidDrafts => Some(Stage::AwaitingLifecycleAuthorization),
            _ => Some(Stage::AwaitingCutAuthorization),
        };
        Self { plot, text: SMALL, from, leftovers: true }
    }

    /// The command that comes next; `None` at the end.
    fn next(self, world: &World) -> Option<Command> {
        let Some(sidecar) = newest(world) else { return Some(Command::Cut) };
        let state = sidecar.run_state().expect("a stored state reads");
        let at = |stage| state == RunState::At(stage);
        match self.plot {
            _ if at(Stage::CloseoutReported) || matches!(state, RunState::Voided { .. }) => None,
            Plot::StopAndResume if at(Stage::AwaitingCutAuthorization) && sidecar.stops.is_empty() => {
                Some(Command::Stop)
            }
            Plot::VoidDrafts if state.stage() == Some(Stage::AwaitingLifecycleAuthorization) => {
                Some(Command::Void)
            }
            Plot::Refuse | Plot::VerifyFails
                if matches!(state, RunState::Failed { .. } | RunState::Stopped { .. }) =>
            {
                Some(Command::Void)
            }
            _ => Some(Command::Resume),
        }
    }

    /// What people do when they see the world as it stands. They sign as soon as there is
    /// something to sign, be the run parked or not.
    fn people(self, scenario: &Scenario) {
        let Some(sidecar) = newest(&scenario.world) else { return };
        let state = sidecar.run_state().expect("a stored state reads");
        if self.plot == Plot::DriftAck && state == RunState::At(Stage::AwaitingCutAuthorization) {
            scenario.world.alter_function("iu_core.fn_iu_create", "another body");
        }
        if let Some(stop) = sidecar.open_stop() {
            // a report that is not filed yet is read by nobody
            if let Some(kind) = self.word(stop).filter(|_| stop.uploaded.is_some()) {
                self.sign(scenario, &ask_for_stop(&sidecar, stop, kind), ReviewVerdict::Approve);
            }
        } else if let Some(ask) = &sidecar.ask {
            let decision = match self.plot {
                Plot::Refuse => ReviewVerdict::Reject,
                Plot::Defer if ask.occurrence == 1 && ask.gate == GateId::CutAuthz => ReviewVerdict::Defer,
                _ => ReviewVerdict::Approve,
            };
            // at the second gate of this plot nobody signs: the run is voided there
            if !(self.plot == Plot::VoidDrafts && ask.gate != GateId::CutAuthz) {
                self.sign(scenario, ask, decision);
            }
        }
    }

    fn word(self, stop: &StopRecord) -> Option<EscalationKind> {
        match self.plot {
            Plot::Whole => None,
            // what moved is shown at the gate, which is asked again
            Plot::DriftAck if !stop.observed.is_empty() && !stop.code.starts_with("STOP_BETWEEN") => None,
            Plot::Refuse | Plot::VoidDrafts | Plot::VerifyFails => Some(EscalationKind::Void),
            Plot::DriftAck if !stop.observed.is_empty() => Some(EscalationKind::DriftAck),
            _ => Some(EscalationKind::Resume),
        }
    }

    fn sign(self, scenario: &Scenario, ask: &cutter_core::record::approval::Ask, decision: ReviewVerdict) {
        let there = |path: &str| scenario.world.document(path).is_some();
        if there(&ask.request_path) && !there(&ask.approval_path) {
            scenario.sign(ask, decision);
        }
    }

    fn command(self, scenario: &Scenario, ports: &Ports, command: Command) -> Result<Driven, DriveError> {
        let run_id = scenario.world.runs().first().cloned();
        let (Some(run_id), false) = (run_id, command == Command::Cut) else { return scenario.cut(ports) };
        match command {
            Command::Stop => block_on(driver::stop(ports, &caller(), &run_id, "maintenance")),
            Command::Void => block_on(driver::void(ports, &caller(), &run_id, None)),
            Command::Cut | Command::Resume => scenario.resume(ports, &run_id),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Cut,
    Resume,
    Stop,
    Void,
}

/// The newest sidecar of a world's first run.
pub fn newest(world: &World) -> Option<Sidecar> {
    let run_id = world.runs().first().cloned()?;
    let stored = world.sidecar(&run_id)?;
    Some(Sidecar::from_bytes(&stored.bytes).expect("a stored sidecar reads"))
}

/// Damages a unit when write-verify starts: the same damage however often it starts.
struct Spoiler(World);

impl Observer for Spoiler {
    fn progress(&self, progress: &Progress) {
        if matches!(progress, Progress::PhaseStarted { phase: "write_verify", .. }) {
            let units = self.0.edit_unit(&format!("{}/art-1", crate::DOCUMENT), b"something else");
            units.expect("the small document has this unit");
        }
    }
}

impl CrashWorld for Story {
    type World = Scenario;

    fn fresh(&self) -> Scenario {
        let scenario = Scenario::with_text(1, self.text);
        let reached =
            |stage| newest(&scenario.world).and_then(|s| s.run_state().ok()?.stage()) >= Some(stage);
        if let Some(stage) = self.from {
            while !reached(stage) {
                let prologue = Self { plot: Plot::Whole, ..*self };
                prologue.drive(&scenario, &scenario.ports()).expect("the undisturbed beginning works");
            }
        }
        scenario
    }

    fn ports(&self, world: &Scenario) -> Ports {
        let ports = world.ports();
        if self.plot == Plot::VerifyFails {
            return Ports { observer: std::sync::Arc::new(Spoiler(world.world.clone())), ..ports };
        }
        ports
    }

    fn drive(&self, world: &Scenario, ports: &Ports) -> Result<Step, DriveError> {
        let Some(command) = self.next(&world.world) else {
            let run_id = world.world.runs()[0].clone();
            world.resume(ports, &run_id)?;
            return Ok(Step::Done);
        };
        self.people(world);
        self.command(world, ports, command)?;
        Ok(if self.next(&world.world).is_none() { Step::Done } else { Step::More })
    }

    fn snapshot(&self, world: &Scenario) -> String {
        snapshot(&world.world, self.leftovers)
    }
}

/// Everything that a crash must not change: rows, documents, claims, the recorded backup, and
/// the sidecar less what counts attempts (its revision, the epoch in the backup's name).
pub fn snapshot(world: &World, leftovers: bool) -> String {
    let mut text = world.snapshot();
    for run_id in world.runs() {
        let Some(stored) = world.sidecar(&run_id) else { continue };
        let mut record: Value = serde_json::from_slice(&stored.bytes).expect("a stored sidecar is JSON");
        let object = record.as_object_mut().expect("a sidecar is an object");
        object.remove("revision");
        object.remove("digest");
        // which wrong answers were looked at follows from when people signed
        object.remove("considered");
        let name = object.get_mut("backup").and_then(|b| b.get_mut("blob")?.get_mut("name").map(Value::take));
        if let Some(name) = name {
            let name = name.as_str().expect("a blob has a name").to_owned();
            let blobs = world.backups(&run_id);
            text.push_str(&format!("backup stored {}\n", blobs.contains(&name)));
            if leftovers {
                text.push_str(&format!("backups {}\n", blobs.len()));
            }
        }
        for (field, value) in object {
            text.push_str(&format!("sidecar {run_id} {field} {value}\n"));
        }
    }
    text
}
