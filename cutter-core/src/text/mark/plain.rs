//! The plain text marker: paginated text without markup, as RFCs are printed.
//!
//! The body is indented, so a line that stands flush left between empty lines is a heading:
//! a number with a title (`4.2.1.  Title`, `Appendix A.  Title`) or a title alone
//! (`Abstract`). What stands there and is none: page footers and running headers, lines of
//! columns, entries of a table of contents with dot leaders, sentences, and titles that no
//! indented text follows. Every line is looked at once.

use alloc::string::String;
use alloc::vec::Vec;

use crate::text::address::text::clean;
use crate::text::profile::Profile;

use super::assemble::Assembler;
use super::designate::designate;
use super::node::Title;
use super::rows::{Rows, rows};
use super::{MarkContext, MarkError, Marked, Marker, Region, check_text, region_text};

/// A longer line is no heading, nor are longer lines together.
const MAX_TITLE_BYTES: usize = 240;
/// A title without a number is shorter.
const MAX_PLAIN_CHARS: usize = 80;
/// A title goes on over at most so many lines.
const MAX_LINES: usize = 3;
/// More words than this and a full stop are a sentence.
const MAX_STOPPED_WORDS: usize = 6;

/// Cuts at the flush-left headings of a paginated plain text.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextMarker;

impl Marker for TextMarker {
    fn mark(&self, source: &[u8], region: Region, context: &MarkContext<'_>) -> Result<Marked, MarkError> {
        let whole = check_text(source, context.limits)?;
        let text = region_text(whole, region)?;
        let most = context.limits.max_marks(text.len());
        let titles = Page::new(text, context.profile).titles(region.start, most);
        Assembler::new(source, text, region, context, Vec::new()).assemble(titles)
    }

    fn identity(&self) -> String {
        "text/1".into()
    }
}

/// What a line is by its place on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Nothing, or what belongs to the page and not to the text.
    Blank,
    Flush,
    Indented,
}

/// How a flush-left line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// A decimal number.
    Number { parts: u8, first: Option<u32>, dotted: bool },
    /// A designator of the profile with a number of so many parts.
    Word { parts: u8 },
    /// Neither.
    Plain,
}

/// A heading: of how many lines, and at which level.
struct Heading {
    lines: usize,
    level: u8,
    /// The single number it begins with.
    first: Option<u32>,
}

struct Page<'a> {
    text: &'a str,
    profile: &'a Profile,
    rows: Rows<'a>,
    sorts: Vec<Sort>,
}

impl<'a> Page<'a> {
    fn new(text: &'a str, profile: &'a Profile) -> Self {
        let rows = rows(text);
        let mut sorts = Vec::with_capacity(rows.len());
        // The header may still stand in the line after: a form feed may have its own.
        let mut page_top = false;
        let mut fed = false;
        for row in rows.iter() {
            let line = row.text(text);
            sorts.push(sort(line, page_top));
            page_top = row.ends_page || (fed && line.is_empty());
            fed = row.ends_page;
        }
        Self { text, profile, rows, sorts }
    }

