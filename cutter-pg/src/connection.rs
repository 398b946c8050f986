//! connection.
