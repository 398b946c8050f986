//! What may be asked of a request, and the answer.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use jiff::Timestamp;
use uuid::Uuid;

use super::{CutRequest, ManifestFacts, MarkVerdict, Refusal, Rule, RunCommitted, SignalName, follow};
use crate::base::digest::Digest;
use crate::base::limits::MAX_DOCUMENT_BYTES;
use crate::machine::IllegalTransition;
use crate::machine::cut_request::{CUT_REQUEST, CutRequestStatus as S, CutRequestTrigger as T};
use crate::record::check::{ABSENT, Check};
use crate::record::effect::EffectName;

const fn rule(id: &'static str, what: &'static str, clause: &'static str) -> Rule {
    Rule { id, what, clause }
}

/// Every rule that [`judge`] and [`judge_add`] may refuse by.
pub static RULES: &[Rule] = &[
    rule("add.source_ref", "a request names what is to be cut, and who asks", "spec 5 DDL"),
    rule("add.same_request", "a request's id stands for one source and one customer", "spec 5"),
    rule("copy.source_hash", "the bytes hash to the sha256 that the sender named", "PROTOCOL §6"),
    rule("copy.size", "the copy is no larger than a document may be", "PROTOCOL §6"),
    rule("mark.source_hash", "the manifest is of the staged copy: same sha256, same length", "spec 5 MARK"),
    rule(
        "mark.partition",
        "the manifest's units partition its region, which lies in the copy",
        "spec 5 MARK",
    ),
    rule("mark.manifest_digest", "the digest named is the manifest's own, 64 hex digits", "spec 5 MARK"),
    rule(
        "verify_mark.approval_doc",
        "an approval names the document in which it was given",
        "spec 5 VERIFY_MARK",
    ),
    rule(
        "verify_mark.same_document",
        "an approval that is given again names the same document",
        "spec 4 AG-EXE-01 5",
    ),
    rule("verify_mark.reason", "a rejection says why", "spec 5 VERIFY_MARK"),
    rule("cut.mark_verified", "what is cut was copied, marked and approved", "spec 5 CUT, D35"),
    rule("cut.run_free", "a run cuts for one request", "DESIGN §2"),
    rule("complete.enacted", "the run enacted what it cut", "spec 5 COMPLETE, D35"),
    rule("cleanup.due", "the day on which the staged bytes go has come", "spec 5 COMPLETE"),
];

/// What somebody asks of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// COPY: these bytes are the source.
    Copy {
        /// sha256 as the sender names it.
        expected: Digest,
        /// sha256 of the bytes that arrived.
        observed: Digest,
        /// How many arrived.
        bytes: u64,
    },
    /// MARK, the first time or again after a rejection.
    Mark {
        /// What the manifest says.
        manifest: ManifestFacts,
        /// The digest that the caller names.
        manifest_digest: Digest,
    },
    /// VERIFY_MARK: the reviewer's word on the mark.
    VerifyMark {
        /// Approve or reject.
        verdict: MarkVerdict,
        /// The document in which it was said.
        approval_doc_id: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// Somebody asks for the cut: the signal goes out, nothing moves (D35).
    AskCut,
    /// Somebody asks for the verification of the cut: as [`Operation::AskCut`].
    AskVerifyCut,
    /// CUT: a governed run begins for this request.
    CutStart {
        /// UUID part of its id.
        cut_run_id: Uuid,
        /// No other request names this run.
        is_free: bool,
    },
    /// The run committed something, or ended.
    Follow {
        /// The effect inside whose transaction this is asked: leg A and write-verify must move
        /// the request, or not be committed. `None` outside of one.
        within: Option<EffectName>,
        /// What the run has committed.
        run: RunCommitted,
    },
    /// COMPLETE: handed over; the cleanup gets its date.
    Complete {
        /// The run's enactment is committed.
        is_enacted: bool,
    },
    /// CLEANUP: the staged bytes go.
    Clean {
        /// The clock of whoever asks.
        now: Timestamp,
    },
}

/// One move to write, with its transition row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// What happened.
    pub trigger: T,
    /// Compare with this,
    pub from: S,
    /// set this.
    pub to: S,
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Write these moves in one transaction, with the operation's own columns and signal.
    Apply(Vec<Move>),
    /// It stands already, or there is nothing to do: write nothing.
    Replay,
    /// No.
    Refused(Refusal),
}

