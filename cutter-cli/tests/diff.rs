//! `cutter diff` on two small versions: what people and machines are shown, and the exit codes.
//!
//! `SNAPSHOTS=overwrite cargo test -p cutter-cli --test diff` writes the snapshots anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use snapbox::Data;
use snapbox::cmd::Command;

const OLD: &str = "\
---
title: Harbour Rules
---
# Harbour Rules

These rules hold for every ship in the harbour.

## Chapter 1. Ships

### Article 1. Speed

No ship moves faster than four knots between the two piers.

### Article 2. Lights

Every ship shows a white light from dusk until dawn.

## Chapter 2. Goods

### Article 3. Scales

All goods are weighed on the scales of the town before they are sold.

### Article 4. Fish

Fish is sold on the day of its landing and not later than noon.

### Article 5. Salt

The price of salt is set by the council once in every year.

### Article 6. Rope

Rope is measured in the open and cut in the presence of the buyer.
";

const NEW: &str = "\
---
title: Harbour Rules, second edition
---
# Harbour Rules

These rules hold for every ship in the harbour.

## Chapter 1. Ships

### Article 1. Speed

No ship moves faster than three knots between the two piers.

### Article 2. Lights

Every ship shows a white light from dusk until dawn.

### Article 3. Anchors

Anchors are dropped only where the harbour master allows it in writing.

## Chapter 2. Goods

### Article 4. Scales

All goods are weighed on the scales of the town before they are sold.

### Article 5. Fish

Fish is sold on the day of its landing and not later than one hour after noon.

## Chapter 3. Craft

### Article 6. Rope

Rope is measured in the open and cut in the presence of the buyer.
";

fn cutter(folder: &Path, arguments: &[&str]) -> Command {
    Command::new(snapbox::cmd::cargo_bin!("cutter"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("CUTTER_HOME")
        .env_remove("CUTTER_CONFIG")
        .env("HOME", "/nonexistent")
        .env("COLUMNS", "100")
}

fn matches(name: &str, observed: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    let text = String::from_utf8(observed.to_vec()).unwrap();
    snapbox::assert_data_eq!(text, Data::read_from(&path, None).raw());
}

fn versions() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("old.md"), OLD).unwrap();
    std::fs::write(folder.path().join("rules.md"), NEW).unwrap();
    folder
}

#[test]
fn a_comparison_is_a_tree_a_table_and_a_document() {
    let folder = versions();
    let run = |more: &[&str]| {
        let arguments = [&["diff", "old.md", "rules.md"], more].concat();
        let output = cutter(folder.path(), &arguments).assert().success().get_output().clone();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    matches("diff-tree.txt", &run(&[]));
    matches("diff-all.txt", &run(&["--all"]));
    matches("diff-table.txt", &run(&["--format", "table"]));
    matches("diff-text.txt", &run(&["--text"]));
    let document = run(&["--json", "--text", "--document-id", "HARBOUR"]);
    matches("diff.json", &document);
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["document_id", "in_order", "is_same", "new", "old", "summary", "units"]);
    // the commands for people and for machines speak of the same units
    let lines = String::from_utf8(run(&["--format", "table"])).unwrap();
    assert_eq!(lines.lines().count() - 4, document["units"].as_array().unwrap().len());
}

#[test]
fn colour_is_for_terminals() {
    let folder = versions();
    let output = cutter(folder.path(), &["diff", "old.md", "rules.md", "--text"]).output().unwrap();
    assert!(output.status.success() && !output.stdout.contains(&0x1b));
    let forced = cutter(folder.path(), &["diff", "old.md", "rules.md"]).env("CLICOLOR_FORCE", "1");
    assert!(forced.output().unwrap().stdout.contains(&0x1b));
    let never = cutter(folder.path(), &["diff", "old.md", "rules.md", "--no-color"]);
    assert!(!never.env("CLICOLOR_FORCE", "1").output().unwrap().stdout.contains(&0x1b));
}

#[test]
fn the_exit_code_tells_only_where_it_is_asked_to() {
    let folder = versions();
    let code = |arguments: &[&str]| cutter(folder.path(), arguments).output().unwrap().status.code();
    assert_eq!(code(&["diff", "old.md", "rules.md"]), Some(0));
    assert_eq!(code(&["diff", "old.md", "rules.md", "--exit-code"]), Some(6));
    assert_eq!(code(&["diff", "old.md", "old.md", "--exit-code"]), Some(0));
    assert_eq!(code(&["diff", "old.md", "none.md"]), Some(2));
    // two documents are not two versions of one
    assert_eq!(code(&["diff", "db:A", "rules.md", "--document-id", "B"]), Some(2));
    assert_eq!(code(&["diff", "db:A@x", "rules.md"]), Some(2));
    assert_eq!(code(&["diff", "db:not an id", "rules.md"]), Some(2));
}

#[test]
fn what_differs_outside_the_units_is_said() {
    let folder = versions();
    std::fs::write(folder.path().join("other.md"), OLD.replace("title: Harbour Rules", "title: x")).unwrap();
    let output = cutter(folder.path(), &["diff", "old.md", "other.md", "--exit-code"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("9 units, all the same"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("differ outside the body region"));
}
