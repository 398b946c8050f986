//! What was asked and answered, as the database has it, against what the record, the requests and
//! the signed documents say themselves.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Taken;
use crate::base::digest::Digest;
use crate::base::fingerprint::normal_fingerprint;
use crate::base::id::RunId;
use crate::operate::inspect::asked::{Asked, asks as asked_by};
use crate::record::approval::field;
use crate::record::ask::{StoredAnswer, StoredAsk};
use crate::record::check::{ABSENT, Check};
use crate::record::effect::{EffectName, ReviewVerdict};
use crate::record::evidence::{RunEvidence, StoredApproval};
use crate::record::policy::{Chain, Foreign};
use crate::record::sidecar::{ApprovalRecord, Sidecar};
use crate::record::signature::SignatureFacts;

/// What the rows of asks and answers are compared with.
#[derive(Debug, Clone, Copy)]
pub struct AskSources<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// Its record, if it is here.
    pub record: Option<&'a Sidecar>,
    /// The documents in its folder: path and text.
    pub documents: &'a [(String, String)],
    /// The policy that the database holds.
    pub chain: &'a Chain,
    /// What the database holds of the run.
    pub evidence: &'a RunEvidence,
    /// Fingerprints that whoever checks brought along: nobody else's word counts.
    pub brought: &'a [String],
}

/// Every answer that the database took is filed as it was signed. One that its own place was given to a later
/// one is replaced, not lost.
#[must_use]
pub fn answers_filed(documents: &[(String, String)], evidence: &RunEvidence, stored: &[StoredAsk]) -> Check {
    let filed: BTreeSet<Digest> = documents.iter().map(|(_, text)| Digest::of(text.as_bytes())).collect();
    let decided = evidence.approvals.iter().map(|a| (&a.approval_kb_id, a.sha256));
    let mut gone: BTreeSet<&String> =
        decided.filter(|(_, sha256)| !filed.contains(sha256)).map(|(path, _)| path).collect();
    for ask in stored {
        let is_replaced = |one: &StoredAnswer| {
            let same = |other: &&StoredAnswer| other.answer.approval_kb_id == one.answer.approval_kb_id;
            ask.answers.iter().filter(same).any(|other| filed.contains(&other.answer.sha256()))
        };
        let gone_of_it =
            ask.answers.iter().filter(|one| !filed.contains(&one.answer.sha256()) && !is_replaced(one));
        gone.extend(gone_of_it.map(|one| &one.answer.approval_kb_id));
    }
    Check::empty("verify.answers.filed", &gone.into_iter().collect::<Vec<_>>())
}

/// Judges each stored ask with its answers. `signature` gives what was found of the signature of a
/// stored answer, as of when it was stored.
#[must_use]
pub fn asks(
    from: AskSources<'_>,
    stored: &[StoredAsk],
    signature: &dyn Fn(&StoredAnswer) -> Option<SignatureFacts>,
) -> Vec<Check> {
    let requests = asked_by(from.documents, from.run_id);
    let taken = Taken::of(from.evidence, stored);
    let mut checks = Vec::new();
    for one in stored {
        let ask = &one.asked.ask;
        let id = |what: &str| format!("verify.ask.{}.{}.{what}", ask.gate, ask.occurrence);
        let is_later = |other: &StoredAsk| {
            other.asked.ask.gate == ask.gate && other.asked.ask.occurrence > ask.occurrence
        };
        let asked_anew = stored.iter().any(is_later);
        checks.push(Check::empty(&id("as_requested"), &requested(from, &requests, one, asked_anew)));
        if let Some(record) = from.record {
            checks.push(Check::empty(&id("as_recorded"), &recorded(record, one)));
        }
        let mut wrong = Vec::new();
        for answer in &one.answers {
            wrong.extend(answered(from, answer, signature(answer)));
        }
        checks.push(Check::empty(&id("answers"), &wrong));
        checks.extend(enough(from.chain, from.evidence, one, &taken, from.brought));
    }
    checks.extend(asked_after_a_refusal(stored, from.evidence));
    checks
}

/// What was refused was asked anew only on a signed word: as many decisions on stops stand as refusals that
/// another request followed.
fn asked_after_a_refusal(stored: &[StoredAsk], evidence: &RunEvidence) -> Option<Check> {
    let place = |one: &StoredAsk| (one.asked.ask.gate, one.asked.ask.occurrence);
    let is_followed = |one: &StoredAsk| {
        let (gate, occurrence) = place(one);
        stored.iter().map(place).any(|(other, n)| other == gate && n > occurrence)
    };
    let refused = stored.iter().filter(|one| one.refusal().is_some() && is_followed(one)).count();
    let words = evidence.effects.iter().filter(|e| e.key.effect == EffectName::Sg3Review).count();
    let id = "verify.asks.after_refusal";
    let shown = format!("{refused} refusals that another request followed, {words} decisions on stops");
    (refused > 0).then(|| Check::new(id, "a signed word on the stop of each", shown, words >= refused))
}

