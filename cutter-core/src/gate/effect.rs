//! What the gates of writing phases share: reading named facts, and drift around a write.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{ABSENT, Check};
use crate::digest::Digest;
use crate::drift::{self, Difference};
use crate::port::database::{EffectFacts, EffectName, Survey};

/// Holds if the named fact is there and is exactly this text.
pub(super) fn text(id: &str, facts: &EffectFacts, name: &str, expected: &str) -> Check {
    let observed = facts.values.get(name).map_or(ABSENT, String::as_str);
    Check::new(id, expected, observed, facts.values.get(name).is_some_and(|v| v == expected))
}

/// Holds if the named fact is there and is exactly this number.
pub(super) fn number(id: &str, facts: &EffectFacts, name: &str, expected: u64) -> Check {
    text(id, facts, name, &format!("{expected}"))
}

/// Holds if the named fact is there and is exactly this digest.
pub(super) fn digest(id: &str, facts: &EffectFacts, name: &str, expected: &Digest) -> Check {
    text(id, facts, name, &expected.to_hex())
}

/// Holds if, after the locks and before the write, everything stands as pinned.
pub(super) fn no_drift_before(id: &str, facts: &EffectFacts, pins: &Survey) -> Check {
    judged(id, &facts.survey_before, drift::compare(pins, &facts.survey_before))
}

/// Holds if, after the write, everything stands as pinned but for the effect's own moves.
pub(super) fn no_drift_after(
    id: &str,
    effect: EffectName,
    units: u64,
    facts: &EffectFacts,
    pins: &Survey,
) -> Check {
    judged(id, &facts.survey_after, drift::unexplained(effect, units, pins, &facts.survey_after))
}

/// A survey that lacks a dimension was not made: that is drift too, even if the pins lack it.
fn judged(id: &str, live: &Survey, differences: Vec<Difference>) -> Check {
    let unseen = drift::DIMENSIONS.iter().filter(|d| !live.0.contains_key(**d));
    let mut found: Vec<String> = unseen.map(|d| format!("{d}: not surveyed")).collect();
    found.extend(differences.iter().map(|d| {
        let side = |v: &Option<String>| super::clip(v.as_deref().unwrap_or(ABSENT), 24);
        format!("{}: {} -> {}", d.dimension, side(&d.expected), side(&d.observed))
    }));
    Check { expected: "as pinned".into(), ..Check::empty(id, &found) }
}

#[cfg(any(test, feature = "memory"))]
pub(crate) mod example {
    //! Clean facts to start from.

    use alloc::borrow::ToOwned;
    use alloc::collections::BTreeMap;
    use alloc::string::String;

    use crate::drift;
    use crate::port::database::{EffectFacts, EffectName, Survey};

    /// Pins of a document without units.
    pub(crate) fn pins(backlog: &str) -> Survey {
        let mut map: BTreeMap<String, String> =
            drift::DIMENSIONS.iter().map(|d| ((*d).to_owned(), "0".to_owned())).collect();
        map.insert(drift::BACKLOG_STATUS.to_owned(), backlog.to_owned());
        map.insert("function.iu_core.fn_iu_create".to_owned(), "a|b|c|d|e".to_owned());
        Survey(map)
    }

    /// Facts of an effect that moved what it may move.
    pub(crate) fn facts(
        effect: EffectName,
        units: u64,
        pins: &Survey,
        principal: &str,
        values: &[(&str, &str)],
    ) -> EffectFacts {
        let mut after = drift::expected_after(effect, units, pins, pins);
        if effect == EffectName::WriteVerify {
            after.0.insert(drift::BACKLOG_STATUS.to_owned(), "verified_complete".to_owned());
        }
        EffectFacts {
            survey_before: pins.clone(),
            survey_after: after,
            principal: principal.to_owned(),
            values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            structural: None,
        }
    }
}
