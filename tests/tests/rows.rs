//! The rows of a run against each other: those of clean runs agree; what is said of each value that is
//! changed, of each row and effect that is lost or doubled, stands in `fixtures/rows_faults.txt`. Below
//! a line without an answer nothing in the rows alone says so; `every_column` has the reasons.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{Outcome, Ports};
use cutter_core::operate::inspect::verify;
use cutter_core::port::environment::Clock;
use cutter_core::record::approval::Ask;
use cutter_core::record::effect::{EffectRecord, ReviewVerdict, Verdict};
use cutter_core::record::evidence::{RunEvidence, RunRows};
use cutter_core::report::naming::EscalationKind;
use cutter_core::testing::memory::World;
use cutter_tests::refusal::{Gate, asked};
use cutter_tests::{SMALL, Scenario};
use futures_executor::block_on;
use jiff::Timestamp;
use serde_json::{Value, json};

struct Left {
    run_id: RunId,
    evidence: RunEvidence,
    rows: RunRows,
}

impl Left {
    fn by(scenario: &Scenario, run_id: RunId) -> Self {
        let evidence = block_on(scenario.ports().reader.evidence(&run_id)).unwrap();
        let rows = scenario.world.run_rows(&run_id);
        Self { run_id, evidence, rows }
    }

    /// What is wrong, by table, without the values.
    fn faults(&self, rows: &RunRows) -> BTreeSet<String> {
        let checks = verify::rows(self.run_id.as_str(), &self.evidence, rows);
        let wrong = checks.into_iter().filter(|check| !check.ok);
        wrong.flat_map(|check| shown(&check.invariant, &check.observed)).collect()
    }
}

/// Each sort of fault on a line of its own, without the values.
fn shown(invariant: &str, observed: &str) -> Vec<String> {
    let table = invariant.trim_start_matches("verify.rows.");
    let is_value = |word: &str| word.len() > 6 && word.chars().any(|c| c.is_ascii_digit());
    let mut told = Vec::new();
    for fault in observed.split(", ") {
        let quoted = fault.split('"').enumerate().filter(|(n, _)| n % 2 == 0).map(|(_, part)| part);
        let text = quoted.collect::<Vec<_>>().join("…");
        let words = text.split(' ').map(|word| if is_value(word) { "…" } else { word });
        told.push(format!("{table}: {}", words.collect::<Vec<_>>().join(" ")));
    }
    told
}

/// A clock that never shows a time twice.
struct Ticking(World);

#[async_trait::async_trait]
impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        self.0.advance(1);
        self.0.now()
    }

    async fn sleep(&self, millis: u64) {
        self.0.advance(millis);
    }
}

fn ports(scenario: &Scenario) -> Ports {
    let mut ports = scenario.ports();
    ports.clock = Arc::new(Ticking(scenario.world.clone()));
    ports
}

fn parked(gate: Gate) -> (Scenario, RunId, Ask) {
    let scenario = Scenario::with_text(7, SMALL);
    let mut driven = scenario.cut(&ports(&scenario)).unwrap();
    if gate == Gate::Lifecycle {
        scenario.sign_if_asked(&driven.outcome);
        driven = scenario.resume(&ports(&scenario), &driven.sidecar.run_id.clone()).unwrap();
    }
    scenario.world.advance(1000);
    let ask = asked(&driven);
    (scenario, driven.sidecar.run_id, ask)
}

fn finished() -> Left {
    let (scenario, run_id, ask) = parked(Gate::Lifecycle);
    scenario.sign(&ask, ReviewVerdict::Approve);
    assert_eq!(scenario.resume(&ports(&scenario), &run_id).unwrap().outcome, Outcome::Completed);
    Left::by(&scenario, run_id)
}

fn voided() -> Left {
    let (scenario, run_id, _) = parked(Gate::Lifecycle);
    scenario.void_signed(&run_id);
    Left::by(&scenario, run_id)
}

#[test]
fn the_rows_of_a_clean_run_agree_wherever_it_rests() {
    let mut all = vec![("finished", finished()), ("voided", voided())];
    for gate in Gate::ALL {
        let (scenario, run_id, _) = parked(gate);
        all.push(("parked", Left::by(&scenario, run_id)));
        for verdict in [ReviewVerdict::Reject, ReviewVerdict::Defer] {
            let (scenario, run_id, ask) = parked(gate);
            scenario.sign(&ask, verdict);
            scenario.resumed(&run_id);
            all.push(("refused", Left::by(&scenario, run_id)));
        }
        let (scenario, run_id, _) = parked(gate);
        scenario.stop(&run_id, "under review").unwrap();
        scenario.world.advance(1000);
        scenario.answer_stop(&run_id, EscalationKind::Resume, &[]);
        let driven = scenario.resumed(&run_id);
        all.push(("asked again", Left::by(&scenario, run_id.clone())));
        scenario.sign(&asked(&driven), ReviewVerdict::Approve);
        let mut driven = scenario.resume(&ports(&scenario), &run_id).unwrap();
        while scenario.sign_if_asked(&driven.outcome) {
            driven = scenario.resume(&ports(&scenario), &run_id).unwrap();
        }
        all.push(("finished after a stop", Left::by(&scenario, run_id)));
    }
    for (what, left) in all {
        assert_eq!(left.faults(&left.rows), BTreeSet::new(), "{what}");
    }
}

