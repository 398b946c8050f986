//! The policy in PostgreSQL: appended by the administrator alone, and what the database refuses of
//! what the logins of a run send.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;

use cutter_core::base::digest::Digest;
use cutter_core::base::id::{RunId, mint_v7};
use cutter_core::port::PortErrorKind;
use cutter_core::port::policy::PolicyStore as _;
use cutter_core::port::run_store::RunStore as _;
use cutter_core::record::effect::{EffectName, ExecutorEffect};
use cutter_core::record::policy::{Change, Event, NewEvent};
use cutter_core::record::signature::Duty;
use cutter_core::testing::conformance::policy::{PolicyUnderTest, run_all};
use cutter_pg::login::Login;
use cutter_pg::policy::PgPolicyStore;
use cutter_pg::testing::{TestDatabase, TestServer};
use cutter_pg::{PgDatabase, PgRunStore};
use futures_executor::block_on;
use serde_json::{Value, json};
use support::{World, refused};

#[test]
fn postgresql_keeps_every_contract_of_the_policy() {
    let build = || async {
        let stand = TestServer::shared().fresh_database();
        Ok(PolicyUnderTest {
            store: Arc::new(PgPolicyStore::connect(stand.dsn(Login::Admin))),
            reader: Arc::new(PgDatabase::connect([(Login::Ro, stand.dsn(Login::Ro))])),
            keep: Some(Box::new(stand)),
        })
    };
    let held = block_on(run_all(build)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= 4, "only {held:?}");
}

fn append(database: &TestDatabase, changes: Vec<Change>) {
    let count: i64 = database
        .client(Login::Admin)
        .query_one("SELECT count(*) FROM cutter_governance.policy_event", &[])
        .unwrap()
        .get(0);
    let previous: Option<String> = database
        .client(Login::Admin)
        .query_opt("SELECT sha256 FROM cutter_governance.policy_event ORDER BY seq DESC LIMIT 1", &[])
        .unwrap()
        .map(|row| row.get(0));
    let previous: Option<Digest> = previous.map(|p| p.parse().unwrap());
    let seq = u64::try_from(count).unwrap() + 1;
    let at = "2026-05-20T10:11:12Z".parse().unwrap();
    let document = Event { seq, previous, at, why: String::new(), changes }.text();
    let store = PgPolicyStore::connect(database.dsn(Login::Admin));
    block_on(store.append(&NewEvent { seq, previous, document, keys: Vec::new() })).unwrap();
}

fn founded() -> Change {
    Change::Founded { chain: mint_v7(1, [1; 10]) }
}

#[test]
fn no_login_of_a_run_writes_the_policy_and_nobody_changes_it() {
    let database = TestServer::shared().fresh_database();
    append(&database, vec![founded()]);
    let digest = "0".repeat(64);
    for statement in [
        format!(
            "INSERT INTO cutter_governance.policy_event (seq, previous, document, sha256)
             VALUES (2, '{digest}', '\\x00', '{digest}')"
        ),
        "UPDATE cutter_governance.policy_event SET recorded_at = now()".to_owned(),
        "DELETE FROM cutter_governance.policy_event".to_owned(),
        "TRUNCATE cutter_governance.policy_event".to_owned(),
        "INSERT INTO cutter_governance.policy_key (sha256, public_key) VALUES ('x', '\\x00')".to_owned(),
        "SELECT cutter_governance.fn_policy_append(2, 'x', '\\x00', '{}')".to_owned(),
        "DROP TRIGGER trg_append_only ON cutter_governance.policy_event".to_owned(),
    ] {
        for login in [Login::Exec, Login::Verify, Login::Review, Login::Ro] {
            let error = database.client(login).batch_execute(&statement).unwrap_err();
            let code = error.code().unwrap().code().to_owned();
            assert!(matches!(code.as_str(), "42501" | "25006"), "{login:?}: {statement}: {error:?}");
        }
    }
    // the owner's own hand meets the append-only trigger
    let mut admin = database.client(Login::Admin);
    for statement in
        ["UPDATE cutter_governance.policy_event SET seq = 7", "DELETE FROM cutter_governance.policy_event"]
    {
        assert!(admin.batch_execute(statement).is_err(), "{statement}");
    }
}

