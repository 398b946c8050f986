//! The number at the start of an item, as lists print it: `(1)`, `4° bis`, `I. -`, `b)`, `3.1`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::text::address::numeral::{cjk, roman};
use crate::text::address::text::push_ascii;
use crate::text::profile::{Enumerator, Numeral};

/// What may close a number and have a digit right after it.
const DASHES: [char; 4] = ['-', '–', '—', '―'];
/// Marks that are a part of the number, as a letter behind it is.
const ORDINAL_SIGNS: [char; 2] = ['°', 'º'];

/// The characters in which a number and what closes it are looked for behind emphasis.
const MAX_HEAD: usize = 32;

/// A number at the start of a line.
pub(super) struct Item<'r> {
    pub(super) number: u32,
    /// `8a` and `8 bis`, which repeat the number before them.
    pub(super) inserted: bool,
    pub(super) label: String,
    /// What follows the number: one of the rule's `close`.
    pub(super) mark: &'r str,
    /// Of the text, with what closes it.
    pub(super) length: usize,
}

/// The item of `rule` that `text` begins with, by its looks alone. `above` is the label of the
/// unit around, `suffixes` the words that belong to the number before them.
pub(super) fn read<'r>(
    rule: &'r Enumerator,
    above: Option<&str>,
    suffixes: &[String],
    text: &str,
) -> Option<Item<'r>> {
    let item = read_plain(rule, above, suffixes, text);
    if item.is_some() {
        return item;
    }
    // `1****4)`: emphasis that ends and begins inside the number.
    let (head, marked) = (text.char_indices().take(MAX_HEAD), |c: &(usize, char)| c.1 == '*');
    if !head.clone().any(|c| marked(&c)) {
        return None;
    }
    let plain: Vec<(usize, char)> = head.filter(|c| !marked(c)).collect();
    let letters: String = plain.iter().map(|(_, c)| c).collect();
    let mut item = read_plain(rule, above, suffixes, &letters)?;
    let last = plain.get(letters.get(..item.length)?.chars().count().checked_sub(1)?)?;
    item.length = last.0 + last.1.len_utf8();
    Some(item)
}

fn read_plain<'r>(
    rule: &'r Enumerator,
    above: Option<&str>,
    suffixes: &[String],
    text: &str,
) -> Option<Item<'r>> {
    let opened = text.strip_prefix(rule.open.as_str())?;
    let inner = if rule.under { opened.strip_prefix(above?)?.strip_prefix('.')? } else { opened };
    let letter = || letter(&rule.letters, inner);
    let length = match rule.numeral {
        Numeral::Digits | Numeral::Code => run(inner, |c| c.is_ascii_digit() || ('０'..='９').contains(&c)),
        Numeral::Letter => letter()?.1,
        Numeral::Roman if !rule.letters.is_empty() => run(inner, |c| rule.letters.contains(c)),
        Numeral::Roman | Numeral::Word => run(inner, |c| c.is_ascii_alphabetic()),
        Numeral::Cjk => run(inner, |c| cjk(c.encode_utf8(&mut [0; 4])).is_some() || c == '十' || c == '百'),
    };
    let printed = inner.get(..length).filter(|text| !text.is_empty() && text.len() <= 24)?;
    let (number, mut label) = match rule.numeral {
        Numeral::Letter => {
            let number = letter()?.0;
            let mut label = String::new();
            printed.chars().for_each(|c| {
                push_ascii(&mut label, c);
            });
            if label.is_empty() {
                label = number.to_string();
            }
            (number, label)
        }
        Numeral::Roman | Numeral::Word => roman(printed).map(|n| (n, n.to_string()))?,
        Numeral::Cjk => cjk(printed).map(|n| (n, n.to_string()))?,
        Numeral::Digits | Numeral::Code => {
            let digits = crate::text::address::numeral::digits(printed)?;
            (digits.parse().ok()?, digits)
        }
    };
    if rule.under {
        label = [above?, ".", &label].concat();
    }
    let mut after = &inner[length..];
    let numbered = matches!(rule.numeral, Numeral::Digits | Numeral::Code);
    let mut suffix = suffix_word(suffixes, after).or_else(|| insert(after).filter(|_| numbered));
    if let Some((_, rest)) = suffix {
        after = rest;
    }
    let mark = rule.close.iter().find(|close| after.starts_with(close.as_str()))?;
    let mut rest = &after[mark.len()..];
    // `4° bis`: the sign belongs to the number, and the word to both.
    if suffix.is_none()
        && mark.ends_with(ORDINAL_SIGNS)
        && let Some(found) = suffix_word(suffixes, rest)
    {
        rest = found.1;
        suffix = Some(found);
    }
    // `1.5` and `2027.3` are no first items, and a numeral without a mark stands alone.
    let goes_on = (rest.starts_with(|c: char| c.is_ascii_digit()) && !mark.ends_with(DASHES))
        || (mark.is_empty() && rest.starts_with(|c: char| !c.is_whitespace() && c != '*'));
    if goes_on {
        return None;
    }
    if let Some((word, _)) = &suffix {
        label.push_str(word);
    }
    Some(Item { number, inserted: suffix.is_some(), label, mark, length: text.len() - rest.len() })
}

/// `-bis` of `1 bis. `: a blank, one of the words, and its end.
fn suffix_word<'t>(words: &[String], after: &'t str) -> Option<(String, &'t str)> {
    let word = after.strip_prefix([' ', '\u{a0}'])?;
    let end = run(word, char::is_alphanumeric);
    let (word, rest) = word.split_at(end);
    // A word of one letter begins a sentence as often: `1° A un producteur`.
    let known = end > 1 && words.iter().any(|known| *known == word.to_lowercase());
    known.then(|| (["-", &word.to_lowercase()].concat(), rest))
}

/// The place in order, from 1, and the length of the letter that `text` begins with. Without an
/// order of its own, capitals and small letters are one.
fn letter(order: &str, text: &str) -> Option<(u32, usize)> {
    let first = text.chars().next()?;
    let one = |place: usize| Some((u32::try_from(place + 1).ok()?, first.len_utf8()));
    if order.is_empty() {
        return one(('a'..='z').position(|c| c == first.to_ascii_lowercase())?);
    }
    if !order.contains(' ') {
        return one(order.chars().position(|c| c == first)?);
    }
    // The longest wins: `ch` before `c`.
    let signs = order.split_whitespace().enumerate().filter(|(_, sign)| text.starts_with(sign));
    let (place, sign) = signs.max_by_key(|(_, sign)| sign.len())?;
    Some((u32::try_from(place + 1).ok()?, sign.len()))
}

/// `a` of `8a.`, `-2` of `8-2.`.
fn insert(after: &str) -> Option<(String, &str)> {
    if let Some(number) = after.strip_prefix('-') {
        let end = run(number, |c| c.is_ascii_digit());
        return (1..=2).contains(&end).then(|| (String::from("-") + &number[..end], &number[end..]));
    }
    let letter = after.chars().next().filter(char::is_ascii_lowercase)?;
    let rest = &after[1..];
    (!rest.starts_with(char::is_alphanumeric)).then(|| (letter.to_string(), rest))
}

fn run(text: &str, inside: impl Fn(char) -> bool) -> usize {
    text.find(|c: char| !inside(c)).unwrap_or(text.len())
}
