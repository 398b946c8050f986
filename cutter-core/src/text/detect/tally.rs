//! What one profile finds in the lines of a text.

use alloc::vec::Vec;

use super::{Line, MAX_MARK_LINES};
use crate::text::mark::line_designates;
use crate::text::profile::{Format, Profile};

/// Counts of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hits {
    pub(super) articles: u32,
    pub(super) divisions: u32,
    pub(super) marks: u32,
    /// Headings that designate nothing.
    pub(super) plain: u32,
}

/// A profile with what it looks for first.
pub(super) struct Reader<'p> {
    profile: &'p Profile,
    marks: Vec<&'p str>,
}

impl<'p> Reader<'p> {
    pub(super) fn new(profile: &'p Profile) -> Self {
        Self { profile, marks: profile.detection.lines.iter().map(|line| line.as_str()).collect() }
    }

    /// Lines that only this convention begins so.
    pub(super) fn marks(&self, head: &[&str]) -> u32 {
        let marked = |line: &&&str| {
            let first = line.bytes().next();
            self.marks.iter().any(|mark| mark.bytes().next() == first && line.starts_with(mark))
        };
        u32::try_from(head.iter().filter(marked).count()).unwrap_or(u32::MAX)
    }

    pub(super) fn read(&self, text: &str, marks: u32, lines: &[Line<'_>]) -> Hits {
        let mut hits = Hits { marks, ..Hits::default() };
        if self.profile.format == Format::Underlined {
            hits.divisions = underlined(text);
        }
        for line in lines {
            if line.heading && line.loose && !self.profile.loose_headings {
                continue;
            }
            let markdown = self.profile.format == Format::Markdown;
            if !markdown || !(line.heading || self.profile.paragraphs.is_some()) {
                continue;
            }
            match line_designates(self.profile, &line.plain, line.heading, line.short) {
                Some(kind) if self.profile.citation_kinds.iter().any(|cited| cited == kind) => {
                    hits.articles += 1
                }
                Some(_) => hits.divisions += 1,
                None => hits.plain += u32::from(line.heading),
            }
        }
        hits
    }
}

/// Titles underlined with a mark that Markdown does not know, in the first lines.
fn underlined(text: &str) -> u32 {
    let mut above = "";
    let mut found = 0;
    for line in text.lines().take(MAX_MARK_LINES) {
        let line = line.trim_end();
        let first = line.chars().next().filter(|c| matches!(c, '~' | '^' | '"' | '*' | '+' | '\''));
        let row = first.is_some_and(|first| line.len() >= 4 && line.chars().all(|c| c == first));
        let under = !above.is_empty()
            && !above.starts_with(char::is_whitespace)
            && line.len() >= above.chars().count();
        found += u32::from(row && under);
        above = line;
    }
    found
}
