//! The run store over PostgreSQL: the state of runs where every worker reaches it, so that no
//! worker needs a disk that outlives it (PROTOCOL §3, §8).
//!
//! - A revision is a row under its number: of two writers one finds the number taken.
//! - The run lock is a **lease** with a fencing token. Every save of its holder names the token,
//!   renews the lease, and is refused ([`PortErrorKind::Fenced`], with the name of the holder) once
//!   somebody else took it over. A thread renews it while a phase takes long. The server's clock
//!   decides when it is over.
//! - A claim is a row under (document, generation).
//! - Each call is one prepared statement that commits by itself. A save brings the last stop
//!   request along, and the taking of the lock the newest revision, too, so that the driver's next
//!   question for either costs nothing: 24 statements for eleven phases, lock and release included.
//! - Mirrors of documents are not kept: their bytes are in the revision that owes them, and in the
//!   knowledge base.
//!
//! **Lost answers.** Every write is the same when it is asked again (same bytes, same ids), so an
//! answer that was lost is asked for once more over a new connection. Only if there is none to be
//! had the caller gets [`PortErrorKind::OutcomeUnknown`], and may ask again, too.

mod lease;
mod session;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cutter_core::id::RunId;
use cutter_core::port::run_store::{Claim, LockHolder, RunLock, RunStore, StopRequest, StoredRevision};
use cutter_core::port::{CasOutcome, PortError, PortErrorKind, PortResult};
use postgres::Row;
use serde::de::IgnoredAny;
use uuid::Uuid;

use self::lease::{HeldLease, Leases};
use self::session::{Access, Sessions, Statements};
use crate::dsn::Dsn;
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::row::{bigint, get, parsed, unsigned};

/// Largest sidecar revision (PROTOCOL §1); the table has the same bound.
pub const MAX_SIDECAR_BYTES: usize = 64 << 10;

/// How long a lease lasts without a sign of life, unless told.
const LEASE: Duration = Duration::from_secs(30);

/// Longest wait for one statement on the client's side, unless told.
const LIMIT: Duration = Duration::from_secs(20);

/// The run store of one process. Cheap to make; connects when it is first used.
///
/// One connection serves all runs of the store, one statement after the other.
pub struct PgRunStore {
    shared: Arc<Shared>,
}

/// What the store, its locks and the thread that renews them share.
struct Shared {
    sessions: Sessions,
    leases: Arc<Leases>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.leases.end();
    }
}

impl PgRunStore {
    /// A store over the connection string of `cutter_exec`, or of `cutter_ro` for a program that
    /// only reads: the server refuses its writes.
    #[must_use]
    pub fn connect(dsn: Dsn) -> Self {
        let shared = Shared { sessions: Sessions::new(dsn, LIMIT), leases: Arc::new(Leases::new(LEASE)) };
        Self { shared: Arc::new(shared) }
    }

    /// As [`Self::connect`], from connection strings by login: the executor's if it is there, else
    /// the reader's; `None` if neither is.
    #[must_use]
    pub fn of(dsns: &[(Login, Dsn)]) -> Option<Self> {
        let find = |login: Login| dsns.iter().find(|(l, _)| *l == login).map(|(_, dsn)| dsn.clone());
        find(Login::Exec).or_else(|| find(Login::Ro)).map(Self::connect)
    }

