//! `cutter diff`: what a new version of a document changes, unit by unit.

mod version;

use std::fmt::Write as _;

use anstyle::Style;
use clap::{Args, ValueEnum};
use cutter_core::text::compare::{Class, Comparison, Entry, Outline, UnitFact};
use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;

use self::version::Version;
use crate::commands::plan::CutOptions;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::Outcome;
use crate::render::{self, BAD, DIM, Each, GOOD, HEAD, WARN, name, paint};

/// Show what becomes of each unit from OLD to NEW.
///
/// OLD and NEW are two versions of one document: files, cut as `cutter plan` cuts them, or
/// `db:ID` for what is in force of a document (`db:ID@N`: as its version N enacted it; `:draft` or
/// `:voided` behind either for what is not in force).
///
/// Each unit is one of:
///
///   = same                 the same address, the same bytes
///   ~ changed              the same address, other bytes
///   + new, - gone          in one version only
///   > moved                the same number in another division
///   # renumbered           the same body under another number
///   ? possibly renumbered  a similar body at another place
///
/// Bodies are matched before addresses: where an article is inserted and all that follow are
/// counted anew, they are renumbered, not changed. `619 ‰ alike` says how much of the wording
/// is common; "the same words" that only layout or punctuation differ. Text outside the body
/// region (front matter, say) is no part of any unit and is not compared. The profile is
/// detected on NEW and cuts both, unless `--profile` names one.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  cutter diff charter-2024.md charter.md --document-id CITY-CHARTER
  cutter diff db:CITY-CHARTER charter.md        # before a new version is cut
  cutter diff db:CITY-CHARTER@1 db:CITY-CHARTER@2 --format table
  cutter diff db:CITY-CHARTER db:CITY-CHARTER:draft    # what waits for SG2
  cutter diff old.md new.md --text              # with the lines that differ
  cutter diff old.md new.md --json | jq '.units[] | select(.class == \"renumbered\")'
  cutter diff old.md new.md --exit-code         # 0 if they are the same, else 6"
)]
pub(crate) struct DiffArgs {
    /// The earlier version: a file, `db:ID` or `db:ID@N`.
    #[arg(value_name = "OLD")]
    old: String,
    /// The later version: a file, `db:ID` or `db:ID@N`.
    #[arg(value_name = "NEW")]
    new: String,
    /// First part of every address [default: the stored document's, else from the name of NEW].
    #[arg(long, value_name = "ID")]
    document_id: Option<String>,
    /// How to write it; `--json` for machines.
    #[arg(long, value_enum, default_value = "tree")]
    format: Format,
    /// Show the units that are the same too, and those that only went with the unit above.
    #[arg(long)]
    all: bool,
    /// Show the lines that differ of each unit that stands in both.
    #[arg(long)]
    text: bool,
    /// Exit with 6 if the versions differ.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    cut: CutOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Tree,
    Table,
}

/// Lines of a unit beyond which its lines are not compared: the comparison takes time in
/// proportion to their product where all of them differ.
const LINES_MAX: usize = 20_000;

pub(crate) fn run(cx: &Context, args: &DiffArgs) -> Outcome {
    let (old, new) = version::load(cx, args)?;
    let (old_units, new_units) = (old.units(), new.units());
    let comparison = Comparison::between(&old_units, &new_units);
    let exit = if args.exit_code && !comparison.is_same() { Exit::EVIDENCE } else { Exit::DONE };
    if comparison.is_same() && old.differs_outside(&new) {
        cx.out.note("the units are the same; the files differ outside the body region");
    }
    let shown: Vec<&Entry> = comparison.entries().iter().filter(|e| args.all || !is_hidden(e)).collect();
    let people = || people(args, &old, &new, &comparison, &shown);
    cx.out.result_as(exit, people, &machine(args, &old, &new, &comparison, &shown))
}

const fn is_hidden(entry: &Entry) -> bool {
    matches!(entry.class, Class::Same) || (entry.with_parent && entry.same_body)
}

const fn style(class: Class) -> Style {
    match class {
        Class::Same => DIM,
        Class::Changed | Class::MaybeRenumbered => WARN,
        Class::New => GOOD,
        Class::Gone => BAD,
        Class::Moved | Class::Renumbered => HEAD,
    }
}

fn people(
    args: &DiffArgs,
    old: &Version,
    new: &Version,
    comparison: &Comparison<'_>,
    shown: &[&Entry],
) -> String {
    let mut text = format!(
        "{}  {}\n",
        paint(HEAD, &new.document_id),
        paint(DIM, format!("{} → {}", name(&old.label), name(&new.label))),
    );
    let units = |n: usize| render::count(u64::try_from(n).unwrap_or(u64::MAX), "unit");
    let summary = comparison.summary();
    if comparison.is_same() {
        text.push_str(&format!("{}, all the same\n", units(summary.new_units)));
    } else {
        text.push_str(&format!(
            "{} → {}: {}\n",
            summary.old_units,
            units(summary.new_units),
            comparison.summary().words()
        ));
    }
    if !comparison.in_order() {
        text.push_str(&format!(
            "{} units with their old addresses stand in another order\n",
            paint(WARN, "!")
        ));
    }
    if !shown.is_empty() {
        text.push('\n');
        text.push_str(&match args.format {
            Format::Tree => tree(comparison, args.all),
            Format::Table => table(comparison, shown),
        });
    }
    if args.text {
        for entry in shown {
            if let Some(lines) = lines(comparison, entry) {
                text.push('\n');
                text.push_str(&colored(&lines));
            }
        }
    }
    text
}

