//! Takes out one condition of the database's schema at a time and asks the tests that reach it.
//!
//! ```text
//! cargo run -p cutter-tests --bin sql_mutants -- [run] [--seed N --sample K] [--only TEXT]
//!     [--class NAME]... [--no-grants] [--again | --survivors] [--whole-product]
//!     [--most N] [--as-built] [--jobs N]
//! cargo run -p cutter-tests --bin sql_mutants -- list | report
//! ```
//!
//! What it knows it keeps below the target directory (`mutants/sql`), and goes on from there:
//! `--survivors` tries those again that nobody noticed, `--again` tries all. With `--whole-product`
//! the tests of this package are asked, too, and not only those of `cutter-pg`; with `--most` only
//! the likeliest so many of those that reach a mutant, as a first look: a mutant that these let
//! through counts as not tried. With `--as-built` the tests are those of the
//! last sitting. The list of mutants that change nothing is `tests/lists/mutants_sql.tsv`. Exits 1 if
//! one survived or the list is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cutter_pg::cluster::{ClusterOptions, PrivateCluster};
use cutter_pg::login::Login;
use cutter_pg::testing::{AFTER_VARIABLE, HOME_VARIABLE, REACH_VARIABLE, TestServer};
use cutter_tests::mutants::conditions::Class;
use cutter_tests::mutants::definitions::{SqlMutant, Touches, harmless, mutants};
use cutter_tests::mutants::ledger::{Equivalents, Ledger, Mutant, Outcome, report};
use cutter_tests::mutants::options::Options;
use cutter_tests::mutants::reach::{Known, Reach};
use cutter_tests::mutants::suite::{Ended, Suite, Test, each};
use cutter_tests::mutants::text;

/// A test that takes longer than this as it is, is not asked.
const SLOW: Duration = Duration::from_secs(30);
/// A test that takes so many times as long with a mutant hangs,
const TIMES: u32 = 20;
/// if it takes longer than this.
const LIMIT: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    Options::main("sql_mutants", &["--no-grants", "--whole-product", "--as-built"], work)
}

/// Stops the server at the end, however that comes.
struct Server(PrivateCluster);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.stop();
    }
}

fn work(options: &Options) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?.to_owned();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = text(std::path::absolute(target), "the target folder")?.join("mutants/sql");
    text(std::fs::create_dir_all(&folder), "the folder of results")?;
    let list = std::fs::read_to_string(root.join("tests/lists/mutants_sql.tsv"));
    let list = Equivalents::parse(&text(list, "tests/lists/mutants_sql.tsv")?)?;
    let mut ledger = text(Ledger::open(&folder.join("results.tsv")), "the results")?;

    // The server's user must get through to its home.
    let home = std::env::temp_dir().join(format!("cutter-mutants-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&home);
    text(std::fs::create_dir_all(&home), "the server's home")?;
    let cluster = text(
        PrivateCluster::open(&home, ClusterOptions::new().without_durability_for_tests()),
        "the server",
    )?;
    let server = Server(cluster);
    // before any thread: this process asks the server that its tests ask
    let all = std::thread::scope(|scope| scope.spawn(|| definitions_of(&home, &server)).join())
        .map_err(|_| "the mutants could not be read".to_owned())??;
    let names: Vec<Mutant> = all.0.iter().map(|one| one.mutant.clone()).collect();

    let chosen = options.chosen(all.0.iter().collect(), |one| &one.mutant);
    match options.command.as_str() {
        "list" => {
            for one in chosen {
                println!("{}\t{}", one.mutant.object, one.mutant.change);
            }
            return Ok(true);
        }
        "report" => {}
        _ => {
            let is_due = |one: &&SqlMutant| options.is_due(&one.mutant, &ledger);
            let todo: Vec<&SqlMutant> = chosen.iter().copied().filter(is_due).collect();
            let mut noticed = Noticed::default();
            for one in &all.0 {
                if let Some(Outcome::Noticed(test)) = ledger.of(&one.mutant) {
                    noticed.note(&one.mutant.object, test);
                }
            }
            let trial = Trial::prepare(&root, &folder, &home, options, &all.1, noticed)?;
            trial.all(&todo, &mut ledger, options.jobs)?;
        }
    }
    drop(server);
    let _ = std::fs::remove_dir_all(&home);
    let shown: Vec<Mutant> = chosen.iter().map(|one| one.mutant.clone()).collect();
    let stale = list.stale(&names);
    let (table, is_bad) = report(&shown, &ledger, &list.within(&shown));
    println!("{table}");
    for entry in &stale {
        println!("fault: listed, and no mutant: {entry}");
    }
    Ok(!is_bad && stale.is_empty())
}

/// The mutants, and the harmless change, of a fresh database of the server.
fn definitions_of(home: &Path, server: &Server) -> Result<(Vec<SqlMutant>, String), String> {
    text(server.0.start(), "the server")?;
    let server = TestServer::at(home);
    let database = server.fresh_database();
    let mut client = database.client(Login::Admin);
    let all = text(mutants(&mut client), "the definitions")?;
    let harmless = text(harmless(&mut client), "the definitions")?;
    Ok((all, harmless))
}

/// A test's own text, of its file's.
fn body<'s>(source: &'s str, test: &str) -> &'s str {
    let head = format!("fn {}()", test.rsplit("::").next().unwrap_or(test));
    let from = source.find(&head).map_or("", |start| &source[start..]);
    &from[..from.find("\n}").unwrap_or(from.len())]
}

