//! The verdict on a clear-signed document (D14): a fact for a gate to judge, not an error.
//!
//! Order of checks: frame, hash strength, known key, the signature itself, then dates and
//! certificate policy. So `bad_signature` always means that the text or the signature was
//! changed, and a policy code always speaks about a genuine signature.

use pgp::armor::BlockType;
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Packet, PacketParser, Signature, SignatureType, SignatureVersion, SubpacketData};
use pgp::types::KeyDetails;

use super::certificate::{self, Component, Fault, Use};
use super::{CLOCK_SKEW_SECONDS, Fingerprint, PublicKey, armor, cleartext, contain, unix_seconds};

/// A larger document is refused unread (`too_large`).
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// What the verification found, with the text that may be acted upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureFacts {
    /// Good, or why not.
    pub verdict: Verdict,
    /// The text that the signature covers, present exactly when the verdict is good: LF
    /// between lines, no final line ending, no trailing blanks (they are not covered).
    pub covered_text: Option<String>,
}

/// Good or bad, nothing between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Exactly one signature, genuine, by a known key that may sign.
    Good {
        /// Fingerprint of the primary key: compare this with the pinned one.
        primary_fingerprint: Fingerprint,
        /// Fingerprint of the key or subkey that made the signature.
        signing_fingerprint: Fingerprint,
        /// When the signature says it was made.
        created: jiff::Timestamp,
        /// Hash algorithm, say `SHA512`.
        hash: &'static str,
    },
    /// Refused.
    Bad {
        /// Stable code: `too_large`, `not_utf8`, `not_clearsigned`, `text_outside_block`,
        /// `more_than_one_block`, `bare_carriage_return`, `header`, `hash_header`, `dash_escape`,
        /// `malformed`, `signature_count`, `signature_version`, `signature_type`, `sha1`, `weak_hash`,
        /// `critical_subpacket`, `uncovered_subpacket`, `unknown_key`, `bad_signature`, `signature_date`,
        /// `signature_in_future`, `signature_expired`, `signature_before_key`, `revoked_key`,
        /// `revocation_unchecked`, `expired_key`, `key_flags`, `key_algorithm`, `key_version`,
        /// `self_signature_missing`, `self_signature_weak`, `self_signature_expired`,
        /// `subkey_binding`, `subkey_binding_weak`, `subkey_back_signature`.
        code: &'static str,
        /// Expected and observed, for people.
        detail: String,
    },
}

/// Verifies a clear-signed document against `keys` at the time `now`.
///
/// Nothing is read but the arguments. Empty lines before and behind the block are
/// tolerated, nothing else is. Give every version of a key that is known: if one of them
/// is revoked, the signature is refused.
#[must_use]
pub fn verify_clearsigned(document: &[u8], keys: &[PublicKey], now: jiff::Timestamp) -> SignatureFacts {
    let judged = contain(|| judge(document, keys, unix_seconds(now)))
        .unwrap_or_else(|detail| Err(Fault::new("malformed", detail)));
    match judged {
        Ok((verdict, text)) => SignatureFacts { verdict, covered_text: Some(text) },
        Err(fault) => SignatureFacts {
            verdict: Verdict::Bad { code: fault.code, detail: fault.detail },
            covered_text: None,
        },
    }
}

fn judge(document: &[u8], keys: &[PublicKey], now: u64) -> Result<(Verdict, String), Fault> {
    if document.len() > MAX_DOCUMENT_BYTES {
        let detail = format!("expected at most {MAX_DOCUMENT_BYTES} bytes, observed {}", document.len());
        return Err(Fault::new("too_large", detail));
    }
    let text = std::str::from_utf8(document).map_err(|e| Fault::new("not_utf8", e.to_string()))?;
    let frame = cleartext::parse(text)?;
    let signature = only_signature(&frame.signature)?;
    let hash = check_form(&signature, &frame.hashes)?;
    let created = signature
        .created()
        .map(|c| u64::from(c.as_secs()))
        .ok_or_else(|| Fault::new("signature_date", "the signature does not say when it was made"))?;

    let matching: Vec<(&PublicKey, Component<'_>)> = keys
        .iter()
        .flat_map(|key| certificate::components(&key.cert).map(move |component| (key, component)))
        .filter(|(_, component)| is_issuer(&signature, component.details()))
        .collect();
    let Some((key, signer)) = matching.first() else {
        let named: Vec<String> = signature.issuer_fingerprint().iter().map(|f| format!("{f:X}")).collect();
        let named = if named.is_empty() { "a key id only".to_owned() } else { named.join(", ") };
        return Err(Fault::new("unknown_key", format!("signed by no key that is configured: {named}")));
    };

    let covered = frame.lines.join("\r\n");
    certificate::verify(&signature, *signer, covered.as_bytes())
        .map_err(|e| Fault::new("bad_signature", format!("text and signature do not fit: {e}")))?;

    if created > now + CLOCK_SKEW_SECONDS {
        let detail = format!("signed at {created}, now {now} (Unix seconds)");
        return Err(Fault::new("signature_in_future", detail));
    }
    if certificate::signature_expired(&signature, now) {
        return Err(Fault::new("signature_expired", "the signature has an expiry date of its own, now past"));
    }
    for (key, component) in &matching {
        certificate::check(&key.cert, *component, Use::Sign, created, now)?;
    }
    let created = i64::try_from(created)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .ok_or_else(|| Fault::new("signature_date", "the signature's date is out of range"))?;
    let verdict = Verdict::Good {
        primary_fingerprint: key.fingerprint(),
        signing_fingerprint: Fingerprint(format!("{:X}", signer.details().fingerprint())),
        created,
        hash,
    };
    Ok((verdict, frame.lines.join("\n")))
}

/// At most so many packets of one block are looked at.
const SIGNATURES_MAX: usize = 64;

/// Whose key made a signature, and over what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// Fingerprint of the primary key.
    pub primary_fingerprint: Fingerprint,
    /// When the signature says it was made.
    pub created: jiff::Timestamp,
    /// The text, as far as it reads.
    pub text: String,
}

