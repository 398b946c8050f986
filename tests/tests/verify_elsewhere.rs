//! Checked by somebody who has copies: what the database took must stand in the folder, and what is in force the
//! database says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use cutter_core::report::naming::RUNS_INDEX_PATH;
use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN, command_at, finish, law};

/// A copy of the knowledge base.
struct Copy {
    kb: tempfile::TempDir,
    folder: PathBuf,
}

impl Copy {
    fn of(d: &Deployment, run_id: &str) -> Self {
        let kb = tempfile::tempdir().unwrap();
        for (path, bytes) in d.files("kb") {
            let below = path.strip_prefix(d.path("kb")).map_or(path.clone(), Path::to_owned);
            let to = kb.path().join(below);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, bytes).unwrap();
        }
        let folder = kb.path().join(d.status(run_id).exits(0).text("/kb_folder"));
        assert!(folder.is_dir(), "{}", folder.display());
        Self { kb, folder }
    }

    fn named(&self, begins: &str) -> PathBuf {
        let mut files = std::fs::read_dir(&self.folder).unwrap().map(|e| e.unwrap().path());
        let is_it = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().starts_with(begins);
        files.find(is_it).unwrap_or_else(|| panic!("no {begins}"))
    }

    /// By this copy alone, or with a login that reads.
    fn verify(&self, login: Option<&Deployment>, run_id: &str) -> Ran {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut arguments = vec!["verify", "--run-id", run_id];
        if login.is_none() {
            arguments.push("--no-database");
        }
        let mut command = command_at(elsewhere.path(), &arguments);
        command.env("CUTTER_KB_DIR", self.kb.path());
        if let Some(d) = login {
            command.env("CUTTER_DSN_READER", d.database.connection_string(Login::Ro));
        }
        finish(command)
    }
}

fn fails(ran: &Ran, name: &str) -> bool {
    let checks = ran.json["checks"].as_array().unwrap();
    checks.iter().any(|c| c["ok"] == false && c["invariant"] == name)
}

#[test]
fn an_answer_that_the_database_took_is_missed_where_it_stood() {
    let d = Deployment::new();
    d.register("LAW", &law(3, "all"));
    let run_id = d.cut("LAW");
    d.approve(&run_id, "cut");
    let _ = d.resume(&run_id).exits(0);
    let refuse = ["sovereign", "refuse", "--yes", "--run-id", &run_id, "--defer", "--for", "lifecycle"];
    let _ = d.run(&refuse).exits(0);
    let _ = d.resume(&run_id);
    d.approve(&run_id, "resume");
    let _ = d.resume(&run_id).exits(0);
    d.approve(&run_id, "lifecycle");
    assert_eq!(d.resume(&run_id).exits(0).state(), "closeout_reported");
    d.verify(&run_id);
    let whole = Copy::of(&d, &run_id);
    let ran = whole.verify(Some(&d), &run_id).exits(7);
    assert!(!fails(&ran, "verify.answers.filed") && ran.json["in_force"] == true, "{}", ran.json);
    // the approval of the cut, the deferral, the word that let it be asked anew, the approval of that
    for begins in ["SG1-cut-authz-approval", "SG2-lifecycle-authz-approval", "SG3-resume-approval"] {
        let copy = Copy::of(&d, &run_id);
        std::fs::remove_file(copy.named(begins)).unwrap();
        let ran = copy.verify(Some(&d), &run_id).exits(6);
        assert!(fails(&ran, "verify.answers.filed"), "{begins}: {}", ran.json);
        assert_eq!(ran.json["in_force"], false, "{begins}: of a run that does not hold");
    }
    // whose request is gone, its answer is not passed over
    let copy = Copy::of(&d, &run_id);
    std::fs::remove_file(copy.named("stop-route-report")).unwrap();
    let ran = copy.verify(Some(&d), &run_id).exits(7);
    let items = ran.json["not_checked"].as_array().unwrap();
    assert!(items.iter().any(|i| i["item"].as_str().unwrap().contains("SG3-resume-approval")), "{items:?}");
    // without a database nobody knows what is in force
    let ran = whole.verify(None, &run_id).exits(7);
    assert!(ran.json["in_force"].is_null(), "{}", ran.json["in_force"]);
}

#[test]
fn what_waits_or_was_refused_is_not_in_force_by_a_report_that_somebody_filed() {
    let d = Deployment::new();
    d.register("LAW", &law(3, "all"));
    let run_id = d.cut("LAW");
    d.approve(&run_id, "cut");
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
    let folder = d.path("kb").join(d.status(&run_id).exits(0).text("/kb_folder"));
    std::fs::write(folder.join("10-lifecycle-enact-2026-01-02.md"), "x").unwrap();
    assert_eq!(d.run(&["verify", "--run-id", &run_id]).json["in_force"], false);
    let copy = Copy::of(&d, &run_id);
    assert_eq!(copy.verify(Some(&d), &run_id).json["in_force"], false);
    assert_ne!(copy.verify(None, &run_id).json["in_force"], true);
    let _ = d.run(&["sovereign", "refuse", "--yes", "--run-id", &run_id, "--for", "lifecycle"]).exits(0);
    let _ = d.resume(&run_id);
    let ran = d.run(&["verify", "--run-id", &run_id]);
    assert_eq!(ran.json["in_force"], false);
    assert_eq!(ran.json["refused"][0]["stands"], true, "{}", ran.json["refused"]);
}

