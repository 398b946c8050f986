//! What the benchmarks over PostgreSQL share.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "for benchmarks only"
)]

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cutter_core::base::id::RunId;
use cutter_core::driver::Ports;
use cutter_pg::login::Login;
use cutter_tests::pg::{Counts, Ids, PgWorld};
use futures_executor::block_on;
use postgres::{Client, Statement};

use crate::measured::{median, timed};

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

/// Units of one document of [`fill`].
const FILL_UNITS: usize = 500;

/// Stores about `units` units of other documents, as their finished runs would have left them,
/// and gives how many units the database then holds.
pub fn fill(database: &cutter_pg::testing::TestDatabase, units: usize) -> i64 {
    let mut client = database.client(Login::Admin);
    // What is inserted obeys the rules by construction; checking each row would take minutes.
    client.batch_execute("SET session_replication_role = replica; SET synchronous_commit = off").unwrap();
    client.batch_execute(FILL_HELPERS).unwrap();
    let documents = units.div_ceil(FILL_UNITS);
    for first in (1..=documents).step_by(100) {
        let last = (first + 99).min(documents);
        let sql = FILL.replace("{first}", &first.to_string()).replace("{last}", &last.to_string());
        client.batch_execute(&sql.replace("{units}", &FILL_UNITS.to_string())).unwrap();
    }
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        client.batch_execute(statement).unwrap();
    }
    client.query_one("SELECT count(*) FROM iu_core.information_unit", &[]).unwrap().get(0)
}

