//! One byte of a good document damaged: a partition or a refusal that fits, and soon.

use std::time::{Duration, Instant};

use cutter_core::text::mark::{MarkError, MarkLimits};
use cutter_core::text::profile::{Format, Profile};

use crate::document::document;
use crate::tape::Tape;
use crate::{LAWS, for_tapes, lawful, mark, xml};

/// Many times what so small a text needs.
const SOON: Duration = Duration::from_secs(5);

/// Flips, removes, inserts or repeats bytes, or cuts the text off, inside a character too.
fn damaged(text: &str, tape: &mut Tape<'_>) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let at = (tape.below(256) * 256 + tape.below(256)) % bytes.len().max(1);
    match tape.below(6) {
        0 => bytes[at] ^= 1 << tape.below(8),
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, *tape.pick(b"\n\r#`<>-~&[]\0\xff\x80\xe7\x0c")),
        3 => bytes.truncate(at),
        4 => bytes[at] = *tape.pick(b"\n\r#`<>-=~&\"[]\0 \t"),
        _ => {
            let end = (at + 1 + tape.below(64)).min(bytes.len());
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
    }
    bytes
}

fn survives(profile: &Profile, text: &str, tape: &mut Tape<'_>) {
    for _ in 0..8 {
        let bytes = damaged(text, tape);
        let started = Instant::now();
        match mark(profile, &bytes) {
            Ok(marked) => lawful(profile, &bytes, &marked),
            Err(MarkError::NotUtf8 { offset, byte, .. }) => {
                assert_eq!(std::str::from_utf8(&bytes).unwrap_err().valid_up_to(), offset);
                assert_eq!(bytes[offset], byte);
            }
            Err(MarkError::Xml { .. }) if profile.format == Format::Xml => {}
            Err(error) => panic!("{}: {error}\n{}", profile.name, String::from_utf8_lossy(&bytes)),
        }
        assert!(started.elapsed() < SOON, "{}: {:?}", profile.name, started.elapsed());
    }
}

#[test]
fn damaged_laws_are_cut_or_refused() {
    let profiles: Vec<Profile> = LAWS.iter().map(|name| Profile::built_in(name).unwrap()).collect();
    let others: Vec<Profile> =
        ["markdown", "rfc", "rfc-text", "rst"].iter().map(|name| Profile::built_in(name).unwrap()).collect();
    for_tapes(300, |bytes| {
        let mut tape = Tape::new(bytes);
        let profile = tape.pick(&profiles);
        let text = document(profile, &mut tape).text;
        survives(profile, &text, &mut tape);
        // And with the eyes of a profile that the text is not for.
        survives(tape.pick(&others), &text, &mut tape);
        let mut deep = profile.clone();
        deep.deepest = None;
        survives(&deep, &text, &mut tape);
    });
}

#[test]
fn damaged_xml_is_cut_or_refused() {
    for_tapes(300, |bytes| {
        let mut tape = Tape::new(bytes);
        let dialect = tape.pick(&xml::DIALECTS);
        let (text, _) = xml::document(dialect, &mut tape);
        survives(&Profile::built_in(dialect.profile).unwrap(), &text, &mut tape);
    });
}

#[test]
fn a_refusal_names_the_byte_that_is_cut() {
    let profile = Profile::built_in("vn").unwrap();
    let text = "## Điều 1. Phạm vi\n\nĐiều này\n";
    for end in (0..text.len()).filter(|&end| !text.is_char_boundary(end)) {
        let start = (0..end).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        let error = mark(&profile, &text.as_bytes()[..end]).unwrap_err();
        assert!(matches!(error, MarkError::NotUtf8 { offset, .. } if offset == start), "{end}: {error}");
    }
    assert!(MarkLimits::default().max_bytes > text.len());
}
