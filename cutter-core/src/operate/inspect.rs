//! Looking at runs from outside: what a run's record says ([`Summary`]), why it stands where
//! it stands ([`why`]), whether the evidence agrees ([`verify`]), whether a lost record
//! can be rebuilt ([`recover`]), and which version of a document is shown ([`in_force`]). Pure functions over what others read; nothing here moves a
//! run.

use alloc::string::String;

use crate::machine::stop::StopReason;
use crate::text::address::{AddressError, DocumentId, MAX_DOCUMENT_ID_BYTES};

pub mod asked;
mod claims;
pub mod in_force;
pub mod recover;
mod summary;
pub mod verify;
mod why;

pub use claims::{Claims, disagreements};
pub use summary::{PausedAt, StopSummary, Summary};
pub use why::{Why, why};

/// The document id that a file name suggests: the name up to its last `.`, in capitals;
/// whatever is neither an ASCII letter nor a digit becomes one `-`; `DOC-` goes before it
/// if it does not begin with a letter; what is longer than an id may be is cut off.
///
/// # Errors
/// Never for what is built this way, which a property test holds it to; the grammar has the
/// last word all the same.
pub fn document_id_of_file_name(name: &str) -> Result<DocumentId, AddressError> {
    let stem = match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    };
    let mut id = String::new();
    for c in stem.chars().map(|c| c.to_ascii_uppercase()) {
        if c.is_ascii_alphanumeric() {
            id.push(c);
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    if !id.starts_with(|c: char| c.is_ascii_uppercase()) {
        id.insert_str(0, "DOC-");
    }
    id.truncate(MAX_DOCUMENT_ID_BYTES);
    DocumentId::parse(id.trim_end_matches('-'))
}

/// The exit code of a recorded stop or failure (DESIGN §8).
#[must_use]
pub fn exit_code_of(code: &str) -> u8 {
    if code.starts_with("failed_") {
        return 4;
    }
    let known = code.parse::<StopReason>().ok();
    let known = known.or_else(|| StopReason::examples().into_iter().find(|r| r.code() == code));
    known.map_or(3, |reason| reason.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn file_names_suggest_ids() {
        for (name, id) in [
            ("charter.md", "CHARTER"),
            ("us_constitution 1787.v2.md", "US-CONSTITUTION-1787-V2"),
            ("2012-grundgesetz.md", "DOC-2012-GRUNDGESETZ"),
            (".md", "MD"),
            ("", "DOC"),
            ("Điều.md", "I-U"),
            ("...", "DOC"),
            ("--a--", "A"),
        ] {
            assert_eq!(document_id_of_file_name(name).unwrap().as_str(), id, "{name}");
        }
        assert_eq!(document_id_of_file_name(&"x-".repeat(90)).unwrap().as_str().len(), 99);
    }

    #[test]
    fn every_code_has_its_exit_code() {
        for reason in StopReason::examples() {
            assert_eq!(exit_code_of(&reason.code()), reason.exit_code(), "{reason}");
        }
        assert_eq!(exit_code_of("failed_mark"), 4);
        assert_eq!(exit_code_of("STOP_DRIFT_anything"), 3);
    }

    proptest! {
        #[test]
        fn every_name_suggests_a_valid_id(name in "\\PC{0,140}") {
            let id = document_id_of_file_name(&name).unwrap();
            prop_assert!(id.as_str() == "DOC" || name.bytes().any(|b| b.is_ascii_alphanumeric()));
        }
    }
}
