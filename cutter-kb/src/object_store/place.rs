//! A place in a store: a prefix, the requests made below it, and how long each may take.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::object_store::path::Path;
use ::object_store::{MultipartUpload, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use bytes::Bytes;
use cutter_core::base::digest::{Digest, Hasher};
use cutter_core::port::PortErrorKind;
use futures_util::TryStreamExt as _;

use super::body::{Body, Source};
use super::error::{Fault, fault};
use super::runtime::OwnRuntime;
use crate::atomic_file::check_name;
use crate::folder::MAX_PATH_BYTES;

/// How long requests may take. A read that takes longer is `Unavailable`, a write
/// `OutcomeUnknown`: these limits are the adapter's own, not a cap of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// One document, one listing.
    pub request: Duration,
    /// One part of a backup, up or down.
    pub part: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { request: Duration::from_secs(30), part: Duration::from_secs(120) }
    }
}

/// Everything below one prefix of one store. Clones share the connection and its thread.
#[derive(Clone)]
pub struct Place {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    shown: String,
    limits: TimeLimits,
    runtime: OwnRuntime,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("at", &self.shown).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// An object's bytes, bounded.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) bytes: Bytes,
    /// For a replacement of exactly this object.
    pub(super) version: ::object_store::UpdateVersion,
}

