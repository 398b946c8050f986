//! What must hold for every input of the marking engine: the targets of `scripts/fuzz`.
//!
//! A target takes bytes and panics where a law is broken. It is a plain function, so that a
//! finding can be played again in a test.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use cutter_core::text::address::{Address, DocumentId};
use cutter_core::text::detect::Profiles;
use cutter_core::text::mark::{
    MarkContext, MarkError, MarkLimits, Marked, body_region, check_partition, marker_for,
};
use cutter_core::text::profile::{Format, Profile};

/// More warnings than these, and the last that says so, are not kept.
const MAX_WARNINGS: usize = 201;
/// Separates a profile from the text that it cuts; no byte of UTF-8.
const SEAM: u8 = 0xff;

/// Texts of every shape that a profile knows, for a start without real documents.
pub const TEXTS: &[&str] = &[
    "# Gesetz\n\n## § 1 Zweck\n\nText\n\n## §§ 3 bis 6 (weggefallen)\n\n## § 7a\n",
    "# Loi\n\n## Titre Ier\n\n### Article L111-1 A bis\n\nArticle 2 -\n\n**Article 3**\n",
    "# 法\n<!-- INFO END -->\n\n第一百二十条之一　为了\n\n```\n第二条 \n```\n",
    "# 민법\n## 제1장 총칙\n##### 제2조의2 (신의성실)\n1. 가\n2. 나\n\n부칙\n",
    "## VĂN BẢN\nChương I\n\nĐiều 1. Phạm vi\n1. a\na) b\nđ) c\n\n##### 440090000000000000100\nĐiều 44.4.NĐ.1. X\n",
    "## Article 14<sup>1</sup> {#a}\n\nr[a.b]\n\n### [Section 1.](x)\n\nSection\n-------\n",
    "1.  Introduction\n\n   Text\n\nFielding   Standards Track   [Page 1]\n\x0cRFC 1\n\nAppendix A.  More\n\n   Text\n",
    "=====\nTitle\n=====\n\nSection\n-------\n\n=== ===\na   b\n=== ===\n",
    "<akomaNtoso xmlns=\"http://docs.oasis-open.org/legaldocml/ns/akn/3.0\"><act><body><article eId=\"art_1\"><num>1</num></article></body></act></akomaNtoso>",
    "<lawDoc xmlns=\"http://schemas.gpo.gov/xml/uslm\"><main><section identifier=\"/us/1\"><num value=\"1\">§ 1.</num></section></main></lawDoc>",
    "<ACT><TITLE><TI><P>X</P></TI></TITLE><ARTICLE IDENTIFIER=\"001\"><TI.ART>Article 1</TI.ART></ARTICLE></ACT>",
];

fn profiles() -> &'static Profiles {
    static PROFILES: OnceLock<Profiles> = OnceLock::new();
    PROFILES.get_or_init(|| Profiles::built_in().expect("built-in profiles read"))
}

/// The two bytes before a text that choose the profile detected for it.
#[must_use]
pub fn head(text: &[u8]) -> [u8; 2] {
    let found = profiles().detect(text);
    let place = profiles().all().iter().position(|profile| profile.name == found.profile);
    [u8::try_from(place.unwrap_or(0)).unwrap_or(0), 0]
}

/// Marks a text: the first byte chooses the profile, the second how deep and where, the
/// others are the file.
///
/// # Panics
/// Where a law of marking is broken.
pub fn mark(input: &[u8]) {
    let [choice, how, text @ ..] = input else { return };
    let all = profiles().all();
    let mut profile = all[usize::from(*choice) % all.len()].clone();
    if how & 1 == 1 {
        profile.deepest = None;
    }
    if how & 2 == 2 {
        profile.depth = Some(2);
    }
    cut(text, &profile);
}

/// Detects the profile of a text and marks it with that one.
///
/// # Panics
/// Where a law of detection or marking is broken.
pub fn detect(text: &[u8]) {
    let found = profiles().detect(text);
    assert_eq!(found, profiles().detect(text), "two detections of one text differ");
    let profile = profiles().get(&found.profile).expect("a profile that exists");
    assert!(found.ranking.windows(2).all(|pair| pair[0].score >= pair[1].score), "ranking in order");
    assert!(!found.evidence.is_empty(), "a detection says why");
    cut(text, profile);
}

/// Reads a profile, alone or as fields laid over a built-in one, and cuts with it: the first
/// byte chooses the built-in one, then comes JSON, and after 0xff a text.
///
/// # Panics
/// Where a law of profiles or marking is broken.
pub fn profile(input: &[u8]) {
    let [choice, rest @ ..] = input else { return };
    let seam = rest.iter().position(|&b| b == SEAM).unwrap_or(rest.len());
    let (json, text) = (&rest[..seam], rest.get(seam + 1..).unwrap_or_default());
    if let Ok(profile) = Profile::from_json(json) {
        reads_back(&profile);
        cut(text, &profile);
    }
    let names: Vec<&str> = Profile::names().collect();
    let base = Profile::built_in_json(names[usize::from(*choice) % names.len()]).unwrap_or_default();
    let (Ok(mut whole), Ok(over)) = (
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(base),
        serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(json),
    ) else {
        return;
    };
    whole.extend(over);
    let bytes = serde_json::to_vec(&whole).expect("JSON");
    if let Ok(profile) = Profile::from_json(&bytes) {
        reads_back(&profile);
        cut(text, &profile);
    }
}

