//! Designators that stand at the start of a line of text, and headings without their blank.
//!
//! Many laws print their articles as plain paragraphs. A line is looked at only where its
//! first letter may begin one of the profile's designators, so that the cost stays that of
//! reading the lines once.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::text::profile::{After, NumberSide, Profile};

use super::blocks::plain_title;
use super::designate::{Designation, designate};
use super::fences::Fences;
use super::node::{Node, Title, read};
use super::region::line_end;
use super::scan::holds;
use super::{Region, head};

/// Of a line so much is read for its designator.
const MAX_READ_BYTES: usize = 240;
/// The level of paragraphs: below every heading.
const LEVEL: u8 = 7;

/// The first letters of what may designate, for a quick look at each line.
struct Firsts {
    ascii: [bool; 128],
    others: Vec<char>,
}

impl Firsts {
    fn of(profile: &Profile, kinds: &[String]) -> Self {
        let mut firsts = Self { ascii: [false; 128], others: Vec::new() };
        for designator in profile.designators.iter().filter(|d| kinds.contains(&d.kind)) {
            if !designator.prefix.is_empty() {
                firsts.add(designator.prefix.chars().next());
                continue;
            }
            for word in &designator.words {
                firsts.add(word.chars().next());
            }
            if designator.number.contains(&NumberSide::Before) {
                ('0'..='9').for_each(|c| firsts.add(Some(c)));
                profile.number_words.keys().for_each(|word| firsts.add(word.chars().next()));
            }
        }
        for noise in &profile.noise {
            firsts.add(noise.chars().next());
        }
        firsts
    }

    fn add(&mut self, c: Option<char>) {
        for c in c.into_iter().flat_map(|c| c.to_lowercase().chain(c.to_uppercase())) {
            match usize::try_from(u32::from(c)).ok().and_then(|i| self.ascii.get_mut(i)) {
                Some(slot) => *slot = true,
                None if self.others.contains(&c) => {}
                None => self.others.push(c),
            }
        }
    }

    fn hold(&self, c: char) -> bool {
        match usize::try_from(u32::from(c)).ok().and_then(|i| self.ascii.get(i)) {
            Some(&slot) => slot,
            None => self.others.contains(&c),
        }
    }
}

/// A line of the text: its span with its end.
#[derive(Clone, Copy)]
struct Line {
    start: usize,
    end: usize,
}

/// The nodes that lines of text begin, in order. `headings` are the spans of headings in
/// `text`, in order; all offsets in are of `text`, those out of the file (`shift` more). It ends
/// behind `most`, at the end of a line.
pub(super) fn paragraphs<'a>(
    profile: &'a Profile,
    text: &'a str,
    headings: &[(usize, usize)],
    shift: usize,
    most: usize,
) -> Vec<Node<'a>> {
    let Some(rules) = &profile.paragraphs else {
        return if profile.loose_headings { loose(profile, text, headings, shift, most) } else { Vec::new() };
    };
    let firsts = Firsts::of(profile, &rules.kinds);
    let glued_words = glued_words(profile);
    let mut found = Vec::new();
    visit(text, headings, |line, after_blank| {
        let raw = &text[line.start..line.end];
        if profile.loose_headings
            && let Some(node) = loose_heading(profile, raw, line, shift)
        {
            found.push(node);
            return found.len() <= most;
        }
        let inner = raw.trim_start_matches(is_lead);
        let is_first = inner.chars().next().is_some_and(|c| firsts.hold(c));
        if is_first && (after_blank || !rules.blank_before) {
            let at = line.start + (raw.len() - inner.len());
            if let Some(node) = candidate(profile, text, line.start, at, line.end, shift) {
                found.push(node);
                return found.len() <= most;
            }
        }
        if rules.glued {
            glued(profile, text, line, &glued_words, shift, &mut found);
        }
        found.len() <= most
    });
    found
}

/// White space, invisible characters and emphasis before a designator.
fn is_lead(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '_' | '\u{200b}' | '\u{feff}' | '\u{2060}')
}

/// Calls `each` with every line that is no heading, not in a closed fence and not in an
/// HTML comment, and whether the line before it is empty, a heading or a comment. It ends where
/// `each` says that it needs no more.
fn visit(text: &str, headings: &[(usize, usize)], mut each: impl FnMut(Line, bool) -> bool) {
    let bytes = text.as_bytes();
    let (mut at, mut after_blank, mut comment) = (0, true, false);
    let mut next_heading = headings.iter().copied().peekable();
    let mut fences = Fences::new(text);
    while at < text.len() {
        if let Some(&(start, end)) = next_heading.peek()
            && at >= start
        {
            next_heading.next();
            (at, after_blank) = (end.max(at), true);
            continue;
        }
        let end = line_end(bytes, at);
        let (line, whole) = (Line { start: at, end }, &bytes[at..end]);
        at = end;
        if comment {
            comment = !holds(whole, b"-->");
            after_blank = true;
            continue;
        }
        if let Some(close) = fences.closes_at(line.start, whole) {
            (at, after_blank) = (close, true);
            continue;
        }
        if whole.trim_ascii_start().starts_with(b"<!--") {
            comment = !holds(whole, b"-->");
            after_blank = true;
            continue;
        }
        let blank = is_blank(whole);
        if !blank && !each(line, after_blank) {
            return;
        }
        after_blank = blank;
    }
}

