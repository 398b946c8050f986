//! The lines of a text that may designate: headings, and what stands behind an empty line.

use alloc::vec::Vec;

use super::Plain;
use crate::text::mark::{head, plain_line};

/// Longer lines are read only so far.
const MAX_LINE_BYTES: usize = 160;

/// A line that may designate.
pub(super) struct Line<'t> {
    /// Without marks and inline markup.
    pub(super) plain: Plain<'t>,
    /// It is marked as a heading, with a blank or without.
    pub(super) heading: bool,
    /// Without the blank.
    pub(super) loose: bool,
    /// Nothing else stands on it.
    pub(super) short: bool,
}

/// The first lines of `text` that may designate, at most `limit`, outside of closed front
/// matter.
pub(super) fn first_lines(text: &str, limit: usize) -> Vec<Line<'_>> {
    let text = text.trim_start_matches('\u{feff}');
    let mut found = Vec::new();
    let mut after_blank = true;
    let mut front = text.starts_with("---\n") || text.starts_with("---\r\n");
    for (i, line) in text.split_inclusive('\n').enumerate() {
        let raw = line.trim_end();
        if front {
            front = i == 0 || !(raw == "---" || raw == "..." || raw.starts_with("--- "));
            if front || !raw.starts_with("--- ") {
                continue;
            }
        }
        let text =
            raw.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}'));
        if text.is_empty() {
            after_blank = true;
            continue;
        }
        let level = text.bytes().take_while(|&b| b == b'#').count();
        let inner = &text[level..];
        let loose = (1..=6).contains(&level) && !inner.starts_with([' ', '\t']);
        let heading = (1..=6).contains(&level);
        if heading || after_blank {
            let shown = inner.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_'));
            let cut = head(shown, MAX_LINE_BYTES).len();
            let lead = inner.len() - shown.len();
            let plain = plain_line(&inner[..lead + cut], lead);
            found.push(Line { plain, heading, loose, short: raw.len() <= MAX_LINE_BYTES });
            if found.len() >= limit {
                break;
            }
        }
        after_blank = heading;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_the_rulers_at_the_top_is_no_line_of_the_text() {
        for (text, want) in [
            ("---\ntitle: T\n\nkey: v\n---\n\n# One\n\nTwo\n", &["One", "Two"][..]),
            ("---\ntitle: T\n...\n# One\n", &["One"]),
            ("---\r\ntitle: T\r\n---\r\n# One\r\n", &["One"]),
            ("---\ntitle: T\n--- middle\n\n# One\n", &["--- middle", "One"]),
            ("title: T\n\n# One\n", &["title: T", "One"]),
        ] {
            let lines = first_lines(text, 10);
            let found: alloc::vec::Vec<&str> = lines.iter().map(|line| line.plain.as_ref()).collect();
            assert_eq!(found, want, "{text:?}");
        }
    }
}
