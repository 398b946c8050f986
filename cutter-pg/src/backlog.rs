//! The backlog outside of a run: entries as an observer sees them, read through the redacted views
//! a page at a time, and the operations that need no run, each under its own login.

mod operate;

use std::collections::BTreeMap;

use async_trait::async_trait;
use cutter_core::base::id::RunId;
use cutter_core::machine::backlog::BacklogState;
use cutter_core::port::backlog::{
    AbandonRequest, Backlog, BacklogQuery, BacklogRow, RequeueRequest, ReviewRequest, Standing, SweepBatch,
    check_limit,
};
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::approval::parse_verdict;
use cutter_core::record::backlog::{
    ChangeSet, Decision, Dependency, Duty, Entry, HistoryRow, Signature, VerifyResult, timeline,
};
use postgres::types::ToSql;
use postgres::{Client, GenericClient, IsolationLevel, Row};
use uuid::Uuid;

use crate::database::PgDatabase;
use crate::error::{PORT, PgError};
use crate::row::{get, parsed, parsed_opt, timestamp, unsigned};

impl PgDatabase {
    /// The runs that marked these entries, less those that another program marked under a name of
    /// its own. Of an escalation the run is that of the entry that failed: it is left out.
    ///
    /// # Errors
    /// The database's.
    pub async fn runs_of(&self, entries: &[Uuid]) -> PortResult<BTreeMap<Uuid, RunId>> {
        let entries = entries.to_vec();
        self.read("runs_of", move |client| {
            let rows = client.query(
                "SELECT e.entry_id, e.run_id FROM cutter_governance.decision_backlog_entry e
                 WHERE e.entry_id = ANY ($1) AND e.escalates_entry_id IS NULL",
                &[&entries],
            )?;
            let mut runs = BTreeMap::new();
            for row in &rows {
                if let Ok(run_id) = get::<_, &str>(row, 1)?.parse() {
                    runs.insert(get(row, 0)?, run_id);
                }
            }
            Ok(runs)
        })
        .await
    }
}

#[async_trait]
impl Backlog for PgDatabase {
    async fn list(&self, query: &BacklogQuery) -> PortResult<Vec<BacklogRow>> {
        check_limit("list", query.limit)?;
        let query = query.clone();
        self.read("list", move |client| page(client, &query)).await
    }

    async fn entries(&self, query: &BacklogQuery) -> PortResult<Vec<Entry>> {
        check_limit("entries", query.limit)?;
        let query = query.clone();
        self.read("entries", move |client| {
            let mut snapshot = snapshot(client)?;
            let ids: Vec<Uuid> = page(&mut snapshot, &query)?.iter().map(|row| row.entry_id).collect();
            let entries = records(&mut snapshot, &ids)?;
            snapshot.rollback()?;
            Ok(entries)
        })
        .await
    }

    async fn show(&self, entry_id: Uuid) -> PortResult<Option<Standing>> {
        self.read("show", move |client| {
            let mut snapshot = snapshot(client)?;
            let sql = format!("{COLUMNS} WHERE e.entry_id = $1");
            let row = snapshot.query_opt(&sql, &[&entry_id])?.map(|row| backlog_row(&row)).transpose()?;
            let entry = records(&mut snapshot, &[entry_id])?.pop();
            snapshot.rollback()?;
            Ok(row.zip(entry).map(|(row, mut entry)| {
                entry.history = timeline(&entry.history);
                Standing { row, entry }
            }))
        })
        .await
    }

