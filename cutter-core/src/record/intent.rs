//! Intents: what a phase is about to do, durable before it does it.
//!
//! Every identifier, date and nonce that a phase will use is chosen once, written with
//! the sidecar, and only read afterwards. A redo therefore writes the same rows and the
//! same documents, and a lost answer can be asked for by the identifier (D8, PROTOCOL §1).

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What the next phase, gate or decision will use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// When it was chosen; the only clock value in the rows that it leads to.
    pub at: Timestamp,
    /// UTC date of `at` as `YYYY-MM-DD`: the `<date>` of its document (D16).
    pub date: String,
    /// Identifiers by name.
    #[serde(default)]
    pub ids: BTreeMap<String, Uuid>,
    /// Phase or gate, by its stored name.
    pub name: String,
    /// The nonce of a request or stop, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// 1, 2, …: later occurrences of a gate or of a decision.
    pub occurrence: u32,
}

/// An identifier that an intent should hold is not there: the record is damaged or was
/// written by a version that did not know the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the intent of {intent} holds no id {name:?}")]
pub struct MissingId {
    /// The intent's name.
    pub intent: String,
    /// The id's name.
    pub name: String,
}

impl Intent {
    /// The identifier called `name`.
    ///
    /// # Errors
    /// [`MissingId`] if the intent does not hold it.
    pub fn id(&self, name: &str) -> Result<Uuid, MissingId> {
        let missing = || MissingId { intent: self.name.clone(), name: name.to_string() };
        self.ids.get(name).copied().ok_or_else(missing)
    }
}

/// The UTC date of an instant as `YYYY-MM-DD`.
#[must_use]
pub fn date_of(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_utc() {
        let at: Timestamp = "2026-03-31T23:59:59Z".parse().unwrap();
        assert_eq!(date_of(at), "2026-03-31");
    }
}
