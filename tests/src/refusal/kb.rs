//! Knowledge bases in which something happens meanwhile.

use std::sync::{Arc, Mutex};

use cutter_core::driver::Ports;
use cutter_core::port::PortResult;
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};
use cutter_core::testing::memory::World;

/// A knowledge base in which filing one document takes its time.
pub struct SlowKnowledgeBase {
    /// Does the work.
    pub inner: Arc<dyn KnowledgeBase>,
    /// Whose clock moves.
    pub world: World,
    /// Part of the name of the slow document.
    pub name: String,
    /// How long it takes.
    pub millis: u64,
}

#[async_trait::async_trait]
impl KnowledgeBase for SlowKnowledgeBase {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        if path.contains(&self.name) {
            self.world.advance(self.millis);
        }
        self.inner.create(path, bytes).await
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        self.inner.read(path).await
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        self.inner.list(folder).await
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        self.inner.append_index(path, run_id, line).await
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        self.inner.index_line(path, run_id).await
    }
}

/// A knowledge base where somebody files answers at the nth call after the run is resumed.
pub struct Meanwhile {
    world: World,
    inner: Arc<dyn KnowledgeBase>,
    calls: Mutex<usize>,
    at: usize,
    answer: (String, String),
}

impl Meanwhile {
    /// Over that of these ports: `answer` is its path and its document.
    pub fn before(
        world: &World,
        ports: &Ports,
        at: usize,
        answer: (String, String),
    ) -> Arc<dyn KnowledgeBase> {
        let (world, inner, calls) = (world.clone(), ports.kb.clone(), Mutex::new(0));
        Arc::new(Self { world, inner, calls, at, answer })
    }

    fn call(&self) {
        let mut calls = self.calls.lock().expect("no call panicked");
        *calls += 1;
        if *calls == self.at {
            self.world.file(&self.answer.0, self.answer.1.as_bytes());
        }
    }
}

#[async_trait::async_trait]
impl KnowledgeBase for Meanwhile {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        self.call();
        self.inner.create(path, bytes).await
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        self.call();
        self.inner.read(path).await
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        self.call();
        self.inner.list(folder).await
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        self.call();
        self.inner.append_index(path, run_id, line).await
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        self.call();
        self.inner.index_line(path, run_id).await
    }
}
