//! Shared parts of the benchmarks: reading the corpus, and timing in alternating pairs.
//!
//! A shared machine is never quiet, so no number here stands alone: two sides run in turns
//! in one process ([`paired`]) and what is judged is the ratio within each pair.

pub mod hostile;
pub mod measured;
pub mod pg;

use std::fmt;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cutter_core::base::vocabulary::Vocabulary;
use cutter_core::text::address::DocumentId;
use cutter_core::text::detect::Profiles;
use cutter_core::text::mark::{MarkError, MarkLimits, Stop};
use cutter_core::text::plan::{CutPlan, PlanError, PlanInput};
use cutter_core::text::profile::Profile;

/// The environment variable that names the folder of documents.
pub const CORPUS_VARIABLE: &str = "CUTTER_CORPUS";

/// Why a benchmark cannot run: what, where and what to do. `main` returns it.
pub struct Failure(pub String);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// One document of the corpus.
pub struct Document {
    /// Where it lies.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The corpus, in the order of the paths.
pub struct Corpus {
    /// Every file that is UTF-8.
    pub documents: Vec<Document>,
    /// Files that are not: `cutter` refuses them.
    pub refused: Vec<PathBuf>,
}

impl Corpus {
    /// Reads every file below the folder that [`CORPUS_VARIABLE`] names.
    ///
    /// # Errors
    /// [`Failure`] where the variable is not set, or the folder cannot be read or is empty.
    pub fn read() -> Result<Self, Failure> {
        let folder = std::env::var_os(CORPUS_VARIABLE).ok_or_else(|| {
            Failure(format!(
                "{CORPUS_VARIABLE} is not set: expected a folder of documents, observed nothing; \
                 set it and run this benchmark again"
            ))
        })?;
        let mut paths = Vec::new();
        list(Path::new(&folder), &mut paths)?;
        paths.sort();
        let mut corpus = Self { documents: Vec::new(), refused: Vec::new() };
        for path in paths {
            let bytes = std::fs::read(&path).map_err(|error| at(&path, &error))?;
            match String::from_utf8(bytes) {
                Ok(text) => corpus.documents.push(Document { path, text }),
                Err(_) => corpus.refused.push(path),
            }
        }
        if corpus.documents.is_empty() {
            let folder = Path::new(&folder).display();
            return Err(Failure(format!("{folder}: expected UTF-8 documents, observed none")));
        }
        Ok(corpus)
    }

    /// How many bytes the documents hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.documents.iter().map(|document| document.text.len()).sum()
    }
}

fn at(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

fn list(folder: &Path, out: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder).map_err(|error| at(folder, &error))? {
        let path = entry.map_err(|error| at(folder, &error))?.path();
        if path.is_dir() {
            list(&path, out)?;
        } else {
            out.push(path);
        }
    }
    Ok(())
}

/// What every plan of a benchmark is made with.
pub struct Planner {
    document_id: DocumentId,
    /// What each text is held against.
    pub profiles: Profiles,
    vocabulary: Vocabulary,
    limits: MarkLimits,
}

impl Planner {
    /// The built-in profiles and the vocabularies that ship.
    ///
    /// # Errors
    /// [`Failure`] where a built-in profile is broken.
    pub fn new() -> Result<Self, Failure> {
        Self::with(Profiles::built_in()?)
    }

    /// Some profiles and the vocabularies that ship.
    ///
    /// # Errors
    /// Never: the document's name is one.
    pub fn with(profiles: Profiles) -> Result<Self, Failure> {
        Ok(Self {
            document_id: DocumentId::parse("BENCH-1")?,
            profiles,
            vocabulary: Vocabulary::default(),
            limits: MarkLimits { stop: Stop::AtDensity, ..MarkLimits::default() },
        })
    }

    /// Detects the profile of one text, marks and plans it.
    ///
    /// # Errors
    /// [`PlanError`] where the text has no plan.
    pub fn plan(&self, text: &[u8]) -> Result<CutPlan, PlanError> {
        let found = self.profiles.detect(text).profile;
        let fallback = self.profiles.all().first();
        // The detected profile is one of them.
        let Some(profile) = self.profiles.get(&found).or(fallback) else {
            return Err(MarkError::Manifest {
                place: "profiles".into(),
                expected: "at least one".into(),
                observed: "none".into(),
            }
            .into());
        };
        self.plan_with(profile, text)
    }

