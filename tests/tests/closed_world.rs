//! `verify` over a closed world: what must be there follows from how far any source shows that a
//! run came. The cells are those of the table in docs/audit.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN, command_at, finish, law};

/// What a checker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The knowledge base, and nothing else.
    Documents,
    /// The approvers' public keys as well.
    Keys,
    /// A login that reads, and no key.
    Login,
    /// Keys and a login that reads.
    Database,
    /// Everything: the home of the operator.
    Home,
}

/// What became of the approval at the first gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    Intact,
    Unsigned,
    Missing,
    UnknownKey,
    /// An answer that was refused lies beside the one that counted.
    RefusedBeside,
}

/// A finished run, looked at from outside.
struct Case {
    d: Deployment,
    run_id: String,
    folder: PathBuf,
}

impl Case {
    fn new() -> Self {
        let d = Deployment::new();
        d.register("LAW", &law(3, "all"));
        let run_id = d.whole_run("LAW");
        let status = d.status(&run_id);
        let folder = d.path("kb").join(status.text("/kb_folder"));
        assert!(folder.is_dir(), "{}", folder.display());
        Self { d, run_id, folder }
    }

    fn approval(&self) -> PathBuf {
        let mut files = std::fs::read_dir(&self.folder).unwrap().map(|e| e.unwrap().path());
        files
            .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with("SG1-cut-authz-approval"))
            .unwrap()
    }

    /// Signs an answer to the first request with the key of somebody else.
    fn sign_elsewhere(&self) {
        let other = Deployment::new();
        let key = other.path(&format!("keys/{SOVEREIGN}.secret.asc"));
        let kb = self.d.path("kb");
        let arguments = ["sovereign", "approve", "--yes", "--run-id", &self.run_id, "--for", "cut"];
        let more = ["--kb-dir", kb.to_str().unwrap(), "--key", key.to_str().unwrap()];
        let _ = other.run(&[&arguments[..], &more].concat()).exits(0);
    }

    fn spoil(&self, approval: Approval) {
        let path = self.approval();
        match approval {
            Approval::Intact => {}
            Approval::Unsigned => {
                let signed = std::fs::read_to_string(&path).unwrap();
                let body =
                    signed.split_once("\n\n").unwrap().1.split("-----BEGIN PGP SIGNATURE").next().unwrap();
                std::fs::write(&path, body.replace("\n- ", "\n")).unwrap();
            }
            Approval::Missing => std::fs::remove_file(&path).unwrap(),
            Approval::UnknownKey => {
                std::fs::remove_file(&path).unwrap();
                self.sign_elsewhere();
            }
            Approval::RefusedBeside => self.sign_elsewhere(),
        }
    }

    fn verify(&self, source: Source) -> Ran {
        let mut arguments = vec!["verify", "--run-id", &self.run_id];
        let key = self.d.path(&format!("keys/{SOVEREIGN}.public.asc"));
        assert!(key.is_file(), "{}", key.display());
        if source == Source::Home {
            return self.d.run(&arguments);
        }
        if matches!(source, Source::Keys | Source::Database) {
            arguments.extend(["--approver", key.to_str().unwrap()]);
        }
        if matches!(source, Source::Documents | Source::Keys) {
            arguments.push("--no-database");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        let mut command = command_at(elsewhere.path(), &arguments);
        command.env("CUTTER_KB_DIR", self.d.path("kb"));
        if matches!(source, Source::Login | Source::Database) {
            command.env("CUTTER_DSN_READER", self.d.database.connection_string(Login::Ro));
        }
        finish(command)
    }

    /// The names of failures that are no consequences.
    fn failures(ran: &Ran) -> Vec<String> {
        let checks =
            ran.json["checks"].as_array().unwrap_or_else(|| panic!("{}\n{}", ran.stdout, ran.stderr));
        let failed = checks.iter().filter(|c| c["ok"] == false && c["follows_from"].is_null());
        failed.map(|c| c["invariant"].as_str().unwrap().to_owned()).collect()
    }

    fn copy(&self, below: &str) -> tempfile::TempDir {
        let kept = tempfile::tempdir().unwrap();
        copy_all(&self.d.path(below), kept.path());
        kept
    }

    fn put_back(&self, below: &str, kept: &Path) {
        std::fs::remove_dir_all(self.d.path(below)).unwrap();
        copy_all(kept, &self.d.path(below));
    }
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Source × what became of the approval: the exit code, and the failure that tells.
#[test]
fn the_table_of_sources_and_approvals() {
    use Approval as A;
    use Source as S;
    let case = Case::new();
    let kept = case.copy("kb");
    let mut wrong = Vec::new();
    for approval in [A::Intact, A::Unsigned, A::Missing, A::UnknownKey, A::RefusedBeside] {
        case.spoil(approval);
        for source in [S::Documents, S::Login, S::Keys, S::Database, S::Home] {
            let expected = match (approval, source) {
                (A::Intact | A::RefusedBeside, S::Home) => 0,
                (A::Intact | A::RefusedBeside, _) | (A::UnknownKey, S::Documents) => 7,
                _ => 6,
            };
            let ran = case.verify(source);
            if ran.code != Some(expected) {
                wrong.push(format!(
                    "{approval:?} × {source:?}: expected {expected}, observed {:?}: {}\n{}",
                    ran.code, ran.stdout, ran.stderr
                ));
                continue;
            }
            assert_eq!(ran.json["ok"], expected == 0);
            let failures = Case::failures(&ran);
            assert_eq!(failures.is_empty(), expected != 6, "{approval:?} × {source:?}: {failures:?}");
            assert!(
                failures.iter().all(|f| f.starts_with("verify.approval.SG_cut_authz.")),
                "{approval:?} × {source:?}: {failures:?}"
            );
            let open = ran.json["not_checked"].as_array().unwrap();
            assert_eq!(open.is_empty(), source == S::Home, "{approval:?} × {source:?}: {open:?}");
        }
        case.put_back("kb", kept.path());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_first_line_says_who_allowed_what_and_the_last_what_was_not_checked() {
    let case = Case::new();
    let people = case.d.people(&["verify", "--run-id", &case.run_id]).exits(0);
    let first = people.stdout.lines().next().unwrap();
    for part in
        ["LAW version 1 (sha256 ", "): ada allowed the cut at 20", "; ada allowed the enactment at 20"]
    {
        assert!(first.contains(part), "{first}");
    }
    let documents = case.d.people(&["verify", "--run-id", &case.run_id, "--no-database"]).exits(7);
    let last: Vec<&str> =
        documents.stdout.lines().rev().take_while(|line| line.starts_with("not checked: ")).collect();
    let said = "not checked: the database: left out as asked; needs cutter ";
    assert!(last.iter().any(|line| line.starts_with(said)), "{}", documents.stdout);
    // Whoever brings the keys along believes nobody else's.
    let other = Deployment::new();
    let key = other.path(&format!("keys/{SOVEREIGN}.public.asc"));
    let ran = case.d.run(&["verify", "--run-id", &case.run_id, "--approver", key.to_str().unwrap()]).exits(6);
    assert_eq!(
        Case::failures(&ran),
        [
            "verify.approval.SG_cut_authz.1.signer_brought",
            "verify.approval.SG_lifecycle_authz.1.signer_brought"
        ]
    );
    let nobody =
        case.d.run(&["verify", "--run-id", "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab"]);
    let _ = nobody.exits(66);
}

/// The record as it was at the first gate, put back over a finished run.
#[test]
fn a_record_older_than_the_evidence_is_found_by_everybody_who_looks() {
    let d = Deployment::new();
    d.register("LAW", &law(3, "all"));
    let run_id = d.cut("LAW");
    let old = tempfile::tempdir().unwrap();
    copy_all(&d.run_folder(&run_id), old.path());
    d.finish_run(&run_id);
    let run = ["--run-id", &run_id];
    let _ = d.run(&[&["orchestrate", "recover"][..], &run].concat()).exits(0);
    let _ = d.run(&[&["why"][..], &run].concat()).exits(0);
    let newest = tempfile::tempdir().unwrap();
    copy_all(&d.run_folder(&run_id), newest.path());
    std::fs::remove_dir_all(d.run_folder(&run_id)).unwrap();
    copy_all(old.path(), &d.run_folder(&run_id));

    let verified = d.run(&[&["verify"][..], &run].concat()).exits(6);
    assert!(Case::failures(&verified).contains(&"verify.record.newest".to_owned()), "{}", verified.stdout);
    assert_eq!(verified.text("/reached"), "closeout_reported");
    // by its documents alone, too
    let _ = d.run(&[&["verify", "--no-database"][..], &run].concat()).exits(6);
    let recovered = d.run(&[&["orchestrate", "recover"][..], &run].concat()).exits(6);
    assert!(
        recovered.text("/error/message").contains("older than what happened since"),
        "{}",
        recovered.stdout
    );
    let why = d.run(&[&["why"][..], &run].concat()).exits(6);
    assert!(why.text("/condition").contains("an older copy was put back"), "{}", why.stdout);
    // and nobody goes on from it: nothing is written on its word
    let folder =
        std::fs::read_dir(d.path("kb/knowledge/dev/laws/law")).unwrap().next().unwrap().unwrap().path();
    let listed = || std::fs::read_dir(&folder).unwrap().count();
    let before = listed();
    let resumed = d.resume(&run_id).exits(6);
    assert!(resumed.text("/error/message").contains("an older copy was put back"), "{}", resumed.stdout);
    assert_eq!(listed(), before);
    std::fs::remove_dir_all(d.run_folder(&run_id)).unwrap();
    copy_all(newest.path(), &d.run_folder(&run_id));
    d.verify(&run_id);
}

/// What the record, the folder and the index do not say is missed all the same.
#[test]
fn what_must_be_there_does_not_follow_from_the_record_alone() {
    let case = Case::new();
    let (kb, runs) = (case.copy("kb"), case.copy("runs"));
    let file = |name: &str| {
        let mut all = std::fs::read_dir(&case.folder).unwrap().map(|e| e.unwrap().path());
        all.find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(name)).unwrap()
    };
    let fails = |source: Source, with: &str| {
        let ran = case.verify(source).exits(6);
        let failures = Case::failures(&ran);
        assert!(failures.iter().any(|f| f == with), "{with}: {failures:?}");
    };
    std::fs::write(case.folder.join("12-forged.md"), "# forged").unwrap();
    for source in [Source::Documents, Source::Database, Source::Home] {
        fails(source, "verify.documents.no_strays");
    }
    case.put_back("kb", kb.path());
    // A run whose end is cut off is known by its line in the index.
    for name in ["08", "09", "10", "11"] {
        std::fs::remove_file(file(name)).unwrap();
    }
    for source in [Source::Documents, Source::Database, Source::Home] {
        fails(source, "verify.documents.one_for_each_phase");
    }
    case.put_back("kb", kb.path());
    // The whole folder gone: the database knows.
    std::fs::remove_dir_all(&case.folder).unwrap();
    fails(Source::Database, "verify.documents.one_for_each_phase");
    case.put_back("kb", kb.path());
    // The record without its approvals, its digest computed anew.
    case.forge_record(|record| record["sovereign_approvals"] = serde_json::json!([]));
    fails(Source::Home, "verify.approval.SG_cut_authz.there");
    fails(Source::Home, "verify.approval.SG_lifecycle_authz.there");
    case.put_back("runs", runs.path());
    case.d.verify(&case.run_id);
}

/// The record and the knowledge base as they were at the first gate: the database alone knows more.
#[test]
fn a_record_older_than_the_database_is_the_answer_to_why() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "older"));
    let run_id = d.cut("LAW");
    let (runs, kb) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy_all(&d.path("runs"), runs.path());
    copy_all(&d.path("kb"), kb.path());
    d.finish_run(&run_id);
    for (below, kept) in [("runs", &runs), ("kb", &kb)] {
        std::fs::remove_dir_all(d.path(below)).unwrap();
        copy_all(kept.path(), &d.path(below));
    }
    let why = d.run(&["why", "--run-id", &run_id]).exits(6);
    assert!(why.text("/condition").contains("an older copy was put back"), "{}", why.stdout);
    assert!(why.text("/details/0").contains("the database holds effect"), "{}", why.stdout);
    // Whoever only wants to know needs no database, and is told that it was not asked.
    let mut command = d.command(&["why", "--run-id", &run_id]);
    command.env("CUTTER_DSN_READER", "postgresql://nobody@127.0.0.1:1/none");
    let why = finish(command).exits(0);
    assert!(why.stderr.contains("the database was not asked"), "{}", why.stderr);
}

