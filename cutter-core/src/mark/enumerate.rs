//! Clauses and points: paragraphs of an article that begin with a bare number or letter.
//!
//! A number in a text may be anything, so only a strict sequence counts: the first is 1 (or
//! a), and each goes on from the one before under the same parent.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::address::numeral::{cjk, roman};
use crate::address::text::push_ascii;
use crate::profile::{Enumerator, Numeral, PlainHeadings, Profile};

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
    let mut rules: Vec<&Enumerator> = profile.enumerators.iter().collect();
    if !rules.iter().any(|rule| rule.rank <= deepest) {
        return nodes;
    }
    // Deeper lists than are cut are counted all the same: the cut of the others is not another.
    rules.sort_by_key(|rule| rule.rank);
    let starts: Vec<usize> = nodes.iter().skip(1).map(|node| node.title.span.start).collect();
    let mut out = Vec::with_capacity(nodes.len());
    let mut open: Option<Lists<'a>> = None;
    for (i, mut node) in nodes.into_iter().enumerate() {
        let end = starts.get(i).copied().unwrap_or(text.len() + shift);
        let from = if node.paragraph { node.body_start } else { node.title.span.end };
        let is_cited = profile.citation_kinds.iter().any(|kind| kind == node.kind);
        match (node.rank, &mut open) {
            (Some(rank), _) if is_cited => open = Some(Lists::new(&rules, (rank, deepest), node.title.level)),
            (Some(rank), Some(lists)) if rank > lists.article => lists.enter(rank),
            (None, Some(lists)) if lists.holds(profile.plain_headings, node.title.level) => {
                lists.heading(&mut node);
            }
            _ => open = None,
        }
        out.push(node);
        if let Some(lists) = &mut open {
            let span = from.saturating_sub(shift)..end.saturating_sub(shift);
            lists.lines(text, span, shift, &mut out);
        }
    }
    out
}

/// Where an enumerator stands under the parent that is open.
struct Count<'p> {
    rule: &'p Enumerator,
    /// The number before.
    last: Option<u32>,
    /// How far its items are indented, in columns.
    indent: usize,
}

/// The lists that are open in an article.
struct Lists<'p> {
    article: u32,
    /// The deepest rank that is cut.
    deepest: u32,
    level: u8,
    /// The rank of a designator inside the article: only deeper lists are inside it.
    floor: u32,
    counts: Vec<Count<'p>>,
    /// Text has come since the article's beginning.
    begun: bool,
}

/// A line, or the rest of one, where an item may begin.
struct Spot<'t> {
    text: &'t str,
    indent: usize,
    after_blank: bool,
    /// Items of lists before this one do not begin here.
    deeper_than: usize,
}

