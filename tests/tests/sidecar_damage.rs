//! A run's record that is truncated, bit-flipped, lost, or written by a newer version: every
//! command refuses it with its exit code and the next command; `recover` rebuilds it from what
//! the store, the knowledge base and the database hold, or says what is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use cutter_tests::cli::{Deployment, UNITS, law};
use serde_json::Value;

type Damage = fn(&mut Vec<u8>);

const DAMAGES: &[(&str, Damage)] = &[
    ("truncated", |bytes| bytes.truncate(bytes.len() / 2)),
    ("emptied", Vec::clear),
    ("bytes lost at the end", |bytes| bytes.truncate(bytes.len() - 2)),
    ("NUL bytes", |bytes| {
        let from = bytes.len() - 4096.min(bytes.len());
        bytes[from..].fill(0);
    }),
    ("a bit flipped", |bytes| {
        let at = bytes.len() / 3;
        bytes[at] ^= 1;
    }),
];

fn newest(d: &Deployment, run_id: &str) -> PathBuf {
    let rev = d.run_folder(run_id).join("rev");
    let number = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    std::fs::read_dir(rev).unwrap().map(|e| e.unwrap().path()).max_by_key(number).unwrap()
}

fn damage(d: &Deployment, run_id: &str, how: Damage) {
    let path = newest(d, run_id);
    let mut bytes = std::fs::read(&path).unwrap();
    how(&mut bytes);
    // in place: the mirror is another name of the same file
    std::fs::write(path, bytes).unwrap();
}

/// Every command that needs the record refuses it, changes nothing, and says what is next.
fn assert_refused(d: &Deployment, run_id: &str, what: &str, (exit, code, next): (i32, &str, &str)) {
    let (runs, kb, rows) = (d.files(&format!("runs/{run_id}/rev")), d.files("kb"), d.counts());
    for command in ["resume", "status", "stop"] {
        let mut arguments = vec!["orchestrate", command, "--run-id", run_id];
        if command == "stop" {
            arguments.extend(["--reason", "hold"]);
        }
        let ran = d.run(&arguments);
        if command == "stop" && ran.code == Some(0) {
            continue; // a request is left for whoever drives; it needs no record
        }
        let ran = ran.exits(exit);
        assert_eq!(ran.stop_code(), code, "{what}: {command}: {}", ran.stdout);
        let said = ran.text("/error/next/0");
        assert!(said.contains(next), "{what}: {command}: next is {said:?}");
        assert!(ran.stderr.contains(next), "{what}: {command}: people are told, too: {}", ran.stderr);
    }
    assert_eq!(d.files(&format!("runs/{run_id}/rev")), runs, "{what}");
    assert_eq!(d.files("kb"), kb, "{what}");
    assert_eq!(d.counts(), rows, "{what}");
}

const CORRUPT: (i32, &str, &str) = (6, "STOP_STATE_CORRUPT", "orchestrate recover");

#[test]
fn a_broken_record_is_refused_and_recovered_from_the_revision_before_it() {
    let d = Deployment::new();
    let text = law(4, "the damage");
    d.register("LAW-0000", &text);
    let before = d.counts();
    let _ = d.whole_run("LAW-0000");
    let (added, units) = (d.added_since(&before), d.texts(UNITS, &[&"LAW-0000"]));
    for (n, (what, how)) in DAMAGES.iter().enumerate() {
        let document_id = format!("LAW-{:04}", n + 1);
        d.register(&document_id, &text);
        let before = d.counts();
        let run_id = d.cut(&document_id);
        let recover = ["orchestrate", "recover", "--run-id", &run_id];
        // at either gate
        for gate in ["cut", "lifecycle"] {
            damage(&d, &run_id, *how);
            assert_refused(&d, &run_id, what, CORRUPT);
            let dry = d.run(&["orchestrate", "recover", "--dry-run", "--run-id", &run_id]).exits(0);
            assert_eq!(dry.json["recovered"], false);
            assert_refused(&d, &run_id, what, CORRUPT);
            let ran = d.run(&recover).exits(0);
            assert_eq!(ran.json["recovered"], true, "{what}: {}", ran.stdout);
            assert!(ran.text("/from").starts_with("revision "), "{}", ran.stdout);
            assert!(ran.stderr.contains("resume") || ran.stdout.contains("resume") || !ran.stdout.is_empty());
            // a whole record is left alone
            assert_eq!(d.run(&recover).exits(0).json["recovered"], false);
            let ran = d.resume(&run_id);
            assert!(ran.state().starts_with("awaiting_"), "{what}: {}", ran.stdout);
            d.approve(&run_id, gate);
            let _ = d.resume(&run_id).exits(0);
        }
        assert_eq!(d.status(&run_id).exits(0).state(), "closeout_reported", "{what}");
        assert_eq!(d.added_since(&before), added, "{what}: rows are missing or doubled");
        assert_eq!(d.texts(UNITS, &[&document_id]), units, "{what}");
    }
}

