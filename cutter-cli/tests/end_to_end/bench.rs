//! A home with keys, people and a database, and the binary run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// A document with what documents have.
pub(crate) fn text(n: u32) -> String {
    let mut out = format!("---\nx: {n}\n---\n# Title {n}\n\nIntro of {n}.\n\n");
    for chapter in 1..=2 {
        out.push_str(&format!("## Chapter {chapter}\n\n"));
        for article in 1..=3 {
            out.push_str(&format!(
                "### Article {}\n\nText {n}, with `code`; it's a \"test\" -- DROP TABLE x; \\. $1\n\n",
                chapter * 10 + article
            ));
        }
    }
    out
}

/// The shared home.
pub(crate) struct Bench {
    pub(crate) home: PathBuf,
}

/// What a command gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", String::from_utf8_lossy(&self.stdout), self.stderr))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        let text = String::from_utf8_lossy(&self.stdout);
        assert_eq!(self.code, code, "stdout: {text}\nstderr: {}", self.stderr);
        self
    }
}

impl Bench {
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Bench> = OnceLock::new();
        SHARED.get_or_init(|| {
            let home = std::env::temp_dir().join(format!("cutter-cli-test-{}", std::process::id()));
            watch(&home);
            let bench = Self { home };
            bench.run(&["init", "--sovereign", "sue"]).expect(0);
            bench
        })
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutter"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CUTTER_") {
                command.env_remove(name);
            }
        }
        command.env("CUTTER_HOME", &self.home).env("CUTTER_ACTOR", "oscar").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command().args(arguments).output().unwrap())
    }

    /// Registers a document; gives the path of its text.
    pub(crate) fn register(&self, id: &str, content: &str) -> PathBuf {
        let path = self.home.join(format!("{id}.md"));
        std::fs::write(&path, content).unwrap();
        self.run(&["source", "add", path.to_str().unwrap(), "--document-id", id]).expect(0);
        path
    }

    /// Registers and cuts up to the first gate; gives the run.
    pub(crate) fn parked(&self, id: &str, content: &str) -> String {
        self.register(id, content);
        let cut = self.run(&["orchestrate", "cut", "--document-id", id, "--json"]).expect(0).json();
        assert_eq!(cut["state"], "awaiting_cut_authorization", "{cut}");
        cut["run_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn approve(&self, run: &str, what: &str) -> Value {
        self.run(&["sovereign", "approve", "--yes", "--run-id", run, "--for", what, "--json"])
            .expect(0)
            .json()
    }

    pub(crate) fn resume(&self, run: &str) -> Ran {
        self.run(&["orchestrate", "resume", "--run-id", run, "--json"])
    }

    /// A whole run; gives its id.
    pub(crate) fn finished(&self, id: &str, content: &str) -> String {
        let run = self.parked(id, content);
        self.approve(&run, "cut");
        assert_eq!(self.resume(&run).expect(0).json()["state"], "awaiting_lifecycle_authorization");
        self.approve(&run, "lifecycle");
        assert_eq!(self.resume(&run).expect(0).json()["state"], "closeout_reported");
        run
    }

    pub(crate) fn status(&self, run: &str) -> Value {
        self.run(&["orchestrate", "status", "--run-id", run, "--json"]).expect(0).json()
    }

    pub(crate) fn run_folder(&self, run: &str) -> PathBuf {
        self.home.join("runs").join(run)
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Stops the server and removes the home once this process is gone, however it ended.
// It outlives this process on purpose, so nobody is there to wait for it.
#[allow(clippy::zombie_processes)]
fn watch(home: &Path) {
    let script = "while kill -0 \"$0\" 2>/dev/null; do sleep 0.2; done; \
                  CUTTER_HOME=\"$1\" \"$2\" -q db stop >/dev/null 2>&1; rm -rf \"$1\"";
    Command::new("setsid")
        .args(["sh", "-c", script])
        .arg(std::process::id().to_string())
        .arg(home)
        .arg(env!("CARGO_BIN_EXE_cutter"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
}
