//! Every way in which something around the schema could make a login or a function of ours behave
//! otherwise is named, by the administrator and by the login that reads; what is said to undo it does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_pg::login::Login;
use cutter_pg::surroundings::{Fault, Server, Surroundings};
use cutter_pg::testing::TestServer;
use postgres::Client;

/// Whether a superuser's statement undoes what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mend {
    Printed,
    /// It does, and that something of the server's own was touched stays said.
    Touched,
    /// What it was before is known to nobody here: a new database is the way.
    Nothing,
}
use Mend::{Nothing, Printed, Touched};

/// Statements of a superuser, what must be named of them, and whether the way back is.
const DAMAGES: &[(&str, &str, Mend)] = &[
    // settings
    ("ALTER DATABASE :db SET session_replication_role = replica", "setting session_replication_role of this database: expected none, observed replica", Printed),
    ("ALTER ROLE cutter_exec SET session_replication_role = replica", "setting session_replication_role of role cutter_exec: expected none, observed replica", Printed),
    ("ALTER ROLE directus SET session_replication_role = replica", "setting session_replication_role of role directus", Printed),
    ("ALTER ROLE ALL SET session_replication_role = replica", "setting session_replication_role of all roles", Printed),
    ("ALTER ROLE cutter_review IN DATABASE :db SET session_replication_role = replica", "of role cutter_review in this database", Printed),
    ("ALTER ROLE ALL IN DATABASE :db SET search_path = evil, pg_catalog", "setting search_path of this database: expected none, observed evil, pg_catalog", Printed),
    ("ALTER ROLE cutter_admin SET session_replication_role = replica", "of role cutter_admin: expected none", Printed),
    ("ALTER ROLE cutter_exec SET search_path = evil", "setting search_path of role cutter_exec", Printed),
    ("ALTER DATABASE :db SET session_preload_libraries = 'evil'", "setting session_preload_libraries of this database", Printed),
    ("ALTER ROLE directus SET session_preload_libraries = 'evil'", "setting session_preload_libraries of role directus", Printed),
    ("ALTER ROLE cutter_verify SET local_preload_libraries = 'evil'", "setting local_preload_libraries of role cutter_verify", Printed),
    ("ALTER ROLE cutter_verify SET row_security = off", "setting row_security of role cutter_verify", Printed),
    ("ALTER ROLE cutter_exec SET default_transaction_read_only = on", "setting default_transaction_read_only of role cutter_exec", Printed),
    ("ALTER DATABASE :db SET default_transaction_isolation = 'serializable'", "setting default_transaction_isolation of this database", Printed),
    ("ALTER DATABASE :db SET default_transaction_deferrable = on", "setting default_transaction_deferrable of this database", Printed),
    ("ALTER DATABASE :db SET check_function_bodies = off", "setting check_function_bodies of this database", Printed),
    ("ALTER ROLE cutter_exec SET role = 'cutter_owner'", "setting role of role cutter_exec: expected none, observed cutter_owner", Printed),
    ("ALTER ROLE cutter_exec SET client_encoding = 'LATIN1'", "setting client_encoding of role cutter_exec", Printed),
    ("ALTER ROLE cutter_exec SET lock_timeout = '1ms'", "setting lock_timeout of role cutter_exec", Printed),
    ("ALTER ROLE cutter_exec SET statement_timeout = '1ms'", "setting statement_timeout of role cutter_exec", Printed),
    ("ALTER DATABASE :db SET \"TimeZone\" = 'Asia/Tokyo'", "setting TimeZone of this database", Printed),
    ("ALTER DATABASE :db SET transform_null_equals = on", "setting transform_null_equals of this database", Printed),
    ("ALTER DATABASE :db SET plpgsql.variable_conflict = 'use_column'", "setting plpgsql.variable_conflict of this database", Printed),
    ("ALTER DATABASE :db SET synchronous_commit = off", "setting synchronous_commit of this database", Printed),
    ("GRANT SET ON PARAMETER session_replication_role TO cutter_exec", "parameter session_replication_role: expected no grant, observed SET to cutter_exec", Printed),
    ("GRANT ALTER SYSTEM ON PARAMETER session_preload_libraries TO PUBLIC", "parameter session_preload_libraries: expected no grant, observed ALTER SYSTEM to PUBLIC", Printed),
    ("CREATE ROLE mallory; GRANT SET ON PARAMETER session_replication_role TO mallory", "observed SET to mallory", Printed),
    // roles
    ("CREATE ROLE mallory SUPERUSER", "role mallory is a superuser", Printed),
    ("CREATE ROLE mallory; GRANT cutter_owner TO mallory", "role mallory is a member of cutter_owner: expected no member", Printed),
    ("CREATE ROLE mallory; GRANT cutter_exec TO mallory", "role mallory is a member of cutter_exec", Printed),
    ("CREATE ROLE mallory; GRANT directus TO mallory", "role mallory is a member of directus", Printed),
    ("CREATE ROLE mallory; GRANT cutter_copy TO mallory", "role mallory is a member of cutter_copy", Printed),
    ("CREATE ROLE gang; GRANT cutter_review TO gang; CREATE ROLE mallory; GRANT gang TO mallory", "role mallory is a member of gang, and so of cutter_review", Printed),
    ("CREATE ROLE mallory; GRANT cutter_admin TO mallory", "role mallory is a member of cutter_admin, who is a superuser", Printed),
    ("GRANT pg_write_all_data TO cutter_owner", "role cutter_owner is a member of pg_write_all_data", Printed),
    ("GRANT pg_execute_server_program TO cutter_owner", "role cutter_owner is a member of pg_execute_server_program", Printed),
    ("CREATE ROLE mallory; GRANT pg_write_all_data TO mallory", "role mallory may act as pg_write_all_data: expected nobody", Printed),
    ("CREATE ROLE mallory; GRANT pg_execute_server_program TO mallory", "role mallory may act as pg_execute_server_program", Printed),
    ("CREATE ROLE mallory; GRANT pg_write_server_files TO mallory", "role mallory may act as pg_write_server_files", Printed),
    ("CREATE ROLE mallory CREATEROLE", "role mallory has CREATEROLE", Printed),
    ("ALTER DATABASE :db OWNER TO cutter_exec", "owner: expected an administrator, observed cutter_exec", Printed),
    ("CREATE ROLE mallory; ALTER DATABASE :db OWNER TO mallory", "owner: expected an administrator, observed mallory", Printed),
    ("CREATE ROLE mallory; ALTER SCHEMA cutter_meta OWNER TO mallory", "schema cutter_meta: owner: expected the server's own superuser, observed mallory", Printed),
    // code
    ("CREATE FUNCTION public.helper() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'", "function public.helper() is SECURITY DEFINER of cutter_admin", Printed),
    (
        "CREATE ROLE mallory; GRANT cutter_exec TO mallory; CREATE FUNCTION public.helper() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
         ALTER FUNCTION public.helper() OWNER TO mallory",
        "function public.helper() is SECURITY DEFINER of mallory",
        Printed,
    ),
    ("CREATE SCHEMA x; GRANT USAGE ON SCHEMA x TO cutter_exec; CREATE PROCEDURE x.p(a int) LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
        "x.p(IN a integer) is SECURITY DEFINER of cutter_admin: expected that none of our logins may execute it, observed cutter_exec", Printed),
    ("CREATE SCHEMA x; CREATE FUNCTION x.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION x.f() OWNER TO cutter_owner", "function x.f() is owned by ours", Printed),
    ("CREATE FUNCTION pg_catalog.sneaky() RETURNS int LANGUAGE sql AS 'SELECT 1'", "function pg_catalog.sneaky() is none that the server brings along", Printed),
    ("CREATE FUNCTION pg_catalog.length(varchar) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'", "function pg_catalog.length(character varying) is none", Printed),
    (
        "CREATE FUNCTION public.same(text, varchar) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
         CREATE OPERATOR pg_catalog.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = public.same)",
        "operator pg_catalog.=(pg_catalog.text,character varying) is none",
        Printed,
    ),
    ("CREATE DOMAIN pg_catalog.mine AS text", "type pg_catalog.mine is none", Printed),
    (
        "CREATE FUNCTION public.cast_it(text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'; CREATE CAST (text AS int) WITH FUNCTION public.cast_it(text) AS IMPLICIT",
        "cast (pg_catalog.text AS integer) is none",
        Printed,
    ),
    ("CREATE CAST (text AS int) WITH INOUT AS IMPLICIT", "cast (pg_catalog.text AS integer) is none", Printed),
    ("CREATE DEFAULT CONVERSION public.mine FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8", "conversion public.mine is none", Printed),
    ("CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT ''epoch''::timestamptz'",
        "function pg_catalog.now(): expected as the server was made with, observed a change since", Nothing),
    ("UPDATE pg_proc SET prosrc = 'timestamptz_lt' WHERE proname = 'timestamptz_gt'", "function pg_catalog.timestamptz_gt(", Nothing),
    ("UPDATE pg_operator SET oprcode = 'dcbrt' WHERE oprname = '|/'", "operator pg_catalog.|/(NONE,double precision): expected as the server was made with", Nothing),
    ("UPDATE pg_cast SET castcontext = 'i' WHERE castsource = 'int8'::regtype AND casttarget = 'int4'::regtype", "cast (bigint AS integer): expected as", Nothing),
    ("ALTER FUNCTION pg_catalog.now() SECURITY DEFINER", "function now() of the server: expected the rights of who calls it, observed SECURITY DEFINER", Nothing),
    ("ALTER FUNCTION pg_catalog.now() SET search_path = evil", "function now() of the server: expected no settings of its own", Nothing),
    (
        "CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RETURN clock_timestamp(); END'",
        "function now() of the server: expected language internal, c or sql, observed language plpgsql",
        Nothing,
    ),
    ("UPDATE pg_proc SET probin = '/tmp/evil' WHERE proname = 'plpgsql_call_handler'", "expected a library of the server, observed /tmp/evil", Nothing),
    (
        "DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_roles AS SELECT * FROM (' || rtrim(pg_get_viewdef('pg_roles'::regclass), ';')
            || ') q WHERE rolname <> ''mallory'' '; END $$",
        "pg_catalog.pg_roles: expected as the server was made with, observed a change since",
        Nothing,
    ),
    ("UPDATE pg_language SET lanpltrusted = true WHERE lanname = 'c'", "language c: expected untrusted, observed trusted", Touched),
    ("UPDATE pg_language SET lanpltrusted = true WHERE lanname = 'internal'", "language internal: expected untrusted", Touched),
    ("CREATE LANGUAGE plmineu HANDLER plpgsql_call_handler; UPDATE pg_language SET lanpltrusted = true WHERE lanname = 'plmineu'", "language plmineu: expected untrusted", Printed),
    (
        "CREATE FUNCTION public.handler() RETURNS language_handler LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler';
         UPDATE pg_language SET lanplcallfoid = 'public.handler()'::regprocedure WHERE lanname = 'plpgsql'",
        "language plpgsql: expected a handler that the server brings along, observed public.handler()",
        Nothing,
    ),
    (
        "CREATE FUNCTION public.ev() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; CREATE EVENT TRIGGER ev ON ddl_command_end EXECUTE FUNCTION public.ev()",
        "event trigger ev of cutter_admin runs public.ev() at ddl_command_end: expected none",
        Printed,
    ),
    ("CREATE TRIGGER mine BEFORE INSERT ON pg_catalog.pg_seclabel FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()", "relation pg_seclabel of the server: expected no trigger", Nothing),
    ("ALTER TABLE pg_catalog.pg_seclabel ENABLE ROW LEVEL SECURITY", "relation pg_seclabel of the server: expected no row security", Nothing),
    (
        "CREATE FUNCTION public.less(text, name) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT false';
         CREATE OPERATOR public.<<<< (LEFTARG = text, RIGHTARG = name, FUNCTION = public.less);
         ALTER OPERATOR FAMILY pg_catalog.datetime_ops USING btree ADD OPERATOR 1 public.<<<< (text, name)",
        "of pg_catalog.datetime_ops USING btree is none that the server brings along",
        Nothing,
    ),
    (
        "UPDATE pg_aggregate SET aggtransfn = 'int8dec' WHERE aggfnoid = 'count()'::regprocedure",
        "pg_catalog.count(): expected as the server was made with, observed a change since",
        Nothing,
    ),
    // rights
    ("GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text) TO cutter_ro", "function pg_read_file(text) of the server: expected no EXECUTE for cutter_ro", Touched),
    ("GRANT EXECUTE ON FUNCTION pg_catalog.lo_import(text) TO PUBLIC", "function lo_import(text) of the server: expected no EXECUTE for PUBLIC", Touched),
    ("GRANT SELECT ON pg_catalog.pg_authid TO directus", "table pg_authid of the server: expected no SELECT for directus", Printed),
    ("GRANT SELECT (rolpassword) ON pg_catalog.pg_authid TO cutter_ro", "table pg_authid.rolpassword of the server: expected no SELECT for cutter_ro", Printed),
    ("GRANT UPDATE ON pg_catalog.pg_proc TO cutter_exec", "table pg_proc of the server: expected no UPDATE for cutter_exec", Printed),
    ("GRANT CREATE ON SCHEMA pg_catalog TO cutter_exec", "schema pg_catalog of the server: expected no CREATE for cutter_exec", Printed),
    ("ALTER DEFAULT PRIVILEGES FOR ROLE cutter_admin GRANT INSERT ON TABLES TO cutter_exec", "default privileges of cutter_admin for objects of kind r: expected no INSERT for cutter_exec", Printed),
    ("ALTER DEFAULT PRIVILEGES FOR ROLE cutter_admin IN SCHEMA cutter_meta GRANT SELECT ON TABLES TO PUBLIC", "in schema cutter_meta: expected no SELECT for PUBLIC", Printed),
    ("CREATE ROLE mallory; ALTER DEFAULT PRIVILEGES FOR ROLE mallory IN SCHEMA iu_core GRANT ALL ON TABLES TO mallory, cutter_exec", "default privileges of mallory", Printed),
    // over our tables
    ("CREATE VIEW public.glimpse AS SELECT * FROM cutter_governance.approval_ask; GRANT SELECT ON public.glimpse TO PUBLIC",
        "view public.glimpse of cutter_admin is over tables of ours: expected no grant, observed SELECT to PUBLIC", Printed),
    ("CREATE VIEW public.glimpse AS SELECT * FROM cutter_governance.approval_ask; GRANT SELECT ON public.glimpse TO directus", "observed SELECT to directus", Printed),
    ("CREATE MATERIALIZED VIEW public.glimpse AS SELECT * FROM cutter_governance.approval_ask; GRANT SELECT ON public.glimpse TO cutter_ro", "materialized view public.glimpse", Printed),
    ("CREATE ROLE mallory; CREATE VIEW public.door AS SELECT * FROM cutter_governance.approval_ask; GRANT INSERT ON public.door TO mallory", "observed INSERT to mallory", Printed),
    (
        "CREATE VIEW public.a AS SELECT * FROM iu_core.unit_version; CREATE VIEW public.b AS SELECT * FROM public.a; GRANT UPDATE ON public.b TO PUBLIC",
        "view public.b of cutter_admin is over tables of ours: expected no grant, observed UPDATE to PUBLIC",
        Printed,
    ),
    ("CREATE PUBLICATION mine FOR TABLE iu_core.unit_version", "publication mine of cutter_admin sends changes of tables of ours", Printed),
    ("CREATE PUBLICATION mine FOR ALL TABLES", "publication mine of cutter_admin sends changes of all tables", Printed),
    ("CREATE PUBLICATION mine FOR TABLES IN SCHEMA cutter_governance", "publication mine of cutter_admin sends changes of tables of ours", Printed),
    (
        "CREATE SUBSCRIPTION mine CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = NONE);
         INSERT INTO pg_subscription_rel SELECT oid, 'cutter_governance.approval_ask'::regclass, 'i', NULL FROM pg_subscription WHERE subname = 'mine'",
        "subscription mine of cutter_admin writes cutter_governance.approval_ask",
        Printed,
    ),
    ("CREATE STATISTICS public.mine ON run_id, gate FROM cutter_governance.approval_ask", "statistics object public.mine is owned by ours, in a schema or over a table of ours", Printed),
    ("CREATE DOMAIN iu_core.mine AS text", "type iu_core.mine is owned by ours, in a schema", Printed),
    ("CREATE TYPE cutter_run.mine AS (a int)", "type cutter_run.mine is", Printed),
    ("CREATE OPERATOR iu_core.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq)", "operator iu_core.===(pg_catalog.text,pg_catalog.text) is", Printed),
    ("CREATE TABLE public.loot (a int); ALTER TABLE public.loot OWNER TO cutter_exec", "table public.loot is owned by ours", Printed),
    ("CREATE SCHEMA loot AUTHORIZATION cutter_owner", "schema loot is owned by ours", Printed),
    ("CREATE TABLE cutter_queue_day.loot (a int)", "relation cutter_queue_day.loot: expected a day of cutter_queue.work_done, as it was made, observed one of nothing", Printed),
    ("CREATE TABLE cutter_queue_day.loot () INHERITS (iu_core.unit_version)", "relation cutter_queue_day.loot: expected a day of cutter_queue.work_done", Printed),
    ("CREATE FUNCTION cutter_queue_day.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "function cutter_queue_day.f() is", Printed),
    (
        "SELECT cutter_queue.fn_work_day(current_date); DO $$ BEGIN EXECUTE (SELECT format('CREATE TRIGGER mine BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()', inhrelid::regclass)
            FROM pg_inherits WHERE inhparent = 'cutter_queue.work_done'::regclass LIMIT 1); END $$",
        "observed trigger mine",
        Printed,
    ),
    (
        "SELECT cutter_queue.fn_work_day(current_date); DO $$ BEGIN EXECUTE (SELECT format('GRANT DELETE ON %s TO cutter_exec', inhrelid::regclass)
            FROM pg_inherits WHERE inhparent = 'cutter_queue.work_done'::regclass LIMIT 1); END $$",
        "observed DELETE for cutter_exec",
        Printed,
    ),
];