#[test]
fn a_bit_flipped_anywhere_is_found() {
    let d = Deployment::new();
    d.register("LAW-FLIP", &law(3, "the bits"));
    let run_id = d.cut("LAW-FLIP");
    let path = newest(&d, &run_id);
    let whole = std::fs::read(&path).unwrap();
    let steps = if cutter_tests::cli::is_full() { 97 } else { 11 };
    for n in 0..steps {
        let mut bytes = whole.clone();
        let at = (bytes.len() - 1) * n / steps;
        bytes[at] ^= 1 << (n % 8);
        std::fs::write(&path, &bytes).unwrap();
        let ran = d.status(&run_id);
        assert_eq!(ran.code, Some(6), "byte {at}, bit {}: {}", n % 8, ran.stdout);
    }
    std::fs::write(&path, &whole).unwrap();
    d.finish_run(&run_id);
}

#[test]
fn a_record_of_a_newer_version_is_refused_and_never_replaced_by_an_older_one() {
    let d = Deployment::new();
    d.register("LAW-NEW", &law(3, "the future"));
    let run_id = d.cut("LAW-NEW");
    let path = newest(&d, &run_id);
    let whole = std::fs::read(&path).unwrap();
    let mut value: Value = serde_json::from_slice(&whole).unwrap();
    let version = value["schema_version"].as_u64().unwrap() + 1;
    value["schema_version"] = version.into();
    value["a_field_of_the_future"] = "x".into();
    std::fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
    assert_refused(&d, &run_id, "newer", (3, "STOP_STATE_NEWER", "cutter"));
    let before = d.files(&format!("runs/{run_id}/rev"));
    let ran = d.run(&["orchestrate", "recover", "--run-id", &run_id]).exits(3);
    assert_eq!(ran.stop_code(), "STOP_STATE_NEWER", "{}", ran.stdout);
    assert!(ran.text("/error/message").contains(&version.to_string()), "{}", ran.stdout);
    assert_eq!(d.files(&format!("runs/{run_id}/rev")), before);
    // the newer program's own again
    std::fs::write(&path, whole).unwrap();
    d.finish_run(&run_id);
}

/// Everything that the record was kept in is gone; the backup beside it is not.
fn lose(d: &Deployment, run_id: &str) {
    let folder = d.run_folder(run_id);
    std::fs::remove_dir_all(folder.join("rev")).unwrap();
    std::fs::remove_file(folder.join("state.json")).unwrap();
}

#[test]
fn a_lost_record_is_rebuilt_from_the_report_of_its_stop_or_what_is_missing_is_said() {
    let d = Deployment::new();
    let text = law(3, "the loss");
    d.register("LAW-LOST", &text);
    let run_id = d.cut("LAW-LOST");
    lose(&d, &run_id);
    assert_refused(&d, &run_id, "lost", (66, "STOP_RUN_NOT_FOUND", "cutter"));
    let ran = d.run(&["orchestrate", "recover", "--run-id", &run_id]).exits(6);
    for missing in ["a readable revision under rev/", "signed creation record", "mark", "sweep"] {
        assert!(ran.stdout.contains(missing), "{missing}: {}", ran.stdout);
    }
    assert!(ran.text("/error/next/0").contains(&run_id));

    d.register("LAW-STOP", &text);
    let run_id = d.cut("LAW-STOP");
    d.approve(&run_id, "cut");
    d.tamper("ALTER FUNCTION iu_core.fn_iu_create SET work_mem = '8MB'");
    let _ = d.resume(&run_id).exits(3);
    lose(&d, &run_id);
    let ran = d.run(&["orchestrate", "recover", "--run-id", &run_id]).exits(0);
    assert!(ran.text("/from").contains("knowledge/"), "{}", ran.stdout);
    assert_eq!(ran.text("/state"), "stopped_drift");
    d.finish_run(&run_id);
    let sql = "SELECT count(*)::text FROM iu_core.information_unit
               WHERE document_id = 'LAW-STOP' AND lifecycle_status = 'enacted'";
    assert_eq!(d.texts(sql, &[]), ["4"]);
}
