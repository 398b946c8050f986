//! The backlog on a real server: the core's judgements and the database's refusals are the same,
//! no login can make a forbidden move, operations are idempotent, and whatever many connections
//! do at once, every entry's state is rebuilt from its records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use cutter_core::backlog::{Entry, Judgement, Operation, Refusal, audit, judge};
use cutter_core::digest::Digest;
use cutter_core::machine::backlog::{BACKLOG, BacklogState as S};
use cutter_core::port::PortErrorKind as K;
use cutter_core::port::database::{
    Begun, EffectName as N, Executor, ExecutorEffect as E, ReviewVerdict, Verdict, Verifier,
};
use cutter_pg::login::Login;
use futures_executor::block_on;
use postgres::Client;
use support::{DOCUMENT, Run, World, digest, id, pending, refused, texts};
use uuid::Uuid;

type Outcome = Result<String, (String, String)>;

/// One text from one row, or code and message.
fn ask(client: &mut Client, sql: &str, params: &[&(dyn postgres::types::ToSql + Sync)]) -> Outcome {
    let row = client.query_one(&format!("SELECT ({sql})::text"), params).map_err(refusal)?;
    Ok(row.get::<_, Option<String>>(0).unwrap_or_default())
}

fn refusal(error: postgres::Error) -> (String, String) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}")).clone();
    (error.code().code().to_owned(), error.message().to_owned())
}

fn code(outcome: Outcome) -> String {
    outcome.expect_err("it was accepted").0
}

fn mark_once(client: &mut Client, run: &Run<'_>, entry: Uuid, depends_on: &[Uuid]) -> Outcome {
    let write = run.mark_write();
    ask(
        client,
        "cutter_governance.fn_backlog_mark_once($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10, 'me', 'marked', now())",
        &[
            &entry,
            &id(),
            &run.run_id.as_str(),
            &run.source.document,
            &write.source_document_id,
            &write.source_version_id,
            &write.idempotency_key.to_hex(),
            &write.region_sha.to_hex(),
            &write.manifest_digest.to_hex(),
            &depends_on.to_vec(),
        ],
    )
}

fn sweep_pass(client: &mut Client, sweep: Uuid, document: &str) -> Outcome {
    ask(client, "cutter_governance.fn_backlog_sweep_pass($1, $2, 'me', now())", &[&sweep, &document])
}

fn requeue(client: &mut Client, entry: Uuid) -> Outcome {
    ask(
        client,
        "cutter_governance.fn_backlog_requeue($1, $2, $3, 'looked at it', 'me', now())",
        &[&id(), &entry, &id()],
    )
}

fn review(client: &mut Client, decision: Uuid, entry: Uuid, verdict: &str, manifest: &Digest) -> Outcome {
    ask(
        client,
        "cutter_governance.fn_backlog_review($1, $2, $3, $4, $5, 'because', $6, $7, 'me', now())",
        &[
            &decision,
            &entry,
            &verdict,
            &manifest.to_hex(),
            &id(),
            &decision.to_string(),
            &digest("request").to_hex(),
        ],
    )
}

/// The reviewer's approval with its signed answer, in one transaction.
fn approve(client: &mut Client, decision: Uuid, entry: Uuid) -> Result<Uuid, (String, String)> {
    client.batch_execute("BEGIN").unwrap();
    let outcome = review(client, decision, entry, "approve", &digest("manifest")).and_then(|_| {
        let approval = id();
        let document = format!("consent {approval}");
        client
            .execute(
                "INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id,
                     type, decision, approval_kb_id, document, sha256, nonce, fingerprint, actor, request_sha256, at)
                 SELECT $1, d.id, d.run_id, d.document_id, d.type, 'approve', 'kb', $3, $4, d.nonce, 'F00D', 'me',
                     d.request_sha256, d.at
                 FROM cutter_governance.review_decision d WHERE d.id = $2",
                &[&approval, &decision, &document.as_bytes(), &digest(&document).to_hex()],
            )
            .and_then(|_| client.batch_execute("COMMIT"))
            .map(|()| approval)
            .map_err(refusal)
    });
    if outcome.is_err() {
        client.batch_execute("ROLLBACK").unwrap();
    }
    outcome
}

fn abandon(client: &mut Client, entry: Uuid, reason: &str) -> Outcome {
    ask(client, "cutter_governance.fn_backlog_abandon($1, $2, $3, 'me', now())", &[&entry, &id(), &reason])
}

fn transition(client: &mut Client, entry: Uuid, from: S, to: S) -> Outcome {
    ask(
        client,
        "cutter_governance.fn_backlog_transition($1, $2, $3, $4, 'me', 'x', NULL, NULL, NULL, now())",
        &[&entry, &from.as_str(), &to.as_str(), &id()],
    )
}

fn entry(world: &World, entry: Uuid) -> Entry {
    let all = block_on(world.port.backlog(None)).unwrap();
    all.into_iter().find(|e| e.entry_id == entry).unwrap()
}

fn every_audit_is_green(world: &World) -> Vec<Entry> {
    let all = block_on(world.port.backlog(None)).unwrap();
    for entry in &all {
        let report = audit(entry);
        assert!(report.ok(), "{report:#?}");
    }
    all
}

/// A run whose verification fails; gives the escalation entry.
fn failed(run: &mut Run<'_>) -> Uuid {
    run.up_to_sg1();
    run.do_leg_a();
    run.do_leg_b();
    let write = run.verify_write();
    block_on(pending(run.verify(&write)).finish(Verdict::CommitFailure)).unwrap();
    write.escalation[0]
}

/// An entry at a state, by the operations that lead there.
fn at<'w>(world: &'w World, state: S) -> Run<'w> {
    let source = world.register_as(&format!("{DOCUMENT}-{}", state.code()), &texts(2));
    let mut run = world.run(&source);
    run.survey.entry_id = Some(run.entry);
    match state {
        S::Marked => drop(run.do_mark()),
        S::ReviewPending => {
            run.do_mark();
            run.do_sweep();
        }
        S::ReviewedApproved => run.up_to_sg1(),
        S::ReviewedDeferred | S::ReviewedRejected => {
            run.do_mark();
            run.do_sweep();
            let verdict =
                if state == S::ReviewedDeferred { ReviewVerdict::Defer } else { ReviewVerdict::Reject };
            run.commit(run.review(N::Sg1Review, &run.sg1_write(verdict)));
        }
        S::CutApplied => {
            run.up_to_sg1();
            run.do_leg_a();
            run.do_leg_b();
        }
        S::VerifiedComplete => run.up_to_verified(),
        S::VerifyFailedEscalated => drop(failed(&mut run)),
        S::Abandoned => {
            run.do_mark();
            abandon(&mut world.database.client(Login::Review), run.entry, "given up").unwrap();
        }
        S::CutInProgress | S::VerifyInProgress => panic!("never committed"),
    }
    assert_eq!(entry(world, run.entry).status, state);
    run
}

fn committable() -> impl Iterator<Item = S> {
    S::ALL.iter().copied().filter(|state| state.is_committable())
}

const LOGINS: [Login; 5] = Login::RUN_ROLES;

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
    assert!(error.kind == K::Conflict && error.message.contains("G-CUT-DEPS"), "{error}");
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
