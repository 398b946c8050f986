//! Identifiers.
