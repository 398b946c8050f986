//! What is kept of staged bytes.

use alloc::string::String;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Digest;

/// What is kept of staged bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingRecord {
    /// Row id.
    pub staging_record_id: Uuid,
    /// `source_copy` or `mark_manifest`.
    pub record_kind: String,
    /// sha256 of the bytes.
    pub sha256: Digest,
    /// Their length.
    pub byte_length: u64,
    /// `staged`, `approved`, `consumed`, `expired` or `cleaned`.
    pub lifecycle_status: String,
    /// Always true: staged bytes go into no vector store.
    pub vector_excluded: bool,
    /// When the bytes came.
    pub created_at: Timestamp,
    /// When the mark was approved.
    pub approved_at: Option<Timestamp>,
    /// When the cut began.
    pub consumed_at: Option<Timestamp>,
    /// When the bytes may go.
    pub expires_at: Option<Timestamp>,
    /// When they went.
    pub cleaned_at: Option<Timestamp>,
}
