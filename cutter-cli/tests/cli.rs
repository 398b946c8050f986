//! The command line without a database: help texts, plans, diagrams, usage errors.
//!
//! `SNAPSHOTS=overwrite cargo test -p cutter-cli --test cli` writes the snapshots anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use snapbox::Data;
use snapbox::cmd::Command;

fn cutter(arguments: &[&str]) -> Command {
    Command::new(snapbox::cmd::cargo_bin!("cutter"))
        .args(arguments)
        .env_remove("CUTTER_HOME")
        .env_remove("CUTTER_CONFIG")
        .env("HOME", "/nonexistent")
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
}

fn snapshot(name: &str) -> Data {
    Data::read_from(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name), None)
}

fn matches(name: &str, observed: &[u8]) {
    let text = String::from_utf8(observed.to_vec()).unwrap();
    snapbox::assert_data_eq!(text, snapshot(name).raw());
}

/// Every command, as the manual pages name them.
fn commands() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    cutter(&["man", "--dir", folder.path().to_str().unwrap()]).assert().success();
    std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_prefix("cutter").unwrap().strip_suffix(".1").unwrap().to_owned())
        .collect()
}

#[test]
fn every_command_explains_itself() {
    let commands = commands();
    assert!(commands.len() > 35, "{commands:?}");
    for command in commands {
        let mut words: Vec<&str> = command.split('-').filter(|w| !w.is_empty()).collect();
        // A page's name joins what the command line separates: verify-mark is one word of it.
        let last = words.split_off(words.len().saturating_sub(2)).join("-");
        if last.starts_with("verify-") {
            words.push(&last);
        } else {
            words.extend(last.split('-').filter(|w| !w.is_empty()));
        }
        if words.starts_with(&["duty", "key"]) {
            words.splice(..2, ["duty-key"]);
        }
        let mut arguments = words.clone();
        arguments.push("--help");
        let output = cutter(&arguments).assert().success().get_output().clone();
        assert!(output.stderr.is_empty());
        let name = if words.is_empty() { "cutter".to_owned() } else { words.join("-") };
        matches(&format!("help-{name}.txt"), &output.stdout);
    }
}

const SMALL: &str = "---\ntitle: x\n---\n# Title\n\nIntro.\n\n## Article 1\n\nText.\n\n### Part\n\nDeep.\n\n## Article 1\n\nAgain.\n\n## Loose\n\nEnd";

#[test]
fn a_plan_is_a_tree_with_sizes_and_digests() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small law.md"), SMALL).unwrap();
    let run = |arguments: &[&str]| {
        let mut all = vec!["plan", "small law.md"];
        all.extend(arguments);
        cutter(&all).current_dir(folder.path()).assert().success().get_output().clone()
    };
    matches("plan-small.txt", &run(&[]).stdout);
    let output = run(&["--json", "--document-id", "SMALL-LAW"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The profile is whole there, which is too long for a picture.
    let mut short = plan.clone();
    assert_eq!(short["settings"]["profile"]["name"], "markdown");
    short["settings"]["profile"] = "whole".into();
    matches("plan-small.json", &serde_json::to_vec_pretty(&short).unwrap());
    let keys: Vec<&String> = plan.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "detection",
            "document",
            "duplicates",
            "manifest_digest",
            "profile",
            "region",
            "rows_digest",
            "settings",
            "units",
            "warnings",
            "writer_digest"
        ]
    );
    let (mut at, text) = (plan["region"]["start"].as_u64().unwrap(), SMALL.as_bytes());
    for unit in plan["units"].as_array().unwrap() {
        assert_eq!(unit["start"].as_u64().unwrap(), at);
        at = unit["end"].as_u64().unwrap();
    }
    assert_eq!(at, plan["region"]["end"].as_u64().unwrap());
    assert_eq!(at, text.len() as u64);
    // the id that a file name suggests is the one given above
    let named: serde_json::Value = serde_json::from_slice(&run(&["--json"]).stdout).unwrap();
    assert_eq!(named["manifest_digest"], plan["manifest_digest"]);
    let shallow: serde_json::Value =
        serde_json::from_slice(&run(&["--json", "--depth", "1"]).stdout).unwrap();
    assert!(shallow["units"].as_array().unwrap().len() < plan["units"].as_array().unwrap().len());
}

#[test]
fn an_empty_region_is_a_plan_without_units_and_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("e.md"), "").unwrap();
    let output = cutter(&["plan", "e.md", "--json"])
        .current_dir(folder.path())
        .assert()
        .success()
        .get_output()
        .clone();
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["units"].as_array().unwrap().len(), 0);
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning"), "{output:?}");
}

