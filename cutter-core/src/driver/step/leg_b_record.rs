//! leg_b_record: the envelope over what leg A signed.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;

use async_trait::async_trait;
use serde_json::json;

use super::{Acted, Step};
use crate::base::canonical;
use crate::driver::perform::{Act, Performance, commit_if_ok};
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::leg_b_record;
use crate::machine::run::Phase;
use crate::record::effect::{EffectFacts, EffectName, ExecutorEffect, LegBWrite};
use crate::record::intent::IdName;
use crate::record::pin;

/// IG_leg_b_record: the envelope binds leg A's signature.
pub(super) struct LegBRecord;

#[async_trait]
impl Step for LegBRecord {
    fn effects(&self) -> &'static [EffectName] {
        &[EffectName::LegB]
    }

    fn ids(&self) -> &'static [IdName] {
        &[IdName::ManifestEnvelope]
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let intent = run.intent()?.clone();
        let n = run.sidecar.pinned(pin::CANDIDATE_COUNT)?;
        let change_set_id = run.sidecar.pinned(pin::CHANGE_SET_ID)?;
        let executor_signature_id = run.sidecar.pinned(pin::EXECUTOR_SIGNATURE_ID)?;
        let manifest_envelope_id = intent.id(IdName::ManifestEnvelope)?;
        let envelope = canonical::to_canonical(&json!({
            "manifest_envelope_id": manifest_envelope_id, "change_set_id": change_set_id,
            "executor_signature_id": executor_signature_id, "run_id": run.sidecar.run_id.to_string(),
            "document_id": run.sidecar.document_id, "source_version_id": run.sidecar.source_version_id,
            "manifest_digest": run.sidecar.pinned(pin::MANIFEST_DIGEST)?,
            "region_sha": run.sidecar.pinned(pin::REGION_SHA)?,
            "writer_digest": run.sidecar.pinned(pin::WRITER_DIGEST)?,
            "unit_set_digest": run.sidecar.pinned(pin::UNIT_SET_DIGEST)?,
            "unit_count": n, "at": intent.at.to_string(),
        }))?;
        let write = LegBWrite {
            manifest_envelope_id,
            change_set_id,
            entry_id: run.sidecar.pinned(pin::ENTRY_ID)?,
            executor_signature_id,
            envelope,
            unit_count: n,
        };
        let payload = payload_digest(&write)?;
        let judge = |facts: &EffectFacts| {
            commit_if_ok(leg_b_record::judge(&leg_b_record::LegBFacts { effect: facts.clone(), units: n }))
        };
        let (_, gate) = run
            .perform(Performance::once(
                Act::Execute(&ExecutorEffect::LegB(write)),
                payload,
                &intent,
                Phase::LegBRecord,
                n,
                &judge,
            ))
            .await?;
        run.pin(pin::MANIFEST_ENVELOPE_ID, manifest_envelope_id);
        Ok(Acted {
            key: manifest_envelope_id.to_string(),
            mutation: "cutter_governance.manifest_envelope".to_owned(),
            work: vec!["recorded the manifest envelope over leg A's signature".to_owned()],
            diff: run.pinned(&["manifest_envelope_id"]),
            ..Acted::of(gate, "leg_b_recorded")
        })
    }
}
