//! The queue's statements, prepared once per session, and their parameters as columns.

use std::time::Duration;

use cutter_core::machine::work_item::{WORK_ITEM, WorkItemState};
use cutter_core::port::PortResult;
use cutter_core::port::work_queue::Enqueued;
use cutter_core::record::queue::{Change, ItemId, NewItem, Token, WorkItem};
use jiff::Timestamp;
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::{Client, Statement};
use uuid::Uuid;

use super::{number, rows};
use crate::error::PgError;
use crate::row::get;

const ITEM_COLUMNS: &str = "item_id, key, kind, payload, payload_sha256, priority, max_attempts, max_failures, \
    base_ms, cap_ms, jitter, side_effects, enqueued_by, enqueued_at, state, attempts, failures, epoch, holder, \
    claimed_at, lease_until, ready_at, gate, reason_code, reason_detail, reason_actor, finished_at";

/// Everything that a session prepares.
pub(super) struct Statements {
    pub(super) enqueue: Statement,
    pub(super) claim: Statement,
    pub(super) take_over: Statement,
    pub(super) heartbeat: Statement,
    pub(super) complete: Statement,
    pub(super) hand_back: Statement,
    pub(super) fail: Statement,
    pub(super) await_user: Statement,
    pub(super) ready: Statement,
    pub(super) take_watch: Statement,
    pub(super) leave_watch: Statement,
    pub(super) cancel: Statement,
    pub(super) retain: Statement,
    pub(super) statistics: Statement,
    pub(super) item: Statement,
    pub(super) item_by_key: Statement,
    pub(super) items_held: Statement,
    pub(super) attempts: Statement,
}

impl Statements {
    pub(super) fn prepare(client: &mut Client) -> Result<Self, PgError> {
        let function =
            |client: &mut Client, call: &str| client.prepare(&format!("SELECT * FROM cutter_queue.{call}"));
        Ok(Self {
            enqueue: function(client, "fn_work_enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)")?,
            claim: function(client, "fn_work_claim($1, $2, $3)")?,
            take_over: function(client, "fn_work_take_over($1, $2, $3)")?,
            heartbeat: function(client, "fn_work_heartbeat($1, $2, $3, $4)")?,
            complete: function(client, "fn_work_complete($1, $2, $3)")?,
            hand_back: function(client, "fn_work_hand_back($1, $2, $3)")?,
            fail: function(client, "fn_work_fail($1, $2, $3, $4, $5, $6, $7, $8)")?,
            await_user: function(client, "fn_work_await_user($1, $2, $3, $4)")?,
            ready: function(client, "fn_work_ready($1, $2)")?,
            take_watch: function(client, "fn_work_take_watch($1, $2)")?,
            leave_watch: function(client, "fn_work_leave_watch($1)")?,
            cancel: function(client, "fn_work_cancel($1, $2, $3)")?,
            retain: client.prepare(
                "SELECT day::text AS day, items, next_after FROM cutter_queue.fn_work_retain($1, $2, $3)",
            )?,
            statistics: function(client, "fn_work_statistics()")?,
            item: client.prepare(&items("item_id = $1"))?,
            item_by_key: client.prepare(&items(
                "item_id = (SELECT k.item_id FROM cutter_queue.work_key k WHERE k.key = $1)",
            ))?,
            items_held: client.prepare(&items(
                "item_id = ANY ($1) AND holder = $2 AND is_open AND lease_until IS NOT NULL \
                 ORDER BY priority, item_id",
            ))?,
            attempts: client.prepare(
                "SELECT item_id, epoch, holder, claimed_at, ended_at, ending, code, detail
                 FROM cutter_queue.work_attempt WHERE item_id = $1 ORDER BY epoch",
            )?,
        })
    }
}

fn items(condition: &str) -> String {
    format!("SELECT {ITEM_COLUMNS} FROM cutter_queue.v_work_item WHERE {condition}")
}

/// Lists items; what is asked for decides whether open or ended ones are looked at.
pub(super) fn list(state: Option<WorkItemState>) -> String {
    let half = match state {
        None => "",
        Some(state) if WORK_ITEM.is_terminal(state) => "AND NOT is_open",
        Some(_) => "AND is_open",
    };
    items(&format!(
        "($1::text IS NULL OR state = $1) AND ($2::text IS NULL OR kind = $2) AND item_id > $3 {half} \
         ORDER BY item_id LIMIT $4"
    ))
}

/// New items, a column each.
#[derive(Default)]
pub(super) struct Columns {
    keys: Vec<String>,
    kinds: Vec<String>,
    payloads: Vec<Vec<u8>>,
    sha256: Vec<Vec<u8>>,
    priorities: Vec<i32>,
    max_attempts: Vec<i32>,
    max_failures: Vec<i32>,
    base_ms: Vec<i32>,
    cap_ms: Vec<i32>,
    jitter: Vec<i16>,
    side_effects: Vec<bool>,
    actors: Vec<String>,
}

