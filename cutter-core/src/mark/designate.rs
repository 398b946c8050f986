//! Reads a heading's title: which division it designates, by which number, and what is
//! left as its title. Everything it knows comes from the profile.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::address::check_label;
use crate::address::numeral::{cjk, roman};
use crate::address::text::fold_case;
use crate::profile::{Designator, NumberSide, Numeral, Profile};

/// The longest number label; a longer one is no number.
const MAX_LABEL_BYTES: usize = 32;

/// What a title designates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Designation<'p, 't> {
    pub(super) kind: &'p str,
    pub(super) label: Option<String>,
    pub(super) rank: u32,
    /// The title after the designator, separators removed; a suffix of the input.
    pub(super) rest: &'t str,
}

/// Reads a cleaned title (NFC, single blanks). `None` where it designates nothing.
pub(super) fn designate<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    if let Some(found) = word_first(profile, title) {
        return Some(found);
    }
    if let Some(found) = number_first(profile, title) {
        return Some(found);
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
    Some(Designation { kind, label: Some(label), rank, rest })
}

fn word_first<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    let first = title.chars().next()?;
    let words = profile.designators.iter().flat_map(|d| d.words.iter().map(move |word| (d, word)));
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
    let stands_alone = after.is_empty() || after.trim_start().starts_with([':', '.', '–', '—', '-', '(']);
    (designator.alone && stands_alone).then(|| found(designator, None, trim_title(after)))
}

fn number_first<'p, 't>(profile: &'p Profile, title: &'t str) -> Option<Designation<'p, 't>> {
    let mut sides = profile.designators.iter().filter(|d| d.number.contains(&NumberSide::Before));
    let (label, after) = ordinal(profile, title)?;
    sides.find_map(|designator| {
        let rest = designator.words.iter().find_map(|word| strip_word(after, word))?;
        let ends = rest.is_empty() || rest.trim_start().starts_with([':', '.', '–', '—', '-', '(']);
        ends.then(|| found(designator, Some(label.clone()), trim_title(rest)))
    })
}

fn found<'p, 't>(designator: &'p Designator, label: Option<String>, rest: &'t str) -> Designation<'p, 't> {
    Designation { kind: &designator.kind, label, rank: designator.rank, rest }
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

fn number_after<'t>(
    profile: &Profile,
    designator: &Designator,
    word: &str,
    after: &'t str,
) -> Option<(String, &'t str)> {
    let after = after.strip_prefix('.').unwrap_or(after).trim_start();
    let plural = profile.plural_words.iter().any(|w| w == word);
    let (mut label, mut rest) = number(profile, &designator.numerals, after)?;
    if let Some((end, after_range)) = range_end(profile, &designator.numerals, rest, plural) {
        label.push_str("..");
        label.push_str(&end);
        rest = after_range;
    } else if !plural
        && let Some((suffix, after_suffix)) = first_word(rest.trim_start())
        && rest.starts_with(' ')
        && profile.suffix_words.iter().any(|w| *w == suffix.to_lowercase())
    {
        label.push('-');
        label.push_str(&suffix.to_lowercase());
        rest = after_suffix;
    }
    (label.len() <= MAX_LABEL_BYTES && check_label(&label).is_ok()).then(|| (label, trim_title(rest)))
}

fn range_end<'t>(
    profile: &Profile,
    numerals: &[Numeral],
    rest: &'t str,
    plural: bool,
) -> Option<(String, &'t str)> {
    let tight = rest.strip_prefix(['–', '—']);
    let loose = || {
        let rest = rest.trim_start();
        rest.strip_prefix(['–', '—', '-']).or_else(|| {
            let (word, after) = first_word(rest)?;
            profile.range_words.iter().any(|w| *w == word.to_lowercase()).then_some(after)
        })
    };
    let after = if plural { tight.or_else(loose) } else { tight }?;
    number(profile, numerals, after.trim_start())
}

fn first_word(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A number at the start of `text`, and what follows it.
fn number<'t>(profile: &Profile, numerals: &[Numeral], text: &'t str) -> Option<(String, &'t str)> {
    let has = |numeral| numerals.contains(&numeral);
    let first = text.chars().next()?;
    if has(Numeral::Digits) && ascii_digit(first).is_some() {
        return digits(text);
    }
    if has(Numeral::Word)
        && let Some(found) = number_word(profile, text)
    {
        return Some(found);
    }
    if has(Numeral::Cjk) {
        let end = text.find(|c: char| cjk(c.encode_utf8(&mut [0; 4])).is_none()).unwrap_or(text.len());
        if let Some(value) = cjk(&text[..end]) {
            return Some((value.to_string(), &text[end..]));
        }
    }
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (letters, rest) = text.split_at(end);
    if rest.starts_with(char::is_alphanumeric) {
        return None;
    }
    let lone = letters.len() == 1;
    // A small letter is a number only before a separator, or "Part a day" would have one.
    let closed = rest.is_empty() || rest.starts_with([')', '.', ':', '–', '—']);
    if !letters.bytes().all(|b| b.is_ascii_uppercase()) && !closed {
        return None;
    }
    // One letter is Roman only where no other reading is likely: I, V, X.
    let roman_like = !lone || !has(Numeral::Letter) || letters.to_ascii_uppercase().contains(['I', 'V', 'X']);
    let label = if has(Numeral::Roman)
        && roman_like
        && let Some(value) = roman(letters)
    {
        value.to_string()
    } else if has(Numeral::Letter) && lone {
        letters.to_ascii_lowercase()
    } else {
        return None;
    };
    Some(tail(label, rest))
}

