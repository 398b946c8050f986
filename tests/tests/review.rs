//! Two hosts on the model: one that cuts and has no login that stores decisions, one that stores decisions
//! and has nothing else. Neither alone gets anything done, and neither is believed by the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_core::base::canonical::digest_of;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::base::key::refusal_id;
use cutter_core::driver::{Driven, Outcome, Ports};
use cutter_core::machine::run::GateId;
use cutter_core::operate::inspect::recover::unknown_to;
use cutter_core::operate::review::{Outcome as Became, Review, ReviewPorts, Reviewed};
use cutter_core::port::{Port, PortErrorKind};
use cutter_core::record::approval::{Ask, field};
use cutter_core::record::ask::{AnswerWrite, DecisionWrite};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::effect::ReviewVerdict::{Approve, Defer, Reject};
use cutter_core::record::policy::Change;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, block_on};
use cutter_tests::refusal::{Gate, asked, stopped};
use cutter_tests::{SOVEREIGN, Scenario};
use proptest::prelude::*;

/// The ports of the host that cuts.
fn cutting(s: &Scenario) -> Ports {
    Ports { reviewer: None, ..s.ports() }
}

/// The ports of the host that stores decisions, of a process in which something may go wrong.
fn reviewing(s: &Scenario, plan: FaultPlan) -> ReviewPorts {
    let ports = s.world.process_with(plan).ports();
    ReviewPorts { reader: ports.reader, reviewer: ports.reviewer, kb: ports.kb, signatures: ports.signatures }
}

fn pass(s: &Scenario) -> Vec<Reviewed> {
    block_on(Review::new("rita".into()).pass(&reviewing(s, FaultPlan::default()))).unwrap()
}

fn decided(reviewed: &[Reviewed]) -> Vec<ReviewVerdict> {
    let of = |r: &Reviewed| match &r.outcome {
        Became::Decided { decision, .. } => Some(*decision),
        _ => None,
    };
    reviewed.iter().filter_map(of).collect()
}

/// Drives on by the host that cuts; its record then knows of all that stands.
fn on(s: &Scenario, run_id: &RunId) -> Driven {
    let driven = s.resume(&cutting(s), run_id).unwrap();
    let evidence = block_on(s.ports().reader.evidence(run_id)).unwrap();
    assert_eq!(unknown_to(&driven.sidecar, &evidence, &[]), Vec::<String>::new(), "{}", driven.sidecar.state);
    driven
}

/// Parked at a gate by the host that cuts, with the other host's help before.
fn parked(s: &Scenario, gate: Gate) -> (RunId, Ask) {
    let driven = s.cut(&cutting(s)).unwrap();
    let (run_id, ask) = (driven.sidecar.run_id.clone(), asked(&driven));
    if gate == Gate::Cut {
        return (run_id, ask);
    }
    s.sign(&ask, Approve);
    assert_eq!(decided(&pass(s)), [Approve]);
    let ask = asked(&on(s, &run_id));
    (run_id, ask)
}

fn rows(s: &Scenario, run_id: &RunId) -> (usize, usize) {
    let evidence = block_on(s.ports().reader.evidence(run_id)).unwrap();
    (evidence.approvals.len(), evidence.effects.len())
}

fn is_done(s: &Scenario, run_id: &RunId, gate: Gate) -> bool {
    let evidence = block_on(s.ports().reader.evidence(run_id)).unwrap();
    evidence.approvals.iter().any(|a| {
        let kind = if gate == Gate::Cut { "cut_authorization" } else { "lifecycle_enactment" };
        a.gate == kind && a.used_by.is_some()
    })
}

#[test]
fn a_run_goes_its_whole_way_by_two_hosts_and_by_neither_alone() {
    let s = Scenario::new(5_000);
    let driven = s.cut(&cutting(&s)).unwrap();
    let run_id = driven.sidecar.run_id.clone();
    let mut ask = asked(&driven);
    for gate in Gate::ALL {
        assert_eq!(pass(&s), [], "nobody answered");
        assert!(matches!(on(&s, &run_id).outcome, Outcome::Paused { .. }));
        s.sign(&ask, Approve);
        let waits = Outcome::AwaitsDecision { ask: ask.clone(), answer: ask.approval_path.clone() };
        for _ in 0..2 {
            assert_eq!(on(&s, &run_id).outcome, waits, "the answer alone allows nothing");
            assert!(!is_done(&s, &run_id, gate));
        }
        let before = rows(&s, &run_id);
        let reviewed = pass(&s);
        assert_eq!(decided(&reviewed), [Approve], "{reviewed:?}");
        assert_eq!(rows(&s, &run_id), (before.0 + 1, before.1 + 1), "an approval with its effect");
        assert_eq!(pass(&s), [], "once");
        assert!(!is_done(&s, &run_id, gate), "a decision alone cuts and enacts nothing");
        let driven = on(&s, &run_id);
        assert!(is_done(&s, &run_id, gate));
        match gate {
            Gate::Cut => ask = asked(&driven),
            Gate::Lifecycle => assert_eq!(driven.outcome, Outcome::Completed),
        }
    }
    assert_eq!(pass(&s), [], "nothing is open any more");
    // The rows are those that one host writes.
    let one = Scenario::new(5_001);
    let whole = one.whole_run().unwrap();
    assert_eq!(rows(&s, &run_id), rows(&one, &whole.sidecar.run_id));
}

