//! Sovereign gates: find an answer, judge it, act on it.
//!
//! An approval may arrive before or after the pause; it fits one occurrence of one gate of
//! one run because it repeats the request's nonce. Every document that was looked at is
//! recorded with its verdict; a wrong one blocks nothing.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::enter::{effects_of, ids_of};
use super::perform::Recheck;
use super::run::{Halt, Run};
use super::stopping::{approval_type, ask_for_stop, stop_kinds};
use super::{DriveError, Outcome};
use crate::approval::{Ask, NotVerified, VerifiedApproval, field, verify};
use crate::digest::Digest;
use crate::gate::GateReport;
use crate::gate::authorization::{self, AuthorizationFacts};
use crate::intent::Intent;
use crate::machine::run::{GateId, Phase, Stage};
use crate::naming::EscalationKind;
use crate::port::effect::{EffectName, ReviewVerdict};
use crate::port::knowledge_base::Document;
use crate::sidecar::{ApprovalRecord, Considered, StopRecord};
use crate::stop::StopReason;

/// Approvals that were not accepted are kept with the run, newest last, at most so many.
const CONSIDERED_MAX: usize = 20;

/// What the search for an answer found.
pub(super) enum Search {
    /// A valid answer.
    Answer(Box<Answer>),
    /// None; what was looked at and not accepted.
    Nothing(Vec<Considered>),
}

/// A valid answer.
pub(super) struct Answer {
    pub(super) path: String,
    pub(super) sha256: Digest,
    pub(super) ask: Ask,
    pub(super) approval: VerifiedApproval,
}

