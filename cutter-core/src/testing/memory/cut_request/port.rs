//! The port itself.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{
    PORT, StagingRow, assert_run, cleanup_after, committed, error, follow_run, is_enacted, micros, notify,
    push_transition, refused, staged, standing, write,
};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::machine::cut_request::CutRequestStatus as S;
use crate::port::cut_request::{
    AddRequest, ApplyOutcome, Asked, CatchUp, Cleanup, CleanupReport, CopySource, CutRequests, OnRequest,
    RequestOutcome, RequestQuery, Signal, StageMark, StartCut, TakeSignals, VerifyCutOutcome, VerifyMark,
};
use crate::port::{PortErrorKind, PortResult};
use crate::record::cut_request::{
    CutRequest, Judgement, ManifestFacts, MarkVerdict, Operation, SignalName, Transition, judge, judge_add,
};
use crate::record::staging::StagingRecord;
use crate::testing::memory::database::MemoryDatabase;
use crate::testing::memory::rows::Tables;
use crate::testing::memory::world::Data;

impl MemoryDatabase {
    fn on_requests<T>(&self, op: &str, work: impl FnOnce(&mut Tables) -> PortResult<T>) -> PortResult<T> {
        self.0.call(PORT, &alloc::format!("cut_request {op}"), |data: &mut Data| {
            let answer = work(&mut data.tables)?;
            data.commits += 1;
            Ok(answer)
        })
    }

    fn look<T>(&self, op: &str, look: impl FnOnce(&Tables) -> T) -> PortResult<T> {
        self.0.call(PORT, &alloc::format!("cut_request {op}"), |data: &mut Data| Ok(look(&data.tables)))
    }
}

fn answer(tables: &Tables, op: &str, id: Uuid, already: bool) -> PortResult<RequestOutcome> {
    Ok(RequestOutcome { request: standing(tables, op, id)?, already })
}

fn new_record(id: Uuid, kind: &str, content: &[u8], at: Timestamp) -> StagingRecord {
    StagingRecord {
        staging_record_id: id,
        record_kind: kind.into(),
        sha256: Digest::of(content),
        byte_length: content.len() as u64,
        lifecycle_status: "staged".into(),
        vector_excluded: true,
        created_at: micros(at),
        approved_at: None,
        consumed_at: None,
        expires_at: None,
        cleaned_at: None,
    }
}

fn stage(tables: &mut Tables, op: &str, row: StagingRow, content: &[u8]) -> PortResult<()> {
    let id = row.record.staging_record_id;
    if tables.staging.contains_key(&id) {
        return Err(error(op, PortErrorKind::Conflict, alloc::format!("staging record {id} exists")));
    }
    tables.staging.insert(id, row);
    tables.payloads.insert(id, Arc::new(content.to_vec()));
    Ok(())
}

/// Removes the bytes of these records. Gives how many there were, and their length.
fn clean(tables: &mut Tables, ids: &[Uuid], at: Timestamp) -> (u64, u64) {
    let (mut records, mut bytes) = (0, 0);
    for id in ids {
        if let Some(row) = tables.staging.get_mut(id) {
            row.record.lifecycle_status = "cleaned".into();
            row.record.cleaned_at = Some(micros(at));
        }
        if let Some(content) = tables.payloads.remove(id) {
            records += 1;
            bytes += content.len() as u64;
        }
    }
    (records, bytes)
}

/// One pass of the cleanup, by this time.
fn clean_due(tables: &mut Tables, cleanup: &Cleanup, now: Timestamp) -> CleanupReport {
    let limit = usize::try_from(cleanup.limit).unwrap_or(usize::MAX);
    let asked = Asked { actor: cleanup.asked.actor.clone(), at: now };
    let mut report = CleanupReport::default();
    let mut due: Vec<(CutRequest, Vec<_>)> = Vec::new();
    for request in tables.requests.values().filter(|r| r.status == S::CleanupScheduled) {
        if let Judgement::Apply(moves) = judge(request, &Operation::Clean { now }) {
            due.push((request.clone(), moves));
        }
    }
    due.sort_by_key(|(request, _)| (request.cleanup_scheduled_at, request.cut_request_id));
    due.truncate(limit);
    for (request, moves) in due {
        let ids = [request.copy_staging_record_id, request.manifest_staging_record_id];
        let ids: Vec<Uuid> = ids.into_iter().flatten().collect();
        let (records, bytes) = clean(tables, &ids, now);
        let detail = json!({ "records": records, "bytes": bytes });
        write(tables, request.cut_request_id, &moves, &asked, &detail, |_| {});
        report.requests.push(request.cut_request_id);
        report.records += records;
        report.bytes += bytes;
    }
    let mut expired: Vec<_> = tables
        .staging
        .values()
        .map(|row| &row.record)
        .filter(|r| r.lifecycle_status == "expired" && r.expires_at.is_some_and(|at| at <= now))
        .map(|r| (r.expires_at, r.staging_record_id))
        .collect();
    expired.sort_unstable();
    expired.truncate(limit);
    let ids: Vec<Uuid> = expired.into_iter().map(|(_, id)| id).collect();
    let (records, bytes) = clean(tables, &ids, now);
    report.records += records;
    report.bytes += bytes;
    report
}

