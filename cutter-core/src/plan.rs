//! The cut plan: rows, keys and the writer digest.
