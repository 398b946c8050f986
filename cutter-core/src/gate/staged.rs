//! The plan as it is staged for a cut request (spec 5, MARK): what `cutter plan --json` prints.
//!
//! Besides the units it holds what they follow from, so that whoever cuts makes the same plan
//! again from the bytes and compares: a staged unit is never believed, only a digest is.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::canonical::parse_strict;
use crate::base::digest::Digest;
use crate::base::vocabulary::Vocabulary;
use crate::gate::plan_of::plan_of;
use crate::record::check::Check;
use crate::record::settings::RunSettings;
use crate::text::detect::Detection;
use crate::text::plan::{CutPlan, RegionFacts, TextFacts};
use crate::text::profile::Profile;

/// What a plan follows from, beside the text and the vocabularies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSettings {
    /// First part of every address.
    pub document_id: String,
    /// The profile, whole.
    pub profile: Profile,
    /// How the profile was detected; `None` where it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<Detection>,
    /// From the vocabulary `publication_type`; `None` takes the profile's.
    #[serde(default)]
    pub publication_type: Option<String>,
    /// Entries that must be S8 first (G-CUT-DEPS).
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// An explicit manifest instead of marking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<serde_json::Value>,
}

impl PlanSettings {
    /// Puts them among the settings of a run.
    pub fn apply(&self, settings: &mut RunSettings) {
        settings.profile.clone_from(&self.profile);
        settings.detection.clone_from(&self.detection);
        settings.publication_type.clone_from(&self.publication_type);
        settings.depends_on.clone_from(&self.depends_on);
        settings.manifest.clone_from(&self.manifest);
    }
}

/// The staged plan, read back. Fields that this build does not know are left alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StagedPlan {
    /// The text.
    pub document: TextFacts,
    /// The body.
    pub region: RegionFacts,
    /// What was promised.
    pub manifest_digest: Digest,
    /// What was promised of the rows.
    pub writer_digest: Digest,
    /// What it follows from.
    pub settings: PlanSettings,
}

impl StagedPlan {
    /// Reads a staged manifest.
    ///
    /// # Errors
    /// A text for people: not strict JSON, or a field is missing or wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let value = parse_strict(bytes).map_err(|e| e.to_string())?;
        serde_json::from_value(value).map_err(|e| {
            format!("{e}; expected the JSON that `cutter plan FILE --document-id ID --json` prints")
        })
    }

    /// Makes the plan again, from the staged text under a run's settings, and judges whether it
    /// is the one that was staged. `settings` already hold [`PlanSettings::apply`].
    ///
    /// # Errors
    /// A text for people: there is no plan of this text at all.
    pub fn judge(
        &self,
        text: &[u8],
        vocabulary: &Vocabulary,
        settings: &RunSettings,
    ) -> Result<(CutPlan, Vec<Check>), String> {
        let plan = plan_of(&self.settings.document_id, text, vocabulary, settings)?;
        let checks = alloc::vec![
            Check::equal("mark.document_sha256", &self.document.sha256, &plan.document.sha256),
            Check::equal("mark.region_sha256", &self.region.sha256, &plan.region.sha256),
            Check::equal("mark.manifest_digest", &self.manifest_digest, &plan.manifest_digest),
            Check::equal("mark.writer_digest", &self.writer_digest, &plan.writer_digest),
        ];
        Ok((plan, checks))
    }
}
