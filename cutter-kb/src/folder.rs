//! folder.
