//! Stops: every reason for which `cutter` does not go on, as data (SG_3, spec 1 §3).
//!
//! A reason has a code (`STOP_…`), the suffix that it gives the run's state, a class that says
//! who may let the run go on, an exit code, and the command to type next. The generated page
//! `docs/stop-codes.md` lists [`StopReason::examples`].
//!
//! Not every reason is recorded in the run's state: a process that finds the run locked, say,
//! must not write to it ([`StopReason::is_recorded`]).

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::machine::phase::Phase;
use crate::machine::run::GateId;
use crate::machine::{UnknownName, spelled};

mod slug;
pub use slug::Slug;

/// Who may let a run go on (D23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopClass {
    /// Once the trouble is gone, a plain `resume`.
    Operational,
    /// Only the sovereign's signed word.
    Authority,
    /// Nobody: void it and start a new run.
    Terminal,
}

spelled!(StopClass, "stop class", {
    Operational => "operational",
    Authority => "authority",
    Terminal => "terminal",
});

impl StopClass {
    /// The class of a `stopped_<suffix>` state. A suffix that is no code's own is a
    /// sovereign's, so it needs the sovereign's word again.
    #[must_use]
    pub fn of_suffix(suffix: &Slug) -> Self {
        let found = Code::ALL.iter().find(|code| code.suffix() == Some(suffix.as_str()));
        found.map_or(Self::Authority, |code| code.class())
    }
}

/// Which cap was passed (spec 1 §6, D34).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cap {
    /// The soft cap of a phase.
    Soft(Phase),
    /// The hard cap of the run.
    Hard,
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Soft(phase) => write!(f, "soft_{phase}"),
            Self::Hard => f.write_str("hard"),
        }
    }
}

impl FromStr for Cap {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text.strip_prefix("soft_") {
            Some(phase) => phase.parse().map(Self::Soft),
            None if text == "hard" => Ok(Self::Hard),
            None => Err(UnknownName::new("cap", text, "hard or soft_<phase>")),
        }
    }
}

/// Why `cutter` does not go on. The text form (`Display`, `FromStr`, serde) is the code, with
/// what belongs to it after a colon: `STOP_AND_ESCALATE:soft_mark`, `STOP_SOVEREIGN:hold`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The document could not be uploaded after all retries (spec 2 §3).
    KbUpload,
    /// Another document stands under the name (PROTOCOL §1).
    KbConflict,
    /// The database cannot be reached.
    DatabaseUnavailable,
    /// The backup target cannot be written now.
    BackupUnavailable,
    /// No space is left where the run must write.
    DiskFull,
    /// An entry that this cut depends on is not verified yet (G-CUT-DEPS, D30).
    DependsOn,
    /// An embedder's own gate refuses to close a run whose units are in force (D47).
    OwnGate,
    /// A duty's key is not the one that is registered (D46).
    DutyKey,
    /// A newer driver holds the run's fence (PROTOCOL §3).
    Fenced,
    /// Another process holds the run's lock (spec 1 §7).
    RunBusy,
    /// A bug was caught at the driver's edge (D36).
    Internal,
    /// The database schema is not the one this binary knows.
    SchemaMismatch,
    /// No run has this id (spec 1 §7).
    RunNotFound,
    /// The sidecar was written by a newer version.
    StateNewer,
    /// The sidecar does not read back as what was written.
    StateCorrupt,
    /// The gate waits and no approval was named or found.
    ApprovalMissing,
    /// The approval is not genuine, not for this request, used, expired or not permitted.
    ApprovalInvalid,
    /// An approval that counted was changed afterwards (D14).
    ApprovalChanged,
    /// The sovereign refused (D32).
    Refused,
    /// The sovereign stopped the run, in their words. Build with [`StopReason::sovereign`].
    Sovereign(Slug),
    /// A live value differs from its pin; the slug is the dimension (spec 1 §8).
    Drift(Slug),
    /// A cap on active time was passed (spec 1 §6).
    AndEscalate(Cap),
    /// Leg A is committed, leg B is not and cannot follow (spec 2 §7).
    BetweenLegAAndLegB,
    /// A run for this document exists already and this is no exact replay (spec 2 §5, D7).
    ReplayConflict,
    /// A gate's invariant does not hold: the run is `failed_<gate>`.
    GateFailed(GateId),
}

/// A stop's code without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    KbUpload,
    KbConflict,
    DatabaseUnavailable,
    BackupUnavailable,
    DiskFull,
    DependsOn,
    OwnGate,
    DutyKey,
    Fenced,
    RunBusy,
    Internal,
    SchemaMismatch,
    RunNotFound,
    StateNewer,
    StateCorrupt,
    ApprovalMissing,
    ApprovalInvalid,
    ApprovalChanged,
    Refused,
    Sovereign,
    Drift,
    AndEscalate,
    BetweenLegAAndLegB,
    ReplayConflict,
    GateFailed,
}

