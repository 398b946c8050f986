//! A connection: one thread that owns the blocking client, and an async handle to it.
//!
//! The `postgres` client blocks, and must not be used or dropped on a thread of an async
//! runtime. So each [`Connection`] has an OS thread that connects, runs jobs one after the
//! other, and drops the client. The handle needs no runtime: any executor will do.
//!
//! **Deadlines.** `statement_timeout` does not end everything (a COPY to a client that
//! stopped reading, a server that went silent). [`Connection::run_with_deadline`] has a timer
//! on the client's side: when it expires the statement is cancelled; if the job still does not
//! return, the session is terminated from another connection and the thread is abandoned. The
//! caller gets [`PgError::Deadline`], or [`PgError::OutcomeUnknown`] if COMMIT was sent.
//!
//! **Loss.** A lost connection stays lost until [`Connection::reconnect`]: a driver raises its
//! fence after every reconnect, so none may happen behind its back.

mod commit;
mod deadline;
mod job;
mod settings;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use postgres::{CancelToken, Client, NoTls};
use tokio::sync::oneshot;

pub use self::commit::{commit, commit_session};
use self::job::{JobState, Stage};
pub use self::settings::SessionSettings;
use crate::dsn::Dsn;
use crate::error::PgError;

/// How long a cancelled job may take to return before it is abandoned.
const GRACE: Duration = Duration::from_secs(2);

/// A job on the connection's thread: it gets the client, or nothing if the client is lost.
type Job = Box<dyn FnOnce(Option<&mut Client>) + Send>;

/// Where an answer goes; whoever is first takes it: the job, or the timer.
type Reply<T> = Arc<Mutex<Option<oneshot::Sender<Result<T, PgError>>>>>;

/// What is known of the session once it stands.
#[derive(Clone)]
struct Session {
    pid: i32,
    /// As the server writes it; with the number it names one session for ever.
    started: String,
    cancel: CancelToken,
}

/// The thread's end of the handle.
#[derive(Clone)]
struct Worker {
    jobs: mpsc::Sender<Job>,
    session: Session,
    is_lost: Arc<AtomicBool>,
}

/// An async handle to one session. Jobs run in the order in which they were handed over.
pub struct Connection {
    dsn: Dsn,
    settings: Mutex<SessionSettings>,
    worker: Mutex<Worker>,
}

impl Connection {
    /// Connects and applies the settings.
    ///
    /// # Errors
    /// [`PgError::Connection`] or the server's refusal; the connection string is never shown.
    pub async fn open(dsn: Dsn, settings: SessionSettings) -> Result<Self, PgError> {
        Self::begin(dsn, settings)?.opened().await
    }

    /// Begins to connect on the connection's own thread, and does not wait for it.
    ///
    /// # Errors
    /// [`PgError::Connection`] if there is no thread, or the connection string has no sense.
    pub(crate) fn begin(dsn: Dsn, settings: SessionSettings) -> Result<Opening, PgError> {
        let worker = begin_worker(&dsn, &settings)?;
        Ok(Opening { dsn, settings, worker })
    }

    /// The server's process of this session.
    #[must_use]
    pub fn backend_pid(&self) -> i32 {
        self.worker().session.pid
    }

