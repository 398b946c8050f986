//! lifecycle_enact: every unit enacted in one transaction, or none.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::driver::perform::{Act, Performance, Recheck, commit_if_ok};
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::lifecycle_enact;
use crate::machine::run::{GateId, Phase};
use crate::port::environment::Progress;
use crate::record::attestation;
use crate::record::effect::{EffectFacts, EffectName, EnactWrite, ExecutorEffect};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::record::signature::Duty;

/// IG_lifecycle_enact_execute.
pub(super) struct LifecycleEnact;

#[async_trait]
impl Step for LifecycleEnact {
    fn effects(&self) -> &'static [EffectName] {
        &[EffectName::Sg2Review, EffectName::Enact]
    }

    fn ids(&self) -> &'static [IdName] {
        &[IdName::Approval]
    }

    async fn may_begin(&self, run: &mut Run<'_>) -> Result<(), Halt> {
        run.policy_stands().await
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let intent = run.intent()?.clone();
        if !(run.adopting && run.committed(EffectName::Enact).await?) {
            run.documents_stand().await?;
            let (gate, effect) = (GateId::LifecycleAuthz, EffectName::Sg2Review);
            run.stored_approval(&intent, gate, effect, Phase::LifecycleEnact).await?;
        }
        let approval = run.decision(GateId::LifecycleAuthz)?;
        let n = run.sidecar.pinned(pin::CANDIDATE_COUNT)?;
        run.ports.observer.progress(&Progress::Units(n));
        let review_decision_id = run.sidecar.pinned(pin::REVIEW_DECISION_ID)?;
        let write = EnactWrite {
            change_set_id: run.sidecar.pinned(pin::CHANGE_SET_ID)?,
            review_decision_id,
            approval_id: intent.id(IdName::Approval)?,
            unit_count: n,
        };
        let payload = payload_digest(&write)?;
        let (unit_set_digest, grants_pin) = (run.sidecar.pinned(pin::UNIT_SET_DIGEST)?, run.grants_pin()?);
        let approved = approval.review_decision_id;
        let asked = run.sidecar.ask.as_ref().and_then(|ask| ask.expected_actor.clone());
        let expected_actor = asked.unwrap_or_else(|| run.sidecar.settings.lifecycle_actor.clone());
        let rows = run.signed_rows().await?;
        let evidence = run.ports.reader.evidence(&run.sidecar.run_id).await.map_err(|e| run.halt(e))?;
        let signed = [
            (Duty::Executor, run.sidecar.pinned(pin::EXECUTOR_SIGNATURE_ID)?),
            (Duty::Verifier, run.sidecar.pinned(pin::VERIFIER_SIGNATURE_ID)?),
        ];
        let signature_faults = attestation::faults(&evidence.signatures, &signed);
        let judge = |facts: &EffectFacts| {
            commit_if_ok(lifecycle_enact::judge(&lifecycle_enact::EnactFacts {
                effect: facts.clone(),
                units: n,
                unit_set_digest,
                rows,
                signature_faults: signature_faults.clone(),
                review_decision_id,
                approved_review_decision_id: approved,
                expected_actor: expected_actor.clone(),
                grants_pin,
            }))
        };
        let (_, gate) = run
            .perform(Performance {
                recheck: Some(Recheck::of(&approval)),
                ..Performance::once(
                    Act::Execute(&ExecutorEffect::Enact(write)),
                    payload,
                    &intent,
                    Phase::LifecycleEnact,
                    n,
                    &judge,
                )
            })
            .await?;
        Ok(Acted {
            key: review_decision_id.to_string(),
            mutation: "iu_core.information_unit.lifecycle_status, iu_core.iu_lifecycle_log".to_owned(),
            work: vec![
                format!("stored the approval {}", approval.approval_kb_id),
                format!("enacted {n} units in one transaction, one log row each"),
            ],
            diff: vec![("enacted".to_owned(), "0".to_owned(), n.to_string())],
            ..Acted::of(gate, "lifecycle_enacted")
        })
    }
}
