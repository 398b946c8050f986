//! Approvals that a real gpg signed, through the program: those that do not count are named with
//! the invariant that they break, and the one that a person makes by hand, from nothing but what
//! the request says, counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../cutter-kb/tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cutter_core::base::digest::Digest;
use cutter_pg::login::Login;
use cutter_tests::cli::{Deployment, Ran, law};
use serde_json::Value;
use support::Gpg;

const OLD: [&str; 2] = ["--faked-system-time", "20200101T120000!"];

struct World {
    d: Deployment,
    gpg: Gpg,
    run_id: String,
    /// The file that the run waits for.
    approval: PathBuf,
    /// The request, as the sovereign reads it.
    request: String,
}

fn generate(gpg: &Gpg, user: &str, algorithm: &str, expire: &str, extra: &[&str]) {
    let mut arguments = extra.to_vec();
    arguments.extend(["--quick-generate-key", user, algorithm, "sign", expire]);
    gpg.run(&arguments, b"");
}

/// What the request tells a person to do by hand: the block without the fences, the blanks
/// filled in.
fn by_hand(request: &str, actor: &str) -> String {
    let from = request.find("```text\n# Approval").expect("the request shows what to sign") + 8;
    let block = &request[from..];
    let block = &block[..block.find("```").unwrap()];
    let sha256 = Digest::of(request.as_bytes()).to_hex();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let filled = block
        .replace("<sha256 of this document>", &sha256)
        .replace("<your name>", actor)
        .replace("<now, as 2026-05-20T10:11:12Z>", &now);
    assert!(!filled.contains('<'), "blanks are left: {filled}");
    filled
}

impl World {
    /// A run at SG_1 that any of these keys may answer.
    fn new(test: &str, keys: &[(&str, &str)]) -> Option<Self> {
        let gpg = Gpg::new(test)?;
        let d = Deployment::new();
        for (user, kind) in keys {
            match *kind {
                "expired" => generate(&gpg, user, "ed25519", "2020-02-01", &OLD),
                algorithm => generate(&gpg, user, algorithm, "0", &[]),
            }
            let file = d.path(&format!("keys/{user}.gpg"));
            std::fs::write(&file, gpg.export(user)).unwrap();
            let fingerprint = gpg.fingerprint(user);
            d.append_config(&format!(
                "\n[actors.{user}]\nrole = \"sovereign\"\nfingerprint = \"{fingerprint}\"\npublic_key = {:?}\n",
                file.to_str().unwrap()
            ));
        }
        let _ = d.by_admin(&["approver", "import", "--found-anew"]).exits(0);
        d.register("LAW-PGP", &law(3, "the keys"));
        let run_id = d.cut("LAW-PGP");
        let status = d.status(&run_id).exits(0);
        let at = |pointer| d.path("kb").join(status.text(pointer));
        let request = std::fs::read_to_string(at("/paused_at/request_kb_id")).unwrap();
        let approval = at("/paused_at/approval_path");
        Some(Self { d, gpg, run_id, approval, request })
    }

    fn clearsign(&self, user: &str, text: &str, extra: &[&str]) -> String {
        let mut arguments = vec!["--local-user", user];
        arguments.extend(extra);
        arguments.push("--clearsign");
        String::from_utf8(self.gpg.run(&arguments, text.as_bytes())).unwrap()
    }

    fn answer_of(&self, user: &str, extra: &[&str]) -> String {
        self.clearsign(user, &by_hand(&self.request, user), extra)
    }

    /// Resumes with an answer under a name of its own.
    fn resume_with(&self, name: &str, document: &str) -> Ran {
        let path = PathBuf::from(self.approval.to_str().unwrap().replace(".md", &format!("-{name}.md")));
        std::fs::write(&path, document).unwrap();
        let kb_id = path.strip_prefix(self.d.path("kb")).unwrap().to_str().unwrap();
        self.d.run(&["orchestrate", "resume", "--run-id", &self.run_id, "--approval-kb-id", kb_id])
    }

    /// Refused with exit 5, the invariant named, what was expected and observed told; nothing
    /// written.
    fn refused(&self, name: &str, document: &str, invariant: &str, code: &str) {
        let before = self.d.counts();
        let ran = self.resume_with(name, document).exits(5);
        assert_eq!(ran.stop_code(), "STOP_APPROVAL_INVALID", "{name}: {}", ran.stdout);
        let broken = ran.json.pointer("/error/invariants").and_then(Value::as_array).unwrap();
        let found = broken.iter().find(|b| b["invariant"] == invariant);
        let found = found.unwrap_or_else(|| panic!("{name}: {invariant} is not named: {}", ran.stdout));
        let observed = found["observed"].as_str().unwrap();
        assert!(observed.contains(code), "{name}: expected {code}, said {observed}");
        assert!(!found["expected"].as_str().unwrap().is_empty(), "{name}");
        assert!(ran.stderr.contains(invariant), "{name}: people are told, too: {}", ran.stderr);
        let mut added = self.d.added_since(&before);
        // entering raises the fence of a run that has one; no row is added by that either
        added.retain(|_, n| *n != 0);
        assert!(added.is_empty(), "{name}: {added:?}");
        assert_eq!(self.d.status(&self.run_id).exits(0).state(), "awaiting_cut_authorization", "{name}");
    }
}

