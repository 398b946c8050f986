//! Values that stay as they are, with their canonical text: [`Settled`], and a list that only grows,
//! [`Appended`].

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CanonicalError, serialize::text_of};

/// A value that nobody changes any more. Its canonical text is made once, so that a record which is
/// written again and again need not make it each time.
#[derive(Clone)]
pub struct Settled<T> {
    value: Arc<T>,
    text: Arc<str>,
}

impl<T: Serialize> Settled<T> {
    /// Settles a value.
    ///
    /// # Errors
    /// [`CanonicalError`] if it has no canonical text.
    pub fn new(value: T) -> Result<Self, CanonicalError> {
        let text = text_of(&value)?.out.into();
        Ok(Self { value: Arc::new(value), text })
    }
}

impl<T> Settled<T> {
    /// Its canonical text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T> Deref for Settled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Settled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Settled<T> {}

impl<T: fmt::Debug> fmt::Debug for Settled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Serialize> Serialize for Settled<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Serialize + Deserialize<'de>> Deserialize<'de> for Settled<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(T::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A list of values that stay as they are and to which others are added behind. As [`Settled`], it has its
/// canonical text at hand.
#[derive(Clone)]
pub struct Appended<T> {
    values: Vec<T>,
    /// Without the last bracket; `None` once a value had no canonical text.
    text: Option<String>,
}

impl<T> Default for Appended<T> {
    fn default() -> Self {
        Self { values: Vec::new(), text: Some(String::from("[")) }
    }
}

impl<T> Appended<T> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its canonical text but for the last bracket; `None` if it has none, and writing it says why.
    #[must_use]
    pub fn unclosed_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The values, to be changed: what is made of them is another list.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.values
    }
}

impl<T: Serialize> Appended<T> {
    /// Adds a value.
    pub fn push(&mut self, value: T) {
        self.text = self.text.take().zip(text_of(&value).ok()).map(|(mut text, added)| {
            if !self.values.is_empty() {
                text.push(',');
            }
            text.push_str(&added.out);
            text
        });
        self.values.push(value);
    }
}

impl<T> Deref for Appended<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Serialize> From<Vec<T>> for Appended<T> {
    fn from(values: Vec<T>) -> Self {
        let mut list = Self::new();
        values.into_iter().for_each(|value| list.push(value));
        list
    }
}

impl<'l, T> IntoIterator for &'l Appended<T> {
    type Item = &'l T;
    type IntoIter = core::slice::Iter<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter()
    }
}

impl<T: PartialEq> PartialEq for Appended<T> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<T: Eq> Eq for Appended<T> {}

impl<T: fmt::Debug> fmt::Debug for Appended<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl<T: Serialize> Serialize for Appended<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl<'de, T: Serialize + Deserialize<'de>> Deserialize<'de> for Appended<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}
