//! Sweeps in batches through the port, whoever forges a promotion, and what lists and audits read
//! when very many entries are stored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backlog_support;
mod support;

use std::sync::atomic::{AtomicU64, Ordering};

use backlog_support::*;
use cutter_core::machine::backlog::BacklogState as S;
use cutter_core::port::PortErrorKind as K;
use cutter_core::port::backlog::{Backlog, BacklogQuery, SweepBatch, sweep_all};
use cutter_core::port::environment::{Clock, IdSource};
use cutter_core::record::backlog::audit;
use cutter_pg::login::Login;
use futures_executor::block_on;
use jiff::Timestamp;
use postgres::Client;
use postgres::types::ToSql;
use support::{AT, World, id, texts};
use uuid::Uuid;

/// A clock that stands and ids that count.
struct Fixed(AtomicU64);

#[async_trait::async_trait]
impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        AT.parse().unwrap()
    }
    async fn sleep(&self, _: u64) {}
}

impl IdSource for Fixed {
    fn uuid_v7(&self, _: Timestamp, purpose: &str) -> Uuid {
        assert!(purpose.starts_with("sweep "), "{purpose}");
        self.0.fetch_add(1, Ordering::Relaxed);
        id()
    }
    fn nonce(&self, _: &str) -> String {
        unreachable!("a sweep needs no nonce")
    }
}

/// Entries at S0 with their first row, as MARK leaves them, over so many documents.
fn fill(admin: &mut Client, entries: usize, documents: usize) {
    admin
        .batch_execute(&format!(
            "BEGIN; SET LOCAL session_replication_role = replica;
             INSERT INTO iu_core.source_document (source_document_id, document_id, title, registered_by)
             SELECT md5('d' || i)::uuid, 'FILL-' || i, 't', 'me' FROM generate_series(1, {documents}) i;
             INSERT INTO iu_core.source_version (source_version_id, source_document_id, version_no, sha256, byte_length,
                 content, registered_by)
             SELECT md5('v' || i)::uuid, md5('d' || i)::uuid, 1, encode(sha256('x'), 'hex'), 1, 'x', 'me'
             FROM generate_series(1, {documents}) i;
             INSERT INTO cutter_governance.decision_backlog_entry (entry_id, run_id, document_id, source_document_id,
                 source_version_id, status, idempotency_key, region_sha, manifest_digest, candidate_count, actor, at)
             SELECT ('0190' || lpad(to_hex(i), 8, '0') || '7000' || left(md5('e' || i), 16))::uuid, 'r' || i,
                 'FILL-' || (i % {documents} + 1), md5('d' || (i % {documents} + 1))::uuid,
                 md5('v' || (i % {documents} + 1))::uuid, 'marked', encode(sha256(i::text::bytea), 'hex'),
                 encode(sha256('r'), 'hex'), encode(sha256('m'), 'hex'), 40, 'me', now()
             FROM generate_series(1, {entries}) i;
             INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, to_state, actor, reason, at)
             SELECT gen_random_uuid(), e.entry_id, 'marked', 'me', 'marked', e.at
             FROM cutter_governance.decision_backlog_entry e;
             COMMIT;
             ANALYZE cutter_governance.decision_backlog_entry;
             ANALYZE cutter_governance.decision_backlog_history"
        ))
        .unwrap();
}

