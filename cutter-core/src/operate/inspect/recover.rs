//! Can a lost or broken record be rebuilt without guessing?
//!
//! A record may be taken from an older revision, or from the dump in a stop-route report,
//! only if nothing happened after it: every effect in the database and every document in
//! the run's folder must be one that the record knows, or one that its open intent will
//! find again under the same identifier. Otherwise a resumed run would do work twice under
//! other names; then the answer is what is missing, and nothing is written.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::key::refusal_id;
use crate::machine::run::{GateId, Phase, RunState};
use crate::record::effect::EffectName;
use crate::record::evidence::RunEvidence;
use crate::record::pin;
use crate::record::sidecar::{PhaseResult, Sidecar};
use crate::report::naming::{AuthorizationGate, DocumentName};

/// Where a record was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// An older revision in the run's own folder.
    Revision(u64),
    /// The dump in a stop-route report.
    StopReport(String),
}

/// What happened after a record was written, so that it must not be used. Empty if it may.
#[must_use]
pub fn unknown_to(sidecar: &Sidecar, evidence: &RunEvidence, documents: &[String]) -> Vec<String> {
    let mut unknown = Vec::new();
    for effect in &evidence.effects {
        if !knows_effect(sidecar, effect.key.effect, effect.key.occurrence, &effect.effect_id) {
            unknown.push(format!(
                "the database holds effect {} {} ({}), which the record does not know",
                effect.key.effect, effect.key.occurrence, effect.effect_id
            ));
        }
    }
    for path in documents.iter().filter(|path| can_be(path, evidence)) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let Ok((parsed, _)) = DocumentName::parse(name) else { continue };
        let filed = sidecar.documents.iter().any(|d| d.path.rsplit('/').next() == Some(name));
        let owed = sidecar.outbox.as_ref().is_some_and(|o| o.name == name);
        let next = match parsed {
            DocumentName::Phase(phase) => {
                let record = sidecar.phases.get(phase.as_str());
                record.is_some_and(|r| r.result == PhaseResult::Running)
            }
            DocumentName::StopReport { .. } => sidecar.stops.iter().any(|s| s.name == name),
            // the sovereign writes these whenever it likes
            DocumentName::Approval { .. } | DocumentName::EscalationApproval { .. } => true,
            DocumentName::Request { .. } => false,
        };
        if parsed.is_orchestrators() && !filed && !owed && !next {
            unknown.push(format!("the knowledge base holds {path}, which the record does not know"));
        }
    }
    unknown
}

/// Whether what a document tells of can have happened: whoever files it, be it of a phase that failed, has
/// committed what is before it. Where the database holds nothing of the run, or was not asked, nothing says
/// otherwise.
#[must_use]
pub fn can_be(path: &str, evidence: &RunEvidence) -> bool {
    let before = match DocumentName::parse(path.rsplit('/').next().unwrap_or(path)) {
        Ok((DocumentName::Phase(Phase::StructuralVerify | Phase::LegBRecord), _)) => EffectName::LegA,
        Ok((DocumentName::Phase(Phase::WriteVerify), _)) => EffectName::LegB,
        Ok((DocumentName::Phase(Phase::LifecycleEnact), _)) => EffectName::WriteVerify,
        Ok((DocumentName::Request { gate: AuthorizationGate::Lifecycle, .. }, _)) => EffectName::WriteVerify,
        Ok((DocumentName::Phase(Phase::Closeout), _)) => EffectName::Enact,
        _ => return true,
    };
    evidence.effects.is_empty() || evidence.effects.iter().any(|e| e.key.effect == before)
}

fn knows_effect(sidecar: &Sidecar, effect: EffectName, occurrence: u32, id: &uuid::Uuid) -> bool {
    // another host may have stored a refusal of what is asked: its id follows from the ask's
    let chosen = |ids: &alloc::collections::BTreeMap<String, uuid::Uuid>| {
        ids.values().any(|v| v == id || refusal_id(*v) == *id)
    };
    if sidecar.intent.as_ref().is_some_and(|i| chosen(&i.ids)) || sidecar.stops.iter().any(|s| chosen(&s.ids))
    {
        return true;
    }
    // A void asks the database what a lost attempt had left, and takes it along; what is enacted
    // is never voided.
    if effect != EffectName::Enact && matches!(sidecar.run_state(), Ok(RunState::Voided { .. })) {
        return true;
    }
    let passed = |p: Phase| sidecar.phases.get(p.as_str()).is_some_and(|r| r.result != PhaseResult::Running);
    match effect {
        EffectName::Mark | EffectName::Sweep => passed(Phase::Mark),
        EffectName::LegA => passed(Phase::CutLegA),
        EffectName::LegB => passed(Phase::LegBRecord),
        EffectName::WriteVerify => passed(Phase::WriteVerify),
        EffectName::Enact => passed(Phase::LifecycleEnact),
        EffectName::Sg2Request => sidecar.pin_text(pin::REVIEW_DECISION_ID).is_some(),
        EffectName::Sg1Review | EffectName::Sg2Review => {
            let gate =
                if effect == EffectName::Sg1Review { GateId::CutAuthz } else { GateId::LifecycleAuthz };
            sidecar.last_decision(gate).is_some_and(|(n, _)| n >= occurrence)
        }
        EffectName::Sg3Review => sidecar.stops.iter().any(|s| s.n >= occurrence && s.resolved_by.is_some()),
        EffectName::Void => matches!(sidecar.run_state(), Ok(RunState::Voided { .. })),
    }
}

/// What was looked for when there is no record to start from, and what was found.
#[must_use]
pub fn missing(evidence: &RunEvidence, documents: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push("a readable revision under rev/: none".to_string());
    lines.push("a stop-route report with a dump of the record: none that is new enough".to_string());
    lines.push(
        "the signed creation record, the settings and the open intent stand in no other place; without \
         them a rebuilt run would be another run"
            .to_string(),
    );
    let effects: Vec<String> = evidence.effects.iter().map(|e| e.key.effect.to_string()).collect();
    lines.push(format!(
        "the database holds: {}",
        if effects.is_empty() { "no effect".to_string() } else { effects.join(", ") }
    ));
    lines.push(format!("the knowledge base holds {} documents of it", documents.len()));
    lines
}
