//! From titles in order to a partition with addresses: nesting, folding, depth,
//! duplicates and citation addresses. The rules are those of the addresses (1 to 8).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::text::address::{Address, AddressError, unit_kind_of};
use crate::text::profile::Nesting;

use super::enumerate::enumerate;
use super::markdown::push_bounded;
use super::nest::{Nest, Place};
use super::node::{Node, Title, fold, join_ids, lone_title, read};
use super::paragraph::paragraphs;
use super::sequence::{contain_restarts, gaps, keep_sequence};
use super::types::{add_line_aliases, is_repealed, publication_type, section_type};
use super::{
    Candidate, Duplicate, Lines, MarkContext, MarkError, Marked, Region, Warning, check_partition, forbidden,
    warning,
};

pub(super) struct Assembler<'a> {
    source: &'a [u8],
    text: &'a str,
    region: Region,
    context: &'a MarkContext<'a>,
    warnings: Vec<Warning>,
    lines: Lines<'a>,
    names: Names,
    candidates: Vec<Candidate>,
    duplicates: Vec<Duplicate>,
    folded: usize,
}

/// Which names are taken under each place. Short names under a known place compare much
/// faster than whole addresses, of which a document's all begin alike.
#[derive(Default)]
struct Names {
    root: BTreeMap<String, Taken>,
    /// By unit.
    below: Vec<BTreeMap<String, Taken>>,
    /// What each unit's address lies under.
    parents: Vec<Place>,
}

/// A name that is taken: by which unit first, and how often it was asked for.
struct Taken {
    first: usize,
    count: u32,
}

impl Names {
    fn under(&self, place: Place) -> Option<&BTreeMap<String, Taken>> {
        place.map_or(Some(&self.root), |unit| self.below.get(unit))
    }

    /// Takes `name` for the next unit and says how often it was asked for, from 1.
    fn take(&mut self, place: Place, name: String) -> u32 {
        let unit = self.below.len();
        self.below.push(BTreeMap::new());
        self.parents.push(place);
        let names = match place {
            Some(place) => &mut self.below[place],
            None => &mut self.root,
        };
        let taken = names.entry(name).or_insert(Taken { first: unit, count: 0 });
        taken.count += 1;
        taken.count
    }

    /// The unit whose address is the document's with these names below it.
    fn find<'n>(&self, names: impl Iterator<Item = &'n str>) -> Place {
        let mut at = None;
        for name in names {
            at = Some(self.under(at)?.get(name)?.first);
        }
        at
    }
}

impl<'a> Assembler<'a> {
    pub(super) fn new(
        source: &'a [u8],
        text: &'a str,
        region: Region,
        context: &'a MarkContext<'a>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self {
            source,
            text,
            region,
            context,
            warnings,
            lines: Lines::new(source),
            names: Names::default(),
            candidates: Vec::new(),
            duplicates: Vec::new(),
            folded: 0,
        }
    }

    pub(super) fn assemble(mut self, titles: Vec<Title<'a>>) -> Result<Marked, MarkError> {
        let (found, limits, bytes) = (titles.len(), self.context.limits, self.text.len());
        let most = limits.max_marks(bytes);
        limits.check_marks(bytes, found)?;
        let mut nodes = self.nodes(titles, most)?;
        self.folded = fold(self.source, self.context.profile.fold_titles, &mut nodes);
        if self.context.profile.nesting == Nesting::Rank {
            contain_restarts(self.context.profile, &mut nodes);
        }
        let nodes = enumerate(self.context.profile, self.text, self.region.start, nodes, most);
        limits.check_marks(bytes, nodes.len())?;
        let named = nodes.iter().filter(|node| node.rank.is_some()).count();
        let is_document = lone_title(&nodes);
        let first = nodes.first().map_or(self.region.end, |node| node.title.span.start);
        let blank =
            self.text[..first - self.region.start].chars().all(|c| c.is_whitespace() || c == '\u{feff}');
        let front = !self.region.is_empty() && (!blank || nodes.is_empty());
        let count = self.count(&nodes, front, is_document);
        limits.check_count(count, || publication_type(self.context.profile, self.source))?;
        self.candidates.reserve_exact(count);
        if front {
            let front = self.name(None, "front", None, self.region.start)?;
            self.push(front, "front", "", Region { start: self.region.start, end: self.region.start }, None);
        }
        let mut nest = Nest::new(self.context.profile);
        let mut merged = 0usize;
        for (i, node) in nodes.into_iter().enumerate() {
            if i == 0 && is_document {
                let address = self.context.document_id.address();
                self.names.take(None, String::new());
                self.push(address, "document", node.rest(), node.title.span, Some(node.body_start));
                continue;
            }
            let place = match nest.enter(node.rank, node.title.level) {
                Some(place) => place,
                None if self.candidates.is_empty() => None,
                None => {
                    merged += 1;
                    continue;
                }
            };
            let base = self.base(place, &node);
            let address = self.name(base, node.kind, node.label.as_deref(), node.title.span.start)?;
            nest.push(held_rank(&node), node.title.level, self.candidates.len());
            self.push(address, node.kind, node.rest(), node.title.span, Some(node.body_start));
            if let (Some(alias), Some(unit)) = (node.alias, self.candidates.last_mut()) {
                unit.aliases.push(alias);
            }
        }
        self.finish(found, named, merged, is_document)
    }

