//! The core's contracts, kept by folders and OpenPGP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;

use cutter_core::port::PortResult;
use cutter_core::port::backup::BackupTarget;
use cutter_core::port::knowledge_base::KnowledgeBase;
use cutter_core::port::run_store::RunStore;
use cutter_core::testing::conformance::signatures::SignaturesUnderTest;
use cutter_core::testing::conformance::{
    Case, ConformanceFailure, Fresh, backup, knowledge_base, run_store, signatures,
};
use cutter_kb::backup_target::FolderBackupTarget;
use cutter_kb::folder::FolderKb;
use cutter_kb::openpgp::{KeyKind, KeyPair, PublicKey, Recipient};
use cutter_kb::ports::KeyRing;
use cutter_kb::run_store::FileRunStore;
use futures_executor::block_on;
use jiff::Timestamp;
use support::Gpg;

#[track_caller]
fn all_held(result: Result<Vec<&'static str>, ConformanceFailure>, at_least: usize) {
    let held = result.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(held.len() >= at_least, "only {held:?}");
}

#[test]
fn a_folder_keeps_every_contract_of_the_knowledge_base() {
    let build = || async {
        let root = tempfile::tempdir().unwrap();
        let kb: Arc<dyn KnowledgeBase> = Arc::new(FolderKb::new(root.path()));
        Ok(Fresh::keeping(kb, root))
    };
    all_held(block_on(knowledge_base::run_all(build)), 12);
    let root = tempfile::tempdir().unwrap();
    let tear = |path: &str, bytes: usize| {
        let file = std::fs::OpenOptions::new().write(true).open(root.path().join(path)).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - bytes as u64).unwrap();
    };
    let kb = FolderKb::new(root.path());
    block_on(knowledge_base::a_torn_tail_is_cut_first(&kb, tear)).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn files_keep_every_contract_of_the_run_store() {
    let build = || async {
        let root = tempfile::tempdir().unwrap();
        let runs: Arc<dyn RunStore> = Arc::new(FileRunStore::new(root.path()));
        Ok(Fresh::keeping(runs, root))
    };
    all_held(block_on(run_store::run_all(build)), 19);
}

#[test]
fn an_encrypting_folder_keeps_every_contract_of_the_backup_target() {
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    let build = || async {
        let root = tempfile::tempdir().unwrap();
        let recipient = Recipient::new(&pair.public(), &pair.fingerprint(), Timestamp::now()).unwrap();
        let runs = FileRunStore::new(root.path());
        for case in [1, 2].map(Case::new) {
            runs.create(case.run_id().as_str(), b"{}").unwrap();
        }
        let target: Arc<dyn BackupTarget> = Arc::new(FolderBackupTarget::new(runs, recipient));
        let fresh: PortResult<Fresh<dyn BackupTarget>> = Ok(Fresh::keeping(target, root));
        fresh
    };
    all_held(block_on(backup::run_all(build)), 6);
}

/// Documents with one defect each, made by a real gpg.
fn defects(gpg: &Gpg, text: &str) -> (Vec<PublicKey>, Vec<(&'static str, String)>) {
    let sign = |user: &str, extra: &[&str]| {
        let mut arguments = vec!["--local-user", user];
        arguments.extend(extra);
        arguments.push("--clearsign");
        String::from_utf8(gpg.run(&arguments, text.as_bytes())).unwrap()
    };
    let make = |user: &str, algorithm: &str, expire: &str, extra: &[&str]| {
        let mut arguments = extra.to_vec();
        arguments.extend(["--quick-generate-key", user, algorithm, "sign", expire]);
        gpg.run(&arguments, b"");
    };
    make("good@x", "rsa2048", "0", &[]);
    make("stranger@x", "ed25519", "0", &[]);
    make("revoked@x", "ed25519", "0", &[]);
    let old = ["--faked-system-time", "20200101T120000!"];
    make("expired@x", "ed25519", "2020-02-01", &old);
    let good = sign("good@x", &[]);
    let revoked = sign("revoked@x", &[]);
    let bad = vec![
        ("sha1", sign("good@x", &["--digest-algo", "SHA1"])),
        ("unknown_key", sign("stranger@x", &[])),
        ("expired_key", sign("expired@x", &old)),
        ("text_outside_block", format!("{good}and more\n")),
        ("bad_signature", good.replacen("approve", "refuse", 1)),
        ("revoked_key", revoked),
    ];
    gpg.revoke("revoked@x");
    let known = ["good@x", "revoked@x", "expired@x"];
    (known.map(|user| PublicKey::parse(&gpg.export(user)).unwrap()).to_vec(), bad)
}

#[test]
fn a_key_ring_keeps_every_contract_of_signatures() {
    let Some(gpg) = Gpg::new("conformance of signatures") else { return };
    let pair = Arc::new(KeyPair::generate("Ada <ada@example.org>", KeyKind::Sign).unwrap());
    let (mut keys, bad) = defects(&gpg, "approve\n");
    keys.push(pair.public());
    assert_eq!(bad.len(), 6);
    let build = || async {
        let signer = pair.clone();
        Ok(SignaturesUnderTest {
            signatures: Arc::new(KeyRing::new(keys.clone())),
            sign: Box::new(move |text| signer.clearsign(text, Timestamp::now()).unwrap()),
            fingerprint: pair.fingerprint().to_string(),
            bad: bad.clone(),
            now: Timestamp::now(),
        })
    };
    all_held(block_on(signatures::run_all(build)), 5);
}
