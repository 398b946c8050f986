//! `cutter worker` and `cutter queue` as people use them: real processes, a real queue.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use cutter_tests::cli::{Deployment, Ran, Signal, law};

const WORKER: [&str; 7] = ["worker", "--concurrency", "1", "--lease", "3", "--poll", "100"];

fn added(d: &Deployment, document_id: &str) -> String {
    let ran = d.run(&["queue", "add", "--document-id", document_id]).exits(0);
    ran.json["item"].as_u64().unwrap().to_string()
}

fn shown(d: &Deployment, item: &str) -> Ran {
    d.run(&["queue", "show", item]).exits(0)
}

/// The only run of a document.
fn run_of(d: &Deployment, document_id: &str) -> String {
    let listed = d.run(&["orchestrate", "list", "--document-id", document_id]).exits(0);
    assert_eq!(listed.json["runs"].as_array().unwrap().len(), 1, "{}", listed.stdout);
    listed.text("/runs/0/run_id").to_owned()
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_document_is_cut_by_a_worker_and_two_signatures_and_nobody_types_resume() {
    let d = Deployment::new();
    d.register("LAW", &law(4, "the queue"));
    let item = added(&d, "LAW");
    let again = d.run(&["queue", "add", "--document-id", "LAW"]).exits(0);
    assert_eq!((again.json["already"].as_bool(), again.json["item"].to_string()), (Some(true), item.clone()));
    let conflict =
        d.run(&["queue", "add", "--document-id", "LAW", "--publication-type", "standard"]).exits(4);
    assert!(conflict.text("/error/message").contains("enqueue.same_payload"), "{}", conflict.stdout);

    let mut worker = d.start(&WORKER);
    for (gate, what) in [("SG_cut_authz", "cut"), ("SG_lifecycle_authz", "lifecycle")] {
        until(gate, || shown(&d, &item).text("/gate") == gate);
        assert_eq!(shown(&d, &item).text("/state"), "awaiting_user_confirmation");
        d.approve(&run_of(&d, "LAW"), what);
    }
    until("the end", || shown(&d, &item).text("/state") == "completed");
    assert!(worker.signal(Signal::TERM));
    let ended = worker.wait().exits(0);
    assert_eq!(
        (ended.json["items"]["parked"].as_u64(), ended.json["items"]["completed"].as_u64()),
        (Some(2), Some(1))
    );
    let run = run_of(&d, "LAW");
    assert_eq!(d.status(&run).exits(0).state(), "closeout_reported");
    d.verify(&run);
    let over = d.run(&["queue", "cancel", &item, "--reason", "too late"]).exits(4);
    assert!(
        over.text("/error/message").contains("illegal work_item transition completed->cancelled"),
        "{}",
        over.stdout
    );
}

#[test]
fn a_worker_that_is_told_to_stop_hands_back_and_the_next_goes_on() {
    let d = Deployment::new();
    let mut handed_back = 0;
    for n in 0..6 {
        let document = format!("LAW-{n}");
        d.register(&document, &law(400, "the handback"));
        let item = added(&d, &document);
        let mut worker = d.start(&WORKER);
        until("the claim", || shown(&d, &item).text("/state") != "queued");
        std::thread::sleep(Duration::from_millis(20 * n));
        assert!(worker.signal(Signal::TERM));
        let ended = worker.wait().exits(0);
        let after = shown(&d, &item);
        match after.text("/state") {
            // It had come to the gate.
            "awaiting_user_confirmation" => {}
            "awaiting_tool" => {
                assert_eq!(after.text("/reason/code"), "handback", "{}", after.stdout);
                assert_eq!(
                    (after.json["attempts"].as_u64(), after.json["failures"].as_u64()),
                    (Some(0), Some(0))
                );
                assert_eq!(ended.json["items"]["handed back"].as_u64(), Some(1), "{ended:?}");
                handed_back += 1;
            }
            other => panic!("{other}: {}", after.stdout),
        }
        let _ = d.run(&["worker", "--drain", "--poll", "100"]).exits(0);
        let run = run_of(&d, &document);
        assert_eq!(d.status(&run).exits(0).state(), "awaiting_cut_authorization", "one run, at its gate");
        let _ = d.run(&["queue", "cancel", &item, "--reason", "seen"]).exits(0);
    }
    assert!(handed_back > 0, "no worker was in the middle of a run");
}

#[test]
fn a_worker_takes_nothing_while_the_server_has_no_connection_for_it() {
    // Roles are the whole server's, so it has one of its own.
    let server = TestServer::durable();
    let d = Deployment::over(server.fresh_database());
    d.register("LAW", &law(2, "the full house"));
    let item = added(&d, "LAW");
    d.tamper("ALTER ROLE cutter_review CONNECTION LIMIT 0");
    let mut worker = d.start(&WORKER);
    std::thread::sleep(Duration::from_secs(4));
    let before = shown(&d, &item);
    assert_eq!((before.text("/state"), before.json["attempts"].as_u64()), ("queued", Some(0)));
    d.tamper("ALTER ROLE cutter_review CONNECTION LIMIT -1");
    until("the gate", || shown(&d, &item).text("/gate") == "SG_cut_authz");
    assert_eq!(shown(&d, &item).json["failures"].as_u64(), Some(0), "{}", shown(&d, &item).stdout);
    assert!(worker.signal(Signal::TERM));
    let ended = worker.wait().exits(0);
    assert!(ended.stderr.contains("cannot work"), "{}", ended.stderr);
    assert!(ended.stderr.contains("too many connections for role"), "{}", ended.stderr);
}

#[test]
fn one_worker_watches_and_another_does_when_it_is_frozen_or_leaves() {
    let d = Deployment::new();
    d.register("LAW", &law(2, "the watch"));
    let item = added(&d, "LAW");
    let watcher = || d.run(&["queue", "stats"]).exits(0).json["watched_by"].clone();
    let mut first = d.start(&WORKER);
    until("the first gate", || shown(&d, &item).text("/gate") == "SG_cut_authz");
    until("a watch", || !watcher().is_null());
    let was = watcher();
    let mut second = d.start(&WORKER);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(watcher(), was, "one keeps the turn");
    assert!(first.signal(Signal::STOP));
    d.approve(&run_of(&d, "LAW"), "cut");
    until("the second gate", || shown(&d, &item).text("/gate") == "SG_lifecycle_authz");
    let now = watcher();
    assert!(now != was && !now.is_null(), "the other watches: {now}");
    assert!(first.signal(Signal::CONT));
    assert!(second.signal(Signal::TERM));
    let _ = second.wait().exits(0);
    until("the first's turn", || watcher() == was);
    assert!(first.signal(Signal::TERM));
    let _ = first.wait().exits(0);
    assert!(watcher().is_null(), "whoever leaves keeps no turn");
}

#[test]
fn cancelling_a_parked_or_an_executing_item_stops_its_run_in_the_name_of_who_did() {
    let d = Deployment::new();
    d.register("PARKED", &law(3, "parked"));
    let item = added(&d, "PARKED");
    let _ = d.run(&["worker", "--drain", "--poll", "100"]).exits(0);
    let cancelled = d.run(&["--actor", "vera", "queue", "cancel", &item, "--reason", "withdrawn"]).exits(0);
    assert_eq!(cancelled.text("/state"), "cancelled");
    assert_eq!((cancelled.text("/reason/detail"), cancelled.text("/reason/actor")), ("withdrawn", "vera"));
    let run = run_of(&d, "PARKED");
    assert_eq!(cancelled.text("/stopped_run"), run);
    assert_eq!(d.status(&run).exits(0).state(), "stopped_cancelled");
    let again = d.run(&["queue", "cancel", &item, "--reason", "other"]).exits(0);
    assert_eq!((again.json["already"].as_bool(), again.text("/reason/detail")), (Some(true), "withdrawn"));

    // While a worker is at it: it finds out at its next heartbeat, or when it writes.
    d.register("BUSY", &law(800, "busy"));
    let item = added(&d, "BUSY");
    let mut worker = d.start(&WORKER);
    until("the claim", || shown(&d, &item).text("/state") == "executing");
    let _ = d.run(&["queue", "cancel", &item, "--reason", "superseded"]).exits(0);
    let run = || {
        let listed = d.run(&["orchestrate", "list", "--document-id", "BUSY"]).exits(0);
        listed.text("/runs/0/state").to_owned()
    };
    until("the stop", || matches!(run().as_str(), "stopped_cancelled" | ""));
    assert_eq!(shown(&d, &item).text("/state"), "cancelled");
    assert!(worker.signal(Signal::TERM));
    let _ = worker.wait().exits(0);
}

#[test]
fn signals_of_cut_requests_become_items_of_the_queue() {
    let d = Deployment::new();
    let id = "0192f0c1-7c3e-7000-8000-0000000000aa";
    let file = d.path("asked.md");
    std::fs::write(&file, law(3, "a customer")).unwrap();
    let on = |verb: &str, more: &[&str]| {
        let arguments = [&["request", verb, "--request-id", id], more].concat();
        d.run(&arguments).exits(0)
    };
    let _ = d
        .run(&["request", "add", file.to_str().unwrap(), "--source-kind", "file", "--request-id", id])
        .exits(0);
    let _ = on("copy", &[]);
    let _ = on("mark", &["--document-id", "ASKED"]);
    let _ = on("verify-mark", &["--approve", "--approval-doc", &d.review("one")]);
    // As `psql` would: the signal alone.
    let mut exec = d.database.client(Login::Exec);
    let apply = "SELECT public.fn_cut_apply($1::text::uuid, false, 'psql')";
    let _ = exec.query_one(apply, &[&id]).unwrap();
    let mut worker = d.start(&WORKER);
    for what in ["cut", "lifecycle"] {
        let gate =
            if what == "cut" { "awaiting_cut_authorization" } else { "awaiting_lifecycle_authorization" };
        until(gate, || {
            let listed = d.run(&["orchestrate", "list", "--document-id", "ASKED"]).exits(0);
            listed.text("/runs/0/state") == gate
        });
        d.approve(&run_of(&d, "ASKED"), what);
    }
    until("the request's verdict", || on("show", &[]).stdout.contains("cut_verified"));
    until("the item's end", || {
        let listed = d.run(&["queue", "list", "--kind", "request"]).exits(0);
        listed.text("/items/0/state") == "completed"
    });
    assert!(worker.signal(Signal::TERM));
    let _ = worker.wait().exits(0);
    let _ = on("complete", &[]);
}

#[test]
fn numbers_are_served_on_loopback_alone() {
    let d = Deployment::new();
    let refused = d.run(&["worker", "--drain", "--metrics", "0.0.0.0:0"]).exits(2);
    assert_eq!(refused.text("/error/invariants/0/invariant"), "metrics.loopback", "{}", refused.stdout);
    d.register("LAW", &law(2, "numbers"));
    let _ = added(&d, "LAW");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut worker = d.start(&[&WORKER[..], &["--metrics", &address]].concat());
    let ask = |path: &str| -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(&address) {
            stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
            let _ = stream.read_to_string(&mut answer);
        }
        answer
    };
    until("a parked item in the numbers", || {
        ask("/metrics").contains("cutter_queue_items{state=\"awaiting_user_confirmation\"} 1")
    });
    let numbers = ask("/metrics");
    for name in [
        "cutter_queue_ready_items 0",
        "cutter_queue_expired_leases 0",
        "cutter_queue_watched 1",
        "cutter_worker_items_total{outcome=\"parked\"} 1",
    ] {
        assert!(numbers.contains(name), "{name} in {numbers}");
    }
    assert!(numbers.ends_with("# EOF\n"), "whole: {numbers}");
    assert!(ask("/").contains("404"), "nothing else is served");
    assert!(worker.signal(Signal::TERM));
    let _ = worker.wait().exits(0);
}
