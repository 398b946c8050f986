//! The policy's chain, written by the administrator alone. It is read with [`Reader::policy`].
//!
//! To ensure correctness, an implementation holds to these rules:
//!
//! 1. Events are appended one after the other and never changed: the number is one more than the
//!    last, and the event names the sha256 of the document before it.
//! 2. `recorded_at` is the database's own clock; no caller gives it.
//! 3. No login of a run can write here.
//!
//! A database can't check a person's signature, so what stands here is transport: everybody who
//! relies on it checks the chain ([`crate::record::policy::Chain::check`]).
//!
//! [`Reader::policy`]: super::database::Reader::policy

use alloc::boxed::Box;

use async_trait::async_trait;

use super::PortResult;
use crate::base::cas::CasOutcome;
use crate::record::policy::NewEvent;

/// The administrator's side of the policy.
#[async_trait]
pub trait PolicyStore: Send + Sync {
    /// Appends an event and the public keys that it names. Durable on return. The same document
    /// under the same number again is `AlreadyApplied`; another one, or an event that does not
    /// follow the last, is `Conflict` with the highest number. `Invalid`: the text does not say of
    /// itself what number it has and what it follows, it is too long, or a key is.
    async fn append(&self, event: &NewEvent) -> PortResult<CasOutcome<u64>>;
}
