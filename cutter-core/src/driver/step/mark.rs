//! mark: the region is extracted and marked again, and the backlog entry is made and swept.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Acted, Step};
use crate::base::digest::Digest;
use crate::base::key;
use crate::driver::perform::{Act, Performance, commit_if_status};
use crate::driver::run::{Halt, Run, payload_digest};
use crate::gate::mark;
use crate::machine::backlog::BacklogState;
use crate::machine::run::{GateId, Phase};
use crate::machine::stop::StopReason;
use crate::record::check::{Check, GateReport};
use crate::record::effect::{EffectName, ExecutorEffect, MarkWrite, SweepWrite, fact};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::text::mark::body_region;
use crate::text::plan::CutPlan;

/// IG_mark: the region is extracted again, independently, and compared (D27); the
/// backlog entry is made (S0) and swept (S1).
pub(super) struct Mark;

#[async_trait]
impl Step for Mark {
    fn effects(&self) -> &'static [EffectName] {
        &[EffectName::Mark, EffectName::Sweep]
    }

    fn ids(&self) -> &'static [IdName] {
        &[IdName::Entry, IdName::EntryHistory, IdName::Sweep, IdName::SweepHistory]
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        let source = run.read_source().await?;
        let region = body_region(&source.text, &run.sidecar.settings.profile)
            .map_err(|e| Halt::stop(StopReason::Internal, e.to_string()))?;
        let region_sha = source.text.get(region.start..region.end).map(Digest::of).unwrap_or(Digest::of(b""));
        let (plan, count) = run.counted(&source).map_err(|text| Halt::stop(StopReason::Internal, text))?;
        let is_whole = plan.rows.len() as u64 == count;
        let mut facts = mark::MarkFacts {
            region_sha_pin: run.sidecar.pinned(pin::REGION_SHA)?,
            region_sha,
            region_pin: (run.sidecar.pinned(pin::REGION_START)?, run.sidecar.pinned(pin::REGION_END)?),
            region: (region.start, region.end),
            candidate_count: count,
            max_candidates: run.sidecar.settings.max_candidates,
            // Of too many none was built that could overlap.
            partition_ok: !is_whole || tiles(region.start, region.end, &plan),
            unreported_duplicates: unreported(&plan),
            entry_status_after_mark: None,
            entry_status_after_sweep: None,
            live: run.live(),
        };
        let manifest_digest = plan.manifest_digest;
        run.pin(pin::CANDIDATE_COUNT, count);
        run.pin(pin::DUPLICATES, plan.duplicates.len());
        run.pin(pin::WARNINGS, plan.warnings.len());
        if is_whole {
            run.plan = Some(plan);
            run.text = source.text;
        }
        if run.live() && mark::judge(&facts).failures().iter().all(|c| mark::needs_database(&c.invariant)) {
            run.enter_backlog(&mut facts, count, manifest_digest, region_sha).await?;
        }
        let previous = run.derived_key(Phase::SourcePin)?;
        Ok(Acted {
            key: key::mark(&previous, &region_sha).to_string(),
            mutation: run.scope_of("cutter_governance.decision_backlog_entry"),
            work: vec![
                format!("extracted {}..{} again from the stored bytes", region.start, region.end),
                format!("marked {count} candidates"),
                "made the backlog entry (S0) and swept it (S1)".to_owned(),
            ],
            diff: run.pinned(&["candidate_count", "entry_id"]),
            ..Acted::of(mark::judge(&facts), "marked")
        })
    }
}

impl Run<'_> {
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
            .perform(Performance::once(
                Act::Execute(&ExecutorEffect::Mark(write)),
                payload,
                &intent,
                Phase::Mark,
                0,
                &judge,
            ))
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
            .perform(Performance::once(
                Act::Execute(&ExecutorEffect::Sweep(sweep)),
                payload,
                &intent,
                Phase::Mark,
                0,
                &judge,
            ))
            .await?;
        facts.entry_status_after_sweep = record.facts.values.get(fact::ENTRY_STATUS).cloned();
        Ok(())
    }
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
