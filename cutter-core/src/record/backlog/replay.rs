//! The state of an entry from history and signatures alone.

use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;

use super::{Duty, HistoryRow, Signature};
use crate::machine::IllegalTransition;
use crate::machine::backlog::{BACKLOG, BacklogState as S};

/// History that is no life of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// No row starts the entry.
    #[error("history has no first row: expected one from nothing to marked, observed {0}")]
    NoBeginning(usize),
    /// A row that the table does not have.
    #[error("history row {history_id}: {illegal}")]
    Illegal {
        /// Which row.
        history_id: Uuid,
        /// What is wrong with it.
        illegal: IllegalTransition,
    },
    /// The rows do not follow each other: one is missing, or one is too many.
    #[error("history breaks at {at}: {left} of its rows fit nowhere, the first is {history_id}")]
    Broken {
        /// Where the life stops.
        at: S,
        /// How many rows are left.
        left: usize,
        /// One of them.
        history_id: Uuid,
    },
    /// It ends in a state that lives inside a transaction only (OD-SM-2).
    #[error("history ends in {0}, which is never committed")]
    InFlight(S),
    /// A cut or a verification without its signature.
    #[error("history row {history_id} needs the {duty} signature of its change set: observed none")]
    Unsigned {
        /// Which row.
        history_id: Uuid,
        /// `executor` or `verifier`.
        duty: &'static str,
    },
}

/// Rebuilds the state. The rows may come in any order: a life is the one trail through all of
/// them, and where two moves could come next, the earlier one (by time, then id) does.
///
/// # Errors
/// [`ReplayError`]: the rows are no life of an entry, or a signature is missing.
pub fn replay(history: &[HistoryRow], signatures: &[Signature]) -> Result<S, ReplayError> {
    let trail = trail(history)?;
    for row in &trail {
        let duty = match row.to_state {
            S::CutApplied => Duty::Executor,
            S::VerifiedComplete | S::VerifyFailedEscalated => Duty::Verifier,
            _ => continue,
        };
        let is_signed = row
            .change_set_id
            .is_some_and(|set| signatures.iter().any(|s| s.change_set_id == set && s.duty == duty));
        if !is_signed {
            let duty = if duty == Duty::Executor { "executor" } else { "verifier" };
            return Err(ReplayError::Unsigned { history_id: row.history_id, duty });
        }
    }
    match trail.last() {
        None => Err(ReplayError::NoBeginning(0)),
        Some(last) if !last.to_state.is_committable() => Err(ReplayError::InFlight(last.to_state)),
        Some(last) => Ok(last.to_state),
    }
}

/// The rows in the order in which they happened: rows of one transaction share their time, so it is
/// the trail through them that tells. Rows that are no trail come by time, then id.
#[must_use]
pub fn timeline(history: &[HistoryRow]) -> Vec<HistoryRow> {
    if let Ok(rows) = trail(history) {
        return rows.into_iter().cloned().collect();
    }
    let mut rows = history.to_vec();
    rows.sort_by_key(|row| (row.at, row.history_id));
    rows
}

/// All rows as one trail from nothing (Hierholzer): no gap, no fork, each row once.
pub(super) fn trail(history: &[HistoryRow]) -> Result<Vec<&HistoryRow>, ReplayError> {
    let mut rows: Vec<&HistoryRow> = history.iter().collect();
    // latest first, so that `pop` gives the earliest
    rows.sort_by_key(|row| core::cmp::Reverse((row.at, row.history_id)));
    let mut leaving: Vec<Vec<&HistoryRow>> = vec![Vec::new(); BACKLOG.states().len()];
    let mut firsts = Vec::new();
    for row in rows {
        match row.from_state {
            None => firsts.push(row),
            Some(from) => {
                BACKLOG
                    .check(from, row.to_state)
                    .map_err(|illegal| ReplayError::Illegal { history_id: row.history_id, illegal })?;
                if let Some(list) = leaving.get_mut(from as usize) {
                    list.push(row);
                }
            }
        }
    }
    let first = match firsts.as_slice() {
        [first] if first.to_state == BACKLOG.initial() => *first,
        _ => return Err(ReplayError::NoBeginning(firsts.len())),
    };
    let mut open = vec![first];
    let mut done = Vec::with_capacity(history.len());
    while let Some(last) = open.last() {
        match leaving.get_mut(last.to_state as usize).and_then(Vec::pop) {
            Some(next) => open.push(next),
            None => done.extend(open.pop()),
        }
    }
    done.reverse();
    let mut at = None;
    for (i, row) in done.iter().enumerate() {
        if row.from_state != at {
            let left = history.len() - i;
            return Err(ReplayError::Broken {
                at: at.unwrap_or(S::Marked),
                left,
                history_id: row.history_id,
            });
        }
        at = Some(row.to_state);
    }
    if let Some(lost) = leaving.iter().flatten().next() {
        let left = history.len() - done.len();
        return Err(ReplayError::Broken { at: at.unwrap_or(S::Marked), left, history_id: lost.history_id });
    }
    Ok(done)
}
