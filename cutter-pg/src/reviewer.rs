//! The principal that stores a human's decision: `cutter_review`.

use async_trait::async_trait;
use cutter_core::base::id::RunId;
use cutter_core::machine::backlog::BacklogState as S;
use cutter_core::port::PortResult;
use cutter_core::port::database::{Begun, Reviewer};
use cutter_core::record::approval::Purpose;
use cutter_core::record::ask::{AnswerWrite, DecisionWrite};
use cutter_core::record::effect::{EffectContext, EffectName, ReviewVerdict, ReviewWrite};
use uuid::Uuid;

use crate::database::PgDatabase;
use crate::effect::{Effect, Tx, conflict, invalid, missing};
use crate::error::PgError;
use crate::row::{get, system_time};

const LIFECYCLE: &str = "lifecycle_enactment";

#[async_trait]
impl Reviewer for PgDatabase {
    async fn record_answers(&self, run_id: &RunId, answers: &[AnswerWrite]) -> PortResult<()> {
        self.store_answers(run_id.as_str(), answers).await
    }

    async fn record_decision(&self, run_id: &RunId, decision: &DecisionWrite) -> PortResult<()> {
        self.store_decision(run_id.as_str(), decision).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &ReviewWrite) -> PortResult<Begun> {
        self.begin_effect(cx, Effect::Review(effect.clone())).await
    }
}

/// The decision row (but at SG_2, where it is the request), the approval, and at SG_1 the move
/// of the entry.
pub(crate) fn write(tx: &mut Tx<'_>, write: &ReviewWrite) -> Result<(), PgError> {
    let effect = tx.cx.key.effect;
    let is_request_there = effect == EffectName::Sg2Review;
    if is_request_there != (write.decision_type == LIFECYCLE)
        || (effect == EffectName::Sg1Review) != (write.decision_type == Purpose::Cut.as_str())
    {
        return Err(invalid(format!("a {} is not decided by {effect}", write.decision_type)));
    }
    let at = system_time(tx.cx.at);
    if is_request_there {
        own_request(tx, write.review_decision_id)?;
    } else {
        tx.client.execute(
            "SELECT cutter_governance.fn_review_decision_record($1, $2, $3, $4, $5, $6, $7, NULL, NULL, NULL, $8, $9,
                 $10, $11)",
            &[
                &write.review_decision_id,
                &tx.cx.key.run_id.as_str(),
                &tx.cx.fence.document_id,
                &write.decision_type,
                &write.decision.as_str(),
                &write.entry_id,
                &write.change_set_id,
                &write.nonce,
                &write.request_sha256.to_hex(),
                &write.actor,
                &at,
            ],
        )?;
    }
    tx.client.execute(
        "INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type,
             decision, approval_kb_id, document, sha256, nonce, fingerprint, actor, expires_at, request_sha256, at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        &[
            &write.approval_id,
            &write.review_decision_id,
            &tx.cx.key.run_id.as_str(),
            &tx.cx.fence.document_id,
            &write.decision_type,
            &write.decision.as_str(),
            &write.approval_kb_id,
            &write.document.as_bytes(),
            &write.sha256.to_hex(),
            &write.nonce,
            &write.fingerprint,
            &write.actor,
            &write.expires.map(system_time),
            &write.request_sha256.to_hex(),
            &at,
        ],
    )?;
    if let (EffectName::Sg1Review | EffectName::Sg3Review, Some(entry_id), Some(history_id)) =
        (effect, write.entry_id, write.history_id)
    {
        let from = tx.status_of(entry_id)?;
        let to = match write.decision {
            // at SG_3 what was approved before is to be asked again
            _ if effect == EffectName::Sg3Review => S::ReviewedDeferred,
            // what was approved once is not rejected any more, but it waits
            ReviewVerdict::Reject if from == S::ReviewedApproved.as_str() => S::ReviewedDeferred,
            ReviewVerdict::Approve => S::ReviewedApproved,
            ReviewVerdict::Defer => S::ReviewedDeferred,
            ReviewVerdict::Reject => S::ReviewedRejected,
        };
        tx.transition(
            entry_id,
            (&from, to.as_str()),
            history_id,
            write.decision.as_str(),
            write.change_set_id,
        )?;
    }
    match write.entry_id {
        Some(entry_id) => tx.put_status(entry_id),
        None => Ok(()),
    }
}

/// The request at SG_2 stands, and is this run's.
fn own_request(tx: &mut Tx<'_>, id: Uuid) -> Result<(), PgError> {
    let row = tx.client.query_opt(
        "SELECT r.type, r.run_id FROM cutter_governance.review_decision r WHERE r.id = $1",
        &[&id],
    )?;
    let Some(row) = row else { return Err(missing("review_decision", id)) };
    let (kind, run): (&str, &str) = (get(&row, 0)?, get(&row, 1)?);
    if kind != LIFECYCLE || run != tx.run() {
        return Err(conflict(format!("review decision {id} is a {kind} of run {run}")));
    }
    Ok(())
}
