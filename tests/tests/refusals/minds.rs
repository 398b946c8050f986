//! Changed minds: up to four answers to one ask, in every order, before and after parking, and while the
//! transaction that relies on one is open. What they allow is done exactly if nobody refused in time,
//! whatever the documents are called, and every valid answer is kept.

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{Outcome, Ports};
use cutter_core::machine::run::GateId;
use cutter_core::operate::review::{Review, ReviewPorts};
use cutter_core::record::approval::{Ask, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::effect::ReviewVerdict::{Approve, Defer, Reject};
use cutter_core::report::naming::EscalationKind;
use cutter_core::testing::memory::{MemoryPorts, block_on};
use cutter_tests::refusal::{Gate, Meanwhile, asked, stopped};
use cutter_tests::{SOVEREIGN, Scenario};

/// Names that a person might choose; byte order is none that matters.
const NAMES: [&str; 4] = ["-2026-05-20", "-2-2026-05-20", "-3-", "-withdrawn"];

fn orders(longest: usize) -> Vec<Vec<ReviewVerdict>> {
    let mut all: Vec<Vec<ReviewVerdict>> = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        last = last
            .iter()
            .flat_map(|o| [Approve, Reject, Defer].map(|v| [o.clone(), vec![v]].concat()))
            .collect();
        all.extend(last.clone());
    }
    all.retain(|order| !order.is_empty());
    all
}

/// A signed answer under the nth name.
fn answer(s: &Scenario, ask: &Ask, n: usize, verdict: ReviewVerdict) -> (String, String) {
    let (stem, _) = ask.approval_path.split_once("-approval").unwrap();
    let extra = BTreeMap::from([("reason".to_owned(), format!("answer {n}"))]);
    let text = render_approval(ask, verdict, SOVEREIGN, s.world.now(), None, &extra);
    let document = s.world.sign(&s.world.person(SOVEREIGN), &text);
    (format!("{stem}-approval{}.md", NAMES[n]), document)
}

fn file(s: &Scenario, ask: &Ask, n: usize, verdict: ReviewVerdict) -> Digest {
    let (path, document) = answer(s, ask, n, verdict);
    s.world.file(&path, document.as_bytes());
    Digest::of(document.as_bytes())
}

fn answers(s: &Scenario, run_id: &RunId, gate: GateId) -> Vec<(Digest, bool)> {
    let asks = block_on(s.ports().reader.asks(run_id)).unwrap();
    let at_gate = asks.into_iter().filter(|ask| ask.asked.ask.gate == gate);
    at_gate.flat_map(|ask| ask.answers).map(|a| (a.answer.sha256(), a.late)).collect()
}

fn relied_on(s: &Scenario, run_id: &RunId, gate: Gate) -> bool {
    let used = s.rows_of("approval_use");
    let effect = if gate == Gate::Cut { "leg_a" } else { "enact" };
    used.iter().any(|u| u["run_id"] == run_id.as_str() && u["used_by"]["effect"] == effect)
}

/// What must be true of a run that was driven on once all of `order` had been heard.
fn check(s: &Scenario, run_id: &RunId, gate: Gate, ask: &Ask, order: &[ReviewVerdict], kept: &[Digest]) {
    let refused = order.iter().any(|v| *v != Approve);
    assert_eq!(relied_on(s, run_id, gate), !refused, "{order:?}");
    let stored = answers(s, run_id, ask.gate);
    for sha256 in kept {
        assert!(
            stored.iter().any(|(found, late)| found == sha256 && !late),
            "{order:?}: {sha256} is not kept"
        );
    }
    if refused {
        assert_eq!(s.stored(run_id).state, "stopped_refused", "{order:?}");
        let last = s.stored(run_id).sovereign_approvals.last().unwrap().decision;
        let first = if order.contains(&Reject) { Reject } else { Defer };
        assert_eq!(last, first, "{order:?}: no outweighs not now");
    }
}

#[test]
fn before_it_is_resumed_in_every_order_at_both_gates() {
    for gate in [Gate::Cut, Gate::Lifecycle] {
        for (i, order) in orders(3).iter().enumerate() {
            let s = Scenario::new(3_000 + i as u64);
            let (run_id, ask) = s.parked(gate);
            let kept: Vec<Digest> = order.iter().enumerate().map(|(n, v)| file(&s, &ask, n, *v)).collect();
            let _ = s.resumed(&run_id);
            check(&s, &run_id, gate, &ask, order, &kept);
        }
    }
}

