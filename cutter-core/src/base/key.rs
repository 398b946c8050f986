//! Idempotency keys (spec 2 §4): one per phase, recorded before the work is done.
//!
//! Two kinds that must never be confused: a [`DerivedKey`] is the sha256 of pins and
//! anyone can compute it again; a [`MintedKey`] is a UUIDv7 that was chosen once and
//! lives in the recorded intent. On resume a key is read, never derived again.
//!
//! The inputs of a formula are the text forms of its terms, concatenated exactly, with
//! no separator: a document id as written, a UUID with hyphens in lower case, a digest as
//! 64 lowercase hex digits. One side always has a fixed length, so no two inputs collide.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::{Digest, Hasher, ParseDigestError};

/// A key that is the sha256 of pinned values: anyone can check it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DerivedKey(Digest);

impl DerivedKey {
    /// Wraps a digest read from a record.
    #[must_use]
    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.0
    }

    fn of(terms: &[&str]) -> Self {
        let mut hasher = Hasher::new();
        for term in terms {
            hasher.update(term.as_bytes());
        }
        Self(hasher.finish())
    }
}

impl fmt::Display for DerivedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for DerivedKey {
    type Err = ParseDigestError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(Self)
    }
}

/// A key that was chosen once (UUIDv7) and is known only from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MintedKey(Uuid);

impl MintedKey {
    /// Wraps an identifier from an intent.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The identifier.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for MintedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Any phase's key, as the sidecar keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PhaseKey {
    /// A hash of pins.
    Derived(DerivedKey),
    /// A chosen identifier.
    Minted(MintedKey),
}

impl fmt::Display for PhaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Derived(key) => key.fmt(f),
            Self::Minted(key) => key.fmt(f),
        }
    }
}

impl From<DerivedKey> for PhaseKey {
    fn from(key: DerivedKey) -> Self {
        Self::Derived(key)
    }
}

impl From<MintedKey> for PhaseKey {
    fn from(key: MintedKey) -> Self {
        Self::Minted(key)
    }
}

/// `source_pin` = sha256(document_id ‖ source_version_id); the version id is a UUID.
#[must_use]
pub fn source_pin(document_id: &str, source_version_id: Uuid) -> DerivedKey {
    DerivedKey::of(&[document_id, &source_version_id.to_string()])
}

/// `mark` = sha256(source_pin key ‖ region_sha).
#[must_use]
pub fn mark(previous: &DerivedKey, region_sha: &Digest) -> DerivedKey {
    chained(previous, region_sha)
}

/// `cutplan` = writer_digest, which is canonical already.
#[must_use]
pub const fn cutplan(writer_digest: Digest) -> DerivedKey {
    DerivedKey(writer_digest)
}

/// `backup` = sha256(cutplan key ‖ backup_sha).
#[must_use]
pub fn backup(previous: &DerivedKey, backup_sha: &Digest) -> DerivedKey {
    chained(previous, backup_sha)
}

/// `grant_probe` = sha256(backup key ‖ grant_probe_sha).
#[must_use]
pub fn grant_probe(previous: &DerivedKey, grant_probe_sha: &Digest) -> DerivedKey {
    chained(previous, grant_probe_sha)
}

fn chained(previous: &DerivedKey, sha: &Digest) -> DerivedKey {
    DerivedKey::of(&[&previous.to_string(), &sha.to_hex()])
}

/// `structural_verify` = sha256(change_set_id ‖ structural_verify_payload_sha).
#[must_use]
pub fn structural_verify(change_set_id: Uuid, payload_sha: &Digest) -> DerivedKey {
    DerivedKey::of(&[&change_set_id.to_string(), &payload_sha.to_hex()])
}

/// `closeout` = sha256(all prior keys in the order of their phases ‖ final_report_sha).
#[must_use]
pub fn closeout(prior: &[PhaseKey], final_report_sha: &Digest) -> DerivedKey {
    let mut hasher = Hasher::new();
    for key in prior {
        hasher.update(key.to_string().as_bytes());
    }
    hasher.update(final_report_sha.to_hex().as_bytes());
    DerivedKey(hasher.finish())
}

/// A unit's own key = sha256(source_sha256 ‖ canonical_address ‖ content_hash): no run id
/// and no UUID, so a plan without a database has the same keys as the run.
#[must_use]
pub fn unit(source_sha256: &Digest, canonical_address: &str, content_hash: &Digest) -> DerivedKey {
    UnitKeys::new(source_sha256).key(canonical_address, content_hash)
}

/// The keys of all units of one source, as [`unit()`] makes them one by one.
#[derive(Debug, Clone)]
pub struct UnitKeys(Hasher);

