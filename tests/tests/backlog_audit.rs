//! A row that an administrator changed behind everybody's back is found by the audit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_pg::login::Login;
use cutter_tests::cli::Deployment;

/// As an administrator does who knows how to switch triggers off.
fn tamper(d: &Deployment, sql: &str) {
    let script = format!("BEGIN; SET LOCAL session_replication_role = replica; {sql}; COMMIT");
    d.database.client(Login::Admin).batch_execute(&script).unwrap();
}

#[test]
fn a_row_changed_by_an_administrator_breaks_the_audit() {
    let d = Deployment::new();
    let file = d.path("law.md");
    std::fs::write(&file, "# Law\n\nWe agree.\n\n## Article 1\n\nSpeak.\n").unwrap();
    let _ = d.run(&["source", "add", file.to_str().unwrap(), "--document-id", "AUDITED"]).exits(0);
    let _ = d.run(&["orchestrate", "cut", "--document-id", "AUDITED"]).exits(0);
    let listed = d.run(&["backlog", "list", "--document-id", "AUDITED"]).exits(0);
    let entry = listed.text("/entries/0/entry_id").to_owned();
    assert_eq!(d.run(&["backlog", "audit"]).exits(0).json["ok"], true);

    let table = "cutter_governance.decision_backlog_entry";
    let status =
        |to: &str| tamper(&d, &format!("UPDATE {table} SET status = '{to}' WHERE entry_id = '{entry}'"));
    status("verified_complete");
    let broken = d.run(&["backlog", "audit"]).exits(6);
    assert_eq!(broken.json["broken_entries"], 1);
    assert_eq!(broken.text("/broken/0/entry_id"), entry);
    assert_eq!(broken.text("/broken/0/stored"), "verified_complete");
    assert_eq!(broken.text("/broken/0/rebuilt"), "review_pending");
    assert_eq!(broken.text("/broken/0/checks/0/invariant"), "audit.state");
    status("review_pending");
    assert_eq!(d.run(&["backlog", "audit"]).exits(0).json["ok"], true);

    // A pass that is not in the log any more.
    tamper(&d, "DELETE FROM cutter_governance.decision_backlog_sweep_log");
    let broken = d.run(&["backlog", "audit"]).exits(6);
    assert_eq!(broken.text("/broken/0/checks/0/invariant"), "audit.sweeps");

    // Nor is a life of an entry what lost a row of its history.
    tamper(&d, "DELETE FROM cutter_governance.decision_backlog_history WHERE from_state IS NULL");
    let broken = d.run(&["backlog", "audit", "--document-id", "AUDITED"]).exits(6);
    assert_eq!(broken.text("/broken/0/checks/0/invariant"), "audit.trail");
    assert!(broken.json["broken"][0]["rebuilt"].is_null(), "{}", broken.json);
}
