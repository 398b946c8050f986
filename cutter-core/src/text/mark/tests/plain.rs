//! Plain text in pages.

use super::*;
use proptest::prelude::*;
use std::format;
use std::string::String;

#[track_caller]
fn cuts(text: &str, want: &[&str]) {
    assert_eq!(names(&lawful_as("rfc-text", text)), want, "{text:?}");
}

const SMALL: &str = "\
Network Working Group                                          A. Author
Request for Comments: 9999                                     June 2014


                     A Protocol of No Use

Abstract

   It does nothing.

Table of Contents

   1. Introduction ....................................................3
      1.1. Terminology ................................................3
   Appendix A. Grammar ...............................................16

1.  Introduction

   Text.



Author                       Standards Track                    [Page 1]
\x0c
RFC 9999                  No Use                               June 2014


1.1.  Terminology

   Text.

2.  Use

   Text.

Appendix A.  Grammar

A.1.  Rules

   rule = x

Author's Address

   A. Author
";

#[test]
fn a_whole_document() {
    let want = [
        "front",
        "h-abstract",
        "toc",
        "sec-1",
        "sec-1.1",
        "sec-2",
        "annex-a",
        "annex-a/sec-a.1",
        "h-authors-address",
    ];
    cuts(SMALL, &want);
    cuts(&SMALL.replace('\n', "\r\n"), &want);
    cuts(&SMALL.replace('\n', "\r"), &want);
    cuts(&format!("\u{feff}{SMALL}"), &want);
    let marked = mark_as("rfc-text", SMALL);
    let types: Vec<&str> = marked.candidates.iter().map(|c| c.section_type.as_str()).collect();
    assert_eq!(
        types,
        ["preface", "preface", "toc", "general", "definitions", "general", "annex", "general", "signature"]
    );
    assert_eq!(marked.candidates[3].citation_address.as_ref().map(Address::as_str), Some("X/sec-1"));
}

/// `line` between texts, where a heading would stand.
fn among(line: &str) -> String {
    format!("0.  First\n\n   Text.\n\n{line}\n\n   Text.\n\n9.  Last\n\n   Text.\n")
}

#[test]
fn what_a_heading_looks_like() {
    for (line, want) in [
        ("1.  Introduction", "sec-1"),
        ("1. Introduction", "sec-1"),
        ("1 Introduction", "sec-1"),
        ("1.    Introduction", "sec-1"),
        ("1.\tIntroduction", "sec-1"),
        ("4.2.1.  Title", "sec-4.2.1"),
        ("4.2.1  Title", "sec-4.2.1"),
        ("4.2.  lower case", "sec-4.2"),
        ("4.  A title with a colon: and more", "sec-4"),
        ("10.4.2.  401 Unauthorized", "sec-10.4.2"),
        ("B.  Tolerance", "annex-b"),
        ("Appendix B.  Long title\n             that goes on", "annex-b"),
        ("APPENDIX C: GRAMMAR", "annex-c"),
        ("Appendix I.  Roman", "annex-i"),
        ("Appendix D", "annex-d"),
        ("3.  Long title that goes on\n    in a line below", "sec-3"),
        ("Full Copyright Statement", "h-full-copyright-statement"),
        ("Status of this Memo", "h-status-of-this-memo"),
        ("Authors' Addresses", "h-authors-addresses"),
        ("Editorial Note (To be removed by RFC Editor)", "h-editorial-note-to-be-removed-xae623202"),
    ] {
        // A number of two parts lies under no division of one: all are siblings.
        let text = among(line);
        let marked = lawful_as("rfc-text", &text);
        let names = names(&marked);
        assert_eq!(names.len(), 3, "{line:?}: {names:?}");
        assert_eq!(names[1].rsplit('/').next(), Some(want), "{line:?}: {names:?}");
        assert_eq!(headings(&text, &marked)[1], line.trim(), "the whole heading");
    }
}

