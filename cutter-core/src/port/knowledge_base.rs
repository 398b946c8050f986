//! The knowledge base port: create-only documents with revisions, and the runs index.
//!
//! Paths are relative, `/`-separated and checked by [`crate::report::naming`]. The orchestrator
//! only ever creates; revisions exist because people edit their own documents, and so
//! that an edit after validation is seen (spec 2 §8).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use async_trait::async_trait;

use super::PortResult;
use crate::base::digest::Digest;

/// The answer of [`KnowledgeBase::create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateOutcome {
    /// Durable now.
    Created,
    /// The same bytes stood there: success, nothing written.
    Identical,
    /// Other bytes stand there: nothing written.
    Different {
        /// sha256 of what stands there.
        found: Digest,
    },
}

/// A document as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The newest revision's bytes.
    pub bytes: Vec<u8>,
    /// 1 for a document that was never revised.
    pub revision: u32,
    /// sha256 of `bytes`.
    pub sha256: Digest,
}

/// The answer of [`KnowledgeBase::append_index`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Durable now.
    Appended,
    /// Exactly this line stands there for this run.
    AlreadyThere,
    /// Another line stands there for this run: nothing written.
    Conflict {
        /// The line that stands there.
        found: String,
    },
}

/// The knowledge base.
#[async_trait]
pub trait KnowledgeBase: Send + Sync {
    /// Creates a document. Whole and durable on return, or not there at all; of several
    /// concurrent creators exactly one gets `Created`. Never replaces.
    async fn create(&self, path: &str, bytes: &[u8]) -> PortResult<CreateOutcome>;
    /// The newest revision, or `None`.
    async fn read(&self, path: &str) -> PortResult<Option<Document>>;
    /// Paths of the documents directly or deeper under a folder, in byte order.
    async fn list(&self, folder: &str) -> PortResult<Vec<String>>;
    /// Appends one line for a run to an index document. The line has no newline. A torn
    /// last line (no newline) is cut first. Durable on return.
    async fn append_index(&self, path: &str, run_id: &str, line: &str) -> PortResult<AppendOutcome>;
    /// The line of a run in an index document, or `None`.
    async fn index_line(&self, path: &str, run_id: &str) -> PortResult<Option<String>>;
}
