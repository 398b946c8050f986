//! The run machine (spec 1): one orchestrated cut, fourteen stages and three families of ends.
//!
//! The table holds the thirteen forward rows and nothing else. Endings are outcomes, not rows
//! (D1, D2): a [`RunState`] is at a stage, or it failed a gate there, or was stopped there for
//! a reason, or was voided. The functions [`RunState::fail`], [`RunState::stop`],
//! [`RunState::resume`] and [`RunState::void`] are pure and say which of these is legal:
//!
//! - a failed run is final but for a void (D22);
//! - a stopped run resumes at the stage that it kept (D2); whether it *may* resume (a plain
//!   resume, or only with a signed word) is the stop's class, `stop::StopClass`;
//! - nothing is voided once its units are enacted (D10);
//! - a stop that needs a human's word is never replaced by one that does not.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::{IllegalTransition, Row, Spelled as _, TransitionTable, UnknownName, deterministic, spelled};
use crate::machine::stop::{Slug, StopClass, StopReason};

pub use super::phase::Phase;

/// The fourteen stages of spec 1 §1, in order (`Ord` is progress).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Created; nothing ran.
    Pending,
    /// Manifest digest, region span and region sha are pinned.
    SourcePinned,
    /// The region was marked and matches its pin.
    Marked,
    /// Two independent rebuilds gave one writer digest.
    CutplanOk,
    /// The encrypted backup is stored and its sha pinned.
    PreWriteBackupTaken,
    /// Grants were surveyed.
    GrantsProbed,
    /// Parked at the first sovereign gate.
    AwaitingCutAuthorization,
    /// Units, versions and anchors are committed as drafts.
    CutLegACommitted,
    /// The eleven structural checks passed.
    StructuralVerified,
    /// The governance rows of the cut are committed.
    LegBRecorded,
    /// Another principal verified and signed.
    WriteVerified,
    /// Parked at the second sovereign gate.
    AwaitingLifecycleAuthorization,
    /// Every unit is enacted.
    LifecycleEnacted,
    /// The final report is uploaded and indexed: success.
    CloseoutReported,
}

spelled!(Stage, "run stage", {
    Pending => "pending",
    SourcePinned => "source_pinned",
    Marked => "marked",
    CutplanOk => "cutplan_ok",
    PreWriteBackupTaken => "pre_write_backup_taken",
    GrantsProbed => "grants_probed",
    AwaitingCutAuthorization => "awaiting_cut_authorization",
    CutLegACommitted => "cut_leg_a_committed",
    StructuralVerified => "structural_verified",
    LegBRecorded => "leg_b_recorded",
    WriteVerified => "write_verified",
    AwaitingLifecycleAuthorization => "awaiting_lifecycle_authorization",
    LifecycleEnacted => "lifecycle_enacted",
    CloseoutReported => "closeout_reported",
});

/// What arrives at a run. Only the first three have rows; the others lead to outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// A phase passed its gate and its document is uploaded.
    Advance,
    /// A sovereign gate's request document is published.
    RequestPublished,
    /// A valid approval arrived and the phase behind the gate passed.
    ApprovalReceived,
    /// An invariant did not hold.
    GateFailed,
    /// Anything of [`StopReason`].
    Stop,
    /// A stopped run goes on.
    Resume,
    /// The sovereign voids the run.
    Void,
}

spelled!(Trigger, "run trigger", {
    Advance => "advance",
    RequestPublished => "request_published",
    ApprovalReceived => "approval_received",
    GateFailed => "gate_failed",
    Stop => "stop",
    Resume => "resume",
    Void => "void",
});

/// The gates of spec 1 §3 and §4, spelled as there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateId {
    /// The version exists and its manifest digest agrees.
    SourcePin,
    /// The region agrees with its pin and the count is within bounds.
    Mark,
    /// Two rebuilds agree, every word is in its vocabulary.
    Cutplan,
    /// Encrypted, stored, hashed.
    Backup,
    /// Needed grants are there, no PUBLIC grant is.
    GrantProbe,
    /// Exactly N drafts, committed, under a genuine approval.
    CutLegA,
    /// The eleven structural booleans.
    StructuralVerify,
    /// Recorded once.
    LegBRecord,
    /// Verified once, by another principal.
    WriteVerify,
    /// All N enacted in one transaction.
    LifecycleEnact,
    /// Documents complete, run indexed.
    Closeout,
    /// The sovereign allows the cut.
    CutAuthz,
    /// The sovereign allows the enactment.
    LifecycleAuthz,
    /// Every failure and stop goes to the sovereign.
    FailureEscalation,
}

