//! Which unit of the old version is which of the new one.
//!
//! In this order, each step among the units that the steps before left over:
//!
//! 1. the same address with the same body;
//! 2. a body of some words that stands exactly once in either version;
//! 3. next to such a pair, in step with it, the same body whatever its length: a run of units that
//!    moved as a whole takes its placeholders along;
//! 4. divisions with the same body, if most of what is below the one went below the other;
//! 5. what has the same name below a unit that has another address now, with the same body;
//! 6. similar bodies, the most similar first; a pair with the same address or citation address
//!    yields only to one that is clearly more similar;
//! 7. the same name below a unit of another address, whatever the body.
//!
//! Each step looks at both versions alike, so that comparing the other way round finds the
//! same pairs.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::sketch::{Sketch, has_words};
use super::{Class, Entry, UnitFact};
use crate::base::digest::Digest;

/// Words that a text must have to be known again by its body alone; its number is among them.
const WORDS_MIN: usize = 8;
/// The same in bytes, where the text is not at hand.
const BYTES_MIN: u64 = 64;
/// Thousandths from which bodies at different places may be one unit.
const SIMILAR: u16 = 400;
/// Thousandths by which a similar body elsewhere must surpass the one at the same address.
const AT_HOME: u16 = 250;
/// Thousandths below which a body at the same address is another one, if the units around moved.
const RELATED: u16 = 300;
/// Units of one version that may share a run of words for it to tell units apart.
const SHARED_MAX: usize = 8;

/// One version with what is looked up in it.
struct Side<'a> {
    units: &'a [UnitFact<'a>],
    places: BTreeMap<&'a str, usize>,
    /// `None` where several units claim one.
    citations: BTreeMap<&'a str, Option<usize>>,
    /// The nearest unit above each in its address.
    parents: Vec<Option<usize>>,
    /// The partner of each.
    partner: Vec<Option<usize>>,
    sketches: Vec<Option<Sketch>>,
}

impl<'a> Side<'a> {
    fn new(units: &'a [UnitFact<'a>]) -> Self {
        let mut places = BTreeMap::new();
        let mut citations = BTreeMap::new();
        for (i, unit) in units.iter().enumerate() {
            places.entry(unit.address).or_insert(i);
            if let Some(citation) = unit.citation_address {
                citations.entry(citation).and_modify(|unit| *unit = None).or_insert(Some(i));
            }
        }
        let parents = units.iter().map(|unit| above(&places, unit.address)).collect();
        let none = vec![None; units.len()];
        Self { units, places, citations, parents, partner: none, sketches: vec![None; units.len()] }
    }

    fn is_free(&self, i: usize) -> bool {
        self.partner.get(i).is_some_and(Option::is_none)
    }

    fn free(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.units.len()).filter(|i| self.is_free(*i))
    }

    /// Each body that occurs once, with its unit, if it has words enough.
    fn unique_bodies(&self) -> BTreeMap<Digest, usize> {
        let mut found: BTreeMap<Digest, Option<usize>> = BTreeMap::new();
        for (i, unit) in self.units.iter().enumerate() {
            found.entry(unit.body_hash).and_modify(|unit| *unit = None).or_insert(Some(i));
        }
        let telling = |i: &usize| match self.units[*i].text {
            Some(text) => has_words(text, WORDS_MIN),
            None => self.units[*i].bytes() >= BYTES_MIN,
        };
        found.into_iter().filter_map(|(body, unit)| Some((body, unit.filter(telling)?))).collect()
    }

    /// The partners of up to two units before and after this one, the nearest that have any.
    fn around(&self, i: usize) -> (impl Iterator<Item = usize>, impl Iterator<Item = usize>) {
        const FAR: usize = 8;
        let before = self.partner[i.saturating_sub(FAR)..i].iter().rev().filter_map(|p| *p).take(2);
        let end = self.partner.len().min(i + 1 + FAR);
        let after = self.partner[(i + 1).min(end)..end].iter().filter_map(|p| *p).take(2);
        (before, after)
    }

    /// The runs of words of a unit that is free and has words enough.
    fn wording(&self, i: usize) -> Option<&[u64]> {
        let sketch = self.sketches.get(i)?.as_ref()?;
        (sketch.words() >= WORDS_MIN && self.is_free(i)).then(|| sketch.hashes())
    }

    /// Every run of words with the units that have it, sorted; not what too many have.
    fn by_hash(&self) -> Vec<(u64, usize)> {
        let all = || (0..self.units.len()).filter_map(|i| Some((i, self.wording(i)?)));
        let mut found = Vec::with_capacity(all().map(|(_, hashes)| hashes.len()).sum());
        for (i, hashes) in all() {
            found.extend(hashes.iter().map(|&hash| (hash, i)));
        }
        found.sort_unstable();
        let (mut kept, mut at) = (0, 0);
        while let Some(&(hash, _)) = found.get(at) {
            let end = at + found[at..].iter().take_while(|&&(other, _)| other == hash).count();
            if end - at <= SHARED_MAX {
                found.copy_within(at..end, kept);
                kept += end - at;
            }
            at = end;
        }
        found.truncate(kept);
        found
    }

    /// Whether to pair this with `other` would cross at least half of the pairs around.
    fn crosses(&self, i: usize, other: usize) -> bool {
        let (before, after) = self.around(i);
        let (mut all, mut crossing) = (0, 0);
        for partner in before {
            all += 1;
            crossing += usize::from(partner > other);
        }
        for partner in after {
            all += 1;
            crossing += usize::from(partner < other);
        }
        all > 0 && crossing * 2 >= all
    }
}

