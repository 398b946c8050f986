//! The line scanner finds exactly the parser's headings.

use super::super::blocks;
use super::*;
use proptest::prelude::*;
use std::string::String;

fn scan_headings(text: &str) -> Option<Vec<Heading>> {
    super::scan_headings(text, usize::MAX)
}

fn parsed_headings(text: &str) -> Vec<Heading> {
    blocks::parsed_headings(text, usize::MAX)
}

fn agrees(text: &str) -> bool {
    scan_headings(text).is_none_or(|fast| fast == parsed_headings(text))
}

/// Lines that open, close and confuse blocks.
const PIECES: &[&str] = &[
    "text",
    "# A",
    "## B #",
    "#C",
    "####### D",
    "===",
    "---",
    "--",
    "-",
    "=",
    "***",
    "_ _ _",
    "```",
    "~~~",
    "```x`",
    "````",
    "    code",
    "\tcode",
    "> quote",
    ">",
    "> # Q",
    "- item",
    "- # I",
    "-",
    "+ x",
    "1. one",
    "2. two",
    "1.",
    "10) ten",
    "  indented",
    "   # E",
    " - sub",
    "   more",
    "  ```",
    "<!-- c",
    "-->",
    "<pre>",
    "</pre>",
    "<div>",
    "<a b>",
    "<?x",
    "?>",
    "<!X",
    "<![CDATA[",
    "]]>",
    "[a]: /u",
    "[a]:",
    "/u 'x",
    "'",
    "[b] c",
    "a|b",
    "---|---",
    "\\",
    "é",
    "",
    "",
    "",
    "   ",
    "\u{a0}",
    "\u{feff}",
    "* * x",
    "-\t# t",
    "-     # far",
    "1234567890. x",
    "    # no",
    "  ---",
    "  ===",
    ">     # c",
    "- > # d",
    "<!-->",
    "<b>x</b>",
    "- ```",
    "> ```",
    "\u{c}",
    "a\rb",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
    #[test]
    fn equals_the_parser_on_lines(
        lines in prop::collection::vec((prop::sample::select(PIECES), prop::sample::select(&["\n", "\n", "\r\n"][..])), 0..14),
        last in prop::sample::select(PIECES),
    ) {
        let mut text: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
        text.push_str(last);
        prop_assert!(agrees(&text), "{:?}\n{:?}\n{:?}", text, scan_headings(&text), parsed_headings(&text));
    }

    #[test]
    fn equals_the_parser_on_noise(text in "[ \t\na#=`~<>!?\\[\\]:/'1.)*_+|\\\\-]{0,60}") {
        prop_assert!(agrees(&text), "{:?}\n{:?}\n{:?}", text, scan_headings(&text), parsed_headings(&text));
    }

    #[test]
    fn equals_the_parser_on_any_text(text in any::<String>()) {
        prop_assert!(agrees(&text));
    }
}

#[test]
fn breaks_are_found_at_every_place_and_for_every_byte() {
    for b in 0..=u8::MAX {
        for at in 0..20 {
            let mut bytes = [0xff; 20];
            bytes[at] = b;
            let want = if (0x0a..=0x0d).contains(&b) { at } else { 20 };
            assert_eq!(first_break(&bytes), want, "{b:#x} at {at}");
        }
    }
    assert_eq!(first_break(b"\t\x0e\x8a\x8d\x09\x0e\xff\x00\n\n"), 8);
}

#[test]
fn line_ends() {
    assert_eq!(line_end(b"ab\ncd", 0), Some((2, 3)));
    assert_eq!(line_end(b"ab\ncd", 3), Some((5, 5)));
    assert_eq!(line_end(b"ab\r\n", 0), Some((2, 4)));
    for odd in [&b"a\r"[..], b"a\r\r\n", b"a\rb\n", b"a\x0b\n", b"\x0c\n"] {
        assert_eq!(line_end(odd, 0), None, "{odd:?}");
    }
}

#[test]
fn it_knows_ordinary_text() {
    let text =
        "# A\n\ntext\n\n- item\n- item\n\n## B\n\n```\n# no\n```\n\nC\n===\n<!-- # no\n-->\n> # no\n\nlast\n";
    let found: Vec<u8> = scan_headings(text).unwrap().iter().map(|h| h.level).collect();
    assert_eq!(found, [1, 2, 1]);
    assert!(agrees(text));
}

/// Each way to open, leave or confuse a block once, for all of three in a row.
const EACH: &[&str] = &[
    "text",
    "# A",
    "===",
    "---",
    "***",
    "```",
    "~~~~",
    "    code",
    "> q",
    "- i",
    "-",
    "2. t",
    "1. o",
    " - s",
    "  in",
    "<!-- c",
    "-->",
    "<div>",
    "<?x ?>",
    "<pre>",
    "[a]: /u",
    "####### h",
    "  # E",
    "",
];

#[test]
fn three_lines_of_any_kind_are_read_as_the_parser_does_and_few_are_left_to_it() {
    let (mut all, mut left) = (0, 0);
    for a in EACH {
        for b in EACH {
            for c in EACH {
                let text = [a, "\n", b, "\n", c, "\n---\n\n# Z\n"].concat();
                all += 1;
                match scan_headings(&text) {
                    Some(fast) => assert!(fast == parsed_headings(&text), "{text:?}"),
                    None => left += 1,
                }
            }
        }
    }
    assert_eq!((all, left), (13_824, 3162), "how many only the parser can tell: fewer are better");
}

fn files(folder: &std::path::Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
}

#[test]
fn equals_the_parser_on_the_corpus() {
    let Some(corpus) = std::env::var_os("CUTTER_CORPUS") else {
        std::eprintln!("SKIPPED: set CUTTER_CORPUS to a folder of documents to run this test");
        return;
    };
    let mut all = Vec::new();
    files(std::path::Path::new(&corpus), &mut all);
    let (mut known, mut left) = (0usize, 0usize);
    for path in all {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        match scan_headings(&text) {
            Some(fast) => {
                assert!(fast == parsed_headings(&text), "{}", path.display());
                known += text.len();
            }
            None => {
                std::println!("left to the parser: {}", path.display());
                left += text.len();
            }
        }
    }
    std::println!("{known} bytes by lines, {left} by the parser");
    assert!(known > left, "the scanner should know most real text: {known} of {}", known + left);
}