#[test]
fn a_sweep_goes_on_where_it_was_interrupted() {
    let world = World::new();
    fill(&mut world.database.client(Login::Admin), 250, 3);
    let first = SweepBatch {
        sweep_id: id(),
        document_id: "FILL-1".to_owned(),
        after: None,
        limit: 30,
        actor: "keeper".to_owned(),
        at: AT.parse().unwrap(),
    };
    let promoted = block_on(world.port.sweep(&first)).unwrap();
    assert!(promoted.len() == 30 && promoted.is_sorted(), "{promoted:?}");
    assert_eq!(block_on(world.port.sweep(&first)).unwrap(), promoted, "a known pass");
    let other = SweepBatch { document_id: "FILL-2".to_owned(), ..first.clone() };
    assert_eq!(block_on(world.port.sweep(&other)).unwrap_err().kind, K::Conflict);
    let absent = SweepBatch { sweep_id: id(), document_id: "ABSENT".to_owned(), ..first.clone() };
    assert_eq!(block_on(world.port.sweep(&absent)).unwrap_err().kind, K::NotFound);
    for limit in [0, 10_001] {
        let wrong = SweepBatch { sweep_id: id(), limit, ..first.clone() };
        assert_eq!(block_on(world.port.sweep(&wrong)).unwrap_err().kind, K::Invalid);
    }
    let ids = Fixed(AtomicU64::new(0));
    let mut seen = 0;
    let totals =
        block_on(sweep_all(&world.port, (&ids, &ids), None, 40, "keeper", &mut |batch, promoted| {
            assert!(promoted.len() <= batch.limit as usize);
            seen += promoted.len() as u64;
        }))
        .unwrap();
    assert_eq!((totals.promoted, seen, totals.documents), (220, 220, 3));
    assert_eq!(totals.passes, ids.0.load(Ordering::Relaxed));
    let again = block_on(sweep_all(&world.port, (&ids, &ids), None, 40, "keeper", &mut |_, _| {})).unwrap();
    assert_eq!((again.promoted, again.passes), (0, 0), "nothing is left to promote");
    assert_eq!(
        world.count("SELECT count(*) FROM cutter_governance.decision_backlog_sweep_log"),
        1 + i64::try_from(totals.passes).unwrap(),
        "one row a pass"
    );
    let one = Some("FILL-2");
    let named = block_on(sweep_all(&world.port, (&ids, &ids), one, 40, "keeper", &mut |_, _| {})).unwrap();
    assert_eq!((named.documents, named.passes, named.promoted), (1, 1, 0), "the named one alone");
    let all = every_audit_is_green(&world);
    assert!(all.len() == 250 && all.iter().all(|e| e.status == S::ReviewPending && e.promotions == 1));
    let left = "SELECT count(*) FROM cutter_governance.backlog_promotion_check";
    assert_eq!(world.count(left), 0, "no check is left behind");
}

/// What moves while a pass waits for it is not taken along.
#[test]
fn a_pass_takes_along_only_what_stands_as_it_was_listed() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    fill(&mut admin, 2, 1);
    let (moves, stays): (Uuid, Uuid) = {
        let sql = "SELECT min(e.entry_id::text)::uuid, max(e.entry_id::text)::uuid
            FROM cutter_governance.decision_backlog_entry e";
        let row = admin.query_one(sql, &[]).unwrap();
        (row.get(0), row.get(1))
    };
    let mut sweeper = world.database.client(Login::Exec);
    let pid: i32 = sweeper.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let mut mover = world.database.client(Login::Admin);
    mover
        .batch_execute(&format!(
            "BEGIN; SET LOCAL session_replication_role = replica;
             UPDATE cutter_governance.decision_backlog_entry SET status = 'abandoned' WHERE entry_id = '{moves}';
             INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state, actor, reason, at)
             VALUES ('{}', '{moves}', 'marked', 'abandoned', 'me', 'why', now())",
            id()
        ))
        .unwrap();
    let promoted = std::thread::scope(|scope| {
        let pass = scope.spawn(|| sweep_pass(&mut sweeper, id(), "FILL-1"));
        let waits = "SELECT EXISTS (SELECT FROM pg_locks l WHERE l.pid = $1 AND NOT l.granted)";
        while !pass.is_finished() && !admin.query_one(waits, &[&pid]).unwrap().get::<_, bool>(0) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        mover.batch_execute("COMMIT").unwrap();
        pass.join().unwrap()
    });
    assert_eq!(promoted, Ok(format!("{{{stays}}}")));
    assert_eq!([moves, stays].map(|e| entry(&world, e).status), [S::Abandoned, S::ReviewPending]);
    every_audit_is_green(&world);
}

