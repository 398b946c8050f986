//! Gates that fail: terminal, with their own document and report, and only a void ahead.

use cutter_core::port::Port;
use std::collections::BTreeMap;
use std::sync::Arc;

use cutter_core::driver::{self, NewRun, OwnGate};
use cutter_core::machine::run::GateId;
use cutter_core::record::check::Check;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::observed::GrantSnapshot;
use cutter_core::record::sidecar::{Mode, Sidecar};
use cutter_core::report::naming::EscalationKind::Resume;
use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, block_on};
use cutter_tests::refusal::{Gate, failed, stopped};
use cutter_tests::{Scenario, caller};

/// Fails at a gate before SG1; no content row, and the document is free after a void once the
/// cause is mended.
fn fails_before_sg1(s: Scenario, gate: &str, stage: &str, says: &[&str], mend: impl FnOnce(&mut Scenario)) {
    let driven = s.cut(&s.ports()).unwrap();
    s.assert_failed(&driven, gate, stage, says);
    for table in ["information_unit", "cut_change_set", "approval", "review_decision"] {
        assert_eq!(s.rows_of(table).len(), 0, "{table}");
    }
    let held = s.cut(&s.ports()).unwrap_err();
    assert!(
        matches!(held, driver::DriveError::ReplayConflict { .. }),
        "a failed run keeps its claim: {held}"
    );
    let mut s = s;
    mend(&mut s);
    s.assert_void_frees(&driven.sidecar.run_id);
}

#[test]
fn an_unknown_document() {
    let s = Scenario::new(300);
    let request = NewRun {
        document_id: "ICX-NOBODY".into(),
        mode: Mode::Live,
        settings: s.settings.clone(),
        run_id: None,
    };
    let before = s.rows();
    let driven = block_on(driver::cut(&s.ports(), &caller(), request)).unwrap();
    s.assert_failed(&driven, "source_pin", "pending", &["source_pin.document_registered"]);
    let after = s.rows();
    let grown: Vec<&str> = after.lines().filter(|l| !before.contains(l)).collect();
    assert!(grown.len() == 1 && grown[0].starts_with("claim "), "only the claim is new: {grown:?}");
    s.void_signed(&driven.sidecar.run_id);
}

#[test]
fn a_text_that_is_no_utf8() {
    let s = Scenario::new(301);
    s.register_bytes(b"# A\n\xff\n");
    fails_before_sg1(s, "source_pin", "pending", &["source_pin."], |s| s.register("# Charter\n\nMended.\n"));
}

#[test]
fn a_document_over_the_size_limit() {
    let mut s = Scenario::new(302);
    s.settings.max_document_bytes = 10;
    fails_before_sg1(s, "source_pin", "pending", &["source_pin."], |s| {
        s.settings.max_document_bytes = 1 << 20
    });
}

#[test]
fn too_many_candidates() {
    let mut s = Scenario::new(303);
    s.settings.max_candidates = 6;
    let driven = s.cut(&s.ports()).unwrap();
    s.assert_failed(&driven, "mark", "source_pinned", &["expected 1 to 6, observed 7"]);
    assert_eq!(s.rows_of("decision_backlog_entry").len(), 0, "no entry is made for it");
    s.settings.max_candidates = 7;
    s.assert_void_frees(&driven.sidecar.run_id);
}

#[test]
fn a_text_that_is_little_else_than_headings() {
    let s = Scenario::new(309);
    s.register(&"# h\n".repeat(20_000));
    fails_before_sg1(s, "source_pin", "pending", &["source_pin.text_markable", "at most 16384 in"], |s| {
        s.register("# Charter\n\nMended.\n");
    });
}

#[test]
fn an_empty_region() {
    let s = Scenario::with_text(304, "");
    let driven = s.cut(&s.ports()).unwrap();
    let stop = failed(&driven);
    assert!(stop.code == "failed_mark" || stop.code == "failed_source_pin", "{stop:?}");
    assert_eq!(s.rows_of("decision_backlog_entry").len(), 0);
    s.void_signed(&driven.sidecar.run_id);
}

#[test]
fn a_forbidden_prefix() {
    let mut s = Scenario::new(305);
    s.settings.forbidden_prefixes = vec!["ICX-CHARTER/ch-1".into()];
    fails_before_sg1(s, "cutplan", "marked", &["forbidden"], |s| s.settings.forbidden_prefixes.clear());
}

