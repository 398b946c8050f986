//! The knowledge base of the model: revisions per path, and index documents.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;

use super::world::{Data, Process, World};
use crate::base::digest::Digest;
use crate::port::knowledge_base::{AppendOutcome, CreateOutcome, Document, KnowledgeBase};
use crate::port::{Port, PortError, PortErrorKind, PortResult};

const PORT: Port = Port::KnowledgeBase;

/// Revisions by path, never empty; an index document has one revision that grows.
#[derive(Debug, Clone, Default)]
pub(super) struct Documents(pub(super) BTreeMap<String, Vec<Vec<u8>>>);

impl Documents {
    pub(super) fn newest(&self, path: &str) -> Option<&Vec<u8>> {
        self.0.get(path).and_then(|revisions| revisions.last())
    }

    pub(super) fn newest_mut(&mut self, path: &str) -> Option<&mut Vec<u8>> {
        self.0.get_mut(path).and_then(|revisions| revisions.last_mut())
    }
}

/// The knowledge base port of one process.
pub struct MemoryKnowledgeBase(pub(super) Process);

fn checked(op: &str, path: &str) -> PortResult<()> {
    let good =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0', '\n']);
    if path.split('/').all(good) {
        return Ok(());
    }
    let message = format!("{path:?} is no relative path without empty, `.` or `..` parts");
    Err(PortError::new(PORT, op, PortErrorKind::Invalid, message))
}

/// The line of a run among the whole lines of an index: the one that names it in backticks
/// at its beginning (spec 2 §9).
fn line_of(bytes: &[u8], run_id: &str) -> Option<String> {
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let text = core::str::from_utf8(bytes.get(..whole)?).ok()?;
    text.lines().find(|line| begins_with(line, run_id)).map(ToString::to_string)
}

fn begins_with(line: &str, run_id: &str) -> bool {
    let rest = line.strip_prefix("- `").and_then(|rest| rest.strip_prefix(run_id));
    rest.is_some_and(|rest| rest.starts_with('`'))
}

#[async_trait]
impl KnowledgeBase for MemoryKnowledgeBase {
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome> {
        self.0.call(PORT, "create", |data| {
            checked("create", path)?;
            if let Some(found) = data.documents.newest(path) {
                if found == bytes {
                    return Ok(CreateOutcome::Identical);
                }
                return Ok(CreateOutcome::Different { found: Digest::of(found) });
            }
            data.documents.0.insert(path.to_string(), alloc::vec![bytes.to_vec()]);
            Ok(CreateOutcome::Created)
        })
    }

    async fn read(&self, path: &str) -> PortResult<Option<Document>> {
        self.0.call(PORT, "read", |data| {
            checked("read", path)?;
            Ok(read(data, path))
        })
    }

    async fn list(&self, folder: &str) -> PortResult<Vec<String>> {
        self.0.call(PORT, "list", |data| {
            checked("list", folder)?;
            let prefix = format!("{folder}/");
            Ok(data.documents.0.keys().filter(|path| path.starts_with(&prefix)).cloned().collect())
        })
    }

    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome> {
        self.0.call(PORT, "append_index", |data| {
            checked("append_index", path)?;
            if line.contains(['\n', '\r']) || !begins_with(line, run_id) {
                let message = format!("the line must be one line that begins with \"- `{run_id}`\"");
                return Err(PortError::new(PORT, "append_index", PortErrorKind::Invalid, message));
            }
            let revisions = data.documents.0.entry(path.to_string()).or_default();
            let mut text = revisions.pop().unwrap_or_default();
            let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            text.truncate(whole);
            let outcome = match line_of(&text, run_id) {
                Some(found) if found == line => AppendOutcome::AlreadyThere,
                Some(found) => AppendOutcome::Conflict { found },
                None => {
                    text.extend_from_slice(line.as_bytes());
                    text.push(b'\n');
                    AppendOutcome::Appended
                }
            };
            revisions.push(text);
            Ok(outcome)
        })
    }

    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>> {
        self.0.call(PORT, "index_line", |data| {
            checked("index_line", path)?;
            Ok(data.documents.newest(path).and_then(|bytes| line_of(bytes, run_id)))
        })
    }
}

fn read(data: &Data, path: &str) -> Option<Document> {
    let revisions = data.documents.0.get(path)?;
    let bytes = revisions.last()?.clone();
    let sha256 = Digest::of(&bytes);
    Some(Document { revision: u32::try_from(revisions.len()).unwrap_or(u32::MAX), sha256, bytes })
}

impl World {
    /// Files a document as a person does, or adds a revision of it.
    pub fn file(&self, path: &str, bytes: &[u8]) {
        self.lock().data.documents.0.entry(path.to_string()).or_default().push(bytes.to_vec());
    }

    /// A document as it stands, past the ports and their faults.
    #[must_use]
    pub fn document(&self, path: &str) -> Option<Document> {
        read(&self.lock().data, path)
    }

    /// All paths in the knowledge base, in byte order.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.lock().data.documents.0.keys().cloned().collect()
    }
}
