//! The laws of spec 5 over random lives, each rule alone, and the agreement of the machines.

use std::collections::BTreeSet;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::model::{Model, RunStep, copy, manifest, mark, request, start, time, uuid, verdict};
use super::*;
use crate::machine::cut_request::{CUT_REQUEST, CutRequestStatus as S};
use crate::record::effect::EffectName;

fn follow_all(run: &RunCommitted) -> Operation {
    Operation::Follow { within: None, run: run.clone() }
}

fn cut(has_passed: Option<bool>) -> RunCommitted {
    RunCommitted { has_cut: true, has_passed, ..RunCommitted::default() }
}

fn ended() -> RunCommitted {
    RunCommitted { ended: Some("failed_IG_mark".to_string()), ..RunCommitted::default() }
}

/// A request that came to this status by the operations.
fn at(status: S) -> Model {
    let mut model = Model::new();
    let mut path = vec![copy(), mark("1"), verdict(MarkVerdict::Approved), start(7)];
    let keep = match status {
        S::Requested => 0,
        S::Copied => 1,
        S::Marked | S::MarkRejected | S::MarkInProgress => 2,
        S::MarkVerified => 3,
        _ => 4,
    };
    path.truncate(keep);
    match status {
        S::MarkRejected => path.push(verdict(MarkVerdict::Rejected)),
        S::CutDone => path.push(follow_all(&cut(None))),
        S::CutVerified => path.push(follow_all(&cut(Some(true)))),
        S::CutFailed => path.push(follow_all(&ended())),
        S::CleanupScheduled => {
            path.extend([follow_all(&cut(Some(true))), Operation::Complete { is_enacted: true }]);
        }
        S::Cleaned => path.extend([
            follow_all(&cut(Some(true))),
            Operation::Complete { is_enacted: true },
            Operation::Clean { now: time(1_000) },
        ]),
        S::MarkInProgress | S::Completed => {
            // Left in the transaction that entered it.
            model.request.status = status;
            return model;
        }
        _ => {}
    }
    for operation in &path {
        let judgement = model.ask(operation);
        assert!(matches!(judgement, Judgement::Apply(_)), "{operation:?}: {judgement:?}");
    }
    assert_eq!(model.request.status, status);
    model
}

fn every_operation() -> Vec<Operation> {
    let mut all = vec![
        copy(),
        mark("1"),
        mark("2"),
        verdict(MarkVerdict::Approved),
        verdict(MarkVerdict::Rejected),
        Operation::AskCut,
        Operation::AskVerifyCut,
        start(7),
        start(8),
        Operation::Complete { is_enacted: true },
        Operation::Clean { now: time(1_000) },
    ];
    for run in [cut(None), cut(Some(true)), cut(Some(false)), ended(), RunCommitted::default()] {
        for within in [None, Some(EffectName::LegA), Some(EffectName::WriteVerify), Some(EffectName::Void)] {
            all.push(Operation::Follow { within, run: run.clone() });
        }
    }
    all
}

#[test]
fn every_operation_makes_legal_moves_or_names_the_illegal_one_and_bears_repeating() {
    for &status in S::ALL {
        for operation in every_operation() {
            let mut model = at(status);
            match model.ask(&operation) {
                Judgement::Apply(moves) => {
                    for step in &moves {
                        assert_eq!(CUT_REQUEST.step(step.from, step.trigger), Ok(step.to));
                    }
                    // Inside a run's transaction it is asked once; the effect's own row answers later.
                    if let Operation::Follow { within: Some(_), .. } = operation {
                        continue;
                    }
                    let stands = model.request.clone();
                    let again = model.ask(&operation);
                    let may_ask = matches!(operation, Operation::AskCut | Operation::AskVerifyCut);
                    assert!(
                        again == Judgement::Replay || may_ask && moves.is_empty(),
                        "{status} {operation:?}: {again:?}"
                    );
                    assert_eq!(model.request, stands);
                }
                Judgement::Replay => {}
                Judgement::Refused(Refusal::Illegal(illegal)) => {
                    let text = illegal.to_string();
                    let expected = std::format!("illegal cut_request transition {status}->");
                    assert!(text.starts_with(&expected), "{text}");
                    let to: S = illegal.to.parse().expect("a status, as the database names it");
                    assert!(CUT_REQUEST.check(status, to).is_err());
                }
                Judgement::Refused(Refusal::Rules(checks)) => {
                    for check in checks {
                        assert!(RULES.iter().any(|rule| rule.id == check.invariant), "{}", check.invariant);
                    }
                }
            }
        }
    }
}

