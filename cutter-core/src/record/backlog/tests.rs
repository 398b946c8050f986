//! The laws of spec 3 over random lives, each forbidden move, and each rule alone.

use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use uuid::Uuid;

use super::model::{EXECUTOR, Model, VERIFIER, manifest, review, uuid, verify};
use super::*;
use crate::machine::backlog::{BACKLOG, BacklogState as S};

const DECISION: u64 = 1_000;
const SET: u64 = 2_000;
const VERDICT: u64 = 3_000;

/// One entry at a state that can be committed.
fn at(state: S) -> (Model, Uuid) {
    let mut model = Model::default();
    let id = model.mark(None, &[]);
    let approve = review(uuid(DECISION), ReviewVerdict::Approve);
    let cut = Operation::Cut { change_set_id: uuid(SET), review_decision_id: uuid(DECISION) };
    let leg_b = Operation::RecordLegB { envelope_id: uuid(SET + 1), change_set_id: uuid(SET) };
    let mut path = vec![Operation::Sweep];
    match state {
        S::Marked => path.clear(),
        S::ReviewPending => {}
        S::ReviewedApproved => path.push(approve),
        S::ReviewedDeferred => path.push(review(uuid(DECISION), ReviewVerdict::Defer)),
        S::ReviewedRejected => path.push(review(uuid(DECISION), ReviewVerdict::Reject)),
        S::CutApplied => path.extend([approve, cut, leg_b]),
        S::VerifiedComplete => path.extend([approve, cut, leg_b, verify(VERDICT, uuid(SET), true)]),
        S::VerifyFailedEscalated => path.extend([approve, cut, leg_b, verify(VERDICT, uuid(SET), false)]),
        S::Abandoned => path = vec![Operation::Abandon { reason: "no".to_string() }],
        S::CutInProgress | S::VerifyInProgress => panic!("never committed"),
    }
    for operation in &path {
        let judgement = model.ask(id, operation);
        assert!(matches!(judgement, Judgement::Apply(_)), "{judgement:?}");
    }
    assert_eq!(model.entries[&id].status, state);
    (model, id)
}

fn illegal(entry: &Entry, operation: &Operation) -> String {
    match judge(entry, operation) {
        Judgement::Refused(Refusal::Illegal(illegal)) => illegal.to_string(),
        other => panic!("{}: {operation:?}: {other:?}", entry.status),
    }
}

fn broken(judgement: Judgement) -> Vec<String> {
    match judgement {
        Judgement::Refused(Refusal::Rules(checks)) => checks.into_iter().map(|c| c.invariant).collect(),
        other => panic!("{other:?}"),
    }
}

fn fresh_cut() -> Operation {
    Operation::Cut { change_set_id: uuid(SET + 50), review_decision_id: uuid(DECISION + 50) }
}

#[test]
fn forbidden_moves_are_refused_by_the_table_with_its_message() {
    // F-1, F-2 and F-7: what is over stays over.
    for state in [S::ReviewedRejected, S::VerifiedComplete, S::VerifyFailedEscalated, S::Abandoned] {
        let (model, id) = at(state);
        let entry = model.read(id);
        let legal = if state == S::Abandoned { "" } else { "abandoned" };
        for operation in [Operation::Sweep, fresh_cut(), review(uuid(9_000), ReviewVerdict::Defer)] {
            let message = illegal(&entry, &operation);
            assert!(message.starts_with(&std::format!("illegal backlog transition {state}->")), "{message}");
            assert!(message.ends_with(&std::format!("(legal={legal})")), "{message}");
        }
    }
    // F-3 and F-8: no cut but from S2. F-4: no verification but from S6.
    for &state in S::ALL.iter().filter(|s| s.is_committable()) {
        let (model, id) = at(state);
        let entry = model.read(id);
        if state != S::ReviewedApproved {
            assert!(illegal(&entry, &fresh_cut()).contains("->cut_in_progress "));
        }
        if state != S::CutApplied {
            assert!(
                illegal(&entry, &verify(VERDICT + 50, uuid(SET + 50), true))
                    .contains("->verify_in_progress ")
            );
        }
        // F-6: no operation leads to S0.
        for operation in every_operation() {
            if let Judgement::Apply(moves) = judge(&entry, &operation) {
                assert!(moves.iter().all(|step| step.to != S::Marked), "{operation:?}");
            }
        }
    }
}

