//! Decisions that another host stored: one that holds no more than the reviewer's login.
//!
//! What stands in the database is transport, not proof. Each row on the open ask is judged here as if its
//! document had been found here: its signature, by the policy now and since the ask, every value that was
//! asked, and that it moved no more than a decision moves. Then it counts, and the pins follow it. A row
//! that does not hold stops the run by name, and nothing rests on it.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::listen::{Answer, Judged};
use super::perform::{Act, Performance, Recheck, commit_if_ok};
use super::run::{Halt, Run, payload_digest};
use super::{DriveError, Outcome};
use crate::base::digest::Digest;
use crate::base::key::refusal_id;
use crate::gate::drift;
use crate::gate::plain::NotTaken;
use crate::gate::stored_approval;
use crate::machine::backlog::BacklogState;
use crate::machine::run::{GateId, Phase};
use crate::machine::stop::StopReason;
use crate::port::database::Reviewer;
use crate::port::knowledge_base::Document;
use crate::record::approval::{Ask, Purpose, field};
use crate::record::ask::{AnswerWrite, AskWrite};
use crate::record::effect::{EffectFacts, EffectName, EffectRecord, ReviewVerdict, ReviewWrite};
use crate::record::evidence::StoredApproval;
use crate::record::intent::{IdName, Intent};
use crate::record::pin;
use crate::record::policy::Chain;
use crate::record::sidecar::ApprovalRecord;

/// What only time makes wrong of a row that held.
const BY_TIME: [&str; 2] = ["approval.not_expired", "approval.within_validity"];

/// A decision that stands and holds.
struct Standing {
    effect: EffectRecord,
    answer: Answer,
}

/// The effect that stores a decision at a gate.
pub(super) const fn effect_at(gate: GateId) -> EffectName {
    match gate {
        GateId::CutAuthz => EffectName::Sg1Review,
        _ => EffectName::Sg2Review,
    }
}

