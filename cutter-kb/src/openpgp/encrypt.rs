//! Encryption as a stream to one pinned recipient (D13).
//!
//! SEIPD version 1, AES-256, no compression: what GnuPG 2.2 reads. The library pulls its
//! input while our callers push theirs, so a thread sits between, with a channel of a few
//! chunks: memory stays bounded whatever the size of the backup.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use cutter_core::base::digest::{Digest, Hasher};
use pgp::composed::{MessageBuilder, SignedPublicKey};
use pgp::crypto::sym::SymmetricKeyAlgorithm;
use rand::rngs::OsRng;

use super::certificate::{self, Use};
use super::{Fingerprint, OpenPgpError, PublicKey, unix_seconds};

const CHUNK: usize = 64 * 1024;
const CHUNKS_IN_FLIGHT: usize = 4;

/// A public key that was checked: it is the pinned one and may receive encrypted data.
#[derive(Clone)]
pub struct Recipient {
    cert: SignedPublicKey,
    part: pgp::types::Fingerprint,
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.fingerprint())
    }
}

impl Recipient {
    /// Checks `key` against the `pinned` primary fingerprint and the policy at `now`
    /// (not revoked, not expired, sound bindings, flags that allow encryption).
    pub fn new(key: &PublicKey, pinned: &Fingerprint, now: jiff::Timestamp) -> Result<Self, OpenPgpError> {
        let observed = key.fingerprint();
        if observed != *pinned {
            return Err(OpenPgpError::NotPinned { expected: pinned.clone(), observed });
        }
        let part = certificate::pick(&key.cert, Use::Encrypt, unix_seconds(now)).map_err(|fault| {
            OpenPgpError::Policy { fingerprint: observed, code: fault.code, detail: fault.detail }
        })?;
        Ok(Self { cert: key.cert.clone(), part })
    }

    /// The primary fingerprint, as pinned.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.cert.primary_key)
    }
}

/// What was encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptFacts {
    /// Primary fingerprint of the recipient.
    pub recipient: Fingerprint,
    /// Bytes that went in.
    pub plaintext_bytes: u64,
    /// sha256 of what went in.
    pub plaintext_sha256: Digest,
    /// Bytes that came out.
    pub ciphertext_bytes: u64,
    /// sha256 of what came out.
    pub ciphertext_sha256: Digest,
}

/// Encrypts what is written to it into `W`. Only [`EncryptWriter::finish`] completes the
/// message: a writer that is dropped leaves a cut-off message that cannot be decrypted.
pub struct EncryptWriter<W: Write + Send + 'static> {
    channel: Option<SyncSender<Piece>>,
    worker: Option<JoinHandle<Ended<W>>>,
    ended: Option<Ended<W>>,
    pending: Vec<u8>,
    hasher: Hasher,
    bytes: u64,
    recipient: Fingerprint,
}

impl<W: Write + Send + 'static> fmt::Debug for EncryptWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptWriter({} bytes to {})", self.bytes, self.recipient)
    }
}

/// What the thread hands back: the sink, and what the library said.
type Ended<W> = (Sink<W>, Result<(), String>);

enum Piece {
    Bytes(Vec<u8>),
    End,
}

impl<W: Write + Send + 'static> EncryptWriter<W> {
    /// Starts a message to `recipient` into `out`.
    pub fn new(recipient: &Recipient, out: W) -> Result<Self, OpenPgpError> {
        let (channel, receiver) = sync_channel(CHUNKS_IN_FLIGHT);
        let to = recipient.clone();
        let worker = std::thread::Builder::new()
            .name("cutter-encrypt".to_owned())
            .spawn(move || run(&to, receiver, out))
            .map_err(|source| OpenPgpError::Io { op: "start encryption thread", source })?;
        Ok(Self {
            channel: Some(channel),
            worker: Some(worker),
            ended: None,
            pending: Vec::with_capacity(CHUNK),
            hasher: Hasher::new(),
            bytes: 0,
            recipient: recipient.fingerprint(),
        })
    }

    /// Completes the message and hands back `W`, flushed but not synced.
    pub fn finish(mut self) -> Result<(W, EncryptFacts), OpenPgpError> {
        let sent = self.send_pending().and_then(|()| self.send(Piece::End));
        drop(self.channel.take());
        let (sink, outcome) = self.join()?;
        match sink.failed {
            Some(source) => return Err(OpenPgpError::Io { op: "write ciphertext", source }),
            None => outcome.map_err(|detail| OpenPgpError::Operation { op: "encrypt", detail })?,
        }
        sent.map_err(|source| OpenPgpError::Io { op: "encrypt", source })?;
        let facts = EncryptFacts {
            recipient: self.recipient.clone(),
            plaintext_bytes: self.bytes,
            plaintext_sha256: std::mem::take(&mut self.hasher).finish(),
            ciphertext_bytes: sink.bytes,
            ciphertext_sha256: sink.hasher.finish(),
        };
        Ok((sink.out, facts))
    }

    fn send_pending(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.pending, Vec::with_capacity(CHUNK));
        self.send(Piece::Bytes(chunk))
    }

    fn send(&mut self, piece: Piece) -> io::Result<()> {
        let channel = self.channel.as_ref();
        if channel.is_some_and(|channel| channel.send(piece).is_ok()) {
            return Ok(());
        }
        // the thread has ended early: say why, with the system's own error number
        if self.ended.is_none() {
            self.ended = self.worker.take().and_then(|worker| worker.join().ok());
        }
        let failed = self.ended.as_ref().and_then(|(sink, _)| sink.failed.as_ref());
        Err(match failed.map(|error| (error.raw_os_error(), error)) {
            Some((Some(number), _)) => io::Error::from_raw_os_error(number),
            Some((None, error)) => io::Error::new(error.kind(), error.to_string()),
            None => io::Error::new(io::ErrorKind::BrokenPipe, "encryption has ended"),
        })
    }

    fn join(&mut self) -> Result<Ended<W>, OpenPgpError> {
        if let Some(ended) = self.ended.take() {
            return Ok(ended);
        }
        let stopped = || OpenPgpError::operation("encrypt", "the encryption thread stopped");
        self.worker.take().ok_or_else(stopped)?.join().map_err(|_| stopped())
    }
}

