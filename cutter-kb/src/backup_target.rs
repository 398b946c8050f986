//! Backups into the run's folder, encrypted to the pinned key (`IG_backup`, PROTOCOL §2).
//!
//! ```text
//! begin ─> .tmp-… ─> finish ─> pre_write.<epoch>.gpg ─> (recorded in the sidecar) ─> pre_write.gpg
//! ```
//!
//! The blob gets its name by link, never replacing. What the sidecar does not record is
//! discarded under the run's lock; the recorded one is re-hashed before it is relied upon.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use cutter_core::base::digest::{Digest, Hasher};
use cutter_core::port::PortErrorKind;

use crate::atomic_file::{Folder, Placed, TempFile};
use crate::file_error::{FileError, FileResult};
use crate::openpgp::{EncryptWriter, Fingerprint, OpenPgpError, Recipient};
use crate::run_store::FileRunStore;

const RECORDED: &str = "pre_write.gpg";

/// Where backups go: the folders of a run store, encrypted to one recipient.
#[derive(Debug, Clone)]
pub struct FolderBackupTarget {
    store: FileRunStore,
    recipient: Recipient,
    makes_folders: bool,
}

/// What was stored; the sidecar records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReceipt {
    /// File name within the run's folder, `pre_write.<epoch>.gpg`.
    pub name: String,
    /// The whole path.
    pub path: PathBuf,
    /// Size of the encrypted file.
    pub bytes: u64,
    /// sha256 of the encrypted file.
    pub ciphertext_sha256: Digest,
    /// Size before encryption.
    pub plaintext_bytes: u64,
    /// sha256 before encryption.
    pub plaintext_sha256: Digest,
    /// Primary fingerprint of the recipient.
    pub recipient: Fingerprint,
}

/// Size and sha256 of a stored backup as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupHash {
    /// Size in bytes.
    pub bytes: u64,
    /// sha256 of the encrypted file.
    pub ciphertext_sha256: Digest,
}

/// A backup being written. Dropped unfinished it leaves nothing.
#[derive(Debug)]
pub struct BackupWriter {
    inner: EncryptWriter<TempFile>,
    name: String,
    path: PathBuf,
}

impl FolderBackupTarget {
    /// Backups into the run folders of `store`, encrypted to `recipient`.
    #[must_use]
    pub fn new(store: FileRunStore, recipient: Recipient) -> Self {
        Self { store, recipient, makes_folders: false }
    }

    /// Makes the folder of a run that has none: for runs whose state is elsewhere.
    #[must_use]
    pub fn making_folders(mut self) -> Self {
        self.makes_folders = true;
        self
    }

    /// The recipient that everything is encrypted to.
    #[must_use]
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    /// Whether a file can be made in the run's folder now.
    #[must_use]
    pub fn writable(&self, run_id: &str) -> bool {
        self.run(run_id).and_then(|run| run.temporary()).is_ok()
    }

    /// Starts the backup of a run under fence epoch `epoch`. Call it under the run's lock.
    /// `Conflict` if that epoch has a backup already.
    pub fn begin(&self, run_id: &str, epoch: u64) -> FileResult<BackupWriter> {
        let run = self.run(run_id)?;
        let name = backup_name(epoch);
        let path = run.path().join(&name);
        if run.open_file(&name)?.is_some() {
            return Err(taken(path));
        }
        let inner = EncryptWriter::new(&self.recipient, run.temporary()?).map_err(|e| convert(&path, e))?;
        Ok(BackupWriter { inner, name, path })
    }

