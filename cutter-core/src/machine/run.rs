//! The run machine (spec 1).
