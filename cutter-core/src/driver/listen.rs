//! Listening: every document that may answer is looked at, and a refusal outweighs any approval.
//!
//! Names of documents order nothing, and a document that cannot be read, or is no answer, blocks
//! nobody: it is recorded with the first reason. The same is done again while the transaction that
//! relies on an answer is open, so a refusal counts until that commits (PROTOCOL §2).

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;

use super::parts::verdict_on_document;
use super::run::{Halt, Run};
use super::{DriveError, policy};
use crate::base::digest::Digest;
use crate::gate::authorization::AuthorizationFacts;
use crate::gate::plain::{self, NotTaken};
use crate::gate::verified::VerifiedApproval;
use crate::machine::run::GateId;
use crate::port::environment::Progress;
use crate::port::knowledge_base::Document;
use crate::record::approval::{Ask, field};
use crate::record::ask::AnswerWrite;
use crate::record::check::GateReport;
use crate::record::effect::ReviewVerdict;
use crate::record::policy::Chain;
use crate::record::sidecar::{AlsoApproved, Considered, StopRecord};
use crate::record::signature::SignatureFacts;

/// Documents that were not accepted are kept with the run, the first ones, at most so many.
const CONSIDERED_MAX: usize = 20;

/// A valid answer.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) path: String,
    pub(super) sha256: Digest,
    pub(super) ask: Ask,
    pub(super) approval: VerifiedApproval,
    document: String,
}

impl Answer {
    pub(super) fn to_write(&self) -> AnswerWrite {
        AnswerWrite {
            gate: self.ask.gate,
            occurrence: self.ask.occurrence,
            decision: self.approval.decision(),
            approval_kb_id: self.path.clone(),
            document: self.document.clone(),
            fingerprint: self.approval.fingerprint().unwrap_or_default().to_owned(),
            actor: self.approval.actor().to_owned(),
        }
    }

    fn beside(&self) -> AlsoApproved {
        AlsoApproved {
            actor: self.approval.actor().to_owned(),
            fingerprint: self.approval.fingerprint().unwrap_or_default().to_owned(),
            approval_kb_id: self.path.clone(),
            sha256: self.sha256,
        }
    }

    fn rank(&self) -> (u8, jiff::Timestamp, Digest) {
        rank(&self.approval, self.sha256)
    }
}

/// Where a document that is judged came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// The knowledge base: it must be unused and unedited.
    Filed,
    /// A stored decision: it was used by being stored.
    Stored,
}

/// What was heard at a gate.
#[derive(Default)]
pub(super) struct Heard {
    /// Valid answers; the first one counts.
    pub(super) valid: Vec<Answer>,
    /// What was looked at and not accepted.
    pub(super) invalid: Vec<Considered>,
    /// Of these a signed word of which nobody can say what it decides: nothing is relied on beside it.
    pub(super) unclear: Option<Considered>,
    /// How many different people must approve.
    needed: u32,
    /// Who must be among them.
    expected: Option<String>,
}

/// A gate where several people must approve, and some have not yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TooFew {
    /// How many must.
    pub needed: u32,
    /// Who has, by name.
    pub approved_by: Vec<String>,
    /// Who must be among them, and is not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl TooFew {
    /// Whether the people who approved, each by a signature, are too few. Where one is enough, the gate's own checks say
    /// whether that one is there.
    #[must_use]
    pub(crate) fn of<'a>(
        needed: u32,
        expected: Option<&String>,
        approved_by: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        let people: BTreeSet<&str> = approved_by.into_iter().collect();
        let missing = expected.filter(|expected| !people.contains(expected.as_str())).cloned();
        let enough = u32::try_from(people.len()).unwrap_or(u32::MAX) >= needed && missing.is_none();
        (needed > 1 && !enough).then(|| Self {
            needed,
            approved_by: people.into_iter().map(ToOwned::to_owned).collect(),
            missing,
        })
    }
}

