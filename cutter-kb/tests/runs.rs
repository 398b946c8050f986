//! The file run store and the backup target.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::port::PortErrorKind;
use cutter_kb::backup_target::FolderBackupTarget;
use cutter_kb::openpgp::{KeyKind, KeyPair, Recipient, decrypt_stream};
use cutter_kb::run_store::{FileRunStore, LockOutcome, Put, RunLock};

fn store() -> (tempfile::TempDir, FileRunStore) {
    let root = tempfile::tempdir().unwrap();
    let store = FileRunStore::new(root.path().join("runs"));
    (root, store)
}

fn acquired(outcome: LockOutcome) -> RunLock {
    match outcome {
        LockOutcome::Acquired(lock) => lock,
        LockOutcome::Busy { holder } => panic!("expected the lock, observed holder {holder:?}"),
    }
}

#[test]
fn revisions_are_published_once_and_the_highest_is_the_truth() {
    let (_root, store) = store();
    assert_eq!(store.load("r1").unwrap(), None);
    assert_eq!(store.list().unwrap(), Vec::<String>::new());
    assert_eq!(store.publish("r1", 1, b"{}").unwrap_err().kind, PortErrorKind::NotFound);
    assert_eq!(store.create("r1", b"{\"n\":1}").unwrap(), Put::Created);
    assert_eq!(store.create("r1", b"{\"n\":1}").unwrap(), Put::Identical);
    assert_eq!(store.create("r1", b"{}").unwrap(), Put::Exists { found: b"{\"n\":1}".to_vec() });
    assert_eq!(store.publish("r1", 1, b"{\"n\":2}").unwrap(), CasOutcome::Applied);
    assert_eq!(store.publish("r1", 1, b"{\"n\":2}").unwrap(), CasOutcome::AlreadyApplied);
    assert_eq!(store.publish("r1", 1, b"{\"n\":9}").unwrap(), CasOutcome::Conflict { found: 2 });
    assert_eq!(store.publish("r1", 7, b"{\"n\":9}").unwrap(), CasOutcome::Conflict { found: 2 });
    assert_eq!(store.publish("r1", 0, b"{\"n\":9}").unwrap(), CasOutcome::Conflict { found: 2 });
    assert_eq!(store.publish("r1", 2, b"{\"n\":3}").unwrap(), CasOutcome::Applied);
    assert_eq!(store.load("r1").unwrap().unwrap(), (3, b"{\"n\":3}".to_vec()));
    assert_eq!(store.load_revision("r1", 2).unwrap().unwrap(), b"{\"n\":2}");
    assert_eq!(store.load_revision("r1", 4).unwrap(), None);
    let run = store.run_path("r1");
    assert_eq!(std::fs::read(run.join("state.json")).unwrap(), b"{\"n\":3}");
    assert_eq!(std::fs::metadata(run.join("rev/3.json")).unwrap().mode() & 0o777, 0o600);
    store.create("r0", b"{}").unwrap();
    assert_eq!(store.list().unwrap(), ["r0", "r1"]);
    let too_big = format!("\"{}\"", "x".repeat(70_000));
    for bad in [&b""[..], b"{", too_big.as_bytes()] {
        assert_eq!(store.publish("r1", 3, bad).unwrap_err().kind, PortErrorKind::Invalid);
    }
    store.mirror("r1", "phase-01.md", b"one").unwrap();
    store.mirror("r1", "phase-01.md", b"two").unwrap();
    assert_eq!(std::fs::read(run.join("phase-01.md")).unwrap(), b"two");
    for bad in ["state.json", "state.lock", "rev", "../x.md", "rev/x.md", ".x.md", "pre_write.1.gpg"] {
        assert_eq!(store.mirror("r1", bad, b"").unwrap_err().kind, PortErrorKind::Invalid, "{bad}");
    }
}

#[test]
fn bad_run_ids_are_refused() {
    let (_root, store) = store();
    for bad in ["", ".", "..", "claims", "a/b", "../x", ".hidden", "a b", "é", "a\0", &"x".repeat(129)] {
        assert_eq!(store.create(bad, b"{}").unwrap_err().kind, PortErrorKind::Invalid, "{bad:?}");
        assert_eq!(store.load(bad).unwrap_err().kind, PortErrorKind::Invalid, "{bad:?}");
        assert!(store.lock(bad, "{}").is_err(), "{bad:?}");
    }
}

