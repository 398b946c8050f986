//! The world, its lives, and the gate between them.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::backup::{Backups, MemoryBackupSource, MemoryBackupTarget};
use super::command_ledger::{Commands, MemoryLedger};
use super::database::MemoryDatabase;
use super::environment::{MemoryClock, MemoryIds, Recorder};
use super::fault::{Call, Fault, FaultPlan, Life, Passage, hide, unknown};
use super::knowledge_base::{Documents, MemoryKnowledgeBase};
use super::observe::Catalogue;
use super::rows::Tables;
use super::run_store::{MemoryRunStore, Runs};
use super::signer::{KeyRing, MemorySignatures, MemorySigner};
use crate::base::digest::Digest;
use crate::port::backlog::Backlog;
use crate::port::backup::{BackupSource, BackupTarget};
use crate::port::cut_request::CutRequests;
use crate::port::database::{Executor, Reader, Reviewer, Verifier};
use crate::port::environment::{Clock, IdSource, Observer};
use crate::port::knowledge_base::KnowledgeBase;
use crate::port::policy::PolicyStore;
use crate::port::run_store::RunStore;
use crate::port::signer::{SignatureVerifier, Signer};
use crate::port::{Port, PortResult};
use crate::record::policy::PolicyRecord;

/// When every world begins: 2026-01-02T03:04:05Z.
const START_SECOND: i64 = 1_767_323_045;

/// Everything that is stored.
pub(super) struct Data {
    pub(super) seed: u64,
    pub(super) now: Timestamp,
    pub(super) tables: Tables,
    /// Rises with every commit: an open transaction sees that others came first.
    pub(super) commits: u64,
    pub(super) catalogue: Catalogue,
    /// Rises with every change of rows behind the ports.
    pub(super) alterations: u64,
    pub(super) documents: Documents,
    pub(super) runs: Runs,
    pub(super) backups: Backups,
    pub(super) commands: Commands,
    pub(super) keys: KeyRing,
    pub(super) policy: PolicyRecord,
}

pub(super) struct Inner {
    pub(super) data: Data,
    lives: Vec<Life>,
}

/// Everything outside of the driver. Cheap to clone; clones are the same world.
#[derive(Clone)]
pub struct World(Arc<Mutex<Inner>>);

