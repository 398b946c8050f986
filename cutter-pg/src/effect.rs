//! One effect, one transaction: fence, document lock, what is recorded, survey, writes, survey
//! again, and then the caller's verdict.
//!
//! ```text
//! begin   BEGIN · fn_run_fence_assert · fn_document_lock · run_effect? · survey · writes
//!         · deferred checks · survey · facts          (any error: ROLLBACK)
//! finish  run_effect row · COMMIT                     (or ROLLBACK; drop rolls back)
//! ```
//!
//! READ COMMITTED on purpose: the survey after the writes must see a function that was
//! replaced meanwhile (PROTOCOL §4). A lost race before COMMIT (deadlock, lock timeout) is
//! tried again under the same ids; an error after COMMIT was sent is `OutcomeUnknown`.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cutter_core::port::database::{Begun, PendingEffect};
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::effect::{
    EffectContext, EffectFacts, EffectName, EffectRecord, ExecutorEffect, ReviewWrite, Verdict,
    WriteVerifyWrite,
};
use cutter_core::record::observed::StructuralFacts;
use postgres::Client;
use uuid::Uuid;

use crate::connection::commit_session;
use crate::database::{Held, PgDatabase, connection, give_up_after_deadline};
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::reader::find_effect;
use crate::row::{get, microseconds, system_time, verdict_text};
use crate::typed::params;
use crate::{executor, reviewer, survey, verifier};

/// How often a lost race is tried in all.
const ATTEMPTS: u32 = 3;

/// Any effect, of any principal.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// Of `cutter_exec`.
    Executor(ExecutorEffect),
    /// Of `cutter_review`.
    Review(ReviewWrite),
    /// Of `cutter_verify`.
    WriteVerify(WriteVerifyWrite),
}

impl Effect {
    const fn login(&self) -> Login {
        match self {
            Self::Executor(_) => Login::Exec,
            Self::Review(_) => Login::Review,
            Self::WriteVerify(_) => Login::Verify,
        }
    }

    fn may_be(&self, name: EffectName) -> bool {
        use EffectName as N;
        use ExecutorEffect as E;
        match self {
            Self::Executor(effect) => {
                name == match effect {
                    E::Mark(_) => N::Mark,
                    E::Sweep(_) => N::Sweep,
                    E::LegA(_) => N::LegA,
                    E::LegB(_) => N::LegB,
                    E::Sg2Request(_) => N::Sg2Request,
                    E::Enact(_) => N::Enact,
                    E::Void(_) => N::Void,
                }
            }
            Self::Review(_) => matches!(name, N::Sg1Review | N::Sg2Review | N::Sg3Review),
            Self::WriteVerify(_) => name == N::WriteVerify,
        }
    }
}

/// The open transaction while an effect writes in it, and what it saw.
pub(crate) struct Tx<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) cx: &'a EffectContext,
    /// [`EffectFacts::values`].
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) structural: Option<StructuralFacts>,
    /// Why committing would break a rule that the facts show: `finish` refuses.
    pub(crate) refusal: Option<String>,
}

impl Tx<'_> {
    pub(crate) fn run(&self) -> &str {
        self.cx.key.run_id.as_str()
    }

    pub(crate) fn put(&mut self, name: &str, value: impl ToString) {
        self.values.insert(name.to_owned(), value.to_string());
    }

    /// One number from one row.
    pub(crate) fn count(
        &mut self,
        sql: &str,
        params: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<i64, PgError> {
        get(&self.client.query_one(sql, params)?, 0)
    }

    /// Puts the status of the entry among the facts.
    pub(crate) fn put_status(&mut self, entry_id: Uuid) -> Result<(), PgError> {
        if let Some(status) = self.find_status(entry_id)? {
            self.put(cutter_core::record::effect::fact::ENTRY_STATUS, status);
        }
        Ok(())
    }

    /// The status of an entry; the document's lock keeps other runs away from it.
    pub(crate) fn status_of(&mut self, entry_id: Uuid) -> Result<String, PgError> {
        self.find_status(entry_id)?.ok_or_else(|| missing("decision_backlog_entry", entry_id))
    }

    fn find_status(&mut self, entry_id: Uuid) -> Result<Option<String>, PgError> {
        let sql = "SELECT e.status FROM cutter_governance.decision_backlog_entry e WHERE e.entry_id = $1";
        let row = self.client.query_typed_opt(sql, params![entry_id])?;
        row.map(|row| get(&row, 0)).transpose()
    }

    /// `fn_backlog_transition`: compare-and-set with the history row (A-1, A-5).
    pub(crate) fn transition(
        &mut self,
        entry_id: Uuid,
        (from, to): (&str, &str),
        history_id: Uuid,
        reason: &str,
        change_set_id: Option<Uuid>,
    ) -> Result<(), PgError> {
        let (actor, at) = (&self.cx.actor, system_time(self.cx.at));
        self.client.query_typed(
            "SELECT cutter_governance.fn_backlog_transition($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9)",
            params![
                entry_id,
                from,
                to,
                history_id,
                *actor,
                reason,
                self.cx.key.run_id.as_str(),
                change_set_id,
                at,
            ],
        )?;
        Ok(())
    }

    /// The change set exists, is live, and is this run's.
    pub(crate) fn own_live_change_set(&mut self, change_set_id: Uuid) -> Result<(), PgError> {
        let row = self.client.query_opt(
            "SELECT c.run_id, c.live FROM cutter_governance.cut_change_set c WHERE c.change_set_id = $1",
            &[&change_set_id],
        )?;
        let Some(row) = row else { return Err(missing("cut_change_set", change_set_id)) };
        let (run, live): (&str, bool) = (get(&row, 0)?, get(&row, 1)?);
        if run != self.run() {
            return Err(conflict(format!("change set {change_set_id} belongs to run {run}")));
        }
        if !live {
            return Err(conflict(format!("change set {change_set_id} is voided")));
        }
        Ok(())
    }
}

