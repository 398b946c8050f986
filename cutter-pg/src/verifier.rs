//! The principal that stores the verdict on what was written: `cutter_verify` (G-VERIFY-SOD).

use async_trait::async_trait;
use cutter_core::base::digest::Digest;
use cutter_core::port::PortResult;
use cutter_core::port::database::{Begun, Verifier};
use cutter_core::record::effect::{EffectContext, WriteVerifyWrite, fact};
use cutter_core::record::observed::Fence;
use cutter_core::record::stored_statement::StatementSignature;
use uuid::Uuid;

use crate::database::PgDatabase;
use crate::effect::{Effect, Tx, missing};
use crate::error::PgError;
use crate::executor::{put_rows, sign};
use crate::row::{get, system_time};
use crate::survey;

#[async_trait]
impl Verifier for PgDatabase {
    async fn sign_statement(
        &self,
        fence: &Fence,
        statement: &Digest,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.put_statement_signature(fence, statement, signature).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &WriteVerifyWrite) -> PortResult<Begun> {
        self.begin_effect(cx, Effect::WriteVerify(effect.clone())).await
    }
}

/// S6 → S7 → S8 with the passing result; with `is_failing`, what that wrote is undone and
/// S7 → S9, the compensating set and the escalation entry take its place.
pub(crate) fn write(tx: &mut Tx<'_>, write: &WriteVerifyWrite, is_failing: bool) -> Result<(), PgError> {
    let set = write.change_set_id;
    if is_failing {
        tx.client.batch_execute("ROLLBACK TO SAVEPOINT before_verdict")?;
    } else {
        tx.own_live_change_set(set)?;
        own_envelope(tx, write)?;
        tx.client.batch_execute("SAVEPOINT before_verdict")?;
    }
    tx.structural = Some(survey::structural(tx.client, set, &write.document_id, &write.forbidden_prefixes)?);
    if is_failing {
        tx.client.execute(
            "SELECT cutter_governance.fn_verify_escalate($1, $2, $3, $4, $5, $6, $7)",
            &[
                &write.compensating_id,
                &set,
                &write.escalation[0],
                &write.escalation[1],
                &tx.cx.key.run_id.as_str(),
                &tx.cx.actor,
                &system_time(tx.cx.at),
            ],
        )?;
    }
    let (compensating, escalation): (Option<Uuid>, Option<Uuid>) =
        if is_failing { (Some(write.compensating_id), Some(write.escalation[0])) } else { (None, None) };
    tx.client.execute(
        "INSERT INTO cutter_governance.verify_result (id, change_set_id, run_id, manifest_envelope_id, entry_id,
             passed, compensating_id, escalation_entry_id, actor, at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            &write.verify_result_id,
            &set,
            &tx.cx.key.run_id.as_str(),
            &write.manifest_envelope_id,
            &write.entry_id,
            &!is_failing,
            &compensating,
            &escalation,
            &tx.cx.actor,
            &system_time(tx.cx.at),
        ],
    )?;
    sign(tx, set, if is_failing { &write.signature_fail } else { &write.signature_pass })?;
    let [start, end] = write.history_ids;
    tx.transition(write.entry_id, ("cut_applied", "verify_in_progress"), start, "verify started", Some(set))?;
    let (to, reason) = if is_failing {
        ("verify_failed_escalated", "verify failed")
    } else {
        ("verified_complete", "verified")
    };
    tx.transition(write.entry_id, ("verify_in_progress", to), end, reason, Some(set))?;

    let results = tx.count(
        "SELECT count(*) FROM cutter_governance.verify_result r WHERE r.change_set_id = $1",
        &[&set],
    )?;
    tx.put(fact::VERIFY_RESULTS, results);
    put_rows(tx, set, None)?;
    let executor = tx.client.query_opt(
        "SELECT s.inserted_by::text FROM cutter_governance.dot_pair_signature s
         WHERE s.change_set_id = $1 AND s.duty = 'executor'",
        &[&set],
    )?;
    if let Some(row) = executor {
        let login: String = get(&row, 0)?;
        tx.put(fact::EXECUTOR_PRINCIPAL, login);
    }
    tx.put_status(write.entry_id)
}

fn own_envelope(tx: &mut Tx<'_>, write: &WriteVerifyWrite) -> Result<(), PgError> {
    let row = tx.client.query_opt(
        "SELECT 1 FROM cutter_governance.manifest_envelope m WHERE m.id = $1 AND m.change_set_id = $2",
        &[&write.manifest_envelope_id, &write.change_set_id],
    )?;
    row.map(|_| ()).ok_or_else(|| missing("manifest_envelope", write.manifest_envelope_id))
}
