//! The sequence of printed numbers: which line of text goes on with it, and where a number
//! is missing. A lost article is the worst fault that a cut can make, so every jump is told.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::text::profile::Profile;

use super::node::Node;
use super::{Candidate, Lines, Warning, warning};

/// So many articles ahead are asked whether the number that is due still comes.
const LOOK_AHEAD: usize = 12;

/// A label's last number: `l111-8` is 8 after `l111-`; a range has two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last<'l> {
    prefix: &'l str,
    first: u32,
    last: u32,
}

pub(super) fn last_number(label: &str) -> Option<Last<'_>> {
    let (from, to) = label.split_once("..").unwrap_or((label, label));
    let (prefix, first) = split(from)?;
    let last = split(to).filter(|(other, _)| *other == prefix || other.is_empty()).map_or(first, |(_, n)| n);
    Some(Last { prefix, first, last: last.max(first) })
}

/// The last number of a label and what stands before it; letters behind it are an insert.
fn split(label: &str) -> Option<(&str, u32)> {
    let digits_end = label.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = label[..digits_end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| i + 1);
    let suffix = &label[digits_end..];
    if suffix.len() > 3 && !suffix.starts_with('-') {
        return None;
    }
    Some((&label[..start], label[start..digits_end].parse().ok()?))
}

/// The number that is due after `number`; the largest there is, is due again.
const fn next(number: u32) -> u32 {
    number.saturating_add(1)
}

/// Drops lines of text that only refer to an article: their number does not go on from the
/// one before, and the one that is due still comes. What was dropped, for the approver.
pub(super) fn keep_sequence(
    nodes: &mut Vec<Node<'_>>,
    kinds: &[String],
    context_rank: u32,
) -> Vec<(usize, String)> {
    // The first and the last: a range goes on with the one and is gone on from with the other.
    let numbers: Vec<Option<(u32, u32)>> = nodes
        .iter()
        .map(|node| {
            let cited = kinds.iter().any(|kind| kind == node.kind);
            let last = node.label.as_deref().filter(|_| cited).and_then(last_number)?;
            last.prefix.is_empty().then_some((last.first, last.last))
        })
        .collect();
    let is_cited = |node: &&Node<'_>| kinds.iter().any(|kind| kind == node.kind);
    let in_lines = nodes.iter().filter(is_cited).filter(|node| node.paragraph).count();
    let in_headings = nodes.iter().filter(is_cited).count() - in_lines;
    // Where articles are headings, a line is one only if it fills a gap between two of them.
    let strict = in_headings > in_lines;
    // The next articles of each node, by place: linear, since the look ahead is bounded.
    // None is asked beyond an annex, where numbers begin again.
    let restarts = |node: &Node<'_>| node.rank.is_some_and(|rank| rank <= context_rank && rank < u32::MAX);
    let mut contexts = 0usize;
    let mut articles: Vec<(usize, usize)> = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        contexts += usize::from(restarts(node));
        if numbers[i].is_some() {
            articles.push((i, contexts));
        }
    }
    let mut context = 0;
    let mut dropped = Vec::new();
    let mut drop = alloc::vec![false; nodes.len()];
    let mut before: Option<u32> = None;
    let mut at = 0;
    for (i, node) in nodes.iter().enumerate() {
        if restarts(node) {
            before = None;
            context += 1;
        }
        let Some((number, end)) = numbers[i] else {
            if strict && node.paragraph && is_cited(&node) {
                drop[i] = true;
                dropped.push((
                    node.title.span.start,
                    format!("{} {}", node.kind, node.label.as_deref().unwrap_or_default()),
                ));
            }
            continue;
        };
        while articles.get(at).is_some_and(|&(j, _)| j <= i) {
            at += 1;
        }
        let ahead = || {
            let here = articles[at..].iter().take(LOOK_AHEAD).take_while(|&&(_, other)| other == context);
            here.filter_map(|&(j, _)| Some(numbers[j]?.0))
        };
        let keeps = match before {
            _ if !node.paragraph => true,
            Some(last) if strict => {
                number == next(last) && ahead().next().is_some_and(|after| after > number)
            }
            None if strict => number == 1 && ahead().next() == Some(2),
            None => number <= 1 || !ahead().any(|n| n == 1),
            Some(last) if number == last || number == next(last) => true,
            Some(last) if number > last => !ahead().any(|n| n == next(last)),
            // Back: a restart, if what comes next goes on from here and not from before.
            Some(last) => number == 1 && ahead().next() == Some(2) && !ahead().any(|n| n == next(last)),
        };
        if keeps {
            before = Some(end);
        } else {
            drop[i] = true;
            dropped.push((node.title.span.start, format!("{} {number}", node.kind)));
        }
    }
    let mut i = 0;
    nodes.retain(|_| {
        i += 1;
        !drop[i - 1]
    });
    dropped
}

