//! A value that stays as it is, with its canonical text.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CanonicalError, serialize::text_of};

/// A value that nobody changes any more. Its canonical text is made once, so that a record which is
/// written again and again need not make it each time.
#[derive(Clone)]
pub struct Settled<T> {
    value: T,
    text: Arc<str>,
}

impl<T: Serialize> Settled<T> {
    /// Settles a value.
    ///
    /// # Errors
    /// [`CanonicalError`] if it has no canonical text.
    pub fn new(value: T) -> Result<Self, CanonicalError> {
        let text = text_of(&value)?.out.into();
        Ok(Self { value, text })
    }
}

impl<T> Settled<T> {
    /// Its canonical text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
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