#[test]
fn what_only_looks_like_a_heading() {
    for line in [
        "Fielding & Reschke           Standards Track                    [Page 1]",
        "Author                 [page iv]",
        "RFC 7235                 HTTP/1.1 Authentication               June 2014",
        "\x0c\nRFC 7235 Authentication June 2014",
        "\x0cRFC 7235 Authentication June 2014",
        "Name    Value    Default",
        "1.  Introduction ..........................................3",
        "1.  Introduction . . . . . . . . . . . . . . . . . . . . . 3",
        "1.  Introduction                                           3",
        "   1.  Introduction",
        "\t1.  Introduction",
        "1996 was a year",
        "10 May 1999",
        "3.14 is a number",
        "12",
        "4.",
        "1. This is a sentence of a list, that goes on and stops.",
        "A sentence that stands flush left.",
        "Note: what follows is not a title",
        "token = 1*tchar",
        "a line in lower case",
        "+-----+",
        "- item",
        "1.  Title\nwith a line below it that stands flush left",
        "1.  Title\n       with a line below it that stands nowhere",
        "Two lines\nof a paragraph",
    ] {
        let text = among(line);
        let marked = lawful_as("rfc-text", &text);
        assert_eq!(names(&marked), ["sec-0", "sec-9"], "{line:?}");
    }
    cuts("Title\n\nText that stands flush left.\n\n1.  One\n\n   x\n", &["front", "sec-1"]);
    let long = format!("1.  {}", "word ".repeat(60));
    assert_eq!(names(&lawful_as("rfc-text", &among(&long))), ["sec-0", "sec-9"]);
}

#[test]
fn a_page_break_hides_no_heading() {
    let page =
        "\n\n\nAuthor           Track            [Page 4]\n\x0c\nRFC 1        Title         June 2014\n\n\n";
    let text = format!("1.  One\n\n   Text\n{page}   goes on.\n{page}2.  Two\n{page}3.  Three\n\n   x\n");
    cuts(&text, &["sec-1", "sec-2", "sec-3"]);
    // A numbered heading at the very top of a page, and one whose page has no header.
    cuts("1.  One\n\n   Text\n\x0c2.  Two\n\n   x\n\x0c\n3.  Three\n\n   x\n", &["sec-1", "sec-2", "sec-3"]);
    let marked = mark_as("rfc-text", "1.  One\n\n   Text\n\x0c2.  Two\n\n   x\n");
    assert_eq!(marked.candidates[1].start, "1.  One\n\n   Text\n\x0c".len());
}

#[test]
fn a_lone_number_without_a_full_stop_goes_on_from_the_one_before() {
    cuts(
        "1 One\n\n   x\n\n2 Two\n\n   x\n\n7 Seven\n\n   x\n\n3 Three\n\n   x\n",
        &["sec-1", "sec-2", "sec-3"],
    );
    // A printed number with its full stop is taken as it is, and a duplicate told.
    let marked = lawful_as("rfc-text", "1. One\n\n   x\n\n5. Five\n\n   x\n\n1. One\n\n   x\n");
    assert_eq!(names(&marked), ["sec-1", "sec-5", "sec-1~2"]);
    assert_eq!(marked.duplicates.len(), 1);
}

/// What is in brackets at the end of a line is a page's number, or belongs to a title.
#[test]
fn a_footer_is_a_word_and_a_number_and_no_more() {
    for (line, is_footer) in [
        ("Author   [Page 1]", true),
        ("Author   [PAGE x2]", true),
        ("Author [Page]", false),
        ("Author [Page 1 of]", false),
        ("Author [Side 1]", false),
        ("Author [Page 1-2]", false),
        ("Author [Page 1].", false),
        ("Author Page 1]", false),
    ] {
        assert_eq!(super::super::plain::is_footer(line), is_footer, "{line}");
    }
}

/// Sizes at their bounds: so much is a title, and one more is none.
#[test]
fn titles_at_their_bounds() {
    let found = |line: &str| names(&lawful_as("rfc-text", &among(line))).len() == 3;
    let word = |n: usize| "w".repeat(n);
    for (what, fits, over) in [
        ("240 bytes", format!("1.  T{}", word(235)), format!("1.  T{}", word(236))),
        (
            "240 bytes together",
            format!("1.  T{}\n    {}", word(200), word(31)),
            format!("1.  T{}\n    {}", word(200), word(32)),
        ),
        ("80 characters", format!("Ä{}", word(79)), format!("Ä{}", word(80))),
        ("three lines", "1.  T\n    a\n    b".into(), "1.  T\n    a\n    b\n    c".into()),
        ("six words and a full stop", "1.  A b c d e f.".into(), "1.  A b c d e f g.".into()),
        ("three digits", "999.  T".into(), "1000.  T".into()),
        ("four digits in a part", "1.9999.  T".into(), "1.99999.  T".into()),
        ("sixteen parts", format!("1{}.  T", ".1".repeat(15)), format!("1{}.  T", ".1".repeat(16))),
        ("no second line that stops", "1.  T\n    a".into(), "1.  T\n    a.".into()),
        ("two blanks", "1.  A  b".into(), "1.  A   b".into()),
        ("three dots", "1.  A...".into(), "1.  A....".into()),
        ("a quote after a number", "1 \"A\"".into(), "1 'A'".into()),
        ("no column of its own", "Title".into(), "Ti\ttle".into()),
    ] {
        assert!(found(&fits), "{what}: {fits}");
        assert!(!found(&over), "{what}: {over}");
    }
    for mark in ["=", "{", "}", "<", ">", "|", ";"] {
        assert!(!found(&format!("A {mark} b")), "{mark}");
    }
    for stop in [".", ",", ";", ":"] {
        assert!(!found(&format!("A title{stop}")), "{stop}");
    }
    // without a text below it a title alone is none, but for a heading that follows
    cuts("1.  One\n\n   x\n\nTitle\n", &["sec-1"]);
    cuts("1.  One\n\n   x\n\nTitle\n\n2.  Two\n\n   x\n", &["sec-1", "h-title", "sec-2"]);
    cuts("1.  One\n\n   x\n\nTitle\n\nOther\n\n   x\n", &["sec-1", "h-other"]);
}

