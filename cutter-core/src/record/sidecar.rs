//! The sidecar: the durable record of a run (spec 1 §5).
//!
//! The spec's fields keep their names and meaning; the others are ours. It is validated
//! on every write and on every read: the digest covers all other fields, the transitions
//! form a hash chain, the size is bounded. It holds no secret and no list of units. The
//! module knows bytes, never files: where revisions live is the run store's matter.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::canonical::{self, Appended, CanonicalError, KeptText, Settled};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::limits::SIDECAR_MAX_BYTES;
use crate::machine::run::{GateId, Phase, RunState, Stage};
use crate::record::approval::Ask;
use crate::record::backup::BackupBlob;
use crate::record::intent::Intent;
use crate::record::observed::Survey;
use crate::record::pin::{Pin, PinError, PinValue};
use crate::record::settings::RunSettings;
use crate::record::signature::SignedText;

mod approvals;
mod compact;
mod error;
mod read;
mod stop_record;
mod word;

pub use approvals::{AlsoApproved, ApprovalRecord, Considered};
pub use error::SidecarError;
pub use stop_record::StopRecord;

/// The spec's `schema_version`. A higher one is refused, never guessed at.
pub const SCHEMA_VERSION: u32 = 1;
/// Counts our own additions within schema 1. Older records are read: every field that
/// came later has a default.
pub const RECORD_VERSION: u32 = 2;

/// Whether a run writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Writes nothing anywhere but its own folder, and ends before the first gate.
    Dryrun,
    /// The real thing.
    Live,
}

/// How a phase stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseResult {
    /// Its gate passed.
    Passed,
    /// Its gate refused.
    Failed,
    /// It began; only such a phase may be redone.
    Running,
}

/// A file that a phase made. Its fields, as those of the other records of which a sidecar has many, are in
/// the order of canonical text, which then need not be put in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its length.
    #[serde(default)]
    pub bytes: u64,
    /// Path or name.
    pub path: String,
    /// sha256 of its bytes.
    pub sha256: Digest,
}

/// One phase of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Active machine time, summed over restarts (D34).
    #[serde(default)]
    pub active_ms: u64,
    /// What it made; the report is the first.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// When its result was persisted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finished_utc: Option<Timestamp>,
    /// Its gate's invariants.
    #[serde(default)]
    pub gate_invariants: BTreeMap<String, bool>,
    /// Path of its document in the knowledge base, once uploaded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kb_doc_id: Option<String>,
    /// The phase.
    pub phase: String,
    /// How it stands.
    pub result: PhaseResult,
    /// When its intent was chosen.
    pub started_utc: Timestamp,
}

/// The last error, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// `STOP_…` code or `failed_<gate>`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// One step of the run machine, chained to the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionRecord {
    /// Who.
    pub actor: String,
    /// When.
    pub at: Timestamp,
    /// State before.
    pub from: String,
    /// sha256 over the previous record's hash and this record's fields.
    pub hash: Digest,
    /// State after.
    pub to: String,
    /// What led there.
    pub trigger: String,
}

/// The recorded backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRecord {
    /// Where and what.
    pub blob: BackupBlob,
    /// Digest of the base state, signed at SG1 and recomputed in leg A.
    pub base_state_sha: Digest,
    /// Content rows that the backup holds.
    pub content_rows: u64,
    /// When it was taken.
    pub at: Timestamp,
}

/// A document that is owed to the knowledge base: persisted before it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// File name in the run's folder.
    pub name: String,
    /// Version of the renderer that made it.
    pub renderer: u32,
    /// sha256 of `text`.
    pub sha256: Digest,
    /// The document, byte for byte.
    pub text: String,
}

