//! The object-store adapter over memory and a folder: every contract, races, lost answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/objects.rs"]
mod objects;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::object_store::ObjectStoreExt as _;
use ::object_store::local::LocalFileSystem;
use ::object_store::memory::InMemory;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::{RunId, mint_v7};
use cutter_core::port::PortErrorKind;
use cutter_core::port::backup::BackupTarget as _;
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, KnowledgeBase as _};
use cutter_kb::object_store::{
    BackupReader, KbUrl, KbUrlError, ObjectBackupTarget, ObjectKb, Place, TimeLimits, create_race,
};
use cutter_kb::openpgp::{KeyKind, KeyPair, decrypt_stream};
use futures_executor::block_on;
use objects::{Lossy, Wrong, keeps_every_contract, place_of, recipient};

fn in_memory() -> Place {
    place_of(Arc::new(InMemory::new()))
}

fn on_a_folder(root: &std::path::Path) -> Place {
    place_of(Arc::new(LocalFileSystem::new_with_prefix(root).unwrap().with_fsync(true)))
}

fn run_id(n: u8) -> RunId {
    let at: jiff::Timestamp = "2026-05-20T10:11:12Z".parse().unwrap();
    RunId::new(at, mint_v7(u64::try_from(at.as_millisecond()).unwrap(), [n; 10])).unwrap()
}

#[test]
fn memory_keeps_every_contract() {
    keeps_every_contract(|| (in_memory(), None));
}

#[test]
fn a_folder_keeps_every_contract() {
    keeps_every_contract(|| {
        let root = tempfile::tempdir().unwrap();
        (on_a_folder(root.path()), Some(root))
    });
}

#[test]
fn of_300_races_each_has_one_winner() {
    let root = tempfile::tempdir().unwrap();
    for place in [in_memory(), on_a_folder(root.path())] {
        for _ in 0..300 {
            let report = block_on(create_race(&place, 4)).unwrap();
            assert!(report.is_fit(), "{report:?}");
            assert_eq!((report.creators, report.winners), (4, 1));
        }
        assert_eq!(
            block_on(ObjectKb::new(place).list("")).unwrap(),
            Vec::<String>::new(),
            "probes are hidden"
        );
    }
}

#[test]
fn a_store_that_ignores_the_condition_is_found_out() {
    let place = place_of(Arc::new(objects::Deaf(InMemory::new())));
    let report = block_on(create_race(&place, 4)).unwrap();
    assert!(!report.is_fit(), "{report:?}");
    assert_eq!((report.winners, report.is_late_refused), (4, false));
}

#[test]
fn revisions_are_compared_and_kept() {
    let kb = ObjectKb::new(in_memory());
    block_on(async {
        assert_eq!(kb.revise("d.md", 1, b"x").await.unwrap_err().kind, PortErrorKind::NotFound);
        kb.create("d.md", b"one").await.unwrap();
        assert_eq!(kb.revise("d.md", 1, b"two").await.unwrap(), CasOutcome::Applied);
        assert_eq!(kb.revise("d.md", 1, b"two").await.unwrap(), CasOutcome::AlreadyApplied);
        for expected in [1, 5] {
            let CasOutcome::Conflict { found } = kb.revise("d.md", expected, b"other").await.unwrap() else {
                panic!("expected a conflict")
            };
            assert_eq!((found.revision, found.sha256), (2, Digest::of(b"two")));
        }
        for n in 3..=12u32 {
            let text = format!("revision {n}");
            assert_eq!(kb.revise("d.md", n - 1, text.as_bytes()).await.unwrap(), CasOutcome::Applied);
            let read = kb.read("d.md").await.unwrap().unwrap();
            assert_eq!(
                (read.revision, read.bytes.as_slice()),
                (n, text.as_bytes()),
                "by number, not by name"
            );
        }
        assert_eq!(kb.read_revision("d.md", 1).await.unwrap().unwrap(), b"one");
        assert_eq!(kb.read_revision("d.md", 2).await.unwrap().unwrap(), b"two");
        assert_eq!(kb.read_revision("d.md", 13).await.unwrap(), None);
        assert_eq!(kb.list("").await.unwrap(), ["d.md"], "revisions are hidden");
        // creating compares with the first revision, as it was created
        assert_eq!(kb.create("d.md", b"one").await.unwrap(), CreateOutcome::Identical);
    });
}

