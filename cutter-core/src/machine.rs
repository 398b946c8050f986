//! Transition tables, and the one `step` that reads them.
//!
//! A machine is plain static data: its states, what can arrive (triggers), and rows
//! `(from, trigger, gates, to)`. From the same table come the next state, the error for a
//! move that is not in it, the diagram ([`graph`]), the exhaustive tests and the comparison
//! with the SQL that enforces the same edges. A caller never picks a target: it says what
//! happened, and the table answers where that leads.
//!
//! The module knows nothing of databases, clocks or documents; gates are only *named* here,
//! judging them is the business of `gate`.
//!
//! ```
//! use cutter_core::machine::cut_request::{CUT_REQUEST, CutRequestStatus as S, CutRequestTrigger as T};
//! assert_eq!(CUT_REQUEST.step(S::Requested, T::Copy)?, S::Copied);
//! let refused = CUT_REQUEST.check(S::Marked, S::CutDone).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "illegal cut_request transition marked->cut_done (legal=mark_verified,mark_rejected)"
//! );
//! # Ok::<(), cutter_core::machine::IllegalTransition>(())
//! ```
pub mod backlog;
pub mod command;
pub mod cut_request;
pub mod graph;
pub mod phase;
pub mod retry;
pub mod run;
pub mod stop;
pub mod work_item;

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use self::run::GateId;

/// Something with one stored spelling: a state, a trigger, a gate.
///
/// The spelling is the same in JSON, in SQL and in documents, and never changes.
pub trait Spelled: Copy + Eq + fmt::Debug + 'static {
    /// The stored spelling.
    fn spelling(self) -> &'static str;
}

/// One row of a table: in `from`, `trigger` leads to `to` once every gate in `gates` passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<S: 'static, T: 'static, G: 'static = GateId> {
    /// Where the row starts.
    pub from: S,
    /// What arrives.
    pub trigger: T,
    /// What must hold, in the order in which it is judged; may be empty.
    pub gates: &'static [G],
    /// Where the row leads.
    pub to: S,
    key: (u8, u8),
}

impl<S, T, G> Row<S, T, G> {
    /// Builds a row. `key` is `(from as u8, trigger as u8)`: constant evaluation cannot
    /// compare generic values, and [`deterministic`] needs something to compare. Each machine
    /// wraps this in a private `row` that computes the key, so the two cannot differ.
    pub const fn keyed(key: (u8, u8), from: S, trigger: T, gates: &'static [G], to: S) -> Self {
        Self { from, trigger, gates, to, key }
    }
}

/// Whether no two rows share `(from, trigger)`: meant for `const _: () = assert!(…)`.
#[must_use]
pub const fn deterministic<S, T, G>(rows: &[Row<S, T, G>]) -> bool {
    let mut i = 0;
    while i < rows.len() {
        let mut j = i + 1;
        while j < rows.len() {
            if rows[i].key.0 == rows[j].key.0 && rows[i].key.1 == rows[j].key.1 {
                return false;
            }
            j += 1;
        }
        i += 1;
    }
    true
}

/// A machine: its name, its states, where it starts, where it ends, and its rows.
#[derive(Debug, Clone, Copy)]
pub struct TransitionTable<S: 'static, T: 'static, G: 'static = GateId> {
    machine: &'static str,
    states: &'static [S],
    initial: S,
    terminals: &'static [S],
    rows: &'static [Row<S, T, G>],
}

impl<S: Spelled, T: Spelled, G: Spelled> TransitionTable<S, T, G> {
    /// Builds a table. `machine` is the name that errors and diagrams use; `terminals` are the
    /// states that count as ends, even if bookkeeping rows leave them.
    pub const fn new(
        machine: &'static str,
        states: &'static [S],
        initial: S,
        terminals: &'static [S],
        rows: &'static [Row<S, T, G>],
    ) -> Self {
        Self { machine, states, initial, terminals, rows }
    }

