//! Builders shared by the cross-crate tests: a whole run on memory ports.

pub mod attack;
pub mod cli;
pub mod look;
pub mod mutants;
pub mod pg;
pub mod refusal;
pub mod story;

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{self, Caller, DriveError, Driven, NewRun, Outcome, Ports, ResumeOptions};
use cutter_core::port::run_store::LockHolder;
use cutter_core::record::approval::{Ask, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::observed::SourceRegistration;
use cutter_core::record::policy::Change;
use cutter_core::record::settings::RunSettings;
use cutter_core::record::sidecar::Mode;
use cutter_core::testing::memory::{FaultPlan, Process, World, block_on};
use cutter_core::text::profile::Profile;
use uuid::Uuid;

/// The document that most scenarios cut.
pub const DOCUMENT: &str = "ICX-CHARTER";
/// The approving human.
pub const SOVEREIGN: &str = "ada";
/// A text with seven units, a duplicate among them.
pub const TEXT: &str = "# Charter\n\nWe agree.\n\n## Chapter 1 Rights\n\nOf rights.\n\n### Article 1 Speech\n\n\
Everyone may speak.\n\n### Article 2 Silence\n\nNobody must.\n\n## Chapter 2 Duties\n\n### Article 3 Care\n\n\
Take care.\n\n### Article 3 Care\n\nTake care again.\n";

/// A text with three units.
pub const SMALL: &str = "# Charter\n\nWe agree.\n\n## Article 1\n\nSpeak.\n\n## Article 2\n\nListen.\n";

/// A world, its people and settings.
pub struct Scenario {
    /// The world.
    pub world: World,
    /// Settings of its runs.
    pub settings: RunSettings,
    /// The document's text.
    pub text: String,
}

impl Scenario {
    /// A world in which [`TEXT`] is registered as [`DOCUMENT`].
    pub fn new(seed: u64) -> Self {
        Self::with_text(seed, TEXT)
    }

    /// A world in which `text` is registered as [`DOCUMENT`].
    pub fn with_text(seed: u64, text: &str) -> Self {
        let world = World::new(seed);
        world.found_policy(&[SOVEREIGN]);
        let profile = Profile::built_in("markdown").expect("the built-in profile reads");
        let settings = RunSettings::new(SOVEREIGN, &world.backup_recipient(), profile);
        let scenario = Self { world, settings, text: text.into() };
        scenario.register(text);
        scenario
    }

    /// Changes the policy by the sovereign's word.
    pub fn change_policy(&self, changes: Vec<Change>) {
        self.world.change_policy(changes, Some(&self.world.person(SOVEREIGN)));
    }

    /// Registers a (new) version of the document.
    pub fn register(&self, text: &str) {
        self.register_bytes(text.as_bytes());
    }

    /// Registers bytes, whatever they are, as a (new) version of the document.
    pub fn register_bytes(&self, content: &[u8]) {
        let ports = self.world.process().ports();
        let sha256 = Digest::of(content);
        // the same text may be registered again after another one
        let again = match self.rows_of("source_version").len() {
            0 => String::new(),
            n => format!("/{n}"),
        };
        let ids =
            |what: &str| ports.ids.uuid_v7(ports.clock.now(), &format!("source/{what}/{sha256}{again}"));
        let registration = SourceRegistration {
            document_id: DOCUMENT.into(),
            title: "Charter".into(),
            source_document_id: ids("document"),
            source_version_id: ids("version"),
            content: content.to_vec(),
            sha256,
            manifest_digest: None,
            actor: "op".into(),
        };
        block_on(ports.executor.register_source(&registration)).expect("registering works");
    }

    /// The ports of a new process life.
    pub fn process(&self, plan: FaultPlan) -> (Process, Ports) {
        let process = self.world.process_with(plan);
        let ports = process.ports().into();
        (process, ports)
    }

    /// Ports without faults.
    pub fn ports(&self) -> Ports {
        self.process(FaultPlan::default()).1
    }

    /// Starts a run.
    pub fn cut(&self, ports: &Ports) -> Result<Driven, DriveError> {
        self.cut_mode(ports, Mode::Live)
    }

    /// Starts a run in a mode.
    pub fn cut_mode(&self, ports: &Ports, mode: Mode) -> Result<Driven, DriveError> {
        let request =
            NewRun { document_id: DOCUMENT.into(), mode, settings: self.settings.clone(), run_id: None };
        block_on(driver::cut(ports, &caller(), request))
    }

    /// Resumes a run.
    pub fn resume(&self, ports: &Ports, run_id: &RunId) -> Result<Driven, DriveError> {
        block_on(driver::resume(ports, &caller(), run_id, &ResumeOptions::default()))
    }

    /// The answer that the sovereign signs, as text.
    pub fn answer(&self, ask: &Ask, decision: ReviewVerdict) -> String {
        render_approval(ask, decision, SOVEREIGN, self.world.now(), None, &BTreeMap::new())
    }

    /// Files a signed answer where it is expected.
    pub fn sign(&self, ask: &Ask, decision: ReviewVerdict) {
        let text = self.answer(ask, decision);
        let document = self.world.sign(&self.world.person(SOVEREIGN), &text);
        self.world.file(&ask.approval_path, document.as_bytes());
    }

    /// Signs whatever a run that is parked asks; gives back whether it asked.
    pub fn sign_if_asked(&self, outcome: &Outcome) -> bool {
        if let Outcome::Paused { ask, .. } = outcome {
            self.sign(ask, ReviewVerdict::Approve);
            return true;
        }
        false
    }

    /// Drives a run through both gates to its end.
    pub fn whole_run(&self) -> Result<Driven, DriveError> {
        let mut driven = self.cut(&self.ports())?;
        while self.sign_if_asked(&driven.outcome) {
            driven = self.resume(&self.ports(), &driven.sidecar.run_id.clone())?;
        }
        Ok(driven)
    }
}

/// The operator.
pub fn caller() -> Caller {
    Caller {
        actor: "op".into(),
        holder: LockHolder {
            holder: Uuid::from_u128(7),
            host: "here".into(),
            pid: 1,
            since: "2026-01-01T00:00:00Z".into(),
            command: "test".into(),
        },
    }
}

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The example of the recipes, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../CONTRIBUTING.md")]
pub struct Contributing;
