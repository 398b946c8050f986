//! The statement of a closed run, as it is stored: its body, and a signature of each duty. A run may have
//! more beside it, that a login stored and nobody signed: [`StoredStatement::that_counts`].

use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::attestation;
use crate::record::signature::Duty;
use crate::record::statement::signed_bytes;

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

impl StoredStatement {
    /// What counts of the statements that are stored under a run: the one that most duties have signed,
    /// with one signature of each. What one login can store alone, a statement without a genuine signature
    /// or a signature that is none beside a genuine one, is as if it were not there.
    #[must_use]
    pub fn that_counts(found: &[Self]) -> Option<Self> {
        let counted = found.iter().map(Self::one_of_each);
        let claimed = counted.filter(|one| one.signed_by() > 0 || one.signatures.len() > 1);
        claimed.reduce(|best, one| if one.signed_by() > best.signed_by() { one } else { best })
    }

    /// Whether both duties have signed it.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.one_of_each().signed_by() > 1
    }

    fn is_genuine(&self, signature: &StatementSignature) -> bool {
        let bytes = signed_bytes(&self.body);
        attestation::verify_bytes(&signature.public_key, &bytes, &signature.signature).is_ok()
    }

    /// With the first genuine signature of each duty; where a duty has none, with its first.
    fn one_of_each(&self) -> Self {
        let of = |duty: Duty| {
            let mut own = self.signatures.iter().filter(move |s| s.duty == duty);
            own.clone().find(|s| self.is_genuine(s)).or_else(|| own.next()).cloned()
        };
        let signatures = [Duty::Executor, Duty::Verifier].into_iter().filter_map(of).collect();
        Self { body: self.body.clone(), signatures }
    }

    fn signed_by(&self) -> usize {
        self.signatures.iter().filter(|s| self.is_genuine(s)).count()
    }
}
