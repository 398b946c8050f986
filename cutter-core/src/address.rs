//! Canonical addresses.
