//! Cut requests in memory: judged by the core, written in the world's tables, followed inside the
//! transactions of runs.

mod port;

use alloc::format;
use alloc::string::{String, ToString};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::rows::Tables;
use super::transaction::Tx;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::limits::CLEANUP_AFTER_DAYS;
use crate::machine::cut_request::CutRequestStatus as S;
use crate::port::cut_request::{Asked, Signal};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::cut_request::{
    CutRequest, CutVerdict, Judgement, MarkVerdict, Move, Operation, Refusal, RunCommitted, RunText,
    SignalName, Transition, judge, same_text, staged_document,
};
use crate::record::effect::{EffectName, ReviewVerdict, Verdict};
use crate::record::staging::StagingRecord;

const PORT: Port = Port::Database;

/// A staging record with what it belongs to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct StagingRow {
    pub(super) cut_request_id: Uuid,
    pub(super) record: StagingRecord,
    /// Units of a manifest.
    pub(super) units: u64,
}

/// A signal with who took it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SignalRow {
    pub(super) signal: Signal,
    pub(super) taken_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
}

fn error(op: &str, kind: PortErrorKind, message: impl Into<String>) -> PortError {
    PortError::new(PORT, format!("cut_request {op}"), kind, message)
}

fn refused(op: &str, refusal: &Refusal) -> PortError {
    error(op, PortErrorKind::Conflict, refusal.to_string())
}

/// What a database keeps of a time.
pub(super) fn micros(at: Timestamp) -> Timestamp {
    let micros = i64::try_from(at.as_nanosecond().div_euclid(1_000)).unwrap_or_default();
    Timestamp::from_microsecond(micros).unwrap_or(at)
}

fn cleanup_after(at: Timestamp) -> Timestamp {
    let days = SignedDuration::from_hours(24 * i64::from(CLEANUP_AFTER_DAYS));
    at.checked_add(days).unwrap_or(Timestamp::MAX)
}

fn standing(tables: &Tables, op: &str, id: Uuid) -> PortResult<CutRequest> {
    let found = tables.requests.get(&id).cloned();
    found.ok_or_else(|| error(op, PortErrorKind::NotFound, format!("no cut request {id}")))
}

fn push_transition(tables: &mut Tables, id: Uuid, from: Option<S>, to: S, asked: &Asked, detail: Value) {
    let row = Transition {
        transition_id: tables.request_transitions.len() as u64 + 1,
        cut_request_id: id,
        from_status: from,
        to_status: to,
        actor: asked.actor.clone(),
        occurred_at: micros(asked.at),
        detail,
    };
    tables.request_transitions.push(row);
    for signal in tables.signals.values_mut() {
        let is_over = !signal.signal.name.statuses().contains(&to);
        if signal.signal.cut_request_id == id && is_over && signal.finished_at.is_none() {
            signal.finished_at = Some(micros(asked.at));
        }
    }
}

