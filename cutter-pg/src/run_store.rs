//! The run store over PostgreSQL: the state of runs where every worker reaches it, so that no
//! worker needs a disk that outlives it (PROTOCOL §3, §8).
//!
//! - A revision is a row under its number: of two writers one finds the number taken. Whoever holds the
//!   lock knows the revision before, and sends what is new in it.
//! - The run lock is a **lease** with a fencing token. Every save of its holder names the token,
//!   renews the lease once half of it is over, and is refused ([`PortErrorKind::Fenced`], with the name of the holder) once
//!   somebody else took it over. A thread renews it while a phase takes long. The server's clock
//!   decides when it is over.
//! - A claim is a row under (document, generation).
//! - Each call is one prepared statement that commits by itself. A save brings the last stop
//!   request along, and the taking of the lock the newest revision, too, so that the driver's next
//!   question for either costs nothing. Creation, lock and claim of a new run are one statement.
//! - Mirrors of documents are not kept: their bytes are in the revision that owes them, and in the
//!   knowledge base.
//!
//! **Lost answers.** Every write is the same when it is asked again (same bytes, same ids), so an
//! answer that was lost is asked for once more over a new connection. Only if there is none to be
//! had the caller gets [`PortErrorKind::OutcomeUnknown`], and may ask again, too.

mod answers;
mod here;
mod lease;
mod look;
mod session;
mod splice;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::id::RunId;
use cutter_core::port::run_store::{
    Beginning, Begun, Claim, LockHolder, RunLock, RunStore, StopRequest, StoredRevision,
};
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use postgres::Row;

use self::answers::{PutClaim, Taken, asking, cas, holder_of, newest, revision_of, saved};
use self::lease::{HeldLease, Leases, Newest};
use self::session::{Access, Sessions, Statements};
use self::splice::{Text, WHOLE_EVERY};
use crate::dsn::Dsn;
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::row::{bigint, get, parsed, unsigned};

