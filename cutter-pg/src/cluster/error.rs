//! Why the private server cannot be used, and what to do about it.

use std::path::{Path, PathBuf};

use cutter_core::port::{PortError, PortErrorKind};

use crate::error::{PORT, PgError};

/// A failure around the private server. `Display` says what, where and the next step.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// PostgreSQL is not installed, or not where it was looked for.
    #[error(
        "{looked_for} not found (looked in: {looked_in}). Install it: {install}; or set a connection string"
    )]
    NotInstalled {
        /// What was looked for, say `PostgreSQL 14 or newer (initdb, pg_ctl, postgres)`.
        looked_for: String,
        /// The folders looked at.
        looked_in: String,
        /// The command that installs it here.
        install: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A tool of PostgreSQL failed.
    #[error("{tool} failed: {output}")]
    Tool {
        /// Which tool.
        tool: &'static str,
        /// Its last lines, or the server's log.
        output: String,
    },
    /// Another process is starting or stopping the server for too long.
    #[error("another process has held {0} for more than {seconds} s; see who with: fuser {0}", .path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long we waited.
        seconds: u64,
    },
    /// A file of the home folder is not what was written.
    #[error("{} does not read back: {message}", .path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
    /// This process may not run the server.
    #[error("{0}")]
    Denied(String),
    /// The server is not running.
    #[error("the private server under {} is not running; start it: cutter db start", .home.display())]
    NotRunning {
        /// The home folder.
        home: PathBuf,
    },
    /// The operating system gave no random bytes.
    #[error("no random bytes from the operating system: {0}")]
    Randomness(getrandom::Error),
    /// The server runs but refused what was asked.
    #[error("the private server refused: {0}")]
    Database(#[from] PgError),
}

impl ClusterError {
    /// Builds an [`ClusterError::Io`].
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// The same failure as the port reports it.
    #[must_use]
    pub fn to_port(&self, op: impl Into<String>) -> PortError {
        let kind = match self {
            Self::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull => PortErrorKind::Full,
                std::io::ErrorKind::PermissionDenied => PortErrorKind::Denied,
                _ => PortErrorKind::Unavailable,
            },
            Self::Busy { .. } => PortErrorKind::Busy,
            Self::Corrupt { .. } => PortErrorKind::Corrupt,
            Self::Denied(_) => PortErrorKind::Denied,
            Self::Database(error) => error.kind(),
            Self::NotInstalled { .. } | Self::Tool { .. } | Self::NotRunning { .. } | Self::Randomness(_) => {
                PortErrorKind::Unavailable
            }
        };
        PortError::new(PORT, op, kind, self.to_string())
    }
}

impl From<getrandom::Error> for ClusterError {
    fn from(error: getrandom::Error) -> Self {
        Self::Randomness(error)
    }
}
