//! Text as addresses need it: folded to ASCII, never for the bytes that are hashed.

use alloc::borrow::Cow;
use alloc::string::String;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// True for characters without width that hide inside words: zero-width spaces and
/// joiners, direction marks, soft hyphens, byte-order marks, variation selectors.
#[must_use]
pub const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// A title for comparing: NFC, invisible characters removed, white space (no-break
/// spaces and form feeds too) collapsed to single blanks, trimmed.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim_matches(' ');
    if is_clean(trimmed) {
        return Cow::Borrowed(trimmed);
    }
    Cow::Owned(if is_nfc_quick(text.chars()) == IsNormalized::Yes {
        collapse(text.chars(), text.len())
    } else {
        collapse(text.nfc(), text.len())
    })
}

/// True only where cleaning changes nothing; false may say that nobody looked closely.
fn is_clean(text: &str) -> bool {
    let mut before = 'x';
    text.chars().all(|c| {
        let single = c != ' ' || before != ' ';
        before = c;
        single && (if c.is_ascii() { !c.is_ascii_control() } else { is_plain(c) })
    })
}

/// Characters of the common scripts that are visible, no white space, and in NFC whatever
/// stands beside them.
const fn is_plain(c: char) -> bool {
    matches!(c, '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{400}'..='\u{482}' | '\u{1ea0}'..='\u{1ef9}'
        | '\u{2010}'..='\u{2027}' | '\u{3001}'..='\u{3029}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff01}'..='\u{ff5e}')
}

fn collapse(chars: impl Iterator<Item = char>, room: usize) -> String {
    let mut out = String::with_capacity(room);
    let mut blank = false;
    for c in chars.filter(|&c| !is_invisible(c)) {
        if c.is_whitespace() || c.is_control() {
            blank = !out.is_empty();
        } else {
            if blank {
                out.push(' ');
                blank = false;
            }
            out.push(c);
        }
    }
    out
}

/// Case folded for comparing: each character to upper and then to lower case, so that
/// `ß` is `ss` and every sigma is `σ`.
#[must_use]
pub fn fold_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0'..='\u{7f}' => out.push(c.to_ascii_lowercase()),
            // Scripts without case.
            '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => out.push(c),
            _ => out.extend(c.to_uppercase().flat_map(char::to_lowercase)),
        }
    }
    out
}

/// Appends the ASCII form of `c`, lower case: letters and digits only. Returns false
/// where `c` is a letter or digit that has none (the text is not Latin, Greek or Cyrillic).
pub fn push_ascii(out: &mut String, c: char) -> bool {
    if c.is_ascii() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        }
        return true;
    }
    if let Some(text) = table(c) {
        out.push_str(text);
        return true;
    }
    let mut known = true;
    decompose_compatible(c, |part| {
        if part.is_ascii() {
            if part.is_ascii_alphanumeric() {
                out.push(part.to_ascii_lowercase());
            }
        } else if let Some(text) = table(part) {
            out.push_str(text);
        } else if !is_combining_mark(part) && part.is_alphanumeric() {
            known = false;
        }
    });
    known
}

