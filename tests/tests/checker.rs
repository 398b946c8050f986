//! A checker elsewhere: keys and names come from the database's policy, what nobody relied on fails
//! nothing, and the first line never reads like a blessing where somebody refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN, command_at, finish, law};

/// What a checker has beside the knowledge base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    Nothing,
    Login,
}

fn elsewhere(d: &Deployment, run_id: &str, has: Has, more: &[&str]) -> Ran {
    let mut arguments = vec!["verify", "--run-id", run_id];
    arguments.extend(more);
    if has == Has::Nothing {
        arguments.push("--no-database");
    }
    let home = tempfile::tempdir().unwrap();
    let mut command = command_at(home.path(), &arguments);
    command.env("CUTTER_KB_DIR", d.path("kb"));
    if has == Has::Login {
        command.env("CUTTER_DSN_READER", d.database.connection_string(Login::Ro));
    }
    finish(command)
}

fn failures(ran: &Ran) -> Vec<String> {
    let checks = ran.json["checks"].as_array().unwrap_or_else(|| panic!("{}\n{}", ran.stdout, ran.stderr));
    checks.iter().filter(|c| c["ok"] == false).map(|c| c["invariant"].as_str().unwrap().to_owned()).collect()
}

fn not_checked(ran: &Ran) -> Vec<String> {
    let open = ran.json["not_checked"].as_array().unwrap();
    open.iter().map(|item| item["item"].as_str().unwrap().to_owned()).collect()
}

fn first_line(d: &Deployment, run_id: &str) -> String {
    d.people(&["verify", "--run-id", run_id]).stdout.lines().next().unwrap().to_owned()
}

/// A second approver, whom the policy of the database alone knows, and whose key lies elsewhere.
struct Bob {
    d: Deployment,
    other: Deployment,
}

impl Bob {
    fn new() -> Self {
        let (d, other) = (Deployment::new(), Deployment::new());
        let bob = Self { d, other };
        let (ada, public) = (bob.ada(), bob.key("public"));
        let add = ["approver", "add", "bob", "--public-key", public.to_str().unwrap(), "--key"];
        let _ = bob.d.by_admin(&[&add[..], &[ada.to_str().unwrap()]].concat()).exits(0);
        bob
    }

    fn key(&self, half: &str) -> PathBuf {
        self.other.path(&format!("keys/{SOVEREIGN}.{half}.asc"))
    }

    fn ada(&self) -> PathBuf {
        self.d.path(&format!("keys/{SOVEREIGN}.secret.asc"))
    }

    fn says(&self, word: &str, run_id: &str, what: &str) {
        let key = self.key("secret");
        let arguments =
            ["sovereign", word, "--yes", "--run-id", run_id, "--for", what, "--actor", "bob", "--key"];
        let _ = self.d.run(&[&arguments[..], &[key.to_str().unwrap()]].concat()).exits(0);
    }
}

