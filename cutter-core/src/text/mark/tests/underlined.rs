//! Underlined titles.

use super::*;
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};

#[track_caller]
fn cuts(text: &str, want: &[&str]) {
    assert_eq!(names(&lawful_as("rst", text)), want, "{text:?}");
}

#[test]
fn levels_are_in_the_order_of_appearance() {
    let text = "===\nDoc\n===\n\nx\n\nA\n---\n\nB\n~~~\n\nC\n===\n\nD\n---\n";
    cuts(text, &[".", "h-a", "h-a/h-b", "h-a/h-b/h-c", "h-d"]);
    let marked = mark_as("rst", text);
    assert_eq!(headings(text, &marked)[..2], ["===\nDoc\n===", "A\n---"]);
    // With a row above or without, the same mark is two styles.
    cuts("A\n===\n\n===\nB\n===\n\nC\n===\n", &["h-a", "h-a/h-b", "h-c"]);
}

#[test]
fn every_line_end_and_a_byte_order_mark() {
    let text = "PEP: 1\nTitle: T\n\nAbstract\n========\n\nx\n\n1. One\n======\n\n1.1 Two\n-------\nx\n";
    let want = ["front", "h-abstract", "sec-1", "sec-1.1"];
    cuts(text, &want);
    cuts(&text.replace('\n', "\r\n"), &want);
    cuts(&text.replace('\n', "\r"), &want);
    cuts(&format!("\u{feff}{text}"), &want);
    cuts("\u{feff}A\n===\n\nx\n\nB\n===\n", &["h-a", "h-b"]);
}

/// `lines` between two titles.
fn among(lines: &str) -> String {
    format!("First\n=====\n\nText.\n\n{lines}\n\nText.\n\nLast\n====\n\nText.\n")
}

#[test]
fn what_a_title_looks_like() {
    for (lines, want) in [
        ("Title\n=====", "h-title"),
        ("Title\n==============", "h-title"),
        ("Title with a row that is short\n============================", "h-title-with-a-row-that-is-short"),
        ("Ж и ж\n=====", "h-zh-i-zh"),
        ("条文的标题\n=====", "h-x"),
        ("A\n=", "h-a"),
        ("1. Numbered\n===========", "sec-1"),
        ("Appendix B\n==========", "annex-b"),
        ("=========\n  Title\n=========", "h-title"),
        (":mod:`os` --- Systems\n=====================", "h-os-systems"),
        ("``code`` and *more*\n===================", "h-code-and-more"),
        ("`Text <https://example.org>`_ here\n==================================", "h-text-here"),
        ("Why?\n====\nText at once.", "h-why"),
        ("-----\n\nTitle\n=====", "h-title"),
    ] {
        let marked = lawful_as("rst", &among(lines));
        let names = names(&marked);
        assert_eq!(names.len(), 3, "{lines:?}: {names:?}");
        let last = names[1].rsplit('/').next().unwrap();
        assert!(if want == "h-x" { last.starts_with("h-x") } else { last == want }, "{lines:?}: {names:?}");
    }
    cuts("A\n===\nB\n---\nC\n---\n", &[".", "h-b", "h-c"]);
}

#[test]
fn what_only_looks_like_a_title() {
    for lines in [
        "A paragraph of text\n====",
        "Two lines of\na paragraph\n===========",
        "   Indented\n   ========",
        "Literal::\n\n    Title\n    =====\n\n    =====\n    Title\n    =====",
        ".. A comment\n============",
        ".. code-block:: rst\n\n   Title\n   =====",
        "- item\n======",
        "* item\n======",
        "| line\n======",
        ":field: value\n=============",
        ">>> 1 + 1\n=========",
        "=====  =====\nA      B\n=====  =====\n1      2\n\n3      4\n=====  =====",
        "=====  =====\n   Both\n------------\nA      B\n=====  =====\n\nx\ny\n---",
        "===== =====\nOne\n===== =====\n\nAfter the table it goes on",
        "=====  =====\n\nTwo\n-----\n=====  =====",
        "=====  =====\n\nTwo\n-----\nx  y\n=====  =====",
        "-----",
        "=====\n\n=====",
        "::\n\n  x",
        "?!?\n===",
        "Text\n..",
        "# Title\n\n## Another",
        "Mixed\n=-=-=",
    ] {
        let marked = lawful_as("rst", &among(lines));
        assert_eq!(names(&marked), ["h-first", "h-last"], "{lines:?}");
    }
    // Two borders with nothing between them are a table, which ends there.
    let tables = "==  ==\n==  ==\n\nTwo\n---\n\nText.\n\n==  ==\na   b\n==  ==";
    assert_eq!(names(&lawful_as("rst", &among(tables))), ["h-first", "h-first/h-two", "h-last"]);
    // A border that no other follows is text, and so is what comes after.
    cuts("A\n===\n\n==  ==\n\nB\n===\n", &["h-a", "h-b"]);
}

