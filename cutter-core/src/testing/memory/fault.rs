//! The one gate that every fallible port call goes through: it counts, records, and fails
//! as a [`Fault`] says.
//!
//! A *life* is one process: once it died, every further call of it fails and its pending
//! transactions cannot finish. What it held (run locks) is released at once, as an
//! operating system would.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::port::{Port, PortError, PortErrorKind, PortResult};

/// One recorded call: `(port, operation)`, say `("database", "finish leg_a")`.
pub type Call = (Port, String);

/// Which call a fault strikes. Calls are counted per life, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// The call with this number.
    Call(u64),
    /// The `nth` call (from 1) with this port and operation.
    Operation {
        /// Port, say `run_store`.
        port: Port,
        /// Operation, say `publish`.
        op: String,
        /// Which of them, from 1.
        nth: u64,
    },
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The process dies before the call has any effect.
    DieBefore,
    /// The process dies after the call's effect, before it hears of it.
    DieAfter,
    /// The call fails with `OutcomeUnknown`, having done its work.
    UnknownDone,
    /// The call fails with `OutcomeUnknown`, having done nothing.
    UnknownNotDone,
    /// The call and the `times - 1` calls of the same port and operation after it fail with
    /// this kind, having done nothing.
    Fail {
        /// The error's kind, say `Unavailable`, `Fenced` or `Full`.
        kind: PortErrorKind,
        /// How often.
        times: u64,
    },
}

/// A planned failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub when: When,
    /// What.
    pub kind: FaultKind,
}

impl Fault {
    /// A fault at call number `call`.
    #[must_use]
    pub const fn at(call: u64, kind: FaultKind) -> Self {
        Self { when: When::Call(call), kind }
    }

    /// A fault at the first call of an operation.
    #[must_use]
    pub fn on(port: Port, op: &str, kind: FaultKind) -> Self {
        Self { when: When::Operation { port, op: op.to_string(), nth: 1 }, kind }
    }
}

/// Faults of one life; empty means that nothing goes wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan(pub Vec<Fault>);

impl FaultPlan {
    /// A plan with one fault.
    #[must_use]
    pub fn one(fault: Fault) -> Self {
        Self(alloc::vec![fault])
    }
}

/// What the gate knows of one life.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    dead: Option<Call>,
    trace: Vec<Call>,
    per_op: BTreeMap<Call, u64>,
    plan: Vec<Fault>,
    failing: VecDeque<(Call, PortErrorKind, u64)>,
}

/// What the gate lets a call do.
pub(super) enum Passage {
    /// Do it.
    Open,
    /// Do it, then die.
    OpenThenDie,
    /// Do it, then say that the outcome is unknown.
    OpenThenUnknown,
    /// Do nothing: this error.
    Closed(PortError),
    /// Do nothing and die: this error.
    ClosedAndDie(PortError),
}

impl Life {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self { plan: plan.0, ..Self::default() }
    }

    pub(super) const fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    pub(super) fn trace(&self) -> &[Call] {
        &self.trace
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        self.plan.push(fault);
    }

    pub(super) fn kill(&mut self, port: Port, op: &str) {
        if self.dead.is_none() {
            self.dead = Some((port, op.to_string()));
        }
    }

    /// The error of every call of a dead process.
    pub(super) fn death(&self, port: Port, op: &str) -> PortError {
        let at = match &self.dead {
            Some((port, op)) => format!("process is dead: it ended at {port}.{op}"),
            None => "process is dead".to_string(),
        };
        PortError::new(port, op, PortErrorKind::Unavailable, at)
    }

    pub(super) fn enter(&mut self, port: Port, op: &str) -> Passage {
        if self.is_dead() {
            return Passage::Closed(self.death(port, op));
        }
        let call: Call = (port, op.to_string());
        self.trace.push(call.clone());
        let number = self.trace.len() as u64;
        let nth = self.per_op.entry(call.clone()).or_insert(0);
        *nth += 1;
        let nth = *nth;
        if let Some(at) = self.failing.iter().position(|(failing, _, _)| *failing == call)
            && let Some((_, kind, times)) = self.failing.get_mut(at)
        {
            let kind = *kind;
            *times -= 1;
            if *times == 0 {
                self.failing.remove(at);
            }
            return Passage::Closed(injected(port, op, kind));
        }
        let struck = self.plan.iter().position(|fault| match &fault.when {
            When::Call(at) => *at == number,
            When::Operation { port: p, op: o, nth: n } => *p == port && o == op && *n == nth,
        });
        let Some(index) = struck else { return Passage::Open };
        match self.plan.remove(index).kind {
            FaultKind::DieBefore => {
                self.kill(port, op);
                Passage::ClosedAndDie(self.death(port, op))
            }
            FaultKind::DieAfter => Passage::OpenThenDie,
            FaultKind::UnknownDone => Passage::OpenThenUnknown,
            FaultKind::UnknownNotDone => Passage::Closed(unknown(port, op)),
            FaultKind::Fail { kind, times } => {
                if times > 1 {
                    self.failing.push_back((call, kind, times - 1));
                }
                Passage::Closed(injected(port, op, kind))
            }
        }
    }
}

/// The error of a call whose outcome is hidden from its caller.
pub(super) fn unknown(port: Port, op: &str) -> PortError {
    PortError::new(port, op, PortErrorKind::OutcomeUnknown, "injected: the answer was lost")
}

fn injected(port: Port, op: &str, kind: PortErrorKind) -> PortError {
    PortError::new(port, op, kind, "injected: nothing was done")
}

/// Hides a result behind a fault that strikes after the effect.
pub(super) fn hide<T>(result: PortResult<T>, error: PortError) -> PortResult<T> {
    match result {
        // an effect that failed by itself is known to have failed
        Err(own) if error.kind == PortErrorKind::OutcomeUnknown => Err(own),
        _ => Err(error),
    }
}
