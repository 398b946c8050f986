//! Why a command ended without its result, for people and for machines alike: what
//! happened, which invariant, expected and observed, and the command to type next.

use cutter_core::driver::DriveError;
use cutter_core::machine::stop::StopReason;
use cutter_core::port::{Port, PortError, PortErrorKind};
use cutter_core::record::check::GateReport;
use serde::Serialize;

use crate::exit_code::Exit;

/// One rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Broken {
    /// Its stable name.
    pub(crate) invariant: String,
    /// What should be.
    pub(crate) expected: String,
    /// What is.
    pub(crate) observed: String,
}

/// A command's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// Stable: a `STOP_…` code, or a word of ours.
    pub(crate) code: String,
    /// What happened.
    pub(crate) what: String,
    /// The rules that do not hold.
    pub(crate) broken: Vec<Broken>,
    /// Commands to type next.
    pub(crate) next: Vec<String>,
}

/// What a command gives back.
pub(crate) type Outcome = Result<Exit, Failure>;

impl Failure {
    fn new(exit: Exit, code: &str, what: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), what: what.into(), broken: Vec::new(), next: Vec::new() }
    }

    /// The arguments, the configuration or an input file cannot be used.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, "usage", what)
    }

    /// A bug, or a state that cannot be.
    pub(crate) fn internal(what: impl Into<String>) -> Self {
        Self::new(Exit::INTERNAL, "internal", what)
    }

    /// Something of the surroundings does not work now.
    pub(crate) fn stopped(code: &str, what: impl Into<String>) -> Self {
        Self::new(Exit::STOPPED, code, what)
    }

    /// A gate would refuse.
    pub(crate) fn gate(what: impl Into<String>) -> Self {
        Self::new(Exit::FAILED, "gate", what)
    }

    /// No approval can be made or used.
    pub(crate) fn approval(what: impl Into<String>) -> Self {
        Self::new(Exit::APPROVAL, "approval", what)
    }

    /// Evidence does not match.
    pub(crate) fn evidence(what: impl Into<String>) -> Self {
        Self::new(Exit::EVIDENCE, "evidence", what)
    }

    /// No run has this id.
    pub(crate) fn no_run(run_id: &str) -> Self {
        Self::new(Exit::NO_RUN, "STOP_RUN_NOT_FOUND", format!("no such run: {run_id}"))
            .next(StopReason::RunNotFound.next_command(run_id))
    }

    /// Adds a rule that does not hold.
    pub(crate) fn broken(
        mut self,
        invariant: impl Into<String>,
        expected: impl Into<String>,
        observed: impl Into<String>,
    ) -> Self {
        self.broken.push(Broken {
            invariant: invariant.into(),
            expected: expected.into(),
            observed: observed.into(),
        });
        self
    }

    /// Adds a command to type next.
    pub(crate) fn next(mut self, command: impl Into<String>) -> Self {
        self.next.push(command.into());
        self
    }

    /// A file that cannot be read or written.
    pub(crate) fn io(op: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let what = format!("cannot {op} {}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::FileTooLarge => Self::stopped("STOP_DISK_FULL", what).next("cutter doctor"),
            _ => Self::usage(what),
        }
    }

    /// The machine form, the `error` of the one document on stdout.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": {
                "code": self.code,
                "exit_code": self.exit.code(),
                "message": self.what,
                "invariants": self.broken,
                "next": self.next,
            }
        })
    }
}

