//! Where the policy wants several people to approve at a gate: nothing goes past it on fewer, whatever the
//! order, and whoever takes a document away.

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{Driven, Outcome, TooFew};
use cutter_core::machine::run::GateId;
use cutter_core::operate::inspect::verify::{ApprovalFact, given_beside};
use cutter_core::record::approval::Ask;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::effect::ReviewVerdict::{Approve, Reject};
use cutter_core::record::policy::{Change, Policy};
use cutter_core::record::sidecar::ApprovalRecord;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, block_on};
use cutter_tests::look::{Facts, gather, judge};
use cutter_tests::refusal::{Gate, asked, stopped};
use cutter_tests::{SOVEREIGN, Scenario};

const BOB: &str = "bob";

fn needed(gate: Gate, people: u32) -> Change {
    let gate = if gate == Gate::Cut { GateId::CutAuthz } else { GateId::LifecycleAuthz };
    Change::ApprovalsNeeded { gate, people }
}

/// A run that is parked at a gate where two must approve.
fn parked(seed: u64, gate: Gate) -> (Scenario, RunId, Ask) {
    let s = Scenario::new(seed);
    // answers that are good for a while only must last until they are spent
    let hours = Change::AnswersValid { hours: Some(48) };
    s.change_policy(vec![s.world.approver(BOB), needed(gate, 2), hours]);
    let (run_id, ask) = s.parked(gate);
    (s, run_id, ask)
}

fn file(s: &Scenario, ask: &Ask, n: usize, who: &str, verdict: ReviewVerdict) -> (String, Digest) {
    let text = s.answer(ask, verdict).replace(&format!("actor: {SOVEREIGN}"), &format!("actor: {who}"));
    let document = s.world.sign(&s.world.person(who), &text);
    let path = ask.approval_path.replace(".md", &format!("-{n}.md"));
    s.world.file(&path, document.as_bytes());
    s.world.advance(1_000);
    (path, Digest::of(document.as_bytes()))
}

fn is_past(s: &Scenario, run_id: &RunId, gate: Gate) -> bool {
    let used = s.rows_of("approval_use");
    let effect = if gate == Gate::Cut { "leg_a" } else { "enact" };
    used.iter().any(|u| u["run_id"] == run_id.as_str() && u["used_by"]["effect"] == effect)
}

fn too_few(driven: &Driven) -> TooFew {
    match &driven.outcome {
        Outcome::Paused { too_few: Some(too_few), .. } => too_few.clone(),
        other => panic!("expected too few approvals, observed {other:?}"),
    }
}

