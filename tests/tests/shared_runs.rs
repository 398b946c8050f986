//! Whole runs whose state is in PostgreSQL: what they cost there, and that they may die anywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cutter_core::driver::{DriveError, Outcome, Ports};
use cutter_core::machine::run::{Phase, RunState, Stage};
use cutter_core::port::run_store::RunStore;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::sidecar::Sidecar;
use cutter_core::testing::crash::{self, CrashWorld, FaultyPorts, Plan, Reference, Schedule, Step, Strike};
use cutter_core::testing::memory::block_on;
use cutter_pg::PgRunStore;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use cutter_tests::{SMALL, Scenario, cli};

/// Everything in memory but the state of runs.
struct Stand {
    scenario: Scenario,
    /// For looking past the driver's own.
    looker: PgRunStore,
    database: Option<TestDatabase>,
    /// Where the database goes back to.
    pool: Arc<Mutex<Vec<TestDatabase>>>,
}

impl Stand {
    fn store(&self) -> PgRunStore {
        PgRunStore::connect(self.database.as_ref().unwrap().dsn(Login::Exec))
    }

    fn ports(&self) -> Ports {
        Ports { runs: Arc::new(self.store()), ..self.scenario.ports() }
    }

    fn newest(&self) -> Option<Sidecar> {
        let run_id = block_on(self.looker.list()).unwrap().into_iter().next()?;
        let stored = block_on(self.looker.load(&run_id)).unwrap()?;
        Some(Sidecar::from_bytes(&stored.bytes).unwrap())
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if let Some(database) = self.database.take() {
            self.pool.lock().unwrap().push(database);
        }
    }
}

/// A whole run of the small document, both gates approved.
#[derive(Default)]
struct Shared {
    pool: Arc<Mutex<Vec<TestDatabase>>>,
}

impl CrashWorld for Shared {
    type World = Stand;

    fn fresh(&self) -> Stand {
        let used = self.pool.lock().unwrap().pop();
        let database = match used {
            None => TestServer::shared().fresh_database(),
            Some(database) => {
                // No trigger of ours lets anybody do this, so they are off.
                let wipe = "SET session_replication_role = replica; TRUNCATE cutter_run.run CASCADE;
                    TRUNCATE cutter_run.revision, cutter_run.claim";
                database.client(Login::Admin).batch_execute(wipe).unwrap();
                database
            }
        };
        let scenario = Scenario::with_text(1, SMALL);
        let looker = PgRunStore::connect(database.dsn(Login::Ro));
        Stand { scenario, looker, database: Some(database), pool: self.pool.clone() }
    }

    fn ports(&self, stand: &Stand) -> Ports {
        stand.ports()
    }

    fn drive(&self, stand: &Stand, ports: &Ports) -> Result<Step, DriveError> {
        let Some(sidecar) = stand.newest() else {
            stand.scenario.cut(ports)?;
            return Ok(Step::More);
        };
        let there = |path: &str| stand.scenario.world.document(path).is_some();
        if let Some(ask) = &sidecar.ask
            && there(&ask.request_path)
            && !there(&ask.approval_path)
        {
            stand.scenario.sign(ask, ReviewVerdict::Approve);
        }
        let driven = stand.scenario.resume(ports, &sidecar.run_id)?;
        Ok(if driven.outcome == Outcome::Completed { Step::Done } else { Step::More })
    }

    fn snapshot(&self, stand: &Stand) -> String {
        let mut text = stand.scenario.world.snapshot();
        let sidecar = stand.newest().expect("a run");
        let claim = block_on(stand.looker.latest_claim(&sidecar.document_id)).unwrap();
        let free = block_on(stand.looker.lock_holder(&sidecar.run_id)).unwrap().is_none();
        text.push_str(&format!("claim {claim:?}\nlock free {free}\n"));
        let mut record = serde_json::to_value(&sidecar).unwrap();
        let object = record.as_object_mut().unwrap();
        for counted in ["revision", "digest", "considered"] {
            object.remove(counted);
        }
        if let Some(blob) = object.get_mut("backup").and_then(|b| b.get_mut("blob")) {
            blob["name"].take();
        }
        for (field, value) in object {
            text.push_str(&format!("sidecar {field} {value}\n"));
        }
        text
    }
}

fn undisturbed(story: &Shared) -> Reference {
    crash::undisturbed(story).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_whole_run_over_the_shared_store_survives_death_at_every_call() {
    let story = Shared::default();
    let (since, reference) = (Instant::now(), undisturbed(&story));
    // Every statement of the store is struck; what the driver asks without one, and the calls of
    // other ports, are the other crash tests' own.
    let saves = ["run_store.create", "run_store.put_claim", "run_store.publish", "run_store.publish_last"];
    let mut schedules = Vec::new();
    for (n, call) in (1..).zip(&reference.trace) {
        let name = call.to_string();
        let is_statement =
            name.starts_with("run_store.") && !name.ends_with("mirror") && !name.ends_with("stop_request");
        let strikes: &[Strike] = if !is_statement {
            &[]
        } else if saves.contains(&name.as_str()) {
            &[Strike::DieBefore, Strike::DieAfter, Strike::UnknownDone, Strike::UnknownNotDone]
        } else {
            &[Strike::DieBefore, Strike::DieAfter]
        };
        schedules.extend(strikes.iter().map(|s| Schedule { lives: vec![Plan::at(n, *s)], seed: None }));
    }
    if std::env::var_os("CUTTER_FULL").is_none() {
        schedules = schedules.into_iter().step_by(3).collect();
    }
    let planned = schedules.len() as u64;
    assert!(planned >= 40, "{planned}");
    let report = crash::these(&story, &reference, schedules);
    println!("{report}in {:?}", since.elapsed());
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.strikes, planned, "a planned strike did not happen");
}

