//! What `db check` and `doctor` say of a damaged schema, a wrong connection and open files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;

use cutter_pg::login::Login;
use cutter_tests::cli::Deployment;

fn mode(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_damaged_schema_is_named_by_check_and_doctor_until_it_is_mended() {
    let d = Deployment::new();
    let _ = d.run(&["db", "check"]).exits(0);
    for (damage, repair, named) in [
        (
            "ALTER TABLE cutter_governance.run_effect DISABLE TRIGGER trg_append_only",
            "ALTER TABLE cutter_governance.run_effect ENABLE TRIGGER trg_append_only",
            "trigger cutter_governance.run_effect.trg_append_only: enabled: expected O, observed D",
        ),
        (
            "ALTER TABLE cutter_governance.review_approval ADD COLUMN mine text",
            "ALTER TABLE cutter_governance.review_approval DROP COLUMN mine",
            "column cutter_governance.review_approval.mine is none that cutter made",
        ),
    ] {
        d.database.client(Login::Admin).batch_execute(damage).unwrap();
        let checked = d.run(&["db", "check"]);
        assert!(checked.code != Some(0) && checked.stdout.contains(named), "{}", checked.stdout);
        let told = d.run(&["doctor"]);
        assert!(told.code == Some(3) && told.stdout.contains(named), "{}", told.stdout);
        d.database.client(Login::Admin).batch_execute(repair).unwrap();
        let _ = d.run(&["db", "check"]).exits(0);
    }
}

#[test]
fn what_stands_around_the_schema_is_named_with_what_undoes_it() {
    let d = Deployment::new();
    let mut admin = d.database.client(Login::Admin);
    let name: String = admin.query_one("SELECT current_database()::text", &[]).unwrap().get(0);
    admin.batch_execute(&format!("ALTER DATABASE {name} SET session_replication_role = replica")).unwrap();
    let said = "setting session_replication_role of this database: expected none, observed replica";
    let undo = format!("ALTER DATABASE {name} RESET session_replication_role");
    let people = d.people(&["db", "check"]);
    assert!(people.code != Some(0) && people.stdout.contains(&format!("undo: {undo}")), "{}", people.stdout);
    let told = d.run(&["doctor"]);
    assert!(told.code == Some(3) && told.stdout.contains(said), "{}", told.stdout);
    for checked in [d.run(&["db", "check"]), d.by_admin(&["db", "check"])] {
        assert!(checked.code != Some(0) && checked.stdout.contains(said), "{}", checked.stdout);
        assert_eq!(checked.json["undo"], serde_json::json!([undo]), "{}", checked.stdout);
    }
    admin.batch_execute(&undo).unwrap();
    // What a service may have of its own is said and no more.
    admin.batch_execute("CREATE PUBLICATION of_the_service FOR ALL TABLES").unwrap();
    let checked = d.by_admin(&["db", "check"]).exits(0);
    let notes = checked.json["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note.as_str().unwrap().contains("publication of_the_service")),
        "{notes:?}"
    );
    let told = d.run(&["doctor"]).exits(0);
    assert!(told.stdout.contains("publication of_the_service"), "{}", told.stdout);
    // Whoever sees less says so.
    let checked = d.run(&["db", "check"]).exits(0);
    assert!(checked.stdout.contains("not looked at: "), "{}", checked.stdout);
}

#[test]
fn the_seed_counts_and_a_public_key_beside_it_that_is_another_is_named() {
    let d = Deployment::new();
    let (public, other) = (d.path("keys/executor.public"), "ab".repeat(32));
    let key = std::fs::read_to_string(&public).unwrap().trim().to_owned();
    std::fs::write(&public, &other).unwrap();
    let told = d.run(&["doctor"]);
    assert!(
        told.code == Some(3) && told.stdout.contains(&key) && told.stdout.contains(&other),
        "{}",
        told.stdout
    );
    let listed = d.run(&["duty-key", "list"]).exits(0);
    assert_eq!(
        (listed.text("/keys/0/here"), listed.json["keys"][0]["signs"].as_bool()),
        (key.as_str(), Some(true))
    );
    assert!(listed.text("/keys/0/public_file/fix").starts_with("rm "), "{}", listed.stdout);
    let people = d.people(&["doctor"]).stdout;
    let fixes = people.lines().filter_map(|line| line.split_once("fix: ").map(|(_, fix)| fix));
    let fix = fixes.into_iter().find(|fix| fix.starts_with("rm ")).unwrap_or_else(|| panic!("{people}"));
    let rotated = d.by_admin(&["duty-key", "rotate", "executor"]);
    assert!(rotated.stderr.contains(&other) && !rotated.stdout.contains(&other), "{}", rotated.stderr);
    // The fix, as it is printed.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", fix]).env("PATH", path_with_the_program());
    assert!(shell.output().unwrap().status.success(), "{fix}");
    assert_eq!(std::fs::read_to_string(&public).unwrap().trim(), key);
    let _ = d.run(&["doctor"]).exits(0);
}

/// The search path, with the program under test first.
fn path_with_the_program() -> std::ffi::OsString {
    let folder = cutter_tests::cli::binary().parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&others))).unwrap()
}

#[test]
fn doctor_tries_every_login_and_looks_at_the_modes_of_files() {
    let d = Deployment::new();
    let verifier = d.database.connection_string(Login::Verify);
    let elsewhere = cutter_pg::testing::TestServer::shared().fresh_database();
    for (variable, value, said) in [
        ("CUTTER_DSN_EXECUTOR", verifier, "expected a connection as cutter_exec, observed cutter_verify"),
        ("CUTTER_DSN_EXECUTOR", elsewhere.connection_string(Login::Exec), "expected one database"),
        (
            "CUTTER_DSN_REVIEWER",
            "host=/nowhere user=cutter_review dbname=x".to_owned(),
            "login cutter_review",
        ),
    ] {
        let mut command = d.command(&["doctor"]);
        command.env(variable, value);
        let told = cutter_tests::cli::finish(command);
        assert!(told.code == Some(3) && told.stdout.contains(said), "{said}: {}", told.stdout);
    }
    std::fs::write(d.path("pg-secrets.json"), "{}").unwrap();
    mode(&d.path("pg-secrets.json"), 0o600);
    for (file, open, closed) in [
        ("cutter.toml", 0o666, 0o600),
        ("keys/executor.seed", 0o644, 0o600),
        ("keys/verifier.seed", 0o620, 0o600),
        ("pg-secrets.json", 0o640, 0o600),
    ] {
        mode(&d.path(file), open);
        let told = d.run(&["doctor"]);
        assert!(told.code == Some(3) && told.stdout.contains("by others"), "{file}: {}", told.stdout);
        mode(&d.path(file), closed);
        assert!(!d.run(&["doctor"]).stdout.contains("by others"), "{file}");
    }
}
