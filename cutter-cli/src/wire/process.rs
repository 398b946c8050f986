//! What the process owes to its surroundings.

use cutter_core::driver::Caller;
use cutter_core::port::run_store::LockHolder;

use crate::config::Config;
use crate::wire::{RandomIds, now};

/// An environment variable; an empty one counts as not set.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Before anything else: a file size limit must be an error and not a death, and a panic
/// is reported once, by us.
pub(crate) fn prepare_process() {
    ignore_file_size_signal();
    super::guard::quiet_panics();
}

/// By default a write beyond `ulimit -f` kills the process with SIGXFSZ. Ignored, the write
/// fails with EFBIG, which the stores report as `STOP_DISK_FULL`. (A closed pipe needs
/// nothing: Rust ignores SIGPIPE already.)
#[allow(unsafe_code)]
fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, only the disposition SIG_IGN is set; `signal` has no
    // other precondition, and no thread but this one runs yet.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Who drives, as recorded with transitions and shown by the lock.
pub(crate) fn caller(config: &Config, command: &str) -> Caller {
    let at = now();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Caller {
        actor: config.actor.clone(),
        holder: LockHolder {
            holder: RandomIds.random_uuid(at),
            host,
            pid: std::process::id(),
            since: at.to_string(),
            command: command.to_owned(),
        },
    }
}
