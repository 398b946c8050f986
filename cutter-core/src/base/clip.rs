//! Texts cut short.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// At most `max` bytes of a text, cut between characters, with `…` where it was cut.
pub(crate) fn clip(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}