/// What was named is not there.
pub(crate) fn missing(table: &str, id: Uuid) -> PgError {
    ours("CUN00", format!("no row {id} in {table}"))
}

/// Another value stands there.
pub(crate) fn conflict(message: String) -> PgError {
    ours("CUC00", message)
}

/// The caller's value breaks the contract.
pub(crate) fn invalid(message: String) -> PgError {
    ours("CU000", message)
}

fn ours(code: &str, message: String) -> PgError {
    PgError::Database { sqlstate: code.to_owned(), message, detail: None, position: None }
}

/// What the connection's thread gets.
struct Job {
    cx: EffectContext,
    effect: Effect,
    cache: Arc<survey::CatalogueCache>,
}

/// What `begin` made on the connection's thread.
enum Opened {
    Recorded(EffectRecord),
    Written { facts: EffectFacts, refusal: Option<String> },
}

fn open(
    client: &mut Client,
    cx: &EffectContext,
    effect: &Effect,
    cache: &survey::CatalogueCache,
) -> Result<Opened, PgError> {
    // Only numbers and a UUID go into this text.
    client.batch_execute(&format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
         SET LOCAL statement_timeout = {};
         SET LOCAL application_name = 'cutter/{}/{}'",
        cx.deadline_ms.clamp(1, 2_147_483_647),
        cx.fence.run_id.uuid(),
        cx.fence.epoch
    ))?;
    let outcome = write(client, cx, effect, cache);
    if !matches!(outcome, Ok(Opened::Written { .. })) && !client.is_closed() {
        // If even this fails the connection is lost, and with it the transaction.
        client.batch_execute("ROLLBACK")?;
    }
    outcome
}

fn write(
    client: &mut Client,
    cx: &EffectContext,
    effect: &Effect,
    cache: &survey::CatalogueCache,
) -> Result<Opened, PgError> {
    client.query_typed(
        "SELECT cutter_governance.fn_run_fence_assert($1, $2, $3)",
        params![cx.fence.run_id.as_str(), cx.fence.epoch, cx.fence.holder],
    )?;
    let document_id = params![cx.fence.document_id];
    let locked = client.query_typed_one("SELECT iu_core.fn_document_lock($1)", document_id)?;
    if get::<_, Option<Uuid>>(&locked, 0)?.is_none() {
        return Err(ours("CUN01", format!("document {} was never registered", cx.fence.document_id)));
    }
    if let Some(record) = find_effect(client, &cx.key)? {
        if cutter_core::gate::command::same_payload(&record.payload_sha256, &cx.payload_sha256) {
            return Ok(Opened::Recorded(record));
        }
        return Err(conflict(format!(
            "{} occurrence {} of {} is recorded with payload {}, asked for {}",
            cx.key.effect, cx.key.occurrence, cx.key.run_id, record.payload_sha256, cx.payload_sha256
        )));
    }
    let survey_before = survey::survey(client, &cx.survey, cache)?;
    let mut tx = Tx { client, cx, values: BTreeMap::new(), structural: None, refusal: None };
    match effect {
        Effect::Executor(effect) => executor::write(&mut tx, effect)?,
        Effect::Review(effect) => reviewer::write(&mut tx, effect)?,
        Effect::WriteVerify(effect) => verifier::write(&mut tx, effect, false)?,
    }
    let Tx { values, structural, refusal, .. } = tx;
    let facts = observe(client, cx, survey_before, values, structural, cache, refusal.is_none())?;
    Ok(Opened::Written { facts, refusal })
}

