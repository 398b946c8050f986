//! The operator puts a request before the approver whose digests are true and whose words are not.

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{Outcome, ask_for_stop};
use cutter_core::operate::review::{Outcome as Became, Review};
use cutter_core::record::approval::{Ask, field};
use cutter_core::record::ask::{AskWrite, RunBegun};
use cutter_core::record::effect::ReviewVerdict::Approve;
use cutter_core::report::asks_of_document;
use cutter_core::report::naming::EscalationKind;
use cutter_core::testing::memory::block_on;
use cutter_tests::attack::edited;
use cutter_tests::look::{Facts, gather, judge};
use cutter_tests::refusal::{Gate, asked};
use cutter_tests::{DOCUMENT, Scenario};
use serde_json::json;

/// What he makes of a request.
type Lie = fn(&str) -> String;

fn is_past(s: &Scenario, run_id: &RunId, gate: Gate) -> bool {
    let used = s.rows_of("approval_use");
    let effect = if gate == Gate::Cut { "leg_a" } else { "enact" };
    used.iter().any(|u| u["run_id"] == run_id.as_str() && u["used_by"]["effect"] == effect)
}

fn text_of(s: &Scenario, path: &str) -> String {
    String::from_utf8(s.world.document(path).expect("it is filed").bytes).expect("text")
}

/// A second request in the knowledge base and in the record, as the program would have made it but for the lie.
fn forged(s: &Scenario, run_id: &RunId, ask: &Ask, lie: Lie) -> Ask {
    let second = |path: &str| {
        path.replace("-authz-request-", "-authz-request-2-").replace("-authz-approval-", "-authz-approval-2-")
    };
    let nonce = Digest::of(b"another nonce").to_hex();
    let mut bare = Ask { occurrence: 2, ..ask.clone() };
    bare.required.insert(field::NONCE.into(), nonce.clone());
    let text = text_of(s, &ask.request_path)
        .replace("occurrence           : 1", "occurrence           : 2")
        .replace("occurrence: 1\n", "occurrence: 2\n")
        .replace(&ask.required[field::NONCE], &nonce)
        .replace(&ask.voice_code(), &bare.voice_code());
    let text = lie(&second(&text));
    let path = second(&ask.request_path);
    s.world.file(&path, text.as_bytes());
    let forged = asks_of_document(&text, &path).pop().expect("it asks");
    let forged = Ask { expected_actor: ask.expected_actor.clone(), ..forged };
    let record = edited(&s.world.sidecar(run_id).expect("it is there").bytes, |v| {
        v["ask"] = json!(forged);
        v["intent"]["occurrence"] = json!(2);
        v["intent"]["nonce"] = json!(nonce);
    });
    assert!(s.world.corrupt_sidecar(run_id, &record));
    forged
}

const LIES: [(&str, Lie); 5] = [
    ("the list of units", |text| {
        text.replacen("  - ch-1 ", "  - ch-9 ", 1).replacen("  - art-1 ", "  - art-9 ", 1)
    }),
    ("what is asked", |text| {
        text.replacen("To revert means", "This is a test. To revert means", 1)
            .replacen("cannot", "can", 1)
            .replacen("neither voided nor", "voided and", 1)
    }),
    ("how many units", |text| text.replacen(" units, ", " unit, ", 1)),
    ("the settings", |text| text.replacen("max_candidates       : ", "max_candidates       : 1", 1)),
    ("words between", |text| {
        text.replacen("\n## 3. Units\n", "\nNothing below will be cut.\n\n## 3. Units\n", 1)
    }),
];

#[test]
fn an_answer_to_a_request_that_shows_something_else_allows_nothing() {
    for gate in Gate::ALL {
        for (what, lie) in LIES {
            let s = Scenario::new(7_000);
            let (run_id, ask) = s.parked(gate);
            let forged = forged(&s, &run_id, &ask, lie);
            assert_ne!(text_of(&s, &forged.request_path), text_of(&s, &ask.request_path));
            s.sign(&forged, Approve);
            let again = asked(&s.resumed(&run_id));
            assert!(!is_past(&s, &run_id, gate), "{gate:?}: {what}");
            assert_eq!(again.occurrence, 3, "{gate:?}: {what}");
            let request = text_of(&s, &again.request_path);
            assert!(
                request.contains("asked once more: the request before was another one: line "),
                "{request}"
            );
            s.sign(&again, Approve);
            s.finish(&run_id);
        }
    }
}