spelled!(Code, "stop code", {
    KbUpload => "STOP_KB_UPLOAD",
    KbConflict => "STOP_KB_CONFLICT",
    DatabaseUnavailable => "STOP_DATABASE_UNAVAILABLE",
    BackupUnavailable => "STOP_BACKUP_UNAVAILABLE",
    DiskFull => "STOP_DISK_FULL",
    DependsOn => "STOP_DEPENDS_ON",
    OwnGate => "STOP_OWN_GATE",
    DutyKey => "STOP_DUTY_KEY",
    Fenced => "STOP_FENCED",
    RunBusy => "STOP_RUN_BUSY",
    Internal => "STOP_INTERNAL",
    SchemaMismatch => "STOP_SCHEMA_MISMATCH",
    RunNotFound => "STOP_RUN_NOT_FOUND",
    StateNewer => "STOP_STATE_NEWER",
    StateCorrupt => "STOP_STATE_CORRUPT",
    ApprovalMissing => "STOP_APPROVAL_MISSING",
    ApprovalInvalid => "STOP_APPROVAL_INVALID",
    ApprovalChanged => "STOP_APPROVAL_CHANGED",
    Refused => "STOP_REFUSED",
    Sovereign => "STOP_SOVEREIGN",
    Drift => "STOP_DRIFT",
    AndEscalate => "STOP_AND_ESCALATE",
    BetweenLegAAndLegB => "STOP_BETWEEN_LEG_A_AND_LEG_B",
    ReplayConflict => "STOP_REPLAY_CONFLICT",
    GateFailed => "STOP_GATE_FAILED",
});

impl Code {
    /// The state suffix that is this code's own; `None` for those that depend on their data.
    const fn suffix(self) -> Option<&'static str> {
        Some(match self {
            Self::KbUpload => "kb_upload",
            Self::KbConflict => "kb_conflict",
            Self::DatabaseUnavailable => "database_unavailable",
            Self::BackupUnavailable => "backup_unavailable",
            Self::DiskFull => "disk_full",
            Self::DependsOn => "depends_on",
            Self::OwnGate => "own_gate",
            Self::DutyKey => "duty_key",
            Self::Fenced => "fenced",
            Self::RunBusy => "run_busy",
            Self::Internal => "internal_error",
            Self::SchemaMismatch => "schema_mismatch",
            Self::RunNotFound => "run_not_found",
            Self::StateNewer => "state_newer",
            Self::StateCorrupt => "state_corrupt",
            Self::ApprovalMissing => "approval_missing",
            Self::ApprovalInvalid => "approval_invalid",
            Self::ApprovalChanged => "approval_changed",
            Self::Refused => "refused",
            Self::Drift => "drift",
            Self::AndEscalate => "and_escalate",
            Self::BetweenLegAAndLegB => "between_leg_a_and_leg_b",
            Self::ReplayConflict => "replay_conflict",
            Self::Sovereign | Self::GateFailed => return None,
        })
    }

    const fn class(self) -> StopClass {
        match self {
            Self::KbUpload
            | Self::KbConflict
            | Self::DatabaseUnavailable
            | Self::BackupUnavailable
            | Self::DiskFull
            | Self::DependsOn
            | Self::OwnGate
            | Self::DutyKey
            | Self::Fenced
            | Self::RunBusy
            | Self::Internal
            | Self::SchemaMismatch
            | Self::RunNotFound
            | Self::StateNewer
            | Self::StateCorrupt => StopClass::Operational,
            Self::ApprovalMissing
            | Self::ApprovalInvalid
            | Self::ApprovalChanged
            | Self::Refused
            | Self::Sovereign
            | Self::Drift
            | Self::AndEscalate
            | Self::BetweenLegAAndLegB => StopClass::Authority,
            Self::ReplayConflict | Self::GateFailed => StopClass::Terminal,
        }
    }

    const fn doc(self) -> &'static str {
        match self {
            Self::KbUpload => "a document could not be uploaded after all retries",
            Self::KbConflict => "another document stands under the name in the knowledge base",
            Self::DatabaseUnavailable => "the database cannot be reached",
            Self::BackupUnavailable => "the backup target cannot be written now",
            Self::DiskFull => "no space is left where the run must write",
            Self::DependsOn => "an entry that this cut depends on is not verified yet",
            Self::OwnGate => "a rule of this house refuses to close the run; its units are in force",
            Self::DutyKey => "a duty's key is not the one that is registered; nothing was signed with it",
            Self::Fenced => "a newer driver holds the run's fence; this one wrote nothing more",
            Self::RunBusy => "another process holds the run's lock",
            Self::Internal => "a bug in cutter was caught; the run keeps its state",
            Self::SchemaMismatch => "the database schema is older or newer than this binary knows",
            Self::RunNotFound => "no run has this id",
            Self::StateNewer => "the sidecar was written by a newer version of cutter",
            Self::StateCorrupt => "the sidecar does not read back as what was written",
            Self::ApprovalMissing => "the gate waits and no approval was named or found",
            Self::ApprovalInvalid => {
                "the approval is not genuine, does not fit the request, is used or expired"
            }
            Self::ApprovalChanged => "an approval that counted was changed afterwards",
            Self::Refused => "the sovereign refused the request",
            Self::Sovereign => "the sovereign stopped the run",
            Self::Drift => "a live value differs from its pin",
            Self::AndEscalate => "a cap on active time was passed",
            Self::BetweenLegAAndLegB => "leg A is committed and leg B cannot follow by itself",
            Self::ReplayConflict => "a run for this document exists already and is no exact replay",
            Self::GateFailed => "an invariant of a gate does not hold; the run is failed_<gate>",
        }
    }
}

