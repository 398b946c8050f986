//! What the knowledge base holds of a run: its documents, and what they claim by themselves.

use std::collections::{BTreeMap, BTreeSet};

use cutter_core::base::digest::Digest;
use cutter_core::driver::signed_parts;
use cutter_core::gate::plain::{refuses_what_nobody_asked, speaks_of};
use cutter_core::machine::run::GateId;
use cutter_core::operate::inspect::Claims;
use cutter_core::operate::inspect::asked::{self, Asked};
use cutter_core::operate::inspect::verify::{
    self, ApprovalFact, Approvals, DocumentFact, Found, Taken, documents, one_document_per_phase,
};
use cutter_core::port::knowledge_base::Document;
use cutter_core::port::signer::SignatureVerifier as _;
use cutter_core::record::approval::{Ask, FORMAT, Purpose, field, parse_field};
use cutter_core::record::ask::StoredAsk;
use cutter_core::record::check::Check;
use cutter_core::record::effect::ReviewVerdict;
use cutter_core::record::evidence::RunEvidence;
use cutter_core::record::policy::Chain;
use cutter_core::record::sidecar::{ApprovalRecord, Sidecar};
use cutter_core::record::signature::SignatureFacts;
use cutter_core::report::naming::DocumentName;
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
pub(super) fn look(stores: &Stores, path: &str) -> Result<(Found, Option<Document>), Failure> {
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

/// What answers are judged by.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) ring: &'a KeyRing,
    pub(super) chain: &'a Chain,
    pub(super) keys: &'a Approvals,
    pub(super) rows: Option<Rows<'a>>,
}

/// What the database has of asks and answers.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) taken: &'a Taken,
    pub(super) evidence: &'a RunEvidence,
    pub(super) asks: &'a [StoredAsk],
}

impl Rows<'_> {
    /// Whether an answer was taken, and in time.
    fn counted(&self, sha256: &Digest) -> bool {
        let mut answers = self.asks.iter().flat_map(|ask| &ask.answers);
        self.taken.holds(sha256) && !answers.any(|a| a.late && a.answer.sha256() == *sha256)
    }

    /// How many people had to approve.
    fn needed(&self, chain: &Chain, record: &ApprovalRecord) -> u32 {
        let is_of = |ask: &&StoredAsk| {
            (&ask.asked.ask.gate, ask.asked.ask.occurrence) == (&record.gate, record.occurrence)
        };
        let ask = self.asks.iter().find(is_of);
        ask.and_then(|ask| verify::needed(chain, self.evidence, ask)).and_then(Result::ok).unwrap_or(1)
    }
}

/// The ask that a document answers, if it answers one: by its nonce, or, if it refuses with a nonce that is not among
/// those that the run asked, by gate and occurrence, or else the last one.
pub(super) fn answered<'a>(
    asks: &'a [Asked],
    nonces: &BTreeSet<String>,
    path: &str,
    text: &str,
) -> Option<&'a Ask> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if DocumentName::parse(name).is_ok_and(|(name, _)| name.is_orchestrators()) {
        return None;
    }
    let all = || asks.iter().map(|asked| &asked.ask);
    let named = |ask: &&Ask| {
        parse_field(text, "gate") == Some(ask.gate.as_str())
            && parse_field(text, "occurrence") == Some(ask.occurrence.to_string().as_str())
    };
    let unasked = || all().filter(|ask| refuses_what_nobody_asked(text, ask, nonces));
    all().find(|ask| speaks_of(text, ask)).or_else(|| unasked().find(named)).or_else(|| unasked().next_back())
}

