//! What is observed in the database, and what is asked of it, as plain data.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::text::compare::UnitFact;

/// Who drives a run now. Taken once per driver process, and after every reconnect and unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The run.
    pub run_id: RunId,
    /// The document that the run cuts.
    pub document_id: String,
    /// Rises by one with every take.
    pub epoch: i64,
    /// Random per driver process.
    pub holder: Uuid,
}

/// The stored source of a document and its newest version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFacts {
    /// Row id of the document.
    pub source_document_id: Uuid,
    /// The document's own id, which is also its address prefix.
    pub document_id: String,
    /// The newest version, if any was registered.
    pub latest: Option<SourceVersionFacts>,
}

/// One registered version of a source document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceVersionFacts {
    /// Row id of the version.
    pub source_version_id: Uuid,
    /// 1, 2, … per document.
    pub version_no: i32,
    /// sha256 of the text's bytes.
    pub sha256: Digest,
    /// Length of the text in bytes.
    pub bytes: u64,
    /// A manifest digest pinned when the version was registered, if one was.
    pub manifest_digest: Option<Digest>,
}

/// A source text to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRegistration {
    /// The document's id.
    pub document_id: String,
    /// A title for people.
    pub title: String,
    /// Row id to use if the document is new.
    pub source_document_id: Uuid,
    /// Row id to use if the version is new.
    pub source_version_id: Uuid,
    /// The text, byte for byte.
    pub content: Vec<u8>,
    /// sha256 of `content`; an implementation refuses a mismatch.
    pub sha256: Digest,
    /// Pin the manifest digest, if the caller knows it.
    pub manifest_digest: Option<Digest>,
    /// Who registers it.
    pub actor: String,
}

/// What [`Executor::register_source`](crate::port::database::Executor::register_source) did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// The stored source as it stands now.
    pub source: SourceFacts,
    /// The newest version had these bytes already: nothing was written.
    pub already: bool,
}

/// What a drift survey looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyScope {
    /// The run that asks.
    pub run_id: RunId,
    /// Its document.
    pub document_id: String,
    /// Its backlog entry, once MARK made one.
    pub entry_id: Option<Uuid>,
    /// Its lifecycle review decision, once SG_2 asked for one.
    pub review_decision_id: Option<Uuid>,
}

/// Live values by dimension (the names are the constants in [`crate::gate::drift`]), each as
/// canonical text. Two surveys are equal exactly if nothing that matters moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Survey(pub BTreeMap<String, String>);

/// One privilege or setting that the grant probe looked at, with what it saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantFact {
    /// Stable name, say `cutter_exec:EXECUTE:iu_core.fn_iu_create`.
    pub name: String,
    /// Must it hold, or must it not?
    pub wanted: bool,
    /// Does it hold?
    pub holds: bool,
}

/// Everything that the grant probe observed (IG_grant_probe), ordered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantSnapshot {
    /// Single privileges, wanted and unwanted.
    pub facts: Vec<GrantFact>,
    /// Functions of our schemas that PUBLIC may execute (must be empty).
    pub public_execute: Vec<String>,
    /// Other findings that must be empty: role attributes, memberships, ownership.
    pub violations: Vec<String>,
}

/// What IG_structural_verify counts over the rows of one change set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructuralFacts {
    /// Rows in `information_unit`.
    pub units: u64,
    /// Rows in `unit_version`.
    pub versions: u64,
    /// Rows in `unit_anchor`.
    pub anchors: u64,
    /// Distinct canonical addresses.
    pub distinct_addresses: u64,
    /// sha256 over the addresses in byte order, each followed by `\n`.
    pub addresses_sha: Option<Digest>,
    /// Stored content whose sha256 is not the stored content_hash.
    pub hash_mismatches: u64,
    /// Units by section_type.
    pub section_types: BTreeMap<String, u64>,
    /// Units by unit_kind.
    pub unit_kinds: BTreeMap<String, u64>,
    /// Units whose lifecycle_status is not `draft`.
    pub non_draft: u64,
    /// Units whose parent address is neither the document nor a unit of the change set.
    pub orphans: u64,
    /// sha256 over the stored contents in anchor order.
    pub region_sha: Option<Digest>,
    /// Units whose address is outside the document or under a forbidden prefix.
    pub forbidden: u64,
}

