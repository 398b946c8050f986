//! The statement of a run whose units are in force ([`crate::record::statement`]): made from what is stored,
//! named by the final report, signed by both duties, stored once.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

use super::run::{Halt, Run};
use crate::base::digest::{Digest, to_hex};
use crate::machine::run::Phase;
use crate::machine::stop::StopReason;
use crate::port::PortErrorKind;
use crate::record::effect::fact;
use crate::record::effect::{EffectName, EffectRecord};
use crate::record::pin;
use crate::record::signature::Duty;
use crate::record::statement::{self, Before, Material, Recorded};
use crate::record::stored_statement::StatementSignature;
use crate::report::naming::DocumentName;

impl Run<'_> {
    /// Its body, by what the record and the database hold now.
    pub(super) async fn statement_body(&self) -> Result<String, Halt> {
        let mut pins = self.sidecar.context_pins.clone();
        pins.remove(pin::STATEMENT_SHA256.name());
        let documents = self.standing_documents().into_iter().filter_map(|document| {
            let name = document.path.rsplit('/').next()?;
            let is_final = DocumentName::parse(name).ok()?.0 == DocumentName::Phase(Phase::Closeout);
            (!is_final).then(|| (name.to_owned(), document.sha256))
        });
        let recorded = Recorded { pins, documents: documents.collect() };
        self.statement_of(Some(recorded)).await
    }

    async fn statement_of(&self, recorded: Option<Recorded>) -> Result<String, Halt> {
        let (reader, run_id) = (&self.ports.reader, &self.sidecar.run_id);
        let enacted =
            reader.effect(&self.effect_key(EffectName::Enact, 1)).await.map_err(|e| self.halt(e))?;
        let rows_digest = self.enacted_rows(enacted.as_ref()).await?;
        let rows = reader.rows(run_id).await.map_err(|e| self.halt(e))?.unwrap_or_default();
        let version = self.sidecar.pin_text(pin::SOURCE_VERSION_NO).unwrap_or_default().to_owned();
        let material = Material {
            run_id: run_id.as_str(),
            document_id: &self.sidecar.document_id,
            version: &version,
            source_sha256: self.sidecar.pinned(pin::SOURCE_SHA256)?,
            rows_digest,
            units: self.sidecar.pinned(pin::CANDIDATE_COUNT)?,
            enacted: enacted.as_ref(),
            rows: &rows,
            approvals: &self.sidecar.sovereign_approvals,
            before: self.version_before(&version).await?,
            recorded,
        };
        material.body().map_err(|e| Halt::stop(StopReason::Internal, e.to_string()))
    }

    /// The digest of the enacted rows: as enactment recorded it. The database compares them with the
    /// consent before it stores a statement, and refuses one that names others.
    async fn enacted_rows(&self, enacted: Option<&EffectRecord>) -> Result<Digest, Halt> {
        if let Some(digest) = enacted.and_then(|e| e.facts.values.get(fact::ROWS_DIGEST)?.parse().ok()) {
            return Ok(digest);
        }
        // enacted before rows were digested
        let set = self.sidecar.pinned(pin::CHANGE_SET_ID)?;
        let missing = || Halt::stop(StopReason::Internal, "the change set of this run has no rows");
        self.ports.reader.rows_digest(set).await.map_err(|e| self.halt(e))?.ok_or_else(missing)
    }

    /// The version that was in force before this one, with the root of its units.
    async fn version_before(&self, version: &str) -> Result<Option<Before>, Halt> {
        let reader = &self.ports.reader;
        let versions = reader.versions(&self.sidecar.document_id).await.map_err(|e| self.halt(e))?;
        let Some((version, set)) = statement::version_before(&versions, version) else { return Ok(None) };
        let rows = reader.rows_digest(set).await.map_err(|e| self.halt(e))?;
        Ok(rows.map(|rows| Before { version, rows }))
    }

    /// Stores the statement that the final report names, with both signatures. A run whose report was
    /// rendered before there were statements names none, and makes none.
    pub(super) async fn make_statement(&mut self) -> Result<(), Halt> {
        let Some(named) = self.sidecar.pin_text(pin::STATEMENT_SHA256) else { return Ok(()) };
        let mut body = match self.statement.take() {
            Some(body) => body,
            None => self.statement_body().await?,
        };
        let observed = statement::digest(&body).to_hex();
        if observed != named {
            // an earlier program rendered the report
            body = self.statement_of(None).await?;
        }
        let sha256 = statement::digest(&body);
        if sha256.to_hex() != named {
            return Err(Halt::stop(
                StopReason::StateCorrupt,
                format!(
                    "the statement: expected sha256 {named} as the final report names it, observed {observed}; \
                     next: cutter verify --run-id {}",
                    self.sidecar.run_id
                ),
            ));
        }
        let signature = self.statement_signature(Duty::Executor, &body).await?;
        let fence = self.fence()?.clone();
        let mut done = self.ports.executor.store_statement(&fence, &body, &signature).await;
        if done.as_ref().is_err_and(|e| e.kind == PortErrorKind::OutcomeUnknown) {
            // the same again: stored now, or found there
            done = self.ports.executor.store_statement(&fence, &body, &signature).await;
        }
        done.map_err(|e| self.halt(e))?;
        let signature = self.statement_signature(Duty::Verifier, &body).await?;
        let mut done = self.ports.verifier.sign_statement(&fence, &sha256, &signature).await;
        if done.as_ref().is_err_and(|e| e.kind == PortErrorKind::OutcomeUnknown) {
            done = self.ports.verifier.sign_statement(&fence, &sha256, &signature).await;
        }
        done.map_err(|e| self.halt(e))
    }

    async fn statement_signature(&self, duty: Duty, body: &str) -> Result<StatementSignature, Halt> {
        let signer = &self.ports.signer;
        let public_key = to_hex(&signer.public_key(duty).await.map_err(|e| self.halt(e))?);
        self.duty_key_stands(duty, &public_key).await?;
        let signed = signer.sign(duty, &statement::signed_bytes(body)).await.map_err(|e| self.halt(e))?;
        Ok(StatementSignature { duty, public_key, signature: to_hex(&signed), recorded_at: None })
    }
}
