//! The proof that an approval was judged and held.

use alloc::collections::BTreeMap;
use alloc::string::String;

use jiff::Timestamp;

use crate::base::digest::Digest;
use crate::gate::authorization::{AuthorizationFacts, judge};
use crate::record::approval::ApprovalText;
use crate::record::approval::Purpose;
use crate::record::check::GateReport;
use crate::record::effect::ReviewVerdict;
use crate::record::signature::SignatureFacts;

/// An approval whose every invariant held. It cannot be built or stored in any other way than by
/// [`verify`], so a function that takes one runs only behind the gate. A refusal is an approval
/// document too: look at [`VerifiedApproval::decision`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedApproval {
    text: ApprovalText,
    fingerprint: Option<String>,
    made_at: Timestamp,
    sha256: Digest,
    extra: BTreeMap<String, String>,
}

/// Why there is no proof: an invariant of the approval, or a check that was added, did not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the approval does not hold: {0}")]
pub struct NotVerified(pub GateReport);

/// Makes the proof of an approval that holds. `report` is what [`judge`] said of these facts, with
/// an embedder's own checks appended; the facts are judged again here, so that no report made in
/// any other way yields a proof. `sha256` is the digest of the document as it was read and its
/// signature observed.
///
/// # Errors
/// [`NotVerified`] with the report that did not hold.
pub fn verify(
    facts: &AuthorizationFacts,
    report: &GateReport,
    sha256: Digest,
) -> Result<VerifiedApproval, NotVerified> {
    let own = judge(facts);
    if !own.ok() {
        return Err(NotVerified(own));
    }
    if !report.ok() {
        return Err(NotVerified(report.clone()));
    }
    let (text, fingerprint, made_at) = match &facts.signature {
        SignatureFacts::Good { text, fingerprint, signed_at } => {
            (text, Some(fingerprint.clone()), Some(*signed_at))
        }
        SignatureFacts::Unsigned { text } => (text, None, None),
        SignatureFacts::Bad { .. } => return Err(NotVerified(own)),
    };
    let Ok(text) = ApprovalText::parse(text) else { return Err(NotVerified(own)) };
    let known = |key: &String| {
        crate::record::approval::RESERVED.contains(&key.as_str()) || facts.ask.required.contains_key(key)
    };
    let extra = text.fields.iter().filter(|(k, _)| !known(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let made_at = made_at.unwrap_or(text.signed_at);
    Ok(VerifiedApproval { text, fingerprint, made_at, sha256, extra })
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

    /// Whether it answers what asks for this.
    #[must_use]
    pub fn is_for(&self, purpose: Purpose) -> bool {
        self.text.approval_type == purpose.as_str()
    }

    /// Who decided, by name.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.text.actor
    }

    /// Primary key fingerprint of the signer; `None` for an unsigned one under policy `optional`.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
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

    /// When its signature was made, by the signer's own clock; of an unsigned one, what it says.
    #[must_use]
    pub const fn made_at(&self) -> Timestamp {
        self.made_at
    }

    /// When it was signed, as the text says.
    #[must_use]
    pub const fn signed_at(&self) -> Timestamp {
        self.text.signed_at
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
    use crate::record::check::Check;

    #[test]
    fn the_proof_carries_what_was_signed() {
        let facts = AuthorizationFacts::example();
        let proof = verify(&facts, &judge(&facts), Digest::of(b"document")).unwrap();
        assert!(proof.allows());
        assert_eq!(proof.sha256(), &Digest::of(b"document"));
        assert_eq!((proof.actor(), proof.approval_type()), ("sovereign", "cut_authorization"));
        assert_eq!(proof.extra().get("reason").map(String::as_str), Some("checked"));
        assert_eq!(proof.extra().len(), 1);
        assert_eq!(proof.field("run_id"), facts.ask.required.get("run_id").map(String::as_str));
    }

    #[test]
    fn no_report_but_the_facts_own_yields_a_proof() {
        let clean = AuthorizationFacts::example();
        let passed = judge(&clean);
        let used = AuthorizationFacts { used_before: true, ..clean.clone() };
        let error = verify(&used, &passed, Digest::of(b"document")).unwrap_err();
        assert_eq!(error.0.failures()[0].invariant, "approval.single_use");
        let bad = SignatureFacts::Bad { code: "sha1".into(), detail: "weak".into() };
        let bad = AuthorizationFacts { signature: bad, ..clean.clone() };
        let error = verify(&bad, &passed, Digest::of(b"document")).unwrap_err();
        assert!(error.0.failures().len() > 8, "{}", error.0);
        let mut more = passed;
        more.push(Check::truth("own.four_eyes", false));
        assert_eq!(verify(&clean, &more, Digest::of(b"document")), Err(NotVerified(more)));
    }
}
