//! An approver's key in other hands: what stops, what `verify` says of finished runs by name, and how
//! a run that waits goes on. The drill of docs/policy.md is walked as it is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, SOVEREIGN, law};

const STOOD: &str = "key_stood";

/// A home with two approvers, and the second one's secret key.
struct Two {
    d: Deployment,
    other: Deployment,
}

impl Two {
    fn new() -> Self {
        let two = Self { d: Deployment::new(), other: Deployment::new() };
        let (ada, bob) = (two.d.path(&format!("keys/{SOVEREIGN}.secret.asc")), two.key("public"));
        let (ada, bob) = (ada.to_str().unwrap(), bob.to_str().unwrap());
        let _ = two.d.by_admin(&["approver", "add", "bob", "--public-key", bob, "--key", ada]).exits(0);
        two
    }

    /// The key of the second approver, who has no name of his own elsewhere.
    fn key(&self, half: &str) -> PathBuf {
        self.other.path(&format!("keys/{SOVEREIGN}.{half}.asc"))
    }

    /// The fingerprint of the first approver's key.
    fn fingerprint(&self) -> String {
        let listed = self.d.run(&["approver", "list"]).exits(0);
        let keys = listed.json["keys"].as_array().unwrap();
        let ada = keys.iter().find(|k| k["name"] == SOVEREIGN).unwrap();
        ada["fingerprint"].as_str().unwrap().to_owned()
    }

    /// The database's own clock.
    fn now(&self) -> String {
        let sql = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
        self.d.database.client(Login::Admin).query_one(sql, &[]).unwrap().get(0)
    }

    fn revoke(&self, since: &str) -> Ran {
        let bob = self.key("secret");
        let fingerprint = self.fingerprint();
        let arguments = ["approver", "revoke", "--fingerprint", &fingerprint, "--since", since, "--key"];
        self.d.by_admin(&[&arguments[..], &[bob.to_str().unwrap()]].concat())
    }

    fn verify(&self, run_id: &str) -> Ran {
        self.d.run(&["verify", "--run-id", run_id])
    }
}

/// The failures that are of a key, with what was observed.
fn of_keys(ran: &Ran) -> Vec<(String, String)> {
    let text = |check: &serde_json::Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = ran.json["checks"].as_array().unwrap();
    let failed = checks.iter().filter(|c| c["ok"] == false);
    failed.map(|c| (text(c, "invariant"), text(c, "observed"))).filter(|(n, _)| n.contains(STOOD)).collect()
}

#[test]
fn retirement_and_rotation_fail_nothing_and_compromise_names_what_came_after() {
    let two = Two::new();
    let d = &two.d;
    d.register("BEFORE", &law(2, "before"));
    d.register("AFTER", &law(2, "after"));
    let before = d.whole_run("BEFORE");
    let since = two.now();
    let after = d.whole_run("AFTER");
    let bob = two.key("secret");
    let _ = d.by_admin(&["approver", "retire", SOVEREIGN, "--key", bob.to_str().unwrap()]).exits(0);
    for run_id in [&before, &after] {
        let _ = two.verify(run_id).exits(0);
    }
    let _ = d.run(&["backlog", "audit"]).exits(0);
    // A compromise since a later time than anything that was recorded fails nothing either.
    let ahead = two.revoke("2999-01-01T00:00:00Z").exits(2);
    assert!(ahead.stdout.contains("revoke.since"), "{}", ahead.stdout);
    let _ = two.revoke(&two.now()).exits(0);
    let _ = two.verify(&after).exits(0);
    let _ = two.revoke(&since).exits(0);
    let _ = two.verify(&before).exits(0);
    let ran = two.verify(&after).exits(6);
    let failures = of_keys(&ran);
    assert_eq!(failures.len(), 2, "{failures:?}");
    let said = format!("of {SOVEREIGN} is compromised since");
    assert!(failures.iter().all(|(_, observed)| observed.contains(&said)), "{failures:?}");
    assert_eq!(ran.json["allowed"].as_array().unwrap().len(), 0, "nobody is shown to have allowed it");
    let audit = d.run(&["backlog", "audit"]).exits(6);
    assert_eq!(audit.json["broken_entries"], 1, "{}", audit.stdout);
    assert!(audit.stdout.contains(STOOD), "{}", audit.stdout);
}

#[test]
fn what_nothing_dates_is_not_checked_and_does_not_pass() {
    let two = Two::new();
    let d = &two.d;
    d.register("LAW", &law(2, "undated"));
    let run_id = d.whole_run("LAW");
    let undated = |ran: &Ran| {
        let open = ran.json["not_checked"].as_array().unwrap();
        open.iter().filter(|o| o["item"].as_str().unwrap().ends_with(STOOD)).count()
    };
    let ran = d.run(&["verify", "--run-id", &run_id, "--no-database"]).exits(7);
    assert_eq!(undated(&ran), 2, "{}", ran.stdout);
    // A row from before the time was kept: nothing would let it be checked, unless its key is in question.
    let off = "SET session_replication_role = replica";
    d.tamper(&format!("{off}; UPDATE cutter_governance.review_approval SET recorded_at = NULL"));
    d.tamper(&format!("{off}; DELETE FROM cutter_governance.approval_answer"));
    let ran = two.verify(&run_id);
    assert_eq!(undated(&ran), 2, "{}", ran.stdout);
    let _ = two.revoke(&two.now()).exits(0);
    let ran = two.verify(&run_id);
    assert_eq!(undated(&ran), 2, "{}", ran.stdout);
    assert!(ran.stdout.contains("is compromised since"), "{}", ran.stdout);
}

