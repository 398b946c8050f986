//! Migrations: once, in order, whole, and only forward.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use cutter_pg::login::{Login, LoginPasswords};
use cutter_pg::migrate::{MigrateError, Migration, Migrator, OWNER_ROLE, ensure_logins};
use cutter_pg::testing::{TestDatabase, TestServer};
use secrecy::SecretString;

const ONE: Migration = Migration { version: 1, name: "one", sql: "CREATE TABLE public.one (a int);" };
const TWO: Migration = Migration {
    version: 2,
    name: "two",
    sql: "CREATE TABLE public.two (a int);\nINSERT INTO public.one VALUES (2);",
};

fn empty() -> TestDatabase {
    TestServer::shared().empty_database()
}

fn tables(database: &TestDatabase) -> i64 {
    database
        .client(Login::Admin)
        .query_one("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", &[])
        .unwrap()
        .get(0)
}

#[test]
fn pending_ones_are_applied_once_and_recorded() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let first = [ONE];
    let first = Migrator::new(&first).unwrap();
    assert_eq!(first.status(&mut client).unwrap().pending, [1]);
    assert_eq!(first.run(&mut client).unwrap(), [1]);
    assert_eq!(first.run(&mut client).unwrap(), [0_u32; 0]);

    let both = [ONE, TWO];
    let both = Migrator::new(&both).unwrap();
    assert_eq!(both.run(&mut client).unwrap(), [2]);
    let status = both.status(&mut client).unwrap();
    assert!(status.is_current());
    assert_eq!(status.applied.len(), 2);
    assert_eq!(status.applied[1].sha256, TWO.checksum());
    assert!(status.applied[1].applied_at.ends_with('Z'));
    assert_eq!(status.checksums_digest(), both.checksums_digest());
    assert_ne!(status.checksums_digest(), first.checksums_digest());
}

#[test]
fn a_dry_run_tries_everything_and_leaves_nothing() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let list = [ONE, TWO];
    let migrator = Migrator::new(&list).unwrap();
    assert_eq!(migrator.dry_run(&mut client).unwrap(), [1, 2]);
    assert_eq!(tables(&database), 0);
    assert_eq!(migrator.status(&mut client).unwrap().pending, [1, 2]);
    assert_eq!(migrator.run(&mut client).unwrap(), [1, 2]);
}

#[test]
fn an_edited_migration_is_refused_with_both_digests() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let list = [ONE];
    Migrator::new(&list).unwrap().run(&mut client).unwrap();
    let edited = Migration { sql: "CREATE TABLE public.one (a bigint);", ..ONE };
    let list = [edited, TWO];
    let migrator = Migrator::new(&list).unwrap();
    for error in [migrator.run(&mut client).unwrap_err(), migrator.status(&mut client).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains(&ONE.checksum()) && text.contains(&edited.checksum()), "{text}");
    }
    assert_eq!(tables(&database), 1, "nothing was applied on top");
}

#[test]
fn a_newer_schema_is_refused() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let list = [ONE, TWO];
    Migrator::new(&list).unwrap().run(&mut client).unwrap();
    let old = [ONE];
    let error = Migrator::new(&old).unwrap().run(&mut client).unwrap_err();
    assert!(matches!(error, MigrateError::Newer { database: 2, known: 1 }), "{error}");
}

#[test]
fn a_record_that_is_missing_below_another_is_refused() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let list = [ONE, TWO];
    let migrator = Migrator::new(&list).unwrap();
    migrator.run(&mut client).unwrap();
    client.execute("DELETE FROM cutter_meta.migration WHERE version = 1", &[]).unwrap();
    let error = migrator.run(&mut client).unwrap_err();
    assert!(matches!(error, MigrateError::Gap { expected: 1, found: 2 }), "{error}");
}

#[test]
fn a_failing_one_is_rolled_back_whole_and_names_its_line() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let bad = Migration {
        version: 2,
        name: "bad",
        sql: "CREATE TABLE public.two (a int);\n-- ế\nSELECT nothing_of_the_kind;",
    };
    let list = [ONE, bad];
    let migrator = Migrator::new(&list).unwrap();
    let error = migrator.run(&mut client).unwrap_err();
    assert!(matches!(error, MigrateError::Failed { version: 2, line: 3, .. }), "{error}");
    assert_eq!(migrator.status(&mut client).unwrap().pending, [2], "the one before stays");
    assert_eq!(tables(&database), 1);
    // The lock was given back: another session goes on with the repaired file.
    let list = [ONE, TWO];
    assert_eq!(Migrator::new(&list).unwrap().run(&mut database.client(Login::Admin)).unwrap(), [2]);
}

