//! Attestations: signed statements about a change set (`dot_pair_signature`).
//!
//! Executor and verifier sign with Ed25519 over a canonical payload. The verifier's payload
//! covers the executor's signature, so the pair is a chain (DESIGN §6).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use ed25519_dalek::{Signature, VerifyingKey};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::base::canonical::{CanonicalError, to_canonical};
use crate::base::digest::Digest;
use crate::record::evidence::StoredSignature;
use crate::record::signature::Duty;

/// What a statement is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The run.
    pub run_id: String,
    /// The document.
    pub document_id: String,
    /// The change set.
    pub change_set_id: Uuid,
    /// Digest of the plan's rows.
    pub writer_digest: Digest,
    /// Digest of the source envelope.
    pub manifest_digest: Digest,
    /// Digest of the region.
    pub region_sha: Digest,
    /// How many units.
    pub units: u64,
}

/// The canonical payload of a statement. `predicate` is `cut`, `verified` or
/// `verify_failed`; `previous` is the signature (hex) that it covers.
///
/// # Errors
/// [`CanonicalError`] if a number is beyond 2^53.
pub fn payload(
    subject: &Subject,
    predicate: &str,
    duty: Duty,
    previous: Option<&str>,
    at: Timestamp,
) -> Result<String, CanonicalError> {
    to_canonical(&json!({
        "type": "cutter.attestation/1",
        "predicate": predicate,
        "duty": duty.as_str(),
        "previous_signature": previous,
        "at": at.to_string(),
        "subject": {
            "run_id": subject.run_id,
            "document_id": subject.document_id,
            "change_set_id": subject.change_set_id,
            "writer_digest": subject.writer_digest,
            "manifest_digest": subject.manifest_digest,
            "region_sha": subject.region_sha,
            "units": subject.units,
        },
    }))
}

/// Whether `signature` (hex) over `payload` is good under `public_key` (hex), strictly.
///
/// # Errors
/// A text that says what is wrong.
pub fn verify(public_key: &str, payload: &str, signature: &str) -> Result<(), String> {
    verify_bytes(public_key, payload.as_bytes(), signature)
}

/// As [`verify`], of bytes.
///
/// # Errors
/// A text that says what is wrong.
pub fn verify_bytes(public_key: &str, payload: &[u8], signature: &str) -> Result<(), String> {
    let key: [u8; 32] = from_hex(public_key)?;
    let signature: [u8; 64] = from_hex(signature)?;
    let key = VerifyingKey::from_bytes(&key).map_err(|e| e.to_string())?;
    key.verify_strict(payload, &Signature::from_bytes(&signature)).map_err(|e| e.to_string())
}

/// What is wrong with the stored signatures that a step relies on, each by its duty and row: it must
/// be there and good. Empty if nothing is.
#[must_use]
pub fn faults(stored: &[StoredSignature], wanted: &[(Duty, Uuid)]) -> Vec<String> {
    let fault = |(duty, id): &(Duty, Uuid)| {
        let duty = duty.as_str();
        let found = stored.iter().find(|s| s.signature_id == *id && s.duty == duty);
        let Some(found) = found else { return Some(format!("{duty}: no signature {id}")) };
        let wrong = verify(&found.public_key, &found.payload, &found.signature).err()?;
        Some(format!("{duty}: signature {id} is not good: {wrong}"))
    };
    wanted.iter().filter_map(fault).collect()
}

fn from_hex<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let wrong = || format!("expected {} hex digits, observed {}", 2 * N, text.len());
    if text.len() != 2 * N || !text.is_ascii() {
        return Err(wrong());
    }
    let mut out = [0; N];
    for (i, byte) in out.iter_mut().enumerate() {
        let pair = text.get(2 * i..2 * i + 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer as _, SigningKey};

    fn subject() -> Subject {
        let d = Digest::of(b"x");
        Subject {
            run_id: "r".into(),
            document_id: "D".into(),
            change_set_id: Uuid::nil(),
            writer_digest: d,
            manifest_digest: d,
            region_sha: d,
            units: 3,
        }
    }

    #[test]
    fn a_signature_holds_and_one_changed_byte_breaks_it() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let text = payload(&subject(), "cut", Duty::Executor, None, Timestamp::UNIX_EPOCH).unwrap();
        let signature = crate::base::digest::to_hex(&key.sign(text.as_bytes()).to_bytes());
        let public = crate::base::digest::to_hex(key.verifying_key().as_bytes());
        assert_eq!(verify(&public, &text, &signature), Ok(()));
        assert!(verify(&public, &text.replace("cut", "cup"), &signature).is_err());
        assert!(verify(&public, &text, "00").is_err());
    }

    #[test]
    fn the_verifiers_payload_covers_the_executors_signature() {
        let one = payload(&subject(), "verified", Duty::Verifier, Some("aa"), Timestamp::UNIX_EPOCH).unwrap();
        let two = payload(&subject(), "verified", Duty::Verifier, Some("ab"), Timestamp::UNIX_EPOCH).unwrap();
        assert_ne!(one, two);
    }
}
