//! Drift: live values against the pins, before every gate and inside every writing
//! transaction (spec 1 §8, PROTOCOL §4).
//!
//! A survey is a map from dimension to canonical text; a pin is the same text, kept in
//! the sidecar. Any difference is `STOP_DRIFT_<dim>`. A run's own effects move pins in a
//! way that is known beforehand ([`expected_after`]), so a run never stops on its own rows,
//! and anything else that moved in the same transaction is still found.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::record::effect::EffectName;
use crate::record::observed::{PinMove, Survey};

/// `<system_identifier>/<database oid>`.
pub const DATABASE_IDENTITY: &str = "database_identity";
/// Digest of the applied migrations' checksums.
pub const MIGRATIONS: &str = "migrations";
/// Prefix of one dimension per pinned function: `function.<schema>.<name>`; the value is
/// `md5(prosrc)`, sha256 of `pg_get_functiondef`, owner, settings and ACL, joined by `|`.
pub const FUNCTION_PREFIX: &str = "function.";
/// Digest of the triggers of our tables with `tgenabled`.
pub const TRIGGERS: &str = "triggers";
/// Rows in information_unit of the document, voided ones included.
pub const UNIT_ROWS: &str = "unit_rows";
/// Digest of (address, content_hash, lifecycle_status) over these rows, ordered by
/// address, then unit id.
pub const UNIT_DIGEST: &str = "unit_digest";
/// `<source_version_id>/<sha256>` of the newest version.
pub const LATEST_VERSION: &str = "latest_version";
/// Status of the run's backlog entry; empty before MARK.
pub const BACKLOG_STATUS: &str = "backlog_status";
/// Rows of review_decision with the run's lifecycle review_decision_id (0 before SG_2).
pub const REVIEW_DECISIONS: &str = "review_decisions";
/// Approvals stored for the run.
pub const APPROVALS: &str = "approvals";
/// Digest of the vocabularies.
pub const VOCABULARY: &str = "vocabulary";
/// Digest of the grant probe.
pub const GRANTS: &str = "grants";

/// The head of the policy's chain that the run pinned. No survey holds it: it moves only where the
/// policy moved in a way that a run must not pass over.
pub const POLICY: &str = "policy";
/// Content rows before the cut: looked at by leg A alone, and never a pin of the survey.
pub const BASE_STATE: &str = "base_state";
/// An effect of the run that is gone.
pub const EFFECT: &str = "effect";
/// A backup that is not the recorded one.
pub const BACKUP: &str = "backup";
/// A plan that comes out otherwise.
pub const WRITER_DIGEST: &str = "writer_digest";
/// Rows that are not the approved ones.
pub const ROWS_DIGEST: &str = "rows_digest";

/// Dimensions that every survey holds, besides one per pinned function.
pub const DIMENSIONS: [&str; 11] = [
    DATABASE_IDENTITY,
    MIGRATIONS,
    TRIGGERS,
    UNIT_ROWS,
    UNIT_DIGEST,
    LATEST_VERSION,
    BACKLOG_STATUS,
    REVIEW_DECISIONS,
    APPROVALS,
    VOCABULARY,
    GRANTS,
];

/// One dimension that moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The dimension.
    pub dimension: String,
    /// The pin; `None` if there was none.
    pub expected: Option<String>,
    /// The live value; `None` if it is gone.
    pub observed: Option<String>,
}

/// Everything that differs between pins and live values, ordered by dimension.
#[must_use]
pub fn compare(pins: &Survey, live: &Survey) -> Vec<Difference> {
    let mut names: Vec<&String> = pins.0.keys().chain(live.0.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| {
            let (expected, observed) = (pins.0.get(name), live.0.get(name));
            (expected != observed).then(|| Difference {
                dimension: name.clone(),
                expected: expected.cloned(),
                observed: observed.cloned(),
            })
        })
        .collect()
}

/// Moves pins along with the migrations that a database recorded, oldest first: a pin that is what
/// a migration found becomes what it left.
pub fn follow_migrations(pins: &mut Survey, moves: &[PinMove]) {
    for PinMove { dimension, before, after } in moves {
        if pins.0.get(dimension) != before.as_ref() {
            continue;
        }
        match after {
            Some(after) => pins.0.insert(dimension.clone(), after.clone()),
            None => pins.0.remove(dimension),
        };
    }
}

/// A stop keeps what it observed as it stands up to so many bytes, beyond that in short: a record holds
/// several stops beside the pins.
pub const SHOWN_MAX_BYTES: usize = 6 * 1024;

/// A long value by its digest.
#[must_use]
pub fn in_short(value: &str) -> String {
    const LONG: usize = 72;
    if value.len() <= LONG { value.to_owned() } else { format!("sha256:{}", Digest::of(value.as_bytes())) }
}

/// Whether a sovereign's word can make the observed value the new pin. Rows of this run that
/// are gone, a backup that is not the recorded one and a plan that comes out otherwise cannot
/// be accepted: they are mended, or the run is voided.
#[must_use]
pub fn may_be_acknowledged(dimension: &str) -> bool {
    ![EFFECT, BACKUP, WRITER_DIGEST, ROWS_DIGEST].contains(&dimension)
}

