//! The private PostgreSQL under the home folder.
//!
//! Used when no connection string is configured: the machine's own PostgreSQL, on a unix
//! socket only, with the same adapter, SQL and grants as production. Nothing is faked.
//!
//! ```text
//! <home>/pg.lock          flock around everything that starts, stops or makes
//! <home>/pg-secrets.json  0600, one random password per login
//! <home>/pg.location      only if the cluster or its socket had to go elsewhere
//! <home>/pg/data          PostgreSQL's data directory
//! <home>/pg/run           the socket
//! <home>/pg/postgres.log  the server's log, at most two generations
//! ```
//!
//! The server is detached (its own session): it outlives the process that started it, a
//! kill -9 included, and the next one finds it. Root runs it as an unprivileged user, and
//! never opens its own home folder for that. Settings are durable; only
//! [`ClusterOptions::without_durability_for_tests`] says otherwise.
//!
//! Everything here blocks; call it before, not on, an async runtime.

mod binaries;
mod error;
mod files;
mod init;
mod place;
mod postmaster;
mod user;

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::binaries::Binaries;
pub(crate) use self::binaries::client_tool;
pub use self::error::ClusterError;
#[cfg(feature = "testing")]
pub(crate) use self::files::FileLock as SharedLock;
use self::files::{FileLock, write_durable};
#[cfg(feature = "testing")]
pub(crate) use self::init::on_own_thread;
use self::place::Place;
use self::postmaster::Postmaster;
use self::user::ServerUser;
use crate::dsn::Dsn;
use crate::login::{Login, LoginPasswords};

/// How long `pg_ctl` may wait for a start or a stop, in seconds: recovery after a crash
/// takes its time.
const PG_CTL_SECONDS: u64 = 120;

/// The log is set aside at a start once it is larger than this.
const MAX_LOG_BYTES: u64 = 10 * 1024 * 1024;

/// How a private cluster is found and run.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    bin_folder: Option<PathBuf>,
    is_durable: bool,
    lock_wait: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { bin_folder: None, is_durable: true, lock_wait: Duration::from_secs(2 * PG_CTL_SECONDS) }
    }
}

impl ClusterOptions {
    /// PostgreSQL from PATH or the usual folders, durable.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses the PostgreSQL of this folder (with `initdb`, `pg_ctl`, `postgres`) and no other.
    #[must_use]
    pub fn bin_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.bin_folder = Some(folder.into());
        self
    }

    /// How long to wait for another process that starts or stops the same server.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// **For tests only**: fsync off. A power cut then destroys the database.
    #[must_use]
    pub fn without_durability_for_tests(mut self) -> Self {
        self.is_durable = false;
        self
    }
}

/// Where a running server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The server's process.
    pub pid: i32,
    /// The folder of its socket.
    pub socket_dir: PathBuf,
    /// The number in the socket's name; no TCP port is open.
    pub port: u16,
}

/// What stands under a home folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterStatus {
    /// No cluster was made yet.
    Absent,
    /// It is there and does not run.
    Stopped,
    /// It runs, and is starting up or shutting down: no connections now.
    Changing,
    /// It runs and accepts connections.
    Running(Running),
}

/// The private server of one home folder.
#[derive(Debug, Clone)]
pub struct PrivateCluster {
    home: PathBuf,
    options: ClusterOptions,
}

impl PrivateCluster {
    /// Names the cluster of a home folder. Reads and makes nothing.
    ///
    /// # Errors
    /// [`ClusterError::Io`] if the path is empty or the working directory is gone.
    pub fn open(home: impl AsRef<Path>, options: ClusterOptions) -> Result<Self, ClusterError> {
        let home = home.as_ref();
        let home = std::path::absolute(home).map_err(ClusterError::io("resolve", home))?;
        Ok(Self { home, options })
    }

    /// The cluster folder: inside the home, or where `pg.location` says.
    ///
    /// # Errors
    /// [`ClusterError::Corrupt`] if `pg.location` does not read back.
    pub fn folder(&self) -> Result<PathBuf, ClusterError> {
        Ok(Place::read(&self.home)?.folder())
    }

