//! Profiles: how one convention of documents is cut, as data.
//!
//! A profile says where the body lies, which words and numbers designate a division, how
//! divisions nest and which of them are cut. It is a JSON file with a schema number, a
//! name and a version; the sha256 of its canonical form is among the pins of a run, so two
//! runs under one digest cut alike. Built-in profiles live in `profile/`.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::canonical::{CanonicalError, ParseStrictError, digest_of, parse_strict};
use crate::base::digest::Digest;
use crate::text::address::unit_kind_of;

mod depth;
mod place;
mod rules;
mod xml;

pub use depth::NoSuchKind;

pub use rules::{
    After, BareNumeral, Designator, Detection as DetectionRules, Enumerator, FoldTitles, Format, Nesting,
    NumberSide, Numeral, Paragraphs, PlainHeadings, PublicationRule, RegionRules, SetextRules, TitleRule,
};

pub use xml::{XmlMatch, XmlPublicationType, XmlRoot, XmlRules, XmlSectionType, XmlSource, XmlUnit};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The schema number that this build reads.
pub const PROFILE_SCHEMA: u32 = 1;

/// What each field of a profile means, as Markdown: made of the documentation of the fields.
pub const PROFILE_SCHEMA_PAGE: &str = include_str!("profile/schema.md");

/// The built-in profiles, by name.
const BUILT_IN: [(&str, &str); 23] = [
    ("markdown", include_str!("profile/markdown.json")),
    ("de", include_str!("profile/de.json")),
    ("fr", include_str!("profile/fr.json")),
    ("cz", include_str!("profile/cz.json")),
    ("ee", include_str!("profile/ee.json")),
    ("fi", include_str!("profile/fi.json")),
    ("no", include_str!("profile/no.json")),
    ("nl", include_str!("profile/nl.json")),
    ("vn", include_str!("profile/vn.json")),
    ("vn-phapdien", include_str!("profile/vn-phapdien.json")),
    ("cn", include_str!("profile/cn.json")),
    ("kr", include_str!("profile/kr.json")),
    ("jp", include_str!("profile/jp.json")),
    ("uy", include_str!("profile/uy.json")),
    ("pe", include_str!("profile/pe.json")),
    ("en", include_str!("profile/en.json")),
    ("us", include_str!("profile/us.json")),
    ("rfc", include_str!("profile/rfc.json")),
    ("rfc-text", include_str!("profile/rfc-text.json")),
    ("rst", include_str!("profile/rst.json")),
    ("akn", include_str!("profile/akn.json")),
    ("uslm", include_str!("profile/uslm.json")),
    ("formex", include_str!("profile/formex.json")),
];

/// How one convention is cut. See the fields; `profile/markdown.json` is an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`PROFILE_SCHEMA`].
    pub schema: u32,
    /// `[a-z][a-z0-9-]*`, unique among profiles.
    pub name: String,
    /// Counted up with every change of what is cut.
    pub version: u32,
    /// One sentence for people.
    pub description: String,
    /// Language tags of the designators.
    pub languages: Vec<String>,
    /// The `publication_type` of documents of this convention.
    pub publication_type: String,
    /// How the text is written: what a heading looks like.
    #[serde(default, skip_serializing_if = "is_default")]
    pub format: Format,
    /// Where the body lies.
    pub region: RegionRules,
    /// Which underlined paragraphs are headings.
    pub setext: SetextRules,
    /// What makes a heading the child of another.
    pub nesting: Nesting,
    /// Whether a heading right after a number heading is that one's title.
    pub fold_titles: FoldTitles,
    /// `##Title` without a blank is a heading too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loose_headings: bool,
    /// A heading that is only a long row of digits is the name of the designator line after it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub id_headings: bool,
    /// What a heading without a designator ends, for [`Nesting::Rank`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub plain_headings: PlainHeadings,
    /// Designators that stand at the start of a line outside of headings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paragraphs: Option<Paragraphs>,
    /// Numbered paragraphs within articles: clauses and points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enumerators: Vec<Enumerator>,
    /// The deepest kind that is cut; what designates deeper kinds stays text, and so do
    /// plain headings inside. `null` cuts all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deepest: Option<String>,
    /// Texts before a designator that are not part of it: `(XXXX)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<String>,
    /// What may be glued to a number and says nothing: `1er`, `2º`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ordinal_suffixes: Vec<String>,
    /// One letter behind a blank belongs to the number: `§ 120 a`, `Article L100-1 A`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spaced_letters: bool,
    /// Letters that may stand before a number and belong to it: `L111-1`, `R*311-1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code_letters: String,
    /// What stands between a number's designator and an inserted number: `之`, `의`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insert_words: Vec<String>,
    /// Kinds of headings that begin with a Roman numeral or a letter: `II. Der Bund`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bare_numerals: Vec<BareNumeral>,
    /// What an article says that is no more in force, lower case: `weggefallen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repealed_words: Vec<String>,
    /// Beginnings of lines that hold a name which the text gives the unit: `r[` of `r[rule.id]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alias_marks: Vec<String>,
    /// The `publication_type` by the document's title, the first match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publication_titles: Vec<PublicationRule>,
    /// How a document of this convention is recognised.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detection: DetectionRules,
    /// Cut only so many levels below the document; deeper headings stay in their parent's
    /// unit. `null` cuts all.
    pub depth: Option<u32>,
    /// The kind of a heading that begins with a decimal number (`4.1 Scope`); `null`
    /// leaves such numbers in the slug.
    pub decimal_kind: Option<String>,
    /// Designator words that announce a range: `Articles 3-6` is `art-3..6`.
    pub plural_words: Vec<String>,
    /// Words between the ends of a range after a plural word.
    pub range_words: Vec<String>,
    /// Words that belong to the number before them: `5 bis` is `5-bis`.
    pub suffix_words: Vec<String>,
    /// Number words, lower case, and their digits.
    pub number_words: BTreeMap<String, String>,
    /// Address kinds that are quoted without the divisions above them.
    pub citation_kinds: Vec<String>,
    /// The words that designate a division.
    pub designators: Vec<Designator>,
    /// The `section_type` where no rule below says another.
    pub default_section_type: String,
    /// The `section_type` by address kind (`document` for the document's own unit).
    pub kind_section_types: BTreeMap<String, String>,
    /// The `section_type` by title, the first match wins.
    pub title_section_types: Vec<TitleRule>,
    /// Which elements are units; for [`Format::Xml`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xml: Option<XmlRules>,
}