/// What stands between headings.
fn noise() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(&[
        "   Some text that goes on\n   and stops.\n",
        "\n\n\nAuthor           Track            [Page 4]\n\x0c\nRFC 1        A Title         June 2014\n\n",
        "   1.  A list in the text\n",
        "   token = \"1.\"  ; grammar\n",
        "      Name     Value    Default\n",
        "     +------+\n     | 1. x |\n     +------+\n",
        "A sentence that stands flush left.\n",
        "Column     column     column\n",
    ]);
    prop::collection::vec(piece, 0..5).prop_map(|pieces| {
        pieces.iter().fold(String::from("   Text.\n\n"), |text, piece| text + piece + "\n")
    })
}

fn planted() -> impl Strategy<Value = (Vec<String>, String)> {
    let section = ("[A-Z][a-z]{1,8}( [a-z]{1,8}){0,3}", 1usize..4, any::<bool>(), noise());
    (prop::collection::vec(section, 2..12), any::<bool>()).prop_map(|(sections, crlf)| {
        let (mut numbers, mut heads, mut text) = (std::vec![0u32; 3], Vec::new(), String::new());
        for (title, depth, dotted, noise) in sections {
            numbers[depth - 1] += 1;
            numbers[depth..].fill(0);
            let number: Vec<String> = numbers[..depth].iter().map(u32::to_string).collect();
            let number = number.join(".");
            let head = if dotted || depth == 1 {
                format!("{number}.  {title}")
            } else {
                format!("{number}  {title}")
            };
            text.push_str(&format!("{head}\n\n{noise}\n"));
            heads.push(head);
        }
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        (heads, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn planted_headings_are_found((heads, text) in planted()) {
        let marked = lawful_as("rfc-text", &text);
        prop_assert_eq!(headings(&text, &marked), heads);
    }

    #[test]
    fn one_changed_byte_breaks_nothing((_, text) in planted(), at in any::<prop::sample::Index>(), byte in 0u8..128) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        lawful_as("rfc-text", &String::from_utf8(bytes).unwrap());
    }

    #[test]
    fn any_text_is_tiled(text in any::<String>()) {
        lawful_as("rfc-text", &text);
    }

    #[test]
    fn lines_of_any_sort_are_tiled(lines in prop::collection::vec("[ \\x0c1A.a§é]{0,6}|[A-Z1-9]\\.? {1,2}[A-Z][a-z]+|", 0..30)) {
        lawful_as("rfc-text", &lines.join("\n"));
    }
}

#[test]
fn hostile_sizes_take_linear_time() {
    let section = format!("1.  One\n\n{}", "   word and word\n".repeat(250_000));
    assert_eq!(is_linear("rfc-text", "one section of 4 MB", &section), 1);
    let many: String = (1..=100_000).map(|i| format!("{}.{}.  T\n\n   x\n\n", i / 500, i % 500)).collect();
    assert_eq!(is_linear("rfc-text", "100,000 headings", &many), 100_000);
    for (what, text) in [
        ("equal signs", "=".repeat(1 << 20)),
        ("digits", "1".repeat(1 << 20)),
        ("dotted digits", "1.".repeat(1 << 19)),
        ("form feeds", "\x0c".repeat(1 << 20)),
        ("flush lines", "Flush\n\n".repeat(200_000)),
        ("carriage returns", "\r".repeat(1 << 20)),
        ("titles that go on", "1.  T\n    x\n    x\n    x\n".repeat(50_000)),
        ("blanks", " ".repeat(1 << 20)),
    ] {
        is_linear("rfc-text", what, &text);
    }
}
