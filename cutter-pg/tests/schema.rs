//! What the schema itself refuses, whoever asks: the administrator included.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_core::machine::backlog::{BACKLOG, BacklogState};
use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use postgres::Client;
use support::{DOCUMENT, World, id};

fn code(outcome: Result<u64, postgres::Error>) -> String {
    let error = outcome.expect_err("it was accepted");
    error.as_db_error().unwrap_or_else(|| panic!("{error:?}")).code().code().to_owned()
}

fn message(outcome: Result<u64, postgres::Error>) -> String {
    outcome.expect_err("it was accepted").as_db_error().unwrap().message().to_owned()
}

/// A database with one enacted run, so that every table but the staging has rows.
fn enacted() -> World {
    let world = World::new();
    let source = world.register(3);
    let mut run = world.run(&source);
    run.up_to_verified();
    run.do_sg2();
    run.do_enact();
    world
}

const TABLES: [&str; 23] = [
    "iu_core.source_document",
    "iu_core.source_version",
    "iu_core.information_unit",
    "iu_core.unit_version",
    "iu_core.unit_anchor",
    "iu_core.iu_lifecycle_log",
    "cutter_governance.cut_change_set",
    "cutter_governance.change_set_void",
    "cutter_governance.manifest_envelope",
    "cutter_governance.review_decision",
    "cutter_governance.review_approval",
    "cutter_governance.approval_use",
    "cutter_governance.dot_pair_signature",
    "cutter_governance.run_statement",
    "cutter_governance.statement_signature",
    "cutter_governance.verify_result",
    "cutter_governance.decision_backlog_entry",
    "cutter_governance.decision_backlog_history",
    "cutter_governance.decision_backlog_sweep_log",
    "cutter_governance.run_effect",
    "cutter_governance.run_fence",
    "cutter_governance.grant_expectation",
    "cutter_governance.backlog_promotion_check",
];

#[test]
fn nothing_is_removed_even_by_the_administrator() {
    let world = enacted();
    let mut admin = world.database.client(Login::Admin);
    for table in TABLES.iter().filter(|t| !t.ends_with("grant_expectation")) {
        assert!(code(admin.execute(&format!("DELETE FROM {table}"), &[])).starts_with("CU"), "{table}");
        assert!(code(admin.execute(&format!("TRUNCATE {table} CASCADE"), &[])).starts_with("CU"), "{table}");
    }
}

#[test]
fn nothing_is_edited_but_status_live_and_the_fence() {
    let world = enacted();
    let mut admin = world.database.client(Login::Admin);
    let columns = admin
        .query(
            "SELECT n.nspname || '.' || c.relname, a.attname, a.attname || ' = '
                 || CASE WHEN format_type(a.atttypid, NULL) = 'boolean' THEN 'NOT ' || a.attname
                         WHEN format_type(a.atttypid, NULL) IN ('bigint', 'integer') THEN a.attname || ' + 1'
                         WHEN format_type(a.atttypid, NULL) IN ('text', 'name') THEN a.attname || ' || ''x'''
                         WHEN format_type(a.atttypid, NULL) = 'uuid' THEN 'gen_random_uuid()'
                         ELSE 'DEFAULT' END
             FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                 AND n.nspname IN ('iu_core', 'cutter_governance')",
            &[],
        )
        .unwrap();
    let mut tried = 0;
    for row in columns {
        let (table, column, set): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let is_free = [
            "iu_core.iu_staging_record",
            "iu_core.iu_staging_payload",
            "cutter_governance.copy_folder",
            "cutter_governance.grant_expectation",
            "cutter_governance.catalogue_reading",
            "cutter_governance.run_fence",
        ]
        .contains(&table.as_str());
        if is_free || table == "cutter_governance.change_set_void" {
            continue;
        }
        let refused = code(admin.execute(&format!("UPDATE {table} SET {set}"), &[]));
        assert!(refused.starts_with("CU"), "{table}.{column}: {refused}");
        tried += 1;
    }
    assert!(tried > 120, "{tried}");
}

