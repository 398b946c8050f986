//! What somebody does to files: the run's folder, the configuration and keys, the knowledge base.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cutter_core::base::digest::Digest;
use cutter_core::record::approval::{Ask, render_approval};
use cutter_core::record::effect::ReviewVerdict::{Approve, Reject};
use cutter_kb::openpgp::KeyPair;
use cutter_pg::login::Login;
use cutter_tests::attack::record::{self, Edit, Hand, Written};
use cutter_tests::cli::{Dice, SOVEREIGN, law};
use serde_json::Value;

use crate::stage::Theatre;

/// An act on files. Numbers choose among what there is.
#[derive(Debug, Clone, PartialEq)]
pub enum FileAct {
    /// A newer text is submitted.
    Submit(u8),
    Record(Edit),
    /// The newest revisions of the record are gone.
    Older(u8),
    Lose,
    /// `cutter.toml` says otherwise.
    Configuration(u8),
    /// Executor's and verifier's keys change places.
    Keys,
    /// An answer by nobody's, the operator's or a stranger's key.
    Forge(u8),
    /// Another answer that the sovereign once gave.
    Copy(u8),
    Junk(u8),
    /// A document is flipped, emptied, removed, or takes another one's bytes.
    Document(u16, u8),
}

pub fn of_operator(dice: &mut Dice) -> FileAct {
    let n = dice.below(256) as u8;
    match dice.below(12) {
        0 => FileAct::Older(n),
        1 => FileAct::Lose,
        2 | 3 => FileAct::Configuration(n),
        4 => FileAct::Keys,
        5 | 6 => FileAct::Forge(n),
        7 => FileAct::Copy(n),
        _ => FileAct::Record(record::draw(dice.below(14), n, dice.below(1_000) as u16)),
    }
}

pub fn of_kb_writer(dice: &mut Dice) -> FileAct {
    let n = dice.below(256) as u8;
    match dice.below(6) {
        0 => FileAct::Forge(n),
        1 => FileAct::Copy(n),
        2 => FileAct::Junk(n),
        _ => FileAct::Document(dice.below(1_000) as u16, n),
    }
}

fn revisions(theatre: &Theatre) -> Vec<(u64, PathBuf)> {
    let folder = theatre.d.run_folder(&theatre.run_id).join("rev");
    let number = |path: PathBuf| Some((path.file_stem()?.to_str()?.parse().ok()?, path));
    let mut all: Vec<(u64, PathBuf)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| number(entry.unwrap().path()))
        .collect();
    all.sort();
    all
}

/// Every document of the law's folders.
fn documents(theatre: &Theatre) -> Vec<PathBuf> {
    theatre
        .d
        .files("kb")
        .into_iter()
        .map(|(path, _)| path)
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect()
}

/// What the newest record asks.
fn ask(theatre: &Theatre) -> Option<Ask> {
    let (_, newest) = revisions(theatre).pop()?;
    let value: Value = serde_json::from_slice(&std::fs::read(newest).ok()?).ok()?;
    serde_json::from_value(value["ask"].clone()).ok()
}

fn operator(theatre: &Theatre) -> Option<KeyPair> {
    KeyPair::parse(&std::fs::read(theatre.d.path("keys/operator.secret.asc")).ok()?).ok()
}

fn write(path: &Path, bytes: &[u8]) {
    if let Some(folder) = path.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = std::fs::write(path, bytes);
}

fn rewrite(theatre: &Theatre, edit: Edit) {
    let all = revisions(theatre);
    let (Some((number, newest)), Some(operator)) = (all.last(), operator(theatre)) else { return };
    let Ok(bytes) = std::fs::read(newest) else { return };
    let now = jiff::Timestamp::now();
    let rows = theatre
        .d
        .texts("SELECT rows_digest FROM cutter_governance.approval_ask ORDER BY recorded_at LIMIT 1", &[]);
    let hand = Hand {
        now,
        sign: &|text| operator.clearsign(text, now).unwrap(),
        sovereign: sovereign(theatre),
        stands: &|path| Some(Digest::of(&std::fs::read(theatre.d.path("kb").join(path)).ok()?)),
        rows: rows.into_iter().next(),
    };
    match record::rewritten(&bytes, edit, &hand) {
        None => {}
        Some(Written::Over(bytes)) => write(newest, &bytes),
        Some(Written::Next(bytes)) => {
            let name = newest.file_name().unwrap().to_str().unwrap();
            write(
                &newest.with_file_name(name.replace(&number.to_string(), &(number + 1).to_string())),
                &bytes,
            );
        }
        Some(Written::Everywhere) => {
            for (_, path) in &all {
                if let Some(bytes) =
                    std::fs::read(path).ok().and_then(|old| record::created_anew(&old, &hand))
                {
                    write(path, &bytes);
                }
            }
        }
    }
}

fn sovereign(theatre: &Theatre) -> String {
    let sql = "SELECT fingerprint FROM cutter_governance.review_approval ORDER BY recorded_at LIMIT 1";
    theatre.d.texts(sql, &[]).pop().unwrap_or_default()
}

