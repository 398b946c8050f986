//! The wings of the core: each uses only those before it, and `ARCHITECTURE.md` says which those are.

use std::collections::BTreeSet;

use super::{files, none, read};

const WINGS: [&str; 10] =
    ["base", "machine", "text", "record", "gate", "port", "report", "driver", "operate", "testing"];

/// The sources of the core that are no tests, as `wing/…`.
fn sources() -> Vec<String> {
    let below = |path: String| path.strip_prefix("cutter-core/src/").map(str::to_owned);
    // the models of two machines stand beside the tests that walk them
    let is_test =
        |path: &String| path.contains("test") && !path.starts_with("testing") || path.ends_with("/model.rs");
    files("rs").into_iter().filter_map(below).filter(|path| path != "lib.rs" && !is_test(path)).collect()
}

/// The code of a file before its tests, without comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let without = |line: &str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
    text.lines().map(without).collect()
}

#[test]
fn no_wing_uses_a_later_one() {
    let place = |wing: &str| WINGS.iter().position(|w| *w == wing);
    let mut up = BTreeSet::new();
    for path in sources() {
        let own = path.split(['/', '.']).next().unwrap();
        let own_place = place(own).unwrap_or_else(|| panic!("{path} is in no wing"));
        let code = code(&read(&format!("cutter-core/src/{path}")));
        for used in code.split("crate::").skip(1) {
            let wing: String = used.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            if place(&wing).is_some_and(|place| place > own_place) {
                up.insert((path.clone(), wing));
            }
        }
    }
    let findings: Vec<String> = up.iter().map(|(path, wing)| format!("{path}: {wing}")).collect();
    none("uses a later wing", &findings);
}

/// What an adapter may use of the core: what it is told, what is stored, what must hold, and what it must do.
const OF_ADAPTERS: [&str; 5] = ["base", "machine", "record", "gate", "port"];

#[test]
fn an_adapter_uses_what_it_must_know_and_no_more() {
    let mut found = Vec::new();
    for path in files("rs") {
        let below = path.split_once("/src/").filter(|(name, _)| ["cutter-pg", "cutter-kb"].contains(name));
        let Some((_, below)) = below.filter(|(_, below)| !below.contains("test")) else { continue };
        for used in code(&read(&path)).split("cutter_core::").skip(1) {
            let wing: String = used.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            if !OF_ADAPTERS.contains(&wing.as_str()) {
                found.push(format!("{below}: {wing}"));
            }
        }
    }
    none("uses what is no adapter's", &found);
}

#[test]
fn the_map_has_the_wings_in_their_order() {
    let page = read("ARCHITECTURE.md");
    let rows: Vec<&str> = page
        .lines()
        .skip_while(|line| *line != "| wing | what |")
        .skip(2)
        .take_while(|line| line.starts_with("| "))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(rows, WINGS);
    let lib = read("cutter-core/src/lib.rs");
    let listed: BTreeSet<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(listed, WINGS.into_iter().collect());
}
