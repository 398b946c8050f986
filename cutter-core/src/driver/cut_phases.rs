//! cut_leg_a, structural_verify, leg_b_record and write_verify: the writes and their proof.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::json;
use uuid::Uuid;

use super::enter::Acted;
use super::perform::{Act, Performance, Recheck};
use super::run::{Halt, Run, payload_digest};
use crate::base::canonical;
use crate::base::digest::Digest;
use crate::base::key::{self, RowLabel};
use crate::gate::{cut_leg_a, leg_b_record, structural_verify, write_verify};
use crate::machine::run::{GateId, Phase};
use crate::machine::stop::StopReason;
use crate::port::environment::Progress;
use crate::record::attestation::{self, Subject};
use crate::record::check::GateReport;
use crate::record::effect::{
    EffectFacts, EffectName, ExecutorEffect, LegAWrite, LegBWrite, SignatureWrite, UnitWrite, Verdict,
    WriteVerifyWrite,
};
use crate::record::intent::{IdName, Intent};
use crate::record::pin;
use crate::record::signature::Duty;

/// The check that tells base-state drift from a failed cut.
const BASE_STATE: &str = "cut_leg_a.base_state";

/// `Commit` exactly if every invariant holds.
pub(super) fn commit_if_ok(report: GateReport) -> (GateReport, Verdict) {
    let verdict = if report.ok() { Verdict::Commit } else { Verdict::Rollback };
    (report, verdict)
}

