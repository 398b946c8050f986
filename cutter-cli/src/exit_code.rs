//! The process's exit codes (DESIGN §8). Stable: scripts rely on them.
//!
//! | code | means |
//! | --- | --- |
//! | 0 | done, or paused at a gate as asked (the JSON says which) |
//! | 1 | internal error |
//! | 2 | usage: arguments, configuration, or a file that cannot be used |
//! | 3 | stopped, resumable (`STOP_*`) |
//! | 4 | failed gate (terminal), or a conflict with another run |
//! | 5 | approval missing, refused or invalid |
//! | 6 | the evidence does not match |
//! | 7 | incomplete: nothing fails, but something that must be checked could not be |
//! | 66 | no such run |
//! | 75 | busy: another process holds the run |

use std::process::ExitCode;

/// An exit code of `cutter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exit(u8);

impl Exit {
    /// Done, or paused as asked.
    pub(crate) const DONE: Self = Self(0);
    /// A bug.
    pub(crate) const INTERNAL: Self = Self(1);
    /// The command line, the configuration, or an input file.
    pub(crate) const USAGE: Self = Self(2);
    /// Stopped; may go on.
    pub(crate) const STOPPED: Self = Self(3);
    /// Failed at a gate, or in conflict with another run.
    pub(crate) const FAILED: Self = Self(4);
    /// No valid approval.
    pub(crate) const APPROVAL: Self = Self(5);
    /// Evidence does not match.
    pub(crate) const EVIDENCE: Self = Self(6);
    /// Nothing fails, but not everything was checked.
    pub(crate) const INCOMPLETE: Self = Self(7);
    /// No such run.
    pub(crate) const NO_RUN: Self = Self(66);
    /// Another process holds the run.
    pub(crate) const BUSY: Self = Self(75);

    /// The code of a stop, which knows its own.
    pub(crate) const fn of(code: u8) -> Self {
        Self(code)
    }

    /// The number.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// The table for `cutter help`.
pub(crate) const TABLE: &str = "\
Exit codes:
   0  done, or paused at a gate as asked
   1  internal error
   2  usage: arguments, configuration or input file
   3  stopped, resumable (STOP_*)
   4  failed gate, or conflict with another run
   5  approval missing, refused or invalid
   6  evidence does not match
   7  incomplete: nothing fails, but not everything could be checked
  66  no such run
  75  busy: another process holds the run";