spelled!(GateId, "gate", {
    SourcePin => "IG_source_pin",
    Mark => "IG_mark",
    Cutplan => "IG_cutplan",
    Backup => "IG_backup",
    GrantProbe => "IG_grant_probe",
    CutLegA => "IG_cut_leg_a_execute",
    StructuralVerify => "IG_structural_verify",
    LegBRecord => "IG_leg_b_record",
    WriteVerify => "IG_write_verify",
    LifecycleEnact => "IG_lifecycle_enact_execute",
    Closeout => "IG_closeout",
    CutAuthz => "SG_cut_authz",
    LifecycleAuthz => "SG_lifecycle_authz",
    FailureEscalation => "SG_failure_escalation",
});

impl GateId {
    /// Whether a human decides (`SG_*`).
    #[must_use]
    pub const fn is_sovereign(self) -> bool {
        matches!(self, Self::CutAuthz | Self::LifecycleAuthz | Self::FailureEscalation)
    }

    /// What follows `failed_` in a stored state: the name without its `IG_` or `SG_`.
    #[must_use]
    pub fn failed_suffix(self) -> &'static str {
        self.as_str().get(3..).unwrap_or(self.as_str())
    }

    /// The gate of a `failed_<gate>` state.
    ///
    /// # Errors
    /// [`UnknownName`] if no gate has this suffix.
    pub fn from_failed_suffix(suffix: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().copied().find(|gate| gate.failed_suffix() == suffix);
        found.ok_or_else(|| UnknownName::new("failed gate", suffix, "a gate's name without IG_ or SG_"))
    }
}

use GateId as G;
use Stage as S;
use Trigger as T;

const fn row(from: S, trigger: T, gates: &'static [G], to: S) -> Row<S, T> {
    Row::keyed((from as u8, trigger as u8), from, trigger, gates, to)
}

const ROWS: &[Row<S, T>] = &[
    row(S::Pending, T::Advance, &[G::SourcePin], S::SourcePinned),
    row(S::SourcePinned, T::Advance, &[G::Mark], S::Marked),
    row(S::Marked, T::Advance, &[G::Cutplan], S::CutplanOk),
    row(S::CutplanOk, T::Advance, &[G::Backup], S::PreWriteBackupTaken),
    row(S::PreWriteBackupTaken, T::Advance, &[G::GrantProbe], S::GrantsProbed),
    row(S::GrantsProbed, T::RequestPublished, &[G::CutAuthz], S::AwaitingCutAuthorization),
    row(S::AwaitingCutAuthorization, T::ApprovalReceived, &[G::CutAuthz, G::CutLegA], S::CutLegACommitted),
    row(S::CutLegACommitted, T::Advance, &[G::StructuralVerify], S::StructuralVerified),
    row(S::StructuralVerified, T::Advance, &[G::LegBRecord], S::LegBRecorded),
    row(S::LegBRecorded, T::Advance, &[G::WriteVerify], S::WriteVerified),
    row(S::WriteVerified, T::RequestPublished, &[G::LifecycleAuthz], S::AwaitingLifecycleAuthorization),
    row(
        S::AwaitingLifecycleAuthorization,
        T::ApprovalReceived,
        &[G::LifecycleAuthz, G::LifecycleEnact],
        S::LifecycleEnacted,
    ),
    row(S::LifecycleEnacted, T::Advance, &[G::Closeout], S::CloseoutReported),
];
const _: () = assert!(deterministic(ROWS), "two run rows share (from, trigger)");

/// The table of spec 1 §2: each stage but the last has exactly one way forward.
pub static RUN: TransitionTable<Stage, Trigger> =
    TransitionTable::new("run", Stage::ALL, Stage::Pending, &[Stage::CloseoutReported], ROWS);

impl Stage {
    /// The trigger that this stage waits for; `None` at the end.
    #[must_use]
    pub fn awaits(self) -> Option<Trigger> {
        ROWS.iter().find(|row| row.from == self).map(|row| row.trigger)
    }