#[test]
fn what_the_database_enacted_waits_for_nobody_and_its_report_is_missed() {
    let d = Deployment::new();
    d.register("LAW", &law(3, "all"));
    let run_id = d.cut("LAW");
    d.approve(&run_id, "cut");
    let _ = d.resume(&run_id).exits(0);
    d.approve(&run_id, "lifecycle");
    let index = d.path("kb").join(RUNS_INDEX_PATH);
    std::fs::create_dir_all(&index).unwrap();
    assert!(d.resume(&run_id).state().starts_with("stopped_"), "it cannot close");
    let copy = Copy::of(&d, &run_id);
    std::fs::remove_file(copy.named("10-lifecycle-enact")).unwrap();
    let ran = copy.verify(Some(&d), &run_id).exits(7);
    assert!(ran.json["waits"].is_null(), "{}", ran.json["waits"]);
    let items = ran.json["not_checked"].as_array().unwrap();
    assert!(items.iter().any(|i| i["item"] == "the report of the enactment"), "{items:?}");
    std::fs::remove_dir(&index).unwrap();
    assert_eq!(d.resume(&run_id).exits(0).state(), "closeout_reported");
    d.verify(&run_id);
    // once it is closed, a report that is gone is gone
    let copy = Copy::of(&d, &run_id);
    for report in ["10-lifecycle-enact", "11-final"] {
        std::fs::remove_file(copy.named(report)).unwrap();
    }
    std::fs::remove_file(copy.kb.path().join(RUNS_INDEX_PATH)).unwrap();
    let ran = copy.verify(Some(&d), &run_id).exits(6);
    assert!(fails(&ran, "verify.documents.one_for_each_phase"), "{}", ran.json);
}

/// A run's folder is all that lies in it, directly or deeper, for the run and for whoever checks.
#[test]
fn what_lies_deeper_in_the_folder_is_the_same_to_everybody() {
    let d = Deployment::new();
    d.register("LAW", &law(3, "deep"));
    let run_id = d.cut("LAW");
    let folder = d.path("kb").join(d.status(&run_id).exits(0).text("/kb_folder"));
    let deeper = |begins: &str| {
        let inside = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path());
        let is_it = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().starts_with(begins);
        let from = inside.into_iter().find(is_it).unwrap();
        std::fs::create_dir_all(folder.join("0/sub")).unwrap();
        std::fs::rename(&from, folder.join("0/sub").join(from.file_name().unwrap())).unwrap();
    };
    for (what, begins) in [("cut", "SG1-cut-authz-approval"), ("lifecycle", "SG2-lifecycle-authz-approval")] {
        d.approve(&run_id, what);
        deeper(begins);
        let _ = d.resume(&run_id).exits(0);
    }
    d.verify(&run_id);
    for login in [Some(&d), None] {
        let ran = Copy::of(&d, &run_id).verify(login, &run_id).exits(7);
        assert_eq!(ran.json["checks"].as_array().unwrap().iter().find(|c| c["ok"] == false), None);
    }
    // a stray is named by where it lies
    std::fs::write(folder.join("0/notes.md"), "hi").unwrap();
    for ran in [d.run(&["verify", "--run-id", &run_id]), Copy::of(&d, &run_id).verify(None, &run_id)] {
        let ran = ran.exits(6);
        assert!(ran.stdout.contains("0/notes.md"), "{}", ran.stdout);
    }
    // and so is a refusal that nobody heard yet
    d.register("OTHER", &law(3, "other"));
    let run_id = d.cut("OTHER");
    let _ = d.run(&["sovereign", "refuse", "--yes", "--run-id", &run_id]).exits(0);
    let copy = Copy::of(&d, &run_id);
    let filed = copy.named("SG1-cut-authz-approval");
    std::fs::rename(&filed, copy.folder.join("word.md")).unwrap();
    std::fs::create_dir(copy.folder.join("sub")).unwrap();
    std::fs::rename(copy.folder.join("word.md"), copy.folder.join("sub/word.md")).unwrap();
    let ran = copy.verify(Some(&d), &run_id);
    assert!(ran.json["refused"][0]["approval"].as_str().unwrap().ends_with("sub/word.md"), "{}", ran.json);
}

/// One of two approvals is no failure while the run waits for the other.
#[test]
fn who_has_approved_so_far_fails_nothing() {
    let (d, other) = (Deployment::new(), Deployment::new());
    let key = |d: &Deployment, half: &str| d.path(&format!("keys/{SOVEREIGN}.{half}.asc"));
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    let (ada, bob) = (shown(&key(&d, "secret")), shown(&key(&other, "public")));
    let _ = d.by_admin(&["approver", "add", "bob", "--public-key", &bob, "--key", &ada]).exits(0);
    let _ = d.by_admin(&["policy", "set", "--approvals-needed", "SG_cut_authz=2", "--key", &ada]).exits(0);
    d.register("LAW", &law(3, "two"));
    let run_id = d.cut("LAW");
    d.approve(&run_id, "cut");
    let copy = Copy::of(&d, &run_id);
    let elsewhere = tempfile::tempdir().unwrap();
    let own = shown(&key(&d, "public"));
    let arguments = ["verify", "--run-id", &run_id, "--no-database", "--approver", &own, "--approver", &bob];
    let mut command = command_at(elsewhere.path(), &arguments);
    command.env("CUTTER_KB_DIR", copy.kb.path());
    let ran = finish(command).exits(7);
    assert_eq!(ran.json["checks"].as_array().unwrap().iter().find(|c| c["ok"] == false), None);
}
