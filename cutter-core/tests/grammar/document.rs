//! A document of a profile's convention, and the units that were planted in it.

use cutter_core::text::profile::{After, Designator, FoldTitles, NumberSide, Numeral, Profile};

use crate::numeral::{Printed, capital, insert, print, range};
use crate::tape::Tape;

/// Words of no language and no profile.
const WORDS: [&str; 6] = ["zorbel", "quintam", "welkra", "plomdu", "frennik", "joschta"];

/// A unit that must be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    pub start: usize,
    pub address: String,
}

pub struct Document<'p> {
    profile: &'p Profile,
    pub text: String,
    pub planted: Vec<Planted>,
    /// The open divisions: rank, address.
    open: Vec<(u32, String)>,
    /// Articles are lines of text.
    lines: bool,
    /// Where articles may have codes, all of them have or none has: a code is outside of the sequence
    /// of plain numbers.
    article: Designator,
    coded: bool,
}

/// Makes a document; the tape decides everything.
pub fn document<'p>(profile: &'p Profile, tape: &mut Tape<'_>) -> Document<'p> {
    let article = profile.designators.iter().find(|d| d.kind == "art").expect("a law profile has articles");
    let mut article = article.clone();
    let coded =
        article.numerals == [Numeral::Code] || (article.numerals.contains(&Numeral::Code) && tape.once_in(2));
    article.numerals.retain(|numeral| (*numeral == Numeral::Code) == coded);
    let in_lines = profile.paragraphs.as_ref().is_some_and(|rules| rules.kinds.contains(&article.kind));
    let lines = in_lines && !tape.once_in(3);
    let mut made = Document {
        profile,
        text: String::new(),
        planted: Vec::new(),
        open: Vec::new(),
        lines,
        article,
        coded,
    };
    made.begin(tape);
    made.body(tape);
    for number in 1..=u32::try_from(tape.below(3)).unwrap() {
        if made.annex(number, tape) {
            made.articles(&mut 0, tape);
        }
    }
    made
}

impl<'p> Document<'p> {
    fn begin(&mut self, tape: &mut Tape<'_>) {
        if tape.once_in(3) {
            self.text += "---\ntitle: zorbel\n---\n\n";
        }
        self.text += "# Zorbel quintam\n\n";
        if let Some(mark) = self.profile.region.start_after.first().filter(|_| !tape.once_in(3)) {
            self.text += &format!("{}\n\n{mark}\n\n", sentence(tape));
        }
    }

    fn body(&mut self, tape: &mut Tape<'_>) {
        let named = ["annex", "preamble", "toc", "closing"];
        let divides = |d: &&Designator| {
            d.rank < self.article.rank && !named.contains(&d.kind.as_str()) && !d.numerals.is_empty()
        };
        let mut divisions: Vec<&'p Designator> = self.profile.designators.iter().filter(divides).collect();
        divisions.retain(|_| tape.once_in(3));
        divisions.truncate(3);
        let mut number = 0;
        self.within(&divisions, 2, &mut number, tape);
    }

