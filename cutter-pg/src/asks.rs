//! Asks and the answers to them, as rows.

use std::time::Duration;

use cutter_core::port::PortResult;
use cutter_core::port::ask::{AnswerWrite, AskWrite, StoredAnswer, StoredAsk};
use cutter_core::port::database::Fence;
use cutter_core::port::effect::ReviewVerdict;
use postgres::{Client, Row};
use serde::de::DeserializeOwned;

use crate::database::{PgDatabase, connection};
use crate::error::PgError;
use crate::login::Login;
use crate::row::{get, parsed_opt, system_time, timestamp, timestamp_opt};
use crate::typed::params;

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

/// The asks of a run with the answers to each, from one statement.
pub(crate) fn of_run(client: &mut Client, run_id: &str) -> Result<Vec<StoredAsk>, PgError> {
    let rows = client.query_typed(
        "SELECT k.gate, k.occurrence, k.ask::text, k.ids::text, k.policy_head, k.at,
                cutter_governance.fn_ask_closed(k.run_id, k.gate, k.occurrence, 'infinity') AS closed,
                w.decision, w.approval_kb_id, w.document, w.fingerprint, w.actor, w.late, w.recorded_at
         FROM cutter_governance.approval_ask k
         LEFT JOIN cutter_governance.approval_answer w USING (run_id, gate, occurrence)
         WHERE k.run_id = $1 ORDER BY k.gate, k.occurrence, w.recorded_at, w.sha256",
        params![run_id],
    )?;
    let mut asks: Vec<StoredAsk> = Vec::new();
    let mut of_ask = None;
    for row in &rows {
        let (gate, n): (&str, i32) = (get(row, "gate")?, get(row, "occurrence")?);
        let n = u32::try_from(n).map_err(|e| PgError::Shape(e.to_string()))?;
        if of_ask.replace((gate, n)) != Some((gate, n)) {
            asks.push(StoredAsk {
                asked: AskWrite {
                    ask: json(row, "ask")?,
                    ids: json(row, "ids")?,
                    policy_head: parsed_opt(row, "policy_head")?,
                    at: timestamp(row, "at")?,
                },
                closed: get(row, "closed")?,
                answers: Vec::new(),
            });
        }
        let Some(decision) = get::<_, Option<&str>>(row, "decision")? else { continue };
        let answer = StoredAnswer {
            answer: AnswerWrite {
                gate: gate.to_owned(),
                occurrence: n,
                decision: match decision {
                    "approve" => ReviewVerdict::Approve,
                    "defer" => ReviewVerdict::Defer,
                    _ => ReviewVerdict::Reject,
                },
                approval_kb_id: get(row, "approval_kb_id")?,
                document: String::from_utf8(get(row, "document")?)
                    .map_err(|e| PgError::Shape(e.to_string()))?,
                fingerprint: get(row, "fingerprint")?,
                actor: get(row, "actor")?,
            },
            late: get(row, "late")?,
            recorded_at: timestamp_opt(row, "recorded_at")?,
        };
        if let Some(ask) = asks.last_mut() {
            ask.answers.push(answer);
        }
    }
    Ok(asks)
}

fn json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T, PgError> {
    serde_json::from_str(get(row, column)?)
        .map_err(|error| PgError::Shape(format!("column {column}: {error}")))
}
