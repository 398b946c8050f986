//! Approvals: who allowed what, and whether all that had to be allowed was.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::Serialize;

use super::{ApprovalFact, Found, NotChecked, Taken};
use crate::base::digest::Digest;
use crate::base::fingerprint::normal_fingerprint;
use crate::machine::run::GateId;
use crate::operate::inspect::claims::Claims;
use crate::record::approval::{ApprovalPolicy, SignaturePolicy, parse_field};
use crate::record::check::{ABSENT, Check};
use crate::record::effect::ReviewVerdict;
use crate::record::evidence::RunEvidence;
use crate::record::sidecar::ApprovalRecord;
use crate::record::signature::SignatureFacts;

/// What the signature of an unknown key is called.
const UNKNOWN_KEY: &str = "unknown_key";
/// What a signature is called whose key, or which itself, was good for a while only.
const RAN_OUT: [&str; 2] = ["expired_key", "signature_expired"];

/// The keys by which approvals are judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Fingerprints that whoever checks brought along: nobody else's word counts.
    pub brought: Vec<String>,
    /// Whether any approver's key is here at all.
    pub has_keys: bool,
    /// Whether answers are judged as of now, since nothing says when they were recorded.
    pub undated: bool,
}

/// A word that was given, and holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allowed {
    /// Which gate.
    pub gate: GateId,
    /// `approve`, `defer` or `reject`.
    pub decision: ReviewVerdict,
    /// By whom.
    pub actor: String,
    /// With which key; empty for an unsigned one that the policy let pass.
    pub fingerprint: String,
    /// Who else approved, where several people had to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// When the database took it, or the last one where several people had to; unknown where no database
    /// was asked, or the time was not kept.
    pub recorded_at: Option<Timestamp>,
    /// When, by the signer's own clock, which proves nothing.
    pub signed_at: Option<Timestamp>,
    /// The document.
    pub approval: String,
    /// Which occurrence of the gate it answered.
    pub occurrence: u32,
    /// Whether the gate was asked again since: then it opened nothing more.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub asked_again: bool,
}

impl ApprovalFact {
    /// The name of a check of it.
    pub(super) fn id(&self, what: &str) -> String {
        let ApprovalRecord { gate, occurrence, .. } = &self.record;
        match self.place {
            0 => format!("verify.approval.{gate}.{occurrence}.{what}"),
            n => format!("verify.approval.{gate}.{occurrence}.beside.{n}.{what}"),
        }
    }
}

/// The words that hold, in the order of the record. Who is called by name is who the policy says owns the
/// key: a document may call itself anybody's.
#[must_use]
pub fn allowed(
    policy: &ApprovalPolicy,
    approvals: &[ApprovalFact],
    checks: &[Check],
    taken: Option<&Taken>,
) -> Vec<Allowed> {
    let name = |fingerprint: &str, said: &str| match policy.people_of(fingerprint).as_slice() {
        [] if fingerprint.is_empty() => said.to_owned(),
        [person] => (*person).to_owned(),
        _ => format!("the key {fingerprint}"),
    };
    let of = |fact: &ApprovalFact| {
        let record = &fact.record;
        let begins = format!("verify.approval.{}.{}.", record.gate, record.occurrence);
        let enough = format!("verify.ask.{}.{}.enough", record.gate, record.occurrence);
        let is_of_it = |check: &Check| check.invariant.starts_with(&begins) || check.invariant == enough;
        let is_good = |check: &Check| !is_of_it(check) || check.ok;
        let documents = record.sha256.iter().chain(record.beside.iter().map(|b| &b.sha256));
        let times: Option<Vec<Timestamp>> = documents.map(|sha256| taken?.at(sha256)).collect();
        let signed_at = match &fact.signature {
            Some(SignatureFacts::Good { signed_at, .. }) => Some(*signed_at),
            Some(SignatureFacts::Unsigned { .. }) => None,
            _ => return None,
        };
        checks.iter().all(is_good).then(|| Allowed {
            gate: record.gate,
            decision: record.decision,
            actor: name(&record.fingerprint, &record.actor),
            fingerprint: record.fingerprint.clone(),
            beside: record.beside.iter().map(|b| name(&b.fingerprint, &b.actor)).collect(),
            recorded_at: times.and_then(|times| times.into_iter().max()),
            signed_at,
            approval: record.approval_kb_id.clone(),
            occurrence: record.occurrence,
            asked_again: false,
        })
    };
    approvals.iter().filter(|fact| fact.place == 0).filter_map(of).collect()
}

