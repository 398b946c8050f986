//! Detection: which profile cuts a document, on what evidence, and how sure that is.
//!
//! Every profile is asked the same three questions about the beginning of the text: how many
//! of its lines begin with the profile's designators, how many begin as only this convention
//! begins them, and how much of the text is in the profile's language. The answers are counts,
//! the score is their product, and a tie goes to the profile that comes first, so the same
//! bytes give the same profile on every machine. Low confidence is said, never hidden: the
//! approver sees it at SG1.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::text::mark::head;
use crate::text::mark::xml::xml_root;
use crate::text::profile::{Format, Profile, ProfileError};

mod choice;
mod explain;
mod lines;
mod tally;

pub use self::choice::{Cost, Detection, RunnerUp};
pub use self::explain::{LineReason, explain};
use self::lines::{Line, first_lines};
use self::tally::{Hits, Reader};

/// Of a text so many bytes are looked at.
const MAX_BYTES: usize = 64 << 10;
/// So many lines that may designate are read, so that detection costs little on large texts.
const MAX_LINES: usize = 160;
/// So many lines are looked at for the signs of a convention.
const MAX_MARK_LINES: usize = 160;
/// Less of a profile's language than this, per mille, is none.
const LEAST_LANGUAGE: u32 = 40;
/// So many bytes of text are read for the language.
const MAX_LANGUAGE_BYTES: usize = 5 << 10;

/// The profiles that a document is held against.
#[derive(Debug, Clone)]
pub struct Profiles {
    profiles: Vec<Profile>,
    /// Which profiles know a frequent word, or a letter beyond ASCII.
    words: BTreeMap<String, Vec<usize>>,
    letters: BTreeMap<char, Vec<usize>>,
}

/// How sure a detection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The evidence is of one convention.
    High,
    /// Little evidence, or of two conventions: look at the plan before you approve it.
    Low,
}

impl Confidence {
    /// `high` or `low`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Low => "low",
        }
    }
}

/// What was counted for one profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// The profile's name.
    pub profile: String,
    /// More is likelier. Of no unit.
    pub score: u64,
    /// Lines that begin with an article's designator.
    pub articles: u32,
    /// Lines that begin with a division's designator.
    pub divisions: u32,
    /// Lines that only this convention has.
    pub marks: u32,
    /// Headings that designate nothing.
    pub headings: u32,
    /// Per mille of the text's words or letters that are frequent in the language.
    pub language: u32,
}

/// What was detected, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detected {
    /// The profile's name.
    pub profile: String,
    /// How sure.
    pub confidence: Confidence,
    /// In short sentences, for people.
    pub evidence: Vec<String>,
    /// All profiles that have any evidence, the likeliest first.
    pub ranking: Vec<Score>,
}

impl Detected {
    /// The likeliest profile that was not chosen.
    #[must_use]
    pub fn runner_up(&self) -> Option<&str> {
        self.ranking.iter().map(|score| score.profile.as_str()).find(|name| *name != self.profile)
    }
}

impl Profiles {
    /// The built-in profiles.
    ///
    /// # Errors
    /// [`ProfileError`] where one of them does not read, which the tests exclude.
    pub fn built_in() -> Result<Self, ProfileError> {
        let profiles = Profile::names().map(Profile::built_in).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::new(profiles))
    }

    /// Profiles of one's own. The first one cuts what nothing else fits.
    #[must_use]
    pub fn new(profiles: Vec<Profile>) -> Self {
        let mut words: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut letters: BTreeMap<char, Vec<usize>> = BTreeMap::new();
        for (i, profile) in profiles.iter().enumerate() {
            for word in &profile.detection.words {
                words.entry(word.clone()).or_default().push(i);
            }
            for letter in profile.detection.letters.chars().filter(|c| !c.is_ascii()) {
                letters.entry(letter).or_default().push(i);
            }
        }
        Self { profiles, words, letters }
    }

    /// The profile of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> &[Profile] {
        &self.profiles
    }

    /// The profile that cuts `source`, on what evidence. Linear, and bounded for large texts;
    /// text that is not UTF-8 is read up to its first wrong byte.
    #[must_use]
    pub fn detect(&self, source: &[u8]) -> Detected {
        let start = source.get(..MAX_BYTES).unwrap_or(source);
        let text = match core::str::from_utf8(start) {
            Ok(text) => text,
            // The first wrong byte, or a character that was cut in two.
            Err(error) => {
                start.utf8_chunks().next().map_or("", |c| c.valid().get(..error.valid_up_to()).unwrap_or(""))
            }
        };
        if let Some(found) = self.detect_xml(start) {
            return found;
        }
        let lines = first_lines(text, MAX_LINES);
        let head: Vec<&str> = text.lines().take(MAX_MARK_LINES).collect();
        let language = Language::of(text, self);
        let mut ranking: Vec<Score> = Vec::new();
        for (i, profile) in self.profiles.iter().enumerate().filter(|(_, p)| p.format != Format::Xml) {
            let language = language.per_mille(i);
            let reader = Reader::new(profile);
            let marks = reader.marks(&head);
            // What is in another language and has no sign of the convention needs no reading.
            if i > 0 && language < LEAST_LANGUAGE && marks == 0 {
                continue;
            }
            let hits = reader.read(text, marks, &lines);
            ranking.push(score(profile, i == 0, hits, language));
        }
        // Stable: a tie goes to the profile that comes first.
        ranking.sort_by_key(|score| core::cmp::Reverse(score.score));
        ranking.retain(|score| score.score > 0);
        self.decide(ranking)
    }

    /// XML says by its root element what it is.
    fn detect_xml(&self, source: &[u8]) -> Option<Detected> {
        let (namespace, name) = xml_root(source)?;
        let fits = |p: &&Profile| p.xml.as_ref().is_some_and(|rules| rules.fits(&namespace, name));
        let profile = self.profiles.iter().find(fits)?;
        let evidence = alloc::vec![format!("the root element is {name} of namespace {namespace:?}")];
        let profile = profile.name.clone();
        Some(Detected { profile, confidence: Confidence::High, evidence, ranking: Vec::new() })
    }

    fn decide(&self, ranking: Vec<Score>) -> Detected {
        let fallback = self.profiles.first().map_or("", |profile| profile.name.as_str());
        let Some(best) = ranking.first() else {
            let evidence = alloc::vec![format!("no profile has any evidence: {fallback} is for plain texts")];
            return Detected { profile: fallback.into(), confidence: Confidence::Low, evidence, ranking };
        };
        let profile = best.profile.clone();
        let mut evidence = alloc::vec![best.to_string()];
        let rival = ranking.iter().skip(1).find(|other| !self.is_related(&profile, &other.profile));
        let mut confidence = Confidence::High;
        if let Some(rival) = rival {
            evidence.push(format!("next: {rival}"));
            if rival.score.saturating_mul(2) > best.score {
                confidence = Confidence::Low;
                evidence.push(format!("{} is nearly as likely", rival.profile));
            }
        }
        if profile == fallback && best.articles + best.divisions + best.headings <= 1 {
            confidence = Confidence::Low;
            evidence.push("the text has next to no headings".to_string());
        }
        if profile != fallback && best.articles == 0 && best.marks == 0 {
            confidence = Confidence::Low;
            evidence.push("no line begins with an article: chosen by the language alone".to_string());
        }
        Detected { profile, confidence, evidence, ranking }
    }

    /// Profiles of one language cut alike where both fit; only others are rivals.
    fn is_related(&self, one: &str, other: &str) -> bool {
        match (self.get(one), self.get(other)) {
            (Some(one), Some(other)) => one.languages.first() == other.languages.first(),
            _ => false,
        }
    }
}

