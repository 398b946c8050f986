//! A line scanner that finds the same headings as the CommonMark parser, some ten times
//! faster, or says that it does not know.
//!
//! It follows the block structure only as far as headings at the top level need it. A line
//! whose meaning depends on what it does not follow (lists within lists, link definitions
//! under a ruler, bare CR) ends the scan with `None`, and the parser decides. Tests hold
//! every answer to the parser's, on random and on real text.

use alloc::vec::Vec;
use core::ops::Range;

use super::blocks::Heading;

/// What the line before left open.
#[derive(Clone, Copy)]
enum State {
    /// Nothing.
    Root,
    /// A paragraph at the top level; `link` where it may start with a link definition.
    Paragraph { start: usize, link: bool },
    /// A quote or list: what stands inside is not looked at. Lines indented by `inside`
    /// columns are within it for certain; `loose` where a line of text may have left it.
    Container { inside: usize, loose: bool, blank: bool },
    /// A code fence.
    Fence { mark: u8, length: usize },
    /// An HTML block up to a line that holds the text.
    Html { end: &'static [u8] },
    /// An HTML block up to an empty line, or a paragraph: the same unless a block starts.
    /// `contained` where a quote or list may still be open.
    Tag { contained: bool },
}

/// The headings of `text`, or `None` where only the parser can tell. It ends behind `most`.
pub(super) fn scan_headings(text: &str, most: usize) -> Option<Vec<Heading>> {
    let skip = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut scanner = Scanner { bytes: text.as_bytes(), state: State::Root, headings: Vec::new() };
    let mut at = skip;
    while at < text.len() && scanner.headings.len() <= most {
        let (end, next) = line_end(text.as_bytes(), at)?;
        let start = if at == skip { 0 } else { at };
        scanner.line(at..end, start, next)?;
        at = next;
    }
    Some(scanner.headings)
}

struct Scanner<'a> {
    bytes: &'a [u8],
    state: State,
    headings: Vec<Heading>,
}

/// A line without its end, behind its leading blanks.
struct Line<'a> {
    /// Columns of leading blanks; 4 for any more.
    indent: usize,
    text: &'a [u8],
    /// Where the line starts, for headings; where the next one starts.
    start: usize,
    next: usize,
}

