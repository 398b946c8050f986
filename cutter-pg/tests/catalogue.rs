//! What is remembered of the catalogue is never old: every change shows in the next survey and probe.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_core::port::database::Reader;
use cutter_core::record::observed::SurveyScope;
use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use futures_executor::block_on;
use support::{DOCUMENT, id, port_of};

#[test]
fn every_change_of_the_catalogue_shows_in_the_next_survey_and_probe() {
    // Roles belong to the server, so it is this test's own.
    let server = TestServer::own();
    let database = server.fresh_database();
    let port = port_of(&database);
    let scope = SurveyScope {
        run_id: cutter_core::base::id::RunId::new("2026-05-20T10:11:12Z".parse().unwrap(), id()).unwrap(),
        document_id: DOCUMENT.to_owned(),
        entry_id: None,
        review_decision_id: None,
    };
    let mut admin = database.client(Login::Admin);
    let mut survey = block_on(port.survey(&scope)).unwrap();
    let mut grants = block_on(port.grants()).unwrap();
    assert_eq!(block_on(port.survey(&scope)).unwrap(), survey, "remembered, it is the same");
    assert_eq!(block_on(port.grants()).unwrap(), grants, "remembered, it is the same");
    let body = "LANGUAGE sql SET search_path = pg_catalog, pg_temp AS 'SELECT 1'";
    // Statement, and whether it is a matter of the grant probe, too.
    for (change, is_of_grants) in [
        (format!("CREATE FUNCTION iu_core.stranger() RETURNS int {body}"), true),
        ("REVOKE ALL ON FUNCTION iu_core.stranger() FROM PUBLIC".to_owned(), true),
        ("CREATE OR REPLACE FUNCTION iu_core.stranger() RETURNS int LANGUAGE sql SET search_path = pg_catalog, pg_temp
              AS 'SELECT 2'".to_owned(), false),
        ("ALTER FUNCTION iu_core.fn_iu_create SET work_mem = '5MB'".to_owned(), false),
        ("ALTER FUNCTION public.fn_cut_complete SET work_mem = '5MB'".to_owned(), false),
        ("ALTER TABLE iu_core.information_unit DISABLE TRIGGER trg_iu_enacted_immut".to_owned(), false),
        ("ALTER TABLE iu_core.unit_anchor DISABLE TRIGGER ALL".to_owned(), false),
        ("GRANT UPDATE ON iu_core.information_unit TO cutter_exec".to_owned(), true),
        ("GRANT UPDATE (live) ON iu_core.information_unit TO cutter_ro".to_owned(), true),
        ("GRANT CREATE ON SCHEMA public TO PUBLIC".to_owned(), true),
        (format!("GRANT TEMPORARY ON DATABASE {} TO PUBLIC", database.name()), true),
        ("ALTER ROLE cutter_exec CREATEDB".to_owned(), true),
        ("GRANT cutter_verify TO cutter_exec".to_owned(), true),
        ("UPDATE cutter_governance.grant_expectation SET wanted = false
              WHERE grantee = 'directus' AND object = 'iu_core.unit_version'".to_owned(), true),
    ] {
        let change = if change.starts_with("UPDATE") {
            format!("SET session_replication_role = replica; {change}; RESET session_replication_role")
        } else {
            change
        };
        admin.batch_execute(&change).unwrap();
        let seen = block_on(port.survey(&scope)).unwrap();
        assert_ne!(seen, survey, "not seen: {change}");
        let probed = block_on(port.grants()).unwrap();
        assert_eq!(probed != grants, is_of_grants, "{change}");
        // Another port, which remembers nothing, sees the same.
        let fresh = port_of(&database);
        assert_eq!(block_on(fresh.survey(&scope)).unwrap(), seen, "{change}");
        // and reads no other from what is kept in the database
        admin.batch_execute("SELECT cutter_governance.fn_catalogue_keep()").unwrap();
        assert_eq!(block_on(port_of(&database).survey(&scope)).unwrap(), seen, "{change}");
        assert_eq!(block_on(fresh.grants()).unwrap(), probed, "{change}");
        (survey, grants) = (seen, probed);
    }
}

#[test]
fn of_what_is_kept_of_the_catalogue_only_the_newest_stays_and_a_forged_one_is_named() {
    let database = TestServer::shared().fresh_database();
    let mut admin = database.client(Login::Admin);
    let keep = "SELECT cutter_governance.fn_catalogue_keep()";
    let kept = |admin: &mut postgres::Client| -> Vec<String> {
        let rows = admin.query("SELECT k.stamp FROM cutter_governance.catalogue_reading k", &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let faults = || block_on(port_of(&database).definition_faults()).unwrap().1;
    admin.batch_execute(keep).unwrap();
    let first = kept(&mut admin);
    admin.batch_execute("ALTER FUNCTION iu_core.fn_iu_create COST 101").unwrap();
    admin.batch_execute("ALTER FUNCTION iu_core.fn_iu_create COST 100").unwrap();
    admin.batch_execute(keep).unwrap();
    admin.batch_execute(keep).unwrap();
    let second = kept(&mut admin);
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
    assert_eq!(faults(), Vec::<String>::new());
    admin
        .batch_execute(
            "UPDATE cutter_governance.catalogue_reading k SET readings = k.readings || '{\"grants\": \"\"}'",
        )
        .unwrap();
    let named = faults();
    assert_eq!(named.len(), 1, "{named:?}");
    let command = named[0].split("as the administrator: ").nth(1).unwrap();
    admin.batch_execute(command).unwrap();
    assert_eq!(faults(), Vec::<String>::new(), "the printed command helps");
}

#[test]
fn what_strangers_make_beside_ours_is_not_ours() {
    let database = TestServer::shared().fresh_database();
    let mut admin = database.client(Login::Admin);
    let mut seen = || -> Vec<Vec<String>> {
        [
            "SELECT h::text FROM cutter_governance.fn_grants_held() h",
            "SELECT p::text FROM cutter_governance.fn_grant_probe() p",
            "SELECT c::text FROM unnest(ARRAY['function', 'trigger', 'acl']) k, cutter_governance.fn_catalogue(k) c",
        ]
        .map(|sql| {
            let mut rows: Vec<String> = admin.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
            rows.sort();
            rows
        })
        .into()
    };
    let before = seen();
    assert!(before.iter().all(|rows| rows.len() > 100), "{before:?}");
    let mut stranger = database.client(Login::Admin);
    stranger
        .batch_execute(
            "CREATE TABLE public.strangers (a int);
             CREATE FUNCTION public.strange() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER strange BEFORE INSERT ON public.strangers EXECUTE FUNCTION public.strange();
             GRANT ALL ON public.strangers TO PUBLIC, cutter_exec;
             GRANT UPDATE (a) ON public.strangers TO cutter_exec;
             CREATE SCHEMA strangers;
             GRANT ALL ON SCHEMA strangers TO PUBLIC, cutter_exec;
             CREATE TABLE strangers.too (a int);
             CREATE VIEW strangers.two AS SELECT 1 AS a;
             GRANT ALL ON strangers.too, strangers.two TO PUBLIC, cutter_exec;
             CREATE FUNCTION strangers.strange() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER strange BEFORE INSERT ON strangers.too EXECUTE FUNCTION strangers.strange()",
        )
        .unwrap();
    assert_eq!(seen(), before);
    // and what is ours in their schema is
    let grant = "GRANT UPDATE (status) ON public.cut_request TO cutter_exec";
    stranger.batch_execute(grant).unwrap();
    let after = seen();
    for (n, names) in [
        (0, ["public.cut_request)", "public.fn_cut_complete)", "iu_core.fn_iu_create)", "cutter_run.lease)"]),
        (
            1,
            [
                "public.cut_request.status has",
                "public.fn_cut_complete",
                "iu_core.fn_iu_create",
                "cutter_run.lease",
            ],
        ),
        (
            2,
            [
                "(public.cut_request,",
                "(public.fn_cut_complete,",
                "(cutter_run.lease,",
                "(public.cut_request.trg_no_removal,",
            ],
        ),
    ] {
        for name in names {
            assert!(after[n].iter().any(|row| row.contains(name)), "{n}: {name}");
        }
    }
}

#[test]
fn an_aggregate_in_our_schemas_is_named_by_the_probe_and_stops_no_reading() {
    let database = TestServer::shared().fresh_database();
    let mut admin = database.client(Login::Admin);
    let functions = |admin: &mut postgres::Client| -> Vec<(String, String)> {
        let sql = "SELECT c.name, c.value FROM cutter_governance.fn_catalogue('function') c ORDER BY 1";
        admin.query(sql, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let before = functions(&mut admin);
    admin.batch_execute("CREATE AGGREGATE iu_core.strange(int) (sfunc = int4pl, stype = int)").unwrap();
    assert_eq!(functions(&mut admin), before);
    let probe = block_on(port_of(&database).grants()).unwrap();
    assert!(probe.violations.iter().any(|v| v.starts_with("iu_core.strange is owned by")), "{probe:?}");
}
