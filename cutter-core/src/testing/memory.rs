//! In-memory ports: the executable model of every contract in [`crate::port`].
//!
//! A [`World`] is everything outside of the driver: database, knowledge base, run store,
//! backup target, clock, keys. A [`Process`] is one life of a driver in it, with a full set
//! of ports. Every fallible call of a process goes through one gate that counts it, records
//! it and can make it fail or end the process ([`FaultPlan`]), so a test can die before and
//! after every call there is, counted and not listed:
//!
//! ```
//! use cutter_core::testing::memory::{Fault, FaultKind, FaultPlan, World, block_on};
//!
//! let world = World::new(7);
//! let process = world.process_with(FaultPlan::one(Fault::at(1, FaultKind::DieBefore)));
//! let ports = process.ports();
//! assert!(block_on(ports.reader.check_schema()).is_err());
//! // a new life finds the world as the old one left it
//! assert!(block_on(world.process().ports().reader.check_schema()).is_ok());
//! ```
//!
//! The model is no store for real work: it lives in memory, and a transaction copies every
//! table. What it refuses to know: files, SQL, encryption that hides anything.

mod asks;
mod backlog;
mod backup;
mod command_ledger;
mod consent;
mod cut;
mod cut_request;
mod damage;
mod database;
mod environment;
mod evidence;
mod executor;
mod fault;
mod knowledge_base;
mod observe;
mod policy;
mod rows;
mod run_rows;
mod run_store;
mod signer;
mod snapshot;
mod statement;
mod tamper;
mod transaction;
mod work_queue;
mod world;

pub use backup::{MemoryBackupSource, MemoryBackupTarget, decipher};
pub use command_ledger::MemoryLedger;
pub use database::MemoryDatabase;
pub use environment::{MemoryClock, MemoryIds, Recorder};
pub use executor::block_on;
pub use fault::{Call, Fault, FaultKind, FaultPlan, When};
pub use knowledge_base::MemoryKnowledgeBase;
pub use run_store::MemoryRunStore;
pub use signer::{BadSignature, MemorySignatures, MemorySigner};
pub use tamper::Tamper;
pub use work_queue::MemoryWorkQueue;
pub use world::{MemoryPorts, Process, World};
