//! Asks and the answers to them, as rows.

use std::time::Duration;

use cutter_core::base::id::RunId;
use cutter_core::machine::run::GateId;
use cutter_core::port::PortResult;
use cutter_core::record::approval::parse_verdict;
use cutter_core::record::ask::{
    AnswerWrite, AskWrite, DecisionWrite, OpenAsk, RunBegun, StoredAnswer, StoredAsk,
};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::observed::Fence;
use cutter_core::record::signature::SignedText;
use jiff::Timestamp;
use postgres::{Client, Row};
use serde::de::DeserializeOwned;

use crate::database::{PgDatabase, connection};
use crate::error::PgError;
use crate::login::Login;
use crate::row::{get, parsed, parsed_opt, system_time, timestamp, timestamp_opt};
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

    /// `fn_decision_record`, by the reviewer.
    pub(crate) async fn store_decision(&self, run_id: &str, decision: &DecisionWrite) -> PortResult<()> {
        let (run_id, decision) = (run_id.to_owned(), decision.clone());
        self.alone(Login::Review, "record_decision", move |client| decide(client, &run_id, &decision)).await
    }

    /// A short transaction that can be repeated: an unknown outcome is told as such.
    pub(crate) async fn alone<F>(&self, login: Login, op: &'static str, work: F) -> PortResult<()>
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
    let begun = write.begun.as_ref();
    client.execute(
        "SELECT cutter_governance.fn_ask_open($1, $2, $3, $4, $5, $6, $7),
             CASE WHEN $8::bytea IS NOT NULL
                 THEN cutter_governance.fn_run_begun_record($1, $2, $3, $8, $9, $10) END",
        &[
            &fence.run_id.as_str(),
            &fence.epoch,
            &fence.holder,
            &text(&write.ask)?,
            &text(&write.ids)?,
            &write.policy_head.map(|head| head.to_hex()),
            &system_time(write.at),
            &begun.map(|b| b.settings.as_bytes()),
            &begun.map(|b| b.creation.document.as_bytes()),
            &begun.map(|b| b.creation.fingerprint.as_str()),
        ],
    )?;
    Ok(())
}

fn decide(client: &mut Client, run_id: &str, decision: &DecisionWrite) -> Result<(), PgError> {
    let mut transaction = client.transaction()?;
    transaction.execute(
        "SELECT cutter_governance.fn_decision_record($1, $2, $3, $4, $5, $6, $7)",
        &[
            &run_id,
            &decision.gate.as_str(),
            &occurrence(decision.occurrence)?,
            &decision.sha256.to_hex(),
            &decision.payload_sha256.to_hex(),
            &decision.moves,
            &decision.actor,
        ],
    )?;
    crate::connection::commit(transaction)
}

