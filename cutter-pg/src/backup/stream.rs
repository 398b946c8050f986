//! From the connection's thread to the port's stream, with bounded memory.
//!
//! The thread pays one credit for each chunk and waits for one when it has none; the reader gives
//! it back with the chunk it takes. So at most [`CREDITS`] chunks wait, and the thread's wait has
//! an end: no credit within the stall limit, or past the deadline, ends the backup, its COPY and
//! its snapshot, whether or not the reader ever comes back.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cutter_core::port::backup::BackupStream;
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::backup::BackupSummary;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::PORT;
use crate::error::PgError;

/// Bytes of a chunk. The port allows 1 MiB.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;

/// Chunks that may wait for the reader.
pub(super) const CREDITS: usize = 4;

/// The thread's end.
pub(super) struct Outlet {
    chunks: UnboundedSender<Vec<u8>>,
    credits: mpsc::Receiver<()>,
    buffer: Vec<u8>,
    until: Instant,
    stall: Duration,
}

/// The reader's end.
pub(super) struct Inlet {
    chunks: UnboundedReceiver<Vec<u8>>,
    credits: mpsc::Sender<()>,
}

/// A bounded channel. `until`: when the backup must be over; `stall`: how long a reader may take
/// for one chunk.
pub(super) fn channel(until: Instant, stall: Duration) -> (Outlet, Inlet) {
    let (sender, chunks) = unbounded_channel();
    let (give, credits) = mpsc::channel();
    for _ in 0..CREDITS {
        // The other end is in this function.
        let _ = give.send(());
    }
    let outlet = Outlet { chunks: sender, credits, buffer: Vec::with_capacity(CHUNK_BYTES), until, stall };
    (outlet, Inlet { chunks, credits: give })
}

impl Outlet {
    /// Takes bytes; sends what is full.
    pub(super) fn put(&mut self, mut bytes: &[u8]) -> Result<(), PgError> {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == CHUNK_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Sends what is there.
    pub(super) fn flush(&mut self) -> Result<(), PgError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let wait = self.until.saturating_duration_since(started).min(self.stall);
        match self.credits.recv_timeout(wait) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                return Err(PgError::Deadline { waited_ms });
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(reader_gone()),
        }
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        self.chunks.send(chunk).map_err(|_| reader_gone())
    }

    /// When the backup must be over.
    pub(super) fn until(&self) -> Instant {
        self.until
    }
}

fn reader_gone() -> PgError {
    PgError::Configuration("the backup's reader went away before its end".to_owned())
}

impl Inlet {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let chunk = self.chunks.poll_recv(cx);
        if matches!(chunk, Poll::Ready(Some(_))) {
            // A thread that is done needs none.
            let _ = self.credits.send(());
        }
        chunk
    }
}

/// The job on the connection's thread, seen from here.
pub(super) type Job = Pin<Box<dyn Future<Output = Result<BackupSummary, PgError>> + Send>>;

/// The port's stream. It polls the job, whose errors it reports.
pub(super) struct PgBackupStream {
    inlet: Inlet,
    job: Option<Job>,
    outcome: Option<Result<BackupSummary, PgError>>,
    first: Option<Vec<u8>>,
    is_at_end: bool,
}

impl PgBackupStream {
    /// Starts the job and waits for its first chunk, so that what is wrong from the start is an
    /// error of `open`.
    pub(super) async fn start(inlet: Inlet, job: Job) -> PortResult<Self> {
        let mut stream = Self { inlet, job: Some(job), outcome: None, first: None, is_at_end: false };
        stream.first = stream.pull("open").await?;
        Ok(stream)
    }

    async fn pull(&mut self, op: &'static str) -> PortResult<Option<Vec<u8>>> {
        poll_fn(|cx| {
            if let Some(job) = &mut self.job
                && let Poll::Ready(outcome) = job.as_mut().poll(cx)
            {
                self.job = None;
                self.outcome = Some(outcome);
            }
            if let Some(Err(error)) = &self.outcome {
                return Poll::Ready(Err(PortError::new(PORT, op, error.kind(), error.to_string())));
            }
            match self.inlet.poll(cx) {
                Poll::Ready(Some(chunk)) => Poll::Ready(Ok(Some(chunk))),
                // The thread hung up; what it has to say comes through the job.
                Poll::Ready(None) if self.outcome.is_some() => Poll::Ready(Ok(None)),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

#[async_trait]
impl BackupStream for PgBackupStream {
    async fn next(&mut self) -> PortResult<Option<Vec<u8>>> {
        if let Some(chunk) = self.first.take() {
            return Ok(Some(chunk));
        }
        let chunk = self.pull("next").await?;
        self.is_at_end = chunk.is_none();
        Ok(chunk)
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupSummary> {
        match self.outcome {
            Some(Ok(summary)) if self.is_at_end => Ok(summary),
            Some(Err(error)) => Err(PortError::new(PORT, "finish", error.kind(), error.to_string())),
            _ => Err(PortError::new(
                PORT,
                "finish",
                PortErrorKind::Invalid,
                "the backup was not read to its end: call next until it gives nothing, then finish",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::block_on;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_slow_reader_holds_the_writer_back() {
        let (mut outlet, mut inlet) = channel(far(), Duration::from_secs(60));
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        const CHUNKS: usize = 120;
        let writer = std::thread::spawn(move || {
            for _ in 0..CHUNKS {
                outlet.put(&[7; CHUNK_BYTES]).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let (mut taken, mut most) = (0, 0);
        while let Some(chunk) = block_on(poll_fn(|cx| inlet.poll(cx))) {
            assert_eq!(chunk.len(), CHUNK_BYTES);
            taken += 1;
            std::thread::sleep(Duration::from_millis(1));
            most = most.max(sent.load(Ordering::SeqCst) - (taken - 1));
        }
        writer.join().unwrap();
        assert_eq!(taken, CHUNKS);
        // One is on its way out of the counter when the next is on its way in.
        assert!(most <= CREDITS + 2, "{most} chunks waited");
    }

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_their_cut() {
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 17).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let (mut outlet, mut inlet) = channel(far(), Duration::from_secs(60));
        let mut read = Vec::new();
        for part in bytes.chunks(100_003) {
            outlet.put(part).unwrap();
        }
        outlet.flush().unwrap();
        drop(outlet);
        while let Some(chunk) = block_on(poll_fn(|cx| inlet.poll(cx))) {
            read.extend(chunk);
        }
        assert!(read == bytes);
    }

    #[test]
    fn a_reader_that_stops_or_goes_ends_the_writer() {
        let (mut outlet, inlet) = channel(far(), Duration::from_millis(50));
        let started = Instant::now();
        let error = outlet.put(&[0; (CREDITS + 2) * CHUNK_BYTES]).unwrap_err();
        assert!(matches!(error, PgError::Deadline { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
        drop(inlet);

        let (mut outlet, inlet) = channel(far(), Duration::from_secs(60));
        drop(inlet);
        assert!(outlet.put(&[0; (CREDITS + 1) * CHUNK_BYTES]).is_err());

        let (mut outlet, _inlet) = channel(Instant::now(), Duration::from_secs(60));
        let error = outlet.put(&[0; (CREDITS + 1) * CHUNK_BYTES]).unwrap_err();
        assert!(matches!(error, PgError::Deadline { .. }), "past the deadline: {error}");
    }
}
