//! Numbers as designators print them: digits, Roman, words, letters, codes, ranges and inserts.

use alloc::string::{String, ToString};

use crate::text::address::check_label;
use crate::text::address::numeral::{cjk, roman};
use crate::text::profile::{Designator, Numeral, Profile};

use super::designate::trim_title;

/// The longest number label; a longer one is no number.
const MAX_LABEL_BYTES: usize = 32;

/// What may stand in a number between a prefix and a word.
pub(super) fn is_number_char(c: char) -> bool {
    ascii_digit(c).is_some()
        || cjk(c.encode_utf8(&mut [0; 4])).is_some()
        || matches!(c, '十' | '百' | '千' | '万')
}

/// The label of a text that is a number as a whole, in CJK or decimal digits of any width.
pub(super) fn whole_number(numerals: &[Numeral], text: &str) -> Option<String> {
    if numerals.contains(&Numeral::Digits)
        && text.chars().all(|c| ascii_digit(c).is_some())
        && !text.is_empty()
    {
        return Some(text.chars().filter_map(ascii_digit).collect())
            .filter(|label: &String| label.len() <= 9);
    }
    if numerals.contains(&Numeral::Cjk) { cjk(text).map(|n| n.to_string()) } else { None }
}

pub(super) fn number_after<'t>(
    profile: &Profile,
    designator: &Designator,
    word: &str,
    after: &'t str,
) -> Option<(String, &'t str)> {
    let after = after.strip_prefix('.').unwrap_or(after).trim_start();
    let plural = profile.plural_words.iter().any(|w| w == word);
    let (mut label, mut rest) = number(profile, &designator.numerals, after)?;
    let ranged = |rest| range_end(profile, &designator.numerals, rest, plural);
    // `§§ 1 a 4`: after a plural what reads as a range is one, not the article `1a`.
    if let Some((letter, after_letter)) = spaced_letter(profile, rest)
        && ranged(rest).is_none()
    {
        label.push(letter);
        rest = after_letter;
    }
    if let Some((end, after_range)) = ranged(rest) {
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
    (label.len() <= MAX_LABEL_BYTES && check_label(&label).is_ok()).then_some((label, rest))
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
    // Before codes, to which `er` of `1er` would be letters of the number.
    if has(Numeral::Digits)
        && let Some(found) = suffixed_digits(profile, text, has(Numeral::Code))
    {
        return Some(found);
    }
    if has(Numeral::Code)
        && let Some(found) = code(profile, text)
    {
        return Some(found);
    }
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
    let suffixed = || {
        let bare = profile.ordinal_suffixes.iter().filter_map(|suffix| letters.strip_suffix(suffix.as_str()));
        bare.filter(|bare| bare.bytes().all(|b| b.is_ascii_uppercase())).find_map(roman)
    };
    if has(Numeral::Roman)
        && let Some(value) = suffixed()
    {
        return Some((value.to_string(), rest));
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
pub(super) fn ordinal<'t>(profile: &Profile, text: &'t str) -> Option<(String, &'t str)> {
    if let Some((label, rest)) = number_word(profile, text) {
        return Some((label, rest.trim_start()));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (token, rest) = text.split_at(end);
    if let Some((label, rest)) = profile.spaced_letters.then(|| digits(text)).flatten() {
        let (letter, rest) = match spaced_letter(profile, rest) {
            Some((letter, rest)) => (Some(letter), rest),
            None => (None, rest),
        };
        let label = label.chars().chain(letter).collect();
        return Some((label, rest.strip_prefix('.').unwrap_or(rest).trim_start()));
    }
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

fn raised_digit(c: char) -> Option<char> {
    match c {
        '⁰' => Some('0'),
        '¹' => Some('1'),
        '²' => Some('2'),
        '³' => Some('3'),
        '⁴'..='⁹' => char::from_digit(u32::from(c) - u32::from('⁰'), 10),
        _ => None,
    }
}

fn superscript(text: &str) -> Option<(String, &str)> {
    let end = text.find(|c: char| raised_digit(c).is_none()).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].chars().filter_map(raised_digit).collect(), &text[end..]))
}

/// `4.1`, `4.`, `12)`, `4a.`, `A.1` at the start of a heading; a bare number has at most
/// three digits, or years would be sections.
pub(super) fn decimal(title: &str) -> Option<(String, &str)> {
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

/// `1er`, `2º`: the digits alone, where the profile knows what is glued to them. Where `codes`
/// are numbers too, one letter is an insert: `1e` comes after `1d`.
fn suffixed_digits<'t>(profile: &Profile, text: &'t str, codes: bool) -> Option<(String, &'t str)> {
    if profile.ordinal_suffixes.is_empty() {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (label, rest) = text.split_at(end);
    // Of `er` and `ere` the one that ends the word.
    let is_letter = |suffix: &str| suffix.len() == 1 && suffix.bytes().all(|b| b.is_ascii_alphabetic());
    let suffixes = profile.ordinal_suffixes.iter().filter(|suffix| !(codes && is_letter(suffix)));
    let after = suffixes
        .filter_map(|suffix| rest.strip_prefix(suffix.as_str()))
        .find(|after| !after.starts_with(char::is_alphanumeric))?;
    (1..=9).contains(&label.len()).then(|| tail(label.into(), after))
}

/// One letter behind a blank that belongs to the number before it, and what follows.
fn spaced_letter<'t>(profile: &Profile, rest: &'t str) -> Option<(char, &'t str)> {
    if !profile.spaced_letters {
        return None;
    }
    let after = rest.strip_prefix(' ')?;
    let letter = after.chars().next().filter(char::is_ascii_alphabetic)?;
    let after = &after[1..];
    // `§ 1 A title` has none, `1 a §` and `§ 1 a.` have.
    let ends = after.is_empty()
        || after.starts_with(['.', ':', ')', '(', ','])
        || after.strip_prefix(' ').is_some_and(|next| next.starts_with(['§', '–', '-', '(']))
        || (letter.is_ascii_lowercase() && after.starts_with(' '));
    ends.then(|| (letter.to_ascii_lowercase(), after))
}

/// `L111-1`, `R*311-1`, `L. 100-1`, `44.4.NĐ.1.1`, `58đ`: atoms of digits with at most two
/// letters, or of at most four capitals, joined by full stops and hyphens.
fn code<'t>(profile: &Profile, text: &'t str) -> Option<(String, &'t str)> {
    let mut label = String::new();
    let mut rest = text;
    if let Some(first) = text.chars().next().filter(|c| profile.code_letters.contains(*c)) {
        let after = &text[first.len_utf8()..];
        let after = after.strip_prefix('*').unwrap_or(after);
        let after = after.strip_prefix('.').unwrap_or(after);
        let after = after.strip_prefix(' ').unwrap_or(after);
        if !after.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        crate::text::address::text::push_ascii(&mut label, first);
        rest = after;
    }
    let mut first = true;
    loop {
        let ends = |c: char| !c.is_alphanumeric() || raised_digit(c).is_some();
        let end = rest.find(ends).unwrap_or(rest.len());
        let atom = &rest[..end];
        let number = atom.starts_with(|c: char| c.is_ascii_digit())
            && atom.trim_start_matches(|c: char| c.is_ascii_digit()).chars().count() <= 2
            && atom.len() <= 9;
        let word = !first && (1..=4).contains(&atom.chars().count()) && atom.chars().all(char::is_uppercase);
        if !(number || word) {
            break;
        }
        if !first {
            label.push(if text[..text.len() - rest.len()].ends_with('-') { '-' } else { '.' });
        }
        for c in atom.chars() {
            crate::text::address::text::push_ascii(&mut label, c);
        }
        first = false;
        rest = &rest[end..];
        if let Some((inserted, after)) = superscript(rest) {
            label.push('+');
            label.push_str(&inserted);
            rest = after;
            break;
        }
        let Some(after) = rest.strip_prefix(['.', '-']) else { break };
        let joined = after.starts_with(|c: char| c.is_ascii_digit())
            || after.chars().take_while(|c| c.is_alphanumeric()).all(char::is_uppercase)
                && after.starts_with(char::is_uppercase);
        if !joined {
            break;
        }
        rest = after;
    }
    (!first && label.len() <= MAX_LABEL_BYTES && check_label(&label).is_ok()).then_some((label, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_a_label_may_be() {
        let fr = Profile::built_in("fr").unwrap();
        assert_eq!(suffixed_digits(&fr, "123456789er x", false), Some(("123456789".into(), " x")));
        assert_eq!(suffixed_digits(&fr, "1234567890er x", false), None);
        let (whole, longer) = ("123456789.123456789.123456789.12", "123456789.123456789.123456789.123");
        assert_eq!(code(&fr, whole), Some((whole.into(), "")));
        assert_eq!(code(&fr, longer), None);
    }
}
