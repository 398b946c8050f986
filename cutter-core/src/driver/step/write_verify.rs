//! write_verify: another principal counts again, and signs.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::driver::perform::{Act, Performance};
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::write_verify;
use crate::machine::run::Phase;
use crate::machine::stop::StopReason;
use crate::record::attestation;
use crate::record::effect::{EffectFacts, EffectName, Verdict, WriteVerifyWrite};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::record::signature::Duty;

/// IG_write_verify: another principal recounts and signs; a failure commits its own record.
pub(super) struct WriteVerify;

#[async_trait]
impl Step for WriteVerify {
    fn effects(&self) -> &'static [EffectName] {
        &[EffectName::WriteVerify]
    }

    fn ids(&self) -> &'static [IdName] {
        &[
            IdName::VerifyResult,
            IdName::VerifyHistory1,
            IdName::VerifyHistory2,
            IdName::SignaturePass,
            IdName::SignatureFail,
            IdName::Compensating,
            IdName::Escalation,
            IdName::EscalationHistory,
        ]
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let intent = run.intent()?.clone();
        let change_set_id = run.sidecar.pinned(pin::CHANGE_SET_ID)?;
        let n = run.sidecar.pinned(pin::CANDIDATE_COUNT)?;
        let expected = run.structural_expected().await?;
        let subject = run.subject(change_set_id, n)?;
        let evidence = run.ports.reader.evidence(&run.sidecar.run_id).await.map_err(|e| run.halt(e))?;
        let executor_id = run.sidecar.pinned(pin::EXECUTOR_SIGNATURE_ID)?;
        let signature_faults = attestation::faults(&evidence.signatures, &[(Duty::Executor, executor_id)]);
        let executor = evidence.signatures.iter().find(|s| s.signature_id == executor_id);
        let missing = || Halt::stop(StopReason::Internal, "leg A's signature is not in the database");
        let previous = executor.ok_or_else(missing)?.signature.clone();
        let pass_id = intent.id(IdName::SignaturePass)?;
        let fail_id = intent.id(IdName::SignatureFail)?;
        let pass =
            run.attest(Duty::Verifier, "verified", pass_id, &subject, Some(&previous), &intent).await?;
        let fail =
            run.attest(Duty::Verifier, "verify_failed", fail_id, &subject, Some(&previous), &intent).await?;
        let write = WriteVerifyWrite {
            verify_result_id: intent.id(IdName::VerifyResult)?,
            change_set_id,
            manifest_envelope_id: run.sidecar.pinned(pin::MANIFEST_ENVELOPE_ID)?,
            entry_id: run.sidecar.pinned(pin::ENTRY_ID)?,
            history_ids: [intent.id(IdName::VerifyHistory1)?, intent.id(IdName::VerifyHistory2)?],
            signature_pass: pass,
            signature_fail: fail,
            compensating_id: intent.id(IdName::Compensating)?,
            escalation: [intent.id(IdName::Escalation)?, intent.id(IdName::EscalationHistory)?],
            document_id: run.sidecar.document_id.clone(),
            forbidden_prefixes: run.sidecar.settings.forbidden_prefixes.clone(),
        };
        let payload = payload_digest(&write)?;
        let rows = run.approved_rows().await?;
        let judge = |facts: &EffectFacts| {
            let facts = write_verify::WriteVerifyFacts {
                effect: facts.clone(),
                expected: expected.clone(),
                rows,
                signature_faults: signature_faults.clone(),
            };
            let report = write_verify::judge(&facts);
            let verdict = if report.ok() { Verdict::Commit } else { Verdict::CommitFailure };
            (report, verdict)
        };
        let (_, gate) = run
            .perform(Performance::once(Act::Verify(&write), payload, &intent, Phase::WriteVerify, n, &judge))
            .await?;
        run.pin(pin::VERIFY_RESULT_ID, write.verify_result_id);
        run.pin(pin::VERIFIER_SIGNATURE_ID, if gate.ok() { pass_id } else { fail_id });
        Ok(Acted {
            key: write.verify_result_id.to_string(),
            mutation: "cutter_governance.verify_result, dot_pair_signature".to_owned(),
            work: vec![
                "recounted as cutter_verify".to_owned(),
                "signed over leg A's signature; the backlog entry is verified_complete (S8)".to_owned(),
            ],
            diff: run.pinned(&["verify_result_id"]),
            ..Acted::of(gate, "write_verified")
        })
    }
}
