//! Many reviewers, executors and verifiers at once on the same entries: one winner each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backlog_support;
mod support;

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};

use backlog_support::*;
use cutter_core::machine::backlog::BacklogState as S;
use cutter_pg::login::Login;
use postgres::Client;
use support::{World, digest, id};
use uuid::Uuid;

const CONNECTIONS: usize = 64;
const ENTRIES: usize = 50;
/// Each connection's; together more than a thousand.
const TURNS: usize = 16;

/// Statements as one transaction: nothing of it, or all.
fn all_or_none(client: &mut Client, statements: &[String]) -> Result<(), (String, String)> {
    client.batch_execute("BEGIN").unwrap();
    let outcome = statements
        .iter()
        .try_for_each(|s| client.batch_execute(s))
        .and_then(|()| client.batch_execute("COMMIT"))
        .map_err(refusal);
    client.batch_execute("ROLLBACK").unwrap();
    outcome
}

fn step(entry: Uuid, from: &str, to: &str, set: Uuid) -> String {
    format!(
        "SELECT cutter_governance.fn_backlog_transition('{entry}', '{from}', '{to}', '{}', 'me', 'x', NULL, '{set}',
             NULL, now())",
        id()
    )
}

fn sign(duty: &str, run: &str, set: Uuid, signature: Uuid) -> String {
    let (key, bytes) = ("ab".repeat(32), "cd".repeat(64));
    format!(
        "SELECT cutter_governance.fn_signature_record('{signature}', '{run}', '{set}', '{duty}', '{{}}', '{key}',
             '{bytes}', now())"
    )
}

/// TXN-CUT and leg B by the executor, relying on the newest decision; nothing to do is a loss.
fn cut(client: &mut Client, entry: Uuid) -> Result<(), (String, String)> {
    let found = client
        .query_opt(
            "SELECT e.run_id, e.document_id, e.source_document_id, e.source_version_id, d.id, a.approval_id
             FROM cutter_governance.decision_backlog_entry e
             JOIN cutter_governance.review_decision d ON d.entry_id = e.entry_id
             JOIN cutter_governance.review_approval a ON a.review_decision_id = d.id
             WHERE e.entry_id = $1 ORDER BY d.at DESC, d.id DESC LIMIT 1",
            &[&entry],
        )
        .map_err(refusal)?;
    let Some(row) = found else { return Err(("CUC04".to_owned(), "nothing is approved".to_owned())) };
    let (run, document): (String, String) = (row.get(0), row.get(1));
    let ids: Vec<Uuid> = (2..6).map(|i| row.get(i)).collect();
    let (set, signature, hex) = (id(), id(), digest(&id().to_string()).to_hex());
    all_or_none(
        client,
        &[
            format!("SELECT iu_core.fn_document_lock('{document}')"),
            format!(
                "SELECT cutter_governance.fn_change_set_open('{set}', '{run}', '{document}', '{}', '{}', '{entry}', '{}',
                     '{}', '{hex}', '{hex}', '{hex}', '{hex}', 'act', 0, 'me', now())",
                ids[0], ids[1], ids[3], ids[2]
            ),
            sign("executor", &run, set, signature),
            step(entry, "reviewed_approved", "cut_in_progress", set),
            step(entry, "cut_in_progress", "cut_applied", set),
            format!(
                "SELECT cutter_governance.fn_envelope_record('{}', '{set}', '{run}', '{entry}', '{signature}', '{{}}', 0,
                     'me', now())",
                id()
            ),
        ],
    )
}

/// TXN-VERIFY, passed or failed.
fn verify(client: &mut Client, entry: Uuid, passes: bool) -> Result<(), (String, String)> {
    let found = client
        .query_opt(
            "SELECT m.change_set_id, m.id, c.run_id, c.document_id FROM cutter_governance.manifest_envelope m
             JOIN cutter_governance.cut_change_set c USING (change_set_id) WHERE m.entry_id = $1",
            &[&entry],
        )
        .map_err(refusal)?;
    let Some(row) = found else { return Err(("CUC04".to_owned(), "nothing is cut".to_owned())) };
    let (set, envelope): (Uuid, Uuid) = (row.get(0), row.get(1));
    let (run, document): (String, String) = (row.get(2), row.get(3));
    let (compensating, escalation) = (id(), id());
    let mut statements = vec![format!("SELECT iu_core.fn_document_lock('{document}')")];
    if !passes {
        statements.push(format!(
            "SELECT cutter_governance.fn_verify_escalate('{compensating}', '{set}', '{escalation}', '{}', '{run}', 'me',
                 now())",
            id()
        ));
    }
    let names = if passes { "NULL, NULL".to_owned() } else { format!("'{compensating}', '{escalation}'") };
    statements.push(format!(
        "INSERT INTO cutter_governance.verify_result (id, change_set_id, run_id, manifest_envelope_id, entry_id, passed,
             compensating_id, escalation_entry_id, actor, at)
         VALUES ('{}', '{set}', '{run}', '{envelope}', '{entry}', {passes}, {names}, 'me', now())",
        id()
    ));
    statements.push(sign("verifier", &run, set, id()));
    statements.push(step(entry, "cut_applied", "verify_in_progress", set));
    let end = if passes { "verified_complete" } else { "verify_failed_escalated" };
    statements.push(step(entry, "verify_in_progress", end, set));
    all_or_none(client, &statements)
}