/// The approvals that a run relied on, by its documents alone. Of the answers to one ask those speak that the
/// database took, or a report of the run names; of these the one that holds, with those beside it. Where
/// neither names one, what lies there is judged only if the run came past the gate: else nothing rests on it.
pub(super) fn given(
    claims: &mut Claims,
    from: Sources<'_>,
    texts: &[(String, String)],
    out: &mut Gathered,
) -> Result<Vec<ApprovalFact>, Failure> {
    let Sources { ring, chain, keys, rows } = from;
    let reported = reported(texts);
    let asks = asked::asks(texts, &claims.run_id);
    let mut given: BTreeMap<(GateId, u32, String), Vec<ApprovalFact>> = BTreeMap::new();
    for (path, text) in texts {
        // A refusal opens no gate, and is no claim to have opened one.
        let approves = text.lines().any(|line| line.trim_end() == "decision: approve");
        let Some(ask) = answered(&asks, &asked::nonces(&asks), path, text).filter(|_| approves) else {
            continue;
        };
        // what nothing dates is judged as of now; that it might have been otherwise then is said
        let at = rows.and_then(|rows| rows.taken.at(&Digest::of(text.as_bytes())));
        let signature = observed(ring, chain, text.as_bytes(), at.unwrap_or_else(wire::now))?;
        let record = approval_record(ask, path, text, &signature);
        let (found, request) = (record.sha256.into(), record.request_sha256);
        let fact = ApprovalFact { found, request, place: 0, signature: Some(signature), record };
        given.entry((ask.gate, ask.occurrence, ask.approval_type.clone())).or_default().push(fact);
    }
    let no_evidence = RunEvidence::default();
    let evidence = rows.map_or(&no_evidence, |rows| rows.evidence);
    let mut relied_on = Vec::new();
    for ((gate, occurrence, kind), facts) in given {
        let all = facts.clone();
        let is_it = |fact: &ApprovalFact| match rows {
            Some(rows) => fact.record.sha256.is_some_and(|sha256| rows.counted(&sha256)),
            None => reported.contains(&fact.record.approval_kb_id),
        };
        let (named, others): (Vec<_>, Vec<_>) = facts.into_iter().partition(is_it);
        let is_stop = gate == GateId::FailureEscalation;
        let opened = claims.has_opened(evidence, gate) && (!is_stop || kind == Purpose::Void.as_str());
        // of a gate that was asked anew the last request's answers opened it
        let last = asks.iter().filter(|asked| asked.ask.gate == gate && asked.ask.approval_type == kind);
        let is_last = last.map(|asked| asked.ask.occurrence).max().is_none_or(|last| last <= occurrence);
        let facts = match (named.is_empty(), opened && (is_stop || is_last)) {
            (false, _) => named,
            (true, true) => others,
            (true, false) => {
                for fact in others.iter().filter(|_| rows.is_none()) {
                    out.open(
                        &fact.record.approval_kb_id,
                        "an answer, and nothing here says that the run relied on it",
                        "a login that reads, or the run's folder",
                    );
                }
                continue;
            }
        };
        if rows.is_none() {
            enough(&format!("verify.ask.{gate}.{occurrence}.enough"), claims, &all, keys, out);
        }
        let stored = |sha256: &Digest| evidence.approvals.iter().any(|a| a.sha256 == *sha256);
        let consent = facts.iter().find(|fact| fact.record.sha256.as_ref().is_some_and(stored));
        let needed = consent.and_then(|fact| Some(rows?.needed(chain, &fact.record))).unwrap_or(1);
        match verify::given_beside(facts.clone(), &stored, needed) {
            Some(all) => relied_on.extend(all),
            None => relied_on.extend(verify::best(claims, facts, keys)),
        }
    }
    for stored in evidence.approvals.iter().filter(|stored| stored.decision.allows()) {
        if !relied_on.iter().any(|fact| fact.record.sha256 == Some(stored.sha256)) {
            out.open(
                &format!("verify.approval of {}", stored.approval_kb_id),
                "the database holds this answer, and the document that asked for it is not here, or the answer is not",
                "the run's folder",
            );
        }
    }
    let consents = relied_on.iter().filter(|fact| fact.place == 0);
    claims.approvals = consents.map(|fact| fact.record.clone()).collect();
    Ok(relied_on)
}

