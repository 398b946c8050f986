//! cut_leg_a: the approval is stored, then the units, in one transaction each.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use async_trait::async_trait;
use serde_json::json;
use uuid::Uuid;

use super::{Acted, Step};
use crate::base::key::{self, RowLabel};
use crate::driver::perform::{Act, Performance, Recheck, commit_if_ok};
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::{cut_leg_a, drift};
use crate::machine::run::{GateId, Phase};
use crate::machine::stop::StopReason;
use crate::port::environment::Progress;
use crate::record::effect::{EffectFacts, EffectName, ExecutorEffect, LegAWrite, UnitWrite};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::record::signature::Duty;

/// The check that tells base-state drift from a failed cut.
const BASE_STATE: &str = "cut_leg_a.base_state";

/// IG_cut_leg_a_execute: the decision is stored, then exactly N drafts in one transaction.
pub(super) struct CutLegA;

#[async_trait]
impl Step for CutLegA {
    fn effects(&self) -> &'static [EffectName] {
        &[EffectName::Sg1Review, EffectName::LegA]
    }

    fn ids(&self) -> &'static [IdName] {
        &[
            IdName::Approval,
            IdName::ReviewDecision,
            IdName::ReviewHistory,
            IdName::ChangeSet,
            IdName::CutHistory1,
            IdName::CutHistory2,
            IdName::ExecutorSignature,
        ]
    }

    async fn may_begin(&self, run: &mut Run<'_>) -> Result<(), Halt> {
        run.policy_stands().await
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let intent = run.intent()?.clone();
        // What a lost attempt committed stands: neither backup nor approval is asked about again.
        if !(run.adopting && run.committed(EffectName::LegA).await?) {
            run.backup_stands().await?;
            run.documents_stand().await?;
            run.stored_approval(&intent, GateId::CutAuthz, EffectName::Sg1Review, Phase::CutLegA).await?;
        }
        let change_set_id = intent.id(IdName::ChangeSet)?;
        let units = run.unit_writes(change_set_id).await?;
        let n = units.len() as u64;
        run.ports.observer.progress(&Progress::Units(n));
        let subject = run.subject(change_set_id, n)?;
        let signature = run
            .attest(Duty::Executor, "cut", intent.id(IdName::ExecutorSignature)?, &subject, None, &intent)
            .await?;
        let (document, version) = run.source_ids()?;
        let approval = run.decision(GateId::CutAuthz)?;
        let write = LegAWrite {
            change_set_id,
            idempotency_key: payload_digest(&(
                change_set_id,
                &run.sidecar.idempotency_keys.get("grant_probe"),
            ))?,
            entry_id: run.sidecar.pinned(pin::ENTRY_ID)?,
            history_ids: [intent.id(IdName::CutHistory1)?, intent.id(IdName::CutHistory2)?],
            source_document_id: document,
            source_version_id: version,
            approval_id: intent.id(IdName::Approval)?,
            review_decision_id: intent.id(IdName::ReviewDecision)?,
            writer_digest: run.sidecar.pinned(pin::WRITER_DIGEST)?,
            manifest_digest: run.sidecar.pinned(pin::MANIFEST_DIGEST)?,
            region_sha: run.sidecar.pinned(pin::REGION_SHA)?,
            publication_type: run.sidecar.pin_text(pin::PUBLICATION_TYPE).unwrap_or_default().to_owned(),
            signature,
            units,
        };
        let payload = payload_digest(&json!({
            "change_set_id": change_set_id, "entry_id": write.entry_id, "history_ids": write.history_ids,
            "approval_id": write.approval_id, "review_decision_id": write.review_decision_id,
            "writer_digest": write.writer_digest, "region_sha": write.region_sha,
            "manifest_digest": write.manifest_digest, "signature": write.signature, "units": n,
        }))?;
        let (writer_digest, base_state) = (write.writer_digest, run.sidecar.pinned(pin::BASE_STATE_SHA)?);
        let grants_pin = run.grants_pin()?;
        let rows = run.approved_rows().await?;
        let judge = move |facts: &EffectFacts| {
            commit_if_ok(cut_leg_a::judge(&cut_leg_a::LegAFacts {
                effect: facts.clone(),
                units: n,
                writer_digest,
                rows,
                base_state,
                grants_pin,
            }))
        };
        let recheck = Recheck::of(&approval);
        let performed = run
            .perform(Performance {
                recheck: Some(recheck),
                ..Performance::once(
                    Act::Execute(&ExecutorEffect::LegA(write)),
                    payload,
                    &intent,
                    Phase::CutLegA,
                    n,
                    &judge,
                )
            })
            .await;
        let (_, gate) = performed.map_err(base_state_drift)?;
        run.pin(pin::CHANGE_SET_ID, change_set_id);
        run.pin(pin::EXECUTOR_SIGNATURE_ID, intent.id(IdName::ExecutorSignature)?);
        run.pin(pin::CUT_REVIEW_DECISION_ID, intent.id(IdName::ReviewDecision)?);
        Ok(Acted {
            key: change_set_id.to_string(),
            mutation: "iu_core.information_unit, unit_version, unit_anchor; cutter_governance.cut_change_set"
                .to_owned(),
            work: vec![
                format!("stored the approval {}", approval.approval_kb_id),
                format!("wrote {n} units with their versions and anchors, all draft, in one transaction"),
                "signed as executor; the backlog entry is cut_applied (S6)".to_owned(),
            ],
            diff: vec![("units".to_owned(), "0".to_owned(), n.to_string())],
            ..Acted::of(gate, "cut_leg_a_committed")
        })
    }
}

