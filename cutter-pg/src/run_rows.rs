//! The rows that a run left, all columns, for whoever checks them.

use std::collections::BTreeMap;

use cutter_core::port::database::RunRows;
use postgres::GenericClient;
use serde_json::Value;

use crate::error::PgError;
use crate::row::get;

/// Tables with the condition that says which rows are the run's. Where a table has no run, or a
/// row may lie about it, the run's entries and change sets lead to it.
const TABLES: [(&str, &str); 17] = [
    ("cutter_governance.run_fence", "t.run_id = $1"),
    ("cutter_governance.run_effect", "t.run_id = $1"),
    ("cutter_governance.decision_backlog_entry", "t.run_id = $1"),
    (
        "cutter_governance.decision_backlog_history",
        "t.entry_id IN (SELECT e.entry_id FROM cutter_governance.decision_backlog_entry e WHERE e.run_id = $1)",
    ),
    (
        "cutter_governance.decision_backlog_sweep_log",
        "t.document_id IN (SELECT e.document_id FROM cutter_governance.decision_backlog_entry e WHERE e.run_id = $1)
            AND (t.run_id = $1 OR t.promoted && ARRAY(
                SELECT e.entry_id FROM cutter_governance.decision_backlog_entry e WHERE e.run_id = $1))",
    ),
    ("cutter_governance.review_decision", "t.run_id = $1"),
    ("cutter_governance.review_approval", "t.run_id = $1"),
    (
        "cutter_governance.approval_use",
        "t.run_id = $1 OR t.approval_id IN (SELECT a.approval_id FROM cutter_governance.review_approval a WHERE a.run_id = $1)",
    ),
    ("cutter_governance.approval_ask", "t.run_id = $1"),
    ("cutter_governance.approval_answer", "t.run_id = $1"),
    ("cutter_governance.cut_change_set", "t.run_id = $1"),
    ("cutter_governance.dot_pair_signature", "t.run_id = $1"),
    (
        "cutter_governance.manifest_envelope",
        "t.run_id = $1 OR t.change_set_id IN (SELECT c.change_set_id FROM cutter_governance.cut_change_set c WHERE c.run_id = $1)",
    ),
    (
        "cutter_governance.verify_result",
        "t.run_id = $1 OR t.change_set_id IN (SELECT c.change_set_id FROM cutter_governance.cut_change_set c WHERE c.run_id = $1)",
    ),
    (
        "cutter_governance.change_set_void",
        "t.run_id = $1 OR t.change_set_id IN (SELECT c.change_set_id FROM cutter_governance.cut_change_set c WHERE c.run_id = $1)",
    ),
    (
        "iu_core.source_version",
        "t.source_version_id IN (
            SELECT e.source_version_id FROM cutter_governance.decision_backlog_entry e WHERE e.run_id = $1)",
    ),
    (
        "iu_core.source_document",
        "t.document_id IN (SELECT f.document_id FROM cutter_governance.run_fence f WHERE f.run_id = $1)",
    ),
];

