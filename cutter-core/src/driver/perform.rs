//! Effects: perform, adopt, or find out what became of them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use super::DriveError;
use super::run::{Halt, Run};
use crate::base::digest::Digest;
use crate::driver::restore::relied_on;
use crate::gate::command::same_payload;
use crate::gate::{backlog, drift};
use crate::machine::backlog::BacklogState;
use crate::machine::run::{GateId, Phase, Stage};
use crate::machine::stop::StopReason;
use crate::port::database::Begun;
use crate::port::{PortErrorKind, PortResult};
use crate::record::ask::StoredAsk;
use crate::record::check::GateReport;
use crate::record::effect::{
    EffectContext, EffectFacts, EffectKey, EffectName, EffectRecord, ExecutorEffect, ReviewVerdict,
    ReviewWrite, Verdict, WriteVerifyWrite,
};
use crate::record::intent::{IdName, Intent};
use crate::record::observed::Fence;
use crate::record::pin;
use crate::record::sidecar::ApprovalRecord;

/// An effect together with the principal that may perform it.
pub(super) enum Act<'a> {
    Execute(&'a ExecutorEffect),
    Review { effect: EffectName, write: &'a ReviewWrite },
    Verify(&'a WriteVerifyWrite),
}

/// What to perform.
pub(super) struct Performance<'a> {
    pub(super) act: Act<'a>,
    pub(super) occurrence: u32,
    /// Digest of the request, less everything that a redo may choose anew.
    pub(super) payload: Digest,
    /// The intent that chose the identifiers.
    pub(super) intent: &'a Intent,
    /// Whose cap bounds the call.
    pub(super) phase: Phase,
    /// Units of the change set, for the drift that the effect explains.
    pub(super) units: u64,
    /// The approval to read again while the transaction is open (D14).
    pub(super) recheck: Option<Recheck>,
    /// Pure: judges the facts.
    pub(super) judge: &'a (dyn Fn(&EffectFacts) -> (GateReport, Verdict) + Sync),
}

impl Act<'_> {
    /// The name under which it is recorded.
    fn effect(&self) -> EffectName {
        use ExecutorEffect as E;
        match self {
            Self::Execute(E::Mark(_)) => EffectName::Mark,
            Self::Execute(E::Sweep(_)) => EffectName::Sweep,
            Self::Execute(E::LegA(_)) => EffectName::LegA,
            Self::Execute(E::LegB(_)) => EffectName::LegB,
            Self::Execute(E::Sg2Request(_)) => EffectName::Sg2Request,
            Self::Execute(E::Enact(_)) => EffectName::Enact,
            Self::Execute(E::Void(_)) => EffectName::Void,
            Self::Review { effect, .. } => *effect,
            Self::Verify(_) => EffectName::WriteVerify,
        }
    }
}

impl<'a> Performance<'a> {
    /// What happens once, on nobody's word.
    pub(super) fn once(
        act: Act<'a>,
        payload: Digest,
        intent: &'a Intent,
        phase: Phase,
        units: u64,
        judge: &'a (dyn Fn(&EffectFacts) -> (GateReport, Verdict) + Sync),
    ) -> Self {
        Self { act, occurrence: 1, payload, intent, phase, units, recheck: None, judge }
    }
}

impl Performance<'_> {
    /// The gate at which an embedder's own gates are asked about the transaction: a sovereign's
    /// where consent is stored. None guards a request, a refusal, or what a sovereign's word carries
    /// out; a sweep follows its MARK.
    fn own_gate(&self) -> Option<GateId> {
        use EffectName as E;
        match (&self.act, self.act.effect()) {
            (Act::Review { write, .. }, _) if write.decision != ReviewVerdict::Approve => None,
            (_, E::Sg1Review) => Some(GateId::CutAuthz),
            (_, E::Sg2Review) => Some(GateId::LifecycleAuthz),
            (_, E::Sg3Review) => Some(GateId::FailureEscalation),
            (_, E::Sg2Request | E::Void | E::Sweep) => None,
            _ => Some(self.phase.gate()),
        }
    }
}

/// An approval that must still be what it was when it was validated.
#[derive(Clone)]
pub(super) struct Recheck {
    pub(super) approval_kb_id: String,
    pub(super) sha256: Digest,
    pub(super) expires: Option<jiff::Timestamp>,
}

/// How often a transaction is tried again under the same identifiers before the run stops.
const ATTEMPTS: u32 = 4;

