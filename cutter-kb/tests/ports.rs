//! The folder adapters seen only through the core's ports, as the driver sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::{RunId, mint_v7};
use cutter_core::port::backup::BackupTarget;
use cutter_core::port::knowledge_base::{AppendOutcome, CreateOutcome, KnowledgeBase};
use cutter_core::port::run_store::{Claim, LockHolder, RunStore, StopRequest};
use cutter_core::port::signer::SignatureVerifier;
use cutter_core::port::{Port, PortErrorKind};
use cutter_core::record::signature::SignatureFacts;
use cutter_kb::backup_target::FolderBackupTarget;
use cutter_kb::folder::FolderKb;
use cutter_kb::openpgp::{KeyKind, KeyPair, Recipient};
use cutter_kb::ports::KeyRing;
use cutter_kb::run_store::FileRunStore;
use futures_executor::block_on;
use jiff::Timestamp;

fn run_id(n: u8) -> RunId {
    let at: Timestamp = "2026-05-20T10:11:12Z".parse().unwrap();
    RunId::new(at, mint_v7(u64::try_from(at.as_millisecond()).unwrap(), [n; 10])).unwrap()
}

#[test]
fn knowledge_base() {
    let root = tempfile::tempdir().unwrap();
    let kb: Box<dyn KnowledgeBase> = Box::new(FolderKb::new(root.path()));
    block_on(async {
        assert_eq!(kb.create("laws/a/1.md", b"x").await.unwrap(), CreateOutcome::Created);
        assert_eq!(kb.create("laws/a/1.md", b"x").await.unwrap(), CreateOutcome::Identical);
        let found = Digest::of(b"x");
        assert_eq!(kb.create("laws/a/1.md", b"y").await.unwrap(), CreateOutcome::Different { found });
        kb.create("laws/ab/2.md", b"x").await.unwrap();
        assert_eq!(kb.list("laws/a").await.unwrap(), ["laws/a/1.md"], "a folder, not a prefix");
        assert_eq!(kb.list("laws/").await.unwrap(), ["laws/a/1.md", "laws/ab/2.md"]);
        assert_eq!(kb.read("laws/a/1.md").await.unwrap().unwrap().revision, 1);
        let error = kb.read("../x").await.unwrap_err();
        assert_eq!((error.port, error.kind), (Port::KnowledgeBase, PortErrorKind::Invalid));
        let line = "- `r` · `done`";
        assert_eq!(kb.append_index("i.md", "r", line).await.unwrap(), AppendOutcome::Appended);
        assert_eq!(kb.append_index("i.md", "r", line).await.unwrap(), AppendOutcome::AlreadyThere);
        assert_eq!(kb.index_line("i.md", "r").await.unwrap().as_deref(), Some(line));
    });
}

#[test]
fn run_store() {
    let root = tempfile::tempdir().unwrap();
    let runs: Box<dyn RunStore> = Box::new(FileRunStore::new(root.path()));
    let id = run_id(1);
    let holder = LockHolder {
        holder: mint_v7(1, [2; 10]),
        host: "here".to_owned(),
        pid: std::process::id(),
        since: "2026-05-20T10:11:12Z".to_owned(),
        command: "orchestrate resume".to_owned(),
    };
    block_on(async {
        assert_eq!(runs.lock(&id, &holder).await.err().unwrap().kind, PortErrorKind::NotFound);
        assert_eq!(runs.create(&id, b"{}").await.unwrap(), CasOutcome::Applied);
        assert_eq!(runs.create(&id, b"{}").await.unwrap(), CasOutcome::AlreadyApplied);
        assert_eq!(runs.publish(&id, 1, b"[2]").await.unwrap(), CasOutcome::Applied);
        assert_eq!(runs.create(&id, b"[]").await.unwrap(), CasOutcome::Conflict { found: 2 });
        assert_eq!(runs.load(&id).await.unwrap().unwrap().revision, 2);
        assert_eq!(runs.load_revision(&id, 1).await.unwrap().unwrap().bytes, b"{}");
        assert_eq!(runs.list().await.unwrap(), std::slice::from_ref(&id));
        assert!(runs.sidecar_location(&id).ends_with("state.json"));

        let lock = runs.lock(&id, &holder).await.unwrap();
        assert_eq!(lock.run_id(), &id);
        assert_eq!(runs.lock_holder(&id).await.unwrap(), Some(holder.clone()));
        let busy = runs.lock(&id, &holder).await.err().unwrap();
        assert!(busy.kind == PortErrorKind::Busy && busy.message.contains("orchestrate resume"), "{busy}");
        drop(lock);
        assert_eq!(runs.lock_holder(&id).await.unwrap(), None);

        assert_eq!(runs.stop_request(&id).await.unwrap(), None);
        let mut request = StopRequest {
            id: mint_v7(1, [3; 10]),
            reason: "operator".to_owned(),
            actor: "ops".to_owned(),
            at: "2026-05-20T10:11:12Z".to_owned(),
        };
        for reason in ["operator", "maintenance"] {
            request.reason = reason.to_owned();
            runs.request_stop(&id, &request).await.unwrap();
            assert_eq!(runs.stop_request(&id).await.unwrap(), Some(request.clone()));
        }

        let claim =
            |run: u8, generation| Claim { document_id: "laws/x".to_owned(), generation, run_id: run_id(run) };
        assert_eq!(runs.latest_claim("laws/x").await.unwrap(), None);
        assert_eq!(runs.put_claim(&claim(1, 1)).await.unwrap(), CasOutcome::Applied);
        assert_eq!(runs.put_claim(&claim(1, 1)).await.unwrap(), CasOutcome::AlreadyApplied);
        let conflict = CasOutcome::Conflict { found: claim(1, 1) };
        assert_eq!(runs.put_claim(&claim(2, 1)).await.unwrap(), conflict);
        assert_eq!(runs.put_claim(&claim(2, 2)).await.unwrap(), CasOutcome::Applied);
        assert_eq!(runs.latest_claim("laws/x").await.unwrap(), Some(claim(2, 2)));
        let folder = root.path().join("claims").join(Digest::of(b"laws/x").to_hex());
        std::fs::copy(folder.join("1"), folder.join("2")).unwrap();
        let error = runs.latest_claim("laws/x").await.unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Corrupt, "a claim under another's number");
    });
}

