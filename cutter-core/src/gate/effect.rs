//! What the gates of writing phases share: reading named facts, and drift around a write.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::gate::drift;
use crate::record::check::{ABSENT, Check};
use crate::record::effect::{EffectFacts, EffectName, fact};
use crate::record::observed::Survey;

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

/// The rows that were approved: their digest, and whether the consent named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedRows {
    /// The plan's own digest of its rows.
    pub digest: Digest,
    /// False only in a run whose consent was given before consents named rows.
    pub is_named: bool,
}

/// Holds if the rows as they are stored have the digest that was approved. Where the
/// consent named none, an effect that was committed before rows were digested holds, too.
pub(super) fn rows(id: &str, facts: &EffectFacts, approved: &ApprovedRows) -> Check {
    let check = digest(id, facts, fact::ROWS_DIGEST, &approved.digest);
    let before = !approved.is_named && !facts.values.contains_key(fact::ROWS_DIGEST);
    Check { ok: check.ok || before, ..check }
}

/// Holds if every dimension was looked at after the locks and before the write. That the values
/// are the pinned ones is judged by the driver before this gate, because drift is a stop that can
/// be acknowledged and a failed gate is final; and because an adopted effect is judged again when
/// the pins have moved on.
pub(super) fn surveyed(id: &str, facts: &EffectFacts) -> Check {
    Check { expected: "every dimension".into(), ..Check::empty(id, &unseen(&facts.survey_before)) }
}

/// Holds if the write moved only what the effect explains, functions and triggers included. A
/// dimension that one survey lacks has moved; one that both lack fails [`surveyed`].
pub(super) fn no_drift_after(id: &str, effect: EffectName, units: u64, facts: &EffectFacts) -> Check {
    let differences = drift::unexplained(effect, units, &facts.survey_before, &facts.survey_after);
    let found: Vec<String> = differences
        .iter()
        .map(|d| {
            let side = |v: &Option<String>| super::clip(v.as_deref().unwrap_or(ABSENT), 24);
            format!("{}: {} -> {}", d.dimension, side(&d.expected), side(&d.observed))
        })
        .collect();
    Check { expected: "nothing but the effect's own rows".into(), ..Check::empty(id, &found) }
}

/// Dimensions that a survey lacks: what was not looked at is not known to be as before.
fn unseen(live: &Survey) -> Vec<String> {
    let missing = drift::DIMENSIONS.iter().filter(|d| !live.0.contains_key(**d));
    missing.map(|d| format!("{d}: not surveyed")).collect()
}

#[cfg(any(test, feature = "memory"))]
pub(crate) mod example {
    //! Clean facts to start from.

    use alloc::borrow::ToOwned;
    use alloc::collections::BTreeMap;
    use alloc::string::String;

    use crate::gate::drift;
    use crate::record::effect::{EffectFacts, EffectName};
    use crate::record::observed::Survey;

    /// A survey of a document without units.
    pub(crate) fn survey(backlog: &str) -> Survey {
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
        before: &Survey,
        principal: &str,
        values: &[(&str, &str)],
    ) -> EffectFacts {
        let mut after = drift::expected_after(effect, units, before, before);
        if effect == EffectName::WriteVerify {
            after.0.insert(drift::BACKLOG_STATUS.to_owned(), "verified_complete".to_owned());
        }
        EffectFacts {
            survey_before: before.clone(),
            survey_after: after,
            principal: principal.to_owned(),
            values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            structural: None,
        }
    }
}