#[test]
fn an_approval_that_is_named_does_not_pass_over_a_refusal() {
    for gate in [Gate::Cut, Gate::Lifecycle] {
        let s = Scenario::new(3_200);
        let (run_id, ask) = s.parked(gate);
        s.sign(&ask, Approve);
        let _ = file(&s, &ask, 3, Reject);
        let driven = s.resume_with(&run_id, &ask.approval_path).unwrap();
        assert_eq!(stopped(&driven).code, "STOP_REFUSED");
        assert!(!relied_on(&s, &run_id, gate));
    }
}

/// A refusal that comes at any moment: heard, if the run's transaction had not looked for the last
/// time; else the approval is relied on, and the refusal is told as late or left for the reader.
#[test]
fn while_the_run_goes_on_a_refusal_is_heard_until_the_last_look() {
    for gate in [Gate::Cut, Gate::Lifecycle] {
        for verdict in [Reject, Defer] {
            let mut heard = Vec::new();
            for at in 1..40 {
                let s = Scenario::new(3_300);
                let (run_id, ask) = s.parked(gate);
                s.sign(&ask, Approve);
                let mut ports: Ports = s.ports();
                ports.kb = Meanwhile::before(&s.world, &ports, at, answer(&s, &ask, 3, verdict));
                let driven = s.resume(&ports, &run_id).unwrap();
                let refused =
                    matches!(&driven.outcome, Outcome::Stopped(stop) if stop.code == "STOP_REFUSED");
                assert_eq!(
                    relied_on(&s, &run_id, gate),
                    !refused,
                    "{verdict:?} at call {at}: {:?}",
                    driven.outcome
                );
                heard.push(refused);
                if refused {
                    let entry = s.rows_of("decision_backlog_entry")[0]["status"].clone();
                    let wanted: &[&str] = match gate {
                        Gate::Cut => &["reviewed_deferred", "reviewed_rejected"],
                        Gate::Lifecycle => &["verified_complete"],
                    };
                    assert!(wanted.contains(&entry.as_str().unwrap()), "{entry}");
                    assert_eq!(answers(&s, &run_id, ask.gate).iter().filter(|(_, late)| !late).count(), 2);
                } else if gate == Gate::Cut && heard.iter().filter(|refused| !**refused).count() <= 3 {
                    kept_as_late(&s, &run_id, &ask, verdict);
                }
            }
            let last = heard.iter().rposition(|refused| *refused).expect("some are heard");
            assert!(last > 2, "not only what stood there before: {heard:?}");
            assert!(
                heard[..=last].iter().all(|refused| *refused),
                "heard up to a moment, and never after: {heard:?}"
            );
        }
    }
}

/// The run is closed: the refusal that came late is stored as that, the final report names it, and the
/// approval is what the run relied on.
fn kept_as_late(s: &Scenario, run_id: &RunId, ask: &Ask, verdict: ReviewVerdict) {
    // filed by now, whenever that was
    let sha256 = file(s, ask, 3, verdict);
    let open = s.stored(run_id).ask.clone().unwrap();
    s.sign(&open, Approve);
    let driven = s.resumed(run_id);
    assert_eq!(driven.outcome, Outcome::Completed);
    assert!(answers(s, run_id, ask.gate).contains(&(sha256, true)), "{:?}", answers(s, run_id, ask.gate));
    let report = s.stored(run_id).documents.last().unwrap().path.clone();
    let report = block_on(s.ports().kb.read(&report)).unwrap().unwrap();
    let report = String::from_utf8(report.bytes).unwrap();
    let line = format!("{} {} by {SOVEREIGN}, which came late: ", ask.gate, verdict.as_str());
    assert!(report.contains(&line), "{report}");
}

