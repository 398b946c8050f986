//! What a rule is, and what came of judging it, as plain data.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::base::clip::clip;
use crate::machine::run::GateId;

/// The longest text kept of an expected or observed value, in bytes.
pub(crate) const VALUE_MAX_BYTES: usize = 400;

/// One invariant as it was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The invariant's id, say `mark.region_sha_matches`.
    pub invariant: String,
    /// What must be, for people.
    pub expected: String,
    /// What was seen, for people; `absent` if the fact was not there.
    pub observed: String,
    /// Does it hold?
    pub ok: bool,
}

impl Check {
    /// A check whose verdict the caller computed.
    pub fn new(invariant: &str, expected: impl fmt::Display, observed: impl fmt::Display, ok: bool) -> Self {
        Self {
            invariant: invariant.to_owned(),
            expected: clip(&expected.to_string(), VALUE_MAX_BYTES),
            observed: clip(&observed.to_string(), VALUE_MAX_BYTES),
            ok,
        }
    }

    /// Holds if both are equal.
    pub fn equal<T: PartialEq + fmt::Display>(invariant: &str, expected: &T, observed: &T) -> Self {
        Self::new(invariant, expected, observed, expected == observed)
    }

    /// Holds if the fact is there and equal.
    pub fn equal_some<T: PartialEq + fmt::Display>(
        invariant: &str,
        expected: &T,
        observed: Option<&T>,
    ) -> Self {
        match observed {
            Some(observed) => Self::equal(invariant, expected, observed),
            None => Self::new(invariant, expected, ABSENT, false),
        }
    }

    /// Holds if `low <= observed <= high`.
    #[must_use]
    pub fn within(invariant: &str, low: u64, high: u64, observed: u64) -> Self {
        Self::new(invariant, format!("{low} to {high}"), observed, (low..=high).contains(&observed))
    }

    /// Holds if nothing was found. Shows the first of what was.
    pub fn empty<T: fmt::Display>(invariant: &str, found: &[T]) -> Self {
        Self::new(invariant, "none", listed(found), found.is_empty())
    }

    /// Holds if the fact is true.
    #[must_use]
    pub fn truth(invariant: &str, observed: bool) -> Self {
        Self::new(invariant, true, observed, observed)
    }
}

/// What stands for a fact that was not there.
pub const ABSENT: &str = "absent";

/// A gate's verdict: every invariant that was judged, in the gate's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    /// Which gate.
    pub gate: GateId,
    /// All checks.
    pub checks: Vec<Check>,
}

impl GateReport {
    /// Puts checks under a gate's name.
    #[must_use]
    pub const fn new(gate: GateId, checks: Vec<Check>) -> Self {
        Self { gate, checks }
    }

    /// Did everything hold? A report without checks did not: a gate that looked at nothing
    /// has passed nothing.
    #[must_use]
    pub fn ok(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|c| c.ok)
    }

    /// The checks that did not hold, in order.
    #[must_use]
    pub fn failures(&self) -> Vec<&Check> {
        self.checks.iter().filter(|c| !c.ok).collect()
    }

    /// Invariant → held, as the sidecar keeps it. An invariant that was judged twice held
    /// only if it held both times.
    #[must_use]
    pub fn as_map(&self) -> BTreeMap<String, bool> {
        let mut map = BTreeMap::new();
        for check in &self.checks {
            let held = map.entry(check.invariant.clone()).or_insert(true);
            *held = *held && check.ok;
        }
        map
    }

    /// Appends a check, say an embedder's own rule.
    pub fn push(&mut self, check: Check) {
        self.checks.push(check);
    }
}

/// One line for an operator: the gate, and each failed invariant with expected and observed.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, observed {}", self.invariant, self.expected, self.observed)
    }
}

impl fmt::Display for GateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.gate.as_str())?;
        if self.ok() {
            return write!(f, ": passed, {} invariants", self.checks.len());
        }
        write!(f, ": refused")?;
        if self.checks.is_empty() {
            write!(f, "; nothing was checked")?;
        }
        for c in self.checks.iter().filter(|c| !c.ok) {
            write!(f, "; {c}")?;
        }
        Ok(())
    }
}

/// An invariant as data: the same id is sidecar key, row in the report and entry in the docs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invariant {
    /// Stable id, `<gate>.<what>`.
    pub id: &'static str,
    /// The gate that judges it.
    pub gate: GateId,
    /// What must hold, in one sentence.
    pub what: &'static str,
    /// Where the requirement stands.
    pub clause: &'static str,
}

/// The first few of a list with the number of the rest; `none` if it is empty.
pub(crate) fn listed<T: fmt::Display>(found: &[T]) -> String {
    const SHOWN: usize = 5;
    if found.is_empty() {
        return "none".to_owned();
    }
    let mut text = String::new();
    for (i, item) in found.iter().take(SHOWN).enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        text.push_str(&clip(&item.to_string(), VALUE_MAX_BYTES / SHOWN - 4));
    }
    if found.len() > SHOWN {
        text.push_str(&format!(" and {} more", found.len() - SHOWN));
    }
    text
}

pub(crate) const fn invariant(
    id: &'static str,
    gate: GateId,
    what: &'static str,
    clause: &'static str,
) -> Invariant {
    Invariant { id, gate, what, clause }
}