/// Letters that do not decompose to ASCII: Latin, then Greek, then Cyrillic.
const fn table(c: char) -> Option<&'static str> {
    Some(match c {
        'đ' | 'Đ' => "dd",
        'ø' | 'Ø' => "o",
        'æ' | 'Æ' => "ae",
        'œ' | 'Œ' => "oe",
        'ß' | 'ẞ' => "ss",
        'ł' | 'Ł' => "l",
        'ı' => "i",
        'þ' | 'Þ' => "th",
        'ð' | 'Ð' => "d",
        'ŋ' | 'Ŋ' => "ng",
        'ħ' | 'Ħ' => "h",
        'ŧ' | 'Ŧ' => "t",
        'ə' | 'Ə' => "e",
        'α' | 'Α' => "a",
        'β' | 'Β' => "v",
        'γ' | 'Γ' => "g",
        'δ' | 'Δ' => "d",
        'ε' | 'Ε' => "e",
        'ζ' | 'Ζ' => "z",
        'η' | 'Η' => "i",
        'θ' | 'Θ' => "th",
        'ι' | 'Ι' => "i",
        'κ' | 'Κ' => "k",
        'λ' | 'Λ' => "l",
        'μ' | 'Μ' => "m",
        'ν' | 'Ν' => "n",
        'ξ' | 'Ξ' => "x",
        'ο' | 'Ο' => "o",
        'π' | 'Π' => "p",
        'ρ' | 'Ρ' => "r",
        'σ' | 'ς' | 'Σ' => "s",
        'τ' | 'Τ' => "t",
        'υ' | 'Υ' => "y",
        'φ' | 'Φ' => "f",
        'χ' | 'Χ' => "ch",
        'ψ' | 'Ψ' => "ps",
        'ω' | 'Ω' => "o",
        'а' | 'А' => "a",
        'б' | 'Б' => "b",
        'в' | 'В' => "v",
        'г' | 'Г' | 'ґ' | 'Ґ' => "g",
        'д' | 'Д' => "d",
        'е' | 'Е' | 'э' | 'Э' => "e",
        'ё' | 'Ё' => "yo",
        'є' | 'Є' => "ye",
        'ж' | 'Ж' => "zh",
        'з' | 'З' => "z",
        'и' | 'И' | 'і' | 'І' => "i",
        'й' | 'Й' => "y",
        'ї' | 'Ї' => "yi",
        'к' | 'К' => "k",
        'л' | 'Л' => "l",
        'м' | 'М' => "m",
        'н' | 'Н' => "n",
        'о' | 'О' => "o",
        'п' | 'П' => "p",
        'р' | 'Р' => "r",
        'с' | 'С' => "s",
        'т' | 'Т' => "t",
        'у' | 'У' => "u",
        'ў' | 'Ў' => "w",
        'ф' | 'Ф' => "f",
        'х' | 'Х' => "kh",
        'ц' | 'Ц' => "ts",
        'ч' | 'Ч' => "ch",
        'ш' | 'Ш' => "sh",
        'щ' | 'Щ' => "shch",
        'ъ' | 'Ъ' | 'ь' | 'Ь' => "",
        'ы' | 'Ы' => "y",
        'ю' | 'Ю' => "yu",
        'я' | 'Я' => "ya",
        'ј' | 'Ј' => "j",
        'љ' | 'Љ' => "lj",
        'њ' | 'Њ' => "nj",
        'ђ' | 'Ђ' => "dj",
        'ћ' | 'Ћ' => "c",
        'џ' | 'Џ' => "dz",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_normalization::char::canonical_combining_class;

    fn ascii(text: &str) -> (String, bool) {
        let mut out = String::new();
        let unknown = text.chars().filter(|&c| !push_ascii(&mut out, c)).count();
        (out, unknown == 0)
    }

    #[test]
    fn scripts_fold_to_ascii() {
        for (text, want) in [
            ("Điều", "ddieu"),
            ("ÉTÉ", "ete"),
            ("Größe", "grosse"),
            ("Ελλάδα", "ellada"),
            ("Глава", "glava"),
            ("１２", "12"),
            ("ŁÓDŹ", "lodz"),
            ("e\u{301}", "e"),
            ("ﬁn", "fin"),
            ("ά", "a"),
        ] {
            assert_eq!(ascii(text), (want.into(), true), "{text}");
        }
        assert!(!ascii("第一条").1);
        assert!(!ascii("제2조").1);
    }

    #[test]
    fn cleaning_and_folding() {
        assert_eq!(clean("\u{feff} A\u{200b}r\u{ad}ticle\u{a0}\u{c}1 "), "Article 1");
        assert_eq!(clean("e\u{301}"), "é");
        assert_eq!(fold_case("Straße ΣΑΣ"), "strasse σασ");
    }

    #[test]
    fn plain_characters_need_no_cleaning() {
        for c in (char::MIN..=char::MAX).filter(|&c| is_plain(c)) {
            assert!(!is_invisible(c) && !c.is_whitespace() && !c.is_control(), "{c:?}");
            assert_eq!(is_nfc_quick(core::iter::once(c)), IsNormalized::Yes, "{c:?}");
            assert_eq!(canonical_combining_class(c), 0, "{c:?}");
        }
    }

    #[test]
    fn folding_one_character_is_folding_it_up_and_down() {
        for c in char::MIN..=char::MAX {
            let slow: String = c.to_uppercase().flat_map(char::to_lowercase).collect();
            assert_eq!(fold_case(c.encode_utf8(&mut [0; 4])), slow, "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn cleaning_is_collapsing_the_composed_text(
            text in prop_oneof![any::<String>(), "[ a\t\u{a0}é\u{301}\u{ad}đ条\u{200b}]{0,12}"]
        ) {
            prop_assert_eq!(clean(&text).into_owned(), collapse(text.nfc(), 0));
        }
    }
}
