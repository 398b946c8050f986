//! The units as a tree of text, for `cutter plan` and for the approver.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use crate::text::address::Address;

use super::PlanRow;

/// Renders rows as a tree: every unit under the nearest unit above it in its address, in
/// document order, with its size in bytes.
#[derive(Debug)]
pub struct UnitTree<'a> {
    rows: &'a [PlanRow],
    /// The first unit below each, and the next one beside it: a few bytes for a unit, however many.
    first: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
    /// The first unit below none.
    root: Option<usize>,
}

impl<'a> UnitTree<'a> {
    /// Finds each row's parent.
    #[must_use]
    pub fn new(rows: &'a [PlanRow]) -> Self {
        let places: BTreeMap<&str, usize> =
            rows.iter().enumerate().map(|(i, row)| (row.canonical_address.as_str(), i)).collect();
        let (mut first, mut next) = (alloc::vec![None; rows.len()], alloc::vec![None; rows.len()]);
        let mut root = None;
        // From the last one back, so that each stands before those that follow it.
        for (i, row) in rows.iter().enumerate().rev() {
            let head = match parent_of(&places, &row.canonical_address) {
                Some(parent) => &mut first[parent],
                None => &mut root,
            };
            next[i] = head.replace(i);
        }
        Self { rows, first, next, root }
    }

    /// One line a unit: branch, address (below the first level its last segments), kind,
    /// section type, size.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::with_capacity(self.rows.len() * 64);
        // Writing into a text does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let mut indent = String::new();
        // The units that are open: what comes beside each, how long the indent is, and the address.
        let mut open: Vec<(Option<usize>, usize, usize)> = Vec::new();
        let mut at = self.root;
        loop {
            while let Some(i) = at {
                let row = &self.rows[i];
                let above = open.last().map_or(0, |&(_, _, address)| address);
                let address = row.canonical_address.as_str();
                let shown = address.get(above..).unwrap_or(address).trim_start_matches('/');
                let last = self.next[i].is_none();
                let branch = match (open.is_empty(), last) {
                    (true, _) => "",
                    (false, true) => "└─ ",
                    (false, false) => "├─ ",
                };
                let size = row.end.saturating_sub(row.start);
                writeln!(
                    out,
                    "{indent}{branch}{shown}  {} · {} · {size} B",
                    row.unit_kind, row.section_type
                )?;
                at = self.first[i];
                if at.is_none() {
                    at = self.next[i];
                } else {
                    let line = match (open.is_empty(), last) {
                        (true, _) => "",
                        (false, true) => "   ",
                        (false, false) => "│  ",
                    };
                    open.push((self.next[i], indent.len(), address.len()));
                    indent.push_str(line);
                }
            }
            let Some((next, length, _)) = open.pop() else { return Ok(()) };
            indent.truncate(length);
            at = next;
        }
    }
}

fn parent_of(places: &BTreeMap<&str, usize>, address: &Address) -> Option<usize> {
    let mut text = address.as_str();
    while let Some((above, _)) = text.rsplit_once('/') {
        if let Some(&place) = places.get(above) {
            return Some(place);
        }
        text = above;
    }
    None
}