fn every_operation() -> Vec<Operation> {
    let mut all = vec![
        Operation::Sweep,
        Operation::Requeue,
        fresh_cut(),
        Operation::Cut { change_set_id: uuid(SET), review_decision_id: uuid(DECISION) },
        Operation::RecordLegB { envelope_id: uuid(SET + 1), change_set_id: uuid(SET) },
        verify(VERDICT, uuid(SET), true),
        verify(VERDICT, uuid(SET), false),
        Operation::Abandon { reason: "given up".to_string() },
    ];
    for verdict in [ReviewVerdict::Approve, ReviewVerdict::Defer, ReviewVerdict::Reject] {
        all.push(review(uuid(DECISION + 7), verdict));
    }
    all
}

#[test]
fn f5_a_second_cut_needs_a_new_decision() {
    let (mut model, id) = at(S::CutApplied);
    let again = Operation::Cut { change_set_id: uuid(SET + 9), review_decision_id: uuid(DECISION) };
    let standing = Judgement::Replay(Some(uuid(SET)));
    assert_eq!(judge(&model.read(id), &again), standing, "a replay gives what stands");
    // Voided, it is not cut again on the same decision, wherever the entry is.
    let entry = model.entries.get_mut(&id).unwrap();
    entry.change_sets[0].is_live = false;
    assert!(illegal(&model.read(id), &again).contains("cut_applied->cut_in_progress"));
    let entry = model.entries.get_mut(&id).unwrap();
    entry.status = S::ReviewedApproved;
    assert_eq!(broken(judge(&model.read(id), &again)), ["G-CUT-ONCE"]);
}

#[test]
fn each_rule_is_refused_alone() {
    let mut seen = Vec::new();
    let mut expect = |judgement: Judgement, id: &'static str| {
        assert_eq!(broken(judgement), [id]);
        seen.push(id);
    };
    let (model, id) = at(S::ReviewedApproved);
    let entry = model.read(id);
    let cut = Operation::Cut { change_set_id: uuid(SET), review_decision_id: uuid(DECISION) };
    assert!(matches!(judge(&entry, &cut), Judgement::Apply(_)));
    let mut superseded = entry.clone();
    superseded.decisions.push(Decision { id: uuid(77), verdict: ReviewVerdict::Approve, has_consent: true });
    expect(judge(&superseded, &cut), "G-CUT-APPROVED");
    let mut unsigned = entry.clone();
    unsigned.decisions[0].has_consent = false;
    expect(judge(&unsigned, &cut), "G-CUT-APPROVED");
    for status in [None, Some(S::CutApplied), Some(S::VerifyFailedEscalated)] {
        let mut waiting = entry.clone();
        waiting.depends_on = vec![Dependency { entry_id: uuid(5), status }];
        expect(judge(&waiting, &cut), "G-CUT-DEPS");
        waiting.depends_on[0].status = Some(S::VerifiedComplete);
        assert!(matches!(judge(&waiting, &cut), Judgement::Apply(_)));
    }
    let mut voided = entry.clone();
    voided.change_sets.push(ChangeSet {
        change_set_id: uuid(8),
        review_decision_id: uuid(DECISION),
        is_live: false,
        envelope_id: None,
        verdict: None,
    });
    expect(judge(&voided, &cut), "G-CUT-ONCE");

    let (model, id) = at(S::CutApplied);
    let entry = model.read(id);
    let pass = verify(VERDICT, uuid(SET), true);
    let spoil = |change: fn(&mut Entry)| {
        let mut entry = entry.clone();
        change(&mut entry);
        entry
    };
    assert!(matches!(judge(&entry, &pass), Judgement::Apply(_)));
    expect(judge(&spoil(|e| e.change_sets.clear()), &pass), "G-VERIFY-CUT");
    expect(judge(&spoil(|e| e.change_sets[0].is_live = false), &pass), "G-VERIFY-CUT");
    expect(judge(&spoil(|e| e.change_sets[0].envelope_id = None), &pass), "G-VERIFY-CUT");
    expect(judge(&spoil(|e| e.signatures.clear()), &pass), "G-VERIFY-CUT");
    expect(judge(&spoil(|e| e.signatures[0].principal = VERIFIER.to_string()), &pass), "G-VERIFY-SOD");
    let second = Operation::RecordLegB { envelope_id: uuid(99), change_set_id: uuid(SET) };
    expect(judge(&entry, &second), "G-LEG-B-ONCE");
    let mut half = verify(VERDICT, uuid(SET), false);
    if let Operation::Verify { escalation_entry_id, .. } = &mut half {
        *escalation_entry_id = None;
    }
    expect(judge(&entry, &half), "verify.failure_complete");
    let (model, id) = at(S::VerifyFailedEscalated);
    expect(judge(&model.read(id), &pass), "G-VERIFY-ONCE");

    let (mut model, id) = at(S::ReviewPending);
    let entry = model.read(id);
    let other = Operation::Review {
        decision_id: uuid(1),
        verdict: ReviewVerdict::Defer,
        manifest_digest: Digest::of(b"another"),
        has_consent: true,
    };
    expect(judge(&entry, &other), "review.manifest");
    let bare = Operation::Review {
        decision_id: uuid(1),
        verdict: ReviewVerdict::Approve,
        manifest_digest: manifest(),
        has_consent: false,
    };
    expect(judge(&entry, &bare), "review.consent");
    model.ask(id, &review(uuid(DECISION), ReviewVerdict::Defer));
    expect(judge(&model.read(id), &review(uuid(DECISION), ReviewVerdict::Approve)), "review.decision_new");
    expect(judge(&entry, &Operation::Requeue), "requeue.escalation");
    let escalation = model.mark(Some(id), &[]);
    expect(judge(&model.read(escalation), &Operation::Sweep), "sweep.no_escalation");
    assert!(matches!(judge(&model.read(escalation), &Operation::Requeue), Judgement::Apply(_)));
    expect(judge(&entry, &Operation::Abandon { reason: "  ".to_string() }), "abandon.reason");

    let mark = |manifest_digest, depends_on| Mark {
        entry_id: uuid(1),
        idempotency_key: Digest::of(b"k"),
        manifest_digest,
        depends_on,
    };
    expect(judge_mark(Some(&entry), &mark(Digest::of(b"another"), Vec::new())), "mark.same_content");
    for wrong in [
        Dependency { entry_id: uuid(1), status: Some(S::Marked) },
        Dependency { entry_id: uuid(2), status: None },
    ] {
        expect(judge_mark(None, &mark(manifest(), vec![wrong])), "mark.depends_on");
    }
    seen.sort_unstable();
    seen.dedup();
    let mut rules: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    rules.sort_unstable();
    assert_eq!(seen, rules, "every rule has a case that it alone refuses");
}