fn record(client: &mut Client, run_id: &str, answers: &[AnswerWrite]) -> Result<(), PgError> {
    let mut transaction = client.transaction()?;
    for answer in answers {
        transaction.execute(
            "SELECT cutter_governance.fn_answer_record($1, $2, $3, $4, $5, $6, $7, $8)",
            &[
                &run_id,
                &answer.gate.as_str(),
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
                b.settings, b.creation, b.fingerprint AS creator, w.decision, w.approval_kb_id, w.document,
                w.fingerprint, w.actor, w.late, w.recorded_at
         FROM cutter_governance.approval_ask k
         LEFT JOIN cutter_governance.run_begun b ON b.run_id = k.run_id
         LEFT JOIN cutter_governance.approval_answer w
             ON w.run_id = k.run_id AND w.gate = k.gate AND w.occurrence = k.occurrence
         WHERE k.run_id = $1 ORDER BY k.gate, k.occurrence, w.recorded_at, w.sha256",
        params![run_id],
    )?;
    let mut asks: Vec<StoredAsk> = Vec::new();
    let mut of_ask = None;
    for row in &rows {
        let (gate, n): (GateId, i32) = (parsed(row, "gate")?, get(row, "occurrence")?);
        let n = u32::try_from(n).map_err(|e| PgError::Shape(e.to_string()))?;
        if of_ask.replace((gate, n)) != Some((gate, n)) {
            asks.push(StoredAsk {
                asked: AskWrite {
                    ask: json(row, "ask")?,
                    ids: json(row, "ids")?,
                    policy_head: parsed_opt(row, "policy_head")?,
                    at: timestamp(row, "at")?,
                    begun: begun(row)?,
                },
                closed: get(row, "closed")?,
                answers: Vec::new(),
            });
        }
        let Some(decision) = get::<_, Option<&str>>(row, "decision")? else { continue };
        let answer = StoredAnswer {
            answer: AnswerWrite {
                gate,
                occurrence: n,
                decision: verdict(decision),
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

fn begun(row: &Row) -> Result<Option<RunBegun>, PgError> {
    let Some(settings) = get::<_, Option<Vec<u8>>>(row, "settings")? else { return Ok(None) };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|e| PgError::Shape(e.to_string()));
    let creation = SignedText { document: text(get(row, "creation")?)?, fingerprint: get(row, "creator")? };
    Ok(Some(RunBegun { settings: text(settings)?, creation }))
}

/// Nothing relied on them, nothing was asked after them, and their runs are not over.
const OPEN: &str = "
SELECT k.run_id, k.gate, k.occurrence, k.recorded_at, e.entry_id, e.status, c.change_set_id, v.version_no,
    (SELECT a.decision FROM cutter_governance.review_approval a
     WHERE a.run_id = k.run_id AND a.nonce = k.nonce
     ORDER BY a.decision = 'approve' LIMIT 1) AS decision
FROM cutter_governance.approval_ask k
LEFT JOIN cutter_governance.decision_backlog_entry e ON e.run_id = k.run_id AND e.escalates_entry_id IS NULL
LEFT JOIN iu_core.source_version v ON v.source_version_id = e.source_version_id
LEFT JOIN cutter_governance.cut_change_set c
    ON c.run_id = k.run_id AND c.kind = 'cut' AND k.gate = 'SG_lifecycle_authz'
WHERE ($1::timestamptz IS NULL OR k.recorded_at >= $1)
    AND NOT EXISTS (SELECT FROM cutter_governance.approval_ask n
                    WHERE n.run_id = k.run_id AND n.gate = k.gate AND n.occurrence > k.occurrence)
    AND NOT EXISTS (SELECT FROM cutter_governance.review_approval a
                    JOIN cutter_governance.approval_use u USING (approval_id)
                    WHERE a.run_id = k.run_id AND a.nonce = k.nonce)
    AND NOT EXISTS (SELECT FROM cutter_governance.run_effect x WHERE x.run_id = k.run_id AND x.effect = 'void')
    AND NOT EXISTS (SELECT FROM cutter_governance.run_ended d WHERE d.run_id = k.run_id)
ORDER BY k.recorded_at, k.run_id, k.gate";

/// The asks that a decision may still be stored on.
pub(crate) fn open_asks(client: &mut Client, since: Option<Timestamp>) -> Result<Vec<OpenAsk>, PgError> {
    let of = |row: &Row| {
        let run_id: RunId = parsed(row, "run_id")?;
        let n: i32 = get(row, "occurrence")?;
        let entry_id: Option<uuid::Uuid> = get(row, "entry_id")?;
        let entry = match entry_id {
            Some(entry_id) => Some((entry_id, get(row, "status")?)),
            None => None,
        };
        Ok(OpenAsk {
            run_id,
            gate: parsed(row, "gate")?,
            occurrence: u32::try_from(n).map_err(|e| PgError::Shape(e.to_string()))?,
            recorded_at: timestamp(row, "recorded_at")?,
            decided: get::<_, Option<&str>>(row, "decision")?.map(verdict),
            entry,
            change_set_id: get(row, "change_set_id")?,
            version_no: get(row, "version_no")?,
        })
    };
    let rows = client.query(OPEN, &[&since.map(system_time)])?;
    // a name that no run can have is nobody's ask
    rows.iter().filter(|row| parsed::<RunId>(row, "run_id").is_ok()).map(of).collect()
}

/// A stored decision.
pub(crate) fn verdict(text: &str) -> ReviewVerdict {
    parse_verdict(text).unwrap_or(ReviewVerdict::Reject)
}

fn json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T, PgError> {
    serde_json::from_str(get(row, column)?)
        .map_err(|error| PgError::Shape(format!("column {column}: {error}")))
}