/// A document that cannot be read is one finding. The rest is looked at, and put back.
#[test]
fn an_unreadable_document_is_one_finding_and_keeps_nobody_from_the_rest() {
    let case = Case::new();
    let kept = case.copy("kb");
    let file = |name: &str| {
        let mut all = std::fs::read_dir(&case.folder).unwrap().map(|e| e.unwrap().path());
        all.find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(name)).unwrap()
    };
    let (report, approval) = (file("03"), case.approval());
    for (path, finding) in
        [(&report, "verify.document.03"), (&approval, "verify.approval.SG_cut_authz.1.unedited")]
    {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
        let ran = case.verify(Source::Home).exits(6);
        let mut failures = Case::failures(&ran);
        failures.retain(|failure| failure != "verify.documents.one_for_each_phase");
        assert!(failures.iter().all(|f| f.starts_with(finding)) && failures.len() == 1, "{failures:?}");
        assert!(ran.stdout.contains("unreadable: "), "{}", ran.stdout);
        case.put_back("kb", kept.path());
    }
    std::fs::remove_file(&report).unwrap();
    std::fs::create_dir(&report).unwrap();
    let gone = file("05");
    std::fs::remove_file(&gone).unwrap();
    let restore = || case.d.run(&["kb", "restore", "--run-id", &case.run_id]);
    let ran = restore().exits(6);
    assert_eq!(ran.json["missing"], 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("unreadable") && gone.is_file(), "{}", ran.stdout);
    std::fs::remove_dir(&report).unwrap();
    let _ = restore().exits(0);
    case.d.verify(&case.run_id);
}