/// A stranger's answer to what a run asks, and an unsigned one, where answers lie.
fn junk(d: &Deployment, run_id: &str, what: &str) {
    let stranger = Deployment::new();
    let key = stranger.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let kb = d.path("kb");
    let arguments = ["sovereign", "approve", "--yes", "--run-id", run_id, "--for", what];
    let more = ["--kb-dir", kb.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let ran = stranger.run(&[&arguments[..], &more].concat()).exits(0);
    let path = kb.join(ran.text("/approval_kb_id"));
    let signed = std::fs::read_to_string(&path).unwrap();
    let body = signed.split_once("\n\n").unwrap().1.split("-----BEGIN PGP SIGNATURE").next().unwrap();
    let bare = path.with_file_name("an-answer-by-nobody.md");
    std::fs::write(bare, body.replace("\n- ", "\n")).unwrap();
}

#[test]
fn an_approver_whom_the_policy_alone_knows_is_judged_by_it() {
    let bob = Bob::new();
    let d = &bob.d;
    d.register("LAW", &law(2, "by the policy"));
    let run_id = d.cut("LAW");
    bob.says("approve", &run_id, "cut");
    d.finish_run(&run_id);
    d.verify(&run_id);
    let ran = elsewhere(d, &run_id, Has::Login, &[]).exits(7);
    assert_eq!(ran.json["allowed"][0]["actor"], "bob", "{}", ran.stdout);
    assert_eq!(ran.json["allowed"][1]["actor"], SOVEREIGN, "{}", ran.stdout);
    // what lies at home decides nothing where the database is read, and can be gone
    let keys = d.path(&format!("keys/{SOVEREIGN}.public.asc"));
    let kept = std::fs::read(&keys).unwrap();
    std::fs::remove_file(&keys).unwrap();
    d.verify(&run_id);
    std::fs::write(&keys, kept).unwrap();
    // where it is not read, a key that the configuration does not know is nobody's and not a stranger's
    let ran = d.run(&["verify", "--run-id", &run_id, "--no-database"]).exits(7);
    let open = not_checked(&ran);
    for item in ["verify.approval.SG_cut_authz.1.signature", "who may approve"] {
        assert!(open.iter().any(|o| o == item), "{item}: {open:?}");
    }
    // brought along, it is his; the other one's then is not believed
    let public = bob.key("public");
    let brought = ["verify", "--run-id", &run_id, "--no-database", "--approver", public.to_str().unwrap()];
    let failed = failures(&d.run(&brought).exits(6));
    assert_eq!(failed, ["verify.approval.SG_lifecycle_authz.1.signer_brought"]);
    // each cell by the login alone: unsigned, unknown key, missing
    let folder = d.path("kb").join(d.status(&run_id).text("/kb_folder"));
    let mut files = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path());
    let approval = files
        .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with("SG1-cut-authz-approval"))
        .unwrap();
    std::fs::remove_file(&approval).unwrap();
    let _ = elsewhere(d, &run_id, Has::Login, &[]).exits(6);
    junk(d, &run_id, "cut");
    let failed = failures(&elsewhere(d, &run_id, Has::Login, &[]).exits(6));
    assert!(failed.iter().any(|f| f.starts_with("verify.approval.SG_cut_authz.1.")), "{failed:?}");
}

/// The creation's key is the policy's where that knows it; a configuration's is the last resort, and said.
#[test]
fn the_key_of_the_creation_comes_from_the_policy() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "created"));
    let run_id = d.whole_run("LAW");
    let ran = d.run(&["verify", "--run-id", &run_id]).exits(0);
    let by_configuration = "whose key signed the creation".to_owned();
    assert!(!not_checked(&ran).contains(&by_configuration), "{}", ran.stdout);
    let off = "SET session_replication_role = replica";
    // a policy that was founded without the operator
    d.tamper(&format!(
        "{off}; DELETE FROM cutter_governance.policy_event; DELETE FROM cutter_governance.policy_key"
    ));
    let ran = d.run(&["verify", "--run-id", &run_id]);
    assert!(not_checked(&ran).contains(&"who may approve".to_owned()), "{}", ran.stdout);
}

#[test]
fn several_approvers_are_several_to_every_checker() {
    let bob = Bob::new();
    let d = &bob.d;
    d.register("LAW", &law(2, "several"));
    let ada = bob.ada();
    let set = ["policy", "set", "--approvals-needed", "SG_cut_authz=2", "--key", ada.to_str().unwrap()];
    let _ = d.by_admin(&set).exits(0);
    let run_id = d.cut("LAW");
    bob.says("approve", &run_id, "cut");
    d.finish_run(&run_id);
    for ran in
        [d.run(&["verify", "--run-id", &run_id]).exits(0), elsewhere(d, &run_id, Has::Login, &[]).exits(7)]
    {
        let said = &ran.json["allowed"][0];
        let mut people = vec![said["actor"].as_str().unwrap(), said["beside"][0].as_str().unwrap()];
        people.sort_unstable();
        assert_eq!(people, [SOVEREIGN, "bob"], "{}", ran.stdout);
    }
    let audit = || d.run(&["backlog", "audit"]);
    let _ = audit().exits(0);
    // the other one's document counts like the first one's
    let beside = {
        let listed = d.texts(
            "SELECT w.approval_kb_id FROM cutter_governance.approval_answer w WHERE w.gate = 'SG_cut_authz'
             AND NOT EXISTS (SELECT FROM cutter_governance.review_approval a WHERE a.sha256 = w.sha256)",
            &[],
        );
        d.path("kb").join(&listed[0])
    };
    let kept = std::fs::read(&beside).unwrap();
    std::fs::remove_file(&beside).unwrap();
    let failed = failures(&d.run(&["verify", "--run-id", &run_id]).exits(6));
    assert_eq!(failed, ["verify.approval.SG_cut_authz.1.beside.1.unedited", "verify.answers.filed"]);
    std::fs::write(&beside, &kept).unwrap();
    // a key in other hands: both commands name whose, whichever of the two it was
    let fingerprint = |of: &str| {
        let listed = d.run(&["approver", "list"]).exits(0);
        let key = listed.json["keys"].as_array().unwrap().iter().find(|k| k["name"] == of).unwrap().clone();
        key["fingerprint"].as_str().unwrap().to_owned()
    };
    let revoke =
        ["approver", "revoke", "--fingerprint", &fingerprint("bob"), "--since", "2026-01-01T00:00:00Z"];
    let _ = d.by_admin(&[&revoke[..], &["--key", ada.to_str().unwrap()]].concat()).exits(0);
    for ran in [audit().exits(6), d.run(&["verify", "--run-id", &run_id]).exits(6)] {
        assert!(ran.stdout.contains("verify.ask.SG_cut_authz.1.enough"), "{}", ran.stdout);
        assert!(ran.stdout.contains("of bob is compromised since"), "{}", ran.stdout);
    }
    let off = "SET session_replication_role = replica";
    d.tamper(&format!("{off}; DELETE FROM cutter_governance.approval_answer WHERE actor = 'bob'"));
    assert!(audit().exits(6).stdout.contains("2 people who approve"));
}

