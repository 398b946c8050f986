//! The boundary: record the intent, find out what a lost attempt did, call the adapter, record the
//! outcome. The only place where a handler's `perform` is called.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use uuid::Uuid;

use crate::base::limits::COMMAND_LEASE_MS;
use crate::gate::command::{Judgement, PayloadConflict};
use crate::machine::retry::{RetryDecision, RetryPolicy, RetryReasonCode, decide};
use crate::operate::command::{CommandHandler, Inquiry, RiskGate};
use crate::port::command_ledger::{Claim, Claimed, CommandLedger, Lease};
use crate::port::environment::Clock;
use crate::port::{Port, PortError, PortErrorKind};
use crate::record::command::{
    Command, CommandKey, CommandKind, FailureCode, InvalidCommand, Outcome, Settlement,
};

/// How often one call claims: a lost answer needs another round. The ledger outlives the call, so
/// the next one goes on from there.
const ROUNDS: u32 = 8;

/// How often a settlement whose answer was lost is sent in all.
const SETTLE_TRIES: u32 = 2;

/// Longest pause before somebody else's attempt is looked at again, in milliseconds.
const LOOK_MS: u64 = 20;

/// Who executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executor {
    /// By name.
    pub actor: String,
    /// One at a time: two calls at once must not share it. A worker that keeps it over a restart
    /// goes on with its own attempts at once; others wait for the lease to end.
    pub holder: Uuid,
}

/// How an outcome came about in this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// The adapter was called now.
    Performed,
    /// The adapter was asked what an earlier attempt had done.
    Resolved,
    /// It was recorded already.
    Replayed,
}

/// Where a command stands after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executed {
    /// It ended.
    Ended {
        /// How it ended.
        outcome: Outcome,
        /// How this call knows.
        how: How,
    },
    /// It did not happen yet and is to be tried again (`awaiting_tool`).
    Waiting {
        /// In so many milliseconds.
        delay_ms: u64,
    },
}

