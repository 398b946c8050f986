//! The one error of everything here that touches files.

use std::io;
use std::path::{Path, PathBuf};

use cutter_core::port::PortErrorKind;

/// A failed file operation: what, where, what was observed. The kind decides who must act
/// and is the one that the ports hand on.
#[derive(Debug, thiserror::Error)]
#[error("{op} {}: {detail} ({kind})", path.display())]
pub struct FileError {
    /// Who must act. `Full` promises that nothing was half-written.
    pub kind: PortErrorKind,
    /// What was being done, say `write`.
    pub op: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// Expected and observed, for people.
    pub detail: String,
}

/// The result of everything here that touches files.
pub type FileResult<T> = Result<T, FileError>;

impl FileError {
    pub(crate) fn new(
        kind: PortErrorKind,
        op: &'static str,
        path: impl AsRef<Path>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, op, path: path.as_ref().to_path_buf(), detail: detail.into() }
    }

    pub(crate) fn invalid(op: &'static str, path: impl AsRef<Path>, detail: impl Into<String>) -> Self {
        Self::new(PortErrorKind::Invalid, op, path, detail)
    }

    pub(crate) fn corrupt(op: &'static str, path: impl AsRef<Path>, detail: impl Into<String>) -> Self {
        Self::new(PortErrorKind::Corrupt, op, path, detail)
    }

    /// Sorts a system error. EFBIG (a size limit) counts as full; a process that wants to
    /// see it must not die of SIGXFSZ first, so programs catch or ignore that signal.
    pub(crate) fn io(op: &'static str, path: impl AsRef<Path>, error: &io::Error) -> Self {
        use rustix::io::Errno;
        let kind = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => PortErrorKind::Full,
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => PortErrorKind::Denied,
            Some(Errno::NOENT) => PortErrorKind::NotFound,
            Some(Errno::LOOP | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::ISDIR) => PortErrorKind::Invalid,
            _ => PortErrorKind::Unavailable,
        };
        let detail = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP | Errno::NOTDIR) => {
                format!("{error}; a symbolic link or a file stands where a folder was expected")
            }
            _ => error.to_string(),
        };
        Self::new(kind, op, path, detail)
    }
}
