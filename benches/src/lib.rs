//! Shared parts of the benchmarks: corpus reading and the paired median.
