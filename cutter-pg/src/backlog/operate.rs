//! What moves entries outside of a run: one statement each, which commits by itself.

use std::time::Duration;

use cutter_core::port::PortResult;
use cutter_core::port::backlog::{AbandonRequest, RequeueRequest, ReviewRequest, SweepBatch, check_limit};
use postgres::Row;
use postgres::types::ToSql;
use uuid::Uuid;

use super::Param;
use crate::database::{PgDatabase, connection, give_up_after_deadline};
use crate::error::PgError;
use crate::login::Login;
use crate::row::{get, system_time};

/// The longest wait for one operation; a sweep of [`cutter_core::port::backlog::MAX_PAGE`] entries
/// takes a small part of it.
const LIMIT: Duration = Duration::from_secs(60);

impl PgDatabase {
    /// One statement under a login, and a value out of its one row. An error after it was sent may
    /// be `OutcomeUnknown`: every operation here may be asked for again.
    async fn operate<T: Send + 'static>(
        &self,
        login: Login,
        op: &'static str,
        sql: &'static str,
        params: Vec<Param>,
        read: fn(&Row) -> Result<T, PgError>,
    ) -> PortResult<T> {
        let mut held = self.hold(login, op).await?;
        let outcome = match connection(&held) {
            Ok(connection) => {
                let job = move |client: &mut postgres::Client| {
                    let params: Vec<&(dyn ToSql + Sync)> =
                        params.iter().map(|p| p.as_ref() as &(dyn ToSql + Sync)).collect();
                    let row = client.query_one(sql, &params);
                    read(&row.map_err(|error| PgError::from(error).autocommit_outcome())?)
                };
                connection.run_with_deadline(LIMIT, job).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &outcome {
            give_up_after_deadline(&mut held, error);
        }
        outcome.map_err(|error| error.to_port(op))
    }

    pub(super) async fn sweep_pass(&self, batch: SweepBatch) -> PortResult<Vec<Uuid>> {
        check_limit("sweep", batch.limit)?;
        let params: Vec<Param> = vec![
            Box::new(batch.sweep_id),
            Box::new(batch.document_id),
            Box::new(batch.actor),
            Box::new(system_time(batch.at)),
            Box::new(batch.after),
            Box::new(i32::try_from(batch.limit).unwrap_or(i32::MAX)),
        ];
        let sql = "SELECT cutter_governance.fn_backlog_sweep_pass($1, $2, $3, $4, $5, $6)";
        self.operate(Login::Exec, "sweep", sql, params, |row| get(row, 0)).await
    }

    pub(super) async fn decide(&self, request: ReviewRequest) -> PortResult<Uuid> {
        let params: Vec<Param> = vec![
            Box::new(request.decision_id),
            Box::new(request.entry_id),
            Box::new(request.verdict.as_str()),
            Box::new(request.manifest_digest.to_hex()),
            Box::new(request.history_id),
            Box::new(request.reason.clone()),
            Box::new(request.decision_id.to_string()),
            Box::new(request.digest().to_hex()),
            Box::new(request.actor.clone()),
            Box::new(system_time(request.at)),
        ];
        let sql = "SELECT cutter_governance.fn_backlog_review($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        self.operate(Login::Review, "review", sql, params, |row| get(row, 0)).await
    }

    pub(super) async fn put_back(&self, request: RequeueRequest) -> PortResult<bool> {
        let params: Vec<Param> = vec![
            Box::new(request.sweep_id),
            Box::new(request.entry_id),
            Box::new(request.history_id),
            Box::new(request.reason),
            Box::new(request.actor),
            Box::new(system_time(request.at)),
        ];
        let sql = "SELECT cutter_governance.fn_backlog_requeue($1, $2, $3, $4, $5, $6)";
        self.operate(Login::Review, "requeue", sql, params, |row| get(row, 0)).await
    }

    pub(super) async fn give_up(&self, request: AbandonRequest) -> PortResult<bool> {
        let params: Vec<Param> = vec![
            Box::new(request.entry_id),
            Box::new(request.history_id),
            Box::new(request.reason),
            Box::new(request.actor),
            Box::new(system_time(request.at)),
        ];
        let sql = "SELECT cutter_governance.fn_backlog_abandon($1, $2, $3, $4, $5)";
        self.operate(Login::Review, "abandon", sql, params, |row| get(row, 0)).await
    }
}
