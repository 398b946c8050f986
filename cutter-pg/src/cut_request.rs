//! The cut request port over PostgreSQL: each operation one short transaction over the connection of
//! its login. What a run does moves its request inside the run's own transactions, by the database.
//!
//! A lost race before COMMIT is tried again under the same ids. An error after COMMIT was sent is
//! `OutcomeUnknown`; asking again with the same ids is always right, as every operation gives what
//! stands.

mod read;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cutter_core::base::id::RunId;
use cutter_core::port::cut_request::{
    AddRequest, ApplyOutcome, CatchUp, Cleanup, CleanupReport, CopySource, CutRequests, OnRequest,
    RequestOutcome, RequestQuery, Signal, StageMark, StartCut, TakeSignals, VerifyCutOutcome, VerifyMark,
};
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::cut_request::{CutRequest, CutVerdict, ManifestFacts, Transition, same_document};
use cutter_core::record::staging::StagingRecord;
use jiff::Timestamp;
use postgres::Transaction;
use postgres::types::ToSql;
use uuid::Uuid;

use crate::connection::commit;
use crate::database::{PgDatabase, connection, give_up_after_deadline};
use crate::effect::conflict;
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::row::{get, parsed_opt, system_time, unsigned};

/// Longest wait for one operation: a copy sends a whole document.
const LIMIT: Duration = Duration::from_secs(120);

/// How often a lost race is tried in all.
const ATTEMPTS: u32 = 3;

/// What a cleanup at this time would take, as [`CutRequests::cleanup`] reports it.
const WOULD_GO: &str = "
SELECT d.cut_request_id, count(p.staging_record_id) AS records, coalesce(sum(length(p.content)), 0)::bigint AS bytes
FROM public.fn_cut_cleanup_due($1, $2) d
LEFT JOIN iu_core.iu_staging_payload p ON p.staging_record_id = ANY (d.staged)
GROUP BY d.cut_request_id, d.due_at
ORDER BY d.due_at, d.cut_request_id";

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Calls a function that says whether it wrote, and reads the request.
fn moved(
    tx: &mut Transaction<'_>,
    call: &str,
    id: Uuid,
    params: Params<'_>,
) -> Result<RequestOutcome, PgError> {
    let is_new: bool = get(&tx.query_one(call, params)?, 0)?;
    Ok(RequestOutcome { request: standing(tx, id)?, already: !is_new })
}

fn standing(tx: &mut Transaction<'_>, id: Uuid) -> Result<CutRequest, PgError> {
    read::one(tx, id)?.ok_or_else(|| PgError::Shape(format!("cut request {id} does not read back")))
}

impl PgDatabase {
    /// One transaction of one login.
    pub(crate) async fn on_requests<T, F>(&self, login: Login, op: &str, work: F) -> PortResult<T>
    where
        T: Send + 'static,
        F: Fn(&mut Transaction<'_>) -> Result<T, PgError> + Send + Sync + 'static,
    {
        // These operations are outside every run, so there is no fence to raise first.
        self.forget_lost().await;
        let mut held = self.hold(login, op).await?;
        let work = Arc::new(work);
        for attempt in 1.. {
            let work = work.clone();
            let outcome = match connection(&held) {
                Ok(connection) => {
                    connection
                        .run_with_deadline(LIMIT, move |client| {
                            let mut transaction = client.transaction()?;
                            let answer = work(&mut transaction)?;
                            commit(transaction)?;
                            Ok(answer)
                        })
                        .await
                }
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if error.is_retriable() && attempt < ATTEMPTS => {}
                Err(error) => {
                    give_up_after_deadline(&mut held, &error);
                    return Err(error.to_port(op));
                }
                Ok(answer) => return Ok(answer),
            }
        }
        Err(PortError::new(PORT, op, PortErrorKind::Unavailable, "every attempt lost a race; try again"))
    }
}

#[async_trait]
impl CutRequests for PgDatabase {
    async fn add(&self, request: &AddRequest) -> PortResult<RequestOutcome> {
        let r = request.clone();
        self.on_requests(Login::Exec, "cut_request add", move |tx| {
            moved(
                tx,
                "SELECT cutter_governance.fn_cut_request_new($1, $2, $3, $4, $5)",
                r.cut_request_id,
                &[&r.cut_request_id, &r.source_ref, &r.source_kind, &r.asked.actor, &system_time(r.asked.at)],
            )
        })
        .await
    }

