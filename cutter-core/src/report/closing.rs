//! The final report: what stands in it, and whether one says what stands. No later document names it, so
//! what it says is held against the statement, the decisions that are stored and the other documents.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::phase::{PRESERVED_MAX, render, title};
use super::text::{code, prose};
use super::{CELLS, FinalSections, PhaseReport};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::limits::KB_DOCUMENTS_PER_RUN;
use crate::gate::closeout::{self, CloseoutFacts};
use crate::machine::run::{GateId, Phase, Stage};
use crate::record::ask::AnswerWrite;
use crate::record::sidecar::ApprovalRecord;
use crate::record::statement::tables_of;

/// What was done, one line per step.
pub(crate) fn work() -> Vec<String> {
    vec![
        format!("read {} documents again and compared their hashes", KB_DOCUMENTS_PER_RUN - 1),
        "fixed the time of closing and the line of the runs index".to_owned(),
        "digested the run's rows of each table, and made the statement that names them".to_owned(),
    ]
}

/// The backup that is kept.
pub(crate) fn backup(sha256: &Digest, fingerprint: &str) -> String {
    format!("encrypted backup pre_write.gpg, sha256 {sha256}, to {fingerprint}")
}

/// A decision, with everybody who took it.
pub(crate) fn decision(record: &ApprovalRecord) -> String {
    let people = core::iter::once(&record.actor).chain(record.beside.iter().map(|b| &b.actor));
    let people: Vec<&str> = people.map(String::as_str).collect();
    format!("{} {} by {}", record.gate, record.decision, people.join(" and "))
}

/// An answer that came when what it answers was decided.
pub(crate) fn came_late(answer: &AnswerWrite) -> String {
    let AnswerWrite { gate, decision, actor, approval_kb_id, .. } = answer;
    format!("{gate} {} by {actor}, which came late: {approval_kb_id}", decision.as_str())
}

/// What an operator may do now.
pub(crate) fn next_steps(run_id: &RunId) -> Vec<String> {
    vec![
        format!("check everything from the evidence: cutter verify --run-id {run_id}"),
        "keep the backup as long as the units are in force; restoring it is a sovereign's decision"
            .to_owned(),
    ]
}

/// What each table's rows were, by a statement.
pub(crate) fn tables(body: &str) -> Vec<(String, String, String)> {
    let tables = tables_of(body).into_iter();
    tables
        .map(|(table, digest)| {
            (format!("rows.{table}"), format!("{} rows", digest.rows), digest.sha256.to_hex())
        })
        .collect()
}

/// What a final report is held against.
pub(crate) struct Closed<'a> {
    pub(crate) run_id: &'a RunId,
    /// The body of the statement.
    pub(crate) body: &'a str,
    /// What it begins with, where that is known otherwise.
    pub(crate) inputs: Option<Vec<(String, String)>>,
    /// Its pins, by name: those of the record, else its own.
    pub(crate) pin: &'a dyn Fn(&str) -> String,
    /// The report of the backup, which names the key that it is encrypted to.
    pub(crate) encrypted_to: Option<&'a str>,
    /// Lines of decisions that stand.
    pub(crate) decisions: Vec<String>,
    /// Of them those that must be named.
    pub(crate) relied_on: Vec<String>,
    /// Who else approved.
    pub(crate) people: Vec<&'a str>,
    /// The documents that it may name: path, sha256, bytes.
    pub(crate) documents: Vec<(String, Digest, u64)>,
    /// Those that stand otherwise than they were filed, as they were filed.
    pub(crate) changed: Vec<(&'a str, Digest)>,
    /// The paths of those that it must name.
    pub(crate) reports: Vec<&'a str>,
}