#[test]
fn a_word_that_no_vocabulary_knows() {
    let s = Scenario::new(306);
    s.world.alter_vocabulary(|v| v.unit_kind.retain(|w| w != "article"));
    fails_before_sg1(s, "cutplan", "marked", &["article"], |s| {
        s.world.alter_vocabulary(|v| {
            v.unit_kind.insert("article".into());
        });
    });
}

#[test]
fn a_publication_type_that_no_vocabulary_knows() {
    let mut s = Scenario::new(307);
    s.settings.publication_type = Some("pamphlet".into());
    fails_before_sg1(s, "cutplan", "marked", &["pamphlet"], |s| s.settings.publication_type = None);
}

#[test]
fn a_backup_key_that_is_not_the_pinned_one() {
    let s = Scenario::new(308);
    let good = s.world.backup_recipient();
    s.world.set_backup_recipient("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF");
    let says = ["backup.target_key_pinned", good.as_str(), "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"];
    let recipient = good.clone();
    fails_before_sg1(s, "backup", "cutplan_ok", &says, move |s| s.world.set_backup_recipient(&recipient));
}

#[test]
fn each_grant_that_is_missing() {
    let wanted = {
        let s = Scenario::new(309);
        let mut names = Vec::new();
        s.world.alter_grants(|g| names.extend(g.facts.iter().filter(|f| f.wanted).map(|f| f.name.clone())));
        names
    };
    assert!(wanted.len() >= 6);
    for (i, name) in wanted.iter().enumerate() {
        let s = Scenario::new(310 + i as u64);
        set_grant(&s, name, false);
        let driven = s.cut(&s.ports()).unwrap();
        s.assert_failed(&driven, "grant_probe", "pre_write_backup_taken", &[name.as_str()]);
        assert_eq!(s.rows_of("information_unit").len(), 0);
        if i == 0 {
            set_grant(&s, name, true);
            s.assert_void_frees(&driven.sidecar.run_id);
        }
    }
}

fn set_grant(s: &Scenario, name: &str, holds: bool) {
    s.world.alter_grants(|g| {
        for fact in g.facts.iter_mut().filter(|f| f.name == name) {
            fact.holds = holds;
        }
    });
}

#[test]
fn a_grant_that_nobody_should_have() {
    type Damage = fn(&mut GrantSnapshot);
    let cases: [(Damage, &str); 3] = [
        (|g| g.public_execute.push("cutter_governance.fn_run_fence_assert".into()), "fn_run_fence_assert"),
        (
            |g| g.facts.iter_mut().filter(|f| !f.wanted).for_each(|f| f.holds = true),
            "cutter_governance.approval",
        ),
        (|g| g.violations.push("cutter_exec is a superuser".into()), "cutter_exec is a superuser"),
    ];
    for (i, (damage, says)) in cases.into_iter().enumerate() {
        let s = Scenario::new(320 + i as u64);
        s.world.alter_grants(damage);
        let driven = s.cut(&s.ports()).unwrap();
        s.assert_failed(&driven, "grant_probe", "pre_write_backup_taken", &[says]);
        assert_eq!(s.rows_of("information_unit").len(), 0);
    }
}

/// Brings a run to a point behind leg A by dying at a call.
fn dead_at(s: &Scenario, op: &str) -> cutter_core::base::id::RunId {
    let (run_id, ask) = s.parked(Gate::Cut);
    s.sign(&ask, ReviewVerdict::Approve);
    let plan = FaultPlan::one(Fault::on(Port::Database, op, FaultKind::DieBefore));
    let _ = s.resume(&s.process(plan).1, &run_id);
    run_id
}

