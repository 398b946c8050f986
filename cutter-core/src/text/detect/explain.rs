//! Why a line starts a unit, or does not: for whoever writes a profile.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::clip::clip;
use crate::text::mark::{Candidate, Marked, head, line_designates, line_kind, plain_line};
use crate::text::profile::Profile;

/// A line is shown so far.
const MAX_SHOWN_BYTES: usize = 72;
/// A line is read so far.
const MAX_READ_BYTES: usize = 240;

/// What became of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineReason {
    /// Its number, from 1.
    pub line: usize,
    /// Its beginning.
    pub text: String,
    /// The unit that it starts.
    pub address: Option<String>,
    /// Why, in a short sentence.
    pub reason: String,
}

/// The first lines of the body that start units, and the first that look as if they might and
/// do not: at most `max` of either, in the order of the text. `marked` is what `profile` made of
/// `source`.
#[must_use]
pub fn explain(profile: &Profile, source: &[u8], marked: &Marked, max: usize) -> Vec<LineReason> {
    let text = source.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut found = Vec::new();
    let (mut starting, mut others) = (0, 0);
    let mut candidates = marked.candidates.iter().peekable();
    let (mut at, mut after_blank) = (0, true);
    for (i, raw) in text.split_inclusive('\n').enumerate() {
        let (start, end) = (at, at + raw.len());
        at = end;
        let trimmed = raw.trim();
        if trimmed.is_empty() {
            after_blank = true;
            continue;
        }
        let was_blank = core::mem::take(&mut after_blank);
        // The unit whose own first line of text this is.
        let mut begun = None;
        while let Some(candidate) = candidates.next_if(|c| first_text(text, c) < end) {
            begun = Some(candidate);
        }
        let heading = trimmed.starts_with('#');
        after_blank = heading;
        let line = Line { number: i + 1, start, raw: trimmed, heading, was_blank };
        let reason = match begun {
            Some(candidate) if starting < max => Some(starts(profile, &line, candidate)),
            None if others < max => does_not(profile, &line, marked).map(|why| (None, why)),
            _ => None,
        };
        if let Some((address, reason)) = reason {
            *(if address.is_some() { &mut starting } else { &mut others }) += 1;
            found.push(LineReason {
                line: line.number,
                text: clip(trimmed, MAX_SHOWN_BYTES),
                address,
                reason,
            });
        }
        if starting >= max && others >= max {
            break;
        }
    }
    found
}

struct Line<'t> {
    number: usize,
    start: usize,
    raw: &'t str,
    heading: bool,
    was_blank: bool,
}