    /// Size and sha256 of the stored file `name`; `NotFound` if it is gone.
    pub fn rehash(&self, run_id: &str, name: &str) -> FileResult<BackupHash> {
        let mut file = self.open(run_id, name)?;
        let at = self.store.run_path(run_id).join(name);
        let (mut hasher, mut bytes, mut buffer) = (Hasher::new(), 0u64, vec![0u8; 1 << 16]);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(BackupHash { bytes, ciphertext_sha256: hasher.finish() }),
                Ok(read) => {
                    hasher.update(buffer.get(..read).unwrap_or_default());
                    bytes += read as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(FileError::io("read backup", at, &e)),
            }
        }
    }

    /// Opens the stored file `name`, for restore and inspect.
    pub fn open(&self, run_id: &str, name: &str) -> FileResult<File> {
        check_backup_name(&self.store, run_id, name)?;
        self.run(run_id)?.open_file(name)?.ok_or_else(|| self.missing(run_id, name))
    }

    /// Removes every backup of the run but `keep`, the recorded one, and returns their
    /// names. Only under the run's lock.
    pub fn discard_unrecorded(&self, run_id: &str, keep: Option<&str>) -> FileResult<Vec<String>> {
        if let Some(keep) = keep {
            check_backup_name(&self.store, run_id, keep)?;
        }
        let run = self.run(run_id)?;
        let mut discarded = Vec::new();
        for (name, _) in run.names()? {
            if epoch_of(&name).is_some() && Some(name.as_str()) != keep && run.remove(&name)? {
                discarded.push(name);
            }
        }
        if keep.is_none() && run.remove(RECORDED)? {
            discarded.push(RECORDED.to_owned());
        }
        if !discarded.is_empty() {
            run.sync()?;
        }
        Ok(discarded)
    }

    /// Makes `pre_write.gpg` another name of the recorded backup `name`. Repeatable.
    pub fn record(&self, run_id: &str, name: &str) -> FileResult<()> {
        check_backup_name(&self.store, run_id, name)?;
        let run = self.run(run_id)?;
        if run.open_file(name)?.is_none() {
            return Err(self.missing(run_id, name));
        }
        run.link_over(name, &run, RECORDED)?;
        run.sync()
    }

    fn run(&self, run_id: &str) -> FileResult<Folder> {
        if self.makes_folders {
            return self.store.make_run_folder(run_id);
        }
        self.store.run(run_id)?.ok_or_else(|| self.store.no_run("backup", run_id))
    }

    fn missing(&self, run_id: &str, name: &str) -> FileError {
        let at = self.store.run_path(run_id).join(name);
        FileError::new(PortErrorKind::NotFound, "read backup", at, "the backup is not there")
    }
}

impl BackupWriter {
    /// Where the backup will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Completes the message and gives the file its name, durably. `Full` or another
    /// error leaves nothing; `Conflict` if the epoch got a backup in the meantime.
    pub fn finish(self) -> FileResult<BackupReceipt> {
        let Self { inner, name, path } = self;
        let (file, facts) = inner.finish().map_err(|e| convert(&path, e))?;
        match file.publish_new(&name)? {
            Placed::Created => Ok(BackupReceipt {
                name,
                path,
                bytes: facts.ciphertext_bytes,
                ciphertext_sha256: facts.ciphertext_sha256,
                plaintext_bytes: facts.plaintext_bytes,
                plaintext_sha256: facts.plaintext_sha256,
                recipient: facts.recipient,
            }),
            Placed::AlreadyThere => Err(taken(path)),
        }
    }
}

impl Write for BackupWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(crate) fn backup_name(epoch: u64) -> String {
    format!("pre_write.{epoch}.gpg")
}

pub(crate) fn epoch_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("pre_write.")?.strip_suffix(".gpg")?;
    digits.parse().ok().filter(|epoch: &u64| epoch.to_string() == digits)
}

fn check_backup_name(store: &FileRunStore, run_id: &str, name: &str) -> FileResult<()> {
    if epoch_of(name).is_some() {
        return Ok(());
    }
    let observed: String = name.chars().take(80).collect();
    let detail = format!("expected a name like pre_write.<epoch>.gpg, observed {observed:?}");
    Err(FileError::invalid("find backup", store.run_path(run_id), detail))
}

fn taken(path: PathBuf) -> FileError {
    FileError::new(
        PortErrorKind::Conflict,
        "begin backup",
        path,
        "this epoch has a backup; it is never replaced",
    )
}

fn convert(path: &Path, error: OpenPgpError) -> FileError {
    match error {
        OpenPgpError::Io { op, source } => FileError::io(op, path, &source),
        other => FileError::new(PortErrorKind::Unavailable, "encrypt backup", path, other.to_string()),
    }
}
