//! As people do it, with the program, a real database and real files: answers that contradict each
//! other, documents that change after they were relied on, requests that are not the ones shown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use cutter_pg::login::Login;
use cutter_tests::attack::edited;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN, law};

/// Refuses as the sovereign; the file is then given the name that a person might choose.
fn refuse(d: &Deployment, run_id: &str, what: &str, name: Option<&str>) {
    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let key = key.to_str().unwrap();
    let refused = ["sovereign", "refuse", "--yes", "--run-id", run_id, "--for", what, "--key", key];
    let filed = d.run(&refused).exits(0).text("/approval_kb_id").to_owned();
    if let Some(name) = name {
        let (stem, _) = filed.split_once("-approval").unwrap();
        std::fs::rename(kb(d, &filed), kb(d, &format!("{stem}-approval{name}.md"))).unwrap();
    }
}

fn kb(d: &Deployment, path: &str) -> PathBuf {
    d.path("kb").join(path)
}

fn parked(d: &Deployment, gate: &str) -> String {
    d.register("LAW-MINDS", &law(3, "changed minds"));
    let run_id = d.cut("LAW-MINDS");
    if gate == "lifecycle" {
        d.approve(&run_id, "cut");
        assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
    }
    run_id
}

fn count(d: &Deployment, sql: &str) -> i64 {
    d.database.client(Login::Admin).query_one(sql, &[]).unwrap().get(0)
}

const ENACTED: &str = "SELECT count(*) FROM iu_core.information_unit WHERE lifecycle_status = 'enacted'";
const CUT: &str = "SELECT count(*) FROM cutter_governance.cut_change_set";

#[track_caller]
fn assert_refused(d: &Deployment, gate: &str, ran: Ran) {
    let ran = ran.exits(5);
    assert_eq!((ran.stop_code(), ran.state()), ("STOP_REFUSED", "stopped_refused"), "{}", ran.stdout);
    let done = if gate == "cut" { CUT } else { ENACTED };
    assert_eq!(count(d, done), 0, "nothing is done at {gate}");
}

#[test]
fn a_refusal_among_approvals_wins_whatever_it_is_called() {
    for gate in ["cut", "lifecycle"] {
        for name in [None, Some("-3-"), Some("-withdrawn")] {
            let d = Deployment::new();
            let run_id = parked(&d, gate);
            if name.is_none() {
                refuse(&d, &run_id, gate, None);
                d.approve(&run_id, gate);
            } else {
                d.approve(&run_id, gate);
                refuse(&d, &run_id, gate, name);
            }
            d.approve(&run_id, gate);
            assert_refused(&d, gate, d.resume(&run_id));
            let answers = "SELECT count(*) FROM cutter_governance.approval_answer WHERE NOT late";
            let before = i64::from(gate == "lifecycle");
            assert_eq!(count(&d, answers), before + 3, "{gate} {name:?}: every valid answer is kept");
        }
    }
}

#[test]
fn a_worker_hears_a_refusal_too() {
    let d = Deployment::new();
    d.register("LAW-MINDS", &law(3, "changed minds"));
    let _ = d.run(&["queue", "add", "--document-id", "LAW-MINDS"]).exits(0);
    let drain = ["worker", "--concurrency", "1", "--drain"];
    let _ = d.run(&drain);
    let run_id = d.texts("SELECT run_id FROM cutter_governance.run_fence", &[]).remove(0);
    d.approve(&run_id, "cut");
    refuse(&d, &run_id, "cut", Some("-later"));
    let _ = d.run(&drain);
    assert_eq!(d.status(&run_id).exits(0).state(), "stopped_refused");
    assert_eq!(count(&d, CUT), 0);
}

