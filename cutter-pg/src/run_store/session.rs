//! The store's one connection: opened when needed, opened again when lost, statements prepared once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use cutter_core::port::{PortErrorKind, PortResult};
use postgres::types::ToSql;
use postgres::{Client, Row, Statement};

use super::error;
use super::here::{Here, Turn};
use crate::connection::{Connection, SessionSettings};
use crate::dsn::Dsn;
use crate::error::PgError;

/// How often one call is tried in all, lost races and lost answers together.
const ATTEMPTS: u32 = 3;

/// The server ends a statement a little before the client does.
const SERVER_MARGIN: Duration = Duration::from_secs(2);

/// Whether a lost answer leaves something open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

type Prepared = Arc<Mutex<BTreeMap<&'static str, Statement>>>;

/// A session, and who drives it.
#[derive(Clone)]
pub(super) enum Session {
    /// A thread of its own, with what it has prepared: any executor may ask.
    Apart(Arc<Connection>, Prepared),
    /// Whoever asks, who waits for the answer.
    Here(Arc<Here>),
}

/// The statements of one session, for a job.
pub(super) enum Statements<'c> {
    Apart { client: &'c mut Client, prepared: &'c Mutex<BTreeMap<&'static str, Statement>> },
    Here(Turn<'c>),
}

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Statements<'_> {
    pub(super) fn one(&mut self, sql: &'static str, params: Params<'_>) -> Result<Row, PgError> {
        match self {
            Self::Apart { client, prepared } => {
                let statement = prepare(client, prepared, sql)?;
                Ok(client.query_one(&statement, params)?)
            }
            Self::Here(turn) => turn.one(sql, params),
        }
    }

    pub(super) fn opt(&mut self, sql: &'static str, params: Params<'_>) -> Result<Option<Row>, PgError> {
        match self {
            Self::Apart { client, prepared } => {
                let statement = prepare(client, prepared, sql)?;
                Ok(client.query_opt(&statement, params)?)
            }
            Self::Here(turn) => turn.opt(sql, params),
        }
    }

    pub(super) fn all(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, PgError> {
        match self {
            Self::Apart { client, prepared } => {
                let statement = prepare(client, prepared, sql)?;
                Ok(client.query(&statement, params)?)
            }
            Self::Here(turn) => turn.all(sql, params),
        }
    }
}

fn prepare(
    client: &mut Client,
    prepared: &Mutex<BTreeMap<&'static str, Statement>>,
    sql: &'static str,
) -> Result<Statement, PgError> {
    let mut prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(statement) = prepared.get(sql) {
        return Ok(statement.clone());
    }
    let statement = client.prepare(sql)?;
    prepared.insert(sql, statement.clone());
    Ok(statement)
}

/// The connection, one at a time.
pub(super) struct Sessions {
    dsn: Dsn,
    limit: Mutex<Duration>,
    /// Whether whoever asks drives the session.
    is_here: AtomicBool,
    current: Mutex<Option<Session>>,
    /// Held while one caller opens a session for all.
    opening: tokio::sync::Mutex<()>,
    statements: AtomicU64,
}

impl Sessions {
    pub(super) fn new(dsn: Dsn, limit: Duration) -> Self {
        Self {
            dsn,
            limit: Mutex::new(limit),
            is_here: AtomicBool::new(false),
            current: Mutex::new(None),
            opening: tokio::sync::Mutex::new(()),
            statements: AtomicU64::new(0),
        }
    }

    pub(super) fn set_limit(&self, limit: Duration) {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = limit;
    }

    pub(super) fn set_here(&self) {
        self.is_here.store(true, Ordering::Relaxed);
    }

    fn limit(&self) -> Duration {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One statement more.
    pub(super) fn count(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// The session that stands, if there is one.
    pub(super) fn standing(&self) -> Option<Session> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|session| !session.is_lost()).cloned()
    }

    async fn session(&self) -> Result<Session, PgError> {
        if let Some(session) = self.standing() {
            return Ok(session);
        }
        let _one_opens = self.opening.lock().await;
        if let Some(session) = self.standing() {
            return Ok(session);
        }
        let statement_timeout = self.limit().saturating_sub(SERVER_MARGIN).max(Duration::from_millis(1));
        let settings = SessionSettings { statement_timeout, ..SessionSettings::writer() };
        let settings = settings.application_name("cutter-runs");
        let is_here = self.is_here.load(Ordering::Relaxed);
        let here = if is_here { Here::open(&self.dsn, &settings, self.limit())? } else { None };
        let session = match here {
            Some(here) => Session::Here(Arc::new(here)),
            None => {
                let connection = Connection::open(self.dsn.clone(), settings).await?;
                Session::Apart(Arc::new(connection), Prepared::default())
            }
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        Ok(session)
    }

    /// Gives a session up, unless another stands in its place already.
    fn forget(&self, session: &Session) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.is(session)) {
            *current = None;
        }
    }

    /// Runs one statement. A read, and a write whose answer was lost, is asked again over a new
    /// connection: every write of the store is the same when asked again.
    pub(super) async fn call<T, F>(&self, op: &'static str, access: Access, work: Arc<F>) -> PortResult<T>
    where
        T: Send + 'static,
        F: Fn(&mut Statements<'_>) -> Result<T, PgError> + Send + Sync + 'static,
    {
        self.count();
        self.call_uncounted(op, access, work).await
    }

    /// As [`Self::call`], for what is no part of the count.
    pub(super) async fn call_uncounted<T, F>(
        &self,
        op: &'static str,
        access: Access,
        work: Arc<F>,
    ) -> PortResult<T>
    where
        T: Send + 'static,
        F: Fn(&mut Statements<'_>) -> Result<T, PgError> + Send + Sync + 'static,
    {
        let mut lost_answer: Option<PgError> = None;
        for attempt in 1.. {
            let session = match self.session().await {
                Ok(session) => session,
                Err(error) => return Err(to_port(op, lost_answer.unwrap_or(error))),
            };
            let outcome = session.run(self.limit(), work.clone()).await;
            let error = match outcome {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_timed_out = matches!(error, PgError::Deadline { .. } | PgError::OutcomeUnknown(_));
            let is_lost = error.is_connection_loss() || is_timed_out;
            if is_lost {
                // A cancel may still be on its way to this session.
                self.forget(&session);
            }
            let error = if access == Access::Write { error.autocommit_outcome() } else { error };
            let may_repeat = error.is_retriable() || (is_lost && !is_timed_out);
            if !may_repeat || attempt >= ATTEMPTS {
                return Err(to_port(op, error));
            }
            if error.kind() == PortErrorKind::OutcomeUnknown {
                lost_answer = Some(error);
            }
        }
        Err(error(op, PortErrorKind::Unavailable, "every attempt lost a race; try again"))
    }
}

impl Session {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Apart(a, _), Self::Apart(b, _)) => Arc::ptr_eq(a, b),
            (Self::Here(a), Self::Here(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn is_lost(&self) -> bool {
        match self {
            Self::Apart(connection, _) => connection.is_lost(),
            Self::Here(here) => here.is_lost(),
        }
    }

    async fn run<T, F>(&self, limit: Duration, job: Arc<F>) -> Result<T, PgError>
    where
        T: Send + 'static,
        F: Fn(&mut Statements<'_>) -> Result<T, PgError> + Send + Sync + 'static,
    {
        match self {
            Self::Apart(connection, prepared) => {
                let prepared = prepared.clone();
                let job =
                    move |client: &mut Client| job(&mut Statements::Apart { client, prepared: &prepared });
                connection.run_with_deadline(limit, job).await
            }
            Self::Here(here) => job(&mut Statements::Here(here.turn(limit)?)),
        }
    }

    /// Runs a job whose outcome nobody hears, and waits for its end no longer than `limit`.
    pub(super) fn run_unheard<F>(&self, limit: Duration, job: F) -> Result<(), PgError>
    where
        F: FnOnce(&mut Statements<'_>) + Send + 'static,
    {
        match self {
            Self::Apart(connection, prepared) => {
                let prepared = prepared.clone();
                let (done, is_done) = mpsc::channel::<()>();
                connection.post(move |client| {
                    job(&mut Statements::Apart { client, prepared: &prepared });
                    drop(done);
                    Ok(())
                })?;
                let _ = is_done.recv_timeout(limit);
            }
            Self::Here(here) => job(&mut Statements::Here(here.turn(limit)?)),
        }
        Ok(())
    }
}

/// A statement that took too long is the database's trouble, not the end of the run's time.
fn to_port(op: &str, failure: PgError) -> cutter_core::port::PortError {
    let kind = match failure.kind() {
        PortErrorKind::Deadline => PortErrorKind::Unavailable,
        kind => kind,
    };
    match failure {
        // A statement that the server does not understand: the schema is another one.
        PgError::Database { .. } if kind == PortErrorKind::Invalid => {
            failure.to_port(format!("run_store {op}"))
        }
        _ => error(op, kind, failure.to_string()),
    }
}
