//! The body of an object as it arrives: whole, or an error.
//!
//! Its end is what the store announced, byte for byte. A connection, a file or a thread that
//! ends before is an error and never the end. A [`Body`] owns the place that feeds it, so it
//! can outlive everything that it was opened with; dropped halfway it ends its request.

use std::fmt;
use std::time::{Duration, Instant};

use ::object_store::{GetResult, GetResultPayload};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;

use super::error::{Fault, text};
use super::place::{Place, late};
use super::upload::PART_BYTES;

const PART: u64 = PART_BYTES as u64;

/// A body that is polled on the store's own thread.
pub(super) struct Source {
    stream: BoxStream<'static, ::object_store::Result<Bytes>>,
    announced: u64,
    seen: u64,
    is_file: bool,
}

impl Source {
    pub(super) fn new(got: GetResult) -> Self {
        let announced = got.range.end - got.range.start;
        let is_file = matches!(got.payload, GetResultPayload::File(..));
        Self { stream: got.into_stream(), announced, seen: 0, is_file }
    }

    /// The next piece, never an empty one; `None` after the last announced byte.
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            match self.stream.try_next().await {
                // a file that was cut while it is read gives nothing, again and again
                Ok(Some(piece)) if piece.is_empty() && !self.is_file => tokio::task::yield_now().await,
                Ok(Some(piece)) if !piece.is_empty() => {
                    self.seen = self.seen.saturating_add(piece.len() as u64);
                    if self.seen > self.announced {
                        return Err(self.differs("more than that"));
                    }
                    return Ok(Some(piece));
                }
                Ok(_) if self.seen == self.announced => return Ok(None),
                Ok(_) => return Err(self.differs("its end")),
                Err(error) => return Err(self.differs(&text(&error))),
            }
        }
    }

    /// All of it; the caller has looked at what is announced.
    pub(super) async fn collect(mut self) -> Result<Bytes, Fault> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }

    fn differs(&self, observed: &str) -> Fault {
        let (announced, seen) = (self.announced, self.seen);
        // it was there, so it is not "not there", whatever the error in the middle says
        Fault::unavailable(format!("expected a body of {announced} bytes, observed after {seen}: {observed}"))
    }
}

/// A body that is read from any thread, under any executor.
pub(super) struct Body {
    state: State,
    /// For this part, so far.
    waited: Duration,
    // last: the request ends before the thread that serves it
    place: Place,
}

enum State {
    Open(Source),
    Ended,
    /// It failed, or a caller left in the middle of a piece.
    Lost,
}

impl Body {
    pub(super) fn new(place: Place, source: Source) -> Self {
        Self { state: State::Open(source), waited: Duration::ZERO, place }
    }

    /// The next piece; `None` after the last announced byte. Each 16 MiB must come within the
    /// limit of a part, so a store that stalls or drips is left in time. The time that the
    /// caller takes does not count.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let mut source = match std::mem::replace(&mut self.state, State::Lost) {
            State::Open(source) => source,
            State::Ended => {
                self.state = State::Ended;
                return Ok(None);
            }
            State::Lost => return Err(Fault::unavailable("the reading was given up before its end")),
        };
        let (limit, began, before) = (self.place.limits().part, Instant::now(), source.seen);
        let left = limit.saturating_sub(self.waited);
        let next = async move {
            let next = tokio::time::timeout(left, source.next()).await;
            let late = |_| {
                let seconds = limit.as_secs_f32();
                Err(source.differs(&format!("neither 16 MiB more nor its end within {seconds} s")))
            };
            next.unwrap_or_else(late).map(|piece| (piece, source))
        };
        let next = self.place.runtime().run(next).await;
        let (piece, source) = next.unwrap_or_else(|| Err(late(Duration::ZERO, false)))?;
        let is_next_part = source.seen / PART > before / PART;
        self.waited = if is_next_part { Duration::ZERO } else { self.waited + began.elapsed() };
        self.state = if piece.is_some() { State::Open(source) } else { State::Ended };
        Ok(piece)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("place", &self.place).finish_non_exhaustive()
    }
}
