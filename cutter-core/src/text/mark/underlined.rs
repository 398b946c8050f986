//! The underlined marker: titles with a row of one punctuation mark below them, and perhaps
//! the same row above, as reStructuredText has them.
//!
//! A style is a mark, with a row above or without. The first style of a document is level
//! 1, the next new one level 2, and so on. A title with one row stands flush left after an
//! empty line or another title. Literal blocks, comments and every other construct are
//! indented, and so are the rows in them; a simple table has borders of several runs and is
//! passed over as a whole. Every line is looked at once.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::text::address::text::clean;

use super::assemble::Assembler;
use super::node::Title;
use super::rows::{Rows, rows};
use super::{MarkContext, MarkError, Marked, Marker, Region, check_text, region_text};

/// A longer line is no title.
const MAX_TITLE_BYTES: usize = 1024;
/// By how many characters a row may be shorter than its title.
const MAX_SHORT: usize = 3;
/// A row this short is only one where it is as long as its title.
const MIN_ROW: usize = 3;

/// Cuts at underlined titles.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnderlinedMarker;

impl Marker for UnderlinedMarker {
    fn mark(&self, source: &[u8], region: Region, context: &MarkContext<'_>) -> Result<Marked, MarkError> {
        let whole = check_text(source, context.limits)?;
        let text = region_text(whole, region)?;
        let titles = titles(text, region.start, context.limits.max_marks(text.len()));
        Assembler::new(source, text, region, context, Vec::new()).assemble(titles)
    }

    fn identity(&self) -> String {
        "underlined/1".into()
    }
}

/// A row of one mark: which, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    mark: u8,
    width: usize,
}

/// A title's mark, and whether it has a row above too.
type Style = (u8, bool);

/// A title: at which line it stands, of how many lines the heading is, and its style.
struct Found {
    title_at: usize,
    lines: usize,
    style: Style,
}

/// The titles, in order; it ends behind `most`.
fn titles(text: &str, shift: usize, most: usize) -> Vec<Title<'_>> {
    let page = Page { rows: rows(text) };
    let rows = &page.rows;
    let (mut found, mut styles) = (Vec::new(), Vec::<Style>::new());
    let mut at = 0;
    // Whether a title may begin here: after an empty line, a title or a ruler.
    let mut free = true;
    while at < rows.len() && found.len() <= most {
        if free && is_border(page.line(at)) {
            at = page.table_end(at);
            free = false;
            continue;
        }
        let heading = if free { page.overlined(at).or_else(|| page.underlined(at)) } else { None };
        let Some(heading) = heading else {
            // A ruler between empty lines separates; a title may follow it at once.
            free = page.line(at).is_empty() || (free && page.rule(at).is_some());
            at += 1;
            continue;
        };
        let parts = (rows.get(at), rows.get(heading.title_at), rows.get(at + heading.lines - 1));
        let (Some(first), Some(title), Some(last)) = parts else { break };
        let line = page.line(heading.title_at);
        let raw = line.trim_start();
        found.push(Title {
            level: level(&mut styles, heading.style),
            span: Region { start: first.start + shift, end: last.next + shift },
            text_start: title.start + line.len() - raw.len() + shift,
            raw,
            plain: plain(raw),
        });
        at += heading.lines;
    }
    found
}

/// The level of a style, by the order in which styles appear; there are at most 64.
fn level(styles: &mut Vec<Style>, style: Style) -> u8 {
    let at = styles.iter().position(|known| *known == style).unwrap_or_else(|| {
        styles.push(style);
        styles.len() - 1
    });
    u8::try_from(at + 1).unwrap_or(u8::MAX - 1)
}

struct Page<'a> {
    rows: Rows<'a>,
}

