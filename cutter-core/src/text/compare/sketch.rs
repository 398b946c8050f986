//! How similar two texts are, from small fingerprints of their wording.
//!
//! A text is the set of its runs of three words; two texts are as similar as their sets
//! overlap. Of each set only the smallest hashes are kept, which estimate the overlap of the
//! whole sets: a comparison costs the same for a sentence and for a book.

use alloc::string::String;
use alloc::vec::Vec;

/// Hashes kept of one text.
const KEPT: usize = 128;
/// Words in one run.
const RUN: usize = 3;
/// Hashes gathered before they are cut down to [`KEPT`].
const GATHERED: usize = 8 * KEPT;

/// The fingerprint of a text: its smallest hashes, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sketch {
    hashes: Vec<u64>,
    words: usize,
    /// Of all words in their order.
    whole: u64,
}

impl Sketch {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut hashes = Vec::new();
        let mut recent = [0u64; RUN];
        let (mut words, mut whole) = (0, 0);
        for word in word_hashes(&String::from_utf8_lossy(text)) {
            recent.rotate_left(1);
            recent[RUN - 1] = word;
            words += 1;
            whole = run_hash(&[whole, word, 0]);
            if words >= RUN {
                hashes.push(run_hash(&recent));
                if hashes.len() >= GATHERED {
                    cut(&mut hashes);
                }
            }
        }
        if words > 0 && words < RUN {
            hashes.push(run_hash(&recent));
        }
        cut(&mut hashes);
        hashes.shrink_to_fit();
        Self { hashes, words, whole }
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// How much of the wording is common, in thousandths: 1000 only where all words are equal, in
    /// the same order. Of texts without words: nothing.
    pub(super) fn similarity(&self, other: &Self) -> u16 {
        let (a, b) = (&self.hashes, &other.hashes);
        let (mut i, mut j, mut seen, mut common) = (0usize, 0usize, 0usize, 0usize);
        while seen < KEPT && (i < a.len() || j < b.len()) {
            seen += 1;
            match (a.get(i), b.get(j)) {
                (Some(x), Some(y)) if x == y => {
                    common += 1;
                    i += 1;
                    j += 1;
                }
                (Some(x), Some(y)) if x < y => i += 1,
                (Some(_), None) => i += 1,
                _ => j += 1,
            }
        }
        let thousandths = (common * 1000).checked_div(seen).unwrap_or(0);
        let most = if self.whole == other.whole { 1000 } else { 999 };
        u16::try_from(thousandths).unwrap_or(most).min(most)
    }
}

fn cut(hashes: &mut Vec<u64>) {
    hashes.sort_unstable();
    hashes.dedup();
    hashes.truncate(KEPT);
}

/// Whether a text has at least `least` words; no more of it is read than needed.
pub(super) fn has_words(text: &[u8], least: usize) -> bool {
    // enough for the words asked for, however long they are
    let head = text.get(..least * 256).unwrap_or(text);
    word_hashes(&String::from_utf8_lossy(head)).take(least).count() >= least
}

/// A hash for each word. Where a script puts no blanks between words, each character is one.
fn word_hashes(text: &str) -> impl Iterator<Item = u64> + '_ {
    let mut chars = text.chars().peekable();
    core::iter::from_fn(move || {
        while chars.next_if(|c| !c.is_alphanumeric()).is_some() {}
        let first = chars.next()?;
        let mut hash = step(0xcbf2_9ce4_8422_2325, first);
        if !stands_alone(first) {
            while let Some(c) = chars.next_if(|c| c.is_alphanumeric() && !stands_alone(*c)) {
                hash = step(hash, c);
            }
        }
        Some(hash)
    })
}

fn step(hash: u64, c: char) -> u64 {
    c.to_lowercase().fold(hash, |hash, c| (hash ^ u64::from(u32::from(c))).wrapping_mul(0x0100_0000_01b3))
}

const fn stands_alone(c: char) -> bool {
    matches!(c as u32,
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x9fff
        | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

/// A hash of a run of words that is spread evenly, so that the smallest are a fair sample.
fn run_hash(words: &[u64; RUN]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for word in words {
        hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn similarity(a: &str, b: &str) -> u16 {
        Sketch::of(a.as_bytes()).similarity(&Sketch::of(b.as_bytes()))
    }

    #[test]
    fn equal_wording_is_whole_and_other_wording_is_nothing() {
        let text = "The Senate meets twice a year, in public, in the capital of the republic.";
        assert_eq!(similarity(text, text), 1000);
        assert_eq!(similarity(text, &text.to_uppercase().replace(' ', "\n  ")), 1000);
        assert_eq!(similarity(text, "Taxes are levied by law alone and are the same for all who earn."), 0);
        assert_eq!(similarity("", ""), 0);
        assert_eq!(similarity("", text), 0);
    }

    #[test]
    fn a_small_change_costs_little_in_scripts_with_and_without_blanks() {
        let latin = "Everyone has the right to a fair hearing within a reasonable time by a tribunal established by law";
        let other = latin.replace("fair", "public");
        assert!((600..1000).contains(&similarity(latin, &other)), "{}", similarity(latin, &other));
        let han = "人民法院审理民事案件，应当根据自愿和合法的原则进行调解；调解不成的，应当及时判决。";
        let other = han.replace("自愿", "平等");
        assert!((600..1000).contains(&similarity(han, &other)), "{}", similarity(han, &other));
    }

    #[test]
    fn long_texts_are_estimated_well() {
        // of 20 000 words every second thousand is another
        let words = |other: bool| -> alloc::string::String {
            let word =
                |i: u32| if other && (i / 1000) % 2 == 1 { format!("x{i} ") } else { format!("w{i} ") };
            (0..20_000).map(word).collect()
        };
        let got = similarity(&words(false), &words(true));
        // a half is common: a third of the union
        assert!((230..440).contains(&got), "{got}");
        let one = words(false);
        let got = similarity(&one, &one.replacen("w10 ", "y ", 1));
        assert!((900..1000).contains(&got), "{got}");
    }

    #[test]
    fn words_are_counted_where_no_blank_parts_them() {
        assert!(has_words("第十二条 民事".as_bytes(), 6));
        assert!(!has_words("第十二条".as_bytes(), 6));
        assert!(has_words(b"a b-c d", 4));
        assert!(!has_words(b"a b-c d", 5));
        assert_eq!(Sketch::of("- — …\n".as_bytes()).words(), 0);
    }

    #[test]
    fn what_only_the_longer_text_has_counts_too() {
        // one run of three words of six
        assert_eq!(similarity("a b c", "a b c d e f g h"), 166);
        assert_eq!(similarity("a b c d e f g h", "a b c"), 166);
        assert_eq!(similarity("a b c", "x y z a b c"), 250);
    }
}
