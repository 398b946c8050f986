//! The judgements over a run's evidence: a clean run passes every check; each spoilt fact
//! fails the check that is named after it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use cutter_core::base::canonical::{Appended, Settled};
use cutter_core::base::digest::Digest;
use cutter_core::driver::{Outcome, Ports, policy_of};
use cutter_core::machine::run::GateId;
use cutter_core::operate::inspect::recover::unknown_to;
use cutter_core::operate::inspect::verify::{self, Approvals, Found, Taken};
use cutter_core::operate::inspect::{Summary, why};
use cutter_core::port::run_store::LockHolder;
use cutter_core::record::approval::{Approver, Ask};
use cutter_core::record::ask::{AnswerWrite, AskWrite, StoredAnswer, StoredAsk};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::evidence::{RunEvidence, StoredApproval};
use cutter_core::record::policy::{self, Chain};
use cutter_core::record::sidecar::{Mode, Sidecar, TransitionRecord};
use cutter_core::record::signature::SignatureFacts;
use cutter_tests::Scenario;
use cutter_tests::look::{Facts, gather, judge};
use cutter_tests::refusal::Gate;
use futures_executor::block_on;
use jiff::SignedDuration;

fn failing(facts: &Facts) -> BTreeSet<String> {
    judge(facts, &[]).into_iter().filter(|c| !c.ok).map(|c| c.invariant).collect()
}

fn finished() -> (Ports, Facts) {
    let scenario = Scenario::new(7);
    let driven = scenario.whole_run().unwrap();
    assert_eq!(driven.outcome, Outcome::Completed);
    let ports = scenario.ports();
    let facts = gather(&ports, &driven.sidecar);
    (ports, facts)
}

