//! What observers ask of an open transaction or session: survey, grant probe, structural
//! counts. Every login that writes may ask too, inside its own transaction.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cutter_core::gate::drift;
use cutter_core::record::observed::{GrantFact, GrantSnapshot, StructuralFacts, Survey, SurveyScope};
use postgres::GenericClient;
use uuid::Uuid;

use crate::error::PgError;
use crate::row::{get, parsed_opt, unsigned};
use crate::typed::params;

/// The row of a survey that names the state of the catalogue; not a dimension of drift.
const STAMP: &str = "catalogue_stamp";

/// What is known of one state of the server's catalogue, by its stamp. Fingerprints of functions,
/// triggers and grants are dear, and asked for some thirty times a run; the stamp is cheap, read
/// in the same snapshot each time, and another one as soon as anything of it changed.
#[derive(Debug, Default)]
pub(crate) struct CatalogueCache(Mutex<Known>);

#[derive(Debug, Default, Clone)]
struct Known {
    stamp: Option<String>,
    /// Dimensions of the survey that come from the catalogue.
    dimensions: BTreeMap<String, String>,
    grants: Option<GrantSnapshot>,
}

impl CatalogueCache {
    fn known(&self) -> Known {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, stamp: String, teach: impl FnOnce(&mut Known)) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.stamp.as_ref() != Some(&stamp) {
            *known = Known { stamp: Some(stamp), ..Known::default() };
        }
        teach(&mut known);
    }
}

fn is_of_catalogue(dimension: &str) -> bool {
    dimension.starts_with("function.") || matches!(dimension, drift::TRIGGERS | drift::GRANTS)
}

/// Live values by dimension (PROTOCOL §4), from one statement and so from one snapshot.
pub(crate) fn survey(
    client: &mut impl GenericClient,
    scope: &SurveyScope,
    cache: &CatalogueCache,
) -> Result<Survey, PgError> {
    let known = cache.known();
    let stamp = known.stamp.filter(|_| !known.dimensions.is_empty());
    let run_id = scope.run_id.as_str();
    let rows = client.query_typed(
        "SELECT s.dimension, s.value FROM cutter_governance.fn_survey($1, $2, $3, $4, $5) s",
        params![scope.document_id, run_id, scope.entry_id, scope.review_decision_id, stamp],
    )?;
    let mut values = BTreeMap::new();
    for row in &rows {
        values.insert(get(row, 0)?, get(row, 1)?);
    }
    let observed: String =
        values.remove(STAMP).ok_or_else(|| PgError::Shape(format!("the survey has no {STAMP}")))?;
    if stamp.as_ref() == Some(&observed) {
        values.extend(known.dimensions);
    } else {
        let dimensions = values.iter().filter(|(name, _)| is_of_catalogue(name));
        let dimensions = dimensions.map(|(name, value)| (name.clone(), value.clone())).collect();
        cache.learn(observed, |known| known.dimensions = dimensions);
    }
    Ok(Survey(values))
}

/// The grant probe (IG_grant_probe).
pub(crate) fn grants(
    client: &mut impl GenericClient,
    cache: &CatalogueCache,
) -> Result<GrantSnapshot, PgError> {
    let known = cache.known();
    if let Some(grants) = known.grants {
        let stamp = client.query_typed_one("SELECT cutter_governance.fn_catalogue_stamp()", params![])?;
        if known.stamp == Some(get(&stamp, 0)?) {
            return Ok(grants);
        }
    }
    // Stamp and probe from one statement: what is learned is of one snapshot.
    let rows = client.query_typed(
        "SELECT p.section, p.name, p.wanted, p.holds, s.stamp
         FROM cutter_governance.fn_catalogue_stamp() s(stamp) LEFT JOIN cutter_governance.fn_grant_probe() p ON true
         ORDER BY p.section, p.name COLLATE \"C\"",
        params![],
    )?;
    let mut snapshot = GrantSnapshot::default();
    let mut stamp = String::new();
    for row in &rows {
        stamp = get(row, 4)?;
        let Some(name) = get::<_, Option<String>>(row, 1)? else { continue };
        match get::<_, &str>(row, 0)? {
            "fact" => snapshot.facts.push(GrantFact { name, wanted: get(row, 2)?, holds: get(row, 3)? }),
            "public_execute" => snapshot.public_execute.push(name),
            "violation" => snapshot.violations.push(name),
            other => return Err(PgError::Shape(format!("the grant probe has no section {other:?}"))),
        }
    }
    cache.learn(stamp, |known| known.grants = Some(snapshot.clone()));
    Ok(snapshot)
}

