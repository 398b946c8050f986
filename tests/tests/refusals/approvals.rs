//! Approvals that are not accepted at SG_1 and SG_2, each with the invariant that it broke; and
//! those that are, although they came early.

use cutter_core::machine::run::GateId;
use cutter_core::port::Port;
use std::collections::BTreeMap;
use std::sync::Arc;

use cutter_core::driver::{DriveError, Outcome};
use cutter_core::port::environment::IdSource;
use cutter_core::record::approval::{Ask, SignaturePolicy, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::policy::Change;
use cutter_core::testing::memory::{BadSignature, Fault, FaultKind, FaultPlan, When};
use cutter_tests::refusal::{Gate, asked};
use cutter_tests::{SOVEREIGN, Scenario};
use uuid::Uuid;

type Forge = fn(&Scenario, &Ask) -> String;

/// An approval that is refused at a gate: found by itself, then named. Nothing is written,
/// the run stays parked, the verdict is kept, and a good answer still goes through.
fn refused_at(gate: Gate, forge: Forge, invariant: &str) {
    let s = Scenario::new(11);
    let (run_id, ask) = s.parked(gate);
    let document = forge(&s, &ask);
    let path = ask.approval_path.replace(".md", "-x.md");
    s.world.file(&path, document.as_bytes());
    let before = s.rows();

    let driven = s.resumed(&run_id);
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    let considered = invalid.iter().find(|c| c.approval_kb_id == path).expect("it was looked at");
    assert_eq!(considered.invariant, invariant, "{considered:?}");
    assert!(considered.detail.contains("expected") && considered.detail.contains("observed"));
    assert_eq!(s.stored(&run_id).state, gate.awaiting());
    assert!(s.stored(&run_id).considered.contains(considered));
    assert!(s.stored(&run_id).stops.is_empty(), "an approval that is not accepted stops nothing");
    assert_eq!(s.rows(), before, "nothing is written for an approval that is not accepted");

    match s.resume_with(&run_id, &path) {
        Err(DriveError::ApprovalInvalid { path: named, report }) => {
            assert_eq!(named, path);
            let check = report.checks.iter().find(|c| c.invariant == invariant).expect("it is judged");
            assert!(!check.ok && report.to_string().contains(invariant), "{report}");
        }
        other => panic!("expected a refusal, observed {other:?}"),
    }
    assert_eq!(s.rows(), before);
    assert_eq!(s.stored(&run_id).state, gate.awaiting());
    let revision = s.stored(&run_id).revision;
    s.resumed(&run_id);
    assert_eq!(s.stored(&run_id).revision, revision, "looking again at the same document writes nothing");

    s.world.advance(2_000);
    let heir = s.answer(&ask, ReviewVerdict::Approve);
    let key_is_good = !matches!(invariant, "approval.signature") || s.key_is_good(&heir);
    if key_is_good {
        s.world.file(&ask.approval_path, s.seal(&heir).as_bytes());
        s.finish(&run_id);
    }
}

trait KeyState {
    fn key_is_good(&self, text: &str) -> bool;
}

impl KeyState for Scenario {
    /// Whether the sovereign's key still makes good signatures.
    fn key_is_good(&self, text: &str) -> bool {
        let ports = self.ports();
        let facts = cutter_core::testing::memory::block_on(
            ports.signatures.observe(self.seal(text).as_bytes(), self.world.now()),
        );
        matches!(facts, Ok(cutter_core::record::signature::SignatureFacts::Good { .. }))
    }
}

macro_rules! refused {
    ($($name:ident: $invariant:literal, $forge:expr;)*) => {
        $(mod $name {
            use super::*;
            #[test]
            fn at_sg1() {
                refused_at(Gate::Cut, $forge, $invariant);
            }
            #[test]
            fn at_sg2() {
                refused_at(Gate::Lifecycle, $forge, $invariant);
            }
        })*
    };
}

fn badly(s: &Scenario, ask: &Ask, defect: BadSignature) -> String {
    s.world.sign_badly(&s.world.person(SOVEREIGN), &s.answer(ask, ReviewVerdict::Approve), defect)
}

fn edited(s: &Scenario, ask: &Ask, key: &str, value: &str) -> String {
    s.seal(&s.edited_answer(ask, &[(key, value)]))
}

const OTHER_SHA: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

refused! {
    unsigned: "approval.signature", |s, ask| s.answer(ask, ReviewVerdict::Approve);
    by_a_key_that_nobody_pinned: "approval.signer_pinned", |s, ask| {
        s.world.sign(&s.world.person("mallory"), &s.answer(ask, ReviewVerdict::Approve))
    };
    by_an_unknown_key: "approval.signature", |s, ask| badly(s, ask, BadSignature::UnknownKey);
    by_an_expired_key: "approval.signature", |s, ask| badly(s, ask, BadSignature::ExpiredKey);
    by_a_revoked_key: "approval.signature", |s, ask| badly(s, ask, BadSignature::RevokedKey);
    with_sha1: "approval.signature", |s, ask| badly(s, ask, BadSignature::Sha1);
    with_a_signature_over_another_text: "approval.signature", |s, ask| badly(s, ask, BadSignature::BadSignature);
    with_text_around_the_signed_block: "approval.signature", |s, ask| badly(s, ask, BadSignature::TextOutsideBlock);
    with_text_below_the_signed_block: "approval.signature", |s, ask| {
        s.seal(&s.answer(ask, ReviewVerdict::Approve)) + "decision: approve\n"
    };
    for_another_run: "approval.run_id", |s, ask| {
        edited(s, ask, "run_id", "ictr-20260102T030405Z-019b7d3f-0000-7000-8000-000000000001")
    };
    for_another_document: "approval.document_id", |s, ask| edited(s, ask, "document_id", "ICX-CONST");
    for_another_plan: "approval.writer_digest", |s, ask| edited(s, ask, "writer_digest", OTHER_SHA);
    for_another_manifest: "approval.manifest_digest", |s, ask| edited(s, ask, "manifest_digest", OTHER_SHA);
    for_another_base_state: "approval.base_state_sha", |s, ask| edited(s, ask, "base_state_sha", OTHER_SHA);
    for_another_version: "approval.source_version_id", |s, ask| {
        edited(s, ask, "source_version_id", "019b7d3f-0000-7000-8000-000000000001")
    };
    for_another_change_set: "approval.change_set_id", |s, ask| {
        edited(s, ask, "change_set_id", "019b7d3f-0000-7000-8000-000000000001")
    };
    for_another_request: "approval.request_sha256", |s, ask| edited(s, ask, "request_sha256", OTHER_SHA);
    of_another_type: "approval.type", |s, ask| edited(s, ask, "approval_type", "void");
    for_another_gate: "approval.gate", |s, ask| edited(s, ask, "gate", "SG_failure_escalation");
    for_another_occurrence: "approval.occurrence", |s, ask| edited(s, ask, "occurrence", "2");
    with_another_nonce: "approval.nonce", |s, ask| edited(s, ask, "nonce", OTHER_SHA);
    by_another_actor: "approval.actor_matches_key", |s, ask| edited(s, ask, "actor", "grace");
    expired: "approval.not_expired", |s, ask| edited(s, ask, "expires", "2026-01-02T03:04:05Z");
    with_an_unreadable_expiry: "approval.not_expired", |s, ask| edited(s, ask, "expires", "soon");
    with_another_decision: "approval.plain", |s, ask| edited(s, ask, "decision", "perhaps");
    with_a_field_twice: "approval.plain", |s, ask| {
        s.seal(&(s.answer(ask, ReviewVerdict::Approve) + "decision: reject\n"))
    };
    with_hidden_text: "approval.well_formed", |s, ask| {
        s.seal(&(s.answer(ask, ReviewVerdict::Approve) + "note: \u{202e}hidden\n"))
    };
}

#[test]
fn missing_a_run_waits_and_resume_does_nothing() {
    for gate in Gate::ALL {
        let s = Scenario::new(12);
        let (run_id, ask) = s.parked(gate);
        let (before, revision) = (s.world.snapshot(), s.stored(&run_id).revision);
        for _ in 0..3 {
            let driven = s.resumed(&run_id);
            assert_eq!(
                driven.outcome,
                Outcome::Paused { ask: ask.clone(), invalid: Vec::new(), too_few: None }
            );
            assert_eq!(driven.sidecar.state, gate.awaiting());
        }
        assert_eq!(s.world.snapshot(), before);
        assert_eq!(s.stored(&run_id).revision, revision, "waiting writes nothing");
    }
}

#[test]
fn a_named_approval_that_is_not_there_is_said() {
    let s = Scenario::new(12);
    let (run_id, ask) = s.parked(Gate::Cut);
    let error = s.resume_with(&run_id, &ask.approval_path).unwrap_err();
    assert!(matches!(error, DriveError::NotNow(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(&ask.approval_path) && text.contains("expected") && text.contains("observed"),
        "{text}"
    );
    assert_eq!(s.stored(&run_id).state, Gate::Cut.awaiting());
}

#[test]
fn by_the_runs_own_creator() {
    // the operator's key is pinned, under the operator's name and under another one
    for actor in ["op", "boss"] {
        for gate in Gate::ALL {
            let mut s = Scenario::new(13);
            s.change_policy(vec![s.world.approver_with(actor, &s.world.operator())]);
            if gate == Gate::Lifecycle {
                s.settings.lifecycle_actor = actor.into();
            }
            let (run_id, ask) = s.parked(gate);
            let text =
                render_approval(&ask, ReviewVerdict::Approve, actor, s.world.now(), None, &BTreeMap::new());
            s.world.file(&ask.approval_path, s.world.sign(&s.world.operator(), &text).as_bytes());
            let before = s.rows();
            match s.resume_with(&run_id, &ask.approval_path) {
                Err(DriveError::ApprovalInvalid { report, .. }) => {
                    let failures: Vec<&str> =
                        report.failures().iter().map(|c| c.invariant.as_str()).collect();
                    // whoever may not answer is not expected to, whatever the settings say
                    let at_sg2 = ["approval.expected_actor", "approval.not_creator"];
                    let from = usize::from(gate == Gate::Cut);
                    assert_eq!(failures, at_sg2[from..]);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(s.rows(), before);
        }
    }
}

#[test]
fn the_creator_may_approve_only_if_the_policy_says_so() {
    let s = Scenario::new(13);
    let key = s.world.policy_key(&s.world.operator());
    s.change_policy(vec![
        Change::Creator { may_approve: true },
        Change::KeyAdded { person: SOVEREIGN.into(), key },
    ]);
    let (run_id, ask) = s.parked(Gate::Cut);
    let text = s.answer(&ask, ReviewVerdict::Approve);
    s.world.file(&ask.approval_path, s.world.sign(&s.world.operator(), &text).as_bytes());
    assert_eq!(asked(&s.resumed(&run_id)).gate, GateId::LifecycleAuthz);
}

#[test]
fn by_an_approver_who_was_not_asked_at_sg2() {
    let s = Scenario::new(14);
    s.change_policy(vec![s.world.approver("grace")]);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    let text = render_approval(&ask, ReviewVerdict::Approve, "grace", s.world.now(), None, &BTreeMap::new());
    s.world.file(&ask.approval_path, s.world.sign(&s.world.person("grace"), &text).as_bytes());
    let driven = s.resumed(&run_id);
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert_eq!(invalid[0].invariant, "approval.expected_actor");
    assert!(invalid[0].detail.contains("expected ada, observed grace"), "{:?}", invalid[0]);
}

#[test]
fn an_unsigned_one_counts_if_the_policy_says_optional() {
    let s = Scenario::new(15);
    s.change_policy(vec![Change::Signature(SignaturePolicy::Optional)]);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.world.file(&ask.approval_path, s.answer(&ask, ReviewVerdict::Approve).as_bytes());
    assert_eq!(asked(&s.resumed(&run_id)).gate, GateId::LifecycleAuthz);
    let record = s.stored(&run_id).sovereign_approvals[0].clone();
    assert_eq!((record.actor.as_str(), record.fingerprint.as_str()), (SOVEREIGN, ""));
}

#[test]
fn that_answers_sg1_does_not_answer_sg2() {
    let s = Scenario::new(16);
    let (run_id, first) = s.parked(Gate::Cut);
    s.sign(&first, ReviewVerdict::Approve);
    let ask = asked(&s.resumed(&run_id));
    let used = s.world.document(&first.approval_path).unwrap();
    s.world.file(&ask.approval_path, &used.bytes);
    let before = s.rows();
    match s.resume_with(&run_id, &ask.approval_path) {
        Err(DriveError::ApprovalInvalid { report, .. }) => {
            for id in ["approval.single_use", "approval.nonce", "approval.type", "approval.gate"] {
                assert!(report.failures().iter().any(|c| c.invariant == id), "{id}: {report}");
            }
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(s.rows(), before);
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&run_id);
}

#[test]
fn used_before_by_another_run_of_the_document() {
    let s = Scenario::new(17);
    let (first, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let used = s.world.document(&ask.approval_path).unwrap();
    s.resumed(&first);
    s.void_signed(&first);
    s.world.reseed(18);
    s.world.advance(61_000);
    let (second, ask) = s.parked(Gate::Cut);
    s.world.file(&ask.approval_path, &used.bytes);
    let driven = s.resumed(&second);
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert_eq!(invalid[0].invariant, "approval.run_id");
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&second);
}

#[test]
fn whose_bytes_or_nonce_the_database_has_seen_fails_in_the_writing_transaction() {
    // two occurrences that would use one nonce: the database's own constraint refuses
    let s = Scenario::new(19);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.answer_after_refusal(&run_id, &ask);
    let second = asked(&s.resumed(&run_id));
    assert_eq!(second.occurrence, 2);
    assert_ne!(second.required["nonce"], ask.required["nonce"], "each occurrence has its own nonce");
    // an answer to the first request, under the second's name
    s.world.file(&second.approval_path, s.seal(&s.answer(&ask, ReviewVerdict::Approve)).as_bytes());
    let before = s.rows();
    match s.resume_with(&run_id, &second.approval_path) {
        Err(DriveError::ApprovalInvalid { report, .. }) => {
            let failures: Vec<&str> = report.failures().iter().map(|c| c.invariant.as_str()).collect();
            assert_eq!(failures, ["approval.occurrence", "approval.request_sha256", "approval.nonce"]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(s.rows(), before);
    s.sign(&second, ReviewVerdict::Approve);
    s.finish(&run_id);
}

trait AfterRefusal {
    fn answer_after_refusal(&self, run_id: &cutter_core::base::id::RunId, ask: &Ask);
}

impl AfterRefusal for Scenario {
    /// Defers, then lets the run ask again.
    fn answer_after_refusal(&self, run_id: &cutter_core::base::id::RunId, ask: &Ask) {
        self.sign(ask, ReviewVerdict::Defer);
        self.resumed(run_id);
        self.answer_stop(run_id, cutter_core::report::naming::EscalationKind::Resume, &[]);
    }
}

#[test]
fn whose_request_was_edited() {
    for gate in Gate::ALL {
        let s = Scenario::new(20);
        let (run_id, ask) = s.parked(gate);
        s.sign(&ask, ReviewVerdict::Approve);
        let original = s.world.document(&ask.request_path).unwrap().bytes;
        s.world.corrupt_document(&ask.request_path, b"# Another request\n");
        let before = s.rows();
        let driven = s.resumed(&run_id);
        let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
        let own = invalid.iter().find(|c| c.approval_kb_id == ask.approval_path).unwrap();
        assert_eq!(own.invariant, "approval.request_unedited");
        assert_eq!(s.rows(), before);
        s.world.corrupt_document(&ask.request_path, &original);
        s.finish(&run_id);
    }
}

#[test]
fn signed_after_now_is_not_accepted_yet() {
    let s = Scenario::new(21);
    let twin = Scenario::new(21);
    let (run_id, ask) = s.parked(Gate::Cut);
    twin.world.advance(3_600_000);
    s.world.file(&ask.approval_path, twin.seal(&s.answer(&ask, ReviewVerdict::Approve)).as_bytes());
    let driven = s.resumed(&run_id);
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert_eq!(invalid[0].invariant, "approval.signature");
    s.world.advance(3_600_000);
    s.finish(&run_id);
}

/// Approved before the run parked: the request was up, the record of parking was not.
#[test]
fn approved_before_the_run_parked_counts() {
    for gate in Gate::ALL {
        // in a world with the same seed, to know which publication parks the run
        let publications = {
            let twin = Scenario::new(22);
            let (process, ports) = twin.process(FaultPlan::default());
            let driven = twin.cut(&ports).unwrap();
            let count = |p: &cutter_core::testing::memory::Process| {
                p.trace().iter().filter(|(port, op)| *port == Port::RunStore && op == "publish").count()
                    as u64
            };
            if gate == Gate::Cut {
                count(&process)
            } else {
                twin.sign(&asked(&driven), ReviewVerdict::Approve);
                let (process, ports) = twin.process(FaultPlan::default());
                twin.resume(&ports, &driven.sidecar.run_id).unwrap();
                count(&process)
            }
        };
        let s = Scenario::new(22);
        let when = When::Operation { port: Port::RunStore, op: "publish".into(), nth: publications };
        let plan = FaultPlan::one(Fault { when, kind: FaultKind::DieBefore });
        let run_id = if gate == Gate::Cut {
            let _ = s.cut(&s.process(plan).1);
            s.world.runs()[0].clone()
        } else {
            let (run_id, ask) = s.parked(Gate::Cut);
            s.sign(&ask, ReviewVerdict::Approve);
            let _ = s.resume(&s.process(plan).1, &run_id);
            run_id
        };
        assert_ne!(s.stored(&run_id).state, gate.awaiting(), "the run has not parked");
        let ask = s.stored(&run_id).ask.expect("what will be asked is fixed already");
        assert!(s.world.document(&ask.request_path).is_some(), "the request is up");
        s.sign(&ask, ReviewVerdict::Approve);
        s.finish(&run_id);
    }
}

/// An id source that gives one identifier for one purpose, whatever the seed.
struct Fixed {
    inner: Arc<dyn IdSource>,
    purpose: &'static str,
    id: Uuid,
}

impl IdSource for Fixed {
    fn uuid_v7(&self, at: jiff::Timestamp, purpose: &str) -> Uuid {
        if purpose.ends_with(self.purpose) { self.id } else { self.inner.uuid_v7(at, purpose) }
    }

    fn nonce(&self, purpose: &str) -> String {
        self.inner.nonce(purpose)
    }
}

#[test]
fn review_decision_id_reused_from_a_prior_run_is_refused() {
    let s = Scenario::new(26);
    let first = s.whole_run().unwrap();
    let used: Uuid = first.sidecar.context_pins["review_decision_id"].parse().unwrap();
    s.world.reseed(27);
    s.world.advance(61_000);
    s.register("# Charter\n\nAnother text.\n");
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let mut ports = s.ports();
    let purpose = "SG_lifecycle_authz/1/review_decision";
    ports.ids = Arc::new(Fixed { inner: ports.ids.clone(), purpose, id: used });
    let driven = s.resume(&ports, &run_id).unwrap();
    let decisions = s.count("review_decision", "review_decision_id", &used.to_string());
    assert_eq!(decisions, 1, "the prior run's row stands alone");
    let (code, says) = ("STOP_DRIFT_review_decisions", ["review_decisions: expected 0, observed 1"]);
    s.assert_stopped(&driven, code, "stopped_drift", "write_verified", &says);
    assert_eq!(s.rows_of("approval_use").len(), 3, "nothing is enacted on it");
    // resumed, the run asks under a decision of its own
    let ask = asked(&s.resumed(&run_id));
    assert_eq!(ask.occurrence, 2);
    assert_ne!(ask.required["review_decision_id"], used.to_string());
    s.sign(&ask, ReviewVerdict::Approve);
    s.finish(&run_id);
}
