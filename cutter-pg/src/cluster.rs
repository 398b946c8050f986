//! cluster.
