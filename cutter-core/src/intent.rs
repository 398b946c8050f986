//! Intents: what a phase is about to do, durable before it does it.
