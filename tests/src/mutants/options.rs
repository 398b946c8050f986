//! What both programs are told on their command lines, and what follows from it: which mutants are
//! chosen, and which of those are tried.

use std::process::ExitCode;

use super::conditions::Class;
use super::ledger::{Ledger, Mutant, Outcome, sample};

/// What a program is told.
#[derive(Debug)]
pub struct Options {
    /// `run`, `list` or `report`.
    pub command: String,
    /// What draws.
    pub seed: u64,
    /// How many are drawn; all, if nobody says.
    pub sample: Option<usize>,
    /// How many at once.
    pub jobs: usize,
    /// How many tests are asked about one mutant at most.
    pub most: usize,
    only: Vec<String>,
    classes: Vec<Class>,
    /// Those of the program's own words that were said.
    said: Vec<String>,
}

impl Options {
    /// Reads the command line of a program that knows these words besides what both know.
    ///
    /// # Errors
    /// What stands there and means nothing.
    pub fn read(
        arguments: impl IntoIterator<Item = String>,
        program: &str,
        words: &[&str],
    ) -> Result<Self, String> {
        let mut found = Self {
            command: "run".to_owned(),
            seed: 1,
            sample: None,
            jobs: 2,
            most: usize::MAX,
            only: Vec::new(),
            classes: Vec::new(),
            said: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
            let number =
                |text: String| text.parse().map_err(|_| format!("expected a number, observed {text}"));
            let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            match argument.as_str() {
                "run" | "list" | "report" => found.command = argument,
                "--seed" => found.seed = number(value()?)?,
                "--sample" => found.sample = Some(size(number(value()?)?)),
                "--jobs" => found.jobs = size(number(value()?)?).max(1),
                "--most" => found.most = size(number(value()?)?),
                "--only" => found.only.push(value()?),
                "--class" => {
                    let name = value()?;
                    found.classes.push(Class::of(&name).ok_or_else(|| format!("no class {name}"))?);
                }
                word if words.contains(&word) || ["--again", "--survivors"].contains(&word) => {
                    found.said.push(argument);
                }
                other => {
                    return Err(format!(
                        "{other}: the head of tests/src/bin/{program}.rs says what there is"
                    ));
                }
            }
        }
        Ok(found)
    }

    /// Runs a program: what it is told, its work, and its exit code.
    #[must_use]
    pub fn main(program: &str, words: &[&str], work: impl FnOnce(&Self) -> Result<bool, String>) -> ExitCode {
        match Self::read(std::env::args().skip(1), program, words).and_then(|options| work(&options)) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(error) => {
                eprintln!("{program}: {error}");
                ExitCode::from(2)
            }
        }
    }

    /// Whether this word was said.
    #[must_use]
    pub fn says(&self, word: &str) -> bool {
        self.said.iter().any(|said| said == word)
    }

    /// Those that are meant, drawn by the seed.
    #[must_use]
    pub fn chosen<T>(&self, all: Vec<T>, of: impl Fn(&T) -> &Mutant) -> Vec<T> {
        let rights = [Class::Grant, Class::Definer];
        let is_meant = |mutant: &Mutant| {
            let is_named = |part: &String| mutant.object.contains(part) || mutant.change.contains(part);
            (self.only.is_empty() || self.only.iter().any(is_named))
                && (self.classes.is_empty() || self.classes.contains(&mutant.class))
                && !(self.says("--no-grants") && rights.contains(&mutant.class))
        };
        let meant: Vec<T> = all.into_iter().filter(|one| is_meant(of(one))).collect();
        let count = self.sample.unwrap_or(meant.len());
        sample(meant, self.seed, count, of)
    }

    /// Whether a mutant is tried: one that nothing is known of, and one whose tests were not all asked.
    #[must_use]
    pub fn is_due(&self, mutant: &Mutant, ledger: &Ledger) -> bool {
        match ledger.of(mutant) {
            None => true,
            Some(_) if self.says("--again") => true,
            Some(Outcome::Survived { asked, of }) if *asked < self.most.min(*of) => true,
            Some(outcome) => self.says("--survivors") && outcome.is_unheld(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(line.split_whitespace().map(str::to_owned), "sql_mutants", &["--no-grants"])
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for bad in ["--what", "--seed", "--seed x", "--class none", "--core-alone"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_whose_tests_were_not_all_asked_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("results.tsv")).unwrap();
        let mutant = |change: &str, class| Mutant { object: "f()".into(), change: change.into(), class };
        let all = [mutant("new", Class::Grant), mutant("some", Class::Key), mutant("all", Class::Key)];
        ledger.note(&all[1], Outcome::Survived { asked: 3, of: 9 }).unwrap();
        ledger.note(&all[2], Outcome::Survived { asked: 9, of: 9 }).unwrap();
        for (line, due) in [
            ("", vec!["new", "some"]),
            ("--most 3", vec!["new"]),
            ("--survivors --no-grants", vec!["some", "all"]),
            ("--again --only all", vec!["all"]),
            ("--class key", vec!["some"]),
        ] {
            let options = read(line).unwrap();
            let chosen = options.chosen(all.iter().collect(), |mutant| mutant);
            let mut tried: Vec<&str> =
                chosen.iter().filter(|m| options.is_due(m, &ledger)).map(|m| m.change.as_str()).collect();
            tried.sort_by_key(|change| all.iter().position(|m| m.change == *change));
            assert_eq!(tried, due, "{line}");
        }
    }
}
