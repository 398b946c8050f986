//! Shared parts of the benchmarks: corpus reading and the paired median.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "for benchmarks only"
)]

pub mod paired;
pub mod pg;
