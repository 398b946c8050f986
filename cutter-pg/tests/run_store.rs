//! The run store over PostgreSQL: the core's contracts, and what two machines, a lost answer and a
//! restart do to it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod run_store_support;

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use cutter_core::base::cas::CasOutcome;
use cutter_core::port::PortErrorKind as K;
use cutter_core::port::run_store::{Beginning, Claim, RunStore, StopRequest};
use cutter_core::testing::conformance::{Fresh, run_store};
use cutter_pg::PgRunStore;
use cutter_pg::login::Login;
use cutter_pg::testing::{CommitProxy, Cut, TestServer};
use futures_executor::block_on;

use self::run_store_support::{holder, id, run_id, store};

/// With a thread of its own, and driven by whoever asks.
const KINDS: [fn(PgRunStore) -> PgRunStore; 2] = [|store| store, PgRunStore::waiting];

#[test]
fn postgresql_keeps_every_contract_of_the_run_store() {
    for kind in KINDS {
        let build = || async {
            let stand = TestServer::shared().fresh_database();
            let runs: Arc<dyn RunStore> = Arc::new(kind(store(&stand)));
            Ok(Fresh::keeping(runs, stand))
        };
        let held = block_on(run_store::run_all(build)).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(held.len() >= 19, "only {held:?}");
    }
}

#[test]
fn of_two_machines_that_save_one_wins_each_revision() {
    let database = TestServer::shared().fresh_database();
    let (run, stores) = (run_id(), [store(&database), store(&database)]);
    block_on(stores[0].create(&run, b"[0]")).unwrap();
    for revision in 1..=20_u64 {
        let barrier = Barrier::new(2);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let savers: Vec<_> = stores
                .iter()
                .enumerate()
                .map(|(n, store)| {
                    let (barrier, run) = (&barrier, &run);
                    scope.spawn(move || {
                        barrier.wait();
                        block_on(store.publish(run, revision, format!("[{n}]").as_bytes())).unwrap()
                    })
                })
                .collect();
            savers.into_iter().map(|saver| saver.join().unwrap()).collect()
        });
        let winner = outcomes.iter().position(|o| *o == CasOutcome::Applied).expect("a winner");
        assert_eq!(outcomes[1 - winner], CasOutcome::Conflict { found: revision + 1 }, "{outcomes:?}");
        let stored = block_on(stores[0].load(&run)).unwrap().unwrap();
        assert_eq!((stored.revision, stored.bytes), (revision + 1, format!("[{winner}]").into_bytes()));
    }
}

#[test]
fn a_frozen_writer_whose_lease_was_taken_over_saves_nothing() {
    let database = TestServer::shared().fresh_database();
    let (run, frozen, other) = (run_id(), store(&database), store(&database));
    block_on(frozen.create(&run, b"[1]")).unwrap();
    let old = block_on(frozen.lock(&run, &holder("the frozen one"))).unwrap();
    assert_eq!(block_on(frozen.publish(&run, 1, b"[2]")).unwrap(), CasOutcome::Applied);
    // A machine that stands still sends no sign of life.
    let mut admin = database.client(Login::Admin);
    let expire = "UPDATE cutter_run.lease SET expires_at = clock_timestamp() - interval '1 second'";
    admin.batch_execute(expire).unwrap();
    assert_eq!(block_on(other.lock_holder(&run)).unwrap(), None, "an expired lease is nobody's");
    let new = block_on(other.lock(&run, &holder("the successor"))).unwrap();
    let refused = block_on(frozen.publish(&run, 2, b"[3]")).unwrap_err();
    assert_eq!(refused.kind, K::Fenced, "{refused}");
    for word in ["the successor", "lease 1 was lost", "lease 2", run.as_str()] {
        assert!(refused.message.contains(word), "{word}: {refused}");
    }
    assert_eq!(block_on(other.load(&run)).unwrap().unwrap().revision, 2, "nothing was saved");
    // Neither its renewals nor its end touch what is the successor's.
    drop(old);
    assert_eq!(block_on(other.lock_holder(&run)).unwrap().unwrap().command, "the successor");
    assert_eq!(block_on(other.publish(&run, 2, b"[3]")).unwrap(), CasOutcome::Applied);
    // Without a lease nobody saves beside the holder either.
    let beside = block_on(frozen.publish(&run, 3, b"[4]")).unwrap_err();
    assert!(beside.kind == K::Fenced && beside.message.contains("the successor"), "{beside}");
    drop(new);
    assert_eq!(block_on(frozen.publish(&run, 3, b"[4]")).unwrap(), CasOutcome::Applied);
    let tokens = "SELECT array_agg(lease_token ORDER BY revision) FROM cutter_run.revision";
    let tokens: Vec<Option<i64>> = admin.query_one(tokens, &[]).unwrap().get(0);
    assert_eq!(tokens, [None, Some(1), Some(2), None]);
}