/// Deferred checks first: what they would find at COMMIT is an error now, not an unknown outcome
/// then. Not of what cannot be committed: the gate shall see its facts.
fn observe(
    client: &mut Client,
    cx: &EffectContext,
    survey_before: cutter_core::record::observed::Survey,
    mut values: BTreeMap<String, String>,
    structural: Option<StructuralFacts>,
    cache: &survey::CatalogueCache,
    settle: bool,
) -> Result<EffectFacts, PgError> {
    settle.then(|| client.batch_execute(crate::definitions::DEFERRED_CHECKS)).transpose()?;
    let survey_after = survey::survey(client, &cx.survey, cache)?;
    // Judged again inside leg A and enactment.
    let wants_grants = matches!(cx.key.effect, EffectName::LegA | EffectName::Enact);
    if let Some(grants) = survey_after.0.get(cutter_core::gate::drift::GRANTS).filter(|_| wants_grants) {
        values.insert(cutter_core::record::effect::fact::GRANTS.to_owned(), grants.clone());
    }
    let principal = get(&client.query_typed_one("SELECT session_user::text", params![])?, 0)?;
    Ok(EffectFacts { survey_before, survey_after, principal, values, structural })
}

impl PgDatabase {
    /// Performs an effect up to, not including, COMMIT.
    pub(crate) async fn begin_effect(&self, cx: &EffectContext, effect: Effect) -> PortResult<Begun> {
        let op = format!("begin {}", cx.key.effect);
        check(cx, &effect, &op)?;
        let deadline = Instant::now() + Duration::from_millis(cx.deadline_ms);
        let mut held = self.hold(effect.login(), &op).await?;
        let job = Arc::new(Job { cx: cx.clone(), effect, cache: self.catalogue() });
        let mut attempt = 1;
        let opened = loop {
            let guard = RollbackOnDrop(Some(&held));
            let (job, limit) = (job.clone(), deadline.saturating_duration_since(Instant::now()));
            let outcome = match connection(&held) {
                Ok(connection) => {
                    connection
                        .run_with_deadline(limit, move |client| {
                            open(client, &job.cx, &job.effect, &job.cache)
                        })
                        .await
                }
                Err(error) => Err(error),
            };
            guard.disarm();
            match outcome {
                Err(error) if error.is_retriable() && attempt < ATTEMPTS => attempt += 1,
                // COMMIT was not sent, so nothing is unknown.
                Err(PgError::OutcomeUnknown(text)) => return Err(PgError::Connection(text).to_port(op)),
                Err(error) => {
                    give_up_after_deadline(&mut held, &error);
                    return Err(error.to_port(op));
                }
                Ok(opened) => break opened,
            }
        };
        match opened {
            Opened::Recorded(record) => Ok(Begun::Recorded(record)),
            Opened::Written { facts, refusal } => {
                Ok(Begun::Pending(Box::new(Pending { held, job, facts, refusal, deadline, is_open: true })))
            }
        }
    }
}

/// What the caller's value must agree on before anything is sent.
fn check(cx: &EffectContext, effect: &Effect, op: &str) -> PortResult<()> {
    let error = |kind, message: String| Err(PortError::new(PORT, op, kind, message));
    if cx.key.run_id != cx.fence.run_id || cx.survey.run_id != cx.fence.run_id {
        let message = format!(
            "fence, key and survey name different runs: expected {}, observed {} and {}",
            cx.fence.run_id, cx.key.run_id, cx.survey.run_id
        );
        return error(PortErrorKind::Invalid, message);
    }
    if !effect.may_be(cx.key.effect) {
        return error(PortErrorKind::Invalid, format!("the request is not an effect {}", cx.key.effect));
    }
    if cx.deadline_ms == 0 {
        return error(PortErrorKind::Deadline, "nothing is left of the cap".to_owned());
    }
    Ok(())
}

/// If the caller stops waiting while a transaction is being opened, it is rolled back after.
struct RollbackOnDrop<'a>(Option<&'a Held>);

impl RollbackOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for RollbackOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.0 {
            send_rollback(held);
        }
    }
}

