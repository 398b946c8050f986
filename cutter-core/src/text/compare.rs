//! Two versions of one document, unit by unit: what stayed, changed, came, went, moved or got
//! another number.
//!
//! An address is a place and not an identity. Where an article is inserted and those after it
//! are counted anew, every old address still stands, with another unit at it. So bodies are
//! matched before places: a unit whose body stands under another number was renumbered, and the
//! place that it left is judged anew. What is equal too often to prove anything (empty bodies,
//! placeholders, boilerplate) is matched by its place, or within a run that moved as a whole.
//!
//! The result is a function of the two lists: no clock, no randomness, no floating point. The work
//! is linear in the texts and, but for sorting, in the number of units.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::text::plan::{CutPlan, PlanRow};

mod outline;
mod pairing;
mod sketch;
#[cfg(test)]
mod tests;

pub use outline::{Outline, OutlineLine};

/// One unit of a version, as far as a comparison looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitFact<'a> {
    /// Its canonical address.
    pub address: &'a str,
    /// What people quote, where unique.
    pub citation_address: Option<&'a str>,
    /// A word of the vocabulary `unit_kind`.
    pub unit_kind: &'a str,
    /// The first byte in its source.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// The sha256 of its bytes.
    pub content_hash: Digest,
    /// The sha256 of the bytes after its designator.
    pub body_hash: Digest,
    /// Its bytes, where they are known. Without them nothing is found to be similar.
    pub text: Option<&'a [u8]>,
}

impl<'a> UnitFact<'a> {
    /// A planned unit; `source` is the file that was planned.
    #[must_use]
    pub fn of_row(row: &'a PlanRow, source: &'a [u8]) -> Self {
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Self {
            address: row.canonical_address.as_str(),
            citation_address: row.citation_address.as_ref().map(|a| a.as_str()),
            unit_kind: &row.unit_kind,
            start: number(row.start),
            end: number(row.end),
            content_hash: row.content_hash,
            body_hash: row.body_hash,
            text: source.get(row.start..row.end),
        }
    }

    /// All units of a plan, in its order; `source` is the file that was planned.
    #[must_use]
    pub fn of_plan(plan: &'a CutPlan, source: &'a [u8]) -> Vec<Self> {
        plan.rows.iter().map(|row| Self::of_row(row, source)).collect()
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    fn last_segment(&self) -> &'a str {
        self.address.rsplit('/').next().unwrap_or(self.address)
    }
}

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The same address, the same bytes.
    Same,
    /// The same address, other bytes.
    Changed,
    /// Only in the new version.
    New,
    /// Only in the old version.
    Gone,
    /// The same number at another place.
    Moved,
    /// The same body under another number.
    Renumbered,
    /// A similar body at another place or under another number.
    MaybeRenumbered,
}

impl Class {
    /// Every class, in the order of summaries.
    pub const ALL: [Self; 7] = [
        Self::Same,
        Self::Changed,
        Self::New,
        Self::Gone,
        Self::Moved,
        Self::Renumbered,
        Self::MaybeRenumbered,
    ];

    /// The word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed => "changed",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Moved => "moved",
            Self::Renumbered => "renumbered",
            Self::MaybeRenumbered => "maybe_renumbered",
        }
    }

    /// The words for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::MaybeRenumbered => "possibly renumbered",
            other => other.as_str(),
        }
    }

    /// One character at the head of a line.
    #[must_use]
    pub const fn sign(self) -> char {
        match self {
            Self::Same => '=',
            Self::Changed => '~',
            Self::New => '+',
            Self::Gone => '-',
            Self::Moved => '>',
            Self::Renumbered => '#',
            Self::MaybeRenumbered => '?',
        }
    }
}

/// One unit of either version, or the two that are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What became of it.
    pub class: Class,
    /// Its index in the old list; `None` for a new one.
    pub old: Option<usize>,
    /// Its index in the new list; `None` for one that is gone.
    pub new: Option<usize>,
    /// Whether the bodies are equal. False where there is only one.
    pub same_body: bool,
    /// How much of the wording is common to both, in thousandths; 1000 where only layout or
    /// punctuation differ. `None` where there are not two different bodies with their texts.
    pub similarity: Option<u16>,
    /// It has another address only because the unit above it has.
    pub with_parent: bool,
}

