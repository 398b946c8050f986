//! `verify`, `recover` and `backup`: what they find, and what they refuse to guess.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::bench::{Bench, files, text};

fn edit(path: &Path, from: &str, to: &str) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{}", path.display());
    // in place, as an intruder would: the link count stays
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

fn failed(verified: &serde_json::Value) -> Vec<String> {
    let checks = verified["checks"].as_array().unwrap();
    let names =
        checks.iter().filter(|c| c["ok"] == false).map(|c| c["invariant"].as_str().unwrap().to_owned());
    names.collect()
}

fn document(bench: &Bench, id: &str, name: &str) -> std::path::PathBuf {
    let folder = bench.home.join("kb/knowledge/dev/laws").join(id.to_ascii_lowercase());
    files(&folder).into_iter().find(|p| p.to_string_lossy().contains(name)).unwrap()
}

#[test]
fn an_edited_document_is_found_with_and_without_the_runs_folder() {
    let bench = Bench::shared();
    let run = bench.finished("EDITED", &text(20));
    let alone = |folder: &str| {
        let mut command = bench.command();
        command.env("CUTTER_RUNS_DIR", folder);
        super::bench::ran(command.args(["verify", "--run-id", &run, "--json"]).output().unwrap())
    };
    let verified = alone("/nonexistent").expect(7).json();
    assert!(verified["not_checked"][0]["why"].as_str().unwrap().contains("folder is not here"), "{verified}");
    edit(&document(bench, "EDITED", "06-cut-leg-a"), "Cut", "cUt");
    // by its own digest, and by the documents that name it
    let others = ["verify.documents.agree", "verify.documents.say_pass", "verify.statement.documents"];
    let named = |name: &String| name.contains("06-cut-leg-a") || others.contains(&name.as_str());
    let verified = bench.run(&["verify", "--run-id", &run, "--json"]).expect(6).json();
    assert!(failed(&verified).iter().all(named), "{verified}");
    let verified = alone("/nonexistent").expect(6).json();
    assert!(failed(&verified).iter().all(named), "{verified}");
}

#[test]
fn an_edited_approval_is_found() {
    let bench = Bench::shared();
    let run = bench.finished("FORGED", &text(21));
    edit(&document(bench, "FORGED", "SG1-cut-authz-approval"), "decision: approve", "decision: reject!");
    let verified = bench.run(&["verify", "--run-id", &run, "--json"]).expect(6).json();
    let failed = failed(&verified);
    for what in ["unedited", "signature"] {
        assert!(failed.iter().any(|name| name.ends_with(what)), "{what}: {failed:?}");
    }
}

#[test]
fn a_broken_record_is_recovered_or_the_reason_is_given() {
    let bench = Bench::shared();
    let run = bench.parked("BROKEN", &text(22));
    let revisions = bench.run_folder(&run).join("rev");
    let highest = || {
        let number = |path: &std::path::PathBuf| {
            path.file_stem().unwrap().to_string_lossy().trim_start_matches('0').parse::<u64>().unwrap_or(0)
        };
        files(&revisions).into_iter().max_by_key(number).unwrap()
    };
    edit(&highest(), "\"BROKEN\"", "\"BROKEM\"");
    let status = bench.run(&["orchestrate", "status", "--run-id", &run]).expect(6);
    assert!(status.stderr.contains("recover"), "{}", status.stderr);
    bench.resume(&run).expect(6);
    let before = files(&revisions).len();
    bench.run(&["orchestrate", "recover", "--run-id", &run, "--dry-run"]).expect(0);
    assert_eq!(files(&revisions).len(), before);
    bench.run(&["orchestrate", "recover", "--run-id", &run]).expect(0);
    let resumed = bench.resume(&run).json();
    assert_eq!(resumed["state"], "awaiting_cut_authorization", "{resumed}");
    bench.approve(&run, "cut");
    assert_eq!(bench.resume(&run).expect(0).json()["state"], "awaiting_lifecycle_authorization");

    // without any record nothing is guessed
    let moved = bench.home.join("moved");
    std::fs::rename(bench.run_folder(&run), &moved).unwrap();
    let lost = bench.run(&["orchestrate", "recover", "--run-id", &run]).expect(6);
    assert!(lost.stderr.contains("cannot be rebuilt"), "{}", lost.stderr);
    assert!(!bench.run_folder(&run).exists());
    std::fs::rename(&moved, bench.run_folder(&run)).unwrap();
}

#[test]
fn a_lost_record_is_recovered_from_the_stop_report() {
    let bench = Bench::shared();
    let run = bench.parked("LOST", &text(23));
    bench.run(&["orchestrate", "stop", "--run-id", &run, "--reason", "moving house"]).expect(0);
    std::fs::remove_dir_all(bench.run_folder(&run)).unwrap();
    bench.run(&["orchestrate", "status", "--run-id", &run]).expect(66);
    let recovered = bench.run(&["orchestrate", "recover", "--run-id", &run, "--json"]).expect(0).json();
    assert!(recovered["from"].as_str().unwrap().contains("stop-route-report-1-"), "{recovered}");
    assert_eq!(bench.status(&run)["state"], "stopped_moving_house");
}