    /// Whether the session is gone and [`Self::reconnect`] is due.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.worker().is_lost.load(Ordering::Acquire)
    }

    /// Opens a new session in place of the old one, with the same settings. Whatever was
    /// open in the old one is gone. The caller raises its fence again.
    ///
    /// # Errors
    /// As [`Self::open`]; the handle then keeps the old, lost session.
    pub async fn reconnect(&self) -> Result<(), PgError> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let worker = begin_worker(&self.dsn, &settings)?.standing().await?;
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = worker;
        Ok(())
    }

    /// Names the session `cutter/<run>/<epoch>`, now and after a reconnect.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn set_application_name(&self, run: &str, epoch: i64) -> Result<(), PgError> {
        let name = format!("cutter/{run}/{epoch}");
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).application_name.clone_from(&name);
        self.run(move |client| settings::set_application_name(client, &name)).await
    }

    /// Runs a job on the connection's thread and waits for its answer. If the caller stops
    /// waiting, the job goes on.
    ///
    /// # Errors
    /// The job's; [`PgError::Connection`] if the session is lost; [`PgError::Internal`] if the
    /// job panicked, after which the session is given up.
    pub async fn run<T, F>(&self, job: F) -> Result<T, PgError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Client) -> Result<T, PgError> + Send + 'static,
    {
        let (_, _, answer) = self.hand_over(job)?;
        answer.await.unwrap_or_else(|_| Err(thread_gone()))
    }

    /// Hands a job over and does not wait for its answer.
    ///
    /// # Errors
    /// [`PgError::Connection`] if the session is lost.
    pub(crate) fn post<F>(&self, job: F) -> Result<(), PgError>
    where
        F: FnOnce(&mut Client) -> Result<(), PgError> + Send + 'static,
    {
        self.hand_over(job).map(|_| ())
    }

    /// As [`Self::run`], ended after `limit`, which includes the wait behind earlier jobs.
    ///
    /// # Errors
    /// As [`Self::run`]; [`PgError::Deadline`] if COMMIT was not sent by then, and
    /// [`PgError::OutcomeUnknown`] if it was (only [`commit`] and [`commit_session`] tell). A
    /// statement that the cancel ended in time reports as the server's `57014`, which is a
    /// deadline, too.
    pub async fn run_with_deadline<T, F>(&self, limit: Duration, job: F) -> Result<T, PgError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Client) -> Result<T, PgError> + Send + 'static,
    {
        let worker = self.worker();
        let (state, reply, answer) = self.hand_over(job)?;
        let timer = Timer { limit, state, worker, dsn: self.dsn.clone() };
        // Disarmed when the answer is there, or nobody waits for it any more.
        let armed = deadline::arm(limit, move |is_done| {
            if let Some(error) = timer.end(is_done) {
                send(&reply, Err(error));
            }
        });
        let _armed = match armed {
            Ok(armed) => armed,
            // Without a timer the promise cannot be kept; the job goes on unobserved.
            Err(error) => return Err(PgError::OutcomeUnknown(format!("no thread for the timer: {error}"))),
        };
        answer.await.unwrap_or_else(|_| Err(thread_gone()))
    }

    fn worker(&self) -> Worker {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[allow(clippy::type_complexity, reason = "three parts of one job, taken apart at once")]
    fn hand_over<T, F>(
        &self,
        job: F,
    ) -> Result<(Arc<JobState>, Reply<T>, oneshot::Receiver<Result<T, PgError>>), PgError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Client) -> Result<T, PgError> + Send + 'static,
    {
        let worker = self.worker();
        if worker.is_lost.load(Ordering::Acquire) {
            return Err(lost());
        }
        let (sender, receiver) = oneshot::channel();
        let reply: Reply<T> = Arc::new(Mutex::new(Some(sender)));
        let state = JobState::new();
        let (job_state, job_reply, is_lost) = (state.clone(), reply.clone(), worker.is_lost.clone());
        let boxed: Job = Box::new(move |client| {
            let outcome = match client {
                Some(client) if job_state.advance(Stage::Queued, Stage::Running) => {
                    run_job(client, job, &job_state, &is_lost)
                }
                // Revoked by the timer before it began: the timer has answered.
                Some(_) => return,
                None => Err(lost()),
            };
            // A cancel on its way is waited for here, before the next job.
            let gate = job_state.gate();
            let mut stage = job_state.lock();
            if *stage != Stage::Abandoned {
                *stage = Stage::Done;
            }
            drop((stage, gate));
            send(&job_reply, outcome);
        });
        worker.jobs.send(boxed).map_err(|_| lost())?;
        Ok((state, reply, receiver))
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.dsn.redacted())
            .field("backend_pid", &self.backend_pid())
            .field("is_lost", &self.is_lost())
            .finish()
    }
}

fn run_job<T>(
    client: &mut Client,
    job: impl FnOnce(&mut Client) -> Result<T, PgError>,
    state: &Arc<JobState>,
    is_lost: &AtomicBool,
) -> Result<T, PgError> {
    job::set_current(Some(state.clone()));
    let outcome = catch_unwind(AssertUnwindSafe(|| job(client)));
    job::set_current(None);
    let outcome = outcome.unwrap_or_else(|panic| {
        // What the job left in the session is unknown.
        is_lost.store(true, Ordering::Release);
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        let error = PgError::Internal(text);
        let is_commit_sent = *state.lock() == Stage::CommitSent;
        Err(if is_commit_sent { error.commit_outcome() } else { error })
    });
    let is_gone = matches!(&outcome, Err(error) if error.is_connection_loss());
    if is_gone || client.is_closed() {
        is_lost.store(true, Ordering::Release);
    }
    outcome
}

/// A connection that is being opened.
pub(crate) struct Opening {
    dsn: Dsn,
    settings: SessionSettings,
    worker: BeginningWorker,
}

impl Opening {
    /// Waits until the session stands.
    pub(crate) async fn opened(self) -> Result<Connection, PgError> {
        let worker = self.worker.standing().await?;
        Ok(Connection { dsn: self.dsn, settings: Mutex::new(self.settings), worker: Mutex::new(worker) })
    }
}

/// A thread that connects.
struct BeginningWorker {
    jobs: mpsc::Sender<Job>,
    session: oneshot::Receiver<Result<Session, PgError>>,
    is_lost: Arc<AtomicBool>,
}

impl BeginningWorker {
    async fn standing(self) -> Result<Worker, PgError> {
        let session = self.session.await.unwrap_or_else(|_| Err(thread_gone()))?;
        Ok(Worker { jobs: self.jobs, session, is_lost: self.is_lost })
    }
}

