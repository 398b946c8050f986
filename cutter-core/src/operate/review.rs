//! The review duty: people's decisions, stored by a host that holds no more than the reviewer's login.
//!
//! ```text
//!  the host that cuts              the database              the host that reviews
//!  asks ─────────────────────────▶ ask, what it began with
//!  files the request ─▶ knowledge base ◀─ the approver answers ─▶ judges the answer
//!                                  answer, decision ◀──────── stores it, under the ask's lock
//!  checks the decision's bytes ◀──
//! ```
//!
//! It believes neither the request document nor the host that wrote it: it judges an answer by the **ask's
//! row**, by the **policy in the database**, now and since the ask, by the creation statement that the run
//! was begun with, and by the **rows that it computes itself** from the stored text. It holds no run, no
//! key and no fence; whatever it does can be done again, at any time and by several at once. What follows
//! from a decision, a cut or a stop, is the driver's.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use jiff::{SignedDuration, Timestamp};

use crate::base::canonical;
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::driver::{
    TooFew, allowed, approval_prefix, creation_fault, creation_names, expected_first, founded_policy,
    is_called, observe, rank, report_of, said_once, verdict_on_document,
};
use crate::gate::authorization::AuthorizationFacts;
use crate::gate::plain::{self, NotTaken};
use crate::gate::plan_of::plan_of;
use crate::gate::verified::VerifiedApproval;
use crate::machine::backlog::BacklogState;
use crate::machine::run::GateId;
use crate::port::database::{Reader, Reviewer};
use crate::port::knowledge_base::{Document, KnowledgeBase};
use crate::port::signer::SignatureVerifier;
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::approval::field;
use crate::record::ask::{AnswerWrite, AskWrite, DecisionWrite, OpenAsk, RunBegun, StoredAsk};
use crate::record::effect::ReviewVerdict;
use crate::record::policy::Chain;
use crate::record::settings::RunSettings;
use crate::record::signature::SignatureFacts;
use crate::report::shows;

mod candidates;

/// A folder in which nothing changed is read again only so often: a document may have been edited.
const REREAD: u32 = 10;

/// An ask is looked for again for so long after its row was made: its transaction may commit later.
const COMMITS_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// What the duty needs of the world, and all that it has.
#[derive(Clone)]
pub struct ReviewPorts {
    /// Observes the database.
    pub reader: Arc<dyn Reader>,
    /// Stores answers and decisions.
    pub reviewer: Arc<dyn Reviewer>,
    /// Where requests and answers stand. Nothing is written there.
    pub kb: Arc<dyn KnowledgeBase>,
    /// People's signatures.
    pub signatures: Arc<dyn SignatureVerifier>,
}

/// What became of an ask that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Valid answers were stored.
    Answered(usize),
    /// A decision stands now, that of this document.
    Decided {
        /// What it decides.
        decision: ReviewVerdict,
        /// By whom.
        actor: String,
        /// Its document.
        approval_kb_id: String,
    },
    /// A document was looked at that decides nothing.
    Junk {
        /// Where it stands.
        path: String,
        /// What it does not hold.
        why: String,
    },
    /// What is asked is not what the stored text gives: nothing is stored for it.
    Unfit(String),
    /// It could not be looked at now; the next pass tries again.
    Missed(PortError),
}

/// One ask that a pass did something about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewed {
    /// The run.
    pub run_id: RunId,
    /// The gate that asked.
    pub gate: GateId,
    /// Its occurrence.
    pub occurrence: u32,
    /// What became of it.
    pub outcome: Outcome,
}

type AskKey = (RunId, GateId, u32);

/// One worker of the duty. What it remembers only saves work.
#[derive(Debug)]
pub struct Review {
    actor: String,
    passes: u32,
    since: Option<Timestamp>,
    /// Of each open ask the names of the documents that were looked at, and what was said of it.
    seen: BTreeMap<AskKey, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    names: Option<Digest>,
    told: Vec<Outcome>,
}

/// A valid answer.
struct Valid {
    write: AnswerWrite,
    approval: VerifiedApproval,
}

/// What an ask is judged by.
struct Basis {
    chain: Chain,
    created_by: String,
    fingerprint: String,
    nonces: BTreeSet<String>,
}

