//! Certificate policy: may this key do this, at that time and now?
//!
//! Stricter than GnuPG where GnuPG is lenient: SHA-1 and MD5 never bind anything, any
//! revocation counts whatever its date or reason, a revocation that cannot be checked
//! refuses the key, key flags must be stated, short RSA and DSA are refused. Of several
//! self-signatures the newest of each user id rules, and all of them must agree to a use.

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{Fingerprint as RawFingerprint, KeyDetails, KeyVersion, PublicParams, RsaPublicParams, Tag};

use super::CLOCK_SKEW_SECONDS;

/// Why a key or signature is refused: a stable code and the words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: &'static str,
    pub(super) detail: String,
}

impl Fault {
    pub(super) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Sign,
    Encrypt,
}

/// SHA-2 with at least 256 bits, or SHA-3.
pub(super) fn hash_name(hash: HashAlgorithm) -> Option<&'static str> {
    match hash {
        HashAlgorithm::Sha256 => Some("SHA256"),
        HashAlgorithm::Sha384 => Some("SHA384"),
        HashAlgorithm::Sha512 => Some("SHA512"),
        HashAlgorithm::Sha3_256 => Some("SHA3-256"),
        HashAlgorithm::Sha3_512 => Some("SHA3-512"),
        _ => None,
    }
}

/// A part of a certificate that can act: its primary key or one of its subkeys.
#[derive(Clone, Copy)]
pub(super) enum Component<'a> {
    Primary(&'a SignedPublicKey),
    Subkey(&'a SignedPublicSubKey),
}

impl Component<'_> {
    pub(super) fn details(&self) -> &dyn KeyDetails {
        match self {
            Self::Primary(cert) => &cert.primary_key,
            Self::Subkey(subkey) => &subkey.key,
        }
    }
}

pub(super) fn components(cert: &SignedPublicKey) -> impl Iterator<Item = Component<'_>> {
    std::iter::once(Component::Primary(cert)).chain(cert.public_subkeys.iter().map(Component::Subkey))
}

/// The component to act with: for signing the newest good subkey before the primary key
/// (as gpg does), for encryption the newest good subkey. The fault is the first one met.
pub(super) fn pick(cert: &SignedPublicKey, wanted: Use, now: u64) -> Result<RawFingerprint, Fault> {
    let mut subkeys: Vec<&SignedPublicSubKey> = cert.public_subkeys.iter().collect();
    subkeys.sort_by_key(|subkey| std::cmp::Reverse(subkey.key.created_at()));
    let candidates = subkeys.into_iter().map(Component::Subkey).chain([Component::Primary(cert)]);
    let mut first = None;
    for candidate in candidates {
        match check(cert, candidate, wanted, now, now) {
            Ok(()) => return Ok(candidate.details().fingerprint()),
            // "not meant for this" is the least telling of faults
            Err(fault) if first.is_none() || fault.code != "key_flags" => first = Some(fault),
            Err(_) => {}
        }
    }
    Err(first.unwrap_or_else(|| Fault::new("key_flags", "the key has no part for this use")))
}

/// Whether `component` of `cert` may be used so at `at` and at `now` (Unix seconds).
pub(super) fn check(
    cert: &SignedPublicKey,
    component: Component<'_>,
    wanted: Use,
    at: u64,
    now: u64,
) -> Result<(), Fault> {
    check_primary_revocation(cert)?;
    let governing = governing_self_signatures(cert, now)?;
    check_algorithm(&cert.primary_key, Use::Sign)?;
    check_time(&cert.primary_key, governing.iter().filter_map(|s| s.key_expiration_time()), at, now)?;
    match component {
        Component::Primary(_) => {
            check_algorithm(&cert.primary_key, wanted)?;
            let stated: Vec<_> = governing.iter().filter(|s| states_flags(s)).collect();
            if stated.is_empty() || !stated.iter().all(|s| allows(s, wanted)) {
                return Err(flags_fault(wanted));
            }
            Ok(())
        }
        Component::Subkey(subkey) => check_subkey(cert, subkey, wanted, at, now),
    }
}

fn check_primary_revocation(cert: &SignedPublicKey) -> Result<(), Fault> {
    let details = &cert.details;
    for signature in details.revocation_signatures.iter().chain(&details.direct_signatures) {
        if signature.typ() == Some(SignatureType::KeyRevocation) {
            return Err(match signature.verify_key(&cert.primary_key) {
                Ok(()) => {
                    Fault::new("revoked_key", "the key is revoked; a revocation counts whatever its date")
                }
                Err(e) => unchecked_revocation(&e),
            });
        }
    }
    Ok(())
}

