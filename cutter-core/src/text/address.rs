//! Canonical addresses: the place of a unit in one version of one document.
//!
//! ```text
//! address = doc *("/" seg)                ASCII, at most 512 bytes, sorted by bytes
//! doc     = [A-Z][A-Z0-9]* *("-" 1*[A-Z0-9])
//! seg     = kind ["-" label] ["~" ord]    ord = 2, 3, …
//! label   = part [".." part]
//! part    = atom *(("." / "-" / "+") atom)
//! atom    = 1*[a-z0-9]
//! ```
//!
//! `%`, `_` and `\` cannot occur, so a prefix needs no escape in SQL; but membership is
//! "equal, or starts with doc and a slash" ([`Address::is_within`]), never a bare prefix.
//! The order of addresses is by bytes; the order of a document is a unit's ordinal.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub mod numeral;
pub mod slug;
pub mod text;

/// The longest address, in bytes.
pub const MAX_ADDRESS_BYTES: usize = 512;
/// The longest document id, in bytes: it leaves room for the segments.
pub const MAX_DOCUMENT_ID_BYTES: usize = 100;

/// Kinds of segment (first) and the `unit_kind` each stands for (second). The list is
/// closed and versioned with the addresses; `unit_kind` words are a vocabulary.
pub const KINDS: &[(&str, &str)] = &[
    ("part", "part"),
    ("book", "book"),
    ("title", "title"),
    ("subtitle", "subtitle"),
    ("ch", "chapter"),
    ("subch", "subchapter"),
    ("div", "division"),
    ("sec", "section"),
    ("subsec", "subsection"),
    ("art", "article"),
    ("cl", "clause"),
    ("pt", "point"),
    ("subpt", "subpoint"),
    ("annex", "annex"),
    ("amend", "amendment"),
    ("recital", "recital"),
    ("recitals", "recital"),
    ("front", "front"),
    ("preamble", "preamble"),
    ("formula", "front"),
    ("toc", "front"),
    ("closing", "closing"),
    ("sign", "closing"),
    ("h", "heading"),
];

/// The `unit_kind` of an address kind, say `chapter` of `ch`.
#[must_use]
pub fn unit_kind_of(kind: &str) -> Option<&'static str> {
    KINDS.iter().find(|(k, _)| *k == kind).map(|(_, unit_kind)| *unit_kind)
}

/// A text that is not an address or a document id. Shown to whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not {what}: {rule}, observed {observed:?}")]
pub struct AddressError {
    /// `a document id` or `a canonical address`.
    pub what: &'static str,
    /// The broken rule, with what was expected.
    pub rule: &'static str,
    /// The text as given, cut to 120 characters.
    pub observed: String,
}

fn refuse(what: &'static str, rule: &'static str, observed: &str) -> AddressError {
    AddressError { what, rule, observed: observed.chars().take(120).collect() }
}

/// A document id, the first part of every address of the document, say `ICX-CONST`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentId(String);

/// A document id read as the prefix that its units share.
pub type DocumentPrefix = DocumentId;

impl DocumentId {
    /// Checks the grammar `[A-Z][A-Z0-9]*(-[A-Z0-9]+)*`, at most 100 bytes.
    ///
    /// # Errors
    /// [`AddressError`] naming the broken rule.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        check_document(text).map_err(|rule| refuse("a document id", rule, text))?;
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address of the document itself.
    #[must_use]
    pub fn address(&self) -> Address {
        Address(self.0.clone())
    }

    /// The address one segment below the document.
    ///
    /// # Errors
    /// [`AddressError`] where the segment breaks the grammar or the result is too long.
    pub fn child(&self, segment: &str) -> Result<Address, AddressError> {
        child(&self.0, segment)
    }

    /// True for `text` = this id, or `text` below it (`id/…`). `ICX-CONST2` is not
    /// below `ICX-CONST`.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        is_at_or_below(text, &self.0)
    }
}

fn is_at_or_below(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn check_document(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_DOCUMENT_ID_BYTES {
        return Err("expected at most 100 bytes");
    }
    if !text.starts_with(|c: char| c.is_ascii_uppercase()) {
        return Err("expected a capital letter A-Z first");
    }
    for part in text.split('-') {
        if part.is_empty() {
            return Err("expected a letter or digit on both sides of every hyphen");
        }
        if !part.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) {
            return Err("expected only A-Z, 0-9 and hyphens");
        }
    }
    Ok(())
}

/// A canonical address. `Ord` is the order of its bytes (D21), as `COLLATE "C"` in SQL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(String);

impl Address {
    /// Checks the grammar of the module's head.
    ///
    /// # Errors
    /// [`AddressError`] naming the broken rule.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let wrong = |rule| refuse("a canonical address", rule, text);
        if text.len() > MAX_ADDRESS_BYTES {
            return Err(wrong("expected at most 512 bytes"));
        }
        let mut parts = text.split('/');
        check_document(parts.next().unwrap_or_default()).map_err(wrong)?;
        for segment in parts {
            check_segment(segment).map_err(wrong)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The document id, as text.
    #[must_use]
    pub fn document(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The segments after the document id.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.0.split('/').skip(1).map(Segment::split)
    }

    /// How many segments stand after the document id: 0 for the document.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.bytes().filter(|&b| b == b'/').count()
    }

