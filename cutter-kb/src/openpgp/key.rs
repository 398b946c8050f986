//! Keys: making a pair, reading and writing armored keys, clear-signing.
//!
//! New keys are v4, Ed25519 for signing and X25519 for encryption, in the encoding that
//! GnuPG 2.2 knows. Secret material is unprotected: whoever stores it makes the file 0600.

use std::fmt;

use pgp::armor::BlockType;
use pgp::composed::{
    ArmorOptions, EncryptionCaps, KeyType, SecretKeyParamsBuilder, SignedPublicKey, SignedSecretKey,
    SubkeyParamsBuilder,
};
use pgp::crypto::ecc_curve::ECCCurve;
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::sym::SymmetricKeyAlgorithm;
use pgp::packet::{Packet, PacketParser, SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{CompressionAlgorithm, KeyDetails as _, Password, SigningKey, Timestamp};
use rand::rngs::OsRng;
use zeroize::Zeroizing;

use super::certificate::{self, Use};
use super::{Fingerprint, OpenPgpError, armor, cleartext, contain, unix_seconds};

/// A key file beyond this size is not a key of ours.
const MAX_KEY_BYTES: usize = 1 << 20;

/// What a new key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// Signs approvals and run records.
    Sign,
    /// Receives backups.
    Encrypt,
    /// Both, for demonstrations.
    Both,
}

/// A public key (a certificate) as it is pinned in the configuration.
#[derive(Clone)]
pub struct PublicKey {
    pub(super) cert: SignedPublicKey,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

impl PublicKey {
    /// Reads exactly one public key, armored or binary.
    ///
    /// Fails with [`OpenPgpError::Key`] on anything unreadable within: a packet that is
    /// skipped could be the revocation.
    pub fn parse(bytes: &[u8]) -> Result<Self, OpenPgpError> {
        let binary = key_bytes(bytes, BlockType::PublicKey)?;
        let mut certs = parse_all::<SignedPublicKey>(&binary)?;
        match (certs.pop(), certs.len()) {
            (Some(cert), 0) => Ok(Self { cert }),
            (_, more) => Err(OpenPgpError::Key(format!("expected one public key, observed {}", more + 1))),
        }
    }

    /// The primary key's fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.cert.primary_key)
    }

    /// The user ids as written in the key; for showing only, nothing is decided by them.
    #[must_use]
    pub fn user_ids(&self) -> Vec<String> {
        self.cert
            .details
            .users
            .iter()
            .map(|user| String::from_utf8_lossy(user.id.id()).into_owned())
            .collect()
    }

    /// Armored text, as `gpg --armor --export` writes it.
    pub fn armored(&self) -> Result<String, OpenPgpError> {
        self.cert
            .to_armored_string(ArmorOptions::default())
            .map_err(|e| OpenPgpError::operation("export public key", e))
    }

    /// Whether some part of this key may sign (or receive, with `encrypt`) at `now`;
    /// for `cutter doctor` and for checking a configuration before it is needed.
    pub fn check_usable(&self, encrypt: bool, now: jiff::Timestamp) -> Result<(), OpenPgpError> {
        let wanted = if encrypt { Use::Encrypt } else { Use::Sign };
        certificate::pick(&self.cert, wanted, unix_seconds(now)).map(|_| ()).map_err(|fault| {
            OpenPgpError::Policy { fingerprint: self.fingerprint(), code: fault.code, detail: fault.detail }
        })
    }
}

/// A secret key with its public part. Debug shows the fingerprint alone; the secret
/// numbers are wiped when the value is dropped.
pub struct KeyPair {
    pub(super) secret: SignedSecretKey,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.fingerprint())
    }
}

impl KeyPair {
    /// Makes a new key from the system's randomness, created now, never expiring.
    /// `user_id` is free text, by custom `Name <mail>`; control characters are refused.
    pub fn generate(user_id: &str, kind: KeyKind) -> Result<Self, OpenPgpError> {
        if user_id.is_empty() || user_id.chars().any(char::is_control) {
            return Err(OpenPgpError::Key(format!(
                "user id must be text without control characters, observed {user_id:?}"
            )));
        }
        let mut params = SecretKeyParamsBuilder::default();
        params
            .key_type(KeyType::Ed25519Legacy)
            .can_certify(true)
            .can_sign(kind != KeyKind::Encrypt)
            .can_encrypt(EncryptionCaps::None)
            .preferred_symmetric_algorithms([SymmetricKeyAlgorithm::AES256].into_iter().collect())
            .preferred_hash_algorithms([HashAlgorithm::Sha512, HashAlgorithm::Sha256].into_iter().collect())
            .preferred_compression_algorithms([CompressionAlgorithm::Uncompressed].into_iter().collect())
            .primary_user_id(user_id.to_owned());
        if kind != KeyKind::Sign {
            let mut subkey = SubkeyParamsBuilder::default();
            subkey.key_type(KeyType::ECDH(ECCCurve::Curve25519Legacy)).can_encrypt(EncryptionCaps::All);
            params.subkeys(vec![subkey.build().map_err(|e| OpenPgpError::operation("make key", e))?]);
        }
        let params = params.build().map_err(|e| OpenPgpError::operation("make key", e))?;
        let secret = params.generate(OsRng).map_err(|e| OpenPgpError::operation("make key", e))?;
        Ok(Self { secret })
    }

