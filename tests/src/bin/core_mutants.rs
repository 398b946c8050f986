//! Turns or takes out one rule of the core at a time and asks the tests that reach it.
//!
//! ```text
//! cargo run -p cutter-tests --bin core_mutants -- [run] [--seed N] [--sample K] [--only TEXT]
//!     [--again | --survivors] [--most N] [--jobs N] [--core-alone | --whole-product]
//! cargo run -p cutter-tests --bin core_mutants -- list | report
//! ```
//!
//! It draws so many places (200 unless said) by the seed, writes a copy of the workspace below the
//! target directory with all of them built in, compiles that once, and chooses one at a time by a
//! variable. The tests are those of `cutter-core` and of this package that do not start the program; with
//! `--whole-product` those too, which is slow: best for `--survivors`. The
//! list of places that change nothing is `tests/lists/mutants_core.tsv`. Exits 1 if a mutant
//! survived or the list is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cutter_tests::mutants::ledger::{Equivalents, Ledger, Mutant, Outcome, report, tell_apart};
use cutter_tests::mutants::options::Options;
use cutter_tests::mutants::places::{Place, built_in, of_file};
use cutter_tests::mutants::reach::{Known, Reach};
use cutter_tests::mutants::suite::{Ended, Suite, Test, each};
use cutter_tests::mutants::text;

/// A test that takes longer than this as it is, is not asked.
const SLOW: Duration = Duration::from_secs(20);
/// A test that takes longer than this with a mutant hangs.
const LIMIT: Duration = Duration::from_secs(90);

/// The tests with the program that they start.
struct Built {
    suite: Suite,
    program: OsString,
}

impl Built {
    fn run(
        &self,
        test: &Test,
        variable: (&str, &OsStr),
        limit: Duration,
    ) -> Result<(Ended, Duration), String> {
        self.suite.run(test, &[variable, ("CUTTER_BIN", &self.program)], limit)
    }
}

/// What is no rule of the core: models and suites for tests, and what is computed before any run.
const NO_RULES: &[&str] =
    &["src/testing/", "/tests/", "tests.rs", "src/lib.rs", "backlog/model.rs", "cut_request/model.rs"];

/// What chooses among the places while the tests run.
const CHOOSER: &str = r#"//! Chooses a mutant by its number.
use std::boxed::Box;
use std::io::Write as _;
use std::string::ToString as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

struct Chosen {
    number: Option<usize>,
    reach: Option<std::ffi::OsString>,
    seen: Box<[AtomicBool]>,
}

/// Whether this one is chosen.
pub fn is_on(number: usize) -> bool {
    static CHOSEN: OnceLock<Chosen> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| Chosen {
        number: std::env::var("CUTTER_MUTANT").ok().and_then(|text| text.parse().ok()),
        reach: std::env::var_os("CUTTER_MUTANT_REACH"),
        seen: (0..COUNT).map(|_| AtomicBool::new(false)).collect(),
    });
    if let Some(path) = &chosen.reach {
        if !chosen.seen[number].swap(true, Ordering::Relaxed) {
            let line = std::format!("{}\n", number.to_string());
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the reach is written");
        }
    }
    chosen.number == Some(number)
}
"#;

fn main() -> ExitCode {
    Options::main("core_mutants", &["--core-alone", "--whole-product"], work)
}

/// A drawn place of a file.
#[derive(Debug, Clone)]
struct Drawn {
    file: String,
    place: Place,
    mutant: Mutant,
}

/// Every place of the core's rules.
fn places(root: &Path) -> Result<Vec<Drawn>, String> {
    let (mut found, files) = (Vec::new(), tracked(root)?);
    let is_anywhere = |part: &str| files.iter().any(|file| file.contains(part));
    if let Some(part) = NO_RULES.iter().find(|part| !is_anywhere(part)) {
        return Err(format!("NO_RULES: expected files with {part} in their names, observed none"));
    }
    for file in files {
        let is_rule = file.starts_with("cutter-core/src/") && file.ends_with(".rs");
        if !is_rule || NO_RULES.iter().any(|part| file.contains(part)) {
            continue;
        }
        let source = text(std::fs::read_to_string(root.join(&file)), &file)?;
        for place in of_file(&source).map_err(|error| format!("{file}: {error}"))? {
            let object = format!("{file} {}", place.within);
            let change = format!("{}: {}", place.class.as_str(), place.words.replace('\t', " "));
            let mutant = Mutant { object, change, class: place.class };
            found.push(Drawn { file: file.clone(), place, mutant });
        }
    }
    tell_apart(found.iter_mut().map(|drawn| &mut drawn.mutant));
    Ok(found)
}

/// The files of the workspace: those that git knows, and new ones that it does not ignore.
fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = text(Command::new("git").current_dir(root).args(arguments).output(), "git")?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let exists = |name: &&str| !name.is_empty() && root.join(name).is_file();
    Ok(names.split('\0').filter(exists).map(str::to_owned).collect())
}

