//! What one login can do with psql: it uses an approval with its effect, whole, or not at all, marks in no other
//! run's name, stores no time that no clock shows, and reads documents as whoever judges them does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_core::record::approval::parse_field;
use cutter_pg::login::Login;
use cutter_pg::testing::DEFERRED_CHECKS;
use postgres::Client;
use support::{World, id};

const RUN: &str = "ictr-20260520T101112Z-01970000-0000-7000-8000-00000000aaaa";
const FACTS: &str = r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {}}"#;

fn refused(client: &mut Client, call: &str) -> (String, String) {
    client.batch_execute("BEGIN").unwrap();
    let outcome = client.batch_execute(call).and_then(|()| client.batch_execute("COMMIT"));
    client.batch_execute("ROLLBACK").unwrap();
    let error = outcome.expect_err(call);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{call}: {error:?}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

/// An approval that is used is used up by its effect, in one transaction: who uses it and goes away closes no
/// ask, and enacts nothing later, nor a part.
#[test]
fn an_approval_is_used_by_the_transaction_that_carries_it_out() {
    let world = World::new();
    let mut run = world.run(&world.register(3));
    run.up_to_verified();
    run.do_sg2();
    let mut admin = world.database.client(Login::Admin);
    let one = |admin: &mut Client, sql: &str| -> String { admin.query_one(sql, &[]).unwrap().get(0) };
    let approval = one(
        &mut admin,
        "SELECT approval_id::text FROM cutter_governance.review_approval WHERE type = 'lifecycle_enactment'",
    );
    let unit = one(&mut admin, "SELECT unit_id::text FROM iu_core.information_unit ORDER BY unit_id LIMIT 1");
    let (run_id, fence, document) = (run.run_id.clone(), run.fence.clone(), run.source.document.clone());
    let take = |effect: &str| {
        format!(
            "SELECT cutter_governance.fn_approval_use('{approval}', '{run_id}', 'enact', '{effect}', now())"
        )
    };
    let enact = format!("SELECT iu_core.fn_iu_enact('{unit}', '{approval}', '{run_id}', 'me', now())");
    let record = |effect: &str, facts: &str, n: u32| {
        format!(
            "SELECT cutter_governance.fn_run_effect_record('{run_id}', 'enact', {n}, '{effect}', {}, '{}',
                 repeat('0', 64), 'commit', '{facts}', 'me', now(), '{document}')",
            fence.epoch, fence.holder
        )
    };
    let mut exec = world.database.client(Login::Exec);
    let effect = id().to_string();
    assert_eq!(refused(&mut exec, &take(&effect)).0, "CUD02", "used, and nothing done");
    assert_eq!(refused(&mut exec, &format!("{}; {enact}", take(&effect))).0, "CUD02", "one unit of three");
    assert_eq!(
        refused(&mut exec, &format!("{}; {enact}; {}", take(&effect), record(&effect, FACTS, 1))).0,
        "CUD02"
    );
    let all = "SELECT iu_core.fn_iu_enact(unit_id, '{approval}', '{run_id}', 'me', now())
        FROM iu_core.information_unit"
        .replace("{approval}", &approval)
        .replace("{run_id}", run_id.as_str());
    for (facts, n) in [
        ("{}", 1),
        ("[]", 1),
        (FACTS, 2),
        (r#"{"survey_before": {"a": 1}, "survey_after": {}, "principal": "me", "values": {}}"#, 1),
        (r#"{"survey_before": {}, "survey_after": {"a": ["x"]}, "principal": "me", "values": {}}"#, 1),
        (r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {"a": null}}"#, 1),
        (r#"{"survey_before": [], "survey_after": {}, "principal": "me", "values": {}}"#, 1),
        (r#"{"survey_before": {}, "survey_after": {}, "principal": null, "values": {}}"#, 1),
        (
            r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {}, "structural": {}}"#,
            1,
        ),
        (r#"{"survey_before": {}, "survey_after": {}, "principal": "me", "values": {}, "structural": 7}"#, 1),
    ] {
        let whole = format!("{}; {all}; {}", take(&effect), record(&effect, facts, n));
        assert_eq!(refused(&mut exec, &whole).0, "CUD10", "{facts} {n}");
    }
    assert_eq!(world.count("SELECT count(*) FROM cutter_governance.approval_use WHERE effect = 'enact'"), 0);
    assert_eq!(
        world.count("SELECT count(*) FROM iu_core.information_unit WHERE lifecycle_status = 'enacted'"),
        0
    );
    run.do_enact();
    // past that, nothing that leads there is stored any more
    for effect in ["sweep", "sg2_request"] {
        let late = record(&id().to_string(), FACTS, 7).replace("'enact'", &format!("'{effect}'"));
        assert_eq!(refused(&mut exec, &late).0, "CUC20", "{effect}");
    }
}

/// A run has one entry of its own, of the document that it cuts; and no time is stored that no clock shows.
#[test]
fn no_login_marks_in_another_runs_name_or_at_a_time_that_nobody_reads() {
    let world = World::new();
    let mut run = world.run(&world.register(1));
    run.do_mark();
    let mut exec = world.database.client(Login::Exec);
    let mark = |run_id: &str, document: &str, at: &str| {
        format!(
            "SELECT cutter_governance.fn_backlog_mark('{}', '{}', '{run_id}', '{document}', e.source_document_id,
                 e.source_version_id, repeat('7', 64), e.region_sha, e.manifest_digest, 1, NULL, 'me', 'r', {at})
             FROM cutter_governance.decision_backlog_entry e",
            id(),
            id()
        )
    };
    let own = run.source.document.clone();
    assert_eq!(refused(&mut exec, &mark(run.run_id.as_str(), &own, "now()")).0, "CUC03", "a second entry");
    let other = RUN.replace("aaaa", "bbbb");
    let fence = format!("SELECT cutter_governance.fn_run_fence_take('{other}', 'OTHER', '{}')", id());
    exec.batch_execute(&fence).unwrap();
    assert_eq!(refused(&mut exec, &mark(&other, &own, "now()")).0, "CUC03", "another document");
    let free = RUN.replace("aaaa", "cccc");
    for at in ["'infinity'", "'-infinity'", "'20000-01-01Z'", "'4000-01-01 BC'"] {
        assert_eq!(refused(&mut exec, &mark(&free, &own, at)).0, "23514", "{at}");
    }
    let times = "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relowner = 'cutter_owner'::regrole AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND c.relname NOT IN ('information_unit', 'unit_version', 'iu_lifecycle_log')
            AND a.atttypid = 'timestamptz'::regtype AND NOT EXISTS (
                SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'
                    AND k.conname = left(c.relname || '_' || a.attname || '_time_check', 63))";
    assert_eq!(world.count(times), 0, "a time without its bounds");
}

/// Whoever judges a document and the database read the same.
#[test]
fn documents_are_read_alike() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    let mut odd =
        vec![String::new(), "nonce".to_owned(), "nonce: a\nnonce: b".to_owned(), "xnonce: a".to_owned()];
    for before in ["", " ", "\t"] {
        for after in ["", " ", "  ", "\t", " \t ", "\u{a0}"] {
            for value in ["abc", "", "a: b", "a  b", "é"] {
                for end in ["", "\n", "\r\n", " \r\n", "\t\n", "\r\r\n", "\nmore: x\n"] {
                    odd.push(format!("first: line\nnonce{before}:{after}{value}{end}"));
                }
            }
        }
    }
    for document in odd {
        let sql = "SELECT cutter_governance.fn_document_field($1, 'nonce')";
        let read: Option<String> = admin.query_one(sql, &[&document.as_bytes()]).unwrap().get(0);
        assert_eq!(read.as_deref(), parse_field(&document, "nonce"), "{document:?}");
    }
}

/// What is deferred to the end of a transaction is looked at before its facts are judged: an effect that would
/// fail at COMMIT is an error then, and no unknown outcome.
#[test]
fn each_deferred_check_is_looked_at_before_the_facts_are_judged() {
    let world = World::new();
    let deferred = "SELECT DISTINCT n.nspname || '.' || k.conname FROM pg_constraint k
        JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE k.condeferrable AND c.relowner = 'cutter_owner'::regrole AND k.conname <> 'trg_use_carried_out'
        ORDER BY 1";
    let rows = world.database.client(Login::Admin).query(deferred, &[]).unwrap();
    let named = DEFERRED_CHECKS.strip_prefix("SET CONSTRAINTS ").unwrap();
    let mut named: Vec<&str> = named.split_once(" IMMEDIATE").unwrap().0.split(',').map(str::trim).collect();
    named.sort_unstable();
    let deferred: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(deferred, named);
}
