//! Idempotency keys: derived and minted.
