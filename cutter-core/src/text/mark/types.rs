//! What a unit and a document are by the evidence of their words: `section_type`,
//! `publication_type`, and the names that the text itself gives a unit.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::text::address::text::fold_case;
use crate::text::profile::Profile;

use super::{Candidate, MarkContext, MarkError};

/// A longer body says more than that the article is repealed.
const MAX_REPEALED_BYTES: usize = 240;
/// The title stands within so many bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Longer names are no names.
const MAX_ALIAS_BYTES: usize = 128;

/// True where the body of a unit says only that it is no more in force.
pub(super) fn is_repealed(profile: &Profile, body: &str) -> bool {
    if profile.repealed_words.is_empty() || body.len() > MAX_REPEALED_BYTES {
        return false;
    }
    let folded = fold_case(body);
    profile.repealed_words.iter().any(|word| folded.contains(word.as_str()))
}

/// The `publication_type` that the document's title says: the first level-1 heading, else
/// the front matter's `title`.
pub(super) fn publication_type(profile: &Profile, source: &[u8]) -> Option<String> {
    if profile.publication_titles.is_empty() {
        return None;
    }
    let head = source.get(..MAX_HEAD_BYTES).unwrap_or(source);
    let head = head.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let title_of = |line: &'_ str| {
        let line = line.trim_start_matches('\u{feff}').trim();
        (line
            .strip_prefix("# ")
            .or_else(|| line.strip_prefix("title:"))
            .or_else(|| line.strip_prefix("Title:")))
        .map(fold_case)
    };
    let titles: Vec<String> = head.lines().take(400).filter_map(title_of).take(4).collect();
    let says = |rule: &&crate::text::profile::PublicationRule| {
        titles.iter().any(|t| t.contains(rule.title.as_str()))
    };
    profile.publication_titles.iter().find(says).map(|rule| rule.publication_type.clone())
}

/// Adds the names that lines like `r[rule.id]` give the units they stand in, or the unit
/// whose heading is the next line of text. Each counts as a mark, for each takes memory.
pub(super) fn add_line_aliases(
    context: &MarkContext<'_>,
    text: &str,
    shift: usize,
    candidates: &mut [Candidate],
) -> Result<(), MarkError> {
    let (profile, limits, mut names) = (context.profile, context.limits, 0);
    for mark in &profile.alias_marks {
        let mut at = 0;
        for (start, _) in text.match_indices(mark.as_str()) {
            if start > 0 && text.as_bytes()[start - 1] != b'\n' {
                continue;
            }
            let inner = &text[start + mark.len()..];
            let line = inner.split(['\n', '\r']).next().unwrap_or_default().trim_end();
            let Some(name) = line.strip_suffix(']').filter(|name| is_alias(name)) else { continue };
            while candidates.get(at).is_some_and(|c| c.end <= start + shift) {
                at += 1;
            }
            // In the last line before a heading it names what the heading begins.
            let below = start + mark.len() + name.len() + 1;
            let ends = candidates.get(at).and_then(|c| text.get(below..c.end - shift));
            let is_last = ends.is_some_and(|rest| rest.chars().all(char::is_whitespace));
            let named = at + usize::from(is_last && at + 1 < candidates.len());
            if let Some(candidate) = candidates.get_mut(named) {
                names += 1;
                limits.check_marks(text.len(), names)?;
                candidate.aliases.push(name.to_string());
            }
        }
    }
    Ok(())
}

/// The name in `{#name …}` at the end of a heading.
pub(super) fn heading_alias(raw: &str) -> Option<&str> {
    let inner = raw.trim_end().strip_suffix('}')?;
    let name = inner.get(inner.rfind("{#")? + 2..)?;
    let name = name.split(|c: char| c.is_whitespace()).next()?;
    is_alias(name).then_some(name)
}

fn is_alias(name: &str) -> bool {
    (1..=MAX_ALIAS_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'/'))
}

/// The `section_type` of a unit by its title, then by its kind.
pub(super) fn section_type<'p>(profile: &'p Profile, kind: &str, title: &str) -> &'p str {
    let folded = fold_case(title);
    let bare = folded.trim_matches(|c: char| !c.is_alphanumeric());
    let starts = word_starts(&folded);
    let by_title = profile.title_section_types.iter().find(|rule| {
        if rule.whole { bare == rule.title } else { holds_words(&folded, &starts, &rule.title) }
    });
    by_title
        .map(|rule| &rule.section_type)
        .or_else(|| profile.kind_section_types.get(kind))
        .unwrap_or(&profile.default_section_type)
}

/// True where `words` stands in `text` as whole words; `starts` are where words start.
fn holds_words(text: &str, starts: &[usize], words: &str) -> bool {
    let first = words.bytes().next();
    starts.iter().any(|&at| {
        text.as_bytes().get(at).copied() == first
            && text[at..].strip_prefix(words).is_some_and(|after| !after.starts_with(char::is_alphanumeric))
    })
}

fn word_starts(text: &str) -> Vec<usize> {
    let mut inside = false;
    let begins = |(at, c): (usize, char)| {
        let letter = c.is_alphanumeric();
        let begin = letter && !core::mem::replace(&mut inside, letter);
        inside = letter;
        begin.then_some(at)
    };
    text.char_indices().filter_map(begins).collect()
}