    /// The server's log file.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn log_file(&self) -> Result<PathBuf, ClusterError> {
        Ok(Place::read(&self.home)?.log())
    }

    /// What stands there now. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn status(&self) -> Result<ClusterStatus, ClusterError> {
        self.status_of(&Place::read(&self.home)?)
    }

    fn status_of(&self, place: &Place) -> Result<ClusterStatus, ClusterError> {
        if data_major(&place.data())?.is_none() {
            return Ok(ClusterStatus::Absent);
        }
        Ok(match postmaster::observe(&place.data())? {
            Postmaster::Alive { pid, socket, port, is_ready: true } => ClusterStatus::Running(Running {
                pid,
                socket_dir: socket.unwrap_or_else(|| place.socket()),
                port,
            }),
            Postmaster::Alive { .. } => ClusterStatus::Changing,
            Postmaster::None | Postmaster::Dead | Postmaster::Reused { .. } => ClusterStatus::Stopped,
        })
    }

    /// Starts the server, making the cluster first if there is none. Idempotent, and safe
    /// from several processes at once. On return the logins and the database `cutter` are
    /// there; the schema is [`crate::migrate`]'s.
    ///
    /// # Errors
    /// [`ClusterError::NotInstalled`] names the package; [`ClusterError::Tool`] carries the
    /// end of the server's log.
    pub fn start(&self) -> Result<Running, ClusterError> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&self.home).map_err(ClusterError::io("create", &self.home))?;
        let _lock = self.lock()?;
        let mut place = Place::read(&self.home)?;
        let (passwords, is_new) = self.passwords()?;
        let major = data_major(&place.data())?;
        if let (Some(_), false) = (major, is_new)
            && let ClusterStatus::Running(running) = self.status_of(&place)?
        {
            init::provision(&place, &passwords)?;
            return Ok(running);
        }

        let binaries = Binaries::find(self.options.bin_folder.as_deref(), major)?;
        let user = match major {
            Some(_) => ServerUser::owner_of(&place.data())?,
            None => ServerUser::choose(&self.home)?,
        };
        let user = user.as_ref();
        if major.is_none() {
            place.make_folder(user)?;
            init::make_data(&place, &binaries, user, &passwords, self.options.is_durable)?;
        } else {
            // Still starting or stopping in another's hands, or running with lost secrets.
            if is_new {
                self.stop_locked(&place, &binaries, user)?;
                self.settle(&place)?;
                init::reset_admin(&place, &binaries, user, &passwords)?;
            } else if let Some(running) = self.settle(&place)? {
                init::provision(&place, &passwords)?;
                return Ok(running);
            }
        }
        place.make_socket_folder(user)?;
        init::write_settings(&place, self.options.is_durable)?;
        self.launch(&place, &binaries, user)?;
        init::provision(&place, &passwords)?;
        match self.status_of(&place)? {
            ClusterStatus::Running(running) => Ok(running),
            _ => Err(ClusterError::Tool { tool: "postgres", output: log_tail(&place) }),
        }
    }

    /// Stops the server: clients are disconnected, nothing committed is lost. Returns
    /// whether there was one to stop.
    ///
    /// # Errors
    /// [`ClusterError::Tool`] if it does not stop within two minutes.
    pub fn stop(&self) -> Result<bool, ClusterError> {
        if !self.home.exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let place = Place::read(&self.home)?;
        let Some(major) = data_major(&place.data())? else { return Ok(false) };
        let user = ServerUser::owner_of(&place.data())?;
        let binaries = Binaries::find(self.options.bin_folder.as_deref(), Some(major))?;
        self.stop_locked(&place, &binaries, user.as_ref())
    }

    /// The connection string of one login on the database `cutter`. The server must run.
    ///
    /// # Errors
    /// [`ClusterError::NotRunning`]; [`ClusterError::Denied`] if there is no password.
    pub fn dsn(&self, login: Login) -> Result<Dsn, ClusterError> {
        let ClusterStatus::Running(running) = self.status()? else {
            return Err(ClusterError::NotRunning { home: self.home.clone() });
        };
        let path = self.secrets_path();
        let passwords = self.read_secrets()?.ok_or_else(|| missing_secrets(&path))?;
        let password = passwords.get(login).ok_or_else(|| {
            ClusterError::Denied(format!(
                "no password for {login} in {}; start adds it: cutter db start",
                path.display()
            ))
        })?;
        Ok(Dsn::socket(&running.socket_dir, running.port, login.as_str(), password, init::DATABASE)?)
    }

    /// The administrator's connection string, for migrations.
    ///
    /// # Errors
    /// As [`Self::dsn`].
    pub fn admin_dsn(&self) -> Result<Dsn, ClusterError> {
        self.dsn(Login::Admin)
    }

    /// Whether another user than the home's own runs the server from a folder inside it, and so must get
    /// through: closing the home to others would then stop the server.
    #[must_use]
    pub fn is_entered_through_home(&self) -> bool {
        let owner = |path: &Path| std::fs::metadata(path).map(|meta| meta.uid()).ok();
        Place::read(&self.home).is_ok_and(|place| {
            let data = place.data();
            let (home, server) = (owner(&self.home), owner(&data));
            data.starts_with(&self.home) && server.is_some() && server != home
        })
    }

    fn lock(&self) -> Result<FileLock, ClusterError> {
        FileLock::take(&self.home.join("pg.lock"), self.options.lock_wait)
    }

    fn secrets_path(&self) -> PathBuf {
        self.home.join("pg-secrets.json")
    }

    fn read_secrets(&self) -> Result<Option<LoginPasswords>, ClusterError> {
        let path = self.secrets_path();
        match std::fs::read(&path) {
            Ok(bytes) => match LoginPasswords::from_json(&bytes) {
                Some(passwords) => Ok(Some(passwords)),
                None => Err(ClusterError::Corrupt {
                    message:
                        "not the passwords that cutter wrote; restore it, or move it away and start again: \
                              new passwords are then made"
                            .to_owned(),
                    path,
                }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ClusterError::io("read", &path)(error)),
        }
    }

    /// The passwords, made and durable if they were not there; and whether the
    /// administrator's is new.
    fn passwords(&self) -> Result<(LoginPasswords, bool), ClusterError> {
        let mut passwords = self.read_secrets()?.unwrap_or_default();
        let is_new = passwords.get(Login::Admin).is_none();
        if passwords.complete()? {
            write_durable(&self.secrets_path(), &passwords.to_json())?;
        }
        Ok((passwords, is_new))
    }

    /// Waits out a start or a stop in progress, and clears what a dead server left. `Some`
    /// if a server accepts connections afterwards.
    fn settle(&self, place: &Place) -> Result<Option<Running>, ClusterError> {
        let until = Instant::now() + Duration::from_secs(PG_CTL_SECONDS);
        loop {
            match postmaster::observe(&place.data())? {
                Postmaster::None | Postmaster::Dead => return Ok(None),
                Postmaster::Reused { pid } => postmaster::remove_reused(&place.data(), pid)?,
                Postmaster::Alive { pid, socket, port, is_ready: true } => {
                    let socket_dir = socket.unwrap_or_else(|| place.socket());
                    return Ok(Some(Running { pid, socket_dir, port }));
                }
                Postmaster::Alive { .. } if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Postmaster::Alive { pid, .. } => {
                    return Err(ClusterError::Tool {
                        tool: "postgres",
                        output: format!("process {pid} neither starts nor ends: {}", log_tail(place)),
                    });
                }
            }
        }
    }

    fn stop_locked(
        &self,
        place: &Place,
        binaries: &Binaries,
        user: Option<&ServerUser>,
    ) -> Result<bool, ClusterError> {
        if !matches!(postmaster::observe(&place.data())?, Postmaster::Alive { .. }) {
            return Ok(false);
        }
        let mut command = binaries.command("pg_ctl", user, &place.folder());
        command.env("PGDATA", place.data());
        command.args(["stop", "-s", "-w", "-m", "fast", "-t", &PG_CTL_SECONDS.to_string()]);
        binaries::run("pg_ctl stop", command)?;
        Ok(true)
    }

    fn launch(
        &self,
        place: &Place,
        binaries: &Binaries,
        user: Option<&ServerUser>,
    ) -> Result<(), ClusterError> {
        rotate_log(&place.log())?;
        let mut attempts = 0;
        loop {
            let mut command = binaries.command("pg_ctl", user, &place.folder());
            // PGDATA and a relative log, because pg_ctl hands both to a shell. A group of
            // its own, so that the terminal's Ctrl-C does not reach it; pg_ctl gives the
            // server a session of its own.
            command.env("PGDATA", place.data()).process_group(0);
            command.args(["start", "-s", "-w", "-l", "postgres.log", "-t", &PG_CTL_SECONDS.to_string()]);
            let Err(error) = binaries::run("pg_ctl start", command) else { return Ok(()) };
            let log = log_tail(place);
            // After a kill -9 of the postmaster its backends take a moment to notice.
            if log.contains("is still in use") && attempts < 20 {
                attempts += 1;
                std::thread::sleep(Duration::from_millis(250));
                continue;
            }
            return Err(ClusterError::Tool {
                tool: "pg_ctl start",
                output: format!("{error}; end of {}: {log}", place.log().display()),
            });
        }
    }
}

