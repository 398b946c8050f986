//! What the model holds of one run.

use alloc::string::ToString;
use alloc::vec::Vec;

use uuid::Uuid;

use super::rows::{Lifecycle, Tables};
use crate::base::id::RunId;
use crate::record::evidence::{RunEvidence, StoredApproval, StoredSignature};

pub(super) fn evidence(tables: &Tables, run_id: &RunId) -> RunEvidence {
    let mut effects: Vec<_> = tables.effects.values().filter(|e| e.key.run_id == *run_id).cloned().collect();
    effects.sort_by(|a, b| {
        (a.at, a.key.effect.as_str(), a.key.occurrence).cmp(&(b.at, b.key.effect.as_str(), b.key.occurrence))
    });
    let entry = tables.entries.values().find(|e| e.run_id == *run_id && e.kind == "manifest");
    let history = tables
        .history
        .iter()
        .filter(|h| entry.is_some_and(|e| e.entry_id == h.entry_id))
        .map(|h| {
            let from = h.from_state.map_or("", |s| s.as_str());
            (from.to_string(), h.to_state.as_str().to_string())
        })
        .collect();
    let used_by = |id: &Uuid| tables.approval_uses.get(id).map(|u| u.used_by.effect.as_str().to_string());
    RunEvidence {
        fence_epoch: tables.fences.get(run_id).map(|f| f.epoch),
        effects,
        entry_status: entry.map(|e| e.status.as_str().to_string()),
        history,
        signatures: tables
            .signatures
            .values()
            .filter(|s| s.run_id == *run_id)
            .map(|s| StoredSignature {
                signature_id: s.signature_id,
                duty: s.duty.clone(),
                payload: s.payload.clone(),
                public_key: s.public_key.clone(),
                signature: s.signature.clone(),
                recorded_at: None,
            })
            .collect(),
        approvals: tables
            .approvals
            .values()
            .filter(|a| a.run_id == *run_id)
            .map(|a| StoredApproval {
                approval_id: a.approval_id,
                gate: a.gate.clone(),
                sha256: a.sha256,
                nonce: a.nonce.clone(),
                fingerprint: a.fingerprint.clone(),
                decision: a.decision,
                actor: a.actor.clone(),
                document: a.document.clone(),
                approval_kb_id: a.approval_kb_id.clone(),
                expires: a.expires,
                at: a.at,
                used_by: used_by(&a.approval_id),
                recorded_at: None,
            })
            .collect(),
        voided: tables.voids.values().any(|v| v.run_id == *run_id),
        verify_results: tables
            .verify_results
            .values()
            .filter(|v| v.run_id == *run_id)
            .map(|v| (v.verify_result_id, v.passed))
            .collect(),
        enacted_log_rows: tables
            .log
            .values()
            .filter(|l| l.run_id == *run_id && l.to_status == Lifecycle::Enacted)
            .count() as u64,
    }
}
