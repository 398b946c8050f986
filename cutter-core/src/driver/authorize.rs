//! Sovereign gates: act on what was heard ([`super::listen`]).
//!
//! An approval may arrive before or after the pause; it fits one occurrence of one gate of
//! one run because it repeats the request's nonce. A refusal counts until the transaction that
//! relies on an approval commits.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Outcome;
use super::decisions::{effect_at, refused_by};
use super::listen::{Answer, approval_prefix};
use super::perform::Recheck;
use super::run::{Halt, Run};
use super::step;
use super::stopping::{ask_for_stop, is_for_the_next_gate, stop_kinds};
use crate::base::digest::Digest;
use crate::base::key::refusal_id;
use crate::gate::drift;
use crate::machine::run::{GateId, Phase, Stage};
use crate::machine::stop::StopReason;
use crate::record::approval::{Ask, Purpose, field};
use crate::record::effect::{EffectName, ReviewVerdict};
use crate::record::intent::{IdName, Intent};
use crate::record::pin;
use crate::record::sidecar::{AlsoApproved, ApprovalRecord, Considered, PhaseResult, StopRecord};
use crate::report::naming::EscalationKind;

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
        if !refused
            && let Some(why) = self.why_anew(gate).await?
            && !self.committed(effect).await?
        {
            return self.ask_instead(gate, stage, why).await;
        }
        if self.adopting && !self.is_on_record().await? {
            // a run that was parked before asks were rows has none yet
            self.store_ask().await?;
        }
        if self.intent()?.name == phase.as_str() {
            return self.carry_out(gate, phase).await;
        }
        if refused {
            return self.carry_out_refusal(gate).await;
        }
        let ask = self.open_ask()?;
        let heard = self.search(core::slice::from_ref(&ask), approval_prefix(gate)).await?;
        self.store_answers(&heard.valid).await?;
        let decides_here = self.ports.reviewer.is_some();
        if !decides_here {
            self.take_standing().await?;
        }
        let too_few = heard.too_few(self.decided(&ask).and_then(ApprovalRecord::signer));
        let decided = self.decided(&ask).map(|record| record.decision.allows());
        let is_held = too_few.is_some() || heard.unclear.is_some() && heard.refusal().is_none();
        let is_allowed = !is_held && decided.unwrap_or(!heard.valid.is_empty()) && heard.refusal().is_none();
        if is_allowed && let Some(why) = self.shown_otherwise(&ask).await? {
            return self.ask_instead(gate, stage, why).await;
        }
        if is_allowed {
            self.tell(&heard.invalid);
        }
        match (decided, heard.valid.first()) {
            (Some(false), _) => self.begin_refusal(gate, ask.occurrence).await,
            _ if is_held => Ok(Some(Outcome::Paused { ask, invalid: heard.invalid, too_few })),
            (Some(true), _) if heard.refusal().is_none() => {
                self.policy_stands().await?;
                if let Some(record) = self.sidecar.sovereign_approvals.last_mut()
                    && let Some(answer) = heard.valid.iter().find(|a| Some(a.sha256) == record.sha256)
                {
                    record.beside = heard.beside(answer);
                }
                self.begin(gate, phase, ask.occurrence).await
            }
            (_, Some(answer)) if decides_here => self.act_on(gate, phase, answer, heard.beside(answer)).await,
            (_, Some(answer)) => self.awaits_decision(&answer.path),
            (_, None) => {
                self.ports.observer.progress(&crate::port::environment::Progress::Paused {
                    gate: gate.as_str(),
                    request_kb_id: ask.request_path.clone(),
                });
                Ok(Some(Outcome::Paused { ask, invalid: heard.invalid, too_few: None }))
            }
        }
    }

    /// The phase that an approval allows. Its transaction listens once more: a refusal that came
    /// meanwhile is carried out instead, and what else was heard is stored.
    async fn carry_out(&mut self, gate: GateId, phase: Phase) -> Result<Option<Outcome>, Halt> {
        let done = self.phase(phase).await;
        let heard = core::mem::take(&mut self.heard);
        self.store_answers(&heard.valid).await?;
        match (done, heard.refusal()) {
            (Err(_), Some(refusal)) => self.refuse(gate, refusal).await,
            (done, _) => done.map(|()| None),
        }
    }

    /// Listens while the transaction that relies on an answer is open.
    ///
    /// # Errors
    /// STOP_REFUSED if a refusal is heard; STOP_APPROVAL_CHANGED if fewer approve than must, or a word is not
    /// plain.
    pub(super) async fn hear_before_commit(&mut self) -> Result<(), Halt> {
        let gate = match self.stage()? {
            Stage::AwaitingCutAuthorization => GateId::CutAuthz,
            Stage::AwaitingLifecycleAuthorization => GateId::LifecycleAuthz,
            _ => return Ok(()),
        };
        let ask = self.open_ask()?;
        self.heard = self.listen(core::slice::from_ref(&ask), approval_prefix(gate)).await?;
        if let Some(refusal) = self.heard.refusal() {
            return Err(refused_by(refusal));
        }
        if let Some(unclear) = &self.heard.unclear {
            let detail = format!("{gate}: {}: {}", unclear.approval_kb_id, unclear.detail);
            return Err(Halt::stop(StopReason::ApprovalChanged, detail));
        }
        let spent = self.decided(&ask).and_then(ApprovalRecord::signer);
        self.heard.too_few(spent).map_or(Ok(()), |too_few| {
            Err(Halt::stop(StopReason::ApprovalChanged, format!("{gate}: {too_few}")))
        })
    }

    /// Begins nothing on an answer before: its phase is not running any more.
    pub(super) fn forget_running(&mut self) {
        for phase in [Phase::CutLegA, Phase::LifecycleEnact] {
            let running = self.sidecar.phases.get(phase.as_str());
            if running.is_some_and(|r| r.result == PhaseResult::Running) {
                self.sidecar.phases.remove(phase.as_str());
            }
        }
    }

    pub(super) fn open_ask(&self) -> Result<Ask, Halt> {
        let missing = || Halt::corrupt("no request is open");
        self.sidecar.ask.clone().ok_or_else(missing)
    }

    /// Begins what an answer allows, or carries out its refusal.
    async fn act_on(
        &mut self,
        gate: GateId,
        phase: Phase,
        answer: &Answer,
        beside: Vec<AlsoApproved>,
    ) -> Result<Option<Outcome>, Halt> {
        if !answer.approval.allows() {
            return self.refuse(gate, answer).await;
        }
        self.policy_stands().await?;
        let record = ApprovalRecord { beside, ..self.approval_record(gate, answer) };
        self.sidecar.sovereign_approvals.push(record);
        self.begin(gate, phase, answer.ask.occurrence).await
    }

    /// Begins what the approval on record allows, under the ask's own ids: whoever stores the decision
    /// writes the same rows.
    async fn begin(&mut self, gate: GateId, phase: Phase, occurrence: u32) -> Result<Option<Outcome>, Halt> {
        if phase == Phase::LifecycleEnact {
            self.has_room_to_close()?;
        }
        let mut intent = self.choose(phase.as_str(), occurrence, &step::ids_of(phase), false);
        let asked = self.intent()?.ids.clone();
        for (name, id) in &mut intent.ids {
            *id = asked.get(name).copied().unwrap_or(*id);
        }
        self.set_running(phase, intent);
        self.adopting = false;
        self.persist().await?;
        self.carry_out(gate, phase).await
    }

    /// Records a refusal, and carries it out.
    pub(super) async fn refuse(&mut self, gate: GateId, answer: &Answer) -> Result<Option<Outcome>, Halt> {
        if self.decision(gate).is_ok_and(|last| last.sha256 == Some(answer.sha256)) {
            return self.begin_refusal(gate, answer.ask.occurrence).await;
        }
        let record = self.approval_record(gate, answer);
        self.sidecar.sovereign_approvals.push(record);
        self.begin_refusal(gate, answer.ask.occurrence).await
    }

    /// Begins to carry out the refusal on record, under ids that follow from the ask's.
    pub(super) async fn begin_refusal(
        &mut self,
        gate: GateId,
        occurrence: u32,
    ) -> Result<Option<Outcome>, Halt> {
        self.forget_running();
        let ids = [
            IdName::Effect(EffectName::Sg1Review),
            IdName::Effect(EffectName::Sg2Review),
            IdName::Approval,
            IdName::ReviewDecision,
            IdName::ReviewHistory,
        ];
        let mut intent = self.choose(REFUSAL, occurrence, &ids, false);
        let asked = self.intent()?.ids.clone();
        for (name, id) in &mut intent.ids {
            *id = asked.get(name).map_or(*id, |asked| refusal_id(*asked));
        }
        self.sidecar.intent = Some(intent);
        self.persist().await?;
        self.carry_out_refusal(gate).await
    }

    /// Stores a refusal (S1 → S4, or S3 for a deferral), then stops the run (D32).
    pub(super) async fn carry_out_refusal(&mut self, gate: GateId) -> Result<Option<Outcome>, Halt> {
        let intent = self.intent()?.clone();
        let phase = if gate == GateId::CutAuthz { Phase::CutLegA } else { Phase::LifecycleEnact };
        let effect = effect_at(gate);
        let stored = self.store_approval(&intent, gate, effect, phase).await?;
        let record = self.decision(gate)?;
        if !stored {
            return self.awaits_decision(&record.approval_kb_id);
        }
        Err(Halt::stop(
            StopReason::Refused,
            format!("{} by {}: {}", record.decision, record.actor, record.approval_kb_id),
        ))
    }

    pub(super) fn approval_record(&self, gate: GateId, answer: &Answer) -> ApprovalRecord {
        let approval = &answer.approval;
        ApprovalRecord {
            gate,
            requested_utc: self.sidecar.intent.as_ref().map_or(self.sidecar.created_utc, |i| i.at),
            approval_kb_id: answer.path.clone(),
            review_decision_id: match gate {
                GateId::LifecycleAuthz => self.sidecar.pinned(pin::REVIEW_DECISION_ID).ok(),
                _ => None,
            },
            validated_utc: self.ports.clock.now(),
            sha256: Some(answer.sha256),
            actor: approval.actor().to_owned(),
            fingerprint: approval.fingerprint().unwrap_or_default().to_owned(),
            decision: approval.decision(),
            occurrence: answer.ask.occurrence,
            expires_utc: approval.expires(),
            request_sha256: answer.ask.required.get(field::REQUEST_SHA256).and_then(|t| t.parse().ok()),
            nonce: answer.ask.required.get(field::NONCE).cloned().unwrap_or_default(),
            beside: Vec::new(),
        }
    }

    /// The last approving record for a gate.
    pub(super) fn decision(&self, gate: GateId) -> Result<ApprovalRecord, Halt> {
        Ok(self.numbered_decision(gate)?.1)
    }

    /// The last decision at a gate, with the number of its effect.
    pub(super) fn numbered_decision(&self, gate: GateId) -> Result<(u32, ApprovalRecord), Halt> {
        let missing = || Halt::corrupt(format!("no decision at {gate} is recorded"));
        self.sidecar.last_decision(gate).map(|(n, record)| (n, record.clone())).ok_or_else(missing)
    }

    /// The approval's bytes as validated.
    pub(super) async fn approval_document(&self, record: &ApprovalRecord) -> Result<String, Halt> {
        if !record.decision.allows() {
            // heard once, it counts, whatever became of the document
            let asks = self.stored_asks().await?;
            let mut stored = asks.into_iter().flat_map(|ask| ask.answers).map(|a| a.answer);
            if let Some(answer) = stored.find(|answer| Some(answer.sha256()) == record.sha256) {
                return Ok(answer.document);
            }
        }
        let recheck = Recheck::unexpired(record);
        self.recheck(&recheck).await?;
        let found = self.ports.kb.read(&record.approval_kb_id).await.map_err(|e| self.halt(e))?;
        let text = found.and_then(|d| String::from_utf8(d.bytes).ok());
        text.ok_or_else(|| Halt::stop(StopReason::ApprovalChanged, "the approval is no text any more"))
    }

    /// An authority stop: goes on only with a signed SG3 approval (PROTOCOL §5).
    pub(super) async fn answer_stop(&mut self) -> Result<Option<Outcome>, Halt> {
        let stop = self.open_stop().await?;
        if stop.resolved_by.is_some() {
            return Ok(None);
        }
        if is_for_the_next_gate(&self.sidecar, &stop) {
            return self.take_to_the_gate(&stop).await;
        }
        let kinds = stop_kinds(&self.sidecar, &stop).into_iter().filter(|k| *k != EscalationKind::Void);
        let asks: Vec<Ask> = kinds.map(|k| ask_for_stop(&self.sidecar, &stop, k)).collect();
        let heard = self.search(&asks, approval_prefix(GateId::FailureEscalation)).await?;
        // no is final; whoever said not now is overtaken by a later yes
        let refusal = heard.refusal();
        let overtakes = |answer: &&Answer| {
            answer.approval.allows()
                && refusal.is_none_or(|refusal| {
                    refusal.approval.decision() == ReviewVerdict::Defer
                        && refusal.approval.signed_at() < answer.approval.signed_at()
                })
        };
        self.tell(&heard.invalid);
        let overtaking = heard.valid.iter().find(overtakes).filter(|_| heard.unclear.is_none());
        match (overtaking, refusal) {
            (Some(answer), _) => self.accept_answer(answer).await,
            (None, refusal) => {
                let said = refusal.map(|refusal| Considered {
                    approval_kb_id: refusal.path.clone(),
                    sha256: refusal.sha256,
                    invariant: "approval.decision".to_owned(),
                    detail: format!(
                        "{} by {}: the run stays stopped{}",
                        refusal.approval.decision().as_str(),
                        refusal.approval.actor(),
                        match refusal.approval.decision() {
                            ReviewVerdict::Defer => ", until an approval is signed after it",
                            _ => "; it can be voided",
                        }
                    ),
                });
                self.remember(said.as_slice()).await?;
                Ok(Some(Outcome::Stopped(stop)))
            }
        }
    }

    /// Drift before a gate: what is observed becomes what the run stands on, a new backup is taken while
    /// nothing is written yet, and the gate asks once more.
    async fn take_to_the_gate(&mut self, stop: &StopRecord) -> Result<Option<Outcome>, Halt> {
        self.adopt_lost().await?;
        let pinned = self.sidecar.drift_pins.clone();
        self.repin(&stop.observed).await?;
        self.check_drift().await?;
        if let Some(outcome) = self.refused_meanwhile(false).await? {
            return Ok(Some(outcome));
        }
        if let Some(last) = self.sidecar.stops.last_mut() {
            last.resolved_by = Some("the next request".to_owned());
        }
        let asks_anew = [drift::BASE_STATE, drift::POLICY].iter().any(|d| stop.observed.contains_key(*d));
        if self.sidecar.drift_pins == pinned && !asks_anew {
            // it was mended: what was asked and answered stands
            return self.persist().await.map(|()| None);
        }
        let again = self.asks_again(stop, true).await?;
        if self.sidecar.backup.is_some() && !self.committed(EffectName::LegA).await? {
            self.backup_again().await?;
        }
        if let Some(stage) = again {
            self.ask_again(stop, stage).await?;
        }
        self.persist().await.map(|()| None)
    }

    async fn accept_answer(&mut self, answer: &Answer) -> Result<Option<Outcome>, Halt> {
        let stop = self.open_stop().await?;
        let acknowledged = answer.ask.is_for(Purpose::Drift);
        self.adopt_lost().await?;
        if acknowledged {
            self.repin(&stop.observed).await?;
        }
        let again = self.asks_again(&stop, acknowledged).await?;
        // a refusal is what the stop of a refusal is about
        if again.is_some()
            && stop.code != StopReason::Refused.code()
            && let Some(outcome) =
                self.refused_meanwhile(stop.code == StopReason::ApprovalChanged.code()).await?
        {
            return Ok(Some(outcome));
        }
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
        self.persist().await.map(|()| None)
    }

    /// A stop may have been recorded over an effect that a lost attempt committed: a decision on
    /// the stop must not find this run's own rows to be drift.
    async fn adopt_lost(&mut self) -> Result<(), Halt> {
        let Some(intent) = self.sidecar.intent.clone() else { return Ok(()) };
        let phase = self.running().filter(|p| p.as_str() == intent.name);
        let own = phase.map_or(&[][..], |phase| step::of(phase).effects()).iter();
        let mut effects: Vec<(EffectName, u32)> = own.map(|e| (*e, self.occurrence_of(*e))).collect();
        if intent.name == GateId::LifecycleAuthz.as_str() {
            effects.push((EffectName::Sg2Request, intent.occurrence));
        }
        if intent.name == REFUSAL {
            for (effect, gate) in
                [(EffectName::Sg1Review, GateId::CutAuthz), (EffectName::Sg2Review, GateId::LifecycleAuthz)]
            {
                effects.extend(self.sidecar.last_decision(gate).map(|(n, _)| (effect, n)));
            }
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
                drift::BASE_STATE => {
                    let digest: Digest =
                        value.parse().map_err(|_| Halt::corrupt("base_state is no sha256"))?;
                    self.pin(pin::BASE_STATE_SHA, digest);
                    if let Some(backup) = &mut self.sidecar.backup {
                        backup.base_state_sha = digest;
                    }
                }
                _ if value == "absent" => {
                    self.sidecar.drift_pins.0.remove(dimension);
                }
                _ => {
                    // what was shown in short stands where it is that still
                    let stands = live.0.get(dimension).filter(|live| drift::in_short(live) == *value);
                    let value = stands.unwrap_or(value).clone();
                    self.sidecar.drift_pins.0.insert(dimension.clone(), value);
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
            date: crate::record::intent::date_of(stop.at),
            ids: stop.ids.clone(),
            nonce: Some(stop.nonce.clone()),
        }
    }
}

/// Name of the intent that carries out a refusal.
pub(super) const REFUSAL: &str = "refusal";

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