    fn line(&self, i: usize) -> &'a str {
        self.rows.line(i)
    }

    fn is(&self, i: usize, sort: Sort) -> bool {
        self.sorts.get(i).copied().unwrap_or(Sort::Blank) == sort
    }

    /// The titles, in order; it ends behind `most`.
    fn titles(&self, shift: usize, most: usize) -> Vec<Title<'a>> {
        let (mut found, mut at, mut last) = (Vec::new(), 0, None);
        while at < self.rows.len() && found.len() <= most {
            let after_blank = at == 0 || self.is(at - 1, Sort::Blank);
            let heading = if after_blank { self.heading(at, last) } else { None };
            let Some(heading) = heading else {
                at += 1;
                continue;
            };
            last = heading.first.or(last);
            let (Some(first), Some(end)) = (self.rows.get(at), self.rows.get(at + heading.lines - 1)) else {
                break;
            };
            let raw = self.text.get(first.start..end.end).unwrap_or_default().trim_end();
            found.push(Title {
                level: heading.level,
                span: Region { start: first.start + shift, end: end.next + shift },
                text_start: first.start + shift,
                raw,
                plain: clean(raw),
            });
            at += heading.lines;
        }
        found
    }

    /// The heading that begins at a line after an empty one; `last` is the single number
    /// of the heading before.
    fn heading(&self, at: usize, last: Option<u32>) -> Option<Heading> {
        if !self.is(at, Sort::Flush) {
            return None;
        }
        let line = self.line(at);
        let (head, body_at) = self.head(line)?;
        let body = line.get(body_at..)?;
        let mut lines = 1;
        let mut bytes = line.len();
        // The title goes on where its first word begins.
        while lines < MAX_LINES && head != Head::Plain && body_at > 0 && self.is(at + lines, Sort::Indented) {
            let next = self.line(at + lines);
            bytes += next.len();
            if indent(next) != indent_of(line, body_at) || has_columns(next.trim_start()) || has_leader(next)
            {
                return None;
            }
            lines += 1;
        }
        if bytes > MAX_TITLE_BYTES || !self.is(at + lines, Sort::Blank) {
            return None;
        }
        let end = self.line(at + lines - 1);
        if has_columns(body) || has_leader(body) || (lines > 1 && stops(end)) || is_sentence(body) {
            return None;
        }
        let (level, first) = match head {
            Head::Number { parts, first, dotted } => {
                (dotted || counts(body, first, last)).then_some((parts, first))?
            }
            Head::Word { parts } => (parts, None),
            Head::Plain => self.is_plain_title(at, line).then_some((1, None))?,
        };
        Some(Heading { lines, level, first })
    }

    /// How a line begins, and where its title does. `None` for a line that is too long to
    /// be looked at.
    fn head(&self, line: &str) -> Option<(Head, usize)> {
        if line.len() > MAX_TITLE_BYTES {
            return None;
        }
        let token = line.split_whitespace().next()?;
        if let Some((parts, first, dotted)) = number(token) {
            let after = line.get(token.len()..)?;
            let body_at = line.len() - after.trim_start().len();
            // A lone letter is an initial, unless it stands apart.
            let apart = body_at - token.len() > 1 || parts > 1 || first.is_some();
            if apart && body_at < line.len() {
                return Some((Head::Number { parts, first, dotted }, body_at));
            }
        }
        let plain = clean(line);
        let lettered = !token.starts_with(|c: char| c.is_ascii_digit());
        let Some(found) = designate(self.profile, &plain).filter(|_| lettered) else {
            return Some((Head::Plain, 0));
        };
        let parts = found.label.as_ref().map_or(1, |label| 1 + label.matches('.').count());
        let parts = u8::try_from(parts).unwrap_or(u8::MAX).min(MAX_LEVEL);
        Some((Head::Word { parts }, word_body(line, &plain, found.rest)))
    }

    /// A title alone: it begins with a capital, stops with no mark and has a text below it.
    fn is_plain_title(&self, at: usize, line: &str) -> bool {
        // A run of blank lines is passed once: for the line before it.
        let blank = self.sorts.get(at + 1..).unwrap_or_default().iter();
        let after = at + 1 + blank.take_while(|&&sort| sort == Sort::Blank).count();
        let has_text = if self.is(after, Sort::Flush) {
            self.head(self.line(after)).is_some_and(|(head, _)| head != Head::Plain)
        } else {
            after < self.rows.len()
        };
        let first = line.split_whitespace().next().unwrap_or_default();
        has_text
            && line.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase())
            && line.chars().take(MAX_PLAIN_CHARS + 1).count() <= MAX_PLAIN_CHARS
            && !stops(line)
            && !first.ends_with(':')
            && !line.contains(['=', '{', '}', '<', '>', '|', ';'])
    }
}

/// True where a number without its full stop is one: a capital follows, and a lone number
/// goes on from the one before, or dates and amounts would be sections.
fn counts(body: &str, first: Option<u32>, last: Option<u32>) -> bool {
    let due = last.map_or(1, |last| last.saturating_add(1));
    let begins = body.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || c == '"');
    begins && first.is_none_or(|first| first == due)
}

