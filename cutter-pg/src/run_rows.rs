//! The rows that a run left, all columns, for whoever checks them.

use std::collections::BTreeMap;

use cutter_core::record::evidence::RunRows;
use postgres::GenericClient;
use postgres::types::Json;
use serde_json::Value;

use crate::error::PgError;
use crate::row::get;
use crate::typed::params;

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

/// The columns of a table whose text is read elsewhere, and stands here by its digest.
const SOURCE: (&str, &str) = (
    "iu_core.source_version",
    "source_version_id, source_document_id, version_no, sha256, byte_length, manifest_digest, registered_by, registered_at",
);

/// One row for each unit, with the columns that do not follow from its change set, from the run,
/// or from what enacted or voided it.
const UNITS: &str = "
WITH cut AS MATERIALIZED (
    SELECT c.* FROM cutter_governance.cut_change_set c WHERE c.run_id = $1
), moved AS MATERIALIZED (
    SELECT c.change_set_id, 'enacted' AS to_status, w.approval_id AS reason_id, 'lifecycle_enactment' AS reason, w.at
    FROM cut c
    JOIN cutter_governance.run_effect e ON e.run_id = c.run_id AND e.effect = 'enact'
    JOIN cutter_governance.approval_use w ON w.effect_id = e.effect_id AND w.effect = 'enact'
    UNION ALL
    SELECT c.change_set_id, 'voided', d.void_id, d.reason, d.at
    FROM cut c JOIN cutter_governance.change_set_void d ON d.change_set_id = c.change_set_id
)
SELECT json_build_object('ordinal', u.ordinal, 'unit_id', u.unit_id, 'version_id', v.version_id,
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
        CASE WHEN EXISTS (SELECT FROM iu_core.iu_lifecycle_log o
            WHERE o.unit_id = u.unit_id AND o.to_status <> u.lifecycle_status) THEN 'iu_lifecycle_log' END))
FROM cut c
CROSS JOIN LATERAL (
    SELECT t.* FROM iu_core.information_unit t WHERE t.change_set_id = c.change_set_id OFFSET 0) u
LEFT JOIN LATERAL (
    SELECT t.version_id, t.version_seq, t.actor, t.created_at FROM iu_core.unit_version t
    WHERE t.unit_id = u.unit_id OFFSET 0) v ON true
LEFT JOIN LATERAL (
    SELECT t.anchor_id, t.source_bytes FROM iu_core.unit_anchor t WHERE t.unit_id = u.unit_id OFFSET 0) a ON true
LEFT JOIN LATERAL (
    SELECT t.* FROM iu_core.iu_lifecycle_log t
    WHERE t.unit_id = u.unit_id AND t.to_status = u.lifecycle_status OFFSET 0) l ON true
LEFT JOIN moved m ON m.change_set_id = c.change_set_id AND m.to_status = u.lifecycle_status
ORDER BY u.ordinal, u.unit_id";

/// Reads them: each table's rows from one statement, the units from another.
pub(crate) fn run_rows(client: &mut impl GenericClient, run_id: &str) -> Result<RunRows, PgError> {
    let name = |table: &str| table.rsplit('.').next().unwrap_or(table).to_owned();
    let mut rows = RunRows(TABLES.iter().map(|(table, _)| (name(table), Vec::new())).collect());
    let of_table = |(table, condition): &(&str, &str)| {
        let columns = if *table == SOURCE.0 { SOURCE.1 } else { "*" };
        format!(
            "SELECT '{}', to_jsonb(t) FROM (SELECT {columns} FROM {table}) t WHERE {condition}",
            name(table)
        )
    };
    let tables: Vec<String> = TABLES.iter().map(of_table).collect();
    // the facts of an effect are read elsewhere, and stand here by digest
    let statement = format!(
        "SELECT r.name, r.row - 'facts' || jsonb_build_object('facts_sha256',
             encode(sha256(convert_to(r.row ->> 'facts', 'UTF8')), 'hex'))
         FROM ({}) r(name, row)",
        tables.join(" UNION ALL ")
    );
    for row in client.query_typed(&statement, params![run_id])? {
        rows.0.entry(get(&row, 0)?).or_default().push(columns(&row, 1)?);
    }
    let units = client.query_typed(UNITS, params![run_id])?;
    let units = units.iter().map(|row| columns(row, 0)).collect::<Result<_, _>>()?;
    rows.0.insert("unit".to_owned(), units);
    Ok(rows)
}

fn columns(row: &postgres::Row, at: usize) -> Result<BTreeMap<String, Value>, PgError> {
    get::<_, Json<_>>(row, at).map(|Json(columns)| columns)
}