#[test]
fn a_backup_is_inspected_and_restored_into_a_scratch_database_only() {
    let bench = Bench::shared();
    let run = bench.parked("SAVED", &text(24));
    bench.run(&["backup", "inspect", "--run-id", &run]).expect(0);
    let key = bench.home.join("keys/backup.secret.asc");
    let inspect = ["backup", "inspect", "--run-id", &run, "--key", key.to_str().unwrap(), "--json"];
    let inspected = bench.run(&inspect).expect(0).json();
    assert_eq!(inspected["archive"]["complete"], true);
    assert_eq!(inspected["plaintext_matches"], true);
    let restore = ["backup", "restore", "--run-id", &run, "--into", "scratch_saved", "--json"];
    let restored = bench.run(&restore).expect(0).json();
    assert_eq!(restored["base_state_sha"], bench.status(&run)["digests"]["base_state_sha"]);
    bench.run(&restore).expect(2);
    bench.run(&["backup", "restore", "--run-id", &run, "--into", "cutter"]).expect(2);
    let blob = bench.run_folder(&run).join(inspected["recorded"]["blob"]["name"].as_str().unwrap());
    let mut bytes = std::fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::set_permissions(&blob, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&blob, &bytes).unwrap();
    bench.run(&["backup", "inspect", "--run-id", &run]).expect(6);
    bench.run(&["backup", "restore", "--run-id", &run, "--into", "scratch_other"]).expect(6);
    // of another length: that is what is said
    let recorded = bytes.len();
    for length in [recorded - 1, recorded + 1, 0] {
        bytes.resize(length, 0);
        std::fs::write(&blob, &bytes).unwrap();
        let told = bench.run(&["backup", "inspect", "--run-id", &run]).expect(6);
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(text.contains(&format!("expected {recorded} bytes, observed {length}")), "{text}");
        for command in [&inspect, &restore] {
            let refused = bench.run(command).expect(6).json();
            let rule = &refused["error"]["invariants"][0];
            let (expected, observed) = (recorded.to_string(), length.to_string());
            assert_eq!(rule["expected"], expected, "{refused}");
            assert_eq!(rule["observed"], observed, "{refused}");
        }
    }
    assert!(!files(&bench.home).iter().any(|p| p.to_string_lossy().ends_with(".tmp")));
}

#[test]
fn an_outsider_verifies_with_documents_public_keys_and_a_reading_login() {
    let bench = Bench::shared();
    let run = bench.finished("OUTSIDE", &text(25));
    let outside = tempfile::tempdir().unwrap();
    let keys = outside.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    for path in files(&bench.home.join("keys")) {
        if path.to_string_lossy().contains("public") {
            std::fs::copy(&path, keys.join(path.file_name().unwrap())).unwrap();
        }
    }
    std::fs::copy(bench.home.join("cutter.toml"), outside.path().join("cutter.toml")).unwrap();
    let secrets = std::fs::read(bench.home.join("pg-secrets.json")).unwrap();
    let secrets: serde_json::Value = serde_json::from_slice(&secrets).unwrap();
    let started = bench.run(&["db", "start", "--json"]).expect(0).json();
    let dsn = format!(
        "host={} port={} user=cutter_ro dbname=cutter password={}",
        started["socket_dir"].as_str().unwrap(),
        started["port"],
        secrets["logins"]["cutter_ro"].as_str().unwrap()
    );
    let verify = || {
        let mut command = bench.command();
        command.env("CUTTER_HOME", outside.path()).env("CUTTER_KB_DIR", bench.home.join("kb"));
        command.env("CUTTER_DSN_READER", &dsn);
        super::bench::ran(command.args(["verify", "--run-id", &run, "--json"]).output().unwrap())
    };
    let verified = verify().expect(7).json();
    let names: Vec<&str> =
        verified["checks"].as_array().unwrap().iter().map(|c| c["invariant"].as_str().unwrap()).collect();
    for name in [
        "verify.units.rejoin_to_region",
        "verify.signature.executor.key_pinned",
        "verify.signature.verifier_covers_executor",
        "verify.approval.SG_cut_authz.1.signature",
        "verify.effect.enact",
        "verify.index.line",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    // the record, the report that nothing names, and who created the run that others had to approve, twice
    let open: Vec<&str> =
        verified["not_checked"].as_array().unwrap().iter().map(|i| i["item"].as_str().unwrap()).collect();
    assert_eq!(open.len(), 4, "{open:?}");
    assert!(open[0].starts_with("the record") && open[1].contains("11-final"), "{open:?}");
    assert!(open[2..].iter().all(|item| item.ends_with("not_the_creator")), "{open:?}");
    // another executor's key is not the pinned one
    std::fs::write(keys.join("executor.public"), "00".repeat(32)).unwrap();
    let verified = verify().expect(6).json();
    let pinned = ["verify.statement.executor.key_pinned", "verify.signature.executor.key_pinned"];
    assert_eq!(failed(&verified), pinned);
}
