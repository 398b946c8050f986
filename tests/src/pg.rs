//! A world on real adapters: PostgreSQL, folders, OpenPGP and Ed25519.
//!
//! [`PgWorld`] is what a deployment wires up, with throw-away keys and a person who signs
//! whatever is asked. A run is driven as the command line drives it: one command up to the
//! first gate, one to the second, one to the end. [`Meter`] counts what a run makes durable, so
//! that a benchmark can ask what that alone would cost.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "for tests and benches only")]

mod environment;
mod meter;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cutter_core::base::digest::{Digest, to_hex};
use cutter_core::driver::{self, Caller, Driven, NewRun, Outcome, Ports, ResumeOptions};
use cutter_core::port::environment::Clock as _;
use cutter_core::port::knowledge_base::KnowledgeBase;
use cutter_core::port::policy::PolicyStore as _;
use cutter_core::port::signer::Signer as _;
use cutter_core::record::approval::{Ask, render_approval};
use cutter_core::record::effect::{LegAWrite, ReviewVerdict};
use cutter_core::record::observed::{Registered, SourceRegistration};
use cutter_core::record::policy::{Change, Event, NewEvent, OPENPGP, PublicKeyRef};
use cutter_core::record::settings::RunSettings;
use cutter_core::record::sidecar::Mode;
use cutter_core::record::signature::Duty;
use cutter_core::text::profile::Profile;
use cutter_kb::backup_target::FolderBackupTarget;
use cutter_kb::folder::FolderKb;
use cutter_kb::openpgp::{KeyKind, KeyPair, Recipient};
use cutter_kb::ports::KeyRing;
use cutter_kb::run_store::FileRunStore;
use cutter_pg::PgDatabase;
use cutter_pg::backup::PgBackupSource;
use cutter_pg::login::Login;
use cutter_pg::policy::PgPolicyStore;
use cutter_pg::testing::{TestDatabase, TestServer};
use futures_executor::block_on;

pub use self::environment::{Ids, Keys, SystemClock};
pub use self::meter::{Counts, Meter, OpTime, PhaseTime};
use crate::SOVEREIGN;

/// The logins that a run uses.
const LOGINS: [Login; 4] = [Login::Exec, Login::Verify, Login::Review, Login::Ro];

/// A database, folders, keys and people.
pub struct PgWorld {
    /// The database, dropped with the world.
    pub database: TestDatabase,
    /// Settings of the runs.
    pub settings: RunSettings,
    home: tempfile::TempDir,
    sovereign: KeyPair,
    recipient: KeyPair,
    keys: Arc<Keys>,
}

/// What a whole run took.
#[derive(Debug, Clone)]
pub struct RunTimes {
    /// From the first command to the end of the last one, people's time left out.
    pub total: Duration,
    /// By phase, in order; waiting for people is in none of them.
    pub phases: Vec<PhaseTime>,
    /// Port calls by name, the costliest first.
    pub ops: Vec<(String, OpTime)>,
    /// What leg A was asked to write.
    pub leg_a: LegAWrite,
    /// What was made durable.
    pub counts: Counts,
    /// How it ended.
    pub driven: Driven,
}

impl PgWorld {
    /// A world over a new database of `server`.
    #[must_use]
    pub fn new(server: &TestServer) -> Self {
        Self::over(server.fresh_database())
    }

    /// A world over a database that stands.
    #[must_use]
    pub fn over(database: TestDatabase) -> Self {
        let sovereign = KeyPair::generate("Ada <ada@example.org>", KeyKind::Sign).unwrap();
        let recipient = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
        let profile = Profile::built_in("markdown").unwrap();
        let settings = RunSettings::new(SOVEREIGN, &recipient.fingerprint().to_string(), profile);
        let home = tempfile::tempdir().unwrap();
        let world = Self { database, settings, home, sovereign, recipient, keys: Arc::new(Keys::generate()) };
        world.found_policy();
        world
    }

    /// Founds the policy, unless one stands: the sovereign may approve, and the duties' keys.
    fn found_policy(&self) {
        let key = self.sovereign.public().armored().unwrap();
        let fingerprint = self.sovereign.fingerprint().to_string();
        let reference =
            PublicKeyRef { kind: OPENPGP.into(), fingerprint, sha256: Digest::of(key.as_bytes()) };
        let mut changes = vec![Change::Founded { chain: Ids.mint() }];
        for duty in [Duty::Executor, Duty::Verifier] {
            let public_key = block_on(self.keys.public_key(duty)).unwrap();
            changes.push(Change::DutyKeyRegistered { duty, public_key: to_hex(&public_key) });
        }
        changes.push(Change::ApproverAdded { person: SOVEREIGN.into(), key: reference });
        let at = SystemClock.now();
        let document = Event { seq: 1, previous: None, at, why: String::new(), changes }.text();
        let event = NewEvent { seq: 1, previous: None, document, keys: vec![key] };
        let store = PgPolicyStore::connect(self.database.dsn(Login::Admin));
        block_on(store.append(&event)).unwrap();
    }

    /// The database port, with connections of its own.
    #[must_use]
    pub fn port(&self) -> Arc<PgDatabase> {
        Arc::new(PgDatabase::connect(LOGINS.map(|login| (login, self.database.dsn(login)))))
    }

    /// The knowledge base.
    #[must_use]
    pub fn kb(&self) -> FolderKb {
        FolderKb::new(self.home.path().join("kb"))
    }