/// As the administrator, past every function: what a transaction leaves behind is judged.
#[test]
fn no_promotion_is_forged_one_by_one_or_by_the_hundred() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    fill(&mut admin, 100, 2);
    let some =
        "(SELECT e.entry_id FROM cutter_governance.decision_backlog_entry e ORDER BY e.entry_id LIMIT $N)";
    let update = "UPDATE cutter_governance.decision_backlog_entry SET status = 'review_pending'
        WHERE entry_id IN $SOME";
    let history =
        "INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state,
            actor, reason, at, detail)
        SELECT gen_random_uuid(), s.entry_id, 'marked', 'review_pending', 'me', 'sweep', now(),
            '{\"sweep_id\": \"01900000-aaaa-7000-8000-000000000000\"}' FROM $SOME s";
    let log = "INSERT INTO cutter_governance.decision_backlog_sweep_log
        SELECT CASE d.document_id WHEN 'FILL-1' THEN '01900000-aaaa-7000-8000-000000000000'::uuid
            ELSE gen_random_uuid() END, NULL, d.document_id,
            ARRAY(SELECT e.entry_id FROM cutter_governance.decision_backlog_entry e
                  WHERE e.document_id = d.document_id AND e.entry_id IN $SOME), 'me', now()
        FROM iu_core.source_document d";
    let elsewhere = log.replace("e.document_id = d.document_id", "e.document_id <> d.document_id");
    let partly = log.replace(
        "e.entry_id IN $SOME",
        "e.entry_id IN $SOME AND e.entry_id <> (SELECT min(x::text)::uuid
        FROM (SELECT y.entry_id AS x FROM cutter_governance.decision_backlog_entry y) z)",
    );
    let touched =
        "UPDATE cutter_governance.decision_backlog_entry SET status = 'review_pending', actor = 'forger'
        WHERE entry_id IN $SOME";
    let undone = "DELETE FROM cutter_governance.backlog_promotion_check";
    let cases: &[(&[&str], &str)] = &[
        (&[update], "CU005"),
        (&[history], "CU005"),
        (&[log, history], "CU005"),
        (&[update, history], "CUC10"),
        (&[history, update], "CUC10"),
        (&[update, history, history, log], "CU005"),
        (&[update, history, &elsewhere], "CUC10"),
        (&[update, history, &partly], "CUC10"),
        (&[touched, history, log], "CU003"),
        (&[update, undone, history], "CU001"),
    ];
    for n in [1, 2, 100] {
        for (statements, wanted) in cases {
            admin.batch_execute("BEGIN").unwrap();
            let outcome = statements
                .iter()
                .map(|s| s.replace("$SOME", some).replace("$N", &n.to_string()))
                .try_for_each(|s| admin.batch_execute(&s))
                .and_then(|()| admin.batch_execute("COMMIT"));
            admin.batch_execute("ROLLBACK").unwrap();
            let (code, message) = refusal(outcome.expect_err("it was committed"));
            assert_eq!(&code, wanted, "{n}: {message}: {statements:?}");
        }
    }
    assert!(every_audit_is_green(&world).iter().all(|e| e.status == S::Marked));
    // In whatever order, with all its records it is a promotion.
    admin.batch_execute("BEGIN").unwrap();
    for statement in [history, log, update] {
        admin.batch_execute(&statement.replace("$SOME", some).replace("$N", "100")).unwrap();
    }
    admin.batch_execute("COMMIT").unwrap();
    assert!(every_audit_is_green(&world).iter().all(|e| e.status == S::ReviewPending));
    // And past the triggers, the audit finds it.
    admin
        .batch_execute(
            "BEGIN; SET LOCAL session_replication_role = replica;
             UPDATE cutter_governance.decision_backlog_entry SET status = 'reviewed_approved'
             WHERE document_id = 'FILL-1'; COMMIT",
        )
        .unwrap();
    let query = BacklogQuery { limit: 1_000, ..BacklogQuery::default() };
    let broken = block_on(world.port.entries(&query)).unwrap().iter().filter(|e| !audit(e).ok()).count();
    assert_eq!(broken, 50);
}