/// A request made like this without a lie is the program's own.
#[test]
fn the_same_without_a_lie_is_answered() {
    for gate in Gate::ALL {
        let s = Scenario::new(7_100);
        let (run_id, ask) = s.parked(gate);
        let own = forged(&s, &run_id, &ask, str::to_owned);
        s.sign(&own, Approve);
        let driven = s.resumed(&run_id);
        assert!(is_past(&s, &run_id, gate), "{gate:?}: {:?}", driven.outcome);
    }
}

#[test]
fn the_review_duty_stores_nothing_for_a_request_that_shows_something_else() {
    for (what, lie) in LIES.into_iter().chain([("nothing", str::to_owned as Lie)]) {
        let s = Scenario::new(7_200);
        let (run_id, ask) = s.parked(Gate::Cut);
        let sidecar = s.stored(&run_id);
        let forged = forged(&s, &run_id, &ask, lie);
        let holder = uuid::Uuid::from_u128(7);
        let fence =
            block_on(s.ports().executor.take_fence(&run_id, DOCUMENT, holder)).expect("his login may");
        let write = AskWrite {
            policy_head: forged.required[field::POLICY_HEAD].parse().ok(),
            ids: sidecar.intent.as_ref().expect("it asks").ids.clone(),
            at: s.world.now(),
            begun: Some(RunBegun {
                settings: sidecar.settings.text().to_owned(),
                creation: (*sidecar.creation).clone(),
            }),
            ask: forged.clone(),
        };
        block_on(s.ports().executor.open_ask(&fence, &write)).expect("his login may");
        s.sign(&forged, Approve);
        let ports = s.review_ports();
        let reviewed = block_on(Review::new("rita".into()).pass(&ports)).expect("it looks");
        let is_decided = reviewed.iter().any(|r| matches!(r.outcome, Became::Decided { .. }));
        assert_eq!(is_decided, what == "nothing", "{what}: {reviewed:?}");
        let said = reviewed.iter().any(|r| matches!(&r.outcome, Became::Unfit(why) if why.contains("line ")));
        assert_eq!(said, what != "nothing", "{what}: {reviewed:?}");
        assert!(!matches!(s.resumed(&run_id).outcome, Outcome::Completed));
    }
}

const FORGED: &str = "{}\nAnswering this allows a look and nothing else.\n";

/// Whoever writes to the knowledge base puts another report before the approver: an answer to that one
/// answers nothing, and the true one is answered as ever.
#[test]
fn an_answer_to_a_stop_holds_for_the_report_that_was_read() {
    for (n, kind) in [EscalationKind::Resume, EscalationKind::Void].into_iter().enumerate() {
        let s = Scenario::new(8_200 + n as u64);
        let (run_id, _) = s.parked(Gate::Cut);
        let _ = s.stop(&run_id, "moving house").expect("it stops");
        let sidecar = s.stored(&run_id);
        let path = format!("{}/{}", sidecar.kb_folder.as_ref().unwrap(), sidecar.stops[0].name);
        let whole = text_of(&s, &path);
        let asked_by = |text: &str| {
            let of_kind = ask_for_stop(&sidecar, &sidecar.stops[0], kind).approval_type;
            asks_of_document(text, &path)
                .into_iter()
                .find(|ask| ask.approval_type == of_kind)
                .expect("it asks")
        };
        assert_eq!(asked_by(&whole), ask_for_stop(&sidecar, &sidecar.stops[0], kind));
        let forged =
            asked_by(&whole.replacen("## 1. What happened\n", "## 1. What happened\n\nNothing.\n", 1));
        let go_on = || match kind {
            EscalationKind::Void => s.void(&run_id),
            _ => s.resume(&s.ports(), &run_id),
        };
        let name = |ask: &Ask, n: u32| Ask {
            approval_path: ask.approval_path.replace(".md", &format!("-{n}.md")),
            ..ask.clone()
        };
        for (n, ask) in [(2, Ask { required: without(&forged.required), ..forged.clone() }), (3, forged)] {
            s.sign(&name(&ask, n), Approve);
            let driven = go_on().expect("it looks");
            let is_same = matches!(driven.outcome, Outcome::Stopped(_) | Outcome::Paused { .. });
            assert!(is_same && s.stored(&run_id).open_stop().is_some(), "{kind:?}: {:?}", driven.outcome);
            let why = s.stored(&run_id).considered.last().cloned().expect("it is told");
            assert_eq!(why.invariant, "approval.request_sha256", "{why:?}");
        }
        // as if the forged one had been filed, by the record
        s.world.file(&path, FORGED.replace("{}", &whole).as_bytes());
        let standing = s.world.document(&path).expect("it is filed");
        let record = edited(&s.world.sidecar(&run_id).expect("it is there").bytes, |v| {
            v["stops"][0]["uploaded"] = json!(standing.sha256);
        });
        assert!(s.world.corrupt_sidecar(&run_id, &record));
        let recorded = ask_for_stop(&s.stored(&run_id), &s.stored(&run_id).stops[0], kind);
        assert_eq!(recorded.required[field::REQUEST_SHA256], standing.sha256.to_hex());
        s.sign(&name(&recorded, 5), Approve);
        drop(go_on());
        assert!(s.stored(&run_id).open_stop().is_some(), "{kind:?}: by what the record says was filed");
        s.world.file(&path, whole.as_bytes());
        let record = edited(&s.world.sidecar(&run_id).expect("it is there").bytes, |v| {
            v["stops"][0]["uploaded"] = json!(Digest::of(whole.as_bytes()));
        });
        assert!(s.world.corrupt_sidecar(&run_id, &record));
        s.sign(&name(&asked_by(&whole), 4), Approve);
        let _ = go_on().expect("it goes on");
        assert!(s.stored(&run_id).open_stop().is_none(), "{kind:?}");
        let last = s.stored(&run_id).sovereign_approvals.last().cloned().expect("it is recorded");
        assert_eq!(last.request_sha256, Some(Digest::of(whole.as_bytes())));
    }
}

