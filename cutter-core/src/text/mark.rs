//! Marking: a region of a source becomes an ordered partition of addressed candidates.
//!
//! The law of the cut: the candidates are byte spans in document order that tile the
//! region, no gap, no overlap, every byte once ([`check_partition`]). Offsets are bytes of
//! the file; the text is never normalised, trimmed or decoded on the way, only addresses are.
//!
//! A marker reports and does not judge: the number of candidates, duplicates and forbidden
//! addresses are in the result, and `IG_mark` decides.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::canonical::CanonicalError;
use crate::text::address::{Address, AddressError, DocumentId};
use crate::text::profile::{Format, Profile, ProfileId};

mod assemble;
mod blocks;
mod designate;
mod enumerate;
mod fences;
mod item;
pub mod manifest;
pub mod markdown;
mod nest;
mod node;
mod number;
mod paragraph;
pub mod plain;
mod region;
mod rows;
mod scan;
mod sequence;
mod types;
pub mod underlined;
pub mod xml;

pub use manifest::ManifestMarker;
pub use markdown::MarkdownMarker;
pub use plain::TextMarker;
pub use region::body_region;
pub use underlined::UnderlinedMarker;
pub use xml::XmlMarker;

/// A span of the file, in bytes: `start` is the first byte, `end` the one after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Region {
    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// True where it holds no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One unit to be: a span with an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its place in the document, from 0.
    pub ordinal: u32,
    /// Its canonical address, unique in the document.
    pub address: Address,
    /// What people quote, where that is unique.
    pub citation_address: Option<Address>,
    /// Other names that the text itself gives the unit (`{#id}`, `r[id]`, an XML identifier).
    pub aliases: Vec<String>,
    /// A word of the vocabulary `unit_kind`.
    pub unit_kind: String,
    /// A word of the vocabulary `section_type`.
    pub section_type: String,
    /// The first byte in the file.
    pub start: usize,
    /// The byte after the last, in the file.
    pub end: usize,
    /// The heading's lines in the file; empty at `start` where there is none.
    pub heading: Region,
    /// Where the body starts: after the designator, or after the heading where it has none.
    pub body_start: usize,
}

/// An address that was taken, so that `~2`, `~3`, … was added. The approver sees it at SG1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// The address with its `~n`.
    pub address: Address,
    /// The address that was taken.
    pub of: Address,
    /// The candidate's ordinal.
    pub ordinal: u32,
    /// The line in the file, from 1.
    pub line: usize,
}

/// Something the approver should know that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable word, say `setext_ignored`.
    pub code: String,
    /// The line in the file, from 1; `None` for the whole document.
    pub line: Option<usize>,
    /// For people.
    pub message: String,
}

/// What a marker found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// The body region, in the file.
    pub region: Region,
    /// The partition of the region, in document order.
    pub candidates: Vec<Candidate>,
    /// Every address that got `~n`.
    pub duplicates: Vec<Duplicate>,
    /// Candidates at or below a forbidden prefix (D19).
    pub forbidden: Vec<Address>,
    /// How often a printed number jumps where the next one was due (Art. 7, Art. 9).
    pub gaps: u32,
    /// A word of the vocabulary `publication_type`, where the title says it.
    pub publication_type: Option<String>,
    /// For the approver.
    pub warnings: Vec<Warning>,
    /// The profile that cut.
    pub profile: ProfileId,
    /// Why this profile and these units, in short sentences.
    pub why: Vec<String>,
}

/// Bounds of marking, from the settings; they are shown at SG1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkLimits {
    /// How many candidates `IG_mark` lets pass.
    pub max_candidates: u32,
    /// Where marking stops before anything is built.
    #[serde(default)]
    pub stop: Stop,
    /// The largest file, in bytes.
    pub max_bytes: usize,
    /// Addresses that must not be cut, with everything below them (D19).
    pub forbidden_prefixes: Vec<Address>,
}

impl Default for MarkLimits {
    fn default() -> Self {
        Self {
            max_candidates: 1000,
            stop: Stop::Nowhere,
            max_bytes: 64 << 20,
            forbidden_prefixes: Vec::new(),
        }
    }
}

/// Where marking stops, so that a text made to be costly is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Nowhere: for a text that is trusted. Time and memory are in proportion to its units.
    #[default]
    Nowhere,
    /// At [`MarkError::TooDense`]: a text that is little else than beginnings of units. Time and memory
    /// are in proportion to the text; all candidates are reported, for a gate or a person to judge.
    AtDensity,
    /// There, and at [`MarkError::TooMany`]: more candidates than `max_candidates`.
    AtCandidates,
}

/// So many marks are followed in any text.
const LEAST_MARKS: usize = 16_384;
/// In a longer text one in so many bytes. A mark takes some hundred bytes of memory, whatever becomes of
/// it, so this is what keeps the memory in proportion to the text.
const BYTES_PER_MARK: usize = 128;