fn observed(client: &mut Client, server: Server) -> Surroundings {
    Surroundings::observed(client, server).unwrap()
}

fn named<'f>(found: &'f [Fault], words: &str) -> Vec<&'f Fault> {
    found.iter().filter(|fault| fault.what.contains(words)).collect()
}

#[test]
fn a_new_database_has_nothing_around_it() {
    let database = TestServer::shared().fresh_database();
    let admin = observed(&mut database.client(Login::Admin), Server::Own);
    assert_eq!(admin, Surroundings::default());
    for login in Login::RUN_ROLES {
        let seen = observed(&mut database.client(login), Server::Own);
        assert_eq!(seen.faults, Vec::new(), "{login}");
        assert!(
            seen.notes.iter().all(|note| note.starts_with("not looked at: ")) && seen.notes.len() == 3,
            "{seen:?}"
        );
    }
}

#[test]
fn each_damage_is_named_by_whoever_looks_and_undone_as_printed() {
    let database = TestServer::shared().fresh_database();
    let mut admin = database.client(Login::Admin);
    admin.batch_execute("SET allow_system_table_mods = on; SET plpgsql.variable_conflict = error").unwrap();
    let name: String = admin.query_one("SELECT current_database()::text", &[]).unwrap().get(0);
    let version: i32 =
        admin.query_one("SELECT current_setting('server_version_num')::int", &[]).unwrap().get(0);
    let mut wrong = Vec::new();
    for (damage, words, mend) in DAMAGES {
        if version < 150_000 && (damage.contains("PARAMETER") || damage.contains("TABLES IN SCHEMA"))
            || version >= 160_000 && damage.ends_with("CREATEROLE")
        {
            continue;
        }
        admin.batch_execute("BEGIN").unwrap();
        let damage = damage.replace(":db", &name);
        admin.batch_execute(&damage).unwrap_or_else(|error| panic!("{damage}: {error:?}"));
        let found = observed(&mut admin, Server::Own);
        let mine = named(&found.faults, words);
        // A session of the reading login, in this transaction.
        admin.batch_execute("SET LOCAL SESSION AUTHORIZATION cutter_ro").unwrap();
        let seen = observed(&mut admin, Server::Own);
        admin.batch_execute("RESET SESSION AUTHORIZATION").unwrap();
        if mine.is_empty() || named(&seen.faults, words).is_empty() {
            wrong.push(format!("{damage}\n  not named: {found:?}\n  reader: {:?}", seen.faults));
        }
        match mend {
            Nothing if mine.iter().any(|fault| fault.undo.is_some()) => {
                wrong.push(format!("{damage}: undone? {mine:?}"))
            }
            Nothing => {}
            Printed | Touched => {
                for undo in found.faults.iter().filter_map(|fault| fault.undo.as_deref()) {
                    if let Err(error) = admin.batch_execute(undo) {
                        wrong.push(format!("{damage}: {undo}: {error:?}"));
                        admin.batch_execute("ROLLBACK; BEGIN").unwrap();
                    }
                }
                let mut left = observed(&mut admin, Server::Own).faults;
                left.retain(|fault| *mend == Printed || !fault.what.ends_with("observed a change since"));
                if !left.is_empty() {
                    wrong.push(format!("{damage}: after {:?} still {left:?}", found.faults));
                }
            }
        }
        admin.batch_execute("ROLLBACK").unwrap();
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), DAMAGES.len(), wrong.join("\n"));
    assert_eq!(observed(&mut admin, Server::Own).faults, Vec::new());
}