/// The plan as text, for the message of a failure.
fn plan(client: &mut Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> String {
    let rows = client.query(&format!("EXPLAIN (ANALYZE, BUFFERS) {sql}"), params).unwrap();
    rows.iter().map(|row| format!("\n{}", row.get::<_, String>(0))).collect()
}

/// Buffers that a query reads, as the server counts.
fn buffers(client: &mut Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> u64 {
    let row = client.query_one(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"), params).unwrap();
    let plan: serde_json::Value = row.get(0);
    let of = |key: &str| plan[0]["Plan"][key].as_u64().unwrap();
    of("Shared Hit Blocks") + of("Shared Read Blocks")
}

#[test]
fn pages_read_what_they_hold_however_much_is_stored() {
    let stored = if std::env::var_os("CUTTER_FULL").is_some() { 1_000_000 } else { 20_000 };
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    fill(&mut admin, stored, 7);
    // A rare state among very many.
    let ids = Fixed(AtomicU64::new(0));
    let rare = SweepBatch {
        sweep_id: ids.uuid_v7(AT.parse().unwrap(), "sweep "),
        document_id: "FILL-3".to_owned(),
        after: None,
        limit: 20,
        actor: "keeper".to_owned(),
        at: AT.parse().unwrap(),
    };
    block_on(world.port.sweep(&rare)).unwrap();
    admin.batch_execute("VACUUM ANALYZE cutter_governance.decision_backlog_entry").unwrap();
    let middle = format!("0190{:08x}-7000-8000-000000000000", stored / 2);
    let middle = format!("{}-{}-{}", &middle[..8], &middle[8..12], &middle[13..]);
    let mut ro = world.database.client(Login::Ro);
    for status in [None, Some(S::ReviewPending), Some(S::Marked), Some(S::VerifiedComplete)] {
        for document_id in [None, Some("FILL-3".to_owned())] {
            for after in [None, Some(middle.parse::<Uuid>().unwrap())] {
                let query = BacklogQuery { status, document_id: document_id.clone(), after, limit: 50 };
                let rows = block_on(world.port.list(&query)).unwrap();
                assert!(rows.is_sorted_by_key(|row| row.entry_id) && rows.len() <= 50);
                assert!(rows.iter().all(|r| status.is_none_or(|s| r.status == s)
                    && document_id.as_ref().is_none_or(|d| r.document_id == *d)
                    && after.is_none_or(|a| r.entry_id > a)));
                let (sql, params) = cutter_pg::backlog::list_statement(&query);
                let params: Vec<&(dyn ToSql + Sync)> =
                    params.iter().map(|p| p.as_ref() as &(dyn ToSql + Sync)).collect();
                let read = buffers(&mut ro, &sql, &params);
                assert!(
                    read < 800,
                    "{query:?} read {read} buffers of {stored} entries: {}",
                    plan(&mut ro, &sql, &params)
                );
            }
        }
    }
    let page = BacklogQuery { limit: 50, ..BacklogQuery::default() };
    assert!(block_on(world.port.entries(&page)).unwrap().iter().all(|e| audit(e).ok()));
    let one = block_on(world.port.list(&page)).unwrap()[0].entry_id;
    assert_eq!(block_on(world.port.show(one)).unwrap().unwrap().entry.history.len(), 1);
    for view in ["entry", "history", "decision", "cut", "signature"] {
        let sql = format!("SELECT * FROM cutter_governance.v_backlog_{view} WHERE entry_id = '{one}'");
        let read = buffers(&mut ro, &sql, &[]);
        assert!(read < 60, "{view}: {read} buffers");
    }
    let sql = format!("SELECT * FROM cutter_governance.fn_backlog_promotions(ARRAY['{one}'::uuid])");
    // The first call reads the catalogue.
    buffers(&mut ro, &sql, &[]);
    let read = buffers(&mut ro, &sql, &[]);
    assert!(read < 60, "promotions: {read} buffers");
}

#[test]
fn what_is_not_there_is_said() {
    let world = World::new();
    assert_eq!(block_on(world.port.show(id())).unwrap(), None);
    assert_eq!(block_on(world.port.history(id())).unwrap_err().kind, K::NotFound);
    assert_eq!(block_on(world.port.promotable(None)).unwrap(), None);
    let source = world.register_as("X", &texts(1));
    let mut run = world.run(&source);
    run.do_mark();
    assert_eq!(block_on(world.port.promotable(None)).unwrap().as_deref(), Some("X"));
    assert_eq!(block_on(world.port.promotable(Some("X"))).unwrap(), None);
    assert_eq!(block_on(world.port.history(run.entry)).unwrap().len(), 1);
}
