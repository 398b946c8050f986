//! Markers: what every marker must hold, what headings are called, and what real files do.

use super::*;
use std::vec::Vec;

mod laws;
mod lists;
mod lists_west;
mod names;
mod plain;
mod readings;
mod traps;
mod underlined;

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

/// Marked with the built-in profile of that name and the marker of its format.
pub(super) fn mark_as(name: &str, text: &str) -> Marked {
    let profile = Profile::built_in(name).unwrap();
    let limits = MarkLimits::default();
    let document_id = DocumentId::parse("X").unwrap();
    let region = body_region(text.as_bytes(), &profile).unwrap();
    let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
    marker_for(&profile).mark(text.as_bytes(), region, &context).unwrap()
}

/// The law of the cut, and offsets that a reader can use.
pub(super) fn lawful_as(name: &str, text: &str) -> Marked {
    let marked = mark_as(name, text);
    check_partition(marked.region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
    for c in &marked.candidates {
        assert!(text.get(c.start..c.end).is_some(), "{c:?}");
        assert!(c.start <= c.heading.start && c.heading.end <= c.end, "{c:?}");
        assert!(c.start <= c.body_start && c.body_start <= c.end && text.is_char_boundary(c.body_start));
        assert_eq!(Address::parse(c.address.as_str()).as_ref(), Ok(&c.address));
    }
    let unique: std::collections::BTreeSet<&Address> = marked.candidates.iter().map(|c| &c.address).collect();
    assert_eq!(unique.len(), marked.candidates.len());
    assert_eq!(marked, mark_as(name, text));
    marked
}

#[test]
fn lines_end_at_lf_crlf_and_a_bare_cr() {
    let text = b"a\nb\r\nc\rd\r\re\n\nf\r";
    let expected = [1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9];
    let mut forward = Lines::new(text);
    for (offset, line) in expected.into_iter().enumerate() {
        assert_eq!(forward.line_of(offset), line, "forward to {offset}");
        // asked for at once, and after a later place
        assert_eq!(Lines::new(text).line_of(offset), line, "at once to {offset}");
        let mut back = Lines::new(text);
        back.line_of(text.len());
        assert_eq!(back.line_of(offset), line, "back to {offset}");
    }
}

/// The headings' texts, trimmed.
pub(super) fn headings<'t>(text: &'t str, marked: &Marked) -> Vec<&'t str> {
    let heads = marked.candidates.iter().map(|c| text[c.heading.start..c.heading.end].trim());
    heads.filter(|head| !head.is_empty()).collect()
}

/// Work that must be linear: the bound is far above that, and far below what quadratic
/// work would take.
pub(super) fn is_linear(name: &str, what: &str, text: &str) -> usize {
    let start = std::time::Instant::now();
    let marked = mark_as(name, text);
    let took = start.elapsed();
    std::println!("{name}, {what}: {took:?}");
    assert!(took < std::time::Duration::from_secs(60), "{name}, {what}: {took:?}");
    marked.candidates.len()
}
