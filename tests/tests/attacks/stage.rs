//! One home, brought from gate to gate and kept at each.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use cutter_pg::testing::Kept;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN, law};

use crate::sql::Reach;

/// Where a story can begin.
pub const STAGES: [&str; 5] =
    ["asked to cut", "allowed to cut", "asked to enact", "allowed to enact", "closed"];

struct Stage {
    files: tempfile::TempDir,
    database: Kept,
    signed: Vec<String>,
}

/// Where stories are told.
pub struct Theatre {
    pub d: Deployment,
    /// The run that the stories are about.
    pub run_id: String,
    /// A run of the version before, which is finished.
    pub past: String,
    /// What each login reaches, and values to call it with.
    pub reach: Reach,
    /// A key that nobody registered.
    pub stranger: cutter_kb::openpgp::KeyPair,
    /// Statements that were accepted, and refused.
    pub sent: Cell<[u32; 2]>,
    stages: Vec<Stage>,
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "--"]).arg(from.join(".")).arg(to).status().unwrap();
    assert!(copied.success(), "{} is copied", from.display());
}

impl Theatre {
    pub fn new() -> Self {
        let d = Deployment::new();
        let stranger =
            cutter_kb::openpgp::KeyPair::generate("Ada <ada@example.org>", cutter_kb::openpgp::KeyKind::Sign);
        let mut theatre = Self {
            d,
            run_id: String::new(),
            past: String::new(),
            reach: Reach::default(),
            stranger: stranger.unwrap(),
            sent: Cell::default(),
            stages: Vec::new(),
        };
        let mut signed = Vec::new();
        for text in [law(2, "the past"), law(3, "the present")] {
            theatre.d.register("LAW", &text);
            theatre.past = std::mem::take(&mut theatre.run_id);
            theatre.run_id = theatre.d.cut("LAW");
            let is_last = !theatre.past.is_empty();
            for what in ["cut", "lifecycle"] {
                if is_last {
                    theatre.keep(&signed);
                }
                let (ran, document) = theatre.answer("approve", what);
                signed.extend(document);
                let _ = ran.exits(0);
                if is_last {
                    theatre.keep(&signed);
                }
                let _ = theatre.d.resume(&theatre.run_id).exits(0);
            }
        }
        theatre.keep(&signed);
        assert_eq!(theatre.stages.len(), STAGES.len());
        theatre.reach = Reach::of(&theatre.d);
        theatre
    }

    fn keep(&mut self, signed: &[String]) {
        let files = tempfile::tempdir().unwrap();
        copy(&self.d.path(""), files.path());
        self.stages.push(Stage { files, database: self.d.database.keep(), signed: signed.to_vec() });
    }

    /// Puts a stage back; gives what had been signed by then.
    pub fn put_back(&self, stage: usize) -> Vec<String> {
        let stage = &self.stages[stage];
        for entry in std::fs::read_dir(self.d.path("")).unwrap() {
            let path = entry.unwrap().path();
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.unwrap();
        }
        copy(stage.files.path(), &self.d.path(""));
        self.d.database.put_back(&stage.database);
        stage.signed.clone()
    }

    pub const fn name(&self, stage: usize) -> &'static str {
        STAGES[stage]
    }

    /// What the run waits for at a stage, if for something.
    pub const fn asks(&self, stage: usize) -> Option<&'static str> {
        match stage {
            0 | 1 => Some("cut"),
            2 | 3 => Some("lifecycle"),
            _ => None,
        }
    }

    pub fn sovereign_key(&self) -> String {
        let kept = self.stages[0].files.path().join(format!("keys/{SOVEREIGN}.public.asc"));
        kept.to_str().unwrap().to_owned()
    }

    /// The sovereign answers, with a key and a program of his own; gives the document.
    pub fn answer(&self, verb: &str, what: &str) -> (Ran, Option<String>) {
        let folder =
            self.stages.first().map_or_else(|| self.d.path(""), |stage| stage.files.path().to_owned());
        let key = folder.join(format!("keys/{SOVEREIGN}.secret.asc"));
        let mut arguments = vec!["sovereign", verb, "--yes", "--run-id", &self.run_id, "--for", what];
        arguments.extend(["--key", key.to_str().unwrap()]);
        if verb == "refuse" {
            arguments.extend(["--reason", "no"]);
        }
        let ran = self.d.run(&arguments);
        let path = self.d.path("kb").join(ran.text("/approval_kb_id"));
        let document = std::fs::read_to_string(path).ok().filter(|_| ran.code == Some(0));
        (ran, document)
    }
}
