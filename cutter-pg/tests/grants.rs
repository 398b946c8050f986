//! Role × object × operation: what each login may, by the server's own answer, against the
//! table written here. Anything not in this table must be refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;

use cutter_pg::login::Login;
use support::World;

const LOGINS: [&str; 5] = ["cutter_exec", "cutter_verify", "cutter_review", "cutter_ro", "directus"];

const IU_TABLES: &str = "source_document source_version information_unit unit_version unit_anchor iu_lifecycle_log \
    iu_staging_record iu_staging_payload v_current_unit";
const GOVERNANCE_TABLES: &str = "cut_change_set change_set_void manifest_envelope review_decision review_approval \
    approval_use dot_pair_signature verify_result decision_backlog_entry decision_backlog_history \
    decision_backlog_sweep_log run_effect run_ended run_fence grant_expectation backlog_promotion_check \
    command command_attempt command_settlement command_open v_command";
const OBSERVE: &str = "cutter_governance.fn_survey cutter_governance.fn_base_state \
    cutter_governance.fn_base_state_tables cutter_governance.fn_backlog_targets cutter_governance.fn_catalogue \
    cutter_governance.fn_catalogue_stamp \
    cutter_governance.fn_grant_probe cutter_governance.fn_grant_digest cutter_governance.fn_backlog_promotions";
const TRANSACT: &str = "iu_core.fn_document_lock cutter_governance.fn_run_fence_assert \
    cutter_governance.fn_run_effect_record cutter_governance.fn_backlog_transition";

const REQUEST_TABLES: &str = "cut_request cut_request_transition v_cut_requests_by_status \
    v_cut_request_ready_to_mark v_cut_request_ready_to_cut v_cut_request_ready_to_verify_cut";
const REQUEST_EXEC: &str = "public.fn_cut_request_add public.fn_cut_request_signal public.fn_cut_copy_to_staging \
    public.fn_cut_mark_staged_file public.fn_cut_apply public.fn_cut_complete public.fn_cut_cleanup public.fn_cut_cleanup_due \
    cutter_governance.fn_cut_request_new cutter_governance.fn_cut_request_copied \
    cutter_governance.fn_cut_request_marked cutter_governance.fn_cut_request_start \
    cutter_governance.fn_cut_request_catch_up cutter_governance.fn_cut_request_run_ended \
    cutter_governance.fn_cut_request_completed iu_core.fn_iu_op_cut cutter_queue.fn_job_signal_take \
    cutter_queue.fn_job_signal_finish";
const WORK_EXEC: &str = "enqueue claim complete fail await_user ready hand_back heartbeat take_over cancel retain take_watch leave_watch";