    async fn copy(&self, copy: &CopySource) -> PortResult<RequestOutcome> {
        let c = copy.clone();
        self.on_requests(Login::Exec, "cut_request copy", move |tx| {
            moved(
                tx,
                "SELECT cutter_governance.fn_cut_request_copied($1, $2, $3, $4, $5, $6, $7)",
                c.cut_request_id,
                &[
                    &c.cut_request_id,
                    &c.staging_record_id,
                    &c.content,
                    &c.sha256.to_hex(),
                    &c.source_path,
                    &c.asked.actor,
                    &system_time(c.asked.at),
                ],
            )
        })
        .await
    }

    async fn mark(&self, mark: &StageMark) -> PortResult<RequestOutcome> {
        let op = "cut_request mark";
        let invalid = |message: String| PortError::new(PORT, op, PortErrorKind::Invalid, message);
        ManifestFacts::from_json(&mark.manifest).map_err(|error| invalid(error.to_string()))?;
        let text = String::from_utf8(mark.manifest.clone()).map_err(|error| invalid(error.to_string()))?;
        let m = mark.clone();
        self.on_requests(Login::Exec, op, move |tx| {
            moved(
                tx,
                "SELECT cutter_governance.fn_cut_request_marked($1, $2, $3, $4, $5, $6)",
                m.cut_request_id,
                &[
                    &m.cut_request_id,
                    &m.staging_record_id,
                    &text,
                    &m.manifest_digest.to_hex(),
                    &m.asked.actor,
                    &system_time(m.asked.at),
                ],
            )
        })
        .await
    }

    async fn verify_mark(&self, verdict: &VerifyMark) -> PortResult<RequestOutcome> {
        let v = verdict.clone();
        self.on_requests(Login::Review, "cut_request verify_mark", move |tx| {
            let outcome = moved(
                tx,
                "SELECT cutter_governance.fn_cut_request_mark_decided($1, $2, $3, $4, $5, $6)",
                v.cut_request_id,
                &[
                    &v.cut_request_id,
                    &v.approve,
                    &v.asked.actor,
                    &v.approval_doc_id,
                    &v.reason,
                    &system_time(v.asked.at),
                ],
            )?;
            let same = same_document(&outcome.request, v.approval_doc_id.as_deref());
            if outcome.already && v.approve && !same.ok {
                return Err(conflict(format!(
                    "{}: expected {}, observed {}",
                    same.invariant, same.expected, same.observed
                )));
            }
            Ok(outcome)
        })
        .await
    }

    async fn apply(&self, ask: &OnRequest, is_dry_run: bool) -> PortResult<ApplyOutcome> {
        let a = ask.clone();
        self.on_requests(Login::Exec, "cut_request apply", move |tx| {
            let row = tx.query_one(
                "SELECT o.answer ->> 'signal' AS signal, coalesce((o.answer ->> 'units')::bigint, 0) AS units
                 FROM iu_core.fn_iu_op_cut($1, $2, $3, $4) AS o(answer)",
                &[&a.cut_request_id, &is_dry_run, &a.asked.actor, &system_time(a.asked.at)],
            )?;
            let (signal, units) = (parsed_opt(&row, "signal")?, unsigned(&row, "units")?);
            Ok(ApplyOutcome { request: standing(tx, a.cut_request_id)?, units, signal, is_dry_run })
        })
        .await
    }

    async fn start_cut(&self, start: &StartCut) -> PortResult<RequestOutcome> {
        let s = start.clone();
        self.on_requests(Login::Exec, "cut_request start_cut", move |tx| {
            moved(
                tx,
                "SELECT cutter_governance.fn_cut_request_start($1, $2, $3, $4)",
                s.cut_request_id,
                &[&s.cut_request_id, &s.run_id.as_str(), &s.asked.actor, &system_time(s.asked.at)],
            )
        })
        .await
    }

    async fn catch_up(&self, catch_up: &CatchUp) -> PortResult<RequestOutcome> {
        let c = catch_up.clone();
        self.on_requests(Login::Exec, "cut_request catch_up", move |tx| {
            let (id, actor, at) = (&c.cut_request_id, &c.asked.actor, system_time(c.asked.at));
            match &c.ended {
                None => moved(
                    tx,
                    "SELECT cutter_governance.fn_cut_request_catch_up($1, $2, $3)",
                    c.cut_request_id,
                    &[id, actor, &at],
                ),
                Some(reason) => moved(
                    tx,
                    "SELECT cutter_governance.fn_cut_request_run_ended($1, $2, $3, $4)",
                    c.cut_request_id,
                    &[id, reason, actor, &at],
                ),
            }
        })
        .await
    }

