//! Requests, timelines, staging records and signals as they are read. Lists go along an index by
//! key, whatever the filter: a page costs the same however many requests there are.

use cutter_core::port::cut_request::{RequestQuery, Signal};
use cutter_core::record::cut_request::{CutRequest, Transition};
use cutter_core::record::staging::StagingRecord;
use postgres::types::ToSql;
use postgres::{Client, GenericClient, Row};
use uuid::Uuid;

use crate::error::PgError;
use crate::row::{bigint, get, parsed, parsed_opt, system_time, timestamp, timestamp_opt, unsigned};

/// The query with these conditions, all columns.
macro_rules! requests {
    ($rest:literal) => {
        concat!(
            "SELECT q.cut_request_id, q.source_ref, q.source_kind, q.requested_by, q.requested_at, q.status,
    q.source_path, q.source_hash, q.source_bytes, q.copy_staging_record_id, q.copied_at,
    q.manifest_staging_record_id, q.manifest_digest, q.marked_at, q.mark_verified_at, q.mark_verdict,
    q.mark_approval_doc_id, q.cut_run_id, q.cut_done_at, q.cut_verified_at, q.cut_verdict, q.completed_at,
    q.cleanup_scheduled_at, q.cleaned_at, q.metadata
FROM public.cut_request q
WHERE ",
            $rest
        )
    };
}

/// A page: what comes after the key `$1`, `$2` (the newest if it is NULL), `$3` rows.
macro_rules! listed {
    ($filter:literal) => {
        concat!(
            requests!(
                "(q.requested_at, q.cut_request_id) < (coalesce($1::timestamptz, 'infinity'),
        coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))"
            ),
            $filter,
            "
ORDER BY q.requested_at DESC, q.cut_request_id DESC LIMIT $3"
        )
    };
}

const ALL: &str = listed!("");
const OF_STATUS: &str = listed!(" AND q.status = $4");
const OF_SOURCE: &str = listed!(" AND q.source_ref = $4");
const OF_BOTH: &str = listed!(" AND q.status = $4 AND q.source_ref = $5");

pub(super) fn one(client: &mut impl GenericClient, id: Uuid) -> Result<Option<CutRequest>, PgError> {
    client.query_opt(requests!("q.cut_request_id = $1"), &[&id])?.as_ref().map(request).transpose()
}

pub(super) fn of_run(client: &mut Client, run: Uuid) -> Result<Option<CutRequest>, PgError> {
    client.query_opt(requests!("q.cut_run_id = $1"), &[&run])?.as_ref().map(request).transpose()
}

pub(super) fn list(client: &mut Client, query: &RequestQuery) -> Result<Vec<CutRequest>, PgError> {
    let (at, id) = query.after.map(|(at, id)| (system_time(at), id)).unzip();
    let limit = bigint(u64::from(query.limit))?;
    let status = query.status.map(cutter_core::machine::cut_request::CutRequestStatus::as_str);
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&at, &id, &limit];
    let sql = match (&status, &query.source_ref) {
        (None, None) => ALL,
        (Some(status), None) => {
            params.push(status);
            OF_STATUS
        }
        (None, Some(source)) => {
            params.push(source);
            OF_SOURCE
        }
        (Some(status), Some(source)) => {
            params.extend([status as &(dyn ToSql + Sync), source]);
            OF_BOTH
        }
    };
    // A page goes along the index that has its order, and never sorts what it does not show. A plan
    // for any status would walk past all others to find a rare one: this one looks at the value.
    let mut transaction = client.build_transaction().read_only(true).start()?;
    transaction.batch_execute(
        "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_sort = off;
         SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off",
    )?;
    let rows = transaction.query(sql, &params)?;
    transaction.rollback()?;
    rows.iter().map(request).collect()
}

