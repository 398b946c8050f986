//! A run whose eleven phases do nothing: the driver's own writes, reports and uploads, and nothing
//! else. What durability costs is measured with it, and a run store tried out.
//!
//! Empty phases leave nothing that only an intent would find, so each shares its first write with the
//! one before, as a run's own phases do that only look: the protocol at its least.
//!
//! No database is asked but for the policy, and nothing is judged but the answer, so it is built with the feature `conformance` alone.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use super::create::{Begin, begin_run};

use super::listen::approval_prefix;
use super::resume::open;
use super::run::{Halt, Run};
use super::step::{Acted, ids_of};
use super::{Caller, DriveError, Driven, NewRun, Outcome, Ports};
use crate::base::id::RunId;
use crate::machine::run::{GateId, Phase, Stage};
use crate::record::approval::{Ask, Purpose, field};
use crate::record::check::{Check, GateReport};
use crate::report::naming::{AuthorizationGate, DocumentName, utc_date};

/// Begins a run (replay check, creation, claim, lock) and takes it through eleven phases that do
/// nothing; with `is_gated` it is parked before the last two, until [`resume`].
///
/// # Errors
/// What a store, the knowledge base or a signer refused. Nothing is recorded about it.
pub async fn run(
    ports: &Ports,
    caller: &Caller,
    request: &NewRun,
    is_gated: bool,
) -> Result<Driven, DriveError> {
    match begin_run(ports, caller, request).await? {
        Begin::Done(driven) => Ok(*driven),
        Begin::Run(run) => run.rehearse(is_gated).await,
    }
}

/// Takes a parked rehearsal to its end if its approval is there and valid; else it stays parked.
///
/// # Errors
/// As [`run`], and what keeps any run from being resumed.
pub async fn resume(ports: &Ports, caller: &Caller, run_id: &RunId) -> Result<Driven, DriveError> {
    open(ports, caller, run_id).await?.rehearse(false).await
}

