//! Which number a unit prints, from the text of its number or heading.

use alloc::format;
use alloc::string::{String, ToString};

use crate::text::address::check_label;
use crate::text::address::numeral::{cjk, roman};
use crate::text::address::text::{clean, fold_case, push_ascii};
use crate::text::mark::designate::designate;
use crate::text::profile::{Profile, XmlSource, XmlUnit};

/// The longest number label; a longer one is no number.
const MAX_LABEL_BYTES: usize = 32;

/// How the letters of a unit's number were read, which decides for the units beside it:
/// `(i)` after `(h)` is a letter, and after nothing the number one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    Roman,
    Alphabet,
}

/// A number as an address needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    /// Of another kind than the rule's, where the words say it.
    pub(super) kind: Option<String>,
    /// `None`: a kind that stands alone.
    pub(super) label: Option<String>,
    /// What the text says after the number.
    pub(super) rest: String,
    pub(super) letters: Option<Letters>,
}

/// Reads the number that stands in `text`.
pub(super) fn number(
    profile: &Profile,
    rule: &XmlUnit,
    source: &XmlSource,
    text: &str,
    before: Option<Letters>,
) -> Option<Number> {
    let text = clean(text);
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '§');
    let joined = join_hyphens(profile, text);
    let text = joined.as_deref().unwrap_or(text);
    let by_words = |found: super::super::designate::Designation<'_, '_>| {
        let kind = rule.kind_by_words.then(|| found.kind.into());
        Number { kind, label: found.label, rest: found.rest.into(), letters: None }
    };
    let found = designate(profile, text);
    if source.title {
        return found.filter(|found| rule.kind_by_words || found.kind == rule.kind).map(by_words);
    }
    if let Some(mut found) = found.filter(|found| found.label.is_some()) {
        // `Art. 5-bis`: designators know suffixes after a blank.
        let end = found.rest.find(|c: char| !c.is_alphabetic()).unwrap_or(found.rest.len());
        let (suffix, rest) = found.rest.split_at(end);
        if let Some(label) = found.label.as_mut().filter(|label| !label.contains(".."))
            && profile.suffix_words.contains(&fold_case(suffix))
            && text.contains(&format!("-{suffix}"))
        {
            label.push('-');
            label.push_str(&fold_case(suffix));
            found.rest = rest;
        }
        return Some(by_words(found));
    }
    bare(profile, text, before)
}

/// `§ 2000bb–1` as `§ 2000bb-1`: in the number of one unit a dash is part of it; only
/// after a word in the plural it is a range.
fn join_hyphens(profile: &Profile, text: &str) -> Option<String> {
    let has_dash = text.contains(['–', '‑', '‐']);
    let plural = |text: &str| {
        let folded = fold_case(text.get(..text.len().min(40)).unwrap_or(text));
        profile.plural_words.iter().any(|word| {
            folded
                .strip_prefix(word.as_str())
                .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric) || word.ends_with('§'))
        })
    };
    if !has_dash || plural(text) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside = out.ends_with(char::is_alphanumeric) && rest.peek().is_some_and(|c| c.is_alphanumeric());
        out.push(if matches!(c, '–' | '‑' | '‐') && inside { '-' } else { c });
    }
    Some(out)
}

/// A number without a word of the profile: `5a`, `(b)`, `iv.`, `Art. 1º`, `Capo IV`.
fn bare(profile: &Profile, text: &str, before: Option<Letters>) -> Option<Number> {
    let mut words = text.split(' ').filter(|word| word.contains(char::is_alphanumeric));
    let count = words.clone().count();
    let plain = |label: String, rest: &str| Number {
        kind: None,
        label: Some(label),
        rest: rest.into(),
        letters: None,
    };
    let starts_with_digit = |word: &&str| word.trim_start_matches(opening).starts_with(is_digit);
    if let Some(mut label) = words.clone().find(starts_with_digit).and_then(label) {
        let next = words.clone().skip_while(|word| !starts_with_digit(word)).nth(1).map(fold_case);
        if let Some(suffix) = next.filter(|next| profile.suffix_words.contains(next)) {
            label.push('-');
            label.push_str(&suffix);
        }
        return checked(label).map(|label| plain(label, ""));
    }
    let value = words.clone().find_map(|word| {
        let number = word.trim_matches(|c: char| !c.is_alphanumeric());
        let numeral = word.trim_matches(|c: char| cjk(c.encode_utf8(&mut [0; 4])).is_none());
        let known = profile.number_words.get(&fold_case(number)).cloned();
        known.or_else(|| cjk(numeral).map(|n| n.to_string()))
    });
    if let Some(value) = value {
        return Some(plain(value, ""));
    }
    // Letters stand alone, or after one word: `Capo IV`.
    let word = words.next_back().filter(|_| count <= 2)?;
    let letters = word.trim_matches(|c: char| !c.is_alphanumeric());
    let capital = letters.bytes().all(|b| b.is_ascii_uppercase());
    if !letters.bytes().all(|b| b.is_ascii_alphabetic()) || (count == 2 && !capital) {
        return None;
    }
    let value = roman(letters).filter(|_| match before {
        Some(Letters::Roman) => true,
        Some(Letters::Alphabet) => letters.len() > 1 && !same_letter(letters),
        // The first of its kind: one letter is Roman only where no other reading is likely.
        None => letters.len() > 1 || matches!(letters, "I" | "V" | "X" | "i" | "v" | "x"),
    });
    let (label, letters) = match value {
        Some(value) => (value.to_string(), Letters::Roman),
        None if letters.len() <= 3 => (letters.to_ascii_lowercase(), Letters::Alphabet),
        None => return None,
    };
    Some(Number { kind: None, label: Some(label), rest: String::new(), letters: Some(letters) })
}

