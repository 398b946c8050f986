//! What is known of each mutant: the results so far, which a later sitting goes on from, the list
//! of those that change nothing to be seen, and the table at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use cutter_core::base::digest::Digest;

use super::conditions::Class;

/// A mutant's name: it says where and what, and outlives a change elsewhere in the same object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mutant {
    /// What was changed: a function, a trigger, a file and its function.
    pub object: String,
    /// How, on one line.
    pub change: String,
    /// Of which kind it is.
    pub class: Class,
}

/// Changes of one object that read the same get a number.
pub fn tell_apart<'a>(all: impl Iterator<Item = &'a mut Mutant>) {
    let mut seen = BTreeMap::<(String, String), usize>::new();
    for mutant in all {
        let count = seen.entry((mutant.object.clone(), mutant.change.clone())).or_default();
        *count += 1;
        if *count > 1 {
            mutant.change = format!("{} ({count})", mutant.change);
        }
    }
}

/// What the tests said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// This test failed, or did not end.
    Noticed(String),
    /// So many tests were asked, of so many that reach it, and none failed.
    Survived {
        /// How many were asked.
        asked: usize,
        /// How many reach it.
        of: usize,
    },
    /// No test reaches it.
    Unreached,
    /// It is no valid change; this is what was said.
    Invalid(String),
}

impl Outcome {
    fn line(&self) -> String {
        match self {
            Self::Noticed(test) => format!("noticed\t{test}"),
            Self::Survived { asked, of } => format!("survived\t{asked} {of}"),
            Self::Unreached => "unreached\t".to_owned(),
            Self::Invalid(why) => format!("invalid\t{}", why.replace(['\n', '\t'], " ")),
        }
    }

    fn of_line(word: &str, rest: &str) -> Option<Self> {
        match word {
            "noticed" => Some(Self::Noticed(rest.to_owned())),
            "survived" => {
                let (asked, of) = rest.split_once(' ')?;
                Some(Self::Survived { asked: asked.parse().ok()?, of: of.parse().ok()? })
            }
            "unreached" => Some(Self::Unreached),
            "invalid" => Some(Self::Invalid(rest.to_owned())),
            _ => None,
        }
    }

    /// Whether the tests let it through.
    #[must_use]
    pub fn is_unheld(&self) -> bool {
        matches!(self, Self::Survived { .. } | Self::Unreached)
    }
}

/// The results so far, kept in a file that only grows: the last line of a mutant counts.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    results: BTreeMap<(String, String), Outcome>,
}

impl Ledger {
    /// Opens the file, or a new one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut results = BTreeMap::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            if let [object, change, word, rest] = fields[..]
                && let Some(outcome) = Outcome::of_line(word, rest)
            {
                results.insert((object.to_owned(), change.to_owned()), outcome);
            }
        }
        Ok(Self { path: path.to_owned(), results })
    }

    /// What is known of a mutant.
    #[must_use]
    pub fn of(&self, mutant: &Mutant) -> Option<&Outcome> {
        self.results.get(&(mutant.object.clone(), mutant.change.clone()))
    }

    /// Adds a result.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&mut self, mutant: &Mutant, outcome: Outcome) -> std::io::Result<()> {
        let line = format!("{}\t{}\t{}\n", mutant.object, mutant.change, outcome.line());
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(line.as_bytes())?;
        self.results.insert((mutant.object.clone(), mutant.change.clone()), outcome);
        Ok(())
    }
}

/// A list of mutants that change nothing which a test could see, each with its reason: lines of
/// object, change and reason, parted by tabs.
#[derive(Debug, Default)]
pub struct Equivalents(BTreeMap<(String, String), String>);