/// The sidecar. Its fields are in the order of canonical text, which then need not be put in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sidecar {
    /// Active machine time, summed over restarts.
    #[serde(default)]
    pub active_ms: u64,
    /// The open request of a sovereign gate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Ask>,
    /// The recorded backup.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backup: Option<BackupRecord>,
    /// Approvals that were looked at and not accepted, newest last, bounded.
    #[serde(default)]
    pub considered: Vec<Considered>,
    /// manifest_digest, region_sha, writer_digest, …
    pub context_pins: BTreeMap<String, String>,
    /// By whom.
    pub created_by: String,
    /// When the run was created.
    pub created_utc: Timestamp,
    /// The creation record, signed by the operator (D31).
    pub creation: Settled<SignedText>,
    /// sha256 of the canonical form of all other fields.
    #[serde(default = "no_digest")]
    pub digest: Digest,
    /// Which document.
    pub document_id: String,
    /// Documents filed, in order: file name and sha256.
    #[serde(default)]
    pub documents: Appended<Artifact>,
    /// Drift pins.
    #[serde(default)]
    pub drift_pins: Survey,
    /// Minutes granted on top of the caps by SG_3 approvals.
    #[serde(default)]
    pub granted_minutes: u32,
    /// By phase name (spec 2 §4).
    pub idempotency_keys: BTreeMap<String, String>,
    /// What happens next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub intent: Option<Intent>,
    /// The run's folder in the knowledge base.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kb_folder: Option<String>,
    /// For `failed_*` and `stopped_*`: the stage that was kept (D2).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept_stage: Option<Stage>,
    /// The last error.
    pub last_error: Option<ErrorRecord>,
    /// Dry run or live.
    pub mode: Mode,
    /// What is owed to the knowledge base.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outbox: Option<Outbox>,
    /// By phase name.
    pub phases: BTreeMap<String, PhaseRecord>,
    /// See [`RECORD_VERSION`].
    #[serde(default = "first_record_version")]
    pub record_version: u32,
    /// This revision's number.
    pub revision: u64,
    /// Equals the folder's name.
    pub run_id: RunId,
    /// Always [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Settings of the run, fixed at creation and shown at SG1.
    pub settings: Settled<RunSettings>,
    /// Its row, from source_pin on.
    pub source_document_id: Option<Uuid>,
    /// The version's row, from source_pin on.
    pub source_version_id: Option<Uuid>,
    /// Validated approvals, oldest first.
    pub sovereign_approvals: Vec<ApprovalRecord>,
    /// Stage or ending, see [`RunState`].
    pub state: String,
    /// `success` once finalised.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<String>,
    /// Stops and failures.
    #[serde(default)]
    pub stops: Vec<StopRecord>,
    /// The hash chain.
    pub transitions: Appended<TransitionRecord>,
}

const fn first_record_version() -> u32 {
    1
}
const fn no_digest() -> Digest {
    Digest::from_bytes([0; 32])
}

impl Sidecar {
    /// The state, parsed.
    ///
    /// # Errors
    /// [`SidecarError::Invalid`] if it is no state.
    pub fn run_state(&self) -> Result<RunState, SidecarError> {
        RunState::parse(&self.state, self.kept_stage).map_err(|e| SidecarError::Invalid(e.to_string()))
    }

    /// Moves to a state, adding a link to the chain.
    pub fn transition(&mut self, to: &RunState, trigger: &str, actor: &str, at: Timestamp) {
        let previous = self.transitions.last().map(|t| t.hash);
        let mut record = TransitionRecord {
            from: self.state.clone(),
            to: to.as_text(),
            trigger: trigger.to_owned(),
            actor: actor.to_owned(),
            at,
            hash: no_digest(),
        };
        record.hash = record.link(previous);
        self.state = record.to.clone();
        self.kept_stage = to.kept();
        self.transitions.push(record);
    }

    /// Writes the canonical bytes of the next revision: digest set, rules checked.
    ///
    /// # Errors
    /// [`SidecarError`] if a rule is broken or the size passes its bound.
    pub fn to_bytes(&mut self) -> Result<Vec<u8>, SidecarError> {
        self.record_version = RECORD_VERSION;
        let malformed = |e: &dyn core::fmt::Display| SidecarError::Malformed(e.to_string());
        let mut text = self.text().map_err(|e| malformed(&e))?;
        let (entry, digest) = text.digest_without(DIGEST).ok_or_else(|| malformed(&"no digest"))?;
        self.digest = digest;
        self.check_rules_from(self.transitions.len().saturating_sub(NEW_LINKS))?;
        text.out.replace_range(entry, &format!("\"{DIGEST}\":\"{}\"", self.digest.to_hex()));
        let text = text.out;
        if text.len() > SIDECAR_MAX_BYTES {
            return Err(SidecarError::Invalid(format!(
                "size: expected at most {SIDECAR_MAX_BYTES} bytes, observed {}",
                text.len()
            )));
        }
        Ok(text.into_bytes())
    }

    /// Its text with the digest that it has.
    fn text(&self) -> Result<canonical::Text, CanonicalError> {
        let mut kept = Vec::with_capacity(4);
        kept.push(("settings", KeptText::Whole(self.settings.text())));
        kept.push(("creation", KeptText::Whole(self.creation.text())));
        kept.extend(self.documents.unclosed_text().map(|text| ("documents", KeptText::Unclosed(text))));
        kept.extend(self.transitions.unclosed_text().map(|text| ("transitions", KeptText::Unclosed(text))));
        canonical::text_with(self, &kept)
    }

