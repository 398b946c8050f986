//! The backlog in memory: entries with their records as the tables have them, and the operations
//! that need no run, judged by the core.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::cut_request::micros;
use super::database::MemoryDatabase;
use super::observe;
use super::rows::{DecisionRow, EntryRow, HistoryRow as Row, SweepRow, Tables};
use super::world::Data;
use crate::base::digest::Digest;
use crate::machine::backlog::BacklogState as S;
use crate::port::backlog::{
    AbandonRequest, Backlog, BacklogQuery, BacklogRow, PORT, RequeueRequest, ReviewRequest, Standing,
    SweepBatch, check_limit,
};
use crate::port::{PortError, PortErrorKind, PortResult};
use crate::record::backlog::{
    ChangeSet, Decision, Dependency, Duty, Entry, HistoryRow, Judgement, Move, Operation, Refusal, Signature,
    VerifyResult, judge, timeline,
};

fn error(op: &str, kind: PortErrorKind, message: impl Into<String>) -> PortError {
    PortError::new(PORT, format!("backlog {op}"), kind, message)
}

fn refused(op: &str, refusal: &Refusal) -> PortError {
    error(op, PortErrorKind::Conflict, refusal.to_string())
}

/// The entry with this id, as the audit takes it.
pub(super) fn entry(tables: &Tables, row: &EntryRow) -> Entry {
    let id = row.entry_id;
    let status = |id: &Uuid| tables.entries.get(id).map(|entry| entry.status);
    let depends_on: BTreeSet<&Uuid> = row.depends_on.iter().collect();
    let sets: Vec<_> = tables.change_sets.values().filter(|set| set.entry_id == id).collect();
    let promotions = tables
        .sweeps
        .values()
        .filter(|pass| pass.document_id == row.document_id && pass.promoted.contains(&id))
        .count();
    let signatures = tables
        .signatures
        .values()
        .filter(|signature| sets.iter().any(|set| set.change_set_id == signature.change_set_id))
        .filter_map(|signature| {
            let duty = match signature.duty.as_str() {
                "executor" => Duty::Executor,
                "verifier" => Duty::Verifier,
                _ => return None,
            };
            Some(Signature {
                signature_id: signature.signature_id,
                change_set_id: signature.change_set_id,
                duty,
                principal: signature.principal.to_string(),
            })
        })
        .collect();
    Entry {
        entry_id: id,
        status: row.status,
        idempotency_key: row.idempotency_key,
        manifest_digest: row.manifest_digest,
        escalates: row.escalates,
        depends_on: depends_on
            .into_iter()
            .map(|id| Dependency { entry_id: *id, status: status(id) })
            .collect(),
        history: tables.history.iter().filter(|step| step.entry_id == id).map(history).collect(),
        promotions,
        decisions: decisions(tables, id),
        stop_answers: tables
            .decisions
            .values()
            .filter(|d| {
                d.entry_id == Some(id)
                    && !matches!(&*d.decision_type, "cut_authorization" | "lifecycle_enactment")
            })
            .count(),
        change_sets: sets
            .iter()
            .filter(|set| set.kind == "cut")
            .map(|set| change_set(tables, set.change_set_id, set.review_decision_id))
            .collect(),
        signatures,
    }
}

fn history(row: &Row) -> HistoryRow {
    HistoryRow {
        history_id: row.history_id,
        from_state: row.from_state,
        to_state: row.to_state,
        actor: row.actor.clone(),
        reason: row.reason.clone(),
        at: row.at,
        change_set_id: row.change_set_id,
    }
}

/// The decisions on an entry's review, oldest first.
fn decisions(tables: &Tables, entry_id: Uuid) -> Vec<Decision> {
    let is_consented = |row: &DecisionRow| {
        tables.approvals.values().any(|approval| {
            approval.review_decision_id == row.review_decision_id && Some(approval.decision) == row.decision
        })
    };
    let mut rows: Vec<&DecisionRow> = tables
        .decisions
        .values()
        .filter(|row| row.entry_id == Some(entry_id) && row.decision_type == "cut_authorization")
        .collect();
    rows.sort_by_key(|row| (row.at, row.review_decision_id));
    rows.into_iter()
        .filter_map(|row| {
            let verdict = row.decision?;
            Some(Decision { id: row.review_decision_id, verdict, has_consent: is_consented(row) })
        })
        .collect()
}