#[test]
fn what_no_decision_rests_on_fails_nothing_and_a_refusal_nobody_heard_is_named() {
    let bob = Bob::new();
    let d = &bob.d;
    d.register("LAW", &law(2, "waits"));
    let run_id = d.cut("LAW");
    let key = d.path(&format!("keys/{SOVEREIGN}.public.asc"));
    let brought = ["--approver", key.to_str().unwrap()];
    for gate in ["cut", "lifecycle"] {
        junk(d, &run_id, gate);
        for has in [Has::Nothing, Has::Login] {
            let _ = elsewhere(d, &run_id, has, &brought).exits(7);
        }
        let ran = d.run(&["verify", "--run-id", &run_id]).exits(0);
        assert!(ran.json.get("refused").is_none() && ran.json["waits"].is_array(), "{}", ran.stdout);
        let said = first_line(d, &run_id);
        assert!(said.contains(", not in force: ") && said.contains("waits for an answer"), "{said}");
        if gate == "cut" {
            d.approve(&run_id, "cut");
            assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
        }
    }
    bob.says("refuse", &run_id, "lifecycle");
    let ran = d.run(&["verify", "--run-id", &run_id]).exits(0);
    assert_eq!(ran.text("/refused/0/actor"), "bob", "{}", ran.stdout);
    assert_eq!(ran.text("/refused/0/heard"), "no", "{}", ran.stdout);
    let said = first_line(d, &run_id);
    assert!(
        said.contains(", REFUSED, not in force: ") && said.contains("bob refused the enactment in "),
        "{said}"
    );
    let ran = elsewhere(d, &run_id, Has::Login, &[]).exits(7);
    assert_eq!(ran.text("/refused/0/actor"), "bob", "{}", ran.stdout);
    // heard: it stands; asked again and allowed: it was overtaken
    assert_eq!(d.resume(&run_id).stop_code(), "STOP_REFUSED");
    let said = first_line(d, &run_id);
    assert!(
        said.contains(", REFUSED, not in force: ") && said.contains("; bob refused the enactment at 20"),
        "{said}"
    );
    assert!(!said.contains("waits"), "{said}");
    d.approve(&run_id, "resume");
    d.finish_run(&run_id);
    let said = first_line(d, &run_id);
    assert!(said.contains("): ") && said.contains("bob refused the enactment at 20"), "{said}");
    assert!(said.contains("and it was asked again"), "{said}");
}

#[test]
fn the_first_line_of_a_void_says_so_and_an_approval_that_was_asked_for_again_too() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "void"));
    let run_id = d.cut("LAW");
    d.approve(&run_id, "cut");
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
    let _ = d.run(&["orchestrate", "stop", "--run-id", &run_id, "--reason", "look"]);
    d.approve(&run_id, "void");
    let _ = d.run(&["orchestrate", "void", "--run-id", &run_id]).exits(0);
    let said = first_line(&d, &run_id);
    assert!(said.contains(", VOID, nothing of it is in force: "), "{said}");
    let ran = elsewhere(&d, &run_id, Has::Login, &[]).exits(7);
    assert_eq!(ran.text("/reached"), "voided", "{}", ran.stdout);
}

