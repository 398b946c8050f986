//! Reading the files that a command names: plain files, at once, and no more than they may hold.

use std::fs::File;
use std::path::Path;

use cutter_kb::file_error::FileError;
use cutter_kb::plain_file;

use crate::failure::Failure;

/// The most bytes of a key, a profile, a configuration or an explicit manifest.
pub(crate) const SMALL: u64 = 1 << 20;

/// Reads a document whole, refusing what is longer than `max` before it is in memory, and what is no
/// plain file before it is read.
pub(crate) fn read_bounded(path: &Path, max: u64) -> Result<Vec<u8>, Failure> {
    read(path, max, "mark.document_bytes")
}

/// Reads a file that is no document: a key, a profile, a configuration.
pub(crate) fn read_small(path: &Path) -> Result<Vec<u8>, Failure> {
    read(path, SMALL, "file.bytes")
}

/// The same as text.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(read_small(path)?)
        .map_err(|e| Failure::usage(format!("{}: not UTF-8: {e}", path.display())))
}

/// Opens a file that is too large to be read whole.
pub(crate) fn open_plain(path: &Path) -> Result<File, Failure> {
    plain_file::open(path).map_err(|e| refused(path, &e))
}

fn read(path: &Path, max: u64, rule: &str) -> Result<Vec<u8>, Failure> {
    plain_file::read(path, max).map_err(|e| refused(path, &e))?.ok_or_else(|| {
        Failure::usage(format!("{} is too long", path.display())).broken(
            rule,
            format!("at most {max} bytes"),
            "more",
        )
    })
}

fn refused(path: &Path, error: &FileError) -> Failure {
    Failure::usage(format!("cannot {} {}: {}", error.op, path.display(), error.detail))
}

/// A path as one word of a command to type.
pub(crate) fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@=:,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        for (path, typed) in [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's;", "'/it'\\''s;'")] {
            assert_eq!(word(Path::new(path)), typed);
        }
    }
}
