//! Code fences that are closed again. An unclosed one hides nothing: in a law it is noise.
//!
//! Whether a fence is closed is asked of every line that opens one, so the lines that may
//! close are collected once, in order: the longest that still comes says at once that there
//! is none, and those that are passed on the way to the one that closes are passed for good.

use alloc::vec::Vec;

use super::region::line_end;

/// The fewest marks of a fence.
const MIN_MARKS: usize = 3;

/// A line of nothing but fence marks.
#[derive(Clone, Copy)]
struct Closer {
    start: usize,
    end: usize,
    length: usize,
    /// The longest one of its mark from this one on.
    longest: usize,
}

/// Asked with rising offsets only.
pub(super) struct Fences<'t> {
    text: &'t str,
    /// Of back ticks and of tildes, once they were needed.
    closers: Option<[Vec<Closer>; 2]>,
    /// The first of each that was not passed.
    next: [usize; 2],
}

impl<'t> Fences<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, closers: None, next: [0; 2] }
    }

    /// Where the line after the fence's end starts, if a fence opens at `start` and closes.
    pub(super) fn closes_at(&mut self, start: usize, line: &[u8]) -> Option<usize> {
        let inner = line.trim_ascii_start();
        let mark = *inner.first().filter(|&&b| b == b'`' || b == b'~')?;
        let length = marks(inner, mark);
        if length < MIN_MARKS || (mark == b'`' && inner[length..].contains(&b'`')) {
            return None;
        }
        let text = self.text;
        let closers = self.closers.get_or_insert_with(|| [closers(text, b'`'), closers(text, b'~')]);
        let which = usize::from(mark == b'~');
        let (closers, next) = (&closers[which], &mut self.next[which]);
        let body = start + line.len();
        while closers.get(*next).is_some_and(|closer| closer.start < body) {
            *next += 1;
        }
        let rest = closers.get(*next..).unwrap_or_default();
        if rest.first().is_none_or(|closer| closer.longest < length) {
            return None;
        }
        rest.iter().find(|closer| closer.length >= length).map(|closer| closer.end)
    }
}

fn marks(text: &[u8], mark: u8) -> usize {
    text.iter().take_while(|&&b| b == mark).count()
}

fn closers(text: &str, mark: u8) -> Vec<Closer> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = line_end(bytes, at);
        let close = bytes[at..end].trim_ascii();
        let length = marks(close, mark);
        if length >= MIN_MARKS && length == close.len() {
            found.push(Closer { start: at, end, length, longest: length });
        }
        at = end;
    }
    let mut longest = 0;
    for closer in found.iter_mut().rev() {
        longest = closer.length.max(longest);
        closer.longest = longest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;

    /// The definition: the first line after the fence with enough marks and nothing else.
    fn plainly(text: &str, start: usize, line: &str) -> Option<usize> {
        let inner = line.trim_ascii_start();
        let mark = inner.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = inner.chars().take_while(|&c| c == mark).count();
        if length < 3 || (mark == '`' && inner[length..].contains('`')) {
            return None;
        }
        let mut at = start + line.len();
        for line in text[at..].split_inclusive('\n') {
            at += line.len();
            let close = line.trim_ascii();
            if close.len() >= length && close.chars().all(|c| c == mark) {
                return Some(at);
            }
        }
        None
    }

    proptest! {
        #[test]
        fn every_fence_ends_where_it_is_defined_to(
            lines in prop::collection::vec("( {0,4})(`{1,7}|~{1,7})(a|`| )?|x", 0..40)
        ) {
            let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let mut fences = Fences::new(&text);
            let mut at = 0;
            for line in text.split_inclusive('\n') {
                let start = at;
                at += line.len();
                prop_assert_eq!(fences.closes_at(start, line.as_bytes()), plainly(&text, start, line));
            }
        }
    }
}
