//! What a reader is shown by default: what is in force, never what waits, was refused or voided.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN};

const FIRST: &str = "# Law\n\nWe agree.\n\n## Article 1\n\nSpeak.\n";
const SECOND: &str = "# Law\n\nWe agree.\n\n## Article 1\n\nSpeak softly.\n\n## Article 2\n\nListen.\n";

fn list(d: &Deployment, more: &[&str]) -> Ran {
    d.run(&[&["unit", "list", "--document-id", "LAW"], more].concat())
}

fn export(d: &Deployment, more: &[&str]) -> Ran {
    d.run(&[&["unit", "export", "--document-id", "LAW"], more].concat())
}

/// By every command, default and view: version 1 and nothing of version 2.
fn only_the_first_is_shown(d: &Deployment) {
    let listed = list(d, &[]).exits(0);
    assert_eq!((listed.json["version"].as_i64(), listed.json["in_force"].as_bool()), (Some(1), Some(true)));
    let exported = export(d, &[]).exits(0);
    let texts: String =
        exported.json["units"].as_array().unwrap().iter().map(|u| u["text"].as_str().unwrap()).collect();
    assert_eq!(texts, FIRST);
    let shown = d.run(&["unit", "show", "LAW/art-1"]).exits(0);
    assert!(shown.text("/text").contains("Speak.") && shown.json["in_force"] == true, "{}", shown.json);
    let _ = d.run(&["unit", "show", "LAW/art-2"]).exits(2);
    let second = d.path("second.md");
    std::fs::write(&second, SECOND).unwrap();
    let diff = d.run(&["diff", "db:LAW", second.to_str().unwrap()]).exits(0);
    assert_eq!(diff.json["old"]["version"], 1);
    let mut reader = d.database.client(Login::Ro);
    let current =
        reader.query("SELECT DISTINCT version_no FROM iu_core.v_current_unit WHERE document_id = 'LAW'", &[]);
    assert_eq!(current.unwrap().iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1]);
    // Naming the version is not asking for what is not in force.
    for refused in
        [list(d, &["--version", "2"]), export(d, &["--version", "2"]), d.run(&["diff", "db:LAW", "db:LAW@2"])]
    {
        let refused = refused.exits(2);
        assert_eq!(refused.text("/error/message"), "version 2 of LAW is not in force");
    }
}

/// Asked for, it is shown, and says what it is: to people, machines and in the file.
fn asked_for_it_says_what_it_is(d: &Deployment, status: &str, run_id: &str) {
    let listed = list(d, &["--status", status]).exits(0);
    assert_eq!(listed.json["version"], 2);
    assert_eq!(listed.json["in_force"], false);
    assert_eq!(listed.text("/lifecycle_status"), status);
    assert_eq!(listed.text("/run_id"), run_id);
    let stands = format!("version 2 of LAW: {status}, not in force ({run_id})");
    let exported = export(d, &["--status", status]).exits(0);
    assert!(exported.stderr.contains(&stands), "{}", exported.stderr);
    let file = d.path("asked.md");
    let path = file.to_str().unwrap();
    let _ = d
        .people(&[
            "unit",
            "export",
            "--document-id",
            "LAW",
            "--status",
            status,
            "--format",
            "markdown",
            "-o",
            path,
        ])
        .exits(0);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with(&format!("<!-- {stands} -->\n")), "{written}");
    // The text itself stays the exact bytes.
    let text = d.people(&["unit", "export", "--document-id", "LAW", "--status", status]).exits(0);
    assert_eq!(text.stdout, SECOND);
    assert!(text.stderr.contains(&stands), "{}", text.stderr);
    let people = d.people(&["unit", "list", "--document-id", "LAW", "--status", status]).exits(0);
    assert!(people.stdout.starts_with(&stands), "{}", people.stdout);
    let shown = d.people(&["unit", "show", "LAW/art-2", "--status", status]).exits(0);
    assert!(shown.stdout.contains(&format!("{status}, not in force")), "{}", shown.stdout);
    let diff = d.run(&["diff", "db:LAW", &format!("db:LAW:{status}")]).exits(0);
    assert_eq!(diff.json["new"]["in_force"], false);
    assert_eq!(diff.text("/new/lifecycle_status"), status);
}

