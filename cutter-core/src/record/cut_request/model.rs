//! The executable model that the tests run: one request, its run and the run's entry.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::machine::backlog::BacklogState as B;
use crate::machine::run::Stage;
use crate::record::effect::EffectName;

pub(super) const TEXT: &[u8] = b"0123456789";

pub(super) fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

pub(super) fn uuid(n: u64) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(n))
}

pub(super) fn request() -> CutRequest {
    CutRequest::new(uuid(1), "laws/a.md".into(), DEFAULT_SOURCE_KIND.into(), "customer".into(), time(0))
}

pub(super) fn copy() -> Operation {
    let hash = Digest::of(TEXT);
    Operation::Copy { expected: hash, observed: hash, bytes: TEXT.len() as u64 }
}

pub(super) fn manifest(digest: &Digest) -> ManifestFacts {
    ManifestFacts {
        document_sha256: Digest::of(TEXT).to_hex(),
        document_bytes: TEXT.len() as u64,
        region: (2, 10),
        units: vec![(2, 5), (5, 10)],
        manifest_digest: digest.to_hex(),
    }
}

pub(super) fn mark(name: &str) -> Operation {
    let manifest_digest = Digest::of(name.as_bytes());
    Operation::Mark { manifest: manifest(&manifest_digest), manifest_digest }
}

pub(super) fn verdict(verdict: MarkVerdict) -> Operation {
    let said = |is: bool, text: &str| is.then(|| text.to_string());
    let is_approval = verdict == MarkVerdict::Approved;
    Operation::VerifyMark {
        verdict,
        approval_doc_id: said(is_approval, "laws/approval.md"),
        reason: said(!is_approval, "no"),
    }
}

pub(super) fn start(run: u64) -> Operation {
    Operation::CutStart { cut_run_id: uuid(run), is_free: true }
}

/// What a run did to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunStep {
    LegA,
    Verify(bool),
    Void,
    Enact,
    /// The driver wrote its own record down: the stage it is in.
    Record,
    /// The driver says that the run ended.
    Ended,
    /// The driver looks whether the request lags.
    CatchUp,
    /// The reviewer gives the entry up, whatever the run does.
    AbandonEntry,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) request: CutRequest,
    pub(super) run: RunCommitted,
    pub(super) entry: B,
    pub(super) is_enacted: bool,
    pub(super) stage: Stage,
    pub(super) timeline: Vec<CutRequestStatus>,
    pub(super) now: i64,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            request: request(),
            run: RunCommitted::default(),
            entry: B::ReviewedApproved,
            is_enacted: false,
            stage: Stage::AwaitingCutAuthorization,
            timeline: vec![CutRequestStatus::Requested],
            now: 0,
        }
    }

    /// What a database does with an operation: all of it or nothing.
    pub(super) fn ask(&mut self, operation: &Operation) -> Judgement {
        self.now += 1;
        let judgement = judge(&self.request, operation);
        let Judgement::Apply(moves) = &judgement else { return judgement };
        let (request, now) = (&mut self.request, time(self.now));
        for step in moves {
            use CutRequestStatus as S;
            assert_eq!(request.status, step.from, "compare-and-set");
            request.status = step.to;
            self.timeline.push(step.to);
            match step.to {
                S::MarkInProgress => request.mark_verdict = None,
                S::MarkVerified => request.mark_verdict = Some(MarkVerdict::Approved),
                S::MarkRejected => request.mark_verdict = Some(MarkVerdict::Rejected),
                S::CutVerified => request.cut_verdict = Some(CutVerdict::Verified),
                S::CutFailed => request.cut_verdict = Some(CutVerdict::Failed),
                S::Completed => request.completed_at = Some(now),
                S::CleanupScheduled => request.cleanup_scheduled_at = Some(time(self.now + 15)),
                _ => {}
            }
        }
        match operation {
            Operation::Copy { observed, bytes, .. } => {
                request.source_hash = Some(*observed);
                request.source_bytes = Some(*bytes);
            }
            Operation::Mark { manifest_digest, .. } => request.manifest_digest = Some(*manifest_digest),
            Operation::VerifyMark { approval_doc_id, .. } => {
                request.mark_approval_doc_id.clone_from(approval_doc_id);
            }
            Operation::CutStart { cut_run_id, .. } => request.cut_run_id = Some(*cut_run_id),
            _ => {}
        }
        judgement
    }

    /// One transaction of the run, or one thing that its driver does. A request that does not name
    /// the run is not touched, and a refusal rolls everything back.
    pub(super) fn step(&mut self, step: RunStep) {
        let before = self.clone();
        let within = match step {
            RunStep::LegA if self.entry == B::ReviewedApproved && !self.run.is_voided => {
                self.entry = B::CutApplied;
                self.run.has_cut = true;
                Some(EffectName::LegA)
            }
            RunStep::Verify(passed) if self.entry == B::CutApplied && !self.run.is_voided => {
                self.entry = if passed { B::VerifiedComplete } else { B::VerifyFailedEscalated };
                self.run.has_passed = Some(passed);
                Some(EffectName::WriteVerify)
            }
            RunStep::Void if !self.is_enacted && !self.run.is_voided => {
                self.entry = B::Abandoned;
                self.run.is_voided = true;
                Some(EffectName::Void)
            }
            RunStep::Enact if self.run.has_passed == Some(true) && !self.run.is_voided => {
                self.is_enacted = true;
                return;
            }
            RunStep::Record => {
                let reached = [
                    (self.run.has_cut, Stage::CutLegACommitted),
                    (self.run.has_passed == Some(true), Stage::WriteVerified),
                    (self.is_enacted, Stage::LifecycleEnacted),
                ];
                let reached = reached.into_iter().filter(|(is, _)| *is).map(|(_, stage)| stage).max();
                self.stage = reached.unwrap_or(self.stage);
                return;
            }
            RunStep::AbandonEntry => {
                self.entry = B::Abandoned;
                return;
            }
            RunStep::Ended if self.run.has_passed.is_none() => {
                self.run.ended = Some("stopped_refused".into());
                None
            }
            RunStep::CatchUp => None,
            _ => return,
        };
        if self.request.cut_run_id != Some(uuid(7)) {
            return;
        }
        let run = self.run.clone();
        if let Judgement::Refused(_) = self.ask(&Operation::Follow { within, run }) {
            *self = before;
        }
    }

    pub(super) fn standing(&self) -> Standing {
        let has_run = self.request.cut_run_id.is_some();
        Standing {
            status: self.request.status,
            mark_verdict: self.request.mark_verdict,
            names_run: has_run,
            entry: Some(self.entry),
            has_cut: has_run && self.run.has_cut,
            has_passed: self.run.has_passed.filter(|_| has_run),
            is_enacted: self.is_enacted,
            stage: has_run.then_some(self.stage),
        }
    }

    pub(super) fn broken(&self) -> Vec<crate::record::check::Check> {
        consistency(&self.standing()).into_iter().filter(|check| !check.ok).collect()
    }
}