#[test]
fn a_draft_moves_only_with_its_log_row() {
    let world = World::new();
    let source = world.register(2);
    let mut run = world.run(&source);
    run.up_to_sg1();
    run.do_leg_a();
    let mut admin = world.database.client(Login::Admin);
    for status in ["enacted", "voided", "draft"] {
        let update = format!("UPDATE iu_core.information_unit SET lifecycle_status = '{status}'");
        assert_eq!(code(admin.execute(&update, &[])), "CU006", "{status}");
    }
    assert_eq!(
        code(admin.execute("UPDATE iu_core.information_unit SET section_type = 'final'", &[])),
        "CU006"
    );
    assert_eq!(code(admin.execute("UPDATE cutter_governance.cut_change_set SET live = false", &[])), "CU001");
    // Without consent the function refuses, too.
    let mut exec = world.database.client(Login::Exec);
    let enact = "SELECT iu_core.fn_iu_enact(unit_id, $1, $2, 'me', now()) FROM iu_core.information_unit";
    assert_eq!(code(exec.execute(enact, &[&run.cut_approval, &run.run_id.as_str()])), "CUD07");
    let void = "SELECT iu_core.fn_iu_create($1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 9, $2, NULL,
        'article', 'general', 0, 0, '', $3, $3, $3)";
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(
        code(exec.execute(void, &[&run.change_set, &format!("{DOCUMENT}/art-9"), &hash])),
        "CUN05",
        "units come in the transaction of their change set only"
    );
}

#[test]
fn an_edit_of_a_draft_waits_for_the_end_of_its_run() {
    use cutter_core::record::effect::Verdict;
    let world = World::new();
    let source = world.register(1);
    let mut run = world.run(&source);
    run.up_to_sg1();
    run.do_leg_a();
    run.do_leg_b();
    let mut exec = world.database.client(Login::Exec);
    let edit = "SELECT iu_core.fn_iu_apply_edit_draft(u.unit_id, $1, 'new', $2, $2, 'me', now())
        FROM iu_core.information_unit u";
    let hash = support::digest("new").to_hex();
    assert_eq!(code(exec.execute(edit, &[&id(), &hash])), "CUC08");
    futures_executor::block_on(
        support::pending(run.verify(&run.verify_write())).finish(Verdict::CommitFailure),
    )
    .unwrap();
    let row = exec.query_one(edit, &[&id(), &hash]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 2);
    assert_eq!(
        code(exec.execute(edit, &[&id(), &"a".repeat(64)])),
        "23514",
        "content_hash is of the content"
    );
    let facts = futures_executor::block_on(cutter_core::port::database::Reader::structural(
        &world.port,
        run.change_set,
        DOCUMENT,
        &[],
    ))
    .unwrap();
    assert_eq!((facts.versions, facts.hash_mismatches), (2, 1), "an edited draft is no longer the source");
    let enacted = enacted();
    let mut exec = enacted.database.client(Login::Exec);
    let one = edit.to_owned() + " LIMIT 1";
    assert_eq!(code(exec.execute(&one, &[&id(), &hash])), "CUC07");
    let mut admin = enacted.database.client(Login::Admin);
    let insert = "INSERT INTO iu_core.unit_version SELECT gen_random_uuid(), unit_id, 2, content, content_hash, body_hash,
        actor, created_at FROM iu_core.unit_version";
    assert_eq!(code(admin.execute(insert, &[])), "CU006");
}

fn entry_in(admin: &mut Client, world: &World, state: BacklogState) -> uuid::Uuid {
    let source = world.register(1);
    let entry = id();
    let mut path = vec![state];
    while path[0] != BacklogState::Marked {
        let from = BacklogState::ALL
            .iter()
            .copied()
            .find(|s| *s != BacklogState::Abandoned && BACKLOG.targets(*s).contains(&path[0]))
            .unwrap();
        path.insert(0, from);
    }
    admin
        .execute(
            "SELECT cutter_governance.fn_backlog_mark($1, $2, 'r', $3, $4, $5, $6, $6, $6, 1, NULL, 'me', 'test', now())",
            &[
                &entry,
                &id(),
                &DOCUMENT,
                &source.source_document_id,
                &source.source_version_id,
                &support::digest(&entry.to_string()).to_hex(),
            ],
        )
        .unwrap();
    for pair in path.windows(2) {
        transition(admin, entry, pair[0], pair[1]).unwrap();
    }
    entry
}

