//! Compare-and-set.

/// The answer of a compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CasOutcome<T> {
    /// Written now.
    Applied,
    /// Exactly this value stood there already.
    AlreadyApplied,
    /// Another value stands there.
    Conflict {
        /// What stands there.
        found: T,
    },
}