fn broken(judgement: Judgement) -> Vec<String> {
    match judgement {
        Judgement::Refused(Refusal::Rules(checks)) => checks.into_iter().map(|c| c.invariant).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_rule_alone_refuses() {
    let hash = Digest::of(b"another");
    let digest = Digest::of(b"1");
    let spoil = |change: fn(&mut ManifestFacts)| {
        let mut manifest = manifest(&digest);
        change(&mut manifest);
        Operation::Mark { manifest, manifest_digest: digest }
    };
    let unsaid = |verdict| Operation::VerifyMark { verdict, approval_doc_id: None, reason: Some(" ".into()) };
    let cases: Vec<(&str, S, Operation)> = vec![
        (
            "copy.source_hash",
            S::Requested,
            Operation::Copy { expected: Digest::of(b"x"), observed: hash, bytes: 3 },
        ),
        ("copy.size", S::Requested, Operation::Copy { expected: hash, observed: hash, bytes: u64::MAX }),
        ("mark.source_hash", S::Copied, spoil(|m| m.document_sha256 = Digest::of(b"y").to_hex())),
        ("mark.source_hash", S::Copied, spoil(|m| m.document_bytes += 1)),
        ("mark.partition", S::Copied, spoil(|m| m.units[1].0 += 1)),
        ("mark.manifest_digest", S::Copied, spoil(|m| m.manifest_digest.push('0'))),
        ("verify_mark.approval_doc", S::Marked, unsaid(MarkVerdict::Approved)),
        ("verify_mark.reason", S::Marked, unsaid(MarkVerdict::Rejected)),
        ("verify_mark.same_document", S::MarkVerified, unsaid(MarkVerdict::Approved)),
        ("cut.run_free", S::MarkVerified, Operation::CutStart { cut_run_id: uuid(9), is_free: false }),
        ("complete.enacted", S::CutVerified, Operation::Complete { is_enacted: false }),
        ("cleanup.due", S::CleanupScheduled, Operation::Clean { now: time(0) }),
    ];
    let mut seen: BTreeSet<&str> = cases.iter().map(|(rule, _, _)| *rule).collect();
    for (rule, status, operation) in cases {
        let mut model = at(status);
        let before = model.request.clone();
        assert_eq!(broken(model.ask(&operation)), [rule], "{operation:?}");
        assert_eq!(model.request, before);
    }
    let mut unapproved = at(S::MarkVerified);
    unapproved.request.mark_verdict = None;
    assert_eq!(broken(unapproved.ask(&start(7))), ["cut.mark_verified"]);
    assert_eq!(broken(unapproved.ask(&Operation::AskCut)), ["cut.mark_verified"]);
    let other = CutRequest { source_ref: "laws/b.md".into(), ..request() };
    assert_eq!(broken(judge_add(Some(&request()), &other)), ["add.same_request"]);
    let blank = CutRequest { requested_by: " ".into(), ..request() };
    assert_eq!(broken(judge_add(None, &blank)), ["add.source_ref"]);
    assert_eq!(judge_add(Some(&request()), &request()), Judgement::Replay);
    assert_eq!(judge_add(None, &request()), Judgement::Apply(Vec::new()));
    seen.extend(["cut.mark_verified", "add.same_request", "add.source_ref"]);
    let all: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(seen, all, "every rule has its case");
    assert_eq!(all.len(), RULES.len());
}

#[test]
fn a_run_is_followed_edge_by_edge_and_never_past_what_it_committed() {
    let path = |run: &RunCommitted| {
        let mut model = at(S::CutInProgress);
        model.ask(&follow_all(run));
        model.timeline.iter().skip(6).map(|s| s.as_str()).collect::<Vec<_>>().join(" ")
    };
    let voided = |run: RunCommitted| RunCommitted { is_voided: true, ..run };
    assert_eq!(path(&RunCommitted::default()), "");
    assert_eq!(path(&cut(None)), "cut_done");
    assert_eq!(path(&cut(Some(true))), "cut_done cut_verified");
    assert_eq!(path(&cut(Some(false))), "cut_done cut_failed");
    assert_eq!(path(&ended()), "cut_failed");
    assert_eq!(path(&voided(RunCommitted::default())), "cut_failed");
    assert_eq!(path(&voided(cut(None))), "cut_done cut_failed");
    assert_eq!(path(&voided(cut(Some(true)))), "cut_done cut_verified", "a verdict stands");
}

#[test]
fn what_a_run_commits_must_have_its_place() {
    for status in [S::CutFailed, S::Cleaned, S::CutVerified] {
        let mut model = at(status);
        let run = cut(None);
        let refused = model.ask(&Operation::Follow { within: Some(EffectName::LegA), run: run.clone() });
        assert!(matches!(refused, Judgement::Refused(Refusal::Illegal(_))), "{status}: {refused:?}");
        assert_eq!(model.ask(&Operation::Follow { within: Some(EffectName::Void), run }), Judgement::Replay);
    }
}

#[test]
fn each_disagreement_is_named() {
    type Spoiler = (&'static str, S, fn(&mut Standing));
    let spoilers: Vec<Spoiler> = vec![
        ("consistency.run_named", S::CutDone, |s| s.names_run = false),
        ("consistency.approved", S::CutDone, |s| s.mark_verdict = None),
        ("consistency.cut_done", S::CutDone, |s| {
            s.entry = Some(crate::machine::backlog::BacklogState::Marked)
        }),
        ("consistency.cut_verified", S::CutVerified, |s| s.has_passed = Some(false)),
        ("consistency.cut_failed", S::CutFailed, |s| s.has_passed = Some(true)),
        ("consistency.followed", S::CutInProgress, |s| s.has_cut = true),
        ("consistency.completed", S::Cleaned, |s| s.is_enacted = false),
        ("consistency.run_stage", S::CutInProgress, |s| {
            s.stage = Some(crate::machine::run::Stage::CutLegACommitted);
        }),
    ];
    use crate::machine::backlog::BacklogState as B;
    let clean = |status: S| {
        let model = at(status);
        let is_verified = matches!(status, S::CutVerified | S::Cleaned);
        let has_cut = is_verified || status == S::CutDone;
        Standing {
            entry: Some(if is_verified { B::VerifiedComplete } else { B::CutApplied }),
            has_cut,
            has_passed: is_verified.then_some(true),
            is_enacted: is_verified,
            ..model.standing()
        }
    };
    let failed = |standing: &Standing| -> Vec<String> {
        consistency(standing).into_iter().filter(|c| !c.ok).map(|c| c.invariant).collect()
    };
    for (rule, status, spoil) in &spoilers {
        let mut standing = clean(*status);
        assert_eq!(failed(&standing), [""; 0], "{status}");
        spoil(&mut standing);
        assert_eq!(failed(&standing), [*rule], "{status}");
    }
    let ids: Vec<&str> = spoilers.iter().map(|(rule, _, _)| *rule).collect();
    let rules: Vec<&str> = CONSISTENCY_RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(ids, rules, "every rule has its spoiler, in order");
    let judged: Vec<String> = consistency(&clean(S::CutDone)).into_iter().map(|c| c.invariant).collect();
    assert_eq!(judged, rules, "every rule is judged, in order");
}

#[test]
fn signals_fit_the_statuses_that_give_them() {
    for &status in S::ALL {
        if let Some(name) = SignalName::of(status) {
            assert!(name.statuses().contains(&status), "{name} of {status}");
        }
        assert!(!CUT_REQUEST.is_terminal(status) || SignalName::of(status).is_none());
    }
    for name in SignalName::ALL {
        assert!(!name.statuses().is_empty());
    }
}

#[derive(Debug, Clone)]
enum Act {
    Ask(Operation),
    Run(RunStep),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let asked = prop::sample::select(vec![
        copy(),
        mark("1"),
        mark("2"),
        verdict(MarkVerdict::Approved),
        verdict(MarkVerdict::Rejected),
        start(7),
        Operation::AskCut,
        Operation::AskVerifyCut,
    ]);
    let steps = prop::sample::select(vec![
        RunStep::LegA,
        RunStep::Verify(true),
        RunStep::Verify(false),
        RunStep::Void,
        RunStep::Enact,
        RunStep::Record,
        RunStep::Ended,
        RunStep::CatchUp,
        RunStep::AbandonEntry,
    ]);
    // Complete and clean look at the model's own state.
    let late = prop::sample::select(vec![
        Operation::Complete { is_enacted: false },
        Operation::Clean { now: time(0) },
    ]);
    let act = prop_oneof![6 => asked.prop_map(Act::Ask), 4 => steps.prop_map(Act::Run), 2 => late.prop_map(Act::Ask)];
    prop::collection::vec(act, 0..60)
}

fn play(model: &mut Model, act: Act) {
    match act {
        Act::Ask(Operation::Complete { .. }) => {
            let is_enacted = model.is_enacted;
            model.ask(&Operation::Complete { is_enacted });
        }
        Act::Ask(Operation::Clean { .. }) => {
            let now = time(model.now);
            model.ask(&Operation::Clean { now });
        }
        // The run that this request names is the one that begins with it.
        Act::Ask(start @ Operation::CutStart { .. }) => {
            if let Judgement::Apply(_) = model.ask(&start) {
                model.step(RunStep::CatchUp);
            }
        }
        Act::Ask(operation) => {
            model.ask(&operation);
        }
        Act::Run(step) => model.step(step),
    }
}

proptest! {
    #[test]
    fn the_machines_agree_after_every_step_of_every_interleaving(acts in acts()) {
        let mut model = Model::new();
        for act in acts {
            play(&mut model, act.clone());
            prop_assert!(model.broken().is_empty(), "{act:?}: {:?}", model.broken());
            for pair in model.timeline.windows(2) {
                prop_assert!(CUT_REQUEST.check(pair[0], pair[1]).is_ok(), "{pair:?}");
            }
            prop_assert_eq!(model.timeline.last(), Some(&model.request.status));
        }
    }
}

#[test]
fn every_status_is_reached_by_some_interleaving() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reached = BTreeSet::new();
    for _ in 0..4_000 {
        let acts = acts().new_tree(&mut runner).unwrap().current();
        let mut model = Model::new();
        for act in acts {
            play(&mut model, act);
        }
        reached.extend(model.timeline.iter().copied());
    }
    // The right order once, since chance seldom hands anything over.
    let mut model = at(S::CutInProgress);
    for step in [RunStep::LegA, RunStep::Record, RunStep::Verify(true), RunStep::Enact, RunStep::Record] {
        model.step(step);
        assert!(model.broken().is_empty(), "{step:?}: {:?}", model.broken());
    }
    for _ in 0..20 {
        play(&mut model, Act::Ask(Operation::Complete { is_enacted: false }));
        play(&mut model, Act::Ask(Operation::Clean { now: time(0) }));
    }
    reached.extend(model.timeline.iter().copied());
    assert_eq!(reached.len(), S::ALL.len(), "{reached:?}");
}

#[test]
fn what_a_run_cuts_is_compared_thing_by_thing() {
    let (source, manifest_digest) = (Digest::of(b"text"), Digest::of(b"manifest"));
    let asked = CutRequest { source_hash: Some(source), manifest_digest: Some(manifest_digest), ..request() };
    let run = RunText { document_id: "LAW".into(), source, manifest_digest };
    let wrong = |request: &CutRequest, staged: Option<&str>, run: &RunText| -> Vec<String> {
        let checks = same_text(request, staged, run).into_iter().filter(|check| !check.ok);
        checks.map(|check| check.invariant).collect()
    };
    assert_eq!(wrong(&asked, Some("LAW"), &run), Vec::<String>::new());
    assert_eq!(wrong(&asked, None, &run), Vec::<String>::new());
    assert_eq!(wrong(&asked, Some("ANOTHER"), &run), ["cut.document_id"]);
    let other = Digest::of(b"another");
    assert_eq!(wrong(&asked, None, &RunText { source: other, ..run.clone() }), ["cut.source_hash"]);
    assert_eq!(
        wrong(&asked, None, &RunText { manifest_digest: other, ..run.clone() }),
        ["cut.manifest_digest"]
    );
    let unmarked = CutRequest { source_hash: None, manifest_digest: None, ..asked };
    assert_eq!(wrong(&unmarked, None, &run), ["cut.source_hash", "cut.manifest_digest"]);
}
