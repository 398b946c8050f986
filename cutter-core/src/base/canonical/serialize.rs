//! Any serializable value straight into canonical text: no tree in between.
//!
//! Entries of an object are written as they come and put in order where it ends.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;

use serde::ser::{self, Serialize};

use super::{CanonicalError, MAX_SAFE_INTEGER, escape_into, key_order};
use crate::base::digest::{Digest, Hasher};

impl ser::Error for CanonicalError {
    fn custom<T: core::fmt::Display>(reason: T) -> Self {
        Self::NotJson { reason: reason.to_string() }
    }
}

/// So many entries get room at once; a value may say any length.
const MOST_AT_ONCE: usize = 64;

/// A canonical text, and where the entries of its outermost object stand in it.
pub(crate) struct Text {
    pub(crate) out: String,
    entries: Vec<Entry>,
}

/// A field of the outermost struct whose canonical text is at hand.
pub(crate) type Kept<'k> = (&'static str, KeptText<'k>);

/// See [`Kept`].
#[derive(Clone, Copy)]
pub(crate) enum KeptText<'k> {
    /// All of it.
    Whole(&'k str),
    /// All but the last bracket of a list.
    Unclosed(&'k str),
}

/// A canonical text in the making.
pub(crate) struct Making<'k> {
    out: String,
    entries: Vec<Entry>,
    kept: &'k [Kept<'k>],
}

impl<'k> Making<'k> {
    fn make<T: Serialize + ?Sized>(
        value: &T,
        room: usize,
        kept: &'k [Kept<'k>],
    ) -> Result<Text, CanonicalError> {
        let mut making = Self { out: String::with_capacity(room), entries: Vec::new(), kept };
        value.serialize(&mut making)?;
        Ok(Text { out: making.out, entries: making.entries })
    }
}

impl Text {
    /// Where the outermost object's entry of this name stands, from its key's quote to its value's
    /// end, and the digest of the text without it and the comma before it. `None` for its first entry.
    pub(crate) fn digest_without(&self, name: &str) -> Option<(Range<usize>, Digest)> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?.at.clone();
        let before = self.out.get(..entry.start.checked_sub(1)?).filter(|before| !before.is_empty())?;
        let mut hasher = Hasher::new();
        hasher.update(before.as_bytes());
        hasher.update(self.out.get(entry.end..)?.as_bytes());
        Some((entry, hasher.finish()))
    }
}

/// The canonical text of anything that serde can write as JSON.
///
/// # Errors
/// [`CanonicalError`] where a number is a float or out of range, a key is no string, comes twice, or
/// serde fails. A float that is no number is `null`, by serde_json's own rule.
pub(crate) fn text_of<T: Serialize + ?Sized>(value: &T) -> Result<Text, CanonicalError> {
    Making::make(value, 0, &[])
}

