//! Reading a sidecar: what this version wrote in one way, all else in another that tells what is wrong.

use alloc::borrow::ToOwned;
use alloc::string::ToString;

use serde_json::Value;

use super::{DIGEST, SCHEMA_VERSION, Sidecar, SidecarError};
use crate::base::canonical;
use crate::base::digest::Digest;

impl Sidecar {
    /// Reads and validates.
    ///
    /// # Errors
    /// [`SidecarError`]: not readable, newer, digest or rule broken. Nothing is repaired.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SidecarError> {
        match Self::as_written(bytes) {
            Some(sidecar) => Ok(sidecar),
            None => Self::from_any(bytes),
        }
    }

    /// What [`Self::to_bytes`] of this version wrote: to write it again gives the same bytes, so nothing in
    /// them is unknown, doubled or out of order. All else, and all that is wrong, is [`Self::from_any`]'s.
    fn as_written(bytes: &[u8]) -> Option<Self> {
        let sidecar: Self = serde_json::from_slice(bytes).ok()?;
        let text = sidecar.text().ok()?;
        let (_, digest) = text.digest_without(DIGEST)?;
        let is_whole = sidecar.schema_version == SCHEMA_VERSION
            && text.out.as_bytes() == bytes
            && digest == sidecar.digest
            && sidecar.check_rules().is_ok();
        is_whole.then_some(sidecar)
    }

    fn from_any(bytes: &[u8]) -> Result<Self, SidecarError> {
        let mut value = canonical::parse_strict(bytes).map_err(|e| SidecarError::Malformed(e.to_string()))?;
        match value.get("schema_version").and_then(Value::as_u64) {
            Some(v) if v > u64::from(SCHEMA_VERSION) => {
                return Err(SidecarError::Newer { observed: v, known: SCHEMA_VERSION });
            }
            Some(v) if v == u64::from(SCHEMA_VERSION) => {}
            _ => return Err(SidecarError::Malformed("no schema_version".to_owned())),
        }
        let recorded = value.get("digest").and_then(Value::as_str).unwrap_or_default().to_owned();
        let observed = digest_without_itself(&mut value)?;
        if recorded != observed.to_hex() {
            return Err(SidecarError::DigestMismatch { expected: recorded, observed: observed.to_hex() });
        }
        if let Value::Object(map) = &mut value {
            map.insert("digest".to_owned(), Value::String(recorded));
        }
        let sidecar: Self =
            serde_json::from_value(value).map_err(|e| SidecarError::Malformed(e.to_string()))?;
        sidecar.check_rules()?;
        Ok(sidecar)
    }
}

fn digest_without_itself(value: &mut Value) -> Result<Digest, SidecarError> {
    match value {
        Value::Object(map) => map.remove("digest"),
        _ => return Err(SidecarError::Malformed("not a JSON object".to_owned())),
    };
    let text = canonical::to_canonical(value).map_err(|e| SidecarError::Malformed(e.to_string()))?;
    Ok(Digest::of(text.as_bytes()))
}
