//! Rows to core types, and back. A value that does not fit is [`PgError::Shape`], never a
//! default.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::record::effect::{EffectFacts, EffectKey, EffectName, EffectRecord, Verdict};
use jiff::Timestamp;
use postgres::Row;
use postgres::row::RowIndex;
use postgres::types::FromSql;

use crate::error::PgError;

/// A column's value.
pub(crate) fn get<'r, I, T>(row: &'r Row, column: I) -> Result<T, PgError>
where
    I: RowIndex + std::fmt::Display,
    T: FromSql<'r>,
{
    Ok(row.try_get(column)?)
}

/// A text column that holds something with a spelling: a digest, a run id.
pub(crate) fn parsed<T>(row: &Row, column: &str) -> Result<T, PgError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    parse(get::<_, &str>(row, column)?, column)
}

/// As [`parsed`], for a column that may be NULL.
pub(crate) fn parsed_opt<T>(row: &Row, column: &str) -> Result<Option<T>, PgError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    get::<_, Option<&str>>(row, column)?.map(|text| parse(text, column)).transpose()
}

fn parse<T>(text: &str, column: &str) -> Result<T, PgError>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| PgError::Shape(format!("column {column}: {error}")))
}

/// A count or an offset, which is never negative.
pub(crate) fn unsigned(row: &Row, column: &str) -> Result<u64, PgError> {
    let number: i64 = get(row, column)?;
    u64::try_from(number).map_err(|_| PgError::Shape(format!("column {column}: {number} is negative")))
}

/// A number for a `bigint` parameter.
pub(crate) fn bigint(number: u64) -> Result<i64, PgError> {
    i64::try_from(number).map_err(|_| PgError::Shape(format!("{number} does not fit a bigint")))
}

/// A timestamp column.
pub(crate) fn timestamp(row: &Row, column: &str) -> Result<Timestamp, PgError> {
    from_system(get(row, column)?, column)
}

/// A timestamp column that may be NULL.
pub(crate) fn timestamp_opt(row: &Row, column: &str) -> Result<Option<Timestamp>, PgError> {
    get::<_, Option<SystemTime>>(row, column)?.map(|time| from_system(time, column)).transpose()
}

fn from_system(time: SystemTime, column: &str) -> Result<Timestamp, PgError> {
    let micros = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()),
        Err(before) => i64::try_from(before.duration().as_micros()).map(|micros| -micros),
    };
    let range = || PgError::Shape(format!("column {column}: a time out of range"));
    Timestamp::from_microsecond(micros.map_err(|_| range())?).map_err(|_| range())
}

/// A time for a `timestamptz` parameter, in whole microseconds, rounded down.
pub(crate) fn system_time(time: Timestamp) -> SystemTime {
    let micros = time.as_nanosecond().div_euclid(1_000);
    let length = Duration::from_micros(u64::try_from(micros.unsigned_abs()).unwrap_or(u64::MAX));
    // Years 0 to 9999 are within what the platform's time holds.
    let shifted = if micros < 0 { UNIX_EPOCH.checked_sub(length) } else { UNIX_EPOCH.checked_add(length) };
    shifted.unwrap_or(UNIX_EPOCH)
}

/// What the database keeps of a time: whole microseconds.
pub(crate) fn microseconds(time: Timestamp) -> Timestamp {
    let micros = i64::try_from(time.as_nanosecond().div_euclid(1_000)).unwrap_or_default();
    Timestamp::from_microsecond(micros).unwrap_or(time)
}

/// The stored spelling of a verdict that is committed.
pub(crate) const fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Commit => "commit",
        Verdict::CommitFailure => "commit_failure",
        Verdict::Rollback => "rollback",
    }
}

/// The columns of `run_effect` that [`effect_record`] reads.
pub(crate) const EFFECT_COLUMNS: &str =
    "run_id, effect, occurrence, effect_id, fence_epoch, payload_sha256, verdict, facts, at";

/// A row of `run_effect`.
pub(crate) fn effect_record(row: &Row) -> Result<EffectRecord, PgError> {
    let name: &str = get(row, "effect")?;
    let verdict: &str = get(row, "verdict")?;
    let occurrence: i32 = get(row, "occurrence")?;
    let facts: serde_json::Value = get(row, "facts")?;
    Ok(EffectRecord {
        key: EffectKey {
            run_id: parsed::<RunId>(row, "run_id")?,
            effect: EffectName::parse(name)
                .ok_or_else(|| PgError::Shape(format!("column effect: no effect is called {name:?}")))?,
            occurrence: u32::try_from(occurrence)
                .map_err(|_| PgError::Shape(format!("column occurrence: {occurrence} is negative")))?,
        },
        effect_id: get(row, "effect_id")?,
        fence_epoch: get(row, "fence_epoch")?,
        payload_sha256: parsed::<Digest>(row, "payload_sha256")?,
        verdict: match verdict {
            "commit" => Verdict::Commit,
            "commit_failure" => Verdict::CommitFailure,
            other => return Err(PgError::Shape(format!("column verdict: {other:?}"))),
        },
        facts: serde_json::from_value::<EffectFacts>(facts)
            .map_err(|error| PgError::Shape(format!("column facts: {error}")))?,
        at: timestamp(row, "at")?,
    })
}
