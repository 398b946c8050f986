//! IG_structural_verify: the eleven booleans of D18, and that no unit intrudes where the
//! document forbids it (`dieu_44_intrusion`, D19).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{Check, GateReport, Invariant};
use crate::record::observed::StructuralFacts;

const G: GateId = GateId::StructuralVerify;
const D18: &str = "spec 1 §4 IG_structural_verify, D18";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant("structural_verify.unit_count", G, "as many units as planned", D18),
    invariant("structural_verify.unit_version_count", G, "as many unit versions as units planned", D18),
    invariant("structural_verify.anchor_count", G, "as many anchors as units planned", D18),
    invariant("structural_verify.addresses_distinct", G, "as many distinct addresses as units planned", D18),
    invariant("structural_verify.addresses_match_plan", G, "the addresses are the planned ones", D18),
    invariant("structural_verify.content_hash_match", G, "every stored text hashes to its content_hash", D18),
    invariant(
        "structural_verify.section_type_cardinality",
        G,
        "as many units of each section_type as planned",
        D18,
    ),
    invariant(
        "structural_verify.unit_kind_cardinality",
        G,
        "as many units of each unit_kind as planned",
        D18,
    ),
    invariant("structural_verify.all_draft", G, "every unit is a draft", D18),
    invariant("structural_verify.no_orphans", G, "every unit's parent exists", D18),
    invariant(
        "structural_verify.region_reconstructs",
        G,
        "the texts in anchor order hash to region_sha",
        D18,
    ),
    invariant(
        "structural_verify.forbidden_intrusion",
        G,
        "no unit is under a forbidden prefix or outside the document",
        "spec 1 §4 dieu_44_intrusion, D19",
    ),
];

/// What the plan says must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructuralExpected {
    /// Units of the plan.
    pub units: u64,
    /// sha256 over the addresses in byte order, each followed by `\n`.
    pub addresses_sha: Digest,
    /// Units by section_type.
    pub section_types: BTreeMap<String, u64>,
    /// Units by unit_kind.
    pub unit_kinds: BTreeMap<String, u64>,
    /// The pinned region_sha.
    pub region_sha: Digest,
}

/// The counts that differ, as `name: expected -> observed`.
fn moved(expected: &BTreeMap<String, u64>, observed: &BTreeMap<String, u64>) -> Vec<String> {
    let mut names: Vec<&String> = expected.keys().chain(observed.keys()).collect();
    names.sort();
    names.dedup();
    let count = |map: &BTreeMap<String, u64>, name: &String| map.get(name).copied().unwrap_or(0);
    names
        .into_iter()
        .map(|n| (n, count(expected, n), count(observed, n)))
        .filter(|(_, e, o)| e != o)
        .map(|(n, e, o)| format!("{n}: {e} -> {o}"))
        .collect()
}

fn cardinality(id: &str, expected: &BTreeMap<String, u64>, observed: &BTreeMap<String, u64>) -> Check {
    let moved = moved(expected, observed);
    let total = |map: &BTreeMap<String, u64>| {
        format!("{} units of {} kinds", map.values().fold(0u64, |a, b| a.saturating_add(*b)), map.len())
    };
    let seen = if moved.is_empty() { total(observed) } else { crate::record::check::listed(&moved) };
    Check::new(id, total(expected), seen, moved.is_empty())
}

/// Judges the stored rows of a change set against the plan.
#[must_use]
pub fn judge(expected: &StructuralExpected, facts: &StructuralFacts) -> GateReport {
    let n = &expected.units;
    let id = |name: &str| "structural_verify.".to_string() + name;
    GateReport::new(
        G,
        vec![
            Check::equal(&id("unit_count"), n, &facts.units),
            Check::equal(&id("unit_version_count"), n, &facts.versions),
            Check::equal(&id("anchor_count"), n, &facts.anchors),
            Check::equal(&id("addresses_distinct"), n, &facts.distinct_addresses),
            Check::equal_some(
                &id("addresses_match_plan"),
                &expected.addresses_sha,
                facts.addresses_sha.as_ref(),
            ),
            Check::equal(&id("content_hash_match"), &0, &facts.hash_mismatches),
            cardinality(&id("section_type_cardinality"), &expected.section_types, &facts.section_types),
            cardinality(&id("unit_kind_cardinality"), &expected.unit_kinds, &facts.unit_kinds),
            Check::equal(&id("all_draft"), &0, &facts.non_draft),
            Check::equal(&id("no_orphans"), &0, &facts.orphans),
            Check::equal_some(&id("region_reconstructs"), &expected.region_sha, facts.region_sha.as_ref()),
            Check::equal(&id("forbidden_intrusion"), &0, &facts.forbidden),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl StructuralExpected {
    /// A plan of seven units.
    #[must_use]
    pub fn example() -> Self {
        let counts = |pairs: &[(&str, u64)]| pairs.iter().map(|(k, v)| ((*k).into(), *v)).collect();
        Self {
            units: 7,
            addresses_sha: Digest::of(b"addresses"),
            section_types: counts(&[("body", 6), ("transitional", 1)]),
            unit_kinds: counts(&[("article", 5), ("chapter", 2)]),
            region_sha: Digest::of(b"region"),
        }
    }

    /// Counts that agree with this plan.
    #[must_use]
    pub fn agreeing_facts(&self) -> StructuralFacts {
        StructuralFacts {
            units: self.units,
            versions: self.units,
            anchors: self.units,
            distinct_addresses: self.units,
            addresses_sha: Some(self.addresses_sha),
            hash_mismatches: 0,
            section_types: self.section_types.clone(),
            unit_kinds: self.unit_kinds.clone(),
            non_draft: 0,
            orphans: 0,
            region_sha: Some(self.region_sha),
            forbidden: 0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::spoilers;

    /// Lets the spoilers start from facts.
    struct Stored;
    impl Stored {
        fn example() -> StructuralFacts {
            StructuralExpected::example().agreeing_facts()
        }
    }

    fn judge_stored(facts: &StructuralFacts) -> GateReport {
        judge(&StructuralExpected::example(), facts)
    }

    pub(crate) fn judge_example() -> GateReport {
        judge_stored(&Stored::example())
    }

    spoilers! { Stored, judge_stored;
        "structural_verify.unit_count" => |f| f.units = 8;
        "structural_verify.unit_version_count" => |f| f.versions = 6;
        "structural_verify.anchor_count" => |f| f.anchors = 6;
        "structural_verify.addresses_distinct" => |f| f.distinct_addresses = 6;
        "structural_verify.addresses_match_plan" => |f| f.addresses_sha = Some(Digest::of(b"other"));
        "structural_verify.addresses_match_plan" => |f| f.addresses_sha = None;
        "structural_verify.content_hash_match" => |f| f.hash_mismatches = 1;
        "structural_verify.section_type_cardinality" => |f| { f.section_types.insert("body".into(), 7); };
        "structural_verify.unit_kind_cardinality" => |f| { f.unit_kinds.remove("chapter"); };
        "structural_verify.all_draft" => |f| f.non_draft = 1;
        "structural_verify.no_orphans" => |f| f.orphans = 1;
        "structural_verify.region_reconstructs" => |f| f.region_sha = None;
        "structural_verify.forbidden_intrusion" => |f| f.forbidden = 1;
    }

    #[test]
    fn a_moved_count_is_named() {
        let mut facts = Stored::example();
        facts.section_types.insert("annex".into(), 1);
        let report = judge_stored(&facts);
        assert_eq!(report.failures()[0].observed, "annex: 0 -> 1");
    }
}
