//! The statement of a closed run, as rows.

use cutter_core::base::digest::Digest;
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
        statement: &Digest,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        let (fence, statement, signature) = (fence.clone(), statement.to_hex(), signature.clone());
        self.alone(Login::Verify, "sign_statement", move |client| {
            client.execute(
                "SELECT cutter_governance.fn_statement_sign($1, $2, $3, $4, $5, $6)",
                &[
                    &fence.run_id.as_str(),
                    &fence.epoch,
                    &fence.holder,
                    &statement,
                    &signature.public_key,
                    &signature.signature,
                ],
            )?;
            Ok(())
        })
        .await
    }
}

/// What is stored under a run, oldest first.
pub(crate) fn of_run(client: &mut Client, run_id: &str) -> Result<Vec<StoredStatement>, PgError> {
    let rows = client.query(
        "SELECT t.sha256, t.body, g.duty, g.public_key, g.signature, g.recorded_at
         FROM cutter_governance.run_statement t
         LEFT JOIN cutter_governance.statement_signature g
             ON g.run_id = t.run_id AND g.statement_sha256 = t.sha256
         WHERE t.run_id = $1 ORDER BY t.recorded_at, t.sha256, g.duty, g.recorded_at",
        &[&run_id],
    )?;
    let mut found: Vec<StoredStatement> = Vec::new();
    let mut of = None;
    for row in &rows {
        let sha256: &str = get(row, "sha256")?;
        if of.replace(sha256) != Some(sha256) {
            found.push(StoredStatement { body: get(row, "body")?, signatures: Vec::new() });
        }
        let Some(duty) = get::<_, Option<&str>>(row, "duty")? else { continue };
        let signature = StatementSignature {
            duty: if duty == Duty::Executor.as_str() { Duty::Executor } else { Duty::Verifier },
            public_key: get(row, "public_key")?,
            signature: get(row, "signature")?,
            recorded_at: timestamp_opt(row, "recorded_at")?,
        };
        if let Some(statement) = found.last_mut() {
            statement.signatures.push(signature);
        }
    }
    Ok(found)
}