#[test]
fn a_duty_signs_with_the_registered_key_or_not_at_all() {
    let mut world = World::new();
    let source = world.register(2);
    let other = "ef".repeat(32);
    append(
        &world.database,
        vec![founded(), Change::DutyKeyRegistered { duty: Duty::Executor, public_key: other.clone() }],
    );
    let database = &mut world;
    let mut run = database.run(&source);
    run.up_to_sg1();
    let error = refused(run.exec(EffectName::LegA, ExecutorEffect::LegA(run.leg_a_write())));
    assert_eq!(error.kind, PortErrorKind::Denied, "{error}");
    assert!(error.message.contains(&other) && error.message.contains("executor"), "{error}");
    let own = run.leg_a_write().signature.public_key;
    append(&database.database, vec![Change::DutyKeyRotated { duty: Duty::Executor, public_key: own }]);
    run.do_leg_a();
    // the verifier has none registered: any key is stored, as before
    run.do_leg_b();
    run.do_verify();
    let recorded =
        database.count("SELECT count(*) FROM cutter_governance.dot_pair_signature WHERE recorded_at IS NULL");
    assert_eq!(recorded, 0);
}

fn record(settings: &Value, links: &[&str]) -> Vec<u8> {
    let links: Vec<Value> = links.iter().map(|hash| json!({ "hash": hash, "to": "x" })).collect();
    serde_json::to_vec(&json!({
        "created_by": "op", "creation": { "document": "signed", "fingerprint": "F" }, "document_id": "X-LAW",
        "padding": "of some length, so that most of it stays as it was from one save to the next",
        "run_id": "r", "settings": settings, "transitions": links,
    }))
    .unwrap()
}

#[test]
fn a_revision_that_rewrites_what_was_fixed_is_refused() {
    let database = TestServer::shared().fresh_database();
    let strict = json!({ "approval": { "signature": "required" } });
    let loose = json!({ "approval": { "signature": "optional" } });
    let first = record(&strict, &["a"]);
    let changed: [(&str, Vec<u8>); 7] = [
        ("settings", record(&loose, &["a", "b"])),
        ("an earlier transition", record(&strict, &["c", "b"])),
        ("an earlier transition", record(&strict, &[])),
        (
            "creation",
            String::from_utf8(first.clone()).unwrap().replace("\"signed\"", "\"forged\"").into_bytes(),
        ),
        ("document_id", String::from_utf8(first.clone()).unwrap().replace("X-LAW", "X-LAY").into_bytes()),
        ("run_id", String::from_utf8(first.clone()).unwrap().replace("\"r\"", "\"s\"").into_bytes()),
        ("run_id", b"[1, 2]".to_vec()),
    ];
    for (n, (what, bytes)) in changed.into_iter().enumerate() {
        for is_same_driver in [false, true] {
            let number = u128::try_from(n).unwrap() * 2 + u128::from(is_same_driver);
            let run = RunId::new(
                "2026-05-20T10:11:12Z".parse().unwrap(),
                mint_v7(1, number.to_be_bytes()[6..].try_into().unwrap()),
            );
            let run = run.unwrap();
            let store = PgRunStore::connect(database.dsn(Login::Exec));
            block_on(store.create(&run, &first)).unwrap();
            // as a driver that knows the revision before sends it, and as a whole
            let saver = if is_same_driver { store } else { PgRunStore::connect(database.dsn(Login::Exec)) };
            let error = block_on(saver.publish(&run, 1, &bytes)).unwrap_err();
            assert_eq!(error.kind, PortErrorKind::Denied, "{what}: {error}");
            assert!(error.message.contains(what), "{what}: {error}");
            // what was fixed stays, and the run goes on
            block_on(saver.publish(&run, 1, &record(&strict, &["a", "b"]))).unwrap();
            let history = block_on(saver.history(&run, 2)).unwrap();
            assert_eq!(history.len(), 2);
        }
    }
}