/// Why a profile was refused. Shown to its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Not strict JSON.
    #[error("profile is {0}")]
    Json(#[from] ParseStrictError),
    /// JSON of another shape.
    #[error("profile{}{field}: {reason}", if field.is_empty() { "" } else { " field " })]
    Shape {
        /// Which field, as `designators[3].rank`; empty for the whole.
        field: String,
        /// What was expected there, and observed.
        reason: String,
    },
    /// A value that no cut can use.
    #[error("profile field {field}: expected {expected}, observed {observed:?}")]
    Value {
        /// The field.
        field: &'static str,
        /// What was expected.
        expected: &'static str,
        /// What stands there.
        observed: String,
    },
}

/// A profile's identity, as pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileId {
    /// The profile's name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// The sha256 of its canonical JSON.
    pub digest: Digest,
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// [`ProfileError`] naming the place, the field and what was expected.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ProfileError> {
        let value = parse_strict(bytes)?;
        let profile: Self = serde_json::from_value(value.clone()).map_err(|e| {
            let reason = e.to_string();
            ProfileError::Shape { field: place::of(&value, &reason), reason }
        })?;
        profile.check()?;
        Ok(profile)
    }

    /// The built-in profile of that name; see [`Profile::names`].
    ///
    /// # Errors
    /// [`ProfileError`] where there is none of that name.
    pub fn built_in(name: &str) -> Result<Self, ProfileError> {
        match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            Some((_, json)) => Self::from_json(json.as_bytes()),
            None => Err(ProfileError::Value {
                field: "name",
                expected: "the name of a built-in profile, or a path",
                observed: name.into(),
            }),
        }
    }

    /// The names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The JSON of the built-in profile of that name, as its author wrote it.
    #[must_use]
    pub fn built_in_json(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, json)| *json)
    }

    /// Name, version and digest.
    ///
    /// # Errors
    /// Never for a profile that was read: it holds no floats.
    pub fn id(&self) -> Result<ProfileId, CanonicalError> {
        Ok(ProfileId { name: self.name.clone(), version: self.version, digest: digest_of(self)? })
    }

    /// The rank of a kind: the lowest of its designators and enumerators; the highest there
    /// is where it has none.
    #[must_use]
    pub fn rank_of(&self, kind: &str) -> u32 {
        let words = self.designators.iter().filter(|d| d.kind == kind).map(|d| d.rank);
        let bare = self.bare_numerals.iter().filter(|b| b.kind == kind).map(|b| b.rank);
        let counted = self.enumerators.iter().filter(|e| e.kind == kind).map(|e| e.rank);
        words.chain(bare).chain(counted).min().unwrap_or(u32::MAX)
    }

    /// The rank down to which a cut to `kind` goes: the highest of its enumerators where lists of
    /// the kind lie in each other, else [`Profile::rank_of`].
    #[must_use]
    pub fn deepest_rank_of(&self, kind: &str) -> u32 {
        let counted = self.enumerators.iter().filter(|e| e.kind == kind).map(|e| e.rank);
        counted.max().unwrap_or(0).max(self.rank_of(kind))
    }

    fn check(&self) -> Result<(), ProfileError> {
        let wrong = |field, expected, observed: &str| {
            Err(ProfileError::Value { field, expected, observed: observed.into() })
        };
        if self.schema != PROFILE_SCHEMA {
            return wrong("schema", "1", &self.schema.to_string());
        }
        let named = self.name.starts_with(|c: char| c.is_ascii_lowercase())
            && self.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !named {
            return wrong("name", "[a-z][a-z0-9-]*", &self.name);
        }
        let kinds = self.citation_kinds.iter().chain(&self.decimal_kind);
        if let Some(kind) = kinds.into_iter().find(|kind| unit_kind_of(kind).is_none()) {
            return wrong("citation_kinds or decimal_kind", "an address kind", kind);
        }
        let enumerators = self.enumerators.iter().map(|rule| &rule.kind);
        let bare = self.bare_numerals.iter().map(|rule| &rule.kind);
        let paragraphs = self.paragraphs.iter().flat_map(|rules| &rules.kinds);
        let others = enumerators.chain(bare).chain(paragraphs).chain(&self.deepest);
        if let Some(kind) = others.into_iter().find(|kind| unit_kind_of(kind).is_none()) {
            return wrong("enumerators, bare_numerals, paragraphs or deepest", "an address kind", kind);
        }
        if let Some(kind) =
            self.kind_section_types.keys().find(|k| *k != "document" && unit_kind_of(k).is_none())
        {
            return wrong("kind_section_types", "address kinds or document as keys", kind);
        }
        for designator in &self.designators {
            if unit_kind_of(&designator.kind).is_none() {
                return wrong("designators.kind", "an address kind", &designator.kind);
            }
            if designator.words.is_empty() {
                return wrong("designators.words", "at least one word", &designator.kind);
            }
            if !designator.alone && (designator.number.is_empty() || designator.numerals.is_empty()) {
                return wrong("designators.number", "a side and a numeral, or alone", &designator.kind);
            }
        }
        let lower = (self.designators.iter().flat_map(|d| &d.words))
            .chain(self.number_words.keys())
            .chain(self.plural_words.iter().chain(&self.range_words).chain(&self.suffix_words))
            .chain(self.title_section_types.iter().map(|rule| &rule.title))
            .chain(self.enumerators.iter().flat_map(|rule| &rule.names));
        for word in lower {
            if word.is_empty() || *word != word.to_lowercase() {
                return wrong("a word list", "words in lower case", word);
            }
        }
        for digits in self.number_words.values() {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase()) {
                return wrong("number_words", "digits or small letters as values", digits);
            }
        }
        match (self.format, &self.xml) {
            (Format::Xml, None) => wrong("xml", "the rules of an XML format", "none"),
            (Format::Xml, Some(rules)) => rules.check(),
            (_, Some(_)) => wrong("xml", "no rules for XML where format is not xml", "some"),
            (_, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::vocabulary::Vocabulary;

    #[test]
    fn every_built_in_profile_reads_and_uses_known_words() {
        let words = Vocabulary::default();
        for name in Profile::names() {
            let profile = Profile::built_in(name).unwrap();
            assert_eq!(profile.name, name);
            assert_eq!(profile.id().unwrap(), Profile::built_in(name).unwrap().id().unwrap());
            let types = profile.kind_section_types.values().chain([&profile.default_section_type]);
            let titles = profile.title_section_types.iter().map(|rule| &rule.section_type);
            let unknown = words.unknown(types.chain(titles).map(|word| ("section_type", word.as_str())));
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
            assert!(words.publication_type.contains(&profile.publication_type), "{name}");
        }
        assert!(Profile::built_in("nothing").is_err());
    }

    #[test]
    fn every_change_changes_the_digest() {
        let profile = Profile::built_in("markdown").unwrap();
        let mut other = profile.clone();
        other.depth = Some(1);
        assert_ne!(profile.id().unwrap().digest, other.id().unwrap().digest);
    }

    #[test]
    fn errors_name_the_field() {
        let edit = |from: &str, to: &str| {
            let markdown = Profile::built_in_json("markdown").unwrap();
            assert!(markdown.contains(from), "{from}");
            Profile::from_json(markdown.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
        };
        for (from, to, want) in [
            ("\"schema\": 1", "\"schema\": 2", "field schema: expected 1"),
            ("\"name\": \"markdown\"", "\"name\": \"Mark Down\"", "[a-z][a-z0-9-]*"),
            ("\"version\": 2", "\"version\": 2.5", "float"),
            ("\"version\": 2", "\"version\": 2, \"version\": 2", "duplicate key"),
            ("\"version\": 2", "\"version\": 2, \"colour\": 2", "colour"),
            ("\"nesting\": \"level\"", "\"nesting\": \"size\"", "size"),
            ("\"kind\": \"annex\"", "\"kind\": \"verse\"", "an address kind"),
            ("\"annex\", \"annexes\"", "\"Annex\", \"annexes\"", "lower case"),
            ("\"decimal_kind\": \"sec\"", "\"decimal_kind\": \"x\"", "an address kind"),
        ] {
            let error = edit(from, to);
            assert!(error.contains(want), "{from}: {error}");
        }
    }
}
