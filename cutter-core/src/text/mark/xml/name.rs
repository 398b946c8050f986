//! From units in document order to a partition with addresses.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::text::address::slug::slug;
use crate::text::address::text::clean;
use crate::text::address::{Address, AddressError, unit_kind_of};
use crate::text::mark::markdown::push_bounded;
use crate::text::mark::sequence::gaps;
use crate::text::mark::types::section_type;
use crate::text::mark::{
    Candidate, Duplicate, Lines, MarkContext, MarkError, Marked, Region, check_partition, forbidden, warning,
};
use crate::text::profile::XmlRules;

use super::number::{Letters, number};
use super::read::{Read, Unit};

/// A unit with its name.
struct Named {
    kind: String,
    label: Option<String>,
    title: String,
    heading: Region,
    body_start: usize,
    numbered: bool,
}

/// The address of a unit that has one, and what it lies under.
struct Place {
    candidate: usize,
    above: Option<usize>,
    kind: String,
    label: Option<String>,
    /// It has no `~n`.
    first: bool,
    /// How the letters of the units below it were read, by the rule's element.
    letters: BTreeMap<String, Letters>,
}

struct Assembler<'a> {
    context: &'a MarkContext<'a>,
    region: Region,
    lines: Lines<'a>,
    /// How often each name was asked for, under each place.
    taken: BTreeMap<(Option<usize>, String), u32>,
    places: Vec<Place>,
    /// Letters of units directly under the document.
    letters: BTreeMap<String, Letters>,
    candidates: Vec<Candidate>,
    duplicates: Vec<Duplicate>,
}

/// Names the units and cuts the region at their starts.
pub(super) fn assemble(
    source: &[u8],
    region: Region,
    context: &MarkContext<'_>,
    rules: &XmlRules,
    read: Read<'_>,
) -> Result<Marked, MarkError> {
    // With the one before them.
    context.limits.check_count(read.units.len() + 1, || read.publication_type.map(ToString::to_string))?;
    let mut assembler = Assembler {
        context,
        region,
        lines: Lines::new(source),
        taken: BTreeMap::new(),
        places: Vec::with_capacity(read.units.len()),
        letters: BTreeMap::new(),
        candidates: Vec::with_capacity(read.units.len() + 1),
        duplicates: Vec::new(),
    };
    assembler.front()?;
    let (mut numbered, mut identified, found) = (0usize, 0usize, read.units.len());
    for unit in read.units {
        let named = assembler.read(rules, &unit);
        numbered += usize::from(named.numbered);
        identified += usize::from(!unit.aliases.is_empty());
        assembler.push(unit, named)?;
    }
    let mut warnings = read.warnings;
    if found == 0 {
        let message = "no element of the profile's units: the whole document is one unit";
        push_bounded(&mut warnings, warning("no_headings", None, message));
    }
    for duplicate in &assembler.duplicates {
        let message = format!("{} is taken, cut as {}", duplicate.of, duplicate.address);
        push_bounded(&mut warnings, warning("duplicate_address", Some(duplicate.line), message));
    }
    let mut candidates = assembler.candidates;
    cite(&mut candidates, &context.profile.citation_kinds);
    check_partition(region, candidates.iter().map(|c| (c.start, c.end)))?;
    let jumps = gaps(&candidates, &context.profile.citation_kinds, &mut assembler.lines);
    let gaps = u32::try_from(jumps.len()).unwrap_or(u32::MAX);
    for jump in jumps {
        push_bounded(&mut warnings, jump);
    }
    let profile = context.profile.id()?;
    let mut why = alloc::vec![
        format!("profile {} version {}", profile.name, profile.version),
        format!("{found} elements are units, {numbered} of them numbered, {identified} with identifiers"),
    ];
    if let Some(deepest) = &rules.deepest {
        why.push(format!("units end at the kind {deepest}; what is smaller stays in the unit around it"));
    }
    Ok(Marked {
        region,
        forbidden: forbidden(&candidates, context.limits),
        gaps,
        candidates,
        duplicates: assembler.duplicates,
        publication_type: read.publication_type.map(ToString::to_string),
        warnings,
        profile,
        why,
    })
}