/// ADD: a request with this id is the answer already, if it asks for the same.
#[must_use]
pub fn judge_add(standing: Option<&CutRequest>, new: &CutRequest) -> Judgement {
    if let Some(standing) = standing {
        fn asked(r: &CutRequest) -> (&str, &str, &str) {
            (&r.source_ref, &r.source_kind, &r.requested_by)
        }
        if asked(standing) == asked(new) {
            return Judgement::Replay;
        }
        let text =
            |r: &CutRequest| alloc::format!("{} {} by {}", r.source_kind, r.source_ref, r.requested_by);
        return refused(vec![Check::new("add.same_request", text(standing), text(new), false)]);
    }
    let is_named =
        [&new.source_ref, &new.source_kind, &new.requested_by].iter().all(|t| !t.trim().is_empty());
    if is_named { Judgement::Apply(Vec::new()) } else { refused(vec![Check::truth("add.source_ref", false)]) }
}

/// Whether an operation may be performed on a request as it stands.
///
/// What stands already is no error: each operation may be asked for again at any time. A move
/// that the table does not have is refused before any rule is looked at, with the same message as
/// the database gives.
#[must_use]
pub fn judge(request: &CutRequest, operation: &Operation) -> Judgement {
    match operation {
        Operation::Copy { expected, observed, bytes } => copy(request, expected, observed, *bytes),
        Operation::Mark { manifest, manifest_digest } => mark(request, manifest, manifest_digest),
        Operation::VerifyMark { verdict, approval_doc_id, reason } => {
            verify_mark(request, *verdict, approval_doc_id.as_deref(), reason.as_deref())
        }
        Operation::AskCut => ask_cut(request),
        Operation::AskVerifyCut => ask_verify_cut(request),
        Operation::CutStart { cut_run_id, is_free } => cut_start(request, *cut_run_id, *is_free),
        Operation::Follow { within, run } => after_run(request, *within, run),
        Operation::Complete { is_enacted } => complete(request, *is_enacted),
        Operation::Clean { now } => clean(request, *now),
    }
}

fn refused(checks: Vec<Check>) -> Judgement {
    Judgement::Refused(Refusal::Rules(checks))
}

/// The refusal by target instead of trigger, as the database words it: every trigger of this table
/// leads to one status.
fn named(illegal: IllegalTransition, from: S, trigger: T) -> IllegalTransition {
    let target = CUT_REQUEST.rows().iter().find(|row| row.trigger == trigger).map(|row| row.to);
    target.and_then(|to| CUT_REQUEST.check(from, to).err()).unwrap_or(illegal)
}

/// The moves of these triggers one after the other, unless the table or a rule says no.
fn moves(status: S, triggers: &[T], rules: impl FnOnce() -> Vec<Check>) -> Judgement {
    let (mut from, mut out) = (status, Vec::new());
    for &trigger in triggers {
        match CUT_REQUEST.step(from, trigger) {
            Ok(to) => {
                out.push(Move { trigger, from, to });
                from = to;
            }
            Err(illegal) => return Judgement::Refused(Refusal::Illegal(named(illegal, from, trigger))),
        }
    }
    let failed: Vec<Check> = rules().into_iter().filter(|check| !check.ok).collect();
    if failed.is_empty() { Judgement::Apply(out) } else { refused(failed) }
}

fn copy(request: &CutRequest, expected: &Digest, observed: &Digest, bytes: u64) -> Judgement {
    if request.source_hash == Some(*expected) && observed == expected {
        return Judgement::Replay;
    }
    moves(request.status, &[T::Copy], || {
        vec![
            Check::within("copy.size", 0, MAX_DOCUMENT_BYTES, bytes),
            Check::equal("copy.source_hash", expected, observed),
        ]
    })
}

fn mark(request: &CutRequest, manifest: &ManifestFacts, manifest_digest: &Digest) -> Judgement {
    let is_to_be_marked = matches!(request.status, S::Copied | S::MarkInProgress | S::MarkRejected);
    if !is_to_be_marked && request.manifest_digest == Some(*manifest_digest) {
        return Judgement::Replay;
    }
    moves(request.status, &[T::MarkStart, T::MarkDone], || {
        let source = |hash: &str, bytes: u64| alloc::format!("{hash}, {bytes} bytes");
        let copied = match (request.source_hash, request.source_bytes) {
            (Some(hash), Some(bytes)) => source(&hash.to_hex(), bytes),
            _ => ABSENT.into(),
        };
        let marked = source(&manifest.document_sha256, manifest.document_bytes);
        let fault = manifest.partition_fault();
        let is_partition = fault.is_none();
        let fault = fault.unwrap_or_else(|| "a partition of the region".into());
        vec![
            Check::equal("mark.source_hash", &copied, &marked),
            Check::equal("mark.manifest_digest", &manifest_digest.to_hex(), &manifest.manifest_digest),
            Check::new("mark.partition", "a partition of the region", fault, is_partition),
        ]
    })
}

fn is_said(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.trim().is_empty())
}

