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
