//! One thread with a runtime of its own, so that the ports run under any executor.
//!
//! The clouds' client needs tokio; a port's caller may have none, or must not be blocked.
//! Work is spawned here and its result comes back over a channel. The runtime is dropped on
//! its own thread: dropped inside another one it would panic.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Handle to the thread; it ends when the last clone is gone.
#[derive(Debug, Clone)]
pub(super) struct OwnRuntime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    handle: Handle,
    // dropped with the last handle: that is the word to end
    _end: oneshot::Sender<()>,
}

impl OwnRuntime {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(16).build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name("cutter-objects".to_owned()).spawn(move || {
            // an error is the end, too: the sender is gone
            let _ = runtime.block_on(ended);
            // nobody waits for what is still going on: create-only, so it does no harm
            runtime.shutdown_background();
        })?;
        Ok(Self { inner: Arc::new(Inner { handle, _end: end }) })
    }

    /// Runs a future there and waits for its result, under any executor. `None` if it
    /// panicked or the thread is ending. A caller that stops waiting ends the work.
    pub(super) async fn run<T, F>(&self, work: F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let task = self.inner.handle.spawn(async move {
            // a caller that went away does not want the answer
            let _ = sender.send(work.await);
        });
        let guard = AbortOnDrop(Some(task.abort_handle()));
        let result = receiver.await.ok();
        guard.disarm();
        result
    }

    /// Starts a future there and does not wait.
    pub(super) fn spawn<F>(&self, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.inner.handle.spawn(work));
    }
}

struct AbortOnDrop(Option<tokio::task::AbortHandle>);

impl AbortOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}
