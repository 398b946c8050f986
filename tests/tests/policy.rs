//! Who may approve, by the command line: the operator's ways around the policy are refused, and the
//! administrator's commands keep it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use cutter_core::record::approval::render_approval;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::report::asks_of_document;
use cutter_pg::login::Login;
use cutter_tests::attack::edited;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN, law};
use serde_json::{Value, json};

/// The operator's wish: his own key, and no signature needed.
fn loosened(value: &mut Value) {
    value["settings"]["approval"] = json!({
        "signature": "optional", "approver_not_creator": false,
        "approvers": [{ "actor": "op", "fingerprint": value["creation"]["fingerprint"] }],
    });
}

/// Files an unsigned approval of what the run asks, in the sovereign's name.
fn file_unsigned(d: &Deployment, run_id: &str) {
    let status = d.status(run_id).exits(0);
    let at = status.text("/paused_at/request_kb_id").to_owned();
    let request = std::fs::read_to_string(d.path("kb").join(&at)).unwrap();
    let ask = asks_of_document(&request, &at).remove(0);
    let now = jiff::Timestamp::now();
    let text = render_approval(&ask, ReviewVerdict::Approve, SOVEREIGN, now, None, &BTreeMap::new());
    std::fs::write(d.path("kb").join(ask.approval_path), text).unwrap();
}

fn enacted(d: &Deployment) -> i64 {
    let sql = "SELECT count(*) FROM iu_core.information_unit";
    d.database.client(Login::Admin).query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn a_record_with_loosened_settings_enacts_nothing() {
    let d = Deployment::new();
    d.register("LAW-LOOSE", &law(3, "the record"));
    let run_id = d.cut("LAW-LOOSE");
    let path = d.newest_record(&run_id);
    let whole = std::fs::read(&path).unwrap();
    file_unsigned(&d, &run_id);
    std::fs::write(&path, edited(&whole, loosened)).unwrap();
    for command in ["resume", "status", "stop"] {
        let mut arguments = vec!["orchestrate", command, "--run-id", &run_id];
        if command == "stop" {
            arguments.extend(["--reason", "hold"]);
        }
        let ran = d.run(&arguments);
        if command == "status" {
            continue; // it shows what is written there, and acts on nothing
        }
        let ran = ran.exits(6);
        assert_eq!(ran.stop_code(), "STOP_STATE_CORRUPT", "{}", ran.stdout);
        assert!(ran.stderr.contains("the settings"), "{}", ran.stderr);
        assert!(ran.text("/error/next/0").contains("orchestrate recover"), "{}", ran.stdout);
    }
    assert_eq!(enacted(&d), 0);
    // what it says works: the record before it is taken, and the unsigned answer counts for nothing
    let ran = d.run(&["orchestrate", "recover", "--run-id", &run_id]).exits(0);
    assert_eq!(ran.json["recovered"], true, "{}", ran.stdout);
    let ran = d.resume(&run_id);
    assert_eq!(ran.state(), "awaiting_cut_authorization", "{}", ran.stdout);
    assert!(ran.stdout.contains("approval.signature"), "{}", ran.stdout);
    assert_eq!(enacted(&d), 0);
}

#[test]
fn what_cutter_toml_says_of_approvals_decides_nothing() {
    let d = Deployment::new();
    d.register("LAW-TOML", &law(3, "the file"));
    d.append_config("\n[approval]\nsignatures = \"optional\"\ncreator_may_approve = true\n");
    let run_id = d.cut("LAW-TOML");
    file_unsigned(&d, &run_id);
    let ran = d.resume(&run_id);
    assert_eq!(ran.state(), "awaiting_cut_authorization", "{}", ran.stdout);
    assert!(ran.stdout.contains("approval.signature"), "{}", ran.stdout);
    // and importing it says what differs, and changes nothing
    let ran = d.by_admin(&["approver", "import"]).exits(6);
    assert_eq!(ran.json["differs"].as_array().unwrap().len(), 2, "{}", ran.stdout);
    d.finish_run(&run_id);
    d.verify(&run_id);
}

#[test]
fn the_executors_login_publishes_no_altered_record() {
    let d = Deployment::new();
    let path = d.path("cutter.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("runs = \"pg\"\n{text}")).unwrap();
    d.register("LAW-PSQL", &law(3, "the login"));
    let run_id = d.cut("LAW-PSQL");
    file_unsigned(&d, &run_id);
    let mut exec = d.database.client(Login::Exec);
    let newest = "SELECT max(revision) FROM cutter_run.revision WHERE run_id = $1";
    let revision: i64 = exec.query_one(newest, &[&run_id]).unwrap().get(0);
    let body: Vec<u8> =
        exec.query_one("SELECT cutter_run.fn_run_text($1, $2)", &[&run_id, &revision]).unwrap().get(0);
    let altered = edited(&body, |value| {
        loosened(value);
        value["revision"] = json!(revision + 1);
    });
    let publish = "SELECT cutter_run.fn_run_publish($1, $2, $3, NULL, $4, NULL, 1000, true)";
    let length = i32::try_from(altered.len()).unwrap();
    let error = exec.query_one(publish, &[&run_id, &revision, &altered, &length]).unwrap_err();
    let said = error.as_db_error().unwrap().message().to_owned();
    assert!(said.contains("expected settings"), "{said}");
    // past the function's eyes, as a superuser could: the driver refuses it all the same
    let mut admin = d.database.client(Login::Admin);
    admin.batch_execute("SET session_replication_role = replica").unwrap();
    admin
        .execute(
            "INSERT INTO cutter_run.revision (run_id, revision, body) VALUES ($1, $2, $3)",
            &[&run_id, &(revision + 1), &altered],
        )
        .unwrap();
    let ran = d.resume(&run_id).exits(6);
    assert_eq!(ran.stop_code(), "STOP_STATE_CORRUPT", "{}", ran.stdout);
    assert_eq!(enacted(&d), 0);
}

