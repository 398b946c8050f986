//! The eleven phases of a run (spec 1 §6, spec 2 §1): what each is called, which gate judges
//! it, between which stages it stands, which document it leaves, and how long it may take.

use super::run::{GateId, Stage};
use super::spelled;

/// A phase. `Ord` is the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Pin version, manifest, region.
    SourcePin,
    /// Mark the region and register it for review.
    Mark,
    /// Build the plan twice and compare.
    Cutplan,
    /// Encrypt and store what could be touched.
    Backup,
    /// Survey grants.
    GrantProbe,
    /// Write units, versions and anchors.
    CutLegA,
    /// Check the structure of what was written.
    StructuralVerify,
    /// Write the governance rows.
    LegBRecord,
    /// Have another principal verify and sign.
    WriteVerify,
    /// Enact every unit.
    LifecycleEnact,
    /// Report, index, close.
    Closeout,
}

spelled!(Phase, "phase", {
    SourcePin => "source_pin",
    Mark => "mark",
    Cutplan => "cutplan",
    Backup => "backup",
    GrantProbe => "grant_probe",
    CutLegA => "cut_leg_a",
    StructuralVerify => "structural_verify",
    LegBRecord => "leg_b_record",
    WriteVerify => "write_verify",
    LifecycleEnact => "lifecycle_enact",
    Closeout => "closeout",
});

impl Phase {
    /// How many phases there are.
    pub const COUNT: u8 = 11;

    /// 1 to 11.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The phase with this number, 1 to 11.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The gate that judges the phase.
    #[must_use]
    pub const fn gate(self) -> GateId {
        match self {
            Self::SourcePin => GateId::SourcePin,
            Self::Mark => GateId::Mark,
            Self::Cutplan => GateId::Cutplan,
            Self::Backup => GateId::Backup,
            Self::GrantProbe => GateId::GrantProbe,
            Self::CutLegA => GateId::CutLegA,
            Self::StructuralVerify => GateId::StructuralVerify,
            Self::LegBRecord => GateId::LegBRecord,
            Self::WriteVerify => GateId::WriteVerify,
            Self::LifecycleEnact => GateId::LifecycleEnact,
            Self::Closeout => GateId::Closeout,
        }
    }

    /// The phase that a gate judges; `None` for the sovereign gates.
    #[must_use]
    pub fn from_gate(gate: GateId) -> Option<Self> {
        Self::ALL.iter().copied().find(|phase| phase.gate() == gate)
    }

    /// The title of the phase's report.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::SourcePin => "Source Pin",
            Self::Mark => "Mark",
            Self::Cutplan => "Cutplan",
            Self::Backup => "Pre-Write Backup",
            Self::GrantProbe => "Grant Probe",
            Self::CutLegA => "Cut Leg A",
            Self::StructuralVerify => "Structural Verify",
            Self::LegBRecord => "Leg B Record",
            Self::WriteVerify => "Write Verify",
            Self::LifecycleEnact => "Lifecycle Enact",
            Self::Closeout => "Final Orchestrator Report",
        }
    }

    /// The file name of the phase's document without `-<date>.md` (spec 2 §1).
    #[must_use]
    pub const fn file_stem(self) -> &'static str {
        match self {
            Self::SourcePin => "01-source-pin",
            Self::Mark => "02-mark",
            Self::Cutplan => "03-cutplan",
            Self::Backup => "04-pre-write-backup",
            Self::GrantProbe => "05-grant-probe",
            Self::CutLegA => "06-cut-leg-a",
            Self::StructuralVerify => "07-structural-verify",
            Self::LegBRecord => "08-leg-b-record",
            Self::WriteVerify => "09-write-verify",
            Self::LifecycleEnact => "10-lifecycle-enact",
            Self::Closeout => "11-final-orchestrator-report",
        }
    }

    /// The default soft cap, in minutes of active time (spec 1 §6, D9).
    #[must_use]
    pub const fn soft_cap_minutes(self) -> u32 {
        match self {
            Self::GrantProbe => 1,
            Self::SourcePin | Self::StructuralVerify => 2,
            Self::Mark | Self::Backup | Self::LegBRecord | Self::WriteVerify | Self::Closeout => 5,
            Self::Cutplan | Self::CutLegA => 10,
            Self::LifecycleEnact => 15,
        }
    }

    /// The stage in which the phase runs.
    #[must_use]
    pub const fn from(self) -> Stage {
        match self {
            Self::SourcePin => Stage::Pending,
            Self::Mark => Stage::SourcePinned,
            Self::Cutplan => Stage::Marked,
            Self::Backup => Stage::CutplanOk,
            Self::GrantProbe => Stage::PreWriteBackupTaken,
            Self::CutLegA => Stage::AwaitingCutAuthorization,
            Self::StructuralVerify => Stage::CutLegACommitted,
            Self::LegBRecord => Stage::StructuralVerified,
            Self::WriteVerify => Stage::LegBRecorded,
            Self::LifecycleEnact => Stage::AwaitingLifecycleAuthorization,
            Self::Closeout => Stage::LifecycleEnacted,
        }
    }

    /// The stage that the phase reaches.
    #[must_use]
    pub const fn to(self) -> Stage {
        match self {
            Self::SourcePin => Stage::SourcePinned,
            Self::Mark => Stage::Marked,
            Self::Cutplan => Stage::CutplanOk,
            Self::Backup => Stage::PreWriteBackupTaken,
            Self::GrantProbe => Stage::GrantsProbed,
            Self::CutLegA => Stage::CutLegACommitted,
            Self::StructuralVerify => Stage::StructuralVerified,
            Self::LegBRecord => Stage::LegBRecorded,
            Self::WriteVerify => Stage::WriteVerified,
            Self::LifecycleEnact => Stage::LifecycleEnacted,
            Self::Closeout => Stage::CloseoutReported,
        }
    }

    /// The phase that runs in `stage`; `None` where a request is published next, and at the end.
    #[must_use]
    pub fn at_stage(stage: Stage) -> Option<Self> {
        Self::ALL.iter().copied().find(|phase| phase.from() == stage)
    }

    /// The phase after this one.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::from_number(self.number() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::run::RUN;

    #[test]
    fn phases_agree_with_the_table() {
        assert_eq!(Phase::ALL.len(), usize::from(Phase::COUNT));
        for (i, &phase) in Phase::ALL.iter().enumerate() {
            assert_eq!(usize::from(phase.number()), i + 1);
            assert_eq!(Phase::from_number(phase.number()), Some(phase));
            assert!(phase.file_stem().starts_with(&std::format!("{:02}-", phase.number())));
            assert_eq!(Phase::from_gate(phase.gate()), Some(phase));
            assert_eq!(Phase::at_stage(phase.from()), Some(phase));
            let row = RUN.rows().iter().find(|r| r.gates.contains(&phase.gate())).unwrap();
            assert_eq!((row.from, row.to), (phase.from(), phase.to()));
        }
        assert_eq!(Phase::from_number(0), None);
        assert_eq!(Phase::Closeout.next(), None);
        for stage in [Stage::GrantsProbed, Stage::WriteVerified, Stage::CloseoutReported] {
            assert_eq!(Phase::at_stage(stage), None);
        }
    }

    #[test]
    fn soft_caps_sum_to_the_specification_total() {
        assert_eq!(Phase::ALL.iter().map(|p| p.soft_cap_minutes()).sum::<u32>(), 65);
    }
}
