//! The rows of the model: one struct per table of the reference schema, plain data.
//!
//! Rows are never deleted, but for staged bytes. What may change: an entry's `status`, a unit's
//! `lifecycle_status` (through enact and void), a fence's epoch and holder, and what belongs to the
//! status of a cut request, a staging record and a signal.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::cut_request::{SignalRow, StagingRow};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::backlog::BacklogState;
use crate::machine::run::GateId;
use crate::record::ask::StoredAsk;
use crate::record::cut_request::{CutRequest, Transition};
use crate::record::effect::{EffectKey, EffectRecord, ReviewVerdict};
pub(super) use crate::record::observed::Lifecycle;
use crate::record::stored_statement::StoredStatement;

#[derive(Debug, Clone, Serialize)]
pub(super) struct DocumentRow {
    pub(super) source_document_id: Uuid,
    pub(super) document_id: String,
    pub(super) title: String,
    pub(super) actor: String,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct VersionRow {
    pub(super) source_version_id: Uuid,
    pub(super) document_id: String,
    pub(super) version_no: i32,
    pub(super) sha256: Digest,
    pub(super) manifest_digest: Option<Digest>,
    pub(super) actor: String,
    #[serde(serialize_with = "as_hex")]
    pub(super) content: Arc<Vec<u8>>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct FenceRow {
    pub(super) document_id: String,
    pub(super) epoch: i64,
    pub(super) holder: Uuid,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct EntryRow {
    pub(super) entry_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) kind: &'static str,
    pub(super) source_version_id: Uuid,
    pub(super) idempotency_key: Digest,
    pub(super) region_sha: Digest,
    pub(super) manifest_digest: Digest,
    pub(super) candidate_count: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) depends_on: Vec<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) escalates: Option<Uuid>,
    pub(super) status: BacklogState,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct HistoryRow {
    pub(super) history_id: Uuid,
    pub(super) entry_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) from_state: Option<BacklogState>,
    pub(super) to_state: BacklogState,
    pub(super) actor: String,
    pub(super) reason: String,
    pub(super) at: Timestamp,
    pub(super) change_set_id: Option<Uuid>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct SweepRow {
    pub(super) sweep_id: Uuid,
    /// Empty for a pass outside of a run.
    pub(super) run_id: Option<RunId>,
    pub(super) document_id: String,
    pub(super) promoted: Vec<Uuid>,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct DecisionRow {
    pub(super) review_decision_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) decision_type: String,
    /// Empty for a request row: the consent is the approval.
    pub(super) decision: Option<ReviewVerdict>,
    pub(super) entry_id: Option<Uuid>,
    pub(super) change_set_id: Option<Uuid>,
    pub(super) expected_actor: Option<String>,
    pub(super) unit_count: Option<u64>,
    pub(super) unit_set_digest: Option<Digest>,
    pub(super) nonce: String,
    pub(super) request_sha256: Digest,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct ApprovalRow {
    pub(super) approval_id: Uuid,
    pub(super) review_decision_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) gate: String,
    pub(super) decision: ReviewVerdict,
    pub(super) approval_kb_id: String,
    pub(super) document: String,
    pub(super) sha256: Digest,
    pub(super) nonce: String,
    pub(super) fingerprint: String,
    pub(super) actor: String,
    pub(super) expires: Option<Timestamp>,
    pub(super) request_sha256: Digest,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct ApprovalUseRow {
    pub(super) approval_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) used_by: EffectKey,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct ChangeSetRow {
    pub(super) change_set_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) kind: &'static str,
    pub(super) idempotency_key: Digest,
    pub(super) entry_id: Uuid,
    pub(super) source_version_id: Uuid,
    pub(super) review_decision_id: Uuid,
    pub(super) writer_digest: Digest,
    pub(super) manifest_digest: Digest,
    pub(super) region_sha: Digest,
    pub(super) publication_type: String,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct VoidRow {
    pub(super) void_id: Uuid,
    pub(super) change_set_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) approval_id: Uuid,
    pub(super) reason: String,
    pub(super) at: Timestamp,
}

/// `information_unit`, `unit_version` and `unit_anchor` of one unit.
#[derive(Debug, Clone, Serialize)]
pub(super) struct UnitRecord {
    pub(super) unit_id: Uuid,
    pub(super) version_id: Uuid,
    pub(super) anchor_id: Uuid,
    pub(super) change_set_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) source_version_id: Uuid,
    pub(super) ordinal: u64,
    pub(super) canonical_address: String,
    pub(super) citation_address: Option<String>,
    pub(super) unit_kind: String,
    pub(super) section_type: String,
    pub(super) lifecycle_status: Lifecycle,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) content_hash: Digest,
    pub(super) body_hash: Digest,
    pub(super) idempotency_key: Digest,
    #[serde(serialize_with = "as_hex")]
    pub(super) content: Arc<Vec<u8>>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct SignatureRow {
    pub(super) signature_id: Uuid,
    pub(super) change_set_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) duty: String,
    pub(super) payload: String,
    pub(super) public_key: String,
    pub(super) signature: String,
    pub(super) principal: &'static str,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct EnvelopeRow {
    pub(super) manifest_envelope_id: Uuid,
    pub(super) change_set_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) executor_signature_id: Uuid,
    pub(super) envelope: String,
    pub(super) unit_count: u64,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct VerifyRow {
    pub(super) verify_result_id: Uuid,
    pub(super) change_set_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) manifest_envelope_id: Uuid,
    pub(super) passed: bool,
    /// Of a failure: the compensating set and the escalation entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) escalated: Option<[Uuid; 2]>,
    pub(super) principal: &'static str,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct LogRow {
    pub(super) log_id: Uuid,
    pub(super) unit_id: Uuid,
    pub(super) change_set_id: Uuid,
    pub(super) run_id: RunId,
    pub(super) document_id: String,
    pub(super) from_status: Lifecycle,
    pub(super) to_status: Lifecycle,
    pub(super) actor: String,
    pub(super) at: Timestamp,
}

