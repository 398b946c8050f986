//! The backlog machine (spec 3).
