//! Canonical JSON (RFC 8785), for everything that is hashed (spec 2 §6).
//!
//! One value has one text: keys sorted by their UTF-16 code units, no blanks, the
//! shortest escapes. Floats and integers beyond ±(2^53 − 1) are refused rather than
//! rounded, and so are duplicate keys on reading: two inputs must never share a digest
//! because a parser was lenient. [`Writer`] writes long texts without building a tree.

mod serialize;
mod settled;

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

pub(crate) use self::serialize::{KeptText, Text, text_of, text_with};
pub use self::settled::{Appended, Settled};
use crate::base::digest::{Digest, Hasher};

/// The largest integer that every JSON reader keeps exact: 2^53 − 1.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Why a value has no canonical text. Shown to whoever made the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// A number with a fraction or an exponent, or one that is not finite.
    #[error("canonical JSON holds no floats: expected an integer, observed {observed}")]
    Float {
        /// The number as it would be printed.
        observed: String,
    },
    /// An integer that some readers would round.
    #[error("integer out of range: expected -9007199254740991..=9007199254740991, observed {observed}")]
    IntegerRange {
        /// The number as it would be printed.
        observed: String,
    },
    /// A Rust value that serde could not turn into JSON.
    #[error("not serializable as JSON: {reason}")]
    NotJson {
        /// What serde said.
        reason: String,
    },
}

/// JSON text that [`parse_strict`] refuses, with the place. Shown to its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not strict JSON at line {line}, column {column}: {reason}")]
pub struct ParseStrictError {
    /// Counted from 1; 0 where the place is not known.
    pub line: usize,
    /// Counted from 1 in bytes; 0 where the place is not known.
    pub column: usize,
    /// The broken rule: duplicate key, float, integer out of range, or syntax.
    pub reason: String,
}

/// The canonical text of `value`.
///
/// # Errors
/// [`CanonicalError`] where a number is a float or out of range.
pub fn to_canonical(value: &Value) -> Result<String, CanonicalError> {
    let mut writer = Writer::new();
    writer.value(value)?;
    Ok(writer.finish())
}

/// The sha256 of the canonical text of `value`. Non-finite floats reach this function
/// as `null` (serde_json's own rule), so hashed types hold no floats at all.
///
/// # Errors
/// [`CanonicalError`] where a number is a float or out of range, or serde fails.
pub fn digest_of<T: serde::Serialize + ?Sized>(value: &T) -> Result<Digest, CanonicalError> {
    Ok(Digest::of(text_of(value)?.out.as_bytes()))
}

/// Writes canonical JSON piece by piece. The caller keeps object keys in order
/// ([`key_order`]); the commas are the writer's.
#[derive(Debug, Default)]
pub struct Writer {
    out: String,
    comma: bool,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty writer with room for `bytes`.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { out: String::with_capacity(bytes), comma: false }
    }

    /// The text written so far.
    #[must_use]
    pub fn finish(self) -> String {
        self.out
    }

    fn separate(&mut self) {
        if self.comma {
            self.out.push(',');
        }
        self.comma = true;
    }

    fn open(&mut self, bracket: char) {
        self.separate();
        self.out.push(bracket);
        self.comma = false;
    }

    fn close(&mut self, bracket: char) {
        self.out.push(bracket);
        self.comma = true;
    }

    /// `{`
    pub fn begin_object(&mut self) {
        self.open('{');
    }

    /// `}`
    pub fn end_object(&mut self) {
        self.close('}');
    }

    /// `[`
    pub fn begin_array(&mut self) {
        self.open('[');
    }

    /// `]`
    pub fn end_array(&mut self) {
        self.close(']');
    }

    /// An object key; its value comes next.
    pub fn key(&mut self, key: &str) {
        self.separate();
        escape_into(&mut self.out, key);
        self.out.push(':');
        self.comma = false;
    }

    /// A string.
    pub fn string(&mut self, text: &str) {
        self.separate();
        escape_into(&mut self.out, text);
    }

    /// A digest, as a string of 64 hex digits.
    pub fn digest(&mut self, digest: &Digest) {
        self.separate();
        self.out.push('"');
        let hex = digest.hex_bytes();
        // Hex digits are UTF-8; the other branch says the same more slowly.
        match core::str::from_utf8(&hex) {
            Ok(hex) => self.out.push_str(hex),
            Err(_) => self.out.push_str(&digest.to_hex()),
        }
        self.out.push('"');
    }

    /// Hashes the text written so far and forgets it, so that a long text needs little
    /// memory. What [`Writer::finish`] returns afterwards is only the rest.
    pub fn drain_into(&mut self, hasher: &mut Hasher) {
        hasher.update(self.out.as_bytes());
        self.out.clear();
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// [`CanonicalError::IntegerRange`] beyond [`MAX_SAFE_INTEGER`].
    pub fn unsigned(&mut self, number: u64) -> Result<(), CanonicalError> {
        self.number(&Number::from(number))
    }

    fn number(&mut self, number: &Number) -> Result<(), CanonicalError> {
        use alloc::string::ToString;
        let safe = match (number.as_u64(), number.as_i64()) {
            (Some(n), _) => n <= MAX_SAFE_INTEGER,
            (None, Some(n)) => n.unsigned_abs() <= MAX_SAFE_INTEGER,
            (None, None) => return Err(CanonicalError::Float { observed: number.to_string() }),
        };
        if !safe {
            return Err(CanonicalError::IntegerRange { observed: number.to_string() });
        }
        self.separate();
        self.out.push_str(&number.to_string());
        Ok(())
    }

    fn literal(&mut self, text: &str) {
        self.separate();
        self.out.push_str(text);
    }

    /// Any value, its keys sorted.
    ///
    /// # Errors
    /// [`CanonicalError`] where a number is a float or out of range.
    pub fn value(&mut self, value: &Value) -> Result<(), CanonicalError> {
        match value {
            Value::Null => self.literal("null"),
            Value::Bool(true) => self.literal("true"),
            Value::Bool(false) => self.literal("false"),
            Value::Number(number) => self.number(number)?,
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.begin_array();
                for item in items {
                    self.value(item)?;
                }
                self.end_array();
            }
            Value::Object(map) => {
                let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                entries.sort_by(|a, b| key_order(a.0, b.0));
                self.begin_object();
                for (key, item) in entries {
                    self.key(key);
                    self.value(item)?;
                }
                self.end_object();
            }
        }
        Ok(())
    }
}

