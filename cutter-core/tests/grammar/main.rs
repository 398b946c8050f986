//! Documents that are made at random from what each built-in profile says of its convention:
//! every unit that was planted is found, at its byte and with its address, and nothing else.
//! Then the same documents with one byte damaged: never a panic, always a partition or a refusal.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

mod damage;
mod document;
mod lists;
mod numeral;
mod tape;
mod xml;

use cutter_core::text::address::{Address, DocumentId};
use cutter_core::text::mark::{
    MarkContext, MarkError, MarkLimits, Marked, body_region, check_partition, marker_for,
};
use cutter_core::text::profile::Profile;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use document::{Planted, document};
use tape::Tape;

/// The conventions of laws.
pub const LAWS: [&str; 16] =
    ["de", "fr", "cz", "ee", "fi", "no", "nl", "vn", "vn-phapdien", "cn", "kr", "jp", "uy", "pe", "us", "en"];

/// Marks a document as its profile has it.
pub fn mark(profile: &Profile, source: &[u8]) -> Result<Marked, MarkError> {
    let (id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
    let context = MarkContext { document_id: &id, profile, limits: &limits };
    let region = body_region(source, profile)?;
    marker_for(profile).mark(source, region, &context)
}

/// The laws that every cut keeps.
pub fn lawful(profile: &Profile, source: &[u8], marked: &Marked) {
    let text = std::str::from_utf8(source).unwrap();
    check_partition(marked.region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
    let mut addresses: Vec<&Address> = marked.candidates.iter().map(|c| &c.address).collect();
    addresses.sort();
    assert!(addresses.windows(2).all(|pair| pair[0] != pair[1]), "an address twice");
    for unit in &marked.candidates {
        assert!(text.get(unit.start..unit.end).is_some(), "{unit:?}");
        assert!(unit.start <= unit.heading.start && unit.heading.end <= unit.end, "{unit:?}");
        assert!(unit.start <= unit.body_start && unit.body_start <= unit.end, "{unit:?}");
    }
    assert_eq!(mark(profile, source).as_ref(), Ok(marked), "two cuts differ");
}

/// Runs a property over random tapes; `GRAMMAR_CASES` times as many where that is set.
pub fn for_tapes(cases: u32, property: impl Fn(&[u8])) {
    let times = std::env::var("GRAMMAR_CASES").map_or(1, |times| times.parse().unwrap());
    let cases = cases * times;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let tapes = prop::collection::vec(any::<u8>(), 0..400);
    let found = runner.run(&tapes, |tape| {
        property(&tape);
        Ok(())
    });
    if let Err(error) = found {
        panic!("{error}");
    }
}

fn finds_all_planted(name: &str) {
    let profile = Profile::built_in(name).unwrap();
    for_tapes(200, |bytes| {
        let made = document(&profile, &mut Tape::new(bytes));
        let marked = mark(&profile, made.text.as_bytes()).unwrap();
        lawful(&profile, made.text.as_bytes(), &marked);
        let is_planted = |kind: &str| !matches!(kind, "front" | "document");
        let found: Vec<Planted> = (marked.candidates.iter())
            .filter(|unit| is_planted(&unit.unit_kind))
            .map(|unit| Planted { start: unit.heading.start, address: unit.address.to_string() })
            .collect();
        // A unit starts at its line; the first one holds the empty lines before it.
        let late = marked.candidates.iter().skip(1).find(|unit| unit.start != unit.heading.start);
        assert_eq!(late, None);
        assert_eq!(found, made.planted, "\n--- {name}\n{}\n---", made.text);
        assert!(marked.duplicates.is_empty());
    });
}

macro_rules! each_law {
    ($($test:ident $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            finds_all_planted($name);
        })*

        #[test]
        fn every_law_is_tested() {
            assert_eq!([$($name),*], LAWS);
        }
    };
}
each_law! {
    german "de", french "fr", czech "cz", estonian "ee", finnish "fi", norwegian "no", dutch "nl",
    vietnamese "vn", vietnamese_codified "vn-phapdien", chinese "cn", korean "kr", japanese "jp",
    uruguayan "uy", peruvian "pe", american "us", english "en",
}