#[test]
fn a_migration_that_commits_by_itself_is_refused() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let list =
        [Migration { version: 1, name: "own", sql: "CREATE TABLE public.one (a int); COMMIT; BEGIN;" }];
    let error = Migrator::new(&list).unwrap().run(&mut client).unwrap_err();
    assert!(matches!(error, MigrateError::EndsTransaction { version: 1, .. }), "{error}");
}

#[test]
fn a_role_switched_to_in_a_migration_does_not_stay() {
    let database = empty();
    let mut client = database.client(Login::Admin);
    let list = [Migration { version: 1, name: "role", sql: "SET ROLE cutter_owner; SELECT 1;" }, TWO_ALONE];
    Migrator::new(&list).unwrap().run(&mut client).unwrap();
    let who: String = client.query_one("SELECT current_user::text", &[]).unwrap().get(0);
    assert_eq!(who, "cutter_admin");
}

const TWO_ALONE: Migration = Migration { version: 2, name: "two", sql: "CREATE TABLE public.two (a int);" };

#[test]
fn runners_at_once_apply_each_one_once() {
    let database = empty();
    // Slow enough that all runners are there before the first is through.
    let list = [
        Migration { version: 1, name: "one", sql: "CREATE TABLE public.one (a int); SELECT pg_sleep(0.3);" },
        TWO,
    ];
    let applied: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let runners: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = database.client(Login::Admin);
                    // As a session of ours has it: waiting for the lock must survive this.
                    client.batch_execute("SET lock_timeout = '50ms'").unwrap();
                    Migrator::new(&list).unwrap().run(&mut client).unwrap()
                })
            })
            .collect();
        runners.into_iter().map(|runner| runner.join().unwrap()).collect()
    });
    let mut all: Vec<u32> = applied.concat();
    all.sort_unstable();
    assert_eq!(all, [1, 2], "{applied:?}");
}

/// The lock of migrations as some other program could hold it: by its number, in this database.
fn key() -> i64 {
    let database = empty();
    let mut runner = database.client(Login::Admin);
    let pid: i32 = runner.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let list = [Migration { version: 1, name: "one", sql: "SELECT pg_sleep(0.5)" }];
    std::thread::scope(|scope| {
        scope.spawn(|| Migrator::new(&list).unwrap().run(&mut runner).unwrap());
        let mut looker = database.client(Login::Admin);
        loop {
            let row = looker.query_opt(
                "SELECT classid::bigint << 32 | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND pid = $1",
                &[&pid],
            );
            if let Some(row) = row.unwrap() {
                return row.get(0);
            }
        }
    })
}

#[test]
fn a_lock_that_others_hold_is_waited_for_briefly_and_named_with_what_ends_it() {
    let key = key();
    let database = empty();
    let mut other = database.client(Login::Exec);
    other.batch_execute("SET application_name = 'another program'").unwrap();
    let list = [ONE];
    let migrator = Migrator::new(&list).unwrap().waiting(Duration::from_millis(300));
    // What others number alike is not ours: halves, another database, a key of 32 bits.
    let [high, low] = [key >> 32, key & 0xffff_ffff].map(|half| i32::try_from(half).unwrap_or(1));
    other.execute("SELECT pg_advisory_lock($1, $2)", &[&high, &low]).unwrap();
    other.execute("SELECT pg_advisory_lock($1)", &[&i64::from(low)]).unwrap();
    assert_eq!(migrator.dry_run(&mut database.client(Login::Admin)).unwrap(), [1]);
    for lock in ["pg_advisory_lock", "pg_advisory_lock_shared"] {
        other.execute(&format!("SELECT {lock}($1)"), &[&key]).unwrap();
        let began = Instant::now();
        let error = migrator.run(&mut database.client(Login::Admin)).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let said = error.to_string();
        for word in
            ["login cutter_exec", "application 'another program'", "connected since 20", "idle since 20"]
        {
            assert!(matches!(error, MigrateError::Busy { .. }) && said.contains(word), "{word}: {said}");
        }
        let end = said.split_once("which ").and_then(|(_, end)| end.split_once(" ends")).unwrap().0;
        // A login without rights is told as much as it may know, and waits as briefly.
        let refused = migrator.run(&mut database.client(Login::Ro)).unwrap_err().to_string();
        assert!(refused.contains(end), "{refused}");
        database.client(Login::Admin).execute(end, &[]).unwrap();
        other = database.client(Login::Exec);
        other.batch_execute("SET application_name = 'another program'").unwrap();
        assert!(migrator.run(&mut database.client(Login::Admin)).is_ok(), "once it has gone");
    }
}

