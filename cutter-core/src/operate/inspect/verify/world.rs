//! What must be there: how far a run came by each source, the documents that this demands, and a
//! record that knows of everything that happened.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::id::RunId;
use crate::machine::run::{Phase, Stage};
use crate::operate::inspect::asked::folder_over;
use crate::operate::inspect::claims::Claims;
use crate::operate::inspect::recover::{can_be, unknown_to};
use crate::record::check::Check;
use crate::record::effect::EffectName;
use crate::record::evidence::RunEvidence;
use crate::record::observed::{CutState, Lifecycle, VersionCut};
use crate::record::sidecar::Sidecar;
use crate::report::naming::DocumentName;

/// Of each version of the document the units stand where its run's enactment says, and each run that recorded
/// one has a version: which one is in force follows from all of them, whichever run is verified.
#[must_use]
pub fn versions_agree(versions: &[VersionCut], enacted: &[RunId]) -> Check {
    let cuts = versions.iter().filter_map(|v| Some((v.version_no, v.cut.as_ref()?)));
    let other = cuts.filter(|(_, cut)| (cut.status == Lifecycle::Enacted) != cut.is_enacted);
    let line = |(version, cut): (i32, &CutState)| {
        let records = if cut.is_enacted { "records that it enacted them" } else { "records no enactment" };
        format!("version {version}: its units are {}, {} {records}", cut.status, cut.run_id)
    };
    let has_none = |run_id: &&RunId| !versions.iter().flat_map(|v| &v.cut).any(|cut| cut.run_id == **run_id);
    let lost =
        |run_id: &RunId| format!("{run_id} records an enactment, and no version of the document is its");
    let lost = enacted.iter().filter(has_none).map(lost);
    Check::empty("verify.versions.agree", &other.map(line).chain(lost).collect::<Vec<_>>())
}

pub(super) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Of which phase a document is the report, by its name.
pub(super) fn phase_of(path: &str) -> Option<Phase> {
    match DocumentName::parse(name_of(path)) {
        Ok((DocumentName::Phase(phase), _)) => Some(phase),
        _ => None,
    }
}

/// How far the documents of a folder show that a run came: a phase's report is filed once it passed.
#[must_use]
pub fn reached_by_documents(paths: &[String]) -> Option<Stage> {
    let phases = paths.iter().filter_map(|path| phase_of(path).map(Phase::to));
    let requests = paths.iter().filter_map(|path| match DocumentName::parse(name_of(path)) {
        Ok((DocumentName::Request { gate, .. }, _)) => Some(match gate {
            crate::report::naming::AuthorizationGate::Cut => Stage::AwaitingCutAuthorization,
            crate::report::naming::AuthorizationGate::Lifecycle => Stage::AwaitingLifecycleAuthorization,
        }),
        _ => None,
    });
    phases.chain(requests).max()
}

/// How far the database shows that a run came: whoever wrote an effect had passed what is before it.
#[must_use]
pub fn reached_by_evidence(evidence: &RunEvidence) -> Option<Stage> {
    use EffectName as E;
    let of = |effect: EffectName| match effect {
        E::Mark | E::Sweep => Some(Phase::Mark.from()),
        E::Sg1Review | E::LegA => Some(Phase::CutLegA.from()),
        E::LegB => Some(Phase::LegBRecord.from()),
        E::WriteVerify => Some(Phase::WriteVerify.from()),
        E::Sg2Request => Some(Phase::WriteVerify.to()),
        E::Sg2Review | E::Enact => Some(Phase::LifecycleEnact.from()),
        E::Sg3Review | E::Void => None,
    };
    evidence.effects.iter().filter_map(|e| of(e.key.effect)).max()
}

/// A record after which nothing happened: a lost record that was put back is not one.
#[must_use]
pub fn record_is_newest(
    sidecar: &Sidecar,
    evidence: &RunEvidence,
    documents: &[String],
    index_line: Option<&str>,
) -> Check {
    let mut unknown = unknown_to(sidecar, evidence, documents);
    let may_be_closing = sidecar
        .run_state()
        .ok()
        .and_then(|s| s.stage())
        .is_some_and(|stage| stage >= Stage::LifecycleEnacted);
    if index_line.is_some() && !may_be_closing {
        unknown.push("the runs index says that it is closed, which the record does not know".to_string());
    }
    Check::empty("verify.record.newest", &unknown)
}

/// Every phase that passed left one report, and one only, whatever the record says. `owed` is a
/// document that the record has yet to file.
#[must_use]
pub fn phase_documents(claims: &Claims, paths: &[String], owed: Option<&str>) -> Vec<Check> {
    if !claims.live {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for phase in &claims.passed {
        let found = paths.iter().filter(|path| phase_of(path) == Some(*phase)).count();
        let is_owed = owed.and_then(phase_of) == Some(*phase);
        if found != 1 && !(found == 0 && is_owed) {
            wrong.push(format!("{}: {found}", phase.file_stem()));
        }
    }
    alloc::vec![Check::empty("verify.documents.one_for_each_phase", &wrong)]
}

/// Nothing stands in a run's folder that is no document of a run, or tells of what cannot have happened.
/// `answers` are documents of any name that answer the run.
#[must_use]
pub fn no_strays(paths: &[String], answers: &[String], evidence: &RunEvidence) -> Check {
    let is_none = |path: &&String| DocumentName::parse(name_of(path)).is_err() && !answers.contains(path);
    let folder = folder_over(paths.iter().map(String::as_str));
    let within = |path: &'_ str| path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/').to_owned();
    let strays = paths.iter().filter(|path| is_none(path) || !can_be(path, evidence));
    let strays: Vec<String> = strays.map(|path| within(path)).collect();
    Check::empty("verify.documents.no_strays", &strays)
}
