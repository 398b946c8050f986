//! Backups in an object store, encrypted to the pinned key (`IG_backup`, PROTOCOL §2).
//!
//! ```text
//! write ─> encrypt (its own thread) ─> parts ─> upload, invisible ─┐
//! finish ──────────────────────────────────────> claim the epoch ──┴─> <run>/pre_write.<epoch>.gpg
//! ```
//!
//! The blob appears whole and once. A multipart upload shows nothing before it is completed,
//! but completing one would replace; so the epoch is claimed first, by a create-only object
//! that names this attempt, and only the claim's owner completes. Copying from a temporary
//! key would do as well, but ends at 5 GiB on S3, and few servers copy on a condition. A
//! blob of one part is a single create-only put besides. After a crash nothing is published;
//! what was uploaded stays invisible until the bucket's rule for unfinished uploads removes it.

use std::io::{self, Write};

use async_trait::async_trait;
use bytes::Bytes;
use cutter_core::base::digest::{Digest, to_hex};
use cutter_core::base::id::RunId;
use cutter_core::port::backup::{BackupSink, BackupTarget};
use cutter_core::port::knowledge_base::CreateOutcome;
use cutter_core::port::{Port, PortErrorKind, PortResult};
use cutter_core::record::backup::{BackupBlob, TargetFacts};
use tokio::sync::{mpsc, oneshot};

use super::body::Body;
use super::error::Fault;
use super::kb::put_new;
use super::place::Place;
use super::upload::{self, Part, Uploaded};
use crate::backup_target::{backup_name, epoch_of};
use crate::openpgp::{EncryptWriter, Recipient};

const BACKUP: Port = Port::BackupTarget;
const CLAIMS: &str = ".claims";
const PROBE: &str = ".probe/writable";
/// Plaintext chunks on their way to the encryption.
const CHUNKS_IN_FLIGHT: usize = 4;
/// Parts on their way to the store.
const PARTS_IN_FLIGHT: usize = 1;

/// Where backups go: below a prefix of an object store, one folder per run, encrypted to one
/// recipient.
#[derive(Debug, Clone)]
pub struct ObjectBackupTarget {
    place: Place,
    recipient: Recipient,
}

impl ObjectBackupTarget {
    /// Backups at `place`, encrypted to `recipient`.
    #[must_use]
    pub fn new(place: Place, recipient: Recipient) -> Self {
        Self { place, recipient }
    }

    async fn start(&self, run_id: &RunId, epoch: i64) -> Result<Box<dyn BackupSink>, Fault> {
        let epoch = u64::try_from(epoch)
            .map_err(|_| Fault::invalid(format!("expected an epoch from 0, observed {epoch}")))?;
        let name = backup_name(epoch);
        let path = format!("{run_id}/{name}");
        if self.place.is_there(&path).await? {
            return Err(taken());
        }
        let (plain, chunks) = mpsc::channel(CHUNKS_IN_FLIGHT);
        let (cipher, parts) = mpsc::channel(PARTS_IN_FLIGHT);
        let (answer, result) = oneshot::channel();
        let recipient = self.recipient.clone();
        std::thread::Builder::new()
            .name("cutter-backup".to_owned())
            .spawn(move || encrypt(&recipient, chunks, cipher))
            .map_err(|e| Fault::unavailable(format!("no thread for the encryption: {e}")))?;
        let (place, at) = (self.place.clone(), path.clone());
        self.place.runtime().spawn(async move {
            // a caller that went away does not want the answer
            let _ = answer.send(store(&place, &at, parts).await);
        });
        let at = self.place.at(&path);
        Ok(Box::new(ObjectBackupSink { plain: Some(plain), result: Some(result), name, at }))
    }

    async fn discard(&self, run_id: &RunId, recorded: Option<&str>) -> Result<(), Fault> {
        if let Some(name) = recorded {
            check_name(name)?;
        }
        for path in self.place.list(run_id.as_str()).await? {
            let name = path.rsplit('/').next().unwrap_or_default();
            if epoch_of(name).is_some() && Some(name) != recorded {
                self.place.remove(&path).await?;
            }
        }
        Ok(())
    }
}

/// A backup of a run, read as a stream. It keeps alive what feeds it: the place that it was
/// opened at may be dropped.
#[derive(Debug)]
pub struct BackupReader {
    body: Body,
    at: String,
}

