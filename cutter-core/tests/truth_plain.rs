//! Plain text, underlined titles and plain Markdown against truth by reading: every heading
//! that a reader found begins a unit, and every unit that claims to begin with a heading
//! does.
//!
//! `CUTTER_CORPUS` names the folder of documents; without it the test says so and checks
//! nothing. The truth is in `tests/truth` beside the crates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cutter_core::base::digest::Digest;
use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::text::address::DocumentId;
use cutter_core::text::mark::MarkLimits;
use cutter_core::text::plan::{CutPlan, PlanInput, PlanRow};
use cutter_core::text::profile::Profile;

/// The file, its profile and its name.
const FILES: [(&str, &str, &str); 13] = [
    ("ietf/rfc7235.txt", "rfc-text", "RFC7235"),
    ("ietf/draft-ietf-httpbis-p7-auth-09.txt", "rfc-text", "P7-AUTH-09"),
    ("ietf/rfc9114.md", "rfc", "RFC9114"),
    ("ietf/rfc8999.md", "rfc", "RFC8999"),
    ("ietf/draft-ietf-httpbis-immutable.md", "rfc", "IMMUTABLE"),
    ("peps/pep-0008.rst", "rst", "PEP-8"),
    ("peps/pep-0020.rst", "rst", "PEP-20"),
    ("peps/pep-0681.rst", "rst", "PEP-681"),
    ("commonmark/spec.txt", "markdown", "COMMONMARK"),
    ("rust-reference/attributes.md", "markdown", "RUST-ATTRIBUTES"),
    ("rust-reference/tokens.md", "markdown", "RUST-TOKENS"),
    ("k8s-steering/charter.md", "markdown", "K8S-CHARTER"),
    ("k8s-steering/elections.md", "markdown", "K8S-ELECTIONS"),
];

/// Where unit and truth may differ: file, offset of the line, why. There is none now; each
/// is checked to be needed.
const ALLOWED: [(&str, usize, &str); 0] = [];

/// Of all rows pooled, so many in a thousand must agree.
const PER_MILLE: usize = 995;

struct Truth {
    sha256: String,
    /// Kind and offset of the line.
    rows: Vec<(String, usize)>,
}

fn truth(file: &str) -> Truth {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/truth");
    let text = std::fs::read_to_string(folder.join(format!("{file}.tsv"))).unwrap();
    let (mut sha256, mut rows) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            if let Some(digest) = comment.strip_prefix("sha256: ") {
                sha256 = digest.into();
            }
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        if let [kind, _, offset, _] = fields[..]
            && kind != "kind"
        {
            rows.push((kind.into(), offset.parse().unwrap()));
        }
    }
    assert!(!rows.is_empty(), "{file}: truth without rows");
    Truth { sha256, rows }
}

fn corpus() -> Option<PathBuf> {
    let corpus = std::env::var_os("CUTTER_CORPUS").map(PathBuf::from);
    if corpus.is_none() {
        eprintln!("SKIPPED: set CUTTER_CORPUS to a folder of documents to run this test");
    }
    corpus
}

fn cut(text: &[u8], profile: &str, name: &str) -> CutPlan {
    CutPlan::build(&PlanInput {
        document_id: &DocumentId::parse(name).unwrap(),
        text,
        profile: &Profile::built_in(profile).unwrap(),
        vocabulary: &Vocabulary::default(),
        publication_type: None,
        depends_on: &[],
        limits: &MarkLimits::default(),
        marker: None,
    })
    .unwrap()
}

/// Where the first line of a unit begins that is not empty: the first unit holds the empty
/// lines and the byte-order mark before its heading too.
fn first_line(text: &[u8], row: &PlanRow) -> usize {
    let unit = std::str::from_utf8(&text[row.start..row.end]).unwrap();
    let visible = unit.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let at = row.end - visible.len();
    let line = text[..at].iter().rposition(|&b| b == b'\n' || b == b'\r').map_or(0, |i| i + 1);
    if text[line..].starts_with(b"\xef\xbb\xbf") { line + 3 } else { line }
}

fn is_heading(row: &PlanRow) -> bool {
    matches!(row.unit_kind.as_str(), "section" | "heading" | "annex")
}

