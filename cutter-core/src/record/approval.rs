//! Approvals: what a sovereign gate asks ([`Ask`]), the plain text that a person signs
//! ([`render_approval`], [`ApprovalText`]), who may sign ([`ApprovalPolicy`]), and the proof that
//! one was judged and found good ([`VerifiedApproval`](crate::gate::verified::VerifiedApproval)).
//!
//! The text is Markdown that standard `gpg --clearsign` can sign: a heading, a sentence that says
//! what it allows, then `key: value` lines. It repeats what was asked, value for value, and the
//! nonce of the request, so it fits one occurrence of one gate of one run and nothing else (D14).
//! This module knows neither OpenPGP nor the knowledge base: whose signature it is arrives as
//! facts, and `gate::authorization` judges them.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::{Digest, Hasher};
use crate::base::fingerprint::normal_fingerprint;
use crate::machine::run::GateId;

mod purpose;
mod text;

pub use purpose::Purpose;
pub use text::{ApprovalParseError, ApprovalText, FORMAT, parse_verdict, render_approval};
pub(crate) use text::{is_key, is_visible, render, scan};

/// Names of the fields that an ask may require; an ask may require others too.
pub mod field {
    /// The run.
    pub const RUN_ID: &str = "run_id";
    /// The document.
    pub const DOCUMENT_ID: &str = "document_id";
    /// The source version.
    pub const SOURCE_VERSION_ID: &str = "source_version_id";
    /// Digest of the plan.
    pub const WRITER_DIGEST: &str = "writer_digest";
    /// Digest of source, region, profile and vocabulary.
    pub const MANIFEST_DIGEST: &str = "manifest_digest";
    /// Digest of the region.
    pub const REGION_SHA: &str = "region_sha";
    /// Digest of everything that is stored of the units ([`crate::record::rows`]).
    pub const ROWS_DIGEST: &str = "rows_digest";
    /// Digest of the run's settings.
    pub const SETTINGS_SHA256: &str = "settings_sha256";
    /// The event of the policy that stood when it was asked.
    pub const POLICY_HEAD: &str = "policy_head";
    /// How many different people must approve, where one is not enough.
    pub const APPROVALS_NEEDED: &str = "approvals_needed";
    /// Digest of the state that was backed up.
    pub const BASE_STATE_SHA: &str = "base_state_sha";
    /// The change set.
    pub const CHANGE_SET_ID: &str = "change_set_id";
    /// The request row at SG_2.
    pub const REVIEW_DECISION_ID: &str = "review_decision_id";
    /// How many units.
    pub const UNIT_COUNT: &str = "unit_count";
    /// Digest of the units that would be enacted.
    pub const UNIT_SET_DIGEST: &str = "unit_set_digest";
    /// Which stop of the run, 1, 2, ….
    pub const STOP: &str = "stop";
    /// Why it stopped, `STOP_…` or `failed_<gate>`.
    pub const STOP_CODE: &str = "stop_code";
    /// Digest of the drift that an acknowledgement accepts.
    pub const OBSERVED_SHA256: &str = "observed_sha256";
    /// sha256 of the request document.
    pub const REQUEST_SHA256: &str = "request_sha256";
    /// The request's or stop report's nonce.
    pub const NONCE: &str = "nonce";

    /// All of them, in the order in which they are written.
    pub const ALL: [&str; 20] = [
        RUN_ID,
        DOCUMENT_ID,
        SOURCE_VERSION_ID,
        WRITER_DIGEST,
        ROWS_DIGEST,
        MANIFEST_DIGEST,
        REGION_SHA,
        BASE_STATE_SHA,
        SETTINGS_SHA256,
        POLICY_HEAD,
        APPROVALS_NEEDED,
        CHANGE_SET_ID,
        REVIEW_DECISION_ID,
        UNIT_COUNT,
        UNIT_SET_DIGEST,
        STOP,
        STOP_CODE,
        OBSERVED_SHA256,
        REQUEST_SHA256,
        NONCE,
    ];
}

/// Fields that every approval has, whatever is asked. None of them can be a required field.
pub(crate) const RESERVED: [&str; 8] =
    ["format", "approval_type", "decision", "gate", "occurrence", "actor", "signed_at", "expires"];

/// What a gate asks a person, at one occurrence. Kept in the sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// `SG_cut_authz`, `SG_lifecycle_authz` or `SG_failure_escalation`.
    pub gate: GateId,
    /// 1, 2, …
    pub occurrence: u32,
    /// A [`Purpose`], as it is stored; text, because a document may ask for what there is not.
    pub approval_type: String,
    /// Field → value that the approval must repeat exactly. Values are one line of visible text.
    pub required: BTreeMap<String, String>,
    /// The only actor who may answer, if it is one.
    pub expected_actor: Option<String>,
    /// Where the answer is expected in the knowledge base.
    pub approval_path: String,
    /// The request, or the stop-route report, that it answers.
    pub request_path: String,
}

