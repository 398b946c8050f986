//! Scope `database`: `pg_dump -Fc` as a child process, in frames.
//!
//! The dump reads the snapshot that our transaction exports, so what the trailer counts is what
//! the dump holds. The login travels in the child's environment, never as an argument.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use cutter_core::base::digest::Hasher;
use cutter_core::record::backup::{BackupRequest, BackupSummary};
use postgres::Client;
use secrecy::ExposeSecret as _;

use super::document::{Counted, begin, end, hash_section, in_snapshot};
use super::format::{DUMP, DumpSummary};
use super::stream::Outlet;
use super::tables::{self, FINGERPRINTS, TABLES};
use crate::cluster::client_tool;
use crate::dsn::Dsn;
use crate::error::PgError;

/// Bytes of a frame.
const FRAME_BYTES: usize = 64 * 1024;

/// How much of what a tool complains is kept.
const MAX_STDERR_BYTES: u64 = 16 * 1024;

/// Writes the archive of a database.
pub(super) fn back_up(
    client: &mut Client,
    request: &BackupRequest,
    dsn: &Dsn,
    mut outlet: Outlet,
) -> Result<BackupSummary, PgError> {
    in_snapshot(client, |transaction| {
        let snapshot: String =
            transaction.query_one("SELECT pg_catalog.pg_export_snapshot()", &[])?.try_get(0)?;
        let version: i32 = transaction
            .query_one("SELECT pg_catalog.current_setting('server_version_num')::int", &[])?
            .try_get(0)?;
        let mut command = tool("pg_dump", u32::try_from(version / 10_000).unwrap_or(0), dsn)?;
        command.args(["--format=custom", "--no-password", "--lock-wait-timeout=5s"]);
        command.arg(format!("--snapshot={snapshot}"));

        let row = begin(transaction, request, &mut outlet)?;
        let dump = run_dump(command, dsn, &mut outlet)?;
        let mut counted = Counted { tables: Vec::new(), fingerprints: Vec::new() };
        for table in TABLES {
            let query = table.query(&request.document_id, row);
            counted.tables.push(hash_section(transaction, table.name, &query)?);
        }
        for (name, kind) in FINGERPRINTS {
            counted.fingerprints.push(hash_section(transaction, name, &tables::fingerprint_query(kind))?);
        }
        end(transaction, request, counted, Some(dump), &mut outlet)
    })
}

fn run_dump(mut command: Command, dsn: &Dsn, outlet: &mut Outlet) -> Result<DumpSummary, PgError> {
    command.stdout(Stdio::piped());
    let mut child = ToolRun::start("pg_dump", command, Some(outlet.until()))?;
    let mut stdout = child.take_stdout()?;
    let (mut hasher, mut bytes) = (Hasher::new(), 0_u64);
    let mut frame = vec![0; FRAME_BYTES];
    loop {
        let length = stdout.read(&mut frame).map_err(|error| failed("pg_dump", &error.to_string()))?;
        outlet.put(format!("{DUMP}{length}\n").as_bytes())?;
        if length == 0 {
            break;
        }
        hasher.update(&frame[..length]);
        bytes += u64::try_from(length).unwrap_or(u64::MAX);
        outlet.put(&frame[..length])?;
    }
    drop(stdout);
    child.finish(dsn)?;
    Ok(DumpSummary { bytes, sha256: hasher.finish() })
}

/// A command of PostgreSQL's client tools with the login in its environment.
pub(crate) fn tool(name: &'static str, at_least: u32, dsn: &Dsn) -> Result<Command, PgError> {
    let mut command =
        client_tool(name, at_least).map_err(|error| PgError::Configuration(error.to_string()))?;
    for (variable, value) in dsn.libpq_environment()? {
        command.env(variable, value.expose_secret());
    }
    command.env("PGAPPNAME", "cutter/backup").env("PGCONNECT_TIMEOUT", "10");
    Ok(command)
}

/// A running tool. It is killed with this value, and at the deadline.
pub(crate) struct ToolRun {
    name: &'static str,
    started: Instant,
    child: Arc<Mutex<Child>>,
    stderr: Option<std::thread::JoinHandle<String>>,
    /// Dropped when the tool is over: the watch ends.
    watch: Option<(mpsc::Sender<()>, std::thread::JoinHandle<bool>)>,
}

