//! Decryption as a stream, for restore and inspect.
//!
//! The integrity check of this format comes last, so plaintext leaves before it is known
//! to be genuine. The caller writes it where nothing acts on it (a temporary file, a hash)
//! and trusts it only after `Ok`.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use cutter_core::base::digest::{Digest, Hasher};
use pgp::composed::{DecryptionOptions, Message, TheRing};
use pgp::types::{Password, Seipdv1ReadMode};

use super::{KeyPair, OpenPgpError, contain};

const CHUNK: usize = 64 * 1024;

/// What was decrypted, whole and genuine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecryptFacts {
    /// Bytes written.
    pub plaintext_bytes: u64,
    /// sha256 of what was written.
    pub plaintext_sha256: Digest,
    /// Bytes read.
    pub ciphertext_bytes: u64,
    /// sha256 of what was read: compare it with the recorded one. The integrity check does
    /// not cover the packet that carries the session key, where some bits mean nothing.
    pub ciphertext_sha256: Digest,
}

/// Decrypts `ciphertext` with `key` into `plaintext`.
///
/// Until this returns `Ok`, nothing that was written may be trusted or acted upon: a cut,
/// flipped or foreign file ends in [`OpenPgpError::Data`], possibly after bytes went out.
/// Accepted is one encrypted message that holds plain data, as [`super::EncryptWriter`] and
/// `gpg --encrypt --compress-algo none` make it, and nothing behind it.
pub fn decrypt_stream<R: Read + Send, W: Write>(
    key: &KeyPair,
    ciphertext: R,
    plaintext: &mut W,
) -> Result<DecryptFacts, OpenPgpError> {
    contain(|| decrypt(key, ciphertext, plaintext)).unwrap_or_else(|detail| Err(OpenPgpError::Data(detail)))
}

fn decrypt<R: Read + Send, W: Write>(
    key: &KeyPair,
    ciphertext: R,
    plaintext: &mut W,
) -> Result<DecryptFacts, OpenPgpError> {
    let refused = |e: pgp::errors::Error| OpenPgpError::Data(e.to_string());
    let counted = Counted { inner: ciphertext, hasher: Hasher::new(), bytes: 0 };
    let mut source = Source(BufReader::with_capacity(CHUNK, counted));
    let (bytes, hasher) = {
        let message = Message::from_bytes(&mut source).map_err(refused)?;
        if !message.is_encrypted() {
            return Err(OpenPgpError::Data("it is not an encrypted message".to_owned()));
        }
        let password = Password::empty();
        let ring = TheRing {
            secret_keys: vec![&key.secret],
            key_passwords: vec![&password],
            decrypt_options: DecryptionOptions::new().set_seipdv1_read_mode(Seipdv1ReadMode::Streaming),
            ..TheRing::default()
        };
        let (mut message, _) = message.decrypt_the_ring(ring, true).map_err(refused)?;
        if !message.is_literal() {
            return Err(OpenPgpError::Data("it does not hold plain data (compressed or signed)".to_owned()));
        }
        copy(&mut message, plaintext)?
    };
    let mut behind = [0u8; 1];
    match source.0.read(&mut behind) {
        Ok(0) => {}
        Ok(_) => return Err(OpenPgpError::Data("there are bytes behind the message".to_owned())),
        Err(source) => return Err(OpenPgpError::Io { op: "read ciphertext", source }),
    }
    plaintext.flush().map_err(|source| OpenPgpError::Io { op: "write plaintext", source })?;
    let counted = source.0.into_inner();
    Ok(DecryptFacts {
        plaintext_bytes: bytes,
        plaintext_sha256: hasher.finish(),
        ciphertext_bytes: counted.bytes,
        ciphertext_sha256: counted.hasher.finish(),
    })
}

fn copy<W: Write>(message: &mut Message<'_>, plaintext: &mut W) -> Result<(u64, Hasher), OpenPgpError> {
    let mut hasher = Hasher::new();
    let mut bytes = 0u64;
    let mut buffer = vec![0u8; CHUNK];
    loop {
        let read = match message.read(&mut buffer) {
            Ok(0) => return Ok((bytes, hasher)),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(OpenPgpError::Data(e.to_string())),
        };
        let chunk = &buffer[..read];
        plaintext.write_all(chunk).map_err(|source| OpenPgpError::Io { op: "write plaintext", source })?;
        hasher.update(chunk);
        bytes += read as u64;
    }
}

struct Counted<R> {
    inner: R,
    hasher: Hasher,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

/// The library wants its source to be printable; a stream is not.
struct Source<R>(BufReader<R>);

impl<R> fmt::Debug for Source<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> BufRead for Source<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}