/// `role privilege object` for everything that shall hold.
fn expected() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut add = |role: &str, privilege: &str, prefix: &str, objects: &str| {
        for object in objects.split_whitespace() {
            all.insert(format!("{role} {privilege} {prefix}{object}"));
        }
    };
    for role in ["cutter_exec", "cutter_verify", "cutter_ro"] {
        add(role, "SELECT", "iu_core.", IU_TABLES);
        add(role, "SELECT", "cutter_governance.", GOVERNANCE_TABLES);
        add(role, "SELECT", "", "public.dot_config");
    }
    add(
        "cutter_review",
        "SELECT",
        "cutter_governance.",
        "review_decision review_approval approval_use run_effect decision_backlog_entry",
    );
    add("cutter_review", "INSERT", "cutter_governance.", "review_approval");
    add("cutter_verify", "INSERT", "cutter_governance.", "verify_result");
    add(
        "directus",
        "SELECT",
        "",
        "cutter_governance.review_decision cutter_governance.decision_backlog_entry \
         iu_core.source_document iu_core.source_version \
         iu_core.information_unit iu_core.unit_version iu_core.v_current_unit public.dot_config \
         iu_core.iu_staging_record",
    );
    for role in ["cutter_exec", "cutter_verify", "cutter_review", "cutter_ro"] {
        add(role, "EXECUTE", "", OBSERVE);
    }
    for role in ["cutter_exec", "cutter_verify", "cutter_review"] {
        add(role, "EXECUTE", "", TRANSACT);
    }
    add(
        "cutter_exec",
        "EXECUTE",
        "",
        "iu_core.fn_source_register iu_core.fn_iu_create iu_core.fn_iu_apply_edit_draft iu_core.fn_iu_enact \
         cutter_governance.fn_run_fence_take cutter_governance.fn_approval_use cutter_governance.fn_backlog_mark \
         cutter_governance.fn_backlog_sweep cutter_governance.fn_change_set_open \
         cutter_governance.fn_envelope_record cutter_governance.fn_change_set_void \
         cutter_governance.fn_signature_record cutter_governance.fn_review_decision_record",
    );
    add(
        "cutter_verify",
        "EXECUTE",
        "",
        "cutter_governance.fn_verify_escalate cutter_governance.fn_signature_record",
    );
    add("cutter_review", "EXECUTE", "", "cutter_governance.fn_review_decision_record");
    add(
        "cutter_exec",
        "EXECUTE",
        "",
        "cutter_governance.fn_backlog_mark_once cutter_governance.fn_backlog_sweep_pass",
    );
    add(
        "cutter_review",
        "EXECUTE",
        "",
        "cutter_governance.fn_backlog_review cutter_governance.fn_backlog_requeue \
         cutter_governance.fn_backlog_abandon",
    );
    for role in ["cutter_exec", "cutter_verify", "cutter_ro", "directus"] {
        add(role, "SELECT", "public.", REQUEST_TABLES);
    }
    add("cutter_ro", "SELECT", "cutter_governance.", "catalogue_reading");
    add("cutter_ro", "EXECUTE", "cutter_governance.", "fn_catalogue_readings");
    for role in ["cutter_exec", "cutter_verify", "cutter_ro"] {
        add(role, "SELECT", "cutter_governance.", "before_trust run_statement statement_signature");
        add(role, "EXECUTE", "cutter_governance.", "fn_rows_digest fn_consent_rows");
        add(role, "SELECT", "cutter_queue.", "job_signal work_key work_attempt v_work_item");
        add(role, "EXECUTE", "cutter_queue.fn_work_", "statistics item_targets item_check");
        add(role, "USAGE", "", "cutter_queue");
    }
    for role in ["cutter_exec", "cutter_verify", "cutter_review", "cutter_ro"] {
        add(role, "SELECT", "cutter_governance.", "approval_ask approval_answer run_begun");
        add(role, "EXECUTE", "cutter_governance.", "fn_ask_closed");
        add(role, "EXECUTE", "cutter_governance.", "fn_cut_request_targets fn_cut_signal_statuses");
        add(role, "EXECUTE", "cutter_governance.", "fn_command_targets");
        add(role, "SELECT", "cutter_governance.", "policy_event policy_key");
    }
    add("cutter_exec", "EXECUTE", "cutter_governance.", "fn_command_claim fn_command_settle");
    add("cutter_exec", "EXECUTE", "cutter_governance.", "fn_ask_open fn_run_begun_record fn_statement_store");
    add(
        "cutter_review",
        "EXECUTE",
        "cutter_governance.",
        "fn_answer_record fn_decision_record fn_rows_digest",
    );
    add("cutter_review", "SELECT", "", "iu_core.source_version public.dot_config");
    add("cutter_review", "SELECT", "cutter_governance.", "cut_change_set run_ended");
    add("cutter_verify", "EXECUTE", "cutter_governance.", "fn_statement_sign");
    add("cutter_exec", "EXECUTE", "", REQUEST_EXEC);
    add(
        "cutter_review",
        "EXECUTE",
        "",
        "public.fn_cut_verify_mark cutter_governance.fn_cut_request_mark_decided",
    );
    add("cutter_review", "SELECT", "", "public.cut_request");
    add("cutter_exec", "EXECUTE", "cutter_queue.fn_work_", WORK_EXEC);
    add("cutter_ro", "SELECT", "cutter_queue.work_", "item ready wait lease done tally watch item_seq");
    add("cutter_ro", "SELECT", "", "cutter_governance.copy_folder");
    add("cutter_ro", "EXECUTE", "", "public.fn_cut_cleanup_due");
    add("cutter_ro", "SELECT", "", "public.cut_request_transition_transition_id_seq");
    add("cutter_verify", "EXECUTE", "", "public.fn_cut_verify_cut iu_core.fn_iu_op_verify_cut");
    for role in ["cutter_exec", "cutter_ro"] {
        add(role, "SELECT", "cutter_run.", "run revision lease claim stop_request");
        add(role, "USAGE", "", "cutter_run");
        add(role, "EXECUTE", "cutter_run.", "fn_splice fn_run_texts fn_run_text");
    }
    add(
        "cutter_exec",
        "EXECUTE",
        "cutter_run.",
        "fn_run_create fn_run_begin fn_run_publish fn_lease_take fn_lease_renew fn_lease_release fn_claim_put fn_stop_request",
    );
    add("cutter_ro", "SELECT", "", "cutter_run.v_run_move");
    add("cutter_ro", "EXECUTE", "cutter_run.", "fn_run_targets fn_run_check");
    for role in LOGINS {
        add(
            role,
            "SELECT",
            "cutter_governance.",
            "v_backlog_entry v_backlog_history v_backlog_decision v_backlog_cut v_backlog_signature",
        );
        add(role, "USAGE", "", "iu_core cutter_governance public");
    }
    all
}

