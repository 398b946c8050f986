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
//! the likeliest so many of those that reach a mutant; with `--as-built` the tests are those of the
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
use cutter_tests::mutants::ledger::{Equivalents, Ledger, Mutant, Outcome, report, sample};
use cutter_tests::mutants::reach::{Known, Reach};
use cutter_tests::mutants::suite::{Ended, Suite, Test, each};

/// A test that takes longer than this as it is, is not asked.
const SLOW: Duration = Duration::from_secs(20);
/// A test that takes longer than this with a mutant hangs.
const LIMIT: Duration = Duration::from_secs(60);

struct Options {
    command: String,
    seed: u64,
    sample: Option<usize>,
    only: Vec<String>,
    classes: Vec<Class>,
    again: bool,
    survivors: bool,
    whole_product: bool,
    as_built: bool,
    most: usize,
    jobs: usize,
}

fn options() -> Result<Options, String> {
    let mut found = Options {
        command: "run".to_owned(),
        seed: 1,
        sample: None,
        only: Vec::new(),
        classes: Vec::new(),
        again: false,
        survivors: false,
        whole_product: false,
        as_built: false,
        most: usize::MAX,
        jobs: 2,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        let number = |text: String| text.parse().map_err(|_| format!("expected a number, observed {text}"));
        match argument.as_str() {
            "run" | "list" | "report" => found.command = argument,
            "--seed" => found.seed = number(value()?)?,
            "--sample" => found.sample = Some(usize::try_from(number(value()?)?).unwrap_or(usize::MAX)),
            "--jobs" => found.jobs = usize::try_from(number(value()?)?).unwrap_or(1).max(1),
            "--most" => found.most = usize::try_from(number(value()?)?).unwrap_or(usize::MAX),
            "--only" => found.only.push(value()?),
            "--class" => {
                let name = value()?;
                found.classes.push(Class::of(&name).ok_or_else(|| format!("no class {name}"))?);
            }
            "--no-grants" => {
                let rights = [Class::Grant, Class::Definer];
                found.classes = Class::ALL.into_iter().filter(|class| !rights.contains(class)).collect();
            }
            "--again" => found.again = true,
            "--survivors" => found.survivors = true,
            "--as-built" => found.as_built = true,
            "--whole-product" => found.whole_product = true,
            other => {
                return Err(format!("{other}: the head of tests/src/bin/sql_mutants.rs says what there is"));
            }
        }
    }
    Ok(found)
}

fn main() -> ExitCode {
    match options().and_then(|options| work(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("sql_mutants: {error}");
            ExitCode::from(2)
        }
    }
}

