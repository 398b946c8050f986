//! lifecycle_enact: every unit enacted in one transaction, or none.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::cut_phases::commit_if_ok;
use super::enter::Acted;
use super::perform::{Act, Performance, Recheck};
use super::run::{Halt, Run, payload_digest};
use crate::gate::lifecycle_enact;
use crate::machine::run::{GateId, Phase};
use crate::port::environment::Progress;
use crate::record::attestation;
use crate::record::effect::{EffectFacts, EffectName, EnactWrite, ExecutorEffect};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::record::signature::Duty;

impl Run<'_> {
    /// IG_lifecycle_enact_execute.
    pub(super) async fn lifecycle_enact(&mut self) -> Result<Acted, Halt> {
        let intent = self.intent()?.clone();
        if !(self.adopting && self.committed(EffectName::Enact).await?) {
            self.documents_stand().await?;
            let (gate, effect) = (GateId::LifecycleAuthz, EffectName::Sg2Review);
            self.stored_approval(&intent, gate, effect, Phase::LifecycleEnact).await?;
        }
        let approval = self.decision(GateId::LifecycleAuthz)?;
        let n = self.sidecar.pinned(pin::CANDIDATE_COUNT)?;
        self.ports.observer.progress(&Progress::Units(n));
        let review_decision_id = self.sidecar.pinned(pin::REVIEW_DECISION_ID)?;
        let write = EnactWrite {
            change_set_id: self.sidecar.pinned(pin::CHANGE_SET_ID)?,
            review_decision_id,
            approval_id: intent.id(IdName::Approval)?,
            unit_count: n,
        };
        let payload = payload_digest(&write)?;
        let (unit_set_digest, grants_pin) = (self.sidecar.pinned(pin::UNIT_SET_DIGEST)?, self.grants_pin()?);
        let approved = approval.review_decision_id;
        let asked = self.sidecar.ask.as_ref().and_then(|ask| ask.expected_actor.clone());
        let expected_actor = asked.unwrap_or_else(|| self.sidecar.settings.lifecycle_actor.clone());
        let rows = self.signed_rows().await?;
        let evidence = self.ports.reader.evidence(&self.sidecar.run_id).await.map_err(|e| self.halt(e))?;
        let signed = [
            (Duty::Executor, self.sidecar.pinned(pin::EXECUTOR_SIGNATURE_ID)?),
            (Duty::Verifier, self.sidecar.pinned(pin::VERIFIER_SIGNATURE_ID)?),
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
        let (_, gate) = self
            .perform(Performance {
                act: Act::Execute(&ExecutorEffect::Enact(write)),
                effect: EffectName::Enact,
                occurrence: 1,
                payload,
                intent: &intent,
                phase: Phase::LifecycleEnact,
                units: n,
                recheck: Some(Recheck::of(&approval)),
                judge: &judge,
            })
            .await?;
        Ok(Acted {
            gate,
            key: review_decision_id.to_string(),
            mutation: "iu_core.information_unit.lifecycle_status, iu_core.iu_lifecycle_log".to_owned(),
            work: vec![
                format!("stored the approval {}", approval.approval_kb_id),
                format!("enacted {n} units in one transaction, one log row each"),
            ],
            diff: vec![("enacted".to_owned(), "0".to_owned(), n.to_string())],
            artifacts: Vec::new(),
            verdict: self.verdict("lifecycle_enacted"),
            closing: None,
        })
    }
}