    async fn history(&self, entry_id: Uuid) -> PortResult<Vec<HistoryRow>> {
        let moves = self
            .read("history", move |client| {
                client.query(HISTORY, &[&vec![entry_id]])?.iter().map(history).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        if moves.is_empty() {
            let message = format!("no backlog entry {entry_id}");
            return Err(PortError::new(PORT, "history", PortErrorKind::NotFound, message));
        }
        Ok(timeline(&moves))
    }

    async fn promotable(&self, after: Option<&str>) -> PortResult<Option<String>> {
        let after = after.unwrap_or_default().to_owned();
        self.read("promotable", move |client| {
            client.query_opt(PROMOTABLE, &[&after])?.map(|row| get(&row, 0)).transpose()
        })
        .await
    }

    async fn sweep(&self, batch: &SweepBatch) -> PortResult<Vec<Uuid>> {
        self.sweep_pass(batch.clone()).await
    }

    async fn review(&self, request: &ReviewRequest) -> PortResult<Uuid> {
        self.decide(request.clone()).await
    }

    async fn requeue(&self, request: &RequeueRequest) -> PortResult<bool> {
        self.put_back(request.clone()).await
    }

    async fn abandon(&self, request: &AbandonRequest) -> PortResult<bool> {
        self.give_up(request.clone()).await
    }
}

const COLUMNS: &str = "
SELECT e.entry_id, e.status, e.document_id, e.run_id, e.manifest_digest, e.candidate_count, e.escalates_entry_id,
    e.actor, e.at
FROM cutter_governance.v_backlog_entry e";
const ENTRIES: &str = "
SELECT e.entry_id, e.status, e.idempotency_key, e.manifest_digest, e.escalates_entry_id, e.depends_on
FROM cutter_governance.v_backlog_entry e WHERE e.entry_id = ANY ($1)";
/// Nothing but the index of documents and states is read up to the first hit.
const PROMOTABLE: &str = "
SELECT e.document_id FROM cutter_governance.v_backlog_entry e
WHERE e.document_id > $1 AND (e.status = 'reviewed_deferred'
    OR e.status = 'marked' AND e.escalates_entry_id IS NULL)
ORDER BY e.document_id LIMIT 1";
const PROMOTIONS: &str = "
SELECT p.entry_id, p.promotions FROM cutter_governance.fn_backlog_promotions($1) p";
const STATUSES: &str = "
SELECT e.entry_id, e.status FROM cutter_governance.v_backlog_entry e WHERE e.entry_id = ANY ($1)";
const HISTORY: &str = "
SELECT h.entry_id, h.history_id, h.from_state, h.to_state, h.actor, h.reason, h.at, h.change_set_id
FROM cutter_governance.v_backlog_history h WHERE h.entry_id = ANY ($1) ORDER BY h.at, h.history_id";
const DECISIONS: &str = "
SELECT d.entry_id, d.review_decision_id, d.decision, d.has_consent
FROM cutter_governance.v_backlog_decision d WHERE d.entry_id = ANY ($1) ORDER BY d.at, d.review_decision_id";
const STOP_ANSWERS: &str = "
SELECT d.entry_id, count(*) AS answers FROM cutter_governance.review_decision d
WHERE d.entry_id = ANY ($1) AND d.type IN ('stop_resume', 'drift_ack', 'void') GROUP BY d.entry_id";
const CUTS: &str = "
SELECT c.entry_id, c.change_set_id, c.review_decision_id, c.live, c.manifest_envelope_id, c.verify_result_id,
    c.passed, c.compensating_id, c.escalation_entry_id
FROM cutter_governance.v_backlog_cut c WHERE c.entry_id = ANY ($1) ORDER BY c.at, c.change_set_id";
const SIGNATURES: &str = "
SELECT s.entry_id, s.signature_id, s.change_set_id, s.duty, s.principal
FROM cutter_governance.v_backlog_signature s WHERE s.entry_id = ANY ($1) ORDER BY s.at, s.signature_id";

/// One view of everything that is read together.
fn snapshot(client: &mut Client) -> Result<postgres::Transaction<'_>, PgError> {
    Ok(client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start()?)
}

/// A parameter of a statement.
pub type Param = Box<dyn ToSql + Sync + Send>;

/// The statement that answers [`Backlog::list`], with its parameters; for whoever explains it. Each
/// form is answered by one index in order of ids; where a document is named, by one short scan for
/// every state asked for. Ranges in place of equalities leave the planner no other index in that
/// order, on which it would walk past any number of entries of other states; and no range is a
/// comparison of rows at its end, which the server does not stop at before the first column changes.
#[must_use]
pub fn list_statement(query: &BacklogQuery) -> (String, Vec<Param>) {
    let mut params: Vec<Param> =
        vec![Box::new(query.after.unwrap_or(Uuid::nil())), Box::new(i64::from(query.limit))];
    let status = query.status.map(BacklogState::as_str);
    let sql = match (&query.document_id, status) {
        (None, None) => format!("{COLUMNS} WHERE e.entry_id > $1 ORDER BY e.entry_id LIMIT $2"),
        (None, Some(status)) => {
            params.push(Box::new(status));
            format!(
                "{COLUMNS} WHERE (e.status, e.entry_id) > ($3, $1) AND e.status <= $3
                 ORDER BY e.status, e.entry_id LIMIT $2"
            )
        }
        (Some(document), status) => {
            let all = BacklogState::ALL.iter().map(|s| s.as_str());
            params.push(Box::new(document.clone()));
            params.push(Box::new(all.filter(|s| status.is_none_or(|w| w == *s)).collect::<Vec<_>>()));
            format!(
                "SELECT p.* FROM unnest($4::text[]) AS s(status) CROSS JOIN LATERAL (
                     {COLUMNS} WHERE e.document_id = ANY (ARRAY[$3]) AND (e.status, e.entry_id) > (s.status, $1)
                         AND e.status <= s.status
                     ORDER BY e.document_id, e.status, e.entry_id LIMIT $2) p
                 ORDER BY p.entry_id LIMIT $2"
            )
        }
    };
    (sql, params)
}