/// All tables.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) documents: BTreeMap<String, DocumentRow>,
    pub(super) versions: BTreeMap<Uuid, VersionRow>,
    pub(super) fences: BTreeMap<RunId, FenceRow>,
    pub(super) effects: BTreeMap<EffectKey, EffectRecord>,
    /// Runs that a request names and that are over, and why.
    pub(super) ended_runs: BTreeMap<RunId, String>,
    pub(super) entries: BTreeMap<Uuid, EntryRow>,
    /// In order of insertion, which is the order of an entry's moves.
    pub(super) history: Vec<HistoryRow>,
    pub(super) sweeps: BTreeMap<Uuid, SweepRow>,
    pub(super) decisions: BTreeMap<Uuid, DecisionRow>,
    pub(super) approvals: BTreeMap<Uuid, ApprovalRow>,
    pub(super) approval_uses: BTreeMap<Uuid, ApprovalUseRow>,
    /// By run, gate and occurrence.
    pub(super) asks: BTreeMap<(RunId, GateId, u32), StoredAsk>,
    pub(super) change_sets: BTreeMap<Uuid, ChangeSetRow>,
    pub(super) voids: BTreeMap<Uuid, VoidRow>,
    pub(super) units: BTreeMap<Uuid, UnitRecord>,
    pub(super) signatures: BTreeMap<Uuid, SignatureRow>,
    pub(super) envelopes: BTreeMap<Uuid, EnvelopeRow>,
    pub(super) verify_results: BTreeMap<Uuid, VerifyRow>,
    pub(super) log: BTreeMap<Uuid, LogRow>,
    pub(super) statements: BTreeMap<RunId, Vec<StoredStatement>>,
    pub(super) requests: BTreeMap<Uuid, CutRequest>,
    /// In order of insertion.
    pub(super) request_transitions: Vec<Transition>,
    pub(super) staging: BTreeMap<Uuid, StagingRow>,
    pub(super) payloads: BTreeMap<Uuid, Arc<Vec<u8>>>,
    pub(super) signals: BTreeMap<Uuid, SignalRow>,
}

fn as_hex<S: serde::Serializer>(bytes: &Arc<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&crate::base::digest::to_hex(bytes))
}
