//! What a run says about itself: by its sidecar, or, where that is not at hand, by its
//! documents in the knowledge base.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::driver::restore::reports_of_stops;
use crate::machine::run::{GateId, Phase, RunState, Stage};
use crate::operate::inspect::asked::folder_over;
use crate::record::approval::ApprovalPolicy;
use crate::record::effect::EffectName;
use crate::record::evidence::RunEvidence;
use crate::record::pin::{self, Pin};
use crate::record::sidecar::{ApprovalRecord, Mode, PhaseResult, Sidecar};
use crate::report::naming::DocumentName;

/// Name of the row of the cut text among the pins.
const SOURCE_VERSION_ID: &str = "source_version_id";

/// What a run claims. Everything in it is to be checked.
#[derive(Debug, Clone)]
pub struct Claims {
    /// The run.
    pub run_id: RunId,
    /// Its document.
    pub document_id: String,
    /// Pins by name.
    pub pins: BTreeMap<String, String>,
    /// Phases that passed.
    pub passed: BTreeSet<Phase>,
    /// How far it came; `None` if it was voided.
    pub stage: Option<Stage>,
    /// Whether it was voided.
    pub voided: bool,
    /// Whether it writes at all: a dry run leaves nothing anywhere.
    pub live: bool,
    /// Whether a source shows that its units were enacted.
    pub enacted: bool,
    /// Who may approve, and how: never what the record says, so whoever checks sets it.
    pub policy: ApprovalPolicy,
    /// Fingerprint of the key that signed its creation, if that is known.
    pub creator: Option<String>,
    /// The approvals that it relied on.
    pub approvals: Vec<ApprovalRecord>,
    /// Its documents: path and digest.
    pub documents: Vec<(String, Digest)>,
    /// The reports of its stops, where the record tells.
    pub reports: Vec<(String, Digest)>,
}

impl Claims {
    /// An approval counts before it is stored. If the run stopped between (drift), or was asked
    /// again, it is void, and rightly in no table: unless its own effect says that it was stored, or
    /// what the run did since relies on it.
    pub(super) fn must_be_stored(&self, evidence: &RunEvidence, gate: GateId, occurrence: u32) -> bool {
        let (effect, phase) = match gate {
            GateId::CutAuthz => (EffectName::Sg1Review, Phase::CutLegA),
            GateId::LifecycleAuthz => (EffectName::Sg2Review, Phase::LifecycleEnact),
            _ => return true,
        };
        let recorded =
            evidence.effects.iter().any(|e| e.key.effect == effect && e.key.occurrence == occurrence);
        let is_last = !self.approvals.iter().any(|a| a.gate == gate && a.occurrence > occurrence);
        recorded || (is_last && self.has_passed(phase))
    }

    /// By the sidecar.
    #[must_use]
    pub fn of_sidecar(sidecar: &Sidecar) -> Self {
        let passed =
            |p: &Phase| sidecar.phases.get(p.as_str()).is_some_and(|r| r.result == PhaseResult::Passed);
        let mut pins = sidecar.context_pins.clone();
        if let Some(version) = sidecar.source_version_id {
            pins.insert(SOURCE_VERSION_ID.to_owned(), version.to_string());
        }
        Self {
            run_id: sidecar.run_id.clone(),
            document_id: sidecar.document_id.clone(),
            pins,
            passed: Phase::ALL.iter().copied().filter(passed).collect(),
            stage: sidecar.run_state().ok().and_then(|s| s.stage()),
            voided: matches!(sidecar.run_state(), Ok(RunState::Voided { .. })),
            live: sidecar.mode == Mode::Live,
            enacted: false,
            policy: ApprovalPolicy::nobody(),
            creator: Some(sidecar.creation.fingerprint.clone()),
            approvals: sidecar.sovereign_approvals.clone(),
            documents: sidecar.documents.iter().map(|d| (d.path.clone(), d.sha256)).collect(),
            reports: reports_of_stops(sidecar).collect(),
        }
    }

    /// What a statement says of the record's pins.
    pub(super) fn pins_but_the_statement(&self) -> BTreeMap<String, String> {
        let mut pins = self.pins.clone();
        pins.retain(|name, _| name != SOURCE_VERSION_ID && name != pin::STATEMENT_SHA256.name());
        pins
    }

    /// What its last report begins with, by these pins.
    pub(super) fn inputs_of(&self, pins: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let own = [("document_id", self.document_id.clone()), ("run_id", self.run_id.to_string())];
        let pins = pins.iter().filter(|(name, _)| *name != SOURCE_VERSION_ID);
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        own.chain(pins.map(|(name, value)| (name.clone(), value.clone()))).collect()
    }