/// How many units of each class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Units of the old version.
    pub old_units: usize,
    /// Units of the new version.
    pub new_units: usize,
    /// [`Class::Same`].
    pub same: usize,
    /// [`Class::Changed`].
    pub changed: usize,
    /// [`Class::New`].
    pub new: usize,
    /// [`Class::Gone`].
    pub gone: usize,
    /// [`Class::Moved`].
    pub moved: usize,
    /// How many of the moved ones only went with the unit above them.
    pub moved_with_parent: usize,
    /// [`Class::Renumbered`].
    pub renumbered: usize,
    /// [`Class::MaybeRenumbered`].
    pub maybe_renumbered: usize,
}

impl Summary {
    /// The number of a class.
    #[must_use]
    pub const fn of(&self, class: Class) -> usize {
        match class {
            Class::Same => self.same,
            Class::Changed => self.changed,
            Class::New => self.new,
            Class::Gone => self.gone,
            Class::Moved => self.moved,
            Class::Renumbered => self.renumbered,
            Class::MaybeRenumbered => self.maybe_renumbered,
        }
    }

    /// In one line: `3 same, 1 changed, …`, only what there is.
    #[must_use]
    pub fn words(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for class in Class::ALL {
            let n = self.of(class);
            if n > 0 {
                parts.push(format!("{n} {}", class.words()));
            }
            if class == Class::Moved && self.moved_with_parent > 0 {
                parts.push(format!("{} of them only with the unit above", self.moved_with_parent));
            }
        }
        if parts.is_empty() { "no units".into() } else { parts.join(", ") }
    }

    fn count(&mut self, entry: &Entry) {
        let of = match entry.class {
            Class::Same => &mut self.same,
            Class::Changed => &mut self.changed,
            Class::New => &mut self.new,
            Class::Gone => &mut self.gone,
            Class::Moved => &mut self.moved,
            Class::Renumbered => &mut self.renumbered,
            Class::MaybeRenumbered => &mut self.maybe_renumbered,
        };
        *of += 1;
        self.moved_with_parent += usize::from(entry.with_parent);
    }
}

/// Two versions side by side: every unit of both is in exactly one entry.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    old: &'a [UnitFact<'a>],
    new: &'a [UnitFact<'a>],
    entries: Vec<Entry>,
    summary: Summary,
    in_order: bool,
}

impl<'a> Comparison<'a> {
    /// Compares two versions of one document, each in document order.
    #[must_use]
    pub fn between(old: &'a [UnitFact<'a>], new: &'a [UnitFact<'a>]) -> Self {
        let entries = pairing::entries(old, new);
        let mut summary = Summary { old_units: old.len(), new_units: new.len(), ..Summary::default() };
        entries.iter().for_each(|entry| summary.count(entry));
        let mut last = None;
        let in_order = (entries.iter())
            .filter(|e| matches!(e.class, Class::Same | Class::Changed))
            .all(|e| e.old > core::mem::replace(&mut last, e.old));
        Self { old, new, entries, summary, in_order }
    }

    /// All units, in the new version's order; what is gone follows what stood before it.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The unit of the old version.
    #[must_use]
    pub fn old_of(&self, entry: &Entry) -> Option<&UnitFact<'a>> {
        entry.old.and_then(|i| self.old.get(i))
    }

    /// The unit of the new version.
    #[must_use]
    pub fn new_of(&self, entry: &Entry) -> Option<&UnitFact<'a>> {
        entry.new.and_then(|j| self.new.get(j))
    }

    /// The counts.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Whether the units that kept their addresses kept their order too.
    #[must_use]
    pub const fn in_order(&self) -> bool {
        self.in_order
    }

    /// Whether both versions have the same units with the same bytes in the same order.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.in_order && self.summary.same == self.entries.len()
    }
}