/// A number that [`NewItem::policy`] bounds already.
fn bounded(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

impl Columns {
    pub(super) fn of(new: &[NewItem]) -> Self {
        let mut out = Self::default();
        for item in new {
            let item: WorkItem = item.queued(ItemId(0), Timestamp::UNIX_EPOCH);
            out.keys.push(item.key);
            out.kinds.push(item.kind);
            out.payloads.push(item.payload);
            out.sha256.push(item.digest.as_bytes().to_vec());
            out.priorities.push(item.priority);
            out.max_attempts.push(bounded(item.policy.max_attempts));
            out.max_failures.push(bounded(item.policy.max_failures));
            out.base_ms.push(bounded(item.policy.base_ms));
            out.cap_ms.push(bounded(item.policy.cap_ms));
            out.jitter.push(i16::from(item.policy.jitter));
            out.side_effects.push(item.has_side_effects);
            out.actors.push(item.enqueued_by);
        }
        out
    }

    pub(super) fn enqueue(&self, client: &mut Client, s: &Statements) -> Result<Vec<Enqueued>, PgError> {
        let found = client.query(
            &s.enqueue,
            &[
                &self.keys,
                &self.kinds,
                &self.payloads,
                &self.sha256,
                &self.priorities,
                &self.max_attempts,
                &self.max_failures,
                &self.base_ms,
                &self.cap_ms,
                &self.jitter,
                &self.side_effects,
                &self.actors,
            ],
        )?;
        if found.len() != self.keys.len() {
            return Err(PgError::Shape(format!("{} answers to {} items", found.len(), self.keys.len())));
        }
        let enqueued =
            |row| Ok(Enqueued { item: rows::item_id(get(row, "item_id")?)?, is_new: get(row, "is_new")? });
        found.iter().map(enqueued).collect()
    }
}

/// Tokens, a column each.
pub(super) struct TokenColumns {
    items: Vec<i64>,
    epochs: Vec<i64>,
    holders: Vec<Uuid>,
}

impl TokenColumns {
    pub(super) fn of(op: &str, tokens: &[Token]) -> PortResult<Self> {
        Ok(Self {
            items: tokens.iter().map(|t| number(op, t.item.0)).collect::<PortResult<_>>()?,
            epochs: tokens.iter().map(|t| number(op, t.epoch)).collect::<PortResult<_>>()?,
            holders: tokens.iter().map(|t| t.holder).collect(),
        })
    }

    /// The items that the statement moved.
    pub(super) fn moved(&self, client: &mut Client, statement: &Statement) -> Result<Vec<i64>, PgError> {
        get(&client.query_one(statement, &[&self.items, &self.epochs, &self.holders])?, 0)
    }

    pub(super) fn heartbeat(
        &self,
        client: &mut Client,
        s: &Statements,
        lease_ms: i32,
    ) -> Result<Vec<i64>, PgError> {
        let row = client.query_one(&s.heartbeat, &[&self.items, &self.epochs, &self.holders, &lease_ms])?;
        get(&row, 0)
    }
}

/// A failed attempt as the core judged it.
pub(super) struct FailWrite {
    item: i64,
    epoch: i64,
    holder: Uuid,
    delay_ms: Option<i64>,
    failure: (String, String),
    reason: (Option<String>, Option<String>),
}

impl FailWrite {
    /// From a change that was judged at the epoch of 1970, so that its wait is a length.
    pub(super) fn of(token: &Token, change: Change) -> PortResult<Self> {
        let attempt = change.attempt.map(|attempt| (attempt.code, attempt.detail));
        Ok(Self {
            item: number("fail", token.item.0)?,
            epoch: number("fail", token.epoch)?,
            holder: token.holder,
            delay_ms: change.after.ready_at.map(Timestamp::as_millisecond),
            failure: attempt.unwrap_or_default(),
            reason: change.after.reason.map(|reason| (reason.code, reason.detail)).unzip(),
        })
    }

    pub(super) fn run(&self, client: &mut Client, s: &Statements) -> Result<bool, PgError> {
        let row = client.query_one(
            &s.fail,
            &[
                &self.item,
                &self.epoch,
                &self.holder,
                &self.delay_ms,
                &self.failure.0,
                &self.failure.1,
                &self.reason.0,
                &self.reason.1,
            ],
        )?;
        get(&row, 0)
    }
}

/// Whether a notice came; all that came are one.
pub(super) fn hear(client: &mut Client, limit: Duration) -> Result<bool, PgError> {
    let mut is_heard = client.notifications().timeout_iter(limit).next()?.is_some();
    while client.notifications().iter().next()?.is_some() {
        is_heard = true;
    }
    if !is_heard {
        // A server that went silent looks like one that has nothing to say.
        client.is_valid(Duration::from_secs(5))?;
        is_heard = client.notifications().iter().next()?.is_some();
    }
    Ok(is_heard)
}