#[test]
fn bad_input_names_file_and_rule() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("latin1.md"), b"# caf\xe9\n").unwrap();
    std::fs::write(folder.path().join("long.md"), "# a\n".repeat(100)).unwrap();
    for (arguments, code, part) in [
        (vec!["plan", "latin1.md"], 2, "latin1.md"),
        (vec!["plan", "absent.md"], 2, "absent.md"),
        (vec!["plan", "long.md", "--max-document-bytes", "10"], 2, "mark.document_bytes"),
        (vec!["plan", "long.md", "--max-candidates", "3"], 4, "mark.candidate_count_within"),
        (vec!["plan", "long.md", "--document-id", "lower"], 2, "--document-id"),
        (vec!["plan", "long.md", "--profile", "nobody"], 2, "nobody"),
    ] {
        let output = cutter(&arguments).current_dir(folder.path()).assert().code(code).get_output().clone();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn an_error_is_one_json_document_too() {
    let output = cutter(&["plan", "absent.md", "--json"]).assert().code(2).get_output().clone();
    let error: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["error"]["exit_code"], 2);
    assert!(!output.stderr.is_empty());
}

#[test]
fn usage_errors_exit_with_2_and_a_plain_call_shows_help() {
    cutter(&["nonsense"]).assert().code(2);
    cutter(&["plan"]).assert().code(2);
    cutter(&["orchestrate", "resume", "--run-id", "nonsense"]).assert().code(2);
    cutter(&["--version"]).assert().success();
    let shown = cutter(&[]).assert().code(2).get_output().clone();
    assert!(String::from_utf8_lossy(&shown.stderr).contains("Start here:"));
}

#[test]
fn every_machine_draws_itself_in_every_format() {
    for machine in ["run", "backlog", "work-item", "cut-request"] {
        for format in ["mermaid", "dot", "json"] {
            let output =
                cutter(&["graph", machine, "--format", format]).assert().success().get_output().clone();
            assert!(output.stdout.len() > 200, "{machine} {format}");
        }
        let output = cutter(&["graph", machine, "--json"]).assert().success().get_output().clone();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let output = cutter(&["completions", shell]).assert().success().get_output().clone();
        assert!(String::from_utf8_lossy(&output.stdout).contains("orchestrate"), "{shell}");
    }
    let output = cutter(&["man"]).assert().success().get_output().clone();
    assert!(output.stdout.starts_with(b".ie"), "{}", String::from_utf8_lossy(&output.stdout[..80]));
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is() {
    let binary = snapbox::cmd::cargo_bin!("cutter");
    let shell =
        |script: &str| std::process::Command::new("sh").arg("-c").arg(script).arg(binary).output().unwrap();
    let gone = shell("\"$0\" graph run | true; echo done");
    assert!(gone.stderr.is_empty(), "{gone:?}");
    let full = shell("\"$0\" graph run > /dev/full");
    assert_eq!(full.status.code(), Some(3), "{full:?}");
}

#[test]
fn without_a_home_the_next_command_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("none");
    let home = home.to_str().unwrap();
    let output = cutter(&["--home", home, "doctor"]).assert().code(3).get_output().clone();
    assert!(
        String::from_utf8_lossy(&output.stdout).contains(&format!("cutter --home {home} init")),
        "{output:?}"
    );
    let output = cutter(&["--home", home, "unit", "list", "--document-id", "X"]).assert().code(2);
    assert!(String::from_utf8_lossy(&output.get_output().stderr).contains("none init"));
    let run = "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab";
    for command in [
        vec!["orchestrate", "status"],
        vec!["orchestrate", "resume"],
        vec!["why"],
        vec!["sovereign", "show"],
        vec!["orchestrate", "wait"],
    ] {
        let mut arguments = vec!["--home", home];
        arguments.extend(command);
        arguments.extend(["--run-id", run]);
        cutter(&arguments).assert().code(66);
    }
    assert!(!Path::new(home).exists(), "looking makes nothing");
}

#[test]
fn the_configuration_is_read_strictly() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cutter.toml"), "actr = \"x\"\n").unwrap();
    let home = folder.path().to_str().unwrap();
    let output = cutter(&["--home", home, "orchestrate", "list"]).assert().code(2).get_output().clone();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("cutter.toml") && text.contains("actr"), "{text}");
}
