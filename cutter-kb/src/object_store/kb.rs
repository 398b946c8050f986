//! Documents and their revisions in an object store.
//!
//! ```text
//! laws/run/SG1-….md                      the document: revision 1
//! laws/run/.revisions/SG1-….md/2         revision 2, and so on; the highest is the document
//! laws/index/v0.6-runs.md                the runs index, compacted for reading
//! laws/index/.lines/v0.6-runs.md/<run>   the line of one run: the truth
//! ```
//!
//! A revision is a create-only object of its own. Revising is a compare-and-set by that: of
//! two that make revision 3, one creates `…/3`. On a folder the document itself is replaced;
//! here nothing is, so a bucket that forbids overwriting will do. A person may upload a
//! document or replace the newest revision's object: it is read as it stands.

use async_trait::async_trait;
use bytes::Bytes;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};
use cutter_core::port::{Port, PortResult};

use super::error::Fault;
use super::index;
use super::place::{Place, check_path, hidden};
use crate::atomic_file::check_name;
use crate::folder::{MAX_DOCUMENT_BYTES, Stamp};

const KB: Port = Port::KnowledgeBase;
const REVISIONS: &str = ".revisions";

/// How often a creator asks again while another's request for the same key is under way.
const ASK_AGAIN: u32 = 5;

/// The knowledge base below a prefix of an object store.
#[derive(Debug, Clone)]
pub struct ObjectKb {
    place: Place,
}

impl ObjectKb {
    /// The base at `place`.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Self { place }
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Publishes revision `expected_revision + 1` if the document is at `expected_revision`.
    /// The same call again is `AlreadyApplied`.
    ///
    /// # Errors
    /// `NotFound` if there is no document; `OutcomeUnknown` if the store did not answer:
    /// the same call again says.
    pub async fn revise(
        &self,
        path: &str,
        expected_revision: u32,
        bytes: &[u8],
    ) -> PortResult<CasOutcome<Stamp>> {
        self.try_revise(path, expected_revision, bytes).await.map_err(|f| self.error("revise", path, f))
    }

    /// What revision `n` is, or `None`.
    ///
    /// # Errors
    /// As every read.
    pub async fn read_revision(&self, path: &str, n: u32) -> PortResult<Option<Vec<u8>>> {
        let read = async {
            check_path(path)?;
            let at = if n == 1 { path.to_owned() } else { revision_path(path, n) };
            Ok(self.place.read(&at, MAX_DOCUMENT_BYTES).await?.map(|read| read.bytes.to_vec()))
        };
        read.await.map_err(|f| self.error("read_revision", path, f))
    }

    fn error(&self, op: &'static str, path: &str, fault: Fault) -> cutter_core::port::PortError {
        let shown: String = path.chars().take(200).collect();
        fault.of(KB, op, &self.place.at(&shown))
    }

    async fn try_create(&self, path: &str, bytes: &[u8]) -> Result<CreateOutcome, Fault> {
        check_path(path)?;
        check_size(bytes)?;
        put_new(&self.place, path, Bytes::copy_from_slice(bytes)).await
    }

    async fn try_read(&self, path: &str) -> Result<Option<Document>, Fault> {
        check_path(path)?;
        let second = revision_path(path, 2);
        // both at once: most documents have no second revision, and no wait for asking
        let (first, second) = futures_util::future::try_join(
            self.place.read(path, MAX_DOCUMENT_BYTES),
            self.place.read(&second, MAX_DOCUMENT_BYTES),
        )
        .await?;
        let Some(first) = first else { return Ok(None) };
        let (bytes, revision) = match second {
            None => (index::completed(&self.place, path, first.bytes).await?, 1),
            Some(second) => match self.highest(path).await? {
                n @ 3.. => {
                    let newest = self.place.read(&revision_path(path, n), MAX_DOCUMENT_BYTES).await?;
                    let vanished = || Fault::unavailable(format!("revision {n} vanished while being read"));
                    (newest.ok_or_else(vanished)?.bytes, n)
                }
                _ => (second.bytes, 2),
            },
        };
        let sha256 = Digest::of(&bytes);
        Ok(Some(Document { bytes: bytes.to_vec(), revision, sha256 }))
    }

