//! A knowledge base in which something happens at the nth call: between any two looks of a driver,
//! and while its transactions are open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cutter_core::port::PortResult;
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};

/// What happens, once.
pub type Event = Box<dyn FnOnce() + Send>;

pub struct Eventful {
    pub inner: Arc<dyn KnowledgeBase>,
    pub calls: AtomicU64,
    pub at: u64,
    pub event: Mutex<Option<Event>>,
    /// Documents that refuse are not listed: a driver that does not listen.
    pub deaf: bool,
}

impl Eventful {
    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            let event = self.event.lock().unwrap().take();
            if let Some(event) = event {
                event();
            }
        }
    }
}

#[async_trait::async_trait]
impl KnowledgeBase for Eventful {
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
        let mut paths = self.inner.list(folder).await?;
        if self.deaf {
            let mut heard = Vec::new();
            for path in paths {
                let document = self.inner.read(&path).await?;
                let text = document.map(|d| String::from_utf8_lossy(&d.bytes).into_owned());
                if !text.is_some_and(|t| t.contains("\ndecision: reject") || t.contains("\ndecision: defer"))
                {
                    heard.push(path);
                }
            }
            paths = heard;
        }
        Ok(paths)
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
