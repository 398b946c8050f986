//! A customer's cut request (spec 5) as facts and verdicts: what stands of it, what is asked of
//! it, whether that may be, and how it follows the run that cuts for it.
//!
//! - [`CutRequest`] is the row of `public.cut_request`.
//! - [`Operation`] is what somebody asks for; [`judge`] answers with the moves to write, with what
//!   stands already (every operation is idempotent), or with a refusal.
//! - [`follow`] moves a request one legal edge towards what its run committed; the run's own
//!   transactions call it, so request, backlog entry and run never disagree (DESIGN §2).
//! - [`consistency`] is that agreement as named checks over all three machines.
//!
//! Nothing here reads or writes: the database enforces the same rules on its own, and tests hold
//! the two together.

mod consistency;
mod follow;
mod judge;
mod manifest;
#[cfg(test)]
mod model;
mod next;
mod rebuild;
#[cfg(test)]
mod rebuild_tests;
mod run_text;
#[cfg(test)]
mod tests;

use alloc::string::String;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::consistency::{CONSISTENCY_RULES, Standing, consistency};
pub use self::follow::{RunCommitted, follow};
pub use self::judge::{Judgement, Move, Operation, RULES, judge, judge_add, same_document};
pub use self::manifest::{ManifestFacts, ManifestTextError};
pub use self::next::next_commands;
pub use self::rebuild::rebuilt;
pub use self::run_text::{RunText, same_text, staged_document};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::cut_request::CutRequestStatus;
use crate::machine::spelled;
pub use crate::record::backlog::{Refusal, Rule};

/// What a request asks for where nothing else is said: a document of the knowledge base.
pub const DEFAULT_SOURCE_KIND: &str = "kb_document";

/// The key of `metadata` that holds the whole run id; `cut_run_id` is its UUID part (D33).
pub const METADATA_RUN_ID: &str = "run_id";

/// What the reviewer said of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkVerdict {
    /// It may be cut.
    Approved,
    /// It is to be marked again.
    Rejected,
}

spelled!(MarkVerdict, "mark verdict", {
    Approved => "approved",
    Rejected => "rejected",
});

/// How a cut ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CutVerdict {
    /// Another principal than the executor found it right.
    Verified,
    /// The cut or its verification failed.
    Failed,
}

spelled!(CutVerdict, "cut verdict", {
    Verified => "verified",
    Failed => "failed",
});

/// One row of `public.cut_request`, every column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutRequest {
    /// Row id.
    pub cut_request_id: Uuid,
    /// What is to be cut, as the customer names it.
    pub source_ref: String,
    /// What `source_ref` names; [`DEFAULT_SOURCE_KIND`] unless told.
    pub source_kind: String,
    /// Who asked.
    pub requested_by: String,
    /// When.
    pub requested_at: Timestamp,
    /// Where it stands.
    pub status: CutRequestStatus,
    /// Where the bytes came from: a path of the client's, or a name in the server's folder.
    pub source_path: Option<String>,
    /// sha256 of the staged copy.
    pub source_hash: Option<Digest>,
    /// Its length in bytes.
    pub source_bytes: Option<u64>,
    /// Staging record of the copy.
    pub copy_staging_record_id: Option<Uuid>,
    /// When it was copied.
    pub copied_at: Option<Timestamp>,
    /// Staging record of the newest mark.
    pub manifest_staging_record_id: Option<Uuid>,
    /// The manifest digest of the newest mark.
    pub manifest_digest: Option<Digest>,
    /// When it was marked, the last time.
    pub marked_at: Option<Timestamp>,
    /// When the mark was approved.
    pub mark_verified_at: Option<Timestamp>,
    /// What the reviewer said of the newest mark.
    pub mark_verdict: Option<MarkVerdict>,
    /// The document in which the reviewer said it.
    pub mark_approval_doc_id: Option<String>,
    /// UUID part of the run that cuts for this request (D33).
    pub cut_run_id: Option<Uuid>,
    /// When leg A was committed.
    pub cut_done_at: Option<Timestamp>,
    /// When the verdict on the cut was committed, if it passed.
    pub cut_verified_at: Option<Timestamp>,
    /// How the cut ended.
    pub cut_verdict: Option<CutVerdict>,
    /// When the result was handed over.
    pub completed_at: Option<Timestamp>,
    /// When the staged bytes may go.
    pub cleanup_scheduled_at: Option<Timestamp>,
    /// When they went.
    pub cleaned_at: Option<Timestamp>,
    /// What else is known, [`METADATA_RUN_ID`] among it.
    pub metadata: serde_json::Value,
}

