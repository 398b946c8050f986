//! Canonical JSON (RFC 8785), for everything that is hashed (spec 2 §6).
//!
//! One value has one text: keys sorted by their UTF-16 code units, no blanks, the
//! shortest escapes. Floats and integers beyond ±(2^53 − 1) are refused rather than
//! rounded, and so are duplicate keys on reading: two inputs must never share a digest
//! because a parser was lenient. [`Writer`] writes long texts without building a tree.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::digest::Digest;

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
    use alloc::string::ToString;
    let value = serde_json::to_value(value).map_err(|e| CanonicalError::NotJson { reason: e.to_string() })?;
    Ok(Digest::of(to_canonical(&value)?.as_bytes()))
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
        self.out.extend(digest.as_bytes().iter().flat_map(|b| [b >> 4, b & 15]).map(hex_digit));
        self.out.push('"');
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
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::string::ToString;

    fn any_value() -> impl Strategy<Value = Value> {
        let safe = i64::try_from(MAX_SAFE_INTEGER).unwrap();
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-safe..=safe).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\x00-\\x7f]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn equals_the_oracle_and_reads_back(value in any_value()) {
            let ours = to_canonical(&value).unwrap();
            prop_assert_eq!(&ours, &serde_json_canonicalizer::to_string(&value).unwrap());
            prop_assert_eq!(parse_strict(ours.as_bytes()).unwrap(), value);
        }

        #[test]
        fn escapes_every_place_of_a_long_string(pad in 0usize..40, special in 0u8..0x80) {
            let mut text = "é".repeat(pad);
            text.push(char::from(special));
            text.push_str("tail of the text");
            let value = Value::from(text);
            prop_assert_eq!(to_canonical(&value).unwrap(), serde_json_canonicalizer::to_string(&value).unwrap());
        }

        #[test]
        fn strict_reader_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(value) = parse_strict(&bytes) {
                prop_assert!(to_canonical(&value).is_ok());
            }
        }
    }

    #[test]
    fn keys_are_ordered_by_utf16_units_not_by_bytes() {
        // U+1F600 is D83D DE00 in UTF-16, before U+FB33; in UTF-8 it comes after.
        let text = to_canonical(&json!({"\u{fb33}": 1, "\u{1f600}": 2, "a": 3, "": 4})).unwrap();
        assert_eq!(text, "{\"\":4,\"a\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn rfc_8785_string_example() {
        let value: Value =
            serde_json::from_str(r#"{"s":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"}"#).unwrap();
        assert_eq!(to_canonical(&value).unwrap(), "{\"s\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
    }

    #[test]
    fn refuses_floats_and_big_integers() {
        assert!(matches!(to_canonical(&json!(1.5)), Err(CanonicalError::Float { .. })));
        assert!(matches!(
            to_canonical(&json!(MAX_SAFE_INTEGER + 1)),
            Err(CanonicalError::IntegerRange { .. })
        ));
        assert!(matches!(
            to_canonical(&json!(-9_007_199_254_740_992_i64)),
            Err(CanonicalError::IntegerRange { .. })
        ));
        assert_eq!(to_canonical(&json!(MAX_SAFE_INTEGER)).unwrap(), "9007199254740991");
    }

    #[test]
    fn strict_reader_names_the_rule_and_the_place() {
        for (text, rule) in [
            ("{\"a\":1,\n\"a\":2}", "duplicate key"),
            ("[1.0]", "float"),
            ("[1e2]", "float"),
            ("-0", "float"),
            ("9007199254740992", "2^53"),
            ("-9007199254740992", "2^53"),
            ("1 2", "trailing"),
            ("{\"x\":{\"\\u0061\":1,\"a\":1}}", "duplicate key"),
        ] {
            let error = parse_strict(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(rule), "{text}: {error}");
        }
        assert_eq!(parse_strict(b"{\"a\":1,\n\"a\":2}").unwrap_err().line, 2);
        assert!(parse_strict("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn the_writer_equals_the_tree() {
        let mut w = Writer::with_capacity(64);
        w.begin_object();
        w.key("a");
        w.begin_array();
        w.unsigned(1).unwrap();
        w.string("x");
        w.begin_array();
        w.end_array();
        w.end_array();
        w.key("b");
        w.begin_object();
        w.end_object();
        w.end_object();
        assert_eq!(w.finish(), to_canonical(&json!({"a":[1,"x",[]],"b":{}})).unwrap());
        assert!(Writer::new().unsigned(u64::MAX).is_err());
    }

    #[test]
    fn digest_of_equals_the_digest_of_the_text() {
        assert_eq!(digest_of(&json!({"b":1,"a":"x"})).unwrap(), Digest::of(b"{\"a\":\"x\",\"b\":1}"));
    }
}
