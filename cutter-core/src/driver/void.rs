//! Voiding: forward compensation with a signed word; rows are marked, nothing is deleted (D10).

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use super::create::state_of;
use super::listen::Answer;
use super::perform::{Act, Performance, commit_if_ok};
use super::resume::open;
use super::run::{Halt, Run, Stopping, payload_digest};
use super::stopping::ask_for_stop;
use super::{Caller, DriveError, Driven, Outcome, Ports};
use crate::base::id::RunId;
use crate::gate::{stored_approval, void as gate};
use crate::machine::backlog::BacklogState;
use crate::machine::run::{GateId, Phase, RunState, Stage, Trigger};
use crate::machine::stop::{Slug, StopReason};
use crate::record::approval::field;
use crate::record::effect::{EffectFacts, EffectName, ExecutorEffect, ReviewWrite, VoidWrite};
use crate::record::intent::IdName;
use crate::record::pin;
use crate::record::sidecar::{ApprovalRecord, Artifact, StopRecord};
use crate::report::naming::{DocumentName, EscalationKind};

/// Voids a run: with a valid SG3 void approval it does so, without one it says where the
/// approval must go. A run that is still on its way is stopped first.
///
/// # Errors
/// Enacted or voided already, busy, fenced, or a named approval that is not valid.
pub async fn void(
    ports: &Ports,
    caller: &Caller,
    run_id: &RunId,
    approval_kb_id: Option<String>,
) -> Result<Driven, DriveError> {
    let mut run = open(ports, caller, run_id).await?;
    let state = state_of(&run.sidecar)?;
    if matches!(state, RunState::Voided { .. }) {
        return Ok(run.driven(Outcome::Voided));
    }
    if !run.live() {
        return Err(DriveError::NotNow(format!(
            "run {run_id} is a dry run: it claims nothing and wrote nothing, so there is nothing to void"
        )));
    }
    let probe = Slug::from_words("probe").map_err(|e| DriveError::Internal(e.to_string()))?;
    if let Err(error) = state.void(probe) {
        return Err(DriveError::NotNow(format!("run {run_id} cannot be voided: {error}")));
    }
    if let Ok(true) = run.committed(EffectName::Enact).await {
        return Err(run.unrecorded(enacted(run_id)));
    }
    if matches!(state, RunState::At(_)) {
        let word = Slug::from_words("void_requested").and_then(StopReason::sovereign);
        let reason = word.map_err(|e| DriveError::Internal(e.to_string()))?;
        run.raise_fence().await?;
        let outcome = run
            .record(Halt::Stop(Box::new(Stopping {
                detail: alloc::vec![format!("{} asked to void the run", caller.actor)],
                reason,
                observed: Default::default(),
                request_id: None,
            })))
            .await?;
        if !matches!(outcome, Outcome::Stopped(_)) {
            return Ok(run.driven(outcome));
        }
    }
    run.explicit_approval = approval_kb_id;
    match run.void_stopped().await {
        Ok(outcome) => Ok(run.driven(outcome)),
        Err(halt) => Err(run.unrecorded(halt)),
    }
}

/// The units are enacted, whatever the sidecar knows yet.
fn enacted(run_id: &RunId) -> Halt {
    Halt::Abort(Box::new(DriveError::NotNow(format!(
        "run {run_id} cannot be voided: void.nothing_enacted: expected no enacted unit, observed the enactment \
         committed; next: cutter orchestrate resume --run-id {run_id}"
    ))))
}

/// One stop has one stored answer.
fn answered_otherwise(halt: Halt, stop: &StopRecord) -> Halt {
    match halt {
        Halt::Stop(s) if s.reason == StopReason::ReplayConflict => {
            Halt::Abort(Box::new(DriveError::NotNow(format!(
                "stop {} has another stored answer already ({}): carry that one out, or stop the run again \
             (cutter orchestrate stop) and answer the new stop",
                stop.n,
                s.detail.join("; ")
            ))))
        }
        other => other,
    }
}

