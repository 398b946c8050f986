//! The shape of the code, as `ARCHITECTURE.md` promises it.

use super::{files, none, read};

/// A source file is split before it is this long.
const LINES_MAX: usize = 500;

/// Files that are longer today, with the length that they may not pass. Take a file off the
/// list when it is short enough; put none on it.
const LONGER: &[(&str, usize)] =
    &[("cutter-core/src/record/effect.rs", 533), ("cutter-pg/src/effect.rs", 509)];

/// The text without what only tests compile: this code base puts tests last in a file, or in
/// a `tests` module of its own.
fn shipped<'a>(path: &str, text: &'a str) -> &'a str {
    if path.contains("/tests/") || path.ends_with("tests.rs") {
        return "";
    }
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let says = |path: &String| {
        let text = read(path);
        let first = text.lines().find(|line| !line.starts_with("#![") && !line.trim().is_empty());
        first.is_some_and(|line| line.starts_with("//! ") && line.len() > 15)
    };
    let silent: Vec<String> = files("rs").into_iter().filter(|path| !says(path)).collect();
    none("no module documentation in the first line", &silent);
}

#[test]
fn migrations_and_scripts_say_what_they_are_for() {
    let sql = files("sql").into_iter().filter(|path| !read(path).starts_with("-- "));
    let scripts = std::fs::read_dir(super::root().join("scripts")).unwrap();
    let scripts = scripts.map(|entry| format!("scripts/{}", entry.unwrap().file_name().to_string_lossy()));
    let silent_script = |path: &String| !read(path).lines().nth(1).is_some_and(|line| line.starts_with("# "));
    none("no comment at the top", &sql.chain(scripts.filter(silent_script)).collect::<Vec<_>>());
}

#[test]
fn files_are_short_or_listed() {
    let mut findings = Vec::new();
    for path in files("rs") {
        let lines = read(&path).lines().count();
        match LONGER.iter().find(|(listed, _)| *listed == path) {
            None if lines > LINES_MAX => {
                findings.push(format!("{path}: {lines} lines, expected at most {LINES_MAX}"))
            }
            Some((_, most)) if lines > *most => {
                findings.push(format!("{path}: {lines} lines, expected at most {most}"))
            }
            Some(_) if lines <= LINES_MAX => {
                findings.push(format!("{path}: {lines} lines: take it off the list"))
            }
            _ => {}
        }
    }
    none("long files", &findings);
}

#[test]
fn the_core_names_no_input_and_no_output() {
    // A lock's holder has a process id, and the contract is tested with a real one.
    let allowed = [("cutter-core/src/testing/conformance/run_store.rs", "std::process")];
    let mut findings = Vec::new();
    for path in files("rs").into_iter().filter(|p| p.starts_with("cutter-core/src/")) {
        let text = read(&path);
        for word in ["std::fs", "std::net", "std::env", "std::process", "std::io", "std::time"] {
            if shipped(&path, &text).contains(word) && !allowed.contains(&(path.as_str(), word)) {
                findings.push(format!("{path}: {word}"));
            }
        }
    }
    none("the core reads nothing", &findings);
}

#[test]
fn dependencies_point_inward() {
    let forbidden = [
        ("cutter-core", &["cutter-pg", "cutter-kb", "cutter-cli"][..]),
        ("cutter-pg", &["cutter-kb", "cutter-cli"][..]),
        ("cutter-kb", &["cutter-pg", "cutter-cli"][..]),
    ];
    let mut findings = Vec::new();
    for (member, others) in forbidden {
        let manifest = read(&format!("{member}/Cargo.toml"));
        for other in others {
            if manifest.lines().any(|line| line.starts_with(other)) {
                findings.push(format!("{member} depends on {other}"));
            }
        }
    }
    none("layers", &findings);
}

#[test]
fn only_the_wiring_and_its_commands_know_an_adapter() {
    let is_core = |p: &String| p.starts_with("cutter-core/");
    let names = |p: &String| {
        read(p).lines().any(|l| {
            l.trim_start().starts_with("use cutter_pg") || l.trim_start().starts_with("use cutter_kb")
        })
    };
    none(
        "the core knows no adapter",
        &files("rs").into_iter().filter(is_core).filter(names).collect::<Vec<_>>(),
    );
}

