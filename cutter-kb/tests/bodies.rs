//! Every reader of every store, with bodies of every size, many times each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/bodies.rs"]
mod bodies;
#[path = "support/objects.rs"]
mod objects;
#[path = "support/server.rs"]
mod server;

use std::io::Write as _;
use std::time::Instant;

use bodies::{BIG, MANY, Stand, backup_key, blob, found, noise, readers};
use cutter_core::port::PortErrorKind;
use cutter_core::port::knowledge_base::KnowledgeBase as _;
use cutter_kb::backup_target::FolderBackupTarget;
use cutter_kb::folder::FolderKb;
use cutter_kb::object_store::ObjectKb;
use cutter_kb::openpgp::decrypt_stream;
use cutter_kb::run_store::FileRunStore;
use futures_executor::block_on;

fn every_size(stand: &Stand) {
    for (size, times) in [(0, 10), (1, 20), (MANY, 20), (BIG, 2)] {
        stand.reads_whole(size, times);
    }
    if std::env::var_os("CUTTER_FULL").is_some() {
        // larger than any document may be: backups only
        let body = noise(300 << 20);
        (stand.put)(&blob(), body.clone());
        let expected = found(&body);
        for (reader, read) in readers().into_iter().take(2) {
            for i in 0..5 {
                let started = Instant::now();
                assert_eq!(
                    read((stand.place)()).unwrap(),
                    expected,
                    "{reader} from {}, number {i}",
                    stand.name
                );
                let message = format!("300 MiB by {reader} from {}: {:?}\n", stand.name, started.elapsed());
                let _ = std::io::stderr().write_all(message.as_bytes());
            }
        }
        let refused = block_on(ObjectKb::new((stand.place)()).read(&blob())).unwrap_err();
        assert_eq!(refused.kind, PortErrorKind::Invalid, "{refused}");
    }
}

#[test]
fn every_reader_of_memory_reads_every_body_whole() {
    every_size(&Stand::memory());
}

#[test]
fn every_reader_of_a_folder_reads_every_body_whole() {
    every_size(&Stand::folder());
}

#[test]
fn every_reader_of_a_server_reads_every_body_whole() {
    every_size(&Stand::server());
}

#[test]
fn every_reader_of_a_real_server_reads_every_body_whole() {
    if let Some(stand) = Stand::real() {
        every_size(&stand);
    }
}

#[test]
fn every_reader_of_folders_without_a_store_reads_every_body_whole() {
    let root = tempfile::tempdir().unwrap();
    let kb = FolderKb::new(root.path().join("kb"));
    let (pair, recipient) = backup_key();
    let target =
        FolderBackupTarget::new(FileRunStore::new(root.path().join("runs")), recipient).making_folders();
    let full = std::env::var_os("CUTTER_FULL").is_some();
    let sizes = [(0, 10), (1, 20), (MANY, 20), (BIG, 2)].into_iter().chain(full.then_some((300 << 20, 2)));
    for (n, (size, times)) in sizes.enumerate() {
        let body = noise(size);
        let mut writer = target.begin("r", n as u64).unwrap();
        writer.write_all(&body).unwrap();
        let receipt = writer.finish().unwrap();
        let document = (size <= BIG).then(|| format!("d/{n}.md"));
        if let Some(path) = &document {
            kb.create(path, &body).unwrap();
        }
        for _ in 0..times {
            let hash = target.rehash("r", &receipt.name).unwrap();
            assert_eq!((hash.ciphertext_sha256, hash.bytes), (receipt.ciphertext_sha256, receipt.bytes));
            if let Some(path) = &document {
                assert!(kb.read(path).unwrap().unwrap().bytes == body, "{size} bytes");
            }
        }
        let mut plain = Vec::new();
        decrypt_stream(&pair, target.open("r", &receipt.name).unwrap(), &mut plain).unwrap();
        assert!(plain == body, "{size} bytes");
    }
}