/// What a login can do by itself: an approval of no ask, and one beside a refusal, enact nothing.
#[test]
fn the_database_holds_the_rule_by_itself() {
    let d = Deployment::new();
    let run_id = parked(&d, "lifecycle");
    d.approve(&run_id, "lifecycle");
    // another host's reviewer heard a refusal, whose document is gone from the knowledge base since
    let mut admin = d.database.client(Login::Admin);
    let row = admin
        .query_one(
            "SELECT nonce FROM cutter_governance.approval_ask WHERE gate = 'SG_lifecycle_authz' AND run_id = $1",
            &[&run_id],
        )
        .unwrap();
    let document = format!("decision: reject\nnonce: {}\n", row.get::<_, String>(0));
    let mut review = d.database.client(Login::Review);
    let record = "SELECT cutter_governance.fn_answer_record($1, 'SG_lifecycle_authz', 1, 'reject', 'kb/no.md', $2, 'F', 'ann')";
    review.execute(record, &[&run_id, &document.as_bytes()]).unwrap();
    let ran = d.resume(&run_id).exits(5);
    assert_eq!(ran.stop_code(), "STOP_APPROVAL_CHANGED", "{}", ran.stdout);
    assert_eq!(count(&d, ENACTED), 0);
    // nobody signed that refusal, so it is no last word
    let _ = d.answer(&run_id, "resume", &[]).exits(0);
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
    d.finish_run(&run_id);
    // whoever checks is told of the row that somebody with the reviewer's login stored
    let verified = d.run(&["verify", "--run-id", &run_id]).exits(6);
    let checks = verified.json["checks"].as_array().unwrap().iter();
    let failed: Vec<&str> =
        checks.filter(|c| c["ok"] == false).map(|c| c["invariant"].as_str().unwrap()).collect();
    let named =
        ["verify.ask.SG_lifecycle_authz.1.answers", "verify.answers.filed", "verify.rows.approval_answer"];
    assert_eq!(failed, named);
}

#[test]
fn what_was_relied_on_is_put_back_before_the_next_approval_is_spent() {
    for damage in ["edited", "gone", "report"] {
        let d = Deployment::new();
        let run_id = parked(&d, "lifecycle");
        let folder = d.status(&run_id).exits(0).text("/kb_folder").to_owned();
        let names: Vec<String> = std::fs::read_dir(kb(&d, &folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let find = |part: &str| kb(&d, &folder).join(names.iter().find(|n| n.contains(part)).unwrap());
        let (path, bytes) = match damage {
            "report" => (find("03-"), Some(b"another report\n".to_vec())),
            "edited" => {
                let path = find("SG1-cut-authz-approval");
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[100] ^= 1;
                (path, Some(bytes))
            }
            _ => (find("SG1-cut-authz-approval"), None),
        };
        let whole = std::fs::read(&path).unwrap();
        match &bytes {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        d.approve(&run_id, "lifecycle");
        let stopped = d.resume(&run_id).exits(3);
        assert_eq!(stopped.stop_code(), "STOP_KB_CONFLICT", "{}", stopped.stdout);
        let command = format!("cutter kb restore --run-id {run_id}");
        assert!(stopped.text("/stop/reason").contains(&command), "{}", stopped.stdout);
        assert_eq!(count(&d, ENACTED), 0, "{damage}: the second approval is not spent");
        let restored = d.run(&["kb", "restore", "--run-id", &run_id]).exits(0);
        assert_eq!(restored.json["restored"].as_array().unwrap().len(), 1, "{}", restored.stdout);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "{damage}");
        let _ = d.run(&["kb", "restore", "--run-id", &run_id]).exits(0);
        assert_eq!(d.resume(&run_id).exits(0).state(), "closeout_reported");
        d.verify(&run_id);
    }
}

/// The record says where a document belongs; whoever wrote it wrongly reaches no other run's folder, and no
/// refusal that nobody has heard yet is lost.
#[test]
fn what_is_put_back_stays_in_the_runs_own_folder_and_loses_no_refusal() {
    let d = Deployment::new();
    let other = parked(&d, "cut");
    let folder = d.status(&other).exits(0).text("/kb_folder").to_owned();
    refuse(&d, &other, "cut", None);
    let is_refusal = |path: &PathBuf| path.display().to_string().contains("SG1-cut-authz-approval");
    let (refusal, said) = d.files("kb").into_iter().find(|(path, _)| is_refusal(path)).unwrap();
    let refusal_at = format!("{folder}/{}", refusal.file_name().unwrap().to_str().unwrap());
    d.register("LAW-OTHER", &law(3, "another"));
    let run_id = d.cut("LAW-OTHER");
    d.approve(&run_id, "cut");
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
    let record = d.newest_record(&run_id);
    let whole = std::fs::read(&record).unwrap();
    for misled in [refusal_at.as_str(), "knowledge/odd.md", "/etc/odd.md", "../odd.md"] {
        let wrong = edited(&whole, |v| v["documents"][0]["path"] = misled.into());
        std::fs::write(&record, wrong).unwrap();
        let ran = d.run(&["kb", "restore", "--run-id", &run_id]).exits(6);
        assert!(ran.stdout.contains("not_its_own"), "{misled}: {}", ran.stdout);
        assert_eq!(std::fs::read(d.path("kb").join(&refusal)).unwrap(), said, "{misled}");
    }
    std::fs::write(&record, &whole).unwrap();
    // a refusal in the place of an approval that was relied on
    let own = d.status(&run_id).exits(0).text("/kb_folder").to_owned();
    let approval =
        std::fs::read_dir(kb(&d, &own)).unwrap().map(|e| e.unwrap().path()).find(is_refusal).unwrap();
    let approved = std::fs::read(&approval).unwrap();
    refuse(&d, &run_id, "lifecycle", None);
    let lifecycle = |path: &PathBuf| path.display().to_string().contains("SG2-lifecycle-authz-approval");
    let filed = std::fs::read_dir(kb(&d, &own)).unwrap().map(|e| e.unwrap().path()).find(lifecycle).unwrap();
    let refused = std::fs::read(&filed).unwrap();
    std::fs::rename(&filed, &approval).unwrap();
    let ran = d.run(&["kb", "restore", "--run-id", &run_id]).exits(0);
    assert_eq!(std::fs::read(&approval).unwrap(), approved, "{}", ran.stdout);
    assert!(
        d.files("kb").into_iter().any(|(path, bytes)| bytes == refused && path != approval),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("moved"), "{}", ran.stdout);
    // and it is heard where it stands now
    d.approve(&run_id, "lifecycle");
    assert_refused(&d, "lifecycle", d.resume(&run_id));
}

/// Junk under the name of the report that comes next gives way to it, and is kept.
#[test]
fn what_stands_where_the_next_report_belongs_gives_way_to_it() {
    let d = Deployment::new();
    let run_id = parked(&d, "cut");
    let folder = d.status(&run_id).exits(0).text("/kb_folder").to_owned();
    let date = folder.rsplit('-').next().unwrap();
    let date = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..8]);
    let path = kb(&d, &folder).join(format!("07-structural-verify-{date}.md"));
    std::fs::write(&path, "# not a report\n").unwrap();
    d.approve(&run_id, "cut");
    let stopped = d.resume(&run_id).exits(3);
    assert_eq!(stopped.stop_code(), "STOP_KB_CONFLICT", "{}", stopped.stdout);
    let command = format!("cutter kb restore --run-id {run_id}");
    assert!(stopped.text("/stop/reason").contains(&command), "{}", stopped.stdout);
    let restored = d.run(&["kb", "restore", "--run-id", &run_id]).exits(0);
    assert_eq!(restored.text("/restored/0/did"), "revised", "{}", restored.stdout);
    d.finish_run(&run_id);
    d.verify(&run_id);
}

