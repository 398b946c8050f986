//! For tests: every port in memory, with faults; each port's contract as a suite; dying at every call.
//!
//! Uses everything. Nothing refuses to be tested by it, and nothing else may use it.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod crash;
pub mod memory;
