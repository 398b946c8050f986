//! Alternating pairs of things that time themselves, for only a part of what they do counts.
#![allow(clippy::unwrap_used, reason = "for benchmarks only")]

use std::time::{Duration, Instant};

/// How many pairs are measured.
pub const ROUNDS: usize = 11;

/// Times of one thing and of what it is compared with, pair by pair.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    /// (ours, theirs)
    pub pairs: Vec<(Duration, Duration)>,
}

impl Pairs {
    /// Measures `rounds` pairs after one that does not count; who goes first alternates.
    pub fn measure(
        rounds: usize,
        mut ours: impl FnMut() -> Duration,
        mut theirs: impl FnMut() -> Duration,
    ) -> Self {
        let mut pairs = Vec::new();
        for round in 0..=rounds {
            let (a, b) = if round % 2 == 0 {
                let a = ours();
                (a, theirs())
            } else {
                let b = theirs();
                (ours(), b)
            };
            if round > 0 {
                pairs.push((a, b));
            }
        }
        Self { pairs }
    }

    /// Median of the ratios ours / theirs.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        median(self.pairs.iter().map(|(a, b)| a.as_secs_f64() / b.as_secs_f64()).collect())
    }

    /// Median of our times.
    #[must_use]
    pub fn ours(&self) -> Duration {
        Duration::from_secs_f64(median(self.pairs.iter().map(|p| p.0.as_secs_f64()).collect()))
    }

    /// Median of their times.
    #[must_use]
    pub fn theirs(&self) -> Duration {
        Duration::from_secs_f64(median(self.pairs.iter().map(|p| p.1.as_secs_f64()).collect()))
    }

    /// One line: names, medians, the ratio's median and range, and the bound.
    #[must_use]
    pub fn line(&self, ours: &str, theirs: &str, bound: f64) -> String {
        let ratios: Vec<f64> = self.pairs.iter().map(|(a, b)| a.as_secs_f64() / b.as_secs_f64()).collect();
        let (low, high) = ratios.iter().fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
        let verdict = if self.ratio() <= bound { "holds" } else { "MISSED" };
        format!(
            "{ours} {:.1} ms, {theirs} {:.1} ms: ratio {:.2} ({low:.2} to {high:.2}, {} pairs), bound {bound}: {verdict}",
            milliseconds(self.ours()),
            milliseconds(self.theirs()),
            self.ratio(),
            self.pairs.len(),
        )
    }
}

/// The middle value; of an even number the upper one.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// For people.
#[must_use]
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// How long a piece of work takes.
pub fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let started = Instant::now();
    let result = work();
    (started.elapsed(), result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_the_first_pair_does_not_count() {
        let mut ours = [900, 3, 30, 2].into_iter().map(Duration::from_millis);
        let mut theirs = [1, 1, 10, 1].into_iter().map(Duration::from_millis);
        let pairs = Pairs::measure(3, || ours.next().unwrap(), || theirs.next().unwrap());
        assert_eq!(pairs.pairs.len(), 3);
        assert!((pairs.ratio() - 3.0).abs() < 1e-9, "{pairs:?}");
        assert_eq!((pairs.ours(), pairs.theirs()), (Duration::from_millis(3), Duration::from_millis(1)));
        assert!(
            pairs.line("a", "b", 2.9).ends_with("MISSED") && pairs.line("a", "b", 3.0).ends_with("holds")
        );
    }
}