fn request(row: &Row) -> Result<CutRequest, PgError> {
    let bytes: Option<i64> = get(row, "source_bytes")?;
    let negative = |_| PgError::Shape("column source_bytes: negative".to_owned());
    Ok(CutRequest {
        cut_request_id: get(row, "cut_request_id")?,
        source_ref: get(row, "source_ref")?,
        source_kind: get(row, "source_kind")?,
        requested_by: get(row, "requested_by")?,
        requested_at: timestamp(row, "requested_at")?,
        status: parsed(row, "status")?,
        source_path: get(row, "source_path")?,
        source_hash: parsed_opt(row, "source_hash")?,
        source_bytes: bytes.map(u64::try_from).transpose().map_err(negative)?,
        copy_staging_record_id: get(row, "copy_staging_record_id")?,
        copied_at: timestamp_opt(row, "copied_at")?,
        manifest_staging_record_id: get(row, "manifest_staging_record_id")?,
        manifest_digest: parsed_opt(row, "manifest_digest")?,
        marked_at: timestamp_opt(row, "marked_at")?,
        mark_verified_at: timestamp_opt(row, "mark_verified_at")?,
        mark_verdict: parsed_opt(row, "mark_verdict")?,
        mark_approval_doc_id: get(row, "mark_approval_doc_id")?,
        cut_run_id: get(row, "cut_run_id")?,
        cut_done_at: timestamp_opt(row, "cut_done_at")?,
        cut_verified_at: timestamp_opt(row, "cut_verified_at")?,
        cut_verdict: parsed_opt(row, "cut_verdict")?,
        completed_at: timestamp_opt(row, "completed_at")?,
        cleanup_scheduled_at: timestamp_opt(row, "cleanup_scheduled_at")?,
        cleaned_at: timestamp_opt(row, "cleaned_at")?,
        metadata: get(row, "metadata")?,
    })
}

pub(super) fn timeline(client: &mut Client, id: Uuid) -> Result<Vec<Transition>, PgError> {
    let rows = client.query(
        "SELECT t.transition_id, t.cut_request_id, t.from_status, t.to_status, t.actor, t.occurred_at, t.detail
         FROM public.cut_request_transition t WHERE t.cut_request_id = $1 ORDER BY t.transition_id",
        &[&id],
    )?;
    rows.iter()
        .map(|row| {
            Ok(Transition {
                transition_id: unsigned(row, "transition_id")?,
                cut_request_id: get(row, "cut_request_id")?,
                from_status: parsed_opt(row, "from_status")?,
                to_status: parsed(row, "to_status")?,
                actor: get(row, "actor")?,
                occurred_at: timestamp(row, "occurred_at")?,
                detail: get(row, "detail")?,
            })
        })
        .collect()
}

pub(super) fn staging(client: &mut Client, id: Uuid) -> Result<Vec<StagingRecord>, PgError> {
    let rows = client.query(
        "SELECT r.staging_record_id, r.record_kind, r.sha256, r.byte_length, r.lifecycle_status, r.vector_excluded,
             r.created_at, r.approved_at, r.consumed_at, r.expires_at, r.cleaned_at
         FROM iu_core.iu_staging_record r
         WHERE r.metadata ->> 'cut_request_id' = $1 AND r.metadata ? 'cut_request_id'
         ORDER BY r.created_at, r.record_kind DESC, r.staging_record_id",
        &[&id.to_string()],
    )?;
    rows.iter()
        .map(|row| {
            Ok(StagingRecord {
                staging_record_id: get(row, "staging_record_id")?,
                record_kind: get(row, "record_kind")?,
                sha256: parsed(row, "sha256")?,
                byte_length: unsigned(row, "byte_length")?,
                lifecycle_status: get(row, "lifecycle_status")?,
                vector_excluded: get(row, "vector_excluded")?,
                created_at: timestamp(row, "created_at")?,
                approved_at: timestamp_opt(row, "approved_at")?,
                consumed_at: timestamp_opt(row, "consumed_at")?,
                expires_at: timestamp_opt(row, "expires_at")?,
                cleaned_at: timestamp_opt(row, "cleaned_at")?,
            })
        })
        .collect()
}

pub(super) fn signal(row: &Row) -> Result<Signal, PgError> {
    Ok(Signal {
        signal_id: get(row, "signal_id")?,
        name: parsed(row, "signal")?,
        cut_request_id: get(row, "cut_request_id")?,
        enqueued_by: get(row, "enqueued_by")?,
        enqueued_at: timestamp(row, "enqueued_at")?,
    })
}