impl Review {
    /// Nothing seen yet. `actor` is who operates this host, by name.
    #[must_use]
    pub const fn new(actor: String) -> Self {
        Self { actor, passes: 0, since: None, seen: BTreeMap::new() }
    }

    /// One pass over the open asks: answers are stored, and decisions. Gives back what was done, and what
    /// was found for the first time.
    ///
    /// # Errors
    /// A port that does not answer, or a policy that does not hold: nothing can be looked at now. What was
    /// stored stays.
    pub async fn pass(&mut self, ports: &ReviewPorts) -> PortResult<Vec<Reviewed>> {
        self.passes = self.passes.wrapping_add(1);
        let now = ports.reader.now().await?;
        let open = ports.reader.open_asks(self.since).await?;
        self.seen.retain(|key, _| open.iter().any(|ask| key_of(ask) == *key));
        let mut reviewed = Vec::new();
        for ask in &open {
            if ask.decided.is_some_and(|d| d != ReviewVerdict::Approve) {
                continue;
            }
            let mut seen = self.seen.remove(&key_of(ask)).unwrap_or_default();
            let looked = self.look(ports, ask, &mut seen).await;
            let found = match looked {
                Ok(found) => found,
                Err(error) if is_away(&error) => return Err(error),
                Err(error) => {
                    seen.names = None;
                    alloc::vec![Outcome::Missed(error)]
                }
            };
            for outcome in found {
                let is_done = matches!(outcome, Outcome::Answered(_) | Outcome::Decided { .. });
                if !is_done && seen.told.contains(&outcome) {
                    continue;
                }
                if !is_done {
                    seen.told.push(outcome.clone());
                }
                let (run_id, gate, occurrence) = key_of(ask);
                reviewed.push(Reviewed { run_id, gate, occurrence, outcome });
            }
            self.seen.insert(key_of(ask), seen);
        }
        self.since = next_since(&open, now);
        Ok(reviewed)
    }

