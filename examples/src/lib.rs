//! The small set-up that the examples share: a world in memory with one document, one
//! operator and one person who may approve.
//!
//! Each example shows one thing and nothing else; run them with
//! `cargo run -p cutter-examples --example <name>`.

pub mod commands;

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{self, Caller, DriveError, Driven, NewRun, Outcome, Ports, ResumeOptions};
use cutter_core::port::run_store::LockHolder;
use cutter_core::record::approval::{Ask, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::observed::SourceRegistration;
use cutter_core::record::settings::RunSettings;
use cutter_core::record::sidecar::Mode;
use cutter_core::testing::memory::{World, block_on};
use cutter_core::text::profile::Profile;
use uuid::Uuid;

/// The document's id, which is also the prefix of its units' addresses.
pub const DOCUMENT: &str = "ICX-CHARTER";
/// Its text: a preamble and two articles.
pub const TEXT: &str = "# Charter\n\nWe agree.\n\n## Article 1\n\nSpeak.\n\n## Article 2\n\nListen.\n";
/// The person who approves.
pub const SOVEREIGN: &str = "ada";

/// What goes wrong in an example ends it.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A world and the settings of its runs.
pub struct Setup {
    /// Database, knowledge base, run store, backup target, keys and clock, in memory.
    pub world: World,
    /// Settings of its runs.
    pub settings: RunSettings,
}

impl Setup {
    /// A world in which [`TEXT`] is registered as [`DOCUMENT`].
    ///
    /// # Errors
    /// If the document cannot be registered.
    pub fn new() -> Result<Self> {
        let world = World::new(1);
        world.found_policy(&[SOVEREIGN]);
        let profile = Profile::built_in("markdown")?;
        let settings = RunSettings::new(SOVEREIGN, &world.backup_recipient(), profile);
        let setup = Self { world, settings };
        let ports = setup.ports();
        let id = |what: &str| ports.ids.uuid_v7(ports.clock.now(), what);
        block_on(ports.executor.register_source(&SourceRegistration {
            document_id: DOCUMENT.into(),
            title: "Charter".into(),
            source_document_id: id("document"),
            source_version_id: id("version"),
            content: TEXT.as_bytes().to_vec(),
            sha256: Digest::of(TEXT.as_bytes()),
            manifest_digest: None,
            actor: "operator".into(),
        }))?;
        Ok(setup)
    }

    /// The ports of a new process.
    #[must_use]
    pub fn ports(&self) -> Ports {
        self.world.process().ports().into()
    }

    /// The world's first run, if it has one.
    #[must_use]
    pub fn run_id(&self) -> Option<RunId> {
        self.world.runs().into_iter().next()
    }

    /// Starts a run and drives it to its first rest.
    ///
    /// # Errors
    /// What kept the run from starting.
    pub fn cut(&self, ports: &Ports, mode: Mode) -> std::result::Result<Driven, DriveError> {
        let request =
            NewRun { document_id: DOCUMENT.into(), mode, settings: self.settings.clone(), run_id: None };
        block_on(driver::cut(ports, &operator(), request))
    }

    /// Drives the run on.
    ///
    /// # Errors
    /// What kept the run from going on.
    pub fn resume(&self, ports: &Ports, run_id: &RunId) -> std::result::Result<Driven, DriveError> {
        block_on(driver::resume(ports, &operator(), run_id, &ResumeOptions::default()))
    }

    /// One command: a new run if there is none, else a resume.
    ///
    /// # Errors
    /// What the driver said.
    pub fn command(&self, ports: &Ports) -> std::result::Result<Driven, DriveError> {
        match self.run_id() {
            None => self.cut(ports, Mode::Live),
            Some(run_id) => self.resume(ports, &run_id),
        }
    }

    /// The sovereign's side: reads what is asked, signs, files the answer.
    pub fn approve(&self, ask: &Ask) {
        let now = self.world.now();
        let text = render_approval(ask, ReviewVerdict::Approve, SOVEREIGN, now, None, &BTreeMap::new());
        let signed = self.world.sign(&self.world.person(SOVEREIGN), &text);
        if self.world.document(&ask.approval_path).is_none() {
            self.world.file(&ask.approval_path, signed.as_bytes());
        }
    }

    /// Drives a run to its end, approving whatever it asks.
    ///
    /// # Errors
    /// What the driver said.
    pub fn to_the_end(&self) -> std::result::Result<Driven, DriveError> {
        loop {
            let driven = self.command(&self.ports())?;
            match &driven.outcome {
                Outcome::Paused { ask, .. } => self.approve(ask),
                _ => return Ok(driven),
            }
        }
    }
}

/// Who drives the runs.
#[must_use]
pub fn operator() -> Caller {
    Caller {
        actor: "operator".into(),
        holder: LockHolder {
            holder: Uuid::from_u128(1),
            host: "here".into(),
            pid: std::process::id(),
            since: "2026-01-02T03:04:05Z".into(),
            command: "example".into(),
        },
    }
}
