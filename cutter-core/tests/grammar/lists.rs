//! Lists inside an article, made at random from a profile's enumerators: every item that was
//! planted is found at its byte, of the kind and with the number that it has, and no other.

use cutter_core::text::profile::{Enumerator, Numeral, Profile};

use super::document::document;
use super::tape::Tape;
use super::{LAWS, for_tapes, lawful, mark};

const CJK: [&str; 9] = ["一", "二", "三", "四", "五", "六", "七", "八", "九"];
const ROMAN: [&str; 9] = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"];

/// The number as printed, and as addresses have it.
fn number(rule: &Enumerator, n: usize) -> (String, String) {
    match rule.numeral {
        Numeral::Digits | Numeral::Code => (n.to_string(), n.to_string()),
        Numeral::Cjk => (CJK[n - 1].into(), n.to_string()),
        Numeral::Roman | Numeral::Word if rule.letters.starts_with('I') => {
            (ROMAN[n - 1].to_uppercase(), n.to_string())
        }
        Numeral::Roman | Numeral::Word => (ROMAN[n - 1].into(), n.to_string()),
        Numeral::Letter => {
            let order = if rule.letters.is_empty() { "abcdefghi" } else { &rule.letters };
            let signs: Vec<String> = match order.contains(' ') {
                true => order.split_whitespace().map(Into::into).collect(),
                false => order.chars().map(Into::into).collect(),
            };
            let label = signs[n - 1].to_lowercase().replace('đ', "dd");
            (signs[n - 1].clone(), label)
        }
    }
}

fn is_alike(a: &Enumerator, b: &Enumerator) -> bool {
    (a.numeral, &a.letters, &a.open, a.under) == (b.numeral, &b.letters, &b.open, b.under)
}

/// A list that is being written.
struct List<'p> {
    /// The rule whose looks it has, and the first of those that look so here, which says the kind.
    rule: &'p Enumerator,
    mark: &'p str,
    parent: String,
    indent: &'static str,
}

impl<'p> List<'p> {
    /// One that begins below `rank`, not numbered as `outer` is.
    fn below(
        rules: &[&'p Enumerator],
        rank: u32,
        outer: Option<&List<'p>>,
        parent: String,
        tape: &mut Tape<'_>,
    ) -> Option<Self> {
        let deeper: Vec<&Enumerator> = rules.iter().filter(|rule| rule.rank > rank).copied().collect();
        let looks = *deeper.get(tape.below(deeper.len()))?;
        let mark = tape.pick(&looks.close).as_str();
        let rule =
            deeper.iter().find(|rule| is_alike(rule, looks) && rule.close.iter().any(|m| m == mark))?;
        let repeats = outer.is_some_and(|outer| is_alike(outer.rule, rule) && !rule.aligned);
        let indent = if outer.is_some() { "    " } else { "" };
        (!repeats).then_some(Self { rule, mark, parent, indent })
    }

    /// Writes an item: its address and where it begins.
    fn write(&self, n: usize, text: &mut String) -> (usize, String) {
        let (printed, label) = number(self.rule, n);
        let above = self.parent.rsplit_once('-').map_or("", |(_, above)| above);
        let (printed, label) = if self.rule.under {
            (format!("{above}.{printed}"), format!("{above}.{label}"))
        } else {
            (printed, label)
        };
        let start = text.len();
        *text += &format!("{}{}{printed}{} textus.\n\n", self.indent, self.rule.open, self.mark);
        (start, format!("{}/{}-{label}", self.parent, self.rule.kind))
    }
}

fn finds_all_items(profile: &Profile, tape: &mut Tape<'_>) {
    let made = document(profile, &mut Tape::new(&[]));
    let article = made.planted.last().unwrap().address.clone();
    assert!(article.rsplit('/').next().unwrap().starts_with("art-"), "{article}");
    let mut text = made.text.clone() + "\n\nPraefatio hic stat.\n\n";
    // A sentence came before: no list is the first text of its article.
    let mut rules: Vec<&Enumerator> = profile.enumerators.iter().filter(|rule| !rule.leads).collect();
    rules.sort_by_key(|rule| rule.rank);
    let mut planted = Vec::new();
    let Some(outer) = List::below(&rules, 60, None, article, tape) else { return };
    let first = outer.rule.first.map_or(1, |first| usize::try_from(first).unwrap());
    for n in first..first + 1 + tape.below(4) {
        let (start, address) = outer.write(n, &mut text);
        planted.push((start, address.clone()));
        if tape.once_in(4) {
            text += "Textus sine numero.\n\n";
        }
        if tape.once_in(4) {
            // Eight: nine as a letter is one as a Roman number.
            outer.write(8, &mut text);
        }
        if tape.once_in(2)
            && let Some(inner) = List::below(&rules, outer.rule.rank, Some(&outer), address, tape)
        {
            let first = inner.rule.first.map_or(1, |first| usize::try_from(first).unwrap());
            for m in first..first + 1 + tape.below(4) {
                planted.push(inner.write(m, &mut text));
            }
        }
    }
    let mut deep = profile.clone();
    deep.deepest = None;
    let marked = mark(&deep, text.as_bytes()).unwrap();
    lawful(&deep, text.as_bytes(), &marked);
    let is_item = |kind: &str| profile.enumerators.iter().any(|rule| rule.kind == kind);
    let items = marked.candidates.iter().filter(|unit| {
        unit.start >= made.text.len()
            && unit
                .address
                .as_str()
                .rsplit('/')
                .next()
                .is_some_and(|seg| is_item(seg.split('-').next().unwrap()))
    });
    let found: Vec<(usize, String)> = items.map(|unit| (unit.start, unit.address.to_string())).collect();
    assert_eq!(found, planted, "\n--- {}\n{text}\n---", profile.name);
}

#[test]
fn every_item_of_a_list_is_found() {
    let mut tested = Vec::new();
    for name in LAWS {
        let profile = Profile::built_in(name).unwrap();
        if !profile.enumerators.is_empty() {
            tested.push(name);
            for_tapes(150, |bytes| finds_all_items(&profile, &mut Tape::new(bytes)));
        }
    }
    assert_eq!(tested, LAWS, "laws without lists");
}
