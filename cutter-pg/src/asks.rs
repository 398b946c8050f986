//! Asks and the answers to them, as rows.

use std::time::Duration;

use cutter_core::port::PortResult;
use cutter_core::port::ask::{AnswerWrite, AskWrite, StoredAnswer, StoredAsk};
use cutter_core::port::database::Fence;
use cutter_core::port::effect::ReviewVerdict;
use jiff::Timestamp;
use postgres::{Client, Row};
use serde::de::DeserializeOwned;

use crate::database::{PgDatabase, connection};
use crate::error::PgError;
use crate::login::Login;
use crate::row::{get, parsed_opt, system_time};

/// Longest wait for an ask or an answer: both wait for no more than the ask's row.
const LIMIT: Duration = Duration::from_secs(30);

impl PgDatabase {
    /// `fn_ask_open`, by the executor.
    pub(crate) async fn store_ask(&self, fence: &Fence, write: &AskWrite) -> PortResult<()> {
        let (fence, write) = (fence.clone(), write.clone());
        self.alone(Login::Exec, "open_ask", move |client| open(client, &fence, &write)).await
    }

    /// `fn_answer_record`, by the reviewer: all of them, or none.
    pub(crate) async fn store_answers(&self, run_id: &str, answers: &[AnswerWrite]) -> PortResult<()> {
        let (run_id, answers) = (run_id.to_owned(), answers.to_vec());
        self.alone(Login::Review, "record_answers", move |client| record(client, &run_id, &answers)).await
    }

    /// A short transaction that can be repeated: an unknown outcome is told as such.
    async fn alone<F>(&self, login: Login, op: &'static str, work: F) -> PortResult<()>
    where
        F: FnOnce(&mut Client) -> Result<(), PgError> + Send + 'static,
    {
        let held = self.hold(login, op).await?;
        let done = connection(&held).map_err(|error| error.to_port(op))?.run_with_deadline(LIMIT, work).await;
        done.map_err(|error| error.to_port(op))
    }
}

fn text<T: serde::Serialize>(value: &T) -> Result<String, PgError> {
    serde_json::to_string(value).map_err(|error| PgError::Shape(error.to_string()))
}

fn occurrence(n: u32) -> Result<i32, PgError> {
    i32::try_from(n).map_err(|_| PgError::Shape(format!("occurrence {n} does not fit")))
}

fn open(client: &mut Client, fence: &Fence, write: &AskWrite) -> Result<(), PgError> {
    client.execute(
        "SELECT cutter_governance.fn_ask_open($1, $2, $3, $4, $5, $6, $7)",
        &[
            &fence.run_id.as_str(),
            &fence.epoch,
            &fence.holder,
            &text(&write.ask)?,
            &text(&write.ids)?,
            &write.policy_head.map(|head| head.to_hex()),
            &system_time(write.at),
        ],
    )?;
    Ok(())
}

fn record(client: &mut Client, run_id: &str, answers: &[AnswerWrite]) -> Result<(), PgError> {
    let mut transaction = client.transaction()?;
    for answer in answers {
        transaction.execute(
            "SELECT cutter_governance.fn_answer_record($1, $2, $3, $4, $5, $6, $7, $8)",
            &[
                &run_id,
                &answer.gate,
                &occurrence(answer.occurrence)?,
                &answer.decision.as_str(),
                &answer.approval_kb_id,
                &answer.document.as_bytes(),
                &answer.fingerprint,
                &answer.actor,
            ],
        )?;
    }
    crate::connection::commit(transaction)
}

/// The asks of a run with the answers to each.
pub(crate) fn of_run(client: &mut Client, run_id: &str) -> Result<Vec<StoredAsk>, PgError> {
    let rows = client.query(
        "SELECT k.gate, k.occurrence, k.ask::text, k.ids::text, k.policy_head, k.at,
                cutter_governance.fn_ask_closed(k.run_id, k.gate, k.occurrence, 'infinity') AS closed
         FROM cutter_governance.approval_ask k WHERE k.run_id = $1 ORDER BY k.gate, k.occurrence",
        &[&run_id],
    )?;
    let mut asks = Vec::with_capacity(rows.len());
    for row in &rows {
        let (gate, n): (String, i32) = (get(row, 0)?, get(row, 1)?);
        let at: std::time::SystemTime = get(row, "at")?;
        asks.push(StoredAsk {
            asked: AskWrite {
                ask: json(row, 2)?,
                ids: json(row, 3)?,
                policy_head: parsed_opt(row, "policy_head")?,
                at: moment(at)?,
            },
            closed: get(row, "closed")?,
            answers: answers(client, run_id, &gate, n)?,
        });
    }
    Ok(asks)
}

fn answers(client: &mut Client, run_id: &str, gate: &str, n: i32) -> Result<Vec<StoredAnswer>, PgError> {
    let rows = client.query(
        "SELECT w.decision, w.approval_kb_id, w.document, w.fingerprint, w.actor, w.late, w.recorded_at
         FROM cutter_governance.approval_answer w
         WHERE w.run_id = $1 AND w.gate = $2 AND w.occurrence = $3 ORDER BY w.recorded_at, w.sha256",
        &[&run_id, &gate, &n],
    )?;
    let of = |row: &Row| {
        let decision: &str = get(row, 0)?;
        let recorded_at: std::time::SystemTime = get(row, 6)?;
        Ok(StoredAnswer {
            answer: AnswerWrite {
                gate: gate.to_owned(),
                occurrence: u32::try_from(n).map_err(|e| PgError::Shape(e.to_string()))?,
                decision: match decision {
                    "approve" => ReviewVerdict::Approve,
                    "defer" => ReviewVerdict::Defer,
                    _ => ReviewVerdict::Reject,
                },
                approval_kb_id: get(row, 1)?,
                document: String::from_utf8(get(row, 2)?).map_err(|e| PgError::Shape(e.to_string()))?,
                fingerprint: get(row, 3)?,
                actor: get(row, 4)?,
            },
            late: get(row, 5)?,
            recorded_at: Some(moment(recorded_at)?),
        })
    };
    rows.iter().map(of).collect()
}

fn moment(time: std::time::SystemTime) -> Result<Timestamp, PgError> {
    Timestamp::try_from(time).map_err(|error| PgError::Shape(error.to_string()))
}

fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T, PgError> {
    serde_json::from_str(get(row, column)?)
        .map_err(|error| PgError::Shape(format!("column {column}: {error}")))
}
