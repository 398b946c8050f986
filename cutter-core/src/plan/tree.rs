//! The units as a tree of text, for `cutter plan` and for the approver.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::address::Address;

use super::PlanRow;

/// Renders rows as a tree: every unit under the nearest unit above it in its address, in
/// document order, with its size in bytes.
#[derive(Debug)]
pub struct UnitTree<'a> {
    rows: &'a [PlanRow],
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
}

impl<'a> UnitTree<'a> {
    /// Finds each row's parent.
    #[must_use]
    pub fn new(rows: &'a [PlanRow]) -> Self {
        let places: BTreeMap<&str, usize> =
            rows.iter().enumerate().map(|(i, row)| (row.canonical_address.as_str(), i)).collect();
        let mut children = alloc::vec![Vec::new(); rows.len()];
        let mut roots = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            match parent_of(&places, &row.canonical_address) {
                Some(parent) => children[parent].push(i),
                None => roots.push(i),
            }
        }
        Self { rows, roots, children }
    }

    /// One line a unit: branch, address (below the first level its last segments), kind,
    /// section type, size.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::with_capacity(self.rows.len() * 64);
        // (row, what its line starts with, what its children's lines start with)
        let mut todo: Vec<(usize, String, String, usize)> =
            self.roots.iter().rev().map(|&i| (i, String::new(), String::new(), 0)).collect();
        while let Some((i, branch, indent, above)) = todo.pop() {
            let row = &self.rows[i];
            let address = row.canonical_address.as_str();
            let shown = address.get(above..).unwrap_or(address).trim_start_matches('/');
            let size = row.end.saturating_sub(row.start);
            out.push_str(&format!("{branch}{shown}  {} · {} · {size} B\n", row.unit_kind, row.section_type));
            let children = &self.children[i];
            for (n, &child) in children.iter().enumerate().rev() {
                let last = n + 1 == children.len();
                let (turn, line) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                todo.push((child, format!("{indent}{turn}"), format!("{indent}{line}"), address.len()));
            }
        }
        out
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