#[test]
fn a_refusal_stored_by_the_other_host_is_carried_out() {
    for gate in Gate::ALL {
        for verdict in [Reject, Defer] {
            let s = Scenario::new(5_100);
            let (run_id, ask) = parked(&s, gate);
            s.sign(&ask, verdict);
            assert!(matches!(on(&s, &run_id).outcome, Outcome::AwaitsDecision { .. }));
            assert_eq!(decided(&pass(&s)), [verdict]);
            assert_eq!(pass(&s), []);
            assert_eq!(stopped(&on(&s, &run_id)).code, "STOP_REFUSED");
            assert!(!is_done(&s, &run_id, gate));
            let status = block_on(s.ports().reader.evidence(&run_id)).unwrap().entry_status.unwrap();
            let expected = match (gate, verdict) {
                (Gate::Cut, Reject) => "reviewed_rejected",
                (Gate::Cut, _) => "reviewed_deferred",
                _ => "verified_complete",
            };
            assert_eq!(status, expected);
        }
    }
}

#[test]
fn a_refusal_after_the_decision_still_wins() {
    for gate in Gate::ALL {
        let s = Scenario::new(5_200);
        let (run_id, ask) = parked(&s, gate);
        s.sign(&ask, Approve);
        assert_eq!(decided(&pass(&s)), [Approve]);
        let text = s.answer(&ask, Reject);
        let document = s.world.sign(&s.world.person(SOVEREIGN), &text);
        s.world.file(&ask.approval_path.replace(".md", "-x.md"), document.as_bytes());
        // heard by the host that cuts first: it waits for the decision on it
        assert!(matches!(on(&s, &run_id).outcome, Outcome::AwaitsDecision { .. }));
        assert!(!is_done(&s, &run_id, gate));
        assert_eq!(decided(&pass(&s)), [Reject]);
        assert_eq!(stopped(&on(&s, &run_id)).code, "STOP_REFUSED");
        assert!(!is_done(&s, &run_id, gate));
    }
}

#[test]
fn a_driver_that_stores_decisions_itself_and_the_duty_write_one_set_of_rows() {
    for (duty_first, verdict) in [(true, Approve), (false, Approve), (true, Reject), (true, Defer)] {
        let s = Scenario::new(5_300);
        let (run_id, ask) = s.parked(Gate::Cut);
        s.sign(&ask, verdict);
        if duty_first {
            assert_eq!(decided(&pass(&s)), [verdict]);
        }
        let driven = s.resumed(&run_id);
        assert_eq!(decided(&pass(&s)), []);
        if verdict != Approve {
            assert_eq!(stopped(&driven).code, "STOP_REFUSED");
            assert_eq!(rows(&s, &run_id).0, 1);
            continue;
        }
        s.sign(&asked(&driven), Approve);
        if duty_first {
            assert_eq!(decided(&pass(&s)), [Approve]);
        }
        assert_eq!(s.resumed(&run_id).outcome, Outcome::Completed);
        assert_eq!(rows(&s, &run_id).0, 2, "one approval at each gate");
        assert_eq!(pass(&s), []);
    }
}

#[test]
fn two_answers_that_two_hosts_found_in_another_order_are_one_decision() {
    let s = Scenario::new(5_350);
    let bob = s.world.approver("bob");
    s.change_policy(vec![bob]);
    let (run_id, ask) = s.parked(Gate::Cut);
    let file = |who: &str, path: &str| {
        let text = s.answer(&ask, Approve).replace(&format!("actor: {SOVEREIGN}"), &format!("actor: {who}"));
        s.world.file(path, s.world.sign(&s.world.person(who), &text).as_bytes());
    };
    // The duty stores the later one, for the earlier is not there yet.
    s.world.advance(2_000);
    file("bob", &ask.approval_path.replace(".md", "-b.md"));
    assert_eq!(decided(&pass(&s)), [Approve]);
    let text = s.answer(&ask, Approve);
    s.world.file(&ask.approval_path, s.world.sign(&s.world.person(SOVEREIGN), &text).as_bytes());
    let driven = s.resumed(&run_id);
    assert!(is_done(&s, &run_id, Gate::Cut), "{:?}", driven.outcome);
    let evidence = block_on(s.ports().reader.evidence(&run_id)).unwrap();
    assert_eq!(evidence.approvals.len(), 1);
    assert_eq!(evidence.approvals[0].actor, "bob");
}

