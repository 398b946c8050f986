//! Pure core of `cutter`: state machines as data, gates that judge facts, ports
//! with written contracts, and the driver that is the only place where order matters.
//!
//! The crate is `no_std`: it reads no clock, no disk, no network, no environment and
//! no randomness. Adapters observe, gates judge, the driver acts.
#![no_std]
extern crate alloc;
#[cfg(any(test, feature = "memory"))]
extern crate std;

pub mod address;
pub mod approval;
pub mod attestation;
pub mod backlog;
pub mod canonical;
pub mod command;
pub mod compare;
pub mod cut_request;
pub mod detect;
pub mod digest;
pub mod drift;
pub mod driver;
pub mod fleet;
pub mod gate;
pub mod id;
pub mod inspect;
pub mod intent;
pub mod key;
pub mod limits;
pub mod machine;
pub mod mark;
pub mod merkle;
pub mod naming;
pub mod plan;
pub mod policy;
pub mod port;
pub mod profile;
pub mod queue;
pub mod report;
pub mod retry;
pub mod review;
pub mod rows;
pub mod settings;
pub mod sidecar;
pub mod statement;
pub mod stop;
pub mod visible;
pub mod vocabulary;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
pub mod crash;
#[cfg(feature = "memory")]
pub mod memory;
