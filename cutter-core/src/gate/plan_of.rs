//! The one way from a text and settings to a plan.

use alloc::string::{String, ToString};

use crate::base::vocabulary::Vocabulary;
use crate::record::settings::RunSettings;
use crate::text::address::{Address, DocumentId};
use crate::text::mark::{ManifestMarker, MarkLimits, Marker, Stop};
use crate::text::plan::{CutPlan, PlanError, PlanInput};

/// Builds a plan from a text, under the settings of a run: the one way to do it, so that
/// `cutter plan` and a run agree (PROTOCOL §2, cutplan).
///
/// # Errors
/// A text for people: the document id, the profile or the text is refused.
pub fn plan_of(
    document_id: &str,
    text: &[u8],
    vocabulary: &Vocabulary,
    settings: &RunSettings,
) -> Result<CutPlan, String> {
    try_plan_of(document_id, text, vocabulary, settings)?.map_err(|e| e.to_string())
}

/// The plan, or why the text has none: what is wrong with the settings comes first.
pub(crate) fn try_plan_of(
    document_id: &str,
    text: &[u8],
    vocabulary: &Vocabulary,
    settings: &RunSettings,
) -> Result<Result<CutPlan, PlanError>, String> {
    let document_id = DocumentId::parse(document_id).map_err(|e| e.to_string())?;
    let limits = limits_of(settings)?;
    let manifest = settings.manifest.clone().map(ManifestMarker::from_value).transpose();
    let manifest = manifest.map_err(|e| e.to_string())?;
    let input = PlanInput {
        document_id: &document_id,
        text,
        profile: &settings.profile,
        vocabulary,
        publication_type: settings.publication_type.as_deref(),
        depends_on: &settings.depends_on,
        limits: &limits,
        marker: manifest.as_ref().map(|marker| marker as &dyn Marker),
    };
    Ok(CutPlan::build(&input))
}

pub(crate) fn limits_of(settings: &RunSettings) -> Result<MarkLimits, String> {
    let prefixes = settings.forbidden_prefixes.iter().map(|p| Address::parse(p));
    Ok(MarkLimits {
        max_candidates: u32::try_from(settings.max_candidates).unwrap_or(u32::MAX),
        stop: Stop::AtCandidates,
        max_bytes: usize::try_from(settings.max_document_bytes).unwrap_or(usize::MAX),
        forbidden_prefixes: prefixes.collect::<Result<_, _>>().map_err(|e| e.to_string())?,
    })
}