fn tree(comparison: &Comparison<'_>, all: bool) -> String {
    let mut text = String::new();
    for line in Outline::of(comparison, all).lines {
        let style = line.class.map_or(DIM, style);
        let sign = line.class.map_or(' ', Class::sign);
        let note = if line.note.is_empty() { String::new() } else { format!("  {}", paint(DIM, &line.note)) };
        text.push_str(&format!("{} {}{}{note}\n", paint(style, sign), line.branch, paint(style, &line.name)));
    }
    text
}

fn table(comparison: &Comparison<'_>, shown: &[&Entry]) -> String {
    let address = |unit: Option<&UnitFact<'_>>| unit.map_or("-", |u| u.address).to_owned();
    let bytes = |unit: Option<&UnitFact<'_>>| unit.map_or("-".to_owned(), |u| u.bytes().to_string());
    let row = |entry: &&Entry| {
        let (old, new) = (comparison.old_of(entry), comparison.new_of(entry));
        let alike = match (entry.similarity, entry.same_body) {
            (Some(n), _) => n.to_string(),
            (None, true) => "1000".to_owned(),
            (None, false) => "-".to_owned(),
        };
        vec![entry.class.words().to_owned(), address(old), address(new), alike, bytes(old), bytes(new)]
    };
    let header = ["what", "old address", "new address", "‰ alike", "old bytes", "new bytes"];
    render::table(&header, shown.iter().map(row).collect())
}

/// The lines of a unit that differ, as a unified diff.
fn lines(comparison: &Comparison<'_>, entry: &Entry) -> Option<String> {
    let (old, new) = (comparison.old_of(entry)?, comparison.new_of(entry)?);
    let text = |unit: &UnitFact<'_>| unit.text.map(|t| String::from_utf8_lossy(t).into_owned());
    let (before, after) = (text(old)?, text(new)?);
    if before == after {
        return None;
    }
    let header = format!("--- {}\n+++ {}\n", old.address, new.address);
    if before.lines().count().max(after.lines().count()) > LINES_MAX {
        return Some(format!("{header}more than {LINES_MAX} lines: not compared line by line\n"));
    }
    Some(format!("{header}{}", TextDiff::from_lines(&before, &after).unified_diff().context_radius(2)))
}

fn colored(lines: &str) -> String {
    let mut text = String::new();
    for line in lines.split_inclusive('\n') {
        // the style ends before the line break, CRLF too
        let (line, end) = line.split_at(line.trim_end_matches(['\r', '\n']).len());
        // writing into a String does not fail
        let _ = match line.bytes().next() {
            Some(b'+') => write!(text, "{}{end}", paint(GOOD, line)),
            Some(b'-') => write!(text, "{}{end}", paint(BAD, line)),
            Some(b'@') => write!(text, "{}{end}", paint(DIM, line)),
            _ => write!(text, "{line}{end}"),
        };
    }
    text
}

/// Exactly the fields that are documented, in the order of their names; unit by unit.
fn machine(
    args: &DiffArgs,
    old: &Version,
    new: &Version,
    comparison: &Comparison<'_>,
    shown: &[&Entry],
) -> impl Serialize {
    #[derive(Serialize)]
    struct Machine<U> {
        document_id: String,
        in_order: bool,
        is_same: bool,
        new: Value,
        old: Value,
        summary: Value,
        units: U,
    }
    let unit = |unit: Option<&UnitFact<'_>>| {
        unit.map(|unit| {
            json!({
                "address": unit.address,
                "citation_address": unit.citation_address,
                "unit_kind": unit.unit_kind,
                "start": unit.start,
                "end": unit.end,
                "content_hash": unit.content_hash.to_hex(),
                "body_hash": unit.body_hash.to_hex(),
            })
        })
    };
    let entry = move |entry: &&Entry| {
        let mut value = json!({
            "class": entry.class.as_str(),
            "old": unit(comparison.old_of(entry)),
            "new": unit(comparison.new_of(entry)),
            "same_body": entry.same_body,
            "similarity_per_mille": entry.similarity,
            "with_parent": entry.with_parent,
        });
        if let Some(map) = value.as_object_mut().filter(|_| args.text) {
            map.insert("diff".to_owned(), lines(comparison, entry).into());
        }
        value
    };
    Machine {
        document_id: new.document_id.clone(),
        in_order: comparison.in_order(),
        is_same: comparison.is_same(),
        new: new.machine(),
        old: old.machine(),
        summary: json!(comparison.summary()),
        units: Each(move || shown.iter().map(entry)),
    }
}