/// Where a final report says something else than what stands.
pub(crate) fn differences(text: &str, closed: &Closed<'_>) -> Vec<String> {
    let found = sections(text);
    let expected: Vec<String> = CELLS.iter().map(|cell| rendered(closed, *cell)).collect();
    let expected: Vec<_> = expected.iter().map(|text| sections(text)).collect();
    let headings =
        |sections: &[(&str, &str)]| sections.iter().map(|(h, _)| (*h).to_owned()).collect::<Vec<_>>();
    let should = expected.first().map(|sections| headings(sections)).unwrap_or_default();
    if headings(&found) != should {
        return vec![format!("its headings: expected {should:?}, observed {:?}", headings(&found))];
    }
    let mut wrong = Vec::new();
    for (n, (heading, body)) in found.iter().enumerate() {
        let name = heading.trim_start_matches(['#', ' ']);
        let as_expected = || expected.iter().filter_map(|sections| Some(sections.get(n)?.1));
        let line_of_any = |line: &str| as_expected().any(|body| body.lines().any(|l| l == line));
        let observed = match name.get(..2) {
            Some("1.") if closed.inputs.is_none() => None,
            Some("4.") => not_held(body, as_expected().next().unwrap_or_default()),
            Some("5.") => {
                let is_whole = as_expected().any(|expected| frame(expected, "| `").eq(frame(body, "| `")));
                let mut lines = body.lines();
                let named_elsewhere = |line: &str| names_a_changed_one(line, closed);
                lines
                    .find(|line| !line_of_any(line) && !named_elsewhere(line))
                    .or((!is_whole).then_some("lines more or less"))
            }
            _ if name.starts_with("Preserved") => {
                wrong.extend(kept_otherwise(body, closed));
                let is_whole = as_expected().any(|expected| frame(expected, "- ").eq(frame(body, "- ")));
                (!is_whole).then_some("lines more or less")
            }
            _ if as_expected().any(|expected| expected == *body) => None,
            _ => Some(body.lines().find(|line| !line_of_any(line)).unwrap_or("lines more or less")),
        };
        wrong.extend(observed.map(|line| format!("{name}: nothing that stands is {line:?}")));
        if name.starts_with("5.") {
            let rows = body.lines().filter(|line| line.starts_with("| `")).count();
            let should = KB_DOCUMENTS_PER_RUN - 1 + usize::from(!(closed.pin)("backup_sha").is_empty());
            if rows != should {
                wrong.push(format!("{name}: expected {should} rows, observed {rows}"));
            }
            let missing = closed.reports.iter().filter(|report| !body.contains(&format!("{report}` | ")));
            wrong.extend(missing.map(|report| format!("{name}: {report} is not named")));
        }
    }
    wrong
}

/// What stands around the rows of a table or the items of a list.
fn frame<'b>(body: &'b str, row: &'static str) -> impl Iterator<Item = &'b str> {
    body.lines().filter(move |line| !line.starts_with(row))
}

/// Whether a line is of a document that stands otherwise now: that is found where the document is looked at.
fn names_a_changed_one(line: &str, closed: &Closed<'_>) -> bool {
    let named = |(path, sha256): &(&str, Digest)| {
        line.starts_with(&format!("| {} | {} | ", code(path, CELLS[0]), code(&sha256.to_hex(), 64)))
    };
    closed.changed.iter().any(named) && line.ends_with(" bytes |")
}

/// Each line of what is kept is of something that stands, and what was relied on is named.
fn kept_otherwise(body: &str, closed: &Closed<'_>) -> Vec<String> {
    let as_shown = |text: &str| prose(text, CELLS[0]);
    let lines: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    let (shown, cut) = lines.split_at(lines.len().min(PRESERVED_MAX));
    let backup =
        as_shown(&format!("encrypted backup pre_write.gpg, sha256 {}, to ", (closed.pin)("backup_sha")));
    let is_backup = |line: &&str| {
        let key = line.strip_prefix(backup.trim_end()).map(str::trim_start);
        key.is_some_and(|key| {
            key.bytes().all(|b| b.is_ascii_alphanumeric())
                && closed.encrypted_to.is_none_or(|t| t.contains(key))
        })
    };
    let decisions: Vec<String> = closed.decisions.iter().map(|decision| as_shown(decision)).collect();
    let people: Vec<String> = closed.people.iter().map(|person| as_shown(person)).collect();
    let stands = |line: &str| {
        let is_decision = |decision: &String| match line.strip_prefix(decision.as_str()) {
            Some("") => true,
            Some(rest) => rest
                .strip_prefix(" and ")
                .is_some_and(|rest| rest.split(" and ").all(|one| people.iter().any(|person| person == one))),
            // where there was little room
            None => line.strip_suffix('…').is_some_and(|line| decision.starts_with(line)),
        };
        is_backup(&line) || decisions.iter().any(is_decision)
    };
    let mut wrong: Vec<String> = Vec::new();
    let strange = shown.iter().filter(|line| !stands(line));
    wrong.extend(strange.map(|line| format!("Preserved artifacts: nothing that stands is {line:?}")));
    if !(closed.pin)("backup_sha").is_empty() && shown.iter().filter(|line| is_backup(line)).count() != 1 {
        wrong.push("Preserved artifacts: the backup is not named".to_owned());
    }
    let is_named =
        |decision: &&String| shown.iter().any(|line| line.starts_with(as_shown(decision).as_str()));
    let unnamed = closed.relied_on.iter().filter(|decision| cut.is_empty() && !is_named(decision));
    wrong.extend(unnamed.map(|decision| format!("Preserved artifacts: {decision:?} is not named")));
    wrong
}