/// As [`text_of`] for a struct of which the texts of some fields are at hand: they are taken as they are.
///
/// # Errors
/// As [`text_of`].
pub(crate) fn text_with<T: Serialize>(value: &T, kept: &[Kept<'_>]) -> Result<Text, CanonicalError> {
    let known: usize =
        kept.iter().map(|(_, KeptText::Whole(text) | KeptText::Unclosed(text))| text.len()).sum();
    Making::make(value, known.saturating_mul(2), kept)
}

/// One entry of an object: the key as it is, and the place of `"key":value`.
struct Entry {
    key: Cow<'static, str>,
    at: Range<usize>,
}

fn other(reason: impl ToString) -> CanonicalError {
    CanonicalError::NotJson { reason: reason.to_string() }
}

/// An array or an object that is being written, and whether it is the only entry of an object around it,
/// which names a variant.
pub(crate) struct Compound<'t, 'k> {
    text: &'t mut Making<'k>,
    start: usize,
    entries: Vec<Entry>,
    is_first: bool,
    closes_variant: bool,
}

impl<'t, 'k> Compound<'t, 'k> {
    fn begin(text: &'t mut Making<'k>, bracket: char, variant: Option<&str>, entries: usize) -> Self {
        if let Some(variant) = variant {
            text.out.push('{');
            escape_into(&mut text.out, variant);
            text.out.push(':');
        }
        let start = text.out.len();
        text.out.push(bracket);
        let entries = Vec::with_capacity(entries);
        Self { text, start, entries, is_first: true, closes_variant: variant.is_some() }
    }

    fn separate(&mut self) {
        if !core::mem::take(&mut self.is_first) {
            self.text.out.push(',');
        }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.separate();
        value.serialize(&mut *self.text)
    }

    fn key(&mut self, key: impl Into<Cow<'static, str>>) {
        let key = key.into();
        self.separate();
        let start = self.text.out.len();
        escape_into(&mut self.text.out, &key);
        self.text.out.push(':');
        self.entries.push(Entry { key, at: start..start });
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), CanonicalError> {
        self.key(key);
        let kept = if self.start == 0 { self.text.kept } else { &[] };
        match kept.iter().find(|(field, _)| *field == key) {
            Some((_, KeptText::Whole(text))) => self.text.out.push_str(text),
            Some((_, KeptText::Unclosed(text))) => {
                self.text.out.push_str(text);
                self.text.out.push(']');
            }
            None => value.serialize(&mut *self.text)?,
        }
        self.end_value()
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(&mut *self.text)?;
        self.end_value()
    }

    fn end_value(&mut self) -> Result<(), CanonicalError> {
        let end = self.text.out.len();
        let entry = self.entries.last_mut().ok_or_else(|| other("a value without a key"))?;
        entry.at.end = end;
        Ok(())
    }

    fn end_array(self) -> Result<(), CanonicalError> {
        self.text.out.push(']');
        self.close()
    }

    fn end_object(mut self) -> Result<(), CanonicalError> {
        let order = |pair: &[Entry]| match pair {
            [a, b] => key_order(&a.key, &b.key),
            _ => Ordering::Less,
        };
        if self.entries.windows(2).any(|pair| order(pair) != Ordering::Less) {
            self.sort()?;
        }
        self.text.out.push('}');
        let entries = core::mem::take(&mut self.entries);
        if self.start == 0 {
            self.text.entries = entries;
        }
        self.close()
    }

    fn sort(&mut self) -> Result<(), CanonicalError> {
        let written = self.text.out.split_off(self.start);
        let offset = self.start;
        self.entries.sort_by(|a, b| key_order(&a.key, &b.key));
        for entry in &mut self.entries {
            let piece = entry.at.start - offset..entry.at.end - offset;
            let piece = written.get(piece).ok_or_else(|| other("an entry out of place"))?;
            self.text.out.push(if self.text.out.len() == offset { '{' } else { ',' });
            let start = self.text.out.len();
            self.text.out.push_str(piece);
            entry.at = start..self.text.out.len();
        }
        match self.entries.windows(2).find(|pair| matches!(pair, [a, b] if a.key == b.key)) {
            Some([twice, ..]) => Err(other(format!("key {:?} comes twice", twice.key))),
            _ => Ok(()),
        }
    }

    fn close(self) -> Result<(), CanonicalError> {
        if self.closes_variant {
            self.text.out.push('}');
        }
        Ok(())
    }
}

impl Making<'_> {
    fn unsigned(&mut self, number: u64) -> Result<(), CanonicalError> {
        if number > MAX_SAFE_INTEGER {
            return Err(CanonicalError::IntegerRange { observed: number.to_string() });
        }
        self.out.push_str(&number.to_string());
        Ok(())
    }

    fn signed(&mut self, number: i64) -> Result<(), CanonicalError> {
        if number.unsigned_abs() > MAX_SAFE_INTEGER {
            return Err(CanonicalError::IntegerRange { observed: number.to_string() });
        }
        self.out.push_str(&number.to_string());
        Ok(())
    }
}

impl<'t, 'k> ser::Serializer for &'t mut Making<'k> {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = Compound<'t, 'k>;
    type SerializeTuple = Compound<'t, 'k>;
    type SerializeTupleStruct = Compound<'t, 'k>;
    type SerializeTupleVariant = Compound<'t, 'k>;
    type SerializeMap = Compound<'t, 'k>;
    type SerializeStruct = Compound<'t, 'k>;
    type SerializeStructVariant = Compound<'t, 'k>;