    /// The machine's name, say `cut_request`.
    #[must_use]
    pub const fn machine(&self) -> &'static str {
        self.machine
    }

    /// All states, in the order of the specification.
    #[must_use]
    pub const fn states(&self) -> &'static [S] {
        self.states
    }

    /// The state that creation gives.
    #[must_use]
    pub const fn initial(&self) -> S {
        self.initial
    }

    /// The states that are ends.
    #[must_use]
    pub const fn terminals(&self) -> &'static [S] {
        self.terminals
    }

    /// All rows, in the order of the specification.
    #[must_use]
    pub const fn rows(&self) -> &'static [Row<S, T, G>] {
        self.rows
    }

    /// Whether `state` is an end.
    #[must_use]
    pub fn is_terminal(&self, state: S) -> bool {
        self.terminals.contains(&state)
    }

    /// The row for `(from, trigger)`, if there is one: the driver reads its gates here.
    #[must_use]
    pub fn row(&self, from: S, trigger: T) -> Option<&'static Row<S, T, G>> {
        self.rows.iter().find(|row| row.from == from && row.trigger == trigger)
    }

    /// The targets that can be reached from `from` in one move, without repeats, in row order.
    #[must_use]
    pub fn targets(&self, from: S) -> Vec<S> {
        let mut out = Vec::new();
        for row in self.rows.iter().filter(|row| row.from == from) {
            if !out.contains(&row.to) {
                out.push(row.to);
            }
        }
        out
    }

    /// Every distinct `(from, to)`, ordered by state: what the SQL functions must allow, and
    /// nothing else.
    #[must_use]
    pub fn edges(&self) -> Vec<(S, S)> {
        let targets = |&from: &S| self.targets(from).into_iter().map(move |to| (from, to));
        self.states.iter().flat_map(targets).collect()
    }

    /// Where `trigger` leads from `from`.
    ///
    /// # Errors
    /// [`IllegalTransition`] if no row starts there; having no target, it names the trigger.
    pub fn step(&self, from: S, trigger: T) -> Result<S, IllegalTransition> {
        match self.row(from, trigger) {
            Some(row) => Ok(row.to),
            None => Err(self.illegal(from, trigger.spelling())),
        }
    }

    /// Whether some row leads from `from` to `to`.
    ///
    /// # Errors
    /// [`IllegalTransition`] if none does.
    pub fn check(&self, from: S, to: S) -> Result<(), IllegalTransition> {
        if self.rows.iter().any(|row| row.from == from && row.to == to) {
            Ok(())
        } else {
            Err(self.illegal(from, to.spelling()))
        }
    }

    fn illegal(&self, from: S, to: &str) -> IllegalTransition {
        IllegalTransition {
            machine: self.machine,
            from: from.spelling().to_owned(),
            to: to.to_owned(),
            legal: self.targets(from).into_iter().map(|s| s.spelling().to_owned()).collect(),
        }
    }
}

/// Where `trigger` leads from `from` in `table`: [`TransitionTable::step`] as a function.
///
/// # Errors
/// [`IllegalTransition`] if the table has no such row.
pub fn step<S: Spelled, T: Spelled, G: Spelled>(
    table: &TransitionTable<S, T, G>,
    from: S,
    trigger: T,
) -> Result<S, IllegalTransition> {
    table.step(from, trigger)
}

/// A move that the table does not have. All four machines word it alike (spec 5):
/// `illegal cut_request transition X->Y (legal=a,b)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IllegalTransition {
    /// The machine's name.
    pub machine: &'static str,
    /// The stored state.
    pub from: String,
    /// The target asked for, or the trigger where there is no target.
    pub to: String,
    /// The targets that would have been legal.
    pub legal: Vec<String>,
}

impl fmt::Display for IllegalTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, from, to, legal } = self;
        write!(f, "illegal {machine} transition {from}->{to} (legal={})", legal.join(","))
    }
}

impl core::error::Error for IllegalTransition {}

/// A text that is no spelling of the named kind. Shown to whoever wrote or stored the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: observed {observed:?}, expected {expected}")]
pub struct UnknownName {
    /// What was expected, say `run state`.
    pub what: &'static str,
    /// The text as given, cut to 80 characters.
    pub observed: String,
    /// The texts that would have been right.
    pub expected: String,
}

impl UnknownName {
    pub(crate) fn new(what: &'static str, observed: &str, expected: impl ToString) -> Self {
        Self { what, observed: observed.chars().take(80).collect(), expected: expected.to_string() }
    }
}