fn first_text(text: &str, candidate: &Candidate) -> usize {
    let inner = text.get(candidate.start..candidate.end).unwrap_or_default();
    candidate.start
        + (inner.len() - inner.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').len())
}

fn read(profile: &Profile, line: &Line<'_>) -> (Option<String>, bool) {
    let inner = line.raw.trim_start_matches('#').trim_start();
    let cut = head(inner, MAX_READ_BYTES).len();
    let shown = inner.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_'));
    let lead = (inner.len() - shown.len()).min(cut);
    let plain = plain_line(&inner[..cut], lead);
    let kind = line_kind(profile, &plain).map(ToString::to_string);
    let rules = profile.paragraphs.as_ref();
    let short = rules.is_none_or(|r| {
        r.max_bytes == 0 || line.raw.len() <= usize::try_from(r.max_bytes).unwrap_or(usize::MAX)
    });
    let accepted = line_designates(profile, &plain, line.heading, short).is_some();
    (kind, accepted)
}

fn starts(profile: &Profile, line: &Line<'_>, candidate: &Candidate) -> (Option<String>, String) {
    let kind = candidate.address.last().map_or("", |segment| segment.kind);
    let what = if line.heading { "heading" } else { "line of text" };
    let reason = match (candidate.unit_kind.as_str(), read(profile, line).0) {
        ("document", _) => "the only level-1 heading comes first: it is the document".to_string(),
        ("front", None) => "text before the first heading".to_string(),
        ("heading", _) => "a heading without a designator: named by its words".to_string(),
        (_, Some(designated)) if designated == kind => format!("a {what} that designates {kind}"),
        _ if profile.enumerators.iter().any(|e| e.kind == kind) => {
            format!("a number that goes on in a list of {kind}")
        }
        _ => format!("{kind}, as the profile's format has it"),
    };
    (Some(candidate.address.to_string()), reason)
}

/// Why a line that looks as if it might start a unit does not; `None` for a line of mere text.
fn does_not(profile: &Profile, line: &Line<'_>, marked: &Marked) -> Option<String> {
    if let Some(warned) = marked.warnings.iter().find(|w| w.line == Some(line.number)) {
        return Some(warned.message.clone());
    }
    let (kind, accepted) = read(profile, line);
    if !line.heading && kind.is_none() {
        return None;
    }
    if line.start < marked.region.start || line.start >= marked.region.end {
        return Some("outside of the body".to_string());
    }
    let folded = marked.candidates.iter().any(|c| c.heading.start < line.start && line.start < c.heading.end);
    if folded {
        return Some("the title of the number heading before it".to_string());
    }
    let Some(kind) = kind else {
        return Some(match (&profile.deepest, profile.depth) {
            (Some(deepest), _) => format!("a heading inside of {deepest}, the deepest kind that is cut"),
            (None, Some(depth)) => format!("deeper than {depth} levels"),
            (None, None) => "no heading by the rules of the format".to_string(),
        });
    };
    if profile
        .deepest
        .as_deref()
        .is_some_and(|deepest| profile.rank_of(&kind) > profile.deepest_rank_of(deepest))
    {
        return Some(format!(
            "{kind} is deeper than what is cut: {}",
            profile.deepest.as_deref().unwrap_or_default()
        ));
    }
    if line.heading {
        return Some(format!("designates {kind}, but is no heading at the top level of the text"));
    }
    Some(match &profile.paragraphs {
        None => format!("designates {kind}, but is no heading, and `paragraphs` is not set"),
        Some(rules) if !rules.kinds.contains(&kind) => {
            format!("designates {kind}, but is no heading, and `paragraphs.kinds` has no {kind}")
        }
        Some(_) if !accepted => format!(
            "designates {kind}, but what follows is not in `paragraphs.after`, or the line is too long"
        ),
        Some(rules) if rules.blank_before && !line.was_blank => {
            format!("designates {kind}, but no empty line stands before it (`paragraphs.blank_before`)")
        }
        Some(_) => format!("designates {kind}, but does not go on in its sequence (`paragraphs.sequence`)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::address::DocumentId;
    use crate::text::mark::{MarkContext, MarkLimits, body_region, marker_for};

    #[test]
    fn lines_say_why_they_start_a_unit_or_do_not() {
        let text = "# Luật\n\n## Chương I\n\n## QUY ĐỊNH\n\n### Điều 1. Một\n\n1. Một\n\n#### Ghi chú\n\nChữ\nĐiều 2. Sai\n\n\
                    Điều 1 đã nói\n\nTiểu mục 1. Không\n";
        let profile = Profile::built_in("vn").unwrap();
        let (id, limits) = (DocumentId::parse("X").unwrap(), MarkLimits::default());
        let region = body_region(text.as_bytes(), &profile).unwrap();
        let context = MarkContext { document_id: &id, profile: &profile, limits: &limits };
        let marked = marker_for(&profile).mark(text.as_bytes(), region, &context).unwrap();
        let lines = explain(&profile, text.as_bytes(), &marked, 20);
        let of =
            |n: usize| lines.iter().find(|l| l.line == n).map(|l| (l.address.as_deref(), l.reason.as_str()));
        assert_eq!(of(3), Some((Some("X/ch-1"), "a heading that designates ch")));
        assert_eq!(of(5), Some((None, "the title of the number heading before it")));
        assert_eq!(of(7), Some((Some("X/ch-1/art-1"), "a heading that designates art")));
        assert_eq!(of(9), None, "mere text");
        assert_eq!(of(11), Some((None, "a heading inside of art, the deepest kind that is cut")));
        assert!(of(14).is_some_and(|(_, why)| why.contains("blank_before")), "{lines:?}");
        assert!(of(16).is_some_and(|(_, why)| why.contains("paragraphs.after")), "{lines:?}");
        assert!(of(18).is_some_and(|(_, why)| why.contains("no subsec")), "{lines:?}");
        assert_eq!(explain(&profile, text.as_bytes(), &marked, 1).len(), 2);
    }
}