impl Ask {
    /// What an ask of a type must require at least: less would fit more than one run, plan or
    /// occurrence (D14, PROTOCOL §2 SG2, §5). `None` for a type that does not exist.
    #[must_use]
    pub fn minimum(approval_type: &str) -> Option<&'static [&'static str]> {
        use field::*;
        Some(match approval_type.parse().ok()? {
            Purpose::Cut => &[
                RUN_ID,
                DOCUMENT_ID,
                WRITER_DIGEST,
                ROWS_DIGEST,
                BASE_STATE_SHA,
                SETTINGS_SHA256,
                POLICY_HEAD,
                REQUEST_SHA256,
                NONCE,
            ],
            Purpose::Lifecycle => &[
                RUN_ID,
                DOCUMENT_ID,
                CHANGE_SET_ID,
                REVIEW_DECISION_ID,
                UNIT_COUNT,
                UNIT_SET_DIGEST,
                ROWS_DIGEST,
                SETTINGS_SHA256,
                POLICY_HEAD,
                REQUEST_SHA256,
                NONCE,
            ],
            Purpose::Resume | Purpose::Void => &[RUN_ID, DOCUMENT_ID, STOP, NONCE],
            Purpose::Drift => &[RUN_ID, DOCUMENT_ID, STOP, OBSERVED_SHA256, NONCE],
        })
    }

    /// What it asks for, if there is such a thing.
    #[must_use]
    pub fn purpose(&self) -> Option<Purpose> {
        self.approval_type.parse().ok()
    }

    /// Whether it asks for this.
    #[must_use]
    pub fn is_for(&self, purpose: Purpose) -> bool {
        self.purpose() == Some(purpose)
    }

    /// Whether a yes opens a gate of the run; else it answers a stop.
    #[must_use]
    pub fn is_at_a_gate(&self) -> bool {
        self.purpose().is_some_and(Purpose::is_at_a_gate)
    }

    /// The word that people type for it.
    #[must_use]
    pub fn word(&self) -> &str {
        self.purpose().map_or(self.approval_type.as_str(), |purpose| purpose.word())
    }

    /// The required fields in the order in which they are written: known ones first.
    #[must_use]
    pub fn ordered(&self) -> Vec<(&str, &str)> {
        let known = field::ALL.iter().filter_map(|k| self.required.get_key_value(*k));
        let other = self.required.iter().filter(|(k, _)| !field::ALL.contains(&k.as_str()));
        known.chain(other).map(|(k, v)| (k.as_str(), v.as_str())).collect()
    }

    /// Digest of what is asked, without the digest of the request document (which shows this
    /// one's [`voice_code`]): gate, occurrence, type and every other required value.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut text = format!("{}\n{}\n{}\n", self.gate, self.occurrence, self.approval_type);
        for (key, value) in self.required.iter().filter(|(k, _)| *k != field::REQUEST_SHA256) {
            text.push_str(&format!("{key}={value}\n"));
        }
        Digest::of(text.as_bytes())
    }

    /// The code to compare by voice: operator and sovereign must hear the same.
    #[must_use]
    pub fn voice_code(&self) -> String {
        voice_code(&self.digest())
    }
}

/// The value of a field of a stored document: on the one line that begins with its name; `None` if
/// there is no such line, or more than one. The database reads documents by the same rule.
#[must_use]
pub fn parse_field<'d>(document: &'d str, name: &str) -> Option<&'d str> {
    let named = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.trim_start_matches([' ', '\t']).starts_with(':'))
    };
    let mut lines = document.split('\n').filter(named);
    let (only, more) = (lines.next()?, lines.next());
    let value = only.strip_prefix(name)?.strip_prefix(':')?;
    let value = value.strip_suffix('\r').unwrap_or(value).trim_matches([' ', '\t']);
    Some(value).filter(|_| more.is_none())
}

/// The rows that a stored consent names ([`field::ROWS_DIGEST`]), if it names a digest.
#[must_use]
pub fn named_rows(document: &str) -> Option<Digest> {
    parse_field(document, field::ROWS_DIGEST)?.parse().ok()
}

/// The value of [`field::OBSERVED_SHA256`]: one digest over all observed values of a drift, so that
/// an acknowledgement accepts exactly these (one `name=value` line each, in byte order of names).
#[must_use]
pub fn observed_sha256(observed: &BTreeMap<String, String>) -> Digest {
    let mut hasher = Hasher::new();
    for (name, value) in observed {
        hasher.update(format!("{name}={value}\n").as_bytes());
    }
    hasher.finish()
}

