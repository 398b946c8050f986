//! Slugs: the label of a heading that has no number (rule 5 of the addresses).

use alloc::string::String;

use crate::base::digest::Digest;

use super::text::{clean, fold_case, push_ascii};

/// The longest slug, in bytes.
pub const MAX_SLUG_BYTES: usize = 40;

/// The slug of a title: its ASCII words joined by hyphens, at most 40 bytes. Where it had
/// to be cut, or holds letters without an ASCII form, it ends in `x` + 8 hex digits of
/// the sha256 of the case-folded NFC title, so different titles keep different slugs.
/// `None` for a title without any letter or digit.
#[must_use]
pub fn slug(title: &str) -> Option<String> {
    let title = clean(title);
    let (mut words, mut whole, mut has_text) = (String::new(), true, false);
    let mut gap = false;
    for c in title.chars() {
        has_text |= c.is_alphanumeric();
        if words.len() > MAX_SLUG_BYTES {
            if has_text {
                break;
            }
            continue;
        }
        let before = words.len();
        if gap && before > 0 {
            words.push('-');
        }
        let start = words.len();
        whole &= push_ascii(&mut words, c);
        if words.len() == start {
            words.truncate(before);
            // An apostrophe or a combining mark joins; anything else separates words.
            let joins = matches!(c, '\'' | '’' | 'ʼ') || c.is_alphanumeric();
            gap |= !joins && !unicode_normalization::char::is_combining_mark(c);
        } else {
            gap = false;
        }
    }
    if !has_text {
        return None;
    }
    if whole && words.len() <= MAX_SLUG_BYTES && !words.is_empty() {
        return Some(words);
    }
    let hash = Digest::of(fold_case(&title).as_bytes()).short(8);
    let room = MAX_SLUG_BYTES - hash.len() - 2;
    if words.len() > room {
        let cut = words[..=room].rfind('-').filter(|&at| at > 0).unwrap_or(room);
        words.truncate(cut);
    }
    if !words.is_empty() {
        words.push('-');
    }
    words.push('x');
    words.push_str(&hash);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::address::check_label;
    use proptest::prelude::*;

    #[test]
    fn slugs() {
        for (title, want) in [
            ("Introduction", "introduction"),
            ("How? Why!", "how-why"),
            ("The Party's rôle", "the-partys-role"),
            ("Điều khoản", "ddieu-khoan"),
            ("  a\u{200b}b\u{a0}c ", "ab-c"),
        ] {
            assert_eq!(slug(title).as_deref(), Some(want), "{title}");
        }
        // as long as a slug may be, and one more
        let most = "a".repeat(MAX_SLUG_BYTES);
        assert_eq!(slug(&most), Some(most.clone()));
        assert_ne!(slug(&alloc::format!("{most}a")), Some(alloc::format!("{most}a")));
        assert_eq!(slug("----"), None);
        assert_eq!(slug(""), None);
    }

    #[test]
    fn cut_or_foreign_titles_end_in_their_hash() {
        // python: hashlib.sha256("総則".encode()).hexdigest()[:8]
        assert_eq!(slug("総則").as_deref(), Some("x53bc067b"));
        let long = "Direct responsibilities of the Steering Committee";
        let cut = slug(long).unwrap();
        assert!(cut.starts_with("direct-responsibilities-of-the-x") && cut.len() <= 40, "{cut}");
        assert_ne!(cut, slug("Direct responsibilities of the Steering Council").unwrap());
        assert_eq!(slug(long), slug(&long.to_uppercase()));
    }

    proptest! {
        #[test]
        fn every_slug_is_a_label(title in any::<String>()) {
            if let Some(slug) = slug(&title) {
                prop_assert!(slug.len() <= MAX_SLUG_BYTES);
                prop_assert!(check_label(&slug).is_ok(), "{}", slug);
            }
        }

        #[test]
        fn latin_titles_too(title in "[A-Za-zéßđĐ' .–-]{0,80}") {
            if let Some(slug) = slug(&title) {
                prop_assert!(slug.len() <= MAX_SLUG_BYTES);
                prop_assert!(check_label(&slug).is_ok(), "{}", slug);
            }
        }
    }
}
