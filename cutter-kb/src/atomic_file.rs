//! Durable files: whole or not there, never half, never through a symbolic link.
//!
//! A new file is written to a hidden temporary file in the same folder, synced, and then
//! given its name by `link(2)`, which fails if the name is taken: so of many writers one
//! wins, and a crash leaves at most a temporary file. Replacing uses `rename(2)`. The folder
//! is synced after either. Whoever holds the lock over a folder sweeps the leftovers.
//!
//! Everything below a root is opened component by component relative to its parent's
//! descriptor with `O_NOFOLLOW`; a link that someone places below the root is an error, not
//! a way out. Files are 0600, folders 0700.
//!
//! ENOSPC and EFBIG end as kind `Full`. The latter needs SIGXFSZ caught or ignored by the
//! program; else the system ends the process before the write returns.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cutter_core::base::digest::to_hex;
use cutter_core::port::PortErrorKind;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file_error::{FileError, FileResult};
use crate::plain_file;

const FILE_MODE: Mode = Mode::from_bits_retain(0o600);
const FOLDER_MODE: Mode = Mode::from_bits_retain(0o700);
const TEMP_PREFIX: &str = ".tmp-";

/// The outcome of giving a file its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// Created by this call, durable.
    Created,
    /// Something of that name is there already; it was not touched.
    AlreadyThere,
}

/// How far a replaced file must have got when the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On the disk, the name included.
    Synced,
    /// Visible whole to others, but a power failure may lose it: for derived mirrors.
    Visible,
}

/// Creates the file `path` with `bytes`, durably, unless the name is taken.
pub fn write_new(path: &Path, bytes: &[u8]) -> FileResult<Placed> {
    let (folder, name) = split(path)?;
    folder.write_new(&name, bytes)
}

/// Creates or replaces the file `path` with `bytes`, durably and at once.
pub fn replace(path: &Path, bytes: &[u8]) -> FileResult<()> {
    let (folder, name) = split(path)?;
    folder.replace(&name, bytes, Durability::Synced)
}

fn split(path: &Path) -> FileResult<(Folder, String)> {
    let name = path.file_name().and_then(|n| n.to_str());
    let name = name.ok_or_else(|| FileError::invalid("write", path, "expected a file name in UTF-8"))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((Folder::open(parent)?, name.to_owned()))
}

/// Refuses anything that is not one plain visible path component: empty, hidden, `.`,
/// `..`, with a slash, backslash or control character, or over 255 bytes.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if name.len() > 255 {
        "it is longer than 255 bytes"
    } else if name.chars().any(|c| c == '/' || c == '\\' || c.is_control()) {
        "it holds a slash, a backslash or a control character"
    } else {
        return Ok(());
    };
    Err(format!("bad name {:?}: {why}", name.chars().take(80).collect::<String>()))
}

fn temporary_name(at: &Path) -> FileResult<String> {
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(|e| {
        FileError::new(PortErrorKind::Unavailable, "name a temporary file", at, e.to_string())
    })?;
    Ok(format!("{TEMP_PREFIX}{}-{}", std::process::id(), to_hex(&random)))
}

