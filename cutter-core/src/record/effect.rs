//! Effects: what a run does to the database, as data.
//!
//! Each effect is one transaction with one row in `cutter_governance.run_effect`, keyed
//! by (run, effect, occurrence). Requests and facts are plain serialisable structs, so
//! the facts alone are enough to render the phase's report again after a crash.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::record::observed::{Fence, Survey, SurveyScope};

/// The effects of a run, in the order of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectName {
    /// MARK: the backlog entry at S0.
    Mark,
    /// The sweep pass: S0 → S1.
    Sweep,
    /// The decision at SG_1: S1 → S2, S3 or S4.
    Sg1Review,
    /// Leg A: units, versions, anchors, executor signature, S2 → S5 → S6.
    LegA,
    /// Leg B: the manifest envelope.
    LegB,
    /// Write-verify: verify_result, verifier signature, S6 → S7 → S8 or S9.
    WriteVerify,
    /// The request row at SG_2.
    Sg2Request,
    /// The decision at SG_2.
    Sg2Review,
    /// Enactment of every unit.
    Enact,
    /// A decision on a stop (SG_3).
    Sg3Review,
    /// Voiding: the change set and its draft units.
    Void,
}

impl EffectName {
    /// All effects.
    pub const ALL: [Self; 11] = [
        Self::Mark,
        Self::Sweep,
        Self::Sg1Review,
        Self::LegA,
        Self::LegB,
        Self::WriteVerify,
        Self::Sg2Request,
        Self::Sg2Review,
        Self::Enact,
        Self::Sg3Review,
        Self::Void,
    ];

    /// Stored spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Sweep => "sweep",
            Self::Sg1Review => "sg1_review",
            Self::LegA => "leg_a",
            Self::LegB => "leg_b",
            Self::WriteVerify => "write_verify",
            Self::Sg2Request => "sg2_request",
            Self::Sg2Review => "sg2_review",
            Self::Enact => "enact",
            Self::Sg3Review => "sg3_review",
            Self::Void => "void",
        }
    }

    /// Reads the stored spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|e| e.as_str() == text)
    }
}

impl fmt::Display for EffectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Primary key of an effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectKey {
    /// The run.
    pub run_id: RunId,
    /// Which effect.
    pub effect: EffectName,
    /// 1, 2, …: later occurrences of a gate or stop.
    pub occurrence: u32,
}

/// What the judge said, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All invariants hold: commit.
    Commit,
    /// The failure itself must be recorded: commit the failure's rows.
    CommitFailure,
    /// Leave nothing.
    Rollback,
}

/// A committed effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRecord {
    /// Its key.
    pub key: EffectKey,
    /// The id that the intent chose.
    pub effect_id: Uuid,
    /// The fence under which it was committed.
    pub fence_epoch: i64,
    /// Digest of the request.
    pub payload_sha256: Digest,
    /// `Commit` or `CommitFailure`.
    pub verdict: Verdict,
    /// What was observed inside the transaction.
    pub facts: EffectFacts,
    /// The intent's time, not the server's.
    pub at: Timestamp,
}

/// What every effect carries along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectContext {
    /// The driver's fence.
    pub fence: Fence,
    /// The effect's key.
    pub key: EffectKey,
    /// The id chosen by the intent.
    pub effect_id: Uuid,
    /// Digest of the request's canonical form; the caller computes it.
    pub payload_sha256: Digest,
    /// The intent's time: the only clock value in the rows.
    pub at: Timestamp,
    /// Who acts, by name.
    pub actor: String,
    /// What is left of the cap; the whole call ends by then.
    pub deadline_ms: u64,
    /// What to survey before and after the write.
    pub survey: SurveyScope,
}

/// An effect of the executor.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutorEffect {
    /// MARK.
    Mark(MarkWrite),
    /// Sweep promotion.
    Sweep(SweepWrite),
    /// Leg A.
    LegA(LegAWrite),
    /// Leg B.
    LegB(LegBWrite),
    /// The request at SG_2.
    Sg2Request(Sg2RequestWrite),
    /// Enactment.
    Enact(EnactWrite),
    /// Void.
    Void(VoidWrite),
}

