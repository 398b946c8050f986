//! The work queue port over PostgreSQL (`cutter_queue`).
//!
//! [`PgQueue`] is one worker's view: a connection for its writes and reads, and one that listens,
//! both opened when first needed and again when lost. That needs no fence: what a holder writes is
//! judged by its token, not by its connection.
//!
//! Every operation is one statement, prepared once per session, that commits by itself. The
//! database moves what the tokens allow and says what it moved; what it did not move is read and
//! put before [`judge`], so that both sides word a refusal alike.

mod bounds;
mod rows;
mod statements;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cutter_core::machine::work_item::WorkItemState;
use cutter_core::port::work_queue::{
    Answer, Enqueued, ItemQuery, QueueStatistics, Retained, TakenOver, Wake, WorkQueue,
};
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use cutter_core::record::queue::{
    Attempt, Change, Failure, ItemId, Judgement, NewItem, Operation, Token, WorkItem, judge, unknown,
};
use jiff::Timestamp;
use postgres::Client;
use tokio::sync::Mutex;
use uuid::Uuid;

use self::bounds::{bounds, limit};
use self::statements::{Statements, TokenColumns, hear};
use crate::connection::{Connection, SessionSettings};
use crate::dsn::Dsn;
use crate::error::PgError;
use crate::row::{bigint, get};

const PORT: Port = Port::WorkQueue;
/// How often a lost race (deadlock, lock timeout) is tried again.
const TRIES: u32 = 4;
/// How often an item that moves on meanwhile is followed.
const FOLLOWED: u32 = 50;
/// Keys dropped in one step of the retention.
const RETAIN_STEP: i32 = 20_000;

/// The queue in PostgreSQL, as one worker sees it.
pub struct PgQueue {
    dsn: Dsn,
    name: String,
    limit: Duration,
    writer: Mutex<Option<Session>>,
    listener: Mutex<Option<Connection>>,
}

struct Session {
    connection: Connection,
    statements: Arc<Statements>,
}

/// What an error of a statement means.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    /// It reads: the error stands.
    Reads,
    /// It writes: silence is an unknown outcome.
    Writes,
}

impl PgQueue {
    /// The queue behind this connection string, whose login is `cutter_exec`'s (`cutter_ro` may
    /// read). Connects to nothing yet.
    #[must_use]
    pub fn connect(dsn: Dsn) -> Self {
        Self {
            dsn,
            name: "cutter/queue".to_owned(),
            limit: Duration::from_secs(35),
            writer: Mutex::new(None),
            listener: Mutex::new(None),
        }
    }

    /// Shown in `pg_stat_activity` instead of `cutter/queue`.
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Bounds each operation on the client's side (35 s unless told).
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn settings(&self) -> SessionSettings {
        SessionSettings { statement_timeout: Duration::from_secs(30), ..SessionSettings::writer() }
            .application_name(self.name.clone())
    }

    async fn open(&self) -> Result<Session, PgError> {
        let connection = Connection::open(self.dsn.clone(), self.settings()).await?;
        let statements = connection.run_with_deadline(self.limit, Statements::prepare).await?;
        Ok(Session { connection, statements: Arc::new(statements) })
    }

