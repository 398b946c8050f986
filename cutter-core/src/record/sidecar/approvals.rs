//! What a record keeps of answers: those that were accepted, and what was looked at and was not.

use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::effect::ReviewVerdict;

/// A validated approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// `SG_cut_authz`, `SG_lifecycle_authz` or `SG_failure_escalation`.
    pub gate: GateId,
    /// When the request was made.
    pub requested_utc: Timestamp,
    /// Path of the approval.
    pub approval_kb_id: String,
    /// For SG_2 and, ours, for every decision stored in the database.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub review_decision_id: Option<Uuid>,
    /// When it was found valid.
    pub validated_utc: Timestamp,
    /// sha256 of the document as validated: a later edit stops the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<Digest>,
    /// Who signed.
    #[serde(default)]
    pub actor: String,
    /// Fingerprint of the signer's primary key; empty for an unsigned one under policy `optional`.
    #[serde(default)]
    pub fingerprint: String,
    /// `approve`, `defer` or `reject`.
    #[serde(default = "approve")]
    pub decision: ReviewVerdict,
    /// Which occurrence of the gate it answered.
    #[serde(default = "one")]
    pub occurrence: u32,
    /// When it ends, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_utc: Option<Timestamp>,
    /// sha256 of the request that it answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_sha256: Option<Digest>,
    /// The nonce that it answered.
    #[serde(default)]
    pub nonce: String,
    /// Who else approved, where several people must.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub beside: Vec<AlsoApproved>,
}

impl ApprovalRecord {
    /// This answer, and each that was given beside it, in order.
    pub fn each(&self) -> impl Iterator<Item = Self> + use<'_> {
        let beside = self.beside.iter().map(|also| Self {
            actor: also.actor.clone(),
            fingerprint: also.fingerprint.clone(),
            approval_kb_id: also.approval_kb_id.clone(),
            sha256: Some(also.sha256),
            beside: Vec::new(),
            ..self.clone()
        });
        core::iter::once(self.clone()).chain(beside)
    }

    /// As one that was given beside another.
    #[must_use]
    pub fn as_beside(&self) -> Option<AlsoApproved> {
        Some(AlsoApproved {
            actor: self.actor.clone(),
            fingerprint: self.fingerprint.clone(),
            approval_kb_id: self.approval_kb_id.clone(),
            sha256: self.sha256?,
        })
    }

    /// Who signed it, by name; `None` of an unsigned one.
    #[must_use]
    pub fn signer(&self) -> Option<&str> {
        (!self.fingerprint.is_empty()).then_some(self.actor.as_str())
    }
}

/// An approval beside the one that a consent was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlsoApproved {
    /// Who signed.
    pub actor: String,
    /// Fingerprint of the signer's primary key; empty for an unsigned one under policy `optional`.
    #[serde(default)]
    pub fingerprint: String,
    /// Path of the approval.
    pub approval_kb_id: String,
    /// sha256 of the document as validated.
    pub sha256: Digest,
}

const fn approve() -> ReviewVerdict {
    ReviewVerdict::Approve
}
const fn one() -> u32 {
    1
}

/// An approval document that was looked at and not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Considered {
    /// Its path.
    pub approval_kb_id: String,
    /// sha256 of what was read.
    pub sha256: Digest,
    /// The invariant that it broke first.
    pub invariant: String,
    /// Expected and observed.
    pub detail: String,
}