fn missing_secrets(path: &Path) -> ClusterError {
    ClusterError::Denied(format!(
        "{} is gone; stop the server and start it again, new passwords are then made: cutter db stop; cutter db start",
        path.display()
    ))
}

/// The major version that made the data; `None` if there is no data.
fn data_major(data: &Path) -> Result<Option<u32>, ClusterError> {
    let path = data.join("PG_VERSION");
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map(Some).map_err(|_| ClusterError::Corrupt {
            message: format!("expected a PostgreSQL major version, found {:?}", text.trim()),
            path,
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ClusterError::io("read", &path)(error)),
    }
}

/// Sets a large log aside. No server writes to it now.
fn rotate_log(log: &Path) -> Result<(), ClusterError> {
    match std::fs::metadata(log) {
        Ok(meta) if meta.len() > MAX_LOG_BYTES => {
            std::fs::rename(log, log.with_extension("log.1")).map_err(ClusterError::io("set aside", log))
        }
        _ => Ok(()),
    }
}

fn log_tail(place: &Place) -> String {
    match std::fs::read(place.log()) {
        Ok(bytes) => {
            let from = bytes.len().saturating_sub(4096);
            binaries::last_lines(&String::from_utf8_lossy(&bytes[from..]), 6)
        }
        Err(error) => format!("(no log: {error})"),
    }
}