/// A short form of a digest to compare by voice: four groups of four from 32 letters and digits
/// without I, O, 0 and 1. 80 bits: enough to notice a mix-up, not a replacement for the digest.
#[must_use]
pub fn voice_code(digest: &Digest) -> String {
    const ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
    let mut bits = digest.as_bytes().iter().take(10).fold(0u128, |acc, b| acc << 8 | u128::from(*b));
    let mut letters = [0u8; 16];
    for letter in letters.iter_mut().rev() {
        *letter = ALPHABET[(bits & 31) as usize];
        bits >>= 5;
    }
    let groups = letters.chunks(4).map(|g| g.iter().map(|b| char::from(*b)).collect::<String>());
    groups.collect::<Vec<_>>().join("-")
}

/// Must approvals be signed?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignaturePolicy {
    /// Yes (default).
    #[default]
    Required,
    /// No; one that is signed must still be good (DQ_2).
    Optional,
}

/// Someone who may approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approver {
    /// The name in the approval.
    pub actor: String,
    /// Fingerprint of the primary key; case and spaces do not matter.
    pub fingerprint: String,
}

/// Who may approve, and how (D14, D31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalPolicy {
    /// Must it be signed?
    #[serde(default)]
    pub signature: SignaturePolicy,
    /// Must the approver be someone else than the run's creator?
    #[serde(default = "yes")]
    pub approver_not_creator: bool,
    /// Who may approve.
    pub approvers: Vec<Approver>,
    /// Every key that was ever somebody's: it tells whether two keys are one person's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<Approver>,
    /// An answer may be used for so many hours after its request; `None`: as long as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_hours: Option<u32>,
    /// How many different people must approve.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub needed: u32,
}

const fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's shape
const fn is_one(needed: &u32) -> bool {
    *needed == 1
}

const fn yes() -> bool {
    true
}

impl ApprovalPolicy {
    /// Nobody may approve, under the strict rules.
    #[must_use]
    pub const fn nobody() -> Self {
        Self {
            signature: SignaturePolicy::Required,
            approver_not_creator: true,
            approvers: Vec::new(),
            known: Vec::new(),
            valid_hours: None,
            needed: 1,
        }
    }

    /// What both allow.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let is_there = |all: &[Approver], one: &Approver| {
            let wanted = normal_fingerprint(&one.fingerprint);
            all.iter().any(|a| a.actor == one.actor && normal_fingerprint(&a.fingerprint) == wanted)
        };
        let is_required = [self.signature, other.signature].contains(&SignaturePolicy::Required);
        let mut known = self.known.clone();
        known.extend(other.known.iter().filter(|k| !is_there(&self.known, k)).cloned());
        Self {
            signature: if is_required { SignaturePolicy::Required } else { SignaturePolicy::Optional },
            approver_not_creator: self.approver_not_creator || other.approver_not_creator,
            approvers: self.approvers.iter().filter(|a| is_there(&other.approvers, a)).cloned().collect(),
            known,
            valid_hours: match (self.valid_hours, other.valid_hours) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            needed: self.needed.max(other.needed),
        }
    }

    /// The people who may approve what this creator began, each once.
    #[must_use]
    pub fn people(&self, creator: &str, creator_fingerprint: &str) -> BTreeSet<&str> {
        let same = self.people_of(creator_fingerprint);
        let is_creator = |actor: &str| actor == creator || same.contains(&actor);
        let may = |actor: &&str| !self.approver_not_creator || !is_creator(actor);
        self.approvers.iter().map(|a| a.actor.as_str()).filter(may).collect()
    }

    /// Whether these people are enough, with the one who is expected among them.
    #[must_use]
    pub fn are_enough(&self, people: &BTreeSet<&str>, expected: Option<&str>) -> bool {
        let needed = usize::try_from(self.needed).unwrap_or(usize::MAX);
        people.len() >= needed && expected.is_none_or(|expected| people.contains(expected))
    }

    /// The people whose key this is or was.
    #[must_use]
    pub fn people_of(&self, fingerprint: &str) -> Vec<&str> {
        let wanted = normal_fingerprint(fingerprint);
        let of = |a: &&Approver| !wanted.is_empty() && normal_fingerprint(&a.fingerprint) == wanted;
        let mut people: Vec<&str> =
            self.approvers.iter().chain(&self.known).filter(of).map(|a| a.actor.as_str()).collect();
        people.sort_unstable();
        people.dedup();
        people
    }

    /// Whether two keys are one person's: the same key, or two of somebody who is known by both.
    #[must_use]
    pub fn are_one(&self, fingerprint: &str, other: &str) -> bool {
        let people = self.people_of(other);
        normal_fingerprint(fingerprint) == normal_fingerprint(other)
            || self.people_of(fingerprint).iter().any(|person| people.contains(person))
    }

    /// The actors that pin this fingerprint, each once.
    #[must_use]
    pub fn actors_of(&self, fingerprint: &str) -> Vec<&str> {
        let wanted = normal_fingerprint(fingerprint);
        let mut actors: Vec<&str> = self
            .approvers
            .iter()
            .filter(|a| !wanted.is_empty() && normal_fingerprint(&a.fingerprint) == wanted)
            .map(|a| a.actor.as_str())
            .collect();
        actors.sort_unstable();
        actors.dedup();
        actors
    }
}