fn number_word<'t>(profile: &Profile, text: &'t str) -> Option<(String, &'t str)> {
    let end = text.find(|c: char| !c.is_alphabetic() && c != '-').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    // A line of text is no number, and the longest words are short.
    let mut buffer = [0u8; 32];
    let value = match buffer.get_mut(..word.len()) {
        Some(lower) if word.is_ascii() => {
            lower.copy_from_slice(word.as_bytes());
            lower.make_ascii_lowercase();
            profile.number_words.get(core::str::from_utf8(lower).ok()?)?
        }
        _ => profile.number_words.get(&word.to_lowercase())?,
    };
    Some((value.clone(), rest))
}

/// `Fourteenth`, `14th`, `14.`, `XIV.` before a word.
fn ordinal<'t>(profile: &Profile, text: &'t str) -> Option<(String, &'t str)> {
    if let Some((label, rest)) = number_word(profile, text) {
        return Some((label, rest.trim_start()));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (token, rest) = text.split_at(end);
    let bare = ["st", "nd", "rd", "th"].iter().find_map(|suffix| token.strip_suffix(suffix)).unwrap_or(token);
    let label = if !bare.is_empty() && bare.len() <= 9 && bare.bytes().all(|b| b.is_ascii_digit()) {
        bare.to_string()
    } else {
        roman(token)?.to_string()
    };
    Some((label, rest.strip_prefix('.').unwrap_or(rest).trim_start()))
}

fn ascii_digit(c: char) -> Option<char> {
    match c {
        '0'..='9' => Some(c),
        '０'..='９' => char::from_digit(u32::from(c) - u32::from('０'), 10),
        _ => None,
    }
}

/// `12`, `4.1`, `312e`, `52-A`, `88-1`, `3(a)`, `14¹`.
fn digits(text: &str) -> Option<(String, &str)> {
    let mut label = String::new();
    let mut rest = text;
    while let Some(digit) = rest.chars().next().and_then(ascii_digit) {
        label.push(digit);
        rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
    }
    if label.is_empty() {
        return None;
    }
    let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    if letters > 2
        || rest[letters..].starts_with(char::is_alphanumeric) && superscript(&rest[letters..]).is_none()
    {
        return None;
    }
    label.push_str(&rest[..letters].to_ascii_lowercase());
    let (label, rest) = tail(label, &rest[letters..]);
    let glued = rest.starts_with(|c: char| c.is_alphanumeric());
    (!glued).then_some((label, rest))
}

/// The parts after a number's first atom: `.1`, `-A`, `(a)`, `¹`.
fn tail(mut label: String, mut rest: &str) -> (String, &str) {
    while label.len() <= MAX_LABEL_BYTES {
        if let Some((sup, after)) = superscript(rest) {
            label.push('+');
            label.push_str(&sup);
            rest = after;
            continue;
        }
        let Some(joint) = rest.chars().next().filter(|c| matches!(c, '.' | '-' | '(')) else { break };
        let inner = &rest[1..];
        let end = inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len());
        let atom = &inner[..end];
        let short = (1..=4).contains(&atom.len());
        let all_digits = atom.bytes().all(|b| b.is_ascii_digit());
        let mixed = atom.bytes().filter(u8::is_ascii_alphabetic).count() <= 1;
        let after = &inner[end..];
        let fits = match joint {
            '.' => short && mixed && atom.starts_with(|c: char| c.is_ascii_digit()),
            '-' => short && mixed,
            _ => short && after.starts_with(')') && (mixed || roman(atom).is_some() || all_digits),
        };
        let glued =
            joint != '(' && after.starts_with(|c: char| c.is_alphanumeric() && superscript(after).is_none());
        if !fits || glued {
            break;
        }
        label.push(if joint == '.' { '.' } else { '-' });
        label.push_str(&atom.to_ascii_lowercase());
        rest = if joint == '(' { &after[1..] } else { after };
    }
    (label, rest)
}

fn superscript(text: &str) -> Option<(String, &str)> {
    let digit = |c: char| match c {
        '⁰' => Some('0'),
        '¹' => Some('1'),
        '²' => Some('2'),
        '³' => Some('3'),
        '⁴'..='⁹' => char::from_digit(u32::from(c) - u32::from('⁰'), 10),
        _ => None,
    };
    let end = text.find(|c: char| digit(c).is_none()).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].chars().filter_map(digit).collect(), &text[end..]))
}

/// `4.1`, `4.`, `12)`, `4a.`, `A.1` at the start of a heading; a bare number has at most
/// three digits, or years would be sections.
fn decimal(title: &str) -> Option<(String, &str)> {
    let (label, rest) = if title.starts_with(|c: char| c.is_ascii_uppercase()) {
        let (label, rest) = tail(title[..1].to_ascii_lowercase(), &title[1..]);
        if !label[1..].starts_with('.') {
            return None;
        }
        (label, rest)
    } else {
        digits(title)?
    };
    let marked = rest.starts_with(['.', ')', ':']);
    let spaced = rest.is_empty()
        || rest.starts_with(' ')
        || (marked && (rest.len() == 1 || rest[1..].starts_with(' ')));
    let decimal = label.contains('.');
    let plain = label.bytes().all(|b| b.is_ascii_digit());
    let few = plain && label.len() <= 3;
    let only = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.') && check_label(&label).is_ok();
    let ok =
        spaced && only && label.len() <= MAX_LABEL_BYTES && (decimal || few || (marked && label.len() <= 6));
    ok.then(|| (label, trim_title(rest)))
}

fn trim_title(rest: &str) -> &str {
    rest.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, '.' | ':' | ')' | '-' | '–' | '—' | '|' | ',')
    })
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