#[async_trait]
impl CutRequests for MemoryDatabase {
    async fn add(&self, request: &AddRequest) -> PortResult<RequestOutcome> {
        let op = "add";
        self.on_requests(op, |tables| {
            let AddRequest { cut_request_id: id, source_ref, source_kind, asked } = request.clone();
            let new = CutRequest::new(id, source_ref, source_kind, asked.actor.clone(), micros(asked.at));
            match judge_add(tables.requests.get(&id), &new) {
                Judgement::Replay => return answer(tables, op, id, true),
                Judgement::Refused(refusal) => return Err(refused(op, &refusal)),
                Judgement::Apply(_) => {}
            }
            tables.requests.insert(id, new);
            push_transition(tables, id, None, S::Requested, &asked, json!({}));
            notify(tables, SignalName::Copy, id, &asked);
            answer(tables, op, id, false)
        })
    }

    async fn copy(&self, copy: &CopySource) -> PortResult<RequestOutcome> {
        let op = "copy";
        self.on_requests(op, |tables| {
            let id = copy.cut_request_id;
            let (observed, bytes) = (Digest::of(&copy.content), copy.content.len() as u64);
            let operation = Operation::Copy { expected: copy.sha256, observed, bytes };
            match judge(&standing(tables, op, id)?, &operation) {
                Judgement::Replay => answer(tables, op, id, true),
                Judgement::Refused(refusal) => Err(refused(op, &refusal)),
                Judgement::Apply(moves) => {
                    let record =
                        new_record(copy.staging_record_id, "source_copy", &copy.content, copy.asked.at);
                    stage(tables, op, StagingRow { cut_request_id: id, record, units: 0 }, &copy.content)?;
                    let detail = json!({ "sha256": observed, "staging_record_id": copy.staging_record_id });
                    write(tables, id, &moves, &copy.asked, &detail, |request| {
                        request.source_hash = Some(observed);
                        request.source_bytes = Some(bytes);
                        request.source_path.clone_from(&copy.source_path);
                        request.copy_staging_record_id = Some(copy.staging_record_id);
                    });
                    answer(tables, op, id, false)
                }
            }
        })
    }

    async fn mark(&self, mark: &StageMark) -> PortResult<RequestOutcome> {
        let op = "mark";
        self.on_requests(op, |tables| {
            let id = mark.cut_request_id;
            let manifest = ManifestFacts::from_json(&mark.manifest)
                .map_err(|fault| error(op, PortErrorKind::Invalid, alloc::format!("{fault}")))?;
            let units = manifest.units.len() as u64;
            let operation = Operation::Mark { manifest, manifest_digest: mark.manifest_digest };
            match judge(&standing(tables, op, id)?, &operation) {
                Judgement::Replay => answer(tables, op, id, true),
                Judgement::Refused(refusal) => Err(refused(op, &refusal)),
                Judgement::Apply(moves) => {
                    let record =
                        new_record(mark.staging_record_id, "mark_manifest", &mark.manifest, mark.asked.at);
                    stage(tables, op, StagingRow { cut_request_id: id, record, units }, &mark.manifest)?;
                    let detail = json!({ "manifest_digest": mark.manifest_digest, "units": units,
                        "staging_record_id": mark.staging_record_id });
                    write(tables, id, &moves, &mark.asked, &detail, |request| {
                        request.manifest_staging_record_id = Some(mark.staging_record_id);
                        request.manifest_digest = Some(mark.manifest_digest);
                    });
                    answer(tables, op, id, false)
                }
            }
        })
    }