#[test]
fn where_two_must_approve_neither_host_is_content_with_one() {
    let s = Scenario::new(5_360);
    s.change_policy(vec![
        s.world.approver("bob"),
        Change::ApprovalsNeeded { gate: GateId::CutAuthz, people: 2 },
    ]);
    let (run_id, ask) = parked(&s, Gate::Cut);
    s.sign(&ask, Approve);
    let reviewed: Vec<Became> = pass(&s).into_iter().map(|r| r.outcome).collect();
    assert_eq!(reviewed, [Became::Answered(1)]);
    // a host that stores the decision all the same is not believed
    let document = s.world.document(&ask.approval_path).unwrap();
    forge(&s, &run_id, &ask, core::str::from_utf8(&document.bytes).unwrap(), Approve);
    let driven = on(&s, &run_id);
    assert!(matches!(&driven.outcome, Outcome::Paused { too_few: Some(_), .. }), "{:?}", driven.outcome);
    assert!(!is_done(&s, &run_id, Gate::Cut));
    let text = s.answer(&ask, Approve).replace(&format!("actor: {SOVEREIGN}"), "actor: bob");
    let document = s.world.sign(&s.world.person("bob"), &text);
    s.world.file(&ask.approval_path.replace(".md", "-b.md"), document.as_bytes());
    pass(&s);
    let driven = on(&s, &run_id);
    assert!(is_done(&s, &run_id, Gate::Cut), "{:?}", driven.outcome);
}

/// Death at each call of the duty, and each lost answer: what stands afterwards is the same.
#[test]
fn the_duty_survives_death_at_every_call() {
    let calls = {
        let s = Scenario::new(5_400);
        let (_, ask) = parked(&s, Gate::Cut);
        s.sign(&ask, Approve);
        pass(&s);
        s.world.trace().len()
    };
    assert!(calls > 8, "{calls}");
    for n in 1..=calls {
        for kind in
            [FaultKind::DieBefore, FaultKind::DieAfter, FaultKind::UnknownDone, FaultKind::UnknownNotDone]
        {
            let s = Scenario::new(5_400);
            let (run_id, ask) = parked(&s, Gate::Cut);
            s.sign(&ask, Approve);
            let plan = FaultPlan::one(Fault::at(n as u64, kind));
            let _ = block_on(Review::new("rita".into()).pass(&reviewing(&s, plan)));
            let _ = pass(&s);
            assert_eq!(pass(&s), [], "call {n} {kind:?}");
            let driven = on(&s, &run_id);
            assert!(is_done(&s, &run_id, Gate::Cut), "call {n} {kind:?}: {:?}", driven.outcome);
            assert_eq!(rows(&s, &run_id).0, 1);
        }
    }
}

/// Death of the driver at each call while it takes a decision over.
#[test]
fn a_driver_that_dies_while_it_takes_a_decision_over_goes_on() {
    for n in 1..400 {
        let s = Scenario::new(5_500);
        let (run_id, ask) = parked(&s, Gate::Cut);
        s.sign(&ask, Approve);
        pass(&s);
        let (_, ports) = s.process(FaultPlan::one(Fault::at(n, FaultKind::DieAfter)));
        let first = s.resume(&Ports { reviewer: None, ..ports }, &run_id);
        let died = first.is_err();
        let driven = if died { on(&s, &run_id) } else { first.unwrap() };
        assert_eq!(driven.sidecar.state, Gate::Lifecycle.awaiting(), "call {n}: {:?}", driven.outcome);
        if !died {
            assert!(n > 40, "{n}");
            return;
        }
    }
    panic!("a run has fewer calls");
}