/// `ii` and `cc` come after `hh` and `bb`.
fn same_letter(letters: &str) -> bool {
    let mut letters = letters.bytes();
    let first = letters.next();
    letters.all(|letter| Some(letter) == first)
}

fn opening(c: char) -> bool {
    !c.is_alphanumeric()
}

fn is_digit(c: char) -> bool {
    matches!(c, '0'..='9' | '０'..='９')
}

fn checked(label: String) -> Option<String> {
    (label.len() <= MAX_LABEL_BYTES && check_label(&label).is_ok()).then_some(label)
}

/// The label of one printed word: `12`, `77aaa`, `5-bis`, `14¹`, `3(a)`, `1º`.
fn label(word: &str) -> Option<String> {
    let word = word.trim_start_matches(opening);
    let mut label = String::new();
    let mut joint = None;
    for c in word.chars() {
        let raised = matches!(c, '⁰' | '¹' | '²' | '³' | '⁴'..='⁹');
        match c {
            'º' | 'ª' => break,
            '.' => joint = joint.or(Some('.')),
            '-' | '(' | '/' => joint = Some('-'),
            ')' => {}
            _ if raised || c.is_alphanumeric() => {
                if raised && joint.is_none() && !ends_raised(&label) {
                    joint = Some('+');
                }
                if let Some(joint) = joint.take().filter(|_| !label.is_empty()) {
                    label.push(joint);
                }
                if !push_ascii(&mut label, c) {
                    return None;
                }
            }
            _ => break,
        }
    }
    checked(label)
}

/// True where the label's last part is a raised one.
fn ends_raised(label: &str) -> bool {
    label.rfind(['+', '.', '-']).is_some_and(|at| label[at..].starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, before: Option<Letters>) -> Option<String> {
        let profile = Profile::built_in("akn").unwrap();
        let rules = profile.xml.as_ref().unwrap();
        let rule = rules.units.iter().find(|unit| unit.element == "section").unwrap();
        number(&profile, rule, &rules.number[0], text, before).and_then(|number| number.label)
    }

    #[test]
    fn numbers_as_they_are_printed() {
        for (text, want) in [
            ("5", "5"),
            ("1.", "1"),
            ("(a)", "a"),
            ("a)", "a"),
            ("(12)", "12"),
            ("2A", "2a"),
            ("§ 301. ", "301"),
            ("[§ 4.", "4"),
            ("“(b)", "b"),
            ("SEC. 2. ", "2"),
            ("SECTION 1.", "1"),
            ("§ 2000bb–1.", "2000bb-1"),
            ("§77aaa.", "77aaa"),
            ("§§ 3–6", "3..6"),
            ("Articles 3 to 6", "3..6"),
            ("Article 5", "5"),
            ("Article\u{a0}5", "5"),
            ("TITLE I—", "1"),
            ("Chapter 3", "3"),
            ("Capo IV", "4"),
            ("Art. 1º", "1"),
            ("Art. 5 bis", "5-bis"),
            ("Art. 5-bis.", "5-bis"),
            ("3(a)", "3-a"),
            ("3/1", "3-1"),
            ("14¹ §", "14+1"),
            ("Rule 4.2", "4.2"),
            ("First Schedule", "1"),
            ("第十二条", "12"),
            ("IV", "4"),
            ("ii", "2"),
            ("aa", "aa"),
        ] {
            assert_eq!(read(text, None).as_deref(), Some(want), "{text}");
        }
        for text in
            ["", "—", "Preamble", "General provisions of law", "Ω", "1234567890123456789012345678901234567"]
        {
            assert_eq!(read(text, None), None, "{text}");
        }
    }

    #[test]
    fn letters_follow_the_letters_beside_them() {
        use Letters::{Alphabet, Roman};
        for (text, before, want) in [
            ("(i)", Some(Alphabet), "i"),
            ("(i)", None, "1"),
            ("(c)", None, "c"),
            ("(c)", Some(Alphabet), "c"),
            ("(v)", Some(Roman), "5"),
            ("(iv)", Some(Alphabet), "4"),
            ("(ii)", Some(Alphabet), "ii"),
            ("(cc)", Some(Alphabet), "cc"),
            ("(l)", Some(Roman), "50"),
        ] {
            assert_eq!(read(text, before).as_deref(), Some(want), "{text} {before:?}");
        }
    }
}