#[test]
fn every_heading_begins_a_unit_and_every_unit_a_heading() {
    let Some(corpus) = corpus() else { return };
    let (mut right, mut missing, mut extra) = (0, Vec::new(), Vec::new());
    let mut needed = BTreeSet::new();
    for (file, profile, name) in FILES {
        let truth = truth(file);
        let text = std::fs::read(corpus.join(file)).unwrap();
        assert_eq!(Digest::of(&text).to_hex(), truth.sha256, "{file}: the truth is of other bytes");
        let plan = cut(&text, profile, name);
        let mut allow = |offset: usize| {
            let rule = ALLOWED.iter().position(|(f, at, _)| *f == file && *at == offset);
            needed.extend(rule);
            rule.is_some()
        };
        let units: BTreeSet<usize> = plan.rows.iter().map(|row| first_line(&text, row)).collect();
        for (kind, offset) in &truth.rows {
            if units.contains(offset) {
                right += 1;
            } else if !allow(*offset) {
                missing.push(format!("{file}: {kind} at byte {offset}"));
            }
        }
        let read: BTreeSet<usize> = truth.rows.iter().map(|(_, offset)| *offset).collect();
        for row in plan.rows.iter().filter(|row| is_heading(row)) {
            let start = first_line(&text, row);
            if !read.contains(&start) && !allow(start) {
                extra.push(format!("{file}: {} at byte {start}", row.canonical_address));
            }
        }
        // Its kind and number are the printed ones.
        for row in plan.rows.iter().filter(|row| row.unit_kind != "front" && profile == "rfc-text") {
            let kind = truth.rows.iter().find(|(_, offset)| *offset == row.start).map(|(kind, _)| kind);
            let segment = row.canonical_address.last().unwrap().kind;
            assert!(kind.is_none_or(|kind| kind == segment), "{file}: {}", row.canonical_address);
        }
        println!("{file}: {} rows of truth, {} units", truth.rows.len(), plan.rows.len());
    }
    println!("missing: {missing:#?}\nextra: {extra:#?}");
    let enough = |wrong: usize| right * 1000 >= (right + wrong) * PER_MILLE;
    assert!(enough(missing.len()), "recall: {right} right, missing {missing:#?}");
    assert!(enough(extra.len()), "precision: {right} right, extra {extra:#?}");
    assert_eq!(needed.len(), ALLOWED.len(), "an allowed difference is none any more");
    assert!(right > 370, "{right}");
}

#[test]
fn addresses_are_those_that_people_quote() {
    let Some(corpus) = corpus() else { return };
    for (file, profile, name, want) in [
        (
            "ietf/rfc7235.txt",
            "rfc-text",
            "RFC7235",
            &[
                "front",
                "h-abstract",
                "toc",
                "sec-4.2",
                "sec-5.1.2",
                "annex-c",
                "h-index",
                "h-authors-addresses",
            ][..],
        ),
        (
            "ietf/draft-ietf-httpbis-p7-auth-09.txt",
            "rfc-text",
            "P7",
            &["h-status-of-this-memo", "sec-1.2.1", "annex-c/sec-c.10"],
        ),
        (
            "ietf/rfc9114.md",
            "rfc",
            "RFC9114",
            &[
                "front",
                "h-introduction",
                "h-introduction/h-delegation-to-quic",
                "h-connection-setup-and-management",
            ],
        ),
        (
            "peps/pep-0008.rst",
            "rst",
            "PEP-8",
            &["front", "h-introduction", "h-code-lay-out/h-tabs-or-spaces"],
        ),
        (
            "peps/pep-0681.rst",
            "rst",
            "PEP-681",
            &["h-specification/h-the-dataclass-transform-decorator/h-class-example"],
        ),
        ("commonmark/spec.txt", "markdown", "CM", &["h-introduction/h-what-is-markdown"]),
    ] {
        let plan = cut(&std::fs::read(corpus.join(file)).unwrap(), profile, name);
        for address in want {
            let address = format!("{name}/{address}");
            let found = plan.rows.iter().any(|row| row.canonical_address.as_str() == address);
            assert!(found, "{file}: no {address}");
        }
        assert_eq!(plan.duplicates, [], "{file}");
        assert!(plan.unknown_words.is_empty(), "{file}: {:?}", plan.unknown_words);
    }
}

#[test]
fn names_in_the_text_are_aliases_of_what_they_name() {
    let Some(corpus) = corpus() else { return };
    for (file, profile, address, alias) in [
        ("rust-reference/tokens.md", "markdown", "T", "lex.token"),
        ("rust-reference/tokens.md", "markdown", "T/h-literals", "lex.token.literal"),
        ("ietf/rfc9114.md", "rfc", "T/h-connection-setup-and-management", "connection-setup"),
    ] {
        let plan = cut(&std::fs::read(corpus.join(file)).unwrap(), profile, "T");
        let named: Vec<&str> = (plan.rows.iter())
            .filter(|row| row.aliases.iter().any(|name| name == alias))
            .map(|row| row.canonical_address.as_str())
            .collect();
        assert_eq!(named, [address], "{file}: {alias}");
    }
}
