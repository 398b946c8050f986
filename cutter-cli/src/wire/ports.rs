//! Opening adapters.

use std::sync::Arc;

use cutter_core::driver::{Never, Ports};
use cutter_core::operate::review::ReviewPorts;
use cutter_core::port::cut_request::CutRequests;
use cutter_core::port::knowledge_base::KnowledgeBase;
use cutter_core::port::run_store::RunStore;
use cutter_core::port::{Port, PortError, PortResult};
use cutter_kb::openpgp::Recipient;
use cutter_kb::run_store::FileRunStore;
use cutter_pg::backup::PgBackupSource;
use cutter_pg::cluster::{ClusterError, ClusterOptions, ClusterStatus, PrivateCluster};
use cutter_pg::dsn::Dsn;
use cutter_pg::login::Login;
use cutter_pg::{PgDatabase, PgRunStore};

use super::{KeySigner, RandomIds, SystemClock, backup_target, key_ring, knowledge_base, load_public, now};
use crate::config::{Config, RunsIn};
use crate::failure::Failure;
use crate::progress::Shown;
use crate::render::Out;

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Self::stopped("STOP_DATABASE_UNAVAILABLE", error.to_string()).next("cutter doctor")
    }
}

/// A store's failure.
pub(crate) fn file_failure(error: cutter_kb::file_error::FileError) -> Failure {
    PortError::new(
        Port::RunStore,
        error.op,
        error.kind,
        format!("{}: {}", error.path.display(), error.detail),
    )
    .into()
}

/// What needs neither database nor keys: the knowledge base and the runs.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) kb: Arc<dyn KnowledgeBase>,
    pub(crate) runs: Arc<dyn RunStore>,
    /// The runs' folders: of their state, where it is in files, and of backups.
    pub(crate) files: FileRunStore,
    /// The state of runs, where it is in the database.
    pub(crate) shared: Option<Arc<PgRunStore>>,
}

/// Opens the stores; makes nothing. Runs in the database are asked for when they are needed.
pub(crate) fn stores(config: &Config) -> Result<Stores, Failure> {
    let files = FileRunStore::new(&config.runs_dir);
    let kb = knowledge_base(config)?;
    Ok(match config.runs {
        RunsIn::File => Stores { kb, runs: Arc::new(files.clone()), files, shared: None },
        RunsIn::Pg => {
            let shared = Arc::new(shared_runs(config)?);
            Stores { kb, runs: shared.clone(), files, shared: Some(shared) }
        }
    })
}

/// The run store in the database.
pub(crate) fn shared_runs(config: &Config) -> Result<PgRunStore, Failure> {
    let dsns = connections(config, &[Login::Exec, Login::Ro])?;
    PgRunStore::of(&dsns).map(|runs| runs.waiting().lease(config.run_lease)).ok_or_else(|| {
        Failure::usage("the state of runs is in the database, and no connection is configured for it")
            .next("cutter doctor")
    })
}

/// The private server of the home.
pub(crate) fn private_cluster(config: &Config) -> Result<PrivateCluster, Failure> {
    let mut options = ClusterOptions::new();
    if let Some(folder) = &config.pg_bin {
        options = options.bin_folder(folder);
    }
    Ok(PrivateCluster::open(&config.home, options)?)
}

/// How closed the home may be: the user that the private server runs as must get through where root
/// keeps the server inside.
pub(crate) fn home_mode(config: &Config) -> u32 {
    let is_entered = config.is_private_database()
        && private_cluster(config).is_ok_and(|cluster| cluster.is_entered_through_home());
    if is_entered { 0o711 } else { 0o700 }
}

/// Connection strings for these logins; the private server is started if it is down. Only for the
/// administrator is one made: whoever looks finds what there is.
pub(crate) fn connections(config: &Config, logins: &[Login]) -> Result<Vec<(Login, Dsn)>, Failure> {
    if config.is_private_database() {
        if !config.home.exists() {
            return Err(
                Failure::usage(format!("{} is not there yet", config.home.display())).next("cutter init")
            );
        }
        let cluster = private_cluster(config)?;
        if !logins.contains(&Login::Admin) && matches!(cluster.status()?, ClusterStatus::Absent) {
            let what = format!("there is no database: {} has no server yet", config.home.display());
            return Err(Failure::usage(what).next("cutter init"));
        }
        cluster.start()?;
        return logins.iter().map(|login| Ok((*login, cluster.dsn(*login)?))).collect();
    }
    let configured = |login: &Login| config.dsns.get(login).map(|dsn| (*login, dsn.clone()));
    Ok(logins.iter().filter_map(configured).collect())
}

