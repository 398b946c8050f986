//! The built program as a user runs it: a home, a `cutter.toml`, a database of its own, and
//! real processes that can be killed, frozen and starved.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "for tests only")]

mod process;
mod rows;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use cutter_pg::login::Login;
use cutter_pg::testing::{CommitProxy, TestDatabase, TestServer};
use serde_json::Value;

pub use self::process::{Running, Signal};
pub use self::rows::{Counts, UNITS};

/// Who approves.
pub const SOVEREIGN: &str = "ada";

/// The connections of `cutter.toml`, by key.
const CONNECTIONS: [(&str, Login); 4] = [
    ("reader", Login::Ro),
    ("executor", Login::Exec),
    ("verifier", Login::Verify),
    ("reviewer", Login::Review),
];

/// Whether the big sizes are asked for (`CUTTER_FULL=1`).
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("CUTTER_FULL").is_some_and(|value| value == "1")
}

/// The folder of real documents. `None`, said aloud, if `CUTTER_CORPUS` is not set.
#[must_use]
pub fn corpus(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("CUTTER_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        // stderr itself: a passing test's output is captured
        let _ = writeln!(std::io::stderr(), "{test}: SKIPPED, CUTTER_CORPUS is not set");
    }
    folder
}

/// The program: `CUTTER_BIN`, else built once by the first test of a process that needs it.
///
/// # Panics
/// If it does not build.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("CUTTER_BIN") {
            return PathBuf::from(path);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "-q", "-p", "cutter-cli", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
            .status()
            .unwrap();
        assert!(built.success(), "cutter-cli does not build");
        // …/debug/deps/test → …/debug/cutter
        let own = std::env::current_exe().unwrap();
        own.parent().and_then(Path::parent).unwrap().join("cutter")
    })
}