fn transition(
    client: &mut impl postgres::GenericClient,
    entry: uuid::Uuid,
    from: BacklogState,
    to: BacklogState,
) -> Result<u64, postgres::Error> {
    client.execute(
        "SELECT cutter_governance.fn_backlog_transition($1, $2, $3, $4, 'me', 'test', 'r', NULL, NULL, now())",
        &[&entry, &from.as_str(), &to.as_str(), &id()],
    )
}

#[test]
fn the_backlog_has_exactly_the_edges_of_the_core() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    for &from in BacklogState::ALL {
        // One transaction per state: S5 and S7 are never committed.
        admin.batch_execute("BEGIN").unwrap();
        let entry = entry_in(&mut admin, &world, from);
        for &to in BacklogState::ALL {
            admin.batch_execute("SAVEPOINT s").unwrap();
            let outcome = transition(&mut admin, entry, from, to);
            match BACKLOG.check(from, to) {
                Ok(_) => assert_eq!(outcome.unwrap(), 1, "{from}->{to}"),
                Err(illegal) => assert_eq!(message(outcome), illegal.to_string()),
            }
            admin.batch_execute("ROLLBACK TO s").unwrap();
            // The table itself has the same edges, without the function.
            let update =
                "UPDATE cutter_governance.decision_backlog_entry SET status = $2 WHERE entry_id = $1";
            let outcome = admin.execute(update, &[&entry, &to.as_str()]);
            assert_eq!(outcome.is_ok(), BACKLOG.check(from, to).is_ok(), "{from}->{to} by UPDATE");
            admin.batch_execute("ROLLBACK TO s").unwrap();
        }
        admin.batch_execute("ROLLBACK").unwrap();
    }
}

#[test]
fn status_and_history_never_disagree() {
    let world = World::new();
    let source = world.register(1);
    let mut run = world.run(&source);
    run.do_mark();
    let mut admin = world.database.client(Login::Admin);
    let update = "UPDATE cutter_governance.decision_backlog_entry SET status = 'review_pending'";
    assert_eq!(code(admin.execute(update, &[])), "CU005", "a status without history");
    let insert = "INSERT INTO cutter_governance.decision_backlog_history
        SELECT gen_random_uuid(), entry_id, 'marked', 'review_pending', 'me', 'x', now(), NULL, '{}'
        FROM cutter_governance.decision_backlog_entry";
    assert_eq!(code(admin.execute(insert, &[])), "CU005", "history without a status");
    let mut both = admin.transaction().unwrap();
    both.execute(insert, &[]).unwrap();
    both.execute(
        "INSERT INTO cutter_governance.decision_backlog_sweep_log
         SELECT gen_random_uuid(), run_id, document_id, ARRAY[entry_id], 'me', now()
         FROM cutter_governance.decision_backlog_entry",
        &[],
    )
    .unwrap();
    both.execute(update, &[]).unwrap();
    both.commit().unwrap();
    // S5 is legal, and never committed.
    let mut admin = world.database.client(Login::Admin);
    let mut open = admin.transaction().unwrap();
    for (from, to) in [
        (BacklogState::ReviewPending, BacklogState::ReviewedApproved),
        (BacklogState::ReviewedApproved, BacklogState::CutInProgress),
    ] {
        open.execute(
            "SELECT cutter_governance.fn_backlog_transition($1, $2, $3, $4, 'me', 'x', NULL, NULL, NULL, now())",
            &[&run.entry, &from.as_str(), &to.as_str(), &id()],
        )
        .unwrap();
    }
    let error = open.commit().unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("never committed"));
}

#[test]
fn moves_belong_to_their_logins() {
    let world = World::new();
    let source = world.register(1);
    let mut run = world.run(&source);
    run.do_mark();
    run.do_sweep();
    let moves = [
        (Login::Exec, "review_pending", "reviewed_approved"),
        (Login::Verify, "review_pending", "reviewed_approved"),
        (Login::Review, "reviewed_approved", "cut_in_progress"),
        (Login::Review, "review_pending", "abandoned"),
        (Login::Exec, "cut_applied", "verify_in_progress"),
        (Login::Review, "verify_in_progress", "verified_complete"),
        (Login::Exec, "verify_in_progress", "verified_complete"),
    ];
    for (login, from, to) in moves {
        let outcome = world.database.client(login).execute(
            "SELECT cutter_governance.fn_backlog_transition($1, $2, $3, $4, 'me', 'x', NULL, NULL, NULL, now())",
            &[&run.entry, &from, &to, &id()],
        );
        assert_eq!(code(outcome), "CUD03", "{login} {from}->{to}");
    }
}

