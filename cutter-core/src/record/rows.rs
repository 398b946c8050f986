//! `rows_digest`: one digest over everything that a cut stores of its units and that readers are
//! shown, so that what was approved is what is enacted. The plan has it before anything is
//! written; the request shows it, the approval names it, and the database computes it again from
//! its rows. [`crate::base::merkle`] is the tree; this module is its leaves.
//!
//! A leaf is a row of tagged fields: one byte that says which field, its length as eight bytes,
//! big-endian, and its bytes in UTF-8; a field that is absent (NULL) has the length −1 and no
//! bytes. Numbers are decimal, digests 64 hexadecimal digits. The first leaf is the header.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::base::digest::Digest;
use crate::base::merkle::{Tree, leaf};
use crate::record::effect::UnitWrite;
use crate::text::plan::CutPlan;

/// The first field of the header: this form of rows.
pub const FORMAT: &str = "cutter.rows/1";

/// What the rows of one cut have in common: the first leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsHeader<'a> {
    /// The document.
    pub document_id: &'a str,
    /// Which version of it, from 1.
    pub version_no: u64,
    /// sha256 of the whole source text.
    pub source_sha256: &'a Digest,
    /// The region that was cut: bytes, end exclusive.
    pub region: (u64, u64),
    /// From the vocabulary.
    pub publication_type: &'a str,
    /// How many units.
    pub unit_count: u64,
}

/// What is stored of one unit, less its ids and its status: one leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFields<'a> {
    /// Its place in the document, from 0.
    pub ordinal: u64,
    /// The full address.
    pub canonical_address: &'a str,
    /// The citation address, where there is one.
    pub citation_address: Option<&'a str>,
    /// From the vocabulary.
    pub unit_kind: &'a str,
    /// From the vocabulary.
    pub section_type: &'a str,
    /// Its number as the text prints it; no profile gives one yet.
    pub designator: Option<&'a str>,
    /// Its title; no profile gives one yet.
    pub title: Option<&'a str>,
    /// Its language; no profile gives one yet.
    pub language: Option<&'a str>,
    /// Where it stands in the source: bytes, end exclusive.
    pub span: (u64, u64),
    /// sha256 of its bytes.
    pub content_hash: &'a Digest,
    /// sha256 of the bytes after its designator.
    pub body_hash: &'a Digest,
    /// The unit's idempotency key.
    pub idempotency_key: &'a Digest,
}

/// The digest of these rows, in the order given: the order of their ordinals.
#[must_use]
pub fn rows_digest<'a>(header: &RowsHeader<'_>, rows: impl IntoIterator<Item = RowFields<'a>>) -> Digest {
    let mut row = Row(Vec::with_capacity(512));
    row.field(1, Some(FORMAT));
    row.field(2, Some(header.document_id));
    row.field(3, Some(&header.version_no.to_string()));
    row.digest(4, header.source_sha256);
    row.span(5, header.region);
    row.field(6, Some(header.publication_type));
    row.field(7, Some(&header.unit_count.to_string()));
    let mut tree = Tree::default();
    tree.push(row.take());
    for fields in rows {
        row.field(17, Some(&fields.ordinal.to_string()));
        row.field(18, Some(fields.canonical_address));
        row.field(19, fields.citation_address);
        row.field(20, Some(fields.unit_kind));
        row.field(21, Some(fields.section_type));
        row.field(22, fields.designator);
        row.field(23, fields.title);
        row.field(24, fields.language);
        row.span(25, fields.span);
        row.digest(26, fields.content_hash);
        row.digest(27, fields.body_hash);
        row.digest(28, fields.idempotency_key);
        tree.push(row.take());
    }
    tree.root()
}

impl<'a> RowFields<'a> {
    /// The fields of a unit that is about to be stored.
    #[must_use]
    pub fn of_write(unit: &'a UnitWrite) -> Self {
        Self {
            ordinal: unit.ordinal,
            canonical_address: &unit.canonical_address,
            citation_address: unit.citation_address.as_deref(),
            unit_kind: &unit.unit_kind,
            section_type: &unit.section_type,
            designator: None,
            title: None,
            language: None,
            span: (unit.start, unit.end),
            content_hash: &unit.content_hash,
            body_hash: &unit.body_hash,
            idempotency_key: &unit.idempotency_key,
        }
    }
}

struct Row(Vec<u8>);

impl Row {
    fn field(&mut self, tag: u8, text: Option<&str>) {
        let length = text.map_or(-1, |t| i64::try_from(t.len()).unwrap_or(i64::MAX));
        self.0.push(tag);
        self.0.extend(length.to_be_bytes());
        self.0.extend(text.unwrap_or_default().as_bytes());
    }

    fn digest(&mut self, tag: u8, digest: &Digest) {
        self.field(tag, core::str::from_utf8(&digest.hex_bytes()).ok());
    }

    fn span(&mut self, tag: u8, (start, end): (u64, u64)) {
        self.field(tag, Some(&format!("{start}-{end}")));
    }

    /// The leaf, and room for the next row.
    fn take(&mut self) -> Digest {
        let hash = leaf(&self.0);
        self.0.clear();
        hash
    }
}

