//! The command ledger in PostgreSQL below its port: who may do what, what nobody may, races, lost
//! connections, and the functions' judgement beside the core's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cutter_core::base::digest::Digest;
use cutter_core::gate::command::{Standing, judge};
use cutter_core::machine::command::{COMMAND, CommandState};
use cutter_core::operate::command::{
    Boundary, CommandError, CommandHandler, Executed, Executor, How, Inquiry,
};
use cutter_core::port::command_ledger::{Claim, CommandLedger, Lease};
use cutter_core::port::environment::Clock;
use cutter_core::port::{Port, PortErrorKind, PortResult};
use cutter_core::record::command::{Command, CommandKind, FailureCode, Outcome, Receipt, Settlement};
use cutter_pg::PgLedger;
use cutter_pg::login::Login;
use cutter_pg::testing::{CommitProxy, Cut, TestDatabase, TestServer};
use futures_executor::block_on;
use jiff::Timestamp;
use support::id;
use uuid::Uuid;

struct Wall;

#[async_trait]
impl Clock for Wall {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, millis: u64) {
        std::thread::sleep(std::time::Duration::from_millis(millis));
    }
}

/// A provider that keeps keys, counts calls, and can cut the ledger's connections while it works.
#[derive(Default)]
struct Provider {
    made: Mutex<BTreeMap<String, u32>>,
    calls: Mutex<Vec<String>>,
    kill: Mutex<Option<TestDatabase>>,
    is_dead: AtomicBool,
}

#[async_trait]
impl CommandHandler for Provider {
    fn kinds(&self) -> Vec<CommandKind> {
        vec![CommandKind::new("deployment.create").unwrap()]
    }

    fn check(&self, _: &Command) -> Result<(), String> {
        Ok(())
    }

    async fn perform(&self, command: &Command, _: &Lease) -> PortResult<Receipt> {
        self.calls.lock().unwrap().push(command.key().to_string());
        self.made.lock().unwrap().entry(command.key().to_string()).and_modify(|n| *n += 1).or_insert(1);
        let kill = self.kill.lock().unwrap().take();
        if let Some(database) = kill {
            let mut admin = database.client(Login::Admin);
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                        WHERE datname = current_database() AND usename = 'cutter_exec'";
            let ended: i64 = admin.query_one(kill, &[]).unwrap().get(0);
            assert_eq!(ended, 1, "the ledger's connection");
            *self.kill.lock().unwrap() = Some(database);
        }
        if self.is_dead.load(Ordering::SeqCst) {
            panic!("the process dies between effect and record");
        }
        Ok(receipt(command))
    }

    async fn inquire(&self, command: &Command, _: &Lease) -> PortResult<Inquiry> {
        let made = self.made.lock().unwrap().contains_key(command.key().as_str());
        Ok(if made { Inquiry::Happened(receipt(command)) } else { Inquiry::NotHappened })
    }
}

fn receipt(command: &Command) -> Receipt {
    Receipt::new(&format!("made {}", command.key())).unwrap()
}

fn command(key: &str, size: u32) -> Command {
    Command::new("deployment.create", key, &serde_json::json!({ "size": size })).unwrap()
}

fn ledger(database: &TestDatabase) -> Arc<PgLedger> {
    Arc::new(PgLedger::connect(database.dsn(Login::Exec), database.dsn(Login::Ro)))
}

fn boundary(ledger: Arc<PgLedger>, provider: &Arc<Provider>) -> Boundary {
    Boundary::new(ledger, Arc::new(Wall)).handler(provider.clone()).unwrap()
}

fn executor() -> Executor {
    Executor { actor: "worker".into(), holder: id() }
}

fn done(command: &Command, how: How) -> Executed {
    Executed::Ended { outcome: Outcome::Done { receipt: receipt(command) }, how }
}

