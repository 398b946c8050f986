//! The backlog's operations on a real server: asked for again, from many connections at once, and
//! after a failure; whatever was done, every entry's state is rebuilt from its records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backlog_support;
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use backlog_support::*;
use cutter_core::machine::backlog::BacklogState as S;
use cutter_core::port::PortErrorKind as K;
use cutter_core::port::database::{Begun, Executor, Verifier};
use cutter_core::record::backlog::{Judgement, Operation, judge};
use cutter_core::record::effect::{EffectName as N, ExecutorEffect as E, Verdict};
use cutter_pg::login::Login;
use futures_executor::block_on;
use support::{DOCUMENT, World, digest, id, refused};
use uuid::Uuid;

#[test]
fn every_operation_may_be_asked_for_again() {
    let world = World::new();
    let (mut exec, mut reviewer) = (world.database.client(Login::Exec), world.database.client(Login::Review));
    let source = world.register(2);
    let run = world.run(&source);
    let manifest = digest("manifest");
    let rows = |world: &World| {
        world.count(
            "SELECT (SELECT count(*) FROM cutter_governance.decision_backlog_history)
                 + (SELECT count(*) FROM cutter_governance.review_decision)
                 + (SELECT count(*) FROM cutter_governance.decision_backlog_entry)",
        )
    };
    let mut last = rows(&world);
    let mut grew = |world: &World, by: i64| {
        assert_eq!(rows(world) - last, by);
        last += by;
    };
    let standing = run.entry.to_string();
    assert_eq!(mark_once(&mut exec, &run, run.entry, &[]).unwrap(), standing);
    grew(&world, 2);
    assert_eq!(mark_once(&mut exec, &run, id(), &[]).unwrap(), standing, "IK-MARK");
    let other = mark_once(&mut exec, &run, id(), &[run.entry]).unwrap_err();
    assert!(other.1.starts_with("mark.same_content"), "{other:?}");
    grew(&world, 0);

    let (first, second) = (id(), id());
    let promoted = format!("{{{standing}}}");
    assert_eq!(sweep_pass(&mut exec, first, DOCUMENT).unwrap(), promoted);
    assert_eq!(sweep_pass(&mut exec, first, DOCUMENT).unwrap(), promoted, "a known pass");
    assert_eq!(sweep_pass(&mut exec, second, DOCUMENT).unwrap(), "{}", "nothing is left to promote");
    assert_eq!(world.count("SELECT count(*) FROM cutter_governance.decision_backlog_sweep_log"), 2);
    grew(&world, 1);

    let decision = id();
    for again in [decision, decision, id()] {
        let stands = review(&mut reviewer, again, run.entry, "defer", &manifest).unwrap();
        assert_eq!(stands, decision.to_string());
    }
    grew(&world, 2);
    let other = review(&mut reviewer, decision, run.entry, "reject", &manifest).unwrap_err();
    assert!(other.1.starts_with("review.decision_new"), "{other:?}");

    assert_eq!(abandon(&mut reviewer, run.entry, "given up").unwrap(), "true");
    assert_eq!(abandon(&mut reviewer, run.entry, "given up").unwrap(), "false");
    grew(&world, 1);
    let anew = id();
    assert_eq!(mark_once(&mut exec, &run, anew, &[]).unwrap(), anew.to_string(), "the key was given back");
    every_audit_is_green(&world);
}

