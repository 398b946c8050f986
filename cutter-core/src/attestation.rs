//! Signed attestations.
