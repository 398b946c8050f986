//! One internal phase, from entering it to the intent of the next (PROTOCOL §1).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::run::{Halt, Run};
use super::step::{self, Acted};
use crate::base::digest::Digest;
use crate::gate::drift;
use crate::machine::backlog::BacklogState;
use crate::machine::retry::{RetryDecision, RetryPolicy, decide};
use crate::machine::run::{GateId, Phase, Stage};
use crate::machine::stop::StopReason;
use crate::port::PortErrorKind;
use crate::port::environment::Progress;
use crate::port::knowledge_base::CreateOutcome;
use crate::record::effect::EffectName;
use crate::record::observed::Survey;
use crate::record::pin;
use crate::record::sidecar::{Artifact, Outbox, PhaseResult};
use crate::report::naming::{DocumentName, FolderSuffix, KbPath, run_folder, utc_date};
use crate::report::{PhaseReport, render_phase};

impl Run<'_> {
    pub(super) async fn phase(&mut self, phase: Phase) -> Result<(), Halt> {
        let owed = self.sidecar.outbox.is_some() && self.passed(phase);
        if !owed {
            self.ports.observer.progress(&Progress::PhaseStarted {
                phase: phase.as_str(),
                number: u32::from(phase.number()),
            });
            self.enter(phase).await?;
            let acted = step::of(phase).act(self).await?;
            self.settle(phase, acted).await?;
        }
        let filed = self.upload().await?;
        step::of(phase).filed(self).await?;
        self.advance(phase, filed).await
    }

    pub(super) fn passed(&self, phase: Phase) -> bool {
        self.sidecar.phases.get(phase.as_str()).is_some_and(|r| r.result == PhaseResult::Passed)
    }

    /// Adopts what a lost attempt committed, then surveys drift: in this order, or a run
    /// would stop on its own rows.
    async fn enter(&mut self, phase: Phase) -> Result<(), Halt> {
        self.cap_left(phase)?;
        if self.adopting && self.live() {
            for effect in step::of(phase).effects() {
                let occurrence = self.occurrence_of(*effect);
                self.adopt(*effect, occurrence).await?;
            }
        }
        self.check_drift().await?;
        step::of(phase).may_begin(self).await
    }

    /// Compares a fresh survey with the pins. The first survey becomes the pins.
    pub(super) async fn check_drift(&mut self) -> Result<(), Halt> {
        let live = self.survey().await?;
        if self.sidecar.drift_pins.0.keys().all(|dimension| dimension == drift::POLICY) {
            self.sidecar.drift_pins.0.extend(live.0);
            return Ok(());
        }
        self.compare_with_pins(&live).await
    }

    /// Stops the run if live values are not the pinned ones. Pins follow what a migration moved, and the
    /// decisions on the open ask that another host stored.
    pub(super) async fn compare_with_pins(&mut self, live: &Survey) -> Result<(), Halt> {
        let mut live = live.clone();
        // The policy is looked at where it counts, and is no dimension of the survey.
        if let Some(pinned) = self.sidecar.drift_pins.0.get(drift::POLICY) {
            live.0.insert(drift::POLICY.to_owned(), pinned.clone());
        }
        let live = &live;
        let mut differences = drift::compare(&self.sidecar.drift_pins, live);
        if !differences.is_empty() {
            let moves = self.ports.reader.migration_moves().await.map_err(|e| self.halt(e))?;
            drift::follow_migrations(&mut self.sidecar.drift_pins, &moves);
            differences = drift::compare(&self.sidecar.drift_pins, live);
        }
        let swept = |pin: &mut String| {
            // what is deferred is swept before it is asked anew, by this run or by any pass
            let (deferred, pending) = (BacklogState::ReviewedDeferred, BacklogState::ReviewPending.as_str());
            let is_so = pin == deferred.as_str()
                && live.0.get(drift::BACKLOG_STATUS).is_some_and(|status| status == pending);
            if is_so {
                pending.clone_into(pin);
            }
            is_so
        };
        if self.sidecar.drift_pins.0.get_mut(drift::BACKLOG_STATUS).is_some_and(swept) {
            differences = drift::compare(&self.sidecar.drift_pins, live);
        }
        if !differences.is_empty() && self.take_standing().await? {
            differences = drift::compare(&self.sidecar.drift_pins, live);
        }
        if differences.is_empty() { Ok(()) } else { Err(Halt::drift(&differences)) }
    }

    /// Which occurrence of an effect belongs to the run as it stands.
    pub(super) fn occurrence_of(&self, effect: EffectName) -> u32 {
        let gate = match effect {
            EffectName::Sg1Review => GateId::CutAuthz,
            EffectName::Sg2Review => GateId::LifecycleAuthz,
            _ => return 1,
        };
        self.sidecar.last_decision(gate).map_or(1, |(n, _)| n)
    }

    /// Step 5: the result and the rendered report, in one write.
    pub(super) async fn settle(&mut self, phase: Phase, mut acted: Acted) -> Result<(), Halt> {
        // Of what is committed the own gates were asked inside the transaction.
        let committed = self.live() && !step::of(phase).effects().is_empty();
        let own = self.own_checks(phase.gate()).into_iter();
        acted.gate.checks.extend(own.filter(|check| check.ok || !committed));
        if !acted.gate.ok() {
            return Err(Halt::Fail(acted.gate.into()));
        }
        self.cap_left(phase)?;
        self.sidecar.idempotency_keys.insert(phase.as_str().to_owned(), acted.key.clone());
        let text = self.render(phase, &acted)?;
        let name = self.document_name(phase)?;
        let finished = self.ports.clock.now();
        let bytes = text.len() as u64;
        let sha256 = self.owe(name.clone(), text.clone());
        let mut artifacts = alloc::vec![Artifact { path: name, sha256, bytes }];
        artifacts.extend(acted.artifacts);
        if let Some(record) = self.sidecar.phases.get_mut(phase.as_str()) {
            record.gate_invariants = acted.gate.as_map();
            record.artifacts = artifacts;
        }
        self.tick();
        if let Some(record) = self.sidecar.phases.get_mut(phase.as_str()) {
            record.result = PhaseResult::Passed;
            record.finished_utc = Some(finished);
        }
        self.persist().await?;
        self.mirror(phase, &text).await
    }

    fn render(&self, phase: Phase, acted: &Acted) -> Result<String, Halt> {
        let report = PhaseReport {
            phase,
            run_id: self.sidecar.run_id.to_string(),
            pass: acted.gate.ok(),
            production_mutation: acted.mutation.clone(),
            inputs: self.inputs(),
            work: acted.work.clone(),
            diff: acted.diff.clone(),
            gate: acted.gate.clone(),
            artifacts: acted.artifacts.iter().map(|a| (a.path.clone(), a.sha256, a.bytes)).collect(),
            verdict: acted.verdict.clone(),
            final_sections: acted.closing.clone(),
        };
        Ok(render_phase(&report)?)
    }

    /// The excerpt of the record that a report shows: pins, never the whole sidecar.
    pub(super) fn inputs(&self) -> Vec<(String, String)> {
        let own =
            [("document_id", self.sidecar.document_id.clone()), ("run_id", self.sidecar.run_id.to_string())];
        let own = own.into_iter().map(|(k, v)| (k.to_owned(), v));
        own.chain(self.sidecar.context_pins.iter().map(|(k, v)| (k.clone(), v.clone()))).collect()
    }

    pub(super) fn document_name(&self, phase: Phase) -> Result<String, Halt> {
        let at = self.intent()?.at;
        Ok(DocumentName::Phase(phase).file_name(utc_date(at)))
    }

    /// A copy in the run's own folder: derived, so that losing it loses nothing.
    pub(super) async fn mirror(&self, phase: Phase, text: &str) -> Result<(), Halt> {
        let name = format!("phase-{:02}.md", phase.number());
        let run_id = &self.sidecar.run_id;
        self.ports.runs.mirror(run_id, &name, text.as_bytes()).await.map_err(|e| self.halt(e))
    }

    /// Step 6: uploads exactly the bytes of the outbox; gives the path.
    pub(super) async fn upload(&mut self) -> Result<Artifact, Halt> {
        let missing = || Halt::corrupt("nothing is owed to the knowledge base");
        let outbox = self.sidecar.outbox.clone().ok_or_else(missing)?;
        let path = if self.live() { self.file(&outbox).await? } else { outbox.name.clone() };
        Ok(Artifact { path, sha256: outbox.sha256, bytes: outbox.text.len() as u64 })
    }

    /// Files a document in the run's folder, which the first document chooses: a folder
    /// that holds another run's documents is passed over (D33).
    pub(super) async fn file(&mut self, outbox: &Outbox) -> Result<String, Halt> {
        if let Some(folder) = &self.sidecar.kb_folder {
            let path = format!("{folder}/{}", outbox.name);
            return match self.put(&path, outbox).await? {
                CreateOutcome::Created | CreateOutcome::Identical => Ok(path),
                CreateOutcome::Different { found } => Err(self.kb_conflict(&path, outbox, found)),
            };
        }
        let mut last = None;
        for suffix in FolderSuffix::ALL {
            let folder = self.folder(*suffix)?;
            let path = format!("{}/{}", folder.as_str(), outbox.name);
            let listed = self.ports.kb.list(folder.as_str()).await.map_err(|e| self.halt(e))?;
            // A report names its run: where this one stands, byte for byte, the folder is this
            // run's, whatever a successor has filed beside it.
            if !listed.is_empty() && !listed.contains(&path) {
                continue;
            }
            match self.put(&path, outbox).await? {
                CreateOutcome::Created | CreateOutcome::Identical => {
                    self.sidecar.kb_folder = Some(folder.as_str().to_owned());
                    return Ok(path);
                }
                CreateOutcome::Different { found } => last = Some(self.kb_conflict(&path, outbox, found)),
            }
        }
        Err(last.unwrap_or_else(|| {
            Halt::stop(StopReason::KbConflict, "every folder name of this run holds another run's documents")
        }))
    }

    fn kb_conflict(&self, path: &str, outbox: &Outbox, found: Digest) -> Halt {
        Halt::stop(
            StopReason::KbConflict,
            format!(
                "{path}: expected sha256 {} or no document, observed {found}; next: cutter kb restore --run-id {}",
                outbox.sha256, self.sidecar.run_id
            ),
        )
    }

    /// The folder that the first document would choose, while the store answers.
    pub(super) async fn free_folder(&self) -> Option<String> {
        let owed = self.sidecar.outbox.as_ref();
        for suffix in FolderSuffix::ALL {
            let folder = self.folder(*suffix).ok()?;
            let listed = self.ports.kb.list(folder.as_str()).await.ok()?;
            let own = owed.map(|o| (format!("{}/{}", folder.as_str(), o.name), o.sha256));
            let free = match (listed.as_slice(), &own) {
                ([], _) => true,
                ([path], Some((own, sha256))) if path == own => {
                    self.ports.kb.read(path).await.ok()?.is_some_and(|d| d.sha256 == *sha256)
                }
                _ => false,
            };
            if free {
                return Some(folder.as_str().to_owned());
            }
        }
        None
    }

    fn folder(&self, suffix: FolderSuffix) -> Result<KbPath, Halt> {
        let version = self.sidecar.pinned(pin::SOURCE_SHA256).unwrap_or(Digest::from_bytes([0; 32]));
        run_folder(&self.sidecar.document_id, &version, self.sidecar.created_utc, suffix)
            .map_err(|e| Halt::stop(StopReason::Internal, e.to_string()))
    }

    /// Three retries with bounded backoff, then STOP_KB_UPLOAD (spec 2 §3).
    async fn put(&self, path: &str, outbox: &Outbox) -> Result<CreateOutcome, Halt> {
        let policy = RetryPolicy::kb_upload();
        let seed = outbox.sha256.as_bytes().iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b));
        let mut attempts = 0;
        loop {
            let error = match self.ports.kb.create(path, outbox.text.as_bytes()).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            attempts += 1;
            let again = matches!(error.kind, PortErrorKind::Unavailable | PortErrorKind::OutcomeUnknown);
            match decide(&policy, attempts, attempts, !again, seed) {
                RetryDecision::Retry { delay_ms, .. } => {
                    self.ports.observer.progress(&Progress::UploadRetry { attempt: attempts, delay_ms });
                    self.ports.clock.sleep(delay_ms).await;
                }
                RetryDecision::Exhausted { reason_code } => {
                    return Err(match self.halt(error) {
                        Halt::Stop(mut stop) => {
                            let line = format!("upload of {path}: {reason_code} after {attempts} attempts");
                            stop.detail.push(line);
                            Halt::Stop(stop)
                        }
                        other => other,
                    });
                }
            }
        }
    }

    /// Step 7: the document's path, the new state and the next intent, in one write. Before a
    /// phase that needs no durable intent that write is the phase's own step 5: until then the
    /// record owes a document that is filed already, and filing it again finds it.
    pub(super) async fn advance(&mut self, phase: Phase, filed: Artifact) -> Result<(), Halt> {
        self.leave(phase, filed)?;
        match self.stage()? {
            Stage::CloseoutReported => {
                self.finalise();
                return self.persist_last().await;
            }
            next @ (Stage::GrantsProbed | Stage::WriteVerified) if self.live() => {
                self.prepare_request(next, 1, None).await?;
            }
            next => match Phase::at_stage(next) {
                Some(following) => {
                    let intent = self.choose(following.as_str(), 1, &step::ids_of(following), false);
                    self.set_running(following, intent);
                    if !step::of(following).leaves_something() {
                        // No save brings the last stop request along: the next look asks for it.
                        let run_id = &self.sidecar.run_id;
                        self.ports.runs.stop_request(run_id).await.map_err(|e| self.halt(e))?;
                        return Ok(());
                    }
                }
                None => self.sidecar.intent = None,
            },
        }
        self.persist().await
    }

    /// Of step 7 what the phase leaves: its document's path, and the state behind it.
    pub(super) fn leave(&mut self, phase: Phase, filed: Artifact) -> Result<(), Halt> {
        self.ports
            .observer
            .progress(&Progress::PhasePassed { phase: phase.as_str(), kb_doc_id: filed.path.clone() });
        let stage = self.stage()?;
        // up to here it was this phase's time, not the next one's
        self.tick();
        if self.live() {
            if let Some(record) = self.sidecar.phases.get_mut(phase.as_str()) {
                record.kb_doc_id = Some(filed.path.clone());
            }
            self.sidecar.documents.push(filed);
        }
        self.sidecar.outbox = None;
        let missing = || Halt::corrupt(format!("no trigger leads on from {stage}"));
        let now = self.ports.clock.now();
        self.step(stage.awaits().ok_or_else(missing)?, now)
    }
}