fn unchecked_revocation(error: &pgp::errors::Error) -> Fault {
    Fault::new("revocation_unchecked", format!("the key holds a revocation that cannot be checked: {error}"))
}

/// The newest valid self-signature of each live user id, and the newest direct one.
fn governing_self_signatures(cert: &SignedPublicKey, now: u64) -> Result<Vec<&Signature>, Fault> {
    let primary = &cert.primary_key;
    let mut governing = Vec::new();
    let direct = cert
        .details
        .direct_signatures
        .iter()
        .filter(|s| s.typ() == Some(SignatureType::Key) && s.verify_key(primary).is_ok());
    governing.extend(newest(direct, now));
    for user in &cert.details.users {
        let own = |revocation: bool| {
            user.signatures.iter().filter(move |s| {
                (s.typ() == Some(SignatureType::CertRevocation)) == revocation
                    && s.is_certification()
                    && s.verify_certification(primary, Tag::UserId, &user.id).is_ok()
            })
        };
        let Some(certification) = newest(own(false), now) else { continue };
        let withdrawn = own(true).any(|revocation| revocation.created() >= certification.created());
        if !withdrawn {
            governing.push(certification);
        }
    }
    if governing.is_empty() {
        return Err(Fault::new("self_signature_missing", "no valid self-signature binds the key"));
    }
    for signature in &governing {
        check_binding(signature, "self_signature_weak", "self-signature")?;
        if signature_expired(signature, now) {
            return Err(Fault::new("self_signature_expired", "the newest self-signature has expired"));
        }
    }
    Ok(governing)
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>, now: u64) -> Option<&'a Signature> {
    signatures
        .filter(|s| s.created().is_some_and(|c| u64::from(c.as_secs()) <= now + CLOCK_SKEW_SECONDS))
        .max_by_key(|s| s.created())
}

/// Whether this key made the signature over these bytes.
pub(super) fn verify(
    signature: &Signature,
    component: Component<'_>,
    covered: &[u8],
) -> pgp::errors::Result<()> {
    match component {
        Component::Primary(cert) => signature.verify(&cert.primary_key, covered),
        Component::Subkey(subkey) => signature.verify(&subkey.key, covered),
    }
}

/// Hash strength and critical subpackets of a signature that binds something.
fn check_binding(signature: &Signature, weak: &'static str, what: &str) -> Result<(), Fault> {
    match signature.hash_alg() {
        Some(hash) if hash_name(hash).is_some() => {}
        hash => {
            let observed = hash.map_or_else(|| "none".to_owned(), |h| h.to_string());
            return Err(Fault::new(
                weak,
                format!("{what}: expected SHA-256 or stronger, observed {observed}"),
            ));
        }
    }
    check_critical(signature)
}

/// A critical subpacket that we do not understand makes the signature invalid (RFC 9580).
pub(super) fn check_critical(signature: &Signature) -> Result<(), Fault> {
    let Some(config) = signature.config() else {
        return Err(Fault::new("signature_version", "signature of an unknown version"));
    };
    for subpacket in config.hashed_subpackets() {
        let unknown = matches!(
            subpacket.data,
            SubpacketData::Other(..) | SubpacketData::Experimental(..) | SubpacketData::Notation(_)
        );
        if subpacket.is_critical && unknown {
            return Err(Fault::new("critical_subpacket", "a critical subpacket is not understood"));
        }
    }
    Ok(())
}

/// Whether the signature's own expiry has passed at `now`.
pub(super) fn signature_expired(signature: &Signature, now: u64) -> bool {
    match (signature.created(), signature.signature_expiration_time()) {
        (Some(created), Some(lasts)) if lasts.as_secs() != 0 => {
            u64::from(created.as_secs()) + u64::from(lasts.as_secs()) <= now
        }
        _ => false,
    }
}

fn states_flags(signature: &Signature) -> bool {
    signature
        .config()
        .is_some_and(|c| c.hashed_subpackets().any(|p| matches!(p.data, SubpacketData::KeyFlags(_))))
}

fn allows(signature: &Signature, wanted: Use) -> bool {
    let flags = signature.key_flags();
    match wanted {
        Use::Sign => flags.sign(),
        Use::Encrypt => flags.encrypt_storage() || flags.encrypt_comms(),
    }
}

fn flags_fault(wanted: Use) -> Fault {
    let what = match wanted {
        Use::Sign => "sign data",
        Use::Encrypt => "receive encrypted data",
    };
    Fault::new("key_flags", format!("key flags do not allow it to {what}"))
}

