//! The adapter against S3: its client against canned answers, and everything against a real
//! server where there is one (`eval "$(scripts/s3 start)"`, or a bucket of your own in
//! `CUTTER_TEST_S3=s3://bucket/prefix` with the `AWS_…` variables).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/objects.rs"]
mod objects;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::{RunId, mint_v7};
use cutter_core::port::PortErrorKind;
use cutter_core::port::backup::BackupTarget as _;
use cutter_core::port::knowledge_base::{CreateOutcome, KnowledgeBase as _};
use cutter_kb::object_store::{KbUrl, ObjectBackupTarget, ObjectKb, Place, TimeLimits, create_race};
use cutter_kb::openpgp::{KeyKind, KeyPair};
use futures_executor::block_on;
use futures_util::StreamExt as _;
use objects::{keeps_every_contract, recipient};

fn variables(endpoint: &str, secret: &str) -> Vec<(String, String)> {
    let pairs = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "cutter"),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_REGION", "us-east-1"),
        // not ours: the adapter's own word stands
        ("AWS_CONDITIONAL_PUT", "disabled"),
        ("AWS_BUCKET", "another"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// A server that answers each connection's first request with the next of these, and then
/// closes. An empty answer closes without one.
fn canned(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut seen, mut buffer) = (Vec::new(), [0u8; 4096]);
            let head = loop {
                let n = stream.read(&mut buffer).unwrap();
                assert!(n > 0, "a request that ends early");
                seen.extend_from_slice(&buffer[..n]);
                if let Some(at) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
                    break String::from_utf8_lossy(&seen[..at]).to_lowercase();
                }
            };
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok());
            while seen.len() < head.len() + 4 + length.unwrap_or(0) {
                let n = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            heads.push(head);
        }
        heads
    });
    (endpoint, thread)
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"e\"\r\nLast-Modified: Wed, 20 May 2026 10:11:12 GMT\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn kb_at(endpoint: &str) -> ObjectKb {
    let url: KbUrl = "s3://bucket/kb".parse().unwrap();
    ObjectKb::new(url.open(variables(endpoint, "secret")).unwrap())
}

#[test]
fn a_create_asks_for_the_condition_once() {
    let (endpoint, server) = canned(vec![answer("200 OK", "")]);
    assert_eq!(block_on(kb_at(&endpoint).create("a/b.md", b"x")).unwrap(), CreateOutcome::Created);
    let heads = server.join().unwrap();
    assert!(heads[0].starts_with("put /bucket/kb/a/b.md "), "{}", heads[0]);
    assert!(heads[0].contains("\r\nif-none-match: *"), "{}", heads[0]);
}

#[test]
fn answers_are_sorted_by_who_must_act() {
    use PortErrorKind as K;
    let error = |code: &str| format!("<Error><Code>{code}</Code></Error>");
    for (status, code, kind) in [
        ("503 Slow Down", "SlowDown", K::Unavailable),
        ("429 Too Many Requests", "x", K::Unavailable),
        ("403 Forbidden", "SignatureDoesNotMatch", K::Denied),
        ("401 Unauthorized", "x", K::Denied),
        ("507 Insufficient Storage", "x", K::Full),
        ("400 Bad Request", "EntityTooLarge", K::Full),
        ("400 Bad Request", "InvalidRequest", K::Invalid),
        ("404 Not Found", "NoSuchBucket", K::NotFound),
    ] {
        let (endpoint, server) = canned(vec![answer(status, &error(code))]);
        let failed = block_on(kb_at(&endpoint).create("a.md", b"x")).unwrap_err();
        assert_eq!(failed.kind, kind, "{status} {code}: {failed}");
        assert!(failed.message.contains("s3://bucket/kb/a.md"), "{failed}");
        assert!(!failed.message.contains("secret"), "{failed}");
        assert_eq!(server.join().unwrap().len(), 1, "asked once");
    }
}

#[test]
fn an_answer_that_says_nothing_is_asked_again_by_reading() {
    // 500, or a connection that ends: it may have been written
    for first in
        [answer("500 Internal Server Error", "<Error><Code>InternalError</Code></Error>"), String::new()]
    {
        let missing = || answer("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>");
        for (second, expected) in [
            (answer("200 OK", "x"), Ok(CreateOutcome::Identical)),
            (answer("200 OK", "y"), Ok(CreateOutcome::Different { found: Digest::of(b"y") })),
            (missing(), Err(PortErrorKind::OutcomeUnknown)),
        ] {
            let (endpoint, server) = canned(vec![first.clone(), second]);
            let observed = block_on(kb_at(&endpoint).create("a.md", b"x")).map_err(|e| e.kind);
            assert_eq!(observed, expected, "after {first:?}");
            let heads = server.join().unwrap();
            assert!(heads[0].starts_with("put ") && heads[1].starts_with("get "), "{heads:?}");
        }
    }
}

#[test]
fn a_bucket_that_is_not_there_is_no_empty_base() {
    let missing = answer("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>");
    let (endpoint, server) = canned(vec![missing.clone(), missing]);
    let failed = block_on(kb_at(&endpoint).read("a.md")).unwrap_err();
    assert_eq!(failed.kind, PortErrorKind::NotFound, "{failed}");
    drop(server);
}

