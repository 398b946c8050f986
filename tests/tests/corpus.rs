//! Real documents through the program: planned, shown, cut, enacted, verified.
//!
//! `CUTTER_CORPUS` names the folder; without it the tests say so and check nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cutter_core::base::digest::Digest;
use cutter_tests::cli::{Deployment, Ran, binary, corpus, finish, is_full};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

/// Not UTF-8; and no documents in our sense.
const NOT_SHOWN: [&str; 2] = ["us-army", "xml-samples"];

/// Documents by collection, the smallest first.
fn collections(root: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for folder in std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        found.insert(name, std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect());
    }
    for files in found.values_mut() {
        files.sort_by_key(|path| (path.metadata().unwrap().len(), path.clone()));
    }
    assert!(found.len() > 10, "{} collections in {}", found.len(), root.display());
    found
}

fn plain(arguments: &[&str], file: &Path) -> Ran {
    let mut command = std::process::Command::new(binary());
    command.args(["--json", "--no-progress"]).args(arguments).arg(file);
    for variable in ["CUTTER_CONFIG", "CUTTER_HOME"] {
        command.env_remove(variable);
    }
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    finish(command)
}

fn plan(file: &Path, more: &[&str]) -> Ran {
    let mut arguments = vec!["plan", "--max-candidates", "1000000"];
    arguments.extend(more);
    plain(&arguments, file)
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// The units tile the region, hash to what is said, have addresses of their own, and every
/// repeated place is told.
fn assert_sound(file: &Path, text: &[u8], plan: &Value) {
    let name = file.display();
    let units = plan["units"].as_array().unwrap();
    let (start, end) = (number(&plan["region"]["start"]), number(&plan["region"]["end"]));
    let mut joined = Vec::new();
    let mut at = start;
    let mut addresses = BTreeSet::new();
    let mut repeats = BTreeSet::new();
    for unit in units {
        let (from, to) = (number(&unit["start"]), number(&unit["end"]));
        assert_eq!(from, at, "{name}: a gap or an overlap");
        let content = &text[from..to];
        assert_eq!(unit["content_hash"], Digest::of(content).to_hex(), "{name}");
        joined.extend_from_slice(content);
        at = to;
        let address = unit["address"].as_str().unwrap();
        assert!(addresses.insert(address), "{name}: {address} twice");
        if address.rsplit('/').next().unwrap().contains('~') {
            repeats.insert(address);
        }
    }
    assert_eq!(joined, &text[start..end], "{name}: the units do not join to the region");
    assert_eq!(plan["region"]["sha256"], Digest::of(&joined).to_hex(), "{name}");
    let told = plan["duplicates"].as_array().unwrap();
    let told: BTreeSet<&str> = told.iter().map(|d| d["address"].as_str().unwrap()).collect();
    assert_eq!(told, repeats, "{name}: duplicates told and duplicates there");
}

#[test]
fn every_text_is_planned_the_same_by_two_processes_and_joins_to_its_region() {
    let Some(root) = corpus("plan of the corpus") else { return };
    let every = if is_full() { 1 } else { 5 };
    let (mut planned, mut refused) = (0, Vec::new());
    for files in collections(&root).into_values() {
        for file in files.iter().step_by(every) {
            let text = std::fs::read(file).unwrap();
            let first = plan(file, &[]);
            if std::str::from_utf8(&text).is_err() {
                let first = first.exits(2);
                assert!(first.stdout.contains("UTF-8"), "{}", first.stdout);
                refused.push(file.clone());
                continue;
            }
            let first = first.exits(0);
            assert_eq!(first.stdout, plan(file, &[]).exits(0).stdout, "{}", file.display());
            assert_sound(file, &text, &first.json);
            planned += 1;
        }
    }
    assert!(planned >= if is_full() { 90 } else { 20 }, "{planned}");
    assert!(refused.iter().any(|f| f.to_str().unwrap().contains("us-army")), "{refused:?}");
}

fn has_units(file: &Path) -> bool {
    plan(file, &[]).json.pointer("/units/0").is_some()
}

/// Which documents the demo shows: the smallest of each collection, and more in full.
fn shown(root: &Path) -> Vec<PathBuf> {
    let all = collections(root);
    let mut found: Vec<PathBuf> = Vec::new();
    let kept = all.into_iter().filter(|(name, _)| !NOT_SHOWN.contains(&name.as_str()));
    for (_, files) in kept {
        let n = if is_full() { 3 } else { 1 };
        // a file of nothing but front matter has no unit, and a cut of it is refused
        found.extend(files.into_iter().filter(|file| has_units(file)).take(n));
    }
    if !is_full() {
        found.sort_by_key(|path| path.metadata().unwrap().len());
        found.truncate(6);
    }
    found
}

struct DemoHome(tempfile::TempDir);

impl DemoHome {
    fn demo(&self, arguments: &[&str], file: Option<&Path>) -> Ran {
        let mut command = std::process::Command::new(binary());
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("CUTTER_")) {
            command.env_remove(name);
        }
        command.arg("--home").arg(self.0.path()).args(["--json", "--no-progress", "--no-color", "demo"]);
        command.args(arguments).args(file).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        finish(command)
    }
}

impl Drop for DemoHome {
    fn drop(&mut self) {
        let ran = self.demo(&["--clean"], None);
        if !std::thread::panicking() {
            let _ = ran.exits(0);
        }
    }
}