#[test]
fn a_lease_is_renewed_while_its_holder_lives_and_runs_out_when_it_does_not() {
    let database = TestServer::shared().fresh_database();
    let lease = Duration::from_millis(600);
    let (run, other) = (run_id(), store(&database));
    let living = store(&database).lease(lease);
    block_on(living.create(&run, b"1")).unwrap();
    let lock = block_on(living.lock(&run, &holder("living"))).unwrap();
    let since = Instant::now();
    while since.elapsed() < 3 * lease {
        let busy = block_on(other.lock(&run, &holder("other"))).err().expect("it is held");
        assert!(busy.kind == K::Busy && busy.message.contains("living"), "{busy}");
        std::thread::sleep(lease / 6);
    }
    assert_eq!(block_on(living.publish(&run, 1, b"2")).unwrap(), CasOutcome::Applied);
    drop(lock);
    // One that died without a word: it took its lease, and is no more.
    let mut dead = database.client(Login::Exec);
    let take = "SELECT token FROM cutter_run.fn_lease_take($1, $2, $3, 400)";
    let text = serde_json::to_string(&holder("dead")).unwrap();
    let token: Option<i64> = dead.query_one(take, &[&run.as_str(), &id(), &text]).unwrap().get(0);
    assert_eq!(token, Some(2));
    drop(dead);
    let busy = block_on(other.lock(&run, &holder("other"))).err().expect("it is held");
    assert!(busy.message.contains("runs out in 1 s"), "{busy}");
    std::thread::sleep(Duration::from_millis(500));
    drop(block_on(other.lock(&run, &holder("other"))).unwrap());
}

#[test]
fn a_person_ends_a_lease_and_its_holder_is_refused() {
    let database = TestServer::shared().fresh_database();
    let (run, held, person) = (run_id(), store(&database), store(&database));
    block_on(held.create(&run, b"1")).unwrap();
    assert_eq!(block_on(person.end_lease(&run)).unwrap(), None);
    let lock = block_on(held.lock(&run, &holder("held"))).unwrap();
    assert_eq!(block_on(person.end_lease(&run)).unwrap().unwrap().command, "held");
    let refused = block_on(held.publish(&run, 1, b"2")).unwrap_err();
    assert_eq!(refused.kind, K::Fenced, "{refused}");
    drop(block_on(person.lock(&run, &holder("person"))).unwrap());
    drop(lock);
    assert_eq!(block_on(person.lock(&run_id(), &holder("x"))).err().unwrap().kind, K::NotFound);
}

#[test]
fn of_fifty_claimants_of_a_document_one_has_it() {
    let database = TestServer::shared().fresh_database();
    let stores: Vec<_> = (0..10).map(|_| store(&database)).collect();
    for generation in 1..=4 {
        let barrier = Barrier::new(50);
        let outcomes: Vec<CasOutcome<Claim>> = std::thread::scope(|scope| {
            let claimants: Vec<_> = (0..50)
                .map(|n| {
                    let (store, barrier) = (&stores[n % stores.len()], &barrier);
                    let claim = Claim { document_id: "X-LAW-1".into(), generation, run_id: run_id() };
                    block_on(store.create(&claim.run_id, b"1")).unwrap();
                    scope.spawn(move || {
                        barrier.wait();
                        block_on(store.put_claim(&claim)).unwrap()
                    })
                })
                .collect();
            claimants.into_iter().map(|claimant| claimant.join().unwrap()).collect()
        });
        let newest = block_on(stores[0].latest_claim("X-LAW-1")).unwrap().unwrap();
        assert_eq!(newest.generation, generation);
        let applied = outcomes.iter().filter(|o| **o == CasOutcome::Applied).count();
        let told = outcomes.iter().filter(|o| **o == CasOutcome::Conflict { found: newest.clone() }).count();
        assert_eq!((applied, told), (1, 49), "{outcomes:?}");
    }
    let gap = Claim { document_id: "X-LAW-1".into(), generation: 6, run_id: run_id() };
    let refused = block_on(stores[0].put_claim(&gap)).unwrap_err();
    assert!(refused.kind == K::Invalid && refused.message.contains("1 to 5"), "{refused}");
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    for kind in KINDS {
        lose_answers(kind);
    }
}

