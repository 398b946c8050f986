//! Key policy on certificates that gpg would not make: stolen subkeys, missing
//! back-signatures, weak or foreign bindings, revocations that cannot be checked.
//!
//! One document is signed by a signing subkey; then one thing of the public key is
//! spoiled at a time, and that thing is what the verdict names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_kb::openpgp::{KeyPair, PublicKey, SignatureFacts, Verdict, verify_clearsigned};
use pgp::composed::{
    ArmorOptions, KeyType, SecretKeyParamsBuilder, SignedPublicKey, SignedSecretKey, SubkeyParamsBuilder,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{KeyFlags, Notation, Signature, SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{Duration, KeyDetails as _, Password, Tag, Timestamp};
use rand::rngs::OsRng;

fn make(user: &str) -> SignedSecretKey {
    let mut subkey = SubkeyParamsBuilder::default();
    subkey.key_type(KeyType::Ed25519Legacy).can_sign(true);
    SecretKeyParamsBuilder::default()
        .key_type(KeyType::Ed25519Legacy)
        .can_certify(true)
        .can_sign(true)
        .primary_user_id(user.to_owned())
        .subkeys(vec![subkey.build().unwrap()])
        .build()
        .unwrap()
        .generate(OsRng)
        .unwrap()
}

fn config(typ: SignatureType, signer: &SignedSecretKey, extra: Vec<SubpacketData>) -> SignatureConfig {
    let key = &signer.primary_key;
    let mut config = SignatureConfig::v4(typ, key.algorithm(), HashAlgorithm::Sha256);
    let mut hashed = vec![
        SubpacketData::SignatureCreationTime(Timestamp::from_secs(now_seconds())),
        SubpacketData::IssuerFingerprint(key.fingerprint()),
    ];
    hashed.extend(extra);
    config.hashed_subpackets = hashed.into_iter().map(|data| Subpacket::regular(data).unwrap()).collect();
    config
}

fn now_seconds() -> u32 {
    u32::try_from(jiff::Timestamp::now().as_second()).unwrap()
}

fn flags(sign: bool) -> SubpacketData {
    let mut flags = KeyFlags::default();
    flags.set_sign(sign);
    flags.set_certify(true);
    SubpacketData::KeyFlags(flags)
}

/// Binds the signing subkey of `of` to the primary key of `to`.
fn bind(config: SignatureConfig, to: &SignedSecretKey, of: &SignedSecretKey) -> Signature {
    let subkey = of.secret_subkeys[0].key.public_key();
    config
        .sign_subkey_binding(&to.primary_key, to.primary_key.public_key(), &Password::empty(), &subkey)
        .unwrap()
}

/// The subkey of `of` says that it belongs to the primary key of `to`.
fn back(to: &SignedSecretKey, of: &SignedSecretKey) -> SubpacketData {
    let subkey = &of.secret_subkeys[0].key;
    let mut config = config(SignatureType::KeyBinding, of, Vec::new());
    config.pub_alg = subkey.algorithm();
    let signature = config
        .sign_primary_key_binding(
            subkey,
            subkey.public_key(),
            &Password::empty(),
            to.primary_key.public_key(),
        )
        .unwrap();
    SubpacketData::EmbeddedSignature(Box::new(signature))
}

fn certify(config: SignatureConfig, key: &SignedSecretKey) -> Signature {
    let user = &key.details.users[0].id;
    config
        .sign_certification(
            &key.primary_key,
            key.primary_key.public_key(),
            &Password::empty(),
            Tag::UserId,
            user,
        )
        .unwrap()
}

fn verify(document: &str, cert: &SignedPublicKey) -> SignatureFacts {
    let armored = cert.to_armored_string(ArmorOptions::default()).unwrap();
    verify_clearsigned(
        document.as_bytes(),
        &[PublicKey::parse(armored.as_bytes()).unwrap()],
        jiff::Timestamp::now(),
    )
}

fn sign(key: &SignedSecretKey) -> String {
    let armored = key.to_armored_string(ArmorOptions::default()).unwrap();
    let pair = KeyPair::parse(armored.as_bytes()).unwrap();
    pair.clearsign("run: 42\n", jiff::Timestamp::now()).unwrap()
}

#[test]
fn one_spoiled_thing_at_a_time() {
    use SignatureType::{CertGeneric, CertRevocation, KeyRevocation, SubkeyBinding, SubkeyRevocation};
    let (key, other) = (make("Key"), make("Other"));
    let document = sign(&key);
    let clean = key.to_public_key();
    assert!(
        matches!(verify(&document, &clean).verdict, Verdict::Good { .. }),
        "{:?}",
        verify(&document, &clean)
    );

    let binding = |signature: Signature| {
        let mut cert = clean.clone();
        cert.public_subkeys[0].signatures = vec![signature];
        cert
    };
    let binding_and = |signature: Signature| {
        let mut cert = clean.clone();
        cert.public_subkeys[0].signatures.push(signature);
        cert
    };
    let user = |signatures: Vec<Signature>| {
        let mut cert = clean.clone();
        cert.details.users[0].signatures = signatures;
        cert
    };
    let critical = |mut config: SignatureConfig| {
        let notation = Notation { readable: true, name: "x@y".into(), value: "z".into() };
        config.hashed_subpackets.push(Subpacket::critical(SubpacketData::Notation(notation)).unwrap());
        config
    };
    let sub = |extra| config(SubkeyBinding, &key, extra);
    let lasts = |seconds| Duration::from_secs(seconds);

    // rebuilt by hand and sound: so the cases below fail for their one reason
    let sound = binding(bind(sub(vec![flags(true), back(&key, &key)]), &key, &key));
    assert!(
        matches!(verify(&document, &sound).verdict, Verdict::Good { .. }),
        "{:?}",
        verify(&document, &sound)
    );
    let sound = user(vec![certify(config(CertGeneric, &key, vec![flags(true)]), &key)]);
    assert!(
        matches!(verify(&document, &sound).verdict, Verdict::Good { .. }),
        "{:?}",
        verify(&document, &sound)
    );

    let revoke = |typ, by: &SignedSecretKey| {
        config(typ, by, Vec::new())
            .sign_key(&by.primary_key, &Password::empty(), key.primary_key.public_key())
            .unwrap()
    };
    let revoked = |signature| {
        let mut cert = clean.clone();
        cert.details.revocation_signatures.push(signature);
        cert
    };
    let own = key.details.users[0].signatures[0].clone();
    let without_flags = config(CertGeneric, &key, Vec::new());
    let short_lived =
        config(CertGeneric, &key, vec![flags(true), SubpacketData::SignatureExpirationTime(lasts(1))]);
    let mut past = short_lived;
    past.hashed_subpackets[0] =
        Subpacket::regular(SubpacketData::SignatureCreationTime(Timestamp::from_secs(now_seconds() - 60)))
            .unwrap();

    let cases = [
        ("no back-signature", binding(bind(sub(vec![flags(true)]), &key, &key)), "subkey_back_signature"),
        (
            "back-signature for another key",
            binding(bind(sub(vec![flags(true), back(&other, &key)]), &key, &key)),
            "subkey_back_signature",
        ),
        (
            "not for signing",
            binding(bind(sub(vec![flags(false), back(&key, &key)]), &key, &key)),
            "key_flags",
        ),
        ("flags not stated", binding(bind(sub(vec![back(&key, &key)]), &key, &key)), "key_flags"),
        (
            "bound by another key",
            binding(bind(config(SubkeyBinding, &other, vec![flags(true), back(&key, &key)]), &other, &key)),
            "subkey_binding",
        ),
        (
            "critical and unknown",
            binding(bind(critical(sub(vec![flags(true), back(&key, &key)])), &key, &key)),
            "critical_subpacket",
        ),
        (
            "subkey revoked",
            binding_and(bind(config(SubkeyRevocation, &key, Vec::new()), &key, &key)),
            "revoked_key",
        ),
        (
            "subkey revoked by who knows",
            binding_and(bind(config(SubkeyRevocation, &other, Vec::new()), &other, &key)),
            "revocation_unchecked",
        ),
        ("revoked", revoked(revoke(KeyRevocation, &key)), "revoked_key"),
        ("revoked by who knows", revoked(revoke(KeyRevocation, &other)), "revocation_unchecked"),
        (
            "self-signature of another key",
            user(vec![certify(config(CertGeneric, &other, vec![flags(true)]), &other)]),
            "self_signature_missing",
        ),
        (
            "user id withdrawn",
            user(vec![own, certify(config(CertRevocation, &key, Vec::new()), &key)]),
            "self_signature_missing",
        ),
        ("self-signature expired", user(vec![certify(past, &key)]), "self_signature_expired"),
        (
            "key expired",
            user(vec![certify(
                config(CertGeneric, &key, vec![flags(true), SubpacketData::KeyExpirationTime(lasts(1))]),
                &key,
            )]),
            "expired_key",
        ),
    ];
    // the one-second life of the last case
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for (name, cert, expected) in cases {
        let facts = verify(&document, &cert);
        match facts.verdict {
            Verdict::Bad { code, .. } => assert_eq!(code, expected, "{name}"),
            Verdict::Good { .. } => panic!("{name}: accepted"),
        }
        assert_eq!(facts.covered_text, None, "{name}");
    }

    // the primary key itself signs only if its self-signature says so
    let mut alone = key.clone();
    alone.secret_subkeys.clear();
    let by_primary = sign(&alone);
    assert!(matches!(verify(&by_primary, &clean).verdict, Verdict::Good { .. }));
    let silent = user(vec![certify(without_flags, &key)]);
    assert!(matches!(verify(&by_primary, &silent).verdict, Verdict::Bad { code: "key_flags", .. }));
}

#[test]
fn a_subkey_adopted_by_another_key_does_not_speak_for_it() {
    let (victim, thief) = (make("Victim"), make("Thief"));
    let document = sign(&victim);
    // the thief binds the victim's signing subkey to his own key, to claim the signature
    let mut stolen = thief.to_public_key();
    stolen.public_subkeys = vec![victim.to_public_key().public_subkeys[0].clone()];
    let verdict = verify(&document, &stolen).verdict;
    assert!(matches!(verdict, Verdict::Bad { code: "subkey_binding", .. }), "{verdict:?}");
    let adoption = config(SignatureType::SubkeyBinding, &thief, vec![flags(true)]);
    stolen.public_subkeys[0].signatures = vec![bind(adoption, &thief, &victim)];
    let verdict = verify(&document, &stolen).verdict;
    assert!(matches!(verdict, Verdict::Bad { code: "subkey_back_signature", .. }), "{verdict:?}");
}
