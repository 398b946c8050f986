//! What stands among the units and that no run stands behind: for the audit, which otherwise begins at
//! entries and would never meet it.

use cutter_core::port::PortResult;

use crate::database::PgDatabase;
use crate::row::get;

/// Each line names a row and what is missing behind it.
const STRAYS: &str = "
SELECT 'cut_change_set ' || c.change_set_id || ' of run ' || c.run_id || ': ' || m.what
FROM cutter_governance.cut_change_set c
CROSS JOIN LATERAL (VALUES
    ('no fence of its run', NOT EXISTS (SELECT FROM cutter_governance.run_fence f
        WHERE f.run_id = c.run_id AND f.document_id = c.document_id)),
    ('no entry of its run', NOT EXISTS (SELECT FROM cutter_governance.decision_backlog_entry e
        WHERE e.entry_id = c.entry_id AND e.run_id = c.run_id)),
    ('no effect that wrote it', c.kind = 'cut' AND NOT EXISTS (SELECT FROM cutter_governance.run_effect e
        WHERE e.run_id = c.run_id AND e.effect = 'leg_a' AND e.verdict = 'commit')),
    ('no approval that was used for it', c.kind = 'cut' AND NOT EXISTS (SELECT FROM cutter_governance.approval_use u
        WHERE u.run_id = c.run_id AND u.effect = 'leg_a' AND u.approval_id = c.approval_id)),
    ('no units', c.kind = 'cut' AND c.unit_count > 0 AND NOT EXISTS (SELECT FROM iu_core.information_unit u
        WHERE u.change_set_id = c.change_set_id)),
    ('it is turned off, and no void says so', c.kind = 'cut' AND NOT c.live AND NOT EXISTS (
        SELECT FROM cutter_governance.change_set_void v WHERE v.change_set_id = c.change_set_id)),
    ('no version of its document', NOT EXISTS (SELECT FROM iu_core.source_version v
        JOIN iu_core.source_document d ON d.source_document_id = v.source_document_id
        WHERE v.source_version_id = c.source_version_id AND d.document_id = c.document_id)),
    ('it compensates no change set of its run', c.kind <> 'cut' AND NOT EXISTS (
        SELECT FROM cutter_governance.cut_change_set o
        WHERE o.change_set_id = c.compensates_id AND o.run_id = c.run_id))
) AS m(what, is_so)
WHERE m.is_so
UNION ALL
SELECT 'run_effect ' || e.effect || ' of run ' || e.run_id || ': ' || m.what
FROM cutter_governance.run_effect e
CROSS JOIN LATERAL (VALUES
    ('no entry of its run', e.effect = 'mark' AND NOT EXISTS (
        SELECT FROM cutter_governance.decision_backlog_entry b WHERE b.run_id = e.run_id)),
    ('no change set of its run', e.effect = 'leg_a' AND e.verdict = 'commit' AND NOT EXISTS (
        SELECT FROM cutter_governance.cut_change_set c WHERE c.run_id = e.run_id AND c.kind = 'cut'))
) AS m(what, is_so)
WHERE m.is_so
UNION ALL
SELECT 'information_unit: ' || u.units || ' ' || u.lifecycle_status || ' units of change set ' || u.change_set_id
    || ': ' || m.what
FROM (
    SELECT i.change_set_id, i.source_version_id, i.lifecycle_status, count(*) AS units
    FROM iu_core.information_unit i GROUP BY 1, 2, 3
) u
LEFT JOIN cutter_governance.cut_change_set c USING (change_set_id)
CROSS JOIN LATERAL (VALUES
    ('there is no such change set', c.change_set_id IS NULL),
    ('it is of another version', u.source_version_id <> c.source_version_id),
    ('it holds ' || c.unit_count, u.units <> c.unit_count),
    ('no effect enacted them', u.lifecycle_status = 'enacted' AND NOT EXISTS (
        SELECT FROM cutter_governance.run_effect e
        JOIN cutter_governance.approval_use w ON w.effect_id = e.effect_id
        WHERE e.run_id = c.run_id AND e.effect = 'enact' AND e.verdict = 'commit'))
) AS m(what, is_so)
WHERE m.is_so
UNION ALL
SELECT 'source_version ' || s.source_version_id || ': expected version ' || s.place || ' of its document, observed '
    || s.version_no
FROM (
    SELECT v.source_version_id, v.version_no,
        row_number() OVER (PARTITION BY v.source_document_id ORDER BY v.registered_at, v.version_no) AS place
    FROM iu_core.source_version v
) s
WHERE s.version_no <> s.place
ORDER BY 1";

impl PgDatabase {
    /// Change sets, units and versions that no run, entry, effect or approval stands behind, one line each.
    ///
    /// # Errors
    /// The database's.
    pub async fn strays(&self) -> PortResult<Vec<String>> {
        self.read("strays", move |client| {
            let rows = client.query_typed(STRAYS, &[])?;
            rows.iter().map(|row| get(row, 0)).collect()
        })
        .await
    }
}
