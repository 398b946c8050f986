//! The explicit manifest: spans and addresses that somebody else chose, as the
//! cut_request pipeline's MARK takes them. Refused unless they partition the region.
//!
//! ```json
//! {"schema": 1, "units": [
//!   {"address": "ICX-CONST/art-1", "unit_kind": "article", "section_type": "general",
//!    "start": 0, "end": 120}]}
//! ```
//!
//! Offsets are bytes of the file. `citation_address` and `body_start` may be added.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;

use crate::base::canonical::{digest_of, parse_strict};
use crate::base::digest::Digest;
use crate::text::address::Address;

use super::{
    Candidate, MarkContext, MarkError, Marked, Marker, Region, check_partition, check_text, forbidden,
    region_text, warning,
};

/// The schema number that this build reads.
pub const MANIFEST_SCHEMA: u32 = 1;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    schema: u32,
    units: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    address: String,
    unit_kind: String,
    section_type: String,
    start: usize,
    end: usize,
    #[serde(default)]
    citation_address: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    body_start: Option<usize>,
}

/// Takes the units from a manifest.
#[derive(Debug, Clone)]
pub struct ManifestMarker {
    units: Vec<Entry>,
    digest: Digest,
}

fn wrong(place: impl ToString, expected: impl ToString, observed: impl ToString) -> MarkError {
    MarkError::Manifest {
        place: place.to_string(),
        expected: expected.to_string(),
        observed: observed.to_string(),
    }
}

impl ManifestMarker {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`MarkError::Manifest`] where it is not strict JSON of the shape above.
    pub fn from_json(bytes: &[u8]) -> Result<Self, MarkError> {
        Self::from_value(parse_strict(bytes).map_err(|e| wrong("file", "strict JSON", e))?)
    }

    /// Reads a manifest that is a JSON value already.
    ///
    /// # Errors
    /// [`MarkError::Manifest`] where it has not the shape above.
    pub fn from_value(value: serde_json::Value) -> Result<Self, MarkError> {
        let digest = digest_of(&value)?;
        let manifest: Manifest =
            serde_json::from_value(value).map_err(|e| wrong("file", "schema and units", e))?;
        if manifest.schema != MANIFEST_SCHEMA {
            return Err(wrong("schema", MANIFEST_SCHEMA, manifest.schema));
        }
        Ok(Self { units: manifest.units, digest })
    }
}

impl Marker for ManifestMarker {
    fn mark(&self, source: &[u8], region: Region, context: &MarkContext<'_>) -> Result<Marked, MarkError> {
        let text = check_text(source, context.limits)?;
        region_text(text, region)?;
        context.limits.check_count(self.units.len(), || None)?;
        check_partition(region, self.units.iter().map(|unit| (unit.start, unit.end)))?;
        let mut seen = BTreeSet::new();
        let mut candidates = Vec::with_capacity(self.units.len());
        for (i, unit) in self.units.iter().enumerate() {
            let place = |field: &str| format!("unit {i}, {field}");
            let address =
                Address::parse(&unit.address).map_err(|e| wrong(place("address"), "an address", e))?;
            if !address.is_within(context.document_id) {
                let expected = format!("an address within {}", context.document_id);
                return Err(wrong(place("address"), expected, &address));
            }
            if !seen.insert(address.clone()) {
                return Err(wrong(place("address"), "an address that no other unit has", &address));
            }
            if !text.is_char_boundary(unit.end) {
                return Err(wrong(place("end"), "the end of a character", unit.end));
            }
            let body_start = unit.body_start.unwrap_or(unit.start);
            if !(unit.start..=unit.end).contains(&body_start) || !text.is_char_boundary(body_start) {
                return Err(wrong(place("body_start"), "a byte of the unit between characters", body_start));
            }
            let citation_address = unit
                .citation_address
                .as_deref()
                .map(Address::parse)
                .transpose()
                .map_err(|e| wrong(place("citation_address"), "an address", e))?;
            candidates.push(Candidate {
                ordinal: u32::try_from(i).map_err(|_| wrong("units", "at most 4294967295 units", i))?,
                address,
                citation_address,
                aliases: unit.aliases.clone(),
                unit_kind: unit.unit_kind.clone(),
                section_type: unit.section_type.clone(),
                start: unit.start,
                end: unit.end,
                heading: Region { start: unit.start, end: unit.start },
                body_start,
            });
        }
        let mut warnings = Vec::new();
        if region.is_empty() {
            warnings.push(warning("empty_region", None, "the body region is empty: no units"));
        }
        Ok(Marked {
            region,
            forbidden: forbidden(&candidates, context.limits),
            why: alloc::vec![format!("{} units from a manifest, sha256 {}", candidates.len(), self.digest)],
            candidates,
            duplicates: Vec::new(),
            gaps: 0,
            publication_type: None,
            warnings,
            profile: context.profile.id()?,
        })
    }

    fn identity(&self) -> String {
        format!("manifest/{MANIFEST_SCHEMA}/{}", self.digest)
    }
}
