//! closeout: the final report, the line in the runs index, the final sidecar.
//!
//! The twelve earlier documents are read again first. Then time, index line, statement and report
//! are fixed in one write; the report is uploaded, the statement stored with both signatures, the
//! line appended, and only then is the run final. A run that died after its line was appended is
//! completed by resume.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;

use super::{Acted, Step};
use crate::base::digest::Digest;
use crate::base::key::{self, DerivedKey, MintedKey, PhaseKey};
use crate::base::limits::KB_DOCUMENTS_PER_RUN;
use crate::driver::run::{Halt, Run};
use crate::gate::closeout;
use crate::machine::run::{GateId, Phase, Stage};
use crate::machine::stop::StopReason;
use crate::port::PortErrorKind;
use crate::port::knowledge_base::AppendOutcome;
use crate::record::pin;
use crate::record::sidecar::Artifact;
use crate::record::statement;
use crate::report::naming::{IndexLine, RUNS_INDEX_PATH};
use crate::report::{FinalSections, closing};

/// IG_closeout: documents 1 to 12 stand with their hashes; the index is free for the line.
pub(super) struct Closeout;

#[async_trait]
impl Step for Closeout {
    // Once its units are enacted a run is in a state of its own, too.
    fn leaves_something(&self) -> bool {
        true
    }

    async fn filed(&self, run: &mut Run<'_>) -> Result<(), Halt> {
        run.make_statement().await?;
        run.append_index().await
    }

    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt> {
        run.documents_stand().await?;
        let late = run.store_late().await?;
        let filed = run.standing_documents();
        let mut documents = Vec::with_capacity(filed.len());
        for document in &filed {
            let found = run.ports.kb.read(&document.path).await.map_err(|e| run.halt(e))?;
            documents.push((document.path.clone(), document.sha256, found.map(|d| d.sha256)));
        }
        let line = run.index_line()?;
        let run_id = run.sidecar.run_id.to_string();
        let present = run.ports.kb.index_line(RUNS_INDEX_PATH, &run_id).await.map_err(|e| run.halt(e))?;
        let gate = closeout::judge(&closeout::CloseoutFacts {
            documents,
            expected_count: KB_DOCUMENTS_PER_RUN as u64 - 1,
            index_conflict: present.filter(|p| *p != line),
            sidecar_final_ready: run.earlier_keys().is_some(),
        });
        run.pin(pin::INDEX_LINE, line.clone());
        let mut diff = run.pinned(&["change_set_id", "unit_set_digest"]);
        if run.live() {
            let body = run.statement_body().await?;
            run.pin(pin::STATEMENT_SHA256, statement::digest(&body));
            diff.extend(closing::tables(&body));
            run.statement = Some(body);
        }
        let backup = run.sidecar.backup.as_ref();
        let preserved = backup.map(|b| Artifact {
            path: "pre_write.gpg".to_owned(),
            sha256: b.blob.sha256,
            bytes: b.blob.bytes,
        });
        let mut artifacts = filed;
        artifacts.extend(preserved);
        Ok(Acted {
            key: String::new(),
            work: closing::work(),
            diff,
            artifacts,
            closing: Some(run.closing(late)),
            ..Acted::of(gate, Stage::CloseoutReported.as_str())
        })
    }
}

impl Run<'_> {
    /// The run's first twelve documents: phase documents and the requests that were answered.
    pub(in crate::driver) fn standing_documents(&self) -> Vec<Artifact> {
        let gates = [GateId::CutAuthz, GateId::LifecycleAuthz];
        let counted = gates.into_iter().filter_map(|gate| self.sidecar.approval(gate)?.request_sha256);
        let answered: Vec<Digest> = counted.collect();
        let is_request = |d: &Artifact| d.path.contains("-authz-request");
        let mut documents: Vec<Artifact> = self.sidecar.documents.to_vec();
        // A request that was asked again stays filed; the one that counted is the answered one.
        documents.retain(|d| !is_request(d) || answered.contains(&d.sha256));
        documents
    }

    fn closing(&self, late: Vec<String>) -> FinalSections {
        let approvals = self.sidecar.sovereign_approvals.iter();
        FinalSections {
            preserved: self
                .sidecar
                .backup
                .iter()
                .map(|b| closing::backup(&b.blob.sha256, &b.blob.fingerprint))
                .chain(approvals.map(closing::decision))
                .chain(late)
                .collect(),
            next_steps: closing::next_steps(&self.sidecar.run_id),
        }
    }

    fn index_line(&self) -> Result<String, Halt> {
        let line = IndexLine {
            run_id: self.sidecar.run_id.clone(),
            document_id: self.sidecar.document_id.clone(),
            source_version_id: self.source_ids()?.1,
            state: Stage::CloseoutReported.as_str().to_owned(),
            kb_folder: self.sidecar.kb_folder.clone().unwrap_or_default().parse().map_err(
                |e: crate::report::naming::NamingError| Halt::stop(StopReason::Internal, e.to_string()),
            )?,
            change_set_id: self.sidecar.pinned(pin::CHANGE_SET_ID)?,
            lifecycle_review_decision_id: self.sidecar.pinned(pin::REVIEW_DECISION_ID)?,
            actor: self.sidecar.created_by.clone(),
            closeout_utc: self.intent()?.at,
        };
        line.render().map_err(|e| Halt::stop(StopReason::Internal, e.to_string()))
    }

    /// Appends the line that the report was rendered with.
    async fn append_index(&mut self) -> Result<(), Halt> {
        let line = self.sidecar.pinned(pin::INDEX_LINE)?;
        let run_id = self.sidecar.run_id.to_string();
        let kb = &self.ports.kb;
        let mut appended = kb.append_index(RUNS_INDEX_PATH, &run_id, &line).await;
        if appended.as_ref().is_err_and(|e| e.kind == PortErrorKind::OutcomeUnknown) {
            // The same line again: appended now, or found there.
            appended = kb.append_index(RUNS_INDEX_PATH, &run_id, &line).await;
        }
        match appended.map_err(|e| self.halt(e))? {
            AppendOutcome::Appended | AppendOutcome::AlreadyThere => Ok(()),
            AppendOutcome::Conflict { found } => Err(Halt::stop(
                StopReason::KbConflict,
                format!("{RUNS_INDEX_PATH}: expected {line}, observed {found}"),
            )),
        }
    }

    /// The keys of all phases before this one, in the order of the phases.
    fn earlier_keys(&self) -> Option<Vec<PhaseKey>> {
        let phases = Phase::ALL.iter().filter(|p| **p != Phase::Closeout);
        phases
            .map(|phase| {
                let text = self.sidecar.idempotency_keys.get(phase.as_str())?;
                let derived = text.parse::<DerivedKey>().ok().map(PhaseKey::from);
                derived.or_else(|| uuid::Uuid::parse_str(text).ok().map(|u| MintedKey::from_uuid(u).into()))
            })
            .collect()
    }

    /// The last write: status success, and the closeout key over the final report.
    pub(in crate::driver) fn finalise(&mut self) {
        let report = self.sidecar.documents.last().map(|d| d.sha256);
        if let (Some(keys), Some(report)) = (self.earlier_keys(), report) {
            let key = key::closeout(&keys, &report).to_string();
            self.sidecar.idempotency_keys.insert(Phase::Closeout.as_str().to_owned(), key);
        }
        self.sidecar.status = Some("success".to_owned());
        self.sidecar.intent = None;
        self.sidecar.ask = None;
    }
}