/// Largest sidecar revision (PROTOCOL §1); the functions have the same bound.
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

    /// How long a lease lasts without a renewal: 30 s unless told, in whole milliseconds,
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

    /// Lets the thread that asks drive the connection itself and wait for each answer, where otherwise a
    /// thread of the store does: no other thread is woken for a statement. For programs that drive a run
    /// on a thread of its own, as `cutter` does; refused on the threads of an async runtime, which must
    /// not wait. Set it before the first call.
    #[must_use]
    pub fn waiting(self) -> Self {
        self.shared.sessions.set_here();
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

    async fn save(
        &self,
        run_id: &RunId,
        expected: u64,
        bytes: &[u8],
        is_last: bool,
    ) -> PortResult<CasOutcome<u64>> {
        let number = expected.saturating_add(1);
        let (run, token) = (run_id.to_string(), self.token(run_id));
        let before = self.shared.leases.newest(run_id, expected);
        let text = sidecar("publish", bytes, before.as_deref())?;
        let before = before.filter(|_| !number.is_multiple_of(WHOLE_EVERY));
        let stored = before.map_or_else(|| text.whole(), |before| text.beside(&before));
        let expected = bigint(expected).map_err(|e| e.to_port("run_store publish"))?;
        let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        let lease_ms = self.shared.leases.length_ms();
        let (outcome, stop) = self
            .call("publish", Access::Write, move |s| {
                saved(&s.one(
                    "SELECT cutter_run.fn_run_publish($1, $2, $3, $4, $5, $6, $7, $8)",
                    &[&run, &expected, &stored.body, &stored.places, &length, &token, &lease_ms, &is_last],
                )?)
            })
            .await?;
        let is_saved = !matches!(outcome, CasOutcome::Conflict { .. });
        match token {
            // Where it stood already, the drop of the lock sees to it.
            Some(token) if is_last && outcome == CasOutcome::Applied => {
                self.shared.leases.remove(run_id, token);
            }
            Some(token) => {
                self.shared.leases.saved(run_id, token, stop, is_saved.then(|| (number, Arc::new(text))));
            }
            None => {}
        }
        Ok(outcome)
    }

    fn token(&self, run_id: &RunId) -> Option<i64> {
        self.shared.leases.token(run_id)
    }

    /// The lock that was taken, or `Busy` with the name of who has it.
    fn held(&self, run_id: &RunId, taken: Taken, newest: Option<Newest>) -> PortResult<Box<dyn RunLock>> {
        let Some(token) = taken.token else {
            let LockHolder { holder, host, pid, since, command } = &taken.holder;
            let seconds = taken.left_ms.unwrap_or_default().max(0).div_euclid(1000) + 1;
            let message = format!(
                "{run_id} is locked by {holder}, process {pid} on {host} since {since}: {command}; \
                 its lease runs out in {seconds} s unless it is renewed"
            );
            return Err(error("lock", PortErrorKind::Busy, message));
        };
        Ok(Box::new(HeldLease::begin(self.shared.clone(), run_id.clone(), token, taken.stop, newest)?))
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
        _ => PortError::new(Port::RunStore, op, kind, message),
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
fn sidecar(op: &str, bytes: &[u8], before: Option<&Text>) -> PortResult<Text> {
    if bytes.len() > MAX_SIDECAR_BYTES {
        let message = format!("expected at most {MAX_SIDECAR_BYTES} bytes, observed {}", bytes.len());
        return Err(error(op, PortErrorKind::Invalid, message));
    }
    Text::of(bytes.to_vec(), before)
        .map_err(|e| error(op, PortErrorKind::Invalid, format!("expected a JSON document: {e}")))
}

#[async_trait]
impl RunStore for PgRunStore {
    async fn create(&self, run_id: &RunId, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        let (run, body) = (run_id.to_string(), sidecar("create", bytes, None)?.bytes);
        self.call("create", Access::Write, move |s| {
            cas(&s.one("SELECT outcome, highest FROM cutter_run.fn_run_create($1, $2)", &[&run, &body])?)
        })
        .await
    }

    async fn load(&self, run_id: &RunId) -> PortResult<Option<StoredRevision>> {
        let run = run_id.to_string();
        self.call("load", Access::Read, move |s| {
            let row = s.opt(
                "SELECT r.revision, cutter_run.fn_run_text(r.run_id, r.revision) AS body
                 FROM cutter_run.revision r WHERE r.run_id = $1 ORDER BY r.revision DESC LIMIT 1",
                &[&run],
            )?;
            row.as_ref().map(revision_of).transpose()
        })
        .await
    }

    async fn load_many(&self, run_ids: &[RunId]) -> PortResult<Vec<Option<StoredRevision>>> {
        let runs: Vec<String> = run_ids.iter().map(ToString::to_string).collect();
        self.call("load_many", Access::Read, move |s| {
            let rows = s.all(
                "SELECT r.revision, cutter_run.fn_run_text(r.run_id, r.revision) AS body
                 FROM unnest($1::text[]) WITH ORDINALITY AS asked(run_id, place)
                 LEFT JOIN LATERAL (
                     SELECT v.run_id, v.revision FROM cutter_run.revision v
                     WHERE v.run_id = asked.run_id COLLATE \"C\" ORDER BY v.revision DESC LIMIT 1
                 ) r ON true ORDER BY asked.place",
                &[&runs],
            )?;
            newest(&rows, runs.len())
        })
        .await
    }

    async fn history(&self, run_id: &RunId, last: u64) -> PortResult<Vec<StoredRevision>> {
        self.read_history(run_id, last).await
    }

    async fn load_revision(&self, run_id: &RunId, revision: u64) -> PortResult<Option<StoredRevision>> {
        let Ok(number) = bigint(revision) else { return Ok(None) };
        let run = run_id.to_string();
        self.call("load_revision", Access::Read, move |s| {
            let row = s.opt(
                "SELECT r.revision, cutter_run.fn_run_text(r.run_id, r.revision) AS body
                 FROM cutter_run.revision r WHERE r.run_id = $1 AND r.revision = $2",
                &[&run, &number],
            )?;
            row.as_ref().map(revision_of).transpose()
        })
        .await
    }

    async fn publish(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.save(run_id, expected, bytes, false).await
    }

    async fn publish_last(&self, run_id: &RunId, expected: u64, bytes: &[u8]) -> PortResult<CasOutcome<u64>> {
        self.save(run_id, expected, bytes, true).await
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
        let (text, attempt) = asking(holder)?;
        let (run, lease_ms) = (run_id.to_string(), self.shared.leases.length_ms());
        let (taken, newest) = self
            .call("lock", Access::Write, move |s| {
                let row = s.one(
                    "SELECT token, holder, left_ms, stop, revision, body
                     FROM cutter_run.fn_lease_take($1, $2, $3, $4)",
                    &[&run, &attempt, &text, &lease_ms],
                )?;
                let newest = get::<_, Option<&[u8]>>(&row, "body")?.map(|_| revision_of(&row)).transpose()?;
                Ok((Taken::of(&row)?, newest))
            })
            .await?;
        let known = newest.as_ref().and_then(|newest: &StoredRevision| {
            Some((newest.revision, Arc::new(Text::of(newest.bytes.clone(), None).ok()?)))
        });
        Ok((self.held(run_id, taken, known)?, newest))
    }

    /// One statement, one commit.
    async fn begin(&self, beginning: &Beginning<'_>) -> PortResult<Begun> {
        let first = Arc::new(sidecar("begin", beginning.bytes, None)?);
        let (text, attempt) = asking(beginning.holder)?;
        let (run, body) = (beginning.run_id.to_string(), first.clone());
        let lease_ms = self.shared.leases.length_ms();
        let claim = beginning.claim.map(|claim| Ok((claim.document_id.clone(), bigint(claim.generation)?)));
        let claim = claim.transpose().map_err(|e: PgError| e.to_port("run_store begin"))?;
        let (document, generation) = claim.unzip();
        let (created, taken, claimed) = self
            .call("begin", Access::Write, move |s| {
                let row = s.one(
                    "SELECT created AS outcome, highest, token, holder, left_ms, stop, claimed, standing, newest
                     FROM cutter_run.fn_run_begin($1, $2, $3, $4, $5, $6, $7)",
                    &[&run, &body.bytes, &attempt, &text, &lease_ms, &document, &generation],
                )?;
                let created = cas(&row)?;
                let is_new = !matches!(created, CasOutcome::Conflict { .. });
                let taken = is_new.then(|| Taken::of(&row)).transpose()?;
                Ok((created, taken, PutClaim::of(&row)?))
            })
            .await?;
        let lock = taken.map(|taken| self.held(beginning.run_id, taken, Some((1, first)))).transpose()?;
        let claimed = match (beginning.claim, claimed) {
            (Some(claim), Some(put)) => Some(put.outcome(claim)?),
            _ => None,
        };
        Ok(Begun { created, lock, claimed })
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
        let put = self
            .call("put_claim", Access::Write, move |s| {
                let row = s.one(
                    "SELECT outcome AS claimed, standing, newest FROM cutter_run.fn_claim_put($1, $2, $3)",
                    &[&document, &generation, &run],
                )?;
                PutClaim::of(&row)?.ok_or_else(|| PgError::Shape("column claimed: NULL".to_owned()))
            })
            .await?;
        put.outcome(claim)
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
