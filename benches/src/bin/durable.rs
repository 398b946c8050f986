//! What durability costs a run: eleven phases that do nothing ([`driver::rehearsal`]) over the shared run store on a durable
//! server, the knowledge base in memory, so that what is left is the driver's protocol, the store and the server.
//!
//! - `alone`: one run after the other, creation and claim included.
//! - `eight`: eight threads, each with a connection of its own, as a worker's hands; from the first creation to the last closeout.
//! - `approve`: from the approval filed to closeout, two phases behind the gate. A watcher sleeps in LISTEN; the filer sends
//!   NOTIFY; the watcher resumes.
//! - `statements`: by the server's own count (pg_stat_statements), per run.
//! - `whole`: for comparison a run of five units with its real phases and both gates, in a world in memory but for the store.
//!
//! `--rounds N`, `--runs N`, `--statements` (their texts), `--profile` (ours alone, for a profiler), `--check`; each `--peer NAME=PROGRAM` is another engine that answers the same commands
//! (`benches/durable_peers/run` installs and names them), in turns with ours on the same server.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use cutter_benches::measured::median;
use cutter_benches::pg::{argument, fresh_id, has};
use cutter_core::base::digest::Digest;
use cutter_core::base::id::RunId;
use cutter_core::driver::{self, Driven, NewRun, Outcome, Ports, ResumeOptions, rehearsal};
use cutter_core::port::run_store::RunStore;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::observed::SourceRegistration;
use cutter_core::record::sidecar::Mode;
use cutter_core::testing::memory::block_on;
use cutter_pg::PgRunStore;
use cutter_pg::login::Login;
use cutter_pg::testing::{TestDatabase, TestServer};
use cutter_tests::{SOVEREIGN, Scenario, caller};
use postgres::Client;

/// Five units.
const TEXT: &str = "# Charter\n\nWe agree.\n\n## Article 1\n\nSpeak.\n\n## Article 2\n\nListen.\n\n## Article 3\n\nCare.\n\n\
## Article 4\n\nRest.\n";

/// The most that a run without gates may cost.
const MAX_STATEMENTS: f64 = 26.0;

/// A document registered in a world of its own.
struct Job {
    scenario: Scenario,
    document_id: String,
}

impl Job {
    fn new() -> Self {
        static SEED: AtomicU64 = AtomicU64::new(1);
        let scenario = Scenario::with_text(SEED.fetch_add(1, Ordering::Relaxed), TEXT);
        let document_id = fresh_id("DURABLE");
        let ports = scenario.world.process().ports();
        let ids = |what: &str| ports.ids.uuid_v7(ports.clock.now(), &format!("source/{what}/{document_id}"));
        let registration = SourceRegistration {
            document_id: document_id.clone(),
            title: "Charter".into(),
            source_document_id: ids("document"),
            source_version_id: ids("version"),
            content: TEXT.into(),
            sha256: Digest::of(TEXT.as_bytes()),
            manifest_digest: None,
            actor: "op".into(),
        };
        block_on(ports.executor.register_source(&registration)).unwrap();
        Self { scenario, document_id }
    }

    fn ports(&self, store: &Arc<dyn RunStore>) -> Ports {
        Ports { runs: store.clone(), ..self.scenario.ports() }
    }

    fn new_run(&self) -> NewRun {
        let (document_id, settings) = (self.document_id.clone(), self.scenario.settings.clone());
        NewRun { document_id, mode: Mode::Live, settings, run_id: None }
    }

    /// Eleven phases that do nothing.
    fn rehearse(&self, ports: &Ports) -> Duration {
        let request = self.new_run();
        let began = Instant::now();
        rehearse(ports, &request);
        began.elapsed()
    }

    fn sign(&self, driven: &Driven) {
        assert!(self.scenario.sign_if_asked(&driven.outcome), "{:?}", driven.outcome);
    }

    /// The real phases, to closeout; the time in the driver.
    fn whole(&self, ports: &Ports) -> Duration {
        let mut in_driver = Duration::ZERO;
        let mut timed = |call: &dyn Fn() -> Driven| {
            let began = Instant::now();
            let driven = call();
            in_driver += began.elapsed();
            driven
        };
        let mut driven = timed(&|| block_on(driver::cut(ports, &caller(), self.new_run())).unwrap());
        for _ in 0..2 {
            self.sign(&driven);
            let run_id = driven.sidecar.run_id.clone();
            driven = timed(&|| {
                block_on(driver::resume(ports, &caller(), &run_id, &ResumeOptions::default())).unwrap()
            });
        }
        assert_eq!(driven.outcome, Outcome::Completed);
        in_driver
    }
}