#[test]
fn an_abandoned_entry_gives_its_key_back() {
    let (model, id) = at(S::Abandoned);
    let entry = model.read(id);
    let mark = Mark {
        entry_id: uuid(500),
        idempotency_key: entry.idempotency_key,
        manifest_digest: manifest(),
        depends_on: Vec::new(),
    };
    assert_eq!(judge_mark(Some(&entry), &mark), Judgement::Apply(Vec::new()));
}

#[test]
fn another_verdict_names_both() {
    let (model, id) = at(S::VerifiedComplete);
    let other = judge(&model.read(id), &verify(VERDICT + 1, uuid(SET), false));
    let Judgement::Refused(Refusal::Rules(checks)) = other else { panic!("{other:?}") };
    assert_eq!((checks[0].expected.as_str(), checks[0].observed.as_str()), ("pass", "fail"));
}

#[test]
fn what_an_entry_depends_on_is_the_same_in_any_order() {
    let (model, id) = at(S::Marked);
    let on = |n: u64| Dependency { entry_id: uuid(n), status: Some(S::Marked) };
    let entry = Entry { depends_on: vec![on(600), on(601)], ..model.read(id) };
    let mark = |depends_on| Mark {
        entry_id: uuid(500),
        idempotency_key: entry.idempotency_key,
        manifest_digest: entry.manifest_digest,
        depends_on,
    };
    for same in [vec![on(600), on(601)], vec![on(601), on(600)], vec![on(601), on(600), on(601)]] {
        assert_eq!(judge_mark(Some(&entry), &mark(same)), Judgement::Replay(Some(id)));
    }
    for other in [vec![on(600)], vec![on(600), on(602)], Vec::new()] {
        assert_eq!(broken(judge_mark(Some(&entry), &mark(other))), ["mark.same_content"]);
    }
}