impl UnitKeys {
    /// Takes in the source's hash, once for all units.
    #[must_use]
    pub fn new(source_sha256: &Digest) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&source_sha256.hex_bytes());
        Self(hasher)
    }

    /// The key of one unit.
    #[must_use]
    pub fn key(&self, canonical_address: &str, content_hash: &Digest) -> DerivedKey {
        let mut hasher = self.0.clone();
        hasher.update(canonical_address.as_bytes());
        hasher.update(&content_hash.hex_bytes());
        DerivedKey(hasher.finish())
    }
}

/// `IK-MARK` (spec 3): the key of a marked manifest =
/// sha256(document_id ‖ source_version_id ‖ manifest_digest ‖ region_sha).
#[must_use]
pub fn ik_mark(
    document_id: &str,
    source_version_id: Uuid,
    manifest_digest: &Digest,
    region_sha: &Digest,
) -> DerivedKey {
    DerivedKey::of(&[
        document_id,
        &source_version_id.to_string(),
        &manifest_digest.to_hex(),
        &region_sha.to_hex(),
    ])
}

/// What a row of leg A is, for [`unit_id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowLabel {
    /// `information_unit`
    Unit,
    /// `unit_version`
    Version,
    /// `unit_anchor`
    Anchor,
    /// `iu_lifecycle_log`
    Log,
}

impl RowLabel {
    /// The word that is hashed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Version => "version",
            Self::Anchor => "anchor",
            Self::Log => "log",
        }
    }
}

/// The id of row `ordinal` of a change set: a UUID of version 7's shape with the change
/// set's own 48-bit time and 74 bits of sha256(change_set_id ‖ label ‖ ordinal in
/// decimal). A redo of leg A under the same intent writes the same ids.
#[must_use]
pub fn unit_id(change_set_id: Uuid, label: RowLabel, ordinal: u64) -> Uuid {
    timed(change_set_id, &DerivedKey::of(&[&change_set_id.to_string(), label.as_str(), &ordinal.to_string()]))
}

/// The id of a row of a refusal, from the ask's id for it: a refusal may follow a stored approval of the
/// same ask, whose rows have the ask's own ids. A UUID of version 7's shape with the ask's 48-bit time and
/// 74 bits of sha256(id ‖ `refusal`).
#[must_use]
pub fn refusal_id(id: Uuid) -> Uuid {
    timed(id, &DerivedKey::of(&[&id.to_string(), "refusal"]))
}

/// The time of one UUID, and the first bits of a digest.
fn timed(id: Uuid, key: &DerivedKey) -> Uuid {
    let mut bytes = [0u8; 16];
    bytes[..6].copy_from_slice(&id.as_bytes()[..6]);
    bytes[6..].copy_from_slice(&key.digest().as_bytes()[..10]);
    bytes[6] = (bytes[6] & 0x0f) | 0x70;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Uuid::from_bytes(bytes)
}

/// A published example of one formula, for the documentation and for other implementations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vector {
    /// The formula's name.
    pub name: &'static str,
    /// (term, value) in the order of concatenation.
    pub inputs: Vec<(&'static str, String)>,
    /// The key.
    pub output: String,
}