/// The order of RFC 8785 §3.2.3: by UTF-16 code units, which differs from the order of
/// the UTF-8 bytes for characters above U+FFFF.
#[must_use]
pub fn key_order(a: &str, b: &str) -> Ordering {
    // The first bytes of U+E000 to U+FFFF, which come behind those of all that is above, in UTF-16.
    let rank = |byte: u8| if matches!(byte, 0xee | 0xef) { byte | 0x10 } else { byte };
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        Some((a, b)) => rank(a).cmp(&rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

fn hex_digit(nibble: u8) -> char {
    char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 })
}

fn escape_into(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = first_escaped(rest.as_bytes()) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x09 => out.push_str("\\t"),
            0x0a => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            0x0d => out.push_str("\\r"),
            control => {
                out.push_str("\\u00");
                out.push(hex_digit(control >> 4));
                out.push(hex_digit(control & 15));
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// The index of the first byte that JSON must escape, eight bytes at a time.
fn first_escaped(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_byte = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let mut at = 0;
    for chunk in bytes.chunks_exact(8) {
        let mut eight = [0u8; 8];
        eight.copy_from_slice(chunk);
        let word = u64::from_le_bytes(eight);
        let control = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
        let quote = zero_byte(word ^ (LOW * u64::from(b'"')));
        let slash = zero_byte(word ^ (LOW * u64::from(b'\\')));
        if control | quote | slash != 0 {
            break;
        }
        at += 8;
    }
    let tail = bytes.get(at..).unwrap_or_default();
    tail.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\').map(|i| at + i)
}

/// Reads JSON and refuses what canonical JSON cannot hold without loss: duplicate keys,
/// floats (also `1.0` and `1e2`), integers beyond ±(2^53 − 1), trailing bytes.
///
/// # Errors
/// [`ParseStrictError`] with line, column and the broken rule.
pub fn parse_strict(bytes: &[u8]) -> Result<Value, ParseStrictError> {
    use alloc::string::ToString;
    let place =
        |e: serde_json::Error| ParseStrictError { line: e.line(), column: e.column(), reason: e.to_string() };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader).map_err(place)?;
    reader.end().map_err(place)?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without floats, duplicate keys or integers beyond 2^53 - 1")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Value, E> {
        if v > MAX_SAFE_INTEGER {
            return Err(E::custom(format_args!("integer beyond 2^53 - 1: {v}")));
        }
        Ok(Value::from(v))
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<Value, E> {
        if v.unsigned_abs() > MAX_SAFE_INTEGER {
            return Err(E::custom(format_args!("integer beyond 2^53 - 1: {v}")));
        }
        Ok(Value::from(v))
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Value, E> {
        Err(E::custom(format_args!("a float is not allowed: {v}")))
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.into()))
    }

    fn visit_string<E: de::Error>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!("duplicate key {key:?}")));
            }
            let value = access.next_value_seed(Strict)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests;
