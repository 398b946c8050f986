//! Why a sidecar is refused.

use alloc::string::String;

/// Why bytes are not a sidecar that may be acted on. Shown to the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SidecarError {
    /// Not JSON, or not of this shape: truncated, edited, or another file.
    #[error("the sidecar does not read: {0}")]
    Malformed(String),
    /// The digest inside does not fit the rest.
    #[error("the sidecar's digest does not fit its content: expected {expected}, observed {observed}")]
    DigestMismatch {
        /// As recorded.
        expected: String,
        /// As computed.
        observed: String,
    },
    /// Written by a newer program.
    #[error(
        "the sidecar has schema_version {observed}, this program knows up to {known}: use a newer cutter"
    )]
    Newer {
        /// As recorded.
        observed: u64,
        /// What this program knows.
        known: u32,
    },
    /// A rule between fields is broken.
    #[error("the sidecar breaks a rule: {0}")]
    Invalid(String),
}
