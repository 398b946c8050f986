//! Signatures: the run's own (Ed25519, per duty) and people's (OpenPGP).

use alloc::boxed::Box;
use alloc::string::String;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PortResult;

/// A duty with a key of its own (separation of duties).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duty {
    /// Cuts and enacts.
    Executor,
    /// Verifies what was written.
    Verifier,
}

impl Duty {
    /// Stored spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Verifier => "verifier",
        }
    }
}

/// Signs as a duty, and creates a run in the operator's name.
#[async_trait]
pub trait Signer: Send + Sync {
    /// Public key of a duty, 32 bytes.
    async fn public_key(&self, duty: Duty) -> PortResult<[u8; 32]>;
    /// Ed25519 signature over `payload` (RFC 8032: the same payload gives the same bytes).
    async fn sign(&self, duty: Duty, payload: &[u8]) -> PortResult<[u8; 64]>;
    /// Clear-signs the run's creation record with the operator's OpenPGP key (D31).
    async fn sign_creation(&self, text: &str) -> PortResult<SignedText>;
}

/// A clear-signed text and who signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedText {
    /// The whole armoured document.
    pub document: String,
    /// Fingerprint of the signer's primary key, upper-case hex.
    pub fingerprint: String,
}

/// What was found about an OpenPGP clear-signed document. A fact: gates judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum SignatureFacts {
    /// One good signature by a known, valid key under our policy.
    Good {
        /// Primary key fingerprint, upper-case hex.
        fingerprint: String,
        /// When it was signed.
        signed_at: Timestamp,
        /// The text that the signature covers, and nothing else.
        text: String,
    },
    /// The document is not signed at all.
    Unsigned {
        /// The document's text, for display and for policy `optional`.
        text: String,
    },
    /// Signed, but not good. `code` is stable, say `sha1`, `expired_key`, `revoked_key`,
    /// `unknown_key`, `text_outside_block`, `bad_signature`.
    Bad {
        /// Stable code.
        code: String,
        /// For people.
        detail: String,
    },
}

/// Checks people's signatures against the configured public keys.
#[async_trait]
pub trait SignatureVerifier: Send + Sync {
    /// Observes a document's signature as of `now`. Which fingerprints may approve what is
    /// the core's matter; this only says whose signature it is and whether it is good.
    async fn observe(&self, document: &[u8], now: Timestamp) -> PortResult<SignatureFacts>;
    /// As [`Self::observe`], against these public keys and no others: what the policy keeps beside
    /// its events. A key that does not read is no key.
    async fn observe_with(
        &self,
        document: &[u8],
        keys: &[&str],
        now: Timestamp,
    ) -> PortResult<SignatureFacts>;
}
