//! A gate that asks once more: after a deferral that somebody swept, and after an answer that counts no more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use cutter_tests::cli::{Deployment, SOVEREIGN, command_at, finish, law};

/// A pass of anybody's that sweeps a deferred entry is what asking anew would do itself: it holds nobody.
#[test]
fn a_deferral_that_was_swept_is_asked_anew() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "deferred and swept"));
    let run_id = d.cut("LAW");
    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let defer = ["sovereign", "refuse", "--yes", "--defer", "--run-id", &run_id, "--for", "cut", "--key"];
    let _ = d.run(&[&defer[..], &[key.to_str().unwrap()]].concat()).exits(0);
    assert_eq!(d.resume(&run_id).stop_code(), "STOP_REFUSED");
    let _ = d.run(&["backlog", "sweep"]).exits(0);
    d.approve(&run_id, "resume");
    assert_eq!(d.resume(&run_id).state(), "awaiting_cut_authorization");
    let ran = d.run(&["verify", "--run-id", &run_id]);
    assert_eq!(ran.json["waits"], serde_json::json!(["SG_cut_authz"]), "{}", ran.stdout);
    assert_eq!(ran.json["refused"][0]["stands"], false, "{}", ran.stdout);
    d.finish_run(&run_id);
    d.verify(&run_id);
    let _ = d.run(&["backlog", "audit"]).exits(0);
}

/// Of a gate that was asked twice the last answer opened it: the one before stands for nothing where that
/// one is gone, or has another name.
#[test]
fn an_answer_to_a_request_that_was_asked_anew_is_none() {
    for gate in ["cut", "lifecycle"] {
        let d = Deployment::new();
        d.register("LAW", &law(2, "asked twice"));
        let run_id = d.cut("LAW");
        if gate == "lifecycle" {
            d.approve(&run_id, "cut");
            assert_eq!(d.resume(&run_id).state(), "awaiting_lifecycle_authorization");
        }
        d.approve(&run_id, gate);
        d.tamper("GRANT INSERT ON iu_core.unit_anchor TO cutter_ro");
        let _ = d.resume(&run_id);
        let _ = d.resume(&run_id);
        d.finish_run(&run_id);
        d.verify(&run_id);
        let mut answers = d.files("kb").into_iter().map(|(path, _)| path);
        let second = answers.find(|path| path.to_str().unwrap().contains("authz-approval-2")).unwrap();
        let (home, keys) = (tempfile::tempdir().unwrap(), d.path(&format!("keys/{SOVEREIGN}.public.asc")));
        let elsewhere = |more: &[&str]| {
            let arguments = [&["verify", "--run-id", &run_id, "--json"], more].concat();
            let mut command = command_at(home.path(), &arguments);
            command.env("CUTTER_KB_DIR", d.path("kb"));
            finish(command)
        };
        let brought = ["--approver", keys.to_str().unwrap()];
        assert_eq!(elsewhere(&[]).code, Some(7));
        let bytes = fs::read(&second).unwrap();
        fs::remove_file(&second).unwrap();
        for more in [&[][..], &brought] {
            let ran = elsewhere(more);
            assert_eq!(ran.code, Some(6), "{gate} {more:?}: {}{}", ran.stdout, ran.stderr);
        }
        fs::write(second, bytes).unwrap();
    }
}

/// Who refused plainly takes nothing back by approving; whose refusal does not read plainly does.
#[test]
fn only_a_word_that_is_not_plain_is_taken_back() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "refused, and approved"));
    let run_id = d.cut("LAW");
    let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
    let refuse = ["sovereign", "refuse", "--yes", "--run-id", &run_id, "--for", "cut", "--key"];
    let refused = d.run(&[&refuse[..], &[key.to_str().unwrap()]].concat()).exits(0);
    let told = |ran: &cutter_tests::cli::Ran| ran.stderr.contains("it says plainly what");
    assert!(!told(&d.answer(&run_id, "cut", &[]).exits(0)));
    let path = d.path("kb").join(refused.text("/approval_kb_id"));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("See below.\n\n{text}")).unwrap();
    let ran = d.answer(&run_id, "cut", &[]).exits(0);
    assert!(told(&ran), "{}", ran.stderr);
}

/// A request that somebody edits while it is refused, and puts back: the refusal counts, or it holds the gate; and what
/// was refused holds afterwards.
#[test]
fn a_refusal_of_an_edited_request_is_not_passed_over() {
    for (field, counts) in [("nonce", false), ("rows_digest", true)] {
        let d = Deployment::new();
        d.register("LAW", &law(2, "edited while it was read"));
        let run_id = d.cut("LAW");
        d.approve(&run_id, "cut");
        let request = d.path("kb").join(d.status(&run_id).text("/paused_at/request_kb_id"));
        let text = fs::read_to_string(&request).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{field}: "))).unwrap();
        fs::write(&request, text.replace(line, &format!("{field}: {}", "7".repeat(64)))).unwrap();
        let key = d.path(&format!("keys/{SOVEREIGN}.secret.asc"));
        let refuse = ["sovereign", "refuse", "--yes", "--run-id", &run_id, "--for", "cut", "--key"];
        let refused = d.run(&[&refuse[..], &[key.to_str().unwrap()]].concat()).exits(0);
        fs::write(&request, &text).unwrap();
        let ran = d.resume(&run_id);
        assert_eq!(d.counts()["iu_core.information_unit"], 0, "{field}: {}", ran.stdout);
        let verified = d.run(&["verify", "--run-id", &run_id]);
        assert!(
            verified.stdout.contains("refuse") && verified.code != Some(6),
            "{field}: {}",
            verified.stdout
        );
        assert!(verified.stdout.contains(refused.text("/approval_kb_id")), "{field}: {}", verified.stdout);
        let _ = d.run(&["backlog", "audit"]).exits(0);
        assert_eq!(ran.json["stop"]["code"] == "STOP_REFUSED", counts, "{field}: {}", ran.stdout);
    }
}
