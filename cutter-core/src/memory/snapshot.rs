//! What must be equal between an undisturbed run and one that was killed and resumed.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::world::World;

fn rows<'a, T: Serialize + 'a>(rows: impl Iterator<Item = &'a T>) -> Value {
    rows.map(|row| serde_json::to_value(row).unwrap_or_else(|error| Value::String(error.to_string())))
        .collect()
}

impl World {
    /// All rows with their ids (effects without the epoch that committed them), all documents
    /// of the knowledge base with every revision, and all claims: as JSON, one value a line.
    /// Not part of it, because a resumed run may differ in it: fences, backups (named after
    /// the epoch), sidecar revisions, mirrors, locks, the clock.
    #[must_use]
    pub fn snapshot(&self) -> String {
        let inner = self.lock();
        let tables = &inner.data.tables;
        let effects = tables.effects.values().map(|effect| {
            let mut value = serde_json::to_value(effect).unwrap_or_default();
            if let Some(object) = value.as_object_mut() {
                object.remove("fence_epoch");
            }
            value
        });
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| all.insert(name.to_string(), value);
        put("source_document", rows(tables.documents.values()));
        put("source_version", rows(tables.versions.values()));
        put("run_effect", effects.collect());
        put("decision_backlog_entry", rows(tables.entries.values()));
        put("decision_backlog_history", rows(tables.history.iter()));
        put("decision_backlog_sweep_log", rows(tables.sweeps.values()));
        put("review_decision", rows(tables.decisions.values()));
        put("approval", rows(tables.approvals.values()));
        put("approval_use", rows(tables.approval_uses.values()));
        put("approval_ask", rows(tables.asks.values()));
        put("cut_change_set", rows(tables.change_sets.values()));
        put("change_set_void", rows(tables.voids.values()));
        put("information_unit", rows(tables.units.values()));
        put("dot_pair_signature", rows(tables.signatures.values()));
        put("manifest_envelope", rows(tables.envelopes.values()));
        put("verify_result", rows(tables.verify_results.values()));
        put("iu_lifecycle_log", rows(tables.log.values()));
        put("cut_request", rows(tables.requests.values()));
        put("cut_request_transition", rows(tables.request_transitions.iter()));
        put("iu_staging_record", rows(tables.staging.values()));
        put("claim", rows(inner.data.runs.claims.values().flatten()));
        let mut text = String::new();
        for (table, value) in all {
            for row in value.as_array().into_iter().flatten() {
                text.push_str(&format!("{table} {row}\n"));
            }
        }
        for (path, revisions) in &inner.data.documents.0 {
            let revisions: Vec<_> = revisions.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
            text.push_str(&format!("document {}\n", json!({ "path": path, "revisions": revisions })));
        }
        text
    }
}
