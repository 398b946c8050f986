//! error.
