//! Files that somebody names by a path: opened without waiting, and only if they are plain files.
//!
//! A pipe, a socket or a device may block for ever or never end, so it is refused by what it is, before
//! a byte is read. Links are followed: the path is the caller's own choice. How much is read is
//! bounded too, whatever the file says of its size.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::file_error::{FileError, FileResult};

/// Opens a plain file for reading, at once.
///
/// # Errors
/// It is not there, may not be read, or is no plain file (kind `Invalid`).
pub fn open(path: &Path) -> FileResult<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let failed = |e: rustix::io::Errno| FileError::io("open", path, &e.into());
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    plain(File::from(fd), path)
}

/// The file, if it is a plain one.
pub(crate) fn plain(file: File, path: &Path) -> FileResult<File> {
    let stat = rustix::fs::fstat(&file).map_err(|e| FileError::io("inspect", path, &e.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(file),
        other => {
            let detail = format!("expected a regular file, observed {other:?}");
            Err(FileError::invalid("open", path, detail))
        }
    }
}

/// What stands in a plain file, if that is at most `limit` bytes; `None` where it is more. No more than
/// one byte beyond the limit is read.
///
/// # Errors
/// As [`open`], and where reading fails.
pub fn read(path: &Path, limit: u64) -> FileResult<Option<Vec<u8>>> {
    read_open(open(path)?, path, limit)
}

pub(crate) fn read_open(file: File, path: &Path, limit: u64) -> FileResult<Option<Vec<u8>>> {
    let failed = |e: std::io::Error| FileError::io("read", path, &e);
    let size = file.metadata().map_err(failed)?.len();
    if size > limit {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok((length <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutter_core::port::PortErrorKind;
    use rustix::fs::{CWD, mknodat};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _listens = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let started = Instant::now();
        for path in [&pipe, Path::new("/dev/zero"), Path::new("/dev/null"), folder.path()] {
            let error = read(path, 10).unwrap_err();
            assert_eq!(error.kind, PortErrorKind::Invalid, "{error}");
            assert!(error.detail.contains("expected a regular file"), "{error}");
        }
        assert!(read(&socket, 10).is_err());
        assert_eq!(read(&folder.path().join("none"), 10).unwrap_err().kind, PortErrorKind::NotFound);
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, b"12345").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link, 5).unwrap().as_deref(), Some(&b"12345"[..]));
        assert_eq!(read(&file, 4).unwrap(), None);
        // It says that it is empty, and is not.
        assert_eq!(read(Path::new("/proc/self/status"), 4).unwrap(), None);
    }
}
