//! The governance backlog (spec 3) as facts and verdicts: what stands of an entry, what is asked
//! of it, whether that may be, and how its state follows from its records.
//!
//! - [`Entry`] is everything that is stored about one entry, as read under its lock.
//! - [`Operation`] is what somebody asks for; [`judge`] answers with the moves to write, with
//!   what stands already (every operation is idempotent, §5), or with a refusal.
//! - [`replay()`] rebuilds the state from history and signatures alone, and [`audit()`]
//!   compares it, and every artefact that a move needs, with what is stored.
//!
//! Nothing here reads or writes: the database enforces the same rules on its own, and tests hold
//! the two together.

mod audit;
mod judge;
#[cfg(test)]
mod model;
mod replay;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use uuid::Uuid;

pub use self::audit::{AUDIT_RULES, AuditReport, audit};
pub use self::judge::{Judgement, Mark, Move, Operation, RULES, Refusal, judge, judge_mark};
pub use self::replay::{ReplayError, replay, timeline};
use crate::base::digest::Digest;
use crate::machine::backlog::BacklogState;
use crate::record::effect::ReviewVerdict;

/// A rule of the backlog as data, for pages and for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Stable id, as a [`crate::record::check::Check`] names it: `G-CUT-DEPS`, `review.consent`.
    pub id: &'static str,
    /// What must hold, in one sentence.
    pub what: &'static str,
    /// Where the requirement stands.
    pub clause: &'static str,
}

/// Everything stored about one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `decision_backlog_entry.entry_id`.
    pub entry_id: Uuid,
    /// The one mutable scalar.
    pub status: BacklogState,
    /// IK-MARK.
    pub idempotency_key: Digest,
    /// The manifest that is under review; never changes.
    pub manifest_digest: Digest,
    /// The failed entry whose escalation this one is (D11).
    pub escalates: Option<Uuid>,
    /// What the manifest depends on (D30), with how each stands.
    pub depends_on: Vec<Dependency>,
    /// `decision_backlog_history`, in any order.
    pub history: Vec<HistoryRow>,
    /// Sweep passes that promoted it.
    pub promotions: usize,
    /// `review_decision` rows about the review of this entry, oldest first.
    pub decisions: Vec<Decision>,
    /// How many `review_decision` rows about a stop of its run name the entry: they may defer it.
    pub stop_answers: usize,
    /// Its change sets of kind `cut`.
    pub change_sets: Vec<ChangeSet>,
    /// The executor's and the verifier's signatures over its change sets.
    pub signatures: Vec<Signature>,
}

impl Entry {
    /// The decision that is the current one: a later one supersedes it.
    #[must_use]
    pub fn current_decision(&self) -> Option<&Decision> {
        self.decisions.last()
    }

    /// The change set with this id.
    #[must_use]
    pub fn change_set(&self, id: Uuid) -> Option<&ChangeSet> {
        self.change_sets.iter().find(|set| set.change_set_id == id)
    }

    /// The signature of a duty over a change set.
    #[must_use]
    pub fn signature(&self, change_set_id: Uuid, duty: Duty) -> Option<&Signature> {
        self.signatures.iter().find(|s| s.change_set_id == change_set_id && s.duty == duty)
    }
}

/// An entry of the manifest's `depends_on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// Which entry.
    pub entry_id: Uuid,
    /// Its status; `None` if there is no such entry.
    pub status: Option<BacklogState>,
}

/// One row of `decision_backlog_history`, without the free text of its detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    /// `history_id`.
    pub history_id: Uuid,
    /// `from_state`; `None` for MARK.
    pub from_state: Option<BacklogState>,
    /// `to_state`.
    pub to_state: BacklogState,
    /// Who asked.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When, by the intent's clock: rows of one transaction share it.
    pub at: Timestamp,
    /// The change set that the move is about.
    pub change_set_id: Option<Uuid>,
}

/// One `review_decision` about an entry's review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// `review_decision.id`.
    pub id: Uuid,
    /// What was decided.
    pub verdict: ReviewVerdict,
    /// Whether the human's own signed answer is stored with it and says the same.
    pub has_consent: bool,
}

/// One cut of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// `cut_change_set.change_set_id`.
    pub change_set_id: Uuid,
    /// The approving decision that it relies on.
    pub review_decision_id: Uuid,
    /// Not voided.
    pub is_live: bool,
    /// Its envelope, once leg B recorded it.
    pub envelope_id: Option<Uuid>,
    /// Its verdict, once there is one.
    pub verdict: Option<VerifyResult>,
}

/// One `verify_result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyResult {
    /// `verify_result.id`.
    pub id: Uuid,
    /// Every check passed.
    pub has_passed: bool,
    /// The compensating set of a failure.
    pub compensating_id: Option<Uuid>,
    /// The escalation entry of a failure.
    pub escalation_entry_id: Option<Uuid>,
}

/// Whose signature it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Who cut.
    Executor,
    /// Who verified.
    Verifier,
}

/// One `dot_pair_signature`, without payload and bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// `signature_id`.
    pub signature_id: Uuid,
    /// What was signed.
    pub change_set_id: Uuid,
    /// Whose duty it was.
    pub duty: Duty,
    /// The login that stored it.
    pub principal: String,
}