#[test]
fn backup_target() {
    let root = tempfile::tempdir().unwrap();
    let store = FileRunStore::new(root.path());
    let pair = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    let to = Recipient::new(&pair.public(), &pair.fingerprint(), Timestamp::now()).unwrap();
    let target: Box<dyn BackupTarget> = Box::new(FolderBackupTarget::new(store.clone(), to));
    let id = run_id(1);
    block_on(async {
        assert!(!target.probe(&id).await.unwrap().reachable, "no run folder yet");
        store.create(id.as_str(), b"{}").unwrap();
        let facts = target.probe(&id).await.unwrap();
        assert!(facts.reachable);
        assert_eq!(facts.fingerprint, pair.fingerprint().to_string());
        let mut sink = target.begin(&id, 3).await.unwrap();
        sink.write(b"rows").await.unwrap();
        let blob = sink.finish().await.unwrap();
        assert_eq!((blob.name.as_str(), blob.plaintext_sha256), ("pre_write.3.gpg", Digest::of(b"rows")));
        assert_eq!(target.rehash(&id, &blob.name).await.unwrap(), Some((blob.sha256, blob.bytes)));
        assert_eq!(target.rehash(&id, "pre_write.9.gpg").await.unwrap(), None);
        target.begin(&id, 4).await.unwrap().finish().await.unwrap();
        target.discard_unrecorded(&id, Some(&blob.name)).await.unwrap();
        assert_eq!(target.rehash(&id, "pre_write.4.gpg").await.unwrap(), None);
        assert!(root.path().join(id.as_str()).join("pre_write.gpg").exists());
        assert_eq!(target.begin(&id, -1).await.err().unwrap().kind, PortErrorKind::Invalid);
    });
}

#[test]
fn signatures() {
    let (pair, stranger) = (
        KeyPair::generate("Sovereign", KeyKind::Sign).unwrap(),
        KeyPair::generate("Stranger", KeyKind::Sign).unwrap(),
    );
    let ring: Box<dyn SignatureVerifier> = Box::new(KeyRing::new(vec![pair.public()]));
    let now = Timestamp::now();
    block_on(async {
        let document = pair.clearsign("yes", now).unwrap();
        let SignatureFacts::Good { fingerprint, text, .. } =
            ring.observe(document.as_bytes(), now).await.unwrap()
        else {
            panic!("not good")
        };
        assert_eq!((fingerprint, text.as_str()), (pair.fingerprint().to_string(), "yes"));
        let text = "plain".to_owned();
        assert_eq!(ring.observe(b"plain", now).await.unwrap(), SignatureFacts::Unsigned { text });
        let document = stranger.clearsign("yes", now).unwrap();
        let facts = ring.observe(document.as_bytes(), now).await.unwrap();
        assert!(matches!(&facts, SignatureFacts::Bad { code, .. } if code == "unknown_key"), "{facts:?}");
    });
}