    async fn try_revise(&self, path: &str, expected: u32, bytes: &[u8]) -> Result<CasOutcome<Stamp>, Fault> {
        check_size(bytes)?;
        let Some(current) = self.try_read(path).await? else {
            return Err(Fault::NotFound);
        };
        let next = expected.checked_add(1).ok_or_else(|| Fault::invalid("no more revisions"))?;
        let sha256 = Digest::of(bytes);
        let stands = |revision: u32, found: Digest| {
            if revision == next && found == sha256 {
                return CasOutcome::AlreadyApplied;
            }
            CasOutcome::Conflict { found: Stamp { revision: u64::from(revision), sha256: found } }
        };
        if current.revision != expected {
            return Ok(stands(current.revision, current.sha256));
        }
        match put_new(&self.place, &revision_path(path, next), Bytes::copy_from_slice(bytes)).await? {
            CreateOutcome::Created => Ok(CasOutcome::Applied),
            CreateOutcome::Identical => Ok(CasOutcome::AlreadyApplied),
            CreateOutcome::Different { found } => Ok(stands(next, found)),
        }
    }

    async fn highest(&self, path: &str) -> Result<u32, Fault> {
        let kept = self.place.list(&hidden(path, REVISIONS, "")).await?;
        let numbers = kept.iter().filter_map(|path| path.rsplit('/').next()?.parse::<u32>().ok());
        Ok(numbers.max().unwrap_or(1))
    }
}

fn revision_path(path: &str, n: u32) -> String {
    hidden(path, REVISIONS, &n.to_string())
}

fn check_size(bytes: &[u8]) -> Result<(), Fault> {
    if bytes.len() <= MAX_DOCUMENT_BYTES {
        return Ok(());
    }
    Err(Fault::invalid(format!("expected at most {MAX_DOCUMENT_BYTES} bytes, observed {}", bytes.len())))
}

/// Creates an object and says what stands there. A request without an answer is asked again
/// by reading: found is settled, absent it may still arrive, and the caller is told so. To
/// create the same bytes again is safe.
pub(super) async fn put_new(place: &Place, path: &str, bytes: Bytes) -> Result<CreateOutcome, Fault> {
    for attempt in 0..ASK_AGAIN {
        let unknown = match place.create(path, bytes.clone()).await {
            Ok(()) => return Ok(CreateOutcome::Created),
            Err(Fault::Exists) => None,
            Err(fault @ Fault::Unknown { .. }) => Some(fault),
            Err(fault) => return Err(fault),
        };
        match (place.read(path, MAX_DOCUMENT_BYTES).await, unknown) {
            (Ok(Some(found)), _) if found.bytes == bytes => return Ok(CreateOutcome::Identical),
            (Ok(Some(found)), _) => return Ok(CreateOutcome::Different { found: Digest::of(&found.bytes) }),
            (_, Some(unknown)) => return Err(unknown),
            (Err(fault), None) => return Err(fault),
            // said to be there, and is not: another's request is under way, or was given up
            (Ok(None), None) => place.pause(attempt).await,
        }
    }
    Err(Fault::unavailable("the store says that it is there, but it cannot be read"))
}

#[async_trait]
impl KnowledgeBase for ObjectKb {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        self.try_create(path, bytes).await.map_err(|f| self.error("create", path, f))
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        self.try_read(path).await.map_err(|f| self.error("read", path, f))
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        let listed = async {
            let folder = folder.trim_end_matches('/');
            if !folder.is_empty() {
                check_path(folder)?;
            }
            let mut paths = self.place.list(folder).await?;
            paths.retain(|path| path.split('/').all(|part| check_name(part).is_ok()) && !path.ends_with('~'));
            Ok(paths)
        };
        listed.await.map_err(|f| self.error("list", folder, f))
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        index::append(&self.place, path, run_id, line).await.map_err(|f| self.error("append_index", path, f))
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        index::line(&self.place, path, run_id).await.map_err(|f| self.error("index_line", path, f))
    }
}