#[test]
fn of_two_that_revise_one_wins() {
    let kb = ObjectKb::new(in_memory());
    block_on(kb.create("d.md", b"0")).unwrap();
    for revision in 1..=50u32 {
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let make = |i: u32| {
                let kb = kb.clone();
                scope.spawn(move || {
                    block_on(kb.revise("d.md", revision, format!("{revision} by {i}").as_bytes()))
                })
            };
            let threads = [make(1), make(2), make(3)];
            threads.into_iter().map(|t| t.join().unwrap().unwrap()).collect()
        });
        let applied = outcomes.iter().filter(|o| **o == CasOutcome::Applied).count();
        assert_eq!(applied, 1, "{outcomes:?}");
    }
    assert_eq!(block_on(kb.read("d.md")).unwrap().unwrap().revision, 51);
}

#[test]
fn what_a_person_uploads_is_read_as_it_stands() {
    let store = Arc::new(InMemory::new());
    let kb = ObjectKb::new(place_of(store.clone()));
    block_on(async {
        store.put(&"some/prefix/a/approval.md".into(), "dropped in".into()).await.unwrap();
        store.put(&"some/prefix-of-another/b.md".into(), "not ours".into()).await.unwrap();
        let read = kb.read("a/approval.md").await.unwrap().unwrap();
        assert_eq!((read.revision, read.bytes.as_slice()), (1, &b"dropped in"[..]));
        store.put(&"some/prefix/a/approval.md".into(), "edited".into()).await.unwrap();
        let read = kb.read("a/approval.md").await.unwrap().unwrap();
        assert_eq!((read.revision, read.sha256), (1, Digest::of(b"edited")));
        assert_eq!(kb.list("").await.unwrap(), ["a/approval.md"]);
        assert_eq!(kb.list("a").await.unwrap(), ["a/approval.md"]);
    });
}

const INDEX: &str = "i/runs.md";

fn line(run: &str) -> String {
    format!("- `{run}` · `DOC` · done")
}

async fn text(kb: &ObjectKb) -> String {
    String::from_utf8(kb.read(INDEX).await.unwrap().unwrap().bytes).unwrap()
}

#[test]
fn an_index_is_complete_although_its_view_is_not() {
    let store = Arc::new(InMemory::new());
    let kb = ObjectKb::new(place_of(store.clone()));
    let at = "some/prefix/i/runs.md".into();
    block_on(async {
        for run in ["r1", "r2", "r3"] {
            assert_eq!(kb.append_index(INDEX, run, &line(run)).await.unwrap(), AppendOutcome::Appended);
        }
        let whole = format!("{}\n{}\n{}\n", line("r1"), line("r2"), line("r3"));
        assert_eq!(text(&kb).await, whole);
        // the view lost a line and the end of another, as an overtaken refresh or a person may
        store.put(&at, format!("{}\n{}", line("r1"), "- `r2` ·").into()).await.unwrap();
        assert_eq!(text(&kb).await, whole, "the lines' own objects are the truth");
        assert_eq!(kb.index_line(INDEX, "r2").await.unwrap(), Some(line("r2")));
        assert_eq!(kb.append_index(INDEX, "r4", &line("r4")).await.unwrap(), AppendOutcome::Appended);
        let view = store.get(&at).await.unwrap().bytes().await.unwrap();
        assert_eq!(view, format!("{whole}{}\n", line("r4")), "the next append brings the view up to date");
        assert_eq!(kb.list("i").await.unwrap(), [INDEX], "lines are hidden");
    });
}

#[test]
fn a_folders_index_that_was_copied_here_counts() {
    let store = Arc::new(InMemory::new());
    let kb = ObjectKb::new(place_of(store.clone()));
    block_on(async {
        store.put(&"some/prefix/i/runs.md".into(), format!("{}\n", line("old")).into()).await.unwrap();
        assert_eq!(kb.index_line(INDEX, "old").await.unwrap(), Some(line("old")));
        assert_eq!(kb.append_index(INDEX, "old", &line("old")).await.unwrap(), AppendOutcome::AlreadyThere);
        let other = format!("{} otherwise", line("old"));
        let conflict = AppendOutcome::Conflict { found: line("old") };
        assert_eq!(kb.append_index(INDEX, "old", &other).await.unwrap(), conflict);
        kb.append_index(INDEX, "new", &line("new")).await.unwrap();
        assert_eq!(text(&kb).await, format!("{}\n{}\n", line("old"), line("new")));
    });
}