impl Run<'_> {
    /// The login that stores decisions, for what only a host that has it can do.
    ///
    /// # Errors
    /// It is another host's: nothing is recorded.
    pub(super) fn reviewer(&self) -> Result<&Arc<dyn Reviewer>, Halt> {
        self.ports.reviewer.as_ref().ok_or_else(|| {
            let run_id = &self.sidecar.run_id;
            Halt::Abort(Box::new(DriveError::NotNow(format!(
                "run {run_id}: a decision on a stop is stored by the login cutter_review, for which nothing is \
                 configured here; do this on a host that has both duties: cutter why --run-id {run_id}"
            ))))
        })
    }

    /// Takes over the decisions on the open ask that stand: they become the record's, and the pins follow
    /// them. Gives back whether any stands.
    ///
    /// # Errors
    /// A row that does not hold is drift, and named.
    pub(super) async fn take_standing(&mut self) -> Result<bool, Halt> {
        let Some(ask) = self.sidecar.ask.clone().filter(|_| self.fence.is_some()) else { return Ok(false) };
        let asks = self.stored_asks().await?;
        let is_it = |a: &AskWrite| a.ask.gate == ask.gate && a.ask.occurrence == ask.occurrence;
        let Some(asked) = asks.into_iter().map(|a| a.asked).find(is_it) else { return Ok(false) };
        let standing = self.standing(&asked).await?;
        if standing.is_empty() {
            return Ok(false);
        }
        let nonce = nonce_of(&ask);
        let stands =
            |record: &ApprovalRecord| standing.iter().any(|s| Some(s.answer.sha256) == record.sha256);
        let refused = standing.iter().any(|s| !s.answer.approval.allows());
        let (own, other): (Vec<_>, Vec<_>) = core::mem::take(&mut self.sidecar.sovereign_approvals)
            .into_iter()
            .partition(|a| a.nonce == nonce);
        self.sidecar.sovereign_approvals = other;
        let gate = ask.gate;
        for one in &standing {
            let known = own.iter().find(|record| record.sha256 == Some(one.answer.sha256)).cloned();
            let record = known.unwrap_or_else(|| ApprovalRecord {
                requested_utc: asked.at,
                ..self.approval_record(gate, &one.answer)
            });
            self.sidecar.sovereign_approvals.push(record);
            self.follow(&one.effect.facts);
        }
        // Of what was accepted here and is not stored only a refusal still counts.
        let kept = |record: &ApprovalRecord| !stands(record) && !record.decision.allows() && !refused;
        self.sidecar.sovereign_approvals.extend(own.into_iter().filter(kept));
        if self.runs_on_an_answer() {
            self.heard.valid =
                standing.into_iter().map(|s| s.answer).filter(|a| !a.approval.allows()).collect();
            if let Some(refusal) = self.heard.refusal() {
                return Err(refused_by(refusal));
            }
        }
        Ok(true)
    }

    /// The last decision on the open ask, if one is on record.
    pub(super) fn decided(&self, ask: &Ask) -> Option<&ApprovalRecord> {
        self.sidecar.sovereign_approvals.iter().rev().find(|a| a.gate == ask.gate && a.nonce == nonce_of(ask))
    }

    /// Where the run waits for the other host's decision, because this answer stands.
    pub(super) fn awaits_decision(&self, answer: &str) -> Result<Option<Outcome>, Halt> {
        let missing = || Halt::corrupt("no request is open");
        let ask = self.sidecar.ask.clone().ok_or_else(missing)?;
        Ok(Some(Outcome::AwaitsDecision { ask, answer: answer.to_owned() }))
    }

    fn runs_on_an_answer(&self) -> bool {
        let name = self.sidecar.intent.as_ref().map_or("", |i| i.name.as_str());
        [Phase::CutLegA, Phase::LifecycleEnact].iter().any(|phase| phase.as_str() == name)
    }

    /// The decisions on an ask as they stand, in the order of their effects.
    async fn standing(&self, asked: &AskWrite) -> Result<Vec<Standing>, Halt> {
        let gate = asked.ask.gate;
        let evidence = self.ports.reader.evidence(&self.sidecar.run_id).await.map_err(|e| self.halt(e))?;
        let nonce = nonce_of(&asked.ask);
        let mut standing = Vec::new();
        let mut chain = None;
        for row in evidence.approvals.iter().filter(|row| row.nonce == nonce) {
            let chain = match &chain {
                Some(chain) => chain,
                None => chain.insert(self.chain().await?),
            };
            let own = IdName::Effect(effect_at(gate)).among(&asked.ids);
            let own = if row.decision == ReviewVerdict::Approve { own } else { own.map(refusal_id) };
            let stored = |e: &&EffectRecord| e.key.effect == effect_at(gate) && e.at == row.at;
            let by_id = evidence.effects.iter().filter(stored).find(|e| Some(e.effect_id) == own);
            let effect = by_id.or_else(|| evidence.effects.iter().find(stored));
            let checked = match effect {
                Some(effect) => self.check_row(asked, row, effect, chain).await?,
                None => Err("expected the effect that stored it, observed none".to_owned()),
            };
            match (checked, effect) {
                (Ok(answer), Some(effect)) => standing.push(Standing { effect: effect.clone(), answer }),
                (Err(why), _) => return Err(self.forged(row, &why).await?),
                (Ok(_), None) => {}
            }
        }
        standing.sort_by_key(|s| s.effect.key.occurrence);
        Ok(standing)
    }

    /// Whether a row is what whoever stores decisions would have written of a document that holds. The
    /// inner error says why not.
    async fn check_row(
        &self,
        asked: &AskWrite,
        row: &StoredApproval,
        effect: &EffectRecord,
        chain: &Chain,
    ) -> Result<Result<Answer, String>, Halt> {
        let document = Document { bytes: row.document.clone().into_bytes(), revision: 1, sha256: row.sha256 };
        let ask = core::slice::from_ref(&asked.ask);
        let answer = match self
            .consider(&row.approval_kb_id, &document, ask, (chain, &BTreeSet::new()), Judged::Stored)
            .await?
        {
            Ok(answer) => answer,
            Err(NotTaken { report, .. }) => {
                let failed: Vec<&str> = report.failures().iter().map(|c| c.invariant.as_str()).collect();
                if !failed.is_empty() && failed.iter().all(|id| BY_TIME.contains(id)) {
                    return Err(Halt::stop(
                        StopReason::ApprovalChanged,
                        format!("approval {}: {report}", row.approval_kb_id),
                    ));
                }
                return Ok(Err(format!("{report}")));
            }
        };
        let approval = &answer.approval;
        let micros = |t: Option<jiff::Timestamp>| t.map(jiff::Timestamp::as_microsecond);
        for (column, is_so) in [
            ("type", row.gate == asked.ask.approval_type),
            ("sha256", Digest::of(row.document.as_bytes()) == row.sha256),
            ("decision", row.decision == approval.decision()),
            ("actor", row.actor == approval.actor()),
            ("fingerprint", row.fingerprint == approval.fingerprint().unwrap_or_default()),
            ("expires_at", micros(row.expires) == micros(approval.expires())),
        ] {
            if !is_so {
                return Ok(Err(format!("{column}: expected what its document says, observed another value")));
            }
        }
        let known = self.sidecar.sovereign_approvals.iter().any(|a| a.sha256 == Some(row.sha256));
        let facts = &effect.facts;
        let gate = asked.ask.gate;
        let moved = facts.survey_before.0.get(drift::BACKLOG_STATUS)
            != facts.survey_after.0.get(drift::BACKLOG_STATUS);
        let judged = stored_approval::judge(gate, moved, facts);
        if !judged.ok() {
            return Ok(Err(format!("its effect: {judged}")));
        }
        if !known && self.payload_of(asked, row, moved)? != Some(effect.payload_sha256) {
            return Ok(Err("its effect: expected the digest of its rows, observed another".to_owned()));
        }
        Ok(Ok(answer))
    }

    /// The digest of the request that a driver makes of this decision.
    fn payload_of(
        &self,
        asked: &AskWrite,
        row: &StoredApproval,
        moved: bool,
    ) -> Result<Option<Digest>, Halt> {
        let answer = AnswerWrite {
            gate: asked.ask.gate,
            occurrence: asked.ask.occurrence,
            decision: row.decision,
            approval_kb_id: row.approval_kb_id.clone(),
            document: row.document.clone(),
            fingerprint: row.fingerprint.clone(),
            actor: row.actor.clone(),
        };
        let pinned = |pin| self.sidecar.pinned(pin).ok();
        let (entry, change_set) = (pinned(pin::ENTRY_ID), pinned(pin::CHANGE_SET_ID));
        let write = asked.decision(&answer, row.expires, entry, change_set, moved);
        let own = write.filter(|write| write.approval_id == row.approval_id);
        own.map(|write| payload_digest(&write)).transpose()
    }

    /// Consent that stands already is the document that was judged, and no other.
    async fn stored_as_validated(
        &self,
        approval_id: uuid::Uuid,
        record: &ApprovalRecord,
    ) -> Result<(), Halt> {
        let evidence = self.ports.reader.evidence(&self.sidecar.run_id).await.map_err(|e| self.halt(e))?;
        let stored = evidence.approvals.iter().find(|a| a.approval_id == approval_id).map(|a| a.sha256);
        if stored == record.sha256 {
            return Ok(());
        }
        let said = |d: Option<Digest>| d.map_or_else(|| "none".to_owned(), |d| d.to_hex());
        Err(Halt::stop(
            StopReason::ApprovalChanged,
            format!(
                "consent {approval_id}: expected the document {}, which was judged, observed {}",
                said(record.sha256),
                said(stored)
            ),
        ))
    }

    /// As [`Self::store_approval`], where it must be stored: nothing begins on an answer before.
    pub(super) async fn stored_approval(
        &mut self,
        intent: &Intent,
        gate: GateId,
        effect: EffectName,
        phase: Phase,
    ) -> Result<(), Halt> {
        if self.store_approval(intent, gate, effect, phase).await? {
            return Ok(());
        }
        let (number, record) = self.numbered_decision(gate)?;
        Err(Halt::drift(&[crate::gate::drift::Difference {
            dimension: drift::EFFECT.to_owned(),
            expected: Some(format!("{effect} {number} of {}", record.approval_kb_id)),
            observed: None,
        }]))
    }

    /// Stores a validated approval through the reviewer: its own fenced transaction. What another host
    /// stored meanwhile counts instead. False where only another host stores decisions, and has not yet.
    pub(super) async fn store_approval(
        &mut self,
        intent: &Intent,
        gate: GateId,
        effect: EffectName,
        phase: Phase,
    ) -> Result<bool, Halt> {
        let (number, record) = self.numbered_decision(gate)?;
        if record.decision.allows() {
            self.approval_stands(&record).await?;
        }
        let decides_here = self.ports.reviewer.is_some();
        if (self.adopting || !decides_here) && self.adopt(effect, number).await? {
            return self.stored_as_validated(intent.id(IdName::Approval)?, &record).await.map(|()| true);
        }
        if !decides_here {
            return Ok(false);
        }
        let document = self.approval_document(&record).await?;
        // An entry that was approved already, by an answer that is asked for again, stays so.
        let status = self.sidecar.drift_pins.0.get(crate::gate::drift::BACKLOG_STATUS);
        let stands =
            record.decision.allows() && status.is_some_and(|s| s == BacklogState::ReviewedApproved.as_str());
        let moves = effect == EffectName::Sg1Review && !stands;
        let write = ReviewWrite {
            approval_id: intent.id(IdName::Approval)?,
            review_decision_id: match effect {
                EffectName::Sg2Review => self.sidecar.pinned(pin::REVIEW_DECISION_ID)?,
                _ => intent.id(IdName::ReviewDecision)?,
            },
            decision_type: match effect {
                EffectName::Sg2Review => Purpose::Lifecycle.as_str().to_owned(),
                _ => Purpose::Cut.as_str().to_owned(),
            },
            decision: record.decision,
            entry_id: self.sidecar.pinned(pin::ENTRY_ID).ok(),
            history_id: if moves { Some(intent.id(IdName::ReviewHistory)?) } else { None },
            change_set_id: self.sidecar.pinned(pin::CHANGE_SET_ID).ok(),
            approval_kb_id: record.approval_kb_id.clone(),
            document,
            sha256: record.sha256.unwrap_or(Digest::from_bytes([0; 32])),
            nonce: record.nonce.clone(),
            fingerprint: record.fingerprint.clone(),
            actor: record.actor.clone(),
            expires: record.expires_utc,
            request_sha256: record.request_sha256.unwrap_or(Digest::from_bytes([0; 32])),
        };
        let payload = payload_digest(&write)?;
        let judge = |facts: &EffectFacts| commit_if_ok(stored_approval::judge(gate, moves, facts));
        // a refusal that was heard counts, whatever becomes of its document
        let recheck = (write.decision == ReviewVerdict::Approve).then(|| Recheck::of(&record));
        let performed = self
            .perform(Performance {
                occurrence: number,
                recheck,
                ..Performance::once(Act::Review { effect, write: &write }, payload, intent, phase, 0, &judge)
            })
            .await;
        let Err(halt) = performed else { return Ok(true) };
        // another host may have stored a decision first, of this document or of another one
        if matches!(halt, Halt::Abort(_)) || !self.take_standing().await? {
            return Err(halt);
        }
        let (number, now) = self.numbered_decision(gate)?;
        if now.decision != record.decision || !self.adopt(effect, number).await? {
            return Err(halt);
        }
        self.persist().await?;
        self.stored_as_validated(intent.id(IdName::Approval)?, &now).await.map(|()| true)
    }

    /// A row that whoever stores decisions wrote and that does not hold.
    async fn forged(&self, row: &StoredApproval, why: &str) -> Result<Halt, Halt> {
        let live = self.survey().await?;
        let mut differences = drift::compare(&self.sidecar.drift_pins, &live);
        differences.retain(|d| d.dimension != drift::POLICY);
        if differences.is_empty() {
            let pinned = self.sidecar.drift_pins.0.get(drift::APPROVALS).cloned();
            let dimension = drift::APPROVALS.to_owned();
            differences.push(drift::Difference { dimension, expected: None, observed: pinned });
        }
        let mut halt = Halt::drift(&differences);
        if let Halt::Stop(stop) = &mut halt {
            let line: String = why.split_whitespace().collect::<Vec<_>>().join(" ");
            stop.detail.extend(vec![
                format!(
                    "review_approval {} ({}, {}) does not hold: {}",
                    row.approval_id,
                    row.decision.as_str(),
                    row.approval_kb_id,
                    line.chars().take(400).collect::<String>()
                ),
                format!(
                    "nothing rests on it; find out who has the login cutter_review, then: cutter orchestrate resume \
                     --run-id {}, which asks anew",
                    self.sidecar.run_id
                ),
            ]);
        }
        Ok(halt)
    }
}

/// STOP_REFUSED in the words of a refusal.
pub(super) fn refused_by(refusal: &Answer) -> Halt {
    Halt::stop(
        StopReason::Refused,
        format!("{} by {}: {}", refusal.approval.decision().as_str(), refusal.approval.actor(), refusal.path),
    )
}

fn nonce_of(ask: &Ask) -> &str {
    ask.required.get(field::NONCE).map_or("", String::as_str)
}
