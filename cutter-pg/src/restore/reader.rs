//! Reads an archive once, front to back, and believes none of it before the trailer agreed.

use std::io::{BufRead, BufReader, Read};

use cutter_core::base::digest::{Digest, Hasher};
use cutter_core::record::backup::{BackupScope, TableSummary};
use serde::de::DeserializeOwned;

use super::error::{RestoreError, damaged};
use crate::backup::format::{
    ArchiveHeader, ArchiveTrailer, DUMP, DumpSummary, END, FORMAT, MAGIC, ROWS_END, SECTION, SectionHead,
    TRAILER,
};
use crate::backup::tables::{FINGERPRINT_COLUMNS, FINGERPRINTS, TABLES, UNITS};

/// Longest line that is not a row.
const MAX_LINE_BYTES: u64 = 4 * 1024 * 1024;

/// Longest row: an approval document or an envelope, in hexadecimal, with room.
const MAX_ROW_BYTES: u64 = 256 * 1024 * 1024;

/// Longest frame of a dump.
const MAX_FRAME_BYTES: u64 = 1024 * 1024;

/// What comes next.
#[derive(Debug)]
pub(super) enum Part {
    /// Rows, to be taken with [`ArchiveReader::rows`].
    Section(SectionHead),
    /// A frame of this many bytes, to be taken with [`ArchiveReader::frame`]; 0 ends the dump.
    Frame(usize),
    /// The end, and everything before agreed with it.
    Trailer(Box<ArchiveTrailer>),
}

/// A pass over an archive.
pub(super) struct ArchiveReader<R> {
    input: BufReader<R>,
    scope: BackupScope,
    line: Vec<u8>,
    /// What was seen, in order; compared with the trailer.
    seen: Vec<TableSummary>,
    dump: Hasher,
    dump_bytes: u64,
    is_dump_over: bool,
}

impl<R: Read> ArchiveReader<R> {
    /// Reads the header.
    pub(super) fn open(plaintext: R) -> Result<(Self, ArchiveHeader), RestoreError> {
        let mut reader = Self {
            input: BufReader::with_capacity(256 * 1024, plaintext),
            scope: BackupScope::Document,
            line: Vec::new(),
            seen: Vec::new(),
            dump: Hasher::new(),
            dump_bytes: 0,
            is_dump_over: false,
        };
        let mut magic = Vec::new();
        // A short read, so that a file of another kind is not taken for one long line.
        (&mut reader.input).take(128).read_until(b'\n', &mut magic)?;
        let first =
            std::str::from_utf8(&magic).ok().and_then(|line| line.strip_suffix('\n')?.strip_prefix(MAGIC));
        let Some((version, digest)) = first.and_then(|line| line.split_once(' ')) else {
            return Err(RestoreError::NotAnArchive(format!("it does not begin with {MAGIC:?}")));
        };
        if version != FORMAT.to_string() {
            return Err(RestoreError::NotAnArchive(format!("expected form {FORMAT}, observed {version:?}")));
        }
        let header = reader.take_line("in its header")?;
        let observed = Digest::of(header).to_hex();
        if observed != digest {
            return Err(damaged("in its header", digest, observed));
        }
        let header: ArchiveHeader = parse("in its header", header)?;
        if header.format != FORMAT {
            return Err(damaged("in its header", FORMAT, header.format));
        }
        reader.scope = header.scope;
        Ok((reader, header))
    }

    /// The next part. Take its bytes before asking again.
    pub(super) fn next(&mut self) -> Result<Part, RestoreError> {
        let place = match self.seen.last() {
            Some(last) => format!("after {}", last.table),
            None => "after its header".to_owned(),
        };
        let is_whole = match self.scope {
            BackupScope::Document => self.seen.len() == TABLES.len() + FINGERPRINTS.len(),
            BackupScope::Database => self.is_dump_over,
        };
        let expected = self.expected_section();
        let line = self.take_line(&place)?;
        if is_whole {
            let Some(json) = line.strip_prefix(TRAILER.as_bytes()) else {
                return Err(damaged(place, "the trailer", String::from_utf8_lossy(line)));
            };
            let (trailer, digest) = (parse::<ArchiveTrailer>("in its trailer", json)?, Digest::of(line));
            self.check_end(digest)?;
            self.check_trailer(&trailer)?;
            return Ok(Part::Trailer(Box::new(trailer)));
        }
        match expected {
            Some(expected) => {
                let head =
                    line.strip_prefix(SECTION.as_bytes()).map(|json| parse::<SectionHead>(&place, json));
                match head.transpose()? {
                    Some(head) if head == expected => Ok(Part::Section(head)),
                    other => Err(damaged(
                        place,
                        format!("section {expected:?}"),
                        other.map_or_else(|| "no section".to_owned(), |head| format!("section {head:?}")),
                    )),
                }
            }
            None => {
                let length = std::str::from_utf8(line)
                    .ok()
                    .and_then(|line| line.strip_suffix('\n')?.strip_prefix(DUMP)?.parse::<usize>().ok())
                    .filter(|length| u64::try_from(*length).is_ok_and(|length| length <= MAX_FRAME_BYTES));
                match length {
                    Some(length) => {
                        self.is_dump_over = length == 0;
                        Ok(Part::Frame(length))
                    }
                    None => Err(damaged(place, "a frame of the dump", "something else")),
                }
            }
        }
    }