    /// Marks and plans one text with a profile.
    ///
    /// # Errors
    /// [`PlanError`] where the text has no plan.
    pub fn plan_with(&self, profile: &Profile, text: &[u8]) -> Result<CutPlan, PlanError> {
        CutPlan::build(&PlanInput {
            document_id: &self.document_id,
            text,
            profile,
            vocabulary: &self.vocabulary,
            publication_type: None,
            depends_on: &[],
            limits: &self.limits,
            marker: None,
        })
    }
}

/// The times of two sides that ran in turns: the same index is one pair.
pub struct Pairs {
    /// The first side.
    pub first: Vec<Duration>,
    /// The second side.
    pub second: Vec<Duration>,
}

/// Median, least and greatest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; the mean of the two middle ones where their number is even.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.min, self.max)
    }
}

/// Runs two sides in turns, `rounds` pairs after one pair that is not counted. Which side
/// goes first alternates, so that neither always finds the cache warm.
pub fn paired<A, B>(rounds: usize, mut first: impl FnMut() -> A, mut second: impl FnMut() -> B) -> Pairs {
    black_box(first());
    black_box(second());
    let mut pairs = Pairs { first: Vec::with_capacity(rounds), second: Vec::with_capacity(rounds) };
    for round in 0..rounds {
        if round % 2 == 0 {
            pairs.first.push(timed(&mut first));
            pairs.second.push(timed(&mut second));
        } else {
            pairs.second.push(timed(&mut second));
            pairs.first.push(timed(&mut first));
        }
    }
    pairs
}

/// How long one call takes.
pub fn timed<T>(work: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

impl Pairs {
    /// The time of the first side over that of the second, pair by pair.
    #[must_use]
    pub fn ratio(&self) -> Spread {
        spread(self.first.iter().zip(&self.second).map(|(a, b)| a.as_secs_f64() / b.as_secs_f64()))
    }
}

/// The speed in MB/s (10^6) at which `bytes` were worked through.
#[must_use]
pub fn speed(bytes: usize, times: &[Duration]) -> Spread {
    #[allow(clippy::cast_precision_loss)]
    let megabytes = bytes as f64 / 1e6;
    spread(times.iter().map(|time| megabytes / time.as_secs_f64()))
}

/// Median, least and greatest; all zero where there are no numbers.
pub fn spread(numbers: impl IntoIterator<Item = f64>) -> Spread {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
        return Spread { median: 0.0, min: 0.0, max: 0.0 };
    };
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    Spread { median: f64::midpoint(low, high), min, max }
}

/// The last lines of a benchmark: every target with its verdict. With `--check` among the
/// arguments a missed target is an error.
///
/// # Errors
/// [`Failure`] naming the missed targets, only with `--check`.
pub fn judge(targets: &[(&str, bool)]) -> Result<(), Failure> {
    for (target, met) in targets {
        println!("{}: {target}", if *met { "met" } else { "MISSED" });
    }
    let missed: Vec<&str> = targets.iter().filter(|(_, met)| !met).map(|(target, _)| *target).collect();
    if missed.is_empty() || !std::env::args().any(|argument| argument == "--check") {
        Ok(())
    } else {
        Err(Failure(format!("targets missed: {}", missed.join("; "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_not_the_mean() {
        let odd = spread([9.0, 1.0, 2.0]);
        assert_eq!(odd, Spread { median: 2.0, min: 1.0, max: 9.0 });
        assert_eq!(spread([4.0, 1.0, 2.0, 9.0]).median, 3.0);
        assert_eq!(spread([]).median, 0.0);
    }

    #[test]
    fn sides_alternate_and_the_first_pair_is_not_counted() {
        let order = std::cell::RefCell::new(String::new());
        let pairs = paired(3, || order.borrow_mut().push('a'), || order.borrow_mut().push('b'));
        assert_eq!(order.into_inner(), "ababbaab");
        assert_eq!((pairs.first.len(), pairs.second.len()), (3, 3));
    }

    #[test]
    fn ratios_are_taken_within_pairs() {
        let times = |list: &[u64]| list.iter().map(|&ms| Duration::from_millis(ms)).collect::<Vec<_>>();
        let pairs = Pairs { first: times(&[10, 200, 30]), second: times(&[5, 100, 10]) };
        assert_eq!(pairs.ratio(), Spread { median: 2.0, min: 2.0, max: 3.0 });
        assert_eq!(speed(10_000_000, &times(&[100])).median, 100.0);
    }
}
