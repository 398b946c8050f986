//! Two hosts that do not trust each other, as two people with two configurations: one cuts and has no login
//! that stores decisions, the other stores decisions and has no other login, no key and no run. They share a
//! database and a knowledge base; the approver has the knowledge base and a key.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, Running, SOVEREIGN, Signal, command_at, finish, law};

/// The deployment's own home cuts; the other two are people of their own.
struct Hosts {
    cuts: Deployment,
    reviews: tempfile::TempDir,
    approves: tempfile::TempDir,
    kb: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        Self::with(false)
    }

    /// `decides`: the host that cuts has the reviewer's login as well.
    fn with(decides: bool) -> Self {
        let cuts = Deployment::new();
        let folder = || tempfile::tempdir().unwrap();
        let (reviews, approves, kb) = (folder(), folder(), folder());
        let path = cuts.path("cutter.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let kept = text.lines().filter(|line| decides || !line.starts_with("reviewer = "));
        let kept: Vec<&str> = kept.collect();
        assert_eq!(kept.len() + usize::from(!decides), text.lines().count());
        let text = format!("kb_dir = {:?}\n{}\n", kb.path(), kept.join("\n"));
        std::fs::write(&path, text).unwrap();
        // The approver's key is nowhere but with the approver.
        let key = format!("{SOVEREIGN}.secret.asc");
        std::fs::rename(cuts.path("keys").join(&key), approves.path().join(&key)).unwrap();
        let dsn = cuts.database.connection_string(Login::Review);
        let text =
            format!("actor = \"rita\"\nkb_dir = {:?}\n\n[database]\nreviewer = \"{dsn}\"\n", kb.path());
        std::fs::write(reviews.path().join("cutter.toml"), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(reviews.path().join("cutter.toml"), mode).unwrap();
        Self { cuts, reviews, approves, kb }
    }

    fn reviewing(&self, arguments: &[&str]) -> Command {
        command_at(self.reviews.path(), arguments)
    }

    /// The review duty until nothing is left to store.
    fn review(&self) -> Ran {
        finish(self.reviewing(&["worker", "--duty", "review", "--drain", "--poll", "50"])).exits(0)
    }

    fn answer(&self, run_id: &str, verb: &str, what: &str) -> String {
        let key = self.approves.path().join(format!("{SOVEREIGN}.secret.asc"));
        let (key, kb) = (key.to_str().unwrap(), self.kb.path().to_str().unwrap());
        let arguments = [
            "--actor",
            SOVEREIGN,
            "sovereign",
            verb,
            "--yes",
            "--run-id",
            run_id,
            "--for",
            what,
            "--kb-dir",
            kb,
        ];
        let ran = finish(command_at(self.approves.path(), &[&arguments[..], &["--key", key]].concat()));
        ran.exits(0).text("/approval_kb_id").to_owned()
    }

    fn count(&self, sql: &str) -> i64 {
        self.cuts.database.client(Login::Admin).query_one(sql, &[]).unwrap().get(0)
    }
}

const CUT: &str = "SELECT count(*) FROM cutter_governance.cut_change_set";
const ENACTED: &str = "SELECT count(*) FROM iu_core.information_unit WHERE lifecycle_status = 'enacted'";

fn files(below: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![below.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// The run of the only document.
fn run_of(d: &Deployment) -> String {
    d.run(&["orchestrate", "list"]).exits(0).text("/runs/0/run_id").to_owned()
}

fn denied(client: &mut postgres::Client, statement: &str) {
    let error = client.batch_execute(statement).unwrap_err();
    let code = error.as_db_error().unwrap().code().code().to_owned();
    assert_eq!(code, "42501", "{statement}: {error}");
}

#[test]
fn together_and_unattended_they_enact_what_neither_does_alone() {
    let h = Hosts::new();
    let d = &h.cuts;
    let _ = d.run(&["doctor"]).exits(0);
    let doctor = finish(h.reviewing(&["doctor"])).exits(0);
    assert!(doctor.stdout.contains("--duty review"), "{}", doctor.stdout);
    d.register("LAW", &law(4, "two duties"));
    let item = d.run(&["queue", "add", "--document-id", "LAW"]).exits(0).json["item"].to_string();
    let gate = |name: &str| d.run(&["queue", "show", &item]).exits(0).text("/gate") == name;
    let mut worker = d.start(&["worker", "--concurrency", "1", "--lease", "3", "--poll", "100"]);
    until("the first gate", || gate("SG_cut_authz"));
    let run = run_of(d);
    h.answer(&run, "approve", "cut");

    // The host that cuts alone: the answer stands, and it waits.
    std::thread::sleep(Duration::from_secs(3));
    assert!(gate("SG_cut_authz"));
    assert_eq!(h.count(CUT), 0);
    let mut exec = d.database.client(Login::Exec);
    denied(&mut exec, "INSERT INTO cutter_governance.review_approval DEFAULT VALUES");
    denied(&mut exec, "SELECT cutter_governance.fn_decision_record('', '', 1, '', '', true, '')");
    denied(&mut exec, "SELECT cutter_governance.fn_answer_record('', '', 1, '', '', '', '', '')");

    // The host that reviews alone: it has no way to cut, nor to drive.
    let resumed = finish(h.reviewing(&["orchestrate", "resume", "--run-id", &run])).exits(66);
    assert!(resumed.stdout.contains("STOP_RUN_NOT_FOUND"), "{}", resumed.stdout);
    let _ = finish(h.reviewing(&["worker", "--drain"])).exits(2);
    let mut review = d.database.client(Login::Review);
    denied(&mut review, "SELECT iu_core.fn_iu_enact(NULL, NULL, NULL, NULL, NULL)");
    denied(&mut review, "SELECT cutter_governance.fn_approval_use(NULL, '', 'leg_a', NULL, now())");
    denied(&mut review, "INSERT INTO iu_core.information_unit DEFAULT VALUES");
    let reviewer_alone = finish(h.reviewing(&["worker", "--duty", "review", "--drain", "--poll", "50"]));
    assert_eq!(reviewer_alone.exits(0).json["asks"]["decided"], 1);

    // Together: the decision wakes the run. The duty is killed and started again.
    let duty = || Running::start(h.reviewing(&["worker", "--duty", "review", "--poll", "100"]));
    let mut first = duty();
    until("the second gate", || gate("SG_lifecycle_authz"));
    assert_eq!((h.count(ENACTED), h.count(CUT)), (0, 1));
    assert!(first.signal(Signal::KILL));
    let mut second = duty();
    h.answer(&run, "approve", "lifecycle");
    until("the end", || d.run(&["queue", "show", &item]).exits(0).text("/state") == "completed");
    assert!(second.signal(Signal::TERM));
    let told = second.wait().exits(0);
    assert!(told.stderr.contains("decided") && told.stderr.contains(&run), "{}", told.stderr);
    assert!(worker.signal(Signal::TERM));
    let _ = worker.wait().exits(0);
    assert_eq!(h.count(ENACTED), 5);
    d.verify(&run);
    assert_eq!(
        std::fs::read_dir(h.reviews.path()).unwrap().count(),
        1,
        "nothing of a run is on the host that reviews"
    );
}

#[test]
fn the_duty_writes_nothing_to_the_knowledge_base_and_a_refusal_is_carried_out() {
    for (verb, status) in [("refuse", "reviewed_rejected"), ("approve", "cut_applied")] {
        let h = Hosts::new();
        h.cuts.register("LAW", &law(2, "read only"));
        let run = h.cuts.cut("LAW");
        h.answer(&run, verb, "cut");
        let waits = h.cuts.resume(&run).exits(5);
        assert!(!waits.text("/awaits_decision").is_empty(), "{}", waits.stdout);
        let before = files(h.kb.path());
        let reviewed = h.review();
        assert_eq!(reviewed.json["asks"]["decided"], 1, "{}", reviewed.stderr);
        assert_eq!(files(h.kb.path()), before);
        let on = h.cuts.resume(&run);
        let expected = if verb == "refuse" { "stopped_refused" } else { "awaiting_lifecycle_authorization" };
        assert_eq!(on.state(), expected, "{}\n{}", on.stdout, on.stderr);
        let entry = "SELECT count(*) FROM cutter_governance.decision_backlog_entry WHERE status = ";
        let status = if status == "cut_applied" { "verified_complete" } else { status };
        assert_eq!(h.count(&format!("{entry}'{status}'")), 1);
    }
}

#[test]
fn a_host_with_both_logins_and_the_duty_at_once_write_one_set_of_rows() {
    let h = Hosts::with(true);
    let d = &h.cuts;
    d.register("LAW", &law(3, "both at once"));
    let item = d.run(&["queue", "add", "--document-id", "LAW"]).exits(0).json["item"].to_string();
    let mut worker = d.start(&["worker", "--concurrency", "1", "--lease", "3", "--poll", "50"]);
    let mut duty = Running::start(h.reviewing(&["worker", "--duty", "review", "--poll", "50"]));
    for (gate, what) in [("SG_cut_authz", "cut"), ("SG_lifecycle_authz", "lifecycle")] {
        until(gate, || d.run(&["queue", "show", &item]).exits(0).text("/gate") == gate);
        h.answer(&run_of(d), "approve", what);
    }
    until("the end", || d.run(&["queue", "show", &item]).exits(0).text("/state") == "completed");
    for running in [&mut worker, &mut duty] {
        assert!(running.signal(Signal::TERM));
    }
    let _ = (worker.wait().exits(0), duty.wait().exits(0));
    assert_eq!(h.count("SELECT count(*) FROM cutter_governance.review_approval"), 2);
    d.verify(&run_of(d));
}

/// What the reviewer's login can write of any bytes: by the functions, or past them.
fn forge(h: &Hosts, run: &str, by_function: bool) {
    let mut review = h.cuts.database.client(Login::Review);
    let row = review
        .query_one(
            "SELECT k.gate, k.occurrence, k.nonce, k.request_sha256, k.rows_digest, k.document_id, k.ask::text
             FROM cutter_governance.approval_ask k WHERE k.run_id = $1",
            &[&run],
        )
        .unwrap();
    let (gate, n): (String, i32) = (row.get(0), row.get(1));
    let text = |i: usize| row.get::<_, String>(i);
    let document = format!(
        "approval_type: cut_authorization\ndecision: approve\ngate: {gate}\noccurrence: {n}\nrun_id: {run}\n\
         document_id: {}\nnonce: {}\nrequest_sha256: {}\nrows_digest: {}\nactor: {SOVEREIGN}\nexpires: never\n",
        text(5),
        text(2),
        text(3),
        text(4)
    );
    let bytes = document.as_bytes();
    if by_function {
        let print = "0".repeat(40);
        review
            .execute(
                "SELECT cutter_governance.fn_answer_record($1, $2, $3, 'approve', 'a/forged.md', $4, $5, $6)",
                &[&run, &gate, &n, &bytes, &print, &SOVEREIGN],
            )
            .unwrap();
        let sha256 = "SELECT encode(sha256($1), 'hex')";
        let sha256: String = review.query_one(sha256, &[&bytes]).unwrap().get(0);
        review
            .execute(
                "SELECT cutter_governance.fn_decision_record($1, $2, $3, $4, $4, true, 'mallory')",
                &[&run, &gate, &n, &sha256],
            )
            .unwrap();
        return;
    }
    let decision = uuid::Uuid::from_u128(7);
    let mut transaction = review.transaction().unwrap();
    transaction
        .execute(
            "SELECT cutter_governance.fn_review_decision_record($1, $2, $3, 'cut_authorization', 'approve', NULL, NULL,
                 NULL, NULL, NULL, $4, $5, $6, now())",
            &[&decision, &run, &text(5), &text(2), &text(3), &SOVEREIGN],
        )
        .unwrap();
    transaction
        .execute(
            "INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type,
                 decision, approval_kb_id, document, sha256, nonce, fingerprint, actor, request_sha256, at)
             VALUES ($1, $1, $2, $3, 'cut_authorization', 'approve', 'a/forged.md', $4, encode(sha256($4), 'hex'), $5,
                 '', $6, $7, now())",
            &[&decision, &run, &text(5), &bytes, &text(2), &SOVEREIGN, &text(3)],
        )
        .unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_row_that_was_forged_with_the_reviewers_login_is_refused_by_name() {
    for by_function in [true, false] {
        let h = Hosts::new();
        let d = &h.cuts;
        d.register("LAW", &law(2, "a forged row"));
        let run = d.cut("LAW");
        forge(&h, &run, by_function);
        // A genuine answer beside it changes nothing of that.
        h.answer(&run, "approve", "cut");
        let stopped = d.resume(&run).exits(3);
        assert_eq!(stopped.stop_code(), "STOP_DRIFT_approvals", "{}", stopped.stdout);
        let row = "SELECT min(approval_id::text) FROM cutter_governance.review_approval";
        let id: String = d.database.client(Login::Admin).query_one(row, &[]).unwrap().get(0);
        let why = d.run(&["why", "--run-id", &run]).exits(0).stdout;
        assert!(why.contains(&id) && why.contains("cutter_review"), "{why}");
        assert_eq!(h.count(CUT), 0, "nothing is done");
        // It asks anew; the forged row counts for nothing, and whoever verifies is told of it.
        let asks = d.resume(&run).exits(0);
        assert_eq!(asks.state(), "awaiting_cut_authorization", "{}", asks.stdout);
        for what in ["cut", "lifecycle"] {
            h.answer(&run, "approve", what);
            let reviewed = h.review();
            assert_eq!(reviewed.json["asks"]["decided"], 1, "{}", reviewed.stderr);
            let _ = d.resume(&run).exits(0);
        }
        assert_eq!(d.status(&run).exits(0).state(), "closeout_reported");
        assert_eq!(h.count(ENACTED), 3);
        let verified = d.run(&["verify", "--run-id", &run]).exits(6);
        assert!(verified.stdout.contains("verify.rows.re"), "{}", verified.stdout);
    }
}