/// The last report of a run is listed by no other: without the record nothing names its sha256.
#[test]
fn what_nothing_names_is_not_checked_by_name() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "reports"));
    let run_id = d.whole_run("LAW");
    for has in [Has::Nothing, Has::Login] {
        let open = not_checked(&elsewhere(&d, &run_id, has, &[]).exits(7));
        assert!(
            open.iter().any(|o| o.starts_with("verify.document.11-final-orchestrator-report")),
            "{open:?}"
        );
        let others = open.iter().filter(|o| o.starts_with("verify.document.")).count();
        assert_eq!(others, 1, "{open:?}");
    }
    d.register("LAW", &law(3, "reports"));
    let waits = d.cut("LAW");
    let open = not_checked(&elsewhere(&d, &waits, Has::Nothing, &[]).exits(7));
    assert!(open.iter().any(|o| o.starts_with("verify.document.SG1-cut-authz-request")), "{open:?}");
    let open = not_checked(&elsewhere(&d, &waits, Has::Login, &[]).exits(7));
    assert!(!open.iter().any(|o| o.contains("-authz-request")), "{open:?}");
}

#[test]
fn a_run_that_does_not_hold_hands_out_no_statement() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "held back"));
    let run_id = d.whole_run("LAW");
    let file = d.path("run.dsse.json");
    let arguments = ["verify", "--run-id", &run_id, "--statement", file.to_str().unwrap()];
    d.tamper("SET session_replication_role = replica; UPDATE cutter_governance.review_decision SET actor = actor || 'x'");
    let ran = d.run(&arguments).exits(6);
    assert!(!file.exists() && ran.json.get("statement").is_none(), "{}", ran.stdout);
    let told = d.people(&arguments).exits(6).stdout;
    assert!(told.contains("not written") && told.contains(&format!("why --run-id {run_id}")), "{told}");
    assert!(told.lines().next().unwrap().contains(", DOES NOT HOLD: "), "{told}");
    d.tamper("SET session_replication_role = replica; UPDATE cutter_governance.review_decision SET actor = left(actor, -1)");
    let _ = d.run(&arguments).exits(0);
    assert!(file.exists());
    // one that is not closed has made none
    std::fs::remove_file(&file).unwrap();
    d.register("LAW", &law(3, "held back"));
    let waits = d.cut("LAW");
    let ran = d.run(&["verify", "--run-id", &waits, "--statement", file.to_str().unwrap()]).exits(2);
    assert!(ran.text("/error/message").contains("made no statement"), "{}{}", ran.stdout, ran.stderr);
    assert!(!file.exists());
}

/// A file named like a later document, of what the database knows cannot have happened, is a stray: it is
/// named, and misleads nobody about how far the run came.
#[test]
fn a_file_named_like_a_later_document_is_a_stray() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "strays"));
    let run_id = d.cut("LAW");
    let folder =
        std::fs::read_dir(d.path("kb/knowledge/dev/laws/law")).unwrap().next().unwrap().unwrap().path();
    let date = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name());
    let date = date.map(|n| n.into_string().unwrap()).find(|n| n.starts_with("01-")).unwrap();
    let date = date.trim_start_matches("01-source-pin-").to_owned();
    for name in ["07-structural-verify", "SG2-lifecycle-authz-request", "11-final-orchestrator-report"] {
        let stray = folder.join(format!("{name}-{date}"));
        std::fs::write(&stray, "junk").unwrap();
        let why = d.run(&["why", "--run-id", &run_id]).exits(0);
        assert!(!why.text("/condition").contains("older copy"), "{name}: {}", why.stdout);
        let _ = d.run(&["orchestrate", "recover", "--run-id", &run_id]).exits(0);
        let verified = d.run(&["verify", "--run-id", &run_id]).exits(6);
        assert_eq!(failures(&verified), ["verify.documents.no_strays"], "{name}: {}", verified.stdout);
        std::fs::remove_file(&stray).unwrap();
    }
    d.finish_run(&run_id);
    d.verify(&run_id);
}