#[test]
fn a_server_that_does_not_answer_is_left_in_time() {
    // it accepts into its backlog and never reads
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let limits = TimeLimits { request: Duration::from_millis(300), part: Duration::from_millis(300) };
    let place = "s3://bucket/kb".parse::<KbUrl>().unwrap().open(variables(&endpoint, "x")).unwrap();
    let kb = ObjectKb::new(place.with_limits(limits));
    let started = Instant::now();
    assert_eq!(block_on(kb.read("a.md")).unwrap_err().kind, PortErrorKind::Unavailable);
    assert_eq!(block_on(kb.create("a.md", b"x")).unwrap_err().kind, PortErrorKind::OutcomeUnknown);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(listener);
    let started = Instant::now();
    assert_eq!(block_on(kb.create("a.md", b"x")).unwrap_err().kind, PortErrorKind::Unavailable, "never left");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn documents_do_not_travel_in_clear_unless_told() {
    let url: KbUrl = "s3://bucket/kb".parse().unwrap();
    let mut variables = variables("http://store.example:9000", "hunter2");
    let refused = url.open(variables.clone()).unwrap_err().to_string();
    assert!(refused.contains("AWS_ALLOW_HTTP") && !refused.contains("hunter2"), "{refused}");
    variables.push(("AWS_ALLOW_HTTP".to_owned(), "true".to_owned()));
    url.open(variables).unwrap();
}

/// A place of its own on the real server, or `None`, said aloud.
fn real(test: &str, name: &str) -> Option<Place> {
    let Ok(base) = std::env::var("CUTTER_TEST_S3") else {
        let message = format!("{test}: SKIPPED, no S3 server: eval \"$(scripts/s3 start)\"\n");
        let _ = std::io::stderr().write_all(message.as_bytes());
        return None;
    };
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).unwrap();
    let url = format!("{base}/{name}-{:016x}", u64::from_be_bytes(random));
    Some(url.parse::<KbUrl>().unwrap().open(std::env::vars()).unwrap())
}

#[test]
fn a_real_server_keeps_every_contract() {
    if real("conformance on S3", "c").is_some() {
        keeps_every_contract(|| (real("", "c").unwrap(), None));
    }
}

#[test]
fn a_real_server_has_one_winner_in_300_races() {
    let Some(place) = real("create race on S3", "race") else { return };
    let races = futures_util::stream::iter((0..300).map(|_| create_race(&place, 4)));
    let reports = block_on(races.buffer_unordered(20).collect::<Vec<_>>());
    assert_eq!(reports.len(), 300);
    for report in reports {
        let report = report.unwrap();
        assert!(report.is_fit(), "{report:?}");
    }
}

#[test]
fn a_real_server_revises_and_backs_up_in_parts() {
    let Some(place) = real("revisions and backup on S3", "b") else { return };
    let kb = ObjectKb::new(place.clone());
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    let target = ObjectBackupTarget::new(place, recipient(&pair));
    let at: jiff::Timestamp = "2026-05-20T10:11:12Z".parse().unwrap();
    let run_id = RunId::new(at, mint_v7(u64::try_from(at.as_millisecond()).unwrap(), [1; 10])).unwrap();
    block_on(async {
        kb.create("d.md", b"one").await.unwrap();
        assert_eq!(kb.revise("d.md", 1, b"two").await.unwrap(), CasOutcome::Applied);
        assert_eq!(kb.revise("d.md", 2, b"three").await.unwrap(), CasOutcome::Applied);
        assert_eq!(kb.read("d.md").await.unwrap().unwrap().revision, 3);
        let mut sink = target.begin(&run_id, 1).await.unwrap();
        let mut hasher = cutter_core::base::digest::Hasher::new();
        for i in 0..35u8 {
            let chunk = vec![i; 1 << 20];
            hasher.update(&chunk);
            sink.write(&chunk).await.unwrap();
        }
        let blob = sink.finish().await.unwrap();
        assert_eq!(blob.plaintext_sha256, hasher.finish());
        assert_eq!(target.rehash(&run_id, &blob.name).await.unwrap(), Some((blob.sha256, blob.bytes)));
        assert_eq!(target.begin(&run_id, 1).await.err().unwrap().kind, PortErrorKind::Conflict);
    });
}

#[test]
fn a_real_server_refuses_a_wrong_secret_and_a_missing_bucket() {
    if real("refusals on S3", "r").is_none() {
        return;
    }
    let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap();
    let wrong = "s3://cutter/x".parse::<KbUrl>().unwrap().open(variables(&endpoint, "wrong")).unwrap();
    let failed = block_on(ObjectKb::new(wrong).create("a.md", b"x")).unwrap_err();
    assert_eq!(failed.kind, PortErrorKind::Denied, "{failed}");
    let missing = "s3://no-such-bucket-here/x".parse::<KbUrl>().unwrap().open(std::env::vars()).unwrap();
    let failed = block_on(ObjectKb::new(missing).read("a.md")).unwrap_err();
    assert_eq!(failed.kind, PortErrorKind::NotFound, "{failed}");
}
