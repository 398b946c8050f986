//! The backlog's guards on a real server: the database answers as the core judges, no login makes
//! a forbidden move or writes around the functions, and no legal move stands without its records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backlog_support;
mod support;

use backlog_support::*;
use cutter_core::machine::backlog::{BACKLOG, BacklogState as S};
use cutter_core::port::PortErrorKind as K;
use cutter_core::record::backlog::{Judgement, Operation, Refusal, judge};
use cutter_core::record::effect::{EffectName as N, ExecutorEffect as E, ReviewVerdict};
use cutter_pg::login::Login;
use postgres::Client;
use support::{World, digest, id, refused, texts};
use uuid::Uuid;

#[test]
fn the_database_answers_as_the_core_judges() {
    let world = World::new();
    let mut reviewer = world.database.client(Login::Review);
    for state in committable() {
        let run = at(&world, state);
        let manifest = digest("manifest");
        let operation = |verdict, manifest_digest, has_consent| Operation::Review {
            decision_id: id(),
            verdict,
            manifest_digest,
            has_consent,
        };
        use ReviewVerdict as V;
        let operations = [
            Operation::Requeue,
            operation(V::Defer, manifest, false),
            operation(V::Reject, manifest, false),
            operation(V::Approve, manifest, false),
            operation(V::Defer, digest("another manifest"), false),
            Operation::Abandon { reason: "asked for".to_owned() },
            Operation::Abandon { reason: " ".to_owned() },
        ];
        for operation in operations {
            let before = entry(&world, run.entry);
            reviewer.batch_execute("BEGIN").unwrap();
            let outcome = match &operation {
                Operation::Requeue => requeue(&mut reviewer, run.entry),
                Operation::Review { decision_id, verdict, manifest_digest, .. } => {
                    review(&mut reviewer, *decision_id, run.entry, verdict.as_str(), manifest_digest)
                }
                Operation::Abandon { reason } => abandon(&mut reviewer, run.entry, reason),
                other => panic!("{other:?}"),
            };
            let outcome = outcome.and_then(|answer| {
                reviewer.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").map_err(refusal)?;
                let status: String = reviewer
                    .query_one(
                        "SELECT status FROM cutter_governance.decision_backlog_entry WHERE entry_id = $1",
                        &[&run.entry],
                    )
                    .unwrap()
                    .get(0);
                Ok((answer, status))
            });
            reviewer.batch_execute("ROLLBACK").unwrap();
            match (judge(&before, &operation), outcome) {
                (Judgement::Apply(moves), Ok((_, status))) => {
                    assert_eq!(moves.last().unwrap().to.as_str(), status, "{state} {operation:?}");
                }
                (Judgement::Replay(standing), Ok((answer, status))) => {
                    assert_eq!(status, state.as_str());
                    if let Some(standing) = standing {
                        assert_eq!(answer, standing.to_string(), "{state} {operation:?}");
                    }
                }
                (Judgement::Refused(Refusal::Illegal(illegal)), Err((code, message))) => {
                    assert_eq!((code.as_str(), message), ("CUC09", illegal.to_string()), "{operation:?}");
                }
                (Judgement::Refused(Refusal::Rules(checks)), Err((code, message))) => {
                    let named = format!("{}: ", checks[0].invariant);
                    assert!(code == "CUC10" && message.starts_with(&named), "{code} {message}: {checks:?}");
                }
                (judged, answered) => panic!("{state} {operation:?}: {judged:?}, but {answered:?}"),
            }
            assert_eq!(entry(&world, run.entry), before);
        }
    }
    every_audit_is_green(&world);
}

#[test]
fn no_login_makes_a_forbidden_move() {
    let world = World::new();
    for from in committable() {
        let run = at(&world, from);
        for login in LOGINS {
            let mut client = world.database.client(login);
            for &to in S::ALL {
                if BACKLOG.check(from, to).is_ok() {
                    continue;
                }
                let (code, message) = transition(&mut client, run.entry, from, to).expect_err("accepted");
                match login {
                    Login::Ro => assert!(["42501", "25006"].contains(&code.as_str()), "{login} {from}->{to}"),
                    Login::Directus => assert_eq!(code, "42501", "{login} {from}->{to}"),
                    _ => assert_eq!(message, BACKLOG.check(from, to).unwrap_err().to_string(), "{code}"),
                }
            }
            // A phase cannot be skipped by saying that the entry is elsewhere, either.
            if matches!(login, Login::Exec | Login::Verify | Login::Review) {
                for (said, to) in BACKLOG.edges() {
                    if said != from {
                        let code = code(transition(&mut client, run.entry, said, to));
                        assert!(["CUC04", "CUD03"].contains(&code.as_str()), "{login} {said}->{to}: {code}");
                    }
                }
            }
        }
        assert_eq!(entry(&world, run.entry).status, from);
    }
    every_audit_is_green(&world);
}