impl BackupReader {
    /// Opens the stored ciphertext; `None` if it is not there.
    ///
    /// # Errors
    /// As every read; `Invalid` if `name` is no backup's name.
    pub async fn open(place: &Place, run_id: &RunId, name: &str) -> PortResult<Option<Self>> {
        let path = format!("{run_id}/{name}");
        let at = place.at(&path);
        let opened = async {
            check_name(name)?;
            place.body(&path).await
        };
        let opened = opened.await.map_err(|f| f.of(BACKUP, "open", &at))?;
        Ok(opened.map(|body| Self { body, at }))
    }

    /// The next piece, or `None` after the last byte that the store announced.
    ///
    /// # Errors
    /// As every read; a body that ends before, or does not come in time, is `Unavailable`.
    pub async fn next(&mut self) -> PortResult<Option<Bytes>> {
        self.body.next().await.map_err(|f| f.of(BACKUP, "read", &self.at))
    }
}

#[async_trait]
impl BackupTarget for ObjectBackupTarget {
    async fn probe(&self, _run_id: &RunId) -> PortResult<TargetFacts> {
        let mode = ::object_store::PutMode::Overwrite;
        let written = self.place.put(PROBE, Bytes::from_static(b"cutter\n"), mode).await;
        let fingerprint = self.recipient.fingerprint().to_string();
        Ok(TargetFacts { reachable: written.is_ok(), fingerprint })
    }

    async fn begin(&self, run_id: &RunId, epoch: i64) -> PortResult<Box<dyn BackupSink>> {
        self.start(run_id, epoch).await.map_err(|f| f.of(BACKUP, "begin", &self.place.at(run_id.as_str())))
    }

    async fn rehash(&self, run_id: &RunId, name: &str) -> PortResult<Option<(Digest, u64)>> {
        let path = format!("{run_id}/{name}");
        let hashed = async {
            check_name(name)?;
            self.place.hash(&path).await
        };
        hashed.await.map_err(|f| f.of(BACKUP, "rehash", &self.place.at(&path)))
    }

    async fn discard_unrecorded(&self, run_id: &RunId, recorded: Option<&str>) -> PortResult<()> {
        let at = self.place.at(run_id.as_str());
        self.discard(run_id, recorded).await.map_err(|f| f.of(BACKUP, "discard_unrecorded", &at))
    }
}

/// A backup on its way. Dropped unfinished it leaves nothing that can be seen.
struct ObjectBackupSink {
    plain: Option<mpsc::Sender<Chunk>>,
    result: Option<oneshot::Receiver<Result<Uploaded, Fault>>>,
    name: String,
    at: String,
}

enum Chunk {
    Bytes(Vec<u8>),
    End,
}

impl ObjectBackupSink {
    async fn send(&mut self, chunk: Chunk) -> Result<(), Fault> {
        let sent = match &self.plain {
            Some(plain) => plain.send(chunk).await.is_ok(),
            None => false,
        };
        if sent {
            return Ok(());
        }
        // the other side has ended early: its answer says why
        self.plain = None;
        Err(self.answer().await.err().unwrap_or_else(ended))
    }

    async fn answer(&mut self) -> Result<Uploaded, Fault> {
        match self.result.take() {
            Some(result) => result.await.unwrap_or_else(|_| Err(ended())),
            None => Err(ended()),
        }
    }
}

#[async_trait]
impl BackupSink for ObjectBackupSink {
    async fn write(&mut self, chunk: &[u8]) -> PortResult<()> {
        let sent = self.send(Chunk::Bytes(chunk.to_vec())).await;
        sent.map_err(|f| f.of(BACKUP, "write", &self.at))
    }

    async fn finish(mut self: Box<Self>) -> PortResult<BackupBlob> {
        let done = match self.send(Chunk::End).await {
            Ok(()) => self.answer().await,
            Err(fault) => Err(fault),
        };
        let Uploaded { facts } = done.map_err(|fault| {
            let fault = match fault {
                Fault::Exists => taken(),
                // what is not recorded does not count, and the next attempt has its own name
                Fault::Unknown { message } => Fault::unavailable(message),
                other => other,
            };
            fault.of(BACKUP, "finish", &self.at)
        })?;
        Ok(BackupBlob {
            name: self.name,
            bytes: facts.ciphertext_bytes,
            sha256: facts.ciphertext_sha256,
            plaintext_sha256: facts.plaintext_sha256,
            fingerprint: facts.recipient.to_string(),
        })
    }
}

