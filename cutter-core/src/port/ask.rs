//! Asks and answers as rows of their own, beside the effects of a run.
//!
//! An ask of SG_1 or SG_2 is stored before the run parks. It closes when the effect that its answer
//! allows commits, with the first refusal, or when the same gate asks anew. Every valid answer is stored; one that is stored while
//! the ask is open and refuses stands in the way of whatever would rely on an approval of it, whoever
//! asks. One that comes later is kept as late.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::effect::ReviewVerdict;
use crate::approval::Ask;
use crate::digest::Digest;

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
}

/// A valid answer to store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerWrite {
    /// The gate that asked.
    pub gate: String,
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