impl MarkLimits {
    /// How many marks (headings, lines or elements that may begin a unit, names of units) are followed in a text
    /// of so many bytes, and how many attributes of one element. A text that is little else than marks
    /// is refused as soon as they are counted; whoever allows more candidates allows as many marks.
    #[must_use]
    pub fn max_marks(&self, bytes: usize) -> usize {
        if self.stop == Stop::Nowhere {
            return usize::MAX;
        }
        let allowed = usize::try_from(self.max_candidates).unwrap_or(usize::MAX);
        (bytes / BYTES_PER_MARK).max(LEAST_MARKS).max(allowed)
    }

    /// Refuses more marks than [`Self::max_marks`] allows a text of so many bytes.
    fn check_marks(&self, bytes: usize, marks: usize) -> Result<(), MarkError> {
        let limit = self.max_marks(bytes);
        if marks <= limit { Ok(()) } else { Err(MarkError::TooDense { limit, bytes }) }
    }

    /// Refuses more candidates than allowed, where marking is to stop at them.
    fn check_count(
        &self,
        observed: usize,
        publication_type: impl FnOnce() -> Option<String>,
    ) -> Result<(), MarkError> {
        let observed = u64::try_from(observed).unwrap_or(u64::MAX);
        if self.stop != Stop::AtCandidates || observed <= u64::from(self.max_candidates) {
            return Ok(());
        }
        let limit = self.max_candidates;
        Err(MarkError::TooMany { limit, observed, publication_type: publication_type() })
    }
}

/// Why a file cannot be marked. Shown to the operator with the file's name before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    /// Bytes that are not UTF-8 are refused, never repaired.
    #[error(
        "not UTF-8 at byte {offset} (line {line}): expected UTF-8 text, observed byte 0x{byte:02x}; convert the file and register it again"
    )]
    NotUtf8 {
        /// The first wrong byte, from 0.
        offset: usize,
        /// Its line, from 1.
        line: usize,
        /// Its value.
        byte: u8,
    },
    /// The file is larger than the limit.
    #[error(
        "too large: expected at most {limit} bytes, observed {observed}; split the document or raise the limit"
    )]
    TooLarge {
        /// The limit.
        limit: usize,
        /// The file's size.
        observed: usize,
    },
    /// More headings, lines or elements that may begin a unit, or names of units, than a text of its size has.
    #[error(
        "expected at most {limit} in {bytes} bytes of headings, of lines or elements that may begin a unit, or of names of units, observed more; if all are meant, allow as many (max_candidates)"
    )]
    TooDense {
        /// How many are followed.
        limit: usize,
        /// The text's size.
        bytes: usize,
    },
    /// More candidates than allowed. They were counted, and none was built.
    #[error(
        "too many units: expected at most {limit}, observed {observed}; allow more (max_candidates) or cut less deep"
    )]
    TooMany {
        /// How many are allowed.
        limit: u32,
        /// How many there are.
        observed: u64,
        /// As in [`Marked`]: what is pinned of a text before its units are asked about.
        publication_type: Option<String>,
    },
    /// A region outside of the file or inside a character.
    #[error("region {start}..{end} is not a span of the text, which has {bytes} bytes")]
    Region {
        /// The first byte.
        start: usize,
        /// The byte after the last.
        end: usize,
        /// The file's size.
        bytes: usize,
    },
    /// The partition law is broken at one span.
    #[error(
        "not a partition of the region: unit {ordinal} should start at byte {expected}, observed {observed}"
    )]
    Partition {
        /// Which span; the number of spans where the last one ends too early.
        ordinal: usize,
        /// Where it should start.
        expected: usize,
        /// Where it starts.
        observed: usize,
    },
    /// An address that cannot be built.
    #[error("line {line}: {source}")]
    Address {
        /// The heading's line, from 1.
        line: usize,
        /// The broken rule.
        source: AddressError,
    },
    /// A manifest that is not what it should be.
    #[error("manifest {place}: expected {expected}, observed {observed}")]
    Manifest {
        /// Which entry and field.
        place: String,
        /// What was expected.
        expected: String,
        /// What stands there.
        observed: String,
    },
    /// XML that is not well formed, nests too deeply, or is not what the profile is for.
    #[error("XML, line {line}: expected {expected}, observed {observed}")]
    Xml {
        /// The line, from 1.
        line: usize,
        /// What was expected.
        expected: String,
        /// What stands there.
        observed: String,
    },
    /// A digest could not be taken.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
}

