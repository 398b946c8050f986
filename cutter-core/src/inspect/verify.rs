//! Does the evidence agree? Every statement that a run's record makes is compared with
//! what the knowledge base, the database and the signatures say themselves.
//!
//! Whoever checks reads ([`RecordFacts`], [`DocumentFact`], [`DatabaseFacts`], …); the
//! functions here judge. A fact that was not there fails its check; a source that was not
//! asked gives no checks, and [`LIMITS`] says what no check can show.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::claims::Claims;
use crate::attestation;
use crate::canonical;
use crate::digest::Digest;
use crate::gate::{ABSENT, Check};
use crate::machine::run::{Phase, RunState, Stage};
use crate::plan::set_digest;
use crate::port::database::{RunEvidence, UnitRow};
use crate::port::effect::{EffectName, Verdict};
use crate::port::signer::SignatureFacts;
use crate::sidecar::{ApprovalRecord, Mode, PhaseResult, Sidecar, StopRecord, TransitionRecord};

/// What no check can show.
pub const LIMITS: &[&str] = &[
    "A hash chain shows that its records fit each other. Whoever can write every record, the \
     knowledge base and the database can write another history that fits itself as well: keep the \
     last hash of the chain and the runs index somewhere outside (a letter, a time stamp, another \
     organisation) to anchor it.",
    "A signature shows that a key was used, not who used it, and its date is the signer's own clock.",
    "Public keys are taken from the configuration as they are: compare fingerprints by voice.",
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
    /// sha256 of its newest revision, if it is there.
    pub found: Option<Digest>,
}

/// An approval, as it was read again.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalFact {
    /// What the run recorded.
    pub record: ApprovalRecord,
    /// sha256 of the document now, if it is there.
    pub found: Option<Digest>,
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
        Check::equal_some(&format!("verify.document.{name}"), &d.recorded, d.found.as_ref())
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
pub fn stops(stops: &[(StopRecord, Option<Digest>)]) -> Vec<Check> {
    let judge = |(stop, found): &(StopRecord, Option<Digest>)| {
        let recorded = stop.uploaded?;
        Some(Check::equal_some(&format!("verify.document.{}", stop.name), &recorded, found.as_ref()))
    };
    stops.iter().filter_map(judge).collect()
}

/// Checks the approvals: genuine, unedited, by a person whom the run's settings name, for
/// the request that stands there, and each used once.
#[must_use]
pub fn approvals(claims: &Claims, approvals: &[ApprovalFact]) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut seen = BTreeSet::new();
    let mut twice = Vec::new();
    for fact in approvals {
        let record = &fact.record;
        let id = |what: &str| format!("verify.approval.{}.{}.{what}", record.gate, record.occurrence);
        match &record.sha256 {
            Some(sha256) => {
                checks.push(Check::equal_some(&id("unedited"), sha256, fact.found.as_ref()));
                if !seen.insert(*sha256) {
                    twice.push(record.approval_kb_id.clone());
                }
            }
            None => checks.push(Check::truth(&id("unedited"), false)),
        }
        let unsigned = record.fingerprint.is_empty();
        let (signer, text) = match &fact.signature {
            Some(SignatureFacts::Good { fingerprint, text, .. }) => (fingerprint.clone(), Some(text)),
            Some(SignatureFacts::Unsigned { text }) if unsigned => (String::new(), Some(text)),
            Some(SignatureFacts::Unsigned { .. }) => ("unsigned".to_owned(), None),
            Some(SignatureFacts::Bad { code, .. }) => (code.clone(), None),
            None => (ABSENT.to_owned(), None),
        };
        checks.push(Check::equal(&id("signature"), &record.fingerprint, &signer));
        if !unsigned {
            let actors = claims.policy.actors_of(&record.fingerprint);
            let pinned = actors.contains(&record.actor.as_str());
            checks.push(Check::new(&id("signer_pinned"), &record.actor, actors.join(", "), pinned));
            if let Some(creator) = claims.creator.as_ref().filter(|_| claims.policy.approver_not_creator) {
                checks.push(Check::truth(&id("not_the_creator"), record.fingerprint != *creator));
            }
        }
        let field = |key: &str| {
            let prefix = format!("{key}: ");
            let line = text.and_then(|t| t.lines().find_map(|l| l.strip_prefix(&prefix)));
            line.map(|value| value.trim().to_owned())
        };
        for (name, expected) in [
            ("decision", record.decision.clone()),
            ("run_id", claims.run_id.to_string()),
            ("document_id", claims.document_id.clone()),
            ("gate", record.gate.clone()),
            ("actor", record.actor.clone()),
        ] {
            checks.push(Check::equal_some(&id(name), &expected, field(name).as_ref()));
        }
        if let Some(request) = &record.request_sha256 {
            checks.push(Check::equal_some(&id("request_unedited"), request, fact.request.as_ref()));
            let named = field("request_sha256");
            checks.push(Check::equal_some(&id("request_sha256"), &request.to_hex(), named.as_ref()));
        }
    }
    checks.push(Check::empty("verify.approvals.each_used_once", &twice));
    checks
}

