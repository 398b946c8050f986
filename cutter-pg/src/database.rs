//! The database port over PostgreSQL: one connection per login, all opened beside each other when the
//! first is needed.
//!
//! [`PgDatabase`] implements all four traits of [`cutter_core::port::database`], each over the
//! connection of its own login; a caller is handed only the trait that it may use. A writer's
//! connection belongs to one effect at a time, from `begin` to `finish` or drop.
//!
//! **Loss.** A writer's lost connection is opened again only by
//! [`take_fence`](cutter_core::port::database::Executor::take_fence), because whatever the old
//! one left behind is final only after the fence was raised. The reader reconnects by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Once, PoisonError};
use std::time::Duration;

use cutter_core::port::{PortError, PortErrorKind, PortResult};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::connection::{Connection, Opening, SessionSettings};
use crate::dsn::Dsn;
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::survey::CatalogueCache;

/// A login's connection, held for one piece of work.
pub(crate) type Held = OwnedMutexGuard<Option<Connection>>;

/// The database port (`Reader`, `Executor`, `Reviewer`, `Verifier`).
pub struct PgDatabase {
    slots: BTreeMap<Login, Slot>,
    /// Whether the connections were begun.
    begun: Once,
    /// Longest wait of one read.
    read_limit: Duration,
    /// Shared by the logins: they see the same catalogue.
    catalogue: Arc<CatalogueCache>,
}

struct Slot {
    dsn: Dsn,
    connection: Arc<Mutex<Option<Connection>>>,
    /// What was begun ahead of its first use.
    ahead: std::sync::Mutex<Option<Opening>>,
}

impl Slot {
    fn begin(&self, login: Login) -> Result<Opening, PgError> {
        let settings = if login == Login::Ro { SessionSettings::reader() } else { SessionSettings::writer() };
        Connection::begin(self.dsn.clone(), settings)
    }

    fn ahead(&self) -> std::sync::MutexGuard<'_, Option<Opening>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens it. What was begun ahead and came to nothing is tried once more: only who needs a login
    /// is told that there is none.
    async fn open(&self, login: Login) -> Result<Connection, PgError> {
        let begun = self.ahead().take();
        if let Some(opening) = begun
            && let Ok(connection) = opening.opened().await
        {
            return Ok(connection);
        }
        self.begin(login)?.opened().await
    }
}

impl PgDatabase {
    /// A port over these connection strings, by login; only the logins that are given can be
    /// used (a command that only reads needs `cutter_ro` alone). Connects to nothing yet.
    #[must_use]
    pub fn connect(dsns: impl IntoIterator<Item = (Login, Dsn)>) -> Self {
        let slots = dsns
            .into_iter()
            .map(|(login, dsn)| {
                (login, Slot { dsn, connection: Arc::default(), ahead: std::sync::Mutex::default() })
            })
            .collect();
        Self { slots, begun: Once::new(), read_limit: Duration::from_secs(35), catalogue: Arc::default() }
    }

    /// Bounds each read on the client's side (35 s unless told; the server ends a statement
    /// of the reader after 30 s).
    #[must_use]
    pub fn read_limit(mut self, limit: Duration) -> Self {
        self.read_limit = limit;
        self
    }

    /// Opens the connection of every login that was given and has none: whoever cannot work learns it
    /// before there is work.
    ///
    /// # Errors
    /// The first refusal: of the server (none is left, or the login is refused), or of the way to it.
    pub async fn reach(&self) -> PortResult<()> {
        for login in self.slots.keys() {
            self.hold(*login, "reach").await?;
        }
        Ok(())
    }

    pub(crate) fn catalogue(&self) -> Arc<CatalogueCache> {
        self.catalogue.clone()
    }

    pub(crate) const fn limit_of_reads(&self) -> Duration {
        self.read_limit
    }

    fn slot(&self, login: Login, op: &str) -> PortResult<&Slot> {
        self.slots.get(&login).ok_or_else(|| {
            let message = format!("no connection is configured for the login {login}; add its DSN");
            PortError::new(PORT, op, PortErrorKind::Invalid, message)
        })
    }

    /// Begins all connections beside each other, once: a login's server process takes its time, and
    /// whoever writes needs most of them soon.
    fn begin(&self) {
        self.begun.call_once(|| {
            for (login, slot) in &self.slots {
                // one that can't begin is told of when it is needed
                *slot.ahead() = slot.begin(*login).ok();
            }
        });
    }

    /// The login's connection, opened if it never was. A lost one is `Unavailable`, but for
    /// the reader's, which is opened again.
    pub(crate) async fn hold(&self, login: Login, op: &str) -> PortResult<Held> {
        let slot = self.slot(login, op)?;
        self.begin();
        let mut held = slot.connection.clone().lock_owned().await;
        match held.as_ref() {
            Some(connection) if !connection.is_lost() => {}
            Some(_) if login != Login::Ro => {
                let message = format!("the connection of {login} was lost; take the fence again");
                return Err(PortError::new(PORT, op, PortErrorKind::Unavailable, message));
            }
            _ => *held = Some(slot.open(login).await.map_err(|error| error.to_port(op))?),
        }
        Ok(held)
    }

    /// Gives up what was lost among the writers, so that the next use opens it again.
    pub(crate) async fn forget_lost(&self) {
        for (login, slot) in &self.slots {
            if *login != Login::Ro {
                let mut held = slot.connection.lock().await;
                if held.as_ref().is_some_and(Connection::is_lost) {
                    *held = None;
                }
            }
        }
    }
}

/// Gives the session up after a deadline: the cancel that ended its statement may still be on
/// its way and must not hit a later one. Nothing of it is left open, as COMMIT was not sent.
pub(crate) fn give_up_after_deadline(held: &mut Held, error: &PgError) {
    if error.kind() == PortErrorKind::Deadline {
        **held = None;
    }
}

/// The connection inside, which [`PgDatabase::hold`] put there.
pub(crate) fn connection(held: &Held) -> Result<&Connection, PgError> {
    held.as_ref().ok_or_else(|| PgError::Connection("the connection is closed".to_owned()))
}

impl std::fmt::Debug for PgDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgDatabase").field("logins", &self.slots.keys().collect::<Vec<_>>()).finish()
    }
}