impl StopReason {
    /// Every code's text without what belongs to it, in the order of the documentation.
    pub const ALL: &'static [&'static str] = &{
        let mut out = [""; Code::ALL.len()];
        let mut i = 0;
        while i < out.len() {
            out[i] = Code::ALL[i].as_str();
            i += 1;
        }
        out
    };

    /// A sovereign stop.
    ///
    /// # Errors
    /// [`UnknownName`] if the reason is the suffix of another stop: `stopped_<reason>` must
    /// say one thing.
    pub fn sovereign(reason: Slug) -> Result<Self, UnknownName> {
        if Code::ALL.iter().any(|code| code.suffix() == Some(reason.as_str())) {
            return Err(UnknownName::new(
                "sovereign reason",
                reason.as_str(),
                "a word that no stop code uses",
            ));
        }
        Ok(Self::Sovereign(reason))
    }

    const fn kind(&self) -> Code {
        match self {
            Self::KbUpload => Code::KbUpload,
            Self::KbConflict => Code::KbConflict,
            Self::DatabaseUnavailable => Code::DatabaseUnavailable,
            Self::BackupUnavailable => Code::BackupUnavailable,
            Self::DiskFull => Code::DiskFull,
            Self::DependsOn => Code::DependsOn,
            Self::OwnGate => Code::OwnGate,
            Self::DutyKey => Code::DutyKey,
            Self::Fenced => Code::Fenced,
            Self::RunBusy => Code::RunBusy,
            Self::Internal => Code::Internal,
            Self::SchemaMismatch => Code::SchemaMismatch,
            Self::RunNotFound => Code::RunNotFound,
            Self::StateNewer => Code::StateNewer,
            Self::StateCorrupt => Code::StateCorrupt,
            Self::ApprovalMissing => Code::ApprovalMissing,
            Self::ApprovalInvalid => Code::ApprovalInvalid,
            Self::ApprovalChanged => Code::ApprovalChanged,
            Self::Refused => Code::Refused,
            Self::Sovereign(_) => Code::Sovereign,
            Self::Drift(_) => Code::Drift,
            Self::AndEscalate(_) => Code::AndEscalate,
            Self::BetweenLegAAndLegB => Code::BetweenLegAAndLegB,
            Self::ReplayConflict => Code::ReplayConflict,
            Self::GateFailed(_) => Code::GateFailed,
        }
    }

    /// The code: `STOP_KB_UPLOAD`, `STOP_DRIFT_row_count`, ….
    #[must_use]
    pub fn code(&self) -> Cow<'static, str> {
        match self {
            Self::Drift(dimension) => Cow::Owned(format!("STOP_DRIFT_{dimension}")),
            _ => Cow::Borrowed(self.kind().as_str()),
        }
    }

    /// What follows `stopped_` in the run's state (for a failed gate: what follows `failed_`).
    #[must_use]
    pub fn state_suffix(&self) -> Slug {
        match (self, self.kind().suffix()) {
            (_, Some(suffix)) => Slug::known(suffix),
            (Self::Sovereign(reason), None) => reason.clone(),
            (Self::GateFailed(gate), None) => Slug::known(gate.failed_suffix()),
            (_, None) => Slug::known("internal_error"),
        }
    }

    /// Whether the stop becomes the run's state. The others are refusals that leave the run as
    /// it is: another process holds it, there is no run, its sidecar cannot be trusted, or the
    /// gate simply keeps waiting.
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        !matches!(
            self,
            Self::RunBusy
                | Self::RunNotFound
                | Self::StateNewer
                | Self::StateCorrupt
                | Self::SchemaMismatch
                | Self::ApprovalMissing
                | Self::ApprovalInvalid
                | Self::ReplayConflict
                | Self::GateFailed(_)
        )
    }

    /// Who may let the run go on.
    #[must_use]
    pub const fn class(&self) -> StopClass {
        self.kind().class()
    }

    /// The process's exit code (DESIGN §8).
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::KbUpload
            | Self::KbConflict
            | Self::DatabaseUnavailable
            | Self::BackupUnavailable
            | Self::DiskFull
            | Self::DependsOn
            | Self::OwnGate
            | Self::DutyKey
            | Self::Fenced
            | Self::SchemaMismatch
            | Self::StateNewer
            | Self::Sovereign(_)
            | Self::Drift(_)
            | Self::AndEscalate(_)
            | Self::BetweenLegAAndLegB => 3,
            Self::ReplayConflict | Self::GateFailed(_) => 4,
            Self::ApprovalMissing | Self::ApprovalInvalid | Self::ApprovalChanged | Self::Refused => 5,
            Self::StateCorrupt => 6,
            Self::RunNotFound => 66,
            Self::RunBusy => 75,
        }
    }

    /// One line for people: what the stop means.
    #[must_use]
    pub const fn doc(&self) -> &'static str {
        self.kind().doc()
    }

    /// The command to type next.
    #[must_use]
    pub fn next_command(&self, run_id: &str) -> String {
        let (resume, approve) = ("cutter orchestrate resume --run-id", "cutter sovereign approve --run-id");
        match self {
            Self::KbUpload
            | Self::DatabaseUnavailable
            | Self::BackupUnavailable
            | Self::DiskFull
            | Self::DependsOn
            | Self::OwnGate
            | Self::Fenced
            | Self::Drift(_)
            | Self::Internal => format!("{resume} {run_id}"),
            Self::KbConflict => format!("cutter kb restore --run-id {run_id}"),
            Self::DutyKey => "cutter duty-key list".to_owned(),
            Self::StateCorrupt => format!("cutter orchestrate recover --run-id {run_id}"),
            Self::RunBusy => format!("cutter why --run-id {run_id}"),
            Self::SchemaMismatch => "cutter db status".to_owned(),
            Self::StateNewer => "cutter doctor".to_owned(),
            Self::RunNotFound => "cutter orchestrate list".to_owned(),
            Self::ApprovalMissing | Self::ApprovalInvalid => {
                format!("cutter sovereign show --run-id {run_id}")
            }
            Self::ApprovalChanged
            | Self::Refused
            | Self::Sovereign(_)
            | Self::AndEscalate(_)
            | Self::BetweenLegAAndLegB => format!("{approve} {run_id} --for resume"),
            Self::ReplayConflict => format!("cutter orchestrate status --run-id {run_id}"),
            Self::GateFailed(_) => format!("{approve} {run_id} --for void"),
        }
    }

    /// One reason of every code, for the generated documentation and for tests.
    #[must_use]
    pub fn examples() -> Vec<Self> {
        let example = |code: &Code| match code {
            Code::KbUpload => Self::KbUpload,
            Code::KbConflict => Self::KbConflict,
            Code::DatabaseUnavailable => Self::DatabaseUnavailable,
            Code::BackupUnavailable => Self::BackupUnavailable,
            Code::DiskFull => Self::DiskFull,
            Code::DependsOn => Self::DependsOn,
            Code::OwnGate => Self::OwnGate,
            Code::DutyKey => Self::DutyKey,
            Code::Fenced => Self::Fenced,
            Code::RunBusy => Self::RunBusy,
            Code::Internal => Self::Internal,
            Code::SchemaMismatch => Self::SchemaMismatch,
            Code::RunNotFound => Self::RunNotFound,
            Code::StateNewer => Self::StateNewer,
            Code::StateCorrupt => Self::StateCorrupt,
            Code::ApprovalMissing => Self::ApprovalMissing,
            Code::ApprovalInvalid => Self::ApprovalInvalid,
            Code::ApprovalChanged => Self::ApprovalChanged,
            Code::Refused => Self::Refused,
            Code::Sovereign => Self::Sovereign(Slug::known("text_under_review")),
            Code::Drift => Self::Drift(Slug::known("row_count")),
            Code::AndEscalate => Self::AndEscalate(Cap::Hard),
            Code::BetweenLegAAndLegB => Self::BetweenLegAAndLegB,
            Code::ReplayConflict => Self::ReplayConflict,
            Code::GateFailed => Self::GateFailed(GateId::Mark),
        };
        Code::ALL.iter().map(example).collect()
    }
}

mod spelling;
#[cfg(test)]
mod tests;
