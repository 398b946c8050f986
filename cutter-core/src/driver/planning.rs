//! The plan of a run: built from the database's own bytes, kept while the run is driven.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::run::{Halt, Run};
use crate::base::digest::Digest;
use crate::base::key;
use crate::base::vocabulary::Vocabulary;
use crate::gate::ApprovedRows;
use crate::gate::drift;
use crate::gate::plan_of::{plan_of, try_plan_of};
use crate::machine::run::Phase;
use crate::machine::stop::StopReason;
use crate::record::approval::field;
use crate::record::pin;
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
                dimension: drift::ROWS_DIGEST.to_owned(),
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

    pub(super) fn build(&self, source: &Source) -> Result<CutPlan, Halt> {
        plan_of(&self.sidecar.document_id, &source.text, &source.vocabulary, &self.sidecar.settings)
            .map_err(|text| Halt::stop(StopReason::Internal, text))
    }

    /// The plan and the number of its units. Where there are too many they were only counted, and
    /// the plan holds what is pinned without them.
    pub(super) fn counted(&self, source: &Source) -> Result<(CutPlan, u64), String> {
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
}
