//! Character data as a number or heading needs it. The bytes that are hashed stay as they are.

use alloc::borrow::Cow;
use alloc::string::String;

/// The longest reference that is looked at: `&#x10FFFF;`.
const MAX_REFERENCE: usize = 12;

/// The text with character references and the five predefined entities replaced, once.
/// Any other reference stays as it is written: entities that a document declares are
/// never expanded.
pub(super) fn decode(raw: &str) -> Cow<'_, str> {
    if !raw.contains('&') {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        let (before, reference) = rest.split_at(at);
        out.push_str(before);
        let end = reference.bytes().take(MAX_REFERENCE).position(|b| b == b';');
        if let Some((end, c)) = end.and_then(|end| Some((end, character(reference.get(1..end)?)?))) {
            out.push(c);
            rest = reference.get(end + 1..).unwrap_or_default();
        } else {
            out.push('&');
            rest = reference.get(1..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn character(reference: &str) -> Option<char> {
    match reference {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = reference.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
                    u32::from_str_radix(hex, 16).ok()?
                }
                None if number.bytes().all(|b| b.is_ascii_digit()) => number.parse().ok()?,
                _ => return None,
            };
            char::from_u32(code).filter(|&c| c != '\0')
        }
    }
}

/// An attribute's value: references replaced, white space at its ends removed.
pub(super) fn attribute_value(raw: &str) -> Cow<'_, str> {
    decode(raw.trim_matches([' ', '\t', '\r', '\n']))
}

/// Appends text; `raised` digits become superscript digits, which numbers know.
pub(super) fn push_text(out: &mut String, text: &str, raised: bool) {
    let raise = |c: char| match c {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' | '4'..='9' => c.to_digit(10).and_then(|d| char::from_u32(0x2070 + d)).unwrap_or(c),
        _ => c,
    };
    if raised {
        out.extend(text.chars().map(raise));
    } else {
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::character;

    #[test]
    fn a_reference_is_a_name_or_digits_and_nothing_else() {
        for (reference, c) in [("amp", '&'), ("apos", '\''), ("#65", 'A'), ("#x41", 'A'), ("#x2F", '/')] {
            assert_eq!(character(reference), Some(c), "{reference}");
        }
        for none in ["#+65", "#x+41", "#", "#x", "#0", "#xd800", "#1114112", "# 65", "nbsp", "65"] {
            assert_eq!(character(none), None, "{none}");
        }
    }
}