fn page(client: &mut impl GenericClient, query: &BacklogQuery) -> Result<Vec<BacklogRow>, PgError> {
    let (sql, params) = list_statement(query);
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p.as_ref() as &(dyn ToSql + Sync)).collect();
    client.query(&sql, &params)?.iter().map(backlog_row).collect()
}

fn backlog_row(row: &Row) -> Result<BacklogRow, PgError> {
    Ok(BacklogRow {
        entry_id: get(row, "entry_id")?,
        status: parsed(row, "status")?,
        document_id: get(row, "document_id")?,
        run_id: get(row, "run_id")?,
        manifest_digest: parsed(row, "manifest_digest")?,
        candidate_count: unsigned(row, "candidate_count")?,
        escalates: get(row, "escalates_entry_id")?,
        actor: get(row, "actor")?,
        at: timestamp(row, "at")?,
    })
}

/// The entries with these ids and all their records, by id.
fn records(snapshot: &mut impl GenericClient, ids: &[Uuid]) -> Result<Vec<Entry>, PgError> {
    let mut entries = snapshot
        .query(ENTRIES, &[&ids])?
        .iter()
        .map(entry)
        .collect::<Result<BTreeMap<Uuid, Entry>, PgError>>()?;
    let wanted: Vec<Uuid> =
        entries.values().flat_map(|entry| &entry.depends_on).map(|dependency| dependency.entry_id).collect();
    let statuses = snapshot
        .query(STATUSES, &[&wanted])?
        .iter()
        .map(|row| Ok((get(row, "entry_id")?, parsed(row, "status")?)))
        .collect::<Result<BTreeMap<Uuid, BacklogState>, PgError>>()?;
    for dependency in entries.values_mut().flat_map(|entry| &mut entry.depends_on) {
        dependency.status = statuses.get(&dependency.entry_id).copied();
    }
    let mut each = |sql: &str, add: fn(&mut Entry, &Row) -> Result<(), PgError>| -> Result<(), PgError> {
        for row in snapshot.query(sql, &[&ids])? {
            if let Some(entry) = entries.get_mut(&get::<_, Uuid>(&row, "entry_id")?) {
                add(entry, &row)?;
            }
        }
        Ok(())
    };
    each(HISTORY, |entry, row| {
        entry.history.push(history(row)?);
        Ok(())
    })?;
    each(PROMOTIONS, |entry, row| {
        entry.promotions = usize::try_from(unsigned(row, "promotions")?).unwrap_or(usize::MAX);
        Ok(())
    })?;
    each(DECISIONS, |entry, row| {
        entry.decisions.push(decision(row)?);
        Ok(())
    })?;
    each(STOP_ANSWERS, |entry, row| {
        entry.stop_answers = usize::try_from(unsigned(row, "answers")?).unwrap_or(usize::MAX);
        Ok(())
    })?;
    each(CUTS, |entry, row| {
        entry.change_sets.push(cut(row)?);
        Ok(())
    })?;
    each(SIGNATURES, |entry, row| {
        entry.signatures.push(signature(row)?);
        Ok(())
    })?;
    Ok(entries.into_values().collect())
}

