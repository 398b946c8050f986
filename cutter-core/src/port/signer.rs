//! Signatures: the run's own (Ed25519, per duty) and people's (OpenPGP).

use crate::record::signature::{Duty, SignatureFacts, SignedText};
use alloc::boxed::Box;
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::Timestamp;

use super::PortResult;

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
    /// Whose keys, of the configured ones and these, made the signatures of one clear-signed block, whatever else is to
    /// be said against the text, a signature or a key: no UTF-8, too old, too weak, dated ahead, expired. Each is
    /// `Good`, its text as far as it reads. Nothing may rest on it: it says who may have meant something.
    async fn signers(&self, block: &[u8], keys: &[&str]) -> PortResult<Vec<SignatureFacts>>;
}
