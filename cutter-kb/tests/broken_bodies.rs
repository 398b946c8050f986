//! Stores that cut bodies short, stall, drip, or say one length and give another; readers that
//! are dropped halfway; uploads that fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/bodies.rs"]
mod bodies;
#[path = "support/objects.rs"]
mod objects;
#[path = "support/server.rs"]
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::object_store::ObjectStoreExt as _;
use ::object_store::memory::InMemory;
use bodies::{
    BIG, DOCUMENT, Found, INDEX, MANY, NAME, REVISION, Seeded, Stand, backup_key, blob, found, noise,
    readers, run_id,
};
use cutter_core::port::backup::{BackupSink, BackupTarget as _};
use cutter_core::port::knowledge_base::KnowledgeBase as _;
use cutter_core::port::{PortErrorKind, PortResult};
use cutter_kb::object_store::{BackupReader, ObjectBackupTarget, ObjectKb, TimeLimits};
use futures_executor::block_on;
use futures_util::FutureExt as _;
use objects::{Length, Liar, place_of};
use server::{Sends, Server};

/// What a message about a body must say: where, and what was expected.
#[track_caller]
fn is_told(result: PortResult<Found>, which: &str, at: &str) -> String {
    let error = result.expect_err(which);
    assert_eq!(error.kind, PortErrorKind::Unavailable, "{which}: {error}");
    assert!(error.message.contains(at), "{which}: {error}");
    error.message
}

fn ways(at: usize) -> [Sends; 3] {
    [Sends::Length(at), Sends::Chunked(at), Sends::Nothing(at)]
}

#[test]
fn a_body_that_is_cut_short_is_never_taken_for_the_whole() {
    let server = Server::start();
    let shared = server.place();
    let mut seeded = Seeded(20_260_520);
    let begun = format!("{:?}", seeded.0);
    for (size, times) in [(1, 1), (MANY, 12), (BIG, 2)] {
        let body = noise(size);
        for path in [blob().as_str(), DOCUMENT, REVISION] {
            server.put(path, body.clone());
        }
        for i in 0..times {
            // the first byte, the last, and anywhere
            let at = [0, size - 1, seeded.below(size)][i.min(2)];
            for sends in ways(at) {
                server.sends(sends);
                for (reader, read) in readers() {
                    let which = format!("{reader} of {size} bytes, {sends:?}, seed {begun}");
                    let message = is_told(read(shared.clone()), &which, "s3://bucket/kb/");
                    if let Sends::Length(_) = sends {
                        assert!(message.contains(&format!("expected a body of {size} bytes")), "{message}");
                    }
                }
            }
        }
    }
    // one request each: nothing is gone on with, so nothing is put together from two objects
    let state = server.state();
    assert!(state.heads.iter().all(|head| !head.contains("range:")), "asked for the rest");
}

#[test]
fn a_line_and_a_listing_that_are_cut_short_are_never_taken_for_the_whole() {
    let server = Server::start();
    let kb = ObjectKb::new(server.place());
    let (run, line) = ("r1", "- `r1` · `DOC` · done");
    for name in ["a/1.md", "a/2.md", "a/3.md"] {
        server.put(name, "x");
    }
    server.put("i/.lines/runs.md/r1", format!("{line}\n"));
    let listed = ["a/1.md", "a/2.md", "a/3.md"];
    assert_eq!(block_on(kb.list("a")).unwrap(), listed);
    assert_eq!(block_on(kb.index_line(INDEX, run)).unwrap().as_deref(), Some(line));
    for at in 0..=line.len() {
        for sends in ways(at) {
            server.sends(sends);
            let error = block_on(kb.index_line(INDEX, run)).unwrap_err();
            assert_eq!(error.kind, PortErrorKind::Unavailable, "{sends:?}: {error}");
        }
    }
    let length = server.listing("kb/a").len();
    for at in 0..length {
        for sends in ways(at) {
            server.sends(sends);
            match block_on(kb.list("a")) {
                Err(error) => assert_eq!(error.kind, PortErrorKind::Unavailable, "{sends:?}: {error}"),
                Ok(paths) => assert_eq!(paths, listed, "{sends:?} of {length}"),
            }
        }
    }
}

