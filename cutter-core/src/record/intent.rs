//! Intents: what a phase is about to do, durable before it does it.
//!
//! Every identifier, date and nonce that a phase will use is chosen once, written with
//! the sidecar, and only read afterwards. A redo therefore writes the same rows and the
//! same documents, and a lost answer can be asked for by the identifier (D8, PROTOCOL §1).

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::effect::EffectName;

/// What the next phase, gate or decision will use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// When it was chosen; the only clock value in the rows that it leads to.
    pub at: Timestamp,
    /// UTC date of `at` as `YYYY-MM-DD`: the `<date>` of its document (D16).
    pub date: String,
    /// Identifiers by name.
    #[serde(default)]
    pub ids: BTreeMap<String, Uuid>,
    /// Phase or gate, by its stored name.
    pub name: String,
    /// The nonce of a request or stop, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// 1, 2, …: later occurrences of a gate or of a decision.
    pub occurrence: u32,
}

/// An identifier that an intent chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdName {
    /// An effect's row.
    Effect(EffectName),
    /// The row of an approval or a refusal.
    Approval,
    /// The change set that leg A makes.
    ChangeSet,
    /// The change set that would take a failed one back.
    Compensating,
    /// The entry's move to the cut in progress.
    CutHistory1,
    /// Its move to the cut applied.
    CutHistory2,
    /// The entry of the governance backlog.
    Entry,
    /// Its first line of history.
    EntryHistory,
    /// The entry that escalates a failed verification.
    Escalation,
    /// Its first line of history.
    EscalationHistory,
    /// The executor's signature.
    ExecutorSignature,
    /// The manifest's row.
    ManifestEnvelope,
    /// The sovereign's decision.
    ReviewDecision,
    /// The entry's move by it.
    ReviewHistory,
    /// The verifier's signature of a verdict that failed.
    SignatureFail,
    /// The verifier's signature of one that passed.
    SignaturePass,
    /// The sweep pass.
    Sweep,
    /// The entry's move by it.
    SweepHistory,
    /// The entry's move to the verification in progress.
    VerifyHistory1,
    /// Its move by the verdict.
    VerifyHistory2,
    /// The verifier's result.
    VerifyResult,
    /// The void.
    Void,
    /// The entry's move by it.
    VoidHistory,
}

impl IdName {
    /// As it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Effect(EffectName::Mark) => "effect.mark",
            Self::Effect(EffectName::Sweep) => "effect.sweep",
            Self::Effect(EffectName::Sg1Review) => "effect.sg1_review",
            Self::Effect(EffectName::LegA) => "effect.leg_a",
            Self::Effect(EffectName::LegB) => "effect.leg_b",
            Self::Effect(EffectName::WriteVerify) => "effect.write_verify",
            Self::Effect(EffectName::Sg2Request) => "effect.sg2_request",
            Self::Effect(EffectName::Sg2Review) => "effect.sg2_review",
            Self::Effect(EffectName::Enact) => "effect.enact",
            Self::Effect(EffectName::Sg3Review) => "effect.sg3_review",
            Self::Effect(EffectName::Void) => "effect.void",
            Self::Approval => "approval",
            Self::ChangeSet => "change_set",
            Self::Compensating => "compensating",
            Self::CutHistory1 => "cut_history_1",
            Self::CutHistory2 => "cut_history_2",
            Self::Entry => "entry",
            Self::EntryHistory => "entry_history",
            Self::Escalation => "escalation",
            Self::EscalationHistory => "escalation_history",
            Self::ExecutorSignature => "executor_signature",
            Self::ManifestEnvelope => "manifest_envelope",
            Self::ReviewDecision => "review_decision",
            Self::ReviewHistory => "review_history",
            Self::SignatureFail => "signature_fail",
            Self::SignaturePass => "signature_pass",
            Self::Sweep => "sweep",
            Self::SweepHistory => "sweep_history",
            Self::VerifyHistory1 => "verify_history_1",
            Self::VerifyHistory2 => "verify_history_2",
            Self::VerifyResult => "verify_result",
            Self::Void => "void",
            Self::VoidHistory => "void_history",
        }
    }

    /// Its identifier among those that were chosen.
    #[must_use]
    pub fn among(self, ids: &BTreeMap<String, Uuid>) -> Option<Uuid> {
        ids.get(self.as_str()).copied()
    }
}

/// An identifier that an intent should hold is not there: the record is damaged or was
/// written by a version that did not know the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the intent of {intent} holds no id {name:?}")]
pub struct MissingId {
    /// The intent's name.
    pub intent: String,
    /// The id's name.
    pub name: &'static str,
}

impl Intent {
    /// An identifier that was chosen.
    ///
    /// # Errors
    /// [`MissingId`] if the intent does not hold it.
    pub fn id(&self, name: IdName) -> Result<Uuid, MissingId> {
        let missing = || MissingId { intent: self.name.clone(), name: name.as_str() };
        name.among(&self.ids).ok_or_else(missing)
    }
}

/// The UTC date of an instant as `YYYY-MM-DD`.
#[must_use]
pub fn date_of(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_utc() {
        let at: Timestamp = "2026-03-31T23:59:59Z".parse().unwrap();
        assert_eq!(date_of(at), "2026-03-31");
    }
}
