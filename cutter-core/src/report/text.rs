//! Pieces of Markdown that hold any text without breaking.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::base::clip::clip;
pub(super) use crate::base::visible::one_line;

/// As [`one_line`], at most `max` bytes of it.
fn shown(text: &str, max: usize) -> Cow<'_, str> {
    let line = one_line(text);
    if line.len() <= max { line } else { Cow::Owned(clip(&line, max)) }
}

/// The numeric entity of a character.
pub(super) fn entity(c: char) -> String {
    format!("&#{};", u32::from(c))
}

/// Prose: Markdown's own signs as entities, so that what is read is what was written.
pub(super) fn prose(text: &str, max: usize) -> String {
    let text = shown(text, max);
    let is_plain =
        |c: u8| c.is_ascii_alphanumeric() || matches!(c, b' ' | b',' | b'/' | b';' | b'-' | b'.' | b':');
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_plain) {
        return text.into_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    for (i, c) in chars.iter().enumerate() {
        let beside_word =
            |j: Option<usize>| j.and_then(|j| chars.get(j)).is_some_and(|c| c.is_alphanumeric());
        let inner_underscore = *c == '_' && beside_word(i.checked_sub(1)) && beside_word(i.checked_add(1));
        let special = matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '|' | '~');
        let leading = i == 0 && matches!(c, '#' | '-' | '+' | '=' | ':' | '!');
        // "1." or "1)" at the start would begin a list
        let number =
            matches!(c, '.' | ')') && i > 0 && i < 10 && chars.iter().take(i).all(char::is_ascii_digit);
        if (special && !inner_underscore) || leading || number {
            out.push_str(&entity(*c));
        } else {
            out.push(*c);
        }
    }
    out
}

/// A machine's value (name, path, digest, address): a code span where that shows it exactly.
pub(super) fn code(text: &str, max: usize) -> String {
    let text = shown(text, max);
    if text.is_empty() {
        return "(empty)".into();
    }
    if text.contains(['`', '|', '\\']) { prose(&text, max) } else { ["`", &text, "`"].concat() }
}

/// A table: every row has as many cells as the header, whatever the cells hold. At most
/// `max_rows` rows, the rest as a count.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], max_rows: usize) -> String {
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for cell in cells {
            out.push_str("| ");
            out.push_str(cell);
            out.push(' ');
        }
        out.push_str("|\n");
    };
    line(&mut header.iter().copied());
    line(&mut header.iter().map(|_| "---"));
    for row in rows.iter().take(max_rows) {
        line(&mut (0..header.len()).map(|i| row.get(i).map_or("", String::as_str)));
    }
    if rows.len() > max_rows {
        let more = format!("and {} more", rows.len() - max_rows);
        line(&mut (0..header.len()).map(|i| if i == 0 { more.as_str() } else { "" }));
    }
    out
}

/// A bulleted list, at most `max` items and the rest as a count; `- none` if there are none.
pub(super) fn bullets(items: &[String], max: usize, cell: usize) -> String {
    if items.is_empty() {
        return "- none\n".into();
    }
    let mut out = String::new();
    for item in items.iter().take(max) {
        out.push_str("- ");
        out.push_str(&prose(item, cell));
        out.push('\n');
    }
    if items.len() > max {
        out.push_str(&format!("- and {} more\n", items.len() - max));
    }
    out
}

/// A YAML scalar on one line: plain where YAML reads it back as this text, quoted otherwise.
pub(super) fn scalar(text: &str, max: usize) -> String {
    const WORDS: [&str; 7] = ["true", "false", "null", "yes", "no", "on", "off"];
    let text = shown(text, max);
    let plain = |c: u8| {
        c.is_ascii_alphanumeric()
            || matches!(c, b'_' | b'.' | b'/' | b'-' | b'+' | b' ' | b',' | b';' | b'(' | b')')
    };
    let is_word = text.bytes().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_word {
        return text.into_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// YAML lines with aligned colons, each behind `prefix`; at most `max` and the rest as a comment.
pub(super) fn yaml(pairs: &[(String, String)], prefix: &str, max: usize, cell: usize) -> String {
    let mut out = String::new();
    for (key, value) in pairs.iter().take(max) {
        let key = scalar(key, cell.min(64));
        let _ = writeln!(out, "{prefix}{key:<21}: {}", scalar(value, cell));
    }
    if pairs.len() > max {
        out.push_str(&format!("{prefix}# and {} more in the sidecar\n", pairs.len() - max));
    }
    out
}

/// A fence that no line of `text` can close.
pub(super) fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Bytes for people, exact: `1 234 567 bytes`.
pub(super) fn bytes(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out + " bytes"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_shows_what_was_written_and_means_nothing() {
        assert_eq!(prose("a_b _c_ <b> `x` 1|2", 99), "a_b &#95;c&#95; &#60;b&#62; &#96;x&#96; 1&#124;2");
        assert_eq!(prose("# h", 99), "&#35; h");
        assert_eq!(prose("12. x", 99), "12&#46; x");
        assert_eq!(prose("a\nb\u{202e}c", 99), "a b&#92;u{202e}c");
        assert_eq!(scalar("a\r\nb\x1b", 99), "\"a b\\\\u{1b}\"");
    }

    #[test]
    fn code_is_a_span_only_where_that_is_exact() {
        assert_eq!(code("a_b", 9), "`a_b`");
        assert_eq!(code("a|b`c\\", 9), "a&#124;b&#96;c&#92;");
        assert_eq!(code("", 9), "(empty)");
    }

    #[test]
    fn scalars_read_back_as_text() {
        assert_eq!(scalar("0 content rows", 99), "0 content rows");
        for (text, quoted) in
            [("true", "\"true\""), ("a: b", "\"a: b\""), ("", "\"\""), ("a\"\\", "\"a\\\"\\\\\"")]
        {
            assert_eq!(scalar(text, 99), quoted);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1_234_567), "1 234 567 bytes");
    }

    #[test]
    fn no_line_closes_the_fence() {
        assert_eq!(fence("x"), "```");
        assert_eq!(fence("a ````` b"), "``````");
    }
}