fn rehearse(ports: &Ports, request: &NewRun) {
    let driven = block_on(rehearsal::run(ports, &caller(), request, false)).unwrap();
    assert_eq!(driven.outcome, Outcome::Completed);
}

/// Our side.
struct Ours {
    database: TestDatabase,
    store: Arc<dyn RunStore>,
}

impl Ours {
    fn new(server: &TestServer) -> Self {
        let database = server.fresh_database();
        let store: Arc<dyn RunStore> = Arc::new(PgRunStore::connect(database.dsn(Login::Exec)).waiting());
        let ours = Self { database, store };
        let _ = ours.alone(20);
        ours
    }

    /// A store with a connection that stands and has prepared its statements.
    fn warm_store(&self) -> Arc<dyn RunStore> {
        let store: Arc<dyn RunStore> =
            Arc::new(PgRunStore::connect(self.database.dsn(Login::Exec)).waiting());
        let job = Job::new();
        job.rehearse(&job.ports(&store));
        store
    }

    fn alone(&self, runs: usize) -> Vec<Duration> {
        let jobs: Vec<Job> = (0..runs).map(|_| Job::new()).collect();
        jobs.iter().map(|job| job.rehearse(&job.ports(&self.store))).collect()
    }

    /// The worlds, their connections and the requests stand before the clock starts, and are let go after it
    /// has stopped: none of that is a run's.
    fn eight(&self, runs: usize) -> Duration {
        let (ready, go) = (Barrier::new(9), Barrier::new(9));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let store = self.warm_store();
                        let jobs: Vec<Job> = (0..runs / 8).map(|_| Job::new()).collect();
                        let asked: Vec<_> =
                            jobs.iter().map(|job| (job.ports(&store), job.new_run())).collect();
                        ready.wait();
                        go.wait();
                        for (ports, request) in &asked {
                            rehearse(ports, request);
                        }
                        (Instant::now(), jobs, asked, store)
                    })
                })
                .collect();
            ready.wait();
            let began = Instant::now();
            go.wait();
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            ended.iter().map(|(last, ..)| *last).max().unwrap() - began
        })
    }

    /// The same with the run store in memory, too: what of the time is the driver's and this world's.
    fn in_memory(runs: usize) -> Vec<Duration> {
        let jobs: Vec<Job> = (0..runs).map(|_| Job::new()).collect();
        jobs.iter().map(|job| job.rehearse(&job.scenario.ports())).collect()
    }

    /// Runs with their real phases and gates.
    fn whole(&self, runs: usize) -> Vec<Duration> {
        let jobs: Vec<Job> = (0..runs).map(|_| Job::new()).collect();
        jobs.iter().map(|job| job.whole(&job.ports(&self.store))).collect()
    }

    fn approve(&self, runs: usize) -> Vec<Duration> {
        let store = self.warm_store();
        let mut filer = self.database.client(Login::Exec);
        let (jobs, next_job) = mpsc::channel::<(Ports, RunId)>();
        let (done, is_done) = mpsc::channel::<Option<Instant>>();
        let mut watch = self.database.client(Login::Exec);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                watch.batch_execute("LISTEN approvals").unwrap();
                for (ports, run_id) in next_job {
                    done.send(None).unwrap();
                    use postgres::fallible_iterator::FallibleIterator as _;
                    let told = watch.notifications().blocking_iter().next().unwrap().unwrap();
                    assert_eq!(told.payload(), run_id.as_str());
                    let driven = block_on(rehearsal::resume(&ports, &caller(), &run_id)).unwrap();
                    assert_eq!(driven.outcome, Outcome::Completed);
                    done.send(Some(Instant::now())).unwrap();
                }
            });
            let times = (0..runs).map(|_| {
                let job = Job::new();
                let ports = job.ports(&self.store);
                let parked = block_on(rehearsal::run(&ports, &caller(), &job.new_run(), true)).unwrap();
                let run_id = parked.sidecar.run_id.clone();
                let Outcome::Paused { ask, .. } = &parked.outcome else { panic!("{:?}", parked.outcome) };
                let world = &job.scenario.world;
                let text = job.scenario.answer(ask, ReviewVerdict::Approve);
                let document = world.sign(&world.person(SOVEREIGN), &text);
                jobs.send((job.ports(&store), run_id.clone())).unwrap();
                assert_eq!(is_done.recv().unwrap(), None);
                std::thread::sleep(Duration::from_millis(20));
                let began = Instant::now();
                world.file(&ask.approval_path, document.as_bytes());
                filer.execute("SELECT pg_notify('approvals', $1)", &[&run_id.as_str()]).unwrap();
                is_done.recv().unwrap().unwrap().duration_since(began)
            });
            let times = times.collect();
            drop(jobs);
            times
        })
    }
}

