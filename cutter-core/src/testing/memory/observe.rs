//! What the model observes: surveys, grants, structural counts, digests. Everything is
//! computed from the stored rows, never echoed from a request.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;
use uuid::Uuid;

use super::rows::{Lifecycle, Tables, UnitRecord};
use crate::base::canonical::Writer;
use crate::base::digest::{Digest, Hasher};
use crate::base::id::RunId;
use crate::base::vocabulary::Vocabulary;
use crate::gate::drift;
use crate::record::effect::EffectName;
use crate::record::observed::{GrantSnapshot, StructuralFacts, Survey, SurveyScope};
use crate::record::rows::{RowFields, RowsHeader};

/// What a real database has beside rows: identity, functions, triggers, grants, settings.
#[derive(Debug, Clone)]
pub(super) struct Catalogue {
    pub(super) identity: String,
    pub(super) migrations: String,
    pub(super) schema_matches: bool,
    /// `schema.name` to fingerprint.
    pub(super) functions: BTreeMap<String, String>,
    /// Trigger name to `tgenabled`.
    pub(super) triggers: BTreeMap<String, String>,
    pub(super) replication_role: String,
    pub(super) grants: GrantSnapshot,
    pub(super) vocabulary: Vocabulary,
    /// Functions to be replaced inside the next transaction of an effect.
    pub(super) struck_inside: Vec<(EffectName, String, String)>,
    /// What only a trigger refuses is committed.
    pub(super) guards_dropped: bool,
}

impl Catalogue {
    /// The catalogue as other sessions leave it while an effect's transaction is open.
    pub(super) fn strike(&mut self, effect: EffectName) {
        let (now, later) =
            core::mem::take(&mut self.struck_inside).into_iter().partition(|(name, _, _)| *name == effect);
        self.struck_inside = later;
        let now: Vec<(EffectName, String, String)> = now;
        self.functions.extend(now.into_iter().map(|(_, name, fingerprint)| (name, fingerprint)));
    }
}

impl Default for Catalogue {
    fn default() -> Self {
        let functions = ["iu_core.fn_iu_create", "iu_core.fn_iu_apply_edit_draft", "iu_core.fn_iu_enact"]
            .into_iter()
            .map(|name| (name.to_string(), Digest::of(name.as_bytes()).to_hex()))
            .collect();
        let triggers = ["trg_iu_enacted_immut", "trg_uv_enacted_immut"]
            .into_iter()
            .map(|name| (name.to_string(), "O".to_string()))
            .collect();
        let fact = |name: &str, wanted| crate::record::observed::GrantFact {
            name: name.to_string(),
            wanted,
            holds: wanted,
        };
        Self {
            identity: "memory/1".to_string(),
            migrations: Digest::of(b"memory migrations").to_hex(),
            schema_matches: true,
            functions,
            triggers,
            replication_role: "origin".to_string(),
            grants: GrantSnapshot {
                facts: alloc::vec![
                    fact("cutter_exec:EXECUTE:iu_core.fn_iu_apply_edit_draft", true),
                    fact("cutter_exec:EXECUTE:iu_core.fn_iu_create", true),
                    fact("cutter_exec:EXECUTE:iu_core.fn_iu_enact", true),
                    fact("cutter_exec:INSERT:cutter_governance.approval", false),
                    fact("cutter_verify:INSERT:cutter_governance.verify_result", true),
                    fact("cutter_verify:SELECT:cutter_governance.verify_result", true),
                    fact("directus:SELECT:cutter_governance.review_decision", true),
                ],
                public_execute: Vec::new(),
                violations: Vec::new(),
            },
            vocabulary: Vocabulary::default(),
            struck_inside: Vec::new(),
            guards_dropped: false,
        }
    }
}

/// sha256 of a value's JSON. Fields keep their declared order, so equal values give equal
/// digests.
pub(super) fn json_digest<T: Serialize>(value: &T) -> String {
    match serde_json::to_vec(value) {
        Ok(bytes) => Digest::of(&bytes).to_hex(),
        Err(error) => format!("unserialisable: {error}"),
    }
}