#[test]
fn the_audit_finds_each_damage() {
    type Damage = fn(&mut Entry);
    let damages: [(S, Damage, &str); 14] = [
        (S::CutApplied, |e| e.status = S::VerifiedComplete, "audit.state"),
        (S::CutApplied, |e| drop(e.history.pop()), "audit.state"),
        (S::CutApplied, |e| drop(e.history.remove(1)), "audit.trail"),
        (
            S::CutApplied,
            |e| e.history.push(HistoryRow { history_id: uuid(1 << 40), ..e.history[1].clone() }),
            "audit.trail",
        ),
        (S::CutApplied, |e| e.history[2].to_state = S::CutApplied, "audit.trail"),
        (S::CutApplied, |e| e.history.clear(), "audit.trail"),
        (S::CutApplied, |e| e.signatures.clear(), "audit.state"),
        (S::CutApplied, |e| e.promotions = 0, "audit.sweeps"),
        (S::CutApplied, |e| e.change_sets.clear(), "audit.cut"),
        (S::ReviewedApproved, |e| e.decisions.clear(), "audit.decisions"),
        (S::ReviewedDeferred, |e| e.decisions.clear(), "audit.decisions"),
        (S::ReviewedRejected, |e| e.decisions.clear(), "audit.decisions"),
        (
            S::VerifyFailedEscalated,
            |e| e.change_sets[0].verdict.as_mut().unwrap().compensating_id = None,
            "audit.verdict",
        ),
        (S::VerifiedComplete, |e| e.signatures[1].principal = EXECUTOR.to_string(), "audit.principals"),
    ];
    for (state, damage, id) in damages {
        let (model, entry) = at(state);
        let mut entry = model.read(entry);
        assert!(audit(&entry).ok());
        damage(&mut entry);
        let report = audit(&entry);
        let failed: Vec<&str> =
            report.checks.iter().filter(|c| !c.ok).map(|c| c.invariant.as_str()).collect();
        assert!(failed.contains(&id), "{id}: {failed:?}");
    }
    let (model, id) = at(S::Abandoned);
    let mut entry = model.read(id);
    entry.history[1].reason.clear();
    let report = audit(&entry);
    assert_eq!(
        report.checks.iter().map(|c| c.invariant.as_str()).collect::<Vec<_>>().len(),
        AUDIT_RULES.len()
    );
    assert!(
        report
            .checks
            .iter()
            .zip(AUDIT_RULES)
            .all(|(c, r)| c.invariant == r.id && c.ok == (r.id != "audit.reason"))
    );
}

#[test]
fn the_audit_names_each_odd_cut() {
    type Damage = fn(&mut Entry);
    let damages: [(Damage, &str); 6] = [
        (|e| e.change_sets.clear(), ": no change set"),
        (|e| e.decisions[0].has_consent = false, ": no approval"),
        (|e| e.decisions[0].verdict = ReviewVerdict::Defer, ": no approval"),
        (|e| e.change_sets[0].review_decision_id = uuid(1), ": no approval"),
        (|e| e.change_sets.push(ChangeSet { is_live: false, ..e.change_sets[0].clone() }), "was cut twice"),
        (
            |e| {
                let set = ChangeSet {
                    change_set_id: uuid(SET + 9),
                    review_decision_id: uuid(1),
                    ..e.change_sets[0].clone()
                };
                e.change_sets.push(set);
            },
            "has no move",
        ),
    ];
    for (damage, text) in damages {
        let (model, entry) = at(S::CutApplied);
        let mut entry = model.read(entry);
        damage(&mut entry);
        let report = audit(&entry);
        let found = report.checks.iter().find(|c| c.invariant == "audit.cut").unwrap();
        assert!(!found.ok && found.observed.contains(text), "{text}: {found:?}");
        let others = [": no change set", ": no approval", "was cut twice", "has no move"];
        for other in others.into_iter().filter(|other| *other != text) {
            assert!(!found.observed.contains(other), "{text} alone: {found:?}");
        }
    }
}

fn operations() -> impl Strategy<Value = (usize, u8, u64)> {
    (0..4_usize, 0..12_u8, 0..4_u64)
}