    /// The run store.
    #[must_use]
    pub fn runs(&self) -> FileRunStore {
        FileRunStore::new(self.home.path().join("runs"))
    }

    /// Every port, over new connections.
    #[must_use]
    pub fn ports(&self) -> Ports {
        self.ports_over(self.port())
    }

    /// Every port, over these connections.
    #[must_use]
    pub fn ports_over(&self, database: Arc<PgDatabase>) -> Ports {
        let now = SystemClock.now();
        let recipient = Recipient::new(&self.recipient.public(), &self.recipient.fingerprint(), now).unwrap();
        Ports {
            reader: database.clone(),
            executor: database.clone(),
            reviewer: Some(database.clone()),
            verifier: database,
            kb: Arc::new(self.kb()),
            runs: Arc::new(self.runs()),
            backup_source: Arc::new(PgBackupSource::new(self.database.dsn(Login::Ro))),
            backup_target: Arc::new(FolderBackupTarget::new(self.runs(), recipient)),
            clock: Arc::new(SystemClock),
            ids: Arc::new(Ids),
            signer: self.keys.clone(),
            signatures: Arc::new(KeyRing::new(vec![self.sovereign.public(), self.keys.operator()])),
            observer: Arc::new(cutter_core::port::environment::Silent),
            own_gates: Vec::new(),
            interrupt: Arc::new(cutter_core::driver::Never),
        }
    }

    /// Registers `text` as (a new version of) a document.
    pub fn register(&self, ports: &Ports, document_id: &str, text: &str) -> Registered {
        block_on(ports.executor.register_source(&registration(document_id, text))).unwrap()
    }

    /// Signs the answer that the sovereign gives, and files it where it is expected.
    pub fn sign(&self, ask: &Ask, decision: ReviewVerdict) {
        let now = SystemClock.now();
        let text = render_approval(ask, decision, SOVEREIGN, now, None, &BTreeMap::new());
        let document = self.sovereign.clearsign(&text, now).unwrap();
        block_on(KnowledgeBase::create(&self.kb(), &ask.approval_path, document.as_bytes())).unwrap();
    }

    /// Cuts a registered document through both gates to its end. `ports` gives the ports of
    /// each command: the same ones for an embedder, new ones for the command line.
    ///
    /// # Panics
    /// If the run does not close out; the message says where it stands.
    pub fn cut(&self, document_id: &str, mut ports: impl FnMut() -> Ports) -> RunTimes {
        let meter = Arc::new(Meter::default());
        let request = NewRun {
            document_id: document_id.into(),
            mode: Mode::Live,
            settings: self.settings.clone(),
            run_id: None,
        };
        let caller = caller();
        let mut total = Duration::ZERO;
        let started = Instant::now();
        let mut driven = block_on(driver::cut(&meter.over(ports()), &caller, request)).unwrap();
        total += started.elapsed();
        while let Outcome::Paused { ask, .. } = &driven.outcome {
            self.sign(ask, ReviewVerdict::Approve);
            let run_id = driven.sidecar.run_id.clone();
            let started = Instant::now();
            let options = ResumeOptions::default();
            driven = block_on(driver::resume(&meter.over(ports()), &caller, &run_id, &options)).unwrap();
            total += started.elapsed();
        }
        let sidecar = &driven.sidecar;
        assert_eq!(driven.outcome, Outcome::Completed, "{:?} {:?}", sidecar.state, sidecar.last_error);
        RunTimes {
            total,
            phases: meter.phases(),
            ops: meter.ops(),
            leg_a: meter.leg_a().unwrap(),
            counts: meter.counts(),
            driven,
        }
    }

    /// Registers a text and cuts it over connections that stay open.
    pub fn run_document(&self, document_id: &str, text: &str) -> RunTimes {
        let ports = self.ports();
        self.register(&ports, document_id, text);
        self.cut(document_id, || ports.clone())
    }
}

impl RunTimes {
    /// The time of all calls of one name; zero if there was none.
    #[must_use]
    pub fn op(&self, name: &str) -> Duration {
        self.ops.iter().find(|(n, _)| n == name).map_or(Duration::ZERO, |(_, op)| op.took)
    }
}

/// What registers `text` as a document.
#[must_use]
pub fn registration(document_id: &str, text: &str) -> SourceRegistration {
    SourceRegistration {
        document_id: document_id.into(),
        title: document_id.into(),
        source_document_id: Ids.mint(),
        source_version_id: Ids.mint(),
        content: text.as_bytes().to_vec(),
        sha256: Digest::of(text.as_bytes()),
        manifest_digest: None,
        actor: "op".into(),
    }
}

/// The operator, as this process.
#[must_use]
pub fn caller() -> Caller {
    let mut caller = crate::caller();
    caller.holder.holder = Ids.mint();
    caller.holder.pid = std::process::id();
    caller
}

/// A Markdown text that is cut into `units` units: a title and articles of some 300 bytes.
#[must_use]
pub fn document_of(units: usize, seed: &str) -> String {
    let mut text = format!("# Law {seed}\n\n");
    for n in 1..units {
        let clause =
            format!("Whoever acts under number {n} of {seed} shall keep a record of what was done. ");
        text.push_str(&format!("## Article {n} Of duties\n\n{}\n\n", clause.repeat(3).trim_end()));
    }
    text
}