    /// The address one segment shorter; `None` for a document.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// The last segment; `None` for a document.
    #[must_use]
    pub fn last(&self) -> Option<Segment<'_>> {
        self.0.rsplit_once('/').map(|(_, segment)| Segment::split(segment))
    }

    /// True for the document's own address and everything below it, false for
    /// `ICX-CONST2` within `ICX-CONST`.
    #[must_use]
    pub fn is_within(&self, document: &DocumentId) -> bool {
        document.contains(&self.0)
    }

    /// True for `prefix` itself and everything below it: the test of forbidden prefixes (D19).
    #[must_use]
    pub fn is_at_or_below(&self, prefix: &Self) -> bool {
        is_at_or_below(&self.0, &prefix.0)
    }

    /// This address with one segment more.
    ///
    /// # Errors
    /// [`AddressError`] where the segment breaks the grammar or the result is too long.
    pub fn child(&self, segment: &str) -> Result<Self, AddressError> {
        child(&self.0, segment)
    }

    /// What people quote: `doc[/annex-n]/art-n`. `None` where the last segment's kind is
    /// not among `kinds`, or has no number. The caller checks that it is unique.
    #[must_use]
    pub fn citation(&self, kinds: &[String]) -> Option<Self> {
        let last = self.last()?;
        if last.label.is_none() || !kinds.iter().any(|kind| kind == last.kind) {
            return None;
        }
        let mut text = self.document().to_owned();
        let annex =
            if last.kind == "annex" { None } else { self.segments().filter(|s| s.kind == "annex").last() };
        for segment in annex.iter().chain(core::iter::once(&last)) {
            text.push('/');
            text.push_str(segment.kind);
            if let Some(label) = segment.label {
                text.push('-');
                text.push_str(label);
            }
        }
        Some(Self(text))
    }
}

fn child(parent: &str, segment: &str) -> Result<Address, AddressError> {
    let mut text = String::with_capacity(parent.len() + 1 + segment.len());
    text.push_str(parent);
    text.push('/');
    text.push_str(segment);
    let wrong = |rule| refuse("a canonical address", rule, &text);
    if text.len() > MAX_ADDRESS_BYTES {
        return Err(wrong("expected at most 512 bytes"));
    }
    check_segment(segment).map_err(wrong)?;
    Ok(Address(text))
}

/// One segment of an address, split at its seams. The text is checked already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// `art` of `art-5a~2`.
    pub kind: &'a str,
    /// `5a` of `art-5a~2`.
    pub label: Option<&'a str>,
    /// 2 of `art-5a~2`; 1 where none is written.
    pub occurrence: u32,
}

impl<'a> Segment<'a> {
    fn split(text: &'a str) -> Self {
        let (name, occurrence) = match text.split_once('~') {
            Some((name, ord)) => (name, ord.parse().unwrap_or(1)),
            None => (text, 1),
        };
        match name.split_once('-') {
            Some((kind, label)) => Self { kind, label: Some(label), occurrence },
            None => Self { kind: name, label: None, occurrence },
        }
    }
}

fn check_segment(text: &str) -> Result<(), &'static str> {
    let name = match text.split_once('~') {
        None => text,
        Some((name, ord)) => {
            let digits = !ord.is_empty() && ord.bytes().all(|b| b.is_ascii_digit());
            if !digits || ord.starts_with('0') || ord == "1" || ord.len() > 9 {
                return Err("expected a number from 2 up, without leading zeros, after ~");
            }
            name
        }
    };
    let (kind, label) = match name.split_once('-') {
        Some((kind, label)) => (kind, Some(label)),
        None => (name, None),
    };
    if unit_kind_of(kind).is_none() {
        return Err("expected a kind of the closed list (part, ch, sec, art, annex, h, …) in every segment");
    }
    label.map_or(Ok(()), check_label)
}

/// Checks `part [".." part]`.
pub(crate) fn check_label(label: &str) -> Result<(), &'static str> {
    let mut parts = label.splitn(2, "..");
    parts.try_for_each(|part| {
        let ok = part
            .split(['.', '-', '+'])
            .all(|a| !a.is_empty() && a.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        if ok { Ok(()) } else { Err("expected a label of a-z and 0-9 joined by single . - + or one ..") }
    })
}