#[test]
fn one_person_is_never_two_and_two_open_the_gate_in_any_order() {
    let words = [(SOVEREIGN, Approve), (BOB, Approve), (BOB, Reject)];
    let mut seed = 6_000;
    for gate in Gate::ALL {
        for a in words {
            for b in words {
                for c in words {
                    for at_once in [true, false] {
                        seed += 1;
                        let (s, run_id, ask) = parked(seed, gate);
                        let mut said: Vec<(&str, ReviewVerdict)> = Vec::new();
                        for (n, (who, verdict)) in [a, b, c].into_iter().enumerate() {
                            file(&s, &ask, n, who, verdict);
                            said.push((who, verdict));
                            if at_once && n < 2 {
                                continue;
                            }
                            let refused = said.iter().any(|(_, v)| *v == Reject);
                            let both = [SOVEREIGN, BOB].iter().all(|p| said.iter().any(|(who, _)| who == p));
                            let driven = s.resumed(&run_id);
                            assert_eq!(is_past(&s, &run_id, gate), both && !refused, "{gate:?} {said:?}");
                            if refused {
                                assert_eq!(stopped(&driven).code, "STOP_REFUSED");
                                break;
                            }
                            if both {
                                break;
                            }
                            assert_eq!(too_few(&driven).approved_by, [who]);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_record_the_report_and_the_statement_name_everybody() {
    let (s, run_id, ask) = parked(6_200, Gate::Lifecycle);
    let (path, sha256) = file(&s, &ask, 0, BOB, Approve);
    let waits = too_few(&s.resumed(&run_id));
    assert_eq!((waits.needed, waits.missing.as_deref()), (2, Some(SOVEREIGN)));
    file(&s, &ask, 1, SOVEREIGN, Approve);
    assert_eq!(s.resumed(&run_id).outcome, Outcome::Completed);
    let record = s.stored(&run_id).sovereign_approvals.last().unwrap().clone();
    assert_eq!(record.actor, SOVEREIGN, "who is expected gives the consent");
    let beside: Vec<(&str, &str, Digest)> =
        record.beside.iter().map(|b| (b.actor.as_str(), b.approval_kb_id.as_str(), b.sha256)).collect();
    assert_eq!(beside, [(BOB, path.as_str(), sha256)]);
    let statement = block_on(s.ports().reader.statements(&run_id)).unwrap().remove(0);
    assert!(statement.body.contains(&format!("\"beside\":[{{\"actor\":\"{BOB}\"")), "{}", statement.body);
    let report = s.stored(&run_id).documents.last().unwrap().path.clone();
    let report = String::from_utf8(s.world.document(&report).unwrap().bytes).unwrap();
    assert!(report.contains(&format!("by {SOVEREIGN} and {BOB}")), "{report}");
    let request = String::from_utf8(s.world.document(&ask.request_path).unwrap().bytes).unwrap();
    assert!(request.contains("2 different people must approve"), "{request}");
}

/// Whoever edits the second approval away, at any call until the first one is spent: nothing relies on one.
#[test]
fn an_approval_that_goes_away_before_the_commit_is_missed() {
    for gate in Gate::ALL {
        let (mut n, mut missed) = (0, 0);
        loop {
            n += 1;
            let (s, run_id, ask) = parked(6_300, gate);
            file(&s, &ask, 0, SOVEREIGN, Approve);
            let (path, _) = file(&s, &ask, 1, BOB, Approve);
            let (_, ports) = s.process(FaultPlan::one(Fault::at(n, FaultKind::DieBefore)));
            let done = s.resume(&ports, &run_id).is_ok();
            if is_past(&s, &run_id, gate) || done {
                break;
            }
            s.world.file(&path, b"gone");
            let driven = s.resumed(&run_id);
            assert!(!is_past(&s, &run_id, gate), "call {n}: {:?}", driven.outcome);
            missed += 1;
        }
        assert!(missed > 10, "{gate:?}: {missed}");
    }
}

#[test]
fn fewer_are_a_loosening_and_nobody_can_want_more_than_there_are() {
    let (s, run_id, ask) = parked(6_400, Gate::Cut);
    s.change_policy(vec![needed(Gate::Cut, 1)]);
    file(&s, &ask, 0, SOVEREIGN, Approve);
    assert_eq!(too_few(&s.resumed(&run_id)).needed, 2, "as it was when it was asked");
    file(&s, &ask, 1, BOB, Approve);
    assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_DRIFT_policy");
    assert!(!is_past(&s, &run_id, Gate::Cut));
    let (two, one) = (Policy { needed: [("g".into(), 2)].into(), ..Policy::default() }, Policy::default());
    assert_eq!(two.loosened_by(&one), ["1 must approve at g, before 2"]);
    assert_eq!(one.loosened_by(&two), Vec::<String>::new());
}

#[test]
fn a_policy_that_wants_more_holds_for_what_is_asked_already() {
    let s = Scenario::new(6_500);
    s.change_policy(vec![s.world.approver(BOB)]);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.change_policy(vec![needed(Gate::Cut, 2)]);
    file(&s, &ask, 0, SOVEREIGN, Approve);
    // whoever signed that one was enough is asked once more
    let again = asked(&s.resumed(&run_id));
    assert_eq!(again.required["approvals_needed"], "2");
    file(&s, &again, 2, SOVEREIGN, Approve);
    assert_eq!(too_few(&s.resumed(&run_id)).approved_by, [SOVEREIGN]);
    file(&s, &again, 3, BOB, Approve);
    asked(&s.resumed(&run_id));
    assert!(is_past(&s, &run_id, Gate::Cut));
}

/// A checker counts the people once more, from what the database holds.
#[test]
fn a_checker_finds_that_somebody_is_missing() {
    for gate in Gate::ALL {
        let (s, run_id, ask) = parked(6_600, gate);
        file(&s, &ask, 0, SOVEREIGN, Approve);
        file(&s, &ask, 1, BOB, Approve);
        s.finish(&run_id);
        let mut facts = gather(&s.ports(), &s.stored(&run_id));
        for approval in &mut facts.database.evidence.approvals {
            approval.recorded_at.get_or_insert(approval.at);
        }
        let at = s.world.now();
        for answer in facts.asks.iter_mut().flat_map(|ask| &mut ask.answers) {
            answer.recorded_at.get_or_insert(at);
        }
        let failing = |facts: &Facts, brought: &[String]| -> Vec<String> {
            let checks = judge(facts, brought).into_iter().filter(|check| !check.ok);
            checks.map(|check| format!("{}: {}", check.invariant, check.observed)).collect()
        };
        assert_eq!(failing(&facts, &[]), Vec::<String>::new());
        let enough = format!("verify.ask.{}.1.enough: ", ask.gate);
        let is_enough = |found: &[String]| !found.iter().any(|line| line.starts_with(&enough));
        let keys = [s.world.person(SOVEREIGN), s.world.person(BOB)];
        assert!(is_enough(&failing(&facts, &keys)));
        let one = failing(&facts, &keys[..1]);
        let why = format!("{enough}{SOVEREIGN}; not {BOB}: the key was not brought along");
        assert!(one.contains(&why), "{one:?}");
        let mut fewer = facts.clone();
        for ask in fewer.asks.iter_mut().filter(|a| a.asked.ask.gate == ask.gate) {
            ask.answers.retain(|a| a.answer.actor != BOB);
        }
        let found = failing(&fewer, &[]);
        assert!(found.contains(&format!("{enough}{SOVEREIGN}")), "{found:?}");
        // without a record, the documents alone tell who approved beside whom
        let own = facts.approvals.iter().find(|fact| fact.record.gate == ask.gate).expect("the consent");
        let mut bobs = facts.asks.iter().flat_map(|ask| &ask.answers).map(|a| &a.answer);
        let bobs = bobs.rfind(|a| a.actor == BOB && a.gate == ask.gate).expect("his answer");
        let beside = ApprovalFact {
            record: ApprovalRecord {
                actor: BOB.into(),
                sha256: Some(bobs.sha256()),
                beside: Vec::new(),
                ..own.record.clone()
            },
            signature: facts.signatures.get(&bobs.sha256()).cloned(),
            ..own.clone()
        };
        let consent = own.record.sha256;
        let both = vec![beside, own.clone()];
        let given = given_beside(both, &|sha256| Some(*sha256) == consent, 2).expect("a consent");
        let given: Vec<(u32, &str)> =
            given.iter().map(|fact| (fact.place, fact.record.actor.as_str())).collect();
        assert_eq!(given, [(0, SOVEREIGN), (1, BOB)]);
        let mut late = facts.clone();
        late.asks.iter_mut().flat_map(|ask| &mut ask.answers).for_each(|answer| answer.late = true);
        assert!(!is_enough(&failing(&late, &[])));
    }
}
