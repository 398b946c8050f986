//! What the knowledge base holds of a run: its documents, and what they claim by themselves.

use std::collections::{BTreeMap, BTreeSet};

use cutter_core::approval::{ApprovalPolicy, Ask, FORMAT, field};
use cutter_core::digest::Digest;
use cutter_core::id::RunId;
use cutter_core::inspect::Claims;
use cutter_core::inspect::asked;
use cutter_core::inspect::verify::{
    self, ApprovalFact, Approvals, DocumentFact, Found, Taken, documents, one_document_per_phase,
};
use cutter_core::naming::DocumentName;
use cutter_core::policy::Chain;
use cutter_core::port::knowledge_base::Document;
use cutter_core::port::signer::{SignatureFacts, SignatureVerifier as _};
use cutter_core::sidecar::{ApprovalRecord, Sidecar};
use cutter_kb::ports::KeyRing;
use futures_executor::block_on;
use jiff::Timestamp;

use super::gather::Gathered;
use crate::failure::Failure;
use crate::wire::{self, Stores};

/// The documents in a run's folder, with their texts. What is too long to be a document, or cannot be
/// read as one, says nothing: anybody can put it there.
pub(super) fn texts(stores: &Stores, paths: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut texts = Vec::new();
    for path in paths {
        match block_on(stores.kb.read(path)) {
            Ok(Some(document)) => {
                texts.push((path.clone(), String::from_utf8_lossy(&document.bytes).into_owned()));
            }
            Ok(None) => {}
            Err(error) if error.kind.is_junk() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(texts)
}

/// A document under the name that was recorded. One that cannot be read is a finding, not the end.
fn look(stores: &Stores, path: &str) -> Result<(Found, Option<Document>), Failure> {
    match block_on(stores.kb.read(path)) {
        Ok(found) => Ok((found.as_ref().map(|d| d.sha256).into(), found)),
        Err(error) if error.kind.is_junk() => Ok((Found::Unreadable(error.to_string()), None)),
        Err(error) => Err(error.into()),
    }
}

/// Documents of any name that answer something: people call theirs as they like.
pub(super) fn answers(texts: &[(String, String)], claims: &Claims) -> Vec<String> {
    let is_answer = |(path, text): &&(String, String)| {
        claims.approvals.iter().any(|a| a.approval_kb_id == *path)
            || text.lines().any(|line| line == format!("format: {FORMAT}"))
    };
    texts.iter().filter(is_answer).map(|(path, _)| path.clone()).collect()
}

/// What answers are judged by where the record is not here.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) ring: &'a KeyRing,
    pub(super) chain: &'a Chain,
    pub(super) keys: &'a Approvals,
    pub(super) taken: Option<&'a Taken>,
}

/// What a run claims by its documents alone. Of the answers to one ask those speak that the database took,
/// or a report of the run names; of these the one that holds.
pub(super) fn claims(
    policy: ApprovalPolicy,
    from: Sources<'_>,
    run_id: &RunId,
    texts: &[(String, String)],
) -> Result<(Claims, Vec<ApprovalFact>), Failure> {
    let Sources { ring, chain, keys, taken } = from;
    let reported = reported(texts);
    let asks = asked::asks(texts, run_id);
    let mut given: BTreeMap<(String, u32, String), Vec<ApprovalFact>> = BTreeMap::new();
    for (path, text) in texts {
        let name = path.rsplit('/').next().unwrap_or(path);
        if DocumentName::parse(name).is_ok_and(|(name, _)| name.is_orchestrators()) {
            continue;
        }
        let lines = || text.lines().map(str::trim_end);
        let answers = |ask: &&Ask| {
            let nonce = ask.required.get(field::NONCE);
            nonce.is_some_and(|nonce| lines().any(|line| line == format!("nonce: {nonce}")))
        };
        // A refusal opens no gate, and is no claim to have opened one.
        let approves = lines().any(|line| line == "decision: approve");
        let Some(ask) = asks.iter().map(|a| &a.ask).find(answers).filter(|_| approves) else { continue };
        // what nothing dates is judged as of now; that it might have been otherwise then is said
        let at = taken.and_then(|taken| taken.at(&Digest::of(text.as_bytes())));
        let signature = observed(ring, chain, text.as_bytes(), at.unwrap_or_else(wire::now))?;
        let record = approval_record(ask, path, text, &signature);
        let (found, request) = (record.sha256.into(), record.request_sha256);
        let fact = ApprovalFact { found, request, signature: Some(signature), record };
        given.entry((ask.gate.clone(), ask.occurrence, ask.approval_type.clone())).or_default().push(fact);
    }
    let mut claims = Claims::of_documents(run_id, texts, policy, Vec::new());
    let relied_on = |facts: Vec<ApprovalFact>| {
        let is_it = |fact: &ApprovalFact| match taken {
            Some(taken) => fact.record.sha256.is_some_and(|sha256| taken.holds(&sha256)),
            None => reported.contains(&fact.record.approval_kb_id),
        };
        let (named, others): (Vec<_>, Vec<_>) = facts.into_iter().partition(is_it);
        if named.is_empty() { others } else { named }
    };
    let best: Vec<ApprovalFact> =
        given.into_values().filter_map(|facts| verify::best(&claims, relied_on(facts), keys)).collect();
    claims.approvals = best.iter().map(|fact| fact.record.clone()).collect();
    Ok((claims, best))
}

/// The answers that the run's own reports say they stored.
fn reported(texts: &[(String, String)]) -> BTreeSet<String> {
    let is_own = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        DocumentName::parse(name).is_ok_and(|(name, _)| name.is_orchestrators())
    };
    let own = texts.iter().filter(|(path, _)| is_own(path));
    let lines = own.flat_map(|(_, text)| text.lines());
    let named = lines.filter_map(|line| line.split_once("stored the approval ").map(|(_, path)| path));
    // a report escapes what Markdown would read
    named.map(|path| path.replace(['\\', '`'], "").trim().to_owned()).collect()
}

