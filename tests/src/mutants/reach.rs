//! Which tests reach what, and how long each takes: one pass over all tests on the schema as it is,
//! kept in a file so that only new tests are run the next time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::suite::Test;

/// What is known of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// How long it takes.
    pub took: Duration,
    /// Why it is never asked, if it is not.
    pub left_out: Option<String>,
    /// What it touched: `function …`, `table …`, `written …`.
    pub touched: BTreeSet<String>,
}

/// What is known of all tests.
#[derive(Debug, Default)]
pub struct Reach {
    path: PathBuf,
    /// By the test's name in full.
    pub tests: BTreeMap<String, Known>,
}

impl Reach {
    /// Reads the file; without one nothing is known.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut tests = BTreeMap::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [name, took, left_out, touched] = fields[..] else { continue };
            let known = Known {
                took: Duration::from_millis(took.parse().unwrap_or_default()),
                left_out: (!left_out.is_empty()).then(|| left_out.to_owned()),
                touched: touched.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect(),
            };
            tests.insert(name.to_owned(), known);
        }
        Self { path: path.to_owned(), tests }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self) -> std::io::Result<()> {
        let mut text = String::new();
        for (name, known) in &self.tests {
            let touched: Vec<&str> = known.touched.iter().map(String::as_str).collect();
            let left_out = known.left_out.as_deref().unwrap_or_default();
            let _ = writeln!(text, "{name}\t{}\t{left_out}\t{}", known.took.as_millis(), touched.join(","));
        }
        std::fs::write(&self.path, text)
    }

    /// Those of these tests that touch one of the names, the quickest first.
    #[must_use]
    pub fn touching<'t>(&self, tests: &'t [Test], names: &[String]) -> Vec<&'t Test> {
        let mut found: Vec<(&Test, Duration)> = tests
            .iter()
            .filter_map(|test| {
                let known = self.tests.get(&test.to_string())?;
                let reaches =
                    known.left_out.is_none() && names.iter().any(|name| known.touched.contains(name));
                reaches.then_some((test, known.took))
            })
            .collect();
        found.sort_by_key(|(_, took)| *took);
        found.into_iter().map(|(test, _)| test).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_kept_and_the_quickest_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reach.tsv");
        let mut reach = Reach::open(&path);
        let test = |name: &str| Test { target: "cutter-pg/schema".into(), name: name.into() };
        let all = [test("slow"), test("quick"), test("elsewhere"), test("left_out"), test("new")];
        for (test, took, name, left_out) in [
            (&all[0], 900, "function s.f", None),
            (&all[1], 30, "function s.f", None),
            (&all[2], 10, "function s.g", None),
            (&all[3], 10, "function s.f", Some("fails as it is".to_owned())),
        ] {
            let touched = [name.to_owned()].into();
            let known = Known { took: Duration::from_millis(took), left_out, touched };
            reach.tests.insert(test.to_string(), known);
        }
        reach.save().unwrap();
        let again = Reach::open(&path);
        assert_eq!(again.tests, reach.tests);
        let names: Vec<&str> =
            again.touching(&all, &["function s.f".to_owned()]).iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["quick", "slow"]);
    }
}
