//! Phase reports.