/// Test vectors of every formula, computed by the formulas themselves.
#[must_use]
pub fn vectors() -> Vec<Vector> {
    let document = "ICX-CONST";
    let version = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
    let change_set = Uuid::from_u128(0x0190_0000_0001_7000_8000_0000_0000_0002);
    let envelope = Uuid::from_u128(0x0190_0000_0002_7000_8000_0000_0000_0003);
    let digest = |text: &str| Digest::of(text.as_bytes());
    let pin = source_pin(document, version);
    let marked = mark(&pin, &digest("region"));
    let planned = cutplan(digest("writer"));
    let backed_up = backup(&planned, &digest("backup"));
    let probed = grant_probe(&backed_up, &digest("grants"));
    let verified = structural_verify(change_set, &digest("verify"));
    let prior: [PhaseKey; 8] = [
        pin.into(),
        marked.into(),
        planned.into(),
        backed_up.into(),
        probed.into(),
        MintedKey(change_set).into(),
        verified.into(),
        MintedKey(envelope).into(),
    ];
    let address = format!("{document}/ch-1/art-2");
    let hex = |text: &str| digest(text).to_hex();
    let vector = |name, inputs: Vec<(&'static str, String)>, output: String| Vector { name, inputs, output };
    alloc::vec![
        vector(
            "source_pin",
            alloc::vec![("document_id", document.into()), ("source_version_id", version.to_string())],
            pin.to_string(),
        ),
        vector(
            "mark",
            alloc::vec![("prev_key", pin.to_string()), ("region_sha", hex("region"))],
            marked.to_string(),
        ),
        vector("cutplan", alloc::vec![("writer_digest", hex("writer"))], planned.to_string()),
        vector(
            "backup",
            alloc::vec![("prev_key", planned.to_string()), ("backup_sha", hex("backup"))],
            backed_up.to_string(),
        ),
        vector(
            "grant_probe",
            alloc::vec![("prev_key", backed_up.to_string()), ("grant_probe_sha", hex("grants"))],
            probed.to_string(),
        ),
        vector(
            "structural_verify",
            alloc::vec![("change_set_id", change_set.to_string()), ("payload_sha", hex("verify"))],
            verified.to_string(),
        ),
        vector(
            "closeout",
            alloc::vec![
                ("all prior keys", prior.iter().map(ToString::to_string).collect()),
                ("final_report_sha", hex("report")),
            ],
            closeout(&prior, &digest("report")).to_string(),
        ),
        vector(
            "unit",
            alloc::vec![
                ("source_sha256", hex("source")),
                ("canonical_address", address.clone()),
                ("content_hash", hex("content")),
            ],
            unit(&digest("source"), &address, &digest("content")).to_string(),
        ),
        vector(
            "IK-MARK",
            alloc::vec![
                ("document_id", document.into()),
                ("source_version_id", version.to_string()),
                ("manifest_digest", hex("manifest")),
                ("region_sha", hex("region")),
            ],
            ik_mark(document, version, &digest("manifest"), &digest("region")).to_string(),
        ),
        vector(
            "unit_id",
            alloc::vec![
                ("change_set_id", change_set.to_string()),
                ("label", "unit".into()),
                ("ordinal", "0".into()),
            ],
            unit_id(change_set, RowLabel::Unit, 0).to_string(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Computed outside of this code base, with Python's `hashlib`.
    const EXPECTED: [(&str, &str); 10] = [
        ("source_pin", "efef78019fe11fdd66141ef35750202a215fe48f69a81958e9b96b7c513e5135"),
        ("mark", "132fb3db3d28aa7e81a8ae0eb4bbadda1241e2c7134127c39007d8335f1eb8a3"),
        ("cutplan", "b93006774cbdd4b299389a03ac3d88c3a76b460d538795bc12718011a909fba5"),
        ("backup", "85b3bc9b09c70d0a1b08afc219af894738e3e3e833d822de2185851198c7a9db"),
        ("grant_probe", "d749581354f1123aec2063e1da492bde3c71141cc3b5426c9141a4c6ad680109"),
        ("structural_verify", "51467eb492720f71f9616cc902cdfb29c39ad910177c487ca2fd33dfe08b50b0"),
        ("closeout", "9866d58bd2b8c9581cbedf6d719e9cda6f7952139624046f412f1bb7bf05af9c"),
        ("unit", "a0c8984aec6fcc642642f32d4124a74fad94dae526981cdcec41b188c4505978"),
        ("IK-MARK", "d44f074b1f002b08b866129c440f6c57d450f887711cfdc93c8395500f0dea10"),
        ("unit_id", "01900000-0001-7632-bd18-2ef269c71548"),
    ];

    #[test]
    fn vectors_equal_the_independent_computation() {
        let ours = vectors();
        assert_eq!(ours.len(), EXPECTED.len());
        for (vector, (name, output)) in ours.iter().zip(EXPECTED) {
            assert_eq!((vector.name, vector.output.as_str()), (name, output));
        }
    }

    #[test]
    fn every_hashed_vector_is_the_hash_of_its_inputs() {
        for vector in vectors() {
            if matches!(vector.name, "cutplan" | "unit_id") {
                continue;
            }
            let text: String = vector.inputs.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(Digest::of(text.as_bytes()).to_hex(), vector.output, "{}", vector.name);
        }
    }

    #[test]
    fn row_ids_are_version_7_keep_the_time_and_are_distinct() {
        let change_set = Uuid::from_u128(0x0190_0000_0001_7000_8000_0000_0000_0002);
        let mut seen = BTreeSet::new();
        for label in [RowLabel::Unit, RowLabel::Version, RowLabel::Anchor, RowLabel::Log] {
            for ordinal in 0..2_000 {
                let id = unit_id(change_set, label, ordinal);
                assert_eq!(id.get_version_num(), 7);
                assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
                assert_eq!(id.as_bytes()[..6], change_set.as_bytes()[..6]);
                assert_eq!(id, unit_id(change_set, label, ordinal));
                assert!(seen.insert(id));
            }
        }
    }

    #[test]
    fn phase_keys_round_trip_as_plain_strings() {
        let derived = PhaseKey::from(cutplan(Digest::of(b"x")));
        let minted = PhaseKey::from(MintedKey::from_uuid(Uuid::from_u128(7)));
        for key in [derived, minted] {
            let text = serde_json::to_string(&key).unwrap();
            assert_eq!(text, std::format!("\"{key}\""));
            assert_eq!(serde_json::from_str::<PhaseKey>(&text).unwrap(), key);
        }
    }
}