const FILL_HELPERS: &str = "
CREATE FUNCTION pg_temp.id(p_kind text, p_n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE
    AS $$ SELECT md5(p_kind || ' ' || p_n)::uuid $$;
CREATE FUNCTION pg_temp.hex(p_text text) RETURNS text LANGUAGE sql IMMUTABLE
    AS $$ SELECT encode(sha256(convert_to(p_text, 'UTF8')), 'hex') $$;";

/// Documents `{first}` to `{last}` with `{units}` enacted units each.
const FILL: &str = "
INSERT INTO iu_core.source_document (source_document_id, document_id, title, registered_by)
SELECT pg_temp.id('d', i), 'FILL-' || i, 't', 'me' FROM generate_series({first}, {last}) i;
INSERT INTO iu_core.source_version (source_version_id, source_document_id, version_no, sha256, byte_length, content,
    registered_by)
SELECT pg_temp.id('v', i), pg_temp.id('d', i), 1, pg_temp.hex(t.content), octet_length(t.content),
    convert_to(t.content, 'UTF8'), 'me'
FROM generate_series({first}, {last}) i, LATERAL (SELECT repeat('text of ' || i || ' ', 2000) AS content) t;
INSERT INTO cutter_governance.decision_backlog_entry (entry_id, run_id, document_id, source_document_id,
    source_version_id, status, idempotency_key, region_sha, manifest_digest, candidate_count, actor, at)
SELECT pg_temp.id('e', i), 'r' || i, 'FILL-' || i, pg_temp.id('d', i), pg_temp.id('v', i), 'verified_complete',
    pg_temp.hex('e' || i), pg_temp.hex('r'), pg_temp.hex('m'), {units}, 'me', now()
FROM generate_series({first}, {last}) i;
INSERT INTO cutter_governance.decision_backlog_history (history_id, entry_id, from_state, to_state, actor, reason, at)
SELECT pg_temp.id('h' || n, i), pg_temp.id('e', i), NULL, 'marked', 'me', 'x', now()
FROM generate_series({first}, {last}) i, generate_series(1, 7) n;
INSERT INTO cutter_governance.review_decision (id, run_id, document_id, type, decision, nonce, request_sha256, actor, at)
SELECT pg_temp.id('r', i), 'r' || i, 'FILL-' || i, 'cut_authorization', 'approve', 'n' || i, pg_temp.hex('q'), 'me', now()
FROM generate_series({first}, {last}) i;
INSERT INTO cutter_governance.review_approval (approval_id, review_decision_id, run_id, document_id, type, decision,
    approval_kb_id, document, sha256, nonce, fingerprint, actor, request_sha256, inserted_by, at)
SELECT pg_temp.id('a', i), pg_temp.id('r', i), 'r' || i, 'FILL-' || i, 'cut_authorization', 'approve', 'k',
    convert_to('a' || i, 'UTF8'), pg_temp.hex('a' || i), 'n' || i, 'F', 'me', pg_temp.hex('q'), 'cutter_review', now()
FROM generate_series({first}, {last}) i;
INSERT INTO cutter_governance.approval_use (approval_id, run_id, effect, effect_id, at)
SELECT pg_temp.id('a', i), 'r' || i, 'leg_a', pg_temp.id('f', i), now() FROM generate_series({first}, {last}) i;
INSERT INTO cutter_governance.cut_change_set (change_set_id, run_id, document_id, source_document_id, source_version_id,
    source_bytes, entry_id, approval_id, review_decision_id, idempotency_key, writer_digest, manifest_digest, region_sha,
    publication_type, unit_count, actor, at)
SELECT pg_temp.id('c', i), 'r' || i, 'FILL-' || i, pg_temp.id('d', i), pg_temp.id('v', i), v.byte_length,
    pg_temp.id('e', i), pg_temp.id('a', i), pg_temp.id('r', i), pg_temp.hex('c' || i), pg_temp.hex('w'),
    pg_temp.hex('m'), pg_temp.hex('r'), 'act', {units}, 'me', now()
FROM generate_series({first}, {last}) i JOIN iu_core.source_version v ON v.source_version_id = pg_temp.id('v', i);
INSERT INTO iu_core.information_unit (unit_id, change_set_id, document_id, source_document_id, source_version_id,
    ordinal, canonical_address, unit_kind, section_type, content_hash, body_hash, idempotency_key, lifecycle_status,
    created_at)
SELECT pg_temp.id('u' || i, n), pg_temp.id('c', i), 'FILL-' || i, pg_temp.id('d', i), pg_temp.id('v', i), n,
    'FILL-' || i || '/art-' || n, 'article', 'general', pg_temp.hex('unit ' || n), pg_temp.hex('unit ' || n),
    pg_temp.hex('u' || i || ' ' || n), 'enacted', now()
FROM generate_series({first}, {last}) i, generate_series(0, {units} - 1) n;
INSERT INTO iu_core.unit_version (version_id, unit_id, version_seq, content, content_hash, body_hash, actor, created_at)
SELECT pg_temp.id('w' || i, n), pg_temp.id('u' || i, n), 1, convert_to('unit ' || n, 'UTF8'), pg_temp.hex('unit ' || n),
    pg_temp.hex('unit ' || n), 'me', now()
FROM generate_series({first}, {last}) i, generate_series(0, {units} - 1) n;
INSERT INTO iu_core.unit_anchor (anchor_id, unit_id, change_set_id, source_version_id, source_bytes, start_byte, end_byte)
SELECT pg_temp.id('n' || i, n), pg_temp.id('u' || i, n), pg_temp.id('c', i), pg_temp.id('v', i), v.byte_length,
    n * 10, n * 10 + 10
FROM generate_series({first}, {last}) i JOIN iu_core.source_version v ON v.source_version_id = pg_temp.id('v', i),
    generate_series(0, {units} - 1) n;
INSERT INTO iu_core.iu_lifecycle_log (unit_id, change_set_id, run_id, from_status, to_status, reason_id, reason, actor, at)
SELECT pg_temp.id('u' || i, n), pg_temp.id('c', i), 'r' || i, 'draft', 'enacted', pg_temp.id('a', i), 'x', 'me', now()
FROM generate_series({first}, {last}) i, generate_series(0, {units} - 1) n";
