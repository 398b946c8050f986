//! How titles, lines and lists read in each convention, as tables for people: what is named, and
//! where its text begins.

use super::*;
use crate::text::detect::explain;
use std::format;
use std::string::{String, ToString};

/// The units of a text as `address (citation) type | designator | text`, aliases and warnings.
fn reading(profile: &str, deepest: Option<&str>, text: &str) -> Vec<String> {
    let mut profile = Profile::built_in(profile).unwrap();
    if let Some(kind) = deepest {
        profile.cut_down_to(kind).unwrap();
    }
    let (limits, document_id) = (MarkLimits::default(), DocumentId::parse("X").unwrap());
    let region = body_region(text.as_bytes(), &profile).unwrap();
    let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
    let marked = marker_for(&profile).mark(text.as_bytes(), region, &context).unwrap();
    check_partition(region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
    let short = |span: &str| {
        let line = span.trim().replace(['\n', '\r'], "⏎");
        match line.char_indices().nth(40) {
            Some((at, _)) => format!("{}… {} bytes", &line[..at], line.len()),
            None => line,
        }
    };
    let named = |a: &Address| a.as_str().trim_start_matches("X/").to_string();
    let line = |c: &Candidate| {
        let cited = match c.citation_address.as_ref().map(named) {
            Some(cited) if cited == named(&c.address) => " =".to_string(),
            Some(cited) => format!(" ={cited}"),
            None => String::new(),
        };
        let (head, body) = (short(&text[c.start..c.body_start]), short(&text[c.body_start..c.end]));
        let is_heading = if c.heading.start < c.heading.end { "" } else { "no heading " };
        format!("{}{cited} {} | {is_heading}{head} | {body}", named(&c.address), c.section_type)
    };
    let units = marked.candidates.iter().map(line);
    let aliases = marked.candidates.iter().flat_map(|c| &c.aliases).map(|alias| format!("also {alias}"));
    let warnings = marked.warnings.iter().map(|w| match w.line {
        Some(line) => format!("{} at {line}: {}", w.code, w.message),
        None => w.code.clone(),
    });
    let why = explain(&profile, text.as_bytes(), &marked, 9).into_iter().map(|line| {
        let unit = line.address.map_or_else(String::new, |address| format!(" {address}"));
        format!("line {}{unit}: {}", line.line, line.reason)
    });
    units.chain(aliases).chain(warnings).chain(why).collect()
}

/// A name on a line of its own is the unit's where it stands; in the last line before a heading it is the
/// heading's, be that the first or the last one.
#[test]
fn names_on_lines_of_their_own() {
    let of = |text: &str| {
        let marked = lawful_as("markdown", text);
        let pairs = names(&marked).into_iter().zip(&marked.candidates);
        pairs
            .flat_map(|(unit, c)| c.aliases.iter().map(move |name| format!("{unit} {name}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("# One\n\nx\n\nr[a]\n# Two\n\ny\n"), ["h-two a"]);
    assert_eq!(of("# One\n\nx\n\nr[b]\n\n# Two\n\ny\n\nr[c]\n# Three\n\nz\n"), ["h-two b", "h-three c"]);
    assert_eq!(of("# One\n\nr[d]\nx\n\n# Two\n\nr[e]\n"), ["h-one d", "h-two e"]);
    assert_eq!(of("# One\n\nx r[f]\n\n# Two\n\nr[g] y\nr[h\n"), [""; 0]);
    assert_eq!(of("xr[k]\n\n# One\n\ny\n\n# Two\n\nz\n"), [""; 0]);
    assert_eq!(of("r[i]\n# One\n\n# Two\n\nr[j]"), ["h-one i", "h-two j"]);
    assert_eq!(of("# One\n\nx\n\nr[a]\u{a0}\n# Two\n\ny\n"), ["h-two a"]);
}

#[test]
fn titles() {
    let (mut profile, mut told) = ("", String::new());
    for line in include_str!("readings/titles.txt").lines().filter(|line| !line.starts_with("# ")) {
        if let Some(name) = line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            profile = name;
            continue;
        }
        // below the document's own title
        let read = reading(profile, None, &format!("# Name\n\n## {line}\n\ntext\n"));
        let read = read[1..].iter().filter(|line| !line.starts_with("line "));
        told += &format!("{profile} {line} => {}\n", read.cloned().collect::<Vec<_>>().join("; "));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn texts() {
    let mut cases: Vec<(String, String, String)> = Vec::new();
    for line in include_str!("readings/texts.txt").lines().filter(|line| !line.starts_with("# ")) {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().unwrap().to_string();
        let (profile, deepest, text) = (next(), next(), next());
        let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\");
        cases.push((
            profile,
            deepest,
            text.replace("\\u{200b}", "\u{200b}").replace("\\u{3000}", "\u{3000}"),
        ));
    }
    // a division's line has at most 200 bytes, of an article's 240 are its heading
    for (start, length) in
        [("Part 12. ", 191), ("Part 123. ", 191), ("Article 12. ", 228), ("Article 123. ", 228)]
    {
        let text = format!("{start}{}\n\nafter\n", "a".repeat(length));
        cases.push(("en".into(), "-".into(), text));
    }
    let mut told = String::new();
    for (profile, deepest, text) in cases {
        let shown: String = text.escape_debug().take(300).collect();
        told += &format!("{profile} {shown}\n");
        for line in reading(&profile, Some(deepest.as_str()).filter(|kind| *kind != "-"), &text) {
            told += &format!("    {line}\n");
        }
    }
    insta::assert_snapshot!(told);
}