fn lose_answers(kind: fn(PgRunStore) -> PgRunStore) {
    let database = TestServer::shared().fresh_database();
    let proxy = CommitProxy::before(&database.dsn(Login::Exec));
    let (run, direct) = (run_id(), store(&database));
    let store = kind(PgRunStore::connect(proxy.dsn(&database.dsn(Login::Exec))));
    // Not saved, and saved without a word.
    for (cut, again) in
        [(Cut::BeforeCommit, CasOutcome::Applied), (Cut::AfterAnswer, CasOutcome::AlreadyApplied)]
    {
        let run = run_id();
        assert_eq!(block_on(store.list()).unwrap().len(), block_on(direct.list()).unwrap().len());
        proxy.cut_statements(0, &[cut]);
        assert_eq!(block_on(store.create(&run, b"1")).unwrap(), again, "{cut:?}");
        proxy.cut_statements(0, &[cut]);
        let lock = block_on(store.lock(&run, &holder("cut"))).unwrap();
        proxy.cut_statements(0, &[cut]);
        assert_eq!(block_on(store.publish(&run, 1, b"2")).unwrap(), again, "{cut:?}");
        let claim = Claim { document_id: format!("DOC-{cut:?}"), generation: 1, run_id: run.clone() };
        proxy.cut_statements(0, &[cut]);
        let claimed = block_on(store.put_claim(&claim)).unwrap();
        assert_eq!(claimed == CasOutcome::Applied, cut == Cut::BeforeCommit, "{claimed:?}");
        proxy.cut_statements(0, &[cut]);
        assert_eq!(block_on(store.load(&run)).unwrap().unwrap().revision, 2);
        let query = "SELECT token FROM cutter_run.lease WHERE run_id = $1";
        let token: i64 = database.client(Login::Ro).query_one(query, &[&run.as_str()]).unwrap().get(0);
        assert_eq!(token, 1, "the lease was taken once");
        drop(lock);
        assert_eq!(block_on(direct.lock_holder(&run)).unwrap(), None);
    }
    assert_eq!(proxy.cuts(), 10);
    // Where no answer is to be had the caller hears that, and asks again himself.
    block_on(direct.create(&run, b"1")).unwrap();
    // The second one cuts the new session while it is set up.
    proxy.cut_statements(0, &[Cut::AfterAnswer, Cut::AfterAnswer]);
    let unknown = block_on(store.publish(&run, 1, b"2")).unwrap_err();
    assert_eq!(unknown.kind, K::OutcomeUnknown, "{unknown}");
    assert_eq!(block_on(store.publish(&run, 1, b"2")).unwrap(), CasOutcome::AlreadyApplied);
    assert_eq!(block_on(direct.load(&run)).unwrap().unwrap().revision, 2);
}

#[test]
fn a_restart_of_the_server_costs_a_run_nothing() {
    let server = TestServer::own();
    for kind in KINDS {
        restart(&server, kind);
    }
}

fn restart(server: &TestServer, kind: fn(PgRunStore) -> PgRunStore) {
    let database = server.fresh_database();
    let (run, store) = (run_id(), kind(store(&database)));
    block_on(store.create(&run, b"1")).unwrap();
    let lock = block_on(store.lock(&run, &holder("before"))).unwrap();
    let claim = Claim { document_id: "X-LAW-1".into(), generation: 1, run_id: run.clone() };
    block_on(store.put_claim(&claim)).unwrap();
    assert_eq!(block_on(store.publish(&run, 1, b"2")).unwrap(), CasOutcome::Applied);
    server.cluster().stop().unwrap();
    let down = block_on(store.publish(&run, 2, b"3")).unwrap_err();
    assert!(matches!(down.kind, K::Unavailable | K::OutcomeUnknown), "{down}");
    assert_eq!(block_on(store.load(&run)).unwrap_err().kind, K::Unavailable);
    server.cluster().start().unwrap();
    assert_eq!(block_on(store.publish(&run, 2, b"3")).unwrap(), CasOutcome::Applied);
    assert_eq!(block_on(store.publish(&run, 3, b"4")).unwrap(), CasOutcome::Applied);
    assert_eq!(block_on(store.lock_holder(&run)).unwrap().unwrap().command, "before");
    assert_eq!(block_on(store.latest_claim("X-LAW-1")).unwrap(), Some(claim));
    drop(lock);
    assert_eq!(block_on(store.lock_holder(&run)).unwrap(), None);
}