#[test]
fn no_login_writes_around_the_functions() {
    let world = World::new();
    let run = at(&world, S::CutApplied);
    let before = every_audit_is_green(&world);
    let mut tried = 0;
    for login in LOGINS {
        let mut client = world.database.client(login);
        for table in [
            "decision_backlog_entry",
            "decision_backlog_history",
            "decision_backlog_sweep_log",
            "review_decision",
            "dot_pair_signature",
            "cut_change_set",
            "manifest_envelope",
        ] {
            let column = match table {
                "decision_backlog_entry" => "status",
                "cut_change_set" => "live",
                "decision_backlog_history" => "reason",
                _ => "at",
            };
            for statement in [
                format!("UPDATE cutter_governance.{table} SET {column} = {column}"),
                format!("DELETE FROM cutter_governance.{table}"),
                format!("TRUNCATE cutter_governance.{table} CASCADE"),
                format!("INSERT INTO cutter_governance.{table} SELECT * FROM cutter_governance.{table}"),
            ] {
                let (code, _) = refusal(client.batch_execute(&statement).unwrap_err());
                assert_eq!(code, "42501", "{login}: {statement}");
                tried += 1;
            }
        }
        // What the functions use among themselves is nobody's.
        let owned = ask(
            &mut client,
            "cutter_governance.fn_backlog_move($1, 'cut_applied', 'abandoned', $2, 'me', 'x', NULL, now())",
            &[&run.entry, &id()],
        );
        assert_eq!(code(owned), "42501", "{login}");
    }
    assert_eq!(tried, 5 * 7 * 4);
    assert_eq!(every_audit_is_green(&world), before);
}

/// Runs statements as one transaction; gives the refusal.
fn transaction(client: &mut Client, statements: &[String]) -> (String, String) {
    client.batch_execute("BEGIN").unwrap();
    let outcome = statements
        .iter()
        .try_for_each(|s| client.batch_execute(s))
        .and_then(|()| client.batch_execute("COMMIT"));
    client.batch_execute("ROLLBACK").unwrap();
    refusal(outcome.expect_err("it was committed"))
}

fn step(entry: Uuid, from: &str, to: &str, set: Option<Uuid>) -> String {
    let set = set.map_or("NULL".to_owned(), |set| format!("'{set}'"));
    format!(
        "SELECT cutter_governance.fn_backlog_transition('{entry}', '{from}', '{to}', '{}', 'me', 'x', NULL, {set},
             NULL, now())",
        id()
    )
}