/// MARK (∅ → S0).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkWrite {
    /// The entry's id.
    pub entry_id: Uuid,
    /// Id of its first history row.
    pub history_id: Uuid,
    /// The document's row.
    pub source_document_id: Uuid,
    /// The version's row.
    pub source_version_id: Uuid,
    /// IK-MARK, unique among live entries.
    pub idempotency_key: Digest,
    /// sha256 of the marked region.
    pub region_sha: Digest,
    /// Manifest digest.
    pub manifest_digest: Digest,
    /// How many candidates.
    pub candidate_count: u64,
    /// Entries that must be verified before this one is cut (G-CUT-DEPS, D30).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Uuid>,
}

/// Sweep promotion (S0 → S1), with its log row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepWrite {
    /// The entry to promote.
    pub entry_id: Uuid,
    /// Id of the sweep_log row.
    pub sweep_id: Uuid,
    /// Id of the history row.
    pub history_id: Uuid,
}

/// What a human decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    /// Go on.
    Approve,
    /// Not now.
    Defer,
    /// No.
    Reject,
}

impl ReviewVerdict {
    /// Stored spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Defer => "defer",
            Self::Reject => "reject",
        }
    }

    /// Whether it is an approval.
    #[must_use]
    pub fn allows(self) -> bool {
        self == Self::Approve
    }
}

impl core::fmt::Display for ReviewVerdict {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A stored decision: SG_1 (with S1 → S2, S3 or S4), SG_2 or SG_3. For SG_1 and SG_3 it
/// inserts the `review_decision` row too; for SG_2 the request row is there already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewWrite {
    /// Id of the approval row.
    pub approval_id: Uuid,
    /// Id of the review_decision row (new for SG_1 and SG_3, existing for SG_2).
    pub review_decision_id: Uuid,
    /// `cut_authorization`, `lifecycle_enactment`, `stop_resume`, `drift_ack` or `void`.
    pub decision_type: String,
    /// What was decided.
    pub decision: ReviewVerdict,
    /// The backlog entry, where the run has one.
    pub entry_id: Option<Uuid>,
    /// Id of the history row, where the entry's status moves: at SG_1, at SG_3 back (S2 → S3).
    pub history_id: Option<Uuid>,
    /// The change set, once there is one.
    pub change_set_id: Option<Uuid>,
    /// Path of the approval in the knowledge base.
    pub approval_kb_id: String,
    /// The approval document, byte for byte.
    pub document: String,
    /// Its sha256, UNIQUE: an approval is used once.
    pub sha256: Digest,
    /// The request's nonce, UNIQUE.
    pub nonce: String,
    /// Fingerprint of the signer's primary key.
    pub fingerprint: String,
    /// The approver, by name.
    pub actor: String,
    /// When the approval ends, if it does.
    pub expires: Option<Timestamp>,
    /// sha256 of the request that it answers.
    pub request_sha256: Digest,
}

/// A signature to store (`dot_pair_signature`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureWrite {
    /// Row id.
    pub signature_id: Uuid,
    /// `executor` or `verifier`.
    pub duty: String,
    /// The canonical payload, as text.
    pub payload: String,
    /// Ed25519 public key, hex.
    pub public_key: String,
    /// Ed25519 signature over `payload`, hex.
    pub signature: String,
}

/// One unit to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitWrite {
    /// Row id of the unit.
    pub unit_id: Uuid,
    /// Row id of its first version.
    pub version_id: Uuid,
    /// Row id of its anchor.
    pub anchor_id: Uuid,
    /// Place in document order, from 0.
    pub ordinal: u64,
    /// Full address.
    pub canonical_address: String,
    /// Citation address, where unique.
    pub citation_address: Option<String>,
    /// From the vocabulary.
    pub unit_kind: String,
    /// From the vocabulary.
    pub section_type: String,
    /// Byte offsets into the source version.
    pub start: u64,
    /// Exclusive.
    pub end: u64,
    /// The bytes.
    pub content: Vec<u8>,
    /// sha256 of `content`.
    pub content_hash: Digest,
    /// sha256 of the bytes after the designator.
    pub body_hash: Digest,
    /// The unit's key.
    pub idempotency_key: Digest,
}

