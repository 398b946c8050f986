//! The statement of a closed run, as it is stored: its body once, and a signature of each duty.

use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::signature::Duty;

/// A duty's signature over a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementSignature {
    /// Which duty.
    pub duty: Duty,
    /// Its public key: 64 hexadecimal digits.
    pub public_key: String,
    /// Ed25519 over the DSSE pre-authentication encoding: 128 hexadecimal digits.
    pub signature: String,
    /// When it was stored, by the database's clock; `None` of one that is yet to be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<Timestamp>,
}

/// A stored statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredStatement {
    /// Its body: canonical JSON ([`crate::record::statement`]).
    pub body: String,
    /// The signatures, executor's first.
    pub signatures: Vec<StatementSignature>,
}