#[test]
fn a_save_brings_the_stop_request_along_once() {
    let database = TestServer::shared().fresh_database();
    let (run, driver, person) = (run_id(), store(&database), store(&database));
    block_on(driver.create(&run, b"1")).unwrap();
    let lock = block_on(driver.lock(&run, &holder("driver"))).unwrap();
    let before = driver.statements();
    assert_eq!(block_on(driver.stop_request(&run)).unwrap(), None);
    assert_eq!(driver.statements(), before, "the lock brought it along");
    let request = StopRequest {
        id: id(),
        reason: "recess".into(),
        actor: "ann".into(),
        at: "2026-05-20T10:11:12Z".into(),
    };
    block_on(person.request_stop(&run, &request)).unwrap();
    block_on(person.request_stop(&run, &request)).unwrap();
    assert_eq!(
        block_on(driver.stop_request(&run)).unwrap(),
        Some(request.clone()),
        "asked, as it was used up"
    );
    block_on(driver.publish(&run, 1, b"2")).unwrap();
    let before = driver.statements();
    assert_eq!(block_on(driver.stop_request(&run)).unwrap(), Some(request.clone()));
    assert_eq!(driver.statements(), before, "the save brought it along");
    // What this process itself asks is never hidden by what was brought along before.
    block_on(driver.publish(&run, 2, b"3")).unwrap();
    let later = StopRequest { id: id(), reason: "later".into(), ..request };
    block_on(driver.request_stop(&run, &later)).unwrap();
    assert_eq!(block_on(driver.stop_request(&run)).unwrap(), Some(later));
    drop(lock);
    assert_eq!(block_on(driver.request_stop(&run_id(), &holder_request())).unwrap_err().kind, K::NotFound);
}

/// Creation, lock and claim are one statement.
#[test]
fn a_run_begins_in_one_statement() {
    let database = TestServer::shared().fresh_database();
    let store = PgRunStore::connect(database.dsn(Login::Exec));
    let (run, driver) = (run_id(), holder("driver"));
    let claim = |generation| Claim { document_id: "X-LAW-1".into(), generation, run_id: run.clone() };
    // A generation beyond the next one is refused, and the lock given back.
    let gap = claim(3);
    let beginning = Beginning { run_id: &run, bytes: b"1", holder: &driver, claim: Some(&gap) };
    assert_eq!(block_on(store.begin(&beginning)).err().unwrap().kind, K::Invalid);
    let first = claim(1);
    let before = store.statements();
    let beginning = Beginning { claim: Some(&first), ..beginning };
    let begun = block_on(store.begin(&beginning)).unwrap();
    assert_eq!(store.statements() - before, 1);
    assert_eq!((begun.created, begun.claimed), (CasOutcome::AlreadyApplied, Some(CasOutcome::Applied)));
    assert_eq!(block_on(store.publish(&run, 1, b"2")).unwrap(), CasOutcome::Applied, "under the lease");
    let held = block_on(PgRunStore::connect(database.dsn(Login::Ro)).lock_holder(&run)).unwrap();
    assert_eq!(held.as_ref(), Some(&driver));
    drop(begun.lock);
    assert_eq!(block_on(store.lock_holder(&run)).unwrap(), None);
}