fn approval_record(ask: &Ask, path: &str, text: &str, signature: &SignatureFacts) -> ApprovalRecord {
    let (covered, fingerprint) = match signature {
        SignatureFacts::Good { text, fingerprint, .. } => (text.as_str(), fingerprint.clone()),
        SignatureFacts::Unsigned { text } => (text.as_str(), String::new()),
        SignatureFacts::Bad { .. } => (text, "a good signature, by a key that is here".to_owned()),
    };
    let actor = covered.lines().find_map(|line| line.strip_prefix("actor: ")).unwrap_or_default();
    ApprovalRecord {
        gate: ask.gate.clone(),
        requested_utc: wire::now(),
        approval_kb_id: path.to_owned(),
        review_decision_id: None,
        validated_utc: wire::now(),
        sha256: Some(Digest::of(text.as_bytes())),
        actor: actor.trim_end().to_owned(),
        fingerprint,
        decision: "approve".to_owned(),
        occurrence: ask.occurrence,
        expires_utc: None,
        request_sha256: ask.required.get(field::REQUEST_SHA256).and_then(|t| t.parse().ok()),
        nonce: ask.required.get(field::NONCE).cloned().unwrap_or_default(),
        beside: Vec::new(),
    }
}

/// The filed documents, and the reports of stops.
pub(super) fn filed(
    stores: &Stores,
    claims: &Claims,
    sidecar: Option<&Sidecar>,
    out: &mut Gathered,
) -> Result<(), Failure> {
    let mut facts = Vec::new();
    for (path, recorded) in &claims.documents {
        let (found, _) = look(stores, path)?;
        facts.push(DocumentFact { path: path.clone(), recorded: *recorded, found });
    }
    out.checks.extend(documents(&facts));
    let Some(sidecar) = sidecar else { return Ok(()) };
    out.checks.extend(one_document_per_phase(sidecar));
    let mut stops = Vec::new();
    for stop in &sidecar.stops {
        let path = format!("{}/{}", sidecar.kb_folder.as_deref().unwrap_or_default(), stop.name);
        let found = if stop.uploaded.is_some() { look(stores, &path)?.0 } else { Found::Absent };
        stops.push((stop.clone(), found));
    }
    out.checks.extend(verify::stops(&stops));
    Ok(())
}

/// Whose signature a document carries: by the keys that are here, else by those that the policy keeps.
pub(super) fn observed(
    ring: &KeyRing,
    chain: &Chain,
    bytes: &[u8],
    at: Timestamp,
) -> Result<SignatureFacts, Failure> {
    Ok(match block_on(ring.observe(bytes, at))? {
        SignatureFacts::Bad { code, .. } if code == "unknown_key" => {
            block_on(ring.observe_with(bytes, &chain.public_keys(), at))?
        }
        facts => facts,
    })
}

/// The approvals of a record, read again, their signatures judged as of the time at which the
/// database took them; where it does not say, as of their acceptance.
pub(super) fn approvals(
    stores: &Stores,
    ring: &KeyRing,
    chain: &Chain,
    taken: Option<&Taken>,
    claims: &Claims,
) -> Result<Vec<ApprovalFact>, Failure> {
    let mut facts = Vec::new();
    for record in &claims.approvals {
        let (found, document) = look(stores, &record.approval_kb_id)?;
        let signature = match &document {
            Some(document) => {
                let dated = taken.and_then(|taken| taken.at(&document.sha256));
                let (bytes, at) = (&document.bytes, dated.unwrap_or(record.validated_utc));
                Some(observed(ring, chain, bytes, at)?)
            }
            None => None,
        };
        let request = match &record.request_sha256 {
            Some(wanted) => {
                let found = claims.documents.iter().find(|(_, digest)| digest == wanted);
                match found {
                    Some((path, _)) => look(stores, path)?.1.map(|d| d.sha256),
                    None => Some(*wanted).filter(|_| claims.creator.is_none()),
                }
            }
            None => None,
        };
        facts.push(ApprovalFact { record: record.clone(), found, signature, request });
    }
    Ok(facts)
}