impl World {
    /// An empty world. Equal seeds give equal ids, keys and nonces.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let data = Data {
            seed,
            now: Timestamp::from_second(START_SECOND).unwrap_or_default(),
            tables: Tables::default(),
            commits: 0,
            catalogue: Catalogue::default(),
            alterations: 0,
            documents: Documents::default(),
            runs: Runs::default(),
            backups: Backups::new(fingerprint(seed, "backup")),
            commands: Commands::default(),
            keys: KeyRing::new(seed),
            policy: PolicyRecord::default(),
        };
        Self::of(data)
    }

    pub(super) fn of(data: Data) -> Self {
        Self(Arc::new(Mutex::new(Inner { data, lives: Vec::new() })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process in which nothing goes wrong. Processes live side by side until they
    /// are killed.
    #[must_use]
    pub fn process(&self) -> Process {
        self.process_with(FaultPlan::default())
    }

    /// Starts a process with planned failures; its calls are counted from 1.
    #[must_use]
    pub fn process_with(&self, plan: FaultPlan) -> Process {
        let mut inner = self.lock();
        inner.lives.push(Life::new(plan));
        let life = inner.lives.len() - 1;
        drop(inner);
        Process { world: self.clone(), life, recorder: Recorder::default() }
    }

    /// The calls of the newest process, in order.
    #[must_use]
    pub fn trace(&self) -> Vec<Call> {
        self.lock().lives.last().map(|life| life.trace().to_vec()).unwrap_or_default()
    }

    /// The time of the world.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lock().data.now
    }

    /// Moves the clock forward.
    pub fn advance(&self, millis: u64) {
        advance(&mut self.lock().data, millis);
    }

    /// Ids and nonces come from another seed from now on: call it before a second run, whose
    /// purposes have the same names as those of the first.
    pub fn reseed(&self, seed: u64) {
        self.lock().data.seed = seed;
    }

    /// The fingerprint of the operator who creates runs.
    #[must_use]
    pub fn operator(&self) -> String {
        self.lock().data.keys.operator().into()
    }

    /// The fingerprint of a person's key, which is known and good from now on. Another name
    /// is another key.
    #[must_use]
    pub fn person(&self, name: &str) -> String {
        self.lock().data.keys.person(name)
    }

    /// Clear-signs a text as a person would, at the world's time.
    #[must_use]
    pub fn sign(&self, fingerprint: &str, text: &str) -> String {
        let now = self.now();
        super::signer::seal(fingerprint, now, text)
    }
}

pub(super) fn advance(data: &mut Data, millis: u64) {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    let later = data.now.checked_add(jiff::SignedDuration::from_millis(millis));
    data.now = later.unwrap_or(Timestamp::MAX);
}

/// Forty upper-case hex digits, as an OpenPGP v4 fingerprint has.
pub(super) fn fingerprint(seed: u64, name: &str) -> String {
    Digest::of(format!("fingerprint {seed} {name}").as_bytes()).short(40).to_uppercase()
}

/// One life of a driver. Clones are the same life.
#[derive(Clone)]
pub struct Process {
    pub(super) world: World,
    life: usize,
    recorder: Recorder,
}

impl Process {
    /// The world that it lives in.
    #[must_use]
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// A full set of ports, all bound to this life.
    #[must_use]
    pub fn ports(&self) -> MemoryPorts {
        let database = Arc::new(MemoryDatabase(self.clone()));
        MemoryPorts {
            reader: database.clone(),
            executor: database.clone(),
            reviewer: database.clone(),
            verifier: database.clone(),
            requests: database.clone(),
            policy: database.clone(),
            backlog: database,
            kb: Arc::new(MemoryKnowledgeBase(self.clone())),
            runs: Arc::new(MemoryRunStore(self.clone())),
            backup_source: Arc::new(MemoryBackupSource(self.clone())),
            backup_target: Arc::new(MemoryBackupTarget(self.clone())),
            clock: Arc::new(MemoryClock(self.world.clone())),
            ids: Arc::new(MemoryIds(self.world.clone())),
            signer: Arc::new(MemorySigner(self.clone())),
            signatures: Arc::new(MemorySignatures(self.clone())),
            observer: Arc::new(self.recorder.clone()),
        }
    }

    /// The command ledger, bound to this life.
    #[must_use]
    pub fn ledger(&self) -> Arc<MemoryLedger> {
        Arc::new(MemoryLedger(self.clone()))
    }

    /// The calls of this life so far, in order.
    #[must_use]
    pub fn trace(&self) -> Vec<Call> {
        self.with_life(|life| life.trace().to_vec()).unwrap_or_default()
    }

    /// Plans another failure. Numbers of calls still count from the start of this life.
    pub fn inject(&self, fault: Fault) {
        self.with_life(|life| life.inject(fault));
    }

    /// Whether the process died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.with_life(|life| life.is_dead()).unwrap_or(true)
    }

    /// Kills the process between two calls, as `kill -9` would.
    pub fn kill(&self) {
        let mut inner = self.world.lock();
        self.end(&mut inner, Port::Of("process"), "kill");
    }

    /// What it showed to people so far.
    #[must_use]
    pub fn progress(&self) -> Vec<crate::port::environment::Progress> {
        self.recorder.seen()
    }

    fn with_life<T>(&self, f: impl FnOnce(&mut Life) -> T) -> Option<T> {
        self.world.lock().lives.get_mut(self.life).map(f)
    }

    fn end(&self, inner: &mut Inner, port: Port, op: &str) {
        if let Some(life) = inner.lives.get_mut(self.life) {
            life.kill(port, op);
        }
        inner.data.runs.release_all(self.life);
    }

    /// The number that locks carry.
    pub(super) const fn life(&self) -> usize {
        self.life
    }

    /// The gate: every fallible call of every port goes through here, and holds the world
    /// while it works.
    pub(super) fn call<T>(
        &self,
        port: Port,
        op: &str,
        work: impl FnOnce(&mut Data) -> PortResult<T>,
    ) -> PortResult<T> {
        let mut inner = self.world.lock();
        let Some(life) = inner.lives.get_mut(self.life) else {
            return Err(Life::default().death(port, op));
        };
        match life.enter(port, op) {
            Passage::Open => work(&mut inner.data),
            Passage::Closed(error) => Err(error),
            Passage::ClosedAndDie(error) => {
                self.end(&mut inner, port, op);
                Err(error)
            }
            Passage::OpenThenUnknown => hide(work(&mut inner.data), unknown(port, op)),
            Passage::OpenThenDie => {
                let result = work(&mut inner.data);
                self.end(&mut inner, port, op);
                let death = inner
                    .lives
                    .get(self.life)
                    .map_or_else(|| Life::default().death(port, op), |life| life.death(port, op));
                // what the call handed out (a lock, a transaction) dies with the process,
                // after the world is free again
                drop(inner);
                hide(result, death)
            }
        }
    }
}

