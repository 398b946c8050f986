//! Titles with their place in the document's structure: what they designate, and which of
//! them are the titles of others.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::text::address::slug::slug;
use crate::text::profile::{FoldTitles, Profile};

use super::Region;
use super::designate::designate;
use super::types::heading_alias;

/// A shorter row of digits is a number, not an id.
const MIN_ID_DIGITS: usize = 12;

/// A heading with its title read, in bytes of the file.
pub(super) struct Title<'a> {
    pub(super) level: u8,
    pub(super) span: Region,
    /// Where `raw` starts.
    pub(super) text_start: usize,
    pub(super) raw: &'a str,
    pub(super) plain: Cow<'a, str>,
}

/// A title with its place in the document's structure.
pub(super) struct Node<'a> {
    pub(super) title: Title<'a>,
    pub(super) kind: &'a str,
    pub(super) label: Option<String>,
    /// The designator's rank; `None` for a plain heading.
    pub(super) rank: Option<u32>,
    /// It is a line of text, not a heading.
    pub(super) paragraph: bool,
    pub(super) body_start: usize,
    /// A name that the text gives it.
    pub(super) alias: Option<String>,
    /// Where in the plain title the designator ends.
    pub(super) rest_at: usize,
}

impl Node<'_> {
    pub(super) fn rest(&self) -> &str {
        self.title.plain.get(self.rest_at..).unwrap_or_default()
    }
}

/// A long row of digits, as an editor numbers his paragraphs.
fn is_id(title: &str) -> bool {
    title.len() >= MIN_ID_DIGITS && title.bytes().all(|b| b.is_ascii_digit())
}

/// Reads designators and slugs.
pub(super) fn read<'a>(profile: &'a Profile, titles: Vec<Title<'a>>) -> Vec<Node<'a>> {
    let read = |title: Title<'a>| {
        let alias = heading_alias(title.raw).map(ToString::to_string);
        let Some(found) = designate(profile, &title.plain) else {
            // An id is the name of what follows, so it needs none of its own yet.
            let label = if profile.id_headings && is_id(&title.plain) { None } else { slug(&title.plain) };
            let body_start = title.span.end;
            return Node {
                title,
                kind: "h",
                label,
                rank: None,
                paragraph: false,
                body_start,
                alias,
                rest_at: 0,
            };
        };
        // The bytes after the designator, where the raw text shows it letter by letter.
        let consumed = title.plain.len() - found.rest.len();
        let body_start = if title.raw.as_bytes().starts_with(&title.plain.as_bytes()[..consumed]) {
            title.text_start + consumed
        } else {
            title.span.end
        };
        let (kind, label, rank) = (found.kind, found.label, Some(found.rank));
        Node { title, kind, label, rank, paragraph: false, body_start, alias, rest_at: consumed }
    };
    titles.into_iter().map(read).collect()
}

/// Gives number headings without a title the heading after them as their title. How many.
pub(super) fn fold(source: &[u8], fold: FoldTitles, nodes: &mut Vec<Node<'_>>) -> usize {
    if fold == FoldTitles::None {
        return 0;
    }
    let levels: Vec<u8> = nodes.iter().map(|node| node.title.level).collect();
    let next_up = next_at_or_above(&levels);
    let (mut i, mut folded) = (0, 0);
    nodes.dedup_by(|node, last| {
        i += 1;
        let bare = last.rank.is_some()
            && !last.paragraph
            && last.rest().is_empty()
            && node.rank.is_none()
            && node.label.is_some();
        let between = source.get(last.title.span.end..node.title.span.start).unwrap_or_default();
        let follows = bare && between.trim_ascii().is_empty();
        let (above, below) = (last.title.level, node.title.level);
        // Alone one level deeper: the next heading that is not inside it is not its sibling.
        let alone = || {
            let next = next_up.get(i).copied().flatten().and_then(|next| levels.get(next));
            below == above + 1 && next.is_none_or(|&next| next <= above)
        };
        let fits = match fold {
            FoldTitles::Any => true,
            FoldTitles::Deeper => below >= above,
            FoldTitles::Same | FoldTitles::None => below == above || alone(),
        };
        let annex = last.kind == "annex"
            && node.rank.is_none()
            && fits
            && below > above
            && between.trim_ascii().is_empty();
        let folds = (follows && fits) || annex;
        if folds {
            last.title.span.end = node.title.span.end;
            last.title.plain = core::mem::take(&mut node.title.plain);
            last.rest_at = node.rest_at;
            folded += 1;
        }
        folds
    });
    folded
}

/// A lone level-1 title that comes first and designates nothing is the document (rule 7).
pub(super) fn lone_title(nodes: &[Node<'_>]) -> bool {
    let ones = nodes.iter().filter(|node| node.title.level == 1).take(2).count();
    nodes.first().is_some_and(|n| n.title.level == 1 && ones == 1 && n.rank.is_none() && n.label.is_some())
}

/// For each heading the next one at its level or above, in linear time.
fn next_at_or_above(levels: &[u8]) -> Vec<Option<usize>> {
    let mut next = alloc::vec![None; levels.len()];
    let mut stack: Vec<usize> = Vec::new();
    for (i, &level) in levels.iter().enumerate() {
        while let Some(&top) = stack.last().filter(|&&top| levels[top] >= level) {
            next[top] = Some(i);
            stack.pop();
        }
        stack.push(i);
    }
    next
}

/// Gives lines that designate the headings before them that are only their ids: the unit
/// starts at the id.
pub(super) fn join_ids(source: &[u8], nodes: &mut Vec<Node<'_>>) {
    nodes.dedup_by(|node, last| {
        let between = source.get(last.title.span.end..node.title.span.start).unwrap_or_default();
        let joins = node.paragraph
            && !last.paragraph
            && last.rank.is_none()
            && is_id(&last.title.plain)
            && between.trim_ascii().is_empty();
        if joins {
            let start = last.title.span.start;
            core::mem::swap(node, last);
            last.title.span.start = start;
            last.alias = Some(node.title.plain.to_string());
        }
        joins
    });
    for node in nodes.iter_mut().filter(|node| node.rank.is_none() && node.label.is_none()) {
        node.label = slug(&node.title.plain);
    }
}