fn appended(ran: Ran) -> u64 {
    ran.exits(0).json["seq"].as_u64().unwrap()
}

#[test]
fn approvers_come_and_go_by_the_administrators_commands() {
    let d = Deployment::new();
    let ada = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let (ada, other) = (ada.to_str().unwrap(), Deployment::new());
    let bob = other.path(&format!("keys/{SOVEREIGN}.public.asc"));
    let bob_secret = other.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let (bob, bob_secret) = (bob.to_str().unwrap(), bob_secret.to_str().unwrap());
    // without the administrator's connection nobody writes
    assert_ne!(d.run(&["approver", "add", "bob", "--public-key", bob, "--key", ada]).code, Some(0));
    // the text to sign, signed elsewhere
    let printed = d.by_admin(&["approver", "add", "bob", "--public-key", bob]).exits(0);
    assert!(printed.text("/to_sign").contains("change: approver_added openpgp"), "{}", printed.stdout);
    assert_eq!(d.run(&["policy", "show"]).exits(0).json["approvers"], json!([SOVEREIGN]));
    // a stranger's signature is refused before anything is written
    let forged = d.by_admin(&["approver", "add", "bob", "--public-key", bob, "--key", bob_secret]);
    assert_ne!(forged.code, Some(0), "{}", forged.stdout);
    assert_eq!(appended(d.by_admin(&["approver", "add", "bob", "--public-key", bob, "--key", ada])), 2);
    assert_eq!(d.run(&["policy", "show"]).exits(0).json["approvers"], json!([SOVEREIGN, "bob"]));
    assert_eq!(appended(d.by_admin(&["approver", "retire", SOVEREIGN, "--key", bob_secret])), 3);
    let ran = d.by_admin(&["policy", "set", "--answers-valid-hours", "24", "--key", ada]);
    assert_ne!(ran.code, Some(0), "the retired one changes nothing: {}", ran.stdout);
    // the administrator's own word is a new founding, and everybody is told
    let rules = ["policy", "set", "--creator", "may-approve", "--without-signature"];
    assert_eq!(appended(d.by_admin(&rules)), 4);
    let shown = d.run(&["policy", "show"]).exits(0);
    assert!(shown.text("/notices/0").contains("new founding"), "{}", shown.stdout);
    let doctor = d.run(&["doctor"]);
    assert!(doctor.stdout.contains("new founding"), "{}", doctor.stdout);
    let listed = d.run(&["approver", "list"]).exits(0);
    assert_eq!(listed.json["keys"].as_array().unwrap().len(), 3, "two approvers and the operator");
}