fn change_set(tables: &Tables, id: Uuid, review_decision_id: Uuid) -> ChangeSet {
    let envelope = tables.envelopes.values().find(|envelope| envelope.change_set_id == id);
    let verdict = tables.verify_results.values().find(|verdict| verdict.change_set_id == id);
    ChangeSet {
        change_set_id: id,
        review_decision_id,
        is_live: observe::is_live(tables, id),
        envelope_id: envelope.map(|envelope| envelope.manifest_envelope_id),
        verdict: verdict.map(|verdict| VerifyResult {
            id: verdict.verify_result_id,
            has_passed: verdict.passed,
            compensating_id: verdict.escalated.map(|[set, _]| set),
            escalation_entry_id: verdict.escalated.map(|[_, entry]| entry),
        }),
    }
}

fn backlog_row(tables: &Tables, row: &EntryRow) -> BacklogRow {
    let first = tables.history.iter().find(|step| step.entry_id == row.entry_id && step.from_state.is_none());
    BacklogRow {
        entry_id: row.entry_id,
        status: row.status,
        document_id: row.document_id.clone(),
        run_id: row.run_id.to_string(),
        manifest_digest: row.manifest_digest,
        candidate_count: row.candidate_count,
        escalates: row.escalates,
        actor: first.map(|step| step.actor.clone()).unwrap_or_default(),
        at: first.map(|step| step.at).unwrap_or_default(),
    }
}

fn page<'a>(tables: &'a Tables, query: &'a BacklogQuery) -> impl Iterator<Item = &'a EntryRow> {
    tables
        .entries
        .values()
        .filter(|row| query.after.is_none_or(|after| row.entry_id > after))
        .filter(|row| query.status.is_none_or(|status| row.status == status))
        .filter(|row| query.document_id.as_ref().is_none_or(|document| row.document_id == *document))
        .take(usize::try_from(query.limit).unwrap_or(usize::MAX))
}

/// What a sweep may promote.
fn is_promotable(row: &EntryRow) -> bool {
    row.status == S::ReviewedDeferred || (row.status == S::Marked && row.escalates.is_none())
}

fn standing(tables: &Tables, op: &str, id: Uuid) -> PortResult<Entry> {
    let found = tables.entries.get(&id).map(|row| entry(tables, row));
    found.ok_or_else(|| error(op, PortErrorKind::NotFound, format!("no backlog entry {id}")))
}

/// Who moves an entry, and what its history says about it.
struct Step<'a> {
    op: &'a str,
    history_id: Uuid,
    actor: &'a str,
    reason: &'a str,
    at: Timestamp,
}

/// Compare-and-set of the status with the history row.
fn write(tables: &mut Tables, entry_id: Uuid, moves: &[Move], step: &Step<'_>) -> PortResult<()> {
    for Move { from, to, .. } in moves {
        if tables.history.iter().any(|row| row.history_id == step.history_id) {
            let message = format!("history row {} exists", step.history_id);
            return Err(error(step.op, PortErrorKind::Conflict, message));
        }
        let Some(row) = tables.entries.get_mut(&entry_id).filter(|row| row.status == *from) else {
            let message = format!("backlog entry {entry_id}: status is not {from} any more");
            return Err(error(step.op, PortErrorKind::Conflict, message));
        };
        row.status = *to;
        let history = Row {
            history_id: step.history_id,
            entry_id,
            run_id: row.run_id.clone(),
            document_id: row.document_id.clone(),
            from_state: Some(*from),
            to_state: *to,
            actor: step.actor.to_string(),
            reason: step.reason.to_string(),
            at: micros(step.at),
            change_set_id: None,
        };
        tables.history.push(history);
    }
    Ok(())
}

fn log_pass(tables: &mut Tables, op: &str, pass: SweepRow) -> PortResult<()> {
    if tables.sweeps.contains_key(&pass.sweep_id) {
        return Err(error(op, PortErrorKind::Conflict, format!("sweep row {} exists", pass.sweep_id)));
    }
    tables.sweeps.insert(pass.sweep_id, pass);
    Ok(())
}

/// The id of a history row follows from the pass and the entry.
fn history_id(sweep_id: Uuid, entry_id: Uuid) -> Uuid {
    let digest = Digest::of(&[sweep_id.into_bytes(), entry_id.into_bytes()].concat());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    Uuid::from_bytes(bytes)
}

