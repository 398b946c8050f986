//! Asks and answers as the database holds them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::Outcome;
use super::authorize::REFUSAL;
use super::listen::{Answer, Judged, approval_prefix};
use super::run::{Halt, Run};
use crate::base::digest::Digest;
use crate::machine::run::{GateId, Stage};
use crate::record::ask::{AnswerWrite, AskWrite, RunBegun, StoredAsk};
use crate::record::effect::EffectName;
use crate::report::closing;

impl Run<'_> {
    /// The asks of this run that are on record, where it came so far that it writes to a database.
    pub(super) async fn stored_asks(&self) -> Result<Vec<StoredAsk>, Halt> {
        match self.fence {
            Some(_) => self.ports.reader.asks(&self.sidecar.run_id).await.map_err(|e| self.halt(e)),
            None => Ok(Vec::new()),
        }
    }

    /// Stores the valid answers to asks that have closed, which nobody listens to any more: the database
    /// marks them late, and nothing rests on them. Gives back what it holds of such, a line each.
    pub(super) async fn store_late(&self) -> Result<Vec<String>, Halt> {
        let nonces = self.nonces().await?;
        for stored in self.stored_asks().await?.iter().filter(|stored| stored.closed) {
            let ask = core::slice::from_ref(&stored.asked.ask);
            let gate = ask[0].gate;
            let chain = self.chain().await?;
            let known: BTreeSet<Digest> = stored.answers.iter().map(|a| a.answer.sha256()).collect();
            let mut late = Vec::new();
            for path in self.candidates(ask, approval_prefix(gate)).await? {
                let document = match self.ports.kb.read(&path).await {
                    Ok(Some(document)) if !known.contains(&document.sha256) => document,
                    Ok(_) => continue,
                    Err(error) if error.kind.is_junk() => continue,
                    Err(error) => return Err(self.halt(error)),
                };
                late.extend(
                    self.consider(&path, &document, ask, (&chain, &nonces), Judged::Filed).await?.ok(),
                );
            }
            self.store_answers(&late).await?;
        }
        let stored = self.stored_asks().await?;
        let late = stored.iter().flat_map(|ask| &ask.answers).filter(|a| a.late).map(|a| &a.answer);
        Ok(late.map(closing::came_late).collect())
    }

    /// Whether the open ask is on record as it is.
    pub(super) async fn is_on_record(&self) -> Result<bool, Halt> {
        let stored = self.stored_asks().await?;
        Ok(self.sidecar.ask.as_ref().is_some_and(|ask| stored.iter().any(|s| s.asked.ask == *ask)))
    }

    /// Stores the open ask; the same one again is fine.
    pub(super) async fn store_ask(&self) -> Result<(), Halt> {
        let Some(ask) = self.sidecar.ask.clone() else { return Ok(()) };
        if !ask.required.contains_key(crate::record::approval::field::ROWS_DIGEST) {
            // asked before requests named the rows: it is asked anew
            return Ok(());
        }
        let intent = self.intent()?;
        let policy_head =
            ask.required.get(crate::record::approval::field::POLICY_HEAD).and_then(|h| h.parse().ok());
        let write = AskWrite {
            ids: intent.ids.clone(),
            policy_head,
            at: intent.at,
            begun: Some(RunBegun {
                settings: self.sidecar.settings.text().to_owned(),
                creation: (*self.sidecar.creation).clone(),
            }),
            ask,
        };
        self.ports.executor.open_ask(self.fence()?, &write).await.map_err(|e| self.halt(e))
    }

    /// Stores valid answers to an ask that is on record; what stands there already is fine.
    pub(super) async fn store_answers(&self, answers: &[Answer]) -> Result<(), Halt> {
        let sovereign = |a: &&Answer| a.ask.gate != GateId::FailureEscalation;
        let named = |a: &&Answer| a.ask.required.contains_key(crate::record::approval::field::ROWS_DIGEST);
        let writes: Vec<AnswerWrite> =
            answers.iter().filter(sovereign).filter(named).map(Answer::to_write).collect();
        let Some(reviewer) =
            self.ports.reviewer.as_ref().filter(|_| !writes.is_empty() && self.fence.is_some())
        else {
            return Ok(());
        };
        reviewer.record_answers(&self.sidecar.run_id, &writes).await.map_err(|e| self.halt(e))
    }

    /// What is asked is open until it is asked anew: a refusal of it that came meanwhile is carried out, and a word that
    /// is not plain holds it, unless a person has answered that (`is_answered`).
    pub(super) async fn refused_meanwhile(&mut self, is_answered: bool) -> Result<Option<Outcome>, Halt> {
        let Some(ask) = self.sidecar.ask.clone() else { return Ok(None) };
        let (gate, effect) = match ask.gate {
            gate @ GateId::CutAuthz => (gate, EffectName::LegA),
            gate @ GateId::LifecycleAuthz => (gate, EffectName::Enact),
            _ => return Ok(None),
        };
        if self.fence.is_none() || self.committed(effect).await? {
            return Ok(None);
        }
        // a refusal that was taken, and not carried out for what stopped the run, is
        if self.intent()?.name == REFUSAL {
            return self.carry_out_refusal(gate).await;
        }
        if self.decided(&ask).is_some_and(|record| !record.decision.allows()) {
            return self.begin_refusal(gate, ask.occurrence).await;
        }
        let heard = self.listen(core::slice::from_ref(&ask), approval_prefix(gate)).await?;
        self.store_answers(&heard.valid).await?;
        match heard.refusal() {
            Some(refusal) => self.refuse(gate, refusal).await,
            None if heard.unclear.is_some() && !is_answered => {
                self.remember(&heard.invalid).await?;
                Ok(Some(Outcome::Paused { ask, invalid: heard.invalid, too_few: None }))
            }
            None => Ok(None),
        }
    }

    /// No approval of the open request can be relied on, so it is asked once more. A refusal of it counts.
    pub(super) async fn ask_instead(
        &mut self,
        gate: GateId,
        stage: Stage,
        why: String,
    ) -> Result<Option<Outcome>, Halt> {
        let ask = self.open_ask()?;
        self.explicit_approval = None;
        let heard = self.search(core::slice::from_ref(&ask), approval_prefix(gate)).await?;
        self.store_answers(&heard.valid).await?;
        if let Some(refusal) = heard.refusal() {
            return self.refuse(gate, refusal).await;
        }
        if heard.unclear.is_some() {
            return Ok(Some(Outcome::Paused { ask, invalid: heard.invalid, too_few: None }));
        }
        self.check_drift().await?;
        self.policy_stands().await?;
        self.ask_anew(stage, Some(why)).await?;
        self.persist().await?;
        self.publish_request_again().await?;
        Ok(None)
    }
}
