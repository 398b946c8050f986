//! How deep a profile cuts, said in words: `article`, `khoản`, `pt`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Format, Profile};
use crate::text::address::text::fold_case;
use crate::text::address::unit_kind_of;

/// Why a profile cannot cut down to a kind. Shown to whoever asked for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("profile {profile} has no {word:?}: expected one of {}", kinds.join(", "))]
pub struct NoSuchKind {
    /// The profile's name.
    pub profile: String,
    /// What was asked for.
    pub word: String,
    /// What there is, the largest first.
    pub kinds: Vec<String>,
}

impl Profile {
    /// The address kinds that the profile knows, the largest division first.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        let mut ranked: Vec<(u32, &str)> = (self.designators.iter().map(|d| (d.rank, d.kind.as_str())))
            .chain(self.bare_numerals.iter().map(|b| (b.rank, b.kind.as_str())))
            .chain(self.enumerators.iter().map(|e| (e.rank, e.kind.as_str())))
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        let xml = self.xml.iter().flat_map(|rules| rules.units.iter().map(|unit| unit.kind.as_str()));
        let mut kinds: Vec<&str> = match self.format {
            Format::Xml => xml.collect(),
            _ => ranked.into_iter().map(|(_, kind)| kind).chain(self.decimal_kind.as_deref()).collect(),
        };
        let mut seen: Vec<&str> = Vec::new();
        kinds.retain(|kind| {
            let new = !seen.contains(kind);
            seen.push(kind);
            new
        });
        kinds
    }

    /// The address kind that a word means to this profile: a kind of addresses (`cl`), a word of
    /// the vocabulary `unit_kind` (`clause`), a designator's word (`điều`), or what the profile
    /// says that people call its lists (`khoản`).
    #[must_use]
    pub fn kind_of_word(&self, word: &str) -> Option<&str> {
        let word: String = fold_case(&crate::text::address::text::clean(word.trim()));
        let kinds = self.kinds();
        let named = |kind: &&str| *kind == word || unit_kind_of(kind) == Some(word.as_str());
        let of_words = || {
            let called = self.enumerators.iter().find(|e| e.names.contains(&word)).map(|e| e.kind.as_str());
            let designated = || self.designators.iter().find(|d| d.words.contains(&word));
            called.or_else(|| designated().map(|d| d.kind.as_str()))
        };
        kinds.into_iter().find(named).or_else(of_words)
    }

    /// Cuts down to the kind that a word means, and no further; see [`Profile::kind_of_word`].
    /// A number of levels set before is dropped.
    ///
    /// # Errors
    /// [`NoSuchKind`]: with the kinds that the profile knows.
    pub fn cut_down_to(&mut self, word: &str) -> Result<(), NoSuchKind> {
        let Some(kind) = self.kind_of_word(word).map(ToString::to_string) else {
            let shown = |kind: &str| match unit_kind_of(kind) {
                Some(word) if word != kind => alloc::format!("{word} ({kind})"),
                _ => kind.to_string(),
            };
            let kinds = self.kinds().into_iter().map(shown).collect();
            return Err(NoSuchKind { profile: self.name.clone(), word: word.to_string(), kinds });
        };
        self.depth = None;
        match &mut self.xml {
            Some(rules) => rules.deepest = Some(kind),
            None => self.deepest = Some(kind),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_called_by_address_vocabulary_and_the_words_of_the_language() {
        for (profile, word, want) in [
            ("vn", "article", "art"),
            ("vn", "Khoản", "cl"),
            ("vn", "KHOẢN", "cl"),
            ("vn", "Điê\u{309}m", "pt"),
            ("vn", "điều", "art"),
            ("vn", "clause", "cl"),
            ("vn", "pt", "pt"),
            ("de", "Absatz", "cl"),
            ("de", "§", "art"),
            ("kr", "항", "cl"),
            ("kr", "호", "pt"),
            ("jp", "項", "cl"),
            ("jp", "号", "pt"),
            ("cn", "项", "pt"),
            ("markdown", "section", "sec"),
            ("akn", "article", "art"),
        ] {
            let mut cut = Profile::built_in(profile).unwrap();
            cut.depth = Some(1);
            cut.cut_down_to(word).unwrap();
            let deepest = cut.xml.as_ref().map_or(cut.deepest.clone(), |xml| xml.deepest.clone());
            assert_eq!((deepest.as_deref(), cut.depth), (Some(want), None), "{profile} {word}");
        }
    }

    #[test]
    fn what_a_profile_lacks_is_refused_with_what_it_has() {
        let error = Profile::built_in("vn").unwrap().cut_down_to("recital").unwrap_err();
        assert_eq!(
            error.to_string(),
            "profile vn has no \"recital\": expected one of annex, part, chapter (ch), section (sec), \
             subsection (subsec), article (art), clause (cl), point (pt)"
        );
    }
}