fn check_time(
    key: &dyn KeyDetails,
    lifetimes: impl Iterator<Item = pgp::types::Duration>,
    at: u64,
    now: u64,
) -> Result<(), Fault> {
    let created = u64::from(key.created_at().as_secs());
    if at < created {
        let detail = format!("signed at {at}, before the key was created at {created} (Unix seconds)");
        return Err(Fault::new("signature_before_key", detail));
    }
    let shortest = lifetimes.map(|d| u64::from(d.as_secs())).filter(|seconds| *seconds != 0).min();
    if let Some(lasts) = shortest {
        let end = created + lasts;
        if at >= end || now >= end {
            let detail = format!("the key expired at {end}; signed at {at}, now {now} (Unix seconds)");
            return Err(Fault::new("expired_key", detail));
        }
    }
    Ok(())
}

fn check_algorithm(key: &dyn KeyDetails, wanted: Use) -> Result<(), Fault> {
    if !matches!(key.version(), KeyVersion::V4 | KeyVersion::V6) {
        return Err(Fault::new("key_version", format!("key version {:?} is not accepted", key.version())));
    }
    let good = match (key.public_params(), wanted) {
        (PublicParams::RSA(rsa), _) => modulus_bits(rsa) >= 2048,
        (
            PublicParams::EdDSALegacy(_)
            | PublicParams::Ed25519(_)
            | PublicParams::Ed448(_)
            | PublicParams::ECDSA(_),
            Use::Sign,
        ) => true,
        (PublicParams::ECDH(_) | PublicParams::X25519(_) | PublicParams::X448(_), Use::Encrypt) => true,
        _ => false,
    };
    if good {
        return Ok(());
    }
    // an algorithm of the other trade is no weakness, it is not meant for this
    match (key.public_params(), wanted) {
        (PublicParams::DSA(_) | PublicParams::Elgamal(_) | PublicParams::Unknown { .. }, _)
        | (PublicParams::RSA(_), _) => Err(Fault::new(
            "key_algorithm",
            format!("algorithm {:?} is not accepted, or the key is too short", key.algorithm()),
        )),
        _ => Err(flags_fault(wanted)),
    }
}

/// The parameters begin with the modulus, and that with its length in bits (RFC 9580 §3.2).
fn modulus_bits(rsa: &RsaPublicParams) -> u16 {
    match rsa.to_bytes().unwrap_or_default()[..] {
        [high, low, ..] => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

fn check_subkey(
    cert: &SignedPublicKey,
    subkey: &SignedPublicSubKey,
    wanted: Use,
    at: u64,
    now: u64,
) -> Result<(), Fault> {
    let primary = &cert.primary_key;
    for signature in &subkey.signatures {
        if signature.typ() == Some(SignatureType::SubkeyRevocation) {
            return Err(match signature.verify_subkey_binding(primary, &subkey.key) {
                Ok(()) => Fault::new("revoked_key", "the subkey is revoked; it counts whatever its date"),
                Err(e) => unchecked_revocation(&e),
            });
        }
    }
    let bindings = subkey.signatures.iter().filter(|s| {
        s.typ() == Some(SignatureType::SubkeyBinding) && s.verify_subkey_binding(primary, &subkey.key).is_ok()
    });
    let Some(binding) = newest(bindings, now) else {
        return Err(Fault::new("subkey_binding", "no valid signature binds the subkey to its primary key"));
    };
    check_binding(binding, "subkey_binding_weak", "subkey binding")?;
    if signature_expired(binding, now) {
        return Err(Fault::new("subkey_binding", "the subkey's binding has expired"));
    }
    if !allows(binding, wanted) {
        return Err(flags_fault(wanted));
    }
    check_algorithm(&subkey.key, wanted)?;
    check_time(&subkey.key, binding.key_expiration_time().into_iter(), at, now)?;
    if wanted == Use::Sign {
        let Some(back) = binding.embedded_signature() else {
            return Err(Fault::new(
                "subkey_back_signature",
                "the signing subkey does not sign its primary key",
            ));
        };
        back.verify_primary_key_binding(&subkey.key, primary).map_err(|e| {
            Fault::new("subkey_back_signature", format!("the back-signature is not valid: {e}"))
        })?;
        check_binding(back, "subkey_binding_weak", "back-signature")?;
        if signature_expired(back, now) {
            return Err(Fault::new("subkey_back_signature", "the back-signature has expired"));
        }
    }
    Ok(())
}