    fn within(&mut self, divisions: &[&'p Designator], level: usize, number: &mut u32, tape: &mut Tape<'_>) {
        let Some((first, deeper)) = divisions.split_first() else {
            return self.articles(number, tape);
        };
        for place in 1..=u32::try_from(1 + tape.below(3)).unwrap() {
            let printed = print(self.profile, first, place, tape);
            let word = self.word(first, tape);
            self.heading(first, &word, &printed, level, tape);
            self.noise(0, tape);
            self.within(deeper, level + 1, number, tape);
        }
    }

    fn annex(&mut self, number: u32, tape: &mut Tape<'_>) -> bool {
        let Some(annex) = self.profile.designators.iter().find(|d| d.kind == "annex") else { return false };
        let printed = print(self.profile, annex, number, tape);
        let word = self.word(annex, tape);
        self.heading(annex, &word, &printed, 2, tape);
        true
    }

    /// Articles from the number after `number` on, without a gap.
    fn articles(&mut self, number: &mut u32, tape: &mut Tape<'_>) {
        for _ in 0..1 + tape.below(5) {
            *number += 1;
            let last = *number + 1 + u32::try_from(tape.below(4)).unwrap();
            let ranged = tape.once_in(6).then(|| range(self.profile, &self.article, (*number, last), tape));
            let (word, printed) = match ranged.flatten() {
                Some(ranged) => {
                    *number = last;
                    ranged
                }
                None => {
                    let printed = print(self.profile, &self.article, *number, tape);
                    (self.word(&self.article, tape), printed)
                }
            };
            self.article(&word, &printed, tape);
            self.noise(*number, tape);
            if tape.once_in(4)
                && let Some(printed) = insert(self.profile, &self.article, *number, tape)
            {
                let word = self.word(&self.article, tape);
                self.article(&word, &printed, tape);
                self.noise(*number, tape);
            }
        }
    }

    fn article(&mut self, word: &str, printed: &Printed, tape: &mut Tape<'_>) {
        if !self.lines {
            return self.heading(&self.article.clone(), word, printed, 6, tape);
        }
        let start = self.text.len();
        if self.profile.id_headings && tape.once_in(2) {
            self.text += &format!("##### 4400400000000000{:04}\n\n", start % 10_000);
        }
        let rules = self.profile.paragraphs.as_ref().expect("articles are lines");
        let behind = match tape.pick(&rules.after) {
            After::End => String::new(),
            After::Comma => format!(", {}", sentence(tape)),
            After::Mark => format!("{} {}", tape.pick(&[".", ":", ".-", ". –"]), capital(&sentence(tape))),
            After::Blank => format!("{}{}", tape.pick(&["　", " ", "  "]), sentence(tape)),
            After::Capital => format!(" {}", capital(&sentence(tape))),
        };
        let emphasis = if behind.is_empty() && tape.once_in(2) { "**" } else { "" };
        let shown = shown(&self.article, word, printed, tape);
        self.text += &format!("{emphasis}{shown}{behind}{emphasis}\n\n");
        self.plant(&self.article.clone(), &printed.label, start);
    }

    fn heading(
        &mut self,
        designator: &Designator,
        word: &str,
        printed: &Printed,
        level: usize,
        tape: &mut Tape<'_>,
    ) {
        let start = self.text.len();
        let blank = if self.profile.loose_headings && tape.once_in(3) { "" } else { " " };
        let marks = "#".repeat(level);
        let before = designator.number.first() == Some(&NumberSide::Before) && designator.prefix.is_empty();
        let title = match tape.below(4) {
            1 if !before || designator.titled => format!(" {}", capital(WORDS[tape.below(6)])),
            2 => format!(" ({})", WORDS[tape.below(6)]),
            3 if self.profile.noise.is_empty() => format!(": {}", sentence(tape)),
            _ => String::new(),
        };
        let shown = shown(designator, word, printed, tape);
        let noise = self.profile.noise.first().filter(|_| tape.once_in(4));
        let noise = noise.map_or(String::new(), |noise| format!("{noise} "));
        self.text += &format!("{marks}{blank}{noise}{shown}{title}\n\n");
        let folds = match self.profile.fold_titles {
            FoldTitles::Deeper | FoldTitles::Same => Some(level),
            FoldTitles::Any => Some(level.saturating_sub(tape.below(2)).max(2)),
            FoldTitles::None => None,
        };
        if let Some(level) = folds.filter(|_| title.is_empty() && tape.once_in(3)) {
            self.text += &format!("{} {}\n\n", "#".repeat(level), capital(&sentence(tape)));
        }
        self.plant(designator, &printed.label, start);
    }

    fn plant(&mut self, designator: &Designator, label: &str, start: usize) {
        while self.open.last().is_some_and(|(rank, _)| *rank >= designator.rank) {
            self.open.pop();
        }
        let above = self.open.last().map_or("X", |(_, address)| address.as_str());
        let address = format!("{above}/{}-{label}", designator.kind);
        self.open.push((designator.rank, address.clone()));
        self.planted.push(Planted { start, address });
    }

    /// A word of the designator in the singular, as a title has it.
    fn word(&self, designator: &Designator, tape: &mut Tape<'_>) -> String {
        let singular = |word: &&String| {
            let is_plural = self.profile.plural_words.contains(word);
            let numbered = word.split(' ').any(|part| self.profile.number_words.contains_key(part));
            !numbered && (!is_plural || designator.words.len() == 1)
        };
        let words: Vec<&String> = designator.words.iter().filter(singular).collect();
        capital(tape.pick::<&String>(&words))
    }

    /// Text that mentions articles and designates none; `last` is the article before.
    fn noise(&mut self, last: u32, tape: &mut Tape<'_>) {
        let number = u32::try_from(1 + tape.below(30)).unwrap();
        let printed = print(self.profile, &self.article, number, tape);
        let word = self.word(&self.article, tape);
        let mention = shown(&self.article, &word, &printed, tape);
        let in_lines =
            self.profile.paragraphs.as_ref().filter(|rules| rules.kinds.contains(&self.article.kind));
        let line = match tape.below(8) {
            // At the start of a line: with nothing between, where a blank would designate.
            1 => match in_lines {
                Some(rules) if rules.after.contains(&After::Blank) => format!("{mention}{}", sentence(tape)),
                _ => format!("{mention} {}", sentence(tape)),
            },
            2 => format!("{}\n{mention} {}", sentence(tape), sentence(tape)),
            // In the very shape of an article.
            3 if in_lines.is_none() => mention,
            // Out of sequence.
            4 if in_lines.is_some_and(|rules| rules.sequence) && last > 3 && !self.coded => {
                let number = Printed { text: "2".into(), behind: String::new(), label: String::new() };
                let mention = shown(&self.article, &word, &number, tape);
                let rules = in_lines.expect("asked above");
                let mark = if rules.after.contains(&After::Mark) { "." } else { "" };
                format!("{mention}{mark} {}", sentence(tape))
            }
            5 => format!("```\n# {mention}\n\n{mention}\n```"),
            6 => format!("<!--\n\n{mention}\n\n## {mention}\n-->"),
            7 => format!("> ## {mention}\n\n- zorbel\n\n  ## {mention}"),
            _ => format!("{} {mention}, {}.", capital(&sentence(tape)), sentence(tape)),
        };
        self.text += &format!("{line}\n\n");
    }
}

/// The designator with its number.
fn shown(designator: &Designator, word: &str, printed: &Printed, tape: &mut Tape<'_>) -> String {
    let Printed { text, behind, .. } = printed;
    let sides = &designator.number;
    if !designator.prefix.is_empty() {
        return format!("{}{text}{word}{behind}", designator.prefix);
    }
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let letters = text.chars().all(char::is_alphabetic);
    let can_precede = digits || (letters && text.chars().count() > 1);
    if sides.first() == Some(&NumberSide::Before)
        || (sides.contains(&NumberSide::Before) && can_precede && designator.titled && tape.once_in(2))
    {
        let stop = if digits && tape.once_in(2) { "." } else { "" };
        return format!("{text}{stop} {word}");
    }
    format!("{word} {text}")
}

fn sentence(tape: &mut Tape<'_>) -> String {
    (0..2 + tape.below(4)).map(|_| *tape.pick(&WORDS)).collect::<Vec<_>>().join(" ")
}
