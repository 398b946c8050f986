//! Who runs the server. PostgreSQL refuses to run as root, so root runs it as somebody else:
//! the home folder's owner if that is not root, else `postgres`, else `nobody`.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::ClusterError;

/// An unprivileged user that the server runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerUser {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl ServerUser {
    /// `None` if this process is not root (it runs the server as itself).
    pub(crate) fn choose(home: &Path) -> Result<Option<Self>, ClusterError> {
        if !is_root() {
            return Ok(None);
        }
        let owner = std::fs::metadata(home).map_err(ClusterError::io("read", home))?;
        let mut candidates = Vec::new();
        if owner.uid() != 0 {
            // By number: initdb wants a user that the system knows.
            candidates.push(owner.uid().to_string());
        }
        candidates.extend(["postgres".to_owned(), "nobody".to_owned()]);
        candidates.iter().find_map(|name| Self::lookup(name)).map(Some).ok_or_else(|| {
            ClusterError::Denied(
                "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody` to run it as; \
                 create one (useradd --system postgres), or run as an ordinary user"
                    .to_owned(),
            )
        })
    }

    /// The user who owns existing data; `None` if this process is that user.
    pub(crate) fn owner_of(data: &Path) -> Result<Option<Self>, ClusterError> {
        let meta = std::fs::metadata(data).map_err(ClusterError::io("read", data))?;
        let me = rustix::process::geteuid().as_raw();
        if meta.uid() == me && me != 0 {
            return Ok(None);
        }
        if me != 0 {
            return Err(ClusterError::Denied(format!(
                "{} belongs to user {}, this process is user {me}; run as that user or as root",
                data.display(),
                meta.uid()
            )));
        }
        if meta.uid() == 0 {
            return Err(ClusterError::Denied(format!(
                "{} belongs to root, as whom PostgreSQL does not run; give it to another user: chown -R postgres {}",
                data.display(),
                data.display()
            )));
        }
        Ok(Some(Self { uid: meta.uid(), gid: meta.gid() }))
    }

    fn lookup(name: &str) -> Option<Self> {
        // `id` asks the system's name service, whatever it is.
        let ask = |what: &str| -> Option<u32> {
            let output = Command::new("id")
                .args([what, "--", name])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output()
                .ok()?;
            if !output.status.success() {
                return None;
            }
            std::str::from_utf8(&output.stdout).ok()?.trim().parse().ok()
        };
        let user = Self { uid: ask("-u")?, gid: ask("-g")? };
        (user.uid != 0).then_some(user)
    }

    /// Makes a command run as this user. Supplementary groups of root are dropped with it.
    pub(crate) fn apply(&self, command: &mut Command) {
        // std calls setgroups(0) before setuid when a uid is set and this process is root.
        command.uid(self.uid).gid(self.gid);
    }

    /// Whether this user can enter the folder: asked of the system itself, so that access
    /// lists and mounts count too.
    pub(crate) fn can_enter(&self, folder: &Path) -> bool {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cd -- \"$1\"", "sh"]).arg(folder).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.apply(&mut command);
        command.status().is_ok_and(|status| status.success())
    }
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