/// What a managed service has, which its customer can neither undo nor have anything against.
const SERVICE: &[(&str, &str)] = &[
    ("CREATE ROLE service SUPERUSER", "role service is a superuser"),
    (
        "CREATE ROLE service; GRANT SET ON PARAMETER session_replication_role TO service",
        "observed SET to service",
    ),
    ("CREATE ROLE service; GRANT pg_write_all_data TO service", "role service may act as pg_write_all_data"),
    ("CREATE PUBLICATION service FOR ALL TABLES", "publication service"),
    (
        "CREATE FUNCTION public.ev() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; CREATE EVENT TRIGGER service ON ddl_command_end EXECUTE FUNCTION public.ev()",
        "event trigger service",
    ),
    ("ALTER ROLE directus SET statement_timeout = '8s'", "setting statement_timeout of role directus"),
    (
        "CREATE ROLE reader; CREATE VIEW public.report AS SELECT * FROM iu_core.unit_version; GRANT SELECT ON public.report TO reader",
        "view public.report",
    ),
    (
        "GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text) TO pg_monitor",
        "function pg_catalog.pg_read_file",
    ),
];

#[test]
fn what_a_service_has_is_a_note_where_the_server_is_no_one_of_ours() {
    let database = TestServer::shared().fresh_database();
    let mut admin = database.client(Login::Admin);
    let version: i32 =
        admin.query_one("SELECT current_setting('server_version_num')::int", &[]).unwrap().get(0);
    for (made, words) in SERVICE {
        if version < 150_000 && made.contains("PARAMETER") {
            continue;
        }
        admin.batch_execute("BEGIN").unwrap();
        admin.batch_execute(made).unwrap_or_else(|error| panic!("{made}: {error:?}"));
        let seen = observed(&mut admin, Server::Given);
        admin.batch_execute("ROLLBACK").unwrap();
        assert_eq!(seen.faults, Vec::new(), "{made}");
        assert!(seen.notes.iter().any(|note| note.contains(words)), "{made}: {:?}", seen.notes);
    }
    // Of very many some are said.
    admin.batch_execute("BEGIN; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_catalog TO pg_monitor").unwrap();
    let seen = observed(&mut admin, Server::Given);
    admin.batch_execute("ROLLBACK").unwrap();
    assert!(
        seen.notes.len() < 8
            && seen.notes.iter().any(|note| note.ends_with("more of the server's own were changed since")),
        "{seen:?}"
    );
    // How much is logged and how fast it goes changes nothing.
    admin
        .batch_execute(
            "BEGIN; ALTER ROLE ALL SET log_statement = 'all'; ALTER ROLE cutter_exec SET work_mem = '64MB'",
        )
        .unwrap();
    assert_eq!(observed(&mut admin, Server::Own), Surroundings::default());
    admin.batch_execute("ROLLBACK").unwrap();
}