impl<'a> Page<'a> {
    fn line(&self, at: usize) -> &'a str {
        self.rows.line(at)
    }

    fn rule(&self, at: usize) -> Option<Rule> {
        rule(self.line(at))
    }

    /// A row, a title of one line, and the same row again.
    fn overlined(&self, at: usize) -> Option<Found> {
        let (above, below) = (self.rule(at)?, self.rule(at + 2)?);
        let title = self.line(at + 1);
        let fits = above.mark == below.mark
            && above.width.abs_diff(below.width) <= MAX_SHORT
            && is_title(title.trim_start())
            && is_wide(above, title)
            && is_wide(below, title);
        fits.then_some(Found { title_at: at + 1, lines: 3, style: (above.mark, true) })
    }

    /// A title of one line and a row.
    fn underlined(&self, at: usize) -> Option<Found> {
        let below = self.rule(at + 1)?;
        let title = self.line(at);
        let fits = is_title(title) && !title.starts_with(char::is_whitespace) && is_wide(below, title);
        fits.then_some(Found { title_at: at, lines: 2, style: (below.mark, false) })
    }

    /// The line after the table whose first border is at `at`: its third border ends it, or
    /// the second before an empty line. A border without another is text.
    fn table_end(&self, at: usize) -> usize {
        let (mut end, mut borders) = (at + 1, 1);
        let mut i = at + 1;
        while i < self.rows.len() && borders < 3 {
            if is_border(self.line(i)) {
                borders += 1;
                end = i + 1;
                if self.line(i + 1).is_empty() {
                    break;
                }
            }
            i += 1;
        }
        end
    }
}

/// The row that a line is as a whole.
fn rule(line: &str) -> Option<Rule> {
    let mark = *line.as_bytes().first().filter(|b| b.is_ascii_punctuation())?;
    // Two dots begin a comment and two colons a literal block.
    let is_markup = matches!(line, ".." | "::");
    (!is_markup && line.bytes().all(|b| b == mark)).then_some(Rule { mark, width: line.len() })
}

/// A border of a simple table: `=====  ===`, two runs or more.
fn is_border(line: &str) -> bool {
    line.starts_with('=') && line.contains("= ") && line.bytes().all(|b| b == b'=' || b == b' ')
}

fn is_wide(rule: Rule, title: &str) -> bool {
    // A title longer than the row is looked at no further than that.
    let width = title.trim_start().chars().take(rule.width + MAX_SHORT + 1).count();
    width <= rule.width || (rule.width > MIN_ROW && width <= rule.width + MAX_SHORT)
}

/// True for a line that may be a title: it has a letter or digit and begins no other
/// construct (a comment, a list item, a field, a line block, an interpreter session).
fn is_title(line: &str) -> bool {
    let begins = |mark: &str| line.strip_prefix(mark).is_some_and(|after| after.starts_with(' '));
    let other = ["..", "-", "*", "+", "|", ">>>", "•"].into_iter().any(begins);
    (1..=MAX_TITLE_BYTES).contains(&line.len())
        && !other
        && !is_field(line)
        && rule(line).is_none()
        && line.chars().any(char::is_alphanumeric)
}

/// `:name: value`; a role (`` :name:`text` ``) is none.
fn is_field(line: &str) -> bool {
    let Some((name, after)) = line.strip_prefix(':').and_then(|inner| inner.split_once(':')) else {
        return false;
    };
    !name.is_empty() && !name.starts_with(' ') && (after.is_empty() || after.starts_with(' '))
}

/// A title without inline markup: of `` :role:`text` ``, ``` ``code`` ``` and
/// `` `text <target>`_ `` only the text is left.
fn plain(raw: &str) -> Cow<'_, str> {
    if !raw.contains(['`', '*', '|']) {
        return clean(raw);
    }
    let (mut out, mut inside) = (String::with_capacity(raw.len()), false);
    let mut parts = raw.split('`').peekable();
    while let Some(part) = parts.next() {
        let more = parts.peek().is_some();
        let shown = if inside {
            part.rsplit_once(" <").filter(|(_, target)| target.ends_with('>')).map_or(part, |(text, _)| text)
        } else {
            let part = part.strip_prefix("__").or_else(|| part.strip_prefix('_')).unwrap_or(part);
            if more { without_role(part) } else { part }
        };
        out.extend(shown.chars().filter(|c| !matches!(c, '*' | '|')));
        inside = !inside;
    }
    Cow::Owned(clean(&out).into_owned())
}

/// What stands before a role's name at the end of a text.
fn without_role(text: &str) -> &str {
    let role = || {
        let inner = text.strip_suffix(':')?;
        let at = inner.rfind(':')?;
        let name = inner.get(at + 1..)?;
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_+.".contains(&b));
        is_name.then(|| text.get(..at)).flatten()
    };
    role().unwrap_or(text)
}