impl core::fmt::Display for TooFew {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let by = if self.approved_by.is_empty() { "nobody".to_owned() } else { self.approved_by.join(", ") };
        write!(f, "{} people must approve here; approved by {by}", self.needed)?;
        self.missing.as_ref().map_or(Ok(()), |missing| write!(f, "; {missing} must be among them"))
    }
}

impl Heard {
    /// The refusal that counts, if there is one.
    pub(super) fn refusal(&self) -> Option<&Answer> {
        self.valid.first().filter(|answer| !answer.approval.allows())
    }

    /// What is missing, where nobody refused and several must approve. The person whose approval is being
    /// spent counts, though it was used by that.
    pub(super) fn too_few(&self, spent: Option<&str>) -> Option<TooFew> {
        let counts = |a: &&Answer| a.approval.allows() && a.approval.fingerprint().is_some();
        let approved_by = self.valid.iter().filter(counts).map(|a| a.approval.actor());
        TooFew::of(self.needed, self.expected.as_ref(), approved_by.chain(spent))
            .filter(|_| self.refusal().is_none())
    }

    /// The approvals that were given beside the one that the consent is made of.
    pub(super) fn beside(&self, consent: &Answer) -> Vec<AlsoApproved> {
        if self.needed == 1 {
            return Vec::new();
        }
        let mut people = BTreeSet::from([consent.approval.actor()]);
        let others = self.valid.iter().filter(|a| a.approval.allows() && people.insert(a.approval.actor()));
        others.map(Answer::beside).collect()
    }
}

