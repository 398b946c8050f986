//! The request at SG_2: may what was cut be enacted?

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use async_trait::async_trait;

use super::Request;
use crate::driver::perform::{Act, Performance, commit_if_ok};
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::lifecycle_request;
use crate::machine::run::{GateId, Phase};
use crate::record::approval::field;
use crate::record::effect::{EffectFacts, EffectName, ExecutorEffect, Sg2RequestWrite};
use crate::record::intent::{IdName, Intent};
use crate::record::pin;
use crate::report::naming::AuthorizationGate;

/// SG_lifecycle_authz: the units that were cut, before any of them is in force. It is a row, too.
pub(super) struct LifecycleRequest;

#[async_trait]
impl Request for LifecycleRequest {
    fn gate(&self) -> GateId {
        GateId::LifecycleAuthz
    }

    fn named(&self) -> AuthorizationGate {
        AuthorizationGate::Lifecycle
    }

    fn ids(&self) -> &'static [IdName] {
        &[
            IdName::Effect(EffectName::Sg2Request),
            IdName::ReviewDecision,
            IdName::Effect(EffectName::Sg2Review),
            IdName::Approval,
        ]
    }

    fn chosen(&self, run: &mut Run<'_>, intent: &Intent) -> Result<(), Halt> {
        run.pin(pin::REVIEW_DECISION_ID, intent.id(IdName::ReviewDecision)?);
        Ok(())
    }

    fn fields(&self, run: &Run<'_>, intent: &Intent) -> Result<BTreeMap<&'static str, String>, Halt> {
        Ok([
            (field::CHANGE_SET_ID, run.sidecar.pinned(pin::CHANGE_SET_ID)?.to_string()),
            (field::REVIEW_DECISION_ID, intent.id(IdName::ReviewDecision)?.to_string()),
            (field::UNIT_COUNT, run.sidecar.pinned(pin::CANDIDATE_COUNT)?.to_string()),
            (field::UNIT_SET_DIGEST, run.sidecar.pinned(pin::UNIT_SET_DIGEST)?.to_hex()),
        ]
        .into())
    }

    async fn stored(&self, run: &mut Run<'_>) -> Result<(), Halt> {
        let intent = run.intent()?.clone();
        let missing = || Halt::corrupt("no request is open");
        let ask = run.sidecar.ask.clone().ok_or_else(missing)?;
        let digest = ask.required.get(field::REQUEST_SHA256).and_then(|t| t.parse().ok());
        let expected_actor = ask.expected_actor.clone().unwrap_or_default();
        let n = run.sidecar.pinned(pin::CANDIDATE_COUNT)?;
        let write = Sg2RequestWrite {
            review_decision_id: intent.id(IdName::ReviewDecision)?,
            entry_id: run.sidecar.pinned(pin::ENTRY_ID)?,
            change_set_id: run.sidecar.pinned(pin::CHANGE_SET_ID)?,
            expected_actor: expected_actor.clone(),
            unit_count: n,
            unit_set_digest: run.sidecar.pinned(pin::UNIT_SET_DIGEST)?,
            nonce: intent.nonce.clone().unwrap_or_default(),
            request_sha256: digest.ok_or_else(missing)?,
        };
        let payload = payload_digest(&write)?;
        let judge = |facts: &EffectFacts| {
            commit_if_ok(lifecycle_request::judge(&lifecycle_request::LifecycleRequestFacts {
                effect: facts.clone(),
                units: n,
                expected_actor: expected_actor.clone(),
            }))
        };
        run.perform(Performance {
            occurrence: intent.occurrence,
            ..Performance::once(
                Act::Execute(&ExecutorEffect::Sg2Request(write)),
                payload,
                &intent,
                Phase::WriteVerify,
                n,
                &judge,
            )
        })
        .await?;
        Ok(())
    }
}
