//! Every `cutter …` command that a page shows is one that the program understands.
//!
//! The check is the program's own: the command with `--help` behind it. Its parser refuses an
//! unknown command, option or value on the way there, and nothing is run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::{files, none, pages, read, root};

const RUN: &str = "ictr-20260520T101112Z-01900000-0000-7000-8000-000000000001";
/// A request or an entry.
const ID: &str = "0192f0c1-7c3e-7000-8000-000000000001";

/// The program, beside this test's own folder; built if it is not there or older than its
/// sources.
fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(find_program).clone()
}

fn find_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    let program = folder.join("cutter");
    let changed = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    let sources = files("rs").into_iter().chain(files("sql")).chain(files("toml"));
    let newest = sources
        .filter(|path| path.starts_with("cutter-") && !path.contains("/tests/"))
        .filter_map(|path| changed(&root().join(path)))
        .max();
    if changed(&program) < newest {
        let (profile, target) = (folder.file_name().unwrap(), folder.parent().unwrap());
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "-q", "-p", "cutter-cli", "--target-dir"]).arg(target);
        if profile != "debug" {
            cargo.arg("--profile").arg(profile);
        }
        assert!(cargo.status().unwrap().success(), "cutter-cli does not build");
    }
    program
}

/// The commands of a page: whole lines of code blocks, and inline code.
fn shown(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented)) => {
                block = Some(String::new());
            }
            Event::Text(text) => {
                if let Some(block) = &mut block {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let lines = block.take().unwrap_or_default().replace("\\\n", " ");
                found.extend(lines.lines().filter_map(command_of));
            }
            Event::Code(code) => found.extend(command_of(&code)),
            _ => {}
        }
    }
    found
}

/// The command on a line, without prompt, comment, and what it is piped into.
fn command_of(line: &str) -> Option<String> {
    let mut line = line.trim();
    for lead in ["$ ", "next: ", "then: "] {
        line = line.strip_prefix(lead).unwrap_or(line).trim_start();
    }
    // variables set for one command
    while let Some((first, rest)) = line.split_once(' ')
        && first.starts_with("CUTTER_")
        && first.contains('=')
    {
        line = rest.trim_start();
    }
    if !line.starts_with("cutter ") || line.contains('…') {
        return None;
    }
    let end = [" | ", " > ", " && ", " #", "; "].iter().filter_map(|s| line.find(s)).min();
    Some(line[..end.unwrap_or(line.len())].to_owned())
}

/// Words as a shell splits them; quotes and variables in simple forms.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), _) if c == q => quote = None,
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    let value = |word: String| match word.trim_matches(['<', '>']) {
        "RUN" | "$RUN" => RUN.to_owned(),
        "REQUEST" | "ENTRY" => ID.to_owned(),
        "ITEM" => "42".to_owned(),
        "N" => "1".to_owned(),
        _ => word,
    };
    words.into_iter().filter(|w| !w.is_empty()).map(value).collect()
}

#[test]
fn every_command_shown_is_understood() {
    let program = program();
    let mut refused = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for page in pages() {
        for command in shown(&read(&page)) {
            let words = words(&command);
            if !seen.insert(words.clone()) {
                continue;
            }
            let output = Command::new(&program).args(&words[1..]).arg("--help").output().unwrap();
            if !output.status.success() {
                let error = String::from_utf8_lossy(&output.stderr);
                refused.push(format!("{page}: {command}: {}", error.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(seen.len() > 20, "only {} commands were looked at", seen.len());
    none("commands that cutter does not know", &refused);
}

#[test]
fn commands_are_found_and_split_as_a_shell_would() {
    let text = "`cutter why --run-id RUN` and\n\n```text\n$ cutter plan a.md --json | jq .\nnext: cutter doctor\n\
                CUTTER_HOME=/srv/c cutter db status\nother\n```\n";
    let found = shown(text);
    assert_eq!(
        found,
        ["cutter why --run-id RUN", "cutter plan a.md --json", "cutter doctor", "cutter db status"]
    );
    assert_eq!(words("cutter x --reason 'two words' RUN"), ["cutter", "x", "--reason", "two words", RUN]);
}

#[test]
fn the_program_refuses_what_is_wrong() {
    let program = program();
    for wrong in [["orchestrate", "rewind"], ["plan", "--no-such-option"], ["graph", "nothing"]] {
        let output = Command::new(&program).args(wrong).arg("--help").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