    /// The stage after this one; `None` at the end.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        ROWS.iter().find(|row| row.from == self).map(|row| row.to)
    }

    /// The sovereign gate at which a run in this stage is parked.
    #[must_use]
    pub const fn parked_at(self) -> Option<GateId> {
        match self {
            Self::AwaitingCutAuthorization => Some(GateId::CutAuthz),
            Self::AwaitingLifecycleAuthorization => Some(GateId::LifecycleAuthz),
            _ => None,
        }
    }

    /// Whether the units are enacted: from here on nothing can be voided (D10).
    #[must_use]
    pub fn is_enacted(self) -> bool {
        self >= Self::LifecycleEnacted
    }
}

/// Where a run stands: the sidecar's `state`, with the stage that an ending keeps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RunState {
    /// On its way, parked, or closed out.
    At(Stage),
    /// `failed_<gate>`: final but for a void.
    Failed {
        /// The gate that refused.
        gate: GateId,
        /// The stage in which it did.
        at: Stage,
    },
    /// `stopped_<reason>`: may go on at `at`.
    Stopped {
        /// The stage to resume at.
        at: Stage,
        /// The stop's suffix, see [`StopReason::state_suffix`].
        reason: Slug,
    },
    /// `voided_<reason>`: final, the document is free for a new run.
    Voided {
        /// The sovereign's reason.
        reason: Slug,
    },
}

const FAILED: &str = "failed_";
const STOPPED: &str = "stopped_";
const VOIDED: &str = "voided_";

impl RunState {
    /// The state of a run just created.
    pub const NEW: Self = Self::At(Stage::Pending);

    /// The stored text: a stage, `failed_<gate>`, `stopped_<reason>` or `voided_<reason>`.
    #[must_use]
    pub fn as_text(&self) -> String {
        self.to_string()
    }

    /// Reads a stored text. `kept` is the stage stored beside it: required for `failed_*` and
    /// `stopped_*`, ignored otherwise (the text alone says it).
    ///
    /// # Errors
    /// [`UnknownName`] if the text is no state, or the kept stage is missing or an end.
    pub fn parse(text: &str, kept: Option<Stage>) -> Result<Self, UnknownName> {
        let open = || match kept {
            Some(at) if at != Stage::CloseoutReported => Ok(at),
            Some(at) => Err(UnknownName::new("kept stage", at.as_str(), "a stage before closeout_reported")),
            None => Err(UnknownName::new("kept stage", "", "the stage in which the run ended")),
        };
        if let Some(gate) = text.strip_prefix(FAILED) {
            return Ok(Self::Failed { gate: GateId::from_failed_suffix(gate)?, at: open()? });
        }
        if let Some(reason) = text.strip_prefix(STOPPED) {
            return Ok(Self::Stopped { at: open()?, reason: reason.parse()? });
        }
        if let Some(reason) = text.strip_prefix(VOIDED) {
            return Ok(Self::Voided { reason: reason.parse()? });
        }
        text.parse().map(Self::At).map_err(|_| {
            UnknownName::new("run state", text, "a stage, failed_<gate>, stopped_<reason> or voided_<reason>")
        })
    }

    /// The stage: where it is, or where it ended; `None` for a voided run.
    #[must_use]
    pub const fn stage(&self) -> Option<Stage> {
        match self {
            Self::At(at) | Self::Failed { at, .. } | Self::Stopped { at, .. } => Some(*at),
            Self::Voided { .. } => None,
        }
    }

    /// What must be stored beside the text so that [`RunState::parse`] reads it back.
    #[must_use]
    pub const fn kept(&self) -> Option<Stage> {
        match self {
            Self::Failed { at, .. } | Self::Stopped { at, .. } => Some(*at),
            Self::At(_) | Self::Voided { .. } => None,
        }
    }

