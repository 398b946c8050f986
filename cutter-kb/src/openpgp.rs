//! OpenPGP in process: keys, clear-signed approvals, encrypted backups (D14, D15).
//!
//! No agent runs and no keyring of the user's is touched. The library beneath parses and
//! computes but has no policy: it accepts SHA-1, expired and revoked keys. The policy is
//! ours (`verify`), fail-closed, and its verdicts are compared with `gpgv` by a test.
//!
//! ```text
//! KeyPair ── clearsign ──> document ── verify_clearsigned(public keys, now) ──> SignatureFacts
//! Recipient ── EncryptWriter ──> pre_write.<epoch>.gpg ── decrypt_stream(KeyPair) ──> plaintext
//! ```
//!
//! Only this module names the library's types; nothing of it shows in the public API.

mod armor;
mod certificate;
mod cleartext;
mod decrypt;
mod encrypt;
mod key;
mod verify;

use std::fmt;
use std::str::FromStr;

pub use decrypt::{DecryptFacts, decrypt_stream};
pub use encrypt::{EncryptFacts, EncryptWriter, Recipient};
pub use key::{KeyKind, KeyPair, PublicKey};
pub use verify::{MAX_DOCUMENT_BYTES, SignatureFacts, Signer, Verdict, signers, verify_clearsigned};

/// How far ahead of our clock a signature may be dated, in seconds.
pub const CLOCK_SKEW_SECONDS: u64 = 300;

/// A failure of key handling, signing, encryption or decryption. A bad signature is not
/// an error: it is a [`Verdict`].
#[derive(Debug, thiserror::Error)]
pub enum OpenPgpError {
    /// The key text cannot be used at all: for whoever supplied the key file.
    #[error("not a usable OpenPGP key: {0}")]
    Key(String),
    /// The key is sound but policy forbids this use of it; `code` is one of the
    /// certificate codes of [`Verdict::Bad`].
    #[error("key {fingerprint} may not be used: {detail} ({code})")]
    Policy {
        /// Primary fingerprint of the key.
        fingerprint: Fingerprint,
        /// Stable code, say `expired_key`.
        code: &'static str,
        /// Expected and observed, for people.
        detail: String,
    },
    /// Another key than the pinned one was given.
    #[error("recipient key is not the pinned one: expected {expected}, observed {observed}")]
    NotPinned {
        /// Fingerprint in the configuration.
        expected: Fingerprint,
        /// Fingerprint of the key given.
        observed: Fingerprint,
    },
    /// The text to sign cannot be carried by a clear-signed document.
    #[error("text cannot be clear-signed: {0}")]
    Text(String),
    /// The encrypted file is damaged, cut short, or not for this key: nothing that was
    /// written while decrypting it may be trusted.
    #[error("encrypted data refused, nothing of it may be trusted: {0}")]
    Data(String),
    /// The library refused an operation that should work.
    #[error("OpenPGP operation `{op}` failed: {detail}")]
    Operation {
        /// What was being done.
        op: &'static str,
        /// What the library said.
        detail: String,
    },
    /// Reading or writing failed beneath.
    #[error("{op}: {source}")]
    Io {
        /// What was being done.
        op: &'static str,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

impl OpenPgpError {
    fn operation(op: &'static str, error: impl fmt::Display) -> Self {
        Self::Operation { op, detail: error.to_string() }
    }
}

/// The fingerprint of a key: 40 (v4) or 64 (v6) upper-case hex digits, as `gpg` prints it.
/// Parsing accepts either case, spaces between groups and a leading `0x`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The upper-case hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(key: &impl pgp::types::KeyDetails) -> Self {
        Self(format!("{:X}", key.fingerprint()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a fingerprint. For whoever wrote the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a key fingerprint: expected 40 or 64 hex digits, observed {observed:?}")]
pub struct ParseFingerprintError {
    /// The text as given, cut to 80 characters.
    pub observed: String,
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let digits = trimmed.strip_prefix("0x").unwrap_or(trimmed);
        let hex: String = digits.chars().filter(|c| *c != ' ').collect::<String>().to_ascii_uppercase();
        if matches!(hex.len(), 40 | 64) && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(Self(hex))
        } else {
            Err(ParseFingerprintError { observed: text.chars().take(80).collect() })
        }
    }
}

/// Runs a call into the library and turns a panic inside it into an error: its parsers
/// read hostile bytes, and a panic there must refuse the input, not end the process.
fn contain<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .map_err(|_| "the OpenPGP library gave up on this input".to_owned())
}

fn unix_seconds(at: jiff::Timestamp) -> u64 {
    u64::try_from(at.as_second()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_compare_without_case_and_spaces() {
        let spaced: Fingerprint = "0123 4567 89ab cdef 0123  4567 89AB CDEF 0123 4567".parse().unwrap();
        assert_eq!(spaced, "0x0123456789abcdef0123456789abcdef01234567".parse().unwrap());
        assert_eq!(spaced.to_string(), "0123456789ABCDEF0123456789ABCDEF01234567");
        for bad in ["", "0123", "g123456789abcdef0123456789abcdef01234567"] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_panic_inside_is_an_error_outside() {
        assert!(contain(|| -> u8 { panic!("inside") }).is_err());
        assert_eq!(contain(|| 7), Ok(7));
    }
}