/// First inputs of [`profile`]: each built-in profile, and each of its fields over it.
#[must_use]
pub fn profile_seeds() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (i, name) in Profile::names().enumerate() {
        let choice = u8::try_from(i).unwrap_or(0);
        let json = Profile::built_in_json(name).unwrap_or_default();
        let text = TEXTS[i % TEXTS.len()];
        found.push([&[choice], json.as_bytes(), &[SEAM], text.as_bytes()].concat());
        let fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(json).expect("built-in profiles are JSON");
        for (j, (key, value)) in fields.into_iter().enumerate() {
            let one = serde_json::json!({ key: value }).to_string();
            let text = TEXTS[(i + j) % TEXTS.len()];
            found.push([&[choice], one.as_bytes(), &[SEAM], text.as_bytes()].concat());
        }
    }
    found
}

fn reads_back(profile: &Profile) {
    let json = serde_json::to_vec(profile).expect("JSON");
    assert_eq!(Profile::from_json(&json).as_ref(), Ok(profile), "a profile written is the profile read");
    assert!(profile.id().is_ok(), "a profile that was read has a digest");
}

/// Cuts a text twice and holds the result to every law.
///
/// # Panics
/// Where a law is broken.
pub fn cut(source: &[u8], profile: &Profile) {
    let document_id = DocumentId::parse("X").expect("a document id");
    let limits = MarkLimits {
        forbidden_prefixes: vec![Address::parse("X/art-2").expect("an address")],
        ..MarkLimits::default()
    };
    let context = MarkContext { document_id: &document_id, profile, limits: &limits };
    let run = || {
        let region = body_region(source, profile)?;
        assert!(region.start <= region.end && region.end <= source.len(), "a region of the file");
        marker_for(profile).mark(source, region, &context)
    };
    let first = run();
    assert_eq!(first, run(), "two cuts of one text differ");
    match first {
        Ok(marked) => laws(&marked, source),
        Err(MarkError::NotUtf8 { offset, byte, .. }) => {
            assert!(std::str::from_utf8(source).is_err(), "UTF-8 is no reason to refuse");
            assert_eq!(source.get(offset), Some(&byte), "the wrong byte stands where it is said to");
        }
        Err(MarkError::Xml { .. }) => assert_eq!(profile.format, Format::Xml, "XML is expected of XML alone"),
        // Divisions that nest deeply may need more than an address holds.
        Err(MarkError::Address { ref source, .. }) => {
            assert!(source.rule.contains("512"), "an address of wrong shape was built: {source}");
        }
        Err(error) => panic!("no such refusal here: {error}"),
    }
}

fn laws(marked: &Marked, source: &[u8]) {
    let text = std::str::from_utf8(source).expect("only UTF-8 is cut");
    check_partition(marked.region, marked.candidates.iter().map(|c| (c.start, c.end))).expect("a partition");
    let mut seen = BTreeSet::new();
    let mut numbered = Vec::new();
    for (i, unit) in marked.candidates.iter().enumerate() {
        assert_eq!(usize::try_from(unit.ordinal), Ok(i), "ordinals count");
        let address = unit.address.as_str();
        assert_eq!(Address::parse(address).as_ref(), Ok(&unit.address), "an address reads back");
        assert!(seen.insert(address), "{address} twice");
        assert!(address == "X" || address.starts_with("X/"), "{address} lies in the document");
        if unit.address.last().is_some_and(|last| last.occurrence > 1) {
            numbered.push((&unit.address, unit.ordinal));
        }
        for at in [unit.start, unit.end, unit.heading.start, unit.heading.end, unit.body_start] {
            assert!(text.is_char_boundary(at), "byte {at} of {address} is inside a character");
        }
        assert!(unit.start <= unit.heading.start && unit.heading.end <= unit.end, "{address}: {unit:?}");
        assert!(unit.heading.start <= unit.heading.end, "{address}: heading");
        assert!(unit.start <= unit.body_start && unit.body_start <= unit.end, "{address}: body {unit:?}");
    }
    let reported: Vec<_> = marked.duplicates.iter().map(|d| (&d.address, d.ordinal)).collect();
    assert_eq!(numbered, reported, "every ~n is reported, and nothing else");
    assert!(marked.duplicates.iter().all(|d| seen.contains(d.of.as_str())), "what is taken is there");
    let mut cited = BTreeSet::new();
    for (i, unit) in marked.candidates.iter().enumerate() {
        let Some(citation) = &unit.citation_address else { continue };
        assert!(cited.insert(citation), "{citation} is quoted for two units");
        let owner = marked.candidates.iter().position(|other| other.address == *citation);
        assert!(owner.is_none_or(|owner| owner == i), "{citation} is another unit's address");
    }
    assert!(marked.warnings.len() <= MAX_WARNINGS, "{} warnings", marked.warnings.len());
    for address in &marked.forbidden {
        assert!(seen.contains(address.as_str()), "{address} is forbidden and there");
    }
}
