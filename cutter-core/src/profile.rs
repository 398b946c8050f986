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

use crate::address::unit_kind_of;
use crate::canonical::{CanonicalError, ParseStrictError, digest_of, parse_strict};
use crate::digest::Digest;

mod xml;

pub use xml::{
    XML_PROFILES, XmlMatch, XmlPublicationType, XmlRoot, XmlRules, XmlSectionType, XmlSource, XmlUnit,
};

/// The schema number that this build reads.
pub const PROFILE_SCHEMA: u32 = 1;

const MARKDOWN: &str = include_str!("profile/markdown.json");
const AKN: &str = include_str!("profile/akn.json");
const USLM: &str = include_str!("profile/uslm.json");
const FORMEX: &str = include_str!("profile/formex.json");

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

/// How a text is written. Decides what may be a heading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Markdown, as CommonMark defines its blocks.
    #[default]
    Markdown,
    /// Plain text in pages: headings stand flush left, numbered or between empty lines.
    Text,
    /// Titles underlined (and perhaps overlined) with a row of one punctuation mark.
    Underlined,
    /// XML: units are elements (Akoma Ntoso, USLM, Formex).
    Xml,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Where the body lies. Lines are compared without white space at their ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionRules {
    /// Skip YAML front matter at the very start of the file.
    pub front_matter: bool,
    /// The body starts after the first line that equals one of these.
    pub start_after: Vec<String>,
    /// The body ends before the first such line after its start.
    pub end_before: Vec<String>,
}

/// Which underlined paragraphs are headings. Rulers in forms and tables underline
/// paragraphs that are none, so sizes are bounded; a heading also needs a letter or digit,
/// and no line of it may start with `|` or hold a tab or three blanks between words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetextRules {
    /// False: no underlined paragraph is a heading.
    pub accept: bool,
    /// The most lines above the underline.
    pub max_lines: u32,
    /// The most bytes above the underline.
    pub max_bytes: u32,
    /// The shortest underline, in characters.
    pub min_underline: u32,
    /// How much longer than the title an underline may be, in bytes.
    pub max_overhang: u32,
}

/// What makes a heading the child of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nesting {
    /// The heading's level.
    Level,
    /// The designator's rank; headings without a designator nest by level below the
    /// designated heading before them.
    Rank,
}

/// Whether a heading right after a number heading without text is that one's title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoldTitles {
    /// Never.
    None,
    /// At the same level, or alone one level deeper.
    Same,
    /// At any level.
    Any,
}

/// Words that designate one kind of division.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Designator {
    /// The kind in addresses, say `art`.
    pub kind: String,
    /// The words, lower case: `article`, `art.`, `§`.
    pub words: Vec<String>,
    /// How its numbers are written.
    pub numerals: Vec<Numeral>,
    /// On which side of the word the number stands.
    pub number: Vec<NumberSide>,
    /// The word alone, without a number, is a designator too (`Preamble`, `Annex`).
    pub alone: bool,
    /// Lower ranks contain higher ones, for [`Nesting::Rank`].
    pub rank: u32,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Numeral {
    /// `12`, `4.1`, `5a`, full-width digits.
    Digits,
    /// `XIV`.
    Roman,
    /// One capital letter.
    Letter,
    /// A word of `number_words`.
    Word,
    /// `一百二十`.
    Cjk,
}

/// On which side of the word the number stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumberSide {
    /// `Article 5`.
    After,
    /// `First Amendment`, `1. luku`.
    Before,
}

/// The `section_type` of units with a certain title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TitleRule {
    /// Words, lower case.
    pub title: String,
    /// True: the whole title, brackets aside; false: anywhere in it, as whole words.
    pub whole: bool,
    /// The `section_type`.
    pub section_type: String,
}

/// Why a profile was refused. Shown to its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Not strict JSON.
    #[error("profile is {0}")]
    Json(#[from] ParseStrictError),
    /// JSON of another shape.
    #[error("profile has a wrong shape: {reason}")]
    Shape {
        /// Which field, and what was expected.
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
        let profile: Self =
            serde_json::from_value(value).map_err(|e| ProfileError::Shape { reason: e.to_string() })?;
        profile.check()?;
        Ok(profile)
    }

    /// The built-in profile of that name: `markdown`, or `akn`, `uslm` and `formex` for XML.
    ///
    /// # Errors
    /// [`ProfileError`] where there is none of that name.
    pub fn built_in(name: &str) -> Result<Self, ProfileError> {
        match name {
            "markdown" => Self::from_json(MARKDOWN.as_bytes()),
            "akn" => Self::from_json(AKN.as_bytes()),
            "uslm" => Self::from_json(USLM.as_bytes()),
            "formex" => Self::from_json(FORMEX.as_bytes()),
            _ => Err(ProfileError::Value {
                field: "name",
                expected: "a built-in profile: markdown, akn, uslm or formex",
                observed: name.into(),
            }),
        }
    }

    /// Name, version and digest.
    ///
    /// # Errors
    /// Never for a profile that was read: it holds no floats.
    pub fn id(&self) -> Result<ProfileId, CanonicalError> {
        Ok(ProfileId { name: self.name.clone(), version: self.version, digest: digest_of(self)? })
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
            .chain(self.title_section_types.iter().map(|rule| &rule.title));
        for word in lower {
            if word.is_empty() || *word != word.to_lowercase() {
                return wrong("a word list", "words in lower case", word);
            }
        }
        for digits in self.number_words.values() {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return wrong("number_words", "digits as values", digits);
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
    use crate::vocabulary::Vocabulary;

    #[test]
    fn the_built_in_profile_reads_and_uses_known_words() {
        let profile = Profile::built_in("markdown").unwrap();
        assert_eq!(profile.id().unwrap(), Profile::built_in("markdown").unwrap().id().unwrap());
        let words = Vocabulary::default();
        let types = profile.kind_section_types.values().chain([&profile.default_section_type]);
        let titles = profile.title_section_types.iter().map(|rule| &rule.section_type);
        let unknown = words.unknown(types.chain(titles).map(|word| ("section_type", word.as_str())));
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(words.publication_type.contains(&profile.publication_type));
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
            assert!(MARKDOWN.contains(from), "{from}");
            Profile::from_json(MARKDOWN.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
        };
        for (from, to, want) in [
            ("\"schema\": 1", "\"schema\": 2", "field schema: expected 1"),
            ("\"name\": \"markdown\"", "\"name\": \"Mark Down\"", "[a-z][a-z0-9-]*"),
            ("\"version\": 1", "\"version\": 1.5", "float"),
            ("\"version\": 1", "\"version\": 1, \"version\": 2", "duplicate key"),
            ("\"version\": 1", "\"version\": 1, \"colour\": 2", "colour"),
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
