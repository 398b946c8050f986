//! Which process is meant: a pid alone is not enough, pids are used again.
//!
//! A process is identified by host boot, pid and start time. Ending one goes through a pid
//! descriptor that is opened before the identity is checked, so that a pid reused in
//! between is not hit.

use serde::{Deserialize, Serialize};

/// Identity of a process on some host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot; 0 where the system does not tell.
    pub started: u64,
    /// Identifier of the host's boot; empty where the system does not tell.
    pub boot: String,
}

impl ProcessIdentity {
    /// This process.
    pub(crate) fn own() -> Self {
        let pid = std::process::id();
        Self { pid, started: start_time(pid).unwrap_or(0), boot: boot_id() }
    }

    /// Whether it lives: `None` if that cannot be known (another host, another boot's
    /// record on an unknown host, no process information).
    pub(crate) fn alive(&self) -> Option<bool> {
        let boot = boot_id();
        if boot.is_empty() || self.boot != boot || self.started == 0 {
            return None;
        }
        Some(start_time(self.pid) == Some(self.started))
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Field 22 of `/proc/<pid>/stat`; the name in field 2 may hold anything, so count from
/// the last parenthesis. A zombie counts as gone.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// What became of the attempt to signal a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// The signal was sent.
    Sent,
    /// It is gone already, or the pid belongs to another process now.
    Gone,
}

/// How to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Asked,
    Forced,
}

/// Sends TERM or KILL to exactly this process.
#[cfg(target_os = "linux")]
pub(crate) fn signal(process: &ProcessIdentity, ending: Ending) -> Result<Signalled, String> {
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| format!("bad pid {}", process.pid))?;
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::SRCH) => return Ok(Signalled::Gone),
        Err(e) => return Err(format!("cannot open process {}: {e}", process.pid)),
    };
    if process.alive() != Some(true) {
        return Ok(Signalled::Gone);
    }
    let signal = match ending {
        Ending::Asked => Signal::TERM,
        Ending::Forced => Signal::KILL,
    };
    match pidfd_send_signal(&descriptor, signal) {
        Ok(()) => Ok(Signalled::Sent),
        Err(Errno::SRCH) => Ok(Signalled::Gone),
        Err(e) => Err(format!("cannot signal process {}: {e}", process.pid)),
    }
}

/// Elsewhere a process cannot be named safely, so none is ended.
#[cfg(not(target_os = "linux"))]
pub(crate) fn signal(process: &ProcessIdentity, _ending: Ending) -> Result<Signalled, String> {
    Err(format!("process {} cannot be identified safely on this system; end it yourself", process.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_needs_pid_and_start_time() {
        let own = ProcessIdentity::own();
        assert_eq!(own.alive(), Some(true));
        assert_eq!(ProcessIdentity { started: own.started + 1, ..own.clone() }.alive(), Some(false));
        assert_eq!(ProcessIdentity { boot: "elsewhere".to_owned(), ..own.clone() }.alive(), None);
        let reused = ProcessIdentity { started: own.started + 1, ..own };
        assert_eq!(signal(&reused, Ending::Forced), Ok(Signalled::Gone), "a reused pid is not hit");
    }
}