fn verify_mark(
    request: &CutRequest,
    verdict: MarkVerdict,
    approval_doc_id: Option<&str>,
    reason: Option<&str>,
) -> Judgement {
    let is_approval = verdict == MarkVerdict::Approved;
    let stands = request.mark_verdict == Some(verdict);
    if stands && (is_approval || request.status == S::MarkRejected) {
        let same = same_document(request, approval_doc_id);
        return if same.ok || !is_approval { Judgement::Replay } else { refused(vec![same]) };
    }
    let trigger = if is_approval { T::MarkApprove } else { T::MarkReject };
    moves(request.status, &[trigger], || {
        vec![
            Check::truth("verify_mark.approval_doc", !is_approval || is_said(approval_doc_id)),
            Check::truth("verify_mark.reason", is_approval || is_said(reason)),
        ]
    })
}

/// An approval of a mark that stands already was given in this document, too: another one is another
/// word, and not the same again.
#[must_use]
pub fn same_document(request: &CutRequest, approval_doc_id: Option<&str>) -> Check {
    let recorded = request.mark_approval_doc_id.as_deref();
    let shown = |document: Option<&str>| String::from(document.unwrap_or(ABSENT));
    Check::new(
        "verify_mark.same_document",
        shown(recorded),
        shown(approval_doc_id),
        recorded == approval_doc_id,
    )
}

fn is_marked(request: &CutRequest) -> Check {
    let is_approved = request.mark_verdict == Some(MarkVerdict::Approved)
        && request.source_hash.is_some()
        && request.manifest_digest.is_some();
    Check::truth("cut.mark_verified", is_approved)
}

fn ask_cut(request: &CutRequest) -> Judgement {
    if request.cut_run_id.is_some() {
        return Judgement::Replay;
    }
    match moves(request.status, &[T::CutStart], || vec![is_marked(request)]) {
        Judgement::Apply(_) => Judgement::Apply(Vec::new()),
        other => other,
    }
}

fn ask_verify_cut(request: &CutRequest) -> Judgement {
    if request.cut_verdict.is_some() {
        return Judgement::Replay;
    }
    if SignalName::VerifyCut.statuses().contains(&request.status) {
        return Judgement::Apply(Vec::new());
    }
    match CUT_REQUEST.check(request.status, S::CutVerified) {
        Ok(()) => Judgement::Apply(Vec::new()),
        Err(illegal) => Judgement::Refused(Refusal::Illegal(illegal)),
    }
}

fn cut_start(request: &CutRequest, cut_run_id: Uuid, is_free: bool) -> Judgement {
    if request.cut_run_id == Some(cut_run_id) {
        return Judgement::Replay;
    }
    moves(request.status, &[T::CutStart], || vec![is_marked(request), Check::truth("cut.run_free", is_free)])
}

fn after_run(request: &CutRequest, within: Option<EffectName>, run: &RunCommitted) -> Judgement {
    let (mut at, mut out) = (request.status, Vec::new());
    while let Some(trigger) = follow(at, run) {
        match CUT_REQUEST.step(at, trigger) {
            Ok(to) => {
                out.push(Move { trigger, from: at, to });
                at = to;
            }
            Err(illegal) => return Judgement::Refused(Refusal::Illegal(named(illegal, at, trigger))),
        }
    }
    if !out.is_empty() {
        return Judgement::Apply(out);
    }
    // What the run is about to commit has no place here: the request failed, say.
    let target = match within {
        Some(EffectName::LegA) => Some(S::CutDone),
        Some(EffectName::WriteVerify) if run.has_passed == Some(false) => Some(S::CutFailed),
        Some(EffectName::WriteVerify) => Some(S::CutVerified),
        _ => None,
    };
    match target.map(|to| CUT_REQUEST.check(at, to)) {
        Some(Err(illegal)) => Judgement::Refused(Refusal::Illegal(illegal)),
        _ => Judgement::Replay,
    }
}

fn complete(request: &CutRequest, is_enacted: bool) -> Judgement {
    if request.completed_at.is_some() {
        return Judgement::Replay;
    }
    moves(request.status, &[T::Complete, T::ScheduleCleanup], || {
        vec![Check::truth("complete.enacted", is_enacted)]
    })
}

fn clean(request: &CutRequest, now: Timestamp) -> Judgement {
    if request.status == S::Cleaned {
        return Judgement::Replay;
    }
    moves(request.status, &[T::Clean], || {
        let due = request.cleanup_scheduled_at;
        let expected = due.map_or_else(|| ABSENT.into(), |due| alloc::format!("{due} or later"));
        vec![Check::new("cleanup.due", expected, now, due.is_some_and(|due| due <= now))]
    })
}
