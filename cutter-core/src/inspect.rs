//! Looking at runs from outside: what a run's record says ([`Summary`]), why it stands where
//! it stands ([`why`]), whether the evidence agrees ([`verify`]), and whether a lost record
//! can be rebuilt ([`recover`]). Pure functions over what others read; nothing here moves a
//! run.

use alloc::string::String;

use crate::address::{AddressError, DocumentId, MAX_DOCUMENT_ID_BYTES};

pub mod recover;
mod summary;
pub mod verify;
mod why;

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

    proptest! {
        #[test]
        fn every_name_suggests_a_valid_id(name in "\\PC{0,140}") {
            let id = document_id_of_file_name(&name).unwrap();
            prop_assert!(id.as_str() == "DOC" || name.bytes().any(|b| b.is_ascii_alphanumeric()));
        }
    }
}