    async fn verify_mark(&self, verdict: &VerifyMark) -> PortResult<RequestOutcome> {
        let op = "verify_mark";
        self.on_requests(op, |tables| {
            let (id, at) = (verdict.cut_request_id, verdict.asked.at);
            let operation = Operation::VerifyMark {
                verdict: if verdict.approve { MarkVerdict::Approved } else { MarkVerdict::Rejected },
                approval_doc_id: verdict.approval_doc_id.clone(),
                reason: verdict.reason.clone(),
            };
            let request = standing(tables, op, id)?;
            match judge(&request, &operation) {
                Judgement::Replay => answer(tables, op, id, true),
                Judgement::Refused(refusal) => Err(refused(op, &refusal)),
                Judgement::Apply(moves) => {
                    if verdict.approve {
                        staged(tables, &request, |record| {
                            record.lifecycle_status = "approved".into();
                            record.approved_at = Some(micros(at));
                        });
                    } else if let Some(row) =
                        request.manifest_staging_record_id.and_then(|id| tables.staging.get_mut(&id))
                    {
                        row.record.lifecycle_status = "expired".into();
                        row.record.expires_at = Some(cleanup_after(micros(at)));
                    }
                    let mut detail = json!({ "manifest_digest": request.manifest_digest });
                    let said = [("approval_doc_id", &verdict.approval_doc_id), ("reason", &verdict.reason)];
                    for (name, text) in said {
                        if let (Some(text), Some(object)) = (text, detail.as_object_mut()) {
                            object.insert(name.into(), text.as_str().into());
                        }
                    }
                    write(tables, id, &moves, &verdict.asked, &detail, |request| {
                        request.mark_approval_doc_id.clone_from(&verdict.approval_doc_id);
                    });
                    answer(tables, op, id, false)
                }
            }
        })
    }

    async fn apply(&self, ask: &OnRequest, is_dry_run: bool) -> PortResult<ApplyOutcome> {
        let op = "apply";
        self.on_requests(op, |tables| {
            let request = standing(tables, op, ask.cut_request_id)?;
            let signal = match judge(&request, &Operation::AskCut) {
                Judgement::Replay => None,
                Judgement::Refused(refusal) => return Err(refused(op, &refusal)),
                Judgement::Apply(_) => Some(SignalName::Cut),
            };
            if let Some(name) = signal.filter(|_| !is_dry_run) {
                notify(tables, name, ask.cut_request_id, &ask.asked);
            }
            let manifest = request.manifest_staging_record_id.and_then(|id| tables.staging.get(&id));
            Ok(ApplyOutcome { units: manifest.map_or(0, |row| row.units), request, signal, is_dry_run })
        })
    }

    async fn start_cut(&self, start: &StartCut) -> PortResult<RequestOutcome> {
        let op = "start_cut";
        self.on_requests(op, |tables| {
            let (id, run) = (start.cut_request_id, start.run_id.uuid());
            let request = standing(tables, op, id)?;
            assert_run(tables, op, &request, &start.run_id)?;
            let is_free = tables.requests.values().all(|r| r.cut_run_id != Some(run));
            match judge(&request, &Operation::CutStart { cut_run_id: run, is_free }) {
                Judgement::Replay => answer(tables, op, id, true),
                Judgement::Refused(refusal) => Err(refused(op, &refusal)),
                Judgement::Apply(moves) => {
                    staged(tables, &request, |record| {
                        record.lifecycle_status = "consumed".into();
                        record.consumed_at = Some(micros(start.asked.at));
                    });
                    let detail = json!({ "run_id": start.run_id });
                    write(tables, id, &moves, &start.asked, &detail, |request| {
                        request.cut_run_id = Some(run);
                        if let Some(metadata) = request.metadata.as_object_mut() {
                            let key = crate::record::cut_request::METADATA_RUN_ID;
                            metadata.insert(key.into(), start.run_id.as_str().into());
                        }
                    });
                    answer(tables, op, id, false)
                }
            }
        })
    }

    async fn catch_up(&self, catch_up: &CatchUp) -> PortResult<RequestOutcome> {
        let op = "catch_up";
        self.on_requests(op, |tables| {
            let id = catch_up.cut_request_id;
            let request = standing(tables, op, id)?;
            let Some(run_id) = request.run_id() else { return answer(tables, op, id, true) };
            let run = committed(tables, &run_id);
            let mut moved = follow_run(tables, op, &request, None, run, &catch_up.asked)?;
            let request = standing(tables, op, id)?;
            if let (Some(why), S::CutInProgress | S::CutDone) = (&catch_up.ended, request.status) {
                tables.ended_runs.insert(run_id.clone(), why.clone());
                let run = committed(tables, &run_id);
                moved |= follow_run(tables, op, &request, None, run, &catch_up.asked)?;
            }
            answer(tables, op, id, !moved)
        })
    }

    async fn verify_cut(&self, ask: &OnRequest) -> PortResult<VerifyCutOutcome> {
        let op = "verify_cut";
        self.on_requests(op, |tables| {
            let request = standing(tables, op, ask.cut_request_id)?;
            match judge(&request, &Operation::AskVerifyCut) {
                Judgement::Replay => {}
                Judgement::Refused(refusal) => return Err(refused(op, &refusal)),
                Judgement::Apply(_) => {
                    notify(tables, SignalName::VerifyCut, ask.cut_request_id, &ask.asked);
                }
            }
            Ok(VerifyCutOutcome { verdict: request.cut_verdict, request })
        })
    }