    /// Whether `resume` can never move it again: closed out, failed or voided. (Spec 1 lists
    /// `stopped_*` under terminal states too, but as resumable.)
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        match self {
            Self::At(stage) => matches!(stage, Stage::CloseoutReported),
            Self::Failed { .. } | Self::Voided { .. } => true,
            Self::Stopped { .. } => false,
        }
    }

    /// Whether the run ended well.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::At(Stage::CloseoutReported))
    }

    /// Whether a successor may claim the document: closed out or voided. A failed run keeps
    /// its claim until it is voided.
    #[must_use]
    pub const fn releases_claim(&self) -> bool {
        matches!(self, Self::At(Stage::CloseoutReported) | Self::Voided { .. })
    }

    /// Moves forward by the table.
    ///
    /// # Errors
    /// [`IllegalTransition`] if no row fits, or the run has ended or is stopped.
    pub fn step(&self, trigger: Trigger) -> Result<Self, IllegalTransition> {
        match self {
            Self::At(stage) => RUN.step(*stage, trigger).map(Self::At),
            _ => Err(self.illegal(trigger.spelling())),
        }
    }

    /// Ends at a gate whose invariants do not hold.
    ///
    /// # Errors
    /// [`IllegalTransition`] unless the run is at a stage before `closeout_reported`.
    pub fn fail(&self, gate: GateId) -> Result<Self, IllegalTransition> {
        match *self {
            Self::At(at) if at != Stage::CloseoutReported => Ok(Self::Failed { gate, at }),
            _ => Err(self.illegal(&(FAILED.to_owned() + gate.failed_suffix()))),
        }
    }

    /// Stops, keeping the stage. A stopped run may be stopped again, unless that would turn a
    /// stop that needs a human's word into one that does not.
    ///
    /// # Errors
    /// [`IllegalTransition`] if the run has ended, if the reason is one that a run's state
    /// never records ([`StopReason::is_recorded`]), or on such a downgrade.
    pub fn stop(&self, reason: &StopReason) -> Result<Self, IllegalTransition> {
        let to = || Self::Stopped { at: Stage::Pending, reason: reason.state_suffix() }.to_string();
        let at = match self {
            Self::At(at) if *at != Stage::CloseoutReported => *at,
            Self::Stopped { at, reason: held }
                if StopClass::of_suffix(held) == StopClass::Operational
                    || reason.class() == StopClass::Authority =>
            {
                *at
            }
            _ => return Err(self.illegal(&to())),
        };
        let suffix = reason.state_suffix();
        // a sovereign's word must not read back as another stop
        if !reason.is_recorded() || StopClass::of_suffix(&suffix) != reason.class() {
            return Err(self.illegal(&to()));
        }
        Ok(Self::Stopped { at, reason: suffix })
    }

    /// Goes on: a stopped run returns to the stage it kept, a run at a stage stays there
    /// (resume is idempotent). That the resume is *allowed* is for the caller to check first,
    /// by the stop's class.
    ///
    /// # Errors
    /// [`IllegalTransition`] for a failed run (void it and start anew, D22) and a voided one.
    pub fn resume(&self) -> Result<Self, IllegalTransition> {
        match self {
            Self::At(at) | Self::Stopped { at, .. } => Ok(Self::At(*at)),
            Self::Failed { .. } | Self::Voided { .. } => Err(self.illegal(Trigger::Resume.spelling())),
        }
    }

    /// Voids the run.
    ///
    /// # Errors
    /// [`IllegalTransition`] from `lifecycle_enacted` on, however the run ended there (D10),
    /// and for a run that is voided already.
    pub fn void(&self, reason: Slug) -> Result<Self, IllegalTransition> {
        match self.stage() {
            Some(at) if !at.is_enacted() => Ok(Self::Voided { reason }),
            _ => Err(self.illegal(&(VOIDED.to_owned() + reason.as_str()))),
        }
    }

    /// The targets that are legal now, families by their pattern.
    #[must_use]
    pub fn legal(&self) -> Vec<String> {
        let mut out = Vec::new();
        match self {
            Self::At(at) => {
                out.extend(at.next().map(|to| to.as_str().to_owned()));
                if *at != Stage::CloseoutReported {
                    out.extend(["failed_<gate>".to_owned(), "stopped_<reason>".to_owned()]);
                }
            }
            Self::Stopped { at, .. } => {
                out.extend([at.as_str().to_owned(), "stopped_<reason>".to_owned()]);
            }
            Self::Failed { .. } | Self::Voided { .. } => {}
        }
        if self.stage().is_some_and(|at| !at.is_enacted()) {
            out.push("voided_<reason>".to_owned());
        }
        out
    }

    fn illegal(&self, to: &str) -> IllegalTransition {
        IllegalTransition {
            machine: RUN.machine(),
            from: self.to_string(),
            to: to.to_owned(),
            legal: self.legal(),
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(stage) => f.write_str(stage.as_str()),
            Self::Failed { gate, .. } => write!(f, "{FAILED}{}", gate.failed_suffix()),
            Self::Stopped { reason, .. } => write!(f, "{STOPPED}{reason}"),
            Self::Voided { reason } => write!(f, "{VOIDED}{reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
