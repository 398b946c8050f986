//! The knowledge base on a folder: create-only documents with revisions, and the runs index.
//!
//! The file at a document's path always is the document. A person may drop one there or
//! edit it; it is read as it stands. Beside it, hidden, the store keeps what it revised:
//!
//! ```text
//! laws/run/SG1-….md                      the document
//! laws/run/.revisions/SG1-….md/1         revision 1, kept when revision 2 was made
//! laws/run/.revisions/SG1-….md/2         revision 2 (equal to the document)
//! laws/run/.revisions/SG1-….md/1.edited.<sha>   what a person had made of revision 1
//! laws/run/.revisions/SG1-….md/3.next    revision 3 in the making
//! .lock                                  shared by readers and creators, exclusive to revise
//! ```
//!
//! Revising writes `<n+1>.next`, then replaces the document (the commit), then renames
//! `.next`. A crash before the commit leaves revision n; after it, `.next` equals the
//! document, which then is revision n+1. A hand edit changes the sha256, not the number.

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::port::PortErrorKind;
use rustix::fs::{FileType, OFlags};

use crate::atomic_file::{Durability, Folder, Placed, check_name};
use crate::file_error::{FileError, FileResult};
use crate::file_lock::FileLock;

/// A larger file is no document.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Longest runs-index line, in characters (D4).
pub const MAX_INDEX_LINE: usize = 512;
/// Longest document path, in bytes.
pub const MAX_PATH_BYTES: usize = 1024;

/// More bytes than [`MAX_INDEX_LINE`] characters have.
const MAX_LINE_BYTES: u64 = 4 * MAX_INDEX_LINE as u64 + 2;

const LOCK: &str = ".lock";
const REVISIONS: &str = ".revisions";

/// A document as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How often it was published through the store: 1 when created or dropped in.
    pub revision: u64,
    /// sha256 of the bytes.
    pub sha256: Digest,
}

/// What stands there: for conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Revision number.
    pub revision: u64,
    /// sha256 of the bytes.
    pub sha256: Digest,
}

/// The outcome of creating a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// Created now, durable.
    Created,
    /// Exactly these bytes were there; durable.
    Identical,
    /// Other bytes are there and were not touched.
    Different {
        /// sha256 of what is there.
        found: Digest,
    },
}

/// The outcome of appending to the runs index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Append {
    /// Appended now, durable.
    Appended,
    /// Exactly this line was there.
    AlreadyThere,
    /// The run has another line.
    Conflict {
        /// That line.
        found: String,
    },
}

/// The knowledge base below one folder. Cheap to make; holds nothing open.
#[derive(Debug, Clone)]
pub struct FolderKb {
    root: PathBuf,
}

impl FolderKb {
    /// The base below `root`, which is made on the first write.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates the document `path` (relative, `/` between parts). The same bytes again are
    /// `Identical`; other bytes never replace what is there.
    pub fn create(&self, path: &str, bytes: &[u8]) -> FileResult<Creation> {
        let (folders, name) = self.parts(path)?;
        self.check_size(path, bytes)?;
        let root = Folder::open_or_make(&self.root)?;
        // Best effort: a leftover must not keep a document from being filed.
        let _ = sweep_if_alone(&root, &folders);
        let _lock = FileLock::shared(&root, LOCK)?;
        let folder = make_path(root, &folders)?;
        match folder.write_new(name, bytes)? {
            Placed::Created => Ok(Creation::Created),
            Placed::AlreadyThere => {
                let found = folder.read(name, MAX_DOCUMENT_BYTES)?.ok_or_else(|| self.vanished(path))?;
                Ok(if found == bytes {
                    Creation::Identical
                } else {
                    Creation::Different { found: Digest::of(&found) }
                })
            }
        }
    }

    /// The document as it stands, hand edits included, or `None`.
    pub fn read(&self, path: &str) -> FileResult<Option<Document>> {
        let (folders, name) = self.parts(path)?;
        let Some(root) = self.open_root()? else { return Ok(None) };
        let _lock = FileLock::shared(&root, LOCK)?;
        let Some(folder) = open_path(root, &folders)? else { return Ok(None) };
        let Some(bytes) = folder.read(name, MAX_DOCUMENT_BYTES)? else { return Ok(None) };
        let revision = match revisions(&folder, name)? {
            Some(kept) => position(&kept, &bytes)?.revision(),
            None => 1,
        };
        let sha256 = Digest::of(&bytes);
        Ok(Some(Document { bytes, revision, sha256 }))
    }