/// The commands of the drill, one list for each block.
fn drill() -> Vec<Vec<(String, i32)>> {
    let page = include_str!("../../docs/policy.md");
    let section = page.split("\n## ").find(|s| s.starts_with("A drill: ")).expect("the drill");
    let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let line = |line: &str| {
        let (command, said) = line.split_once("# exit code ")?;
        let code = said.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        Some((command.trim().to_owned(), code))
    };
    blocks.map(|block| block.lines().map(|l| line(l).unwrap_or_else(|| panic!("{l}"))).collect()).collect()
}

#[test]
fn the_drill_of_the_page_works_as_printed() {
    let two = Two::new();
    let d = &two.d;
    for name in ["BEFORE", "SINCE", "WAITS"] {
        d.register(name, &law(2, name));
    }
    let before = d.whole_run("BEFORE");
    let stolen = two.now();
    let since = d.whole_run("SINCE");
    d.append_config("\n[approval]\nlifecycle_actor = \"bob\"\n");
    let waits = d.cut("WAITS");
    d.approve(&waits, "cut");
    assert_eq!(d.resume(&waits).state(), "awaiting_lifecycle_authorization");
    let new = Deployment::new();
    let blocks = drill();
    // who revokes; what stops; what finished; what was finished since; how the one that waits goes on; the new key
    let runs = [&waits, &waits, &before, &since, &waits, &waits];
    assert_eq!(blocks.len(), runs.len(), "{blocks:?}");
    let fingerprint = two.fingerprint();
    for (block, run) in blocks.iter().zip(runs) {
        for (command, code) in block {
            let typed = command
                .replace("0123…CDEF", &fingerprint)
                .replace("2026-05-20T00:00:00Z", &stolen)
                .replace("bob.secret.asc", two.key("secret").to_str().unwrap())
                .replace("ada.new.asc", new.path(&format!("keys/{SOVEREIGN}.public.asc")).to_str().unwrap())
                .replace(" RUN", &format!(" {run}"));
            let words: Vec<&str> = typed.split_whitespace().skip(1).collect();
            let ran = if words[0] == "approver" { d.by_admin(&words) } else { d.run(&words) };
            assert_eq!(ran.code, Some(*code), "{command}\n{}\n{}", ran.stdout, ran.stderr);
        }
    }
    let ran = d.status(&waits);
    assert_eq!(ran.state(), "closeout_reported", "{}", ran.stdout);
    let listed = d.run(&["policy", "show"]).exits(0);
    assert!(listed.stdout.contains(SOVEREIGN), "{}", listed.stdout);
}

/// Two must approve the cut: one waits, the other one opens the gate, and whoever checks sees both; without
/// one of them in the rows it fails by name.
#[test]
fn where_two_must_approve_verify_wants_both() {
    let two = Two::new();
    let d = &two.d;
    d.register("LAW", &law(2, "several"));
    let ada = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let set = |said: &str| {
        d.by_admin(&["policy", "set", "--approvals-needed", said, "--key", ada.to_str().unwrap()])
    };
    for impossible in ["SG_cut_authz=3", "SG_cut_authz=0", "SG_failure_escalation=2", "SG_cut_authz"] {
        assert_ne!(set(impossible).code, Some(0), "{impossible}");
    }
    let _ = set("SG_cut_authz=2").exits(0);
    let run_id = d.cut("LAW");
    d.approve(&run_id, "cut");
    let waits = d.resume(&run_id).exits(5);
    assert_eq!(waits.json["too_few"], serde_json::json!({ "needed": 2, "approved_by": [SOVEREIGN] }));
    assert_eq!(waits.state(), "awaiting_cut_authorization");
    let bob = two.key("secret");
    let by_bob =
        ["sovereign", "approve", "--yes", "--run-id", &run_id, "--for", "cut", "--actor", "bob", "--key"];
    let _ = d.run(&[&by_bob[..], &[bob.to_str().unwrap()]].concat()).exits(0);
    assert_eq!(d.resume(&run_id).exits(0).state(), "awaiting_lifecycle_authorization");
    d.approve(&run_id, "lifecycle");
    assert_eq!(d.resume(&run_id).exits(0).state(), "closeout_reported");
    let verified = two.verify(&run_id).exits(0);
    assert_eq!(verified.json["allowed"][0]["beside"], serde_json::json!(["bob"]));
    let told = d.people(&["verify", "--run-id", &run_id]).stdout;
    assert!(told.contains(&format!("{SOVEREIGN} and bob allowed the cut")), "{told}");
    let off = "SET session_replication_role = replica";
    d.tamper(&format!("{off}; DELETE FROM cutter_governance.approval_answer WHERE actor = 'bob'"));
    let failed = two.verify(&run_id).exits(6);
    assert!(failed.stdout.contains("verify.ask.SG_cut_authz.1.enough"), "{}", failed.stdout);
}