#[test]
fn every_run_role_may_read_the_record_and_none_may_write_it() {
    let database = empty();
    let list = [ONE];
    let migrator = Migrator::new(&list).unwrap();
    migrator.run(&mut database.client(Login::Admin)).unwrap();
    for login in [Login::Exec, Login::Verify, Login::Review, Login::Ro] {
        let mut client = database.client(login);
        assert_eq!(migrator.status(&mut client).unwrap().applied.len(), 1, "{login}");
        let error = client.execute("DELETE FROM cutter_meta.migration", &[]).unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{login}");
    }
}

#[test]
fn roles_are_made_put_right_and_given_passwords_whoever_comes_first() {
    // Roles belong to the server, so this test has one of its own.
    let server = TestServer::own();
    let database = server.empty_database();
    let mut admin = database.client(Login::Admin);
    admin
        .batch_execute(
            "ALTER ROLE cutter_exec SUPERUSER CREATEROLE CREATEDB REPLICATION BYPASSRLS;
             ALTER ROLE cutter_owner LOGIN; GRANT cutter_owner TO cutter_exec, cutter_ro;",
        )
        .unwrap();
    let mut passwords = LoginPasswords::new();
    for login in Login::RUN_ROLES {
        passwords.set(login, SecretString::from("a new one"));
    }
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| ensure_logins(&mut database.client(Login::Admin), &passwords)))
            .collect();
        for maker in makers {
            maker.join().unwrap().unwrap();
        }
    });
    let rows = admin
        .query(
            "SELECT rolname::text, rolcanlogin,
                    rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls,
                    pg_has_role(oid, 'cutter_owner', 'MEMBER')
             FROM pg_roles WHERE rolname = ANY ($1)",
            &[&[OWNER_ROLE, "cutter_exec", "cutter_verify", "cutter_review", "cutter_ro", "directus"]
                .as_slice()],
        )
        .unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let (name, can_login, has_power, is_member): (String, bool, bool, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        assert_eq!(can_login, name != OWNER_ROLE, "{name}");
        assert!(!has_power, "{name}");
        assert_eq!(is_member, name == OWNER_ROLE, "{name}");
    }
    let mut config = server.dsn(Login::Ro, database.name()).config().unwrap();
    assert!(config.connect(postgres::NoTls).is_err(), "the old password is out");
    config.password("a new one");
    config.connect(postgres::NoTls).unwrap();
}

#[test]
fn an_administrator_who_is_no_superuser_can_do_it_too() {
    let server = TestServer::own();
    let database = server.empty_database();
    database
        .client(Login::Admin)
        .batch_execute(&format!(
            "DROP ROLE cutter_exec, cutter_verify, cutter_review, cutter_ro, directus, cutter_owner;
             CREATE ROLE dba LOGIN CREATEROLE PASSWORD 'dba';
             ALTER DATABASE {} OWNER TO dba",
            database.name()
        ))
        .unwrap();
    let mut config = server.dsn(Login::Admin, database.name()).config().unwrap();
    config.user("dba").password("dba");
    let mut dba = config.connect(postgres::NoTls).unwrap();
    for _ in 0..2 {
        ensure_logins(&mut dba, &LoginPasswords::generate().unwrap()).unwrap();
    }
    let list = [Migration {
        version: 1,
        name: "owned",
        sql: "CREATE SCHEMA s; CREATE TABLE s.t (a int); GRANT USAGE, CREATE ON SCHEMA s TO cutter_owner;
              ALTER TABLE s.t OWNER TO cutter_owner;",
    }];
    assert_eq!(Migrator::new(&list).unwrap().run(&mut dba).unwrap(), [1]);
}

#[test]
fn a_test_database_has_the_shipped_schema_and_its_databases_access_list() {
    let server = TestServer::shared();
    let database = server.fresh_database();
    let status = Migrator::shipped().unwrap().status(&mut database.client(Login::Admin)).unwrap();
    assert!(status.is_current());
    assert_eq!(status.checksums_digest(), Migrator::shipped().unwrap().checksums_digest());
    let name = database.name().to_owned();
    drop(database);
    let mut client = server.dsn(Login::Admin, "postgres").config().unwrap().connect(postgres::NoTls).unwrap();
    let left = client.query("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).unwrap();
    assert!(left.is_empty(), "it is dropped");
}