    /// How long a lease lasts without a save or a renewal: 30 s unless told, in whole milliseconds,
    /// from 1 ms to a day. A third of it passes between renewals.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.shared.leases.set_length(lease);
        self
    }

    /// Bounds each statement on the client's side: 20 s unless told.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        self.shared.sessions.set_limit(limit);
        self
    }

    /// How many statements were sent, renewals of leases left out; for a metric.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.shared.sessions.statements()
    }

    /// Ends the lease of whoever holds the run now, in a person's name: its holder is refused at
    /// its next save, and the lock is free. Gives who it was, or `None` if nobody held it (any more).
    ///
    /// # Errors
    /// The database's; `Denied` with the reader's login.
    pub async fn end_lease(&self, run_id: &RunId) -> PortResult<Option<LockHolder>> {
        let Some((holder, token)) = self.standing_lease(run_id).await? else { return Ok(None) };
        let run = run_id.to_string();
        let is_ended: bool = self
            .call("end_lease", Access::Write, move |s| {
                get(&s.one("SELECT cutter_run.fn_lease_release($1, $2)", &[&run, &token])?, 0)
            })
            .await?;
        Ok(is_ended.then_some(holder))
    }

    /// Looks at the store and changes nothing.
    ///
    /// # Errors
    /// The database's: the server does not answer, or the schema has no run store yet.
    pub async fn probe(&self) -> PortResult<RunStoreProbe> {
        self.call("probe", Access::Read, |s| {
            let row = s.one(
                "SELECT has_function_privilege('cutter_run.fn_run_publish(text, bigint, bytea, bigint, bigint)',
                        'EXECUTE') AS may_save,
                    (SELECT count(*) FROM cutter_run.run) AS runs,
                    (SELECT count(*) FROM cutter_run.lease l
                     WHERE l.released_at IS NULL AND l.expires_at > clock_timestamp()) AS leases",
                &[],
            )?;
            Ok(RunStoreProbe {
                may_save: get(&row, "may_save")?,
                runs: unsigned(&row, "runs")?,
                leases: unsigned(&row, "leases")?,
            })
        })
        .await
    }

    async fn call<T, F>(&self, op: &'static str, access: Access, work: F) -> PortResult<T>
    where
        T: Send + 'static,
        F: Fn(&mut Statements<'_>) -> Result<T, PgError> + Send + Sync + 'static,
    {
        self.shared.sessions.call(op, access, Arc::new(work)).await
    }

    /// The lease that stands, by the server's clock.
    async fn standing_lease(&self, run_id: &RunId) -> PortResult<Option<(LockHolder, i64)>> {
        let run = run_id.to_string();
        self.call("lock_holder", Access::Read, move |s| {
            let row = s.opt(
                "SELECT l.holder, l.token FROM cutter_run.lease l
                 WHERE l.run_id = $1 AND l.released_at IS NULL AND l.expires_at > clock_timestamp()",
                &[&run],
            )?;
            row.map(|row| Ok((holder_of(get(&row, 0)?)?, get(&row, 1)?))).transpose()
        })
        .await
    }

    fn token(&self, run_id: &RunId) -> Option<i64> {
        self.shared.leases.token(run_id)
    }
}

impl std::fmt::Debug for PgRunStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgRunStore").field("statements", &self.statements()).finish_non_exhaustive()
    }
}

/// What the server or the way to it refuses is the database's; everything else is the store's own.
fn error(op: &str, kind: PortErrorKind, message: impl Into<String>) -> PortError {
    use PortErrorKind as K;
    match kind {
        K::Unavailable | K::OutcomeUnknown | K::Denied | K::Full => {
            PortError::new(PORT, format!("run_store {op}"), kind, message)
        }
        _ => PortError::new("run_store", op, kind, message),
    }
}

/// What a look at the store found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStoreProbe {
    /// Whether this login may save.
    pub may_save: bool,
    /// How many runs are there.
    pub runs: u64,
    /// How many leases stand.
    pub leases: u64,
}

/// A sidecar is a JSON document of bounded size.
fn check_sidecar(op: &str, bytes: &[u8]) -> PortResult<()> {
    if bytes.len() > MAX_SIDECAR_BYTES {
        let message = format!("expected at most {MAX_SIDECAR_BYTES} bytes, observed {}", bytes.len());
        return Err(error(op, PortErrorKind::Invalid, message));
    }
    serde_json::from_slice::<IgnoredAny>(bytes)
        .map(|_| ())
        .map_err(|e| error(op, PortErrorKind::Invalid, format!("expected a JSON document: {e}")))
}

fn holder_of(text: &str) -> Result<LockHolder, PgError> {
    serde_json::from_str(text).map_err(|e| PgError::Shape(format!("column holder: {e}")))
}

fn stop_of(value: Option<serde_json::Value>) -> Result<Option<StopRequest>, PgError> {
    let parsed = value.map(serde_json::from_value).transpose();
    parsed.map_err(|e| PgError::Shape(format!("column stop: {e}")))
}

fn revision_of(row: &Row) -> Result<StoredRevision, PgError> {
    Ok(StoredRevision { revision: unsigned(row, "revision")?, bytes: get(row, "body")? })
}

/// `outcome` and `highest` of a compare-and-set.
fn cas(row: &Row) -> Result<CasOutcome<u64>, PgError> {
    match get::<_, &str>(row, "outcome")? {
        "applied" => Ok(CasOutcome::Applied),
        "already_applied" => Ok(CasOutcome::AlreadyApplied),
        "conflict" => Ok(CasOutcome::Conflict { found: unsigned(row, "highest")? }),
        other => Err(PgError::Shape(format!("column outcome: {other:?}"))),
    }
}

/// What `fn_lease_take` answered.
struct Taken {
    token: Option<i64>,
    holder: LockHolder,
    left_ms: Option<i64>,
    stop: Option<StopRequest>,
    newest: Option<StoredRevision>,
}

