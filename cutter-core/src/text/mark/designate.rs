//! Reads a heading's title: which division it designates, by which number, and what is
//! left as its title. Everything it knows comes from the profile.

use alloc::string::{String, ToString};

use crate::text::address::check_label;
use crate::text::address::numeral::roman;
use crate::text::profile::{Designator, NumberSide, Numeral, Profile};

use super::head;
use super::number::{decimal, is_number_char, number_after, ordinal, whole_number};

/// What a title designates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Designation<'p, 't> {
    pub(super) kind: &'p str,
    pub(super) label: Option<String>,
    pub(super) rank: u32,
    /// What follows the designator, separators and all; a suffix of the input.
    pub(super) after: &'t str,
    /// The title after the designator, separators removed; a suffix of the input.
    pub(super) rest: &'t str,
}

/// Reads a cleaned title (NFC, single blanks). `None` where it designates nothing.
pub(super) fn designate<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    let title = without_noise(profile, title);
    let worded = word_first(profile, title)
        .or_else(|| prefixed(profile, title))
        .or_else(|| number_first(profile, title))
        .or_else(|| bare(profile, title));
    if worded.is_some() {
        return worded;
    }
    let kind = profile.decimal_kind.as_deref()?;
    let (label, rest) = decimal(title)?;
    // `1. Article I` is the article and `1. I First Amendment` the amendment: the number
    // before only counts, in one numeral or two.
    let (token, after) = rest.split_once(' ').unwrap_or((rest, ""));
    let again = roman(token).filter(|n| n.to_string() == label).map(|_| after);
    let counted = |rest| word_first(profile, rest).or_else(|| number_first(profile, rest));
    if let Some(found) = counted(rest).or_else(|| again.and_then(counted)) {
        return Some(found);
    }
    let rank = profile.designators.iter().find(|d| d.kind == kind).map_or(u32::MAX / 2, |d| d.rank);
    Some(Designation { kind, label: Some(label), rank, after: rest, rest })
}

/// The title behind what the profile takes for noise.
fn without_noise<'t>(profile: &Profile, title: &'t str) -> &'t str {
    let noise = profile.noise.iter().find_map(|noise| title.strip_prefix(noise.as_str()));
    noise.map_or(title, str::trim_start)
}

fn word_first<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    let first = title.chars().next()?;
    let designators = profile.designators.iter().filter(|d| d.prefix.is_empty());
    let words = designators.flat_map(|d| d.words.iter().map(move |word| (d, word)));
    let words = words.filter(|(_, word)| word.chars().next().is_none_or(|want| is_letter(first, want)));
    // The longest word that stands at the start wins: `subsection` before `sub`, `§§` before `§`.
    let (designator, word, after) = words
        .filter_map(|(d, word)| strip_word(title, word).map(|after| (d, word, after)))
        .max_by_key(|(_, word, _)| word.len())?;
    if designator.number.contains(&NumberSide::After)
        && let Some((label, rest)) = number_after(profile, designator, word, after)
    {
        return Some(found(designator, Some(label), rest));
    }
    (designator.alone && stands_alone(after)).then(|| found(designator, None, after))
}

fn stands_alone(after: &str) -> bool {
    after.is_empty() || after.trim_start().starts_with([':', '.', '–', '—', '-', '(', '（', '：'])
}

/// `第一百二十条之一`, `제2조의2`: the number stands between a prefix and the word.
fn prefixed<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    let sides = profile.designators.iter().filter(|d| !d.prefix.is_empty());
    let prefix = sides.clone().find(|d| title.starts_with(d.prefix.as_str()))?.prefix.as_str();
    let (number_text, designator, after) = sides
        .filter(|d| d.prefix == prefix)
        .filter_map(|d| {
            let inner = &title[prefix.len()..];
            // The nearest word: 第一编第二章 is the first of them.
            let (at, word) = d.words.iter().filter_map(|w| Some((bounded_find(inner, w)?, w))).min()?;
            Some((inner[..at].trim(), d, &inner[at + word.len()..]))
        })
        .min_by_key(|(number, d, after)| (number.len(), core::cmp::Reverse(d.words.len()), after.len()))?;
    let mut label = whole_number(&designator.numerals, number_text)?;
    let mut rest = after;
    while let Some((inserted, after)) = insert(profile, designator, rest) {
        label.push('+');
        label.push_str(&inserted);
        rest = after;
    }
    let ends = rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace()) || stands_alone(rest);
    (ends && check_label(&label).is_ok()).then(|| found(designator, Some(label), rest))
}

