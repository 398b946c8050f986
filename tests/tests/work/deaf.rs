//! A queue that does not take the first word, as when its server restarts at that moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cutter_core::port::work_queue::{
    Answer, Enqueued, ItemQuery, QueueStatistics, Retained, TakenOver, Wake, WorkQueue,
};
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use cutter_core::record::queue::{Attempt, Failure, ItemId, NewItem, Token, WorkItem};
use cutter_core::testing::memory::MemoryWorkQueue;
use uuid::Uuid;

pub(super) struct Deaf {
    pub(super) inner: MemoryWorkQueue,
    pub(super) is_deaf: AtomicBool,
}

#[async_trait::async_trait]
impl WorkQueue for Deaf {
    async fn ready(&self, item: ItemId, gate: &str) -> PortResult<Answer> {
        if self.is_deaf.swap(false, Ordering::SeqCst) {
            return Err(PortError::new(Port::WorkQueue, "ready", PortErrorKind::Unavailable, "restarting"));
        }
        self.inner.ready(item, gate).await
    }
    async fn enqueue(&self, items: &[NewItem]) -> PortResult<Vec<Enqueued>> {
        self.inner.enqueue(items).await
    }
    async fn claim(&self, holder: Uuid, limit: u32, lease: Duration) -> PortResult<Vec<WorkItem>> {
        self.inner.claim(holder, limit, lease).await
    }
    async fn take_over(&self, holder: Uuid, limit: u32, lease: Duration) -> PortResult<TakenOver> {
        self.inner.take_over(holder, limit, lease).await
    }
    async fn heartbeat(&self, tokens: &[Token], lease: Duration) -> PortResult<Vec<Answer>> {
        self.inner.heartbeat(tokens, lease).await
    }
    async fn complete(&self, tokens: &[Token]) -> PortResult<Vec<Answer>> {
        self.inner.complete(tokens).await
    }
    async fn fail(&self, token: &Token, failure: &Failure) -> PortResult<Answer> {
        self.inner.fail(token, failure).await
    }
    async fn await_user(&self, token: &Token, gate: &str) -> PortResult<Answer> {
        self.inner.await_user(token, gate).await
    }
    async fn hand_back(&self, tokens: &[Token]) -> PortResult<Vec<Answer>> {
        self.inner.hand_back(tokens).await
    }
    async fn take_watch(&self, holder: Uuid, lease: Duration) -> PortResult<bool> {
        self.inner.take_watch(holder, lease).await
    }
    async fn leave_watch(&self, holder: Uuid) -> PortResult<()> {
        self.inner.leave_watch(holder).await
    }
    async fn cancel(&self, item: ItemId, reason: &str, actor: &str) -> PortResult<Answer> {
        self.inner.cancel(item, reason, actor).await
    }
    async fn item(&self, item: ItemId) -> PortResult<Option<WorkItem>> {
        self.inner.item(item).await
    }
    async fn item_by_key(&self, key: &str) -> PortResult<Option<WorkItem>> {
        self.inner.item_by_key(key).await
    }
    async fn list(&self, query: &ItemQuery) -> PortResult<Vec<WorkItem>> {
        self.inner.list(query).await
    }
    async fn attempts(&self, item: ItemId) -> PortResult<Vec<Attempt>> {
        self.inner.attempts(item).await
    }
    async fn statistics(&self) -> PortResult<QueueStatistics> {
        self.inner.statistics().await
    }
    async fn retain(&self, days: u16) -> PortResult<Retained> {
        self.inner.retain(days).await
    }
    async fn wait(&self, limit: Duration) -> PortResult<Wake> {
        self.inner.wait(limit).await
    }
}
