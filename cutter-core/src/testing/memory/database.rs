//! The database port of the model, all four principals.
//!
//! `begin` works on a private copy. `finish` checks the fence again, as a lock held to COMMIT
//! would have: a fence that was taken in between makes the older transaction fail. If another
//! run committed in between, the effect is performed again on what stands now, and committed
//! only if it sees the same facts; else nothing is written and the caller may try again.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;
use uuid::Uuid;

use super::evidence::evidence;
use super::rows::{DocumentRow, FenceRow, Lifecycle, Tables, UnitRecord, VersionRow};
use super::transaction::{Effect, Performed, Written, assert_fence, perform, record};
use super::world::{Data, Process};
use super::{asks, observe, snapshot, statement};
use crate::base::digest::Digest;
use crate::base::id::RunId;
use crate::base::vocabulary::Vocabulary;
use crate::port::database::{Begun, Executor, PendingEffect, Reader, Reviewer, Verifier};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::ask::{AnswerWrite, AskWrite, DecisionWrite, OpenAsk, StoredAsk};
use crate::record::effect::EffectName;
use crate::record::effect::{
    EffectContext, EffectFacts, EffectKey, EffectRecord, ExecutorEffect, ReviewWrite, Verdict,
    WriteVerifyWrite,
};
use crate::record::evidence::{RunEvidence, RunRows};
use crate::record::observed::{
    CutState, Fence, GrantSnapshot, Registered, SourceFacts, SourceRegistration, SourceVersionFacts,
    StructuralFacts, Survey, SurveyScope, UnitQuery, UnitRow, UnitScope, VersionCut,
};
use crate::record::policy::PolicyRecord;
use crate::record::stored_statement::{StatementSignature, StoredStatement};

const PORT: Port = Port::Database;

/// The database port of one process.
pub struct MemoryDatabase(pub(super) Process);

fn error(op: impl Into<String>, kind: PortErrorKind, message: impl Into<String>) -> PortError {
    PortError::new(PORT, op, kind, message)
}

#[async_trait]
impl Reader for MemoryDatabase {
    async fn check_schema(&self) -> PortResult<()> {
        self.0.call(PORT, "check_schema", |data| {
            if data.catalogue.schema_matches {
                return Ok(());
            }
            let message = "expected schema version 1, observed another; run `cutter db migrate`";
            Err(error("check_schema", PortErrorKind::Invalid, message))
        })
    }

    async fn now(&self) -> PortResult<jiff::Timestamp> {
        self.0.call(PORT, "now", |data| Ok(data.now))
    }

    async fn source(&self, document_id: &str) -> PortResult<Option<SourceFacts>> {
        self.0.call(PORT, "source", |data| Ok(source(&data.tables, document_id)))
    }

    async fn source_text(&self, source_version_id: Uuid) -> PortResult<Vec<u8>> {
        self.0.call(PORT, "source_text", |data| match data.tables.versions.get(&source_version_id) {
            Some(row) => Ok(row.content.to_vec()),
            None => {
                let message = format!("no row {source_version_id} in source_version");
                Err(error("source_text", PortErrorKind::NotFound, message))
            }
        })
    }

    async fn vocabulary(&self) -> PortResult<Vocabulary> {
        self.0.call(PORT, "vocabulary", |data| Ok(data.catalogue.vocabulary.clone()))
    }

    async fn survey(&self, scope: &SurveyScope) -> PortResult<Survey> {
        self.0.call(PORT, "survey", |data| Ok(observe::survey(&data.tables, &data.catalogue, scope)))
    }

    async fn policy(&self) -> PortResult<PolicyRecord> {
        self.0.call(PORT, "policy", |data| Ok(data.policy.clone()))
    }

    async fn grants(&self) -> PortResult<GrantSnapshot> {
        self.0.call(PORT, "grants", |data| Ok(data.catalogue.grants.clone()))
    }

    async fn effect(&self, key: &EffectKey) -> PortResult<Option<EffectRecord>> {
        self.0.call(PORT, "effect", |data| Ok(data.tables.effects.get(key).cloned()))
    }

    async fn structural(
        &self,
        change_set_id: Uuid,
        document_id: &str,
        forbidden_prefixes: &[String],
    ) -> PortResult<StructuralFacts> {
        self.0.call(PORT, "structural", |data| {
            Ok(observe::structural(&data.tables, change_set_id, document_id, forbidden_prefixes))
        })
    }

    async fn versions(&self, document_id: &str) -> PortResult<Vec<VersionCut>> {
        self.0.call(PORT, "versions", |data| Ok(versions(&data.tables, document_id)))
    }

    async fn units(&self, query: &UnitQuery) -> PortResult<Vec<UnitRow>> {
        self.0.call(PORT, "units", |data| Ok(units(&data.tables, query)))
    }