    /// Which section must come next; none in a dump.
    fn expected_section(&self) -> Option<SectionHead> {
        if self.scope == BackupScope::Database {
            return None;
        }
        let at = self.seen.len();
        if let Some(table) = TABLES.get(at) {
            return Some(SectionHead::new(table.name, table.columns));
        }
        FINGERPRINTS.get(at - TABLES.len()).map(|(name, _)| SectionHead::new(name, &FINGERPRINT_COLUMNS))
    }

    /// Gives the rows of a section, each with its newline.
    pub(super) fn rows(
        &mut self,
        head: &SectionHead,
        mut each: impl FnMut(&[u8]) -> Result<(), RestoreError>,
    ) -> Result<(), RestoreError> {
        let (mut hasher, mut rows) = (Hasher::new(), 0_u64);
        loop {
            let row = self.take_bounded(MAX_ROW_BYTES, &format!("in {}", head.name))?;
            if row == ROWS_END {
                break;
            }
            hasher.update(row);
            rows += 1;
            each(row)?;
        }
        self.seen.push(TableSummary { table: head.name.clone(), rows, sha256: hasher.finish() });
        Ok(())
    }

    /// Gives the bytes of a frame.
    pub(super) fn frame(&mut self, length: usize) -> Result<&[u8], RestoreError> {
        self.line.resize(length, 0);
        self.input.read_exact(&mut self.line).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => RestoreError::Truncated { place: "in its dump".to_owned() },
            _ => RestoreError::Read(error),
        })?;
        self.dump.update(&self.line);
        self.dump_bytes += u64::try_from(length).unwrap_or(u64::MAX);
        Ok(&self.line)
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> &[TableSummary] {
        &self.seen
    }

    fn check_end(&mut self, trailer: Digest) -> Result<(), RestoreError> {
        let end = format!("{END}{trailer}\n");
        let line = self.take_line("after its trailer")?;
        if line != end.as_bytes() {
            return Err(damaged("in its last line", end.trim(), String::from_utf8_lossy(line).trim()));
        }
        if !self.input.fill_buf()?.is_empty() {
            return Err(damaged("after its last line", "the end", "more bytes"));
        }
        Ok(())
    }

    fn check_trailer(&self, trailer: &ArchiveTrailer) -> Result<(), RestoreError> {
        let names = TABLES.iter().map(|table| table.name).chain(FINGERPRINTS.iter().map(|(name, _)| *name));
        let mut listed = trailer.tables.iter().chain(&trailer.fingerprints);
        for (at, name) in names.enumerate() {
            let Some(row) = listed.next().filter(|row| row.table == name) else {
                return Err(damaged("in its trailer", name, "another list of tables"));
            };
            if let Some(seen) = self.seen.get(at)
                && seen != row
            {
                let text = |row: &TableSummary| format!("{} rows with sha256 {}", row.rows, row.sha256);
                return Err(damaged(format!("in {name}"), text(row), text(seen)));
            }
        }
        let units = trailer.tables.iter().find(|row| row.table == UNITS).map_or(0, |row| row.rows);
        if listed.next().is_some() || trailer.tables.len() != TABLES.len() || units != trailer.content_rows {
            return Err(damaged("in its trailer", "the list of tables", "another list or count"));
        }
        let seen = (self.scope == BackupScope::Database)
            .then(|| DumpSummary { bytes: self.dump_bytes, sha256: self.dump.clone().finish() });
        if seen != trailer.dump {
            return Err(damaged("in its dump", format!("{:?}", trailer.dump), format!("{seen:?}")));
        }
        Ok(())
    }

    fn take_line(&mut self, place: &str) -> Result<&[u8], RestoreError> {
        self.take_bounded(MAX_LINE_BYTES, place)
    }

    fn take_bounded(&mut self, limit: u64, place: &str) -> Result<&[u8], RestoreError> {
        self.line.clear();
        (&mut self.input).take(limit).read_until(b'\n', &mut self.line)?;
        if self.line.last() == Some(&b'\n') {
            return Ok(&self.line);
        }
        if u64::try_from(self.line.len()).is_ok_and(|length| length == limit) {
            return Err(damaged(place, format!("a line of at most {limit} bytes"), "a longer one"));
        }
        Err(RestoreError::Truncated { place: place.to_owned() })
    }
}

fn parse<T: DeserializeOwned>(place: &str, line: &[u8]) -> Result<T, RestoreError> {
    serde_json::from_slice(line).map_err(|error| damaged(place, "JSON of the form", error))
}