/// Where the signed answers say that several people must approve, and no row tells who did: the people whose
/// signatures lie there.
fn enough(id: &str, claims: &Claims, facts: &[ApprovalFact], keys: &Approvals, out: &mut Gathered) {
    let text = |fact: &ApprovalFact| match &fact.signature {
        Some(SignatureFacts::Good { text, .. } | SignatureFacts::Unsigned { text }) => text.clone(),
        _ => String::new(),
    };
    let said = |fact| parse_field(&text(fact), field::APPROVALS_NEEDED)?.parse().ok();
    let said = facts.iter().filter_map(said);
    let Some(needed) = said.max().filter(|needed: &usize| *needed > 1) else { return };
    if !keys.has_keys {
        let command = format!("cutter verify --run-id {} --approver FILE", claims.run_id);
        return out.open(id, "several people must approve, and no approver's key is here", command);
    }
    let is_signed = |fact: &&ApprovalFact| matches!(fact.signature, Some(SignatureFacts::Good { .. }));
    let is_brought =
        |fact: &&ApprovalFact| keys.brought.is_empty() || keys.brought.contains(&fact.record.fingerprint);
    let people = facts.iter().filter(is_signed).filter(is_brought).map(|fact| fact.record.actor.as_str());
    let people: BTreeSet<&str> = people.collect();
    let shown = people.iter().copied().collect::<Vec<_>>().join(", ");
    let expected = format!("{needed} people who approve");
    out.checks.push(Check::new(id, expected, shown, people.len() >= needed));
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
        gate: ask.gate,
        requested_utc: wire::now(),
        approval_kb_id: path.to_owned(),
        review_decision_id: None,
        validated_utc: wire::now(),
        sha256: Some(Digest::of(text.as_bytes())),
        actor: actor.trim_end().to_owned(),
        fingerprint,
        decision: ReviewVerdict::Approve,
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
    paths: &[String],
    asks: &[StoredAsk],
    signed: &BTreeSet<Digest>,
    out: &mut Gathered,
) -> Result<(), Failure> {
    let mut facts = Vec::new();
    for (path, recorded) in &claims.documents {
        let (found, _) = look(stores, path)?;
        facts.push(DocumentFact { path: path.clone(), recorded: *recorded, found });
    }
    out.checks.extend(documents(&facts));
    let Some(sidecar) = sidecar else {
        unnamed(stores, claims, paths, asks, signed, out)?;
        return Ok(());
    };
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

/// The requests and reports that signed answers among these documents name by sha256, whether or not anything rests
/// on the answer.
pub(super) fn signed_for(
    ring: &KeyRing,
    chain: &Chain,
    texts: &[(String, String)],
) -> Result<BTreeSet<Digest>, Failure> {
    let mut named = BTreeSet::new();
    for (_, text) in texts.iter().filter(|(_, text)| text.contains(FORMAT)) {
        if let SignatureFacts::Good { text, .. } = observed(ring, chain, text.as_bytes(), wire::now())? {
            named.extend(
                parse_field(&text, field::REQUEST_SHA256).and_then(|said| said.parse::<Digest>().ok()),
            );
        }
    }
    Ok(named)
}

/// Documents of the run that nothing which is here names by sha256: the last ones, which no later document
/// lists and nobody answered.
fn unnamed(
    stores: &Stores,
    claims: &Claims,
    paths: &[String],
    asks: &[StoredAsk],
    signed: &BTreeSet<Digest>,
    out: &mut Gathered,
) -> Result<(), Failure> {
    let is_named = |path: &String| {
        claims.documents.iter().any(|(named, _)| named == path)
            || asks.iter().any(|ask| ask.asked.ask.request_path == *path)
    };
    for path in paths.iter().filter(|path| !is_named(path)) {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !DocumentName::parse(name).is_ok_and(|(name, _)| name.is_orchestrators()) {
            continue;
        }
        if !look(stores, path)?.1.is_some_and(|document| signed.contains(&document.sha256)) {
            out.open(
                &format!("verify.document.{name}"),
                "nothing that is here, stored or signed, names its sha256",
                "the run's folder",
            );
        }
    }
    Ok(())
}

/// Whose signature a document carries: by the keys that the policy keeps, else by those that are here.
pub(crate) fn observed(
    ring: &KeyRing,
    chain: &Chain,
    bytes: &[u8],
    at: Timestamp,
) -> Result<SignatureFacts, Failure> {
    Ok(match block_on(ring.observe_with(bytes, &chain.public_keys(), at))? {
        SignatureFacts::Bad { code, .. } if code == "unknown_key" => block_on(ring.observe(bytes, at))?,
        facts => facts,
    })
}

/// What somebody's key signed in a document: the whole of it, or its parts where it is no whole signed text.
pub(crate) fn words(ring: &KeyRing, chain: &Chain, bytes: &[u8]) -> Result<Vec<SignatureFacts>, Failure> {
    Ok(match observed(ring, chain, bytes, wire::now())? {
        SignatureFacts::Bad { .. } => block_on(signed_parts(ring, chain, bytes))?,
        whole => vec![whole],
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
    let each = claims.approvals.iter().flat_map(|record| record.each().zip(0..));
    for (record, place) in each {
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
                let mut filed = claims.documents.iter().chain(&claims.reports);
                let found = filed.find(|(_, digest)| digest == wanted);
                match found {
                    Some((path, _)) => look(stores, path)?.1.map(|d| d.sha256),
                    None => Some(*wanted).filter(|_| claims.creator.is_none()),
                }
            }
            None => None,
        };
        facts.push(ApprovalFact { record, place, found, signature, request });
    }
    Ok(facts)
}
