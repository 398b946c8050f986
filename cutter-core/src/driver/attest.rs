//! What the duties sign, and the rights that a run relies on.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;

use uuid::Uuid;

use super::run::{Halt, Run};
use crate::base::digest::Digest;
use crate::record::attestation::{self, Subject};
use crate::record::effect::SignatureWrite;
use crate::record::intent::Intent;
use crate::record::pin;
use crate::record::signature::Duty;

impl Run<'_> {
    /// The digest of the grant probe that this run relies on.
    pub(super) fn grants_pin(&self) -> Result<Digest, Halt> {
        let text = self.sidecar.drift_pins.0.get(crate::gate::drift::GRANTS);
        let wrong = || Halt::corrupt(format!("grants pin: expected a sha256, observed {text:?}"));
        text.and_then(|t| t.parse().ok()).ok_or_else(wrong)
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
}
