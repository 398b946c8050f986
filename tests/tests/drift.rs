//! Every pin of a run, moved behind its back in a real database: it stops before the next write
//! and says what moved; asked once more, one signature lets it go on; and what no word makes
//! right is refused all the same. Statements that hang are ended by what is left of the cap.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, law};
use serde_json::Value;

type Damage = fn(&Deployment);

/// Replaces a function by itself and a comment, as the owner of the schema could at any time.
fn swap(d: &Deployment, function: &str) {
    let sql = "SELECT pg_get_functiondef($1::text::regproc)";
    let definition = d.texts(sql, &[&function]).remove(0);
    let at =
        definition.find("AS $").and_then(|at| definition[at + 4..].find('$').map(|n| at + 5 + n)).unwrap();
    d.tamper(&format!("{} -- swapped\n{}", &definition[..at], &definition[at..]));
}

/// What moves while a run is parked at SG_1, by the dimension that names the stop.
const DAMAGES: &[(&str, Damage)] = &[
    ("function_iu_core_fn_iu_create", |d| swap(d, "iu_core.fn_iu_create")),
    ("function_iu_core_fn_iu_enact", |d| d.tamper("ALTER FUNCTION iu_core.fn_iu_enact SET work_mem = '8MB'")),
    ("function_cutter_governance_fn_backlog_mark", |d| {
        d.tamper("ALTER FUNCTION cutter_governance.fn_backlog_mark OWNER TO cutter_admin");
    }),
    // the function's own access list is pinned, and so is the grant probe
    ("function_iu_core_fn_iu_create", |d| {
        d.tamper("GRANT EXECUTE ON FUNCTION iu_core.fn_iu_create TO PUBLIC");
    }),
    ("function_iu_core_fn_more", |d| {
        d.tamper(
            "CREATE FUNCTION iu_core.fn_more() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        );
        d.tamper("CREATE TRIGGER trg_more BEFORE INSERT ON iu_core.unit_anchor FOR EACH ROW EXECUTE FUNCTION iu_core.fn_more()");
    }),
    ("grants", |d| d.tamper("GRANT INSERT ON iu_core.unit_anchor TO cutter_ro")),
    ("triggers", |d| d.tamper("ALTER TABLE iu_core.information_unit DISABLE TRIGGER trg_iu_enacted_immut")),
    ("vocabulary", |d| {
        d.tamper(
            "INSERT INTO public.dot_config (config_key, config_value, description)
             VALUES ('vocab.unit_kind.invented', 'invented', 'by nobody')",
        );
    }),
    ("latest_version", |d| d.register("LAW-DRIFT", &law(4, "another version"))),
    // a row of the document's closure that no pin shows, but the backup does
    ("base_state", |d| {
        d.tamper(
            "SET session_replication_role = replica;
             UPDATE iu_core.source_document SET title = 'Another title' WHERE document_id = 'LAW-DRIFT'",
        );
    }),
];

fn parked_at_sg1(d: &Deployment) -> String {
    d.register("LAW-DRIFT", &law(4, "the drift"));
    let run_id = d.cut("LAW-DRIFT");
    d.approve(&run_id, "cut");
    run_id
}

fn parked_at_sg2(d: &Deployment) -> String {
    let run_id = parked_at_sg1(d);
    let _ = d.resume(&run_id).exits(0);
    d.approve(&run_id, "lifecycle");
    run_id
}

fn units(d: &Deployment, status: &str) -> usize {
    let sql = "SELECT unit_id::text FROM iu_core.information_unit WHERE lifecycle_status = $1";
    d.texts(sql, &[&status]).len()
}

/// Stopped by this drift, with exit 3, both values, and the next command.
#[track_caller]
fn assert_drift(ran: Ran, dimension: &str) -> Ran {
    let ran = ran.exits(3);
    assert_eq!(ran.stop_code(), format!("STOP_DRIFT_{dimension}"), "{}", ran.stdout);
    assert_eq!(ran.state(), "stopped_drift");
    let reason = ran.text("/stop/reason");
    assert!(!reason.is_empty() && ran.text("/stop/next").contains("cutter "), "{}", ran.stdout);
    ran
}

#[test]
fn in_every_pin_drift_stops_the_run_before_it_cuts_and_one_signature_lets_it_go_on() {
    for (dimension, damage) in DAMAGES {
        let d = Deployment::new();
        let run_id = parked_at_sg1(&d);
        damage(&d);
        let _ = assert_drift(d.resume(&run_id), dimension);
        assert_eq!(units(&d, "draft"), 0, "{dimension}");
        // the approval that was not carried out is no false alarm
        d.verify(&run_id);
        // resumed, it asks once more about the state that is: one signature
        let again = d.resume(&run_id);
        assert_eq!(again.state(), "awaiting_cut_authorization", "{dimension}: {}", again.stdout);
        assert_eq!(units(&d, "draft"), 0, "{dimension}: the first approval is void");
        d.approve(&run_id, "cut");
        let ran = d.resume(&run_id);
        match *dimension {
            // what these broke no signature mends, and the gates say so
            "grants" | "function_iu_core_fn_iu_create" if ran.code == Some(4) => {
                assert_eq!(units(&d, "draft"), 0, "{dimension}");
                let told = format!("{}{}", ran.stdout, ran.stderr);
                assert!(told.contains("grant"), "{dimension}: {told}");
            }
            _ => {
                let ran = ran.exits(0);
                assert_eq!(ran.state(), "awaiting_lifecycle_authorization", "{dimension}");
                assert_eq!(units(&d, "draft"), 5, "{dimension}");
            }
        }
    }
}

#[test]
fn another_database_is_drift_and_an_unknown_schema_is_refused() {
    let d = Deployment::new();
    let run_id = parked_at_sg1(&d);
    // restored elsewhere: the same rows, another database
    let copy = format!("{}_copy", d.database.name());
    let server = d.database.admin_dsn().with_database("postgres");
    let mut client = server.config().unwrap().connect(postgres::NoTls).unwrap();
    client.batch_execute(&format!("CREATE DATABASE {copy} TEMPLATE {}", d.database.name())).unwrap();
    client.batch_execute(&format!("GRANT CONNECT ON DATABASE {copy} TO PUBLIC")).unwrap();
    let mut command = d.command(&["orchestrate", "resume", "--run-id", &run_id]);
    for (key, login) in [
        ("READER", Login::Ro),
        ("EXECUTOR", Login::Exec),
        ("VERIFIER", Login::Verify),
        ("REVIEWER", Login::Review),
    ] {
        let dsn = d.database.connection_string(login);
        command.env(format!("CUTTER_DSN_{key}"), dsn.replace(d.database.name(), &copy));
    }
    let ran = cutter_tests::cli::finish(command);
    client.batch_execute(&format!("DROP DATABASE {copy} WITH (FORCE)")).unwrap();
    let _ = assert_drift(ran, "database_identity");

    let d = Deployment::new();
    let run_id = parked_at_sg1(&d);
    d.tamper(
        "INSERT INTO cutter_meta.migration SELECT (m).* FROM (
             SELECT jsonb_populate_record(x, '{\"version\": 9999, \"name\": \"from the future\"}') AS m
             FROM cutter_meta.migration x ORDER BY version DESC LIMIT 1) y",
    );
    let ran = d.resume(&run_id).exits(3);
    assert_eq!(ran.stop_code(), "STOP_SCHEMA_MISMATCH", "{}", ran.stdout);
    assert_eq!(units(&d, "draft"), 0);
}