/// Hands a ROLLBACK to the connection's thread without waiting. Jobs run in order, so it is
/// done before anything that is asked of this connection later.
fn send_rollback(held: &Held) {
    let Ok(connection) = connection(held) else { return };
    let future = connection.run(|client| Ok(client.batch_execute("ROLLBACK")?));
    // The first poll hands the job over; nobody waits for the answer.
    let _ = pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// An open transaction with its writes done.
struct Pending {
    held: Held,
    job: Arc<Job>,
    facts: EffectFacts,
    refusal: Option<String>,
    deadline: Instant,
    is_open: bool,
}

#[async_trait]
impl PendingEffect for Pending {
    fn facts(&self) -> &EffectFacts {
        &self.facts
    }

    async fn finish(mut self: Box<Self>, verdict: Verdict) -> PortResult<Option<EffectRecord>> {
        let op = format!("finish {}", self.job.cx.key.effect);
        if verdict == Verdict::Rollback {
            self.is_open = false;
            let rolled_back = match connection(&self.held) {
                Ok(connection) => connection.run(|client| Ok(client.batch_execute("ROLLBACK")?)).await,
                Err(error) => Err(error),
            };
            return match rolled_back {
                // The server rolls back what it lost.
                Ok(()) | Err(PgError::Connection(_)) => Ok(None),
                Err(error) => Err(error.to_port(op)),
            };
        }
        // What no verdict may pass can still be recorded as a failed one.
        let may_fail = verdict == Verdict::CommitFailure && self.job.cx.key.effect == EffectName::WriteVerify;
        if let Some(reason) = self.refusal.take().filter(|_| !may_fail) {
            return Err(PortError::new(PORT, op, PortErrorKind::Conflict, reason));
        }
        let (job, facts) = (self.job.clone(), self.facts.clone());
        let limit = self.deadline.saturating_duration_since(Instant::now());
        let outcome = match connection(&self.held) {
            Ok(connection) => {
                connection.run_with_deadline(limit, move |client| close(client, &job, facts, verdict)).await
            }
            Err(error) => Err(error),
        };
        // Whatever happened, `close` ended the transaction or the connection is lost.
        self.is_open = false;
        outcome.map(Some).map_err(|error| {
            give_up_after_deadline(&mut self.held, &error);
            error.to_port(op)
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.is_open {
            send_rollback(&self.held);
        }
    }
}

/// Stores the effect's row and commits.
fn close(
    client: &mut Client,
    job: &Job,
    facts: EffectFacts,
    verdict: Verdict,
) -> Result<EffectRecord, PgError> {
    let outcome = record(client, job, facts, verdict);
    match outcome {
        Ok(record) => match commit_session(client) {
            Ok(()) => Ok(record),
            Err(error) => {
                if !matches!(error, PgError::OutcomeUnknown(_)) && !client.is_closed() {
                    client.batch_execute("ROLLBACK")?;
                }
                Err(error)
            }
        },
        Err(error) => {
            if !client.is_closed() {
                client.batch_execute("ROLLBACK")?;
            }
            Err(error)
        }
    }
}

fn record(
    client: &mut Client,
    Job { cx, effect, cache }: &Job,
    mut facts: EffectFacts,
    verdict: Verdict,
) -> Result<EffectRecord, PgError> {
    if let (Effect::WriteVerify(write), Verdict::CommitFailure) = (effect, verdict) {
        // The rows of a pass are undone; the failure's own are written and observed.
        let survey_before = facts.survey_before.clone();
        let mut tx = Tx { client, cx, values: BTreeMap::new(), structural: None, refusal: None };
        verifier::write(&mut tx, write, true)?;
        let Tx { values, structural, .. } = tx;
        facts = observe(client, cx, survey_before, values, structural, cache, true)?;
    }
    let text = serde_json::to_string(&facts).map_err(|error| PgError::Shape(error.to_string()))?;
    let occurrence = i32::try_from(cx.key.occurrence)
        .map_err(|_| PgError::Shape(format!("occurrence {} does not fit", cx.key.occurrence)))?;
    client.query_typed(
        "SELECT cutter_governance.fn_run_effect_record($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        params![
            cx.key.run_id.as_str(),
            cx.key.effect.as_str(),
            occurrence,
            cx.effect_id,
            cx.fence.epoch,
            cx.fence.holder,
            cx.payload_sha256.to_hex(),
            verdict_text(verdict),
            text,
            cx.actor,
            system_time(cx.at),
            cx.fence.document_id,
        ],
    )?;
    Ok(EffectRecord {
        key: cx.key.clone(),
        effect_id: cx.effect_id,
        fence_epoch: cx.fence.epoch,
        payload_sha256: cx.payload_sha256,
        verdict,
        facts,
        at: microseconds(cx.at),
    })
}
