//! The rows of a run with the columns that the reference schema gives them, for whoever checks rows.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::rows::Tables;
use super::world::World;
use crate::base::digest::to_hex;
use crate::base::id::RunId;
use crate::machine::backlog::BacklogState;
use crate::record::approval::field;
use crate::record::effect::{EffectName, ReviewVerdict};
use crate::record::evidence::RunRows;

/// Bytes as the database spells them.
fn bytes(text: &str) -> String {
    "\\x".to_string() + &to_hex(text.as_bytes())
}

fn login(effect: EffectName) -> &'static str {
    match effect {
        EffectName::Sg1Review | EffectName::Sg2Review | EffectName::Sg3Review => "cutter_review",
        EffectName::WriteVerify => "cutter_verify",
        _ => "cutter_exec",
    }
}

impl World {
    /// The rows of a run as a database gives them to a checker: by table, each with its columns.
    #[must_use]
    pub fn run_rows(&self, run_id: &RunId) -> RunRows {
        let inner = self.lock();
        let tables = &inner.data.tables;
        let named = of_run(tables, run_id).into_iter().map(|(table, rows)| {
            let rows: Vec<BTreeMap<String, Value>> =
                rows.into_iter().filter_map(|row| serde_json::from_value(row).ok()).collect();
            (table.to_string(), rows)
        });
        RunRows(named.collect())
    }
}

