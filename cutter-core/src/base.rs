//! What everything else is built on: digests, canonical JSON, identifiers, keys, limits, names.
//!
//! Uses nothing of this crate. It refuses to know what a document, a run or a rule is.

pub mod canonical;
pub mod cas;
pub mod clip;
pub mod digest;
pub mod fingerprint;
pub mod id;
pub mod key;
pub mod limits;
pub mod merkle;
pub mod visible;
pub mod vocabulary;