#[test]
fn signed_by_hand_with_plain_gpg_an_approval_counts() {
    let Some(w) = World::new("approval by hand", &[("hand", "ed25519"), ("rsa", "rsa3072")]) else { return };
    std::fs::write(&w.approval, w.answer_of("hand", &[])).unwrap();
    let ran = w.d.resume(&w.run_id).exits(0);
    assert_eq!(ran.state(), "awaiting_lifecycle_authorization");
    // SG_2 wants who was asked there
    w.d.finish_run(&w.run_id);
    w.d.verify(&w.run_id);
    let fingerprints = w.d.texts("SELECT fingerprint FROM cutter_governance.review_approval ORDER BY 1", &[]);
    assert!(fingerprints.contains(&w.gpg.fingerprint("hand")), "{fingerprints:?}");
}

#[test]
fn approvals_that_do_not_count_are_refused_with_the_invariant_that_they_break() {
    let keys = [("good", "rsa2048"), ("revoked", "ed25519"), ("expired", "expired")];
    let Some(w) = World::new("approvals refused", &keys) else { return };
    generate(&w.gpg, "stranger", "ed25519", "0", &[]);
    let good = w.answer_of("good", &[]);
    let text = by_hand(&w.request, "good");

    let signature = "approval.signature";
    w.refused("unsigned", &text, signature, "unsigned");
    let by_stranger = w.clearsign("stranger", &text, &[]);
    w.refused("stranger", &by_stranger, signature, "unknown_key");
    w.refused("sha1", &w.answer_of("good", &["--digest-algo", "SHA1"]), signature, "sha1");
    w.refused("expired", &w.answer_of("expired", &OLD), signature, "expired_key");
    w.refused("before", &format!("Read this first.\n{good}"), signature, "text_outside_block");
    w.refused("behind", &format!("{good}decision: approve\n"), signature, "text_outside_block");
    w.refused("changed", &good.replace("occurrence: 1", "occurrence: 2"), signature, "bad_signature");
    // the operator's own key is known, but nobody pinned it as an approver's
    let operator = w.d.path("keys/operator.secret.asc");
    w.gpg.run(&["--import", operator.to_str().unwrap()], b"");
    let by_operator = w.clearsign("op", &by_hand(&w.request, "op"), &[]);
    w.refused("operator", &by_operator, "approval.signer_pinned", "");
    // another person's name over a good signature
    let borrowed = w.clearsign("good", &by_hand(&w.request, "revoked"), &[]);
    w.refused("borrowed", &borrowed, "approval.actor_matches_key", "");

    let while_good = w.answer_of("revoked", &[]);
    w.gpg.revoke("revoked");
    std::fs::write(w.d.path("keys/revoked.gpg"), w.gpg.export("revoked")).unwrap();
    w.refused("revoked", &while_good, signature, "revoked_key");

    // and none of them is in the way of the one that counts
    std::fs::write(&w.approval, good).unwrap();
    let ran = w.d.resume(&w.run_id).exits(0);
    assert_eq!(ran.state(), "awaiting_lifecycle_authorization");
}

/// Waits until some session of the database waits for a lock.
fn wait_for_a_blocked_session(d: &Deployment) {
    let sql = "SELECT application_name FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let until = Instant::now() + Duration::from_secs(60);
    while d.texts(sql, &[]).is_empty() {
        assert!(Instant::now() < until, "nobody waits for the lock");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn edited_after_it_was_validated_an_approval_stops_the_run() {
    let Some(w) = World::new("approval edited", &[("good", "ed25519")]) else { return };
    let good = w.answer_of("good", &[]);
    std::fs::write(&w.approval, &good).unwrap();
    // the document's lock holds the run up between its validation of the approval and leg A
    let mut blocker = w.d.database.client(Login::Admin);
    let mut lock = blocker.transaction().unwrap();
    lock.execute("SELECT 1 FROM iu_core.source_document FOR UPDATE", &[]).unwrap();
    let running = w.d.start(&["orchestrate", "resume", "--run-id", &w.run_id]);
    wait_for_a_blocked_session(&w.d);
    std::fs::write(&w.approval, good.replace("decision: approve", "decision:  approve")).unwrap();
    lock.commit().unwrap();
    let ran = running.wait().exits(5);
    assert_eq!(ran.stop_code(), "STOP_APPROVAL_CHANGED", "{}", ran.stdout);
    assert!(w.d.texts("SELECT unit_id::text FROM iu_core.information_unit", &[]).is_empty());
    let next = ran.text("/stop/next");
    assert!(next.starts_with("cutter "), "{next}");
}