#[test]
fn a_failed_verification_goes_on_in_its_escalation_entry() {
    let world = World::new();
    let source = world.register(2);
    let mut run = world.run(&source);
    let escalation = failed(&mut run);
    let (mut exec, mut reviewer) = (world.database.client(Login::Exec), world.database.client(Login::Review));
    let stands = entry(&world, escalation);
    assert_eq!((stands.status, stands.escalates), (S::Marked, Some(run.entry)));
    // No sweep promotes it, neither a pass nor a run's own.
    assert_eq!(sweep_pass(&mut exec, id(), DOCUMENT).unwrap(), "{}");
    let own = ask(
        &mut exec,
        "cutter_governance.fn_backlog_sweep($1, $2, $3, $4, 'me', now())",
        &[&id(), &escalation, &id(), &run.run_id.as_str()],
    );
    assert_eq!(code(own), "CUD03");
    // An escalation is not made up.
    let write = run.mark_write();
    let invented = ask(
        &mut exec,
        "cutter_governance.fn_backlog_mark($1, $2, $3, $4, $5, $6, $7, $7, $7, 1, $8, 'me', 'x', now())",
        &[
            &id(),
            &id(),
            &run.run_id.as_str(),
            &DOCUMENT,
            &write.source_document_id,
            &write.source_version_id,
            &digest("x").to_hex(),
            &run.entry,
        ],
    );
    assert_eq!(code(invented), "CUC10");
    // The failed entry is frozen.
    assert_eq!(code(requeue(&mut reviewer, run.entry)), "CUC09");
    assert_eq!(requeue(&mut reviewer, escalation).unwrap(), "true");
    assert_eq!(requeue(&mut reviewer, escalation).unwrap(), "false");
    let manifest = digest("manifest");
    review(&mut reviewer, id(), escalation, "defer", &manifest).unwrap();
    assert_eq!(sweep_pass(&mut exec, id(), DOCUMENT).unwrap(), format!("{{{escalation}}}"));
    review(&mut reviewer, id(), escalation, "reject", &manifest).unwrap();
    every_audit_is_green(&world);
    assert_eq!(entry(&world, run.entry).status, S::VerifyFailedEscalated);
    assert_eq!(entry(&world, escalation).status, S::ReviewedRejected);
}

#[test]
fn many_connections_at_once_leave_one_history_each() {
    const CONNECTIONS: usize = 6;
    const OPERATIONS: usize = 50;
    let world = World::new();
    let source = world.register(1);
    let mut entries = Vec::new();
    for n in 0..3 {
        let mut exec = world.database.client(Login::Exec);
        let version = world.register_as(DOCUMENT, &[format!("Version {n}.\n")]);
        let run = world.run(&version);
        mark_once(&mut exec, &run, run.entry, &[]).unwrap();
        entries.push(run.entry);
    }
    let mut run = world.run(&source);
    entries.push(failed(&mut run));
    let applied = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (world, entries, applied) = (&world, &entries, &applied);
            scope.spawn(move || {
                let mut exec = world.database.client(Login::Exec);
                let mut reviewer = world.database.client(Login::Review);
                let manifest = digest("manifest");
                let mut seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(connection as u64 + 1);
                for turn in 0..OPERATIONS {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    let entry = entries[(seed >> 8) as usize % entries.len()];
                    let outcome = match seed % 9 {
                        0..=2 => sweep_pass(&mut exec, id(), DOCUMENT),
                        3 => requeue(&mut reviewer, entry),
                        4 | 5 => approve(&mut reviewer, id(), entry).map(|id| id.to_string()),
                        6 => review(&mut reviewer, id(), entry, "defer", &manifest),
                        // Late, so that there is something to do before.
                        7 if turn > 40 => abandon(&mut reviewer, entry, "given up"),
                        8 if turn > 40 => review(&mut reviewer, id(), entry, "reject", &manifest),
                        _ => transition(&mut exec, entry, S::ReviewedApproved, S::CutInProgress),
                    };
                    match outcome {
                        Ok(_) => drop(applied.fetch_add(1, Ordering::Relaxed)),
                        Err((code, message)) => {
                            let lost = ["CUC04", "CUC09", "CUC10", "CUD03", "CU005", "40P01", "55P03"];
                            assert!(lost.contains(&code.as_str()), "{code} {message}");
                        }
                    }
                }
            });
        }
    });
    assert!(applied.load(Ordering::Relaxed) > OPERATIONS, "{applied:?}");
    let all = every_audit_is_green(&world);
    assert_eq!(all.len(), entries.len() + 1);
    let moves: usize = all.iter().map(|entry| entry.history.len()).sum();
    assert!(moves > 20, "{moves} moves");
}