fn is_blank(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    // Only zero-width and ideographic blanks are longer than a byte and still nothing.
    text.is_empty()
        || (text[0] >= 0x80
            && core::str::from_utf8(text).is_ok_and(|text| text.trim_matches(is_lead).is_empty()))
}

/// The plain text of a line from `at` on: of `**Article 2** Text` it is `Article 2 Text`, so what
/// emphasises the beginning is read too, where it is closed again.
pub(super) fn emphasised(line: &str, at: usize) -> Cow<'_, str> {
    let (lead, shown) = line.split_at(at);
    let marks = lead.len() - lead.trim_end_matches(['*', '_']).len();
    let bare = || plain_title(shown.trim_end());
    if marks == 0 {
        return bare();
    }
    let plain = plain_title(line[at - marks..].trim_end());
    if plain.starts_with(['*', '_']) { bare() } else { plain }
}

/// The node of the designator at `at`, in a line from `start` (or, glued, from `at`) to `end`.
fn candidate<'a>(
    profile: &'a Profile,
    text: &'a str,
    start: usize,
    at: usize,
    end: usize,
    shift: usize,
) -> Option<Node<'a>> {
    let rules = profile.paragraphs.as_ref()?;
    let whole = &text[at..end];
    let cut = head(whole, MAX_READ_BYTES).len();
    let plain = emphasised(&text[start..at + cut], at - start);
    let found = designate(profile, &plain)?;
    // Only behind a designator: a line may hold many places to look at, and end in many blanks.
    let raw = whole.trim_end();
    let short = rules.max_bytes == 0 || raw.len() <= usize::try_from(rules.max_bytes).unwrap_or(usize::MAX);
    if !designates(profile, &found, short) {
        return None;
    }
    let consumed = plain.len() - found.rest.len();
    let shown = shown_end(raw, &plain[..consumed]);
    let (kind, label, rank) = (found.kind, found.label, Some(found.rank));
    let body_start = at + shown.unwrap_or(0);
    // A line of text is heading only as far as it is short.
    let heading_end = if short || raw.len() <= MAX_READ_BYTES { end } else { start };
    let title = Title {
        level: LEVEL,
        span: Region { start: start + shift, end: heading_end + shift },
        text_start: at + shift,
        raw,
        plain,
    };
    Some(Node {
        title,
        kind,
        label,
        rank,
        paragraph: true,
        body_start: body_start + shift,
        alias: None,
        rest_at: consumed,
    })
}

/// Where the designator ends in `raw`, which may show it with marks of emphasis between;
/// `None` where its letters stand there otherwise.
fn shown_end(raw: &str, designator: &str) -> Option<usize> {
    if let Some(rest) = raw.strip_prefix(designator) {
        // What closes the emphasis belongs to the designator.
        let marks = rest.len() - rest.trim_start_matches('*').len();
        return Some(designator.len() + if marks > 1 { marks } else { 0 });
    }
    let mut rest = raw;
    for c in designator.chars() {
        rest = rest.strip_prefix(c).or_else(|| rest.trim_start_matches(['*', '_']).strip_prefix(c))?;
    }
    Some(raw.len() - rest.len())
}

/// Whether what a line of text begins with is one of the profile's designators there.
pub(super) fn designates(profile: &Profile, found: &Designation<'_, '_>, short: bool) -> bool {
    let Some(rules) = &profile.paragraphs else { return false };
    let is_cited = profile.citation_kinds.iter().any(|kind| kind == found.kind);
    rules.kinds.iter().any(|kind| kind == found.kind)
        && (is_cited || short)
        && may_follow(&rules.after, found, is_cited)
}

/// Whether what follows the number shows that the line designates rather than refers.
fn may_follow(allowed: &[After], found: &Designation<'_, '_>, is_cited: bool) -> bool {
    let after = found.after;
    if found.label.is_none() {
        return after.trim().is_empty() || !is_cited;
    }
    let trimmed = after.trim_start();
    allowed.iter().any(|allowed| match allowed {
        After::End => trimmed.is_empty(),
        After::Comma => trimmed.starts_with(','),
        After::Mark => is_mark(trimmed),
        After::Blank => after.starts_with(char::is_whitespace) && !trimmed.is_empty(),
        After::Capital => after.starts_with(char::is_whitespace) && trimmed.starts_with(char::is_uppercase),
    })
}

