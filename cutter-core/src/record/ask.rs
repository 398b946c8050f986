//! Asks and answers as rows of their own, beside the effects of a run.
//!
//! An ask of SG_1 or SG_2 is stored before the run parks. It closes when the effect that its answer
//! allows commits, with the first refusal, or when the same gate asks anew. Every valid answer is stored; one that is stored while
//! the ask is open and refuses stands in the way of whatever would rely on an approval of it, whoever
//! asks. One that comes later is kept as late.
//!
//! A host that holds no more than the reviewer's login finds here all that it judges by ([`OpenAsk`],
//! [`RunBegun`]), and carries answers out under the lock of the ask ([`DecisionWrite`]).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::effect::{ReviewVerdict, ReviewWrite};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::key::refusal_id;
use crate::machine::run::GateId;
use crate::record::approval::{Ask, field};
use crate::record::intent::IdName;
use crate::record::signature::SignedText;

/// An ask to store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskWrite {
    /// What is asked: it names run, request, rows and nonce.
    pub ask: Ask,
    /// The identifiers that carrying out the answer will use.
    pub ids: BTreeMap<String, Uuid>,
    /// The head of the policy's chain when this was asked, where there is one.
    pub policy_head: Option<Digest>,
    /// The intent's time.
    pub at: Timestamp,
    /// What the run was begun with; `None` where that was stored with no ask of it yet.
    pub begun: Option<RunBegun>,
}

/// What a run was begun with: enough to compute anew what its asks are about, and to tell who may not
/// answer them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegun {
    /// Its settings, as canonical text: the sha256 of it is what asks name as `settings_sha256`.
    pub settings: String,
    /// Its creation statement, as it was signed.
    pub creation: SignedText,
}

/// An ask on which a decision may still be stored, or was and nothing has relied on it yet: the newest
/// one of its gate, of a run that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAsk {
    /// The run.
    pub run_id: RunId,
    /// The gate that asked.
    pub gate: GateId,
    /// Its occurrence.
    pub occurrence: u32,
    /// When it was stored, by the store's own clock.
    pub recorded_at: Timestamp,
    /// What is decided: a refusal outweighs an approval.
    pub decided: Option<ReviewVerdict>,
    /// The run's own backlog entry, and where it stands.
    pub entry: Option<(Uuid, String)>,
    /// The change set that is asked about, at SG_2.
    pub change_set_id: Option<Uuid>,
    /// Number of the source version that the run cuts.
    pub version_no: Option<i32>,
}

/// A stored answer to carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionWrite {
    /// The gate that asked.
    pub gate: GateId,
    /// Its occurrence.
    pub occurrence: u32,
    /// The answer, by the sha256 of its document.
    pub sha256: Digest,
    /// Digest of the request that a driver would make of it.
    pub payload_sha256: Digest,
    /// Whether that request moves the backlog entry.
    pub moves: bool,
    /// Who acts, by name.
    pub actor: String,
}

impl AskWrite {
    /// The request that stores a decision on this ask: an approval under the ask's own ids, a refusal under
    /// those that follow from them ([`refusal_id`]). `moves` says whether it moves the entry. `None` where
    /// the ask chose no such ids.
    #[must_use]
    pub fn decision(
        &self,
        answer: &AnswerWrite,
        expires: Option<Timestamp>,
        entry_id: Option<Uuid>,
        change_set_id: Option<Uuid>,
        moves: bool,
    ) -> Option<ReviewWrite> {
        let is_cut = self.ask.gate == GateId::CutAuthz;
        let own = |name: IdName| name.among(&self.ids);
        let id = |name: IdName| match answer.decision {
            ReviewVerdict::Approve => own(name),
            _ => own(name).map(refusal_id),
        };
        let required = |name: &str| self.ask.required.get(name);
        Some(ReviewWrite {
            approval_id: id(IdName::Approval)?,
            review_decision_id: if is_cut {
                id(IdName::ReviewDecision)?
            } else {
                own(IdName::ReviewDecision)?
            },
            decision_type: self.ask.approval_type.clone(),
            decision: answer.decision,
            entry_id,
            history_id: if moves { Some(id(IdName::ReviewHistory)?) } else { None },
            change_set_id,
            approval_kb_id: answer.approval_kb_id.clone(),
            document: answer.document.clone(),
            sha256: answer.sha256(),
            nonce: required(field::NONCE)?.clone(),
            fingerprint: answer.fingerprint.clone(),
            actor: answer.actor.clone(),
            expires,
            request_sha256: required(field::REQUEST_SHA256)?.parse().ok()?,
        })
    }
}

/// A valid answer to store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerWrite {
    /// The gate that asked.
    pub gate: GateId,
    /// Its occurrence.
    pub occurrence: u32,
    /// What it decides.
    pub decision: ReviewVerdict,
    /// Where it stands in the knowledge base.
    pub approval_kb_id: String,
    /// The signed document, byte for byte.
    pub document: String,
    /// Fingerprint of the signer's primary key; empty where none signed.
    pub fingerprint: String,
    /// The signer, by name.
    pub actor: String,
}

impl AnswerWrite {
    /// sha256 of the document: what an answer is known by.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        Digest::of(self.document.as_bytes())
    }
}

/// A stored ask with the answers to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAsk {
    /// What was asked.
    pub asked: AskWrite,
    /// Whether its answer was carried out, it was refused, or it was asked anew.
    pub closed: bool,
    /// The answers, in the order in which they were stored.
    pub answers: Vec<StoredAnswer>,
}

impl StoredAsk {
    /// The refusal that was stored while this was open, if there was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&AnswerWrite> {
        let mut open = self.answers.iter().filter(|a| !a.late).map(|a| &a.answer);
        open.find(|answer| answer.decision != ReviewVerdict::Approve)
    }
}

/// A stored answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// The answer.
    pub answer: AnswerWrite,
    /// It was stored when its ask had closed: it decides nothing.
    pub late: bool,
    /// When it was stored, by the store's own clock.
    pub recorded_at: Option<Timestamp>,
}
