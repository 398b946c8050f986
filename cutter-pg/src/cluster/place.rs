//! Where the cluster folder and the socket are.
//!
//! Normally both are inside `<home>/pg`. Two things can force them out, and then
//! `<home>/pg.location` says where they went:
//!
//! - root keeps its home closed (0700) and the server's user cannot enter it. The home is
//!   never loosened; the cluster goes to `/var/lib/cutter-pg/<random>`, else `/var/tmp`.
//! - a socket's path is limited to 107 bytes (103 outside Linux). A longer one goes to
//!   `/tmp/cutter-pg-<random>`, 0700, whose owner and mode are checked at every start.

use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use super::error::ClusterError;
use super::files::{private_folder, write_durable};
use super::user::ServerUser;
use crate::login::random_hex;

/// The port is only a part of the socket's name: each cluster has a folder of its own.
pub(crate) const PORT: u16 = 5432;

/// `sun_path` without its terminating zero.
const MAX_SOCKET_PATH_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Folders of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    home: PathBuf,
    folder: Option<PathBuf>,
    socket: Option<PathBuf>,
}

impl Place {
    /// What is recorded, or the default inside the home.
    pub(crate) fn read(home: &Path) -> Result<Self, ClusterError> {
        let path = home.join("pg.location");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { home: home.to_owned(), folder: None, socket: None });
            }
            Err(error) => return Err(ClusterError::io("read", &path)(error)),
        };
        let corrupt =
            |message: &str| ClusterError::Corrupt { path: path.clone(), message: message.to_owned() };
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|_| corrupt("it is not JSON; restore it from a backup"))?;
        if value.get("format").and_then(serde_json::Value::as_u64) != Some(1) {
            return Err(corrupt("its format is not 1; a newer cutter wrote it"));
        }
        let folder = |key: &str| match value.get(key) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(serde_json::Value::String(text)) if text.starts_with('/') => Ok(Some(PathBuf::from(text))),
            Some(_) => Err(corrupt("folder and socket must be absolute paths")),
        };
        Ok(Self { home: home.to_owned(), folder: folder("folder")?, socket: folder("socket")? })
    }

    /// The cluster folder: data, log, socket.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| self.home.join("pg"))
    }

    /// PostgreSQL's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// The server's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder().join("postgres.log")
    }

    /// The socket's folder.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.folder().join("run"))
    }

    fn record(&self) -> Result<(), ClusterError> {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
        let value = serde_json::json!({
            "format": 1,
            "folder": text(&self.folder),
            "socket": text(&self.socket),
        });
        write_durable(&self.home.join("pg.location"), format!("{value}\n").as_bytes())
    }

    /// Makes the cluster folder, outside the home if the server's user cannot enter that.
    /// Called under the lock, before there is any data.
    pub(crate) fn make_folder(&mut self, user: Option<&ServerUser>) -> Result<(), ClusterError> {
        if let (None, Some(user)) = (&self.folder, user)
            && !user.can_enter(&self.home)
        {
            // Recorded before it is made: a crash in between leaves a record to go on from,
            // never a folder that nobody knows.
            self.folder = Some(outside_folder(user)?);
            self.record()?;
        }
        let folder = self.folder();
        private_folder(&folder)?;
        own(&folder, user)?;
        check_private(&folder, user).map_err(ClusterError::Denied)
    }

    /// Makes the socket's folder. Called under the lock, with no server running.
    pub(crate) fn make_socket_folder(&mut self, user: Option<&ServerUser>) -> Result<(), ClusterError> {
        let inside = self.folder().join("run");
        if fits(&inside) {
            if self.socket.take().is_some() {
                self.record()?;
            }
            private_folder(&inside)?;
            own(&inside, user)?;
        } else {
            let usable = |path: &PathBuf| !path.exists() || check_private(path, user).is_ok();
            if !self.socket.as_ref().is_some_and(usable) {
                self.socket = Some(PathBuf::from(format!("/tmp/cutter-pg-{}", random_hex::<8>()?)));
                self.record()?;
            }
            let socket = self.socket();
            private_folder(&socket)?;
            own(&socket, user)?;
            check_private(&socket, user).map_err(ClusterError::Denied)?;
        }
        // No server runs on this data and nobody else uses this folder: what lies here is of
        // a server that died, and its lock file could name a process that is now another.
        for name in [format!(".s.PGSQL.{PORT}"), format!(".s.PGSQL.{PORT}.lock")] {
            let path = self.socket().join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(ClusterError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a socket there has a name that fits, without characters that need quoting twice.
fn fits(folder: &Path) -> bool {
    let name = folder.join(format!(".s.PGSQL.{PORT}"));
    let bytes = name.as_os_str().as_bytes();
    bytes.len() <= MAX_SOCKET_PATH_BYTES
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"/._-+@~=: ".contains(b) || *b >= 0x80)
        && std::str::from_utf8(bytes).is_ok()
}

/// A name for a cluster folder outside the home, under a folder that root owns.
fn outside_folder(user: &ServerUser) -> Result<PathBuf, ClusterError> {
    let name = random_hex::<8>()?;
    let shared = Path::new("/var/lib/cutter-pg");
    let made = match std::fs::create_dir(shared) {
        Ok(()) => std::fs::set_permissions(shared, Permissions::from_mode(0o711)).is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::AlreadyExists,
    };
    if made && user.can_enter(shared) {
        return Ok(shared.join(name));
    }
    Ok(Path::new("/var/tmp").join(format!("cutter-pg-{name}")))
}

fn own(folder: &Path, user: Option<&ServerUser>) -> Result<(), ClusterError> {
    let Some(user) = user else { return Ok(()) };
    let meta = std::fs::symlink_metadata(folder).map_err(ClusterError::io("read", folder))?;
    // Only what root has just made is given away, never somebody else's or a link's target.
    if meta.is_dir() && meta.uid() == 0 {
        chown(folder, Some(user.uid), Some(user.gid)).map_err(ClusterError::io("give away", folder))?;
    }
    Ok(())
}

/// A real folder, of the server's user, closed to others.
fn check_private(folder: &Path, user: Option<&ServerUser>) -> Result<(), String> {
    let uid = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
    let meta = std::fs::symlink_metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 {
        return Err(format!(
            "{} must be a folder of user {uid} with mode 0700; found {} of user {} with mode {:04o}",
            folder.display(),
            if meta.is_dir() { "a folder" } else { "something else" },
            meta.uid(),
            meta.mode() & 0o7777
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_name_of_107_bytes_fits_and_of_108_does_not() {
        let tail = "/.s.PGSQL.5432".len();
        let of = |bytes: usize| PathBuf::from(format!("/{}", "a".repeat(bytes - tail - 1)));
        assert!(fits(&of(MAX_SOCKET_PATH_BYTES)));
        assert!(!fits(&of(MAX_SOCKET_PATH_BYTES + 1)));
        assert!(fits(Path::new("/home/a b/pg/run")));
        assert!(!fits(Path::new("/home/a'b/pg/run")));
        assert!(!fits(Path::new("/home/a,b/pg/run")));
    }

    #[test]
    fn the_record_reads_back_and_a_spoiled_one_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let read = || Place::read(home.path());
        assert_eq!(read().unwrap().folder(), home.path().join("pg"));
        let place = Place {
            home: home.path().to_owned(),
            folder: Some("/var/lib/cutter-pg/x".into()),
            socket: Some("/tmp/y".into()),
        };
        place.record().unwrap();
        assert_eq!(read().unwrap(), place);
        for spoiled in
            ["", "{}", r#"{"format":2}"#, r#"{"format":1,"folder":"relative"}"#, r#"{"format":1,"socket":7}"#]
        {
            std::fs::write(home.path().join("pg.location"), spoiled).unwrap();
            assert!(matches!(read(), Err(ClusterError::Corrupt { .. })), "{spoiled}");
        }
    }

    #[test]
    fn a_link_or_an_open_folder_is_no_place_for_a_socket() {
        let base = tempfile::tempdir().unwrap();
        let (open, link) = (base.path().join("open"), base.path().join("link"));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        assert!(check_private(&open, None).is_err());
        std::fs::set_permissions(&open, Permissions::from_mode(0o700)).unwrap();
        assert!(check_private(&open, None).is_ok());
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(check_private(&link, None).is_err());
    }
}