impl Run<'_> {
    /// The units of the plan with the bytes of the stored text, and ids that a redo repeats.
    async fn unit_writes(&mut self, change_set_id: Uuid) -> Result<Vec<UnitWrite>, Halt> {
        let pinned = self.sidecar.pinned(pin::WRITER_DIGEST)?;
        let plan = self.plan().await?;
        if plan.writer_digest != pinned {
            return Err(Halt::drift(&[drift::Difference {
                dimension: drift::WRITER_DIGEST.to_owned(),
                expected: Some(pinned.to_hex()),
                observed: Some(plan.writer_digest.to_hex()),
            }]));
        }
        let rows = plan.rows.clone();
        let mut units = Vec::with_capacity(rows.len());
        for row in rows {
            let outside = || Halt::stop(StopReason::Internal, "a unit's span is outside the text");
            let ordinal = u64::from(row.ordinal);
            units.push(UnitWrite {
                unit_id: key::unit_id(change_set_id, RowLabel::Unit, ordinal),
                version_id: key::unit_id(change_set_id, RowLabel::Version, ordinal),
                anchor_id: key::unit_id(change_set_id, RowLabel::Anchor, ordinal),
                ordinal,
                content: self.text.get(row.start..row.end).ok_or_else(outside)?.to_vec(),
                canonical_address: row.canonical_address.to_string(),
                citation_address: row.citation_address.map(|a| a.to_string()),
                unit_kind: row.unit_kind,
                section_type: row.section_type,
                start: row.start as u64,
                end: row.end as u64,
                content_hash: row.content_hash,
                body_hash: row.body_hash,
                idempotency_key: *row.idempotency_key.digest(),
            });
        }
        Ok(units)
    }
}

/// A base state that moved since the backup is drift, not a failed cut (PROTOCOL §7).
fn base_state_drift(halt: Halt) -> Halt {
    match halt {
        Halt::Fail(report) => {
            let failures = report.failures();
            let only = failures.iter().all(|c| c.invariant == BASE_STATE);
            match failures.first() {
                Some(check) if only => Halt::drift(&[drift::Difference {
                    dimension: drift::BASE_STATE.to_owned(),
                    expected: Some(check.expected.clone()),
                    observed: Some(check.observed.clone()),
                }]),
                _ => Halt::Fail(report),
            }
        }
        other => other,
    }
}
