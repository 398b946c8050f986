//! The one form of a reason in a stored state.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::limits::SLUG_MAX;
use crate::machine::UnknownName;

/// A short reason that can stand in a stored state: a lowercase letter, then lowercase
/// letters, digits and underscores, at most [`SLUG_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(String);

impl Slug {
    /// A suffix of our own tables; a test parses each of them.
    pub(super) fn known(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a slug of free text: letters are lowered, every run of other characters becomes
    /// one underscore, the result is cut to [`SLUG_MAX`] bytes.
    ///
    /// # Errors
    /// [`UnknownName`] if no ASCII letter is left to begin with.
    pub fn from_words(words: &str) -> Result<Self, UnknownName> {
        let mut out = String::new();
        for c in words.chars() {
            let c = c.to_ascii_lowercase();
            let fits = c.is_ascii_lowercase() || (c.is_ascii_digit() && !out.is_empty());
            if fits {
                out.push(c);
            } else if !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            if out.len() == SLUG_MAX {
                break;
            }
        }
        out.trim_end_matches('_')
            .parse()
            .map_err(|_| UnknownName::new("reason", words, "at least one letter"))
    }
}

impl FromStr for Slug {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let fits = text.len() <= SLUG_MAX
            && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            let expected = format!("a to z first, then a to z, 0 to 9 and _, at most {SLUG_MAX} characters");
            Err(UnknownName::new("reason", text, expected))
        }
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Slug {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Slug {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
