//! Which divisions are open when a heading comes: nesting by level or by rank.

use crate::text::profile::{Nesting, PlainHeadings, Profile};

/// What an address lies under: a unit, by its index, or the document (`None`).
pub(super) type Place = Option<usize>;

/// An open division.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its designator's rank; `None` for a plain heading.
    rank: Option<u32>,
    level: u8,
    unit: Place,
}

/// The ranks of the deepest kind that is cut; lists of one kind may lie in each other.
#[derive(Debug, Clone, Copy)]
struct Deepest {
    first: u32,
    last: u32,
}

/// The open divisions, the innermost last.
pub(super) struct Nest {
    nesting: Nesting,
    plain: PlainHeadings,
    /// The rank of articles, and of the deepest kind that is cut.
    article: u32,
    deepest: Option<Deepest>,
    depth: usize,
    open: alloc::vec::Vec<Open>,
}

impl Nest {
    pub(super) fn new(profile: &Profile) -> Self {
        let cited = profile.designators.iter().filter(|d| profile.citation_kinds.contains(&d.kind));
        Self {
            nesting: profile.nesting,
            plain: profile.plain_headings,
            article: cited.map(|d| d.rank).min().unwrap_or(u32::MAX),
            deepest: profile
                .deepest
                .as_deref()
                .map(|kind| Deepest { first: profile.rank_of(kind), last: profile.deepest_rank_of(kind) }),
            depth: profile.depth.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            open: alloc::vec::Vec::new(),
        }
    }

    /// True where a designator of `rank` is deeper than what is cut.
    pub(super) fn is_too_deep(&self, rank: Option<u32>) -> bool {
        rank.zip(self.deepest).is_some_and(|(rank, deepest)| rank > deepest.last)
    }

    /// Closes what a heading ends. The place of its unit, or `None` where it is deeper than
    /// what is cut.
    pub(super) fn enter(&mut self, rank: Option<u32>, level: u8) -> Option<Place> {
        if self.is_too_deep(rank) {
            return None;
        }
        let ends = |open: &Open| match (self.nesting, rank) {
            (Nesting::Level, _) => open.level >= level,
            (Nesting::Rank, Some(rank)) => open.rank.is_none_or(|above| above >= rank),
            (Nesting::Rank, None) => match self.plain {
                PlainHeadings::Inside => open.rank.is_none() && open.level >= level,
                PlainHeadings::Beside => {
                    open.level >= level && open.rank.is_none_or(|above| above >= self.article)
                }
                PlainHeadings::Level => open.level >= level,
            },
        };
        while self.open.last().is_some_and(ends) {
            self.open.pop();
        }
        let inside = self.open.last();
        let in_deepest =
            inside.and_then(|open| open.rank).zip(self.deepest).is_some_and(|(r, d)| r >= d.first);
        let plain_in_article = rank.is_none() && in_deepest;
        if plain_in_article || self.open.len() >= self.depth {
            return None;
        }
        Some(inside.and_then(|open| open.unit))
    }

    /// Opens a division whose unit is `unit`.
    pub(super) fn push(&mut self, rank: Option<u32>, level: u8, unit: usize) {
        self.open.push(Open { rank, level, unit: Some(unit) });
    }
}
