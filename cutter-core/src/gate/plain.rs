//! A word that is not plain: somebody who may refuse signed a document about what is asked, and it is
//! neither a whole answer nor plainly an approval. It may be meant as a refusal, so it holds the gate
//! until whoever signed it says it plainly, or it is taken away. It is stored nowhere: what it decides, nobody
//! can say.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};

use jiff::Timestamp;

use super::authorization::AuthorizationFacts;
use super::verified::VerifiedApproval;
use crate::base::fingerprint::normal_fingerprint;
use crate::machine::run::GateId;
use crate::record::approval::{Ask, Purpose, field, is_key, is_visible, parse_field, parse_verdict, scan};
use crate::record::check::{Check, GateReport};
use crate::record::effect::ReviewVerdict;
use crate::record::signature::SignatureFacts;

/// The check that a word which is not plain fails.
pub const PLAIN: &str = "approval.plain";
const EXPECTED: &str = "a plain yes or no of the same person, signed later, or that document gone";
/// The check of a text's form.
const WELL_FORMED: &str = "approval.well_formed";

/// A longer document is searched as it stands.
const NORMAL_MAX_BYTES: usize = 4 << 20;

/// Whether a document has the nonce of an ask, or the digest of its request, anywhere, in whatever case, and broken
/// by whatever blanks and signs: then it may be meant as an answer to it, whatever it is called.
#[must_use]
pub fn speaks_of(document: &str, ask: &Ask) -> bool {
    let own = [field::NONCE, field::REQUEST_SHA256].map(|name| ask.required.get(name));
    let own = || own.into_iter().flatten().filter(|own| !own.is_empty());
    if own().any(|own| document.contains(own)) {
        return true;
    }
    if document.len() > NORMAL_MAX_BYTES {
        return false;
    }
    let plain = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let document = plain(document);
    own().any(|own| document.contains(&plain(own)))
}

/// Whether a text refuses something of the run of an ask, by a nonce that is not among those which the run ever
/// `asked`: its request was edited while it was read, or the nonce was mistyped. So it may be meant as an answer to
/// any ask of the run; but an answer to a stop is none to a gate, as far as gate and type say so alike.
#[must_use]
pub fn refuses_what_nobody_asked(text: &str, ask: &Ask, asked: &BTreeSet<String>) -> bool {
    let of_the_run = ask
        .required
        .get(field::RUN_ID)
        .is_some_and(|run| !run.is_empty() && parse_field(text, field::RUN_ID) == Some(run));
    let refuses = parse_field(text, "decision").and_then(parse_verdict).is_some_and(|said| !said.allows());
    let purpose = parse_field(text, "approval_type").and_then(|said| said.parse().ok());
    let of_a_stop = parse_field(text, "gate") == Some(GateId::FailureEscalation.as_str())
        && !purpose.is_some_and(Purpose::is_at_a_gate);
    of_the_run
        && refuses
        && of_a_stop == (ask.gate == GateId::FailureEscalation)
        && !parse_field(text, field::NONCE).is_some_and(|nonce| asked.contains(nonce))
}

/// Whether a text names, in its fields, the run and the nonce of an ask: it answers this one and no other.
fn answers(text: &str, ask: &Ask) -> bool {
    [field::RUN_ID, field::NONCE].iter().all(|name| {
        let own = ask.required.get(*name).filter(|own| !own.is_empty());
        own.is_some() && parse_field(text, name) == own.map(String::as_str)
    })
}

/// Who signed a word about what is asked that is not plainly an approval, and what it says of its decision. `asked`
/// are the nonces of all that the run ever asked.
#[must_use]
pub fn not_an_approval(
    ask: &Ask,
    asked: &BTreeSet<String>,
    signature: &SignatureFacts,
    who: impl Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    let SignatureFacts::Good { text, fingerprint, .. } = signature else { return None };
    let is_meant = || speaks_of(text, ask) || refuses_what_nobody_asked(text, ask, asked);
    let signer = who(fingerprint).filter(|_| is_meant())?;
    Some((signer, fault(text)?))
}

/// How the title of an approval begins, and its sentence, whatever it allows.
const BEGINNINGS: [&str; 5] = ["# Approval", "Allows ", "Accepts ", "Voids ", "Answers "];
/// What a field of another name may mean as a decision against it.
const AGAINST: [&str; 8] = ["reject", "rejected", "refuse", "refused", "defer", "deferred", "deny", "denied"];
/// Fields whose values are names.
const NAMES: [&str; 2] = [field::DOCUMENT_ID, "actor"];

/// Whether a text approves and says nothing else: its fields, with a title and the sentence of what it allows before
/// them. Another line might say anything, so nobody reads it as an approval.
#[must_use]
pub fn approves_plainly(text: &str) -> bool {
    fault(text).is_none()
}

/// Whether a text refuses an ask or defers it, and names it: nobody can take that for anything else.
#[must_use]
pub fn refuses_plainly(text: &str, ask: &Ask) -> bool {
    let said = parse_field(text, "decision").and_then(parse_verdict);
    answers(text, ask) && said.is_some_and(|said| !said.allows())
}

