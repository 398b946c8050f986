//! IG_closeout: every document of the run stands in the knowledge base as it was recorded,
//! the runs index is free for this run's line, and the sidecar can be made final.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::machine::run::GateId;
use crate::record::check::invariant;
use crate::record::check::{ABSENT, Check, GateReport, Invariant};

const G: GateId = GateId::Closeout;
const SPEC: &str = "spec 1 §4 IG_closeout";

/// The invariants of this gate.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "closeout.document_count",
        G,
        "as many documents as the run must have filed, each once",
        "spec 1 §4 IG_closeout, D3",
    ),
    invariant("closeout.documents_match", G, "every document, read again, has its recorded sha256", SPEC),
    invariant("closeout.index_free", G, "no other line stands in the runs index for this run", "spec 2 §9"),
    invariant("closeout.sidecar_ready", G, "the sidecar can be finalised", SPEC),
];

/// What was observed before closing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseoutFacts {
    /// Path, recorded sha256, and sha256 as read again (`None` if it is not there).
    pub documents: Vec<(String, Digest, Option<Digest>)>,
    /// How many there must be.
    pub expected_count: u64,
    /// Another line that stands in the index for this run.
    pub index_conflict: Option<String>,
    /// Can the sidecar be finalised?
    pub sidecar_final_ready: bool,
}

/// Judges the closeout.
#[must_use]
pub fn judge(facts: &CloseoutFacts) -> GateReport {
    let paths: BTreeSet<&str> = facts.documents.iter().map(|(path, _, _)| path.as_str()).collect();
    let distinct = u64::try_from(paths.len()).unwrap_or(u64::MAX);
    let count = distinct == facts.expected_count && paths.len() == facts.documents.len() && distinct > 0;
    let differing: Vec<String> = facts
        .documents
        .iter()
        .filter(|(_, recorded, read)| Some(*recorded) != *read)
        .map(|(path, recorded, read)| {
            // the name alone: all stand in the run's one folder, and a report cuts what is long
            let name = path.rsplit('/').next().unwrap_or(path);
            match read {
                Some(read) => format!("{name}: {} -> {}", recorded.short(12), read.short(12)),
                None => format!("{name}: {ABSENT}"),
            }
        })
        .collect();
    let observed = format!("{} named, {distinct} distinct", facts.documents.len());
    GateReport::new(
        G,
        vec![
            Check::new("closeout.document_count", facts.expected_count, observed, count),
            Check {
                expected: "all as recorded".into(),
                ..Check::empty("closeout.documents_match", &differing)
            },
            Check::empty("closeout.index_free", facts.index_conflict.as_slice()),
            Check::truth("closeout.sidecar_ready", facts.sidecar_final_ready),
        ],
    )
}

#[cfg(any(test, feature = "memory"))]
impl CloseoutFacts {
    /// Clean facts of two documents.
    #[must_use]
    pub fn example() -> Self {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        Self {
            documents: vec![("01.md".into(), a, Some(a)), ("02.md".into(), b, Some(b))],
            expected_count: 2,
            index_conflict: None,
            sidecar_final_ready: true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gate::spoilers;

    spoilers! { CloseoutFacts, judge;
        "closeout.document_count" => |f| f.expected_count = 3;
        "closeout.document_count" => |f| f.documents[1].0 = "01.md".into();
        "closeout.document_count" => |f| { f.documents.clear(); f.expected_count = 0; };
        "closeout.documents_match" => |f| f.documents[1].2 = None;
        "closeout.documents_match" => |f| f.documents[0].2 = Some(Digest::of(b"edited"));
        "closeout.index_free" => |f| f.index_conflict = Some("- `other`".into());
        "closeout.sidecar_ready" => |f| f.sidecar_final_ready = false;
    }
}