    async fn complete(&self, ask: &OnRequest) -> PortResult<RequestOutcome> {
        let op = "complete";
        self.on_requests(op, |tables| {
            let id = ask.cut_request_id;
            let request = standing(tables, op, id)?;
            let is_enacted = is_enacted(tables, request.run_id().as_ref());
            match judge(&request, &Operation::Complete { is_enacted }) {
                Judgement::Replay => answer(tables, op, id, true),
                Judgement::Refused(refusal) => Err(refused(op, &refusal)),
                Judgement::Apply(moves) => {
                    let due = cleanup_after(micros(ask.asked.at));
                    staged(tables, &request, |record| record.expires_at = Some(due));
                    let detail = json!({ "cleanup_scheduled_at": due });
                    write(tables, id, &moves, &ask.asked, &detail, |_| {});
                    answer(tables, op, id, false)
                }
            }
        })
    }

    async fn cleanup(&self, cleanup: &Cleanup) -> PortResult<CleanupReport> {
        self.0.call(PORT, "cut_request cleanup", |data: &mut Data| {
            let now = micros(cleanup.as_of.unwrap_or(data.now));
            // What is only asked for is done to a copy.
            let mut tables = data.tables.clone();
            let report = clean_due(&mut tables, cleanup, now);
            if cleanup.as_of.is_none() {
                data.tables = tables;
                data.commits += 1;
            }
            Ok(report)
        })
    }

    async fn get(&self, cut_request_id: Uuid) -> PortResult<Option<CutRequest>> {
        self.look("get", |tables| tables.requests.get(&cut_request_id).cloned())
    }

    async fn of_run(&self, run_id: &RunId) -> PortResult<Option<CutRequest>> {
        let run = Some(run_id.uuid());
        self.look("of_run", |tables| tables.requests.values().find(|r| r.cut_run_id == run).cloned())
    }

    async fn list(&self, query: &RequestQuery) -> PortResult<Vec<CutRequest>> {
        self.look("list", |tables| {
            let key = |r: &CutRequest| (r.requested_at, r.cut_request_id);
            let mut rows: Vec<CutRequest> = tables
                .requests
                .values()
                .filter(|r| query.status.is_none_or(|status| r.status == status))
                .filter(|r| query.source_ref.as_ref().is_none_or(|source| r.source_ref == *source))
                .filter(|r| query.after.is_none_or(|after| key(r) < (micros(after.0), after.1)))
                .cloned()
                .collect();
            rows.sort_by_key(|r| core::cmp::Reverse(key(r)));
            rows.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
            rows
        })
    }

    async fn timeline(&self, cut_request_id: Uuid) -> PortResult<Vec<Transition>> {
        self.look("timeline", |tables| {
            let rows = tables.request_transitions.iter();
            rows.filter(|row| row.cut_request_id == cut_request_id).cloned().collect()
        })
    }

    async fn staging(&self, cut_request_id: Uuid) -> PortResult<Vec<StagingRecord>> {
        self.look("staging", |tables| {
            let rows = tables.staging.values().filter(|row| row.cut_request_id == cut_request_id);
            let mut rows: Vec<StagingRecord> = rows.map(|row| row.record.clone()).collect();
            rows.sort_by(|a, b| {
                (a.created_at, &b.record_kind, a.staging_record_id).cmp(&(
                    b.created_at,
                    &a.record_kind,
                    b.staging_record_id,
                ))
            });
            rows
        })
    }

    async fn staged_bytes(&self, staging_record_id: Uuid) -> PortResult<Option<Vec<u8>>> {
        self.look("staged_bytes", |tables| tables.payloads.get(&staging_record_id).map(|p| p.to_vec()))
    }

    async fn take_signals(&self, take: &TakeSignals) -> PortResult<Vec<Signal>> {
        self.on_requests("take_signals", |tables| {
            let (at, stale) = (micros(take.asked.at), micros(take.stale_before));
            let mut open: Vec<_> = tables
                .signals
                .values_mut()
                .filter(|row| row.finished_at.is_none() && take.names.contains(&row.signal.name))
                .filter(|row| row.taken_at.is_none_or(|taken| taken < stale))
                .collect();
            // Who waited longest since it was last looked at: a signal that rests starves no other.
            open.sort_by_key(|row| (row.taken_at.unwrap_or(row.signal.enqueued_at), row.signal.signal_id));
            open.truncate(usize::try_from(take.limit).unwrap_or(usize::MAX));
            Ok(open
                .into_iter()
                .map(|row| {
                    row.taken_at = Some(at);
                    row.signal.clone()
                })
                .collect())
        })
    }

    async fn finish_signal(&self, signal_id: Uuid, at: Timestamp) -> PortResult<()> {
        self.on_requests("finish_signal", |tables| {
            if let Some(row) = tables.signals.get_mut(&signal_id) {
                row.finished_at.get_or_insert(micros(at));
            }
            Ok(())
        })
    }
}