    /// A kept revision: what revision `n` was when the store published it or, for the
    /// first, when it was first revised. `None` if it was not kept; the newest revision is
    /// kept only once there are two.
    pub fn read_revision(&self, path: &str, n: u64) -> FileResult<Option<Vec<u8>>> {
        let (folders, name) = self.parts(path)?;
        let Some(root) = self.open_root()? else { return Ok(None) };
        let _lock = FileLock::shared(&root, LOCK)?;
        let Some(folder) = open_path(root, &folders)? else { return Ok(None) };
        match revisions(&folder, name)? {
            Some(kept) => kept.read(&n.to_string(), MAX_DOCUMENT_BYTES),
            None => Ok(None),
        }
    }

    /// Publishes revision `expected_revision + 1` if the document is at
    /// `expected_revision`. The same call again is `AlreadyApplied`. What stood there
    /// before is kept, a hand edit too. `NotFound` if there is no document.
    pub fn revise(&self, path: &str, expected_revision: u64, bytes: &[u8]) -> FileResult<CasOutcome<Stamp>> {
        let (folders, name) = self.parts(path)?;
        self.check_size(path, bytes)?;
        let missing = || {
            FileError::new(
                PortErrorKind::NotFound,
                "revise",
                self.root.join(path),
                "there is no such document",
            )
        };
        let root = self.open_root()?.ok_or_else(missing)?;
        let _lock = FileLock::exclusive(&root, LOCK)?;
        let folder = open_path(root, &folders)?.ok_or_else(missing)?;
        let current = folder.read(name, MAX_DOCUMENT_BYTES)?.ok_or_else(missing)?;
        let kept = folder.make_folder(REVISIONS)?.make_folder(name)?;
        kept.sweep()?;
        let at = position(&kept, &current)?;
        if let Position::Unnamed(n) = at {
            kept.rename(&next_name(n), &n.to_string())?;
        }
        let revision = at.revision();
        if Some(revision) == expected_revision.checked_add(1) && current == bytes {
            return Ok(CasOutcome::AlreadyApplied);
        }
        if revision != expected_revision {
            return Ok(CasOutcome::Conflict { found: Stamp { revision, sha256: Digest::of(&current) } });
        }
        keep(&kept, revision, &current)?;
        let next = next_name(revision + 1);
        kept.replace(&next, bytes, Durability::Synced)?;
        folder.replace(name, bytes, Durability::Synced)?;
        kept.rename(&next, &(revision + 1).to_string())?;
        Ok(CasOutcome::Applied)
    }

    /// Paths of all documents that begin with `prefix` (bytes, not folders), sorted by
    /// bytes. Hidden files, editors' `~` copies and links are left out. The folders above are
    /// opened and not read: what stands beside them costs nothing.
    pub fn list(&self, prefix: &str) -> FileResult<Vec<String>> {
        let Some(mut folder) = self.open_root()? else { return Ok(Vec::new()) };
        let above = prefix.rfind('/').map_or("", |end| &prefix[..=end]);
        for name in above.split_terminator('/') {
            if check_name(name).is_err() || name.ends_with('~') {
                return Ok(Vec::new());
            }
            match folder.folder_if_any(name)? {
                Some(inner) => folder = inner,
                None => return Ok(Vec::new()),
            }
        }
        let mut found = Vec::new();
        walk(&folder, above, prefix, &mut found)?;
        found.sort();
        Ok(found)
    }