fn race(seed: u64) {
    let world = World::new();
    // What is raced for is the backlog: these cuts have no units, and their consents name none.
    let tables = [
        "cut_change_set DISABLE TRIGGER trg_rows_approved",
        "verify_result DISABLE TRIGGER trg_rows_approved",
        "approval_use DISABLE TRIGGER trg_rows_approved",
        "approval_use DISABLE TRIGGER trg_ask_heard",
    ]
    .map(|what| format!("ALTER TABLE cutter_governance.{what}"));
    world.database.client(Login::Admin).batch_execute(&tables.join(";")).unwrap();
    let mut exec = world.database.client(Login::Exec);
    let mut entries = Vec::new();
    for n in 0..ENTRIES {
        let document = format!("MANY-{n}");
        let source = world.register_as(&document, &[format!("Text {n}.\n")]);
        let run = world.run(&source);
        mark_once(&mut exec, &run, run.entry, &[]).unwrap();
        sweep_pass(&mut exec, id(), &document).unwrap();
        entries.push(run.entry);
    }
    let barrier = Barrier::new(CONNECTIONS);
    let won: Mutex<BTreeMap<(&str, Uuid), usize>> = Mutex::default();
    let odd: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (world, entries, barrier, won, odd) = (&world, &entries, &barrier, &won, &odd);
            scope.spawn(move || {
                let (what, login) =
                    [("review", Login::Review), ("cut", Login::Exec), ("verify", Login::Verify)]
                        [connection % 3];
                let mut client = world.database.client(login);
                let mut dice = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (connection as u64 + 1) << 32;
                for _ in 0..TURNS {
                    // All at once, turn by turn.
                    barrier.wait();
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    let entry = entries[(dice >> 16) as usize % entries.len()];
                    let outcome = match what {
                        "review" if dice.is_multiple_of(8) => {
                            review(&mut client, id(), entry, "reject", &digest("manifest")).map(|_| ())
                        }
                        "review" => approve(&mut client, id(), entry).map(|_| ()),
                        "cut" => cut(&mut client, entry),
                        _ => verify(&mut client, entry, !dice.is_multiple_of(8)),
                    };
                    match outcome {
                        Ok(()) => *won.lock().unwrap().entry((what, entry)).or_default() += 1,
                        Err((code, message)) => {
                            let lost =
                                ["CUC04", "CUC09", "CUC10", "CUD03", "CU005", "23505", "40P01", "55P03"];
                            if !lost.contains(&code.as_str()) {
                                odd.lock().unwrap().push(format!("{what}: {code} {message}"));
                            }
                        }
                    }
                }
            });
        }
    });
    let odd = odd.into_inner().unwrap();
    assert!(odd.is_empty(), "seed {seed}: {odd:?}");
    let won = won.into_inner().unwrap();
    let all = every_audit_is_green(&world);
    let failed = all.iter().filter(|e| e.escalates.is_some()).count();
    assert_eq!(all.len(), ENTRIES + failed, "seed {seed}");
    for entry in &all {
        let count = |what: &'static str| won.get(&(what, entry.entry_id)).copied().unwrap_or(0);
        let moves = |state: S| entry.history.iter().filter(|row| row.to_state == state).count();
        assert_eq!(count("cut"), entry.change_sets.len(), "seed {seed}: {entry:?}");
        assert_eq!(count("cut"), moves(S::CutApplied), "seed {seed}");
        assert_eq!(
            count("verify"),
            moves(S::VerifiedComplete) + moves(S::VerifyFailedEscalated),
            "seed {seed}"
        );
        assert!(count("cut") <= 1 && count("verify") <= count("cut"), "seed {seed}: {entry:?}");
        assert_eq!(
            moves(S::ReviewedApproved) + moves(S::ReviewedRejected),
            entry.decisions.len(),
            "seed {seed}"
        );
        assert!(entry.decisions.len() <= 1, "seed {seed}: {entry:?}");
    }
    let ends = |state: S| all.iter().filter(|e| e.status == state).count();
    assert!(ends(S::VerifiedComplete) > 5, "seed {seed}: too little happened");
}

#[test]
fn a_thousand_operations_over_sixty_four_connections_have_one_winner_each() {
    let seeds = if std::env::var_os("CUTTER_FULL").is_some() { 20 } else { 3 };
    for seed in 0..seeds {
        race(seed);
    }
}