fn text<T, E: std::fmt::Display>(outcome: Result<T, E>, what: &str) -> Result<T, String> {
    outcome.map_err(|error| format!("{what}: {error}"))
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

    let wanted = |one: &&SqlMutant| {
        let is_named = |part: &String| one.mutant.object.contains(part) || one.mutant.change.contains(part);
        (options.only.is_empty() || options.only.iter().any(is_named))
            && (options.classes.is_empty() || options.classes.contains(&one.mutant.class))
    };
    let mut chosen: Vec<&SqlMutant> = all.0.iter().filter(wanted).collect();
    if let Some(count) = options.sample {
        chosen = sample(chosen, options.seed, count);
    }
    match options.command.as_str() {
        "list" => {
            for one in chosen {
                println!("{}\t{}", one.mutant.object, one.mutant.change);
            }
            return Ok(true);
        }
        "report" => {}
        _ => {
            let known = |one: &&SqlMutant| match ledger.of(&one.mutant) {
                None => true,
                Some(outcome) => options.again || options.survivors && outcome.is_unheld(),
            };
            let todo: Vec<&SqlMutant> = chosen.iter().copied().filter(known).collect();
            let trial = Trial::prepare(&root, &folder, &home, options, &all.1)?;
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

/// Everything that a mutant is tried with.
struct Trial {
    suite: Suite,
    reach: Reach,
    folder: PathBuf,
    home: PathBuf,
    server: TestServer,
    /// How many tests are asked about one mutant at most.
    most: usize,
    /// How often a test noticed a mutant of an object.
    noticed: Mutex<BTreeMap<(String, String), usize>>,
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
    ) -> Result<Self, String> {
        let mut arguments = vec!["-p", "cutter-pg", "--all-features", "--lib", "--tests"];
        if options.whole_product {
            arguments.extend(["-p", "cutter-tests"]);
        }
        let target = folder.parent().and_then(Path::parent).ok_or("no target folder")?;
        let suite = Suite::build(root, target, &arguments, &folder.join("built.json"), options.as_built)?;
        let sources = suite.tests.iter().map(|test| (test.target.clone(), suite.source(test))).collect();
        let mut trial = Self {
            reach: Reach::open(&folder.join("reach.tsv")),
            suite,
            folder: folder.to_owned(),
            home: home.to_owned(),
            server: TestServer::at(home),
            most: options.most,
            noticed: Mutex::default(),
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
        self.suite.run(test, &all, LIMIT)
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
            return Ok(Outcome::Invalid(why));
        }
        let asked = tests.len().min(self.most);
        let mut outcome = Outcome::Survived { asked, of: tests.len() };
        for test in tests.into_iter().take(asked) {
            if self.run(test, &[(AFTER_VARIABLE, after.as_os_str())])?.0 != Ended::Passed {
                if let Ok(mut noticed) = self.noticed.lock() {
                    *noticed.entry((one.mutant.object.clone(), test.to_string())).or_default() += 1;
                }
                outcome = Outcome::Noticed(test.to_string());
                break;
            }
        }
        self.server.forget_after(&one.sql);
        Ok(outcome)
    }

    /// The tests that reach a mutant: first those that noticed others of its object, then those
    /// whose text names what it touches, then the quickest.
    fn asked(&self, one: &SqlMutant) -> Vec<&Test> {
        let tests = &self.suite.tests;
        let (names, word) = match &one.touches {
            Touches::Function(name) => (vec![format!("function {name}")], name.as_str()),
            Touches::Table(name) => (vec![format!("written {name}"), format!("table {name}")], name.as_str()),
            Touches::View(name) => (Vec::new(), name.as_str()),
            Touches::Rights => (Vec::new(), "grants"),
        };
        let mut found = self.reach.touching(tests, &names);
        // what the server does not count: views, and functions that it writes into their caller
        let is_uncounted =
            matches!(&one.touches, Touches::View(_) | Touches::Function(_)) && found.is_empty();
        // and a test of everything there is of a kind touches no table itself
        let of_a_kind = match one.mutant.class {
            Class::Grant => "cutter-pg/grants",
            Class::Check => "cutter-pg/checks",
            Class::Trigger | Class::Definer => "cutter-pg/schema",
            _ => "",
        };
        found.extend(self.everyone().into_iter().filter(|test| is_uncounted || test.target == of_a_kind));
        let word = word.rsplit('.').next().unwrap_or(word);
        let says = |test: &Test| self.sources.get(&test.target).is_some_and(|source| source.contains(word));
        let noticed = self.noticed.lock().map(|noticed| noticed.clone()).unwrap_or_default();
        found.sort_by_key(|test| {
            let count =
                noticed.get(&(one.mutant.object.clone(), test.to_string())).copied().unwrap_or_default();
            (test.target != of_a_kind, std::cmp::Reverse(count), !says(test))
        });
        found
    }

    /// Every test that asks a database, the quickest first.
    fn everyone(&self) -> Vec<&Test> {
        let mut found: Vec<(&Test, Duration)> = Vec::new();
        for test in &self.suite.tests {
            if let Some(known) =
                self.reach.tests.get(&test.to_string()).filter(|known| known.left_out.is_none())
            {
                found.push((test, known.took));
            }
        }
        found.sort_by_key(|(_, took)| *took);
        found.into_iter().map(|(test, _)| test).collect()
    }
}