impl Scanner<'_> {
    fn line(&mut self, span: Range<usize>, start: usize, next: usize) -> Option<()> {
        let whole = &self.bytes[span];
        let blanks = whole.iter().take_while(|&&b| b == b' ').count();
        let text = &whole[blanks..];
        // A tab among the leading blanks always reaches the fourth column.
        let indent = if text.first() == Some(&b'\t') { 4 } else { blanks.min(4) };
        let line = Line { indent, text: text.trim_ascii_start(), start, next };
        match self.state {
            State::Fence { mark, length } => self.fence(&line, mark, length),
            State::Html { end } => self.html(whole, end),
            State::Root => return self.root(&line),
            State::Paragraph { start, link } => return self.paragraph(&line, start, link),
            State::Container { inside, loose, blank } => return self.container(&line, inside, loose, blank),
            State::Tag { contained } => return self.tag(&line, whole, contained),
        }
        Some(())
    }

    fn fence(&mut self, line: &Line<'_>, mark: u8, length: usize) {
        let run = line.text.iter().take_while(|&&b| b == mark).count();
        if line.indent < 4 && run >= length && line.text[run..].iter().all(|&b| b == b' ') {
            self.state = State::Root;
        }
    }

    fn html(&mut self, whole: &[u8], end: &[u8]) {
        if holds(whole, end) {
            self.state = State::Root;
        }
    }

    fn tag(&mut self, line: &Line<'_>, whole: &[u8], contained: bool) -> Option<()> {
        if whole.is_empty() {
            self.state = if contained {
                State::Container { inside: usize::MAX, loose: false, blank: true }
            } else {
                State::Root
            };
            Some(())
        } else {
            (!line.text.is_empty() && !starts_block(line)).then_some(())
        }
    }

    fn heading(&mut self, start: usize, next: usize, level: u8, setext: bool) {
        self.headings.push(Heading { span: start..next, level, setext });
        self.state = State::Root;
    }

    /// A line where nothing is open.
    fn root(&mut self, line: &Line<'_>) -> Option<()> {
        self.state = State::Root;
        let Some(&first) = line.text.first() else { return Some(()) };
        if line.indent >= 4 {
            return Some(());
        }
        let paragraph = State::Paragraph { start: line.start, link: first == b'[' };
        match first {
            b'#' => match atx_level(line.text) {
                Some(level) => self.heading(line.start, line.next, level, false),
                None => self.state = paragraph,
            },
            b'`' | b'~' => self.state = fence_start(line.text).unwrap_or(paragraph),
            b'<' => self.state = self.html_start(line.text),
            b'>' => self.state = State::Container { inside: usize::MAX, loose: false, blank: false },
            b'*' | b'-' | b'_' if is_ruler(line.text) => {}
            b'*' | b'-' | b'+' | b'0'..=b'9' => {
                self.state = match list_marker(line) {
                    Some(marker) => State::Container { inside: marker.inside, loose: false, blank: false },
                    None => paragraph,
                }
            }
            _ => self.state = paragraph,
        }
        Some(())
    }

    /// The state after an HTML start at the top level; a block that ends on its own line
    /// leaves nothing open.
    fn html_start(&self, text: &[u8]) -> State {
        match html_end(&text[1..]) {
            Some(end) if holds(text, end) => State::Root,
            Some(end) => State::Html { end },
            None => State::Tag { contained: false },
        }
    }

    fn paragraph(&mut self, line: &Line<'_>, start: usize, link: bool) -> Option<()> {
        let Some(&first) = line.text.first() else {
            self.state = State::Root;
            return Some(());
        };
        if line.indent >= 4 {
            return Some(());
        }
        if let Some(level) = underline_level(line.text) {
            // Under a link definition the underline is text or a ruler.
            if link {
                return None;
            }
            self.heading(start, line.next, level, true);
            return Some(());
        }
        match first {
            b'#' => {
                if let Some(level) = atx_level(line.text) {
                    self.heading(line.start, line.next, level, false);
                }
            }
            b'`' | b'~' => {
                if let Some(fence) = fence_start(line.text) {
                    self.state = fence;
                }
            }
            b'<' => self.state = self.html_start(line.text),
            b'>' => self.state = State::Container { inside: usize::MAX, loose: link, blank: false },
            b'*' | b'-' | b'_' if is_ruler(line.text) => self.state = State::Root,
            b'*' | b'-' | b'+' | b'0'..=b'9' => {
                if let Some(marker) = list_marker(line)
                    && (marker.interrupts || link)
                {
                    self.state = State::Container {
                        inside: if link { usize::MAX } else { marker.inside },
                        loose: link,
                        blank: false,
                    };
                }
            }
            _ => {}
        }
        Some(())
    }

    fn container(&mut self, line: &Line<'_>, inside: usize, loose: bool, blank: bool) -> Option<()> {
        let Some(&first) = line.text.first() else {
            // The text that may have left the container ends here; nobody knows whether it had.
            let inside = if loose { usize::MAX } else { inside };
            self.state = State::Container { inside, loose: false, blank: true };
            return Some(());
        };
        if blank && line.indent == 0 {
            return self.root(line);
        }
        let stay = |inside, loose| State::Container { inside, loose, blank: false };
        if line.indent >= 4 || (!loose && line.indent >= inside) {
            self.state = stay(inside, loose);
            return Some(());
        }
        if loose && underline_level(line.text).is_some() {
            return None;
        }
        match first {
            b'>' => self.state = stay(usize::MAX, loose),
            b'*' | b'-' | b'_' if is_ruler(line.text) => {
                self.state = if line.indent == 0 { State::Root } else { stay(usize::MAX, loose) }
            }
            b'*' | b'-' | b'+' | b'0'..=b'9' if list_marker(line).is_some() => {
                let marker = list_marker(line)?;
                self.state = stay(inside.max(marker.inside), loose);
            }
            // Not a block of its own: text, inside or outside.
            b'=' | b'-' if underline_level(line.text).is_some() => self.state = stay(inside, true),
            _ if starts_block(line) => {
                // Behind one to three blanks it may be inside or outside.
                if line.indent > 0 {
                    return None;
                }
                if first == b'<' && html_end(&line.text[1..]).is_none() {
                    self.state = State::Tag { contained: true };
                    return Some(());
                }
                return self.root(line);
            }
            _ => self.state = stay(inside, true),
        }
        Some(())
    }
}

/// Where the line from `at` on ends without its LF or CRLF, and where the next one starts.
/// `None` at a bare CR, a vertical tab or a form feed: what they mean depends on the place.
fn line_end(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let end = at + first_break(&bytes[at..]);
    match bytes[end..] {
        [] => Some((end, end)),
        [b'\n', ..] => Some((end, end + 1)),
        [b'\r', b'\n', ..] => Some((end, end + 2)),
        _ => None,
    }
}

/// The place of the first LF, vertical tab, form feed or CR (0x0a to 0x0d), else the length.
fn first_break(bytes: &[u8]) -> usize {
    const fn each(b: u8) -> u64 {
        u64::from_le_bytes([b; 8])
    }
    let is_break = |b: &u8| (b'\n'..=b'\r').contains(b);
    // Eight bytes at a time. Seven bits plus a constant never carry into the next byte, so
    // the high bits say for each byte alone whether it is at least 0x0a, and at least 0x0e.
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let low = word & each(0x7f);
        let from_lf = low + each(0x80 - 0x0a);
        let from_so = low + each(0x80 - 0x0e);
        let found = from_lf & !from_so & !word & each(0x80);
        if found != 0 {
            return i * 8 + word_index(found);
        }
    }
    bytes.len() - rest.len() + rest.iter().position(is_break).unwrap_or(rest.len())
}