impl Run<'_> {
    async fn rehearse(mut self, is_gated: bool) -> Result<Driven, DriveError> {
        match self.rehearsed(is_gated).await {
            Ok(outcome) => Ok(self.driven(outcome)),
            Err(halt) => Err(self.unrecorded(halt)),
        }
    }

    async fn rehearsed(&mut self, is_gated: bool) -> Result<Outcome, Halt> {
        if self.stage()? == Stage::WriteVerified && self.asks() {
            return self.file_request().await;
        }
        if self.sidecar.ask.is_some()
            && let Some(outcome) = self.answered().await?
        {
            return Ok(outcome);
        }
        while let Some(phase) = Phase::at_stage(self.stage()?) {
            self.empty_phase(phase).await?;
            if self.stage()? == Stage::WriteVerified && is_gated {
                return self.park().await;
            }
            // A gate is no phase: without one, its state is passed in the same write.
            while Phase::at_stage(self.stage()?).is_none()
                && let Some(trigger) = self.stage()?.awaits()
            {
                self.step(trigger, self.ports.clock.now())?;
            }
            // Nothing was done that only an intent would find: its write is the next phase's own.
            match Phase::at_stage(self.stage()?) {
                Some(following) => {
                    let intent = self.choose(following.as_str(), 1, &ids_of(following), false);
                    self.set_running(following, intent);
                }
                None => {
                    self.finalise();
                    self.persist_last().await?;
                }
            }
        }
        Ok(Outcome::Completed)
    }

    /// Steps 5 and 6 of a phase, and what it leaves.
    async fn empty_phase(&mut self, phase: Phase) -> Result<(), Halt> {
        let check = Check {
            invariant: format!("{}.rehearsed", phase.as_str()),
            expected: "nothing".to_string(),
            observed: "nothing".to_string(),
            ok: true,
        };
        let acted = Acted {
            gate: GateReport { gate: phase.gate(), checks: vec![check] },
            key: phase.as_str().to_string(),
            mutation: "NONE".to_string(),
            work: vec!["nothing".to_string()],
            diff: vec![],
            artifacts: vec![],
            verdict: vec![],
            closing: None,
        };
        self.settle(phase, acted).await?;
        let filed = self.upload().await?;
        self.leave(phase, filed)
    }

    /// The request in one write with the phase before it, its upload, and the write that parks.
    async fn park(&mut self) -> Result<Outcome, Halt> {
        let gate = GateId::LifecycleAuthz;
        let intent = self.choose(gate.as_str(), 1, &[], true);
        let (folder, date) = (self.sidecar.kb_folder.clone().unwrap_or_default(), utc_date(intent.at));
        let name = AuthorizationGate::Lifecycle;
        let file = DocumentName::Request { gate: name, occurrence: 1 }.file_name(date);
        let answer = DocumentName::Approval { gate: name, occurrence: 1 }.file_name(date);
        let sha256 = self.owe(file.clone(), format!("{}\n", intent.nonce.clone().unwrap_or_default()));
        let minimum = Ask::minimum(Purpose::Lifecycle.as_str()).unwrap_or_default();
        let mut required: BTreeMap<_, _> =
            minimum.iter().map(|key| ((*key).to_string(), "nothing".to_string())).collect();
        let head = self.chain().await?.head().map(|head| head.to_hex()).unwrap_or_default();
        required.insert(field::POLICY_HEAD.to_string(), head);
        required.insert(field::NONCE.to_string(), intent.nonce.clone().unwrap_or_default());
        required.insert(field::REQUEST_SHA256.to_string(), sha256.to_hex());
        let ask = Ask {
            gate,
            occurrence: 1,
            approval_type: Purpose::Lifecycle.to_string(),
            required,
            expected_actor: Some(self.sidecar.settings.lifecycle_actor.clone()),
            approval_path: format!("{folder}/{answer}"),
            request_path: format!("{folder}/{file}"),
        };
        self.sidecar.ask = Some(ask);
        self.sidecar.intent = Some(intent);
        self.persist().await?;
        self.file_request().await
    }

    /// Files the request that is owed, and parks.
    async fn file_request(&mut self) -> Result<Outcome, Halt> {
        let filed = self.upload().await?;
        self.sidecar.documents.push(filed);
        self.sidecar.outbox = None;
        let stage = self.stage()?;
        let missing = || Halt::corrupt(format!("no trigger leads on from {stage}"));
        self.step(stage.awaits().ok_or_else(missing)?, self.ports.clock.now())?;
        self.persist_last().await?;
        let no_ask = || Halt::corrupt("no request is open");
        Ok(Outcome::Paused {
            ask: self.sidecar.ask.clone().ok_or_else(no_ask)?,
            invalid: vec![],
            too_few: None,
        })
    }

    /// Looks for the answer as a run does: `None`, and one write, if it is there.
    async fn answered(&mut self) -> Result<Option<Outcome>, Halt> {
        let Some(ask) = self.sidecar.ask.clone() else { return Ok(None) };
        let gate = GateId::LifecycleAuthz;
        let heard = self.search(core::slice::from_ref(&ask), approval_prefix(gate)).await?;
        let too_few = heard.too_few(None);
        let first = heard.valid.first().filter(|answer| answer.approval.allows() && too_few.is_none());
        let first = first.filter(|_| heard.unclear.is_none());
        let Some(answer) = first else {
            return Ok(Some(Outcome::Paused { ask, invalid: heard.invalid, too_few }));
        };
        let record = self.approval_record(gate, answer);
        self.sidecar.sovereign_approvals.push(record);
        self.sidecar.ask = None;
        let intent = self.choose(Phase::LifecycleEnact.as_str(), 1, &ids_of(Phase::LifecycleEnact), false);
        self.set_running(Phase::LifecycleEnact, intent);
        self.persist().await?;
        Ok(None)
    }
}
