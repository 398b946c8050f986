//! Stores for tests: the contracts over any of them, and one that loses answers.
#![allow(dead_code, unreachable_pub)]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ::object_store::memory::InMemory;
use ::object_store::path::Path;
use ::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use async_trait::async_trait;
use bytes::Bytes;
use cutter_core::port::backup::BackupTarget;
use cutter_core::port::knowledge_base::KnowledgeBase;
use cutter_core::testing::conformance::{ConformanceFailure, Fresh, backup, knowledge_base};
use cutter_kb::object_store::{ObjectBackupTarget, ObjectKb, Place};
use cutter_kb::openpgp::{KeyKind, KeyPair, Recipient};
use futures_executor::block_on;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use jiff::Timestamp;

#[track_caller]
pub fn all_held(result: std::result::Result<Vec<&'static str>, ConformanceFailure>, at_least: usize) {
    let held = result.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= at_least, "only {held:?}");
}

/// A fresh place, and what must outlive it.
pub type FreshPlace = (Place, Option<tempfile::TempDir>);

/// Both suites over fresh places.
pub fn keeps_every_contract(build: impl Fn() -> FreshPlace) {
    let kb = || async {
        let (place, keep) = build();
        let kb: Arc<dyn KnowledgeBase> = Arc::new(ObjectKb::new(place));
        Ok(Fresh::keeping(kb, keep))
    };
    all_held(block_on(knowledge_base::run_all(kb)), 12);
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    let target = || async {
        let (place, keep) = build();
        let target: Arc<dyn BackupTarget> = Arc::new(ObjectBackupTarget::new(place, recipient(&pair)));
        Ok(Fresh::keeping(target, keep))
    };
    all_held(block_on(backup::run_all(target)), 6);
}

pub fn recipient(pair: &KeyPair) -> Recipient {
    Recipient::new(&pair.public(), &pair.fingerprint(), Timestamp::now()).unwrap()
}

pub fn place_of(store: Arc<dyn ObjectStore>) -> Place {
    Place::new(store, "some/prefix", "test:").unwrap()
}

/// How a write goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Done, and the answer is lost.
    AnswerLost,
    /// Not done, and the answer is lost.
    RequestLost,
    /// Done, and no answer ever comes.
    Hangs,
}

/// Memory, whose next writes go wrong.
#[derive(Debug)]
pub struct Lossy {
    pub inner: InMemory,
    wrong: Wrong,
    left: AtomicUsize,
    pub creates: AtomicU64,
}

impl Lossy {
    pub fn new(wrong: Wrong, times: usize) -> Arc<Self> {
        let (left, creates) = (AtomicUsize::new(times), AtomicU64::new(0));
        Arc::new(Self { inner: InMemory::new(), wrong, left, creates })
    }
}

impl fmt::Display for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lossy")
    }
}

#[async_trait]
impl ObjectStore for Lossy {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.creates.fetch_add(1, Ordering::SeqCst);
        let is_wrong =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if !is_wrong {
            return self.inner.put_opts(at, payload, options).await;
        }
        if self.wrong != Wrong::RequestLost {
            self.inner.put_opts(at, payload, options).await?;
        }
        if self.wrong == Wrong::Hangs {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        Err(Error::Generic { store: "Lossy", source: "connection reset".into() })
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(at, options).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(at, ranges).await
    }

    fn delete_stream(&self, at: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Memory that does not know conditions, as some servers.
#[derive(Debug)]
pub struct Deaf(pub InMemory);

impl fmt::Display for Deaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deaf")
    }
}

#[async_trait]
impl ObjectStore for Deaf {
    async fn put_opts(&self, at: &Path, payload: PutPayload, _: PutOptions) -> Result<PutResult> {
        self.0.put_opts(at, payload, PutOptions::default()).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(at, options).await
    }

    fn delete_stream(&self, at: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

/// How much the bodies of a [`Liar`] have, compared with what it announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// The last byte is missing.
    Less,
    /// One byte more.
    More,
    /// No byte, and no end either.
    Never,
}

/// Memory that announces one length and gives another.
#[derive(Debug)]
pub struct Liar(pub InMemory, pub Length);

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Liar")
    }
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let mut got = self.0.get_opts(at, options).await?;
        let length = usize::try_from(got.range.end).unwrap();
        let body = match self.1 {
            Length::Less => futures_util::stream::iter([Ok(Bytes::from(vec![7; length - 1]))]).boxed(),
            Length::More => futures_util::stream::iter([Ok(Bytes::from(vec![7; length + 1]))]).boxed(),
            Length::Never => futures_util::stream::repeat_with(|| Ok(Bytes::new())).boxed(),
        };
        got.payload = GetResultPayload::Stream(body);
        Ok(got)
    }

    fn delete_stream(&self, at: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}
