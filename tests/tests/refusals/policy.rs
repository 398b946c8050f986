//! The policy is the database's: what an operator writes into the run's record, the configuration
//! or the knowledge base changes nothing about who may approve.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutter_core::base::canonical::to_canonical;
use cutter_core::base::digest::Digest;
use cutter_core::driver::{DriveError, Outcome, Ports};
use cutter_core::machine::run::GateId;
use cutter_core::machine::stop::StopReason;
use cutter_core::port::Port;
use cutter_core::port::environment::{Observer, Progress};
use cutter_core::record::approval::{SignaturePolicy, field, render_approval};
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::intent::Intent;
use cutter_core::record::pin;
use cutter_core::record::policy::Change;
use cutter_core::record::sidecar::{ApprovalRecord, PhaseRecord, PhaseResult, Sidecar};
use cutter_core::record::signature::Duty;
use cutter_core::report::naming::EscalationKind::DriftAck;
use cutter_core::testing::memory::{Tamper, World, block_on};
use cutter_tests::attack::edited;
use cutter_tests::refusal::{Gate, asked, failed, stopped};
use cutter_tests::{SOVEREIGN, Scenario};
use serde_json::{Value, json};
use uuid::Uuid;

/// A change of a record.
type Rewrite<'a> = &'a dyn Fn(&mut Value);

/// What the operator wishes the policy to be.
fn wished(s: &Scenario) -> Value {
    json!({
        "signature": "optional", "approver_not_creator": false,
        "approvers": [{ "actor": "op", "fingerprint": s.world.operator() }],
    })
}

