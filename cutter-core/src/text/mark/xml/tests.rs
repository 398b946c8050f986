//! Units, names, refusals and laws of XML documents written for these tests.

use super::super::{check_partition, forbidden};
use super::*;
use crate::base::vocabulary::Vocabulary;
use crate::text::address::{Address, DocumentId};
use crate::text::mark::{Candidate, MarkLimits};
use crate::text::plan::{CutPlan, PlanInput};
use crate::text::profile::{Format, Profile};
use alloc::string::ToString;
use alloc::vec::Vec;

mod laws;

const AKN: &str = include_str!("tests/small.akn.xml");
const USLM: &str = include_str!("tests/small.uslm.xml");
const FORMEX: &str = include_str!("tests/small.formex.xml");
const SAMPLES: [(&str, &str); 3] = [("akn", AKN), ("uslm", USLM), ("formex", FORMEX)];

fn mark_as(profile: &str, text: &str, change: impl FnOnce(&mut Profile)) -> Result<Marked, MarkError> {
    let mut profile = Profile::built_in(profile).unwrap();
    change(&mut profile);
    let (document_id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
    let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
    let region = Region { start: 0, end: text.len() };
    let marked = XmlMarker.mark(text.as_bytes(), region, &context)?;
    lawful(text, &marked);
    Ok(marked)
}

/// The law of the cut, and what goes with it.
fn lawful(text: &str, marked: &Marked) {
    check_partition(Region { start: 0, end: text.len() }, marked.candidates.iter().map(|c| (c.start, c.end)))
        .unwrap();
    let mut addresses: Vec<&Address> = marked.candidates.iter().map(|c| &c.address).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), marked.candidates.len());
    for (i, c) in marked.candidates.iter().enumerate() {
        assert_eq!(usize::try_from(c.ordinal).unwrap(), i);
        assert_eq!(Address::parse(c.address.as_str()).as_ref(), Ok(&c.address));
        assert!(i == 0 || text[c.start..].starts_with('<'), "{}", c.address);
        assert!(c.start <= c.heading.start && c.heading.end <= c.end, "{}", c.address);
        assert!(c.start <= c.body_start && c.body_start <= c.end && text.is_char_boundary(c.body_start));
        let elsewhere =
            |a: &Address| marked.candidates.iter().any(|o| o.address == *a && o.ordinal != c.ordinal);
        assert!(c.citation_address.as_ref().is_none_or(|a| !elsewhere(a)), "{}", c.address);
    }
}

fn names(marked: &Marked) -> Vec<&str> {
    marked.candidates.iter().map(|c| &c.address.as_str()[2..]).collect()
}

fn unit<'a>(marked: &'a Marked, address: &str) -> &'a Candidate {
    marked.candidates.iter().find(|c| c.address.as_str()[2..] == *address).unwrap()
}

fn refusal(profile: &str, text: &str) -> String {
    mark_as(profile, text, |_| ()).unwrap_err().to_string()
}

/// A body inside the frame of an Akoma Ntoso act.
fn act(body: &str) -> String {
    format!(
        "<akomaNtoso xmlns=\"http://docs.oasis-open.org/legaldocml/ns/akn/3.0\"><act><body>{body}</body></act></akomaNtoso>"
    )
}

fn act_names(body: &str) -> Vec<String> {
    let marked = mark_as("akn", &act(body), |_| ()).unwrap();
    names(&marked).into_iter().map(ToString::to_string).collect()
}