#[test]
fn many_appenders_lose_no_line_from_view_and_index() {
    let root = tempfile::tempdir().unwrap();
    for place in [in_memory(), on_a_folder(root.path())] {
        let kb = ObjectKb::new(place);
        std::thread::scope(|scope| {
            for i in 0..24 {
                let kb = kb.clone();
                scope.spawn(move || {
                    let run = format!("r{i:02}");
                    let appended = block_on(kb.append_index(INDEX, &run, &line(&run))).unwrap();
                    assert_eq!(appended, AppendOutcome::Appended);
                });
            }
        });
        let text = block_on(text(&kb));
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let expected: Vec<String> = (0..24).map(|i| line(&format!("r{i:02}"))).collect();
        assert_eq!(lines, expected, "each line once");
    }
}

#[test]
fn a_create_whose_answer_is_lost_is_asked_again_by_reading() {
    let store = Lossy::new(Wrong::AnswerLost, 1);
    let kb = ObjectKb::new(place_of(store.clone()));
    assert_eq!(block_on(kb.create("a.md", b"x")).unwrap(), CreateOutcome::Identical);
    assert_eq!(store.creates.load(Ordering::SeqCst), 1, "read, not written again");
}

#[test]
fn a_create_whose_request_is_lost_is_of_unknown_outcome_and_once() {
    let store = Lossy::new(Wrong::RequestLost, 1);
    let kb = ObjectKb::new(place_of(store.clone()));
    let error = block_on(kb.create("a.md", b"x")).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::OutcomeUnknown, "{error}");
    assert!(error.message.contains("test:/a.md"), "{error}");
    assert_eq!(store.creates.load(Ordering::SeqCst), 1, "to try again is the driver's");
    assert_eq!(block_on(kb.create("a.md", b"x")).unwrap(), CreateOutcome::Created);
}

#[test]
fn a_store_that_hangs_is_left_in_time() {
    let store = Lossy::new(Wrong::Hangs, 1);
    let limits = TimeLimits { request: Duration::from_millis(200), part: Duration::from_millis(200) };
    let kb = ObjectKb::new(place_of(store).with_limits(limits));
    let started = Instant::now();
    assert_eq!(block_on(kb.create("a.md", b"x")).unwrap(), CreateOutcome::Identical);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn it_runs_inside_a_runtime_and_is_dropped_there() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kb = ObjectKb::new(in_memory());
        assert_eq!(kb.create("a.md", b"x").await.unwrap(), CreateOutcome::Created);
        // begun and left: nothing waits for it
        let hanging = ObjectKb::new(place_of(Lossy::new(Wrong::Hangs, 1)));
        assert!(futures_util::FutureExt::now_or_never(hanging.create("b.md", b"x")).is_none());
        drop((kb, hanging));
    });
}

#[test]
fn a_backup_of_many_parts_is_whole_and_decrypts() {
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    let root = tempfile::tempdir().unwrap();
    for place in [in_memory(), on_a_folder(root.path())] {
        let target = ObjectBackupTarget::new(place.clone(), recipient(&pair));
        let chunk: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut plain = Vec::new();
        let blob = block_on(async {
            let mut sink = target.begin(&run_id(1), 7).await.unwrap();
            // two whole parts and a bit
            for _ in 0..35 {
                sink.write(&chunk).await.unwrap();
                plain.extend_from_slice(&chunk);
            }
            assert_eq!(
                target.rehash(&run_id(1), "pre_write.7.gpg").await.unwrap(),
                None,
                "nothing before its end"
            );
            sink.finish().await.unwrap()
        });
        assert_eq!(blob.plaintext_sha256, Digest::of(&plain));
        assert!(blob.bytes > 35 << 20, "{}", blob.bytes);
        block_on(async {
            let again = target.rehash(&run_id(1), &blob.name).await.unwrap();
            assert_eq!(again, Some((blob.sha256, blob.bytes)));
            let mut reader = BackupReader::open(&place, &run_id(1), &blob.name).await.unwrap().unwrap();
            let mut cipher = Vec::new();
            while let Some(piece) = reader.next().await.unwrap() {
                cipher.extend_from_slice(&piece);
            }
            let mut out = Vec::new();
            decrypt_stream(&pair, cipher.as_slice(), &mut out).unwrap();
            assert!(out == plain, "{} bytes came back", out.len());
            assert!(BackupReader::open(&place, &run_id(2), &blob.name).await.unwrap().is_none());
            let error = BackupReader::open(&place, &run_id(1), "../x").await.unwrap_err();
            assert_eq!(error.kind, PortErrorKind::Invalid);
        });
    }
}