#[test]
fn what_waits_was_refused_or_voided_is_shown_only_when_asked_for() {
    let d = Deployment::new();
    d.register("LAW", FIRST);
    let _ = d.whole_run("LAW");
    d.register("LAW", SECOND);
    only_the_first_is_shown(&d);
    let run_id = d.cut("LAW");
    only_the_first_is_shown(&d);
    d.approve(&run_id, "cut");
    assert_eq!(d.resume(&run_id).state(), "awaiting_lifecycle_authorization");
    only_the_first_is_shown(&d);
    asked_for_it_says_what_it_is(&d, "draft", &run_id);

    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let refusal = [
        "sovereign",
        "refuse",
        "--yes",
        "--run-id",
        &run_id,
        "--for",
        "lifecycle",
        "--reason",
        "no",
        "--key",
    ];
    let _ = d.run(&[&refusal[..], &[key.to_str().unwrap()]].concat()).exits(0);
    let _ = d.resume(&run_id);
    only_the_first_is_shown(&d);
    asked_for_it_says_what_it_is(&d, "draft", &run_id);

    d.approve(&run_id, "void");
    let _ = d.run(&["orchestrate", "void", "--run-id", &run_id]).exits(0);
    only_the_first_is_shown(&d);
    asked_for_it_says_what_it_is(&d, "voided", &run_id);
    let _ = list(&d, &["--status", "draft"]).exits(2);

    let second = d.whole_run("LAW");
    let listed = list(&d, &[]).exits(0);
    assert_eq!((listed.json["version"].as_i64(), listed.text("/run_id")), (Some(2), &*second));
    let first = list(&d, &["--version", "1"]).exits(0);
    assert_eq!(first.json["in_force"], false, "{}", first.json);
    let replaced = d.people(&["unit", "show", "LAW/art-1", "--version", "1"]).exits(0);
    assert!(replaced.stdout.contains("enacted, replaced by version 2"), "{}", replaced.stdout);
}

#[test]
fn where_nothing_is_in_force_the_answer_names_what_waits_and_the_command() {
    let d = Deployment::new();
    let next = |ran: &Ran| ran.json["error"]["next"].clone();
    let nobody = list(&d, &[]).exits(2);
    assert_eq!(next(&nobody), serde_json::json!([d.typed("cutter source add FILE --document-id LAW")]));
    d.register("LAW", FIRST);
    let registered = export(&d, &[]).exits(2);
    assert_eq!(registered.text("/error/message"), "nothing of LAW is in force");
    assert_eq!(next(&registered), serde_json::json!([d.typed("cutter orchestrate cut --document-id LAW")]));
    let run_id = d.cut("LAW");
    d.approve(&run_id, "cut");
    assert_eq!(d.resume(&run_id).state(), "awaiting_lifecycle_authorization");
    let waits = export(&d, &[]).exits(2);
    let observed = waits.text("/error/invariants/0/observed").to_owned();
    assert_eq!(observed, format!("version 1: drafts, never enacted, 2 units, {run_id}"));
    let read = "cutter unit list --document-id LAW --version 1 --status draft";
    let why = format!("cutter why --run-id {run_id}");
    assert_eq!(next(&waits), serde_json::json!([d.typed(&why), d.typed(read)]));
    // Each works as printed.
    for command in [why.as_str(), read] {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let _ = d.run(&words).exits(0);
    }
}

/// Which version is in force is said by the enactments, not by one column: whoever changes that, of any
/// version, is found by the verification of every run of the document.
#[test]
fn a_version_that_was_turned_on_or_off_fails_whichever_run_is_verified() {
    let d = Deployment::new();
    d.register("LAW", FIRST);
    let first = d.whole_run("LAW");
    d.register("LAW", SECOND);
    let second = d.whole_run("LAW");
    d.register("LAW", &SECOND.replace("softly", "loudly"));
    let third = d.cut("LAW");
    d.approve(&third, "cut");
    assert_eq!(d.resume(&third).state(), "awaiting_lifecycle_authorization");
    let set = |version: i32, status: &str| {
        d.tamper(&format!(
            "SET session_replication_role = replica;
             UPDATE iu_core.information_unit u SET lifecycle_status = '{status}' FROM iu_core.source_version v
             WHERE v.source_version_id = u.source_version_id AND v.version_no = {version}"
        ));
    };
    let verify = |run: &str| d.run(&["verify", "--run-id", run]);
    assert_eq!(verify(&first).exits(0).json["replaced_by"], 2);
    for (version, status, back) in
        [(2, "voided", "enacted"), (2, "draft", "enacted"), (3, "enacted", "draft"), (1, "draft", "enacted")]
    {
        set(version, status);
        for run in [&first, &second] {
            let ran = verify(run).exits(6);
            let checks = ran.json["checks"].as_array().unwrap();
            let found = checks.iter().find(|c| c["invariant"] == "verify.versions.agree").unwrap();
            assert!(found["ok"] == false && ran.json["in_force"] == false, "{version} {status}: {found}");
        }
        set(version, back);
        d.verify(&second);
    }
    // by other rows than the units', too
    let _ = d.run(&["backlog", "audit"]).exits(0);
    for change in [
        "UPDATE cutter_governance.cut_change_set SET live = false WHERE run_id = '{second}'",
        "DELETE FROM cutter_governance.cut_change_set WHERE run_id = '{second}'",
        "DELETE FROM iu_core.source_version WHERE version_no = 2",
        "DELETE FROM iu_core.information_unit u USING iu_core.source_version v
         WHERE v.source_version_id = u.source_version_id AND v.version_no = 2",
    ] {
        d.tamper(&format!("SET session_replication_role = replica; {}", change.replace("{second}", &second)));
        let ran = verify(&first).exits(6);
        assert_eq!(ran.json["in_force"], false, "{change}");
        let _ = d.run(&["backlog", "audit"]).exits(6);
    }
}