/// Leg A. The first write is the change_set row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegAWrite {
    /// The change set.
    pub change_set_id: Uuid,
    /// UNIQUE among live change sets: the writer digest with the entry and decision.
    pub idempotency_key: Digest,
    /// The backlog entry, at S2.
    pub entry_id: Uuid,
    /// History ids of S2 → S5 and S5 → S6.
    pub history_ids: [Uuid; 2],
    /// The document's row.
    pub source_document_id: Uuid,
    /// The version's row.
    pub source_version_id: Uuid,
    /// The approval that this relies on: used here, once.
    pub approval_id: Uuid,
    /// The decision that it belongs to.
    pub review_decision_id: Uuid,
    /// Pins, stored with the change set.
    pub writer_digest: Digest,
    /// Manifest digest.
    pub manifest_digest: Digest,
    /// Region digest.
    pub region_sha: Digest,
    /// The publication type, from the vocabulary.
    pub publication_type: String,
    /// The executor's signature.
    pub signature: SignatureWrite,
    /// The units, in document order.
    pub units: Vec<UnitWrite>,
}

/// Leg B: the governance record of the cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegBWrite {
    /// The envelope's id.
    pub manifest_envelope_id: Uuid,
    /// The change set.
    pub change_set_id: Uuid,
    /// The backlog entry.
    pub entry_id: Uuid,
    /// Leg A's signature.
    pub executor_signature_id: Uuid,
    /// The envelope, canonical JSON.
    pub envelope: String,
    /// How many units it covers.
    pub unit_count: u64,
}

/// Write-verify. Which of the two signatures is stored follows the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteVerifyWrite {
    /// The result's id.
    pub verify_result_id: Uuid,
    /// The change set.
    pub change_set_id: Uuid,
    /// The envelope.
    pub manifest_envelope_id: Uuid,
    /// The backlog entry, at S6.
    pub entry_id: Uuid,
    /// History ids of S6 → S7 and S7 → S8 or S9.
    pub history_ids: [Uuid; 2],
    /// Stored if the verdict is `Commit`.
    pub signature_pass: SignatureWrite,
    /// Stored if the verdict is `CommitFailure`.
    pub signature_fail: SignatureWrite,
    /// The compensating change set, if it fails.
    pub compensating_id: Uuid,
    /// The escalation entry (S0), if it fails, and its first history row.
    pub escalation: [Uuid; 2],
    /// The document, for the recount.
    pub document_id: String,
    /// Forbidden address prefixes, for the recount.
    pub forbidden_prefixes: Vec<String>,
}

/// The request row at SG_2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sg2RequestWrite {
    /// New, one per run and occurrence; refused if any run used it.
    pub review_decision_id: Uuid,
    /// The backlog entry.
    pub entry_id: Uuid,
    /// The change set.
    pub change_set_id: Uuid,
    /// Who is expected to sign.
    pub expected_actor: String,
    /// How many units would be enacted.
    pub unit_count: u64,
    /// Digest of the unit set.
    pub unit_set_digest: Digest,
    /// The nonce of the request.
    pub nonce: String,
    /// sha256 of the request document.
    pub request_sha256: Digest,
}

/// Enactment of all units of a change set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnactWrite {
    /// The change set.
    pub change_set_id: Uuid,
    /// The SG_2 request row.
    pub review_decision_id: Uuid,
    /// The approval that this relies on: used here, once.
    pub approval_id: Uuid,
    /// How many units must become `enacted`.
    pub unit_count: u64,
}

/// Void (D10): rows are marked, never deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoidWrite {
    /// Id of the `change_set_void` row.
    pub void_id: Uuid,
    /// The change set, if leg A made one.
    pub change_set_id: Option<Uuid>,
    /// The backlog entry, which is abandoned (S10), and its history row.
    pub entry: Option<[Uuid; 2]>,
    /// The SG_3 approval that this relies on.
    pub approval_id: Uuid,
    /// Why, in words of the approval.
    pub reason: String,
}