/// Whose keys made the signatures of one clear-signed block, whatever else is to be said against the text, a
/// signature or a key. Nothing may rest on it: it says who may have meant something.
#[must_use]
pub fn signers(block: &[u8], keys: &[PublicKey]) -> Vec<Signer> {
    contain(|| signers_of(block, keys)).ok().flatten().unwrap_or_default()
}

fn signers_of(block: &[u8], keys: &[PublicKey]) -> Option<Vec<Signer>> {
    let frame = cleartext::parts(block)?;
    let armored = frame.signature.as_bytes();
    let bytes = armor::decode(armored, BlockType::Signature, MAX_DOCUMENT_BYTES)
        .unwrap_or_else(|_| armor::decode_damaged(armored));
    let mut found: Vec<Signer> = Vec::new();
    for packet in PacketParser::new(&bytes[..]).take(SIGNATURES_MAX) {
        let Ok(Packet::Signature(signature)) = packet else { continue };
        for key in keys {
            let mut made = certificate::components(&key.cert).filter(|c| is_issuer(&signature, c.details()));
            let Some(text) = made.find_map(|component| {
                frame.readings.iter().find(|text| certificate::verify(&signature, component, text).is_ok())
            }) else {
                continue;
            };
            let created =
                signature.created().and_then(|c| jiff::Timestamp::from_second(c.as_secs().into()).ok());
            let signer = Signer {
                primary_fingerprint: key.fingerprint(),
                created: created.unwrap_or_default(),
                text: String::from_utf8_lossy(text).replace("\r\n", "\n"),
            };
            if !found.contains(&signer) {
                found.push(signer);
            }
        }
    }
    Some(found)
}

fn only_signature(armored: &str) -> Result<Signature, Fault> {
    let malformed = |detail: String| Fault::new("malformed", format!("unreadable signature: {detail}"));
    let bytes =
        armor::decode(armored.as_bytes(), BlockType::Signature, MAX_DOCUMENT_BYTES).map_err(malformed)?;
    let mut signatures = Vec::new();
    for packet in PacketParser::new(&bytes[..]) {
        match packet.map_err(|e| malformed(e.to_string()))? {
            Packet::Signature(signature) => signatures.push(signature),
            _ => return Err(malformed("it holds a packet that is no signature".to_owned())),
        }
    }
    match (signatures.pop(), signatures.len()) {
        (Some(signature), 0) => Ok(signature),
        (None, _) => Err(Fault::new("signature_count", "expected one signature, observed none")),
        (Some(_), more) => {
            Err(Fault::new("signature_count", format!("expected one signature, observed {}", more + 1)))
        }
    }
}

fn check_form(signature: &Signature, announced: &[&str]) -> Result<&'static str, Fault> {
    if !matches!(signature.version(), SignatureVersion::V4 | SignatureVersion::V6) {
        let detail = format!("signature version {:?} is not accepted", signature.version());
        return Err(Fault::new("signature_version", detail));
    }
    if signature.typ() != Some(SignatureType::Text) {
        let detail = format!("expected a signature over text, observed {:?}", signature.typ());
        return Err(Fault::new("signature_type", detail));
    }
    let observed = signature.hash_alg();
    let Some(name) = observed.and_then(certificate::hash_name) else {
        let code = if observed == Some(HashAlgorithm::Sha1) { "sha1" } else { "weak_hash" };
        let observed = observed.map_or_else(|| "none".to_owned(), |h| h.to_string());
        return Err(Fault::new(code, format!("expected SHA-256 or stronger, observed {observed}")));
    };
    if !announced.contains(&name) {
        let detail = format!("expected a `Hash: {name}` header, observed {announced:?}");
        return Err(Fault::new("hash_header", detail));
    }
    certificate::check_critical(signature)?;
    // what the signature does not cover may only help to find the key
    let foreign = signature.config().is_none_or(|config| {
        config
            .unhashed_subpackets()
            .any(|p| !matches!(p.data, SubpacketData::IssuerKeyId(_) | SubpacketData::IssuerFingerprint(_)))
    });
    if foreign {
        return Err(Fault::new("uncovered_subpacket", "the signature carries data that it does not cover"));
    }
    Ok(name)
}

/// Whether the signature names this key: it must name some key, and every name must fit.
fn is_issuer(signature: &Signature, key: &dyn KeyDetails) -> bool {
    let (fingerprints, ids) = (signature.issuer_fingerprint(), signature.issuer_key_id());
    let (own, own_id) = (key.fingerprint(), key.legacy_key_id());
    !(fingerprints.is_empty() && ids.is_empty())
        && fingerprints.into_iter().all(|named| *named == own)
        && ids.into_iter().all(|named| *named == own_id)
}