/// One scan of the change set's rows; texts are hashed in the server. Each unit's text and anchor are
/// fetched by its id, so that no plan reads the tables of all documents.
const STRUCTURAL: &str = "
WITH units AS MATERIALIZED (
    SELECT u.unit_id, u.ordinal, u.canonical_address AS address, u.unit_kind, u.section_type,
        u.lifecycle_status, u.content_hash, u.document_id
    FROM iu_core.information_unit u WHERE u.change_set_id = $1
), texts AS MATERIALIZED (
    SELECT u.unit_id, count(*) AS versions,
        (array_agg(v.content ORDER BY v.version_seq DESC))[1] AS content
    FROM units u CROSS JOIN LATERAL (
        SELECT t.content, t.version_seq FROM iu_core.unit_version t WHERE t.unit_id = u.unit_id OFFSET 0) v
    GROUP BY u.unit_id
), anchors AS MATERIALIZED (
    SELECT u.unit_id, a.start_byte FROM units u CROSS JOIN LATERAL (
        SELECT t.start_byte FROM iu_core.unit_anchor t WHERE t.unit_id = u.unit_id OFFSET 0) a
)
SELECT
    (SELECT count(*) FROM units) AS units,
    (SELECT coalesce(sum(t.versions), 0)::bigint FROM texts t) AS versions,
    (SELECT count(*) FROM anchors) AS anchors,
    (SELECT count(DISTINCT u.address) FROM units u) AS distinct_addresses,
    (SELECT encode(sha256(convert_to(string_agg(d.address || E'\\n', '' ORDER BY d.address), 'UTF8')), 'hex')
     FROM (SELECT DISTINCT u.address FROM units u) d) AS addresses_sha,
    (SELECT count(*) FROM units u LEFT JOIN texts t USING (unit_id)
     WHERE encode(sha256(t.content), 'hex') IS DISTINCT FROM u.content_hash) AS hash_mismatches,
    (SELECT coalesce(jsonb_object_agg(k.word, k.n), '{}')
     FROM (SELECT u.section_type AS word, count(*) AS n FROM units u GROUP BY 1) k) AS section_types,
    (SELECT coalesce(jsonb_object_agg(k.word, k.n), '{}')
     FROM (SELECT u.unit_kind AS word, count(*) AS n FROM units u GROUP BY 1) k) AS unit_kinds,
    (SELECT count(*) FROM units u WHERE u.lifecycle_status <> 'draft') AS non_draft,
    (SELECT count(*) FROM units u
     WHERE u.address <> $2 AND regexp_replace(u.address, '/[^/]*$', '') <> $2
         AND NOT EXISTS (SELECT FROM units p
                         WHERE p.address = regexp_replace(u.address, '/[^/]*$', '') AND p.unit_id <> u.unit_id)
    ) AS orphans,
    (SELECT encode(sha256(string_agg(t.content, ''::bytea ORDER BY a.start_byte, u.ordinal)), 'hex')
     FROM units u JOIN texts t USING (unit_id) JOIN anchors a USING (unit_id)) AS region_sha,
    (SELECT count(*) FROM units u
     WHERE NOT (u.address = $2 OR starts_with(u.address, $2 || '/'))
         OR EXISTS (SELECT FROM unnest($3::text[]) f
                    WHERE u.address = f COLLATE \"C\" OR starts_with(u.address, f || '/'))) AS forbidden";

/// Structural counts over a change set (IG_structural_verify).
pub(crate) fn structural(
    client: &mut impl GenericClient,
    change_set_id: Uuid,
    document_id: &str,
    forbidden_prefixes: &[String],
) -> Result<StructuralFacts, PgError> {
    let row = client.query_one(STRUCTURAL, &[&change_set_id, &document_id, &forbidden_prefixes])?;
    let counts = |column: &str| -> Result<BTreeMap<String, u64>, PgError> {
        let value: serde_json::Value = get(&row, column)?;
        serde_json::from_value(value).map_err(|error| PgError::Shape(format!("column {column}: {error}")))
    };
    Ok(StructuralFacts {
        units: unsigned(&row, "units")?,
        versions: unsigned(&row, "versions")?,
        anchors: unsigned(&row, "anchors")?,
        distinct_addresses: unsigned(&row, "distinct_addresses")?,
        addresses_sha: parsed_opt(&row, "addresses_sha")?,
        hash_mismatches: unsigned(&row, "hash_mismatches")?,
        section_types: counts("section_types")?,
        unit_kinds: counts("unit_kinds")?,
        non_draft: unsigned(&row, "non_draft")?,
        orphans: unsigned(&row, "orphans")?,
        region_sha: parsed_opt(&row, "region_sha")?,
        forbidden: unsigned(&row, "forbidden")?,
    })
}
