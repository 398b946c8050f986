//! Clauses and points: paragraphs of an article that begin with a bare number or letter.
//!
//! A number in a text may be anything, so only a strict sequence counts: the first is 1 (or
//! a), and each goes on from the one before under the same parent.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::address::numeral::{cjk, roman};
use crate::address::text::push_ascii;
use crate::profile::{Enumerator, Numeral, Profile};

use super::Region;
use super::node::{Node, Title};

/// Below paragraphs that are articles.
const LEVEL: u8 = 8;

/// Adds the nodes of clauses and points to those of the articles that they stand in.
/// `text` is the whole region, which starts at `shift` in the file.
pub(super) fn enumerate<'a>(
    profile: &'a Profile,
    text: &'a str,
    shift: usize,
    nodes: Vec<Node<'a>>,
) -> Vec<Node<'a>> {
    let deepest = profile.deepest.as_deref().map_or(u32::MAX, |kind| profile.rank_of(kind));
    let wanted: Vec<&Enumerator> = profile.enumerators.iter().filter(|e| e.rank <= deepest).collect();
    if wanted.is_empty() {
        return nodes;
    }
    let starts: Vec<usize> = nodes.iter().skip(1).map(|node| node.title.span.start).collect();
    let mut out = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.into_iter().enumerate() {
        let end = starts.get(i).copied().unwrap_or(text.len() + shift);
        let (rank, from) = (node.rank, if node.paragraph { node.body_start } else { node.title.span.end });
        let lowest = rank.filter(|_| profile.citation_kinds.iter().any(|kind| kind == node.kind));
        out.push(node);
        if let Some(article) = lowest {
            let deeper = wanted.iter().copied().filter(|e| e.rank > article).collect();
            within(text, from.saturating_sub(shift)..end.saturating_sub(shift), shift, deeper, &mut out);
        }
    }
    out
}

/// Where an enumerator stands: the number before, under the parent that is open.
struct Count<'p> {
    rule: &'p Enumerator,
    last: Option<u32>,
}

fn within<'a>(
    text: &'a str,
    span: core::ops::Range<usize>,
    shift: usize,
    rules: Vec<&'a Enumerator>,
    out: &mut Vec<Node<'a>>,
) {
    let mut counts: Vec<Count<'a>> = rules.into_iter().map(|rule| Count { rule, last: None }).collect();
    counts.sort_by_key(|count| count.rule.rank);
    let body = text.get(span.clone()).unwrap_or_default();
    let mut at = span.start;
    for line in body.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let bullet =
            line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '*' | '#' | '\u{200b}'));
        let lead = line.len() - bullet.len();
        let hit = counts.iter().position(|count| {
            read(count.rule, bullet).is_some_and(|item| {
                item.number == count.last.map_or(1, |n| n + 1) || {
                    // An insert repeats the number with a letter behind it: 8, 8a.
                    item.inserted && count.last == Some(item.number)
                }
            })
        });
        let Some((index, item)) = hit.and_then(|i| Some((i, read(counts[i].rule, bullet)?))) else {
            continue;
        };
        counts[index].last = Some(item.number);
        for deeper in counts.iter_mut().skip(index + 1) {
            deeper.last = None;
        }
        let rule = counts[index].rule;
        let raw = line.trim_end();
        let title = Title {
            level: LEVEL,
            span: Region { start: start + shift, end: start + shift },
            text_start: start + lead + shift,
            raw,
            plain: Cow::Borrowed(""),
        };
        let body_start = start + lead + item.length + shift;
        let (kind, label, rank) = (rule.kind.as_str(), Some(item.label), Some(rule.rank));
        out.push(Node { title, kind, label, rank, paragraph: true, body_start, alias: None, rest_at: 0 });
    }
}

/// A number at the start of a line.
struct Item {
    number: u32,
    inserted: bool,
    label: String,
    /// Of the text, with what closes it.
    length: usize,
}

fn read(rule: &Enumerator, text: &str) -> Option<Item> {
    let inner = text.strip_prefix(rule.open.as_str())?;
    let first = inner.chars().next()?;
    let length = match rule.numeral {
        Numeral::Digits | Numeral::Code => run(inner, |c| c.is_ascii_digit() || ('０'..='９').contains(&c)),
        Numeral::Letter => first.len_utf8(),
        Numeral::Roman | Numeral::Word => run(inner, |c| c.is_ascii_alphabetic()),
        Numeral::Cjk => run(inner, |c| cjk(c.encode_utf8(&mut [0; 4])).is_some() || c == '十' || c == '百'),
    };
    let printed = inner.get(..length).filter(|text| !text.is_empty() && text.len() <= 24)?;
    let (number, mut label) = match rule.numeral {
        Numeral::Letter => {
            let letter = first.to_lowercase().next()?;
            let place = if rule.letters.is_empty() {
                ('a'..='z').position(|c| c == letter)
            } else {
                rule.letters.chars().position(|c| c == letter)
            };
            let mut label = String::new();
            push_ascii(&mut label, letter);
            if label.is_empty() {
                label = (place? + 1).to_string();
            }
            (u32::try_from(place? + 1).ok()?, label)
        }
        Numeral::Roman | Numeral::Word => roman(printed).map(|n| (n, n.to_string()))?,
        Numeral::Cjk => cjk(printed).map(|n| (n, n.to_string()))?,
        Numeral::Digits | Numeral::Code => {
            let digits = crate::address::numeral::digits(printed)?;
            (digits.parse().ok()?, digits)
        }
    };
    let mut after = &inner[length..];
    let mut inserted = false;
    if matches!(rule.numeral, Numeral::Digits | Numeral::Code)
        && let Some((suffix, rest)) = insert(after)
    {
        (inserted, after) = (true, rest);
        label.push_str(&suffix);
    }
    let closed = rule.close.iter().find(|close| after.starts_with(close.as_str()))?;
    let rest = &after[closed.len()..];
    // `1.5` and `2027.3` are no first items.
    (!rest.starts_with(|c: char| c.is_ascii_digit())).then(|| Item {
        number,
        inserted,
        label,
        length: text.len() - rest.len(),
    })
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
