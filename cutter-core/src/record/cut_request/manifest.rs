//! What is read of a staged manifest: the JSON that `cutter plan FILE --document-id ID --json`
//! prints. Its units' texts are not there; the staged copy has them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;

use crate::base::digest::Digest;
use crate::text::mark::{Region, check_partition};

/// The manifest is no JSON of the shape that `cutter plan --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the manifest is not what `cutter plan FILE --document-id ID --json` prints: expected document.sha256, \
     document.bytes, region.start, region.end, units[].start, units[].end and manifest_digest, observed {reason}"
)]
pub struct ManifestTextError {
    /// What was found instead.
    pub reason: String,
}

#[derive(Deserialize)]
struct Text {
    document: DocumentText,
    region: SpanText,
    units: Vec<SpanText>,
    manifest_digest: String,
}

#[derive(Deserialize)]
struct DocumentText {
    sha256: String,
    bytes: u64,
}

#[derive(Deserialize)]
struct SpanText {
    start: u64,
    end: u64,
}

/// What a mark is judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFacts {
    /// `document.sha256`, as it stands there.
    pub document_sha256: String,
    /// `document.bytes`.
    pub document_bytes: u64,
    /// `region.start` and `region.end`, in bytes of the document.
    pub region: (u64, u64),
    /// `start` and `end` of each unit, in the manifest's order.
    pub units: Vec<(u64, u64)>,
    /// `manifest_digest`, as it stands there.
    pub manifest_digest: String,
}

impl ManifestFacts {
    /// Reads a manifest. What it says beyond these facts is not looked at.
    ///
    /// # Errors
    /// [`ManifestTextError`] where one of them is missing or of another type.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ManifestTextError> {
        let text: Text =
            serde_json::from_slice(bytes).map_err(|error| ManifestTextError { reason: error.to_string() })?;
        Ok(Self {
            document_sha256: text.document.sha256,
            document_bytes: text.document.bytes,
            region: (text.region.start, text.region.end),
            units: text.units.iter().map(|unit| (unit.start, unit.end)).collect(),
            manifest_digest: text.manifest_digest,
        })
    }

    /// The digest, if it is one.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.manifest_digest.parse().ok()
    }

    /// How the units fail to partition the region, or the region to lie in the document.
    #[must_use]
    pub fn partition_fault(&self) -> Option<String> {
        let (start, end) = self.region;
        if start > end || end > self.document_bytes {
            return Some(format!("region {start}..{end} of {} bytes", self.document_bytes));
        }
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let region = Region { start: size(start), end: size(end) };
        let spans = self.units.iter().map(|&(start, end)| (size(start), size(end)));
        check_partition(region, spans).err().map(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(region: (u64, u64), units: &[(u64, u64)]) -> ManifestFacts {
        ManifestFacts {
            document_sha256: Digest::of(b"x").to_hex(),
            document_bytes: 10,
            region,
            units: units.to_vec(),
            manifest_digest: Digest::of(b"m").to_hex(),
        }
    }

    #[test]
    fn units_partition_the_region_or_it_is_said_where_not() {
        assert_eq!(facts((2, 9), &[(2, 5), (5, 9)]).partition_fault(), None);
        assert_eq!(facts((3, 3), &[]).partition_fault(), None);
        for (region, units) in [
            ((2, 9), &[(2, 5), (6, 9)][..]),
            ((2, 9), &[(2, 5), (4, 9)]),
            ((2, 9), &[(2, 5)]),
            ((2, 9), &[(2, 10)]),
            ((2, 9), &[]),
            ((2, 9), &[(2, 2), (2, 9)]),
            ((2, 11), &[(2, 11)]),
            ((9, 2), &[]),
        ] {
            assert!(facts(region, units).partition_fault().is_some(), "{region:?} {units:?}");
        }
    }

    #[test]
    fn the_text_of_a_plan_is_read_and_another_is_named() {
        let plan = br#"{"document":{"path":"a.md","bytes":3,"sha256":"ab"},"region":{"start":0,"end":3,"sha256":"c"},
            "detection":{"confidence":0.5},"units":[{"ordinal":0,"start":0,"end":3}],"manifest_digest":"d"}"#;
        let facts = ManifestFacts::from_json(plan).unwrap();
        assert_eq!((facts.region, facts.units.as_slice()), ((0, 3), &[(0, 3)][..]));
        assert_eq!(facts.digest(), None);
        let error = ManifestFacts::from_json(b"{}").unwrap_err().to_string();
        assert!(error.contains("cutter plan") && error.contains("document"), "{error}");
    }
}