impl Run<'_> {
    /// IG_cut_leg_a_execute: the decision is stored, then exactly N drafts in one transaction.
    pub(super) async fn cut_leg_a(&mut self) -> Result<Acted, Halt> {
        let intent = self.intent()?.clone();
        // What a lost attempt committed stands: neither backup nor approval is asked about again.
        if !(self.adopting && self.committed(EffectName::LegA).await?) {
            self.backup_stands().await?;
            self.documents_stand().await?;
            self.stored_approval(&intent, GateId::CutAuthz, EffectName::Sg1Review, Phase::CutLegA).await?;
        }
        let change_set_id = intent.id(IdName::ChangeSet)?;
        let units = self.unit_writes(change_set_id).await?;
        let n = units.len() as u64;
        self.ports.observer.progress(&Progress::Units(n));
        let subject = self.subject(change_set_id, n)?;
        let signature = self
            .attest(Duty::Executor, "cut", intent.id(IdName::ExecutorSignature)?, &subject, None, &intent)
            .await?;
        let (document, version) = self.source_ids()?;
        let approval = self.decision(GateId::CutAuthz)?;
        let write = LegAWrite {
            change_set_id,
            idempotency_key: payload_digest(&(
                change_set_id,
                &self.sidecar.idempotency_keys.get("grant_probe"),
            ))?,
            entry_id: self.sidecar.pinned(pin::ENTRY_ID)?,
            history_ids: [intent.id(IdName::CutHistory1)?, intent.id(IdName::CutHistory2)?],
            source_document_id: document,
            source_version_id: version,
            approval_id: intent.id(IdName::Approval)?,
            review_decision_id: intent.id(IdName::ReviewDecision)?,
            writer_digest: self.sidecar.pinned(pin::WRITER_DIGEST)?,
            manifest_digest: self.sidecar.pinned(pin::MANIFEST_DIGEST)?,
            region_sha: self.sidecar.pinned(pin::REGION_SHA)?,
            publication_type: self.sidecar.pin_text(pin::PUBLICATION_TYPE).unwrap_or_default().to_owned(),
            signature,
            units,
        };
        let payload = payload_digest(&json!({
            "change_set_id": change_set_id, "entry_id": write.entry_id, "history_ids": write.history_ids,
            "approval_id": write.approval_id, "review_decision_id": write.review_decision_id,
            "writer_digest": write.writer_digest, "region_sha": write.region_sha,
            "manifest_digest": write.manifest_digest, "signature": write.signature, "units": n,
        }))?;
        let (writer_digest, base_state) = (write.writer_digest, self.sidecar.pinned(pin::BASE_STATE_SHA)?);
        let grants_pin = self.grants_pin()?;
        let rows = self.approved_rows().await?;
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
        let performed = self
            .perform(Performance {
                act: Act::Execute(&ExecutorEffect::LegA(write)),
                effect: EffectName::LegA,
                occurrence: 1,
                payload,
                intent: &intent,
                phase: Phase::CutLegA,
                units: n,
                recheck: Some(recheck),
                judge: &judge,
            })
            .await;
        let (_, gate) = performed.map_err(base_state_drift)?;
        self.pin(pin::CHANGE_SET_ID, change_set_id);
        self.pin(pin::EXECUTOR_SIGNATURE_ID, intent.id(IdName::ExecutorSignature)?);
        self.pin(pin::CUT_REVIEW_DECISION_ID, intent.id(IdName::ReviewDecision)?);
        Ok(Acted {
            gate,
            key: change_set_id.to_string(),
            mutation: "iu_core.information_unit, unit_version, unit_anchor; cutter_governance.cut_change_set"
                .to_owned(),
            work: vec![
                format!("stored the approval {}", approval.approval_kb_id),
                format!("wrote {n} units with their versions and anchors, all draft, in one transaction"),
                "signed as executor; the backlog entry is cut_applied (S6)".to_owned(),
            ],
            diff: vec![("units".to_owned(), "0".to_owned(), n.to_string())],
            artifacts: Vec::new(),
            verdict: self.verdict("cut_leg_a_committed"),
            closing: None,
        })
    }

    /// The digest of the grant probe that this run relies on.
    pub(super) fn grants_pin(&self) -> Result<Digest, Halt> {
        let text = self.sidecar.drift_pins.0.get(crate::gate::drift::GRANTS);
        let wrong = || Halt::corrupt(format!("grants pin: expected a sha256, observed {text:?}"));
        text.and_then(|t| t.parse().ok()).ok_or_else(wrong)
    }

    /// The units of the plan with the bytes of the stored text, and ids that a redo repeats.
    async fn unit_writes(&mut self, change_set_id: Uuid) -> Result<Vec<UnitWrite>, Halt> {
        let pinned = self.sidecar.pinned(pin::WRITER_DIGEST)?;
        let plan = self.plan().await?;
        if plan.writer_digest != pinned {
            return Err(Halt::drift(&[crate::gate::drift::Difference {
                dimension: "writer_digest".to_owned(),
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

    pub(super) fn subject(&self, change_set_id: Uuid, units: u64) -> Result<Subject, Halt> {
        Ok(Subject {
            run_id: self.sidecar.run_id.to_string(),
            document_id: self.sidecar.document_id.clone(),
            change_set_id,
            writer_digest: self.sidecar.pinned(pin::WRITER_DIGEST)?,
            manifest_digest: self.sidecar.pinned(pin::MANIFEST_DIGEST)?,
            region_sha: self.sidecar.pinned(pin::REGION_SHA)?,
            units,
        })
    }

    /// Signs a statement; the payload holds no clock value but the intent's.
    pub(super) async fn attest(
        &self,
        duty: Duty,
        predicate: &str,
        signature_id: Uuid,
        subject: &Subject,
        previous: Option<&str>,
        intent: &Intent,
    ) -> Result<SignatureWrite, Halt> {
        let payload = attestation::payload(subject, predicate, duty, previous, intent.at)?;
        let key = self.ports.signer.public_key(duty).await.map_err(|e| self.halt(e))?;
        self.duty_key_stands(duty, &crate::base::digest::to_hex(&key)).await?;
        let signature = self.ports.signer.sign(duty, payload.as_bytes()).await.map_err(|e| self.halt(e))?;
        Ok(SignatureWrite {
            signature_id,
            duty: duty.as_str().to_owned(),
            payload,
            public_key: crate::base::digest::to_hex(&key),
            signature: crate::base::digest::to_hex(&signature),
        })
    }

    /// IG_structural_verify: D18's eleven, and nothing under a forbidden prefix.
    pub(super) async fn structural_verify(&mut self) -> Result<Acted, Halt> {
        let change_set_id = self.sidecar.pinned(pin::CHANGE_SET_ID)?;
        let expected = self.structural_expected().await?;
        let (document, prefixes) =
            (self.sidecar.document_id.clone(), self.sidecar.settings.forbidden_prefixes.clone());
        let observed = self.ports.reader.structural(change_set_id, &document, &prefixes).await;
        let observed = observed.map_err(|e| self.halt(e))?;
        let gate = structural_verify::judge(&expected, &observed);
        let sha = payload_digest(&observed)?;
        self.pin(pin::STRUCTURAL_VERIFY_SHA, sha);
        Ok(Acted {
            gate,
            key: key::structural_verify(change_set_id, &sha).to_string(),
            mutation: "NONE".to_owned(),
            work: vec![format!("counted {} units, hashed their bytes in the database", observed.units)],
            diff: self.pinned(&["structural_verify_sha"]),
            artifacts: Vec::new(),
            verdict: self.verdict("structural_verified"),
            closing: None,
        })
    }

    async fn structural_expected(&mut self) -> Result<structural_verify::StructuralExpected, Halt> {
        let region_sha = self.sidecar.pinned(pin::REGION_SHA)?;
        let plan = self.plan().await?;
        let mut addresses: Vec<&str> = plan.rows.iter().map(|r| r.canonical_address.as_str()).collect();
        addresses.sort_unstable();
        let mut text = String::new();
        for address in addresses {
            text.push_str(address);
            text.push('\n');
        }
        let mut section_types: BTreeMap<String, u64> = BTreeMap::new();
        let mut unit_kinds: BTreeMap<String, u64> = BTreeMap::new();
        for row in &plan.rows {
            *section_types.entry(row.section_type.clone()).or_default() += 1;
            *unit_kinds.entry(row.unit_kind.clone()).or_default() += 1;
        }
        Ok(structural_verify::StructuralExpected {
            units: plan.rows.len() as u64,
            addresses_sha: Digest::of(text.as_bytes()),
            section_types,
            unit_kinds,
            region_sha,
        })
    }

    /// IG_leg_b_record: the envelope binds leg A's signature.
    pub(super) async fn leg_b_record(&mut self) -> Result<Acted, Halt> {
        let intent = self.intent()?.clone();
        let n = self.sidecar.pinned(pin::CANDIDATE_COUNT)?;
        let change_set_id = self.sidecar.pinned(pin::CHANGE_SET_ID)?;
        let executor_signature_id = self.sidecar.pinned(pin::EXECUTOR_SIGNATURE_ID)?;
        let manifest_envelope_id = intent.id(IdName::ManifestEnvelope)?;
        let envelope = canonical::to_canonical(&json!({
            "manifest_envelope_id": manifest_envelope_id, "change_set_id": change_set_id,
            "executor_signature_id": executor_signature_id, "run_id": self.sidecar.run_id.to_string(),
            "document_id": self.sidecar.document_id, "source_version_id": self.sidecar.source_version_id,
            "manifest_digest": self.sidecar.pinned(pin::MANIFEST_DIGEST)?,
            "region_sha": self.sidecar.pinned(pin::REGION_SHA)?,
            "writer_digest": self.sidecar.pinned(pin::WRITER_DIGEST)?,
            "unit_set_digest": self.sidecar.pinned(pin::UNIT_SET_DIGEST)?,
            "unit_count": n, "at": intent.at.to_string(),
        }))?;
        let write = LegBWrite {
            manifest_envelope_id,
            change_set_id,
            entry_id: self.sidecar.pinned(pin::ENTRY_ID)?,
            executor_signature_id,
            envelope,
            unit_count: n,
        };
        let payload = payload_digest(&write)?;
        let judge = |facts: &EffectFacts| {
            commit_if_ok(leg_b_record::judge(&leg_b_record::LegBFacts { effect: facts.clone(), units: n }))
        };
        let (_, gate) = self
            .perform(Performance {
                act: Act::Execute(&ExecutorEffect::LegB(write)),
                effect: EffectName::LegB,
                occurrence: 1,
                payload,
                intent: &intent,
                phase: Phase::LegBRecord,
                units: n,
                recheck: None,
                judge: &judge,
            })
            .await?;
        self.pin(pin::MANIFEST_ENVELOPE_ID, manifest_envelope_id);
        Ok(Acted {
            gate,
            key: manifest_envelope_id.to_string(),
            mutation: "cutter_governance.manifest_envelope".to_owned(),
            work: vec!["recorded the manifest envelope over leg A's signature".to_owned()],
            diff: self.pinned(&["manifest_envelope_id"]),
            artifacts: Vec::new(),
            verdict: self.verdict("leg_b_recorded"),
            closing: None,
        })
    }

    /// IG_write_verify: another principal recounts and signs; a failure commits its own record.
    pub(super) async fn write_verify(&mut self) -> Result<Acted, Halt> {
        let intent = self.intent()?.clone();
        let change_set_id = self.sidecar.pinned(pin::CHANGE_SET_ID)?;
        let n = self.sidecar.pinned(pin::CANDIDATE_COUNT)?;
        let expected = self.structural_expected().await?;
        let subject = self.subject(change_set_id, n)?;
        let evidence = self.ports.reader.evidence(&self.sidecar.run_id).await.map_err(|e| self.halt(e))?;
        let executor_id = self.sidecar.pinned(pin::EXECUTOR_SIGNATURE_ID)?;
        let signature_faults = attestation::faults(&evidence.signatures, &[(Duty::Executor, executor_id)]);
        let executor = evidence.signatures.iter().find(|s| s.signature_id == executor_id);
        let missing = || Halt::stop(StopReason::Internal, "leg A's signature is not in the database");
        let previous = executor.ok_or_else(missing)?.signature.clone();
        let pass_id = intent.id(IdName::SignaturePass)?;
        let fail_id = intent.id(IdName::SignatureFail)?;
        let pass =
            self.attest(Duty::Verifier, "verified", pass_id, &subject, Some(&previous), &intent).await?;
        let fail =
            self.attest(Duty::Verifier, "verify_failed", fail_id, &subject, Some(&previous), &intent).await?;
        let write = WriteVerifyWrite {
            verify_result_id: intent.id(IdName::VerifyResult)?,
            change_set_id,
            manifest_envelope_id: self.sidecar.pinned(pin::MANIFEST_ENVELOPE_ID)?,
            entry_id: self.sidecar.pinned(pin::ENTRY_ID)?,
            history_ids: [intent.id(IdName::VerifyHistory1)?, intent.id(IdName::VerifyHistory2)?],
            signature_pass: pass,
            signature_fail: fail,
            compensating_id: intent.id(IdName::Compensating)?,
            escalation: [intent.id(IdName::Escalation)?, intent.id(IdName::EscalationHistory)?],
            document_id: self.sidecar.document_id.clone(),
            forbidden_prefixes: self.sidecar.settings.forbidden_prefixes.clone(),
        };
        let payload = payload_digest(&write)?;
        let rows = self.approved_rows().await?;
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
        let (_, gate) = self
            .perform(Performance {
                act: Act::Verify(&write),
                effect: EffectName::WriteVerify,
                occurrence: 1,
                payload,
                intent: &intent,
                phase: Phase::WriteVerify,
                units: n,
                recheck: None,
                judge: &judge,
            })
            .await?;
        self.pin(pin::VERIFY_RESULT_ID, write.verify_result_id);
        self.pin(pin::VERIFIER_SIGNATURE_ID, if gate.ok() { pass_id } else { fail_id });
        Ok(Acted {
            gate,
            key: write.verify_result_id.to_string(),
            mutation: "cutter_governance.verify_result, dot_pair_signature".to_owned(),
            work: vec![
                "recounted as cutter_verify".to_owned(),
                "signed over leg A's signature; the backlog entry is verified_complete (S8)".to_owned(),
            ],
            diff: self.pinned(&["verify_result_id"]),
            artifacts: Vec::new(),
            verdict: self.verdict("write_verified"),
            closing: None,
        })
    }
}

/// A base state that moved since the backup is drift, not a failed cut (PROTOCOL §7).
fn base_state_drift(halt: Halt) -> Halt {
    match halt {
        Halt::Fail(report) => {
            let failures = report.failures();
            let only = failures.iter().all(|c| c.invariant == BASE_STATE);
            match failures.first() {
                Some(check) if only => Halt::drift(&[crate::gate::drift::Difference {
                    dimension: "base_state".to_owned(),
                    expected: Some(check.expected.clone()),
                    observed: Some(check.observed.clone()),
                }]),
                _ => Halt::Fail(report),
            }
        }
        other => other,
    }
}