/// What keeps a text from approving plainly: the first such line.
fn fault(text: &str) -> Option<String> {
    let (mut decided, mut is_head) = (false, true);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let is_fine = match line.split_once(':').filter(|(key, _)| is_key(key)) {
            Some(("decision", value)) => {
                let is_first = !core::mem::replace(&mut decided, true);
                is_first && value.trim_matches([' ', '\t']) == ReviewVerdict::Approve.as_str()
            }
            Some((key, _)) if NAMES.contains(&key) => true,
            Some((_, value)) => !AGAINST.contains(&value.trim().to_ascii_lowercase().as_str()),
            None => is_head && BEGINNINGS.iter().any(|begins| line.starts_with(begins)),
        };
        if !is_fine {
            let shown: String = line.trim().chars().filter(|c| is_visible(*c)).take(60).collect();
            return Some(format!("`{shown}`"));
        }
        is_head &= !line.split_once(':').is_some_and(|(key, _)| is_key(key));
    }
    (!decided).then(|| "no decision".to_owned())
}

/// The failure of a document that was judged and is no answer, if it is not plain either. The policy of the facts
/// says who may refuse.
pub(crate) fn unclear(facts: &AuthorizationFacts, report: &GateReport) -> Option<Check> {
    let own = |failure: &Check| match failure.invariant.as_str() {
        // it was heard before, or answers another question of the same stop
        "approval.single_use" => false,
        "approval.type" => facts.ask.gate != GateId::FailureEscalation,
        _ => true,
    };
    let who = |fingerprint: &str| {
        let people = facts.policy.actors_of(fingerprint);
        let created = normal_fingerprint(fingerprint) == normal_fingerprint(&facts.creator_fingerprint);
        people.first().copied().or(created.then_some(facts.creator_actor.as_str())).map(ToOwned::to_owned)
    };
    let (signer, said) = not_an_approval(&facts.ask, &facts.asked, &facts.signature, who)?;
    let first = report.failures().into_iter().find(|failure| own(failure))?;
    let at = match &facts.signature {
        SignatureFacts::Good { signed_at, .. } => format!(" at {signed_at}"),
        _ => String::new(),
    };
    let observed = format!("{signer} signed {said}{at}; {first}");
    Some(Check::new(PLAIN, EXPECTED, observed, false))
}

/// The failure of an approval that holds but for what stands beside its fields.
pub(crate) fn not_only_approval(signature: &SignatureFacts) -> Option<Check> {
    let (SignatureFacts::Good { text, .. } | SignatureFacts::Unsigned { text }) = signature else {
        return None;
    };
    Some(Check::new(PLAIN, EXPECTED, fault(text)?, false))
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

    /// Whether nothing is approved beside it: it is not plain, and the same key has signed no plain answer to the
    /// same ask since, whether or not its owner may approve here.
    pub(crate) fn holds<'a>(
        &self,
        asks: &[Ask],
        beside: &[Self],
        mut valid: impl Iterator<Item = &'a VerifiedApproval>,
    ) -> bool {
        let is_whole = |other: &Self| other.report.checks.iter().all(|c| c.ok || c.invariant != WELL_FORMED);
        let is_said_since = |other: &Self| {
            is_whole(other)
                && asks.iter().any(|ask| is_said_plainly_since(&self.signature, &other.signature, ask))
        };
        is_unclear(&self.report)
            && !valid.any(|answer| {
                // who orders a void says nothing for going on
                let is_other =
                    answer.is_for(Purpose::Void) && !asks.iter().all(|ask| ask.is_for(Purpose::Void));
                !is_other
                    && is_since(&self.signature, answer.fingerprint().unwrap_or_default(), answer.made_at())
            })
            && !beside.iter().any(is_said_since)
    }
}

/// Whether whoever signed a word about an ask has plainly approved exactly that ask since, by another document:
/// whether they may is no matter here, but it must be what is asked, and good when it was signed.
#[must_use]
pub fn is_said_plainly_since(word: &SignatureFacts, other: &SignatureFacts, ask: &Ask) -> bool {
    let SignatureFacts::Good { fingerprint, signed_at, text } = other else { return false };
    is_since(word, fingerprint, *signed_at) && approves_plainly(text) && repeats(text, ask, *signed_at)
}

/// Whether a text repeats all that an ask names, and had not expired when it was signed.
fn repeats(text: &str, ask: &Ask, signed_at: Timestamp) -> bool {
    let (fields, faults) = scan(text);
    let has = |name: &str, value: &str| fields.get(name).is_some_and(|own| own == value);
    let expires = fields.get("expires").map_or("", String::as_str);
    faults.is_empty()
        && has("approval_type", &ask.approval_type)
        && has("gate", ask.gate.as_str())
        && has("occurrence", &ask.occurrence.to_string())
        && ask.required.iter().all(|(name, value)| has(name, value))
        && (expires == "never" || expires.parse::<Timestamp>().is_ok_and(|end| end > signed_at))
}

/// Whether what a key signed at a time comes after a word of the same key.
fn is_since(word: &SignatureFacts, key: &str, at: Timestamp) -> bool {
    let SignatureFacts::Good { fingerprint, signed_at, .. } = word else { return false };
    normal_fingerprint(key) == normal_fingerprint(fingerprint) && at > *signed_at
}

/// Whether a report is about a word that is not plain.
pub(crate) fn is_unclear(report: &GateReport) -> bool {
    report.failures().iter().any(|failure| failure.invariant == PLAIN)
}