/// Takes a survey (PROTOCOL §4).
pub(super) fn survey(tables: &Tables, catalogue: &Catalogue, scope: &SurveyScope) -> Survey {
    let mut map = BTreeMap::new();
    let mut put = |name: &str, value: String| map.insert(name.to_string(), value);
    put(drift::DATABASE_IDENTITY, catalogue.identity.clone());
    put(drift::MIGRATIONS, catalogue.migrations.clone());
    put(drift::TRIGGERS, json_digest(&catalogue.triggers));
    let mut units: Vec<_> = tables
        .units
        .values()
        .filter(|u| u.document_id == scope.document_id)
        .map(|u| (&u.canonical_address, u.unit_id, u.content_hash, u.lifecycle_status.as_str()))
        .collect();
    units.sort();
    put(drift::UNIT_ROWS, units.len().to_string());
    let digested: Vec<_> = units.iter().map(|(address, _, hash, status)| (address, hash, status)).collect();
    put(drift::UNIT_DIGEST, json_digest(&digested));
    put(
        drift::LATEST_VERSION,
        latest_version(tables, &scope.document_id)
            .map(|v| format!("{}/{}", v.source_version_id, v.sha256))
            .unwrap_or_default(),
    );
    put(
        drift::BACKLOG_STATUS,
        scope
            .entry_id
            .and_then(|id| tables.entries.get(&id))
            .map(|entry| entry.status.as_str().to_string())
            .unwrap_or_default(),
    );
    let decisions = scope.review_decision_id.filter(|id| tables.decisions.contains_key(id));
    put(drift::REVIEW_DECISIONS, u64::from(decisions.is_some()).to_string());
    let approvals = tables.approvals.values().filter(|a| a.run_id == scope.run_id).count();
    put(drift::APPROVALS, approvals.to_string());
    put(drift::VOCABULARY, json_digest(&catalogue.vocabulary));
    put(drift::GRANTS, json_digest(&catalogue.grants));
    for (name, fingerprint) in &catalogue.functions {
        put(&format!("{}{name}", drift::FUNCTION_PREFIX), fingerprint.clone());
    }
    Survey(map)
}

/// The newest version of a document.
pub(super) fn latest_version<'a>(
    tables: &'a Tables,
    document_id: &str,
) -> Option<&'a super::rows::VersionRow> {
    tables.versions.values().filter(|v| v.document_id == document_id).max_by_key(|v| v.version_no)
}

/// Units of a change set in anchor order.
pub(super) fn units_of(tables: &Tables, change_set_id: Uuid) -> Vec<&UnitRecord> {
    let mut units: Vec<_> = tables.units.values().filter(|u| u.change_set_id == change_set_id).collect();
    units.sort_by_key(|u| (u.start, u.ordinal));
    units
}

/// Whether a change set counts: it was never voided.
pub(super) fn is_live(tables: &Tables, change_set_id: Uuid) -> bool {
    tables.change_sets.get(&change_set_id).is_some_and(|set| set.kind == "cut")
        && !tables.voids.values().any(|v| v.change_set_id == change_set_id)
}

/// The counts of IG_structural_verify (D18, D19).
pub(super) fn structural(
    tables: &Tables,
    change_set_id: Uuid,
    document_id: &str,
    forbidden_prefixes: &[String],
) -> StructuralFacts {
    let units = units_of(tables, change_set_id);
    let addresses: BTreeSet<&str> = units.iter().map(|u| u.canonical_address.as_str()).collect();
    let mut facts = StructuralFacts {
        units: units.len() as u64,
        versions: units.iter().map(|u| u.version_id).collect::<BTreeSet<_>>().len() as u64,
        anchors: units.iter().map(|u| u.anchor_id).collect::<BTreeSet<_>>().len() as u64,
        distinct_addresses: addresses.len() as u64,
        ..StructuralFacts::default()
    };
    let mut address_hasher = Hasher::new();
    for address in &addresses {
        address_hasher.update(address.as_bytes());
        address_hasher.update(b"\n");
    }
    let mut region = Hasher::new();
    for unit in &units {
        region.update(&unit.content);
        facts.hash_mismatches += u64::from(Digest::of(&unit.content) != unit.content_hash);
        facts.non_draft += u64::from(unit.lifecycle_status != Lifecycle::Draft);
        *facts.section_types.entry(unit.section_type.clone()).or_insert(0) += 1;
        *facts.unit_kinds.entry(unit.unit_kind.clone()).or_insert(0) += 1;
        let address = unit.canonical_address.as_str();
        let parent = address.rsplit_once('/').map_or("", |(parent, _)| parent);
        facts.orphans +=
            u64::from(address != document_id && parent != document_id && !addresses.contains(parent));
        let inside = is_under(address, document_id);
        let banned = forbidden_prefixes.iter().any(|prefix| is_under(address, prefix));
        facts.forbidden += u64::from(!inside || banned);
    }
    if !units.is_empty() {
        facts.addresses_sha = Some(address_hasher.finish());
        facts.region_sha = Some(region.finish());
    }
    facts
}

