//! What a migration moves of the dimensions that runs pin, recorded beside it: so a run that had
//! begun before goes on, and does not stop on the schema's own change.

use std::collections::BTreeMap;

use postgres::Transaction;

use crate::error::PgError;

/// What every run would see of the schema: the survey of no document, by dimension. `None` where
/// no run has begun, or the schema cannot be surveyed yet.
pub(super) fn surveyed(
    transaction: &mut Transaction<'_>,
) -> Result<Option<BTreeMap<String, String>>, PgError> {
    let row = transaction.query_one(
        "SELECT pg_catalog.to_regclass('cutter_governance.run_fence') IS NOT NULL
             AND pg_catalog.to_regproc('cutter_governance.fn_survey') IS NOT NULL",
        &[],
    )?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = transaction.query_one("SELECT EXISTS (SELECT FROM cutter_governance.run_fence)", &[])?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let rows = transaction.query(
        "SELECT s.dimension, s.value FROM cutter_governance.fn_survey('', '', NULL, NULL) s
         WHERE s.dimension <> 'catalogue_stamp'",
        &[],
    )?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, PgError>>().map(Some)
}

/// Records what differs, of the migration just applied.
pub(super) fn record(
    transaction: &mut Transaction<'_>,
    version: i32,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Result<(), PgError> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names.into_iter().filter(|name| before.get(*name) != after.get(*name)) {
        transaction.execute(
            "INSERT INTO cutter_meta.migration_move (version, dimension, before_value, after_value)
             VALUES ($1, $2, $3, $4)",
            &[&version, name, &before.get(name), &after.get(name)],
        )?;
    }
    Ok(())
}
