//! IG_cutplan: two independent rebuilds give one writer digest, one row per candidate, and
//! every word, key and address is fit to be written.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{Check, GateReport, Invariant};

const G: GateId = GateId::Cutplan;
const SPEC: &str = "spec 1 §4 IG_cutplan";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "cutplan.writer_digest_stable",
        G,
        "two independent rebuilds give the same writer_digest",
        SPEC,
    ),
    invariant("cutplan.row_per_candidate", G, "there are as many rows as candidates, and at least one", SPEC),
    invariant(
        "cutplan.vocabulary_mapped",
        G,
        "publication_type, unit_kind and section_type of every row are in the vocabulary",
        SPEC,
    ),
    invariant("cutplan.keys_distinct", G, "the idempotency keys are distinct", SPEC),
    invariant("cutplan.addresses_distinct", G, "the canonical addresses are distinct", "D24"),
    invariant(
        "cutplan.no_forbidden_address",
        G,
        "no address is forbidden or outside the document's own prefix",
        "D19",
    ),
    invariant(
        "cutplan.manifest_digest_matches",
        G,
        "the manifest digest computed again is the pinned one",
        "spec 2 §6",
    ),
];

/// What the two rebuilds gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutplanFacts {
    /// Writer digests of the two rebuilds.
    pub writer_digests: [Digest; 2],
    /// Rows of the plan.
    pub rows: u64,
    /// Candidates of MARK.
    pub candidates: u64,
    /// Words that are not in their vocabulary, as `kind:word`.
    pub unmapped: Vec<String>,
    /// Distinct idempotency keys.
    pub distinct_keys: u64,
    /// Distinct canonical addresses.
    pub distinct_addresses: u64,
    /// Addresses that are forbidden or outside the document.
    pub forbidden: u64,
    /// Pinned at source_pin.
    pub manifest_digest_pin: Digest,
    /// Computed again.
    pub manifest_digest: Digest,
}

/// Judges the plan.
#[must_use]
pub fn judge(facts: &CutplanFacts) -> GateReport {
    let [first, second] = &facts.writer_digests;
    let n = facts.candidates;
    GateReport::new(
        G,
        vec![
            Check::equal("cutplan.writer_digest_stable", first, second),
            Check::new("cutplan.row_per_candidate", n, facts.rows, facts.rows == n && n > 0),
            Check::empty("cutplan.vocabulary_mapped", &facts.unmapped),
            Check::equal("cutplan.keys_distinct", &n, &facts.distinct_keys),
            Check::equal("cutplan.addresses_distinct", &n, &facts.distinct_addresses),
            Check::equal("cutplan.no_forbidden_address", &0, &facts.forbidden),
            Check::equal(
                "cutplan.manifest_digest_matches",
                &facts.manifest_digest_pin,
                &facts.manifest_digest,
            ),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl CutplanFacts {
    /// Clean facts.
    #[must_use]
    pub fn example() -> Self {
        Self {
            writer_digests: [Digest::of(b"plan"); 2],
            rows: 7,
            candidates: 7,
            unmapped: Vec::new(),
            distinct_keys: 7,
            distinct_addresses: 7,
            forbidden: 0,
            manifest_digest_pin: Digest::of(b"manifest"),
            manifest_digest: Digest::of(b"manifest"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::spoilers;

    spoilers! { CutplanFacts, judge;
        "cutplan.writer_digest_stable" => |f| f.writer_digests[1] = Digest::of(b"other");
        "cutplan.row_per_candidate" => |f| f.rows = 6;
        "cutplan.row_per_candidate" => |f| {
            (f.rows, f.candidates, f.distinct_keys, f.distinct_addresses) = (0, 0, 0, 0);
        };
        "cutplan.vocabulary_mapped" => |f| f.unmapped.push("unit_kind:verse".into());
        "cutplan.keys_distinct" => |f| f.distinct_keys = 6;
        "cutplan.addresses_distinct" => |f| f.distinct_addresses = 6;
        "cutplan.no_forbidden_address" => |f| f.forbidden = 1;
        "cutplan.manifest_digest_matches" => |f| f.manifest_digest = Digest::of(b"other");
    }
}