/// All ports of one process.
#[derive(Clone)]
pub struct MemoryPorts {
    /// The observing principal.
    pub reader: Arc<dyn Reader>,
    /// The cutting principal.
    pub executor: Arc<dyn Executor>,
    /// The principal that stores decisions.
    pub reviewer: Arc<dyn Reviewer>,
    /// The verifying principal.
    pub verifier: Arc<dyn Verifier>,
    /// Cut requests.
    pub requests: Arc<dyn CutRequests>,
    /// The administrator's side of the policy.
    pub policy: Arc<dyn PolicyStore>,
    /// The backlog outside of a run.
    pub backlog: Arc<dyn Backlog>,
    /// The knowledge base.
    pub kb: Arc<dyn KnowledgeBase>,
    /// Sidecars, locks, claims.
    pub runs: Arc<dyn RunStore>,
    /// Where backups come from.
    pub backup_source: Arc<dyn BackupSource>,
    /// Where backups go.
    pub backup_target: Arc<dyn BackupTarget>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn IdSource>,
    /// The run's own signatures.
    pub signer: Arc<dyn Signer>,
    /// Checks people's signatures.
    pub signatures: Arc<dyn SignatureVerifier>,
    /// Receives progress.
    pub observer: Arc<dyn Observer>,
}

impl From<MemoryPorts> for crate::driver::Ports {
    fn from(ports: MemoryPorts) -> Self {
        Self {
            reader: ports.reader,
            executor: ports.executor,
            reviewer: Some(ports.reviewer),
            verifier: ports.verifier,
            kb: ports.kb,
            runs: ports.runs,
            backup_source: ports.backup_source,
            backup_target: ports.backup_target,
            clock: ports.clock,
            ids: ports.ids,
            signer: ports.signer,
            signatures: ports.signatures,
            observer: ports.observer,
            own_gates: Vec::new(),
            interrupt: Arc::new(crate::driver::Never),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PortErrorKind;
    use crate::testing::memory::{FaultKind, block_on};

    const _: fn() = || {
        fn sendable<T: Send + Sync>() {}
        sendable::<MemoryPorts>();
        sendable::<World>();
    };

    #[test]
    fn a_dead_process_stays_dead_and_a_new_one_lives() {
        let world = World::new(1);
        for kind in [FaultKind::DieBefore, FaultKind::DieAfter] {
            let process = world.process_with(FaultPlan::one(Fault::at(2, kind)));
            let ports = process.ports();
            let path = alloc::format!("{kind:?}/a.md");
            assert!(block_on(ports.kb.read("x/y.md")).is_ok());
            let death = block_on(ports.kb.create(&path, b"a")).unwrap_err();
            assert_eq!(death.kind, PortErrorKind::Unavailable);
            assert!(death.message.starts_with("process is dead"), "{death}");
            assert!(process.is_dead());
            let later = block_on(ports.kb.read(&path)).unwrap_err();
            assert!(later.message.starts_with("process is dead"), "{later}");
            let found = block_on(world.process().ports().kb.read(&path)).unwrap();
            assert_eq!(found.is_some(), kind == FaultKind::DieAfter);
            assert_eq!(process.trace().len(), 2, "refused calls of the dead are not calls");
        }
    }

    #[test]
    fn an_outcome_that_is_unknown_may_be_either() {
        let world = World::new(1);
        for (kind, done) in [(FaultKind::UnknownDone, true), (FaultKind::UnknownNotDone, false)] {
            let process = world.process_with(FaultPlan::one(Fault::on(Port::KnowledgeBase, "create", kind)));
            let ports = process.ports();
            let path = alloc::format!("{kind:?}/a.md");
            let error = block_on(ports.kb.create(&path, b"a")).unwrap_err();
            assert_eq!(error.kind, PortErrorKind::OutcomeUnknown);
            assert_eq!(block_on(ports.kb.read(&path)).unwrap().is_some(), done);
        }
    }

    #[test]
    fn a_failure_lasts_as_often_as_it_was_planned() {
        let world = World::new(1);
        let kind = FaultKind::Fail { kind: PortErrorKind::Full, times: 3 };
        let ports =
            world.process_with(FaultPlan::one(Fault::on(Port::KnowledgeBase, "create", kind))).ports();
        for _ in 0..3 {
            let error = block_on(ports.kb.create("a/b.md", b"a")).unwrap_err();
            assert_eq!(error.kind, PortErrorKind::Full);
            assert!(block_on(ports.kb.read("a/b.md")).unwrap().is_none());
        }
        assert!(block_on(ports.kb.create("a/b.md", b"a")).is_ok());
    }

    #[test]
    fn ids_follow_seed_and_purpose() {
        let mint = |seed: u64, purpose: &str| {
            let world = World::new(seed);
            world.process().ports().ids.uuid_v7(world.now(), purpose)
        };
        assert_eq!(mint(1, "a"), mint(1, "a"));
        assert_ne!(mint(1, "a"), mint(1, "b"));
        assert_ne!(mint(1, "a"), mint(2, "a"));
        let world = World::new(1);
        world.reseed(2);
        assert_eq!(world.process().ports().ids.uuid_v7(world.now(), "a"), mint(2, "a"));
    }
}
