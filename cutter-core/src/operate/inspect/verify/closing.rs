//! A closed run's documents and pins, against what its statement says of them; and its final report, which
//! no later document and no statement names, against everything else that stands.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::world::{name_of, phase_of};
use crate::base::digest::Digest;
use crate::machine::run::{GateId, Phase};
use crate::operate::inspect::claims::{Claims, inputs};
use crate::record::approval::Purpose;
use crate::record::ask::StoredAsk;
use crate::record::check::{ABSENT, Check};
use crate::record::evidence::{RunEvidence, StoredApproval};
use crate::record::pin;
use crate::record::statement::{Recorded, digest};
use crate::record::stored_statement::StoredStatement;
use crate::report::closing::{Closed, came_late, differences, not_passed};

/// Judges what a run that made a statement filed and fixed; nothing where it made none, or filed no final
/// report.
#[must_use]
pub fn closing(
    claims: &Claims,
    documents: &[(String, String)],
    statement: Option<&StoredStatement>,
    evidence: &RunEvidence,
    asks: &[StoredAsk],
) -> Vec<Check> {
    let text = documents.iter().find(|(path, _)| phase_of(path) == Some(Phase::Closeout));
    let (Some((_, text)), Some(statement)) = (text, statement) else { return Vec::new() };
    let recorded = Recorded::of(&statement.body);
    let mut checks =
        recorded.iter().flat_map(|recorded| as_recorded(claims, documents, recorded)).collect::<Vec<_>>();
    let wrong = in_the_final_report(claims, documents, text, (&statement.body, recorded), evidence, asks);
    checks.push(Check::empty("verify.documents.final", &wrong));
    checks
}

/// The report of each phase that passed says that it did: whatever an edited record says of its bytes.
#[must_use]
pub fn reports_pass(claims: &Claims, documents: &[(String, String)]) -> Check {
    let wrong = |(path, text): &(String, String)| {
        let phase = phase_of(path).filter(|phase| claims.has_passed(*phase))?;
        let expected = not_passed(text, phase, &claims.run_id)?;
        Some(format!("{}: expected {expected}", name_of(path)))
    };
    let wrong: Vec<String> = documents.iter().filter_map(wrong).collect();
    Check::empty("verify.documents.say_pass", &wrong)
}

/// Documents and pins are those that the statement names.
fn as_recorded(claims: &Claims, documents: &[(String, String)], recorded: &Recorded) -> Vec<Check> {
    let standing: BTreeMap<&str, Digest> =
        documents.iter().map(|(path, text)| (name_of(path), Digest::of(text.as_bytes()))).collect();
    let other = recorded.documents.iter().filter_map(|(name, said)| match standing.get(name.as_str()) {
        Some(stands) if stands == said => None,
        stands => Some(format!(
            "{name}: said {said}, stands {}",
            stands.map_or(ABSENT.to_owned(), Digest::to_string)
        )),
    });
    let mut checks = vec![Check::empty("verify.statement.documents", &other.collect::<Vec<_>>())];
    // only a record has them all
    if claims.creator.is_some() {
        let stands = claims.pins_but_the_statement();
        let names: BTreeSet<&String> = recorded.pins.keys().chain(stands.keys()).collect();
        let show = |pin: Option<&String>| pin.map_or(ABSENT, String::as_str).to_owned();
        let other = names.into_iter().filter_map(|name| {
            let (said, stands) = (recorded.pins.get(name), stands.get(name));
            (said != stands).then(|| format!("{name}: said {}, stands {}", show(said), show(stands)))
        });
        checks.push(Check::empty("verify.statement.pins", &other.collect::<Vec<_>>()));
    }
    checks
}

fn in_the_final_report(
    claims: &Claims,
    documents: &[(String, String)],
    text: &str,
    (body, recorded): (&str, Option<Recorded>),
    evidence: &RunEvidence,
    asks: &[StoredAsk],
) -> Vec<String> {
    let own: BTreeMap<String, String> = inputs(text).into_iter().collect();
    let said = recorded.map(|Recorded { mut pins, .. }| {
        pins.insert(pin::STATEMENT_SHA256.name().to_owned(), digest(body).to_hex());
        pins
    });
    // an earlier program's statement names none
    let known = said.as_ref().or(claims.creator.is_some().then_some(&claims.pins));
    let pin = |name: &str| known.unwrap_or(&own).get(name).cloned().unwrap_or_default();
    let answers = || asks.iter().flat_map(|ask| &ask.answers);
    let decided = |gate: &str, decision: &str, actor: &str| format!("{gate} {decision} by {actor}");
    let stored = |row: &StoredApproval| decided(gate_of(&row.gate), row.decision.as_str(), &row.actor);
    let mut decisions: Vec<String> = evidence.approvals.iter().map(stored).collect();
    decisions
        .extend(claims.approvals.iter().map(|a| decided(a.gate.as_str(), a.decision.as_str(), &a.actor)));
    decisions.extend(answers().filter(|a| a.late).map(|a| came_late(&a.answer)));
    let others = || documents.iter().filter(|(path, _)| phase_of(path) != Some(Phase::Closeout));
    let backup = pin("backup_sha").parse().ok().zip(pin("backup_bytes").parse().ok());
    let backup = backup.map(|(sha256, bytes)| ("pre_write.gpg".to_owned(), sha256, bytes));
    let stands = |path: &str, sha256: &Digest| {
        documents.iter().any(|(other, text)| other == path && Digest::of(text.as_bytes()) == *sha256)
    };
    let changed = claims.documents.iter().filter(|(path, sha256)| !stands(path, sha256));
    let closed = Closed {
        run_id: &claims.run_id,
        body,
        inputs: known.map(|pins| claims.inputs_of(pins)),
        pin: &pin,
        encrypted_to: documents
            .iter()
            .find(|(path, _)| phase_of(path) == Some(Phase::Backup))
            .map(|(_, text)| text.as_str()),
        decisions,
        relied_on: evidence.approvals.iter().filter(|row| row.used_by.is_some()).map(stored).collect(),
        people: answers().map(|a| a.answer.actor.as_str()).collect(),
        documents: others()
            .filter(|(path, _)| text.contains(path.as_str()))
            .map(|(path, text)| (path.clone(), Digest::of(text.as_bytes()), text.len() as u64))
            .chain(backup)
            .collect(),
        changed: changed.map(|(path, sha256)| (path.as_str(), *sha256)).collect(),
        reports: others().map(|(path, _)| path.as_str()).filter(|path| phase_of(path).is_some()).collect(),
    };
    differences(text, &closed)
}

/// The gate that a stored decision answers.
fn gate_of(approval_type: &str) -> &'static str {
    approval_type.parse().map_or(GateId::FailureEscalation, Purpose::gate).as_str()
}
