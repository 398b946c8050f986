//! What the store's statements ask with and what they answer.

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::id::RunId;
use cutter_core::port::run_store::{Claim, LockHolder, StopRequest, StoredRevision};
use cutter_core::port::{PortErrorKind, PortResult};
use postgres::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::error;
use crate::error::PgError;
use crate::row::{get, unsigned};

pub(super) fn holder_of(text: &str) -> Result<LockHolder, PgError> {
    serde_json::from_str(text).map_err(|e| PgError::Shape(format!("column holder: {e}")))
}

pub(super) fn stop_of(value: Option<serde_json::Value>) -> Result<Option<StopRequest>, PgError> {
    let parsed = value.map(serde_json::from_value).transpose();
    parsed.map_err(|e| PgError::Shape(format!("column stop: {e}")))
}

pub(super) fn revision_of(row: &Row) -> Result<StoredRevision, PgError> {
    Ok(StoredRevision { revision: unsigned(row, "revision")?, bytes: get(row, "body")? })
}

/// The highest revisions of as many runs as were asked for; a run that is not there has none.
pub(super) fn newest(rows: &[Row], asked: usize) -> Result<Vec<Option<StoredRevision>>, PgError> {
    if rows.len() != asked {
        return Err(PgError::Shape(format!("{} answers about {asked} runs", rows.len())));
    }
    let stored = |row| get::<_, Option<i64>>(row, "revision")?.map(|_| revision_of(row)).transpose();
    rows.iter().map(stored).collect()
}

/// `outcome` and `highest` of a compare-and-set.
pub(super) fn cas(row: &Row) -> Result<CasOutcome<u64>, PgError> {
    match get::<_, &str>(row, "outcome")? {
        "applied" => Ok(CasOutcome::Applied),
        "already_applied" => Ok(CasOutcome::AlreadyApplied),
        "conflict" => Ok(CasOutcome::Conflict { found: unsigned(row, "highest")? }),
        other => Err(PgError::Shape(format!("column outcome: {other:?}"))),
    }
}

/// What `fn_run_publish` answered: NULL is a save, and nobody asked for a stop.
pub(super) fn saved(row: &Row) -> Result<(CasOutcome<u64>, Option<StopRequest>), PgError> {
    let Some(answer) = get::<_, Option<serde_json::Value>>(row, 0)? else {
        return Ok((CasOutcome::Applied, None));
    };
    let answer: Saved =
        serde_json::from_value(answer).map_err(|e| PgError::Shape(format!("fn_run_publish: {e}")))?;
    let outcome = match answer.outcome {
        Word::Applied => CasOutcome::Applied,
        Word::AlreadyApplied => CasOutcome::AlreadyApplied,
        Word::Conflict => CasOutcome::Conflict { found: answer.highest },
    };
    Ok((outcome, answer.stop))
}

#[derive(Deserialize)]
struct Saved {
    outcome: Word,
    highest: u64,
    stop: Option<StopRequest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Applied,
    AlreadyApplied,
    Conflict,
}

/// What `fn_lease_take` answered.
pub(super) struct Taken {
    pub(super) token: Option<i64>,
    pub(super) holder: LockHolder,
    pub(super) left_ms: Option<i64>,
    pub(super) stop: Option<StopRequest>,
}

impl Taken {
    pub(super) fn of(row: &Row) -> Result<Self, PgError> {
        Ok(Self {
            token: get(row, "token")?,
            holder: holder_of(get(row, "holder")?)?,
            left_ms: get(row, "left_ms")?,
            stop: stop_of(get(row, "stop")?)?,
        })
    }
}

/// Who asks for a lease, as stored, and the number of this attempt: two tasks of one process exclude
/// each other, and an answer that was lost is found again.
pub(super) fn asking(holder: &LockHolder) -> PortResult<(String, Uuid)> {
    let invalid = |e: String| error("lock", PortErrorKind::Invalid, e);
    let text = serde_json::to_string(holder).map_err(|e| invalid(e.to_string()))?;
    Ok((text, attempt_id().map_err(|e| invalid(e.to_string()))?))
}

/// What `fn_claim_put` answered.
pub(super) struct PutClaim {
    word: String,
    standing: Option<RunId>,
    newest: u64,
}

impl PutClaim {
    /// `None` if it was not asked.
    pub(super) fn of(row: &Row) -> Result<Option<Self>, PgError> {
        let Some(word) = get::<_, Option<String>>(row, "claimed")? else { return Ok(None) };
        let standing = get::<_, Option<&str>>(row, "standing")?;
        let standing = standing
            .map(|text| text.parse::<RunId>().map_err(|e| PgError::Shape(format!("column standing: {e}"))));
        Ok(Some(Self { word, standing: standing.transpose()?, newest: unsigned(row, "newest")? }))
    }

    pub(super) fn outcome(self, claim: &Claim) -> PortResult<CasOutcome<Claim>> {
        match (self.word.as_str(), self.standing) {
            ("applied", _) => Ok(CasOutcome::Applied),
            ("already_applied", _) => Ok(CasOutcome::AlreadyApplied),
            ("conflict", Some(run_id)) => {
                Ok(CasOutcome::Conflict { found: Claim { run_id, ..claim.clone() } })
            }
            ("gap", _) => {
                let expected = self.newest + 1;
                let message =
                    format!("expected a generation from 1 to {expected}, observed {}", claim.generation);
                Err(error("put_claim", PortErrorKind::Invalid, message))
            }
            (other, _) => {
                Err(error("put_claim", PortErrorKind::Corrupt, format!("column claimed: {other:?}")))
            }
        }
    }
}

/// A random identifier.
fn attempt_id() -> Result<Uuid, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}