    async fn look(&self, ports: &ReviewPorts, open: &OpenAsk, seen: &mut Seen) -> PortResult<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let asks = ports.reader.asks(&open.run_id).await?;
        let is_it =
            |s: &StoredAsk| s.asked.ask.gate == open.gate && s.asked.ask.occurrence == open.occurrence;
        let nonces: BTreeSet<String> =
            asks.iter().map(|stored| required(&stored.asked, field::NONCE).to_owned()).collect();
        let Some(stored) = asks.into_iter().find(is_it) else { return Ok(outcomes) };
        let beside = candidates::beside(ports, &stored.asked.ask).await?;
        let names = Digest::of(beside.join("\n").as_bytes());
        let is_settled = seen.names == Some(names) && !self.passes.is_multiple_of(REREAD);
        let refused = stored.refusal().is_some();
        if is_settled && !refused {
            return Ok(outcomes);
        }
        seen.names = Some(names);
        let paths = candidates::candidates(ports, &stored.asked.ask, &nonces, beside).await?;
        if paths.is_empty() && stored.answers.is_empty() {
            return Ok(outcomes);
        }
        let basis = match basis_of(ports, open, &stored.asked).await? {
            Ok(basis) => Basis { nonces, ..basis },
            Err(why) => return Ok(alloc::vec![Outcome::Unfit(why)]),
        };
        let (mut valid, mut not_taken) = (Vec::new(), Vec::new());
        let is_named = |path: &str| is_called(path, approval_prefix(open.gate));
        for path in &paths {
            let document = match ports.kb.read(path).await {
                Ok(Some(document)) => document.bytes,
                Ok(None) => continue,
                Err(error) if error.kind.is_junk() => {
                    outcomes.push(Outcome::Junk { path: path.clone(), why: error.to_string() });
                    continue;
                }
                Err(error) => return Err(error),
            };
            match judge(ports, open, &stored.asked, &basis, path, document).await? {
                Ok(answer) if is_named(path) || !answer.approval.allows() => valid.push(answer),
                Err(not) if is_named(path) || plain::is_unclear(&not.report) => {
                    outcomes.push(Outcome::Junk { path: path.clone(), why: not.why() });
                    not_taken.push(not);
                }
                _ => {}
            }
        }
        for answer in stored.answers.iter().filter(|a| !a.late).map(|a| &a.answer) {
            // What was heard once counts, although it is gone from the knowledge base.
            let is_known = valid.iter().any(|v: &Valid| v.write.sha256() == answer.sha256());
            if answer.decision == ReviewVerdict::Approve || is_known {
                continue;
            }
            let document = answer.document.clone().into_bytes();
            let judged = judge(ports, open, &stored.asked, &basis, &answer.approval_kb_id, document).await?;
            valid.extend(judged.ok());
        }
        valid.sort_by_key(|v| rank(&v.approval, v.write.sha256()));
        let ask = &stored.asked.ask;
        expected_first(&mut valid, ask.expected_actor.as_deref(), |v| &v.approval);
        let needed = allowed(&basis.chain, ask).needed;
        let counts = |v: &&Valid| v.approval.allows() && v.approval.fingerprint().is_some();
        let approved_by = valid.iter().filter(counts).map(|v| v.approval.actor());
        let asks = core::slice::from_ref(ask);
        let holds = |not: &NotTaken| not.holds(asks, &not_taken, valid.iter().map(|v| &v.approval));
        let is_unclear = not_taken.iter().any(holds);
        let too_few = TooFew::of(needed, ask.expected_actor.as_ref(), approved_by).is_some();
        outcomes.extend(self.store(ports, open, &stored, &valid, too_few || is_unclear).await?);
        Ok(outcomes)
    }

    /// Stores the answers that are new, then the decision that counts, if it does not stand. An approval
    /// `waits` for others, or until a word beside it is plain.
    async fn store(
        &self,
        ports: &ReviewPorts,
        open: &OpenAsk,
        stored: &StoredAsk,
        valid: &[Valid],
        waits: bool,
    ) -> PortResult<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let is_stored = |v: &&Valid| stored.answers.iter().any(|a| a.answer.sha256() == v.write.sha256());
        let new: Vec<AnswerWrite> = valid.iter().filter(|v| !is_stored(v)).map(|v| v.write.clone()).collect();
        if !new.is_empty() {
            ports.reviewer.record_answers(&open.run_id, &new).await?;
            outcomes.push(Outcome::Answered(new.len()));
        }
        let Some(first) = valid.first() else { return Ok(outcomes) };
        if first.approval.allows() && (waits || open.decided.is_some()) {
            return Ok(outcomes);
        }
        // A decision is made of the answer's row: one that was stored with other columns decides nothing.
        let row = stored.answers.iter().map(|a| &a.answer).find(|a| a.sha256() == first.write.sha256());
        let answer = row.unwrap_or(&first.write);
        if *answer != (AnswerWrite { approval_kb_id: answer.approval_kb_id.clone(), ..first.write.clone() }) {
            let path = &first.write.approval_kb_id;
            outcomes.push(Outcome::Unfit(format!(
                "the answer {path} is stored with columns that it does not say"
            )));
            return Ok(outcomes);
        }
        let status = open.entry.as_ref().map_or("", |(_, status)| status.as_str());
        let is_cut = open.gate == GateId::CutAuthz;
        let moves = is_cut && !(first.approval.allows() && status == BacklogState::ReviewedApproved.as_str());
        let entry_id = open.entry.as_ref().map(|(id, _)| *id);
        let asked = &stored.asked;
        let write = asked.decision(answer, first.approval.expires(), entry_id, open.change_set_id, moves);
        let invalid =
            |why: String| PortError::new(Port::Database, "record_decision", PortErrorKind::Invalid, why);
        let write = write.ok_or_else(|| invalid("the ask chose no ids for a decision".to_owned()))?;
        let decision = DecisionWrite {
            gate: open.gate,
            occurrence: open.occurrence,
            sha256: write.sha256,
            payload_sha256: canonical::digest_of(&write).map_err(|e| invalid(e.to_string()))?,
            moves,
            actor: self.actor.clone(),
        };
        ports.reviewer.record_decision(&open.run_id, &decision).await?;
        outcomes.push(Outcome::Decided {
            decision: write.decision,
            actor: write.actor,
            approval_kb_id: write.approval_kb_id,
        });
        Ok(outcomes)
    }
}