/// The database for someone who only looks.
pub(crate) fn reader(config: &Config) -> Result<PgDatabase, Failure> {
    let dsns = connections(config, &[Login::Ro])?;
    if dsns.is_empty() {
        return Err(no_connection("database.reader", "for the login that reads"));
    }
    Ok(PgDatabase::connect(dsns))
}

/// What the review duty needs: it reads by its own login where it has no other one.
pub(crate) fn review(config: &Config) -> Result<ReviewPorts, Failure> {
    let mut dsns = connections(config, &[Login::Ro, Login::Review])?;
    let own = dsns.iter().find(|(login, _)| *login == Login::Review).map(|(_, dsn)| dsn.clone());
    let own = own.ok_or_else(|| no_connection("database.reviewer", "for the login that stores decisions"))?;
    if !dsns.iter().any(|(login, _)| *login == Login::Ro) {
        dsns.push((Login::Ro, own));
    }
    let database = Arc::new(PgDatabase::connect(dsns));
    Ok(ReviewPorts {
        reader: database.clone(),
        reviewer: database,
        kb: knowledge_base(config)?,
        signatures: Arc::new(key_ring(config)?),
    })
}

/// A configuration that is meant for another duty.
fn no_connection(key: &str, whose: &str) -> Failure {
    let variable = format!("CUTTER_DSN_{}", key.rsplit('.').next().unwrap_or(key).to_uppercase());
    Failure::usage(format!("no connection is configured {whose}"))
        .broken(format!("config.{key}"), format!("{key} or {variable}"), "nothing")
        .next("cutter doctor")
}

/// Everything that a run needs.
pub(crate) struct Opened {
    pub(crate) ports: Ports,
    /// The requests that runs may belong to.
    pub(crate) requests: Arc<dyn CutRequests>,
    database: Arc<PgDatabase>,
    pub(crate) stores: Stores,
    /// Fingerprint of the backup recipient.
    pub(crate) backup_fingerprint: String,
}

impl Opened {
    /// Connects wherever a run will, at the cost of a question each.
    pub(crate) async fn reach(&self) -> PortResult<()> {
        self.database.reach().await?;
        self.stores.runs.latest_claim("reach").await.map(drop)
    }
}

/// Opens every port.
pub(crate) fn open(config: &Config, out: &Out) -> Result<Opened, Failure> {
    let stores = stores(config)?;
    let key = load_public(&config.keys.backup_public)?;
    let pinned = config.keys.backup_fingerprint.clone().ok_or_else(|| {
        Failure::usage("no fingerprint is pinned for the backup recipient").broken(
            "config.keys.backup_fingerprint",
            key.fingerprint().to_string(),
            "nothing",
        )
    })?;
    let recipient = Recipient::new(&key, &pinned, now())
        .map_err(|e| Failure::usage(format!("{}: {e}", config.keys.backup_public.display())))?;
    let backup_fingerprint = pinned.to_string();
    let signatures = Arc::new(key_ring(config)?);
    let dsns = connections(config, &[Login::Ro, Login::Exec, Login::Verify, Login::Review])?;
    let backup_dsn = dsns.iter().find(|(login, _)| *login == Login::Ro).map(|(_, dsn)| dsn.clone());
    let backup_dsn =
        backup_dsn.ok_or_else(|| no_connection("database.reader", "for the login that reads"))?;
    for (login, key) in [(Login::Exec, "executor"), (Login::Verify, "verifier")] {
        if !dsns.iter().any(|(have, _)| *have == login) {
            return Err(no_connection(&format!("database.{key}"), "for the logins that drive a run"));
        }
    }
    let decides = dsns.iter().any(|(login, _)| *login == Login::Review);
    let database = Arc::new(PgDatabase::connect(dsns));
    let ports = Ports {
        reader: database.clone(),
        executor: database.clone(),
        reviewer: decides.then(|| database.clone() as _),
        verifier: database.clone(),
        kb: stores.kb.clone(),
        runs: stores.runs.clone(),
        backup_source: Arc::new(PgBackupSource::new(backup_dsn)),
        backup_target: backup_target(config, &stores.files, recipient)?,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        signer: Arc::new(KeySigner::new(config)),
        signatures,
        observer: Arc::new(Shown::new(*out)),
        own_gates: Vec::new(),
        interrupt: Arc::new(Never),
    };
    Ok(Opened { ports, requests: database.clone(), database, stores, backup_fingerprint })
}
