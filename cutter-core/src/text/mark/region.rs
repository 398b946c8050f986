//! The body region: the whole file, less front matter and what the profile's markers cut off.

use crate::text::profile::Profile;

use super::{MarkError, Region};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Where the body of `source` lies. Front matter counts only at the very start of the file
/// (after a byte-order mark): `---`, lines that look like YAML, and a line `---`, `...` or
/// `--- word` (as in `--- abstract`). What does not look like YAML is body, so that a text
/// between two rulers is never lost. A byte-order mark without front matter stays in the body.
///
/// # Errors
/// None today; the signature leaves room for profiles whose markers are required.
pub fn body_region(source: &[u8], profile: &Profile) -> Result<Region, MarkError> {
    let mut start = 0;
    let mut end = source.len();
    if profile.region.front_matter {
        start = front_matter(source).unwrap_or(0);
    }
    let is_one_of = |line: &[u8], marks: &[alloc::string::String]| {
        let line = line.trim_ascii();
        marks.iter().any(|mark| mark.as_bytes() == line)
    };
    if !profile.region.start_after.is_empty()
        && let Some((_, after)) =
            lines(source, start).find(|&(s, e)| is_one_of(&source[s..e], &profile.region.start_after))
    {
        start = after;
    }
    let needs = profile.region.end_needs.as_bytes();
    let begins = |end: usize| {
        needs.is_empty()
            || lines(source.get(..end).unwrap_or(source), start).any(|(s, e)| source[s..e].starts_with(needs))
    };
    if !profile.region.end_before.is_empty()
        && let Some((before, _)) =
            lines(source, start).find(|&(s, e)| is_one_of(&source[s..e], &profile.region.end_before))
        && begins(before)
    {
        end = before;
    }
    Ok(Region { start, end })
}

/// The spans of the lines from `at` on, line ends (LF, CRLF or a bare CR) included.
fn lines(source: &[u8], mut at: usize) -> impl Iterator<Item = (usize, usize)> {
    core::iter::from_fn(move || {
        let start = at;
        at = if start < source.len() { line_end(source, start) } else { return None };
        Some((start, at))
    })
}

/// Where the line from `at` on ends, its line end (LF, CRLF or a bare CR) included.
pub(super) fn line_end(bytes: &[u8], at: usize) -> usize {
    match bytes[at..].iter().position(|&b| b == b'\n' || b == b'\r') {
        None => bytes.len(),
        Some(i) if bytes[at + i] == b'\r' && bytes.get(at + i + 1) == Some(&b'\n') => at + i + 2,
        Some(i) => at + i + 1,
    }
}

fn front_matter(source: &[u8]) -> Option<usize> {
    let start = if source.starts_with(BOM) { BOM.len() } else { 0 };
    let mut rest = lines(source, start).map(|(s, e)| (&source[s..e], e));
    let (first, _) = rest.next()?;
    if first.trim_ascii_end() != b"---" {
        return None;
    }
    let (mut keys, mut empty) = (0usize, true);
    for (line, end) in rest {
        let text = line.trim_ascii_end();
        if closes(text) {
            return (keys > 0 || empty).then_some(end);
        }
        if text.is_empty() {
            continue;
        }
        empty = false;
        match text[0] {
            b' ' | b'\t' | b'-' | b'#' | b']' | b'}' | b'?' => {}
            _ if is_key(text) => keys += 1,
            _ => return None,
        }
    }
    None
}

fn closes(line: &[u8]) -> bool {
    line == b"---"
        || line == b"..."
        || line
            .strip_prefix(b"--- ")
            .is_some_and(|word| !word.is_empty() && word.iter().all(u8::is_ascii_lowercase))
}

/// `key:` or `key: value`; the key is plain or quoted.
fn is_key(line: &[u8]) -> bool {
    let colon = line.windows(2).position(|pair| pair == b": ").or_else(|| {
        let last = line.len().checked_sub(1)?;
        (line[last] == b':').then_some(last)
    });
    colon.is_some_and(|at| at > 0 && !line[..at].contains(&b'`'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> &str {
        let region = body_region(text.as_bytes(), &Profile::built_in("markdown").unwrap()).unwrap();
        &text[region.start..region.end]
    }

    #[test]
    fn every_end_of_front_matter() {
        assert_eq!(body("---\nTitle: x\nslug: y\n\n---\n\n# A\n"), "\n# A\n");
        assert_eq!(body("---\ntitle: x\n...\n# A\n"), "# A\n");
        assert_eq!(body("---\ntitle: x\nauthor:\n-\n    ins: M\n\n--- abstract\n\nText\n"), "\nText\n");
        assert_eq!(body("---\r\ntitle: x\r\n---\r\n# A\r\n"), "# A\r\n");
        assert_eq!(body("---\rtitle: x\r---\r# A"), "# A");
        assert_eq!(body("\u{feff}---\ntitle: x\n---\n# A"), "# A");
        assert_eq!(body("---\n---\n# A"), "# A");
        assert_eq!(body("---\ntitle: x\n---"), "");
    }

    #[test]
    fn rulers_are_not_front_matter() {
        for text in [
            "---\nSome text between rulers.\n---\n# A\n",
            "# A\n---\nkey: value\n---\n",
            "---\nkey: value\nno end\n",
            "\n---\nkey: value\n---\n",
            "---\n# Title\n\nText\n\n---\n",
            "\u{feff}# A\n",
            "----\nkey: value\n----\n",
            "",
        ] {
            assert_eq!(body(text), text);
        }
    }

    #[test]
    fn region_markers_are_lines() {
        let mut profile = Profile::built_in("markdown").unwrap();
        profile.region.start_after = alloc::vec!["<!-- INFO END -->".into()];
        profile.region.end_before = alloc::vec!["<!-- END -->".into()];
        let text = b"x <!-- INFO END -->\n<!-- INFO END --> \n# A\n<!-- END -->\n";
        let region = body_region(text, &profile).unwrap();
        assert_eq!(&text[region.start..region.end], b"# A\n");
    }
}
