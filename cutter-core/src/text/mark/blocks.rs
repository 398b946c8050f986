//! Where the headings are: spans of heading lines at the top level of a Markdown text.
//!
//! The truth is CommonMark's block structure as `pulldown-cmark` parses it, without
//! extensions: a `#` in a fence, an indented block, an HTML comment, a quote or a list is
//! no heading.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

use crate::text::address::text::clean;

use super::head;

/// The longest part of a heading that is read for its address.
const MAX_TITLE_BYTES: usize = 1024;

/// A heading at the top level, in bytes of the text given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    /// Whole lines, with the underline of a setext heading and the last line end.
    pub(super) span: Range<usize>,
    /// 1 to 6.
    pub(super) level: u8,
    /// Underlined rather than marked with `#`.
    pub(super) setext: bool,
}

/// How many nodes the CommonMark parser makes of `text`, at most: some for each line, and for
/// each character that may open something. A node takes it 48 bytes.
pub(super) fn parsed_nodes(text: &str) -> usize {
    let mut lead = true;
    let nodes = |byte: u8| {
        let opens = match byte {
            b'\n' | b'\r' => {
                lead = true;
                return 2;
            }
            b'*' | b'_' | b'[' | b']' | b'!' | b'<' | b'&' | b'\\' | b'`' => true,
            // A quote, or an item of a list, which may stand in another.
            b'>' | b'-' | b'+' | b'.' | b')' => lead,
            _ => false,
        };
        lead = lead && (opens || byte.is_ascii_digit() || byte.is_ascii_whitespace());
        if opens { 2 } else { 0 }
    };
    text.bytes().map(nodes).sum()
}

/// The headings of `text` by the CommonMark parser; it ends behind `most`. A byte-order mark
/// hides the first line's heading from it, so it is not shown one.
pub(super) fn parsed_headings(text: &str, most: usize) -> Vec<Heading> {
    let skip = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let body = &text[skip..];
    let mut depth = 0usize;
    let mut found = Vec::new();
    for (event, range) in Parser::new_ext(body, Options::empty()).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                depth += 1;
                let start = if range.start == 0 { 0 } else { range.start + skip };
                let span = whole_lines(text, line_start(text, start)..range.end + skip);
                let setext = !is_atx(text[span.clone()].trim_start_matches(['\u{feff}', ' ']));
                found.push(Heading { span, level: level as u8, setext });
                if found.len() > most {
                    break;
                }
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

fn is_atx(line: &str) -> bool {
    let level = line.bytes().take_while(|&b| b == b'#').count();
    let spaced = line.as_bytes().get(level).is_none_or(|b| b.is_ascii_whitespace() || *b == 0x0b);
    (1..=6).contains(&level) && spaced
}

fn line_start(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().rposition(|&b| b == b'\n' || b == b'\r').map_or(0, |i| i + 1)
}

fn whole_lines(text: &str, span: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let ended = span.end > span.start && matches!(bytes[span.end - 1], b'\n' | b'\r');
    let end = if ended {
        span.end + usize::from(bytes[span.end - 1] == b'\r' && bytes.get(span.end) == Some(&b'\n'))
    } else {
        let rest = &bytes[span.end..];
        match rest.iter().position(|&b| b == b'\n' || b == b'\r') {
            None => bytes.len(),
            Some(i) => span.end + i + 1 + usize::from(rest[i] == b'\r' && rest.get(i + 1) == Some(&b'\n')),
        }
    };
    span.start..end
}

/// The lines above a setext underline, or an ATX heading's text between its `#`s, as a
/// span of the text that `heading` lies in.
pub(super) fn title_span(text: &str, heading: &Heading) -> Range<usize> {
    let raw = &text[heading.span.clone()];
    let body = raw.trim_end_matches(['\n', '\r']);
    let (from, to) = if heading.setext {
        let underline = body.rfind(['\n', '\r']).unwrap_or(0);
        let lines = &body[..underline];
        (lines.len() - lines.trim_start_matches([' ', '\u{feff}', '\t']).len(), lines.trim_end().len())
    } else {
        let opened = body.trim_start_matches(['\u{feff}', ' ']).trim_start_matches('#');
        let inner = opened.trim_start_matches([' ', '\t']);
        let from = body.len() - inner.len();
        let closed = inner.trim_end_matches([' ', '\t']);
        let bare = closed.trim_end_matches('#');
        // A closing run of # counts only after a blank.
        let kept = if bare.is_empty() || bare.ends_with([' ', '\t']) { bare } else { closed };
        (from, from + kept.trim_end_matches([' ', '\t']).len())
    };
    let start = heading.span.start;
    start + from.min(to)..start + to
}

/// A heading's title: inline markup, `{#id}` and invisible characters removed, white
/// space collapsed, NFC. Superscript digits stay superscript (`14<sup>1</sup>` is `14¹`).
pub(super) fn plain_title(raw: &str) -> Cow<'_, str> {
    let raw = strip_attributes(head(raw, MAX_TITLE_BYTES));
    if !raw.bytes().any(|b| matches!(b, b'*' | b'_' | b'[' | b'<' | b'`' | b'&' | b'\\' | b'!')) {
        return clean(raw);
    }
    // Behind `# ` the text is inline whatever it starts with; its line ends are blanks.
    let mut line = String::with_capacity(raw.len() + 2);
    line.push_str("# ");
    line.extend(raw.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }));
    let mut resolve = |_: pulldown_cmark::BrokenLink<'_>| Some((CowStr::Borrowed(""), CowStr::Borrowed("")));
    let parser = Parser::new_with_broken_link_callback(&line, Options::empty(), Some(&mut resolve));
    let (mut out, mut raised, mut image) = (String::with_capacity(raw.len()), false, 0usize);
    for event in parser {
        match event {
            Event::Start(Tag::Image { .. }) => image += 1,
            Event::End(TagEnd::Image) => image = image.saturating_sub(1),
            Event::Text(text) | Event::Code(text) if image == 0 => {
                let digits = raised && text.bytes().all(|b| b.is_ascii_digit());
                out.extend(text.chars().map(|c| if digits { superscript(c) } else { c }));
            }
            Event::InlineHtml(tag) => {
                let name = tag.trim_matches(['<', '>', '/']);
                if name.eq_ignore_ascii_case("sup") {
                    raised = !tag.starts_with("</");
                } else if name.trim_end().eq_ignore_ascii_case("br") {
                    out.push(' ');
                }
            }
            Event::SoftBreak | Event::HardBreak => out.push(' '),
            _ => {}
        }
    }
    Cow::Owned(clean(&out).into_owned())
}