/// What noticed mutants so far is likely to notice the next.
#[derive(Default)]
struct Noticed {
    of_objects: BTreeMap<(String, String), f64>,
    of_all: BTreeMap<String, f64>,
}

impl Noticed {
    fn note(&mut self, object: &str, test: &str) {
        *self.of_objects.entry((object.to_owned(), test.to_owned())).or_default() += 1.0;
        *self.of_all.entry(test.to_owned()).or_default() += 1.0;
    }

    fn likely(&self, object: &str, test: &str) -> f64 {
        let of_object = self.of_objects.get(&(object.to_owned(), test.to_owned()));
        4.0 * of_object.copied().unwrap_or_default()
            + 0.1 * self.of_all.get(test).copied().unwrap_or_default()
    }
}

/// Everything that a mutant is tried with.
struct Trial {
    suite: Suite,
    reach: Reach,
    folder: PathBuf,
    home: PathBuf,
    server: TestServer,
    /// How many tests are asked about one mutant at most.
    most: usize,
    /// Which tests noticed mutants, of which objects.
    noticed: Mutex<Noticed>,
    /// The text of each target's file.
    sources: BTreeMap<String, String>,
}

impl Trial {
    fn prepare(
        root: &Path,
        folder: &Path,
        home: &Path,
        options: &Options,
        harmless: &str,
        noticed: Noticed,
    ) -> Result<Self, String> {
        let mut arguments = vec!["-p", "cutter-pg", "--all-features", "--lib", "--tests"];
        if options.says("--whole-product") {
            arguments.extend(["-p", "cutter-tests"]);
        }
        let target = folder.parent().and_then(Path::parent).ok_or("no target folder")?;
        let suite =
            Suite::build(root, target, &arguments, &folder.join("built.json"), options.says("--as-built"))?;
        let sources = suite.tests.iter().map(|test| (test.target.clone(), suite.source(test))).collect();
        let mut trial = Self {
            reach: Reach::open(&folder.join("reach.tsv")),
            suite,
            folder: folder.to_owned(),
            home: home.to_owned(),
            server: TestServer::at(home),
            most: options.most,
            noticed: Mutex::new(noticed),
            sources,
        };
        trial.learn(options.jobs, harmless)?;
        Ok(trial)
    }

    /// Runs each test that is not known yet: as it is, and with the harmless change.
    fn learn(&mut self, jobs: usize, harmless: &str) -> Result<(), String> {
        let new: Vec<Test> = self
            .suite
            .tests
            .iter()
            .filter(|test| !self.reach.tests.contains_key(&test.to_string()))
            .cloned()
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        eprintln!("{} tests are new: what do they reach?", new.len());
        let after = self.folder.join("harmless.sql");
        text(std::fs::write(&after, harmless), "the harmless change")?;
        let reach = Mutex::new(std::mem::take(&mut self.reach));
        let this = &*self;
        each(jobs, &new, |worker, test| {
            let path = this.folder.join(format!("touched-{worker}"));
            let _ = std::fs::remove_file(&path);
            let (ended, took) = this.run(test, &[(REACH_VARIABLE, path.as_os_str())])?;
            let touched: BTreeSet<String> =
                std::fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect();
            let left_out = match ended {
                Ended::Passed if touched.is_empty() => Some("asks no database of its own"),
                Ended::Passed if took > SLOW => Some("takes too long"),
                Ended::Passed => match this.run(test, &[(AFTER_VARIABLE, after.as_os_str())])?.0 {
                    Ended::Passed => None,
                    _ => Some("compares definitions"),
                },
                _ => Some("fails as it is"),
            };
            if let Some(why) = left_out.filter(|why| !why.starts_with("asks")) {
                eprintln!("left out: {test}: {why}");
            }
            let mut reach = reach.lock().map_err(|_| "what the tests reach".to_owned())?;
            let known = Known { took, left_out: left_out.map(str::to_owned), touched };
            reach.tests.insert(test.to_string(), known);
            // at once: a sitting may be cut short
            text(reach.save(), "what the tests reach")
        })?;
        self.reach = reach.into_inner().map_err(|_| "what the tests reach".to_owned())?;
        Ok(())
    }

    fn run(&self, test: &Test, variables: &[(&str, &OsStr)]) -> Result<(Ended, Duration), String> {
        let mut all = vec![(HOME_VARIABLE, self.home.as_os_str())];
        all.extend(variables);
        let took = self.reach.tests.get(&test.to_string()).map_or(Duration::ZERO, |known| known.took);
        // what is not known yet may be slow
        let limit = if took.is_zero() { SLOW * 3 } else { LIMIT.max(took * TIMES) };
        self.suite.run(test, &all, limit)
    }