impl<W: Write + Send + 'static> Write for EncryptWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.len() >= CHUNK {
            self.send_pending()?;
        }
        let taken = bytes.len().min(CHUNK - self.pending.len());
        let taken_bytes = &bytes[..taken];
        self.pending.extend_from_slice(taken_bytes);
        self.hasher.update(taken_bytes);
        self.bytes += taken as u64;
        Ok(taken)
    }

    /// Does not force ciphertext out: a message has no meaning before it is finished.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write + Send + 'static> Drop for EncryptWriter<W> {
    fn drop(&mut self) {
        drop(self.channel.take());
        if let Some(worker) = self.worker.take() {
            // so that `W` is closed when this returns; its outcome is a message cut off
            let _ = worker.join();
        }
    }
}

fn run<W: Write>(to: &Recipient, receiver: Receiver<Piece>, out: W) -> Ended<W> {
    let mut sink = Sink { out, hasher: Hasher::new(), bytes: 0, failed: None };
    let outcome = encrypt(to, receiver, &mut sink).map_err(|e| e.to_string());
    let flushed = sink.flush().map_err(|e| e.to_string());
    (sink, outcome.and(flushed))
}

fn encrypt<W: Write>(
    to: &Recipient,
    receiver: Receiver<Piece>,
    sink: &mut Sink<W>,
) -> pgp::errors::Result<()> {
    use pgp::types::KeyDetails as _;
    let source = Source { receiver, current: Vec::new(), at: 0, ended: false };
    let mut builder = MessageBuilder::from_reader("", source).seipd_v1(OsRng, SymmetricKeyAlgorithm::AES256);
    match to.cert.public_subkeys.iter().find(|subkey| subkey.key.fingerprint() == to.part) {
        Some(subkey) => builder.encrypt_to_key(OsRng, &subkey.key)?,
        None => builder.encrypt_to_key(OsRng, &to.cert.primary_key)?,
    };
    builder.to_writer(OsRng, sink)
}

/// The library's side of the channel. A writer that went away without `End` is an error,
/// never an end of input.
struct Source {
    receiver: Receiver<Piece>,
    current: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() && !self.ended {
            match self.receiver.recv() {
                Ok(Piece::Bytes(bytes)) => (self.current, self.at) = (bytes, 0),
                Ok(Piece::End) => self.ended = true,
                Err(_) => return Err(io::Error::new(io::ErrorKind::BrokenPipe, "plaintext was abandoned")),
            }
        }
        let rest = &self.current[self.at..];
        let taken = rest.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&rest[..taken]);
        self.at += taken;
        Ok(taken)
    }
}

struct Sink<W> {
    out: W,
    hasher: Hasher,
    bytes: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Sink<W> {
    /// Keeps the system's own error (disk full) for the report and passes on a likeness.
    fn keep(&mut self, error: io::Error) -> io::Error {
        let likeness = io::Error::new(error.kind(), error.to_string());
        self.failed.get_or_insert(error);
        likeness
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.out.write(bytes) {
            Ok(taken) => {
                self.hasher.update(bytes.get(..taken).unwrap_or(bytes));
                self.bytes += taken as u64;
                Ok(taken)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Err(e),
            Err(e) => Err(self.keep(e)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|e| self.keep(e))
    }
}