#[test]
fn a_structural_failure_between_leg_a_and_leg_b_is_not_final() {
    for (seed, complete) in [(330, true), (331, false)] {
        let s = Scenario::new(seed);
        let run_id = dead_at(&s, "structural");
        let address = s.rows_of("information_unit")[2]["canonical_address"].as_str().unwrap().to_owned();
        let text = content_of(&s, &address);
        s.world.edit_unit(&address, b"other bytes").unwrap();
        let before = s.rows();
        let driven = s.resumed(&run_id);
        let says = [
            "STOP_GATE_FAILED",
            "structural_verify.content_hash_match",
            "structural_verify.region_reconstructs",
        ];
        let state = "stopped_between_leg_a_and_leg_b";
        s.assert_stopped(&driven, "STOP_BETWEEN_LEG_A_AND_LEG_B", state, "cut_leg_a_committed", &says);
        assert_eq!(s.rows(), before);
        assert_eq!(stopped(&s.resumed(&run_id)).n, 1);
        if complete {
            // mended by whoever broke it, with the sovereign's word the run goes on
            s.world.edit_unit(&address, &text).unwrap();
            s.answer_stop(&run_id, Resume, &[]);
            s.finish(&run_id);
        } else {
            s.answer_stop(&run_id, Resume, &[]);
            assert_eq!(stopped(&s.resumed(&run_id)).n, 2, "not mended, it stops again");
            s.assert_void_frees(&run_id);
        }
    }
}

fn content_of(s: &Scenario, address: &str) -> Vec<u8> {
    let query = cutter_core::record::observed::UnitQuery {
        document_id: "ICX-CHARTER".into(),
        scope: cutter_core::record::observed::UnitScope::Live,
        with_content: true,
        limit: 100,
        ..Default::default()
    };
    let units = block_on(s.ports().reader.units(&query)).unwrap();
    units.into_iter().find(|u| u.canonical_address == address).and_then(|u| u.content).unwrap()
}

#[test]
fn a_failed_write_verify_commits_its_own_record() {
    let s = Scenario::new(335);
    let run_id = dead_at(&s, "begin write_verify");
    let address = s.rows_of("information_unit")[2]["canonical_address"].as_str().unwrap().to_owned();
    s.world.edit_unit(&address, b"other bytes").unwrap();
    let driven = s.resumed(&run_id);
    s.assert_failed(&driven, "write_verify", "leg_b_recorded", &["write_verify."]);
    let results = s.rows_of("verify_result");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["passed"], false);
    assert_eq!(results[0]["verify_result_id"], s.stored(&run_id).context_pins["verify_result_id"]);
    let entries = s.rows_of("decision_backlog_entry");
    let status = |kind: &str| entries.iter().find(|e| e["kind"] == kind).map(|e| e["status"].clone());
    assert_eq!(status("manifest"), Some("verify_failed_escalated".into()));
    assert_eq!(status("escalation"), Some("marked".into()), "the escalation has an entry of its own");
    let history = s.rows_of("decision_backlog_history");
    assert!(
        history
            .iter()
            .any(|h| h["from_state"] == "verify_in_progress" && h["to_state"] == "verify_failed_escalated")
    );
    let signatures = s.rows_of("dot_pair_signature");
    let failed_signature = &s.stored(&run_id).context_pins["verifier_signature_id"];
    let own = signatures.iter().find(|r| r["signature_id"] == failed_signature.as_str()).unwrap();
    assert!(own["payload"].as_str().unwrap().contains("verify_failed"));
    assert_eq!(
        s.rows_of("cut_change_set").iter().filter(|c| c["kind"] != "cut").count(),
        1,
        "compensating set"
    );
    s.assert_void_frees(&run_id);
}

#[test]
fn a_failed_write_verify_that_died_unrecorded_is_adopted_as_failed() {
    let s = Scenario::new(336);
    let run_id = dead_at(&s, "begin write_verify");
    let address = s.rows_of("information_unit")[2]["canonical_address"].as_str().unwrap().to_owned();
    let text = content_of(&s, &address);
    s.world.edit_unit(&address, b"other bytes").unwrap();
    let plan = FaultPlan::one(Fault::on(Port::Database, "finish write_verify", FaultKind::DieAfter));
    let _ = s.resume(&s.process(plan).1, &run_id);
    s.world.edit_unit(&address, &text).unwrap();
    let driven = s.resumed(&run_id);
    s.assert_failed(&driven, "write_verify", "leg_b_recorded", &["write_verify."]);
    assert_eq!(s.rows_of("verify_result").len(), 1, "judged from what was stored, not again");
}