#[test]
fn an_administrator_who_is_no_superuser_is_no_finding() {
    // Roles belong to the server, so this test has one of its own.
    let server = TestServer::own();
    let database = server.fresh_database();
    let mut admin = database.client(Login::Admin);
    admin
        .batch_execute(
            "CREATE ROLE dba CREATEROLE LOGIN; GRANT cutter_owner TO dba; ALTER SCHEMA cutter_meta OWNER TO dba;
             CREATE ROLE mallory; GRANT dba TO mallory",
        )
        .unwrap();
    for login in [Login::Admin, Login::Ro] {
        let seen = observed(&mut database.client(login), Server::Given);
        let faults: Vec<&str> = seen.faults.iter().map(|fault| fault.what.as_str()).collect();
        // Whoever may act as the administrator is another matter.
        assert_eq!(
            faults,
            ["role mallory is a member of dba, and so of cutter_owner: expected no member"],
            "{login}"
        );
    }
}

#[test]
fn settings_of_the_server_are_named_before_and_after_they_come_into_force() {
    let server = TestServer::own();
    let database = server.fresh_database();
    for (name, value) in [
        ("session_replication_role", "replica"),
        ("session_preload_libraries", "evil"),
        ("row_security", "off"),
    ] {
        let mut admin = database.client(Login::Admin);
        admin.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).unwrap();
        let pending = observed(&mut admin, Server::Own).faults;
        let words = format!("setting {name} of the server: expected ");
        assert!(named(&pending, &words)[0].what.contains("from the next start or reload"), "{pending:?}");
        // A library that is not there would let nobody in.
        if name != "session_preload_libraries" {
            admin.batch_execute("SELECT pg_reload_conf()").unwrap();
            let is_seen = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                let seen = observed(&mut database.client(Login::Ro), Server::Own).faults;
                !named(&seen, &format!("setting {name} of the server: expected ")).is_empty()
            });
            assert!(is_seen, "{name} in force");
        }
        let undo = observed(&mut admin, Server::Own).faults[0].undo.clone().unwrap();
        // ALTER SYSTEM stands alone.
        for statement in undo.split("; ") {
            admin.batch_execute(statement).unwrap();
        }
        let is_gone = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            observed(&mut database.client(Login::Admin), Server::Own).faults.is_empty()
        });
        assert!(is_gone, "{name} undone");
    }
    // Whoever may write the server's files lets himself in.
    let file = server.cluster().folder().unwrap().join("data/pg_hba.conf");
    let rules = std::fs::read_to_string(&file).unwrap();
    let mut admin = database.client(Login::Admin);
    for (rule, is_told_elsewhere) in [("local all all trust", true), ("local all cutter_exec peer", false)] {
        std::fs::write(&file, format!("{rules}{rule}\n")).unwrap();
        let found = observed(&mut admin, Server::Own).faults;
        let words = rule.replace("local", "observed local");
        assert_eq!(named(&found, &words).len(), 1, "{rule}: {found:?}");
        let given = observed(&mut admin, Server::Given);
        assert!(given.faults.is_empty());
        assert_eq!(given.notes.iter().any(|note| note.contains(&words)), is_told_elsewhere, "{given:?}");
    }
}