    /// Reads exactly one unprotected secret key, armored or binary.
    pub fn parse(bytes: &[u8]) -> Result<Self, OpenPgpError> {
        let binary = Zeroizing::new(key_bytes(bytes, BlockType::PrivateKey)?);
        let mut keys = parse_all::<SignedSecretKey>(&binary)?;
        match (keys.pop(), keys.len()) {
            (Some(secret), 0) => Ok(Self { secret }),
            (_, more) => Err(OpenPgpError::Key(format!("expected one secret key, observed {}", more + 1))),
        }
    }

    /// The public part.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey { cert: self.secret.to_public_key() }
    }

    /// The primary key's fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.secret.primary_key)
    }

    /// Armored secret key **without protection**: write it to a file of mode 0600.
    pub fn secret_armored(&self) -> Result<Zeroizing<String>, OpenPgpError> {
        self.secret
            .to_armored_string(ArmorOptions::default())
            .map(Zeroizing::new)
            .map_err(|e| OpenPgpError::operation("export secret key", e))
    }

    /// Clear-signs `text` as `gpg --clearsign` would: SHA-512, dated `now`.
    ///
    /// The document shows exactly what is signed: trailing blanks of lines, which the
    /// format does not cover, are left out. LF or CRLF line endings are accepted; a CR
    /// alone is refused ([`OpenPgpError::Text`]), for no two programs agree on it.
    pub fn clearsign(&self, text: &str, now: jiff::Timestamp) -> Result<String, OpenPgpError> {
        let lines = cleartext::signable_lines(text).map_err(OpenPgpError::Text)?;
        let cert = self.secret.to_public_key();
        let picked = certificate::pick(&cert, Use::Sign, unix_seconds(now)).map_err(|fault| {
            OpenPgpError::Policy { fingerprint: self.fingerprint(), code: fault.code, detail: fault.detail }
        })?;
        let created = u32::try_from(unix_seconds(now))
            .map_err(|_| OpenPgpError::Text(format!("date {now} does not fit an OpenPGP signature")))?;
        let covered = lines.join("\r\n");
        let armored = if picked == self.secret.primary_key.fingerprint() {
            detached(&self.secret.primary_key, &covered, created)?
        } else {
            let subkey = self
                .secret
                .secret_subkeys
                .iter()
                .find(|subkey| subkey.key.fingerprint() == picked)
                .ok_or_else(|| {
                    OpenPgpError::Key(format!("secret part of signing subkey {picked} is missing"))
                })?;
            detached(&subkey.key, &covered, created)?
        };
        Ok(cleartext::compose(&lines, "SHA512", &armored))
    }
}

fn detached(key: &impl SigningKey, covered: &str, created: u32) -> Result<String, OpenPgpError> {
    let failed = |e: pgp::errors::Error| OpenPgpError::operation("clear-sign", e);
    let mut config = SignatureConfig::from_key(OsRng, key, SignatureType::Text).map_err(failed)?;
    config.hash_alg = HashAlgorithm::Sha512;
    config.hashed_subpackets = vec![
        Subpacket::critical(SubpacketData::SignatureCreationTime(Timestamp::from_secs(created)))
            .map_err(failed)?,
        Subpacket::regular(SubpacketData::IssuerFingerprint(key.fingerprint())).map_err(failed)?,
    ];
    if key.version() == pgp::types::KeyVersion::V4 {
        config.unhashed_subpackets =
            vec![Subpacket::regular(SubpacketData::IssuerKeyId(key.legacy_key_id())).map_err(failed)?];
    }
    let signature = config.sign(key, &Password::empty(), covered.as_bytes()).map_err(failed)?;
    pgp::composed::DetachedSignature::new(signature)
        .to_armored_string(ArmorOptions::default())
        .map_err(failed)
}

fn key_bytes(bytes: &[u8], block: BlockType) -> Result<Vec<u8>, OpenPgpError> {
    if bytes.len() > MAX_KEY_BYTES {
        let observed = bytes.len();
        return Err(OpenPgpError::Key(format!(
            "expected at most {MAX_KEY_BYTES} bytes, observed {observed}"
        )));
    }
    if bytes.first().is_some_and(|b| b & 0x80 != 0) {
        return Ok(bytes.to_vec());
    }
    contain(|| armor::decode(bytes, block, MAX_KEY_BYTES))
        .and_then(|decoded| decoded)
        .map_err(OpenPgpError::Key)
}

/// All keys in `binary`. Unlike the library's own readers this one refuses what it cannot
/// read instead of leaving it out.
fn parse_all<T: pgp::composed::Deserializable>(binary: &[u8]) -> Result<Vec<T>, OpenPgpError> {
    contain(|| {
        let mut packets = Vec::new();
        for packet in PacketParser::new(binary) {
            match packet.map_err(|e| format!("unreadable packet: {e}"))? {
                Packet::Marker(_) | Packet::Padding(_) | Packet::Trust(_) => {}
                packet => packets.push(Ok(packet)),
            }
        }
        if packets.is_empty() {
            return Err("it holds no packets".to_owned());
        }
        T::from_packets(packets.into_iter().peekable())
            .collect::<Result<Vec<T>, _>>()
            .map_err(|e| e.to_string())
    })
    .and_then(|parsed| parsed)
    .map_err(OpenPgpError::Key)
}