/// Checks the approvals: each that had to be given is there; each is genuine, unedited, by a person
/// whom the run's settings name, for the request that stands there, and used once.
#[must_use]
pub fn approvals(
    claims: &Claims,
    approvals: &[ApprovalFact],
    evidence: &RunEvidence,
    keys: &Approvals,
) -> (Vec<Check>, Vec<NotChecked>) {
    let (mut checks, mut open) = (there(claims, evidence), Vec::new());
    let mut seen = BTreeSet::new();
    let mut twice = Vec::new();
    for fact in approvals {
        if let Some(sha256) = &fact.record.sha256
            && !seen.insert(*sha256)
        {
            twice.push(fact.record.approval_kb_id.clone());
        }
        one(claims, fact, keys, &mut checks, &mut open);
    }
    checks.push(Check::empty("verify.approvals.each_used_once", &twice));
    (checks, open)
}

/// Every gate that the run came past was opened by somebody's word.
fn there(claims: &Claims, evidence: &RunEvidence) -> Vec<Check> {
    let gates = [GateId::CutAuthz, GateId::LifecycleAuthz, GateId::FailureEscalation];
    let judge = |gate: &GateId| {
        let given = claims.approvals.iter().any(|a| a.gate == *gate && a.decision.allows());
        let observed = if given { "there" } else { ABSENT };
        Check::new(&format!("verify.approval.{gate}.there"), "an approval", observed, given)
    };
    gates.iter().filter(|gate| claims.has_opened(evidence, **gate)).map(judge).collect()
}

fn one(
    claims: &Claims,
    fact: &ApprovalFact,
    keys: &Approvals,
    checks: &mut Vec<Check>,
    open: &mut Vec<NotChecked>,
) {
    let record = &fact.record;
    let id = |what: &str| fact.id(what);
    match &record.sha256 {
        Some(sha256) => checks.push(fact.found.check(&id("unedited"), sha256)),
        None => checks.push(Check::truth(&id("unedited"), false)),
    }
    if !matches!(fact.found, Found::Bytes(_)) {
        // what it says follows from it
        return;
    }
    let unsigned = record.fingerprint.is_empty();
    let (signer, text) = match &fact.signature {
        Some(SignatureFacts::Good { fingerprint, text, .. }) => (fingerprint.clone(), Some(text)),
        Some(SignatureFacts::Unsigned { text }) if unsigned => (String::new(), Some(text)),
        Some(SignatureFacts::Unsigned { .. }) => ("unsigned".to_owned(), None),
        Some(SignatureFacts::Bad { code, .. }) if code == UNKNOWN_KEY && !keys.has_keys => {
            open.push(NotChecked::new(
                id("signature"),
                "no approver's key is here",
                format!("cutter verify --run-id {} --approver FILE", claims.run_id),
            ));
            return;
        }
        Some(SignatureFacts::Bad { code, detail }) if keys.undated && RAN_OUT.contains(&code.as_str()) => {
            open.push(NotChecked::new(
                id("signature"),
                format!("it is good no more ({detail}), and nothing here says when the answer was recorded"),
                "a login that reads, or the run's folder",
            ));
            return;
        }
        Some(SignatureFacts::Bad { code, .. }) => (code.clone(), None),
        None => (ABSENT.to_owned(), None),
    };
    if unsigned {
        let may = claims.policy.signature == SignaturePolicy::Optional;
        checks.push(Check::new(&id("signature"), "a signature, as the policy requires", "unsigned", may));
        brought(fact, keys, checks);
    } else {
        checks.push(Check::equal(&id("signature"), &record.fingerprint, &signer));
    }
    let Some(text) = text else { return };
    if !unsigned {
        who(claims, fact, keys, checks, open);
    }
    let field = |key: &str| parse_field(text, key).map(ToOwned::to_owned);
    for (name, expected) in [
        ("decision", record.decision.to_string()),
        ("run_id", claims.run_id.to_string()),
        ("document_id", claims.document_id.clone()),
        ("gate", record.gate.to_string()),
        ("actor", record.actor.clone()),
    ] {
        checks.push(Check::equal_some(&id(name), &expected, field(name).as_ref()));
    }
    if !record.decision.allows() {
        // it counts whatever the request looked like
        return;
    }
    let (named, named_id) = (field("request_sha256"), id("request_sha256"));
    match (&record.request_sha256, named) {
        (Some(request), named) => {
            checks.push(Check::equal_some(&id("request_unedited"), request, fact.request.as_ref()));
            checks.push(Check::equal_some(&named_id, &request.to_hex(), named.as_ref()));
        }
        // the stop asked for none, but the answer says what was read
        (None, Some(named)) => {
            let is_a_report = claims.reports.iter().any(|(_, report)| report.to_hex() == named);
            checks.push(Check::new(&named_id, "the report of a stop of this run", named, is_a_report));
        }
        (None, None) => open.push(NotChecked::new(
            named_id,
            "the answer names no report of a stop: an earlier program asked for none",
            "",
        )),
    }
}