#[test]
fn rows_that_others_wrote_into_the_document_are_found_before_the_enactment() {
    for damage in [
        // a unit of nobody's
        "INSERT INTO iu_core.information_unit SELECT (u).unit_id, (u).change_set_id, (u).document_id,
                 (u).source_document_id, (u).source_version_id, (u).ordinal, (u).canonical_address,
                 (u).citation_address, (u).unit_kind, (u).section_type, (u).content_hash, (u).body_hash,
                 (u).idempotency_key, (u).lifecycle_status, (u).created_at FROM (
             SELECT jsonb_populate_record(x, jsonb_build_object('unit_id', gen_random_uuid(), 'ordinal', 99,
                 'canonical_address', 'LAW-DRIFT/intruder', 'citation_address', NULL,
                 'idempotency_key', repeat('0', 64))) AS u
             FROM iu_core.information_unit x LIMIT 1) y",
        // one that is gone
        "DELETE FROM iu_core.information_unit WHERE ordinal = 1",
        // one that says something else
        "UPDATE iu_core.information_unit SET content_hash = repeat('0', 64) WHERE ordinal = 1",
    ] {
        let d = Deployment::new();
        let run_id = parked_at_sg2(&d);
        d.tamper(&format!("SET session_replication_role = replica; {damage}"));
        let _ = assert_drift(d.resume(&run_id), "unit_digest");
        assert_eq!(units(&d, "enacted"), 0);
        // asked about again, it is still not what was approved
        let again = d.resume(&run_id);
        assert_eq!(again.state(), "awaiting_lifecycle_authorization", "{}", again.stdout);
        d.approve(&run_id, "lifecycle");
        let ran = d.resume(&run_id).exits(4);
        assert!(ran.state().starts_with("failed_lifecycle_enact"), "{}", ran.stdout);
        assert_eq!(units(&d, "enacted"), 0);
    }
}

