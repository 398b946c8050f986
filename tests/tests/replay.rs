//! Doing the same again is no harm, and says so; doing something else under the same name is a
//! conflict, and what stands must really stand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, law};

fn tamper(d: &Deployment, sql: &str) {
    let script = format!("BEGIN; SET LOCAL session_replication_role = replica; {sql}; COMMIT");
    d.database.client(Login::Admin).batch_execute(&script).unwrap();
}

#[test]
fn a_finished_cut_is_needless_only_while_its_rows_stand() {
    let d = Deployment::new();
    d.register("LAW", &law(3, "all"));
    let run_id = d.whole_run("LAW");
    let again = || d.run(&["orchestrate", "cut", "--document-id", "LAW"]);
    assert_eq!(again().exits(0).text("/replayed_from"), run_id);
    tamper(&d, "CREATE SCHEMA kept; CREATE TABLE kept.u AS SELECT * FROM iu_core.unit_version;
        CREATE TABLE kept.i AS SELECT unit_id, citation_address, lifecycle_status FROM iu_core.information_unit");
    for (damage, mend) in [
        (
            "DELETE FROM iu_core.unit_version WHERE version_id = (SELECT version_id FROM kept.u LIMIT 1)",
            "INSERT INTO iu_core.unit_version SELECT * FROM kept.u ON CONFLICT DO NOTHING",
        ),
        (
            "UPDATE iu_core.information_unit SET lifecycle_status = 'draft' WHERE ordinal = 1",
            "UPDATE iu_core.information_unit SET lifecycle_status = 'enacted'",
        ),
        (
            "UPDATE iu_core.information_unit SET citation_address = 'LAW/art-9' WHERE ordinal = 1",
            "UPDATE iu_core.information_unit u SET citation_address = i.citation_address FROM kept.i i
             WHERE i.unit_id = u.unit_id",
        ),
    ] {
        tamper(&d, damage);
        let refused = again().exits(4);
        assert_eq!(refused.stop_code(), "STOP_REPLAY_CONFLICT", "{damage}: {}", refused.stdout);
        tamper(&d, mend);
        assert_eq!(again().exits(0).text("/replayed_from"), run_id, "{mend}");
    }
}

#[test]
fn a_backup_in_an_object_store_reads_back_every_time() {
    let d = Deployment::new();
    let store = d.path("store");
    d.append_config(&format!("\n[backup]\nurl = \"file://{}\"\n", store.display()));
    d.register("LAW", &law(40, "the backup"));
    let run_id = d.cut("LAW");
    let secret = d.path("keys/backup.secret.asc");
    for _ in 0..6 {
        let _ = d.run(&["backup", "inspect", "--run-id", &run_id]).exits(0);
        let key = secret.to_str().unwrap();
        let _ = d.run(&["backup", "inspect", "--run-id", &run_id, "--key", key]).exits(0);
    }
    d.finish_run(&run_id);
    d.verify(&run_id);
}

#[test]
fn an_item_under_another_priority_is_a_conflict() {
    let d = Deployment::new();
    d.register("LAW", &law(1, "all"));
    let add = |more: &[&str]| d.run(&[&["queue", "add", "--document-id", "LAW"], more].concat());
    assert_eq!(add(&["--priority", "-5"]).exits(0).json["already"], false);
    assert_eq!(add(&["--priority", "-5"]).exits(0).json["already"], true);
    assert_eq!(add(&[]).exits(0).json["already"], true);
    let other = add(&["--priority", "3"]).exits(4);
    assert_eq!(other.text("/error/invariants/0/invariant"), "enqueue.same_priority");
    assert_eq!(other.text("/error/invariants/0/expected"), "-5");
}