/// Rows and titles at their bounds: so much fits, and one more does not.
/// What stands in a table is no title, at each place where a table may end.
#[test]
fn a_table_ends_at_its_third_border_or_the_second_before_an_empty_line() {
    #[track_caller]
    fn found(lines: &str, want: &[&str]) {
        assert_eq!(names(&lawful_as("rst", &among(lines))), want, "{lines}");
    }
    for table in [
        "=  =\nA\n=  =\n\nB\n=  =",
        "=  =\nA\n=  =\nB\n=  =\nC\n=  =",
        "=  =\nA\n=  =\nB\nC\n=  =",
        "=  =\n=  =\n=  =",
    ] {
        found(&format!("{table}\n\nX\n---"), &["h-first", "h-first/h-x", "h-last"]);
    }
    // the third border ends it, whatever stands below
    let below = "=  =\nA\n=  =\nB\n=  =\nC\n---\n\nD\n---";
    found(below, &["h-first", "h-first/h-d", "h-last"]);
    // a border without another is one line of text, and a title may follow the empty line
    found("=  =\n\nD\n---", &["h-first", "h-first/h-d", "h-last"]);
    let whole = "=  =\nA\n\nB\n---\n\nC\n=  =\nD\n=  =";
    found(whole, &["h-first", "h-last"]);
    // nor in its rows, which go on behind an empty line
    found("=  =\nA\n=  =\nB\n\nC\n---\n\nD\n=  =", &["h-first", "h-last"]);
    // at the end of the text
    cuts("A\n===\n\nx\n\nB\n===\n\n=  =\nB\n=  =\n", &["h-a", "h-b"]);
    cuts("A\n===\n\nx\n\nB\n===\n\n=  =\nB\n=  =", &["h-a", "h-b"]);
    cuts("A\n===\n\nx\n\nB\n===\n\n=  =", &["h-a", "h-b"]);
}

#[test]
fn titles_at_their_bounds() {
    let found = |lines: &str| names(&lawful_as("rst", &among(lines))).len() == 3;
    let row = |mark: &str, n: usize| mark.repeat(n);
    for (what, fits, over) in [
        ("a row three shorter", "A title\n====".into(), "A title!\n====".to_string()),
        ("a row of three", "Abc\n===".into(), "Abcd\n===".into()),
        (
            "1024 bytes",
            format!("{}\n{}", row("w", 1024), row("=", 1024)),
            format!("{}\n{}", row("w", 1025), row("=", 1025)),
        ),
        ("a role", ":a:b\n====".into(), ":a: b\n=====".into()),
        ("a blank before a name", ": a: b\n======".into(), ":a:\n===".into()),
        ("a letter", "a?\n==".into(), "??\n==".into()),
        ("a mark without a blank", "-a\n==".into(), "- a\n===".into()),
        ("more dots", "..a\n===".into(), ".. a\n====".into()),
        ("plus", "+a\n==".into(), "+ a\n===".into()),
        ("a bullet", "•a\n==".into(), "• a\n===".into()),
    ] {
        assert!(found(&fits), "{what}: {fits}");
        assert!(!found(&over), "{what}: {over}");
    }
    let head = |lines: &str| {
        let text = among(lines);
        headings(&text, &lawful_as("rst", &text))[1].to_string()
    };
    // the row above belongs to the title where it is of the same mark, and about as long
    for (above, below, belongs) in [(5, 5, true), (5, 8, true), (5, 9, false), (9, 5, false)] {
        let lines = format!("{}\nTitle\n{}", row("=", above), row("=", below));
        assert_eq!(head(&lines) == lines, belongs, "{lines}");
    }
    assert_eq!(head("-----\nTitle\n====="), "Title\n=====");
    assert_eq!(head("=====\n Tit\n====="), "=====\n Tit\n=====");
}

#[test]
fn titles_are_named_without_their_markup() {
    for (title, want) in [
        ("_private names", "h-private-names"),
        ("_1. no number", "h-1-no-number"),
        (":mod:`os` and :ref:`more <target>`", "h-os-and-more"),
        ("a :not a role: `x`", "h-a-not-a-role-x"),
        ("`Text <https://e.org>`__ there", "h-text-there"),
        ("`Text <no target`", "h-text-no-target"),
        ("|name| *em*", "h-name-em"),
        ("a::`x`", "h-a-x"),
        (":`x`", "h-x"),
    ] {
        let text = among(&format!("{title}\n{}", "=".repeat(60)));
        assert_eq!(names(&lawful_as("rst", &text))[1], want, "{title}");
    }
}