/// The slug of a dimension in `stopped_drift_<dim>` and `STOP_DRIFT_<dim>`.
#[must_use]
pub fn slug(dimension: &str) -> String {
    dimension
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' })
        .collect()
}

/// What an effect may move, judged against what it moved: the differences between `after`
/// and the pins that the effect does not explain. `units` is the number of units of the
/// change set (leg A adds so many rows).
#[must_use]
pub fn unexplained(effect: EffectName, units: u64, before: &Survey, after: &Survey) -> Vec<Difference> {
    let expected = expected_after(effect, units, before, after);
    compare(&expected, after)
}

/// The survey that must stand after an effect: the one before, with the effect's own moves.
/// `unit_digest` follows the rows that the effect wrote and is taken from `after` where
/// the effect writes units; the gate checks those rows on their own.
#[must_use]
pub fn expected_after(effect: EffectName, units: u64, before: &Survey, after: &Survey) -> Survey {
    let mut expected = before.clone();
    let map = &mut expected.0;
    match effect {
        EffectName::Mark => set(map, BACKLOG_STATUS, "marked"),
        EffectName::Sweep => set(map, BACKLOG_STATUS, "review_pending"),
        EffectName::Sg1Review => {
            add(map, APPROVALS, 1);
            follow(
                map,
                BACKLOG_STATUS,
                after,
                &["reviewed_approved", "reviewed_deferred", "reviewed_rejected"],
            );
        }
        EffectName::LegA => {
            add(map, UNIT_ROWS, units);
            set(map, BACKLOG_STATUS, "cut_applied");
            follow_any(map, UNIT_DIGEST, after);
        }
        EffectName::LegB => {}
        EffectName::WriteVerify => {
            follow(map, BACKLOG_STATUS, after, &["verified_complete", "verify_failed_escalated"]);
        }
        EffectName::Sg2Request => set(map, REVIEW_DECISIONS, "1"),
        EffectName::Sg2Review => add(map, APPROVALS, 1),
        EffectName::Sg3Review => {
            add(map, APPROVALS, 1);
            // an acknowledged drift re-defers an approved entry (S2 -> S3)
            follow(map, BACKLOG_STATUS, after, &["reviewed_deferred"]);
        }
        EffectName::Enact => follow_any(map, UNIT_DIGEST, after),
        EffectName::Void => {
            follow_any(map, UNIT_DIGEST, after);
            follow(map, BACKLOG_STATUS, after, &["abandoned"]);
        }
    }
    expected
}

fn set(map: &mut BTreeMap<String, String>, name: &str, value: &str) {
    map.insert(name.to_owned(), value.to_owned());
}

fn add(map: &mut BTreeMap<String, String>, name: &str, n: u64) {
    if let Some(value) = map.get_mut(name) {
        *value = match value.parse::<u64>() {
            Ok(old) => (old + n).to_string(),
            Err(_) => format!("{value}+{n}"),
        };
    }
}

fn follow(map: &mut BTreeMap<String, String>, name: &str, after: &Survey, allowed: &[&str]) {
    if let Some(value) = after.0.get(name).filter(|v| allowed.contains(&v.as_str())) {
        set(map, name, value);
    }
}

fn follow_any(map: &mut BTreeMap<String, String>, name: &str, after: &Survey) {
    if let Some(value) = after.0.get(name) {
        set(map, name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey() -> Survey {
        Survey(DIMENSIONS.iter().map(|d| ((*d).to_owned(), "0".to_owned())).collect())
    }

    #[test]
    fn leg_a_explains_its_own_rows_and_nothing_else() {
        let before = survey();
        let mut after = before.clone();
        after.0.insert(UNIT_ROWS.to_owned(), "7".to_owned());
        after.0.insert(BACKLOG_STATUS.to_owned(), "cut_applied".to_owned());
        after.0.insert(UNIT_DIGEST.to_owned(), "x".to_owned());
        assert!(unexplained(EffectName::LegA, 7, &before, &after).is_empty());
        assert_eq!(unexplained(EffectName::LegA, 8, &before, &after)[0].dimension, UNIT_ROWS);
        after.0.insert("function.iu_core.fn_iu_create".to_owned(), "swapped".to_owned());
        assert_eq!(unexplained(EffectName::LegA, 7, &before, &after).len(), 1);
    }

    #[test]
    fn pins_follow_a_chain_of_migrations_and_nothing_else_does() {
        let step = |before: Option<&str>, after: Option<&str>| PinMove {
            dimension: TRIGGERS.to_owned(),
            before: before.map(ToOwned::to_owned),
            after: after.map(ToOwned::to_owned),
        };
        let chain = [step(Some("0"), Some("1")), step(Some("1"), None), step(None, Some("2"))];
        let mut pins = survey();
        follow_migrations(&mut pins, &chain);
        assert_eq!(pins.0.get(TRIGGERS).map(String::as_str), Some("2"));
        let mut moved = survey();
        moved.0.insert(TRIGGERS.to_owned(), "tampered".to_owned());
        let before = moved.clone();
        follow_migrations(&mut moved, &chain);
        assert_eq!(moved, before);
    }

    #[test]
    fn a_dimension_that_disappears_is_drift() {
        let before = survey();
        let mut after = before.clone();
        after.0.remove(TRIGGERS);
        let found = compare(&before, &after);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].observed, None);
    }
}
