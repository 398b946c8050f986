//! Does the evidence agree? Every statement that a run's record makes is compared with
//! what the knowledge base, the database and the signatures say themselves.
//!
//! Whoever checks reads ([`RecordFacts`], [`DocumentFact`], [`DatabaseFacts`], …); the
//! functions here judge. A fact that was not there fails its check; a source that was not
//! asked gives no checks, and [`LIMITS`] says what no check can show.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

mod answer;
mod approvals;
mod asked;
mod closing;
mod database;
mod found;
mod rows;
mod standing;
mod statement;
mod world;

pub use answer::{Answer, Judged, NotChecked, Verification};
pub use approvals::{Allowed, Approvals, allowed, approvals, best, given_beside};
pub use asked::{AskSources, answers_filed, asks, needed};
pub use closing::{closing, reports_pass};
pub use database::{database, rows_signed};
pub use found::Found;
pub use rows::rows;
pub use standing::{Taken, consumed_standing, standing};
pub use statement::{StatementFacts, one_statement, statement};
pub use world::{
    no_strays, phase_documents, reached_by_documents, reached_by_evidence, record_is_newest, versions_agree,
};

use super::claims::Claims;
use crate::base::canonical;
use crate::base::digest::Digest;
use crate::machine::run::{RunState, Stage};
use crate::record::check::{ABSENT, Check};
use crate::record::evidence::{RunEvidence, RunRows};
use crate::record::observed::UnitRow;
use crate::record::pin;
use crate::record::sidecar::{ApprovalRecord, Mode, PhaseResult, Sidecar, StopRecord, TransitionRecord};
use crate::record::signature::SignatureFacts;

/// What no check can show.
pub const LIMITS: &[&str] = &[
    "A hash chain shows that its records fit each other. Whoever can write every record, the \
     knowledge base and the database can write another history that fits itself as well: keep the \
     last hash of the chain and the runs index somewhere outside (a letter, a time stamp, another \
     organisation) to anchor it.",
    "A signature shows that a key was used, not who used it, and its date is the signer's own clock.",
    "Public keys are taken as they are from the policy in the database, and where that cannot be read \
     from the configuration: compare fingerprints by voice.",
];

/// The record, as it was read.
#[derive(Debug, Clone)]
pub struct RecordFacts {
    /// The newest revision.
    pub sidecar: Sidecar,
    /// Its number in the store.
    pub revision: u64,
    /// The transitions of each older revision that could be read, oldest first, by number.
    pub history: Vec<(u64, Vec<TransitionRecord>)>,
    /// Older revisions that could not be read, with why.
    pub unreadable: Vec<(u64, String)>,
    /// The signature of the creation record.
    pub creation: SignatureFacts,
}

/// A document, as the record and the knowledge base know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFact {
    /// Its path.
    pub path: String,
    /// sha256 in the record.
    pub recorded: Digest,
    /// Its newest revision.
    pub found: Found,
}

/// An approval, as it was read again.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalFact {
    /// What the run recorded.
    pub record: ApprovalRecord,
    /// Of several that were needed: 0 for the one that was stored as the consent, then 1, 2, …
    pub place: u32,
    /// The document now.
    pub found: Found,
    /// Its signature, checked as of the time at which the run accepted it.
    pub signature: Option<SignatureFacts>,
    /// sha256 of the request document that it answers, if that is there.
    pub request: Option<Digest>,
}

/// What the database holds.
#[derive(Debug, Clone)]
pub struct DatabaseFacts {
    /// Governance rows.
    pub evidence: RunEvidence,
    /// The run's live units with their texts, in order.
    pub units: Vec<UnitRow>,
    /// The bytes of the source version, if the run pinned one.
    pub source: Option<Vec<u8>>,
    /// The configured public keys of executor and verifier, hex.
    pub public_keys: BTreeMap<String, String>,
    /// Its rows, all columns, if the database gives them.
    pub rows: Option<RunRows>,
    /// The digest of its units' rows as they are stored now.
    pub rows_digest: Option<Digest>,
}

/// Checks the record against itself and its signature.
#[must_use]
pub fn record(facts: &RecordFacts) -> Vec<Check> {
    let sidecar = &facts.sidecar;
    let mut checks = Vec::new();
    checks.push(Check::truth("verify.record.digest_and_chain", sidecar.check_rules().is_ok()));
    checks.push(Check::equal("verify.record.revision", &facts.revision, &sidecar.revision));
    checks.push(legal_transitions(sidecar));
    checks.push(history_grows(facts));
    checks.push(Check::empty(
        "verify.record.revisions_readable",
        &facts.unreadable.iter().map(|(n, why)| format!("{n}: {why}")).collect::<Vec<_>>(),
    ));
    creation(facts, &mut checks);
    checks
}