/// Why a command has no outcome in this call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No handler performs the kind. Nothing was recorded.
    #[error("command {key}: no handler for the kind {kind}; known: {}", known.join(", "))]
    UnknownKind {
        /// The command's key.
        key: CommandKey,
        /// Its kind.
        kind: CommandKind,
        /// What there is.
        known: Vec<String>,
    },
    /// Two handlers perform one kind.
    #[error("two handlers for the command kind {0}")]
    TwoHandlers(CommandKind),
    /// The handler knows no such payload. Nothing was recorded.
    #[error("command {key}: {kind} does not take this payload: {reason}")]
    Payload {
        /// The command's key.
        key: CommandKey,
        /// Its kind.
        kind: CommandKind,
        /// In the handler's words.
        reason: String,
    },
    /// The key stands for something else. Nothing was called.
    #[error(transparent)]
    Conflict(#[from] Box<PayloadConflict>),
    /// Somebody is at it; ask again later.
    #[error("command {key}: another executor is at it, for at most {left_ms} ms more")]
    Busy {
        /// The command's key.
        key: CommandKey,
        /// What is left of its lease.
        left_ms: u64,
    },
    /// Whether the effect happened is not known, and the adapter cannot say. Nothing was called
    /// again. Execute the same command once the adapter can.
    #[error("command {key}: attempt {epoch} may have taken effect and the adapter cannot tell: {reason}")]
    Unresolved {
        /// The command's key.
        key: CommandKey,
        /// The attempt.
        epoch: u32,
        /// In the adapter's words.
        reason: String,
    },
    /// A newer attempt is under way: stop at once.
    #[error("command {key}: attempt {epoch} is not the newest any more")]
    Fenced {
        /// The command's key.
        key: CommandKey,
        /// The attempt.
        epoch: u32,
    },
    /// The adapter was called and the ledger does not take the outcome. Execute the same command
    /// again: the adapter is asked then.
    #[error("command {key}: attempt {epoch} ended and is not recorded: {source}")]
    Unrecorded {
        /// The command's key.
        key: CommandKey,
        /// The attempt.
        epoch: u32,
        /// What the ledger said.
        source: PortError,
    },
    /// The ledger, the risk gate, or what is recorded. Nothing was called.
    #[error("command {key}: {source}")]
    Port {
        /// The command's key.
        key: CommandKey,
        /// What it said.
        source: PortError,
    },
    /// A recorded command does not read back.
    #[error(transparent)]
    Invalid(#[from] InvalidCommand),
}

/// The one way from a command to an adapter.
pub struct Boundary {
    ledger: Arc<dyn CommandLedger>,
    clock: Arc<dyn Clock>,
    handlers: BTreeMap<CommandKind, Arc<dyn CommandHandler>>,
    risk: Option<Arc<dyn RiskGate>>,
    policy: RetryPolicy,
    lease_ms: u64,
}

impl Boundary {
    /// A boundary without handlers. Attempts are bounded as uploads are.
    #[must_use]
    pub fn new(ledger: Arc<dyn CommandLedger>, clock: Arc<dyn Clock>) -> Self {
        let (handlers, policy) = (BTreeMap::new(), RetryPolicy::kb_upload());
        Self { ledger, clock, handlers, risk: None, policy, lease_ms: COMMAND_LEASE_MS }
    }

    /// Adds a handler for its kinds.
    ///
    /// # Errors
    /// [`CommandError::TwoHandlers`].
    pub fn handler(mut self, handler: Arc<dyn CommandHandler>) -> Result<Self, CommandError> {
        for kind in handler.kinds() {
            if self.handlers.contains_key(&kind) {
                return Err(CommandError::TwoHandlers(kind));
            }
            self.handlers.insert(kind, handler.clone());
        }
        Ok(self)
    }

    /// Asks this gate before each further attempt.
    #[must_use]
    pub fn risk_gate(mut self, gate: Arc<dyn RiskGate>) -> Self {
        self.risk = Some(gate);
        self
    }

    /// Bounds attempts and failures. An attempt is a claim: one that only asked counts, too.
    #[must_use]
    pub const fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// How long an attempt is its holder's: longer than an adapter's call may take.
    #[must_use]
    pub const fn lease_ms(mut self, lease_ms: u64) -> Self {
        self.lease_ms = lease_ms;
        self
    }

    /// Executes a command: at most one call takes effect under a key, whoever calls this, however
    /// often, on however many machines.
    ///
    /// # Errors
    /// [`CommandError`]. The same command may be executed again after any of them.
    pub async fn execute(&self, command: &Command, by: &Executor) -> Result<Executed, CommandError> {
        let handler = self.handler_of(command)?;
        if let Err(reason) = handler.check(command) {
            return self.unfit(command, reason).await;
        }
        let mut last = None;
        for _ in 0..ROUNDS {
            let claimed = match self.claim(command, by).await {
                Ok(claimed) => claimed,
                // the claim may stand; the same holder takes itself over
                Err(source) if source.kind == PortErrorKind::OutcomeUnknown && last.is_none() => {
                    last = Some(source);
                    continue;
                }
                Err(source) => return Err(CommandError::Port { key: command.key().clone(), source }),
            };
            if let Some(executed) = self.step(command, &**handler, claimed, &mut last).await? {
                return Ok(executed);
            }
        }
        let reason = last.map_or_else(|| format!("no end after {ROUNDS} attempts"), |e| e.to_string());
        Err(CommandError::Unresolved { key: command.key().clone(), epoch: 0, reason })
    }

    /// [`Self::execute`], waiting for others' attempts and for delays, `patience_ms` in all.
    ///
    /// # Errors
    /// As [`Self::execute`]; `Busy` when the patience is over.
    pub async fn execute_within(
        &self,
        command: &Command,
        by: &Executor,
        patience_ms: u64,
    ) -> Result<Executed, CommandError> {
        let mut left = patience_ms;
        loop {
            let executed = self.execute(command, by).await;
            let pause = match &executed {
                Ok(Executed::Waiting { delay_ms }) => (*delay_ms).max(1),
                Err(CommandError::Busy { left_ms, .. }) => (*left_ms).clamp(1, LOOK_MS),
                _ => return executed,
            };
            if pause > left {
                return executed;
            }
            left -= pause;
            self.clock.sleep(pause).await;
        }
    }

    /// Executes again what has not ended, at most `limit` entries after `after`, by key: what a
    /// process does when it starts. Gives each key with what became of it.
    ///
    /// # Errors
    /// The ledger's. What a single command meets stands beside its key.
    pub async fn recover(
        &self,
        by: &Executor,
        after: Option<&CommandKey>,
        limit: u32,
    ) -> Result<Vec<(CommandKey, Result<Executed, CommandError>)>, PortError> {
        let mut found = Vec::new();
        for entry in self.ledger.unsettled(after, limit).await? {
            let executed = match Command::from_body(&entry.key, &entry.body) {
                Ok(command) => self.execute(&command, by).await,
                Err(error) => Err(error.into()),
            };
            found.push((entry.key, executed));
        }
        Ok(found)
    }

    fn handler_of(&self, command: &Command) -> Result<&Arc<dyn CommandHandler>, CommandError> {
        self.handlers.get(command.kind()).ok_or_else(|| CommandError::UnknownKind {
            key: command.key().clone(),
            kind: command.kind().clone(),
            known: self.handlers.keys().map(ToString::to_string).collect(),
        })
    }

    /// A payload that the handler does not take: what stands under its key still answers first.
    async fn unfit(&self, command: &Command, reason: String) -> Result<Executed, CommandError> {
        let key = command.key().clone();
        let found = self.ledger.get(&key).await;
        let standing = found
            .map_err(|source| CommandError::Port { key: key.clone(), source })?
            .map(|entry| crate::gate::command::Standing { entry, lease_left_ms: 1, delay_left_ms: 1 });
        match crate::gate::command::judge(standing.as_ref(), command, Uuid::nil()) {
            Judgement::Replay(outcome) => Ok(Executed::Ended { outcome, how: How::Replayed }),
            Judgement::Conflict(conflict) => Err(Box::new(conflict).into()),
            _ => Err(CommandError::Payload { key, kind: command.kind().clone(), reason }),
        }
    }

    async fn claim(&self, command: &Command, by: &Executor) -> Result<Claimed, PortError> {
        let claim = Claim {
            command: command.clone(),
            actor: by.actor.clone(),
            holder: by.holder,
            lease_ms: self.lease_ms,
            at: self.clock.now(),
        };
        self.ledger.claim(&claim).await
    }

    /// What follows from one claim; `None`: an answer was lost, claim again.
    async fn step(
        &self,
        command: &Command,
        handler: &dyn CommandHandler,
        claimed: Claimed,
        last: &mut Option<PortError>,
    ) -> Result<Option<Executed>, CommandError> {
        let key = command.key();
        let Claimed { judgement, lease, failures } = claimed;
        let lease = match (judgement, lease) {
            (Judgement::Replay(outcome), _) => {
                return Ok(Some(Executed::Ended { outcome, how: How::Replayed }));
            }
            (Judgement::Conflict(conflict), _) => return Err(Box::new(conflict).into()),
            (Judgement::Busy { left_ms }, _) => {
                return Err(CommandError::Busy { key: key.clone(), left_ms });
            }
            (Judgement::Waiting { left_ms }, _) => return Ok(Some(Executed::Waiting { delay_ms: left_ms })),
            (judgement, None) => {
                let message = format!("the judgement {judgement} came without an attempt");
                let source = PortError::new(Port::CommandLedger, "claim", PortErrorKind::Corrupt, message);
                return Err(CommandError::Port { key: key.clone(), source });
            }
            (Judgement::Fresh, Some(lease)) => lease,
            (judgement, Some(lease)) => {
                if judgement == Judgement::Unresolved
                    && let Some(settlement) = self.inquire(command, handler, &lease).await?
                {
                    return self.settle(&lease, settlement, How::Resolved).await.map(Some);
                }
                if let Some(refusal) = self.refusal(command, &lease, failures).await? {
                    return self.settle(&lease, refusal, How::Resolved).await.map(Some);
                }
                lease
            }
        };
        let error = match handler.perform(command, &lease).await {
            Ok(receipt) => {
                let settlement = Settlement::Done { receipt };
                return self.settle(&lease, settlement, How::Performed).await.map(Some);
            }
            Err(error) => error,
        };
        let settlement = match error.kind {
            PortErrorKind::Unavailable | PortErrorKind::Busy | PortErrorKind::Full => {
                self.budget(command, lease.epoch, failures.saturating_add(1), &error.to_string())
            }
            PortErrorKind::Denied
            | PortErrorKind::Conflict
            | PortErrorKind::NotFound
            | PortErrorKind::Waits
            | PortErrorKind::Invalid => Settlement::failed(FailureCode::Refused, &error.to_string()),
            PortErrorKind::Fenced => {
                return Err(CommandError::Fenced { key: key.clone(), epoch: lease.epoch });
            }
            PortErrorKind::OutcomeUnknown | PortErrorKind::Deadline | PortErrorKind::Corrupt => {
                // A new epoch is a barrier for the call whose answer was lost.
                *last = Some(error);
                return Ok(None);
            }
        };
        self.settle(&lease, settlement, How::Performed).await.map(Some)
    }

    /// Asks the adapter what an earlier attempt did; `None`: nothing, and it never will.
    async fn inquire(
        &self,
        command: &Command,
        handler: &dyn CommandHandler,
        lease: &Lease,
    ) -> Result<Option<Settlement>, CommandError> {
        let unresolved = |reason: String| CommandError::Unresolved {
            key: command.key().clone(),
            epoch: lease.epoch,
            reason,
        };
        match handler.inquire(command, lease).await {
            Ok(Inquiry::Happened(receipt)) => Ok(Some(Settlement::Done { receipt })),
            Ok(Inquiry::Refused(why)) => Ok(Some(Settlement::failed(FailureCode::Refused, &why))),
            Ok(Inquiry::NotHappened) => Ok(None),
            Ok(Inquiry::Unknown(why)) => Err(unresolved(why)),
            Err(error) => Err(unresolved(error.to_string())),
        }
    }

    /// Why there is no further attempt: the budget, or the risk gate.
    async fn refusal(
        &self,
        command: &Command,
        lease: &Lease,
        failures: u32,
    ) -> Result<Option<Settlement>, CommandError> {
        let made = lease.epoch.saturating_sub(1);
        if let RetryDecision::Exhausted { reason_code } =
            decide(&self.policy, made, failures, false, command.key().seed())
        {
            let words = format!("{made} attempts, {failures} failures, none took effect");
            return Ok(Some(Settlement::failed(failure_code(reason_code), &words)));
        }
        let Some(gate) = &self.risk else { return Ok(None) };
        let answer = gate.allows(command, failures).await;
        let answer = answer.map_err(|source| CommandError::Port { key: command.key().clone(), source })?;
        Ok(answer.err().map(|why| Settlement::failed(FailureCode::RiskDenied, &why)))
    }

    /// What follows from a failure that left nothing behind.
    fn budget(&self, command: &Command, attempts: u32, failures: u32, words: &str) -> Settlement {
        match decide(&self.policy, attempts, failures, false, command.key().seed()) {
            RetryDecision::Retry { delay_ms, .. } => Settlement::waiting(delay_ms, words),
            RetryDecision::Exhausted { reason_code } => Settlement::failed(failure_code(reason_code), words),
        }
    }

    async fn settle(
        &self,
        lease: &Lease,
        settlement: Settlement,
        how: How,
    ) -> Result<Executed, CommandError> {
        let mut tried = 0;
        let entry = loop {
            tried += 1;
            match self.ledger.settle(lease, &settlement, self.clock.now()).await {
                Ok(entry) => break entry,
                Err(source)
                    if tried < SETTLE_TRIES
                        && matches!(
                            source.kind,
                            PortErrorKind::OutcomeUnknown | PortErrorKind::Unavailable | PortErrorKind::Busy
                        ) => {}
                Err(source) if source.kind == PortErrorKind::Fenced => return self.overtaken(lease).await,
                Err(source) => {
                    return Err(CommandError::Unrecorded {
                        key: lease.key.clone(),
                        epoch: lease.epoch,
                        source,
                    });
                }
            }
        };
        match (entry.outcome(), settlement) {
            (Some(outcome), _) => Ok(Executed::Ended { outcome, how }),
            (None, Settlement::Waiting { delay_ms, .. }) => Ok(Executed::Waiting { delay_ms }),
            (None, _) => Err(CommandError::Fenced { key: lease.key.clone(), epoch: lease.epoch }),
        }
    }

    /// A newer attempt exists: what it recorded, if it has ended.
    async fn overtaken(&self, lease: &Lease) -> Result<Executed, CommandError> {
        let key = lease.key.clone();
        let found = self.ledger.get(&key).await;
        match found
            .map_err(|source| CommandError::Port { key: key.clone(), source })?
            .and_then(|e| e.outcome())
        {
            Some(outcome) => Ok(Executed::Ended { outcome, how: How::Replayed }),
            None => Err(CommandError::Fenced { key, epoch: lease.epoch }),
        }
    }
}

impl core::fmt::Debug for Boundary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Boundary")
            .field("kinds", &self.handlers.keys().collect::<Vec<_>>())
            .field("policy", &self.policy)
            .field("lease_ms", &self.lease_ms)
            .finish_non_exhaustive()
    }
}

const fn failure_code(reason: RetryReasonCode) -> FailureCode {
    match reason {
        RetryReasonCode::MaxAttempts => FailureCode::MaxAttempts,
        // a terminal entry is replayed, so it is never asked about
        RetryReasonCode::MaxFailures | RetryReasonCode::AlreadyTerminal => FailureCode::MaxFailures,
        RetryReasonCode::RiskDenied => FailureCode::RiskDenied,
    }
}
