//! The versions of a document, with their cuts, and which runs recorded that they enacted one.

use cutter_core::base::id::RunId;
use cutter_core::record::observed::{CutState, VersionCut};
use postgres::Client;
use uuid::Uuid;

use crate::error::PgError;
use crate::row::{get, parsed, unsigned};

/// Where the units of each cut stand is one probe of an index: a live cut's are drafts until they
/// are enacted, all of them.
const VERSIONS: &str = "
SELECT s.version_no, s.source_version_id, c.change_set_id, c.run_id, c.unit_count, CASE WHEN c.live AND EXISTS (SELECT
        FROM iu_core.information_unit u WHERE u.change_set_id = c.change_set_id AND u.lifecycle_status = 'enacted')
        THEN 'enacted' WHEN c.live THEN 'draft' ELSE 'voided' END AS status,
    EXISTS (SELECT FROM cutter_governance.run_effect e WHERE e.run_id = c.run_id AND e.effect = 'enact') AS enacted
FROM iu_core.source_document d
JOIN iu_core.source_version s ON s.source_document_id = d.source_document_id
LEFT JOIN cutter_governance.cut_change_set c
    ON c.document_id = d.document_id AND c.source_version_id = s.source_version_id AND c.kind = 'cut'
WHERE d.document_id = $1
ORDER BY s.version_no, c.at, c.change_set_id";

pub(crate) fn versions(client: &mut Client, document_id: &str) -> Result<Vec<VersionCut>, PgError> {
    let of = |row: &postgres::Row| {
        let cut = match get::<_, Option<Uuid>>(row, "change_set_id")? {
            None => None,
            Some(change_set_id) => Some(CutState {
                change_set_id,
                run_id: parsed(row, "run_id")?,
                unit_count: unsigned(row, "unit_count")?,
                status: parsed(row, "status")?,
                is_enacted: get(row, "enacted")?,
            }),
        };
        let (version_no, source_version_id) = (get(row, "version_no")?, get(row, "source_version_id")?);
        Ok(VersionCut { version_no, source_version_id, cut })
    };
    client.query(VERSIONS, &[&document_id])?.iter().map(of).collect()
}

/// A run is of the document whose effects it wrote, whichever row says otherwise since.
const ENACTED: &str = "
SELECT DISTINCT e.run_id FROM cutter_governance.run_effect e
WHERE e.effect = 'enact' AND e.verdict = 'commit' AND e.run_id IN (
    SELECT o.run_id FROM cutter_governance.run_effect o WHERE o.document_id = $1)
ORDER BY e.run_id";

pub(crate) fn enacted_runs(client: &mut Client, document_id: &str) -> Result<Vec<RunId>, PgError> {
    client.query(ENACTED, &[&document_id])?.iter().map(|row| parsed(row, "run_id")).collect()
}
