//! What the benchmarks over PostgreSQL share.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cutter_core::driver::Ports;
use cutter_core::id::RunId;
use cutter_pg::login::Login;
use cutter_tests::pg::{Counts, Ids, PgWorld};
use futures_executor::block_on;
use postgres::{Client, Statement};

use crate::paired::{median, timed};

/// The number after a flag, or a default.
#[must_use]
pub fn argument(flag: &str, default: usize) -> usize {
    let mut arguments = std::env::args();
    arguments
        .find(|a| a == flag)
        .and_then(|_| arguments.next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(default)
}

/// Whether a flag was given.
#[must_use]
pub fn has(flag: &str) -> bool {
    std::env::args().any(|a| a == flag)
}

/// A document id that nothing had before.
#[must_use]
pub fn fresh_id(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{prefix}-{:05}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Does nothing but what a run makes durable.
pub struct Floor {
    counts: Counts,
    folder: PathBuf,
    client: Client,
    insert: Statement,
    ports: Ports,
    plaintext: Vec<u8>,
    parts: Vec<[Duration; 4]>,
    next: u64,
}

impl Floor {
    /// Over the world's own disk and server.
    #[must_use]
    pub fn new(world: &PgWorld, counts: Counts) -> Self {
        let mut client = world.database.client(Login::Admin);
        client
            .batch_execute("CREATE TABLE public.floor (n bigint PRIMARY KEY); SET synchronous_commit = on")
            .unwrap();
        let insert = client.prepare("INSERT INTO public.floor VALUES ($1)").unwrap();
        let folder = world.runs().root().join("floor");
        std::fs::create_dir_all(&folder).unwrap();
        // Bytes that do not repeat, as a document's do not.
        let plaintext = (0..counts.backup_bytes).map(|i| (i * i % 251) as u8).collect();
        Self { counts, folder, client, insert, ports: world.ports(), plaintext, parts: Vec::new(), next: 0 }
    }

    /// Once; how long it took.
    pub fn run(&mut self) -> Duration {
        let folder = self.folder.join(self.next.to_string());
        std::fs::create_dir(&folder).unwrap();
        let bytes = vec![b'x'; self.counts.published.iter().copied().max().unwrap_or(0) as usize];
        let files = timed(|| {
            for (i, size) in self.counts.published.iter().enumerate() {
                let at = folder.join(format!("{i}.md"));
                cutter_kb::atomic_file::write_new(&at, &bytes[..*size as usize]).unwrap();
            }
            for _ in 0..self.counts.index_lines {
                let mut index = std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(self.folder.join("index"))
                    .unwrap();
                index.write_all(&[b'-'; 200]).unwrap();
                index.sync_all().unwrap();
            }
        });
        let commits = timed(|| {
            for _ in 0..self.counts.commits {
                self.next += 1;
                // As a run does: BEGIN, a write, COMMIT.
                let mut transaction = self.client.transaction().unwrap();
                transaction.execute(&self.insert, &[&(self.next as i64)]).unwrap();
                transaction.commit().unwrap();
            }
        });
        let run_id = RunId::new(jiff::Timestamp::now(), Ids.mint()).unwrap();
        // The run's folder stands already when a run backs up.
        block_on(self.ports.runs.create(&run_id, b"{}")).unwrap();
        let target = self.ports.backup_target.clone();
        let (backup, name) = timed(|| {
            block_on(async {
                let mut sink = target.begin(&run_id, 1).await.unwrap();
                for chunk in self.plaintext.chunks(256 * 1024) {
                    sink.write(chunk).await.unwrap();
                }
                sink.finish().await.unwrap().name
            })
        });
        let (hashes, ()) = timed(|| {
            for _ in 0..self.counts.rehashes {
                block_on(target.rehash(&run_id, &name)).unwrap().unwrap();
            }
        });
        self.parts.push([files.0, commits.0, backup, hashes]);
        files.0 + commits.0 + backup + hashes
    }

    /// Median of each part.
    #[must_use]
    pub fn parts(&self) -> Vec<(&'static str, Duration)> {
        ["published files", "commits", "encrypted backup", "hashes"]
            .into_iter()
            .enumerate()
            .map(|(i, name)| {
                let times = self.parts.iter().map(|parts| parts[i].as_secs_f64()).collect();
                (name, Duration::from_secs_f64(median(times)))
            })
            .collect()
    }
}