/// A mark that ends a number, not one inside it: `44.4.NĐ.1` goes on.
fn is_mark(text: &str) -> bool {
    let mut rest = text.chars();
    let mark = rest.next().is_some_and(|c| matches!(c, '.' | ':' | '：' | ')' | '-' | '–' | '—' | '．'));
    let (next, after) = (rest.next(), rest.next());
    let goes_on = text.starts_with('.')
        && next.is_some_and(|c| {
            c.is_ascii_digit() || (c.is_uppercase() && after.is_some_and(|c| c.is_uppercase() || c == '.'))
        });
    mark && !goes_on
}

/// Designators glued to the end of the sentence before them, within a line.
fn glued<'a>(
    profile: &'a Profile,
    text: &'a str,
    line: Line,
    words: &[String],
    shift: usize,
    found: &mut Vec<Node<'a>>,
) {
    let raw = &text[line.start..line.end];
    let glued = |word: &String| {
        let ends = |at: &usize| raw[..*at].ends_with(['.', ';', ':', ')', '”', '"', '/']);
        raw.match_indices(word.as_str()).map(|(at, _)| at).filter(ends).collect::<Vec<_>>()
    };
    let mut places: Vec<usize> = words.iter().flat_map(glued).map(|at| line.start + at).collect();
    places.sort_unstable();
    places.dedup();
    // From the last one back, because each ends where the next one begins.
    let (first, mut end) = (found.len(), line.end);
    for at in places.into_iter().rev() {
        if let Some(node) = candidate(profile, text, at, at, end, shift)
            // Inside a line only a number of its own act is told from a reference.
            && node.label.as_ref().is_some_and(|label| label.matches('.').count() >= 2)
        {
            found.push(node);
            end = at;
        }
    }
    found[first..].reverse();
}

/// The words of cited designators with a capital, as they stand glued to a sentence.
fn glued_words(profile: &Profile) -> Vec<String> {
    let cited = profile.designators.iter().filter(|d| profile.citation_kinds.contains(&d.kind));
    let capital = |word: &String| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect())
    };
    cited.flat_map(|d| d.words.iter()).filter_map(capital).collect()
}

/// `##Title` without its blank, where the profile takes it for a heading.
fn loose_heading<'a>(profile: &'a Profile, raw: &'a str, line: Line, shift: usize) -> Option<Node<'a>> {
    let level = raw.bytes().take_while(|&b| b == b'#').count();
    let inner = raw.get(level..)?.trim_end();
    if !(1..=6).contains(&level) || !inner.starts_with(|c: char| c.is_alphanumeric() || c == '*' || c == '§')
    {
        return None;
    }
    let title = Title {
        level: u8::try_from(level).ok()?,
        span: Region { start: line.start + shift, end: line.end + shift },
        text_start: line.start + level + shift,
        raw: inner,
        plain: plain_title(inner),
    };
    read(profile, alloc::vec![title]).pop()
}

fn loose<'a>(
    profile: &'a Profile,
    text: &'a str,
    headings: &[(usize, usize)],
    shift: usize,
    most: usize,
) -> Vec<Node<'a>> {
    let mut found = Vec::new();
    visit(text, headings, |line, _| {
        found.extend(loose_heading(profile, &text[line.start..line.end], line, shift));
        found.len() <= most
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_may_follow_a_number_is_as_the_profile_says() {
        let follows = |allowed: After, after: &'static str| {
            let found =
                Designation { kind: "art", label: Some("1".to_string()), rank: 1, after, rest: after.trim() };
            may_follow(&[allowed], &found, true)
        };
        let table: [(After, &[&str], &[&str]); 5] = [
            (After::End, &["", "  "], &[" a", "."]),
            (After::Comma, &[", a", " ,"], &["", ". a"]),
            (After::Mark, &[". a", ": a", " – a"], &["", " a", ".1"]),
            (After::Blank, &[" a", "\ta"], &["", " ", "a"]),
            (After::Capital, &[" A", "  É"], &["", " a", "A", " 1"]),
        ];
        for (allowed, yes, no) in table {
            assert!(yes.iter().all(|after| follows(allowed, after)), "{allowed:?} {yes:?}");
            assert!(!no.iter().any(|after| follows(allowed, after)), "{allowed:?} {no:?}");
        }
        // without a number of its own a cited one stands alone
        let bare = |after: &'static str, is_cited| {
            let found = Designation { kind: "art", label: None, rank: 1, after, rest: after };
            may_follow(&[After::Blank], &found, is_cited)
        };
        assert!(bare("", true) && bare(" a", false) && !bare(" a", true));
    }
}