#[test]
fn the_lock_brings_the_newest_revision_along() {
    let database = TestServer::shared().fresh_database();
    let (run, driver, other) = (run_id(), store(&database), store(&database));
    let none = block_on(driver.lock_and_load(&run, &holder("driver"))).err().unwrap();
    assert_eq!(none.kind, K::NotFound, "{none}");
    block_on(driver.create(&run, b"1")).unwrap();
    for revision in 1..=12_u64 {
        let before = driver.statements();
        let (lock, newest) = block_on(driver.lock_and_load(&run, &holder("driver"))).unwrap();
        assert_eq!(driver.statements(), before + 1, "one statement");
        let newest = newest.unwrap();
        assert_eq!((newest.revision, newest.bytes), (revision, revision.to_string().into_bytes()));
        let busy = block_on(other.lock_and_load(&run, &holder("other"))).err().unwrap();
        assert_eq!(busy.kind, K::Busy, "{busy}");
        drop(lock);
        let text = (revision + 1).to_string();
        assert_eq!(block_on(other.publish(&run, revision, text.as_bytes())).unwrap(), CasOutcome::Applied);
        // A number of the past, and one with a gap before it, as whoever holds the lease.
        let lock = block_on(driver.lock(&run, &holder("driver"))).unwrap();
        for expected in [revision - 1, revision, revision + 2] {
            let found = CasOutcome::Conflict { found: revision + 1 };
            assert_eq!(block_on(driver.publish(&run, expected, b"\"other\"")).unwrap(), found, "{expected}");
        }
        drop(lock);
    }
}

fn holder_request() -> StopRequest {
    StopRequest { id: id(), reason: "x".into(), actor: "x".into(), at: "2026-05-20T10:11:12Z".into() }
}

#[test]
fn what_is_no_sidecar_or_no_file_name_is_refused() {
    let database = TestServer::shared().fresh_database();
    let (run, store) = (run_id(), store(&database));
    let too_big = format!("\"{}\"", "x".repeat(70_000));
    block_on(store.create(&run, b"{}")).unwrap();
    for bad in [&b""[..], b"{", too_big.as_bytes()] {
        assert_eq!(block_on(store.create(&run_id(), bad)).unwrap_err().kind, K::Invalid);
        assert_eq!(block_on(store.publish(&run, 1, bad)).unwrap_err().kind, K::Invalid);
    }
    for bad in ["", "../x.md", "rev/x.md", ".x.md"] {
        assert_eq!(block_on(store.mirror(&run, bad, b"")).unwrap_err().kind, K::Invalid, "{bad}");
    }
    let location = store.sidecar_location(&run);
    assert!(location.contains("cutter_run.revision") && location.contains(run.as_str()), "{location}");
    assert!(!location.contains("password"), "{location}");
}

#[test]
fn nothing_of_the_run_store_is_written_past_its_functions() {
    let database = TestServer::shared().fresh_database();
    let (run, exec) = (run_id(), store(&database));
    block_on(exec.create(&run, b"1")).unwrap();
    drop(block_on(exec.lock(&run, &holder("x"))).unwrap());
    let claim = Claim { document_id: "D".into(), generation: 1, run_id: run.clone() };
    block_on(exec.put_claim(&claim)).unwrap();
    block_on(exec.request_stop(&run, &holder_request())).unwrap();
    let tables = ["run", "revision", "lease", "claim", "stop_request"];
    for login in Login::RUN_ROLES {
        let mut client = database.client(login);
        let mut denied = |statement: String| {
            let error = client.batch_execute(&statement).unwrap_err();
            assert_eq!(error.as_db_error().unwrap().code().code(), "42501", "{login}: {statement}");
        };
        for table in tables {
            denied(format!("INSERT INTO cutter_run.{table} (run_id) VALUES ('x')"));
            denied(format!("UPDATE cutter_run.{table} SET run_id = 'x'"));
            denied(format!("DELETE FROM cutter_run.{table}"));
            denied(format!("TRUNCATE cutter_run.{table} CASCADE"));
            if !matches!(login, Login::Exec | Login::Ro) {
                denied(format!("SELECT FROM cutter_run.{table}"));
            }
        }
        if login != Login::Exec {
            for call in [
                "fn_run_create('r', '1')",
                "fn_run_publish('r', 1, '1', NULL, 1, NULL, 1, false)",
                "fn_run_begin('r', '1', gen_random_uuid(), '{}', 1, NULL, NULL)",
                "fn_lease_take('r', gen_random_uuid(), '{}', 1)",
                "fn_lease_renew('{r}', '{1}', 1)",
                "fn_lease_release('r', 1)",
                "fn_claim_put('d', 1, 'r')",
                "fn_stop_request('r', gen_random_uuid(), 'a', 'b', 'c')",
            ] {
                denied(format!("SELECT cutter_run.{call}"));
            }
        }
    }
    // Not even the owner edits what was stored, nor a lease's past.
    let mut admin = database.client(Login::Admin);
    for table in tables {
        let update = format!("UPDATE cutter_run.{table} SET run_id = 'x'");
        for statement in [
            update,
            format!("DELETE FROM cutter_run.{table}"),
            format!("TRUNCATE cutter_run.{table} CASCADE"),
        ] {
            let error = admin.batch_execute(&statement).unwrap_err();
            assert_eq!(error.as_db_error().unwrap().code().code(), "CU001", "{statement}");
        }
    }
    for set in ["token = token - 1", "token = token + 2", "holder = 'me'", "released_at = NULL"] {
        let error = admin.batch_execute(&format!("UPDATE cutter_run.lease SET {set}")).unwrap_err();
        assert!(["CU001", "23514"].contains(&error.as_db_error().unwrap().code().code()), "{set}: {error:?}");
    }
    // A reader reads, and is told that it may not write.
    let reader = PgRunStore::connect(database.dsn(Login::Ro));
    assert_eq!(block_on(reader.list()).unwrap(), std::slice::from_ref(&run));
    assert_eq!(block_on(reader.load(&run)).unwrap().unwrap().bytes, b"1");
    assert_eq!(block_on(reader.publish(&run, 1, b"2")).unwrap_err().kind, K::Denied);
}

