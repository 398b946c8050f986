//! A running command, and what can be done to it.

use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};
use serde_json::Value;

use super::Ran;
pub use rustix::process::Signal;

/// A command that runs. Its output is read as it comes, so that it never waits for a reader.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

fn read(mut pipe: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Running {
    /// Starts it.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = read(child.stdout.take().unwrap());
        let stderr = read(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Sends a signal; false if the process has ended already.
    pub fn signal(&mut self, signal: Signal) -> bool {
        if !self.is_alive() {
            return false;
        }
        // Not waited for yet, so the number is still this process.
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).is_ok()
    }

    /// Whether it still runs (or is frozen).
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Lets it run so long, then kills it: `None`. What ended before is given back.
    #[must_use]
    pub fn kill_after(mut self, wait: Duration) -> Option<Ran> {
        let until = Instant::now() + wait;
        while Instant::now() < until && self.is_alive() {
            let left = until.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
        let was_killed = self.signal(Signal::KILL);
        let ran = self.wait();
        if was_killed && ran.code.is_none() { None } else { Some(ran) }
    }

    /// Waits for its end.
    #[must_use]
    pub fn wait(mut self) -> Ran {
        let status = self.child.wait().unwrap();
        let (stdout, stderr) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        let json = serde_json::from_str(&stdout).unwrap_or(Value::Null);
        Ran { code: status.code(), json, stdout, stderr }
    }
}
