//! What a request says of the version before: a summary, and what differs as an outline.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::text::{code, one_line};
use crate::base::clip::clip;
use crate::text::compare::{Class, Comparison, Outline, OutlineLine, Summary};

/// Lines of the outline that a request keeps; it shows as many as there is room for.
const KEPT: usize = 60;

/// What differs from the version that was cut before (D24).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionDiff {
    /// The version before.
    pub against_version: i32,
    /// How many units of each kind.
    pub summary: Summary,
    /// Whether the units that kept their addresses kept their order.
    pub in_order: bool,
    /// The first lines of what differs.
    pub lines: Vec<OutlineLine>,
    /// How many more there are.
    pub more: usize,
}

impl VersionDiff {
    /// What a comparison with a version says.
    #[must_use]
    pub fn of(against_version: i32, comparison: &Comparison<'_>) -> Self {
        let mut lines = Outline::of(comparison, false).lines;
        let more = lines.len().saturating_sub(KEPT);
        lines.truncate(KEPT);
        Self { against_version, summary: *comparison.summary(), in_order: comparison.in_order(), lines, more }
    }
}

/// The section, with at most `max_lines` lines of the outline. Its other lines are as many however
/// many those are.
pub(super) fn render(diff: &VersionDiff, document: &str, max_lines: usize, cell: usize) -> String {
    let order = if diff.in_order { "" } else { " Units with their old addresses stand in another order." };
    let summary = &diff.summary;
    let mut out = format!(
        "\nAgainst version {}, {} → {} units: {}.{order}\n\n",
        diff.against_version,
        summary.old_units,
        summary.new_units,
        summary.words()
    );
    if diff.lines.is_empty() {
        return out;
    }
    out.push_str("```text\n");
    for line in diff.lines.iter().take(max_lines) {
        // a line never begins with what could close the block
        let sign = line.class.map_or('·', Class::sign);
        let indent = "  ".repeat(line.depth.min(12));
        let name = clip(&one_line(&line.name), cell.min(120));
        let note = clip(&one_line(&line.note), cell);
        out.push_str(format!("{sign} {indent}{name}  {note}").trim_end());
        out.push('\n');
    }
    let more = diff.lines.len().saturating_sub(max_lines) + diff.more;
    let more = match more {
        0 => "All that differs is listed.".into(),
        n => format!("{n} more lines are not listed."),
    };
    let command = format!("cutter diff db:{document}@{} FILE --text", diff.against_version);
    out + &format!("```\n\n{more} {} shows it line by line.\n", code(&command, 300))
}