    /// How many candidates there will be: the nesting alone, before anything is named.
    fn count(&self, nodes: &[Node<'a>], front: bool, is_document: bool) -> usize {
        let mut nest = Nest::new(self.context.profile);
        let mut count = usize::from(front);
        for (i, node) in nodes.iter().enumerate() {
            let is_title = i == 0 && is_document;
            if !is_title {
                if nest.enter(node.rank, node.title.level).is_none() && count > 0 {
                    continue;
                }
                nest.push(held_rank(node), node.title.level, count);
            }
            count += 1;
        }
        count
    }

    /// Headings and the lines of text that designate, in order.
    fn nodes(&mut self, titles: Vec<Title<'a>>, most: usize) -> Result<Vec<Node<'a>>, MarkError> {
        let profile = self.context.profile;
        let at = self.region.start;
        let spans: Vec<(usize, usize)> = if profile.paragraphs.is_some() || profile.loose_headings {
            titles.iter().map(|t| (t.span.start - at, t.span.end - at)).collect()
        } else {
            Vec::new()
        };
        let mut nodes = read(profile, titles);
        let lines = paragraphs(profile, self.text, &spans, at, most);
        if lines.is_empty() && !profile.id_headings {
            return Ok(nodes);
        }
        self.context.limits.check_marks(self.text.len(), nodes.len() + lines.len())?;
        nodes.extend(lines);
        nodes.sort_by_key(|node| node.title.span.start);
        if profile.id_headings {
            join_ids(self.source, &mut nodes);
        }
        if profile.paragraphs.as_ref().is_some_and(|rules| rules.sequence) {
            for (start, what) in keep_sequence(&mut nodes, &profile.citation_kinds, profile.rank_of("annex"))
            {
                let message = format!("{what} begins a line out of sequence: taken for a reference, not cut");
                let line = self.lines.line_of(start);
                push_bounded(&mut self.warnings, warning("reference_not_cut", Some(line), message));
            }
        }
        Ok(nodes)
    }

    fn name(
        &mut self,
        place: Place,
        kind: &str,
        label: Option<&str>,
        at: usize,
    ) -> Result<Address, MarkError> {
        let mut segment = String::with_capacity(kind.len() + label.map_or(0, |label| label.len() + 1));
        segment.push_str(kind);
        if let Some(label) = label {
            segment.push('-');
            segment.push_str(label);
        }
        let address = match place.and_then(|unit| self.candidates.get(unit)) {
            Some(parent) => parent.address.child(&segment),
            None => self.context.document_id.child(&segment),
        };
        let address = address.map_err(|source| self.address_error(source, at))?;
        let nth = self.names.take(place, segment);
        if nth == 1 { Ok(address) } else { self.number(address, nth, at) }
    }

    /// What the address of `node` lies under. A decimal number holds its parents' numbers,
    /// so `4.2` under `4` is their sibling in the address: `doc/sec-4.2`.
    fn base(&self, parent: Place, node: &Node<'_>) -> Place {
        let flat = |unit: usize| {
            let last = self.candidates.get(unit)?.address.last()?;
            let rest = node.label.as_deref()?.strip_prefix(last.label?)?;
            let below = last.kind == node.kind && last.occurrence == 1;
            (below && rest.starts_with('.') && !rest.starts_with("..")).then_some(())?;
            self.names.parents.get(unit).copied()
        };
        parent.and_then(flat).unwrap_or(parent)
    }

    fn address_error(&mut self, source: AddressError, at: usize) -> MarkError {
        MarkError::Address { line: self.lines.line_of(at), source }
    }

    /// The address that is taken with `~2`, `~3`, … (rule 3).
    fn number(&mut self, address: Address, nth: u32, at: usize) -> Result<Address, MarkError> {
        let numbered =
            Address::parse(&format!("{address}~{nth}")).map_err(|source| self.address_error(source, at))?;
        let ordinal = u32::try_from(self.candidates.len()).unwrap_or(u32::MAX);
        let line = self.lines.line_of(at);
        self.duplicates.push(Duplicate { address: numbered.clone(), of: address, ordinal, line });
        Ok(numbered)
    }

    /// Adds a candidate that reaches to the end of the region, until the next one cuts it short.
    fn push(
        &mut self,
        address: Address,
        kind: &str,
        title: &str,
        heading: Region,
        body_start: Option<usize>,
    ) {
        let start = if let Some(last) = self.candidates.last_mut() {
            last.end = heading.start;
            heading.start
        } else {
            self.region.start
        };
        let unit_kind = if kind == "document" { "document" } else { unit_kind_of(kind).unwrap_or(kind) };
        self.candidates.push(Candidate {
            ordinal: u32::try_from(self.candidates.len()).unwrap_or(u32::MAX),
            address,
            citation_address: None,
            aliases: Vec::new(),
            unit_kind: unit_kind.into(),
            section_type: section_type(self.context.profile, kind, title).into(),
            start,
            end: self.region.end,
            heading,
            body_start: body_start.unwrap_or(start),
        });
    }

    fn finish(
        mut self,
        found: usize,
        named: usize,
        merged: usize,
        is_document: bool,
    ) -> Result<Marked, MarkError> {
        let (profile, shift) = (self.context.profile, self.region.start);
        for candidate in &mut self.candidates {
            let body = self.text.get(candidate.body_start - shift..candidate.end - shift).unwrap_or_default();
            if is_repealed(profile, body) {
                candidate.section_type = "repealed_placeholder".into();
            }
        }
        add_line_aliases(self.context, self.text, shift, &mut self.candidates)?;
        cite(&mut self.candidates, &self.context.profile.citation_kinds, &self.names);
        check_partition(self.region, self.candidates.iter().map(|c| (c.start, c.end)))?;
        if self.region.is_empty() {
            push_bounded(
                &mut self.warnings,
                warning("empty_region", None, "the body region is empty: no units"),
            );
        } else if found == 0 {
            let message = "no heading found: the whole body is one unit";
            push_bounded(&mut self.warnings, warning("no_headings", None, message));
        }
        let jumps = gaps(&self.candidates, &self.context.profile.citation_kinds, &mut self.lines);
        let gaps = u32::try_from(jumps.len()).unwrap_or(u32::MAX);
        for jump in jumps {
            push_bounded(&mut self.warnings, jump);
        }
        for duplicate in &self.duplicates {
            let message = format!("{} is taken, cut as {}", duplicate.of, duplicate.address);
            push_bounded(&mut self.warnings, warning("duplicate_address", Some(duplicate.line), message));
        }
        let profile = self.context.profile.id()?;
        let mut why = alloc::vec![
            format!("profile {} version {}", profile.name, profile.version),
            format!("{found} headings, {named} of them with a designator or number"),
        ];
        if is_document {
            why.push("the only level-1 heading comes first: it is the document".to_string());
        }
        if self.folded > 0 {
            why.push(format!("{} headings are the titles of the number headings before them", self.folded));
        }
        if merged > 0 {
            why.push(format!("{merged} headings below the depth limit stay in their parent's unit"));
        }
        Ok(Marked {
            region: self.region,
            forbidden: forbidden(&self.candidates, self.context.limits),
            candidates: self.candidates,
            duplicates: self.duplicates,
            gaps,
            publication_type: publication_type(self.context.profile, self.source),
            warnings: self.warnings,
            profile,
            why,
        })
    }
}

/// The rank under which a node holds others: a preamble or a table of contents holds no division.
fn held_rank(node: &Node<'_>) -> Option<u32> {
    node.rank.filter(|_| !matches!(node.kind, "preamble" | "toc" | "closing" | "front"))
}

/// Fills in citation addresses where they are unique, among themselves and beside every
/// canonical address that is another unit's.
fn cite(candidates: &mut [Candidate], kinds: &[String], names: &Names) {
    let cited: Vec<Option<Address>> = candidates.iter().map(|c| c.address.citation(kinds)).collect();
    let mut uses: BTreeMap<&Address, u32> = BTreeMap::new();
    for citation in cited.iter().flatten() {
        *uses.entry(citation).or_insert(0) += 1;
    }
    let is_unique = |candidate: &Candidate, citation: &Address| {
        uses.get(citation).is_some_and(|&n| n == 1)
            && (*citation == candidate.address || names.find(citation.as_str().split('/').skip(1)).is_none())
    };
    let unique: Vec<bool> = candidates
        .iter()
        .zip(&cited)
        .map(|(candidate, citation)| citation.as_ref().is_some_and(|citation| is_unique(candidate, citation)))
        .collect();
    for ((candidate, citation), unique) in candidates.iter_mut().zip(cited).zip(unique) {
        candidate.citation_address = citation.filter(|_| unique);
    }
}