impl Run<'_> {
    async fn void_stopped(&mut self) -> Result<Outcome, Halt> {
        self.take_fence().await?;
        // Read behind the fence, so it is final: no word is stored that cannot be carried out.
        if self.committed(EffectName::Enact).await? {
            return Err(enacted(&self.sidecar.run_id));
        }
        self.settle_debts().await;
        let stop = self.open_stop().await?;
        let ask = ask_for_stop(&self.sidecar, &stop, EscalationKind::Void);
        let heard = self.search(core::slice::from_ref(&ask), "SG3-void-approval").await?;
        let is_unclear = heard.unclear.is_some();
        let answer = match heard.valid.into_iter().next() {
            Some(answer) if answer.approval.allows() && is_unclear => {
                self.tell(&heard.invalid);
                return Ok(Outcome::Paused { ask, invalid: heard.invalid, too_few: None });
            }
            Some(answer) if answer.approval.allows() => answer,
            Some(_) => return Ok(self.as_it_stands(stop)),
            None => return Ok(Outcome::Paused { ask, invalid: heard.invalid, too_few: None }),
        };
        // Whatever drifted is what is voided: the pins follow the live state from here.
        for effect in EffectName::ALL {
            self.adopt(effect, if effect == EffectName::Sg3Review { stop.n } else { 1 }).await?;
        }
        let live = self.survey().await?;
        self.pin_survey(live);
        self.store_escalation(&stop, &answer, None).await?;
        self.perform_void(&stop, &answer).await
    }

    fn as_it_stands(&self, stop: StopRecord) -> Outcome {
        match self.sidecar.run_state() {
            Ok(RunState::Failed { .. }) => Outcome::Failed(stop),
            _ => Outcome::Stopped(stop),
        }
    }

    async fn perform_void(&mut self, stop: &StopRecord, answer: &Answer) -> Result<Outcome, Halt> {
        let intent = self.stop_intent(stop);
        let reason = answer.approval.extra().get("reason").cloned();
        let reason = reason.unwrap_or_else(|| "sovereign".to_owned());
        let slug = Slug::from_words(&reason).map_err(|e| Halt::stop(StopReason::Internal, e.to_string()))?;
        if self.live() {
            let change_set_id = self.committed_change_set().await?;
            let entry = match self.sidecar.pinned(pin::ENTRY_ID).ok() {
                Some(entry) if self.entry_exists().await? => Some([entry, intent.id(IdName::VoidHistory)?]),
                _ => None,
            };
            let units = match change_set_id {
                Some(_) => self.sidecar.pinned(pin::CANDIDATE_COUNT)?,
                None => 0,
            };
            let write = VoidWrite {
                void_id: intent.id(IdName::Void)?,
                change_set_id,
                entry,
                approval_id: intent.id(IdName::Approval)?,
                reason: reason.clone(),
            };
            let payload = payload_digest(&write)?;
            let has_entry = entry.is_some();
            let judge = |facts: &EffectFacts| {
                let facts = gate::VoidFacts { effect: facts.clone(), units, has_entry };
                commit_if_ok(gate::judge(&facts))
            };
            let phase = self.running().unwrap_or(Phase::CutLegA);
            self.perform_by_word(Performance::once(
                Act::Execute(&ExecutorEffect::Void(write)),
                payload,
                &intent,
                phase,
                units,
                &judge,
            ))
            .await?;
        }
        let to = self.sidecar.run_state()?.void(slug)?;
        let (now, actor) = (self.ports.clock.now(), self.caller.actor.clone());
        self.sidecar.sovereign_approvals.push(escalation_record(stop, answer, now));
        if let Some(last) = self.sidecar.stops.last_mut() {
            last.resolved_by = Some(answer.path.clone());
        }
        self.sidecar.transition(&to, Trigger::Void.as_str(), &actor, now);
        self.file_last_report().await;
        self.sidecar.intent = None;
        self.persist().await?;
        Ok(Outcome::Voided)
    }

    /// A phase that passed is reported although its run is void; where that cannot be filed now, it stays owed. A
    /// request is dropped: nobody may answer it any more.
    async fn file_last_report(&mut self) {
        let Some(outbox) = self.sidecar.outbox.take() else { return };
        let Ok((DocumentName::Phase(phase), _)) = DocumentName::parse(&outbox.name) else { return };
        if !self.passed(phase) || !self.live() {
            return;
        }
        let Some(path) = self.file_once(&outbox).await else {
            self.sidecar.outbox = Some(outbox);
            return;
        };
        let bytes = outbox.text.len() as u64;
        if let Some(record) = self.sidecar.phases.get_mut(phase.as_str()) {
            record.kb_doc_id = Some(path.clone());
        }
        self.sidecar.documents.push(Artifact { path, sha256: outbox.sha256, bytes });
    }

    /// Leg A may have committed without its record: ask the database, not the sidecar.
    async fn committed_change_set(&self) -> Result<Option<uuid::Uuid>, Halt> {
        if let Ok(id) = self.sidecar.pinned(pin::CHANGE_SET_ID) {
            return Ok(Some(id));
        }
        let key = self.effect_key(EffectName::LegA, 1);
        let found = self.ports.reader.effect(&key).await.map_err(|e| self.halt(e))?;
        match (found, self.sidecar.intent.as_ref()) {
            (Some(_), Some(intent)) => Ok(intent.id(IdName::ChangeSet).ok()),
            _ => Ok(None),
        }
    }

    async fn entry_exists(&self) -> Result<bool, Halt> {
        let key = self.effect_key(EffectName::Mark, 1);
        Ok(self.ports.reader.effect(&key).await.map_err(|e| self.halt(e))?.is_some())
    }

    /// Stores an SG3 decision through the reviewer, under the stop's own identifiers. `again`
    /// is the gate that will be asked once more because of it.
    pub(super) async fn store_escalation(
        &mut self,
        stop: &StopRecord,
        answer: &Answer,
        again: Option<Stage>,
    ) -> Result<(), Halt> {
        if !self.live() {
            return Ok(());
        }
        let intent = self.stop_intent(stop);
        let found = self.ports.kb.read(&answer.path).await.map_err(|e| self.halt(e))?;
        let document = found.and_then(|d| String::from_utf8(d.bytes).ok()).unwrap_or_default();
        // An approval that was stored but not used is void once SG_1 asks again: S2 -> S3.
        let status = self.sidecar.drift_pins.0.get(crate::gate::drift::BACKLOG_STATUS).map(String::as_str);
        let cut = matches!(again, Some(Stage::GrantsProbed | Stage::AwaitingCutAuthorization));
        let redefers = cut && status == Some(BacklogState::ReviewedApproved.as_str());
        let write = ReviewWrite {
            approval_id: intent.id(IdName::Approval)?,
            review_decision_id: intent.id(IdName::ReviewDecision)?,
            decision_type: answer.ask.approval_type.clone(),
            decision: answer.approval.decision(),
            entry_id: match self.entry_exists().await? {
                true => self.sidecar.pinned(pin::ENTRY_ID).ok(),
                false => None,
            },
            history_id: match redefers {
                true => Some(intent.id(IdName::ReviewHistory)?),
                false => None,
            },
            change_set_id: self.sidecar.pinned(pin::CHANGE_SET_ID).ok(),
            approval_kb_id: answer.path.clone(),
            document,
            sha256: answer.sha256,
            nonce: stop.nonce.clone(),
            fingerprint: answer.approval.fingerprint().unwrap_or_default().to_owned(),
            actor: answer.approval.actor().to_owned(),
            expires: answer.approval.expires(),
            request_sha256: stop.uploaded.unwrap_or(crate::base::digest::Digest::from_bytes([0; 32])),
        };
        let payload = payload_digest(&write)?;
        let judge = |facts: &EffectFacts| {
            commit_if_ok(stored_approval::judge(GateId::FailureEscalation, redefers, facts))
        };
        let adopting = core::mem::replace(&mut self.adopting, true);
        let phase = self.running().unwrap_or(Phase::CutLegA);
        let performed = self
            .perform_by_word(Performance {
                occurrence: stop.n,
                ..Performance::once(
                    Act::Review { effect: EffectName::Sg3Review, write: &write },
                    payload,
                    &intent,
                    phase,
                    0,
                    &judge,
                )
            })
            .await;
        self.adopting = adopting;
        performed.map(|_| ()).map_err(|halt| answered_otherwise(halt, stop))
    }
}

fn escalation_record(stop: &StopRecord, answer: &Answer, now: jiff::Timestamp) -> ApprovalRecord {
    ApprovalRecord {
        gate: GateId::FailureEscalation,
        requested_utc: stop.at,
        approval_kb_id: answer.path.clone(),
        review_decision_id: IdName::ReviewDecision.among(&stop.ids),
        validated_utc: now,
        sha256: Some(answer.sha256),
        actor: answer.approval.actor().to_owned(),
        fingerprint: answer.approval.fingerprint().unwrap_or_default().to_owned(),
        decision: answer.approval.decision(),
        occurrence: stop.n,
        expires_utc: answer.approval.expires(),
        request_sha256: answer.ask.required.get(field::REQUEST_SHA256).and_then(|t| t.parse().ok()),
        nonce: stop.nonce.clone(),
        beside: alloc::vec![],
    }
}
