//! Whose signatures there are, and what was found of one.

use alloc::string::String;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A duty with a key of its own (separation of duties).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duty {
    /// Cuts and enacts.
    Executor,
    /// Verifies what was written.
    Verifier,
}

impl Duty {
    /// Stored spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Verifier => "verifier",
        }
    }
}

/// A clear-signed text and who signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedText {
    /// The whole armoured document.
    pub document: String,
    /// Fingerprint of the signer's primary key, upper-case hex.
    pub fingerprint: String,
}

/// What was found about an OpenPGP clear-signed document. A fact: gates judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum SignatureFacts {
    /// One good signature by a known, valid key under our policy.
    Good {
        /// Primary key fingerprint, upper-case hex.
        fingerprint: String,
        /// When it was signed.
        signed_at: Timestamp,
        /// The text that the signature covers, and nothing else.
        text: String,
    },
    /// The document is not signed at all.
    Unsigned {
        /// The document's text, for display and for policy `optional`.
        text: String,
    },
    /// Signed, but not good. `code` is stable, say `sha1`, `expired_key`, `revoked_key`,
    /// `unknown_key`, `text_outside_block`, `bad_signature`.
    Bad {
        /// Stable code.
        code: String,
        /// For people.
        detail: String,
    },
}
