//! No space where the run must write. A real limit of the operating system (`ulimit -f`, the
//! largest file that the process may write) hits the sidecar, the backup or a document; nothing
//! is left half-written, and the run goes on once there is space.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use cutter_core::record::sidecar::Sidecar;
use cutter_tests::cli::{Deployment, Ran, UNITS, finish, law};

/// Limits in blocks of 512 bytes: below any record, within the sidecar's growth, within the
/// backup; the last two let everything through.
const LIMITS: [u32; 10] = [0, 2, 6, 12, 24, 36, 42, 48, 70, 4000];

fn limited(d: &Deployment, blocks: u32, arguments: &[&str]) -> Ran {
    finish(d.command_with_file_limit(blocks, arguments))
}

/// Every file is whole: revisions read back, the mirror is the highest of them, no temporary
/// file stands anywhere, documents end with a line.
fn assert_nothing_half_written(d: &Deployment) {
    for (path, bytes) in d.files("runs").into_iter().chain(d.files("kb")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let shown = path.display();
        assert!(!name.starts_with(".tmp-"), "{shown} is left");
        if path.to_str().unwrap().contains("/rev/") {
            Sidecar::from_bytes(&bytes).unwrap_or_else(|error| panic!("{shown}: {error}"));
        } else if name == "state.json" {
            let rev = path.parent().unwrap().join("rev");
            let highest = std::fs::read_dir(&rev)
                .unwrap()
                .map(|e| e.unwrap().file_name())
                .max_by_key(|n| n.to_str().unwrap().trim_end_matches(".json").parse::<u64>().unwrap());
            let newest = std::fs::read(rev.join(highest.unwrap())).unwrap();
            let revisions: BTreeSet<Vec<u8>> =
                std::fs::read_dir(&rev).unwrap().map(|e| std::fs::read(e.unwrap().path()).unwrap()).collect();
            // the mirror follows the revision, and is set right under the next lock
            assert!(bytes == newest || revisions.contains(&bytes), "{shown} is no revision");
        } else if path.extension().is_some_and(|e| e == "md") {
            assert_eq!(bytes.last(), Some(&b'\n'), "{shown} is cut short");
        }
    }
}

fn assert_full(ran: Ran, blocks: u32) {
    assert_eq!(ran.code, Some(3), "{blocks} blocks: {}\n{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stop_code(), "STOP_DISK_FULL", "{blocks} blocks: {}", ran.stdout);
}

#[test]
fn a_full_disk_stops_the_run_whole_and_it_goes_on_when_there_is_space() {
    let d = Deployment::new();
    let text = law(40, "the disk");
    d.register("LAW-FREE", &text);
    let before = d.counts();
    let _ = d.whole_run("LAW-FREE");
    let (added, units) = (d.added_since(&before), d.texts(UNITS, &[&"LAW-FREE"]));

    d.register("LAW-FULL", &text);
    let before = d.counts();
    let (mut stops, mut run_id) = (0, String::new());
    // to the first gate, with ever more space
    for blocks in LIMITS {
        let ran = if run_id.is_empty() {
            limited(&d, blocks, &["orchestrate", "cut", "--document-id", "LAW-FULL"])
        } else {
            limited(&d, blocks, &["orchestrate", "resume", "--run-id", &run_id])
        };
        assert_nothing_half_written(&d);
        let list = d.run(&["orchestrate", "list"]).exits(0).json;
        let runs = list.pointer("/runs").and_then(serde_json::Value::as_array).unwrap();
        let of = |run: &&serde_json::Value| {
            run["document_id"] == "LAW-FULL" && !run["state"].as_str().unwrap().starts_with("voided")
        };
        if let Some(run) = runs.iter().find(of) {
            run_id = run["run_id"].as_str().unwrap().to_owned();
        }
        if ran.state() == "awaiting_cut_authorization" {
            break;
        }
        assert_full(ran, blocks);
        stops += 1;
    }
    assert!(stops >= 4, "{stops} limits were hit");
    assert_eq!(d.status(&run_id).exits(0).state(), "awaiting_cut_authorization");

    // and through both gates to the end, the sidecar being the largest file now
    for what in ["cut", "lifecycle"] {
        d.approve(&run_id, what);
        let mut was_full = 0;
        for blocks in LIMITS {
            let ran = limited(&d, blocks, &["orchestrate", "resume", "--run-id", &run_id]);
            assert_nothing_half_written(&d);
            if ran.code == Some(0) {
                break;
            }
            assert_full(ran, blocks);
            was_full += 1;
        }
        assert!(was_full >= 3, "{what}: {was_full} limits were hit");
    }
    d.finish_run(&run_id);
    assert_eq!(d.added_since(&before), added, "rows are missing or doubled");
    assert_eq!(d.texts(UNITS, &[&"LAW-FULL"]), units);
    d.verify(&run_id);
}