/// Turns a region into a partition of candidates. Pure: the same input gives the same
/// result on every machine.
pub trait Marker {
    /// Marks `region` of `source`, which is the whole file.
    ///
    /// # Errors
    /// [`MarkError`]: not UTF-8, too large, or a manifest that does not fit.
    fn mark(&self, source: &[u8], region: Region, context: &MarkContext<'_>) -> Result<Marked, MarkError>;

    /// A short text that tells this marker and its inputs from others; part of the
    /// manifest digest.
    fn identity(&self) -> String;
}

/// The marker of the format that a profile says.
#[must_use]
pub fn marker_for(profile: &Profile) -> &'static dyn Marker {
    match profile.format {
        Format::Text => &TextMarker,
        Format::Underlined => &UnderlinedMarker,
        Format::Markdown => &MarkdownMarker,
        Format::Xml => &XmlMarker,
    }
}

/// What every marker needs besides the text.
#[derive(Debug, Clone, Copy)]
pub struct MarkContext<'a> {
    /// The document: the first part of every address.
    pub document_id: &'a DocumentId,
    /// The convention.
    pub profile: &'a Profile,
    /// The bounds.
    pub limits: &'a MarkLimits,
}

/// The text of a file, or the refusal that names the first wrong byte.
///
/// # Errors
/// [`MarkError::TooLarge`], [`MarkError::NotUtf8`].
pub fn check_text<'a>(source: &'a [u8], limits: &MarkLimits) -> Result<&'a str, MarkError> {
    // Places are kept in 32 bits where there are many of them.
    let limit = limits.max_bytes.min(u32::MAX as usize);
    if source.len() > limit {
        return Err(MarkError::TooLarge { limit, observed: source.len() });
    }
    core::str::from_utf8(source).map_err(|error| {
        let offset = error.valid_up_to();
        let line = Lines::new(source).line_of(offset);
        MarkError::NotUtf8 { offset, line, byte: source.get(offset).copied().unwrap_or_default() }
    })
}

/// Proves that spans tile the region: in order, no gap, no overlap, every byte once, and
/// no empty span.
///
/// # Errors
/// [`MarkError::Partition`] at the first span that breaks the law.
pub fn check_partition(
    region: Region,
    spans: impl IntoIterator<Item = (usize, usize)>,
) -> Result<(), MarkError> {
    let (mut at, mut count) = (region.start, 0);
    for (start, end) in spans {
        if start != at {
            return Err(MarkError::Partition { ordinal: count, expected: at, observed: start });
        }
        if end <= start {
            return Err(MarkError::Partition { ordinal: count + 1, expected: start + 1, observed: end });
        }
        at = end;
        count += 1;
    }
    if at == region.end {
        Ok(())
    } else {
        Err(MarkError::Partition { ordinal: count, expected: region.end, observed: at })
    }
}

/// The beginning of `text`: whole characters, at most `max` bytes.
pub(crate) fn head(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// A line's text as designators are read from it: inline markup and invisible characters
/// removed, NFC. What is before `at` is only read where it emphasises the beginning.
pub(crate) fn plain_line(raw: &str, at: usize) -> alloc::borrow::Cow<'_, str> {
    paragraph::emphasised(raw, at)
}

/// The kind that a line designates by a profile, as a heading or as a line of text.
pub(crate) fn line_designates<'p>(
    profile: &'p Profile,
    plain: &str,
    heading: bool,
    short: bool,
) -> Option<&'p str> {
    let found = designate::designate(profile, plain)?;
    (heading || paragraph::designates(profile, &found, short)).then_some(found.kind)
}

/// The kind that a line would designate, were it a heading.
pub(crate) fn line_kind<'p>(profile: &'p Profile, plain: &str) -> Option<&'p str> {
    designate::designate(profile, plain).map(|found| found.kind)
}

fn region_text(text: &str, region: Region) -> Result<&str, MarkError> {
    text.get(region.start..region.end).ok_or(MarkError::Region {
        start: region.start,
        end: region.end,
        bytes: text.len(),
    })
}

fn forbidden(candidates: &[Candidate], limits: &MarkLimits) -> Vec<Address> {
    let hit =
        |address: &Address| limits.forbidden_prefixes.iter().any(|prefix| address.is_at_or_below(prefix));
    candidates.iter().map(|c| &c.address).filter(|address| hit(address)).cloned().collect()
}

fn warning(code: &str, line: Option<usize>, message: impl ToString) -> Warning {
    Warning { code: code.into(), line, message: message.to_string() }
}

/// Line numbers of rising offsets in linear time. LF, CRLF and a bare CR each end a line.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, line: 1 }
    }

    /// The line of `offset`, from 1. Going back starts over.
    fn line_of(&mut self, offset: usize) -> usize {
        if offset < self.at {
            (self.at, self.line) = (0, 1);
        }
        let part = self.bytes.get(self.at..offset).unwrap_or_default();
        for (i, &b) in part.iter().enumerate() {
            let crlf = b == b'\r' && self.bytes.get(self.at + i + 1) == Some(&b'\n');
            self.line += usize::from(b == b'\n' || (b == b'\r' && !crlf));
        }
        self.at = offset.max(self.at);
        self.line
    }
}

#[cfg(test)]
mod tests;
