//! Whether a request says what the program says: whoever relies on an answer renders the request again,
//! from what they know themselves, and compares. Whoever reads it need not know the digests by heart.
//!
//! What only the run's own record can tell (when it was asked, pins, backup, evidence, what changed on the
//! way) is taken over as it stands, and must look like that and like nothing else: it is no place for other
//! words.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use super::request::{
    ANSWER, AT, EVIDENCE, FACTS, LISTED_MAX, PINNED, RequestReport, SAFETY_NET, SIDECAR_PATH, Told, UNITS,
    WARNINGS, consequence, is_of_a_word, lay_out, lines_left,
};
use super::text::yaml;
use super::{CELLS, REPORT_MAX_BYTES, version};
use crate::base::clip::clip;
use crate::base::limits::REPORT_MAX_LINES;
use crate::base::visible::{is_hidden, is_joiner};
use crate::record::approval::Purpose;
use crate::report::naming::DocumentName;

/// The first place where a request shows something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, observed {observed}")]
pub struct NotShown {
    /// From 1.
    pub line: usize,
    /// What the program renders there.
    pub expected: String,
    /// What stands there.
    pub observed: String,
}

/// How much of a line is named.
const NAMED: usize = 160;

/// A line from a little before the place where it differs.
fn named(line: &str, column: usize) -> String {
    let from = line.len().min(column).saturating_sub(NAMED / 2);
    let from = (from..=line.len()).find(|n| line.is_char_boundary(*n)).unwrap_or_default();
    let rest = clip(line.get(from..).unwrap_or_default(), NAMED);
    if from == 0 { rest } else { "…".to_owned() + &rest }
}

impl NotShown {
    fn at(document: &str, place: usize, expected: &str) -> Self {
        let line = document.get(..place).unwrap_or_default().matches('\n').count() + 1;
        let observed = document.lines().nth(line - 1).unwrap_or("no such line");
        Self { line, expected: clip(expected, NAMED), observed: clip(observed, NAMED) }
    }
}

/// Holds a request against what `report` would show. Of `report` what only the record can tell is not
/// looked at, and what differs from the version before only where `knows_before`.
///
/// # Errors
/// [`NotShown`]: the document is not what the program renders.
pub fn shows(document: &str, report: &RequestReport, knows_before: bool) -> Result<(), NotShown> {
    let read = Told::read(document, report)?;
    let mut nearest: Option<(usize, NotShown)> = None;
    let mut is_too_long_before = true;
    for cell in CELLS {
        let mut told = read.clone();
        if knows_before {
            let diff = report.version_diff.as_ref();
            told.version_diff = String::new();
            let left =
                lines_left(report, &Told { version_diff: diff_of(report, 0, cell), ..told.clone() }, cell);
            let diff_lines = diff.map_or(0, |diff| diff.lines.len()).min(left / 2);
            told.version_diff = diff_of(report, diff_lines, cell);
        }
        let text = lay_out(report, &told, lines_left(report, &told, cell), cell);
        if is_too_long_before && text == document {
            return Ok(());
        }
        // a writer that had no need to cut so short is not believed
        is_too_long_before = text.len() > REPORT_MAX_BYTES / 2;
        let same = document.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        if nearest.as_ref().is_none_or(|(before, _)| same > *before) {
            let line = document.as_bytes().iter().take(same).filter(|b| **b == b'\n').count();
            let column =
                same - document.as_bytes().iter().take(same).rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
            let at = |text: &str| named(text.lines().nth(line).unwrap_or("no such line"), column);
            nearest = Some((same, NotShown { line: line + 1, expected: at(&text), observed: at(document) }));
        }
    }
    Err(nearest.map_or_else(|| NotShown::at(document, 0, "a request"), |(_, differs)| differs))
}

fn diff_of(report: &RequestReport, lines: usize, cell: usize) -> String {
    let document = super::text::one_line(&report.document_id);
    report
        .version_diff
        .as_ref()
        .map_or_else(String::new, |diff| version::render(diff, &document, lines, cell))
}

