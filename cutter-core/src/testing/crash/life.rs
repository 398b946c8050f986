//! One life of a driver: what strikes it, and at which call.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::port::{Port, PortError, PortErrorKind, PortResult};

/// One recorded call of a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The port, say `database`.
    pub port: Port,
    /// The operation, say `finish leg_a`.
    pub op: String,
}

impl Call {
    /// Whether the call ends a transaction.
    #[must_use]
    pub fn is_commit(&self) -> bool {
        self.port == Port::Database && self.op.starts_with("finish ")
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.port, self.op)
    }
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    /// The process dies; the call has no effect.
    DieBefore,
    /// The call has its effect; the process dies before it hears of it.
    DieAfter,
    /// The call has its effect; the answer is lost ([`PortErrorKind::OutcomeUnknown`]).
    UnknownDone,
    /// The call has no effect, and the caller cannot know it.
    UnknownNotDone,
    /// The process stands still before the call, until [`Life::thaw`].
    FreezeBefore,
    /// The process stands still after the call's effect, until [`Life::thaw`].
    FreezeAfter,
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DieBefore => "dies before",
            Self::DieAfter => "dies after",
            Self::UnknownDone => "loses the answer of (done)",
            Self::UnknownNotDone => "loses the answer of (not done)",
            Self::FreezeBefore => "freezes before",
            Self::FreezeAfter => "freezes after",
        })
    }
}

/// Which call is struck. Both count per life, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// The call with this number.
    Call(u64),
    /// The end of a transaction with this number ([`Call::is_commit`]).
    Commit(u64),
}

/// What strikes one life.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan(pub BTreeMap<When, Strike>);

impl Plan {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// One strike.
    #[must_use]
    pub fn at(call: u64, strike: Strike) -> Self {
        Self(BTreeMap::from([(When::Call(call), strike)]))
    }

    /// One strike at the end of a transaction.
    #[must_use]
    pub fn at_commit(commit: u64, strike: Strike) -> Self {
        Self(BTreeMap::from([(When::Commit(commit), strike)]))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing happens");
        }
        for (i, (when, strike)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match when {
                When::Call(n) => write!(f, "{comma}{strike} call {n}")?,
                When::Commit(n) => write!(f, "{comma}{strike} commit {n}")?,
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct State {
    plan: Plan,
    trace: Vec<Call>,
    commits: u64,
    died_at: Option<Call>,
    /// Strikes that happened, with the call that they happened at.
    struck: Vec<(u64, Strike, Call)>,
    frozen: bool,
    thawed: bool,
    ended: bool,
}

/// A handle on one life of a driver: its ports refer to it. Clones are the same life.
#[derive(Debug, Clone, Default)]
pub struct Life(Arc<(Mutex<State>, Condvar)>);

enum Passage {
    Open,
    Refused(PortError),
    Struck(Strike),
}

impl Life {
    /// A life that has not begun.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let life = Self::default();
        life.state().plan = plan;
        life
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls so far, in order.
    #[must_use]
    pub fn trace(&self) -> Vec<Call> {
        self.state().trace.clone()
    }

    /// Number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().trace.len() as u64
    }

    /// Strikes that happened: number of the call, what, and the call.
    #[must_use]
    pub fn struck(&self) -> Vec<(u64, Strike, Call)> {
        self.state().struck.clone()
    }

    /// Whether it died. A dead life refuses every call.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().died_at.is_some()
    }

    /// Kills it between two calls, as `kill -9` would.
    pub fn kill(&self) {
        self.die(&Call { port: Port::Of("process"), op: "kill".to_owned() });
    }

    /// Whether it stood still at some time.
    #[must_use]
    pub fn was_frozen(&self) -> bool {
        self.state().frozen
    }

    /// Says that whoever drove it has returned, so that nobody waits for it to freeze.
    pub fn end(&self) {
        self.state().ended = true;
        self.0.1.notify_all();
    }

    /// Waits until it stands still; `false` if it ended without.
    #[must_use]
    pub fn wait_frozen(&self) -> bool {
        let mut state = self.state();
        while !state.frozen && !state.ended {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.frozen
    }

    /// Lets a life that stands still go on.
    pub fn thaw(&self) {
        self.state().thawed = true;
        self.0.1.notify_all();
    }

    fn freeze(&self) {
        let mut state = self.state();
        state.frozen = true;
        self.0.1.notify_all();
        while !state.thawed {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn die(&self, call: &Call) {
        self.state().died_at.get_or_insert_with(|| call.clone());
    }

    fn death(&self, call: &Call) -> PortError {
        let state = self.state();
        let at = state.died_at.as_ref().unwrap_or(call);
        let message = format!("process is dead: it ended at {at}");
        PortError::new(call.port, call.op.clone(), PortErrorKind::Unavailable, message)
    }

    fn enter(&self, call: &Call) -> Passage {
        if self.is_dead() {
            return Passage::Refused(self.death(call));
        }
        let mut state = self.state();
        state.trace.push(call.clone());
        let number = state.trace.len() as u64;
        let mut strike = state.plan.0.remove(&When::Call(number));
        if call.is_commit() {
            state.commits += 1;
            let commit = When::Commit(state.commits);
            strike = strike.or(state.plan.0.remove(&commit));
        }
        let Some(strike) = strike else { return Passage::Open };
        state.struck.push((number, strike, call.clone()));
        Passage::Struck(strike)
    }

    /// The gate: every fallible call of every port passes here.
    pub(super) async fn call<T>(
        &self,
        port: Port,
        op: impl Into<String> + Send,
        work: impl Future<Output = PortResult<T>> + Send,
    ) -> PortResult<T> {
        let call = Call { port, op: op.into() };
        let unknown = |message: &str| {
            PortError::new(port, call.op.clone(), PortErrorKind::OutcomeUnknown, message.to_owned())
        };
        match self.enter(&call) {
            Passage::Open => work.await,
            Passage::Refused(error) => Err(error),
            Passage::Struck(Strike::DieBefore) => {
                self.die(&call);
                Err(self.death(&call))
            }
            Passage::Struck(Strike::DieAfter) => {
                // What the call handed out (a lock, a transaction) dies with the process.
                let died_with_it = work.await;
                self.die(&call);
                drop(died_with_it);
                Err(self.death(&call))
            }
            Passage::Struck(Strike::UnknownDone) => {
                work.await?;
                Err(unknown("the answer was lost"))
            }
            Passage::Struck(Strike::UnknownNotDone) => Err(unknown("the connection was lost")),
            Passage::Struck(Strike::FreezeBefore) => {
                self.freeze();
                work.await
            }
            Passage::Struck(Strike::FreezeAfter) => {
                let result = work.await;
                self.freeze();
                result
            }
        }
    }
}