/// The request document asks exactly this. What was asked anew before its request was filed has none.
fn requested(from: AskSources<'_>, requests: &[Asked], stored: &StoredAsk, asked_anew: bool) -> Vec<String> {
    let ask = &stored.asked.ask;
    let name = ask.request_path.rsplit('/').next();
    let owes = |record: &Sidecar| record.outbox.as_ref().map(|o| o.name.as_str()) == name;
    let Some((_, text)) = from.documents.iter().find(|(path, _)| *path == ask.request_path) else {
        // a run that died before it filed its request files it when it goes on
        let is_owed = from.record.is_some_and(owes);
        let was_filed = |record: &Sidecar| record.documents.iter().any(|d| d.path == ask.request_path);
        let never_filed = asked_anew && stored.answers.is_empty() && !from.record.is_some_and(was_filed);
        return if is_owed || never_filed {
            Vec::new()
        } else {
            alloc::vec![format!("{}: {ABSENT}", ask.request_path)]
        };
    };
    let mut wrong = Vec::new();
    let sha256 = Digest::of(text.as_bytes()).to_hex();
    let required = ask.required.get(field::REQUEST_SHA256).cloned().unwrap_or_default();
    let mut differs = |what: &str, stored: &str, said: &str| {
        if stored != said {
            wrong.push(format!("{what}: asked {stored:?}, the request says {said:?}"));
        }
    };
    differs(field::REQUEST_SHA256, &required, &sha256);
    let Some(said) = requests.iter().find(|asked| asked.ask.request_path == ask.request_path) else {
        wrong.push(format!("{}: it asks nothing of this run", ask.request_path));
        return wrong;
    };
    differs("at", &stored.asked.at.to_string(), &said.at);
    for (what, own, other) in [
        ("gate", ask.gate.as_str(), said.ask.gate.as_str()),
        ("approval_type", &ask.approval_type, &said.ask.approval_type),
        ("approval_path", &ask.approval_path, &said.ask.approval_path),
    ] {
        differs(what, own, other);
    }
    differs("occurrence", &ask.occurrence.to_string(), &said.ask.occurrence.to_string());
    let actor = |actor: &Option<String>| actor.clone().unwrap_or_default();
    differs("expected_actor", &actor(&ask.expected_actor), &actor(&said.ask.expected_actor));
    for (name, value) in ask.required.iter().filter(|(name, _)| *name != field::REQUEST_SHA256) {
        differs(name, value, said.ask.required.get(name).map_or("", String::as_str));
    }
    wrong
}

/// The record says the same of what it asked, and of each answer that it took.
fn recorded(record: &Sidecar, stored: &StoredAsk) -> Vec<String> {
    let ask = &stored.asked.ask;
    let mut wrong = Vec::new();
    let same = |a: &&ApprovalRecord| a.gate == ask.gate && a.occurrence == ask.occurrence;
    for taken in record.sovereign_approvals.iter().filter(same) {
        let mut differs = |what: &str, stored: &str, said: &str| {
            if stored != said {
                wrong.push(format!("{what}: stored {stored:?}, recorded {said:?}"));
            }
        };
        let required = |name: &str| ask.required.get(name).cloned().unwrap_or_default();
        differs(field::NONCE, &required(field::NONCE), &taken.nonce);
        let request = taken.request_sha256.map(|d| d.to_hex()).unwrap_or_default();
        differs(field::REQUEST_SHA256, &required(field::REQUEST_SHA256), &request);
        let answer = stored.answers.iter().map(|a| &a.answer).find(|a| Some(a.sha256()) == taken.sha256);
        match answer {
            None => wrong.push(format!("{}: {ABSENT} among its answers", taken.approval_kb_id)),
            Some(answer) => {
                differs("decision", answer.decision.as_str(), taken.decision.as_str());
                differs("fingerprint", &answer.fingerprint, &taken.fingerprint);
                differs("actor", &answer.actor, &taken.actor);
            }
        }
    }
    let open = record.ask.as_ref().filter(|a| (&a.gate, a.occurrence) == (&ask.gate, ask.occurrence));
    if open.is_some_and(|open| open != ask) {
        wrong.push("what is asked now is recorded otherwise".to_owned());
    }
    wrong
}