    /// By the documents `(path, text)` of its folder: pins from the newest phase report,
    /// digests from the tables that later documents hold. The last document's own digest is
    /// in none of them.
    #[must_use]
    pub fn of_documents(
        run_id: &RunId,
        documents: &[(String, String)],
        policy: ApprovalPolicy,
        approvals: Vec<ApprovalRecord>,
    ) -> Self {
        let mut phases: Vec<(Phase, &str)> = Vec::new();
        for (path, text) in documents {
            let name = path.rsplit('/').next().unwrap_or(path);
            if let Ok((DocumentName::Phase(phase), _)) = DocumentName::parse(name) {
                phases.push((phase, text));
            }
        }
        phases.sort_by_key(|(phase, _)| *phase);
        let mut pins = BTreeMap::new();
        for (_, text) in &phases {
            pins.extend(inputs(text));
        }
        // what an answer names by its digest says it best
        for (_, text) in documents.iter().filter(|(path, _)| is_request(path)) {
            pins.extend(inputs(text).into_iter().filter(|(name, _)| LASTING.contains(&name.as_str())));
        }
        // no pin of the context, but asked for at SG_1
        let version = documents.iter().find_map(|(_, text)| {
            text.lines().find_map(|line| line.strip_prefix(SOURCE_VERSION_ID)?.strip_prefix(": "))
        });
        if let Some(version) = version {
            pins.insert(SOURCE_VERSION_ID.to_owned(), version.to_owned());
        }
        let folder = folder_over(documents.iter().map(|(path, _)| path.as_str()));
        let mut digests: BTreeMap<String, Digest> = BTreeMap::new();
        for (_, text) in documents {
            for (name, digest) in tabled(text) {
                let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
                if DocumentName::parse(&name).is_ok() {
                    digests.entry(format!("{folder}/{name}")).or_insert(digest);
                }
            }
        }
        let document_id = pins.get("document_id").cloned().unwrap_or_default();
        Self {
            run_id: run_id.clone(),
            document_id,
            stage: phases.last().map(|(phase, _)| phase.to()),
            voided: false,
            live: true,
            enacted: false,
            passed: phases.iter().map(|(phase, _)| *phase).collect(),
            pins,
            policy,
            creator: None,
            approvals,
            documents: digests.into_iter().collect(),
            reports: Vec::new(),
        }
    }

    /// Whether a phase passed.
    #[must_use]
    pub fn has_passed(&self, phase: Phase) -> bool {
        self.passed.contains(&phase)
    }

    /// Whether its units are enacted: its stage says so, or the result of the phase that did it.
    #[must_use]
    pub fn is_enacted(&self) -> bool {
        self.enacted || self.stage.is_some_and(Stage::is_enacted) || self.has_passed(Phase::LifecycleEnact)
    }

    /// Whether it was voided, by any source.
    #[must_use]
    pub fn is_void(&self, evidence: &RunEvidence) -> bool {
        self.voided || evidence.voided || has(evidence, EffectName::Void)
    }

    /// Whether something came past a gate, which somebody's word must have opened: the cut, the enactment,
    /// or, of the gate of stops, a void.
    #[must_use]
    pub fn has_opened(&self, evidence: &RunEvidence, gate: GateId) -> bool {
        match gate {
            GateId::CutAuthz => self.has_passed(Phase::CutLegA) || has(evidence, EffectName::LegA),
            GateId::LifecycleAuthz => self.is_enacted() || has(evidence, EffectName::Enact),
            _ => self.live && (self.voided || has(evidence, EffectName::Void)),
        }
    }

    /// Another source shows that it came this far: then everything before it must be there.
    pub fn reach(&mut self, stage: Stage) {
        self.passed.extend(Phase::ALL.iter().copied().filter(|phase| phase.to() <= stage));
        self.stage = self.stage.max(Some(stage));
    }

    /// A pin's text; empty if it is not there, which fits nothing.
    #[must_use]
    pub fn pin<T>(&self, pin: Pin<T>) -> String {
        self.pins.get(pin.name()).cloned().unwrap_or_default()
    }
}

fn has(evidence: &RunEvidence, effect: EffectName) -> bool {
    evidence.effects.iter().any(|e| e.key.effect == effect)
}

/// What is the same in every report and request of a run.
const LASTING: [&str; 9] = [
    "document_id",
    "run_id",
    "source_sha256",
    "source_version_no",
    "candidate_count",
    "writer_digest",
    "manifest_digest",
    "region_sha",
    "unit_set_digest",
];

fn is_request(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(DocumentName::parse(name), Ok((DocumentName::Request { .. }, _)))
}

