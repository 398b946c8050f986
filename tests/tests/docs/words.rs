//! Gates, states, verdicts and ports are values; as text they stand where they are stored or shown, and
//! nothing is decided by comparing that text.

use std::collections::BTreeSet;

use cutter_core::machine::backlog::BacklogState;
use cutter_core::machine::cut_request::CutRequestStatus;
use cutter_core::machine::run::{GateId, Stage};
use cutter_core::port::Port;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::observed::Lifecycle;

use super::{files, none, read};

const PORTS: [Port; 10] = [
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

fn words() -> BTreeSet<String> {
    let gates = GateId::ALL.iter().map(|gate| gate.as_str());
    let stages = Stage::ALL.iter().map(|stage| stage.as_str());
    let entries = BacklogState::ALL.iter().map(|state| state.as_str());
    let requests = CutRequestStatus::ALL.iter().map(|state| state.as_str());
    let lives = [Lifecycle::Draft, Lifecycle::Enacted, Lifecycle::Voided].map(Lifecycle::as_str);
    let verdicts = [ReviewVerdict::Approve, ReviewVerdict::Defer, ReviewVerdict::Reject];
    let all = gates.chain(stages).chain(entries).chain(requests).chain(lives);
    all.map(str::to_owned)
        .chain(verdicts.map(|verdict| verdict.to_string()))
        .chain(PORTS.map(|port| port.to_string()))
        .collect()
}

/// Whether the text at this place of a line is compared with something.
fn is_compared(before: &str, after: &str) -> bool {
    let (before, after) = (before.trim_end(), after.trim_start());
    before.ends_with("==")
        || before.ends_with("!=")
        || before.rsplit_once("matches!(").is_some_and(|(_, rest)| !rest.contains(')'))
        || after.starts_with("=>")
        || after.starts_with("==")
        || after.starts_with("!=")
}

#[test]
fn nothing_is_decided_by_the_text_of_a_value() {
    let words = words();
    let mut found = Vec::new();
    let is_code = |path: &String| {
        let is_crate = ["cutter-core/src", "cutter-pg/src", "cutter-kb/src", "cutter-cli/src"];
        is_crate.iter().any(|root| path.starts_with(root))
            && !path.contains("test")
            && !path.ends_with("/model.rs")
    };
    for path in files("rs").into_iter().filter(is_code) {
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (n, line) in code.lines().enumerate() {
            let pieces: Vec<&str> = line.split('"').collect();
            for (i, word) in pieces.iter().enumerate().skip(1).step_by(2) {
                let (before, after) = (pieces[..i].join("\""), pieces[i + 1..].join("\""));
                if words.contains(*word) && is_compared(&before, &after) {
                    found.push(format!("{path}:{}: {}", n + 1, line.trim()));
                }
            }
        }
    }
    none("compares the text of a value", &found);
}
