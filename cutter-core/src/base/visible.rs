//! Text of other people, made safe to look at: the one place that decides what a terminal or a
//! Markdown document is given of a document's text, a path, a name, an id or an error of
//! another program.
//!
//! What moves a cursor, erases, turns the direction of reading or stands unseen becomes an
//! escape that is seen, such as `\u{1b}`. The escape is unambiguous: where a text itself holds
//! `\u{`, its backslash is written as `\u{5c}`, so no two texts look the same. Everything else
//! stays to the byte; the joiners that Persian, Hindi and emoji are written with too.
//!
//! It knows nothing of terminals, colours or Markdown's own signs: `cutter-cli` calls it for
//! every byte that it prints for people, `report` for every text that it renders.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::Write as _;

/// Whether a character acts on what shows it instead of being seen: C0 and C1 controls, DEL,
/// marks that turn the direction of reading, line and paragraph separators, tag characters,
/// and the format characters that no script is written with.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{180e}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Characters without width that scripts are written with, and that a name has no use for.
#[must_use]
pub const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}')
}

/// Whether a character only lays a running text out: LF, CRLF, tab.
fn is_layout(c: char, next: Option<char>) -> bool {
    matches!(c, '\n' | '\t') || (c == '\r' && next == Some('\n'))
}

/// A running text: line breaks (LF, CRLF) and tabs stay.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c, next| is_hidden(c) && !is_layout(c, next))
}

/// A name, a path, an id: one line of it, so line breaks and tabs become escapes too, and so do
/// characters without width: two names that differ look different.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c, _| is_hidden(c) || is_joiner(c))
}

/// A text of several lines as one, trimmed, for a cell or a field: its line breaks and tabs
/// become spaces, and the rest is a [`line()`].
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if !text.contains(['\n', '\t']) {
        return line(text);
    }
    let spaced = text.replace("\r\n", " ").replace(['\n', '\t'], " ");
    Cow::Owned(line(&spaced).into_owned())
}

/// How many characters [`text`] makes visible.
#[must_use]
pub fn count(text: &str) -> usize {
    with_next(text).filter(|&(_, c, next)| is_hidden(c) && !is_layout(c, next)).count()
}

/// A JSON document: hidden characters inside its strings as JSON's own escapes, so that it
/// reads back as the same values.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    // JSON's own blanks stand between its strings; within them they are escaped already
    let is_raw = |c: char| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(is_raw) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_raw(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // writing into a String does not fail
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn with_next(text: &str) -> impl Iterator<Item = (usize, char, Option<char>)> {
    let mut rest = text.char_indices().peekable();
    core::iter::from_fn(move || {
        let (at, c) = rest.next()?;
        Some((at, c, rest.peek().map(|(_, next)| *next)))
    })
}

fn escaped(text: &str, is_shown: impl Fn(char, Option<char>) -> bool) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'[' | b']'..=b'~')) {
        return Cow::Borrowed(text);
    }
    // a backslash of the text's own that would begin an escape
    let is_own = |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with("\\u{"));
    let must = |&(at, c, next): &(usize, char, Option<char>)| is_shown(c, next) || (c == '\\' && is_own(at));
    let Some((first, ..)) = with_next(text).find(must) else { return Cow::Borrowed(text) };
    let (before, after) = text.split_at(first);
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(before);
    for (at, c, next) in with_next(after) {
        if must(&(first + at, c, next)) {
            // writing into a String does not fail
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// What an escaped text was, read by the one rule: `\u{X}` is the character X.
    fn read_back(mut shown: &str) -> String {
        let mut out = String::new();
        while let Some(at) = shown.find("\\u{") {
            let (before, rest) = shown.split_at(at);
            let (code, after) = rest[3..].split_once('}').unwrap();
            out.push_str(before);
            out.push(u32::from_str_radix(code, 16).ok().and_then(char::from_u32).unwrap());
            shown = after;
        }
        out + shown
    }

    #[test]
    fn what_acts_on_a_terminal_is_seen() {
        assert_eq!(text("900\x1b[2K\r100\u{9b}1m\u{202e}"), "900\\u{1b}[2K\\u{d}100\\u{9b}1m\\u{202e}");
        assert_eq!(text("a\r\nb\tc\n"), "a\r\nb\tc\n");
        assert_eq!(text("\r\r\n"), "\\u{d}\r\n");
        assert_eq!(line("a\n\u{200b}b\u{e0041}"), "a\\u{a}\\u{200b}b\\u{e0041}");
        assert_eq!(one_line(" a\r\nb\tc\rd\n"), "a b c\\u{d}d");
        assert_eq!(text("a literal \\u{1b} and C:\\users"), "a literal \\u{5c}u{1b} and C:\\users");
        assert_eq!(count("a\r\nb\rc\x1b\u{2066}\t"), 3);
        assert_eq!(json("{\"a\":\"\u{9b}\u{e0001}\"}\n"), "{\"a\":\"\\u009b\\udb40\\udc01\"}\n");
    }

    #[test]
    fn ordinary_text_of_any_script_stays_to_the_byte() {
        for plain in [
            "§ 7 Abs. 2 — „Größe“",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "👩\u{200d}🚒\u{fe0f}",
            "Ver\u{ad}ord\u{ad}nung",
            "$\\alpha$ \\n \\\\ \\u",
        ] {
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<String>(),
            "[\\\\u{}0-9a-f]{0,8}",
            (0u32..0xe0100).prop_map(|n| char::from_u32(n).unwrap_or('\r').to_string()),
            "[\r\n\t\u{1b}\u{7f}-\u{9f}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2066}-\u{2069}]{0,6}",
        ];
        prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nothing_hidden_gets_out_and_nothing_is_lost(given in hostile()) {
            for shown in [text(&given), line(&given)] {
                prop_assert_eq!(read_back(&shown), given.as_str());
            }
            for shown in [line(&given), one_line(&given)] {
                prop_assert!(!shown.contains(|c| is_hidden(c) || is_joiner(c)), "{:?}", shown);
            }
            let shown = text(&given);
            prop_assert_eq!(count(&shown), 0, "{:?}", shown);
            let laid_out = shown.replace("\r\n", "\n");
            prop_assert!(!laid_out.contains(|c| is_hidden(c) && c != '\n' && c != '\t'), "{:?}", shown);
            if count(&given) == 0 && !given.contains("\\u{") {
                prop_assert_eq!(&*shown, given.as_str());
            }
            let document = serde_json::to_string_pretty(&Vec::from([&given])).unwrap();
            let shown = json(&document);
            prop_assert!(!shown.replace('\n', "").contains(is_hidden));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), Vec::from([given.clone()]));
        }
    }
}