/// Where the documents of one run say different things of what is the same in all of them.
#[must_use]
pub fn disagreements(documents: &[(String, String)]) -> Vec<String> {
    let mut first: BTreeMap<String, (String, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for (path, text) in documents {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_own = matches!(
            DocumentName::parse(name),
            Ok((DocumentName::Phase(_) | DocumentName::Request { .. }, _))
        );
        // what a report names by its digest is what stands there
        for (named, digest) in tabled(text).into_iter().filter(|_| is_own) {
            let named = named.rsplit('/').next().unwrap_or_default();
            let is_it = |(path, _): &&(String, String)| path.rsplit('/').next() == Some(named);
            let other = documents.iter().find(is_it).map(|(_, text)| Digest::of(text.as_bytes()));
            if let Some(other) = other.filter(|other| *other != digest) {
                found.push(format!("{named}: {digest} in {name}, {other} as it stands"));
            }
        }
        // a long value is cut where there is little room
        let whole =
            |(key, value): &(String, String)| LASTING.contains(&key.as_str()) && !value.ends_with('…');
        for (key, value) in inputs(text).into_iter().filter(whole).filter(|_| is_own) {
            match first.get(&key) {
                Some((before, other)) if *before != value => {
                    found.push(format!("{key}: {before} in {other}, {value} in {name}"));
                }
                Some(_) => {}
                None => {
                    first.insert(key, (value, name));
                }
            }
        }
    }
    found
}

/// The pins in the first section of a report, or the facts of a request.
pub(super) fn inputs(text: &str) -> Vec<(String, String)> {
    let is_it = |s: &&str| s.starts_with("1. Inputs") || s.starts_with("2. Facts and digests");
    let section = text.split("\n## ").find(is_it).unwrap_or_default();
    let line = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let key = key.trim_end();
        let is_key =
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        is_key.then(|| (key.to_owned(), value.trim().trim_matches('"').to_string()))
    };
    section.lines().filter_map(line).collect()
}

/// Rows of tables whose second cell is a sha256.
fn tabled(text: &str) -> Vec<(String, Digest)> {
    let row = |line: &str| {
        let mut cells =
            line.strip_prefix("| ")?.split(" | ").map(|cell| cell.trim().trim_matches(['`', '|', ' ']));
        let name = cells.next()?.to_owned();
        let digest = cells.next()?.parse().ok()?;
        Some((name, digest))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn documents_tell_pins_phases_and_digests() {
        let run: RunId = "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab".parse().unwrap();
        let sha = Digest::of(b"x");
        let folder = "knowledge/dev/laws/a/v1-automation-cut-20260520";
        let text = format!(
            "# Final\n\n> ```yaml\n> phase : closeout\n> ```\n\n## 1. Inputs (RunContext snapshot)\n\n```yaml\n\
             document_id          : A\nregion_sha           : {sha}\nindex_line           : \"- `x`\"\n```\n\n\
             ## 5. Artifacts produced\n\n| path | sha256 | bytes |\n| --- | --- | --- |\n\
             | `{folder}/02-mark-2026-05-20.md` | `{sha}` | 12 bytes |\n"
        );
        let documents = vec![(format!("{folder}/11-final-orchestrator-report-2026-05-20.md"), text)];
        let claims = Claims::of_documents(&run, &documents, ApprovalPolicy::nobody(), Vec::new());
        assert_eq!(claims.document_id, "A");
        assert_eq!(claims.pin(pin::REGION_SHA), sha.to_hex());
        assert_eq!(claims.pin(pin::INDEX_LINE), "- `x`");
        assert_eq!(claims.documents, [(format!("{folder}/02-mark-2026-05-20.md"), sha)]);
        assert_eq!(claims.stage, Some(Stage::CloseoutReported));
        assert!(claims.is_enacted() && claims.has_passed(Phase::Closeout) && !claims.has_passed(Phase::Mark));
    }

    #[test]
    fn documents_of_one_run_that_say_different_things_are_named() {
        let document = |name: &str, key: &str, value: &str| {
            let text = format!("## 1. Inputs\n\n```yaml\nrun_id : r\n{key} : {value}\n```\n");
            (format!("folder/{name}-2026-05-20.md"), format!("# Report\n\n{text}"))
        };
        let two = |key: &str, one: &str, other: &str| {
            disagreements(&[document("02-mark", key, one), document("03-cutplan", key, other)])
        };
        assert_eq!(two("writer_digest", "a", "a"), [""; 0]);
        assert_eq!(
            two("writer_digest", "a", "b"),
            ["writer_digest: a in 02-mark-2026-05-20.md, b in 03-cutplan-2026-05-20.md"]
        );
        // what is cut short, and what may differ from phase to phase
        assert_eq!(two("writer_digest", "a", "b…"), [""; 0]);
        assert_eq!(two("warnings", "1", "2"), [""; 0]);
    }

    #[test]
    fn the_last_approval_of_a_gate_that_was_passed_must_be_stored() {
        let run: RunId = "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab".parse().unwrap();
        let approval = |gate: GateId, occurrence: u32| -> ApprovalRecord {
            serde_json::from_value(serde_json::json!({
                "gate": gate, "requested_utc": "2026-05-20T10:11:12Z", "approval_kb_id": "f/a.md",
                "validated_utc": "2026-05-20T10:11:12Z", "occurrence": occurrence,
            }))
            .unwrap()
        };
        let (cut, lifecycle) = (GateId::CutAuthz, GateId::LifecycleAuthz);
        let approvals = vec![approval(cut, 1), approval(cut, 2), approval(lifecycle, 3)];
        let mut claims = Claims::of_documents(&run, &[], ApprovalPolicy::nobody(), approvals);
        let must = |claims: &Claims, n| claims.must_be_stored(&RunEvidence::default(), cut, n);
        assert!(!must(&claims, 2), "nothing relied on it yet");
        claims.passed.insert(Phase::CutLegA);
        assert!(must(&claims, 2) && !must(&claims, 1), "the one before was asked for again");
    }
}