impl Run<'_> {
    /// At an `awaiting_*` stage: goes on with a valid approval, or says what is missing.
    pub(super) async fn authorize(&mut self, stage: Stage) -> Result<Option<Outcome>, Halt> {
        if self.sidecar.outbox.is_some() && self.asks() {
            self.publish_request_again().await?;
        }
        let (gate, phase, effect) = match stage {
            Stage::AwaitingCutAuthorization => (GateId::CutAuthz, Phase::CutLegA, EffectName::LegA),
            _ => (GateId::LifecycleAuthz, Phase::LifecycleEnact, EffectName::Enact),
        };
        let refused = self.intent()?.name == REFUSAL;
        if self.named_rows().is_none() && !refused && !self.committed(effect).await? {
            return self.ask_for_rows(gate, phase, stage).await;
        }
        if self.intent()?.name == phase.as_str() {
            self.phase(phase).await?;
            return Ok(None);
        }
        if refused {
            return self.carry_out_refusal(gate).await;
        }
        let ask = self.open_ask()?;
        match self.search(core::slice::from_ref(&ask), approval_prefix(gate)).await? {
            Search::Answer(answer) => self.act_on(gate, phase, &answer).await,
            Search::Nothing(invalid) => {
                self.ports.observer.progress(&crate::port::environment::Progress::Paused {
                    gate: gate.as_str(),
                    request_kb_id: ask.request_path.clone(),
                });
                Ok(Some(Outcome::Paused { ask, invalid }))
            }
        }
    }

    fn open_ask(&self) -> Result<Ask, Halt> {
        let missing = || Halt::stop(StopReason::Internal, "no request is open");
        self.sidecar.ask.clone().ok_or_else(missing)
    }

    /// What was asked before requests named the rows is asked once more: no approval of that request
    /// can be relied on. A refusal of it counts.
    async fn ask_for_rows(
        &mut self,
        gate: GateId,
        phase: Phase,
        stage: Stage,
    ) -> Result<Option<Outcome>, Halt> {
        let ask = self.open_ask()?;
        self.explicit_approval = None;
        if let Search::Answer(answer) = self.search(&[ask], approval_prefix(gate)).await?
            && !answer.approval.allows()
        {
            return self.act_on(gate, phase, &answer).await;
        }
        self.ask_anew(stage).await?;
        self.persist().await?;
        self.publish_request_again().await?;
        Ok(None)
    }

    /// Begins what an answer allows, or carries out its refusal.
    async fn act_on(&mut self, gate: GateId, phase: Phase, answer: &Answer) -> Result<Option<Outcome>, Halt> {
        let verdict = answer.approval.decision();
        let occurrence = answer.ask.occurrence;
        let record = self.approval_record(gate, answer);
        self.sidecar.sovereign_approvals.push(record);
        if verdict == ReviewVerdict::Approve {
            let intent = self.choose(phase.as_str(), occurrence, ids_of(phase), false);
            self.set_running(phase, intent);
            self.adopting = false;
            self.persist().await?;
            self.phase(phase).await?;
            return Ok(None);
        }
        let ids = ["effect.sg1_review", "effect.sg2_review", "approval", "review_decision", "review_history"];
        self.sidecar.intent = Some(self.choose(REFUSAL, occurrence, &ids, false));
        self.persist().await?;
        self.carry_out_refusal(gate).await
    }

    /// Stores a refusal (S1 → S4, or S3 for a deferral), then stops the run (D32).
    async fn carry_out_refusal(&mut self, gate: GateId) -> Result<Option<Outcome>, Halt> {
        let intent = self.intent()?.clone();
        let (effect, phase) = match gate {
            GateId::CutAuthz => (EffectName::Sg1Review, Phase::CutLegA),
            _ => (EffectName::Sg2Review, Phase::LifecycleEnact),
        };
        self.store_approval(&intent, gate.as_str(), effect, phase).await?;
        let record = self.last_decision(gate.as_str())?;
        Err(Halt::stop(
            StopReason::Refused,
            format!("{} by {}: {}", record.decision, record.actor, record.approval_kb_id),
        ))
    }

    pub(super) fn approval_record(&self, gate: GateId, answer: &Answer) -> ApprovalRecord {
        let approval = &answer.approval;
        ApprovalRecord {
            gate: gate.as_str().to_owned(),
            requested_utc: self.sidecar.intent.as_ref().map_or(self.sidecar.created_utc, |i| i.at),
            approval_kb_id: answer.path.clone(),
            review_decision_id: match gate {
                GateId::LifecycleAuthz => self.sidecar.pin_uuid("review_decision_id").ok(),
                _ => None,
            },
            validated_utc: self.ports.clock.now(),
            sha256: Some(answer.sha256),
            actor: approval.actor().to_owned(),
            fingerprint: approval.fingerprint().unwrap_or_default().to_owned(),
            decision: approval.decision().as_str().to_owned(),
            occurrence: answer.ask.occurrence,
            expires_utc: approval.expires(),
            request_sha256: answer.ask.required.get(field::REQUEST_SHA256).and_then(|t| t.parse().ok()),
            nonce: answer.ask.required.get(field::NONCE).cloned().unwrap_or_default(),
        }
    }

    /// Looks at the named approval, or at every candidate in the run's folder.
    pub(super) async fn search(&mut self, asks: &[Ask], prefix: &str) -> Result<Search, Halt> {
        let named = self.explicit_approval.take();
        let paths = match &named {
            Some(path) => alloc::vec![path.clone()],
            None => self.candidates(prefix).await?,
        };
        let mut invalid = Vec::new();
        for path in paths {
            let found = self.ports.kb.read(&path).await.map_err(|e| self.halt(e))?;
            let Some(document) = found else {
                if named.is_some() {
                    return Err(Halt::Abort(Box::new(DriveError::NotNow(format!(
                        "approval {path}: expected a document in the knowledge base, observed none"
                    )))));
                }
                continue;
            };
            match self.consider(&path, &document, asks).await? {
                Ok(answer) => return Ok(Search::Answer(Box::new(answer))),
                Err(report) => {
                    let considered = considered(&path, &document, &report);
                    self.remember(&considered).await?;
                    if named.is_some() {
                        let error = DriveError::ApprovalInvalid { path, report: Box::new(report) };
                        return Err(Halt::Abort(Box::new(error)));
                    }
                    invalid.push(considered);
                }
            }
        }
        Ok(Search::Nothing(invalid))
    }

    async fn candidates(&self, prefix: &str) -> Result<Vec<String>, Halt> {
        let Some(folder) = &self.sidecar.kb_folder else { return Ok(Vec::new()) };
        let listed = self.ports.kb.list(folder).await.map_err(|e| self.halt(e))?;
        let name = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(listed.into_iter().filter(|p| name(p).starts_with(prefix)).collect())
    }

    /// Judges one document against what may be answered; the last report is the refusal.
    async fn consider(
        &self,
        path: &str,
        document: &Document,
        asks: &[Ask],
    ) -> Result<Result<Answer, GateReport>, Halt> {
        // By the database's clock: whoever drives the run sets their own.
        let now = self.ports.reader.now().await.map_err(|e| self.halt(e))?;
        let signature =
            self.ports.signatures.observe(&document.bytes, now).await.map_err(|e| self.halt(e))?;
        let mut refusal = GateReport { gate: GateId::FailureEscalation, checks: Vec::new() };
        for ask in asks {
            let request = self.ports.kb.read(&ask.request_path).await.map_err(|e| self.halt(e))?;
            let facts = AuthorizationFacts {
                ask: ask.clone(),
                signature: signature.clone(),
                policy: self.sidecar.settings.approval.clone(),
                now,
                creator_fingerprint: self.sidecar.creation.fingerprint.clone(),
                creator_actor: self.sidecar.created_by.clone(),
                used_before: self
                    .sidecar
                    .sovereign_approvals
                    .iter()
                    .any(|a| a.sha256 == Some(document.sha256)),
                edited_after_validation: self
                    .sidecar
                    .sovereign_approvals
                    .iter()
                    .any(|a| a.approval_kb_id == path && a.sha256 != Some(document.sha256)),
                request_sha256_live: request.map(|d| d.sha256),
            };
            match verify(&facts, &authorization::judge(&facts), document.sha256) {
                Ok(approval) => {
                    let gate = ask.gate.parse().unwrap_or(GateId::FailureEscalation);
                    let mut own = if approval.allows() { self.own_checks(gate) } else { Vec::new() };
                    own.retain(|check| !check.ok);
                    if !own.is_empty() {
                        refusal = GateReport { gate, checks: own };
                        continue;
                    }
                    return Ok(Ok(Answer {
                        path: path.to_owned(),
                        sha256: document.sha256,
                        ask: ask.clone(),
                        approval,
                    }));
                }
                Err(NotVerified(report)) => {
                    let better =
                        refusal.checks.is_empty() || report.failures().len() < refusal.failures().len();
                    if better {
                        refusal = report;
                    }
                }
            }
        }
        Ok(Err(refusal))
    }

    /// Records a document that was not accepted; the same one is recorded once.
    async fn remember(&mut self, considered: &Considered) -> Result<(), Halt> {
        if self.sidecar.considered.contains(considered) {
            return Ok(());
        }
        self.sidecar.considered.push(considered.clone());
        let extra = self.sidecar.considered.len().saturating_sub(CONSIDERED_MAX);
        self.sidecar.considered.drain(..extra);
        self.persist().await
    }

    /// The last approving record for a gate.
    pub(super) fn approval(&self, gate: &str) -> Result<ApprovalRecord, Halt> {
        self.last_decision(gate)
    }

    fn last_decision(&self, gate: &str) -> Result<ApprovalRecord, Halt> {
        let missing = || Halt::stop(StopReason::Internal, format!("no decision at {gate} is recorded"));
        self.sidecar.sovereign_approvals.iter().rev().find(|a| a.gate == gate).cloned().ok_or_else(missing)
    }

    /// The approval's bytes as validated.
    pub(super) async fn approval_document(&self, record: &ApprovalRecord) -> Result<String, Halt> {
        let recheck = Recheck::unexpired(record);
        self.recheck(&recheck).await?;
        let found = self.ports.kb.read(&record.approval_kb_id).await.map_err(|e| self.halt(e))?;
        let text = found.and_then(|d| String::from_utf8(d.bytes).ok());
        text.ok_or_else(|| Halt::stop(StopReason::ApprovalChanged, "the approval is no text any more"))
    }

    /// An authority stop: goes on only with a signed SG3 approval (PROTOCOL §5).
    pub(super) async fn answer_stop(&mut self) -> Result<Option<Outcome>, Halt> {
        let missing = || Halt::stop(StopReason::Internal, "a stopped run holds no record of why");
        let stop = self.sidecar.stops.last().cloned().ok_or_else(missing)?;
        if stop.resolved_by.is_some() {
            return Ok(None);
        }
        let kinds = stop_kinds(&self.sidecar, &stop).into_iter().filter(|k| *k != EscalationKind::Void);
        let asks: Vec<Ask> = kinds.map(|k| ask_for_stop(&self.sidecar, &stop, k)).collect();
        let answer = match self.search(&asks, approval_prefix(GateId::FailureEscalation)).await? {
            Search::Answer(answer) => *answer,
            Search::Nothing(_) => return Ok(Some(Outcome::Stopped(stop))),
        };
        if answer.approval.decision() != ReviewVerdict::Approve {
            return Ok(Some(Outcome::Stopped(stop)));
        }
        self.accept_answer(&answer).await?;
        Ok(None)
    }

    async fn accept_answer(&mut self, answer: &Answer) -> Result<(), Halt> {
        let missing = || Halt::stop(StopReason::Internal, "a stopped run holds no record of why");
        let stop = self.sidecar.stops.last().cloned().ok_or_else(missing)?;
        let acknowledged = answer.ask.approval_type == approval_type(EscalationKind::DriftAck);
        self.adopt_lost().await?;
        if acknowledged {
            self.repin(&stop.observed).await?;
        }
        let again = self.asks_again(&stop, acknowledged).await?;
        self.store_escalation(&stop, answer, again).await?;
        if let Some(minutes) =
            answer.approval.extra().get("minutes_granted").and_then(|m| m.parse::<u32>().ok())
        {
            self.sidecar.granted_minutes = self.sidecar.granted_minutes.saturating_add(minutes);
        }
        let record = self.approval_record(GateId::FailureEscalation, answer);
        self.sidecar.sovereign_approvals.push(record);
        if let Some(last) = self.sidecar.stops.last_mut() {
            last.resolved_by = Some(answer.path.clone());
        }
        if let Some(stage) = again {
            self.ask_again(&stop, stage).await?;
        }
        self.persist().await
    }

    /// A stop may have been recorded over an effect that a lost attempt committed: a decision on
    /// the stop must not find this run's own rows to be drift.
    async fn adopt_lost(&mut self) -> Result<(), Halt> {
        let Some(intent) = self.sidecar.intent.clone() else { return Ok(()) };
        let phase = self.running().filter(|p| p.as_str() == intent.name);
        let mut effects: Vec<(EffectName, u32)> =
            phase.map_or(&[][..], effects_of).iter().map(|e| (*e, self.occurrence_of(*e))).collect();
        if intent.name == GateId::LifecycleAuthz.as_str() {
            effects.push((EffectName::Sg2Request, intent.occurrence));
        }
        if intent.name == REFUSAL {
            effects.push((EffectName::Sg1Review, intent.occurrence));
            effects.push((EffectName::Sg2Review, intent.occurrence));
        }
        for (effect, occurrence) in effects {
            self.adopt(effect, occurrence).await?;
        }
        Ok(())
    }

    /// The gate's stage, if what was asked there must be asked once more: after acknowledged
    /// drift, a deferral, or an approval that changed. What is committed already is not asked
    /// for again: its approval was used.
    async fn asks_again(&self, stop: &StopRecord, acknowledged: bool) -> Result<Option<Stage>, Halt> {
        let effect = match self.sidecar.kept_stage {
            Some(Stage::GrantsProbed | Stage::AwaitingCutAuthorization) => EffectName::LegA,
            Some(Stage::WriteVerified | Stage::AwaitingLifecycleAuthorization) => EffectName::Enact,
            _ => return Ok(None),
        };
        let changed = [StopReason::Refused.code(), StopReason::ApprovalChanged.code()];
        if !acknowledged && !changed.contains(&stop.code.as_str().into()) {
            return Ok(None);
        }
        Ok(if self.committed(effect).await? { None } else { self.sidecar.kept_stage })
    }

    /// Acknowledged drift becomes the new pins. A dimension that stands as it was pinned again
    /// keeps its pin: it was mended meanwhile.
    async fn repin(&mut self, observed: &alloc::collections::BTreeMap<String, String>) -> Result<(), Halt> {
        let live = self.survey().await?;
        for (dimension, value) in observed {
            let pin = self.sidecar.drift_pins.0.get(dimension);
            if pin.is_some() && live.0.get(dimension) == pin {
                continue;
            }
            match dimension.as_str() {
                "base_state" => {
                    let digest: Digest = value
                        .parse()
                        .map_err(|_| Halt::stop(StopReason::Internal, "base_state is no sha256"))?;
                    self.pin("base_state_sha", digest);
                    if let Some(backup) = &mut self.sidecar.backup {
                        backup.base_state_sha = digest;
                    }
                }
                _ if value == "absent" => {
                    self.sidecar.drift_pins.0.remove(dimension);
                }
                _ => {
                    self.sidecar.drift_pins.0.insert(dimension.clone(), value.clone());
                }
            }
        }
        Ok(())
    }

    /// The intent of the running step must survive: an escalation's ids are the stop's own.
    pub(super) fn stop_intent(&self, stop: &StopRecord) -> Intent {
        Intent {
            name: "stop".to_owned(),
            occurrence: stop.n,
            at: stop.at,
            date: crate::intent::date_of(stop.at),
            ids: stop.ids.clone(),
            nonce: Some(stop.nonce.clone()),
        }
    }
}