/// Another value of the same sort.
fn other(value: &Value) -> Value {
    match value {
        Value::Null => json!("x"),
        Value::Bool(yes) => json!(!yes),
        Value::Number(n) => json!(n.as_u64().unwrap_or_default() + 1),
        Value::String(text) => json!(other_text(text)),
        Value::Array(_) => json!(["x"]),
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.insert("other".into(), json!("x"));
            Value::Object(fields)
        }
    }
}

fn other_text(text: &str) -> String {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return (at + jiff::SignedDuration::from_secs(1)).to_string();
    }
    match text.chars().last().filter(char::is_ascii_hexdigit) {
        // still an identifier or digest, if it was one
        Some(last) => text[..text.len() - 1].to_owned() + if last == '0' { "1" } else { "0" },
        None => text.to_owned() + "x",
    }
}

fn each_change(left: &Left, is_asked: &dyn Fn(&str) -> bool, told: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut tell = |what: String, rows: &RunRows| told.entry(what).or_default().extend(left.faults(rows));
    for (table, rows) in left.rows.0.iter().filter(|(table, _)| is_asked(table)) {
        for (n, row) in rows.iter().enumerate() {
            for (column, value) in row {
                let mut spoilt = left.rows.clone();
                spoilt.0.get_mut(table).unwrap()[n].insert(column.clone(), other(value));
                tell(format!("{table}.{column}"), &spoilt);
            }
            let mut spoilt = left.rows.clone();
            spoilt.0.get_mut(table).unwrap().remove(n);
            tell(format!("{table} (a row deleted)"), &spoilt);
            let mut spoilt = left.rows.clone();
            spoilt.0.get_mut(table).unwrap().push(row.clone());
            tell(format!("{table} (a row doubled)"), &spoilt);
        }
    }
}

/// The same of what is read of effects beside the rows.
fn each_effect(left: &Left, told: &mut BTreeMap<String, BTreeSet<String>>) {
    type Change = fn(&mut EffectRecord);
    let changes: [(&str, Change); 5] = [
        ("at", |effect| effect.at += jiff::SignedDuration::from_secs(1)),
        ("occurrence", |effect| effect.key.occurrence += 1),
        ("payload_sha256", |effect| effect.payload_sha256 = Digest::of(b"x")),
        ("verdict", |effect| effect.verdict = Verdict::Rollback),
        ("effect_id", |effect| effect.effect_id = uuid::Uuid::nil()),
    ];
    for n in 0..left.evidence.effects.len() {
        let name = left.evidence.effects[n].key.effect;
        let mut tell = |what: &str, change: &dyn Fn(&mut Vec<EffectRecord>)| {
            let mut spoilt = Left {
                run_id: left.run_id.clone(),
                evidence: left.evidence.clone(),
                rows: RunRows::default(),
            };
            change(&mut spoilt.evidence.effects);
            told.entry(format!("effect {name} {what}")).or_default().extend(spoilt.faults(&left.rows));
        };
        for (field, change) in changes {
            tell(field, &|effects| change(&mut effects[n]));
        }
        tell("(lost)", &|effects| drop(effects.remove(n)));
    }
}

#[test]
fn whatever_is_changed_in_a_row_is_found_and_said() {
    let mut told = BTreeMap::new();
    for left in [finished(), voided()] {
        each_effect(&left, &mut told);
    }
    each_change(&finished(), &|_| true, &mut told);
    each_change(
        &voided(),
        &|table| ["change_set_void", "cut_change_set", "unit"].contains(&table),
        &mut told,
    );
    let text: String = told
        .iter()
        .flat_map(|(what, faults)| {
            std::iter::once(format!("{what}\n")).chain(faults.iter().map(|f| format!("    {f}\n")))
        })
        .collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/rows_faults.txt");
    if std::env::var_os("SNAPSHOTS").is_some_and(|what| what == "overwrite") {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (observed, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(observed, expected, "SNAPSHOTS=overwrite writes {} anew", path.display());
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}
