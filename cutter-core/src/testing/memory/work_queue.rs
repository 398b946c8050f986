//! The work queue of the model: [`judge`] over a map, under one lock.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::civil::Date;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};
use uuid::Uuid;

use crate::machine::work_item::{WORK_ITEM, WorkItemState};
use crate::port::work_queue::{
    Answer, Enqueued, ItemQuery, QueueStatistics, Retained, TakenOver, Wake, WorkQueue,
};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::queue::{
    Attempt, BATCH_MAX, Failure, ItemId, Judgement, LEASE_MAX, LEASE_MIN, NewItem, Operation, Token,
    WorkItem, after, claim_order, judge, judge_enqueue, unknown,
};

const PORT: Port = Port::WorkQueue;

/// The queue in memory. Clones share it; its clock stands still but for [`Self::advance`].
#[derive(Clone)]
pub struct MemoryWorkQueue {
    shared: Arc<Shared>,
    /// The notices that this handle has seen.
    seen: Arc<Mutex<u64>>,
}

struct Shared {
    model: Mutex<Model>,
    notice: Condvar,
}

struct Model {
    now: Timestamp,
    last: u64,
    notices: u64,
    items: BTreeMap<ItemId, WorkItem>,
    keys: BTreeMap<String, ItemId>,
    attempts: Vec<Attempt>,
    /// Who watches over parked items, until when.
    watch: Option<(Uuid, Timestamp)>,
}

impl MemoryWorkQueue {
    /// An empty queue whose clock shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let model = Model {
            now,
            last: 0,
            notices: 0,
            items: BTreeMap::new(),
            keys: BTreeMap::new(),
            attempts: Vec::new(),
            watch: None,
        };
        let shared = Arc::new(Shared { model: Mutex::new(model), notice: Condvar::new() });
        Self { shared, seen: Arc::default() }
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let mut model = self.lock();
        model.now = after(model.now, time);
    }

    /// What the clock shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lock().now
    }

    /// Another worker's view of the same queue.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { shared: self.shared.clone(), seen: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Model> {
        self.shared.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, model: &mut Model) {
        model.notices += 1;
        self.shared.notice.notify_all();
    }

    fn write(&self, item: ItemId, operation: &Operation) -> Answer {
        self.lock().write(item, operation)
    }
}

impl Model {
    /// Judges, and writes what the judgement says.
    fn write(&mut self, item: ItemId, operation: &Operation) -> Answer {
        let Some(stands) = self.items.get(&item) else {
            return Answer::Refused(unknown(item).to_string());
        };
        match judge(stands, operation, self.now) {
            Judgement::Apply(change) => {
                let state = change.after.state;
                self.attempts.extend(change.attempt);
                self.items.insert(item, change.after);
                Answer::Applied(state)
            }
            Judgement::Already => Answer::Already,
            Judgement::Refused(refusal) => Answer::Refused(refusal.to_string()),
        }
    }

    /// The first items of those, in claim order.
    fn first(&self, limit: u32, is_wanted: impl Fn(&WorkItem) -> bool) -> Vec<ItemId> {
        let mut wanted: Vec<&WorkItem> = self.items.values().filter(|item| is_wanted(item)).collect();
        wanted.sort_by(|a, b| claim_order(a, b));
        wanted.iter().take(usize::try_from(limit).unwrap_or(usize::MAX)).map(|item| item.item).collect()
    }

    fn watched_by(&self) -> Option<Uuid> {
        self.watch.filter(|(_, until)| *until > self.now).map(|(holder, _)| holder)
    }

    fn of_state(&self, state: WorkItemState) -> impl Iterator<Item = &WorkItem> {
        self.items.values().filter(move |item| item.state == state)
    }
}

fn invalid(op: &str, message: impl Into<String>) -> PortError {
    PortError::new(PORT, op, PortErrorKind::Invalid, message)
}

fn bounds(op: &str, count: usize, lease: Option<Duration>) -> PortResult<()> {
    if count > BATCH_MAX {
        return Err(invalid(op, format!("expected at most {BATCH_MAX} items at once, observed {count}")));
    }
    if let Some(lease) = lease.filter(|lease| !(LEASE_MIN..=LEASE_MAX).contains(lease)) {
        let (low, high) = (LEASE_MIN.as_millis(), LEASE_MAX.as_millis());
        let observed = lease.as_millis();
        return Err(invalid(op, format!("expected a lease of {low} to {high} ms, observed {observed} ms")));
    }
    Ok(())
}