/// From when on the next look asks, after one of `now` that found these: what was closed is never open
/// again, so its rows need not be read in every look.
pub(crate) fn next_since(open: &[OpenAsk], now: Timestamp) -> Option<Timestamp> {
    let least = open.iter().map(|ask| ask.recorded_at).min().unwrap_or(now);
    least.checked_sub(COMMITS_WITHIN).ok()
}

fn key_of(ask: &OpenAsk) -> AskKey {
    (ask.run_id.clone(), ask.gate, ask.occurrence)
}

/// Whether nothing can be looked at now, and not this one ask.
fn is_away(error: &PortError) -> bool {
    error.port == Port::Policy || matches!(error.kind, PortErrorKind::Unavailable | PortErrorKind::Deadline)
}

/// What an ask is judged by, if it is about what the stored text gives; the inner error says what is not.
async fn basis_of(
    ports: &ReviewPorts,
    open: &OpenAsk,
    asked: &AskWrite,
) -> PortResult<Result<Basis, String>> {
    let chain = founded_policy(ports.reader.as_ref(), ports.signatures.as_ref()).await?;
    let Some(begun) = &asked.begun else {
        return Ok(Err(format!(
            "run {} was asked about by an earlier program, which did not store what it was begun with; next, on the \
             host that cuts: cutter orchestrate resume --run-id {}",
            open.run_id, open.run_id
        )));
    };
    if let Err(why) = begun_as_asked(open, asked, begun) {
        return Ok(Err(why));
    }
    let creation = &begun.creation;
    let now = ports.reader.now().await?;
    let facts = observe(ports.signatures.as_ref(), &chain, creation.document.as_bytes(), now).await?;
    if let Some(fault) = creation_fault(&facts, &creation.fingerprint) {
        return Ok(Err(fault));
    }
    let created_by = said_once(&creation.document, "created_by").unwrap_or_default().to_owned();
    if let Err(why) = rows_as_asked(ports, open, asked, begun, &created_by, &chain).await? {
        return Ok(Err(why));
    }
    Ok(Ok(Basis { chain, created_by, fingerprint: creation.fingerprint.clone(), nonces: BTreeSet::new() }))
}

fn required<'a>(asked: &'a AskWrite, key: &str) -> &'a str {
    asked.ask.required.get(key).map_or("", String::as_str)
}

/// The settings and the creation statement are those of the run that asks.
fn begun_as_asked(open: &OpenAsk, asked: &AskWrite, begun: &RunBegun) -> Result<(), String> {
    let settings = Digest::of(begun.settings.as_bytes());
    for (key, observed) in
        [(field::SETTINGS_SHA256, settings.to_hex()), (field::RUN_ID, open.run_id.to_string())]
    {
        let expected = required(asked, key);
        if expected != observed {
            return Err(format!(
                "the ask's {key}: expected {observed}, which was stored, observed {expected}"
            ));
        }
    }
    if asked.policy_head.map(|head| head.to_hex()).as_deref() != Some(required(asked, field::POLICY_HEAD)) {
        return Err("the ask's policy_head: expected what was stored beside it, observed another".to_owned());
    }
    creation_names(&begun.creation.document, &open.run_id, required(asked, field::DOCUMENT_ID), &settings)
}

