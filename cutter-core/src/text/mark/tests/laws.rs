//! Laws of every marker, and the explicit manifest.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::string::String;
use std::time::{Duration, Instant};

const PIECES: &[&str] = &[
    "# A",
    "## Chapter I",
    "### Article 1",
    "### Article 1",
    "text",
    "",
    "",
    "Setext\n===",
    "ruled\n---",
    "```",
    "<!--",
    "-->",
    "- item",
    "> quote",
    "## 1.2 x",
    "#### Điều 3",
    "##",
    "\u{feff}",
    "---",
    "k: v",
    "...",
    "é\r",
    "## Annex",
    "    code",
    "## Annex 2",
    "## Title\tx",
];

fn lawful(text: &str) {
    let marked = mark(text);
    let joined: String = marked.candidates.iter().map(|c| &text[c.start..c.end]).collect();
    assert_eq!(joined, &text[marked.region.start..marked.region.end]);
    let unique: BTreeSet<&Address> = marked.candidates.iter().map(|c| &c.address).collect();
    assert_eq!(unique.len(), marked.candidates.len());
    let ordinals = marked.candidates.iter().map(|c| c.ordinal);
    assert!(ordinals.eq(0..u32::try_from(marked.candidates.len()).unwrap()));
    for c in &marked.candidates {
        assert_eq!(Address::parse(c.address.as_str()).as_ref(), Ok(&c.address));
        assert!(c.start <= c.heading.start && c.heading.end <= c.end);
        assert!(c.start <= c.body_start && c.body_start <= c.end && text.is_char_boundary(c.body_start));
    }
    assert_eq!(marked, mark(text));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn structured_text_is_tiled(lines in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        lawful(&lines.join("\n"));
    }

    #[test]
    fn any_text_is_tiled(text in any::<String>()) {
        lawful(&text);
    }

    #[test]
    fn any_bytes_are_tiled_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        match String::from_utf8(bytes.clone()) {
            Ok(text) => lawful(&text),
            Err(_) => {
                let refused = matches!(mark_with(&bytes, |_, _| ()), Err(MarkError::NotUtf8 { .. }));
                prop_assert!(refused);
            }
        }
    }

    #[test]
    fn titles_of_any_sort_have_addresses(title in "[A-Za-z0-9 .§()<>*\\[\\]–-]{0,60}", level in 1usize..7) {
        lawful(&std::format!("# D\n\n{} {title}\n\nx\n", "#".repeat(level)));
    }
}

#[test]
fn a_broken_partition_names_the_first_wrong_byte() {
    let region = Region { start: 2, end: 10 };
    assert_eq!(check_partition(region, [(2, 5), (5, 10)]), Ok(()));
    assert_eq!(check_partition(Region { start: 3, end: 3 }, []), Ok(()));
    let broken = |ordinal, expected, observed| Err(MarkError::Partition { ordinal, expected, observed });
    assert_eq!(check_partition(region, [(2, 5), (6, 10)]), broken(1, 5, 6));
    assert_eq!(check_partition(region, [(2, 5), (5, 5)]), broken(2, 6, 5), "an empty span");
    assert_eq!(check_partition(region, [(2, 5)]), broken(1, 10, 5));
    for spans in [
        &[(2, 5), (6, 10)][..],
        &[(2, 5), (4, 10)],
        &[(2, 5)],
        &[(2, 10), (10, 12)],
        &[(2, 2), (2, 10)],
        &[(2, 10), (10, 9)],
        &[(0, 10)],
        &[],
    ] {
        let error = check_partition(region, spans.iter().copied()).unwrap_err();
        assert!(matches!(error, MarkError::Partition { .. }), "{spans:?}");
    }
}

