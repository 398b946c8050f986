//! What is kept of a detection: how sure it was, on what evidence, and what the cut costs beside
//! the likeliest other profile. A run carries it, and the approver reads it at SG1.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::{Confidence, Detected};
use crate::base::clip::clip;
use crate::text::mark::{MarkContext, MarkError, MarkLimits, Marked, Stop, body_region, marker_for};
use crate::text::profile::Profile;

/// So many sentences of evidence are kept, each so long.
const MAX_EVIDENCE: usize = 6;
const MAX_EVIDENCE_BYTES: usize = 300;

/// What a cut with a profile would cost: the numbers to compare two profiles by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Units.
    pub units: usize,
    /// Addresses that got `~n`.
    pub duplicates: usize,
    /// Units with nothing after their designator or heading.
    pub empty: usize,
    /// The bytes of the largest unit.
    pub largest: usize,
    /// Numbers that are missing where they were due.
    pub gaps: u32,
}

impl Cost {
    /// Of what a marker found in `source`.
    #[must_use]
    pub fn of(marked: &Marked, source: &[u8]) -> Self {
        let is_empty =
            |start: usize, end: usize| source.get(start..end).is_none_or(|body| body.trim_ascii().is_empty());
        Self {
            units: marked.candidates.len(),
            duplicates: marked.duplicates.len(),
            empty: marked.candidates.iter().filter(|c| is_empty(c.body_start, c.end)).count(),
            largest: marked.candidates.iter().map(|c| c.end - c.start).max().unwrap_or(0),
            gaps: marked.gaps,
        }
    }

    /// Of a cut of `source` with `profile`, which is made for that and thrown away. Costs do not
    /// depend on the document's id.
    ///
    /// # Errors
    /// [`MarkError`] where the text cannot be marked with it.
    pub fn with(profile: &Profile, source: &[u8], limits: &MarkLimits) -> Result<Self, MarkError> {
        let address = |source| MarkError::Address { line: 1, source };
        let document_id = crate::text::address::DocumentId::parse("X").map_err(address)?;
        let limits = MarkLimits { stop: Stop::AtDensity, forbidden_prefixes: Vec::new(), ..*limits };
        let region = body_region(source, profile)?;
        let context = MarkContext { document_id: &document_id, profile, limits: &limits };
        let marked = marker_for(profile).mark(source, region, &context)?;
        Ok(Self::of(&marked, source))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { units, duplicates, empty, largest, gaps } = self;
        write!(
            f,
            "units {units}, duplicates {duplicates}, empty {empty}, number gaps {gaps}, largest {largest} bytes"
        )
    }
}

/// The likeliest profile that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerUp {
    /// Its name.
    pub name: String,
    /// What a cut with it would cost; nothing where it cannot cut the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// How a profile was detected. Holds names and counts, never words of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detection {
    /// How sure.
    pub confidence: Confidence,
    /// In short sentences, for people; bounded.
    pub evidence: Vec<String>,
    /// What the cut with the detected profile costs; nothing where it cannot cut the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The likeliest other profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<RunnerUp>,
}

impl Detection {
    /// Weighs a detected profile against the runner-up. Both are given as they would cut, depth
    /// and all. Linear: the text is marked once with each, and not at all where it is too dense for the
    /// limits; more candidates than allowed are counted like others.
    #[must_use]
    pub fn weigh(
        detected: &Detected,
        chosen: &Profile,
        runner_up: Option<&Profile>,
        source: &[u8],
        limits: &MarkLimits,
    ) -> Self {
        let cost = |profile: &Profile| Cost::with(profile, source, limits).ok();
        let evidence = detected.evidence.iter().take(MAX_EVIDENCE);
        Self {
            confidence: detected.confidence,
            evidence: evidence.map(|line| clip(line, MAX_EVIDENCE_BYTES)).collect(),
            cost: cost(chosen),
            runner_up: runner_up.map(|other| RunnerUp { name: other.name.clone(), cost: cost(other) }),
        }
    }

    /// The warning that low confidence is; `None` where it is high.
    #[must_use]
    pub fn warning(&self, profile: &str) -> Option<String> {
        let why = self.evidence.last().map_or("", String::as_str);
        (self.confidence == Confidence::Low)
            .then(|| format!("profile {profile} was detected with low confidence: {why}"))
    }

    /// Name and value of each line that an approver reads.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String)> {
        let cost = |cost: &Option<Cost>| cost.map_or("cannot cut this text".to_string(), |c| c.to_string());
        let line = |name: &str, value: String| (name.to_string(), value);
        let mut lines =
            alloc::vec![line("profile_chosen", format!("detected, confidence {}", self.confidence.as_str()))];
        for (i, text) in self.evidence.iter().enumerate() {
            lines.push(line(&format!("profile_evidence_{}", i + 1), text.clone()));
        }
        lines.push(line("profile_cost", cost(&self.cost)));
        lines.push(match &self.runner_up {
            Some(other) => line("profile_runner_up", format!("{}: {}", other.name, cost(&other.cost))),
            None => line("profile_runner_up", "none".to_string()),
        });
        lines
    }
}