/// The deepest level of a number; a longer one is no number.
const MAX_LEVEL: u8 = 16;

/// Where in `line` the title after a designator begins: `rest` is the end of the cleaned
/// line, and its first word stands at the same place in the line, from the end.
fn word_body(line: &str, plain: &str, rest: &str) -> usize {
    let words = plain.len().checked_sub(rest.len()).and_then(|at| plain.get(..at)).unwrap_or_default();
    let count = words.split_whitespace().count();
    let mut at = 0;
    for _ in 0..count {
        let after = line.get(at..).unwrap_or_default();
        let token = after.split_whitespace().next().unwrap_or_default();
        let from = at + after.len() - after.trim_start().len() + token.len();
        let rest = line.get(from..).unwrap_or_default();
        at = line.len() - rest.trim_start().len();
    }
    if rest.is_empty() { line.len() } else { at }
}

/// The parts of a number, its value where it is a lone one, and whether it ends in a full
/// stop: `4.2.1.`, `A.1.`, `7`.
fn number(token: &str) -> Option<(u8, Option<u32>, bool)> {
    let bare = token.strip_suffix('.');
    let (bare, dotted) = (bare.unwrap_or(token), bare.is_some());
    let mut parts = 0u8;
    let mut letter = false;
    for part in bare.split('.') {
        let digits = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        letter |= parts == 0 && part.len() == 1 && part.as_bytes()[0].is_ascii_uppercase();
        if !(digits || (letter && parts == 0)) || parts == MAX_LEVEL {
            return None;
        }
        parts += 1;
    }
    let first = if parts == 1 && !letter { bare.parse().ok() } else { None };
    let fits = if letter { dotted || parts > 1 } else { first.is_none_or(|first| first < 1000) };
    fits.then_some((parts, first, dotted))
}

fn sort(line: &str, page_top: bool) -> Sort {
    if line.is_empty() || is_footer(line) {
        return Sort::Blank;
    }
    if line.starts_with(char::is_whitespace) {
        return Sort::Indented;
    }
    // The first line of a page is its running header, unless it is a numbered heading.
    let token = line.split_whitespace().next().unwrap_or_default();
    if page_top && (number(token).is_none() || token.len() == line.len()) {
        return Sort::Blank;
    }
    Sort::Flush
}

/// `Fielding & Reschke   Standards Track   [Page 12]`.
pub(super) fn is_footer(line: &str) -> bool {
    let inner = || {
        let inner = line.strip_suffix(']')?;
        inner.get(inner.rfind('[')? + 1..)
    };
    inner().is_some_and(|inner| {
        let mut words = inner.split_whitespace();
        let page = words.next().is_some_and(|word| word.eq_ignore_ascii_case("page"));
        let numbered = words.next().is_some_and(|word| word.bytes().all(|b| b.is_ascii_alphanumeric()));
        page && numbered && words.next().is_none()
    })
}

/// A tab or three blanks between words.
fn has_columns(text: &str) -> bool {
    let text = text.trim();
    text.contains("   ") || text.contains('\t')
}

/// Dots that lead to a page number.
fn has_leader(text: &str) -> bool {
    text.contains("....") || text.contains(". . .")
}

fn stops(text: &str) -> bool {
    text.trim_end().ends_with(['.', ',', ';', ':'])
}

fn is_sentence(text: &str) -> bool {
    stops(text) && text.split_whitespace().count() > MAX_STOPPED_WORDS
}

/// How far a line is indented, in columns of blanks.
fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

fn indent_of(line: &str, at: usize) -> usize {
    line.get(..at).unwrap_or_default().chars().count()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_letter_begins_a_number_and_stands_nowhere_else_in_it() {
        for (token, want) in [
            ("1", Some((1, Some(1), false))),
            ("1.2.", Some((2, None, true))),
            ("A.", Some((1, None, true))),
            ("A.1", Some((2, None, false))),
            ("A", None),
            ("1.A", None),
            ("A.B", None),
            ("1.12345", None),
            ("1000", None),
        ] {
            assert_eq!(number(token), want, "{token}");
        }
    }
}