#[test]
fn what_is_signed_is_what_was_shown() {
    let d = Deployment::new();
    let run_id = parked(&d, "cut");
    let shown = d.run(&["sovereign", "show", "--run-id", &run_id]).exits(0);
    let (sha256, path) = (shown.text("/request_sha256").to_owned(), kb(&d, shown.text("/request_path")));
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replacen("bytes", "pages", 1)).unwrap();
    let edited =
        d.run(&["sovereign", "show", "--run-id", &run_id]).exits(0).text("/request_sha256").to_owned();
    assert_ne!(edited, sha256);
    let refused = d.answer(&run_id, "cut", &["--request-sha256", &sha256]).exits(5);
    assert!(refused.stdout.contains("approval.request_sha256"), "{}", refused.stdout);
    std::fs::write(&path, &whole).unwrap();
    let _ = d.answer(&run_id, "cut", &["--request-sha256", &edited]).exits(5);
    let _ = d.answer(&run_id, "cut", &["--request-sha256", &sha256]).exits(0);
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
    // nobody signs by accident
    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let sign = ["sovereign", "approve", "--run-id", &run_id, "--key", key.to_str().unwrap()];
    let unasked = d.run(&sign).exits(2);
    assert!(unasked.text("/error/next/0").contains("--request-sha256"), "{}", unasked.stdout);
}

#[test]
fn an_approver_who_has_the_text_signs_for_no_other_rows() {
    let d = Deployment::new();
    let run_id = parked(&d, "cut");
    let (own, other) = (d.path("LAW-MINDS.md"), d.path("other.md"));
    let text = std::fs::read_to_string(&own).unwrap();
    std::fs::write(&other, text.replacen("changed", "chanced", 1)).unwrap();
    for what in ["cut", "lifecycle"] {
        let refused = d.answer(&run_id, what, &["--text", other.to_str().unwrap()]).exits(5);
        assert!(refused.stdout.contains("approval.rows_digest"), "{}", refused.stdout);
        let _ = d.answer(&run_id, what, &["--text", own.to_str().unwrap()]).exits(0);
        let _ = d.resume(&run_id).exits(0);
    }
    assert!(count(&d, ENACTED) > 0);
}

