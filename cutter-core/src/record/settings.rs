//! Settings of a run: fixed at creation, kept in the sidecar, shown at SG1 (D34).

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::limits;
use crate::machine::run::Phase;
use crate::record::approval::ApprovalPolicy;
use crate::record::backup::BackupScope;
use crate::text::address::unit_kind_of;
use crate::text::detect::Detection;
use crate::text::mark::{ManifestMarker, Marker as _};
use crate::text::profile::Profile;

/// What may differ from deployment to deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Soft cap per phase, minutes of active time.
    pub phase_soft_cap_minutes: BTreeMap<String, u32>,
    /// Hard cap of the run, minutes of active time.
    pub run_hard_cap_minutes: u32,
    /// More candidates than this fail IG_mark.
    pub max_candidates: u64,
    /// Longer documents are refused.
    pub max_document_bytes: u64,
    /// No unit's address may be one of these or below one (D19).
    pub forbidden_prefixes: Vec<String>,
    /// Fingerprint of the backup recipient.
    pub backup_fingerprint: String,
    /// How much is saved.
    pub backup_scope: BackupScope,
    /// What runs of before the database's policy said of approvers: covered by the creation's
    /// signature, and heeded by nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// Who is expected to sign at SG_2.
    pub lifecycle_actor: String,
    /// The profile to cut with.
    pub profile: Profile,
    /// How the profile was detected; `None` where the operator chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<Detection>,
    /// From the vocabulary `publication_type`; `None` takes the profile's.
    pub publication_type: Option<String>,
    /// Entries that must be S8 first (G-CUT-DEPS).
    pub depends_on: Vec<String>,
    /// An explicit manifest of spans instead of the profile's marking, as
    /// [`ManifestMarker`] reads it; at most
    /// [`limits::SETTINGS_MANIFEST_MAX_BYTES`], since the run's record holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<serde_json::Value>,
}

impl RunSettings {
    /// The spec's caps and bounds with the given recipient.
    #[must_use]
    pub fn new(lifecycle_actor: &str, backup_fingerprint: &str, profile: Profile) -> Self {
        Self {
            phase_soft_cap_minutes: Phase::ALL
                .iter()
                .map(|p| (p.as_str().to_owned(), p.soft_cap_minutes()))
                .collect(),
            run_hard_cap_minutes: limits::RUN_HARD_CAP_MINUTES,
            max_candidates: limits::MAX_CANDIDATES_PER_DOC,
            max_document_bytes: limits::MAX_DOCUMENT_BYTES,
            forbidden_prefixes: Vec::new(),
            backup_fingerprint: backup_fingerprint.to_owned(),
            backup_scope: BackupScope::Document,
            approval: None,
            lifecycle_actor: lifecycle_actor.to_owned(),
            profile,
            detection: None,
            publication_type: None,
            depends_on: Vec::new(),
            manifest: None,
        }
    }