/// What a finished command left.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The one document on stdout; null if there is none.
    pub json: Value,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Ran {
    /// Asserts the exit code.
    ///
    /// # Panics
    /// If it is another; everything that was said is shown.
    #[track_caller]
    #[must_use]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// A text in the document by JSON pointer, empty if absent.
    #[must_use]
    pub fn text(&self, pointer: &str) -> &str {
        self.json.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The state of the run that is shown.
    #[must_use]
    pub fn state(&self) -> &str {
        self.text("/state")
    }

    /// The code of the stop or of the error.
    #[must_use]
    pub fn stop_code(&self) -> &str {
        let stop = self.text("/stop/code");
        if stop.is_empty() { self.text("/error/code") } else { stop }
    }
}

/// A deployment in a temporary home.
#[derive(Debug)]
pub struct Deployment {
    /// Its database, dropped with it.
    pub database: TestDatabase,
    home: tempfile::TempDir,
}

impl Deployment {
    /// A home with keys and a migrated database on the shared test server.
    #[must_use]
    pub fn new() -> Self {
        Self::over(TestServer::shared().fresh_database())
    }

    /// A home over this database.
    #[must_use]
    pub fn over(database: TestDatabase) -> Self {
        let deployment = Self { database, home: tempfile::tempdir().unwrap() };
        let _ = deployment.run(&["init", "--no-database", "--sovereign", SOVEREIGN]).exits(0);
        let mut section = "\n[database]\n".to_owned();
        for (key, login) in CONNECTIONS {
            let dsn = deployment.database.connection_string(login);
            writeln!(section, "{key} = \"{dsn}\"").unwrap();
        }
        deployment.append_config(&section);
        let _ = deployment.by_admin(&["approver", "import"]).exits(0);
        deployment
    }

    /// Runs a command with the administrator's connection.
    #[must_use]
    pub fn by_admin(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(arguments);
        command.env("CUTTER_DSN_ADMIN", self.database.connection_string(Login::Admin));
        finish(command)
    }

    /// Sends every connection of a run through a proxy, but for the backup's own.
    #[must_use]
    pub fn through(&self, proxy: &CommitProxy) -> Vec<(String, String)> {
        let variable = |(key, login): (&str, Login)| {
            let dsn = proxy.connection_string(&self.database.dsn(login));
            (format!("CUTTER_DSN_{}", key.to_uppercase()), dsn)
        };
        CONNECTIONS.map(variable).to_vec()
    }

    /// Appends to `cutter.toml`.
    pub fn append_config(&self, text: &str) {
        let path = self.path("cutter.toml");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Files the reviewer's document about a mark, this one of several; gives its path.
    #[must_use]
    pub fn review(&self, name: &str) -> String {
        let path = format!("reviews/{name}.md");
        let file = self.path("kb").join(&path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("# Review {name}\n\nIt may be cut.\n")).unwrap();
        path
    }

    /// A path below the home.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        self.home.path().join(below)
    }

    /// A command of the program, with `--json`, ready to run.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        command_at(self.home.path(), arguments)
    }

    /// The same under `ulimit -f`: no file of the process grows over so many blocks of 512
    /// bytes.
    #[must_use]
    pub fn command_with_file_limit(&self, blocks: u32, arguments: &[&str]) -> Command {
        let mut command = Command::new("/bin/sh");
        prepare(&mut command, self.home.path());
        command.args(["-c", "ulimit -f \"$1\" && shift && exec \"$@\"", "sh", &blocks.to_string()]);
        command.arg(binary()).args(all_arguments(self.home.path(), arguments));
        command
    }

    /// Runs a command to its end.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments))
    }

    /// Runs a command as people do, without `--json`.
    #[must_use]
    pub fn people(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(binary());
        prepare(&mut command, self.home.path());
        command.arg("--home").arg(self.home.path()).args(arguments);
        finish(command)
    }

    /// A command to type as it is printed for this home.
    #[must_use]
    pub fn typed(&self, command: &str) -> String {
        command.replacen("cutter ", &format!("cutter --home {} ", self.home.path().display()), 1)
    }

    /// Starts a command.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Registers a text as a document.
    pub fn register(&self, document_id: &str, text: &str) {
        let file = self.path(&format!("{document_id}.md"));
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let _ = self.run(&["source", "add", file, "--document-id", document_id]).exits(0);
    }

    /// Starts a run, up to SG_1; gives its id.
    #[track_caller]
    #[must_use]
    pub fn cut(&self, document_id: &str) -> String {
        let ran = self.run(&["orchestrate", "cut", "--document-id", document_id]).exits(0);
        assert_eq!(ran.state(), "awaiting_cut_authorization");
        ran.text("/run_id").to_owned()
    }

    /// The sovereign approves what the run asks.
    #[track_caller]
    pub fn approve(&self, run_id: &str, what: &str) {
        let _ = self.answer(run_id, what, &[]).exits(0);
    }

    /// The sovereign answers, with more arguments.
    #[must_use]
    pub fn answer(&self, run_id: &str, what: &str, more: &[&str]) -> Ran {
        let key = self.path(&format!("keys/{SOVEREIGN}.secret.asc"));
        let mut arguments = vec!["sovereign", "approve", "--yes", "--run-id", run_id, "--for", what];
        arguments.extend(["--key", key.to_str().unwrap()]);
        arguments.extend(more);
        self.run(&arguments)
    }

    /// Resumes a run.
    #[must_use]
    pub fn resume(&self, run_id: &str) -> Ran {
        self.run(&["orchestrate", "resume", "--run-id", run_id])
    }

    /// What the run's record says now.
    #[must_use]
    pub fn status(&self, run_id: &str) -> Ran {
        self.run(&["orchestrate", "status", "--run-id", run_id])
    }

    /// Cuts, approves and enacts without disturbance; gives the run's id.
    #[track_caller]
    #[must_use]
    pub fn whole_run(&self, document_id: &str) -> String {
        let run_id = self.cut(document_id);
        self.finish_run(&run_id);
        run_id
    }

    /// Answers whatever the run asks until it is closed out.
    #[track_caller]
    pub fn finish_run(&self, run_id: &str) {
        for _ in 0..4 {
            let ran = self.resume(run_id);
            match ran.state() {
                "closeout_reported" => return,
                "awaiting_cut_authorization" => self.approve(run_id, "cut"),
                "awaiting_lifecycle_authorization" => self.approve(run_id, "lifecycle"),
                other => panic!("{run_id} stands at {other:?}: {}\n{}", ran.stdout, ran.stderr),
            }
        }
        panic!("{run_id} does not come to its end");
    }

    /// Asserts that everything about the run can be verified from the evidence.
    #[track_caller]
    pub fn verify(&self, run_id: &str) {
        let _ = self.run(&["verify", "--run-id", run_id]).exits(0);
    }

    /// The folder of a run's sidecar.
    #[must_use]
    pub fn run_folder(&self, run_id: &str) -> PathBuf {
        self.path("runs").join(run_id)
    }

    /// The newest revision of a run's record.
    pub fn newest_record(&self, run_id: &str) -> PathBuf {
        let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
        let entries = std::fs::read_dir(self.run_folder(run_id).join("rev")).expect("it has revisions");
        entries.map(|entry| entry.expect("an entry").path()).max_by_key(number).expect("one at least")
    }

    /// Every file below a folder of the home, with its bytes, by path.
    #[must_use]
    pub fn files(&self, below: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path(below)];
        while let Some(folder) = folders.pop() {
            // A folder that is not there holds nothing.
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        found.sort();
        found
    }
}

impl Default for Deployment {
    fn default() -> Self {
        Self::new()
    }
}

/// A command of the program in any home, with `--json`, ready to run.
#[must_use]
pub fn command_at(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    prepare(&mut command, home);
    command.args(all_arguments(home, arguments));
    command
}

fn all_arguments(home: &Path, arguments: &[&str]) -> Vec<std::ffi::OsString> {
    let mut all = vec!["--home".into(), home.into()];
    let globals = ["--json", "--no-progress", "--no-color"];
    all.extend(globals.iter().chain(arguments).map(std::ffi::OsString::from));
    all
}

fn prepare(command: &mut Command, home: &Path) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CUTTER_") {
            command.env_remove(name);
        }
    }
    command.env("USER", "op").current_dir(home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// Runs a prepared command to its end.
#[must_use]
pub fn finish(command: Command) -> Ran {
    Running::start(command).wait()
}

/// A Markdown text of `articles` articles and a title.
#[must_use]
pub fn law(articles: usize, seed: &str) -> String {
    let mut text = format!("# Law of {seed}\n\nA preamble.\n\n");
    for n in 1..=articles {
        writeln!(text, "## Article {n}\n\nWhoever acts under {n} keeps a record for {seed}.\n").unwrap();
    }
    text
}

/// Numbers that follow from a seed, which is printed: the same seed tries the same moments.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// From `CUTTER_SEED`, else from the clock.
    #[must_use]
    pub fn new(test: &str) -> Self {
        let seed = std::env::var("CUTTER_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 20 | now_millis() & 0xf_ffff);
        let _ = writeln!(std::io::stderr(), "{test}: CUTTER_SEED={seed}");
        Self(seed)
    }

    /// From a seed that is printed already.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}

fn now_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
