//! The file run store: sidecar revisions, run lock, claims (PROTOCOL §2 and §3).
//!
//! ```text
//! <root>/<run_id>/rev/<n>.json     revisions from 1; the highest is the truth
//! <root>/<run_id>/state.json       mirror of the highest
//! <root>/<run_id>/state.lock       flock; never unlinked; says who holds it
//! <root>/<run_id>/phase-NN.md      derived mirrors of reports
//! <root>/<run_id>/stop-request.json   the last request to stop
//! <root>/<run_id>/pre_write.<epoch>.gpg   backups, see `backup_target`
//! <root>/claims/<sha256(document_id)>/<generation>
//! ```
//!
//! A rename is no compare-and-set, so a revision is published by `link(2)`: of two writers
//! one finds the name taken, whoever holds the lock. `state.json` is made a second name of
//! the revision's file, which costs no further write and cannot be torn.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::port::PortErrorKind;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use crate::atomic_file::{Durability, Folder, Placed, check_name};
use crate::file_error::{FileError, FileResult};
use crate::file_lock::FileLock;
pub use crate::process::ProcessIdentity;
use crate::process::{Ending, Signalled, signal};

/// Largest sidecar revision (PROTOCOL §1).
pub const MAX_SIDECAR_BYTES: usize = 64 << 10;
/// Largest claim or lock holder record.
pub const MAX_RECORD_BYTES: usize = 16 << 10;

const REV: &str = "rev";
const STATE: &str = "state.json";
const LOCK: &str = "state.lock";
const CLAIMS: &str = "claims";
const STOP: &str = "stop-request.json";

/// The outcome of creating a run or a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// Created now, durable.
    Created,
    /// Exactly these bytes were there; durable.
    Identical,
    /// Other bytes are there and were not touched.
    Exists {
        /// Those bytes.
        found: Vec<u8>,
    },
}

/// Who holds a run's lock, as the lock file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub process: ProcessIdentity,
    /// What the holder said about itself: command, since when, epoch.
    pub info: serde_json::Value,
}

/// The outcome of asking for a run's lock.
#[derive(Debug)]
pub enum LockOutcome {
    /// Held now.
    Acquired(RunLock),
    /// Another process (or thread) holds it.
    Busy {
        /// Who, if it has said so yet.
        holder: Option<Holder>,
    },
}

/// A held run lock. Dropping it empties the holder record and releases; a killed process
/// releases it too and leaves its record, which then names a dead process.
#[derive(Debug)]
pub struct RunLock {
    lock: FileLock,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // best effort: a stale record names a process that `holder` finds dead
        let _ = self.lock.file().set_len(0);
    }
}

/// The run store below one folder. Cheap to make; holds nothing open.
#[derive(Debug, Clone)]
pub struct FileRunStore {
    root: PathBuf,
}

impl FileRunStore {
    /// The store below `root` (`CUTTER_RUNS_DIR`, else `<home>/runs`), made when needed.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The run's own folder, whether or not it exists; for messages.
    #[must_use]
    pub fn run_path(&self, run_id: &str) -> PathBuf {
        self.root.join(run_id)
    }

    /// Publishes revision 1 of a new run, durably.
    pub fn create(&self, run_id: &str, bytes: &[u8]) -> FileResult<Put> {
        check_run_id(&self.root, run_id)?;
        self.check_sidecar(run_id, bytes)?;
        let run = Folder::open_or_make(&self.root)?.make_folder(run_id)?;
        let rev = run.make_folder(REV)?;
        if rev.write_new(&revision_name(1), bytes)? == Placed::Created {
            rev.link_over(&revision_name(1), &run, STATE)?;
            return Ok(Put::Created);
        }
        let found = self.read_revision(&rev, 1)?;
        Ok(if found == bytes { Put::Identical } else { Put::Exists { found } })
    }

    /// The newest revision and its number, or `None` if there is no such run.
    pub fn load(&self, run_id: &str) -> FileResult<Option<(u64, Vec<u8>)>> {
        let Some(rev) = self.revisions(run_id)? else { return Ok(None) };
        match highest(&rev)? {
            0 => Ok(None),
            n => Ok(Some((n, self.read_revision(&rev, n)?))),
        }
    }

    /// One revision's bytes, or `None`.
    pub fn load_revision(&self, run_id: &str, n: u64) -> FileResult<Option<Vec<u8>>> {
        let Some(rev) = self.revisions(run_id)? else { return Ok(None) };
        rev.read(&revision_name(n), MAX_SIDECAR_BYTES)
    }

