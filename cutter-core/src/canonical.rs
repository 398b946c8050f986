//! Canonical JSON (RFC 8785).
