//! What the database holds of a run, judged by what the run claims and by itself.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{ApprovalFact, DatabaseFacts, NotChecked, rows};
use crate::base::digest::Digest;
use crate::machine::run::{GateId, Phase};
use crate::operate::inspect::claims::Claims;
use crate::record::approval::named_rows;
use crate::record::attestation;
use crate::record::check::{ABSENT, Check};
use crate::record::effect::{EffectName, Verdict};
use crate::record::evidence::RunEvidence;
use crate::record::pin::{self, Pin};
use crate::record::signature::SignatureFacts;
use crate::text::plan::{set_digest, stored_writer_digest};

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
    if !claims.live {
        let names: Vec<String> = facts.evidence.effects.iter().map(|e| e.key.effect.to_string()).collect();
        return alloc::vec![Check::empty("verify.effect.none_of_a_dry_run", &names)];
    }
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
    if let Some(stored) = &facts.rows {
        checks.extend(rows(claims.run_id.as_str(), &facts.evidence, stored));
    }
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
        let expected = claims.pin(pin::VERIFY_RESULT_ID);
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
        if stored.is_none() && !claims.must_be_stored(evidence, record.gate, record.occurrence) {
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
        (Phase::CutLegA, pin::EXECUTOR_SIGNATURE_ID, "executor"),
        (Phase::WriteVerify, pin::VERIFIER_SIGNATURE_ID, "verifier"),
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

fn number(claims: &Claims, pin: Pin<usize>) -> Option<usize> {
    claims.pins.get(pin.name())?.parse().ok()
}

fn source(claims: &Claims, facts: &DatabaseFacts, checks: &mut Vec<Check>) {
    let Some(expected) = claims.pins.get(pin::SOURCE_SHA256.name()) else { return };
    let text = facts.source.as_deref();
    let observed = text.map(|t| Digest::of(t).to_hex());
    checks.push(Check::equal_some("verify.source.sha256", expected, observed.as_ref()));
    let span = (number(claims, pin::REGION_START), number(claims, pin::REGION_END));
    if let ((Some(start), Some(end)), Some(region_sha)) = (span, claims.pins.get(pin::REGION_SHA.name())) {
        let observed = text.and_then(|t| t.get(start..end)).map(|r| Digest::of(r).to_hex());
        checks.push(Check::equal_some("verify.source.region_sha", region_sha, observed.as_ref()));
    }
}

/// The units, put together in order, are the region, byte for byte.
fn units(claims: &Claims, facts: &DatabaseFacts, checks: &mut Vec<Check>) {
    let units = &facts.units;
    checks.push(Check::equal(
        "verify.units.count",
        &claims.pin(pin::CANDIDATE_COUNT),
        &units.len().to_string(),
    ));
    let mut joined = Vec::new();
    let (mut wrong, mut gaps, mut readable) = (Vec::new(), Vec::new(), true);
    let mut at = number(claims, pin::REGION_START).and_then(|n| u64::try_from(n).ok());
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
        &claims.pin(pin::REGION_SHA),
        &Digest::of(&joined).to_hex(),
    ));
    let stored = units.iter().map(|u| {
        (
            u.canonical_address.as_str(),
            u.unit_kind.as_str(),
            u.section_type.as_str(),
            &u.content_hash,
            &u.idempotency_key,
        )
    });
    let written = stored_writer_digest(stored);
    checks.push(Check::equal(
        "verify.units.writer_digest",
        &claims.pin(pin::WRITER_DIGEST),
        &written.to_hex(),
    ));
    let set = set_digest(units.iter().map(|u| (u.canonical_address.as_str(), &u.content_hash)));
    checks.push(Check::equal("verify.units.set_digest", &claims.pin(pin::UNIT_SET_DIGEST), &set.to_hex()));
    let change_set = claims.pin(pin::CHANGE_SET_ID);
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
        checks.push(Check::equal("verify.units.enacted_log_rows", &claims.pin(pin::CANDIDATE_COUNT), &rows));
    }
}

/// The rows as they are stored now are those that each signed answer at SG_1 and SG_2 names. Answers
/// from before rows were named name none: then there is nothing to compare with, and nothing that
/// would let it be compared.
#[must_use]
pub fn rows_signed(approvals: &[ApprovalFact], stored: Option<&Digest>) -> (Vec<Check>, Option<NotChecked>) {
    let consents =
        approvals.iter().filter(|a| a.record.decision.allows() && a.record.gate != GateId::FailureEscalation);
    let mut named: Vec<(String, Option<Digest>)> = Vec::new();
    for fact in consents {
        let text = match &fact.signature {
            Some(SignatureFacts::Good { text, .. } | SignatureFacts::Unsigned { text }) => Some(text),
            _ => None,
        };
        let Some(text) = text else { continue };
        let gate = fact.record.gate.as_str();
        let beside = format!("{gate}.beside.");
        if fact.place == 0 {
            // of a gate that was asked again the last answers count
            named.retain(|(name, _)| name != gate && !name.starts_with(&beside));
        }
        let name = if fact.place == 0 { gate.to_owned() } else { format!("{beside}{}", fact.place) };
        named.push((name, named_rows(text)));
    }
    if named.iter().all(|(_, digest)| digest.is_none()) {
        let note = (!named.is_empty() && stored.is_some()).then(|| NotChecked {
            item: "the rows against a signature".to_owned(),
            why: "rows recomputed, never signed: the answers are from before answers named the rows"
                .to_owned(),
            to_check: String::new(),
        });
        return (Vec::new(), note);
    }
    let first = named.iter().position(|(_, digest)| digest.is_some()).unwrap_or_default();
    let judge = |(gate, digest): &(String, Option<Digest>)| {
        let expected = digest.map_or(ABSENT.to_owned(), |d| d.to_hex());
        Check::equal_some(
            &format!("verify.units.rows_digest.{gate}"),
            &expected,
            stored.map(|d| d.to_hex()).as_ref(),
        )
    };
    (named.iter().skip(first).map(judge).collect(), None)
}
