//! The lines of a plain text, with the page breaks that formats without markup hold.

use alloc::vec::Vec;

/// A line, in bytes of the text. LF, CRLF, a bare CR and a form feed each end one, so what
/// follows a form feed begins a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) start: usize,
    /// Where its text ends.
    pub(super) end: usize,
    /// Where the next line starts.
    pub(super) next: usize,
    /// It ends in a form feed: the next line begins a page.
    pub(super) ends_page: bool,
}

impl Row {
    /// Its text without white space at the end.
    pub(super) fn text(self, whole: &str) -> &str {
        whole.get(self.start..self.end).unwrap_or_default().trim_end()
    }
}

/// The lines of `text`; a byte-order mark is not part of the first.
pub(super) fn rows(text: &str) -> Vec<Row> {
    let bytes = text.as_bytes();
    let mut start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut found = Vec::new();
    let mut at = start;
    while at < bytes.len() {
        let ends = matches!(bytes[at], b'\n' | b'\r' | b'\x0c');
        if ends {
            let crlf = bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n');
            let next = at + 1 + usize::from(crlf);
            found.push(Row { start, end: at, next, ends_page: bytes[at] == b'\x0c' });
            start = next;
            at = next;
        } else {
            at += 1;
        }
    }
    if start < bytes.len() {
        found.push(Row { start, end: bytes.len(), next: bytes.len(), ends_page: false });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_ends_a_line_once() {
        let text = "\u{feff}a \r\nb\rc\n\x0cd\n\ne";
        let found = rows(text);
        let lines: Vec<&str> = found.iter().map(|row| row.text(text)).collect();
        assert_eq!(lines, ["a", "b", "c", "", "d", "", "e"]);
        assert!(found.windows(2).all(|pair| pair[0].next == pair[1].start));
        assert_eq!(found.iter().filter(|row| row.ends_page).count(), 1);
        assert_eq!(found.last().map(|row| row.next), Some(text.len()));
        assert!(rows("").is_empty());
    }
}
