//! The backlog's functions as a login calls them, and entries at any state.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use cutter_core::base::digest::Digest;
use cutter_core::machine::backlog::BacklogState as S;
use cutter_core::port::backlog::{Backlog, BacklogQuery};
use cutter_core::record::backlog::{Entry, audit};
use cutter_core::record::effect::{EffectName as N, ReviewVerdict, Verdict};
use cutter_pg::login::Login;
use futures_executor::block_on;
use postgres::Client;
use uuid::Uuid;

use crate::support::{DOCUMENT, Run, World, digest, id, pending, texts};

pub type Outcome = Result<String, (String, String)>;

/// One text from one row, or code and message.
pub fn ask(client: &mut Client, sql: &str, params: &[&(dyn postgres::types::ToSql + Sync)]) -> Outcome {
    let row = client.query_one(&format!("SELECT ({sql})::text"), params).map_err(refusal)?;
    Ok(row.get::<_, Option<String>>(0).unwrap_or_default())
}

pub fn refusal(error: postgres::Error) -> (String, String) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}")).clone();
    (error.code().code().to_owned(), error.message().to_owned())
}

pub fn code(outcome: Outcome) -> String {
    outcome.expect_err("it was accepted").0
}

pub fn mark_once(client: &mut Client, run: &Run<'_>, entry: Uuid, depends_on: &[Uuid]) -> Outcome {
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

pub fn sweep_pass(client: &mut Client, sweep: Uuid, document: &str) -> Outcome {
    ask(client, "cutter_governance.fn_backlog_sweep_pass($1, $2, 'me', now())", &[&sweep, &document])
}

pub fn requeue(client: &mut Client, entry: Uuid) -> Outcome {
    ask(
        client,
        "cutter_governance.fn_backlog_requeue($1, $2, $3, 'looked at it', 'me', now())",
        &[&id(), &entry, &id()],
    )
}

pub fn review(client: &mut Client, decision: Uuid, entry: Uuid, verdict: &str, manifest: &Digest) -> Outcome {
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
pub fn approve(client: &mut Client, decision: Uuid, entry: Uuid) -> Result<Uuid, (String, String)> {
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

pub fn abandon(client: &mut Client, entry: Uuid, reason: &str) -> Outcome {
    ask(client, "cutter_governance.fn_backlog_abandon($1, $2, $3, 'me', now())", &[&entry, &id(), &reason])
}

pub fn transition(client: &mut Client, entry: Uuid, from: S, to: S) -> Outcome {
    ask(
        client,
        "cutter_governance.fn_backlog_transition($1, $2, $3, $4, 'me', 'x', NULL, NULL, NULL, now())",
        &[&entry, &from.as_str(), &to.as_str(), &id()],
    )
}

pub fn entry(world: &World, entry: Uuid) -> Entry {
    block_on(world.port.show(entry)).unwrap().unwrap().entry
}

pub fn every_audit_is_green(world: &World) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let query =
            BacklogQuery { after: all.last().map(|e| e.entry_id), limit: 100, ..BacklogQuery::default() };
        let page = block_on(world.port.entries(&query)).unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    for entry in &all {
        let report = audit(entry);
        assert!(report.ok(), "{report:#?}");
    }
    all
}

/// A run whose verification fails; gives the escalation entry.
pub fn failed(run: &mut Run<'_>) -> Uuid {
    run.up_to_sg1();
    run.do_leg_a();
    run.do_leg_b();
    let write = run.verify_write();
    block_on(pending(run.verify(&write)).finish(Verdict::CommitFailure)).unwrap();
    write.escalation[0]
}

/// An entry at a state, by the operations that lead there.
pub fn at<'w>(world: &'w World, state: S) -> Run<'w> {
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

pub fn committable() -> impl Iterator<Item = S> {
    S::ALL.iter().copied().filter(|state| state.is_committable())
}

pub const LOGINS: [Login; 5] = Login::RUN_ROLES;
