//! Small files that must survive a power cut, and the lock between processes.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::error::ClusterError;
use super::user::is_root;
use crate::login::random_hex;

/// Writes a file whole or not at all: temporary, fsync, rename, fsync of the folder. The
/// file is 0600 and belongs to the folder's owner.
pub(crate) fn write_durable(path: &Path, bytes: &[u8]) -> Result<(), ClusterError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let temporary = path.with_extension(format!("tmp-{}", random_hex::<6>()?));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        give_to_owner_of(folder, &temporary)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        // Best effort: the error below is what matters.
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(ClusterError::io("write", path))
}

/// When root works in somebody's home folder, what it makes there belongs to them.
pub(crate) fn give_to_owner_of(folder: &Path, file: &Path) -> std::io::Result<()> {
    if is_root() {
        let owner = std::fs::metadata(folder)?;
        if owner.uid() != 0 {
            chown(file, Some(owner.uid()), Some(owner.gid()))?;
        }
    }
    Ok(())
}

/// Makes a folder that only its owner enters; fine if it is there.
pub(crate) fn private_folder(path: &Path) -> Result<(), ClusterError> {
    match std::fs::create_dir(path) {
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(ClusterError::io("set the mode of", path)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(ClusterError::io("create", path)(error)),
    }
}

/// An exclusive lock between processes, released when dropped or when the process dies.
///
/// It is flock(2) on a file that is never removed. flock and fcntl locks do not see each
/// other. The descriptor is close-on-exec, so no server that we start inherits the lock.
#[derive(Debug)]
pub(crate) struct FileLock(
    #[allow(dead_code, reason = "held, never read: closing it releases the lock")] File,
);

impl FileLock {
    /// Takes the lock, waiting up to `wait`.
    pub(crate) fn take(path: &Path, wait: Duration) -> Result<Self, ClusterError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(ClusterError::io("open", path))?;
        if let Some(folder) = path.parent() {
            give_to_owner_of(folder, path).map_err(ClusterError::io("give away", path))?;
        }
        let until = Instant::now() + wait;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(ClusterError::io("lock", path)(errno.into())),
            }
            if Instant::now() >= until {
                return Err(ClusterError::Busy { path: path.to_owned(), seconds: wait.as_secs() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_file_is_private_and_leaves_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_durable(&path, b"one").unwrap();
        write_durable(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_lock_excludes_and_is_released_by_drop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = FileLock::take(&path, Duration::ZERO).unwrap();
        let refused = FileLock::take(&path, Duration::from_millis(30)).unwrap_err();
        assert!(matches!(refused, ClusterError::Busy { .. }), "{refused}");
        drop(held);
        FileLock::take(&path, Duration::ZERO).unwrap();
    }
}