    /// Runs one statement on the worker's connection, again where it lost a race.
    async fn run<T, F>(&self, op: &'static str, effect: Effect, job: F) -> PortResult<T>
    where
        T: Send + 'static,
        F: Fn(&mut Client, &Statements) -> Result<T, PgError> + Send + Sync + 'static,
    {
        let job = Arc::new(job);
        let mut held = self.writer.lock().await;
        let mut tries = 0;
        loop {
            if held.as_ref().is_none_or(|session| session.connection.is_lost()) {
                *held = None;
                *held = Some(self.open().await.map_err(|error| to_port(op, &error))?);
            }
            let Some(session) = held.as_ref() else { continue };
            let (job, statements) = (job.clone(), session.statements.clone());
            let outcome = session
                .connection
                .run_with_deadline(self.limit, move |client| job(client, &statements))
                .await;
            let error = match outcome {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            tries += 1;
            if error.is_retriable() && tries < TRIES {
                continue;
            }
            if error.kind() == PortErrorKind::Deadline {
                // A cancel may still be on its way to this session.
                *held = None;
            }
            let error = if effect == Effect::Writes { error.autocommit_outcome() } else { error };
            return Err(to_port(op, &error));
        }
    }

    async fn stands(&self, op: &'static str, item: ItemId) -> PortResult<Option<WorkItem>> {
        let id = number(op, item.0)?;
        self.run(op, Effect::Reads, move |client, s| {
            client.query_opt(&s.item, &[&id])?.as_ref().map(rows::item).transpose()
        })
        .await
    }

    /// What the core says of an operation that the database did not perform. `Err`: it would be
    /// performed now; the item moved on meanwhile.
    async fn judged(&self, op: &'static str, item: ItemId, operation: &Operation) -> PortResult<Judged> {
        let Some(stands) = self.stands(op, item).await? else {
            return Ok(Err(Answer::Refused(unknown(item).to_string())));
        };
        // Only differences of times are used: what they are measured from is the server's.
        Ok(match judge(&stands, operation, Timestamp::UNIX_EPOCH) {
            Judgement::Apply(change) => Ok(change),
            Judgement::Already => Err(Answer::Already),
            Judgement::Refused(refusal) => Err(Answer::Refused(refusal.to_string())),
        })
    }

    /// The answers to a batch of which the database moved some.
    async fn answers(
        &self,
        op: &'static str,
        tokens: &[Token],
        moved: Vec<i64>,
        to: WorkItemState,
        operation: impl Fn(Token) -> Operation,
    ) -> PortResult<Vec<Answer>> {
        let is_renewal = to == WorkItemState::Executing;
        let moved: HashSet<i64> = moved.into_iter().collect();
        let mut answered = HashSet::new();
        let mut out = Vec::with_capacity(tokens.len());
        for token in tokens {
            let is_first = answered.insert(*token) || is_renewal;
            // The item moved by this token, and not by another one in the same batch.
            let is_moved = moved.contains(&number(op, token.item.0)?);
            if is_moved && tokens.len() == moved.len() {
                out.push(Answer::Applied(to));
                continue;
            }
            out.push(match self.judged(op, token.item, &operation(*token)).await? {
                Err(Answer::Already) if is_moved && is_first => Answer::Applied(to),
                Ok(_) if is_moved && is_renewal => Answer::Applied(to),
                Ok(_) => return Err(moved_on(op, token.item)),
                Err(answer) => answer,
            });
        }
        Ok(out)
    }
}

/// A change that would be written, or the answer.
type Judged = Result<Box<Change>, Answer>;

fn to_port(op: &str, error: &PgError) -> PortError {
    PortError::new(PORT, op, error.kind(), error.to_string())
}

fn moved_on(op: &str, item: ItemId) -> PortError {
    let message = format!("item {item} moved on again and again meanwhile; ask again");
    PortError::new(PORT, op, PortErrorKind::Busy, message)
}

fn number(op: &str, value: u64) -> PortResult<i64> {
    bigint(value).map_err(|error| PortError::new(PORT, op, PortErrorKind::Invalid, error.to_string()))
}

#[async_trait]
impl WorkQueue for PgQueue {
    async fn enqueue(&self, items: &[NewItem]) -> PortResult<Vec<Enqueued>> {
        bounds("enqueue", items.len(), None)?;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let columns = statements::Columns::of(items);
        self.run("enqueue", Effect::Writes, move |client, s| columns.enqueue(client, s)).await
    }

    async fn claim(&self, holder: Uuid, count: u32, lease: Duration) -> PortResult<Vec<WorkItem>> {
        let (count, lease) = limit("claim", count, lease)?;
        self.run("claim", Effect::Writes, move |client, s| {
            let found = client.query(&s.claim, &[&holder, &count, &lease])?;
            found.iter().map(|row| rows::claimed(row, holder)).collect()
        })
        .await
    }

    async fn take_over(&self, holder: Uuid, count: u32, lease: Duration) -> PortResult<TakenOver> {
        let (count, lease) = limit("take_over", count, lease)?;
        let taken: Vec<(i64, bool)> = self
            .run("take_over", Effect::Writes, move |client, s| {
                let found = client.query(&s.take_over, &[&holder, &count, &lease])?;
                found.iter().map(|row| Ok((get(row, "item_id")?, get(row, "is_exhausted")?))).collect()
            })
            .await?;
        let mut out = TakenOver::default();
        let mut held = Vec::new();
        for (id, is_exhausted) in taken {
            if is_exhausted {
                out.exhausted.push(rows::item_id(id).map_err(|error| to_port("take_over", &error))?);
            } else {
                held.push(id);
            }
        }
        if held.is_empty() {
            return Ok(out);
        }
        // What was taken away again meanwhile is left out.
        out.items = self
            .run("take_over", Effect::Reads, move |client, s| {
                let found = client.query(&s.items_held, &[&held, &holder])?;
                found.iter().map(rows::item).collect()
            })
            .await?;
        Ok(out)
    }

    async fn heartbeat(&self, tokens: &[Token], lease: Duration) -> PortResult<Vec<Answer>> {
        let lease_ms = bounds("heartbeat", tokens.len(), Some(lease))?;
        let columns = TokenColumns::of("heartbeat", tokens)?;
        let moved = self
            .run("heartbeat", Effect::Writes, move |client, s| columns.heartbeat(client, s, lease_ms))
            .await?;
        let operation = |token| Operation::Heartbeat { token, lease };
        self.answers("heartbeat", tokens, moved, WorkItemState::Executing, operation).await
    }

    async fn complete(&self, tokens: &[Token]) -> PortResult<Vec<Answer>> {
        bounds("complete", tokens.len(), None)?;
        let columns = TokenColumns::of("complete", tokens)?;
        let moved = self.run("complete", Effect::Writes, move |c, s| columns.moved(c, &s.complete)).await?;
        let operation = |token| Operation::Complete { token };
        self.answers("complete", tokens, moved, WorkItemState::Completed, operation).await
    }

    async fn fail(&self, token: &Token, failure: &Failure) -> PortResult<Answer> {
        let operation = Operation::Fail { token: *token, failure: failure.clone() };
        for _ in 0..FOLLOWED {
            let change = match self.judged("fail", token.item, &operation).await? {
                Ok(change) => change,
                Err(answer) => return Ok(answer),
            };
            let state = change.after.state;
            let write = statements::FailWrite::of(token, *change)?;
            if self.run("fail", Effect::Writes, move |client, s| write.run(client, s)).await? {
                return Ok(Answer::Applied(state));
            }
        }
        Err(moved_on("fail", token.item))
    }

    async fn await_user(&self, token: &Token, gate: &str) -> PortResult<Answer> {
        let operation = Operation::AwaitUser { token: *token, gate: gate.to_owned() };
        let (id, epoch) = (number("await_user", token.item.0)?, number("await_user", token.epoch)?);
        for _ in 0..FOLLOWED {
            let change = match self.judged("await_user", token.item, &operation).await? {
                Ok(change) => change,
                Err(answer) => return Ok(answer),
            };
            let (holder, gate) = (token.holder, change.after.gate);
            let job = move |client: &mut Client, s: &Statements| {
                get(&client.query_one(&s.await_user, &[&id, &epoch, &holder, &gate])?, 0)
            };
            if self.run("await_user", Effect::Writes, job).await? {
                return Ok(Answer::Applied(WorkItemState::AwaitingUserConfirmation));
            }
        }
        Err(moved_on("await_user", token.item))
    }

    async fn hand_back(&self, tokens: &[Token]) -> PortResult<Vec<Answer>> {
        bounds("hand_back", tokens.len(), None)?;
        let columns = TokenColumns::of("hand_back", tokens)?;
        let moved = self.run("hand_back", Effect::Writes, move |c, s| columns.moved(c, &s.hand_back)).await?;
        let operation = |token| Operation::HandBack { token };
        self.answers("hand_back", tokens, moved, WorkItemState::AwaitingTool, operation).await
    }

    async fn ready(&self, item: ItemId, gate: &str) -> PortResult<Answer> {
        let operation = Operation::Ready { gate: gate.to_owned() };
        let id = number("ready", item.0)?;
        for _ in 0..FOLLOWED {
            let change = match self.judged("ready", item, &operation).await? {
                Ok(change) => change,
                Err(answer) => return Ok(answer),
            };
            let gate = change.after.gate;
            let job = move |client: &mut Client, s: &Statements| {
                get(&client.query_one(&s.ready, &[&id, &gate])?, 0)
            };
            if self.run("ready", Effect::Writes, job).await? {
                return Ok(Answer::Applied(WorkItemState::AwaitingUserConfirmation));
            }
        }
        Err(moved_on("ready", item))
    }

    async fn take_watch(&self, holder: Uuid, lease: Duration) -> PortResult<bool> {
        let lease_ms = bounds("take_watch", 0, Some(lease))?;
        self.run("take_watch", Effect::Writes, move |client, s| {
            get(&client.query_one(&s.take_watch, &[&holder, &lease_ms])?, 0)
        })
        .await
    }

    async fn leave_watch(&self, holder: Uuid) -> PortResult<()> {
        self.run("leave_watch", Effect::Writes, move |client, s| {
            client.execute(&s.leave_watch, &[&holder])?;
            Ok(())
        })
        .await
    }

    async fn cancel(&self, item: ItemId, reason: &str, actor: &str) -> PortResult<Answer> {
        let operation = Operation::Cancel { reason: reason.to_owned(), actor: actor.to_owned() };
        let id = number("cancel", item.0)?;
        for _ in 0..FOLLOWED {
            let change = match self.judged("cancel", item, &operation).await? {
                Ok(change) => change,
                Err(answer) => return Ok(answer),
            };
            let Some(reason) = change.after.reason else { continue };
            let job = move |client: &mut Client, s: &Statements| {
                get(&client.query_one(&s.cancel, &[&id, &reason.detail, &reason.actor])?, 0)
            };
            if self.run("cancel", Effect::Writes, job).await? {
                return Ok(Answer::Applied(WorkItemState::Cancelled));
            }
        }
        Err(moved_on("cancel", item))
    }

    async fn item(&self, item: ItemId) -> PortResult<Option<WorkItem>> {
        self.stands("item", item).await
    }

    async fn item_by_key(&self, key: &str) -> PortResult<Option<WorkItem>> {
        let key = key.to_owned();
        self.run("item_by_key", Effect::Reads, move |client, s| {
            client.query_opt(&s.item_by_key, &[&key])?.as_ref().map(rows::item).transpose()
        })
        .await
    }

    async fn list(&self, query: &ItemQuery) -> PortResult<Vec<WorkItem>> {
        let after = number("list", query.after.map_or(0, |item| item.0))?;
        let (state, kind, count) = (query.state, query.kind.clone(), i64::from(query.limit));
        self.run("list", Effect::Reads, move |client, _| {
            let found = client.query(
                &statements::list(state),
                &[&state.map(WorkItemState::as_str), &kind, &after, &count],
            )?;
            found.iter().map(rows::item).collect()
        })
        .await
    }

    async fn attempts(&self, item: ItemId) -> PortResult<Vec<Attempt>> {
        let id = number("attempts", item.0)?;
        self.run("attempts", Effect::Reads, move |client, s| {
            client.query(&s.attempts, &[&id])?.iter().map(rows::attempt).collect()
        })
        .await
    }

    async fn statistics(&self) -> PortResult<QueueStatistics> {
        self.run("statistics", Effect::Reads, |client, s| {
            rows::statistics(&client.query_one(&s.statistics, &[])?)
        })
        .await
    }

    async fn retain(&self, days: u16) -> PortResult<Retained> {
        if days == 0 {
            let message = "expected at least 1 day, observed 0";
            return Err(PortError::new(PORT, "retain", PortErrorKind::Invalid, message));
        }
        let days = i32::from(days);
        let mut out = Retained::default();
        let mut after = 0_i64;
        loop {
            let step = self
                .run("retain", Effect::Writes, move |client, s| {
                    let row = client.query_opt(&s.retain, &[&days, &after, &RETAIN_STEP])?;
                    row.as_ref().map(rows::retained).transpose()
                })
                .await?;
            match step {
                None => return Ok(out),
                Some(step) => match step.next_after {
                    Some(next) => after = next,
                    None => {
                        after = 0;
                        out.items += step.items;
                        // A day on which nothing ended may have its partition all the same.
                        if step.items > 0 {
                            out.days.push(step.day);
                        }
                    }
                },
            }
        }
    }

    async fn wait(&self, limit: Duration) -> PortResult<Wake> {
        let mut held = self.listener.lock().await;
        if held.as_ref().is_none_or(Connection::is_lost) {
            *held = None;
            let settings = SessionSettings { statement_timeout: Duration::ZERO, ..self.settings() }
                .application_name(format!("{}/listen", self.name));
            let opened = async {
                let connection = Connection::open(self.dsn.clone(), settings).await?;
                let listen = |client: &mut Client| Ok(client.batch_execute("LISTEN cutter_queue")?);
                connection.run_with_deadline(self.limit, listen).await?;
                Ok(connection)
            };
            *held = Some(opened.await.map_err(|error: PgError| to_port("wait", &error))?);
            // What happened before could not be heard.
            return Ok(Wake::Reconnected);
        }
        let Some(connection) = held.as_ref() else { return Ok(Wake::Reconnected) };
        let heard = connection
            .run_with_deadline(limit.saturating_add(Duration::from_secs(10)), move |client| {
                hear(client, limit)
            })
            .await;
        match heard {
            Ok(true) => Ok(Wake::Notified),
            Ok(false) => Ok(Wake::Elapsed),
            Err(_) => {
                *held = None;
                Ok(Wake::Reconnected)
            }
        }
    }
}

impl std::fmt::Debug for PgQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgQueue").field("server", &self.dsn.redacted()).field("name", &self.name).finish()
    }
}