impl Run<'_> {
    /// Looks at every document that may answer, and records what was not accepted. An approval that
    /// the operator named must be valid, and counts before other approvals; no refusal is passed over
    /// for it.
    pub(super) async fn search(&mut self, asks: &[Ask], prefix: &str) -> Result<Heard, Halt> {
        let named = self.explicit_approval.take();
        let mut heard = self.listen(asks, prefix).await?;
        if let Some(path) = &named {
            self.name_first(path, asks, &mut heard).await?;
        }
        self.remember(&heard.invalid).await?;
        Ok(heard)
    }

    async fn name_first(&mut self, path: &str, asks: &[Ask], heard: &mut Heard) -> Result<(), Halt> {
        let found = self.ports.kb.read(path).await.map_err(|e| self.halt(e))?;
        let Some(document) = found else {
            return Err(Halt::Abort(Box::new(DriveError::NotNow(format!(
                "approval {path}: expected a document in the knowledge base, observed none"
            )))));
        };
        let chain = self.chain().await?;
        let nonces = self.nonces().await?;
        let answer = match self.consider(path, &document, asks, (&chain, &nonces), Judged::Filed).await? {
            Ok(answer) => answer,
            Err(NotTaken { report, .. }) => {
                self.remember(&[considered(path, document.sha256, &report)]).await?;
                let (path, report) = (path.to_owned(), Box::new(report));
                return Err(Halt::Abort(Box::new(DriveError::ApprovalInvalid { path, report })));
            }
        };
        heard.valid.retain(|other| other.sha256 != answer.sha256);
        let place = match answer.approval.allows() {
            true => heard.valid.partition_point(|other| !other.approval.allows()),
            false => heard.valid.partition_point(|other| other.rank() < answer.rank()),
        };
        heard.valid.insert(place, answer);
        expected_first(&mut heard.valid, heard.expected.as_deref(), |answer| &answer.approval);
        Ok(())
    }

    /// Looks at every document that may answer one of the asks, and at the answers that are stored.
    /// Nothing is written.
    pub(super) async fn listen(&self, asks: &[Ask], prefix: &str) -> Result<Heard, Halt> {
        let (chain, nonces) = (self.chain().await?, self.nonces().await?);
        let needed = asks.iter().map(|ask| policy::allowed(&chain, ask).needed).max().unwrap_or(1);
        let expected = asks.first().and_then(|ask| ask.expected_actor.clone());
        let mut heard = Heard { needed, expected, ..Heard::default() };
        let (mut seen, mut not_taken, mut places) = (BTreeSet::new(), Vec::new(), Vec::new());
        for path in self.beside(asks).await? {
            let is_named = is_called(&path, prefix);
            if !is_named && !self.may_refuse(&path) {
                continue;
            }
            let document = match self.ports.kb.read(&path).await {
                Ok(Some(document)) if is_named || may_answer(&document.bytes, asks, &nonces) => document,
                Ok(_) => continue,
                Err(error) if error.kind.is_junk() => {
                    heard.invalid.extend(is_named.then(|| unreadable(&path, &error.to_string())));
                    continue;
                }
                Err(error) => return Err(self.halt(error)),
            };
            match self.consider(&path, &document, asks, (&chain, &nonces), Judged::Filed).await? {
                Ok(answer) if (is_named || !answer.approval.allows()) && seen.insert(answer.sha256) => {
                    heard.valid.push(answer);
                }
                Err(not) if is_named || plain::is_unclear(&not.report) => {
                    heard.invalid.push(considered(&path, document.sha256, &not.report));
                    places.push(heard.invalid.len() - 1);
                    not_taken.push(not);
                }
                _ => {}
            }
        }
        for stored in self.stored_asks().await? {
            for answer in stored.answers.into_iter().filter(|a| !a.late).map(|a| a.answer) {
                // A document that was heard once counts, although it is gone from the knowledge base.
                let refuses = answer.decision != ReviewVerdict::Approve;
                let sha256 = answer.sha256();
                if !refuses || !seen.insert(sha256) {
                    continue;
                }
                let document = Document { bytes: answer.document.into_bytes(), revision: 1, sha256 };
                let path = &answer.approval_kb_id;
                let known = (&chain, &nonces);
                if let Ok(answer) = self.consider(path, &document, asks, known, Judged::Filed).await? {
                    heard.valid.push(answer);
                }
            }
        }
        let holds =
            |not: &NotTaken| not.holds(asks, &not_taken, heard.valid.iter().map(|answer| &answer.approval));
        let held_by = not_taken.iter().zip(&places).find(|(not, _)| holds(not));
        heard.unclear = held_by.and_then(|(_, place)| heard.invalid.get(*place)).cloned();
        heard.valid.sort_by_key(Answer::rank);
        expected_first(&mut heard.valid, heard.expected.as_deref(), |answer| &answer.approval);
        Ok(heard)
    }

    /// The documents that may answer by their names: those beside what asked.
    pub(super) async fn candidates(&self, asks: &[Ask], prefix: &str) -> Result<Vec<String>, Halt> {
        let mut paths = self.beside(asks).await?;
        paths.retain(|path| is_called(path, prefix));
        Ok(paths)
    }

    async fn beside(&self, asks: &[Ask]) -> Result<Vec<String>, Halt> {
        let own = asks.first().and_then(|ask| Some(ask.request_path.rsplit_once('/')?.0));
        let Some(folder) = own.or(self.sidecar.kb_folder.as_deref()) else { return Ok(Vec::new()) };
        self.ports.kb.list(folder).await.map_err(|e| self.halt(e))
    }

    /// A document that is not called like an answer may refuse all the same. Under the names of the run's own ones
    /// none does: they are compared before an approval is spent.
    fn may_refuse(&self, path: &str) -> bool {
        let is_report = |stop: &StopRecord| path.rsplit('/').next() == Some(stop.name.as_str());
        !self.sidecar.documents.iter().any(|own| own.path == path)
            && !self.sidecar.stops.iter().any(is_report)
    }

    /// Nonces of all that the run ever asked.
    pub(super) async fn nonces(&self) -> Result<BTreeSet<String>, Halt> {
        let stored = self.stored_asks().await?;
        let stored = stored.iter().map(|stored| &stored.asked.ask).chain(&self.sidecar.ask);
        let stored = stored.filter_map(|ask| ask.required.get(field::NONCE).cloned());
        let answered = self.sidecar.sovereign_approvals.iter().map(|answer| answer.nonce.clone());
        let stops = self.sidecar.stops.iter().map(|stop| stop.nonce.clone());
        Ok(stored.chain(answered).chain(stops).collect())
    }

    /// Judges one document against what may be answered, by the policy, and by the nonces of what was asked.
    pub(super) async fn consider(
        &self,
        path: &str,
        document: &Document,
        asks: &[Ask],
        (chain, nonces): (&Chain, &BTreeSet<String>),
        judged: Judged,
    ) -> Result<Result<Answer, NotTaken>, Halt> {
        let now = self.judged_at().await?;
        let signature =
            match policy::observe(self.ports.signatures.as_ref(), chain, &document.bytes, now).await {
                Ok(signature) => signature,
                Err(error) if error.kind.is_junk() => {
                    SignatureFacts::Bad { code: "unreadable".to_owned(), detail: error.to_string() }
                }
                Err(error) => return Err(self.halt(error)),
            };
        let report = GateReport { gate: GateId::FailureEscalation, checks: Vec::new() };
        let mut refusal = NotTaken { report, signature: signature.clone() };
        for ask in asks {
            let facts = AuthorizationFacts {
                ask: ask.clone(),
                signature: signature.clone(),
                policy: policy::allowed(chain, ask),
                now,
                requested_at: self.requested_at(ask),
                creator_fingerprint: self.sidecar.creation.fingerprint.clone(),
                creator_actor: self.sidecar.created_by.clone(),
                used_before: judged == Judged::Filed
                    && self.sidecar.sovereign_approvals.iter().any(|a| a.sha256 == Some(document.sha256)),
                edited_after_validation: judged == Judged::Filed
                    && self
                        .sidecar
                        .sovereign_approvals
                        .iter()
                        .any(|a| a.approval_kb_id == path && a.sha256 != Some(document.sha256)),
                request_sha256_live: self.live_request(&ask.request_path).await?.map(|found| found.sha256),
                asked: nonces.clone(),
            };
            let signatures = self.ports.signatures.as_ref();
            let verdict = verdict_on_document(signatures, chain, &document.bytes, facts).await;
            match verdict.map_err(|e| self.halt(e))? {
                Ok(approval) => {
                    let gate = ask.gate;
                    let mut own = if approval.allows() { self.own_checks(gate) } else { Vec::new() };
                    own.retain(|check| !check.ok);
                    if !own.is_empty() {
                        refusal.report = GateReport { gate, checks: own };
                        continue;
                    }
                    return Ok(Ok(Answer {
                        path: path.to_owned(),
                        sha256: document.sha256,
                        ask: ask.clone(),
                        approval,
                        document: String::from_utf8_lossy(&document.bytes).into_owned(),
                    }));
                }
                Err(not) => {
                    let is_first = refusal.report.checks.is_empty();
                    let fewer = is_first || not.report.failures().len() < refusal.report.failures().len();
                    if plain::is_unclear(&not.report) || fewer && !plain::is_unclear(&refusal.report) {
                        refusal = not;
                    }
                }
            }
        }
        Ok(Err(refusal))
    }

    /// By the database's clock: whoever drives the run sets their own.
    pub(super) async fn judged_at(&self) -> Result<jiff::Timestamp, Halt> {
        match self.fence {
            Some(_) => self.ports.reader.now().await.map_err(|e| self.halt(e)),
            None => Ok(self.ports.clock.now()),
        }
    }

    /// When an ask was fixed: a gate's with its intent, a stop's with the stop.
    fn requested_at(&self, ask: &Ask) -> Option<jiff::Timestamp> {
        if ask.gate == GateId::FailureEscalation {
            return self.sidecar.stops.iter().find(|s| s.n == ask.occurrence).map(|s| s.at);
        }
        let asking = self.sidecar.intent.as_ref().filter(|i| i.name == ask.gate.as_str()).map(|i| i.at);
        // once its phase runs, the answer that it took says when it was asked
        asking.or_else(|| self.decided(ask).map(|answer| answer.requested_utc))
    }

    /// A request as it stands now, if it can be read.
    pub(super) async fn live_request(&self, path: &str) -> Result<Option<Document>, Halt> {
        match self.ports.kb.read(path).await {
            Ok(found) => Ok(found),
            Err(error) if error.kind.is_junk() => Ok(None),
            Err(error) => Err(self.halt(error)),
        }
    }

    /// Names documents that were not accepted, where the run goes on beside them or stays stopped.
    pub(super) fn tell(&self, invalid: &[Considered]) {
        for one in invalid {
            self.ports.observer.progress(&Progress::NotAccepted {
                kb_doc_id: one.approval_kb_id.clone(),
                why: format!("{}: {}", one.invariant, one.detail),
            });
        }
    }

    /// Records documents that were not accepted; the same one is recorded once.
    pub(super) async fn remember(&mut self, invalid: &[Considered]) -> Result<(), Halt> {
        let known = self.sidecar.considered.len();
        for considered in invalid {
            let is_new = !self.sidecar.considered.contains(considered);
            if is_new && self.sidecar.considered.len() < CONSIDERED_MAX {
                self.sidecar.considered.push(considered.clone());
            }
        }
        if self.sidecar.considered.len() == known { Ok(()) } else { self.persist().await }
    }
}

