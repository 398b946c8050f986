//! The backlog outside of runs, and runs that wait for what they depend on.

use super::bench::{Bench, ran, text};

fn entry_of(bench: &Bench, document: &str) -> String {
    let listed = bench.run(&["backlog", "list", "--document-id", document, "--json"]).expect(0).json();
    listed["entries"][0]["entry_id"].as_str().unwrap().to_owned()
}

fn status(bench: &Bench, entry: &str) -> String {
    let shown = bench.run(&["backlog", "show", entry, "--json"]).expect(0).json();
    shown["status"].as_str().unwrap().to_owned()
}

#[test]
fn an_entry_is_deferred_swept_and_given_up_without_a_run() {
    let bench = Bench::shared();
    let run = bench.parked("QUEUED", &text(31));
    let entry = entry_of(bench, "QUEUED");
    assert_eq!(status(bench, &entry), "review_pending");

    let refused =
        bench.run(&["backlog", "review", &entry, "--decision", "approve", "--json"]).expect(5).json();
    let next = refused["error"]["next"][0].as_str().unwrap();
    assert_eq!(next, format!("cutter sovereign approve --run-id {run} --for cut"));
    for arguments in [
        vec!["backlog", "review", &entry, "--decision", "defer"],
        vec!["backlog", "abandon", &entry, "--reason", " "],
    ] {
        let ran = bench.run(&arguments).expect(2);
        assert!(ran.stderr.contains("needs a reason"), "{}", ran.stderr);
    }
    let other = "0".repeat(64);
    let wrong = ["backlog", "review", &entry, "--decision", "defer", "--reason", "x", "--manifest", &other];
    assert!(bench.run(&wrong).expect(4).stderr.contains("review.manifest"));
    let requeued = bench.run(&["backlog", "requeue", &entry, "--reason", "x"]).expect(4);
    assert!(requeued.stderr.contains("requeue.escalation"), "{}", requeued.stderr);

    let defer =
        ["backlog", "review", &entry, "--decision", "defer", "--reason", "article 7 is missing", "--json"];
    let first = bench.run(&defer).expect(0).json();
    let again = bench.run(&defer).expect(0).json();
    assert_eq!((first["moved"].as_bool(), again["moved"].as_bool()), (Some(true), Some(false)));
    assert_eq!(first["review_decision_id"], again["review_decision_id"]);

    let sweep = ["backlog", "sweep", "--document-id", "QUEUED", "--batch", "1", "--json"];
    assert_eq!(bench.run(&sweep).expect(0).json()["promoted"], 1);
    assert_eq!(bench.run(&sweep).expect(0).json()["promoted"], 0);
    assert_eq!(status(bench, &entry), "review_pending");

    let abandon = ["backlog", "abandon", &entry, "--reason", "superseded", "--json"];
    assert_eq!(bench.run(&abandon).expect(0).json()["moved"], true);
    assert_eq!(bench.run(&abandon).expect(0).json()["moved"], false);
    let reject = ["backlog", "review", &entry, "--decision", "reject", "--reason", "x"];
    assert!(bench.run(&reject).expect(4).stderr.contains("illegal backlog transition abandoned->"));

    let history = bench.run(&["backlog", "history", &entry, "--json"]).expect(0).json();
    let became: Vec<&str> =
        history["history"].as_array().unwrap().iter().map(|row| row["to_state"].as_str().unwrap()).collect();
    assert_eq!(became, ["marked", "review_pending", "reviewed_deferred", "review_pending", "abandoned"]);
    let shown = bench.run(&["backlog", "show", &entry]).expect(0);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("article 7 is missing") && shown.contains("S10"), "{shown}");
    bench.run(&["backlog", "show", "0190a5f0-0000-7000-8000-000000000000"]).expect(2);
}

