//! Every damage to the schema is named, with the object and what differs, and nothing else is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_pg::definitions::Definitions;
use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;

#[test]
fn the_shipped_list_is_what_the_migrations_make() {
    let database = TestServer::shared().fresh_database();
    let observed = Definitions::observed(&mut database.client(Login::Admin)).unwrap();
    if std::env::var_os("CUTTER_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/definitions/shipped.tsv");
        std::fs::write(path, observed.to_text()).unwrap();
        return;
    }
    let shipped = Definitions::shipped();
    let faults = shipped.faults(&observed);
    assert!(faults.is_empty() && shipped == observed, "run scripts/fix: {faults:#?}");
    assert!(shipped.len() > 800, "only {}", shipped.len());
    // Whoever looks sees the same.
    for login in [Login::Ro, Login::Exec, Login::Verify, Login::Review] {
        let seen = Definitions::observed(&mut database.client(login)).unwrap();
        assert_eq!(shipped.faults(&seen), Vec::<String>::new(), "{login}");
    }
}

/// A statement of a superuser, and what is said of it: each word stands in one of the lines.
const DAMAGES: &[(&str, &[&str])] = &[
    (
        "CREATE OR REPLACE FUNCTION cutter_governance.fn_append_only() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
         SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN NULL; END'",
        &["function cutter_governance.fn_append_only(): body"],
    ),
    (
        "ALTER FUNCTION cutter_governance.fn_rows_digest(uuid) SECURITY INVOKER",
        &["function cutter_governance.fn_rows_digest(uuid): security definer: expected true, observed false"],
    ),
    (
        "ALTER FUNCTION cutter_governance.fn_rows_digest(uuid) RESET search_path",
        &["function cutter_governance.fn_rows_digest(uuid): settings"],
    ),
    (
        "ALTER FUNCTION cutter_governance.fn_rows_digest(uuid) OWNER TO cutter_exec",
        &["fn_rows_digest(uuid): owner: expected cutter_owner, observed cutter_exec"],
    ),
    ("ALTER FUNCTION iu_core.fn_iu_enact IMMUTABLE", &["fn_iu_enact", "volatility: expected v, observed i"]),
    ("DROP FUNCTION cutter_governance.fn_cut_request_assert_run", &["fn_cut_request_assert_run", "is missing"]),
    (
        "CREATE FUNCTION iu_core.fn_iu_enact(x int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        &["function iu_core.fn_iu_enact(integer) is none that cutter made"],
    ),
    (
        "CREATE FUNCTION public.fn_cut_mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        &["function public.fn_cut_mine() is none that cutter made"],
    ),
    (
        "ALTER TABLE iu_core.information_unit DISABLE TRIGGER trg_iu_enacted_immut",
        &["trigger iu_core.information_unit.trg_iu_enacted_immut: enabled: expected O, observed D"],
    ),
    (
        "ALTER TABLE iu_core.information_unit ENABLE REPLICA TRIGGER trg_iu_enacted_immut",
        &["trg_iu_enacted_immut: enabled: expected O, observed R"],
    ),
    (
        "ALTER TABLE iu_core.unit_anchor DISABLE TRIGGER ALL",
        &["constraint iu_core.unit_anchor.", "triggers on iu_core.unit_anchor: expected"],
    ),
    (
        "DROP TRIGGER trg_rows_approved ON cutter_governance.cut_change_set",
        &["trigger cutter_governance.cut_change_set.trg_rows_approved is missing"],
    ),
    (
        "DROP TRIGGER trg_append_only ON cutter_governance.run_effect;
         CREATE TRIGGER trg_append_only BEFORE TRUNCATE ON cutter_governance.run_effect
             FOR EACH STATEMENT EXECUTE FUNCTION cutter_governance.fn_append_only()",
        &["trigger cutter_governance.run_effect.trg_append_only: definition"],
    ),
    (
        "CREATE TRIGGER mine BEFORE INSERT ON public.cut_request FOR EACH STATEMENT
             EXECUTE FUNCTION cutter_governance.fn_append_only()",
        &["trigger public.cut_request.mine is none that cutter made"],
    ),
    (
        "ALTER TABLE cutter_governance.review_approval ADD COLUMN mine text",
        &["column cutter_governance.review_approval.mine is none that cutter made"],
    ),
    (
        "ALTER TABLE iu_core.unit_version RENAME COLUMN actor TO who",
        &["column iu_core.unit_version.actor is missing", "column iu_core.unit_version.who is none"],
    ),
    (
        "ALTER TABLE cutter_governance.run_effect ALTER COLUMN inserted_by SET DEFAULT 'cutter_exec'",
        &["column cutter_governance.run_effect.inserted_by: default: expected SESSION_USER, observed 'cutter_exec'"],
    ),
    (
        "ALTER TABLE cutter_governance.review_decision ALTER COLUMN nonce DROP NOT NULL",
        &["column cutter_governance.review_decision.nonce: not null: expected true, observed none"],
    ),
    (
        "ALTER TABLE cutter_queue.job_signal ALTER COLUMN taken_by TYPE varchar(3)",
        &["column cutter_queue.job_signal.taken_by: type: expected text, observed character varying(3)"],
    ),
    ("DROP INDEX cutter_governance.g_cut_once", &["index cutter_governance.g_cut_once is missing"]),
    (
        "DROP INDEX public.cut_request_run; CREATE INDEX cut_request_run ON public.cut_request (cut_run_id)",
        &["index public.cut_request_run: definition"],
    ),
    (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'cutter_governance.g_cut_once'::regclass",
        &["index cutter_governance.g_cut_once: valid: expected none, observed false"],
    ),
    (
        "ALTER TABLE cutter_governance.review_approval DROP CONSTRAINT review_approval_inserted_by_check",
        &["constraint cutter_governance.review_approval.review_approval_inserted_by_check is missing"],
    ),
    (
        "ALTER TABLE cutter_governance.review_approval DROP CONSTRAINT review_approval_inserted_by_check;
         ALTER TABLE cutter_governance.review_approval ADD CONSTRAINT review_approval_inserted_by_check
             CHECK (inserted_by = 'cutter_exec')",
        &["review_approval_inserted_by_check: definition: expected CHECK"],
    ),
    (
        "ALTER TABLE iu_core.unit_anchor DROP CONSTRAINT unit_anchor_pkey CASCADE",
        &["constraint iu_core.unit_anchor.unit_anchor_pkey is missing", "index iu_core.unit_anchor_pkey is missing"],
    ),
    (
        "GRANT INSERT ON cutter_governance.review_approval TO cutter_exec",
        &["relation cutter_governance.review_approval: grant INSERT to cutter_exec: expected none, observed yes"],
    ),
    (
        "GRANT UPDATE (live) ON cutter_governance.cut_change_set TO cutter_exec",
        &["cut_change_set.live: grant UPDATE to cutter_exec"],
    ),
    (
        "GRANT EXECUTE ON FUNCTION cutter_governance.fn_cut_request_move TO PUBLIC",
        &["fn_cut_request_move", "grant EXECUTE to PUBLIC: expected none, observed yes"],
    ),
    (
        "REVOKE SELECT ON cutter_governance.run_effect FROM cutter_verify",
        &["run_effect: grant SELECT to cutter_verify: expected yes, observed none"],
    ),
    ("GRANT CREATE ON SCHEMA public TO PUBLIC", &["schema public", "grant CREATE to PUBLIC"]),
    ("GRANT CREATE ON SCHEMA iu_core TO cutter_exec", &["schema iu_core: grant CREATE to cutter_exec"]),
    (
        "ALTER TABLE cutter_meta.migration OWNER TO cutter_exec",
        &["relation cutter_meta.migration: owner: expected administrator, observed cutter_exec"],
    ),
    (
        "ALTER TABLE public.cut_request OWNER TO cutter_exec",
        &["relation public.cut_request: owner: expected cutter_owner, observed cutter_exec"],
    ),
    (
        "ALTER DEFAULT PRIVILEGES FOR ROLE cutter_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
        &["default privileges f is missing"],
    ),
    (
        "DROP VIEW iu_core.v_current_unit; CREATE VIEW iu_core.v_current_unit AS SELECT u.*, 1 AS version_no FROM iu_core.information_unit u",
        &["relation iu_core.v_current_unit: definition", "relation iu_core.v_current_unit: reads"],
    ),
    (
        "CREATE TABLE public.child () INHERITS (iu_core.unit_version)",
        &["relation iu_core.unit_version: children: expected none, observed public.child"],
    ),
    (
        "CREATE RULE mine AS ON INSERT TO cutter_governance.review_approval DO INSTEAD NOTHING",
        &["rule cutter_governance.review_approval.mine is none that cutter made"],
    ),
    (
        "CREATE POLICY mine ON iu_core.information_unit USING (false);
         ALTER TABLE iu_core.information_unit ENABLE ROW LEVEL SECURITY",
        &["policy iu_core.information_unit.mine is none", "relation iu_core.information_unit: row security"],
    ),
    (
        "CREATE TABLE cutter_queue_day.child () INHERITS (iu_core.unit_version)",
        &["relation iu_core.unit_version: children: expected none, observed cutter_queue_day.child"],
    ),
    (
        "CREATE FUNCTION public.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT $1';
         DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW cutter_governance.v_backlog_signature AS '
             || replace(pg_get_viewdef('cutter_governance.v_backlog_signature'::regclass), 'sha256(', 'public.sha256('); END $$",
        &["relation cutter_governance.v_backlog_signature: calls: expected none, observed public.sha256(pg_catalog.bytea)"],
    ),
    (
        "ALTER VIEW iu_core.v_current_unit SET (security_barrier = true)",
        &["relation iu_core.v_current_unit: options: expected none, observed security_barrier=true"],
    ),
    (
        "CREATE ACCESS METHOD mine TYPE TABLE HANDLER heap_tableam_handler;
         UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'mine') WHERE oid = 'iu_core.unit_version'::regclass",
        &["relation iu_core.unit_version: access method: expected none, observed mine"],
    ),
    (
        "ALTER SEQUENCE cutter_queue.work_item_seq MAXVALUE 7 CYCLE",
        &["relation cutter_queue.work_item_seq: counts: expected by 1", "observed by 1 from 1 to 7 and again"],
    ),
    (
        "CREATE FUNCTION public.support(internal) RETURNS internal LANGUAGE internal AS 'textlike_support';
         ALTER FUNCTION cutter_governance.fn_rows_digest(uuid) SUPPORT public.support",
        &["fn_rows_digest(uuid): support: expected none, observed public.support"],
    ),
    (
        "ALTER FUNCTION cutter_governance.fn_rows_digest(uuid) PARALLEL SAFE",
        &["fn_rows_digest(uuid): parallel: expected none, observed s"],
    ),
    // Listed as ever, and not looked for.
    (
        "UPDATE pg_class SET relhastriggers = false WHERE oid = 'cutter_governance.run_effect'::regclass",
        &["relation cutter_governance.run_effect: switched off: expected none, observed triggers"],
    ),
    (
        "UPDATE pg_class SET relchecks = 0 WHERE oid = 'cutter_governance.review_approval'::regclass",
        &["relation cutter_governance.review_approval: switched off: expected none, observed checks"],
    ),
    (
        "UPDATE pg_class SET relhasindex = false WHERE oid = 'cutter_governance.review_approval'::regclass",
        &["relation cutter_governance.review_approval: switched off: expected none, observed indexes"],
    ),
    (
        "UPDATE pg_attribute SET atthasdef = false WHERE attrelid = 'cutter_governance.run_effect'::regclass AND attname = 'inserted_by'",
        &["column cutter_governance.run_effect.inserted_by: switched off: expected none, observed default"],
    ),
    (
        "UPDATE pg_index SET indimmediate = false WHERE indexrelid = 'cutter_governance.g_cut_once'::regclass",
        &["index cutter_governance.g_cut_once: valid: expected none, observed false"],
    ),
    (
        "UPDATE pg_trigger SET tgfoid = 'suppress_redundant_updates_trigger'::regproc
         WHERE tgrelid = 'iu_core.unit_anchor'::regclass AND tgisinternal",
        &["triggers on iu_core.unit_anchor: expected"],
    ),
    (
        "CREATE FUNCTION public.mine(uuid) RETURNS text LANGUAGE sql RETURN 'x';
         UPDATE pg_proc SET prosqlbody = (SELECT m.prosqlbody FROM pg_proc m WHERE m.oid = 'public.mine'::regproc)
         WHERE proname = 'fn_rows_digest'",
        &["function cutter_governance.fn_rows_digest(uuid): parsed body: expected none, observed RETURN"],
    ),
    (
        "CREATE COLLATION public.\"C\" FROM \"POSIX\";
         ALTER TABLE cutter_queue.job_signal ALTER COLUMN taken_by TYPE text COLLATE public.\"C\"",
        &["column cutter_queue.job_signal.taken_by: collation", "observed public.\"C\""],
    ),
    ("CREATE TABLE cutter_run.mine (a int)", &["relation cutter_run.mine is none that cutter made"]),
    ("ALTER TABLE cutter_run.lease SET UNLOGGED", &["relation cutter_run.lease: persistence: expected none, observed u"]),
];

#[test]
fn each_damage_is_named_and_its_repair_is_seen() {
    let database = TestServer::shared().fresh_database();
    let mut admin = database.client(Login::Admin);
    admin.batch_execute("SET allow_system_table_mods = on").unwrap();
    let shipped = Definitions::shipped();
    let mut unnamed = Vec::new();
    for (damage, words) in DAMAGES {
        admin.batch_execute("BEGIN").unwrap();
        admin.batch_execute(damage).unwrap_or_else(|error| panic!("{damage}: {error:?}"));
        let faults = shipped.faults(&Definitions::observed(&mut admin).unwrap());
        admin.batch_execute("ROLLBACK").unwrap();
        if !words.iter().all(|word| faults.iter().any(|fault| fault.contains(word))) {
            unnamed.push((damage, faults));
        }
    }
    assert!(unnamed.is_empty(), "{unnamed:#?}");
    assert_eq!(shipped.faults(&Definitions::observed(&mut admin).unwrap()), Vec::<String>::new());
}