fn sweep(tables: &mut Tables, batch: &SweepBatch) -> PortResult<Vec<Uuid>> {
    let op = "sweep";
    if !tables.documents.contains_key(&batch.document_id) {
        let message = format!("document {} was never registered", batch.document_id);
        return Err(error(op, PortErrorKind::NotFound, message));
    }
    if let Some(known) = tables.sweeps.get(&batch.sweep_id) {
        if known.document_id == batch.document_id {
            return Ok(known.promoted.clone());
        }
        let message = format!("sweep pass {} is one of document {}", batch.sweep_id, known.document_id);
        return Err(error(op, PortErrorKind::Conflict, message));
    }
    let mut promoted = Vec::new();
    let query = BacklogQuery {
        status: None,
        document_id: Some(batch.document_id.clone()),
        after: batch.after,
        limit: u32::MAX,
    };
    let reached: Vec<Entry> = page(tables, &query)
        .filter(|row| is_promotable(row))
        .take(usize::try_from(batch.limit).unwrap_or(usize::MAX))
        .map(|row| entry(tables, row))
        .collect();
    for entry in reached {
        let id = entry.entry_id;
        let moves = match judge(&entry, &Operation::Sweep) {
            Judgement::Apply(moves) => moves,
            Judgement::Replay(_) => continue,
            Judgement::Refused(refusal) => return Err(refused(op, &refusal)),
        };
        let step = Step {
            op,
            history_id: history_id(batch.sweep_id, id),
            actor: &batch.actor,
            reason: "sweep",
            at: batch.at,
        };
        write(tables, id, &moves, &step)?;
        promoted.push(id);
    }
    let pass = SweepRow {
        sweep_id: batch.sweep_id,
        run_id: None,
        document_id: batch.document_id.clone(),
        promoted: promoted.clone(),
        at: micros(batch.at),
    };
    log_pass(tables, op, pass)?;
    Ok(promoted)
}

fn review(tables: &mut Tables, request: &ReviewRequest) -> PortResult<Uuid> {
    let op = "review";
    let entry = standing(tables, op, request.entry_id)?;
    let operation = Operation::Review {
        decision_id: request.decision_id,
        verdict: request.verdict,
        manifest_digest: request.manifest_digest,
        has_consent: false,
    };
    let moves = match judge(&entry, &operation) {
        Judgement::Apply(moves) => moves,
        Judgement::Replay(stands) => return Ok(stands.unwrap_or(request.decision_id)),
        Judgement::Refused(refusal) => return Err(refused(op, &refusal)),
    };
    if let Some(other) = tables.decisions.get(&request.decision_id) {
        let message = format!(
            "review.decision_new: decision {} is {} of {}",
            request.decision_id, other.decision_type, other.run_id
        );
        return Err(error(op, PortErrorKind::Conflict, message));
    }
    let Some(row) = tables.entries.get(&request.entry_id) else {
        return Err(error(op, PortErrorKind::NotFound, format!("no backlog entry {}", request.entry_id)));
    };
    let decision = DecisionRow {
        review_decision_id: request.decision_id,
        run_id: row.run_id.clone(),
        document_id: row.document_id.clone(),
        decision_type: "cut_authorization".into(),
        decision: Some(request.verdict),
        entry_id: Some(request.entry_id),
        change_set_id: None,
        expected_actor: None,
        unit_count: None,
        unit_set_digest: None,
        nonce: request.decision_id.to_string(),
        request_sha256: request.digest(),
        at: micros(request.at),
    };
    let step = Step {
        op,
        history_id: request.history_id,
        actor: &request.actor,
        reason: &request.reason,
        at: request.at,
    };
    write(tables, request.entry_id, &moves, &step)?;
    tables.decisions.insert(request.decision_id, decision);
    Ok(request.decision_id)
}

