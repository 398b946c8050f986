//! The Markdown marker: headings at the top level are the seams of the cut.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::text::profile::SetextRules;

use super::assemble::Assembler;
use super::blocks::{Heading, parsed_headings, parsed_nodes, plain_title, title_span};
use super::node::Title;
use super::scan::scan_headings;
use super::{
    Lines, MarkContext, MarkError, MarkLimits, Marked, Marker, Region, Warning, check_text, region_text,
    warning,
};

/// Cuts at ATX and setext headings, as CommonMark defines them.
#[derive(Debug, Clone, Copy, Default)]
pub struct MarkdownMarker;

impl Marker for MarkdownMarker {
    fn mark(&self, source: &[u8], region: Region, context: &MarkContext<'_>) -> Result<Marked, MarkError> {
        let whole = check_text(source, context.limits)?;
        let text = region_text(whole, region)?;
        let mut warnings = Vec::new();
        let mut lines = Lines::new(source);
        let headings = headings(text, context.limits)?;
        let mut titles = Vec::with_capacity(headings.len());
        for heading in headings {
            let span = title_span(text, &heading);
            let raw = &text[span.clone()];
            if heading.setext
                && let Some(reason) = implausible(raw, &text[heading.span.clone()], &context.profile.setext)
            {
                let line = lines.line_of(region.start + heading.span.start);
                let message = format!("underlined text is not cut as a heading: {reason}");
                push_bounded(&mut warnings, warning("setext_ignored", Some(line), message));
                continue;
            }
            titles.push(Title {
                level: heading.level,
                span: shift(&heading, region.start),
                text_start: region.start + span.start,
                raw,
                plain: plain_title(raw),
            });
        }
        Assembler::new(source, text, region, context, warnings).assemble(titles)
    }

    fn identity(&self) -> String {
        "markdown/1".into()
    }
}

/// The parser's nodes that are allowed for each mark.
const NODES_PER_MARK: usize = 12;

fn headings(text: &str, limits: &MarkLimits) -> Result<Vec<Heading>, MarkError> {
    let most = limits.max_marks(text.len());
    let found = match scan_headings(text, most) {
        Some(found) => found,
        None => {
            limits.check_marks(text.len(), parsed_nodes(text) / NODES_PER_MARK)?;
            parsed_headings(text, most)
        }
    };
    limits.check_marks(text.len(), found.len())?;
    Ok(found)
}

/// Beyond this many warnings of one run only the count grows: a ruler on every line must
/// not make a report of megabytes.
const MAX_WARNINGS: usize = 200;

pub(super) fn push_bounded(warnings: &mut Vec<Warning>, item: Warning) {
    if warnings.len() < MAX_WARNINGS {
        warnings.push(item);
    } else if warnings.len() == MAX_WARNINGS {
        warnings.push(warning("more_warnings", None, "more warnings of this document are not shown"));
    }
}

const fn shift(heading: &Heading, by: usize) -> Region {
    Region { start: heading.span.start + by, end: heading.span.end + by }
}

/// Why an underlined paragraph is taken for text above a ruler, not for a heading.
fn implausible(title: &str, whole: &str, rules: &SetextRules) -> Option<&'static str> {
    let underline = whole.trim_end();
    let underline = underline.rsplit(['\n', '\r']).next().unwrap_or_default().trim();
    let lines = title.split(['\n', '\r']).filter(|line| !line.trim().is_empty());
    let (mut count, mut table) = (0, false);
    for line in lines {
        count += 1;
        // A bar, or a run of blanks between words: columns, not a title.
        table |=
            line.trim_start().starts_with('|') || line.trim().contains("   ") || line.trim().contains('\t');
    }
    let within = |bound: u32, observed: usize| observed <= usize::try_from(bound).unwrap_or(usize::MAX);
    if !rules.accept {
        Some("the profile takes no underlined headings")
    } else if underline.len() < usize::try_from(rules.min_underline).unwrap_or(usize::MAX) {
        Some("the underline is too short")
    } else if underline.len() > title.len() + usize::try_from(rules.max_overhang).unwrap_or(usize::MAX) {
        Some("the underline is a ruler, much longer than the text")
    } else if !within(rules.max_lines, count) || !within(rules.max_bytes, title.len()) {
        Some("the paragraph is too long for a title")
    } else if table {
        Some("the paragraph has columns")
    } else if !title.chars().any(char::is_alphanumeric) {
        Some("the paragraph has no letter or digit")
    } else {
        None
    }
}