#[test]
fn a_store_that_says_one_length_and_gives_another_is_found_out() {
    let limits = TimeLimits { request: Duration::from_millis(100), part: Duration::from_millis(100) };
    for length in [Length::Less, Length::More, Length::Never] {
        for size in [1, 7] {
            let memory = InMemory::new();
            for path in [blob().as_str(), DOCUMENT, REVISION] {
                let key = format!("some/prefix/{path}").into();
                block_on(memory.put(&key, vec![7; size].into())).unwrap();
            }
            let store = Arc::new(Liar(memory, length));
            for (reader, read) in readers() {
                let which = format!("{reader} of {size}, {length:?}");
                let message = is_told(read(place_of(store.clone()).with_limits(limits)), &which, "test:/");
                assert!(message.contains("expected") && message.contains("observed"), "{message}");
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error_and_ends() {
    let stand = Stand::folder();
    stand.holds(&noise(MANY));
    let mut reader = block_on(BackupReader::open(&(stand.place)(), &run_id(), NAME)).unwrap().unwrap();
    assert!(block_on(reader.next()).unwrap().is_some());
    let at = stand.root().join("some/prefix").join(blob());
    std::fs::File::options().write(true).open(at).unwrap().set_len(20_000).unwrap();
    let error = loop {
        match block_on(reader.next()) {
            Ok(piece) => assert!(piece.is_some(), "the end of a part is not the end"),
            Err(error) => break error,
        }
    };
    assert!(
        error.message.contains("expected a body of 84000 bytes, observed after 20000: its end"),
        "{error}"
    );
    let again = block_on(reader.next()).unwrap_err();
    assert!(again.message.contains("given up before its end"), "{again}");
}

#[test]
fn a_server_that_stalls_or_drips_is_left_in_time_and_a_slow_one_is_not() {
    let server = Server::start();
    let limits = TimeLimits { request: Duration::from_millis(100), part: Duration::from_millis(100) };
    let place = server.place().with_limits(limits);
    for path in [blob().as_str(), DOCUMENT, REVISION] {
        server.put(path, noise(MANY));
    }
    for sends in [Sends::Stalls(0), Sends::Stalls(50_000), Sends::Drips(Duration::from_millis(20))] {
        server.sends(sends);
        for (reader, read) in readers() {
            let started = Instant::now();
            let message = is_told(read(place.clone()), &format!("{reader}, {sends:?}"), "s3://bucket/kb/");
            assert!(message.contains("within 0.1 s"), "{message}");
            assert!(started.elapsed() < Duration::from_secs(5), "{reader}: {:?}", started.elapsed());
        }
    }
    // each part comes in time, and all of them together later than the limit of one
    let (rate, limit, size) = match std::env::var_os("CUTTER_FULL") {
        None => (20 << 20, Duration::from_millis(1_800), 40 << 20),
        // later than any limit that there is by default
        Some(_) => (2 << 20, TimeLimits::default().part, 300 << 20),
    };
    server.sends(Sends::Slow(rate));
    let body = noise(size);
    server.put(&blob(), body.clone());
    let (reader, read) = &readers()[0];
    let started = Instant::now();
    let place = server.place().with_limits(TimeLimits { part: limit, ..limits });
    assert_eq!(read(place).unwrap(), found(&body), "{reader}");
    assert!(started.elapsed() > limit, "not slow at all: {:?}", started.elapsed());
}

/// Waits until it holds.
#[track_caller]
fn comes_true(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn threads_of_stores() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "cutter-objects").count()
}

#[test]
fn a_reader_dropped_halfway_leaves_no_request_and_no_thread() {
    let server = Server::start();
    server.put(&blob(), noise(MANY));
    server.sends(Sends::Stalls(50_000));
    let mut open = Vec::new();
    for _ in 0..40 {
        let mut reader = block_on(BackupReader::open(&server.place(), &run_id(), NAME)).unwrap().unwrap();
        assert!(block_on(reader.next()).unwrap().is_some());
        open.push(reader);
    }
    assert!(threads_of_stores() >= 40 && server.state().connections == 40);
    // half of them in the middle of a piece
    for reader in open.iter_mut().step_by(2) {
        while let Some(piece) = reader.next().now_or_never() {
            assert!(piece.unwrap().is_some());
        }
        let error = block_on(reader.next()).unwrap_err();
        assert!(error.message.contains("given up"), "a piece that nobody took is missed: {error}");
    }
    let started = Instant::now();
    drop(open);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    comes_true("every request ends", || server.state().connections == 0);
    // other tests of this process have some, too
    comes_true("every thread ends", || threads_of_stores() < 30);
}

#[test]
fn many_readers_read_at_once_and_again() {
    let server = Server::start();
    let (small, big) = (noise(MANY), noise(BIG));
    server.put(&blob(), big.clone());
    server.put(DOCUMENT, small.clone());
    server.put(REVISION, small.clone());
    let (small, big, place) = (found(&small), found(&big), server.place());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for (reader, read) in readers() {
                    let expected = if ["backup", "rehash"].contains(&reader) { big } else { small };
                    for _ in 0..2 {
                        assert_eq!(read(place.clone()).unwrap(), expected, "{reader}");
                    }
                }
            });
        }
    });
}