    fn serialize_bool(self, v: bool) -> Result<(), CanonicalError> {
        self.out.push_str(if v { "true" } else { "false" });
        Ok(())
    }
    fn serialize_i8(self, v: i8) -> Result<(), CanonicalError> {
        self.signed(v.into())
    }
    fn serialize_i16(self, v: i16) -> Result<(), CanonicalError> {
        self.signed(v.into())
    }
    fn serialize_i32(self, v: i32) -> Result<(), CanonicalError> {
        self.signed(v.into())
    }
    fn serialize_i64(self, v: i64) -> Result<(), CanonicalError> {
        self.signed(v)
    }
    fn serialize_i128(self, v: i128) -> Result<(), CanonicalError> {
        let number = i64::try_from(v).map_err(|_| CanonicalError::IntegerRange { observed: v.to_string() });
        self.signed(number?)
    }
    fn serialize_u8(self, v: u8) -> Result<(), CanonicalError> {
        self.unsigned(v.into())
    }
    fn serialize_u16(self, v: u16) -> Result<(), CanonicalError> {
        self.unsigned(v.into())
    }
    fn serialize_u32(self, v: u32) -> Result<(), CanonicalError> {
        self.unsigned(v.into())
    }
    fn serialize_u64(self, v: u64) -> Result<(), CanonicalError> {
        self.unsigned(v)
    }
    fn serialize_u128(self, v: u128) -> Result<(), CanonicalError> {
        let number = u64::try_from(v).map_err(|_| CanonicalError::IntegerRange { observed: v.to_string() });
        self.unsigned(number?)
    }
    fn serialize_f32(self, v: f32) -> Result<(), CanonicalError> {
        self.serialize_f64(v.into())
    }
    fn serialize_f64(self, v: f64) -> Result<(), CanonicalError> {
        if v.is_finite() {
            return Err(CanonicalError::Float { observed: serde_json::Value::from(v).to_string() });
        }
        self.serialize_unit()
    }
    fn serialize_char(self, v: char) -> Result<(), CanonicalError> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, v: &str) -> Result<(), CanonicalError> {
        escape_into(&mut self.out, v);
        Ok(())
    }
    fn serialize_bytes(self, v: &[u8]) -> Result<(), CanonicalError> {
        ser::Serializer::collect_seq(self, v)
    }
    fn serialize_none(self) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), CanonicalError> {
        self.out.push_str("null");
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), CanonicalError> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), CanonicalError> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), CanonicalError> {
        let mut object = Compound::begin(self, '{', None, 1);
        object.key(variant);
        object.value(value)?;
        object.end_object()
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'t, 'k>, CanonicalError> {
        Ok(Compound::begin(self, '[', None, 0))
    }
    fn serialize_tuple(self, _: usize) -> Result<Compound<'t, 'k>, CanonicalError> {
        Ok(Compound::begin(self, '[', None, 0))
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'t, 'k>, CanonicalError> {
        Ok(Compound::begin(self, '[', None, 0))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'t, 'k>, CanonicalError> {
        Ok(Compound::begin(self, '[', Some(variant), 0))
    }
    fn serialize_map(self, length: Option<usize>) -> Result<Compound<'t, 'k>, CanonicalError> {
        Ok(Compound::begin(self, '{', None, length.unwrap_or_default().min(MOST_AT_ONCE)))
    }
    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Compound<'t, 'k>, CanonicalError> {
        Ok(Compound::begin(self, '{', None, length.min(MOST_AT_ONCE)))
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Compound<'t, 'k>, CanonicalError> {
        Ok(Compound::begin(self, '{', Some(variant), length.min(MOST_AT_ONCE)))
    }
}

macro_rules! items {
    ($($serializer:ident . $method:ident),*) => {$(
        impl ser::$serializer for Compound<'_, '_> {
            type Ok = ();
            type Error = CanonicalError;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
                self.item(value)
            }
            fn end(self) -> Result<(), CanonicalError> {
                self.end_array()
            }
        }
    )*};
}

items!(
    SerializeSeq.serialize_element,
    SerializeTuple.serialize_element,
    SerializeTupleStruct.serialize_field,
    SerializeTupleVariant.serialize_field
);

macro_rules! fields {
    ($($serializer:ident),*) => {$(
        impl ser::$serializer for Compound<'_, '_> {
            type Ok = ();
            type Error = CanonicalError;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), CanonicalError> {
                self.field(key, value)
            }
            fn end(self) -> Result<(), CanonicalError> {
                self.end_object()
            }
        }
    )*};
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Compound<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CanonicalError> {
        // serde_json knows which values are keys, and how they are spelled.
        match serde_json::to_value(key).map_err(other)? {
            serde_json::Value::String(key) => self.key(key),
            serde_json::Value::Number(key) => self.key(key.to_string()),
            serde_json::Value::Bool(key) => self.key(key.to_string()),
            _ => return Err(other("key must be a string")),
        }
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.value(value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.end_object()
    }
}