    /// Appends the run's line to the runs index, durably, once. A tail without a line
    /// ending, which a crash left, is cut first. `line` begins with ``- `<run_id>` `` and
    /// has at most 512 characters.
    pub fn append_index(&self, path: &str, run_id: &str, line: &str) -> FileResult<Append> {
        let (folders, name) = self.parts(path)?;
        let full = self.root.join(path);
        let length = line.chars().count();
        if length > MAX_INDEX_LINE || line.chars().any(char::is_control) || !is_line_of(line, run_id) {
            let detail = format!(
                "expected one line of at most {MAX_INDEX_LINE} characters that begins with {:?}, observed {length}",
                line_start(run_id)
            );
            return Err(FileError::invalid("append index line", full, detail));
        }
        let root = Folder::open_or_make(&self.root)?;
        let _lock = FileLock::exclusive(&root, LOCK)?;
        let folder = make_path(root, &folders)?;
        let failed = |op: &'static str| {
            let full = full.clone();
            move |e: std::io::Error| FileError::io(op, full, &e)
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
        let mut file = folder.open_regular(name, flags)?.ok_or_else(|| self.vanished(path))?;
        let scan = scan_index(&file, run_id).map_err(failed("read"))?;
        if scan.whole_bytes < scan.all_bytes {
            file.set_len(scan.whole_bytes).map_err(failed("cut torn tail"))?;
            file.sync_all().map_err(failed("sync"))?;
        }
        if let Some(found) = scan.line {
            folder.sync()?;
            return Ok(if found == line { Append::AlreadyThere } else { Append::Conflict { found } });
        }
        file.seek(SeekFrom::Start(scan.whole_bytes)).map_err(failed("seek"))?;
        let written = file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_all());
        if let Err(e) = written {
            // nothing half-written: if this fails too, the tail is cut next time
            let _ = file.set_len(scan.whole_bytes);
            return Err(failed("append")(e));
        }
        folder.sync()?;
        Ok(Append::Appended)
    }

    /// The run's line in the index `path`, or `None`. A torn tail does not count.
    pub fn index_line(&self, path: &str, run_id: &str) -> FileResult<Option<String>> {
        let (folders, name) = self.parts(path)?;
        let Some(root) = self.open_root()? else { return Ok(None) };
        let _lock = FileLock::shared(&root, LOCK)?;
        let Some(folder) = open_path(root, &folders)? else { return Ok(None) };
        let Some(file) = folder.open_file(name)? else { return Ok(None) };
        let scan = scan_index(&file, run_id).map_err(|e| FileError::io("read", self.root.join(path), &e))?;
        Ok(scan.line)
    }

    /// Removes temporary files that crashes left in the folder of `path` and returns how
    /// many. Takes the exclusive lock, so no living writer loses one.
    pub fn sweep(&self) -> FileResult<usize> {
        let Some(root) = self.open_root()? else { return Ok(0) };
        let _lock = FileLock::exclusive(&root, LOCK)?;
        sweep_below(&root)
    }

    fn open_root(&self) -> FileResult<Option<Folder>> {
        match Folder::open(&self.root) {
            Ok(root) => Ok(Some(root)),
            Err(e) if e.kind == PortErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Checks a document path and splits it into folders and file name.
    fn parts<'p>(&self, path: &'p str) -> FileResult<(Vec<&'p str>, &'p str)> {
        let refuse =
            |detail: String| FileError::invalid("resolve document path", self.root.join("…"), detail);
        if path.len() > MAX_PATH_BYTES {
            return Err(refuse(format!("expected at most {MAX_PATH_BYTES} bytes, observed {}", path.len())));
        }
        let mut parts: Vec<&str> = path.split('/').collect();
        for part in &parts {
            check_name(part).map_err(|why| refuse(format!("{path:?}: {why}")))?;
        }
        let name = parts.pop().ok_or_else(|| refuse("the path is empty".to_owned()))?;
        Ok((parts, name))
    }

    fn check_size(&self, path: &str, bytes: &[u8]) -> FileResult<()> {
        if bytes.len() <= MAX_DOCUMENT_BYTES {
            return Ok(());
        }
        let detail = format!("expected at most {MAX_DOCUMENT_BYTES} bytes, observed {}", bytes.len());
        Err(FileError::invalid("write document", self.root.join(path), detail))
    }

    fn vanished(&self, path: &str) -> FileError {
        FileError::new(
            PortErrorKind::Unavailable,
            "read",
            self.root.join(path),
            "it vanished while being read",
        )
    }
}

fn make_path(root: Folder, folders: &[&str]) -> FileResult<Folder> {
    folders.iter().try_fold(root, |folder, name| folder.make_folder(name))
}