#[test]
fn one_of_many_cuts_and_one_of_many_verdicts_stands() {
    let world = World::new();
    let run = at(&world, S::ReviewedApproved);
    let ports: Vec<_> = (0..4).map(|_| support::port_of(&world.database)).collect();
    let sets: Vec<Uuid> = ports.iter().map(|_| id()).collect();
    let race = |of: &(dyn Fn(usize) -> Option<bool> + Sync)| -> Vec<Option<bool>> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..ports.len()).map(|i| scope.spawn(move || of(i))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    // True: written now; false: recorded before; none: refused.
    let finish = |begun: cutter_core::port::PortResult<Begun>, verdict| match begun {
        Ok(Begun::Pending(pending)) => block_on(pending.finish(verdict)).ok().map(|_| true),
        Ok(Begun::Recorded(_)) => Some(false),
        Err(error) => {
            assert!(matches!(error.kind, K::Conflict | K::Unavailable), "{error}");
            None
        }
    };
    let cuts = race(&|i| {
        let mut write = run.leg_a_write();
        write.change_set_id = sets[i];
        write.signature.signature_id = if i == 0 { run.executor_signature } else { id() };
        let begun = block_on(Executor::begin(&ports[i], &run.cx(N::LegA, "payload"), &E::LegA(write)));
        finish(begun, Verdict::Commit)
    });
    assert_eq!(cuts.iter().filter(|cut| **cut == Some(true)).count(), 1, "{cuts:?}");
    let standing = entry(&world, run.entry);
    assert_eq!((standing.status, standing.change_sets.len()), (S::CutApplied, 1));
    let set = standing.change_sets[0].change_set_id;
    let mut envelope = run.leg_b_write();
    envelope.change_set_id = set;
    envelope.executor_signature_id = standing.signatures[0].signature_id;
    run.commit(run.exec(N::LegB, E::LegB(envelope.clone())));
    let mut second = run.cx(N::LegB, "another");
    second.key.occurrence = 2;
    second.effect_id = id();
    envelope.manifest_envelope_id = id();
    let again = block_on(Executor::begin(&world.port, &second, &E::LegB(envelope)));
    assert_eq!(refused(again).kind, K::Conflict, "G-LEG-B-ONCE");
    let verdicts = race(&|i| {
        let mut write = run.verify_write();
        write.change_set_id = set;
        let begun = block_on(Verifier::begin(&ports[i], &run.cx(N::WriteVerify, "payload"), &write));
        finish(begun, if i % 2 == 0 { Verdict::Commit } else { Verdict::CommitFailure })
    });
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Some(true)).count(), 1, "{verdicts:?}");
    let all = every_audit_is_green(&world);
    let verdict = all.iter().find(|e| e.entry_id == run.entry).unwrap().change_sets[0].verdict.unwrap();
    assert_eq!(all.len(), if verdict.has_passed { 1 } else { 2 }, "a failure leaves its escalation entry");
    let audited = entry(&world, run.entry);
    let asked = Operation::Verify {
        verify_result_id: id(),
        change_set_id: set,
        principal: "cutter_verify".to_owned(),
        has_passed: verdict.has_passed,
        compensating_id: None,
        escalation_entry_id: None,
    };
    assert_eq!(judge(&audited, &asked), Judgement::Replay(Some(verdict.id)));
}

#[test]
fn observers_see_no_payload() {
    let world = World::new();
    at(&world, S::VerifiedComplete);
    for login in [Login::Ro, Login::Directus, Login::Review] {
        let mut client = world.database.client(login);
        for view in ["entry", "history", "decision", "cut", "signature"] {
            let rows =
                client.query(&format!("SELECT * FROM cutter_governance.v_backlog_{view}"), &[]).unwrap();
            assert!(!rows.is_empty(), "{login} {view}");
            for column in rows[0].columns() {
                assert!(
                    !["payload", "signature", "document", "nonce", "detail", "envelope"]
                        .contains(&column.name()),
                    "{view}.{}",
                    column.name()
                );
            }
        }
    }
    let mut directus = world.database.client(Login::Directus);
    for table in ["decision_backlog_history", "dot_pair_signature", "review_approval"] {
        let read = directus.query(&format!("SELECT * FROM cutter_governance.{table}"), &[]).unwrap_err();
        assert_eq!(refusal(read).0, "42501", "{table}");
    }
}