fn day(at: Timestamp) -> Date {
    Offset::UTC.to_datetime(at).date()
}

#[async_trait]
impl WorkQueue for MemoryWorkQueue {
    async fn enqueue(&self, items: &[NewItem]) -> PortResult<Vec<Enqueued>> {
        bounds("enqueue", items.len(), None)?;
        let mut model = self.lock();
        // Numbers are drawn for every item asked for, whether it is new or not.
        let first = model.last + 1;
        model.last += items.len() as u64;
        let (mut out, mut added) = (Vec::new(), Vec::<WorkItem>::new());
        for (number, new) in (first..).zip(items) {
            let here = added.iter().find(|item| item.key == new.key());
            let stored = || model.items.get(model.keys.get(new.key())?);
            if let Some(recorded) = here.or_else(stored) {
                judge_enqueue(recorded, new).map_err(|refusal| {
                    PortError::new(PORT, "enqueue", PortErrorKind::Conflict, refusal.to_string())
                })?;
                out.push(Enqueued { item: recorded.item, is_new: false });
            } else {
                added.push(new.queued(ItemId(number), model.now));
                out.push(Enqueued { item: ItemId(number), is_new: true });
            }
        }
        if !added.is_empty() {
            self.notify(&mut model);
        }
        for item in added {
            model.keys.insert(item.key.clone(), item.item);
            model.items.insert(item.item, item);
        }
        Ok(out)
    }

    async fn claim(&self, holder: Uuid, limit: u32, lease: Duration) -> PortResult<Vec<WorkItem>> {
        bounds("claim", usize::try_from(limit).unwrap_or(usize::MAX), Some(lease))?;
        let mut model = self.lock();
        let now = model.now;
        let ids = model.first(limit, |item| item.is_ready(now));
        for id in &ids {
            model.write(*id, &Operation::Claim { holder, lease });
        }
        Ok(ids.iter().filter_map(|id| model.items.get(id).cloned()).collect())
    }

    async fn take_over(&self, holder: Uuid, limit: u32, lease: Duration) -> PortResult<TakenOver> {
        bounds("take_over", usize::try_from(limit).unwrap_or(usize::MAX), Some(lease))?;
        let mut model = self.lock();
        let now = model.now;
        let ids = model.first(limit, |item| item.lease_until.is_some_and(|until| until <= now));
        let mut out = TakenOver::default();
        for id in ids {
            match model.write(id, &Operation::TakeOver { holder, lease }) {
                Answer::Applied(WorkItemState::Executing) => out.items.extend(model.items.get(&id).cloned()),
                Answer::Applied(_) => out.exhausted.push(id),
                Answer::Already | Answer::Refused(_) => {}
            }
        }
        Ok(out)
    }

    async fn heartbeat(&self, tokens: &[Token], lease: Duration) -> PortResult<Vec<Answer>> {
        bounds("heartbeat", tokens.len(), Some(lease))?;
        let mut model = self.lock();
        let beat = |token: &Token| model.write(token.item, &Operation::Heartbeat { token: *token, lease });
        Ok(tokens.iter().map(beat).collect())
    }

    async fn complete(&self, tokens: &[Token]) -> PortResult<Vec<Answer>> {
        bounds("complete", tokens.len(), None)?;
        let mut model = self.lock();
        let complete = |token: &Token| model.write(token.item, &Operation::Complete { token: *token });
        Ok(tokens.iter().map(complete).collect())
    }

    async fn fail(&self, token: &Token, failure: &Failure) -> PortResult<Answer> {
        Ok(self.write(token.item, &Operation::Fail { token: *token, failure: failure.clone() }))
    }

    async fn await_user(&self, token: &Token, gate: &str) -> PortResult<Answer> {
        Ok(self.write(token.item, &Operation::AwaitUser { token: *token, gate: gate.to_string() }))
    }

    async fn hand_back(&self, tokens: &[Token]) -> PortResult<Vec<Answer>> {
        bounds("hand_back", tokens.len(), None)?;
        let mut model = self.lock();
        let answers = tokens
            .iter()
            .map(|token| model.write(token.item, &Operation::HandBack { token: *token }))
            .collect::<Vec<_>>();
        if answers.iter().any(|answer| matches!(answer, Answer::Applied(_))) {
            self.notify(&mut model);
        }
        Ok(answers)
    }

