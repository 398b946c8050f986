//! Where documents and backups live: folders, or an object store by URL.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::id::RunId;
use cutter_core::port::backup::BackupTarget;
use cutter_core::port::knowledge_base::KnowledgeBase;
use cutter_kb::backup_target::FolderBackupTarget;
use cutter_kb::folder::FolderKb;
use cutter_kb::object_store::{BackupReader, KbUrl, ObjectBackupTarget, ObjectKb, Place};
use cutter_kb::openpgp::Recipient;
use cutter_kb::run_store::FileRunStore;
use futures_executor::block_on;

use crate::config::{Config, RunsIn};
use crate::failure::Failure;
use crate::files::open_plain;

/// Opens the place of a URL, with the store's own variables from the environment.
pub(crate) fn place(url: &KbUrl) -> Result<Place, Failure> {
    // a variable whose text is no UTF-8 is none of a store's
    let variables =
        std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    url.open(variables).map_err(|e| Failure::usage(e.to_string()).next("cutter doctor"))
}

/// The configured knowledge base.
pub(crate) fn knowledge_base(config: &Config) -> Result<Arc<dyn KnowledgeBase>, Failure> {
    Ok(match &config.kb_url {
        Some(url) => Arc::new(ObjectKb::new(place(url)?)),
        None => Arc::new(FolderKb::new(&config.kb_dir)),
    })
}

/// What a revision of a document is, if it was kept.
pub(crate) fn kb_revision(config: &Config, path: &str, revision: u32) -> Result<Option<Vec<u8>>, Failure> {
    match &config.kb_url {
        Some(url) => Ok(block_on(ObjectKb::new(place(url)?).read_revision(path, revision))?),
        None => {
            let kept = FolderKb::new(&config.kb_dir).read_revision(path, u64::from(revision));
            kept.map_err(super::file_failure)
        }
    }
}

/// Puts bytes in the place of what stands there, which is kept. For a person's command alone: the
/// port that runs have cannot do it.
pub(crate) fn kb_revise(config: &Config, path: &str, revision: u32, bytes: &[u8]) -> Result<(), Failure> {
    let revised = match &config.kb_url {
        Some(url) => block_on(ObjectKb::new(place(url)?).revise(path, revision, bytes))?,
        None => {
            let revised = FolderKb::new(&config.kb_dir).revise(path, u64::from(revision), bytes);
            revised.map_err(super::file_failure)?
        }
    };
    match revised {
        CasOutcome::Conflict { found } => Err(Failure::stopped(
            "STOP_KB_CONFLICT",
            format!(
                "{path}: expected revision {revision}, observed revision {}: it was changed meanwhile",
                found.revision
            ),
        )),
        CasOutcome::Applied | CasOutcome::AlreadyApplied => Ok(()),
    }
}

/// Where backups go: a store, or the runs' folders.
pub(crate) fn backup_target(
    config: &Config,
    files: &FileRunStore,
    recipient: Recipient,
) -> Result<Arc<dyn BackupTarget>, Failure> {
    Ok(match &config.backup_url {
        Some(url) => Arc::new(ObjectBackupTarget::new(place(url)?, recipient)),
        None if config.runs == RunsIn::Pg => {
            Arc::new(FolderBackupTarget::new(files.clone(), recipient).making_folders())
        }
        None => Arc::new(FolderBackupTarget::new(files.clone(), recipient)),
    })
}

/// A stored backup's ciphertext, as a file. From a store it is fetched into one without a name.
pub(crate) fn open_backup(
    config: &Config,
    files: &FileRunStore,
    run_id: &RunId,
    name: &str,
) -> Result<File, Failure> {
    let Some(url) = &config.backup_url else {
        let path = files.run_path(run_id.as_str()).join(name);
        return open_plain(&path);
    };
    let found = block_on(BackupReader::open(&place(url)?, run_id, name))?;
    let mut reader = found.ok_or_else(|| Failure::evidence(format!("{url}/{run_id}/{name} is not there")))?;
    let mut file = unnamed(&config.home)?;
    let failed = |e: std::io::Error| Failure::io("write", &config.home, &e);
    while let Some(piece) = block_on(reader.next())? {
        file.write_all(&piece).map_err(failed)?;
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(file)
}

/// A private file that is gone with the process.
pub(crate) fn unnamed(folder: &Path) -> Result<File, Failure> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = folder.join(format!("backup-{}-{n}.tmp", std::process::id()));
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Failure::io("create", &path, &e))?;
    std::fs::remove_file(&path).map_err(|e| Failure::io("remove", &path, &e))?;
    Ok(file)
}