#[test]
fn a_file_too_long_for_a_document_stops_nobody() {
    let d = Deployment::new();
    let run_id = parked(&d, "cut");
    let folder = kb(&d, d.status(&run_id).exits(0).text("/kb_folder"));
    // called like an answer, like a report that comes before every other, like a request, like nothing
    let names = [
        "SG1-cut-authz-approval-0.md",
        "01-execute-0.md",
        "01-mark-1999-01-01.md",
        "SG1-cut-authz-request-1999-01-01.md",
        "SG3-stop-report-9-1999-01-01.md",
        "junk.md",
    ];
    let huge = |name: &&str| std::fs::File::create(folder.join(name)).unwrap().set_len(65 << 20).unwrap();
    names.iter().for_each(huge);
    std::fs::create_dir(folder.join("SG1-cut-authz-approval-1.md")).unwrap();
    d.register("LAW-OTHER", &law(3, "another"));
    let other = d.cut("LAW-OTHER");
    for run_id in [&run_id, &other] {
        let _ = d.run(&["sovereign", "show", "--run-id", run_id]).exits(0);
        d.approve(run_id, "cut");
        assert_eq!(d.resume(run_id).exits(0).state(), "awaiting_lifecycle_authorization");
        d.finish_run(run_id);
    }
    d.verify(&other);
    // whoever checks is told what lies in the folder and is no document of the run
    let _ = d.run(&["verify", "--run-id", &run_id]).exits(6);
    names.iter().for_each(|name| std::fs::remove_file(folder.join(name)).unwrap());
    d.verify(&run_id);
}

#[test]
fn a_refusal_that_comes_late_is_told_so_when_it_is_signed_and_is_named_when_the_run_closes() {
    let d = Deployment::new();
    let run_id = parked(&d, "lifecycle");
    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let key = key.to_str().unwrap();
    let refused = d.run(&["sovereign", "refuse", "--yes", "--run-id", &run_id, "--for", "cut", "--key", key]);
    let refused = refused.exits(0);
    assert!(refused.text("/late").contains("06-cut-leg-a-"), "{}", refused.stdout);
    let filed = refused.text("/approval_kb_id").to_owned();
    d.approve(&run_id, "lifecycle");
    assert_eq!(d.resume(&run_id).exits(0).state(), "closeout_reported");
    let late = "SELECT count(*) FROM cutter_governance.approval_answer WHERE late AND decision = 'reject'";
    assert_eq!(count(&d, late), 1);
    let report = std::fs::read_dir(kb(&d, filed.rsplit_once('/').unwrap().0)).unwrap().flatten();
    let report = report.map(|file| file.path()).find(|path| path.to_string_lossy().contains("/11-")).unwrap();
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.contains(&format!("which came late: {filed}")), "{report}");
    d.verify(&run_id);
}

/// Whoever writes the knowledge base alters copies of a genuine approval where its signature does not see
/// it: each is passed over, and the run goes on with the genuine one.
#[test]
fn a_copy_that_is_stored_otherwise_than_it_was_signed_holds_nothing_up() {
    let d = Deployment::new();
    let run_id = parked(&d, "cut");
    for gate in ["cut", "lifecycle"] {
        d.approve(&run_id, gate);
        let word = if gate == "cut" { "SG1-cut-authz" } else { "SG2-lifecycle-authz" };
        let folder = d.path("kb/knowledge/dev/laws/law-minds");
        let folder = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let genuine = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).find(|path| {
            path.file_name().unwrap().to_string_lossy().starts_with(&format!("{word}-approval"))
        });
        let text = std::fs::read_to_string(genuine.unwrap()).unwrap();
        let line = |field: &str| text.lines().find(|line| line.starts_with(field)).unwrap().to_owned();
        let signature = "-----BEGIN PGP SIGNATURE-----\n";
        let altered = [
            text.replace(&line("rows_digest: "), &format!("{} ", line("rows_digest: "))),
            text.replace(&line("nonce: "), &format!("- {}", line("nonce: "))),
            text.replace(&line("decision: "), &format!("{}\t", line("decision: "))),
            text.replace(&line("expires: "), &format!("- {}", line("expires: "))),
            text.replace(
                signature,
                &format!("{signature}rows_digest: {}\ndecision: reject\n", "0".repeat(64)),
            ),
        ];
        for (n, copy) in altered.iter().enumerate() {
            assert_ne!(*copy, text);
            std::fs::write(folder.join(format!("{word}-approval-0{n}.md")), copy).unwrap();
        }
        let state = if gate == "cut" { "awaiting_lifecycle_authorization" } else { "closeout_reported" };
        assert_eq!(d.resume(&run_id).exits(0).state(), state);
    }
    d.verify(&run_id);
}