#[test]
fn akoma_ntoso() {
    let marked = mark_as("akn", AKN, |_| ()).unwrap();
    assert_eq!(
        names(&marked),
        [
            "front",
            "preamble",
            "preamble/recital-1",
            "preamble/recital-2",
            "part-1",
            "part-1/ch-1",
            "part-1/ch-1/art-1",
            "part-1/ch-1/art-1-bis",
            "part-1/ch-2",
            "part-1/ch-2/art-2",
            "part-2",
            "part-2/h-final-provisions",
            "part-2/h-final-provisions/art-3",
            "closing",
            "annex-1",
            "annex-1/art-1",
            "annex-1/art-1~2",
            "annex",
        ]
    );
    let one = unit(&marked, "part-1/ch-1/art-1");
    assert_eq!(one.aliases, ["part_1__chp_I__art_1", "art_1"]);
    assert_eq!((one.unit_kind.as_str(), one.section_type.as_str()), ("article", "definitions"));
    assert_eq!(one.citation_address.as_ref().unwrap().as_str(), "X/art-1");
    let text = &AKN[one.start..one.end];
    assert!(text.starts_with("<article eId") && text.ends_with("</article>\n        "), "{text}");
    assert!(AKN[one.body_start..].starts_with("<authorialNote>"));
    assert_eq!(
        &AKN[one.heading.start..one.heading.end],
        "<num>Article 1.</num><authorialNote><p>9</p></authorialNote>\n          <heading>Definitions &amp; terms</heading>"
    );
    // The quoted article of another law is text of the article that quotes it.
    let two = unit(&marked, "part-1/ch-2/art-2");
    assert!(AKN[two.start..two.end].contains("<quotedStructure"));
    assert_eq!(unit(&marked, "annex-1/art-1").citation_address, None);
    assert_eq!(unit(&marked, "part-2").section_type, "repealed_placeholder");
    assert_eq!(marked.duplicates.len(), 1);
    assert_eq!(marked.duplicates[0].line, AKN[..unit(&marked, "annex-1/art-1~2").start].lines().count());
    assert_eq!(marked.publication_type.as_deref(), Some("act"));
    assert_eq!(marked.gaps, 0);
}

#[test]
fn uslm() {
    let marked = mark_as("uslm", USLM, |_| ()).unwrap();
    assert_eq!(
        names(&marked),
        [
            "front",
            "sec-1",
            "title-1",
            "title-1/sec-101",
            "title-1/sec-103",
            "title-1/sec-2000bb-1",
            "title-2",
            "title-2/sec-201..203",
            "title-2/sec-204",
        ]
    );
    let section = unit(&marked, "title-1/sec-103");
    assert_eq!(section.aliases, ["/us/x/tI/s103"]);
    assert_eq!(section.citation_address.as_ref().unwrap().as_str(), "X/sec-103");
    assert_eq!(unit(&marked, "title-2/sec-201..203").section_type, "repealed_placeholder");
    assert_eq!(marked.gaps, 3, "1 to 101, 101 to 103, 103 to 201; from 201..203 to 204 is none");
    let deep = mark_as("uslm", USLM, |p| p.xml.as_mut().unwrap().deepest = None).unwrap();
    let below: Vec<&str> = names(&deep).into_iter().filter(|n| n.starts_with("title-1/sec-103/")).collect();
    assert_eq!(
        below,
        [
            "title-1/sec-103/subsec-h",
            "title-1/sec-103/subsec-i",
            "title-1/sec-103/subsec-i/cl-1",
            "title-1/sec-103/subsec-i/cl-1/pt-a",
            "title-1/sec-103/subsec-i/cl-1/pt-a/subpt-1",
            "title-1/sec-103/subsec-i/cl-1/pt-a/subpt-2",
        ]
    );
}

#[test]
fn formex() {
    let marked = mark_as("formex", FORMEX, |_| ()).unwrap();
    assert_eq!(
        names(&marked),
        [
            "front",
            "preamble",
            "preamble/recital-1",
            "preamble/recital-2",
            "ch-1",
            "ch-1/art-1",
            "ch-2",
            "ch-2/sec-1",
            "ch-2/sec-1/art-2",
            "ch-2/h-unnumbered-provisions",
            "ch-2/h-unnumbered-provisions/art-14+1",
            "closing",
            "annex-1",
            "annex-1/sec-1",
            "annex-1/sec-2",
        ]
    );
    let two = unit(&marked, "ch-2/sec-1/art-2");
    assert_eq!(two.aliases, ["002"]);
    assert_eq!(two.citation_address.as_ref().unwrap().as_str(), "X/art-2");
    assert_eq!(&FORMEX[two.heading.start..two.heading.start + 8], "<TI.ART>");
    assert!(FORMEX[two.start..two.end].contains("<QUOT.S"));
    assert_eq!(marked.publication_type.as_deref(), Some("decision"));
    let deep = mark_as("formex", FORMEX, |p| p.xml.as_mut().unwrap().deepest = None).unwrap();
    assert!(names(&deep).contains(&"ch-1/art-1/cl-1/pt-a"));
}

