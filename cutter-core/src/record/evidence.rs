//! What a run left in the database, for whoever checks it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::effect::{EffectName, EffectRecord, ReviewVerdict, Verdict};
use crate::base::digest::Digest;

/// What the database holds about one run, for `verify` and `recover`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEvidence {
    /// The fence, if the run ever took it.
    pub fence_epoch: Option<i64>,
    /// All recorded effects, in order of `at`, then name.
    pub effects: Vec<EffectRecord>,
    /// Status of the backlog entry.
    pub entry_status: Option<String>,
    /// History of the entry as `(from, to)`, oldest first; `from` is empty for the first.
    pub history: Vec<(String, String)>,
    /// Signatures of the run: duty, payload digest, public key, signature (hex).
    pub signatures: Vec<StoredSignature>,
    /// Approvals stored for the run: gate, sha256 of the document, nonce, fingerprint.
    pub approvals: Vec<StoredApproval>,
    /// Whether the change set carries a void row.
    pub voided: bool,
    /// Verify results of the change set: (id, passed).
    pub verify_results: Vec<(Uuid, bool)>,
    /// Rows of `iu_lifecycle_log` with to_status `enacted`.
    pub enacted_log_rows: u64,
}

impl RunEvidence {
    /// Whether the run's units were enacted.
    #[must_use]
    pub fn is_enacted(&self) -> bool {
        let enacts = |e: &EffectRecord| e.key.effect == EffectName::Enact && e.verdict == Verdict::Commit;
        self.enacted_log_rows > 0 || self.effects.iter().any(enacts)
    }
}

/// The rows that a run left, by table without its schema: each column as JSON, bytes as `\\x` and
/// hexadecimal digits. `unit` is one row for each unit of its cuts: `ordinal`, `unit_id`,
/// `version_id`, `anchor_id`, and in `odd` the names of columns that do not follow from the change
/// set, the run, or what enacted or voided it. `source_version` lacks the text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunRows(pub BTreeMap<String, Vec<BTreeMap<String, serde_json::Value>>>);

/// A stored `dot_pair_signature`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSignature {
    /// Row id.
    pub signature_id: Uuid,
    /// `executor` or `verifier`.
    pub duty: String,
    /// The canonical payload that was signed, as text.
    pub payload: String,
    /// Public key, hex.
    pub public_key: String,
    /// Signature, hex.
    pub signature: String,
    /// When it was stored, by the database's clock; `None` where that was not kept yet.
    #[serde(default)]
    pub recorded_at: Option<jiff::Timestamp>,
}

/// A stored approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredApproval {
    /// Row id.
    pub approval_id: Uuid,
    /// Which gate it answered.
    pub gate: String,
    /// sha256 of the approval document.
    pub sha256: Digest,
    /// The nonce that it answered.
    pub nonce: String,
    /// Primary key fingerprint of the signer.
    pub fingerprint: String,
    /// What it decides.
    pub decision: ReviewVerdict,
    /// Who signed, by name.
    pub actor: String,
    /// The document, byte for byte.
    pub document: String,
    /// Where it stood in the knowledge base.
    pub approval_kb_id: String,
    /// When it ends, if it does.
    pub expires: Option<jiff::Timestamp>,
    /// The time of the effect that stored it.
    pub at: jiff::Timestamp,
    /// What it relied on: the effect that used it, if any did.
    pub used_by: Option<String>,
    /// When it was stored, by the database's clock; `None` where that was not kept yet.
    #[serde(default)]
    pub recorded_at: Option<jiff::Timestamp>,
}
