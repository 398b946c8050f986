//! The units as a tree of addresses, cut to a number of lines.
//!
//! Where not all fit, whole levels are left out from below, so that what is shown is a complete
//! outline and every unit that is left out is counted beside the one above it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::request::UnitLine;
use super::text::{bytes, one_line};
use crate::base::clip::clip;

/// A rendered tree.
pub(super) struct Tree {
    /// Lines, each ended by a newline; none is a fence.
    pub(super) text: String,
    /// Units that have no line of their own.
    pub(super) left_out: usize,
}

pub(super) fn render(units: &[UnitLine], max_lines: usize, cell: usize) -> Tree {
    let depths: Vec<usize> = units.iter().map(|u| u.address.matches('/').count()).collect();
    let base = depths.iter().min().copied().unwrap_or(0);
    let deepest = depths.iter().max().copied().unwrap_or(0);
    let fits = |depth: usize| depths.iter().filter(|d| **d <= depth).count() <= max_lines;
    // the deepest level that still fits; if not even the first does, its first units
    let level = (base..=deepest).rev().find(|d| fits(*d));
    let mut lines: Vec<(String, usize)> = Vec::new();
    let mut left_out = 0;
    for (unit, depth) in units.iter().zip(&depths) {
        let shown = match level {
            Some(level) => *depth <= level,
            None => lines.len() < max_lines,
        };
        if shown {
            lines.push((line(unit, depth - base, cell), 0));
        } else {
            left_out += 1;
            if let Some((_, below)) = lines.last_mut().filter(|_| level.is_some()) {
                *below += 1;
            }
        }
    }
    let text = lines
        .into_iter()
        .map(|(line, below)| if below == 0 { line + "\n" } else { format!("{line}, {below} more below\n") })
        .collect();
    Tree { text, left_out }
}

fn line(unit: &UnitLine, depth: usize, cell: usize) -> String {
    let name =
        if depth == 0 { unit.address.as_str() } else { unit.address.rsplit('/').next().unwrap_or_default() };
    let indent = "  ".repeat(depth.min(12));
    let kind = clip(&one_line(&unit.unit_kind), 40);
    let section = clip(&one_line(&unit.section_type), 40);
    let kind = if section.is_empty() { kind } else { format!("{kind} {section}") };
    // a line never begins with what could close the block
    format!("{indent}- {}  [{kind}] {}", clip(&one_line(name), cell.min(120)), bytes(unit.bytes))
        .trim_end()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(addresses: &[&str]) -> Vec<UnitLine> {
        let unit = |a: &&str| UnitLine {
            address: (*a).into(),
            unit_kind: "article".into(),
            section_type: "body".into(),
            bytes: 10,
        };
        addresses.iter().map(unit).collect()
    }

    #[test]
    fn all_fit() {
        let tree = render(&units(&["D/ch-1", "D/ch-1/art-1", "D/ch-2"]), 3, 99);
        assert_eq!(tree.left_out, 0);
        assert_eq!(
            tree.text,
            "- D/ch-1  [article body] 10 bytes\n  - art-1  [article body] 10 bytes\n- D/ch-2  [article body] 10 bytes\n"
        );
    }

    #[test]
    fn whole_levels_are_left_out_from_below() {
        let tree =
            render(&units(&["D/ch-1", "D/ch-1/art-1", "D/ch-1/art-2", "D/ch-2", "D/ch-2/art-3"]), 4, 99);
        assert_eq!(tree.left_out, 3);
        assert_eq!(
            tree.text,
            "- D/ch-1  [article body] 10 bytes, 2 more below\n- D/ch-2  [article body] 10 bytes, 1 more below\n"
        );
    }

    #[test]
    fn a_flat_document_shows_its_first_units() {
        let tree = render(&units(&["D/a", "D/b", "D/c"]), 2, 99);
        assert_eq!((tree.left_out, tree.text.lines().count()), (1, 2));
        assert_eq!(render(&units(&["D/a"]), 0, 99).text, "");
    }

    #[test]
    fn a_unit_without_a_section_type_shows_its_kind_alone() {
        let mut units = units(&["D/a"]);
        units[0].section_type.clear();
        assert_eq!(render(&units, 1, 99).text, "- D/a  [article] 10 bytes\n");
        // what would break the line or the block is on one line, and names are bounded
        units[0].unit_kind = format!("{}\n", "k".repeat(60));
        units[0].address = format!("D/{}", "a".repeat(150));
        let text = render(&units, 1, 200).text;
        assert_eq!((text.lines().count(), text.len() < 200), (1, true), "{text}");
    }

    #[test]
    fn a_level_fits_up_to_the_last_line_and_is_indented_so_far() {
        let all = ["D/a", "D/a/b", "D/a/b/c"];
        assert_eq!(render(&units(&all), 3, 99).text.lines().last(), Some("    - c  [article body] 10 bytes"));
        let cut = render(&units(&all), 2, 99);
        assert_eq!(
            (cut.left_out, cut.text.lines().last()),
            (1, Some("  - b  [article body] 10 bytes, 1 more below"))
        );
        let deep: Vec<String> = (1..=14).map(|n| format!("D{}", "/a".repeat(n))).collect();
        let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
        let text = render(&units(&deep), 20, 99).text;
        let indent = |line: &str| line.len() - line.trim_start().len();
        assert_eq!(text.lines().map(indent).max(), Some(24), "no deeper than twelve levels");
    }
}
