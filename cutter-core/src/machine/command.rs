//! The life of a ledger entry: intended, perhaps waiting for another attempt, done or failed.
//!
//! An attempt is a claim with a rising epoch; at most one is open. Ends are immutable: asking
//! again under the same key is accepted and writes nothing, as in the other machines.

use crate::machine::run::GateId;
use crate::machine::{Row, TransitionTable, deterministic, spelled};

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandState {
    /// The intent is durable and somebody holds the attempt; the effect may have happened.
    Intended,
    /// The last attempt is known not to have taken effect; another may follow after a delay.
    Waiting,
    /// The effect happened and its receipt is recorded: an end.
    Done,
    /// The effect did not happen and never will under this key: an end.
    Failed,
}

spelled!(CommandState, "command state", {
    Intended => "intended",
    Waiting => "waiting",
    Done => "done",
    Failed => "failed",
});

/// What moves an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandTrigger {
    /// Another executor, or the same one after a lost answer, takes an open attempt over: the
    /// adapter is asked before anything else.
    TakeOver,
    /// The attempt is known not to have taken effect, and the budget allows another.
    Wait,
    /// The delay is over: the next attempt.
    Retry,
    /// The effect happened.
    Complete,
    /// The effect did not happen and never will.
    Fail,
    /// The same command again: accepted, writes nothing.
    Replay,
}

spelled!(CommandTrigger, "command trigger", {
    TakeOver => "take_over",
    Wait => "wait",
    Retry => "retry",
    Complete => "complete",
    Fail => "fail",
    Replay => "replay",
});

use CommandState as S;
use CommandTrigger as T;

const fn row(from: S, trigger: T, to: S) -> Row<S, T> {
    const NONE: &[GateId] = &[];
    Row::keyed((from as u8, trigger as u8), from, trigger, NONE, to)
}

const ROWS: &[Row<S, T>] = &[
    row(S::Intended, T::TakeOver, S::Intended),
    row(S::Intended, T::Wait, S::Waiting),
    row(S::Intended, T::Complete, S::Done),
    row(S::Intended, T::Fail, S::Failed),
    row(S::Waiting, T::Retry, S::Intended),
    row(S::Done, T::Replay, S::Done),
    row(S::Failed, T::Replay, S::Failed),
];
const _: () = assert!(deterministic(ROWS), "two command rows share (from, trigger)");

/// The table of a ledger entry.
pub static COMMAND: TransitionTable<S, T> =
    TransitionTable::new("command", CommandState::ALL, S::Intended, &[S::Done, S::Failed], ROWS);