/// Checks the line in the runs index.
#[must_use]
pub fn index(claims: &Claims, line: Option<&str>) -> Vec<Check> {
    if claims.stage != Some(Stage::CloseoutReported) {
        return Vec::new();
    }
    let (expected, observed) = (claims.pin("index_line"), line.unwrap_or(ABSENT));
    // a report shows the beginning of a long value; the whole of it is in the record
    let ok = match expected.strip_suffix('…') {
        Some(beginning) => observed.starts_with(beginning),
        None => observed == expected,
    };
    alloc::vec![Check::new("verify.index.line", &expected, observed, ok && !expected.is_empty())]
}

/// The effects that a passed phase must have left in the database.
const fn effects_of(phase: Phase) -> &'static [EffectName] {
    use EffectName as E;
    match phase {
        Phase::Mark => &[E::Mark, E::Sweep],
        Phase::CutLegA => &[E::Sg1Review, E::LegA],
        Phase::LegBRecord => &[E::LegB],
        Phase::WriteVerify => &[E::WriteVerify],
        Phase::LifecycleEnact => &[E::Sg2Request, E::Sg2Review, E::Enact],
        _ => &[],
    }
}

/// Checks the database's rows.
#[must_use]
pub fn database(claims: &Claims, facts: &DatabaseFacts) -> Vec<Check> {
    let mut checks = Vec::new();
    for phase in claims.passed.iter().copied() {
        for effect in effects_of(phase) {
            let found = facts.evidence.effects.iter().rev().find(|e| e.key.effect == *effect);
            let observed = found.map_or(ABSENT, |e| match e.verdict {
                Verdict::Commit => "commit",
                Verdict::CommitFailure => "commit_failure",
                Verdict::Rollback => "rollback",
            });
            checks.push(Check::new(
                &format!("verify.effect.{effect}"),
                "commit",
                observed,
                observed == "commit",
            ));
        }
    }
    stored_approvals(claims, &facts.evidence, &mut checks);
    signatures(claims, facts, &mut checks);
    source(claims, facts, &mut checks);
    checks.push(Check::equal("verify.change_set.voided", &has_void_row(claims), &facts.evidence.voided));
    // voided units are live no more, and another run may have cut the version since
    if claims.has_passed(Phase::CutLegA) && !claims.voided {
        units(claims, facts, &mut checks);
    }
    if claims.has_passed(Phase::WriteVerify) {
        let results: Vec<String> =
            facts.evidence.verify_results.iter().map(|(id, ok)| format!("{id} {ok}")).collect();
        let expected = claims.pin("verify_result_id");
        checks.push(Check::equal(
            "verify.verify_result.once_and_passed",
            &format!("{expected} true"),
            &results.join(", "),
        ));
    }
    if claims.is_enacted() {
        let (expected, status) = ("verified_complete".to_owned(), facts.evidence.entry_status.clone());
        checks.push(Check::equal_some("verify.backlog.status", &expected, status.as_ref()));
        let mut broken = Vec::new();
        for pair in facts.evidence.history.windows(2) {
            if let [(_, to), (from, _)] = pair
                && to != from
            {
                broken.push(format!("{to} then {from}"));
            }
        }
        checks.push(Check::empty("verify.backlog.history_whole", &broken));
    }
    checks
}

/// A void leaves a row only where there is a change set to void.
fn has_void_row(claims: &Claims) -> bool {
    claims.voided && claims.has_passed(Phase::CutLegA)
}

fn stored_approvals(claims: &Claims, evidence: &RunEvidence, checks: &mut Vec<Check>) {
    for record in &claims.approvals {
        let Some(sha256) = &record.sha256 else { continue };
        let stored = evidence.approvals.iter().find(|a| a.sha256 == *sha256);
        if stored.is_none() && !claims.must_be_stored(evidence, &record.gate, record.occurrence) {
            continue;
        }
        let id = format!("verify.approval.{}.{}.stored", record.gate, record.occurrence);
        let observed = stored.map(|a| a.fingerprint.clone());
        checks.push(Check::equal_some(&id, &record.fingerprint, observed.as_ref()));
    }
}

