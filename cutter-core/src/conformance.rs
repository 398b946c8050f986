//! The contract of each port as tests.