    async fn ready(&self, item: ItemId, gate: &str) -> PortResult<Answer> {
        let mut model = self.lock();
        let answer = model.write(item, &Operation::Ready { gate: gate.to_string() });
        if matches!(answer, Answer::Applied(_)) {
            self.notify(&mut model);
        }
        Ok(answer)
    }

    async fn take_watch(&self, holder: Uuid, lease: Duration) -> PortResult<bool> {
        bounds("take_watch", 0, Some(lease))?;
        let mut model = self.lock();
        let is_mine = model.watched_by().is_none_or(|by| by == holder);
        if is_mine {
            model.watch = Some((holder, after(model.now, lease)));
        }
        Ok(is_mine)
    }

    async fn leave_watch(&self, holder: Uuid) -> PortResult<()> {
        let mut model = self.lock();
        model.watch = model.watch.filter(|(by, _)| *by != holder);
        Ok(())
    }

    async fn cancel(&self, item: ItemId, reason: &str, actor: &str) -> PortResult<Answer> {
        Ok(self.write(item, &Operation::Cancel { reason: reason.to_string(), actor: actor.to_string() }))
    }

    async fn item(&self, item: ItemId) -> PortResult<Option<WorkItem>> {
        Ok(self.lock().items.get(&item).cloned())
    }

    async fn item_by_key(&self, key: &str) -> PortResult<Option<WorkItem>> {
        let model = self.lock();
        Ok(model.keys.get(key).and_then(|item| model.items.get(item)).cloned())
    }

    async fn list(&self, query: &ItemQuery) -> PortResult<Vec<WorkItem>> {
        let is_wanted = |item: &&WorkItem| {
            query.state.is_none_or(|state| item.state == state)
                && query.kind.as_ref().is_none_or(|kind| item.kind == *kind)
                && query.after.is_none_or(|after| item.item > after)
        };
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        Ok(self.lock().items.values().filter(is_wanted).take(limit).cloned().collect())
    }

    async fn attempts(&self, item: ItemId) -> PortResult<Vec<Attempt>> {
        Ok(self.lock().attempts.iter().filter(|attempt| attempt.item == item).cloned().collect())
    }

    async fn statistics(&self) -> PortResult<QueueStatistics> {
        let model = self.lock();
        let now = model.now;
        let states = WORK_ITEM.states().iter().filter(|state| **state != WorkItemState::Received);
        Ok(QueueStatistics {
            now,
            by_state: states.map(|&state| (state, model.of_state(state).count() as u64)).collect(),
            ready: model.items.values().filter(|item| item.is_ready(now)).count() as u64,
            oldest_ready: model.items.values().filter(|i| i.is_ready(now)).filter_map(|i| i.ready_at).min(),
            oldest_lease: model.of_state(WorkItemState::Executing).filter_map(|item| item.claimed_at).min(),
            expired_leases: model.items.values().filter(|i| i.lease_until.is_some_and(|u| u <= now)).count()
                as u64,
            watched_by: model.watched_by(),
            oldest_snapshot: None,
        })
    }

    async fn retain(&self, days: u16) -> PortResult<Retained> {
        if days == 0 {
            return Err(invalid("retain", "expected at least 1 day, observed 0"));
        }
        let mut model = self.lock();
        let first = day(model.now).saturating_sub(i32::from(days).days());
        let gone: Vec<(ItemId, Date)> = model
            .items
            .values()
            .filter_map(|item| Some((item.item, day(item.finished_at?))))
            .filter(|(_, day)| *day < first)
            .collect();
        let mut days: Vec<Date> = gone.iter().map(|(_, day)| *day).collect();
        days.sort_unstable();
        days.dedup();
        for (id, _) in &gone {
            if let Some(item) = model.items.remove(id) {
                model.keys.remove(&item.key);
            }
            model.attempts.retain(|attempt| attempt.item != *id);
        }
        Ok(Retained { days, items: gone.len() as u64 })
    }

    async fn wait(&self, limit: Duration) -> PortResult<Wake> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let model = self.lock();
        let known = *seen;
        let (model, _) = self
            .shared
            .notice
            .wait_timeout_while(model, limit, |model| model.notices == known)
            .unwrap_or_else(PoisonError::into_inner);
        let wake = if model.notices == known { Wake::Elapsed } else { Wake::Notified };
        *seen = model.notices;
        Ok(wake)
    }
}
