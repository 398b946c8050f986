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
//! `CUTTER_TEST_AFTER_MIGRATE` names a file of SQL that a superuser runs in the template after the
//! migrations: the same tests on another schema. `CUTTER_TEST_REACH` names a file to which each
//! database adds, before it goes, which functions and tables were touched. Both are for the
//! programs that try whether the tests hold the schema's rules.
//!
//! Everything here panics instead of returning errors: it is for tests only.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used)]

mod database;
mod proxy;
mod reach;
mod watchdog;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use postgres::{Client, NoTls};
use sha2::Digest as _;

use self::database::Template;
pub use self::database::{Kept, TestDatabase};
pub use self::proxy::{CommitProxy, Cut};
pub use self::reach::REACH_VARIABLE;

use self::watchdog::Watchdog;
use crate::cluster::{ClusterOptions, PrivateCluster, SharedLock, on_own_thread};
pub use crate::definitions::DEFERRED_CHECKS;
use crate::dsn::Dsn;
use crate::error::PgError;
use crate::login::{Login, random_hex};
use crate::migrate::Migrator;

/// The variable that names a home shared by several test processes.
pub const HOME_VARIABLE: &str = "CUTTER_TEST_PG_HOME";

/// The variable that names a file of SQL to be run in the template after the migrations.
pub const AFTER_VARIABLE: &str = "CUTTER_TEST_AFTER_MIGRATE";

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

    /// The server in this home, which somebody else stops.
    ///
    /// # Panics
    /// As [`Self::shared`].
    #[must_use]
    pub fn at(home: &Path) -> Self {
        Self::in_shared_home(home)
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

    /// Makes the template that a file of [`AFTER_VARIABLE`] with this text asks for, before any test does.
    ///
    /// # Errors
    /// What the server says to the text.
    pub fn try_after(&self, sql: &str) -> Result<(), String> {
        self.template_after(Some(sql.to_owned())).map(drop).map_err(|error| error.to_string())
    }

    /// Drops the template that a file of [`AFTER_VARIABLE`] with this text left, whole or half.
    pub fn forget_after(&self, sql: &str) {
        let name = mutated(&template_name(&Migrator::shipped().unwrap()), sql);
        let admin = self.cluster.admin_dsn().unwrap();
        // best effort: it is only space
        let _ = on_own_thread(move || {
            let mut client = admin.with_database("postgres").config()?.connect(NoTls)?;
            for name in [format!("{name}_half"), name] {
                client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
            }
            Ok(())
        });
    }

    /// The migrated template, made once per home and set of migrations, by whoever is first; with
    /// [`AFTER_VARIABLE`] a copy of it that differs by what that file says.
    fn make_template(&self) -> Template {
        let after = std::env::var_os(AFTER_VARIABLE).map(|path| {
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{AFTER_VARIABLE}: {error}"))
        });
        self.template_after(after).unwrap_or_else(|error| panic!("the test template: {error}"))
    }

    fn template_after(&self, after: Option<String>) -> Result<Template, PgError> {
        let migrator = Migrator::shipped().unwrap();
        let name = template_name(&migrator);
        let lock = self.home.join("template.lock");
        let _lock = SharedLock::take(&lock, Duration::from_secs(300)).expect("the lock of the template");
        let admin = self.cluster.admin_dsn().unwrap();
        on_own_thread(move || {
            let mut client = admin.with_database("postgres").config()?.connect(NoTls)?;
            make_once(&mut client, &admin, &name, &Template::empty(), |inside| {
                migrator.run(inside).unwrap_or_else(|error| panic!("the test template: {error}"));
                Ok(())
            })?;
            let migrated = Template::of(&mut client, &name)?;
            let Some(after) = after else { return Ok(migrated) };
            let name = mutated(&name, &after);
            make_once(&mut client, &admin, &name, &migrated, |inside| inside.batch_execute(&after))?;
            Template::of(&mut client, &name)
        })
    }
}

/// Makes a template if it is not there yet. It is complete, and only then under its name: a kill
/// leaves no half template.
fn make_once(
    client: &mut Client,
    admin: &Dsn,
    name: &str,
    from: &Template,
    work: impl FnOnce(&mut Client) -> Result<(), postgres::Error>,
) -> Result<(), PgError> {
    let find = "SELECT 1 FROM pg_catalog.pg_database WHERE datname = $1";
    if client.query_opt(find, &[&name])?.is_some() {
        return Ok(());
    }
    let half = format!("{name}_half");
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {half} WITH (FORCE)"))?;
    from.copy_to(client, &half)?;
    let mut inside: Client = admin.with_database(&half).config()?.connect(NoTls)?;
    work(&mut inside)?;
    drop(inside);
    rename_when_free(client, &half, name)?;
    Ok(())
}

fn template_name(migrator: &Migrator) -> String {
    format!("cutter_template_{}", &migrator.checksums_digest()[..16])
}

fn mutated(template: &str, after: &str) -> String {
    let digest = sha2::Sha256::digest(after.as_bytes());
    let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{template}_{hex}")
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
