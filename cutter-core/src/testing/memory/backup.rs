//! Backup source and target of the model. The "ciphertext" is the plaintext under a fixed
//! transform with a header that names the recipient: deterministic, and hiding nothing.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;
use serde_json::json;

use super::observe;
use super::world::{Data, Process, World};
use crate::base::digest::{Digest, Hasher};
use crate::base::id::RunId;
use crate::port::backup::{BackupSink, BackupSource, BackupStream, BackupTarget};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::backup::{
    BackupBlob, BackupRequest, BackupScope, BackupSummary, TableSummary, TargetFacts,
};

const SOURCE: Port = Port::BackupSource;
const TARGET: Port = Port::BackupTarget;
const MAGIC: &str = "memory-cipher/1 ";
const CHUNK: usize = 64 * 1024;

/// Stored blobs and what is known of the recipient.
#[derive(Debug, Clone)]
pub(super) struct Backups {
    pub(super) blobs: BTreeMap<(RunId, String), Vec<u8>>,
    pub(super) fingerprint: String,
    pub(super) reachable: bool,
}

impl Backups {
    pub(super) const fn new(fingerprint: String) -> Self {
        Self { blobs: BTreeMap::new(), fingerprint, reachable: true }
    }
}

fn cipher(fingerprint: &str, plaintext: &[u8]) -> Vec<u8> {
    let mut out = format!("{MAGIC}{fingerprint}\n").into_bytes();
    out.extend(plaintext.iter().map(|b| b ^ 0x5a));
    out
}

/// The plaintext of a stored backup; `None` if the bytes are not of this form.
#[must_use]
pub fn decipher(ciphertext: &[u8]) -> Option<Vec<u8>> {
    let rest = ciphertext.strip_prefix(MAGIC.as_bytes())?;
    let body = rest.iter().position(|b| *b == b'\n')? + 1;
    Some(rest.get(body..)?.iter().map(|b| b ^ 0x5a).collect())
}

/// The backup source of one process.
pub struct MemoryBackupSource(pub(super) Process);

#[async_trait]
impl BackupSource for MemoryBackupSource {
    async fn open(&self, request: &BackupRequest) -> PortResult<Box<dyn BackupStream>> {
        self.0.call(SOURCE, "open", |data| {
            if request.deadline_ms == 0 {
                let message = "nothing is left of the cap";
                return Err(PortError::new(SOURCE, "open", PortErrorKind::Deadline, message));
            }
            let (bytes, summary) = snapshot(data, request);
            Ok(Box::new(Stream { process: self.0.clone(), bytes, at: 0, ended: false, summary })
                as Box<dyn BackupStream>)
        })
    }
}

/// Header, tables with their rows, trailer: one JSON value a line.
fn snapshot(data: &Data, request: &BackupRequest) -> (Vec<u8>, BackupSummary) {
    let BackupRequest { run_id, document_id, scope, at, .. } = request;
    let mut text = json!({
        "format": "memory-backup/1",
        "run_id": run_id.to_string(),
        "document_id": document_id,
        "scope": scope.as_str(),
        "at": at,
        "database": data.catalogue.identity,
        "migrations": data.catalogue.migrations,
        "functions": data.catalogue.functions,
        "triggers": data.catalogue.triggers,
        "grants": observe::json_digest(&data.catalogue.grants),
    })
    .to_string();
    text.push('\n');
    let documents: Vec<&String> = match scope {
        BackupScope::Document => alloc::vec![document_id],
        BackupScope::Database => data.tables.documents.keys().collect(),
    };
    let mut tables: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for id in documents {
        for (table, lines) in observe::closure(&data.tables, &data.catalogue.vocabulary, id, None) {
            let all = tables.entry(table).or_default();
            if table != "dot_config" || all.is_empty() {
                all.extend(lines);
            }
        }
    }
    let mut summaries = Vec::new();
    for (table, lines) in &tables {
        let sha256 = observe::table_sha(lines);
        text.push_str(&json!({ "table": table, "rows": lines.len() }).to_string());
        text.push('\n');
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        summaries.push(TableSummary { table: (*table).to_string(), rows: lines.len() as u64, sha256 });
    }
    let base_state_sha = observe::base_state(&data.tables, &data.catalogue.vocabulary, document_id, run_id);
    let content_rows = data.tables.units.values().filter(|u| u.document_id == *document_id).count() as u64;
    let trailer: Vec<_> = summaries.iter().map(|s| (&s.table, s.rows, s.sha256)).collect();
    text.push_str(&json!({ "trailer": trailer, "base_state_sha": base_state_sha }).to_string());
    text.push('\n');
    (text.into_bytes(), BackupSummary { tables: summaries, base_state_sha, content_rows })
}

struct Stream {
    process: Process,
    bytes: Vec<u8>,
    at: usize,
    ended: bool,
    summary: BackupSummary,
}

