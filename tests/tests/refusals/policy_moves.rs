//! The policy moves while a gate waits: whoever may approve then can, whatever was asked before.

use cutter_core::base::id::RunId;
use cutter_core::driver::{Outcome, policy_of};
use cutter_core::machine::run::GateId;
use cutter_core::record::approval::Ask;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::effect::ReviewVerdict::{Approve, Defer, Reject};
use cutter_core::record::policy::Change;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, block_on};
use cutter_tests::attack::edited;
use cutter_tests::refusal::{Gate, asked, stopped};
use cutter_tests::{SOVEREIGN, Scenario};

const BOB: &str = "bob";
const CAT: &str = "cat";

/// How a policy may move, of a run that SOVEREIGN and BOB may approve and that SOVEREIGN is expected to,
/// and who may approve after.
fn moves(s: &Scenario, gate: GateId) -> Vec<(&'static str, Vec<Change>, Vec<&'static str>)> {
    let since = s.world.now();
    let retired = |person: &str| Change::ApproverRetired { since, person: person.into() };
    let stolen = Change::KeyCompromised { since, fingerprint: s.world.person(SOVEREIGN) };
    let only = |person: &str| Change::MayAnswer { gate, person: person.into() };
    let two = Change::ApprovalsNeeded { gate, people: 2 };
    vec![
        ("nothing", vec![Change::AnswersValid { hours: Some(48) }], vec![SOVEREIGN]),
        ("one is added", vec![s.world.approver(CAT)], vec![SOVEREIGN]),
        ("two must", vec![two.clone()], vec![SOVEREIGN, BOB]),
        (
            "two must, of whom one is new",
            vec![s.world.approver(CAT), two.clone(), retired(BOB)],
            vec![SOVEREIGN, CAT],
        ),
        ("the expected one retires", vec![retired(SOVEREIGN)], vec![BOB]),
        ("the expected one's key is stolen", vec![stolen.clone()], vec![BOB]),
        ("the other one retires", vec![retired(BOB)], vec![SOVEREIGN]),
        ("only the other one may", vec![only(BOB)], vec![BOB]),
        ("only a new one may", vec![s.world.approver(CAT), only(CAT)], vec![CAT]),
        ("everybody is another", vec![s.world.approver(CAT), retired(SOVEREIGN), retired(BOB)], vec![CAT]),
        (
            "two must, both new to it",
            vec![s.world.approver(CAT), s.world.approver("dan"), only(CAT), only("dan"), two],
            vec![CAT, "dan"],
        ),
    ]
}

fn file(s: &Scenario, ask: &Ask, who: &str, verdict: ReviewVerdict) {
    let text = s.answer(ask, verdict).replace(&format!("actor: {SOVEREIGN}"), &format!("actor: {who}"));
    let document = s.world.sign(&s.world.person(who), &text);
    s.world.file(&ask.approval_path.replace(".md", &format!("-{who}.md")), document.as_bytes());
    s.world.advance(1_000);
}

fn is_past(s: &Scenario, run_id: &RunId, gate: Gate) -> bool {
    let used = s.rows_of("approval_use");
    let effect = if gate == Gate::Cut { "leg_a" } else { "enact" };
    used.iter().any(|u| u["run_id"] == run_id.as_str() && u["used_by"]["effect"] == effect)
}

fn parked(seed: u64, gate: Gate) -> (Scenario, RunId, Ask) {
    let s = Scenario::new(seed);
    s.change_policy(vec![s.world.approver(BOB)]);
    let (run_id, ask) = s.parked(gate);
    (s, run_id, ask)
}

const fn gate_of(gate: Gate) -> GateId {
    match gate {
        Gate::Cut => GateId::CutAuthz,
        Gate::Lifecycle => GateId::LifecycleAuthz,
    }
}

/// What is open after a command, however it ended.
fn open_ask(s: &Scenario, run_id: &RunId) -> Ask {
    s.stored(run_id).ask.expect("something is asked")
}

#[test]
fn whoever_may_approve_now_can() {
    for gate in Gate::ALL {
        let n = moves(&Scenario::new(1), gate_of(gate)).len();
        for i in 0..n {
            // looked at between, and not
            for looks in [true, false] {
                let (s, run_id, before) = parked(6_600 + i as u64, gate);
                let (what, changes, people) = moves(&s, gate_of(gate)).swap_remove(i);
                s.change_policy(changes);
                if gate == Gate::Lifecycle && what.contains("stolen") {
                    // the first gate's approval was made with that key
                    assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_DRIFT_policy");
                }
                if looks {
                    asked(&s.resumed(&run_id));
                } else {
                    people.iter().for_each(|who| file(&s, &before, who, Approve));
                    s.resumed(&run_id);
                }
                if !is_past(&s, &run_id, gate) {
                    let ask = open_ask(&s, &run_id);
                    let request = s.world.document(&ask.request_path).unwrap().bytes;
                    let request = String::from_utf8(request).unwrap();
                    let reasons = [
                        "asked once more: the policy changed",
                        "asked once more: 2 people must approve now",
                        "changed before this request (stop 1): ",
                    ];
                    let says = reasons.iter().any(|why| request.contains(why));
                    assert_eq!(says, ask.occurrence != before.occurrence, "{what}: {request}");
                    people.iter().for_each(|who| file(&s, &ask, who, Approve));
                    s.resumed(&run_id);
                }
                assert!(is_past(&s, &run_id, gate), "{gate:?}, {what}: {:?}", s.stored(&run_id).considered);
                if gate == Gate::Lifecycle {
                    assert_eq!(s.resumed(&run_id).outcome, Outcome::Completed, "{what}");
                    s.assert_complete(&run_id);
                }
            }
        }
    }
}

