//! The rules that a profile is made of.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::is_default;

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
    /// `end_before` counts only where a line before it begins with this: what follows repeats
    /// the text, or is the text itself. Empty: always.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub end_needs: String,
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
    /// At the same level or any deeper one.
    Deeper,
    /// At any level: the title may be shallower than its number.
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
    /// What stands before the number where the word follows it: `第` of `第一条`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// With the number before the word, a title may follow: `1. peatükk ÜLDSÄTTED`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub titled: bool,
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
    /// `L111-1`, `R*311-1`, `44.4.PL.3`: digits with letters before or between them.
    Code,
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

/// What a heading without a designator ends, for [`Nesting::Rank`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainHeadings {
    /// Nothing: it lies in the designated heading before it, whatever the levels.
    #[default]
    Inside,
    /// The article before it, unless it is deeper than that; the divisions go on.
    Beside,
    /// Everything of its level or deeper, divisions too.
    Level,
}

/// Designators at the start of a line that is no heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paragraphs {
    /// Which kinds of designators.
    pub kinds: Vec<String>,
    /// The line before must be empty or a heading.
    pub blank_before: bool,
    /// What may follow the number.
    pub after: Vec<After>,
    /// A longer line is text, in bytes; 0 for any length. For kinds that are not cited.
    pub max_bytes: u32,
    /// A number that does not go on from the one before is a reference, not a designator.
    pub sequence: bool,
    /// Also where the designator is glued to the end of the sentence before it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub glued: bool,
}

/// What may follow a number in a paragraph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum After {
    /// The end of the line.
    End,
    /// `,`, in texts where a sentence may follow an article's number.
    Comma,
    /// `.`, `:`, `)`, `-` or a dash.
    Mark,
    /// A blank of any width and any text.
    Blank,
    /// A blank and a capital letter.
    Capital,
}

/// Paragraphs of articles that begin with a bare number or letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enumerator {
    /// The kind in addresses, say `cl`.
    pub kind: String,
    /// Deeper than the kinds of lower rank.
    pub rank: u32,
    /// What stands before the number, say `(`.
    pub open: String,
    /// How the number is written.
    pub numeral: Numeral,
    /// What follows the number, one of these.
    pub close: Vec<String>,
    /// The letters in order, as printed, where they are not a to z of either case:
    /// `abcdđeghiklmnopqrstuvxy`. With blanks between them where one has two signs: `g h ch i`.
    /// Of Roman numerals the signs, where they are not of either case: `ivxlc`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub letters: String,
    /// What people call it, lower case: `khoản`, `absatz`. A word for `--depth`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The first number that is printed, where it is not 1: a Japanese article's first 項 bears
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// The line before must be empty, so that a line that wraps before a number is no item.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blank_before: bool,
    /// The items of one list stand at one indentation, which tells lists inside a list apart
    /// where all are numbered alike.
    #[serde(default, skip_serializing_if = "is_default")]
    pub aligned: bool,
    /// The first item is the first text of its article: with a sentence before it, the list is
    /// of the next deeper kind.
    #[serde(default, skip_serializing_if = "is_default")]
    pub leads: bool,
    /// Begins only where no other list of its rank, or of a deeper one, is open: what comes inside
    /// another list is of the next deeper kind, whichever way the two are numbered. Nor right
    /// inside a list that is numbered alike, which it begins anew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sole: bool,
    /// The number of the unit around, with a full stop, stands before it: `3.1` and `3.2` of
    /// Article 3.
    #[serde(default, skip_serializing_if = "is_default")]
    pub under: bool,
}

/// The kind of headings that begin with a bare numeral and a full stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BareNumeral {
    /// How it is written.
    pub numeral: Numeral,
    /// The kind in addresses.
    pub kind: String,
    /// Its rank.
    pub rank: u32,
}

/// The `publication_type` of documents with a certain title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicationRule {
    /// Lower case; anywhere in the title.
    pub title: String,
    /// The `publication_type`.
    pub publication_type: String,
}

/// How documents of a convention are recognised, beside its designators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detection {
    /// Frequent words of the language, lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Letters of the script or the language.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub letters: String,
    /// Beginnings of lines that only this convention has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}