fn forge(theatre: &Theatre, n: u8) {
    let Some(ask) = ask(theatre) else { return };
    let now = jiff::Timestamp::now();
    let verdict = if n % 5 == 4 { Reject } else { Approve };
    let actor = if n % 7 == 6 { "op" } else { SOVEREIGN };
    let text = render_approval(&ask, verdict, actor, now, None, &BTreeMap::new());
    let document = match (n % 3, operator(theatre)) {
        (1, Some(operator)) => operator.clearsign(&text, now).unwrap(),
        (2, _) => theatre.stranger.clearsign(&text, now).unwrap(),
        _ => text,
    };
    let path = theatre.d.path("kb").join(&ask.approval_path);
    let path = if n.is_multiple_of(2) { path } else { path.with_extension(format!("{n}.md")) };
    if !path.exists() {
        write(&path, document.as_bytes());
    }
}

fn configure(theatre: &Theatre, n: u8) {
    let path = theatre.d.path("cutter.toml");
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    let d = &theatre.d.database;
    let text = match n % 5 {
        0 => format!("{text}\n[approval]\nsignatures = \"optional\"\ncreator_may_approve = true\n"),
        1 => text.replace("role = \"sovereign\"", "role = \"operator\""),
        2 => text.replace(&d.connection_string(Login::Verify), &d.connection_string(Login::Exec)),
        3 => text.replace(&d.connection_string(Login::Review), &d.connection_string(Login::Exec)),
        _ => text.replace(&d.connection_string(Login::Ro), &d.connection_string(Login::Review)),
    };
    write(&path, text.as_bytes());
}

fn damage(theatre: &Theatre, which: u16, n: u8) {
    let all = documents(theatre);
    let Some(path) = all.get(usize::from(which) % all.len().max(1)) else { return };
    let mut bytes = std::fs::read(path).unwrap_or_default();
    match n % 6 {
        0 => {
            let _ = std::fs::remove_file(path);
            return;
        }
        1 => bytes.clear(),
        2 => bytes = std::fs::read(&all[usize::from(n) * 7 % all.len()]).unwrap_or_default(),
        3 => bytes = vec![0xff, 0, 0xfe],
        4 => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            bytes = text.replace("decision: reject", "decision: approve").replace("LAW", "LAX").into_bytes();
        }
        _ => {
            let at = usize::from(which) * 31 % bytes.len().max(1);
            bytes.get_mut(at).map(|byte| *byte ^= 1).unwrap_or_default();
        }
    }
    write(path, &bytes);
}

/// Does it.
pub fn act(theatre: &Theatre, act: &FileAct) {
    let d = &theatre.d;
    match act {
        FileAct::Submit(n) => {
            let file = d.path("submitted.md");
            let hostile = "# Law \u{1b}[2K\u{202e}\n\n## Article 1\n\ndecision: approve\r\nrun_id: x\n";
            let text = if n.is_multiple_of(2) { law(4, "another text") } else { hostile.to_owned() };
            write(&file, text.as_bytes());
            let _ = d.run(&["source", "add", file.to_str().unwrap(), "--document-id", "LAW"]);
        }
        FileAct::Record(edit) => rewrite(theatre, *edit),
        FileAct::Older(n) => {
            let all = revisions(theatre);
            for (_, path) in all.iter().rev().take(1 + usize::from(n % 6)) {
                let _ = std::fs::remove_file(path);
            }
        }
        FileAct::Lose => {
            let _ = std::fs::remove_dir_all(d.run_folder(&theatre.run_id));
        }
        FileAct::Configuration(n) => configure(theatre, *n),
        FileAct::Keys => {
            let (a, b, c) = (d.path("keys/executor.seed"), d.path("keys/verifier.seed"), d.path("keys/c"));
            let _ = std::fs::rename(&a, &c)
                .and_then(|()| std::fs::rename(&b, &a))
                .and_then(|()| std::fs::rename(&c, &b));
        }
        FileAct::Forge(n) => forge(theatre, *n),
        FileAct::Copy(n) => {
            let is_answer = |path: &PathBuf| path.to_str().is_some_and(|path| path.contains("-approval"));
            let answers: Vec<PathBuf> = documents(theatre).into_iter().filter(is_answer).collect();
            let (Some(ask), false) = (ask(theatre), answers.is_empty()) else { return };
            let bytes = std::fs::read(&answers[usize::from(*n) % answers.len()]).unwrap_or_default();
            let path = d.path("kb").join(&ask.approval_path).with_extension(format!("{n}.md"));
            write(&path, &bytes);
        }
        FileAct::Junk(n) => {
            let Some(ask) = ask(theatre) else { return };
            let path = d.path("kb").join(&ask.approval_path).with_extension(format!("{n}.md"));
            match n % 3 {
                0 => drop(std::fs::create_dir_all(&path)),
                1 => {
                    write(&path, b"");
                    let file = std::fs::OpenOptions::new().write(true).open(&path);
                    let _ = file.and_then(|file| file.set_len(65 << 20));
                }
                _ => write(&path, &[0xff, 0xfe, *n]),
            }
        }
        FileAct::Document(which, n) => damage(theatre, *which, *n),
    }
}
