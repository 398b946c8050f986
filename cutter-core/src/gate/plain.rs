//! A word that is not plain: somebody who may refuse signed a document about what is asked, and it is
//! neither a whole answer nor plainly an approval. It may be meant as a refusal, so it holds the gate
//! until whoever signed it says it plainly, or it is taken away. It is stored nowhere: what it decides, nobody
//! can say.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;

use super::authorization::AuthorizationFacts;
use super::verified::VerifiedApproval;
use crate::base::fingerprint::normal_fingerprint;
use crate::machine::run::GateId;
use crate::record::approval::{Ask, field, is_visible};
use crate::record::check::{Check, GateReport};
use crate::record::effect::ReviewVerdict;
use crate::record::signature::SignatureFacts;

/// The check that a word which is not plain fails.
const PLAIN: &str = "approval.plain";
/// The check that an answer fails which was relied on already.
const SINGLE_USE: &str = "approval.single_use";

/// Whether a document has the nonce of an ask, or the digest of its request, anywhere: then it may be meant as an
/// answer to it, whatever it is called.
#[must_use]
pub fn speaks_of(document: &str, ask: &Ask) -> bool {
    let own = [field::NONCE, field::REQUEST_SHA256].map(|name| ask.required.get(name));
    own.into_iter().flatten().any(|own| !own.is_empty() && document.contains(own))
}

/// Who signed a word about what is asked that is not plainly an approval, and what it says of its decision.
#[must_use]
pub fn not_an_approval(
    ask: &Ask,
    signature: &SignatureFacts,
    who: impl Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    let SignatureFacts::Good { text, fingerprint, .. } = signature else { return None };
    let signer = who(fingerprint).filter(|_| speaks_of(text, ask) && !approves_plainly(text))?;
    let shown: Vec<String> = decisions(text).into_iter().map(|(line, _)| line).collect();
    Some((signer, if shown.is_empty() { "no decision".into() } else { shown.join(", ") }))
}

/// Whether a text has a decision, and nothing that a person would take for one says anything but approve.
#[must_use]
pub fn approves_plainly(text: &str) -> bool {
    let said = decisions(text);
    !said.is_empty() && said.iter().all(|(_, value)| value == ReviewVerdict::Approve.as_str())
}

/// The failure of a document that was judged and is no answer, if it is not plain either. The policy of the facts
/// says who may refuse.
pub(crate) fn unclear(facts: &AuthorizationFacts, report: &GateReport) -> Option<Check> {
    let own = |failure: &Check| match failure.invariant.as_str() {
        // it was heard before, or answers another question of the same stop
        SINGLE_USE => false,
        "approval.type" => facts.ask.gate != GateId::FailureEscalation,
        _ => true,
    };
    let who = |fingerprint: &str| {
        let people = facts.policy.actors_of(fingerprint);
        let created = normal_fingerprint(fingerprint) == normal_fingerprint(&facts.creator_fingerprint);
        people.first().copied().or(created.then_some(facts.creator_actor.as_str())).map(ToOwned::to_owned)
    };
    let (signer, said) = not_an_approval(&facts.ask, &facts.signature, who)?;
    let wrong: Vec<&Check> = report.failures().into_iter().filter(|failure| own(failure)).collect();
    let first = wrong.first()?;
    let observed = format!("{signer} signed {said}; {first}");
    Some(Check::new(PLAIN, "yes or no in a form that reads, signed anew, or nothing there", observed, false))
}

/// A document that was judged and is no answer.
pub(crate) struct NotTaken {
    /// Why.
    pub(crate) report: GateReport,
    /// Whose signature it is.
    pub(crate) signature: SignatureFacts,
}

impl NotTaken {
    /// The first reason, in short.
    pub(crate) fn why(&self) -> String {
        let first = self.report.failures().first().map(ToString::to_string).unwrap_or_default();
        first.chars().take(300).collect()
    }

    /// Whether nothing is approved beside it: it is not plain, and the same key has signed no whole answer since.
    pub(crate) fn holds<'a>(
        &self,
        beside: &[Self],
        mut valid: impl Iterator<Item = &'a VerifiedApproval>,
    ) -> bool {
        let SignatureFacts::Good { fingerprint, signed_at, .. } = &self.signature else { return false };
        let since = |key: &str, at: Timestamp| {
            normal_fingerprint(key) == normal_fingerprint(fingerprint) && at > *signed_at
        };
        let is_whole = |other: &Self| match (&other.signature, other.report.failures().as_slice()) {
            // what the run relies on is whole, and was used by that
            (SignatureFacts::Good { fingerprint, signed_at, .. }, [failure]) => {
                failure.invariant == SINGLE_USE && since(fingerprint, *signed_at)
            }
            _ => false,
        };
        is_unclear(&self.report)
            && !valid.any(|answer| since(answer.fingerprint().unwrap_or_default(), answer.signed_at()))
            && !beside.iter().any(is_whole)
    }
}

/// Whether a report is about a word that is not plain.
pub(crate) fn is_unclear(report: &GateReport) -> bool {
    report.failures().iter().any(|failure| failure.invariant == PLAIN)
}

/// Every line that a person would take for a decision, with its value, both as they read.
fn decisions(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let line: String = line.chars().filter(|c| *c == '\t' || is_visible(*c)).collect();
        let (key, value) = line.split_once(':')?;
        let key = key.trim().trim_start_matches(['>', '-', '*', '#', '`']).trim();
        let value = value.trim();
        key.eq_ignore_ascii_case("decision")
            .then(|| (format!("`{}`", line.trim()), value.to_ascii_lowercase()))
    };
    text.lines().filter_map(line).collect()
}