#[test]
fn racing_publishers_have_one_winner_per_revision() {
    let (_root, store) = store();
    store.create("r", b"0").unwrap();
    for revision in 1..=10u64 {
        let barrier = Barrier::new(4);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let publishers: Vec<_> = (0..4)
                .map(|n| {
                    let (store, barrier) = (&store, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        store.publish("r", revision, format!("[{n}]").as_bytes()).unwrap()
                    })
                })
                .collect();
            publishers.into_iter().map(|p| p.join().unwrap()).collect()
        });
        let applied = outcomes.iter().filter(|o| **o == CasOutcome::Applied).count();
        let conflicts = outcomes.iter().filter(|o| matches!(o, CasOutcome::Conflict { .. })).count();
        assert_eq!((applied, conflicts), (1, 3), "{outcomes:?}");
    }
    assert_eq!(store.load("r").unwrap().unwrap().0, 11);
}

#[test]
fn what_is_corrupt_names_the_file() {
    let (_root, store) = store();
    store.create("r", b"{}").unwrap();
    store.publish("r", 1, b"{}").unwrap();
    let rev = store.run_path("r").join("rev");
    let spoil = |name: &str, bytes: &[u8]| {
        std::fs::write(rev.join(name), bytes).unwrap();
        let error = store.load("r").unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("rev"), "{error}");
        std::fs::remove_file(rev.join(name)).unwrap();
        error.to_string()
    };
    assert!(spoil("notes.txt", b"x").contains("notes.txt"));
    assert!(spoil("03.json", b"{}").contains("03.json"));
    assert!(spoil("4.json", b"{}").contains("gap"));
    assert_eq!(store.load("r").unwrap().unwrap().0, 2);
}

#[test]
fn a_broken_revision_is_read_as_it_stands_and_the_next_may_follow() {
    for broken in [&b""[..], &[0; 100], b"{\"half"] {
        let (_root, store) = store();
        store.create("r", b"{}").unwrap();
        store.publish("r", 1, b"{}").unwrap();
        std::fs::write(store.run_path("r").join("rev/2.json"), broken).unwrap();
        assert_eq!(store.load("r").unwrap().unwrap(), (2, broken.to_vec()));
        assert!(matches!(store.lock("r", "{}").unwrap(), LockOutcome::Acquired(_)));
        assert_eq!(store.publish("r", 2, b"{}").unwrap(), CasOutcome::Applied);
        assert_eq!(store.load("r").unwrap().unwrap(), (3, b"{}".to_vec()));
    }
}

#[test]
fn taking_the_lock_sweeps_and_sets_the_mirror_right() {
    let (_root, store) = store();
    store.create("r", b"{}").unwrap();
    store.publish("r", 1, b"[2]").unwrap();
    let run = store.run_path("r");
    std::fs::write(run.join(".tmp-1-a"), "left").unwrap();
    std::fs::write(run.join("rev/.tmp-1-b"), "left").unwrap();
    std::fs::remove_file(run.join("state.json")).unwrap();
    std::fs::write(run.join("state.json"), "").unwrap();
    let lock = acquired(store.lock("r", "{}").unwrap());
    assert!(!run.join(".tmp-1-a").exists() && !run.join("rev/.tmp-1-b").exists());
    assert_eq!(std::fs::read(run.join("state.json")).unwrap(), b"[2]");
    drop(lock);
}