/// The failed checks of a gate's report.
pub(crate) fn broken_of(report: &GateReport) -> Vec<Broken> {
    let failed = report.checks.iter().filter(|check| !check.ok);
    failed
        .map(|check| Broken {
            invariant: check.invariant.clone(),
            expected: check.expected.clone(),
            observed: check.observed.clone(),
        })
        .collect()
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        let what = error.to_string();
        match (error.kind, error.port) {
            (PortErrorKind::Busy, Port::RunStore) => Self::new(Exit::BUSY, "STOP_RUN_BUSY", what),
            (PortErrorKind::Full, _) => Self::stopped("STOP_DISK_FULL", what).next("cutter doctor"),
            (PortErrorKind::NotFound, Port::Policy) => Self::usage(what).next("cutter approver import"),
            (PortErrorKind::Denied, Port::Policy) => {
                Self::usage(what).next("cutter approver add NAME --public-key FILE")
            }
            (PortErrorKind::Corrupt, Port::Policy) => Self::new(Exit::EVIDENCE, "STOP_STATE_CORRUPT", what)
                .next("cutter approver import --found-anew"),
            (PortErrorKind::Corrupt, _) => Self::new(Exit::EVIDENCE, "STOP_STATE_CORRUPT", what),
            (PortErrorKind::Conflict | PortErrorKind::Waits, _) => Self::new(Exit::FAILED, "conflict", what),
            (PortErrorKind::NotFound, _) => Self::usage(what),
            (PortErrorKind::Invalid, Port::Database) => {
                Self::stopped("STOP_SCHEMA_MISMATCH", what).next("cutter db status")
            }
            (PortErrorKind::Invalid, _) => Self::usage(what),
            (_, Port::Database | Port::BackupSource) => {
                Self::stopped("STOP_DATABASE_UNAVAILABLE", what).next("cutter doctor")
            }
            (_, Port::KnowledgeBase) => Self::stopped("STOP_KB_UPLOAD", what).next("cutter doctor"),
            _ => Self::stopped("unavailable", what).next("cutter doctor"),
        }
    }
}

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Self {
        let what = error.to_string();
        let of = |reason: &StopReason, run_id: &str, what: String| {
            Self::new(Exit::of(reason.exit_code()), &reason.code(), what).next(reason.next_command(run_id))
        };
        match error {
            DriveError::NotFound { run_id } => Self::no_run(run_id.as_str()),
            DriveError::Busy { run_id, .. } => of(&StopReason::RunBusy, run_id.as_str(), what),
            DriveError::Interrupted { run_id } => Self::stopped("interrupted", what)
                .next(format!("cutter orchestrate resume --run-id {run_id}")),
            DriveError::Fenced { run_id } => of(&StopReason::Fenced, run_id.as_str(), what),
            DriveError::ReplayConflict { run_id, .. } => {
                of(&StopReason::ReplayConflict, run_id.as_str(), what)
            }
            DriveError::Sidecar { run_id, error } => {
                use cutter_core::record::sidecar::SidecarError;
                let reason = match error {
                    SidecarError::Newer { .. } => StopReason::StateNewer,
                    _ => StopReason::StateCorrupt,
                };
                of(&reason, run_id.as_str(), what)
            }
            DriveError::ApprovalInvalid { report, .. } => {
                let mut failure = Self::approval(what);
                failure.code = StopReason::ApprovalInvalid.code().into_owned();
                failure.broken = broken_of(&report);
                failure
            }
            DriveError::NotNow(_) => Self::usage(what),
            DriveError::Port(error) => error.into(),
            DriveError::Internal(_) => Self::internal(what),
        }
    }
}

impl From<std::fmt::Error> for Failure {
    fn from(error: std::fmt::Error) -> Self {
        Self::internal(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_failure_has_an_exit_code_of_the_table_and_says_where() {
        use PortErrorKind as K;
        for kind in [K::Unavailable, K::Denied, K::Conflict, K::Corrupt, K::Busy, K::Full, K::Deadline] {
            for port in [Port::Database, Port::KnowledgeBase, Port::RunStore, Port::BackupTarget] {
                let failure = Failure::from(PortError::new(port, "op", kind, "text"));
                assert!([2, 3, 4, 6, 75].contains(&failure.exit.code()), "{port} {kind}: {failure:?}");
                assert!(failure.what.contains(&port.to_string()), "{failure:?}");
            }
        }
        let busy = Failure::from(PortError::new(Port::RunStore, "lock", K::Busy, "held"));
        assert_eq!(busy.exit, Exit::BUSY);
    }

    #[test]
    fn a_full_disk_is_a_stop_and_a_missing_file_is_usage() {
        let path = std::path::Path::new("/x");
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(Failure::io("write", path, &full).code, "STOP_DISK_FULL");
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(Failure::io("read", path, &missing).exit, Exit::USAGE);
    }
}
