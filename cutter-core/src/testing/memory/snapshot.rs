//! What must be equal between an undisturbed run and one that was killed and resumed.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::rows::Tables;
use super::world::World;
use crate::base::id::RunId;
use crate::record::evidence::RunRows;

fn rows<'a, T: Serialize + 'a>(rows: impl Iterator<Item = &'a T>) -> Value {
    rows.map(|row| serde_json::to_value(row).unwrap_or_else(|error| Value::String(error.to_string())))
        .collect()
}

/// The tables whose rows are of runs. Effects without the epoch that committed them.
fn of_runs(tables: &Tables) -> [(&'static str, Value); 16] {
    let effects = tables.effects.values().map(|effect| {
        let mut value = serde_json::to_value(effect).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.remove("fence_epoch");
        }
        value
    });
    [
        ("run_effect", effects.collect()),
        ("decision_backlog_entry", rows(tables.entries.values())),
        ("decision_backlog_history", rows(tables.history.iter())),
        ("decision_backlog_sweep_log", rows(tables.sweeps.values())),
        ("review_decision", rows(tables.decisions.values())),
        ("approval", rows(tables.approvals.values())),
        ("approval_use", rows(tables.approval_uses.values())),
        ("approval_ask", rows(tables.asks.values())),
        ("cut_change_set", rows(tables.change_sets.values())),
        ("change_set_void", rows(tables.voids.values())),
        ("information_unit", rows(tables.units.values())),
        ("dot_pair_signature", rows(tables.signatures.values())),
        ("manifest_envelope", rows(tables.envelopes.values())),
        ("verify_result", rows(tables.verify_results.values())),
        ("iu_lifecycle_log", rows(tables.log.values())),
        ("run_statement", rows(tables.statements.values().flatten())),
    ]
}

/// The rows that a run left. Its statement is about them, and none of them. What is judged by a column is
/// named as the database names it.
pub(super) fn rows_of(tables: &Tables, run_id: &RunId) -> RunRows {
    let own = |row: &&Value| {
        let places = ["/run_id", "/key/run_id", "/asked/ask/required/run_id"];
        places.iter().any(|place| row.pointer(place).and_then(Value::as_str) == Some(run_id.as_str()))
    };
    let of = |(table, rows): (&'static str, Value)| {
        let rows = rows.as_array().into_iter().flatten().filter(own);
        let named = |row: &Value| {
            let mut row: BTreeMap<String, Value> = serde_json::from_value(row.clone()).ok()?;
            let effect = row.get("key").and_then(|key| key.get("effect")).cloned();
            row.extend(effect.map(|effect| ("effect".to_string(), effect)));
            let kind = row.get(if table == "approval" { "gate" } else { "decision_type" }).cloned();
            row.extend(kind.map(|kind| ("type".to_string(), kind)));
            Some(row)
        };
        (table.to_string(), rows.filter_map(named).collect())
    };
    let tables = of_runs(tables).into_iter().filter(|(table, _)| *table != "run_statement");
    RunRows(tables.map(of).collect())
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
        let mut all: Map<String, Value> =
            of_runs(tables).into_iter().map(|(table, rows)| (table.to_string(), rows)).collect();
        let mut put = |name: &str, value: Value| all.insert(name.to_string(), value);
        put("source_document", rows(tables.documents.values()));
        put("source_version", rows(tables.versions.values()));
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