/// Where a unit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Written, but not enacted: it waits, or was refused.
    Draft,
    /// Enacted.
    Enacted,
    /// Voided before it was enacted.
    Voided,
}

impl Lifecycle {
    /// As it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Enacted => "enacted",
            Self::Voided => "voided",
        }
    }
}

impl core::fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::str::FromStr for Lifecycle {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Draft, Self::Enacted, Self::Voided]
            .into_iter()
            .find(|l| l.as_str() == text)
            .ok_or_else(|| alloc::format!("lifecycle status {text:?}: expected draft, enacted or voided"))
    }
}

/// Which cut of a document is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnitScope {
    /// What is in force: the enacted units of the newest version that has any.
    #[default]
    InForce,
    /// The newest version that has units which are not voided, be they drafts.
    Live,
    /// One change set with all of its units, wherever they stand.
    ChangeSet(Uuid),
}

/// Which units to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitQuery {
    /// The document.
    pub document_id: String,
    /// Which cut of it.
    pub scope: UnitScope,
    /// One version (1, 2, …) instead of the newest.
    pub version_no: Option<i32>,
    /// Only this address and what is below it.
    pub under: Option<String>,
    /// Start after this ordinal (paging by key).
    pub after_ordinal: Option<u64>,
    /// At most so many.
    pub limit: u64,
    /// Read the texts too.
    pub with_content: bool,
}

/// One stored unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRow {
    /// Row id.
    pub unit_id: Uuid,
    /// The change set that wrote it.
    pub change_set_id: Uuid,
    /// The source version that it was cut from.
    pub version_no: i32,
    /// Place in document order, from 0.
    pub ordinal: u64,
    /// The full address.
    pub canonical_address: String,
    /// The short address that people quote, where unique.
    pub citation_address: Option<String>,
    /// From the vocabulary `unit_kind`.
    pub unit_kind: String,
    /// From the vocabulary `section_type`.
    pub section_type: String,
    /// `draft`, `enacted` or `voided`.
    pub lifecycle_status: String,
    /// Byte offsets into the source version.
    pub start: u64,
    /// End of the span, exclusive.
    pub end: u64,
    /// sha256 of the unit's bytes.
    pub content_hash: Digest,
    /// sha256 of the bytes after its designator.
    pub body_hash: Digest,
    /// The unit's key (spec 2 §4).
    pub idempotency_key: Digest,
    /// The bytes, if asked for.
    pub content: Option<Vec<u8>>,
}

/// A registered version of a document, with one cut of it. A version that was cut again after a
/// void has a row for each cut, one that was never cut has one row without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionCut {
    /// 1, 2, … per document.
    pub version_no: i32,
    /// Row id of the version.
    pub source_version_id: Uuid,
    /// The cut.
    pub cut: Option<CutState>,
}

/// One cut of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutState {
    /// The change set.
    pub change_set_id: Uuid,
    /// The run that made it.
    pub run_id: RunId,
    /// How many units it announced.
    pub unit_count: u64,
    /// Where its units stand; enacted as soon as one is.
    pub status: Lifecycle,
    /// Whether the run recorded that it enacted them.
    pub is_enacted: bool,
}

/// What a migration moved of one dimension; `None` where there was, or is, no such dimension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinMove {
    /// The dimension.
    pub dimension: String,
    /// Its value before.
    pub before: Option<String>,
    /// Its value after.
    pub after: Option<String>,
}

impl<'a> UnitFact<'a> {
    /// A stored unit, with its text if it was read.
    #[must_use]
    pub fn of_stored(unit: &'a UnitRow) -> Self {
        Self {
            address: &unit.canonical_address,
            citation_address: unit.citation_address.as_deref(),
            unit_kind: &unit.unit_kind,
            start: unit.start,
            end: unit.end,
            content_hash: unit.content_hash,
            body_hash: unit.body_hash,
            text: unit.content.as_deref(),
        }
    }
}