    /// Publishes revision `expected_revision + 1` if none is there, durably, and moves the
    /// mirror. `AlreadyApplied` if exactly these bytes are that revision; `Conflict` with the
    /// newest revision's number if others are, or if the run is not there yet.
    pub fn publish(&self, run_id: &str, expected_revision: u64, bytes: &[u8]) -> FileResult<CasOutcome<u64>> {
        self.check_sidecar(run_id, bytes)?;
        let run = self.run(run_id)?.ok_or_else(|| self.no_run("publish", run_id))?;
        let rev = run.folder(REV)?.ok_or_else(|| self.no_run("publish", run_id))?;
        let newest = highest(&rev)?;
        if expected_revision == 0 || newest < expected_revision {
            return Ok(CasOutcome::Conflict { found: newest });
        }
        let next = expected_revision + 1;
        let name = revision_name(next);
        if newest == expected_revision && rev.write_new(&name, bytes)? == Placed::Created {
            rev.link_over(&name, &run, STATE)?;
            return Ok(CasOutcome::Applied);
        }
        if self.read_revision(&rev, next)? == bytes {
            return Ok(CasOutcome::AlreadyApplied);
        }
        Ok(CasOutcome::Conflict { found: highest(&rev)? })
    }

    /// Writes a derived file (`phase-NN.md`, a stop report) into the run's folder: whole,
    /// but not synced, for it can be made again. The store's own names are refused.
    pub fn mirror(&self, run_id: &str, name: &str, bytes: &[u8]) -> FileResult<()> {
        let at = self.run_path(run_id).join("…");
        check_name(name).map_err(|why| FileError::invalid("mirror", &at, why))?;
        if matches!(name, REV | STATE | LOCK | STOP) || name.starts_with("pre_write") {
            return Err(FileError::invalid("mirror", at, format!("the name {name:?} is the store's own")));
        }
        let run = self.run(run_id)?.ok_or_else(|| self.no_run("mirror", run_id))?;
        run.replace(name, bytes, Durability::Visible)
    }

    /// Leaves a stop request for whoever drives the run, durably; no lock is needed. A
    /// later one replaces it.
    pub fn put_stop_request(&self, run_id: &str, bytes: &[u8]) -> FileResult<()> {
        if bytes.len() > MAX_RECORD_BYTES {
            let at = self.run_path(run_id).join(STOP);
            return Err(FileError::invalid(
                "request stop",
                at,
                format!("it is over {MAX_RECORD_BYTES} bytes"),
            ));
        }
        let run = self.run(run_id)?.ok_or_else(|| self.no_run("request stop", run_id))?;
        run.replace(STOP, bytes, Durability::Synced)
    }

    /// The last stop request, or `None`.
    pub fn last_stop_request(&self, run_id: &str) -> FileResult<Option<Vec<u8>>> {
        match self.run(run_id)? {
            Some(run) => run.read(STOP, MAX_RECORD_BYTES),
            None => Ok(None),
        }
    }

