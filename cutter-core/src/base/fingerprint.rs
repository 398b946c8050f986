//! How the fingerprint of a key is written.

use alloc::string::String;

/// Upper case, without the spaces that people print fingerprints with.
pub(crate) fn normal_fingerprint(fingerprint: &str) -> String {
    fingerprint.chars().filter(|c| !c.is_ascii_whitespace()).map(|c| c.to_ascii_uppercase()).collect()
}