/// What readers are shown of a unit, or what was signed over it: changed by whoever owns the database
/// while the run waits, it is not enacted, whatever the sovereign signs then.
#[test]
fn what_was_changed_while_the_second_gate_waits_is_not_enacted() {
    let d = Deployment::new();
    let run_id = parked_at_sg2(&d);
    d.approve(&run_id, "lifecycle");
    let kept = d.database.keep();
    let files = tempfile::tempdir().unwrap();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let copied = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
        assert!(copied.success());
    };
    copy(&d.path(""), files.path());
    for damage in [
        "UPDATE iu_core.information_unit SET unit_kind = 'clause' WHERE ordinal = 1",
        "UPDATE iu_core.information_unit SET section_type = 'final' WHERE ordinal = 1",
        "UPDATE iu_core.information_unit SET citation_address = 'LAW-DRIFT/art-9' WHERE ordinal = 1",
        "UPDATE iu_core.information_unit SET body_hash = repeat('0', 64) WHERE ordinal = 1",
        // a text with hashes that fit
        "UPDATE iu_core.unit_version v SET content = '\\x78', content_hash = encode(sha256('\\x78'), 'hex')
         FROM iu_core.information_unit u WHERE u.unit_id = v.unit_id AND u.ordinal = 1;
         UPDATE iu_core.information_unit SET content_hash = encode(sha256('\\x78'), 'hex') WHERE ordinal = 1",
        "UPDATE cutter_governance.dot_pair_signature SET signature = repeat('0', 128) WHERE duty = 'executor'",
        "UPDATE cutter_governance.dot_pair_signature SET signature = repeat('0', 128) WHERE duty = 'verifier'",
    ] {
        d.tamper(&format!("SET session_replication_role = replica; {damage}"));
        for _ in 0..3 {
            let ran = d.resume(&run_id);
            assert_ne!(ran.state(), "closeout_reported", "{damage}: {}", ran.stdout);
            assert_eq!(units(&d, "enacted"), 0, "{damage}: {}", ran.stdout);
            let _ = d.answer(&run_id, "lifecycle", &[]);
        }
        for folder in ["runs", "kb"] {
            std::fs::remove_dir_all(d.path(folder)).unwrap();
        }
        copy(files.path(), &d.path(""));
        d.database.put_back(&kept);
    }
    // as it stood, it goes through
    d.finish_run(&run_id);
    d.verify(&run_id);
}

#[test]
fn with_the_guarding_trigger_off_nothing_is_enacted_whatever_is_signed() {
    let d = Deployment::new();
    let run_id = parked_at_sg2(&d);
    d.tamper("ALTER TABLE iu_core.information_unit DISABLE TRIGGER trg_iu_enacted_immut");
    let _ = assert_drift(d.resume(&run_id), "triggers");
    let again = d.resume(&run_id);
    assert_eq!(again.state(), "awaiting_lifecycle_authorization", "{}", again.stdout);
    d.approve(&run_id, "lifecycle");
    let ran = d.resume(&run_id).exits(4);
    assert!(ran.state().starts_with("failed_lifecycle_enact"), "{}", ran.stdout);
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(told.contains("trigger") || told.contains("observed D"), "{told}");
    assert_eq!(units(&d, "enacted"), 0);
}

