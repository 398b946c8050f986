//! What stands where a document was recorded.

use alloc::format;
use alloc::string::{String, ToString};

use crate::base::digest::Digest;
use crate::record::check::{ABSENT, Check};

/// A document, looked for under its name. One that cannot be read is a finding of its own and keeps
/// nobody from looking at the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing stands there.
    Absent,
    /// Something stands there that is no readable document, and why.
    Unreadable(String),
    /// The sha256 of what stands there.
    Bytes(Digest),
}

impl From<Option<Digest>> for Found {
    fn from(found: Option<Digest>) -> Self {
        found.map_or(Self::Absent, Self::Bytes)
    }
}

impl Found {
    /// Whether it is what was recorded.
    #[must_use]
    pub fn check(&self, id: &str, recorded: &Digest) -> Check {
        let observed = match self {
            Self::Absent => ABSENT.to_string(),
            Self::Unreadable(why) => format!("unreadable: {why}"),
            Self::Bytes(sha256) => sha256.to_hex(),
        };
        Check::new(id, recorded, observed, *self == Self::Bytes(*recorded))
    }
}