/// How many people had to approve an ask, by every policy from the ask until its consent was stored; `None`
/// where nothing relied on one, or nothing says when.
#[must_use]
pub fn needed(chain: &Chain, evidence: &RunEvidence, stored: &StoredAsk) -> Option<Result<u32, Foreign>> {
    let ask = &stored.asked.ask;
    let nonce = ask.required.get(field::NONCE).map_or("", String::as_str);
    let relied_on = |a: &&StoredApproval| a.nonce == nonce && a.used_by.is_some();
    let at = evidence.approvals.iter().find(relied_on)?.recorded_at?;
    Some(chain.needed_between(ask.required.get(field::POLICY_HEAD)?, at, ask.gate.as_str()))
}

/// What an ask's approval allowed was approved by as many people as the policy wanted. Whose approval
/// does not count is named, with why.
pub(super) fn enough(
    chain: &Chain,
    evidence: &RunEvidence,
    stored: &StoredAsk,
    taken: &Taken,
    brought: &[String],
) -> Option<Check> {
    let ask = &stored.asked.ask;
    let id = format!("verify.ask.{}.{}.enough", ask.gate, ask.occurrence);
    let needed = match needed(chain, evidence, stored)? {
        Ok(1) => return None,
        Ok(needed) => needed,
        Err(foreign) => {
            return Some(Check::new(&id, "the policy that the ask names", foreign.to_string(), false));
        }
    };
    let approved = stored.answers.iter().filter(|a| !a.late && a.answer.decision == ReviewVerdict::Approve);
    let (mut people, mut others) = (BTreeSet::new(), Vec::new());
    for answer in approved.map(|a| &a.answer) {
        let (actor, key) = (answer.actor.as_str(), normal_fingerprint(&answer.fingerprint));
        let is_brought = brought.is_empty() || brought.iter().any(|f| normal_fingerprint(f) == key);
        let stood = taken.at(&answer.sha256()).map(|at| chain.person_at(&answer.fingerprint, at));
        match stood {
            Some(Ok(person)) if person == actor && is_brought => {
                let _ = people.insert(actor);
            }
            Some(Ok(person)) if person == actor => {
                others.push(format!("{actor}: the key was not brought along"))
            }
            Some(Ok(person)) => others.push(format!("{actor}: the key is {person}'s")),
            Some(Err(wrong)) => others.push(format!("{actor}: {wrong}")),
            None => others.push(format!("{actor}: nothing says when it was recorded")),
        }
    }
    let are_enough = u32::try_from(people.len()).is_ok_and(|people| people >= needed);
    let mut shown = people.into_iter().collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        shown = format!("{shown}; not {}", others.join("; not "));
    }
    Some(Check::new(&id, format!("{needed} people who approve"), shown, are_enough))
}

/// A stored answer is signed by whom it names, and says what it is stored as.
fn answered(from: AskSources<'_>, stored: &StoredAnswer, signature: Option<SignatureFacts>) -> Vec<String> {
    let answer = &stored.answer;
    let sha256 = answer.sha256();
    let mut wrong = Vec::new();
    let signer = match signature {
        Some(SignatureFacts::Good { fingerprint, .. }) => fingerprint,
        Some(SignatureFacts::Unsigned { .. }) => String::new(),
        Some(SignatureFacts::Bad { code, .. }) => code,
        None => ABSENT.to_owned(),
    };
    if signer != answer.fingerprint {
        wrong.push(format!("{sha256}: stored as signed by {:?}, observed {signer:?}", answer.fingerprint));
    }
    let known = from.chain.now();
    let person = known.key(&answer.fingerprint).map(|key| key.person.as_str());
    if !answer.fingerprint.is_empty() && person != Some(answer.actor.as_str()) {
        let of = person.unwrap_or("nobody that the policy knows");
        wrong.push(format!("{sha256}: by {}, signed with the key of {of}", answer.actor));
    }
    // Whoever puts a copy elsewhere changes nothing; where it lay when it was heard it must lie still.
    let holds = |(_, text): &&(String, String)| Digest::of(text.as_bytes()) == sha256;
    let there = from.documents.iter().find(|(path, _)| *path == answer.approval_kb_id);
    if there.filter(holds).is_none() && from.documents.iter().any(|d| holds(&d)) {
        wrong.push(format!("{}: expected the answer {sha256} there", answer.approval_kb_id));
    }
    wrong
}