    async fn asks(&self, run_id: &RunId) -> PortResult<Vec<StoredAsk>> {
        self.0.call(PORT, "asks", |data| Ok(asks::of_run(&data.tables, run_id)))
    }

    async fn open_asks(&self, _since: Option<jiff::Timestamp>) -> PortResult<Vec<OpenAsk>> {
        self.0.call(PORT, "open_asks", |data| Ok(asks::open_asks(&data.tables, data.now)))
    }

    async fn rows(&self, run_id: &RunId) -> PortResult<Option<RunRows>> {
        self.0.call(PORT, "rows", |data| Ok(Some(snapshot::rows_of(&data.tables, run_id))))
    }

    async fn enacted_runs(&self, document_id: &str) -> PortResult<Vec<RunId>> {
        self.0.call(PORT, "enacted_runs", |data| {
            let effects = data.tables.effects.values();
            let own = effects.filter(|e| e.key.effect == EffectName::Enact);
            let of = |run_id: &&RunId| {
                data.tables.fences.get(*run_id).is_some_and(|fence| fence.document_id == document_id)
            };
            Ok(own.map(|e| &e.key.run_id).filter(of).cloned().collect())
        })
    }

    async fn statements(&self, run_id: &RunId) -> PortResult<Vec<StoredStatement>> {
        self.0.call(PORT, "statements", |data| {
            Ok(data.tables.statements.get(run_id).cloned().unwrap_or_default())
        })
    }

    async fn rows_digest(&self, change_set_id: Uuid) -> PortResult<Option<Digest>> {
        self.0.call(PORT, "rows_digest", |data| Ok(observe::rows_digest(&data.tables, change_set_id)))
    }

    async fn evidence(&self, run_id: &RunId) -> PortResult<RunEvidence> {
        self.0.call(PORT, "evidence", |data| Ok(evidence(&data.tables, run_id)))
    }
}

fn source(tables: &Tables, document_id: &str) -> Option<SourceFacts> {
    let document = tables.documents.get(document_id)?;
    let latest = observe::latest_version(tables, document_id).map(|v| SourceVersionFacts {
        source_version_id: v.source_version_id,
        version_no: v.version_no,
        sha256: v.sha256,
        bytes: v.content.len() as u64,
        manifest_digest: v.manifest_digest,
    });
    Some(SourceFacts {
        source_document_id: document.source_document_id,
        document_id: document.document_id.clone(),
        latest,
    })
}

fn versions(tables: &Tables, document_id: &str) -> Vec<VersionCut> {
    let mut rows: Vec<VersionCut> = Vec::new();
    let mut stored: Vec<_> = tables.versions.values().filter(|v| v.document_id == document_id).collect();
    stored.sort_by_key(|v| v.version_no);
    for version in stored {
        let mut cuts: Vec<_> = tables
            .change_sets
            .values()
            .filter(|c| c.kind == "cut" && c.source_version_id == version.source_version_id)
            .collect();
        cuts.sort_by_key(|c| (c.at, c.change_set_id));
        let of = |cut| VersionCut {
            version_no: version.version_no,
            source_version_id: version.source_version_id,
            cut,
        };
        if cuts.is_empty() {
            rows.push(of(None));
        }
        rows.extend(cuts.into_iter().map(|c| {
            let units = observe::units_of(tables, c.change_set_id);
            let status = if units.iter().any(|u| u.lifecycle_status == Lifecycle::Enacted) {
                Lifecycle::Enacted
            } else if tables.voids.values().any(|v| v.change_set_id == c.change_set_id) {
                Lifecycle::Voided
            } else {
                Lifecycle::Draft
            };
            let (change_set_id, run_id) = (c.change_set_id, c.run_id.clone());
            let key = EffectKey {
                run_id: run_id.clone(),
                effect: crate::record::effect::EffectName::Enact,
                occurrence: 1,
            };
            let is_enacted = tables.effects.get(&key).is_some_and(|e| e.verdict == Verdict::Commit);
            of(Some(CutState { change_set_id, run_id, unit_count: units.len() as u64, status, is_enacted }))
        }));
    }
    rows
}