/// Starts the thread, which connects.
fn begin_worker(dsn: &Dsn, settings: &SessionSettings) -> Result<BeginningWorker, PgError> {
    let config = dsn.config()?;
    let settings = settings.clone();
    let (ready, session) = oneshot::channel::<Result<Session, PgError>>();
    let (jobs, inbox) = mpsc::channel::<Job>();
    let is_lost = Arc::new(AtomicBool::new(false));
    let thread_lost = is_lost.clone();
    std::thread::Builder::new()
        .name("cutter-pg".to_owned())
        .spawn(move || {
            let mut client = match connect(&config, &settings) {
                Ok((client, session)) => {
                    if ready.send(Ok(session)).is_err() {
                        // The caller went away; the client is dropped here, on its thread.
                        return;
                    }
                    Some(client)
                }
                Err(error) => {
                    // Nobody may be waiting any more; there is nobody to tell then.
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            // Ends when every handle is gone.
            for job in inbox {
                if thread_lost.load(Ordering::Acquire) {
                    client = None;
                }
                job(client.as_mut());
                // A session that is given up must not keep its locks until the handle goes.
                if thread_lost.load(Ordering::Acquire) {
                    client = None;
                }
            }
        })
        .map_err(|error| PgError::Connection(format!("no thread for the connection: {error}")))?;
    Ok(BeginningWorker { jobs, session, is_lost })
}

fn connect(config: &postgres::Config, settings: &SessionSettings) -> Result<(Client, Session), PgError> {
    let mut client = config.connect(NoTls)?;
    settings.apply(&mut client)?;
    let row = client.query_one(
        "SELECT pg_catalog.pg_backend_pid(),
                (SELECT a.backend_start::text
                 FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) a)",
        &[],
    )?;
    let session = Session { pid: row.try_get(0)?, started: row.try_get(1)?, cancel: client.cancel_token() };
    Ok((client, session))
}

/// The client-side timer of one job.
struct Timer {
    limit: Duration,
    state: Arc<JobState>,
    worker: Worker,
    dsn: Dsn,
}

impl Timer {
    /// Ends the job, whose limit has passed. `Some`: the caller is to be told this.
    fn end(self, is_done: &deadline::Done) -> Option<PgError> {
        let waited_ms = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
        if self.state.advance(Stage::Queued, Stage::Revoked) {
            return Some(PgError::Deadline { waited_ms });
        }
        self.cancel();
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            if is_done.is_set() || *self.state.lock() == Stage::Done {
                return None;
            }
        }
        let was = self.abandon();
        self.worker.is_lost.store(true, Ordering::Release);
        self.terminate();
        match was {
            Stage::Done | Stage::Revoked => None,
            Stage::CommitSent => {
                Some(PgError::OutcomeUnknown(format!("no answer to COMMIT within {waited_ms} ms")))
            }
            _ => Some(PgError::Deadline { waited_ms }),
        }
    }

    /// Sends a cancel on a thread of its own: it is a new connection and can hang as the old.
    fn cancel(&self) {
        let (state, cancel) = (self.state.clone(), self.worker.session.cancel.clone());
        let _ = std::thread::Builder::new().name("cutter-pg-cancel".to_owned()).spawn(move || {
            let gate = state.gate();
            let stage = *state.lock();
            if matches!(stage, Stage::Running | Stage::CommitSent) {
                // Best effort; what follows if it fails is the end of the session.
                let _ = cancel.cancel_query(NoTls);
            }
            drop(gate);
        });
    }

    fn abandon(&self) -> Stage {
        let mut stage = self.state.lock();
        let was = *stage;
        if matches!(was, Stage::Running | Stage::CommitSent) {
            *stage = Stage::Abandoned;
        }
        was
    }

    /// Ends the session from the server's side, so that its locks go and its thread returns.
    fn terminate(&self) {
        let (dsn, session) = (self.dsn.clone(), self.worker.session.clone());
        let _ = std::thread::Builder::new().name("cutter-pg-terminate".to_owned()).spawn(move || {
            let Ok(Ok(mut client)) = dsn.config().map(|config| config.connect(NoTls)) else { return };
            // The start time besides the number: by now it could be somebody else's.
            let _ = client.execute(
                "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
                 WHERE pid = $1 AND backend_start::text = $2",
                &[&session.pid, &session.started],
            );
        });
    }
}

fn send<T>(reply: &Reply<T>, outcome: Result<T, PgError>) {
    if let Some(sender) = reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // A caller that stopped waiting does not want the answer.
        let _ = sender.send(outcome);
    }
}

fn lost() -> PgError {
    PgError::Connection("the session was lost before; reconnect first".to_owned())
}

fn thread_gone() -> PgError {
    PgError::Connection("the connection's thread ended without an answer".to_owned())
}