    /// Whether a run may begin with these settings.
    ///
    /// # Errors
    /// A text for people: the explicit manifest is too long for the run's record.
    pub fn check(&self) -> Result<(), String> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let bytes = manifest.to_string().len();
        if bytes > limits::SETTINGS_MANIFEST_MAX_BYTES {
            return Err(format!(
                "the explicit manifest: expected at most {} bytes of JSON, observed {bytes}; a profile of your \
                 own (--profile FILE) has no such limit",
                limits::SETTINGS_MANIFEST_MAX_BYTES
            ));
        }
        Ok(())
    }

    /// The soft cap of a phase in milliseconds.
    #[must_use]
    pub fn phase_cap_ms(&self, phase: Phase) -> u64 {
        let minutes = self
            .phase_soft_cap_minutes
            .get(phase.as_str())
            .copied()
            .unwrap_or_else(|| phase.soft_cap_minutes());
        u64::from(minutes) * 60_000
    }

    /// All settings as lines for people: what an approver reads at SG1.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String)> {
        let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
        let caps: Vec<String> =
            self.phase_soft_cap_minutes.iter().map(|(phase, minutes)| format!("{phase} {minutes}")).collect();
        let line = |name: &str, value: String| (name.to_owned(), value);
        let mut lines = alloc::vec![
            line("phase_soft_cap_minutes", caps.join(", ")),
            line("run_hard_cap_minutes", self.run_hard_cap_minutes.to_string()),
            line("max_candidates", self.max_candidates.to_string()),
            line("max_document_bytes", self.max_document_bytes.to_string()),
            line("forbidden_prefixes", list(&self.forbidden_prefixes)),
            line("backup_scope", self.backup_scope.as_str().to_owned()),
            line("backup_fingerprint", self.backup_fingerprint.clone()),
            line("lifecycle_actor", self.lifecycle_actor.clone()),
            line(
                "publication_type",
                self.publication_type.clone().unwrap_or_else(|| "the profile's".to_owned())
            ),
            line("depends_on", list(&self.depends_on)),
            line(
                "profile",
                format!("{} version {}, {}", self.profile.name, self.profile.version, self.cut_depth())
            ),
        ];
        if let Some(manifest) = &self.manifest {
            let marker = ManifestMarker::from_value(manifest.clone());
            let text = marker.map_or_else(|e| e.to_string(), |marker| marker.identity());
            lines.push(line("manifest", text));
        }
        match &self.detection {
            Some(detection) => lines.extend(detection.lines()),
            None => lines.push(line("profile_chosen", "chosen by the operator".to_owned())),
        }
        lines
    }

    fn cut_depth(&self) -> String {
        match (&self.profile.deepest, self.profile.depth) {
            (_, Some(levels)) => format!("at most {levels} levels"),
            (Some(kind), None) => format!("down to {}", unit_kind_of(kind).unwrap_or(kind)),
            (None, None) => "all levels".to_owned(),
        }
    }

    /// The hard cap in milliseconds.
    #[must_use]
    pub fn run_cap_ms(&self) -> u64 {
        u64::from(self.run_hard_cap_minutes) * 60_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::detect::{Confidence, Cost, RunnerUp};

    fn settings() -> RunSettings {
        RunSettings::new("sue", "00", Profile::built_in("vn").unwrap())
    }

    fn line(settings: &RunSettings, name: &str) -> String {
        settings
            .lines()
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn a_record_without_a_detection_loads_and_keeps_its_digest() {
        let settings = settings();
        let value = serde_json::to_value(&settings).unwrap();
        assert!(value.get("detection").is_none());
        let read: RunSettings = serde_json::from_value(value).unwrap();
        assert_eq!(read, settings);
        assert_eq!(line(&settings, "profile"), "vn version 1, down to article");
        assert_eq!(line(&settings, "profile_chosen"), "chosen by the operator");
    }

    #[test]
    fn a_detection_is_kept_and_shown() {
        let cost = Cost { units: 57, duplicates: 1, empty: 11, largest: 3821, gaps: 2 };
        let mut settings = settings();
        settings.detection = Some(crate::text::detect::Detection {
            confidence: Confidence::Low,
            evidence: alloc::vec!["one".to_owned(), "markdown is nearly as likely".to_owned()],
            cost: Some(cost),
            runner_up: Some(RunnerUp { name: "markdown".to_owned(), cost: None }),
        });
        let read: RunSettings = serde_json::from_str(&serde_json::to_string(&settings).unwrap()).unwrap();
        assert_eq!(read, settings);
        assert_eq!(line(&read, "profile_chosen"), "detected, confidence low");
        assert_eq!(line(&read, "profile_evidence_2"), "markdown is nearly as likely");
        assert_eq!(
            line(&read, "profile_cost"),
            "units 57, duplicates 1, empty 11, number gaps 2, largest 3821 bytes"
        );
        assert_eq!(line(&read, "profile_runner_up"), "markdown: cannot cut this text");
        let warning = read.detection.unwrap().warning("vn").unwrap();
        assert!(warning.contains("low confidence") && warning.contains("nearly as likely"), "{warning}");
    }
}
