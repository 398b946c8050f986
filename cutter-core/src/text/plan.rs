//! The cut plan: what a cut of one source would write, with every digest that a run pins.
//!
//! A plan is a pure function of the document id, the bytes, the profile, the vocabularies,
//! the marker and `depends_on`: it holds no run id, no UUID and no clock value, so `cutter
//! plan` and a run print the same `manifest_digest`, `region_sha` and `writer_digest`.
//! `IG_cutplan` judges it; nothing here does.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::canonical::{CanonicalError, Writer};
use crate::base::digest::{Digest, Hasher};
use crate::base::key::{DerivedKey, UnitKeys};
use crate::base::vocabulary::{UnknownWord, Vocabulary};
use crate::text::address::{Address, DocumentId};
use crate::text::mark::{
    Duplicate, MarkContext, MarkError, MarkLimits, Marked, Marker, Warning, body_region, marker_for,
};
use crate::text::profile::{Profile, ProfileId};

mod tree;

pub use tree::UnitTree;

/// The schema word at the head of the hashed source_version envelope.
pub const ENVELOPE_SCHEMA: &str = "cutter.source_version/1";

/// Everything that a plan is a function of.
#[derive(Clone, Copy)]
pub struct PlanInput<'a> {
    /// The document: the first part of every address.
    pub document_id: &'a DocumentId,
    /// The whole file.
    pub text: &'a [u8],
    /// The convention.
    pub profile: &'a Profile,
    /// The vocabularies as they stand now.
    pub vocabulary: &'a Vocabulary,
    /// Overrides the profile's `publication_type`.
    pub publication_type: Option<&'a str>,
    /// What must be verified before this cut (`G-CUT-DEPS`), in any order.
    pub depends_on: &'a [String],
    /// The bounds.
    pub limits: &'a MarkLimits,
    /// `None` is the marker of the profile's format ([`marker_for`]).
    pub marker: Option<&'a dyn Marker>,
}

/// One unit to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRow {
    /// Its place in the document, from 0.
    pub ordinal: u32,
    /// Unique among the document's live units of this version.
    #[serde(rename = "address")]
    pub canonical_address: Address,
    /// What people quote, where unique.
    pub citation_address: Option<Address>,
    /// Other names that the text itself gives the unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// A word of the vocabulary `unit_kind`.
    pub unit_kind: String,
    /// A word of the vocabulary `section_type`.
    pub section_type: String,
    /// The first byte in the file.
    pub start: usize,
    /// The byte after the last, in the file.
    pub end: usize,
    /// The sha256 of the unit's bytes.
    pub content_hash: Digest,
    /// The sha256 of the bytes after its designator: the same body under another number
    /// means moved or renumbered.
    pub body_hash: Digest,
    /// sha256(source_sha256 ‖ canonical_address ‖ content_hash).
    pub idempotency_key: DerivedKey,
}

/// Size and hash of a span or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFacts {
    /// Its length.
    pub bytes: usize,
    /// Its sha256.
    pub sha256: Digest,
}

/// The region with its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionFacts {
    /// The first byte in the file.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
    /// `region_sha`: the sha256 of its bytes.
    pub sha256: Digest,
}

/// A whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPlan {
    /// The document.
    pub document_id: DocumentId,
    /// The file.
    pub document: TextFacts,
    /// The body.
    pub region: RegionFacts,
    /// The profile that cut.
    pub profile: ProfileId,
    /// The marker that cut.
    pub marker: String,
    /// Why so, in short sentences.
    pub why: Vec<String>,
    /// A word of the vocabulary `publication_type`.
    pub publication_type: String,
    /// What must be verified first, sorted.
    pub depends_on: Vec<String>,
    /// The sha256 of the vocabulary snapshot.
    pub vocabulary_digest: Digest,
    /// The units, in document order.
    #[serde(rename = "units")]
    pub rows: Vec<PlanRow>,
    /// Addresses that got `~n`.
    pub duplicates: Vec<Duplicate>,
    /// Addresses at or below a forbidden prefix.
    pub forbidden: Vec<Address>,
    /// Words that the vocabularies lack; `IG_cutplan` refuses any.
    pub unknown_words: Vec<UnknownWord>,
    /// For the approver.
    pub warnings: Vec<Warning>,
    /// The sha256 of the source_version envelope.
    pub manifest_digest: Digest,
    /// The sha256 of the rows.
    pub writer_digest: Digest,
    /// The sha256 of (address, content_hash) of all units.
    pub set_digest: Digest,
}

/// Why there is no plan. Shown to the operator with the file's name before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The text could not be marked.
    #[error(transparent)]
    Mark(#[from] MarkError),
    /// A digest could not be taken.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    /// More units than allowed: they were counted, and none was built.
    #[error("{}", MarkError::TooMany { limit: *limit, observed: *observed, publication_type: None })]
    TooMany {
        /// How many are allowed.
        limit: u32,
        /// How many there are.
        observed: u64,
        /// The plan but for its units: what a run pins before it asks how many there are.
        without_units: Box<CutPlan>,
    },
}

