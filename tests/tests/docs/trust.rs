//! The page about trust: each of its lines names the tests that hold it, and they exist.

use std::collections::BTreeSet;

use super::{files, none, read};

/// The tests of the workspace as `file::test`.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files("rs") {
        let text = read(&path);
        let stem = path.rsplit('/').next().unwrap().trim_end_matches(".rs").to_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (n, line) in lines.iter().enumerate() {
            let is_test = |line: &&str| *line == "#[test]";
            // attributes and doc comments may stand between
            let above = lines[..n].iter().rev().take_while(|l| l.starts_with("#[") || l.starts_with("//"));
            if let Some(rest) = line.strip_prefix("fn ")
                && above.into_iter().any(is_test)
                && let Some((name, _)) = rest.split_once('(')
            {
                found.insert(format!("{stem}::{name}"));
            }
            // a list of answers that do not count is a test each
            if let Some((name, _)) = line.split_once(": \"approval.") {
                found.insert(format!("{stem}::{name}"));
            }
        }
    }
    assert!(found.len() > 500, "only {} tests", found.len());
    found
}

/// The names in a line, as it writes them.
fn named(line: &str) -> Vec<&str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.contains("::") && !word.contains(' ')).collect()
}

#[test]
fn every_line_names_a_test_and_every_test_exists() {
    let (page, tests) = (read("docs/trust.md"), tests());
    let absent = page.lines().flat_map(named).filter(|name| !tests.contains(*name));
    none("tests that are not there", &absent.map(str::to_owned).collect::<Vec<_>>());
    let mut silent = Vec::new();
    let mut promises = 0;
    for table in page.split("\n\n").filter(|block| block.starts_with("| must not be able to ")) {
        for row in table.lines().skip(2) {
            promises += 1;
            if named(row).is_empty() {
                silent.push(row.chars().take(80).collect::<String>());
            }
        }
    }
    assert!(promises > 25, "only {promises} promises");
    none("promises without a test", &silent);
}