macro_rules! text_newtype {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = AddressError;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Self::parse(s)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
text_newtype!(DocumentId);
text_newtype!(Address);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn the_published_examples_are_addresses() {
        for text in [
            "ICX-CONST/ch-1/art-2",
            "BGB/book-2/div-3/title-1/subtitle-2/ch-1/art-312e",
            "FR-CONST/title-15/art-88-1~2",
            "EE-VE/ch-2/sec-5/art-15+1",
            "NO-MRL/annex-1/sec-1/art-2",
            "VN-30-2020/ch-1/art-3/cl-1/pt-dd",
            "CN-XF/part-2/ch-3/art-120+1",
            "US-CONST/amend-14/sec-1",
            "RFC7235/sec-4.2",
            "RFC9114/h-introduction",
            "BGB/art-3..6",
            "X/front",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn broken_rules_are_named() {
        for (text, rule) in [
            ("", "capital letter"),
            ("icx", "capital letter"),
            ("1A", "capital letter"),
            ("ICX--A", "both sides"),
            ("ICX-", "both sides"),
            ("ICX_A", "only A-Z"),
            ("ICX/", "closed list"),
            ("ICX//art-1", "closed list"),
            ("ICX/verse-1", "closed list"),
            ("ICX/Art-1", "closed list"),
            ("ICX/art-", "label"),
            ("ICX/art-1.", "label"),
            ("ICX/art-1..2..3", "label"),
            ("ICX/art-%", "label"),
            ("ICX/art-1~1", "from 2 up"),
            ("ICX/art-1~02", "from 2 up"),
            ("ICX/art-1~", "from 2 up"),
            ("ICX/art-1~1234567890", "from 2 up"),
            ("ICX/art-é", "label"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(rule), "{text}: {error}");
        }
        let long = std::format!("X/h-{}", "a".repeat(509));
        assert!(Address::parse(&long).unwrap_err().rule.contains("512"));
        assert!(Address::parse(&long[..512]).is_ok());
        assert!(DocumentId::parse(&"A".repeat(101)).is_err());
        let nine = Address::parse("ICX/art-1~123456789").unwrap();
        assert_eq!(nine.last().unwrap().occurrence, 123_456_789);
    }

    #[test]
    fn a_child_keeps_the_rules_of_its_segment() {
        let parent = DocumentId::parse("ICX").unwrap();
        let first = parent.child("ch-1").unwrap();
        assert_eq!(first.child("art-2~2").unwrap().as_str(), "ICX/ch-1/art-2~2");
        for (segment, rule) in
            [("nonsense", "kind"), ("art-É", "label"), ("art-1~1", "from 2 up"), ("art-1/art-2", "label")]
        {
            for error in [parent.child(segment).unwrap_err(), first.child(segment).unwrap_err()] {
                assert!(error.to_string().contains(rule), "{segment}: {error}");
            }
        }
    }

    #[test]
    fn within_is_not_a_bare_prefix() {
        let doc = DocumentId::parse("ICX-CONST").unwrap();
        assert!(Address::parse("ICX-CONST").unwrap().is_within(&doc));
        assert!(Address::parse("ICX-CONST/art-1").unwrap().is_within(&doc));
        assert!(!Address::parse("ICX-CONST2/art-1").unwrap().is_within(&doc));
        assert!(!Address::parse("ICX-CONST-2").unwrap().is_within(&doc));
        let forbidden = Address::parse("ICX-CONST/art-4").unwrap();
        assert!(!Address::parse("ICX-CONST/art-44").unwrap().is_at_or_below(&forbidden));
        assert!(Address::parse("ICX-CONST/art-4/cl-1").unwrap().is_at_or_below(&forbidden));
    }

    #[test]
    fn segments_parent_and_citation() {
        let address = Address::parse("NO-MRL/annex-1/sec-1/art-2~3").unwrap();
        let kinds: Vec<&str> = address.segments().map(|s| s.kind).collect();
        assert_eq!(kinds, ["annex", "sec", "art"]);
        let last = address.last().unwrap();
        assert_eq!((last.label, last.occurrence), (Some("2"), 3));
        assert_eq!(address.parent().unwrap().as_str(), "NO-MRL/annex-1/sec-1");
        let quoted = [String::from("art")];
        assert_eq!(address.citation(&quoted).unwrap().as_str(), "NO-MRL/annex-1/art-2");
        assert!(address.parent().unwrap().citation(&quoted).is_none());
        assert_eq!(Address::parse("X").unwrap().parent(), None);
        assert_eq!(
            Address::parse("FR/title-1/art-88-1").unwrap().citation(&quoted).unwrap().as_str(),
            "FR/art-88-1"
        );
    }

    proptest! {
        #[test]
        fn parse_never_panics_and_round_trips(text in "[A-Z]{1,3}(-[A-Z0-9]{1,2})?(/(art|h|sec)(-[a-z0-9.+-]{1,6})?(~[0-9]{1,2})?){0,4}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(address.as_str(), text.as_str());
                prop_assert_eq!(address.segments().count(), address.depth());
                if let Some(parent) = address.parent() {
                    prop_assert!(Address::parse(parent.as_str()).is_ok());
                    prop_assert!(address.is_at_or_below(&parent));
                }
            }
        }

        #[test]
        fn order_is_by_bytes(a in "[A-Z]{1,2}/art-[a-z0-9]{1,3}", b in "[A-Z]{1,2}/art-[a-z0-9]{1,3}") {
            let (x, y) = (Address::parse(&a).unwrap(), Address::parse(&b).unwrap());
            prop_assert_eq!(x.cmp(&y), a.as_bytes().cmp(b.as_bytes()));
        }

        #[test]
        fn any_text_is_refused_or_kept(text in any::<String>()) {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(address.as_str(), text.as_str());
            }
        }
    }
}