fn work(options: &Options) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?.to_owned();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = text(std::path::absolute(target), "the target folder")?.join("mutants/core");
    text(std::fs::create_dir_all(&folder), "the folder of results")?;
    let list = std::fs::read_to_string(root.join("tests/lists/mutants_core.tsv"));
    let list = Equivalents::parse(&text(list, "tests/lists/mutants_core.tsv")?)?;
    let mut ledger = text(Ledger::open(&folder.join("results.tsv")), "the results")?;

    let all = places(&root)?;
    let names: Vec<Mutant> = all.iter().map(|drawn| drawn.mutant.clone()).collect();
    let mut chosen = options.chosen(all, |drawn| &drawn.mutant);
    // all of them would be too much for one copy
    chosen.truncate(options.sample.unwrap_or(200));
    match options.command.as_str() {
        "list" => {
            for drawn in &chosen {
                println!("{}\t{}", drawn.mutant.object, drawn.mutant.change);
            }
            return Ok(true);
        }
        "report" => {}
        _ => {
            let is_due = |drawn: &&Drawn| options.is_due(&drawn.mutant, &ledger);
            let todo: Vec<Drawn> = chosen.iter().filter(is_due).cloned().collect();
            if !todo.is_empty() {
                try_all(&root, &folder, options, &todo, &mut ledger)?;
            }
        }
    }
    let shown: Vec<Mutant> = chosen.iter().map(|drawn| drawn.mutant.clone()).collect();
    let stale = list.stale(&names);
    let (table, is_bad) = report(&shown, &ledger, &list.within(&shown));
    println!("{} places there are, drawn by seed {}\n{table}", names.len(), options.seed);
    for entry in &stale {
        println!("fault: listed, and no mutant: {entry}");
    }
    Ok(!is_bad && stale.is_empty())
}

fn try_all(
    root: &Path,
    folder: &Path,
    options: &Options,
    todo: &[Drawn],
    ledger: &mut Ledger,
) -> Result<(), String> {
    let (built, lost) = build(root, &folder.join("tree"), options, todo)?;
    for number in &lost {
        let why = "has not the right types".to_owned();
        text(ledger.note(&todo[*number].mutant, Outcome::Invalid(why)), "the results")?;
    }
    let reach = learn(&built, folder, options.jobs)?;
    let numbers: Vec<usize> = (0..todo.len()).filter(|number| !lost.contains(number)).collect();
    let (started, done) = (Instant::now(), AtomicUsize::new(0));
    let ledger = Mutex::new(ledger);
    each(options.jobs, &numbers, |_, number| {
        let mut asked = reach.touching(&built.suite.tests, &[number.to_string()]);
        let of = asked.len();
        asked.truncate(options.most);
        let mut outcome =
            if of == 0 { Outcome::Unreached } else { Outcome::Survived { asked: asked.len(), of } };
        let chosen = OsString::from(number.to_string());
        for test in asked {
            if built.run(test, ("CUTTER_MUTANT", &chosen), LIMIT)?.0 != Ended::Passed {
                outcome = Outcome::Noticed(test.to_string());
                break;
            }
        }
        let mutant = &todo[*number].mutant;
        let n = done.fetch_add(1, Ordering::Relaxed) + 1;
        let (word, seconds) =
            (if outcome.is_unheld() { "SURVIVED" } else { "" }, started.elapsed().as_secs());
        eprintln!("{n}/{} {seconds} s {} {} {word} {outcome:?}", numbers.len(), mutant.object, mutant.change);
        let mut ledger = ledger.lock().map_err(|_| "the results".to_owned())?;
        text(ledger.note(mutant, outcome), "the results")
    })
}

/// Writes the copy with the places built in and compiles its tests; places that do not compile are
/// left out, and named.
fn build(
    root: &Path,
    tree: &Path,
    options: &Options,
    todo: &[Drawn],
) -> Result<(Built, BTreeSet<usize>), String> {
    let mut lost = BTreeSet::new();
    for _ in 0..12 {
        write_tree(root, tree, todo, &lost)?;
        // what the compiler refuses shows in the library alone, and soonest
        let refused = refused_places(tree, todo)?;
        let new: Vec<usize> = refused.into_iter().filter(|number| lost.insert(*number)).collect();
        if !new.is_empty() {
            eprintln!("{} places have not the right types", new.len());
            continue;
        }
        let mut arguments =
            vec!["-p", "cutter-core", "--features", "cutter-core/conformance", "--lib", "--tests"];
        if !options.says("--core-alone") {
            arguments.extend(["-p", "cutter-tests"]);
        }
        let kept = tree.with_file_name("built.json");
        let suite = Suite::build(tree, &target_of(tree), &arguments, &kept, false)?;
        let program = if options.says("--whole-product") { program(tree)? } else { "/no/program".into() };
        return Ok((Built { suite, program }, lost));
    }
    Err("the copy does not compile".to_owned())
}

/// Compiles the program of the copy, so that the places are built into it, too.
fn program(tree: &Path) -> Result<OsString, String> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target_of(tree))
        .args([
            "build",
            "-q",
            "-p",
            "cutter-cli",
            "-p",
            "cutter-core",
            "--features",
            "cutter-core/conformance",
        ])
        .status();
    if !text(status, "cargo")?.success() {
        return Err("the program does not build".to_owned());
    }
    Ok(target_of(tree).join("debug/cutter").into_os_string())
}