/// An open folder; everything in it is reached through its descriptor.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens an existing folder by path. Links in `path` itself are followed: the root is
    /// the operator's choice, what is below it is not.
    pub fn open(path: &Path) -> FileResult<Self> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| FileError::io("open folder", path, &e.into()))?;
        Ok(Self { fd, path: path.to_path_buf() })
    }

    /// Opens a folder by path and makes it and its parents (0700) where missing.
    pub fn open_or_make(path: &Path) -> FileResult<Self> {
        match Self::open(path) {
            Err(e) if e.kind == PortErrorKind::NotFound => {}
            other => return other,
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else {
            return Self::open(path);
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        Self::open_or_make(parent)?.make_folder(name)
    }

    /// Where it is, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn failed(&self, op: &'static str, name: &str, errno: Errno) -> FileError {
        FileError::io(op, self.at(name), &errno.into())
    }

    /// The folder `name` in this one, or `None`. A symbolic link is an error.
    pub fn folder(&self, name: &str) -> FileResult<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd, path: self.at(name) })),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.failed("open folder", name, e)),
        }
    }

    /// As [`Self::folder`]; what is no folder, or a link, is not there.
    pub(crate) fn folder_if_any(&self, name: &str) -> FileResult<Option<Self>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => self.folder(name),
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.failed("open folder", name, e)),
        }
    }

    /// The folder `name` in this one, made durably where missing.
    pub fn make_folder(&self, name: &str) -> FileResult<Self> {
        match rustix::fs::mkdirat(&self.fd, name, FOLDER_MODE) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(e) => return Err(self.failed("make folder", name, e)),
        }
        self.folder(name)?.ok_or_else(|| {
            FileError::new(PortErrorKind::NotFound, "make folder", self.at(name), "it vanished")
        })
    }

    /// Opens a regular file for reading, or `None` if nothing has that name. Links, pipes
    /// and devices are refused.
    pub fn open_file(&self, name: &str) -> FileResult<Option<File>> {
        self.open_regular(name, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    pub(crate) fn open_regular(&self, name: &str, flags: OFlags) -> FileResult<Option<File>> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, name, flags, FILE_MODE) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(self.failed("open", name, e)),
        };
        plain_file::plain(File::from(fd), &self.at(name)).map(Some)
    }

    /// The bytes of the file `name`, or `None`. Over `limit` bytes is an error.
    pub fn read(&self, name: &str, limit: usize) -> FileResult<Option<Vec<u8>>> {
        let Some(file) = self.open_file(name)? else { return Ok(None) };
        match plain_file::read_open(file, &self.at(name), limit as u64)? {
            Some(bytes) => Ok(Some(bytes)),
            None => {
                let detail = format!("expected at most {limit} bytes");
                Err(FileError::invalid("read", self.at(name), detail))
            }
        }
    }

    /// A new temporary file in this folder.
    pub fn temporary(&self) -> FileResult<TempFile> {
        let folder = self.try_clone()?;
        loop {
            let name = temporary_name(&self.path)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&self.fd, &name, flags, FILE_MODE) {
                Ok(fd) => return Ok(TempFile { folder, file: File::from(fd), name }),
                Err(Errno::EXIST) => {}
                Err(e) => return Err(self.failed("create", &name, e)),
            }
        }
    }

    /// Creates `name` with `bytes`, durably, unless the name is taken.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> FileResult<Placed> {
        let mut temporary = self.temporary()?;
        temporary.fill(bytes)?;
        temporary.publish_new(name)
    }

    /// Creates or replaces `name` with `bytes` at once: readers see the old or the new.
    pub fn replace(&self, name: &str, bytes: &[u8], durability: Durability) -> FileResult<()> {
        let mut temporary = self.temporary()?;
        temporary.fill(bytes)?;
        temporary.publish_over(name, durability)
    }

    /// Gives the file `existing` a second name; taken names are not touched.
    pub fn link(&self, existing: &str, name: &str) -> FileResult<Placed> {
        match rustix::fs::linkat(&self.fd, existing, &self.fd, name, AtFlags::empty()) {
            Ok(()) => self.sync().map(|()| Placed::Created),
            Err(Errno::EXIST) => {
                // so that "already there" is as durable as "created"
                self.sync()?;
                Ok(Placed::AlreadyThere)
            }
            Err(e) => Err(self.failed("link", name, e)),
        }
    }

    /// Makes `name` another name of the file `existing`, whatever it named before. No data
    /// is written: if `existing` is durable, so is what `name` shows.
    pub fn link_over(&self, existing: &str, target: &Self, name: &str) -> FileResult<()> {
        let temporary = temporary_name(&target.path)?;
        rustix::fs::linkat(&self.fd, existing, &target.fd, &temporary, AtFlags::empty())
            .map_err(|e| target.failed("link", name, e))?;
        let renamed = rustix::fs::renameat(&target.fd, &temporary, &target.fd, name);
        // a rename between two names of one file does nothing and leaves both
        match rustix::fs::unlinkat(&target.fd, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(target.failed("remove", &temporary, e)),
        }
        renamed.map_err(|e| target.failed("rename", name, e))
    }

    /// Renames within the folder, replacing, and syncs.
    pub fn rename(&self, from: &str, to: &str) -> FileResult<()> {
        rustix::fs::renameat(&self.fd, from, &self.fd, to).map_err(|e| self.failed("rename", to, e))?;
        self.sync()
    }

    /// Removes a file; `false` if there was none. The folder is not synced.
    pub fn remove(&self, name: &str) -> FileResult<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(self.failed("remove", name, e)),
        }
    }

    /// All names with their file types, sorted by bytes. Names that are not UTF-8 are
    /// left out: nothing of ours has such a name.
    pub fn names(&self) -> FileResult<Vec<(String, FileType)>> {
        let failed = |e: Errno| FileError::io("list", &self.path, &e.into());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(e) => return Err(self.failed("inspect", name, e)),
                },
                known => known,
            };
            names.push((name.to_owned(), kind));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(names)
    }

    /// Removes temporary files that a crash left, and returns their names. Only for whoever
    /// holds the lock over this folder: a living writer's file would go too.
    pub fn sweep(&self) -> FileResult<Vec<String>> {
        let mut swept = Vec::new();
        for (name, kind) in self.names()? {
            if kind == FileType::RegularFile && name.starts_with(TEMP_PREFIX) && self.remove(&name)? {
                swept.push(name);
            }
        }
        Ok(swept)
    }

    /// Makes the names in the folder durable.
    pub fn sync(&self) -> FileResult<()> {
        rustix::fs::fsync(&self.fd).map_err(|e| FileError::io("sync folder", &self.path, &e.into()))
    }

    pub(crate) fn try_clone(&self) -> FileResult<Self> {
        let fd = self.fd.try_clone().map_err(|e| FileError::io("open folder", &self.path, &e))?;
        Ok(Self { fd, path: self.path.clone() })
    }
}