#[async_trait]
impl BackupStream for Stream {
    async fn next(&mut self) -> PortResult<Option<Vec<u8>>> {
        let Self { process, bytes, at, ended, .. } = self;
        process.call(SOURCE, "next", |_| {
            let end = bytes.len().min(*at + CHUNK);
            let chunk = bytes.get(*at..end).filter(|chunk| !chunk.is_empty()).map(<[u8]>::to_vec);
            *at = end;
            *ended = chunk.is_none();
            Ok(chunk)
        })
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupSummary> {
        let process = self.process.clone();
        process.call(SOURCE, "finish", |_| {
            if self.ended {
                return Ok(self.summary);
            }
            let message = "the stream was not read to its end";
            Err(PortError::new(SOURCE, "finish", PortErrorKind::Invalid, message))
        })
    }
}

/// The backup target of one process.
pub struct MemoryBackupTarget(pub(super) Process);

struct Sink {
    process: Process,
    run_id: RunId,
    name: String,
    fingerprint: String,
    plaintext: Vec<u8>,
    hasher: Hasher,
}

fn unreachable_target(op: &str) -> PortError {
    PortError::new(TARGET, op, PortErrorKind::Unavailable, "the backup target cannot be reached")
}

#[async_trait]
impl BackupTarget for MemoryBackupTarget {
    async fn probe(&self, _: &RunId) -> PortResult<TargetFacts> {
        self.0.call(TARGET, "probe", |data| {
            let Backups { reachable, fingerprint, .. } = &data.backups;
            Ok(TargetFacts { reachable: *reachable, fingerprint: fingerprint.clone() })
        })
    }

    async fn begin(&self, run_id: &RunId, epoch: i64) -> PortResult<Box<dyn BackupSink>> {
        let name = format!("pre_write.{epoch}.gpg");
        self.0.call(TARGET, "begin", |data| {
            if !data.backups.reachable {
                return Err(unreachable_target("begin"));
            }
            Ok(Box::new(Sink {
                process: self.0.clone(),
                run_id: run_id.clone(),
                name,
                fingerprint: data.backups.fingerprint.clone(),
                plaintext: Vec::new(),
                hasher: Hasher::new(),
            }) as Box<dyn BackupSink>)
        })
    }

    async fn rehash(&self, run_id: &RunId, name: &str) -> PortResult<Option<(Digest, u64)>> {
        self.0.call(TARGET, "rehash", |data| {
            if !data.backups.reachable {
                return Err(unreachable_target("rehash"));
            }
            let blob = data.backups.blobs.get(&(run_id.clone(), name.to_string()));
            Ok(blob.map(|bytes| (Digest::of(bytes), bytes.len() as u64)))
        })
    }

    async fn discard_unrecorded(&self, run_id: &RunId, recorded: Option<&str>) -> PortResult<()> {
        self.0.call(TARGET, "discard_unrecorded", |data| {
            if !data.backups.reachable {
                return Err(unreachable_target("discard_unrecorded"));
            }
            data.backups.blobs.retain(|(run, name), _| run != run_id || Some(name.as_str()) == recorded);
            Ok(())
        })
    }
}

#[async_trait]
impl BackupSink for Sink {
    async fn write(&mut self, chunk: &[u8]) -> PortResult<()> {
        let Self { process, plaintext, hasher, .. } = self;
        process.call(TARGET, "write", |_| {
            plaintext.extend_from_slice(chunk);
            hasher.update(chunk);
            Ok(())
        })
    }

    async fn finish(self: Box<Self>) -> PortResult<BackupBlob> {
        let process = self.process.clone();
        process.call(TARGET, "finish", |data| {
            let Self { run_id, name, fingerprint, plaintext, hasher, .. } = *self;
            let ciphertext = cipher(&fingerprint, &plaintext);
            let key = (run_id, name.clone());
            if data.backups.blobs.contains_key(&key) {
                let message = format!("{name} exists, and a backup is never replaced");
                return Err(PortError::new(TARGET, "finish", PortErrorKind::Conflict, message));
            }
            let blob = BackupBlob {
                name,
                bytes: ciphertext.len() as u64,
                sha256: Digest::of(&ciphertext),
                plaintext_sha256: hasher.finish(),
                fingerprint,
            };
            data.backups.blobs.insert(key, ciphertext);
            Ok(blob)
        })
    }
}

impl World {
    /// The stored ciphertext of a backup.
    #[must_use]
    pub fn backup(&self, run_id: &RunId, name: &str) -> Option<Vec<u8>> {
        self.lock().data.backups.blobs.get(&(run_id.clone(), name.to_string())).cloned()
    }

    /// Names of the stored backups of a run, in byte order.
    #[must_use]
    pub fn backups(&self, run_id: &RunId) -> Vec<String> {
        let inner = self.lock();
        let names = inner.data.backups.blobs.keys().filter(|(run, _)| run == run_id);
        names.map(|(_, name)| name.clone()).collect()
    }

    /// The fingerprint that backups are encrypted to.
    #[must_use]
    pub fn backup_recipient(&self) -> String {
        self.lock().data.backups.fingerprint.clone()
    }
}
