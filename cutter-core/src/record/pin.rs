//! The context pins of a run: what a phase fixed and later phases stand on, each with its type. A record
//! stores them as text by name.

use core::fmt::Display;
use core::marker::PhantomData;
use core::str::FromStr;

use alloc::string::String;

use uuid::Uuid;

use crate::base::digest::Digest;

/// A value that a pin can have.
pub trait PinValue: FromStr + Display {
    /// What it is called where something else stands in its place.
    const EXPECTED: &'static str;
}

impl PinValue for Digest {
    const EXPECTED: &'static str = "a sha256";
}

impl PinValue for Uuid {
    const EXPECTED: &'static str = "a UUID";
}

impl PinValue for u64 {
    const EXPECTED: &'static str = "a number";
}

impl PinValue for usize {
    const EXPECTED: &'static str = "a number";
}

impl PinValue for String {
    const EXPECTED: &'static str = "a text";
}

/// A pin: its stored name, and what it holds.
#[derive(Debug)]
pub struct Pin<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Pin<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pin<T> {}

impl<T> Pin<T> {
    const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }

    /// Its stored name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// A pin that a run should have by now is not there, or is no such value: the record is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pin {name}: expected {expected}, observed {observed}")]
pub struct PinError {
    /// Which.
    pub name: &'static str,
    /// What it holds.
    pub expected: &'static str,
    /// What stands there.
    pub observed: String,
}

macro_rules! pins {
    ($($(#[$doc:meta])* $name:ident: $value:ty = $stored:literal;)*) => {
        $($(#[$doc])* pub const $name: Pin<$value> = Pin::new($stored);)*

        #[cfg(test)]
        const NAMES: &[&str] = &[$($stored),*];
    };
}

pins! {
    /// sha256 of the whole text.
    SOURCE_SHA256: Digest = "source_sha256";
    /// Which version of its document, from 1.
    SOURCE_VERSION_NO: u64 = "source_version_no";
    /// sha256 of the source envelope.
    MANIFEST_DIGEST: Digest = "manifest_digest";
    /// sha256 of the region that is cut.
    REGION_SHA: Digest = "region_sha";
    /// Where the region begins, in bytes.
    REGION_START: usize = "region_start";
    /// Where it ends, in bytes, itself not in it.
    REGION_END: usize = "region_end";
    /// Name and version of the profile, `name/version`.
    PROFILE: String = "profile";
    /// sha256 of the profile's canonical form.
    PROFILE_DIGEST: Digest = "profile_digest";
    /// sha256 of the vocabularies.
    VOCABULARY_DIGEST: Digest = "vocabulary_digest";
    /// What kind of publication it is, a word of the vocabulary `publication_type`.
    PUBLICATION_TYPE: String = "publication_type";
    /// How many units the plan has.
    CANDIDATE_COUNT: u64 = "candidate_count";
    /// How many addresses were taken more than once.
    DUPLICATES: usize = "duplicates";
    /// How many warnings the plan has.
    WARNINGS: usize = "warnings";
    /// The entry of the governance backlog.
    ENTRY_ID: Uuid = "entry_id";
    /// sha256 of the plan's rows as leg A writes them.
    WRITER_DIGEST: Digest = "writer_digest";
    /// sha256 over the addresses and contents of all units.
    UNIT_SET_DIGEST: Digest = "unit_set_digest";
    /// sha256 of the encrypted backup.
    BACKUP_SHA: Digest = "backup_sha";
    /// Its length.
    BACKUP_BYTES: u64 = "backup_bytes";
    /// sha256 over the document's rows before the cut.
    BASE_STATE_SHA: Digest = "base_state_sha";
    /// sha256 of the grants as they were probed.
    GRANT_PROBE_SHA: Digest = "grant_probe_sha";
    /// The change set that leg A wrote.
    CHANGE_SET_ID: Uuid = "change_set_id";
    /// The executor's signature of it.
    EXECUTOR_SIGNATURE_ID: Uuid = "executor_signature_id";
    /// The sovereign's decision to cut.
    CUT_REVIEW_DECISION_ID: Uuid = "cut_review_decision_id";
    /// sha256 of what the structural check found.
    STRUCTURAL_VERIFY_SHA: Digest = "structural_verify_sha";
    /// The manifest's row.
    MANIFEST_ENVELOPE_ID: Uuid = "manifest_envelope_id";
    /// The verifier's result.
    VERIFY_RESULT_ID: Uuid = "verify_result_id";
    /// The verifier's signature of it.
    VERIFIER_SIGNATURE_ID: Uuid = "verifier_signature_id";
    /// The sovereign's decision to enact.
    REVIEW_DECISION_ID: Uuid = "review_decision_id";
    /// The run's line of the index.
    INDEX_LINE: String = "index_line";
    /// sha256 of the statement's body; an older record has none.
    STATEMENT_SHA256: Digest = "statement_sha256";
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn each_name_stands_once() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }
}