#[test]
fn the_lock_excludes_and_says_who_holds_it() {
    let (_root, store) = store();
    store.create("r", b"{}").unwrap();
    assert_eq!(store.holder("r").unwrap(), None);
    assert!(store.lock("r", "not json").is_err());
    let lock = acquired(store.lock("r", r#"{"command":"resume"}"#).unwrap());
    match store.lock("r", "{}").unwrap() {
        LockOutcome::Busy { holder: Some(holder) } => {
            assert_eq!(holder.process.pid, std::process::id());
            assert_eq!(holder.info["command"], "resume");
            assert_eq!(store.holder("r").unwrap(), Some(holder));
        }
        other => panic!("expected busy, observed {other:?}"),
    }
    let own = store.break_lock("r", "{}", Duration::from_millis(10)).unwrap_err();
    assert_eq!(own.kind, PortErrorKind::Invalid, "{own}");
    drop(lock);
    assert_eq!(store.holder("r").unwrap(), None);
    let again = acquired(store.lock("r", "{}").unwrap());
    drop(again);
    assert!(store.run_path("r").join("state.lock").exists(), "the lock file is never unlinked");
    assert_eq!(store.lock("nobody", "{}").unwrap_err().kind, PortErrorKind::NotFound);
}

/// Not a test: the child of these tests. Takes the lock, says so, and stays.
#[test]
#[ignore = "the child of the tests of locks"]
fn child_that_holds_the_lock() {
    let Some(root) = std::env::var_os("CUTTER_TEST_HOLD") else { return };
    let store = FileRunStore::new(root);
    let _lock = acquired(store.lock("r", r#"{"child":true}"#).unwrap());
    println!("held");
    std::thread::sleep(Duration::from_secs(60));
}

fn hold_in_child(root: &Path, deaf: bool) -> Child {
    let trap = if deaf { "trap '' TERM; " } else { "" };
    let mut child = Command::new("sh")
        .args(["-c", &format!("{trap}exec \"$0\" --exact child_that_holds_the_lock --ignored --nocapture")])
        .arg(std::env::current_exe().unwrap())
        .env("CUTTER_TEST_HOLD", root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.contains("held")), "the child did not get the lock");
    child
}

#[test]
fn a_killed_process_releases_its_lock() {
    let (_root, store) = store();
    store.create("r", b"{}").unwrap();
    let mut child = hold_in_child(store.root(), false);
    let holder = store.holder("r").unwrap().unwrap();
    assert_eq!((holder.process.pid, holder.info["child"].as_bool()), (child.id(), Some(true)));
    assert!(matches!(store.lock("r", "{}").unwrap(), LockOutcome::Busy { holder: Some(_) }));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.holder("r").unwrap(), None, "the record of a dead process is not a holder");
    drop(acquired(store.lock("r", "{}").unwrap()));
}

#[test]
fn breaking_a_lock_ends_its_holder() {
    for deaf in [false, true] {
        let (_root, store) = store();
        store.create("r", b"{}").unwrap();
        let mut child = hold_in_child(store.root(), deaf);
        let since = Instant::now();
        let lock = store.break_lock("r", r#"{"by":"operator"}"#, Duration::from_millis(400)).unwrap();
        assert_eq!(since.elapsed() >= Duration::from_millis(400), deaf, "asked first, forced only if deaf");
        assert!(!child.wait().unwrap().success());
        assert_eq!(store.holder("r").unwrap().unwrap().info["by"], "operator");
        drop(lock);
    }
}

#[test]
fn a_holder_that_is_not_certain_is_not_ended() {
    let (_root, store) = store();
    store.create("r", b"{}").unwrap();
    let mut child = hold_in_child(store.root(), false);
    let lock_file = store.run_path("r").join("state.lock");
    let record = std::fs::read_to_string(&lock_file).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&record).unwrap();
    // a reused pid: the same number, another start time
    json["process"]["started"] = 1.into();
    std::fs::write(&lock_file, json.to_string()).unwrap();
    let error = store.break_lock("r", "{}", Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Busy, "{error}");
    // another host
    json["process"]["boot"] = "elsewhere".into();
    std::fs::write(&lock_file, json.to_string()).unwrap();
    let error = store.break_lock("r", "{}", Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Invalid, "{error}");
    assert!(store.holder("r").unwrap().is_some(), "it may be alive elsewhere");
    assert!(child.try_wait().unwrap().is_none(), "the child was ended");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn claims_have_generations_without_gaps() {
    let (_root, store) = store();
    let document = "laws/../odd name\n";
    assert_eq!(store.latest_claim(document).unwrap(), None);
    assert_eq!(store.put_claim(document, 2, b"x").unwrap_err().kind, PortErrorKind::Invalid);
    assert_eq!(store.put_claim(document, 0, b"x").unwrap_err().kind, PortErrorKind::Invalid);
    assert_eq!(store.put_claim(document, 1, b"run a").unwrap(), Put::Created);
    assert_eq!(store.put_claim(document, 1, b"run a").unwrap(), Put::Identical);
    assert_eq!(store.put_claim(document, 1, b"run b").unwrap(), Put::Exists { found: b"run a".to_vec() });
    assert_eq!(store.put_claim(document, 2, b"run b").unwrap(), Put::Created);
    assert_eq!(store.latest_claim(document).unwrap().unwrap(), (2, b"run b".to_vec()));
    assert_eq!(store.latest_claim("another").unwrap(), None);
    let folder = store.root().join("claims").join(Digest::of(document.as_bytes()).to_hex());
    assert!(folder.join("2").exists());
    std::fs::write(folder.join("2"), "").unwrap();
    let error = store.latest_claim(document).unwrap_err();
    assert!(error.kind == PortErrorKind::Corrupt && error.to_string().contains("/2"), "{error}");
    assert_eq!(store.list().unwrap(), Vec::<String>::new(), "claims are no run");
}

#[test]
fn of_racing_claims_one_wins() {
    let (_root, store) = store();
    for generation in 1..=10 {
        let barrier = Barrier::new(4);
        let created = std::thread::scope(|scope| {
            let claimants: Vec<_> = (0..4)
                .map(|n| {
                    let (store, barrier) = (&store, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        store.put_claim("doc", generation, format!("run {n}").as_bytes()).unwrap()
                    })
                })
                .collect();
            claimants.into_iter().map(|c| c.join().unwrap()).filter(|put| *put == Put::Created).count()
        });
        assert_eq!(created, 1);
    }
}

fn target(store: &FileRunStore) -> (KeyPair, FolderBackupTarget) {
    let pair = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    let to = Recipient::new(&pair.public(), &pair.fingerprint(), jiff::Timestamp::now()).unwrap();
    (pair, FolderBackupTarget::new(store.clone(), to))
}

#[test]
fn a_backup_is_published_once_recorded_and_restored() {
    let (_root, store) = store();
    let (pair, target) = target(&store);
    assert_eq!(target.begin("r", 1).unwrap_err().kind, PortErrorKind::NotFound);
    // Where the run's state is elsewhere, its folder is made for the backup alone.
    let elsewhere = target.clone().making_folders();
    assert!(elsewhere.writable("elsewhere") && !target.writable("r"));
    elsewhere.begin("elsewhere", 1).unwrap().finish().unwrap();
    assert!(elsewhere.rehash("elsewhere", "pre_write.1.gpg").unwrap().bytes > 0);
    assert_eq!(store.list().unwrap(), Vec::<String>::new(), "a backup is no run");
    assert!(elsewhere.begin("../out", 1).is_err());
    store.create("r", b"{}").unwrap();
    let mut writer = target.begin("r", 1).unwrap();
    writer.write_all(b"rows").unwrap();
    let mut rival = target.begin("r", 1).unwrap();
    rival.write_all(b"other rows").unwrap();
    let receipt = writer.finish().unwrap();
    assert_eq!(rival.finish().unwrap_err().kind, PortErrorKind::Conflict);
    assert_eq!(target.begin("r", 1).unwrap_err().kind, PortErrorKind::Conflict);
    assert_eq!((receipt.name.as_str(), receipt.plaintext_bytes), ("pre_write.1.gpg", 4));
    assert_eq!((receipt.plaintext_sha256, &receipt.recipient), (Digest::of(b"rows"), &pair.fingerprint()));
    let stored = std::fs::read(&receipt.path).unwrap();
    assert_eq!((receipt.ciphertext_sha256, receipt.bytes), (Digest::of(&stored), stored.len() as u64));
    let hash = target.rehash("r", &receipt.name).unwrap();
    assert_eq!((hash.bytes, hash.ciphertext_sha256), (receipt.bytes, receipt.ciphertext_sha256));

    // an abandoned one leaves nothing, a second epoch stands beside
    let mut abandoned = target.begin("r", 2).unwrap();
    abandoned.write_all(b"x").unwrap();
    drop(abandoned);
    let second = target.begin("r", 3).unwrap().finish().unwrap();
    target.record("r", &receipt.name).unwrap();
    target.record("r", &receipt.name).unwrap();
    assert_eq!(target.discard_unrecorded("r", Some(&receipt.name)).unwrap(), [second.name]);
    let run = store.run_path("r");
    let mut left: Vec<String> =
        std::fs::read_dir(&run).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["pre_write.1.gpg", "pre_write.gpg", "rev", "state.json"]);
    assert_eq!(std::fs::read(run.join("pre_write.gpg")).unwrap(), stored);

    let mut restored = Vec::new();
    decrypt_stream(&pair, target.open("r", &receipt.name).unwrap(), &mut restored).unwrap();
    assert_eq!(restored, b"rows");
    // what is spoiled later shows in the hash
    let mut spoiled = stored;
    spoiled[100] ^= 1;
    std::fs::write(&receipt.path, spoiled).unwrap();
    assert_ne!(target.rehash("r", &receipt.name).unwrap().ciphertext_sha256, receipt.ciphertext_sha256);
    for bad in ["pre_write.gpg", "pre_write.01.gpg", "state.json", "../r/pre_write.1.gpg"] {
        assert_eq!(target.rehash("r", bad).unwrap_err().kind, PortErrorKind::Invalid, "{bad}");
    }
    assert_eq!(target.discard_unrecorded("r", None).unwrap(), ["pre_write.1.gpg", "pre_write.gpg"]);
    assert_eq!(target.rehash("r", "pre_write.1.gpg").unwrap_err().kind, PortErrorKind::NotFound);
}