/// The target folder of the copy: of its own, or it would build over the workspace's.
fn target_of(tree: &Path) -> PathBuf {
    tree.with_file_name("target")
}

fn write_tree(root: &Path, tree: &Path, todo: &[Drawn], lost: &BTreeSet<usize>) -> Result<(), String> {
    let mut by_file = BTreeMap::<&str, Vec<(usize, Place)>>::new();
    for (number, drawn) in todo.iter().enumerate().filter(|(number, _)| !lost.contains(number)) {
        by_file.entry(&drawn.file).or_default().push((number, drawn.place.clone()));
    }
    for name in tracked(root)? {
        let bytes = text(std::fs::read(root.join(&name)), &name)?;
        let bytes = match (name.as_str(), by_file.get(name.as_str())) {
            ("cutter-core/src/lib.rs", _) => {
                let source = String::from_utf8_lossy(&bytes);
                source
                    .replacen("#![no_std]", "#![no_std]\n#![allow(warnings)]\npub mod mutant;", 1)
                    .into_bytes()
            }
            (_, Some(places)) => built_in(&String::from_utf8_lossy(&bytes), places).into_bytes(),
            (_, None) => bytes,
        };
        put(&tree.join(&name), &bytes)?;
    }
    let chooser = format!("{CHOOSER}\nconst COUNT: usize = {};\n", todo.len());
    put(&tree.join("cutter-core/src/mutant.rs"), chooser.as_bytes())
}

/// Writes a file only if it changes, so that nothing is compiled again for nothing.
fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().ok_or("a file without a folder")?;
    text(std::fs::create_dir_all(folder), "the copy")?;
    text(std::fs::write(path, bytes), "the copy")
}

/// The numbers of the places that the compiler refuses.
fn refused_places(tree: &Path, todo: &[Drawn]) -> Result<BTreeSet<usize>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target_of(tree))
        .args(["check", "-q", "-p", "cutter-core", "--features", "conformance", "--message-format=json"])
        .output();
    let output = text(output, "cargo")?;
    let mut refused = BTreeSet::new();
    let mut said = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["reason"] != "compiler-message" || message["message"]["level"] != "error" {
            continue;
        }
        said.push(message["message"]["rendered"].as_str().unwrap_or_default().to_owned());
        for span in message["message"]["spans"].as_array().into_iter().flatten() {
            let number = |field: &str| span[field].as_u64().and_then(|n| usize::try_from(n).ok());
            if let (Some(file), Some(start), Some(end)) =
                (span["file_name"].as_str(), number("byte_start"), number("byte_end"))
            {
                let built = text(std::fs::read_to_string(tree.join(file)), file)?;
                refused.extend(nearest(&built, start, end));
            }
        }
    }
    if !output.status.success() && refused.is_empty() {
        return Err(format!("the copy does not compile: {}", said.join("\n")));
    }
    refused.retain(|number| *number < todo.len());
    Ok(refused)
}

/// The number of the place that a message is about: the last one that begins before its end.
fn nearest(built: &str, start: usize, end: usize) -> Option<usize> {
    let mark = "mutant::is_on(";
    let inside = built.get(start..end).and_then(|part| part.find(mark)).map(|n| start + n);
    let at = inside.or_else(|| built.get(..start).and_then(|part| part.rfind(mark)))? + mark.len();
    let digits: String = built[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Which test reaches which places: all tests once.
fn learn(built: &Built, folder: &Path, jobs: usize) -> Result<Reach, String> {
    let path = folder.join("reach.tsv");
    // other places, other reach
    let _ = std::fs::remove_file(&path);
    let mut reach = Reach::open(&path);
    eprintln!("{} tests: what do they reach?", built.suite.tests.len());
    let found = Mutex::new(Vec::new());
    each(jobs, &built.suite.tests, |worker, test: &Test| {
        let seen = folder.join(format!("touched-{worker}"));
        let _ = std::fs::remove_file(&seen);
        // twenty seconds are not waited for to the end
        let (ended, took) = built.run(test, ("CUTTER_MUTANT_REACH", seen.as_os_str()), SLOW)?;
        let touched: BTreeSet<String> =
            std::fs::read_to_string(&seen).unwrap_or_default().lines().map(str::to_owned).collect();
        let left_out = match ended {
            Ended::Passed => None,
            Ended::Hung => Some("takes too long".to_owned()),
            Ended::Failed => Some("fails as it is".to_owned()),
        };
        if let Ok(mut found) = found.lock() {
            found.push((test.to_string(), Known { took, left_out, touched }));
        }
        Ok(())
    })?;
    for (name, known) in found.into_inner().unwrap_or_default() {
        if let Some(why) = &known.left_out {
            eprintln!("left out: {name}: {why}");
        }
        reach.tests.insert(name, known);
    }
    text(reach.save(), "what the tests reach")?;
    Ok(reach)
}