impl ToolRun {
    /// Starts it, with an end if there is a deadline.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        until: Option<Instant>,
    ) -> Result<Self, PgError> {
        let mut child =
            command.stderr(Stdio::piped()).spawn().map_err(|error| failed(name, &error.to_string()))?;
        let stderr = child.stderr.take().map(|pipe| {
            std::thread::spawn(move || {
                let (mut text, mut rest) = (Vec::new(), std::io::sink());
                let mut pipe = pipe;
                // A tool whose complaints cannot be read is judged by its exit status.
                let _ = pipe.by_ref().take(MAX_STDERR_BYTES).read_to_end(&mut text);
                let _ = std::io::copy(&mut pipe, &mut rest);
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        let child = Arc::new(Mutex::new(child));
        let watch = until.map(|until| {
            let (done, is_done) = mpsc::channel::<()>();
            let child = child.clone();
            let watch = std::thread::spawn(move || {
                let wait = until.saturating_duration_since(Instant::now());
                let is_late = matches!(is_done.recv_timeout(wait), Err(mpsc::RecvTimeoutError::Timeout));
                if is_late {
                    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
                }
                is_late
            });
            (done, watch)
        });
        Ok(Self { name, started: Instant::now(), child, stderr, watch })
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_stdout(&mut self) -> Result<std::process::ChildStdout, PgError> {
        let pipe = self.child().stdout.take();
        pipe.ok_or_else(|| PgError::Internal(format!("{} has no output", self.name)))
    }

    pub(crate) fn take_stdin(&mut self) -> Result<std::process::ChildStdin, PgError> {
        let pipe = self.child().stdin.take();
        pipe.ok_or_else(|| PgError::Internal(format!("{} has no input", self.name)))
    }

    /// Waits for its end; anything but success is an error with what it complained about,
    /// without the login's secrets.
    pub(crate) fn finish(mut self, dsn: &Dsn) -> Result<(), PgError> {
        // Asked again and again rather than waited for, so that the watch can reach the child.
        let status = loop {
            let status = self.child().try_wait().map_err(|error| failed(self.name, &error.to_string()))?;
            match status {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let is_late = self.watch.take().is_some_and(|(done, watch)| {
            drop(done);
            watch.join().unwrap_or(false)
        });
        let stderr = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        if is_late {
            let waited_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            return Err(PgError::Deadline { waited_ms });
        }
        Err(failed(self.name, &format!("{} ({status})", redact(&stderr, dsn))))
    }
}

impl Drop for ToolRun {
    fn drop(&mut self) {
        let mut child = self.child();
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The last lines of a text, with the login's password taken out.
fn redact(text: &str, dsn: &Dsn) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(8)..].join(" | ");
    let config = dsn.config().ok();
    let password = config.as_ref().and_then(postgres::Config::get_password);
    match password.map(String::from_utf8_lossy) {
        Some(password) if !password.is_empty() => last.replace(password.as_ref(), "[redacted]"),
        _ => last,
    }
}

fn failed(name: &str, what: &str) -> PgError {
    PgError::Configuration(format!("{name} failed: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_never_hold_the_password() {
        let dsn = Dsn::parse("host=/run/pg user=u password=hunter2 dbname=d").unwrap();
        assert_eq!(redact("a\nwrong: hunter2!\n", &dsn), "a | wrong: [redacted]!");
    }

    #[test]
    fn a_tool_that_fails_or_hangs_is_an_error() {
        let dsn = Dsn::parse("host=/run/pg user=u dbname=d").unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo broken >&2; exit 3"]);
        let error = ToolRun::start("sh", command, None).unwrap().finish(&dsn).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");

        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec sleep 60"]);
        let started = Instant::now();
        let until = Some(Instant::now() + Duration::from_millis(50));
        let error = ToolRun::start("sh", command, until).unwrap().finish(&dsn).unwrap_err();
        assert!(matches!(error, PgError::Deadline { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