/// Puts the approval of who is expected before other people's; refusals stay before all.
pub(crate) fn expected_first<T>(
    valid: &mut [T],
    expected: Option<&str>,
    approval: impl Fn(&T) -> &VerifiedApproval,
) {
    let Some(expected) = expected else { return };
    valid.sort_by_key(|one| {
        let approval = approval(one);
        (approval.allows(), approval.allows() && approval.actor() != expected)
    });
}

/// What counts most comes first: no, not now, yes; then which was signed first. Of equal ones the bytes
/// decide, never the name.
pub(crate) fn rank(approval: &VerifiedApproval, sha256: Digest) -> (u8, jiff::Timestamp, Digest) {
    let weight = match approval.decision() {
        ReviewVerdict::Reject => 0,
        ReviewVerdict::Defer => 1,
        ReviewVerdict::Approve => 2,
    };
    (weight, approval.signed_at(), sha256)
}

/// Whether a document is called like an answer.
pub(crate) fn is_called(path: &str, prefix: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(prefix))
}

/// Whether a document may be meant as an answer, by what it says. A refusal counts under any name; an approval does
/// not.
pub(crate) fn may_answer(document: &[u8], asks: &[Ask], nonces: &BTreeSet<String>) -> bool {
    let text = String::from_utf8_lossy(document);
    let may =
        |ask: &Ask| plain::speaks_of(&text, ask) || plain::refuses_what_nobody_asked(&text, ask, nonces);
    asks.iter().any(may)
}

/// How the file name of a document begins that may answer at this gate (spec 2 §2).
#[must_use]
pub const fn approval_prefix(gate: GateId) -> &'static str {
    match gate {
        GateId::CutAuthz => "SG1-cut-authz-approval",
        GateId::FailureEscalation => "SG3-",
        _ => "SG2-lifecycle-authz-approval",
    }
}

fn unreadable(path: &str, detail: &str) -> Considered {
    Considered {
        approval_kb_id: path.to_owned(),
        sha256: Digest::of(b""),
        invariant: "approval.readable".to_owned(),
        detail: detail.chars().take(300).collect(),
    }
}

fn considered(path: &str, sha256: Digest, report: &GateReport) -> Considered {
    let first = report.failures().into_iter().next().cloned();
    let (invariant, detail) = first.map_or_else(
        || ("approval.decision".to_owned(), String::new()),
        |c| (c.invariant, format!("expected {}, observed {}", c.expected, c.observed)),
    );
    Considered {
        approval_kb_id: path.to_owned(),
        sha256,
        invariant,
        detail: detail.chars().take(300).collect::<String>().to_string(),
    }
}