#[test]
fn a_stored_refusal_counts_although_its_document_is_gone() {
    for gate in [Gate::Cut, Gate::Lifecycle] {
        let s = Scenario::new(3_400);
        let (run_id, ask) = s.parked(gate);
        let (path, document) = answer(&s, &ask, 3, Reject);
        let answer = cutter_core::record::ask::AnswerWrite {
            gate: ask.gate,
            occurrence: ask.occurrence,
            decision: Reject,
            approval_kb_id: path,
            document,
            fingerprint: String::new(),
            actor: SOVEREIGN.to_owned(),
        };
        block_on(s.ports().reviewer.unwrap().record_answers(&run_id, &[answer])).unwrap();
        s.sign(&ask, Approve);
        assert_eq!(stopped(&s.resumed(&run_id)).code, "STOP_REFUSED");
        assert!(!relied_on(&s, &run_id, gate));
    }
}

fn stopped_over_a_refusal_that_nobody_signed(s: &Scenario, run_id: &RunId, gate: Gate, ask: &Ask) {
    let answer = cutter_core::record::ask::AnswerWrite {
        gate: ask.gate,
        occurrence: ask.occurrence,
        decision: Reject,
        approval_kb_id: "nowhere.md".to_owned(),
        document: s.answer(ask, Reject),
        fingerprint: s.world.person(SOVEREIGN),
        actor: SOVEREIGN.to_owned(),
    };
    block_on(s.ports().reviewer.unwrap().record_answers(run_id, &[answer])).unwrap();
    s.sign(ask, Approve);
    let stop = stopped(&s.resumed(run_id));
    assert_eq!(stop.code, "STOP_APPROVAL_CHANGED", "{:?}", stop.detail);
    assert!(stop.detail[0].contains("nowhere.md"), "{:?}", stop.detail);
    assert!(!relied_on(s, run_id, gate));
}

/// A stop that takes a signature closes no ask either.
#[test]
fn a_refusal_that_comes_while_a_stop_is_answered_counts() {
    for gate in Gate::ALL {
        for verdict in [Reject, Defer] {
            let s = Scenario::new(3_750);
            let (run_id, ask) = s.parked(gate);
            stopped_over_a_refusal_that_nobody_signed(&s, &run_id, gate, &ask);
            let refusal = file(&s, &ask, 1, verdict);
            let _ = s.answer_stop(&run_id, EscalationKind::Resume, &[]);
            let driven = s.resumed(&run_id);
            assert_eq!(stopped(&driven).code, "STOP_REFUSED", "{gate:?} {verdict:?}");
            assert!(!relied_on(&s, &run_id, gate));
            let stored = answers(&s, &run_id, ask.gate);
            assert!(stored.iter().any(|(sha256, _)| *sha256 == refusal), "{gate:?} {verdict:?}");
        }
    }
}

/// A refusal that somebody stored, and nobody signed, holds the run up until a person has looked, and not
/// for good.
#[test]
fn a_stored_refusal_that_nobody_signed_is_asked_about_anew() {
    for gate in [Gate::Cut, Gate::Lifecycle] {
        let s = Scenario::new(3_450);
        let (run_id, ask) = s.parked(gate);
        stopped_over_a_refusal_that_nobody_signed(&s, &run_id, gate, &ask);
        let _ = s.answer_stop(&run_id, EscalationKind::Resume, &[]);
        let anew = asked(&s.resumed(&run_id));
        assert_eq!((anew.gate.as_str(), anew.occurrence), (ask.gate.as_str(), 2));
        s.sign(&anew, Approve);
        let _ = s.finish(&run_id);
    }
}

#[test]
fn what_cannot_be_read_or_is_no_answer_blocks_nobody() {
    let s = Scenario::new(3_500);
    let (run_id, ask) = s.parked(Gate::Cut);
    for n in 0..40 {
        let path = ask.approval_path.replace(".md", &format!("-{n}.md"));
        s.world.file(&path, &[0xff, 0xfe, n]);
    }
    s.sign(&ask, Approve);
    let driven = s.resumed(&run_id);
    assert!(relied_on(&s, &run_id, Gate::Cut), "{:?}", driven.outcome);
    assert!(s.stored(&run_id).considered.len() <= 20);
}

