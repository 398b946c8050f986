//! Signatures of the model: real Ed25519 for the duties; for people a plain envelope with a
//! digest where OpenPGP has a signature. It proves nothing to anyone outside of a test.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use async_trait::async_trait;
use ed25519_dalek::{Signer as _, SigningKey};
use jiff::Timestamp;

use super::world::{Process, World, fingerprint};
use crate::base::digest::Digest;
use crate::port::signer::{SignatureVerifier, Signer};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::signature::{Duty, SignatureFacts, SignedText};

const SIGNER: Port = Port::Signer;
const SIGNATURES: Port = Port::Signatures;
const BEGIN: &str = "-----BEGIN MEMORY SIGNED MESSAGE-----\n";
const SEAL: &str = "\n-----MEMORY SIGNATURE ";
const END: &str = "-----\n";

/// Fingerprint to its defect, if it has one.
type People = BTreeMap<String, Option<&'static str>>;

/// The keys of a world. Its own keys never follow [`World::reseed`].
#[derive(Debug, Clone)]
pub(super) struct KeyRing {
    seed: u64,
    /// Changes when the duties' keys are replaced.
    duties: u64,
    operator: String,
    people: People,
}

impl KeyRing {
    pub(super) fn new(seed: u64) -> Self {
        let operator = fingerprint(seed, "operator");
        Self { seed, duties: seed, people: BTreeMap::from([(operator.clone(), None)]), operator }
    }

    pub(super) fn operator(&self) -> &str {
        &self.operator
    }

    pub(super) fn person(&mut self, name: &str) -> String {
        let fingerprint = fingerprint(self.seed, &format!("person {name}"));
        self.people.entry(fingerprint.clone()).or_insert(None);
        fingerprint
    }

    fn duty(&self, duty: Duty) -> SigningKey {
        let seed = Digest::of(format!("duty {} {}", self.duties, duty.as_str()).as_bytes());
        SigningKey::from_bytes(seed.as_bytes())
    }
}

/// A way in which a person's signature is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadSignature {
    /// Made with SHA-1.
    Sha1,
    /// The key had expired.
    ExpiredKey,
    /// The key was revoked.
    RevokedKey,
    /// Nobody configured this key.
    UnknownKey,
    /// Text before or after the signed block.
    TextOutsideBlock,
    /// The signature does not cover this text.
    BadSignature,
}

impl BadSignature {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Sha1,
        Self::ExpiredKey,
        Self::RevokedKey,
        Self::UnknownKey,
        Self::TextOutsideBlock,
        Self::BadSignature,
    ];

    /// The stable code in [`SignatureFacts::Bad`].
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::ExpiredKey => "expired_key",
            Self::RevokedKey => "revoked_key",
            Self::UnknownKey => "unknown_key",
            Self::TextOutsideBlock => "text_outside_block",
            Self::BadSignature => "bad_signature",
        }
    }
}

/// Builds the envelope.
pub(super) fn seal(fingerprint: &str, at: Timestamp, text: &str) -> String {
    let proof = proof(fingerprint, &at.to_string(), "sha512", text);
    format!("{BEGIN}Hash: sha512\nFingerprint: {fingerprint}\nSigned-At: {at}\n\n{text}{SEAL}{proof}{END}")
}

fn proof(fingerprint: &str, at: &str, hash: &str, text: &str) -> Digest {
    Digest::of(format!("{hash}\n{fingerprint}\n{at}\n{text}").as_bytes())
}

/// The run's own keys, and the operator's.
pub struct MemorySigner(pub(super) Process);

#[async_trait]
impl Signer for MemorySigner {
    async fn public_key(&self, duty: Duty) -> PortResult<[u8; 32]> {
        self.0.call(SIGNER, "public_key", |data| Ok(data.keys.duty(duty).verifying_key().to_bytes()))
    }

    async fn sign(&self, duty: Duty, payload: &[u8]) -> PortResult<[u8; 64]> {
        self.0.call(SIGNER, "sign", |data| Ok(data.keys.duty(duty).sign(payload).to_bytes()))
    }

    async fn sign_creation(&self, text: &str) -> PortResult<SignedText> {
        self.0.call(SIGNER, "sign_creation", |data| {
            let fingerprint = data.keys.operator().to_string();
            let document = seal(&fingerprint, data.now, text);
            Ok(SignedText { document, fingerprint })
        })
    }
}

/// Checks envelopes against the world's keys.
pub struct MemorySignatures(pub(super) Process);

#[async_trait]
impl SignatureVerifier for MemorySignatures {
    async fn observe(&self, document: &[u8], _: Timestamp) -> PortResult<SignatureFacts> {
        self.0.call(SIGNATURES, "observe", |data| {
            let Ok(text) = core::str::from_utf8(document) else {
                let message = "the document is no UTF-8 text";
                return Err(PortError::new(SIGNATURES, "observe", PortErrorKind::Invalid, message));
            };
            Ok(observe(&data.keys, text))
        })
    }

    async fn observe_with(&self, document: &[u8], keys: &[&str], _: Timestamp) -> PortResult<SignatureFacts> {
        self.0.call(SIGNATURES, "observe_with", |_| {
            let text = alloc::string::String::from_utf8_lossy(document);
            let people: People = keys.iter().map(|key| ((*key).to_string(), None)).collect();
            Ok(observe_among(&people, &text))
        })
    }