    /// The rules between fields: chain whole, state is the chain's last, stage and phases agree.
    ///
    /// # Errors
    /// [`SidecarError::Invalid`] naming the rule.
    pub fn check_rules(&self) -> Result<(), SidecarError> {
        self.check_rules_from(0)
    }

    /// As [`Self::check_rules`], with the chain from this link on.
    fn check_rules_from(&self, link: usize) -> Result<(), SidecarError> {
        let invalid = |text: String| Err(SidecarError::Invalid(text));
        let state = self.run_state()?;
        let mut previous = link.checked_sub(1).and_then(|before| self.transitions.get(before));
        for (i, record) in self.transitions.iter().enumerate().skip(link) {
            let link = record.link(previous.map(|p| p.hash));
            if link != record.hash {
                return invalid(format!(
                    "transition {i} ({} -> {}): expected hash {link}, observed {}",
                    record.from, record.to, record.hash
                ));
            }
            if previous.is_some_and(|p| p.to != record.from) {
                return invalid(format!(
                    "transition {i} starts at {}, not where the one before ended",
                    record.from
                ));
            }
            previous = Some(record);
        }
        match previous {
            Some(last) if last.to != self.state => {
                return invalid(format!(
                    "state: expected {} (the chain's last), observed {}",
                    last.to, self.state
                ));
            }
            None => return invalid("the transition chain is empty".to_owned()),
            Some(_) => {}
        }
        if let Some(stage) = state.stage() {
            for phase in Phase::ALL {
                let passed = self.phases.get(phase.as_str()).is_some_and(|p| p.result == PhaseResult::Passed);
                if stage >= phase.to() && !passed {
                    return invalid(format!("state {stage} is past {phase}, whose record is not passed"));
                }
            }
        }
        for (name, record) in &self.phases {
            if *name != record.phase {
                return invalid(format!("phase {name} is recorded as {}", record.phase));
            }
        }
        Ok(())
    }

    /// The last validated approval for a gate.
    #[must_use]
    pub fn approval(&self, gate: GateId) -> Option<&ApprovalRecord> {
        self.sovereign_approvals.iter().rev().find(|a| a.gate == gate && a.decision.allows())
    }

    /// The last decision at a gate, with the number of its effect: the ask's occurrence, and later
    /// where an ask was answered again by a refusal.
    #[must_use]
    pub fn last_decision(&self, gate: GateId) -> Option<(u32, &ApprovalRecord)> {
        let at_gate = self.sovereign_approvals.iter().filter(|a| a.gate == gate);
        at_gate.fold(None, |before, record| {
            let least = before.map_or(1, |(n, _): (u32, _)| n.saturating_add(1));
            Some((record.occurrence.max(least), record))
        })
    }

    /// The open stop: the last one, if the run is stopped or failed and nothing resolved it.
    #[must_use]
    pub fn open_stop(&self) -> Option<&StopRecord> {
        self.stops.last().filter(|s| s.resolved_by.is_none() && self.kept_stage.is_some())
    }

    /// What a pin holds.
    ///
    /// # Errors
    /// [`PinError`] if it is missing or no such value.
    pub fn pinned<T: PinValue>(&self, pin: Pin<T>) -> Result<T, PinError> {
        let text = self.pin_text(pin);
        text.and_then(|text| text.parse().ok()).ok_or_else(|| PinError {
            name: pin.name(),
            expected: T::EXPECTED,
            observed: text.map_or_else(|| "nothing".to_owned(), |text| format!("{text:?}")),
        })
    }

    /// A pin as it is stored.
    #[must_use]
    pub fn pin_text<T>(&self, pin: Pin<T>) -> Option<&str> {
        self.context_pins.get(pin.name()).map(String::as_str)
    }
}

impl TransitionRecord {
    fn link(&self, previous: Option<Digest>) -> Digest {
        let previous = previous.map(|d| d.to_hex()).unwrap_or_default();
        let at = self.at.to_string();
        let parts = [&previous, &self.from, &self.to, &self.trigger, &self.actor, &at];
        let mut text = String::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
        for part in parts {
            text.push_str(&part.len().to_string());
            text.push(':');
            text.push_str(part);
            text.push('\n');
        }
        Digest::of(text.as_bytes())
    }
}

/// More links than one save adds. Those before were checked by the saves that added them, and all are on
/// reading.
const NEW_LINKS: usize = 4;

/// The entry of a sidecar that holds the digest of all others. Never the first: a run's active time is.
const DIGEST: &str = "digest";
