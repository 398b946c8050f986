//! IG_source_pin: the document is registered, its newest version is readable, whole and
//! within bounds, and its manifest digest agrees with the pinned one, if one was pinned.

use alloc::string::String;
use alloc::vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{ABSENT, Check, GateReport, Invariant};
use crate::record::observed::SourceFacts;

const G: GateId = GateId::SourcePin;
const SPEC: &str = "spec 1 §4 IG_source_pin";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "source_pin.document_registered",
        G,
        "the source_document row exists and is the one asked for",
        SPEC,
    ),
    invariant("source_pin.version_exists", G, "a source_version row exists, numbered from 1", SPEC),
    invariant(
        "source_pin.text_sha_matches",
        G,
        "the text read hashes to the version's registered sha256",
        SPEC,
    ),
    invariant("source_pin.text_length_matches", G, "the text read has the version's registered length", SPEC),
    invariant(
        "source_pin.text_within_limit",
        G,
        "the text is not longer than the run's limit",
        "DESIGN §5, D34",
    ),
    invariant("source_pin.text_is_utf8", G, "the text is UTF-8", "DESIGN §5"),
    invariant("source_pin.text_markable", G, "the profile makes units of the text", "DESIGN §5"),
    invariant(
        "source_pin.manifest_digest_matches",
        G,
        "the recomputed manifest digest is the version's pinned one; without a pin it is recorded now",
        SPEC,
    ),
];

/// What was observed of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePinFacts {
    /// The document that the run cuts.
    pub document_id: String,
    /// Its stored source; `None` if it was never registered.
    pub source: Option<SourceFacts>,
    /// sha256 of the text as read; `None` if it could not be read.
    pub text_sha: Option<Digest>,
    /// Length of the text as read, in bytes.
    pub text_bytes: u64,
    /// Manifest digest, freshly computed; `None` if the text could not be marked.
    pub manifest_digest: Option<Digest>,
    /// The run's limit for `text_bytes`.
    pub max_bytes: u64,
    /// Is the text UTF-8?
    pub utf8: bool,
    /// Why no plan can be made of the text, if none can.
    pub refused: Option<String>,
}

/// Judges the source.
#[must_use]
pub fn judge(facts: &SourcePinFacts) -> GateReport {
    let latest = facts.source.as_ref().and_then(|s| s.latest.as_ref());
    let pinned = latest.and_then(|v| v.manifest_digest);
    let manifest = "source_pin.manifest_digest_matches";
    GateReport::new(
        G,
        vec![
            Check::equal_some(
                "source_pin.document_registered",
                &facts.document_id,
                facts.source.as_ref().map(|s| &s.document_id),
            ),
            match latest {
                Some(v) => {
                    Check::new("source_pin.version_exists", "1 or higher", v.version_no, v.version_no >= 1)
                }
                None => Check::new("source_pin.version_exists", "1 or higher", ABSENT, false),
            },
            match (latest, facts.text_sha) {
                (Some(v), Some(read)) => Check::equal("source_pin.text_sha_matches", &v.sha256, &read),
                (Some(v), None) => Check::new("source_pin.text_sha_matches", v.sha256, ABSENT, false),
                (None, _) => Check::new("source_pin.text_sha_matches", "a registered sha256", ABSENT, false),
            },
            match latest {
                Some(v) => Check::equal("source_pin.text_length_matches", &v.bytes, &facts.text_bytes),
                None => Check::new("source_pin.text_length_matches", "a registered length", ABSENT, false),
            },
            Check::within("source_pin.text_within_limit", 0, facts.max_bytes, facts.text_bytes),
            Check::truth("source_pin.text_is_utf8", facts.utf8),
            Check::empty("source_pin.text_markable", facts.refused.as_slice()),
            match (latest, pinned, &facts.manifest_digest) {
                (Some(_), Some(pin), fresh) => Check::equal_some(manifest, &pin, fresh.as_ref()),
                (Some(_), None, Some(fresh)) => {
                    Check::new(manifest, "not pinned before: recorded now", fresh, true)
                }
                _ => Check::new(manifest, "a digest to compare", ABSENT, false),
            },
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl SourcePinFacts {
    /// Clean facts.
    #[must_use]
    pub fn example() -> Self {
        use crate::record::observed::SourceVersionFacts;
        use uuid::Uuid;
        let sha = Digest::of(b"text");
        Self {
            document_id: "ICX-CONST".into(),
            source: Some(SourceFacts {
                source_document_id: Uuid::from_u128(1),
                document_id: "ICX-CONST".into(),
                latest: Some(SourceVersionFacts {
                    source_version_id: Uuid::from_u128(2),
                    version_no: 1,
                    sha256: sha,
                    bytes: 4,
                    manifest_digest: Some(Digest::of(b"manifest")),
                }),
            }),
            text_sha: Some(sha),
            text_bytes: 4,
            manifest_digest: Some(Digest::of(b"manifest")),
            max_bytes: 4,
            utf8: true,
            refused: None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::spoilers;
    use crate::record::observed::SourceVersionFacts;

    fn latest(facts: &mut SourcePinFacts) -> &mut SourceVersionFacts {
        facts.source.as_mut().unwrap().latest.as_mut().unwrap()
    }

    spoilers! { SourcePinFacts, judge;
        "source_pin.document_registered" => |f| f.document_id = "ICX-CONST2".into();
        "source_pin.version_exists" => |f| latest(&mut f).version_no = 0;
        "source_pin.text_sha_matches" => |f| f.text_sha = Some(Digest::of(b"other"));
        "source_pin.text_sha_matches" => |f| f.text_sha = None;
        "source_pin.text_length_matches" => |f| latest(&mut f).bytes = 5;
        "source_pin.text_within_limit" => |f| f.max_bytes = 3;
        "source_pin.text_is_utf8" => |f| f.utf8 = false;
        "source_pin.manifest_digest_matches" => |f| f.manifest_digest = Some(Digest::of(b"other"));
        "source_pin.manifest_digest_matches" => |f| f.manifest_digest = None;
        "source_pin.text_markable" => |f| f.refused = Some("duplicate address".into());
    }

    #[test]
    fn without_a_pin_the_digest_is_recorded() {
        let mut facts = SourcePinFacts::example();
        latest(&mut facts).manifest_digest = None;
        let report = judge(&facts);
        assert!(report.ok(), "{report}");
        assert!(report.checks.iter().any(|c| c.observed == Digest::of(b"manifest").to_hex()));
    }

    #[test]
    fn an_unregistered_document_fails_everything_that_needs_it() {
        let report = judge(&SourcePinFacts { source: None, text_sha: None, ..SourcePinFacts::example() });
        assert_eq!(report.failures().len(), 5, "{report}");
    }
}