/// Gives an enum its one stored spelling: `ALL`, `as_str`, `FromStr`, `Display`, serde.
/// The match in `as_str` is exhaustive, so no variant can be left out of `ALL`.
macro_rules! spelled {
    ($name:ident, $what:literal, { $($variant:ident => $text:literal),+ $(,)? }) => {
        #[allow(unreachable_pub, reason = "the enum may be private to its module")]
        impl $name {
            /// Every value, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stored spelling.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl $crate::machine::Spelled for $name {
            fn spelling(self) -> &'static str { self.as_str() }
        }
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }
        impl core::str::FromStr for $name {
            type Err = $crate::machine::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::machine::UnknownName::new(
                        $what,
                        text,
                        concat!("one of", $(" ", $text),+),
                    )),
                }
            }
        }
        impl serde::Serialize for $name {
            fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <alloc::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use spelled;

#[cfg(test)]
pub(crate) mod laws {
    //! What every table must obey, whichever machine it is.
    use super::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    /// Asserts the laws that all tables share, and walks every (state, trigger) and
    /// (state, state) pair.
    pub(crate) fn hold<S: Spelled, T: Spelled, G: Spelled>(table: &TransitionTable<S, T, G>, triggers: &[T]) {
        let spellings: BTreeSet<_> = table.states().iter().map(|s| s.spelling()).collect();
        assert_eq!(spellings.len(), table.states().len(), "two states share a spelling");
        for spelling in spellings {
            assert!(spelling.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{spelling}");
        }
        for (i, row) in table.rows().iter().enumerate() {
            assert!(table.states().contains(&row.from) && table.states().contains(&row.to));
            let twin = table.rows()[i + 1..].iter().find(|r| r.from == row.from && r.trigger == row.trigger);
            assert!(twin.is_none(), "two rows share {:?} {:?}", row.from, row.trigger);
        }
        for &from in table.states() {
            for &trigger in triggers {
                match table.row(from, trigger) {
                    Some(row) => {
                        assert_eq!(step(table, from, trigger), Ok(row.to));
                        assert_eq!(table.check(from, row.to), Ok(()));
                    }
                    None => {
                        let error = step(table, from, trigger).unwrap_err();
                        assert_eq!(
                            error.to_string(),
                            shape(table, from, trigger.spelling()),
                            "illegal trigger names the trigger"
                        );
                    }
                }
            }
            for &to in table.states() {
                let edge = table.edges().contains(&(from, to));
                assert_eq!(table.check(from, to).is_ok(), edge);
                if let Err(error) = table.check(from, to) {
                    assert_eq!(error.to_string(), shape(table, from, to.spelling()));
                }
            }
        }
        let mut reached = BTreeSet::from([table.initial().spelling()]);
        for _ in table.states() {
            for row in table.rows() {
                if reached.contains(row.from.spelling()) {
                    reached.insert(row.to.spelling());
                }
            }
        }
        assert_eq!(reached.len(), table.states().len(), "a state cannot be reached: {reached:?}");
    }

    fn shape<S: Spelled, T: Spelled, G: Spelled>(
        table: &TransitionTable<S, T, G>,
        from: S,
        to: &str,
    ) -> String {
        let mut legal = Vec::new();
        for row in table.rows() {
            if row.from == from && !legal.contains(&row.to.spelling()) {
                legal.push(row.to.spelling());
            }
        }
        std::format!(
            "illegal {} transition {}->{to} (legal={})",
            table.machine(),
            from.spelling(),
            legal.join(",")
        )
    }

    #[test]
    fn the_const_assertion_bites() {
        let row = |from: u8, trigger: u8| Row::<u8, u8, u8>::keyed((from, trigger), from, trigger, &[], 9);
        assert!(deterministic(&[row(1, 1), row(1, 2), row(2, 1)]));
        assert!(!deterministic(&[row(1, 1), row(1, 2), row(1, 1)]));
        assert!(deterministic::<u8, u8, u8>(&[]));
    }

    #[test]
    fn an_unknown_name_says_what_would_be_right() {
        let error = "S3".parse::<backlog::BacklogState>().unwrap_err().to_string();
        assert!(
            error.starts_with("not a backlog status: observed \"S3\", expected one of marked "),
            "{error}"
        );
    }
}