#[test]
fn a_plan_takes_the_marker_of_the_format() {
    let profile = Profile::built_in("akn").unwrap();
    assert_eq!(profile.format, Format::Xml);
    let plan = CutPlan::build(&PlanInput {
        document_id: &DocumentId::parse("X").unwrap(),
        text: AKN.as_bytes(),
        profile: &profile,
        vocabulary: &Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits: &MarkLimits::default(),
        marker: None,
    })
    .unwrap();
    assert_eq!((plan.marker.as_str(), plan.rows.len()), ("xml/1", 18));
    assert_eq!(plan.unknown_words, []);
    assert_eq!(plan.region.end, AKN.len());
}

#[test]
fn what_no_number_names() {
    let section = |inside: &str| format!("<section>{inside}</section>");
    for (inside, want) in [
        ("<num>3</num><heading>Title</heading>", "sec-3"),
        ("<heading>Short title &#38; more</heading>", "h-short-title-more"),
        ("<num>—</num><heading><i>Short</i> title</heading>", "h-short-title"),
        ("<num>Preamble</num>", "h-preamble"),
        ("<num/>", "sec"),
        ("<content><p>text</p></content>", "sec"),
        ("<num>1<sup>2</sup></num>", "sec-1+2"),
        ("<num>1<!-- 5 --><?x 6?></num>", "sec-1"),
        ("<num><![CDATA[7]]></num>", "sec-7"),
        ("<num>1</num><num>2</num>", "sec-1"),
        ("<content><num>9</num></content>", "sec"),
        ("<num>1<i>a</i></num>", "sec-1a"),
        ("<heading><i>Sh</i>ort ti<b>tle</b>s</heading>", "h-short-titles"),
        ("<num>4<authorialNote><p>5</p></authorialNote></num>", "sec-4"),
    ] {
        assert_eq!(act_names(&section(inside)), ["front", want], "{inside}");
    }
}

#[test]
fn nesting_and_decimal_numbers() {
    assert_eq!(
        act_names(
            "<section><num>4</num><section><num>4.1</num></section></section><section><num>5</num><part><num>5.1</num></part></section>"
        ),
        ["front", "sec-4", "sec-4.1", "sec-5", "sec-5/part-5.1"]
    );
    // A number that comes after the first unit below is not the number of the unit above.
    assert_eq!(
        act_names("<chapter><section><num>1</num></section><num>9</num></chapter>"),
        ["front", "ch", "ch/sec-1"]
    );
    let by_depth = mark_as("akn", AKN, |p| p.depth = Some(1)).unwrap();
    assert_eq!(names(&by_depth), ["front", "preamble", "part-1", "part-2", "closing", "annex-1", "annex"]);
}

#[test]
fn only_elements_of_the_root_namespace_are_units() {
    let text = act(
        "<section><num>1</num><content><h:section xmlns:h=\"http://www.w3.org/1999/xhtml\"><h:num>2</h:num></h:section><section xmlns=\"urn:x\"><num>3</num></section></content></section>",
    );
    assert_eq!(names(&mark_as("akn", &text, |_| ()).unwrap()), ["front", "sec-1"]);
    let prefixed = text
        .replace("<akomaNtoso xmlns=", "<a:akomaNtoso xmlns:a=")
        .replace("</akomaNtoso>", "</a:akomaNtoso>");
    let prefixed = prefixed
        .replace("<section>", "<a:section>")
        .replace("</content></section>", "</content></a:section>");
    let prefixed = prefixed.replacen("<num>1</num>", "<a:num>1</a:num>", 1);
    assert_eq!(names(&mark_as("akn", &prefixed, |_| ()).unwrap()), ["front", "sec-1"]);
}

