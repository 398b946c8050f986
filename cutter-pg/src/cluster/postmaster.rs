//! Reading `postmaster.pid`, and telling a running server from what a dead one left.
//!
//! PostgreSQL clears up after a dead server by itself, and must: it checks that no old
//! backend still uses the data. One case it cannot tell: the number in the file belongs to
//! another process by now (a reboot, a container's small numbers), and it refuses to start.
//! [`Postmaster::Reused`] is that case; the file is removed only when no process of the
//! server's user works in the data directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::ClusterError;
use super::user::ServerUser;

/// What `postmaster.pid` and the process table say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Postmaster {
    /// No file.
    None,
    /// The server runs, or is starting or stopping.
    Alive {
        pid: i32,
        socket: Option<PathBuf>,
        port: u16,
        /// Connections are accepted.
        is_ready: bool,
    },
    /// The process is gone; PostgreSQL clears the file itself.
    Dead,
    /// The number belongs to another process now.
    Reused { pid: i32 },
}

/// Reads the state of the server on this data directory.
pub(crate) fn observe(data: &Path) -> Result<Postmaster, ClusterError> {
    let path = data.join("postmaster.pid");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Postmaster::None),
        Err(error) => return Err(ClusterError::io("read", &path)(error)),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(pid) = lines.first().and_then(|line| line.parse::<i32>().ok()).map(i32::abs) else {
        // Made but not written yet, or cut off by a power failure: PostgreSQL decides.
        return Ok(Postmaster::Dead);
    };
    let owner = std::fs::metadata(data).map_err(ClusterError::io("read", data))?.uid();
    Ok(match process(pid, data, owner) {
        Process::Gone => Postmaster::Dead,
        Process::Foreign => Postmaster::Reused { pid },
        Process::Server => Postmaster::Alive {
            pid,
            port: lines.get(3).and_then(|line| line.parse().ok()).unwrap_or(super::place::PORT),
            socket: lines.get(4).filter(|line| line.starts_with('/')).map(PathBuf::from),
            is_ready: lines.get(7).is_some_and(|status| *status == "ready"),
        },
    })
}

/// Removes a pid file whose number was reused, if it is certain that no server process is
/// left on the data.
pub(crate) fn remove_reused(data: &Path, pid: i32) -> Result<(), ClusterError> {
    let owner = std::fs::metadata(data).map_err(ClusterError::io("read", data))?.uid();
    let path = data.join("postmaster.pid");
    let left = std::fs::read_dir("/proc")
        .map_err(ClusterError::io("read", Path::new("/proc")))?
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .find(|other| *other != pid && matches!(process(*other, data, owner), Process::Server));
    if let Some(other) = left {
        return Err(ClusterError::Tool {
            tool: "postgres",
            output: format!(
                "{} names process {pid}, which is no server, yet process {other} still works on the data; \
                 end it (kill {other}), then try again",
                path.display()
            ),
        });
    }
    std::fs::remove_file(&path).map_err(ClusterError::io("remove", &path))
}

#[derive(Debug, PartialEq, Eq)]
enum Process {
    Gone,
    Foreign,
    Server,
}

fn process(pid: i32, data: &Path, owner: u32) -> Process {
    let exists = rustix::process::Pid::from_raw(pid)
        .is_some_and(|pid| !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH)));
    if !exists {
        return Process::Gone;
    }
    let folder = PathBuf::from(format!("/proc/{pid}"));
    if !Path::new("/proc/self/cwd").exists() {
        // No process table to ask (not Linux): believe the file, as pg_ctl does.
        return Process::Server;
    }
    let is_data = |cwd: &Path| cwd == data.canonicalize().unwrap_or_else(|_| data.to_owned());
    match std::fs::read_link(folder.join("cwd")) {
        Ok(cwd) if is_data(&cwd) => Process::Server,
        Ok(_) => Process::Foreign,
        // Root in a container may not look into other users' processes. Name and owner are
        // public, and the owner may look.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let meta = std::fs::metadata(&folder);
            let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
            match meta {
                Ok(meta) if meta.uid() == owner && matches!(name.trim(), "postgres" | "postmaster") => {
                    match cwd_as_owner(&folder, ServerUser { uid: meta.uid(), gid: meta.gid() }) {
                        Some(cwd) if !is_data(&cwd) => Process::Foreign,
                        None if is_ended(&folder) => Process::Foreign,
                        // Not to be found out: better one server too many believed than one too few.
                        _ => Process::Server,
                    }
                }
                _ => Process::Foreign,
            }
        }
        // Ended meanwhile, or ended and not yet collected by its parent.
        Err(_) => {
            if folder.exists() {
                Process::Foreign
            } else {
                Process::Gone
            }
        }
    }
}

/// Where a process works, asked as its owner. `None` if this process may not become that user.
fn cwd_as_owner(process: &Path, owner: ServerUser) -> Option<PathBuf> {
    let mut command = Command::new("readlink");
    command.arg(process.join("cwd")).current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
    owner.apply(&mut command);
    let output = command.output().ok()?;
    let text = output.stdout.strip_suffix(b"\n")?;
    (output.status.success() && !text.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(text)))
}

/// Gone by now, or ended and not collected by its parent: either works on nothing any more.
fn is_ended(process: &Path) -> bool {
    match std::fs::read_to_string(process.join("status")) {
        Ok(status) => status.lines().any(|line| line.starts_with("State:") && line.contains('Z')),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_with(pid_file: &str) -> tempfile::TempDir {
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join("postmaster.pid"), pid_file).unwrap();
        data
    }

    #[test]
    fn no_file_means_no_server() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(observe(data.path()).unwrap(), Postmaster::None);
    }

    #[test]
    fn a_number_that_nobody_has_is_a_dead_server() {
        // Above any pid_max.
        let data = data_with("1999999999\n/x\n1\n5432\n/s\n\n1 1\nready   \n");
        assert_eq!(observe(data.path()).unwrap(), Postmaster::Dead);
        assert_eq!(observe(data_with("").path()).unwrap(), Postmaster::Dead);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_that_another_process_has_is_recognised_and_cleared() {
        // This test's own process works elsewhere than in the data directory.
        let me = i32::try_from(std::process::id()).unwrap();
        let data = data_with(&format!("{me}\n/x\n1\n5432\n/s\n\n1 1\nready   \n"));
        assert_eq!(observe(data.path()).unwrap(), Postmaster::Reused { pid: me });
        remove_reused(data.path(), me).unwrap();
        assert_eq!(observe(data.path()).unwrap(), Postmaster::None);
    }
}
