//! Digests: one newtype for every sha256 of the system, and the incremental hasher.
//!
//! A digest is written as 64 lowercase hexadecimal digits everywhere: in JSON, in
//! documents, in SQL text columns and in key formulas (spec 2 §4, §6).

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// A sha256 value. `Display`, `FromStr` and serde use 64 lowercase hex digits;
/// `Ord` is the order of the bytes, which equals the order of the hex text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The sha256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Wraps 32 raw bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lowercase hex digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }

    /// 64 lowercase hex digits as ASCII bytes, for hashing without an allocation.
    #[must_use]
    pub fn hex_bytes(&self) -> [u8; 64] {
        let mut out = [0; 64];
        for (pair, b) in out.chunks_exact_mut(2).zip(&self.0) {
            pair[0] = HEX[usize::from(b >> 4)];
            pair[1] = HEX[usize::from(b & 15)];
        }
        out
    }

    /// The first `digits` hex digits (at most 64): for folder names and voice checks.
    #[must_use]
    pub fn short(&self, digits: usize) -> String {
        let mut hex = self.to_hex();
        hex.truncate(digits);
        hex
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Lowercase hex of any bytes.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        out.push(char::from(HEX[usize::from(b >> 4)]));
        out.push(char::from(HEX[usize::from(b & 15)]));
    }
    out
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(&self.hex_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.to_hex())
    }
}

/// The text is not 64 lowercase hex digits. Shown to whoever wrote the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a sha256: expected 64 lowercase hex digits, observed {observed:?}")]
pub struct ParseDigestError {
    /// The text as given, cut to 80 characters.
    pub observed: String,
}

impl FromStr for Digest {
    type Err = ParseDigestError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let error = || ParseDigestError { observed: s.chars().take(80).collect() };
        if s.len() != 64 {
            return Err(error());
        }
        let mut out = [0u8; 32];
        for (i, pair) in s.as_bytes().chunks_exact(2).enumerate() {
            let (hi, lo) = (nibble(pair[0]), nibble(pair[1]));
            match (hi, lo) {
                (Some(hi), Some(lo)) => out[i] = hi << 4 | lo,
                _ => return Err(error()),
            }
        }
        Ok(Self(out))
    }
}

const fn nibble(b: u8) -> Option<u8> {
    match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex = self.hex_bytes();
        serializer.serialize_str(core::str::from_utf8(&hex).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <alloc::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Incremental sha256.
#[derive(Clone, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// An empty hasher.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything added.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn known_vector_and_round_trip() {
        let d = Digest::of(b"abc");
        assert_eq!(d.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(d.to_hex().parse::<Digest>().unwrap(), d);
        assert_eq!(d.to_hex().as_bytes(), d.hex_bytes());
        let mut h = Hasher::new();
        h.update(b"a");
        h.update(b"bc");
        assert_eq!(h.finish(), d);
        assert!("BA".parse::<Digest>().is_err());
        assert_eq!("x".repeat(99).parse::<Digest>().unwrap_err().observed, "x".repeat(80));
        assert!(d.to_hex().to_uppercase().parse::<Digest>().is_err());
    }
}