#[test]
fn history_has_the_nine_columns() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    let rows = admin
        .query(
            "SELECT attname::text FROM pg_attribute
             WHERE attrelid = 'cutter_governance.decision_backlog_history'::regclass AND attnum > 0 ORDER BY attnum",
            &[],
        )
        .unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        names,
        [
            "history_id",
            "entry_id",
            "from_state",
            "to_state",
            "actor",
            "reason",
            "at",
            "change_set_id",
            "detail"
        ]
    );
}

#[test]
fn every_table_and_function_is_the_owners_and_pinned() {
    let world = World::new();
    let mut admin = world.database.client(Login::Admin);
    let tables = admin
        .query(
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'r' AND n.nspname IN ('iu_core', 'cutter_governance')",
            &[],
        )
        .unwrap();
    let names: Vec<String> = tables.iter().map(|row| row.get(0)).collect();
    for table in TABLES {
        assert!(names.iter().any(|name| name == table), "{table}");
    }
    let more = "and the readings of the catalogue, the two of the staging, the folder, the runs of before, those that ended, asks and answers, what runs were begun with, the two of the policy, and the four of the command ledger";
    assert_eq!(names.len(), TABLES.len() + 15, "{more}: {names:?}");
    let odd = admin
        .query(
            "SELECT n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE (n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue') OR p.proname ~ '^fn_cut_')
                 AND p.proname <> 'fn_copy_read'
                 AND (pg_get_userbyid(p.proowner) <> 'cutter_owner' OR p.prosrc = ''
                     OR p.prosrc ~* '\\mexecute\\s+(format|''|\\$)' AND p.proname NOT IN ('fn_work_day', 'fn_work_retain')
                     OR NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(p.proconfig, '{}'))
                     OR (NOT p.prosecdef AND p.prorettype <> 'trigger'::regtype AND p.provolatile <> 'i'))",
            &[],
        )
        .unwrap();
    assert!(odd.is_empty(), "{:?}", odd.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>());
    let overloaded = admin
        .query("SELECT proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'public') GROUP BY n.nspname, proname HAVING count(*) > 1", &[])
        .unwrap();
    assert!(overloaded.is_empty(), "a function's name is its pin");
}

#[test]
fn a_foreign_search_path_changes_no_digest() {
    let world = enacted();
    let digest = |settings: &str| -> (String, String) {
        let mut client = world.database.client(Login::Ro);
        client.batch_execute(settings).unwrap();
        let base = client
            .query_one("SELECT cutter_governance.fn_base_state($1, 'none')", &[&DOCUMENT])
            .unwrap()
            .get(0);
        let survey = client
            .query_one("SELECT md5(string_agg(s::text, E'\\n' ORDER BY s.dimension)) FROM cutter_governance.fn_survey($1, 'r', NULL, NULL) s", &[&DOCUMENT])
            .unwrap()
            .get(0);
        (base, survey)
    };
    let plain = digest("");
    let odd = digest(
        "SET TimeZone = 'Asia/Ho_Chi_Minh'; SET DateStyle = 'German'; SET bytea_output = 'escape';
         SET extra_float_digits = -15; SET search_path = iu_core, cutter_governance, public",
    );
    assert_eq!(plain, odd);
}

#[test]
fn migrations_apply_twice_to_one_server() {
    // Two databases of one server: what is cluster-wide must not be in the way.
    let server = TestServer::shared();
    for _ in 0..2 {
        let database = server.empty_database();
        let mut admin = database.client(Login::Admin);
        let applied = cutter_pg::migrate::Migrator::shipped().unwrap().run(&mut admin).unwrap();
        assert_eq!(applied.len(), cutter_pg::migrations::migrations().len());
        assert!(cutter_pg::migrate::Migrator::shipped().unwrap().run(&mut admin).unwrap().is_empty());
        let row = admin
            .query_one("SELECT count(*) FROM cutter_governance.fn_grant_probe() WHERE section <> 'fact' OR wanted <> holds", &[])
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), 0);
    }
}