#[test]
fn of_two_backups_of_one_epoch_one_is_published() {
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    let target = ObjectBackupTarget::new(in_memory(), recipient(&pair));
    block_on(async {
        // both large enough to be uploads in parts, and begun before either is finished
        let mut sinks = Vec::new();
        for i in 0..2u8 {
            let mut sink = target.begin(&run_id(1), 1).await.unwrap();
            for _ in 0..18 {
                sink.write(&vec![i; 1 << 20]).await.unwrap();
            }
            sinks.push(sink);
        }
        let (a, b) = (sinks.remove(0), sinks.remove(0));
        let (a, b) = futures_util::future::join(a.finish(), b.finish()).await;
        let (won, lost) = if a.is_ok() { (a, b) } else { (b, a) };
        assert_eq!(lost.unwrap_err().kind, PortErrorKind::Conflict);
        let won = won.unwrap();
        let found = target.rehash(&run_id(1), &won.name).await.unwrap();
        assert_eq!(found, Some((won.sha256, won.bytes)));
    });
}

#[test]
fn a_backup_whose_publishing_goes_unanswered_is_looked_at() {
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    for wrong in [Wrong::AnswerLost, Wrong::RequestLost] {
        // claim and blob
        let target = ObjectBackupTarget::new(place_of(Lossy::new(wrong, 2)), recipient(&pair));
        let blob = block_on(async {
            let mut sink = target.begin(&run_id(1), 1).await.unwrap();
            sink.write(b"plain").await.unwrap();
            sink.finish().await
        });
        let found = block_on(target.rehash(&run_id(1), "pre_write.1.gpg")).unwrap();
        if wrong == Wrong::AnswerLost {
            let blob = blob.unwrap();
            assert_eq!(found, Some((blob.sha256, blob.bytes)));
        } else {
            assert_eq!(blob.unwrap_err().kind, PortErrorKind::Unavailable);
            assert_eq!(found, None);
        }
    }
}

#[test]
fn an_unreachable_target_is_a_fact() {
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    let target = ObjectBackupTarget::new(place_of(Lossy::new(Wrong::RequestLost, 1)), recipient(&pair));
    assert!(!block_on(target.probe(&run_id(1))).unwrap().reachable);
    assert!(block_on(target.probe(&run_id(1))).unwrap().reachable);
}

#[test]
fn urls_are_read_and_refused_for_a_reason() {
    for (text, shown) in [
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket", "s3a://bucket"),
        ("gs://bucket/a", "gs://bucket/a"),
        ("az://container/a", "az://container/a"),
        ("abfss://box@acct.dfs.core.windows.net/a", "abfss://box@acct.dfs.core.windows.net/a"),
        ("file:///var/kb/", "file:///var/kb"),
        ("memory:", "memory:"),
        ("memory:///x", "memory:x"),
    ] {
        assert_eq!(text.parse::<KbUrl>().unwrap().to_string(), shown);
    }
    for text in ["https://dav.example/kb", "http://dav.example", "webdav://x/y", "davs://x"] {
        let error = text.parse::<KbUrl>().unwrap_err();
        assert!(matches!(error, KbUrlError::Unfit { .. }), "{error}");
        assert!(error.to_string().contains("no conditional create"), "{error}");
    }
    for text in [
        "kb",
        "/var/kb",
        "s3:bucket",
        "s3://",
        "s3://B/x",
        "s3://bucket/../x",
        "s3://bucket/a?versionId=hunter2",
        "s3://AKIA:hunter2@bucket/x",
        "ftp://x/y",
        "file://host/x",
        "file:///a/../b",
        "file:///",
        "s3://bucket/.x",
        "abfss://box@evil.example/x",
    ] {
        let error = text.parse::<KbUrl>().unwrap_err();
        assert!(matches!(error, KbUrlError::Form { .. }), "{text}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn a_file_url_opens_a_folder_that_it_makes() {
    let root = tempfile::tempdir().unwrap();
    let url: KbUrl = format!("file://{}/deep/kb", root.path().display()).parse().unwrap();
    assert_eq!(url.folder(), Some(root.path().join("deep/kb").as_path()));
    let kb = ObjectKb::new(url.open([]).unwrap());
    block_on(kb.create("a/b.md", b"x")).unwrap();
    assert_eq!(std::fs::read(root.path().join("deep/kb/a/b.md")).unwrap(), b"x");
}

#[cfg(not(feature = "s3"))]
#[test]
fn without_its_feature_a_cloud_says_so() {
    let error = "s3://bucket/x".parse::<KbUrl>().unwrap().open([]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "s3://bucket/x needs the feature `s3`, and this program was built without it"
    );
}