    async fn verify_cut(&self, ask: &OnRequest) -> PortResult<VerifyCutOutcome> {
        let a = ask.clone();
        self.on_requests(Login::Verify, "cut_request verify_cut", move |tx| {
            let row = tx.query_one(
                "SELECT iu_core.fn_iu_op_verify_cut($1, $2, $3) AS verdict",
                &[&a.cut_request_id, &a.asked.actor, &system_time(a.asked.at)],
            )?;
            let verdict: Option<CutVerdict> = parsed_opt(&row, "verdict")?;
            Ok(VerifyCutOutcome { request: standing(tx, a.cut_request_id)?, verdict })
        })
        .await
    }

    async fn complete(&self, ask: &OnRequest) -> PortResult<RequestOutcome> {
        let a = ask.clone();
        self.on_requests(Login::Exec, "cut_request complete", move |tx| {
            moved(
                tx,
                "SELECT cutter_governance.fn_cut_request_completed($1, $2, $3)",
                a.cut_request_id,
                &[&a.cut_request_id, &a.asked.actor, &system_time(a.asked.at)],
            )
        })
        .await
    }

    async fn cleanup(&self, cleanup: &Cleanup) -> PortResult<CleanupReport> {
        let c = cleanup.clone();
        self.on_requests(Login::Exec, "cut_request cleanup", move |tx| {
            let limit = i32::try_from(c.limit).unwrap_or(i32::MAX);
            let rows = match c.as_of {
                None => tx.query(
                    "SELECT c.cut_request_id, c.records, c.bytes FROM public.fn_cut_cleanup($1, $2) c",
                    &[&limit, &c.asked.actor],
                )?,
                Some(by) => tx.query(WOULD_GO, &[&system_time(by), &limit])?,
            };
            let mut report = CleanupReport::default();
            for row in &rows {
                report.requests.extend(get::<_, Option<Uuid>>(row, "cut_request_id")?);
                report.records += unsigned(row, "records")?;
                report.bytes += unsigned(row, "bytes")?;
            }
            Ok(report)
        })
        .await
    }

    async fn get(&self, cut_request_id: Uuid) -> PortResult<Option<CutRequest>> {
        self.read("cut_request get", move |client| read::one(client, cut_request_id)).await
    }

    async fn of_run(&self, run_id: &RunId) -> PortResult<Option<CutRequest>> {
        let run = run_id.uuid();
        self.read("cut_request of_run", move |client| read::of_run(client, run)).await
    }

    async fn list(&self, query: &RequestQuery) -> PortResult<Vec<CutRequest>> {
        let query = query.clone();
        self.read("cut_request list", move |client| read::list(client, &query)).await
    }

    async fn timeline(&self, cut_request_id: Uuid) -> PortResult<Vec<Transition>> {
        self.read("cut_request timeline", move |client| read::timeline(client, cut_request_id)).await
    }

    async fn staging(&self, cut_request_id: Uuid) -> PortResult<Vec<StagingRecord>> {
        self.read("cut_request staging", move |client| read::staging(client, cut_request_id)).await
    }

    async fn staged_bytes(&self, staging_record_id: Uuid) -> PortResult<Option<Vec<u8>>> {
        self.read("cut_request staged_bytes", move |client| {
            let row = client.query_opt(
                "SELECT p.content FROM iu_core.iu_staging_payload p WHERE p.staging_record_id = $1",
                &[&staging_record_id],
            )?;
            row.map(|row| get(&row, 0)).transpose()
        })
        .await
    }

    async fn take_signals(&self, take: &TakeSignals) -> PortResult<Vec<Signal>> {
        let t = take.clone();
        self.on_requests(Login::Exec, "cut_request take_signals", move |tx| {
            let names: Vec<&str> = t.names.iter().map(|name| name.as_str()).collect();
            let rows = tx.query(
                "SELECT s.signal_id, s.signal, s.cut_request_id, s.enqueued_by, s.enqueued_at
                 FROM cutter_queue.fn_job_signal_take($1, $2, $3, $4, $5) s ORDER BY s.enqueued_at, s.signal_id",
                &[
                    &names,
                    &system_time(t.stale_before),
                    &i32::try_from(t.limit).unwrap_or(i32::MAX),
                    &t.asked.actor,
                    &system_time(t.asked.at),
                ],
            )?;
            rows.iter().map(read::signal).collect()
        })
        .await
    }

    async fn finish_signal(&self, signal_id: Uuid, at: Timestamp) -> PortResult<()> {
        self.on_requests(Login::Exec, "cut_request finish_signal", move |tx| {
            tx.execute("SELECT cutter_queue.fn_job_signal_finish($1, $2)", &[&signal_id, &system_time(at)])?;
            Ok(())
        })
        .await
    }
}