fn entry(row: &Row) -> Result<(Uuid, Entry), PgError> {
    let entry_id = get(row, "entry_id")?;
    let depends_on: Vec<Uuid> = get(row, "depends_on")?;
    let entry = Entry {
        entry_id,
        status: parsed(row, "status")?,
        idempotency_key: parsed(row, "idempotency_key")?,
        manifest_digest: parsed(row, "manifest_digest")?,
        escalates: get(row, "escalates_entry_id")?,
        depends_on: depends_on.into_iter().map(|entry_id| Dependency { entry_id, status: None }).collect(),
        history: Vec::new(),
        promotions: 0,
        stop_answers: 0,
        decisions: Vec::new(),
        change_sets: Vec::new(),
        signatures: Vec::new(),
    };
    Ok((entry_id, entry))
}

fn history(row: &Row) -> Result<HistoryRow, PgError> {
    Ok(HistoryRow {
        history_id: get(row, "history_id")?,
        from_state: parsed_opt(row, "from_state")?,
        to_state: parsed(row, "to_state")?,
        actor: get(row, "actor")?,
        reason: get(row, "reason")?,
        at: timestamp(row, "at")?,
        change_set_id: get(row, "change_set_id")?,
    })
}

fn decision(row: &Row) -> Result<Decision, PgError> {
    let stored: &str = get(row, "decision")?;
    let verdict =
        parse_verdict(stored).ok_or_else(|| PgError::Shape(format!("column decision: {stored:?}")))?;
    Ok(Decision { id: get(row, "review_decision_id")?, verdict, has_consent: get(row, "has_consent")? })
}

fn cut(row: &Row) -> Result<ChangeSet, PgError> {
    let verdict = match get::<_, Option<Uuid>>(row, "verify_result_id")? {
        None => None,
        Some(id) => Some(VerifyResult {
            id,
            has_passed: get(row, "passed")?,
            compensating_id: get(row, "compensating_id")?,
            escalation_entry_id: get(row, "escalation_entry_id")?,
        }),
    };
    Ok(ChangeSet {
        change_set_id: get(row, "change_set_id")?,
        review_decision_id: get(row, "review_decision_id")?,
        is_live: get(row, "live")?,
        envelope_id: get(row, "manifest_envelope_id")?,
        verdict,
    })
}

fn signature(row: &Row) -> Result<Signature, PgError> {
    let duty = match get(row, "duty")? {
        "executor" => Duty::Executor,
        "verifier" => Duty::Verifier,
        other => return Err(PgError::Shape(format!("column duty: {other:?}"))),
    };
    Ok(Signature {
        signature_id: get(row, "signature_id")?,
        change_set_id: get(row, "change_set_id")?,
        duty,
        principal: get(row, "principal")?,
    })
}