/// Bounds are far above what linear work needs and far below what quadratic work would.
#[test]
fn hostile_sizes_take_linear_time() {
    let bracket = |open: &str| std::format!("# A\n\n{}\n", open.repeat(1 << 20));
    let inputs = [
        ("one section of 4 MB", std::format!("# A\n\n{}", "word and word\n".repeat(300_000))),
        ("100,000 headings", (0..100_000).map(|i| std::format!("## Article {i}\n\nx\n")).collect()),
        ("100,000 headings of one name", "## Same\n".repeat(100_000)),
        ("deep and wide", "# a\n## a\n### a\n#### a\n##### a\n###### a\n".repeat(10_000)),
        ("number signs", "#".repeat(1 << 20)),
        ("number signs in a heading", std::format!("# {}", "#".repeat(1 << 20))),
        ("brackets", bracket("[")),
        ("links without end, by the parser", std::format!("a\rb\n{}", bracket("[a](").as_str())),
        ("brackets in a heading", std::format!("# {}", "[".repeat(1 << 20))),
        ("emphasis in a heading", std::format!("# {}", "*a _b ".repeat(200_000))),
        ("digits", std::format!("# {}", "1".repeat(1 << 20))),
        ("dotted digits", std::format!("## Section {}", "1.".repeat(500_000))),
        ("rulers", "a\n---\n".repeat(100_000)),
        ("quotes", std::format!("{} x", ">".repeat(1 << 16))),
        ("comments without end", "<!-- \n".repeat(100_000)),
        ("fences", "```\n".repeat(200_000)),
        ("front matter without end", std::format!("---\n{}", "k: v\n".repeat(200_000))),
        ("empty number headings", "## Chapter 1\n".repeat(50_000)),
    ];
    for (name, text) in inputs {
        let start = Instant::now();
        let marked = mark(&text);
        let took = start.elapsed();
        std::println!("{name}: {took:?}");
        assert!(took < Duration::from_secs(10), "{name}: {took:?} for {} units", marked.candidates.len());
    }
}

fn by_manifest(source: &[u8], manifest: &str) -> Result<Marked, MarkError> {
    let (profile, limits) = (Profile::built_in("markdown").unwrap(), MarkLimits::default());
    let document_id = DocumentId::parse("X").unwrap();
    let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
    let region = body_region(source, &profile)?;
    ManifestMarker::from_json(manifest.as_bytes())?.mark(source, region, &context)
}

fn entry(address: &str, start: usize, end: usize) -> String {
    std::format!(
        r#"{{"address":"{address}","unit_kind":"article","section_type":"general","start":{start},"end":{end}}}"#
    )
}

fn manifest(entries: &[String]) -> String {
    std::format!(r#"{{"schema":1,"units":[{}]}}"#, entries.join(","))
}

#[test]
fn a_manifest_that_partitions_is_taken_as_it_is() {
    let json = manifest(&[entry("X/art-1", 0, 3), entry("X/art-2", 3, 7)]);
    let marked = by_manifest("oneé..".as_bytes(), &json).unwrap();
    assert_eq!(names(&marked), ["art-1", "art-2"]);
    assert_eq!((marked.candidates[1].start, marked.candidates[1].end), (3, 7));
    assert!(marked.why[0].contains("2 units from a manifest"));
    let (a, b) = (
        ManifestMarker::from_json(json.as_bytes()).unwrap(),
        ManifestMarker::from_json(manifest(&[]).as_bytes()),
    );
    assert_ne!(a.identity(), b.unwrap().identity());
}

#[test]
fn a_manifest_that_does_not_fit_is_refused() {
    let source = "oneé..".as_bytes();
    for (entries, want) in [
        (&[entry("X/art-1", 0, 3), entry("X/art-2", 4, 7)][..], "should start at byte 3, observed 4"),
        (&[entry("X/art-1", 0, 3)], "should start at byte 7, observed 3"),
        (&[entry("X/art-1", 0, 4), entry("X/art-2", 4, 7)], "the end of a character"),
        (&[entry("X/art-1", 0, 3), entry("X/art-1", 3, 7)], "no other unit has"),
        (&[entry("X/art-1", 0, 3), entry("Y/art-2", 3, 7)], "an address within X"),
        (&[entry("X/art-1", 0, 3), entry("X/Art-2", 3, 7)], "an address"),
        (&[entry("X/art-1", 0, 90)], "should start at byte 7, observed 90"),
    ] {
        let error = by_manifest(source, &manifest(entries)).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
    for (json, want) in [
        ("{\"schema\":2,\"units\":[]}", "schema: expected 1, observed 2"),
        ("{\"schema\":1}", "units"),
        ("{\"schema\":1,\"units\":[],\"units\":[]}", "duplicate key"),
        ("nothing", "strict JSON"),
        (
            "{\"schema\":1,\"units\":[{\"address\":\"X\",\"unit_kind\":\"a\",\"section_type\":\"b\",\"start\":0,\"end\":7,\"body_start\":4}]}",
            "between characters",
        ),
    ] {
        let error = by_manifest(source, json).unwrap_err().to_string();
        assert!(error.contains(want), "{json}: {error}");
    }
}