const fn superscript(c: char) -> char {
    match c {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        other => other,
    }
}

/// `Title {#id .class}` without its attributes.
fn strip_attributes(raw: &str) -> &str {
    let trimmed = raw.trim_end();
    match trimmed.rfind('{') {
        Some(at) if trimmed.ends_with('}') && trimmed[at + 1..].starts_with(['#', '.', ':']) => {
            trimmed[..at].trim_end()
        }
        _ => raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_widened_to_the_end_of_its_line() {
        let text = "ab\ncd\r\nef\rgh";
        for (span, want) in [
            (0..1, 0..3),
            (0..2, 0..3),
            (0..3, 0..3),
            (3..4, 3..7),
            (3..6, 3..7),
            (3..7, 3..7),
            (7..8, 7..10),
            (7..10, 7..10),
            (10..11, 10..12),
        ] {
            assert_eq!(whole_lines(text, span.clone()), want, "{span:?}");
        }
    }

    #[test]
    fn a_title_is_plain_text() {
        for (raw, want) in [
            ("14<sup>1</sup> x", "14¹ x"),
            ("14<SUP>90</SUP>", "14⁹⁰"),
            ("14<sup>a1</sup>", "14a1"),
            ("14<sub>1</sub>", "141"),
            ("a<br>b<br />c<BR/>d", "a b c d"),
            ("a\nb*c*\nd", "a bc d"),
            ("x ![a [b](c) d](e) y", "x y"),
            ("`<b>` &amp; \\*", "<b> & *"),
            ("T {#id}", "T"),
            ("T {.class}", "T"),
            ("T {:x}", "T"),
            ("T {x}", "T {x}"),
            ("T {#id} x", "T {#id} x"),
            ("# not twice", "# not twice"),
        ] {
            assert_eq!(plain_title(raw), want, "{raw}");
        }
        let long = "w".repeat(MAX_TITLE_BYTES + 1);
        assert_eq!(plain_title(&long).len(), MAX_TITLE_BYTES);
    }

    #[test]
    fn what_may_open_something_makes_nodes_and_words_do_not() {
        for (text, nodes) in [
            ("", 0),
            ("words, and more words", 0),
            ("a\nb\rc\n", 6),
            ("[a]", 4),
            ("a - b + c", 0),
            ("- > 1. a", 6),
            ("*a* `b` <c> &d \\e !f _g_", 20),
        ] {
            assert_eq!(parsed_nodes(text), nodes, "{text:?}");
        }
    }
}