impl<'p> Lists<'p> {
    fn new(rules: &[&'p Enumerator], (article, deepest): (u32, u32), level: u8) -> Self {
        let deeper = rules.iter().filter(|rule| rule.rank > article);
        let counts = deeper.map(|rule| Count { rule, last: None, indent: 0 }).collect();
        Self { article, deepest, level, floor: article, counts, begun: false }
    }

    /// A designator inside the article: its lists begin anew.
    fn enter(&mut self, rank: u32) {
        self.floor = rank;
        self.counts.iter_mut().filter(|count| count.rule.rank >= rank).for_each(|count| count.last = None);
    }

    /// Whether a plain heading is inside the article, as the nesting has it.
    const fn holds(&self, plain: PlainHeadings, level: u8) -> bool {
        matches!(plain, PlainHeadings::Inside) || level > self.level
    }

    /// A heading that is an item, number and all, becomes one.
    fn heading(&mut self, node: &mut Node<'p>) {
        let spot = Spot { text: &node.title.plain, indent: 0, after_blank: true, deeper_than: 0 };
        let Some((index, item)) = self.item(&spot) else {
            self.begun = true;
            return;
        };
        self.count(index, &item, 0);
        let rule = self.counts[index].rule;
        (node.kind, node.label, node.rank) = (rule.kind.as_str(), Some(item.label), Some(rule.rank));
        node.rest_at = item.length;
    }

    /// The list that goes on, or begins, at a spot.
    fn item(&self, spot: &Spot<'_>) -> Option<(usize, Item)> {
        let counts = self.counts.iter().enumerate().filter(|(i, _)| *i >= spot.deeper_than);
        counts.filter(|(_, count)| count.rule.rank > self.floor).find_map(|(i, count)| {
            let rule = count.rule;
            let due = count.last.map_or(rule.first.unwrap_or(1), |n| n + 1);
            let item = read(rule, spot.text)?;
            // An insert repeats the number with a letter behind it: 8, 8a.
            let goes_on = item.number == due || (item.inserted && count.last == Some(item.number));
            let stands = match count.last {
                Some(_) => !rule.aligned || spot.indent == count.indent,
                None => !(rule.leads && self.begun),
            };
            (goes_on && stands && (spot.after_blank || !rule.blank_before)).then_some((i, item))
        })
    }

    fn count(&mut self, index: usize, item: &Item, indent: usize) {
        self.counts[index].last = Some(item.number);
        self.counts[index].indent = indent;
        self.counts.iter_mut().skip(index + 1).for_each(|deeper| deeper.last = None);
        self.begun = true;
    }

    /// Adds the items that begin in the lines of `span`.
    fn lines(&mut self, text: &'p str, span: Range<usize>, shift: usize, out: &mut Vec<Node<'p>>) {
        let mut at = span.start;
        let mut after_blank = true;
        for line in text.get(span).unwrap_or_default().split_inclusive('\n') {
            let start = at;
            at += line.len();
            let inner = line.trim_start_matches(is_blank);
            let indent = columns(&line[..line.len() - inner.len()]);
            let bullet = inner.trim_start_matches(|c: char| is_blank(c) || matches!(c, '-' | '*' | '#'));
            if bullet.is_empty() {
                after_blank |= inner.is_empty();
                continue;
            }
            let (mut rest, mut deeper_than) = (bullet, 0);
            let mut spot = Spot { text: rest, indent, after_blank, deeper_than };
            after_blank = false;
            while let Some((index, item)) = self.item(&spot) {
                let begins = line.len() - rest.len();
                self.count(index, &item, spot.indent);
                // The first item takes the line from its start, marks and blanks with it.
                let node_start = start + if deeper_than == 0 { 0 } else { begins };
                let rule = self.counts[index].rule;
                if rule.rank <= self.deepest {
                    out.push(node_of(rule, &item, line, node_start, start + begins, shift));
                }
                // `(1) a) …`: a list that begins in the line of the item above it.
                deeper_than = index + 1;
                let (closed, after) = rest.split_at(item.length);
                rest = after.trim_start_matches(is_blank);
                if !closed.ends_with([')', '）']) || rest.is_empty() {
                    break;
                }
                spot = Spot { text: rest, indent: indent + item.length, after_blank: true, deeper_than };
            }
            self.begun = true;
        }
    }
}

fn node_of<'p>(
    rule: &'p Enumerator,
    item: &Item,
    line: &'p str,
    start: usize,
    begins: usize,
    shift: usize,
) -> Node<'p> {
    let title = Title {
        level: LEVEL,
        span: Region { start: start + shift, end: start + shift },
        text_start: begins + shift,
        raw: line.trim_end(),
        plain: Cow::Borrowed(""),
    };
    Node {
        title,
        kind: rule.kind.as_str(),
        label: Some(item.label.clone()),
        rank: Some(rule.rank),
        paragraph: true,
        body_start: begins + item.length + shift,
        alias: None,
        rest_at: 0,
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{200b}'
}

/// The columns that a line's blanks take: a tab goes to the next fourth.
fn columns(blanks: &str) -> usize {
    blanks.chars().filter(|c| *c != '\u{200b}').fold(0, |n, c| if c == '\t' { n / 4 * 4 + 4 } else { n + 1 })
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
    let letter = || letter(&rule.letters, inner);
    let length = match rule.numeral {
        Numeral::Digits | Numeral::Code => run(inner, |c| c.is_ascii_digit() || ('０'..='９').contains(&c)),
        Numeral::Letter => letter()?.1,
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
    // `1.5` and `2027.3` are no first items, and a numeral without a mark stands alone.
    let goes_on = rest.starts_with(|c: char| c.is_ascii_digit())
        || (closed.is_empty() && rest.starts_with(|c: char| !c.is_whitespace()));
    (!goes_on).then(|| Item { number, inserted, label, length: text.len() - rest.len() })
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