fn requeue(tables: &mut Tables, request: &RequeueRequest) -> PortResult<bool> {
    let op = "requeue";
    let entry = standing(tables, op, request.entry_id)?;
    let moves = match judge(&entry, &Operation::Requeue) {
        Judgement::Apply(moves) => moves,
        Judgement::Replay(_) => return Ok(false),
        Judgement::Refused(refusal) => return Err(refused(op, &refusal)),
    };
    let document_id = tables.entries.get(&request.entry_id).map(|row| row.document_id.clone());
    let step = Step {
        op,
        history_id: request.history_id,
        actor: &request.actor,
        reason: &request.reason,
        at: request.at,
    };
    let pass = SweepRow {
        sweep_id: request.sweep_id,
        run_id: None,
        document_id: document_id.unwrap_or_default(),
        promoted: [request.entry_id].to_vec(),
        at: micros(request.at),
    };
    write(tables, request.entry_id, &moves, &step)?;
    log_pass(tables, op, pass)?;
    Ok(true)
}

fn abandon(tables: &mut Tables, request: &AbandonRequest) -> PortResult<bool> {
    let op = "abandon";
    let entry = standing(tables, op, request.entry_id)?;
    let moves = match judge(&entry, &Operation::Abandon { reason: request.reason.clone() }) {
        Judgement::Apply(moves) => moves,
        Judgement::Replay(_) => return Ok(false),
        Judgement::Refused(refusal) => return Err(refused(op, &refusal)),
    };
    let step = Step {
        op,
        history_id: request.history_id,
        actor: &request.actor,
        reason: &request.reason,
        at: request.at,
    };
    write(tables, request.entry_id, &moves, &step)?;
    Ok(true)
}

impl MemoryDatabase {
    /// One transaction: on a copy of the tables, which takes their place if nothing failed.
    fn on_backlog<T>(&self, op: &str, work: impl FnOnce(&mut Tables) -> PortResult<T>) -> PortResult<T> {
        self.0.call(PORT, &format!("backlog {op}"), |data: &mut Data| {
            let mut tables = data.tables.clone();
            let answer = work(&mut tables)?;
            data.tables = tables;
            data.commits += 1;
            Ok(answer)
        })
    }

    fn see_backlog<T>(&self, op: &str, look: impl FnOnce(&Tables) -> PortResult<T>) -> PortResult<T> {
        self.0.call(PORT, &format!("backlog {op}"), |data: &mut Data| look(&data.tables))
    }
}

#[async_trait]
impl Backlog for MemoryDatabase {
    async fn list(&self, query: &BacklogQuery) -> PortResult<Vec<BacklogRow>> {
        check_limit("list", query.limit)?;
        self.see_backlog("list", |tables| {
            Ok(page(tables, query).map(|row| backlog_row(tables, row)).collect())
        })
    }

    async fn entries(&self, query: &BacklogQuery) -> PortResult<Vec<Entry>> {
        check_limit("entries", query.limit)?;
        self.see_backlog("entries", |tables| Ok(page(tables, query).map(|row| entry(tables, row)).collect()))
    }

    async fn show(&self, entry_id: Uuid) -> PortResult<Option<Standing>> {
        self.see_backlog("show", |tables| {
            Ok(tables.entries.get(&entry_id).map(|found| {
                let mut entry = entry(tables, found);
                entry.history = timeline(&entry.history);
                Standing { row: backlog_row(tables, found), entry }
            }))
        })
    }

    async fn history(&self, entry_id: Uuid) -> PortResult<Vec<HistoryRow>> {
        self.see_backlog("history", |tables| {
            standing(tables, "history", entry_id).map(|entry| timeline(&entry.history))
        })
    }

    async fn promotable(&self, after: Option<&str>) -> PortResult<Option<String>> {
        let after = after.unwrap_or_default();
        self.see_backlog("promotable", |tables| {
            let rows = tables.entries.values().filter(|row| is_promotable(row));
            Ok(rows.map(|row| &row.document_id).filter(|document| document.as_str() > after).min().cloned())
        })
    }

    async fn sweep(&self, batch: &SweepBatch) -> PortResult<Vec<Uuid>> {
        check_limit("sweep", batch.limit)?;
        self.on_backlog("sweep", |tables| sweep(tables, batch))
    }

    async fn review(&self, request: &ReviewRequest) -> PortResult<Uuid> {
        self.on_backlog("review", |tables| review(tables, request))
    }

    async fn requeue(&self, request: &RequeueRequest) -> PortResult<bool> {
        self.on_backlog("requeue", |tables| requeue(tables, request))
    }

    async fn abandon(&self, request: &AbandonRequest) -> PortResult<bool> {
        self.on_backlog("abandon", |tables| abandon(tables, request))
    }
}