/// What carrying out a sovereign's word may take, whatever the caps say.
const WORD_MINUTES: u32 = 600;

impl Run<'_> {
    /// Takes the fence: from here on, lower epochs are refused everywhere in the database.
    pub(super) async fn take_fence(&mut self) -> Result<(), Halt> {
        if !self.live() {
            return Ok(());
        }
        let (run_id, document) = (self.sidecar.run_id.clone(), self.sidecar.document_id.clone());
        let taken = self.ports.executor.take_fence(&run_id, &document, self.caller.holder.holder).await;
        self.fence = Some(taken.map_err(|e| self.halt(e))?);
        self.still_newest().await
    }

    /// With the fence raised, the record must still be the one in hand: a driver that slept
    /// between reading and raising (or whose connection was cut by its successor) would act
    /// under a fresh fence on a revision that is history.
    async fn still_newest(&self) -> Result<(), Halt> {
        let run_id = &self.sidecar.run_id;
        let stored = self.ports.runs.load(run_id).await.map_err(|e| self.halt(e))?;
        if stored.is_some_and(|s| s.revision == self.revision) {
            return Ok(());
        }
        Err(Halt::Abort(Box::new(DriveError::Fenced { run_id: run_id.clone() })))
    }

    pub(super) fn fence(&self) -> Result<&Fence, Halt> {
        self.fence.as_ref().ok_or_else(|| Halt::stop(StopReason::Internal, "no fence was taken"))
    }

    pub(super) fn effect_key(&self, effect: EffectName, occurrence: u32) -> EffectKey {
        EffectKey { run_id: self.sidecar.run_id.clone(), effect, occurrence }
    }

    /// Asks for an effect that a lost attempt may have committed, and makes its survey the
    /// pins: a run must not stop on its own rows.
    pub(super) async fn adopt(&mut self, effect: EffectName, occurrence: u32) -> Result<bool, Halt> {
        let key = self.effect_key(effect, occurrence);
        let found = self.ports.reader.effect(&key).await.map_err(|e| self.halt(e))?;
        let Some(record) = found else { return Ok(false) };
        if effect == EffectName::Mark {
            // Its id became a pin with the phase's result, which was lost: without it the next
            // survey would not see the entry that this run made.
            if let Ok(entry) = self.intent().and_then(|i| Ok(i.id(IdName::Entry)?)) {
                self.pin(pin::ENTRY_ID, entry);
            }
        }
        self.follow(&record.facts);
        Ok(true)
    }

    /// Moves the pins by what a committed effect moved. A pin that is not what the effect began
    /// with has moved on already, or was acknowledged since: it stays.
    pub(super) fn follow(&mut self, facts: &EffectFacts) {
        let pins = &mut self.sidecar.drift_pins.0;
        for (dimension, after) in &facts.survey_after.0 {
            let before = facts.survey_before.0.get(dimension);
            if before != Some(after) && pins.get(dimension) == before {
                pins.insert(dimension.clone(), after.clone());
            }
        }
    }

    /// Whether an effect that happens once is in force already.
    pub(super) async fn committed(&self, effect: EffectName) -> Result<bool, Halt> {
        let key = self.effect_key(effect, 1);
        Ok(self.live() && self.ports.reader.effect(&key).await.map_err(|e| self.halt(e))?.is_some())
    }

    /// Performs an effect exactly once, whatever happened to earlier attempts at it.
    ///
    /// # Errors
    /// A failed gate, drift, a cap, or a port's failure, sorted by who must act.
    pub(super) async fn perform(&mut self, p: Performance<'_>) -> Result<(EffectRecord, GateReport), Halt> {
        let key = self.effect_key(p.act.effect(), p.occurrence);
        let mut ask_first = self.adopting;
        for attempt in 1..=ATTEMPTS {
            if core::mem::take(&mut ask_first) {
                let found = self.ports.reader.effect(&key).await.map_err(|e| self.halt(e))?;
                if let Some(record) = found {
                    return self.adopted(record, &p);
                }
            }
            let cx = EffectContext {
                fence: self.fence()?.clone(),
                key: key.clone(),
                effect_id: p.intent.id(IdName::Effect(p.act.effect()))?,
                payload_sha256: p.payload,
                at: p.intent.at,
                actor: self.caller.actor.clone(),
                deadline_ms: self.cap_left(p.phase)?,
                survey: self.scope(),
            };
            match self.attempt(&cx, &p).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(halt)) => return Err(halt),
                Err(error) if error.kind == PortErrorKind::OutcomeUnknown && attempt < ATTEMPTS => {
                    // The bump is a barrier: what is read after it is final.
                    self.take_fence().await?;
                    ask_first = true;
                }
                Err(error) if error.kind == PortErrorKind::Busy && attempt < ATTEMPTS => {
                    // Deadlock, serialisation, lock timeout: nothing was written; same ids again.
                    self.ports.clock.sleep(20 << attempt).await;
                }
                Err(error) => {
                    if matches!(error.kind, PortErrorKind::Denied | PortErrorKind::Conflict)
                        && p.recheck.is_some()
                    {
                        // the database may have heard a refusal first
                        self.hear_before_commit().await?;
                        self.no_other_refusal_stands().await?;
                    }
                    return Err(self.halt(error));
                }
            }
        }
        Err(Halt::stop(
            StopReason::DatabaseUnavailable,
            format!("{key:?}: no outcome after {ATTEMPTS} attempts"),
        ))
    }

    /// Performs what a sovereign's signed word asks for: it must go through although the run's
    /// own time is used up.
    pub(super) async fn perform_by_word(
        &mut self,
        p: Performance<'_>,
    ) -> Result<(EffectRecord, GateReport), Halt> {
        let granted = self.sidecar.granted_minutes;
        self.sidecar.granted_minutes = granted.saturating_add(WORD_MINUTES);
        let performed = self.perform(p).await;
        self.sidecar.granted_minutes = granted;
        performed
    }

    /// One transaction. The outer result is the port's, the inner one the judge's.
    async fn attempt(
        &mut self,
        cx: &EffectContext,
        p: &Performance<'_>,
    ) -> PortResult<Result<(EffectRecord, GateReport), Halt>> {
        let begun = match &p.act {
            Act::Execute(effect) => self.ports.executor.begin(cx, effect).await?,
            Act::Review { write, .. } => match self.reviewer() {
                Ok(reviewer) => reviewer.begin(cx, write).await?,
                Err(halt) => return Ok(Err(halt)),
            },
            Act::Verify(effect) => self.ports.verifier.begin(cx, effect).await?,
        };
        let pending = match begun {
            Begun::Recorded(record) => return Ok(self.adopted(record, p)),
            Begun::Pending(pending) => pending,
        };
        let refusal = self.refusal(cx, p, pending.facts()).await.err();
        let (mut report, mut verdict) = (p.judge)(pending.facts());
        if verdict == Verdict::Commit {
            let own = p.own_gate().map(|gate| self.own_checks(gate)).unwrap_or_default();
            report.checks.extend(own.into_iter().filter(|check| !check.ok));
            verdict = if report.ok() { verdict } else { Verdict::Rollback };
        }
        if refusal.is_some() || verdict == Verdict::Rollback {
            pending.finish(Verdict::Rollback).await?;
            return Ok(Err(refusal.unwrap_or_else(|| match report.gate {
                // it was accepted before: who answers, or what is asked, has changed
                gate if gate.is_sovereign() => Halt::stop(StopReason::ApprovalChanged, report.to_string()),
                _ => Halt::Fail(Box::new(report)),
            })));
        }
        let Some(record) = pending.finish(verdict).await? else {
            return Ok(Err(Halt::stop(StopReason::Internal, "a committed effect returned no record")));
        };
        self.pin_survey(record.facts.survey_after.clone());
        Ok(Ok((record, report)))
    }

    /// What is looked at while the transaction is open, besides the gate: drift before and
    /// after the write, and the approval once more.
    async fn refusal(
        &mut self,
        cx: &EffectContext,
        p: &Performance<'_>,
        facts: &EffectFacts,
    ) -> Result<(), Halt> {
        self.compare_with_pins(&facts.survey_before).await?;
        let after = drift::unexplained(cx.key.effect, p.units, &facts.survey_before, &facts.survey_after);
        if !after.is_empty() {
            return Err(Halt::drift(&after));
        }
        match &p.recheck {
            Some(recheck) if matches!(p.act, Act::Execute(_)) => {
                self.recheck(recheck).await?;
                self.hear_before_commit().await
            }
            Some(recheck) => self.recheck(recheck).await,
            None => Ok(()),
        }
    }

    /// What was filed, and the answers that committed effects rely on, must still be what they were:
    /// before an approval is spent, and before the run is closed. Whoever changed one can have it put
    /// back; the run goes on then.
    pub(super) async fn documents_stand(&self) -> Result<(), Halt> {
        for (path, sha256) in relied_on(&self.sidecar) {
            let observed = match self.ports.kb.read(&path).await {
                Ok(Some(document)) if document.sha256 == sha256 => continue,
                Ok(found) => found.map_or_else(|| "absent".to_string(), |d| d.sha256.to_hex()),
                Err(error) if error.kind.is_junk() => error.to_string(),
                Err(error) => return Err(self.halt(error)),
            };
            let own = |a: &ApprovalRecord| a.approval_kb_id == path && a.sha256 == Some(sha256);
            if self.sidecar.sovereign_approvals.last().is_some_and(own) && self.asking() {
                // the one that is about to be relied on is read again by itself
                continue;
            }
            return Err(Halt::stop(
                StopReason::KbConflict,
                format!(
                    "{path}: expected sha256 {sha256} as recorded, observed {observed}; next: cutter kb restore \
                     --run-id {}",
                    self.sidecar.run_id
                ),
            ));
        }
        Ok(())
    }

    /// The database holds a refusal that is nobody's valid word, or it would have been heard: whoever
    /// stored it can't refuse for good. The approval is not relied on, and the gate asks anew.
    async fn no_other_refusal_stands(&self) -> Result<(), Halt> {
        let Some(ask) = self.sidecar.ask.as_ref().filter(|_| self.asking()) else { return Ok(()) };
        let is_open = |stored: &&StoredAsk| stored.asked.ask == *ask;
        let stored = self.stored_asks().await?;
        match stored.iter().find(is_open).and_then(StoredAsk::refusal) {
            None => Ok(()),
            Some(refusal) => Err(Halt::stop(
                StopReason::ApprovalChanged,
                format!(
                    "{}: a refusal by {} is stored (sha256 {}), expected the valid signature of somebody who may \
                     refuse, observed none; once this stop is answered the gate asks anew",
                    refusal.approval_kb_id,
                    refusal.actor,
                    refusal.sha256()
                ),
            )),
        }
    }

    fn asking(&self) -> bool {
        matches!(self.stage(), Ok(Stage::AwaitingCutAuthorization | Stage::AwaitingLifecycleAuthorization))
    }

    /// Reads an approval again: it must be there, unedited and not expired.
    pub(super) async fn recheck(&self, recheck: &Recheck) -> Result<(), Halt> {
        let found = self.ports.kb.read(&recheck.approval_kb_id).await.map_err(|e| self.halt(e))?;
        let observed = found.map_or_else(|| "absent".to_string(), |d| d.sha256.to_hex());
        if observed != recheck.sha256.to_hex() {
            return Err(Halt::stop(
                StopReason::ApprovalChanged,
                format!(
                    "approval {}: expected sha256 {} as validated, observed {observed}",
                    recheck.approval_kb_id, recheck.sha256
                ),
            ));
        }
        let Some(end) = recheck.expires else { return Ok(()) };
        let now = self.ports.reader.now().await.map_err(|e| self.halt(e))?;
        if end <= now {
            return Err(Halt::stop(
                StopReason::ApprovalChanged,
                format!("approval {}: expired at {end}, now {now}", recheck.approval_kb_id),
            ));
        }
        Ok(())
    }

    /// Judges the stored facts of a committed effect again; time plays no part any more.
    fn adopted(
        &mut self,
        record: EffectRecord,
        p: &Performance<'_>,
    ) -> Result<(EffectRecord, GateReport), Halt> {
        if !same_payload(&record.payload_sha256, &p.payload) {
            return Err(Halt::stop(
                StopReason::ReplayConflict,
                format!(
                    "effect {} of {}: expected payload {}, observed {}",
                    record.key.effect, record.key.run_id, p.payload, record.payload_sha256
                ),
            ));
        }
        let (report, _) = (p.judge)(&record.facts);
        self.follow(&record.facts);
        Ok((record, report))
    }
}

/// `Commit` exactly if every invariant holds.
pub(super) fn commit_if_ok(report: GateReport) -> (GateReport, Verdict) {
    let verdict = if report.ok() { Verdict::Commit } else { Verdict::Rollback };
    (report, verdict)
}

/// A judge for effects whose only question is where the backlog entry stands.
pub(super) fn commit_if_status(
    expected: BacklogState,
) -> impl Fn(&EffectFacts) -> (GateReport, Verdict) + Sync {
    move |facts| commit_if_ok(backlog::judge(expected, facts))
}
