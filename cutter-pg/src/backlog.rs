//! The backlog as an observer sees it: entries with everything that an audit needs, read through
//! the redacted views in one snapshot.

use std::collections::BTreeMap;

use cutter_core::backlog::{
    ChangeSet, Decision, Dependency, Duty, Entry, HistoryRow, Signature, VerifyResult,
};
use cutter_core::machine::backlog::BacklogState;
use cutter_core::port::PortResult;
use cutter_core::port::effect::ReviewVerdict;
use postgres::{Client, IsolationLevel, Row};
use uuid::Uuid;

use crate::database::PgDatabase;
use crate::error::PgError;
use crate::row::{get, parsed, parsed_opt, timestamp, unsigned};

impl PgDatabase {
    /// Entries with their records, by entry id: of one document, or all. For
    /// [`cutter_core::backlog::audit()`] and for whoever lists the backlog; payloads, documents
    /// and nonces are not read.
    ///
    /// # Errors
    /// The database is not to be had, or a stored value is none that the core knows.
    pub async fn backlog(&self, document_id: Option<&str>) -> PortResult<Vec<Entry>> {
        let document_id = document_id.map(str::to_owned);
        self.read("backlog", move |client| entries(client, document_id.as_deref())).await
    }
}

const ENTRIES: &str = "
SELECT e.entry_id, e.status, e.idempotency_key, e.manifest_digest, e.escalates_entry_id, e.depends_on, e.promotions
FROM cutter_governance.v_backlog_entry e
WHERE $1::text IS NULL OR e.document_id = $1
ORDER BY e.entry_id";
const STATUSES: &str = "
SELECT e.entry_id, e.status FROM cutter_governance.v_backlog_entry e WHERE e.entry_id = ANY ($1)";
const HISTORY: &str = "
SELECT h.entry_id, h.history_id, h.from_state, h.to_state, h.actor, h.reason, h.at, h.change_set_id
FROM cutter_governance.v_backlog_history h WHERE h.entry_id = ANY ($1) ORDER BY h.at, h.history_id";
const DECISIONS: &str = "
SELECT d.entry_id, d.review_decision_id, d.decision, d.has_consent
FROM cutter_governance.v_backlog_decision d WHERE d.entry_id = ANY ($1) ORDER BY d.at, d.review_decision_id";
const CUTS: &str = "
SELECT c.entry_id, c.change_set_id, c.review_decision_id, c.live, c.manifest_envelope_id, c.verify_result_id,
    c.passed, c.compensating_id, c.escalation_entry_id
FROM cutter_governance.v_backlog_cut c WHERE c.entry_id = ANY ($1) ORDER BY c.at, c.change_set_id";
const SIGNATURES: &str = "
SELECT s.entry_id, s.signature_id, s.change_set_id, s.duty, s.principal
FROM cutter_governance.v_backlog_signature s WHERE s.entry_id = ANY ($1) ORDER BY s.at, s.signature_id";

fn entries(client: &mut Client, document_id: Option<&str>) -> Result<Vec<Entry>, PgError> {
    let mut snapshot =
        client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start()?;
    let mut entries = snapshot
        .query(ENTRIES, &[&document_id])?
        .iter()
        .map(entry)
        .collect::<Result<BTreeMap<Uuid, Entry>, PgError>>()?;
    let ids: Vec<Uuid> = entries.keys().copied().collect();
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
    each(DECISIONS, |entry, row| {
        entry.decisions.push(decision(row)?);
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
    snapshot.rollback()?;
    Ok(entries.into_values().collect())
}

fn entry(row: &Row) -> Result<(Uuid, Entry), PgError> {
    let entry_id = get(row, "entry_id")?;
    let depends_on: Vec<Uuid> = get(row, "depends_on")?;
    let promotions = unsigned(row, "promotions")?;
    let entry = Entry {
        entry_id,
        status: parsed(row, "status")?,
        idempotency_key: parsed(row, "idempotency_key")?,
        manifest_digest: parsed(row, "manifest_digest")?,
        escalates: get(row, "escalates_entry_id")?,
        depends_on: depends_on.into_iter().map(|entry_id| Dependency { entry_id, status: None }).collect(),
        history: Vec::new(),
        promotions: usize::try_from(promotions).unwrap_or(usize::MAX),
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
    let verdict = match get(row, "decision")? {
        "approve" => ReviewVerdict::Approve,
        "defer" => ReviewVerdict::Defer,
        "reject" => ReviewVerdict::Reject,
        other => return Err(PgError::Shape(format!("column decision: {other:?}"))),
    };
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