/// The nearest of `places` above an address.
pub(super) fn above(places: &BTreeMap<&str, usize>, address: &str) -> Option<usize> {
    let mut text = address;
    while let Some((above, _)) = text.rsplit_once('/') {
        if let Some(&place) = places.get(above) {
            return Some(place);
        }
        text = above;
    }
    None
}

/// Keeps the runs of words that the other version has too; both are sorted by them.
fn keep_shared(list: &mut Vec<(u64, usize)>, other: &[(u64, usize)]) {
    let mut rest = other.iter().peekable();
    list.retain(|&(hash, _)| {
        while rest.next_if(|&&(run, _)| run < hash).is_some() {}
        rest.peek().is_some_and(|&&(run, _)| run == hash)
    });
}

struct Pairing<'a> {
    old: Side<'a>,
    new: Side<'a>,
}

/// All entries, in the new version's order.
pub(super) fn entries(old: &[UnitFact<'_>], new: &[UnitFact<'_>]) -> Vec<Entry> {
    let mut pairing = Pairing { old: Side::new(old), new: Side::new(new) };
    pairing.same_places();
    let anchors = pairing.unique_bodies();
    pairing.runs(&anchors);
    pairing.divisions();
    pairing.carried(true);
    pairing.sketch();
    pairing.similar();
    pairing.carried(false);
    pairing.in_order()
}

