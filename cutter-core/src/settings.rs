//! Settings of a run: fixed at creation, kept in the sidecar, shown at SG1 (D34).

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::approval::ApprovalPolicy;
use crate::limits;
use crate::machine::run::Phase;
use crate::port::backup::BackupScope;
use crate::profile::Profile;

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
    /// Who may approve, and how.
    pub approval: ApprovalPolicy,
    /// Who is expected to sign at SG_2.
    pub lifecycle_actor: String,
    /// The profile to cut with.
    pub profile: Profile,
    /// From the vocabulary `publication_type`; `None` takes the profile's.
    pub publication_type: Option<String>,
    /// Entries that must be S8 first (G-CUT-DEPS).
    pub depends_on: Vec<String>,
}

impl RunSettings {
    /// The spec's caps and bounds with the given policy and recipient.
    #[must_use]
    pub fn new(approval: ApprovalPolicy, lifecycle_actor: &str, backup_fingerprint: &str, profile: Profile) -> Self {
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
            approval,
            lifecycle_actor: lifecycle_actor.to_owned(),
            profile,
            publication_type: None,
            depends_on: Vec::new(),
        }
    }

    /// The soft cap of a phase in milliseconds.
    #[must_use]
    pub fn phase_cap_ms(&self, phase: Phase) -> u64 {
        let minutes =
            self.phase_soft_cap_minutes.get(phase.as_str()).copied().unwrap_or_else(|| phase.soft_cap_minutes());
        u64::from(minutes) * 60_000
    }

    /// The hard cap in milliseconds.
    #[must_use]
    pub fn run_cap_ms(&self) -> u64 {
        u64::from(self.run_hard_cap_minutes) * 60_000
    }
}