#[test]
fn documents_that_changed_or_are_gone_stop_until_they_are_restored() {
    for (seed, gone) in [(340, true), (341, false)] {
        for enacted in [false, true] {
            let s = Scenario::new(seed);
            let (run_id, ask) = s.parked(Gate::Lifecycle);
            s.sign(&ask, ReviewVerdict::Approve);
            if enacted {
                let plan = FaultPlan::one(Fault::on(Port::Database, "finish enact", FaultKind::DieAfter));
                let _ = s.resume(&s.process(plan).1, &run_id);
            }
            let path = s.stored(&run_id).documents[1].path.clone();
            let original = s.world.document(&path).unwrap().bytes;
            if gone {
                assert!(s.world.drop_document(&path));
            } else {
                assert!(s.world.corrupt_document(&path, b"edited\n"));
            }
            let driven = s.resumed(&run_id);
            let stage = if enacted { "lifecycle_enacted" } else { Gate::Lifecycle.awaiting() };
            let says = ["kb restore", "02-mark-"];
            s.assert_stopped(&driven, "STOP_KB_CONFLICT", "stopped_kb_conflict", stage, &says);
            let units = s.count("information_unit", "lifecycle_status", "enacted");
            assert_eq!(units > 0, enacted, "the approval is not spent");
            let revision = s.stored(&run_id).revision;
            assert_eq!(stopped(&s.resumed(&run_id)).n, 1, "still so: the same stop");
            assert_eq!(s.stored(&run_id).revision, revision);
            if enacted {
                let error = s.void(&run_id).unwrap_err().to_string();
                assert!(error.contains("cannot be voided"), "{error}");
            }
            if gone {
                s.world.file(&path, &original);
            } else {
                assert!(s.world.corrupt_document(&path, &original));
            }
            s.finish(&run_id);
        }
    }
}

#[test]
fn an_index_line_of_the_same_run_with_another_content() {
    let s = Scenario::new(342);
    let (run_id, ask) = s.parked(Gate::Lifecycle);
    s.sign(&ask, ReviewVerdict::Approve);
    let index = cutter_core::report::naming::RUNS_INDEX_PATH;
    s.world.file(index, format!("- `{run_id}` | `forged`\n").as_bytes());
    let driven = s.resumed(&run_id);
    s.assert_stopped(&driven, "STOP_KB_CONFLICT", "stopped_kb_conflict", "lifecycle_enacted", &["forged"]);
    assert!(s.world.drop_document(index));
    s.finish(&run_id);
}

struct Seal(GateId);

impl OwnGate for Seal {
    fn checks(&self, gate: GateId, _: &Sidecar) -> Vec<Check> {
        let asked = gate == self.0;
        asked.then(|| Check::new("own.seal", "a seal", "none", false)).into_iter().collect()
    }
}

#[test]
fn an_embedders_own_check_fails_the_gate() {
    let s = Scenario::new(343);
    let mut ports = s.ports();
    ports.own_gates = vec![Arc::new(Seal(GateId::Cutplan))];
    let driven = s.cut(&ports).unwrap();
    s.assert_failed(&driven, "cutplan", "marked", &["own.seal"]);
    let invariants: &BTreeMap<String, bool> =
        &s.stored(&driven.sidecar.run_id).phases["cutplan"].gate_invariants;
    assert!(!invariants["own.seal"]);
    assert!(invariants.len() > 5, "the others are listed too");
    s.assert_void_frees(&driven.sidecar.run_id);
}

/// Ports whose own gate refuses at one gate.
fn sealed(s: &Scenario, gate: GateId) -> cutter_core::driver::Ports {
    let mut ports = s.ports();
    ports.own_gates = vec![Arc::new(Seal(gate))];
    ports
}

/// Drives with these ports until the run ends or an answer is not accepted.
fn drive(s: &Scenario, ports: &cutter_core::driver::Ports) -> driver::Driven {
    let mut driven = s.cut(ports).unwrap();
    while let driver::Outcome::Paused { ask, .. } = &driven.outcome {
        s.sign(ask, ReviewVerdict::Approve);
        let (gate, run_id) = (ask.gate, driven.sidecar.run_id.clone());
        driven = s.resume(ports, &run_id).unwrap();
        if matches!(&driven.outcome, driver::Outcome::Paused { ask, .. } if ask.gate == gate) {
            break;
        }
    }
    driven
}

