//! What an approval is for.

use crate::machine::run::GateId;
use crate::machine::spelled;

/// What a person is asked for; stored, it is the `approval_type` of an ask and of its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To cut (SG_1).
    Cut,
    /// To enact (SG_2).
    Lifecycle,
    /// To let a stopped run go on.
    Resume,
    /// To accept observed drift.
    Drift,
    /// To void the run.
    Void,
}

spelled!(Purpose, "approval type", {
    Cut => "cut_authorization",
    Lifecycle => "lifecycle_enactment",
    Resume => "stop_resume",
    Drift => "drift_ack",
    Void => "void",
});

impl Purpose {
    /// The word that people type for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Lifecycle => "lifecycle",
            Self::Resume => "resume",
            Self::Drift => "drift",
            Self::Void => "void",
        }
    }

    /// What an approval that opens a gate of the run is for.
    #[must_use]
    pub const fn at(gate: GateId) -> Self {
        match gate {
            GateId::CutAuthz => Self::Cut,
            _ => Self::Lifecycle,
        }
    }

    /// The gate that it answers.
    #[must_use]
    pub const fn gate(self) -> GateId {
        match self {
            Self::Cut => GateId::CutAuthz,
            Self::Lifecycle => GateId::LifecycleAuthz,
            Self::Resume | Self::Drift | Self::Void => GateId::FailureEscalation,
        }
    }

    /// Whether it opens a gate of the run; else it answers a stop.
    #[must_use]
    pub const fn is_at_a_gate(self) -> bool {
        matches!(self, Self::Cut | Self::Lifecycle)
    }
}