/// Where a refusal stands and the gate was asked anew without a signed word, whoever checks is told.
#[test]
fn what_was_refused_and_asked_anew_without_a_word_fails_verify() {
    let d = Deployment::new();
    let run_id = parked(&d, "cut");
    d.approve(&run_id, "cut");
    d.register("LAW-MINDS", &law(4, "a newer text"));
    let _ = d.resume(&run_id).exits(3);
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_cut_authorization");
    d.finish_run(&run_id);
    d.verify(&run_id);
    d.tamper(
        "SET session_replication_role = replica;
         INSERT INTO cutter_governance.approval_answer (run_id, gate, occurrence, sha256, decision, approval_kb_id,
             document, fingerprint, actor, late, inserted_by)
         SELECT k.run_id, k.gate, k.occurrence, encode(sha256('x'), 'hex'), 'reject', 'x.md', 'x', repeat('A', 40), 'x', false,
             'cutter_review'
         FROM cutter_governance.approval_ask k WHERE k.gate = 'SG_cut_authz' AND k.occurrence = 1",
    );
    let verified = d.run(&["verify", "--run-id", &run_id]).exits(6);
    assert!(verified.stdout.contains("verify.asks.after_refusal"), "{}", verified.stdout);
}

/// An approval was stored already when somebody refuses: both stand, and whoever checks finds both right.
#[test]
fn a_refusal_after_a_stored_approval_verifies() {
    for gate in ["cut", "lifecycle"] {
        let d = Deployment::new();
        let run_id = parked(&d, gate);
        d.approve(&run_id, gate);
        d.register("LAW-MINDS", &law(4, "a newer text"));
        let _ = d.resume(&run_id).exits(3);
        let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
        let refuse = ["sovereign", "refuse", "--defer", "--yes", "--run-id", &run_id, "--for", gate, "--key"];
        let _ = d.run(&[&refuse[..], &[key.to_str().unwrap()]].concat()).exits(0);
        assert_eq!(d.resume(&run_id).exits(5).stop_code(), "STOP_REFUSED");
        d.verify(&run_id);
        let _ = d.run(&["why", "--run-id", &run_id]).exits(0);
    }
}

/// Somebody gives the entry up while a gate waits: the run can be voided, and the document cut anew.
#[test]
fn a_run_whose_entry_was_given_up_is_voided_and_the_document_cut_anew() {
    for gate in ["cut", "lifecycle"] {
        let d = Deployment::new();
        let run_id = parked(&d, gate);
        let entry = d.texts(
            "SELECT entry_id::text FROM cutter_governance.decision_backlog_entry WHERE run_id = $1",
            &[&run_id],
        );
        let abandon = ["backlog", "abandon", &entry[0], "--reason", "no longer wanted"];
        let _ = d.run(&abandon).exits(0);
        let _ = d.run(&["orchestrate", "stop", "--run-id", &run_id, "--reason", "given up"]);
        d.approve(&run_id, "void");
        let void = d.run(&["orchestrate", "void", "--run-id", &run_id]).exits(0);
        assert!(void.state().starts_with("voided"), "{}", void.stdout);
        let anew = d.cut("LAW-MINDS");
        assert_ne!(anew, run_id);
    }
}

/// A folder or a link under the name of an answer is nobody's answer, and takes only the name.
#[test]
fn an_answer_is_filed_beside_what_is_no_document() {
    let d = Deployment::new();
    let run_id = parked(&d, "cut");
    let folder =
        std::fs::read_dir(d.path("kb/knowledge/dev/laws/law-minds")).unwrap().next().unwrap().unwrap();
    let request = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("SG1-cut-authz-request-"))
    });
    let named = request.unwrap().to_string_lossy().replace("-request-", "-approval-");
    std::os::unix::fs::symlink("/nonexistent", &named).unwrap();
    std::fs::create_dir(named.replace("-approval-", "-approval-2-")).unwrap();
    d.approve(&run_id, "cut");
    assert!(std::path::Path::new(&named.replace("-approval-", "-approval-3-")).is_file());
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
}