/// The units of one version: the newest that the scope has, unless one is named.
fn units(tables: &Tables, query: &UnitQuery) -> Vec<UnitRow> {
    let number = |id: &Uuid| tables.versions.get(id).map_or(0, |v| v.version_no);
    let is_meant = |u: &UnitRecord| match query.scope {
        UnitScope::InForce => u.lifecycle_status == Lifecycle::Enacted,
        UnitScope::Live => u.lifecycle_status != Lifecycle::Voided,
        UnitScope::ChangeSet(id) => u.change_set_id == id,
    };
    let meant: Vec<_> =
        tables.units.values().filter(|u| u.document_id == query.document_id && is_meant(u)).collect();
    let newest = meant.iter().map(|u| number(&u.source_version_id)).max();
    let Some(version_no) = query.version_no.or(newest) else { return Vec::new() };
    let mut rows: Vec<_> = meant
        .into_iter()
        .filter(|u| number(&u.source_version_id) == version_no)
        .filter(|u| query.under.as_ref().is_none_or(|under| observe::is_under(&u.canonical_address, under)))
        .filter(|u| query.after_ordinal.is_none_or(|after| u.ordinal > after))
        .collect();
    rows.sort_by_key(|u| u.ordinal);
    rows.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
    rows.into_iter()
        .map(|u| UnitRow {
            unit_id: u.unit_id,
            change_set_id: u.change_set_id,
            version_no,
            ordinal: u.ordinal,
            canonical_address: u.canonical_address.clone(),
            citation_address: u.citation_address.clone(),
            unit_kind: u.unit_kind.clone(),
            section_type: u.section_type.clone(),
            lifecycle_status: u.lifecycle_status.as_str().to_string(),
            start: u.start,
            end: u.end,
            content_hash: u.content_hash,
            body_hash: u.body_hash,
            idempotency_key: u.idempotency_key,
            content: query.with_content.then(|| u.content.to_vec()),
        })
        .collect()
}

#[async_trait]
impl Executor for MemoryDatabase {
    async fn register_source(&self, registration: &SourceRegistration) -> PortResult<Registered> {
        self.0.call(PORT, "register_source", |data| register(data, registration))
    }

    async fn take_fence(&self, run_id: &RunId, document_id: &str, holder: Uuid) -> PortResult<Fence> {
        self.0.call(PORT, "take_fence", |data| {
            let row = data.tables.fences.entry(run_id.clone()).or_insert_with(|| FenceRow {
                document_id: document_id.to_string(),
                epoch: 0,
                holder,
            });
            if row.document_id != document_id {
                let message = format!("{run_id} cuts {}, not {document_id}", row.document_id);
                return Err(error("take_fence", PortErrorKind::Conflict, message));
            }
            row.epoch += 1;
            row.holder = holder;
            Ok(Fence {
                run_id: run_id.clone(),
                document_id: document_id.to_string(),
                epoch: row.epoch,
                holder,
            })
        })
    }

    async fn store_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.0.call(PORT, "store_statement", |data| {
            assert_fence(&data.tables, fence, "store_statement")?;
            statement::store(&mut data.tables, fence, body, signature)
        })
    }

    async fn open_ask(&self, fence: &Fence, ask: &AskWrite) -> PortResult<()> {
        self.0.call(PORT, "open_ask", |data| {
            assert_fence(&data.tables, fence, "open_ask")?;
            asks::open(&mut data.tables, fence, ask)
        })
    }

    async fn begin(&self, cx: &EffectContext, effect: &ExecutorEffect) -> PortResult<Begun> {
        self.open(cx, Effect::Executor(effect.clone()))
    }
}

fn register(data: &mut Data, registration: &SourceRegistration) -> PortResult<Registered> {
    let op = "register_source";
    let SourceRegistration { document_id, content, sha256, .. } = registration;
    if document_id.is_empty() {
        return Err(error(op, PortErrorKind::Invalid, "the document id is empty"));
    }
    let observed = Digest::of(content);
    if observed != *sha256 {
        let message = format!("sha256 of the text: expected {sha256}, observed {observed}");
        return Err(error(op, PortErrorKind::Invalid, message));
    }
    let tables = &mut data.tables;
    let missing = || error(op, PortErrorKind::Corrupt, "the registered source does not read back");
    let latest = observe::latest_version(tables, document_id).map(|v| (v.sha256, v.version_no));
    if latest.is_some_and(|(latest, _)| latest == *sha256) {
        return Ok(Registered { source: source(tables, document_id).ok_or_else(missing)?, already: true });
    }
    if tables.versions.contains_key(&registration.source_version_id) {
        let message = format!("source version {} exists", registration.source_version_id);
        return Err(error(op, PortErrorKind::Conflict, message));
    }
    let new = !tables.documents.contains_key(document_id);
    if new && tables.documents.values().any(|d| d.source_document_id == registration.source_document_id) {
        let message = format!("source document {} exists", registration.source_document_id);
        return Err(error(op, PortErrorKind::Conflict, message));
    }
    if new {
        tables.documents.insert(
            document_id.clone(),
            DocumentRow {
                source_document_id: registration.source_document_id,
                document_id: document_id.clone(),
                title: registration.title.clone(),
                actor: registration.actor.clone(),
            },
        );
    }
    tables.versions.insert(
        registration.source_version_id,
        VersionRow {
            source_version_id: registration.source_version_id,
            document_id: document_id.clone(),
            version_no: latest.map_or(1, |(_, number)| number.saturating_add(1)),
            sha256: *sha256,
            manifest_digest: registration.manifest_digest,
            actor: registration.actor.clone(),
            content: alloc::sync::Arc::new(content.clone()),
        },
    );
    let facts = source(tables, document_id).ok_or_else(missing)?;
    data.commits += 1;
    Ok(Registered { source: facts, already: false })
}