#[test]
fn only_one_place_writes_to_a_terminal() {
    // What goes round it reaches the terminal with whatever a document or a name holds.
    let ways = [
        "print!(",
        "println!(",
        "dbg!(",
        "io::stdout",
        "io::stderr",
        "inherit()",
        "/dev/tty",
        "Term::",
        ".print()",
        "io::Stdout",
        "io::Stderr",
        "DrawTarget",
    ];
    let home = "cutter-cli/src/terminal.rs";
    // the spinner: its texts are ours and numbers
    let allowed = [("cutter-cli/src/progress.rs", "DrawTarget")];
    let mut findings = Vec::new();
    let sources = files("rs").into_iter().filter(|p| p.starts_with("cutter-") && p.contains("/src/"));
    for path in sources.filter(|path| path != home) {
        let text = read(&path);
        for (n, line) in shipped(&path, &text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            for way in ways {
                if code.contains(way) && !allowed.contains(&(path.as_str(), way)) {
                    findings.push(format!("{path}:{}: {way}", n + 1));
                }
            }
        }
    }
    none("prints beside cutter-cli/src/terminal.rs", &findings);
}

/// Where the stored form is read and written, where the machines are, and where texts are: what other publications
/// call things is data.
const STORED_FORM: [&str; 6] = [
    "cutter-core/src/machine",
    "cutter-core/src/record",
    "cutter-core/src/testing",
    "cutter-core/src/text",
    "cutter-core/src/port.rs",
    "cutter-pg/src/command_ledger.rs",
];

/// Every word that stands for a port, a gate, a state, a purpose or a stop.
fn words_of_types() -> Vec<String> {
    use cutter_core::machine::backlog::BacklogState;
    use cutter_core::machine::command::CommandState;
    use cutter_core::machine::cut_request::CutRequestStatus;
    use cutter_core::machine::run::{GateId, Stage};
    use cutter_core::machine::stop::StopReason;
    use cutter_core::machine::work_item::WorkItemState;
    use cutter_core::port::Port;
    use cutter_core::record::approval::Purpose;
    let mut words: Vec<String> =
        StopReason::examples().iter().map(|reason| reason.code().to_string()).collect();
    let ports = [
        Port::Database,
        Port::RunStore,
        Port::KnowledgeBase,
        Port::BackupSource,
        Port::BackupTarget,
        Port::Signer,
        Port::Signatures,
        Port::Policy,
        Port::WorkQueue,
        Port::CommandLedger,
    ];
    words.extend(ports.iter().map(ToString::to_string));
    words.extend(GateId::ALL.iter().map(ToString::to_string));
    words.extend(Stage::ALL.iter().map(ToString::to_string));
    words.extend(BacklogState::ALL.iter().map(ToString::to_string));
    words.extend(CommandState::ALL.iter().map(ToString::to_string));
    words.extend(CutRequestStatus::ALL.iter().map(ToString::to_string));
    words.extend(WorkItemState::ALL.iter().map(ToString::to_string));
    words.extend(Purpose::ALL.iter().map(ToString::to_string));
    words
}

/// The word that a line compares something with, if it is one of these.
fn compared<'w>(line: &str, words: &'w [String]) -> Option<&'w String> {
    words.iter().find(|word| {
        let quoted = format!("\"{word}\"");
        line.match_indices(&quoted).any(|(at, _)| {
            let (before, after) = (line[..at].trim_end(), line[at + quoted.len()..].trim_start());
            let is_arm = after.starts_with("=>") || after.starts_with("if ") && after.contains("=>");
            before.ends_with("==")
                || before.ends_with("!=")
                || after.starts_with("==")
                || after.starts_with("!=")
                || is_arm
                || before.ends_with("Some(") && (after.starts_with(") =>") || after.starts_with("), ..) =>"))
                || before.ends_with("starts_with(")
                || before.ends_with("contains(")
        })
    })
}

#[test]
fn nothing_compares_a_port_a_gate_or_a_state_as_text() {
    let words = words_of_types();
    for line in [
        "if code == \"STOP_DISK_FULL\" {",
        "Some(\"cut_verified\") => 1,",
        "\"marked\" => 2,",
        "\"void\" != word",
    ] {
        assert!(compared(line, &words).is_some(), "{line}");
    }
    assert_eq!(compared("status: \"marked\".to_owned(),", &words), None);
    let mut findings = Vec::new();
    for path in files("rs") {
        let is_code = path.contains("/src/") && path.starts_with("cutter-");
        if !is_code || STORED_FORM.iter().any(|wing| path.starts_with(wing)) {
            continue;
        }
        let text = read(&path);
        let lines = shipped(&path, &text).lines().enumerate();
        let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
        findings.extend(code.filter_map(|(n, line)| {
            compared(line, &words).map(|word| format!("{path}:{}: {word} is compared as text", n + 1))
        }));
    }
    none("text where a type stands", &findings);
}
