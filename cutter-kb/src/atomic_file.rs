//! atomic_file.