proptest! {
    /// Random operations on four entries, one of which depends on another; failures spawn more.
    #[test]
    fn every_life_is_legal_idempotent_and_rebuilt_from_its_records(
        picks in prop::collection::vec(operations(), 0..90),
        shuffle in any::<u64>(),
    ) {
        let mut model = Model::default();
        let first = model.mark(None, &[]);
        let mut ids = vec![first, model.mark(None, &[first]), model.mark(None, &[]), model.mark(None, &[])];
        for (which, what, n) in picks {
            let id = ids[which % ids.len()];
            let entry = model.read(id);
            let (fresh, decision) = (model.id(), entry.decisions.last().map_or(uuid(1), |d| d.id));
            let set = entry.change_sets.last().map_or(uuid(2), |s| s.change_set_id);
            let operation = match what {
                0 | 1 => Operation::Sweep,
                2 => Operation::Requeue,
                3..=5 => review(fresh, [ReviewVerdict::Approve, ReviewVerdict::Approve, ReviewVerdict::Defer,
                    ReviewVerdict::Reject][n as usize]),
                6 | 7 => Operation::Cut { change_set_id: fresh, review_decision_id: decision },
                8 => Operation::RecordLegB { envelope_id: fresh, change_set_id: set },
                9 | 10 => {
                    let escalation = (n == 0).then(|| uuid(1_000_000 + model.ids));
                    Operation::Verify { verify_result_id: fresh, change_set_id: set,
                        principal: if n == 3 { EXECUTOR } else { VERIFIER }.to_string(), has_passed: n != 0,
                        compensating_id: escalation.map(|_| uuid(2_000_000 + model.ids)),
                        escalation_entry_id: escalation }
                }
                _ => Operation::Abandon { reason: if n == 0 { "given up" } else { "" }.to_string() },
            };
            let before = model.clone();
            let judgement = model.ask(id, &operation);
            match &judgement {
                Judgement::Apply(moves) => {
                    for step in moves {
                        prop_assert!(BACKLOG.check(step.from, step.to).is_ok());
                        prop_assert!(step.to != S::CutInProgress || step.from == S::ReviewedApproved);
                    }
                    prop_assert!(model.entries[&id].status.is_committable());
                    // Asked again, it stands.
                    let after = model.clone();
                    let again = model.ask(id, &operation);
                    prop_assert!(matches!(again, Judgement::Replay(_)), "{:?}: {:?}", operation, again);
                    prop_assert_eq!(&model.entries, &after.entries);
                    if model.entries[&id].status == S::VerifyFailedEscalated && entry.status == S::CutApplied {
                        ids.push(model.mark(Some(id), &[]));
                    }
                }
                Judgement::Replay(_) | Judgement::Refused(_) => prop_assert_eq!(&before.entries, &model.entries),
            }
        }
        for &id in &ids {
            let mut entry = model.read(id);
            let report = audit(&entry);
            prop_assert!(report.ok(), "{:?}", report);
            // In whatever order the rows come, they say the same.
            let n = entry.history.len();
            entry.history.rotate_left((shuffle % n as u64) as usize);
            entry.history.swap(0, n - 1);
            prop_assert_eq!(replay(&entry.history, &entry.signatures).ok(), Some(entry.status));
            // One row less or one twice is never the same life.
            let at = (shuffle % n as u64) as usize;
            let mut less = entry.history.clone();
            let row = less.remove(at);
            prop_assert_ne!(replay(&less, &entry.signatures).ok(), Some(entry.status));
            let mut more = entry.history.clone();
            more.push(row);
            prop_assert_ne!(replay(&more, &entry.signatures).ok(), Some(entry.status));
            if entry.status == S::VerifiedComplete {
                let dependency = entry.depends_on.iter().all(|d| d.status == Some(S::VerifiedComplete)
                    || d.status == Some(S::Abandoned));
                prop_assert!(dependency, "G-CUT-DEPS held when it was cut");
            }
        }
    }
}

#[test]
fn every_trigger_leads_to_one_state() {
    for row in BACKLOG.rows() {
        assert!(BACKLOG.rows().iter().all(|r| r.trigger != row.trigger || r.to == row.to), "{}", row.trigger);
    }
}

#[test]
fn refusals_say_what_was_expected() {
    let (model, id) = at(S::ReviewPending);
    let operation = Operation::Abandon { reason: String::new() };
    let Judgement::Refused(refusal) = judge(&model.read(id), &operation) else { panic!() };
    assert_eq!(refusal.to_string(), "abandon.reason: expected true, observed false");
}
