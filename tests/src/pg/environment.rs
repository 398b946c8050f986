//! Clock, identifiers and keys of a real process.

use std::time::Duration;

use async_trait::async_trait;
use cutter_core::base::digest::to_hex;
use cutter_core::port::environment::{Clock, IdSource};
use cutter_core::port::signer::Signer;
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use cutter_core::record::signature::{Duty, SignedText};
use cutter_kb::openpgp::{KeyKind, KeyPair, PublicKey};
use ed25519_dalek::{Signer as _, SigningKey};
use jiff::Timestamp;
use uuid::Uuid;

/// The system's clock, in whole milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap()
    }

    async fn sleep(&self, millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
    }
}

/// The system's randomness.
#[derive(Debug, Clone, Copy)]
pub struct Ids;

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

impl Ids {
    /// A new identifier, of now.
    #[must_use]
    pub fn mint(self) -> Uuid {
        self.uuid_v7(SystemClock.now(), "")
    }
}

impl IdSource for Ids {
    fn uuid_v7(&self, now: Timestamp, _: &str) -> Uuid {
        cutter_core::base::id::mint_v7(u64::try_from(now.as_millisecond()).unwrap(), random())
    }

    fn nonce(&self, _: &str) -> String {
        to_hex(&random::<32>())
    }
}

/// The run's own keys and the operator's, in memory.
pub struct Keys {
    executor: SigningKey,
    verifier: SigningKey,
    operator: KeyPair,
}

impl Keys {
    /// New ones.
    #[must_use]
    pub fn generate() -> Self {
        Self {
            executor: SigningKey::from_bytes(&random()),
            verifier: SigningKey::from_bytes(&random()),
            operator: KeyPair::generate("Op <op@example.org>", KeyKind::Sign).unwrap(),
        }
    }

    /// The operator's public key.
    #[must_use]
    pub fn operator(&self) -> PublicKey {
        self.operator.public()
    }

    const fn of(&self, duty: Duty) -> &SigningKey {
        match duty {
            Duty::Executor => &self.executor,
            Duty::Verifier => &self.verifier,
        }
    }
}

#[async_trait]
impl Signer for Keys {
    async fn public_key(&self, duty: Duty) -> PortResult<[u8; 32]> {
        Ok(self.of(duty).verifying_key().to_bytes())
    }

    async fn sign(&self, duty: Duty, payload: &[u8]) -> PortResult<[u8; 64]> {
        Ok(self.of(duty).sign(payload).to_bytes())
    }

    async fn sign_creation(&self, text: &str) -> PortResult<SignedText> {
        let document = self.operator.clearsign(text, SystemClock.now()).map_err(|error| {
            PortError::new(Port::Signer, "sign_creation", PortErrorKind::Denied, error.to_string())
        })?;
        Ok(SignedText { document, fingerprint: self.operator.fingerprint().to_string() })
    }
}