#[test]
fn the_demo_shows_real_documents_from_their_registration_to_their_verification() {
    let Some(root) = corpus("demo of the corpus") else { return };
    let home = DemoHome(tempfile::tempdir().unwrap());
    let files = shown(&root);
    assert!(files.len() >= if is_full() { 40 } else { 6 }, "{files:?}");
    for file in files {
        let ran = home.demo(&[], Some(&file)).exits(0);
        let name = file.display();
        assert_eq!(ran.text("/summary/state"), "closeout_reported", "{name}");
        assert!(ran.json["checks"].as_u64().unwrap() > 20, "{name}");
        let document_id = ran.text("/summary/document_id");
        let planned = plan(&file, &["--document-id", document_id]).exits(0);
        assert_eq!(ran.json["summary"]["units"], planned.json["units"].as_array().unwrap().len(), "{name}");
        for digest in ["manifest_digest", "writer_digest"] {
            assert_eq!(ran.text(&format!("/summary/digests/{digest}")), planned.text(&format!("/{digest}")));
        }
        assert_eq!(ran.text("/summary/digests/region_sha"), planned.text("/region/sha256"), "{name}");
        // again: nothing is left to do
        let again = home.demo(&[], Some(&file)).exits(0);
        assert_eq!(again.text("/run_id"), ran.text("/run_id"), "{name}");
    }
    let Some(army) = collections(&root).remove("us-army") else { panic!("no us-army") };
    let refused = home.demo(&[], Some(&army[0]));
    assert!(matches!(refused.code, Some(2 | 4)), "{:?} {}", refused.code, refused.stdout);
    assert!(refused.stdout.contains("UTF-8") || refused.stderr.contains("UTF-8"), "{}", refused.stdout);
}

#[test]
fn over_the_cap_a_document_is_refused_by_its_mark_with_count_and_cap() {
    let Some(root) = corpus("cap of candidates") else { return };
    let d = Deployment::new();
    // in full one that is over the cap as shipped
    let (below, cap) = if is_full() { ("de-gesetze/bgb.md", 1000) } else { ("k8s-steering/elections.md", 3) };
    let file = root.join(below);
    let planned = plan(&file, &["--document-id", "BIG"]).exits(0);
    let count = planned.json["units"].as_array().unwrap().len();
    assert!(count > cap, "{count}");
    let register = ["source", "add", file.to_str().unwrap(), "--document-id", "BIG"];
    let _ = d.run(&register).exits(0);
    let cap = cap.to_string();
    let cut = |max: &str| d.run(&["orchestrate", "cut", "--document-id", "BIG", "--max-candidates", max]);
    let failed = cut(&cap).exits(4);
    assert_eq!(failed.state(), "failed_mark", "{}", failed.stdout);
    let run_id = failed.text("/run_id").to_owned();
    let told = format!("{}{}", failed.stdout, failed.stderr);
    assert!(told.contains("mark") && told.contains(&cap) && told.contains(&count.to_string()), "{told}");
    let void = ["orchestrate", "void", "--run-id", &run_id];
    let _ = d.run(&void);
    let _ = d.answer(&run_id, "void", &["--reason", "cap"]).exits(0);
    let _ = d.run(&void).exits(0);
    let passed = cut(&count.to_string()).exits(0);
    assert_eq!(passed.state(), "awaiting_cut_authorization");
    assert_eq!(passed.json["units"], count);
}

fn texts() -> impl Strategy<Value = String> {
    let heading = ("#{1,4}", "(Article|Điều|第|§|Chapter|Annex|Definitions)?", "[0-9]{0,3}( bis)?[.:]?")
        .prop_map(|(marks, word, number)| format!("{marks} {word} {number}\n"));
    let body = "([a-zà-ỹ ,.;()0-9-]{0,60}\n){0,3}";
    let fence = Just("```\n# no heading\n```\n".to_owned());
    let odd = Just("\u{feff}text\u{a0}\twith oddities\r\n".to_owned());
    let part = prop_oneof![5 => heading, 4 => body.boxed(), 1 => fence, 1 => odd];
    (prop::collection::vec(part, 1..25)).prop_map(|parts| format!("A beginning.\n{}", parts.join("\n")))
}

#[test]
fn plan_and_run_agree_on_every_digest() {
    let d = Deployment::new();
    let cases = if is_full() { 100 } else { 5 };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let n = std::cell::Cell::new(0);
    runner
        .run(&texts(), |text| {
            n.set(n.get() + 1);
            let document_id = format!("PROP-{}", n.get());
            d.register(&document_id, &text);
            let file = d.path(&format!("{document_id}.md"));
            let planned = plan(&file, &["--document-id", &document_id]).exits(0);
            assert_sound(&file, text.as_bytes(), &planned.json);
            let run_id = d.cut(&document_id);
            let ran = d.status(&run_id).exits(0);
            for (in_run, in_plan) in [
                ("/digests/manifest_digest", "/manifest_digest"),
                ("/digests/writer_digest", "/writer_digest"),
                ("/digests/region_sha", "/region/sha256"),
            ] {
                prop_assert_eq!(ran.text(in_run), planned.text(in_plan));
                prop_assert_eq!(ran.text(in_run).len(), 64);
            }
            Ok(())
        })
        .unwrap();
    assert!(n.get() >= cases);
}