/// A temporary file that becomes a named one, or vanishes when dropped.
#[derive(Debug)]
pub struct TempFile {
    folder: Folder,
    file: File,
    name: String,
}

impl TempFile {
    fn fill(&mut self, bytes: &[u8]) -> FileResult<()> {
        self.file.write_all(bytes).map_err(|e| FileError::io("write", &self.folder.path, &e))
    }

    /// Syncs it and gives it the name `name`, unless that is taken.
    pub fn publish_new(self, name: &str) -> FileResult<Placed> {
        self.sync(name)?;
        let placed =
            match rustix::fs::linkat(&self.folder.fd, &self.name, &self.folder.fd, name, AtFlags::empty()) {
                Ok(()) => Placed::Created,
                Err(Errno::EXIST) => Placed::AlreadyThere,
                Err(e) => return Err(self.folder.failed("publish", name, e)),
            };
        self.folder.remove(&self.name)?;
        self.folder.sync()?;
        Ok(placed)
    }

    fn publish_over(self, name: &str, durability: Durability) -> FileResult<()> {
        if durability == Durability::Synced {
            self.sync(name)?;
        }
        rustix::fs::renameat(&self.folder.fd, &self.name, &self.folder.fd, name)
            .map_err(|e| self.folder.failed("replace", name, e))?;
        match durability {
            Durability::Synced => self.folder.sync(),
            Durability::Visible => Ok(()),
        }
    }

    fn sync(&self, name: &str) -> FileResult<()> {
        self.file.sync_all().map_err(|e| FileError::io("sync", self.folder.at(name), &e))
    }
}

impl Write for TempFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // published files have lost this name already; a leftover is swept later
        let _ = rustix::fs::unlinkat(&self.folder.fd, &self.name, AtFlags::empty());
    }
}