/// A refusal that was recorded while its ask was open fails whatever relied on an approval of it.
#[test]
fn a_recorded_refusal_before_the_approval_that_was_used_is_a_failure() {
    let case = Case::new();
    let key = case.d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let arguments =
        ["sovereign", "refuse", "--yes", "--run-id", &case.run_id, "--for", "cut", "--reason", "no"];
    let ran = case.d.run(&[&arguments[..], &["--key", key.to_str().unwrap()]].concat()).exits(0);
    // It came after everything was done: a document that nobody heard, and no failure.
    case.d.verify(&case.run_id);
    let document = std::fs::read(case.d.path("kb").join(ran.text("/approval_kb_id"))).unwrap();
    let mut admin = case.d.database.client(Login::Admin);
    admin.batch_execute("SET session_replication_role = replica").unwrap();
    let mut insert = |late: bool, recorded_at: &str| {
        let sql = "INSERT INTO cutter_governance.approval_answer (run_id, gate, occurrence, sha256, decision,
                 approval_kb_id, document, fingerprint, actor, late, recorded_at, inserted_by)
             SELECT w.run_id, w.gate, w.occurrence, encode(sha256($1), 'hex'), 'reject', $2, $1, w.fingerprint, w.actor,
                 $3, w.recorded_at + $4::text::interval, w.inserted_by
             FROM cutter_governance.approval_answer w WHERE w.gate = 'SG_cut_authz' AND w.decision = 'approve'";
        let path = ran.text("/approval_kb_id");
        assert_eq!(admin.execute(sql, &[&document, &path, &late, &recorded_at]).unwrap(), 1);
    };
    insert(true, "1 minute");
    case.d.verify(&case.run_id);
    for (late, recorded_at, why) in
        [(false, "-1 second", "relied on over a reject by"), (true, "-1 second", "called late while open")]
    {
        case.d.tamper(
            "SET session_replication_role = replica;
             DELETE FROM cutter_governance.approval_answer WHERE decision <> 'approve'",
        );
        insert(late, recorded_at);
        let verified = case.verify(Source::Home).exits(6);
        assert!(
            Case::failures(&verified).contains(&"verify.rows.approval_answer".to_owned()),
            "{}",
            verified.stdout
        );
        assert!(verified.stdout.contains(why), "{}", verified.stdout);
        assert_eq!(case.d.run(&["backlog", "audit"]).code, Some(6));
    }
}