fn open_path(root: Folder, folders: &[&str]) -> FileResult<Option<Folder>> {
    let mut folder = root;
    for name in folders {
        match folder.folder(name)? {
            Some(inner) => folder = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(folder))
}

fn revisions(folder: &Folder, name: &str) -> FileResult<Option<Folder>> {
    match folder.folder(REVISIONS)? {
        Some(all) => all.folder(name),
        None => Ok(None),
    }
}

fn next_name(revision: u64) -> String {
    format!("{revision}.next")
}

enum Position {
    At(u64),
    /// Committed, but its kept copy still has its `.next` name.
    Unnamed(u64),
}

impl Position {
    fn revision(&self) -> u64 {
        match self {
            Self::At(n) | Self::Unnamed(n) => *n,
        }
    }
}

fn position(kept: &Folder, document: &[u8]) -> FileResult<Position> {
    let highest = kept.names()?.iter().filter_map(|(name, _)| name.parse::<u64>().ok()).max().unwrap_or(1);
    match kept.read(&next_name(highest + 1), MAX_DOCUMENT_BYTES)? {
        Some(next) if next == document => Ok(Position::Unnamed(highest + 1)),
        _ => Ok(Position::At(highest)),
    }
}

/// Keeps what is about to be replaced; beside the published bytes if a person edited them.
fn keep(kept: &Folder, revision: u64, bytes: &[u8]) -> FileResult<()> {
    let name = revision.to_string();
    if kept.write_new(&name, bytes)? == Placed::Created {
        return Ok(());
    }
    if kept.read(&name, MAX_DOCUMENT_BYTES)?.as_deref() != Some(bytes) {
        let edited = format!("{revision}.edited.{}", Digest::of(bytes).short(16));
        kept.write_new(&edited, bytes)?;
    }
    Ok(())
}

fn walk(folder: &Folder, at: &str, prefix: &str, found: &mut Vec<String>) -> FileResult<()> {
    for (name, kind) in folder.names()? {
        if check_name(&name).is_err() || name.ends_with('~') {
            continue;
        }
        let path = format!("{at}{name}");
        match kind {
            FileType::RegularFile if path.starts_with(prefix) => found.push(path),
            FileType::Directory => {
                let inside = format!("{path}/");
                if (inside.starts_with(prefix) || prefix.starts_with(&inside))
                    && let Some(inner) = folder.folder(&name)?
                {
                    walk(&inner, &inside, prefix, found)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes what a killed writer left in one folder, if nobody writes to the base at this moment:
/// then no temporary file is a living writer's. Does not wait.
fn sweep_if_alone(root: &Folder, folders: &[&str]) -> FileResult<()> {
    let Some(_alone) = FileLock::try_exclusive(root, LOCK)? else { return Ok(()) };
    if let Some(folder) = open_path(root.try_clone()?, folders)? {
        folder.sweep()?;
    }
    Ok(())
}

fn sweep_below(folder: &Folder) -> FileResult<usize> {
    let mut swept = folder.sweep()?.len();
    for (name, kind) in folder.names()? {
        if kind == FileType::Directory
            && let Some(inner) = folder.folder(&name)?
        {
            swept += sweep_below(&inner)?;
        }
    }
    Ok(swept)
}

pub(crate) fn line_start(run_id: &str) -> String {
    format!("- `{run_id}`")
}

pub(crate) fn is_line_of(line: &str, run_id: &str) -> bool {
    !run_id.is_empty() && !run_id.contains('`') && line.starts_with(&line_start(run_id))
}

struct IndexScan {
    /// The run's first whole line.
    line: Option<String>,
    /// Bytes up to and with the last line ending.
    whole_bytes: u64,
    all_bytes: u64,
}

fn scan_index(file: &std::fs::File, run_id: &str) -> std::io::Result<IndexScan> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut scan = IndexScan { line: None, whole_bytes: 0, all_bytes: 0 };
    let mut line = Vec::new();
    let mut within = false;
    loop {
        line.clear();
        // A line of ours is short; of a longer one the rest is passed over piece by piece.
        let read = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(scan);
        }
        scan.all_bytes += read as u64;
        let continues = std::mem::replace(&mut within, line.last() != Some(&b'\n'));
        if line.last() != Some(&b'\n') {
            continue;
        }
        scan.whole_bytes = scan.all_bytes;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if scan.line.is_none()
            && !continues
            && let Ok(text) = std::str::from_utf8(&line)
            && is_line_of(text, run_id)
        {
            scan.line = Some(text.to_owned());
        }
    }
}