#[test]
fn the_database_that_goes_away_ends_a_pass_and_the_next_one_goes_on() {
    let s = Scenario::new(5_600);
    let (_, ask) = parked(&s, Gate::Cut);
    s.sign(&ask, Approve);
    let gone = FaultKind::Fail { kind: PortErrorKind::Unavailable, times: 1 };
    let away = |op: &str| FaultPlan::one(Fault::on(Port::Database, op, gone));
    let mut review = Review::new("rita".into());
    for op in ["now", "open_asks", "asks", "policy", "source_text", "record_answers", "record_decision"] {
        let error = block_on(review.pass(&reviewing(&s, away(op)))).unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Unavailable, "{op}");
    }
    assert_eq!(decided(&block_on(review.pass(&reviewing(&s, FaultPlan::default()))).unwrap()), [Approve]);
}

/// What whoever has the reviewer's login can write: an answer and a decision of any bytes.
fn forge(s: &Scenario, run_id: &RunId, ask: &Ask, document: &str, verdict: ReviewVerdict) {
    let ports = s.world.process().ports();
    let answer = AnswerWrite {
        gate: ask.gate,
        occurrence: ask.occurrence,
        decision: verdict,
        approval_kb_id: ask.approval_path.clone(),
        document: document.to_owned(),
        fingerprint: s.world.person(SOVEREIGN),
        actor: SOVEREIGN.to_owned(),
    };
    block_on(ports.reviewer.record_answers(run_id, core::slice::from_ref(&answer))).unwrap();
    let open = block_on(ports.reader.open_asks(None)).unwrap();
    let open = open.iter().find(|o| o.run_id == *run_id && o.gate == ask.gate).unwrap();
    let stored = block_on(ports.reader.asks(run_id)).unwrap();
    let asked = &stored.iter().find(|s| s.asked.ask == *ask).unwrap().asked;
    let moves = ask.gate == GateId::CutAuthz;
    let entry = open.entry.as_ref().map(|(id, _)| *id);
    let write = asked.decision(&answer, None, entry, open.change_set_id, moves).unwrap();
    let decision = DecisionWrite {
        gate: ask.gate,
        occurrence: ask.occurrence,
        sha256: answer.sha256(),
        payload_sha256: digest_of(&write).unwrap(),
        moves,
        actor: "mallory".into(),
    };
    block_on(ports.reviewer.record_decision(run_id, &decision)).unwrap();
}

#[test]
fn a_forged_decision_is_refused_by_name_and_the_gate_asks_anew() {
    for gate in Gate::ALL {
        for (what, forged) in [
            ("unsigned", None),
            ("of a stranger's key", Some("mallory")),
            ("of the operator's own key", Some("")),
        ] {
            let s = Scenario::new(5_700);
            let (run_id, ask) = parked(&s, gate);
            let text = s.answer(&ask, Approve);
            let document = match forged {
                None => text,
                Some("") => s.world.sign(&s.world.operator(), &text),
                Some(who) => s.world.sign(&s.world.person(who), &text),
            };
            forge(&s, &run_id, &ask, &document, Approve);
            let stop = stopped(&on_forged(&s, &run_id));
            assert_eq!(stop.code, "STOP_DRIFT_approvals", "{what}");
            let row = block_on(s.ports().reader.evidence(&run_id)).unwrap();
            let row = row.approvals.iter().find(|a| a.nonce == ask.required[field::NONCE]).unwrap();
            assert!(
                stop.detail
                    .iter()
                    .any(|d| d.contains(&row.approval_id.to_string()) && d.contains("approval.s")),
                "{what}: {:?}",
                stop.detail
            );
            assert!(
                stop.detail.iter().any(|d| d.contains("cutter orchestrate resume --run-id")),
                "{:?}",
                stop.detail
            );
            assert!(!is_done(&s, &run_id, gate), "{what}");
            // asked anew, and answered rightly, it goes on
            let again = asked(&on_forged(&s, &run_id));
            assert_eq!(again.occurrence, ask.occurrence + 1);
            s.sign(&again, Approve);
            assert_eq!(decided(&pass(&s)), [Approve], "{what}");
            let driven = on_forged(&s, &run_id);
            assert!(is_done(&s, &run_id, gate), "{what}: {:?}", driven.outcome);
        }
    }
}

fn on_forged(s: &Scenario, run_id: &RunId) -> Driven {
    s.resume(&cutting(s), run_id).unwrap()
}

#[test]
fn a_driver_with_the_reviewers_login_believes_a_forged_row_no_more() {
    let s = Scenario::new(5_750);
    let (run_id, ask) = s.parked(Gate::Cut);
    let document = s.world.sign(&s.world.person("mallory"), &s.answer(&ask, Approve));
    forge(&s, &run_id, &ask, &document, Approve);
    s.sign(&ask, Approve);
    assert_eq!(stopped(&on_forged_here(&s, &run_id)).code, "STOP_DRIFT_approvals");
    assert!(!is_done(&s, &run_id, Gate::Cut));
}