impl Equivalents {
    /// Reads a list.
    ///
    /// # Errors
    /// A line that is not object, change, reason; or one that stands there twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut list = BTreeMap::new();
        for (n, line) in
            text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty())
        {
            let fields: Vec<&str> = line.split('\t').collect();
            let [object, change, reason] = fields[..] else {
                return Err(format!("line {}: expected object, change and reason, observed {line:?}", n + 1));
            };
            if reason.trim().len() < 10 {
                return Err(format!("line {}: expected a reason, observed {reason:?}", n + 1));
            }
            if list.insert((object.to_owned(), change.to_owned()), reason.to_owned()).is_some() {
                return Err(format!("line {}: {object}: {change}: stands there twice", n + 1));
            }
        }
        Ok(Self(list))
    }

    /// Why this one changes nothing, if it is listed.
    #[must_use]
    pub fn reason(&self, mutant: &Mutant) -> Option<&str> {
        self.0.get(&(mutant.object.clone(), mutant.change.clone())).map(String::as_str)
    }

    /// The entries that name one of these mutants.
    #[must_use]
    pub fn within(&self, some: &[Mutant]) -> Self {
        let kept = some.iter().filter_map(|mutant| {
            let key = (mutant.object.clone(), mutant.change.clone());
            self.0.get(&key).map(|reason| (key, reason.clone()))
        });
        Self(kept.collect())
    }

    /// Entries that name none of these mutants.
    #[must_use]
    pub fn stale<'a>(&self, all: impl IntoIterator<Item = &'a Mutant>) -> Vec<String> {
        let known: BTreeSet<(&str, &str)> =
            all.into_iter().map(|m| (m.object.as_str(), m.change.as_str())).collect();
        let is_stale = |key: &&(String, String)| !known.contains(&(key.0.as_str(), key.1.as_str()));
        self.0.keys().filter(is_stale).map(|(object, change)| format!("{object}: {change}")).collect()
    }
}

/// Draws so many of a list by a seed: those whose names, hashed with it, come first. So a change of the code
/// moves only the draw of what it changes.
#[must_use]
pub fn sample<T>(mut all: Vec<T>, seed: u64, count: usize, of: impl Fn(&T) -> &Mutant) -> Vec<T> {
    all.sort_by_cached_key(|one| {
        let mutant = of(one);
        Digest::of(format!("{seed}\n{}\n{}", mutant.object, mutant.change).as_bytes())
    });
    all.truncate(count);
    all
}