#[test]
fn entities_are_not_expanded() {
    let laughs: String =
        (1..30).map(|i| format!("<!ENTITY l{i} \"{}\">", format!("&l{};", i - 1).repeat(10))).collect();
    let text = format!(
        "<!DOCTYPE akomaNtoso [<!ENTITY l0 \"ha\"><!ENTITY n SYSTEM \"file:///etc/hostname\">{laughs}]>{}",
        act(
            "<section><num>1</num><heading>&l29; &n; &lt;b&gt; &quot;x&quot;</heading><content>&l29;</content></section>"
        )
    );
    let marked = mark_as("akn", &text, |_| ()).unwrap();
    assert_eq!(names(&marked), ["front", "sec-1"]);
    assert_eq!(marked.warnings.iter().filter(|w| w.code == "entities_not_expanded").count(), 1);
    assert_eq!(
        act_names("<section><heading>&l9; &#x26;&#99999999;</heading></section>"),
        ["front", "h-l9-99999999"]
    );
}

#[test]
fn what_is_not_well_formed_is_refused_with_its_line() {
    for (text, line, expected, observed) in [
        (String::new(), 1, "a root element", "the end"),
        ("<!-- only -->\n".into(), 2, "a root element", "the end"),
        (act("<section>\n</part>"), 2, "</section>", "</part>"),
        (
            act("<section>\n<num>1</num>").replace("</body></act></akomaNtoso>", ""),
            2,
            "</section>",
            "the end",
        ),
        (format!("{}\n<x/>", act("")), 2, "well-formed", "unknown token"),
        (act("\n<section a=\"1\"\n a=\"2\"/>"), 2, "once", "a twice"),
        (act("\n\n<section b='<'/>"), 3, "well-formed", "attribute"),
        (act("\n<p:section/>"), 2, "declared", "declares p"),
        (act("text ]]> text"), 1, "well-formed", "']]>'"),
        (act("&#0;\u{1}"), 1, "well-formed", "character"),
        (act(&"<p>".repeat(300)), 1, "at most 256", "<p>"),
        ("plain text".into(), 1, "well-formed", "unknown token"),
        ("<html><body/></html>".into(), 1, "a root element of the profile akn", "<html>"),
        (
            AKN.replace("akomaNtoso", "amendmentList"),
            2,
            "a root element of the profile akn",
            "<amendmentList>",
        ),
    ] {
        let error = mark_as("akn", &text, |_| ()).unwrap_err();
        let MarkError::Xml { line: at, expected: e, observed: o } = &error else { panic!("{error}") };
        assert!(*at == line && e.contains(expected) && o.contains(observed), "{text:?}: {error}");
    }
    assert!(refusal("uslm", AKN).contains("profile uslm"));
    let mut markdown = Profile::built_in("markdown").unwrap();
    markdown.format = Format::Xml;
    let (document_id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
    let context = MarkContext { document_id: &document_id, profile: &markdown, limits: &limits };
    let error = XmlMarker.mark(b"<a/>", Region { start: 0, end: 4 }, &context).unwrap_err();
    assert!(error.to_string().contains("rules for XML"), "{error}");
}

#[test]
fn other_encodings() {
    let bom = format!(
        "\u{feff}<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\r\n{}",
        act("<section><num>1</num></section>")
    );
    let marked = mark_as("akn", &bom, |_| ()).unwrap();
    assert_eq!(names(&marked), ["front", "sec-1"]);
    assert!(marked.warnings.iter().any(|w| w.code == "declared_encoding"));
    assert!(mark_as("akn", AKN, |_| ()).unwrap().warnings.iter().all(|w| w.code != "declared_encoding"));
}

#[test]
fn a_document_without_units_is_one_unit() {
    let marked = mark_as("akn", &act("<p>text</p>"), |_| ()).unwrap();
    assert_eq!(names(&marked), ["front"]);
    assert_eq!(marked.warnings[0].code, "no_headings");
}

#[test]
fn the_root_is_found() {
    let root = |text: &str| xml_root(text.as_bytes()).map(|(ns, name)| (ns.into_owned(), name.to_string()));
    let some = |ns: &str, name: &str| Some((ns.to_string(), name.to_string()));
    assert_eq!(root(AKN), some("http://docs.oasis-open.org/legaldocml/ns/akn/3.0", "akomaNtoso"));
    assert_eq!(root(USLM), some("http://schemas.gpo.gov/xml/uslm", "uscDoc"));
    assert_eq!(root(FORMEX), some("", "ACT"));
    assert_eq!(
        root("\u{feff}<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x 'y'>]><p:a xmlns='n' xmlns:p='u&amp;v'/>"),
        some("u&v", "a")
    );
    for none in ["", "text", "# Heading <a>", "<!-- a -->\n# Heading", "<a", "<a b=>", "< a>"] {
        assert_eq!(root(none), None, "{none}");
    }
    assert_eq!(xml_root(b"<a>\xff").map(|(_, name)| name), Some("a"));
    for (name, text) in SAMPLES {
        let (namespace, local) = xml_root(text.as_bytes()).unwrap();
        let fits = |other: &str| Profile::built_in(other).unwrap().xml.unwrap().fits(&namespace, local);
        assert!(SAMPLES.iter().all(|(other, _)| fits(other) == (*other == name)), "{name}");
    }
}

#[test]
fn forbidden_addresses_are_told() {
    let marked = mark_as("akn", AKN, |_| ()).unwrap();
    let prefix = Address::parse("X/annex-1").unwrap();
    let limits = MarkLimits { forbidden_prefixes: alloc::vec![prefix], ..MarkLimits::default() };
    assert_eq!(forbidden(&marked.candidates, &limits).len(), 3);
}

/// The unit before the first element counts as any other.
#[test]
fn too_many_elements_are_counted_and_none_is_built() {
    let profile = Profile::built_in("akn").unwrap();
    let text = act("<section><num>1</num></section><section><num>2</num></section>");
    let document_id = DocumentId::parse("X").unwrap();
    let with = |max_candidates: u32| {
        let limits = MarkLimits {
            max_candidates,
            stop: crate::text::mark::Stop::AtCandidates,
            ..MarkLimits::default()
        };
        let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
        XmlMarker.mark(text.as_bytes(), Region { start: 0, end: text.len() }, &context)
    };
    assert_eq!(with(3).unwrap().candidates.len(), 3);
    let publication_type = Some("act".to_string());
    assert_eq!(with(2), Err(MarkError::TooMany { limit: 2, observed: 3, publication_type }));
}

/// A text of nothing but units is refused, unless as many are allowed; of its units the reading tells how many say
/// who they are.
#[test]
fn too_many_elements_for_their_text_are_refused() {
    let profile = Profile::built_in("akn").unwrap();
    let text = act(&"<section/>".repeat(20_000));
    let document_id = DocumentId::parse("X").unwrap();
    let with = |max_candidates: u32| {
        let stop = crate::text::mark::Stop::AtDensity;
        let limits = MarkLimits { max_candidates, stop, ..MarkLimits::default() };
        let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
        XmlMarker.mark(text.as_bytes(), Region { start: 0, end: text.len() }, &context)
    };
    assert_eq!(with(1000), Err(MarkError::TooDense { limit: 16_384, bytes: text.len() }));
    assert_eq!(with(20_001).unwrap().candidates.len(), 20_001);
    let one = "<section eId='a'><num>1</num></section><section><num>2</num></section><section/>";
    let why = mark_as("akn", &act(one), |_| ()).unwrap().why;
    assert_eq!(why[1], "3 elements are units, 2 of them numbered, 1 with identifiers");
}