impl CutPlan {
    /// The digest of the rows that a cut of this plan stores, if the text is this version of the
    /// document.
    #[must_use]
    pub fn rows_digest(&self, version_no: u64) -> Digest {
        let header = RowsHeader {
            document_id: self.document_id.as_str(),
            version_no,
            source_sha256: &self.document.sha256,
            region: (self.region.start as u64, self.region.end as u64),
            publication_type: &self.publication_type,
            unit_count: self.rows.len() as u64,
        };
        let rows = self.rows.iter().map(|row| RowFields {
            ordinal: u64::from(row.ordinal),
            canonical_address: row.canonical_address.as_str(),
            citation_address: row.citation_address.as_ref().map(|a| a.as_str()),
            unit_kind: &row.unit_kind,
            section_type: &row.section_type,
            designator: None,
            title: None,
            language: None,
            span: (row.start as u64, row.end as u64),
            content_hash: &row.content_hash,
            body_hash: &row.body_hash,
            idempotency_key: row.idempotency_key.digest(),
        });
        rows_digest(&header, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    fn header<'a>(source: &'a Digest, units: u64) -> RowsHeader<'a> {
        RowsHeader {
            document_id: "ICX-CONST",
            version_no: 1,
            source_sha256: source,
            region: (0, 9),
            publication_type: "act",
            unit_count: units,
        }
    }

    fn row<'a>(digest: &'a Digest) -> RowFields<'a> {
        RowFields {
            ordinal: 0,
            canonical_address: "ICX-CONST/điều-1",
            citation_address: None,
            unit_kind: "article",
            section_type: "",
            designator: None,
            title: None,
            language: None,
            span: (0, 9),
            content_hash: digest,
            body_hash: digest,
            idempotency_key: digest,
        }
    }

    /// Made by hand with a few lines of Python and hashlib: NULL, an empty text, letters beyond
    /// ASCII, no row, one row.
    #[test]
    fn the_vectors() {
        let digest = Digest::of(b"text");
        assert_eq!(rows_digest(&header(&digest, 0), []).to_hex(), NO_ROW);
        assert_eq!(rows_digest(&header(&digest, 1), [row(&digest)]).to_hex(), ONE_ROW);
        let named = RowFields { citation_address: Some(""), ordinal: 1, ..row(&digest) };
        assert_eq!(rows_digest(&header(&digest, 2), [row(&digest), named]).to_hex(), TWO_ROWS);
    }

    const NO_ROW: &str = "781c4468e789650215a1df5f45e441b3716dbe3792fb92d9981072f7a71794db";
    const ONE_ROW: &str = "b86d3eb84bf88a46082e5716ded61eaa2b487a9592b224e6e93934c1e1e9f2d2";
    const TWO_ROWS: &str = "b4db4219a5cf89c1b8b036213921d55d8d0c643cfed5d9653ed7befcf7079e17";

    #[test]
    fn every_field_counts_and_no_field_can_pass_for_its_neighbour() {
        let (digest, other) = (Digest::of(b"text"), Digest::of(b"other"));
        let clean = header(&digest, 1);
        let mut seen = alloc::vec![rows_digest(&clean, [row(&digest)])];
        let headers = [
            RowsHeader { document_id: "ICX-CONSTI", ..clean },
            RowsHeader { version_no: 2, ..clean },
            RowsHeader { source_sha256: &other, ..clean },
            RowsHeader { region: (0, 10), ..clean },
            RowsHeader { publication_type: "decree", ..clean },
            RowsHeader { unit_count: 2, ..clean },
        ];
        seen.extend(headers.map(|h| rows_digest(&h, [row(&digest)])));
        let plain = row(&digest);
        let rows = [
            RowFields { ordinal: 1, ..plain },
            RowFields { canonical_address: "ICX-CONST/art-1", ..plain },
            RowFields { citation_address: Some("ICX-CONST/điều-1"), ..plain },
            RowFields { citation_address: Some(""), ..plain },
            RowFields { unit_kind: "chapter", ..plain },
            RowFields { section_type: "general", ..plain },
            RowFields { unit_kind: "", section_type: "article", ..plain },
            RowFields { designator: Some(""), ..plain },
            RowFields { title: Some(""), ..plain },
            RowFields { language: Some(""), ..plain },
            RowFields { span: (1, 9), ..plain },
            RowFields { span: (0, 8), ..plain },
            RowFields { content_hash: &other, ..plain },
            RowFields { body_hash: &other, ..plain },
            RowFields { idempotency_key: &other, ..plain },
        ];
        seen.extend(rows.map(|r| rows_digest(&clean, [r])));
        seen.push(rows_digest(&clean, []));
        seen.push(rows_digest(&clean, [plain, plain]));
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    proptest! {
        #[test]
        fn neighbouring_texts_cannot_be_shifted(a in any::<String>(), b in any::<String>()) {
            let digest = Digest::of(b"text");
            let with = |kind, section| RowFields { unit_kind: kind, section_type: section, ..row(&digest) };
            let of = |fields| rows_digest(&header(&digest, 1), [fields]);
            let joined = format!("{a}{b}");
            prop_assume!(!b.is_empty());
            prop_assert_ne!(of(with(&a, &b)), of(with(&joined, "")));
        }
    }
}