/// Name of the intent that carries out a refusal.
const REFUSAL: &str = "refusal";

/// How the file name of a document begins that may answer at this gate (spec 2 §2).
#[must_use]
pub const fn approval_prefix(gate: GateId) -> &'static str {
    match gate {
        GateId::CutAuthz => "SG1-cut-authz-approval",
        GateId::FailureEscalation => "SG3-",
        _ => "SG2-lifecycle-authz-approval",
    }
}

fn considered(path: &str, document: &Document, report: &GateReport) -> Considered {
    let first = report.failures().into_iter().next().cloned();
    let (invariant, detail) = first.map_or_else(
        || ("approval.decision".to_owned(), String::new()),
        |c| (c.invariant, format!("expected {}, observed {}", c.expected, c.observed)),
    );
    Considered {
        approval_kb_id: path.to_owned(),
        sha256: document.sha256,
        invariant,
        detail: detail.chars().take(300).collect::<String>().to_string(),
    }
}

impl Recheck {
    /// What must still hold when the transaction is open.
    pub(super) fn of(record: &ApprovalRecord) -> Self {
        Self {
            approval_kb_id: record.approval_kb_id.clone(),
            sha256: record.sha256.unwrap_or(Digest::from_bytes([0; 32])),
            expires: record.expires_utc,
        }
    }

    fn unexpired(record: &ApprovalRecord) -> Self {
        Self { expires: None, ..Self::of(record) }
    }
}
