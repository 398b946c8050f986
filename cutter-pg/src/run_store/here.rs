//! A session that the thread which asks drives itself: no other thread is woken for a statement, and the
//! thread sleeps until the answer is there or the client's deadline passed.

mod wire;

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use self::wire::Wire;
use crate::connection::SessionSettings;
use crate::dsn::Dsn;
use crate::error::PgError;

/// A limit that no clock can hold is this one.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One session, one caller at a time.
pub(super) struct Here {
    place: Mutex<Place>,
    is_free: Condvar,
}

#[derive(Default)]
struct Place {
    /// `None` while somebody drives it.
    driven: Option<Box<Driven>>,
    /// A statement was given up, or the caller with it: what the server did is unknown, and nothing follows.
    is_lost: bool,
}

struct Driven {
    wire: Wire,
    client: Client,
    prepared: BTreeMap<&'static str, Statement>,
}

/// The session, for one job.
pub(super) struct Turn<'s> {
    here: &'s Here,
    /// `None` once it is given up.
    driven: Option<Box<Driven>>,
    until: Until,
}

/// When a wait is over.
struct Until {
    end: Instant,
    limit: Duration,
}

impl Until {
    fn begin(limit: Duration) -> Self {
        let now = Instant::now();
        let end = now.checked_add(limit).unwrap_or(now + FAR);
        Self { end, limit }
    }

    /// # Errors
    /// [`PgError::Deadline`] once nothing is left.
    fn left(&self) -> Result<Duration, PgError> {
        let left = self.end.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Ok(left);
        }
        Err(PgError::Deadline { waited_ms: u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX) })
    }
}

impl Here {
    /// Connects and applies the settings.
    ///
    /// # Errors
    /// As `Connection::open`, and [`PgError::Deadline`]; [`PgError::Configuration`] on a thread of an
    /// async runtime, which must not wait.
    ///
    /// `None` where the connection string names more than one server: to find the right one is left to the
    /// client's own way to connect.
    pub(super) fn open(
        dsn: &Dsn,
        settings: &SessionSettings,
        limit: Duration,
    ) -> Result<Option<Self>, PgError> {
        may_wait()?;
        let config = dsn.client_config()?;
        if !Wire::suits(&config) {
            return Ok(None);
        }
        let until = Until::begin(limit);
        let (mut wire, client) = Wire::open(&config, &until)?;
        wire.wait(&until, settings.apply_to(&client))?;
        let driven = Driven { wire, client, prepared: BTreeMap::new() };
        let place = Place { driven: Some(Box::new(driven)), is_lost: false };
        Ok(Some(Self { place: Mutex::new(place), is_free: Condvar::new() }))
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session is known to be gone. Of one that is in use nothing is known.
    pub(super) fn is_lost(&self) -> bool {
        let place = self.place();
        place.is_lost || place.driven.as_ref().is_some_and(|driven| driven.client.is_closed())
    }

    /// The session, once nobody else drives it; `limit` counts from now.
    ///
    /// # Errors
    /// [`PgError::Connection`] if it is gone, [`PgError::Deadline`] if it does not come free in time,
    /// [`PgError::Configuration`] as [`Self::open`].
    pub(super) fn turn(&self, limit: Duration) -> Result<Turn<'_>, PgError> {
        may_wait()?;
        let until = Until::begin(limit);
        let mut place = self.place();
        loop {
            if place.is_lost {
                return Err(PgError::Connection("the session was given up before".to_owned()));
            }
            if let Some(driven) = place.driven.take() {
                return Ok(Turn { here: self, driven: Some(driven), until });
            }
            place = self.is_free.wait_timeout(place, until.left()?).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut place = self.here.place();
        place.is_lost |= self.driven.is_none() || std::thread::panicking();
        place.driven = self.driven.take();
        let is_lost = place.is_lost;
        drop(place);
        // Of those who wait one goes on, or all hear that there is nothing to wait for.
        if is_lost {
            self.here.is_free.notify_all();
        } else {
            self.here.is_free.notify_one();
        }
    }
}

impl Turn<'_> {
    pub(super) fn one(&mut self, sql: &'static str, params: Params<'_>) -> Result<Row, PgError> {
        self.ask(sql, async |client, statement| client.query_one(statement, params).await)
    }

    pub(super) fn opt(&mut self, sql: &'static str, params: Params<'_>) -> Result<Option<Row>, PgError> {
        self.ask(sql, async |client, statement| client.query_opt(statement, params).await)
    }

    pub(super) fn all(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, PgError> {
        self.ask(sql, async |client, statement| client.query(statement, params).await)
    }

    fn ask<T, F>(&mut self, sql: &'static str, question: F) -> Result<T, PgError>
    where
        F: AsyncFnOnce(&Client, &Statement) -> Result<T, tokio_postgres::Error>,
    {
        let Some(Driven { wire, client, prepared }) = self.driven.as_deref_mut() else {
            return Err(PgError::Connection("the session was given up before".to_owned()));
        };
        let asked = async {
            let statement = match prepared.get(sql) {
                Some(statement) => statement.clone(),
                None => prepared.entry(sql).or_insert(client.prepare(sql).await?).clone(),
            };
            Ok(question(client, &statement).await?)
        };
        let answer = wire.wait(&self.until, asked);
        if matches!(&answer, Err(PgError::Deadline { .. })) {
            self.driven = None;
        }
        answer
    }
}

/// A thread of an async runtime must not wait: the runtime would stand still.
fn may_wait() -> Result<(), PgError> {
    if Handle::try_current().is_ok() {
        let text = "this run store waits on the thread that asks, and was asked on one of an async runtime";
        return Err(PgError::Configuration(text.to_owned()));
    }
    Ok(())
}