/// On a thread of its own: takes plaintext, gives parts of ciphertext. Whatever fails here
/// ends the parts without an end, and the upload is given up.
fn encrypt(recipient: &Recipient, mut chunks: mpsc::Receiver<Chunk>, parts: mpsc::Sender<Part>) {
    let failed = |parts: &mpsc::Sender<Part>, message: String| {
        // nobody listens any more if the upload failed first
        let _ = parts.blocking_send(Part::Failed(message));
    };
    let mut writer = match EncryptWriter::new(recipient, PartWriter::new(parts.clone())) {
        Ok(writer) => writer,
        Err(error) => return failed(&parts, error.to_string()),
    };
    while let Some(chunk) = chunks.blocking_recv() {
        match chunk {
            Chunk::Bytes(bytes) => {
                if let Err(error) = writer.write_all(&bytes) {
                    return failed(&parts, error.to_string());
                }
            }
            Chunk::End => {
                let finished = writer.finish().map_err(|e| e.to_string());
                let ended = finished.and_then(|(mut out, facts)| {
                    out.send_part().map_err(|e| e.to_string())?;
                    Ok(facts)
                });
                match ended {
                    // nobody listens any more if the upload failed first
                    Ok(facts) => drop(parts.blocking_send(Part::End(Box::new(facts)))),
                    Err(message) => failed(&parts, message),
                }
                return;
            }
        }
    }
}

/// Cuts ciphertext into parts of one size.
struct PartWriter {
    parts: mpsc::Sender<Part>,
    pending: Vec<u8>,
}

impl PartWriter {
    fn new(parts: mpsc::Sender<Part>) -> Self {
        Self { parts, pending: Vec::new() }
    }

    fn send_part(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let part = Bytes::from(std::mem::take(&mut self.pending));
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the upload has ended");
        self.parts.blocking_send(Part::Bytes(part)).map_err(gone)
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.len() >= upload::PART_BYTES {
            self.send_part()?;
        }
        let taken = bytes.len().min(upload::PART_BYTES - self.pending.len());
        self.pending.extend_from_slice(bytes.get(..taken).unwrap_or(bytes));
        Ok(taken)
    }

    /// A part goes when it is full, and the last one by [`PartWriter::send_part`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// On the store's thread: uploads the parts, claims the epoch, publishes.
async fn store(place: &Place, path: &str, parts: mpsc::Receiver<Part>) -> Result<Uploaded, Fault> {
    let ready = upload::receive(place, path, parts).await?;
    let claim = claim_path(path);
    let mut nonce = [0u8; 16];
    if let Err(error) = getrandom::fill(&mut nonce) {
        return ready.abandon(Fault::unavailable(error.to_string())).await;
    }
    match put_new(place, &claim, Bytes::from(to_hex(&nonce))).await {
        Ok(CreateOutcome::Created | CreateOutcome::Identical) => {}
        Ok(CreateOutcome::Different { .. }) => return ready.abandon(Fault::Exists).await,
        Err(fault) => return ready.abandon(fault).await,
    }
    match place.is_there(path).await {
        Ok(false) => {}
        Ok(true) => return ready.abandon(Fault::Exists).await,
        Err(fault) => return ready.abandon(fault).await,
    }
    let facts = ready.facts().clone();
    match ready.publish().await {
        Ok(()) => Ok(Uploaded { facts }),
        Err(fault @ (Fault::Unknown { .. } | Fault::Exists)) => match place.hash(path).await {
            Ok(Some(found)) if found == (facts.ciphertext_sha256, facts.ciphertext_bytes) => {
                Ok(Uploaded { facts })
            }
            _ => Err(fault),
        },
        Err(fault) => {
            // not published for sure: the epoch is free again
            let _ = place.remove(&claim).await;
            Err(fault)
        }
    }
}

fn claim_path(path: &str) -> String {
    let (folder, name) = super::place::split(path);
    format!("{folder}/{CLAIMS}/{name}")
}

fn check_name(name: &str) -> Result<(), Fault> {
    if epoch_of(name).is_some() {
        return Ok(());
    }
    let observed: String = name.chars().take(80).collect();
    Err(Fault::invalid(format!("expected a name like pre_write.<epoch>.gpg, observed {observed:?}")))
}

fn taken() -> Fault {
    let message = "this epoch has a backup; it is never replaced".to_owned();
    Fault::NotDone { kind: PortErrorKind::Conflict, message }
}

fn ended() -> Fault {
    Fault::unavailable("the backup had ended before")
}
