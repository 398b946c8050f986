//! What is stored and what is observed, as plain data: the record of a run, asks and answers, effects, settings,
//! entries, requests, items, events of the policy.
//!
//! Uses `base`, `machine` and `text`. It refuses to know who stores it, and who acts on it.

pub mod approval;
pub mod ask;
pub mod attestation;
pub mod backlog;
pub mod backup;
pub mod check;
pub mod command;
pub mod command_entry;
pub mod cut_request;
pub mod effect;
pub mod evidence;
pub mod intent;
pub mod observed;
pub mod pin;
pub mod policy;
pub mod queue;
pub mod rows;
pub mod settings;
pub mod sidecar;
pub mod signature;
pub mod staging;
pub mod statement;
pub mod stored_statement;