#[test]
fn a_refusal_of_what_was_asked_before_the_policy_moved_counts() {
    for gate in Gate::ALL {
        for verdict in [Reject, Defer] {
            for who in [SOVEREIGN, BOB] {
                let (s, run_id, before) = parked(6_700, gate);
                file(&s, &before, who, verdict);
                s.change_policy(vec![
                    s.world.approver(CAT),
                    Change::MayAnswer { gate: gate_of(gate), person: CAT.into() },
                ]);
                assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_REFUSED", "{gate:?} {who} {verdict:?}");
                assert!(!is_past(&s, &run_id, gate));
            }
        }
    }
}

#[test]
fn where_nobody_could_answer_a_new_request_either_the_old_one_stays() {
    for gate in Gate::ALL {
        let (s, run_id, before) = parked(6_800, gate);
        let retired = Change::ApproverRetired { since: s.world.now(), person: BOB.into() };
        s.change_policy(vec![Change::ApprovalsNeeded { gate: gate_of(gate), people: 2 }, retired]);
        assert_eq!(asked(&s.resumed(&run_id)), before);
        s.change_policy(vec![s.world.approver(CAT)]);
        let ask = asked(&s.resumed(&run_id));
        assert_eq!(ask.occurrence, before.occurrence + 1);
        [SOVEREIGN, CAT].iter().for_each(|who| file(&s, &ask, who, Approve));
        s.resumed(&run_id);
        assert!(is_past(&s, &run_id, gate));
    }
}

/// Whoever the settings name is only expected where the policy lets them answer.
#[test]
fn whom_the_policy_lets_answer_is_expected() {
    let s = Scenario::new(6_900);
    let only = Change::MayAnswer { gate: GateId::LifecycleAuthz, person: BOB.into() };
    s.change_policy(vec![s.world.approver(BOB), only]);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    assert_eq!(ask.expected_actor.as_deref(), Some(BOB));
    file(&s, &ask, BOB, Approve);
    assert_eq!(s.resumed(&run_id).outcome, Outcome::Completed);
}

/// What the record pins is the operator's; what the open request names is a row: no key that was stolen since
/// passes by a pin that was moved along.
#[test]
fn a_pin_that_was_moved_along_passes_no_stolen_key() {
    let (s, run_id, ask) = parked(6_900, Gate::Lifecycle);
    let pinned = s.stored(&run_id).drift_pins.0["policy"].clone();
    s.change_policy(vec![Change::KeyCompromised {
        since: s.world.now(),
        fingerprint: s.world.person(SOVEREIGN),
    }]);
    assert_eq!(s.stored(&run_id).drift_pins.0["policy"], pinned);
    move_pin(&s, &run_id);
    file(&s, &ask, BOB, Approve);
    assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_DRIFT_policy");
    let again = asked(&s.resumed(&run_id));
    assert_ne!(again.occurrence, ask.occurrence);
    let request = String::from_utf8(s.world.document(&again.request_path).unwrap().bytes).unwrap();
    assert!(request.contains("changed before this request (stop 1): "), "{request}");
    file(&s, &again, BOB, Approve);
    assert_eq!(s.resumed(&run_id).outcome, Outcome::Completed);
}

/// The record pins the head of now, as if the policy had not moved.
fn move_pin(s: &Scenario, run_id: &RunId) {
    let ports = s.ports();
    let chain = block_on(policy_of(ports.reader.as_ref(), ports.signatures.as_ref())).unwrap();
    let head = chain.head().unwrap().to_hex();
    let record = String::from_utf8(s.world.sidecar(run_id).unwrap().bytes).unwrap();
    let record = edited(record.as_bytes(), |v| v["drift_pins"]["policy"] = head.as_str().into());
    assert!(s.world.corrupt_sidecar(run_id, &record));
}

/// Nor between the gates, where nothing is asked: the second request tells of it.
#[test]
fn the_second_request_tells_of_a_key_that_was_stolen_between_the_gates() {
    let (mut n, mut told) = (0, 0);
    loop {
        n += 1;
        let (s, run_id, ask) = parked(7_000, Gate::Cut);
        file(&s, &ask, SOVEREIGN, Approve);
        let (_, ports) = s.process(FaultPlan::one(Fault::at(n, FaultKind::DieBefore)));
        let is_done = s.resume(&ports, &run_id).is_ok();
        if is_done {
            break;
        }
        let asks = s.stored(&run_id).ask.is_some_and(|ask| ask.gate == GateId::LifecycleAuthz);
        if !is_past(&s, &run_id, Gate::Cut) || asks {
            continue;
        }
        s.world.advance(120_000);
        s.change_policy(vec![Change::KeyCompromised {
            since: s.world.now(),
            fingerprint: s.world.person(SOVEREIGN),
        }]);
        move_pin(&s, &run_id);
        let ask = asked(&s.resumed(&run_id));
        assert_eq!(ask.gate, GateId::LifecycleAuthz);
        let request = String::from_utf8(s.world.document(&ask.request_path).unwrap().bytes).unwrap();
        let says = "changed since SG_cut_authz was asked: policy event ";
        assert!(request.contains(says) && request.contains("is compromised since"), "call {n}: {request}");
        file(&s, &ask, BOB, Approve);
        assert_eq!(s.resumed(&run_id).outcome, Outcome::Completed);
        told += 1;
    }
    assert!(told > 10, "{told} of {n}");
}
