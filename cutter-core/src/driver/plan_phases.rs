//! source_pin, mark and cutplan: what would be cut, pinned before anything is.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;

use super::cut_phases::commit_if_ok;
use super::enter::Acted;
use super::perform::{Act, Performance};
use super::run::{Halt, Run, payload_digest};
use crate::base::digest::Digest;
use crate::base::key;
use crate::base::vocabulary::Vocabulary;
use crate::gate::plan_of::{plan_of, try_plan_of};
use crate::gate::{ApprovedRows, backlog, cutplan, mark, source_pin};
use crate::machine::backlog::BacklogState;
use crate::machine::run::{GateId, Phase};
use crate::machine::stop::StopReason;
use crate::record::approval::field;
use crate::record::check::{Check, GateReport};
use crate::record::effect::{EffectFacts, EffectName, ExecutorEffect, MarkWrite, SweepWrite, Verdict, fact};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::text::mark::body_region;
use crate::text::plan::{CutPlan, PlanError};

/// What one plan is built from, read afresh.
pub(super) struct Source {
    pub(super) text: Vec<u8>,
    pub(super) vocabulary: Vocabulary,
}

impl Run<'_> {
    /// Reads the pinned version's text and the vocabularies.
    pub(super) async fn read_source(&self) -> Result<Source, Halt> {
        let missing = || Halt::corrupt("no source version is pinned");
        let version = self.sidecar.source_version_id.ok_or_else(missing)?;
        let text = self.ports.reader.source_text(version).await.map_err(|e| self.halt(e))?;
        let vocabulary = self.ports.reader.vocabulary().await.map_err(|e| self.halt(e))?;
        Ok(Source { text, vocabulary })
    }

    /// The plan, from the cache or built again from the database's own bytes.
    pub(super) async fn plan(&mut self) -> Result<&CutPlan, Halt> {
        if self.plan.is_none() {
            let source = self.read_source().await?;
            let plan = self.build(&source)?;
            self.text = source.text;
            self.plan = Some(plan);
        }
        self.plan.as_ref().ok_or_else(|| Halt::stop(StopReason::Internal, "no plan"))
    }

    /// The digest of the rows that this run's cut stores. SG_2 is asked about the same rows as
    /// SG_1: a plan that gives others is drift.
    pub(super) async fn rows_digest(&mut self) -> Result<Digest, Halt> {
        let version = self.sidecar.pinned(pin::SOURCE_VERSION_NO)?;
        let rows = self.plan().await?.rows_digest(version);
        match self.named_rows().filter(|named| *named != rows) {
            None => Ok(rows),
            Some(named) => Err(Halt::drift(&[crate::gate::drift::Difference {
                dimension: "rows_digest".to_owned(),
                expected: Some(named.to_hex()),
                observed: Some(rows.to_hex()),
            }])),
        }
    }

    /// The rows that the newest ask of SG_1 or SG_2 names; an ask made before asks named rows
    /// names none.
    pub(super) fn named_rows(&self) -> Option<Digest> {
        let named = self.sidecar.ask.as_ref()?.required.get(field::ROWS_DIGEST)?;
        named.parse().ok()
    }

    /// Whether the open request names everything that an approval must name.
    pub(super) fn names_all(&self) -> bool {
        let Some(ask) = &self.sidecar.ask else { return false };
        let is_named = |key: &&str| ask.required.get(*key).is_some_and(|v| !v.is_empty());
        self.named_rows().is_some() && [field::SETTINGS_SHA256, field::POLICY_HEAD].iter().all(is_named)
    }

    /// What the gates of writing phases compare the stored rows with.
    pub(super) async fn approved_rows(&mut self) -> Result<ApprovedRows, Halt> {
        let is_named = self.named_rows().is_some();
        Ok(ApprovedRows { digest: self.rows_digest().await?, is_named })
    }

    /// The same for what writes no rows of the plan: the signed answer names them, and the database
    /// compares the stored rows with it. The text is planned again only where none were named.
    pub(super) async fn signed_rows(&mut self) -> Result<ApprovedRows, Halt> {
        match self.named_rows() {
            Some(digest) => Ok(ApprovedRows { digest, is_named: true }),
            None => self.approved_rows().await,
        }
    }

    fn build(&self, source: &Source) -> Result<CutPlan, Halt> {
        plan_of(&self.sidecar.document_id, &source.text, &source.vocabulary, &self.sidecar.settings)
            .map_err(|text| Halt::stop(StopReason::Internal, text))
    }

    /// The plan and the number of its units. Where there are too many they were only counted, and
    /// the plan holds what is pinned without them.
    fn counted(&self, source: &Source) -> Result<(CutPlan, u64), String> {
        let settings = &self.sidecar.settings;
        match try_plan_of(&self.sidecar.document_id, &source.text, &source.vocabulary, settings)? {
            Ok(plan) => {
                let count = plan.rows.len() as u64;
                Ok((plan, count))
            }
            Err(PlanError::TooMany { observed, without_units, .. }) => Ok((*without_units, observed)),
            Err(other) => Err(other.to_string()),
        }
    }

    /// IG_source_pin: the version exists; span, sha, profile and manifest digest are pinned.
    pub(super) async fn source_pin(&mut self) -> Result<Acted, Halt> {
        let document_id = self.sidecar.document_id.clone();
        let found = self.ports.reader.source(&document_id).await.map_err(|e| self.halt(e))?;
        let mut facts = source_pin::SourcePinFacts {
            document_id,
            source: found.clone(),
            text_sha: None,
            text_bytes: 0,
            manifest_digest: None,
            max_bytes: self.sidecar.settings.max_document_bytes,
            utf8: false,
            refused: None,
        };
        let mut work = Vec::new();
        if let Some((source, version)) = found.and_then(|s| s.latest.clone().map(|v| (s, v))) {
            self.sidecar.source_document_id = Some(source.source_document_id);
            self.sidecar.source_version_id = Some(version.source_version_id);
            self.pin(pin::SOURCE_SHA256, version.sha256);
            self.pin(pin::SOURCE_VERSION_NO, version.version_no.unsigned_abs().into());
            let read = self.read_source().await?;
            facts.text_sha = Some(Digest::of(&read.text));
            facts.text_bytes = read.text.len() as u64;
            facts.utf8 = core::str::from_utf8(&read.text).is_ok();
            match self.counted(&read) {
                Ok((plan, _)) => {
                    facts.manifest_digest = Some(plan.manifest_digest);
                    self.pin_plan(&plan);
                    work.push(format!("read version {} of {} bytes", version.version_no, facts.text_bytes));
                    work.push(format!("pinned region {}..{}", plan.region.start, plan.region.end));
                    work.push(format!("profile {} version {}", plan.profile.name, plan.profile.version));
                }
                Err(text) => facts.refused = Some(text),
            }
        }
        let gate = source_pin::judge(&facts);
        let key = self.sidecar.source_version_id.map(|id| key::source_pin(&self.sidecar.document_id, id));
        let pins = ["manifest_digest", "region_sha", "profile_digest"];
        Ok(Acted {
            gate,
            key: key.map_or_else(String::new, |k| k.to_string()),
            mutation: "NONE".to_owned(),
            work,
            diff: self.pinned(&pins),
            artifacts: Vec::new(),
            verdict: self.verdict("source_pinned"),
            closing: None,
        })
    }

    fn pin_plan(&mut self, plan: &CutPlan) {
        self.pin(pin::MANIFEST_DIGEST, plan.manifest_digest);
        self.pin(pin::REGION_SHA, plan.region.sha256);
        self.pin(pin::REGION_START, plan.region.start);
        self.pin(pin::REGION_END, plan.region.end);
        self.pin(pin::PROFILE, format!("{}/{}", plan.profile.name, plan.profile.version));
        self.pin(pin::PROFILE_DIGEST, plan.profile.digest);
        self.pin(pin::VOCABULARY_DIGEST, plan.vocabulary_digest);
        self.pin(pin::PUBLICATION_TYPE, plan.publication_type.clone());
    }

    /// IG_mark: the region is extracted again, independently, and compared (D27); the
    /// backlog entry is made (S0) and swept (S1).
    pub(super) async fn mark(&mut self) -> Result<Acted, Halt> {
        let source = self.read_source().await?;
        let region = body_region(&source.text, &self.sidecar.settings.profile)
            .map_err(|e| Halt::stop(StopReason::Internal, e.to_string()))?;
        let region_sha = source.text.get(region.start..region.end).map(Digest::of).unwrap_or(Digest::of(b""));
        let (plan, count) = self.counted(&source).map_err(|text| Halt::stop(StopReason::Internal, text))?;
        let is_whole = plan.rows.len() as u64 == count;
        let mut facts = mark::MarkFacts {
            region_sha_pin: self.sidecar.pinned(pin::REGION_SHA)?,
            region_sha,
            region_pin: (self.sidecar.pinned(pin::REGION_START)?, self.sidecar.pinned(pin::REGION_END)?),
            region: (region.start, region.end),
            candidate_count: count,
            max_candidates: self.sidecar.settings.max_candidates,
            // Of too many none was built that could overlap.
            partition_ok: !is_whole || tiles(region.start, region.end, &plan),
            unreported_duplicates: unreported(&plan),
            entry_status_after_mark: None,
            entry_status_after_sweep: None,
            live: self.live(),
        };
        let manifest_digest = plan.manifest_digest;
        self.pin(pin::CANDIDATE_COUNT, count);
        self.pin(pin::DUPLICATES, plan.duplicates.len());
        self.pin(pin::WARNINGS, plan.warnings.len());
        if is_whole {
            self.plan = Some(plan);
            self.text = source.text;
        }
        if self.live() && mark::judge(&facts).failures().iter().all(|c| mark::needs_database(&c.invariant)) {
            self.enter_backlog(&mut facts, count, manifest_digest, region_sha).await?;
        }
        let previous = self.derived_key(Phase::SourcePin)?;
        Ok(Acted {
            gate: mark::judge(&facts),
            key: key::mark(&previous, &region_sha).to_string(),
            mutation: self.scope_of("cutter_governance.decision_backlog_entry"),
            work: vec![
                format!("extracted {}..{} again from the stored bytes", region.start, region.end),
                format!("marked {count} candidates"),
                "made the backlog entry (S0) and swept it (S1)".to_owned(),
            ],
            diff: self.pinned(&["candidate_count", "entry_id"]),
            artifacts: Vec::new(),
            verdict: self.verdict("marked"),
            closing: None,
        })
    }

    /// The entries that this cut waits for, by id and each once.
    fn depends_on(&self) -> Result<Vec<Uuid>, Halt> {
        let named = &self.sidecar.settings.depends_on;
        let parsed: Result<BTreeSet<Uuid>, _> = named.iter().map(|id| Uuid::parse_str(id)).collect();
        match parsed {
            Ok(ids) => Ok(ids.into_iter().collect()),
            Err(_) => {
                let check = Check::new("mark.depends_on", "ids of backlog entries", named.join(", "), false);
                Err(Halt::Fail(Box::new(GateReport { gate: GateId::Mark, checks: vec![check] })))
            }
        }
    }

    async fn enter_backlog(
        &mut self,
        facts: &mut mark::MarkFacts,
        candidate_count: u64,
        manifest_digest: Digest,
        region_sha: Digest,
    ) -> Result<(), Halt> {
        let intent = self.intent()?.clone();
        let (document, version) = self.source_ids()?;
        let entry_id = intent.id(IdName::Entry)?;
        let write = MarkWrite {
            entry_id,
            history_id: intent.id(IdName::EntryHistory)?,
            source_document_id: document,
            source_version_id: version,
            idempotency_key: *key::ik_mark(&self.sidecar.document_id, version, &manifest_digest, &region_sha)
                .digest(),
            region_sha,
            manifest_digest,
            candidate_count,
            depends_on: self.depends_on()?,
        };
        self.pin(pin::ENTRY_ID, entry_id);
        let payload = payload_digest(&write)?;
        let judge = commit_if_status(BacklogState::Marked);
        let (record, _) = self
            .perform(Performance {
                act: Act::Execute(&ExecutorEffect::Mark(write)),
                effect: EffectName::Mark,
                occurrence: 1,
                payload,
                intent: &intent,
                phase: Phase::Mark,
                units: 0,
                recheck: None,
                judge: &judge,
            })
            .await?;
        facts.entry_status_after_mark = record.facts.values.get(fact::ENTRY_STATUS).cloned();
        let sweep = SweepWrite {
            entry_id,
            sweep_id: intent.id(IdName::Sweep)?,
            history_id: intent.id(IdName::SweepHistory)?,
        };
        let payload = payload_digest(&sweep)?;
        let judge = commit_if_status(BacklogState::ReviewPending);
        let (record, _) = self
            .perform(Performance {
                act: Act::Execute(&ExecutorEffect::Sweep(sweep)),
                effect: EffectName::Sweep,
                occurrence: 1,
                payload,
                intent: &intent,
                phase: Phase::Mark,
                units: 0,
                recheck: None,
                judge: &judge,
            })
            .await?;
        facts.entry_status_after_sweep = record.facts.values.get(fact::ENTRY_STATUS).cloned();
        Ok(())
    }

    /// IG_cutplan: two independent rebuilds give one writer digest.
    pub(super) async fn cutplan(&mut self) -> Result<Acted, Halt> {
        let first = {
            let source = self.read_source().await?;
            self.build(&source)?
        };
        let source = self.read_source().await?;
        let second = self.build(&source)?;
        let distinct = |values: BTreeSet<String>| values.len() as u64;
        let facts = cutplan::CutplanFacts {
            writer_digests: [first.writer_digest, second.writer_digest],
            rows: second.rows.len() as u64,
            candidates: self.sidecar.pinned(pin::CANDIDATE_COUNT)?,
            unmapped: second.unknown_words.iter().map(|w| format!("{}:{}", w.vocabulary, w.word)).collect(),
            distinct_keys: distinct(second.rows.iter().map(|r| r.idempotency_key.to_string()).collect()),
            distinct_addresses: distinct(
                second.rows.iter().map(|r| r.canonical_address.to_string()).collect(),
            ),
            forbidden: second.forbidden.len() as u64,
            manifest_digest_pin: self.sidecar.pinned(pin::MANIFEST_DIGEST)?,
            manifest_digest: second.manifest_digest,
        };
        self.pin(pin::WRITER_DIGEST, second.writer_digest);
        self.pin(pin::UNIT_SET_DIGEST, second.set_digest);
        let key = key::cutplan(second.writer_digest).to_string();
        let rows = second.rows.len();
        self.plan = Some(second);
        self.text = source.text;
        Ok(Acted {
            gate: cutplan::judge(&facts),
            key,
            mutation: "NONE".to_owned(),
            work: vec!["built the plan twice from the stored bytes".to_owned(), format!("{rows} rows")],
            diff: self.pinned(&["writer_digest", "unit_set_digest"]),
            artifacts: Vec::new(),
            verdict: self.verdict("cutplan_ok"),
            closing: None,
        })
    }

    pub(super) fn source_ids(&self) -> Result<(uuid::Uuid, uuid::Uuid), Halt> {
        match (self.sidecar.source_document_id, self.sidecar.source_version_id) {
            (Some(document), Some(version)) => Ok((document, version)),
            _ => Err(Halt::corrupt("no source version is pinned")),
        }
    }

    pub(super) fn derived_key(&self, phase: Phase) -> Result<key::DerivedKey, Halt> {
        let text = self.sidecar.idempotency_keys.get(phase.as_str());
        let wrong = || Halt::corrupt(format!("key of {phase}: expected a sha256, observed {text:?}"));
        text.and_then(|t| t.parse().ok()).ok_or_else(wrong)
    }

    /// Report rows for pins that this phase set.
    pub(super) fn pinned(&self, names: &[&str]) -> Vec<(String, String, String)> {
        let value = |n: &str| self.sidecar.context_pins.get(n).cloned().unwrap_or_else(|| "-".to_owned());
        names.iter().map(|n| ((*n).to_owned(), "-".to_owned(), value(n))).collect()
    }

    pub(super) fn verdict(&self, reached: &str) -> Vec<(String, String)> {
        vec![("outcome".to_owned(), "PASS".to_owned()), ("state".to_owned(), reached.to_owned())]
    }

    /// The `production_mutation` line: a dry run writes nothing.
    pub(super) fn scope_of(&self, tables: &str) -> String {
        if self.live() { tables.to_owned() } else { "NONE".to_owned() }
    }
}

/// A judge for effects whose only question is where the backlog entry stands.
pub(super) fn commit_if_status(
    expected: BacklogState,
) -> impl Fn(&EffectFacts) -> (GateReport, Verdict) + Sync {
    move |facts| commit_if_ok(backlog::judge(expected, facts))
}

/// The law of the cut, counted on its own: every byte of the region once, in order.
fn tiles(start: usize, end: usize, plan: &CutPlan) -> bool {
    let mut at = start;
    plan.rows.iter().all(|row| core::mem::replace(&mut at, row.end) == row.start && row.start <= row.end)
        && at == end
}

/// Rows whose address carries `~n` without a duplicate being reported for it.
fn unreported(plan: &CutPlan) -> u64 {
    let reported: BTreeSet<&str> = plan.duplicates.iter().map(|d| d.address.as_str()).collect();
    plan.rows
        .iter()
        .filter(|r| r.canonical_address.last().is_some_and(|s| s.occurrence > 1))
        .filter(|r| !reported.contains(r.canonical_address.as_str()))
        .count() as u64
}
