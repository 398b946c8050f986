//! Markers: what every marker must hold, what headings are called, and what real files do.

use super::*;
use std::vec::Vec;

mod laws;
mod names;
mod traps;

pub(super) fn mark_with(
    source: &[u8],
    change: impl FnOnce(&mut Profile, &mut MarkLimits),
) -> Result<Marked, MarkError> {
    let mut profile = Profile::built_in("markdown").unwrap();
    let mut limits = MarkLimits::default();
    change(&mut profile, &mut limits);
    let document_id = DocumentId::parse("X").unwrap();
    let region = body_region(source, &profile)?;
    let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
    let marked = MarkdownMarker.mark(source, region, &context)?;
    check_partition(region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
    Ok(marked)
}

pub(super) fn mark(text: &str) -> Marked {
    mark_with(text.as_bytes(), |_, _| ()).unwrap()
}

/// The addresses without the document, in order; `.` is the document itself.
pub(super) fn names(marked: &Marked) -> Vec<&str> {
    marked
        .candidates
        .iter()
        .map(|c| match c.address.as_str() {
            "X" => ".",
            text => &text[2..],
        })
        .collect()
}

#[track_caller]
pub(super) fn cuts(text: &str, want: &[&str]) {
    assert_eq!(names(&mark(text)), want, "{text:?}");
}
