//! The compiled tests of some packages: which there are, and running one of them with a time limit.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// Its package and target, say `cutter-pg/schema`.
    pub target: String,
    /// Its name within that.
    pub name: String,
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::{}", self.target, self.name)
    }
}

/// A compiled test program.
#[derive(Debug, Clone)]
struct Program {
    path: PathBuf,
    folder: PathBuf,
    source: PathBuf,
}

/// The compiled tests.
#[derive(Debug)]
pub struct Suite {
    programs: BTreeMap<String, Program>,
    /// All tests, by target and name.
    pub tests: Vec<Test>,
}

/// How one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It was ended at the limit.
    Hung,
}

impl Suite {
    /// Builds the tests of packages with `cargo test --no-run` and these arguments, in this folder and
    /// into that target folder, and keeps in a file what cargo said; or takes them as they were built then.
    ///
    /// # Errors
    /// If they do not build, or cannot be listed.
    pub fn build(
        folder: &Path,
        target: &Path,
        arguments: &[&str],
        kept: &Path,
        as_built: bool,
    ) -> Result<Self, String> {
        if as_built {
            let said =
                std::fs::read_to_string(kept).map_err(|error| format!("{}: {error}", kept.display()))?;
            return Self::of_messages(&said);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", target)
            .args(["test", "--no-run", "--message-format=json-render-diagnostics", "-q"])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            return Err("the tests do not build".to_owned());
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        std::fs::write(kept, &said).map_err(|error| format!("{}: {error}", kept.display()))?;
        Self::of_messages(&said)
    }

    /// The test programs that cargo's messages name, and their tests.
    fn of_messages(said: &str) -> Result<Self, String> {
        let mut programs = BTreeMap::new();
        for line in said.lines() {
            let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let is_test = message["profile"]["test"] == true;
            let text = |pointer: &str| message.pointer(pointer).and_then(serde_json::Value::as_str);
            if let (true, Some(path), Some(target), Some(source), Some(manifest)) = (
                is_test,
                text("/executable"),
                text("/target/name"),
                text("/target/src_path"),
                text("/manifest_path"),
            ) {
                let folder = Path::new(manifest).parent().unwrap_or(Path::new(".")).to_owned();
                let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let program = Program { path: path.into(), folder, source: source.into() };
                programs.insert(format!("{package}/{target}"), program);
            }
        }
        let mut tests = Vec::new();
        for (target, program) in &programs {
            let output = Command::new(&program.path)
                .args(["--list", "--format", "terse"])
                .current_dir(&program.folder)
                .output()
                .map_err(|error| format!("{target}: {error}"))?;
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                if let Some(name) = line.strip_suffix(": test") {
                    tests.push(Test { target: target.clone(), name: name.to_owned() });
                }
            }
        }
        tests.sort();
        Ok(Self { programs, tests })
    }

    /// The text of the file that a test stands in, and of those in the folder of its name.
    #[must_use]
    pub fn source(&self, test: &Test) -> String {
        let Some(program) = self.programs.get(&test.target) else { return String::new() };
        let folder = std::fs::read_dir(program.source.with_extension("")).into_iter().flatten();
        let parts = folder.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let files = std::iter::once(program.source.clone()).chain(parts);
        files.filter_map(|file| std::fs::read_to_string(file).ok()).collect()
    }

    /// Runs one test in a process of its own, with these variables, and ends it at the limit.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(
        &self,
        test: &Test,
        variables: &[(&str, &std::ffi::OsStr)],
        limit: Duration,
    ) -> Result<(Ended, Duration), String> {
        let program = self.programs.get(&test.target).ok_or_else(|| format!("no program {}", test.target))?;
        let started = Instant::now();
        let mut child = Command::new(&program.path)
            .args(["--exact", &test.name, "--test-threads=1", "-q"])
            .current_dir(&program.folder)
            // as cargo tells tests
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{test}: {error}"))?;
        loop {
            match child.try_wait().map_err(|error| format!("{test}: {error}"))? {
                Some(status) => {
                    let ended = if status.success() { Ended::Passed } else { Ended::Failed };
                    return Ok((ended, started.elapsed()));
                }
                None if started.elapsed() > limit => {
                    if let Some(group) =
                        i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw)
                    {
                        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                    }
                    let _ = child.wait();
                    return Ok((Ended::Hung, started.elapsed()));
                }
                None => std::thread::sleep(Duration::from_millis(3)),
            }
        }
    }
}

/// Does the work for each, with so many workers; the first error ends it.
///
/// # Errors
/// The work's own.
pub fn each<T: Sync>(
    jobs: usize,
    all: &[T],
    work: impl Fn(usize, &T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for worker in 0..jobs {
            let (next, failed, work) = (&next, &failed, &work);
            scope.spawn(move || {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = work(worker, one) {
                        next.store(all.len(), Ordering::Relaxed);
                        if let Ok(mut failed) = failed.lock() {
                            *failed = Some(error);
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().ok().flatten().map_or(Ok(()), Err)
}