/// Makes plain headings under which the articles begin again at 1 (the protocols to a treaty)
/// divisions that hold them, or their addresses would be taken.
pub(super) fn contain_restarts(profile: &Profile, nodes: &mut [Node<'_>]) {
    let rank = Some(profile.rank_of("annex")).filter(|&rank| rank < u32::MAX).map_or(1, |rank| rank + 1);
    // The last article's number, and the plain headings since, that are not inside another.
    let (mut before, mut open): ((&str, u32), Vec<usize>) = (("", 0), Vec::new());
    for i in 0..nodes.len() {
        let node = &nodes[i];
        let cited = profile.citation_kinds.iter().any(|kind| kind == node.kind);
        if node.rank.is_none() {
            open.retain(|&j| nodes[j].title.level < node.title.level);
            open.push(i);
            continue;
        }
        if node.kind == "annex" {
            (before, open) = (("", 0), Vec::new());
        }
        if !cited {
            continue;
        }
        let number = node.label.as_deref().and_then(last_number).filter(|last| last.prefix.is_empty());
        let Some(number) = number.map(|last| last.first) else { continue };
        // Only where the heading ends the article before it, too.
        let heading =
            open.first().copied().filter(|&j| !node.paragraph && nodes[j].title.level < node.title.level);
        if let Some(heading) = heading.filter(|_| number == 1 && before.1 > 1 && before.0 == node.kind) {
            nodes[heading].rank = Some(rank);
        }
        before = (nodes[i].kind, number);
        open.clear();
    }
}

/// Where a printed number jumps, among the units of each kind in each annex or, for kinds
/// within articles, in each parent.
pub(super) fn gaps(candidates: &[Candidate], kinds: &[String], lines: &mut Lines<'_>) -> Vec<Warning> {
    let mut seen: BTreeMap<(&str, &str, &str), u32> = BTreeMap::new();
    let mut found = Vec::new();
    for candidate in candidates {
        let Some(last) = candidate.address.last() else { continue };
        let (kind, label) = (last.kind, last.label.unwrap_or_default());
        if !kinds.iter().any(|cited| cited == kind) || last.occurrence > 1 {
            continue;
        }
        let Some(number) = last_number(label) else { continue };
        let key = (context(candidate, kinds), kind, number.prefix);
        let due = seen.get(&key).map_or(1, |&n| next(n));
        let restarts = number.first == 1;
        if number.first > due && !restarts && (seen.contains_key(&key) || number.prefix.is_empty()) {
            let missing = if number.first == next(due) {
                format!("{}{due} is missing", number.prefix)
            } else {
                format!("{}{due} to {} are missing", number.prefix, number.first - 1)
            };
            let message = format!("{kind} {label}: {missing}");
            found.push(warning("number_gap", Some(lines.line_of(candidate.start)), message));
        }
        seen.insert(key, number.last);
    }
    found
}

/// The part of the address in which numbers run on: up to the innermost annex, or the
/// article for what stands in one.
fn context<'c>(candidate: &'c Candidate, kinds: &[String]) -> &'c str {
    let address = candidate.address.as_str();
    let parent = address.rfind('/').map_or("", |at| &address[..at]);
    let mut end = 0;
    let mut at = 0;
    for segment in parent.split('/') {
        at += segment.len() + 1;
        let kind = segment.split(['-', '~']).next().unwrap_or_default();
        if kind == "annex" || kinds.iter().any(|cited| cited == kind) {
            end = at - 1;
        }
    }
    &parent[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_label() {
        for (label, want) in [
            ("7", Some(("", 7, 7))),
            ("312e", Some(("", 312, 312))),
            ("3..6", Some(("", 3, 6))),
            ("l111-8", Some(("l111-", 8, 8))),
            ("l100-1a", Some(("l100-", 1, 1))),
            ("44.4.pl.3", Some(("44.4.pl.", 3, 3))),
            ("14+1", Some(("14+", 1, 1))),
            ("707a..707c", Some(("", 707, 707))),
            ("preliminaire", None),
        ] {
            let found = last_number(label).map(|last| (last.prefix, last.first, last.last));
            assert_eq!(found, want, "{label}");
        }
    }
}
