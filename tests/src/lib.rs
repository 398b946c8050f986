//! Builders and spoilers shared by the cross-crate tests.