#[test]
fn lists_come_in_pages_and_the_audit_is_green() {
    let bench = Bench::shared();
    bench.finished("PAGED-1", &text(32));
    bench.parked("PAGED-2", &text(33));
    let mut after: Option<String> = None;
    let mut seen = Vec::new();
    loop {
        let mut list = vec!["backlog", "list", "--limit", "1", "--json"];
        list.extend(after.iter().flat_map(|id| ["--after", id.as_str()]));
        let page = bench.run(&list).expect(0).json();
        let Some(row) = page["entries"].get(0) else { break };
        seen.push(row["entry_id"].as_str().unwrap().to_owned());
        assert!(page["next"].as_str().unwrap().contains(" --after "), "{page}");
        after = seen.last().cloned();
    }
    assert!(seen.len() >= 2 && seen.is_sorted(), "{seen:?}");
    let done = ["backlog", "list", "--status", "verified_complete", "--document-id", "PAGED-1", "--json"];
    assert_eq!(bench.run(&done).expect(0).json()["entries"].as_array().unwrap().len(), 1);
    bench.run(&["backlog", "list", "--status", "done"]).expect(2);
    bench.run(&["backlog", "list", "--limit", "0"]).expect(2);
    let audit = bench.run(&["backlog", "audit", "--page", "1", "--json"]).expect(0).json();
    assert!(audit["ok"] == true && audit["entries"].as_u64().unwrap() >= 2, "{audit}");
}

#[test]
fn a_run_waits_for_the_entry_that_it_depends_on() {
    let bench = Bench::shared();
    let base = bench.parked("BASE-LAW", &text(34));
    let entry = entry_of(bench, "BASE-LAW");
    bench.register("LATER-LAW", &text(35));
    let cut = ["orchestrate", "cut", "--document-id", "LATER-LAW", "--json"];
    let mut named = cut.to_vec();
    named.extend(["--depends-on", "BASE-LAW"]);
    bench.run(&named).expect(2);
    let mut waiting = cut.to_vec();
    waiting.extend(["--depends-on", &entry]);
    let parked = bench.run(&waiting).expect(0).json();
    let run = parked["run_id"].as_str().unwrap();
    let own = entry_of(bench, "LATER-LAW");
    let shown = bench.run(&["backlog", "show", &own, "--json"]).expect(0).json();
    assert_eq!(shown["depends_on"][0]["entry_id"], entry.as_str(), "{shown}");

    bench.approve(run, "cut");
    for _ in 0..2 {
        let stopped = bench.resume(run).expect(3).json();
        assert_eq!(
            (&stopped["state"], &stopped["stop"]["code"]),
            (&"stopped_depends_on".into(), &"STOP_DEPENDS_ON".into())
        );
        assert!(stopped["stop"]["reason"].to_string().contains("G-CUT-DEPS"), "{stopped}");
    }
    bench.approve(&base, "cut");
    bench.resume(&base).expect(0);
    assert_eq!(status(bench, &entry), "verified_complete");
    assert_eq!(bench.resume(run).expect(0).json()["state"], "awaiting_lifecycle_authorization");
    assert_eq!(status(bench, &own), "verified_complete");
    bench.run(&["verify", "--run-id", run]).expect(0);
}

/// Ids, digests and times differ from run to run; everything else is the same.
fn redacted(text: &str, run: &str) -> String {
    let text = text.replace(run, "[RUN]");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let is_id = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '-';
        let id = rest.find(|c| !is_id(c)).unwrap_or(rest.len());
        let is_time = rest.len() >= 20
            && rest.bytes().zip("dddd-dd-dd dd:dd:ddZ".bytes()).all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                _ => byte == shape,
            });
        let length = if is_time {
            out.push_str("[TIME]");
            20
        } else if id == 36 || id == 64 {
            out.push_str(if id == 36 { "[ID]" } else { "[SHA256]" });
            id
        } else {
            out.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    out
}

#[test]
fn people_see_lists_entries_and_audits_as_ever() {
    let bench = Bench::shared();
    let run = bench.parked("SHOWN-LAW", &text(36));
    let entry = entry_of(bench, "SHOWN-LAW");
    let reason = ["backlog", "review", &entry, "--decision", "defer", "--reason", "article 7 is missing"];
    bench.run(&reason).expect(0);
    for (name, arguments) in [
        ("backlog-list.txt", ["backlog", "list", "--document-id", "SHOWN-LAW"].as_slice()),
        ("backlog-show.txt", &["backlog", "show", &entry]),
        ("backlog-audit.txt", &["backlog", "audit", "--document-id", "SHOWN-LAW"]),
    ] {
        let seen =
            bench.command().args(arguments).env("NO_COLOR", "1").env("COLUMNS", "200").output().unwrap();
        let observed = redacted(&String::from_utf8(ran(seen).expect(0).stdout).unwrap(), &run);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
        snapbox::assert_data_eq!(observed, snapbox::Data::read_from(&path, None).raw());
    }
}