impl Told {
    fn read(document: &str, report: &RequestReport) -> Result<Self, NotShown> {
        let mut reader = Reader { document, at: 0 };
        if document.lines().count() > REPORT_MAX_LINES || document.len() > REPORT_MAX_BYTES {
            return Err(NotShown::at(document, 0, "a request is no longer than this"));
        }
        if let Some(hidden) = document.find(|c: char| c != '\n' && (is_hidden(c) || is_joiner(c))) {
            return Err(NotShown::at(document, hidden, "no character that is not seen"));
        }
        let at = reader.between(&header(AT), "\n")?.to_owned();
        if at.trim_matches('"').parse::<Timestamp>().is_err() {
            return Err(reader.not_here("a time"));
        }
        reader.back("\n");
        let sidecar_path = reader.between(&header(SIDECAR_PATH), "\n")?.to_owned();
        let cut = !report.ask.is_for(Purpose::Lifecycle);
        let asked = reader.between("\n## 1. What you are asked\n\n", FACTS)?;
        let rows = asked
            .split_once("The document has **")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let content_rows = rows.filter(|n| asked.contains(&consequence(*n, cut))).unwrap_or(0);
        reader.back(FACTS);
        let facts = reader.block(FACTS, UNITS, |line| is_fact(line, report))?;
        if !are_whole(&facts, report) {
            return Err(reader.not_here("every fact once"));
        }
        let total: usize = {
            let count = reader.between(WARNINGS, ".\n\n")?;
            count.parse().map_err(|_| reader.not_here("a number of warnings"))?
        };
        let known = report.warnings.len().min(LISTED_MAX);
        let shown = total.clamp(known, LISTED_MAX);
        let mut changes = Vec::new();
        for n in 0..shown {
            let line = reader.between("- ", "\n")?;
            if n >= known {
                let is_change = CHANGES.iter().any(|start| line.starts_with(start));
                changes.push(is_change.then(|| line.to_owned()).ok_or_else(|| reader.not_here(CHANGES[0]))?);
            }
        }
        let version_diff = match document.get(reader.at..).and_then(|rest| rest.find("\nAgainst version ")) {
            Some(_) => {
                let text = reader.block("\nAgainst version ", SAFETY_NET, |_| true)?;
                reader.back(SAFETY_NET);
                let whole = || "\nAgainst version ".to_owned() + &text;
                is_diff(&text).then(whole).ok_or_else(|| reader.not_here("what differs"))?
            }
            None => String::new(),
        };
        Ok(Self {
            at,
            sidecar_path,
            facts,
            changes,
            more: total.saturating_sub(shown),
            version_diff,
            content_rows,
            safety_net: {
                let text = reader.block(SAFETY_NET, PINNED, is_safety_net)?;
                reader.back(PINNED);
                text
            },
            pins: reader.block(PINNED, "```\n\nCaps and settings:\n", is_pin)?,
            evidence: {
                let text = reader.block(EVIDENCE, ANSWER, |line| is_evidence(line, report))?;
                reader.back(ANSWER);
                text
            },
        })
    }
}

/// What a line of the second request begins with that tells how the policy moved since the first one.
pub const SINCE_THE_FIRST_GATE: &str = "changed since SG_cut_authz was asked: ";

/// What the lines begin with that tell of what changed.
const CHANGES: [&str; 4] = [
    "changed before this request (stop ",
    SINCE_THE_FIRST_GATE,
    "asked once more:",
    "what was asked before named no rows",
];

fn header(key: &str) -> String {
    alloc::format!("\n> {key:<21}: ")
}

/// A name and a value of one word, as the record pins them: no place for a sentence.
fn pair(line: &str) -> Option<(&str, &str)> {
    fn bare(text: &str) -> &str {
        text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
    }
    let (key, value) = line.split_once(": ")?;
    let (key, value) = (bare(key.trim_end()), bare(value));
    (!key.is_empty() && key.chars().chain(value.chars()).all(is_of_a_word)).then_some((key, value))
}

fn is_pin(line: &str) -> bool {
    pair(line).is_some() || (line.starts_with("# and ") && line.ends_with(" more in the sidecar"))
}

/// A fact that the plan gives or the answer repeats is that one; of the others the record pins identifiers,
/// digests and numbers.
fn is_fact(line: &str, report: &RequestReport) -> bool {
    let Some((key, value)) = pair(line) else { return false };
    let planned = report.facts.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let asked = report.ask.required.get(key).filter(|_| key != crate::record::approval::field::CHANGE_SET_ID);
    let says = |value: &String| {
        let pair = [(key.to_string(), value.clone())];
        CELLS.iter().any(|cell| yaml(&pair, "", 1, *cell).trim_end() == line)
    };
    match asked.or(planned) {
        Some(value) => says(value),
        None => TOLD_FACTS.contains(&key) && value.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'),
    }
}

/// The facts that the record alone pins.
const TOLD_FACTS: [&str; 14] = [
    "vocabulary_digest",
    "source_version_no",
    "backup_bytes",
    "backup_sha",
    "base_state_sha",
    "grant_probe_sha",
    "structural_verify_sha",
    "change_set_id",
    "cut_review_decision_id",
    "entry_id",
    "executor_signature_id",
    "manifest_envelope_id",
    "verify_result_id",
    "verifier_signature_id",
];

/// Whether every name stands there once, and all that the plan gives do.
fn are_whole(facts: &str, report: &RequestReport) -> bool {
    let mut names: Vec<&str> = facts.lines().filter_map(|line| Some(pair(line)?.0)).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == all && report.facts.iter().all(|(name, _)| names.contains(&name.as_str()))
}