/// The end's table: per class how many were noticed, then each survivor by its object; and what is
/// wrong with the list. The second value says whether anything is wrong or unheld.
#[must_use]
pub fn report(all: &[Mutant], ledger: &Ledger, list: &Equivalents) -> (String, bool) {
    let mut text = String::new();
    let mut faults = Vec::new();
    let mut survivors = BTreeMap::<&str, Vec<String>>::new();
    let _ = writeln!(
        text,
        "{:<12} {:>6} {:>8} {:>10} {:>9} {:>7}",
        "class", "tried", "noticed", "equivalent", "survived", "%"
    );
    let (mut sums, mut open) = ([0_usize; 4], 0_usize);
    let row = |text: &mut String, name: &str, [tried, noticed, equivalent, survived]: [usize; 4]| {
        let share = match tried - equivalent {
            0 => String::new(),
            count => format!("{}.{}", noticed * 100 / count, noticed * 1000 / count % 10),
        };
        let _ =
            writeln!(text, "{name:<12} {tried:>6} {noticed:>8} {equivalent:>10} {survived:>9} {share:>7}");
    };
    for class in Class::ALL {
        let mut counts = [0_usize; 4];
        for mutant in all.iter().filter(|mutant| mutant.class == class) {
            let Some(outcome) = ledger.of(mutant) else { continue };
            let reason = list.reason(mutant);
            match outcome {
                Outcome::Invalid(why) => {
                    faults.push(format!("no valid change: {}: {}: {why}", mutant.object, mutant.change));
                    continue;
                }
                Outcome::Noticed(test) => {
                    counts[1] += 1;
                    if reason.is_some() {
                        faults.push(format!(
                            "listed, and noticed by {test}: {}: {}",
                            mutant.object, mutant.change
                        ));
                    }
                }
                Outcome::Survived { .. } | Outcome::Unreached if reason.is_some() => counts[2] += 1,
                Outcome::Survived { asked, of } => {
                    let line = format!("{} ({asked} of {of} tests asked)", mutant.change);
                    survivors.entry(&mutant.object).or_default().push(line);
                    if asked < of {
                        // nobody knows yet
                        open += 1;
                        continue;
                    }
                    counts[3] += 1;
                }
                Outcome::Unreached => {
                    counts[3] += 1;
                    let line = format!("{} (no test reaches it)", mutant.change);
                    survivors.entry(&mutant.object).or_default().push(line);
                }
            }
            counts[0] += 1;
        }
        if counts[0] > 0 {
            row(&mut text, class.as_str(), counts);
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        }
    }
    row(&mut text, "all", sums);
    let _ = writeln!(
        text,
        "of {} mutants there are; {open} whose tests were not all asked count as not tried",
        all.len()
    );
    for (object, changes) in &survivors {
        let _ = writeln!(text, "\n{object}");
        for change in changes {
            let _ = writeln!(text, "    {change}");
        }
    }
    faults.extend(list.stale(all).into_iter().map(|entry| format!("listed, and no mutant: {entry}")));
    for fault in &faults {
        let _ = writeln!(text, "\nfault: {fault}");
    }
    (text, !faults.is_empty() || !survivors.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(change: &str) -> Mutant {
        Mutant { object: "f()".into(), change: change.into(), class: Class::Condition }
    }

    #[test]
    fn a_listed_mutant_that_is_noticed_and_a_stale_entry_are_faults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.tsv");
        let mut ledger = Ledger::open(&path).unwrap();
        let all = [mutant("a"), mutant("b"), mutant("c")];
        ledger.note(&all[0], Outcome::Noticed("some::test".into())).unwrap();
        ledger.note(&all[1], Outcome::Survived { asked: 3, of: 9 }).unwrap();
        let list = Equivalents::parse("# why\nf()\tb\tthe key says the same\n").unwrap();
        let (text, is_bad) = report(&all, &Ledger::open(&path).unwrap(), &list);
        assert!(!is_bad, "{text}");
        assert!(text.contains("100.0"), "{text}");

        let list =
            Equivalents::parse("f()\ta\tthe key says the same\nf()\tz\tthe key says the same\n").unwrap();
        let (text, is_bad) = report(&all, &ledger, &list);
        assert!(is_bad);
        for expected in [
            "listed, and noticed by some::test: f(): a",
            "no mutant: f(): z",
            "b (3 of 9 tests asked)",
            "1 whose tests were not all asked",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        ledger.note(&all[1], Outcome::Survived { asked: 9, of: 9 }).unwrap();
        assert!(report(&all, &ledger, &Equivalents::default()).0.contains("50.0"));
        ledger.note(&all[2], Outcome::Invalid("syntax".into())).unwrap();
        assert!(report(&all, &ledger, &Equivalents::default()).0.contains("no valid change: f(): c"));
    }

    #[test]
    fn a_list_without_reasons_is_refused() {
        for bad in ["f()\ta", "f()\ta\t", "f()\ta\tthe key says so\nf()\ta\tthe key says so"] {
            assert!(Equivalents::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sample_is_the_same_every_time_and_draws_nothing_twice() {
        let all = |n: u32| {
            let of = |i: u32| Mutant { object: i.to_string(), change: "c".into(), class: Class::Condition };
            (0..n).map(of).collect::<Vec<Mutant>>()
        };
        let draw = |n: u32, seed: u64| -> BTreeSet<String> {
            sample(all(n), seed, 20, |one| one).into_iter().map(|one| one.object).collect()
        };
        assert_eq!(draw(100, 7), draw(100, 7));
        assert_ne!(draw(100, 7), draw(100, 8));
        assert_eq!((draw(100, 7).len(), draw(2, 7).len()), (20, 2));
        assert!(draw(100, 7).difference(&draw(104, 7)).count() <= 4, "few new ones move few");
    }
}
