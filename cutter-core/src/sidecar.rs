//! The sidecar: the durable record of a run.