/// Where the report of a phase that passed says something else than that it did: its title, its head, its
/// sections, its invariants, its verdict. What was done, and what moved, only its run knows.
pub(crate) fn not_passed(text: &str, phase: Phase, run_id: &RunId) -> Option<String> {
    let found = sections(text);
    let title = title(phase, run_id.as_str(), CELLS[0]);
    let headings = [
        title.as_str(),
        "## 1. Inputs (RunContext snapshot)",
        "## 2. Work performed",
        "## 3. Live snapshot diff (pre vs post)",
        "## 4. Internal-gate invariants",
        "## 5. Artifacts produced",
        "## 6. Verdict",
        "### Preserved artifacts",
        "### Next steps",
    ];
    let count = if phase == Phase::Closeout { headings.len() } else { headings.len() - 2 };
    let headings = headings.get(..count)?;
    if !found.iter().map(|(heading, _)| heading).eq(headings) {
        let at = found.iter().zip(headings).find(|((heading, _), expected)| heading != *expected);
        return Some(at.map_or_else(|| format!("{count} headings"), |(_, expected)| format!("{expected:?}")));
    }
    let body = |n: usize| found.get(n).map_or("", |(_, body)| *body);
    let says = |body: &str, name: &str| {
        let of = |line: &str| {
            let (key, value) = line.trim_start_matches(['>', ' ']).split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        body.lines().filter_map(of).collect::<Vec<String>>()
    };
    for (n, name, expected) in [(0, "outcome", "PASS"), (0, "phase", phase.as_str()), (6, "outcome", "PASS")]
    {
        if says(body(n), name) != [expected] {
            return Some(format!("{name}: {expected}"));
        }
    }
    let rows: Vec<&str> = body(4).lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    let holds = rows.iter().all(|line| line.ends_with(" | yes |"));
    let line = format!("`: all {} invariants hold.", rows.len());
    let is_whole = body(4).lines().filter(|found| found.ends_with(&line)).count() == 1;
    (rows.is_empty() || !holds || !is_whole).then(|| "all invariants hold".to_owned())
}

/// As the program would make it, less what only the run knew when it closed.
fn rendered(closed: &Closed<'_>, cell: usize) -> String {
    let mut diff: Vec<_> = ["change_set_id", "unit_set_digest"]
        .map(|name| (name.to_owned(), "-".to_owned(), (closed.pin)(name)))
        .into();
    diff.extend(tables(closed.body));
    let expected_count = KB_DOCUMENTS_PER_RUN as u64 - 1;
    let documents = (0..expected_count).map(|n| (n.to_string(), Digest::of(b""), Some(Digest::of(b""))));
    render(
        &PhaseReport {
            phase: Phase::Closeout,
            run_id: closed.run_id.to_string(),
            pass: true,
            production_mutation: "NONE".to_owned(),
            inputs: closed.inputs.clone().unwrap_or_default(),
            work: work(),
            diff,
            gate: closeout::judge(&CloseoutFacts {
                documents: documents.collect(),
                expected_count,
                index_conflict: None,
                sidecar_final_ready: true,
            }),
            artifacts: closed.documents.clone(),
            verdict: vec![
                ("outcome".to_owned(), "PASS".to_owned()),
                ("state".to_owned(), Stage::CloseoutReported.as_str().to_owned()),
            ],
            final_sections: Some(FinalSections {
                preserved: Vec::new(),
                next_steps: next_steps(closed.run_id),
            }),
        },
        cell,
    )
}

/// Headings with what stands under each, the title first.
fn sections(text: &str) -> Vec<(&str, &str)> {
    let is_heading =
        |at: usize| text.get(at..).is_some_and(|rest| rest.starts_with("## ") || rest.starts_with("### "));
    let breaks = text.match_indices('\n').map(|(at, _)| at + 1).filter(|at| is_heading(*at));
    let mut starts: Vec<usize> = core::iter::once(0).chain(breaks).collect();
    starts.push(text.len());
    let section = |ends: &[usize]| {
        let whole = text.get(*ends.first()?..*ends.get(1)?)?;
        whole.split_once('\n')
    };
    starts.windows(2).filter_map(section).collect()
}

/// A line of the invariants that says something else than that all hold: own ones may stand below ours.
fn not_held<'b>(body: &'b str, expected: &str) -> Option<&'b str> {
    let (ours, found): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), body.lines().collect());
    let Some(own) = found.len().checked_sub(ours.len()) else { return Some("lines less") };
    let end = ours.iter().rposition(|line| line.starts_with("| ")).map_or(0, |n| n + 1);
    let rows = found.iter().filter(|line| line.starts_with("| ")).count().saturating_sub(2);
    let says = format!("`{}`: all {rows} invariants hold.", GateId::Closeout.as_str());
    let stands = |n: usize, line: &str| match n.checked_sub(end) {
        None if line.starts_with('`') => line == says,
        Some(beyond) if beyond < own => line.starts_with("| ") && line.ends_with(" | yes |"),
        None => ours.get(n) == Some(&line),
        Some(_) => ours.get(n - own) == Some(&line),
    };
    found.iter().enumerate().find(|(n, line)| !stands(*n, line)).map(|(_, line)| *line)
}