#[test]
fn a_driver_that_slept_while_another_finished_saves_nothing() {
    let story = Shared::default();
    let stand = story.fresh();
    let driven = stand.scenario.cut(&stand.ports()).unwrap();
    stand.scenario.sign_if_asked(&driven.outcome);
    let run_id = driven.sidecar.run_id.clone();
    // It sleeps, and its lease runs out.
    let (ports, life) = FaultyPorts::wrap(stand.ports(), Plan::at(11, Strike::FreezeBefore));
    std::thread::scope(|scope| {
        let (scenario, run, ended) = (&stand.scenario, &run_id, life.clone());
        let sleeper = scope.spawn(move || {
            let result = scenario.resume(&ports, run);
            ended.end();
            result
        });
        assert!(life.wait_frozen(), "it did not get so far");
        let mut admin = stand.database.as_ref().unwrap().client(Login::Admin);
        let busy = stand.scenario.resume(&stand.ports(), &run_id).unwrap_err();
        assert!(matches!(busy, DriveError::Busy { .. }), "{busy}");
        admin.batch_execute("UPDATE cutter_run.lease SET expires_at = clock_timestamp()").unwrap();
        let other = stand.scenario.resume(&stand.ports(), &run_id).unwrap();
        assert!(matches!(other.outcome, Outcome::Paused { .. }), "{:?}", other.outcome);
        let before = stand.newest().unwrap();
        life.thaw();
        let woken = sleeper.join().unwrap().unwrap_err();
        assert!(matches!(woken, DriveError::Fenced { .. }), "{woken}");
        assert_eq!(stand.newest().unwrap(), before, "the sleeper wrote");
    });
}

