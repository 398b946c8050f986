//! Advisory locks: `flock(2)`, which the system releases when the process dies.
//!
//! A lock file is never unlinked (another process may wait on it) and its descriptor is
//! close-on-exec, so no child keeps the lock. `flock` and `fcntl` locks do not exclude each
//! other: a program that takes an fcntl lock on the same file is not held off.

use std::fs::File;
use std::time::{Duration, Instant};

use cutter_core::port::PortErrorKind;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::atomic_file::Folder;
use crate::file_error::{FileError, FileResult};

/// How long a short critical section of another process is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

/// A held lock; dropping it releases.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Takes the exclusive lock on `name` in `folder`, or `None` if another holds it now.
    pub(crate) fn try_exclusive(folder: &Folder, name: &str) -> FileResult<Option<Self>> {
        let file = open(folder, name)?;
        flock(folder, name, &file, FlockOperation::NonBlockingLockExclusive)
            .map(|got| got.then_some(Self { file }))
    }

    /// Waits for the exclusive lock; `Busy` after 20 seconds.
    pub(crate) fn exclusive(folder: &Folder, name: &str) -> FileResult<Self> {
        Self::wait(folder, name, open(folder, name)?, FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for a shared lock; `Busy` after 20 seconds. `None` where this process may not
    /// make the lock file and it is not there: then it cannot write either.
    pub(crate) fn shared(folder: &Folder, name: &str) -> FileResult<Option<Self>> {
        let file = match open(folder, name) {
            Ok(file) => file,
            Err(e) if e.kind == PortErrorKind::Denied => {
                match folder.open_regular(name, OFlags::RDONLY | OFlags::NONBLOCK)? {
                    Some(file) => file,
                    None => return Ok(None),
                }
            }
            Err(e) => return Err(e),
        };
        Self::wait(folder, name, file, FlockOperation::NonBlockingLockShared).map(Some)
    }

    fn wait(folder: &Folder, name: &str, file: File, operation: FlockOperation) -> FileResult<Self> {
        let deadline = Instant::now() + PATIENCE;
        while !flock(folder, name, &file, operation)? {
            if Instant::now() >= deadline {
                let detail = format!("another process has held it for {} s", PATIENCE.as_secs());
                return Err(FileError::new(PortErrorKind::Busy, "lock", folder.path().join(name), detail));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Self { file })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

fn open(folder: &Folder, name: &str) -> FileResult<File> {
    folder.open_regular(name, OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK)?.ok_or_else(|| {
        FileError::new(PortErrorKind::NotFound, "lock", folder.path().join(name), "folder is gone")
    })
}

fn flock(folder: &Folder, name: &str, file: &File, operation: FlockOperation) -> FileResult<bool> {
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(e) => return Err(FileError::io("lock", folder.path().join(name), &e.into())),
        }
    }
}