/// At every internal gate before the units are in force: the run does not get past it, nothing that
/// the gate guards was committed, and the document can be cut again.
#[test]
fn an_own_gate_is_asked_inside_the_transaction_and_leaves_no_row() {
    // the gate, how the run ends if it does not just fail, and the table of which no row may be there
    let cases = [
        (GateId::SourcePin, "", "decision_backlog_entry"),
        (GateId::Mark, "", "decision_backlog_entry"),
        (GateId::Cutplan, "", "review_decision"),
        (GateId::Backup, "", "review_decision"),
        (GateId::GrantProbe, "", "review_decision"),
        (GateId::CutLegA, "", "information_unit"),
        (GateId::StructuralVerify, "stopped_between_leg_a_and_leg_b", "manifest_envelope"),
        (GateId::LegBRecord, "stopped_between_leg_a_and_leg_b", "manifest_envelope"),
        (GateId::WriteVerify, "", "verify_result"),
        (GateId::LifecycleEnact, "", "iu_lifecycle_log"),
    ];
    for (n, (gate, state, table)) in (0_u64..).zip(cases) {
        let s = Scenario::new(360 + n);
        let driven = drive(&s, &sealed(&s, gate));
        let failed = format!("failed_{}", gate.failed_suffix());
        let state = if state.is_empty() { &failed } else { state };
        assert_eq!(driven.sidecar.state, *state, "{gate}: {:?}", driven.sidecar.last_error);
        assert!(driven.sidecar.stops.last().unwrap().detail.iter().any(|d| d.contains("own.seal")));
        assert_eq!(s.rows_of(table).len(), 0, "{gate}: {table}");
        s.assert_void_frees(&driven.sidecar.run_id);
    }
}

/// At a sovereign's gate an answer that the house does not accept is not consumed: the run waits on,
/// and the same answer serves once the house agrees. A refusal is nobody's to refuse.
#[test]
fn an_own_gate_at_a_sovereign_gate_judges_answers_and_no_refusal() {
    for (n, gate) in (0_u64..).zip([GateId::CutAuthz, GateId::LifecycleAuthz]) {
        let s = Scenario::new(380 + n);
        let ports = sealed(&s, gate);
        let driven = drive(&s, &ports);
        let driver::Outcome::Paused { ask, invalid, .. } = &driven.outcome else {
            panic!("{gate}: {:?}", driven.outcome)
        };
        assert_eq!((ask.gate.as_str(), invalid[0].invariant.as_str()), (gate.as_str(), "own.seal"));
        let stored = s.rows_of("approval").len();
        assert_eq!(stored, usize::from(gate == GateId::LifecycleAuthz), "nothing was stored of it");
        s.finish(&driven.sidecar.run_id);

        let s = Scenario::new(390 + n);
        let ports = sealed(&s, gate);
        let mut driven = s.cut(&ports).unwrap();
        if gate == GateId::LifecycleAuthz {
            s.sign_if_asked(&driven.outcome);
            driven = s.resume(&ports, &driven.sidecar.run_id.clone()).unwrap();
        }
        let driver::Outcome::Paused { ask, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
        s.sign(ask, ReviewVerdict::Reject);
        let refused = s.resume(&ports, &driven.sidecar.run_id.clone()).unwrap();
        assert_eq!(refused.sidecar.state, "stopped_refused");
    }
}

/// Once the units are in force nothing fails any more: the run stops, and goes on when the rule agrees.
#[test]
fn an_own_gate_at_closeout_stops_the_run() {
    let s = Scenario::new(399);
    let driven = drive(&s, &sealed(&s, GateId::Closeout));
    let run_id = driven.sidecar.run_id.clone();
    s.assert_stopped(&driven, "STOP_OWN_GATE", "stopped_own_gate", "lifecycle_enacted", &["own.seal"]);
    assert!(s.rows_of("information_unit").iter().all(|u| u["lifecycle_status"] == "enacted"));
    s.finish(&run_id);
}

#[test]
fn a_row_that_stands_where_this_run_must_write() {
    // two homes on one database: another run id has a live entry for the same manifest
    let s = Scenario::new(344);
    let (first, _) = s.parked(Gate::Cut);
    s.world.forget_run(&first);
    s.world.reseed(345);
    s.world.advance(61_000);
    let driven = s.cut(&s.ports()).unwrap();
    s.assert_failed(&driven, "mark", "source_pinned", &["mark.no_conflicting_row"]);
    assert_eq!(s.rows_of("decision_backlog_entry").len(), 1, "never two live entries");
}