impl CutRequest {
    /// A request as it begins.
    #[must_use]
    pub fn new(
        cut_request_id: Uuid,
        source_ref: String,
        source_kind: String,
        requested_by: String,
        requested_at: Timestamp,
    ) -> Self {
        Self {
            cut_request_id,
            source_ref,
            source_kind,
            requested_by,
            requested_at,
            status: CutRequestStatus::Requested,
            source_path: None,
            source_hash: None,
            source_bytes: None,
            copy_staging_record_id: None,
            copied_at: None,
            manifest_staging_record_id: None,
            manifest_digest: None,
            marked_at: None,
            mark_verified_at: None,
            mark_verdict: None,
            mark_approval_doc_id: None,
            cut_run_id: None,
            cut_done_at: None,
            cut_verified_at: None,
            cut_verdict: None,
            completed_at: None,
            cleanup_scheduled_at: None,
            cleaned_at: None,
            metadata: serde_json::Value::Object(serde_json::Map::new()),
        }
    }

    /// The whole id of the run that cuts for it, once one does.
    #[must_use]
    pub fn run_id(&self) -> Option<RunId> {
        self.metadata.get(METADATA_RUN_ID)?.as_str()?.parse().ok()
    }
}

/// One row of `public.cut_request_transition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Rises from row to row.
    pub transition_id: u64,
    /// Which request.
    pub cut_request_id: Uuid,
    /// From where; `None` for the first.
    pub from_status: Option<CutRequestStatus>,
    /// To where.
    pub to_status: CutRequestStatus,
    /// Who asked.
    pub actor: String,
    /// When, by the clock of whoever asked.
    pub occurred_at: Timestamp,
    /// What it was about: digests, ids, a reason.
    pub detail: serde_json::Value,
}

/// What a signal asks a worker to do. A signal carries ids and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignalName {
    /// A new request: copy its source.
    Copy,
    /// A copy, or a rejected mark: mark it.
    Mark,
    /// A mark: have it reviewed.
    VerifyMark,
    /// An approved mark: start the governed run, and drive it.
    Cut,
    /// A cut: have the run verified.
    VerifyCut,
    /// A completed request: remove the staged bytes when they are due.
    Cleanup,
}

spelled!(SignalName, "signal", {
    Copy => "copy",
    Mark => "mark",
    VerifyMark => "verify_mark",
    Cut => "cut",
    VerifyCut => "verify_cut",
    Cleanup => "cleanup",
});

impl SignalName {
    /// The statuses in which the signal still means something: it is enqueued in these alone, and
    /// is over as soon as its request leaves them.
    #[must_use]
    pub const fn statuses(self) -> &'static [CutRequestStatus] {
        use CutRequestStatus as S;
        match self {
            Self::Copy => &[S::Requested],
            Self::Mark => &[S::Copied, S::MarkRejected],
            Self::VerifyMark => &[S::Marked],
            Self::Cut => &[S::MarkVerified, S::CutInProgress, S::CutDone, S::CutVerified],
            Self::VerifyCut => &[S::CutInProgress, S::CutDone],
            Self::Cleanup => &[S::CleanupScheduled],
        }
    }

    /// The signal that a request which came to this status gives by itself.
    #[must_use]
    pub const fn of(status: CutRequestStatus) -> Option<Self> {
        use CutRequestStatus as S;
        match status {
            S::Requested => Some(Self::Copy),
            S::Copied | S::MarkRejected => Some(Self::Mark),
            S::Marked => Some(Self::VerifyMark),
            S::CleanupScheduled => Some(Self::Cleanup),
            // A cut and its verification are asked for.
            S::MarkInProgress
            | S::MarkVerified
            | S::CutInProgress
            | S::CutDone
            | S::CutVerified
            | S::CutFailed
            | S::Completed
            | S::Cleaned => None,
        }
    }
}