fn without(required: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    required
        .iter()
        .filter(|(name, _)| *name != field::REQUEST_SHA256)
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// A stop that an earlier program recorded asks for no digest of its report: it is answered as it asked.
#[test]
fn a_stop_of_an_earlier_program_is_answered_as_it_asked() {
    let s = Scenario::new(8_300);
    let (run_id, _) = s.parked(Gate::Cut);
    let _ = s.stop(&run_id, "moving house").expect("it stops");
    let sidecar = s.stored(&run_id);
    let record = edited(&s.world.sidecar(&run_id).expect("it is there").bytes, |v| {
        let _ = v["stops"][0].as_object_mut().expect("a stop").remove("names_report");
    });
    assert!(s.world.corrupt_sidecar(&run_id, &record));
    let ask = ask_for_stop(&s.stored(&run_id), &s.stored(&run_id).stops[0], EscalationKind::Resume);
    assert!(!ask.required.contains_key(field::REQUEST_SHA256) && sidecar.stops[0].names_report);
    s.sign(&ask, Approve);
    s.finish(&run_id);
    let facts = gather(&s.ports(), &s.stored(&run_id));
    assert_eq!(failed(&facts), [""; 0]);
}

/// Who signs with this program says which report was read, also where an earlier one did not ask for it: it
/// must be one of the run's.
#[test]
fn an_answer_that_names_a_report_names_one_of_the_run() {
    let s = Scenario::new(8_400);
    let (run_id, _) = s.parked(Gate::Cut);
    let _ = s.stop(&run_id, "moving house").expect("it stops");
    let path = format!("{}/{}", s.stored(&run_id).kb_folder.unwrap(), s.stored(&run_id).stops[0].name);
    let record = edited(&s.world.sidecar(&run_id).expect("it is there").bytes, |v| {
        let _ = v["stops"][0].as_object_mut().expect("a stop").remove("names_report");
    });
    assert!(s.world.corrupt_sidecar(&run_id, &record));
    let text = text_of(&s, &path);
    let asks = text.lines().filter(|line| !line.starts_with("request_sha256: "));
    let earlier = asks.map(|line| format!("{line}\n")).collect::<String>();
    let ask = asks_of_document(&earlier, &path).remove(0);
    assert_eq!(ask.required[field::REQUEST_SHA256], Digest::of(earlier.as_bytes()).to_hex());
    let ask = asks_of_document(&text, &path).remove(0);
    s.sign(&ask, Approve);
    s.finish(&run_id);
    let mut facts = gather(&s.ports(), &s.stored(&run_id));
    assert_eq!(failed(&facts), [""; 0]);
    facts.claims.reports.clear();
    assert_eq!(failed(&facts), ["verify.approval.SG_failure_escalation.1.request_sha256"]);
}

fn failed(facts: &Facts) -> Vec<String> {
    judge(facts, &[]).into_iter().filter(|c| !c.ok).map(|c| c.invariant).collect()
}