fn of_run(tables: &Tables, run: &RunId) -> [(&'static str, Vec<Value>); 17] {
    let fences = tables.fences.get(run).into_iter().map(
        |f| json!({ "run_id": run, "document_id": f.document_id, "epoch": f.epoch, "holder": f.holder }),
    );
    let document = |id: &str| tables.documents.get(id).map(|d| d.source_document_id);
    let effects = tables.effects.values().filter(|e| e.key.run_id == *run).map(|e| {
        json!({
            "run_id": run, "document_id": tables.fences.get(run).map(|f| &f.document_id),
            "effect": e.key.effect, "occurrence": e.key.occurrence, "effect_id": e.effect_id,
            "fence_epoch": e.fence_epoch, "payload_sha256": e.payload_sha256, "verdict": e.verdict,
            "at": e.at, "inserted_by": login(e.key.effect),
        })
    });
    let first = |entry| tables.history.iter().find(|h| h.entry_id == entry);
    let entries = tables.entries.values().filter(|e| e.run_id == *run).map(|e| {
        json!({
            "entry_id": e.entry_id, "run_id": run, "document_id": e.document_id, "kind": e.kind,
            "source_document_id": document(&e.document_id), "source_version_id": e.source_version_id,
            "idempotency_key": e.idempotency_key, "region_sha": e.region_sha,
            "manifest_digest": e.manifest_digest, "candidate_count": e.candidate_count,
            "escalates_entry_id": e.escalates, "status": e.status,
            "actor": first(e.entry_id).map(|h| &h.actor), "at": first(e.entry_id).map(|h| h.at),
        })
    });
    let history = tables.history.iter().filter(|h| h.run_id == *run).map(|h| {
        let sweep = tables.sweeps.values().find(|s| s.at == h.at && s.promoted.contains(&h.entry_id));
        let detail = match h.to_state {
            BacklogState::Marked => {
                json!({ "depends_on": tables.entries.get(&h.entry_id).map(|e| &e.depends_on) })
            }
            BacklogState::ReviewPending => json!({ "sweep_id": sweep.map(|s| s.sweep_id) }),
            _ => json!({}),
        };
        json!({
            "history_id": h.history_id, "entry_id": h.entry_id, "run_id": run,
            "document_id": h.document_id, "from_state": h.from_state, "to_state": h.to_state,
            "actor": h.actor, "reason": h.reason, "at": h.at, "change_set_id": h.change_set_id,
            "detail": detail,
        })
    });
    let sweeps = tables.sweeps.values().filter(|s| s.run_id.as_ref() == Some(run)).map(|s| {
        let moved = tables.history.iter().find(|h| h.at == s.at);
        json!({
            "sweep_id": s.sweep_id, "run_id": run, "document_id": s.document_id,
            "promoted": s.promoted, "at": s.at, "actor": moved.map(|h| &h.actor),
        })
    });
    let answer = |id| tables.approvals.values().find(move |a| a.review_decision_id == id);
    let decisions = tables.decisions.values().filter(|d| d.run_id == *run).map(|d| {
        let asks = d.decision.is_none();
        json!({
            "id": d.review_decision_id, "run_id": run, "document_id": d.document_id,
            "type": d.decision_type, "decision": d.decision, "entry_id": d.entry_id,
            "change_set_id": d.change_set_id, "expected_actor": d.expected_actor,
            "unit_count": d.unit_count, "unit_set_digest": d.unit_set_digest, "nonce": d.nonce,
            "request_sha256": d.request_sha256, "at": d.at,
            "actor": answer(d.review_decision_id).map(|a| &a.actor),
            "inserted_by": if asks { "cutter_exec" } else { "cutter_review" },
        })
    });
    let approvals = tables.approvals.values().filter(|a| a.run_id == *run).map(|a| {
        json!({
            "approval_id": a.approval_id, "review_decision_id": a.review_decision_id, "run_id": run,
            "document_id": a.document_id, "type": a.gate, "decision": a.decision,
            "approval_kb_id": a.approval_kb_id, "document": bytes(&a.document), "sha256": a.sha256,
            "nonce": a.nonce, "fingerprint": a.fingerprint, "actor": a.actor, "expires_at": a.expires,
            "request_sha256": a.request_sha256, "at": a.at, "recorded_at": a.at,
            "inserted_by": "cutter_review",
        })
    });
    let uses = tables.approval_uses.values().filter(|u| u.run_id == *run).map(|u| {
        let effect = tables.effects.get(&u.used_by);
        json!({
            "approval_id": u.approval_id, "run_id": run, "effect": u.used_by.effect,
            "effect_id": effect.map(|e| e.effect_id), "at": effect.map(|e| e.at),
        })
    });
    let asks = tables.asks.iter().filter(|((of, ..), _)| of == run).map(|(_, stored)| {
        let (asked, ask) = (&stored.asked, &stored.asked.ask);
        let required = |name: &str| ask.required.get(name);
        json!({
            "run_id": run, "document_id": required(field::DOCUMENT_ID), "gate": ask.gate,
            "occurrence": ask.occurrence, "approval_type": ask.approval_type, "ask": ask,
            "nonce": required(field::NONCE), "request_sha256": required(field::REQUEST_SHA256),
            "rows_digest": required(field::ROWS_DIGEST), "policy_head": required(field::POLICY_HEAD),
            "at": asked.at, "recorded_at": asked.at, "inserted_by": "cutter_exec",
        })
    });
    let stored = tables.asks.iter().filter(|((of, ..), _)| of == run);
    let answers = stored.flat_map(|(_, stored)| &stored.answers).map(|heard| {
        let a = &heard.answer;
        json!({
            "run_id": run, "gate": a.gate, "occurrence": a.occurrence, "sha256": a.sha256(),
            "decision": a.decision, "document": bytes(&a.document), "fingerprint": a.fingerprint,
            "actor": a.actor, "late": heard.late, "recorded_at": heard.recorded_at,
            "inserted_by": "cutter_review",
        })
    });
    let sets = tables.change_sets.values().filter(|s| s.run_id == *run).map(|s| {
        let of_set = |at: &super::rows::UnitRecord| at.change_set_id == s.change_set_id;
        let consent = answer(s.review_decision_id).filter(|a| a.decision == ReviewVerdict::Approve);
        let cut = s.kind == "cut";
        json!({
            "change_set_id": s.change_set_id, "run_id": run, "document_id": s.document_id,
            "kind": s.kind, "idempotency_key": s.idempotency_key, "entry_id": s.entry_id,
            "source_document_id": document(&s.document_id), "source_version_id": s.source_version_id,
            "review_decision_id": s.review_decision_id,
            "approval_id": consent.map(|a| a.approval_id), "writer_digest": s.writer_digest,
            "manifest_digest": s.manifest_digest, "region_sha": s.region_sha,
            "publication_type": s.publication_type, "at": s.at, "inserted_by": "cutter_exec",
            "unit_count": cut.then(|| tables.units.values().filter(|u| of_set(u)).count()),
            "source_bytes": tables.versions.get(&s.source_version_id).map(|v| v.content.len()),
            "live": !tables.voids.values().any(|v| v.change_set_id == s.change_set_id),
            "actor": tables.history.iter().find(|h| h.at == s.at).map(|h| &h.actor),
        })
    });
    let signatures = tables.signatures.values().filter(|s| s.run_id == *run).map(|s| {
        json!({
            "signature_id": s.signature_id, "change_set_id": s.change_set_id, "run_id": run,
            "duty": s.duty, "payload": s.payload, "public_key": s.public_key, "signature": s.signature,
            "at": s.at, "inserted_by": s.principal,
        })
    });
    let set = |id| tables.change_sets.get(id);
    let envelopes = tables.envelopes.values().filter(|e| e.run_id == *run).map(|e| {
        json!({
            "id": e.manifest_envelope_id, "change_set_id": e.change_set_id, "run_id": run,
            "entry_id": set(&e.change_set_id).map(|s| s.entry_id),
            "executor_signature_id": e.executor_signature_id, "envelope": e.envelope,
            "unit_count": e.unit_count, "at": e.at,
        })
    });
    let verdicts = tables.verify_results.values().filter(|v| v.run_id == *run).map(|v| {
        let moved = tables.history.iter().find(|h| h.at == v.at);
        json!({
            "id": v.verify_result_id, "change_set_id": v.change_set_id, "run_id": run,
            "entry_id": set(&v.change_set_id).map(|s| s.entry_id),
            "manifest_envelope_id": v.manifest_envelope_id, "passed": v.passed,
            "compensating_id": v.escalated.map(|ids| ids[0]),
            "escalation_entry_id": v.escalated.map(|ids| ids[1]), "prior_verify_result_id": null,
            "at": v.at, "actor": moved.map(|h| &h.actor), "inserted_by": v.principal,
        })
    });
    let voids = tables.voids.values().filter(|v| v.run_id == *run).map(|v| {
        json!({
            "void_id": v.void_id, "change_set_id": v.change_set_id, "run_id": run,
            "approval_id": v.approval_id, "reason": v.reason, "at": v.at,
        })
    });
    let cut = tables.entries.values().find(|e| e.run_id == *run);
    let version = cut.and_then(|e| tables.versions.get(&e.source_version_id));
    let versions = version.into_iter().map(|v| {
        json!({
            "source_version_id": v.source_version_id, "version_no": v.version_no, "sha256": v.sha256,
            "source_document_id": document(&v.document_id), "byte_length": v.content.len(),
        })
    });
    let mut units: Vec<_> = tables.units.values().filter(|u| u.run_id == *run).collect();
    units.sort_by_key(|u| u.ordinal);
    let units = units.into_iter().map(|u| {
        json!({
            "ordinal": u.ordinal, "unit_id": u.unit_id, "version_id": u.version_id,
            "anchor_id": u.anchor_id, "odd": "",
        })
    });
    [
        ("run_fence", fences.collect()),
        ("run_effect", effects.collect()),
        ("decision_backlog_entry", entries.collect()),
        ("decision_backlog_history", history.collect()),
        ("decision_backlog_sweep_log", sweeps.collect()),
        ("review_decision", decisions.collect()),
        ("review_approval", approvals.collect()),
        ("approval_use", uses.collect()),
        ("approval_ask", asks.collect()),
        ("approval_answer", answers.collect()),
        ("cut_change_set", sets.collect()),
        ("dot_pair_signature", signatures.collect()),
        ("manifest_envelope", envelopes.collect()),
        ("verify_result", verdicts.collect()),
        ("change_set_void", voids.collect()),
        ("source_version", versions.collect()),
        ("unit", units.collect()),
    ]
}
