//! What one profile finds in the lines of a text.

use alloc::vec::Vec;

use super::Line;
use crate::mark::line_designates;
use crate::profile::{Format, Profile};

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

    pub(super) fn read(&self, lines: &[Line<'_>]) -> Hits {
        let mut hits = Hits::default();
        for line in lines {
            hits.marks += u32::from(self.marks.iter().any(|mark| line.raw.starts_with(mark)));
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