/// The index of the lowest byte of `found` whose high bit is set.
const fn word_index(found: u64) -> usize {
    (found.trailing_zeros() / 8) as usize
}

fn atx_level(text: &[u8]) -> Option<u8> {
    let level = text.iter().take_while(|&&b| b == b'#').count();
    let spaced = text.get(level).is_none_or(|&b| b == b' ' || b == b'\t');
    if (1..=6).contains(&level) && spaced { u8::try_from(level).ok() } else { None }
}

fn underline_level(text: &[u8]) -> Option<u8> {
    let first = *text.first()?;
    let level = match first {
        b'=' => 1,
        b'-' => 2,
        _ => return None,
    };
    let run = text.iter().take_while(|&&b| b == first).count();
    text[run..].iter().all(|&b| b == b' ' || b == b'\t').then_some(level)
}

fn is_ruler(text: &[u8]) -> bool {
    let Some(&first) = text.first() else { return false };
    let marks = text.iter().filter(|&&b| b == first).count();
    matches!(first, b'*' | b'-' | b'_')
        && marks >= 3
        && text.iter().all(|&b| b == first || b == b' ' || b == b'\t')
}

fn fence_start(text: &[u8]) -> Option<State> {
    let mark = *text.first().filter(|&&b| b == b'`' || b == b'~')?;
    let length = text.iter().take_while(|&&b| b == mark).count();
    let info_holds_mark = mark == b'`' && text[length..].contains(&b'`');
    (length >= 3 && !info_holds_mark).then_some(State::Fence { mark, length })
}

struct Marker {
    /// The column where the item's text starts.
    inside: usize,
    /// It may end a paragraph: it has text, and its number is 1.
    interrupts: bool,
}

fn list_marker(line: &Line<'_>) -> Option<Marker> {
    let text = line.text;
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (width, first_number) = if digits == 0 {
        (matches!(text.first()?, b'*' | b'-' | b'+').then_some(1)?, true)
    } else if digits <= 9 && matches!(text.get(digits), Some(b'.' | b')')) {
        let value = text[..digits].iter().fold(0u32, |n, &b| n * 10 + u32::from(b - b'0'));
        (digits + 1, value == 1)
    } else {
        return None;
    };
    let rest = &text[width..];
    if !rest.first().is_none_or(|&b| b == b' ' || b == b'\t') {
        return None;
    }
    let blanks = rest.iter().take_while(|&&b| b == b' ').count();
    let filled = !rest.trim_ascii().is_empty();
    let plain = filled && rest.get(blanks) != Some(&b'\t') && (1..=4).contains(&blanks);
    let inside = if plain { line.indent + width + blanks } else { usize::MAX };
    Some(Marker { inside, interrupts: first_number && filled })
}

/// A line that would end a paragraph, or start an HTML block.
fn starts_block(line: &Line<'_>) -> bool {
    let Some(&first) = line.text.first() else { return false };
    if line.indent >= 4 {
        return false;
    }
    match first {
        b'#' => atx_level(line.text).is_some(),
        b'=' => underline_level(line.text).is_some(),
        b'`' | b'~' => fence_start(line.text).is_some(),
        b'<' | b'>' => true,
        b'-' | b'*' | b'_' | b'+' | b'0'..=b'9' => {
            is_ruler(line.text) || underline_level(line.text).is_some() || list_marker(line).is_some()
        }
        _ => false,
    }
}

/// What ends an HTML block that blank lines do not end; `text` follows the `<`.
fn html_end(text: &[u8]) -> Option<&'static [u8]> {
    const ELEMENTS: [(&[u8], &[u8]); 4] = [
        (b"pre", b"</pre>"),
        (b"style", b"</style>"),
        (b"script", b"</script>"),
        (b"textarea", b"</textarea>"),
    ];
    for (name, end) in ELEMENTS {
        let named = text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if named && text.get(name.len()).is_none_or(|&b| b == b'>' || b == b' ' || b == b'\t') {
            return Some(end);
        }
    }
    match text {
        [b'!', b'-', b'-', ..] => Some(b"-->"),
        [b'?', ..] => Some(b"?>"),
        [b'!', b'[', b'C', b'D', b'A', b'T', b'A', b'[', ..] => Some(b"]]>"),
        [b'!', letter, ..] if letter.is_ascii_alphabetic() => Some(b">"),
        _ => None,
    }
}

pub(super) fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests;