/// Drift closes no ask: until the gate asks anew, a refusal of what was asked is carried out, whether it
/// was there before or came meanwhile.
#[test]
fn a_refusal_that_comes_while_the_run_stands_stopped_counts() {
    for (gate, verdict, is_first) in Gate::ALL
        .into_iter()
        .flat_map(|gate| [Reject, Defer].map(|verdict| (gate, verdict)))
        .flat_map(|(gate, verdict)| [true, false].map(|is_first| (gate, verdict, is_first)))
    {
        let case = format!("{gate:?} {verdict:?} {is_first}");
        let s = Scenario::new(3_700);
        let (run_id, ask) = s.parked(gate);
        let before = is_first.then(|| file(&s, &ask, 1, verdict));
        if !is_first {
            let _ = file(&s, &ask, 0, Approve);
        }
        s.register("# Another text\n\n## Article 1\n\nNewer.\n");
        assert!(stopped(&s.resumed(&run_id)).code.starts_with("STOP_DRIFT"), "{case}");
        let refusal = before.unwrap_or_else(|| file(&s, &ask, 1, verdict));
        let driven = s.resumed(&run_id);
        assert_eq!(stopped(&driven).code, "STOP_REFUSED", "{case}");
        assert!(!relied_on(&s, &run_id, gate), "{case}");
        assert!(answers(&s, &run_id, ask.gate).contains(&(refusal, false)), "{case}");
    }
}

/// Whoever says no to going on from a stop is named; a later yes overtakes a not now, and no no.
#[test]
fn at_a_stop_a_later_yes_overtakes_a_not_now_and_no_no() {
    for (verdict, goes_on) in [(Defer, true), (Reject, false)] {
        let s = Scenario::new(3_800);
        let (run_id, ask) = s.parked(Gate::Cut);
        stopped_over_a_refusal_that_nobody_signed(&s, &run_id, Gate::Cut, &ask);
        let first = s.answer_stop_with(&run_id, EscalationKind::Resume, verdict, &[]);
        let refused = block_on(s.ports().kb.read(&first.approval_path)).unwrap().unwrap();
        s.world.file(&first.approval_path.replace(".md", "-no.md"), &refused.bytes);
        assert!(matches!(s.resumed(&run_id).outcome, Outcome::Stopped(_)));
        let considered = s.stored(&run_id).considered;
        let said = format!("{} by {SOVEREIGN}", verdict.as_str());
        assert!(considered.iter().any(|c| c.detail.starts_with(&said)), "{considered:?}");
        s.world.advance(60_000);
        let _ = s.answer_stop_with(&run_id, EscalationKind::Resume, Approve, &[("reason", "after all")]);
        let driven = s.resumed(&run_id);
        assert_eq!(
            matches!(driven.outcome, Outcome::Paused { .. }),
            goes_on,
            "{verdict:?}: {:?}",
            driven.outcome
        );
    }
}

/// A refusal that the host which cuts heard while its transaction was open counts, although the other host's
/// decision is an approval and the document is gone.
#[test]
fn a_refusal_that_was_heard_at_the_last_moment_outlives_its_document() {
    for gate in Gate::ALL {
        let mut heard = 0;
        for at in 1..40 {
            let s = Scenario::new(3_500);
            let (run_id, ask) = s.parked(gate);
            s.sign(&ask, Approve);
            let MemoryPorts { reader, reviewer, kb, signatures, .. } = s.world.process().ports();
            let reviewing = ReviewPorts { reader, reviewer, kb, signatures };
            block_on(Review::new("rita".into()).pass(&reviewing)).unwrap();
            let no = answer(&s, &ask, 3, Reject);
            let mut cutting = Ports { reviewer: None, ..s.ports() };
            cutting.kb = Meanwhile::before(&s.world, &cutting, at, no.clone());
            s.resume(&cutting, &run_id).unwrap();
            let refused = s.stored(&run_id).sovereign_approvals.iter().any(|a| a.decision == Reject);
            assert!(!(refused && relied_on(&s, &run_id, gate)), "{gate:?} at call {at}");
            if refused {
                heard += 1;
                s.world.drop_document(&no.0);
                for _ in 0..2 {
                    s.resume(&Ports { reviewer: None, ..s.ports() }, &run_id).unwrap();
                    assert!(!relied_on(&s, &run_id, gate), "{gate:?} at call {at}");
                }
            }
        }
        assert!(heard > 0, "{gate:?}");
    }
}