#[test]
fn fifty_threads_with_one_key_make_one_call() {
    let database = TestServer::shared().fresh_database();
    let provider = Arc::new(Provider::default());
    let command = command("one", 1);
    // Each thread has a boundary of its own; five processes' worth of connections.
    let ledgers: Vec<_> = (0..5).map(|_| ledger(&database)).collect();
    let barrier = std::sync::Barrier::new(50);
    let ends: Vec<Executed> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50)
            .map(|i| {
                let (ledger, provider, command, barrier) = (&ledgers[i % 5], &provider, &command, &barrier);
                scope.spawn(move || {
                    let boundary = boundary(ledger.clone(), provider);
                    barrier.wait();
                    block_on(boundary.execute_within(command, &executor(), 60_000)).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(*provider.calls.lock().unwrap(), ["one"]);
    let performed = ends.iter().filter(|end| **end == done(&command, How::Performed)).count();
    let replayed = ends.iter().filter(|end| **end == done(&command, How::Replayed)).count();
    assert_eq!((performed, replayed), (1, 49), "{ends:?}");
}

#[test]
fn another_payload_is_refused_without_a_call_and_says_both_digests() {
    let database = TestServer::shared().fresh_database();
    let provider = Arc::new(Provider::default());
    let boundary = boundary(ledger(&database), &provider);
    let (first, other) = (command("k", 1), command("k", 2));
    block_on(boundary.execute(&first, &executor())).unwrap();
    let texts: Vec<String> =
        (0..2).map(|_| block_on(boundary.execute(&other, &executor())).unwrap_err().to_string()).collect();
    assert_eq!(texts[0], texts[1]);
    for digest in [first.payload_sha256(), other.payload_sha256()] {
        assert!(texts[0].contains(&digest.to_hex()), "{}", texts[0]);
    }
    assert_eq!(provider.calls.lock().unwrap().len(), 1);
}

#[test]
fn a_connection_that_is_killed_between_effect_and_record_costs_no_second_call() {
    let database = TestServer::shared().fresh_database();
    let provider = Arc::new(Provider::default());
    let command = command("killed", 1);
    let of_ledger = ledger(&database);
    *provider.kill.lock().unwrap() = Some(database);
    let end = block_on(boundary(of_ledger.clone(), &provider).execute(&command, &executor())).unwrap();
    assert_eq!(end, done(&command, How::Performed), "recorded over a new connection");
    assert_eq!(provider.calls.lock().unwrap().len(), 1);
    assert_eq!(block_on(of_ledger.attempts(command.key())).unwrap().len(), 1);
}

#[test]
fn a_process_that_dies_between_effect_and_record_is_resolved_by_asking() {
    let database = TestServer::shared().fresh_database();
    let provider = Arc::new(Provider::default());
    let command = command("dies", 1);
    provider.is_dead.store(true, Ordering::SeqCst);
    let first = boundary(ledger(&database), &provider).lease_ms(100);
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        block_on(first.execute(&command, &executor()))
    }));
    assert!(died.is_err());
    provider.is_dead.store(false, Ordering::SeqCst);
    let next = boundary(ledger(&database), &provider);
    let end = block_on(next.execute_within(&command, &executor(), 60_000)).unwrap();
    assert_eq!(end, done(&command, How::Resolved));
    assert_eq!(provider.calls.lock().unwrap().len(), 1);
    let after = block_on(next.recover(&executor(), None, 10)).unwrap();
    assert!(after.is_empty(), "{after:?}");
}

#[test]
fn a_lost_commit_of_claim_or_settlement_makes_one_call() {
    for cut in [Cut::BeforeCommit, Cut::AfterAnswer] {
        for before in 0..2 {
            let database = TestServer::shared().fresh_database();
            let proxy = CommitProxy::before(&database.dsn(Login::Exec));
            let exec = proxy.dsn(&database.dsn(Login::Exec));
            let ledger = Arc::new(PgLedger::connect(exec, database.dsn(Login::Ro)));
            let provider = Arc::new(Provider::default());
            let command = command("commit", 1);
            let boundary = boundary(ledger.clone(), &provider);
            if before == 0 {
                proxy.cut_next(cut);
            } else {
                proxy.cut_after(1, cut);
            }
            let end = block_on(boundary.execute(&command, &executor())).unwrap();
            assert!(matches!(end, Executed::Ended { outcome: Outcome::Done { .. }, .. }), "{end:?}");
            assert_eq!(provider.calls.lock().unwrap().len(), 1, "{cut:?} {before}");
        }
    }
}

