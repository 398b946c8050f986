//! The contract of [`Signer`] and [`SignatureVerifier`].

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;

use ed25519_dalek::{Signature, VerifyingKey};
use jiff::Timestamp;

use super::{Broken, ConformanceFailure, Fresh, Held, contracts, equal, holds};
use crate::port::PortResult;
use crate::port::signer::{SignatureVerifier, Signer};
use crate::record::signature::{Duty, SignatureFacts};

/// A verifier and documents to show it.
pub struct SignaturesUnderTest {
    /// The port.
    pub signatures: Arc<dyn SignatureVerifier>,
    /// Clear-signs a text with a known, valid key.
    pub sign: Box<dyn Fn(&str) -> String + Send + Sync>,
    /// Fingerprint of that key.
    pub fingerprint: String,
    /// Code and document for every defect that the implementation can show.
    pub bad: Vec<(&'static str, String)>,
    /// When to judge.
    pub now: Timestamp,
}

/// Checks every contract of a signer; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all_signer<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<Fresh<dyn Signer>>>,
{
    contracts!(
        "signer",
        build,
        [
            a_signature_verifies_under_the_duty_s_key_and_no_other,
            the_same_payload_gives_the_same_signature,
            a_creation_record_is_signed_by_the_operator,
        ]
    )
}

/// Checks every contract of a verifier; gives the names of those that held.
///
/// # Errors
/// The first contract that is not kept.
pub async fn run_all<B, F>(build: B) -> Result<Vec<&'static str>, ConformanceFailure>
where
    B: Fn() -> F,
    F: Future<Output = PortResult<SignaturesUnderTest>>,
{
    contracts!(
        "signatures",
        build,
        [
            a_good_signature_names_its_signer_and_gives_exactly_its_text,
            an_unsigned_document_is_no_error,
            a_changed_text_is_bad,
            text_around_the_block_is_bad,
            every_defect_has_its_stable_code,
        ]
    )
}

async fn a_signature_verifies_under_the_duty_s_key_and_no_other(signer: &Fresh<dyn Signer>) -> Held {
    let payload = b"{\"subject\":\"a cut\"}";
    for (duty, other) in [(Duty::Executor, Duty::Verifier), (Duty::Verifier, Duty::Executor)] {
        let signature = Signature::from_bytes(&signer.port.sign(duty, payload).await?);
        let verifies = |key: [u8; 32], payload: &[u8]| {
            VerifyingKey::from_bytes(&key).is_ok_and(|key| key.verify_strict(payload, &signature).is_ok())
        };
        let (own, others) = (signer.port.public_key(duty).await?, signer.port.public_key(other).await?);
        holds("a signature under the duty's key", verifies(own, payload), duty)?;
        holds("no signature over another payload", !verifies(own, b"another"), duty)?;
        holds("a key for each duty", own != others && !verifies(others, payload), duty)?;
    }
    Ok(())
}

async fn the_same_payload_gives_the_same_signature(signer: &Fresh<dyn Signer>) -> Held {
    let first = signer.port.sign(Duty::Executor, b"payload").await?;
    equal("the same bytes", first, signer.port.sign(Duty::Executor, b"payload").await?)?;
    let other = signer.port.sign(Duty::Executor, b"other").await?;
    holds("other bytes for another payload", first != other, "the same")
}

async fn a_creation_record_is_signed_by_the_operator(signer: &Fresh<dyn Signer>) -> Held {
    let signed = signer.port.sign_creation("run_id: one\n").await?;
    holds("the text inside", signed.document.contains("run_id: one"), &signed.document)?;
    holds("a fingerprint", signed.fingerprint.len() >= 40, &signed.fingerprint)
}

const TEXT: &str = "# Approval\n\nrun_id: one\n- dash first\n";

async fn a_good_signature_names_its_signer_and_gives_exactly_its_text(case: &SignaturesUnderTest) -> Held {
    let document = (case.sign)(TEXT);
    match case.signatures.observe(document.as_bytes(), case.now).await? {
        SignatureFacts::Good { fingerprint, text, signed_at } => {
            equal("the signer", &case.fingerprint, &fingerprint)?;
            // the line ending before the signature is no part of a clear-signed text
            equal("the text", TEXT.trim_end(), text.trim_end())?;
            holds("signed before now", signed_at <= case.now, (signed_at, case.now))
        }
        other => Err(Broken::new("a good signature", alloc::format!("{other:?}"))),
    }
}

async fn an_unsigned_document_is_no_error(case: &SignaturesUnderTest) -> Held {
    let facts = case.signatures.observe(TEXT.as_bytes(), case.now).await?;
    equal("unsigned", SignatureFacts::Unsigned { text: TEXT.into() }, facts)
}

async fn a_changed_text_is_bad(case: &SignaturesUnderTest) -> Held {
    let document = (case.sign)(TEXT).replace("run_id: one", "run_id: two");
    is_bad(case, &document, Some("bad_signature")).await
}

async fn text_around_the_block_is_bad(case: &SignaturesUnderTest) -> Held {
    let good = (case.sign)(TEXT);
    is_bad(case, &alloc::format!("run_id: two\n{good}"), Some("text_outside_block")).await?;
    is_bad(case, &alloc::format!("{good}run_id: two\n"), Some("text_outside_block")).await?;
    // two signed blocks in one document: which of them would be meant?
    is_bad(case, &alloc::format!("{good}{good}"), None).await
}

async fn every_defect_has_its_stable_code(case: &SignaturesUnderTest) -> Held {
    for (code, document) in &case.bad {
        is_bad(case, document, Some(code)).await?;
    }
    Ok(())
}

async fn is_bad(case: &SignaturesUnderTest, document: &str, expected: Option<&str>) -> Held {
    match case.signatures.observe(document.as_bytes(), case.now).await? {
        SignatureFacts::Bad { code, .. } if expected.is_none_or(|expected| expected == code) => Ok(()),
        other => Err(Broken::new(alloc::format!("bad, code {expected:?}"), alloc::format!("{other:?}"))),
    }
}