/// Executor and verifier signed; the verifier's payload covers the executor's signature.
fn signatures(claims: &Claims, facts: &DatabaseFacts, checks: &mut Vec<Check>) {
    let stored = &facts.evidence.signatures;
    for signature in stored {
        let id = format!("verify.signature.{}.genuine", signature.duty);
        checks.push(Check::truth(
            &id,
            attestation::verify(&signature.public_key, &signature.payload, &signature.signature).is_ok(),
        ));
        if let Some(key) = facts.public_keys.get(&signature.duty) {
            let id = format!("verify.signature.{}.key_pinned", signature.duty);
            checks.push(Check::equal(&id, key, &signature.public_key));
        }
    }
    for (phase, pin, duty) in [
        (Phase::CutLegA, "executor_signature_id", "executor"),
        (Phase::WriteVerify, "verifier_signature_id", "verifier"),
    ] {
        if claims.has_passed(phase) {
            let expected = claims.pin(pin);
            let found: Vec<String> =
                stored.iter().filter(|s| s.duty == duty).map(|s| s.signature_id.to_string()).collect();
            let id = format!("verify.signature.{duty}.recorded");
            checks.push(Check::new(&id, &expected, found.join(", "), found.contains(&expected)));
        }
    }
    let by = |duty: &str| stored.iter().find(|s| s.duty == duty);
    if let (Some(executor), Some(verifier)) = (by("executor"), by("verifier")) {
        let covers = verifier.payload.contains(&executor.signature);
        checks.push(Check::truth("verify.signature.verifier_covers_executor", covers));
        let differ = executor.public_key != verifier.public_key;
        checks.push(Check::truth("verify.signature.keys_differ", differ));
    }
}

fn pin_usize(claims: &Claims, name: &str) -> Option<usize> {
    claims.pins.get(name)?.parse().ok()
}

fn source(claims: &Claims, facts: &DatabaseFacts, checks: &mut Vec<Check>) {
    let Some(expected) = claims.pins.get("source_sha256") else { return };
    let text = facts.source.as_deref();
    let observed = text.map(|t| Digest::of(t).to_hex());
    checks.push(Check::equal_some("verify.source.sha256", expected, observed.as_ref()));
    let span = (pin_usize(claims, "region_start"), pin_usize(claims, "region_end"));
    if let ((Some(start), Some(end)), Some(region_sha)) = (span, claims.pins.get("region_sha")) {
        let observed = text.and_then(|t| t.get(start..end)).map(|r| Digest::of(r).to_hex());
        checks.push(Check::equal_some("verify.source.region_sha", region_sha, observed.as_ref()));
    }
}

/// The units, put together in order, are the region, byte for byte.
fn units(claims: &Claims, facts: &DatabaseFacts, checks: &mut Vec<Check>) {
    let units = &facts.units;
    let text = |name: &str| claims.pin(name);
    checks.push(Check::equal("verify.units.count", &text("candidate_count"), &units.len().to_string()));
    let mut joined = Vec::new();
    let (mut wrong, mut gaps, mut readable) = (Vec::new(), Vec::new(), true);
    let mut at = pin_usize(claims, "region_start").and_then(|n| u64::try_from(n).ok());
    for unit in units {
        match &unit.content {
            Some(content) => {
                joined.extend_from_slice(content);
                if Digest::of(content) != unit.content_hash {
                    wrong.push(unit.canonical_address.clone());
                }
            }
            None => readable = false,
        }
        if at.is_some_and(|at| at != unit.start) {
            gaps.push(format!("{} starts at {}", unit.canonical_address, unit.start));
        }
        at = Some(unit.end);
    }
    checks.push(Check::truth("verify.units.readable", readable));
    checks.push(Check::empty("verify.units.content_hash", &wrong));
    checks.push(Check::empty("verify.units.tile_the_region", &gaps));
    checks.push(Check::equal(
        "verify.units.rejoin_to_region",
        &text("region_sha"),
        &Digest::of(&joined).to_hex(),
    ));
    let set = set_digest(units.iter().map(|u| (u.canonical_address.as_str(), &u.content_hash)));
    checks.push(Check::equal("verify.units.set_digest", &text("unit_set_digest"), &set.to_hex()));
    let change_set = text("change_set_id");
    let foreign: Vec<&str> = units
        .iter()
        .filter(|u| u.change_set_id.to_string() != change_set)
        .map(|u| u.canonical_address.as_str())
        .collect();
    checks.push(Check::empty("verify.units.one_change_set", &foreign));
    let is_enacted = claims.is_enacted();
    let status = if is_enacted { "enacted" } else { "draft" };
    let other: Vec<String> = units
        .iter()
        .filter(|u| u.lifecycle_status != status)
        .map(|u| format!("{} {}", u.canonical_address, u.lifecycle_status))
        .collect();
    checks.push(Check::empty(&format!("verify.units.all_{status}"), &other));
    if is_enacted {
        let rows = facts.evidence.enacted_log_rows.to_string();
        checks.push(Check::equal("verify.units.enacted_log_rows", &text("candidate_count"), &rows));
    }
}