    /// Takes the run's lock without waiting. Under it the leftovers of crashes are swept
    /// and the mirror is set right. `holder_json` is any JSON value that tells a person who
    /// this is; it is shown by [`FileRunStore::holder`].
    pub fn lock(&self, run_id: &str, holder_json: &str) -> FileResult<LockOutcome> {
        let at = self.run_path(run_id).join(LOCK);
        let info = serde_json::from_str(holder_json)
            .map_err(|e| FileError::invalid("lock", &at, format!("holder is not JSON: {e}")))?;
        let run = self.run(run_id)?.ok_or_else(|| self.no_run("lock", run_id))?;
        let Some(lock) = FileLock::try_exclusive(&run, LOCK)? else {
            return Ok(LockOutcome::Busy { holder: self.recorded_holder(run_id)? });
        };
        let record = Holder { process: ProcessIdentity::own(), info };
        let bytes =
            serde_json::to_vec(&record).map_err(|e| FileError::invalid("lock", &at, e.to_string()))?;
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(FileError::invalid("lock", &at, format!("holder is over {MAX_RECORD_BYTES} bytes")));
        }
        let mut file = lock.file();
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(&bytes))
            .map_err(|e| FileError::io("record holder", &at, &e))?;
        let guard = RunLock { lock };
        run.sweep()?;
        if let Some(rev) = run.folder(REV)? {
            rev.sweep()?;
            let newest = highest(&rev)?;
            if newest > 0
                && run.read(STATE, MAX_SIDECAR_BYTES).ok().flatten()
                    != Some(self.read_revision(&rev, newest)?)
            {
                rev.link_over(&revision_name(newest), &run, STATE)?;
            }
        }
        Ok(LockOutcome::Acquired(guard))
    }

    /// Who holds the run's lock now: `None` if nobody, or if the recorded process is dead.
    /// A process of another host or boot is reported: whether it lives cannot be known.
    pub fn holder(&self, run_id: &str) -> FileResult<Option<Holder>> {
        Ok(self.recorded_holder(run_id)?.filter(|holder| holder.process.alive() != Some(false)))
    }

    /// Ends the process that holds the run's lock on this host, then takes the lock. It is
    /// asked (TERM), given `grace`, then forced (KILL) and given `grace` again. The lock
    /// itself is never broken. Refused (`Invalid`) if the holder is this process or cannot
    /// be identified as a living process of this host; `Busy` if the lock does not come free.
    pub fn break_lock(&self, run_id: &str, holder_json: &str, grace: Duration) -> FileResult<RunLock> {
        let at = self.run_path(run_id).join(LOCK);
        for ending in [Ending::Asked, Ending::Forced] {
            let holder = match self.lock(run_id, holder_json)? {
                LockOutcome::Acquired(lock) => return Ok(lock),
                LockOutcome::Busy { holder } => holder,
            };
            let Some(holder) = holder else {
                return Err(FileError::invalid("break lock", at, "the holder has not said who it is"));
            };
            if holder.process.pid == std::process::id() {
                return Err(FileError::invalid("break lock", at, "the holder is this process"));
            }
            if holder.process.alive().is_none() {
                let detail = format!("process {} is of another host or boot", holder.process.pid);
                return Err(FileError::invalid("break lock", at, detail));
            }
            let sent = signal(&holder.process, ending);
            let sent = sent.map_err(|why| FileError::new(PortErrorKind::Denied, "break lock", &at, why))?;
            // what is gone may still be on its way out, and its lock with it
            let patience = if sent == Signalled::Sent { grace } else { grace.min(Duration::from_secs(1)) };
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
                if let LockOutcome::Acquired(lock) = self.lock(run_id, holder_json)? {
                    return Ok(lock);
                }
            }
        }
        Err(FileError::new(
            PortErrorKind::Busy,
            "break lock",
            at,
            "it was not released after the holder was ended",
        ))
    }

    /// The document's newest claim with its generation, or `None`. One folder lookup,
    /// whatever the number of runs.
    pub fn latest_claim(&self, document_id: &str) -> FileResult<Option<(u64, Vec<u8>)>> {
        let Some(claims) = self.claims(document_id)? else { return Ok(None) };
        match highest_generation(&claims)? {
            0 => Ok(None),
            n => claims
                .read(&n.to_string(), MAX_RECORD_BYTES)?
                .filter(|bytes| !bytes.is_empty())
                .map(|bytes| Some((n, bytes)))
                .ok_or_else(|| {
                    FileError::corrupt("read claim", claims.path().join(n.to_string()), "it is empty")
                }),
        }
    }

    /// Publishes a claim on the document, durably, if that generation (from 1, without a
    /// gap) is not taken.
    pub fn put_claim(&self, document_id: &str, generation: u64, bytes: &[u8]) -> FileResult<Put> {
        let at = self.root.join(CLAIMS).join(Digest::of(document_id.as_bytes()).to_hex());
        if bytes.is_empty() || bytes.len() > MAX_RECORD_BYTES {
            let detail = format!("expected 1 to {MAX_RECORD_BYTES} bytes, observed {}", bytes.len());
            return Err(FileError::invalid("claim", at, detail));
        }
        let claims = Folder::open_or_make(&self.root)?
            .make_folder(CLAIMS)?
            .make_folder(&Digest::of(document_id.as_bytes()).to_hex())?;
        let newest = highest_generation(&claims)?;
        if generation == 0 || generation > newest + 1 {
            let detail = format!("expected a generation from 1 to {}, observed {generation}", newest + 1);
            return Err(FileError::invalid("claim", at, detail));
        }
        let name = generation.to_string();
        if claims.write_new(&name, bytes)? == Placed::Created {
            return Ok(Put::Created);
        }
        let found = claims
            .read(&name, MAX_RECORD_BYTES)?
            .ok_or_else(|| FileError::corrupt("read claim", claims.path().join(&name), "it vanished"))?;
        Ok(if found == bytes { Put::Identical } else { Put::Exists { found } })
    }

    /// Ids of all runs that have a revision, sorted by bytes.
    pub fn list(&self) -> FileResult<Vec<String>> {
        let root = match Folder::open(&self.root) {
            Ok(root) => root,
            Err(e) if e.kind == PortErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let mut runs = Vec::new();
        for (name, kind) in root.names()? {
            if kind != FileType::Directory || check_run_id(&self.root, &name).is_err() {
                continue;
            }
            let rev = root.folder(&name)?.map(|run| run.folder(REV)).transpose()?.flatten();
            if let Some(rev) = rev
                && rev.open_file(&revision_name(1))?.is_some()
            {
                runs.push(name);
            }
        }
        Ok(runs)
    }

    /// The run's folder, for `backup_target`.
    pub(crate) fn run(&self, run_id: &str) -> FileResult<Option<Folder>> {
        check_run_id(&self.root, run_id)?;
        match Folder::open(&self.root) {
            Ok(root) => root.folder(run_id),
            Err(e) if e.kind == PortErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The run's folder, made if it is not there: for what belongs to a run whose state is elsewhere.
    pub(crate) fn make_run_folder(&self, run_id: &str) -> FileResult<Folder> {
        check_run_id(&self.root, run_id)?;
        Folder::open_or_make(&self.root)?.make_folder(run_id)
    }

    pub(crate) fn no_run(&self, op: &'static str, run_id: &str) -> FileError {
        FileError::new(PortErrorKind::NotFound, op, self.run_path(run_id), "there is no such run")
    }

    fn revisions(&self, run_id: &str) -> FileResult<Option<Folder>> {
        match self.run(run_id)? {
            Some(run) => run.folder(REV),
            None => Ok(None),
        }
    }

    fn claims(&self, document_id: &str) -> FileResult<Option<Folder>> {
        let root = match Folder::open(&self.root) {
            Ok(root) => root,
            Err(e) if e.kind == PortErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        match root.folder(CLAIMS)? {
            Some(claims) => claims.folder(&Digest::of(document_id.as_bytes()).to_hex()),
            None => Ok(None),
        }
    }

    /// The bytes as they stand. What they say, and whether they are whole, is for the sidecar's
    /// own rules: a broken revision must still be found, or it could not be recovered from.
    fn read_revision(&self, rev: &Folder, n: u64) -> FileResult<Vec<u8>> {
        let name = revision_name(n);
        let at = rev.path().join(&name);
        rev.read(&name, MAX_SIDECAR_BYTES)?
            .ok_or_else(|| FileError::corrupt("read revision", &at, "the file is missing"))
    }

    fn check_sidecar(&self, run_id: &str, bytes: &[u8]) -> FileResult<()> {
        let at = self.run_path(run_id).join(STATE);
        if bytes.len() > MAX_SIDECAR_BYTES {
            let detail = format!("expected at most {MAX_SIDECAR_BYTES} bytes, observed {}", bytes.len());
            return Err(FileError::invalid("publish", at, detail));
        }
        serde_json::from_slice::<serde::de::IgnoredAny>(bytes)
            .map(|_| ())
            .map_err(|e| FileError::invalid("publish", at, format!("expected a JSON document: {e}")))
    }

    fn recorded_holder(&self, run_id: &str) -> FileResult<Option<Holder>> {
        let Some(run) = self.run(run_id)? else { return Ok(None) };
        let Some(file) = run.open_file(LOCK)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(MAX_RECORD_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| FileError::io("read holder", self.run_path(run_id).join(LOCK), &e))?;
        // a record being written right now does not parse: nobody has said who it is yet
        Ok(serde_json::from_slice(&bytes).ok())
    }
}

fn check_run_id(root: &Path, run_id: &str) -> FileResult<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if check_name(run_id).is_ok() && run_id.len() <= 128 && run_id.chars().all(plain) && run_id != CLAIMS {
        return Ok(());
    }
    let observed: String = run_id.chars().take(80).collect();
    let detail = format!("expected a run id of letters, digits, '-', '_' and '.', observed {observed:?}");
    Err(FileError::invalid("find run", root, detail))
}

fn revision_name(n: u64) -> String {
    format!("{n}.json")
}

/// The highest revision, 0 if there is none. A gap, or a file that is no revision, means
/// that somebody else has been here.
fn highest(rev: &Folder) -> FileResult<u64> {
    numbered(rev, ".json")
}

fn highest_generation(claims: &Folder) -> FileResult<u64> {
    numbered(claims, "")
}

fn numbered(folder: &Folder, suffix: &str) -> FileResult<u64> {
    // a listing made while others add files may show a later one and miss an earlier one,
    // so a gap counts only if it stays
    let mut outcome = count_numbered(folder, suffix)?;
    for _ in 0..3 {
        if outcome.0 == outcome.1 {
            return Ok(outcome.0);
        }
        outcome = count_numbered(folder, suffix)?;
    }
    let (highest, count) = outcome;
    let detail = format!("expected numbers 1 to {highest} without a gap, observed {count} files");
    Err(FileError::corrupt("read folder", folder.path(), detail))
}

fn count_numbered(folder: &Folder, suffix: &str) -> FileResult<(u64, u64)> {
    let (mut highest, mut count) = (0u64, 0u64);
    for (name, _) in folder.names()? {
        if name.starts_with('.') {
            continue;
        }
        let number = name
            .strip_suffix(suffix)
            .and_then(|s| s.parse::<u64>().ok().filter(|n| *n > 0 && n.to_string() == s));
        let Some(number) = number else {
            return Err(FileError::corrupt("read folder", folder.path().join(&name), "unexpected file"));
        };
        highest = highest.max(number);
        count += 1;
    }
    Ok((highest, count))
}
