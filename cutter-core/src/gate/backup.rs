//! IG_backup: the target could be reached, what it holds was encrypted to the pinned key, and
//! read again it is byte for byte what was recorded.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::fingerprint::normal_fingerprint;
use crate::machine::run::GateId;
use crate::record::backup::{BackupBlob, BackupSummary, TargetFacts};
use crate::record::check::invariant;
use crate::record::check::{ABSENT, Check, GateReport, Invariant};

const G: GateId = GateId::Backup;
const SPEC: &str = "spec 1 §4 IG_backup";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant("backup.target_reachable", G, "the backup target can be written", SPEC),
    invariant(
        "backup.target_key_pinned",
        G,
        "the key that the target would encrypt to is the pinned one",
        SPEC,
    ),
    invariant(
        "backup.blob_key_pinned",
        G,
        "the key that the stored backup is encrypted to is the pinned one",
        SPEC,
    ),
    invariant("backup.blob_recorded", G, "name, sha256 and length of the stored backup are recorded", SPEC),
    invariant("backup.blob_encrypted", G, "the stored bytes are not the plaintext", SPEC),
    invariant(
        "backup.blob_reads_back",
        G,
        "the stored bytes, read again, have the recorded sha256 and length",
        "PROTOCOL §2 backup",
    ),
    invariant(
        "backup.contents_counted",
        G,
        "the backup's tables are counted and hashed, zero rows included",
        "PROTOCOL §7",
    ),
    invariant(
        "backup.sidecar_record",
        G,
        "the sidecar records the backup with its sha256, size and time",
        SPEC,
    ),
];

/// What was observed of the backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFacts {
    /// The target, as probed.
    pub target: TargetFacts,
    /// The pinned recipient fingerprint; case does not matter, spaces are ignored.
    pub pinned_fingerprint: String,
    /// What was stored.
    pub blob: Option<BackupBlob>,
    /// sha256 and length of what was stored, read again.
    pub rehash: Option<(Digest, u64)>,
    /// What it holds.
    pub summary: Option<BackupSummary>,
    /// Are name, sha256, size and time in the sidecar's record?
    pub recorded: bool,
}

fn key(id: &str, pinned: &str, observed: Option<&str>) -> Check {
    let pinned = normal_fingerprint(pinned);
    match observed.map(normal_fingerprint) {
        Some(seen) => {
            let ok = !pinned.is_empty() && seen == pinned;
            Check::new(id, if pinned.is_empty() { "a pinned fingerprint" } else { &pinned }, seen, ok)
        }
        None => Check::new(id, pinned, ABSENT, false),
    }
}

/// Judges the backup.
#[must_use]
pub fn judge(facts: &BackupFacts) -> GateReport {
    let blob = facts.blob.as_ref();
    let described = |sha: &Digest, bytes: u64| format!("{sha}, {bytes} bytes");
    let reads_back = "backup.blob_reads_back";
    GateReport::new(
        G,
        vec![
            Check::truth("backup.target_reachable", facts.target.reachable),
            key("backup.target_key_pinned", &facts.pinned_fingerprint, Some(&facts.target.fingerprint)),
            key("backup.blob_key_pinned", &facts.pinned_fingerprint, blob.map(|b| b.fingerprint.as_str())),
            match blob {
                Some(b) => Check::new(
                    "backup.blob_recorded",
                    "a name and at least one byte",
                    // The name carries the epoch, which counts attempts: documents never show it.
                    match b.name.is_empty() {
                        true => format!("no name, {}", described(&b.sha256, b.bytes)),
                        false => described(&b.sha256, b.bytes),
                    },
                    !b.name.is_empty() && b.bytes > 0,
                ),
                None => Check::new("backup.blob_recorded", "a name and at least one byte", ABSENT, false),
            },
            match blob {
                Some(b) => Check::new(
                    "backup.blob_encrypted",
                    format!("other than {}", b.plaintext_sha256),
                    b.sha256,
                    b.sha256 != b.plaintext_sha256,
                ),
                None => Check::new("backup.blob_encrypted", "a stored backup", ABSENT, false),
            },
            match (blob, &facts.rehash) {
                (Some(b), Some((sha, bytes))) => {
                    Check::equal(reads_back, &described(&b.sha256, b.bytes), &described(sha, *bytes))
                }
                (Some(b), None) => Check::new(reads_back, described(&b.sha256, b.bytes), ABSENT, false),
                (None, _) => Check::new(reads_back, "a stored backup", ABSENT, false),
            },
            match &facts.summary {
                Some(s) => Check::new(
                    "backup.contents_counted",
                    "at least one table",
                    format!("{} tables, {} content rows", s.tables.len(), s.content_rows),
                    !s.tables.is_empty(),
                ),
                None => Check::new("backup.contents_counted", "at least one table", ABSENT, false),
            },
            Check::truth("backup.sidecar_record", facts.recorded),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl BackupFacts {
    /// Clean facts.
    #[must_use]
    pub fn example() -> Self {
        use crate::record::backup::TableSummary;
        let fingerprint = "0123456789ABCDEF0123456789ABCDEF01234567";
        Self {
            target: TargetFacts { reachable: true, fingerprint: fingerprint.into() },
            pinned_fingerprint: "0123 4567 89ab cdef 0123  4567 89ab cdef 0123 4567".into(),
            blob: Some(BackupBlob {
                name: "pre_write.1.gpg".into(),
                bytes: 900,
                sha256: Digest::of(b"ciphertext"),
                plaintext_sha256: Digest::of(b"plaintext"),
                fingerprint: fingerprint.to_ascii_lowercase(),
            }),
            rehash: Some((Digest::of(b"ciphertext"), 900)),
            summary: Some(BackupSummary {
                tables: vec![TableSummary {
                    table: "iu_core.information_unit".into(),
                    rows: 0,
                    sha256: Digest::of(b""),
                }],
                base_state_sha: Digest::of(b"base"),
                content_rows: 0,
            }),
            recorded: true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::spoilers;

    spoilers! { BackupFacts, judge;
        "backup.target_reachable" => |f| f.target.reachable = false;
        "backup.target_key_pinned" => |f| f.target.fingerprint = "FF".into();
        "backup.blob_key_pinned" => |f| f.blob.as_mut().unwrap().fingerprint = "FF".into();
        "backup.blob_recorded" => |f| f.blob.as_mut().unwrap().name.clear();
        "backup.blob_recorded" => |f| {
            f.blob.as_mut().unwrap().bytes = 0;
            f.rehash = Some((Digest::of(b"ciphertext"), 0));
        };
        "backup.blob_encrypted" => |f| f.blob.as_mut().unwrap().plaintext_sha256 = Digest::of(b"ciphertext");
        "backup.blob_reads_back" => |f| f.rehash = None;
        "backup.blob_reads_back" => |f| f.rehash = Some((Digest::of(b"flipped"), 900));
        "backup.blob_reads_back" => |f| f.rehash = Some((Digest::of(b"ciphertext"), 899));
        "backup.contents_counted" => |f| f.summary = None;
        "backup.sidecar_record" => |f| f.recorded = false;
    }

    #[test]
    fn an_empty_pin_pins_nothing() {
        let mut facts = BackupFacts::example();
        facts.pinned_fingerprint.clear();
        facts.target.fingerprint.clear();
        facts.blob.as_mut().unwrap().fingerprint.clear();
        assert_eq!(judge(&facts).failures().len(), 2);
    }

    #[test]
    fn without_a_blob_all_that_needs_it_fails() {
        let report = judge(&BackupFacts { blob: None, ..BackupFacts::example() });
        assert_eq!(report.failures().len(), 4, "{report}");
    }
}