fn on_forged_here(s: &Scenario, run_id: &RunId) -> Driven {
    s.resume(&s.ports(), run_id).unwrap()
}

#[test]
fn what_the_stored_text_does_not_give_is_never_decided() {
    let s = Scenario::new(5_800);
    let (run_id, ask) = parked(&s, Gate::Cut);
    // The host that cuts asks about other rows, and shows them to the approver, who signs.
    let ports = s.ports();
    let stored = block_on(ports.reader.asks(&run_id)).unwrap().remove(0).asked;
    for (key, value) in [
        (field::ROWS_DIGEST, Digest::of(b"other rows").to_hex()),
        (field::WRITER_DIGEST, Digest::of(b"another plan").to_hex()),
        (field::SETTINGS_SHA256, Digest::of(b"other settings").to_hex()),
        (field::SOURCE_VERSION_ID, uuid::Uuid::from_u128(9).to_string()),
    ] {
        let mut lie = stored.clone();
        lie.ask.occurrence = block_on(ports.reader.asks(&run_id)).unwrap().len() as u32 + 1;
        lie.ask.required.insert(key.into(), value);
        lie.ask.required.insert(field::NONCE.into(), format!("nonce-{key}"));
        lie.ask.approval_path = ask.approval_path.replace(".md", &format!("-{key}.md"));
        let fence = block_on(ports.executor.take_fence(
            &run_id,
            &stored.ask.required["document_id"],
            uuid::Uuid::nil(),
        ));
        block_on(ports.executor.open_ask(&fence.unwrap(), &lie)).unwrap();
        s.sign(&lie.ask, Approve);
        let reviewed = pass(&s);
        assert_eq!(decided(&reviewed), [], "{key}");
        assert!(
            reviewed.iter().any(|r| matches!(&r.outcome, Became::Unfit(_) | Became::Missed(_))),
            "{key}: {reviewed:?}"
        );
    }
}

#[test]
fn who_may_not_answer_decides_nothing_by_the_other_host_either() {
    let s = Scenario::new(5_900);
    let (run_id, ask) = parked(&s, Gate::Cut);
    for (n, who) in ["mallory", "op"].into_iter().enumerate() {
        let text = s.answer(&ask, Approve).replace(&format!("actor: {SOVEREIGN}"), &format!("actor: {who}"));
        let key = if who == "op" { s.world.operator() } else { s.world.person(who) };
        let path = ask.approval_path.replace(".md", &format!("-{n}.md"));
        s.world.file(&path, s.world.sign(&key, &text).as_bytes());
    }
    let reviewed = pass(&s);
    assert_eq!(reviewed.len(), 2, "{reviewed:?}");
    assert!(reviewed.iter().all(|r| matches!(r.outcome, Became::Junk { .. })), "{reviewed:?}");
    assert_eq!(rows(&s, &run_id).0, 0);
    // said once, not in every pass
    let mut review = Review::new("rita".into());
    let ports = reviewing(&s, FaultPlan::default());
    assert_eq!(block_on(review.pass(&ports)).unwrap().len(), 2);
    for _ in 0..30 {
        assert_eq!(block_on(review.pass(&ports)).unwrap(), []);
    }
}

#[test]
fn a_stop_that_needs_a_decision_says_which_host_has_it() {
    let s = Scenario::new(5_950);
    let (run_id, _) = parked(&s, Gate::Cut);
    let stop = stopped(&s.stop(&run_id, "hold").unwrap());
    let ask = cutter_core::driver::ask_for_stop(
        &cutter_core::record::sidecar::Sidecar::from_bytes(&s.world.sidecar(&run_id).unwrap().bytes).unwrap(),
        &stop,
        cutter_core::report::naming::EscalationKind::Resume,
    );
    s.sign(&ask, Approve);
    let error = s.resume(&cutting(&s), &run_id).unwrap_err().to_string();
    assert!(error.contains("cutter_review") && error.contains("cutter why --run-id"), "{error}");
    assert_eq!(asked(&s.resumed(&run_id)).gate, GateId::CutAuthz, "the host that has it goes on");
}

proptest! {
    #[test]
    fn the_id_of_a_refusal_is_another_one_of_the_same_time(bits in any::<u128>()) {
        let id = uuid::Uuid::from_u128(bits);
        let other = refusal_id(id);
        prop_assert_ne!(id, other);
        prop_assert_eq!(&id.as_bytes()[..6], &other.as_bytes()[..6]);
        prop_assert_eq!(other.get_version_num(), 7);
        prop_assert_eq!(refusal_id(id), other);
    }
}