/// A backup of so many parts and a bit.
async fn begun(target: &ObjectBackupTarget, parts: usize) -> PortResult<Box<dyn BackupSink>> {
    let mut sink = target.begin(&run_id(), 1).await?;
    for _ in 0..=(parts * 16) {
        sink.write(&vec![7; 1 << 20]).await?;
    }
    Ok(sink)
}

#[test]
fn an_upload_that_fails_is_given_up_and_one_that_loses_bytes_is_noticed() {
    let (_, recipient) = backup_key();
    let server = Server::start();
    let target = ObjectBackupTarget::new(server.place(), recipient);
    block_on(async {
        server.state().refuses_part = Some(2);
        let failed = match begun(&target, 1).await {
            Ok(sink) => sink.finish().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(failed.message.contains(NAME), "{failed}");
        assert_eq!(target.rehash(&run_id(), NAME).await.unwrap(), None, "nothing can be seen");
        comes_true("the upload is aborted", || server.state().uploads.is_empty());

        // left in the middle: the same
        server.state().refuses_part = None;
        let sink = begun(&target, 2).await.unwrap();
        comes_true("an upload begins", || !server.state().uploads.is_empty());
        drop(sink);
        comes_true("the upload is aborted", || server.state().uploads.is_empty());

        // the answer to its end breaks off: looked at, and there it is
        server.state().cuts_end = true;
        let blob = begun(&target, 1).await.unwrap().finish().await.unwrap();
        assert_eq!(target.rehash(&run_id(), NAME).await.unwrap(), Some((blob.sha256, blob.bytes)));

        // and if what is there is not all of it, it is not taken for it
        server.state().objects.clear();
        server.state().loses_bytes = true;
        let failed = begun(&target, 0).await.unwrap().finish().await.unwrap_err();
        assert_eq!(failed.kind, PortErrorKind::Unavailable, "{failed}");

        // a store that says "done" and has lost a byte: the next reader sees it
        server.state().objects.clear();
        server.state().cuts_end = false;
        let blob = begun(&target, 0).await.unwrap().finish().await.unwrap();
        let (sha256, bytes) = target.rehash(&run_id(), NAME).await.unwrap().unwrap();
        assert!(sha256 != blob.sha256 && bytes == blob.bytes - 1, "{bytes} of {}", blob.bytes);
    });
}
