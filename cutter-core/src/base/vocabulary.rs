//! Vocabularies of `unit_kind`, `section_type` and `publication_type`.
//!
//! They are stored in `dot_config` under `vocab.*`; a word that is not there fails
//! `IG_cutplan`. The snapshot that a plan was made with is part of its manifest digest.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::canonical::{CanonicalError, Writer};
use crate::base::digest::Digest;

/// The kinds of unit that ship by default.
pub const UNIT_KINDS: &[&str] = &[
    "document",
    "front",
    "preamble",
    "recital",
    "part",
    "book",
    "title",
    "subtitle",
    "chapter",
    "subchapter",
    "division",
    "section",
    "subsection",
    "article",
    "clause",
    "point",
    "subpoint",
    "annex",
    "amendment",
    "heading",
    "closing",
];
/// The section types that ship by default.
pub const SECTION_TYPES: &[&str] = &[
    "preface",
    "enacting_formula",
    "preamble",
    "definitions",
    "general",
    "substantive",
    "penal",
    "procedural",
    "transitional",
    "final",
    "repealed_placeholder",
    "annex",
    "form",
    "table",
    "toc",
    "signature",
    "note",
];
/// The publication types that ship by default.
pub const PUBLICATION_TYPES: &[&str] = &[
    "constitution",
    "code",
    "act",
    "ordinance",
    "decree",
    "regulation",
    "circular",
    "resolution",
    "decision",
    "treaty",
    "standard",
    "charter",
];

/// A snapshot of the three vocabularies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// What a unit is: `vocab.publication_type`.
    pub publication_type: BTreeSet<String>,
    /// What a unit's text does: `vocab.section_type`.
    pub section_type: BTreeSet<String>,
    /// What a unit is in the document's structure: `vocab.unit_kind`.
    pub unit_kind: BTreeSet<String>,
}

impl Default for Vocabulary {
    fn default() -> Self {
        let set = |words: &[&str]| words.iter().map(|&word| String::from(word)).collect();
        Self {
            publication_type: set(PUBLICATION_TYPES),
            section_type: set(SECTION_TYPES),
            unit_kind: set(UNIT_KINDS),
        }
    }
}

/// A word that a plan uses and a vocabulary lacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnknownWord {
    /// `unit_kind`, `section_type` or `publication_type`.
    pub vocabulary: String,
    /// The word.
    pub word: String,
}

impl Vocabulary {
    /// The sha256 of the snapshot's canonical JSON.
    ///
    /// # Errors
    /// Never for this type: sets of strings always have a canonical text.
    pub fn digest(&self) -> Result<Digest, CanonicalError> {
        let mut w = Writer::with_capacity(1024);
        self.write(&mut w);
        Ok(Digest::of(w.finish().as_bytes()))
    }

    /// Writes the snapshot as one canonical object.
    pub(crate) fn write(&self, w: &mut Writer) {
        w.begin_object();
        for (name, words) in [
            ("publication_type", &self.publication_type),
            ("section_type", &self.section_type),
            ("unit_kind", &self.unit_kind),
        ] {
            w.key(name);
            w.begin_array();
            for word in words {
                w.string(word);
            }
            w.end_array();
        }
        w.end_object();
    }

    /// The words among (vocabulary name, word) that are not known, each once, sorted. An
    /// unknown vocabulary name knows no word.
    pub fn unknown<'a>(&self, words: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<UnknownWord> {
        let missing: BTreeSet<(&str, &str)> =
            words.into_iter().filter(|(vocabulary, word)| !self.knows(vocabulary, word)).collect();
        missing
            .into_iter()
            .map(|(vocabulary, word)| UnknownWord { vocabulary: vocabulary.into(), word: word.into() })
            .collect()
    }

    fn knows(&self, vocabulary: &str, word: &str) -> bool {
        match vocabulary {
            "unit_kind" => self.unit_kind.contains(word),
            "section_type" => self.section_type.contains(word),
            "publication_type" => self.publication_type.contains(word),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_digest_and_unknown_words() {
        let mut vocabulary = Vocabulary::default();
        assert_eq!(vocabulary.unit_kind.len(), 21);
        assert_eq!(vocabulary.section_type.len(), 17);
        assert_eq!(vocabulary.publication_type.len(), 12);
        let before = vocabulary.digest().unwrap();
        assert_eq!(before, crate::base::canonical::digest_of(&vocabulary).unwrap());
        assert_eq!(before, Vocabulary::default().digest().unwrap());
        vocabulary.unit_kind.insert("rule".into());
        assert_ne!(before, vocabulary.digest().unwrap());
        let unknown = vocabulary.unknown([
            ("unit_kind", "rule"),
            ("unit_kind", "verse"),
            ("unit_kind", "verse"),
            ("section_type", "poem"),
            ("colour", "red"),
        ]);
        let words: Vec<&str> = unknown.iter().map(|u| u.word.as_str()).collect();
        assert_eq!(words, ["red", "poem", "verse"]);
    }
}
