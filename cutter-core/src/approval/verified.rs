//! The proof that an approval was judged and held.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;

use super::ApprovalText;
use crate::digest::Digest;
use crate::gate::authorization::{AuthorizationFacts, judge};
use crate::gate::{Check, GateReport};
use crate::port::database::ReviewVerdict;
use crate::port::signer::SignatureFacts;

/// An approval whose every invariant held. It cannot be built or stored in any other way than by
/// [`verify`], so a function that takes one runs only behind the gate. A refusal is an approval
/// document too: look at [`VerifiedApproval::decision`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedApproval {
    text: ApprovalText,
    fingerprint: String,
    sha256: Digest,
    extra: BTreeMap<String, String>,
}

/// Judges an approval document. The report always comes back, so that what was considered can be
/// recorded; the proof only if all of it holds, `more` (an embedder's own rules) included.
/// `document` is the document byte for byte as it was read and its signature observed.
#[must_use]
pub fn verify(
    facts: &AuthorizationFacts,
    document: &[u8],
    more: Vec<Check>,
) -> (GateReport, Option<VerifiedApproval>) {
    let mut report = judge(facts);
    report.checks.extend(more);
    let (text, fingerprint) = match &facts.signature {
        SignatureFacts::Good { text, fingerprint, .. } => (text, fingerprint.clone()),
        SignatureFacts::Unsigned { text } => (text, String::new()),
        SignatureFacts::Bad { .. } => return (report, None),
    };
    let proof = match ApprovalText::parse(text) {
        Ok(text) if report.ok() => {
            let known = |key: &String| {
                super::RESERVED.contains(&key.as_str()) || facts.ask.required.contains_key(key)
            };
            let extra =
                text.fields.iter().filter(|(k, _)| !known(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
            Some(VerifiedApproval { text, fingerprint, sha256: Digest::of(document), extra })
        }
        _ => None,
    };
    (report, proof)
}

impl VerifiedApproval {
    /// What was decided.
    #[must_use]
    pub const fn decision(&self) -> ReviewVerdict {
        self.text.decision
    }

    /// Does it allow what was asked?
    #[must_use]
    pub fn allows(&self) -> bool {
        self.text.decision == ReviewVerdict::Approve
    }

    /// What kind of approval.
    #[must_use]
    pub fn approval_type(&self) -> &str {
        &self.text.approval_type
    }

    /// Who decided, by name.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.text.actor
    }

    /// Primary key fingerprint of the signer; empty for an unsigned one under policy `optional`.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// sha256 of the document.
    #[must_use]
    pub const fn sha256(&self) -> &Digest {
        &self.sha256
    }

    /// When it ends, if it does.
    #[must_use]
    pub const fn expires(&self) -> Option<Timestamp> {
        self.text.expires
    }

    /// A required field's value, equal to what was asked.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&str> {
        self.text.fields.get(key).map(String::as_str)
    }

    /// Fields beyond what was asked, say `reason` and `minutes_granted`.
    #[must_use]
    pub const fn extra(&self) -> &BTreeMap<String, String> {
        &self.extra
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_proof_exists_exactly_if_the_report_holds() {
        let facts = AuthorizationFacts::example();
        let (report, proof) = verify(&facts, b"document", Vec::new());
        let proof = proof.unwrap();
        assert!(report.ok() && proof.allows());
        assert_eq!(proof.sha256(), &Digest::of(b"document"));
        assert_eq!(proof.actor(), "sovereign");
        assert_eq!(proof.extra().get("reason").map(String::as_str), Some("checked"));
        assert_eq!(proof.extra().len(), 1);
        assert_eq!(proof.field("run_id"), facts.ask.required.get("run_id").map(String::as_str));
        for (id, report) in crate::gate::authorization::tests::spoilers() {
            assert!(!report.ok(), "{id}");
        }
        let used = AuthorizationFacts { used_before: true, ..facts.clone() };
        assert_eq!(verify(&used, b"document", Vec::new()).1, None);
        let (report, proof) = verify(&facts, b"document", vec![Check::truth("own.four_eyes", false)]);
        assert!(!report.ok() && proof.is_none());
    }

    #[test]
    fn a_bad_signature_proves_nothing() {
        let bad = SignatureFacts::Bad { code: "sha1".into(), detail: "weak".into() };
        let facts = AuthorizationFacts { signature: bad, ..AuthorizationFacts::example() };
        let (report, proof) = verify(&facts, b"document", Vec::new());
        assert!(proof.is_none() && report.failures().len() > 8, "{report}");
    }
}