impl CutPlan {
    /// Marks the text and hashes every unit. An empty region gives a plan without units
    /// and a warning.
    ///
    /// # Errors
    /// [`PlanError`]: the text is not UTF-8, too large, or a manifest does not fit.
    pub fn build(input: &PlanInput<'_>) -> Result<Self, PlanError> {
        let region = body_region(input.text, input.profile)?;
        let context =
            MarkContext { document_id: input.document_id, profile: input.profile, limits: input.limits };
        let marker = input.marker.unwrap_or_else(|| marker_for(input.profile));
        let error = match marker.mark(input.text, region, &context) {
            Ok(marked) => return Self::from_marked(input, marker.identity(), marked),
            Err(error) => error,
        };
        let MarkError::TooMany { limit, observed, publication_type } = error else {
            return Err(error.into());
        };
        let none = Marked {
            region,
            candidates: Vec::new(),
            duplicates: Vec::new(),
            forbidden: Vec::new(),
            gaps: 0,
            publication_type,
            warnings: Vec::new(),
            profile: input.profile.id()?,
            why: Vec::new(),
        };
        let without_units = Box::new(Self::from_marked(input, marker.identity(), none)?);
        Err(PlanError::TooMany { limit, observed, without_units })
    }

    fn from_marked(input: &PlanInput<'_>, marker: String, marked: Marked) -> Result<Self, PlanError> {
        let source = Digest::of(input.text);
        let document = TextFacts { bytes: input.text.len(), sha256: source };
        let bytes = |start: usize, end: usize| {
            input.text.get(start..end).ok_or(MarkError::Region { start, end, bytes: input.text.len() })
        };
        // What was hashed already is not hashed again: the text is large.
        let hash_of = |start: usize, end: usize, known: (usize, usize, Digest)| {
            let span = bytes(start, end)?;
            Ok::<_, MarkError>(if (start, end) == (known.0, known.1) { known.2 } else { Digest::of(span) })
        };
        let whole = (0, input.text.len(), source);
        let (start, end) = (marked.region.start, marked.region.end);
        let region = RegionFacts { start, end, sha256: hash_of(start, end, whole)? };
        let body = (start, end, region.sha256);
        let keys = UnitKeys::new(&source);
        let mut rows = Vec::with_capacity(marked.candidates.len());
        for candidate in marked.candidates {
            let (start, end) = (candidate.start, candidate.end);
            let content_hash = hash_of(start, end, body)?;
            let body_hash = hash_of(candidate.body_start, end, (start, end, content_hash))?;
            rows.push(PlanRow {
                ordinal: candidate.ordinal,
                idempotency_key: keys.key(candidate.address.as_str(), &content_hash),
                canonical_address: candidate.address,
                citation_address: candidate.citation_address,
                aliases: candidate.aliases,
                unit_kind: candidate.unit_kind,
                section_type: candidate.section_type,
                start,
                end,
                content_hash,
                body_hash,
            });
        }
        let publication_type = (input.publication_type)
            .or(marked.publication_type.as_deref())
            .unwrap_or(&input.profile.publication_type)
            .to_string();
        let unknown_words = unknown_words(input.vocabulary, &rows, &publication_type);
        let mut depends_on = input.depends_on.to_vec();
        depends_on.sort();
        depends_on.dedup();
        let sorted = sorted_by_address(&rows);
        let writer_digest = digest_of_sorted(&sorted);
        let set_digest = set_digest_of_sorted(sorted.iter().map(|row| row.address_and_hash()));
        drop(sorted);
        let mut plan = Self {
            document_id: input.document_id.clone(),
            document,
            region,
            profile: marked.profile,
            marker,
            why: marked.why,
            publication_type,
            depends_on,
            vocabulary_digest: input.vocabulary.digest()?,
            writer_digest,
            set_digest,
            rows,
            duplicates: marked.duplicates,
            forbidden: marked.forbidden,
            unknown_words,
            warnings: marked.warnings,
            manifest_digest: source,
        };
        plan.manifest_digest = Digest::of(plan.envelope(input.vocabulary)?.as_bytes());
        Ok(plan)
    }