/// What the server says that holds, memberships and PUBLIC included.
fn held(world: &World) -> BTreeSet<String> {
    let mut admin = world.database.client(Login::Admin);
    let roles: Vec<&str> = LOGINS.to_vec();
    let rows = admin
        .query(
            "WITH roles AS (SELECT unnest($1::text[]) AS role), ours AS (
                 SELECT oid, nspname FROM pg_namespace
                 WHERE nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'public'))
             SELECT r.role || ' ' || p.privilege || ' ' || o.nspname || '.' || c.relname
             FROM roles r, pg_class c JOIN ours o ON o.oid = c.relnamespace,
                 unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p(privilege)
             WHERE c.relkind IN ('r', 'v', 'p') AND has_table_privilege(r.role, c.oid, p.privilege)
             UNION ALL
             SELECT r.role || ' ' || p.privilege || ' ' || o.nspname || '.' || c.relname
             FROM roles r, pg_class c JOIN ours o ON o.oid = c.relnamespace,
                 unnest(ARRAY['SELECT', 'USAGE', 'UPDATE']) AS p(privilege)
             WHERE c.relkind = 'S' AND has_sequence_privilege(r.role, c.oid, p.privilege)
             UNION ALL
             SELECT r.role || ' EXECUTE ' || o.nspname || '.' || f.proname
             FROM roles r, pg_proc f JOIN ours o ON o.oid = f.pronamespace
             WHERE has_function_privilege(r.role, f.oid, 'EXECUTE')
             UNION ALL
             SELECT r.role || ' ' || p.privilege || ' ' || n.nspname
             FROM roles r, pg_namespace n, unnest(ARRAY['USAGE', 'CREATE']) AS p(privilege)
             WHERE n.nspname IN ('iu_core', 'cutter_governance', 'cutter_queue', 'cutter_run', 'public')
                 AND has_schema_privilege(r.role, n.oid, p.privilege)
             UNION ALL
             SELECT r.role || ' ' || p.privilege || ' database'
             FROM roles r, unnest(ARRAY['CREATE', 'TEMPORARY']) AS p(privilege)
             WHERE has_database_privilege(r.role, current_database(), p.privilege)",
            &[&roles],
        )
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn the_matrix_is_exactly_the_documented_one() {
    let world = World::new();
    let (wanted, found) = (expected(), held(&world));
    let extra: Vec<_> = found.difference(&wanted).collect();
    let lacking: Vec<_> = wanted.difference(&found).collect();
    assert!(extra.is_empty() && lacking.is_empty(), "too much: {extra:#?}\ntoo little: {lacking:#?}");
}