/// The plan is built again from the stored text, under the settings that the run was begun with; at SG_2
/// the digest of the stored rows is computed as well. Both must be what is asked about, and the request
/// must show that plan.
async fn rows_as_asked(
    ports: &ReviewPorts,
    open: &OpenAsk,
    asked: &AskWrite,
    begun: &RunBegun,
    created_by: &str,
    chain: &Chain,
) -> PortResult<Result<(), String>> {
    let settings: RunSettings = match serde_json::from_str(&begun.settings) {
        Ok(settings) => settings,
        Err(error) => return Ok(Err(format!("the settings do not read: {error}"))),
    };
    let version = required(asked, field::SOURCE_VERSION_ID).parse();
    let (Ok(version), Some(number)) = (version, open.version_no.and_then(|n| u64::try_from(n).ok())) else {
        return Ok(Err("the ask names no source version that is registered".to_owned()));
    };
    let text = ports.reader.source_text(version).await?;
    let vocabulary = ports.reader.vocabulary().await?;
    let plan = match plan_of(required(asked, field::DOCUMENT_ID), &text, &vocabulary, &settings) {
        Ok(plan) => plan,
        Err(why) => return Ok(Err(format!("the stored text gives no plan: {why}"))),
    };
    let mut computed = alloc::vec![
        (field::WRITER_DIGEST, plan.writer_digest.to_hex()),
        (field::MANIFEST_DIGEST, plan.manifest_digest.to_hex()),
        (field::REGION_SHA, plan.region.sha256.to_hex()),
        (field::ROWS_DIGEST, plan.rows_digest(number).to_hex()),
    ];
    if open.gate == GateId::LifecycleAuthz {
        let Some(set) = open.change_set_id else {
            return Ok(Err("the ask is about a change set that does not stand".to_owned()));
        };
        let stored = ports.reader.rows_digest(set).await?.map_or_else(String::new, |d| d.to_hex());
        computed.push((field::CHANGE_SET_ID, set.to_string()));
        computed.push((field::UNIT_COUNT, plan.rows.len().to_string()));
        computed.push((field::ROWS_DIGEST, stored));
    }
    for (key, observed) in computed {
        let expected = required(asked, key);
        if expected != observed {
            return Ok(Err(format!(
                "what is asked is not what the stored text and rows give: {key}: expected {expected}, as the ask \
                 names, observed {observed}"
            )));
        }
    }
    let is_it = |found: &Document| required(asked, field::REQUEST_SHA256) == found.sha256.to_hex();
    // another one is what the gate's own check names
    let Some(request) = candidates::live_request(ports, &asked.ask).await?.filter(is_it) else {
        return Ok(Ok(()));
    };
    let before = chain.until(required(asked, field::POLICY_HEAD)).unwrap_or_default();
    // what differs from the version before is nothing that the reviewer's login may read
    let report = report_of(&asked.ask, created_by, &settings, &plan, &before, None);
    Ok(shows(&String::from_utf8_lossy(&request.bytes), &report, false)
        .map_err(|differs| format!("the request shows something else than is asked: {differs}")))
}

/// Judges one document; the inner error says why it decides nothing.
async fn judge(
    ports: &ReviewPorts,
    open: &OpenAsk,
    asked: &AskWrite,
    basis: &Basis,
    path: &str,
    document: Vec<u8>,
) -> PortResult<Result<Valid, NotTaken>> {
    let now = ports.reader.now().await?;
    let chain = &basis.chain;
    let signature = match observe(ports.signatures.as_ref(), chain, &document, now).await {
        Ok(signature) => signature,
        Err(error) if error.kind.is_junk() => {
            SignatureFacts::Bad { code: "unreadable".to_owned(), detail: error.to_string() }
        }
        Err(error) => return Err(error),
    };
    let request = candidates::live_request(ports, &asked.ask).await?.map(|document| document.sha256);
    let facts = AuthorizationFacts {
        ask: asked.ask.clone(),
        signature,
        policy: allowed(chain, &asked.ask),
        now,
        // whichever clock is earlier: the host that asks cannot make its request younger
        requested_at: Some(asked.at.min(open.recorded_at)),
        creator_fingerprint: basis.fingerprint.clone(),
        creator_actor: basis.created_by.clone(),
        used_before: false,
        edited_after_validation: false,
        request_sha256_live: request,
        asked: basis.nonces.clone(),
    };
    let verdict = verdict_on_document(ports.signatures.as_ref(), chain, &document, facts).await?;
    let approval = match verdict {
        Ok(approval) => approval,
        Err(not) => return Ok(Err(not)),
    };
    let write = AnswerWrite {
        gate: asked.ask.gate,
        occurrence: asked.ask.occurrence,
        decision: approval.decision(),
        approval_kb_id: path.to_owned(),
        document: String::from_utf8_lossy(&document).into_owned(),
        fingerprint: approval.fingerprint().unwrap_or_default().to_owned(),
        actor: approval.actor().to_owned(),
    };
    Ok(Ok(Valid { write, approval }))
}