#[test]
fn nobody_writes_the_ledger_but_by_its_functions() {
    let database = TestServer::shared().fresh_database();
    let of_ledger = ledger(&database);
    let provider = Arc::new(Provider::default());
    block_on(boundary(of_ledger.clone(), &provider).execute(&command("k", 1), &executor())).unwrap();
    let open = command("open", 1);
    let claim = Claim {
        command: open.clone(),
        actor: "worker".into(),
        holder: id(),
        lease_ms: 60_000,
        at: Timestamp::UNIX_EPOCH,
    };
    block_on(of_ledger.claim(&claim)).unwrap();
    let digest = Digest::of(b"{\"kind\":\"a\",\"payload\":1}");
    let of_settlement = "INSERT INTO cutter_governance.command_settlement (command_key, epoch, state, settlement, due_at, at)";
    let statements = [
        "UPDATE cutter_governance.command SET body = '{}'".to_owned(),
        "DELETE FROM cutter_governance.command".to_owned(),
        "TRUNCATE cutter_governance.command CASCADE".to_owned(),
        "UPDATE cutter_governance.command_attempt SET lease_until = now()".to_owned(),
        "DELETE FROM cutter_governance.command_attempt".to_owned(),
        "TRUNCATE cutter_governance.command_attempt CASCADE".to_owned(),
        "UPDATE cutter_governance.command_settlement SET settlement = '{\"state\":\"done\",\"receipt\":2}'".to_owned(),
        "DELETE FROM cutter_governance.command_settlement".to_owned(),
        "TRUNCATE cutter_governance.command_settlement".to_owned(),
        "UPDATE cutter_governance.command_open SET command_key = 'k'".to_owned(),
        "DELETE FROM cutter_governance.command_open".to_owned(),
        "TRUNCATE cutter_governance.command_open".to_owned(),
        // an attempt after the end, one that skips, an end of no attempt, a second end
        "INSERT INTO cutter_governance.command_attempt (command_key, epoch, cause, holder, actor, lease_until, at)
             VALUES ('k', 2, 'retry', gen_random_uuid(), 'me', now(), now())".to_owned(),
        "INSERT INTO cutter_governance.command_attempt (command_key, epoch, cause, holder, actor, lease_until, at)
             VALUES ('open', 3, 'unresolved', gen_random_uuid(), 'me', now(), now())".to_owned(),
        format!("{of_settlement} VALUES ('open', 2, 'waiting', '{{\"state\":\"waiting\"}}', now(), now())"),
        format!("{of_settlement} VALUES ('k', 1, 'waiting', '{{\"state\":\"waiting\"}}', now(), now())"),
    ];
    for login in Login::RUN_ROLES {
        let mut client = database.client(login);
        for statement in &statements {
            let error = client.batch_execute(statement).expect_err(statement);
            assert_eq!(error.code().map(|c| c.code()), Some("42501"), "{login}: {statement}: {error:?}");
        }
    }
    // The administrator is no exception where the schema can say so.
    let mut admin = database.client(Login::Admin);
    for statement in &statements {
        let error = admin.batch_execute(statement).expect_err(statement);
        let code = error.code().map(|c| c.code().to_owned()).unwrap_or_default();
        assert!(code.starts_with("CU"), "{statement}: {code} {error:?}");
    }
    // A digest that is not the body's is refused, whoever writes it.
    let forged = format!(
        "INSERT INTO cutter_governance.command (command_key, kind, body, payload_sha256, actor, at)
         VALUES ('x', 'a', '{{\"kind\":\"a\",\"payload\":2}}', '{digest}', 'me', now())"
    );
    assert_eq!(admin.batch_execute(&forged).unwrap_err().code().map(|c| c.code()), Some("23514"));
    assert_eq!(block_on(of_ledger.get(open.key())).unwrap().unwrap().state(), CommandState::Intended);
}

#[test]
fn only_the_executor_claims_and_settles() {
    let database = TestServer::shared().fresh_database();
    let calls = [
        "SELECT cutter_governance.fn_command_claim('k', '{}', '', 'me', NULL, 1, now())",
        "SELECT cutter_governance.fn_command_settle('k', 1, NULL, '{}', now())",
        "SELECT cutter_governance.fn_command_assert('done', 'intended')",
    ];
    for login in Login::RUN_ROLES {
        let mut client = database.client(login);
        for (i, call) in calls.iter().enumerate() {
            let error = client.batch_execute(call).expect_err(call);
            let is_denied = error.code().map(|c| c.code()) == Some("42501");
            assert_eq!(is_denied, login != Login::Exec || i == 2, "{login}: {call}: {error:?}");
        }
        let read = client.batch_execute("SELECT * FROM cutter_governance.v_command");
        let may_read = matches!(login, Login::Exec | Login::Verify | Login::Ro);
        assert_eq!(read.is_ok(), may_read, "{login}");
    }
}

