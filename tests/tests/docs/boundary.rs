//! Every method of every port is either a side effect with its line in the core's catalogue, or a
//! read; the page about commands shows the catalogue.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cutter_core::machine::command::COMMAND;
use cutter_core::operate::command::{READS, SIDE_EFFECTS};

use super::{files, none, read};

/// `Trait.method` of every async method of every port.
fn operations() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files("rs").iter().filter(|p| p.starts_with("cutter-core/src/port/")) {
        let mut name = String::new();
        for line in read(path).lines() {
            if let Some(rest) = line.strip_prefix("pub trait ") {
                name = rest.split(':').next().unwrap().trim().to_owned();
            }
            if let Some(rest) = line.strip_prefix("    async fn ") {
                found.insert(format!("{name}.{}", rest.split('(').next().unwrap()));
            }
        }
    }
    assert!(found.len() > 60, "{found:?}");
    found
}

#[test]
fn every_method_of_a_port_is_a_side_effect_or_a_read() {
    // Hooks of the boundary's callers, not ports of the system.
    let hooks = ["RiskGate.allows"];
    let ports = operations();
    let writes: BTreeSet<&str> = SIDE_EFFECTS.iter().map(|line| line.operation).collect();
    let reads: BTreeSet<&str> = READS.iter().copied().collect();
    assert_eq!(reads.len(), READS.len(), "each read once");
    let mut findings: Vec<String> = Vec::new();
    for operation in &ports {
        let name = operation.as_str();
        match (writes.contains(name), reads.contains(name)) {
            (true, true) => findings.push(format!("{name}: both a side effect and a read")),
            (false, false) if !hooks.contains(&name) => {
                findings
                    .push(format!("{name}: in neither list of cutter-core/src/operate/command/catalogue.rs"));
            }
            _ => {}
        }
    }
    let gone = writes.union(&reads).filter(|name| !ports.contains(**name));
    findings.extend(gone.map(|name| format!("{name}: no port has it")));
    none("the command boundary", &findings);
}

/// The generated part of `docs/commands.md`.
pub(super) fn tables() -> String {
    let mut out = String::from("| state | legal targets |\n| --- | --- |\n");
    for &state in COMMAND.states() {
        let targets: Vec<String> = COMMAND.targets(state).iter().map(|to| format!("`{to}`")).collect();
        let _ = writeln!(out, "| `{state}` | {} |", targets.join(", "));
    }
    out.push_str("\n| kind | port | key | recorded in | the same again | another payload |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for line in SIDE_EFFECTS {
        let _ = writeln!(
            out,
            "| `{}` | `{}` | {} | {} | {} | {} |",
            line.kind, line.operation, line.key, line.recorded, line.replay, line.conflict
        );
    }
    out
}