#[test]
fn settings_that_the_operator_rewrote_are_refused_at_enter() {
    for gate in Gate::ALL {
        let s = Scenario::new(31);
        let (run_id, ask) = s.parked(gate);
        let good = s.world.sidecar(&run_id).unwrap().bytes;
        let before = s.rows();
        let rewrites: [(&str, Rewrite<'_>); 6] = [
            ("the settings", &|v| v["settings"]["approval"] = wished(&s)),
            ("the settings", &|v| v["settings"]["lifecycle_actor"] = json!("op")),
            ("the creation statement", &|v| {
                // his own settings, signed by himself once more
                v["settings"]["lifecycle_actor"] = json!("op");
                let settings = to_canonical(&v["settings"]).unwrap();
                let old = v["creation"]["document"].as_str().unwrap();
                let line = old.lines().find(|l| l.starts_with("settings_sha256: ")).unwrap().to_owned();
                let text =
                    old.replace(&line, &format!("settings_sha256: {}", Digest::of(settings.as_bytes())));
                v["creation"]["document"] = json!(text);
            }),
            ("document_id", &|v| v["document_id"] = json!("ICX-OTHER")),
            ("kb_folder", &|v| v["kb_folder"] = json!(format!("{}X", v["kb_folder"].as_str().unwrap()))),
            ("an earlier transition", &|v| {
                v["transitions"].as_array_mut().unwrap().remove(0);
            }),
        ];
        for (what, rewrite) in rewrites {
            let bad = edited(&good, rewrite);
            assert!(s.world.corrupt_sidecar(&run_id, &bad));
            s.world.file(&ask.approval_path, s.answer(&ask, ReviewVerdict::Approve).as_bytes());
            match s.resume(&s.ports(), &run_id) {
                Err(DriveError::Sidecar { error, .. }) => {
                    let is_chain =
                        what == "an earlier transition" && error.to_string().contains("transition");
                    assert!(is_chain || error.to_string().contains(what), "{what}: {error}");
                }
                other => panic!("{what}: {other:?}"),
            }
            assert_eq!(s.rows(), before, "{what}");
        }
        s.world.corrupt_sidecar(&run_id, &good);
        s.world.drop_document(&ask.approval_path);
        s.finish(&run_id);
    }
}

#[test]
fn a_record_that_was_rewritten_from_its_beginning_is_refused() {
    for gate in Gate::ALL {
        let s = Scenario::new(42);
        let (run_id, ask) = s.parked(gate);
        let newest = s.world.sidecar(&run_id).unwrap();
        let rewrite = |v: &mut Value| {
            v["settings"]["lifecycle_actor"] = json!("op");
            let settings = to_canonical(&v["settings"]).unwrap();
            let old = v["creation"]["document"].as_str().unwrap();
            let from = old.find("record: run creation").unwrap();
            let text: String = old[from..]
                .lines()
                .take_while(|l| !l.starts_with('-'))
                .map(|l| match l {
                    _ if l.starts_with("settings_sha256: ") => {
                        format!("settings_sha256: {}\n", Digest::of(settings.as_bytes()))
                    }
                    _ => format!("{l}\n"),
                })
                .collect();
            v["creation"]["document"] = json!(s.world.sign(&s.world.operator(), &text));
        };
        let revisions = usize::try_from(newest.revision).unwrap();
        for revision in 1..=revisions {
            let stored = block_on(s.ports().runs.load_revision(&run_id, revision as u64)).unwrap().unwrap();
            assert!(s.world.corrupt_revision(&run_id, revision, &edited(&stored.bytes, rewrite)));
        }
        s.sign(&ask, ReviewVerdict::Approve);
        let before = s.rows();
        match s.resume(&s.ports(), &run_id) {
            Err(DriveError::Sidecar { error, .. }) => {
                assert!(error.to_string().contains("asked about"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(s.rows_of("information_unit").len(), before.matches("information_unit ").count());
    }
}

#[test]
fn an_approval_that_the_record_calls_valid_is_judged_again() {
    for (gate, forged) in Gate::ALL.into_iter().flat_map(|gate| [(gate, 0), (gate, 1), (gate, 2)]) {
        let s = Scenario::new(32);
        let (run_id, ask) = s.parked(gate);
        // unsigned, in the sovereign's name; signed by the operator; signed for another request
        let unsigned = s.answer(&ask, ReviewVerdict::Approve);
        let by_operator = s.world.sign(&s.world.operator(), &unsigned);
        let other = unsigned.replace(&ask.required[field::NONCE], &"0".repeat(64));
        let for_another = s.world.sign(&s.world.person(SOVEREIGN), &other);
        let good = s.world.sidecar(&run_id).unwrap().bytes;
        let document = [unsigned, by_operator, for_another][forged].clone();
        let mut sidecar = Sidecar::from_bytes(&good).unwrap();
        s.world.file(&ask.approval_path, document.as_bytes());
        let sha256 = s.world.document(&ask.approval_path).unwrap().sha256;
        let phase = if gate == Gate::Cut { "cut_leg_a" } else { "lifecycle_enact" };
        let ids = [
            "effect.sg1_review",
            "effect.leg_a",
            "approval",
            "review_decision",
            "review_history",
            "change_set",
            "cut_history_1",
            "cut_history_2",
            "executor_signature",
            "effect.sg2_review",
            "effect.enact",
        ];
        let at = s.world.now();
        sidecar.intent = Some(Intent {
            at,
            date: "2026-01-02".into(),
            ids: ids.iter().zip(1u128..).map(|(n, i)| ((*n).to_owned(), Uuid::from_u128(i))).collect(),
            name: phase.into(),
            nonce: None,
            occurrence: ask.occurrence,
        });
        sidecar.phases.insert(
            phase.into(),
            PhaseRecord {
                active_ms: 0,
                artifacts: Vec::new(),
                finished_utc: None,
                gate_invariants: BTreeMap::new(),
                kb_doc_id: None,
                phase: phase.into(),
                result: PhaseResult::Running,
                started_utc: at,
            },
        );
        sidecar.sovereign_approvals.push(ApprovalRecord {
            gate: ask.gate,
            requested_utc: at,
            approval_kb_id: ask.approval_path.clone(),
            review_decision_id: sidecar.pinned(pin::REVIEW_DECISION_ID).ok(),
            validated_utc: at,
            sha256: Some(sha256),
            actor: SOVEREIGN.into(),
            fingerprint: s.world.person(SOVEREIGN),
            decision: ReviewVerdict::Approve,
            occurrence: ask.occurrence,
            expires_utc: None,
            request_sha256: ask.required[field::REQUEST_SHA256].parse().ok(),
            nonce: ask.required[field::NONCE].clone(),
            beside: Vec::new(),
        });
        sidecar.revision += 1;
        let bytes = sidecar.to_bytes().unwrap();
        let ports = s.ports();
        block_on(ports.runs.publish(&run_id, sidecar.revision - 1, &bytes)).unwrap();
        let before = s.rows_of("information_unit");
        let driven = s.resumed(&run_id);
        let stop = stopped(&driven);
        assert_eq!(stop.code, StopReason::ApprovalChanged.code(), "{:?}", stop.detail);
        assert_eq!(s.rows_of("information_unit"), before);
    }
}

#[test]
fn what_was_asked_under_a_stricter_policy_is_answered_under_it() {
    let s = Scenario::new(33);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.change_policy(vec![Change::Signature(SignaturePolicy::Optional)]);
    s.world.file(&ask.approval_path, s.answer(&ask, ReviewVerdict::Approve).as_bytes());
    let driven = s.resumed(&run_id);
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert_eq!(invalid[0].invariant, "approval.signature");
    // a good answer meets the looser policy: the run says so, and asks once more under it
    s.world.drop_document(&ask.approval_path);
    s.sign(&ask, ReviewVerdict::Approve);
    let stop = stopped(&s.resumed(&run_id));
    assert_eq!(stop.code, "STOP_DRIFT_policy");
    assert!(stop.detail.iter().any(|d| d.contains("need no signature any more")), "{:?}", stop.detail);
    s.answer_stop(&run_id, DriftAck, &[]);
    let ask = asked(&s.resumed(&run_id));
    assert_eq!(ask.occurrence, 2);
    s.world.file(&ask.approval_path, s.answer(&ask, ReviewVerdict::Approve).as_bytes());
    assert_eq!(asked(&s.resumed(&run_id)).gate, GateId::LifecycleAuthz);
}

#[test]
fn who_may_approve_since_the_request_may_refuse_it_and_not_approve_it() {
    for verdict in [ReviewVerdict::Approve, ReviewVerdict::Reject] {
        let s = Scenario::new(34);
        let (run_id, ask) = s.parked(Gate::Cut);
        s.change_policy(vec![s.world.approver("grace")]);
        let text = render_approval(&ask, verdict, "grace", s.world.now(), None, &BTreeMap::new());
        s.world.file(&ask.approval_path, s.world.sign(&s.world.person("grace"), &text).as_bytes());
        let driven = s.resumed(&run_id);
        if verdict == ReviewVerdict::Reject {
            assert_eq!(stopped(&driven).code, StopReason::Refused.code());
            continue;
        }
        let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
        assert_eq!(invalid[0].invariant, "approval.signer_pinned");
        s.world.drop_document(&ask.approval_path);
        s.sign(&ask, ReviewVerdict::Approve);
        assert_eq!(asked(&s.resumed(&run_id)).gate, GateId::LifecycleAuthz, "somebody new is no drift");
    }
}

#[test]
fn who_was_retired_since_the_request_approves_no_more() {
    let s = Scenario::new(35);
    s.change_policy(vec![s.world.approver("grace")]);
    let (run_id, ask) = s.parked(Gate::Cut);
    let retired = Change::ApproverRetired { since: s.world.now(), person: "grace".into() };
    s.change_policy(vec![retired]);
    let text = render_approval(&ask, ReviewVerdict::Approve, "grace", s.world.now(), None, &BTreeMap::new());
    s.world.file(&ask.approval_path, s.world.sign(&s.world.person("grace"), &text).as_bytes());
    let driven = s.resumed(&run_id);
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert_eq!(invalid[0].invariant, "approval.signer_pinned");
}

#[test]
fn a_key_that_others_may_have_stops_what_rests_on_it() {
    let mut s = Scenario::new(36);
    s.settings.lifecycle_actor = "grace".into();
    s.change_policy(vec![s.world.approver("grace")]);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    let (ada, grace) = (s.world.person(SOVEREIGN), s.world.person("grace"));
    let change = Change::KeyCompromised { since: s.world.now(), fingerprint: ada };
    s.world.change_policy(vec![change], Some(&grace));
    let text = render_approval(&ask, ReviewVerdict::Approve, "grace", s.world.now(), None, &BTreeMap::new());
    s.world.file(&ask.approval_path, s.world.sign(&grace, &text).as_bytes());
    let stop = stopped(&s.resumed(&run_id));
    assert_eq!(stop.code, "STOP_DRIFT_policy");
    assert!(stop.detail.iter().any(|d| d.contains("compromised")), "{:?}", stop.detail);
}

#[test]
fn an_approver_with_two_keys_is_one_person() {
    let s = Scenario::new(37);
    let second = s.world.policy_key(&s.world.operator());
    s.change_policy(vec![Change::KeyAdded { person: SOVEREIGN.into(), key: second }]);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let driven = s.resumed(&run_id);
    let Outcome::Paused { invalid, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert_eq!(invalid[0].invariant, "approval.not_creator", "the other key created the run");
}

#[test]
fn replaced_duty_keys_stop_the_run_and_a_rotation_lets_it_go_on() {
    let s = Scenario::new(38);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    s.world.replace_duty_keys();
    let stop = stopped(&s.resumed(&run_id));
    assert_eq!(stop.code, "STOP_DUTY_KEY");
    assert!(stop.detail[0].contains("cutter duty-key rotate executor"), "{:?}", stop.detail);
    let rotated = |duty| Change::DutyKeyRotated { duty, public_key: s.world.duty_key(duty) };
    s.change_policy(vec![rotated(Duty::Executor), rotated(Duty::Verifier)]);
    assert_eq!(asked(&s.resumed(&run_id)).gate, GateId::LifecycleAuthz);
    s.finish(&run_id);
}

/// Zeroes what the executor signed when the verifier begins.
struct Zeroes(World);

impl Observer for Zeroes {
    fn progress(&self, progress: &Progress) {
        if matches!(progress, Progress::PhaseStarted { phase: "write_verify", .. }) {
            let run_id = self.0.runs().remove(0);
            assert!(self.0.tamper(&run_id, Tamper::SignatureZeroed, 0));
        }
    }
}

#[test]
fn a_signature_that_does_not_hold_is_not_countersigned() {
    let s = Scenario::new(43);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let ports = Ports { observer: Arc::new(Zeroes(s.world.clone())), ..s.ports() };
    let driven = s.resume(&ports, &run_id).unwrap();
    let stop = failed(&driven);
    assert!(stop.detail[0].contains("write_verify.executor_signature"), "{:?}", stop.detail);
    assert_eq!(s.count("verify_result", "run_id", run_id.as_str()), 1, "the failure is recorded");
    assert_eq!(s.rows_of("verify_result")[0]["passed"], false);
}

#[test]
fn without_a_policy_no_run_begins_and_a_broken_one_lets_none_go_on() {
    let s = Scenario::new(39);
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    s.world.change_policy(vec![s.world.approver("eve")], Some(&s.world.person("eve")));
    let before = s.rows();
    match s.resume(&s.ports(), &run_id) {
        Err(DriveError::Port(error)) => assert_eq!(error.port, Port::Policy, "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(s.rows(), before);
    let s = Scenario::new(40);
    s.world.forget_policy();
    match s.cut(&s.ports()) {
        Err(DriveError::Port(error)) => assert_eq!(error.port, Port::Policy, "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_founding_is_said_in_the_next_request() {
    let s = Scenario::new(41);
    s.world.change_policy(vec![s.world.approver("grace")], None);
    let (_, ask) = s.parked(Gate::Cut);
    let request = s.world.document(&ask.request_path).unwrap();
    let text = String::from_utf8(request.bytes).unwrap();
    assert!(text.contains("policy event 2") && text.contains("new founding"), "{text}");
    assert!(text.contains(&format!("policy_head: {}", ask.required[field::POLICY_HEAD])));
}