/// An approval counts only by a key that was brought along, if any was. Of those beside it as many must be
/// brought as are needed, which is counted over all.
fn brought(fact: &ApprovalFact, keys: &Approvals, checks: &mut Vec<Check>) {
    let record = &fact.record;
    if keys.brought.is_empty() || fact.place != 0 || !record.decision.allows() {
        return;
    }
    let own = normal_fingerprint(&record.fingerprint);
    let is_brought = keys.brought.iter().any(|f| normal_fingerprint(f) == own);
    let observed = if own.is_empty() { "unsigned" } else { record.fingerprint.as_str() };
    checks.push(Check::new(&fact.id("signer_brought"), keys.brought.join(", "), observed, is_brought));
}

/// The signer is someone who may.
fn who(
    claims: &Claims,
    fact: &ApprovalFact,
    keys: &Approvals,
    checks: &mut Vec<Check>,
    open: &mut Vec<NotChecked>,
) {
    let record = &fact.record;
    let id = |what: &str| fact.id(what);
    brought(fact, keys, checks);
    // Where no policy is known, the keys that were brought along are it.
    if !claims.policy.approvers.is_empty() || keys.brought.is_empty() {
        let actors = claims.policy.actors_of(&record.fingerprint);
        let pinned = actors.contains(&record.actor.as_str());
        checks.push(Check::new(&id("signer_pinned"), &record.actor, actors.join(", "), pinned));
    }
    // anybody may refuse, the creator too
    if claims.policy.approver_not_creator && record.decision.allows() {
        match &claims.creator {
            Some(creator) => {
                let is_creator = claims.policy.are_one(&record.fingerprint, creator);
                checks.push(Check::truth(&id("not_the_creator"), !is_creator));
            }
            None => open.push(NotChecked::new(
                id("not_the_creator"),
                "who created the run stands in its record, which is not here",
                "the run's folder",
            )),
        }
    }
}

/// Of several answers to one ask the one that holds, else the one that comes closest: what was
/// refused and still lies there is no failure by itself.
#[must_use]
pub fn best(claims: &Claims, answers: Vec<ApprovalFact>, keys: &Approvals) -> Option<ApprovalFact> {
    let score = |fact: &ApprovalFact| {
        let (mut checks, mut open) = (Vec::new(), Vec::new());
        one(claims, fact, keys, &mut checks, &mut open);
        let failed = checks.iter().filter(|c| !c.ok).count();
        (failed > 0, core::cmp::Reverse(checks.iter().filter(|c| c.ok).count()), failed)
    };
    answers.into_iter().min_by_key(score)
}

/// Of the answers that one ask took, the one that was stored as the consent, with those that counted
/// beside it, in the order in which they count. `stored` says which one is the consent.
#[must_use]
pub fn given_beside(
    answers: Vec<ApprovalFact>,
    stored: &dyn Fn(&Digest) -> bool,
    needed: u32,
) -> Option<Vec<ApprovalFact>> {
    let is_consent = |fact: &ApprovalFact| fact.record.sha256.as_ref().is_some_and(stored);
    let (consents, mut others): (Vec<_>, Vec<_>) = answers.into_iter().partition(is_consent);
    let mut consent = consents.into_iter().next()?;
    let signed = |fact: &ApprovalFact| match &fact.signature {
        Some(SignatureFacts::Good { signed_at, .. }) => Some(*signed_at),
        _ => None,
    };
    others.retain(|fact| needed > 1 && signed(fact).is_some());
    others.sort_by_key(|fact| (signed(fact), fact.record.sha256));
    let mut people = BTreeSet::from([consent.record.actor.clone()]);
    others.retain(|fact| people.insert(fact.record.actor.clone()));
    consent.record.beside = others.iter().filter_map(|fact| fact.record.as_beside()).collect();
    let mut all = alloc::vec![consent];
    for (fact, place) in others.into_iter().zip(1..) {
        all.push(ApprovalFact { place, ..fact });
    }
    Some(all)
}