/// One row for each unit, with the columns that do not follow from its change set, from the run,
/// or from what enacted or voided it.
const UNITS: &str = "
SELECT jsonb_build_object('ordinal', u.ordinal, 'unit_id', u.unit_id, 'version_id', v.version_id,
    'anchor_id', a.anchor_id, 'odd', concat_ws(', ',
        CASE WHEN u.document_id <> c.document_id THEN 'document_id' END,
        CASE WHEN u.source_document_id <> c.source_document_id THEN 'source_document_id' END,
        CASE WHEN u.source_version_id <> c.source_version_id THEN 'source_version_id' END,
        CASE WHEN u.created_at <> c.at THEN 'created_at' END,
        CASE WHEN v.version_seq IS DISTINCT FROM 1 THEN 'unit_version.version_seq' END,
        CASE WHEN v.actor IS DISTINCT FROM c.actor THEN 'unit_version.actor' END,
        CASE WHEN v.created_at IS DISTINCT FROM c.at THEN 'unit_version.created_at' END,
        CASE WHEN a.source_bytes IS DISTINCT FROM c.source_bytes THEN 'unit_anchor.source_bytes' END,
        CASE WHEN u.lifecycle_status = 'draft' THEN NULL
             WHEN l.unit_id IS NULL THEN 'iu_lifecycle_log'
             ELSE concat_ws(', ',
                CASE WHEN l.change_set_id <> c.change_set_id THEN 'iu_lifecycle_log.change_set_id' END,
                CASE WHEN l.run_id <> c.run_id THEN 'iu_lifecycle_log.run_id' END,
                CASE WHEN l.reason_id IS DISTINCT FROM m.reason_id THEN 'iu_lifecycle_log.reason_id' END,
                CASE WHEN l.reason IS DISTINCT FROM m.reason THEN 'iu_lifecycle_log.reason' END,
                CASE WHEN l.at IS DISTINCT FROM m.at THEN 'iu_lifecycle_log.at' END,
                CASE WHEN l.actor IS DISTINCT FROM min(l.actor) OVER () THEN 'iu_lifecycle_log.actor' END) END,
        CASE WHEN x.others > 0 THEN 'iu_lifecycle_log' END))
FROM cutter_governance.cut_change_set c
JOIN iu_core.information_unit u ON u.change_set_id = c.change_set_id
LEFT JOIN iu_core.unit_version v ON v.unit_id = u.unit_id
LEFT JOIN iu_core.unit_anchor a ON a.unit_id = u.unit_id
LEFT JOIN iu_core.iu_lifecycle_log l ON l.unit_id = u.unit_id AND l.to_status = u.lifecycle_status
CROSS JOIN LATERAL (
    SELECT count(*) AS others FROM iu_core.iu_lifecycle_log o
    WHERE o.unit_id = u.unit_id AND o.to_status <> u.lifecycle_status
) x
LEFT JOIN LATERAL (
    SELECT w.approval_id AS reason_id, 'lifecycle_enactment' AS reason, w.at
    FROM cutter_governance.approval_use w
    WHERE u.lifecycle_status = 'enacted' AND w.effect = 'enact' AND w.effect_id IN (
        SELECT e.effect_id FROM cutter_governance.run_effect e WHERE e.run_id = c.run_id AND e.effect = 'enact')
    UNION ALL
    SELECT d.void_id, d.reason, d.at FROM cutter_governance.change_set_void d
    WHERE u.lifecycle_status = 'voided' AND d.change_set_id = c.change_set_id
) m ON true
WHERE c.run_id = $1
ORDER BY u.ordinal, u.unit_id";

/// Reads them.
pub(crate) fn run_rows(client: &mut impl GenericClient, run_id: &str) -> Result<RunRows, PgError> {
    let mut rows = RunRows::default();
    for (table, condition) in TABLES {
        // the facts of an effect and the text of a source are read elsewhere, and stand here by digest
        let statement = format!(
            "SELECT to_jsonb(t) - 'facts' - 'content' || jsonb_build_object('facts_sha256',
                 encode(sha256(convert_to(to_jsonb(t) ->> 'facts', 'UTF8')), 'hex'))
             FROM {table} t WHERE {condition}"
        );
        let name = table.rsplit('.').next().unwrap_or(table);
        rows.0.insert(name.to_owned(), read(client, &statement, run_id)?);
    }
    rows.0.insert("unit".to_owned(), read(client, UNITS, run_id)?);
    Ok(rows)
}

fn read(
    client: &mut impl GenericClient,
    statement: &str,
    run_id: &str,
) -> Result<Vec<BTreeMap<String, Value>>, PgError> {
    let of = |row: &postgres::Row| {
        let value: Value = get(row, 0)?;
        serde_json::from_value(value).map_err(|e| PgError::Shape(e.to_string()))
    };
    client.query(statement, &[&run_id])?.iter().map(of).collect()
}