type Spoiler = (&'static str, fn(&mut Facts));

fn damage(list: &mut Appended<TransitionRecord>, how: impl FnOnce(&mut Vec<TransitionRecord>)) {
    let mut values = list.to_vec();
    how(&mut values);
    *list = values.into();
}

const SPOILERS: &[Spoiler] = &[
    ("verify.record.digest_and_chain", |f| {
        damage(&mut f.record.sidecar.transitions, |links| links[2].actor = "x".into());
    }),
    ("verify.record.revision", |f| f.record.revision += 1),
    ("verify.record.transitions_legal", |f| {
        damage(&mut f.record.sidecar.transitions, |links| {
            links.remove(3);
        });
    }),
    ("verify.record.history_only_grows", |f| f.record.history[4].1[1].actor = "x".into()),
    ("verify.record.revisions_readable", |f| f.record.unreadable.push((3, "torn".into()))),
    ("verify.creation.signature", |f| {
        f.record.creation = SignatureFacts::Bad { code: "bad_signature".into(), detail: String::new() };
    }),
    ("verify.creation.settings_sha256", |f| {
        let mut settings = (*f.record.sidecar.settings).clone();
        settings.max_candidates += 1;
        f.record.sidecar.settings = Settled::new(settings).unwrap();
    }),
    ("verify.creation.created_by", |f| f.record.sidecar.created_by = "x".into()),
    ("verify.index.line", |f| f.line = None),
    ("verify.approvals.each_used_once", |f| {
        let first = f.approvals[0].clone();
        f.approvals.push(first);
    }),
    ("verify.approval.SG_cut_authz.1.unedited", |f| f.approvals[0].found = Found::Bytes(Digest::of(b"x"))),
    ("verify.approval.SG_cut_authz.1.signature", |f| f.approvals[0].signature = None),
    ("verify.approval.SG_cut_authz.1.signer_pinned", |f| f.claims.policy.approvers.clear()),
    ("verify.approval.SG_cut_authz.1.not_the_creator", |f| {
        f.claims.creator = Some(f.approvals[0].record.fingerprint.clone());
    }),
    ("verify.approval.SG_cut_authz.1.request_unedited", |f| f.approvals[0].request = None),
    ("verify.approval.SG_lifecycle_authz.1.stored", |f| f.database.evidence.approvals.clear()),
    ("verify.effect.leg_a", |f| {
        f.database.evidence.effects.retain(|e| e.key.effect.as_str() != "leg_a");
    }),
    ("verify.signature.executor.genuine", |f| {
        f.database.evidence.signatures.iter_mut().for_each(|s| s.payload.push(' '));
    }),
    ("verify.signature.verifier_covers_executor", |f| {
        let executor = f.database.evidence.signatures.iter_mut().find(|s| s.duty == "executor");
        executor.unwrap().signature = "00".repeat(64);
    }),
    ("verify.signature.executor.key_pinned", |f| {
        f.database.public_keys.insert("executor".into(), "00".repeat(32));
    }),
    ("verify.source.sha256", |f| f.database.source = Some(b"x".to_vec())),
    ("verify.source.region_sha", |f| f.database.source = None),
    ("verify.units.count", |f| {
        f.database.units.pop();
    }),
    ("verify.units.content_hash", |f| f.database.units[1].content = Some(b"x".to_vec())),
    ("verify.units.readable", |f| f.database.units[1].content = None),
    ("verify.units.rejoin_to_region", |f| f.database.units.swap(0, 1)),
    ("verify.units.tile_the_region", |f| f.database.units[1].start += 1),
    ("verify.units.set_digest", |f| f.database.units[1].canonical_address.push_str("~9")),
    ("verify.units.one_change_set", |f| f.database.units[0].change_set_id = f.database.units[0].unit_id),
    ("verify.units.all_enacted", |f| f.database.units[0].lifecycle_status = "draft".into()),
    ("verify.units.enacted_log_rows", |f| f.database.evidence.enacted_log_rows -= 1),
    ("verify.verify_result.once_and_passed", |f| {
        let first = f.database.evidence.verify_results[0];
        f.database.evidence.verify_results.push(first);
    }),
    ("verify.backlog.status", |f| f.database.evidence.entry_status = None),
    ("verify.backlog.history_whole", |f| f.database.evidence.history[1].0 = "x".into()),
    ("verify.change_set.voided", |f| f.database.evidence.voided = true),
    ("verify.approval.SG_cut_authz.there", |f| f.claims.approvals.clear()),
    ("verify.approval.SG_lifecycle_authz.there", |f| f.claims.approvals.truncate(1)),
    ("verify.approval.SG_cut_authz.1.unedited", |f| {
        f.approvals[0].found = Found::Unreadable("a folder".into())
    }),
    ("verify.approval.SG_cut_authz.1.signature", |f| {
        f.approvals[0].record.fingerprint.clear();
        f.approvals[0].signature = Some(SignatureFacts::Unsigned { text: String::new() });
    }),
    ("verify.units.rows_digest.SG_cut_authz", |f| f.database.rows_digest = Some(Digest::of(b"x"))),
    ("verify.units.rows_digest.SG_lifecycle_authz", |f| f.database.rows_digest = None),
    ("verify.units.writer_digest", |f| f.database.units[0].unit_kind = "x".into()),
    ("verify.record.newest", |f| f.record.sidecar.documents = Vec::new().into()),
    ("verify.record.newest", |f| f.record.sidecar.sovereign_approvals.clear()),
    ("verify.documents.one_for_each_phase", |f| f.paths.retain(|p| !p.contains("/02-mark"))),
    ("verify.documents.no_strays", |f| f.paths.push("knowledge/12-forged.md".into())),
    ("verify.documents.one_per_passed_phase", |f| {
        f.record.sidecar.phases.get_mut("mark").unwrap().kb_doc_id = None;
    }),
];

#[test]
fn a_clean_run_passes_and_each_spoilt_fact_is_found_by_name() {
    let (_, clean) = finished();
    assert_eq!(failing(&clean), BTreeSet::new());
    for (name, spoil) in SPOILERS {
        let mut spoilt = clean.clone();
        spoil(&mut spoilt);
        let found = failing(&spoilt);
        assert!(found.contains(*name), "{name} was not found: {found:?}");
    }
}

#[test]
fn every_document_is_looked_at() {
    let (_, clean) = finished();
    assert_eq!(clean.documents.len(), 13);
    for n in 0..clean.documents.len() {
        let mut spoilt = clean.clone();
        spoilt.documents[n].found = if n % 2 == 0 { Found::Absent } else { Found::Bytes(Digest::of(b"x")) };
        let name = clean.documents[n].path.rsplit('/').next().unwrap().to_owned();
        assert_eq!(failing(&spoilt), BTreeSet::from([format!("verify.document.{name}")]));
    }
}

/// A record after which nothing happened may be used; any earlier one may not, unless its
/// open intent finds again what was done.
#[test]
fn an_old_record_is_refused_once_something_happened_after_it() {
    let scenario = Scenario::new(8);
    let driven = scenario.whole_run().unwrap();
    let (ports, run) = (scenario.ports(), driven.sidecar.run_id.clone());
    let evidence = block_on(ports.reader.evidence(&run)).unwrap();
    let paths = block_on(ports.kb.list(driven.sidecar.kb_folder.as_deref().unwrap())).unwrap();
    assert_eq!(unknown_to(&driven.sidecar, &evidence, &paths), Vec::<String>::new());
    let newest = block_on(ports.runs.load(&run)).unwrap().unwrap().revision;
    let mut usable = 0;
    for n in 1..newest {
        let old = block_on(ports.runs.load_revision(&run, n)).unwrap().unwrap();
        let old = Sidecar::from_bytes(&old.bytes).unwrap();
        if unknown_to(&old, &evidence, &paths).is_empty() {
            usable += 1;
            assert!(n + 3 > newest, "revision {n} of {newest} ({}) is too old", old.state);
        }
    }
    assert!(usable >= 1, "the one before the last is always enough");
}

#[test]
fn why_and_summary_say_what_is_missing_at_every_rest() {
    let scenario = Scenario::new(9);
    let ports = scenario.ports();
    let parked = scenario.cut(&ports).unwrap();
    let summary = Summary::of(&parked.sidecar, "here");
    let gate = summary.paused_at.as_ref().unwrap();
    assert_eq!(gate.gate, GateId::CutAuthz);
    assert_eq!(summary.phase.as_deref(), Some("cut_leg_a"));
    let answer = why(&parked.sidecar, None, None);
    assert!(answer.condition.contains("SG_cut_authz"), "{answer:?}");
    assert!(answer.next[1].starts_with("cutter sovereign approve --run-id ictr-"), "{answer:?}");
    let holder = LockHolder {
        holder: parked.sidecar.run_id.uuid(),
        host: "h".into(),
        pid: 42,
        since: "2026-01-01T00:00:00Z".into(),
        command: "orchestrate resume".into(),
    };
    let answer = why(&parked.sidecar, Some(&holder), None);
    assert!(answer.condition.contains("process 42 on h"), "{answer:?}");
    assert!(answer.next.iter().any(|n| n.ends_with("--take-over")), "{answer:?}");

    let driven = scenario.stop(&parked.sidecar.run_id, "under review").unwrap();
    let summary = Summary::of(&driven.sidecar, "here");
    assert_eq!(summary.stop.as_ref().unwrap().code, "STOP_SOVEREIGN");
    assert!(summary.stop.unwrap().next.ends_with("--for resume"));
    let answer = why(&driven.sidecar, None, None);
    assert!(answer.condition.contains("signed word"), "{answer:?}");
    assert!(answer.next.last().unwrap().contains("orchestrate resume"), "{answer:?}");
}

/// A run at rest, with everything that a checker reads of it.
fn at_rest(what: &str) -> Facts {
    let scenario = Scenario::new(10);
    let gate = if what.ends_with("lifecycle") { Gate::Lifecycle } else { Gate::Cut };
    let run_id = match what {
        "finished" => scenario.whole_run().unwrap().sidecar.run_id,
        "rehearsed" => scenario.cut_mode(&scenario.ports(), Mode::Dryrun).unwrap().sidecar.run_id,
        _ => {
            let (run_id, ask) = scenario.parked(gate);
            if what.starts_with("voided") {
                scenario.void_signed(&run_id);
            } else if what.starts_with("refused") {
                scenario.sign(&ask, ReviewVerdict::Reject);
                scenario.resumed(&run_id);
            } else if what.starts_with("stopped") {
                scenario.stop(&run_id, "under review").unwrap();
            }
            run_id
        }
    };
    let mut facts = gather(&scenario.ports(), &scenario.stored(&run_id));
    // on the model's clock all of a void happens at once: `rows` has one where time passes
    let has_times = !what.starts_with("voided");
    facts.database.rows = has_times.then(|| scenario.world.run_rows(&run_id));
    facts
}

const RESTS: [&str; 10] = [
    "parked at cut",
    "stopped at cut",
    "refused at cut",
    "voided at cut",
    "parked at lifecycle",
    "stopped at lifecycle",
    "refused at lifecycle",
    "voided at lifecycle",
    "finished",
    "rehearsed",
];

/// Each rest asks for what must be there by then, and for no more.
#[test]
fn what_is_checked_at_each_rest_is_told_and_holds() {
    let mut told = String::new();
    for what in RESTS {
        let facts = at_rest(what);
        let checks = judge(&facts, &[]);
        let wrong: Vec<_> = checks.iter().filter(|check| !check.ok).collect();
        assert!(wrong.is_empty(), "{what}: {wrong:#?}");
        let names: BTreeSet<&str> = checks.iter().map(|check| check.invariant.as_str()).collect();
        // what is named by a date is told by its kind
        let names = names.iter().map(|name| name.split("-202").next().unwrap_or(name));
        told += &format!("{what}\n{}", names.map(|name| format!("    {name}\n")).collect::<String>());
    }
    holds("verify_checks.txt", &told);
}

fn holds(name: &str, observed: &str) {
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    if std::env::var_os("SNAPSHOTS").is_some_and(|what| what == "overwrite") {
        std::fs::write(&path, observed).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (observed, expected) in observed.lines().zip(expected.lines()) {
        assert_eq!(observed, expected, "SNAPSHOTS=overwrite writes {} anew", path.display());
    }
    assert_eq!(observed.lines().count(), expected.lines().count());
}

/// Of an answer that nobody here can judge it is said why, and it is neither good nor bad.
#[test]
fn an_answer_that_cannot_be_judged_here_is_not_checked() {
    let clean = at_rest("finished");
    let of = |code: &str, keys: &Approvals| {
        let mut facts = clean.clone();
        facts.approvals[0].signature =
            Some(SignatureFacts::Bad { code: code.into(), detail: "since yesterday".into() });
        let (checks, open) =
            verify::approvals(&facts.claims, &facts.approvals, &facts.database.evidence, keys);
        (checks.iter().filter(|c| !c.ok).count(), open.iter().map(|o| o.item.clone()).collect::<Vec<_>>())
    };
    let item = vec!["verify.approval.SG_cut_authz.1.signature".to_owned()];
    let keys = |has_keys, undated| Approvals { brought: Vec::new(), has_keys, undated };
    for (code, keys, failed, open) in [
        ("unknown_key", keys(false, false), 0, &item),
        ("unknown_key", keys(true, false), 1, &Vec::new()),
        ("expired_key", keys(true, true), 0, &item),
        ("signature_expired", keys(true, true), 0, &item),
        ("expired_key", keys(true, false), 1, &Vec::new()),
        ("bad_signature", keys(false, true), 1, &Vec::new()),
    ] {
        assert_eq!(of(code, &keys), (failed, open.clone()), "{code}");
    }
    // the creator is known from the run's record alone
    let mut facts = clean.clone();
    facts.claims.creator = None;
    let (_, open) =
        verify::approvals(&facts.claims, &facts.approvals, &facts.database.evidence, &keys(true, false));
    assert_eq!(open.len(), 2);
    assert!(open.iter().all(|o| o.item.ends_with(".not_the_creator")), "{open:?}");
}

/// Keys that were brought along are the only ones that count.
#[test]
fn answers_are_judged_by_the_keys_that_were_brought_along() {
    let facts = at_rest("finished");
    let own = facts.approvals[0].record.fingerprint.clone();
    let failed = |facts: &Facts, keys: &[String]| -> BTreeSet<String> {
        judge(facts, keys).into_iter().filter(|c| !c.ok).map(|c| c.invariant).collect()
    };
    assert_eq!(failed(&facts, &[own.to_lowercase()]), BTreeSet::new());
    let gates = ["SG_cut_authz", "SG_lifecycle_authz"];
    let named = |what: &str| gates.map(|gate| format!("verify.approval.{gate}.1.{what}")).into();
    assert_eq!(failed(&facts, &["0".repeat(40)]), named("signer_brought"));
    // without any policy they are the policy
    let mut nobody = facts.clone();
    nobody.claims.policy.approvers.clear();
    assert_eq!(failed(&nobody, &[own]), BTreeSet::new());
    assert_eq!(failed(&nobody, &[]), named("signer_pinned"));
    // the key that created the run may be another one of the same person
    let mut same = facts.clone();
    let fingerprint = facts.claims.creator.clone().unwrap();
    same.claims.policy.known.push(Approver { actor: "ada".into(), fingerprint });
    assert_eq!(failed(&same, &[]), named("not_the_creator"));
}

/// What each approval says of itself must be what the run recorded of it.
#[test]
fn each_field_of_an_answer_is_compared() {
    let clean = at_rest("finished");
    for name in ["decision", "run_id", "document_id", "gate", "actor", "request_sha256"] {
        let mut facts = clean.clone();
        if let Some(SignatureFacts::Good { text, .. }) = &mut facts.approvals[0].signature {
            *text = text.replacen(&format!("\n{name}: "), &format!("\n{name}: x"), 1);
        }
        let expected = format!("verify.approval.SG_cut_authz.1.{name}");
        assert!(failing(&facts).contains(&expected), "{name}: {:?}", failing(&facts));
    }
    let said = verify::allowed(&clean.claims.policy, &clean.approvals, &judge(&clean, &[]), None);
    let of = |a: &verify::Allowed| (a.gate, a.decision, a.actor.clone(), a.signed_at.is_some());
    let by = |gate: GateId| (gate, ReviewVerdict::Approve, "ada".to_owned(), true);
    assert_eq!(said.iter().map(of).collect::<Vec<_>>(), [by(GateId::CutAuthz), by(GateId::LifecycleAuthz)]);
    let mut spoilt = clean.clone();
    spoilt.approvals[0].found = Found::Absent;
    let said = verify::allowed(&spoilt.claims.policy, &spoilt.approvals, &judge(&spoilt, &[]), None);
    assert_eq!(said.iter().map(of).collect::<Vec<_>>(), [by(GateId::LifecycleAuthz)]);
}

/// Whoever answered is judged by the policy that stood when the database took the answer.
#[test]
fn answers_are_judged_by_the_policy_of_then() {
    let scenario = Scenario::new(11);
    scenario.world.advance(60_000);
    let driven = scenario.whole_run().unwrap();
    let ports = scenario.ports();
    let facts = gather(&ports, &driven.sidecar);
    let chain = || block_on(policy_of(ports.reader.as_ref(), ports.signatures.as_ref())).unwrap();
    let mut evidence = facts.database.evidence.clone();
    let taken = scenario.world.now();
    evidence.approvals.iter_mut().for_each(|a| a.recorded_at = Some(taken));
    let stood = |evidence: &RunEvidence, chain: &Chain| {
        let checks = verify::consumed_standing(chain, evidence, &[]);
        (checks.iter().filter(|c| c.ok).count(), checks.iter().filter(|c| !c.ok).count())
    };
    assert_eq!(stood(&evidence, &chain()), (2, 0));
    type Change = fn(&mut StoredApproval);
    let spoilt: [(Change, (usize, usize)); 6] = [
        (|a| a.actor = "mallory".into(), (1, 1)),
        (|a| a.fingerprint = "0".repeat(40), (1, 1)),
        (|a| a.fingerprint.clear(), (1, 0)),
        (|a| a.used_by = None, (1, 0)),
        (|a| a.recorded_at = None, (1, 0)),
        (|a| a.recorded_at = Some(jiff::Timestamp::UNIX_EPOCH), (1, 0)),
    ];
    for (n, (spoil, expected)) in spoilt.into_iter().enumerate() {
        let mut evidence = evidence.clone();
        spoil(&mut evidence.approvals[0]);
        assert_eq!(stood(&evidence, &chain()), expected, "{n}");
    }
    let id = |gate: &str| format!("verify.approval.{gate}.1.key_stood");
    let judged = |evidence: &RunEvidence, chain: &Chain| {
        let (checks, open) = verify::standing(chain, Some(&Taken::of(evidence, &[])), &facts.approvals);
        let names = |ok: bool| checks.iter().filter(|c| c.ok == ok).map(|c| c.invariant.clone()).collect();
        (names(true), names(false), open.into_iter().map(|o| o.item).collect())
    };
    type Judged = (Vec<String>, Vec<String>, Vec<String>);
    let both = vec![id("SG_cut_authz"), id("SG_lifecycle_authz")];
    let expected: Judged = (both.clone(), vec![], vec![]);
    assert_eq!(judged(&evidence, &chain()), expected);
    // without the database nothing dates an answer, nor where it did not keep the time
    let (checks, open) = verify::standing(&chain(), None, &facts.approvals);
    assert_eq!((checks.len(), open.len()), (0, 2));
    let mut undated = evidence.clone();
    undated.approvals.iter_mut().for_each(|a| a.recorded_at = None);
    let expected: Judged = (vec![], vec![], both.clone());
    assert_eq!(judged(&undated, &chain()), expected);
    // a key that somebody else has had since before is no longer believed; one since later is
    let fingerprint = facts.approvals[0].record.fingerprint.clone();
    scenario.world.advance(60_000);
    let later = taken + SignedDuration::from_secs(1);
    scenario.change_policy(vec![policy::Change::KeyCompromised {
        since: later,
        fingerprint: fingerprint.clone(),
    }]);
    assert_eq!(stood(&evidence, &chain()), (2, 0));
    let (_, open) = verify::standing(&chain(), Some(&Taken::of(&undated, &[])), &facts.approvals);
    assert!(
        open.iter().all(|o| o.why.contains("is compromised since") && !o.to_check.is_empty()),
        "{open:?}"
    );
    for answer in &mut evidence.approvals {
        answer.recorded_at = Some(later);
    }
    assert_eq!(stood(&evidence, &chain()), (0, 2));
    // heard before it was stored: it dates from then, to everybody who judges it
    let heard_at = |at| StoredAsk {
        asked: stored_ask(&facts),
        closed: true,
        answers: evidence.approvals.iter().map(|a| heard(a, at)).collect(),
    };
    let early = [heard_at(taken)];
    assert!(verify::consumed_standing(&chain(), &evidence, &early).iter().all(|check| check.ok));
    let (checks, _) = verify::standing(&chain(), Some(&Taken::of(&evidence, &early)), &facts.approvals);
    assert!(checks.len() == 2 && checks.iter().all(|check| check.ok), "{checks:?}");
    let expected: Judged = (vec![], both, vec![]);
    assert_eq!(judged(&evidence, &chain()), expected);
}

/// An ask, for the answers to it.
fn stored_ask(facts: &Facts) -> AskWrite {
    let ask = Ask {
        gate: GateId::CutAuthz,
        occurrence: 1,
        approval_type: "cut_authorization".into(),
        required: std::collections::BTreeMap::new(),
        expected_actor: None,
        approval_path: String::new(),
        request_path: String::new(),
    };
    let at = facts.approvals[0].record.validated_utc;
    AskWrite { ask, ids: std::collections::BTreeMap::new(), policy_head: None, at, begun: None }
}

fn heard(stored: &StoredApproval, at: jiff::Timestamp) -> StoredAnswer {
    let answer = AnswerWrite {
        gate: GateId::CutAuthz,
        occurrence: 1,
        decision: stored.decision,
        approval_kb_id: stored.approval_kb_id.clone(),
        document: stored.document.clone(),
        fingerprint: stored.fingerprint.clone(),
        actor: stored.actor.clone(),
    };
    StoredAnswer { answer, late: false, recorded_at: Some(at) }
}

/// Each gate that was passed must have been opened by somebody, whichever source says that it was passed.
#[test]
fn a_passed_gate_needs_its_approval_whoever_says_that_it_was_passed() {
    let there = |gate: &str| format!("verify.approval.{gate}.there");
    let asked = |facts: &Facts| -> BTreeSet<String> {
        failing(facts).into_iter().filter(|name| name.ends_with(".there")).collect()
    };
    for (what, gates) in [
        ("parked at cut", &[][..]),
        ("parked at lifecycle", &["SG_cut_authz"]),
        ("finished", &["SG_cut_authz", "SG_lifecycle_authz"]),
        ("voided at lifecycle", &["SG_cut_authz", "SG_failure_escalation"]),
        ("rehearsed", &[]),
    ] {
        let expected: BTreeSet<String> = gates.iter().map(|gate| there(gate)).collect();
        let mut facts = at_rest(what);
        facts.claims.approvals.clear();
        assert_eq!(asked(&facts), expected, "{what}: by all");
        let mut by_record = facts.clone();
        by_record.database.evidence.effects.clear();
        assert_eq!(asked(&by_record), expected, "{what}: by the record");
        facts.claims.passed.clear();
        (facts.claims.stage, facts.claims.enacted, facts.claims.voided) = (None, false, false);
        assert_eq!(asked(&facts), expected, "{what}: by the rows");
    }
}
