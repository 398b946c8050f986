//! Clock, ids and observer of the model.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::world::{World, advance};
use crate::base::digest::Digest;
use crate::base::id::mint_v7;
use crate::port::environment::{Clock, IdSource, Observer, Progress};

/// A clock that stands still but for [`World::advance`] and its own `sleep`.
pub struct MemoryClock(pub(super) World);

#[async_trait]
impl Clock for MemoryClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn sleep(&self, millis: u64) {
        advance(&mut self.0.lock().data, millis);
    }
}

/// Ids and nonces that follow from the world's seed and the purpose alone: an id that was
/// minted, lost in a crash and minted again is the same, at whatever time.
pub struct MemoryIds(pub(super) World);

impl MemoryIds {
    fn derive(&self, kind: &str, purpose: &str) -> Digest {
        let seed = self.0.lock().data.seed;
        Digest::of(format!("{kind} {seed} {purpose}").as_bytes())
    }
}

/// The time in every id: 2026-01-02T03:04:05Z.
const MILLIS: u64 = 1_767_323_045_000;

impl IdSource for MemoryIds {
    fn uuid_v7(&self, _: Timestamp, purpose: &str) -> Uuid {
        let digest = self.derive("uuid", purpose);
        let mut random = [0; 10];
        random.copy_from_slice(&digest.as_bytes()[..10]);
        mint_v7(MILLIS, random)
    }

    fn nonce(&self, purpose: &str) -> String {
        self.derive("nonce", purpose).to_hex()
    }
}

/// Keeps all progress of a process.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Progress>>>);

impl Recorder {
    /// What was shown so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Recorder {
    fn progress(&self, progress: &Progress) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(progress.clone());
    }
}