/// Where `word` begins near the start of `text`: a number before it is short.
fn bounded_find(text: &str, word: &str) -> Option<usize> {
    const FAR: usize = 48;
    head(text, FAR).find(word)
}

fn insert<'t>(profile: &Profile, designator: &Designator, rest: &'t str) -> Option<(String, &'t str)> {
    let after = profile.insert_words.iter().find_map(|word| rest.strip_prefix(word.as_str()))?;
    let end = after.find(|c: char| !is_number_char(c)).unwrap_or(after.len());
    Some((whole_number(&designator.numerals, &after[..end])?, &after[end..]))
}

fn number_first<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    let mut sides = profile.designators.iter().filter(|d| d.number.contains(&NumberSide::Before));
    let (label, after) = ordinal(profile, title)?;
    sides.find_map(|designator| {
        // The longest word here too: `partie législative` before `partie`.
        let words = designator.words.iter().filter_map(|word| Some((word, strip_word(after, word)?)));
        let (_, rest) = words.max_by_key(|(word, _)| word.len())?;
        let titled = designator.titled && (rest.is_empty() || rest.starts_with([' ', '.']));
        (titled || stands_alone(rest)).then(|| found(designator, Some(label.clone()), rest))
    })
}

/// `II. Der Bund`, `IVa. …`, `A. Om statsformen`, where the profile says what they are.
fn bare<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    if profile.bare_numerals.is_empty() {
        return None;
    }
    let (token, rest) = title.split_once('.')?;
    if !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let label_of = |numeral| match numeral {
        Numeral::Roman => {
            let upper = token.trim_end_matches(|c: char| c.is_ascii_lowercase());
            let suffix = &token[upper.len()..];
            let plain = !upper.is_empty() && suffix.len() <= 1;
            plain.then(|| roman(upper.trim_end())).flatten().map(|n| n.to_string() + suffix)
        }
        Numeral::Letter => {
            let one = token.len() == 1 && token.as_bytes()[0].is_ascii_uppercase();
            one.then(|| token.to_ascii_lowercase())
        }
        Numeral::Digits => {
            let few = (1..=3).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_digit());
            few.then(|| token.to_string())
        }
        Numeral::Word | Numeral::Cjk | Numeral::Code => None,
    };
    profile.bare_numerals.iter().find_map(|bare| {
        let label = Some(label_of(bare.numeral)?);
        Some(Designation { kind: &bare.kind, label, rank: bare.rank, after: rest, rest: trim_title(rest) })
    })
}

fn found<'p, 't>(designator: &'p Designator, label: Option<String>, after: &'t str) -> Designation<'p, 't> {
    Designation { kind: &designator.kind, label, rank: designator.rank, after, rest: trim_title(after) }
}

/// What follows `word` at the start of `title`, whatever the case; a word of letters must
/// end there.
fn strip_word<'t>(title: &'t str, word: &str) -> Option<&'t str> {
    let mut rest = title.chars();
    for want in word.chars() {
        if !is_letter(rest.next()?, want) {
            return None;
        }
    }
    let after = rest.as_str();
    let ends_in_letter = word.ends_with(char::is_alphanumeric);
    (!ends_in_letter || !after.starts_with(char::is_alphanumeric)).then_some(after)
}

/// True where `have` is `want`, or `want` is its lower case.
fn is_letter(have: char, want: char) -> bool {
    have == want
        || if have.is_ascii() {
            have.to_ascii_lowercase() == want
        } else {
            have.to_lowercase().eq(core::iter::once(want))
        }
}

pub(super) fn trim_title(rest: &str) -> &str {
    rest.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, '.' | ':' | ')' | '-' | '–' | '—' | '|' | ',' | '：')
    })
}