impl core::fmt::Display for Score {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { profile, articles, divisions, marks, language, .. } = self;
        write!(
            f,
            "{profile}: {articles} lines begin with an article, {divisions} with a division, {marks} as only \
             this convention begins them; {language} per mille of the words are its language's"
        )
    }
}

fn score(profile: &Profile, is_fallback: bool, hits: Hits, language: u32) -> Score {
    let Hits { articles, divisions, marks, plain } = hits;
    let counted = 40 * u64::from(articles) + 20 * u64::from(divisions) + 200 * u64::from(marks.min(5));
    // A convention in its own language counts for much more than its signs alone.
    let known = u64::from(language.min(400));
    let counted = if is_fallback {
        // The profile for what no convention fits: headings count a little.
        (60 + 20 * u64::from(divisions + articles) + 10 * u64::from(plain)) * 60
    } else if known < u64::from(LEAST_LANGUAGE) && marks == 0 {
        0
    } else {
        (10 + counted) * known
    };
    let name = profile.name.clone();
    Score { profile: name, score: counted, articles, divisions, marks, headings: plain, language }
}

/// How much of a text is in which profile's language.
struct Language {
    words: u32,
    letters: u32,
    /// By profile: frequent words, frequent letters.
    hits: Vec<(u32, u32)>,
}

impl Language {
    fn of(text: &str, profiles: &Profiles) -> Self {
        let mut found = Self { words: 0, letters: 0, hits: alloc::vec![(0, 0); profiles.profiles.len()] };
        for sample in samples(text) {
            for word in sample.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
                found.words += 1;
                let lower = if word.bytes().all(|b| b.is_ascii_lowercase()) {
                    Cow::Borrowed(word)
                } else {
                    Cow::Owned(word.to_lowercase())
                };
                for &i in profiles.words.get(lower.as_ref()).into_iter().flatten() {
                    found.hits[i].0 += 1;
                }
                for c in lower.chars() {
                    found.letters += 1;
                    if !c.is_ascii() {
                        for &i in profiles.letters.get(&c).into_iter().flatten() {
                            found.hits[i].1 += 1;
                        }
                    }
                }
            }
        }
        found
    }

    fn per_mille(&self, profile: usize) -> u32 {
        let (words, letters) = self.hits.get(profile).copied().unwrap_or_default();
        words * 1000 / self.words.max(1) + letters * 1000 / self.letters.max(1)
    }
}

/// Pieces of the text from its beginning, middle and end, together at most so many bytes.
fn samples(text: &str) -> Vec<&str> {
    const PIECES: usize = 6;
    if text.len() <= MAX_LANGUAGE_BYTES {
        return alloc::vec![text];
    }
    let size = MAX_LANGUAGE_BYTES / PIECES;
    let step = text.len() / PIECES;
    let boundary = |at: usize| head(text, at).len();
    (0..PIECES).map(|i| &text[boundary(i * step)..boundary(i * step + size)]).collect()
}

/// A line as every profile reads it.
type Plain<'t> = Cow<'t, str>;

#[cfg(test)]
mod tests;
