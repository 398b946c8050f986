//! The statement of a closed run, as rows.

use cutter_core::port::PortResult;
use cutter_core::record::observed::Fence;
use cutter_core::record::signature::Duty;
use cutter_core::record::stored_statement::{StatementSignature, StoredStatement};
use postgres::Client;

use crate::database::PgDatabase;
use crate::error::PgError;
use crate::login::Login;
use crate::row::{get, timestamp_opt};

impl PgDatabase {
    /// `fn_statement_store`, by the executor.
    pub(crate) async fn put_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        let (fence, body, signature) = (fence.clone(), body.to_owned(), signature.clone());
        self.alone(Login::Exec, "store_statement", move |client| {
            client.execute(
                "SELECT cutter_governance.fn_statement_store($1, $2, $3, $4, $5, $6)",
                &[
                    &fence.run_id.as_str(),
                    &fence.epoch,
                    &fence.holder,
                    &body,
                    &signature.public_key,
                    &signature.signature,
                ],
            )?;
            Ok(())
        })
        .await
    }

    /// `fn_statement_sign`, by the verifier.
    pub(crate) async fn put_statement_signature(
        &self,
        fence: &Fence,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        let (fence, signature) = (fence.clone(), signature.clone());
        self.alone(Login::Verify, "sign_statement", move |client| {
            client.execute(
                "SELECT cutter_governance.fn_statement_sign($1, $2, $3, $4, $5)",
                &[
                    &fence.run_id.as_str(),
                    &fence.epoch,
                    &fence.holder,
                    &signature.public_key,
                    &signature.signature,
                ],
            )?;
            Ok(())
        })
        .await
    }
}

/// The statement of a run, if it has made one.
pub(crate) fn of_run(client: &mut Client, run_id: &str) -> Result<Option<StoredStatement>, PgError> {
    let body = client
        .query_opt("SELECT t.body FROM cutter_governance.run_statement t WHERE t.run_id = $1", &[&run_id])?;
    let Some(body) = body else { return Ok(None) };
    let rows = client.query(
        "SELECT g.duty, g.public_key, g.signature, g.recorded_at FROM cutter_governance.statement_signature g
         WHERE g.run_id = $1 ORDER BY g.duty",
        &[&run_id],
    )?;
    let of = |row: &postgres::Row| {
        Ok(StatementSignature {
            duty: match get::<_, &str>(row, 0)? {
                "executor" => Duty::Executor,
                _ => Duty::Verifier,
            },
            public_key: get(row, 1)?,
            signature: get(row, 2)?,
            recorded_at: timestamp_opt(row, "recorded_at")?,
        })
    };
    let signatures = rows.iter().map(of).collect::<Result<_, PgError>>()?;
    Ok(Some(StoredStatement { body: get(&body, 0)?, signatures }))
}