/// Whether an address is a prefix or below it. `ICX-CONST2` is not under `ICX-CONST`.
pub(super) fn is_under(address: &str, prefix: &str) -> bool {
    address.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The writer digest of the stored rows (spec 2 §6): the formula of [`crate::text::plan`] over what
/// the tables hold.
pub(super) fn writer_digest(tables: &Tables, change_set_id: Uuid) -> Digest {
    let mut units = units_of(tables, change_set_id);
    units.sort_by(|a, b| a.canonical_address.as_bytes().cmp(b.canonical_address.as_bytes()));
    let mut w = Writer::new();
    w.begin_array();
    for unit in units {
        w.begin_array();
        w.string(&unit.canonical_address);
        w.string(&unit.unit_kind);
        w.string(&unit.section_type);
        w.string(&unit.content_hash.to_hex());
        w.string(&unit.idempotency_key.to_hex());
        w.end_array();
    }
    w.end_array();
    Digest::of(w.finish().as_bytes())
}

/// The rows digest of the stored rows ([`crate::record::rows`]), contents hashed again.
pub(super) fn rows_digest(tables: &Tables, change_set_id: Uuid) -> Option<Digest> {
    let set = tables.change_sets.get(&change_set_id)?;
    let version = tables.versions.get(&set.source_version_id)?;
    let units = units_of(tables, change_set_id);
    let region = (units.first().map_or(0, |u| u.start), units.last().map_or(0, |u| u.end));
    let header = RowsHeader {
        document_id: &set.document_id,
        version_no: u64::try_from(version.version_no).unwrap_or_default(),
        source_sha256: &Digest::of(&version.content),
        region,
        publication_type: &set.publication_type,
        unit_count: units.len() as u64,
    };
    let hashes: Vec<Digest> = units.iter().map(|u| Digest::of(&u.content)).collect();
    let rows = units.iter().zip(&hashes).map(|(u, content_hash)| RowFields {
        ordinal: u.ordinal,
        canonical_address: &u.canonical_address,
        citation_address: u.citation_address.as_deref(),
        unit_kind: &u.unit_kind,
        section_type: &u.section_type,
        designator: None,
        title: None,
        language: None,
        span: (u.start, u.end),
        content_hash,
        body_hash: &u.body_hash,
        idempotency_key: &u.idempotency_key,
    });
    Some(crate::record::rows::rows_digest(&header, rows))
}

/// The digest of the set of units that an enactment is about.
pub(super) fn unit_set_digest(tables: &Tables, change_set_id: Uuid) -> Digest {
    let units = units_of(tables, change_set_id);
    crate::text::plan::set_digest(units.iter().map(|u| (u.canonical_address.as_str(), &u.content_hash)))
}

/// The document's closure, table by table, each row as one JSON line, in key order. Rows of
/// `except` (a run) are left out. Fences, effects and leases are not part of it (PROTOCOL §7).
pub(super) fn closure(
    tables: &Tables,
    vocabulary: &Vocabulary,
    document_id: &str,
    except: Option<&RunId>,
) -> Vec<(&'static str, Vec<String>)> {
    fn line<T: Serialize>(row: &T) -> String {
        serde_json::to_string(row).unwrap_or_else(|error| format!("unserialisable: {error}"))
    }
    macro_rules! rows {
        ($field:ident) => {
            tables
                .$field
                .values()
                .filter(|row| row.document_id == document_id && except != Some(&row.run_id))
                .map(line)
                .collect()
        };
    }
    let history = tables
        .history
        .iter()
        .filter(|row| row.document_id == document_id && except != Some(&row.run_id))
        .map(line)
        .collect();
    // A pass says who looked; what it moved stands in the entries and their history. So it is in the
    // backup, and no part of the base state.
    let sweeps = tables
        .sweeps
        .values()
        .filter(|row| row.document_id == document_id && except.is_none())
        .map(line)
        .collect();
    alloc::vec![
        (
            "source_document",
            tables.documents.values().filter(|row| row.document_id == document_id).map(line).collect()
        ),
        (
            "source_version",
            tables.versions.values().filter(|row| row.document_id == document_id).map(line).collect()
        ),
        ("information_unit", rows!(units)),
        ("iu_lifecycle_log", rows!(log)),
        ("cut_change_set", rows!(change_sets)),
        ("change_set_void", rows!(voids)),
        ("manifest_envelope", rows!(envelopes)),
        ("review_decision", rows!(decisions)),
        ("approval", rows!(approvals)),
        ("approval_use", rows!(approval_uses)),
        ("dot_pair_signature", rows!(signatures)),
        ("verify_result", rows!(verify_results)),
        ("decision_backlog_entry", rows!(entries)),
        ("decision_backlog_history", history),
        ("decision_backlog_sweep_log", sweeps),
        ("dot_config", alloc::vec![line(vocabulary)]),
    ]
}

/// sha256 over a table's lines.
pub(super) fn table_sha(lines: &[String]) -> Digest {
    let mut hasher = Hasher::new();
    for line in lines {
        hasher.update(line.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finish()
}

/// The base state: the closure's table digests, less the run's own rows.
pub(super) fn base_state(
    tables: &Tables,
    vocabulary: &Vocabulary,
    document_id: &str,
    run_id: &RunId,
) -> Digest {
    let mut hasher = Hasher::new();
    for (table, lines) in closure(tables, vocabulary, document_id, Some(run_id)) {
        hasher.update(format!("{table} {} {}\n", lines.len(), table_sha(&lines)).as_bytes());
    }
    hasher.finish()
}
