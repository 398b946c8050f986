//! In-memory ports with fault injection.