/// What an approval of this type allows, in plain words, for the request and for the text itself.
#[must_use]
pub fn allows(ask: &Ask) -> String {
    let get = |key: &str| ask.required.get(key).map_or("(not named)", String::as_str).to_owned();
    let (run, document) = (get(field::RUN_ID), get(field::DOCUMENT_ID));
    let Some(purpose) = ask.purpose() else {
        return format!("Answers {} for run {run} of {document}.", ask.approval_type);
    };
    match purpose {
        Purpose::Cut => format!(
            "Allows run {run} to cut {document} once: to write the units whose plan has the writer_digest below, \
             as drafts, onto the base state below. Allows nothing else."
        ),
        Purpose::Lifecycle => format!(
            "Allows run {run} to enact the {} units of {document} in the change set below, all or none. \
             Enacted units cannot be voided or changed.",
            get(field::UNIT_COUNT)
        ),
        Purpose::Resume => {
            format!("Allows run {run} of {document} to go on after stop {}.", get(field::STOP))
        }
        Purpose::Drift => format!(
            "Accepts the changes that stop {} of run {run} of {document} reports as the new state to work on. \
             What was approved before leg A must be approved again.",
            get(field::STOP)
        ),
        Purpose::Void => format!(
            "Voids run {run} of {document} for good: its drafts are marked voided, nothing is deleted, \
             and the document is free for a new run."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn voice_codes_are_stable_and_unambiguous() {
        assert_eq!(voice_code(&Digest::from_bytes([0; 32])), "2222-2222-2222-2222");
        assert_eq!(voice_code(&Digest::from_bytes([0xff; 32])), "ZZZZ-ZZZZ-ZZZZ-ZZZZ");
        let code = voice_code(&Digest::of(b"abc"));
        assert_eq!(code.len(), 19);
        let codes: BTreeSet<String> =
            (0..500u32).map(|i| voice_code(&Digest::of(&i.to_be_bytes()))).collect();
        assert_eq!(codes.len(), 500);
        assert!(codes.iter().all(|c| !c.contains(['0', '1', 'I', 'O'])));
    }

    #[test]
    fn the_voice_code_covers_every_required_value_but_the_requests_own_digest() {
        let ask = crate::gate::authorization::AuthorizationFacts::example().ask;
        let base = ask.voice_code();
        for key in ask.required.keys() {
            let mut changed = ask.clone();
            changed.required.insert(key.clone(), "changed".to_owned());
            assert_eq!(changed.voice_code() == base, key == field::REQUEST_SHA256, "{key}");
        }
        assert_ne!(Ask { occurrence: 2, ..ask }.voice_code(), base);
    }

    #[test]
    fn the_rows_that_a_consent_names_are_named_once_and_exactly() {
        let digest = Digest::of(b"rows");
        let line = format!("rows_digest: {digest}");
        let blanks = [format!("{line} "), line.replace(": ", ":"), line.replace(": ", ":\t ")];
        let plain = [line.clone(), format!("a\n{line}\nb\n"), format!("a\r\n{line}\r\n")];
        for good in plain.into_iter().chain(blanks) {
            assert_eq!(named_rows(&good), Some(digest), "{good}");
        }
        for bad in [
            String::new(),
            format!(" {line}"),
            format!("{line}\n{line}"),
            format!("{line}\nrows_digest : other"),
            line.to_uppercase(),
            format!("{line}0"),
        ] {
            assert_eq!(named_rows(&bad), None, "{bad}");
        }
    }

    #[test]
    fn no_required_field_collides_with_a_reserved_one() {
        assert!(field::ALL.iter().all(|f| !RESERVED.contains(f)));
    }

    #[test]
    fn a_fingerprint_is_found_in_any_spelling_and_an_empty_one_never() {
        let approver = |actor: &str, fingerprint: &str| Approver {
            actor: actor.to_owned(),
            fingerprint: fingerprint.to_owned(),
        };
        let policy = ApprovalPolicy {
            approvers: alloc::vec![approver("a", "ab cd"), approver("a", "ABCD"), approver("b", "")],
            ..ApprovalPolicy::nobody()
        };
        assert_eq!(policy.actors_of("abCD"), ["a"]);
        assert!(policy.actors_of("").is_empty());
    }
}
