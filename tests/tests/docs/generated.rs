//! Pages, and parts of pages, that the code writes.

use std::fmt::Write as _;

use cutter_core::base::key;
use cutter_core::gate::invariants_markdown;
use cutter_core::machine::backlog::{BACKLOG, BacklogState};
use cutter_core::machine::cut_request::CUT_REQUEST;
use cutter_core::machine::graph::Diagram;
use cutter_core::machine::stop::{StopClass, StopReason};
use cutter_core::machine::work_item::WORK_ITEM;

use super::{boundary, none, profiles, read, root};

const RUN_ID: &str = "RUN";

fn stop_codes() -> String {
    let mut out = String::from(
        "# Stop codes\n\n\
         Generated from `cutter_core::machine::stop`; do not edit. A stop says why `cutter` does not go on. *Recorded*\n\
         means that the run's state becomes `stopped_<suffix>` and a stop-route report is filed; the others\n\
         leave the run as it is. *Exit* is the process's exit code. `RUN` stands for the run's id, and what\n\
         follows a colon or an underscore in the code is an example.\n",
    );
    for class in StopClass::ALL {
        let rule = match class {
            StopClass::Operational => {
                "Once the trouble is gone, a plain `cutter orchestrate resume` goes on."
            }
            StopClass::Authority => "Only the sovereign's signed word lets the run go on.",
            StopClass::Terminal => "Nothing lets this run go on: void it, then start a new one.",
        };
        let _ = write!(out, "\n## {class}\n\n{rule}\n\n");
        out.push_str(
            "| code | means | recorded as | exit | next command |\n| --- | --- | --- | --- | --- |\n",
        );
        for stop in StopReason::examples().iter().filter(|s| s.class() == *class) {
            let recorded = match stop {
                StopReason::GateFailed(_) => format!("`failed_{}`", stop.state_suffix()),
                _ if stop.is_recorded() => format!("`stopped_{}`", stop.state_suffix()),
                _ => "not recorded".to_owned(),
            };
            let (exit, next) = (stop.exit_code(), stop.next_command(RUN_ID));
            let _ = writeln!(out, "| `{stop}` | {} | {recorded} | {exit} | `{next}` |", stop.doc());
        }
    }
    out
}

fn machines() -> String {
    let mut out = String::from(
        "# State machines\n\n\
         Generated from the transition tables; do not edit. `cutter graph` prints the same diagrams, also as\n\
         DOT and JSON. A label is the trigger, with the gates that must pass in brackets.\n",
    );
    let sections = [
        (
            Diagram::run(),
            "One orchestrated cut. The sidecar keeps the state. `failed_<gate>`, `stopped_<reason>` and \
             `voided_<reason>` are families of endings that carry their gate or reason; a stopped run keeps the \
             stage in which it stopped and resumes there. That a resume or a void is *allowed* is decided by the \
             stop's class ([stop codes](stop-codes.md)).",
        ),
        (
            Diagram::of(&BACKLOG),
            "One marked manifest under governance review, in `cutter_governance.decision_backlog_entry`. \
             `cut_in_progress` (S5) and `verify_in_progress` (S7) exist only inside a transaction.",
        ),
        (
            Diagram::of(&WORK_ITEM),
            "One queued piece of work. The table is in the core; no command drives it yet.",
        ),
        (
            Diagram::of(&CUT_REQUEST),
            "One customer request, from before the copy to after the cleanup, in `public.cut_request` with its \
             timeline. From `cut_in_progress` to `cut_verified` or `cut_failed` the run's own transactions move it.",
        ),
    ];
    for (diagram, about) in sections {
        let _ =
            write!(out, "\n## {}\n\n{about}\n\n```mermaid\n{}```\n\n", diagram.machine, diagram.mermaid());
        let states: Vec<String> =
            diagram.states.iter().map(|s| format!("`{s}`{}", code(s, &diagram))).collect();
        let ends: Vec<String> = diagram.terminals.iter().map(|s| format!("`{s}`")).collect();
        let _ = write!(out, "States: {}.\n\nEnds: {}.\n\n", states.join(", "), ends.join(", "));
        out.push_str("| from | trigger | gates | to |\n| --- | --- | --- | --- |\n");
        for edge in &diagram.edges {
            let gates: Vec<String> = edge.gates.iter().map(|g| format!("`{g}`")).collect();
            let (from, to, trigger) = (&edge.from, &edge.to, &edge.trigger);
            let _ = writeln!(out, "| `{from}` | `{trigger}` | {} | `{to}` |", gates.join(", "));
        }
    }
    out
}

/// The specification's number of a backlog state.
fn code(state: &str, diagram: &Diagram) -> String {
    let known = state.parse::<BacklogState>().ok().filter(|_| diagram.machine == BACKLOG.machine());
    known.map_or_else(String::new, |s| format!(" ({})", s.code()))
}

fn vectors() -> String {
    let mut out = String::new();
    for vector in key::vectors() {
        let _ = write!(out, "### `{}`\n\n| term | value |\n| --- | --- |\n", vector.name);
        for (term, value) in &vector.inputs {
            // the one long value is several keys in a row
            let shown = if value.len() > 100 {
                format!("{} characters, see below", value.len())
            } else {
                format!("`{value}`")
            };
            let _ = writeln!(out, "| {term} | {shown} |");
        }
        let _ = write!(out, "| **key** | `{}` |\n\n", vector.output);
        for (term, value) in vector.inputs.iter().filter(|(_, value)| value.len() > 100) {
            let _ = write!(out, "{term}:\n\n```text\n{value}\n```\n\n");
        }
    }
    out.trim_end().to_owned() + "\n"
}

/// Writes or compares one page.
fn hold(path: &str, fresh: &str) -> Option<String> {
    if std::env::var_os("CUTTER_BLESS").is_some() {
        std::fs::write(root().join(path), fresh).unwrap();
    }
    let written = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    if written == fresh {
        return None;
    }
    let differs = written.lines().zip(fresh.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| written.lines().count().min(fresh.lines().count())) + 1;
    Some(format!("{path}, line {line}; write it with scripts/fix"))
}

/// A page in which only the part between two markers is generated.
fn with_part(path: &str, part: &str, fresh: &str) -> String {
    let page = read(path);
    let (begin, end) =
        (format!("<!-- begin generated: {part} -->\n"), format!("<!-- end generated: {part} -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("{path}: no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{path}: no {end}"));
    format!("{before}{begin}\n{fresh}\n{end}{after}")
}

#[test]
fn generated_pages_are_fresh() {
    let stale: Vec<String> = [
        ("docs/invariants.md", invariants_markdown()),
        ("docs/stop-codes.md", stop_codes()),
        ("docs/machines.md", machines()),
        ("docs/commands.md", with_part("docs/commands.md", "commands", &boundary::tables())),
        ("cutter-core/src/text/profile/schema.md", profiles::schema()),
        ("docs/profile-fields.md", profiles::schema()),
        ("docs/profiles.md", with_part("docs/profiles.md", "profiles", &profiles::built_in())),
        ("docs/idempotency-keys.md", with_part("docs/idempotency-keys.md", "vectors", &vectors())),
    ]
    .into_iter()
    .filter_map(|(path, fresh)| hold(path, &fresh))
    .collect();
    none("stale", &stale);
}

#[test]
fn every_stop_code_is_listed_once() {
    let page = stop_codes();
    for stop in StopReason::examples() {
        assert_eq!(page.matches(&format!("| `{stop}` |")).count(), 1, "{stop}");
    }
}
