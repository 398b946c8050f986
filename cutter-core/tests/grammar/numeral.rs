//! How a profile prints a number, and the label that the address must have for it.

use cutter_core::text::profile::{Designator, NumberSide, Numeral, Profile};

use crate::tape::Tape;

/// A number as it is printed.
#[derive(Debug, Clone)]
pub struct Printed {
    /// The number, say `5a` or `一百二十`.
    pub text: String,
    /// What stands behind the word that follows the number: `之一`.
    pub behind: String,
    /// Its label: `5a`, `120+1`.
    pub label: String,
}

impl Printed {
    fn plain(text: String, label: String) -> Self {
        Self { text, behind: String::new(), label }
    }
}

/// `number` in one of the designator's numerals.
pub fn print(profile: &Profile, designator: &Designator, number: u32, tape: &mut Tape<'_>) -> Printed {
    let label = number.to_string();
    match tape.pick(&designator.numerals) {
        Numeral::Roman => roman(designator, number).map(|text| Printed::plain(text, label)),
        Numeral::Word => word(profile, number).map(|text| Printed::plain(text, label)),
        Numeral::Cjk => Some(Printed::plain(cjk(number), label)),
        Numeral::Digits if !designator.prefix.is_empty() && tape.once_in(3) => {
            Some(Printed::plain(full_width(number), label))
        }
        Numeral::Letter if number <= 26 && (number != 9 && number != 22 && number != 24) => {
            let letter = char::from(b'A' + u8::try_from(number - 1).unwrap());
            let is_after = designator.number.contains(&NumberSide::After);
            is_after.then(|| Printed::plain(letter.into(), letter.to_ascii_lowercase().into()))
        }
        Numeral::Code => Some(code(profile, number)),
        _ => None,
    }
    .unwrap_or_else(|| digits(profile, designator, number, tape))
}

fn digits(profile: &Profile, designator: &Designator, number: u32, tape: &mut Tape<'_>) -> Printed {
    let label = number.to_string();
    if !designator.numerals.contains(&Numeral::Digits) {
        return Printed::plain(cjk(number), label);
    }
    let is_after = designator.number.contains(&NumberSide::After);
    // Where letters belong to numbers, one letter behind a number is one of them.
    let mut suffixes = profile.ordinal_suffixes.clone();
    suffixes.retain(|suffix| suffix.len() > 1 || profile.code_letters.is_empty());
    let suffix = if is_after && !suffixes.is_empty() && tape.once_in(4) {
        tape.pick(&suffixes).clone()
    } else {
        String::new()
    };
    Printed::plain(format!("{number}{suffix}"), label)
}

/// The number inserted behind `number`, in one of the ways that the profile knows.
pub fn insert(
    profile: &Profile,
    designator: &Designator,
    number: u32,
    tape: &mut Tape<'_>,
) -> Option<Printed> {
    if !designator.prefix.is_empty() {
        let word = profile.insert_words.first()?;
        let cjk_first = designator.numerals.first() == Some(&Numeral::Cjk);
        let print = |n| if cjk_first { cjk(n) } else { n.to_string() };
        let behind = format!("{word}{}", print(2));
        return Some(Printed { text: print(number), behind, label: format!("{number}+2") });
    }
    if !designator.numerals.contains(&Numeral::Digits) {
        return None;
    }
    let before = designator.number.first() == Some(&NumberSide::Before);
    let mut ways: Vec<(String, String)> = vec![(format!("{number}a"), format!("{number}a"))];
    if !before {
        ways.push((format!("{number}<sup>1</sup>"), format!("{number}+1")));
        ways.push((format!("{number}²"), format!("{number}+2")));
        ways.push((format!("{number}-B"), format!("{number}-b")));
    }
    if profile.spaced_letters {
        ways.push((format!("{number} a"), format!("{number}a")));
    }
    if let Some(word) = profile.suffix_words.first().filter(|_| !before) {
        ways.push((format!("{number} {word}"), format!("{number}-{word}")));
    }
    let (text, label) = tape.pick(&ways).clone();
    Some(Printed::plain(text, label))
}

/// `§§ 3 bis 6`: a plural word and the range behind it.
pub fn range(
    profile: &Profile,
    designator: &Designator,
    (first, last): (u32, u32),
    tape: &mut Tape<'_>,
) -> Option<(String, Printed)> {
    let plural = designator.words.iter().filter(|word| profile.plural_words.contains(word));
    let plural: Vec<&String> = plural.collect();
    if plural.is_empty() || !designator.numerals.contains(&Numeral::Digits) {
        return None;
    }
    let word = (*tape.pick(&plural)).clone();
    let mut between: Vec<String> = vec!["–".into(), " – ".into(), " - ".into()];
    let words = profile.range_words.iter().filter(|word| !word.contains(' '));
    between.extend(words.map(|word| format!(" {word} ")));
    let text = format!("{first}{}{last}", tape.pick(&between));
    Some((word, Printed::plain(text, format!("{first}..{last}"))))
}

fn code(profile: &Profile, number: u32) -> Printed {
    match profile.code_letters.chars().next() {
        Some(letter) => {
            let lower = letter.to_ascii_lowercase();
            Printed::plain(format!("{letter}111-{number}"), format!("{lower}111-{number}"))
        }
        None => Printed::plain(format!("44.4.NĐ.{number}"), format!("44.4.ndd.{number}")),
    }
}

/// `None` where one letter would rather be a letter.
fn roman(designator: &Designator, mut number: u32) -> Option<String> {
    const STEPS: [(u32, &str); 9] =
        [(100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")];
    let mut out = String::new();
    for (step, letters) in STEPS {
        while number >= step {
            out.push_str(letters);
            number -= step;
        }
    }
    let ambiguous = out.len() == 1 && designator.numerals.contains(&Numeral::Letter);
    (!ambiguous || matches!(out.as_str(), "I" | "V" | "X")).then_some(out)
}

fn word(profile: &Profile, number: u32) -> Option<String> {
    let digits = number.to_string();
    let (word, _) = profile.number_words.iter().find(|(_, value)| **value == digits)?;
    Some(capital(word))
}

pub fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

fn full_width(number: u32) -> String {
    number.to_string().bytes().filter_map(|b| char::from_u32(0xff10 + u32::from(b - b'0'))).collect()
}

/// Up to 999.
fn cjk(number: u32) -> String {
    let digit = |n: u32| "〇一二三四五六七八九".chars().nth(usize::try_from(n).unwrap()).unwrap();
    let (hundreds, tens, ones) = (number / 100, number / 10 % 10, number % 10);
    let mut out = String::new();
    if hundreds > 0 {
        out.extend([digit(hundreds), '百']);
        if tens == 0 && ones > 0 {
            out.push('零');
        }
    }
    if tens > 0 {
        if tens > 1 || hundreds > 0 {
            out.push(digit(tens));
        }
        out.push('十');
    }
    if ones > 0 {
        out.push(digit(ones));
    }
    out
}