impl Place {
    /// The place below `prefix` (`/` between parts; empty for all of it) of any store that the
    /// library knows. `shown` names it in messages, say `s3://bucket/prefix`.
    ///
    /// # Errors
    /// What is wrong with the prefix, or why there is no thread.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, shown: impl Into<String>) -> Result<Self, String> {
        let prefix = prefix.trim_matches('/');
        let path = Path::parse(prefix).map_err(|e| format!("the prefix {prefix:?} cannot be used: {e}"))?;
        let runtime = OwnRuntime::start().map_err(|e| format!("no thread for the object store: {e}"))?;
        Ok(Self {
            store,
            prefix: path.as_ref().to_owned(),
            shown: shown.into(),
            limits: TimeLimits::default(),
            runtime,
        })
    }

    /// The same place with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: TimeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Its name for people; never a credential.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// A document's name for people.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.shown)
    }

    pub(super) fn runtime(&self) -> &OwnRuntime {
        &self.runtime
    }

    pub(super) fn limits(&self) -> TimeLimits {
        self.limits
    }

    /// The key of a path below the prefix.
    pub(super) fn key(&self, path: &str) -> Result<Path, Fault> {
        let full = if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) };
        if full.len() > MAX_PATH_BYTES {
            let observed = full.len();
            return Err(Fault::invalid(format!(
                "expected a key of at most {MAX_PATH_BYTES} bytes, observed {observed}"
            )));
        }
        Path::parse(&full).map_err(|e| Fault::invalid(format!("{path:?} cannot be a key: {e}")))
    }

    /// Runs requests on the store's thread, within `limit`.
    pub(super) async fn call<T, F>(
        &self,
        limit: Duration,
        write: bool,
        work: impl FnOnce(Arc<dyn ObjectStore>) -> F,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = ::object_store::Result<T>> + Send + 'static,
    {
        let future = work(self.store.clone());
        let sorted = async move { future.await.map_err(|e| fault(&e, write)) };
        self.within(limit, write, sorted).await
    }

    /// Runs work on the store's thread, within `limit`.
    pub(super) async fn within<T, F>(&self, limit: Duration, write: bool, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let bounded = async move {
            tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(late(limit, write)))
        };
        self.runtime.run(bounded).await.unwrap_or_else(|| Err(late(Duration::ZERO, write)))
    }

    /// Creates a key; [`Fault::Exists`] if it is there.
    pub(super) async fn create(&self, path: &str, bytes: Bytes) -> Result<(), Fault> {
        self.put(path, bytes, PutMode::Create).await
    }

    pub(super) async fn create_within(&self, limit: Duration, path: &str, bytes: Bytes) -> Result<(), Fault> {
        self.put_within(limit, path, bytes, PutMode::Create).await
    }

    pub(super) async fn put(&self, path: &str, bytes: Bytes, mode: PutMode) -> Result<(), Fault> {
        self.put_within(self.limits.request, path, bytes, mode).await
    }

    async fn put_within(
        &self,
        limit: Duration,
        path: &str,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<(), Fault> {
        let key = self.key(path)?;
        let options = PutOptions::from(mode);
        self.call(limit, true, |store| async move {
            store.put_opts(&key, PutPayload::from_bytes(bytes), options).await.map(drop)
        })
        .await
    }

    /// The whole object, or `None`; larger than `max` is refused before it is read.
    pub(super) async fn read(&self, path: &str, max: usize) -> Result<Option<Read>, Fault> {
        let key = self.key(path)?;
        let store = self.store.clone();
        let reading = async move {
            let got = match store.get(&key).await.map_err(|e| fault(&e, false)) {
                Ok(got) => got,
                Err(Fault::NotFound) => return Ok(None),
                Err(fault) => return Err(fault),
            };
            let size = got.meta.size;
            if size > max as u64 {
                let message = format!("expected at most {max} bytes, observed an object of {size}");
                return Err(Fault::invalid(message));
            }
            let version = ::object_store::UpdateVersion {
                e_tag: got.meta.e_tag.clone(),
                version: got.meta.version.clone(),
            };
            Ok(Some(Read { bytes: Source::new(got).collect().await?, version }))
        };
        self.within(self.limits.request, false, reading).await
    }

    /// Whether the key is there.
    pub(super) async fn is_there(&self, path: &str) -> Result<bool, Fault> {
        let key = self.key(path)?;
        let found = self
            .call(self.limits.request, false, |store| async move { store.head(&key).await.map(drop) })
            .await;
        match found {
            Ok(()) => Ok(true),
            Err(Fault::NotFound) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Paths below a folder (`""` for all), relative to the prefix, in byte order, hidden ones
    /// too. Never a sibling that only begins alike.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<String>, Fault> {
        let folder = folder.trim_matches('/');
        let below = match (self.prefix.is_empty(), folder.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Path::parse(&self.prefix).map_err(|e| Fault::invalid(e.to_string()))?),
            (_, false) => Some(self.key(folder)?),
        };
        let listed = self
            .call(self.limits.request, false, |store| async move {
                store.list(below.as_ref()).map_ok(|meta| meta.location.to_string()).try_collect().await
            })
            .await;
        let keys: Vec<String> = match listed {
            Err(Fault::NotFound) => Vec::new(),
            other => other?,
        };
        let begin = if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) };
        let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let own = |key: &String| key.strip_prefix(&begin).map(str::to_owned);
        let mut paths: Vec<String> =
            keys.iter().filter_map(own).filter(|path| path.starts_with(&inside)).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    /// An object's body, to be read piece by piece; `None` if it is not there.
    pub(super) async fn body(&self, path: &str) -> Result<Option<Body>, Fault> {
        let key = self.key(path)?;
        let begun = self.call(self.limits.part, false, |store| async move { store.get(&key).await }).await;
        match begun {
            Ok(got) => Ok(Some(Body::new(self.clone(), Source::new(got)))),
            Err(Fault::NotFound) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// sha256 and length of an object, read as a stream.
    pub(super) async fn hash(&self, path: &str) -> Result<Option<(Digest, u64)>, Fault> {
        let Some(mut body) = self.body(path).await? else { return Ok(None) };
        let (mut hasher, mut bytes) = (Hasher::new(), 0u64);
        while let Some(piece) = body.next().await? {
            hasher.update(&piece);
            bytes += piece.len() as u64;
        }
        Ok(Some((hasher.finish(), bytes)))
    }

    /// Removes a key; one that is not there is fine.
    pub(super) async fn remove(&self, path: &str) -> Result<(), Fault> {
        let key = self.key(path)?;
        let removed =
            self.call(self.limits.request, true, |store| async move { store.delete(&key).await }).await;
        match removed {
            Ok(()) | Err(Fault::NotFound) => Ok(()),
            // to remove is repeatable: not done is all that matters
            Err(Fault::Unknown { message }) => Err(Fault::unavailable(message)),
            Err(fault) => Err(fault),
        }
    }

    /// Waits a little, longer each time.
    pub(super) async fn pause(&self, attempt: u32) {
        let wait = Duration::from_millis(50 << attempt.min(6));
        // without the thread there is nothing to wait for
        let _ = self.runtime.run(async move { tokio::time::sleep(wait).await }).await;
    }

    /// Begins an upload that is invisible until it is completed.
    pub(super) async fn multipart(&self, path: &str) -> Result<Box<dyn MultipartUpload>, Fault> {
        let key = self.key(path)?;
        self.call(self.limits.request, false, |store| async move { store.put_multipart(&key).await }).await
    }
}

/// A limit of the adapter's own has passed.
pub(super) fn late(limit: Duration, write: bool) -> Fault {
    let message = if limit.is_zero() {
        "the store's thread ended without an answer".to_owned()
    } else {
        format!("expected an answer within {} s, observed none", limit.as_secs_f32())
    };
    if write { Fault::Unknown { message } } else { Fault::unavailable(message) }
}

/// Refuses what must not be a document's path, as the folder does.
pub(super) fn check_path(path: &str) -> Result<(), Fault> {
    if path.len() > MAX_PATH_BYTES {
        let observed = path.len();
        let message = format!("expected a path of at most {MAX_PATH_BYTES} bytes, observed {observed}");
        return Err(Fault::NotDone { kind: PortErrorKind::Invalid, message });
    }
    path.split('/').try_for_each(check_name).map_err(|why| Fault::invalid(format!("{path:?}: {why}")))
}

/// Folder and file name of a path.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// A hidden object that belongs to a document: `<folder>/<kind>/<name>/<entry>`.
pub(super) fn hidden(path: &str, kind: &str, entry: &str) -> String {
    let (folder, name) = split(path);
    let begin = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let end = if entry.is_empty() { String::new() } else { format!("/{entry}") };
    format!("{begin}{kind}/{name}{end}")
}