/// Each transition is one that the machine allows.
fn legal_transitions(sidecar: &Sidecar) -> Check {
    let mut state: Option<RunState> = None;
    let mut wrong = Vec::new();
    for (i, record) in sidecar.transitions.iter().enumerate() {
        let kept = state.as_ref().and_then(RunState::stage);
        let Ok(to) = RunState::parse(&record.to, kept) else {
            wrong.push(format!("{i}: {} is no state", record.to));
            break;
        };
        let is_legal = match &state {
            None => to == RunState::NEW,
            Some(from) => {
                let family = |prefix: &str| record.to.starts_with(prefix);
                from.legal().iter().any(|legal| match legal.split_once('<') {
                    Some((prefix, _)) => family(prefix),
                    None => *legal == record.to,
                }) || *from == to
            }
        };
        if !is_legal {
            wrong.push(format!("{i}: {} -> {}", record.from, record.to));
        }
        state = Some(to);
    }
    Check::empty("verify.record.transitions_legal", &wrong)
}

/// A later revision may add transitions, never change one.
fn history_grows(facts: &RecordFacts) -> Check {
    let newest = (facts.revision, facts.sidecar.transitions.to_vec());
    let all: Vec<&(u64, Vec<TransitionRecord>)> =
        facts.history.iter().chain(core::iter::once(&newest)).collect();
    let mut wrong = Vec::new();
    for pair in all.windows(2) {
        if let [(older, before), (newer, after)] = pair
            && !after.starts_with(before)
        {
            wrong.push(format!("revision {newer} does not continue revision {older}"));
        }
    }
    Check::empty("verify.record.history_only_grows", &wrong)
}

/// The operator's signed record of what was created (D31).
fn creation(facts: &RecordFacts, checks: &mut Vec<Check>) {
    let sidecar = &facts.sidecar;
    let (fingerprint, text) = match &facts.creation {
        SignatureFacts::Good { fingerprint, text, .. } => (fingerprint.clone(), text.clone()),
        SignatureFacts::Unsigned { .. } => ("unsigned".to_owned(), String::new()),
        SignatureFacts::Bad { code, detail } => (format!("{code}: {detail}"), String::new()),
    };
    checks.push(Check::equal("verify.creation.signature", &sidecar.creation.fingerprint, &fingerprint));
    let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let settings = canonical::digest_of(&sidecar.settings).map(|d| d.to_hex()).unwrap_or_default();
    let mode = match sidecar.mode {
        Mode::Dryrun => "dryrun",
        Mode::Live => "live",
    };
    for (name, expected) in [
        ("run_id", sidecar.run_id.to_string()),
        ("document_id", sidecar.document_id.clone()),
        ("mode", mode.to_owned()),
        ("created_by", sidecar.created_by.clone()),
        ("created_utc", sidecar.created_utc.to_string()),
        ("settings_sha256", settings),
    ] {
        let observed = fields.get(name).map(|v| (*v).to_owned());
        checks.push(Check::equal_some(&format!("verify.creation.{name}"), &expected, observed.as_ref()));
    }
}

/// Checks the filed documents.
#[must_use]
pub fn documents(documents: &[DocumentFact]) -> Vec<Check> {
    let judge = |d: &DocumentFact| {
        let name = d.path.rsplit('/').next().unwrap_or(&d.path);
        d.found.check(&format!("verify.document.{name}"), &d.recorded)
    };
    documents.iter().map(judge).collect()
}

/// Every phase that the record calls passed has filed its document, or owes it still.
#[must_use]
pub fn one_document_per_phase(sidecar: &Sidecar) -> Vec<Check> {
    if sidecar.mode != Mode::Live {
        return Vec::new();
    }
    let mut missing = Vec::new();
    for (name, record) in &sidecar.phases {
        let owed = sidecar.outbox.is_some();
        if record.result == PhaseResult::Passed && record.kb_doc_id.is_none() && !owed {
            missing.push(name.clone());
        }
    }
    alloc::vec![Check::empty("verify.documents.one_per_passed_phase", &missing)]
}

/// Checks the reports of stops.
#[must_use]
pub fn stops(stops: &[(StopRecord, Found)]) -> Vec<Check> {
    let judge = |(stop, found): &(StopRecord, Found)| {
        let recorded = stop.uploaded?;
        Some(found.check(&format!("verify.document.{}", stop.name), &recorded))
    };
    stops.iter().filter_map(judge).collect()
}

/// Checks the line in the runs index.
#[must_use]
pub fn index(claims: &Claims, line: Option<&str>) -> Vec<Check> {
    if claims.stage != Some(Stage::CloseoutReported) {
        return Vec::new();
    }
    let (expected, observed) = (claims.pin(pin::INDEX_LINE), line.unwrap_or(ABSENT));
    // a report shows the beginning of a long value; the whole of it is in the record
    let ok = match expected.strip_suffix('…') {
        Some(beginning) => observed.starts_with(beginning),
        None => observed == expected,
    };
    alloc::vec![Check::new("verify.index.line", &expected, observed, ok && !expected.is_empty())]
}