/// What one run costs the store, by the server's own count and by ours.
#[test]
fn eleven_phases_cost_at_most_twenty_six_statements() {
    let story = Shared::default();
    let stand = story.fresh();
    let database = stand.database.as_ref().unwrap();
    let mut admin = database.client(Login::Admin);
    admin.batch_execute(&format!("ALTER DATABASE {} SET track_functions = 'all'", database.name())).unwrap();
    let store = Arc::new(stand.store());
    let (ports, life) =
        FaultyPorts::wrap(Ports { runs: store.clone(), ..stand.scenario.ports() }, Plan::none());
    let (mut driven, mut resumes) = (stand.scenario.cut(&ports).unwrap(), 0);
    while stand.scenario.sign_if_asked(&driven.outcome) {
        driven = stand.scenario.resume(&ports, &driven.sidecar.run_id.clone()).unwrap();
        resumes += 1;
    }
    assert_eq!((driven.sidecar.run_state().unwrap(), resumes), (RunState::At(Stage::CloseoutReported), 2));
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for call in life.trace() {
        if let Some(name) = call.to_string().strip_prefix("run_store.") {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    let count = |name: &str| calls.get(name).copied().unwrap_or(0);
    // What the driver asks without a statement: mirrors, and the stop request that a save or the
    // taking of the lock brought along. A release is a statement without a call.
    let asked: u64 = calls.values().sum();
    // Before the two phases that only look no save brought anything, so there it is one.
    let free = count("mirror") + count("stop_request") - 2;
    let total = store.statements();
    // The last save gives the lock back itself.
    let releases = count("lock") - count("publish_last");
    assert_eq!(total, asked - free + releases, "{calls:?}");

    // Outside the count: creation and claim, and each gate, which begins a command of its own:
    // it takes the lock, reads and checks the record, saves twice, releases.
    let creation = count("create") + count("latest_claim") + count("put_claim");
    assert_eq!(creation, 3, "{calls:?}");
    let gates = resumes * (1 + 2 + 2 + 1);
    let phases = total - creation - gates;
    println!(
        "statements: {total} in all, {creation} of creation and claim, {gates} of gates, {phases} of phases"
    );
    // Two a phase; before the two that only look, one of them is the phase's own.
    let saves = count("publish") + count("publish_last");
    assert_eq!((saves, count("publish_last")), (2 * Phase::ALL.len() as u64 - 2 + 2 * resumes, 1));
    assert!(phases <= 26, "{phases} statements for eleven phases: {calls:?}");

    // The server saw the same.
    drop((ports, store));
    let query = "SELECT coalesce(sum(calls) FILTER (WHERE funcname = 'fn_run_publish'), 0)::bigint,
            coalesce(sum(calls) FILTER (WHERE funcname = 'fn_lease_take'), 0)::bigint,
            coalesce(sum(calls) FILTER (WHERE funcname = 'fn_lease_release'), 0)::bigint
        FROM pg_stat_user_functions WHERE schemaname = 'cutter_run'";
    let wanted = [saves, count("lock"), releases].map(|n| i64::try_from(n).unwrap());
    let since = Instant::now();
    loop {
        let row = admin.query_one(query, &[]).unwrap();
        let seen: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
        if seen == wanted {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "the server saw {seen:?}, expected {wanted:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A command in a home, with `--json`.
fn in_home(home: &Path, arguments: &[&str]) -> cli::Ran {
    cli::finish(cli::command_at(home, arguments))
}

/// Two machines: two homes with the same keys, and in common a database and an object store alone.
#[test]
fn two_homes_share_a_run() {
    let d = cli::Deployment::new();
    let (home_b, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (d.path(""), home_b.path().to_owned());
    let settings = std::fs::read_to_string(d.path("cutter.toml")).unwrap();
    let at = store.path().display();
    let settings = format!(
        "runs = \"pg\"\nkb = \"file://{at}/kb\"\n{settings}\n[backup]\nurl = \"file://{at}/backups\"\n"
    );
    std::fs::create_dir(store.path().join("kb")).unwrap();
    std::fs::create_dir(store.path().join("backups")).unwrap();
    std::fs::create_dir(b.join("keys")).unwrap();
    for entry in std::fs::read_dir(a.join("keys")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, b.join("keys").join(path.file_name().unwrap())).unwrap();
    }
    for home in [&a, &b] {
        std::fs::write(home.join("cutter.toml"), &settings).unwrap();
    }
    let key = b.join(format!("keys/{}.secret.asc", cli::SOVEREIGN));
    let approve = |run: &str, what: &str| {
        let arguments = ["sovereign", "approve", "--yes", "--run-id", run, "--for", what, "--key"];
        let _ = in_home(&b, &[&arguments[..], &[key.to_str().unwrap()]].concat()).exits(0);
    };

    d.register("SHARED", cutter_tests::TEXT);
    let cut = in_home(&a, &["orchestrate", "cut", "--document-id", "SHARED"]).exits(0);
    let run = cut.text("/run_id").to_owned();
    assert!(cut.text("/sidecar_path").contains("cutter_run.revision"), "{}", cut.stdout);
    // The other machine sees it, may not begin another, and goes on with it.
    let listed = in_home(&b, &["orchestrate", "list", "--open"]).exits(0);
    assert_eq!(listed.text("/runs/0/run_id"), run);
    assert_eq!(
        in_home(&b, &["orchestrate", "status", "--run-id", &run]).exits(0).state(),
        "awaiting_cut_authorization"
    );
    let _ = in_home(&b, &["orchestrate", "cut", "--document-id", "SHARED"]).exits(4);
    approve(&run, "cut");
    let resumed = in_home(&b, &["orchestrate", "resume", "--run-id", &run]).exits(0);
    assert_eq!(resumed.state(), "awaiting_lifecycle_authorization");
    approve(&run, "lifecycle");

    // A third one took the run and died. Its lease stands for a while; a person need not wait.
    let mut third = d.database.client(Login::Exec);
    let holder = serde_json::json!({ "holder": "018f3c5a-0000-7000-8000-000000000001", "host": "third", "pid": 33,
        "since": "2026-05-20T10:11:12Z", "command": "orchestrate resume" });
    let take = "SELECT token FROM cutter_run.fn_lease_take($1, gen_random_uuid(), $2, 600000)";
    let token: Option<i64> = third.query_one(take, &[&run, &holder.to_string()]).unwrap().get(0);
    assert_eq!(token, Some(3), "one lease for each command before");
    let busy = in_home(&a, &["orchestrate", "resume", "--run-id", &run]).exits(75);
    assert!(busy.stdout.contains("third") || busy.stderr.contains("third"), "{}{}", busy.stdout, busy.stderr);
    assert_eq!(in_home(&a, &["orchestrate", "list"]).exits(0).text("/runs/0/holder/host"), "third");
    let done = in_home(&a, &["orchestrate", "resume", "--run-id", &run, "--take-over"]).exits(0);
    assert_eq!(done.state(), "closeout_reported");
    let _ = in_home(&b, &["verify", "--run-id", &run]).exits(0);
    let doctor = in_home(&b, &["doctor"]).exits(0);
    let findings = doctor.json["findings"].as_array().unwrap();
    let runs = findings.iter().find(|f| f["name"] == "runs").unwrap();
    assert_eq!(
        (&runs["status"], &runs["detail"]),
        (&"ok".into(), &"in the database: 1 runs, 0 held now".into())
    );
    // Nothing of the run is in either home.
    for home in [&a, &b] {
        let folder = home.join("runs");
        let left = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{}", folder.display());
    }
}