#[test]
fn the_functions_allow_exactly_the_edges_of_the_table() {
    let database = TestServer::shared().fresh_database();
    let mut admin = database.client(Login::Admin);
    for &from in CommandState::ALL {
        let row =
            admin.query_one("SELECT cutter_governance.fn_command_targets($1)", &[&from.as_str()]).unwrap();
        let mut targets: Vec<String> = row.get(0);
        let mut wanted: Vec<String> = COMMAND.targets(from).iter().map(ToString::to_string).collect();
        targets.sort();
        wanted.sort();
        assert_eq!(targets, wanted, "{from}");
        for &to in CommandState::ALL {
            let sql = admin.execute(
                "SELECT cutter_governance.fn_command_assert($1, $2)",
                &[&from.as_str(), &to.as_str()],
            );
            match COMMAND.check(from, to) {
                Ok(()) => assert!(sql.is_ok(), "{from} {to}"),
                Err(_) => assert!(
                    sql.unwrap_err()
                        .as_db_error()
                        .unwrap()
                        .message()
                        .starts_with(&format!("illegal command transition {from}->{to} (legal="))
                ),
            }
        }
    }
}

/// Every state, lease, holder and payload: the function's word is the core's.
#[test]
fn the_function_judges_as_the_core_does() {
    const LONG: u64 = 3_600_000;
    let database = TestServer::shared().fresh_database();
    let ledger = ledger(&database);
    let (me, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let ends = [
        None,
        Some(Settlement::waiting(0, "full")),
        Some(Settlement::waiting(LONG, "full")),
        Some(Settlement::Done { receipt: Receipt::new(&1).unwrap() }),
        Some(Settlement::failed(FailureCode::Refused, "no")),
    ];
    let (mut n, mut words) = (0, BTreeMap::<&str, u32>::new());
    for end in &ends {
        for holder in [me, other] {
            for lease_ms in [0, LONG] {
                for size in [1, 2] {
                    n += 1;
                    let key = format!("case-{n}");
                    let at = Timestamp::UNIX_EPOCH;
                    let actor = "worker".to_owned();
                    let first = Claim { command: command(&key, 1), actor, holder, lease_ms, at };
                    let lease = block_on(ledger.claim(&first)).unwrap().lease.unwrap();
                    if let Some(end) = end {
                        block_on(ledger.settle(&lease, end, at)).unwrap();
                    }
                    let entry = block_on(ledger.get(first.command.key())).unwrap().unwrap();
                    let delay_left_ms =
                        if let Some(Settlement::Waiting { delay_ms, .. }) = end { *delay_ms } else { 0 };
                    let standing = Standing { entry, lease_left_ms: lease_ms, delay_left_ms };
                    let offer = Claim { command: command(&key, size), holder: me, ..first };
                    let wanted = judge(Some(&standing), &offer.command, me);
                    let found = block_on(ledger.claim(&offer)).unwrap();
                    assert_eq!(
                        found.judgement.as_str(),
                        wanted.as_str(),
                        "{end:?} {holder} {lease_ms} {size}"
                    );
                    assert_eq!(found.lease.is_some(), wanted.claims());
                    *words.entry(wanted.as_str()).or_default() += 1;
                }
            }
        }
    }
    let all = ["busy", "conflict", "replay", "retry", "unresolved", "waiting"];
    assert_eq!(words.keys().copied().collect::<Vec<_>>(), all, "each at least once: {words:?}");
}

#[test]
fn an_adapter_that_cannot_tell_leaves_the_command_open_and_is_not_called() {
    struct Mute(Provider);
    #[async_trait]
    impl CommandHandler for Mute {
        fn kinds(&self) -> Vec<CommandKind> {
            self.0.kinds()
        }
        fn check(&self, command: &Command) -> Result<(), String> {
            self.0.check(command)
        }
        async fn perform(&self, command: &Command, lease: &Lease) -> PortResult<Receipt> {
            self.0.perform(command, lease).await?;
            let lost = PortErrorKind::OutcomeUnknown;
            Err(cutter_core::port::PortError::new(Port::Of("provider"), "create", lost, "no answer"))
        }
        async fn inquire(&self, _: &Command, _: &Lease) -> PortResult<Inquiry> {
            Ok(Inquiry::Unknown("it keeps no keys".into()))
        }
    }
    let database = TestServer::shared().fresh_database();
    let (of_ledger, mute) = (ledger(&database), Arc::new(Mute(Provider::default())));
    let boundary = Boundary::new(of_ledger.clone(), Arc::new(Wall)).handler(mute.clone()).unwrap();
    let (command, by) = (command("mute", 1), executor());
    for _ in 0..3 {
        let error = block_on(boundary.execute(&command, &by)).unwrap_err();
        assert!(matches!(error, CommandError::Unresolved { .. }), "{error}");
    }
    assert_eq!(mute.0.calls.lock().unwrap().len(), 1, "never called again");
    let open = block_on(of_ledger.unsettled(None, 9)).unwrap();
    assert_eq!(open.len(), 1);
}
