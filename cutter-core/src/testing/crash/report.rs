//! What crash tests found.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::life::Call;

/// Findings that are kept; more are counted only.
const FINDINGS_MAX: usize = 8;
/// Characters of a differing line that are shown, from shortly before the difference.
const SHOWN: usize = 200;

/// The undisturbed story: what all others must be equal to.
#[derive(Debug, Clone)]
pub struct Reference {
    /// What was left behind.
    pub snapshot: String,
    /// Every port call, in order.
    pub trace: Vec<Call>,
}

impl Reference {
    /// How many calls ended a transaction.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.trace.iter().filter(|c| c.is_commit()).count() as u64
    }
}

/// A story that ended differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What struck it, life by life; enough to play it again.
    pub schedule: String,
    /// What differed, and where.
    pub difference: String,
}

/// What a series of stories gave.
#[derive(Debug, Clone, Default)]
pub struct CrashReport {
    /// Port calls of the undisturbed story.
    pub calls: u64,
    /// Stories that were played.
    pub schedules: u64,
    /// Strikes that happened in them.
    pub strikes: u64,
    /// Distinct calls that were struck, by kind of strike.
    pub struck: BTreeMap<String, u64>,
    /// How the commands of thawed drivers ended, by kind ([`super::freeze_everywhere`]).
    pub thawed: BTreeMap<String, u64>,
    /// Stories that ended differently.
    pub different: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

impl CrashReport {
    /// Whether every story ended as the undisturbed one.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.different == 0
    }

    /// Adds what another series gave.
    pub fn merge(&mut self, other: Self) {
        self.calls = self.calls.max(other.calls);
        self.schedules += other.schedules;
        self.strikes += other.strikes;
        self.different += other.different;
        for (kind, n) in other.struck {
            *self.struck.entry(kind).or_default() += n;
        }
        for (kind, n) in other.thawed {
            *self.thawed.entry(kind).or_default() += n;
        }
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings.extend(other.findings.into_iter().take(room));
    }

    pub(super) fn find(&mut self, schedule: String, difference: String) {
        self.different += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { schedule, difference });
        }
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} schedules over {} port calls, {} strikes: {} ended differently",
            self.schedules, self.calls, self.strikes, self.different
        )?;
        for (kind, n) in &self.thawed {
            writeln!(f, "  thawed: {n} × {kind}")?;
        }
        for finding in &self.findings {
            writeln!(f, "- {}\n  {}", finding.schedule, finding.difference)?;
        }
        Ok(())
    }
}

/// The first line in which two snapshots differ; `None` if they are equal.
pub(super) fn difference(expected: &str, observed: &str) -> Option<String> {
    if expected == observed {
        return None;
    }
    let (mut left, mut right) = (expected.lines(), observed.lines());
    let mut number = 0u64;
    loop {
        number += 1;
        match (left.next(), right.next()) {
            (Some(l), Some(r)) if l == r => {}
            (None, None) => return Some("the snapshots differ in their line ends".to_string()),
            (l, r) => {
                let (l, r) = (l.unwrap_or("(nothing)"), r.unwrap_or("(nothing)"));
                let common = l.chars().zip(r.chars()).take_while(|(a, b)| a == b).count();
                let shown = |line: &str| {
                    let head: String = line.chars().take(60).collect();
                    let from = common.saturating_sub(40);
                    format!("{head} … {}", line.chars().skip(from).take(SHOWN).collect::<String>())
                };
                return Some(format!("line {number}: expected {}\n  observed {}", shown(l), shown(r)));
            }
        }
    }
}