#[test]
fn sql_and_core_agree_on_every_pair_of_stages_and_an_audit_finds_a_move_that_is_none() {
    use cutter_core::machine::run::{RUN, Stage};
    let database = TestServer::shared().fresh_database();
    let mut reader = database.client(Login::Ro);
    for &from in Stage::ALL {
        let targets: Vec<String> =
            reader.query_one("SELECT cutter_run.fn_run_targets($1)", &[&from.as_str()]).unwrap().get(0);
        assert_eq!(targets, RUN.targets(from).into_iter().map(Stage::as_str).collect::<Vec<_>>(), "{from}");
        for &to in Stage::ALL {
            let observed = reader
                .query_one("SELECT cutter_run.fn_run_check($1, $2)", &[&from.as_str(), &to.as_str()])
                .err()
                .map(|error| error.as_db_error().unwrap().message().to_owned());
            let expected = RUN.check(from, to).err().map(|illegal| illegal.to_string());
            assert_eq!(observed, expected, "{from}->{to}");
        }
    }
    // The administrator can write what no function would: the audit shows it.
    let mut admin = database.client(Login::Admin);
    admin.batch_execute("INSERT INTO cutter_run.run (run_id) VALUES ('r')").unwrap();
    let states = [
        ("pending", None, true),
        ("source_pinned", None, true),
        ("source_pinned", None, true),
        ("stopped_kb_upload", Some("source_pinned"), true),
        ("source_pinned", None, true),
        ("grants_probed", None, false),
        ("failed_cut_authz", Some("grants_probed"), true),
        ("grants_probed", None, false),
        ("voided_wrong", Some("grants_probed"), true),
        ("pending", None, false),
        ("failed_mark", Some("source_pinned"), true),
        ("marked", None, false),
        ("stopped_drift", Some("pre_write_backup_taken"), false),
    ];
    for (n, (state, kept, _)) in states.iter().enumerate() {
        let body = serde_json::json!({ "state": state, "kept_stage": kept }).to_string();
        let n = i64::try_from(n + 1).unwrap();
        admin
            .execute(
                "INSERT INTO cutter_run.revision (run_id, revision, body) VALUES ('r', $1, $2)",
                &[&n, &body.as_bytes()],
            )
            .unwrap();
    }
    let seen: Vec<(i64, bool)> = reader
        .query("SELECT revision, is_legal FROM cutter_run.v_run_move ORDER BY revision", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    let moves = states.iter().enumerate().filter(|(n, _)| *n != 2);
    let expected: Vec<(i64, bool)> = moves.map(|(n, s)| (i64::try_from(n + 1).unwrap(), s.2)).collect();
    assert_eq!(seen, expected);
}
