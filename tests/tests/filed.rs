//! What runs file, word for word, in `fixtures/filed.txt`: of a run that is enacted everything, of the
//! others what it has not. Identifiers and digests are left out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::Mode;
use cutter_core::report::naming::EscalationKind;
use cutter_tests::Scenario;
use cutter_tests::refusal::Gate;

/// A word of a document without what is drawn by lot.
fn plain(word: &str) -> String {
    let is_lot = |part: &str| part.len() >= 12 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let mut text = word.to_owned();
    for part in word.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| is_lot(part)) {
        text = text.replace(part, "…");
    }
    text
}

fn told(what: &str, scenario: &Scenario, seen: &mut BTreeSet<String>) -> String {
    let mut told = String::new();
    for path in scenario.world.paths() {
        let name = path.rsplit('/').next().unwrap().to_owned();
        let document = scenario.world.document(&path).unwrap();
        if !seen.insert(format!("{what} {name}"))
            || what != "enacted" && seen.contains(&format!("enacted {name}"))
        {
            continue;
        }
        told += &format!("==== {what}: {name}\n");
        // of a stop's report the dump of the record is left out
        for line in String::from_utf8_lossy(&document.bytes).lines().take_while(|line| *line != "```json") {
            let words: Vec<String> = line.split(' ').map(plain).collect();
            told += words.join(" ").trim_end();
            told.push('\n');
        }
    }
    told
}

#[test]
fn what_runs_file_is_told_word_for_word() {
    let (mut text, mut seen) = (String::new(), BTreeSet::new());
    let mut of = |what: &str, scenario: &Scenario| text += &told(what, scenario, &mut seen);
    let enacted = Scenario::new(12);
    enacted.whole_run().unwrap();
    of("enacted", &enacted);

    let rehearsed = Scenario::new(12);
    rehearsed.cut_mode(&rehearsed.ports(), Mode::Dryrun).unwrap();
    of("rehearsed", &rehearsed);

    let refused = Scenario::new(12);
    let (run_id, ask) = refused.parked(Gate::Cut);
    refused.sign(&ask, ReviewVerdict::Reject);
    refused.resumed(&run_id);
    of("refused", &refused);

    let voided = Scenario::new(12);
    let (run_id, _) = voided.parked(Gate::Lifecycle);
    voided.void_signed(&run_id);
    of("voided", &voided);

    let drifted = Scenario::new(12);
    let (run_id, ask) = drifted.parked(Gate::Cut);
    drifted.world.alter_function("iu_core.fn_iu_create", "other");
    drifted.sign(&ask, ReviewVerdict::Approve);
    drifted.resumed(&run_id);
    of("drifted", &drifted);
    drifted.answer_stop(&run_id, EscalationKind::DriftAck, &[]);
    drifted.resumed(&run_id);
    of("asked anew", &drifted);

    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/filed.txt");
    if std::env::var_os("SNAPSHOTS").is_some_and(|what| what == "overwrite") {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (observed, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(observed, expected, "SNAPSHOTS=overwrite writes {} anew", path.display());
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}