#[async_trait]
impl RunStore for PgRunStore {
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        check_sidecar("create", bytes)?;
        let (run, body) = (run_id.to_string(), bytes.to_vec());
        self.call("create", Access::Write, move |s| {
            cas(&s.one("SELECT outcome, highest FROM cutter_run.fn_run_create($1, $2)", &[&run, &body])?)
        })
        .await
    }

    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>> {
        let run = run_id.to_string();
        self.call("load", Access::Read, move |s| {
            let row = s.opt(
                "SELECT r.revision, r.body FROM cutter_run.revision r WHERE r.run_id = $1
                 ORDER BY r.revision DESC LIMIT 1",
                &[&run],
            )?;
            row.as_ref().map(revision_of).transpose()
        })
        .await
    }

    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>> {
        let Ok(number) = bigint(revision) else { return Ok(None) };
        let run = run_id.to_string();
        self.call("load_revision", Access::Read, move |s| {
            let row = s.opt(
                "SELECT r.revision, r.body FROM cutter_run.revision r WHERE r.run_id = $1 AND r.revision = $2",
                &[&run, &number],
            )?;
            row.as_ref().map(revision_of).transpose()
        })
        .await
    }

    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        check_sidecar("publish", bytes)?;
        let expected = bigint(expected).map_err(|e| e.to_port("run_store publish"))?;
        let (run, body, token) = (run_id.to_string(), bytes.to_vec(), self.token(run_id));
        let lease_ms = self.shared.leases.length_ms();
        let (outcome, stop) = self
            .call("publish", Access::Write, move |s| {
                let row = s.one(
                    "SELECT outcome, highest, stop FROM cutter_run.fn_run_publish($1, $2, $3, $4, $5)",
                    &[&run, &expected, &body, &token, &lease_ms],
                )?;
                Ok((cas(&row)?, stop_of(get(&row, "stop")?)?))
            })
            .await?;
        if let Some(token) = token {
            self.shared.leases.renewed(run_id, token, Some(stop));
        }
        Ok(outcome)
    }

    /// Checks the name and keeps nothing: see the module.
    async fn mirror(&self, _run_id: &RunId, name: &str, _bytes: &[u8]) -> PortResult<()> {
        if name.is_empty() || name.contains(['/', '\\', '\0']) || name.starts_with('.') {
            let message = format!("{name:?} is no plain file name");
            return Err(error("mirror", PortErrorKind::Invalid, message));
        }
        Ok(())
    }

    async fn lock(&self, run_id: &RunId, holder: &LockHolder) -> PortResult<Box<dyn RunLock>> {
        Ok(self.lock_and_load(run_id, holder).await?.0)
    }

    /// One statement: who has taken the lease cannot be overtaken by a save of another.
    async fn lock_and_load(
        &self,
        run_id: &RunId,
        holder: &LockHolder,
    ) -> PortResult<(Box<dyn RunLock>, Option<StoredRevision>)> {
        let invalid = |e: String| error("lock", PortErrorKind::Invalid, e);
        let text = serde_json::to_string(holder).map_err(|e| invalid(e.to_string()))?;
        // Of this call alone: two tasks of one process exclude each other, and an answer that was
        // lost is found again.
        let attempt = attempt_id().map_err(|e| invalid(e.to_string()))?;
        let (run, lease_ms) = (run_id.to_string(), self.shared.leases.length_ms());
        let taken = self
            .call("lock", Access::Write, move |s| {
                let row = s.one(
                    "SELECT token, holder, left_ms, stop, revision, body
                     FROM cutter_run.fn_lease_take($1, $2, $3, $4)",
                    &[&run, &attempt, &text, &lease_ms],
                )?;
                Ok(Taken {
                    token: get(&row, "token")?,
                    holder: holder_of(get(&row, "holder")?)?,
                    left_ms: get(&row, "left_ms")?,
                    stop: stop_of(get(&row, "stop")?)?,
                    newest: get::<_, Option<&[u8]>>(&row, "body")?.map(|_| revision_of(&row)).transpose()?,
                })
            })
            .await?;
        let Some(token) = taken.token else {
            let LockHolder { holder, host, pid, since, command } = &taken.holder;
            let seconds = taken.left_ms.unwrap_or_default().max(0).div_euclid(1000) + 1;
            return Err(error(
                "lock",
                PortErrorKind::Busy,
                format!(
                    "{run_id} is locked by {holder}, process {pid} on {host} since {since}: {command}; \
                     its lease runs out in {seconds} s unless it is renewed"
                ),
            ));
        };
        let held = HeldLease::begin(self.shared.clone(), run_id.clone(), token, taken.stop)?;
        Ok((Box::new(held), taken.newest))
    }

    async fn lock_holder(&self, run_id: &RunId) -> PortResult<Option<LockHolder>> {
        Ok(self.standing_lease(run_id).await?.map(|(holder, _)| holder))
    }

    async fn request_stop(&self, run_id: &RunId, request: &StopRequest) -> PortResult<()> {
        let (run, r) = (run_id.to_string(), request.clone());
        self.shared.leases.forget_stop(run_id);
        self.call("request_stop", Access::Write, move |s| {
            s.one(
                "SELECT cutter_run.fn_stop_request($1, $2, $3, $4, $5)",
                &[&run, &r.id, &r.reason, &r.actor, &r.at],
            )
            .map(|_| ())
        })
        .await?;
        self.shared.leases.forget_stop(run_id);
        Ok(())
    }

    /// For the holder of the lock the answer that its last save brought along, once; else asked.
    async fn stop_request(&self, run_id: &RunId) -> PortResult<Option<StopRequest>> {
        if let Some(brought) = self.shared.leases.take_stop(run_id) {
            return Ok(brought);
        }
        let run = run_id.to_string();
        self.call("stop_request", Access::Read, move |s| {
            let row = s.opt(
                "SELECT s.id, s.reason, s.actor, s.asked_at FROM cutter_run.stop_request s
                 WHERE s.run_id = $1 ORDER BY s.n DESC LIMIT 1",
                &[&run],
            )?;
            let read = |row: Row| {
                Ok(StopRequest {
                    id: get(&row, 0)?,
                    reason: get(&row, 1)?,
                    actor: get(&row, 2)?,
                    at: get(&row, 3)?,
                })
            };
            row.map(read).transpose()
        })
        .await
    }

    async fn latest_claim(&self, document_id: &str) -> PortResult<Option<Claim>> {
        let document = document_id.to_owned();
        self.call("latest_claim", Access::Read, move |s| {
            let row = s.opt(
                "SELECT c.generation, c.run_id FROM cutter_run.claim c WHERE c.document_id = $1
                 ORDER BY c.generation DESC LIMIT 1",
                &[&document],
            )?;
            let read = |row: Row| {
                Ok(Claim {
                    document_id: document.clone(),
                    generation: unsigned(&row, "generation")?,
                    run_id: parsed(&row, "run_id")?,
                })
            };
            row.map(read).transpose()
        })
        .await
    }

    async fn put_claim(&self, claim: &Claim) -> PortResult<CasOutcome<Claim>> {
        let generation = bigint(claim.generation).map_err(|e| e.to_port("run_store put_claim"))?;
        let (document, run) = (claim.document_id.clone(), claim.run_id.to_string());
        let (outcome, found, newest) = self
            .call("put_claim", Access::Write, move |s| {
                let row = s.one(
                    "SELECT outcome, standing, newest FROM cutter_run.fn_claim_put($1, $2, $3)",
                    &[&document, &generation, &run],
                )?;
                let found = get::<_, Option<&str>>(&row, "standing")?;
                let found = found.map(|text| {
                    text.parse::<RunId>().map_err(|e| PgError::Shape(format!("column standing: {e}")))
                });
                Ok((get::<_, String>(&row, "outcome")?, found.transpose()?, unsigned(&row, "newest")?))
            })
            .await?;
        match (outcome.as_str(), found) {
            ("applied", _) => Ok(CasOutcome::Applied),
            ("already_applied", _) => Ok(CasOutcome::AlreadyApplied),
            ("conflict", Some(run_id)) => {
                Ok(CasOutcome::Conflict { found: Claim { run_id, ..claim.clone() } })
            }
            ("gap", _) => {
                let expected = newest + 1;
                let message =
                    format!("expected a generation from 1 to {expected}, observed {}", claim.generation);
                Err(error("put_claim", PortErrorKind::Invalid, message))
            }
            (other, _) => {
                Err(error("put_claim", PortErrorKind::Corrupt, format!("column outcome: {other:?}")))
            }
        }
    }

    async fn list(&self) -> PortResult<Vec<RunId>> {
        self.call("list", Access::Read, |s| {
            let rows = s.all("SELECT r.run_id FROM cutter_run.run r ORDER BY r.run_id", &[])?;
            rows.iter().map(|row| parsed(row, "run_id")).collect()
        })
        .await
    }

    /// The same for every worker, whatever way it connects: documents of the run show it.
    fn sidecar_location(&self, run_id: &RunId) -> String {
        format!("database:cutter_run.revision/{run_id}")
    }
}

/// A random identifier.
fn attempt_id() -> Result<Uuid, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}