    fn all(&self, todo: &[&SqlMutant], ledger: &mut Ledger, jobs: usize) -> Result<(), String> {
        let (started, done) = (Instant::now(), AtomicUsize::new(0));
        let ledger = Mutex::new(ledger);
        each(jobs, todo, |worker, one| {
            let outcome = self.one(worker, one)?;
            let n = done.fetch_add(1, Ordering::Relaxed) + 1;
            let word = if outcome.is_unheld() { "SURVIVED" } else { "" };
            eprintln!(
                "{n}/{} {} s {} {} {word} {outcome:?}",
                todo.len(),
                started.elapsed().as_secs(),
                one.mutant.object,
                one.mutant.change
            );
            let mut ledger = ledger.lock().map_err(|_| "the results".to_owned())?;
            text(ledger.note(&one.mutant, outcome), "the results")
        })
    }

    fn one(&self, worker: usize, one: &SqlMutant) -> Result<Outcome, String> {
        let tests = self.asked(one);
        if tests.is_empty() {
            return Ok(Outcome::Unreached);
        }
        let after = self.folder.join(format!("mutant-{worker}.sql"));
        text(std::fs::write(&after, &one.sql), "the mutant")?;
        if let Err(why) = self.server.try_after(&one.sql) {
            self.server.forget_after(&one.sql);
            return Ok(Outcome::Invalid(why));
        }
        let asked = tests.len().min(self.most);
        let mut outcome = Outcome::Survived { asked, of: tests.len() };
        for test in tests.into_iter().take(asked) {
            if self.run(test, &[(AFTER_VARIABLE, after.as_os_str())])?.0 != Ended::Passed {
                if let Ok(mut noticed) = self.noticed.lock() {
                    noticed.note(&one.mutant.object, &test.to_string());
                }
                outcome = Outcome::Noticed(test.to_string());
                break;
            }
        }
        self.server.forget_after(&one.sql);
        Ok(outcome)
    }

    /// The tests that reach a mutant: first those of everything there is of its kind, then those that
    /// are likeliest to notice it for the time they take.
    fn asked(&self, one: &SqlMutant) -> Vec<&Test> {
        let mut found = match &one.touches {
            Touches::Function(name) => self.touching(&[&[format!("function {name}")]]),
            Touches::Table(name) => self.touching(&[&[format!("written {name}"), format!("table {name}")]]),
            Touches::Trigger(name, function) => self.touching(&[
                &[format!("written {name}"), format!("table {name}")],
                &[format!("function {function}")],
            ]),
            Touches::View(_, tables) => {
                let tables: Vec<String> = tables.iter().map(|name| format!("table {name}")).collect();
                self.touching(&[&tables])
            }
            Touches::Rights => Vec::new(),
        };
        // what the server does not count: a function that it writes into its caller
        if found.is_empty() && matches!(&one.touches, Touches::View(..) | Touches::Function(_)) {
            found = self.touching(&[]);
        }
        // and a test of everything there is of a kind touches no table itself
        let of_a_kind = match one.mutant.class {
            Class::Grant => "cutter-pg/grants",
            Class::Check => "cutter-pg/checks",
            Class::Trigger => "cutter-pg/dependence::triggers",
            Class::Key => "cutter-pg/dependence::keys",
            Class::Definer => "cutter-pg/schema",
            _ => "",
        };
        let is_of_a_kind = |test: &Test| !of_a_kind.is_empty() && test.to_string().starts_with(of_a_kind);
        found.retain(|(test, _)| !is_of_a_kind(test));
        found.extend(self.touching(&[]).into_iter().filter(|(test, _)| is_of_a_kind(test)));
        let Ok(noticed) = self.noticed.lock() else { return Vec::new() };
        let word = one.touches.word();
        let score = |test: &Test, took: Duration| {
            let source = self.sources.get(&test.target).map_or("", String::as_str);
            let fits = [
                (source.contains(word), 1.0),
                (body(source, &test.name).contains(word), 3.0),
                (test.target == "cutter-pg/guards", 3.0),
                // slow, and made for this
                (test.target == "cutter-pg/dependence", 20.0),
                (is_of_a_kind(test), 1e6),
            ];
            let likely: f64 = fits.into_iter().filter(|(fits, _)| *fits).map(|(_, more)| more).sum();
            (0.2 + likely + noticed.likely(&one.mutant.object, &test.to_string()))
                / took.as_secs_f64().max(0.2)
        };
        let mut scored: Vec<(&Test, f64)> =
            found.into_iter().map(|(test, took)| (test, score(test, took))).collect();
        scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        scored.into_iter().map(|(test, _)| test).collect()
    }

    /// The tests that are asked at all and touch one of each of these lists, and how long they take.
    fn touching(&self, lists: &[&[String]]) -> Vec<(&Test, Duration)> {
        let known = |test: &Test| {
            let known = self.reach.tests.get(&test.to_string()).filter(|known| known.left_out.is_none())?;
            let touches = lists.iter().all(|names| names.iter().any(|name| known.touched.contains(name)));
            touches.then_some(known.took)
        };
        self.suite.tests.iter().filter_map(|test| known(test).map(|took| (test, took))).collect()
    }
}
