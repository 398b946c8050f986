//! A comparison as a tree, line by line: what differs, below the units it stands in.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::pairing::above;
use super::{Class, Comparison, Entry};

/// One line of an [`Outline`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineLine {
    /// What became of the unit; `None` for a division that only holds what differs.
    pub class: Option<Class>,
    /// How many lines of units above it stand over it.
    pub depth: usize,
    /// The branches before the name.
    pub branch: String,
    /// The address, below the first level its last segments.
    pub name: String,
    /// What there is to say: kind, old address, size.
    pub note: String,
}

impl OutlineLine {
    /// The line as plain text: sign, branches, name, note.
    #[must_use]
    pub fn text(&self) -> String {
        let sign = self.class.map_or(' ', Class::sign);
        let note = if self.note.is_empty() { String::new() } else { format!("  {}", self.note) };
        format!("{sign} {}{}{note}", self.branch, self.name)
    }
}

/// The lines of a comparison. Units stand under their new addresses, those that are gone under
/// their old ones. What only went with the unit above it is counted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// In document order.
    pub lines: Vec<OutlineLine>,
}

impl Outline {
    /// The tree; with `all`, units that are the same and those that went with their parents too.
    #[must_use]
    pub fn of(comparison: &Comparison<'_>, all: bool) -> Self {
        Builder::new(comparison, all).build()
    }
}

struct Builder<'a, 'b> {
    comparison: &'b Comparison<'a>,
    entries: &'b [Entry],
    addresses: Vec<&'b str>,
    parents: Vec<Option<usize>>,
    /// Whether the entry's own line is shown, not only as a holder of others.
    tells: Vec<bool>,
    shown: Vec<bool>,
    carried: Vec<usize>,
}

impl<'a, 'b> Builder<'a, 'b> {
    fn new(comparison: &'b Comparison<'a>, all: bool) -> Self {
        let entries = comparison.entries();
        let address =
            |e: &Entry| comparison.new_of(e).or(comparison.old_of(e)).map_or("", |unit| unit.address);
        let addresses: Vec<&str> = entries.iter().map(address).collect();
        let mut places = BTreeMap::new();
        for (at, address) in addresses.iter().enumerate() {
            // a unit that is gone is no parent where a new one has its address
            if entries[at].class != Class::Gone || !places.contains_key(address) {
                places.insert(*address, at);
            }
        }
        let parents: Vec<Option<usize>> = addresses.iter().map(|a| above(&places, a)).collect();
        let hidden = |e: &Entry| e.class == Class::Same || (e.with_parent && e.same_body);
        let tells: Vec<bool> = entries.iter().map(|e| all || !hidden(e)).collect();
        let mut shown = vec![false; entries.len()];
        let mut carried = vec![0; entries.len()];
        for at in 0..entries.len() {
            let mut next = tells[at].then_some(at);
            while let Some(i) = next.filter(|i| !core::mem::replace(&mut shown[*i], true)) {
                next = parents[i];
            }
            if !tells[at] && entries[at].with_parent {
                let mut holder = parents[at];
                while let Some(i) = holder.filter(|i| entries[*i].with_parent && !tells[*i]) {
                    holder = parents[i];
                }
                if let Some(i) = holder {
                    carried[i] += 1;
                }
            }
        }
        Self { comparison, entries, addresses, parents, tells, shown, carried }
    }

    fn build(&self) -> Outline {
        let mut children = vec![Vec::new(); self.entries.len()];
        let mut roots = Vec::new();
        for at in (0..self.entries.len()).filter(|at| self.shown[*at]) {
            match self.parents[at] {
                Some(parent) => children[parent].push(at),
                None => roots.push(at),
            }
        }
        let mut lines = Vec::new();
        // (entry, its depth and branch, its children's branches, how much of its address stands above)
        let mut todo: Vec<(usize, usize, String, String, usize)> =
            roots.into_iter().rev().map(|at| (at, 0, String::new(), String::new(), 0)).collect();
        while let Some((at, depth, branch, indent, above)) = todo.pop() {
            let address = self.addresses[at];
            let name = address.get(above..).unwrap_or(address).trim_start_matches('/').into();
            let class = self.tells[at].then_some(self.entries[at].class);
            lines.push(OutlineLine { class, depth, branch, name, note: self.note(at) });
            for (n, &child) in children[at].iter().enumerate().rev() {
                let last = n + 1 == children[at].len();
                let (turn, line) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                let (branch, indent) = (format!("{indent}{turn}"), format!("{indent}{line}"));
                todo.push((child, depth + 1, branch, indent, address.len()));
            }
        }
        Outline { lines }
    }

    fn note(&self, at: usize) -> String {
        let entry = &self.entries[at];
        let (old, new) = (self.comparison.old_of(entry), self.comparison.new_of(entry));
        let mut parts: Vec<String> = Vec::new();
        if self.tells[at] {
            parts.push(entry.class.words().into());
            if let (Some(old), Some(new)) = (old, new)
                && old.address != new.address
            {
                parts.push(format!("was {}", old.address));
            }
            if let Some(similarity) = entry.similarity {
                parts.push(match similarity {
                    1000 => "the same words".into(),
                    n => format!("{n} ‰ alike"),
                });
            }
            match (old, new) {
                (Some(old), Some(new)) if old.bytes() != new.bytes() => {
                    parts.push(format!("{} → {} B", old.bytes(), new.bytes()));
                }
                (Some(unit), _) | (_, Some(unit)) => parts.push(format!("{} B", unit.bytes())),
                _ => {}
            }
        }
        if self.carried[at] > 0 {
            parts.push(format!("{} below went with it", self.carried[at]));
        }
        parts.join(" · ")
    }
}