/// What was observed inside the transaction, by effect. Kept in `run_effect.facts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectFacts {
    /// Live values after the locks, before the write.
    pub survey_before: Survey,
    /// Live values after the write, functions included.
    pub survey_after: Survey,
    /// The login that the database saw (`session_user`).
    pub principal: String,
    /// Counts and texts by name ([`fact`]). Absent means not observed: a gate that needs it fails.
    pub values: BTreeMap<String, String>,
    /// Structural counts, for write-verify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structural: Option<crate::record::observed::StructuralFacts>,
}

/// Names in [`EffectFacts::values`]. Numbers are decimal.
pub mod fact {
    /// Status of the backlog entry after the write (`marked`, `review_pending`, …).
    pub const ENTRY_STATUS: &str = "entry_status";
    /// Leg A: `fn_iu_create` calls that returned a unit.
    pub const CREATED: &str = "created";
    /// Leg A: units of the change set that are not `draft`.
    pub const NON_DRAFT: &str = "non_draft";
    /// Leg A: writer digest recomputed from the stored rows (hex).
    pub const WRITER_DIGEST: &str = "writer_digest";
    /// Leg A: the base state recomputed under the lock, less this run's own rows (hex).
    pub const BASE_STATE: &str = "base_state";
    /// Leg A, enact, void: approval is unused but for this effect (`true`/`false`).
    pub const APPROVAL_USED_HERE: &str = "approval_used_here";
    /// Leg A, enact: the decision on the approval's review_decision is `approve`.
    pub const APPROVAL_DECISION: &str = "approval_decision";
    /// Leg A, enact: digest of the grant probe, judged again inside (hex).
    pub const GRANTS: &str = "grants";
    /// Leg A, write-verify, enact: rows digest recomputed from the stored rows (hex).
    pub const ROWS_DIGEST: &str = "rows_digest";
    /// Leg B: rows in manifest_envelope.
    pub const ENVELOPES: &str = "envelopes";
    /// Leg B: rows in cut_change_set for the change set.
    pub const CHANGE_SETS: &str = "change_sets";
    /// Leg B: `true` if the executor signature exists and belongs to the change set.
    pub const EXECUTOR_SIGNATURE: &str = "executor_signature";
    /// Leg B: other live change sets with an anchor over these spans in this version.
    pub const LANE_OVERLAPS: &str = "lane_overlaps";
    /// Write-verify: verify results of the change set after the write.
    pub const VERIFY_RESULTS: &str = "verify_results";
    /// Write-verify: the login that wrote the executor's signature.
    pub const EXECUTOR_PRINCIPAL: &str = "executor_principal";
    /// SG_2: earlier rows or runs with this review_decision_id.
    pub const DECISION_REUSED: &str = "decision_reused";
    /// SG_2, enact: type of the request row.
    pub const DECISION_TYPE: &str = "decision_type";
    /// SG_2, enact: actor that the request row expects.
    pub const EXPECTED_ACTOR: &str = "expected_actor";
    /// Enact: the actor that the stored approval carries.
    pub const APPROVAL_ACTOR: &str = "approval_actor";
    /// Enact: `fn_iu_enact` calls that returned `enacted`.
    pub const ENACTED: &str = "enacted";
    /// Enact: units of the change set that are not `enacted` afterwards.
    pub const NOT_ENACTED: &str = "not_enacted";
    /// Enact, void: rows in iu_lifecycle_log for the change set with the new status.
    pub const LOG_ROWS: &str = "log_rows";
    /// Enact: `tgenabled` of trg_iu_enacted_immut.
    pub const TRIGGER_IU: &str = "trg_iu_enacted_immut";
    /// Enact: `tgenabled` of trg_uv_enacted_immut.
    pub const TRIGGER_UV: &str = "trg_uv_enacted_immut";
    /// Enact: `session_replication_role`.
    pub const REPLICATION_ROLE: &str = "session_replication_role";
    /// Enact: unit-set digest recomputed from the stored rows (hex).
    pub const UNIT_SET: &str = "unit_set_digest";
    /// Void: units that became `voided`.
    pub const VOIDED: &str = "voided";
    /// Void: enacted units of the change set (must be 0).
    pub const ENACTED_UNITS: &str = "enacted_units";
}