/// Another engine, which answers commands line by line.
struct Peer {
    name: String,
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    database: TestDatabase,
}

impl Peer {
    fn start(server: &TestServer, name: &str, program: &str) -> Self {
        let database = server.empty_database();
        let dsn = database.connection_string(Login::Admin);
        let pairs: BTreeMap<&str, &str> = dsn.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        let url = format!(
            "postgresql://{}:{}@localhost/{}?host={}&port={}",
            pairs["user"],
            pairs["password"],
            pairs["dbname"],
            pairs["host"].replace('/', "%2F"),
            pairs["port"]
        );
        let mut words = program.split(' ');
        let mut child = Command::new(words.next().unwrap())
            .args(words)
            .env("PEER_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {program}: {error}"));
        let (commands, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut peer = Self { name: name.to_owned(), child, commands, answers, database };
        assert_eq!(peer.line(), "ready");
        let _ = peer.ask("alone", 20);
        let _ = peer.ask("eight", 80);
        peer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{} ended", self.name);
        line.trim().to_owned()
    }

    fn ask(&mut self, what: &str, count: usize) -> Vec<Duration> {
        writeln!(self.commands, "{what} {count}").unwrap();
        self.line().split(' ').map(|word| Duration::from_micros(word.parse().unwrap())).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's count of statements.
struct Counter {
    admin: Client,
}

impl Counter {
    /// `None` where the server has no pg_stat_statements.
    fn install(server: &TestServer, database: &TestDatabase) -> Option<Self> {
        let mut admin = database.client(Login::Admin);
        let available = "SELECT FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
        admin.query_opt(available, &[]).unwrap()?;
        admin.batch_execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'").unwrap();
        drop(admin);
        server.cluster().stop().unwrap();
        server.cluster().start().unwrap();
        let mut admin = database.client(Login::Admin);
        admin.batch_execute("CREATE EXTENSION pg_stat_statements").unwrap();
        let mut counter = Self { admin };
        counter.track("none");
        Some(counter)
    }

    /// Counting costs something, so it is off while a clock runs.
    fn track(&mut self, what: &str) {
        self.admin.batch_execute(&format!("ALTER SYSTEM SET pg_stat_statements.track = '{what}'")).unwrap();
        self.admin.batch_execute("SELECT pg_reload_conf(); SELECT pg_sleep(0.2)").unwrap();
    }

    /// Statements and committed transactions that wrote, of one database while `work` runs, by text.
    fn count(&mut self, database: &TestDatabase, work: impl FnOnce()) -> BTreeMap<String, i64> {
        self.track("top");
        self.admin.batch_execute("SELECT pg_stat_statements_reset()").unwrap();
        work();
        let query = "SELECT s.query, sum(s.calls)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
            WHERE d.datname = $1 GROUP BY 1";
        let rows = self.admin.query(query, &[&database.name()]).unwrap();
        self.track("none");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

/// Of one run without gates: by the server, per run.
fn statements(calls: &BTreeMap<String, i64>, runs: usize) -> f64 {
    let per_run = |found: &dyn Fn(&str) -> bool| {
        let calls: i64 = calls.iter().filter(|(query, _)| found(query)).map(|(_, calls)| calls).sum();
        calls as f64 / runs as f64
    };
    let [all, saves, loads, leases, releases] = [
        per_run(&|_| true),
        per_run(&|q| q.contains("fn_run_publish")),
        per_run(&|q| q.contains("ORDER BY r.revision DESC")),
        per_run(&|q| q.contains("fn_lease_take")),
        per_run(&|q| q.contains("fn_lease_release")),
    ];
    println!(
        "cutter: {all:.2} statements a run of eleven phases: {saves:.2} saves, {loads:.2} loads, \
         {leases:.2} leases taken, {releases:.2} given back, {:.2} for creation and claim",
        all - saves - loads - leases - releases
    );
    show(calls, runs);
    all
}

/// Each text and how often a run sends it, with `--statements`.
fn show(calls: &BTreeMap<String, i64>, runs: usize) {
    for (query, calls) in calls.iter().filter(|_| has("--statements")) {
        let text: String = query.split_whitespace().flat_map(|word| [word, " "]).collect();
        println!("    {:.2}  {}", *calls as f64 / runs as f64, text.chars().take(160).collect::<String>());
    }
}

fn p50(times: &[Duration]) -> f64 {
    median(times.iter().map(Duration::as_secs_f64).collect()) * 1e3
}

fn main() {
    let (rounds, runs) = (argument("--rounds", 5), argument("--runs", 200));
    let server = TestServer::durable();
    let counting = server.empty_database();
    let mut counter = Counter::install(&server, &counting);
    let ours = Ours::new(&server);
    if has("--profile") {
        // For a profiler: ours alone, nothing beside it.
        println!("alone {:.2} ms", p50(&ours.alone(runs)));
        println!("eight at once {:.0} runs/s", runs as f64 / ours.eight(runs).as_secs_f64());
        return;
    }
    let words: Vec<String> = std::env::args().collect();
    let mut peers: Vec<Peer> = words
        .windows(2)
        .filter(|pair| pair[0] == "--peer")
        .map(|pair| pair[1].split_once('=').expect("--peer NAME=PROGRAM"))
        .map(|(name, program)| Peer::start(&server, name, program))
        .collect();
    let mut missed = 0;
    let mut judge = |what: &str, figure: f64, bound: &str, holds: bool| {
        println!("{what}: {figure:.2}, {bound}: {}", if holds { "holds" } else { "MISSED" });
        missed += usize::from(!holds);
    };
    if let Some(counter) = &mut counter {
        let counted = 20;
        let calls = counter.count(&ours.database, || drop(ours.alone(counted)));
        let figure = statements(&calls, counted);
        judge("statements a run without gates", figure, "at most 26", figure <= MAX_STATEMENTS);
        for peer in &mut peers {
            let calls = {
                let (commands, answers) = (&mut peer.commands, &mut peer.answers);
                counter.count(&peer.database, || {
                    writeln!(commands, "alone {counted}").unwrap();
                    answers.read_line(&mut String::new()).unwrap();
                })
            };
            let all: i64 = calls.values().sum();
            println!("{}: {:.2} statements a run of eleven steps", peer.name, all as f64 / counted as f64);
            show(&calls, counted);
        }
    } else {
        judge("statements", f64::NAN, "the server cannot count: pg_stat_statements is not installed", false);
    }

    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 1..=rounds {
        println!("== round {round}");
        let mut lines: Vec<(String, [f64; 3])> = Vec::new();
        let few = (runs / 8).max(5);
        // Each kind in turns, so that what else the machine does falls on both.
        println!(
            "cutter, without a server: alone {:.2} ms; a whole run with real phases and gates: {:.2} ms",
            p50(&Ours::in_memory(runs)),
            p50(&ours.whole(few))
        );
        let alone = p50(&ours.alone(runs));
        let others: Vec<f64> = peers.iter_mut().map(|peer| p50(&peer.ask("alone", runs))).collect();
        let rate = |time: Duration, runs: usize| (runs / 8 * 8) as f64 / time.as_secs_f64();
        let many = runs * 2;
        let eight = rate(ours.eight(many), many);
        let rates: Vec<f64> = peers.iter_mut().map(|peer| rate(peer.ask("eight", many)[0], many)).collect();
        let approve = p50(&ours.approve(few));
        let waits: Vec<f64> = peers.iter_mut().map(|peer| p50(&peer.ask("approve", few))).collect();
        lines.push(("cutter".to_owned(), [alone, eight, approve]));
        for (i, peer) in peers.iter().enumerate() {
            lines.push((peer.name.clone(), [others[i], rates[i], waits[i]]));
        }
        for (name, [alone, eight, approve]) in &lines {
            println!(
                "{name}: alone {alone:.2} ms, eight at once {eight:.0} runs/s, approve to done {approve:.2} ms"
            );
        }
        let fastest = |column: usize, higher: bool| {
            let others = lines[1..].iter().map(|(_, figures)| figures[column]);
            if higher { others.fold(0.0, f64::max) } else { others.fold(f64::INFINITY, f64::min) }
        };
        ratios.entry("p50 alone, ours / theirs").or_default().push(alone / fastest(0, false));
        ratios.entry("runs/s eight at once, ours / theirs").or_default().push(eight / fastest(1, true));
        ratios.entry("approve to done, ours / theirs").or_default().push(approve / fastest(2, false));
    }
    if peers.is_empty() {
        println!("no --peer: nothing to compare with; benches/durable_peers/run names them");
    } else {
        for (what, ratios) in &ratios {
            let (least, most) = (
                ratios.iter().copied().fold(f64::INFINITY, f64::min),
                ratios.iter().copied().fold(0.0, f64::max),
            );
            let middle = median(ratios.clone());
            let higher = what.starts_with("runs");
            let bound =
                format!("{least:.2} to {most:.2}, {}", if higher { "at least 1" } else { "at most 1" });
            judge(what, middle, &bound, if higher { middle >= 1.0 } else { middle <= 1.0 });
        }
    }
    drop(peers);
    if has("--check") && missed > 0 {
        std::process::exit(1);
    }
}