impl Case {
    /// Changes the newest revision as somebody does who knows how its digest is made.
    fn forge_record(&self, change: impl FnOnce(&mut serde_json::Value)) {
        use cutter_core::record::sidecar::Sidecar;
        let folder = self.d.run_folder(&self.run_id).join("rev");
        let number = |p: &PathBuf| p.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap_or(0);
        let newest =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).max_by_key(number).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&newest).unwrap()).unwrap();
        change(&mut value);
        let mut record: Sidecar = serde_json::from_value(value).unwrap();
        std::fs::write(newest, record.to_bytes().unwrap()).unwrap();
    }
}

/// Text that readers would be shown and that nobody decided: the audit begins at what stands there, too.
#[test]
fn what_no_run_stands_behind_is_named_by_the_audit() {
    let d = Deployment::new();
    d.register("LAW", &law(3, "strays"));
    let _ = d.whole_run("LAW");
    let _ = d.run(&["backlog", "audit"]).exits(0);
    let off = "SET session_replication_role = replica";
    for (what, change, back) in [
        (
            "there is no such change set",
            "UPDATE iu_core.information_unit SET change_set_id = '00000000-0000-7000-8000-0000000000ff' WHERE ordinal = 2",
            "UPDATE iu_core.information_unit SET change_set_id = (SELECT change_set_id FROM cutter_governance.cut_change_set)",
        ),
        (
            "expected version 1 of its document, observed 50",
            "UPDATE iu_core.source_version SET version_no = 50",
            "UPDATE iu_core.source_version SET version_no = 1",
        ),
        (
            "no fence of its run",
            "INSERT INTO cutter_governance.cut_change_set (change_set_id, live, run_id, document_id, source_document_id,
                 source_version_id, source_bytes, entry_id, approval_id, review_decision_id, idempotency_key, writer_digest,
                 manifest_digest, region_sha, publication_type, unit_count, actor, at)
             SELECT '00000000-0000-7000-8000-0000000000fe', false, 'made-up', document_id, source_document_id, source_version_id,
                 source_bytes, gen_random_uuid(), approval_id, gen_random_uuid(), idempotency_key, writer_digest, manifest_digest,
                 region_sha, publication_type, 0, actor, at
             FROM cutter_governance.cut_change_set",
            "DELETE FROM cutter_governance.cut_change_set WHERE run_id = 'made-up'",
        ),
        (
            "no effect enacted them",
            "DELETE FROM cutter_governance.approval_use WHERE effect = 'enact'",
            "",
        ),
    ] {
        d.tamper(&format!("{off}; {change}"));
        let found = d.run(&["backlog", "audit"]).exits(6);
        assert!(found.stdout.contains(what), "{what}: {}", found.stdout);
        if !back.is_empty() {
            d.tamper(&format!("{off}; {back}"));
            let _ = d.run(&["backlog", "audit"]).exits(0);
        }
    }
}

/// Stops that ask nothing anew leave numbers out; nobody did wrong, and nothing fails.
#[test]
fn a_run_that_was_stopped_and_then_deferred_holds() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "stopped and deferred"));
    let run_id = d.cut("LAW");
    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let defer = ["sovereign", "refuse", "--yes", "--defer", "--run-id", &run_id, "--for", "cut", "--key"];
    let _ = d.run(&["orchestrate", "stop", "--run-id", &run_id, "--reason", "look"]);
    d.approve(&run_id, "resume");
    let _ = d.resume(&run_id);
    // a gate waits, and the stop is answered: whoever says nothing more means the gate
    let shown = d.run(&["sovereign", "show", "--run-id", &run_id]).exits(0);
    assert!(shown.stdout.contains("cut_authorization"), "{}", shown.stdout);
    let _ = d.run(&[&defer[..], &[key.to_str().unwrap()]].concat()).exits(0);
    assert_eq!(d.resume(&run_id).stop_code(), "STOP_REFUSED");
    d.approve(&run_id, "resume");
    assert_eq!(d.resume(&run_id).state(), "awaiting_cut_authorization");
    d.finish_run(&run_id);
    d.verify(&run_id);
    let _ = d.run(&["backlog", "audit"]).exits(0);
}