/// Enqueues a signal, once while it is open.
fn notify(tables: &mut Tables, name: SignalName, id: Uuid, asked: &Asked) {
    let is_open = tables
        .signals
        .values()
        .any(|s| s.finished_at.is_none() && s.signal.cut_request_id == id && s.signal.name == name);
    if is_open {
        return;
    }
    let digest = Digest::of(format!("signal {} {id} {name}", tables.signals.len()).as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    let signal = Signal {
        signal_id: uuid::Builder::from_random_bytes(bytes).into_uuid(),
        name,
        cut_request_id: id,
        enqueued_by: asked.actor.clone(),
        enqueued_at: micros(asked.at),
    };
    let row = SignalRow { signal, taken_at: None, finished_at: None };
    tables.signals.insert(row.signal.signal_id, row);
}

/// Writes moves with the columns that follow from each status; `detail` belongs to the last, and
/// the signal of where it ends goes out.
fn write(
    tables: &mut Tables,
    id: Uuid,
    moves: &[Move],
    asked: &Asked,
    detail: &Value,
    set: impl FnOnce(&mut CutRequest),
) {
    let at = micros(asked.at);
    if let Some(request) = tables.requests.get_mut(&id) {
        for step in moves {
            request.status = step.to;
            match step.to {
                S::Copied => request.copied_at = Some(at),
                S::MarkInProgress => {
                    request.mark_verdict = None;
                    request.mark_approval_doc_id = None;
                }
                S::Marked => request.marked_at = Some(at),
                S::MarkVerified => {
                    request.mark_verified_at = Some(at);
                    request.mark_verdict = Some(MarkVerdict::Approved);
                }
                S::MarkRejected => request.mark_verdict = Some(MarkVerdict::Rejected),
                S::CutDone => request.cut_done_at = Some(at),
                S::CutVerified => {
                    request.cut_verified_at = Some(at);
                    request.cut_verdict = Some(CutVerdict::Verified);
                }
                S::CutFailed => request.cut_verdict = Some(CutVerdict::Failed),
                S::Completed => request.completed_at = Some(at),
                S::CleanupScheduled => request.cleanup_scheduled_at = Some(cleanup_after(at)),
                S::Cleaned => request.cleaned_at = Some(at),
                S::Requested | S::CutInProgress => {}
            }
        }
        set(request);
    }
    for (i, step) in moves.iter().enumerate() {
        let detail = if i + 1 == moves.len() { detail.clone() } else { json!({}) };
        push_transition(tables, id, Some(step.from), step.to, asked, detail);
    }
    if let Some(name) = moves.last().and_then(|step| SignalName::of(step.to)) {
        notify(tables, name, id, asked);
    }
}

/// Changes the staging records of a request's copy and newest mark.
fn staged(tables: &mut Tables, request: &CutRequest, change: impl Fn(&mut StagingRecord)) {
    let ids = [request.copy_staging_record_id, request.manifest_staging_record_id];
    for id in ids.into_iter().flatten() {
        if let Some(row) = tables.staging.get_mut(&id) {
            change(&mut row.record);
        }
    }
}

/// Refuses a run that marked or cut something else than what was approved for the request.
fn assert_run(tables: &Tables, op: &str, request: &CutRequest, run_id: &RunId) -> PortResult<()> {
    let staged = request.manifest_staging_record_id.and_then(|id| tables.payloads.get(&id));
    let staged = staged.and_then(|bytes| staged_document(bytes));
    let entries = tables.entries.values().filter(|e| e.run_id == *run_id && e.escalates.is_none());
    for entry in entries {
        let Some(version) = tables.versions.get(&entry.source_version_id) else { continue };
        let text = RunText {
            document_id: entry.document_id.clone(),
            source: version.sha256,
            manifest_digest: entry.manifest_digest,
        };
        let mut wrong = same_text(request, staged.as_deref(), &text);
        wrong.retain(|check| !check.ok);
        if !wrong.is_empty() {
            return Err(refused(op, &Refusal::Rules(wrong)));
        }
    }
    Ok(())
}

/// What a run has committed by these tables.
fn committed(tables: &Tables, run_id: &RunId) -> RunCommitted {
    let cut = tables.change_sets.values().find(|set| set.run_id == *run_id && set.kind == "cut");
    let verdict = cut.and_then(|set| {
        tables.verify_results.values().find(|verdict| verdict.change_set_id == set.change_set_id)
    });
    let is_voided = tables.approval_uses.values().any(|used| {
        let by = &used.used_by;
        let approval = tables.approvals.get(&used.approval_id);
        by.run_id == *run_id
            && by.effect == EffectName::Void
            && approval.is_some_and(|approval| approval.decision == ReviewVerdict::Approve)
    });
    RunCommitted {
        has_cut: cut.is_some(),
        has_passed: verdict.map(|verdict| verdict.passed),
        is_voided,
        ended: tables.ended_runs.get(run_id).cloned(),
    }
}

/// The run enacted what it cut.
fn is_enacted(tables: &Tables, run_id: Option<&RunId>) -> bool {
    tables.effects.values().any(|effect| {
        Some(&effect.key.run_id) == run_id
            && effect.key.effect == EffectName::Enact
            && effect.verdict == Verdict::Commit
    })
}

/// Moves a request by what its run committed. True if it moved.
fn follow_run(
    tables: &mut Tables,
    op: &str,
    request: &CutRequest,
    within: Option<EffectName>,
    run: RunCommitted,
    asked: &Asked,
) -> PortResult<bool> {
    let mut detail = json!({ "run_id": request.run_id().map(|run| run.to_string()) });
    if let (Some(effect), Some(object)) = (within, detail.as_object_mut()) {
        object.insert("effect".to_string(), effect.as_str().into());
    }
    let ended = run.ended.clone();
    match judge(request, &Operation::Follow { within, run }) {
        Judgement::Apply(moves) => {
            let has_failed = moves.last().is_some_and(|step| step.to == S::CutFailed);
            if let (Some(reason), true, Some(object)) = (ended, has_failed, detail.as_object_mut()) {
                object.insert("reason".to_string(), reason.into());
            }
            write(tables, request.cut_request_id, &moves, asked, &detail, |_| {});
            Ok(true)
        }
        Judgement::Replay => Ok(false),
        Judgement::Refused(refusal) => Err(refused(op, &refusal)),
    }
}

impl Tx<'_> {
    /// Moves the request that names this run, if one does.
    pub(super) fn follow_request(&mut self) -> PortResult<()> {
        let key = &self.cx.key;
        let run = Some(&key.run_id);
        let Some(request) = self.tables.requests.values().find(|r| r.run_id().as_ref() == run).cloned()
        else {
            return Ok(());
        };
        assert_run(&self.tables, "follow", &request, &key.run_id)?;
        let committed = committed(&self.tables, &key.run_id);
        let asked = Asked { actor: self.cx.actor.clone(), at: self.cx.at };
        follow_run(&mut self.tables, "follow", &request, Some(key.effect), committed, &asked)?;
        Ok(())
    }
}