#[test]
fn a_rotated_key_signs_and_what_the_one_before_signed_still_verifies() {
    let d = Deployment::new();
    d.register("LAW-OLD", &law(3, "the keys"));
    d.register("LAW-KEYS", &law(3, "the keys"));
    let old = d.whole_run("LAW-OLD");
    let run_id = d.cut("LAW-KEYS");
    d.approve(&run_id, "cut");
    for file in ["keys/executor.seed", "keys/executor.public", "keys/verifier.seed", "keys/verifier.public"] {
        std::fs::remove_file(d.path(file)).unwrap();
    }
    let _ = d.run(&["init", "--no-database"]).exits(0);
    let ran = d.resume(&run_id);
    assert_eq!(ran.stop_code(), "STOP_DUTY_KEY", "{}", ran.stdout);
    assert_eq!(enacted(&d), 4, "the old run's alone");
    let ada = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    for duty in ["executor", "verifier"] {
        let _ = appended(d.by_admin(&["duty-key", "rotate", duty, "--key", ada.to_str().unwrap()]));
    }
    d.finish_run(&run_id);
    d.verify(&run_id);
    d.verify(&old);
}

/// A program, run in a home.
type Program<'a> = &'a dyn Fn(&[&str]) -> (Option<i32>, Value);

/// Runs the program of before (`CUTTER_BEFORE`) or this one in a private home.
fn private(binary: &std::path::Path, home: &std::path::Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = std::process::Command::new(binary);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CUTTER_")) {
        command.env_remove(name);
    }
    command.env("USER", "op").arg("--home").arg(home).args(["--json", "--no-progress"]).args(arguments);
    let out = command.output().unwrap();
    (out.status.code(), serde_json::from_slice(&out.stdout).unwrap_or(Value::Null))
}

#[test]
fn a_home_of_before_migrates_is_imported_and_goes_on() {
    let Some(before) = std::env::var_os("CUTTER_BEFORE").map(PathBuf::from) else {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "a home of before: SKIPPED, CUTTER_BEFORE names no program");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let old = |arguments: &[&str]| private(&before, &home, arguments);
    let new = |arguments: &[&str]| private(cutter_tests::cli::binary(), &home, arguments);
    assert_eq!(old(&["init", "--sovereign", SOVEREIGN]).0, Some(0));
    let file = folder.path().join("law.md");
    std::fs::write(&file, law(3, "before")).unwrap();
    let cut = |document: &str| {
        assert_eq!(old(&["source", "add", file.to_str().unwrap(), "--document-id", document]).0, Some(0));
        old(&["orchestrate", "cut", "--document-id", document]).1["run_id"].as_str().unwrap().to_owned()
    };
    let approve = |by: Program<'_>, run: &str, what: &str| {
        assert_eq!(
            by(&["sovereign", "approve", "--yes", "--run-id", run, "--for", what]).0,
            Some(0),
            "{what}"
        );
        let (_, resumed) = by(&["orchestrate", "resume", "--run-id", run]);
        resumed["state"].as_str().unwrap_or_default().to_owned()
    };
    let (finished, at_sg1, at_sg2) = (cut("DONE"), cut("FIRST"), cut("SECOND"));
    approve(&old, &finished, "cut");
    assert_eq!(approve(&old, &finished, "lifecycle"), "closeout_reported");
    assert_eq!(approve(&old, &at_sg2, "cut"), "awaiting_lifecycle_authorization");
    let (code, migrated) = new(&["db", "migrate"]);
    assert_eq!(code, Some(0), "{migrated}");
    assert!(migrated["founded"].as_str().unwrap().contains(SOVEREIGN), "{migrated}");
    for (run, gates) in [(&at_sg1, &["cut", "lifecycle"][..]), (&at_sg2, &["lifecycle"])] {
        // what it asked named neither settings nor policy: it is asked once more
        let (_, asked) = new(&["orchestrate", "resume", "--run-id", run]);
        assert!(asked["state"].as_str().unwrap().starts_with("awaiting_"), "{asked}");
        let states: Vec<String> = gates.iter().map(|gate| approve(&new, run, gate)).collect();
        assert_eq!(states.last().map(String::as_str), Some("closeout_reported"), "{run}");
    }
    for run in [&finished, &at_sg1, &at_sg2] {
        let (code, verified) = new(&["verify", "--run-id", run]);
        assert_eq!(code, Some(0), "{verified}");
    }
    assert_eq!(new(&["db", "stop"]).0, Some(0));
}