fn noise() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(&[
        "Some text that goes on\nand stops.\n",
        "Literal::\n\n    Title\n    =====\n",
        ".. note::\n\n   Title\n   -----\n",
        "=====  =====\nA      B\n=====  =====\n1      2\n=====  =====\n",
        "- item\n- item\n",
        "-----\n",
        ".. comment\n",
        "+---+---+\n| a | b |\n+---+---+\n",
        "\x0c\n",
    ]);
    prop::collection::vec(piece, 0..5)
        .prop_map(|pieces| pieces.iter().fold(String::new(), |text, piece| text + piece + "\n"))
}

/// Titles with their level, and a text that has them.
fn planted() -> impl Strategy<Value = (Vec<(usize, String)>, String)> {
    const STYLES: [(&str, bool); 4] = [("=", true), ("=", false), ("-", false), ("'", false)];
    let section = ("[A-Z][a-z]{2,8}( [a-z]{1,8}){0,3}", 0usize..4, 0usize..4, noise());
    (prop::collection::vec(section, 2..12), any::<bool>()).prop_map(|(sections, crlf)| {
        let (mut heads, mut text, mut known) = (Vec::new(), String::new(), 0);
        for (title, depth, longer, noise) in sections {
            // A new style is the next one.
            let depth = depth.min(known);
            known = known.max(depth + 1);
            let (mark, above) = STYLES[depth];
            let row = mark.repeat(title.len() + longer);
            let head = if above { format!("{row}\n{title}\n{row}") } else { format!("{title}\n{row}") };
            text.push_str(&format!("{head}\n\n{noise}\n"));
            heads.push((depth, head));
        }
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        (heads, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn planted_titles_are_found((heads, text) in planted()) {
        let marked = lawful_as("rst", &text);
        let found: Vec<String> = headings(&text, &marked).iter().map(|h| h.replace("\r\n", "\n")).collect();
        let want: Vec<String> = heads.iter().map(|(_, head)| head.clone()).collect();
        prop_assert_eq!(found, want);
        // A title lies in the nearest one before it of a style that came earlier, unless
        // that is the lone first one: the document.
        let is_document = heads.iter().filter(|(depth, _)| *depth == 0).count() == 1;
        let mut open: Vec<usize> = Vec::new();
        for (c, (depth, _)) in marked.candidates.iter().zip(&heads) {
            open.retain(|above| above < depth);
            open.push(*depth);
            prop_assert_eq!(c.address.depth(), open.len() - usize::from(is_document), "{}", c.address);
        }
    }

    #[test]
    fn one_changed_byte_breaks_nothing((_, text) in planted(), at in any::<prop::sample::Index>(), byte in 0u8..128) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        lawful_as("rst", &String::from_utf8(bytes).unwrap());
    }

    #[test]
    fn any_text_is_tiled(text in any::<String>()) {
        lawful_as("rst", &text);
    }

    #[test]
    fn lines_of_any_sort_are_tiled(lines in prop::collection::vec("[ \\x0c=~a`:é]{0,6}|={1,9}|-{1,9}|= =|", 0..30)) {
        lawful_as("rst", &lines.join("\n"));
    }
}

#[test]
fn hostile_sizes_take_linear_time() {
    let section = format!("One\n===\n\n{}", "word and word\n".repeat(300_000));
    assert_eq!(is_linear("rst", "one section of 4 MB", &section), 1);
    let many: String = (0..100_000).map(|i| format!("T{i}\n=======\n\nx\n\n")).collect();
    assert_eq!(is_linear("rst", "100,000 titles", &many), 100_000);
    for (what, text) in [
        ("equal signs", "=".repeat(1 << 20)),
        ("a title and equal signs", format!("T\n{}\n", "=".repeat(1 << 20))),
        ("rows of equal signs", "====\n".repeat(200_000)),
        ("overlined by a long row", format!("{0}\nT\n{0}\n", "=".repeat(1 << 20))),
        ("borders", "== ==\n".repeat(200_000)),
        ("borders apart", "== ==\n\nx\n\n".repeat(100_000)),
        ("backticks in a title", format!("{}\n{}\n", "`".repeat(1000), "=".repeat(1000))),
        ("all styles", "A\n===\n\nA\n---\n\nA\n~~~\n\nA\n+++\n\n".repeat(20_000)),
    ] {
        is_linear("rst", what, &text);
    }
}

/// Only what a backtick follows is a role.
#[test]
fn colons_in_a_title_are_no_role_by_themselves() {
    let names_of = |title: &str| {
        let text = std::format!("{title}\n{}\n\nx\n\nOther\n=====\n\ny\n", "=".repeat(title.len()));
        let marked = mark_as("rst", &text);
        names(&marked).join(" ")
    };
    assert_eq!(names_of("*Kind* of :mode:"), "h-kind-of-mode h-other");
    assert_eq!(names_of("Kind of :mode:`a`"), "h-kind-of-a h-other");
}