fn wait_for_a_blocked_session(d: &Deployment) {
    let sql = "SELECT application_name FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let until = Instant::now() + Duration::from_secs(60);
    while d.texts(sql, &[]).is_empty() {
        assert!(Instant::now() < until, "nobody waits for the lock");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The writing transaction has made its first survey and waits in the middle of its writes,
/// for a table that another session holds; there a function is replaced.
#[test]
fn a_function_swapped_inside_the_writing_transaction_rolls_it_back() {
    for (at_sg2, table, function) in [
        (false, "iu_core.unit_anchor", "iu_core.fn_iu_create"),
        (true, "iu_core.iu_lifecycle_log", "iu_core.fn_iu_enact"),
    ] {
        let d = Deployment::new();
        let run_id = if at_sg2 { parked_at_sg2(&d) } else { parked_at_sg1(&d) };
        let mut blocker = d.database.client(Login::Admin);
        let mut lock = blocker.transaction().unwrap();
        lock.batch_execute(&format!("LOCK TABLE {table} IN SHARE MODE")).unwrap();
        let running = d.start(&["orchestrate", "resume", "--run-id", &run_id]);
        wait_for_a_blocked_session(&d);
        swap(&d, function);
        lock.commit().unwrap();
        let dimension = format!("function_{}", function.replace('.', "_"));
        let _ = assert_drift(running.wait(), &dimension);
        assert_eq!((units(&d, "draft"), units(&d, "enacted")), (if at_sg2 { 5 } else { 0 }, 0));
        let effect = if at_sg2 { "enact" } else { "leg_a" };
        let sql = "SELECT effect FROM cutter_governance.run_effect WHERE effect = $1";
        assert!(d.texts(sql, &[&effect]).is_empty(), "rolled back");
        d.finish_run(&run_id);
        assert_eq!(units(&d, "enacted"), 5);
        d.verify(&run_id);
    }
}

#[test]
fn a_value_that_is_not_a_word_of_the_stop_is_shown_in_its_report() {
    let d = Deployment::new();
    let run_id = parked_at_sg1(&d);
    swap(&d, "iu_core.fn_iu_create");
    let ran = assert_drift(d.resume(&run_id), "function_iu_core_fn_iu_create");
    let folder = ran.text("/kb_folder").to_owned();
    let report = d.files("kb").into_iter().find(|(path, _)| {
        let path = path.to_str().unwrap();
        path.contains(&folder) && path.to_lowercase().contains("stop")
    });
    let (_, bytes) = report.expect("a report of the stop");
    let text = String::from_utf8(bytes).unwrap();
    let sidecar: Value = serde_json::from_slice(&std::fs::read(ran.text("/sidecar_path")).unwrap()).unwrap();
    let pinned = sidecar["drift_pins"]["function.iu_core.fn_iu_create"].as_str().unwrap();
    assert!(text.contains(&pinned[..32]), "the pin is shown: {text}");
    assert!(text.contains("function.iu_core.fn_iu_create") && text.contains("observed"), "{text}");
}

#[test]
fn a_finished_run_is_verified_against_its_own_version_when_there_is_a_newer_one() {
    let d = Deployment::new();
    d.register("LAW-DRIFT", &law(4, "the first"));
    let first = d.whole_run("LAW-DRIFT");
    d.register("LAW-DRIFT", &law(5, "the second"));
    d.verify(&first);
    let second = d.whole_run("LAW-DRIFT");
    d.verify(&first);
    d.verify(&second);
    // by the documents and the database alone, without the record
    std::fs::remove_dir_all(d.path("runs")).unwrap();
    for run_id in [&first, &second] {
        let _ = d.run(&["verify", "--run-id", run_id]).exits(7);
    }
    assert_eq!(units(&d, "enacted"), 5 + 6);
}
