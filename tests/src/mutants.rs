//! Mutants: the rules of the database and of the core with one condition taken out or turned, and
//! what the tests say to each. `sql_mutants` and `core_mutants` (in `src/bin`) are the programs.
//!
//! A mutant is *noticed* if a test that reaches the changed place fails or does not end. One that
//! nobody notices is either a guard that no test holds, and wants a test, or changes nothing that
//! could be seen; the lists in `tests/lists` name those, each with its reason. An entry of a list
//! whose mutant is noticed, or is no mutant any more, is an error.

pub mod conditions;
pub mod definitions;
pub mod ledger;
pub mod lexer;
pub mod options;
pub mod places;
pub mod reach;
pub mod suite;

/// An error as text, with what it came of.
///
/// # Errors
/// The outcome's own.
pub fn text<T, E: std::fmt::Display>(outcome: Result<T, E>, what: &str) -> Result<T, String> {
    outcome.map_err(|error| format!("{what}: {error}"))
}