    /// The canonical JSON that `manifest_digest` hashes: document id, text hash and size,
    /// region span and hash, profile, marker, publication type, vocabulary snapshot and
    /// `depends_on` (spec 2 §6).
    ///
    /// # Errors
    /// [`CanonicalError`] where a size is beyond 2^53 − 1.
    pub fn envelope(&self, vocabulary: &Vocabulary) -> Result<String, CanonicalError> {
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut w = Writer::with_capacity(2048);
        w.begin_object();
        w.key("depends_on");
        w.begin_array();
        for document in &self.depends_on {
            w.string(document);
        }
        w.end_array();
        w.key("document_id");
        w.string(self.document_id.as_str());
        w.key("marker");
        w.string(&self.marker);
        w.key("profile");
        w.begin_object();
        w.key("digest");
        w.string(&self.profile.digest.to_hex());
        w.key("name");
        w.string(&self.profile.name);
        w.key("version");
        w.unsigned(u64::from(self.profile.version))?;
        w.end_object();
        w.key("publication_type");
        w.string(&self.publication_type);
        w.key("region");
        w.begin_object();
        w.key("end");
        w.unsigned(number(self.region.end))?;
        w.key("sha256");
        w.string(&self.region.sha256.to_hex());
        w.key("start");
        w.unsigned(number(self.region.start))?;
        w.end_object();
        w.key("schema");
        w.string(ENVELOPE_SCHEMA);
        w.key("text");
        w.begin_object();
        w.key("bytes");
        w.unsigned(number(self.document.bytes))?;
        w.key("sha256");
        w.string(&self.document.sha256.to_hex());
        w.end_object();
        w.key("vocabulary");
        vocabulary.write(&mut w);
        w.end_object();
        Ok(w.finish())
    }
}

impl PlanRow {
    fn address_and_hash(&self) -> (&str, &Digest) {
        (self.canonical_address.as_str(), &self.content_hash)
    }
}

/// The words of a plan that its vocabularies lack. Most rows repeat the words of the row
/// before, and a word is looked up only where it changes.
fn unknown_words(vocabulary: &Vocabulary, rows: &[PlanRow], publication_type: &str) -> Vec<UnknownWord> {
    fn changes<'a>(words: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
        let mut last = None;
        words.filter(move |&word| last.replace(word) != Some(word))
    }
    let kinds = changes(rows.iter().map(|row| row.unit_kind.as_str())).map(|word| ("unit_kind", word));
    let types = changes(rows.iter().map(|row| row.section_type.as_str())).map(|word| ("section_type", word));
    vocabulary.unknown(kinds.chain(types).chain([("publication_type", publication_type)]))
}

fn sorted_by_address(rows: &[PlanRow]) -> Vec<&PlanRow> {
    let mut sorted: Vec<&PlanRow> = rows.iter().collect();
    sorted.sort_by(|a, b| a.canonical_address.cmp(&b.canonical_address));
    sorted
}

/// The sha256 over the canonical JSON of the rows
/// `[canonical_address, unit_kind, section_type, content_hash, idempotency_key]`, sorted by
/// the bytes of their addresses (D21), whatever the order given.
#[must_use]
pub fn writer_digest(rows: &[PlanRow]) -> Digest {
    digest_of_sorted(&sorted_by_address(rows))
}

fn digest_of_sorted(rows: &[&PlanRow]) -> Digest {
    writer_digest_of_sorted(rows.iter().map(|row| {
        (
            row.canonical_address.as_str(),
            row.unit_kind.as_str(),
            row.section_type.as_str(),
            &row.content_hash,
            row.idempotency_key.digest(),
        )
    }))
}

/// What [`writer_digest`] is over, of one unit: address, unit_kind, section_type, content_hash and
/// idempotency_key.
pub type WrittenRow<'a> = (&'a str, &'a str, &'a str, &'a Digest, &'a Digest);

/// [`writer_digest`] of units as they are stored.
#[must_use]
pub fn stored_writer_digest<'a>(units: impl IntoIterator<Item = WrittenRow<'a>>) -> Digest {
    let mut sorted: Vec<WrittenRow<'_>> = units.into_iter().collect();
    sorted.sort();
    writer_digest_of_sorted(sorted)
}

fn writer_digest_of_sorted<'a>(rows: impl IntoIterator<Item = WrittenRow<'a>>) -> Digest {
    let (mut w, mut hasher) = (Writer::with_capacity(1024), Hasher::new());
    w.begin_array();
    for (address, unit_kind, section_type, content_hash, key) in rows {
        w.begin_array();
        w.string(address);
        w.string(unit_kind);
        w.string(section_type);
        w.digest(content_hash);
        w.digest(key);
        w.end_array();
        w.drain_into(&mut hasher);
    }
    w.end_array();
    w.drain_into(&mut hasher);
    hasher.finish()
}

/// The digest of a set of units: the sha256 over the canonical JSON of
/// `[address, content_hash]` pairs, sorted by the bytes of the addresses.
#[must_use]
pub fn set_digest<'a>(units: impl IntoIterator<Item = (&'a str, &'a Digest)>) -> Digest {
    let mut sorted: Vec<(&str, &Digest)> = units.into_iter().collect();
    sorted.sort();
    set_digest_of_sorted(sorted)
}

fn set_digest_of_sorted<'a>(units: impl IntoIterator<Item = (&'a str, &'a Digest)>) -> Digest {
    let (mut w, mut hasher) = (Writer::with_capacity(1024), Hasher::new());
    w.begin_array();
    for (address, content_hash) in units {
        w.begin_array();
        w.string(address);
        w.digest(content_hash);
        w.end_array();
        w.drain_into(&mut hasher);
    }
    w.end_array();
    w.drain_into(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
