//! Clock and identifiers of a real process.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use cutter_core::base::id::mint_v7;
use cutter_core::port::environment::{Clock, IdSource};
use jiff::Timestamp;
use uuid::Uuid;

/// Now, to the millisecond: what is recorded reads back as it was.
pub(crate) fn now() -> Timestamp {
    let exact = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    Timestamp::from_millisecond(exact.as_millisecond()).unwrap_or(exact)
}

/// The system's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        now()
    }

    async fn sleep(&self, millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
    }
}

/// The system's randomness.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RandomIds;

impl RandomIds {
    pub(crate) fn random_uuid(self, at: Timestamp) -> Uuid {
        let mut random = [0; 10];
        fill(&mut random);
        mint_v7(u64::try_from(at.as_millisecond()).unwrap_or(0), random)
    }
}

impl IdSource for RandomIds {
    fn uuid_v7(&self, now: Timestamp, _: &str) -> Uuid {
        self.random_uuid(now)
    }

    fn nonce(&self, _: &str) -> String {
        let mut random = [0; 32];
        fill(&mut random);
        hex(&random)
    }
}

/// Random bytes. Without randomness no identifier is safe and nothing may go on: the
/// process ends, and the run is resumed later as after any crash.
pub(crate) fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        crate::terminal::last_words(&format!("error: the system gives no randomness: {error}\n"));
        std::process::exit(i32::from(crate::exit_code::Exit::INTERNAL.code()));
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |n: u8| DIGITS.get(usize::from(n)).copied().unwrap_or('0');
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_version_7_and_nonces_are_long_and_differ() {
        let (a, b) = (RandomIds.uuid_v7(now(), ""), RandomIds.uuid_v7(now(), ""));
        assert_eq!(a.get_version_num(), 7);
        assert_ne!(a, b);
        let nonce = RandomIds.nonce("");
        assert!(nonce.len() == 64 && nonce.bytes().all(|c| c.is_ascii_hexdigit()), "{nonce}");
        assert_ne!(nonce, RandomIds.nonce(""));
        assert_eq!(hex(&[0, 0x0f, 0xa0, 0xff]), "000fa0ff");
    }

    #[test]
    fn time_reads_back_as_written() {
        let at = now();
        assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
    }
}
