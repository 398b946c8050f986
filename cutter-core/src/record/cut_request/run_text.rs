//! Whether a run cuts what was approved for its request.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::CutRequest;
use crate::base::digest::Digest;
use crate::record::check::{ABSENT, Check};

/// What a run marked or cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunText {
    /// Of this document.
    pub document_id: String,
    /// The text of the version, by its sha256.
    pub source: Digest,
    /// By this manifest.
    pub manifest_digest: Digest,
}

/// The document that a staged manifest is of, if it says so: the digest stands for it otherwise.
#[must_use]
pub fn staged_document(manifest: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(manifest).ok()?;
    Some(value.pointer("/settings/document_id")?.as_str()?.to_owned())
}

/// What a run stored against what was approved for its request; `staged` is the document that the
/// staged manifest names. The database asks the same, of its own rows.
#[must_use]
pub fn same_text(request: &CutRequest, staged: Option<&str>, run: &RunText) -> Vec<Check> {
    let held = |digest: &Option<Digest>| digest.map_or_else(|| ABSENT.to_owned(), |d| d.to_hex());
    let mut checks = Vec::new();
    for (invariant, approved, observed) in [
        ("cut.source_hash", &request.source_hash, run.source),
        ("cut.manifest_digest", &request.manifest_digest, run.manifest_digest),
    ] {
        checks.push(Check::new(invariant, held(approved), observed, *approved == Some(observed)));
    }
    if let Some(staged) = staged {
        checks.push(Check::equal("cut.document_id", &staged, &run.document_id.as_str()));
    }
    checks
}