    async fn signers(&self, block: &[u8], keys: &[&str]) -> PortResult<alloc::vec::Vec<SignatureFacts>> {
        self.0.call(SIGNATURES, "signers", |data| {
            let found = sealed_by(&alloc::string::String::from_utf8_lossy(block));
            let is_known = |facts: &SignatureFacts| match facts {
                SignatureFacts::Good { fingerprint, .. } => {
                    data.keys.people.contains_key(fingerprint) || keys.contains(&fingerprint.as_str())
                }
                _ => false,
            };
            Ok(found.filter(is_known).into_iter().collect())
        })
    }
}

/// A seal that covers its text, whatever else is to be said against it.
fn sealed_by(document: &str) -> Option<SignatureFacts> {
    let body = document.get(document.find(BEGIN)? + BEGIN.len()..)?;
    let (head, rest) = body.split_once("\n\n")?;
    let (text, tail) = rest.rsplit_once(SEAL)?;
    let (seal, _) = tail.split_once(END)?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let (hash, fingerprint, at) = (field("Hash")?, field("Fingerprint")?, field("Signed-At")?);
    (proof(fingerprint, at, hash, text).to_hex() == seal).then_some(())?;
    let (fingerprint, text) = (fingerprint.to_string(), text.to_string());
    Some(SignatureFacts::Good { fingerprint, signed_at: at.parse().ok()?, text })
}

fn bad(code: BadSignature, detail: &str) -> SignatureFacts {
    SignatureFacts::Bad { code: code.code().to_string(), detail: detail.to_string() }
}

fn observe(keys: &KeyRing, document: &str) -> SignatureFacts {
    observe_among(&keys.people, document)
}

fn observe_among(people: &People, document: &str) -> SignatureFacts {
    let Some(begin) = document.find(BEGIN) else {
        return SignatureFacts::Unsigned { text: document.to_string() };
    };
    let broken = |detail| bad(BadSignature::BadSignature, detail);
    let body = document.get(begin + BEGIN.len()..).unwrap_or_default();
    let Some((head, rest)) = body.split_once("\n\n") else { return broken("there is no head") };
    let Some((text, tail)) = rest.rsplit_once(SEAL) else { return broken("there is no signature") };
    let Some((seal, after)) = tail.split_once(END) else { return broken("the signature has no end") };
    if begin > 0 || !after.is_empty() {
        return bad(BadSignature::TextOutsideBlock, "there is text outside of the signed block");
    }
    let field = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
    };
    let (hash, fingerprint, at) = (field("Hash"), field("Fingerprint"), field("Signed-At"));
    if proof(fingerprint, at, hash, text).to_hex() != seal {
        return broken("the signature does not cover this text");
    }
    let Ok(signed_at) = at.parse() else { return broken("the time of signing is no time") };
    if hash == "sha1" {
        return bad(BadSignature::Sha1, "signed with SHA-1");
    }
    match people.get(fingerprint) {
        None => bad(BadSignature::UnknownKey, "the key is not configured"),
        Some(Some("expired_key")) => bad(BadSignature::ExpiredKey, "the key had expired"),
        Some(Some(_)) => bad(BadSignature::RevokedKey, "the key was revoked"),
        Some(None) => {
            SignatureFacts::Good { fingerprint: fingerprint.to_string(), signed_at, text: text.to_string() }
        }
    }
}

impl World {
    /// Replaces the keys that executor and verifier sign with.
    pub fn replace_duty_keys(&self) {
        self.lock().data.keys.duties += 1;
    }

    /// The key that a duty signs with now, as the policy writes it.
    #[must_use]
    pub fn duty_key(&self, duty: Duty) -> String {
        crate::base::digest::to_hex(&self.lock().data.keys.duty(duty).verifying_key().to_bytes())
    }

    /// Clear-signs a text so that checking it gives the code of `defect`. Expiry and
    /// revocation strike the key itself, for good.
    #[must_use]
    pub fn sign_badly(&self, fingerprint: &str, text: &str, defect: BadSignature) -> String {
        let mut inner = self.lock();
        let now = inner.data.now;
        let good = seal(fingerprint, now, text);
        match defect {
            BadSignature::Sha1 => {
                let proof = proof(fingerprint, &now.to_string(), "sha1", text);
                format!(
                    "{BEGIN}Hash: sha1\nFingerprint: {fingerprint}\nSigned-At: {now}\n\n{text}{SEAL}{proof}{END}"
                )
            }
            BadSignature::ExpiredKey | BadSignature::RevokedKey => {
                inner.data.keys.people.insert(fingerprint.to_string(), Some(defect.code()));
                good
            }
            BadSignature::UnknownKey => seal(&super::world::fingerprint(0, "a stranger"), now, text),
            BadSignature::TextOutsideBlock => format!("Added below.\n{good}"),
            BadSignature::BadSignature => {
                let at = good.find(SEAL).unwrap_or(good.len());
                let (head, tail) = good.split_at(at);
                format!("{head} and one word more{tail}")
            }
        }
    }
}
