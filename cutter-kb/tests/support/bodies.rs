//! Every reader of objects, and every store to read them from.
#![allow(dead_code, unreachable_pub)]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use ::object_store::local::LocalFileSystem;
use ::object_store::memory::InMemory;
use ::object_store::{ObjectStore, ObjectStoreExt as _};
use bytes::Bytes;
use cutter_core::base::digest::Digest;
use cutter_core::base::id::{RunId, mint_v7};
use cutter_core::port::PortResult;
use cutter_core::port::backup::BackupTarget as _;
use cutter_core::port::knowledge_base::KnowledgeBase as _;
use cutter_kb::object_store::{BackupReader, KbUrl, ObjectBackupTarget, ObjectKb, Place};
use cutter_kb::openpgp::{KeyKind, KeyPair, Recipient};
use futures_executor::block_on;

use crate::objects::{place_of, recipient};
use crate::server::Server;

pub const NAME: &str = "pre_write.1.gpg";
pub const DOCUMENT: &str = "a/d.md";
pub const REVISION: &str = "a/.revisions/d.md/2";
pub const INDEX: &str = "i/runs.md";
pub const MANY: usize = 84_000;
pub const BIG: usize = 20 << 20;

pub fn run_id() -> RunId {
    let at: jiff::Timestamp = "2026-05-20T10:11:12Z".parse().unwrap();
    RunId::new(at, mint_v7(u64::try_from(at.as_millisecond()).unwrap(), [1; 10])).unwrap()
}

pub fn blob() -> String {
    format!("{}/{NAME}", run_id())
}

/// The same numbers in every run.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

pub fn noise(bytes: usize) -> Bytes {
    let mut seeded = Seeded(bytes as u64);
    let block: Vec<u8> = (0..65_521).map(|_| seeded.below(256) as u8).collect();
    let mut all = block.repeat(bytes / block.len() + 1);
    all.truncate(bytes);
    all.into()
}

pub fn backup_key() -> (KeyPair, Recipient) {
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Encrypt).unwrap();
    let recipient = recipient(&pair);
    (pair, recipient)
}

pub type Found = (Digest, u64);
pub type Reader = (&'static str, Box<dyn Fn(Place) -> PortResult<Found>>);

pub fn found(bytes: &[u8]) -> Found {
    (Digest::of(bytes), bytes.len() as u64)
}

/// Every reader of objects; each outlives all that it was given but itself.
pub fn readers() -> Vec<Reader> {
    let (_, recipient) = backup_key();
    let backup = |place: Place| {
        let opened = block_on(BackupReader::open(&place, &run_id(), NAME));
        drop(place);
        let mut reader = opened?.unwrap();
        let (mut hasher, mut bytes) = (cutter_core::base::digest::Hasher::new(), 0);
        while let Some(piece) = block_on(reader.next())? {
            hasher.update(&piece);
            bytes += piece.len() as u64;
        }
        assert_eq!(block_on(reader.next())?, None, "the end stays the end");
        Ok((hasher.finish(), bytes))
    };
    let rehash = move |place: Place| {
        let target = ObjectBackupTarget::new(place, recipient.clone());
        Ok(block_on(target.rehash(&run_id(), NAME))?.unwrap())
    };
    let document = |place: Place| Ok(found(&block_on(ObjectKb::new(place).read(DOCUMENT))?.unwrap().bytes));
    let revision =
        |place: Place| Ok(found(&block_on(ObjectKb::new(place).read_revision(DOCUMENT, 2))?.unwrap()));
    vec![
        ("backup", Box::new(backup)),
        ("rehash", Box::new(rehash)),
        ("document", Box::new(document)),
        ("revision", Box::new(revision)),
    ]
}

pub type Put = Box<dyn Fn(&str, Bytes)>;

/// A store: places in it, and how an object gets there without us.
pub struct Stand {
    pub name: &'static str,
    pub place: Box<dyn Fn() -> Place>,
    pub put: Put,
    root: Option<tempfile::TempDir>,
}

impl Stand {
    pub fn of(name: &'static str, store: Arc<dyn ObjectStore>, keep: Option<tempfile::TempDir>) -> Self {
        let (at, to) = (store.clone(), store);
        let put = move |path: &str, body: Bytes| {
            let key = format!("some/prefix/{path}").into();
            block_on(to.put(&key, body.into())).unwrap();
        };
        Self { name, place: Box::new(move || place_of(at.clone())), put: Box::new(put), root: keep }
    }

    pub fn memory() -> Self {
        Self::of("memory", Arc::new(InMemory::new()), None)
    }

    pub fn folder() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self::of("folder", Arc::new(LocalFileSystem::new_with_prefix(root.path()).unwrap()), Some(root))
    }

    pub fn server() -> Self {
        let server = Server::start();
        let at = server.clone();
        let put = move |path: &str, body: Bytes| server.put(path, body);
        Self { name: "server", place: Box::new(move || at.place()), put: Box::new(put), root: None }
    }

    /// On the real server, below a prefix of its own; or `None`, said aloud.
    pub fn real() -> Option<Self> {
        let Ok(base) = std::env::var("CUTTER_TEST_S3") else {
            let message = "bodies on S3: SKIPPED, no S3 server: eval \"$(scripts/s3 start)\"\n";
            let _ = std::io::stderr().write_all(message.as_bytes());
            return None;
        };
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).unwrap();
        let prefix = format!("bodies-{:016x}", u64::from_be_bytes(random));
        let url = format!("{base}/{prefix}");
        let bucket_and_folder = base.trim_start_matches("s3://").split_once('/');
        let begin = bucket_and_folder.map_or_else(String::new, |(_, folder)| format!("{folder}/")) + &prefix;
        let place = move || url.parse::<KbUrl>().unwrap().open(std::env::vars()).unwrap();
        // the first one also settles which cryptography the process uses
        drop(place());
        let client = ::object_store::aws::AmazonS3Builder::from_env().with_url(&base).with_allow_http(true);
        let client = client.build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let put = move |path: &str, body: Bytes| {
            let key = format!("{begin}/{path}").into();
            runtime.block_on(client.put(&key, body.into())).unwrap();
        };
        Some(Self { name: "S3", place: Box::new(place), put: Box::new(put), root: None })
    }

    pub fn root(&self) -> &Path {
        self.root.as_ref().unwrap().path()
    }

    pub fn holds(&self, body: &Bytes) {
        for path in [blob().as_str(), DOCUMENT, REVISION] {
            (self.put)(path, body.clone());
        }
    }

    pub fn reads_whole(&self, size: usize, times: usize) {
        let body = noise(size);
        self.holds(&body);
        let (expected, shared) = (found(&body), (self.place)());
        for (reader, read) in readers() {
            for i in 0..times {
                // to open a place costs more than to read; a stream is what may outlive it
                let place = if reader == "backup" { (self.place)() } else { shared.clone() };
                let observed = read(place);
                let which = format!("{} of {size} bytes from {}, number {i}", reader, self.name);
                assert_eq!(observed.unwrap_or_else(|e| panic!("{which}: {e}")), expected, "{which}");
            }
        }
    }
}
