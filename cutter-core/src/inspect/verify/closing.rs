//! The final report: no later document names it, so it is held against everything else that stands.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::approval::{CUT_AUTHORIZATION, LIFECYCLE_ENACTMENT};
use crate::digest::Digest;
use crate::gate::Check;
use crate::inspect::claims::{Claims, inputs};
use crate::machine::run::{GateId, Phase};
use crate::naming::DocumentName;
use crate::port::ask::StoredAsk;
use crate::port::evidence::{RunEvidence, StoredApproval};
use crate::port::statement::StoredStatement;
use crate::report::closing::{Closed, came_late, differences};

/// Judges the final report of a run that made a statement; `None` where there is none of either.
#[must_use]
pub fn final_report(
    claims: &Claims,
    documents: &[(String, String)],
    statement: Option<&StoredStatement>,
    evidence: &RunEvidence,
    asks: &[StoredAsk],
) -> Option<Check> {
    let phase_of = |path: &str| match DocumentName::parse(name_of(path)) {
        Ok((DocumentName::Phase(phase), _)) => Some(phase),
        _ => None,
    };
    let (_, text) = documents.iter().find(|(path, _)| phase_of(path) == Some(Phase::Closeout))?;
    let body = &statement?.body;
    let own: BTreeMap<String, String> = inputs(text).into_iter().collect();
    let pin = |name: &str| claims.pins.get(name).or_else(|| own.get(name)).cloned().unwrap_or_default();
    let answers = || asks.iter().flat_map(|ask| &ask.answers);
    let decided = |gate: &str, decision: &str, actor: &str| format!("{gate} {decision} by {actor}");
    let stored = |row: &StoredApproval| decided(gate_of(&row.gate), row.decision.as_str(), &row.actor);
    let mut decisions: Vec<String> = evidence.approvals.iter().map(stored).collect();
    decisions.extend(claims.approvals.iter().map(|a| decided(&a.gate, &a.decision, &a.actor)));
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
        inputs: claims.creator.is_some().then(|| claims.inputs()),
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
    Some(Check::empty("verify.documents.final", &differences(text, &closed)))
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The gate that a stored decision answers.
fn gate_of(approval_type: &str) -> &'static str {
    match approval_type {
        CUT_AUTHORIZATION => GateId::CutAuthz.as_str(),
        LIFECYCLE_ENACTMENT => GateId::LifecycleAuthz.as_str(),
        _ => GateId::FailureEscalation.as_str(),
    }
}