fn is_digest(cell: &str) -> bool {
    cell.len() == 66 && cell.trim_matches('`').bytes().all(|b| b.is_ascii_hexdigit())
}

/// A document of the run's own folder with its digest.
fn is_evidence(line: &str, report: &RequestReport) -> bool {
    if matches!(line, "None." | "| document | sha256 |" | "| --- | --- |") || is_rest(line) {
        return true;
    }
    let folder = report.ask.request_path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let row = line.strip_prefix("| `").and_then(|row| row.strip_suffix(" |")?.split_once("` | "));
    row.is_some_and(|(path, digest)| {
        let name = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        is_digest(digest)
            && (path.ends_with('…') || name.is_some_and(|name| DocumentName::parse(name).is_ok()))
    })
}

fn is_rest(line: &str) -> bool {
    let rest = line.strip_prefix("| and ").and_then(|rest| rest.split_once(" more |"));
    rest.is_some_and(|(n, cells)| n.parse::<u32>().is_ok() && cells.bytes().all(|b| matches!(b, b' ' | b'|')))
}

fn is_safety_net(line: &str) -> bool {
    // what does not hold of the grants, after drift that is acknowledged
    if matches!(line, "| invariant | expected | observed | ok |" | "| --- | --- | --- | --- |")
        || (line.starts_with("| `grant_probe.") && line.ends_with(" | **NO** |"))
        || is_rest(line)
    {
        return true;
    }
    if let Some((name, value)) =
        line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")?.split_once(" | "))
    {
        let word = |value: &str| {
            value
                .trim_matches('`')
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
        };
        let number = |value: &str| value.bytes().all(|b| b.is_ascii_digit() || b == b' ');
        return match name {
            "backup" => value.is_empty(),
            "---" => value == "---",
            "name" | "scope" | "recipient key" => word(value),
            "size" => value.strip_suffix(" bytes").is_some_and(number),
            "sha256 (encrypted)" | "sha256 (plaintext)" => is_digest(value),
            "content rows in it" => number(value),
            _ => false,
        };
    }
    let counts = |rest: &str| {
        let numbers = rest.strip_prefix("all ").and_then(|rest| rest.strip_suffix(" invariants hold."));
        let numbers = numbers.or_else(|| rest.strip_suffix(" invariants do not hold."));
        numbers.is_some_and(|n| n.split(" of ").all(|n| n.parse::<u32>().is_ok()))
    };
    let none = "No backup is part of this request: what would be changed was written by this run.";
    line.is_empty() || line == none || line.strip_prefix("`IG_grant_probe`: ").is_some_and(counts)
}

/// What differs: a line that counts it, then perhaps a block and a line that leads on.
fn is_diff(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("\n\n").filter(|(count, _)| !count.contains('\n')) else {
        return false;
    };
    let signed = |line: &str| line.chars().nth(1).is_none_or(|c| c == ' ') && !line.starts_with('`');
    let block = rest.strip_prefix("```text\n").and_then(|rest| rest.split_once("```\n\n"));
    block.map_or(rest.is_empty(), |(lines, after)| {
        let leads_on = after.ends_with(" shows it line by line.\n") && after.matches('\n').count() == 1;
        leads_on && lines.lines().all(signed)
    })
}

/// Goes through a document from one mark to the next.
struct Reader<'a> {
    document: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn not_here(&self, expected: &str) -> NotShown {
        NotShown::at(self.document, self.at, expected)
    }

    /// What stands between two marks; the place is behind the second one then.
    fn between(&mut self, start: &str, end: &str) -> Result<&'a str, NotShown> {
        let rest = self.document.get(self.at..).unwrap_or_default();
        let from = rest.find(start).ok_or_else(|| self.not_here(start.trim()))? + start.len();
        let inner = rest.get(from..).unwrap_or_default();
        let length = inner.find(end).ok_or_else(|| self.not_here(end.trim()))?;
        self.at += from + length + end.len();
        Ok(inner.get(..length).unwrap_or_default())
    }

    /// Goes back to before a mark that was just passed.
    fn back(&mut self, mark: &str) {
        self.at = self.at.saturating_sub(mark.len());
    }

    /// As [`Self::between`], where each line must look like what belongs there.
    fn block(&mut self, start: &str, end: &str, fits: impl Fn(&str) -> bool) -> Result<String, NotShown> {
        let before = self.at;
        let text = self.between(start, end)?;
        match text.lines().find(|line| !fits(line)) {
            Some(line) => {
                let place = self.document.get(before..).and_then(|rest| rest.find(line)).unwrap_or_default();
                Err(NotShown::at(self.document, before + place, "a line that belongs there"))
            }
            None => Ok(text.to_owned()),
        }
    }
}
