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

/// The lines of a text by their numbers, from 0. A line takes four bytes beside its own: a text
/// may be nothing but line ends.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    text: &'a str,
    /// Where each line starts, and behind them where the last one ends.
    starts: Vec<u32>,
}

impl<'a> Rows<'a> {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The line `at`.
    pub(super) fn get(&self, at: usize) -> Option<Row> {
        let place = |at: usize| usize::try_from(*self.starts.get(at)?).ok();
        let (start, next) = (place(at)?, place(at.checked_add(1)?)?);
        let line = self.text.as_bytes().get(start..next)?;
        let end = match line {
            [.., b'\r', b'\n'] => next - 2,
            [.., b'\n' | b'\r' | b'\x0c'] => next - 1,
            _ => next,
        };
        Some(Row { start, end, next, ends_page: line.last() == Some(&b'\x0c') })
    }

    /// The text of the line `at` without white space at the end; nothing where there is none.
    pub(super) fn line(&self, at: usize) -> &'a str {
        self.get(at).map_or("", |row| row.text(self.text))
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

/// The lines of `text`, which is shorter than 4 GiB; a byte-order mark is not part of the first.
pub(super) fn rows(text: &str) -> Rows<'_> {
    let first = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let bytes = text.as_bytes();
    // Where the next line starts behind the byte at a place that ends one.
    let ends = |at: usize| match bytes.get(at) {
        Some(b'\r') => bytes.get(at + 1) != Some(&b'\n'),
        Some(b'\n' | b'\x0c') => true,
        _ => false,
    };
    let nexts = || (first..bytes.len()).filter(|&at| ends(at)).map(|at| at + 1);
    let mut starts = Vec::with_capacity(nexts().count() + 2);
    starts.extend(core::iter::once(first).chain(nexts()).filter_map(|at| u32::try_from(at).ok()));
    if let Ok(end) = u32::try_from(bytes.len())
        && starts.last() != Some(&end)
    {
        starts.push(end);
    }
    Rows { text, starts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_ends_a_line_once() {
        let text = "\u{feff}a \r\nb\rc\n\x0cd\n\ne";
        let found: Vec<Row> = rows(text).iter().collect();
        let lines: Vec<&str> = found.iter().map(|row| row.text(text)).collect();
        assert_eq!(lines, ["a", "b", "c", "", "d", "", "e"]);
        assert!(found.windows(2).all(|pair| pair[0].next == pair[1].start));
        assert_eq!(found.iter().filter(|row| row.ends_page).count(), 1);
        assert_eq!(found.last().map(|row| row.next), Some(text.len()));
        assert_eq!(rows("").len(), 0);
    }
}