#[test]
fn a_legal_move_without_its_records_is_not_committed() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let mut reviewer = world.database.client(Login::Review);
    let mut verifier = world.database.client(Login::Verify);
    let named = |(code, message): (String, String), wanted: &str, rule: &str| {
        assert!(code == wanted && message.contains(rule), "{code} {message}, expected {wanted} {rule}");
    };

    let marked = at(&world, S::Marked);
    let sweep = [step(marked.entry, "marked", "review_pending", None)];
    named(transaction(&mut exec, &sweep), "CUC10", "audit.sweeps");
    let give_up = [step(marked.entry, "marked", "abandoned", None)];
    named(transaction(&mut exec, &give_up), "CUD03", "relies on no approval");

    let waiting = at(&world, S::ReviewPending);
    let bare = [step(waiting.entry, "review_pending", "reviewed_approved", None)];
    named(transaction(&mut reviewer, &bare), "CUC10", "review.consent");
    let manifest = digest("manifest");
    named(
        review(&mut reviewer, id(), waiting.entry, "approve", &manifest).unwrap_err(),
        "CUC10",
        "review.consent",
    );

    let approved = at(&world, S::ReviewedApproved);
    let cut = |set| {
        [
            step(approved.entry, "reviewed_approved", "cut_in_progress", set),
            step(approved.entry, "cut_in_progress", "cut_applied", set),
        ]
    };
    named(transaction(&mut exec, &cut(None)), "CUC10", "G-VERIFY-CUT");

    let write = approved.leg_a_write();
    let open = format!(
        "SELECT cutter_governance.fn_change_set_open('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}',
             '{}', 'act', 1, 'me', now())",
        write.change_set_id,
        approved.run_id,
        approved.source.document,
        write.source_document_id,
        write.source_version_id,
        write.entry_id,
        write.approval_id,
        write.review_decision_id,
        write.idempotency_key,
        write.writer_digest,
        write.manifest_digest,
        write.region_sha
    );
    named(transaction(&mut exec, &[open]), "CUC10", "did not move by it");

    let applied = at(&world, S::CutApplied);
    named(transaction(&mut exec, &cut(Some(applied.change_set))), "CUC10", "G-VERIFY-CUT");
    let verdict = |passed: bool| {
        format!(
            "INSERT INTO cutter_governance.verify_result (id, change_set_id, run_id, manifest_envelope_id, entry_id,
                 passed, actor, at)
             VALUES ('{}', '{}', 'r', '{}', '{}', {passed}, 'me', now())",
            id(),
            applied.change_set,
            applied.envelope,
            applied.entry
        )
    };
    let verify = |end: &str| {
        [
            step(applied.entry, "cut_applied", "verify_in_progress", Some(applied.change_set)),
            step(applied.entry, "verify_in_progress", end, Some(applied.change_set)),
        ]
    };
    named(transaction(&mut verifier, &verify("verified_complete")), "CUC10", "G-VERIFY-CUT");
    named(transaction(&mut verifier, &verify("verify_failed_escalated")), "CUC10", "G-VERIFY-CUT");
    named(transaction(&mut verifier, &[verdict(true)]), "CUC10", "G-VERIFY-CUT");
    let mut unsigned = vec![verdict(true)];
    unsigned.extend(verify("verified_complete"));
    named(transaction(&mut verifier, &unsigned), "CUC10", "G-VERIFY-SOD");
    let escalate = format!(
        "SELECT cutter_governance.fn_verify_escalate('{}', '{}', '{}', '{}', '{}', 'me', now())",
        id(),
        applied.change_set,
        id(),
        id(),
        applied.run_id
    );
    let (code, _) = transaction(&mut verifier, &[escalate]);
    assert_eq!(code, "CUC10", "no escalation without a failed verdict");

    let again = format!(
        "INSERT INTO cutter_governance.cut_change_set (change_set_id, live, run_id, document_id, source_document_id,
             source_version_id, source_bytes, entry_id, approval_id, review_decision_id, idempotency_key, writer_digest,
             manifest_digest, region_sha, publication_type, unit_count, actor, at)
         SELECT '{}', false, run_id, document_id, source_document_id, source_version_id, source_bytes, entry_id,
             approval_id, review_decision_id, idempotency_key, writer_digest, manifest_digest, region_sha,
             publication_type, unit_count, actor, at
         FROM cutter_governance.cut_change_set WHERE change_set_id = '{}'",
        id(),
        applied.change_set
    );
    let (code, message) = transaction(&mut world.database.client(Login::Admin), &[again]);
    assert!(code == "23505" && message.contains("g_cut_once"), "{code} {message}");
    every_audit_is_green(&world);
}

#[test]
fn a_cut_waits_for_what_its_manifest_depends_on() {
    let world = World::new();
    let mut exec = world.database.client(Login::Exec);
    let first_source = world.register_as("X-LAW-FIRST", &texts(1));
    let second_source = world.register_as("X-LAW-SECOND", &texts(2));
    let mut first = world.run(&first_source);
    let mut second = world.run(&second_source);
    assert_eq!(code(mark_once(&mut exec, &second, second.entry, &[first.entry])), "CUC10", "no such entry");
    assert_eq!(code(mark_once(&mut exec, &second, second.entry, &[second.entry])), "CUC10", "itself");
    first.up_to_sg1();
    mark_once(&mut exec, &second, second.entry, &[first.entry]).unwrap();
    second.survey.entry_id = Some(second.entry);
    second.do_sweep();
    second.do_sg1();
    let error = refused(second.exec(N::LegA, E::LegA(second.leg_a_write())));
    assert!(error.kind == K::Waits && error.message.contains("G-CUT-DEPS"), "{error}");
    let cut = Operation::Cut { change_set_id: second.change_set, review_decision_id: second.cut_decision };
    let Judgement::Refused(refusal) = judge(&entry(&world, second.entry), &cut) else { panic!() };
    assert!(refusal.to_string().starts_with("G-CUT-DEPS: "), "{refusal}");
    first.do_leg_a();
    first.do_leg_b();
    first.do_verify();
    second.do_leg_a();
    second.do_leg_b();
    second.do_verify();
    every_audit_is_green(&world);
}

#[test]
fn a_superseded_approval_cuts_nothing() {
    let world = World::new();
    let run = at(&world, S::ReviewedApproved);
    let (mut exec, mut reviewer) = (world.database.client(Login::Exec), world.database.client(Login::Review));
    let manifest = digest("manifest");
    review(&mut reviewer, id(), run.entry, "defer", &manifest).unwrap();
    assert_eq!(refused(run.exec(N::LegA, E::LegA(run.leg_a_write()))).kind, K::Conflict, "deferred");
    sweep_pass(&mut exec, id(), &run.source.document).unwrap();
    approve(&mut reviewer, id(), run.entry).unwrap();
    let error = refused(run.exec(N::LegA, E::LegA(run.leg_a_write())));
    assert!(error.message.contains("G-CUT-APPROVED"), "{error}");
    assert_eq!(every_audit_is_green(&world)[0].status, S::ReviewedApproved);
}
