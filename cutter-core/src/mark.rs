//! Marking: a region becomes a partition of addressed candidates.
pub mod manifest;
pub mod markdown;
