//! A PostgreSQL for tests: one private server, and a database of its own for every test.
//!
//! ```no_run
//! use cutter_pg::{login::Login, testing::TestServer};
//! let database = TestServer::shared().fresh_database();
//! let dsn = database.dsn(Login::Exec);
//! ```
//!
//! The server is shared by all tests of a process, and by all processes if
//! `CUTTER_TEST_PG_HOME` names a home folder (it need not exist yet; whoever sets it stops
//! the server at the end: `cargo run -p cutter-pg --features testing --example test_server
//! stop`). Otherwise each process has a server of its own in a temporary home, which a
//! watchdog process stops and removes once this process is gone, however it ended.
//!
//! Migrations run once, into a template; a test's database is a copy of it (some 40 ms).
//! Roles and passwords belong to the server, so a test that changes those takes
//! [`TestServer::own`]. fsync is off, but in [`TestServer::durable`].
//!
//! Everything here panics instead of returning errors: it is for tests only.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used)]

mod database;
mod proxy;
mod watchdog;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use postgres::{Client, NoTls};

use self::database::Template;
pub use self::database::{Kept, TestDatabase};
pub use self::proxy::{CommitProxy, Cut};
use self::watchdog::Watchdog;
use crate::cluster::{ClusterOptions, PrivateCluster, SharedLock, on_own_thread};
use crate::dsn::Dsn;
use crate::login::{Login, random_hex};
use crate::migrate::Migrator;

/// The variable that names a home shared by several test processes.
pub const HOME_VARIABLE: &str = "CUTTER_TEST_PG_HOME";

/// A server for tests.
#[derive(Debug)]
pub struct TestServer {
    cluster: PrivateCluster,
    home: PathBuf,
    template: OnceLock<Template>,
    /// Ends the server with this process, or with this value. None for a shared home.
    _watchdog: Option<Watchdog>,
}

impl TestServer {
    /// The server of this process, or of the test run.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start; the message says why.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TestServer> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var_os(HOME_VARIABLE) {
            Some(home) => Self::in_shared_home(Path::new(&home)),
            None => Self::own(),
        })
    }

    /// A server of one's own, stopped and removed when dropped: for tests that change roles
    /// or stop servers. Costs a second.
    ///
    /// # Panics
    /// As [`Self::shared`].
    #[must_use]
    pub fn own() -> Self {
        Self::own_with(ClusterOptions::new().without_durability_for_tests())
    }

    /// As [`Self::own`], but durable as a private server is: for measurements.
    ///
    /// # Panics
    /// As [`Self::shared`].
    #[must_use]
    pub fn durable() -> Self {
        Self::own_with(ClusterOptions::new())
    }

    fn own_with(options: ClusterOptions) -> Self {
        let home = std::env::temp_dir().join(format!("cutter-test-{}", random_hex::<6>().unwrap()));
        std::fs::create_dir(&home).expect("a temporary home folder");
        // The server's user must get through; what is inside is closed.
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
        // The watchdog first: if the start fails half-way there is something to clear, too.
        let watchdog = Watchdog::over(&home);
        Self::start(&home, Some(watchdog), options)
    }

    fn in_shared_home(home: &Path) -> Self {
        std::fs::create_dir_all(home).expect("the shared home folder");
        Self::start(home, None, ClusterOptions::new().without_durability_for_tests())
    }

    fn start(home: &Path, watchdog: Option<Watchdog>, options: ClusterOptions) -> Self {
        let cluster = PrivateCluster::open(home, options).unwrap();
        cluster.start().unwrap_or_else(|error| panic!("no PostgreSQL for the tests: {error}"));
        Self { cluster, home: home.to_owned(), template: OnceLock::new(), _watchdog: watchdog }
    }

    /// The server itself: to stop it, say. Only of one that is [`Self::own`].
    #[must_use]
    pub fn cluster(&self) -> &PrivateCluster {
        &self.cluster
    }

    /// A login on a database of this server.
    #[must_use]
    pub fn dsn(&self, login: Login, database: &str) -> Dsn {
        self.cluster.dsn(login).unwrap().with_database(database)
    }

    /// A new database with every migration applied, dropped with the value.
    #[must_use]
    pub fn fresh_database(&self) -> TestDatabase {
        let template = self.template.get_or_init(|| self.make_template());
        TestDatabase::copy_of(template, self.cluster.admin_dsn().unwrap(), self.cluster.clone())
    }

    /// A new database without a schema, dropped with the value.
    #[must_use]
    pub fn empty_database(&self) -> TestDatabase {
        TestDatabase::copy_of(&Template::empty(), self.cluster.admin_dsn().unwrap(), self.cluster.clone())
    }

    /// The migrated template, made once per home and set of migrations, by whoever is first.
    fn make_template(&self) -> Template {
        let migrator = Migrator::shipped().unwrap();
        let name = format!("cutter_template_{}", &migrator.checksums_digest()[..16]);
        let lock = self.home.join("template.lock");
        let _lock = SharedLock::take(&lock, Duration::from_secs(300)).expect("the lock of the template");
        let admin = self.cluster.admin_dsn().unwrap();
        on_own_thread(move || {
            let mut client = admin.with_database("postgres").config()?.connect(NoTls)?;
            let find = "SELECT 1 FROM pg_catalog.pg_database WHERE datname = $1";
            if client.query_opt(find, &[&name])?.is_none() {
                let half = format!("{name}_half");
                client.batch_execute(&format!("DROP DATABASE IF EXISTS {half} WITH (FORCE)"))?;
                client.batch_execute(&format!("CREATE DATABASE {half} TEMPLATE template0"))?;
                let mut inside: Client = admin.with_database(&half).config()?.connect(NoTls)?;
                migrator.run(&mut inside).unwrap_or_else(|error| panic!("the test template: {error}"));
                drop(inside);
                // Complete, and only now under its name: a kill leaves no half template.
                rename_when_free(&mut client, &half, &name)?;
            }
            Template::of(&mut client, &name)
        })
        .unwrap_or_else(|error| panic!("the test template: {error}"))
    }
}

/// A session that was just dropped takes a moment to leave its database.
fn rename_when_free(client: &mut Client, from: &str, to: &str) -> Result<(), postgres::Error> {
    let mut attempts = 0;
    loop {
        match client.batch_execute(&format!("ALTER DATABASE {from} RENAME TO {to}")) {
            Err(error)
                if attempts < 200 && error.code() == Some(&postgres::error::SqlState::OBJECT_IN_USE) =>
            {
                attempts += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}