#[async_trait]
impl Reviewer for MemoryDatabase {
    async fn record_answers(&self, run_id: &RunId, answers: &[AnswerWrite]) -> PortResult<()> {
        self.0.call(PORT, "record_answers", |data| {
            let mut tables = data.tables.clone();
            asks::record(&mut tables, run_id, answers)?;
            data.tables = tables;
            data.commits += 1;
            Ok(())
        })
    }

    async fn record_decision(&self, run_id: &RunId, decision: &DecisionWrite) -> PortResult<()> {
        self.0.call(PORT, "record_decision", |data| {
            let decided = asks::decide(&data.tables, &data.catalogue, run_id, decision, data.now)?;
            if let Some(tables) = decided {
                data.tables = tables;
                data.commits += 1;
            }
            Ok(())
        })
    }

    async fn begin(&self, cx: &EffectContext, effect: &ReviewWrite) -> PortResult<Begun> {
        self.open(cx, Effect::Review(effect.clone()))
    }
}

#[async_trait]
impl Verifier for MemoryDatabase {
    async fn sign_statement(
        &self,
        fence: &Fence,
        statement: &Digest,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.0.call(PORT, "sign_statement", |data| {
            assert_fence(&data.tables, fence, "sign_statement")?;
            statement::sign(&mut data.tables, &fence.run_id, statement, signature)
        })
    }

    async fn begin(&self, cx: &EffectContext, effect: &WriteVerifyWrite) -> PortResult<Begun> {
        self.open(cx, Effect::WriteVerify(effect.clone()))
    }
}

struct Pending {
    process: Process,
    cx: EffectContext,
    effect: Effect,
    written: Box<Written>,
    /// How many commits, and changes behind the ports, there were when the copy was taken.
    seen: (u64, u64),
}

impl MemoryDatabase {
    fn open(&self, cx: &EffectContext, effect: Effect) -> PortResult<Begun> {
        let op = format!("begin {}", cx.key.effect);
        self.0.call(PORT, &op, |data| {
            let written = match perform(&data.tables, &data.catalogue, cx, &effect, false)? {
                Performed::Recorded(record) => return Ok(Begun::Recorded(*record)),
                Performed::Written(written) => written,
            };
            data.catalogue.strike(cx.key.effect);
            Ok(Begun::Pending(Box::new(Pending {
                process: self.0.clone(),
                cx: cx.clone(),
                effect,
                written,
                seen: (data.commits, data.alterations),
            })))
        })
    }
}

#[async_trait]
impl PendingEffect for Pending {
    fn facts(&self) -> &EffectFacts {
        &self.written.facts
    }

    async fn finish(self: Box<Self>, verdict: Verdict) -> PortResult<Option<EffectRecord>> {
        let process = self.process.clone();
        let op = format!("finish {}", self.cx.key.effect);
        process.call(PORT, &op, |data| match verdict {
            Verdict::Rollback => Ok(None),
            Verdict::Commit | Verdict::CommitFailure => self.commit(data, &op, verdict).map(Some),
        })
    }
}

impl Pending {
    fn commit(self: Box<Self>, data: &mut Data, op: &str, verdict: Verdict) -> PortResult<EffectRecord> {
        let Self { cx, effect, written, seen, .. } = *self;
        assert_fence(&data.tables, &cx.fence, op)?;
        let failing = verdict == Verdict::CommitFailure && matches!(effect, Effect::WriteVerify(_));
        let moved = seen != (data.commits, data.alterations);
        let again = |failing| match perform(&data.tables, &data.catalogue, &cx, &effect, failing)? {
            Performed::Written(written) => Ok(written),
            Performed::Recorded(record) => {
                let message = format!("another transaction recorded {} first", record.effect_id);
                Err(error(op, PortErrorKind::Busy, message))
            }
        };
        if moved && again(false)?.facts != written.facts {
            let message = "another transaction changed what was observed; nothing was written, try again";
            return Err(error(op, PortErrorKind::Busy, message));
        }
        let written = if moved || failing { again(failing)? } else { written };
        if let Some(refusal) = written.refusal {
            return Err(refusal);
        }
        let Written { mut tables, facts, .. } = *written;
        // fences are no part of an effect: what was taken since stays
        tables.fences = core::mem::take(&mut data.tables.fences);
        let record = record(&mut tables, &cx, facts, verdict);
        data.tables = tables;
        data.commits += 1;
        Ok(record)
    }
}
