//! The explicit manifest marker.