impl Pairing<'_> {
    fn pair(&mut self, i: usize, j: usize) {
        self.old.partner[i] = Some(j);
        self.new.partner[j] = Some(i);
    }

    fn is_free(&self, i: usize, j: usize) -> bool {
        self.old.is_free(i) && self.new.is_free(j)
    }

    fn same_body(&self, i: usize, j: usize) -> bool {
        self.old.units[i].body_hash == self.new.units[j].body_hash
    }

    fn same_bytes(&self, i: usize, j: usize) -> bool {
        self.old.units[i].content_hash == self.new.units[j].content_hash
    }

    fn same_kind(&self, i: usize, j: usize) -> bool {
        self.old.units[i].unit_kind == self.new.units[j].unit_kind
    }

    fn same_places(&mut self) {
        for i in 0..self.old.units.len() {
            if let Some(&j) = self.new.places.get(self.old.units[i].address)
                && (self.same_body(i, j) || self.same_bytes(i, j))
                && self.is_free(i, j)
            {
                self.pair(i, j);
            }
        }
    }

    fn unique_bodies(&mut self) -> Vec<(usize, usize)> {
        let new = self.new.unique_bodies();
        let both = self.old.unique_bodies().into_iter().filter_map(|(body, i)| Some((i, *new.get(&body)?)));
        let mut pairs: Vec<_> = both.filter(|(i, j)| self.is_free(*i, *j)).collect();
        pairs.sort_unstable();
        for (i, j) in &pairs {
            self.pair(*i, *j);
        }
        pairs
    }

    /// From each pair forwards and backwards while the bodies are equal. No two runs can meet: a
    /// unit that is taken ends a run, and the unit before it in step is its run's own.
    fn runs(&mut self, anchors: &[(usize, usize)]) {
        let step = |at: usize, forward: bool| if forward { at.checked_add(1) } else { at.checked_sub(1) };
        for forward in [true, false] {
            for &(mut i, mut j) in anchors {
                while let (Some(next_i), Some(next_j)) = (step(i, forward), step(j, forward))
                    && next_i < self.old.units.len()
                    && next_j < self.new.units.len()
                    && self.is_free(next_i, next_j)
                    && self.same_body(next_i, next_j)
                    && self.same_kind(next_i, next_j)
                {
                    self.pair(next_i, next_j);
                    (i, j) = (next_i, next_j);
                }
            }
        }
    }

    fn divisions(&mut self) {
        let mut votes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let (mut from, mut into) = (vec![0; self.old.units.len()], vec![0; self.new.units.len()]);
        for (i, partner) in self.old.partner.iter().enumerate() {
            let Some(j) = *partner else { continue };
            if let (Some(above_i), Some(above_j)) = (self.old.parents[i], self.new.parents[j]) {
                *votes.entry((above_i, above_j)).or_default() += 1;
                from[above_i] += 1;
                into[above_j] += 1;
            }
        }
        for ((i, j), n) in votes {
            let most = n * 2 > from[i] && n * 2 > into[j];
            if most && self.is_free(i, j) && self.same_body(i, j) && self.same_kind(i, j) {
                self.pair(i, j);
            }
        }
    }

    /// Below units that have another address now: what has the same name there. In document
    /// order, so that a division takes along what is below its articles too.
    fn carried(&mut self, same_body: bool) {
        for i in 0..self.old.units.len() {
            if self.old.is_free(i)
                && let Some(j) = self.carried_to(i)
                && self.new.is_free(j)
                && self.same_kind(i, j)
                && (!same_body || self.same_body(i, j))
            {
                self.pair(i, j);
            }
        }
    }

    /// Where this unit is if it went with the unit above it to another address.
    fn carried_to(&self, i: usize) -> Option<usize> {
        let parent = self.old.parents[i]?;
        let (from, to) = (self.old.units[parent].address, self.new.units[self.old.partner[parent]?].address);
        if from == to {
            return None;
        }
        let mut address = String::from(to);
        address.push_str(self.old.units[i].address.strip_prefix(from)?);
        self.new.places.get(address.as_str()).copied()
    }

    /// Whether the units above both are one unit, or were not found to be different ones.
    fn parents_agree(&self, i: usize, j: usize) -> bool {
        match (self.old.parents[i], self.new.parents[j]) {
            (None, None) => true,
            (Some(above_i), Some(above_j)) => {
                let (to, back) = (self.old.partner[above_i], self.new.partner[above_j]);
                to == Some(above_j) || (to.is_none() && back.is_none())
            }
            _ => false,
        }
    }

    fn sketch(&mut self) {
        for side in [&mut self.old, &mut self.new] {
            for i in 0..side.units.len() {
                if side.partner[i].is_none() {
                    side.sketches[i] = side.units[i].text.map(Sketch::of);
                }
            }
        }
    }

    fn similarity(&self, i: usize, j: usize) -> Option<u16> {
        match (&self.old.sketches[i], &self.new.sketches[j]) {
            (Some(a), Some(b)) => Some(a.similarity(b)),
            _ => None,
        }
    }

    fn similar(&mut self) {
        // the score decreasing, then what is nearest to its old place
        let mut found: Vec<(core::cmp::Reverse<u16>, usize, usize, usize, usize)> = Vec::new();
        let mut push = |score: u16, i: usize, j: usize| {
            found.push((core::cmp::Reverse(score), i.abs_diff(j), i + j, i, j));
        };
        let mut at_home: Vec<(usize, usize)> = Vec::new();
        for i in self.old.free() {
            let unit = &self.old.units[i];
            let cited = unit.citation_address.and_then(|c| self.new.citations.get(c)).copied().flatten();
            let cited = cited.filter(|j| {
                self.new.units[*j].citation_address.and_then(|c| self.old.citations.get(c)) == Some(&Some(i))
            });
            let placed = self.new.places.get(unit.address).copied();
            let placed = placed.filter(|j| cited == Some(*j) || self.parents_agree(i, *j));
            at_home.extend([cited, placed, self.carried_to(i)].into_iter().flatten().map(|j| (i, j)));
        }
        at_home.sort_unstable();
        at_home.dedup();
        at_home.retain(|(i, j)| self.is_free(*i, *j));
        for &(i, j) in &at_home {
            let similarity = self.similarity(i, j);
            let crosses = self.old.crosses(i, j) || self.new.crosses(j, i);
            if !crosses || similarity.is_some_and(|s| s >= RELATED) {
                push(similarity.unwrap_or(0) + AT_HOME, i, j);
            }
        }
        for (i, j) in self.alike() {
            // an equal body that step 2 left over stands more than once: which is which, nobody knows
            let similarity = if self.same_body(i, j) { None } else { self.similarity(i, j) };
            let similarity = similarity.unwrap_or(0);
            if similarity >= SIMILAR && self.same_kind(i, j) && at_home.binary_search(&(i, j)).is_err() {
                push(similarity, i, j);
            }
        }
        found.sort_unstable();
        for (.., i, j) in found {
            if self.is_free(i, j) {
                self.pair(i, j);
            }
        }
    }

    /// Free units that have much of their wording in common. A run of words that many units share
    /// tells nothing, so the number of pairs stays in proportion to the number of units.
    fn alike(&self) -> Vec<(usize, usize)> {
        let mut new = self.new.by_hash();
        {
            let mut old = self.old.by_hash();
            keep_shared(&mut old, &new);
            keep_shared(&mut new, &old);
        }
        let mut found = Vec::new();
        let mut common: BTreeMap<usize, usize> = BTreeMap::new();
        // One old unit after the other, so that only its own partners are counted at a time.
        for i in self.old.free() {
            let Some(hashes) = self.old.wording(i) else { continue };
            for hash in hashes {
                let start = new.partition_point(|&(run, _)| run < *hash);
                let units = new.get(start..).unwrap_or_default().iter();
                for &(_, j) in units.take_while(|&&(run, _)| run == *hash) {
                    *common.entry(j).or_default() += 1;
                }
            }
            let enough =
                |j: usize, n: usize| n * 4 >= self.new.wording(j).map_or(0, <[u64]>::len).min(hashes.len());
            found.extend(common.iter().filter(|&(&j, &n)| enough(j, n)).map(|(&j, _)| (i, j)));
            common.clear();
        }
        found
    }

    fn entry(&self, i: usize, j: usize) -> Entry {
        let (old, new) = (&self.old.units[i], &self.new.units[j]);
        let same_body = self.same_body(i, j);
        let same_place = old.address == new.address;
        let with_parent = !same_place && self.carried_to(i) == Some(j);
        let cited = old.citation_address.is_some() && old.citation_address == new.citation_address;
        let same_name = old.last_segment() == new.last_segment();
        let class = match (same_place, same_body) {
            (true, _) if self.same_bytes(i, j) => Class::Same,
            (true, _) => Class::Changed,
            _ if cited || with_parent || (same_name && same_body) => Class::Moved,
            (false, true) => Class::Renumbered,
            (false, false) => Class::MaybeRenumbered,
        };
        let similarity = if same_body { None } else { self.similarity(i, j) };
        Entry { class, old: Some(i), new: Some(j), same_body, similarity, with_parent }
    }

    fn in_order(&self) -> Vec<Entry> {
        let single = |class, old, new| Entry {
            class,
            old,
            new,
            same_body: false,
            similarity: None,
            with_parent: false,
        };
        // what is gone follows the unit that the one before it became
        let mut gone: Vec<Vec<usize>> = vec![Vec::new(); self.new.units.len() + 1];
        let mut after = 0;
        for (i, partner) in self.old.partner.iter().enumerate() {
            match partner {
                Some(j) => after = j + 1,
                None => gone[after].push(i),
            }
        }
        let mut entries = Vec::with_capacity(self.old.units.len().max(self.new.units.len()));
        for (after, gone) in gone.iter().enumerate() {
            if let Some(j) = after.checked_sub(1) {
                entries.push(match self.new.partner[j] {
                    Some(i) => self.entry(i, j),
                    None => single(Class::New, None, Some(j)),
                });
            }
            entries.extend(gone.iter().map(|i| single(Class::Gone, Some(*i), None)));
        }
        entries
    }
}