#[test]
fn the_probe_is_content_with_a_fresh_schema_and_names_what_the_gate_asks_for() {
    let world = World::new();
    let probe = futures_executor::block_on(cutter_core::port::database::Reader::grants(&world.port)).unwrap();
    assert!(probe.public_execute.is_empty() && probe.violations.is_empty(), "{probe:?}");
    assert!(probe.facts.iter().all(|fact| fact.wanted == fact.holds));
    assert!(probe.facts.windows(2).all(|pair| pair[0].name < pair[1].name), "ordered, each once");
    for name in [
        "cutter_exec:EXECUTE:iu_core.fn_iu_create",
        "cutter_exec:EXECUTE:iu_core.fn_iu_apply_edit_draft",
        "cutter_exec:EXECUTE:iu_core.fn_iu_enact",
        "cutter_verify:SELECT:cutter_governance.verify_result",
        "cutter_verify:INSERT:cutter_governance.verify_result",
        "directus:SELECT:cutter_governance.review_decision",
    ] {
        assert!(probe.facts.iter().any(|fact| fact.name == name && fact.holds), "{name}");
    }
}

#[test]
fn the_probe_finds_each_thing_that_is_wrong() {
    use cutter_core::port::database::Reader as _;
    use cutter_pg::testing::TestServer;
    // Roles belong to the server, so this takes one of its own.
    let server = TestServer::own();
    let database = server.fresh_database();
    let port = support::port_of(&database);
    let mut admin = database.client(Login::Admin);
    let clean = futures_executor::block_on(port.grants()).unwrap();
    let spoilers = [
        (
            "GRANT TRUNCATE ON iu_core.unit_version TO cutter_exec",
            "REVOKE TRUNCATE ON iu_core.unit_version FROM cutter_exec",
        ),
        (
            "GRANT INSERT ON cutter_governance.review_approval TO cutter_exec",
            "REVOKE INSERT ON cutter_governance.review_approval FROM cutter_exec",
        ),
        (
            "REVOKE EXECUTE ON FUNCTION iu_core.fn_iu_enact FROM cutter_exec",
            "GRANT EXECUTE ON FUNCTION iu_core.fn_iu_enact TO cutter_exec",
        ),
        (
            "GRANT EXECUTE ON FUNCTION iu_core.fn_iu_enact TO PUBLIC",
            "REVOKE EXECUTE ON FUNCTION iu_core.fn_iu_enact FROM PUBLIC",
        ),
        (
            "GRANT UPDATE (title) ON iu_core.source_document TO directus",
            "REVOKE UPDATE (title) ON iu_core.source_document FROM directus",
        ),
        (
            "GRANT INSERT ON cutter_run.revision TO cutter_exec",
            "REVOKE INSERT ON cutter_run.revision FROM cutter_exec",
        ),
        (
            "GRANT EXECUTE ON FUNCTION cutter_run.fn_run_publish TO cutter_verify",
            "REVOKE EXECUTE ON FUNCTION cutter_run.fn_run_publish FROM cutter_verify",
        ),
        ("GRANT cutter_owner TO cutter_ro", "REVOKE cutter_owner FROM cutter_ro"),
        ("ALTER ROLE cutter_verify BYPASSRLS", "ALTER ROLE cutter_verify NOBYPASSRLS"),
        (
            "GRANT UPDATE ON public.cut_request TO directus",
            "REVOKE UPDATE ON public.cut_request FROM directus",
        ),
        (
            "GRANT EXECUTE ON FUNCTION public.fn_cut_request_transition TO cutter_exec",
            "REVOKE EXECUTE ON FUNCTION public.fn_cut_request_transition FROM cutter_exec",
        ),
        (
            "ALTER FUNCTION public.fn_cut_apply RESET search_path",
            "ALTER FUNCTION public.fn_cut_apply SET search_path = pg_catalog, pg_temp",
        ),
        (
            "ALTER FUNCTION cutter_governance.fn_copy_read OWNER TO cutter_admin",
            "ALTER FUNCTION cutter_governance.fn_copy_read OWNER TO cutter_copy",
        ),
        ("ALTER ROLE cutter_copy LOGIN", "ALTER ROLE cutter_copy NOLOGIN"),
        ("GRANT pg_write_server_files TO cutter_copy", "REVOKE pg_write_server_files FROM cutter_copy"),
        ("GRANT cutter_copy TO cutter_exec", "REVOKE cutter_copy FROM cutter_exec"),
        ("ALTER ROLE cutter_owner LOGIN", "ALTER ROLE cutter_owner NOLOGIN"),
        (
            "ALTER FUNCTION iu_core.fn_iu_void RESET search_path",
            "ALTER FUNCTION iu_core.fn_iu_void SET search_path = pg_catalog, pg_temp",
        ),
        (
            "ALTER TABLE iu_core.unit_anchor OWNER TO cutter_admin",
            "ALTER TABLE iu_core.unit_anchor OWNER TO cutter_owner",
        ),
        ("GRANT TEMPORARY ON DATABASE {db} TO PUBLIC", "REVOKE TEMPORARY ON DATABASE {db} FROM PUBLIC"),
        ("GRANT CREATE ON SCHEMA public TO cutter_exec", "REVOKE CREATE ON SCHEMA public FROM cutter_exec"),
    ];
    let bad = |probe: &cutter_core::record::observed::GrantSnapshot| {
        probe.facts.iter().filter(|fact| fact.wanted != fact.holds).count()
            + probe.public_execute.len()
            + probe.violations.len()
    };
    assert_eq!(bad(&clean), 0);
    for (spoil, mend) in spoilers {
        admin.batch_execute(&spoil.replace("{db}", database.name())).unwrap();
        let probe = futures_executor::block_on(port.grants()).unwrap();
        assert!(bad(&probe) > 0, "not found: {spoil}");
        admin.batch_execute(&mend.replace("{db}", database.name())).unwrap();
        let probe = futures_executor::block_on(port.grants()).unwrap();
        assert_eq!(bad(&probe), 0, "not mended: {mend}");
    }
    // What all may do that they should not is named where it is a function,
    let all = "GRANT EXECUTE ON FUNCTION iu_core.fn_iu_enact TO PUBLIC; GRANT SELECT ON iu_core.unit_anchor TO PUBLIC";
    admin.batch_execute(all).unwrap();
    let probe = futures_executor::block_on(port.grants()).unwrap();
    assert_eq!(probe.public_execute, ["iu_core.fn_iu_enact"]);
    // and a role that is not there, by its own name.
    admin.batch_execute("ALTER ROLE directus RENAME TO somebody").unwrap();
    let probe = futures_executor::block_on(port.grants()).unwrap();
    let absent: Vec<&String> = probe.violations.iter().filter(|v| v.contains("does not exist")).collect();
    assert_eq!(absent, ["role directus does not exist"]);
}

#[test]
fn a_reader_and_the_front_end_write_nothing() {
    let world = World::new();
    for login in [Login::Ro, Login::Directus] {
        let mut client = world.database.client(login);
        for statement in [
            "INSERT INTO public.dot_config VALUES ('vocab.x.y', '1', '')",
            "UPDATE iu_core.source_document SET title = 'x'",
            "DELETE FROM cutter_governance.review_decision",
            "SELECT cutter_governance.fn_run_fence_take('r', 'X', gen_random_uuid())",
            "CREATE TABLE public.mine (a int)",
            "CREATE TEMPORARY TABLE mine (a int)",
            "SET ROLE cutter_owner",
        ] {
            let error = client.batch_execute(statement).unwrap_err();
            assert_eq!(error.as_db_error().unwrap().code().code(), "42501", "{login}: {statement}");
        }
    }
}