impl Assembler<'_> {
    fn front(&mut self) -> Result<(), MarkError> {
        let start = self.region.start;
        let address = self.context.document_id.child("front");
        let address = address.map_err(|source| self.address_error(source, start))?;
        self.taken.insert((None, "front".into()), 1);
        self.candidates.push(Candidate {
            ordinal: 0,
            address,
            citation_address: None,
            aliases: Vec::new(),
            unit_kind: unit_kind_of("front").unwrap_or("front").into(),
            section_type: section_type(self.context.profile, "front", "").into(),
            start,
            end: self.region.end,
            heading: Region { start, end: start },
            body_start: start,
        });
        Ok(())
    }

    /// The unit's kind and label: its number, or else the slug of its heading.
    fn read(&mut self, rules: &XmlRules, unit: &Unit<'_>) -> Named {
        let rule = unit.rule;
        let text_of = |source| unit.texts.iter().find(|found| found.source == source);
        let headings = rules.heading.iter().filter_map(text_of);
        let heading = headings.clone().find(|found| found.text.contains(char::is_alphanumeric));
        let letters = match unit.parent.and_then(|parent| self.places.get_mut(parent)) {
            Some(parent) => &mut parent.letters,
            None => &mut self.letters,
        };
        let before = letters.get(&rule.element).copied();
        let mut numbers = rule.number.as_ref().unwrap_or(&rules.number).iter().filter_map(text_of);
        let found = numbers.clone().filter(|_| rule.kind != "h").find_map(|found| {
            let number = number(self.context.profile, rule, found.source, &found.text, before)?;
            Some((number, found))
        });
        if let Some(now) = found.as_ref().and_then(|(number, _)| number.letters) {
            letters.insert(rule.element.clone(), now);
        }
        // What is printed as its number and is none is its title where it has no other.
        let printed = numbers.find(|found| found.text.contains(char::is_alphanumeric));
        let title_at = heading.or(printed.filter(|_| found.is_none()));
        let number_span = found.as_ref().map(|(_, found)| found.span).filter(|span| !span.is_empty());
        let title_span = title_at.map(|found| found.span).filter(|span| !span.is_empty());
        let none = Region { start: unit.start, end: unit.start };
        let span = match (number_span, title_span) {
            (Some(a), Some(b)) => Region { start: a.start.min(b.start), end: a.end.max(b.end) },
            (a, b) => a.or(b).unwrap_or(none),
        };
        let body_start = number_span.or(title_span).map_or(unit.start, |span| span.end);
        let mut title = title_at.map(|found| clean(&found.text).into_owned()).unwrap_or_default();
        let (kind, label, numbered) = match found {
            Some((number, _)) => {
                if title_at.is_none() {
                    title = number.rest;
                }
                (number.kind.unwrap_or_else(|| rule.kind.clone()), number.label, true)
            }
            None if rule.alone => (rule.kind.clone(), None, false),
            None => match slug(&title) {
                Some(slug) => ("h".into(), Some(slug), false),
                None => (rule.kind.clone(), None, false),
            },
        };
        Named { kind, label, title, heading: span, body_start, numbered }
    }

    /// What the address lies under. A decimal number holds its parents' numbers, so `4.2`
    /// under `4` is their sibling in the address: `doc/sec-4.2`.
    fn above(&self, parent: Option<usize>, named: &Named) -> Option<usize> {
        let flat = |parent: &Place| {
            let rest = named.label.as_deref()?.strip_prefix(parent.label.as_deref()?)?;
            let below = parent.kind == named.kind && parent.first;
            (below && rest.starts_with('.') && !rest.starts_with("..")).then_some(parent.above)
        };
        parent.and_then(|at| self.places.get(at)).and_then(flat).unwrap_or(parent)
    }

    fn push(&mut self, unit: Unit<'_>, named: Named) -> Result<(), MarkError> {
        let segment = match &named.label {
            Some(label) => format!("{}-{label}", named.kind),
            None => named.kind.clone(),
        };
        let above = self.above(unit.parent, &named);
        let parent =
            above.and_then(|at| self.places.get(at)).and_then(|at| self.candidates.get(at.candidate));
        let address = match parent {
            Some(parent) => parent.address.child(&segment),
            None => self.context.document_id.child(&segment),
        };
        let mut address = address.map_err(|source| self.address_error(source, unit.start))?;
        let count = self.taken.entry((above, segment)).or_insert(0);
        *count += 1;
        let nth = *count;
        let ordinal = u32::try_from(self.candidates.len()).unwrap_or(u32::MAX);
        if nth > 1 {
            let numbered = Address::parse(&format!("{address}~{nth}"));
            let numbered = numbered.map_err(|source| self.address_error(source, unit.start))?;
            let line = self.lines.line_of(unit.start);
            self.duplicates.push(Duplicate { address: numbered.clone(), of: address, ordinal, line });
            address = numbered;
        }
        if let Some(last) = self.candidates.last_mut() {
            last.end = unit.start;
        }
        let section_type = match unit.section_type {
            Some(word) => word,
            None => section_type(self.context.profile, &named.kind, &named.title),
        };
        self.places.push(Place {
            candidate: self.candidates.len(),
            above,
            kind: named.kind.clone(),
            label: named.label,
            first: nth == 1,
            letters: BTreeMap::new(),
        });
        self.candidates.push(Candidate {
            ordinal,
            address,
            citation_address: None,
            aliases: unit.aliases,
            unit_kind: unit_kind_of(&named.kind).unwrap_or(&named.kind).into(),
            section_type: section_type.into(),
            start: unit.start,
            end: self.region.end,
            heading: named.heading,
            body_start: named.body_start,
        });
        Ok(())
    }

    fn address_error(&mut self, source: AddressError, at: usize) -> MarkError {
        MarkError::Address { line: self.lines.line_of(at), source }
    }
}

/// Fills in citation addresses where they are unique, among themselves and beside every
/// canonical address that is another unit's.
fn cite(candidates: &mut [Candidate], kinds: &[String]) {
    let cited: Vec<Option<Address>> = candidates.iter().map(|c| c.address.citation(kinds)).collect();
    let mut uses: BTreeMap<&Address, u32> = BTreeMap::new();
    for citation in cited.iter().flatten() {
        *uses.entry(citation).or_insert(0) += 1;
    }
    for candidate in candidates.iter() {
        // Whoever is cited by another's address must not be: count the other in.
        if let Some(n) = uses.get_mut(&candidate.address)
            && candidate.address.citation(kinds).as_ref() != Some(&candidate.address)
        {
            *n += 1;
        }
    }
    let unique: Vec<bool> =
        cited.iter().map(|c| c.as_ref().is_some_and(|c| uses.get(c).is_some_and(|&n| n == 1))).collect();
    for ((candidate, citation), unique) in candidates.iter_mut().zip(cited).zip(unique) {
        candidate.citation_address = citation.filter(|_| unique);
    }
}
