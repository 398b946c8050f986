//! Clauses and points: paragraphs of an article that begin with a bare number or letter.
//!
//! A number in a text may be anything, so only a strict sequence counts: the first is 1 (or
//! a), and each goes on from the one before under the same parent.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::text::profile::{Enumerator, PlainHeadings, Profile};

use super::Region;
use super::item::{Item, read};
use super::node::{Node, Title};

/// After these another list may begin in the same line.
const CLOSING: [char; 9] = [')', '）', '.', '-', '–', '—', '―', '°', 'º'];

/// Below paragraphs that are articles.
const LEVEL: u8 = 8;

/// Adds the nodes of clauses and points to those of the articles that they stand in.
/// `text` is the whole region, which starts at `shift` in the file. It ends behind `most`.
pub(super) fn enumerate<'a>(
    profile: &'a Profile,
    text: &'a str,
    shift: usize,
    nodes: Vec<Node<'a>>,
    most: usize,
) -> Vec<Node<'a>> {
    let deepest = profile.deepest.as_deref().map_or(u32::MAX, |kind| profile.deepest_rank_of(kind));
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
            (Some(rank), _) if is_cited => open = Some(Lists::new(profile, &rules, (rank, deepest), &node)),
            (Some(rank), Some(lists)) if rank > lists.article => lists.enter(rank),
            (None, Some(lists)) if lists.holds(profile.plain_headings, node.title.level) => {
                lists.heading(&mut node);
            }
            _ => open = None,
        }
        out.push(node);
        if let Some(lists) = &mut open {
            let span = from.saturating_sub(shift)..end.saturating_sub(shift);
            lists.lines(text, span, shift, most, &mut out);
        }
        if out.len() > most {
            break;
        }
    }
    out
}

/// Where an enumerator stands under the parent that is open.
struct Count<'p> {
    rule: &'p Enumerator,
    /// The number before.
    last: Option<u32>,
    /// Its label and what followed it.
    label: String,
    mark: &'p str,
    /// How far its items are indented, in columns.
    indent: usize,
}

/// The lists that are open in an article.
struct Lists<'p> {
    article: u32,
    /// The article's number.
    label: Option<String>,
    suffixes: &'p [String],
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
    fn new(
        profile: &'p Profile,
        rules: &[&'p Enumerator],
        (article, deepest): (u32, u32),
        node: &Node<'p>,
    ) -> Self {
        let deeper = rules.iter().filter(|rule| rule.rank > article);
        let count =
            |rule: &&'p Enumerator| Count { rule, last: None, label: String::new(), mark: "", indent: 0 };
        Self {
            article,
            label: node.label.clone(),
            suffixes: &profile.suffix_words,
            deepest,
            level: node.title.level,
            floor: article,
            counts: deeper.map(count).collect(),
            begun: false,
        }
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

    /// The list that goes on, or begins, at a spot. A list goes on rather than that one begins:
    /// the one that has printed this mark, and of two of them the inner.
    fn item(&self, spot: &Spot<'_>) -> Option<(usize, Item<'p>)> {
        let mut goes_on: Option<(bool, usize, Item<'p>)> = None;
        let mut begins = None;
        for (i, count) in self.counts.iter().enumerate().skip(spot.deeper_than) {
            if count.rule.rank <= self.floor || (count.last.is_none() && begins.is_some()) {
                continue;
            }
            let Some(item) = self.fits(count, spot) else { continue };
            if count.last.is_none() {
                begins = Some((i, item));
                continue;
            }
            let same = count.mark == item.mark;
            if goes_on.as_ref().is_none_or(|(before, ..)| same >= *before) {
                goes_on = Some((same, i, item));
            }
        }
        goes_on.map(|(_, i, item)| (i, item)).or(begins)
    }

    /// The item that a spot is of one list.
    fn fits(&self, count: &Count<'p>, spot: &Spot<'_>) -> Option<Item<'p>> {
        let rule = count.rule;
        if rule.blank_before && !spot.after_blank {
            return None;
        }
        let stands = match count.last {
            Some(_) => !rule.aligned || spot.indent == count.indent,
            None => !((rule.leads && self.begun) || (rule.sole && self.is_inside(rule.rank))),
        };
        if !stands {
            return None;
        }
        let due = count.last.map_or(rule.first.unwrap_or(1), |n| n.saturating_add(1));
        let item = read(rule, self.above(rule), self.suffixes, spot.text)?;
        if count.last.is_none() && rule.sole && self.begins_anew(rule, &item) {
            return None;
        }
        // An insert repeats the number with a letter behind it: 8, 8a.
        (item.number == due || (item.inserted && count.last == Some(item.number))).then_some(item)
    }

    /// Whether the innermost list is numbered alike: this is no list inside it.
    fn begins_anew(&self, rule: &Enumerator, item: &Item<'_>) -> bool {
        let innermost = self.counts.iter().rfind(|count| count.last.is_some());
        innermost.is_some_and(|count| {
            count.mark == item.mark
                && count.rule.numeral == rule.numeral
                && count.rule.letters == rule.letters
                && count.rule.under == rule.under
        })
    }

    /// Whether a list of that rank, or a deeper one, is open.
    fn is_inside(&self, rank: u32) -> bool {
        self.counts.iter().any(|count| count.last.is_some() && count.rule.rank >= rank)
    }

    /// The label of the unit that the items of a list lie in.
    fn above(&self, rule: &Enumerator) -> Option<&str> {
        let open = self.counts.iter().rfind(|count| count.last.is_some() && count.rule.rank < rule.rank);
        open.map(|count| count.label.as_str()).or(self.label.as_deref())
    }

    fn count(&mut self, index: usize, item: &Item<'p>, indent: usize) {
        let count = &mut self.counts[index];
        (count.last, count.mark, count.indent) = (Some(item.number), item.mark, indent);
        count.label.clone_from(&item.label);
        self.counts.iter_mut().skip(index + 1).for_each(|deeper| deeper.last = None);
        self.begun = true;
    }

    /// Adds the items that begin in the lines of `span`.
    fn lines(
        &mut self,
        text: &'p str,
        span: Range<usize>,
        shift: usize,
        most: usize,
        out: &mut Vec<Node<'p>>,
    ) {
        let mut at = span.start;
        let mut after_blank = true;
        for line in text.get(span).unwrap_or_default().split_inclusive('\n') {
            if out.len() > most {
                return;
            }
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
                if !closed.ends_with(CLOSING) || rest.is_empty() {
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
    item: &Item<'_>,
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
