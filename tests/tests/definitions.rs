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
    for (file, open, closed) in [("cutter.toml", 0o666, 0o600), ("keys/executor.seed", 0o644, 0o600)] {
        mode(&d.path(file), open);
        let told = d.run(&["doctor"]);
        assert!(told.code == Some(3) && told.stdout.contains("by others"), "{file}: {}", told.stdout);
        mode(&d.path(file), closed);
        assert!(!d.run(&["doctor"]).stdout.contains("by others"), "{file}");
    }
}
